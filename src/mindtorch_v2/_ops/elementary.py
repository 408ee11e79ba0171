"""Functions of one number, and a few of two: roots, exponentials, logarithms, trigonometry, rounding, complex parts."""

import math
from collections.abc import Callable
from typing import Any

from .._autograd.names import when_number
from .._core.dtype import BOOL, COMPLEX, FLOAT, INT, dtype, float16, float32, float64
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.registry import registry
from .._dispatch.schema import NUMBERS
from ._declare.aten import LEAF, Aten, by_operands, if_given
from ._declare.families import pointwise
from ._declare.formulas import elementwise, on_arrays
from ._declare.op import composite, function_of, op
from ._declare.out import AS_OPERAND, CASTABLE, Out
from ._declare.rules import floating
from ._declare.samples import binary, case, cases, error, ints, t, unary
from .pointwise import conj

LN2, LN10, ROOT_PI = math.log(2), math.log(10), math.sqrt(math.pi)

# roots and exponentials ----------------------------------------------------------------------------------------------


def _rsqrt(xp: Any, self: Any) -> Any:
    root = xp.sqrt(self)
    return xp.reciprocal(root, out=root) if root.__class__ is xp.ndarray else xp.reciprocal(root)


op("sqrt(Tensor self) -> Tensor",
   kernel=pointwise("sqrt", floating),
   npu="aclnnSqrt(self, out)", grad=dict(self=elementwise(lambda xp, grad, result: grad / (2 * result.conj()))),
   samples=unary(0.1, 3), inplace="sqrt_", keeps_zero=True)
op("rsqrt(Tensor self) -> Tensor",
   kernel=pointwise(_rsqrt, floating),
   npu="aclnnRsqrt(self, out)",
   grad=dict(self=elementwise(lambda xp, grad, result: -0.5 * grad * (result * result * result).conj())),
   samples=unary(0.1, 3),
   inplace="rsqrt_",
   autocast=dict(accelerators="float32"))
op("reciprocal(Tensor self) -> Tensor",
   kernel=pointwise("reciprocal", floating),
   npu="aclnnReciprocal(self, out)",
   grad=dict(self=elementwise(lambda xp, grad, result: -grad * (result * result).conj())), samples=unary(0.1, 3),
   inplace="reciprocal_",
   autocast=dict(accelerators="float32"))
op("exp(Tensor self) -> Tensor",
   kernel=pointwise("exp", floating),
   npu="aclnnExp(self, out)", grad=dict(self=lambda grad, result: grad * conj(result)), samples=unary(), inplace="exp_",
   autocast=dict(accelerators="float32"))
op("exp2(Tensor self) -> Tensor",
   kernel=pointwise(lambda xp, self: xp.exp(self * LN2) if self.dtype.kind == "c" else xp.exp2(self), floating),
   npu="aclnnExp2(self, out)",
   grad=dict(self=elementwise(lambda xp, grad, result: grad * result.conj() * LN2)), public="torch Tensor special",
   samples=unary(),
   inplace="exp2_")
op("expm1(Tensor self) -> Tensor",
   kernel=pointwise("expm1", floating),
   npu="aclnnExpm1(self, out)", grad=dict(self=elementwise(lambda xp, grad, result: grad * (result.conj() + 1))),
   public="torch Tensor special", samples=unary(), inplace="expm1_", autocast=dict(accelerators="float32"),
   keeps_zero=True)
op("log(Tensor self) -> Tensor",
   kernel=pointwise("log", floating),
   npu="aclnnLog(self, out)", grad=dict(self=lambda grad, self: grad / conj(self)), samples=unary(0.1, 3),
   inplace="log_",
   autocast=dict(accelerators="float32"))
op("log2(Tensor self) -> Tensor",
   kernel=pointwise("log2", floating),
   npu="aclnnLog2(self, out)", grad=dict(self=elementwise(lambda xp, grad, self: grad / (self.conj() * LN2))),
   samples=unary(0.1, 3), inplace="log2_", autocast=dict(accelerators="float32"))
