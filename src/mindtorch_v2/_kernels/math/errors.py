"""The error function, its relatives and inverses."""

from ..language import copysign, erfc, erfcx, exp, float32, float64, fma, function, inf, log, log1p, nan, sqrt
from .common import polynomial
from .exponential import exp2_normal_f32

ROOT_HALF, ROOT_2 = 0.7071067811865476, 1.4142135623730951
# erf(x) / x - 1 of z = x**2 for |x| <= 1
ERF_F32 = (0.12837917, -0.37612626, 0.11283579, -0.026853347, 0.005187162, -0.0007997853, 7.806904e-05)
ERF_F64 = (0.1283791670955126, -0.3761263890318375, 0.11283791670954857, -0.026866170645072896, 0.005223977624780875,
           -0.0008548326978742633, 0.00012055331036913794, -1.4925593507190661e-05, 1.6460972821184672e-06,
           -1.6350025260055095e-07, 1.465788005199366e-08, -1.1365666624567702e-09, 5.945262640753955e-11)  # fmt: skip
# log2(erfc(x)) of x - 2 for 1 <= x <= 4, from where on erf(x) is 1; it has to be the nearer the larger erfc(x) is
ERF_FAR_F32 = (-7.739974, -6.374057, -1.3326939, -0.023786107, 0.0051124617, -0.0010282308, 0.00026772916)
# exp(x**2) * erfc(x) * (x + 1), less a constant, of t = (x - 2.5) / (x + 2.5) for x >= 1/2
ERFCX_MIDDLE_F32, ERFCX_MIDDLE_F64 = 0.7378223, 0.7378222742140025
ERFCX_F32 = (-1.8683194e-08, -0.24704672, 0.076344214, 0.016298255, -0.03152001, 0.014382139, -0.00086881523,
             -0.0017372739, 0.00039037518, 0.00020551388, -8.036459e-05)  # fmt: skip
ERFCX_F64 = (2.9006902362357736e-17, -0.24704674851568914, 0.07634432682193189, 0.01629843332223451,
             -0.031522258482039676, 0.014383596050061674, -0.000855236559133744, -0.0017530814268092035,
             0.0003601229042997541, 0.0002516234818427179, -6.132929179984539e-05, -4.745396304296306e-05,
             6.902984835421552e-06, 1.0204041844463928e-05, 4.186192081229886e-07, -2.0892748814928574e-06,
             -6.366766528835211e-07, 3.529193545074281e-07, 2.70114394288082e-07, -6.17041815872269e-08,
             -6.609292708805372e-08, 1.8714881823556183e-08, 1.3460222591378714e-09)  # fmt: skip
# erfinv(x) / x, less a constant, of w - 2.5 for w = -log(1 - x**2) <= 5, and of sqrt(w) - 3.1 beyond
ERFINV_MIDDLE_F32, ERFINV_FAR_MIDDLE_F32 = 1.5014094, 2.9332316
ERFINV_F32 = (-5.2148145e-08, 0.2466402, -0.0041773813, -0.0012526703, 0.0002183501, -4.9732766e-06, -3.4663108e-06,
              4.6422517e-07, 2.3642187e-08, -8.471693e-09)  # fmt: skip
ERFINV_FAR_F32 = (5.4459065e-08, 1.0033553, 0.0074611837, -0.005682191, 0.0041116793, -0.0027793883, 0.0013549447,
                  -0.0001918282, -0.00019480065, 7.8249e-05)  # fmt: skip
# the same with 8 digits; of sqrt(w) - 4 for w <= 36, and of sqrt(w) - 15 beyond
ERFINV_F64 = (1.501409359282215, 0.24664028615780664, -0.004177386783078387, -0.0012527418881293267,
              0.0002183444412430807, -4.963342422510408e-06, -3.462705266446627e-06, 4.661695293615987e-07,
              2.3232687907101466e-08, -8.790976893247541e-09)  # fmt: skip
ERFINV_FAR_F64 = (3.839783868922064, 1.009492680090203, 0.00125797331226986, -0.0008644872897912426,
                  0.000328514338697535, -0.00012859830175794627, 4.4922714638286334e-05, -2.0796828891996848e-05,
                  2.5213519579803882e-05, -1.5630842067588893e-05, 1.538994334508261e-06, 1.5998785293342272e-06,
                  -3.9801419381405755e-07)  # fmt: skip
ERFINV_FARTHEST_F64 = (14.91362696257659, 1.0035457179732952, -0.0001628373663062386, 7.569885513041875e-06,
                       -3.52039174203263e-07, 1.678681051743041e-08, -1.8675616334542907e-10, -7.199588653691413e-11,
                       -3.056281181822842e-12, 1.016162372543898e-12, 2.602641707762663e-14, -9.477277398305161e-15,
                       3.498843976901788e-16)  # fmt: skip


@function
def erf_near_f32(x):
    """erf(x) for |x| <= 1."""
    return fma(x, polynomial(x * x, ERF_F32), x)


@function
def erf_near_f64(x):
    """erf(x) for |x| <= 1."""
    return fma(x, polynomial(x * x, ERF_F64), x)


@function
def erfcx_far_f32(x):
    """exp(x**2) * erfc(x) for x >= 1/2."""
    y = 1e15 if x > 1e15 else x
    return (ERFCX_MIDDLE_F32 + polynomial((y - 2.5) / (y + 2.5), ERFCX_F32)) / (x + 1.0)


