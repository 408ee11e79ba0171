"""Factorisations and solutions of stacked matrices over CuPy; the interface is that of _backends/cpu/lapack.py.

CuPy reports no LAPACK `info`. What failed shows in the numbers, and `info` is told from them on the device.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import cupy
import numpy as np

from ..cpu import lapack as cpu_lapack
from .array import CudaArray, of_view
from .runtime import current_device, device_of


def in_columns(matrices: Any) -> Any:
    """A copy that lies column by column."""
    return matrices.swapaxes(-1, -2).copy().swapaxes(-1, -2)


def _places(matrices: Any) -> Iterator[tuple[int, ...]]:
    """The index of every matrix in a stack; of none where they have no elements."""
    return itertools.product(*map(range, matrices.shape[:-2])) if matrices.size else iter(())


def _broadcast(a: Any, b: Any) -> tuple[Any, Any]:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return cupy.broadcast_to(a, (*batch, *a.shape[-2:])), cupy.broadcast_to(b, (*batch, *b.shape[-2:]))


def _first_bad(diagonal: Any) -> Any:
    """One plus the place of the first element that is zero or no number; 0 where there is none."""
    bad = ~(abs(diagonal) > 0)
    if not diagonal.shape[-1]:
        return cupy.zeros(diagonal.shape[:-1], np.int32)
    return cupy.where(bad.any(-1), bad.argmax(-1) + 1, 0).astype(np.int32)


def _diagonal(matrices: Any) -> Any:
    return matrices.diagonal(0, -2, -1)


def lu_factor(A: Any) -> tuple[Any, Any, Any]:
    """Both factors in one matrix, the rows exchanged (counted from 1), and the first zero on U's diagonal."""
    import cupyx.scipy.linalg

    LU, pivots = in_columns(A), cupy.zeros((*A.shape[:-2], min(A.shape[-2:])), np.int32)
    for at in _places(A):
        LU[at], exchanged = cupyx.scipy.linalg.lu_factor(A[at], check_finite=False)
        pivots[at] = exchanged + 1
    return LU, pivots, _first_bad(_diagonal(LU))


def lu_triangles(LU: Any) -> tuple[Any, Any]:
    """L, with ones on its diagonal, and U."""
    k = min(LU.shape[-2:])
    return (cupy.tril(LU[..., :k], -1) + cupy.eye(LU.shape[-2], k, dtype=LU.dtype), cupy.triu(LU[..., :k, :]))


def lu_solve(LU: Any, pivots: Any, B: Any, adjoint: bool) -> Any:
    """X of A X = B, or of A^H X = B, for the A that was factored."""
    import cupyx.scipy.linalg

    LU, made = _broadcast(LU, B)
    made = in_columns(made)
    pivots = cupy.clip(cupy.broadcast_to(pivots, LU.shape[:-1]), 1, LU.shape[-2]) - 1  # cuSOLVER does not look
    for at in _places(made):
        made[at] = cupyx.scipy.linalg.lu_solve((in_columns(LU[at]), cupy.ascontiguousarray(pivots[at])), made[at],
                                               2 if adjoint else 0, check_finite=False)
    return made


def permutation(pivots: Any, rows: int) -> Any:
    """Where the rows of a product L U come from, given the exchanges that LAPACK made one after the other."""
    order = cupy.broadcast_to(cupy.arange(rows), (*pivots.shape[:-1], rows)).copy()
    for i in range(pivots.shape[-1]):
        other = cupy.clip(pivots[..., i : i + 1].astype(np.int64) - 1, 0, rows - 1)
        here, there = order[..., i : i + 1].copy(), cupy.take_along_axis(order, other, -1)
        place = cupy.arange(rows)
        order = cupy.where(place == other, here, order)
        order[..., i : i + 1] = there
    return order


def cholesky(A: Any, upper: bool) -> tuple[Any, Any]:
    """The triangular factor, and the order of the first leading minor that is not positive."""
    lower = cupy.tril(A.conj().swapaxes(-1, -2) if upper else A)
    L = cupy.linalg.cholesky(lower) if A.size else lower
    info = _first_bad(cupy.where(_diagonal(L).real > 0, 1.0, 0.0))
    return (L.conj().swapaxes(-1, -2) if upper else L), info


