import math
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor

from . import constraints
from .cauchy import Cauchy
from .half_normal import Halved

__all__ = ["HalfCauchy"]


class HalfCauchy(Halved):
    """Absolute values of a Cauchy distribution around 0."""

    arg_constraints = {"scale": constraints.positive}

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self._halve(Cauchy(0, scale, validate_args=False), validate_args)

    mean = property(lambda self: torch.full(self._extended_shape(), math.inf, dtype=self.scale.dtype,
                                            device=self.scale.device))
    variance = property(lambda self: self.base_dist.variance)

    def _log_prob(self, value: Tensor) -> Tensor:
        value = torch.as_tensor(value, dtype=self.base_dist.scale.dtype, device=self.base_dist.scale.device)
        log_prob = (math.log(2 / math.pi) - self.scale.log()) - (value / self.scale).pow(2).log1p()
        return torch.where(value >= 0, log_prob, -math.inf)
