"""Files that PyTorch writes are read here, and files that are written here PyTorch reads."""

import collections
import importlib
import inspect
import io
import pathlib
import pickle
import zipfile
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="compares with the real PyTorch")

import mindtorch_v2  # noqa: E402
from mindtorch_v2._files.pickled_names import torch_name  # noqa: E402

DTYPES = ("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 uint16 uint32 "
          "uint64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu complex32").split()
WITHOUT_OLD_CLASS = set(DTYPES[12:])  # of these PyTorch cannot read the old files that it writes
WAYS = [(torch, mindtorch_v2), (mindtorch_v2, torch)]
FORMS = [{}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 4}]


def carried(writer: Any, reader: Any, value: Any, form: dict[str, Any] | None = None, **kwargs: Any) -> Any:
    """What one library reads of what the other wrote."""
    file = io.BytesIO()
    writer.save(value, file, **(form or {}))
    file.seek(0)
    if (form or {}).get("pickle_protocol", 2) > 2:
        kwargs.setdefault("weights_only", False)
    return reader.load(file, **kwargs)


def bits(tensor: Any) -> list[int]:
    return tensor.detach().untyped_storage().tolist()


def same(found: Any, wanted: Any) -> bool:
    """Whether values of the two libraries are equal in kind, geometry, bits and flags."""
    if type(wanted).__name__ != type(found).__name__:
        return False
    if isinstance(wanted, dict):
        return list(map(str, wanted)) == list(map(str, found)) and all(
            same(a, b) for a, b in zip(found.values(), wanted.values()))
    if isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if type(wanted).__name__ in ("Tensor", "Parameter"):
        pairs = ((t.shape, t.stride(), t.storage_offset(), str(t.dtype), str(t.device), t.requires_grad)
                 for t in (found, wanted))
        return len(set(pairs)) == 1 and (wanted.is_meta or bits(found) == bits(wanted))
    return str(found) == str(wanted)


def variety(lib: Any, old_classes_only: bool) -> dict[str, Any]:
    """Everything that a checkpoint may hold, made by one library."""
    base = lib.arange(12.0)
    names = [name for name in DTYPES if not (old_classes_only and name in WITHOUT_OLD_CLASS)]
    tagged = lib.nn.Parameter(lib.ones(1))
    tagged.note = "kept"
    noted = lib.zeros(2)
    noted.unit = "mm"
    return {
        "base": base, "part": base[2:8], "turned": base.view(3, 4).t(), "spread": base[:1].expand(5),
        "dtypes": [lib.tensor([0, 1, 2, 3, 100]).to(getattr(lib, name)) for name in names],
        "empty": lib.empty(0, 3), "scalar": lib.tensor(2.5), "meta": lib.empty(2, 3, device="meta"),
        "leaf": lib.ones(2, requires_grad=True), "parameter": lib.nn.Parameter(lib.ones(3)), "tagged": tagged,
        "noted": noted, "names": [getattr(lib, name) for name in DTYPES], "device": lib.device("cpu"),
        "cuda": lib.device("cuda:1"), "size": lib.Size([2, 3]), "layout": lib.strided, "complex": 1 + 2j,
        "set": {1, 2}, "bytes": b"\x00\xff", "bytearray": bytearray(b"ab"), "big": -(2**70), "float": 1.5, "none": None,
        "tuple": (1, (2,)), "text": "ä" * 300, "counter": collections.Counter("aab"),
        "ordered": collections.OrderedDict(a=1), 3: "key",
    }  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=["zip", "old", "protocol 4"])
@pytest.mark.parametrize("writer, reader", WAYS, ids=["from PyTorch", "to PyTorch"])
def test_everything_is_carried(writer: Any, reader: Any, form: dict[str, Any]) -> None:
    old = "_use_new_zipfile_serialization" in form
    found = carried(writer, reader, variety(writer, old), form)
    wanted = variety(reader, old)
    for name in wanted:
        assert same(found[name], wanted[name]), name
    assert found["tagged"].note == "kept" and found["noted"].unit == "mm"
    found["base"][3] = 77
    assert found["part"][1] == 77 and found["turned"][3, 0] == 77


