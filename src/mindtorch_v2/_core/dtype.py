"""Element types, their limits, and the promotion lattice."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .planning import forget_plans
from .small_floats import FORMATS, array_types

_SMALL = array_types()


class dtype:
    """An element type; the instances below are the only ones."""

    __slots__ = ("category", "is_complex", "is_floating_point", "is_signed", "itemsize", "name", "np", "scalar_name")

    __module__ = "mindtorch_v2"  # where pickle finds the instances by name, `bool` among them
    name: str
    np: np.dtype
    scalar_name: str
    category: int

    def __init__(self, name: str, array_type: Any, scalar_name: str, category: int) -> None:
        self.name = name
        self.np = np.dtype(array_type)
        self.scalar_name = scalar_name
        self.category = category
        self.itemsize = self.np.itemsize
        self.is_floating_point = category == FLOAT
        self.is_complex = category == COMPLEX
        self.is_signed = category >= FLOAT and name != "float8_e8m0fnu" or (category == INT and name.startswith("int"))

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    @property
    def abbr(self) -> str:
        """A short name: "f32", "i64", "bf16"."""
        if self.name == "bool":
            return "b8"
        if self.name.startswith("bits"):
            return self.name.replace("bits", "b") + ("" if "x" in self.name else "x1")
        short = self.name.replace("_", "").replace("float", "f").replace("complex", "c")
        return short.replace("uint", "u").replace("int", "i")

    def to_real(self) -> "dtype":
        return {"complex32": float16, "complex64": float32, "complex128": float64}.get(self.name, self)

    def to_complex(self) -> "dtype":
        found = {float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128}.get(self)
        if found is None and not self.is_complex:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_name}")
        return found or self


# Categories, in the order in which a higher one decides a mixed operation.
BOOL, INT, FLOAT, COMPLEX = range(4)

bool_ = dtype("bool", np.bool_, "Bool", BOOL)
uint8 = dtype("uint8", np.uint8, "Byte", INT)
int8 = dtype("int8", np.int8, "Char", INT)
int16 = dtype("int16", np.int16, "Short", INT)
int32 = dtype("int32", np.int32, "Int", INT)
int64 = dtype("int64", np.int64, "Long", INT)
uint16 = dtype("uint16", np.uint16, "UInt16", INT)
uint32 = dtype("uint32", np.uint32, "UInt32", INT)
uint64 = dtype("uint64", np.uint64, "UInt64", INT)
float16 = dtype("float16", np.float16, "Half", FLOAT)
bfloat16 = dtype("bfloat16", _SMALL["bfloat16"], "BFloat16", FLOAT)
float32 = dtype("float32", np.float32, "Float", FLOAT)
float64 = dtype("float64", np.float64, "Double", FLOAT)
FLOAT8 = tuple(dtype(name, _SMALL[name], name.capitalize(), FLOAT) for name in (
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"))
float8_e4m3fn, float8_e5m2 = FLOAT8[:2]
# NumPy has no such numbers: elements are pairs, which `cast` and `assign` bring into other types and back.
complex32 = dtype("complex32", [("real", np.float16), ("imag", np.float16)], "ComplexHalf", COMPLEX)
complex64 = dtype("complex64", np.complex64, "ComplexFloat", COMPLEX)
complex128 = dtype("complex128", np.complex128, "ComplexDouble", COMPLEX)

ALL = (bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16, float32, float64,
       *FLOAT8, complex32, complex64, complex128)

# The public names; `bool` is left to the package, which must not shadow the builtin here.
NAMES = {d.name: d for d in ALL} | {
    "half": float16, "float": float32, "double": float64, "short": int16, "int": int32, "long": int64,
    "chalf": complex32, "cfloat": complex64, "cdouble": complex128,
}

OF_ARRAY = {d.np: d for d in ALL}
# Types narrower than float32 compute in it, as PyTorch's kernels do, and round once at the end.
COMPUTE = dict.fromkeys((float16, bfloat16, *FLOAT8), float32)
REDUCED = frozenset(d.np for d in COMPUTE)
COMPUTE[complex32] = complex64
WIDER = {narrow.np: wide.np for narrow, wide in COMPUTE.items()}


_FEW = 1 << 10  # elements below which NumPy's loops are as quick as compiled ones
# What copies elements in compiled code, and says whether it did: (target, source) -> bool.
copiers: list[Callable[[np.ndarray, np.ndarray], bool]] = []


def copied(target: np.ndarray, source: np.ndarray) -> bool:
    """Whether compiled code wrote one array into the other."""
    if target.size < _FEW or not target.__class__ is np.ndarray is source.__class__:
        return False
    return any([copy(target, source) for copy in copiers])


def cast(array: np.ndarray, kind: np.dtype) -> np.ndarray:
    """An array in another type."""
    if copiers and array.size >= _FEW and array.dtype != kind:
        made = np.empty_like(array, kind)
        if copied(made, array):
            return made
    if array.dtype == complex32.np:
        wide = np.empty_like(array, np.complex64)
        wide.real, wide.imag = array["real"], array["imag"]
        return wide.astype(kind, copy=False)
    if kind != complex32.np:
        if array.dtype.kind == "c" and kind.kind not in "cb":
            return cast(array.real, kind)  # NumPy would warn in words of its own
        return array.astype(kind)
    made = np.empty_like(array, kind)
    made["real"], made["imag"] = array.real, array.imag
    return made


def assign(target: np.ndarray, source: np.ndarray) -> None:
    """Writes an array into another of any type."""
    if copied(target, source):
        return
    if complex32.np in (target.dtype, source.dtype) and target.dtype != source.dtype:
        source = cast(source, target.dtype)
    np.copyto(target, source, casting="unsafe")


def row_major(array: np.ndarray) -> np.ndarray:
    """An array whose elements lie row by row: itself, or a copy."""
    if array.__class__ is not np.ndarray or array.flags.c_contiguous or array.size < _FEW or not copiers:
        return np.ascontiguousarray(array)
    made = np.empty(array.shape, array.dtype)
    assign(made, array)
    return made


_PYTHON_TYPES = {float: float64, int: int64, bool: bool_, complex: complex128}
_WIDE_UNSIGNED = (uint16, uint32, uint64)


class _NamedOnly(dtype):
    """A type of PyTorch's of which there are no tensors here: it can be named, compared, and asked what it is."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        self.name, self.category = name, FLOAT if name.startswith("float") else INT
        letters = 3 if name.startswith(("qui", "uin")) else 2 if name.startswith("qi") else 1
        self.scalar_name = name[:letters].upper() + name[letters:]
        self.itemsize = {"bits16": 2, "qint32": 4}.get(name, 1)
        self.is_floating_point, self.is_complex = name.startswith("float"), False

    @property
    def is_signed(self) -> bool:  # type: ignore[override]
        if self.name.startswith("q"):
            raise RuntimeError("isSignedType not supported for quantized types")
        return self.name.startswith(("int", "float"))