op("log10(Tensor self) -> Tensor",
   kernel=pointwise("log10", floating),
   npu="aclnnLog10(self, out)", grad=dict(self=elementwise(lambda xp, grad, self: grad / (self.conj() * LN10))),
   samples=unary(0.1, 3), inplace="log10_", autocast=dict(accelerators="float32"))
op("log1p(Tensor self) -> Tensor",
   kernel=pointwise("log1p", floating),
   npu="aclnnLog1p(self, out)", grad=dict(self=elementwise(lambda xp, grad, self: grad / (self.conj() + 1))),
   public="torch Tensor special", samples=unary(-0.9, 3), inplace="log1p_", autocast=dict(accelerators="float32"),
   keeps_zero=True)

# trigonometric and hyperbolic ----------------------------------------------------------------------------------------

op("sin(Tensor self) -> Tensor",
   kernel=pointwise("sin", floating),
   npu="aclnnSin(self, out)", grad=dict(self=elementwise(lambda xp, grad, self: grad * xp.cos(self).conj())),
   samples=unary(),
   inplace="sin_", keeps_zero=True)
op("cos(Tensor self) -> Tensor",
   kernel=pointwise("cos", floating),
   npu="aclnnCos(self, out)", grad=dict(self=elementwise(lambda xp, grad, self: -grad * xp.sin(self).conj())),
   samples=unary(),
   inplace="cos_")
op("tan(Tensor self) -> Tensor",
   kernel=pointwise("tan", floating),
   npu="aclnnTan(self, out)", grad=dict(self=elementwise(lambda xp, grad, result: grad * (1 + result * result).conj())),
   samples=unary(-1.2, 1.2), inplace="tan_", autocast=dict(accelerators="float32"), keeps_zero=True)
op("asin(Tensor self) -> Tensor",
   kernel=pointwise("arcsin", floating),
   npu="aclnnAsin(self, out)",
   grad=dict(self=elementwise(lambda xp, grad, self: grad / xp.sqrt(1 - self * self).conj())),
   aliases=("arcsin",), samples=unary(-0.9, 0.9), inplace="arcsin_ asin_", autocast=dict(accelerators="float32"),
   keeps_zero=True)
op("acos(Tensor self) -> Tensor",
   kernel=pointwise("arccos", floating),
   npu="aclnnAcos(self, out)",
   grad=dict(self=elementwise(lambda xp, grad, self: -grad / xp.sqrt(1 - self * self).conj())),
   aliases=("arccos",), samples=unary(-0.9, 0.9), inplace="acos_ arccos_", autocast=dict(accelerators="float32"))
op("atan(Tensor self) -> Tensor",
   kernel=pointwise("arctan", floating),
   npu="aclnnAtan(self, out)", grad=dict(self=elementwise(lambda xp, grad, self: grad / (self * self + 1).conj())),
   aliases=("arctan",), samples=unary(), inplace="arctan_ atan_", keeps_zero=True)
op("sinh(Tensor self) -> Tensor",
   kernel=pointwise("sinh", floating),
   npu="aclnnSinh(self, out)", grad=dict(self=elementwise(lambda xp, grad, self: grad * xp.cosh(self).conj())),
   samples=unary(),
   inplace="sinh_",
   autocast=dict(accelerators="float32"), keeps_zero=True)
op("cosh(Tensor self) -> Tensor",
   kernel=pointwise("cosh", floating),
   npu="aclnnCosh(self, out)", grad=dict(self=elementwise(lambda xp, grad, self: grad * xp.sinh(self).conj())),
   samples=unary(),
   inplace="cosh_",
   autocast=dict(accelerators="float32"))


