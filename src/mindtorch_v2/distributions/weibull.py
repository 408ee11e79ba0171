from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Times to failure at a rate that changes with a power of time."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        super().__init__(Exponential(torch.ones_like(self.scale), validate_args=validate_args),
                         [PowerTransform(exponent=self.concentration_reciprocal),
                          AffineTransform(loc=0, scale=self.scale)], validate_args=validate_args)

    def _log_moment(self, n: int) -> Tensor:
        return torch.lgamma(1 + n * self.concentration_reciprocal)

    mean = property(lambda self: self.scale * torch.exp(self._log_moment(1)))

    @property
    def mode(self) -> Tensor:
        share = (self.concentration - 1) / self.concentration
        return self.scale * share ** self.concentration.reciprocal()

    variance = property(lambda self: self.scale.pow(2) * (
        torch.exp(self._log_moment(2)) - torch.exp(2 * self._log_moment(1))))

    def entropy(self) -> Tensor:
        return (euler_constant * (1 - self.concentration_reciprocal)
                + torch.log(self.scale * self.concentration_reciprocal) + 1)
