"""The floating point types of 16 and 8 bits that NumPy has not: ml_dtypes', or ones of our own where that is missing.

Ours are registered with NumPy in the way that ml_dtypes registers its types, through NumPy's table of C functions, with
functions of Python that convert whole arrays. Arrays of them are copied, viewed and indexed by NumPy itself; arithmetic
converts, as PyTorch's does: to float32, and back at the end. It is slower, and needs no compiled package.
"""

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .native import capsule_pointer, forever


class Format(NamedTuple):
    """How a type lays out its bits, below the sign, and what the codes at the top mean."""

    exponent: int  # bits
    mantissa: int  # bits
    bias: int
    overflow: int  # the code of what is too large: infinity, or NaN
    nan: int
    signed: bool = True

    @property
    def largest_code(self) -> int:
        """Of the finite numbers, which come in the order of their codes."""
        if self.nan == 0x80:  # the code of minus zero: all others are numbers
            return 0x7F
        return self.overflow - 1

    def value(self, code: int) -> float:
        """The number of a code without a sign."""
        exponent, mantissa = code >> self.mantissa, code & ((1 << self.mantissa) - 1)
        if not self.signed:
            return 2.0 ** (code - self.bias)
        if exponent == 0:
            return mantissa * 2.0 ** (1 - self.bias - self.mantissa)
        return (1 + mantissa / (1 << self.mantissa)) * 2.0 ** (exponent - self.bias)

    @property
    def max(self) -> float:
        return self.value(self.largest_code)

    @property
    def min(self) -> float:
        return -self.max if self.signed else self.value(0)

    @property
    def eps(self) -> float:
        return 2.0**-self.mantissa

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias) if self.signed else self.value(0)


FORMATS = {
    "bfloat16": Format(8, 7, 127, 0x7F80, 0x7FC0),
    "float8_e4m3fn": Format(4, 3, 7, 0x7F, 0x7F),
    "float8_e5m2": Format(5, 2, 15, 0x7C, 0x7E),
    "float8_e4m3fnuz": Format(4, 3, 8, 0x80, 0x80),
    "float8_e5m2fnuz": Format(5, 2, 16, 0x80, 0x80),
    "float8_e8m0fnu": Format(8, 0, 127, 0xFF, 0xFF, signed=False),
}


def array_types() -> dict[str, np.dtype]:
    """NumPy's types, by name."""
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        return _registered()
    return {name: np.dtype(getattr(ml_dtypes, name)) for name in FORMATS}


# converting ----------------------------------------------------------------------------------------------------------


@functools.cache
def _decoded(name: str) -> np.ndarray:
    """The number of each code of 8 bits."""
    form = FORMATS[name]
    numbers = np.full(256, np.nan, np.float32)
    for code in range(form.largest_code + 1):
        numbers[code] = form.value(code)
        if form.signed and not (code == 0 and form.nan == 0x80):
            numbers[code | 0x80] = -form.value(code)
    if form.overflow != form.nan:
        numbers[form.overflow], numbers[form.overflow | 0x80] = np.inf, -np.inf
    return numbers


def decode(name: str, codes: np.ndarray) -> np.ndarray:
    """float32 numbers of codes."""
    if name == "bfloat16":
        return (codes.astype(np.uint32) << 16).view(np.float32)
    return _decoded(name)[codes]


def encode(name: str, numbers: np.ndarray) -> np.ndarray:
    """Codes of float32 numbers, rounded to the nearest, ties to the even code."""
    form, bits = FORMATS[name], numbers.view(np.uint32)
    if name == "bfloat16":
        rounded = ((bits + np.uint64(0x7FFF) + ((bits >> 16) & 1)) >> np.uint64(16)).astype(np.uint16)
        return np.where(np.isnan(numbers), (bits >> 16 & 0x8000 | form.nan).astype(np.uint16), rounded)
    if not form.signed:  # nothing but an exponent; ties go up
        exponent, rest = (bits >> 23) & 0xFF, bits & 0x7FFFFF
        codes = np.minimum(exponent + ((rest > 0x400000) | (rest == 0x400000) & (exponent > 0)), form.nan)
        return np.where((numbers < 0) | np.isnan(numbers), form.nan, codes).astype(np.uint8)
    ladder = np.array([form.value(code) for code in range(form.largest_code + 2)])  # the last one is an overflow
    size = np.abs(numbers.astype(np.float64))
    upper = np.clip(np.searchsorted(ladder, size), 1, len(ladder) - 1)
    above, below = ladder[upper] - size, size - ladder[upper - 1]
    codes = np.where((above < below) | ((above == below) & (upper % 2 == 0)), upper, upper - 1)
    codes = np.where(codes > form.largest_code, form.overflow, codes).astype(np.uint8)
    codes = np.where(np.isnan(numbers), form.nan, codes).astype(np.uint8)
    minus_zero = (codes == 0) & (form.nan == 0x80)
    return np.where(np.signbit(numbers) & ~minus_zero, codes | 0x80, codes).astype(np.uint8)


# telling NumPy -------------------------------------------------------------------------------------------------------

