import math
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


def _moments(a: Tensor, b: Tensor, n: int) -> Tensor:
    """The n-th moment."""
    power = 1 + n / a
    return torch.exp(torch.log(b) + torch.lgamma(power) + torch.lgamma(b) - torch.lgamma(power + b))


class Kumaraswamy(TransformedDistribution):
    """Numbers between 0 and 1, much like Beta but with a distribution function that can be inverted."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        ones = torch.ones_like(self.concentration0)
        base = Uniform(torch.zeros_like(ones), ones, validate_args=validate_args)
        transforms = [PowerTransform(exponent=self.concentration0.reciprocal()), AffineTransform(loc=1.0, scale=-1.0),
                      PowerTransform(exponent=self.concentration1.reciprocal())]
        super().__init__(base, transforms, validate_args=validate_args)

    mean = property(lambda self: _moments(self.concentration1, self.concentration0, 1))

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = a.reciprocal() * (-b).log1p() - (-a * b).log1p()
        return torch.where((a < 1) | (b < 1), math.nan, log_mode.exp())

    variance = property(lambda self: _moments(self.concentration1, self.concentration0, 2) - self.mean.pow(2))

    def entropy(self) -> Tensor:
        t1, t0 = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = torch.digamma(self.concentration0 + 1) + euler_constant
        return t0 + t1 * harmonic - torch.log(self.concentration1) - torch.log(self.concentration0)
