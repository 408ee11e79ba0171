"""torch.save, torch.load, storages, and pickles and copies of tensors."""

import collections
import contextlib
import copy
import io
import mmap
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import warnings
import zipfile
from typing import Any

import pickle_assembly as made_of
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import nn, serialization

DTYPES = ("bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 float8_e4m3fn "
          "float8_e5m2 complex64 complex128").split()


def written(value: Any, **kwargs: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file, **kwargs)
    file.seek(0)
    return file


def round_trip(value: Any, **kwargs: Any) -> Any:
    return torch.load(written(value), **kwargs)


class Settings:
    """A class of a user's."""

    def __init__(self, value: int) -> None:
        self.value = value

    @classmethod
    def made(cls, value: int) -> "Settings":
        return cls(value)


class Marked(torch.Tensor):
    """A subclass of a user's."""


# what comes back -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_keeps_its_bits(name: str, zipped: bool) -> None:
    dtype = getattr(torch, name)
    tensor = torch.tensor([0, 1, 2, 3, 100]).to(dtype)
    found = torch.load(written({"t": tensor}, _use_new_zipfile_serialization=zipped))["t"]
    assert found.dtype is dtype
    assert found.untyped_storage().tolist() == tensor.untyped_storage().tolist()


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_storages_stay_shared_and_views_keep_their_geometry(zipped: bool, weights_only: bool) -> None:
    base = torch.arange(12.0)
    value = {"base": base, "part": base[2:8], "turned": base.view(3, 4).t(), "spread": base[:1].expand(5)}
    file = written(value, _use_new_zipfile_serialization=zipped)
    found = torch.load(file, weights_only=weights_only)
    for name, tensor in value.items():
        assert found[name].stride() == tensor.stride()
        assert found[name].storage_offset() == tensor.storage_offset()
        assert found[name].tolist() == tensor.tolist()
    found["base"][3] = 77
    assert found["part"][1] == 77 and found["turned"][3, 0] == 77


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_sparse_tensors(zipped: bool, weights_only: bool) -> None:
    dense = torch.tensor([[0, 1.0, 0], [2.0, 0, 3.0]])
    kinds = [dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(),
             torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (3,)), torch.sparse_coo_tensor([[1]], [[1.0, 2.0]], (3, 2))]
    found = torch.load(written(kinds, _use_new_zipfile_serialization=zipped), weights_only=weights_only)
    for one, other in zip(found, kinds, strict=True):
        assert one.layout is other.layout and one.shape == other.shape
        assert one.to_dense().tolist() == other.to_dense().tolist()
        if one.layout is torch.sparse_coo:
            assert one.is_coalesced() == other.is_coalesced()


def marked(zipped: bool, kind: str, flags: str, *geometries: tuple[int, tuple[int, ...], tuple[int, ...]]) -> bytes:
    """A file as PyTorch writes it for tensors on one storage that carry the marks conj or neg, and for one without."""
    data, count = struct.pack("<6f", 1, 2, 3, -1, 5, 6), 3 if "Complex" in kind else 6
    text, number, numbers = made_of.text, made_of.number, made_of.numbers
    fields = (text("storage"), made_of.name(kind), text("1"), text("cpu"), number(count), *(() if zipped else (b"N",)))
    storage = made_of.tuple_of(*fields) + b"Q"
    marks = b"}(" + b"".join(text(flag) + b"\x88" for flag in flags.split()) + b"u"
    tensors = made_of.list_of(
        *(made_of.tensor(storage, number(offset), numbers(*size), numbers(*stride), marks)
          for offset, size, stride in geometries), made_of.tensor(storage, number(0), numbers(count), numbers(1)))
    return made_of.archive(tensors, {"data/1": data}) if zipped else \
        made_of.old_format(tensors, data=struct.pack("<q", count) + data)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_conjugated_and_negated_tensors_of_pytorch(zipped: bool, weights_only: bool) -> None:
    def load(*args: Any) -> list[torch.Tensor]:
        return torch.load(io.BytesIO(marked(zipped, *args)), weights_only=weights_only)

    whole = (0, (3,), (1,))
    one, plain = load("torch.ComplexFloatStorage", "conj", whole)
    assert one.tolist() == [1 - 2j, 3 + 1j, 5 - 6j] and plain.tolist() == [1 + 2j, 3 - 1j, 5 + 6j]
    assert load("torch.ComplexFloatStorage", "neg", whole)[0].tolist() == [-1 - 2j, -3 + 1j, -5 - 6j]
    assert load("torch.ComplexFloatStorage", "conj neg", whole)[0].tolist() == [-1 + 2j, -3 - 1j, -5 + 6j]
    imaginary, plain = load("torch.FloatStorage", "neg", (1, (3,), (2,)))
    assert imaginary.tolist() == [-2, 1, -6] and imaginary.stride() == (2,) and imaginary.storage_offset() == 1
    first, second, plain = load("torch.FloatStorage", "neg", (0, (6,), (1,)), (0, (2, 3), (0, 2)))
    assert second.tolist() == [[-1, -3, -5]] * 2
    first[2] = 9  # all share their memory, and see it through their marks
    assert second[0].tolist() == [-1, 9, -5] and plain.tolist() == [1, 2, -9, -1, 5, 6]


