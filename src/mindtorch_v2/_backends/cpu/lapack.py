"""Factorisations and solutions of stacked matrices, with LAPACK's `info` of each.

NumPy's stacked functions do the work where it has them. They refuse a whole stack for one singular member, so that
member and what LAPACK says of it is then looked for one matrix at a time, as all is for routines that NumPy lacks.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..._core.threads import limit_libraries

_PREFIX = {"f": "s", "d": "d", "F": "c", "D": "z"}


@functools.cache
def _scipy_linalg() -> Any:
    """The module, whose BLAS library uses as many threads as were chosen."""
    import scipy.linalg

    limit_libraries()
    return scipy.linalg


def _routine(name: str, kind: np.dtype, *, module: str = "lapack") -> Callable:
    # An empty stack may be of any type: then nothing is called.
    return getattr(getattr(_scipy_linalg(), module), _PREFIX.get(kind.char, "d") + name)


def _hermitian_routine(name: str, kind: np.dtype, hermitian: bool) -> Callable:
    return _routine(("he" if hermitian and kind.kind == "c" else "sy") + name, kind)


def in_columns(matrices: Any) -> Any:
    """A copy that lies column by column, as LAPACK wants it."""
    return np.array(matrices.swapaxes(-1, -2), order="C").swapaxes(-1, -2)


def _places(matrices: Any) -> Iterator[tuple[int, ...]]:
    """The index of every matrix in a stack; of none where they have no elements."""
    return np.ndindex(matrices.shape[:-2]) if matrices.size else iter(())


def _broadcast(a: Any, b: Any) -> tuple[Any, Any]:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.broadcast_to(a, (*batch, *a.shape[-2:])), np.broadcast_to(b, (*batch, *b.shape[-2:]))


# triangular factors --------------------------------------------------------------------------------------------------


def lu_factor(A: Any) -> tuple[Any, Any, Any]:
    """Both factors in one matrix, the rows exchanged (counted from 1), and the first zero on U's diagonal."""
    batch, (m, n) = A.shape[:-2], A.shape[-2:]
    LU, pivots, info = in_columns(A), np.zeros((*batch, min(m, n)), np.int32), np.zeros(batch, np.int32)
    getrf = _routine("getrf", A.dtype)
    for at in _places(A):
        LU[at], exchanged, info[at] = getrf(LU[at])
        pivots[at] = exchanged + 1
    return LU, pivots, info


def lu_solve(LU: Any, pivots: Any, B: Any, adjoint: bool) -> Any:
    """X of A X = B, or of A^H X = B, for the A that was factored."""
    LU, made = _broadcast(LU, B)
    made = in_columns(made)
    pivots = np.broadcast_to(pivots, LU.shape[:-1]) - 1
    getrs = _routine("getrs", LU.dtype)
    for at in _places(made):
        made[at] = getrs(LU[at], pivots[at], made[at], trans=2 if adjoint else 0)[0]
    return made


def permutation(pivots: Any, rows: int) -> Any:
    """Where the rows of a product L U come from, given the exchanges that LAPACK made one after the other."""
    batch = pivots.shape[:-1]
    order = np.tile(np.arange(rows, dtype=np.float64), (*batch, 1))
    laswp = _routine("laswp", order.dtype)
    for at in np.ndindex(batch) if pivots.size else ():
        order[at] = laswp(order[at][:, None], pivots[at] - 1)[:, 0]
    return order.astype(np.int64)


def cholesky(A: Any, upper: bool) -> tuple[Any, Any]:
    """The triangular factor, and the order of the first leading minor that is not positive."""
    adjoint = A.conj().swapaxes(-1, -2) if upper else A
    info = np.zeros(A.shape[:-2], np.int32)
    try:
        L = np.linalg.cholesky(adjoint)
    except np.linalg.LinAlgError:
        L, potrf = in_columns(adjoint), _routine("potrf", A.dtype)
        for at in _places(A):
            L[at], info[at] = potrf(L[at], lower=True, clean=True)
    return (L.conj().swapaxes(-1, -2) if upper else L), info


