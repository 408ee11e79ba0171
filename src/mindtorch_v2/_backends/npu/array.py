"""Arrays on the device: geometry over a storage, and the copies between host and device."""

import ctypes
import math
from typing import Any

import numpy as np

from ..._core.device import device
from ..._core.geometry import Geometry, contiguous_strides
from ..._core.storage import UntypedStorage
from .facts import DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE
from .layout import Layout, contiguous_layout, layout_of
from .memory import Block, Pool, free_unpinned, pinned_memory_of, pool_of, record_stream
from .runtime import current_device, started
from .streams import Event, Stream, current, current_stream

_new = object.__new__


class NpuStorage(UntypedStorage):
    """Bytes on an NPU. The block goes back to the pool with the last array on it."""

    __slots__ = ("address", "block", "device")

    def __init__(self, nbytes: int = 0, *, device: Any = None, stream: Stream | None = None) -> None:
        index = _index_of(device)
        self.device, self.nbytes_ = device_of(index), nbytes
        self.block: Block | None = None
        self.address = 0
        if nbytes:  # CANN refuses to allocate nothing
            stream = current_stream(index) if stream is None else stream
            self.block = pool_of(index).allocate(nbytes, stream.handle or 0)
            self.address = self.block.address

    def __del__(self) -> None:
        block = self.block
        if block is not None:
            block.pool.returned.append(block)

    def array(self, shape: tuple[int, ...], type: np.dtype, offset: int, strides: tuple[int, ...]) -> Any:  # noqa: A002
        """A strided array on these bytes; offset and strides in bytes."""
        return NpuArray(shape, type, strides, self, offset)

    @property
    def data(self) -> np.ndarray:
        """A copy of the bytes on the host."""
        return to_host(NpuArray((self.nbytes_,), np.dtype(np.uint8), (1,), self, 0))

    def data_ptr(self) -> int:
        return self.address

    def resize_(self, nbytes: int) -> "NpuStorage":
        """Changes the size, keeping the bytes that fit. Arrays made before see the new memory."""
        if nbytes != self.nbytes_:
            grown = NpuStorage(nbytes, device=self.device)
            copy_bytes(grown, 0, self, 0, min(nbytes, self.nbytes_))
            self.block, grown.block = grown.block, self.block
            self.address, self.nbytes_ = grown.address, nbytes
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool | None = None) -> "NpuStorage":
        if isinstance(source, NpuStorage):
            copy_bytes(self, 0, source, 0, min(self.nbytes_, source.nbytes_))
        else:
            write_bytes(self, 0, np.ascontiguousarray(source.data), bool(non_blocking))
        return self

    def clone(self) -> "NpuStorage":
        made = NpuStorage(self.nbytes_, device=self.device)
        copy_bytes(made, 0, self, 0, self.nbytes_)
        return made

    def fill_(self, value: int) -> "NpuStorage":
        if self.nbytes_:
            index = self.device.index or 0
            stream = current_stream(index)
            started(index).call("aclrtMemsetAsync", self.address, self.nbytes_, value, self.nbytes_, stream.handle)
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        changed = self.data
        changed[index] = value
        write_bytes(self, 0, changed, False)

    def cpu(self) -> UntypedStorage:
        return UntypedStorage.of_array(self.data)

    def record_stream(self, stream: Stream) -> None:
        """The memory is also used on `stream`, and not given to others before that has run."""
        if self.block is not None:
            record_stream(self.block, stream)


