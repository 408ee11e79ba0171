"""The logarithm of the gamma function and its derivative."""

from ..language import float32, float64, fma, function, inf, log, nan, rint, unrolled
from .common import polynomial

PI = 3.141592653589793
HALF_LOG_2_PI = 0.9189385332046728
# lgamma(2 + u) / u for |u| <= 1/2, with digits for results in float32 and float64
LGAMMA_F32 = (0.42278433451062586, 0.32246701878143313, -0.06735221880442681, 0.020581601908291308,
              -0.007387427187119241, 0.0028790567985104987, -0.0011778419541231102, 0.0005698214537230191,
              -0.00026985139257106814)  # fmt: skip
LGAMMA_F64 = (0.42278433509846713, 0.3224670334241133, -0.06735230105319576, 0.02058080842776596,
              -0.0073855510289252005, 0.0028905103318417626, -0.0011927539013288698, 0.0005096694951100305,
              -0.00022315497227342067, 9.945794422818356e-05, -4.492377181694515e-05, 2.0503543623407032e-05,
              -9.456079430349568e-06, 4.393522375598164e-06, -1.974825150816159e-06, 8.998983187072228e-07,
              -5.806134800895991e-07, 2.9770898509254445e-07)  # fmt: skip
# sin(pi * p) / p of z = p**2 for p <= 1/2
SINPI_F32 = (3.1415926368607687, -5.1677096797106055, 2.550069611043334, -0.5982413005448701, 0.07755855760106332)
SINPI_F64 = (3.141592653589793, -5.167712780049969, 2.550164039877294, -0.5992645293187332, 0.08214588656980903,
             -0.007370430478005625, 0.0004662996849908462, -2.19031756093947e-05, 7.694624216243398e-07)  # fmt: skip
# x * (lgamma(x) - (x - 1/2) * log(x) + x - log(2 * pi) / 2) of z = 1 / x**2 for x >= 8
STIRLING_F32 = (0.08333333326536257, -0.0027776989143284167, 0.0007800583018420231)
STIRLING_F64 = (0.08333333333333333, -0.0027777777777740994, 0.0007936507898351709, -0.0005952366070454914,
                0.0008414728616832762, -0.0018905406908595879, 0.005069265221221924)  # fmt: skip
# (log(x) - 1 / (2 * x) - digamma(x)) / z
DIGAMMA_F32 = (0.08333333051278854, -0.008332185088153438, 0.0038429887425922055)
DIGAMMA_F64 = (0.08333333333333322, -0.008333333333086944, 0.003968253814230901, -0.004166623441947244,
               0.007569414074887411, -0.020581693926590747, 0.06133499496986015)  # fmt: skip
# y * trigamma(y) = 1 + 1 / (2 * y) + z * (...) for y >= 6.5
TRIGAMMA = (0.16666666666663987, -0.03333333329590242, 0.02380950829334966, -0.033330435776928465, 0.0754730071590022,
            -0.23759946141409216, 0.7025858161831907)  # fmt: skip


@function
def lgamma_positive(y, near, stirling):
    """lgamma of a float64 above 0, with polynomials around 2 and for large numbers."""
    # y * (y + 1) ... in the denominator, or (y - 1) * (y - 2) ... in the numerator, bring y to 2 + u with |u| <= 1/2
    below = y < 1.5
    tiny = y < 0.5
    product = y * (y + 1.0) if tiny else y
    u = y if tiny else y - 1.0 if below else y - 2.0
    for step in unrolled(6):
        again = u > 0.5
        factor = u + 1.0
        product = (factor if step == 0 else product * factor) if again else product
        u = u - 1.0 if again else u
    large = y >= 8.0
    logarithm = log(y if large else product)
    shift = u * polynomial(u, near)
    short = shift - logarithm if below else shift + logarithm if y > 2.5 else shift
    inverse = 1.0 / y
    tail = fma(inverse, polynomial(inverse * inverse, stirling), HALF_LOG_2_PI)
    long = fma(y - 0.5, logarithm, tail - y)
    return (long if y < inf else inf) if large else short


@function
def lgamma_of(x, near, stirling, sine):
    """lgamma of a float64, with polynomials around 2, for large numbers and for sin(pi * x)."""
    y = abs(x)
    positive = lgamma_positive(y, near, stirling)
    part = abs(y - rint(y))
    reflected = log(PI / (y * part * polynomial(part * part, sine))) - positive
    left = inf if part == 0.0 else reflected
    return left if x < -1e-20 and y < inf else positive


@function
def lgamma_f32(x):
    """The logarithm of |gamma(x)|."""
    return float32(lgamma_of(float64(x), LGAMMA_F32, STIRLING_F32, SINPI_F32))


@function
def lgamma_f64(x):
    """The logarithm of |gamma(x)|."""
    return lgamma_of(x, LGAMMA_F64, STIRLING_F64, SINPI_F64)


@function
def digamma_of(x, tail, sine):
    """The derivative of lgamma of a float64, with polynomials for large numbers and for sin(pi * x)."""
    y = 1.0 - x if x < 0.0 else x
    # the sum of 1 / (y + k) that leads to a number above 8, as a fraction
    above = 0.0 * y
    below = 1.0 + above
    for _ in unrolled(8):
        again = y < 8.0
        above = fma(above, y, below) if again else above
        below = below * y if again else below
        y = y + 1.0 if again else y
    inverse = 1.0 / y
    z = inverse * inverse
    positive = (log(y) - fma(z, polynomial(z, tail), 0.5 * inverse)) - above / below
    part = x - rint(x)
    size = abs(part)
    rest = 0.5 - size
    # pi / tan(pi * x) = pi * cos / sin, and the cosine is the sine of what is left of a quarter of a turn
    cosine = rest * polynomial(rest * rest, sine)
    cotangent = PI * cosine / (part * polynomial(part * part, sine))
    reflected = positive - cotangent
    value = (nan if part == 0.0 else reflected) if x < 0.0 else positive
    return (-inf if 1.0 / x > 0.0 else inf) if x == 0.0 else inf if x == inf else value


@function
def digamma_f32(x):
    """The derivative of lgamma."""
    return float32(digamma_of(float64(x), DIGAMMA_F32, SINPI_F32))


@function
def digamma_f64(x):
    """The derivative of lgamma."""
    return digamma_of(x, DIGAMMA_F64, SINPI_F64)


@function
def trigamma(x):
    """The derivative of digamma, as its terms 1 / (x + k)**2 and what they tend to."""
    left = x < 0.5
    y = 1.0 - x if left else x
    total = 0.0 * y
    for _ in unrolled(6):
        total = total + 1.0 / (y * y)
        y = y + 1.0
    z = 1.0 / (y * y)
    value = total + (1.0 + 1.0 / (2.0 * y) + z * polynomial(z, TRIGAMMA)) / y
    part = abs(x - rint(x))
    sine = part * polynomial(part * part, SINPI_F64)
    return (PI * PI) / (sine * sine) - value if left else value
