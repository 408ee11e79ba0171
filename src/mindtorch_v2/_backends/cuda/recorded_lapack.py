"""Small matrices in recorded programs, a team of threads each; the interface is that of _backends/cpu/lapack.py.

Large or complex ones, and what has no kernel of its own, are not recorded: cuSOLVER's routines do them (lapack.py).
"""

import math
from typing import Any

import numpy as np

from ..._kernels.library import linalg as library
from .fuse import Untraceable
from .jit.calls import launched
from .recorder import xp

_MOST = 64  # rows and columns, from which on cuSOLVER is quicker
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def in_columns(matrices: Any) -> Any:
    """A copy that lies column by column."""
    return matrices.swapaxes(-1, -2).copy().swapaxes(-1, -2)


def _stack(array: Any, kept: int = 2) -> Any:
    """The array with one dimension of stacked matrices (or, with 1 kept, vectors) in front."""
    shape = array.shape
    at = len(shape) - kept
    return array.reshape(math.prod(shape[:at]), *shape[at:])


def _copied(matrices: Any) -> Any:
    """A copy that is changed in place."""
    if matrices.dtype.kind != "f" or max(matrices.shape[-2:]) > _MOST or not matrices.size:
        raise Untraceable
    return matrices.copy()


def _spread(array: Any, batch: tuple[int, ...], kept: int) -> Any:
    return xp.broadcast_to(array, (*batch, *array.shape[array.ndim - kept :]))


def lu_factor(A: Any) -> tuple[Any, Any, Any]:
    """Both factors in one matrix, the rows exchanged (counted from 1), and the first zero on U's diagonal."""
    LU, batch = _copied(A), A.shape[:-2]
    pivots, info = xp.empty((*batch, min(A.shape[-2:])), _INT32), xp.empty(batch, _INT32)
    launched(library.factor, _stack(LU), _stack(pivots, 1), info.reshape(-1))
    return LU, pivots, info


def lu_triangles(LU: Any) -> tuple[Any, Any]:
    """L, with ones on its diagonal, and U."""
    m, n = LU.shape[-2:]
    k = min(m, n)
    below, one = np.tri(m, k, -1, dtype=bool), np.eye(m, k, dtype=LU.dtype)
    return xp.where(below, LU[..., :k], one), xp.where(np.tri(k, n, -1, dtype=bool), LU.dtype.type(0), LU[..., :k, :])


def lu_solve(LU: Any, pivots: Any, B: Any, adjoint: bool) -> Any:
    """X of A X = B, or of A^H X = B, for the A that was factored."""
    batch = np.broadcast_shapes(LU.shape[:-2], B.shape[:-2])
    X = _copied(_spread(B, batch, 2))
    factors, exchanged = _stack(_spread(LU, batch, 2)), _stack(_spread(pivots, batch, 1), 1)
    turned, right = factors.swapaxes(-1, -2), _stack(X)
    if adjoint:
        launched(library.solve_triangle, right, turned, upper=False, unit=False)
        launched(library.solve_triangle, right, turned, upper=True, unit=True)
        launched(library.exchange, right, exchanged, backwards=True)
    else:
        launched(library.exchange, right, exchanged, backwards=False)
        launched(library.solve_triangle, right, factors, upper=False, unit=True)
        launched(library.solve_triangle, right, factors, upper=True, unit=False)
    return X


def permutation(pivots: Any, rows: int) -> Any:
    """Where the rows of a product L U come from."""
    places = xp.empty((*pivots.shape[:-1], rows), _INT64)
    launched(library.order, _stack(places, 1), _stack(pivots, 1))
    return places


def _solved(A: Any, B: Any, upper: bool, unit: bool) -> Any:
    """X of A X = B for a triangle."""
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    X = _copied(_spread(B, batch, 2))
    launched(library.solve_triangle, _stack(X), _stack(_spread(A, batch, 2)), upper=upper, unit=unit)
    return X


def solve_triangular(A: Any, B: Any, upper: bool, left: bool, unitriangular: bool) -> Any:
    """X of A X = B (or X A = B), reading one triangle of A only."""
    if left:
        return _solved(A, B, upper, unitriangular)
    return _solved(A.swapaxes(-1, -2), B.swapaxes(-1, -2), not upper, unitriangular).swapaxes(-1, -2)


def cholesky(A: Any, upper: bool) -> tuple[Any, Any]:
    """The triangular factor, and the order of the first leading minor that is not positive."""
    L, info = _copied(A.swapaxes(-1, -2) if upper else A), xp.empty(A.shape[:-2], _INT32)
    launched(library.factor_positive, _stack(L), info.reshape(-1))
    launched(library.clear_above, _stack(L))
    return (L.swapaxes(-1, -2) if upper else L), info