def _tanh_backward(xp: Any, grad_output: Any, output: Any) -> Any:
    slope = xp.multiply(output, output, out=xp.empty_like(output))
    xp.subtract(1, slope, out=slope)
    if slope.dtype.kind == "c":
        xp.conjugate(slope, out=slope)
    return xp.multiply(grad_output, slope, out=slope if grad_output.shape == slope.shape else None)


TANH_BACKWARD = op("tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
   kernel=pointwise(_tanh_backward, excluding=(BOOL, INT)),
   npu="aclnnTanhBackward(grad_output, output, out)",
   grad=dict(grad_output=lambda grad, output: grad * (1 - output * output),
             output=lambda grad, grad_output, output: -2 * conj(grad * output) * grad_output),
   public="", samples=cases(case(t(2, 3), t(2, 3))))
_tanh_grad = function_of(TANH_BACKWARD)
op("tanh(Tensor self) -> Tensor", after_product="tanh",
   kernel=pointwise("tanh", floating),
   npu="aclnnTanh(self, out)", grad=dict(self=lambda grad, result: _tanh_grad(grad, result)),
   public="torch Tensor nn.functional", samples=unary(), inplace="tanh_", keeps_zero=True)


op("asinh(Tensor self) -> Tensor",
   kernel=pointwise("arcsinh", floating),
   npu="aclnnAsinh(self, out)",
   grad=dict(self=elementwise(lambda xp, grad, self: grad / xp.sqrt(self * self + 1).conj())),
   aliases=("arcsinh",), samples=unary(), inplace="arcsinh_ asinh_", keeps_zero=True)
op("acosh(Tensor self) -> Tensor",
   kernel=pointwise("arccosh", floating),
   npu="aclnnAcosh(self, out)",
   grad=dict(self=lambda grad, self: grad * conj((self - 1).rsqrt() * (self + 1).rsqrt()) if self.dtype.is_complex
             else grad * (self * self - 1).rsqrt()),
   aliases=("arccosh",), samples=unary(1.1, 3), inplace="acosh_ arccosh_")
op("atanh(Tensor self) -> Tensor",
   kernel=pointwise("arctanh", floating),
   npu="aclnnAtanh(self, out)", grad=dict(self=elementwise(lambda xp, grad, self: grad / (1 - self * self).conj())),
   aliases=("arctanh",), samples=unary(-0.9, 0.9), inplace="arctanh_ atanh_", keeps_zero=True)


@elementwise
def _atan2_grad(xp: Any, grad: Any, self: Any, other: Any) -> Any:
    """No direction at the origin, and no gradient."""
    square = self * self + other * other
    return xp.where(square == 0, 0, grad * other / square)


op("atan2(Tensor self, Tensor other) -> Tensor",
   kernel=pointwise("arctan2", floating, excluding=(COMPLEX,)),
   npu="aclnnAtan2(self, other, out)",
   grad=dict(self=_atan2_grad, other=lambda grad, self, other: -_atan2_grad(grad, other, self)),
   aliases=("arctan2",), samples=binary(0.2, 2, scalar=None), autocast=dict(accelerators="widest"))


def _hypot_by_parts(self: Any, other: Any) -> Any:
    a, b = self.abs(), other.abs()
    larger = a.maximum(b)
    ratio = a.minimum(b) / larger
    made = (larger * (ratio * ratio + 1).sqrt()).masked_fill(larger == 0, 0)
    return made.masked_fill((a == math.inf) | (b == math.inf), math.inf)


op("hypot(Tensor self, Tensor other) -> Tensor",
   kernel=pointwise("hypot", excluding=(BOOL, INT, COMPLEX)),
   grad=dict(self=elementwise(lambda xp, grad, self, result: grad * self / result),
             other=elementwise(lambda xp, grad, other, result: grad * other / result)),
   samples=binary(0.2, 2, scalar=None), decomposition=_hypot_by_parts)


def _sinc(xp: Any, self: Any) -> Any:
    turned = self * math.pi
    return xp.where(self == 0, 1, xp.sin(turned) / turned)


