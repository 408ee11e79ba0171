import math
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The largest of many samples."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        finfo = torch.finfo(self.loc.dtype)
        low, high = finfo.tiny, 1 - finfo.eps
        base = Uniform(torch.full_like(self.loc, low), torch.full_like(self.loc, high), validate_args=validate_args)
        super().__init__(  # -log(-log(u)), scaled and shifted
            base,
            [ExpTransform().inv, AffineTransform(loc=0, scale=-torch.ones_like(self.scale)), ExpTransform().inv,
             AffineTransform(loc=self.loc, scale=-self.scale)],
            validate_args=validate_args,
        )

    def _log_prob(self, value: Tensor) -> Tensor:
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    mean = property(lambda self: self.loc + self.scale * euler_constant)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: math.pi / math.sqrt(6) * self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
