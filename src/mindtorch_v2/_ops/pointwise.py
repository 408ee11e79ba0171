"""Arithmetic, element by element: sums, products, quotients, powers, extremes and bounds."""

import cmath
import math
from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.names import when_given, when_number, when_tensor
from .._core.dtype import BOOL, COMPLEX, FLOAT, INT, bool_, complex128, dtype, float64, int64, of_number
from .._core.tensor import Tensor
from .._dispatch.registry import Operator
from .._dispatch.schema import NUMBERS, Schema
from ._declare.aten import LEAF, Aten, by_operands, is_number
from ._declare.families import Pointwise, pointwise
from ._declare.flops import Flops, each_element
from ._declare.formulas import elementwise, on_arrays
from ._declare.op import composite, op
from ._declare.out import AS_OPERAND, BOOLEAN, CASTABLE, Out
from ._declare.rules import Spec, boolean, floating, real_of_complex
from ._declare.samples import Case, binary, case, cases, error, ints, t, unary, values


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

    formula.node = "torch::autograd::NotImplemented"  # type: ignore[attr-defined]
    return formula


# sums and products ---------------------------------------------------------------------------------------------------


def check_alpha(self: Any, other: Any, alpha: Any) -> None:
    """Raises unless `alpha` can multiply `other` without changing the result's category."""
    if alpha.__class__ is int:
        return
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
        raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
                           "invert a mask, use the `~` or `logical_not()` operator instead.")
    check_alpha(self, other, alpha)


def _scaled(xp: Any, other: Any, alpha: Any, rounded: Callable | None) -> Any:
    if alpha == 1:
        return other
    scale = xp.asarray(alpha).astype(xp.asarray(other).dtype)
    return other * (scale if rounded is None else rounded(scale))


def _times_alpha(grad: Tensor, alpha: Any) -> Tensor:
    return grad if alpha == 1 else grad * conj(alpha)


_PROFILED = Flops(each_element, by="profiler")

op("add(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor", special="add radd iadd",
   after_product="add", kernels={"sparse": "math.add"},
   kernel=pointwise(lambda xp, self, other, alpha, rounded=None: xp.add(self, _scaled(xp, other, alpha, rounded)),
                    ufunc="add", check=check_alpha),
   npu=("aclnnAdd(self, other, alpha, out)", "aclnnAdds(self, other, alpha, out)"),
   grad=dict(self=lambda grad: grad, other=lambda grad, alpha: _times_alpha(grad, alpha)),
   samples=lambda: [*binary()(), case(t(2, 3), t(3), alpha=2.0),
                    error(RuntimeError, "alpha must not be a floating point number", ints(2), ints(2), alpha=0.5)],
   aten="Tensor", old_orders=("self alpha other", "self other alpha"), of_numbers=True, flops=_PROFILED,
   sharded="terms")
op("sub(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
   node={"RsubBackward1": when_number("self")}, special="sub -rsub isub",
   kernels={"sparse": "math.sub"},
   kernel=pointwise(lambda xp, self, other, alpha, rounded=None:
                    xp.subtract(self, _scaled(xp, other, alpha, rounded)), ufunc="subtract", check=_check_sub),
   npu=("aclnnSub(self, other, alpha, out)",
        "aclnnSubs(self, other, alpha, out)",
        "aclnnRsubs(other, self, alpha, out)"),
   grad=dict(self=lambda grad: grad, other=lambda grad, alpha: -_times_alpha(grad, alpha)),
   aliases=("subtract",),
   samples=lambda: [*binary()(), case(t(2, 3), t(3), alpha=2.0),
                    error(RuntimeError, "with two bool tensors is not supported", values([True]), values([False])),
                    error(RuntimeError, "with a bool tensor is not supported", values([True]), 1)],
   aten=Aten("Tensor", "rsub", lambda self, other, alpha: (other, self, alpha),
             when=lambda self, *rest: is_number(self)), old_orders=("self alpha other", "self other alpha"),
   of_numbers=True, sharded="terms")


@composite("rsub(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
           node={"RsubBackward0": when_tensor("other")}, public="torch", samples=binary(),
           out=None, aten=LEAF, old_orders=("self other alpha",), sharded="pointwise")
