from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor

from . import constraints
from ._given_by_probs import OverCategories
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(OverCategories):
    """Logarithms of a relaxed one-hot vector: logits with Gumbel noise, divided by the temperature, normalized."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector  # of those, the ones whose exponentials sum to one
    has_rsample = True
    _kept = ("temperature",)

    def __init__(self, temperature: Tensor, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        self._set_categories(probs, logits, validate_args)
        self.temperature = temperature

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        uniforms = clamp_probs(torch.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-uniforms.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self._categorical._num_events
        logits, value = torch.broadcast_tensors(self.logits, value)
        scale = torch.full_like(self.temperature, float(n)).lgamma() - self.temperature.log().mul(-(n - 1))
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors of shares that tend to one-hot vectors as the temperature falls, with gradients for `probs`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature: Tensor, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args),
                         ExpTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)
