"""How the C library hands out memory for arrays."""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt


def keep_freed_memory(kept: int = 512 << 20, largest: int = 32 << 20) -> None:
    """Lets glibc keep up to `kept` bytes that arrays gave back, for arrays up to `largest` bytes.

    By default it returns them to the system, and each large result then pays for fresh pages: several times what
    computing it takes. Other C libraries are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, largest)
        mallopt(_TRIM_THRESHOLD, kept)
