"""Special functions: Bessel, Gamma, the normal distribution, orthogonal polynomials. SciPy computes most of them."""

import math
from collections.abc import Callable
from typing import Any

from .._autograd.names import when_number
from .._core.dtype import BOOL, COMPLEX, COMPUTE, INT, REDUCED, dtype, int64
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.registry import Operator
from .._dispatch.schema import NUMBERS
from ._declare.aten import Aten, by_operands
from ._declare.families import pointwise
from ._declare.op import op
from ._declare.rules import broadcast_shape, floating
from ._declare.samples import binary, case, cases, t, unary

ROOT_2_PI, ROOT_PI, ROOT_HALF = math.sqrt(2 * math.pi), math.sqrt(math.pi), math.sqrt(0.5)


def _whole_precision(name: str) -> Callable[[dtype], tuple[dtype, dtype]]:
    """As `floating`, for functions that PyTorch does not have in half precision."""

    def result(common: dtype) -> tuple[dtype, dtype]:
        if common in COMPUTE:
            raise NotImplementedError(f"\"{name}\" not implemented for '{common.scalar_name}'")
        return floating(common)

    return result


def _function(name: str, compute: str | Callable, samples: Callable, grad: Callable | None = None, *,
              halves: bool = False, decomposition: Callable | None = None) -> Operator:
    """Declares a real function of one number in `torch.special`; `halves` if half precision is taken."""
    result = floating if halves else _whole_precision(name)
    return op(f"special_{name}(Tensor self) -> Tensor",
              kernel=pointwise(compute, result, excluding=(COMPLEX,), named=f"{name}_cpu"),
              grad=dict(self=grad) if grad else None, public="", aliases=(f"special.{name}",), inplace=False,
              samples=samples, decomposition=decomposition)


def not_differentiable(name: str) -> Callable[[Tensor], Tensor]:
    def raises(grad: Tensor) -> Tensor:
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    return raises


# modified Bessel functions of the first kind -------------------------------------------------------------------------


def _i0(xp: Any, self: Any) -> Any:
    return xp.i0e(self) * xp.exp(xp.absolute(self))


def _refuse_halves(kernel: str, self: Tensor) -> None:
    if self.dtype.np in REDUCED:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{self.dtype.scalar_name}'")


