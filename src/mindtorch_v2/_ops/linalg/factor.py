"""Triangular and orthogonal factors of matrices: Cholesky, LU, LDL, QR and Householder reflectors."""

from collections.abc import Callable
from typing import Any

from ..._core.device import contiguous_format
from ..._core.dtype import int32
from ..._core.tensor import Tensor
from ..._core.warn import warn_once
from .._declare.aten import LEAF
from .._declare.batch import in_front
from .._declare.families import computes, moves
from .._declare.op import composite, function_of, op
from .._declare.out import AS_MADE, EXACT, Out, safely
from .._declare.rules import Spec, shape_text
from .._declare.samples import case, cases, error, t, values
from ..join import cat, constant_pad_nd
from ..matrices import conj
from .common import (
    check_floating,
    check_info,
    check_kernel,
    check_matrix,
    check_same_type,
    check_square,
    columns,
    identity_like,
    named,
    placed,
)
from .triangular import solve_triangular

POSITIVE = values([[4.0, 1.0, 0.5], [1.0, 3.0, -0.5], [0.5, -0.5, 2.0]])
INDEFINITE = values([[0.5, 2.0, 1.0], [2.0, 0.25, -1.0], [1.0, -1.0, 3.0]])


# Cholesky ------------------------------------------------------------------------------------------------------------


def _cholesky_spec(self: Tensor, upper: bool, check_errors: bool) -> tuple[Spec, Spec]:
    check_square("linalg.cholesky", self)
    check_floating("linalg.cholesky", self.dtype)
    check_kernel("cholesky_cpu", self)
    shape = self._array.shape
    return columns(shape, self.dtype), Spec(shape[:-2], int32)


def _cholesky(xp: Any, self: Any, upper: bool, check_errors: bool, spec: tuple[Spec, Spec]) -> tuple:
    L, info = xp.lapack.cholesky(self, upper)
    if check_errors:
        check_info("linalg.cholesky_ex", info)
    return placed(xp, L, spec[0]), info


def _cholesky_grad(grad: Any, L: Any, upper: bool) -> Any:
    if grad is None:
        return None
    L, grad = (L.mH, grad.mH) if upper else (L, grad)
    lower = (L.mH @ grad).tril()
    inner = 0.5 * (lower + lower.tril(-1).mH)
    half = solve_triangular(L.mH, inner, upper=True)
    return solve_triangular(L, half, upper=False, left=False)


_cholesky_ex = function_of(op(
    "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    out=AS_MADE,
    kernel=computes(_cholesky_spec, _cholesky),
    grad=dict(self=_cholesky_grad), public="", aliases=("linalg.cholesky_ex",),
    samples=cases(case(POSITIVE), case(POSITIVE, upper=True), case(t(0, 0)), case(t(0, 3, 3)),
                  case(values([[[1.0, 0.5], [0.5, 2.0]], [[1.0, 0.5], [0.5, 1.0]]])),
                  error(RuntimeError, "linalg.cholesky: A must be batches of square matrices, but they are 2 by 3",
                        t(2, 3)),
                  error(RuntimeError, "linalg.cholesky: The input tensor A must have at least 2 dimensions.", t(3))),
    batch=in_front, autocast=dict(cpu="float32"), kernels={"npu": "linalg.cholesky"}, sharded="whole"))


@composite("linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
           out=AS_MADE, public="", aliases=("linalg.cholesky",),
           samples=cases(case(POSITIVE), case(POSITIVE, upper=True), case(t(0, 0))), autocast=dict(cpu="float32"))
def _linalg_cholesky(self, upper):
    L, info = _cholesky_ex(self, upper=upper)
    check_info("linalg.cholesky", info)
    return L


@composite("cholesky(Tensor self, bool upper=False) -> Tensor",
           node="CholeskyBackward0", samples=cases(case(POSITIVE), case(POSITIVE, True)),
           out=safely("cholesky"), aten=LEAF, autocast=dict(cpu="float32"), sharded="whole")
