"""Questions of libraries about compiling."""

from typing import Any

from .._core.tensor import Tensor

__all__ = ["clone_input", "is_compile_supported"]


def clone_input(x: Tensor, *, dtype: Any = None) -> Tensor:
    """A copy of a tensor, with the same geometry, that needs grad where it does."""
    with_type = x if dtype is None else x.to(dtype)
    return with_type.detach().clone().requires_grad_(x.requires_grad)


def is_compile_supported(device_type: Any) -> bool:
    """Whether functions on a device are compiled: none is."""
    return False