class NpuArray(Geometry):
    """A geometry on a storage; the offset in bytes."""

    __slots__ = ("__weakref__", "_layout", "offset", "storage")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None, storage: NpuStorage,
                 offset: int = 0) -> None:  # fmt: skip
        super().__init__(shape, dtype, strides)
        self.storage, self.offset = storage, offset
        self._layout: Layout | None = None

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def device_index(self) -> int:
        return self.storage.device.index or 0

    @property
    def pointer(self) -> int:
        """Where the first element lies."""
        return self.storage.address + self.offset

    @property
    def layout(self) -> Layout:
        """Everything CANN must know of this array except where its storage begins."""
        layout, nbytes = self._layout, self.storage.nbytes_
        if layout is None or layout.storage_bytes != nbytes:
            layout = layout_of(self.shape, self.strides, self.dtype, self.offset, nbytes, self.storage.device)
            self._layout = layout
        return layout

    @property
    def is_contiguous(self) -> bool:
        return self.strides == contiguous_strides(self.shape, self.dtype.itemsize) or not self.size

    def span(self) -> int:
        """Bytes from the first element to the end of the last one."""
        if 0 in self.shape:
            return 0
        return sum(s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True)) + self.dtype.itemsize

    def to_host(self) -> np.ndarray:
        """A copy of the elements in host memory."""
        return to_host(self)

    def copy(self) -> "NpuArray":
        """The same elements in memory of their own, of the same strides."""
        made = NpuArray(self.shape, self.dtype, self.strides, NpuStorage(self.span(), device=self.storage.device))
        copy_bytes(made.storage, 0, self.storage, self.offset, self.span())
        return made

    def __repr__(self) -> str:
        return f"<NpuArray {self.dtype}{list(self.shape)} on npu:{self.device_index}>"


_devices: dict[int, device] = {}


def device_of(index: int) -> device:
    made = _devices.get(index)
    if made is None:
        made = _devices[index] = device("npu", index)
    return made


def _index_of(where: Any) -> int:
    """The number of a device; without an index, the current one."""
    if where is None:
        return current_device()
    if where.__class__ is int:
        return where
    index = device(where).index
    return current_device() if index is None else index


def empty(shape: tuple[int, ...], dtype: np.dtype, where: Any = None,
          strides: tuple[int, ...] | None = None) -> NpuArray:  # fmt: skip
    """An uninitialised array; strides in bytes."""
    if strides is None:
        index = _index_of(where)
        return fresh(contiguous_layout(shape, dtype, device_of(index)), pool_of(index), current.handles[index] or 0)
    array = NpuArray(shape, dtype, strides, NpuStorage(0, device=where))
    array.storage = NpuStorage(array.span(), device=where)
    return array


def fresh(layout: Layout, pool: Pool, stream: int) -> NpuArray:
    """An uninitialised array of a layout that begins its storage, for work on a stream."""
    nbytes = layout.storage_bytes
    block = pool.allocate(nbytes, stream) if nbytes else None
    storage = _new(NpuStorage)
    storage.device, storage.nbytes_, storage.block = layout.device, nbytes, block
    storage.address = 0 if block is None else block.address
    array = _new(NpuArray)
    array.shape, array.dtype, array.strides, array.offset = layout.shape, layout.dtype, layout.strides, 0
    array.storage, array._layout = storage, layout
    return array


def fresh_storage(nbytes: int, pool: Pool, stream: int, where: device) -> NpuStorage:
    """Uninitialised memory for work on a stream."""
    block, storage = pool.allocate(nbytes, stream), _new(NpuStorage)
    storage.device, storage.nbytes_, storage.block, storage.address = where, nbytes, block, block.address
    return storage


def array_on(layout: Layout, offset: int, storage: NpuStorage) -> NpuArray:
    """An array of a layout that begins so many bytes into the storage."""
    array = _new(NpuArray)
    array.shape, array.dtype, array.strides, array.offset = layout.shape, layout.dtype, layout.strides, offset
    array.storage, array._layout = storage, layout
    return array


# copies --------------------------------------------------------------------------------------------------------------


def write_bytes(target: NpuStorage, offset: int, source: np.ndarray, non_blocking: bool) -> None:
    """Copies a C-contiguous host array to the device, after what is queued on the current stream.

    CANN's plain copy waits for no stream, yet queued work may still use the block's former content: so the stream is
    waited for. From page-locked memory the copy is queued instead; with `non_blocking` the host then does not wait.
    """
    if not source.nbytes:
        return
    index = target.device.index or 0
    runtime, stream = started(index), current_stream(index)
    memory, address = pinned_memory_of(source), source.__array_interface__["data"][0]
    sizes = target.address + offset, target.nbytes_ - offset, address, source.nbytes, HOST_TO_DEVICE
    _transfer(runtime, sizes, memory, stream, non_blocking)


