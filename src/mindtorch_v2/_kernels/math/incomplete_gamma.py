"""The incomplete gamma functions, and Hurwitz's zeta function."""

from ..language import (
    copysign,
    erfc,
    exp,
    expm1,
    float32,
    float64,
    floor,
    function,
    inf,
    log,
    log1p,
    nan,
    pow,
    sqrt,
    unrolled,
)
from .common import polynomial
from .gamma import LGAMMA_F32, LGAMMA_F64, STIRLING_F64
from .logarithm import log_rest_f64

# Temme's uniform expansion: for each power of 1 / a, what stands before it as a series in eta
TEMME_0 = (-0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
           0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06,
           -1.85406221071516e-06, 8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
           1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10,
           -2.5514193994946248e-11, -5.830772132550426e-11)  # fmt: skip
TEMME_1 = (-0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596,
           0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05, 7.64916091608111e-06,
           -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
           1.1951628599778148e-08, -1.7543241719747647e-11)  # fmt: skip
TEMME_2 = (0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06,
           -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05, 3.423578734096138e-08,
           1.3721957309062934e-06, -6.298992138380055e-07, 1.4280614206064242e-07, -2.0477098421990866e-10)  # fmt: skip
TEMME_3 = (0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557, 0.00026772063206283885,
           -7.561801671883977e-05, -2.396505113867297e-07, 1.1082654115347302e-05, -5.6749528269915965e-06)  # fmt: skip
TEMME_4 = (-0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902, -1.4638452578843418e-06)
ROOT_2_PI_INVERSE = 0.3989422804014327
_TERMS = 2000


@function
def gamma_density(a, x, *, accuracy):
    """x**a * exp(-x) / gamma(a + 1)."""
    value = x
    if a < 8.0:  # gamma(a + 1) = product * gamma(2 + u)
        below = a < 0.5
        u = a if below else a - 1.0
        product = 1.0 / (a + 1.0) if below else abs(copysign(1.0, a))
        while u > 0.5:
            product *= u + 1.0
            u -= 1.0
        rest = u * (polynomial(u, LGAMMA_F32) if accuracy > 1e-12 else polynomial(u, LGAMMA_F64))
        value = exp(a * log(x) - x - rest) / product
    else:
        u = (x - a) / a
        rest = log_rest_f64(u) if u > -0.29 and u < 0.41 else log(x / a) - u
        inverse = 1.0 / a
        tail = inverse * polynomial(inverse * inverse, STIRLING_F64)
        value = exp(a * rest - tail) * ROOT_2_PI_INVERSE * sqrt(inverse)
    return value


@function
def lower_series(a, x, *, accuracy):
    """The lower function over gamma_density for x that is not much larger than a."""
    term = abs(copysign(1.0, x))
    total = term
    below = a
    n = 0
    while n < _TERMS and term > accuracy * total:
        below += 1.0
        term *= x / below
        total += term
        n += 1
    return total


@function
def upper_series(a, x, *, accuracy):
    """The upper function for small a and x."""
    factor = abs(copysign(1.0, x))
    total = 0.0 * factor
    term = factor
    n = 0
    while n < _TERMS and abs(term) > accuracy * abs(total):
        n += 1
        factor *= -x / n
        term = factor / (a + n)
        total += term
    below = a < 0.5  # lgamma(1 + a) from that of 2 + u
    u = a if below else a - 1.0
    near = u * polynomial(u, LGAMMA_F64)
    power = a * log(x) - (near - log1p(a) if below else near)
    return -expm1(power) - exp(power) * a * total


@function
def upper_fraction(a, x, *, accuracy):
    """The upper function over gamma_density for x above a, by convergents of a continued fraction."""
    y = 1.0 - a
    z = x + y + 1.0
    k = 0.0 * x
    above_before, below_before = abs(copysign(1.0, x)), x
    above, below = x + 1.0, z * x
    value = above / below
    change = abs(value)
    n = 0
    while n < _TERMS and change > accuracy * abs(value):
        n += 1
        k += 1.0
        y += 1.0
        z += 2.0
        next_above = above * z - above_before * (y * k)
        next_below = below * z - below_before * (y * k)
        quotient = next_above / next_below
        change = abs(value - quotient)
        value = quotient
        scale = 2.2e-16 if abs(next_above) > 4.5e15 else 1.0
        above_before, below_before = above * scale, below * scale
        above, below = next_above * scale, next_below * scale
    return value * a


