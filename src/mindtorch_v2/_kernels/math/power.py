"""Powers, roots and lengths."""

from ..language import as_float64, as_int, copysign, exp2, float32, float64, fma, function, inf, log2, nan, rint, sqrt
from .common import polynomial
from .exponential import EXP2_F64, ROUND_BITS_F64, ROUND_F64, scaled_f64
from .logarithm import LOG2_E_F64, LOG2_E_REST_F64, ROOT_BITS_F64, split_f64

# 2 / log(2) * (atanh(s) / s - 1) / z of z = s**2, and (2**r - 1) / r, for results in float32
POWER_LOG2_F32 = (0.9617966940578042, 0.5770779531770969, 0.4122084033341224, 0.3199347201691445, 0.28254030263989083)
POWER_EXP2_F32 = (0.6931471838211569, 0.24022650921058752, 0.055504003660331626, 0.00961805686078888,
                  0.0013341954962576151, 0.00015461391019767892, 1.3359717476598983e-05)  # fmt: skip
# (2 * atanh(s) / s - 2 - 2 * z / 3) / z**2
POWER_LOG_F64 = (0.40000000000002256, 0.28571428570099267, 0.22222222519974286, 0.18181784362838668, 0.1538675752101768,
                 0.1325681346461966, 0.13196367445949866)  # fmt: skip
TWO_THIRDS, TWO_THIRDS_REST = 0.6666666666666666, 3.700743415417188e-17


@function
def power_limits(x, y, size):
    """x**y where size is |x|**y for positive numbers: its sign, and what it is at the limits."""
    whole = y == rint(y)
    odd = whole and 0.5 * y != rint(0.5 * y)
    one = abs(x) == 1.0 and y == y
    positive = 1.0 if one else size
    signed = copysign(positive, x) if odd else positive
    real = signed if x >= 0.0 or whole or x == -inf else nan
    known = real if x == x and y == y else nan
    return 1.0 if y == 0.0 or x == 1.0 else known


@function
def pow_f32(x, y):
    """x**y."""
    size = float64(abs(x))
    bits = as_int(size) - ROOT_BITS_F64
    n = float64(bits >> 52)
    f = as_float64((bits & 0xFFFFFFFFFFFFF) + ROOT_BITS_F64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    logarithm = fma(s, fma(z, polynomial(z, POWER_LOG2_F32), 2.0 * LOG2_E_F64), n)
    product = float64(y) * (-inf if size == 0.0 else inf if size == inf else logarithm)
    product = 300.0 if product > 300.0 else -300.0 if product < -300.0 else product
    rounded = product + ROUND_F64
    r = product - (rounded - ROUND_F64)
    power = fma(r, polynomial(r, POWER_EXP2_F32), 1.0)
    value = float32(power * as_float64((as_int(rounded) - (ROUND_BITS_F64 - 1023)) << 52))
    return power_limits(x, y, value)


@function
def log2_parts_f64(x):
    """The logarithm of a positive number to base 2, in two parts with 10 digits more than a float64."""
    n, f = split_f64(x)
    below = 2.0 + f
    s = f / below
    s_rest = (fma(-s, below, f) - s * (f - (below - 2.0))) / below
    z = s * s
    z_rest = fma(s, s, -z) + 2.0 * s * s_rest
    cube = s * z
    cube_rest = fma(s, z, -cube) + fma(s, z_rest, s_rest * z)
    second = cube * TWO_THIRDS
    second_rest = fma(cube, TWO_THIRDS, -second) + fma(cube, TWO_THIRDS_REST, cube_rest * TWO_THIRDS)
    most = 2.0 * s + second
    rest = ((2.0 * s - most) + second) + (2.0 * s_rest + fma(cube * z, polynomial(z, POWER_LOG_F64), second_rest))
    high = most + rest
    low = (most - high) + rest
    product = high * LOG2_E_F64
    product_rest = fma(high, LOG2_E_F64, -product) + fma(high, LOG2_E_REST_F64, low * LOG2_E_F64)
    total = n + product
    left = ((n - total) + product) + product_rest
    logarithm = -inf if x == 0.0 else inf if x == inf else total
    return logarithm, left if abs(logarithm) < inf else 0.0


@function
def pow_f64(x, y):
    """x**y."""
    logarithm, rest = log2_parts_f64(abs(x))
    product = y * logarithm
    lost = fma(y, logarithm, -product) + y * rest
    bounded = 1100.0 if product > 1100.0 else -1100.0 if product < -1100.0 else product
    rounded = bounded + ROUND_F64
    whole = rounded - ROUND_F64
    r = bounded - whole if abs(product) > 1100.0 else (bounded - whole) + lost
    power = fma(r, polynomial(r, EXP2_F64), 1.0)
    return power_limits(x, y, scaled_f64(power, as_int(rounded) - ROUND_BITS_F64))


@function
def cbrt(x):
    """The real third root."""
    small = abs(x) < 1e-30  # there, what is left after a step could underflow
    size = abs(x) * 1.2379400392853803e27 if small else abs(x)  # 2**90
    guess = exp2(log2(size) * 0.3333333333333333)
    square = guess * guess
    root = guess - fma(square, guess, -size) / (3.0 * square)
    value = root * 9.313225746154785e-10 if small else root  # 2**-30
    return copysign(value, x) if size > 0.0 and size < inf else x


@function
def hypot_f32(x, y):
    """The root of the sum of squares."""
    a, b = float64(x), float64(y)
    length = float32(sqrt(fma(a, a, b * b)))
    return inf if abs(x) == inf or abs(y) == inf else length


@function
def hypot_f64(x, y):
    """The root of the sum of squares."""
    a, b = abs(x), abs(y)
    bits = as_int(a if a > b else b) & 0x7FF0000000000000
    bits = 0x0020000000000000 if bits < 0x0020000000000000 else bits
    bits = 0x7FD0000000000000 if bits > 0x7FD0000000000000 else bits
    scale = as_float64(0x7FE0000000000000 - bits)
    u, v = a * scale, b * scale
    length = sqrt(fma(u, u, v * v)) * as_float64(bits)
    return inf if a == inf or b == inf else length
