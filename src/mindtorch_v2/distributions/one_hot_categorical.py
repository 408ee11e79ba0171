from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor
from mindtorch_v2.nn import functional as F

from . import constraints
from ._given_by_probs import OverCategories

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OverCategories):
    """One of several categories, as a vector with a 1 in its place."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_categories(probs, logits, validate_args)

    mean = property(lambda self: self._categorical.probs)
    variance = property(lambda self: self._categorical.probs * (1 - self._categorical.probs))
    mode = property(lambda self: self._one_hot(self._categorical.probs.argmax(dim=-1)))

    def _one_hot(self, index: Tensor) -> Tensor:
        return F.one_hot(index, self._categorical._num_events).to(self._param)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = torch.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n,) + self.batch_shape + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with the gradient of the probabilities as that of the samples."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        samples, probs = self.sample(sample_shape), self._categorical.probs
        return samples + (probs - probs.detach())
