"""What autocast is set to in this thread, and torch's functions that read and change it."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

from .._core.device import device
from .._core.dtype import bfloat16, dtype, float16
from .._dispatch.keys import AUTOCAST_MASK, modes

# Device types that autocast knows, with the lower precision that each begins with.
LOWER = {"cpu": bfloat16, "cuda": float16, "npu": float16, "xpu": float16, "mps": float16, "hpu": bfloat16,
         "xla": bfloat16, "ipu": float16, "mtia": float16, "privateuseone": float16}


class State(threading.local):
    """The settings of one thread."""

    def __init__(self) -> None:
        self.enabled: frozenset[str] = frozenset()
        self.dtypes = dict(LOWER)
        self.caching = True
        self.nesting = 0
        # (id of a leaf, type) -> the leaf, kept so that the id stays its own, and its cast
        self.casts: dict[tuple[int, dtype], tuple[Any, Any]] = {}


state = State()


def known_device(device_type: str, function: str = "is_autocast_enabled") -> str:
    """The device type, if it is one that autocast knows."""
    if not isinstance(device_type, str):
        raise TypeError(f"{function}(): argument 'device_type' (position 1) must be str, not "
                        f"{type(device_type).__name__}")
    if device_type not in LOWER:
        device(device_type)  # which refuses what is no device at all
        raise RuntimeError("unsupported scalarType")
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows a device type."""
    device(device_type)
    return device_type in LOWER


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    return known_device(device_type) in state.enabled


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switches autocast for a device type, for "cuda" without one."""
    where, switch = ("cuda", device_type) if enabled is None else (device_type, enabled)
    if not isinstance(switch, bool):
        raise TypeError(f"set_autocast_enabled(): argument 'enabled' (position {1 if enabled is None else 2}) must be "
                        f"bool, not {type(switch).__name__}")
    name = {known_device(where, "set_autocast_enabled")}  # type: ignore[arg-type]
    state.enabled = state.enabled | name if switch else state.enabled - name
    modes.update(include=modes.include | AUTOCAST_MASK if state.enabled else modes.include & ~AUTOCAST_MASK)


def get_autocast_dtype(device_type: str) -> dtype:
    """The lower precision that is in force for a device type, or would be."""
    return state.dtypes[known_device(device_type, "get_autocast_dtype")]


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    if not isinstance(dtype, _dtype):
        raise TypeError("set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not "
                        f"{type(dtype).__name__}")
    state.dtypes[known_device(device_type, "set_autocast_dtype")] = dtype


_dtype = dtype  # the function above has a parameter of that name


def is_autocast_cache_enabled() -> bool:
    return state.caching


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether casts of parameters are kept until the outermost context ends."""
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool (got {type(enabled).__name__})")
    state.caching = enabled


def clear_autocast_cache() -> None:
    state.casts.clear()


def autocast_increment_nesting() -> int:
    state.nesting += 1
    return state.nesting


def autocast_decrement_nesting() -> int:
    state.nesting -= 1
    return state.nesting


def _old_form(old: str, parameter: str, new: str, function: Callable) -> Callable:
    """A function for one device type, which says what to call instead."""

    def form(*values: Any) -> Any:
        warnings.warn(f"torch.{old}({parameter}) is deprecated. Please use torch.{new} instead.", DeprecationWarning,
                      stacklevel=2)
        return function(*values)

    form.__name__ = form.__qualname__ = old
    return form


def _old_forms() -> dict[str, Callable]:
    made = {}
    for short, name in (("cpu", "cpu"), ("ipu", "ipu"), ("xla", "xla"), ("gpu", "cuda")):
        forms = {f"get_autocast_{short}_dtype": ("", get_autocast_dtype),
                 f"set_autocast_{short}_dtype": ("dtype", set_autocast_dtype)}
        if short != "gpu":  # whose switches are the forms without a device type
            forms |= {f"is_autocast_{short}_enabled": ("", is_autocast_enabled),
                      f"set_autocast_{short}_enabled": ("enabled", set_autocast_enabled)}
        for old, (parameter, function) in forms.items():
            new = f"{function.__name__}('{name}'{', ' if parameter else ''}{parameter})"
            made[old] = _old_form(old, parameter, new, lambda *values, f=function, d=name: f(d, *values))
    return made


globals().update(_old_forms())
