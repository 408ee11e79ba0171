"""Products of vectors."""

import math
from typing import Any

import numpy as np

from ...._kernels.library import products
from ..jit.calls import launched

_ROUNDED_ONCE = frozenset("fdbBhHiIlLqQ")  # half types are rounded after each step, complex numbers have two parts


def cross(self: Any, other: Any, dim: int, spec: Any) -> Any:
    if self.dtype.char not in _ROUNDED_ONCE:
        return None
    shape = spec.shape
    made, at = np.empty(shape, self.dtype), dim % len(shape)
    sizes = (math.prod(shape[:at]), 3, math.prod(shape[at + 1 :]))
    a, b = (x.reshape(sizes) if x.shape == shape else np.broadcast_to(x, shape).reshape(sizes) for x in (self, other))
    return made if launched(products.cross, made.reshape(sizes), a, b) else None
