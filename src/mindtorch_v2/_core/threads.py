"""How many threads matrix products use: OpenBLAS is asked and told, NumPy's and SciPy's, which has one of its own.

oneDNN, where it is used, follows.
"""

import ctypes
import functools
import operator
import os
import re
from typing import Any

__all__ = ["get_num_interop_threads", "get_num_threads", "set_num_interop_threads", "set_num_threads"]

_interop = [0]
_chosen = [0]


def _loaded() -> list[str]:
    """The OpenBLAS libraries of this process, NumPy's first; none where it uses another library."""
    try:
        with open("/proc/self/maps") as maps:
            paths = set(re.findall(r"/\S*openblas\S*\.so\S*", maps.read()))
    except OSError:
        return []
    return sorted(paths, key=lambda path: ("numpy" not in path, path))


@functools.cache
def _functions(path: str) -> tuple[Any, Any] | None:
    """A library's functions that tell and set its number of threads."""
    library = ctypes.CDLL(path)
    for prefix, suffix in (("scipy_", "64_"), ("", "64_"), ("", ""), ("scipy_", "")):
        tell = getattr(library, f"{prefix}openblas_get_num_threads{suffix}", None)
        change = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
        if tell is not None and change is not None:
            return tell, change
    return None


@functools.cache
def _numpys() -> tuple[Any, Any] | None:
    """The functions of the library that NumPy uses."""
    paths = _loaded()
    return _functions(paths[0]) if paths else None


def get_num_threads() -> int:
    functions = _numpys()
    return _chosen[0] or os.cpu_count() or 1 if functions is None else functions[0]()


def set_num_threads(num: int) -> None:
    if not hasattr(num, "__index__") or isinstance(num, bool):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(num).__name__}")
    num = operator.index(num)
    if num <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    if num >= 2**31:
        raise ValueError("Overflow when unpacking long")
    _chosen[0] = num
    limit_libraries()


def limit_libraries() -> None:
    """Tells every library of the number that was chosen, if one was; those that were just loaded do not know it."""
    for path in _loaded() if _chosen[0] else ():
        functions = _functions(path)
        if functions is not None:
            functions[1](ctypes.c_int(_chosen[0]))


def get_num_interop_threads() -> int:
    return _interop[0] or os.cpu_count() or 1


def set_num_interop_threads(num: int) -> None:
    """Operators run one after another: the number is kept and nothing else."""
    if num <= 0:
        raise RuntimeError("Expected positive number of threads")
    _interop[0] = num
