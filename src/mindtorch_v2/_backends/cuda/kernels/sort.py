"""Ordered rows on a GPU: the best few, and rows short enough to be ordered whole."""

from collections.abc import Callable, Sequence
from typing import Any

from ...._dispatch.registry import Operator
from ...._ops.families import result_of
from ...._ops.rules import Spec
from ...._tensor import Tensor, wrapped_dim
from ..along import SELECTED, select_launch
from ..array import CudaArray, array_on, empty, layout_of
from ..families import copy_array, fresh_tensor, wrap_cuda
from ..launch import C_TYPES
from ..plans import dense, planned


def _with_last(array: CudaArray, dim: int) -> CudaArray:
    """The same memory with a dimension moved to the end."""
    order = [d for d in range(len(array.shape)) if d != dim] + [dim]
    layout = layout_of(tuple([array.shape[d] for d in order]), array.dtype, tuple([array.strides[d] for d in order]))
    return array_on(layout, array.memory, array.pointer, array.device)


def _selecting(specs: Sequence[Spec], self: Tensor, k: int, dim: int, largest: bool) -> Callable | None:
    """`run(self)`, which gives the best k along a dimension and where they are, in order."""
    array = self._array
    if not array.size or not array.shape or not 0 < k <= SELECTED or array.dtype.name not in C_TYPES:
        return None
    dim, kind = wrapped_dim(dim, len(array.shape)), array.dtype
    length = array.shape[dim]
    launch = select_launch(kind, largest, array.size // length, length, k)
    layouts = [layout_of(tuple(s.shape), s.dtype.np, None if s.strides is None else tuple(
        [n * s.dtype.itemsize for n in s.strides])) for s in specs]
    rows = tuple([n for d, n in enumerate(specs[0].shape) if d != dim] + [k])
    direct = dim == len(array.shape) - 1 and all(layout.contiguous for layout in layouts)

    def run(self: Tensor) -> list[Tensor]:
        source = dense(self) if direct else dense(wrap_cuda(_with_last(self._array, dim)))
        made = [fresh_tensor(layout, self._device) for layout in layouts]
        values, places = (m._array if direct else empty(layout_of(rows, m._array.dtype), self._device) for m in made)
        launch(source.pointer, values.pointer, places.pointer)
        if not direct:
            for target, found in zip(made, (values, places), strict=True):
                copy_array(_with_last(target._array, dim), found)
        return made

    return run


@planned(by_value=False)
def topk(specs: Any, self: Tensor, k: int, dim: int, largest: bool, sorted: bool,  # noqa: A002
         operator: Operator) -> Callable | None:
    run = _selecting(specs, self, k, dim, largest)
    return run and (lambda self, *options: result_of(operator, run(self)))


@planned(by_value=False)
def sort(specs: Any, self: Tensor, dim: int, descending: bool, stable: bool | None,
         operator: Operator) -> Callable | None:
    shape = self._array.shape
    run = _selecting(specs, self, shape[dim], dim, descending) if shape else None
    return run and (lambda self, *options: result_of(operator, run(self)))