_ANY, _SIZE, _INT = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int
# Places in NumPy's table of C functions.
_DESCRIPTOR_TYPE, _REGISTER_TYPE, _REGISTER_CAST, _REGISTER_SAFE_CAST, _INIT_FUNCTIONS, _FUNCTIONS_OF = (
    3, 192, 193, 194, 195, 365)
_REGISTER_LOOP = 2  # in that of its ufuncs
_READS_AND_WRITES_ITEMS = 0x20 | 0x40  # elements are read and written as Python numbers
_NO_SCALAR = -1


class _Functions(ctypes.Structure):
    """PyArray_ArrFuncs."""

    _fields_ = [("cast", _ANY * 21), *((name, _ANY) for name in (
        "getitem setitem copyswapn copyswap compare argmax dotfunc scanfunc fromstr nonzero fill "
        "fillwithscalar".split())),
        ("sort", _ANY * 3), ("argsort", _ANY * 3), *((name, _ANY) for name in (
            "castdict scalarkind cancastscalarkindto cancastto unused1 unused2 unused3 argmin".split()))]


class _Description(ctypes.Structure):
    """PyArray_DescrProto."""

    _fields_ = [("references", _SIZE), ("type", _ANY), ("typeobj", _ANY), ("kind", ctypes.c_char),
                ("char", ctypes.c_char), ("byteorder", ctypes.c_char), ("flags", ctypes.c_char), ("type_num", _INT),
                ("elsize", _INT), ("alignment", _INT), ("subarray", _ANY), ("fields", _ANY), ("names", _ANY),
                ("f", _ANY), ("metadata", _ANY), ("c_metadata", _ANY), ("hash", _SIZE)]


def _table(name: str) -> Any:
    from numpy._core import _multiarray_umath

    return ctypes.cast(capsule_pointer(getattr(_multiarray_umath, name), None), ctypes.POINTER(_ANY))


def _elements(address: int, count: int, kind: np.dtype) -> np.ndarray:
    return np.frombuffer(_memory(address, count * kind.itemsize), kind)