def _rsub(self, other, alpha):
    return Tensor.sub(other, self, alpha=alpha)


op("mul(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", after_product="mul", special="mul rmul imul",
   kernel=pointwise("multiply", rounds_numbers=False), kernels={"sparse": "math.mul"},
   npu=("aclnnMul(self, other, out)", "aclnnMuls(self, other, out)", "aclnnMuls(other, self, out)"),
   grad=dict(self=lambda grad, other: grad * conj(other), other=lambda grad, self: grad * conj(self)),
   aliases=("multiply",), samples=binary(), linear="each", aten="Tensor", of_numbers=True, flops=_PROFILED,
   sharded="multiplied")


# quotients -----------------------------------------------------------------------------------------------------------


class Division(Pointwise):
    """A quotient: integers give floating results unless it is rounded."""

    def plan(
        self, operator: Operator, args: Sequence[Any], target: Tensor | None = None
    ) -> tuple[Spec, dtype, list[int]]:
        family = {"floor": FLOORED, "trunc": TRUNCATED}.get(args[2])
        return super().plan(operator, args, target) if family is None else family.plan(operator, args, target)


def _check_rounding_mode(self: Any, other: Any, rounding_mode: str | None) -> None:
    if rounding_mode not in (None, "trunc", "floor"):
        raise RuntimeError("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
                           f"'{rounding_mode}'")


def refuse_zero(xp: Any, dividend: Any, divisor: Any) -> None:
    if dividend.dtype.kind in "iu" and not xp.all(divisor):
        raise RuntimeError("ZeroDivisionError")


def _floored(xp: Any, self: Any, other: Any, rounded: Callable | None = None) -> Any:
    refuse_zero(xp, self, other)
    if rounded is None:
        return xp.floor_divide(self, other)
    rest = rounded(xp.fmod(self, other))
    quotient = rounded(rounded(self - rest) / other)
    quotient = rounded(quotient - ((rest != 0) & ((other < 0) != (rest < 0))))
    whole = xp.floor(quotient)
    return xp.where(other == 0, self / other, whole + (rounded(quotient - whole) > 0.5))


def _truncated(xp: Any, self: Any, other: Any, rounded: Callable | None = None) -> Any:
    refuse_zero(xp, self, other)
    if self.dtype.kind == "f":
        quotient = self / other
        return xp.trunc(quotient if rounded is None else rounded(quotient))
    quotient = xp.floor_divide(self, other)
    return quotient + ((quotient < 0) & (quotient * other != self))


FLOORED = pointwise(_floored, excluding=(BOOL, COMPLEX), named="div_floor_cpu", rounds_numbers=False)
TRUNCATED = pointwise(_truncated, excluding=(BOOL, COMPLEX), named="div_trunc_cpu", rounds_numbers=False)


def _divide(xp: Any, self: Any, other: Any, rounding_mode: str | None, rounded: Callable | None = None) -> Any:
    if rounding_mode is None:
        return xp.true_divide(self, other)
    return (_floored if rounding_mode == "floor" else _truncated)(xp, self, other, rounded)


def _div_self_grad(grad: Tensor, other: Any, rounding_mode: str | None) -> Tensor:
    return grad / conj(other) if rounding_mode is None else grad.new_zeros(grad.shape)


def _div_other_grad(grad: Tensor, self: Any, other: Tensor, rounding_mode: str | None) -> Tensor:
    if rounding_mode is not None:
        return grad.new_zeros(grad.shape)
    return -(grad * conj((self / other) / other))


def _div_overload(schema: Schema, values: Sequence[Any]) -> str:
    return "Tensor" if values[schema.index["rounding_mode"]] is None else "Tensor_mode"


