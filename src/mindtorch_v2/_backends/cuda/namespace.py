"""The array namespace of CUDA kernels: CuPy, cupyx's special functions, and what NumPy has beyond them.

Every difference between NumPy, SciPy and CuPy that a kernel could meet is bridged here.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import cupyx
import numpy as np
from cupy.lib.stride_tricks import as_strided

from ..._core.computed import computed_once
from ..fourier import Transforms
from . import convolution, lapack

_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_or": "any",
               "logical_and": "all"}


def plain(value: Any) -> Any:
    """A value as CuPy takes it: NumPy's arrays without dimensions as scalars, larger ones on the device."""
    if value.__class__ is np.ndarray:
        return value[()] if not value.ndim else cupy.asarray(value)
    return value


class Ufunc:
    """A CuPy ufunc with NumPy's keywords and methods."""

    def __init__(self, name: str, ufunc: Callable) -> None:
        self.name = self.__name__ = name
        self.ufunc = ufunc

    def __call__(self, *args: Any, out: Any = None, dtype: Any = None, order: Any = None) -> Any:
        given = {} if dtype is None else {"dtype": dtype}
        if self.name.startswith("logical_"):  # which CuPy has for real numbers only
            args = tuple([a != 0 if getattr(getattr(a, "dtype", None), "kind", "") == "c" else a for a in args])
        made = self.ufunc(*map(plain, args), **given) if out is None else None
        if out is None:
            return made
        out = out[0] if isinstance(out, tuple) else out
        return self.ufunc(*map(plain, args), out, **given)

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
               initial: Any = None) -> Any:
        if isinstance(axis, list):
            axis = tuple(axis)
        if axis == () or (axis is not None and not array.ndim):
            made = array.copy() if self.name not in ("logical_or", "logical_and") else array.astype(bool)
        elif self.name == "bitwise_xor":
            made = _xored(array, axis, keepdims)
        elif initial is not None and not all(array.shape):
            shape = [1 if d in _dims(axis, array.ndim) else n for d, n in enumerate(array.shape)]
            made = cupy.full(shape, initial, array.dtype)
            made = made if keepdims else made.squeeze(_dims(axis, array.ndim))
        else:
            options = {"dtype": dtype} if dtype is not None and self.name in ("add", "multiply") else {}
            made = getattr(array, _REDUCTIONS[self.name])(axis=axis, keepdims=keepdims, **options)
            if initial is not None:
                made = self.ufunc(made, initial)
        if out is None:
            return made
        cupy.copyto(out, made, casting="unsafe")
        return out

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        if self.name == "add":
            return cupy.cumsum(array, axis, dtype, out)
        if self.name == "multiply":
            return cupy.cumprod(array, axis, dtype, out)
        return _scanned(self.ufunc, array, axis)

    def at(self, array: Any, indices: Any, values: Any = None) -> None:
        combine_at(self.name, array, indices, values)

    def reduceat(self, array: Any, indices: Any, axis: int = 0) -> Any:
        """Reductions of the stretches that begin at `indices`; none of them is empty."""
        kind = array.dtype
        largest = _limits(kind)[1 if self.name == "maximum" else 0]
        made = cupy.full((*array.shape[:axis], len(indices), *array.shape[axis + 1 :]), largest, kind)
        segment = cupy.searchsorted(indices, cupy.arange(array.shape[axis]), side="right") - 1
        kept = segment >= 0
        moved, target = cupy.moveaxis(array, axis, 0), cupy.moveaxis(made, axis, 0)
        combine_at(self.name, target, segment[kept], moved[kept])
        return made


def _dims(axis: Any, ndim: int) -> tuple[int, ...]:
    return tuple(range(ndim)) if axis is None else tuple(d % ndim for d in np.atleast_1d(axis))


def _limits(kind: np.dtype) -> tuple[Any, Any]:
    """The largest and the smallest number of a type."""
    if kind.kind == "f" or kind.kind == "V":
        return math.inf, -math.inf
    info = np.iinfo(kind) if kind.kind in "iu" else None
    return (info.max, info.min) if info else (True, False)


def _xored(array: Any, axis: Any, keepdims: bool) -> Any:
    """Exclusive or over the axes: each bit is the parity of how often it is set."""
    dims = _dims(axis, array.ndim)
    kept = [d for d in range(array.ndim) if d not in dims]
    flat = array.transpose(*kept, *dims).reshape(*(array.shape[d] for d in kept), -1)
    while flat.shape[-1] > 1:
        half = flat.shape[-1] // 2
        rest = flat[..., 2 * half :]
        flat = cupy.concatenate((flat[..., :half] ^ flat[..., half : 2 * half], rest), -1)
    made = flat[..., 0] if flat.shape[-1] else cupy.zeros(flat.shape[:-1], array.dtype)
    return made.reshape([1 if d in dims else n for d, n in enumerate(array.shape)]) if keepdims else made