NAMES |= {name: _NamedOnly(name) for name in (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)), "bits1x8", "bits2x4", "bits4x2", "bits8",
    "bits16", "qint8", "quint8", "qint32", "quint4x2", "quint2x4", "float4_e2m1fn_x2")}


def as_dtype(value: Any) -> dtype:
    """A dtype out of a dtype, a Python type, or a NumPy type."""
    if value.__class__ is dtype:
        return value
    if isinstance(value, _NamedOnly):
        raise NotImplementedError(f"there are no tensors of type {value} here")
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return _PYTHON_TYPES[value]
    raise TypeError(f"argument 'dtype' must be torch.dtype, not {type(value).__name__}")


class _Default:
    dtype = float32


def get_default_dtype() -> dtype:
    """The type of tensors made of Python's floating point numbers."""
    return _Default.dtype


def set_default_dtype(d: dtype) -> None:
    """Sets what Python floats become; floating types only, as in PyTorch."""
    if d.__class__ is not dtype:
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _Default.dtype = d
    forget_plans()


def default_complex() -> dtype:
    return _Default.dtype.to_complex()


def _check_dtypes(function: str, **given: Any) -> None:
    for position, (name, value) in enumerate(given.items(), 1):
        if not isinstance(value, dtype):
            raise TypeError(f"{function}(): argument '{name}' (position {position}) must be torch.dtype, not "
                            f"{type(value).__name__}")


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest type that can hold both, in PyTorch's lattice."""
    if type1.__class__ is not dtype or type2.__class__ is not dtype:
        _check_dtypes("promote_types", type1=type1, type2=type2)
    return _promoted(type1, type2)