op("div(Tensor|Scalar self, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor",
   node={"DivBackward2": when_given("rounding_mode")}, special="truediv itruediv",
   kernel=Division(_divide, floating, ufunc="true_divide", check=_check_rounding_mode, rounds_numbers=False),
   kernels={"sparse": "math.div"},
   npu=("aclnnDivMod(self, other, rounding_mode{None,trunc,floor}, out)",
        "aclnnDivMods(self, other, rounding_mode{None,trunc,floor}, out)"),
   grad=dict(self=_div_self_grad, other=_div_other_grad),
   aliases=("divide",),
   samples=lambda: [*binary(other_low=0.5)(), case(t(2, 3), t(3, low=0.5), rounding_mode="floor"),
                    case(t(2, 3), t(3, low=0.5), rounding_mode="trunc"),
                    error(RuntimeError, "div expected rounding_mode to be one of", t(2), t(2), rounding_mode="up")],
   aten=Aten(_div_overload), of_numbers=True, sharded="scaled")


op("true_divide(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", node="DivBackward0",
   kernel=pointwise("true_divide", floating, rounds_numbers=False), kernels={"sparse": "math.true_divide"},
   npu=("aclnnDiv(self, other, out)", "aclnnDivs(self, other, out)"),
   grad=dict(self=lambda grad, other: grad / conj(other),
             other=lambda grad, self, other: -(grad * conj((self / other) / other))),
   samples=binary(other_low=0.5), out=CASTABLE._replace(by="div"),
   aten=Aten(name="div", values=lambda self, other: (self, other, None)), of_numbers=True)
op("floor_divide(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", special="floordiv -rfloordiv ifloordiv",
   kernel=FLOORED, kernels={"sparse_coo": "math.floor_divide"},
   npu=("aclnnFloorDivide(self, other, out)", "aclnnFloorDivides(self, other, out)"),
   grad=dict.fromkeys(("self", "other"), without_derivative("floor_divide")),
   samples=lambda: [*undifferentiated(), case(t(2, 3, grad=False), -1.5),
                    error(RuntimeError, "ZeroDivisionError", ints(3), values([0]))], out=CASTABLE._replace(grad="cut"),
   aten=Aten(by_operands("default", "default", "default", inplace=("Tensor", "Scalar"))), of_numbers=True)


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
   node={"torch::autograd::NotImplemented": when_number("self"),
         "RemainderBackward1": when_tensor("other")}, special="mod -rmod imod",
   kernel=pointwise(_remainder, excluding=(BOOL, COMPLEX)),
   npu=("aclnnRemainderTensorTensor(self, other, out)",
        "aclnnRemainderTensorScalar(self, other, out)",
        "aclnnRemainderScalarTensor(self, other, out)"),
   grad=dict(self=lambda grad: grad,
             other=lambda grad, self, other: -grad * Tensor.div(self, other, rounding_mode="floor")),
   samples=lambda: [*binary(other_low=0.5)(), error(RuntimeError, "ZeroDivisionError", ints(3), values([0]))],
   out=CASTABLE._replace(tensors="self"), aten=Aten(by_operands("Tensor", "Scalar", "Scalar_Tensor")))
op("fmod(Tensor self, Tensor|Scalar other) -> Tensor", node={"FmodBackward1": when_tensor("other")},
   kernel=pointwise(_fmod, excluding=(BOOL, COMPLEX)),
   npu=("aclnnFmodTensor(self, other, out)", "aclnnFmodScalar(self, other, out)"),
   grad=dict(self=lambda grad: grad, other=lambda grad, self, other: -grad * self.div(other, rounding_mode="trunc")),
   samples=lambda: [*binary(other_low=0.5)(), error(RuntimeError, "ZeroDivisionError", ints(3), values([0]))])


# sign ----------------------------------------------------------------------------------------------------------------


def _check_neg(self: Tensor) -> None:
    if self.dtype.category == BOOL:
        raise RuntimeError("Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert "
                           "a mask, use the `~` or `logical_not()` operator instead.")


op("neg(Tensor self) -> Tensor", special="neg",
   kernel=pointwise("negative", check=_check_neg),
   npu="aclnnNeg(self, out)", grad=dict(self=lambda grad: -grad), aliases=("negative",),
   samples=lambda: [*unary()(), error(RuntimeError, "on a bool tensor is not supported", values([True]))],
   out=AS_OPERAND, linear=True, inplace="neg_ negative_", keeps_zero=True, sharded="terms")
