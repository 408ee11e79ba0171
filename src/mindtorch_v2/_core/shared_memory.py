"""Memory that several processes map: an anonymous file, or a named one where the strategy is `file_system`."""

import ctypes
import functools
import itertools
import mmap
import os
import sys
import tempfile
import weakref
from typing import Any

import numpy as np

STRATEGIES = frozenset(("file_descriptor", "file_system") if sys.platform == "linux" else ("file_system",))
strategy = ["file_descriptor" if sys.platform == "linux" else "file_system"]
_FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
_numbers = itertools.count()


@functools.cache
def _libc() -> Any:
    """The C library: Python's own mmap would keep a file descriptor open for each mapping."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_longlong]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


class SharedMemory:
    """A mapped file. `descriptor` or `path` says how to send it; without either it stays between those who have it."""

    def __init__(self, file: int, nbytes: int, descriptor: int = -1, path: str = "") -> None:
        address = _libc().mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, 0)
        if address == ctypes.c_void_p(-1).value:
            number = ctypes.get_errno()
            raise RuntimeError(f"unable to mmap {nbytes} bytes of shared memory: {os.strerror(number)} ({number})")
        self.nbytes, self.descriptor, self.path = nbytes, descriptor, path
        self.__array_interface__ = {"data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}
        # Not at exit: something may still read the memory then, and the system takes it back anyway.
        weakref.finalize(self, _unmap, address, nbytes, descriptor).atexit = False
        if path:
            weakref.finalize(self, _unlink, path, os.getpid())

    def array(self) -> np.ndarray:
        """The bytes; the memory lives as long as an array on it."""
        return np.asarray(self)


def _unmap(address: int, nbytes: int, descriptor: int) -> None:
    _libc().munmap(address, nbytes)
    if descriptor >= 0:
        os.close(descriptor)


def _unlink(path: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child leaves its parent's name alone
        os.unlink(path)


def new_path() -> str:
    """A name for a file that no other process uses."""
    return os.path.join(_FOLDER, f"torch_{os.getpid()}_{next(_numbers)}")


def anonymous_file() -> int:
    """The descriptor of an empty file that is gone when nobody has it open or mapped."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("torch")
    file, path = tempfile.mkstemp(dir=_FOLDER)
    os.unlink(path)
    return file


def allocate(nbytes: int) -> SharedMemory:
    """Zeroed memory that can be sent to other processes in the way that the strategy says."""
    if strategy[0] == "file_system":
        path = new_path()
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.truncate(file, nbytes)
            return SharedMemory(file, nbytes, path=path)
        finally:
            os.close(file)
    file = anonymous_file()
    os.truncate(file, nbytes)
    return SharedMemory(file, nbytes, descriptor=file)


def memory_under(array: Any) -> Any:
    """What owns an array's bytes: a SharedMemory, a mmap, some other exporter, or None."""
    while isinstance(array, (np.ndarray, memoryview)):
        array = array.base if isinstance(array, np.ndarray) else array.obj
    return array
