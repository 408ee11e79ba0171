"""Least squares."""

from typing import Any

from ..._core.dtype import dtype, finfo, int64
from ..._core.tensor import Tensor
from .._declare.aten import LEAF
from .._declare.families import computes
from .._declare.op import composite, function_of, op
from .._declare.out import safely
from .._declare.rules import Spec, broadcast_shape
from .._declare.samples import case, cases, error, t
from .common import check_info, check_same_type, columns, named, placed
from .solve import is_vector
from .spectral import linalg_pinv, pinv_grad

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _lstsq_spec(self: Tensor, b: Tensor, rcond: float | None, driver: str | None) -> tuple[Spec, Spec, Spec, Spec]:
    name, kind = "torch.linalg.lstsq", self.dtype
    rows, right = self._array.shape, b._array.shape
    if len(rows) < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if not right:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    check_same_type(f"{name}: Expected input and other to have the same dtype, but got input's dtype {{}} and other's "
                    "dtype {}", kind, b.dtype)
    if not 0 <= len(rows) - len(right) <= 1:
        raise RuntimeError(f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()"
                           ") <= 1")
    vector = is_vector(rows, right)
    columns_of_b = 1 if vector else right[-1]
    m, n = rows[-2:]
    if m != right[-1 if vector else -2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size({-1 if vector else -2})")
    _check_lstsq_type(kind)
    if driver not in (None, *_DRIVERS):
        raise RuntimeError(f"{name}: parameter `driver` should be one of ({', '.join(_DRIVERS)})")
    batch = broadcast_shape([rows[:-2], right[: len(rows) - 2]])
    step, driver = max(m, n), driver or "gelsy"
    contiguous = columns((*batch, step, columns_of_b), kind).strides or ()
    shape, strides = (*batch, n, columns_of_b), contiguous
    if vector:
        shape, strides = shape[:-1], strides[:-1]
    residuals = (*batch, columns_of_b) if m > n and driver != "gelsy" else (0,)
    singular = (*batch, min(m, n)) if driver in ("gelsd", "gelss") else (0,)
    return (Spec(shape, kind, strides), Spec(residuals, kind.to_real()),
            Spec((0,) if driver == "gels" else batch, int64), Spec(singular, kind.to_real()))


def _check_lstsq_type(kind: dtype) -> None:
    if kind.name not in ("float32", "float64", "complex64", "complex128"):
        raise RuntimeError("This function doesn't handle types other than float and double")


def _lstsq(xp: Any, self: Any, b: Any, rcond: float | None, driver: str | None, spec: tuple[Spec, ...]) -> tuple:
    m, n = self.shape[-2:]
    if is_vector(self.shape, b.shape):
        b = b[..., None]
    batch = spec[0].shape[: self.ndim - 2]
    if rcond is None:
        rcond = finfo(spec[0].dtype).eps * max(m, n)
    A, b = xp.broadcast_to(self, (*batch, m, n)), xp.broadcast_to(b, (*batch, *b.shape[-2:]))
    if driver in ("gelsd", "gelss"):  # which look for singular values: for ever, where there are infinities
        check_info("torch.linalg.lstsq", xp.where(xp.isfinite(A).all((-2, -1)), 0, min(m, n)))
    made, rank, singular = xp.lapack.least_squares(A, b, rcond, driver or "gelsy")
    residuals = xp.empty((0,), singular.dtype)
    if spec[1].shape != (0,) and (driver == "gels" or bool((rank == n).all())):
        beyond = made[..., n:, :]
        residuals = xp.ascontiguousarray((beyond * beyond.conj()).real.sum(-2))
    solution = made[..., :n, 0] if len(spec[0].shape) < made.ndim else made[..., :n, :]
    return (placed(xp, solution, spec[0]), residuals, rank if spec[2].shape != (0,) else xp.empty((0,), rank.dtype),
            singular if spec[3].shape != (0,) else xp.empty((0,), singular.dtype))


def _lstsq_grads(grads: tuple, self: Any, b: Any, solution: Any, needs: tuple) -> tuple:
    """Those of pinv(A) b, and of the squares that its residual sums to."""
    of_x, of_squares = grads[0], grads[1]
    vector = is_vector(self.shape, b.shape)
    X, B = (solution.unsqueeze(-1), b.unsqueeze(-1)) if vector else (solution, b)
    of_a = of_b = None
    if of_x is not None:
        of_x = of_x.unsqueeze(-1) if vector else of_x
        pinv = linalg_pinv(self)
        of_b = pinv.mH @ of_x
        of_a = pinv_grad(of_x @ B.mH, self, pinv) if needs[0] else None
    if of_squares is not None and of_squares.numel():
        twice = 2 * of_squares.unsqueeze(-2) * (self @ X - B)
        of_b = -twice if of_b is None else of_b - twice
        if needs[0]:
            of_a = twice @ X.mH if of_a is None else of_a + twice @ X.mH
    return of_a, of_b.squeeze(-1) if vector and of_b is not None else of_b


_least_squares = function_of(op(
    "_linalg_lstsq(Tensor self, Tensor b, float? rcond, str? driver) -> (Tensor solution, Tensor residuals, Tensor "
    "rank, Tensor singular_values)",
    kernel=computes(_lstsq_spec, _lstsq), grad={"self, b": _lstsq_grads}, public="", kernels={"npu": "linalg.lstsq"}))


@composite("linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor "
           "residuals, Tensor rank, Tensor singular_values)", public="", aliases=("linalg.lstsq",),
           samples=cases(case(t(5, 3), t(5, 2)), case(t(5, 3), t(5, 2), driver="gels"), case(t(3, 3), t(3)),
                         case(t(2, 5, 3), t(2, 5), driver="gelsd"), case(t(3, 5), t(3, 2), driver="gelss"),
                         case(t(0, 3), t(0, 2)),
                         error(RuntimeError, "parameter `driver` should be one of (gels, gelsy, gelsd, gelss)", t(3, 3),
                               t(3, 2), driver="x"),
                         error(RuntimeError, "torch.linalg.lstsq: input.size(-2) should match other.size(-2)", t(5, 3),
                               t(4, 2))), out=safely("torch.linalg.lstsq", "solution"), aten=LEAF,
           autocast=dict(cpu="float32"))
def _linalg_lstsq(self, b, rcond, driver):
    solution, residuals, rank, singular_values = _least_squares(self, b, rcond, driver)
    return named("linalg_lstsq", solution, residuals, rank,
                 singular_values.detach() if singular_values.requires_grad else singular_values)
