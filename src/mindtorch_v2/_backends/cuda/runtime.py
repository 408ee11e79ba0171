"""Whether there is a CUDA device, which one is current, and the errors that PyTorch raises about them."""

import functools
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from ..._core.device import device
from ..._core.device_objects import AcceleratorError

UNAVAILABLE = "Torch not compiled with CUDA enabled"


class CudaError(AcceleratorError):
    """What the CUDA runtime reports."""


def reported(call: Callable, *args: Any) -> Any:
    """Calls CuPy's runtime. What it reports, of kernels queued before too, is raised as PyTorch words it."""
    try:
        return call(*args)
    except RuntimeError as error:
        if not hasattr(error, "status"):  # not CuPy's CUDARuntimeError
            raise
        name, _, text = str(error).partition(": ")
        raise CudaError(f"CUDA error: {text or name} ({name}). A kernel that was queued before may have caused it; "
                        "with CUDA_LAUNCH_BLOCKING=1 in the environment every call waits for its own.") from None


@functools.cache
def why_unavailable() -> str | None:
    """Why no CUDA device can be used; None if one can."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed (the `cuda` extra)"
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except ImportError as error:
        return f"CuPy cannot be imported: {error}"
    except RuntimeError as error:  # CUDARuntimeError is one: no driver, no device
        return f"no CUDA device: {error}"
    return None if count else "no CUDA device"


def is_available() -> bool:
    return why_unavailable() is None


@functools.cache
def device_count() -> int:
    if why_unavailable() is not None:
        return 0
    import cupy

    return cupy.cuda.runtime.getDeviceCount()


def require() -> None:
    """Raises as PyTorch does where it was built without CUDA."""
    if why_unavailable() is not None:
        raise AssertionError(UNAVAILABLE)


def is_initialized() -> bool:
    """Whether anything of this process is on a CUDA device yet."""
    return f"{__package__}.array" in sys.modules


def current_device() -> int:
    if device_count() == 1:
        return 0
    require()
    import cupy

    return cupy.cuda.runtime.getDevice()


@functools.cache
def device_of(index: int) -> device:
    """The device of a number; RuntimeError if there is none."""
    if not 0 <= index < device_count():
        raise CudaError("CUDA error: invalid device ordinal")
    return device("cuda", index)


def index_of(where: Any) -> int:
    """The number that a device, its name, a number or None (the current one) stands for."""
    require()
    if where is None:
        return current_device()
    if where.__class__ is int:
        return current_device() if where < 0 else where
    named = device(where)
    if named.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {named}")
    return current_device() if named.index is None else named.index