def _torch_cholesky(self, upper):
    warn_once("torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future "
              "PyTorch release.\nL = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand"
              "\nU = torch.cholesky(A, upper=True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\nThis "
              "transform will produce equivalent results for all valid (symmetric positive definite) inputs.")
    if not self.numel():
        return self.clone(memory_format=contiguous_format)
    check_square("cholesky", self)
    check_kernel("cholesky_cpu", self)
    L, info = _cholesky_ex(self, upper=upper)
    check_info("cholesky", info)
    return L


# LU ------------------------------------------------------------------------------------------------------------------


def _lu_factor_spec(A: Tensor, pivot: bool, check_errors: bool) -> tuple[Spec, Spec, Spec]:
    shape = A._array.shape
    if len(shape) < 2:
        raise RuntimeError(f"torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {shape_text(shape)} "
                           "instead")
    if not pivot and A._array.size:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    check_kernel("lu_cpu", A)
    return columns(shape, A.dtype), Spec((*shape[:-2], min(shape[-2:])), int32), Spec(shape[:-2], int32)


def _lu_factor(xp: Any, A: Any, pivot: bool, check_errors: bool, spec: tuple[Spec, ...]) -> tuple:
    LU, pivots, info = xp.lapack.lu_factor(A)
    if check_errors:
        check_info("torch.linalg.lu_factor_ex", info)
    return placed(xp, LU, spec[0]), pivots, info


def _lu_factor_grad(grad: Any, LU: Any, pivots: Any) -> Any:
    """With A = P [L1; L2] [U1 U2]: the square part is what L1 U1 gives, less what L2 or U2 owe to U1 or L1."""
    if grad is None:
        return None
    m, n = LU.shape[-2:]
    k = min(m, n)
    square = LU[..., :k, :k]
    L, U = square.tril(-1) + identity_like(square), square.triu()
    lower, upper = L.mH @ grad[..., :k, :k], grad[..., :k, :k] @ U.mH
    beside, beneath = LU[..., :k, k:], LU[..., k:, :k]
    if n > k:
        lower = lower - grad[..., :k, k:] @ beside.mH
    if m > k:
        upper = upper - beneath.mH @ grad[..., k:, :k]
    inner = solve_triangular(L.mH, lower.tril(-1) + upper.triu(), upper=True, unitriangular=True)
    made = solve_triangular(U.mH, inner, upper=False, left=False)
    if n > k:
        right = solve_triangular(L.mH, grad[..., :k, k:], upper=True, unitriangular=True)
        made = cat((made, right), -1)
    if m > k:
        made = cat((made, solve_triangular(U.mH, grad[..., k:, :k], upper=False, left=False)), -2)
    return _permutation_matrix(LU, pivots) @ made


_lu_factor_ex = function_of(op(
    "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, "
    "Tensor info)", out=AS_MADE,
    kernel=computes(_lu_factor_spec, _lu_factor),
    grad=dict(A=_lu_factor_grad), public="", aliases=("linalg.lu_factor_ex",),
    samples=cases(case(t(3, 3)), case(t(2, 4, 3)), case(t(2, 3, 4)), case(t(0, 3)), case(t(3, 0)),
                  case(values([[1.0, 2.0], [2.0, 4.0]])),
                  error(RuntimeError, "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: [3]",
                        t(3)),
                  error(RuntimeError, "LU without pivoting is not implemented on the CPU", t(3, 3), pivot=False)),
    batch=in_front, sharded="whole"))


@composite("linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", out=AS_MADE, public="",
           aliases=("linalg.lu_factor",), samples=cases(case(t(3, 3)), case(t(2, 4, 3)), case(t(0, 3))))
def _linalg_lu_factor(A, pivot):
    LU, pivots, info = _lu_factor_ex(A, pivot=pivot)
    check_info("torch.linalg.lu_factor", info)
    return named("linalg_lu_factor", LU, pivots)


