"""libgomp, the OpenMP library that starts threads for oneDNN and for compiled kernels."""

import contextlib
import ctypes
import functools
import glob
import os
import re
import sys
from collections.abc import Iterator

from ..._core.threads import blas, count

__all__ = ["library", "waiting_briefly"]

_SPINS = "GOMP_SPINCOUNT"
_MANY = 8  # cores


@contextlib.contextmanager
def waiting_briefly() -> Iterator[None]:
    """Lets an OpenMP that is loaded inside wait for work by spinning shortly only, unless the user chose.

    It looks when it is loaded. By itself it spins for milliseconds, which on a machine that has other work, too, makes
    its own threads wait for a core: steps took four times as long. A good part of one bridges what Python does between
    two kernels. On many cores it is left to spin: threads that slept are often put onto one core together when they are
    woken, in virtual machines above all, and the others wait for them. Where OpenBLAS multiplies on threads of its own,
    it needs the cores at once.
    """
    from .jit.machine import available

    shared = available() and blas() is not None  # kernels and products use the same threads
    if _SPINS in os.environ or "OMP_WAIT_POLICY" in os.environ or shared and count().value >= _MANY:
        yield
        return
    os.environ[_SPINS] = "10000" if shared else "1000"
    try:
        yield
    finally:
        os.environ.pop(_SPINS, None)  # another thread that loaded at the same time may have taken it away


def _places() -> Iterator[str]:
    """Where the library may be: in this process already, known to the loader, or inside somebody's wheel."""
    try:
        with open("/proc/self/maps") as maps:
            yield from sorted(set(re.findall(r"/\S*libgomp\S*\.so\S*", maps.read())))
    except OSError:
        return  # not Linux: there is none
    yield "libgomp.so.1"
    for folder in sys.path:
        yield from sorted(glob.glob(os.path.join(glob.escape(folder), "*.libs", "libgomp*.so*")))


@functools.cache
def library() -> ctypes.CDLL | None:
    """The library; None where there is none."""
    for path in _places():
        try:
            with waiting_briefly():
                return ctypes.CDLL(path)
        except OSError:
            continue
    return None
