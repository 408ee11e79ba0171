"""Products of matrices of integers by BLAS, which multiplies floating numbers: exact, and wrapped around like integers.

Sums of whole numbers below 2^53 are the same in any order in float64 (below 2^24 in float32), so that is what is
multiplied where elements are small enough. Larger ones are cut into digits that are, to any base 2^n; of the products
of digits those count that do not lie beyond the type's bits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

_LEAST, _LEAST_OF_DIGITS = 1 << 15, 1 << 17  # multiplications from which on converting elements pays
_FOR_EACH = 8  # multiplications for an element that is converted
_MOST = 6  # products of digits; with more of them, NumPy's loop takes no longer
_SINGLE, _DOUBLE = 24, 53  # bits that floating numbers have


def multiplied(matmul: Callable[[Any, Any], Any], a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """`np.matmul(a, b)` of integers of one type, at least matrices, by a `matmul` of floating numbers.

    None where NumPy's own loop is as quick.
    """
    kind, depth, columns = a.dtype, a.shape[-1], b.shape[-1]
    work = max(a.size * columns, b.size * a.shape[-2])
    if work < max(_LEAST, _FOR_EACH * (a.size + b.size)) or kind != b.dtype:
        return None
    sums = depth.bit_length()
    bits = _bits(a), _bits(b)
    if sum(bits) + sums <= _DOUBLE:
        wide = np.float32 if sum(bits) + sums <= _SINGLE else np.float64
        return matmul(a.astype(wide), b.astype(wide)).astype(np.int64, copy=False).astype(kind, copy=False)
    step, own = (_DOUBLE - sums) // 2, 8 * kind.itemsize
    if work < _LEAST_OF_DIGITS or step < 1:
        return None
    powers = range(0, bits[0], step), range(0, bits[1], step)
    pairs = [(m, n) for m in powers[0] for n in powers[1] if m + n < own]
    if len(pairs) > _MOST:
        return None
    of_a, of_b = ({at: _digit(x, at, step, n) for at in p} for x, p, n in zip((a, b), powers, bits, strict=True))
    made: Any = 0
    for m, n in pairs:
        made = made + (matmul(of_a[m], of_b[n]).astype(np.int64) << (m + n))
    return made.astype(kind, copy=False)


def _bits(array: np.ndarray) -> int:
    """How many bits the largest element has, without its sign."""
    if array.itemsize <= 2:
        return 8 * array.itemsize
    return max(int(array.max()), -int(array.min())).bit_length()


def _digit(array: np.ndarray, power: int, step: int, bits: int) -> np.ndarray:
    """The digit of so many bits that stands for a power of two; the last one has the sign."""
    digit = array >> power if power else array
    return (digit & ((1 << step) - 1) if power + step < bits else digit).astype(np.float64)
