from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor
from mindtorch_v2.nn import functional as F

from . import constraints
from ._given_by_probs import GivenByProbs

__all__ = ["Geometric"]


class Geometric(GivenByProbs):
    """How many trials fail before the first that succeeds."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_binary(probs, logits, validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            invalid = self.probs[self.probs <= 0]
            shown = f"({type(self.probs).__name__} of shape {tuple(self.probs.shape)})"
            raise ValueError(f"Expected parameter probs {shown} of distribution {self!r} to be positive but found "
                             f"invalid values:\n{invalid}")

    mean = property(lambda self: 1.0 / self.probs - 1.0)
    mode = property(lambda self: torch.zeros_like(self.probs))
    variance = property(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with torch.no_grad():
            drawn = self.probs.new(self._extended_shape(sample_shape)).uniform_(torch.finfo(self.probs.dtype).tiny, 1)
            return (drawn.log() / (-self.probs).log1p()).floor()

    def _log_prob(self, value: Tensor) -> Tensor:
        value, probs = torch.broadcast_tensors(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
