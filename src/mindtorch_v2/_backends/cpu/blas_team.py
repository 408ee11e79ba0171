"""OpenBLAS's threads as a team for loops of NumPy's.

OpenBLAS hands work to its threads through `exec_blas`, which runs any C function of six arguments, the first five of
which are free. The loops inside NumPy's ufuncs, `loop(arguments, lengths, steps, data)`, are such functions. So arrays
are shared out among the threads that multiply matrices, where no other thread has to wait for a core or for the
interpreter, and nothing has to be compiled: 16 threads begin and end within 5 us, Python's within 181.

One thread runs several loops, one after another, through `sgemm_batch_thread`, which calls a function once for each of
the records in an array, on the thread that calls it if OpenBLAS is told that it has one.

All of that is inside OpenBLAS, so it is used only with the versions that it was tried with (NumPy's wheels of 2.4 and
2.5 have the first and the last of them), with their own threads, on Linux and CPython with its lock; elsewhere Python's
threads share work out (team.py). That lock is held meanwhile, so nobody else changes the number of OpenBLAS's threads.
A process that was forked gets new threads from OpenBLAS at its first call.
"""

import ctypes
import functools
import os
import platform
import re
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core.threads import Blas, blas, get_num_threads
from .jit import machine
from .openblas import alone

__all__ = ["Work", "address", "cut", "dealt", "inner_loop", "is_used", "parts_for"]

MANY = 4  # threads from which on they are worth it
FEW = 4  # threads that make several calls each
SHARE_OF_MANY = 1 << 16  # elements for each of more of them
SHARE = 1 << 12  # elements of a cheap loop that a thread gets at least
_VERSIONS = range(31, 35)  # of OpenBLAS 0.3; another may lay out what stands below otherwise
_MACHINES = ("x86_64", "aarch64")  # the first six whole numbers of a call are in registers there
GRAIN = 64  # elements that stay together, so that vectors of a loop begin where they would in a whole array

# Words of OpenBLAS's blas_queue_t, of which the last ones depend on how it was built, and of its blas_arg_t.
_QUEUE, _ROUTINE, _ARGUMENTS, _FIRST, _SECOND, _THIRD, _FOURTH, _NEXT = 24, 0, 3, 4, 5, 6, 7, 8
_RECORD, _RECORD_A, _RECORD_ALPHA, _RECORD_BETA, _RECORD_M, _RECORD_N, _RECORD_K = 17, 0, 4, 5, 6, 7, 8
_RECORD_ROUTINE, _RECORD_MODE, _SMALL_KERNEL = 15, 16, 0x10000
_NOTHING = 1  # where a pointer is not looked at, but 0 would be filled in


class _UFunc(ctypes.Structure):
    """The beginning of NumPy's PyUFuncObject."""

    _fields_ = (("references", ctypes.c_ssize_t), ("type", ctypes.c_void_p), ("nin", ctypes.c_int),
                ("nout", ctypes.c_int), ("nargs", ctypes.c_int), ("identity", ctypes.c_int),
                ("functions", ctypes.POINTER(ctypes.c_void_p)), ("data", ctypes.POINTER(ctypes.c_void_p)),
                ("ntypes", ctypes.c_int), ("reserved", ctypes.c_int), ("name", ctypes.c_char_p),
                ("types", ctypes.POINTER(ctypes.c_char)))


@functools.cache
def _fields(ufunc: np.ufunc) -> _UFunc | None:
    """Where a ufunc's loops stand; None if it does not look as expected."""
    found = _UFunc.from_address(id(ufunc))
    expected = (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes)
    if found.type != id(type(ufunc)) or (found.nin, found.nout, found.nargs, found.ntypes) != expected:
        return None
    return found if found.name == ufunc.__name__.encode() and found.functions and found.data else None


@functools.cache
def inner_loop(ufunc: np.ufunc, kinds: str) -> tuple[int, int, str] | None:
    """The loop for inputs of these types: its address, the address of its data, and the types of what it makes."""
    found = _fields(ufunc)
    if found is None:
        return None
    for i, signature in enumerate(ufunc.types):
        given, _, made = signature.partition("->")
        if given == kinds:
            loop = found.functions[i]
            return None if not loop else (loop, found.data[i] or _NOTHING, made)
    return None


# the library ---------------------------------------------------------------------------------------------------------


