"""Elementwise functions of several steps, run block by block so that what lies between the steps stays in cache."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from .team import in_parts

BLOCK = 1 << 15  # elements
_GRAIN = 1 << 12  # elements of which each thread gets a number
_COST = 100  # multiplications of matrices that take as long as one element of such a function
SERVED = 1 << 14  # elements from which on oneDNN repays making a primitive for one more geometry


def in_blocks(xp: Any, compute: Callable, first: Any, *rest: Any) -> Any:
    """`compute(xp, first, *rest)`, which works on each element alone, in blocks where contiguous arrays allow it."""
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


def _alike(array: np.ndarray, first: np.ndarray) -> bool:
    flags = array.flags
    return array.shape == first.shape and (
        flags.c_contiguous if first.flags.c_contiguous else flags.f_contiguous and first.flags.f_contiguous
    )
