"""Arithmetic, element by element: sums, products, quotients, powers, extremes and bounds."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from .._dispatch.registry import Operator
from .._dispatch.schema import NUMBERS
from .._dtype import BOOL, COMPLEX, FLOAT, INT, complex128, dtype, finfo, float64, int32, int64, of_number
from .._tensor import Tensor
from .declare import composite, op
from .families import Pointwise, Spec, boolean, computes, floating, pointwise, pointwise_strides, real_of_complex
from .samples import Case, binary, case, cases, error, ints, t, unary, values


def conj(value: Any) -> Any:
    """The conjugate of a tensor or a Python number, as derivatives of complex functions want it."""
    if value.__class__ in NUMBERS:
        return value.conjugate()
    return value.conj_physical() if value.dtype.is_complex else value


def dtype_of(operand: Any) -> dtype:
    return of_number(operand) if operand.__class__ in NUMBERS else operand.dtype


def undifferentiated() -> list[Case]:
    """Pairs of operands whose gradients are not checked."""
    shapes = (((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 1)), ((), (2, 3)), ((), ()), ((0, 3), (3,)))
    return [case(t(*a, grad=False), t(*b, low=0.5, grad=False)) for a, b in shapes]


def without_derivative(name: str) -> Callable[[Tensor], Tensor]:
    """A formula for a function that PyTorch lets record but not differentiate."""

    def formula(grad: Tensor) -> Tensor:
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    return formula


# sums and products ---------------------------------------------------------------------------------------------------


def check_alpha(self: Any, other: Any, alpha: Any) -> None:
    """Raises unless `alpha` can multiply `other` without changing the result's category."""
    category = max(dtype_of(self).category, dtype_of(other).category)
    if alpha.__class__ is bool and category != BOOL:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if alpha.__class__ is float and category < FLOAT:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if alpha.__class__ is complex and category != COMPLEX:
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")


def _check_sub(self: Any, other: Any, alpha: Any = 1) -> None:
    bools = [dtype_of(operand).category == BOOL for operand in (self, other)]
    if all(bools):
        raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
                           "`logical_xor()` operator instead.")
    if any(bools):
        raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a "
                           "mask, use the `~` or `logical_not()` operator instead.")
    check_alpha(self, other, alpha)


def _scaled(xp: Any, other: Any, alpha: Any) -> Any:
    return other if alpha == 1 else other * xp.asarray(alpha).astype(xp.asarray(other).dtype)


def _times_alpha(grad: Tensor, alpha: Any) -> Tensor:
    return grad if alpha == 1 else grad * conj(alpha)


op("add(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
   kernel=pointwise(lambda xp, self, other, alpha: xp.add(self, _scaled(xp, other, alpha)), ufunc="add", check=check_alpha),
   grad=dict(self=lambda grad: grad, other=lambda grad, alpha: _times_alpha(grad, alpha)),
   samples=lambda: [*binary()(), case(t(2, 3), t(3), alpha=2.0),
                    error(RuntimeError, "argument alpha must not be a floating point number", ints(2), ints(2), alpha=0.5)])
op("sub(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
   kernel=pointwise(lambda xp, self, other, alpha: xp.subtract(self, _scaled(xp, other, alpha)), ufunc="subtract", check=_check_sub),
   grad=dict(self=lambda grad: grad, other=lambda grad, alpha: -_times_alpha(grad, alpha)),
   aliases=("subtract",),
   samples=lambda: [*binary()(), case(t(2, 3), t(3), alpha=2.0),
                    error(RuntimeError, "with two bool tensors is not supported", values([True]), values([False])),
                    error(RuntimeError, "with a bool tensor is not supported", values([True]), 1)])


@composite("rsub(Tensor self, Tensor|Scalar other, Scalar alpha=1) -> Tensor", public="torch", samples=binary())
def _rsub(self, other, alpha):
    if other.__class__ in NUMBERS:
        return -(self * alpha - other) if self.dtype.category != BOOL else self - other
    return other.sub(self, alpha=alpha)


op("mul(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
   kernel=pointwise("multiply"),
   grad=dict(self=lambda grad, other: grad * conj(other), other=lambda grad, self: grad * conj(self)),
   aliases=("multiply",), samples=binary())


