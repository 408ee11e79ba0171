"""Masked tensors of tensors and masks."""

from typing import Any

from .core import MaskedTensor, _Made

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """A new leaf with these elements and this mask."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """A masked tensor of `data`, which gets the gradient."""
    return _Made.apply(data, mask)
