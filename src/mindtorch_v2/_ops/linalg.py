"""Decompositions of matrices, and solving with their triangular factors."""

import functools
from typing import Any

from .._backends.meta import contiguous_strides
from .._dtype import COMPUTE, FLOAT, dtype
from .._tensor import Tensor
from .declare import function_of, op
from .families import computes
from .rules import Spec, broadcast_shape
from .samples import case, cases, error, t
from .sort import laid_out


def _columns(shape: tuple[int, ...], kind: dtype) -> Spec:
    """Matrices that lie column by column, as LAPACK leaves them."""
    *batch, m, n = contiguous_strides((*shape[:-2], shape[-1], shape[-2]))
    return Spec(shape, kind, (*batch, n, m))


def _check_matrix(name: str, A: Tensor, kernel: str) -> None:
    if A._array.ndim < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")
    if A.dtype in COMPUTE or (name == "solve_triangular" and A.dtype.category < FLOAT):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{A.dtype.scalar_name}'")
    if A.dtype.category < FLOAT:
        raise RuntimeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got "
                           f"{A.dtype.scalar_name}")


def _triangle(matrix: Any, upper: bool, unitriangular: bool) -> Any:
    if upper:
        return matrix.triu(1 if unitriangular else 0)
    return matrix.tril(-1 if unitriangular else 0)


def _solve_triangular_spec(self: Tensor, B: Tensor, upper: bool, left: bool, unitriangular: bool) -> Spec:
    _check_matrix("solve_triangular", self, "triangular_solve_cpu")
    _check_matrix("solve_triangular", B, "triangular_solve_cpu")
    a, b = self._array.shape, B._array.shape
    if a[-1] != a[-2]:
        raise RuntimeError(f"linalg.solve_triangular: A must be batches of square matrices, but they are {a[-2]} by "
                           f"{a[-1]} matrices")
    if a[-1] != (b[-2] if left else b[-1]):
        raise RuntimeError(f"linalg.solve_triangular: Incompatible shapes of A and B for the equation "
                           f"{'AX = B' if left else 'XA = B'} ({a[-2]}x{a[-1]} and {b[-2]}x{b[-1]})")
    return _columns((*broadcast_shape([a[:-2], b[:-2]]), *b[-2:]), B.dtype)


def _solve_triangular(xp: Any, self: Any, B: Any, upper: bool, left: bool, unitriangular: bool, spec: Spec) -> Any:
    triangle = xp.triu(self) if upper else xp.tril(self)
    if unitriangular:
        at = xp.arange(self.shape[-1])
        triangle[..., at, at] = 1
    batch = spec.shape[:-2]
    triangle = xp.broadcast_to(triangle, (*batch, *self.shape[-2:]))
    B = xp.broadcast_to(B, spec.shape)
    if left:
        return laid_out(xp, xp.linalg.solve(triangle, B), spec)
    return laid_out(xp, xp.linalg.solve(triangle.swapaxes(-1, -2), B.swapaxes(-1, -2)).swapaxes(-1, -2), spec)


def _solve_triangular_grads(grad: Any, self: Any, result: Any, upper: bool, left: bool, unitriangular: bool) -> tuple:
    transposed = self.mH
    of_b = solve_triangular(transposed, grad, upper=not upper, left=left, unitriangular=unitriangular)
    of_a = -(of_b @ result.mH) if left else -(result.mH @ of_b)
    return _triangle(of_a, upper, unitriangular), of_b


_SOLVE_TRIANGULAR = op(
    "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
    kernel=computes(_solve_triangular_spec, _solve_triangular),
    grad={"self, B": _solve_triangular_grads}, public="", aliases=("linalg.solve_triangular",),
    samples=cases(case(t(3, 3, low=1.0, high=2.0), t(3, 2), upper=True),
                  case(t(2, 3, 3, low=1.0, high=2.0), t(3, 2), upper=False),
                  case(t(3, 3, low=1.0, high=2.0), t(2, 3), upper=True, left=False),
                  case(t(3, 3, low=-0.5, high=0.5), t(3, 1), upper=False, unitriangular=True),
                  error(RuntimeError, "must be batches of square matrices", t(2, 3), t(3, 2), upper=True)))


solve_triangular = function_of(_SOLVE_TRIANGULAR)


# QR ------------------------------------------------------------------------------------------------------------------


def _qr_spec(A: Tensor, mode: str) -> tuple[Spec, Spec]:
    _check_matrix("qr", A, "geqrf_cpu")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or "
                           "'complete'")
    *batch, m, n = A._array.shape
    rows = m if mode == "complete" else min(m, n)
    left = Spec((0,), A.dtype) if mode == "r" else _columns((*batch, m, rows), A.dtype)
    return left, _columns((*batch, rows, n), A.dtype)


def _qr(xp: Any, A: Any, mode: str, spec: tuple[Spec, Spec]) -> tuple:
    if mode == "r":
        return xp.empty((0,), A.dtype), laid_out(xp, xp.linalg.qr(A, mode="r"), spec[1])
    return tuple(map(functools.partial(laid_out, xp), xp.linalg.qr(A, mode=mode), spec))


def _qr_grad(grads: tuple, mode: str, Q: Any, R: Any) -> Any:
    if mode == "r":
        raise RuntimeError("The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
                           "linalg.qr(A, mode='reduced') if you are going to require gradients through linalg.qr.")
    of_q, of_r = grads
    m, n = Q.shape[-2], R.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    of_q = Q.new_zeros(Q.shape) if of_q is None else of_q
    of_r = R.new_zeros(R.shape) if of_r is None else of_r
    if m >= n:
        return _square_qr_grad(of_q, of_r, Q, R)
    # A is wide, [X | Y] with R = [U | V]: X = QU is the square case, and Y = QV brings its share of Q's gradient.
    right, of_right = R.narrow(-1, m, n - m), of_r.narrow(-1, m, n - m)
    of_x = _square_qr_grad(of_q + Q @ right @ of_right.mH, of_r.narrow(-1, 0, m), Q, R.narrow(-1, 0, m))
    return of_x.new_zeros((*of_x.shape[:-1], n)).slice_scatter(of_x, -1, 0, m).slice_scatter(Q @ of_right, -1, m, n)


def _square_qr_grad(of_q: Any, of_r: Any, Q: Any, R: Any) -> Any:
    skew = R @ of_r.mH - of_q.mH @ Q
    lower = skew.tril(-1)
    symmetric = lower + lower.mH + skew.diagonal(0, -2, -1).real.diag_embed().to(skew.dtype)
    return solve_triangular(R.mH, of_q + Q @ symmetric, upper=False, left=False)


op(
    "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)",
    kernel=computes(_qr_spec, _qr),
    npu="aclnnLinalgQr(A, mode{reduced,complete,r}, Q, R)",
    grad=dict(A=_qr_grad),
    public="",
    aliases=("linalg.qr",),
    samples=cases(
        case(t(4, 3)),
        case(t(3, 3)),
        case(t(3, 4)),
        case(t(2, 4, 3)),
        case(t(3, 3), "complete"),
        case(t(0, 3)),
        error(RuntimeError, "unrecognized mode 'x'", t(3, 3), "x"),
        error(RuntimeError, "must have at least 2 dimensions", t(3)),
    ),
)
