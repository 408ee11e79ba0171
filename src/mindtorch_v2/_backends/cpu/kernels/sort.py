"""Sorting rows that are short, or known to be simple, and what is found by it."""

import math
from typing import Any

import numpy as np

from ...._kernels.library import order, select
from ...._ops.sort import packed_places
from ..jit.calls import hurry, launched
from ..jit.repeats import empty, repeats, store
from .arrays import along

_BEGINNING = 16  # elements of a row
_NEAR = 8  # elements of a column that are sorted where they lie
_FEW = 32  # elements up to which the best are kept sorted while a row is read
_STEPS = 1 << 17  # elements up to which a kernel is run step by step by Python, for equal ones to be PyTorch's
hurry(order.median, select.few_of_many, select.many, select.kth, select.mode)


@repeats
def sort(self: Any, dim: int, descending: bool, stable: Any, spec: Any) -> Any:
    if not self.ndim or not 0 < self.shape[dim] <= order.SHORT or spec[0].strides is not None:
        return None
    values, indices = empty(self.shape, self.dtype), empty(self.shape, np.int64)
    made, rows = (along(values, dim), along(indices, dim)), along(self, dim)
    constants = {"descending": descending, "nans": self.dtype.kind == "f"}
    if rows.shape[2] == 1 or rows.shape[1] <= _NEAR:
        return (values, indices) if launched(order.sort, *made, rows, **constants) else None
    # Elements that are moved about lie beside each other meanwhile: columns of large arrays do not fit into a cache.
    turned = rows.swapaxes(1, 2)
    given, *sorted_rows = (empty(turned.shape, kind) for kind in (self.dtype, self.dtype, np.int64))
    store(given, turned)
    if not launched(order.sort, *map(_as_rows, (*sorted_rows, given)), **constants):
        return None
    for target, source in zip(made, sorted_rows, strict=True):
        store(target.swapaxes(1, 2), source)
    return values, indices


def places_by_looking(rows: Any, descending: bool) -> Any:
    """Indices that sort rows, equal elements in the order they have, if a look at all of them helps; None else."""
    if _is_in_order(rows, descending):
        return np.zeros(rows.shape, np.int64) + np.arange(rows.shape[-1])
    if rows.dtype.kind not in "iu" or rows.dtype.itemsize != 8:
        return None
    low = int(rows.min())
    width = (int(rows.max()) - low).bit_length()
    if width + (rows.shape[-1] - 1).bit_length() > 64:
        return None
    ordered = rows.view(np.uint64) - np.uint64(low % 2**64)
    return packed_places(np, ordered ^ np.uint64(2**width - 1) if descending else ordered)


def _is_in_order(rows: Any, descending: bool) -> bool:
    """Whether all rows are sorted. Those that are not mostly begin like that."""
    for some in (rows[..., :_BEGINNING], rows):
        before, after = some[..., :-1], some[..., 1:]
        if not (before >= after if descending else before <= after).all():
            return False
    return True


def _as_rows(array: Any) -> Any:
    return array.reshape(-1, array.shape[-1], 1)


