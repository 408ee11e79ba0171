"""Functions of single elements that give two results."""

from typing import Any

import numpy as np

from ...._kernels.library import elementwise as written
from ..jit.calls import launched
from ..jit.repeats import empty, repeats
from .arrays import takes_halves


@repeats
@takes_halves
def frexp(self: Any) -> Any:
    if not self.flags.c_contiguous or not self.size:
        return None
    mantissa, exponent = empty(self.shape, self.dtype), empty(self.shape, np.int32)
    return (mantissa, exponent) if launched(written.frexp, mantissa, exponent, self, self.size) else None
