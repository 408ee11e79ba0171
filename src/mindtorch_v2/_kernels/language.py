"""Kernels written as Python functions, of a subset of Python that has an exact meaning in machine code.

A `kernel` takes arrays, then numbers; keyword-only arguments are known when it is compiled. It also runs as it stands,
on NumPy arrays: slowly, for tests and for readers who step through it. reader.py makes IR of it for given types of
arrays. docs/kernels.md has the rules.
"""

import ast
import builtins
import ctypes
import functools
import inspect
import math as _math
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._core.computed import computed_once
from .matrices import multiply
from .panels import multiply_panel, pack

# names for kernels, with their meaning in plain Python ----------------------------------------------------------------

inf, nan = _math.inf, _math.nan
float32, float64, int32, int64, uint32, uint64 = np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64


def parallel(count: int, work: int = 1) -> Iterator[int]:
    """The turns of the outermost loop, which are independent; one takes about as long as `work` additions."""
    return iter(range(count))


def unrolled(*limits: int) -> Iterator[int]:
    """A loop whose turns are written out."""
    return iter(range(*limits))


class flat:  # noqa: N801 - an annotation
    """Of an array: its elements in C order whatever dimensions it has, so that one index names them."""

    dtype: Any

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError

    def __setitem__(self, index: Any, value: Any) -> None:
        raise NotImplementedError


def like(value: Any, other: Any) -> Any:
    """A number in the type of another, or in that which is computed in with elements of an array."""
    if not hasattr(other, "dtype"):
        return type(other)(value)
    kind = other.dtype
    return (np.float32 if kind.itemsize == 2 and kind.kind in "fV" else kind.type)(value)


def rounded(value: Any, array: Any) -> Any:
    """A number as an array would keep it, if that is of half precision: rounded, in the type it was computed in."""
    return type(value)(array.dtype.type(value)) if array.dtype.itemsize == 2 and array.dtype.kind in "fV" else value


def local(length: int, kind: Any) -> Any:
    """Scratch memory: uninitialised elements of a type, as `float64`, or of that of a number or of array's elements."""
    return np.empty(length, kind if isinstance(kind, type) else np.asarray(like(0, kind)).dtype)


def larger(a: Any, b: Any) -> Any:
    """The larger of two numbers, where nobody asks what comes of NaN: quicker than `max`."""
    return a if a > b else b


def smaller(a: Any, b: Any) -> Any:
    return a if a < b else b


def ordered(value: Any) -> Any:
    """A sum whose order matters, so that it is not added in another one."""
    return value


def c_div(a: Any, b: Any) -> Any:
    return type(a)(_math.trunc(a / b)) if isinstance(a, float) else abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def c_rem(a: Any, b: Any) -> Any:
    return _math.fmod(a, b) if isinstance(a, float) else a - c_div(a, b) * b


def as_int(value: Any) -> Any:
    """The bits of a floating number."""
    return value.view(np.int32 if value.dtype == np.float32 else np.int64)


def as_float32(bits: Any) -> Any:
    return np.int64(bits).astype(np.uint32).view(np.float32)


def as_float64(bits: Any) -> Any:
    return np.int64(bits).view(np.float64)


def peek(address: int) -> int:
    """The int64 at an address."""
    return ctypes.c_int64.from_address(address).value


