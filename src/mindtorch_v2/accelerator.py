"""torch.accelerator: the device of this process that is not its CPU, if it has one."""

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal

from ._core.device import device as _Device

__all__ = ["Graph", "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
           "device_count", "device_index", "empty_cache", "empty_host_cache", "get_device_capability",
           "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
           "memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
           "set_device_idx", "set_device_index", "set_stream", "synchronize"]


def _module() -> Any:
    """`torch.cuda` or `torch.npu`, whichever has a device; None without one."""
    from . import cuda, npu

    return cuda if cuda.is_available() else npu if npu.is_available() else None


def current_accelerator(check_available: bool = False) -> _Device | None:
    """The kind of accelerator, without an index; None if there is none."""
    module = _module()
    return None if module is None else _Device(module.__name__.rpartition(".")[2])


def is_available() -> bool:
    return _module() is not None


def device_count() -> int:
    module = _module()
    return 0 if module is None else module.device_count()


def _needed() -> Any:
    module = _module()
    if module is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return module


# devices -------------------------------------------------------------------------------------------------------------


def _index(device: Any, optional: bool = True) -> int:
    """The number of a device that must be one of the accelerator's; `optional` allows none to be said."""
    if isinstance(device, int):
        return device
    index = None
    if device is not None:
        where, own = _Device(device), current_accelerator()
        if own is None:
            raise RuntimeError("Accelerator expected")
        if where.type != own.type:
            raise ValueError(f"{where.type} doesn't match the current accelerator {own}.")
        index = where.index
    if index is None and not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return current_device_index() if index is None else index


def current_device_index() -> int:
    return _needed().current_device()


def set_device_index(device: Any, /) -> None:
    """Makes a device the current one of this thread; a negative number does nothing."""
    _needed().set_device(_index(device, optional=False))


def _renamed(function: Callable) -> Any:
    @functools.wraps(function)
    def old(*args: Any) -> Any:
        warnings.warn(f"Use `{function.__name__}` instead.", FutureWarning, stacklevel=2)
        return function(*args)

    return old


current_device_idx, set_device_idx = _renamed(current_device_index), _renamed(set_device_index)


class device_index:  # noqa: N801 - PyTorch's name
    """Context manager that changes the current device; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx, self.prev_idx = device, -1

    def __enter__(self) -> None:
        if self.idx is not None:
            self.prev_idx = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *exc_info: object) -> None:
        if self.idx is not None:
            set_device_index(self.prev_idx)


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """`supported_dtypes`: those of which tensors can be made on the device and converted to each other."""
    module, _ = _needed(), _index(device)
    from ._backends.npu.facts import DATA_TYPES
    from ._core.dtype import OF_ARRAY

    kinds = DATA_TYPES if module.__name__.endswith(".npu") else OF_ARRAY
    return {"supported_dtypes": {OF_ARRAY[kind] for kind in kinds}}


# streams and graphs --------------------------------------------------------------------------------------------------


def current_stream(device: Any = None, /) -> Any:
    return _needed().current_stream(_index(device))


def set_stream(stream: Any) -> None:
    """Sends this thread's work to a stream, whose device becomes the current one."""
    if not hasattr(stream, "device_index"):
        raise TypeError("_accelerator_setStream(): incompatible function arguments. The following argument types are "
                        f"supported:\n    1. (arg0: torch.Stream) -> None\n\nInvoked with: {stream!r}")
    module = _needed()
    module.set_device(stream.device_index)
    module.set_stream(stream)


def synchronize(device: Any = None, /) -> None:
    _needed().synchronize(_index(device))


class Graph:
    """Work of the current stream that is recorded once, between `capture_begin` and `capture_end`, and replayed.

    As a context manager it records what is inside: `with torch.Stream("npu"), graph: ...`.
    """

    def __init__(self, keep_graph: bool = False, *, pool: tuple[int, int] | None = None,
                 capture_error_mode: Literal["default", "global", "thread_local", "relaxed"] = "default") -> None:
        module = _needed()
        self._graph = module.CUDAGraph(keep_graph) if hasattr(module, "CUDAGraph") else module.NPUGraph()
        self.graph_pool, self.capture_error_mode = pool, capture_error_mode

    def capture_begin(self) -> None:
        mode: str = self.capture_error_mode
        self._graph.capture_begin(pool=self.graph_pool, capture_error_mode="global" if mode == "default" else mode)

    def capture_end(self) -> None:
        self._graph.capture_end()

    def instantiate(self) -> None:
        """Nothing: a recording can be replayed when it ends."""

    def replay(self) -> None:
        self._graph.replay()

    def reset(self) -> None:
        """Forgets the recording and gives its memory back."""
        self._graph.reset()

    def pool(self) -> Any:
        return self._graph.pool()

    def __enter__(self) -> None:
        synchronize()
        empty_cache()
        empty_host_cache()
        self.capture_begin()

    def __exit__(self, *exc_info: object) -> None:
        self.capture_end()


# memory --------------------------------------------------------------------------------------------------------------


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the driver."""
    _needed().empty_cache()


def empty_host_cache() -> None:
    """Nothing but the question for a device: page-locked memory is given back when its tensors are."""
    _needed()


def memory_stats(device_index: Any = None, /) -> OrderedDict[str, Any]:
    """Counts of the allocator by name."""
    return OrderedDict(sorted(_needed().memory_stats(_index(device_index)).items()))


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes in use by tensors."""
    return _needed().memory_allocated(_index(device_index))


def max_memory_allocated(device_index: Any = None, /) -> int:
    return _needed().max_memory_allocated(_index(device_index))


def memory_reserved(device_index: Any = None, /) -> int:
    """Bytes taken from the driver, in use or kept for later."""
    return _needed().memory_reserved(_index(device_index))


def max_memory_reserved(device_index: Any = None, /) -> int:
    return _needed().max_memory_reserved(_index(device_index))


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """Starts the counts of allocations anew."""
    _needed().reset_accumulated_memory_stats(_index(device_index))


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """The peaks count from now on."""
    _needed().reset_peak_memory_stats(_index(device_index))


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """Free and total bytes of the device."""
    return _needed().mem_get_info(_index(device_index))
