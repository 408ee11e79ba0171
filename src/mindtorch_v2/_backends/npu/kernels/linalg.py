"""NPU kernels of linear algebra: ACLNN's decompositions, and what is read off the device between products."""

from collections.abc import Callable
from typing import Any

from ...._core.dtype import COMPUTE, finfo, int64
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.families import result_of
from ...._ops._declare.rules import Spec
from ...._ops.linalg.solve import is_vector
from ...._ops.linalg.spectral import counted
from ..chips import refusal
from ..facts import signature
from ..families import cast, given, uninitialised
from ..launch import is_offered, run
from ..runtime import started
from .operators import call, infer, laid_out, untouched

GROUPED = "aclnnGroupedMatmulV4"
ALONG_ROWS, ALONG_SUM = 0, 2  # where CANN finds the groups of a product
ONE_RESULT, ENDS = 3, 0
MOST_GROUPS = 128


@given("operator")
def grouped_product(operator: Operator, left: Tensor, right: Tensor, ends: Tensor) -> Tensor:
    """CANN takes groups along the rows of a packed matrix, or along what is summed, then of a transposed one."""
    spec = infer(operator, left, right, ends)
    if left.dim() == 3:
        flipped = call("_grouped_product", right.transpose(0, 1), left.transpose(1, 2), ends)
        return laid_out(flipped.transpose(0, 1), spec)
    along_sum = right.dim() == 2
    made = uninitialised(spec, left._device)
    if not made._array.size:
        return made
    made.zero_()  # rows that belong to no group, and groups without rows
    if left._array.size:
        rows = left.transpose(0, 1).contiguous().transpose(0, 1) if along_sum else left.contiguous()
        index = left._array.device_index
        types = tuple([rows._array.dtype if p.name in ("x", "weight", "out") else None for p in signature(GROUPED)])
        if len(ends) > MOST_GROUPS or not is_offered(GROUPED, index, types):
            raise refusal(operator.name, GROUPED, started(index).soc_name, f"it is not there for {len(ends)} groups")
        run(GROUPED, ([rows._array], [right.contiguous()._array], *[None] * 6, cast(ends, int64)._array, *[None] * 3,
                      ONE_RESULT, ALONG_SUM if along_sum else ALONG_ROWS, ENDS, 0, [made._array], None, None),
            operator.name)
    return untouched(made)


@given("operator")
def solve_triangular(operator: Operator, self: Tensor, other: Tensor, upper: bool, left: bool,
                     unitriangular: bool) -> Tensor:
    spec = infer(operator, self, other, upper, left, unitriangular)
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


@given("operator")
def inverse(operator: Operator, A: Tensor, check_errors: bool) -> Any:
    return _without_info(operator, "aclnnInverse", A, check_errors)


@given("operator")
def cholesky(operator: Operator, self: Tensor, upper: bool, check_errors: bool) -> Any:
    return _without_info(operator, "aclnnLinalgCholesky", self, upper, check_errors)


def _without_info(operator: Operator, symbol: str, A: Tensor, *options: bool) -> Any:
    """A result of which ACLNN does not say whether there was one: each code is 0."""
    specs = infer(operator, A, *options)
    made = uninitialised(Spec(specs[0].shape, specs[0].dtype), A._device)
    if made._array.size:
        run(symbol, (A.contiguous()._array, *options[:-1], made._array), operator.name)
    return result_of(operator, (laid_out(made, specs[0]), A.new_zeros(specs[1].shape, dtype=specs[1].dtype)))


@given("operator", "row")
def addmv(operator: Operator, row: Callable, self: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Tensor:
    spec = infer(operator, self, mat, vec, beta, alpha)
    if not mat.numel():
        return self.expand(spec.shape) * beta if beta else self.new_zeros(spec.shape)
    return row(self.expand(spec.shape) if self.shape != spec.shape else self, mat, vec, beta, alpha)


def _one(like: Tensor) -> Any:
    return call("eye", like.shape[-1], None, like.dtype, None, like._device, None, False)


@given("operator")
def matrix_exp(operator: Operator, self: Any) -> Tensor:
    """The exponential of a matrix whose norm is at most 1/2, as a series, squared as often as it was halved."""
    spec = infer(operator, self)
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


@given("operator")
def svd(operator: Operator, A: Any, full_matrices: bool, compute_uv: bool, driver: str | None) -> Any:
    specs = infer(operator, A, full_matrices, compute_uv, driver)
    U, S, Vh = (uninitialised(spec._replace(strides=None), A._device) for spec in specs)
    if not A.numel():
        for made in (U, Vh) if compute_uv else ():
            if made.numel():
                made.copy_(_one(made).expand(made.shape))
        return result_of(operator, map(laid_out, (U, S, Vh), specs))
    V = Vh.mT.contiguous() if compute_uv else Vh
    run("aclnnSvd", (A.contiguous()._array, full_matrices, compute_uv, S._array, U._array, V._array),
        "aten::_linalg_svd")
    decomposed = U, S, V.mT if compute_uv else V
    return result_of(operator, map(laid_out, decomposed, specs))


@given("operator")
def lstsq(operator: Operator, self: Any, b: Any, rcond: float | None, driver: str | None) -> Any:
    specs = infer(operator, self, b, rcond, driver)
    right = b.unsqueeze(-1) if is_vector(self.shape, b.shape) else b
    batch, (m, n) = specs[0].shape[: self.dim() - 2], self.shape[-2:]
    if rcond is None:
        rcond = finfo(self.dtype).eps * max(m, n)
    if self.numel():
        solution = call("_linalg_pinv", self, 0.0, rcond, False) @ right
        S = call("_linalg_svd", self, False, False, None)[1]
    else:
        solution, S = self.new_zeros((*batch, n, right.shape[-1])), self.new_zeros((*batch, min(m, n)))
    rank = counted(self, S, 0.0, rcond).sum(-1).expand(batch)
    residuals = self.new_empty((0,))
    if specs[1].shape != (0,) and (driver == "gels" or bool((rank == n).all())):
        rest = self @ solution - right
        residuals = (rest * rest).sum(-2)
    nothing = self.new_empty((0,))
    return result_of(operator, (laid_out(solution.reshape(specs[0].shape), specs[0]), residuals,
                                rank.contiguous() if specs[2].shape != (0,) else nothing.to(int64),
                                S.expand(specs[3].shape).contiguous() if specs[3].shape != (0,) else nothing))