def cholesky_inverse(L: Any, upper: bool) -> tuple[Any, Any]:
    """The inverse of the matrix that was factored, and the first zero on the factor's diagonal."""
    lower = L.conj().swapaxes(-1, -2) if upper else L
    eye = cupy.broadcast_to(cupy.eye(L.shape[-1], dtype=L.dtype), L.shape)
    half = solve_triangular(lower, eye, False, True, False)
    return cupy.matmul(half.conj().swapaxes(-1, -2), half) if L.size else half, _first_bad(_diagonal(L))


def cholesky_solve(L: Any, B: Any, upper: bool) -> Any:
    """X of A X = B, for the A whose triangular factor this is."""
    adjoint = L.conj().swapaxes(-1, -2)
    lower, higher = (adjoint, L) if upper else (L, adjoint)
    return solve_triangular(higher, solve_triangular(lower, B, False, True, False), True, True, False)


def solve_triangular(A: Any, B: Any, upper: bool, left: bool, unitriangular: bool) -> Any:
    """X of A X = B (or X A = B), reading one triangle of A only."""
    import cupyx.scipy.linalg

    if not left:
        return solve_triangular(A.swapaxes(-1, -2), B.swapaxes(-1, -2), not upper, True, unitriangular).swapaxes(-1, -2)
    A, made = _broadcast(A, B)
    made = in_columns(made)
    for at in _places(made):
        made[at] = cupyx.scipy.linalg.solve_triangular(A[at], made[at], lower=not upper, unit_diagonal=unitriangular,
                                                       check_finite=False)
    return made


def reflectors(A: Any) -> tuple[Any, Any]:
    """R on and above the diagonal, what defines the reflectors whose product is Q below it, and their factors."""
    made, tau = cupy.linalg.qr(A, mode="raw")
    return made.swapaxes(-1, -2), tau


def qr(A: Any, mode: str) -> tuple[Any, Any]:
    """Q and R, of which "reduced" leaves out what need not be; "r" leaves out Q."""
    return (None, cupy.linalg.qr(A, mode="r")) if mode == "r" else cupy.linalg.qr(A, mode=mode)


def _product(A: Any, tau: Any) -> tuple[Any, Any]:
    """V and T of the product I - V T V^H of the reflectors I - tau v v^H whose v stand below the diagonal."""
    k = tau.shape[-1]
    V = cupy.tril(A[..., :k], -1) + cupy.eye(A.shape[-2], k, dtype=A.dtype)
    inner = cupy.matmul(V.conj().swapaxes(-1, -2), V)
    scaled = tau[..., None] * cupy.triu(inner, 1)
    return V, solve_triangular(scaled, tau[..., None] * cupy.eye(k, dtype=A.dtype), True, True, True)


def householder_product(A: Any, tau: Any) -> Any:
    """As many columns of the product of the reflectors that stand below the diagonal of A as A has."""
    if not A.size or not tau.size:
        return in_columns(cupy.broadcast_to(cupy.eye(*A.shape[-2:], dtype=A.dtype), A.shape))
    V, T = _product(A, tau)
    right = V[..., : A.shape[-1], :].conj().swapaxes(-1, -2)
    return cupy.eye(*A.shape[-2:], dtype=A.dtype) - cupy.matmul(V, cupy.matmul(T, right))


def reflected(A: Any, tau: Any, C: Any, left: bool, adjoint: bool) -> Any:
    """C multiplied from a side by that product, or by its adjoint."""
    if not C.size or not tau.size:
        return in_columns(C)
    V, T = _product(A, tau)
    T = T.conj().swapaxes(-1, -2) if adjoint else T
    if left:
        return C - cupy.matmul(V, cupy.matmul(T, cupy.matmul(V.conj().swapaxes(-1, -2), C)))
    return C - cupy.matmul(cupy.matmul(cupy.matmul(C, V), T), V.conj().swapaxes(-1, -2))


def solve(A: Any, B: Any) -> tuple[Any, Any]:
    """X of A X = B, and the first zero on the diagonal of U of each singular A."""
    LU, pivots, info = lu_factor(A)
    return lu_solve(LU, pivots, B, False), info


def inverse(A: Any) -> tuple[Any, Any]:
    return solve(A, cupy.broadcast_to(cupy.eye(A.shape[-1], dtype=A.dtype), A.shape))