@composite("_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor "
           "info)", public="torch", samples=cases(case(t(3, 3)), case(t(2, 4, 3))), out=None,
           autocast=dict(cpu="float32"))
def _lu_with_info(self, pivot, check_errors):
    return named("_lu_with_info", *_lu_factor_ex(self, pivot=pivot, check_errors=check_errors))


@composite("lu(Tensor self, bool pivot=True, bool get_infos=False) -> (Tensor, Tensor)", public="Tensor",
           samples=cases(case(t(3, 3)), case(t(2, 4, 3), get_infos=True)))
def _lu(self, pivot, get_infos):
    warn_once("torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be "
              "removed in a future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with"
              "\nLU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\nLU, pivots, info = torch.lu(A, "
              "compute_pivots, get_infos=True)\nshould be replaced with\nLU, pivots, info = torch.linalg.lu_factor_ex("
              "A, compute_pivots)")
    made = _lu_factor_ex(self, pivot=pivot)
    return tuple(made) if get_infos else tuple(made[:2])


def _permutation_spec(LU_data: Tensor, LU_pivots: Tensor) -> Spec:
    shape, given = LU_data._array.shape, LU_pivots._array.shape
    needed, batch = min(shape[-2:]), shape[:-2]
    fits = given and given[-1] >= needed and len(given) <= len(shape) - 1
    if not fits or any(n not in (1, m) for n, m in zip(given[-2::-1], batch[::-1], strict=False)):
        raise RuntimeError(f"torch.lu_unpack: expected LU_pivots to hold {needed} pivots for each matrix of LU_data "
                           f"with shape {shape_text(shape)}, but got pivots with shape {shape_text(given)}")
    return Spec((*shape[:-1], shape[-2]), LU_data.dtype)


def _permutation(xp: Any, LU_data: Any, LU_pivots: Any, spec: Spec) -> Any:
    m, n = LU_data.shape[-2:]
    made = xp.empty(spec.shape, spec.dtype.np)
    made[...] = xp.arange(m)[:, None] == xp.lapack.permutation(LU_pivots[..., : min(m, n)], m)[..., None, :]
    return made


_permutation_matrix = function_of(op(
    "_lu_permutation(Tensor LU_data, Tensor LU_pivots) -> Tensor",
    kernel=moves(_permutation_spec, _permutation), public=""))


def _triangles_spec(LU_data: Tensor) -> tuple[Spec, Spec]:
    *batch, m, n = LU_data._array.shape
    return Spec((*batch, m, min(m, n)), LU_data.dtype), Spec((*batch, min(m, n), n), LU_data.dtype)


def _triangles_grad(grads: tuple, LU_data_shape: tuple) -> Any:
    """What L has below its diagonal and U on and above it, each filled up to the shape of both."""
    (m, n), (of_l, of_u), parts = LU_data_shape[-2:], grads, []
    if of_l is not None:
        parts.append(constant_pad_nd(of_l.tril(-1), (0, max(n - m, 0)), 0))
    if of_u is not None:
        parts.append(constant_pad_nd(of_u.triu(), (0, 0, 0, max(m - n, 0)), 0))
    return sum(parts[1:], parts[0])


def _triangles_by_parts(LU_data: Any) -> tuple:
    k = min(LU_data.shape[-2:])
    lower = LU_data[..., :k].tril(-1)
    return lower + identity_like(lower, lower.shape[-2]), LU_data[..., :k, :].triu()


_triangles = function_of(op(
    "_lu_triangles(Tensor LU_data) -> (Tensor L, Tensor U)", decomposition=_triangles_by_parts,
    kernel=moves(_triangles_spec, lambda xp, LU_data: xp.lapack.lu_triangles(LU_data)),
    grad=dict(LU_data=_triangles_grad), batch=in_front, public=""))


@composite("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, "
           "Tensor L, Tensor U)", node="LuUnpackBackward0", public="torch",
           samples=cases(case(t(3, 3), values([2, 3, 3]), True, False), case(t(2, 3, 5), values([1]), True, False)),
           aten=LEAF)
