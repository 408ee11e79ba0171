"""How many threads operators use: compiled kernels read the number; OpenBLAS is told, NumPy's and SciPy's own one.

oneDNN, where it is used, follows.
"""

import ctypes
import functools
import math
import numbers
import operator
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .native import forever
from .planning import forget_plans

__all__ = ["get_num_interop_threads", "get_num_threads", "set_num_interop_threads", "set_num_threads"]

_interop = [0]
_chosen = [0]
_count = forever(ctypes.c_int64(0))  # where compiled kernels read the number; 0 until somebody asks


# how many there are --------------------------------------------------------------------------------------------------


def _text(path: str) -> str:
    """What a file of the system says; nothing where there is none."""
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _cores() -> int:
    """How many cores this process may run on; two threads of one core count once."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    topology = (_text(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list") for number in allowed)
    return len({siblings or str(number) for number, siblings in zip(allowed, topology)})


def _quotas() -> Iterator[str]:
    """Time and period, in microseconds, of the groups that this process is in, in both forms that Linux has."""
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = f"/sys/fs/cgroup/{controllers}" if controllers else "/sys/fs/cgroup"
        while True:
            if controllers:
                yield f"{_text(f'{root}{group}/cpu.cfs_quota_us')} {_text(f'{root}{group}/cpu.cfs_period_us')}"
            else:
                yield _text(f"{root}{group}/cpu.max")
            if group in ("", "/"):
                break
            group = os.path.dirname(group)


def _limit() -> int | None:
    """How many cores the groups of this process (containers) let it use; None without such a limit."""
    limits = []
    for quota in _quotas():
        numbers = re.fullmatch(r"(\d+) (\d+)", quota)
        if numbers is not None and int(numbers[2]):
            limits.append(max(1, math.ceil(int(numbers[1]) / int(numbers[2]))))
    return min(limits, default=None)


def _default() -> int:
    """As many threads as there are cores, or fewer where the environment says so, which PyTorch reads in this order."""
    cores = min(_cores(), _limit() or 2**31)
    for variable in ("MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        wanted = re.match(r"\s*(\d+)", os.environ.get(variable, ""))
        if wanted is not None and int(wanted[1]):
            return min(int(wanted[1]), cores)
    return cores


def count() -> ctypes.c_int64:
    """The cell with the number of threads, for compiled kernels."""
    if not _count.value:
        _count.value = _default()
    return _count


# the libraries -------------------------------------------------------------------------------------------------------


_FUNCTIONS = ("sgemm", "dgemm", "sgemv", "dgemv", "sger", "dger")
_FORMS = (("scipy_", "64_"), ("", "64_"), ("", ""), ("scipy_", ""))  # what surrounds the names of OpenBLAS's functions


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
    for prefix, suffix in _FORMS:
        tell = getattr(library, f"{prefix}openblas_get_num_threads{suffix}", None)
        change = getattr(library, f"{prefix}openblas_set_num_threads{suffix}", None)
        if tell is not None and change is not None:
            return tell, change
    return None


class Blas(NamedTuple):
    """NumPy's OpenBLAS: the addresses of its functions, the width of its integers, and what finds other functions."""

    addresses: dict[str, int]
    integers: int
    library: Any
    form: tuple[str, str]  # what surrounds the names of its functions


@functools.cache
def blas() -> Blas | None:
    """What is called of the library that NumPy uses; None where it is another than OpenBLAS."""
    for path in _loaded()[:1]:
        library = ctypes.CDLL(path)
        for prefix, suffix in _FORMS:
            names = {name: f"{prefix}cblas_{name}{suffix}" for name in _FUNCTIONS}
            names |= {name: f"{prefix}openblas_{name}_num_threads{suffix}" for name in ("get", "set")}
            if all(hasattr(library, name) for name in names.values()):
                found = {name: ctypes.cast(library[there], ctypes.c_void_p).value or 0 for name, there in names.items()}
                return Blas(found, 64 if suffix else 32, library, (prefix, suffix))
    return None


def get_num_threads() -> int:
    return count().value


def set_num_threads(num: int) -> None:
    if not isinstance(num, numbers.Integral) or isinstance(num, bool):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(num).__name__}")
    num = operator.index(num)
    if num <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    if num >= 2**31:
        raise ValueError("Overflow when unpacking long")
    _chosen[0] = _count.value = num
    forget_plans()  # which may hold into how many parts work is cut
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
    if not isinstance(num, int):
        raise RuntimeError(f"set_num_interop_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _interop[0] = num
