"""Arrays on the device: geometry over memory of CuPy's pool, and the copies between host and device.

A `CudaArray` is lighter than a `cupy.ndarray`, which costs as much as a third of a kernel's launch. Where a CuPy
function has to work on one, its `view` is the same memory as a `cupy.ndarray`, made then.
"""

import math
from typing import Any

import cupy
import numpy as np

from ..._core.device import device
from ..._core.geometry import Geometry, contiguous_strides
from ..._core.storage import UntypedStorage
from .memory import allocate, is_pinned, source
from .runtime import device_count, device_of, index_of
from .streams import current_handle, finish_transfer

_new = object.__new__
_SEVERAL = device_count() > 1
_HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE = 1, 2, 3


class Layout:
    """A geometry, one object for all arrays that have it: prepared launches are found by it."""

    __slots__ = ("contiguous", "dense", "dtype", "nbytes", "shape", "size", "strides")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...]) -> None:
        self.shape, self.dtype, self.strides = shape, dtype, strides
        self.size = math.prod(shape)
        spanned = sum(s * (n - 1) for s, n in zip(strides, shape, strict=True)) + dtype.itemsize
        self.nbytes = spanned if self.size else 0  # from the first element to the end of the last one
        self.contiguous = not self.size or all(
            s == c or n == 1 for s, c, n in zip(strides, contiguous_strides(shape, dtype.itemsize), shape, strict=True)
        )
        # Whether the elements fill their memory, in whatever order of dimensions.
        self.dense = self.contiguous or _fills(sorted(zip(strides, shape, strict=True)), dtype.itemsize)


def _fills(dimensions: list[tuple[int, int]], step: int) -> bool:
    for stride, n in dimensions:
        if n != 1:
            if stride != step:
                return False
            step *= n
    return True


_layouts: dict[tuple, Layout] = {}


def layout_of(shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None = None) -> Layout:
    """The layout of that shape; strides in bytes, row-major unless given."""
    made = _layouts.get((shape, dtype, strides))
    if made is None:
        full = contiguous_strides(shape, dtype.itemsize) if strides is None else strides
        made = _layouts.get((shape, dtype, full)) or Layout(shape, dtype, full)
        if len(_layouts) > 1 << 16:  # shapes that never come again
            _layouts.clear()
        _layouts[shape, dtype, strides] = _layouts[shape, dtype, full] = made
    return made


class CudaStorage(UntypedStorage):
    """Bytes on a GPU. They go back to the pool with the last array or storage that holds their `memory`."""

    __slots__ = ("address", "device", "memory")

    def __init__(self, nbytes: int = 0, *, device: Any = None) -> None:
        self.device, self.nbytes_, self.buffer = device_of(index_of(device)), nbytes, None
        self.memory = allocate(nbytes, self.device) if nbytes else None
        self.address = self.memory.ptr if self.memory is not None else 0

    @classmethod
    def of_memory(cls, memory: Any, address: int, nbytes: int, where: device) -> "CudaStorage":
        made = _new(cls)
        made.device, made.nbytes_, made.buffer = where, nbytes, None
        made.memory, made.address = memory, address
        return made

    def array(self, shape: tuple[int, ...], type: np.dtype, offset: int, strides: tuple[int, ...]) -> Any:  # noqa: A002
        """A strided array on these bytes; offset and strides in bytes."""
        layout = layout_of(tuple(shape), type, tuple(strides))
        if layout.size and offset + layout.nbytes > self.nbytes_:
            self.refuse(shape, type, offset, strides)
        made = array_on(layout, self.memory, self.address + offset, self.device)
        made._storage = self
        return made

    def laid_out_like(self, array: Any) -> Layout:
        return array.layout

    def laid_out(self, layout: Layout, offset: int) -> "CudaArray":
        if offset + layout.nbytes > self.nbytes_:
            return self.array(layout.shape, layout.dtype, offset, layout.strides)
        made = _new(CudaArray)
        made.shape, made.dtype, made.strides, made.layout = layout.shape, layout.dtype, layout.strides, layout
        made.memory, made.pointer, made.device = self.memory, self.address + offset, self.device
        made._storage, made._view = self, None
        return made

    def bytes_view(self) -> "CudaArray":
        return self.array((self.nbytes_,), np.dtype(np.uint8), 0, (1,))

    @property
    def data(self) -> np.ndarray:
        """A copy of the bytes on the host."""
        return self.bytes_view().to_host()

    def data_ptr(self) -> int:
        return self.address

    def resize_(self, nbytes: int) -> "CudaStorage":
        """Changes the size, keeping the bytes that fit. Arrays made before keep the old memory."""
        if nbytes != self.nbytes_:
            grown = CudaStorage(nbytes, device=self.device)
            _copy(grown.address, self.address, min(nbytes, self.nbytes_), _DEVICE_TO_DEVICE)
            self.memory, self.address, self.nbytes_ = grown.memory, grown.address, nbytes
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> "CudaStorage":
        source = source.untyped()
        if isinstance(source, CudaStorage):
            _copy(self.address, source.address, min(self.nbytes_, source.nbytes_), _DEVICE_TO_DEVICE)
        else:
            write_bytes(self.address, np.ascontiguousarray(source.data), bool(non_blocking))
        return self

    def clone(self) -> "CudaStorage":
        return CudaStorage(self.nbytes_, device=self.device).copy_(self)

    def fill_(self, value: int) -> "CudaStorage":
        if self.nbytes_:
            cupy.cuda.runtime.memsetAsync(self.address, value, self.nbytes_, current_handle())
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        changed = self.data
        changed[index] = value
        write_bytes(self.address, changed, False)

    def cpu(self) -> UntypedStorage:
        return UntypedStorage.of_array(self.data)

    def __reduce__(self) -> tuple:
        return _storage_on, (self.data.tobytes(), str(self.device))