@function
def by_expansion(a, x, *, upper):
    """Either function for large a and x nearby."""
    u = (x - a) / a
    half_square = -log_rest_f64(u)
    eta = copysign(sqrt(2.0 * half_square), u)
    inverse = 1.0 / a
    total = polynomial(eta, TEMME_0) + inverse * (polynomial(eta, TEMME_1) + inverse * (polynomial(eta, TEMME_2)
            + inverse * (polynomial(eta, TEMME_3) + inverse * polynomial(eta, TEMME_4))))  # fmt: skip
    rest = exp(-a * half_square) * ROOT_2_PI_INVERSE * sqrt(inverse) * total
    z = eta * sqrt(0.5 * a)
    return 0.5 * erfc(z) + rest if upper else 0.5 * erfc(-z) - rest


@function
def incomplete(a, x, *, upper, accuracy):
    """The regularised incomplete gamma function of float64, lower or upper."""
    value = x
    small = x <= 1.1 and (a <= -0.4 / log(x) if x <= 0.5 else a <= 0.75 * x)
    if not (a >= 0.0 and x >= 0.0) or a == 0.0 and x == 0.0 or a == inf and x == inf:
        value = nan
    elif a == 0.0 or x == inf:
        value = 0.0 if upper else 1.0
    elif x == 0.0 or a == inf:
        value = 1.0 if upper else 0.0
    elif a > 1000.0 and abs(x - a) < 0.29 * a:
        value = by_expansion(a, x, upper=upper)
    elif small and (upper or x > a and x > 1.0):
        made = upper_series(a, x, accuracy=accuracy)
        value = made if upper else 1.0 - made
    else:
        density = gamma_density(a, x, accuracy=accuracy)
        beyond = x > a and x > (1.1 if upper else 1.0)
        if beyond:
            made = upper_fraction(a, x, accuracy=accuracy) * density
        else:
            made = lower_series(a, x, accuracy=accuracy) * density
        value = made if beyond == upper else 1.0 - made
    return value


@function
def gammainc_f32(a, x):
    """The lower incomplete gamma function over gamma(a)."""
    return float32(incomplete(float64(a), float64(x), upper=False, accuracy=3e-9))


@function
def gammainc_f64(a, x):
    """The lower incomplete gamma function over gamma(a)."""
    return incomplete(a, x, upper=False, accuracy=1.2e-16)


@function
def gammaincc_f32(a, x):
    """The upper incomplete gamma function over gamma(a)."""
    return float32(incomplete(float64(a), float64(x), upper=True, accuracy=3e-9))


@function
def gammaincc_f64(a, x):
    """The upper incomplete gamma function over gamma(a)."""
    return incomplete(a, x, upper=True, accuracy=1.2e-16)


# 1 / 12, -1 / 720, ...: Bernoulli's numbers over factorials, in the Euler-Maclaurin formula
EULER_MACLAURIN = (
    0.08333333333333333,
    -0.001388888888888889,
    3.306878306878307e-05,
    -8.267195767195768e-07,
    2.08767569878681e-08,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277845e-15,
    -2.174868698558062e-16,
    5.5090028283602295e-18,
    -1.3954464685812522e-19,
)


@function
def zeta_of(s, q, *, accuracy):
    """The sum of (q + k)**-s over all k >= 0."""
    value = q
    if s == 1.0:
        value = inf
    elif s < 1.0 or s == inf and q > 1.0:
        value = nan
    elif q <= 0.0 and q == floor(q):
        value = inf
    elif q < 0.0 and s != floor(s):
        value = nan
    else:
        at = q
        term = pow(q, -s)
        value = term
        n = 0
        while (n < 9 or at <= 9.0) and abs(term) > accuracy * abs(value):
            n += 1
            at += 1.0
            term = pow(at, -s)
            value += term
        if abs(term) > accuracy * abs(value):
            value += term * at / (s - 1.0) - 0.5 * term
            factor = s * term / at
            inverse = 1.0 / (at * at)
            for k in unrolled(len(EULER_MACLAURIN)):
                value += factor * EULER_MACLAURIN[k]
                factor *= (s + (2 * k + 1)) * (s + (2 * k + 2)) * inverse
    return value


@function
def zeta_f32(s, q):
    """Hurwitz's zeta function."""
    return zeta_of(s, q, accuracy=6e-8)


@function
def zeta_f64(s, q):
    """Hurwitz's zeta function."""
    return zeta_of(s, q, accuracy=1.1e-16)
