"""Questions of libraries about compiling."""

from typing import Any

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: Any) -> bool:
    """Whether functions on a device are compiled: none is."""
    return False
