"""Elementwise functions of several steps, run block by block so that what lies between the steps stays in cache."""

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

BLOCK = 1 << 15  # elements
SERVED = 1 << 14  # elements from which on oneDNN repays making a primitive for one more geometry


def served(name: str) -> Callable[[Callable], Callable]:
    """A decorator for elementwise functions that oneDNN has too, by that name: it computes them where it takes them."""

    def decorate(compute: Callable) -> Callable:
        @functools.wraps(compute)
        def by_onednn(xp: Any, first: Any, *rest: Any) -> Any:
            library = xp.onednn if first.__class__ is np.ndarray and first.size >= SERVED else None
            made = None if library is None else getattr(library, name)(first, *rest)
            return compute(xp, first, *rest) if made is None else made

        return by_onednn

    return decorate


def blockwise(compute: Callable) -> Callable:
    """`compute(xp, *arguments)`, which works on each element alone, in blocks where contiguous arrays allow it."""

    @functools.wraps(compute)
    def in_blocks(xp: Any, first: Any, *rest: Any) -> Any:
        arrays = [a for a in (first, *rest) if a.__class__ is np.ndarray and a.ndim]
        if first.__class__ is not np.ndarray or first.size < 2 * BLOCK or not all(_alike(a, first) for a in arrays):
            return compute(xp, first, *rest)
        order: Literal["C", "F"] = "C" if first.flags.c_contiguous else "F"
        arguments = [a.reshape(-1, order=order) if a.__class__ is np.ndarray and a.ndim else a for a in (first, *rest)]
        flat = [a.__class__ is np.ndarray and a.ndim == 1 for a in arguments]
        made = None
        for start in range(0, first.size, BLOCK):
            parts = [a[start : start + BLOCK] if cut else a for a, cut in zip(arguments, flat, strict=True)]
            block = compute(xp, *parts)
            if made is None:
                made = np.empty(first.size, block.dtype)
            made[start : start + BLOCK] = block
        assert made is not None
        return made.reshape(first.shape, order=order)

    return in_blocks


def _alike(array: np.ndarray, first: np.ndarray) -> bool:
    flags = array.flags
    return array.shape == first.shape and (
        flags.c_contiguous if first.flags.c_contiguous else flags.f_contiguous and first.flags.f_contiguous
    )