@pytest.mark.parametrize("zipped", [True, False])
def test_damaged_indices_are_noticed(zipped: bool) -> None:
    matrix = torch.sparse_csr_tensor([0, 1, 3], [1, 0, 2], [1.0, 2.0, 3.0], (2, 3))
    data = written(matrix, _use_new_zipfile_serialization=zipped).getvalue()
    columns = struct.pack("<3q", 1, 0, 2)
    assert columns in data
    with pytest.raises(RuntimeError, match="0 <= col_indices < ncols"):
        torch.load(io.BytesIO(data.replace(columns, struct.pack("<3q", 1, 0, 7))))


def test_a_view_brings_its_whole_storage() -> None:
    found = round_trip(torch.arange(100.0)[5:7])
    assert found.untyped_storage().nbytes() == 400


def test_grad_flags_parameters_and_attributes() -> None:
    leaf = torch.ones(2, requires_grad=True)
    parameter = nn.Parameter(torch.ones(3), requires_grad=False)
    tagged = nn.Parameter(torch.ones(1))
    tagged.note = "kept"
    plain = torch.zeros(1)
    plain.unit = "mm"
    found = round_trip([leaf, leaf * 2, parameter, tagged, plain])
    assert [t.requires_grad for t in found] == [True, True, False, True, False]
    assert all(t.is_leaf for t in found)
    assert type(found[2]) is nn.Parameter and type(found[3]) is nn.Parameter
    assert found[3].note == "kept" and found[4].unit == "mm"


def test_subclass_needs_to_be_allowed() -> None:
    file = written(torch.ones(2).as_subclass(Marked))
    with pytest.raises(pickle.UnpicklingError, match="Marked was not an allowed global"):
        torch.load(file)
    file.seek(0)
    with serialization.safe_globals([Marked]):
        assert type(torch.load(file)) is Marked
    file.seek(0)
    assert type(torch.load(file, weights_only=False)) is Marked


def test_other_types() -> None:
    value = {
        "dtype": torch.bfloat16, "device": torch.device("cpu"), "size": torch.Size([2, 3]), "layout": torch.strided,
        "complex": 1 + 2j, "set": {1, 2}, "bytes": b"\x00\xff", "bytearray": bytearray(b"ab"), "big": -(2**70),
        "float": 1.5, "none": None, "bool": True, "tuple": (1, (2,)), "long tuple": tuple(range(9)), "text": "ä" * 300,
        "counter": collections.Counter("aab"), "ordered": collections.OrderedDict(a=1), "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5), 3: "key", (1, "a"): "tuple key",
    }  # fmt: skip
    found = round_trip(value)
    for key in value:
        assert type(found[key]) is type(value[key])
        if not isinstance(value[key], torch.Tensor):
            assert found[key] == value[key]
    assert found["empty"].shape == (0, 3) and found["scalar"].item() == 2.5
    assert round_trip(torch.empty(2, 3, device="meta")).device.type == "meta"


