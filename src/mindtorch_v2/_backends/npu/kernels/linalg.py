"""NPU kernels of linear algebra and Fourier transforms: ACLNN's decompositions, and products on the matrix units."""

import math
from collections.abc import Sequence
from typing import Any

from ...._dtype import COMPUTE, finfo, int64
from ...._ops.fft import BY_COUNT, BY_ROOT
from ...._ops.linalg_solve import is_vector
from ...._ops.rules import Spec
from ...._tensor import Tensor
from ..families import cast, uninitialised
from ..launch import run
from .composed import call, composed, infer, laid_out, results

# systems and inverses ------------------------------------------------------------------------------------------------


@composed("linalg_solve_triangular")
def _solve_triangular(self: Tensor, other: Tensor, upper: bool, left: bool, unitriangular: bool) -> Tensor:
    spec = infer("linalg_solve_triangular", self, other, upper, left, unitriangular)
    if not left:
        flipped = call("linalg_solve_triangular", self.transpose(-1, -2), other.transpose(-1, -2), not upper, True,
                       unitriangular)
        return laid_out(flipped.transpose(-1, -2), spec)
    batch = spec.shape[:-2]
    right = other.expand(spec.shape).contiguous()
    matrix = self.expand((*batch, *self.shape[-2:])).contiguous()
    made, copied = uninitialised(spec, self._device), uninitialised(Spec(matrix._array.shape, spec.dtype), self._device)
    if made._array.size:
        run("aclnnTriangularSolve", (right._array, matrix._array, upper, False, unitriangular, made._array,
                                     copied._array), "aten::linalg_solve_triangular")
    return made


@composed("linalg_inv_ex")
def _inverse(A: Tensor, check_errors: bool) -> Any:
    return _without_info("linalg_inv_ex", "aclnnInverse", A, check_errors)


@composed("linalg_cholesky_ex")
def _cholesky(self: Tensor, upper: bool, check_errors: bool) -> Any:
    return _without_info("linalg_cholesky_ex", "aclnnLinalgCholesky", self, upper, check_errors)


@composed("linalg_solve_ex")
def _solve(A: Tensor, B: Tensor, left: bool, check_errors: bool) -> Any:
    specs = infer("linalg_solve_ex", A, B, left, check_errors)
    inverse, info = call("linalg_inv_ex", A, False)
    vector = is_vector(A.shape, B.shape)
    right = B.unsqueeze(-1) if vector else B
    made = inverse.matmul(right) if left else right.matmul(inverse)
    return results("linalg_solve_ex", laid_out(made.squeeze(-1) if vector else made, specs[0]), info)


@composed("_linalg_det")
def _det(A: Tensor) -> Tensor:
    spec = infer("_linalg_det", A)
    if not A.numel():
        return A.new_ones(spec.shape)
    sign, logabsdet = call("_linalg_slogdet", A, "linalg.det")
    return sign * logabsdet.exp()


def _without_info(name: str, symbol: str, A: Tensor, *options: bool) -> Any:
    """A result of which ACLNN does not say whether there was one: each code is 0."""
    specs = infer(name, A, *options)
    made = uninitialised(Spec(specs[0].shape, specs[0].dtype), A._device)
    if made._array.size:
        run(symbol, (A.contiguous()._array, *options[:-1], made._array), f"aten::{name}")
    return results(name, laid_out(made, specs[0]), A.new_zeros(specs[1].shape, dtype=specs[1].dtype))


@composed("cholesky_solve")
def _cholesky_solve(self: Any, input2: Any, upper: bool) -> Tensor:
    spec = infer("cholesky_solve", self, input2, upper)
    lower = input2.mH if upper else input2
    half = call("linalg_solve_triangular", lower, self, False, True, False)
    return laid_out(call("linalg_solve_triangular", lower.mH, half, True, True, False), spec)


@composed("cholesky_inverse")
def _cholesky_inverse(self: Any, upper: bool) -> Tensor:
    spec = infer("cholesky_inverse", self, upper)
    inverse = call("linalg_solve_triangular", self.mH if upper else self, _one(self), False, True, False)
    return laid_out(inverse.mH @ inverse, spec)


def _one(like: Tensor) -> Any:
    return call("eye", like.shape[-1], None, like.dtype, None, like._device, None, False)


@composed("linalg_matrix_exp")
def _matrix_exp(self: Any) -> Tensor:
    """The exponential of a matrix whose norm is at most 1/2, as a series, squared as often as it was halved."""
    spec = infer("linalg_matrix_exp", self)
    if not self.numel():
        return uninitialised(spec, self._device)
    self = cast(self, COMPUTE.get(self.dtype, self.dtype))
    norms = self.abs().sum(-2, True).amax(-1, True)
    halvings = (norms.clamp_min(2**-20).log2().ceil() + 1).clamp_min(0)
    small = self * (-halvings).exp2()
    made = one = _one(self)
    for k in range(14, 0, -1):
        made = small @ made * (1 / k) + one
    for step in range(int(halvings.max().item())):
        made = call("where.self", halvings > step, made @ made, made)
    return laid_out(made, spec)


