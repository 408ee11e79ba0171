"""Elementwise functions of several steps, run block by block so that what lies between the steps stays in cache."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from .programs import deal
from .shared import Shared, empty, plain
from .team import in_parts

BLOCK = 1 << 15  # elements
_GRAIN = 1 << 12  # elements of which each thread gets a number
_COST = 100  # multiplications of matrices that take as long as one element of such a function
SERVED = 1 << 14  # elements from which on oneDNN repays making a primitive for one more geometry


def in_blocks(xp: Any, compute: Callable, first: Any, *rest: Any) -> Any:
    """`compute(xp, first, *rest)`, which works on each element alone, in blocks where contiguous arrays allow it."""
    if first.__class__ is Shared and first.size >= 2 * BLOCK:
        made = _by_program(xp, compute, first, *rest)
        if made is not None:
            return made
    arrays = [a for a in (first, *rest) if a.__class__ is np.ndarray and a.ndim]
    if first.__class__ is not np.ndarray or first.size <= 2 * BLOCK or not all(_alike(a, first) for a in arrays):
        return compute(xp, first, *rest)
    order: Literal["C", "F"] = "C" if first.flags.c_contiguous else "F"
    arguments = [a.reshape(-1, order=order) if a.__class__ is np.ndarray and a.ndim else a for a in (first, *rest)]
    flat = [a.__class__ is np.ndarray and a.ndim == 1 for a in arguments]

    def block(start: int, stop: int) -> Any:
        return compute(xp, *(a[start:stop] if cut else a for a, cut in zip(arguments, flat, strict=True)))

    def fill(part: slice) -> None:
        start, stop = part.start * _GRAIN, min(part.stop * _GRAIN, first.size)
        step = BLOCK if part.stop - part.start == grains else 2 * BLOCK  # several threads take turns at the interpreter
        for at in range(start, stop, step):
            end = min(at + step, stop)
            made[at:end] = block(at, end)

    made, grains = np.empty(first.size, block(0, 1).dtype), -(-first.size // _GRAIN)
    in_parts(fill, grains, first.size * _COST)
    return made.reshape(first.shape, order=order)


def _by_program(xp: Any, compute: Callable, *arguments: Any) -> Any:
    """The same in one round of OpenBLAS's threads (programs.py); None for arrays that do not lie alike."""
    first = arguments[0]
    arrays = [plain(a).reshape(-1) for a in arguments if isinstance(a, np.ndarray) and a.flags.c_contiguous]
    others = tuple([None if isinstance(a, np.ndarray) else (a,) for a in arguments])
    if len(arrays) != others.count(None) or any(a.size != first.size or a.dtype is not first.dtype for a in arrays):
        return None
    made = empty(first.shape, first.dtype)
    flat = plain(made).reshape(-1)
    deal(xp, _some_grains, (compute, others), -(-first.size // _GRAIN), (*arrays, flat), flat)
    return made


def _some_grains(xp: Any, part: slice, compute: Callable, others: tuple, *arrays: Any) -> None:
    """Some parts of the elements; `others` has what is no array, in its place among the arguments."""
    *given, made = arrays
    for at in range(part.start * _GRAIN, min(part.stop * _GRAIN, len(made)), _GRAIN):
        some = slice(at, min(at + _GRAIN, len(made)))
        own = iter(given)
        made[some] = compute(xp, *[next(own)[some] if other is None else other[0] for other in others])


def _alike(array: np.ndarray, first: np.ndarray) -> bool:
    flags = array.flags
    return array.shape == first.shape and (
        flags.c_contiguous if first.flags.c_contiguous else flags.f_contiguous and first.flags.f_contiguous
    )
