import math
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor

from . import constraints
from .distribution import Distribution

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """What exceeds a high threshold `loc`; exponential where `concentration` is 0."""

    concentration: Tensor
    loc: Tensor
    scale: Tensor
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._broadcast(validate_args, loc=loc, scale=scale, concentration=concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def _by_concentration(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is nearly 0, and the concentration with ones there."""
        flat = torch.isclose(self.concentration, torch.zeros((), dtype=self.concentration.dtype))
        return flat, torch.where(flat, torch.ones_like(self.concentration), self.concentration)

    def _log_prob(self, value: Tensor) -> Tensor:
        z, (flat, k) = self._z(value), self._by_concentration()
        power = (1 / k + torch.ones_like(z)) * torch.log1p(k * z)
        return -self.scale.log() - torch.where(flat, z, power)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of larger values."""
        if self._validate_args:
            self._validate_sample(value)
        z, (flat, k) = self._z(value), self._by_concentration()
        return torch.where(flat, -z, -torch.log1p(k * z) / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def _cdf(self, value: Tensor) -> Tensor:
        return torch.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        flat, k = self._by_concentration()
        rest = torch.log1p(-value)
        return torch.where(flat, self.loc - self.scale * rest, self.loc + self.scale * torch.expm1(-k * rest) / k)

    @property
    def mean(self) -> Tensor:
        known = self.concentration < 1
        k = torch.where(known, self.concentration, 0.5)
        return torch.where(known, self.loc + self.scale / (1 - k), math.nan)

    @property
    def variance(self) -> Tensor:
        known = self.concentration < 0.5
        k = torch.where(known, self.concentration, 0.25)
        return torch.where(known, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), math.nan)

    def entropy(self) -> Tensor:
        return (torch.log(self.scale) + self.concentration + 1).expand(self._batch_shape)

    mode = property(lambda self: self.loc)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        bounded = self.concentration < 0
        upper = torch.where(bounded, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)
