"""exp, its relatives, and the hyperbolic functions made of them.

All functions of this package are straight-line code, so that a loop over them becomes vector code. Polynomials were
fitted for the smallest largest error on the interval that is left after the reduction of the argument; coefficients
stand from the constant term upwards.
"""

from typing import Any, NamedTuple

from ..language import as_float32, as_float64, as_int, copysign, fma, function
from .common import polynomial

# Added to a number below 2**22 (2**51), these leave the nearest whole number in the last bits of the sum.
ROUND_F32, ROUND_BITS_F32 = 12582912.0, 0x4B400000
ROUND_F64, ROUND_BITS_F64 = 6755399441055744.0, 0x4338000000000000
LOG2_E = 1.4426950408889634
LN2_F64 = 0.6931471805599453

# (exp(r) - 1 - r) / r**2 for |r| <= log(2) / 2, relative to exp(r), then relative to expm1(r)
EXP_F32 = (0.49999997, 0.16666523, 0.041667104, 0.008369203, 0.0013921009)
EXP_F64 = (0.500000000000001, 0.16666666666666674, 0.04166666666652188, 0.008333333333322198, 0.0013888888947856278,
           0.0001984126988661821, 2.4801487285986974e-05, 2.7557242305901814e-06, 2.763267084474969e-07,
           2.5110061496155075e-08)  # fmt: skip
EXPM1_F32 = (0.5, 0.16666666, 0.041666467, 0.008333644, 0.0013935075, 0.00019663204)
EXPM1_F64 = (0.5000000000000001, 0.1666666666666667, 0.04166666666665228, 0.008333333333326148, 0.0013888888895601118,
             0.00019841269874785002, 2.4801574533039137e-05, 2.7557255436582303e-06, 2.7567929279569657e-07,
             2.5105204720760317e-08, 1.768773352485468e-09)  # fmt: skip
# (2**r - 1) / r for |r| <= 1/2
EXP2_F32 = (0.69314724, 0.24022655, 0.055502728, 0.009617065, 0.0013417898, 0.00015822324)
EXP2_F64 = (0.6931471805599453, 0.24022650695910072, 0.055504108664821736, 0.009618129107628562, 0.0013333558146381664,
            0.00015403530393171761, 1.5252733864916712e-05, 1.321548700344456e-06, 1.0178047500990968e-07,
            7.054814841830931e-09, 4.4572439020415593e-10, 2.5855194098327163e-11)  # fmt: skip


class _Width(NamedTuple):
    """What the functions of numbers of one width differ in."""

    as_float: Any
    bias: int
    digits: int
    round: float
    round_bits: int
    ln2: float
    ln2_rest: float
    exp: tuple[float, ...]
    expm1: tuple[float, ...]
    exp2: tuple[float, ...]
    # The arguments beyond which results are 0 (or -1) and infinite.
    of_exp: tuple[float, float]
    of_expm1: tuple[float, float]
    of_exp2: tuple[float, float]
    of_sigmoid: tuple[float, float]  # below the first, a quarter of the power is infinite, too
    of_tanh: float  # beyond which it is 1

    @property
    def tanh(self) -> tuple[float, ...]:
        """(expm1(2 * r) / 2 - r) / r**2 for |r| <= log(2) / 4."""
        return tuple([c * 2.0 ** (k + 1) for k, c in enumerate(self.expm1)])


_F32 = _Width(as_float32, 127, 23, ROUND_F32, ROUND_BITS_F32, 0.6931472, -1.9046542e-09, EXP_F32, EXPM1_F32, EXP2_F32,
              of_exp=(-105.0, 90.0), of_expm1=(-20.0, 89.5), of_exp2=(-151.0, 129.0),
              of_sigmoid=(-90.2, 80.0), of_tanh=9.02)  # fmt: skip
_F64 = _Width(as_float64, 1023, 52, ROUND_F64, ROUND_BITS_F64, LN2_F64, 2.3190468138462996e-17, EXP_F64, EXPM1_F64,
              EXP2_F64, of_exp=(-746.0, 711.0), of_expm1=(-40.0, 710.6), of_exp2=(-1076.0, 1025.0),
              of_sigmoid=(-711.2, 700.0), of_tanh=19.1)  # fmt: skip


@function
def bounded(x, limits):
    """The number, or the limit that it is beyond."""
    above = limits[1] if x > limits[1] else x
    return limits[0] if x < limits[0] else above