# decompositions ------------------------------------------------------------------------------------------------------


@composed("_linalg_svd")
def _svd(A: Any, full_matrices: bool, compute_uv: bool, driver: str | None) -> Any:
    specs = infer("_linalg_svd", A, full_matrices, compute_uv, driver)
    U, S, Vh = (uninitialised(spec._replace(strides=None), A._device) for spec in specs)
    if not A.numel():
        for made in (U, Vh) if compute_uv else ():
            if made.numel():
                made.copy_(_one(made).expand(made.shape))
        return results("_linalg_svd", *(laid_out(m, s) for m, s in zip((U, S, Vh), specs, strict=True)))
    V = Vh.mT.contiguous() if compute_uv else Vh
    run("aclnnSvd", (A.contiguous()._array, full_matrices, compute_uv, S._array, U._array, V._array),
        "aten::_linalg_svd")
    decomposed = U, S, V.mT if compute_uv else V
    return results("_linalg_svd", *(laid_out(m, s) for m, s in zip(decomposed, specs, strict=True)))


@composed("_linalg_eigh")
def _eigh(A: Any, UPLO: str, compute_v: bool) -> Any:
    """By singular values: those of A + c are A's eigenvalues + c, if c is large enough to make all positive."""
    specs = infer("_linalg_eigh", A, UPLO, compute_v)
    if not A.numel():
        return results("_linalg_eigh", *(uninitialised(spec, A._device) for spec in specs))
    half = A.triu(1) if UPLO.upper() == "U" else A.tril(-1).mH
    whole = half + half.mH + call("diag_embed", A.diagonal(0, -2, -1), 0, -2, -1)
    above = whole.abs().sum(-1).amax(-1).clamp_min(finfo(A.dtype).tiny)[..., None, None] * 2
    vectors = call("_linalg_svd", whole + _one(A) * above, False, True, None)[0].flip(-1)
    values = (vectors * (whole @ vectors)).sum(-2)
    made = values, vectors if compute_v else A.new_empty((0,))
    return results("_linalg_eigh", *(laid_out(m, s) for m, s in zip(made, specs, strict=True)))


