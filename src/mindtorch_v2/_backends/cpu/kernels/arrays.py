"""What the callers of compiled kernels share: arrays as the kernels take them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.dtype import OF_ARRAY, WIDER
from ..jit.repeats import apart, zeros

Sizes = tuple[int, ...]
# Elements that are only moved go as integers where kernels would convert them, or do not know them.
_MOVED = {d.np: np.dtype(f"i{d.itemsize}") for d in OF_ARRAY.values()
          if d.name in ("float16", "bfloat16", "complex32", "complex64") or d.name.startswith("float8")}


def movable(array: np.ndarray) -> np.ndarray:
    """The array with elements that a kernel can move, of the same size."""
    kind = _MOVED.get(array.dtype)
    return array if kind is None else array.view(kind)


def volumes(array: np.ndarray, rank: int) -> np.ndarray:
    """An array whose last `rank` dimensions are spatial as (planes, depth, height, width)."""
    shape = array.shape
    at = len(shape) - rank
    return array.reshape(math.prod(shape[:at]), *(1,) * (3 - rank), *shape[at:])


def pixels(array: np.ndarray, rank: int) -> np.ndarray | None:
    """An array with `rank` spatial dimensions whose channels lie last as (batch, depth, height, width, channels).

    None for one that lies otherwise.
    """
    if array.ndim != rank + 2:
        return None
    moved = array.transpose(0, *range(2, array.ndim), 1)
    batch, *sizes, channels = moved.shape
    return moved.reshape(batch, *(1,) * (3 - rank), *sizes, channels) if moved.flags.c_contiguous else None


def new_pixels(shape: Sizes, kind: np.dtype, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """A new array whose channels lie last, and the same as (batch, depth, height, width, channels)."""
    batch, channels, *sizes = shape
    made = apart((batch, *(1,) * (3 - rank), *sizes, channels), kind)
    return made.reshape(batch, *sizes, channels).transpose(0, rank + 1, *range(1, rank + 1)), made


def along(array: np.ndarray, dim: int) -> np.ndarray:
    """An array as (before, along, behind) a dimension."""
    shape = array.shape
    at = dim % len(shape)
    return array.reshape(math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :]))


def zeros_for_sums(shape: Sizes, kind: np.dtype) -> np.ndarray:
    """Zeros to add elements of a type to; wider where the type is of half precision."""
    return zeros(shape, WIDER.get(kind, kind))


def takes_halves(kernel: Callable) -> Callable:
    """Marks a function that gets arrays of half precision as they are, not widened."""
    kernel.takes_halves = True  # type: ignore[attr-defined]
    return kernel


def overwrites(when: Callable[..., bool] = lambda *args: True) -> Callable[[Callable], Callable]:
    """Marks a function of one launch that reads each element of its first array once, before that of the result.

    In place, both may be one array, `when` that says so of the arguments.
    """

    def marked(kernel: Callable) -> Callable:
        kernel.overwrites = when  # type: ignore[attr-defined]
        return kernel

    return marked


def three(values: Sizes, rank: int, other: int) -> Sizes:
    """A setting for each of three dimensions, given for the last ones."""
    return (*(other,) * (3 - rank), *(values if len(values) == rank else values * rank))


def rows_of(array: Any, rank: int) -> Any:
    """An array whose last `rank` dimensions are spatial as (planes, elements of a plane)."""
    shape = array.shape
    at = len(shape) - rank
    return array.reshape(math.prod(shape[:at]), math.prod(shape[at:]))
