"""Products of vectors."""

import math
from typing import Any

import numpy as np

from ...._core.dtype import REDUCED
from ...._kernels.library import products
from ...._ops._declare.rules import number_array
from ..jit.calls import launched
from ..jit.repeats import empty, repeats
from .arrays import overwrites


def _is_real(kind: np.dtype) -> bool:
    """Whether kernels multiply elements of a type: complex numbers have two parts."""
    return kind.kind in "fiub" or kind in REDUCED


@repeats
def cross(self: Any, other: Any, dim: int, spec: Any) -> Any:
    if not _is_real(self.dtype):
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
    if not self.ndim == other.ndim == 2 or self.dtype != other.dtype or not _is_real(self.dtype):
        return None
    made = empty(spec.shape, self.dtype)
    given = [x.view(np.uint8) if x.dtype.kind == "b" else x for x in (made, self, other)]
    return made if launched(products.kron, *given) else None


@repeats
@overwrites()
def addr(self: Any, vec1: Any, vec2: Any, beta: Any, alpha: Any, spec: Any) -> Any:
    kind = self.dtype
    if not kind == vec1.dtype == vec2.dtype or not _is_real(kind) or kind.kind in "iub" or spec.strides is not None:
        return None
    made = empty(spec.shape, kind)
    added = self if self.shape == spec.shape else np.broadcast_to(self, spec.shape)
    beta, alpha = (float(number_array(number, spec.dtype)) for number in (beta, alpha))  # half types round these, too
    return made if launched(products.addr, made, added, vec1, vec2, beta, alpha, adds=beta != 0) else None