def _lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots):
    check_matrix("torch.lu_unpack", LU_data, "LU_data")
    P = L = U = None
    if unpack_pivots:
        if LU_pivots.dtype is not int32:
            raise RuntimeError("torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype."
                               "\nNote: this function is intended to be used with the output produced by "
                               "torch.linalg.lu_factor")
        P = _permutation_matrix(LU_data, LU_pivots)
    if unpack_data:
        L, U = _triangles(LU_data)
    return named("lu_unpack", *[LU_data.new_empty((0,)) if part is None else part for part in (P, L, U)])


@composite("linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
           node="LinalgLuBackward0", public="",
           aliases=("linalg.lu",), samples=cases(case(t(3, 3)), case(t(2, 4, 3)), case(t(2, 3, 4)), case(t(3, 0))),
           aten=LEAF)
def _linalg_lu(A, pivot):
    if A.dim() < 2:
        raise RuntimeError(f"linalg.lu: Expected tensor with 2 or more dimensions. Got size: {shape_text(A.shape)} "
                           "instead")
    LU, pivots, _ = _lu_factor_ex(A, pivot=pivot)
    return named("linalg_lu", *_lu_unpack(LU, pivots, True, pivot))


# LDL -----------------------------------------------------------------------------------------------------------------


def _ldl_spec(self: Tensor, hermitian: bool, check_errors: bool) -> tuple[Spec, Spec, Spec]:
    check_square("torch.linalg.ldl_factor_ex", self)
    check_floating("torch.linalg.ldl_factor_ex", self.dtype)
    check_kernel("ldl_factor_kernel_cpu", self)
    shape = self._array.shape
    return columns(shape, self.dtype), Spec(shape[:-1], int32), Spec(shape[:-2], int32)


def _ldl(xp: Any, self: Any, hermitian: bool, check_errors: bool, spec: tuple[Spec, ...]) -> tuple:
    LD, pivots, info = xp.lapack.ldl_factor(self, hermitian)
    if check_errors:
        check_info("torch.linalg.ldl_factor_ex", info)
    return placed(xp, LD, spec[0]), pivots, info


def no_derivative(name: str) -> Any:
    """The formula of an operator that PyTorch cannot differentiate."""

    def refuse(grad: Any) -> Any:
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    return refuse


_ldl_factor_ex = function_of(op(
    "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, "
    "Tensor info)", out=AS_MADE,
    kernel=computes(_ldl_spec, _ldl), grad=dict(self=no_derivative("linalg_ldl_factor_ex")),
    public="", aliases=("linalg.ldl_factor_ex",),
    samples=cases(case(POSITIVE), case(INDEFINITE), case(INDEFINITE, hermitian=True), case(t(0, 3, 3)),
                  error(RuntimeError, "torch.linalg.ldl_factor_ex: A must be batches of square matrices", t(2, 3))),
    batch=in_front))


@composite("linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
           out=AS_MADE, public="",
           aliases=("linalg.ldl_factor",), samples=cases(case(POSITIVE), case(INDEFINITE)))
def _ldl_factor(self, hermitian):
    LD, pivots, info = _ldl_factor_ex(self, hermitian=hermitian)
    check_info("torch.linalg.ldl_factor", info)
    return named("linalg_ldl_factor", LD, pivots)


# QR ------------------------------------------------------------------------------------------------------------------


def _qr_spec(A: Tensor, mode: str) -> tuple[Spec, Spec]:
    check_matrix("linalg.qr", A)
    check_floating("linalg.qr", A.dtype)
    check_kernel("geqrf_cpu", A, even_empty=True)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or "
                           "'complete'")
    *batch, m, n = A._array.shape
    rows = m if mode == "complete" else min(m, n)
    left = Spec((0,), A.dtype) if mode == "r" else columns((*batch, m, rows), A.dtype)
    return left, columns((*batch, rows, n), A.dtype)


