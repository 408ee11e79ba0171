"""What running out of memory is called: a RuntimeError, as in PyTorch, and not Python's or NumPy's error."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .device_objects import OutOfMemoryError

_ALLOCATOR = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"
# What NumPy says of arrays whose size in bytes no number holds.
_TOO_LARGE = ("array is too big", "Maximum allowed dimension exceeded", "iterator is too large",
              "Maximum allowed size exceeded", "negative dimensions are not allowed")


def out_of_memory(error: MemoryError) -> RuntimeError:
    """The error to raise in place of one that an allocation raised."""
    if type(error).__module__.startswith("cupy"):
        return OutOfMemoryError(f"CUDA out of memory. {error}")
    shape, kind = getattr(error, "shape", None), getattr(error, "dtype", None)
    asked = "" if shape is None or kind is None else f": you tried to allocate {math.prod(shape) * kind.itemsize} bytes"
    return RuntimeError(f"{_ALLOCATOR}{asked}. Error code 12 (Cannot allocate memory)")


def too_large(error: ValueError) -> Exception:
    """The error to raise in place of NumPy's refusal of an array beyond all memory; any other as it is."""
    if str(error).startswith(_TOO_LARGE):
        return RuntimeError("Storage size calculation overflowed")
    return error


def reserve(nbytes: int) -> None:
    """Raises unless so much memory can be had. It is free again at once, for what is allocated next."""
    try:
        np.empty(nbytes, np.uint8)
    except MemoryError as error:
        raise out_of_memory(error) from None


def allocates(function: Callable) -> Callable:
    """A function that is no operator, with these errors in place of the others."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except MemoryError as error:
            raise out_of_memory(error) from None
        except ValueError as error:
            raise too_large(error)  # noqa: B904 - mostly the same error

    return wrapper