def _memory(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def _callback(result: Any, *arguments: Any) -> Callable[[Callable], Any]:
    def decorate(function: Callable) -> Any:
        return ctypes.cast(forever(ctypes.PYFUNCTYPE(result, *arguments)(function)), _ANY)  # NumPy points to it

    return decorate


def _functions(table: Any, name: str, bits: np.dtype) -> _Functions:
    """What NumPy calls for single elements; memory is copied as that of integers of the same size is."""

    def number(address: int) -> float:
        return float(decode(name, _elements(address, 1, bits))[0])

    @_callback(ctypes.py_object, _ANY, _ANY)
    def getitem(address: int, array: Any) -> float:
        return number(address)

    @_callback(_INT, ctypes.py_object, _ANY, _ANY)
    def setitem(value: Any, address: int, array: Any) -> int:
        with np.errstate(all="ignore"):
            _elements(address, 1, bits)[:] = encode(name, np.array([float(value)]).astype(np.float32))
        return 0

    @_callback(_INT, _ANY, _ANY, _ANY)
    def compare(one: int, other: int, array: Any) -> int:
        a, b = number(one), number(other)
        return (a > b or a != a) - (a < b or b != b)  # NaN last, as NumPy sorts it

    @_callback(ctypes.c_byte, _ANY, _ANY)
    def nonzero(address: int, array: Any) -> bool:
        return number(address) != 0

    def extreme(find: Callable) -> Any:
        @_callback(_INT, _ANY, _SIZE, ctypes.POINTER(_SIZE), _ANY)
        def found(address: int, count: int, index: Any, array: Any) -> int:
            index[0] = int(find(decode(name, _elements(address, count, bits))))
            return 0

        return found

    functions = _Functions()
    ctypes.PYFUNCTYPE(None, _ANY)(table[_INIT_FUNCTIONS])(ctypes.addressof(functions))
    same_size = _Functions.from_address(ctypes.PYFUNCTYPE(_ANY, _ANY)(table[_FUNCTIONS_OF])(id(bits)))
    functions.copyswapn, functions.copyswap = same_size.copyswapn, same_size.copyswap
    functions.getitem, functions.setitem, functions.compare = getitem, setitem, compare
    functions.nonzero, functions.argmax, functions.argmin = nonzero, extreme(np.argmax), extreme(np.argmin)
    return functions


def _register_casts(table: Any, made: dict[str, np.dtype]) -> None:
    register = ctypes.PYFUNCTYPE(_INT, _ANY, _INT, _ANY)(table[_REGISTER_CAST])
    safe = ctypes.PYFUNCTYPE(_INT, _ANY, _INT, _INT)(table[_REGISTER_SAFE_CAST])

    def cast(kind: np.dtype, read: Callable, target: np.dtype, stored: np.dtype, write: Callable) -> None:
        @_callback(None, _ANY, _ANY, _SIZE, _ANY, _ANY)
        def convert(source: int, destination: int, count: int, array: Any, other: Any) -> None:
            with np.errstate(all="ignore"):
                _elements(destination, count, stored)[:] = write(read(source, count))

        if register(id(kind), target.num, convert):
            raise ImportError(f"NumPy {np.__version__} refused a cast from {kind} to {target}")

    def reading(name: str, bits: np.dtype) -> Callable:
        return lambda address, count: decode(name, _elements(address, count, bits))

    def plain(kind: np.dtype) -> Callable:
        return lambda address, count: _elements(address, count, kind)

    def writing(name: str) -> Callable:
        return lambda numbers: encode(name, (numbers.real if numbers.dtype.kind == "c" else numbers).astype(np.float32))

    for name, kind in made.items():
        bits = np.dtype(f"u{kind.itemsize}")
        for letter in "?bBhHiIlLqQefdgFDG":
            other = np.dtype(letter)
            cast(kind, reading(name, bits), other, other, functools.partial(_as_type, kind=other))
            cast(other, plain(other), kind, bits, writing(name))
            if letter in "fdgFDG" and safe(id(kind), other.num, _NO_SCALAR):
                raise ImportError(f"NumPy {np.__version__} refused a safe cast from {kind} to {other}")
        for other_name, small in made.items():
            if other_name != name:
                cast(kind, reading(name, bits), small, np.dtype(f"u{small.itemsize}"), writing(other_name))


def _as_type(numbers: np.ndarray, kind: np.dtype) -> np.ndarray:
    return numbers.astype(kind)


@functools.cache
def _registered() -> dict[str, np.dtype]:
    """The types as NumPy has them once they are registered."""
    table = _table("_ARRAY_API")
    register = ctypes.PYFUNCTYPE(_INT, _ANY)(table[_REGISTER_TYPE])
    made: dict[str, np.dtype] = {}
    for name in FORMATS:
        size = 2 if name == "bfloat16" else 1
        functions = _functions(table, name, np.dtype(f"u{size}"))
        scalar = type(name, (np.generic,), {"__module__": __name__, "__new__": _rounded})
        description = _Description(
            references=1, type=table[_DESCRIPTOR_TYPE], typeobj=id(scalar), kind=b"V", char=b"E", byteorder=b"=",
            flags=bytes([_READS_AND_WRITES_ITEMS]), elsize=size, alignment=size, f=ctypes.addressof(functions), hash=-1)
        for kept in (functions, scalar, description):
            forever(kept)
        if register(ctypes.addressof(description)) < 0:
            raise ImportError(f"NumPy {np.__version__} refused the type {name}")
        made[name] = np.dtype(scalar)
    _register_casts(table, made)
    _register_arithmetic(made)
    return made


def _rounded(cls: type, value: Any) -> float:
    """A Python number as the type has it: there are no other scalars of it."""
    return np.array([value]).astype(np.dtype(cls)).item()


# What gives results of the type; others give those of float32, to which every such number converts.
_ARITHMETIC = """
    absolute add arctan2 ceil copysign divide exp floor floor_divide fmax fmin fmod log maximum minimum multiply
    negative positive power remainder rint sign sqrt square subtract trunc
""".split()


def _register_arithmetic(made: dict[str, np.dtype]) -> None:
    register = ctypes.PYFUNCTYPE(_INT, ctypes.py_object, _INT, _ANY, ctypes.POINTER(_INT), _ANY)(
        _table("_UFUNC_API")[_REGISTER_LOOP])
    for name, kind in made.items():
        bits = np.dtype(f"u{kind.itemsize}")
        for word in _ARITHMETIC:
            function = getattr(np, word)
            types = (_INT * function.nargs)(*[kind.num] * function.nargs)
            if register(function, kind.num, _loop(name, bits, function), types, None) < 0:
                raise ImportError(f"NumPy {np.__version__} refused {word} of {name}")


def _loop(name: str, bits: np.dtype, function: np.ufunc) -> Any:
    @_callback(None, ctypes.POINTER(_ANY), ctypes.POINTER(_SIZE), ctypes.POINTER(_SIZE), _ANY)
    def loop(addresses: Any, counts: Any, steps: Any, data: Any) -> None:
        count = counts[0]
        arrays = [_strided(addresses[i], count, steps[i], bits) for i in range(function.nargs)]
        numbers = [decode(name, array) for array in arrays[:-1]]
        with np.errstate(all="ignore"):
            if function.nin == 2 and count and addresses[2] == addresses[0] + steps[0] and steps[2] == steps[0]:
                # A reduction, or an accumulation: each result is the first operand of the next.
                made = function.accumulate(np.concatenate([numbers[0][:1], numbers[1]]))[1:]
                made = made[-1:] if steps[0] == 0 else made
            else:
                made = function(*numbers)
            arrays[-1][:] = encode(name, made)

    return loop


def _strided(address: int, count: int, step: int, bits: np.dtype) -> np.ndarray:
    """Elements that lie `step` bytes from each other."""
    if not count:
        return np.empty(0, bits)
    first, extent = address + min(step, 0) * (count - 1), abs(step) * (count - 1) + bits.itemsize
    return np.ndarray((count,), bits, _memory(first, extent), address - first, (step,))
