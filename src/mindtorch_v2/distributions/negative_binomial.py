from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor
from mindtorch_v2.nn import functional as F

from . import constraints
from ._given_by_probs import GivenByProbs
from .gamma import Gamma
from .utils import lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(GivenByProbs):
    """How many trials succeed before `total_count` of them have failed."""

    total_count: Tensor
    arg_constraints = {"total_count": constraints.greater_than_eq(0),
                       "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self._set_binary(probs, logits, validate_args, total_count=total_count)

    mean = property(lambda self: self.total_count * torch.exp(self.logits))
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = property(lambda self: self.mean / torch.sigmoid(-self.logits))

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(concentration=self.total_count, rate=torch.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape=sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        unnormalized = self.total_count * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        normalizer = (-torch.lgamma(self.total_count + value) + torch.lgamma(1.0 + value)
                      + torch.lgamma(self.total_count))
        return unnormalized - normalizer.masked_fill(self.total_count + value == 0.0, 0.0)
