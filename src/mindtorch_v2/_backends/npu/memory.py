"""Device memory from a cache, one pool a device, and page-locked host memory.

A block that is given back goes to the free list of the stream it was taken for: what is queued there next runs after
everything that still uses the block, so reuse on the same stream needs no waiting. Neighbours are joined only when no
block fits.
"""

import bisect
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from ctypes import byref, c_size_t
from typing import Any

import numpy as np

from .errors import NpuError, OutOfMemoryError, size_text
from .facts import OUT_OF_MEMORY, POINTER
from .runtime import Runtime, at_stop, running, started
from .streams import Event, Stream

ROUNDING, TAIL = 512, 32  # CANN reads up to 32 bytes past the end of a tensor
SMALL_BLOCK, SMALL_SEGMENT = 1 << 20, 2 << 20
MEDIUM_BLOCK, MEDIUM_SEGMENT = 10 << 20, 20 << 20
HBM, DDR = 1, 0


class Block:
    """A piece of a segment."""

    __slots__ = ("address", "following", "is_free", "pool", "preceding", "segment", "size", "stream", "used_on")

    def __init__(self, pool: "Pool", segment: "Segment", address: int, size: int, stream: int) -> None:
        self.pool, self.segment, self.address, self.size, self.stream = pool, segment, address, size, stream
        self.preceding: Block | None = None
        self.following: Block | None = None
        self.is_free = True
        self.used_on: set[Stream] | None = None  # other streams that work with it


class Segment:
    """Memory as it came from CANN, cut into blocks."""

    __slots__ = ("address", "first", "size", "small")

    def __init__(self, address: int, size: int, small: bool) -> None:
        self.address, self.size, self.small = address, size, small
        self.first: Block

    def blocks(self) -> Iterator[Block]:
        block: Block | None = self.first
        while block is not None:
            yield block
            block = block.following


def rounded(nbytes: int) -> int:
    """The bytes that a piece of memory takes."""
    return (nbytes + TAIL + ROUNDING - 1) & -ROUNDING


FreeLists = dict[int, dict[int, list[Block]]]  # stream -> size -> blocks