def peek32(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


def poke(address: int, value: int) -> None:
    ctypes.c_int64.from_address(address).value = value


def _atomic(combine: Callable) -> Callable:
    def update(array: Any, *index_and_value: Any) -> None:
        at = index_and_value[:-1]
        array[at] = combine(array[at], index_and_value[-1])

    return update


atomic_add = _atomic(lambda a, b: a + b)
atomic_min = _atomic(np.minimum)
atomic_max = _atomic(np.maximum)


def _special(name: str) -> Callable:
    def call(*args: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*args)

    return call


def fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


exp, exp2, expm1, log, log2, log10, log1p = np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p
sin, cos, tan, asin, acos, atan, atan2 = np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.arctan2
sinh, cosh, tanh, asinh, acosh, atanh = np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh
pow, sqrt, cbrt, hypot, fmod = np.power, np.sqrt, np.cbrt, np.hypot, np.fmod
floor, ceil, trunc, rint, copysign, fmin, fmax = np.floor, np.ceil, np.trunc, np.rint, np.copysign, np.fmin, np.fmax
isnan, isinf, isfinite, nextafter = np.isnan, np.isinf, np.isfinite, np.nextafter
logaddexp = np.logaddexp
erf, erfc, erfinv, lgamma, digamma = map(_special, ("erf", "erfc", "erfinv", "gammaln", "digamma"))
sigmoid, erfcx, ndtr, log_ndtr, ndtri = map(_special, ("expit", "erfcx", "ndtr", "log_ndtr", "ndtri"))
i0, i0e, i1, i1e = map(_special, ("i0", "i0e", "i1", "i1e"))


def far(name: str, x: Any, limit: float, *args: Any) -> Any:
    """The C library's function of that name, of x or of `args`, where |x| is above the limit; anything elsewhere."""
    return (globals().get(name) or getattr(np, name))(*(args or (x,)))


def rsqrt(x: Any) -> Any:
    return 1 / sqrt(x)


# Functions that have an operation of their own; those of `_kernels/math.py` are looked up there by the type.
OPERATIONS: dict[Any, str] = {
    abs: "abs", min: "min", max: "max", fmin: "fmin", fmax: "fmax", sqrt: "sqrt", floor: "floor", ceil: "ceil",
    trunc: "trunc", rint: "rint", copysign: "copysign", fma: "fma", exp: "exp", exp2: "exp2", expm1: "expm1",
    log: "log", log2: "log2", log10: "log10", log1p: "log1p", sin: "sin", cos: "cos", tan: "tan", asin: "asin",
    acos: "acos", atan: "atan", atan2: "atan2", sinh: "sinh", cosh: "cosh", tanh: "tanh", asinh: "asinh",
    acosh: "acosh", atanh: "atanh", pow: "pow", cbrt: "cbrt", erf: "erf", erfc: "erfc", erfinv: "erfinv",
    lgamma: "lgamma", digamma: "digamma", hypot: "hypot", fmod: "fmod", nextafter: "nextafter",
    logaddexp: "logaddexp", sigmoid: "sigmoid", erfcx: "erfcx", ndtr: "ndtr", log_ndtr: "log_ndtr",
    ndtri: "ndtri", i0: "i0", i0e: "i0e", i1: "i1", i1e: "i1e",
    larger: "larger", smaller: "smaller",
}  # fmt: skip
# These take integers as they are.
ANY_TYPE = frozenset(("abs", "min", "max", "larger", "smaller"))
CASTS: dict[Any, str] = {float32: "f32", float64: "f64", int32: "i32", int64: "i64", uint32: "u32", uint64: "u64",
                         int: "i64", float: "weak", bool: "bool"}  # fmt: skip
ATOMICS = {atomic_add: "add", atomic_min: "min", atomic_max: "max"}
# What the reader has a meaning of its own for.
LANGUAGE = frozenset((peek, peek32, poke, like, rounded, local, ordered, c_div, c_rem, as_int, as_float32, as_float64,
                      far, rsqrt, isnan, isinf, isfinite, multiply, multiply_panel, pack))  # fmt: skip


class KernelError(Exception):
    """A kernel is not of the language."""


class Written:
    """A function of the language: callable as it is, and readable."""

    def __init__(self, function: Callable) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: Any, **constants: Any) -> Any:
        return self.function(*args, **constants)

    @computed_once
    def tree(self) -> ast.FunctionDef:
        source, line = inspect.getsourcelines(self.function)
        tree = ast.parse(textwrap.dedent("".join(source)))
        ast.increment_lineno(tree, line - 1)
        made = tree.body[0]
        assert isinstance(made, ast.FunctionDef)
        return made

    @computed_once
    def changing(self) -> set[str]:
        """Names that have several values."""
        counts: dict[str, int] = {}
        for tree in ast.walk(self.tree):
            if isinstance(tree, ast.Name) and isinstance(tree.ctx, ast.Store):
                counts[tree.id] = counts.get(tree.id, 0) + 1
            if isinstance(tree, ast.AugAssign) and isinstance(tree.target, ast.Name):
                counts[tree.target.id] = 2
        parameters = {a.arg for a in self.tree.args.args}
        changing = {name for name, n in counts.items() if n > 1 or name in parameters}
        for loop in ast.walk(self.tree):  # what a loop assigns may be read before it in the next turn
            if isinstance(loop, (ast.For, ast.While)) and not is_unrolled(loop):
                changing |= {tree.id for part in loop.body for tree in ast.walk(part)
                             if isinstance(tree, ast.Name) and isinstance(tree.ctx, ast.Store)}
        return changing

    @computed_once
    def stores(self) -> bool:
        """Whether elements of arrays may change by it; a call for nothing else is one that stores."""
        return any(isinstance(tree, ast.Subscript) and isinstance(tree.ctx, ast.Store)
                   or isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Call) for tree in ast.walk(self.tree))

    @computed_once
    def names(self) -> dict[str, Any]:
        """What the function finds outside of itself."""
        return {**vars(builtins), **self.function.__globals__, **inspect.getclosurevars(self.function).nonlocals}


class function(Written):  # noqa: N801 - decorators
    """A function that kernels call: it becomes part of them."""


class kernel(Written):  # noqa: N801
    """A kernel."""


def is_unrolled(loop: ast.For | ast.While) -> bool:
    called = loop.iter.func if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) else None
    return getattr(called, "id", "") == "unrolled"
