"""torch.autocast: contexts in which matrix products take a lower precision, and operators that need it float32."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, Literal

from .._core.dtype import bfloat16, dtype, float16
from ._casts import cast
from ._state import (
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
    state,
)

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]


def _checked(device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return device_type


def _usable(device: str, chosen: dtype) -> bool:
    """Whether a device can compute in a type; warns if not."""
    if device == "cuda":
        from .. import cuda

        if not cuda.is_available():
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=3)
            return False
        if chosen is bfloat16 and not cuda.is_bf16_supported():
            raise RuntimeError("Current CUDA Device does not support bfloat16. Please switch dtype to float16.")
        return True
    if chosen not in (bfloat16, float16):
        warnings.warn(f"In {device.upper()} autocast, but the target dtype is not supported. Disabling autocast.\n"
                      f"{device.upper()} Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                      stacklevel=3)
        return False
    return True


class autocast:
    """Context manager and decorator in which operators on `device_type` choose their precision."""

    def __init__(self, device_type: str, dtype: dtype | None = None, enabled: bool = True,
                 cache_enabled: bool | None = None) -> None:
        self.device = _checked(device_type)
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled and _usable(device_type, self.fast_dtype))
        self._previous: list[tuple[bool, Any, bool]] = []

    def __enter__(self) -> "autocast":
        self._previous.append((is_autocast_enabled(self.device), get_autocast_dtype(self.device), state.caching))
        self._set(self._enabled, self.fast_dtype, self._cache_enabled)
        autocast_increment_nesting()
        return self

    def __exit__(self, *exception: object) -> Literal[False]:
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        self._set(*self._previous.pop())
        return False

    def _set(self, enabled: bool, chosen: dtype, caching: bool) -> None:
        set_autocast_enabled(self.device, enabled)
        set_autocast_dtype(self.device, chosen)
        set_autocast_cache_enabled(caching)

    def __call__(self, func: Callable) -> Callable:
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: autocast, func: Callable) -> Callable:
    """The function, run inside the context."""

    @functools.wraps(func)
    def decorate_autocast(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorate_autocast


def settings() -> list[autocast]:
    """Contexts that put the present settings of this thread in force again."""
    return [autocast(name, state.dtypes[name], name in state.enabled, state.caching) for name in ("cpu", "cuda", "npu")]


def custom_fwd(fwd: Callable | None = None, *, device_type: str, cast_inputs: dtype | None = None) -> Callable:
    """A Function's `forward` that remembers autocast for its `backward`; with `cast_inputs`, run outside of it."""
    _checked(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args: Any, **kwargs: Any) -> Any:
        enabled = is_autocast_enabled(device_type)
        args[0]._dtype = get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = cast_inputs is None and enabled
        if cast_inputs is None or not enabled:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*cast(args, cast_inputs, device_type), **cast(kwargs, cast_inputs, device_type))

    return decorate_fwd


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """A Function's `backward` under the autocast that its `forward` ran under."""
    _checked(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, args[0]._dtype, args[0]._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return decorate_bwd
