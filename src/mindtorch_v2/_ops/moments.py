"""Variances, norms and distances."""

from collections.abc import Callable
from typing import Any

from .._core.dtype import COMPLEX, FLOAT, REDUCED, dtype, float64, promote_types
from .._core.tensor import Tensor
from .._core.warn import warn
from .._dispatch.callers import call_bound
from .._dispatch.registry import registry
from ._declare.aten import LEAF
from ._declare.families import computes
from ._declare.formulas import on_arrays
from ._declare.layouts import NO_CONTIGUOUS
from ._declare.op import composite, function_of, op, public_functions
from ._declare.out import CASTABLE, Out
from ._declare.rules import Spec
from ._declare.samples import case, cases, error, ints, t
from .copy import stored_number
from .extreme import kinks
from .reduce import DIM_ERRORS, axes_of, contiguous, folded, folded_count, folded_shape, reduced_dims, summed, unfolded

INF = float("inf")


# variance ------------------------------------------------------------------------------------------------------------


def _variance_spec(name: str, word: str) -> Callable:
    def infer(self: Tensor, dim: Any, correction: Any, keepdim: bool) -> Spec:
        if self.dtype.category < FLOAT:
            raise RuntimeError(f"{word} only support floating point and complex dtypes")
        if correction.__class__ is complex:
            stored_number(correction, float64)  # which raises
        shape = self._array.shape
        dims = reduced_dims(dim, len(shape))
        if 0 in shape or folded_count(shape, dim) <= (1 if correction is None else correction):
            warn(f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
                 "reduction factor (input numel divided by output numel).")
        return Spec(folded_shape(shape, dims, keepdim), self.dtype.to_real())

    return infer


