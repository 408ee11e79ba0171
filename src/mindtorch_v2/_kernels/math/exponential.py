"""exp, its relatives, and the hyperbolic functions made of them.

All functions of this package are straight-line code, so that a loop over them becomes vector code. Polynomials were
fitted for the smallest largest error on the interval that is left after the reduction of the argument; coefficients
stand from the constant term upwards.
"""

from ..language import as_float32, as_float64, as_int, copysign, exp, expm1, fma, function
from .common import polynomial

# Added to a number below 2**22 (2**51), these leave the nearest whole number in the last bits of the sum.
ROUND_F32, ROUND_BITS_F32 = 12582912.0, 0x4B400000
ROUND_F64, ROUND_BITS_F64 = 6755399441055744.0, 0x4338000000000000
LOG2_E = 1.4426950408889634
LN2_F32, LN2_REST_F32 = 0.6931472, -1.9046542e-09
LN2_F64, LN2_REST_F64 = 0.6931471805599453, 2.3190468138462996e-17

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


@function
def scaled_f32(x, n):
    """x * 2**n for -252 <= n <= 254, with gradual underflow."""
    half = n >> 1
    return x * as_float32((half + 127) << 23) * as_float32((n - half + 127) << 23)


@function
def scaled_f64(x, n):
    """x * 2**n for -2044 <= n <= 2046, with gradual underflow."""
    half = n >> 1
    return x * as_float64((half + 1023) << 52) * as_float64((n - half + 1023) << 52)


@function
def exp2_normal_f32(x):
    """2**x where that is a normal number."""
    rounded = x + ROUND_F32
    r = x - (rounded - ROUND_F32)
    return fma(r, polynomial(r, EXP2_F32), 1.0) * as_float32((as_int(rounded) - ROUND_BITS_F32 + 127) << 23)


@function
def exp_f32(x):
    """e**x."""
    bounded = 90.0 if x > 90.0 else x
    bounded = -105.0 if x < -105.0 else bounded
    rounded = fma(bounded, LOG2_E, ROUND_F32)
    n = rounded - ROUND_F32
    r = fma(n, -LN2_REST_F32, fma(n, -LN2_F32, bounded))
    power = fma(r * r, polynomial(r, EXP_F32), r) + 1.0
    return scaled_f32(power, as_int(rounded) - ROUND_BITS_F32)


@function
def exp_f64(x):
    """e**x."""
    bounded = 711.0 if x > 711.0 else x
    bounded = -746.0 if x < -746.0 else bounded
    rounded = fma(bounded, LOG2_E, ROUND_F64)
    n = rounded - ROUND_F64
    r = fma(n, -LN2_REST_F64, fma(n, -LN2_F64, bounded))
    power = fma(r * r, polynomial(r, EXP_F64), r) + 1.0
    return scaled_f64(power, as_int(rounded) - ROUND_BITS_F64)


@function
def exp2_f32(x):
    """2**x."""
    bounded = 129.0 if x > 129.0 else x
    bounded = -151.0 if x < -151.0 else bounded
    rounded = bounded + ROUND_F32
    r = bounded - (rounded - ROUND_F32)
    return scaled_f32(fma(r, polynomial(r, EXP2_F32), 1.0), as_int(rounded) - ROUND_BITS_F32)


@function
def exp2_f64(x):
    """2**x."""
    bounded = 1025.0 if x > 1025.0 else x
    bounded = -1076.0 if x < -1076.0 else bounded
    rounded = bounded + ROUND_F64
    r = bounded - (rounded - ROUND_F64)
    return scaled_f64(fma(r, polynomial(r, EXP2_F64), 1.0), as_int(rounded) - ROUND_BITS_F64)


@function
def expm1_quarter_f32(x):
    """(e**x - 1) / 4, which is finite where sinh is."""
    bounded = 89.5 if x > 89.5 else x
    bounded = -20.0 if x < -20.0 else bounded
    rounded = fma(bounded, LOG2_E, ROUND_F32)
    n = rounded - ROUND_F32
    r = fma(n, -LN2_REST_F32, fma(n, -LN2_F32, bounded))
    power = fma(r * r, polynomial(r, EXPM1_F32), r)
    quarter = as_float32((as_int(rounded) - (ROUND_BITS_F32 - 125)) << 23)
    return fma(power, quarter, quarter - 0.25)


@function
def expm1_quarter_f64(x):
    """(e**x - 1) / 4, which is finite where sinh is."""
    bounded = 710.6 if x > 710.6 else x
    bounded = -40.0 if x < -40.0 else bounded
    rounded = fma(bounded, LOG2_E, ROUND_F64)
    n = rounded - ROUND_F64
    r = fma(n, -LN2_REST_F64, fma(n, -LN2_F64, bounded))
    power = fma(r * r, polynomial(r, EXPM1_F64), r)
    quarter = as_float64((as_int(rounded) - (ROUND_BITS_F64 - 1021)) << 52)
    return fma(power, quarter, quarter - 0.25)


@function
def expm1_f32(x):
    """e**x - 1."""
    value = 4.0 * expm1_quarter_f32(x)
    return value if abs(x) > 1e-17 else x


@function
def expm1_f64(x):
    """e**x - 1."""
    value = 4.0 * expm1_quarter_f64(x)
    return value if abs(x) > 1e-17 else x


@function
def sinh_of(x, quarter):
    """Hyperbolic sine, where (e**|x| - 1) / 4 is known."""
    y, half = abs(x), 2.0 * quarter
    rest = half / (2.0 * half + 1.0)
    value = half if y > 40.0 else half + rest  # beyond, `rest` is less than half of the last digit
    return copysign(value, x) if y > 1e-17 else x


@function
def sinh_f32(x):
    """Hyperbolic sine."""
    return sinh_of(x, expm1_quarter_f32(abs(x)))


@function
def sinh_f64(x):
    """Hyperbolic sine."""
    return sinh_of(x, expm1_quarter_f64(abs(x)))


@function
def cosh_of(quarter):
    """Hyperbolic cosine, where (e**|x| - 1) / 4 is known."""
    return 2.0 * quarter + 0.5 + 0.5 / (4.0 * quarter + 1.0)


@function
def cosh_f32(x):
    """Hyperbolic cosine."""
    return cosh_of(expm1_quarter_f32(abs(x)))


@function
def cosh_f64(x):
    """Hyperbolic cosine."""
    return cosh_of(expm1_quarter_f64(abs(x)))


@function
def tanh(x):
    """Hyperbolic tangent."""
    y = 2.0 * abs(x)
    power = expm1(44.0 if y > 44.0 else y)
    return copysign(power / (power + 2.0), x)


@function
def sigmoid(x):
    """The logistic function."""
    return 1.0 / (1.0 + exp(-x))
