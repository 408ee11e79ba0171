"""Functions that put elements of arrays in other places, as tables of these places for arrays of one layout.

A function that turns, repeats or joins small arrays takes many calls of NumPy, and comes to the same moves each time.
It is asked once, with the elements' own numbers in their place, where each one goes.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..._core.dtype import float32, float64, int32, int64
from ..._core.geometry import contiguous_strides
from ..._kernels.library import index as kernels
from .jit.calls import launched
from .jit.repeats import duplicate, empty, repeats, table

_LARGEST = 1 << 12  # elements
_COUNTING = frozenset(kind.np for kind in (float32, float64, int32, int64))  # types that tell so many elements apart


def _each(given: Sequence[Any]) -> Iterator[Any]:
    """The arrays among arguments, also those in lists."""
    for value in given:
        if hasattr(value, "strides"):
            yield value
        elif value.__class__ is list:
            yield from _each(value)


def rearranging(function: Callable, given: Sequence[Any]) -> list[Callable] | None:
    """Holds what does the same for arrays that lie as those given, see repeats.py; None if tables are not for them."""
    arrays = list(_each(given))
    count, kinds = sum(math.prod(a.shape) for a in arrays), {a.dtype for a in arrays}
    if not 0 < count <= _LARGEST or len(kinds) != 1 or not kinds <= _COUNTING:
        return None
    if any(a.strides != contiguous_strides(a.shape, a.dtype.itemsize) for a in arrays):
        return None
    kind = kinds.pop()
    # Numbered from 1 on, and then downwards: the two sum up to one that nothing but a moved element does.
    total = 8 * _LARGEST
    first, second = (function(*_numbered(given, kind, start, step)) for start, step in ((1, 1), (total - 1, -1)))
    if first.dtype is not kind or not first.flags.c_contiguous or not 0 < first.size <= _LARGEST:
        return None
    moved = first + second == total
    if not np.array_equal(first[~moved], second[~moved], equal_nan=True):
        return None
    return _moving(first, moved, [math.prod(a.shape) for a in arrays])


def _numbered(given: Sequence[Any], kind: np.dtype, start: int, step: int) -> list[Any]:
    """The arguments with the numbers of elements in the arrays."""
    at = start

    def numbered(value: Any) -> Any:
        nonlocal at
        if value.__class__ is list:
            return [numbered(item) for item in value]
        if not hasattr(value, "strides"):
            return value
        size = math.prod(value.shape)
        at += step * size
        return np.arange(at - step * size, at, step, dtype=kind).reshape(value.shape)

    return [numbered(value) for value in given]


def _moving(numbers: np.ndarray, moved: np.ndarray, sizes: Sequence[int]) -> list[Callable]:
    """What moves elements of arrays of these sizes to where the numbers are, and leaves what is not moved as it is."""
    shape, kind, begin = numbers.shape, numbers.dtype, 1
    template = None if moved.all() else np.where(moved, kind.type(0), numbers)
    targets = np.flatnonzero(moved)
    sources = numbers.reshape(-1)[targets].astype(np.int64)
    moves = []
    for i, size in enumerate(sizes):
        own = (sources >= begin) & (sources < begin + size)
        if own.any():
            moves.append((i, targets[own], sources[own] - begin, int(own.sum())))
        begin += size

    @repeats
    def run(*given: Any) -> Any:
        arrays = list(_each(given))
        made = empty(shape, kind) if template is None else duplicate(table(template))
        for i, to, places, count in moves:
            if not launched(kernels.move, made, arrays[i], table(to), table(places), count):
                return None
        return made

    return run.repeated(None)  # type: ignore[attr-defined]