# quotients -----------------------------------------------------------------------------------------------------------


class Division(Pointwise):
    """A quotient: integers give floating results unless it is rounded."""

    def plan(self, operator: Operator, args: Sequence[Any]) -> tuple[Spec, dtype, list[int]]:
        family = {"floor": FLOORED, "trunc": TRUNCATED}.get(args[2])
        return super().plan(operator, args) if family is None else family.plan(operator, args)


def _check_rounding_mode(self: Any, other: Any, rounding_mode: str | None) -> None:
    if rounding_mode not in (None, "trunc", "floor"):
        raise RuntimeError("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
                           f"'{rounding_mode}'")


def refuse_zero(xp: Any, dividend: Any, divisor: Any) -> None:
    if dividend.dtype.kind in "iu" and not xp.all(divisor):
        raise RuntimeError("ZeroDivisionError")


def _floored(xp: Any, self: Any, other: Any) -> Any:
    refuse_zero(xp, self, other)
    return xp.floor_divide(self, other)


def _truncated(xp: Any, self: Any, other: Any) -> Any:
    refuse_zero(xp, self, other)
    if self.dtype.kind == "f":
        return xp.trunc(self / other)
    quotient = xp.floor_divide(self, other)
    return quotient + ((quotient < 0) & (quotient * other != self))


FLOORED = pointwise(lambda xp, self, other, mode=None: _floored(xp, self, other), excluding=(BOOL, COMPLEX), named="div_floor_cpu")
TRUNCATED = pointwise(lambda xp, self, other, mode=None: _truncated(xp, self, other), excluding=(BOOL, COMPLEX), named="div_trunc_cpu")


def _divide(xp: Any, self: Any, other: Any, rounding_mode: str | None) -> Any:
    if rounding_mode is None:
        return xp.true_divide(self, other)
    return _floored(xp, self, other) if rounding_mode == "floor" else _truncated(xp, self, other)


def _div_self_grad(grad: Tensor, other: Any, rounding_mode: str | None) -> Tensor:
    return grad / conj(other) if rounding_mode is None else grad.new_zeros(grad.shape)


def _div_other_grad(grad: Tensor, self: Any, other: Tensor, rounding_mode: str | None) -> Tensor:
    if rounding_mode is not None:
        return grad.new_zeros(grad.shape)
    return -(grad * conj((self / other) / other))


op("div(Tensor|Scalar self, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor",
   kernel=Division(_divide, floating, ufunc="true_divide", check=_check_rounding_mode),
   grad=dict(self=_div_self_grad, other=_div_other_grad),
   aliases=("divide",),
   samples=lambda: [*binary(other_low=0.5)(), case(t(2, 3), t(3, low=0.5), rounding_mode="floor"),
                    case(t(2, 3), t(3, low=0.5), rounding_mode="trunc"),
                    error(RuntimeError, "div expected rounding_mode to be one of", t(2), t(2), rounding_mode="up")])


op("true_divide(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
   kernel=pointwise("true_divide", floating),
   grad=dict(self=lambda grad, other: grad / conj(other), other=lambda grad, self, other: -(grad * conj((self / other) / other))),
   samples=binary(other_low=0.5))
op("floor_divide(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
   kernel=FLOORED, grad=dict.fromkeys(("self", "other"), without_derivative("floor_divide")),
   samples=lambda: [*undifferentiated(), case(t(2, 3, grad=False), -1.5),
                    error(RuntimeError, "ZeroDivisionError", ints(3), values([0]))])


def _remainder(xp: Any, self: Any, other: Any) -> Any:
    """The rest with the divisor's sign, except that a zero keeps the dividend's."""
    refuse_zero(xp, self, other)
    if self.dtype.kind != "f":
        return xp.remainder(self, other)
    rest = xp.fmod(self, other)
    return xp.where((rest != 0) & ((rest < 0) != (xp.asarray(other) < 0)), rest + other, rest)


def _fmod(xp: Any, self: Any, other: Any) -> Any:
    refuse_zero(xp, self, other)
    return xp.fmod(self, other)