class Pool:
    """The memory of one device."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.lock = threading.RLock()
        self.returned: deque[Block] = deque()  # given back by destructors, which may run at any moment
        self.waiting: list[tuple[list[Event], Block]] = []  # given back, but other streams may still use them
        self.free: tuple[FreeLists, FreeLists] = ({}, {})  # of large and of small segments
        self.segments: list[Segment] = []
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = 0
        self.live = self.retries = self.failures = self.taken = 0
        self.limit: int | None = None  # bytes that may be taken from CANN

    def allocate(self, nbytes: int, stream: int) -> Block:
        """A block for work on a stream; OutOfMemoryError if there is none even after emptying the cache."""
        size = (nbytes + TAIL + ROUNDING - 1) & -ROUNDING  # as `rounded`
        returned = self.returned
        if returned:
            try:
                block = returned.pop()
                if block.size == size and block.stream == stream and block.used_on is None:
                    self.taken += 1  # the block given back last: no count changes but this
                    return block
                returned.append(block)
            except IndexError:  # another thread was quicker
                pass
        with self.lock:
            if returned:
                self._take_back()
            lists = self.free[size <= SMALL_BLOCK].get(stream)
            fitting = lists.get(size) if lists else None
            block = fitting.pop() if fitting else self._find(size, nbytes, stream)
            block.is_free = False
            self.allocated += block.size
            self.live += 1
            self.taken += 1
            if self.allocated > self.peak_allocated:
                self.peak_allocated = self.allocated
            return block

    def _take_back(self) -> None:
        returned, waiting = self.returned, self.waiting
        while returned:
            try:
                block = returned.popleft()
            except IndexError:  # another thread took the last one, for which it needs no lock
                return
            self.allocated -= block.size
            self.live -= 1
            if block.used_on:
                waiting.append(([stream.record_event() for stream in block.used_on], block))
                block.used_on = None
            else:
                self._list(block)

    def _list(self, block: Block) -> None:
        block.is_free = True
        self.free[block.segment.small].setdefault(block.stream, {}).setdefault(block.size, []).append(block)

    def _find(self, size: int, nbytes: int, stream: int) -> Block:
        if self.waiting:
            self._list_finished()
        block = self._best_fit(size, stream)
        if block is None:
            self._join_neighbours()
            block = self._best_fit(size, stream) or self._new_segment(size, nbytes, stream)
        spare = block.size - size
        if spare >= (ROUNDING if block.segment.small else SMALL_BLOCK):
            rest = Block(self, block.segment, block.address + size, spare, stream)
            rest.preceding, rest.following = block, block.following
            if block.following is not None:
                block.following.preceding = rest
            block.following, block.size = rest, size
            self._list(rest)
        return block

    def _best_fit(self, size: int, stream: int) -> Block | None:
        lists = self.free[size <= SMALL_BLOCK].get(stream, {})
        sizes = sorted(s for s, blocks in lists.items() if blocks)
        at = bisect.bisect_left(sizes, size)
        return lists[sizes[at]].pop() if at < len(sizes) else None

    def _list_finished(self) -> None:
        still = []
        for events, block in self.waiting:
            if all(event.query() for event in events):
                self._list(block)
            else:
                still.append((events, block))
        self.waiting = still

    def _join_neighbours(self) -> None:
        """Makes one block of free ones that lie side by side, and builds the free lists anew."""
        for lists in self.free:
            lists.clear()
        for segment in self.segments:
            for block in segment.blocks():
                while block.is_free and block.following is not None and block.following.is_free:
                    joined = block.following
                    block.size += joined.size
                    block.following = joined.following
                    if joined.following is not None:
                        joined.following.preceding = block
                if block.is_free:
                    self._list(block)

    def _new_segment(self, size: int, nbytes: int, stream: int) -> Block:
        small = size <= SMALL_BLOCK
        if small:
            wanted = SMALL_SEGMENT
        else:
            wanted = MEDIUM_SEGMENT if size < MEDIUM_BLOCK else -(-size // SMALL_SEGMENT) * SMALL_SEGMENT
        address = self._malloc(wanted)
        if address is None:
            self.retries += 1
            self.empty()
            address = self._malloc(wanted)
        if address is None and wanted > size:
            wanted = size
            address = self._malloc(wanted)
        if address is None:
            self.failures += 1
            raise OutOfMemoryError(self._shortage(nbytes))
        segment = Segment(address, wanted, small)
        segment.first = Block(self, segment, address, wanted, stream)
        self.segments.append(segment)
        self.reserved += wanted
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return segment.first

    def _malloc(self, size: int) -> int | None:
        runtime, address = started(self.index), POINTER()
        if self.limit is not None and self.reserved + size > self.limit:
            return None
        try:
            runtime.call("aclrtMalloc", byref(address), size, 0)
        except NpuError as error:
            if error.code in OUT_OF_MEMORY:
                return None
            raise
        return address.value

    def take_all_free(self, stream: int) -> list[Block]:
        """All free blocks of a stream, which nobody gets before they are returned."""
        with self.lock:
            self._take_back()
            found = [block for lists in self.free for blocks in lists.pop(stream, {}).values() for block in blocks]
            for block in found:
                block.is_free = False
                self.allocated += block.size
                self.live += 1
            return found

    def snapshot(self) -> list[dict[str, Any]]:
        """The segments with their blocks, as torch.cuda.memory_snapshot tells them."""
        with self.lock:
            self._take_back()
            made = []
            for segment in self.segments:
                blocks = [{"address": b.address, "size": b.size, "requested_size": b.size,
                           "state": "inactive" if b.is_free else "active_allocated"} for b in segment.blocks()]
                used = sum(b.size for b in segment.blocks() if not b.is_free)
                made.append({"device": self.index, "address": segment.address, "total_size": segment.size,
                             "allocated_size": used, "active_size": used, "stream": segment.first.stream,
                             "segment_type": "small" if segment.small else "large", "blocks": blocks})
            return made

    def _shortage(self, nbytes: int) -> str:
        try:
            free, total = memory_info(self.index)
            capacity = (f"NPU {self.index} has a total capacity of {size_text(total)} of which {size_text(free)} is "
                        "free. ")  # fmt: skip
        except NpuError:
            capacity = ""
        return (f"NPU out of memory. Tried to allocate {size_text(nbytes)}. {capacity}"
                f"Of the memory reserved here, {size_text(self.allocated)} is in use and "
                f"{size_text(self.reserved - self.allocated)} is reserved but unallocated.")  # fmt: skip

    def empty(self) -> None:
        """Gives segments without a block in use back to CANN, after all work that may still touch them."""
        with self.lock:
            runtime = started(self.index)
            self._take_back()
            if not self.segments:
                return
            runtime.call("aclrtSynchronizeDevice")
            for _, block in self.waiting:
                self._list(block)
            self.waiting = []
            self._join_neighbours()
            kept = [s for s in self.segments if not (s.first.is_free and s.first.following is None)]
            unused = [s for s in self.segments if s.first.is_free and s.first.following is None]
            for position, segment in enumerate(unused):
                try:
                    runtime.call("aclrtFree", segment.address)
                except NpuError:
                    self.segments = kept + unused[position:]
                    self._join_neighbours()
                    raise
                self.reserved -= segment.size
            self.segments = kept
            self._join_neighbours()

    def settle(self) -> "Pool":
        """This pool with everything counted that destructors gave back."""
        with self.lock:
            self._take_back()
        return self

    def reset_peaks(self) -> None:
        self.settle()
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved

    def reset_counts(self) -> None:
        self.settle()
        self.taken, self.retries, self.failures = self.live, 0, 0

    def statistics(self) -> dict[str, int]:
        self.settle()
        return {
            "allocated_bytes.all.current": self.allocated, "allocated_bytes.all.peak": self.peak_allocated,
            "reserved_bytes.all.current": self.reserved, "reserved_bytes.all.peak": self.peak_reserved,
            "allocation.all.current": self.live, "allocation.all.allocated": self.taken,
            "allocation.all.freed": self.taken - self.live, "segment.all.current": len(self.segments),
            "num_alloc_retries": self.retries, "num_ooms": self.failures,
        }  # fmt: skip


_pools: dict[int, Pool] = {}


def pool_of(index: int) -> Pool:
    pool = _pools.get(index)
    if pool is None:
        pool = _pools.setdefault(index, Pool(index))
    return pool


def pools() -> Iterable[Pool]:
    return tuple(_pools.values())


def memory_info(index: int) -> tuple[int, int]:
    """Free and total bytes of a device."""
    runtime, free, total = started(index), c_size_t(), c_size_t()
    runtime.call("aclrtGetMemInfo", HBM, byref(free), byref(total))
    if not total.value:  # a board without high-bandwidth memory
        runtime.call("aclrtGetMemInfo", DDR, byref(free), byref(total))
    return free.value, total.value


def record_stream(block: Block, stream: Stream) -> None:
    """The block is also used on `stream`: once given back it waits for what is queued there."""
    if stream.npu_stream != block.stream:
        block.used_on = {*(block.used_on or ()), stream}


# host memory ---------------------------------------------------------------------------------------------------------


class PinnedMemory:
    """Page-locked host memory: devices copy from and to it without holding up the host. Freed with its last array."""

    def __init__(self, nbytes: int) -> None:
        self._runtime = started()
        free_unpinned(self._runtime)
        address = POINTER()
        self._runtime.call("aclrtMallocHost", byref(address), nbytes)
        self.address = address.value or 0
        self.in_use: Event | None = None  # marks the last copy that was queued on it
        self.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def __del__(self) -> None:
        # A destructor runs at any moment in any thread, so it calls nothing: the next copy or allocation frees.
        if getattr(self, "address", 0) and running() is self._runtime:
            _unpinned.append((self.address, self.in_use))


_unpinned: deque[tuple[int, Event | None]] = deque()  # to be freed once the copies on them have run


def free_unpinned(runtime: Runtime) -> None:
    """Frees page-locked memory that nothing uses any more."""
    for _ in range(len(_unpinned)):
        try:
            address, event = _unpinned.popleft()
        except IndexError:  # another thread frees the rest
            return
        if event is None or event.query():
            runtime.call("aclrtFreeHost", address)
        else:
            _unpinned.append((address, event))


def pinned_empty(shape: tuple[int, ...], type: np.dtype) -> np.ndarray:  # noqa: A002
    """An uninitialised ndarray in page-locked memory."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * type.itemsize
    if not nbytes:
        return np.empty(shape, type)
    return np.asarray(PinnedMemory(nbytes)).view(type).reshape(shape)


def pinned_memory_of(array: np.ndarray) -> PinnedMemory | None:
    """The page-locked memory an array lies in, or None."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner if isinstance(owner, PinnedMemory) else None


def is_pinned(array: np.ndarray) -> bool:
    return pinned_memory_of(array) is not None


def _free_all(runtime: Runtime) -> None:
    for address, _ in _unpinned:
        runtime.functions["aclrtFreeHost"](address)
    _unpinned.clear()
    for index, pool in _pools.items():
        if pool.segments and not runtime.functions["aclrtSetCurrentContext"](runtime.contexts[index]):
            for segment in pool.segments:
                runtime.functions["aclrtFree"](segment.address)
    _pools.clear()


at_stop.append(_free_all)
