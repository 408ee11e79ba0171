"""torch.npu: Ascend devices, their streams, memory and random numbers. Without CANN, importing it costs nothing."""

import functools
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from ._backends.npu import chips as _chips
from ._backends.npu import kernel as _kernel
from ._backends.npu import memory as _memory
from ._backends.npu import mstx
from ._backends.npu import runtime as _runtime
from ._backends.npu import seeds as _seeds
from ._backends.npu import streams as _streams
from ._backends.npu.errors import NpuError, OutOfMemoryError
from ._backends.npu.graphs import NPUGraph, graph, make_graphed_callables
from ._backends.npu.streams import (
    Event,
    ExternalStream,
    Stream,
    current_stream,
    default_stream,
    set_stream,
    synchronize,
)
from ._compat.tensor_types import tensor_types as _tensor_types
from ._core.device_objects import StreamContext
from ._core.from_data import from_numpy as _from_numpy
from .amp.autocast_mode import autocast as _autocast
from .amp.grad_scaler import GradScaler as _GradScaler


class amp:  # noqa: N801 - PyTorch's name
    """torch.npu.amp: `autocast()` is `torch.autocast("npu")`."""

    autocast = functools.partial(_autocast, "npu")
    GradScaler = functools.partial(_GradScaler, "npu")


def is_available(verbose: bool = False) -> bool:
    """Whether an NPU can be used; with `verbose`, says why not."""
    reason = _runtime.why_unavailable()
    if verbose and reason is not None:
        print(f"NPU not available: {reason}", file=sys.stderr)
    return reason is None


device_count = _runtime.device_count
current_device = _runtime.current_device


def is_initialized() -> bool:
    running = _runtime.running()
    return running is not None and running.initialised


def init() -> None:
    """Starts the current device; it is started by its first use anyway."""
    _runtime.started()


def set_device(device: Any) -> None:
    """Makes a device the current one of this thread; a negative number does nothing."""
    index = _streams.device_index(device)
    if index >= 0:
        _runtime.set_device(index)


class device:  # noqa: N801 - PyTorch's name
    """Context manager that changes the current device; None or a negative number changes nothing."""

    def __init__(self, device: Any) -> None:
        self._index = -1 if device is None else _streams.device_index(device)
        self._previous = -1

    def __enter__(self) -> None:
        self._previous = current_device()
        set_device(self._index)

    def __exit__(self, *exc: object) -> None:
        set_device(self._previous)


class device_of(device):
    """Context manager that makes the device of a tensor the current one."""

    def __init__(self, tensor: Any) -> None:
        super().__init__(tensor.device if tensor.device.type == "npu" else None)


class stream(StreamContext):  # noqa: N801 - PyTorch's name
    """Context manager that sends this thread's work to a stream; None changes nothing."""


def get_device_name(device: Any = None) -> str:
    """The chip's name, for example Ascend910B1."""
    name = _runtime.started(_streams.device_index(device)).functions["aclrtGetSocName"]()
    return name.decode() if name else ""


class _DeviceProperties:
    def __init__(self, index: int) -> None:
        self.name = get_device_name(index)
        self.total_memory = _memory.memory_info(index)[1]

    def __repr__(self) -> str:
        return f"_NPUDeviceProperties(name='{self.name}', total_memory={self.total_memory // (1 << 20)}MB)"


def get_device_properties(device: Any = None) -> _DeviceProperties:
    return _DeviceProperties(_streams.device_index(device))


def is_bf16_supported() -> bool:
    """Whether the chip has bfloat16."""
    return _runtime.started().chip not in _chips.WITHOUT_BFLOAT16


class _Precision:
    """torch.npu.matmul and torch.npu.conv: whether float32 products may be computed in HF32, with shorter mantissas."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    @property
    def allow_hf32(self) -> bool:
        return _runtime.allow_hf32[self._kind]

    @allow_hf32.setter
    def allow_hf32(self, allow: bool) -> None:
        _runtime.allow_hf32[self._kind] = bool(allow)
        _kernel.forget_all()  # executors keep the precision they were made with


matmul, conv = _Precision("matmul"), _Precision("conv")


class config:  # noqa: N801 - torch_npu's name
    """torch.npu.config: there is no private format here, so that allowing it changes nothing."""

    allow_internal_format = False


def set_compile_mode(jit_compile: bool = False) -> None:
    """Does nothing: operators are CANN's own, compiled beforehand."""