def test_storages_themselves() -> None:
    untyped, typed = round_trip([torch.ones(2).untyped_storage(), torch.FloatStorage([1.5, 2])])
    assert untyped.tolist() == [0, 0, 128, 63] * 2
    assert isinstance(typed, torch.FloatStorage) and typed.tolist() == [1.5, 2.0]


@pytest.mark.parametrize("zipped", [True, False])
def test_a_storage_without_bytes_has_any_type(zipped: bool) -> None:
    empty = torch.tensor([])
    other = torch.TypedStorage(wrap_storage=empty.untyped_storage(), dtype=torch.int64)
    found = torch.load(written([empty, other], _use_new_zipfile_serialization=zipped))
    assert found[0].shape == (0,) and len(found[1]) == 0


def test_files_of_python_2() -> None:
    """Where texts are bytes, as PyTorch 0.4 wrote them there; the names of storages are such texts."""
    head = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + b"\x80\x02}."
    storage = b"(U\x07storagectorch\nFloatStorage\nU\x011U\x03cpuK\x02NtQ"
    hooks = b"ccollections\nOrderedDict\n)R"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00K\x02\x85K\x01\x85\x89" + hooks + b"tR"
    data = head + b"\x80\x02](U\x02\xc5\xbc" + tensor + b"e.\x80\x02]U\x011a." + struct.pack("<qff", 2, 1.5, 2.5)
    for weights_only in (True, False):
        text, found = torch.load(io.BytesIO(data), weights_only=weights_only)
        assert text == "\u017c" and found.tolist() == [1.5, 2.5]
        with pytest.warns(UserWarning, match="pickle_load_args") if weights_only else contextlib.nullcontext():
            text, found = torch.load(io.BytesIO(data), weights_only=weights_only, encoding="bytes")
        assert text == b"\xc5\xbc" and found.tolist() == [1.5, 2.5]


def test_one_storage_as_two_types_is_refused() -> None:
    bits = torch.ones(2)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        written([bits, bits.view(torch.int32)])


def test_generator_continues() -> None:
    generator = torch.Generator().manual_seed(3)
    found = round_trip(generator, weights_only=False)
    assert torch.rand(5, generator=found).tolist() == torch.rand(5, generator=generator).tolist()