op("remainder(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
   kernel=pointwise(_remainder, excluding=(BOOL, COMPLEX)),
   grad=dict(self=lambda grad: grad, other=lambda grad, self, other: -grad * Tensor.div(self, other, rounding_mode="floor")),
   samples=lambda: [*binary(other_low=0.5)(), error(RuntimeError, "ZeroDivisionError", ints(3), values([0]))])
op("fmod(Tensor self, Tensor|Scalar other) -> Tensor",
   kernel=pointwise(_fmod, excluding=(BOOL, COMPLEX)),
   grad=dict(self=lambda grad: grad, other=lambda grad, self, other: -grad * self.div(other, rounding_mode="trunc")),
   samples=lambda: [*binary(other_low=0.5)(), error(RuntimeError, "ZeroDivisionError", ints(3), values([0]))])


# sign ----------------------------------------------------------------------------------------------------------------


def _check_neg(self: Tensor) -> None:
    if self.dtype.category == BOOL:
        raise RuntimeError("Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "
                           "use the `~` or `logical_not()` operator instead.")


op("neg(Tensor self) -> Tensor",
   kernel=pointwise("negative", check=_check_neg), grad=dict(self=lambda grad: -grad), aliases=("negative",),
   samples=lambda: [*unary()(), error(RuntimeError, "on a bool tensor is not supported", values([True]))])
op("abs(Tensor self) -> Tensor",
   kernel=pointwise("absolute", real_of_complex, excluding=(BOOL,)),
   grad=dict(self=lambda grad, self: grad * self.sgn()), aliases=("absolute",), samples=unary())



@composite("positive(Tensor(a) self) -> Tensor(a)",
           samples=cases(case(t(2, 3)), error(RuntimeError, "on a bool tensor is not supported", values([True]))))
def _positive(self):
    if self.dtype.category == BOOL:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


def _check_sign(self: Tensor) -> None:
    if self.dtype.is_complex:
        raise NotImplementedError("Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.")


def _sign(xp: Any, self: Any) -> Any:
    """-1, 0 or 1; NaN has sign 0, as in PyTorch."""
    if self.dtype.kind == "b":
        return self | self
    return xp.subtract(self > 0, self < 0, dtype=self.dtype)


def _sgn(xp: Any, self: Any) -> Any:
    if self.dtype.kind != "c":
        return _sign(xp, self)
    size = xp.absolute(self)
    return xp.where(size == 0, 0, self / size)