@pytest.mark.parametrize("writer, reader", WAYS, ids=["from PyTorch", "to PyTorch"])
@pytest.mark.parametrize("where", [None, "cpu", "meta", {"cpu": "meta"}])
def test_mapped_and_moved(writer: Any, reader: Any, where: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "some.model.pt"
    writer.save({"a": writer.arange(1000.0), "b": writer.ones(3, 4).t()}, path)
    found = reader.load(path, mmap=True, map_location=where)
    if where in (None, "cpu"):
        assert same(found, {"a": reader.arange(1000.0), "b": reader.ones(3, 4).t()})
    assert {str(t.device) for t in found.values()} == {"cpu" if where in (None, "cpu") else "meta"}


def test_files_have_the_same_members() -> None:
    files = []
    for lib in (torch, mindtorch_v2):
        file = io.BytesIO()
        lib.save({"a": lib.arange(5), "b": [lib.ones(2, 3), lib.zeros(1)]}, file)
        files.append(zipfile.ZipFile(file))
    ours, theirs = files
    assert ours.namelist() == theirs.namelist()
    for name in ours.namelist():
        if not name.endswith("serialization_id"):
            assert ours.read(name) == theirs.read(name), name
    assert [m.header_offset for m in ours.infolist()] == [m.header_offset for m in theirs.infolist()]


@pytest.mark.parametrize("writer, reader", WAYS, ids=["from PyTorch", "to PyTorch"])
def test_training_goes_on_in_the_other_library(writer: Any, reader: Any) -> None:
    """A checkpoint in the middle of a training gives the losses that the training without a break gives."""

    def model_and_optimizer(lib: Any) -> tuple[Any, Any]:
        lib.manual_seed(0)
        model = lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.ReLU(), lib.nn.LayerNorm(8), lib.nn.Linear(8, 1))
        return model, lib.optim.AdamW(model.parameters(), lr=0.01)

    def steps(lib: Any, model: Any, optimizer: Any, count: int) -> list[float]:
        losses = []
        for step in range(count):
            data = lib.from_numpy(np.random.default_rng(step).standard_normal((16, 4), np.float32))
            loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    model, optimizer = model_and_optimizer(writer)
    steps(writer, model, optimizer, 5)
    state = carried(writer, reader, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    wanted = steps(writer, model, optimizer, 5)
    model, optimizer = model_and_optimizer(reader)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    assert np.allclose(steps(reader, model, optimizer, 5), wanted, rtol=1e-4)


MODULES = {
    "Linear": lambda nn: nn.Linear(3, 4), "Sequential": lambda nn: nn.Sequential(nn.Linear(3, 4), nn.GELU()),
    "ModuleDict": lambda nn: nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Tanh()}),
    "ModuleList": lambda nn: nn.ModuleList([nn.Linear(3, 3)]), "LayerNorm": lambda nn: nn.LayerNorm(3),
    "Embedding": lambda nn: nn.Embedding(5, 3, padding_idx=0), "Dropout": lambda nn: nn.Dropout(0.25),
    "PReLU": lambda nn: nn.PReLU(), "Softmax": lambda nn: nn.Softmax(dim=-1),
    "CrossEntropyLoss": lambda nn: nn.CrossEntropyLoss(label_smoothing=0.1),
    "ParameterList": lambda nn: nn.ParameterList([nn.Parameter(nn.Linear(2, 2).weight.detach())]),
    "Flatten": lambda nn: nn.Flatten(), "Identity": lambda nn: nn.Identity(),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("writer, reader", WAYS, ids=["from PyTorch", "to PyTorch"])
def test_whole_modules_are_carried(name: str, writer: Any, reader: Any) -> None:
    module = MODULES[name](writer.nn)
    found = carried(writer, reader, module, weights_only=False)
    assert isinstance(found, getattr(reader.nn, name)) and repr(found) == repr(module)
    assert {key: bits(value) for key, value in found.state_dict().items()} == {
        key: bits(value) for key, value in module.state_dict().items()}
    again = carried(reader, writer, found, weights_only=False)
    assert repr(again) == repr(module)
    found.train()
    found.eval()
    if name not in ("ModuleDict", "ModuleList", "ParameterList", "CrossEntropyLoss", "Embedding", "Flatten"):
        first, second = module.eval()(writer.ones(2, 3)), found(reader.ones(2, 3))
        assert np.allclose(first.detach().numpy(), second.detach().numpy(), atol=1e-6)


