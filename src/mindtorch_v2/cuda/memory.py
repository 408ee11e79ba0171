"""torch.cuda.memory: what is allocated and reserved on a device."""

from typing import Any

from .._backends.cuda import runtime as _runtime

__all__ = ["caching_allocator_alloc", "caching_allocator_delete", "empty_cache", "get_allocator_backend",
           "list_gpu_processes", "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info",
           "memory_allocated", "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats",
           "memory_stats_as_nested_dict", "memory_summary", "reset_accumulated_memory_stats",
           "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats",
           "set_per_process_memory_fraction"]


def _of(device: Any) -> Any:
    """The backend's memory module, with a device as the current one; None where nothing was allocated yet."""
    if not _runtime.is_initialized():
        return None
    from .._backends.cuda import memory

    return memory


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the driver; nothing happens without a device."""
    backend = _of(None)
    if backend is not None:
        backend.empty_cache()


def memory_allocated(device: Any = None) -> int:
    """Bytes in use by tensors."""
    backend = _of(device)
    return 0 if backend is None else backend.memory_allocated()


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the driver, in use or kept for later."""
    backend = _of(device)
    return 0 if backend is None else backend.memory_reserved()


def max_memory_allocated(device: Any = None) -> int:
    """The most that was in use since the last reset; before the first question about peaks, what was reserved."""
    backend = _of(device)
    return 0 if backend is None else backend.peaks()[0]


def max_memory_reserved(device: Any = None) -> int:
    backend = _of(device)
    return 0 if backend is None else backend.peaks()[1]


def memory_stats(device: Any = None) -> dict[str, int]:
    """Counts of the allocator by name; none where nothing was allocated yet."""
    backend = _of(device)
    return {} if backend is None else backend.statistics()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        inner = made
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return made


def reset_peak_memory_stats(device: Any = None) -> None:
    """The peaks count from now on."""
    _runtime.require()
    from .._backends.cuda import memory

    memory.reset_peaks()


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Starts the counts of allocations anew."""
    _runtime.require()
    from .._backends.cuda import memory

    memory.counts.taken = len(memory.counts.live)
    memory.counts.retries = memory.counts.failures = 0


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a device."""
    index = _runtime.index_of(device)
    from .._backends.cuda import memory

    return memory.memory_info(index)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of the allocator's counts."""
    rows = [f"| {name:<36} | {value:>18} |" for name, value in memory_stats(device).items()]
    return "\n".join([f"CUDA memory of device {_runtime.index_of(device)}", *rows])


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> list:
    """Empty: CuPy's pool shows no list of its blocks."""
    return []


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Lets the pool take at most this share of a device's memory."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    index = _runtime.index_of(device)
    import cupy

    from .._backends.cuda import memory

    with cupy.cuda.Device(index):
        memory.limit(fraction)


_kept: dict[int, Any] = {}  # memory by address, for who asked for bare addresses


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """The address of so many bytes."""
    where = _runtime.device_of(_runtime.index_of(device))
    from .._backends.cuda import memory

    made = memory.allocate(size, where)
    _kept[made.ptr] = made
    return made.ptr


def caching_allocator_delete(mem_ptr: int) -> None:
    """Gives back what `caching_allocator_alloc` gave."""
    _kept.pop(mem_ptr, None)


def get_allocator_backend() -> str:
    return "native"


def list_gpu_processes(device: Any = None) -> str:
    return f"GPU:{_runtime.index_of(device)}\nprocesses are not listed: that takes NVIDIA's management library"
