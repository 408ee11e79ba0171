from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor

from . import constraints
from ._given_by_probs import GivenByProbs

__all__ = ["Binomial"]


def _clamp_by_zero(x: Tensor) -> Tensor:
    """max(x, 0), with half the gradient at 0."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(GivenByProbs):
    """How many of `total_count` trials succeed, each with probability `probs`."""

    total_count: Tensor
    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
                       "logits": constraints.real}
    has_enumerate_support = True

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self._set_binary(probs, logits, validate_args, total_count=total_count)

    support = constraints.dependent_property(lambda self: constraints.integer_interval(0, self.total_count),
                                             is_discrete=True, event_dim=0)
    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        n, logits = self.total_count, self.logits
        orders = torch.lgamma(value + 1) + torch.lgamma(n - value + 1)
        # n * softplus(logits) - lgamma(n + 1), in a form that stays exact for large |logits|
        normalizer = n * _clamp_by_zero(logits) + n * torch.log1p(torch.exp(-logits.abs())) - torch.lgamma(n + 1)
        return value * logits - orders - normalizer

    def entropy(self) -> Tensor:
        log_prob = self.log_prob(self.enumerate_support(expand=False))
        return -(torch.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        largest = int(self.total_count.max())
        if not self.total_count.min() == largest:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._enumerated(torch.arange(1 + largest, dtype=self._param.dtype, device=self._param.device), expand)
