"""Flips, rolls and diagonals by compiled kernels."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._kernels.library import rearrange as kernels
from ...._ops._declare.rules import Spec
from ..jit.calls import launched
from ..jit.repeats import empty, repeats, store, zeros
from .arrays import along, movable
from .reduce import order_of


def _step_by_step(self: Any, steps: Sequence[Callable[[Any, Any], bool]]) -> Any:
    """What comes of steps that each write an array into another one."""
    for step in steps:
        made = empty(self.shape, self.dtype)
        if not step(movable(made), movable(self)):
            return None
        self = made
    return self


@repeats
def flip(self: Any, dims: Sequence[int], spec: Spec) -> Any:
    if not dims or not self.size or not self.ndim:
        return None
    order = tuple(range(self.ndim))
    if spec.strides is not None or not self.flags.c_contiguous:  # then as its dimensions lie in memory
        found = order_of(self.shape, self.strides, self.itemsize) if 1 not in self.shape else None
        if found is None:
            return None
        order = found

    def flipped(dim: int) -> Callable[[Any, Any], bool]:
        def step(made: Any, x: Any) -> bool:
            x, made = along(x, dim), along(made, dim)
            if x.shape[2] > 1:
                return launched(kernels.flip, made, x)
            return launched(kernels.flip_rows, made.reshape(x.shape[:2]), x.reshape(x.shape[:2]))

        return step

    made = _step_by_step(self.transpose(order), [flipped(order.index(d % self.ndim)) for d in dims])
    return None if made is None else made.transpose([order.index(d) for d in range(self.ndim)])


@repeats
def roll(self: Any, shifts: Sequence[int], dims: Sequence[int] | None) -> Any:
    if not self.size or not self.ndim or not self.flags.c_contiguous:
        return None

    def rolled(shift: int, dim: int | None) -> Callable[[Any, Any], bool]:
        def step(made: Any, x: Any) -> bool:
            outer, length, inner = (1, x.size, 1) if dim is None else along(x, dim).shape
            rows = (outer, length * inner)
            return launched(kernels.roll, made.reshape(rows), x.reshape(rows), shift % length * inner)

        return step

    return _step_by_step(self, [rolled(*each) for each in zip(shifts, dims or (None,), strict=True)])


@repeats
def diag_embed(self: Any, offset: int, dim1: int, dim2: int, spec: Spec) -> Any:
    made = zeros(spec.shape, self.dtype)
    if not self.size:
        return made
    steps = list(made.strides)
    first, second = steps[dim1], steps[dim2]
    begin = (first * -offset if offset < 0 else second * offset) // made.itemsize
    others = [s for d, s in enumerate(steps) if d not in (dim1 % made.ndim, dim2 % made.ndim)]
    store(np.ndarray(self.shape, self.dtype, made, begin * made.itemsize, (*others, first + second)), self)
    return made