def test_modules_and_optimizers() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    found = round_trip(model, weights_only=False)
    assert repr(found) == repr(model)
    assert torch.equal(found(torch.ones(2, 3)), model(torch.ones(2, 3)))
    state = round_trip({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    assert list(state["model"]) == list(model.state_dict())
    again = torch.optim.Adam(found.parameters(), lr=0.5)
    again.load_state_dict(state["optimizer"])
    assert again.param_groups[0]["lr"] == 0.1
    assert state["model"]._metadata == model.state_dict()._metadata


def test_hooks_are_not_saved_and_said_so() -> None:
    tensor = torch.ones(1, requires_grad=True)
    tensor.register_hook(lambda grad: grad)
    with pytest.warns(UserWarning, match="will not be serialized"):
        written(tensor)


# allowed globals -----------------------------------------------------------------------------------------------------


def test_safe_globals() -> None:
    file = written({"s": Settings(5), "m": nn.Linear(1, 1)})
    name = f"{__name__}.Settings"
    file.seek(0)
    assert serialization.get_unsafe_globals_in_checkpoint(file) == sorted([name, "torch.nn.modules.linear.Linear"])
    before = serialization.get_safe_globals()
    serialization.add_safe_globals([Settings])
    assert Settings in serialization.get_safe_globals()
    with serialization.safe_globals([nn.Linear]):
        file.seek(0)
        found = torch.load(file)
    assert found["s"].value == 5 and found["m"].in_features == 1
    assert nn.Linear not in serialization.get_safe_globals()
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals(before)


def test_a_method_of_a_class_is_a_safe_global() -> None:
    class Calls:
        def __reduce__(self) -> tuple:
            return Settings.made, (3,)

    with serialization.safe_globals([Settings, getattr, Settings.made]):
        assert round_trip(Calls()).value == 3
    with serialization.safe_globals([Settings, getattr]), pytest.raises(
            pickle.UnpicklingError, match="unrecognized function made of <class '.*Settings'>"):
        round_trip(Calls())


def test_safe_global_by_another_name() -> None:
    file = written(Settings(5))
    data = file.getvalue().replace(b"\nSettings\n", b"\nSettingz\n")
    with serialization.safe_globals([(Settings, f"{__name__}.Settingz")]):
        assert torch.load(io.BytesIO(data)).value == 5


def test_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(Settings(5))
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(file, weights_only=False)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="Only one of"):
        torch.load(file)
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    file.seek(0)
    with pytest.warns(UserWarning, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected"):
        assert torch.load(file).value == 5


def test_pickle_module() -> None:
    file = written({"a": torch.ones(1)}, pickle_module=pickle, pickle_protocol=4)
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_module is specified"):
        torch.load(file, pickle_module=pickle, weights_only=True)
    assert torch.load(file, pickle_module=pickle)["a"].item() == 1


# the file ------------------------------------------------------------------------------------------------------------


def test_members_are_pytorchs_and_aligned(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "my.model.pt"
    torch.save({"a": torch.arange(5), "b": torch.ones(3)}, path)
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        names = file.namelist()
        assert names == [f"my.model/{name}" for name in (
            "data.pkl", ".format_version", ".storage_alignment", "byteorder", "data/0", "data/1", "version",
            ".data/serialization_id")]  # fmt: skip
        assert file.read("my.model/version") == b"3\n"
        assert file.read("my.model/byteorder").decode() == sys.byteorder
        assert file.read("my.model/.storage_alignment") == b"64"
        assert len(file.read("my.model/.data/serialization_id")) == 40
        content = path.read_bytes()
        for name in names[4:6]:
            assert content.index(file.read(name)) % 64 == 0
        assert all(member.compress_type == zipfile.ZIP_STORED for member in file.infolist())


def test_check_sums_may_be_left_out() -> None:
    assert serialization.get_crc32_options() is True
    serialization.set_crc32_options(False)
    try:
        file = written(torch.arange(4))
    finally:
        serialization.set_crc32_options(True)
    assert [member.CRC for member in zipfile.ZipFile(file).infolist()] == [0] * 7
    file.seek(0)
    assert torch.load(file).tolist() == [0, 1, 2, 3]


def test_members_above_4_gb_have_wide_fields() -> None:
    from mindtorch_v2._files import archive as _archive

    class Large(bytes):
        def __len__(self) -> int:
            return (1 << 32) + 5

    pieces: list[Any] = []
    writer = _archive.Writer(pieces.append, "archive", False)
    writer.put = lambda data: (pieces.append(bytes(data)), setattr(writer, "position", writer.position + len(data)))
    writer.add("data/0", Large(b""))
    writer.position = (1 << 32) + 500
    writer.add("data/1", b"after")
    writer.close()
    directory = b"".join(pieces[pieces.index(next(p for p in pieces if p.startswith(b"PK\1\2"))) :])
    wide = ((1 << 32) + 5).to_bytes(8, "little")
    assert wide * 2 in directory and ((1 << 32) + 500).to_bytes(8, "little") in directory


def test_paths_and_file_objects(tmp_path: pathlib.Path) -> None:
    for target in (str(tmp_path / "a.pt"), tmp_path / "b.pt"):
        torch.save(torch.ones(2), target)
        assert torch.load(target).tolist() == [1, 1]
    with open(tmp_path / "c.pt", "wb+") as file:
        torch.save(torch.ones(3), file)
        file.seek(0)
        assert torch.load(file).tolist() == [1, 1, 1]
        assert not file.closed

    class OnlyWrites:
        data = b""

        def write(self, piece: Any) -> int:
            self.data += bytes(piece)
            return len(piece)

    target = OnlyWrites()
    torch.save(torch.ones(2), target)
    assert torch.load(io.BytesIO(target.data)).tolist() == [1, 1]
    torch.save(torch.ones(2), "/dev/null" if os.name == "posix" else io.BytesIO())


def test_wrong_arguments(tmp_path: pathlib.Path) -> None:
    with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like object"):
        torch.save(1, None)
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        torch.save(1, tmp_path / "none" / "a.pt")
    with pytest.raises(FileNotFoundError):
        torch.save(1, tmp_path / "none" / "a.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="Is a directory"):
        torch.save(1, tmp_path)
    with pytest.raises(IsADirectoryError):
        torch.save(1, tmp_path, _use_new_zipfile_serialization=False)
    for name in ("", f"{tmp_path}/a/"):
        with pytest.raises(RuntimeError, match="invalid file name: "):
            torch.save(1, name)

    class Stream(io.BytesIO):
        def tell(self) -> int:
            raise io.UnsupportedOperation("tell")

    with pytest.raises(io.UnsupportedOperation, match="tell. You can only torch.load from a file that is seekable"):
        torch.load(Stream(b"abc"))
    with pytest.raises(AttributeError, match="has no attribute 'seek'. You can only torch.load from a file"):
        torch.load(None)
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "none.pt")
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        torch.load(io.BytesIO(), mmap=True)
    torch.save(1, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        torch.load(tmp_path / "old.pt", mmap=True)


# options of load -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(mmap, "MAP_PRIVATE"), reason="flags of POSIX")
def test_mapped_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"a": torch.arange(1000), "empty": torch.empty(0)}, path)
    before = path.read_bytes()
    found = torch.load(path, mmap=True)["a"]
    assert isinstance(_owner(found), mmap.mmap)
    found.add_(1)
    assert found[0] == 1 and path.read_bytes() == before
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        assert serialization.get_default_mmap_options() == mmap.MAP_SHARED
        torch.load(path, mmap=True)["a"].add_(1)
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    assert torch.load(path)["a"][:3].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="expected mmap.MAP_PRIVATE or mmap.MAP_SHARED"):
        serialization.set_default_mmap_options(77)


def _owner(tensor: Any) -> Any:
    base = tensor.untyped_storage().buffer
    while not isinstance(base, (mmap.mmap, memoryview, type(None))):
        base = base.base
    return base.obj if isinstance(base, memoryview) else base


@pytest.mark.usefixtures("without_gpu")
def test_map_location() -> None:
    data = written({"a": torch.arange(3.0)}).getvalue()

    def loaded(where: Any) -> Any:
        return torch.load(io.BytesIO(data), map_location=where)["a"]

    assert loaded("cpu").tolist() == loaded(torch.device("cpu")).tolist() == [0, 1, 2]
    assert loaded("meta").device.type == loaded({"cpu": "meta"}).device.type == "meta"
    assert loaded({"cuda": "meta"}).device.type == "cpu"
    asked: list[Any] = []
    assert loaded(lambda storage, place: asked.append((type(storage), place))).tolist() == [0, 1, 2]
    assert asked == [(torch.UntypedStorage, "cpu")]
    assert loaded(lambda storage, place: storage.clone().fill_(0)).tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        loaded("cuda:1")
    with pytest.raises(RuntimeError, match="don't know how to restore data location .*tagged with moon"):
        loaded("moon")
    with pytest.raises(TypeError, match="'int' object is not callable"):
        loaded(3)
    for place in ("cpu:5", "meta:1", "cpu:x"):  # of these devices there is one, without a number
        with pytest.raises(RuntimeError, match=f"don't know how to restore data location .*tagged with {place}"):
            loaded(place)
    with pytest.raises(RuntimeError, match="Invalid device string: 'cuda:x'"):
        loaded("cuda:x")
    with pytest.raises(TypeError, match="expected string or bytes-like object, got 'int'"):
        loaded({"cpu": 3})
    with pytest.raises(TypeError, match="map_location must return a storage, not int"):
        loaded(lambda storage, place: 5)


def test_register_package() -> None:
    registry = list(serialization._package_registry)
    serialization.register_package(5, lambda storage: "drawer", lambda storage, place: storage if place == "drawer"
                                   else None)
    try:
        file = written(torch.ones(2))
        assert b"drawer" in file.getvalue()
        assert torch.load(file).tolist() == [1, 1]
    finally:
        serialization._package_registry[:] = registry
    file.seek(0)
    with pytest.raises(RuntimeError, match="tagged with drawer"):
        torch.load(file)


def _with_byteorder(file: io.BytesIO, order: bytes | None) -> io.BytesIO:
    made = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            if name != "archive/byteorder":
                new.writestr(name, old.read(name))
            elif order is not None:
                new.writestr(name, order)
    made.seek(0)
    return made


@pytest.mark.parametrize("name", ["int16", "float32", "float64", "complex64", "uint8"])
def test_files_of_the_other_byte_order(name: str) -> None:
    other = b"big" if sys.byteorder == "little" else b"little"
    tensor = torch.tensor([1, 2, 300 if name != "uint8" else 3]).to(getattr(torch, name))
    swapped = tensor.clone()
    swapped.untyped_storage().byteswap(tensor.dtype)
    assert torch.equal(torch.load(_with_byteorder(written(swapped), other)), tensor)
    silent = _with_byteorder(written(swapped), None)
    serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
    try:
        assert torch.equal(torch.load(silent), tensor)
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="Invalid argument type in function set_default_load_endianness"):
        serialization.set_default_load_endianness("big")


