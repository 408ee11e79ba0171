"""Tensors laid one after the other, and reshaped copies, on a GPU: one launch for each part."""

from collections.abc import Sequence
from typing import Any

from ...._dispatch.registry import registry
from ...._ops.view import resolved_size
from ...._tensor import Tensor
from ..array import CudaArray, array_on, empty, layout_of
from ..families import copy_array, generic_kernel, uninitialised, wrap_cuda
from .plans import KERNELS


def unsafe_view(self: Tensor, size: tuple[int, ...]) -> Tensor:
    """A copy in C order, of another shape; not a copy if it lies so already."""
    array = self._array
    shape = tuple(resolved_size(size, array.size))
    made = array_on(layout_of(shape, array.dtype), array.memory, array.pointer, array.device)
    if not array.layout.contiguous:
        copied = empty(layout_of(array.shape, array.dtype), array.device)
        copy_array(copied, array)
        made.memory, made.pointer = copied.memory, copied.pointer
    else:
        made._storage = array.storage
    return wrap_cuda(made)


KERNELS["_unsafe_view"] = unsafe_view


def _declare(name: str, stacked: bool) -> None:
    operator = registry.get(name)
    infer, slow = operator.declaration.family.infer, generic_kernel(operator)

    def kernel(tensors: Sequence[Tensor], dim: int) -> Any:
        arrays = [each._array for each in tensors]
        kind: Any = arrays[0].dtype if arrays else None
        if any(a.__class__ is not CudaArray or a.dtype != kind or not a.size for a in arrays):
            return slow(tensors, dim)
        spec = infer(tensors, dim)
        made = uninitialised(spec, tensors[0]._device)
        target, at = made._array, 0
        dim %= target.ndim
        step = target.strides[dim]
        strides = (*target.strides[:dim], *target.strides[dim + 1 :]) if stacked else target.strides
        for array in arrays:
            part = array_on(layout_of(array.shape, kind, strides), target.memory, target.pointer + at * step,
                            target.device)
            copy_array(part, array)
            at += 1 if stacked else array.shape[dim]
        return made

    KERNELS[name] = kernel


_declare("cat", False)
_declare("stack", True)
