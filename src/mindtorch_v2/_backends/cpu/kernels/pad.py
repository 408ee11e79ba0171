"""Padding by compiled kernels."""

from typing import Any

import numpy as np

from ...._kernels.library import pad as kernels
from ...._ops._declare.rules import Spec
from ...._ops.copy import stored_number
from ...._ops.pool import in_strides
from ..jit.calls import hurry, launched
from ..jit.repeats import empty, repeats, table
from .arrays import Sizes, movable, new_pixels, pixels, volumes, zeros_for_sums

hurry(kernels.pad, kernels.pad_pixels, kernels.pad_backward)


def _lefts(pad: Sizes) -> Sizes:
    """The widths in front of depth, height and width."""
    lefts = pad[::2][::-1]
    return (*(0,) * (3 - len(lefts)), *lefts)


def _padded(self: Any, pad: Sizes, fill: Any, mode: str, spec: Spec) -> Any:
    """An array with a border; `fill` has the element of a constant one."""
    rank = len(pad) // 2
    given = None if spec.strides is None else pixels(movable(self), rank)
    if given is not None:
        out, made = new_pixels(spec.shape, self.dtype, rank)
        return out if launched(kernels.pad_pixels, movable(made), given, fill, *_lefts(pad), mode=mode) else None
    out = empty(spec.shape, self.dtype)
    done = launched(kernels.pad, volumes(movable(out), rank), volumes(movable(self), rank), fill, *_lefts(pad),
                    mode=mode)
    return in_strides(out, spec) if done else None


@repeats
def padded_places(self: Any, pad: Sizes, mode: str, spec: Spec) -> Any:
    return _padded(self, pad, table(movable(np.empty(0, self.dtype))), mode, spec) if self.size else None


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
    fill = np.empty(1, self.dtype)
    fill[0] = stored_number(value, spec.dtype)
    return _padded(self, pad, table(movable(fill)), "constant", spec)
