"""Questions of libraries about compiling."""

import contextlib
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from .._core.tensor import Tensor
from .._core.warn import warn_once as _warn_once
from . import config

__all__ = ["clone_input", "counters", "disable_cache_limit", "is_compile_supported", "warn_once"]

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)  # graphs made for backends, and what ended them


def clone_input(x: Tensor, *, dtype: Any = None) -> Tensor:
    """A copy of a tensor, with the same geometry, that needs grad where it does."""
    with_type = x if dtype is None else x.to(dtype)
    return with_type.detach().clone().requires_grad_(x.requires_grad)


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warns, the first time that this text is given."""
    _warn_once(msg, stacklevel - 1)


@contextlib.contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Lets functions be compiled as often as they need inside."""
    before = config.recompile_limit
    config.recompile_limit = sys.maxsize
    try:
        yield
    finally:
        config.recompile_limit = before


def is_compile_supported(device_type: Any) -> bool:
    """Whether functions on a device are compiled: none is."""
    return False
