"""A kernel queued by one call: machine code takes the values out of Python's objects and calls the driver.

Without a compiler (llvmlite), or for more values than it has room for, ctypes does the same and takes several times as
long. The values of a call are 8 bytes wide; its other arguments are structs that never change.
"""

import ctypes
import functools
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ..cpu.jit import machine

_VALUES, _STRUCTS = 64, 64  # at most, of a kernel that machine code queues
_lock = threading.Lock()  # the slots of a kernel are filled and read by one thread at a time

# What belongs to one kernel, `own`, is a tuple whose first item is bytes: the addresses of the driver's function, the
# configuration and the kernel; how many values there are, and which of them are doubles; how many structs, and their
# addresses. What changes lies on the stack, so that calls of other threads, or from within, are not in the way.
_IR = f"""
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyBytes_AsString(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_BadArgument()
declare ptr @memcpy(ptr, ptr, i64)

define ptr @queue(ptr %own, ptr %given, i64 %count) {{
  %slots = alloca [{_VALUES} x i64]
  %places = alloca [{_VALUES + _STRUCTS} x ptr]
  %config = alloca [7 x i64]
  %words = call ptr @PyTuple_GetItem(ptr %own, i64 0)
  %kept = call ptr @PyBytes_AsString(ptr %words)
  %launch = load ptr, ptr %kept
  %config.at = getelementptr i64, ptr %kept, i64 1
  %config.kept = load ptr, ptr %config.at
  %kernel.at = getelementptr i64, ptr %kept, i64 2
  %kernel = load ptr, ptr %kernel.at
  %values.at = getelementptr i64, ptr %kept, i64 3
  %values = load i64, ptr %values.at
  %doubles.at = getelementptr i64, ptr %kept, i64 4
  %doubles = load i64, ptr %doubles.at
  %structs.at = getelementptr i64, ptr %kept, i64 5
  %structs = load i64, ptr %structs.at
  %first = getelementptr i64, ptr %kept, i64 6
  %wanted = add i64 %values, 1
  %enough = icmp eq i64 %count, %wanted
  br i1 %enough, label %follow, label %refuse
refuse:
  %refused = call i32 @PyErr_BadArgument()
  ret ptr null
follow:
  %stream.given = load ptr, ptr %given
  %stream = call i64 @PyLong_AsLongLong(ptr %stream.given)
  %copied = call ptr @memcpy(ptr %config, ptr %config.kept, i64 56)
  %stream.at = getelementptr i64, ptr %config, i64 4
  store i64 %stream, ptr %stream.at
  %stream.odd = icmp eq i64 %stream, -1
  br i1 %stream.odd, label %check.stream, label %next
check.stream:
  %stream.error = call ptr @PyErr_Occurred()
  %stream.fine = icmp eq ptr %stream.error, null
  br i1 %stream.fine, label %next, label %fail
next:
  %i = phi i64 [0, %follow], [0, %check.stream], [%at, %store]
  %more = icmp slt i64 %i, %values
  br i1 %more, label %value, label %shared
value:
  %at = add i64 %i, 1
  %value.at = getelementptr ptr, ptr %given, i64 %at
  %object = load ptr, ptr %value.at
  %shifted = lshr i64 %doubles, %i
  %bit = trunc i64 %shifted to i1
  br i1 %bit, label %double, label %integer
integer:
  %whole = call i64 @PyLong_AsLongLong(ptr %object)
  %whole.odd = icmp eq i64 %whole, -1
  br i1 %whole.odd, label %check, label %store
double:
  %real = call double @PyFloat_AsDouble(ptr %object)
  %real.bits = bitcast double %real to i64
  %real.odd = fcmp oeq double %real, -1.0
  br i1 %real.odd, label %check, label %store
check:
  %odd = phi i64 [%whole, %integer], [%real.bits, %double]
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %store, label %fail
store:
  %bits = phi i64 [%whole, %integer], [%real.bits, %double], [%odd, %check]
  %slot = getelementptr i64, ptr %slots, i64 %i
  store i64 %bits, ptr %slot
  %place = getelementptr ptr, ptr %places, i64 %i
  store ptr %slot, ptr %place
  br label %next
shared:
  %s = phi i64 [0, %next], [%s.after, %struct]
  %s.more = icmp slt i64 %s, %structs
  br i1 %s.more, label %struct, label %call
struct:
  %s.after = add i64 %s, 1
  %s.at = getelementptr i64, ptr %first, i64 %s
  %s.address = load ptr, ptr %s.at
  %behind = add i64 %values, %s
  %s.place = getelementptr ptr, ptr %places, i64 %behind
  store ptr %s.address, ptr %s.place
  br label %shared
call:
  %code = call i32 %launch(ptr %config, ptr %kernel, ptr %places, ptr null)
  %wide = sext i32 %code to i64
  %told = call ptr @PyLong_FromLongLong(i64 %wide)
  ret ptr %told
fail:
  ret ptr null
}}
"""


class Config(ctypes.Structure):
    """What cuLaunchKernelEx wants to know besides kernel and arguments."""

    _fields_ = (
        ("gx", ctypes.c_uint),
        ("gy", ctypes.c_uint),
        ("gz", ctypes.c_uint),
        ("bx", ctypes.c_uint),
        ("by", ctypes.c_uint),
        ("bz", ctypes.c_uint),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


@functools.cache
def _machine_code() -> int | None:
    return machine.load(_IR, ["queue"])["queue"] if machine.available() else None


def queue_of(function: Any, config: Config, kernel: int, format: str, structs: Sequence[Any]) -> Callable[..., int]:  # noqa: A002
    """`queue(stream, *values)`, which calls the driver's function and gives what it says: 0 where all is well.

    The format has a letter a value, q or d. What is given here lives as long as the function.
    """
    code = _machine_code() if len(format) <= _VALUES and len(structs) <= _STRUCTS else None
    if code is None:
        return by_ctypes(function, config, kernel, format, structs)
    doubles = sum(1 << i for i, letter in enumerate(format) if letter == "d")
    address = ctypes.cast(function, ctypes.c_void_p).value
    words = [address, ctypes.addressof(config), kernel, len(format), doubles, len(structs)]
    packed = struct.pack(f"{len(words) + len(structs)}Q", *words, *map(ctypes.addressof, structs))
    return machine.callable_from(code, "queue", (packed, function, config, structs))


def by_ctypes(function: Any, config: Config, kernel: int, format: str, structs: Sequence[Any]) -> Callable[..., int]:  # noqa: A002
    """The same without machine code."""
    pack, slots = struct.Struct(format).pack_into, bytearray(8 * len(format) or 8)
    first = ctypes.addressof(ctypes.c_char.from_buffer(slots))
    addresses = [first + 8 * i for i in range(len(format))] + [ctypes.addressof(s) for s in structs]
    arguments = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
    call = ctypes.addressof(config), kernel, ctypes.addressof(arguments), None

    def queue(stream: int, *values: Any) -> int:
        with _lock:
            pack(slots, 0, *values)
            config.stream = stream
            return function(*call)

    queue.kept = arguments, structs  # type: ignore[attr-defined]
    return queue
