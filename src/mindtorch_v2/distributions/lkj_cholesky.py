import math
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Size, Tensor

from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, with density proportional to det^(concentration - 1)."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        self._beta = self._radii()
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args)

    def _radii(self) -> Beta:
        """For each row, the distribution of the squared distance of its off-diagonal part from the origin."""
        options: dict[str, Any] = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        marginal = self.concentration + 0.5 * (self.dim - 2)
        offset = torch.arange(self.dim - 1, **options)
        offset = torch.cat([offset.new_zeros((1,)), offset])
        return Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._beta = self._beta.expand(new.batch_shape + (self.dim,))
        return new

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples by the onion method: row after row on a hypersphere, scaled by a Beta radius."""
        squared = self._beta.sample(sample_shape).unsqueeze(-1)
        directions = torch.randn(self._extended_shape(sample_shape), dtype=squared.dtype, device=squared.device)
        directions = directions.tril(-1)
        directions = directions / directions.norm(dim=-1, keepdim=True)
        directions[..., 0, :].fill_(0.0)
        rows = torch.sqrt(squared) * directions
        diagonal = torch.clamp(1 - torch.sum(rows**2, dim=-1), min=torch.finfo(rows.dtype).tiny).sqrt()
        return rows + torch.diag_embed(diagonal)

    def _log_prob(self, value: Tensor) -> Tensor:
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = torch.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = torch.sum(order * diagonal.log(), dim=-1)
        smaller = self.dim - 1
        alpha = self.concentration + 0.5 * smaller
        normalizer = 0.5 * smaller * math.log(math.pi) + torch.mvlgamma(alpha - 0.5, smaller) - (
            torch.lgamma(alpha) * smaller)
        return unnormalized - normalizer