def _qr(xp: Any, A: Any, mode: str, spec: tuple[Spec, Spec]) -> tuple:
    Q, R = xp.lapack.qr(A, mode)
    return xp.empty((0,), A.dtype) if Q is None else placed(xp, Q, spec[0]), placed(xp, R, spec[1])


def _qr_grad(grads: tuple, mode: str, Q: Any, R: Any) -> Any:
    if mode == "r":
        raise RuntimeError("The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
                           "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr.")
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
    return cat((of_x, Q @ of_right), -1)


def _square_qr_grad(of_q: Any, of_r: Any, Q: Any, R: Any) -> Any:
    skew = R @ of_r.mH - of_q.mH @ Q
    lower = skew.tril(-1)
    symmetric = lower + lower.mH + skew.diagonal(0, -2, -1).real.diag_embed().to(skew.dtype)
    return solve_triangular(R.mH, of_q + Q @ symmetric, upper=False, left=False)


linalg_qr = function_of(op(
    "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)", out=AS_MADE,
    kernel=computes(_qr_spec, _qr),
    npu="aclnnLinalgQr(A, mode{reduced,complete,r}, Q, R)",
    grad=dict(A=_qr_grad), public="", aliases=("linalg.qr",),
    samples=cases(case(t(4, 3)), case(t(3, 3)), case(t(3, 4)), case(t(2, 4, 3)), case(t(3, 3), "complete"),
                  case(t(0, 3)),
                  error(RuntimeError, "unrecognized mode 'x'", t(3, 3), "x"),
                  error(RuntimeError, "must have at least 2 dimensions", t(3))), batch=in_front,
    autocast=dict(cpu="float32"), sharded="whole"))


@composite("qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
           samples=cases(case(t(4, 3)), case(t(2, 3, 4)), case(t(3, 3), some=False)), autocast=dict(cpu="float32"))
def _torch_qr(self, some):
    warn_once("torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future PyTorch release."
              "\nThe boolean parameter 'some' has been replaced with a string parameter 'mode'.\nQ, R = torch.qr(A,"
              " some)\nshould be replaced with\nQ, R = torch.linalg.qr(A, 'reduced' if some else 'complete')")
    return named("qr", *linalg_qr(self, "reduced" if some else "complete"))


def _geqrf_spec(self: Tensor) -> tuple[Spec, Spec]:
    if self._array.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    check_kernel("geqrf_cpu", self, even_empty=True)
    shape = self._array.shape
    return columns(shape, self.dtype), Spec((*shape[:-2], min(shape[-2:])), self.dtype)


def _geqrf(xp: Any, self: Any, spec: tuple[Spec, Spec]) -> tuple:
    reflectors, tau = xp.lapack.reflectors(self)
    return placed(xp, reflectors, spec[0]), tau


def _geqrf_grad(grads: tuple) -> Any:
    raise NotImplementedError("the derivative for 'geqrf' is not implemented.")


op("geqrf(Tensor self) -> (Tensor a, Tensor tau)", kernel=computes(_geqrf_spec, _geqrf), grad=dict(self=_geqrf_grad),
   samples=cases(case(t(4, 3)), case(t(2, 3, 4)), case(t(0, 3)),
                 error(RuntimeError, "torch.geqrf: input must have at least 2 dimensions.", t(3))),
   out=safely("torch.geqrf", "a")._replace(lies_as_made="emptied"), batch=in_front, autocast=dict(cpu="float32"))


# Householder reflectors ----------------------------------------------------------------------------------------------


def _check_reflectors(name: str, input: Tensor, tau: Tensor) -> None:
    rank, factors = input._array.ndim, tau._array.ndim
    if factors != rank - 1:
        raise RuntimeError(f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to "
                           f"{factors} and input.ndim is equal to {rank}")
    if tau._array.shape[:-1] != input._array.shape[:-2]:
        raise RuntimeError(f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
                           f"{shape_text(tau._array.shape[:-1])}")


