"""Files in the safetensors format: a header in JSON that says where each tensor lies, then the tensors' bytes."""

import json
import math
import os
import sys
from typing import Any

import mindtorch_v2 as torch

from .._core.device import device
from .._core.storage import TypedStorage, UntypedStorage
from .._core.tensor import Tensor
from .._utils import _rebuild_tensor
from .archive import read_exactly
from .locations import default_restore_location, is_meta

_LARGEST_HEADER = 100_000_000  # what the format allows
_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "U16": torch.uint16,
    "I16": torch.int16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
}


def load_safetensors(path: str, map_location: Any) -> dict[str, Tensor]:
    """The tensors of a file by their names, in the order in which they lie there."""
    location = _location(map_location)
    with open(path, "rb") as file:
        entries = sorted(_header(file).items(), key=lambda item: item[1]["data_offsets"])
        left = os.fstat(file.fileno()).st_size - file.tell()
        _check_places(entries, left)
        return {name: _tensor(read_exactly(file, _extent(entry)), entry, location) for name, entry in entries}


def _location(map_location: Any) -> str:
    """The name of the place where all tensors go."""
    for kind, is_one in (("dict", isinstance(map_location, dict)), ("callable", callable(map_location))):
        if is_one:
            raise RuntimeError(
                f"Loading safetensors file with {kind} map_location is not supported. Use a device string or "
                "torch.device instead."
            )
    if is_meta(map_location):
        raise RuntimeError("device meta is invalid")
    return str(map_location) if isinstance(map_location, (str, device)) else "cpu"


def _broken(reason: str) -> RuntimeError:
    return RuntimeError(f"Error while deserializing header: {reason}")


def _header(file: Any) -> dict[str, dict[str, Any]]:
    """What the header says of each tensor, of the right types; the file is left at the first byte after it."""
    size = int.from_bytes(start, "little") if len(start := file.read(8)) == 8 else None
    if size is None:
        raise _broken("header too small")
    if size > _LARGEST_HEADER:
        raise _broken("header too large")
    text = file.read(size)
    if len(text) < size:
        raise _broken("invalid header length")
    try:
        found = json.loads(text.decode())
    except UnicodeDecodeError as error:
        raise _broken(f"invalid UTF-8 in header: {error}") from None
    except (ValueError, RecursionError) as error:
        raise _broken(f"invalid JSON in header: {error}") from None
    if not isinstance(found, dict):
        raise _broken(f"invalid JSON in header: expected an object, not {type(found).__name__}")
    metadata = found.pop("__metadata__", None)
    if metadata is not None and not (
        isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    ):
        raise _broken("invalid JSON in header: `__metadata__` must have texts for values")
    for name, entry in found.items():
        if not (
            isinstance(entry, dict)
            and isinstance(entry.get("dtype"), str)
            and _are_counts(entry.get("shape"))
            and _are_counts(entry.get("data_offsets"))
            and len(entry["data_offsets"]) == 2
        ):
            raise _broken(f"invalid JSON in header: tensor `{name[:100]}` needs a dtype, a shape and two data_offsets")
        if entry["dtype"] not in _DTYPES:
            raise _broken(f"tensor `{name[:100]}` is of an unknown dtype, `{entry['dtype'][:100]}`")
    return found


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) is int and 0 <= number < 1 << 63 for number in value)


def _extent(entry: dict[str, Any]) -> int:
    begin, end = entry["data_offsets"]
    return end - begin


def _check_places(entries: list[tuple[str, dict[str, Any]]], size: int) -> None:
    """Raises unless the tensors lie one after the other, have the bytes that they need, and fill the file."""
    place = 0
    for name, entry in entries:
        begin, end = entry["data_offsets"]
        if begin != place or end < begin:
            raise _broken(f"invalid offset for tensor `{name[:100]}`")
        if len(entry["shape"]) > 64:
            raise _broken(f"tensor `{name[:100]}` has more than 64 dimensions, which is NumPy's limit")
        if math.prod(entry["shape"]) * _DTYPES[entry["dtype"]].itemsize != end - begin:
            raise _broken("invalid shape, data type, or offset for tensor")
        place = end
    if place != size:
        raise _broken("incomplete metadata, file not fully covered")


def _tensor(data: Any, entry: dict[str, Any], location: str) -> Tensor:
    dtype, shape = _DTYPES[entry["dtype"]], entry["shape"]
    storage = UntypedStorage.of_array(data)
    if sys.byteorder == "big":
        storage.byteswap(dtype)
    placed = TypedStorage(wrap_storage=default_restore_location(storage, location), dtype=dtype)
    stride = [math.prod(size or 1 for size in shape[dim + 1 :]) for dim in range(len(shape))]
    return _rebuild_tensor(placed, 0, tuple(shape), tuple(stride))