@elementwise
def _sinc_grad(xp: Any, self: Any, grad: Any) -> Any:
    turned = self * math.pi
    square = turned * self
    slope = (turned * xp.cos(turned) - xp.sin(turned)) / square
    return xp.where(square == 0, 0, grad * slope.conj())


op("sinc(Tensor self) -> Tensor",
   kernel=pointwise(_sinc, floating),
   npu="aclnnSinc(self, out)", grad=dict(self=_sinc_grad), public="torch Tensor special", samples=unary(0.1, 2),
   inplace="sinc_")


def _check_angle_unit(name: str) -> Callable[[Tensor], None]:
    def check(self: Tensor) -> None:
        if self.dtype.is_complex:
            raise RuntimeError(f"{name} is not supported for complex tensors.")

    return check


def _angle_unit(name: str, factor: float) -> None:
    op(f"{name}(Tensor self) -> Tensor",
       kernel=pointwise(lambda xp, self: self * factor, floating, check=_check_angle_unit(name)),
       grad=dict(self=lambda grad: grad * factor), samples=unary(), inplace=f"{name}_",
       keeps_zero=True, decomposition=lambda self: self * factor)


_angle_unit("deg2rad", math.pi / 180)
_angle_unit("rad2deg", 180 / math.pi)

# rounding ------------------------------------------------------------------------------------------------------------


def _zero_grad(grad: Tensor) -> Tensor:
    return grad.new_zeros(grad.shape)


def _refuse_complex(name: str) -> Callable[[Tensor], None]:
    def check(self: Tensor) -> None:
        if self.dtype.is_complex:
            raise NotImplementedError(f"{name} is not supported for complex inputs")

    return check


def _rounding(function: str) -> Callable[[Any, Any], Any]:
    """The array function; integers are whole already."""
    return lambda xp, self: xp.positive(self) if self.dtype.kind in "iu" else getattr(xp, function)(self)


for _name, _aliases in (("floor", ()), ("ceil", ()), ("trunc", ("fix",))):
    op(f"{_name}(Tensor self) -> Tensor",
       kernel=pointwise(_rounding(_name), excluding=(BOOL,), check=_refuse_complex(_name), named=f"{_name}_vml_cpu"),
       npu=f"aclnn{_name.title()}(self, out)",
       grad=dict(self=_zero_grad), aliases=_aliases, samples=unary(), out=AS_OPERAND,
       inplace=" ".join(f"{each}_" for each in (_name, *_aliases)), keeps_zero=True)


def _check_round(self: Tensor, decimals: int) -> None:
    kind = self.dtype
    if decimals and not kind.is_floating_point or kind.category in (BOOL, COMPLEX):
        name = "round_cpu" if decimals else "round_vml_cpu"
        raise NotImplementedError(f'"{name}" not implemented for \'{kind.scalar_name}\'')


def _round(xp: Any, self: Any, decimals: int) -> Any:
    if not decimals:
        return xp.positive(self) if self.dtype.kind in "iu" else xp.rint(self)
    scale = 10.0 ** abs(decimals) if abs(decimals) <= 308 else math.inf
    return xp.rint(self * scale) / scale if decimals > 0 else xp.rint(self / scale) * scale


op("round(Tensor self, *, int decimals=0) -> Tensor", node={"RoundBackward1": "decimals != 0"},
   kernel=pointwise(_round, check=_check_round),
   npu="aclnnRoundDecimals(self, decimals, out)", grad=dict(self=_zero_grad), public="torch Tensor special",
   samples=lambda: [*unary(decimals=(2, -1))(),
                    error(NotImplementedError, '"round_cpu" not implemented for', ints(3), decimals=1)], out=AS_OPERAND,
   aten=Aten(if_given("decimals", "decimals")),
   inplace="round_", keeps_zero=True)
