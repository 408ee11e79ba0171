import math
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor
from mindtorch_v2.nn import functional as F

from . import constraints
from ._given_by_probs import GivenByProbs
from .exp_family import ExponentialFamily
from .utils import clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(GivenByProbs, ExponentialFamily):
    """Numbers in [0, 1] with density proportional to probs^x (1 - probs)^(1 - x).

    Formulas are singular at probs = 0.5; within `lims` Taylor expansions stand for them.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
                 validate_args: bool | None = None) -> None:
        self._lims = lims
        self._set_binary(probs, logits, validate_args)
        # PyTorch looks at probabilities here wherever the argument is given, also as False.
        if "probs" in self.__dict__ and validate_args is not None:
            if not self.arg_constraints["probs"].check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
        if "probs" in self.__dict__:
            self.probs = clamp_probs(self.probs)

    @lazy_property
    def probs(self) -> Tensor:  # type: ignore[override]
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """Probabilities with the region around 0.5 replaced by its lower end."""
        return torch.where(self._outside_unstable_region(), self.probs, self._lims[0] * torch.ones_like(self.probs))

    def _cont_bern_log_norm(self) -> Tensor:
        """The logarithm of the normalizing constant."""
        cut = self._cut_probs()
        below = torch.where(cut <= 0.5, cut, torch.zeros_like(cut))
        above = torch.where(cut >= 0.5, cut, torch.ones_like(cut))
        distance = torch.where(cut <= 0.5, torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0))
        outside = torch.log(torch.abs(torch.log1p(-cut) - torch.log(cut))) - distance
        x = torch.pow(self.probs - 0.5, 2)
        return torch.where(self._outside_unstable_region(), outside, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        cut = self._cut_probs()
        x = self.probs - 0.5
        return torch.where(self._outside_unstable_region(),
                           cut / (2.0 * cut - 1.0) + 1.0 / (torch.log1p(-cut) - torch.log(cut)),
                           0.5 + (1.0 / 3.0 + 16.0 / 45.0 * torch.pow(x, 2)) * x)

    @property
    def variance(self) -> Tensor:
        cut = self._cut_probs()
        x = torch.pow(self.probs - 0.5, 2)
        return torch.where(self._outside_unstable_region(),
                           cut * (cut - 1.0) / torch.pow(1.0 - 2.0 * cut, 2)
                           + 1.0 / torch.pow(torch.log1p(-cut) - torch.log(cut), 2),
                           1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    stddev = property(lambda self: torch.sqrt(self.variance))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(torch.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype,
                                    device=self.probs.device))

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = torch.broadcast_tensors(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def _cdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        inside = (torch.pow(cut, value) * torch.pow(1.0 - cut, 1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        unbounded = torch.where(self._outside_unstable_region(), inside, value)
        return torch.where(torch.le(value, 0.0), torch.zeros_like(value),
                           torch.where(torch.ge(value, 1.0), torch.ones_like(value), unbounded))

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        inverse = (torch.log1p(-cut + value * (2.0 * cut - 1.0)) - torch.log1p(-cut)) / (
            torch.log(cut) - torch.log1p(-cut))
        return torch.where(self._outside_unstable_region(), inverse, value)

    def entropy(self) -> Tensor:
        log_rest, log_probs = torch.log1p(-self.probs), torch.log(self.probs)
        return self.mean * (log_rest - log_probs) - self._cont_bern_log_norm() - log_rest

    _natural_params = property(lambda self: (self.logits,))

    def _log_normalizer(self, x: Tensor) -> Tensor:
        """log((exp(x) - 1) / x), with its Taylor expansion around 0."""
        outside = (x <= logits_limit(self._lims[0])) | (x > logits_limit(self._lims[1]))
        cut = torch.where(outside, x, logits_limit(self._lims[0]) * torch.ones_like(x))
        return torch.where(outside, torch.log(torch.abs(torch.special.expm1(cut))) - torch.log(torch.abs(cut)),
                           0.5 * x + torch.pow(x, 2) / 24.0 - torch.pow(x, 4) / 2880.0)


def logits_limit(p: float) -> float:
    return math.log(p / (1 - p))
