"""Factorisations and solutions of stacked matrices, with LAPACK's `info` of each.

One matrix goes to SciPy's routine itself: NumPy's functions take longer to prepare a call than a small matrix takes. Of
a stack, NumPy's functions do all where it has them. They refuse a whole stack for one singular member, so that member
and what LAPACK says of it is then looked for one matrix at a time, as all is for routines that NumPy lacks.
"""

import ctypes
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..._core.native import capsule_name, capsule_pointer
from ..._core.threads import limit_libraries

_PREFIX = {"f": "s", "d": "d", "F": "c", "D": "z"}


@functools.cache
def _scipy_linalg() -> Any:
    """The module, whose BLAS library uses as many threads as were chosen."""
    import scipy.linalg

    limit_libraries()
    return scipy.linalg


@functools.cache
def _routine(name: str, kind: np.dtype, module: str = "lapack") -> Callable:
    # An empty stack may be of any type: then nothing is called.
    return getattr(getattr(_scipy_linalg(), module), _PREFIX.get(kind.char, "d") + name)


def _hermitian_routine(name: str, kind: np.dtype, hermitian: bool) -> Callable:
    return _routine(("he" if hermitian and kind.kind == "c" else "sy") + name, kind)


def _orthogonal_routine(name: str, kind: np.dtype) -> Callable:
    return _routine(("un" if kind.kind == "c" else "or") + name, kind)


@functools.lru_cache(1024)
def _work(name: str, kind: np.dtype, *sizes: Any) -> tuple[int, ...]:
    """How much room a routine asks for, for matrices of these sizes."""
    return tuple([int(np.real(size)) for size in _routine(name + "_lwork", kind)(*sizes)[:-1]])


def in_columns(matrices: Any) -> Any:
    """A copy that lies column by column, as LAPACK wants it."""
    return np.array(matrices.swapaxes(-1, -2), order="C").swapaxes(-1, -2)


def _one_by_one(stack: Any) -> Any:
    """The matrices of a stack that lies in columns, to be written in place; none where they have no elements."""
    if not stack.size:
        return ()
    m, n = stack.shape[-2:]
    return stack.swapaxes(-1, -2).reshape(-1, n, m).swapaxes(-1, -2)


def _places(matrices: Any) -> Iterator[tuple[int, ...]]:
    """The index of every matrix in a stack; of none where they have no elements."""
    return np.ndindex(matrices.shape[:-2]) if matrices.size else iter(())


def _matrices(stack: Any) -> Any:
    """The matrices of a stack, one after the other, to be read."""
    return stack.reshape(-1, *stack.shape[-2:])


def _broadcast(a: Any, b: Any) -> tuple[Any, Any]:
    if a.shape[:-2] == b.shape[:-2]:
        return a, b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.broadcast_to(a, (*batch, *a.shape[-2:])), np.broadcast_to(b, (*batch, *b.shape[-2:]))


def _code(info: int) -> Any:
    return np.array(info, np.int32)


_KEPT = 64  # rows up to which masks are remembered


def _below(m: int, n: int, k: int) -> Any:
    """Where a matrix has its triangle below the k-th diagonal, that included."""
    return _kept_below(m, n, k) if max(m, n) <= _KEPT else np.tri(m, n, k, bool)


@functools.lru_cache(256)
def _kept_below(m: int, n: int, k: int) -> Any:
    return np.tri(m, n, k, bool)


def _lower_triangle(A: Any) -> Any:
    m, n = A.shape[-2:]
    return np.where(_below(m, n, 0), A, A.dtype.type(0))


def _upper_triangle(A: Any) -> Any:
    """The triangle and zeros below it, column by column."""
    return _lower_triangle(A.swapaxes(-1, -2)).swapaxes(-1, -2)


# triangular factors --------------------------------------------------------------------------------------------------


def lu_factor(A: Any) -> tuple[Any, Any, Any]:
    """Both factors in one matrix, the rows exchanged (counted from 1), and the first zero on U's diagonal."""
    getrf = _routine("getrf", A.dtype)
    if A.ndim == 2 and A.size:
        LU, pivots, code = getrf(A)
        pivots += 1
        return LU, pivots, _code(code)
    batch, (m, n) = A.shape[:-2], A.shape[-2:]
    LU, pivots, info = in_columns(A), np.zeros((*batch, min(m, n)), np.int32), np.zeros(batch, np.int32)
    exchanged, codes = pivots.reshape(info.size, min(m, n)), info.reshape(-1)
    for i, matrix in enumerate(_one_by_one(LU)):
        _, exchanged[i], codes[i] = getrf(matrix, True)
    if LU.size:
        pivots += 1
    return LU, pivots, info


