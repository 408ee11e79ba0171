"""Parametrizations of weights: orthogonal, of unit spectral norm, or with a length of their own."""

from enum import Enum
from typing import Any, TypeVar

import mindtorch_v2 as torch

from .. import functional as F
from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module
from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)

_OrthMaps = Enum("_OrthMaps", ("matrix_exp", "cayley", "householder"))


def _is_orthogonal(matrix: torch.Tensor, eps: float | None = None) -> bool:
    """Whether the columns are orthonormal, up to rounding."""
    rows, columns = matrix.shape[-2:]
    identity = torch.eye(columns, dtype=matrix.dtype, device=matrix.device)
    tolerance = 10.0 * rows * torch.finfo(matrix.dtype).eps if eps is None else eps
    return torch.allclose(matrix.mH @ matrix, identity, atol=tolerance)


def _make_orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """The factor Q of a tall matrix's QR decomposition, the one for which R has a diagonal without negative entries."""
    reflectors, tau = torch.geqrf(matrix)
    q = torch.linalg.householder_product(reflectors, tau)
    q *= reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return q


class _Orthogonal(Module):
    """A matrix as an orthogonal one, counted from the orthogonal matrix `base` if trivialised."""

    base: torch.Tensor

    def __init__(self, weight: torch.Tensor, orthogonal_map: Any, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        wide = X.size(-2) < X.size(-1)
        tall = X.mT if wide else X
        q = self._from_reflectors(tall) if self.orthogonal_map == _OrthMaps.householder else self._from_skew(tall)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _from_reflectors(self, tall: torch.Tensor) -> torch.Tensor:
        """The product of the reflections that the columns below the diagonal give, each times the diagonal's sign."""
        below = tall.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (below * below).sum(dim=-2))
        return torch.linalg.householder_product(below, tau) * tall.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def _from_skew(self, tall: torch.Tensor) -> torch.Tensor:
        """The first columns of the exponential or Cayley map of the skew matrix that the lower triangle gives."""
        rows, columns = tall.shape[-2:]
        lower = tall.tril()
        if rows != columns:
            lower = torch.cat([lower, lower.new_zeros(*lower.shape[:-1], rows - columns)], dim=-1)
        skew = lower - lower.mH
        if self.orthogonal_map == _OrthMaps.matrix_exp:
            return torch.matrix_exp(skew)[..., :columns]
        identity = torch.eye(rows, dtype=skew.dtype, device=skew.device)
        return torch.linalg.solve(torch.add(identity, skew, alpha=-0.5), torch.add(identity, skew, alpha=0.5))[
            ..., :columns]

    def right_inverse(self, Q: torch.Tensor) -> torch.Tensor:
        """What is stored for Q; a trivialised one takes Q, made orthogonal, as its base."""
        if Q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape "
                             f"{Q.shape}.")
        wide = Q.size(-2) < Q.size(-1)
        tall = Q.mT if wide else Q
        if not hasattr(self, "base"):
            stored = self._reflectors(tall)
            return stored.mT if wide else stored
        rows, columns = tall.shape[-2:]
        if rows != columns:
            more = torch.randn(*tall.shape[:-2], rows, rows - columns, dtype=tall.dtype, device=tall.device)
            self.base = _make_orthogonal(torch.cat([tall, more], dim=-1))
        else:
            self.base = tall.clone() if _is_orthogonal(tall) else _make_orthogonal(tall)
        start = torch.zeros_like(Q)  # what both kinds of map take to the identity
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start

    def _reflectors(self, tall: torch.Tensor) -> torch.Tensor:
        if self.orthogonal_map != _OrthMaps.householder:
            raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley "
                                      "parametrizations when use_trivialization=False.")
        stored, tau = torch.geqrf(tall)
        diagonal = stored.diagonal(dim1=-2, dim2=-1)
        diagonal.sign_()
        diagonal[tau == 0.0] *= -1  # no reflection there: householder_product would make one of it
        return stored


def orthogonal(module: M, name: str = "weight", orthogonal_map: str | None = None, *,
               use_trivialization: bool = True) -> M:
    """The module with an orthogonal (or unitary) matrix, or batch of matrices, of that name."""
    weight = _weight(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    chosen = _OrthMaps.__members__.get(orthogonal_map)
    if chosen is None:
        raise ValueError('orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
                         f"{orthogonal_map}")
    parametrization = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)


class _WeightNorm(Module):
    """A weight as its norms along `dim` and its directions."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: torch.Tensor, weight_v: torch.Tensor) -> torch.Tensor:
        return torch._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: M, name: str = "weight", dim: int = 0) -> M:
    """The module with a weight stored as length (original0) and direction (original1) along `dim`."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def accept_older_names(state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        older = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in older):
            for i, key in enumerate(older):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(accept_older_names)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which power iteration tracks during training."""

    _u: torch.Tensor
    _v: torch.Tensor

    def __init__(self, weight: torch.Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got "
                             f"n_power_iterations={n_power_iterations}")
        self.dim, self.eps = dim % ndim, eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            for buffer, size in zip(("_u", "_v"), matrix.shape, strict=True):
                drawn = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(buffer, F.normalize(drawn, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: torch.Tensor) -> torch.Tensor:
        """The weight with `dim` first and the others flattened."""
        return weight.movedim(self.dim, 0).flatten(1)

    @torch.no_grad()
    def _power_method(self, weight_mat: torch.Tensor, n_power_iterations: int) -> None:
        """Brings the buffers nearer to the first singular vectors, in place."""
        for _ in range(n_power_iterations):
            self._u.copy_(F.normalize(torch.mv(weight_mat, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(torch.mv(weight_mat.H, self._u), dim=0, eps=self.eps))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next iteration writes to the buffers
        return weight / torch.vdot(u, torch.mv(matrix, v))

    def right_inverse(self, value: torch.Tensor) -> torch.Tensor:
        return value


def spectral_norm(module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> M:
    """The module with a weight of spectral norm one."""
    weight = _weight(module, name)
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


def _weight(module: Module, name: str) -> torch.Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, torch.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight
