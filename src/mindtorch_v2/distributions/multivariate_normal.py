import math
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor

from . import constraints
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices times vectors, with any batch dimensions."""
    return torch.matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """The squared length of L^-1 x for lower triangular L.

    The batch of L may be that of x with leading dimensions left out or of size one; x is arranged so that each L is
    solved for once, with all its x as columns.
    """
    n, batch = bx.size(-1), bx.shape[:-1]
    lower = bL.shape[:-2]
    leading = len(batch) - len(lower)
    counts = [b // l for b, l in zip(batch[leading:], lower)]
    split = bx.reshape(batch[:leading] + tuple(s for pair in zip(counts, lower) for s in pair) + (n,))
    depth = 2 * len(lower)
    repeated = list(range(leading)) + list(range(leading, leading + depth, 2))
    own = list(range(leading + 1, leading + depth, 2))
    order = repeated + own + [leading + depth]
    columns = split.permute(order)
    flat_L, flat_x = bL.reshape(-1, n, n), columns.reshape(-1, math.prod(lower), n).permute(1, 2, 0)
    distance = torch.linalg.solve_triangular(flat_L, flat_x, upper=False).pow(2).sum(-2)
    arranged = distance.t().reshape(columns.shape[:-1])
    back = sorted(range(len(order) - 1), key=order.__getitem__)
    return arranged.permute(back).reshape(batch)


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The Cholesky factor of P^-1, from that of P with rows and columns in reverse."""
    flipped = torch.linalg.cholesky(torch.flip(P, (-2, -1)))
    L_inv = torch.transpose(torch.flip(flipped, (-2, -1)), -2, -1)
    return torch.linalg.solve_triangular(L_inv, torch.eye(P.shape[-1], dtype=P.dtype, device=P.device), upper=False)


class GivenByMatrix(Distribution):
    """Keeps one of covariance, precision and Cholesky factor, and computes the others when first asked for."""

    _unbroadcasted_scale_tril: Tensor
    _kept = ("_unbroadcasted_scale_tril",)

    def _full(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape[-1:] + self._event_shape[-1:])

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._full(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self._full(torch.matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return self._full(torch.cholesky_inverse(self._unbroadcasted_scale_tril))

    def _set_scale(self, name: str, matrix: Tensor) -> None:
        self._unbroadcasted_scale_tril = (
            matrix if name == "scale_tril" else torch.linalg.cholesky(matrix) if name == "covariance_matrix"
            else _precision_to_scale_tril(matrix))

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(GivenByMatrix):
    """Normal vectors, given by a covariance matrix, its inverse or its Cholesky factor."""

    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrices = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril,
                    "precision_matrix": precision_matrix}
        given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given
        if matrix.dim() < 2:
            shown = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{shown} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand(batch_shape + (-1, -1))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._set_scale(name, matrix)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(
        self._batch_shape + self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        eps = _standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def _log_prob(self, value: Tensor) -> Tensor:
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        H = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return H.expand(self._batch_shape) if self._batch_shape else H
