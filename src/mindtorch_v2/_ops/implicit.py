"""Derivatives of Gamma and Dirichlet samples by the parameters of their distributions.

A sample x moves with a parameter a so that its quantile stays: dx/da = -(dF/da)(x; a) / pdf(x; a). There is no closed
form; as PyTorch does, each region of (x, a) has its own approximation, with relative errors of about 1e-3 at most.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.dtype import dtype, float32, float64
from .._core.tensor import Tensor
from ._declare.families import computes
from ._declare.op import op
from ._declare.rules import Spec, broadcast_shape
from ._declare.samples import case, cases, error, ints, t
from .special import not_differentiable

# log(dx/da) = p / q, with p and q polynomials in log(x / a) (columns) and log(a) (rows).
_GAMMA_P = ((0.16009398, 0.53487893, 0.040121004), (-0.094634809, 0.1298071, -0.0065914022),
            (0.025146376, 0.065735949, -0.0026286047), (-0.0030648343, -0.0015649758, -0.0013441777))
_GAMMA_Q = ((1.0, 0.16639465, 0.017050642), (0.32668115, 0.020070113, -0.0021309326),
            (0.10406089, -0.0035938915, 0.00085092367), (0.0014179084, -0.00058392623, -1.5247877e-07))
# dx/da = p / q of a first approximation, with p and q polynomials in log(x), log(a / x) and log(total * x / a).
_BETA_P = (
    ((1.003668233, -0.01061107488, -0.0657888334, 0.01201642863),
     (0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033),
     (-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013)),
    ((0.221950385, -0.3187676331, 0.01799915743, 0.01074823814),
     (-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057),
     (0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05)),
    ((-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565),
     (0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181),
     (0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05)))
_BETA_Q = (
    ((1.0, -0.02924021934, -0.04438342661, 0.007285809825),
     (0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521),
     (-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149)),
    ((0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273),
     (0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956),
     (-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05)),
    ((0.0646964932, -0.0236701437, 0.002902096474, -5.896963079e-05),
     (0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05),
     (-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06)))


def polynomial(coefficients: Any, *variables: Any) -> Any:
    """The value of a polynomial whose coefficients are nested by the powers of the variables, from the constant on."""
    if not variables:
        return coefficients
    value = polynomial(coefficients[-1], *variables[1:])
    for lower in coefficients[-2::-1]:
        value = value * variables[0] + polynomial(lower, *variables[1:])
    return value


def _by_region(xp: Any, regions: Sequence[tuple[Any, Callable]], *arrays: Any) -> Any:
    """Each element by the function of the first region that it is in."""
    result, left = xp.empty(arrays[0].shape), xp.ones(arrays[0].shape, bool)
    for region, function in regions:
        here = left & region
        with np.errstate(all="ignore"):
            result[here] = function(xp, *(array[here] for array in arrays))
        left &= ~here
    return result


def _stirling(a: Any) -> Any:
    return 1 + 1 / (12 * a) * (1 + 1 / (24 * a))


# Gamma ---------------------------------------------------------------------------------------------------------------


def _gamma_small(xp: Any, a: Any, x: Any) -> Any:
    """The power series of the distribution function, differentiated term by term."""
    term, below, cdf, slope = 1.0, a, 1 / a, 1 / (a * a)
    for i in range(1, 6):
        term, below = term * -x / i, below + 1
        cdf, slope = cdf + term / below, slope + term / (below * below)
    power = x**a
    grad = -((xp.log(x) - xp.psi(a)) * (power * cdf) - power * slope) / (x ** (a - 1) * xp.exp(-x))
    return xp.where(xp.isnan(grad), 0, grad)


def _gamma_at_mean(xp: Any, a: Any, x: Any) -> Any:
    series = 1440 * a * a + 6 * x * (53 - 120 * x) - 65 * x * x / a + a * (107 + 3600 * x)
    return (1 + 24 * a * (1 + 12 * a)) * series / (1244160 * a**4)


def _gamma_saddle(xp: Any, a: Any, x: Any) -> Any:
    """Rice's saddle point expansion."""
    ratio, width = xp.log(x / a), xp.sqrt(8 * a)
    tail = xp.copysign((x - a - a * ratio) ** -1.5, x - a)
    bracket = ratio * (width / (a - x) + tail) - xp.sqrt(2 / a) * (a + x) / (a - x) ** 2
    return -_stirling(a) * x * bracket / width


def _gamma_rational(xp: Any, a: Any, x: Any) -> Any:
    log_a, ratio = xp.log(a), xp.log(x / a)
    return xp.exp(polynomial(_GAMMA_P, log_a, ratio) / polynomial(_GAMMA_Q, log_a, ratio))


def _standard_gamma_grad(xp: Any, self: Any, output: Any) -> Any:
    a, x = (v.astype(xp.float64) for v in xp.broadcast_arrays(self, output))
    near_mean = (0.9 * a <= x) & (x <= 1.1 * a)
    regions = ((x < 0.8, _gamma_small), ((a > 8) & near_mean, _gamma_at_mean), (a > 8, _gamma_saddle),
               (True, _gamma_rational))
    return _by_region(xp, regions, a, x)


# Beta, one element of a Dirichlet sample -----------------------------------------------------------------------------


def _beta_near_zero(xp: Any, x: Any, a: Any, b: Any) -> Any:
    factor, term = xp.psi(a) - xp.psi(a + b) - xp.log(x), 1.0
    series = (factor + 1 / a) / a
    for i in range(1, 11):
        term = term * (i - b) * x / i
        series = series + term / (a + i) * (factor + 1 / (a + i))
    grad = x * (1 - x) ** -b * series
    return xp.where(xp.isnan(grad), 0, grad)