def _storage_on(data: bytes, where: str) -> CudaStorage:
    made = CudaStorage(len(data), device=where)
    write_bytes(made.address, np.frombuffer(data, np.uint8), False)
    return made


class CudaArray(Geometry):
    """A layout at an address; `memory` keeps the bytes there."""

    __slots__ = ("__weakref__", "_storage", "_view", "device", "layout", "memory", "pointer")
    _storage: CudaStorage | None
    _view: Any
    device: device
    layout: Layout
    memory: Any
    pointer: int

    @property
    def size(self) -> int:
        return self.layout.size

    @property
    def nbytes(self) -> int:
        return self.layout.size * self.dtype.itemsize

    @property
    def storage(self) -> CudaStorage:
        """The storage that it lies on; of a fresh array, all of its memory."""
        if self._storage is None:
            self._storage = CudaStorage.of_memory(self.memory, self.pointer, self.layout.nbytes, self.device)
        return self._storage

    @property
    def view(self) -> Any:
        """The same memory as a `cupy.ndarray`."""
        made = self._view
        if made is None:
            if not self.layout.size:
                made = cupy.empty(self.shape, self.dtype)
            else:
                at = self.memory + (self.pointer - self.memory.ptr)
                made = cupy.ndarray(self.shape, self.dtype, at, self.strides)
            self._view = made
        return made

    def to_host(self) -> np.ndarray:
        """A copy of the elements in host memory, of the same strides; waits for what computes them."""
        layout = self.layout
        if layout.contiguous:
            made = np.empty(self.shape, self.dtype)
            read_bytes(made, self.pointer, False)
            return made
        spanned = np.empty(layout.nbytes, np.uint8)
        read_bytes(spanned, self.pointer, False)
        return np.ndarray(self.shape, self.dtype, spanned, 0, self.strides)

    def copy(self) -> "CudaArray":
        """The same elements in memory of their own, of the same strides."""
        made = empty(self.layout, self.device)
        copy_bytes(made.pointer, self.pointer, self.layout.nbytes)
        return made

    def __repr__(self) -> str:
        return f"<CudaArray {self.dtype}{list(self.shape)} on {self.device}>"


def array_on(layout: Layout, memory: Any, pointer: int, where: device) -> CudaArray:
    made = _new(CudaArray)
    made.shape, made.dtype, made.strides = layout.shape, layout.dtype, layout.strides
    made.layout, made.memory, made.pointer, made.device = layout, memory, pointer, where
    made._storage = made._view = None
    return made


def empty(layout: Layout, where: device) -> CudaArray:
    """An uninitialised array."""
    if not layout.nbytes:
        return array_on(layout, None, 0, where)
    if not _SEVERAL:
        return quick_empty(layout, where)
    memory = allocate(layout.nbytes, where)
    return array_on(layout, memory, memory.ptr, where)


def quick_empty(layout: Layout, where: device) -> CudaArray:
    """The same for a layout that has elements, on the current device, in one function: for paths that are hot."""
    try:
        memory = source.malloc(layout.nbytes)
    except MemoryError:
        memory = allocate(layout.nbytes, where)
    made = _new(CudaArray)
    made.shape, made.dtype, made.strides, made.layout = layout.shape, layout.dtype, layout.strides, layout
    made.memory, made.pointer, made.device = memory, memory.ptr, where
    made._storage = made._view = None
    return made


def of_view(view: Any, where: device) -> CudaArray:
    """The memory of a `cupy.ndarray` as an array."""
    layout = layout_of(view.shape, view.dtype, view.strides if view.size else None)
    made = array_on(layout, view.data if view.size else None, view.data.ptr if view.size else 0, where)
    made._view = view
    return made


# copies --------------------------------------------------------------------------------------------------------------


def _copy(target: int, source: int, count: int, kind: int) -> None:
    if count:
        cupy.cuda.runtime.memcpyAsync(target, source, count, kind, current_handle())


def copy_bytes(target: int, source: int, count: int) -> None:
    """Copies bytes on the device, after what is queued on the current stream."""
    _copy(target, source, count, _DEVICE_TO_DEVICE)


def write_bytes(target: int, source: np.ndarray, non_blocking: bool) -> None:
    """Copies a C-contiguous host array to an address on the device, after what is queued on the current stream."""
    if source.nbytes:
        _copy(target, source.__array_interface__["data"][0], source.nbytes, _HOST_TO_DEVICE)
        finish_transfer(source, non_blocking and is_pinned(source))


def read_bytes(target: np.ndarray, source: int, non_blocking: bool) -> None:
    """Copies bytes of the device into a C-contiguous host array, after what is queued on the current stream."""
    if target.nbytes:
        _copy(target.__array_interface__["data"][0], source, target.nbytes, _DEVICE_TO_HOST)
        finish_transfer(target, non_blocking and is_pinned(target))


def from_host(array: np.ndarray, where: device, non_blocking: bool = False) -> CudaArray:
    """A host array on the device, in C order."""
    made = empty(layout_of(array.shape, array.dtype), where)
    write_bytes(made.pointer, np.ascontiguousarray(array), non_blocking)
    return made
