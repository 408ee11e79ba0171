"""Padding by compiled kernels."""

from typing import Any

import numpy as np

from ...._kernels.library import pad as kernels
from ...._ops._declare.rules import Spec
from ...._ops.copy import stored_number
from ...._ops.pool import in_strides
from ..jit.calls import hurry, launched
from ..jit.repeats import empty, repeats, table
from .arrays import Sizes, movable, volumes, zeros_for_sums

hurry(kernels.pad, kernels.pad_backward)


def _lefts(pad: Sizes) -> Sizes:
    """The widths in front of depth, height and width."""
    lefts = pad[::2][::-1]
    return (*(0,) * (3 - len(lefts)), *lefts)


@repeats
def padded_places(self: Any, pad: Sizes, mode: str, spec: Spec) -> Any:
    rank, out = len(pad) // 2, empty(spec.shape, self.dtype)
    made = volumes(movable(out), rank)
    done = self.size and launched(kernels.pad, made, volumes(movable(self), rank), made[:0].reshape(0), *_lefts(pad),
                                  mode=mode)
    return in_strides(out, spec) if done else None


@repeats
def padded_places_backward(grad: Any, size: Sizes, pad: Sizes, mode: str, spec: Spec) -> Any:
    rank, out = len(pad) // 2, zeros_for_sums(spec.shape, grad.dtype)
    done = grad.size and launched(kernels.pad_backward, volumes(out, rank), volumes(grad, rank), *_lefts(pad),
                                  mode=mode)
    return in_strides(out, spec) if done else None


@repeats
def constant_pad_nd(self: Any, pad: Sizes, value: Any, spec: Spec) -> Any:
    rank = len(pad) // 2
    if not 0 < rank < 4 or not self.size or 0 in spec.shape:
        return None
    out, fill = empty(spec.shape, self.dtype), np.empty(1, self.dtype)
    fill[0] = stored_number(value, spec.dtype)
    done = launched(kernels.pad, volumes(movable(out), rank), volumes(movable(self), rank), table(movable(fill)),
                    *_lefts(pad), mode="constant")
    return in_strides(out, spec) if done else None
