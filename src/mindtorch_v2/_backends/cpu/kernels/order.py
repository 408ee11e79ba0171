"""Sorting short rows, and what is found by it."""

import math
from typing import Any

import numpy as np

from ...._kernels.library import order
from ..jit.calls import launched
from ..jit.repeats import empty, repeats

_FEW = 32  # elements up to which the best are kept sorted while a row is read


def _rows(array: Any, dim: int) -> Any:
    """The array as (before, along, behind) the dimension."""
    shape = array.shape
    at = dim % len(shape)
    return array.reshape(math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :]))


@repeats
def sort(self: Any, dim: int, descending: bool, stable: Any, spec: Any) -> Any:
    if not self.ndim or not 0 < self.shape[dim] <= order.SHORT or spec[0].strides is not None:
        return None
    values, indices = empty(self.shape, self.dtype), empty(self.shape, np.int64)
    done = launched(order.sort, _rows(values, dim), _rows(indices, dim), _rows(self, dim), descending=descending,
                    nans=self.dtype.kind == "f")
    return (values, indices) if done else None


@repeats
def topk(self: Any, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    if not self.ndim or not 0 < k <= _FEW:
        return None
    at = dim % self.ndim
    shape = (*self.shape[:at], k, *self.shape[at + 1 :])
    values, indices = empty(shape, self.dtype), empty(shape, np.int64)
    done = launched(order.topk, _rows(values, dim), _rows(indices, dim), _rows(self, dim), largest=largest,
                    nans=self.dtype.kind == "f")
    return (values, indices) if done else None


def _picked(which: str, self: Any, dim: int, keepdim: bool, k: int = 0) -> Any:
    if not self.ndim or not 0 < self.shape[dim] <= order.SHORT:
        return None
    at = dim % self.ndim
    shape = (*self.shape[:at], *((1,) if keepdim else ()), *self.shape[at + 1 :])
    values, indices, rows = empty(shape, self.dtype), empty(shape, np.int64), _rows(self, dim)
    room = (rows.shape[0], rows.shape[2])
    done = launched(order.picked, values.reshape(room), indices.reshape(room), rows, k, which=which,
                    nans=self.dtype.kind == "f")
    return (values, indices) if done else None


@repeats
def kthvalue(self: Any, k: int, dim: int, keepdim: bool) -> Any:
    return _picked("kth", self, dim, keepdim, k - 1)


@repeats
def median(self: Any, dim: int, keepdim: bool) -> Any:
    return _picked("median", self, dim, keepdim)


@repeats
def nanmedian(self: Any, dim: int, keepdim: bool) -> Any:
    return _picked("nanmedian", self, dim, keepdim)


@repeats
def mode(self: Any, dim: int, keepdim: bool) -> Any:
    return _picked("mode", self, dim, keepdim)


@repeats
def median_of_all(self: Any) -> Any:
    made = _picked("median", self.reshape(-1), 0, False)
    return None if made is None else made[0]


@repeats
def nanmedian_of_all(self: Any) -> Any:
    made = _picked("nanmedian", self.reshape(-1), 0, False)
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
