"""Copies on a GPU: within it, from and to the host, reshaped, and of tensors laid one after the other."""

import ctypes
import math
import threading
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
from ..array import CudaArray, Layout, array_on, empty, from_host, layout_of, read_bytes
from ..families import (
    Maker,
    copy_array,
    fill,
    fresh_tensor,
    generic_kernel,
    infer_of,
    layout_for,
    pairing,
    store,
    uninitialised,
    where_for,
    wrap_cuda,
)
from ..launch import Launch, compiled, longs
from ..plans import planned
from ..pointwise import copying

_MOST_CONVERSIONS = 4096


def clone(self: Tensor, memory_format: Any) -> Tensor:
    made = uninitialised(Spec(self._array.shape, self.dtype, preserved_strides(self, memory_format)), self._device)
    copy_array(made._array, self._array)
    return made


_conversions: dict[tuple, tuple[Layout, Launch]] = {}  # (layout, type, format) -> the copy's layout, and its launch


def to_copy(self: Tensor, dtype: dtype | None, device: device | None, non_blocking: bool, memory_format: Any) -> Tensor:
    """A copy in another type or layout, from or to the host; between hosts it is never asked."""
    if device is self._device and self._array.__class__ is CudaArray:
        source, key = self._array, (self._array.layout, dtype, memory_format)
        known = _conversions.get(key) or _conversion(self, key)
        if known is not None:
            made = fresh_tensor(known[0], device)
            known[1](source.pointer, made._array.pointer)
            return made
    return _to_copy(self, dtype, device, non_blocking, memory_format)


def _conversion(self: Tensor, key: tuple) -> tuple[Layout, Launch] | None:
    """How a tensor is copied to another type or layout where it is, if by one kernel."""
    source, kind = key[0], key[1] or self.dtype
    target = layout_for(Spec(source.shape, kind, preserved_strides(self, key[2])))
    if not source.size or target is source or self.dtype.is_complex or kind.is_complex:
        return None
    launch = copying(source, target)
    if launch is None:
        return None
    if len(_conversions) > _MOST_CONVERSIONS:
        _conversions.clear()
    made = _conversions[key] = target, launch
    return made


def _to_copy(self: Tensor, dtype: dtype | None, device: device | None, non_blocking: bool,
             memory_format: Any) -> Tensor:
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


def fill_(self: Tensor, value: Any) -> Tensor:
    """Writes a number, or a tensor of no dimensions, into all elements, which may be one in memory."""
    registry.get("fill_").declaration.family.check(self, value)
    if value.__class__ not in NUMBERS:
        return copy_(self, value, False)
    fill(self._array, stored_number(value, self.dtype))
    self._bump_version()
    return self


def zero_(self: Tensor) -> Tensor:
    fill(self._array, 0)
    self._bump_version()
    return self


def _copy_to_host(target: np.ndarray, src: Tensor, non_blocking: bool) -> None:
    source = src._array
    if target.shape == source.shape and target.dtype == source.dtype and target.flags.c_contiguous \
            and source.layout.contiguous:
        read_bytes(target, source.pointer, non_blocking)
        return
    wrap(target).copy_(wrap(source.to_host()))


@planned
def complex_of_parts(spec: Spec, first: CudaArray, second: CudaArray, operator: Operator) -> Callable | None:
    """`complex` and `polar` of arrays of one shape in C order."""
    layout = layout_for(spec)
    if not layout.size or layout.dtype.kind != "c" or not all(
            a.shape == layout.shape and a.layout.contiguous and a.dtype.itemsize >= 4 for a in (first, second)):
        return None
    launch = pairing(first.dtype, second.dtype, layout.dtype, layout.size, operator.schema.base_name == "polar")

    def run(first: CudaArray, second: CudaArray) -> CudaArray:
        made = empty(layout, first.device)
        launch(first.pointer, second.pointer, made.pointer)
        return made

    return run


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