class _Library:
    """What is called of OpenBLAS, and the field with the number of threads that it would multiply on."""

    def __init__(self, found: Blas) -> None:
        library = found.library
        # The interpreter's lock is held: nobody tells OpenBLAS another number of threads before all have begun.
        self.execute = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_void_p)(_address(library, "exec_blas"))
        self.one_by_one = _address(library, "sgemm_batch_thread")
        self.count = ctypes.c_int.in_dll(library, "blas_cpu_number")
        self.change = ctypes.PYFUNCTYPE(None, ctypes.c_int)(found.addresses["set"])
        self.ready = 1  # threads that there are
        self.lock = threading.Lock()  # of what is prepared for a call until it is made

    def started(self, wanted: int) -> int:
        """Has OpenBLAS start as many threads, for good; how many there are, as it has a limit."""
        if wanted > self.ready:
            self.change(wanted)
            self.ready = self.count.value
        return min(wanted, self.ready)


def _address(library: Any, name: str) -> int:
    return ctypes.cast(library[name], ctypes.c_void_p).value or 0


def _is_known(found: Blas) -> bool:
    """Whether it is an OpenBLAS of the versions above, with threads of its own and with kernels for small matrices."""
    library, (prefix, suffix) = found.library, found.form
    names = [f"{prefix}openblas_get_{what}{suffix}" for what in ("config", "corename")]
    if not all(hasattr(library, name) for name in names):
        return False
    asked = [getattr(library, name) for name in names]
    for function in asked:
        function.restype = ctypes.c_char_p
    config, core = (function() or b"" for function in asked)
    version = re.match(rb"OpenBLAS 0\.3\.(\d+)", config)
    if version is None or int(version[1]) not in _VERSIONS or b"USE_OPENMP" in config or b"SINGLE_THREADED" in config:
        return False
    needed = ("exec_blas", "sgemm_batch_thread", "blas_cpu_number")
    kernels = ("", "_" + core.decode().upper(), "_HASWELL", "_SKYLAKEX", "_NEOVERSEN1", "_ARMV8")
    return all(hasattr(library, name) for name in needed) and any(
        hasattr(library, "sgemm_small_kernel_nn" + own) for own in kernels)


@functools.cache
def _library() -> _Library | None:
    found = blas()
    runs_here = (sys.platform == "linux" and sys.implementation.name == "cpython" and sys.maxsize == 2**63 - 1
                 and sys.byteorder == "little" and platform.machine() in _MACHINES
                 and getattr(sys, "_is_gil_enabled", lambda: True)())
    if not runs_here or found is None or not _is_known(found) or not _ndarray_as_expected():
        return None
    if any(_fields(ufunc) is None for ufunc in (np.add, np.exp, np.positive)):
        return None
    return _Library(found)


def _ndarray_as_expected() -> bool:
    array = np.zeros((2, 3), np.float32)[:, 1:]
    return address(array) == array.ctypes.data


def address(array: Any, _at: Any = ctypes.c_int64.from_address) -> int:
    """Where an array's elements begin: the first field of an ndarray, in a third of the time of `array.ctypes`."""
    return _at(id(array) + 16).value


@functools.cache
def is_available() -> bool:
    """Whether there are no compiled kernels, and OpenBLAS's threads can be used instead."""
    return not machine.available() and _library() is not None


def is_used() -> bool:
    """Whether arrays are shared out now: threads enough, and none of team.py's at work."""
    return get_num_threads() >= MANY and not alone.inside and is_available()


