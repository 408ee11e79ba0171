from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Size, Tensor

from . import constraints
from ._given_by_probs import GivenByProbs, one_of
from .distribution import Distribution

__all__ = ["Categorical"]


class Categorical(GivenByProbs):
    """The index of one of several categories, by the last dimension of `probs` or `logits`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _binary = False

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name, given = one_of(probs, logits)
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        self.__dict__[name] = (given / given.sum(-1, keepdim=True) if name == "probs"
                               else given - given.logsumexp(dim=-1, keepdim=True))
        self._num_events = given.size(-1)
        Distribution.__init__(self, given.size()[:-1], validate_args=validate_args)

    support = constraints.dependent_property(lambda self: constraints.integer_interval(0, self._num_events - 1),
                                             is_discrete=True, event_dim=0)
    mode = property(lambda self: self.probs.argmax(dim=-1))

    def _no_moment(self) -> Tensor:
        return torch.full(self._extended_shape(), torch.nan, dtype=self.probs.dtype, device=self.probs.device)

    mean = variance = property(_no_moment)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        sample_shape = Size(sample_shape)
        drawn = torch.multinomial(self.probs.reshape(-1, self._num_events), sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        value, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = torch.clamp(self.logits, min=torch.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(torch.arange(self._num_events, dtype=torch.long, device=self._param.device), expand)