class _Absolute(Pointwise):
    def check_write(self, operator: Operator, target: Tensor, args: Sequence[Any]) -> None:
        if target.dtype.is_complex:
            raise RuntimeError("In-place abs is not supported for complex tensors.")


op("abs(Tensor self) -> Tensor", special="abs",
   kernel=_Absolute("absolute", real_of_complex, excluding=(BOOL,)),
   npu="aclnnAbs(self, out)",
   grad=dict(self=lambda grad, self: grad * self.sgn()), aliases=("absolute",), samples=unary(),
   out=AS_OPERAND._replace(types="measure"), inplace="abs_", keeps_zero=True)



@composite("positive(Tensor(a) self) -> Tensor(a)",
           samples=cases(case(t(2, 3)), error(RuntimeError, "on a bool tensor is not supported", values([True]))),
           keeps_zero=True, linear=True)
def _positive(self):
    if self.dtype.category == BOOL:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


def _check_sign(self: Tensor) -> None:
    if self.dtype.is_complex:
        raise NotImplementedError("Unlike NumPy, torch.sign is not intended to support complex numbers. Please use "
                                  "torch.sgn instead.")


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
   kernel=pointwise(_sign, check=_check_sign),
   npu="aclnnSign(self, out)", grad=dict(self=lambda grad: grad.new_zeros(grad.shape)), samples=unary(), out=AS_OPERAND,
   keeps_zero=True)


def _sgn_by_parts(self: Any) -> Any:
    if not self.dtype.is_complex:
        return self.sign()
    size = self.abs()
    return (self / size).masked_fill(size == 0, 0)


op("sgn(Tensor self) -> Tensor", kernel=pointwise(_sgn), grad=dict(self=_sgn_grad), samples=unary(), out=AS_OPERAND,
   keeps_zero=True, decomposition=_sgn_by_parts)


def _check_signbit(self: Tensor) -> None:
    if self.dtype.is_complex:
        raise NotImplementedError("signbit is not implemented for complex tensors.")


op("signbit(Tensor self) -> Tensor",
   kernel=pointwise(lambda xp, self: xp.signbit(self) if self.dtype.kind == "f" else self < 0, boolean,
                    check=_check_signbit),
   npu="aclnnSignbit(self, out)",
   inplace=False, samples=unary(), out=BOOLEAN, keeps_zero=True)


def _copysign_by_parts(self: Any, other: Any) -> Any:
    size = self.abs()
    if other.__class__ in NUMBERS:
        return -size if math.copysign(1, other) < 0 else size
    return (-size).where(other.signbit(), size)


op("copysign(Tensor self, Tensor|Scalar other) -> Tensor", node={"CopysignBackward1": when_number("other")},
   kernel=pointwise("copysign", floating, excluding=(COMPLEX,)),
   grad=dict(self=elementwise(lambda xp, grad, self, result: xp.where(self == 0, 0, grad * (result / self))),
             other=on_arrays(lambda xp, grad: xp.zeros_like(grad))),
   samples=binary(0.2, 2), decomposition=_copysign_by_parts)

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
    if self.dtype.kind == "b":  # to the power True or False
        return self | ~exponent
    if exponent.__class__ in NUMBERS or not exponent.ndim:
        simple = _SIMPLE_POWERS.get(complex(exponent).real) if not complex(exponent).imag else None
        if simple is not None and not (whole and exponent < 0):
            return simple(xp, self)
    if not whole or self.dtype.kind == "u":
        return xp.power(self, exponent)
    inverted, unit = exponent < 0, (self == 1) | (self == -1)
    base = xp.where(inverted, xp.where(unit, self, 0), self)
    return xp.power(base, xp.where(inverted, xp.where(unit, exponent & 1, 1), exponent))


@on_arrays
def _pow_self_grad(xp: Any, grad: Any, self: Any, exponent: Any) -> Any:
    if exponent.__class__ in NUMBERS:
        if exponent == 0:
            return xp.zeros_like(grad)
        return grad * (exponent * self ** (exponent - 1)).conj()
    return xp.where(exponent == 0, 0, grad * (exponent * self ** (exponent - 1)).conj())


