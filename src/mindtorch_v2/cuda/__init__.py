"""torch.cuda."""

from typing import Any

from .._absent import absent_class

__all__ = ["CUDAGraph", "Event", "Stream", "StreamContext", "current_device", "device_count", "empty_cache", "graph",
           "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all", "synchronize"]

CUDAGraph, Event, Stream = (absent_class(f"torch.cuda.{name}") for name in ("CUDAGraph", "Event", "Stream"))
StreamContext, graph = absent_class("torch.cuda.StreamContext"), absent_class("torch.cuda.graph")


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def device_count() -> int:
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def is_current_stream_capturing() -> bool:
    return False


def current_device() -> int:
    raise AssertionError("Torch not compiled with CUDA enabled")


def synchronize(device: Any = None) -> None:
    raise AssertionError("Torch not compiled with CUDA enabled")


def get_device_capability(device: Any = None) -> tuple[int, int]:
    raise AssertionError("Torch not compiled with CUDA enabled")


def empty_cache() -> None:
    """Frees nothing: there is no device."""


def manual_seed(seed: int) -> None:
    """Seeds nothing: there is no device."""


manual_seed_all = manual_seed