def _classes(package: str, base: Any) -> list[Any]:
    module = importlib.import_module(package)
    return [c for c in vars(module).values() if inspect.isclass(c) and issubclass(c, base)]


@pytest.mark.parametrize("kind", _classes("mindtorch_v2.nn", mindtorch_v2.nn.Module)
                         + _classes("mindtorch_v2.optim", mindtorch_v2.optim.Optimizer), ids=lambda kind: kind.__name__)
def test_pytorch_has_every_class_under_the_name_in_our_files(kind: Any) -> None:
    module, name = torch_name(kind)
    found = getattr(importlib.import_module(module), name)
    assert inspect.isclass(found) and found.__name__ == kind.__name__


@pytest.mark.parametrize("writer, reader", WAYS, ids=["from PyTorch", "to PyTorch"])
def test_generators_and_functions_are_carried(writer: Any, reader: Any) -> None:
    generator = writer.Generator().manual_seed(5)
    writer.rand(3, generator=generator)
    found = carried(writer, reader, generator, weights_only=False)
    assert reader.rand(4, generator=found).tolist() == writer.rand(4, generator=generator).tolist()
    functions = [writer.nn.functional.relu, writer.nn.functional.gelu, writer.nn.functional.cross_entropy]
    found = carried(writer, reader, functions, weights_only=False)
    assert [f.__name__ for f in found] == ["relu", "gelu", "cross_entropy"]
    assert all(f is getattr(reader.nn.functional, f.__name__) for f in found)


