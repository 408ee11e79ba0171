"""torch.cuda: NVIDIA GPUs, their streams, memory and random numbers, through CuPy.

CuPy is imported when a device is first asked for. Without it, or without a GPU, `is_available()` is False, and what
needs a device raises as a PyTorch does that was built without CUDA.
"""

import importlib
import os
from collections.abc import Callable
from typing import Any

from .._backends.cuda import runtime as _runtime
from .._backends.cuda.runtime import (
    CudaError,
    current_device,
    device_count,
    is_available,
    is_initialized,
)
from .._compat.absent import absent_class
from .._compat.tensor_types import tensor_types as _tensor_types
from .._core.device import device as _device
from .._core.device_objects import AcceleratorError, OutOfMemoryError, StreamContext
from .._utils import _get_device_index as _any_device_index
from .memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    get_allocator_backend,
    list_gpu_processes,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)

has_half = True
has_magma = False
globals().update(_tensor_types("cuda"))
_CLASSES = {"CUDAGraph": "graphs", "Event": "streams", "ExternalStream": "streams", "Stream": "streams",
            "graph": "graphs"}
_SUBMODULES = ("amp", "graphs", "nvtx", "profiler", "streams")


def __getattr__(name: str) -> Any:
    """The classes of streams and graphs, which are CuPy's wrapped, and the submodules: loaded when first asked for."""
    if name == "_initialized":
        return is_initialized()
    if name in _CLASSES:
        if is_available():
            made = getattr(importlib.import_module(f"..._backends.cuda.{_CLASSES[name]}", f"{__package__}.x"), name)
        else:
            made = absent_class(f"torch.cuda.{name}", "There is no CUDA device, or CuPy is not installed.")
    elif name in _SUBMODULES:
        made = importlib.import_module(f".{name}", __package__)
    elif name == "default_generators":
        made = _default_generators()
    else:
        raise AttributeError(f"module 'torch.cuda' has no attribute '{name}'")
    globals()[name] = made
    return made


def _default_generators() -> tuple:
    if not is_available():
        return ()
    from .._backends.cuda.generator import default_generator

    return tuple(map(default_generator, range(device_count())))


def _streams() -> Any:
    _runtime.require()
    from .._backends.cuda import streams

    return streams


def init() -> None:
    """Starts CUDA; its first use does so anyway."""
    _streams()


_lazy_init = init


def _lazy_call(callable: Callable[[], Any], **kwargs: Any) -> None:
    """Calls a function that needs CUDA, where there is a device."""
    if is_available():
        callable()


_started_before_fork = False


def _after_fork() -> None:
    global _started_before_fork
    _started_before_fork = is_initialized()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _is_in_bad_fork() -> bool:
    """Whether this process was forked after its parent had started CUDA."""
    return _started_before_fork


def _is_compiled() -> bool:
    return importlib.import_module("mindtorch_v2.backends.cuda").is_built()


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The number of a device; with `optional` None and "cuda" are the current one, with `allow_cpu` the CPU is -1."""
    if isinstance(device, str):
        device = _device(device)
    if isinstance(device, _device) and device.type not in (("cuda", "cpu") if allow_cpu else ("cuda",)):
        raise ValueError(f"Expected a cuda {'or cpu ' * allow_cpu}device, but got: {device}")
    return _any_device_index(device, optional, allow_cpu)


# devices -------------------------------------------------------------------------------------------------------------


def set_device(device: Any) -> None:
    """Makes a device the current one of this thread; a negative number does nothing."""
    if device.__class__ is not int or device >= 0:
        _streams().set_device(_runtime.index_of(device))


class device:  # noqa: N801 - PyTorch's name
    """Context manager that changes the current device; None or a negative number changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None or device == -1 else _runtime.index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = current_device()
            set_device(self.idx)

    def __exit__(self, *exc: object) -> None:
        if self.idx >= 0:
            set_device(self.prev_idx)


