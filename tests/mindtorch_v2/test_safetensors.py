"""torch.load of files in the safetensors format, which need no package to be read."""

import json
import pathlib
import random
import struct
import warnings
from typing import Any

import pytest

import mindtorch_v2 as torch

ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32, "I64": torch.int64,
    "U16": torch.uint16, "U32": torch.uint32, "U64": torch.uint64, "F16": torch.float16, "BF16": torch.bfloat16,
    "F32": torch.float32, "F64": torch.float64, "C64": torch.complex64, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2, "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
}  # fmt: skip


def file_of(header: Any, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "a.safetensors"


def test_tensors_come_in_the_order_in_which_they_lie(path: pathlib.Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "z": {"dtype": "F32", "shape": [2, 1], "data_offsets": [4, 12]},
        "a": {"dtype": "I32", "shape": [], "data_offsets": [0, 4]},
        "none": {"dtype": "I64", "shape": [0, 3], "data_offsets": [12, 12]},
    }
    path.write_bytes(file_of(header, struct.pack("<i2f", 7, 1.5, -2)))
    for f in (path, str(path)):
        for location in (None, "cpu", torch.device("cpu")):
            found = torch.load(f, map_location=location)
            assert [*found] == ["a", "z", "none"]
            assert found["a"].item() == 7 and found["z"].tolist() == [[1.5], [-2]] and found["none"].shape == (0, 3)
    assert found["none"].stride() == (3, 1)
    found["z"].fill_(0)
    assert torch.load(path)["z"].tolist() == [[1.5], [-2]]


@pytest.mark.parametrize("name", DTYPES)
def test_types(path: pathlib.Path, name: str) -> None:
    tensor = torch.tensor([0, 1, 2, 4]).to(DTYPES[name])
    data = bytes(tensor.untyped_storage().tolist())
    path.write_bytes(file_of({"x": {"dtype": name, "shape": [4], "data_offsets": [0, len(data)]}}, data))
    found = torch.load(path)["x"]
    assert found.dtype is tensor.dtype and found.untyped_storage().tolist() == tensor.untyped_storage().tolist()


REFUSED = {
    "header too small": b"abc",
    "header too large": file_of({}, size=1 << 63),
    "invalid header length": file_of({}, size=1000),
    "invalid UTF-8": file_of(b"\xff\xfe"),
    "invalid JSON": file_of(b"[" * 100_000),
    "expected an object": file_of([]),
    "__metadata__": file_of({"__metadata__": {"a": 1}}),
    "not fully covered": file_of({"x": ENTRY}, bytes(12)),
    "file not fully covered": file_of({"x": ENTRY}, bytes(4)),
    "invalid shape": file_of({"x": ENTRY | {"shape": [3]}}, bytes(8)),
    "shape, data type": file_of({"x": ENTRY | {"shape": [1 << 40, 1 << 40]}}, bytes(8)),
    "needs a dtype": file_of({"x": ENTRY | {"shape": [-2]}}, bytes(8)),
    "`x` needs": file_of({"x": ENTRY | {"shape": [True, 2]}}, bytes(8)),
    "two data_offsets": file_of({"x": ENTRY | {"data_offsets": [0, 4, 8]}}, bytes(8)),
    "a shape and two": file_of({"x": {"dtype": "F32"}}),
    "unknown dtype, `XX`": file_of({"x": ENTRY | {"dtype": "XX"}}, bytes(8)),
    "invalid offset for tensor `x`": file_of({"x": ENTRY | {"data_offsets": [8, 0]}}, bytes(8)),
    "invalid offset for tensor `y`": file_of({"x": ENTRY, "y": ENTRY}, bytes(8)),
    "more than 64 dimensions": file_of({"x": ENTRY | {"shape": [1 << 62] * 100_000}}, bytes(8)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_no_such_file_is_refused(path: pathlib.Path, reason: str) -> None:
    path.write_bytes(REFUSED[reason])
    with pytest.raises(RuntimeError, match=f"Error while deserializing header.*{reason}"):
        torch.load(path)


def test_a_damaged_file_is_refused_or_has_other_tensors(path: pathlib.Path) -> None:
    draw = random.Random(3)
    whole = file_of({"x": ENTRY, "y": ENTRY | {"data_offsets": [8, 16]}, "__metadata__": {"a": "b"}}, bytes(16))
    loaded = 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(data))
            data[place : place + draw.randint(0, 2)] = draw.randbytes(draw.randint(0, 2))
        path.write_bytes(data)
        try:
            found = torch.load(path)
        except RuntimeError as error:
            assert str(error).startswith("Error while deserializing header: ")
        else:
            loaded += 1
            assert all(isinstance(tensor, torch.Tensor) and tensor.nbytes <= 16 for tensor in found.values())
    assert 0 < loaded < 400


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ({"cpu": "cpu"}, "with dict map_location is not supported. Use a device string or torch.device instead."),
        (lambda storage, name: storage, "with callable map_location is not supported"),
        ("meta", "device meta is invalid"),
        ("nowhere", "don't know how to restore data location"),
    ],
)
def test_other_places_than_devices_are_refused(path: pathlib.Path, location: Any, message: str) -> None:
    path.write_bytes(file_of({"x": ENTRY}, bytes(8)))
    with pytest.raises(RuntimeError, match=message):
        torch.load(path, map_location=location)


def test_only_paths_with_the_ending_are_such_files(path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        torch.load(path)
    torch.save(torch.ones(2), path)
    with pytest.raises(RuntimeError, match="header too large"):
        torch.load(path)
    with path.open("rb") as file:
        assert torch.load(file).tolist() == [1, 1]


def test_arguments_for_pickle_have_no_effect_on_weights(tmp_path: pathlib.Path) -> None:
    torch.save({"a": 1}, tmp_path / "a.pt")
    with pytest.warns(UserWarning, match="pickle_load_args only works if `weights_only=False`."):
        assert torch.load(tmp_path / "a.pt", encoding="latin1") == {"a": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.load(tmp_path / "a.pt", encoding="latin1", weights_only=False) == {"a": 1}