@pytest.mark.parametrize("form", FORMS, ids=["zip", "old", "protocol 4"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_lazy_conjugates_and_negatives_are_computed(form: dict[str, Any], weights_only: bool) -> None:
    number = torch.tensor([1 + 2j, 3 - 1j])
    weights_only = weights_only and "pickle_protocol" not in form
    for lazy in (number.conj(), number.conj().imag, number._neg_view(), number.conj()._neg_view(), number.conj()[1:],
                 torch.nn.Parameter(number.conj()), torch.ones(3)._neg_view().expand(2, 3), torch.ones(0)._neg_view()):
        found = carried(torch, mindtorch_v2, lazy, form, weights_only=weights_only)
        assert found.tolist() == lazy.tolist() and found.stride() == lazy.stride()
    shared = number.conj()
    first, second = carried(torch, mindtorch_v2, [shared, shared[1:]], form, weights_only=weights_only)
    first[1] = 5j
    assert second.tolist() == [5j]


@pytest.mark.parametrize("form", FORMS, ids=["zip", "old", "protocol 4"])
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("writer, reader", WAYS, ids=["from PyTorch", "to PyTorch"])
def test_every_type_is_carried(writer: Any, reader: Any, name: str, form: dict[str, Any]) -> None:
    whole = writer.arange(32, dtype=writer.uint8).view(getattr(writer, name) if name != "bool" else writer.uint8)
    values = [whole, whole[1:3], whole[0], whole[:0]]
    for found, wanted in zip(carried(writer, reader, values, form), values, strict=True):
        assert str(found.dtype) == str(wanted.dtype) and found.shape == wanted.shape and bits(found) == bits(wanted)


@pytest.mark.parametrize("name", sorted(WITHOUT_OLD_CLASS))
def test_pytorch_cannot_read_its_own_old_files_of_new_types(name: str) -> None:
    value = torch.arange(32, dtype=torch.uint8).view(getattr(torch, name))
    with pytest.raises(AttributeError, match="has no attribute 'dtype'"):
        carried(torch, torch, value, {"_use_new_zipfile_serialization": False})


SPARSE = {
    "coo": lambda x: x.to_sparse(), "csr": lambda x: x.to_sparse_csr(), "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((2, 1)), "bsc": lambda x: x.to_sparse_bsc((1, 3)),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=["zip", "old", "protocol 4"])
@pytest.mark.parametrize("layout", SPARSE)
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("writer, reader", WAYS, ids=["from PyTorch", "to PyTorch"])
def test_sparse_tensors_are_carried(
    writer: Any, reader: Any, layout: str, form: dict[str, Any], weights_only: bool
) -> None:
    dense = writer.tensor([[0, 1.0, 0], [2.0, 0, 3.0]])
    found = carried(writer, reader, SPARSE[layout](dense), form,
                    weights_only=weights_only and "pickle_protocol" not in form)
    assert str(found.layout) == f"torch.sparse_{layout}" and found.to_dense().tolist() == dense.tolist()
    assert layout != "coo" or found.is_coalesced()


ABSENT = {
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
}


@pytest.mark.parametrize("form", FORMS[:2], ids=["zip", "old"])
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("kind", ABSENT)
def test_what_is_absent_is_refused(kind: str, form: dict[str, Any], weights_only: bool) -> None:
    with pytest.raises((NotImplementedError, RuntimeError), match=f"{kind}.*(here|does not have)"):
        carried(torch, mindtorch_v2, ABSENT[kind](), form, weights_only=weights_only)


def test_plain_pickles_of_pytorch_are_read_by_name() -> None:
    """What pickle.dumps makes of a PyTorch tensor, read by an unpickler that knows the names."""
    from mindtorch_v2._files.pickled_names import unpickler_class

    data = pickle.dumps({"t": torch.arange(6.0).view(2, 3).t(), "p": torch.nn.Parameter(torch.ones(2))})
    found = unpickler_class(pickle)(io.BytesIO(data)).load()
    assert type(found["t"]) is mindtorch_v2.Tensor and found["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert type(found["p"]) is mindtorch_v2.nn.Parameter


class Foreign:
    """A class that neither library knows."""


REFUSED = {"a class": Foreign(), "eval": eval, "defaultdict": collections.defaultdict(list), "frozenset": frozenset()}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_read_the_same(name: str) -> None:
    texts = []
    for lib in (torch, mindtorch_v2):
        with pytest.raises(pickle.UnpicklingError) as raised:
            carried(torch, lib, REFUSED[name])
        texts.append(str(raised.value))
    assert texts[0] == texts[1]


def test_unsafe_globals_are_listed_the_same() -> None:
    file = io.BytesIO()
    torch.save({"m": torch.nn.Linear(1, 1), "f": collections.defaultdict(list), "t": torch.ones(1)}, file)
    found = []
    for lib in (torch, mindtorch_v2):
        file.seek(0)
        found.append(sorted(lib.serialization.get_unsafe_globals_in_checkpoint(file)))
    assert found[0] == found[1]


ARGUMENT_ERRORS = {
    "a missing device": lambda lib, file: lib.load(file, map_location="cuda"),
    "an unknown place": lambda lib, file: lib.load(file, map_location="moon"),
    "mmap of a buffer": lambda lib, file: lib.load(file, mmap=True),
    "pickle_module": lambda lib, file: lib.load(file, weights_only=True, pickle_module=pickle),
    "no file": lambda lib, file: lib.load(None),
    "no target": lambda lib, file: lib.save(1, None),
    "no folder": lambda lib, file: lib.save(1, "/nowhere/a.pt"),
    "no such place to call": lambda lib, file: lib.load(file, map_location=3),
    "endianness": lambda lib, file: lib.serialization.set_default_load_endianness("x"),
    "mmap flags": lambda lib, file: lib.serialization.set_default_mmap_options("x"),
    "two types": lambda lib, file: lib.save([lib.ones(1).untyped_storage(), *(lambda t: (t, t.view(lib.int32)))(
        lib.ones(2))], io.BytesIO()),
}  # fmt: skip


@pytest.mark.parametrize("case", ARGUMENT_ERRORS)
def test_errors_read_the_same(case: str) -> None:
    raised = []
    for lib in (torch, mindtorch_v2):
        file = io.BytesIO()
        lib.save(lib.ones(1), file)
        file.seek(0)
        with pytest.raises(Exception) as error:  # noqa: B017 - which one is compared below
            ARGUMENT_ERRORS[case](lib, file)
        raised.append((type(error.value), str(error.value)))
    assert raised[0] == raised[1]
