"""Functions of several numbers: extremes, bounds, interpolation, added products, and the parts floats are made of."""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.names import OTHERWISE, when_tensor
from .._backends.interface import Backend
from .._core.dtype import (
    BOOL,
    COMPLEX,
    COMPUTE,
    FLOAT,
    INT,
    OF_ARRAY,
    can_cast,
    dtype,
    finfo,
    float32,
    int16,
    int32,
    int64,
)
from .._core.tensor import Tensor
from .._dispatch.registry import Operator
from .._dispatch.schema import NUMBERS, Schema
from ._declare.aten import Aten
from ._declare.batch import in_front
from ._declare.families import Pointwise, computes, pointwise
from ._declare.formulas import TENSORS, elementwise, on_arrays
from ._declare.op import op
from ._declare.out import AS_OPERAND, Out
from ._declare.rules import Spec, broadcast_shape, c_name, check_shape_fits, common_dtype, floating, pointwise_strides
from ._declare.samples import binary, case, cases, error, ints, t, unary, values
from .copy import stored_number
from .pointwise import conj, undifferentiated, without_derivative

# extremes and bounds -------------------------------------------------------------------------------------------------


def _refuse_complex(name: str) -> Callable[[Tensor, Tensor], None]:
    def check(self: Tensor, other: Tensor) -> None:
        if self.dtype.is_complex or other.dtype.is_complex:
            raise RuntimeError(f"{name} not implemented for complex tensors.")

    return check


@functools.partial(elementwise, version=1)
def _larger_grad(xp: Any, self: Any, other: Any, grad: Any) -> Any:
    """The gradient where the first operand is the larger one; operands that tie share it."""
    return xp.where(self < other, 0, xp.where(self == other, grad / 2, grad))


@functools.partial(elementwise, version=1)
def _smaller_grad(xp: Any, self: Any, other: Any, grad: Any) -> Any:
    """The gradient where the first operand is the smaller one."""
    return xp.where(self > other, 0, xp.where(self == other, grad / 2, grad))


op("maximum(Tensor self, Tensor other) -> Tensor",
   kernel=pointwise("maximum", check=_refuse_complex("maximum")),
   npu="aclnnMaximum(self, other, out)",
   grad=dict(self=_larger_grad, other=_smaller_grad),
   inplace=False, samples=binary(scalar=None))
op("minimum(Tensor self, Tensor other) -> Tensor",
   kernel=pointwise("minimum", check=_refuse_complex("minimum")),
   npu="aclnnMinimum(self, other, out)",
   grad=dict(self=_smaller_grad, other=_larger_grad),
   inplace=False, samples=binary(scalar=None))


def _check_clamp(self: Tensor, min: Any, max: Any) -> None:
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    given = [bound for bound in (min, max) if bound is not None]
    numbers = [bound for bound in given if bound.__class__ in NUMBERS]
    if numbers and any(hasattr(bound, "_array") and (bound._array.ndim or bound.requires_grad) for bound in given):
        shown = ", ".join(type(bound).__name__ for bound in (self, min, max))
        raise TypeError(f"clamp() received an invalid combination of arguments - got ({shown}), but expected one of:\n"
                        " * (Tensor input, Tensor min = None, Tensor max = None, *, Tensor out = None)\n"
                        " * (Tensor input, Number min = None, Number max = None, *, Tensor out = None)\n")
    if not self.dtype.is_complex and numbers and self.dtype.category == FLOAT and complex in map(type, numbers):
        raise RuntimeError("value cannot be converted to type double without overflow")
    _check_bounds(self, given, "clamp" if len(given) == 2 else "maximum" if max is None else "minimum")


def _check_bounds(self: Tensor, bounds: Sequence[Any], named: str) -> None:
    if self.dtype.is_complex or complex in map(type, bounds):
        raise NotImplementedError("clamp is not supported for complex types")
    for bound in bounds:
        if bound.__class__ not in NUMBERS and bound.dtype.is_complex:
            raise NotImplementedError(f'"{named}_cpu" not implemented for \'{bound.dtype.scalar_name}\'')


def _clamp(xp: Any, self: Any, min: Any, max: Any) -> Any:
    bounded = self if min is None else xp.at_least(self, min)
    return bounded if max is None else xp.at_most(bounded, max)


@elementwise
def _clamp_grad(xp: Any, self: Any, min: Any, max: Any, grad: Any) -> Any:
    if min is None:
        return xp.where(self <= max, grad, 0)
    inside = self >= min
    return xp.where(inside if max is None else inside & (self <= max), grad, 0)


