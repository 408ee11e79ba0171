"""What runs compiled kernels on several threads: libgomp, or threads of its own where there is none.

Compiled code sees four names:

    mindtorch_threads: int64                                        how many threads a kernel may use
    mindtorch_parallel(void (*body)(void *), void *data, int32 n)   runs body(data) on up to n threads, then returns
    int32 mindtorch_thread_num(), int32 mindtorch_team()            inside a body: which thread it is, of how many

and, for what has to be done around a team's work, `mindtorch_parallel` in three parts: begin, run, end.

The team may be smaller than what was asked for: a body shares its work out by what `mindtorch_team` says. Bodies do not
nest, and call nothing of Python.

A second Python thread that comes while a team is at work does its work alone instead of starting as many threads again.
A forked process has none of the threads that libgomp counts on and would wait for them for ever, so it uses its own.
"""

import ctypes
import functools
import os

from ...._core.native import forever
from ...._core.threads import count
from .. import openmp

__all__ = ["FUNCTIONS", "cells", "runtime_ir"]

_IN_PARTS = ("mindtorch_begin", "mindtorch_run", "mindtorch_end")
FUNCTIONS = ("mindtorch_parallel", "mindtorch_thread_num", "mindtorch_team", *_IN_PARTS)
_MOST = 256  # threads of a team


