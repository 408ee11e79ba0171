"""The addresses behind the names that compiled code may declare.

IR holds no address of a process, since its object code is kept on disk; what lies outside of it has a name. Beside the
functions of Python's C API, of the C library and of libm these are

    _Py_NoneStruct        None
    PyArray_Type          numpy.ndarray
    mindtorch_descr_NAME  the dtype of that name
    mindtorch_object_NAME a class, or the name of an attribute: see `_object`
    PyArray_API           the first entry of NumPy's table of C functions (an array of pointers)
    mindtorch_blas_NAME   sgemm, dgemm, sgemv, dgemv of CBLAS; get and set, the number of OpenBLAS's own threads
    mindtorch_onednn_NAME what onednn_products.py and onednn_calls.py call
    mindtorch_threads     an int64: how many threads a kernel may use; threads.py has the functions beside it
"""

import ctypes
import functools
import sys
from typing import Any

import numpy as np

from ...._core.device import device, layout, memory_format
from ...._core.dtype import bfloat16, dtype
from ...._core.native import capsule_pointer, forever
from ...._core.threads import blas
from . import onednn_products, threads

__all__ = ["address", "numpy_functions"]


def numpy_functions() -> int:
    """The address of NumPy's table of C functions."""
    from numpy._core._multiarray_umath import _ARRAY_API

    return capsule_pointer(_ARRAY_API, None)


@functools.cache
def _dtype(name: str) -> np.dtype:
    """The one object that arrays of a type share, bfloat16 among them."""
    return forever(bfloat16.np if name == "bfloat16" else np.dtype(name))


@functools.cache
def _object(name: str) -> Any:
    """What compiled code asks tensors and other arguments for, or by."""
    from ...._core.tensor import Tensor

    classes = {kind.__name__: kind for kind in (Tensor, device, dtype, layout, memory_format)}
    return forever(classes.get(name) or sys.intern(name))


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """What is searched for a function: Python, and the C library with its mathematics, which Python is linked to."""
    return ctypes.pythonapi, ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)


@functools.cache
def address(name: str) -> int | None:
    """Where a name lies in this process; None where nothing has it."""
    if name == "_Py_NoneStruct":
        return id(None)
    if name == "PyArray_Type":
        return id(np.ndarray)
    if name.startswith("mindtorch_descr_"):
        return id(_dtype(name.removeprefix("mindtorch_descr_")))
    if name.startswith("mindtorch_object_"):
        return id(_object(name.removeprefix("mindtorch_object_")))
    if name == "PyArray_API":
        return numpy_functions()
    if name.startswith("mindtorch_blas_"):
        found = blas()
        return None if found is None else found.addresses.get(name.removeprefix("mindtorch_blas_"))
    if name.startswith("mindtorch_onednn_"):
        return onednn_products.addresses().get(name)
    if name in threads.cells():
        return threads.cells()[name]
    for library in _libraries():
        function = getattr(library, name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value
    return None