op("frac(Tensor self) -> Tensor",
   kernel=pointwise(lambda xp, self: self - xp.trunc(self), excluding=(BOOL, INT, COMPLEX)),
   npu="aclnnFrac(self, out)",
   grad=dict(self=lambda grad: grad), samples=unary(), out=AS_OPERAND, inplace="frac_", keeps_zero=True)

# special functions ---------------------------------------------------------------------------------------------------

op("erf(Tensor self) -> Tensor",
   kernel=pointwise("erf", floating, excluding=(COMPLEX,), named="erf_vml_cpu"),
   npu="aclnnErf(self, out)",
   grad=dict(self=elementwise(lambda xp, self, grad: 2 / ROOT_PI * xp.exp(-self * self) * grad)),
   public="torch Tensor special", samples=unary(), inplace="erf_", keeps_zero=True)
op("erfc(Tensor self) -> Tensor",
   kernel=pointwise("erfc", floating, excluding=(COMPLEX,), named="erfc_vml_cpu"),
   npu="aclnnErfc(self, out)",
   grad=dict(self=elementwise(lambda xp, self, grad: -2 / ROOT_PI * xp.exp(-self * self) * grad)),
   public="torch Tensor special", samples=unary(), inplace="erfc_")
op("erfinv(Tensor self) -> Tensor",
   kernel=pointwise("erfinv", floating, excluding=(COMPLEX,), named="erfinv_vml_cpu"),
   npu="aclnnErfinv(self, out)",
   grad=dict(self=elementwise(lambda xp, grad, result: grad * (ROOT_PI / 2) * xp.exp(result * result))),
   public="torch Tensor special", samples=unary(-0.9, 0.9), autocast=dict(accelerators="float32"), keeps_zero=True)
op("lgamma(Tensor self) -> Tensor",
   kernel=pointwise("gammaln", floating, excluding=(COMPLEX,), named="lgamma_vml_cpu"),
   npu="aclnnLgamma(self, out)",
   grad=dict(self=lambda grad, self: grad * self.digamma()), aliases=("special.gammaln",), samples=unary(0.3, 4))
op("digamma(Tensor self) -> Tensor",
   kernel=pointwise("psi", floating, excluding=(COMPLEX,), named="digamma"),
   npu="aclnnDigamma(self, out)",
   grad=dict(self=lambda grad, self: grad * self.polygamma(1)),
   public="torch Tensor special", aliases=("special.psi",), samples=unary(0.3, 4))


def _check_polygamma(n: int, self: Tensor) -> None:
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if self.dtype.is_complex:
        name = ("digamma", "trigamma")[n] if n < 2 else "polygamma"
        raise NotImplementedError(f'"{name}" not implemented for \'{self.dtype.scalar_name}\'')


def _polygamma(xp: Any, n: int, self: Any) -> Any:
    """The n-th derivative of digamma, through the Hurwitz zeta function; n = 1 also left of zero, by reflection."""
    if n == 0:
        return xp.psi(self)
    if n == 1:
        own = getattr(xp, "trigamma", None)  # a function of a kernel
        if own is not None:
            return own(self)
        left = self < 0.5
        value = xp.zeta(2, xp.where(left, 1 - self, self))
        return xp.where(left, (math.pi / xp.sin(math.pi * self)) ** 2 - value, value)
    factor = math.factorial(n) if n <= 170 else math.inf  # what float64 holds
    return (factor if n % 2 else -factor) * xp.zeta(float(n + 1), self)


def _polygamma_by_parts(n: int, self: Any) -> Any:
    if n == 0:
        return self.digamma()
    zeta = registry.get("aten::special_zeta")
    if n == 1:
        left, turned = self < 0.5, math.pi / (self * math.pi).sin()
        value = call_bound(zeta, (2.0, (1 - self).where(left, self)))
        return (turned * turned - value).where(left, value)
    factor = math.factorial(n) if n <= 170 else math.inf
    return call_bound(zeta, (float(n + 1), self)) * (factor if n % 2 else -factor)