def test_skip_data() -> None:
    with serialization.skip_data():
        file = written({"a": torch.ones(3)})
        with pytest.raises(RuntimeError, match="Cannot use skip_data=True"):
            written(1, _use_new_zipfile_serialization=False)
    assert torch.load(file)["a"].tolist() == [0, 0, 0]
    with serialization.skip_data():
        assert round_trip({"a": torch.ones(3)})["a"].shape == (3,)


# pickles and copies --------------------------------------------------------------------------------------------------


def test_plain_pickle() -> None:
    base = torch.arange(6.0)
    value = [base, base[2:4], nn.Parameter(torch.ones(1)), torch.float16, torch.device("cpu"), torch.Size([2]),
             torch.ones(2, dtype=torch.uint32), torch.empty(2, device="meta"), torch.FloatStorage([1.0])]  # fmt: skip
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        found = pickle.loads(pickle.dumps(value, protocol))
        assert found[1].tolist() == [2, 3] and found[1].untyped_storage() is found[0].untyped_storage()
        assert type(found[2]) is nn.Parameter and found[3:6] == value[3:6]
        assert found[6].dtype is torch.uint32 and found[7].device.type == "meta" and found[8].tolist() == [1.0]


def test_deep_copies() -> None:
    base = torch.arange(6.0, requires_grad=True)
    base.grad = torch.ones(6)
    module = nn.Linear(2, 2)
    copied = copy.deepcopy({"base": base, "data": base.detach()[1:], "module": module, "weight": module.weight})
    assert copied["base"].requires_grad and copied["base"].grad.tolist() == [1] * 6
    assert copied["data"].untyped_storage() is copied["base"].untyped_storage()
    assert copied["base"].untyped_storage() is not base.untyped_storage()
    assert copied["weight"] is copied["module"].weight and copied["weight"] is not module.weight
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(base * 2)
    assert copy.copy(base.detach()).tolist() == base.tolist()