def cholesky_inverse(L: Any, upper: bool) -> tuple[Any, Any]:
    """The inverse of the matrix that was factored, and the first zero on the factor's diagonal."""
    made, info = in_columns(L), np.zeros(L.shape[:-2], np.int32)
    potri = _routine("potri", L.dtype)
    for at in _places(L):
        made[at], info[at] = potri(made[at], lower=not upper)
    half = np.triu(made, 1) if upper else np.tril(made, -1)
    diagonal = np.eye(L.shape[-1], dtype=bool)
    return half + half.conj().swapaxes(-1, -2) + np.where(diagonal, made, 0), info


def solve_triangular(A: Any, B: Any, upper: bool, left: bool, unitriangular: bool) -> Any:
    """X of A X = B (or X A = B), reading one triangle of A only."""
    A, made = _broadcast(A, B)
    made = in_columns(made)
    trsm = _routine("trsm", made.dtype, module="blas")
    for at in _places(made):
        made[at] = trsm(1.0, A[at], made[at], side=not left, lower=not upper, diag=unitriangular)
    return made


# general systems -----------------------------------------------------------------------------------------------------


def solve(A: Any, B: Any) -> tuple[Any, Any]:
    """X of A X = B, and the first zero on the diagonal of U of each singular A."""
    try:
        return np.linalg.solve(A, B), np.zeros(A.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        LU, pivots, info = lu_factor(A)
        return lu_solve(LU, pivots, B, False), info


def inverse(A: Any) -> tuple[Any, Any]:
    try:
        return np.linalg.inv(A), np.zeros(A.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        return solve(A, np.broadcast_to(np.eye(A.shape[-1], dtype=A.dtype), A.shape))


def least_squares(A: Any, B: Any, rcond: float, driver: str) -> tuple[Any, Any, Any]:
    """All rows of what the driver leaves in B's place, the rank, and the singular values, zeros where it has none."""
    m, n = A.shape[-2:]
    batch, rows = A.shape[:-2], max(m, n)
    made = np.zeros((*batch, B.shape[-1], rows), A.dtype).swapaxes(-1, -2)
    made[..., :m, :] = B
    rank, singular = np.zeros(batch, np.int64), np.zeros((*batch, min(m, n)), A.real.dtype)
    if not A.size:
        made[..., :n, :] = 0
        return made, rank, singular
    routine = _routine(driver, A.dtype)
    work = [int(np.real(size)) for size in _workspace(driver, A.dtype, m, n, B.shape[-1], rcond)]
    for at in np.ndindex(batch):
        if driver == "gels":
            made[at] = routine(A[at], made[at], lwork=work[0])[1]
        elif driver == "gelsy":
            _, made[at], _, rank[at], _ = routine(A[at], made[at], np.zeros(n, np.int32), rcond, work[0])
        elif driver == "gelsd":
            made[at], singular[at], rank[at], _ = routine(A[at], made[at], work[0], work[1], rcond)
        else:
            _, made[at], singular[at], rank[at], _, _ = routine(A[at], made[at], rcond, lwork=work[0])
    return made, rank, singular


def _workspace(driver: str, kind: np.dtype, m: int, n: int, columns: int, rcond: float) -> Sequence[Any]:
    """How much room the driver asks for, without the status that comes last."""
    query = _routine(driver + "_lwork", kind)
    return (query(m, n, columns) if driver == "gels" else query(m, n, columns, rcond))[:-1]


# symmetric, but not positive -----------------------------------------------------------------------------------------


def ldl_factor(A: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """L below the diagonal, D's blocks on it; the rows exchanged, negative for a 2 by 2 block; info."""
    batch, n = A.shape[:-2], A.shape[-1]
    LD, pivots, info = in_columns(np.tril(A)), np.zeros((*batch, n), np.int32), np.zeros(batch, np.int32)
    sytrf = _hermitian_routine("trf", A.dtype, hermitian)
    for at in _places(A):
        LD[at], pivots[at], info[at] = sytrf(LD[at], lower=True)
    return LD, pivots, info


def ldl_solve(LD: Any, pivots: Any, B: Any, hermitian: bool) -> Any:
    """X of A X = B for the A that was factored: A = P L D L^H P^T, with L^T where it is not Hermitian."""
    n = LD.shape[-1]
    L, below = in_columns(LD), np.zeros(LD.shape[:-1], LD.dtype)  # `below` is what D has under its diagonal
    syconv = _routine("syconv", LD.dtype)
    for at in _places(LD):
        L[at], below[at], _ = syconv(L[at], pivots[at], lower=True, way=0)
    block = pivots < 0
    second = block & (np.cumsum(block, -1) % 2 == 0)
    own = np.arange(n)
    order = permutation(np.where(second, -pivots, np.where(block, own + 1, pivots)), n)
    partner = np.where(second, own - 1, np.where(block, own + 1, own))

    def beside(values: Any) -> Any:
        return np.take_along_axis(values, partner, -1)

    mirrored = below.conj() if hermitian else below
    across = np.where(second, beside(below), np.where(block, mirrored, 0))
    diagonal = np.diagonal(LD, axis1=-2, axis2=-1)
    determinant = np.where(block, diagonal * beside(diagonal) - across * beside(across), diagonal)
    keep, exchange = np.where(block, beside(diagonal), 1) / determinant, across / determinant

    B = np.take_along_axis(np.broadcast_to(B, (*_broadcast(LD, B)[1].shape[:-2], *B.shape[-2:])),
                           _over(order, B), -2)
    Y = solve_triangular(L, B, False, True, True)
    Y = keep[..., None] * Y - exchange[..., None] * np.take_along_axis(Y, _over(partner, Y), -2)
    transposed = L.swapaxes(-1, -2)
    Z = solve_triangular(transposed.conj() if hermitian else transposed, Y, True, True, True)
    return np.take_along_axis(Z, _over(np.argsort(order, -1), Z), -2)


def _over(rows: Any, matrices: Any) -> Any:
    """Row numbers as take_along_axis wants them: as many dimensions as the matrices, the batch broadcast."""
    batch = np.broadcast_shapes(rows.shape[:-1], matrices.shape[:-2])
    return np.broadcast_to(rows, (*batch, rows.shape[-1]))[..., None]


# eigenvalues and singular values -------------------------------------------------------------------------------------


def eigh(A: Any, lower: bool, vectors: bool) -> tuple[Any, Any, Any]:
    """Eigenvalues, eigenvectors (None where not asked for), and info: a positive code where no solution was found."""
    uplo: Any
    uplo, info = "L" if lower else "U", np.zeros(A.shape[:-2], np.int32)
    try:
        if vectors:
            return (*np.linalg.eigh(A, uplo), info)
        return np.linalg.eigvalsh(A, uplo), None, info
    except np.linalg.LinAlgError:
        routine = _routine("heevd" if A.dtype.kind == "c" else "syevd", A.dtype)
        for at in _places(A):
            info[at] = routine(A[at], compute_v=vectors, lower=lower)[2]
        return np.zeros(A.shape[:-1], A.real.dtype), A if vectors else None, info


def svd(A: Any, full: bool, vectors: bool) -> tuple[Any, Any, Any, Any]:
    """U, S, V^H (no vectors where not asked for), and info: positive where no solution was found, -1 for NaN.

    LAPACK may search for ever in a matrix with infinities: it is given zeros, and the singular values are NaN.
    """
    finite, info = np.isfinite(A).all((-2, -1)), np.zeros(A.shape[:-2], np.int32)
    if not finite.all():
        U, S, Vh, info = svd(np.where(finite[..., None, None], A, A.dtype.type(0)), full, vectors)
        S = np.where(finite[..., None], S, S.dtype.type(np.nan))
        return U, S, Vh, np.where(np.isnan(A).any((-2, -1)), -1, info).astype(np.int32)
    try:
        if vectors:
            return (*np.linalg.svd(A, full), info)
        return None, np.linalg.svd(A, compute_uv=False), None, info
    except np.linalg.LinAlgError:
        k = min(A.shape[-2:])
        return None, np.zeros((*A.shape[:-2], k), A.real.dtype), None, info + k