_POLYGAMMA = op("polygamma(int n, Tensor self) -> Tensor",
   kernel=pointwise(_polygamma, floating, check=_check_polygamma),
   grad=dict(self=lambda grad, self, n: grad * self.polygamma(n + 1)), public="torch special",
   samples=cases(case(0, t(2, 3, low=0.3)), case(1, t(2, 3, low=0.3)), case(3, t(3, low=0.3)),
                 error(RuntimeError, "does not support negative n", -1, t(2))), decomposition=_polygamma_by_parts)


@composite("polygamma.method(Tensor self, int n) -> Tensor", public="Tensor", inplace=True)
def _polygamma_method(self, n):
    return call_bound(_POLYGAMMA, (n, self))


def _check_mvlgamma(self: Tensor, p: int) -> None:
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if self.dtype.category == BOOL:
        raise RuntimeError("The input tensor may not be a boolean tensor.")


def _mvlgamma(xp: Any, self: Any, p: int) -> Any:
    constant = p * (p - 1) * 0.25 * math.log(math.pi)
    if p > 8:  # too many to be written out
        return xp.gammaln(self[..., None] - (0.5 * xp.arange(p)).astype(self.dtype)).sum(-1) + constant
    total = xp.gammaln(self)
    for k in range(1, p):
        total = total + xp.gammaln(self - 0.5 * k)
    return total + constant


def _shifted_for_mvlgamma(self: Tensor, p: int) -> Tensor:
    return self.unsqueeze(-1) + (0.5 - 0.5 * self.new_ones((p,), dtype=floating(self.dtype)[0]).cumsum(0))


op("mvlgamma(Tensor self, int p) -> Tensor",
   kernel=pointwise(_mvlgamma, floating, excluding=(COMPLEX,), named="lgamma_vml_cpu", check=_check_mvlgamma),
   grad=dict(self=lambda grad, self, p: grad * _shifted_for_mvlgamma(self, p).digamma().sum(-1)),
   inplace=True, aliases=("special.multigammaln",), out=CASTABLE, aligned="", resizes_expanded=True,
   autocast=dict(accelerators="untouched"),
   samples=cases(case(t(2, 3, low=2, high=4), 2), case(t(3, low=6, high=9), 10),
                 error(RuntimeError, "p has to be greater than or equal to 1", t(2), 0)),
   decomposition=lambda self, p: (_shifted_for_mvlgamma(self, p).lgamma().sum(-1)
                                  + p * (p - 1) * 0.25 * math.log(math.pi)))


def _logit(xp: Any, self: Any, eps: float | None) -> Any:
    bounded = self if eps is None else xp.clip(self, eps, 1 - eps)
    return xp.log(bounded / (1 - bounded))


@elementwise
def _logit_grad(xp: Any, grad: Any, self: Any, eps: float | None) -> Any:
    low, high, outside = (0.0, 1.0, math.nan) if eps is None else (eps, 1 - eps, 0.0)
    return xp.where((self >= low) & (self <= high), grad / (self * (1 - self)), outside)


op("logit(Tensor self, float? eps=None) -> Tensor",
   kernel=pointwise(_logit, floating, excluding=(COMPLEX,)),
   npu="aclnnLogit(self, eps|-1, out)", grad=dict(self=_logit_grad), public="torch Tensor special",
   samples=unary(0.1, 0.9, eps=(None, 0.2)), inplace="logit_")


def _xlogy(xp: Any, self: Any, other: Any) -> Any:
    return xp.where((self == 0) & ~xp.isnan(other), 0, self * xp.log(other))


@elementwise
def _xlogy_slope(xp: Any, self: Any, other: Any, grad: Any) -> Any:
    return xp.where((self == 0) & (other <= 0), 0, grad * xp.log(other))


def _xlogy_self_grad(grad: Tensor, self: Tensor, other: Any) -> Tensor:
    return _xlogy_slope(self, grad.new_full((), other) if other.__class__ in NUMBERS else other, grad)