def _decomposed(A: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    if not hermitian:
        return call("_linalg_svd", A, False, True, None)
    values, vectors = call("_linalg_eigh", A, "L", True)
    return vectors, values, vectors.mH


def _kept(A: Any, S: Any, atol: Any, rtol: Any) -> Any:
    """Which singular values count; a tolerance not given follows from the other."""
    S, usual = S.abs(), max(A.shape[-2:]) * finfo(S.dtype).eps
    atol, rtol = (v.unsqueeze(-1) if hasattr(v, "_array") else v for v in (atol, rtol))
    if rtol is None:
        rtol = usual if atol is None else usual * (atol <= 0)
    limit = (S.amax(-1, True) if S.shape[-1] else S.new_zeros((*S.shape[:-1], 1))) * rtol
    if atol is not None:
        limit = limit.maximum(atol) if hasattr(atol, "_array") else limit.clamp_min(atol)
    return S.gt(limit)


@composed("_linalg_pinv")
def _pinv(self: Any, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    spec = infer("_linalg_pinv", self, atol, rtol, hermitian)
    if 0 in self.shape[-2:]:
        return uninitialised(spec, self._device)
    U, S, Vh = _decomposed(self, hermitian)
    kept = _kept(self, S, atol, rtol)
    return laid_out((Vh.mH * S.reciprocal().masked_fill(~kept, 0).unsqueeze(-2)) @ U.mH, spec)


@composed("_linalg_rank")
def _rank(self: Any, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    infer("_linalg_rank", self, atol, rtol, hermitian)
    S = _decomposed(self, hermitian)[1]
    return _kept(self, S, atol, rtol).sum(-1)


@composed("_linalg_lstsq")
def _lstsq(self: Any, b: Any, rcond: float | None, driver: str | None) -> Any:
    specs = infer("_linalg_lstsq", self, b, rcond, driver)
    right = b.unsqueeze(-1) if is_vector(self.shape, b.shape) else b
    batch, (m, n) = specs[0].shape[: self.dim() - 2], self.shape[-2:]
    if rcond is None:
        rcond = finfo(self.dtype).eps * max(m, n)
    if self.numel():
        solution = call("_linalg_pinv", self, 0.0, rcond, False) @ right
        S = call("_linalg_svd", self, False, False, None)[1]
    else:
        solution, S = self.new_zeros((*batch, n, right.shape[-1])), self.new_zeros((*batch, min(m, n)))
    rank = _kept(self, S, 0.0, rcond).sum(-1).expand(batch)
    residuals = self.new_empty((0,))
    if specs[1].shape != (0,) and (driver == "gels" or bool((rank == n).all())):
        rest = self @ solution - right
        residuals = (rest * rest).sum(-2)
    nothing = self.new_empty((0,))
    return results("_linalg_lstsq", laid_out(solution.reshape(specs[0].shape), specs[0]), residuals,
                   rank.contiguous() if specs[2].shape != (0,) else nothing.to(int64),
                   S.expand(specs[3].shape).contiguous() if specs[3].shape != (0,) else nothing)


# Fourier transforms --------------------------------------------------------------------------------------------------

_DENSE = 256  # up to this length a transform is one product with its matrix


def _roots(rows: int, columns: int, n: int, like: Tensor) -> tuple[Any, Any]:
    """Cosines and sines of 2 pi j k / n for j below `rows` and k below `columns`."""
    j, k = (call("arange.start_step", 0, count, 1, int64, None, like._device, None, False) for count in (rows, columns))
    angles = (j.unsqueeze(1) * k).remainder(n).to(like.dtype) * (2 * math.pi / n)
    return angles.cos(), angles.sin()


def _turned(real: Any, imaginary: Any, cosines: Any, sines: Any, product: Any) -> tuple[Any, Any]:
    if imaginary is None:
        return product(real, cosines), product(real, sines)
    return (product(real, cosines) - product(imaginary, sines), product(real, sines) + product(imaginary, cosines))


def _transformed(real: Any, imaginary: Any, sign: int) -> tuple[Any, Any]:
    """The sums of x_j exp(sign 2 pi i j k / n) along the last dimension; without imaginary parts, None."""
    n = real.shape[-1]
    factor = next((a for a in range(math.isqrt(n), 1, -1) if n % a == 0), 1) if n > _DENSE else 1
    if factor == 1:
        cosines, sines = _roots(n, n, n, real)
        return _turned(real, imaginary, cosines, sines * sign, lambda x, y: x @ y)
    rest = n // factor  # two shorter transforms, with the roots between them
    shape = (*real.shape[:-1], factor, rest)
    parts = _transformed(real.reshape(shape).mT, None if imaginary is None else imaginary.reshape(shape).mT, sign)
    cosines, sines = _roots(rest, factor, n, real)
    parts = _turned(*parts, cosines, sines * sign, lambda x, y: x * y)
    parts = _transformed(parts[0].mT, parts[1].mT, sign)
    return tuple(part.mT.reshape(real.shape) for part in parts)  # type: ignore[return-value]


def _along(real: Any, imaginary: Any, dims: Sequence[int], sign: int) -> tuple[Any, Any]:
    for d in dims:
        moved = _transformed(real.movedim(d, -1), None if imaginary is None else imaginary.movedim(d, -1), sign)
        real, imaginary = (x.movedim(-1, d) for x in moved)
    return real, imaginary


def _scale(shape: Sequence[int], dims: Sequence[int], normalization: int) -> float:
    count = math.prod(shape[d] for d in dims)
    return 1 / count if normalization == BY_COUNT else 1 / math.sqrt(count) if normalization == BY_ROOT else 1.0


def _parts(self: Any) -> tuple[Any, Any]:
    return call("real", self).contiguous(), call("imag", self).contiguous()


@composed("_fft_c2c")
def _fft_c2c(self: Any, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    spec = infer("_fft_c2c", self, dim, normalization, forward)
    if not self.numel():
        return uninitialised(spec, self._device)
    scale = _scale(spec.shape, dim, normalization)
    made = _along(*_parts(self), dim, -1 if forward else 1)
    return laid_out(call("complex", *((x * scale).contiguous() for x in made)), spec)


@composed("_fft_r2c")
def _fft_r2c(self: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
    spec = infer("_fft_r2c", self, dim, normalization, onesided)
    if not self.numel():
        return uninitialised(spec, self._device)
    scale, last = _scale(self.shape, dim, normalization), dim[-1]
    real, imaginary = (x.narrow(last, 0, spec.shape[last]) for x in _along(self, None, dim[-1:], -1))
    made = _along(real, imaginary, dim[:-1], -1)
    return laid_out(call("complex", *((x * scale).contiguous() for x in made)), spec)


@composed("_fft_c2r")
def _fft_c2r(self: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    """What lies beyond half the coefficients mirrors them: those that have a mirror image count twice."""
    spec = infer("_fft_c2r", self, dim, normalization, last_dim_size)
    if not self.numel():
        return uninitialised(spec, self._device)
    n, last = last_dim_size, dim[-1]
    parts = _along(*_parts(self), dim[:-1], 1)
    count = min(n // 2 + 1, self.shape[last])
    made = []
    for part in parts:
        whole = part.new_zeros(spec.shape)
        whole.narrow(last, 0, count).copy_(part.narrow(last, 0, count))
        if (n - 1) // 2:
            whole.narrow(last, 1, (n - 1) // 2).mul_(2)
        made.append(whole)
    return laid_out(_along(made[0], made[1], (last,), 1)[0] * _scale(spec.shape, dim, normalization), spec)
