"""Pixels into channels and back, and channels among themselves."""

import mindtorch_v2 as torch

from .. import functional as F
from ._settings import ShownSettings, settings

__all__ = ["PixelShuffle", "PixelUnshuffle", "ChannelShuffle"]


@settings
class PixelShuffle(ShownSettings):
    """Lays groups of channels out as pixels of a larger image."""

    upscale_factor: int

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)


@settings
class PixelUnshuffle(ShownSettings):
    """Takes squares of pixels apart into channels of a smaller image."""

    downscale_factor: int

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)


@settings
class ChannelShuffle(ShownSettings):
    """Brings channels of different groups next to each other."""

    groups: int

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.channel_shuffle(input, self.groups)