# storages ------------------------------------------------------------------------------------------------------------


def test_untyped_storage() -> None:
    storage = torch.UntypedStorage([1, 2, 300])
    assert storage.tolist() == [1, 2, 44] and len(storage) == storage.nbytes() == 3
    assert repr(storage) == " 1\n 2\n 44\n[torch.storage.UntypedStorage(device=cpu) of size 3]"
    part = storage[1:]
    part[0] = 9
    assert storage.tolist() == [1, 9, 44] and storage[-1] == 44
    assert storage.float().tolist() == [1.0, 9.0, 44.0] and storage.type() == "torch.storage.UntypedStorage"
    assert repr(torch.UntypedStorage(2, device="meta")) == "...\n[torch.storage.UntypedStorage(device=meta) of size 2]"
    with pytest.raises(IndexError, match="index 3 out of range for storage of size 3"):
        storage[3]
    with pytest.raises(RuntimeError, match="Trying to slice with a step of 2"):
        storage[::2]
    with pytest.raises(RuntimeError, match="one of the items was of type str instead of int"):
        torch.UntypedStorage("x")
    with pytest.raises(RuntimeError, match="Expected a sequence type, but got float"):
        torch.UntypedStorage(1.5)


def test_typed_storage() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storage = torch.arange(3.0).storage()
    assert isinstance(storage, torch.FloatStorage) and not isinstance(storage, torch.IntStorage)
    assert storage.type() == "torch.FloatStorage" and storage.pickle_storage_type() == "FloatStorage"
    assert storage.int().dtype is torch.int32 and storage.double().tolist() == [0.0, 1.0, 2.0]
    assert torch.LongStorage([1, 2]).element_size() == 8 and torch.DoubleStorage.dtype is torch.float64
    assert torch.FloatStorage.from_buffer(b"\x3f\x80\x00\x00", "big").tolist() == [1.0]
    with pytest.raises(RuntimeError, match="slices are only supported in UntypedStorage"):
        storage[1:]
    with pytest.raises(RuntimeError, match="expected torch.dtype, but got <class 'str'>"):
        torch.TypedStorage(3, dtype="a")