def _scanned(combine: Callable, array: Any, axis: int) -> Any:
    """An inclusive scan by doubling steps."""
    made, length, step = array.copy(), array.shape[axis] if array.ndim else 1, 1
    lead = (slice(None),) * (axis % max(array.ndim, 1))
    while step < length:
        made[(*lead, slice(step, None))] = combine(made[(*lead, slice(step, None))],
                                                   made[(*lead, slice(None, -step))].copy())
        step *= 2
    return made


def combine_at(name: str, array: Any, indices: Any, values: Any) -> None:
    """Combines values into places of which some may be named several times."""
    if not getattr(values, "size", 1):
        return
    kind = array.dtype
    if name in ("add", "maximum", "minimum") and kind.char in "ILQfd" or name == "add" and kind.char in "e":
        getattr(cupyx, {"add": "scatter_add", "maximum": "scatter_max", "minimum": "scatter_min"}[name])(
            array, indices, plain(values))
        return
    _combine_in_rounds(name, array, indices, values)


def _combine_in_rounds(name: str, array: Any, indices: Any, values: Any) -> None:
    """The same for types without atomic operations: in each round every place gets at most one value."""
    if not isinstance(indices, tuple):
        indices = (indices,)
    places = cupy.arange(array.size).reshape(array.shape)[indices]
    values = cupy.broadcast_to(cupy.asarray(values).astype(array.dtype), places.shape).reshape(-1)
    places, order = places.reshape(-1), None
    order = cupy.argsort(places)
    ordered = places[order]
    starts = cupy.flatnonzero(cupy.concatenate((cupy.ones(1, bool), ordered[1:] != ordered[:-1])))
    rank = cupy.arange(ordered.size) - starts[cupy.searchsorted(starts, cupy.arange(ordered.size), side="right") - 1]
    flat, ufunc = array.reshape(-1), getattr(cupy, name)
    for turn in range(int(rank.max()) + 1):
        chosen = order[rank == turn]
        at = places[chosen]
        flat[at] = ufunc(flat[at], values[chosen])
    if not array.flags.c_contiguous:
        array[...] = flat.reshape(array.shape)


