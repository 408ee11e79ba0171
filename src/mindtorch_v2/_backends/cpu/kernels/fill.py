"""Arrays whose elements follow from their places."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.compiled import launching
from ...._kernels.library import fill as kernels
from ..jit.calls import launched
from ..jit.repeats import empty, repeats
from .arrays import movable, overwrites


def _triangle(lower: bool) -> Callable:
    def kept(self: Any, diagonal: int) -> Any:
        if not self.size:
            return None
        made, (rows, columns) = empty(self.shape, self.dtype), self.shape[-2:]
        shape = (math.prod(self.shape[:-2]), rows, columns)
        done = launched(kernels.triangle, movable(made).reshape(shape), movable(self).reshape(shape),
                        min(max(diagonal, -rows), columns), lower=lower)
        return made if done else None

    return repeats(overwrites()(kept))


tril, triu = _triangle(True), _triangle(False)

_SPACED = launching("fill.spaced")


def spaced(start: Any, end: Any, steps: int, kind: np.dtype) -> Any:
    """`steps` numbers from start to end; None for other types than floats, and where there is no machine code."""
    if kind.kind != "f" or kind.itemsize < 4 or complex in (start.__class__, end.__class__):
        return None
    made, first, last = np.empty(steps, kind), kind.type(start), kind.type(end)
    with np.errstate(all="ignore"):
        step = (last - first) / kind.type(max(steps - 1, 1))
    return made if _SPACED(made, float(first), float(last), float(step)) else None
