"""Histograms."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._kernels.library import histogram as written
from ..jit.calls import launched


def histogram(rows: Any, edges: Sequence[Any], weight: Any) -> Any:
    place = np.zeros(len(rows), np.int64)
    for d, edge in enumerate(edges):
        if not launched(written.bins_along, place, rows, edge, d):
            return None
    made = np.zeros(math.prod([len(e) - 1 for e in edges]), rows.dtype)
    if not launched(written.counted, made, place, place if weight is None else weight, weighted=weight is not None):
        return None
    return made.reshape([len(e) - 1 for e in edges])
