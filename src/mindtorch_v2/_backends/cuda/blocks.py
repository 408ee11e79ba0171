"""Device memory by stream and size, in front of CuPy's pool: a call of the pool costs as much as a small operator.

A block goes back to the stream that it was taken on: what is queued there next runs after everything there that still
uses it. The lowest address is given out first, so that a program that repeats itself finds its memory where it was.
"""

import threading
from heapq import heappop, heappush
from typing import Any

import cupy

from .runtime import device_count

_SEVERAL = device_count() > 1
_ROUNDED = 512  # bytes: the pool rounds requests up to multiples of it
_SIZES = 4096  # that a stream knows at most
_SHARE = 16  # of what the pool has, one part may always lie here unused while the driver is asked for more
_SPARE = 1.5  # and more of it, as long as the pool has no more than so many times what was in use at once
_new = object.__new__

# What is free, by stream and by size asked for; sizes that the pool rounds alike have one list.
Free = dict[int, list[tuple]]
_streams: dict[int, Free] = {}


class Current(threading.local):
    """This thread's stream on each device; the handle of the current device's, and what is free on it."""

    def __init__(self) -> None:
        cupy.cuda.Device(cupy.cuda.runtime.getDevice()).use()  # launches need a context, which new threads have not
        self.streams: dict[int, Any] = {}
        self.follow(0)

    def follow(self, handle: int) -> None:
        """Work goes to that stream from now on."""
        self.handle, self.free = handle, _streams.setdefault(handle, {})


class Block:
    """Bytes at the address `ptr`, as CuPy's MemoryPointer; free again when nothing holds this object."""

    __slots__ = ("entry", "ptr")
    entry: tuple[int, Any, int, Free]  # address, CuPy's memory, its size, and what is free on its stream
    ptr: int

    def __del__(self, push: Any = heappush) -> None:  # its own name: at the end of the process a module has none left
        entry = self.entry
        known = entry[3].get(entry[2])
        if known is not None:  # else the pool gets it back
            push(known, entry)

    def __add__(self, offset: int) -> Any:
        """The place so many bytes further as CuPy's MemoryPointer, which holds this block."""
        _, pointer, nbytes, _ = self.entry
        held = cupy.cuda.UnownedMemory(self.ptr, nbytes, self, pointer.device_id)
        return cupy.cuda.MemoryPointer(held, offset)


class _KeptHere(Exception):
    """The pool has nothing left, but gets some back before the driver is asked."""


class _Peak:
    """The most bytes that were in use, here and in the pool, when the pool had to grow."""

    nbytes = 0


def _is_scarce(nbytes: int, total: int) -> bool:
    """Whether the driver has little left beside what the pool has: running out, it would take all of that back."""
    return cupy.cuda.runtime.memGetInfo()[0] < max(2 * nbytes, total // _SHARE)


def _from_driver(nbytes: int) -> Any:
    """What the pool calls when it has to grow.

    A program that repeats itself needs room for the blocks of all sizes: what is given back too soon is missing again
    in the next round, and the one after.
    """
    free, total = free_bytes(), pool.total_bytes()
    _Peak.nbytes = max(_Peak.nbytes, pool.used_bytes() - free + nbytes)
    if free * _SHARE > total and (total + nbytes > _SPARE * _Peak.nbytes or _is_scarce(nbytes, total)):
        give_back()
        raise _KeptHere
    return cupy.cuda.MemoryPointer(cupy.cuda.Memory(nbytes), 0)


pool = cupy.cuda.MemoryPool(_from_driver)


def of_pool(nbytes: int) -> Any:
    """CuPy's MemoryPointer to so many bytes, past what is free here."""
    while True:
        try:
            return pool.malloc(nbytes)
        except _KeptHere:  # another thread may free something before the next try
            continue


def take(nbytes: int) -> Block:
    """A block of so many bytes, for work on the current stream of the only device."""
    try:
        entry = heappop(current.free[nbytes])
    except (KeyError, IndexError):
        entry = _entry(nbytes)
    made = _new(Block)
    made.entry = entry
    made.ptr = entry[0]
    return made


def _entry(nbytes: int) -> tuple:
    """A size asked for the first time, or nothing of it is free."""
    free, size = current.free, -(-nbytes // _ROUNDED) * _ROUNDED
    if not size:  # blocks of nothing all lie at the address 0, which puts them in no order: they are not kept
        return 0, of_pool(0), 0, {}
    if len(free) >= _SIZES:
        free.clear()
    known = free[nbytes] = free.setdefault(size, [])
    try:
        return heappop(known)
    except IndexError:  # nothing is free, or another thread took it
        pointer = of_pool(size)
    return pointer.ptr, pointer, size, free


def free_bytes() -> int:
    """What is free here, which the pool counts as in use."""
    return sum(
        size * len(known)
        for free in list(_streams.values())
        for size, known in list(free.items())
        if not size % _ROUNDED
    )  # of the sizes that have one list, the one that was asked of the pool


def give_back() -> None:
    """Gives what is free here to the pool."""
    for free in list(_streams.values()):
        for known in list(free.values()):
            known.clear()


def close() -> None:
    """The same, and what is freed later goes to the pool at once."""
    for free in list(_streams.values()):
        free.clear()


malloc = of_pool if _SEVERAL else take
current = Current()
