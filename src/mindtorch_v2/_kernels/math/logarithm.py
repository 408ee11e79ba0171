"""log, its relatives, the inverse hyperbolic functions made of them, and powers."""

from typing import Any, NamedTuple

from ..language import (
    as_float32,
    as_float64,
    as_int,
    copysign,
    exp,
    float32,
    float64,
    fma,
    function,
    inf,
    log,
    log1p,
    nan,
    sqrt,
)
from .common import polynomial
from .exponential import LN2_F64

# 2**-0.5 as bits: numbers are split into 2**n * (1 + f) with -0.293 < f < 0.415, so that n is 0 around 1.
ROOT_BITS_F32 = 0x3F3504F3
ROOT_BITS_F64 = 0x3FE6A09E667F3BCD
LOG2_E_F64, LOG2_E_REST_F64 = 1.4426950408889634, 2.0355273740931033e-17

# (log1p(f) - f + f**2 / 2) / f**3
LOG_F32 = (0.33333313, -0.25000167, 0.20002222, -0.16659373, 0.14209637, -0.12549555, 0.12107919, -0.109174035,
           0.053431343)  # fmt: skip
# (2 * atanh(s) / s - 2) / z of z = s**2, s = f / (2 + f)
LOG_F64 = (0.6666666666666734, 0.3999999999941434, 0.28571428742472477, 0.2222219856364367, 0.181835648617608,
           0.15314035898408324, 0.14796105287459915)  # fmt: skip


@function
def log_rest_f32(f):
    """log(1 + f) - f."""
    return f * f * fma(f, polynomial(f, LOG_F32), -0.5)


@function
def log_rest_f64(f):
    """log(1 + f) - f."""
    s = f / (2.0 + f)
    z = s * s
    half_square = 0.5 * f * f
    return fma(s, fma(z, polynomial(z, LOG_F64), half_square), -half_square)


@function
def log_limits(x, y):
    """y, the logarithm of x where x is positive and finite, and what it is elsewhere."""
    finite = y if x < inf else x
    positive = finite if x > 0.0 else nan
    return -inf if x == 0.0 else positive


@function
def log_in_base(whole, left, f, rest, factor, factor_rest):
    """whole + left + (f + rest) * (factor + factor_rest), with what the sum of the large parts loses."""
    product = f * factor
    total = whole + product
    lost = fma(f, factor, -product) + ((whole - total) + product)
    return total + (fma(rest, factor, fma(f, factor_rest, lost)) + left)


class _Width(NamedTuple):
    """What the functions of numbers of one width differ in."""

    number: Any
    as_float: Any
    bias: int
    digits: int
    smallest: float  # normal number
    root_bits: int
    log_rest: function
    # log(2) and log10(2) in two parts, of which n times the first is exact
    ln2: tuple[float, float]
    log10_2: tuple[float, float]
    log2_e: tuple[float, float]
    log10_e: tuple[float, float]
    negligible: float  # beside 1


_F32 = _Width(float32, as_float32, 127, 23, 1.1754944e-38, ROOT_BITS_F32, log_rest_f32,
              ln2=(0.693145751953125, 1.4286068e-06), log10_2=(0.301025390625, 4.605039e-06),
              log2_e=(1.442695, 1.925963e-08), log10_e=(0.4342945, -1.010305e-08), negligible=1e-15)  # fmt: skip
_F64 = _Width(float64, as_float64, 1023, 52, 2.2250738585072014e-308, ROOT_BITS_F64, log_rest_f64,
              ln2=(0.6931471805598903, 5.497923018708371e-14), log10_2=(0.30102999566395283, 2.8363394551044964e-14),
              log2_e=(LOG2_E_F64, LOG2_E_REST_F64), log10_e=(0.4342944819032518, 1.098319650216765e-17),
              negligible=1e-25)  # fmt: skip


def _functions(width: _Width) -> tuple[function, ...]:
    """The functions of numbers of a width."""

    @function
    def split(x):
        """n and f of x = 2**n * (1 + f)."""
        small, digits, one = x < width.smallest, width.digits, 1 << width.digits
        bits = as_int(x * (1.0 * one) if small else x) - width.root_bits
        power = bits >> digits
        n = width.number(power - digits if small else power)
        return n, width.as_float((bits & (one - 1)) + width.root_bits) - 1.0

    @function
    def log_sum(n, f):
        """n * log(2) + log(1 + f)."""
        return fma(n, width.ln2[0], f + fma(n, width.ln2[1], width.log_rest(f)))

    @function
    def log(x):
        """Natural logarithm."""
        n, f = split(x)
        return log_limits(x, log_sum(n, f))

    @function
    def log2(x):
        """Logarithm to base 2."""
        n, f = split(x)
        return log_limits(x, log_in_base(n, 0.0 * n, f, width.log_rest(f), width.log2_e[0], width.log2_e[1]))

    @function
    def log10(x):
        """Logarithm to base 10."""
        n, f = split(x)
        return log_limits(x, log_in_base(n * width.log10_2[0], n * width.log10_2[1], f, width.log_rest(f),
                                         width.log10_e[0], width.log10_e[1]))  # fmt: skip

    @function
    def log1p(x):
        """log(1 + x)."""
        n = (as_int(1.0 + x) - width.root_bits) >> width.digits
        scale = width.as_float((width.bias + 2 - n) << width.digits)  # 4 / 2**n
        f = fma(0.25 * x, scale, fma(0.25, scale, -1.0))
        y = log_limits(1.0 + x, log_sum(width.number(n), f))
        return y if abs(x) > width.negligible else x

    return split, log, log2, log10, log1p


split_f32, log_f32, log2_f32, log10_f32, log1p_f32 = _functions(_F32)
split_f64, log_f64, log2_f64, log10_f64, log1p_f64 = _functions(_F64)


@function
def asinh(x):
    """Inverse hyperbolic sine."""
    y = abs(x)
    square = x * x
    beyond = y > 1e18
    inner = y + square / (1.0 + sqrt(square + 1.0))
    value = log1p(y if beyond else inner)
    return copysign(value + LN2_F64 if beyond else value, x)


@function
def acosh(x):
    """Inverse hyperbolic cosine."""
    y = x - 1.0
    beyond = x > 1e18
    inner = y + sqrt(y * (x + 1.0))
    value = log1p(y if beyond else inner)
    sure = value + LN2_F64 if beyond else value
    return nan if x < 1.0 else sure


@function
def atanh(x):
    """Inverse hyperbolic tangent."""
    y = abs(x)
    return copysign(0.5 * log1p(2.0 * y / (1.0 - y)), x)


@function
def logaddexp(a, b):
    """log(exp(a) + exp(b))."""
    top = max(a, b)
    value = top + log1p(exp(-abs(a - b)))
    return a if a == b and abs(a) == inf else value


@function
def entr(x):
    """-x * log(x), which is 0 at 0."""
    value = -x * log(x)
    return 0.0 if x == 0.0 else -inf if x < 0.0 else value
