"""Histograms."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._kernels.library import histogram as written
from ..jit.calls import launched


def bounds(self: Any, columns: int) -> Any:
    made = np.empty((2, columns), self.dtype)
    return made if launched(written.bounds, made, self.reshape(-1, columns)) else None


def edges(self: Any, bins: Sequence[int], limits: Sequence[float]) -> Any:
    made = [np.empty(count + 1, self.dtype) for count in bins]
    for d, one in enumerate(made):
        if not launched(written.edges, one, limits[2 * d], limits[2 * d + 1]):
            return None
    return made


def histogram(self: Any, edges: Sequence[Any], weight: Any, density: bool, even: bool) -> Any:
    rows, sizes = self.reshape(-1, len(edges)), [len(e) - 1 for e in edges]
    place = np.zeros(len(rows), np.int64)
    for d, edge in enumerate(edges):
        if not launched(written.bins_along, place, rows, edge, d, even=even):
            return None
    made = np.zeros(math.prod(sizes), rows.dtype)
    weights = place if weight is None else weight.reshape(-1)
    if not launched(written.counted, made, place, weights, weighted=weight is not None):
        return None
    if density:
        total = float(made.sum())
        for d, edge in enumerate(edges):
            parts = made.reshape(math.prod(sizes[:d]), sizes[d], -1)
            if not launched(written.density, parts, edge, total, first=d == 0):
                return None
    return made.reshape(sizes)