def _variance_about(xp: Any, self: Any, mean: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    """The mean square of deviations, less what rounding of the mean put into them."""
    axes, count = axes_of(self, dim), folded_count(self.shape, dim)
    deviation = self - mean
    rounding = abs(summed(deviation, axes, keepdim)) ** 2 / max(count, 1)
    if self.dtype.kind == "c":
        deviation = abs(deviation)
    total = summed(xp.multiply(deviation, deviation), axes, keepdim) - rounding
    return xp.maximum(total, 0) / total.dtype.type(max(count - (1 if correction is None else correction), 0))


def _kept_mean(self: Any, dim: Any) -> Any:
    return summed(self, axes_of(self, dim), True) / folded_count(self.shape, dim)


def _variance(xp: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    return _variance_about(xp, self, _kept_mean(self, dim), dim, correction, keepdim)


def _variance_and_mean(xp: Any, self: Any, dim: Any, correction: Any, keepdim: bool,
                       spec: tuple[Spec, Spec]) -> tuple[Any, Any]:
    mean = _kept_mean(self, dim)
    return _variance_about(xp, self, mean, dim, correction, keepdim), mean.reshape(spec[1].shape)


def _deviation(xp: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    return xp.sqrt(_variance(xp, self, dim, correction, keepdim))


@on_arrays
def _moments_grad(xp: Any, of_spread: Any, of_mean: Any, self: Any, deviation: Any, dim: Any, correction: Any,
                  keepdim: bool) -> Any:
    """The gradient of a variance, or of a deviation if that is given, and of a mean; either may not have been used."""
    shape, count, total = self.shape, folded_count(self.shape, dim), None
    if of_spread is not None:
        free = count - (1 if correction is None else correction)
        if deviation is not None:  # a square root, flat at zero
            of_spread = xp.where(deviation == 0, 0, of_spread / (deviation * 2))
        # Without a degree of freedom each deviation moves the variance without bound.
        scaled = (2.0 / free if free else INF) * unfolded(of_spread, shape, dim, keepdim)
        total = scaled * (self - xp.mean_kept(self, dim))
    if of_mean is None:
        return total
    of_mean = unfolded(of_mean / count, shape, dim, keepdim)
    return xp.broadcast_to(of_mean, shape) if total is None else total + of_mean


_CORRECTION = "int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False"
_CORRECTION_CASES = (case(t(2, 3)), case(t(2, 3), 1), case(t(2, 3), (0, 1), keepdim=True),
                     case(t(2, 3, 4), (0, -1), correction=0), case(t(2, 3), correction=1.5), case(t(2, 3), ()),
                     case(t(3, 2, layout="transposed"), 0))

op(f"var.correction(Tensor self, {_CORRECTION}) -> Tensor",
   kernel=computes(_variance_spec("var", "std and var"), _variance),
   grad=dict(self=lambda grad, self, dim, correction, keepdim:
             _moments_grad(grad, None, self, None, dim, correction, keepdim)),
   samples=cases(*_CORRECTION_CASES, *DIM_ERRORS,
                 error(RuntimeError, "std and var only support floating point and complex dtypes",
                       ints(2, 3))), out=CASTABLE,
   kernels={"cpu": "reduce.var", "cuda": "reduce.folded", "npu": "reduce.var"}, sharded="reduction")
op(f"std.correction(Tensor self, {_CORRECTION}) -> Tensor",
   kernel=computes(_variance_spec("std", "std and var"), _deviation),
   grad=dict(self=lambda grad, self, result, dim, correction, keepdim:
             _moments_grad(grad, None, self, result, dim, correction, keepdim)),
   samples=cases(*_CORRECTION_CASES, *DIM_ERRORS,
                 error(RuntimeError, "std and var only support floating point and complex dtypes",
                       ints(2, 3))), out=CASTABLE,
   kernels={"cpu": "reduce.std", "cuda": "reduce.folded", "npu": "reduce.std"}, sharded="reduction")


def _pair_spec(name: str) -> Callable:
    single = _variance_spec(name, name)

    def infer(self: Tensor, dim: Any, correction: Any, keepdim: bool) -> tuple[Spec, Spec]:
        spec = single(self, dim, correction, keepdim)
        return spec, spec._replace(dtype=self.dtype)

    return infer


def _deviation_and_mean(xp: Any, self: Any, dim: Any, correction: Any, keepdim: bool,
                        spec: tuple[Spec, Spec]) -> tuple[Any, Any]:
    variance, mean = _variance_and_mean(xp, self, dim, correction, keepdim, spec)
    return xp.sqrt(variance), mean


op(f"var_mean.correction(Tensor self, {_CORRECTION}) -> (Tensor, Tensor)",
   kernel=computes(_pair_spec("var_mean"), _variance_and_mean), public="torch",
   grad=dict(self=lambda grads, self, dim, correction, keepdim:
             _moments_grad(*grads, self, None, dim, correction, keepdim)),
   samples=cases(*_CORRECTION_CASES, *DIM_ERRORS), out=None,
   kernels={"cpu": "reduce.var_mean", "npu": "reduce.var_mean"}, sharded="reduction")
op(f"std_mean.correction(Tensor self, {_CORRECTION}) -> (Tensor, Tensor)",
   kernel=computes(_pair_spec("std_mean"), _deviation_and_mean), public="torch",
   grad=dict(self=lambda grads, self, result, dim, correction, keepdim:
             _moments_grad(*grads, self, result, dim, correction, keepdim)),
   samples=cases(*_CORRECTION_CASES, *DIM_ERRORS), out=None,
   kernels={"cpu": "reduce.std_mean", "npu": "reduce.std_mean"}, sharded="reduction")


def _declare_unbiased(name: str, returns: str, public: str, out: Out | None) -> None:
    """The two older forms, which say `unbiased` for a correction of one."""
    primitive = registry.get(f"aten::{name}.correction")

    @composite(f"{name}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> {returns}",
               public=public, out=out,
               samples=cases(case(t(2, 3), 1, False), case(t(2, 3), (0, 1), True, True)))
    def over_dims(self, dim, unbiased, keepdim):
        return call_bound(primitive, (self, dim, int(unbiased), keepdim))

    @composite(f"{name}(Tensor self, bool unbiased=True) -> {returns}", public=public, out=out and Out(refused=True),
               samples=cases(case(t(2, 3), False), case(t(2, 3), unbiased=True)))
    def over_all(self, unbiased):
        return call_bound(primitive, (self, None, int(unbiased), False))


for _name in ("var", "std"):
    _declare_unbiased(_name, "Tensor", "torch Tensor", CASTABLE)
    _declare_unbiased(f"{_name}_mean", "(Tensor, Tensor)", "torch", None)


# norms ---------------------------------------------------------------------------------------------------------------


def _norm_spec(self: Tensor, ord: Any, dim: Any, keepdim: bool, dtype: dtype | None) -> Spec:
    kind, shape = self.dtype, self._array.shape
    if kind.category < FLOAT:
        raise RuntimeError("linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
                           f"{kind.scalar_name}")
    if ord.__class__ is complex:
        raise RuntimeError("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
    if dtype is not None:
        _check_norm_dtype(kind, dtype)
        kind = dtype
    dims = reduced_dims(dim, len(shape))
    if not self._array.size and (ord < 0 or ord == INF):
        shown = f"{ord:g}"
        if not dim:
            raise RuntimeError(f"linalg.vector_norm cannot compute the {shown} norm on an empty tensor because the "
                               "operation does not have an identity")
        for d in dims:
            if not shape[d]:
                raise RuntimeError(f"linalg.vector_norm cannot compute the {shown} norm on the dimension {d}because "
                                   "this dimension is empty and the operation does not have an identity")
    return Spec(folded_shape(shape, dims, keepdim), kind.to_real())


def _check_norm_dtype(kind: dtype, wanted: dtype) -> None:
    if wanted.category < FLOAT:
        raise RuntimeError("linalg.vector_norm: dtype should be floating point or complex, but got "
                           f"{wanted.scalar_name}")
    if wanted.category != kind.category:
        word = "complex" if kind.category == COMPLEX else "real"
        raise RuntimeError(f"linalg.vector_norm: dtype should be {word} for {word} inputs, but got "
                           f"{wanted.scalar_name}")
    if promote_types(kind, wanted) is not wanted:
        raise RuntimeError(f"linalg.vector_norm: the dtype of the input ({kind.scalar_name}) should be convertible "
                           f"without narrowing to the specified dtype ({wanted.scalar_name})")


def _norm(xp: Any, self: Any, ord: Any, dim: Any, keepdim: bool, dtype: dtype | None) -> Any:
    axes = axes_of(self, dim)
    if dtype is not None and dtype.np not in REDUCED:
        self = self.astype(dtype.np, copy=False)
    if ord == 2:
        if axes is None and self.flags.forc and not keepdim:
            flat = self.ravel("K")
            return xp.sqrt(xp.vdot(flat, flat).real)
        if axes == (self.ndim - 1,):
            total = xp.vecdot(self, self).real
            return contiguous(xp.sqrt(total[..., None] if keepdim else total))
        squares = self.real**2 + self.imag**2 if self.dtype.kind == "c" else self * self
        return xp.sqrt(summed(squares, axes, keepdim))
    if ord == 0:
        return summed((self != 0).astype(self.real.dtype), axes, keepdim)
    size = xp.abs(self)
    if ord in (INF, -INF):
        return folded((xp.maximum if ord > 0 else xp.minimum).reduce, size, axes, keepdim)
    if ord == 1:
        return summed(size, axes, keepdim)
    return summed(size ** float(ord), axes, keepdim) ** (1.0 / ord)


def _norm_grad(grad: Tensor, self: Tensor, result: Tensor, ord: Any, dim: Any, keepdim: bool) -> Tensor | None:
    return None if ord == 0 else _norm_slope(grad, self, result, ord, dim, keepdim)


@on_arrays
def _norm_slope(xp: Any, grad: Any, self: Any, result: Any, ord: Any, dim: Any, keepdim: bool) -> Any:
    grad, norm = unfolded(grad, self.shape, dim, keepdim), unfolded(result, self.shape, dim, keepdim)
    if ord == 1:
        return xp.sgn(self) * grad
    if ord == 2:
        return grad * xp.where(norm == 0, 0, self / norm)
    if ord in (INF, -INF):
        ties = xp.abs(self) == norm
        return xp.sgn(self) * (ties / xp.counted(ties, dim, grad.dtype)) * grad
    if ord < 2:
        powered = xp.sgn(self) * xp.abs(self) ** (ord - 1)
        powered = xp.where(self == 0, 0, powered) if ord < 1 else powered
    else:
        powered = self * xp.abs(self) ** (ord - 2)
    return powered * xp.where(norm == 0, 0, grad / norm ** (ord - 1))


_VECTOR_NORM = op("linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *,"
                  " ScalarType? dtype=None) -> Tensor",
   kernel=computes(_norm_spec, _norm), kernels={"cpu": "reduce.vector_norm", "cuda": "reduce.folded"},
   npu="aclnnLinalgVectorNorm(self, ord, dim|[], keepdim, out.dtype, out) empty=0",
   public="", aliases=("linalg.vector_norm",),
   grad=dict(self=_norm_grad),
   samples=cases(*[case(t(2, 3, low=0.2), ord) for ord in (0, 0.5, 1, 1.5, 2, 3, INF, -INF, -1)],
                 *[case(t(2, 3, 4), ord, dim) for ord in (1, 2, 3, INF) for dim in (1, (0, 2), ())],
                 case(t(2, 3), 2, 1, True), case(t()), case(t(0, 3), 2, 0), case(kinks([0.0, 0.0])),
                 error(RuntimeError, "linalg.vector_norm cannot compute the inf norm on an empty tensor", t(0, 3), INF),
                 error(RuntimeError, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
                                     "Long", ints(2, 3))), autocast=dict(accelerators="result"), sharded="folded norm")


_vector_norm = function_of(_VECTOR_NORM)


@composite("norm(Tensor self, Any p='fro', int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
           samples=cases(*[case(t(2, 3), p) for p in ("fro", 1, 2, 3, INF)], case(t(2, 3), 2, 1, True),
                         case(t(2, 3), "fro", (0, 1)), case(t(2, 3), dim=1)), out=Out(by="linalg_vector_norm"),
           autocast=dict(accelerators="float32"), python="layout", kernels={"sparse_coo": "math.norm"})
def _torch_norm(self, p, dim, keepdim, dtype):
    if p is None or p.__class__ is str and p == "fro" and (dim is None or len(dim) <= 2):
        p = 2
    if isinstance(p, str):
        if p not in ("fro", "nuc"):
            raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
        return public_functions("linalg")["matrix_norm"](self, p, dim or tuple(range(self.dim())), keepdim, dtype=dtype)
    return _vector_norm(self, p, dim, keepdim, dtype=dtype)


@composite("dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", node="DistBackward0",
           samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 3), t(3), 1), case(t(2, 3), t(2, 3), INF)), out=None,
           aten=LEAF,
           autocast=dict(accelerators="float32"))
def _dist(self, other, p):
    difference = self - other
    if difference.dtype.category < FLOAT:
        raise RuntimeError("norm(): input dtype should be either floating point or complex. Got "
                           f"{difference.dtype.scalar_name} instead.")
    return call_bound(_VECTOR_NORM, (difference, p, None, False, None))


@composite("norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor",
           samples=cases(case(t(3, 4)), case(t(3, 4), 1, 1), case(t(2, 3, 4), 2, 1), case(t(2, 3), 2, -1)), out=None,
           refuses_coo=NO_CONTIGUOUS)
def _norm_except_dim(v, pow, dim):
    """The norm over all dimensions but one, which is kept with the others as size one; -1 for the norm over all."""
    if dim == -1:
        return call_bound(_VECTOR_NORM, (v, pow, None, False, None))
    return call_bound(_VECTOR_NORM, (v, pow, tuple([d for d in range(v.dim()) if d != dim]), True, None))


@composite("_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor",
           node={"WeightNormInterfaceBackward0": "dim in (0, v.dim() - 1)"},
           samples=cases(case(t(3, 4), t(3, 1)), case(t(3, 4), t(1, 4), 1), case(t(2, 3), t(), -1)), out=None)
def _weight_norm(v, g, dim):
    if dim in (0, v.dim() - 1) and v.dtype.category != FLOAT:
        raise NotImplementedError(f"\"weight_norm_kernel\" not implemented for '{v.dtype.scalar_name}'")
    return v * (g / _norm_except_dim(v, 2, dim))
