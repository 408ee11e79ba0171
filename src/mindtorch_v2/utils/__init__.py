"""Tools beside the tensors themselves, as in torch.utils."""

from . import dlpack

__all__ = ["dlpack"]
