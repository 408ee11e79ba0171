"""How many threads matrix products use: OpenBLAS is asked and told, through the library that NumPy loaded.

oneDNN, where it is used, follows.
"""

import ctypes
import functools
import os
import re
from typing import Any

__all__ = ["get_num_interop_threads", "get_num_threads", "set_num_interop_threads", "set_num_threads"]

_interop = [0]
_chosen = [0]


@functools.cache
def _openblas() -> tuple[Any, Any] | None:
    """OpenBLAS's functions that tell and set the number of threads; None where NumPy uses another library."""
    try:
        with open("/proc/self/maps") as maps:
            paths = sorted(set(re.findall(r"/\S*openblas\S*\.so\S*", maps.read())))
    except OSError:
        return None
    for path in paths:
        library = ctypes.CDLL(path)
        for prefix, suffix in (("scipy_", "64_"), ("", "64_"), ("", ""), ("scipy_", "")):
            tell = getattr(library, f"{prefix}openblas_get_num_threads{suffix}", None)
            change = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
            if tell is not None and change is not None:
                return tell, change
    return None


def get_num_threads() -> int:
    functions = _openblas()
    return _chosen[0] or os.cpu_count() or 1 if functions is None else functions[0]()


def set_num_threads(num: int) -> None:
    if not isinstance(num, int) or isinstance(num, bool):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    _chosen[0] = num
    functions = _openblas()
    if functions is not None:
        functions[1](ctypes.c_int(num))


def get_num_interop_threads() -> int:
    return _interop[0] or os.cpu_count() or 1


def set_num_interop_threads(num: int) -> None:
    """Operators run one after another: the number is kept and nothing else."""
    if num <= 0:
        raise RuntimeError("Expected positive number of threads")
    _interop[0] = num