op("xlogy(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
   node={"XlogyBackward1": when_number("self"), "XlogyBackward2": when_number("other")},
   kernel=pointwise(_xlogy, floating, excluding=(COMPLEX,)),
   npu=("aclnnXLogYTensor(self, other, out)", "aclnnXLogYScalarOther(self, other, out)"),
   grad=dict(self=_xlogy_self_grad, other=elementwise(lambda xp, grad, self, other: grad * self / other)),
   public="torch Tensor special", samples=binary(0.2, 2),
   aten=Aten(by_operands("Tensor", "Scalar_Other", "Scalar_Self")), inplace="xlogy_")


@elementwise
def _logaddexp_share(xp: Any, grad: Any, mine: Any, theirs: Any) -> Any:
    return grad / (1 + xp.exp(theirs - mine)).conj()


@elementwise
def _logaddexp2_share(xp: Any, grad: Any, mine: Any, theirs: Any) -> Any:
    return grad / (1 + xp.exp2(theirs - mine))


def _logaddexp(xp: Any, self: Any, other: Any) -> Any:
    if self.dtype.kind != "c":
        return xp.logaddexp(self, other)
    swap = self.real < other.real
    high, low = xp.where(swap, other, self), xp.where(swap, self, other)
    return high + xp.log1p(xp.exp(low - high))


op("logaddexp(Tensor self, Tensor other) -> Tensor",
   kernel=pointwise(_logaddexp, excluding=(BOOL, INT)),
   npu="aclnnLogAddExp(self, other, out)",
   grad=dict(self=lambda grad, self, other: _logaddexp_share(grad, self, other),
             other=lambda grad, self, other: _logaddexp_share(grad, other, self)),
   inplace=False, samples=binary(scalar=None))
op("logaddexp2(Tensor self, Tensor other) -> Tensor",
   kernel=pointwise("logaddexp2", excluding=(BOOL, INT, COMPLEX)),
   npu="aclnnLogAddExp2(self, other, out)",
   grad=dict(self=lambda grad, self, other: _logaddexp2_share(grad, self, other),
             other=lambda grad, self, other: _logaddexp2_share(grad, other, self)),
   inplace=False, samples=binary(scalar=None))

# complex numbers -----------------------------------------------------------------------------------------------------

def _conj_by_parts(self: Any) -> Any:
    if not self.dtype.is_complex:
        return self
    return call_bound(registry.get("aten::complex"), (self.real.contiguous(), -self.imag))


CONJUGATE = op("_conj_physical(Tensor self) -> Tensor",
   kernel=pointwise("conjugate"), grad=dict(self=lambda grad: conj(grad)), public="", linear=True,
   decomposition=_conj_by_parts)
_CONJUGATED = function_of(CONJUGATE)


@composite("conj_physical(Tensor(a) self) -> Tensor(a)", aligned="self", samples=unary(),
           out=AS_OPERAND._replace(names="torch.conj_physical", lies_as_made="resized"), keeps_zero=True, linear=True)
def _conj_physical(self):
    return _CONJUGATED(self) if self.dtype.is_complex else self


@composite("conj_physical_(Tensor(a!) self) -> Tensor(a!)", public="torch Tensor", aten=LEAF,
           kernels={"sparse": "math.conj_physical_"})
def _conj_physical_inplace(self):
    return call_bound(CONJUGATE.declaration.inplace, (self,)) if self.dtype.is_complex else self


@composite("resolve_conj(Tensor(a) self) -> Tensor(a)", samples=unary())
def _resolve_conj(self):
    return self.clone() if self.is_conj() else self


@composite("resolve_neg(Tensor(a) self) -> Tensor(a)", samples=unary())
def _resolve_neg(self):
    return self.clone() if self.is_neg() else self


