"""The largest or smallest element along a dimension, and where it is, on a GPU."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._dispatch.registry import Operator
from ...._ops.families import result_of
from ...._ops.rules import Spec
from ...._tensor import Tensor, wrapped_dim
from ..along import best_launch, best_parts
from ..array import CudaArray, empty, layout_of
from ..families import fresh_tensor, layout_for
from ..launch import C_TYPES
from ..plans import dense, planned

_INT64 = np.dtype(np.int64)


def grouped(shape: Sequence[int], dim: int | None) -> tuple[int, int, int]:
    """(outer, length, inner) of a contiguous array around a dimension; without one, all elements are one row."""
    if dim is None or not shape:
        return 1, math.prod(shape), 1
    dim = wrapped_dim(dim, len(shape))
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def _finding(array: CudaArray, dim: int | None, largest: bool) -> Callable[[CudaArray, int, int], None] | None:
    """`run(array, address for the elements or 0, address for their places)`; None where CuPy does it."""
    kind = array.dtype
    if not array.size or kind.name not in C_TYPES:
        return None
    outer, length, inner = grouped(array.shape, dim)
    parts = best_parts(outer * inner, length)
    if parts > 65535:
        return None
    first = best_launch(kind, largest, outer, length, inner, parts)
    if parts == 1:
        return lambda array, values, places: first(array.pointer, 0, values, places)
    second = best_launch(kind, largest, outer, parts, inner, 1)
    some, some_places = (layout_of((outer * parts * inner,), k) for k in (kind, _INT64))

    def run(array: CudaArray, values: int, places: int) -> None:
        best, best_places = empty(some, array.device), empty(some_places, array.device)
        first(array.pointer, 0, best.pointer, best_places.pointer)
        second(best.pointer, best_places.pointer, values, places)

    return run


@planned(by_value=False)
def place(spec: Spec, self: Tensor, dim: int | None, keepdim: bool, operator: Operator) -> Callable | None:
    """`argmax` and `argmin`."""
    finding, layout = _finding(self._array, dim, operator.schema.base_name == "argmax"), layout_for(spec)

    def run(self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
        made = fresh_tensor(layout, self._device)
        finding(dense(self), 0, made._array.pointer)  # type: ignore[misc]
        return made

    return finding and run


@planned(by_value=False)
def element_and_place(specs: Sequence[Spec], self: Tensor, dim: int, keepdim: bool,
                      operator: Operator) -> Callable | None:
    """`max` and `min` along a dimension."""
    finding = _finding(self._array, dim, operator.schema.base_name == "max")
    layouts = [layout_for(spec) for spec in specs]

    def run(self: Tensor, dim: int, keepdim: bool) -> Any:
        made = [fresh_tensor(layout, self._device) for layout in layouts]
        finding(dense(self), made[0]._array.pointer, made[1]._array.pointer)  # type: ignore[misc]
        return result_of(operator, made)

    return finding and run