@repeats
def topk(self: Any, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    if not self.ndim or not k:
        return None
    at = dim % self.ndim
    shape, rows = (*self.shape[:at], k, *self.shape[at + 1 :]), along(self, dim)
    few = k * select.FEW_OF <= rows.shape[1]
    room = (rows.shape[0] * rows.shape[2], k if few else rows.shape[1])
    constants = {"largest": largest, "nans": self.dtype.kind == "f"}
    if not few:
        constants |= {"in_order": sorted, "few": k <= _FEW}
    written = select.few_of_many if few else select.many
    made = empty(shape, self.dtype), empty(shape, np.int64), empty(room, np.int64)
    if launched(written, along(made[0], dim), along(made[1], dim), made[2], rows, **constants):
        return made[:2]
    if self.size > _STEPS or not _has_equal(rows, k, largest):
        return None  # NumPy finds the same, or takes other equal ones of very many (docs/differences.md)
    stepped = np.empty(shape, self.dtype), np.empty(shape, np.int64)
    written(along(stepped[0], dim), along(stepped[1], dim), made[2], rows, **constants)
    return stepped


def _has_equal(rows: Any, k: int, largest: bool) -> bool:
    """Whether the choice of the first elements, or their order, depends on how they are found."""
    ordered = np.sort(rows, 1)
    candidates = ordered[:, -k - 1 :] if largest else ordered[:, : k + 1]
    return not (candidates[:, :-1] < candidates[:, 1:]).all()


def _median(self: Any, dim: int, keepdim: bool, *, ignored: bool) -> Any:
    if not self.ndim or not self.size:
        return None
    at, rows = dim % self.ndim, along(self, dim)
    shape, room = (*self.shape[:at], *((1,) if keepdim else ()), *self.shape[at + 1 :]), (rows.shape[0], rows.shape[2])
    values, indices, work = empty(shape, self.dtype), empty(shape, np.int64), empty(self.size, self.dtype)
    done = launched(order.median, values.reshape(room), indices.reshape(room), work.reshape(math.prod(room), -1), rows,
                    ignored=ignored, nans=self.dtype.kind == "f")
    return (values, indices) if done else None


def _one_of_each(written: Any, self: Any, dim: int, keepdim: bool, *numbers: int) -> Any:
    """An element of each row, and of equal ones the one that PyTorch tells; None where that would take long."""
    if not self.ndim or not self.size:
        return None
    at, rows, nans = dim % self.ndim, along(self, dim), self.dtype.kind == "f"
    shape = (*self.shape[:at], *((1,) if keepdim else ()), *self.shape[at + 1 :])
    room, places = (rows.shape[0], 1, rows.shape[2]), (rows.shape[0] * rows.shape[2], rows.shape[1])
    values, indices, work = empty(shape, self.dtype), empty(shape, np.int64), empty(places, np.int64)
    if launched(written, values.reshape(room), indices.reshape(room), work, rows, *numbers, nans=nans):
        return values, indices
    if self.size > _STEPS:
        return None  # NumPy's way, which may tell another of equal elements (docs/differences.md)
    values, indices = np.empty(shape, self.dtype), np.empty(shape, np.int64)
    written(values.reshape(room), indices.reshape(room), np.empty(places, np.int64), rows, *numbers, nans=nans)
    return values, indices


@repeats
def kthvalue(self: Any, k: int, dim: int, keepdim: bool) -> Any:
    return _one_of_each(select.kth, self, dim, keepdim, k - 1)


@repeats
def mode(self: Any, dim: int, keepdim: bool) -> Any:
    if self.ndim and self.shape[dim] > order.SHORT and not _has_equal(along(self, dim), self.shape[dim] - 1, False):
        return None  # all are different: NumPy sorts faster
    return _one_of_each(select.mode, self, dim, keepdim)


@repeats
def median(self: Any, dim: int, keepdim: bool) -> Any:
    return _median(self, dim, keepdim, ignored=False)


@repeats
def nanmedian(self: Any, dim: int, keepdim: bool) -> Any:
    return _median(self, dim, keepdim, ignored=True)


@repeats
def median_of_all(self: Any) -> Any:
    made = _median(self.reshape(-1), 0, False, ignored=False)
    return None if made is None else made[0]


@repeats
def nanmedian_of_all(self: Any) -> Any:
    made = _median(self.reshape(-1), 0, False, ignored=True)
    return None if made is None else made[0]


@repeats
def searchsorted(sorted_sequence: Any, self: Any, out_int32: bool, right: bool, side: str | None, sorter: Any) -> Any:
    if sorter is not None or self.__class__ is not np.ndarray or self.dtype != sorted_sequence.dtype:
        return None
    made, rows = empty(self.shape, np.int32 if out_int32 else np.int64), sorted_sequence.ndim > 1
    wanted = (math.prod(self.shape[:-1]), self.shape[-1]) if rows else (1, self.size)
    bounds = sorted_sequence.reshape(wanted[0] if rows else 1, sorted_sequence.shape[-1])
    done = launched(order.places, made.reshape(wanted), bounds, self.reshape(wanted), right=right or side == "right",
                    rows=rows)
    return made if done else None


@repeats
def bucketize(self: Any, boundaries: Any, out_int32: bool, right: bool) -> Any:
    return searchsorted(boundaries, self, out_int32, right, None, None)
