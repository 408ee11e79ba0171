"""The larger or smaller of array elements and a number. NumPy's loops for that are vectorised for two arrays only."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .blocks import BLOCK

_SMALL = 2048  # elements below which the plain loop is as quick


@functools.lru_cache(maxsize=16)
def _filled(value: float, kind: np.dtype) -> np.ndarray:
    return np.full(BLOCK, value, kind)


def _against_number(ufunc: Callable) -> Callable[[Any, Any], Any]:
    def bounded(x: Any, bound: Any) -> Any:
        if x.__class__ is not np.ndarray or x.size < _SMALL or x.dtype.kind != "f":
            return ufunc(x, bound)
        if getattr(bound, "ndim", 0) or not x.flags.c_contiguous:
            return ufunc(x, bound)
        made = np.empty_like(x)
        source, target, constant = x.reshape(-1), made.reshape(-1), _filled(float(bound), x.dtype)
        for start in range(0, x.size, BLOCK):
            part = source[start : start + BLOCK]
            ufunc(part, constant[: part.size], out=target[start : start + BLOCK])
        return made

    return bounded


at_least = _against_number(np.maximum)
at_most = _against_number(np.minimum)
