"""Where large arrays begin: at a page of memory.

Processors compare the last 12 bits of a load's address with those of stores before it, and where they agree the load
waits until the store is done. glibc places an array of 2^20 floats 16 bytes further in its page than the one before it,
so that in a loop over both each load of the next elements waits for the store of the last ones: steps that would run
side by side run one after another, which took `exp` 8 times as long on a Xeon and 1.4 times on Zen 4. Arrays that
begin at the same place of a page have their loads run ahead of the stores.
"""

import ctypes
import functools
import sys

import numpy as np

from ...._core.native import capsule_pointer, forever
from . import machine, symbols

__all__ = ["align_large_arrays"]

_LARGE = 1 << 16  # bytes; a page more is little then, and what fits into the first cache is computed soon
_HUGE = 1 << 22  # bytes from which on NumPy asks for pages of 2 MB, which is done here in its place
_DEFAULT_HANDLER = 306  # of NumPy's table of C functions: where it holds what arrays get their memory from

_IR = f"""
%Usual = type {{ ptr, i64 }}
declare ptr @memalign(i64, i64)
declare i32 @madvise(ptr, i64, i32)
define ptr @allocate(ptr %usual, i64 %size) {{
  %large = icmp uge i64 %size, {_LARGE}
  br i1 %large, label %at_a_page, label %anywhere
anywhere:
  %malloc = load ptr, ptr %usual
  %small = tail call ptr %malloc(ptr null, i64 %size)
  ret ptr %small
at_a_page:
  %made = call ptr @memalign(i64 4096, i64 %size)
  %huge_from = getelementptr %Usual, ptr %usual, i32 0, i32 1
  %least = load i64, ptr %huge_from
  %huge = icmp uge i64 %size, %least
  %there = icmp ne ptr %made, null
  %advised = and i1 %huge, %there
  br i1 %advised, label %advise, label %end
advise:
  %ignored = call i32 @madvise(ptr %made, i64 %size, i32 14)
  br label %end
end:
  ret ptr %made
}}
"""


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler; its functions get `context` first."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


class _Usual(ctypes.Structure):
    """What `allocate` gets as its context; `%Usual` in its IR."""

    _fields_ = (("malloc", ctypes.c_void_p), ("huge_from", ctypes.c_int64))


_usual = forever(_Usual())  # arrays are made until the very end


@functools.cache
def align_large_arrays() -> None:
    """From now on NumPy's own allocator has large arrays begin at a page; freeing them is the C library's as before."""
    if sys.platform.startswith("linux"):
        with machine.compiling:  # a second thread must not take what is put in here for what was there before
            _align_large_arrays()


def _align_large_arrays() -> None:
    table = ctypes.cast(symbols.numpy_functions(), ctypes.POINTER(ctypes.c_void_p))
    capsule = ctypes.cast(table[_DEFAULT_HANDLER] or 0, ctypes.POINTER(ctypes.py_object)).contents.value
    handler = _Handler.from_address(capsule_pointer(capsule, b"mem_handler"))
    if (handler.name, handler.version, handler.context) != (b"default_allocator", 1, None):
        return  # not as this NumPy's has been
    advises = np._core.multiarray._get_madvise_hugepage()  # type: ignore[attr-defined]
    _usual.malloc, _usual.huge_from = handler.malloc, _HUGE if advises else 2**63 - 1
    allocate = machine.load(_IR, ["allocate"])["allocate"]
    # NumPy's functions do not look at the context, so it is there before the one that does.
    handler.context = ctypes.addressof(_usual)
    handler.malloc = allocate
