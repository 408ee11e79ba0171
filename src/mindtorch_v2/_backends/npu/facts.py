"""What CANN's C interface looks like: operator signatures, enumeration values, names of error codes."""

import ctypes
import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._core.dtype import bfloat16, float8_e4m3fn, float8_e5m2

POINTER = ctypes.c_void_p


class Parameter(NamedTuple):
    """One parameter of an operator's first phase."""

    name: str
    kind: str  # tensor, out_tensor, inout_tensor, the same with _list, scalar, int_array, bool_array, char*, a C number
    optional: bool

    @property
    def is_tensor(self) -> bool:
        return self.kind.endswith("tensor")

    @property
    def is_tensor_list(self) -> bool:
        return self.kind.endswith("tensor_list")

    @property
    def is_written(self) -> bool:
        return self.kind.startswith(("out_", "inout_"))

    @property
    def ctype(self) -> Any:
        return BY_VALUE.get(self.kind, ctypes.c_char_p if self.kind == "char*" else POINTER)


# Kinds that travel by value.
BY_VALUE: dict[str, Any] = {
    "int64": ctypes.c_int64, "uint64": ctypes.c_uint64, "int32": ctypes.c_int32, "int8": ctypes.c_int8,
    "bool": ctypes.c_bool, "float": ctypes.c_float, "double": ctypes.c_double, "dtype": ctypes.c_int32,
}  # fmt: skip
INTEGERS = frozenset(("int64", "uint64", "int32", "int8"))


@functools.cache
def _lines() -> dict[str, list[str]]:
    text = Path(__file__).with_name("aclnn.tsv").read_text()
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {symbol: rest for symbol, *rest in rows}


def symbols() -> tuple[str, ...]:
    """The names of all operators whose signature is known."""
    return tuple(_lines())


@functools.cache
def signature(symbol: str) -> tuple[Parameter, ...]:
    """The first phase's parameters, without workspace size and executor; LookupError for an unknown operator."""
    line = _lines().get(symbol)
    if line is None:
        raise LookupError(f"{symbol} is not in aclnn.tsv: its C parameters are not known")
    pairs = (part.split(":") for part in line[0].split())
    return tuple(Parameter(name, kind.rstrip("?"), kind.endswith("?")) for name, kind in pairs)


def limits_text(symbol: str) -> str:
    """What aclnn.tsv says of the element types that an operator takes; nothing where that is not known."""
    line = _lines().get(symbol, [])
    return line[1] if len(line) > 1 else ""


# aclDataType
DATA_TYPES: dict[np.dtype, int] = {
    np.dtype(kind): code for kind, code in (
        (np.float32, 0), (np.float16, 1), (np.int8, 2), (np.int32, 3), (np.uint8, 4), (np.int16, 6), (np.uint16, 7),
        (np.uint32, 8), (np.int64, 9), (np.uint64, 10), (np.float64, 11), (np.bool_, 12), (np.complex64, 16),
        (np.complex128, 17), (bfloat16.np, 27), (float8_e5m2.np, 35), (float8_e4m3fn.np, 36))
}  # fmt: skip

# aclFormat by rank, for the operators (convolution, pooling, batch norm) that look at it; all other ranks are ND.
FORMATS = {3: 47, 4: 0, 5: 30}
ND = 2
MAX_DIMS = 8

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3
ALREADY_INITIALISED = 100002
OUT_OF_MEMORY = frozenset((207001, 207018))
INNER_STEP_FAILED = 561103  # phase one could not build a step of its own, usually for a strided input

MEANINGS = {
    100002: "initialised twice", 107000: "bad parameter", 107001: "bad device id", 107002: "no context in this thread",
    107003: "stream of another context", 107017: "bad handle", 107019: "wait timed out", 107020: "task timed out",
    161001: "NULL where it is not allowed", 161002: "dtype, shape, format or rank not supported",
    207000: "not supported", 207001: "out of memory", 207018: "device out of memory", 361001: "runtime call failed",
    507000: "internal error", 507011: "model execution failed", 507014: "AI core timed out",
    507015: "AI core exception", 507017: "AI CPU timed out", 507018: "AI CPU exception", 507033: "device did not start",
    507034: "vector core timed out", 507035: "vector core exception", 507046: "synchronising the stream timed out",
    507048: "internal task timed out", 507053: "memory error", 507054: "uncorrectable HBM error",
    561000: "internal error", 561001: "shapes do not fit",
    561002: "tiling failed", 561003: "kernel not found", 561101: "no executor",
    561102: "executor was not handed over",
    561103: "an inner step could not be built: dtype or layout not supported, or this chip's kernel package is missing",
    561107: "ASCEND_OPP_PATH not found; has set_env.sh of the toolkit been sourced?",
    561112: "kernel package not loaded",
}  # fmt: skip
