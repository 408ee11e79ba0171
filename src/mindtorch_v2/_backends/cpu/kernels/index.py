"""Reading and writing at indices by compiled kernels.

Each gives None for what NumPy has to do: also where an index is outside, for which the generic functions have words.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.dtype import OF_ARRAY, REDUCED, WIDER
from ...._core.threads import get_num_threads
from ...._dispatch.schema import NUMBERS
from ...._kernels.library import index as kernels
from ...._ops._declare.rules import Spec
from ...._ops.copy import stored_number
from ...._ops.scatter import rounds_once, start_value
from ..jit.calls import finishing, hurry, launched
from ..jit.repeats import apart, duplicate, empty, flag, repeats, store, table, zeros
from .arrays import movable, takes_halves, zeros_for_sums

_SHARED = 1 << 15  # elements from which on several threads write
_FEW = 8  # elements of a result to an index, from which on looking at indices takes less than a copy
_FOLDS = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}
_OF_BITS = {"add": "maximum", "multiply": "minimum"}  # what these are for truth values, seen as 0 and 1

hurry(kernels.fold_rows, kernels.finish_means)  # the other way of `index_reduce` takes twenty times as long


def _along(array: Any, dim: int) -> Any:
    """The array as (outer, places, inner)."""
    shape = array.shape
    if not shape:
        return array.reshape(1, 1, 1)
    return array.reshape(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))


def is_inside(index: Any, low: int, high: int) -> bool:
    """Whether all indices are from `low` on and below `high`; False also where no kernel can look yet."""
    bad = flag()
    return launched(kernels.find_outside, bad, index.reshape(-1), low, high) and not bad[0]


def _part(array: Any, places: tuple, dim: int) -> Any:
    """The part of an array that indices of this shape reach; None if it is not in one piece."""
    shape = array.shape
    if len(shape) != len(places):
        return None
    if shape[:dim] == places[:dim] and shape[dim + 1 :] == places[dim + 1 :]:
        return array
    part = array[tuple([slice(None) if d == dim else slice(n) for d, n in enumerate(places)])]
    return part if part.flags.c_contiguous else None


def _is_vector(index: Any, dim: int) -> bool:
    """Whether indices are those of one dimension, expanded to the others."""
    return all(stride == 0 for d, stride in enumerate(index.strides) if d != dim)


def _parts(elements: int, rows: int) -> int:
    """Among how many threads rows are shared out."""
    return 1 if elements < _SHARED else max(1, min(get_num_threads(), rows))


def _is_folded(kind: np.dtype) -> bool:
    """Whether kernels fold elements of a type."""
    return kind.kind in "fiub" or kind in REDUCED


def _as_bits(fold: str, *arrays: Any) -> tuple[Any, ...]:
    """A fold, and arrays, of which truth values are numbers that it folds."""
    if arrays[0].dtype.kind != "b":
        return fold, *arrays
    return _OF_BITS.get(fold, fold), *[a.view(np.uint8) if a.dtype.kind == "b" else a for a in arrays]


def _fits(src: Any, target: Any) -> bool:
    """Whether elements are of a target's type, or are folded in it."""
    return src.dtype == target.dtype or src.dtype in REDUCED and WIDER[src.dtype] == target.dtype


def _rounded_once(self: Any, fold: Callable[[Any], bool | None]) -> bool | None:
    """Runs `fold` on an array; one of half precision is folded in float32, and written when that is done."""
    if self.dtype not in REDUCED:
        return fold(self)
    made = apart(self.shape, WIDER[self.dtype]) if self.flags.c_contiguous else None
    if made is None or not launched(kernels.convert, made, self, self.size) or not fold(made):
        return None
    return launched(kernels.convert, self, made, self.size) or None


# reading -------------------------------------------------------------------------------------------------------------


@repeats
def gather(self: Any, dim: int, index: Any, sparse_grad: bool) -> Any:
    dim = dim % self.ndim if self.ndim else 0
    reached = _part(self, index.shape, dim) if index.size else None
    if reached is None:
        return None
    bad, out = flag(), empty(index.shape, self.dtype)
    made = _along(movable(out), dim)
    done = launched(kernels.gather, made, bad, _along(movable(reached), dim), _along(index, dim),
                    single=made.shape[2] == 1)
    return out if done and not bad[0] else None


@repeats
def index_select(self: Any, dim: int, index: Any, spec: Spec) -> Any:
    if not self.ndim or not self.size or not index.size:
        return None
    dim = dim % self.ndim
    few = _FEW * index.size <= math.prod(spec.shape)
    bad, out = flag(index if few else None, self.shape[dim]), empty(spec.shape, self.dtype)
    made = _along(movable(out), dim)
    done = launched(kernels.take_rows, made, bad, _along(movable(self), dim), index.reshape(-1),
                    single=made.shape[2] == 1)
    return out if done and not bad[0] else None