class _State(ctypes.Structure):
    """What the functions below share; `%State` in their IR."""

    _fields_ = (
        ("openmp", ctypes.c_void_p * 3),  # GOMP_parallel, omp_get_thread_num, omp_get_num_threads; or nothing
        ("place", ctypes.c_int64 * 2),  # Py_tss_t: each thread's number + 65536 times the size of its team
        ("busy", ctypes.c_int64),  # 1 while a team is at work
        ("workers", ctypes.c_int64),  # own threads that were started
        ("body", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("team", ctypes.c_int64),
        ("go", ctypes.c_void_p * _MOST),  # a lock for each own thread: free when there is work for it
        ("done", ctypes.c_void_p * _MOST),  # likewise: free when it has done it
    )


# Own threads use the locks of Python's C API, which every platform has and which do not need the interpreter.
_IR = f"""
%State = type {{ [3 x ptr], [2 x i64], i64, i64, ptr, ptr, i64, [{_MOST} x ptr], [{_MOST} x ptr] }}
@mindtorch_state = external global %State
@mindtorch_threads = external global i64
declare ptr @PyThread_allocate_lock()
declare i32 @PyThread_acquire_lock(ptr, i32)
declare void @PyThread_release_lock(ptr)
declare i64 @PyThread_start_new_thread(ptr, ptr)
declare ptr @PyThread_tss_get(ptr)
declare i32 @PyThread_tss_set(ptr, ptr)

define internal void @settle(i64 %number, i64 %team) {{
  %high = shl i64 %team, 16
  %both = or i64 %high, %number
  %value = inttoptr i64 %both to ptr
  call i32 @PyThread_tss_set(ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 1), ptr %value)
  ret void
}}

define internal ptr @new_lock() {{
  %lock = call ptr @PyThread_allocate_lock()
  %none = icmp eq ptr %lock, null
  br i1 %none, label %end, label %made
made:
  call i32 @PyThread_acquire_lock(ptr %lock, i32 1)
  br label %end
end:
  ret ptr %lock
}}

define internal void @worker(ptr %argument) {{
  %number = ptrtoint ptr %argument to i64
  %go_place = getelementptr %State, ptr @mindtorch_state, i32 0, i32 7, i64 %number
  %done_place = getelementptr %State, ptr @mindtorch_state, i32 0, i32 8, i64 %number
  %go = load ptr, ptr %go_place
  %done = load ptr, ptr %done_place
  br label %next
next:
  call i32 @PyThread_acquire_lock(ptr %go, i32 1)
  %team = load i64, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 6)
  call void @settle(i64 %number, i64 %team)
  %body = load ptr, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 4)
  %data = load ptr, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 5)
  call void %body(ptr %data)
  call void @PyThread_release_lock(ptr %done)
  br label %next
}}

; As many threads as there are, up to n - 1, after those that are missing were started.
define internal i64 @workers(i64 %n) {{
entry:
  %place = getelementptr %State, ptr @mindtorch_state, i32 0, i32 3
  br label %ask
ask:
  %have = load i64, ptr %place
  %number = add i64 %have, 1
  %enough = icmp sge i64 %number, %n
  br i1 %enough, label %end, label %start
start:
  %go = call ptr @new_lock()
  %done = call ptr @new_lock()
  %no_go = icmp eq ptr %go, null
  %no_done = icmp eq ptr %done, null
  %no_memory = or i1 %no_go, %no_done
  br i1 %no_memory, label %end, label %locked
locked:
  %go_place = getelementptr %State, ptr @mindtorch_state, i32 0, i32 7, i64 %number
  %done_place = getelementptr %State, ptr @mindtorch_state, i32 0, i32 8, i64 %number
  store ptr %go, ptr %go_place
  store ptr %done, ptr %done_place
  %argument = inttoptr i64 %number to ptr
  %thread = call i64 @PyThread_start_new_thread(ptr @worker, ptr %argument)
  %failed = icmp eq i64 %thread, -1
  br i1 %failed, label %end, label %started
started:
  store i64 %number, ptr %place
  br label %ask
end:
  %last = sub i64 %n, 1
  %least = call i64 @llvm.smin.i64(i64 %have, i64 %last)
  ret i64 %least
}}
declare i64 @llvm.smin.i64(i64, i64)

define internal void @on_own_threads(ptr %body, ptr %data, i64 %n) {{
entry:
  %most = call i64 @llvm.smin.i64(i64 %n, i64 {_MOST})
  %others = call i64 @workers(i64 %most)
  %team = add i64 %others, 1
  store ptr %body, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 4)
  store ptr %data, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 5)
  store i64 %team, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 6)
  br label %wake
wake:
  %i = phi i64 [1, %entry], [%i1, %wake_one]
  %awake = icmp sgt i64 %i, %others
  br i1 %awake, label %share, label %wake_one
wake_one:
  %go_place = getelementptr %State, ptr @mindtorch_state, i32 0, i32 7, i64 %i
  %go = load ptr, ptr %go_place
  call void @PyThread_release_lock(ptr %go)
  %i1 = add i64 %i, 1
  br label %wake
share:
  call void @settle(i64 0, i64 %team)
  call void %body(ptr %data)
  call void @settle(i64 0, i64 0)
  br label %wait
wait:
  %j = phi i64 [1, %share], [%j1, %wait_one]
  %ready = icmp sgt i64 %j, %others
  br i1 %ready, label %end, label %wait_one
wait_one:
  %done_place = getelementptr %State, ptr @mindtorch_state, i32 0, i32 8, i64 %j
  %done = load ptr, ptr %done_place
  call i32 @PyThread_acquire_lock(ptr %done, i32 1)
  %j1 = add i64 %j, 1
  br label %wait
end:
  ret void
}}

; How many threads may work together from now on until mindtorch_end: n, or 1 (and no end) while others do.
define i32 @mindtorch_begin(i32 %n) {{
  %several = icmp sgt i32 %n, 1
  br i1 %several, label %ask, label %alone
ask:
  %exchange = cmpxchg ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 2), i64 0, i64 1 acquire monotonic
  %free = extractvalue {{i64, i1}} %exchange, 1
  br i1 %free, label %together, label %alone
together:
  ret i32 %n
alone:
  ret i32 1
}}

define void @mindtorch_end() {{
  store atomic i64 0, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 2) release, align 8
  ret void
}}

; libgomp ends the threads that a smaller team does not need, and starts others for the next larger one. So all of them
; come each time, and those that are too many have nothing to do.
define internal void @member(ptr %nothing) {{
  %number = call i32 @mindtorch_thread_num()
  %team = call i32 @mindtorch_team()
  %needed = icmp slt i32 %number, %team
  br i1 %needed, label %work, label %end
work:
  %body = load ptr, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 4)
  %data = load ptr, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 5)
  call void %body(ptr %data)
  ret void
end:
  ret void
}}

; Between begin and end.
define void @mindtorch_run(ptr %body, ptr %data, i32 %n) {{
  %gomp = load ptr, ptr @mindtorch_state
  %missing = icmp eq ptr %gomp, null
  br i1 %missing, label %own, label %openmp
openmp:
  store ptr %body, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 4)
  store ptr %data, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 5)
  %team = zext i32 %n to i64
  store i64 %team, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 6)
  %most = load i64, ptr @mindtorch_threads
  %all = call i64 @llvm.smax.i64(i64 %most, i64 %team)
  %threads = trunc i64 %all to i32
  call void %gomp(ptr @member, ptr null, i32 %threads, i32 0)
  ret void
own:
  %number = zext i32 %n to i64
  call void @on_own_threads(ptr %body, ptr %data, i64 %number)
  ret void
}}

define void @mindtorch_parallel(ptr %body, ptr %data, i32 %n) {{
  %team = call i32 @mindtorch_begin(i32 %n)
  %several = icmp sgt i32 %team, 1
  br i1 %several, label %together, label %alone
together:
  call void @mindtorch_run(ptr %body, ptr %data, i32 %team)
  call void @mindtorch_end()
  ret void
alone:
  call void %body(ptr %data)
  ret void
}}

define i32 @mindtorch_thread_num() {{
  %ask = load ptr, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 0, i32 1)
  %missing = icmp eq ptr %ask, null
  br i1 %missing, label %own, label %openmp
openmp:
  %number = call i32 %ask()
  ret i32 %number
own:
  %value = call ptr @PyThread_tss_get(ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 1))
  %both = ptrtoint ptr %value to i32
  %low = and i32 %both, 65535
  ret i32 %low
}}

define i32 @mindtorch_team() {{
  %ask = load ptr, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 0, i32 2)
  %missing = icmp eq ptr %ask, null
  br i1 %missing, label %own, label %openmp
openmp:
  %there = call i32 %ask()
  %alone = icmp sle i32 %there, 1
  %wanted = load i64, ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 6)
  %number = trunc i64 %wanted to i32
  %fewer = call i32 @llvm.smin.i32(i32 %there, i32 %number)
  %size = select i1 %alone, i32 1, i32 %fewer
  ret i32 %size
own:
  %value = call ptr @PyThread_tss_get(ptr getelementptr (%State, ptr @mindtorch_state, i32 0, i32 1))
  %both = ptrtoint ptr %value to i32
  %high = lshr i32 %both, 16
  %team = call i32 @llvm.umax.i32(i32 %high, i32 1)
  ret i32 %team
}}
declare i32 @llvm.umax.i32(i32, i32)
declare i32 @llvm.smin.i32(i32, i32)
declare i64 @llvm.smax.i64(i64, i64)
"""


def runtime_ir() -> str:
    """The functions that kernels call, as IR."""
    return _IR


@functools.cache
def _state() -> _State:
    state = forever(_State())
    create = ctypes.pythonapi.PyThread_tss_create
    create.argtypes = [ctypes.c_void_p]
    create(ctypes.addressof(state) + _State.place.offset)
    library = None if _forked else openmp.library()
    if library is not None:
        for index, name in enumerate(("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")):
            state.openmp[index] = ctypes.cast(library[name], ctypes.c_void_p).value
    return state


def cells() -> dict[str, int]:
    """The addresses of what lies outside of compiled code."""
    return {"mindtorch_threads": ctypes.addressof(count()), "mindtorch_state": ctypes.addressof(_state())}


_forked = False


def _after_fork() -> None:
    """Forgets the threads, which the child does not have."""
    global _forked
    _forked = True
    if _state.cache_info().currsize:
        state = _state()
        state.openmp[:] = (None, None, None)
        state.busy = state.workers = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
