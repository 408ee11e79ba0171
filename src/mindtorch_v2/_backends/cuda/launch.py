"""Own kernels: compiled by NVRTC at first use (CuPy keeps the binaries on disk), launched through the CUDA driver.

All arguments of a kernel are 8 bytes wide (pointers, `long long`, `double`) or structs, so that a launch fills a row of
slots and needs to know no more of them (queueing.py).
"""

import ctypes
import functools
import threading
from collections.abc import Sequence
from typing import Any

import cupy

from .c_types import C_TYPES, c_type
from .queueing import Config, queue_of
from .runtime import CudaError
from .streams import current

_driver = ctypes.PyDLL("libcuda.so.1")  # the GIL is kept: giving it up costs more than the call
_launch_kernel = _driver.cuLaunchKernelEx  # four arguments to convert, not the eleven of cuLaunchKernel
_launch_kernel.argtypes = [ctypes.c_void_p] * 4
lock = threading.Lock()  # what is prepared for a call of a library is filled in and read by one thread at a time
_shaping = threading.Lock()
__all__ = ["ASSERTIONS", "C_TYPES", "PACKS", "Launch", "c_type", "check", "compiled", "kernel", "lock", "longs"]

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
        bfloat_t b;
#if __CUDA_ARCH__ >= 800
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.bits) : "f"(x));
#else
        unsigned int u = (unsigned int)__float_as_int(x);
        b.bits = x != x ? 0x7fff : (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
        return b;
    }
};
"""

# For sources that check indices: what does not hold ends the kernel, and all later calls, as PyTorch's assertions do.
ASSERTIONS = r"""
extern "C" __device__ void __assertfail(const char* text, const char* file, unsigned int line, const char* function,
                                        size_t width);
__device__ inline void require(bool holds) {
    if (!holds) __assertfail("index out of bounds", "mindtorch_v2", 0, "kernel", 1);
}
"""

# For sources that load and store several neighbours at once. Only powers of two are alignments, and none adds bytes.
PACKS = r"""
__device__ constexpr int aligned_to(int bytes) { return (bytes & -bytes) > 16 ? 16 : bytes & -bytes; }
template <typename T, int N> struct __align__(aligned_to(sizeof(T) * N)) pack { T v[N]; };
"""


def check(code: int) -> None:
    """Raises what a driver function returned, unless that is success."""
    if code:
        text = ctypes.c_char_p()
        _driver.cuGetErrorString(code, ctypes.byref(text))
        said = (text.value or b"unknown error").decode()
        raise CudaError(f"CUDA error: {said}")


def longs(*numbers: int) -> list[Any]:
    """Arguments of a kernel that never change, all of them `long long`."""
    return [ctypes.c_longlong(n) for n in numbers]


@functools.cache
def compiled(source: str, name: str) -> Any:
    """The kernel `name` of a C++ source, for the current device."""
    return cupy.RawModule(code=PRELUDE + source, options=("--std=c++17",)).get_function(name)


class Launch:
    """A kernel with its grid and its block; `structs` are arguments that never change.

    `queue(current.handle, *values)`, whose format says which are doubles, gives a code that `check` looks at if it is
    not 0: generated code writes these out.
    """

    __slots__ = ("_kept", "config", "queue", "shape")

    def __init__(self, kernel: Any, format: str, grid: Sequence[int] = (1,), block: Sequence[int] = (1,),  # noqa: A002
                 structs: Sequence[Any] = (), shared: int = 0) -> None:
        self.config = Config(*(*grid, 1, 1)[:3], *(*block, 1, 1)[:3], shared, 0, 0, 0)
        self.shape, self._kept = (grid, block), (kernel, structs)
        self.queue = queue_of(_launch_kernel, self.config, kernel.kernel.ptr, format, structs)

    def __call__(self, *values: Any) -> None:
        """Queues the kernel on the current stream."""
        code = self.queue(current.handle, *values)
        if code:
            check(code)

    def over(self, grid: tuple[int, ...], block: tuple[int, ...], *values: Any, shared: int = 0) -> None:
        """The same with another grid and block, and as many bytes that a block shares."""
        with _shaping:
            self.config.shared = shared
            if self.shape != (grid, block):
                config, self.shape = self.config, (grid, block)
                config.gx, config.gy, config.gz = (*grid, 1, 1)[:3]
                config.bx, config.by, config.bz = (*block, 1, 1)[:3]
            code = self.queue(current.handle, *values)
        if code:
            check(code)


@functools.cache
def kernel(source: str, name: str, format: str) -> Launch:  # noqa: A002
    """The launch of a kernel, one for all grids: `over` says which. The format has a letter a slot, q or d."""
    return Launch(compiled(source, name), format)
