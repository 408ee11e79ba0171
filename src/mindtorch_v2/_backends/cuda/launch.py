"""Own kernels: compiled by NVRTC at first use (CuPy keeps the binaries on disk), launched through the CUDA driver.

All arguments of a kernel are 8 bytes wide (pointers, `long long`, `double`) or structs, so that a launch fills a row of
slots whose addresses were prepared.
"""

import ctypes
import functools
import threading
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from .runtime import CudaError
from .streams import current

_driver = ctypes.PyDLL("libcuda.so.1")  # the GIL is kept: giving it up costs more than the call
launch_kernel = _driver.cuLaunchKernel
launch_kernel.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
lock = threading.Lock()  # the slots of a kernel are filled and read by one thread at a time

# How C calls the element types; half types are their bits, computed with in float.
C_TYPES = {"bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int",
           "int64": "long long", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
           "float16": "half_t", "bfloat16": "bfloat_t", "float32": "float", "float64": "double"}

PRELUDE = r"""
struct half_t { unsigned short bits; };
struct bfloat_t { unsigned short bits; };
typedef long long int64;

__device__ inline float widened(half_t x) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits)); return f; }
__device__ inline float widened(bfloat_t x) { return __int_as_float((int)x.bits << 16); }
template <typename T> __device__ inline T widened(T x) { return x; }

template <typename T> struct narrow {
    template <typename U> __device__ static inline T of(U x) { return (T)x; }
};
template <> struct narrow<half_t> {
    __device__ static inline half_t of(float x) {
        half_t h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x)); return h;
    }
};
template <> struct narrow<bfloat_t> {
    __device__ static inline bfloat_t of(float x) {
        unsigned int u = (unsigned int)__float_as_int(x);
        bfloat_t b;
        b.bits = x != x ? 0x7fc0 : (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
        return b;
    }
};
"""


def c_type(kind: np.dtype) -> str:
    return C_TYPES[kind.name]


def check(code: int) -> None:
    """Raises what a driver function returned, unless that is success."""
    if code:
        text = ctypes.c_char_p()
        _driver.cuGetErrorString(code, ctypes.byref(text))
        said = (text.value or b"unknown error").decode()
        raise CudaError(f"CUDA error: {said}")


@functools.cache
def compiled(source: str, name: str) -> Any:
    """The kernel `name` of a C++ source, for the current device."""
    return cupy.RawModule(code=PRELUDE + source, options=("--std=c++17",)).get_function(name)


class Launch:
    """A kernel with a row of argument slots; `structs` are further arguments, bytes that never change."""

    __slots__ = ("_kept", "arguments", "handle", "numbers", "slots")

    def __init__(self, kernel: Any, count: int, structs: Sequence[Any] = ()) -> None:
        self._kept = kernel, structs
        self.handle = kernel.kernel.ptr
        self.slots = (ctypes.c_longlong * count)()
        self.numbers = (ctypes.c_double * count).from_buffer(self.slots)
        first = ctypes.addressof(self.slots)
        addresses = [first + 8 * i for i in range(count)] + [ctypes.addressof(s) for s in structs]
        self.arguments = (ctypes.c_void_p * len(addresses))(*addresses)

    def __call__(self, grid: int | tuple[int, int], block: int, *values: Any) -> None:
        """Queues the kernel on the current stream."""
        slots, numbers = self.slots, self.numbers
        across, down = grid if grid.__class__ is tuple else (grid, 1)
        with lock:
            for i, value in enumerate(values):
                if value.__class__ is float:
                    numbers[i] = value
                else:
                    slots[i] = value
            code = launch_kernel(self.handle, across, down, 1, block, 1, 1, 0, current.handle, self.arguments, None)
        if code:
            check(code)


@functools.cache
def kernel(source: str, name: str, count: int) -> Launch:
    """The launch of a kernel with so many arguments."""
    return Launch(compiled(source, name), count)
