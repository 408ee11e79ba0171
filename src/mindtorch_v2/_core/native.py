"""What is handed to compiled code by its address, and what is asked of Python's C functions.

The functions of `ctypes.pythonapi` are shared by the whole process: who sets how one is called takes the types away
from a thread that is calling it. So those here are private.
"""

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["capsule_name", "capsule_pointer", "forever", "python_function"]

_T = TypeVar("_T")


@functools.cache
def python_function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of Python's C API, for arguments of these types."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


def forever(thing: _T) -> _T:
    """The thing, which lives until the process ends.

    Being held by a module is not enough for what compiled code may touch at any time: the interpreter empties modules
    while objects that go after them still compute, and while other threads are inside of a kernel. Without CPython
    there is no compiled code.
    """
    if sys.implementation.name == "cpython":
        python_function("Py_IncRef", None, ctypes.py_object)(thing)
    return thing


def capsule_name(capsule: Any) -> bytes:
    """The name of a capsule that has one."""
    return python_function("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)(capsule)


def capsule_pointer(capsule: Any, name: bytes | None) -> int:
    """The address that a capsule of this name holds."""
    return python_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(capsule, name)