def _i1_grad(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    _refuse_halves("i1_backward", self)
    slope = self.i0() - result / self
    return grad * slope.masked_fill(self == 0, 0.5)


def _i1e_grad(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    _refuse_halves("i1e_backward", self)
    slope = call_bound(I0E, (self,)) - result * (self.sgn() + self.reciprocal())
    return grad * slope.masked_fill(self == 0, 0.5)


_NODES = 32  # of the trapezoidal rule over half a turn, exact to float32 up to _LARGE
_LARGE = 50.0


def _scaled_bessel(order: int, x: Any) -> Any:
    """I_0 or I_1 times exp(-|x|): the mean of exp(|x| (cos a - 1)) cos(order a) over all angles a."""
    size, angles = x.abs(), [math.pi * (k + 0.5) / _NODES for k in range(_NODES)]
    near = size.clamp_max(_LARGE)
    made: Any = sum((near * (math.cos(a) - 1)).exp() * (math.cos(order * a) / _NODES) for a in angles)
    term: Any = 1.0
    far: Any = 1.0
    inverse, square = size.clamp_min(_LARGE).reciprocal(), 4 * order * order
    for k in range(1, 7):  # what the integral tends to
        term = term * inverse * (((2 * k - 1) ** 2 - square) / (8 * k))
        far = far + term
    far = far * (inverse * (0.5 / math.pi)).sqrt()
    made = far.where(size > _LARGE, made)
    return made * x.sign() if order else made


def _bessel_i(order: int) -> Callable[[Any], Any]:
    return lambda self: _scaled_bessel(order, self) * self.abs().exp()


op("i0(Tensor self) -> Tensor",
   kernel=pointwise(_i0, floating, excluding=(COMPLEX,), named="i0_vml_cpu"),
   grad=dict(self=lambda grad, self: grad * call_bound(I1, (self,))),
   public="torch Tensor special", samples=unary(0.1, 3), inplace="i0_", decomposition=_bessel_i(0))
I0E = _function("i0e", "i0e", unary(0.1, 3),
                lambda grad, self, result: grad * (call_bound(I1E, (self,)) - self.sgn() * result), halves=True,
                decomposition=lambda self: _scaled_bessel(0, self))
I1 = _function("i1", "i1", unary(0.1, 3), _i1_grad, halves=True, decomposition=_bessel_i(1))
I1E = _function("i1e", "i1e", unary(0.1, 3), _i1e_grad, halves=True,
                decomposition=lambda self: _scaled_bessel(1, self))

# the normal distribution ---------------------------------------------------------------------------------------------


def _log_ndtr_by_parts(self: Any) -> Any:
    scaled = self * -ROOT_HALF
    below = (call_bound(ERFCX, (scaled.clamp_min(0),)) * 0.5).log() - scaled * scaled
    return below.where(self < 0, ((-scaled).erfc() * -0.5).log1p())


def _erfcx_by_parts(self: Any) -> Any:
    """exp(x^2) erfc(x): as it stands below 2, a continued fraction from there on."""
    far, near = self.clamp_min(2), self.clamp_max(2)
    below = far
    for k in range(40, 0, -1):
        below = far + below.reciprocal() * (k / 2)
    return (below.reciprocal() * (1 / ROOT_PI)).where(self > 2, (near * near).exp() * near.erfc())


_function("ndtr", "ndtr", unary(), lambda grad, self: grad * (-0.5 * self * self).exp() / ROOT_2_PI,
          halves=True, decomposition=lambda self: (self * -ROOT_HALF).erfc() * 0.5)
_function("ndtri", "ndtri", unary(0.1, 0.9), lambda grad, result: grad * ROOT_2_PI * (0.5 * result * result).exp(),
          decomposition=lambda self: (self * 2 - 1).erfinv() * math.sqrt(2))
_function("log_ndtr", "log_ndtr", unary(),
          lambda grad, self: grad * (2 * ROOT_HALF / ROOT_PI) / call_bound(ERFCX, (self * -ROOT_HALF,)),
          decomposition=_log_ndtr_by_parts)
ERFCX = _function("erfcx", "erfcx", unary(),
                  lambda grad, self, result: grad * (2 * self * result - 2 / ROOT_PI), decomposition=_erfcx_by_parts)
_function("entr", "entr", unary(0.1, 3), lambda grad, self: grad * (-1 - self.log()), halves=True,
          decomposition=lambda self: (-self * self.log()).where(self > 0, self * 0).masked_fill(self < 0, -math.inf))

# Gamma and zeta ------------------------------------------------------------------------------------------------------


def _gamma_density(grad: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """x^(a - 1) e^-x / Gamma(a)"""
    a: Any = self
    return grad * ((a - 1) * other.log() - other - a.lgamma()).exp()


_GAMMA_CASES = cases(case(t(2, 3, low=0.3, grad=False), t(2, 3, low=0.3)),
                     case(t(3, low=0.3, grad=False), t(2, 1, low=0.3)))
op("igamma(Tensor self, Tensor other) -> Tensor",
   kernel=pointwise("gammainc", excluding=(BOOL, INT, COMPLEX)),
   grad=dict(self=not_differentiable("igamma: input"), other=_gamma_density),
   aliases=("special.gammainc",),
   samples=_GAMMA_CASES)
op("igammac(Tensor self, Tensor other) -> Tensor",
   kernel=pointwise("gammaincc", excluding=(BOOL, INT, COMPLEX)),
   grad=dict(self=not_differentiable("igammac: input"),
             other=lambda grad, self, other: -_gamma_density(grad, self, other)),
   aliases=("special.gammaincc",),
   samples=_GAMMA_CASES)
_BY_OPERANDS = Aten(by_operands("default", "other_scalar", "self_scalar"))
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)  # B2, B4, ...
_SUMMED = 10  # terms of zeta before the Euler-Maclaurin formula stands for the rest


def _as_tensors(self: Any, other: Any) -> tuple[Any, Any]:
    """Both operands as tensors, of which one may be a number."""
    if self.__class__ in NUMBERS:
        return other.new_full((), self), other
    return self, self.new_full((), other) if other.__class__ in NUMBERS else other


def _zeta_by_parts(self: Any, other: Any) -> Any:
    s, q = _as_tensors(self, other)
    total: Any = sum((q + k) ** -s for k in range(_SUMMED))
    far = q + _SUMMED
    total = total + far ** (1 - s) / (s - 1) + far**-s * 0.5
    factor, power = s, far ** (-s - 1)
    for k, number in enumerate(_BERNOULLI, 1):
        total = total + factor * power * (number / math.factorial(2 * k))
        factor, power = factor * (s + 2 * k - 1) * (s + 2 * k), power / (far * far)
    made = total.masked_fill((s == 1) | (q <= 0) & (q == q.floor()), math.inf)
    return made.masked_fill((s < 1) | (q < 0) & (q != q.floor()) & (s != s.floor()), math.nan)


ZETA = op("special_zeta(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
   kernel=pointwise(lambda xp, self, other: xp.zeta(self, other), _whole_precision("zeta"), excluding=(COMPLEX,),
                    named="zeta_cpu"),
   grad=dict(self=not_differentiable("zeta"),
             other=lambda grad, self, other: grad * -self * call_bound(ZETA, (self + 1.0, other))),
   public="", aliases=("special.zeta",), inplace=False,
   samples=cases(case(t(2, 3, low=1.5, grad=False), t(2, 3, low=0.3)), case(2, t(3, low=0.3)),
                 case(t(3, low=1.5, grad=False), 1.5)), aten=_BY_OPERANDS, decomposition=_zeta_by_parts)


def _xlog1py_by_parts(self: Any, other: Any) -> Any:
    self, other = _as_tensors(self, other)
    return (self * other.log1p()).masked_fill((self == 0) & (other == other), 0)


def _xlog1py_self_grad(grad: Tensor, self: Tensor, other: Any) -> Tensor:
    if other.__class__ in NUMBERS:
        other = grad.new_full((), other)
    return (grad * other.log1p()).masked_fill((self == 0) & (other <= -1), 0)


op("special_xlog1py(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
   node={"SpecialXlog1PyBackward1": when_number("self"), "SpecialXlog1PyBackward2": when_number("other")},
   kernel=pointwise(lambda xp, self, other: xp.xlog1py(self, other), floating, excluding=(COMPLEX,),
                    named="xlog1py_cpu"),
   grad=dict(self=_xlog1py_self_grad, other=lambda grad, self, other: grad * self / (other + 1)),
   public="", aliases=("special.xlog1py",), inplace=False, samples=binary(0.2, 2), aten=_BY_OPERANDS,
   decomposition=_xlog1py_by_parts)

# Bessel and Airy functions, which PyTorch does not differentiate ------------------------------------------------------


def _spherical_j0(xp: Any, self: Any) -> Any:
    return xp.where(xp.isinf(self), 0, xp.where(self == 0, 1, xp.sin(self) / self))


def _airy_ai(xp: Any, self: Any) -> Any:
    own = getattr(xp, "airy_ai", None)  # a function of a kernel
    return xp.airy(self)[0] if own is None else own(self)


_UNDIFFERENTIATED: dict[str, str | Callable] = {
    "airy_ai": _airy_ai,
    "bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1",
    "modified_bessel_i0": _i0, "modified_bessel_i1": "i1", "modified_bessel_k0": "k0", "modified_bessel_k1": "k1",
    "scaled_modified_bessel_k0": "k0e", "scaled_modified_bessel_k1": "k1e", "spherical_bessel_j0": _spherical_j0,
}
_BY_PARTS: dict[str, Callable] = {
    "modified_bessel_i0": _bessel_i(0), "modified_bessel_i1": _bessel_i(1),
    "spherical_bessel_j0": lambda self: (self.sin() / self).masked_fill(self == 0, 1).masked_fill(self.isinf(), 0),
}
for _name, _compute in _UNDIFFERENTIATED.items():
    _function(_name, _compute, unary(0.1, 3), decomposition=_BY_PARTS.get(_name))

# orthogonal polynomials ----------------------------------------------------------------------------------------------


_MOST_STEPS = 1 << 20  # of a recurrence


def _polynomial(name: str, first: Callable, step: Callable, limit: Callable = lambda x: None,
                closed: Callable | None = None) -> None:
    """Declares polynomials in x by degree n: 1, `first(x)`, then `step(x, k, degree k - 1, degree k)` of degree k + 1.

    Those of a degree above `limit(x)` are undefined. `closed(xp, x, degree)` says where there is a formula, and its
    values there.
    """
    def compute(xp: Any, x: Any, n: Any) -> Any:
        whole = getattr(xp, name, None)  # a function of a kernel, in which each element takes its own steps
        if whole is not None:
            return whole(x, n)
        x, n = xp.broadcast_arrays(x, n)
        degree, highest = n.astype(xp.int64), limit(x)
        before, now = xp.ones_like(x), first(x)
        made = xp.where(degree < 0, 0, xp.where(degree == 0, before, now))
        steps = degree if highest is None else xp.minimum(degree, highest)
        if closed is not None:
            known, values = closed(xp, x, degree)
            steps = xp.where(known, 0, steps)
        last = max(int(steps.max()), 0) if degree.size else 0
        for k in range(1, last):
            if not k % 1024:  # once a recurrence has overflown, nothing more comes of it
                made = xp.where((steps > k) & xp.isnan(now), xp.nan, made)
                steps = xp.where(xp.isnan(now), 0, steps)
                if int(steps.max()) <= k:
                    break
                if last > _MOST_STEPS:
                    raise RuntimeError(f"{name}: a degree of {last} takes too many steps; the highest is {_MOST_STEPS}")
            before, now = now, step(x, k, before, now)
            made = xp.where(steps == k + 1, now, made)
        made = made if closed is None else xp.where(known, values, made)
        return made if highest is None else xp.where(degree > highest, xp.nan, made)

    def by_parts(x: Any, n: Any) -> Any:
        x, n = _as_tensors(x, n)
        shape = broadcast_shape((x.shape, n.shape))
        x, degree = x.expand(shape), n.to(int64).expand(shape)
        highest, before, now = limit(x), x * 0 + 1, first(x)
        made = before.where(degree == 0, now).masked_fill(degree < 0, 0)
        last = max(int(degree.max()), 0) if degree.numel() else 0
        for k in range(1, last if highest is None else min(last, highest)):
            before, now = now, step(x, k, before, now)
            made = now.where(degree == k + 1, made)
        return made if highest is None else made.masked_fill(degree > highest, math.nan)

    op(f"special_{name}(Tensor|Scalar x, Tensor|Scalar n) -> Tensor",
       kernel=pointwise(compute, _whole_precision(name), excluding=(COMPLEX,), named=f"{name}_cpu"), public="",
       aliases=(f"special.{name}",), inplace=False, aten=Aten(by_operands("default", "n_scalar", "x_scalar")),
       samples=cases(*[case(t(2, 3), n) for n in (-1, 0, 1, 2, 5)], case(t(2, 1), t(3, low=0, high=4)),
                     case(0.5, t(3, low=0, high=4))), decomposition=by_parts)


def _hermite_limit(x: Any) -> int:
    return 512 if x.dtype.itemsize == 8 else 128


def _chebyshev(kind: str, first: Callable, inside: Callable, at_one: Callable, at_minus_one: Callable) -> None:
    """Declares both forms. Of high degree n they are `inside(xp, angle, n)` where |x| < 1, other functions at 1 and -1.
    """

    def closed(xp: Any, x: Any, degree: Any) -> tuple[Any, Any]:
        n, angle = degree.astype(x.dtype), xp.arccos(xp.clip(x, -1, 1))
        sign = (1 - 2 * (degree % 2)).astype(x.dtype)
        ends = xp.where(x > 0, at_one(n), sign * at_minus_one(n))
        return (degree > 8) & (abs(x) <= 1), xp.where(abs(x) == 1, ends, inside(xp, angle, n))

    _polynomial(f"chebyshev_polynomial_{kind}", first, lambda x, k, before, now: 2 * x * now - before, closed=closed)
    _polynomial(f"shifted_chebyshev_polynomial_{kind}", lambda x: first(2 * x - 1),
                lambda x, k, before, now: 2 * (2 * x - 1) * now - before,
                closed=lambda xp, x, degree: closed(xp, 2 * x - 1, degree))


_chebyshev("t", lambda x: x, lambda xp, angle, n: xp.cos(n * angle), lambda n: 1, lambda n: 1)
_chebyshev("u", lambda x: 2 * x, lambda xp, angle, n: xp.sin((n + 1) * angle) / xp.sin(angle),
           lambda n: n + 1, lambda n: n + 1)
_chebyshev("v", lambda x: 2 * x - 1, lambda xp, angle, n: xp.cos((n + 0.5) * angle) / xp.cos(angle / 2),
           lambda n: 1, lambda n: 2 * n + 1)
_chebyshev("w", lambda x: 2 * x + 1, lambda xp, angle, n: xp.sin((n + 0.5) * angle) / xp.sin(angle / 2),
           lambda n: 2 * n + 1, lambda n: 1)
_polynomial("hermite_polynomial_h", lambda x: 2 * x, lambda x, k, before, now: 2 * (x * now - k * before),
            _hermite_limit)
_polynomial("hermite_polynomial_he", lambda x: x, lambda x, k, before, now: x * now - k * before, _hermite_limit)
_polynomial("laguerre_polynomial_l", lambda x: 1 - x,
            lambda x, k, before, now: ((2 * k + 1 - x) * now - k * before) / (k + 1))
_polynomial("legendre_polynomial_p", lambda x: x,
            lambda x, k, before, now: ((2 * k + 1) * x * now - k * before) / (k + 1))