def set_option(option: dict[str, Any]) -> None:
    """Does nothing: there are no options of a compiler."""


def get_device_capability(device: Any = None) -> None:
    """None: Ascend chips have no such number."""
    return None


# memory --------------------------------------------------------------------------------------------------------------


def _pool(device: Any) -> _memory.Pool:
    return _memory.pool_of(_streams.device_index(device)).settle()


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the driver."""
    running = _runtime.running()
    if running is not None:
        for pool in _memory.pools():
            pool.empty()
        _memory.free_unpinned(running)


def memory_allocated(device: Any = None) -> int:
    """Bytes in use by tensors."""
    return _pool(device).allocated


def max_memory_allocated(device: Any = None) -> int:
    return _pool(device).peak_allocated


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the driver, in use or kept for later."""
    return _pool(device).reserved


def max_memory_reserved(device: Any = None) -> int:
    return _pool(device).peak_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    _pool(device).reset_peaks()


reset_max_memory_allocated = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Starts the counts of allocations anew."""
    _pool(device).reset_counts()


def memory_stats(device: Any = None) -> dict[str, int]:
    return _pool(device).statistics()


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of the allocator's counts."""
    rows = [f"| {name:<36} | {value:>18} |" for name, value in memory_stats(device).items()]
    return "\n".join([f"NPU memory of device {_streams.device_index(device)}", *rows])


def memory_snapshot(device: Any = None) -> list[dict[str, Any]]:
    """The segments of memory taken from CANN, with their blocks."""
    return _pool(device).snapshot()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Lets this process take at most this share of a device's memory."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _pool(device).limit = int(fraction * mem_get_info(device)[1])


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of the device."""
    return _memory.memory_info(_streams.device_index(device))


# random numbers ------------------------------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Starts the current device's random numbers anew."""
    _seeds.seed_state(current_device()).start(int(seed))


def manual_seed_all(seed: int) -> None:
    _seeds.seed_all(int(seed))


def initial_seed() -> int:
    return _seeds.seed_state(current_device()).seed


def get_rng_state(device: Any = "npu") -> Any:
    """Seed and offset of a device as 16 bytes."""
    state = _seeds.seed_state(_streams.device_index(device))
    return _from_numpy(np.array([state.seed, state.offset], np.uint64).view(np.uint8))


def set_rng_state(new_state: Any, device: Any = "npu") -> None:
    words = new_state.numpy()
    if words.dtype != np.uint8 or words.size != 16:
        raise TypeError("RNG state must be a torch.ByteTensor of 16 bytes: seed and offset")
    state = _seeds.seed_state(_streams.device_index(device))
    state.seed, state.offset = map(int, np.ascontiguousarray(words).view(np.uint64))


def get_rng_state_all() -> list[Any]:
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


_TYPES = _tensor_types("npu")
globals().update(_TYPES)

__all__ = [*_TYPES, "Event", "ExternalStream", "NPUGraph", "NpuError", "OutOfMemoryError", "Stream", "amp", "config",
           "conv", "current_device", "current_stream", "default_stream", "device", "device_count", "device_of",
           "empty_cache", "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state",
           "get_rng_state_all", "graph", "init", "initial_seed", "is_available", "is_bf16_supported", "is_initialized",
           "make_graphed_callables", "manual_seed", "manual_seed_all", "matmul", "max_memory_allocated",
           "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved", "memory_snapshot",
           "memory_stats", "memory_summary", "mstx", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
           "reset_peak_memory_stats", "set_compile_mode", "set_device", "set_option",
           "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all", "set_stream", "stream",
           "synchronize"]  # fmt: skip