@repeats
def take(self: Any, index: Any) -> Any:
    if not self.size or not index.size:
        return None
    bad, out = flag(), empty(index.shape, self.dtype)
    done = launched(kernels.take, movable(out).reshape(-1), bad, movable(self).reshape(-1), index.reshape(-1))
    return out if done and not bad[0] else None


# writing -------------------------------------------------------------------------------------------------------------


def _scattered(self: Any, dim: int, index: Any, src: Any, fold: str) -> bool | None:
    """Folds elements into their places, each rounded to the array's type; True if that is done."""
    dim = dim % self.ndim if self.ndim else 0
    self = _part(self, index.shape, dim) if self.flags.c_contiguous else None
    if self is None:
        return None
    if fold != "put" and not _is_folded(self.dtype):
        return None
    one = src.__class__ in NUMBERS or src.size == 1
    if src.__class__ in NUMBERS:
        src = table(np.array(stored_number(src, OF_ARRAY[self.dtype]), self.dtype))
    elif src.shape != index.shape:
        if src.ndim != index.ndim:
            return None
        src = src[tuple([slice(n) for n in index.shape])]
    if fold != "put" and not one and index.ndim > 1 and _is_vector(index, dim):
        row = index[tuple([slice(None) if d == dim else 0 for d in range(index.ndim)])]
        return _rows_folded(self, dim, row, src, 1, fold)
    if fold == "put":
        self, src = movable(self), movable(src)
    fold, self, src = _as_bits(fold, self, src)
    if not _fits(src, self) or not is_inside(index, 0, self.shape[dim] if self.ndim else 1):
        return None
    target, src = _along(self, dim), src.reshape(1, 1, 1) if one else _along(src, dim)
    return launched(kernels.scatter, target, _along(index, dim), src, fold=fold, one=one,
                    single=target.shape[2] == 1) or None


@repeats
def scatter(self: Any, dim: int, index: Any, src: Any) -> bool | None:
    return _scattered(self, dim, index, src, "put") if index.size else True


@repeats
def scatter_legacy(self: Any, dim: int, index: Any, src: Any, reduce: str) -> bool | None:
    if not index.size:
        return True
    if src.__class__ in NUMBERS and self.dtype in REDUCED:
        return None
    return _rounded_once(self, lambda made: _scattered(made, dim, index, src, reduce))


@repeats
def scatter_add(self: Any, dim: int, index: Any, src: Any) -> bool | None:
    return _rounded_once(self, lambda made: _scattered(made, dim, index, src, "add")) if index.size else True