class device_of(device):
    """Context manager that makes the device of a tensor the current one."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else None)


class _DeviceProperties:
    """What the driver tells of a device."""

    def __init__(self, told: dict) -> None:
        self.name = told["name"].decode()
        self.major, self.minor = told["major"], told["minor"]
        self.total_memory, self.multi_processor_count = told["totalGlobalMem"], told["multiProcessorCount"]
        self.warp_size, self.L2_cache_size = told["warpSize"], told["l2CacheSize"]
        self.max_threads_per_multi_processor = told["maxThreadsPerMultiProcessor"]
        self.regs_per_multiprocessor = told["regsPerMultiprocessor"]
        self.shared_memory_per_block = told["sharedMemPerBlock"]
        self.shared_memory_per_multiprocessor = told["sharedMemPerMultiprocessor"]
        self.is_integrated, self.is_multi_gpu_board = told["integrated"], told["isMultiGpuBoard"]

    def __repr__(self) -> str:
        return (f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
                f"total_memory={self.total_memory // (1 << 20)}MB, multi_processor_count={self.multi_processor_count}, "
                f"L2_cache_size={self.L2_cache_size // (1 << 20)}MB)")


_properties: dict[int, _DeviceProperties] = {}


def get_device_properties(device: Any = None) -> _DeviceProperties:
    index = _runtime.index_of(device)
    if not 0 <= index < device_count():
        raise AssertionError("Invalid device id")
    if index not in _properties:
        import cupy

        _properties[index] = _DeviceProperties(cupy.cuda.runtime.getDeviceProperties(index))
    return _properties[index]


def get_device_name(device: Any = None) -> str:
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Major and minor number of what the device can do."""
    told = get_device_properties(device)
    return told.major, told.minor


def get_arch_list() -> list[str]:
    """The architectures that kernels can run on: those of the devices here, since they are compiled at first use."""
    return sorted({"sm_{}{}".format(*get_device_capability(i)) for i in range(device_count())})


def get_gencode_flags() -> str:
    return " ".join(f"-gencode compute=compute_{arch[3:]},code={arch}" for arch in get_arch_list())


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether a device computes with bfloat16; older ones than Ampere emulate it."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    return is_available() and get_device_capability()[0] >= 8


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one device reaches the memory of another."""
    index, other = _runtime.index_of(device), _runtime.index_of(peer_device)
    import cupy

    return bool(cupy.cuda.runtime.deviceCanAccessPeer(index, other))


def ipc_collect() -> None:
    """Nothing is shared with other processes, so nothing is waited for."""
    _runtime.require()


# streams -------------------------------------------------------------------------------------------------------------


def synchronize(device: Any = None) -> None:
    """Waits until all work queued on a device has run."""
    _streams().synchronize(device)


def current_stream(device: Any = None) -> Any:
    """The stream that this thread's work on a device goes to."""
    return _streams().current_stream(device)


def default_stream(device: Any = None) -> Any:
    return _streams().default_stream(device)


def set_stream(stream: Any) -> None:
    if stream is not None:
        _streams().set_stream(stream)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Any:
    """The stream at an address, which another library made."""
    return _streams().ExternalStream(data_ptr, device)


def stream(stream: Any) -> StreamContext:
    return StreamContext(stream)


def is_current_stream_capturing() -> bool:
    """Whether work is being recorded into a graph."""
    if not is_initialized():
        return False
    from .._backends.cuda.graphs import is_capturing

    return is_capturing()


def graph_pool_handle() -> Any:
    """A memory pool that several graphs may share."""
    _runtime.require()
    import cupy

    return cupy.cuda.MemoryPool()


_sync_debug_mode = [0]


def set_sync_debug_mode(debug_mode: Any) -> None:
    """Remembered, but nothing warns of waiting."""
    _sync_debug_mode[0] = {"default": 0, "warn": 1, "error": 2}.get(debug_mode, debug_mode)


def get_sync_debug_mode() -> int:
    return _sync_debug_mode[0]


def current_blas_handle() -> int:
    """The cuBLAS handle of the current device, as an address."""
    _runtime.require()
    import cupy

    return cupy.cuda.device.get_cublas_handle()


__all__ = ["AcceleratorError", "CUDAGraph", "CudaError", "Event", "ExternalStream", "OutOfMemoryError", "Stream",
           "StreamContext", "amp", "caching_allocator_alloc", "caching_allocator_delete", "can_device_access_peer",
           "current_blas_handle", "current_device", "current_stream", "default_generators", "default_stream", "device",
           "device_count", "device_of", "empty_cache", "get_allocator_backend", "get_arch_list",
           "get_device_capability", "get_device_name", "get_device_properties", "get_gencode_flags", "get_rng_state",
           "get_rng_state_all", "get_stream_from_external", "get_sync_debug_mode", "graph", "graph_pool_handle",
           "graphs", "has_half", "has_magma", "init", "initial_seed", "ipc_collect", "is_available",
           "is_bf16_supported", "is_current_stream_capturing", "is_initialized", "is_tf32_supported",
           "list_gpu_processes", "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_cached",
           "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved",
           "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict", "memory_summary", "nvtx", "profiler",
           "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
           "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_per_process_memory_fraction",
           "set_rng_state", "set_rng_state_all", "set_stream", "set_sync_debug_mode", "stream", "streams",
           "synchronize"]