def test_tensor_on_a_storage() -> None:
    storage = torch.ones(4).untyped_storage()
    tensor = torch.asarray(storage[4:12], dtype=torch.uint8).view(torch.float32)
    tensor[0] = 5
    assert torch.asarray(storage, dtype=torch.float32).tolist() == [1, 5, 1, 1]
    with pytest.raises(RuntimeError, match="Expected a Storage of type Byte or an UntypedStorage, but got Float"):
        torch.asarray(torch.FloatStorage([1.0]), dtype=torch.uint8)


def test_storage_from_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(10)))
    private = torch.UntypedStorage.from_file(str(path), False, 4)
    private[0] = 99
    assert private.tolist() == [99, 1, 2, 3] and path.read_bytes()[0] == 0
    shared = torch.UntypedStorage.from_file(path, shared=True, nbytes=16)
    shared[0] = 99
    assert path.read_bytes()[0] == 99 and path.stat().st_size == 16
    with pytest.raises(RuntimeError, match="size <16> is smaller than the required mapping size <99>"):
        torch.UntypedStorage.from_file(path, False, 99)
    with pytest.raises(RuntimeError, match="unable to open file <.*none> in read-only mode: No such file"):
        torch.UntypedStorage.from_file(tmp_path / "none", False, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_shared_memory_is_seen_by_a_fork() -> None:
    tensor = torch.zeros(4)
    assert not tensor.is_shared()
    assert tensor.share_memory_() is tensor and tensor.is_shared() and tensor.untyped_storage().is_shared()
    child = os.fork()
    if not child:
        tensor.fill_(7)
        os._exit(0)
    os.waitpid(child, 0)
    assert tensor.tolist() == [7, 7, 7, 7]


SAFETENSORS = """
import sys, mindtorch_v2
mindtorch_v2.install()
import safetensors, safetensors.torch as st, torch
assert torch.__name__ == "mindtorch_v2" or torch is mindtorch_v2, torch
names = sys.argv[2:]
tensors = {name: torch.tensor([[0, 1], [2, 3]]).to(getattr(torch, name)) for name in names}
st.save_file(tensors, sys.argv[1], metadata={"a": "b"})
for found in (st.load_file(sys.argv[1]), st.load(st.save(tensors))):
    for name, tensor in tensors.items():
        assert found[name].dtype is tensor.dtype and found[name].shape == tensor.shape
        assert found[name].contiguous().untyped_storage().tolist() == tensor.untyped_storage().tolist(), name
with safetensors.safe_open(sys.argv[1], "pt") as file:
    assert file.metadata() == {"a": "b"} and file.get_slice("float32")[1:, :1].tolist() == [[2.0]]
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
model[1].weight = model[0].weight
st.save_model(model, sys.argv[1])
assert st.load_model(model, sys.argv[1]) == (set(), [])
try:
    st.save_file({"a": model[0].weight, "b": model[1].weight}, sys.argv[1])
except RuntimeError as error:
    assert "Some tensors share memory" in str(error)
else:
    raise AssertionError("shared memory was not noticed")
"""


def test_safetensors(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("safetensors", reason="an optional package")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    names = [name for name in DTYPES if name != "complex128"]  # the format has no such type
    subprocess.run([sys.executable, "-c", SAFETENSORS, str(tmp_path / "a.safetensors"), *names], env=environment,
                   check=True)