def read_bytes(source: NpuStorage, offset: int, target: np.ndarray, non_blocking: bool = False) -> None:
    """Copies bytes of the device into a C-contiguous host array, after what is queued on the current stream."""
    if not target.nbytes:
        return
    index = source.device.index or 0
    runtime, stream = started(index), current_stream(index)
    memory, address = pinned_memory_of(target), target.__array_interface__["data"][0]
    sizes = address, target.nbytes, source.address + offset, target.nbytes, DEVICE_TO_HOST
    _transfer(runtime, sizes, memory, stream, non_blocking)


def _transfer(runtime: Any, sizes: tuple, memory: Any, stream: Stream, non_blocking: bool) -> None:
    """One copy between host and device: queued from pinned memory, else at once behind what is queued."""
    if memory is None:
        stream.synchronize()
        runtime.call("aclrtMemcpy", *sizes)
        return
    runtime.call("aclrtMemcpyAsync", *sizes, stream.handle)
    _finish_queued(memory, stream, non_blocking)


def _finish_queued(memory: Any, stream: Stream, non_blocking: bool) -> None:
    if not non_blocking:
        stream.synchronize()
        return
    if memory.in_use is None:
        memory.in_use = Event()
    memory.in_use.record(stream)
    free_unpinned(started(stream.device_index))


def copy_bytes(target: NpuStorage, to: int, source: NpuStorage, begin: int, count: int) -> None:
    """Copies between device memories, queued on the source's current stream."""
    if not count:
        return
    index, other = source.device.index or 0, target.device.index or 0
    if index != other and not _peers(index, other):
        host = np.empty(count, np.uint8)
        read_bytes(source, begin, host)
        write_bytes(target, to, host, False)
        return
    stream = current_stream(index)
    if index != other:
        stream.wait_stream(current_stream(other))
    started(index).call("aclrtMemcpyAsync", target.address + to, target.nbytes_ - to, source.address + begin, count,
                        DEVICE_TO_DEVICE, stream.handle)  # fmt: skip
    if index != other:
        current_stream(other).wait_stream(stream)


_peer_access: dict[tuple[int, int], bool] = {}


def _peers(index: int, other: int) -> bool:
    """Whether one device reaches the other's memory; switches that on."""
    known = _peer_access.get((index, other))
    if known is None:
        can = ctypes.c_int32()
        runtime = started(index)
        runtime.call("aclrtDeviceCanAccessPeer", ctypes.byref(can), index, other)
        if can.value:
            runtime.call("aclrtDeviceEnablePeerAccess", other, 0)
            started(other).call("aclrtDeviceEnablePeerAccess", index, 0)
        known = _peer_access[index, other] = _peer_access[other, index] = bool(can.value)
    return known


def to_host(array: NpuArray, out: np.ndarray | None = None, non_blocking: bool = False) -> np.ndarray:
    """The array's elements as an ndarray, contiguous or of the same strides.

    The memory it spans is copied as a whole, so that strides need no work on the device. `out` is a contiguous ndarray
    to copy into, for example page-locked; the array must be contiguous then.
    """
    if out is not None:
        read_bytes(array.storage, array.offset, out, non_blocking)
        return out
    if array.is_contiguous:
        made = np.empty(array.shape, array.dtype)
        read_bytes(array.storage, array.offset, made)
        return made
    spanned = np.empty(array.span(), np.uint8)
    read_bytes(array.storage, array.offset, spanned)
    return np.ndarray(array.shape, array.dtype, spanned, 0, array.strides)


def from_host(array: np.ndarray, where: Any = None, non_blocking: bool = False) -> NpuArray:
    """A host array on the device, in C order."""
    made = empty(array.shape, array.dtype, where)
    write_bytes(made.storage, 0, array if array.flags.c_contiguous else np.ascontiguousarray(array), non_blocking)
    return made
