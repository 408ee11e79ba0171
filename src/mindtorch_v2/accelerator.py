"""torch.accelerator: the device of this process that is not its CPU, if it has one."""

from typing import Any

from ._core.device import device as _Device

__all__ = ["current_accelerator", "current_device_index", "current_stream", "device_count", "is_available",
           "set_device_index", "synchronize"]


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


def current_device_index() -> int:
    return _needed().current_device()


def set_device_index(device: Any) -> None:
    _needed().set_device(device)


def current_stream(device: Any = None) -> Any:
    return _needed().current_stream(device)


def synchronize(device: Any = None) -> None:
    _needed().synchronize(device)


def empty_cache() -> None:
    _needed().empty_cache()


current_device_idx, set_device_idx = current_device_index, set_device_index
