"""Device memory, page-locked host memory, and the counts of both.

Memory comes from a pool of CuPy's, and what is free again lies in front of it (blocks.py) until somebody counts. While
a graph is captured, it comes from a pool of the graph's own.
"""

import threading
import weakref
from collections import deque
from typing import Any

import cupy
import numpy as np

from ..._core.device import device
from ..._core.device_objects import OutOfMemoryError, size_text
from . import blocks
from .runtime import device_count

_SEVERAL = device_count() > 1
_pool = blocks.pool


class _Source:
    """Where memory comes from: a pool, and what a launch calls, which it finds by one look."""

    def __init__(self) -> None:
        self.pool, self.malloc = _pool, blocks.malloc

    def use(self, pool: Any) -> Any:
        """Takes memory of another pool from now on; gives the one before."""
        before, self.pool = self.pool, pool
        self.malloc = _watched if counts.watching else blocks.malloc if pool is _pool else pool.malloc
        return before


class GraphPool(cupy.cuda.MemoryPool):
    """The memory of a graph, counted while it lives."""

    def __init__(self) -> None:
        super().__init__()
        _graph_pools[id(self)] = self


source = _Source()
_graph_pools: weakref.WeakValueDictionary[int, GraphPool] = weakref.WeakValueDictionary()


def _pools_of_graphs() -> list[GraphPool]:
    """Those that live now: others may come and go while they are asked."""
    return [pool for ref in _graph_pools.valuerefs() if (pool := ref()) is not None]


def allocate(nbytes: int, where: device) -> Any:
    """So many bytes for work on the current stream, as a block or CuPy's MemoryPointer."""
    try:
        if _SEVERAL:
            with cupy.cuda.Device(where.index):
                return source.malloc(nbytes)
        return source.malloc(nbytes)
    except cupy.cuda.memory.OutOfMemoryError:  # the pool has given back what it had to spare, to no avail
        return _once_more(source.malloc, nbytes, where.index or 0)


def _once_more(malloc: Any, nbytes: int, index: int) -> Any:
    """After a failure: what waits for other streams, and page-locked memory, may be given up as well."""
    counts.retried()
    with cupy.cuda.Device(index):
        empty_cache()
        try:
            return malloc(nbytes)
        except cupy.cuda.memory.OutOfMemoryError:
            counts.failed()
            raise OutOfMemoryError(_report(nbytes, index)) from None


def _for_cupy(nbytes: int) -> Any:
    """What CuPy's functions take for their results, with the same error."""
    malloc = _watched if counts.watching and source.pool is _pool else blocks.of_pool
    try:
        return malloc(nbytes)
    except cupy.cuda.memory.OutOfMemoryError:
        return _once_more(malloc, nbytes, cupy.cuda.runtime.getDevice())


if cupy.cuda.get_allocator() == cupy.get_default_memory_pool().malloc:  # a program may have chosen another one
    cupy.cuda.set_allocator(_for_cupy)


def lasting(nbytes: int) -> Any:
    """Memory that is kept for good, never a graph's."""
    return blocks.of_pool(nbytes)


def limit(fraction: float) -> None:
    """Lets the pool take at most this share of the current device's memory."""
    _pool.set_limit(fraction=fraction)


def _report(nbytes: int, index: int) -> str:
    free, total = memory_info(index)
    used, reserved = memory_allocated(), memory_reserved()
    return (f"CUDA out of memory. Tried to allocate {size_text(nbytes)}. GPU {index} has a total capacity of "
            f"{size_text(total)} of which {size_text(free)} is free. Of the memory in use by this process, "
            f"{size_text(used)} is allocated by tensors, and {size_text(reserved - used)} is reserved but unallocated.")


def memory_info(index: int) -> tuple[int, int]:
    """Free and total bytes of a device."""
    with cupy.cuda.Device(index):
        return tuple(cupy.cuda.runtime.memGetInfo())  # type: ignore[return-value]


def empty_cache() -> None:
    """Gives memory that nothing uses back to the driver."""
    counts.reserved_peak = max(counts.reserved_peak, memory_reserved())
    _release_finished()
    blocks.give_back()
    _pool.free_all_blocks()
    cupy.get_default_pinned_memory_pool().free_all_blocks()


# counts --------------------------------------------------------------------------------------------------------------


class _Here(threading.local):
    """Whether this thread's allocations are counted: CuPy asks hooks of the thread that they were set in."""

    counted = False