def lu_triangles(LU: Any) -> tuple[Any, Any]:
    """L, with ones on its diagonal, and U."""
    *batch, m, n = LU.shape
    k = min(m, n)
    L, U = np.zeros((*batch, m, k), LU.dtype), np.zeros((*batch, k, n), LU.dtype)
    np.copyto(L, LU[..., :k], where=_below(m, k, -1))
    np.copyto(U, LU[..., :k, :], where=_below(n, k, 0).T)
    L.reshape(*batch, m * k)[..., : k * k : k + 1] = 1
    return L, U


def _check_pivots(LU: Any, pivots: Any) -> None:
    """Raises where LAPACK, which does not look, would exchange rows that are not there."""
    wrong = "greater or equal to 1" if pivots.min() < 1 else ""
    if not wrong and pivots.max() > LU.shape[-2]:
        wrong = "smaller or equal to LU.size(-2)"
    if wrong:
        raise RuntimeError(f"Pivots given to lu_solve must all be {wrong}. Did you properly pass the result of "
                           "lu_factor?")


def lu_solve(LU: Any, pivots: Any, B: Any, adjoint: bool) -> Any:
    """X of A X = B, or of A^H X = B, for the A that was factored."""
    if B.size and pivots.size:
        _check_pivots(LU, pivots)
    getrs, trans = _routine("getrs", LU.dtype), 2 if adjoint else 0
    if LU.ndim == B.ndim == 2 and B.size:
        return getrs(LU, pivots - 1, B, trans)[0]
    LU, made = _broadcast(LU, B)
    made = in_columns(made)
    pivots = (np.broadcast_to(pivots, LU.shape[:-1]) - 1).reshape(-1, LU.shape[-1]) if made.size else ()
    for factors, exchanged, matrix in zip(_matrices(LU), pivots, _one_by_one(made), strict=True) if made.size else ():
        getrs(factors, exchanged, matrix, trans, True)
    return made