@repeats
def scatter_reduce(self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> bool | None:
    if not index.size or not include_self or reduce == "mean":
        return _scatter_reduce_anew(self, dim, index, src, reduce, include_self) if index.size else True
    return _rounded_once(self, lambda made: _scattered(made, dim, index, src, _FOLDS[reduce]))


def _scatter_reduce_anew(self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> bool | None:
    """As `scatter_reduce` where the elements themselves do not count, or numbers of them do."""
    at = dim % self.ndim if self.ndim else 0
    if not self.flags.c_contiguous or not _is_folded(self.dtype) or _part(self, index.shape, at) is None:
        return None
    made = duplicate(self)
    if not include_self and not _scattered(made, dim, index, start_value(reduce, self.dtype), "put"):
        return None
    if not _rounded_once(made, lambda wide: _scattered(wide, dim, index, src, _FOLDS[reduce])):
        return None
    if reduce == "mean":
        counts = zeros(self.shape, np.int64)
        if not _scattered(counts, dim, index, 1, "add") or not launched(
                kernels.finish_means, _along(made, at), _along(counts, at), own=int(include_self),
                whole=self.dtype.kind in "iu"):
            return None
    store(self, made)
    return True


def _rows_folded(self: Any, dim: int, index: Any, src: Any, factor: Any, fold: str, low: int = 0) -> bool | None:
    """Folds rows into those that a vector of indices names; True if that is done."""
    fold, self, src = _as_bits(fold, self, src)
    if not self.flags.c_contiguous or not self.ndim or not _fits(src, self):
        return None
    rows, given, index = _along(self, dim), _along(src, dim), index.reshape(-1)
    if given.shape[1] != index.size or not is_inside(index, low, rows.shape[1]):
        return None
    return launched(kernels.fold_rows, rows, index, given, _parts(src.size, rows.shape[1]), factor, fold=fold,
                    scaled=factor != 1) or None


@repeats
def index_add(self: Any, dim: int, index: Any, source: Any, alpha: Any) -> bool | None:
    if not _is_folded(self.dtype) or not source.size:
        return None
    if alpha != 1 and (alpha.__class__ is not int or self.dtype.kind not in "fiu" or self.dtype in REDUCED):
        return None
    dim = dim % max(self.ndim, 1)

    def fold(made: Any) -> bool | None:
        return _rows_folded(made, dim, index, source, int(alpha), "add")

    return _rounded_once(self, fold) if rounds_once(self, dim) else fold(self)


@repeats
def index_reduce(self: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool, spec: Spec) -> Any:
    if not self.ndim or not source.size or not self.flags.c_contiguous or not _is_folded(self.dtype):
        return None
    dim, made = dim % self.ndim, duplicate(self)
    if not include_self:
        start = table(np.array(start_value(reduce, self.dtype), self.dtype))
        if not _rows_folded(made, dim, index, np.broadcast_to(start, source.shape), 1, "put"):
            return None
    if not _rounded_once(made, lambda wide: _rows_folded(wide, dim, index, source, 1, _FOLDS[reduce])):
        return None
    return made if reduce != "mean" or _sums_made_means(_along(made, dim), index, include_self) else None


def _sums_made_means(rows: Any, index: Any, include_self: bool) -> bool:
    """Divides rows by how many were added to each."""
    counts, one = zeros(rows.shape[1], np.int64), table(np.ones(1, np.int64))
    finishing(1 << 20)  # what has begun with the sums, at the next call
    try:
        return bool(_rows_folded(counts, 0, index, np.broadcast_to(one, index.size), 1, "add")) and launched(
            kernels.finish_means, rows, np.broadcast_to(counts.reshape(1, -1, 1), rows.shape), own=int(include_self),
            whole=rows.dtype.kind in "iu")
    finally:
        finishing(0)


@repeats
def index_copy(self: Any, dim: int, index: Any, source: Any) -> bool | None:
    if not source.size or source.ndim != self.ndim:
        return None
    return _rows_folded(movable(self), dim % max(self.ndim, 1), index, movable(source), 1, "put")


@repeats
def put(self: Any, index: Any, source: Any, accumulate: bool) -> bool | None:
    if not self.flags.c_contiguous or not index.size or not self.size or accumulate and not _is_folded(self.dtype):
        return None
    if not is_inside(index, -self.size, self.size):
        return None
    if accumulate:
        fold, target, source = _as_bits("add", self, source)
    else:
        fold, target, source = "put", movable(self), movable(source)
    return launched(kernels.fold_places, target.reshape(-1), index.reshape(-1), source.reshape(-1),
                    _parts(source.size, self.size), fold=fold) or None


@repeats
def index_put(self: Any, indices: Any, values: Any, accumulate: bool) -> bool | None:
    """Values added at indices of the first dimension, or of both of a matrix."""
    if not accumulate or not self.size or not values.size or not _is_folded(self.dtype):
        return None
    first = indices[0]
    if len(indices) > self.ndim:
        return None
    if any(index is None or index.dtype.kind != "i" or index.shape != first.shape for index in indices):
        return None
    if values.shape != (*first.shape, *self.shape[len(indices) :]) or values.dtype != self.dtype:
        return None
    if len(indices) == 1:
        rows = values.reshape(first.size, *self.shape[1:])
        return _rows_folded(self, 0, first, rows, 1, "add", -self.shape[0])
    if self.ndim != 2 or not all(is_inside(i, -n, n) for i, n in zip(indices, self.shape, strict=True)):
        return None
    fold, self, values = _as_bits("add", self, values)
    return launched(kernels.fold_at_pairs, self, first.reshape(-1), indices[1].reshape(-1), values.reshape(-1),
                    _parts(values.size, len(self)), fold=fold) or None


def nonzero(self: Any) -> Any:
    if not self.size or not self.ndim or not self.flags.c_contiguous or self.dtype.kind == "c":
        return None
    made = np.empty((self.ndim, np.count_nonzero(self)), np.int64)
    done = launched(kernels.nonzero, made, self.reshape(-1, self.shape[-1]), np.array(self.shape[:-1], np.int64))
    return made.T if done else None


# rows of a table -----------------------------------------------------------------------------------------------------


@repeats
def embedding(weight: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool, sparse: bool, spec: Spec) -> Any:
    if not weight.size or not indices.size:
        return None
    bad, out = flag(), empty(spec.shape, weight.dtype)
    moved = movable(out).reshape(1, indices.size, weight.shape[1])
    done = launched(kernels.take_rows, moved, bad, movable(weight).reshape(1, *weight.shape), indices.reshape(-1),
                    single=False)
    return out if done and not bad[0] else None


@repeats
@takes_halves
def embedding_backward(grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool,
                       spec: Spec) -> Any:
    if scale_grad_by_freq or not grad_output.size:
        return None
    out, rows = zeros_for_sums(spec.shape, grad_output.dtype), grad_output.reshape(indices.size, spec.shape[1])
    done = launched(kernels.sum_rows, out, indices.reshape(-1), rows, _parts(rows.size, num_weights),
                    padding_idx if padding_idx >= 0 else -1)
    return out if done else None
