"""Comparisons, tests of elements, logic on truth values, and arithmetic on the bits of integers."""

import math
from collections.abc import Callable
from typing import Any

from .._autograd.names import when_tensor
from .._core.dtype import BOOL, COMPLEX, FLOAT, bool_, get_default_dtype
from .._core.elements import has_elements
from .._core.tensor import Tensor
from ._declare.aten import LEAF, Aten, by_operands
from ._declare.families import pointwise
from ._declare.layouts import NO_FORMAT
from ._declare.op import composite, op
from ._declare.out import AS_OPERAND, BOOLEAN, CASTABLE
from ._declare.rules import boolean
from ._declare.samples import Case, binary, bools, case, cases, error, ints, t, unary, values

# comparisons ---------------------------------------------------------------------------------------------------------

# Written into their operand, they cut it off: its gradient is zero.
_CUT_OFF: dict[str, Callable] = dict(
    self=lambda grad: grad.new_zeros(grad.shape),
    other=lambda grad, other_shape: grad.new_zeros(other_shape),
)

op("eq(Tensor self, Tensor|Scalar other) -> Tensor", special="eq",
   kernel=pointwise("equal", boolean), inplace_grad=_CUT_OFF,
   npu=("aclnnEqTensor(self, other, out)", "aclnnEqScalar(self, other, out)"), samples=binary(),
   node={"EqBackward1": when_tensor("other")})
op("ne(Tensor self, Tensor|Scalar other) -> Tensor", special="ne",
   kernel=pointwise("not_equal", boolean), inplace_grad=_CUT_OFF,
   npu=("aclnnNeTensor(self, other, out)", "aclnnNeScalar(self, other, out)"), aliases=("not_equal",), samples=binary(),
   node={"NeBackward1": when_tensor("other")})
for _name, _ufunc in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal")):
    op(f"{_name}(Tensor self, Tensor|Scalar other) -> Tensor", special=_name,
       kernel=pointwise(_ufunc, boolean, excluding=(COMPLEX,)), inplace_grad=_CUT_OFF,
       npu=(f"aclnn{_name.title()}Tensor(self, other, out)", f"aclnn{_name.title()}Scalar(self, other, out)"),
       aliases=(_ufunc,), samples=binary(),
       node={f"{_name.title()}Backward1": when_tensor("other")})


@composite("equal(Tensor self, Tensor other) -> bool",
           samples=cases(case(t(2, 3), t(2, 3)), case(t(2), t(3)), case(t(0), t(0))), aten=LEAF)
def _equal(self, other):
    if not has_elements(self):
        raise NotImplementedError("aten::equal: attempted to run this operator with Meta tensors, which have no values")
    return self._array.shape == other._array.shape and bool((self == other).all())


def _check_isclose(self: Tensor, other: Tensor, rtol: float, atol: float) -> None:
    if self.dtype is not other.dtype:
        raise RuntimeError(f"{self.dtype.scalar_name} did not match {other.dtype.scalar_name}")
    check_tolerance("rtol", rtol)
    check_tolerance("atol", atol)


def check_tolerance(name: str, tolerance: float) -> None:
    if not tolerance >= 0:
        raise RuntimeError(f"{name} must be greater than or equal to zero, but got {tolerance:g}")


@composite("isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
           samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 3), t(3), rtol=0.5), case(t(2), t(2), 0.0, 0.0, True),
                         error(RuntimeError, "rtol must be greater than or equal to zero", t(2), t(2), -1.0),
                         error(RuntimeError, "Long did not match Bool", ints(2), bools(2))), out=None)
def _isclose(self, other, rtol, atol, equal_nan):
    _check_isclose(self, other, rtol, atol)
    close = self == other
    if equal_nan and self.dtype.category >= FLOAT:
        close |= self.isnan() & other.isnan()
    if rtol == 0 and atol == 0:
        return close
    near = other if other.dtype.category >= FLOAT else other.to(get_default_dtype())
    distance = (self - near).abs() if self.dtype.category != BOOL else (self.to(near.dtype) - near).abs()
    return close | (distance.isfinite() & (distance <= atol + (rtol * near).abs()))


@composite("allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
           samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 3), t(3), rtol=10.0)), aten=LEAF)
def _allclose(self, other, rtol, atol, equal_nan):
    return bool(self.isclose(other, rtol, atol, equal_nan).all())


# tests of elements ---------------------------------------------------------------------------------------------------

def _is_infinite(self: Any) -> Any:
    return self.abs() == math.inf if self.dtype.category >= FLOAT else self.new_zeros(self.shape, dtype=bool_)


# Not every CANN has an operator for isinf.
for _name, _row in (("isnan", "aclnnNeTensor(self, self, out)"), ("isinf", None),
                    ("isfinite", "aclnnIsFinite(self, out)")):
    op(f"{_name}(Tensor self) -> Tensor", kernel=pointwise(_name, boolean), npu=_row, inplace=False, samples=unary(),
       out=None, keeps_zero=_name != "isfinite", decomposition=None if _row else _is_infinite)


