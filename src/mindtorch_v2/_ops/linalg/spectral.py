"""Eigenvalues, singular values, and what is built of them: pseudoinverse and rank."""

from typing import Any

from ..._core.dtype import COMPLEX, finfo, int64
from ..._core.tensor import Tensor
from ..._dispatch.argument_checks import expected
from .._declare.batch import in_front
from .._declare.families import computes
from .._declare.op import composite, function_of, op
from .._declare.out import AS_MADE, CASTABLE, safely
from .._declare.rules import Spec, broadcast_shape, check_constant, records, shape_text
from .._declare.samples import case, cases, error, t
from ..extreme import kinks
from .common import (
    check_floating,
    check_gauge,
    check_info,
    check_kernel,
    check_matrix,
    check_square,
    columns,
    differences,
    identity_like,
    named,
    placed,
    with_diagonal,
)
from .factor import INDEFINITE, POSITIVE
from .solve import REGULAR, linalg_solve

_COMPUTED = ("float32", "float64", "complex64", "complex128")


# Hermitian matrices --------------------------------------------------------------------------------------------------


def _eigh_spec(A: Tensor, UPLO: str, compute_v: bool) -> tuple[Spec, Spec]:
    check_square("linalg.eigh", A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    check_kernel("linalg_eigh_cpu", A)
    shape = A._array.shape
    return Spec(shape[:-1], A.dtype.to_real()), columns(shape, A.dtype) if compute_v else Spec((0,), A.dtype)


def _eigh(xp: Any, A: Any, UPLO: str, compute_v: bool, spec: tuple[Spec, Spec]) -> tuple:
    L, V, info = xp.lapack.eigh(A, UPLO.upper() == "L", compute_v)
    check_info("linalg.eigh", info)
    return L, placed(xp, V, spec[1]) if compute_v else xp.empty((0,), A.dtype)


def _eigh_grad(grads: tuple, eigenvalues: Any, eigenvectors: Any) -> Any:
    of_values, of_vectors = grads
    V = eigenvectors
    if of_vectors is None:
        return (V * of_values.unsqueeze(-2)) @ V.mH
    inner = V.mH @ of_vectors
    check_gauge(inner.diagonal(0, -2, -1), "linalg_eigh_backward: The eigenvectors in the complex case are specified u"
                "p to multiplication by e^{i phi}. The specified loss function depends on this quantity, so it is "
                "ill-defined.")
    return V @ with_diagonal((inner - inner.mH) / (2 * differences(eigenvalues)), of_values) @ V.mH


def _eigh_by_parts(A: Any, UPLO: str, compute_v: bool) -> tuple[Any, Any]:
    """By singular values: those of A + c are A's eigenvalues + c, if c is large enough to make all positive."""
    if not A.numel():
        return A.new_empty(A.shape[:-1], dtype=A.dtype.to_real()), A.new_empty(A.shape if compute_v else (0,))
    half = A.triu(1) if UPLO.upper() == "U" else A.tril(-1).mH
    diagonal = A.diagonal(0, -2, -1)
    whole = half + half.mH + (diagonal.real.to(A.dtype) if A.dtype.is_complex else diagonal).diag_embed()
    above = whole.detach().abs().sum(-1).amax(-1).clamp_min(finfo(A.dtype).tiny)[..., None, None] * 2
    vectors = linalg_svd_of(whole + identity_like(A, A.shape[-1]) * above, False)[0].flip(-1)
    values = (vectors.conj() * (whole @ vectors)).sum(-2)
    return values.real if A.dtype.is_complex else values, vectors if compute_v else A.new_empty((0,))


_eigh_of = function_of(op(
    "_linalg_eigh(Tensor A, str UPLO='L', bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)",
    kernel=computes(_eigh_spec, _eigh), grad=dict(A=_eigh_grad), public="", batch=in_front,
   kernels={"cuda": "spectral.eigh"}, decomposition=_eigh_by_parts, sharded="whole"))


@composite("linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
           out=AS_MADE, public="",
           aliases=("linalg.eigh",),
           samples=cases(case(INDEFINITE), case(POSITIVE, "U"), case(t(0, 0)), case(t(0, 3, 3)),
                         error(RuntimeError, "Expected UPLO argument to be 'L' or 'U', but got X", t(3, 3), "X"),
                         error(RuntimeError, "linalg.eigh: A must be batches of square matrices", t(2, 3))),
           autocast=dict(cpu="float32"))
def _linalg_eigh(self, UPLO):
    return named("linalg_eigh", *_eigh_of(self, UPLO, True))


@composite("linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor", public="", aliases=("linalg.eigvalsh",),
           samples=cases(case(INDEFINITE), case(POSITIVE, UPLO="U"), case(t(0, 0))), autocast=dict(cpu="float32"))
def _linalg_eigvalsh(self, UPLO):
    return _eigh_of(self, UPLO, records(self))[0]


# general matrices ----------------------------------------------------------------------------------------------------


def _eig_specs(name: str, self: Tensor) -> tuple[Spec, Spec]:
    check_square(name, self)
    kind = self.dtype
    if kind.category < COMPLEX and not kind.is_floating_point:
        raise RuntimeError(f"Unknown Complex ScalarType for {kind.scalar_name}")
    check_kernel("linalg_eig_out_cpu", self, even_empty=True)
    shape = self._array.shape
    return Spec(shape[:-1], kind.to_complex()), columns(shape, kind.to_complex())


def _check_finite(xp: Any, A: Any) -> None:
    if not xp.isfinite(A).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")


def _eig(xp: Any, self: Any, spec: tuple[Spec, Spec]) -> tuple:
    _check_finite(xp, self)
    L, V = xp.linalg.eig(self)
    return L, placed(xp, V, spec[1])


def _eigvals(xp: Any, self: Any) -> Any:
    _check_finite(xp, self)
    return xp.linalg.eigvals(self)


def _eig_grad(grads: tuple, eigenvalues: Any, eigenvectors: Any) -> Any:
    of_values, of_vectors = grads
    V = eigenvectors
    if of_vectors is None:
        return linalg_solve(V.mH, of_values.unsqueeze(-1) * V.mH, True)
    inner = V.mH @ of_vectors
    along = inner.diagonal(0, -2, -1)
    check_gauge(along, "linalg_eig_backward: The eigenvectors in the complex case are specified up to multiplication b"
                "y e^{i phi}. The specified loss function depends on this quantity, so it is ill-defined.")
    inner = inner - (V.mH @ V) * along.real.unsqueeze(-2)  # eigenvectors keep their length
    return linalg_solve(V.mH, with_diagonal(inner / differences(eigenvalues.conj()), of_values) @ V.mH, True)


_eig_of = function_of(op(
    "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
    kernel=computes(lambda self: _eig_specs("linalg.eig", self), _eig), grad=dict(self=_eig_grad), public="",
    aliases=("linalg.eig",),
    samples=cases(case(REGULAR), case(t(0, 0)), case(t(0, 3, 3)),
                  error(RuntimeError, "linalg.eig: A must be batches of square matrices", t(2, 3))),
    out=safely("torch.linalg.eig", "eigenvalues"), batch=in_front, autocast=dict(cpu="float32")))

_eigvals_of = function_of(op(
    "_linalg_eigvals(Tensor self) -> Tensor",
    kernel=computes(lambda self: _eig_specs("linalg.eigvals", self)[0], _eigvals), public="", batch=in_front))


@composite("linalg_eigvals(Tensor self) -> Tensor", public="", aliases=("linalg.eigvals",),
           samples=cases(case(REGULAR), case(t(0, 0)),
                         error(RuntimeError, "linalg.eigvals: A must be batches of square matrices", t(2, 3))),
           out=safely("torch.linalg.eigvals", "eigenvalues"), autocast=dict(cpu="float32"))
def _linalg_eigvals(self):
    return _eig_of(self)[0] if records(self) else _eigvals_of(self)


# singular values -----------------------------------------------------------------------------------------------------


def _svd_spec(A: Tensor, full_matrices: bool, compute_uv: bool, driver: str | None) -> tuple[Spec, Spec, Spec]:
    check_matrix("linalg.svd", A)
    check_floating("linalg.svd", A.dtype)
    if driver is not None:
        raise RuntimeError("torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVE"
                           "R backend.")
    check_kernel("linalg_svd_cpu", A)
    *batch, m, n = A._array.shape
    k, kind = min(m, n), A.dtype
    S = Spec((*batch, k), kind.to_real())
    if not compute_uv:
        return Spec((0,), kind), S, Spec((0,), kind)
    return (columns((*batch, m, m if full_matrices else k), kind), S,
            columns((*batch, n if full_matrices else k, n), kind))


def _svd(xp: Any, A: Any, full_matrices: bool, compute_uv: bool, driver: str | None, spec: tuple[Spec, ...]) -> tuple:
    U, S, Vh, info = xp.lapack.svd(A, full_matrices, compute_uv)
    check_info("linalg.svd", info)
    if not compute_uv:
        return xp.empty((0,), A.dtype), S, xp.empty((0,), A.dtype)
    return placed(xp, U, spec[0]), S, placed(xp, Vh, spec[2])


def _svd_grad(grads: tuple, U: Any, S: Any, Vh: Any) -> Any:
    """With U^H dU and V^H dV skew: both follow from the parts of dA in the basis of the singular vectors."""
    of_u, of_s, of_vh = grads
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    U, Vh = U[..., :k], Vh[..., :k, :]
    if of_u is None and of_vh is None:
        return U @ (of_s.unsqueeze(-1) * Vh) if m >= n else (U * of_s.unsqueeze(-2)) @ Vh
    squares = differences(S) * (S.unsqueeze(-2) + S.unsqueeze(-1))
    inner: Any = 0
    diagonal, phases = of_s, 0
    if of_u is not None:
        of_u = of_u[..., :k]
        turn = U.mH @ of_u
        skew = turn - turn.mH
        inner = skew / squares * S.unsqueeze(-2)
        phases = along = skew.diagonal(0, -2, -1)
        if U.dtype.is_complex:
            diagonal = along / (2 * S) if of_s is None else of_s + along / (2 * S)
    if of_vh is not None:
        of_vh = of_vh[..., :k, :]
        turn = Vh @ of_vh.mH
        skew = turn - turn.mH
        inner = inner + S.unsqueeze(-1) * (skew / squares)
        phases = phases + skew.diagonal(0, -2, -1)
    check_gauge(phases, "svd_backward: The singular vectors in the complex case are specified up to multiplication by "
                "e^{i phi}. The specified loss function depends on this phase term, making it ill-defined.")
    made = U @ with_diagonal(inner, diagonal) @ Vh
    if m > k and of_u is not None:
        scaled = of_u / S.unsqueeze(-2)
        made = made + (scaled - U @ (U.mH @ scaled)) @ Vh
    if n > k and of_vh is not None:
        scaled = of_vh / S.unsqueeze(-1)
        made = made + U @ (scaled - (scaled @ Vh.mH) @ Vh)
    return made


linalg_svd_of = function_of(op(
    "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S,"
    " Tensor Vh)", kernel=computes(_svd_spec, _svd), grad=dict(A=_svd_grad), public="", batch=in_front,
   kernels={"cuda": "spectral.svd", "npu": "linalg.svd"}, sharded="whole"))


@composite("linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
           out=AS_MADE,
           public="", aliases=("linalg.svd",),
           samples=cases(case(t(0, 3)), case(t(3, 0), False), case(t(2, 0, 3), False), case(t(3, 3)),
                         error(RuntimeError, "keyword argument `driver=` is only supported on CUDA inputs", t(3, 3),
                               driver="gesvd"),
                         error(RuntimeError, "linalg.svd: The input tensor A must have at least 2 dimensions.", t(3))),
           autocast=dict(cpu="float32"))
def _linalg_svd(A, full_matrices, driver):
    return named("linalg_svd", *linalg_svd_of(A, full_matrices, driver=driver))


@composite("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", public="", aliases=("linalg.svdvals",),
           samples=cases(case(t(3, 3)), case(t(2, 4, 3)), case(t(0, 3))), autocast=dict(cpu="float32"))
def linalg_svdvals(A, driver=None):
    return linalg_svd_of(A, False, records(A), driver=driver)[1]


@composite("svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
           samples=cases(case(t(0, 3)), case(t(4, 3), True, False), case(t(2, 3, 4), compute_uv=False)),
           autocast=dict(cpu="float32"))
def _torch_svd(self, some, compute_uv):
    if self.dim() < 2:
        raise RuntimeError(f"linalg.svd: input should have at least 2 dimensions, but has {self.dim()} dimensions "
                           "instead")
    if compute_uv:
        U, S, Vh = linalg_svd_of(self, not some)
        return named("svd", U, S, Vh.mH)
    *batch, m, n = self.shape
    return named("svd", self.new_zeros((*batch, m, m)), linalg_svdvals(self), self.new_zeros((*batch, n, n)).mT)


# built of singular values --------------------------------------------------------------------------------------------


def _limit(xp: Any, S: Any, size: int, atol: Any, rtol: Any) -> Any:
    """The size up to which singular values count as zero; a tolerance not given follows from the other."""
    usual = size * xp.finfo(S.dtype).eps
    if rtol is None:
        rtol = usual if atol is None else xp.where(xp.asarray(atol) > 0, 0.0, usual)
    relative = xp.asarray(rtol)[..., None] * xp.maximum.reduce(S, -1, keepdims=True, initial=0)
    return relative if atol is None else xp.maximum(xp.asarray(atol)[..., None], relative)


def _check_real(name: str, **tolerances: Any) -> None:
    for argument, value in tolerances.items():
        if value.__class__ is complex:
            raise TypeError(expected(name.removeprefix("torch."), argument, "float", value))
        if isinstance(value, Tensor) and value.dtype.is_complex:
            raise RuntimeError(f"{name}: {argument} tensor of complex type is not supported. Got "
                               f"{value.dtype.scalar_name}")


def _batch_with(self: Tensor, *tolerances: Any) -> tuple[int, ...]:
    """The batch that matrices and their tolerances broadcast to."""
    return broadcast_shape([self._array.shape[:-2], *[v._array.shape for v in tolerances if isinstance(v, Tensor)]])


def _decomposed(xp: Any, A: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """U, S and V^H, of eigenvectors and eigenvalues for a Hermitian matrix."""
    if hermitian:
        S, U, info = xp.lapack.eigh(A, True, True)
        check_info("linalg.eigh", info)
        return U, S, U.conj().swapaxes(-1, -2)
    U, S, Vh, info = xp.lapack.svd(A, False, True)
    check_info("linalg.svd", info)
    return U, S, Vh


def _pinv_spec(self: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Spec:
    kind, shape = self.dtype, self._array.shape
    if len(shape) < 2 or kind.name not in _COMPUTED:
        raise RuntimeError(f"linalg.pinv({kind.scalar_name}{{{shape_text(shape)}}}): expected a tensor with 2 or more "
                           "dimensions of float, double, cfloat or cdouble types")
    if hermitian:
        check_square("linalg.eigh", self)
    return Spec((*_batch_with(self, atol, rtol), shape[-1], shape[-2]), kind)


def _pinv(xp: Any, self: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    U, S, Vh = _decomposed(xp, self, hermitian)
    kept = xp.abs(S) > _limit(xp, xp.abs(S), max(self.shape[-2:]), atol, rtol)
    inverted = xp.where(kept, 1 / xp.where(kept, S, 1), 0).astype(S.dtype)
    return (Vh.conj().swapaxes(-1, -2) * inverted[..., None, :]) @ U.conj().swapaxes(-1, -2)


def pinv_grad(grad: Any, self: Any, result: Any) -> Any:
    """The three terms of the differential of a pseudoinverse of constant rank."""
    pinv, adjoint, across = result, result.mH, grad.mH
    if self.shape[-2] <= self.shape[-1]:
        one = across @ pinv
        two = one @ adjoint
        return two - (pinv @ one).mH - (self @ pinv) @ two + (adjoint @ pinv) @ (across - one @ self)
    one = pinv @ across
    two = adjoint @ one
    return two - (one @ pinv).mH - two @ (pinv @ self) + (across - self @ one) @ (pinv @ adjoint)


def _decomposed_by_parts(A: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    if not hermitian:
        return linalg_svd_of(A, False)
    values, vectors = _eigh_of(A)
    return vectors, values, vectors.mH


def counted(A: Any, S: Any, atol: Any, rtol: Any) -> Any:
    """Which singular values count, of tensors; a tolerance not given follows from the other."""
    S, usual = S.abs(), max(A.shape[-2:]) * finfo(S.dtype).eps
    atol, rtol = (v.unsqueeze(-1) if isinstance(v, Tensor) else v for v in (atol, rtol))
    if rtol is None:
        rtol = usual if atol is None else usual * (atol <= 0)
    limit = (S.amax(-1, True) if S.shape[-1] else S.new_zeros((*S.shape[:-1], 1))) * rtol
    if atol is not None:
        limit = limit.maximum(atol) if isinstance(atol, Tensor) else limit.clamp_min(atol)
    return S.gt(limit)


def _pinv_by_parts(self: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    if 0 in self.shape[-2:]:
        return self.mH.expand(*_batch_with(self, atol, rtol), self.shape[-1], self.shape[-2])
    U, S, Vh = _decomposed_by_parts(self, hermitian)
    kept = counted(self, S, atol, rtol)
    return (Vh.mH * S.where(kept, 1).reciprocal().masked_fill(~kept, 0).unsqueeze(-2)) @ U.mH


linalg_pinv = function_of(op(
    "_linalg_pinv(Tensor self, Tensor|Scalar? atol=None, Tensor|Scalar? rtol=None, bool hermitian=False) -> Tensor",
    kernel=computes(_pinv_spec, _pinv), grad=dict(self=pinv_grad), public="", decomposition=_pinv_by_parts))
_PINV_SAMPLES = (case(t(3, 3)), case(t(2, 4, 3)), case(t(3, 4)), case(INDEFINITE, hermitian=True), case(t(0, 3)))


@composite("linalg_pinv.atol_rtol_float(Tensor self, *, Tensor|Scalar? atol=None, Tensor|Scalar? rtol=None, bool "
           "hermitian=False) -> Tensor", public="", aliases=("linalg.pinv",),
           samples=cases(*_PINV_SAMPLES, case(kinks(REGULAR.values), atol=2.5),
                         case(kinks(REGULAR.values), rtol=0.6, atol=0.1),
                         error(RuntimeError, "linalg.pinv(Float{[3]}): expected a tensor with 2 or more dimensions",
                               t(3))), out=safely("linalg.pinv"))
def _linalg_pinv(self, atol, rtol, hermitian):
    check_constant("linalg_pinv", atol=atol, rtol=rtol)
    _check_real("torch.linalg.pinv", atol=atol, rtol=rtol)
    return linalg_pinv(self, atol, rtol, hermitian)


@composite("linalg_pinv(Tensor self, Tensor|Scalar rcond, bool hermitian=False) -> Tensor", public="",
           aliases=("linalg.pinv",), samples=cases(case(kinks(REGULAR.values), 0.6), case(INDEFINITE, 0.1, True)),
           out=safely("linalg.pinv"))
def _linalg_pinv_rcond(self, rcond, hermitian):
    check_constant("linalg_pinv", rtol=rcond)
    _check_real("torch.linalg.pinv", rcond=rcond)
    return linalg_pinv(self, 0.0, rcond, hermitian)


@composite("pinverse(Tensor self, float rcond=1e-15) -> Tensor",
           samples=cases(case(t(3, 4)), case(kinks(REGULAR.values), 0.6)), out=None, autocast=dict(cpu="float32"),
           refuses_coo="full(...) is not implemented for sparse layout")
def _pinverse(self, rcond):
    return linalg_pinv(self, 0.0, rcond)


def _rank_spec(self: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Spec:
    name = "torch.linalg.matrix_rank"
    _check_real(name, atol=atol, rtol=rtol)
    check_matrix(name, self, "input")
    if rtol is None and self.dtype.name not in _COMPUTED:
        raise RuntimeError("This function doesn't handle types other than float and double")
    if hermitian:
        check_square("linalg.eigh", self)
        check_kernel("linalg_eigh_cpu", self)
    else:
        check_floating("linalg.svd", self.dtype)
        check_kernel("linalg_svd_cpu", self)
    return Spec(_batch_with(self, atol, rtol), int64)


def _rank(xp: Any, self: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    S = xp.abs(_decomposed(xp, self, hermitian)[1])
    limit = _limit(xp, S, max(self.shape[-2:]), atol, rtol)
    return xp.greater(S, limit).sum(-1)


_rank_of = function_of(op(
    "_linalg_rank(Tensor self, Tensor|Scalar? atol, Tensor|Scalar? rtol, bool hermitian) -> Tensor",
    kernel=computes(_rank_spec, _rank), public="",
    decomposition=lambda self, atol, rtol, hermitian: counted(self, _decomposed_by_parts(self, hermitian)[1], atol,
                                                              rtol).sum(-1)))


@composite("linalg_matrix_rank.atol_rtol_float(Tensor self, *, Tensor|Scalar? atol=None, Tensor|Scalar? rtol=None, bool"
           " hermitian=False) -> Tensor", public="", aliases=("linalg.matrix_rank",),
           samples=cases(case(t(3, 3)), case(t(2, 4, 3)), case(t(3, 3), atol=1.0), case(t(3, 3), rtol=0.5),
                         case(INDEFINITE, hermitian=True), case(t(0, 3)),
                         error(RuntimeError, "torch.linalg.matrix_rank: The input tensor input must have at least 2 "
                                             "dimensions.", t(3))), out=CASTABLE, autocast=dict(cpu="float32"))
def _matrix_rank(self, atol, rtol, hermitian):
    return _rank_of(self, atol, rtol, hermitian)


@composite("linalg_matrix_rank(Tensor self, Tensor|Scalar tol, bool hermitian=False) -> Tensor", public="",
           aliases=("linalg.matrix_rank",), samples=cases(case(t(3, 3), 0.5), case(INDEFINITE, 0.1, True)),
           out=CASTABLE, autocast=dict(cpu="float32"))
def _matrix_rank_tol(self, tol, hermitian):
    return _rank_of(self, tol, 0.0, hermitian)
