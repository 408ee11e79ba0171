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
from .prelude import ASSERTIONS, PACKS, PRELUDE
from .queueing import Config, queue_of
from .runtime import CudaError
from .streams import current

_driver = ctypes.PyDLL("libcuda.so.1")  # the GIL is kept: giving it up costs more than the call
_launch_kernel = _driver.cuLaunchKernelEx  # four arguments to convert, not the eleven of cuLaunchKernel
_launch_kernel.argtypes = [ctypes.c_void_p] * 4
lock = threading.Lock()  # what is prepared for a call of a library is filled in and read by one thread at a time
_shaping = threading.Lock()
__all__ = ["ASSERTIONS", "C_TYPES", "PACKS", "Launch", "c_type", "check", "compiled", "kernel", "lock", "longs"]


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