def cholesky_solve(L: Any, B: Any, upper: bool) -> Any:
    """X of A X = B, for the A whose triangular factor this is."""
    turned = L.swapaxes(-1, -2)
    lower, higher = (turned, L) if upper else (L, turned)
    return _solved(higher, _solved(lower, B, False, False), True, False)


def _identities(A: Any) -> Any:
    return xp.broadcast_to(xp.asarray(np.eye(A.shape[-1], dtype=A.dtype)), A.shape)


def _first_zero(A: Any) -> Any:
    """One plus the place of the first zero on a diagonal, or 0."""
    n = A.shape[-1]
    apart = np.where(np.eye(n, dtype=bool), np.arange(1, n + 1, dtype=np.int32)[:, None], np.int32(n + 1))
    first = xp.where(A == 0, apart, np.int32(n + 1)).min((-2, -1))
    return xp.where(first > n, np.int32(0), first).astype(_INT32)


def cholesky_inverse(L: Any, upper: bool) -> tuple[Any, Any]:
    """The inverse of the matrix that was factored, and the first zero on the factor's diagonal."""
    return cholesky_solve(L, _identities(L), upper), _first_zero(L)


def solve(A: Any, B: Any) -> tuple[Any, Any]:
    """X of A X = B, and the first zero on the diagonal of U of each singular A."""
    LU, pivots, info = lu_factor(A)
    return lu_solve(LU, pivots, B, False), info


def inverse(A: Any) -> tuple[Any, Any]:
    return solve(A, _identities(A))


def reflectors(A: Any) -> tuple[Any, Any]:
    """R on and above the diagonal, what defines the reflectors whose product is Q below it, and their factors."""
    made = _copied(A)
    tau = xp.empty((*A.shape[:-2], min(A.shape[-2:])), A.dtype)
    launched(library.factor_orthogonal, _stack(made), _stack(tau, 1))
    return made, tau


def reflected(A: Any, tau: Any, C: Any, left: bool, adjoint: bool) -> Any:
    """C multiplied from a side by that product, or by its adjoint."""
    if not left:  # C Q = (Q^T C^T)^T
        return reflected(A, tau, C.swapaxes(-1, -2), True, not adjoint).swapaxes(-1, -2)
    made = _copied(C)
    launched(library.multiply_reflectors, _stack(made), _stack(A), _stack(tau, 1), backwards=not adjoint)
    return made


def householder_product(A: Any, tau: Any) -> Any:
    """As many columns of the product of the reflectors that stand below the diagonal of A as A has."""
    one = np.eye(*A.shape[-2:], dtype=A.dtype)
    return reflected(A, tau, xp.broadcast_to(xp.asarray(one), A.shape), True, False)


def qr(A: Any, mode: str) -> tuple[Any, Any]:
    """Q and R, of which "reduced" leaves out what need not be; "r" leaves out Q."""
    made, tau = reflectors(A)
    m, n = A.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    R = xp.where(np.tri(k, n, -1, dtype=bool), A.dtype.type(0), made[..., :k, :])
    if mode == "r":
        return None, R
    one = xp.broadcast_to(xp.asarray(np.eye(m, k, dtype=A.dtype)), (*A.shape[:-2], m, k))
    return reflected(made, tau, one, True, False), R


class Functions:
    """NumPy's `linalg` for recorded arrays."""

    def __getattr__(self, name: str) -> Any:
        raise Untraceable

    @staticmethod
    def det(A: Any) -> Any:
        LU, exchanged = _factors(A)
        return (LU * exchanged).prod(-1)

    @staticmethod
    def slogdet(A: Any) -> tuple[Any, Any]:
        LU, exchanged = _factors(A)
        return (xp.sign(LU) * exchanged).prod(-1), xp.log(xp.absolute(LU)).sum(-1)

    @staticmethod
    def solve(A: Any, B: Any) -> Any:
        return solve(A, B)[0]


def _factors(A: Any) -> tuple[Any, Any]:
    """The factors of the determinant of each matrix: U's diagonal, and -1 for each exchange of rows."""
    LU, pivots, _ = lu_factor(A)
    n = A.shape[-1]
    one = A.dtype.type(1)
    return LU.diagonal(0, -2, -1), xp.where(pivots == np.arange(1, n + 1, dtype=np.int32), one, -one)
