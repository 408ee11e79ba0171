"""Elementwise functions of several steps, run block by block so that what lies between the steps stays in cache."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from .team import in_parts

BLOCK = 1 << 15  # elements
_COST = 100  # multiplications of matrices that take as long as one element of such a function
SERVED = 1 << 14  # elements from which on oneDNN repays making a primitive for one more geometry


def in_blocks(xp: Any, compute: Callable, first: Any, *rest: Any) -> Any:
    """`compute(xp, first, *rest)`, which works on each element alone, in blocks where contiguous arrays allow it."""
    arrays = [a for a in (first, *rest) if a.__class__ is np.ndarray and a.ndim]
    if first.__class__ is not np.ndarray or first.size < 2 * BLOCK or not all(_alike(a, first) for a in arrays):
        return compute(xp, first, *rest)
    order: Literal["C", "F"] = "C" if first.flags.c_contiguous else "F"
    arguments = [a.reshape(-1, order=order) if a.__class__ is np.ndarray and a.ndim else a for a in (first, *rest)]
    flat = [a.__class__ is np.ndarray and a.ndim == 1 for a in arguments]

    def block(start: int) -> Any:
        return compute(xp, *(a[start : start + BLOCK] if cut else a for a, cut in zip(arguments, flat, strict=True)))

    def fill(part: slice) -> None:
        for number in range(part.start + 1, part.stop + 1):
            made[number * BLOCK : (number + 1) * BLOCK] = block(number * BLOCK)

    beginning = block(0)
    made = np.empty(first.size, beginning.dtype)
    made[:BLOCK] = beginning
    in_parts(fill, -(-first.size // BLOCK) - 1, first.size * _COST)
    return made.reshape(first.shape, order=order)


def _alike(array: np.ndarray, first: np.ndarray) -> bool:
    flags = array.flags
    return array.shape == first.shape and (
        flags.c_contiguous if first.flags.c_contiguous else flags.f_contiguous and first.flags.f_contiguous
    )