def _sgn_grad(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """Only the part of the gradient across the direction of `self` counts, and none at zero."""
    if not self.dtype.is_complex:
        return grad.new_zeros(grad.shape)
    size = self.abs()
    return ((grad - result * (conj(grad) * result).real) / size).masked_fill(size == 0, 0)


op("sign(Tensor self) -> Tensor",
   kernel=pointwise(_sign, check=_check_sign), grad=dict(self=lambda grad: grad.new_zeros(grad.shape)), samples=unary())
op("sgn(Tensor self) -> Tensor", kernel=pointwise(_sgn), grad=dict(self=_sgn_grad), samples=unary())


def _check_signbit(self: Tensor) -> None:
    if self.dtype.is_complex:
        raise NotImplementedError("signbit is not implemented for complex tensors.")


op("signbit(Tensor self) -> Tensor",
   kernel=pointwise(lambda xp, self: xp.signbit(self) if self.dtype.kind == "f" else self < 0, boolean, check=_check_signbit),
   inplace=False, samples=unary())


op("copysign(Tensor self, Tensor|Scalar other) -> Tensor",
   kernel=pointwise("copysign", floating, excluding=(COMPLEX,)),
   grad=dict(self=lambda grad, self, result: (grad * (result / self)).masked_fill(self == 0, 0),
             other=lambda grad: grad.new_zeros(grad.shape)),
   samples=binary(0.2, 2))

# powers --------------------------------------------------------------------------------------------------------------

def _check_pow(self: Any, exponent: Any) -> None:
    whole = dtype_of(self).category <= INT
    if whole and exponent.__class__ is int and exponent < 0 and self.__class__ not in NUMBERS:
        raise RuntimeError("Integers to negative integer powers are not allowed.")


# Exponents that PyTorch computes by other means than the general power.
_SIMPLE_POWERS: dict[float, Callable] = {
    0.5: lambda xp, x: xp.sqrt(x),
    2.0: lambda xp, x: xp.square(x),
    3.0: lambda xp, x: x * x * x,
    -0.5: lambda xp, x: 1 / xp.sqrt(x),
    -1.0: lambda xp, x: 1 / x,
    -2.0: lambda xp, x: 1 / (x * x),
}


def _pow(xp: Any, self: Any, exponent: Any) -> Any:
    """Powers; integers take integer exponents, negative ones truncating to -1, 0 or 1 as division does."""
    whole = self.dtype.kind in "iub"
    if exponent.__class__ in NUMBERS or not exponent.ndim:
        simple = _SIMPLE_POWERS.get(complex(exponent).real) if not complex(exponent).imag else None
        if simple is not None and not (whole and exponent < 0):
            return simple(xp, self)
    if not whole or self.dtype.kind == "u":
        return xp.power(self, exponent)
    inverse = xp.where(self == 1, 1, xp.where(self == -1, 1 - 2 * (exponent & 1), 0))
    return xp.where(exponent < 0, inverse, xp.power(self, xp.maximum(exponent, 0)))


def _pow_self_grad(grad: Tensor, self: Tensor, exponent: Any) -> Tensor:
    if exponent.__class__ in NUMBERS:
        return grad * conj(exponent * self.pow(exponent - 1)) if exponent != 0 else grad.new_zeros(grad.shape)
    return (grad * conj(exponent * self.pow(exponent - 1))).masked_fill(exponent == 0, 0)


def _pow_exponent_grad(grad: Tensor, self: Any, exponent: Tensor, result: Tensor) -> Tensor:
    """At base zero the derivative is taken as zero, where the exponent is not negative."""
    counted = exponent.real if exponent.dtype.is_complex else exponent
    if self.__class__ in NUMBERS:
        if self == 0:
            return (grad * conj(result * exponent.new_full((), self).log())).masked_fill(counted >= 0, 0)
        return grad * conj(result * result.new_full((), self).log())
    return (grad * conj(result * self.log())).masked_fill((self == 0) & (counted >= 0), 0)


op("pow(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor",
   kernel=pointwise(_pow, excluding=(BOOL,), check=_check_pow, named="pow"),
   grad=dict(self=_pow_self_grad, exponent=_pow_exponent_grad),
   samples=lambda: [*binary(0.2, 2)(), *(case(t(2, 3, low=0.2), n) for n in (0, 1, 2, 3, 0.5, -0.5, -1, -2)), case(2.0, t(2, 3)),
                    error(RuntimeError, "Integers to negative integer powers are not allowed.", ints(3), -1)])


def _wide_if_bool(common: dtype) -> tuple[dtype, dtype]:
    return (int64, int64) if common.category == BOOL else (common, common)


op("square(Tensor self) -> Tensor",
   kernel=pointwise("square", _wide_if_bool), grad=dict(self=lambda grad, self: grad * (2 * conj(self))), samples=unary())


# extremes and bounds -------------------------------------------------------------------------------------------------


def _refuse_complex(name: str) -> Callable[[Tensor, Tensor], None]:
    def check(self: Tensor, other: Tensor) -> None:
        if self.dtype.is_complex or other.dtype.is_complex:
            raise RuntimeError(f"{name} not implemented for complex tensors.")

    return check


def _winner_grad(grad: Tensor, loses: Tensor, ties: Tensor) -> Tensor:
    """The gradient where an operand was chosen; operands that tie share it."""
    return (grad / (1 + ties.to(grad.dtype))).masked_fill(loses, 0)


op("maximum(Tensor self, Tensor other) -> Tensor",
   kernel=pointwise("maximum", check=_refuse_complex("maximum")),
   grad=dict(self=lambda grad, self, other: _winner_grad(grad, self < other, self == other),
             other=lambda grad, self, other: _winner_grad(grad, self > other, self == other)),
   inplace=False, samples=binary(scalar=None))
op("minimum(Tensor self, Tensor other) -> Tensor",
   kernel=pointwise("minimum", check=_refuse_complex("minimum")),
   grad=dict(self=lambda grad, self, other: _winner_grad(grad, self > other, self == other),
             other=lambda grad, self, other: _winner_grad(grad, self < other, self == other)),
   inplace=False, samples=binary(scalar=None))


def _check_clamp(self: Tensor, min: Any, max: Any) -> None:
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if self.dtype.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")


def _clamp(xp: Any, self: Any, min: Any, max: Any) -> Any:
    bounded = self if min is None else xp.at_least(self, min)
    return bounded if max is None else xp.at_most(bounded, max)


def _clamp_grad(grad: Tensor, self: Tensor, min: Any, max: Any) -> Tensor:
    if min is None:
        return grad.masked_fill(~(self <= max), 0)
    inside = self >= min
    return grad.masked_fill(~(inside if max is None else inside & (self <= max)), 0)


def _clamp_bound_grad(grad: Tensor, self: Tensor, min: Any, max: Any) -> tuple[Any, Any]:
    """Where `max` is below `min` it is `max` that is returned, and gets the gradient."""
    if max is None:
        return grad.masked_fill(~(self < min), 0), None
    if min is None:
        return None, grad.masked_fill(~(self > max), 0)
    return (grad.masked_fill(~((self < min) & (min < max)), 0), grad.masked_fill(~((self > max) | (max < min)), 0))  # type: ignore


op("clamp(Tensor self, Tensor|Scalar? min=None, Tensor|Scalar? max=None) -> Tensor",
   kernel=pointwise(_clamp, check=_check_clamp),
   grad={"self": _clamp_grad, "min, max": _clamp_bound_grad},
   aliases=("clip",),
   samples=lambda: [*(case(t(2, 3), *bounds) for bounds in ((-0.5,), (None, 0.7), (-0.5, 0.7), (0.7, -0.5))), case(t(), 0.5),
                    case(t(0, 3), -1, 1), case(t(3, 2, layout="transposed"), -0.5, 0.5), case(t(2, 3, layout="expanded"), max=0.5),
                    case(t(2, 3), t(3), t(2, 1)), case(t(2, 3), None, t(3)), case(t(2, 3), t()),
                    error(RuntimeError, "At least one of 'min' or 'max' must not be None", t(2))])


op("clamp_min(Tensor self, Tensor|Scalar min) -> Tensor",
   kernel=pointwise(lambda xp, self, min: xp.at_least(self, min), check=lambda self, min: _check_clamp(self, min, None)),
   grad=dict(self=lambda grad, self, min: _clamp_grad(grad, self, min, None),
             min=lambda grad, self, min: _clamp_bound_grad(grad, self, min, None)[0]),
   samples=binary())
op("clamp_max(Tensor self, Tensor|Scalar max) -> Tensor",
   kernel=pointwise(lambda xp, self, max: xp.at_most(self, max), check=lambda self, max: _check_clamp(self, None, max)),
   grad=dict(self=lambda grad, self, max: _clamp_grad(grad, self, None, max),
             max=lambda grad, self, max: _clamp_bound_grad(grad, self, None, max)[1]),
   samples=binary())


def _declare_nan_ignoring(name: str, compare: str) -> None:
    """fmax or fmin: a NaN loses against a number; the first operand wins a tie."""

    def kept(self: Tensor, other: Tensor) -> Tensor:
        return getattr(self, compare)(other) | other.isnan()

    op(f"{name}(Tensor self, Tensor other) -> Tensor",
       kernel=pointwise(name, check=_refuse_complex(name)),
       grad=dict(self=lambda grad, self, other: grad.masked_fill(~kept(self, other), 0),
                 other=lambda grad, self, other: grad.masked_fill(kept(self, other), 0)),
       inplace=False, samples=binary(scalar=None))


_declare_nan_ignoring("fmax", "ge")
_declare_nan_ignoring("fmin", "le")


# several operands ----------------------------------------------------------------------------------------------------

_C_NAMES = {"float32": "float", "float64": "double", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
            "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int64": "int64_t", "int32": "int", "bool": "bool"}


def _check_lerp(self: Tensor, end: Tensor, weight: Any) -> None:
    kind = self.dtype
    if kind.category < FLOAT and (weight.__class__ in NUMBERS or weight.dtype is kind):
        name = "lerp_kernel_scalar" if weight.__class__ in NUMBERS else "lerp_kernel_tensor"
        raise NotImplementedError(f'"{name}" not implemented for \'{kind.scalar_name}\'')
    for name, operand in (("end", end), ("weight", weight)):
        if operand.__class__ not in NUMBERS and operand.dtype is not kind and (name == "end" or operand.dim()):
            wanted, came = (_C_NAMES.get(d.name, d.name) for d in (kind, operand.dtype))
            raise RuntimeError(f"expected dtype {wanted} for `{name}` but got dtype {came}")
    if weight.__class__ is complex and not kind.is_complex:
        raise RuntimeError(f"value cannot be converted to type {_C_NAMES.get(kind.name, kind.name)} without overflow")


def _lerp(xp: Any, self: Any, end: Any, weight: Any) -> Any:
    """Starts from the nearer end, so that weights 0 and 1 give the ends exactly."""
    gap = end - self
    if not weight.ndim:
        return self + weight * gap if abs(weight) < 0.5 else end - gap * (1 - weight)
    return xp.where(xp.absolute(weight) < 0.5, self + weight * gap, end - gap * (1 - weight))


op("lerp(Tensor self, Tensor end, Tensor|Scalar weight) -> Tensor",
   kernel=pointwise(_lerp, check=_check_lerp),
   grad=dict(self=lambda grad, weight: grad * (1 - conj(weight)), end=lambda grad, weight: grad * conj(weight),
             weight=lambda grad, self, end: grad * conj(end - self)),
   samples=cases(case(t(2, 3), t(2, 3), 0.3), case(t(2, 3), t(3), 0.8), case(t(2, 3), t(2, 3), t(2, 1)), case(t(), t(), 0.5),
                 error(NotImplementedError, "not implemented for 'Long'", ints(2), ints(2), 0.5)))


def _as_number(xp: Any, value: Any, like: Any) -> Any:
    """`value` in the element type of `like`, cut off as a C cast does."""
    return value if like.dtype.kind in "fc" else xp.asarray(value).astype(like.dtype)


def _check_addcdiv(self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any) -> None:
    if tensor1.dtype.category <= INT and tensor2.dtype.category <= INT:
        raise RuntimeError("Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform "
                           "a true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + "
                           "value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * "
                           "tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: "
                           "(input + value * tensor1 / tensor2), for all dtypes.")


def _accumulated(function: str) -> Callable:
    """self + value * function(tensor1, tensor2), with one temporary."""

    def compute(xp: Any, self: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
        term = getattr(xp, function)(tensor1, tensor2)
        if term.__class__ is not xp.ndarray:
            return self + _as_number(xp, value, self) * term
        if value != 1:
            term *= _as_number(xp, value, self)
        return xp.add(self, term, out=term) if term.shape == xp.broadcast(self, term).shape else self + term

    return compute


op("addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
   kernel=pointwise(_accumulated("multiply"), excluding=(BOOL,), named="addcmul_cpu_out"),
   grad=dict(self=lambda grad: grad, tensor1=lambda grad, tensor2, value: grad * conj(tensor2 * value),
             tensor2=lambda grad, tensor1, value: grad * conj(tensor1 * value)),
   samples=cases(case(t(2, 3), t(2, 3), t(2, 3)), case(t(2, 3), t(3), t(2, 1), value=0.5), case(t(3), t(2, 1), t(1, 3)),
                 case(t(), t(), t())))
op("addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
   kernel=pointwise(_accumulated("true_divide"), check=_check_addcdiv),
   grad=dict(self=lambda grad: grad, tensor1=lambda grad, tensor2, value: grad * conj(value / tensor2),
             tensor2=lambda grad, tensor1, tensor2, value: -grad * conj(value * tensor1 / (tensor2 * tensor2))),
   samples=cases(case(t(2, 3), t(2, 3), t(2, 3, low=0.5)), case(t(2, 3), t(3), t(2, 1, low=0.5), value=0.5),
                 error(RuntimeError, "Integer division with addcdiv is no longer supported", t(2), ints(2), ints(2))))


# more ----------------------------------------------------------------------------------------------------------------


@composite("float_power(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor",
           samples=lambda: [*binary(0.2, 2)(), case(2.0, t(3))])
def _float_power(self, exponent):
    wide = complex128 if COMPLEX in (dtype_of(self).category, dtype_of(exponent).category) else float64
    base, power = (value if value.__class__ in NUMBERS else value.to(wide) for value in (self, exponent))
    return Tensor.pow(base, power)


@composite("float_power_(Tensor(a!) self, Tensor|Scalar exponent) -> Tensor(a!)", public="Tensor",
           samples=cases(error(RuntimeError, "but the operation's result requires dtype Double", t(2), 2)))
def _float_power_inplace(self, exponent):
    wide = complex128 if COMPLEX in (self.dtype.category, dtype_of(exponent).category) else float64
    if self.dtype is not wide:
        raise RuntimeError(f"the base given to float_power_ has dtype {self.dtype.scalar_name} but the operation's result "
                           f"requires dtype {wide.scalar_name}")
    return self.pow_(exponent if exponent.__class__ in NUMBERS else exponent.to(wide))


class Exact(Pointwise):
    """Computed in the operands' own type: half precision too, where the result depends on what its neighbours are."""

    def plan(self, operator: Operator, args: Sequence[Any]) -> tuple[Spec, dtype, list[int]]:
        spec, _, at = super().plan(operator, args)
        return spec, spec.dtype, at


op("nextafter(Tensor self, Tensor other) -> Tensor",
   kernel=Exact("nextafter", excluding=(BOOL, INT, COMPLEX)),
   grad=dict(self=lambda grad, self, other: grad.masked_fill(self == other, 0), other=lambda grad: grad.new_zeros(grad.shape)),
   samples=binary(scalar=None))


def _check_heaviside(self: Tensor, values: Tensor) -> None:
    if self.dtype.is_complex or values.dtype.is_complex:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if self.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


op("heaviside(Tensor self, Tensor values) -> Tensor",
   kernel=pointwise(lambda xp, self, values: xp.where(self == 0, values, self > 0).astype(self.dtype), check=_check_heaviside),
   grad=dict.fromkeys(("self", "values"), without_derivative("heaviside")),
   samples=undifferentiated)


@composite("ldexp(Tensor self, Tensor other) -> Tensor", samples=binary(scalar=None))
def _ldexp(self, other):
    return self * Tensor.pow(2.0, other)


@composite("ldexp_(Tensor(a!) self, Tensor other) -> Tensor(a!)", public="torch Tensor")
def _ldexp_inplace(self, other):
    return self.mul_(Tensor.pow(2.0, other))


def _infer_frexp(self: Tensor) -> tuple[Spec, Spec]:
    if not self.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    strides = pointwise_strides(self._array.shape, [self])
    return Spec(self._array.shape, self.dtype, strides), Spec(self._array.shape, int32, strides)


op("frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)",
   kernel=computes(_infer_frexp, lambda xp, self: xp.frexp(self)),
   grad=dict(self=lambda grad, exponent: grad / exponent.detach().exp2()),
   samples=lambda: [*unary()(), error(RuntimeError, "only supports floating-point dtypes", ints(2))])


def _nan_to_num(xp: Any, self: Any, nan: float | None, posinf: float | None, neginf: float | None, limits: Any) -> Any:
    made = xp.asarray(xp.positive(self))
    for part in (made.real, made.imag) if made.dtype.kind == "c" else (made,):
        part[xp.isnan(part)] = nan or 0.0
        part[part == xp.inf] = limits.max if posinf is None else posinf
        part[part == -xp.inf] = limits.min if neginf is None else neginf
    return made


def _infer_nan_to_num(self: Tensor, nan: float | None, posinf: float | None, neginf: float | None) -> Spec:
    return Spec(self._array.shape, self.dtype, pointwise_strides(self._array.shape, [self]))


op("nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
   kernel=computes(_infer_nan_to_num, lambda xp, self, nan, posinf, neginf, spec: self.copy("K") if spec.dtype.category < FLOAT
                   else _nan_to_num(xp, self, nan, posinf, neginf, finfo(spec.dtype)), inplace=True),
   grad=dict(self=lambda grad, self: grad * self.isfinite()),
   samples=lambda: [*unary()(), case(values([math.nan, math.inf, -math.inf, 1.0]), 2.0, 3.0)])