@on_arrays
def _clamp_bound_grad(xp: Any, grad: Any, self: Any, min: Any, max: Any) -> tuple[Any, Any]:
    """Where `max` is below `min` it is `max` that is returned, and gets the gradient."""
    if max is None:
        return xp.where(self < min, grad, 0), None
    if min is None:
        return None, xp.where(self > max, grad, 0)
    return xp.where((self < min) & (min < max), grad, 0), xp.where((self > max) | (max < min), grad, 0)


_LARGEST: float = finfo(float32).max


def _is_ordinary(bound: Any) -> bool:
    """Whether a bound is a number that float32 holds."""
    return (bound.__class__ is float or bound.__class__ is int) and -_LARGEST < bound < _LARGEST


def _are_ordinary(tensor: Tensor, bounds: Sequence[Any]) -> bool:
    """Whether bounds are tensors, or numbers that the tensor's type holds."""
    for bound in bounds:
        if bound.__class__ in NUMBERS and not (tensor._array.dtype is float32.np and _is_ordinary(bound)):
            return False
    return True


class _Clamp(Pointwise):
    """Refuses bounds that the result's type cannot hold, and writes in place, with the names C++ gives the types."""

    wraps_numbers = any_numbers = False
    only_checks = True

    def plan(
        self, operator: Operator, args: Sequence[Any], target: Tensor | None = None
    ) -> tuple[Spec, dtype, list[int]]:
        spec, kind, at = super().plan(operator, args, target)
        for bound in args[1:]:
            if bound.__class__ in NUMBERS:
                stored_number(bound, spec.dtype)
        return spec, kind, at

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        general = super().kernel(operator, backend)
        if len(operator.schema.arguments) == 2 or not backend.direct:
            return general

        def kernel(tensor: Tensor, min: Any, max: Any) -> Tensor:
            self._look_at_bounds(operator, tensor, min, max)
            return general(tensor, min, max)

        return kernel

    def into_kernel(self, operator: Operator, backend: Backend) -> Callable | None:
        general = super().into_kernel(operator, backend)
        if general is None or len(operator.schema.arguments) == 2:
            return general

        def kernel(out: Tensor, tensor: Tensor, min: Any, max: Any) -> Tensor | None:
            self._look_at_bounds(operator, tensor, min, max)
            return general(out, tensor, min, max)

        return kernel

    def inplace_kernel(self, operator: Operator, functional: Operator, backend: Backend) -> Callable:
        quick = super().inplace_kernel(operator, functional, backend)
        general = self.general_inplace_kernel(functional, backend)

        def kernel(target: Tensor, *bounds: Any) -> Tensor:
            return (quick if _are_ordinary(target, bounds) else general)(target, *bounds)

        return kernel

    def _look_at_bounds(self, operator: Operator, tensor: Tensor, *bounds: Any) -> None:
        """Raises what is wrong with bounds that are numbers: machine code takes them as they are."""
        if not _are_ordinary(tensor, bounds):
            self.plan(operator, (tensor, *bounds))

    def check_write(self, operator: Operator, target: Tensor, args: Sequence[Any]) -> None:
        super().check_write(operator, target, args)
        if any(hasattr(bound, "_array") for bound in args):
            return
        _, made = self.types(operator, [target, *(bound for bound in args if bound is not None)])
        if not can_cast(made, target.dtype):
            raise RuntimeError(f"result type {made.scalar_name} can't be cast to the desired output type "
                               f"{c_name(target.dtype)}")


def _bound_overload(schema: Schema, values: Sequence[Any]) -> str:
    return "Tensor" if any(hasattr(v, "_keys") for v in values[1:]) else "default"


op("clamp(Tensor self, Tensor|Scalar? min=None, Tensor|Scalar? max=None) -> Tensor",
   kernel=_Clamp(_clamp, check=_check_clamp),
   npu=("aclnnClamp(self, min, max, out)", "aclnnClampTensor(self, min, max, out)"),
   grad={"self": _clamp_grad, "min, max": _clamp_bound_grad},
   aliases=("clip",),
   samples=lambda: [*(case(t(2, 3), *bounds) for bounds in ((-0.5,), (None, 0.7), (-0.5, 0.7), (0.7, -0.5))),
                    case(t(), 0.5), case(t(0, 3), -1, 1), case(t(3, 2, layout="transposed"), -0.5, 0.5),
                    case(t(2, 3, layout="expanded"), max=0.5),
                    case(t(2, 3), t(3), t(2, 1)), case(t(2, 3), None, t(3)), case(t(2, 3), t()),
                    error(RuntimeError, "At least one of 'min' or 'max' must not be None", t(2))], out=AS_OPERAND,
   aten=Aten(_bound_overload),
   inplace="clamp_ clip_", node={"ClampBackward0": when_tensor("min", "max"), "ClampBackward1": OTHERWISE})


