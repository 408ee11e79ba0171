import math
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor

from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import _standard_normal

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Normal numbers divided by the root of a chi-squared one, which makes the tails heavy for few `df`."""

    df: Tensor
    loc: Tensor
    scale: Tensor
    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self._broadcast(validate_args, df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df)

    mean = property(lambda self: self.loc.masked_fill(self.df <= 1, math.nan))
    mode = property(lambda self: self.loc)

    @property
    def variance(self) -> Tensor:
        df = self.df
        finite = self.scale.pow(2) * df / (df - 2)
        return torch.where(df > 2, finite, torch.where(df > 1, math.inf, math.nan).to(finite))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        X = _standard_normal(self._extended_shape(sample_shape), dtype=self.df.dtype, device=self.df.device)
        return self.loc + self.scale * (X * torch.rsqrt(self._chi2.rsample(sample_shape) / self.df))

    def _log_beta(self) -> Tensor:
        """log of sqrt(df) B(df / 2, 1 / 2)."""
        return (0.5 * self.df.log() + 0.5 * math.log(math.pi) + torch.lgamma(0.5 * self.df)
                - torch.lgamma(0.5 * (self.df + 1.0)))

    def _log_prob(self, value: Tensor) -> Tensor:
        y = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1.0) * torch.log1p(y**2.0 / self.df) - self.scale.log() - self._log_beta()

    def entropy(self) -> Tensor:
        spread = 0.5 * (self.df + 1) * (torch.digamma(0.5 * (self.df + 1)) - torch.digamma(0.5 * self.df))
        return self.scale.log() + spread + self._log_beta()