def permutation(pivots: Any, rows: int) -> Any:
    """Where the rows of a product L U come from, given the exchanges that LAPACK made one after the other."""
    if pivots.size and (pivots.min() < 1 or pivots.max() > rows):
        raise RuntimeError("pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                           "Did you properly pass the result of lu_factor?")
    made = np.empty((*pivots.shape[:-1], rows), np.int64)
    for at in np.ndindex(pivots.shape[:-1]):
        order = list(range(rows))
        for i, other in enumerate(pivots[at].tolist()):
            order[i], order[other - 1] = order[other - 1], order[i]
        made[at] = order
    return made


def cholesky(A: Any, upper: bool) -> tuple[Any, Any]:
    """The triangular factor, and the order of the first leading minor that is not positive."""
    potrf = _routine("potrf", A.dtype)
    if A.ndim == 2 and A.size:
        L, code = potrf(A, not upper, True)
        return L, _code(code)
    adjoint = A.conj().swapaxes(-1, -2) if upper else A
    info = np.zeros(A.shape[:-2], np.int32)
    try:
        L = np.linalg.cholesky(adjoint)
    except np.linalg.LinAlgError:
        L, codes = in_columns(adjoint), info.reshape(-1)
        for i, matrix in enumerate(_one_by_one(L)):
            _, codes[i] = potrf(matrix, True, True, True)
    return (L.conj().swapaxes(-1, -2) if upper else L), info


def cholesky_inverse(L: Any, upper: bool) -> tuple[Any, Any]:
    """The inverse of the matrix that was factored, and the first zero on the factor's diagonal."""
    made, info = in_columns(L), np.zeros(L.shape[:-2], np.int32)
    potri, codes, n = _routine("potri", L.dtype), info.reshape(-1), L.shape[-1]
    for i, matrix in enumerate(_one_by_one(made)):
        _, codes[i] = potri(matrix, not upper, True)
    adjoint = made.conj().swapaxes(-1, -2)
    np.copyto(made, adjoint, where=_below(n, n, -1) if upper else _below(n, n, -1).T)
    return made, info


def cholesky_solve(L: Any, B: Any, upper: bool) -> Any:
    """X of A X = B, for the A whose triangular factor this is."""
    potrs = _routine("potrs", L.dtype)
    if L.ndim == B.ndim == 2 and B.size:
        return potrs(L, B, not upper)[0]
    L, made = _broadcast(L, B)
    made = in_columns(made)
    for factor, matrix in zip(_matrices(L), _one_by_one(made), strict=True) if made.size else ():
        potrs(factor, matrix, not upper, True)
    return made


def solve_triangular(A: Any, B: Any, upper: bool, left: bool, unitriangular: bool) -> Any:
    """X of A X = B (or X A = B), reading one triangle of A only."""
    trsm = _routine("trsm", A.dtype, "blas")
    if A.ndim == B.ndim == 2 and B.size:
        return trsm(1.0, A, B, not left, not upper, 0, unitriangular)
    A, made = _broadcast(A, B)
    made = in_columns(made)
    for triangle, matrix in zip(_matrices(A), _one_by_one(made), strict=True) if made.size else ():
        trsm(1.0, triangle, matrix, not left, not upper, 0, unitriangular, True)
    return made


# orthogonal factors --------------------------------------------------------------------------------------------------


def reflectors(A: Any) -> tuple[Any, Any]:
    """R on and above the diagonal, what defines the reflectors whose product is Q below it, and their factors."""
    if A.ndim > 2 or not A.size:
        made, tau = np.linalg.qr(A, mode="raw")
        return made.swapaxes(-1, -2), tau
    return _routine("geqrf", A.dtype)(A, *_work("geqrf", A.dtype, *A.shape))[:2]


def qr(A: Any, mode: Any) -> tuple[Any, Any]:
    """Q and R, of which "reduced" leaves out what need not be; "r" leaves out Q."""
    if A.ndim > 2 or not A.size:
        return (None, np.linalg.qr(A, mode="r")) if mode == "r" else np.linalg.qr(A, mode=mode)
    made, tau = reflectors(A)
    m, k = A.shape[0], len(tau)
    R = _upper_triangle(made if mode == "complete" else made[:k])
    if mode == "r":
        return None, R
    if mode == "complete" and m > k:
        wide = np.zeros((m, m), made.dtype, "F")
        wide[:, :k] = made
        made = wide
    else:
        made = made[:, :m]
    return _product_of_reflectors(made, tau), R


def _product_of_reflectors(made: Any, tau: Any, overwrite: bool = True) -> Any:
    orgqr = _orthogonal_routine("gqr", made.dtype)
    # Asked for the least room, the routine takes single steps, which for few columns is as quick.
    room = () if made.shape[1] <= _KEPT else (64 * made.shape[1],)
    return orgqr(made, tau, *room, overwrite_a=overwrite)[0]


def householder_product(A: Any, tau: Any) -> Any:
    """As many columns of the product of the reflectors that stand below the diagonal of A as A has."""
    if A.ndim == 2 and A.size:
        return _product_of_reflectors(A, tau, False)
    made = in_columns(A)
    for i, matrix in enumerate(_one_by_one(made)):
        _product_of_reflectors(matrix, tau[np.unravel_index(i, tau.shape[:-1])])
    return made


def reflected(A: Any, tau: Any, C: Any, left: bool, adjoint: bool) -> Any:
    """C multiplied from a side by that product, or by its adjoint."""
    ormqr = _orthogonal_routine("mqr", A.dtype)
    side, trans = "L" if left else "R", "N" if not adjoint else "C" if A.dtype.kind == "c" else "T"
    room = 64 * (max(C.shape[-2:]) + 64)
    if A.ndim == 2 and C.size and tau.size:
        return ormqr(side, trans, A[:, : len(tau)], tau, C, room)[0]
    made = in_columns(C)
    if made.size and tau.size:
        given = _matrices(A[..., : tau.shape[-1]]), tau.reshape(-1, tau.shape[-1]), _one_by_one(made)
        for vectors, factors, matrix in zip(*given, strict=True):
            ormqr(side, trans, vectors, factors, matrix, room, True)
    return made


# general systems -----------------------------------------------------------------------------------------------------


def solve(A: Any, B: Any) -> tuple[Any, Any]:
    """X of A X = B, and the first zero on the diagonal of U of each singular A."""
    if A.ndim == B.ndim == 2 and B.size:
        X, code = _routine("gesv", A.dtype)(A, B)[2:]
        if not code:
            return X, _code(0)
    try:
        return np.linalg.solve(A, B), np.zeros(A.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        LU, pivots, info = lu_factor(A)
        return lu_solve(LU, pivots, B, False), info


def inverse(A: Any) -> tuple[Any, Any]:
    if A.ndim == 2:
        return solve(A, np.eye(A.shape[-1], dtype=A.dtype))
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
    work = _work(driver, A.dtype, m, n, B.shape[-1], *(() if driver == "gels" else (rcond,)))
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


# symmetric, but not positive -----------------------------------------------------------------------------------------


def ldl_factor(A: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """L below the diagonal, D's blocks on it; the rows exchanged, negative for a 2 by 2 block; info."""
    batch, n = A.shape[:-2], A.shape[-1]
    sytrf, LD = _hermitian_routine("trf", A.dtype, hermitian), in_columns(_lower_triangle(A))
    room = 64 * n
    if A.ndim == 2 and A.size:
        _, pivots, code = sytrf(LD, True, room, True)
        return LD, pivots, _code(code)
    pivots, info = np.zeros((*batch, n), np.int32), np.zeros(batch, np.int32)
    exchanged, codes = pivots.reshape(info.size, n), info.reshape(-1)
    for i, matrix in enumerate(_one_by_one(LD)):
        _, exchanged[i], codes[i] = sytrf(matrix, True, room, True)
    return LD, pivots, info


@functools.cache
def _address(name: str, kind: np.dtype) -> Callable:
    """A routine that SciPy's Fortran front may lack, called with addresses."""
    import scipy.linalg.cython_lapack

    capsule = scipy.linalg.cython_lapack.__pyx_capi__[_PREFIX[kind.char] + name]
    signature = capsule_name(capsule)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (signature.count(b",") + 1))(capsule_pointer(capsule, signature))


def ldl_solve(LD: Any, pivots: Any, B: Any, hermitian: bool) -> Any:
    """X of A X = B for the A that was factored: A = P L D L^H P^T, with L^T where it is not Hermitian."""
    LD, made = _broadcast(LD, B)
    LD, made, (n, columns) = in_columns(LD), in_columns(made), made.shape[-2:]
    if not made.size:
        return made
    solve = _address("hetrs" if hermitian and LD.dtype.kind == "c" else "sytrs", LD.dtype)
    exchanged = np.array(np.broadcast_to(pivots, LD.shape[:-1]), np.int32, order="C")
    sizes = np.array([n, columns, max(n, 1), 0], np.intc)  # the last is for the routine's code
    where = sizes.ctypes.data
    rows, count, leading, code = (where + i * sizes.itemsize for i in range(4))
    lower, first, rights, exchanges = ctypes.addressof(_LOWER), LD.ctypes.data, made.ctypes.data, exchanged.ctypes.data
    for i in range(made.size // (n * columns)):
        solve(lower, rows, count, first + i * n * n * LD.itemsize, leading, exchanges + i * n * exchanged.itemsize,
              rights + i * n * columns * made.itemsize, leading, code)
    return made


_LOWER = ctypes.create_string_buffer(b"L")


# eigenvalues and singular values -------------------------------------------------------------------------------------


def eigh(A: Any, lower: bool, vectors: bool) -> tuple[Any, Any, Any]:
    """Eigenvalues, eigenvectors (None where not asked for), and info: a positive code where no solution was found."""
    if A.ndim == 2 and A.size:
        values, made, code = _routine("heevd" if A.dtype.kind == "c" else "syevd", A.dtype)(A, vectors, lower)
        return values, made if vectors else None, _code(code)
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
    if A.ndim == 2 and A.size and np.isfinite(A).all():
        U, S, Vh, code = _routine("gesdd", A.dtype)(A, vectors, full, *_work("gesdd", A.dtype, *A.shape, vectors, full))
        return (U, S, Vh, _code(code)) if vectors else (None, S, None, _code(code))
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