def parts_for(elements: int) -> int:
    """How many threads share so many elements of a cheap loop."""
    library = _library()
    assert library is not None
    return max(1, min(library.started(get_num_threads()), elements // SHARE))


def dealt(rows: int, count: int, elements: int = 0) -> list[int]:
    """With which of the rows each part begins.

    Threads that make several calls ask OpenBLAS for memory, one after another, so there are fewer of them unless there
    are many elements.
    """
    if rows > count:
        count = min(count, max(FEW, elements // SHARE_OF_MANY))
    count = min(count, rows)
    return [rows * k // count for k in range(count)]


def cut(length: int, pieces: int) -> np.ndarray:
    """Where pieces of a long loop begin, and where the last one ends."""
    pieces = min(pieces, max(1, length // GRAIN))
    return np.array([length * k // pieces // GRAIN * GRAIN for k in range(pieces)] + [length])


# work ----------------------------------------------------------------------------------------------------------------


class Work:
    """Calls of loops, dealt out to threads: only where the arrays begin is told when they are made.

    `lengths`, `steps` and `places` have a row for each call: how many elements it goes over, how many bytes it goes on
    from one element to the next, in each array, and where it begins in each array. `loop` and its `data` are addresses,
    for all calls or for each, and steps may be one row for all. Those of a part are made in order. Calls
    that write the same elements have to be in one part: `bounds` says with which call each part begins. `multiplies` if
    the loop is of products of matrices: BLAS multiplies on the thread that calls it then. `chosen`, if given, says
    which row of lengths, of steps and of places each call takes.
    """

    def __init__(self, loop: Any, data: Any, lengths: Any, steps: Any, places: np.ndarray, bounds: Sequence[int],
                 multiplies: bool = False, chosen: Sequence[np.ndarray] | None = None) -> None:
        library = _library()
        assert library is not None
        self.library, self.rows, self.count = library, len(places), len(bounds)
        self.last: tuple[int, ...] | None = None  # where the arrays began the last time
        # Whether loops change what tells them where arrays begin; those over matrices do, and some of SciPy's.
        self.moves: bool | None = None
        self.offsets = np.ascontiguousarray(places, np.int64)
        self.pointers = np.empty_like(self.offsets)
        self.bases = (ctypes.c_int64 * places.shape[1])()
        self.base_array = np.frombuffer(self.bases, np.int64)
        given = [*[np.ascontiguousarray(x, np.int64) for x in (lengths, steps)], self.pointers]
        self.kept: list[Any] = [*given]
        rows = [np.arange(self.rows)] * 3 if chosen is None else chosen
        counted, stepped, arguments = (address(x) + (of * (x.shape[1] * 8) if x.ndim > 1 else 0)
                                       for x, of in zip(given, rows, strict=True))
        queue = np.zeros((self.count, _QUEUE), np.int64)
        queue[:-1, _NEXT] = address(queue) + (np.arange(self.count - 1) + 1) * (8 * _QUEUE)
        queue[:, _THIRD] = queue[:, _FOURTH] = _NOTHING
        single = self.rows == self.count
        if single:
            queue[:, _ROUTINE], queue[:, _ARGUMENTS], queue[:, _FIRST] = loop, arguments, counted
            queue[:, _SECOND], queue[:, _THIRD] = stepped, data
        else:
            records, one = np.zeros((self.rows, _RECORD), np.int64), np.ones(2)
            records[:, _RECORD_ALPHA] = records[:, _RECORD_BETA] = address(one)
            records[:, _RECORD_M], records[:, _RECORD_N] = arguments, counted
            records[:, _RECORD_K], records[:, _RECORD_A] = stepped, data
            records[:, _RECORD_ROUTINE], records[:, _RECORD_MODE] = loop, _SMALL_KERNEL
            queue[:, _ROUTINE] = library.one_by_one
            queue[:, _ARGUMENTS] = address(records) + np.asarray(bounds) * (8 * _RECORD)
            queue[:, _FIRST] = np.diff([*bounds, self.rows])
            self.kept += [records, one]
        self.kept.append(queue)
        self.queue, self.is_alone = address(queue), multiplies or not single

    def run(self, *addresses: int) -> bool:
        """Makes the calls, over arrays that begin there; False if another Python thread is about to make some."""
        lock = self.library.lock
        if not lock.acquire(False):
            return False
        try:
            if addresses != self.last:  # else they lie as before, and threads have read where
                self.last = None
                self.bases[:] = addresses
                np.add(self.offsets, self.base_array, self.pointers)
                if self.moves is False:
                    self.last = addresses
            self.execute_as_told()
            if self.moves is None:
                self.moves = bool((self.pointers != self.offsets + self.base_array).any())
        finally:
            lock.release()
        return True

    def execute(self, bases: np.ndarray) -> None:
        """Makes the calls over arrays that begin there, in a row for each call; the lock is held."""
        self.last = None
        np.add(self.offsets, bases, self.pointers)
        self.execute_as_told()

    def execute_as_told(self) -> None:
        """Makes the calls, over arrays that begin where `pointers` says; the lock is held."""
        library = self.library
        if not self.is_alone:
            library.execute(self.count, self.queue)
            return
        count = library.count
        threads = count.value
        try:
            count.value = 1
            library.execute(self.count, self.queue)
        finally:
            count.value = threads


def _after_fork() -> None:
    library = _library() if _library.cache_info().currsize else None
    if library is not None:
        library.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