def least_squares(A: Any, B: Any, rcond: float, driver: str) -> tuple[Any, Any, Any]:
    """The solution padded to the rows of the larger side, the rank, and the singular values."""
    m, n = A.shape[-2:]
    batch, rows = A.shape[:-2], max(m, n)
    made = cupy.zeros((*batch, rows, B.shape[-1]), A.dtype)
    singular = cupy.zeros((*batch, min(m, n)), A.real.dtype)
    if not A.size:
        return made, cupy.zeros(batch, np.int64), singular
    U, S, Vh, _ = svd(A, False, True)
    least = (rcond if rcond >= 0 else float(np.finfo(S.dtype).eps)) * S.max(-1, keepdims=True)
    large = least < S
    scale = cupy.where(large, 1 / cupy.where(large, S, 1), 0)
    coefficients = cupy.matmul(U.conj().swapaxes(-1, -2), B)
    made[..., :n, :] = cupy.matmul(Vh.conj().swapaxes(-1, -2), scale[..., None] * coefficients)
    if m > n:  # what remains below is, in its squares, the distance from B
        rest = B - cupy.matmul(A, made[..., :n, :])
        made[..., n : n + 1, :] = cupy.sqrt((abs(rest) ** 2).sum(-2, keepdims=True))
    return made, large.sum(-1).astype(np.int64), S if driver in ("gelsd", "gelss") else singular


def ldl_factor(A: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """The factors, pivots and info, computed on the host: CuPy has no symmetric factorisation."""
    factors, pivots, info = cpu_lapack.ldl_factor(cupy.asnumpy(A), hermitian)
    return cupy.asarray(factors), cupy.asarray(pivots), cupy.asarray(info)


def ldl_solve(LD: Any, pivots: Any, B: Any, hermitian: bool) -> Any:
    """The solution, computed on the host."""
    return cupy.asarray(cpu_lapack.ldl_solve(cupy.asnumpy(LD), cupy.asnumpy(pivots), cupy.asnumpy(B), hermitian))


def _array_of(view: Any) -> CudaArray:
    return of_view(view, device_of(current_device()))


def _views(arrays: Sequence[CudaArray | None]) -> tuple[Any, ...]:
    return tuple([None if array is None else array.view for array in arrays])


def eigh(A: Any, lower: bool, vectors: bool) -> tuple[Any, Any, Any]:
    """Eigenvalues, eigenvectors (None where not asked for), and info: a positive code where no solution was found."""
    info = cupy.zeros(A.shape[:-2], np.int32)
    if not A.size:
        return cupy.zeros(A.shape[:-1], A.real.dtype), A.copy() if vectors else None, info
    from . import jacobi  # which is made of what this module is a part of

    if jacobi.may_shift(A.shape, A.dtype):
        return (*_views(jacobi.eigh(_array_of(A), lower, vectors)), info)
    if vectors:
        return (*cupy.linalg.eigh(A, "L" if lower else "U"), info)
    return cupy.linalg.eigvalsh(A, "L" if lower else "U"), None, info


def svd(A: Any, full: bool, vectors: bool) -> tuple[Any, Any, Any, Any]:
    """U, S, V^H (no vectors where not asked for), and info: -1 for NaN; singular values with infinities are NaN."""
    from . import jacobi  # which is made of what this module is a part of

    m, n = A.shape[-2:]
    if jacobi.is_small(A.shape, A.dtype):
        return _views(jacobi.svd(_array_of(A), full, vectors))  # type: ignore[return-value]
    info = cupy.where(cupy.isnan(A).any((-2, -1)), -1, 0).astype(np.int32)
    if A.size:
        finite = cupy.isfinite(A).all((-2, -1))
        A = cupy.where(finite[..., None, None], A, A.dtype.type(0))
        U, S, Vh = cupy.linalg.svd(A, full) if vectors else (None, cupy.linalg.svd(A, compute_uv=False), None)
        return U, cupy.where(finite[..., None], S, S.dtype.type(np.nan)), Vh, info
    k, batch = min(m, n), A.shape[:-2]
    S = cupy.zeros((*batch, k), A.real.dtype)
    if not vectors:
        return None, S, None, info
    U, Vh = (cupy.zeros((*batch, *shape), A.dtype) + cupy.eye(*shape, dtype=A.dtype)
             for shape in ((m, m if full else k), (n if full else k, n)))
    return U, S, Vh, info
