"""Names of torch.autograd.grad_mode, and switches that programs write around backward passes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]


class _Switch:
    """A setting that is made at once and taken back at the end of a `with` block."""

    value: bool

    def __init__(self, mode: bool) -> None:
        self.mode, self.before = mode, type(self).value
        type(self).value = mode

    def __enter__(self) -> None:
        """The setting is made already."""

    def __exit__(self, *error: Any) -> None:
        type(self).value = self.before

    def clone(self) -> "_Switch":
        return type(self)(self.mode)


class set_multithreading_enabled(_Switch):
    """Whether a backward pass may use threads of its own; here it never does."""

    value = True


class _force_original_view_tracking(_Switch):
    """Whether PyTorch would make written views anew by their operators; here their geometry decides either way."""

    value = False


@contextmanager
def _unsafe_preserve_version_counter(tensors: Any) -> Iterator[None]:
    """Context after which writes to tensors have not been counted."""
    tensors = tensors if isinstance(tensors, tuple) else (tensors,)
    versions = [tensor._version for tensor in tensors]
    yield
    for tensor, version in zip(tensors, versions, strict=True):
        tensor._expose()  # since two versions have one number now
        tensor._version_counter.value = version