def _reflectors(input: Any, tau: Any) -> tuple[Any, Any]:
    """V and T of the product Q = I - V T V^H of the reflectors I - tau v v^H whose v stand below the diagonal."""
    V = _vectors(input, tau)
    return V, solve_triangular(tau.unsqueeze(-1) * (V.mH @ V).triu(1), tau.diag_embed(), upper=True, unitriangular=True)


def _vectors(input: Any, tau: Any) -> Any:
    below = input[..., : tau.shape[-1]].tril(-1)
    return below + identity_like(below, below.shape[-2])


def _reflector_grads(input: Any, tau: Any, of_right: Callable, of_left: Callable) -> tuple[Any, Any]:
    """The gradients of reflectors and factors; for a gradient G of (the first columns of) Q, `of_right(V)` is G V, of
    as many rows of V as G has columns, and `of_left(V)` is G^H V.

    T is the solution of (1 + D S) T = D, where S is V^H V above its diagonal and D the diagonal matrix of factors.
    """
    V = _vectors(input, tau)
    S, factors = (V.mH @ V).triu(1), tau.unsqueeze(-1)
    T = solve_triangular(factors * S, tau.diag_embed(), upper=True, unitriangular=True)
    right, left = of_right(V), of_left(V)
    inner = solve_triangular((factors * S).mH, -(V.mH @ right), upper=False, unitriangular=True)
    of_tau = (inner * conj(identity_like(S) - S @ T)).sum(-1)
    of_s = -(conj(factors) * (inner @ T.mH)).triu(1)
    of_v = V @ (of_s + of_s.mH) - right @ T.mH
    of_first, m = left @ T, V.shape[-2]
    if of_first.shape[-2] < m:
        of_first = constant_pad_nd(of_first, (0, 0, 0, m - of_first.shape[-2]), 0)
    of_input = (of_v - of_first).tril(-1)
    unused = input.shape[-1] - of_input.shape[-1]
    return constant_pad_nd(of_input, (0, unused), 0) if unused else of_input, of_tau


def _householder_spec(input: Tensor, tau: Tensor) -> Spec:
    name, shape = "torch.linalg.householder_product", input._array.shape
    if len(shape) < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    m, n = shape[-2:]
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if n < tau.size(-1):
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    _check_reflectors(name, input, tau)
    check_same_type(f"{name}: tau dtype {{}} does not match input dtype {{}}", tau.dtype, input.dtype)
    check_kernel("orgqr_cpu", input, even_empty=True)
    return columns(shape, input.dtype)


def _householder_by_parts(input: Any, tau: Any) -> Any:
    V, T = _reflectors(input, tau)
    n = input.shape[-1]
    transposed = V[..., :n, :].conj() @ T.mT @ V.mT  # so that the result lies column by column
    return (identity_like(input.mT, n) - transposed).mT


def _householder_grads(grad: Any, input: Any, tau: Any) -> tuple[Any, Any]:
    return _reflector_grads(input, tau, lambda V: grad @ V[..., : grad.shape[-1], :], lambda V: grad.mH @ V)


householder_product = function_of(op(
    "linalg_householder_product(Tensor input, Tensor tau) -> Tensor", public="",
    aliases=("linalg.householder_product",),
    kernel=computes(_householder_spec, lambda xp, input, tau, spec:
                    placed(xp, xp.lapack.householder_product(input, tau), spec)),
    grad={"input, tau": _householder_grads}, decomposition=_householder_by_parts,
    samples=cases(case(t(4, 3), t(3)), case(t(2, 4, 3), t(2, 2)), case(t(0, 0), t(0)),
                  error(RuntimeError, "torch.linalg.householder_product: input must have at least 2 dimensions.",
                        t(3), t(3)),
                  error(RuntimeError, "input.shape[-2] must be greater than or equal to input.shape[-1]", t(2, 3),
                        t(2)),
                  error(RuntimeError, "input.shape[-1] must be greater than or equal to tau.shape[-1]", t(3, 2), t(3))),
    out=safely("torch.linalg.householder_product")._replace(columns_of="input", lies_as_made="emptied"),
    autocast=dict(cpu="float32")))