class _Counts(cupy.cuda.MemoryHook):
    """Peaks of what is in use, and how many allocations there are.

    Peaks are looked at when memory is taken, from the first question about them on; one before that is given as what
    the pool had taken from the driver: an upper bound. After `reset_peaks` it is exact. Allocations are counted by
    CuPy's hooks, which cost more, from the first question about those on.
    """

    name = "mindtorch_v2 counts"

    def __init__(self) -> None:
        self.allocated_peak = self.reserved_peak = 0
        self.taken = self.retries = self.failures = 0
        self.live: set[int] = set()
        self.watching = self.counting = self.failing = False
        self.here = _Here()

    def watch(self) -> "_Counts":
        if not self.watching:
            self.watching = True
            blocks.close()
            source.use(source.pool)
            # What was in use at once before is not known, but never was it more than the pool has taken.
            self.allocated_peak = max(self.allocated_peak, self.reserved_peak, memory_reserved())
        self.reserved_peak = max(self.reserved_peak, memory_reserved())
        return self

    def count(self) -> None:
        """Counts what this thread allocates from now on, and others from their next allocation on."""
        self.counting = True
        if not self.here.counted:
            self.here.counted = True
            self.__enter__()

    def look(self) -> None:
        """Memory was taken; what is in use is known to the pools, since other threads give memory back too."""
        used = memory_allocated() if _graph_pools else _pool.used_bytes()
        if used > self.allocated_peak:
            self.allocated_peak = used

    def retried(self) -> None:
        """An allocation failed and is tried again; once for all tries of one request."""
        self.retries += not self.failing
        self.failing = True

    def failed(self) -> None:
        self.failures += 1
        self.failing = False

    def alloc_postprocess(self, **kwargs: Any) -> None:
        """The driver was asked; where it had nothing, the pool gives back what it can spare and asks again."""
        if kwargs["mem_ptr"]:
            self.failing = False
        else:
            self.retried()

    def malloc_postprocess(self, **kwargs: Any) -> None:
        if kwargs["mem_ptr"]:
            self.live.add(kwargs["pmem_id"])
            self.taken += 1

    def free_postprocess(self, **kwargs: Any) -> None:
        self.live.discard(kwargs["pmem_id"])


counts = _Counts()


def _watched(nbytes: int) -> Any:
    """Memory of the current pool, looked at."""
    if counts.counting and not counts.here.counted:
        counts.count()
    memory = source.pool.malloc(nbytes)
    counts.look()
    return memory


def memory_allocated() -> int:
    """Bytes in use by tensors."""
    return _pool.used_bytes() - blocks.free_bytes() + sum([pool.used_bytes() for pool in _pools_of_graphs()])


def memory_reserved() -> int:
    """Bytes taken from the driver, in use or kept for later."""
    return _pool.total_bytes() + sum([pool.total_bytes() for pool in _pools_of_graphs()])


def reset_peaks() -> None:
    counts.watch()
    counts.allocated_peak, counts.reserved_peak = memory_allocated(), memory_reserved()


def peaks() -> tuple[int, int]:
    """The most bytes that were in use, and taken from the driver."""
    counts.watch()
    return counts.allocated_peak, counts.reserved_peak


def statistics() -> dict[str, int]:
    counts.watch().count()
    return {
        "allocated_bytes.all.current": memory_allocated(), "allocated_bytes.all.peak": counts.allocated_peak,
        "reserved_bytes.all.current": memory_reserved(), "reserved_bytes.all.peak": counts.reserved_peak,
        "allocation.all.current": len(counts.live), "allocation.all.allocated": counts.taken,
        "allocation.all.freed": counts.taken - len(counts.live),
        "num_alloc_retries": counts.retries, "num_ooms": counts.failures,
    }  # fmt: skip


# memory that other streams use ---------------------------------------------------------------------------------------

_waiting: deque[tuple[Any, list[Any]]] = deque()  # events, and what may not be freed before they have happened


def hold_until(event: Any, *kept: Any) -> None:
    """Keeps objects until an event has happened."""
    _release_finished()
    _waiting.append((event, list(kept)))


def _release_finished() -> None:
    """Each is taken out while it is asked: other threads, and what is freed meanwhile, may add some."""
    for _ in range(len(_waiting)):
        try:
            event, kept = _waiting.popleft()
        except IndexError:  # another thread asks the rest
            return
        if not event.done:
            _waiting.append((event, kept))


def record_stream(storage: Any, stream: Any) -> None:
    """The memory of a storage is also used on a CuPy stream, and not given to others before that has run."""
    if storage.memory is not None:
        weakref.finalize(storage, _given_back, storage.memory, stream)


def _given_back(memory: Any, stream: Any) -> None:
    hold_until(stream.record(), memory)


# host memory ---------------------------------------------------------------------------------------------------------


def pinned_empty(shape: tuple[int, ...], type: np.dtype) -> np.ndarray:  # noqa: A002
    """An uninitialised ndarray in page-locked memory."""
    count = int(np.prod(shape, dtype=np.int64))
    if not count:
        return np.empty(shape, type)
    nbytes = count * type.itemsize
    return np.asarray(_Pinned(cupy.cuda.alloc_pinned_memory(nbytes), nbytes)).view(type).reshape(shape)


class _Pinned:
    """Page-locked memory as NumPy takes it."""

    def __init__(self, memory: Any, nbytes: int) -> None:
        self.memory = memory
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (memory.ptr, False), "version": 3}


def is_pinned(array: np.ndarray) -> bool:
    """Whether an array lies in page-locked memory."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, _Pinned)
