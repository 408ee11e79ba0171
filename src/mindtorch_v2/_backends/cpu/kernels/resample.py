"""Linear maps along one dimension by compiled kernels."""

import math
from typing import Any

import numpy as np

from ...._kernels.library import resample
from ..jit.calls import hurry, launched

hurry(resample.pick, resample.weigh, resample.weigh_some)
_KEPT = 256


class _Kept:
    """Tables as kernels take them, by the arrays they were made of, which are kept too."""

    def __init__(self) -> None:
        self.made: dict[tuple, tuple] = {}

    def __call__(self, taps: Any, kind: np.dtype) -> tuple[np.ndarray, np.ndarray, bool]:
        """Places, weights (places again where all are 1), and whether no place is missing."""
        key = (id(taps.places), id(taps.weights), kind)
        known = self.made.get(key)
        if known is None:
            if len(self.made) >= _KEPT:
                self.made.clear()
            places = np.ascontiguousarray(taps.places, np.int64)
            weights = places if taps.weights is None else np.ascontiguousarray(taps.weights.astype(kind))
            known = self.made[key] = (places, weights, bool(taps.places.min(initial=0) >= 0), taps)
        return known[:3]


_tables = _Kept()


def map_along(array: Any, taps: Any, dim: int) -> Any:
    """The array with one dimension mapped, lying as it does; None where no kernel can do it."""
    if array.dtype.kind not in "fiu" or not array.size:
        return None
    if not array.flags.c_contiguous:
        order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
        moved = array.transpose(order)
        if moved.flags.c_contiguous:
            made = map_along(moved, taps, order.index(dim))
            return None if made is None else made.transpose([order.index(d) for d in range(array.ndim)])
    places, weights, is_full = _tables(taps, array.dtype)
    shape = array.shape
    count, results = places.shape
    out = np.empty((*shape[:dim], results, *shape[dim + 1 :]), array.dtype)
    outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    made, x = out.reshape(outer, results, inner), array.reshape(outer, shape[dim], inner)
    if taps.weights is None and count == 1 and is_full:
        done = launched(resample.pick, made, x, places, single=inner == 1)
    elif taps.weights is not None and is_full and count <= resample.MOST:
        done = launched(resample.weigh, made, x, places, weights, count=count, single=inner == 1)
    else:
        done = launched(resample.weigh_some, made, x, places, weights, weighed=taps.weights is not None,
                        single=inner == 1)
    return out if done else None
