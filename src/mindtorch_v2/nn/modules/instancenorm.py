"""Normalisation of each channel of each sample by itself."""

import warnings
from typing import Any

import mindtorch_v2 as torch

from .. import functional as F
from .batchnorm import _LazyNormBase, _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
           "LazyInstanceNorm3d"]


class _InstanceNorm(_NormBase):
    """Every channel of every sample brought to mean 0 and variance 1, then scaled and shifted."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Any = None, dtype: Any = None, *,
                 bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        return self._ranks[0]

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        unbatched = input.dim() == self._ranks[0]
        channels = 0 if unbatched else 1
        if input.size(channels) != self.num_features:
            if self.affine:
                raise ValueError(f"expected input's size at dim={channels} to match num_features "
                                 f"({self.num_features}), but got: {input.size(channels)}.")
            warnings.warn(f"input's size at dim={channels} does not match num_features. You can silence this warning "
                          "by not passing in num_features, which is not used because affine=False", stacklevel=2)
        made = F.instance_norm(input.unsqueeze(0) if unbatched else input, self.running_mean, self.running_var,
                               self.weight, self.bias, self.training or not self.track_running_stats,
                               0.0 if self.momentum is None else self.momentum, self.eps)
        return made.squeeze(0) if unbatched else made


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of sequences."""

    _ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of images."""

    _ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of volumes."""

    _ranks = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d with as many channels as its first input."""

    cls_to_become = InstanceNorm1d
    _ranks = (2, 3)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d with as many channels as its first input."""

    cls_to_become = InstanceNorm2d
    _ranks = (3, 4)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d with as many channels as its first input."""

    cls_to_become = InstanceNorm3d
    _ranks = (4, 5)
