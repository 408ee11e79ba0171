"""Distances between rows, pair by pair and without the differences in memory."""

import math
from typing import Any

import numpy as np

from ...._kernels.library import distance
from ..jit.calls import launched
from ..jit.repeats import empty, repeats

_NORMS = {0.0: "zero", 1.0: "one", 2.0: "two", math.inf: "largest"}


def _stacks(*matrices: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The common batch of matrices, and each of them as one stack."""
    batch = np.broadcast_shapes(*[x.shape[:-2] for x in matrices]) if any(x.ndim > 2 for x in matrices) else ()
    count = math.prod(batch)
    return batch, [(np.broadcast_to(x, (*batch, *x.shape[-2:])) if batch else x).reshape(count, *x.shape[-2:])
                   for x in matrices]


@repeats
def cdist(x1: Any, x2: Any, p: float, compute_mode: Any) -> Any:
    batch, (first, second) = _stacks(x1, x2)
    made = empty((len(first), first.shape[1], second.shape[1]), x1.dtype)
    done = launched(distance.cdist, made, first, second, p, norm=_NORMS.get(p, "other"))
    return made.reshape(*batch, *made.shape[1:]) if done else None


@repeats
def cdist_backward(grad: Any, x1: Any, x2: Any, p: float, cdist: Any) -> Any:
    batch, given = _stacks(grad, x1, x2, cdist)
    made = empty(given[1].shape, x1.dtype)
    done = launched(distance.cdist_backward, made, *given, p, norm=_NORMS.get(p, "other"))
    return made.reshape(*batch, *made.shape[1:]) if done else None


@repeats
def pdist(self: Any, p: float) -> Any:
    made = empty(len(self) * (len(self) - 1) // 2, self.dtype)
    return made if launched(distance.pdist, made, self, p, norm=_NORMS.get(p, "other")) else None


@repeats
def pdist_backward(grad: Any, self: Any, p: float, pdist: Any) -> Any:
    made = empty(self.shape, self.dtype)
    done = launched(distance.pdist_backward, made, grad, self, pdist, p, norm=_NORMS.get(p, "other"))
    return made if done else None