class Namespace:
    """What array kernels call `xp`."""

    ndarray = cupy.ndarray
    lapack, convolution = lapack, convolution
    is_cuda = True

    def in_blocks(self, compute: Callable, *arguments: Any) -> Any:
        return compute(self, *arguments)

    def __getattr__(self, name: str) -> Any:
        value = getattr(cupy, name, None)
        if value is None:
            import cupyx.scipy.special

            value = getattr(cupyx.scipy.special, name)
        if isinstance(value, cupy.ufunc):
            value = Ufunc(name, value)
        setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return "<array namespace cupy>"

    def by_rows(self, function: Callable, rows: Any) -> Any:
        """`function(rows)`, which works on each row alone."""
        return function(rows)

    @computed_once
    def fft(self) -> Any:
        import cupyx.scipy.fft

        return Transforms(cupyx.scipy.fft)

    # choices ---------------------------------------------------------------------------------------------------

    def where(self, condition: Any, *choices: Any) -> Any:
        if not choices:
            return cupy.nonzero(condition)
        first, second = map(plain, choices)
        if condition.__class__ is not cupy.ndarray:
            condition = cupy.asarray(condition)
        return cupy.where(condition, first, second)

    def zero_where(self, condition: Any, values: Any) -> Any:
        """`values` with 0 where the condition holds."""
        return cupy.where(condition, values.dtype.type(0), values)

    def at_least(self, x: Any, bound: Any) -> Any:
        return cupy.maximum(x, _typed(bound, x))

    def at_most(self, x: Any, bound: Any) -> Any:
        return cupy.minimum(x, _typed(bound, x))

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        return self.at_most(self.at_least(x, low), high)

    # rows ------------------------------------------------------------------------------------------------------

    def summed_rows(self, indices: Any, rows: Any, count: int) -> Any:
        """`count` rows, the i-th of which is the sum of those `rows` whose index is i."""
        made = cupy.zeros((count, rows.shape[1]), rows.dtype)
        combine_at("add", made, indices, rows)
        return made

    def bag_sums(self, table: Any, indices: Any, starts: Any, factors: Any) -> Any:
        """For each bag, `indices[starts[i]:starts[i + 1]]`, the sum of the table's rows it names, times factors."""
        made = cupy.zeros((len(starts) - 1, table.shape[1]), table.dtype)
        if len(indices):
            rows = table[indices] if factors is None else table[indices] * factors[:, None]
            combine_at("add", made, cupy.searchsorted(starts, cupy.arange(len(indices)), side="right") - 1, rows)
        return made

    # what CuPy lacks or spells in another way ------------------------------------------------------------------

    def uninitialised(self, shape: Sequence[int], kind: np.dtype, strides: Sequence[int] | None) -> Any:
        """An array of any geometry; strides in elements."""
        if strides is None or 0 in shape:
            return cupy.empty(tuple(shape), kind)
        span = 1 + sum(s * (n - 1) for s, n in zip(strides, shape, strict=True))
        return as_strided(cupy.empty(span, kind), tuple(shape), tuple([s * kind.itemsize for s in strides]))

    def asarray(self, value: Any, dtype: Any = None, order: Any = None) -> Any:
        made = cupy.asarray(value, dtype)
        return cupy.ascontiguousarray(made) if order == "C" and made.ndim else made

    def array(self, value: Any, dtype: Any = None, order: Any = None) -> Any:
        if isinstance(value, (tuple, list)) and value and isinstance(value[0], cupy.ndarray):
            value = cupy.stack(value)
        return cupy.array(value, dtype, order=order or "K")

    def copyto(self, target: Any, source: Any, casting: str = "unsafe", where: Any = None) -> None:
        if target.size:
            options = {} if where is None else {"where": where}
            cupy.copyto(target, plain(source), casting="unsafe", **options)

    def positive(self, x: Any) -> Any:
        return x.copy() if x.flags.c_contiguous or x.flags.f_contiguous else cupy.ascontiguousarray(x)

    def matmul(self, a: Any, b: Any, out: Any = None, order: Any = None) -> Any:
        if not (a.size and b.size):
            return cupy.zeros(np.matmul(np.empty(a.shape, bool), np.empty(b.shape, bool)).shape, a.dtype)
        return cupy.matmul(a, b, out=out) if out is not None else cupy.matmul(a, b)

    def linear(self, rows: Any, weight: Any, bias: Any) -> Any:
        made = self.matmul(rows, weight.T)
        if bias is not None:
            made += bias
        return made

    def vecdot(self, a: Any, b: Any, out: Any = None) -> Any:
        made = (a.conj() * b).sum(-1)
        if out is None:
            return made
        out[...] = made
        return out

    def vdot(self, a: Any, b: Any) -> Any:
        return (a.reshape(-1).conj() * b.reshape(-1)).sum()

    def all(self, x: Any, axis: Any = None) -> Any:
        return cupy.all(x, axis) if x.__class__ is cupy.ndarray else np.all(x)

    def isreal(self, x: Any) -> Any:
        return x.imag == 0 if x.dtype.kind == "c" else cupy.ones(x.shape, bool)

    def psi(self, x: Any) -> Any:
        import cupyx.scipy.special

        return cupyx.scipy.special.digamma(x)

    def count_nonzero(self, x: Any, axis: Any = None) -> Any:
        return (x != 0).sum(axis)

    def unravel_index(self, indices: Any, shape: Sequence[int]) -> tuple:
        made = []
        for n in reversed(shape):
            made.append(indices % n)
            indices = indices // n
        return tuple(reversed(made))

    def roll(self, x: Any, shift: Any, axis: Any = None) -> Any:
        return cupy.roll(x, shift, axis) if x.size else x.copy()

    def take(self, x: Any, indices: Any, axis: Any = None, mode: str = "wrap") -> Any:
        return cupy.take(x, cupy.asarray(indices), axis)

    def argpartition(self, x: Any, kth: Any, axis: int = -1) -> Any:
        return cupy.argsort(x, axis)

    def concatenate(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        return cupy.concatenate([plain(a) for a in arrays], axis)

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> Any:
        return cupy.stack([plain(a) for a in arrays], axis)

    def searchsorted(self, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
        v = cupy.asarray(v)
        return cupy.searchsorted(a, cupy.ascontiguousarray(v) if v.ndim else v, side, sorter)

    def shape(self, x: Any) -> tuple[int, ...]:
        return getattr(x, "shape", ())

    def isin(self, elements: Any, test: Any, assume_unique: bool = False, invert: bool = False) -> Any:
        return cupy.isin(cupy.asarray(elements), cupy.asarray(test), assume_unique=assume_unique, invert=invert)

    def bincount(self, x: Any, weights: Any = None, minlength: int = 0) -> Any:
        if not x.size:
            return cupy.zeros(minlength, np.int64 if weights is None else np.float64)
        made = cupy.bincount(x, weights, minlength)
        return made.astype(np.int64) if weights is None else made

    def put_along_axis(self, x: Any, indices: Any, values: Any, axis: int) -> None:
        places = list(cupy.ogrid[tuple(slice(n) for n in indices.shape)]) if indices.ndim > 1 else [indices]
        places[axis] = indices
        x[tuple(places)] = values

    def unique(self, x: Any, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None,
               equal_nan: bool = False) -> Any:
        return cupy.unique(x, return_inverse=return_inverse, return_counts=return_counts, axis=axis,
                           equal_nan=equal_nan)

    def airy(self, x: Any) -> tuple:
        if not x.size:
            return (x.copy(),)
        raise NotImplementedError("special.airy_ai: CuPy has no Airy functions, so it does not run on device 'cuda'")


def _typed(bound: Any, x: Any) -> Any:
    bound = plain(bound)
    return x.dtype.type(bound) if bound.__class__ in (int, float) and x.dtype.kind == "f" else bound


xp = Namespace()
