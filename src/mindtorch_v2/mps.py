"""torch.mps: devices that this library does not use."""

from typing import Any

from ._absent import absent_class

__all__ = ["Event", "Stream", "current_device", "device_count", "empty_cache", "is_available", "manual_seed",
           "manual_seed_all", "synchronize"]

Event, Stream = absent_class("torch.mps.Event"), absent_class("torch.mps.Stream")


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def device_count() -> int:
    return 0


def current_device() -> int:
    raise RuntimeError("No mps device is available.")


def synchronize(device: Any = None) -> None:
    raise RuntimeError("No mps device is available.")


def empty_cache() -> None:
    """Frees nothing: there is no device."""


def manual_seed(seed: int) -> None:
    """Seeds nothing: there is no device."""


manual_seed_all = manual_seed
