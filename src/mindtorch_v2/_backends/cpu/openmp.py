"""libgomp, the OpenMP library that starts threads for oneDNN and for compiled kernels."""

import contextlib
import ctypes
import functools
import glob
import os
import re
import sys
from collections.abc import Iterator

from ..._core.threads import blas

__all__ = ["library", "waiting_briefly"]

_SPINS = "GOMP_SPINCOUNT"


@contextlib.contextmanager
def waiting_briefly() -> Iterator[None]:
    """Lets an OpenMP that is loaded inside wait for work by spinning shortly only, unless the user chose.

    Its threads would otherwise keep cores from those of OpenBLAS for milliseconds, where OpenBLAS has its own: compiled
    kernels share theirs with it. It looks when it is loaded.
    """
    from .jit.machine import available

    if _SPINS in os.environ or "OMP_WAIT_POLICY" in os.environ or available() and blas() is not None:
        yield
        return
    os.environ[_SPINS] = "1000"
    try:
        yield
    finally:
        del os.environ[_SPINS]


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