op("clamp_min(Tensor self, Tensor|Scalar min) -> Tensor", node={"ClampMinBackward1": when_tensor("min")},
   kernel=_Clamp(lambda xp, self, min: xp.at_least(self, min),
                 check=lambda self, min: _check_bounds(self, [min], "maximum")),
   npu=("aclnnClampMin(self, min, out)", "aclnnClampMinTensor(self, min, out)"),
   grad=dict(self=lambda grad, self, min: _clamp_grad(self, min, None, grad),
             min=lambda grad, self, min: _clamp_bound_grad(grad, self, min, None)[0]),
   samples=binary(), aten=Aten(_bound_overload), inplace="clamp_min_")
op("clamp_max(Tensor self, Tensor|Scalar max) -> Tensor", node={"ClampMaxBackward1": when_tensor("max")},
   kernel=_Clamp(lambda xp, self, max: xp.at_most(self, max),
                 check=lambda self, max: _check_bounds(self, [max], "minimum")),
   npu=("aclnnClampMax(self, max, out)", "aclnnClampMaxTensor(self, max, out)"),
   grad=dict(self=lambda grad, self, max: _clamp_grad(self, None, max, grad),
             max=lambda grad, self, max: _clamp_bound_grad(grad, self, None, max)[1]),
   samples=binary(), aten=Aten(_bound_overload), inplace="clamp_max_")


def _declare_nan_ignoring(name: str, compare: Callable[[Any, Any], Any]) -> None:
    """fmax or fmin: a NaN loses against a number; the first operand wins a tie."""

    def kept(xp: Any, self: Any, other: Any) -> Any:
        return compare(self, other) | xp.isnan(other)

    op(f"{name}(Tensor self, Tensor other) -> Tensor",
       kernel=pointwise(name, check=_refuse_complex(name)),
       grad=dict(self=elementwise(lambda xp, grad, self, other: xp.where(kept(xp, self, other), grad, 0)),
                 other=elementwise(lambda xp, grad, self, other: xp.where(kept(xp, self, other), 0, grad))),
       inplace=False, samples=binary(scalar=None),
       decomposition=lambda self, other: self.where(kept(TENSORS, self, other), other))


_declare_nan_ignoring("fmax", operator.ge)
_declare_nan_ignoring("fmin", operator.le)


# several operands ----------------------------------------------------------------------------------------------------

def _check_lerp(self: Tensor, end: Tensor, weight: Any) -> None:
    kind = self.dtype
    for name, operand in (("end", end), ("weight", weight)):
        if operand.__class__ not in NUMBERS and operand.dtype is not kind and (name == "end" or operand.dim()):
            raise RuntimeError(f"expected dtype {c_name(kind)} for `{name}` but got dtype {c_name(operand.dtype)}")


def _lerp(xp: Any, self: Any, end: Any, weight: Any) -> Any:
    """Starts from the nearer end, so that weights 0 and 1 give the ends exactly."""
    gap = end - self
    if weight.__class__ in NUMBERS or not weight.ndim:
        return self + weight * gap if abs(weight) < 0.5 else end - gap * (1 - weight)
    return xp.where(xp.absolute(weight) < 0.5, self + weight * gap, end - gap * (1 - weight))


class _Lerp(Pointwise):
    wraps_numbers = False

    def plan(self, operator: Operator, args: Sequence[Any],
             target: Tensor | None = None) -> tuple[Spec, dtype, list[int]]:
        if target is not None:  # of which the type is compared last, since a number as weight does not count
            check_shape_fits(target, broadcast_shape([v._array.shape for v in args if hasattr(v, "_array")]))
        return super().plan(operator, args)

    def types(self, operator: Operator, operands: Sequence[Any]) -> tuple[dtype, dtype]:
        kind, weight = operands[0].dtype, operands[2]
        is_number = weight.__class__ in NUMBERS
        if kind.category < FLOAT and (is_number or weight.dtype is kind):
            name = "lerp_kernel_scalar" if is_number else "lerp_kernel_tensor"
            raise NotImplementedError(f'"{name}" not implemented for \'{kind.scalar_name}\'')
        if is_number:
            stored_number(weight, COMPUTE.get(kind, kind))
        return super().types(operator, operands)


