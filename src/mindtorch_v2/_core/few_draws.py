"""Few random numbers: what one kernel of the library needs to know to draw them straight into an array.

A kernel that makes numbers from words (_core/random.py) is launched on words that were drawn before. Where there are
few of them, one that draws each word as it needs it takes half as long.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .box_muller import FLOAT32, FLOAT64
from .dtype import bfloat16, complex32
from .mersenne_twister import AT_ONCE, Generator

WIDE_RANGE = 1 << 28  # from this range on, an integer takes two words, so that the modulo stays nearly uniform
FLOAT16, BFLOAT16 = np.dtype(np.float16), bfloat16.np
REAL_PART: dict[np.dtype, np.dtype] = {complex32.np: FLOAT16, np.dtype(np.complex64): FLOAT32,
                                       np.dtype(np.complex128): FLOAT64}


def few_by(numbers_of: Callable[..., tuple], most: int = AT_ONCE) -> Callable[[Callable], Any]:
    """Says of a function that draws (generator, shape, dtype, *numbers) how machine code draws few elements at once.

    `numbers_of(dtype, *numbers)` is what `Generator.draws` takes beside the array; empty where it cannot.
    """

    def told(function: Any) -> Any:
        function.few, function.most = functools.lru_cache(256, typed=True)(numbers_of), most
        return function

    return told


def few_drawn(generator: Generator, made: np.ndarray, draw: Any, *numbers: float) -> bool:
    """Whether machine code has filled a small array."""
    if not 0 < made.size <= draw.most:
        return False
    few = draw.few(made.dtype, *numbers)
    return bool(few) and made.flags.c_contiguous and generator.draws(made, *few)


def uniform_numbers(dtype: np.dtype, low: float, high: float) -> tuple[np.dtype, float, float, float, float]:
    """The type to draw in; first number and extent in it, what these are divided by, and the end in `dtype`."""
    kind = FLOAT64 if dtype == FLOAT64 else FLOAT32
    first, extent = float(kind.type(low)), float(kind.type(high) - kind.type(low))
    unit = 2.0**64 if kind == FLOAT64 and max(extent, abs(first)) > 2.0**900 else 1.0  # products are split in parts
    return kind, first, extent, unit, high if kind == dtype else float(dtype.type(high))


def few_uniforms(dtype: np.dtype, low: float = 0.0, high: float = 1.0) -> tuple:
    """Of numbers in [low, high)."""
    if dtype in REAL_PART:
        return ()
    kind, first, extent, unit, limit = uniform_numbers(dtype, low, high)
    return ("uniform" if kind == dtype else "rounded", first, extent, float(low), limit) if unit == 1 else ()


def few_normals(family: str) -> Callable[..., tuple]:
    """Of normals, which are made in pairs, or of their exponentials."""
    return lambda dtype, mean=0.0, std=1.0: () if dtype in REAL_PART else (family, float(mean), float(std))


def few_integers(dtype: np.dtype, low: int, high: int) -> tuple:
    """Of whole numbers in [low, high), of one word each."""
    extent = high - low
    direct = dtype.kind in "iub" or dtype in (FLOAT32, FLOAT64)
    if not direct or not 0 < extent < WIDE_RANGE or abs(low) >= 1 << 53:
        return ()
    return "integer", float(extent), float(low), 1.0 / extent
