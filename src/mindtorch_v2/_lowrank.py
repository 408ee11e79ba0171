"""Singular values of matrices of low rank, from the image of a few random vectors."""

from typing import Any

from ._core.tensor import Tensor
from ._ops._declare.op import public_functions

__all__ = ["get_approximate_basis", "pca_lowrank", "svd_lowrank"]

_linalg, _torch = public_functions("linalg"), public_functions("torch")


def get_approximate_basis(A: Any, q: int, niter: int | None = 2, M: Any = None) -> Tensor:
    """q orthonormal columns that span nearly the range of A - M, better with each of `niter` power iterations."""
    matrix = A if M is None else A - M
    drawn = _torch["randn"]((A.shape[-1], q), dtype=A.dtype if A.dtype.is_complex else None, device=A.device)
    Q = _linalg["qr"](matrix @ drawn.to(A.dtype) if A.dtype.is_floating_point else matrix @ drawn).Q
    for _ in range(niter or 0):
        Q = _linalg["qr"](matrix.mH @ Q).Q
        Q = _linalg["qr"](matrix @ Q).Q
    return Q


def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """U, S and V of a matrix of rank q at most, nearly A - M."""
    q = 6 if q is None else q
    m, n = A.shape[-2:]
    if M is not None:
        M = M.broadcast_to(A.size())
    if m < n:  # the fewer columns, the smaller what is decomposed
        V, S, U = svd_lowrank(A.mH, q, niter, None if M is None else M.mH)
        return U, S, V
    Q = get_approximate_basis(A, q, niter, M)
    U, S, Vh = _linalg["svd"](Q.mH @ (A if M is None else A - M), full_matrices=False)
    return Q @ U, S, Vh.mH


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """U, S and V of the principal components: of A with the mean of its rows taken out, if `center`."""
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, True) if center else A, q, niter)