@function
def erfcx_far_f64(x):
    """exp(x**2) * erfc(x) for x >= 1/2."""
    y = 1e30 if x > 1e30 else x
    return (ERFCX_MIDDLE_F64 + polynomial((y - 2.5) / (y + 2.5), ERFCX_F64)) / (x + 1.0)


@function
def exp_of_square(x, sign):
    """exp(sign * x**2), where rounding the square is made good."""
    y = 40.0 if abs(x) > 40.0 else x
    square = y * y
    power = exp(sign * square)
    lost = sign * fma(y, y, -square)
    return fma(power, lost, power) if power < 1e300 else power


@function
def erf_f32(x):
    """The error function."""
    size = abs(x)
    size = 4.0 if size > 4.0 else size
    far = copysign(1.0 - exp2_normal_f32(polynomial(size - 2.0, ERF_FAR_F32)), x)
    return erf_near_f32(x) if size < 1.0 else far


@function
def erf_f64(x):
    """The error function."""
    far = copysign(1.0 - exp_of_square(x, -1.0) * erfcx_far_f64(abs(x)), x)
    return erf_near_f64(x) if abs(x) < 1.0 else far


@function
def erfc_of(x, near, far):
    """erfc(x), where erf(x) is known for |x| <= 1/2, and erfcx(|x|) beyond."""
    tail = exp_of_square(x, -1.0) * far
    return 1.0 - near if abs(x) < 0.5 else 2.0 - tail if x < 0.0 else tail


@function
def erfc_f32(x):
    """1 - erf(x)."""
    return erfc_of(x, erf_near_f32(x), erfcx_far_f32(abs(x)))


@function
def erfc_f64(x):
    """1 - erf(x)."""
    return erfc_of(x, erf_near_f64(x), erfcx_far_f64(abs(x)))


@function
def erfcx_of(x, near, far):
    """exp(x**2) * erfc(x), where erf(x) is known for |x| <= 1/2, and erfcx(|x|) beyond."""
    power = exp_of_square(x, 1.0)
    return power * (1.0 - near) if abs(x) < 0.5 else 2.0 * power - far if x < 0.0 else far


@function
def erfcx_f32(x):
    """exp(x**2) * erfc(x)."""
    return erfcx_of(x, erf_near_f32(x), erfcx_far_f32(abs(x)))


@function
def erfcx_f64(x):
    """exp(x**2) * erfc(x)."""
    return erfcx_of(x, erf_near_f64(x), erfcx_far_f64(abs(x)))


@function
def ndtr(x):
    """The distribution function of the normal distribution."""
    return 0.5 * erfc(-ROOT_HALF * x)


@function
def log_ndtr(x):
    """Its logarithm."""
    t = x * ROOT_HALF
    low = log(0.5 * erfcx(-t)) - t * t
    high = log1p(-0.5 * erfc(t))
    return low if x < -1.0 else high


@function
def erfinv_f32(x):
    """The inverse of the error function."""
    y = abs(x)
    w = -log((1.0 - y) * (1.0 + y))
    near = ERFINV_MIDDLE_F32 + polynomial(w - 2.5, ERFINV_F32)
    far = ERFINV_FAR_MIDDLE_F32 + polynomial(sqrt(w) - 3.1, ERFINV_FAR_F32)
    value = x * (near if w < 5.0 else far)
    return x * inf if y == 1.0 else value


@function
def erfinv_start(y, rest, *, whole):
    """erfinv of a float64 y >= 0 with 8 digits, where 1 - y is known too; that is not below 1e-16 unless `whole`."""
    w = -log(rest * (1.0 + y))
    root = sqrt(w)
    near = polynomial(w - 2.5, ERFINV_F64)
    far = polynomial(root - 4.0, ERFINV_FAR_F64)
    farthest = polynomial(root - 15.0, ERFINV_FARTHEST_F64) if whole else far
    return y * (near if w < 5.0 else far if w < 37.0 else farthest)


@function
def erfinv_positive(y, rest, *, whole):
    """erfinv of a float64 y >= 0, where 1 - y is known too."""
    start = erfinv_start(y, rest, whole=whole)
    power = exp_of_square(start, -1.0)
    near = y < 0.55
    scale = 1.0 if near else start + 1.0
    far = ERFCX_MIDDLE_F64 + polynomial((start - 2.5) / (start + 2.5), ERFCX_F64)
    off = erf_near_f64(start) - y if near else fma(-power, far, rest * scale)
    slope = 1.1283791670955126 * power * scale
    value = start - off / fma(start, off, slope)  # one of Halley's steps
    sure = start if rest < 1e-300 else value  # where powers of e are denormal
    return inf if rest == 0.0 else sure


@function
def erfinv_f64(x):
    """The inverse of the error function."""
    value = copysign(erfinv_positive(abs(x), 1.0 - abs(x), whole=False), x)
    return x if x == 0.0 else value


@function
def ndtri_of(p, size):
    """The inverse of ndtr, where erfinv of its distance from 1/2 is known."""
    value = ROOT_2 * size
    return nan if p < 0.0 or p > 1.0 else -value if p < 0.5 else value


@function
def ndtri_f32(p):
    """The inverse of ndtr."""
    wide = float64(p)
    rest = 2.0 * (wide if p < 0.5 else 1.0 - wide)
    size = erfinv_start(1.0 - rest, rest, whole=True)
    return ndtri_of(p, float32(inf if rest == 0.0 else size))


@function
def ndtri_f64(p):
    """The inverse of ndtr."""
    rest = 2.0 * (p if p < 0.5 else 1.0 - p)
    return ndtri_of(p, erfinv_positive(1.0 - rest, rest, whole=True))