# Parts of [outer, length] each, side by side in rows of `row` words; a y of the grid has a part.
_JOIN = r"""
struct Parts { const T* from[N]; int64 start[N], length[N]; };
extern "C" __global__ void join(T* out, int64 outer, int64 row, Parts parts) {
    const T* from = parts.from[blockIdx.y];
    int64 start = parts.start[blockIdx.y];
    I length = (I)parts.length[blockIdx.y], count = (I)outer * length;
    for (I i = blockIdx.x * (I)blockDim.x + threadIdx.x; i < count; i += (I)gridDim.x * blockDim.x)
        out[(int64)(i / length) * row + start + i % length] = from[i];
}
"""
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "uint4"}
_MOST_PARTS, _PLANS = 64, 4096


class _Joining:
    """The launch that copies contiguous arrays side by side."""

    def __init__(self, made: Layout, layouts: Sequence[Layout], outer: int) -> None:
        self.made, self.table = made, (ctypes.c_longlong * (3 * _MOST_PARTS))()
        lengths = [layout.nbytes // outer for layout in layouts]
        self.word = next(w for w in (16, 8, 4, 2, 1) if not any(n % w for n in lengths))
        self.table[_MOST_PARTS : _MOST_PARTS + len(lengths)] = [sum(lengths[:i]) // self.word
                                                                for i in range(len(lengths))]
        self.table[2 * _MOST_PARTS : 2 * _MOST_PARTS + len(lengths)] = [n // self.word for n in lengths]
        most = outer * max(lengths) // self.word
        text = (f"typedef {_WORDS[self.word]} T;\n#define N {_MOST_PARTS}\n"
                f"typedef unsigned {'int' if most < 1 << 31 else 'long long'} I;\n{_JOIN}")
        grid = max(1, min(-(-most // 256), 4096)), len(layouts)
        self.launch = Launch(compiled(text, "join"), "q", grid, (256,), [*longs(outer, sum(lengths) // self.word),
                                                                         self.table])

    def __call__(self, arrays: Sequence[CudaArray], made: CudaArray) -> bool:
        """False for arrays that do not lie at multiples of a word."""
        pointers = [array.pointer for array in arrays]
        if any(pointer & (self.word - 1) for pointer in pointers):
            return False
        with _joining:
            self.table[: len(pointers)] = pointers  # type: ignore[assignment]
            self.launch(made.pointer)
        return True


_joining = threading.Lock()  # tables are filled and read by one thread at a time


@Maker
def joined(operator: Operator) -> Callable:
    """The kernel of `cat` or `stack`: one launch for parts in C order, else a copy for each."""
    infer, slow, stacked = infer_of(operator), generic_kernel(operator), operator.schema.base_name == "stack"
    plans: dict[tuple, _Joining | None] = {}

    def kernel(tensors: Sequence[Tensor], dim: int) -> Any:
        arrays = [each._array for each in tensors]
        try:
            plan = plans[(dim, *[array.layout for array in arrays])]
        except (KeyError, AttributeError):
            return general(tensors, dim, arrays)
        if plan is not None:
            made = empty(plan.made, arrays[0].device)
            if plan(arrays, made):
                return wrap_cuda(made)
        return one_by_one(arrays, dim, infer(tensors, dim))

    def general(tensors: Sequence[Tensor], dim: int, arrays: Sequence[Any]) -> Any:
        kind: Any = arrays[0].dtype if arrays else None
        if any(a.__class__ is not CudaArray or a.dtype != kind or not a.size for a in arrays):
            return slow(tensors, dim)
        spec = infer(tensors, dim)
        if len(plans) > _PLANS:
            plans.clear()
        plan = None
        if spec.strides is None and len(arrays) <= _MOST_PARTS and all(a.layout.contiguous for a in arrays):
            made = layout_for(spec)
            plan = _Joining(made, [a.layout for a in arrays], math.prod(made.shape[: dim % len(made.shape)]))
        plans[(dim, *[array.layout for array in arrays])] = plan
        return kernel(tensors, dim)

    def one_by_one(arrays: Sequence[CudaArray], dim: int, spec: Spec) -> Tensor:
        made = uninitialised(spec, arrays[0].device)
        target, at = made._array, 0
        dim %= target.ndim
        step = target.strides[dim]
        strides = (*target.strides[:dim], *target.strides[dim + 1 :]) if stacked else target.strides
        for array in arrays:
            part = array_on(layout_of(array.shape, array.dtype, strides), target.memory, target.pointer + at * step,
                            target.device)
            copy_array(part, array)
            at += 1 if stacked else array.shape[dim]
        return made

    return kernel