def _real_floating(common: dtype) -> tuple[dtype, dtype]:
    kind, _ = floating(common)
    return kind, kind.to_real()


def _angle(xp: Any, self: Any) -> Any:
    if self.dtype.kind == "c":
        return xp.angle(self)
    return xp.where(xp.isnan(self), self, xp.where(self < 0, math.pi, 0))


def _angle_grad(grad: Tensor, self: Tensor) -> Tensor:
    if not self.dtype.is_complex:
        return grad.new_zeros(grad.shape)
    size = self.abs()
    return (grad * (self * 1j) / (size * size)).masked_fill(size == 0, 0)


def _angle_by_parts(self: Any) -> Any:
    if self.dtype.is_complex:
        return self.imag.atan2(self.real)
    return (self < 0).to(self.dtype) * math.pi + (self * 0).masked_fill(self == self, 0)


op("angle(Tensor self) -> Tensor", kernel=pointwise(_angle, _real_floating), grad=dict(self=_angle_grad), inplace=False,
   samples=unary(), decomposition=_angle_by_parts, kernels={"sparse_compressed": "math.on_values"})


_COMPLEX_PARTS = (float16, float32, float64)


def _check_parts(real: Tensor, imag: Tensor) -> None:
    a, b = real.dtype, imag.dtype
    if a not in _COMPLEX_PARTS or b not in _COMPLEX_PARTS:
        raise RuntimeError("Expected both inputs to be Half, Float or Double tensors but got "
                           f"{a.scalar_name} and {b.scalar_name}")
    if a is not b:
        raise RuntimeError(f"Expected object of scalar type {a.scalar_name} but got scalar type {b.scalar_name} "
                           "for second argument")


def _check_polar(abs: Tensor, angle: Tensor) -> None:
    _check_parts(abs, angle)
    if abs.dtype is float16:
        raise NotImplementedError("\"polar_cpu\" not implemented for 'Half'")


def _joined(xp: Any, real: Any, imag: Any) -> Any:
    if hasattr(real.__class__, "with_imaginary"):  # a kernel is made
        return real.with_imaginary(imag)
    made = xp.empty(xp.broadcast(real, imag).shape, xp.complex128 if real.dtype.itemsize == 8 else xp.complex64)
    made.real, made.imag = real, imag
    return made


def _complex_of(common: dtype) -> tuple[dtype, dtype]:
    return common, common.to_complex() if common.category >= FLOAT else common


_COMPLEX_OUT = Out("exact", "Expected object of scalar type {made} but got scalar type {given} for argument 'out'")
COMPLEX_OF_PARTS = op(
   "complex(Tensor real, Tensor imag) -> Tensor",
   kernel=pointwise(_joined, _complex_of, check=_check_parts),
   npu="aclnnComplex(real, imag, out)", kernels={"cuda": "copy.complex_of_parts"},
   grad=dict(real=lambda grad: grad.real, imag=lambda grad: grad.imag),
   samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 1), t(3)),
                 error(RuntimeError, "Expected both inputs to be Half, Float or Double tensors", ints(2), ints(2))),
   out=_COMPLEX_OUT)
op("polar(Tensor abs, Tensor angle) -> Tensor",
   kernel=pointwise(lambda xp, abs, angle: _joined(xp, abs * xp.cos(angle), abs * xp.sin(angle)), _complex_of,
                    check=_check_polar),
   npu="aclnnPolar(abs, angle, out)", kernels={"cuda": "copy.complex_of_parts"},
   grad=dict(abs=on_arrays(lambda xp, grad, angle: grad.real * xp.cos(angle) + grad.imag * xp.sin(angle)),
             angle=on_arrays(lambda xp, grad, result: grad.imag * result.real - grad.real * result.imag)),
   samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 1), t(3)),
                 error(RuntimeError, "Expected both inputs to be Half, Float or Double tensors", ints(2), ints(2))),
   out=_COMPLEX_OUT, autocast=dict(cpu="float32"))