@composite("orgqr(Tensor self, Tensor input2) -> Tensor",
           out=EXACT._replace(lies_as_made="emptied"), samples=cases(case(t(4, 3), t(3))),
           autocast=dict(cpu="float32"))
def _orgqr(self, input2):
    return householder_product(self, input2)


def _ormqr_spec(self: Tensor, input2: Tensor, input3: Tensor, left: bool, transpose: bool) -> Spec:
    name, side = "torch.ormqr", -2 if left else -1
    shape, tau, other = self._array.shape, input2._array.shape, input3._array.shape
    for argument, given in (("input", shape), ("other", other)):
        if len(given) < 2:
            raise RuntimeError(f"{name}: {argument} must have at least 2 dimensions.")
    if other[side] < input2.size(-1):
        raise RuntimeError(f"{name}: other.shape[{side}] must be greater than or equal to tau.shape[-1]")
    if tau[-1] != min(other[side], shape[-1]):
        raise RuntimeError(f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    if other[side] != shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    _check_reflectors(name, self, input2)
    if len(other) != len(shape):
        raise RuntimeError(f"{name}: Expected other to have the same number of dimensions as input, but got other.ndim "
                           f"equal to {len(other)} and input.ndim is equal to {len(shape)}")
    if other[:-2] != shape[:-2]:
        raise RuntimeError(f"{name}: Expected batch dimensions of other to be equal to input.shape[:-2], but got "
                           f"{shape_text(other[:-2])}")
    for argument, tensor in (("tau", input2), ("other", input3)):
        check_same_type(f"{name}: Expected input and {argument} to have the same dtype, but input has dtype{{}} and "
                        f"{argument} has dtype {{}}", self.dtype, tensor.dtype)
    check_kernel("ormqr_cpu", self, even_empty=True)
    return columns(other, self.dtype)


def _ormqr_by_parts(self: Any, input2: Any, input3: Any, left: bool, transpose: bool) -> Any:
    V, T = _reflectors(self, input2)
    T = T.mH if transpose else T
    X = input3.mT.contiguous()  # so that the result lies column by column
    if left:
        return (X - X @ V.conj() @ T.mT @ V.mT).mT
    return (X - V.conj() @ (T.mT @ (V.mT @ X))).mT


def _ormqr_grads(grad: Any, self: Any, input2: Any, input3: Any, left: bool, transpose: bool, needs: tuple) -> tuple:
    of_other = _ormqr(self, input2, grad, left, not transpose) if needs[2] else None
    if not needs[0] and not needs[1]:
        return None, None, of_other
    # The gradient of Q, or of its adjoint, is a product, of which neither is wanted but with V.
    one, other = (grad, input3) if left else (input3.mH, grad.mH)
    one, other = (other, one) if transpose else (one, other)
    return (*_reflector_grads(self, input2, lambda V: one @ (other.mH @ V), lambda V: other @ (one.mH @ V)), of_other)


_ormqr = function_of(op(
    "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
    kernel=computes(_ormqr_spec, lambda xp, self, input2, input3, left, transpose, spec:
                    placed(xp, xp.lapack.reflected(self, input2, input3, left, transpose), spec)),
    grad={"self, input2, input3": _ormqr_grads}, decomposition=_ormqr_by_parts,
    samples=cases(case(t(4, 3), t(3), t(4, 2)), case(t(2, 4, 3), t(2, 3), t(2, 5, 4), False),
                  case(t(4, 3), t(3), t(4, 2), True, True), case(t(4, 3), t(3), t(2, 4), False, True),
                  error(RuntimeError, "torch.ormqr: other.shape[-2] must be equal to input.shape[-2]", t(3, 2), t(2),
                        t(4, 2))),
    out=Out("exact", "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{made} and "
                     "result has dtype {given}", columns_of="input3", lies_as_made="emptied"),
    autocast=dict(cpu="float32")))
