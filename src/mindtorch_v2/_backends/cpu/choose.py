"""Choosing between elements without a branch for each, which on random masks costs more than the arithmetic."""

from typing import Any

import numpy as np

from .shared import Shared, as_numbers

_SMALL = 512  # elements below which np.where's branches are cheaper than the steps here


def where(condition: Any, *choices: Any) -> Any:
    """np.where. Large choices of one type are mixed as bits, multiplied by 0 or 1: NaN and infinities vanish too."""
    if len(choices) != 2 or getattr(condition, "size", 0) < _SMALL or condition.dtype != np.bool_:
        return np.where(condition, *choices)
    kind = next((c.dtype for c in choices if isinstance(c, np.ndarray) and c.ndim), None)
    if kind is None or kind.kind not in "fiuV" or kind.itemsize > 8:
        return np.where(condition, *choices)
    if any([c.__class__ is Shared for c in (condition, *choices)]):
        condition = as_numbers(condition, np.dtype(f"i{kind.itemsize}"))
    chosen, other = (_bits(choice, kind, condition.shape) for choice in choices)
    if chosen is None or other is None:
        return np.where(condition, *choices)
    if other.ndim == 0 and other == 0:
        return np.multiply(chosen, condition).view(kind)
    if chosen.ndim == 0 and chosen == 0:
        return np.multiply(other, condition ^ condition.dtype.type(1)).view(kind)
    mixed = np.bitwise_xor(chosen, other)
    mixed *= condition
    mixed ^= other
    return mixed.view(kind)


def zero_where(condition: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`values` with 0 where the condition holds, by their bits."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu" or condition.shape != values.shape:
        return np.where(condition, values.dtype.type(0), values)
    bits = values.view(_INTEGERS[values.itemsize])
    if values.__class__ is Shared or condition.__class__ is Shared:
        return np.multiply(bits, as_numbers(np.logical_not(condition), bits.dtype)).view(values.dtype)
    return np.multiply(bits, np.logical_not(condition)).view(values.dtype)


_INTEGERS = {n: np.dtype(f"i{n}") for n in (1, 2, 4, 8)}


def _bits(choice: Any, kind: np.dtype, shape: tuple[int, ...]) -> np.ndarray | None:
    """The choice as integers of the same width; None if it is of another type or shape."""
    if choice.__class__ in (int, float, bool):
        if kind.kind in "iu" and choice.__class__ is float:
            return None
        choice = np.asarray(choice, kind)
    elif not isinstance(choice, (np.ndarray, np.generic)):
        return None
    if choice.dtype != kind or (choice.ndim and choice.shape != shape):
        return None
    return choice.view(f"i{kind.itemsize}")
