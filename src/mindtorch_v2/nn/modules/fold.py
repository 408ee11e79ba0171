"""Blocks of images as columns, and back."""

from typing import Any

import mindtorch_v2 as torch

from .. import functional as F
from ._settings import ShownSettings, settings

__all__ = ["Fold", "Unfold"]


@settings
class Fold(ShownSettings):
    """Images of which the columns of the input are blocks, added up where they overlap."""

    output_size: Any
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


@settings
class Unfold(ShownSettings):
    """Every block of the images as a column."""

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