op("lerp(Tensor self, Tensor end, Tensor|Scalar weight) -> Tensor", node={"LerpBackward1": when_tensor("weight")},
   kernel=_Lerp(_lerp, excluding=(BOOL, INT), check=_check_lerp, rounds_numbers=False),
   npu=("aclnnLerp(self, end, weight, out)", "aclnnLerps(self, end, weight, out)"),
   grad=dict(self=lambda grad, weight: grad * (1 - conj(weight)), end=lambda grad, weight: grad * conj(weight),
             weight=lambda grad, self, end: grad * conj(end - self)),
   samples=cases(case(t(2, 3), t(2, 3), 0.3), case(t(2, 3), t(3), 0.8), case(t(2, 3), t(2, 3), t(2, 1)),
                 case(t(), t(), 0.5), error(NotImplementedError, "not implemented for 'Long'", ints(2), ints(2), 0.5)))


def _as_number(xp: Any, value: Any, like: Any) -> Any:
    """`value` in the element type of `like`, cut off as a C cast does."""
    return value if like.dtype.kind in "fc" else xp.asarray(value).astype(like.dtype)


def _check_value(self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any) -> None:
    if value != 1:
        kind = common_dtype([self, tensor1, tensor2])
        stored_number(value, COMPUTE.get(kind, kind))


def _check_addcdiv(self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any) -> None:
    _check_value(self, tensor1, tensor2, value)
    if tensor1.dtype.category <= INT and tensor2.dtype.category <= INT:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a "
            "true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value "
            "* torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "
            "tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value "
            "* tensor1 / tensor2), for all dtypes.")


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
   kernel=pointwise(_accumulated("multiply"), excluding=(BOOL,), named="addcmul_cpu_out", check=_check_value),
   npu="aclnnAddcmul(self, tensor1, tensor2, value, out)",
   grad=dict(self=lambda grad: grad, tensor1=lambda grad, tensor2, value: grad * conj(tensor2 * value),
             tensor2=lambda grad, tensor1, value: grad * conj(tensor1 * value)),
   samples=cases(case(t(2, 3), t(2, 3), t(2, 3)), case(t(2, 3), t(3), t(2, 1), value=0.5), case(t(3), t(2, 1), t(1, 3)),
                 case(t(), t(), t())), autocast=dict(accelerators="widest"), old_orders=("self value tensor1 tensor2",))
op("addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
   kernel=pointwise(_accumulated("true_divide"), check=_check_addcdiv),
   npu="aclnnAddcdiv(self, tensor1, tensor2, value, out)",
   grad=dict(self=lambda grad: grad, tensor1=lambda grad, tensor2, value: grad * conj(value / tensor2),
             tensor2=lambda grad, tensor1, tensor2, value: -grad * conj(value * tensor1 / (tensor2 * tensor2))),
   samples=cases(case(t(2, 3), t(2, 3), t(2, 3, low=0.5)), case(t(2, 3), t(3), t(2, 1, low=0.5), value=0.5),
                 error(RuntimeError, "Integer division with addcdiv is no longer supported", t(2), ints(2), ints(2))),
   autocast=dict(accelerators="widest"), old_orders=("self value tensor1 tensor2",))


# the parts of a float ------------------------------------------------------------------------------------------------


class Exact(Pointwise):
    """Computed in the operands' own type: half precision too, where the result depends on what its neighbours are."""

    def plan(
        self, operator: Operator, args: Sequence[Any], target: Tensor | None = None
    ) -> tuple[Spec, dtype, list[int]]:
        spec, _, at = super().plan(operator, args, target)
        return spec, spec.dtype, at


def _nextafter_by_parts(self: Any, other: Any) -> Any:
    """As whole numbers, neighbours of one sign differ by one."""
    bits = {2: int16, 4: int32, 8: int64}[self.dtype.itemsize]
    shape = broadcast_shape((self.shape, other.shape))
    self, other = self.expand(shape).contiguous(), other.expand(shape)
    away = ((other > self) == (self > 0)).to(bits) * 2 - 1
    stepped = (self.view(bits) + away).view(self.dtype)
    least = self.new_ones((), dtype=bits).view(self.dtype)
    stepped = (other.sign() * least).where(self == 0, stepped)
    return other.where(self == other, stepped).masked_fill(self.isnan() | other.isnan(), math.nan)


op("nextafter(Tensor self, Tensor other) -> Tensor",
   kernel=Exact("nextafter", excluding=(BOOL, INT, COMPLEX)),
   grad=dict(self=elementwise(lambda xp, grad, self, other: xp.where(self == other, 0, grad)),
             other=lambda grad: grad.new_zeros(grad.shape)),
   samples=binary(scalar=None), decomposition=_nextafter_by_parts)