@on_arrays
def _pow_exponent_grad(xp: Any, grad: Any, self: Any, exponent: Any, result: Any) -> Any:
    """At base zero the derivative is taken as zero, where the exponent is real and not negative."""
    is_complex = xp.iscomplexobj(exponent)
    flat = (exponent.real >= 0) & (exponent.imag == 0) if is_complex else exponent >= 0
    if self.__class__ in NUMBERS:
        if self == 0:
            return xp.where(flat, 0, grad * (result * -math.inf).conj())
        if self.__class__ is complex or is_complex:
            return grad * (result * cmath.log(self)).conj()
        return grad * (result * (math.log(self) if self > 0 else math.nan)).conj()
    logarithm = xp.log(xp.astype(self, exponent.dtype) if is_complex else self)
    return xp.where((self == 0) & flat, 0, grad * (result * logarithm).conj())


class _Power(Pointwise):
    """Takes bools to a power that is a Python bool, to no other."""

    wraps_numbers = False

    def types(self, operator: Operator, operands: Sequence[Any]) -> tuple[dtype, dtype]:
        if operands[1].__class__ is bool and dtype_of(operands[0]) is bool_:
            return bool_, bool_
        return super().types(operator, operands)


op("pow(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor",
   node={"PowBackward2": when_number("self"), "PowBackward1": when_tensor("exponent")}, special="pow -rpow ipow",
   kernel=_Power(_pow, excluding=(BOOL,), check=_check_pow, named="pow"), kernels={"sparse_coo": "math.power"},
   npu=("aclnnPowTensorTensor(self, exponent, out)",
        "aclnnPowTensorScalar(self, exponent, out)",
        "aclnnPowScalarTensor(self, exponent, out)"),
   grad=dict(self=_pow_self_grad, exponent=_pow_exponent_grad),
   samples=lambda: [*binary(0.2, 2)(), *(case(t(2, 3, low=0.2), n) for n in (0, 1, 2, 3, 0.5, -0.5, -1, -2)),
                    case(2.0, t(2, 3)),
                    error(RuntimeError, "Integers to negative integer powers are not allowed.", ints(3), -1)],
   aten=Aten(by_operands("Tensor_Tensor", "Tensor_Scalar", "Scalar", inplace=("Tensor", "Scalar"))),
   autocast=dict(accelerators="float32"))


def _wide_if_bool(common: dtype) -> tuple[dtype, dtype]:
    return (int64, int64) if common.category == BOOL else (common, common)


op("square(Tensor self) -> Tensor", node="PowBackward0",
   kernel=pointwise("square", _wide_if_bool),
   npu="aclnnMul(self, self, out)", grad=dict(self=lambda grad, self: grad * (2 * conj(self))),
   samples=unary(), out=CASTABLE._replace(by="pow"), aten=Aten(name="pow", values=lambda self: (self, 2)),
   inplace="square_", autocast=dict(accelerators="float32"), keeps_zero=True)


@composite("float_power(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor",
           resizes_expanded=False,
           samples=lambda: [*binary(0.2, 2)(), case(2.0, t(3))],
           out=Out("exact", "the output given to float_power has dtype {given} but the operation's result requires "
                            "dtype {made}", by="pow"))
def _float_power(self, exponent):
    wide = complex128 if COMPLEX in (dtype_of(self).category, dtype_of(exponent).category) else float64
    base, power = (value if value.__class__ in NUMBERS else value.to(wide) for value in (self, exponent))
    return Tensor.pow(base, power)


@composite("float_power_(Tensor(a!) self, Tensor|Scalar exponent) -> Tensor(a!)", public="Tensor",
           samples=cases(error(RuntimeError, "but the operation's result requires dtype Double", t(2), 2)))
def _float_power_inplace(self, exponent):
    wide = complex128 if COMPLEX in (self.dtype.category, dtype_of(exponent).category) else float64
    if self.dtype is not wide:
        raise RuntimeError(f"the base given to float_power_ has dtype {self.dtype.scalar_name} but the operation's "
                           f"result requires dtype {wide.scalar_name}")
    return self.pow_(exponent if exponent.__class__ in NUMBERS else exponent.to(wide))
