"""Arrays whose elements follow from their places."""

import math
from collections.abc import Callable
from typing import Any

from ...._kernels.library import fill as kernels
from ..jit.calls import launched
from ..jit.repeats import empty, repeats
from .arrays import movable


def _triangle(lower: bool) -> Callable:
    def kept(self: Any, diagonal: int) -> Any:
        if not self.size:
            return None
        made, (rows, columns) = empty(self.shape, self.dtype), self.shape[-2:]
        shape = (math.prod(self.shape[:-2]), rows, columns)
        done = launched(kernels.triangle, movable(made).reshape(shape), movable(self).reshape(shape),
                        min(max(diagonal, -rows), columns), lower=lower)
        return made if done else None

    return repeats(kept)


tril, triu = _triangle(True), _triangle(False)