@functools.cache
def _promoted(type1: dtype, type2: dtype) -> dtype:
    if type1 is type2:
        return type1
    if type1 in FLOAT8 or type2 in FLOAT8:
        raise RuntimeError("Promotion for Float8 Types is not supported, attempted to promote "
                           f"{type1.scalar_name} and {type2.scalar_name}")
    low, high = sorted((type1, type2), key=lambda d: d.category)
    if high.category == INT and (low in _WIDE_UNSIGNED or high in _WIDE_UNSIGNED):
        raise RuntimeError("Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
                           f"{type1.scalar_name} and {type2.scalar_name}")
    if low.category == BOOL:
        return high
    if high.category == INT:
        return OF_ARRAY[np.promote_types(low.np, high.np)]
    if low.category == INT:
        return high
    if high.category == FLOAT:
        if low.itemsize == high.itemsize:  # float16 with bfloat16
            return float32
        return low if low.itemsize > high.itemsize else high
    if float64 in (low, high) or complex128 in (low, high):
        return complex128
    return high if low is float16 else complex64


def of_number(value: Any) -> dtype:
    """The type a Python number has when it meets nothing else."""
    kind = value.__class__
    if kind is bool:
        return bool_
    if kind is int:
        return int64 if value < 2**63 else uint64
    if kind is float:
        return _Default.dtype
    if kind is complex:
        return default_complex()
    if isinstance(value, np.generic):
        return of_number(value.item())
    return of_number(bool(value) if isinstance(value, bool) else value.__index__())


def combine(dimensioned: dtype | None, zero_dim: dtype | None, number: dtype | None) -> dtype:
    """PyTorch's rule: an operand of lower rank decides only if its category is higher."""
    result = _combine_two(dimensioned, _combine_two(zero_dim, number))
    assert result is not None
    return result


def _combine_two(strong: dtype | None, weak: dtype | None) -> dtype | None:
    if strong is None or weak is None:
        return strong or weak
    if weak.category <= strong.category and strong.category != BOOL:
        return strong
    if strong.is_floating_point:  # a complex weak operand keeps the strong one's width
        return strong.to_complex()
    return promote_types(strong, weak)


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a result of type `from_` may be stored in `to` without losing its category."""
    if from_.__class__ is not dtype or to.__class__ is not dtype:
        _check_dtypes("can_cast", from_=from_, to=to)
    return from_.category <= to.category


class finfo:
    """Limits of a floating or complex type."""

    def __init__(self, type: dtype | None = None) -> None:  # noqa: A002 - PyTorch's parameter name
        d: Any = get_default_dtype() if type is None else type
        if d.__class__ is not dtype and d not in (float, complex):
            _check_dtypes("finfo", type=d)
        d = {float: float64, complex: complex128}.get(d, d)
        if d.__class__ is not dtype or d.category < FLOAT:
            raise TypeError("torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                            "'torch.finfo'")
        d = d.to_real()
        info: Any = FORMATS[d.name] if d.name in FORMATS else np.finfo(d.np)
        self.dtype, self.bits = d.name, d.itemsize * 8
        self.max, self.min = float(info.max), float(info.min)
        self.eps = float(info.eps)
        self.resolution = 10.0 ** -int(-math.log2(info.eps) * math.log10(2))  # decimal digits that survive
        self.tiny = self.smallest_normal = float(info.smallest_normal)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo:
    """Limits of an integer type."""

    def __init__(self, type: dtype) -> None:  # noqa: A002 - PyTorch's parameter name
        if type is bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if type.__class__ is not dtype or type.category != INT:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        info = np.iinfo(type.np)
        self.dtype, self.bits, self.max, self.min = type.name, info.bits, int(info.max), int(info.min)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

# How PyTorch's texts call the element types, after C++.
CPP_NAMES = {"uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int", "int64": "long int",
             "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
             "bool": "bool", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
             "uint16": "short unsigned int",
             "uint32": "unsigned int", "uint64": "long unsigned int"}