@function
def exp2_normal_f32(x):
    """2**x where that is a normal number."""
    rounded = x + ROUND_F32
    r = x - (rounded - ROUND_F32)
    return fma(r, polynomial(r, EXP2_F32), 1.0) * as_float32((as_int(rounded) - ROUND_BITS_F32 + 127) << 23)


@function
def sinh_of(x, quarter):
    """Hyperbolic sine, where (e**|x| - 1) / 4 is known."""
    y, half = abs(x), 2.0 * quarter
    rest = half / (2.0 * half + 1.0)
    value = half if y > 40.0 else half + rest  # beyond, `rest` is less than half of the last digit
    return copysign(value, x) if y > 1e-17 else x


def _functions(width: _Width) -> tuple[function, ...]:
    """The functions of numbers of a width."""

    @function
    def scaled(x, n):
        """x * 2**n for -2 * bias + 2 <= n <= 2 * bias, with gradual underflow."""
        both = n + 2 * width.bias
        half = both >> 1
        return x * width.as_float(half << width.digits) * width.as_float((both - half) << width.digits)

    @function
    def reduced(x, limits):
        """x / log(2) as a whole number in the last bits of a sum, and what is left of x beside it."""
        y = bounded(x, limits)
        rounded = fma(y, LOG2_E, width.round)
        n = rounded - width.round
        return rounded, fma(n, -width.ln2_rest, fma(n, -width.ln2, y))

    @function
    def power_of(r):
        """e**r of what is left."""
        return fma(r, fma(r, polynomial(r, width.exp), 1.0), 1.0)

    @function
    def exp(x):
        """e**x."""
        rounded, r = reduced(x, width.of_exp)
        return scaled(power_of(r), as_int(rounded) - width.round_bits)

    @function
    def exp2(x):
        """2**x."""
        y = bounded(x, width.of_exp2)
        rounded = y + width.round
        r = y - (rounded - width.round)
        return scaled(fma(r, polynomial(r, width.exp2), 1.0), as_int(rounded) - width.round_bits)

    @function
    def expm1_quarter(x):
        """(e**x - 1) / 4, which is finite where sinh is."""
        rounded, r = reduced(x, width.of_expm1)
        power = fma(r * r, polynomial(r, width.expm1), r)
        quarter = width.as_float((as_int(rounded) - (width.round_bits - (width.bias - 2))) << width.digits)
        return fma(power, quarter, quarter - 0.25)

    @function
    def expm1(x):
        """e**x - 1."""
        value = 4.0 * expm1_quarter(x)
        return value if abs(x) > 1e-17 else x

    @function
    def sinh(x):
        """Hyperbolic sine."""
        return sinh_of(x, expm1_quarter(abs(x)))

    @function
    def cosh(x):
        """Hyperbolic cosine."""
        quarter = expm1_quarter(abs(x))
        return 2.0 * quarter + 0.5 + 0.5 / (4.0 * quarter + 1.0)

    @function
    def sigmoid(x):
        """The logistic function 1 / (1 + e**-x), by a quarter of the power, which one multiplication scales."""
        y = bounded(x, width.of_sigmoid)
        rounded = fma(y, -LOG2_E, width.round)
        n = rounded - width.round
        r = fma(n, -width.ln2_rest, fma(n, -width.ln2, -y))
        quarter = width.as_float((as_int(rounded) - (width.round_bits - (width.bias - 2))) << width.digits)
        return 0.25 / fma(power_of(r), quarter, 0.25)

    @function
    def tanh(x):
        """Hyperbolic tangent, (p - 1) / (p + 1) of p = e**(2 * abs(x))."""
        y = abs(x)
        y = width.of_tanh if y > width.of_tanh else y
        rounded = fma(y, 2.0 * LOG2_E, width.round)
        n = rounded - width.round
        r = fma(n, -0.5 * width.ln2_rest, fma(n, -0.5 * width.ln2, y))
        half = fma(r * r, polynomial(r, width.tanh), r)  # of e**(2 * r) - 1
        power = width.as_float((as_int(rounded) - (width.round_bits - width.bias)) << width.digits)
        above = fma(power, half, fma(power, 0.5, -0.5))
        return copysign(above / (above + 1.0), x)

    return scaled, exp, exp2, expm1, sinh, cosh, sigmoid, tanh


scaled_f32, exp_f32, exp2_f32, expm1_f32, sinh_f32, cosh_f32, sigmoid_f32, tanh_f32 = _functions(_F32)
scaled_f64, exp_f64, exp2_f64, expm1_f64, sinh_f64, cosh_f64, sigmoid_f64, tanh_f64 = _functions(_F64)
