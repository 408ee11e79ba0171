"""Small pieces of LLVM IR, and programs of their own that run them."""

import os
import subprocess
import sys
from pathlib import Path

import mindtorch_v2

SOURCE = str(Path(mindtorch_v2.__file__).parent.parent)

# constant() is its number; team() is the size of the team, each of whose threads was counted once, and team(None, None)
# that of a team of two less.
CONSTANT = """
declare ptr @PyLong_FromLongLong(i64)
define ptr @constant(ptr %self, ptr %args, i64 %count) {{
  %result = call ptr @PyLong_FromLongLong(i64 {number})
  ret ptr %result
}}
"""
TEAM = """
%Data = type { i64, i64, [256 x i64] }
@mindtorch_threads = external global i64
declare void @mindtorch_parallel(ptr, ptr, i32)
declare i32 @mindtorch_thread_num()
declare i32 @mindtorch_team()
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @usleep(i32)

define internal void @body(ptr %data) {
  %number = call i32 @mindtorch_thread_num()
  %team = call i32 @mindtorch_team()
  %place = getelementptr %Data, ptr %data, i32 0, i32 2, i32 %number
  %before = atomicrmw add ptr %place, i64 1 seq_cst
  %sum = atomicrmw add ptr %data, i64 1 seq_cst
  %size = zext i32 %team to i64
  %sizes = getelementptr %Data, ptr %data, i32 0, i32 1
  store atomic i64 %size, ptr %sizes seq_cst, align 8
  %slept = call i32 @usleep(i32 2000)
  ret void
}

; The size of the team, or a negative number: how many threads came, where not every one came once.
define ptr @team(ptr %self, ptr %args, i64 %count) {
entry:
  %data = alloca %Data, align 64
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 2064, i1 false)
  %all = load i64, ptr @mindtorch_threads
  %threads = sub i64 %all, %count
  %n = trunc i64 %threads to i32
  %state = call ptr @PyEval_SaveThread()
  call void @mindtorch_parallel(ptr @body, ptr %data, i32 %n)
  call void @PyEval_RestoreThread(ptr %state)
  %sum = load i64, ptr %data
  %sizes = getelementptr %Data, ptr %data, i32 0, i32 1
  %size = load i64, ptr %sizes
  br label %next
next:
  %i = phi i64 [0, %entry], [%i1, %look]
  %end = icmp sge i64 %i, %size
  br i1 %end, label %fine, label %look
look:
  %place = getelementptr %Data, ptr %data, i32 0, i32 2, i64 %i
  %came = load i64, ptr %place
  %once = icmp eq i64 %came, 1
  %i1 = add i64 %i, 1
  br i1 %once, label %next, label %wrong
fine:
  %equal = icmp eq i64 %sum, %size
  br i1 %equal, label %right, label %wrong
right:
  %result = call ptr @PyLong_FromLongLong(i64 %size)
  ret ptr %result
wrong:
  %negative = sub i64 0, %sum
  %report = call ptr @PyLong_FromLongLong(i64 %negative)
  ret ptr %report
}
"""
_BEGIN = f"""
import os, sys
import mindtorch_v2 as torch
from mindtorch_v2._backends.cpu import openmp
from mindtorch_v2._backends.cpu.jit import machine
from mindtorch_v2._core import disk_cache as cache
TEAM, CONSTANT = {TEAM!r}, {CONSTANT!r}
def constant(number):
    ir = CONSTANT.format(number=number)
    return machine.callable_from(machine.load(ir, ["constant"])["constant"], "constant")()
def slow(number):  # IR that takes a good part of a second to compile
    lines = [f"%v{{i + 1}} = call double @llvm.fma.f64(double %v{{i}}, double %x, double {{i}}.0)" for i in range(1000)]
    return (f"declare double @llvm.fma.f64(double, double, double)\\n"
            f"define double @slow(double %x) {{{{\\n%v0 = fadd double %x, {{number}}.0\\n"
            + "\\n".join(lines) + "\\nret double %v1000\\n}}")
def team():
    return machine.callable_from(machine.load(TEAM, ["team"])["team"], "team")
"""


def started(program: str, cache: Path, **variables: str) -> subprocess.Popen:
    """A program of its own, with a folder for machine code, under way."""
    variables = {"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"], "MINDTORCH_CACHE": str(cache), **variables}
    # From Python 3.12 on a process that forks while it has threads is warned of it: what these programs are about.
    quiet = ("-W", "ignore:This process:DeprecationWarning")
    return subprocess.Popen([sys.executable, *quiet, "-c", _BEGIN + program], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env=variables)


def printed(program: str | subprocess.Popen, cache: Path | None = None, **variables: str) -> str:
    """What a program of its own prints; it must end, and not by a signal, and complain of nothing."""
    if isinstance(program, str):
        assert cache is not None
        program = started(program, cache, **variables)
    try:
        out, errors = program.communicate(timeout=120)
    finally:
        program.kill()
    assert program.returncode == 0 and not errors, errors
    return out
