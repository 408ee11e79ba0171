from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Size, Tensor

from . import constraints
from ._given_by_probs import OverCategories
from .binomial import Binomial

__all__ = ["Multinomial"]


class Multinomial(OverCategories):
    """How often each category comes up in `total_count` draws."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None,
                 validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._set_categories(probs, logits, validate_args)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._binomial = self._binomial.expand(new._batch_shape + self._event_shape)
        return new

    support = constraints.dependent_property(lambda self: constraints.multinomial(self.total_count), is_discrete=True,
                                             event_dim=1)
    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample(Size((self.total_count,)) + Size(sample_shape)).movedim(0, -1)
        counts = self.logits.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, drawn, torch.ones_like(drawn, dtype=counts.dtype))

    def entropy(self) -> Tensor:
        n = torch.tensor(self.total_count)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        expected_orders = (torch.exp(self._binomial.log_prob(counts)) * torch.lgamma(counts + 1)).sum([0, -1])
        return n * self._categorical.entropy() - torch.lgamma(n + 1) + expected_orders

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = torch.broadcast_tensors(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -torch.inf), 0)
        return torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)
