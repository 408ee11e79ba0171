"""torch.cpu.amp and torch.cuda.amp: torch.amp for one device type, under old names that warn."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .._core.dtype import dtype
from .autocast_mode import autocast
from .grad_scaler import GradScaler


def _warn(device: str, name: str, new: str) -> None:
    warnings.warn(f"`torch.{device}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{new}` instead.",
                  FutureWarning, stacklevel=3)


def autocast_of(device: str, lower: dtype) -> type[autocast]:
    """`torch.autocast` for a device type."""

    def __init__(self: Any, enabled: bool = True, dtype: dtype = lower, cache_enabled: bool = True) -> None:
        _warn(device, "autocast", f"autocast('{device}', args...)")
        autocast.__init__(self, device, dtype, enabled, cache_enabled)

    return _named("autocast", device, autocast, __init__)


def scaler_of(device: str) -> type[GradScaler]:
    """`torch.amp.GradScaler` for a device type."""

    def __init__(self: Any, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:
        _warn(device, "GradScaler", f"GradScaler('{device}', args...)")
        GradScaler.__init__(self, device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    return _named("GradScaler", device, GradScaler, __init__)


def _named(name: str, device: str, base: type, init: Callable) -> Any:
    package = __package__.rpartition(".")[0]
    module = {"autocast": "autocast_mode", "GradScaler": "grad_scaler"}[name]
    return type(name, (base,), {"__init__": init, "__doc__": f"`torch.amp.{name}` for the device type \"{device}\".",
                                "__module__": f"{package}.{device}.amp.{module}"})


def decorator_of(device: str, function: Callable) -> Callable:
    """`custom_fwd` or `custom_bwd` for a device type."""

    @functools.wraps(function)
    def decorator(*args: Any, **kwargs: Any) -> Any:
        _warn(device, function.__name__, f"{function.__name__}(args..., device_type='{device}')")
        return function(*args, device_type=device, **kwargs)

    return decorator
