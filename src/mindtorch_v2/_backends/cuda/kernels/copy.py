"""Copies on a GPU: within it, from and to the host, reshaped, and of tensors laid one after the other."""

from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from ...._core.device import device
from ...._core.dtype import dtype
from ...._core.tensor import Tensor, wrap
from ...._dispatch.registry import Operator, registry
from ...._dispatch.schema import NUMBERS
from ...._ops._declare.rules import Spec
from ...._ops.copy import preserved_strides, stored_number
from ...._ops.view import resolved_size
from ..array import CudaArray, array_on, empty, from_host, layout_of, read_bytes
from ..families import Maker, copy_array, fill, generic_kernel, infer_of, store, uninitialised, where_for, wrap_cuda


def clone(self: Tensor, memory_format: Any) -> Tensor:
    made = uninitialised(Spec(self._array.shape, self.dtype, preserved_strides(self, memory_format)), self._device)
    copy_array(made._array, self._array)
    return made


def to_copy(self: Tensor, dtype: dtype | None, device: device | None, non_blocking: bool, memory_format: Any) -> Tensor:
    """A copy in another type or layout, from or to the host; between hosts it is never asked."""
    spec = Spec(self._array.shape, dtype or self.dtype, preserved_strides(self, memory_format))
    source = self._array
    if source.__class__ is not CudaArray:  # from the host: cast there if that makes less to copy
        where = where_for(device, ())
        host = np.empty(spec.shape, self._array.dtype) if not source.size else source
        if spec.dtype.itemsize < source.itemsize:
            host = wrap(source).to(spec.dtype)._array
        made = uninitialised(spec, where)
        if made._array.size:
            moved = _moved(host, spec, where, non_blocking)
            copy_array(made._array, moved) if moved.layout is not made._array.layout else _adopt(made, moved)
        return made
    where = where_for(device, (self,))
    made = uninitialised(spec, self._device)
    copy_array(made._array, source)
    if where.index != self._device.index:
        target = uninitialised(spec, where)
        if target._array.size:
            cupy.cuda.runtime.memcpyPeer(target._array.pointer, where.index, made._array.pointer, self._device.index,
                                         made._array.layout.nbytes)
        return target
    return made


def _moved(host: np.ndarray, spec: Spec, where: device, non_blocking: bool) -> CudaArray:
    """A host array on the device, with its strides where they are dense as the spec's."""
    wanted = spec.strides
    if wanted is not None and tuple([s // host.itemsize for s in host.strides]) == wanted:
        order = sorted(range(host.ndim), key=lambda d: (-host.strides[d], d))
        dense = from_host(host.transpose(order), where, non_blocking)
        return dense.storage.array(host.shape, host.dtype, 0, host.strides)
    return from_host(host, where, non_blocking)


def _adopt(made: Tensor, array: CudaArray) -> None:
    array._storage = None
    made._array = array


def copy_(self: Tensor, src: Any, non_blocking: bool) -> Tensor:
    """Writes numbers, or a tensor of this or another device."""
    registry.get("copy_").declaration.family.check(self, src, non_blocking)
    target = self._array
    if src is self or not target.size:
        pass
    elif src.__class__ in NUMBERS:
        fill_ = stored_number(src, self.dtype)
        if target.__class__ is CudaArray:
            fill(target, fill_)
        else:
            target.fill(fill_)
    elif target.__class__ is not CudaArray:
        _copy_to_host(target, src, non_blocking)
    else:
        source = src._array
        if source.__class__ is not CudaArray:
            narrow = self.dtype.itemsize < src.dtype.itemsize
            host = src.to(self.dtype)._array if narrow else source
            source = from_host(host, self._device, non_blocking)
        elif src._device.index != self._device.index:
            source = src.to(self._device)._array
        if source.shape == target.shape:
            copy_array(target, source)
        else:
            store(target.view, source.view)
    self._bump_version()
    return self


def _copy_to_host(target: np.ndarray, src: Tensor, non_blocking: bool) -> None:
    source = src._array
    if target.shape == source.shape and target.dtype == source.dtype and target.flags.c_contiguous \
            and source.layout.contiguous:
        read_bytes(target, source.pointer, non_blocking)
        return
    wrap(target).copy_(wrap(source.to_host()))


# reshaped and joined -------------------------------------------------------------------------------------------------


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


@Maker
def joined(operator: Operator) -> Callable:
    """The kernel of `cat` or `stack`: one copy for each part."""
    infer, slow, stacked = infer_of(operator), generic_kernel(operator), operator.schema.base_name == "stack"

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

    return kernel