def _declare_infinity(name: str, infinity: float, row: str) -> None:
    def check(self: Tensor) -> None:
        if self.dtype.is_complex:
            raise RuntimeError(f"{name} does not support complex inputs.")

    op(f"{name}(Tensor self) -> Tensor",
       kernel=pointwise(lambda xp, self: xp.equal(self, infinity), boolean, check=check),
       npu=row, inplace=False, samples=unary(), out=BOOLEAN, keeps_zero=True)


_declare_infinity("isposinf", float("inf"), "aclnnIsPosInf(self, out)")
_declare_infinity("isneginf", float("-inf"), "aclnnIsNegInf(self, out)")
op("isreal(Tensor self) -> Tensor",
   kernel=pointwise(lambda xp, self: xp.isreal(self), boolean), inplace=False, samples=unary(), out=None,
   decomposition=lambda self: self.imag == 0 if self.dtype.is_complex else self.new_ones(self.shape, dtype=bool_),
   refuses_coo=NO_FORMAT)

# logic ---------------------------------------------------------------------------------------------------------------


def _masks() -> list[Case]:
    return [case(t(2, 3), t(2, 3)), case(bools(2, 3), bools(3)), case(ints(3), t(2, 1)), case(t(0), t(0))]


for _name in ("And", "Or", "Xor"):
    op(f"logical_{_name.lower()}(Tensor self, Tensor other) -> Tensor",
       kernel=pointwise(f"logical_{_name.lower()}", boolean), npu=f"aclnnLogical{_name}(self, other, out)",
       samples=_masks)
op("logical_not(Tensor self) -> Tensor", kernel=pointwise("logical_not", boolean),
   npu="aclnnLogicalNot(self, out)", samples=unary())

# bits ----------------------------------------------------------------------------------------------------------------


def _integers() -> list[Case]:
    return [case(ints(2, 3), ints(2, 3)), case(ints(3), ints(2, 1)), case(ints(2), 3), case(ints(2, 3), ints()),
            case(3, ints(2)), error(NotImplementedError, "not implemented for 'Float'", values([1.5]), values([1.5]))]


for _name in ("And", "Or", "Xor"):
    _word = _name.lower()
    op(f"bitwise_{_word}(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", special=f"{_word} r{_word} i{_word}",
       kernel=pointwise(f"bitwise_{_word}", excluding=(FLOAT, COMPLEX)),
       npu=(f"aclnnBitwise{_name}Tensor(self, other, out)", f"aclnnBitwise{_name}Scalar(self, other, out)"),
       samples=lambda: [*_integers(), case(bools(2, 3), bools(3)), case(bools(2), 1)],
       out=CASTABLE._replace(tensors="self"), aten=Aten(by_operands("Tensor", "Scalar", "Scalar_Tensor")))
op("bitwise_not(Tensor self) -> Tensor",
   kernel=pointwise("invert", excluding=(FLOAT, COMPLEX)),
   npu="aclnnBitwiseNot(self, out)",
   samples=cases(case(ints(2, 3)), case(bools(3))), out=AS_OPERAND)
_SHIFT_OVERLOAD = Aten(by_operands("Tensor", "Tensor_Scalar", "Scalar_Tensor"))
op("bitwise_left_shift(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", special="lshift -rlshift ilshift",
   kernel=pointwise("left_shift", excluding=(BOOL, FLOAT, COMPLEX), named="lshift_cpu"),
   npu="aclnnLeftShift(self, other, out)", samples=_integers, out=CASTABLE._replace(tensors="self"),
   aten=_SHIFT_OVERLOAD)
op("bitwise_right_shift(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", special="rshift -rrshift irshift",
   kernel=pointwise("right_shift", excluding=(BOOL, FLOAT, COMPLEX), named="rshift_cpu"),
   npu="aclnnRightShift(self, other, out)", samples=_integers, out=CASTABLE._replace(tensors="self"),
   aten=_SHIFT_OVERLOAD)


def _least_multiple(self: Any, other: Any) -> Any:
    return (self.div(self.gcd(other).clamp_min(1), rounding_mode="trunc") * other).abs()


for _name, _row in (("gcd", "aclnnGcd(self, other, out)"), ("lcm", None)):
    op(f"{_name}(Tensor self, Tensor other) -> Tensor",
       kernel=pointwise(_name, excluding=(BOOL, FLOAT, COMPLEX)), npu=_row,
       decomposition=None if _row else _least_multiple,
       samples=cases(case(ints(2, 3, high=30), ints(3, high=30)), case(ints(2, low=-9), ints(2, low=-9)),
                     error(NotImplementedError, f'"{_name}_cpu" not implemented for', values([1.5]), values([1.5]))),
       inplace=f"{_name}_")