def _check_heaviside(self: Tensor, values: Tensor) -> None:
    if self.dtype.is_complex or values.dtype.is_complex:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if self.dtype is not values.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


op("heaviside(Tensor self, Tensor values) -> Tensor",
   kernel=pointwise(lambda xp, self, values: xp.where(self == 0, values, self > 0).astype(self.dtype),
                    check=_check_heaviside),
   npu="aclnnHeaviside(self, values, out)",
   grad=dict.fromkeys(("self", "values"), without_derivative("heaviside")),
   samples=undifferentiated, out=Out("exact", "heaviside is not yet implemented for tensors with different dtypes."))


def _ldexp(xp: Any, self: Any, other: Any, rounded: Callable | None = None) -> Any:
    power = xp.power(2, other) if other.dtype.kind == "c" else xp.exp2(other)
    return self * (power if rounded is None else rounded(power))


op("ldexp(Tensor self, Tensor other) -> Tensor",
   kernel=pointwise(_ldexp, floating),
   grad=dict(self=lambda grad, other: grad * conj(2.0**other),
             other=lambda grad, result: grad * conj(result) * math.log(2)),
   samples=binary(scalar=None), out=Out("castable", "ldexp can't be cast to the desired output type {given}"),
   aten=Aten(lambda schema, values: "default" if schema.writes else "Tensor"),
   inplace="ldexp_", decomposition=lambda self, other: self * (2.0**other if other.dtype.is_complex else other.exp2()))


def _infer_frexp(self: Tensor) -> tuple[Spec, Spec]:
    if not self.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    strides = pointwise_strides(self._array.shape, [self])
    return Spec(self._array.shape, self.dtype, strides), Spec(self._array.shape, int32, strides)


def _frexp_by_parts(self: Any) -> tuple[Any, Any]:
    x = self.to(COMPUTE.get(self.dtype, self.dtype))
    plain = x.isfinite() & (x != 0)
    exponent = x.where(plain, 1.0).abs().log2().floor() + 1
    half = (exponent * 0.5).floor()  # in two steps: a factor of its own may be too large or small for the type
    mantissa = (x * (-half).exp2() * (half - exponent).exp2()).where(plain, x)
    for far, factor in ((mantissa.abs() >= 1, 0.5), (mantissa.abs() < 0.5, 2.0)):  # log2 was rounded
        mantissa = (mantissa * factor).where(far & plain, mantissa)
        exponent = exponent - far.to(exponent.dtype) * math.log2(factor)
    return mantissa.to(self.dtype), exponent.masked_fill(~plain, 0).to(int32)


op("frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)",
   aligned="self", resizes_expanded=False,
   kernel=computes(_infer_frexp, lambda xp, self: xp.frexp(self)), kernels={"cpu": "elementwise.frexp"},
   grad=dict(self=lambda grad, exponent: grad / exponent.detach().exp2()),
   samples=lambda: [*unary()(), error(RuntimeError, "only supports floating-point dtypes", ints(2))],
   out=Out("exact", "torch.frexp() expects mantissa to have dtype {c_made} but got {c_given}"), batch=in_front,
   aten="Tensor", decomposition=_frexp_by_parts)


def _nan_to_num(xp: Any, self: Any, nan: float | None, posinf: float | None, neginf: float | None,
                rounded: Any = None) -> Any:
    kind = getattr(self.dtype, "np", self.dtype) if rounded is None else rounded.kind
    if OF_ARRAY[kind].category < FLOAT:
        return xp.positive(self) if kind.kind != "b" else self.copy()
    limits = finfo(OF_ARRAY[kind])
    highest, lowest = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf

    def replaced(part: Any) -> Any:
        made = xp.where(part == -xp.inf, lowest, xp.where(part == xp.inf, highest, part))
        return xp.where(xp.isnan(part), nan or 0.0, made).astype(part.dtype, copy=False)

    if kind.kind != "c":
        return replaced(self)
    made = xp.empty_like(self)
    made.real, made.imag = replaced(self.real), replaced(self.imag)
    return made


op("nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
   aligned="self", resizes_expanded=False,
   kernel=pointwise(_nan_to_num),
   grad=dict(self=lambda grad, self: grad * self.isfinite()),
   samples=lambda: [*unary()(), case(values([math.nan, math.inf, -math.inf, 1.0]), 2.0, 3.0)],
   out=Out("exact", "{name}: dtype of out: {given} should be same as input: {made}"), batch=in_front,
   inplace="nan_to_num_", keeps_zero=True, kernels={"npu": "pointwise.nan_to_num"})
