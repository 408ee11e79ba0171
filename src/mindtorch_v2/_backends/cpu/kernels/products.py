"""Products of vectors."""

import math
from typing import Any

import numpy as np

from ...._kernels.library import products
from ..jit.calls import launched
from ..jit.repeats import empty, repeats
from .arrays import overwrites

_ROUNDED_ONCE = frozenset("fdbBhHiIlLqQ")  # half types are rounded after each step, complex numbers have two parts


@repeats
def cross(self: Any, other: Any, dim: int, spec: Any) -> Any:
    if self.dtype.char not in _ROUNDED_ONCE:
        return None
    shape = spec.shape
    made, at = empty(shape, self.dtype), dim % len(shape)
    sizes = (math.prod(shape[:at]), 3, math.prod(shape[at + 1 :]))
    a, b = (_rows(x, at, shape, sizes) for x in (self, other))
    return made if launched(products.cross, made.reshape(sizes), a, b) else None


def _rows(x: Any, at: int, shape: tuple[int, ...], sizes: tuple[int, int, int]) -> Any:
    """A factor as (before, along, behind) the dimension: as many as there are results, or one for all."""
    if x.shape == shape:
        return x.reshape(sizes)
    if x.shape[at:] == shape[at:] and x.size == 3 * sizes[2]:
        return x.reshape(1, 3, sizes[2])
    return np.broadcast_to(x, shape).reshape(sizes)


@repeats
def kron(self: Any, other: Any, spec: Any) -> Any:
    if not self.ndim == other.ndim == 2 or self.dtype != other.dtype or self.dtype.char not in "fd":
        return None
    made = empty(spec.shape, self.dtype)
    return made if launched(products.kron, made, self, other) else None


@repeats
@overwrites()
def addr(self: Any, vec1: Any, vec2: Any, beta: Any, alpha: Any, spec: Any) -> Any:
    if not self.dtype == vec1.dtype == vec2.dtype or self.dtype.char not in "fd" or spec.strides is not None:
        return None
    made = empty(spec.shape, self.dtype)
    added = self if self.shape == spec.shape else np.broadcast_to(self, spec.shape)
    return made if launched(products.addr, made, added, vec1, vec2, float(beta), float(alpha), adds=beta != 0) else None