def _beta_near_one(xp: Any, x: Any, a: Any, b: Any) -> Any:
    rest, factor, term = 1 - x, xp.psi(a + b) - xp.psi(a), 1.0
    product, slope, series = 1.0, 0.0, factor / b
    for i in range(1, 9):
        term = term * -rest / i
        product, slope = product * (a - i), slope * (a - i) + product
        series = series + term / (b + i) * (slope + factor * product)
    grad = x ** (1 - a) * series
    return xp.where(xp.isnan(grad), 0, grad)


def _beta_at_mean(xp: Any, x: Any, a: Any, b: Any) -> Any:
    """The limit of the saddle point expansion, which is singular at the mean, as a polynomial in a."""
    total, rest = a + b, 1 - x
    series = polynomial((47 * x * b**4, (43 + 20 * (16 + 27 * b) * x) * b**3, 3 * (59 + 180 * b - 90 * x) * b * b,
                         (453 + 1620 * b * rest - 455 * x) * b, 8 * rest * (135 * b - 11)), a)
    scale = (1 + 12 * a) * (1 + 12 * b) / (total * total) / (12960 * a**3 * b * b * (1 + 12 * total))
    return scale * series / rest


def _beta_saddle(xp: Any, x: Any, a: Any, b: Any) -> Any:
    total = a + b
    distance, half_ratio = b * x - a * (1 - x), 0.5 * xp.log(a / (total * x))
    first = ((x - 1) * a * (2 * a + b) - x * b * b) / (xp.sqrt(2 * a / b) * total**1.5 * distance**2)
    divergence = b * xp.log(b / (total * (1 - x))) + 2 * a * half_ratio
    tail = xp.copysign(divergence**-1.5, a / total - x)
    bracket = first + half_ratio * (xp.sqrt(8 * a * b / total) / distance + tail)
    return _stirling(a) * _stirling(b) / _stirling(total) * -x / xp.sqrt(2 * a * b / total) * bracket


def _beta_rational(xp: Any, x: Any, a: Any, b: Any) -> Any:
    total, log_x = a + b, xp.log(x)
    variables = (log_x, xp.log(a) - log_x, xp.log(total) - xp.log(a) + log_x)
    first = x * (xp.psi(total) - xp.psi(a)) / b
    return polynomial(_BETA_P, *variables) / polynomial(_BETA_Q, *variables) * first


def _dirichlet_grad(xp: Any, x: Any, alpha: Any, total: Any) -> Any:
    x, a, total = (v.astype(xp.float64) for v in xp.broadcast_arrays(x, alpha, total))
    b = total - a
    spread, both_large = total * x * (1 - x), (a > 6) & (b > 6)
    near_mean = xp.absolute(x - a / total) <= 0.1 * xp.sqrt(a * b / (total + 1)) / total
    regions = (((x <= 0.5) & (spread < 2.5), _beta_near_zero), ((x >= 0.5) & (spread < 0.75), _beta_near_one),
               (both_large & near_mean, _beta_at_mean), (both_large, _beta_saddle), (True, _beta_rational))
    return _by_region(xp, regions, x, a, b)


# declarations --------------------------------------------------------------------------------------------------------


def _same_kind(name: str) -> Callable[..., Spec]:
    def infer(*operands: Tensor) -> Spec:
        kind: dtype = operands[0].dtype
        for operand in operands[1:]:
            if operand.dtype is not kind:
                raise RuntimeError(f"Found dtype {operand.dtype.scalar_name} but expected {kind.scalar_name}")
        if kind not in (float32, float64):
            raise NotImplementedError(f"\"{name}\" not implemented for '{kind.scalar_name}'")
        return Spec(broadcast_shape([operand._array.shape for operand in operands]), kind)

    return infer


STANDARD_GAMMA_GRAD = op(
    "_standard_gamma_grad(Tensor self, Tensor output) -> Tensor",
    kernel=computes(_same_kind("_standard_gamma_grad_cpu"), _standard_gamma_grad), public="torch",
    grad={"self, output": not_differentiable("_standard_gamma_grad")},
    samples=cases(
        case(t(40, low=0.05, high=12, grad=False), t(40, low=0.05, high=20, grad=False)),
        case(t(9, low=9, high=12, grad=False), t(9, low=0.9, high=30, grad=False)),
        case(t(2, 1, low=0.1, high=3, grad=False), t(3, low=0.1, high=3, grad=False)),
        case(t(0, grad=False), t(0, grad=False)),
        error(NotImplementedError, "\"_standard_gamma_grad_cpu\" not implemented for 'Long'", ints(2), ints(2))),
    out=None)
op("_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor",
   kernel=computes(_same_kind("_dirichlet_grad_cpu"), _dirichlet_grad), public="torch",
   grad={"x, alpha, total": not_differentiable("_dirichlet_grad")},
   samples=cases(
       case(t(60, low=0.01, high=0.99, grad=False), t(60, low=0.1, high=9, grad=False),
            t(60, low=10, high=30, grad=False)),
       case(t(60, low=0.01, high=0.99, grad=False), t(60, low=0.1, high=1, grad=False),
            t(60, low=1.1, high=3, grad=False)),
       error(NotImplementedError, "\"_dirichlet_grad_cpu\" not implemented for 'Long'", ints(2), ints(2), ints(2))),
   out=None)
