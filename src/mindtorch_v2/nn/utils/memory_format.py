"""Memory formats of convolution weights."""

from typing import TypeVar

import mindtorch_v2 as torch

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def convert_conv2d_weight_memory_format(module: M, memory_format: torch.memory_format) -> M:
    """The module, the weights of whose 2-d convolutions lie in memory as asked for."""
    return _converted(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: M, memory_format: torch.memory_format) -> M:
    """The module, the weights of whose 3-d convolutions lie in memory as asked for."""
    return _converted(module, (Conv3d, ConvTranspose3d), memory_format)


def _converted(module: M, kinds: tuple[type[Module], ...], memory_format: torch.memory_format) -> M:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module
