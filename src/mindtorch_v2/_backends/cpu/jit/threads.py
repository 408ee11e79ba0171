"""How many threads compiled kernels use, and what starts them: libgomp, called by address.

Compiled code sees four names:

    mindtorch_threads: int64                                        how many threads a kernel may use
    mindtorch_parallel(void (*body)(void *), void *data, int32 n)   runs body(data) on up to n threads, then returns
    int32 mindtorch_thread_num(), int32 mindtorch_team()            inside a body: which thread it is, of how many

The team may be smaller than what was asked for: a body shares its work out by what `mindtorch_team` says. Bodies do not
nest. Where libgomp is missing, the team is one.
"""

import ctypes
import functools
import os

__all__ = ["FUNCTIONS", "cells", "runtime_ir", "set_threads"]

FUNCTIONS = ("mindtorch_parallel", "mindtorch_thread_num", "mindtorch_team")

_count = ctypes.c_int64(1)
# 0, or 1 while a team is at work: a second Python thread then does its work alone instead of starting as many again.
_busy = ctypes.c_int64(0)
_started = ctypes.c_int64(0)  # 1 once libgomp has threads, which a forked child does not have

_SERIAL = """
define void @mindtorch_parallel(ptr %body, ptr %data, i32 %n) {
  call void %body(ptr %data)
  ret void
}
define i32 @mindtorch_thread_num() {
  ret i32 0
}
define i32 @mindtorch_team() {
  ret i32 1
}
"""

_GOMP = """
@mindtorch_busy = external global i64
@mindtorch_started = external global i64
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
define void @mindtorch_parallel(ptr %body, ptr %data, i32 %n) {
  %several = icmp sgt i32 %n, 1
  br i1 %several, label %ask, label %alone
ask:
  %pair = cmpxchg ptr @mindtorch_busy, i64 0, i64 1 acquire monotonic
  %free = extractvalue {i64, i1} %pair, 1
  br i1 %free, label %team, label %alone
team:
  store i64 1, ptr @mindtorch_started
  call void @GOMP_parallel(ptr %body, ptr %data, i32 %n, i32 0)
  store atomic i64 0, ptr @mindtorch_busy release, align 8
  ret void
alone:
  call void %body(ptr %data)
  ret void
}
define i32 @mindtorch_thread_num() {
  %number = call i32 @omp_get_thread_num()
  ret i32 %number
}
define i32 @mindtorch_team() {
  %size = call i32 @omp_get_num_threads()
  ret i32 %size
}
"""


def set_threads(number: int) -> None:
    """From now on kernels use at most so many threads."""
    _count.value = number


@functools.cache
def _library() -> ctypes.CDLL | None:
    """libgomp, where it is installed."""
    try:
        return ctypes.CDLL("libgomp.so.1")
    except OSError:
        return None


def runtime_ir() -> str:
    """The functions that kernels call, as IR."""
    return _SERIAL if _library() is None else _GOMP


def cells() -> dict[str, int]:
    """The addresses of what lies outside of compiled code."""
    found = {
        "mindtorch_threads": ctypes.addressof(_count),
        "mindtorch_busy": ctypes.addressof(_busy),
        "mindtorch_started": ctypes.addressof(_started),
    }
    library = _library()
    if library is not None:
        for name in ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads"):
            found[name] = ctypes.cast(library[name], ctypes.c_void_p).value or 0
    return found


def _after_fork() -> None:
    """The child has none of the threads: where there were some, its kernels start no others."""
    _busy.value = _started.value


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
_count.value = int(os.environ.get("OMP_NUM_THREADS") or 0) or os.cpu_count() or 1
