"""sin, cos, tan and their inverses."""

from typing import Any

from ..language import as_int, copysign, far, float32, float64, fma, function, inf, int32, int64, sqrt
from .common import polynomial
from .exponential import ROUND_BITS_F32, ROUND_BITS_F64, ROUND_F32, ROUND_F64

TWO_OVER_PI = 0.6366197723675814
# pi / 2 in three parts
QUARTER_F32, QUARTER_REST_F32, QUARTER_LEFT_F32 = 1.5707964, -4.371139e-08, -1.7151245e-15
QUARTER_F64, QUARTER_REST_F64, QUARTER_LEFT_F64 = 1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33
# (sin(r) - r) / r**3 and (cos(r) - 1 + r**2 / 2) / r**4 of z = r**2 for |r| <= pi / 4
SIN_F32 = (-0.16666654, 0.008332093, -0.00019505146)
COS_F32 = (0.041666653, -0.0013887575, 2.4455016e-05)
SIN_F64 = (-0.1666666666666663, 0.008333333333322063, -0.0001984126982954276, 2.7557313604566113e-06,
           -2.5050745042607483e-08, 1.5896067726840965e-10)  # fmt: skip
COS_F64 = (0.041666666666666595, -0.0013888888888872975, 2.4801587288800014e-05, -2.755731416397553e-07,
           2.0875698708665433e-09, -1.1358423534256258e-11)  # fmt: skip
# sin and cos again, in float64 for results in float32
TAN_SIN = (-0.16666654536663109, 0.008332156055969799, -0.00019514632137220805)
TAN_COS = (0.041666654579757975, -0.0013887649460420438, 2.4463166044043027e-05)
# (atan(r) - r) / r**3 of z = r**2 for |r| <= tan(pi / 8), and (asin(r) - r) / r**3 of z = r**2 for |r| <= 1/2
ATAN_F32 = (-0.33333316, 0.19998528, -0.1424439, 0.105991445, -0.0608996)
ATAN_F64 = (-0.333333333333332, 0.19999999999953164, -0.14285714280157516, 0.11111110781681582, -0.09090897711123046,
            0.07692059458034822, -0.06663096172362035, 0.058478366634095266, -0.05039086241617385, 0.03805943810097162,
            -0.01790202431946457)  # fmt: skip
ASIN_F32 = (0.16666752, 0.074953064, 0.045469772, 0.024180774, 0.042166412)
ASIN_F64 = (0.1666666666666676, 0.07499999999970632, 0.04464285717478069, 0.030381942699305775, 0.02237221523654565,
            0.017351607372153008, 0.01398087813690549, 0.011398425709858509, 0.010783062781572499, 0.003695489332149355,
            0.0217347402793489, -0.021038691112616102, 0.0326540223745259)  # fmt: skip
# Up to here quarters of a turn are subtracted; beyond, the C library is asked.
NEAR_F32 = 131072.0
NEAR_F64 = 1e9


@function
def sin_or_cos_f32(r, quarters):
    """sin(r + quarters * pi / 2) for |r| <= pi / 4."""
    z = r * r
    sine = fma(r * z, polynomial(z, SIN_F32), r)
    cosine = fma(z * z, polynomial(z, COS_F32), fma(z, -0.5, 1.0))
    value = sine if quarters & 1 == 0 else cosine
    return value if quarters & 2 == 0 else -value


@function
def sin_from_f32(x, first):
    """sin(x + first * pi / 2) where |x| <= NEAR_F32."""
    rounded = fma(x, TWO_OVER_PI, ROUND_F32)
    quarters = rounded - ROUND_F32
    r = fma(quarters, -QUARTER_LEFT_F32, fma(quarters, -QUARTER_REST_F32, fma(quarters, -QUARTER_F32, x)))
    return sin_or_cos_f32(r, as_int(rounded) - ROUND_BITS_F32 + first)


@function
def angle_f64(x):
    """x less whole quarters of a turn, in two parts, and these quarters, where |x| <= NEAR_F64."""
    rounded = fma(x, TWO_OVER_PI, ROUND_F64)
    quarters = rounded - ROUND_F64
    most = fma(quarters, -QUARTER_F64, x)
    less = quarters * QUARTER_REST_F64
    r = most - less
    back = r - most
    lost = (most - (r - back)) - (less + back)
    rest = lost - fma(quarters, QUARTER_LEFT_F64, fma(quarters, QUARTER_REST_F64, -less))
    return r, rest, as_int(rounded) - ROUND_BITS_F64


@function
def sine_rest_f64(r, rest):
    """sin(r + rest) - r for |r| <= pi / 4 and a rest below r's digits."""
    z = r * r
    return fma(r * z, polynomial(z, SIN_F64), rest)


@function
def cosine_parts_f64(r, rest):
    """cos(r + rest) for |r| <= pi / 4 and a rest below r's digits, in two parts."""
    z = r * r
    half = 0.5 * z
    most = 1.0 - half
    return most, ((1.0 - most) - half) + fma(z * z, polynomial(z, COS_F64), -r * rest)


@function
def sin_from_f64(x, first):
    """sin(x + first * pi / 2) where |x| <= NEAR_F64."""
    r, rest, quarters = angle_f64(x)
    sine = r + sine_rest_f64(r, rest)
    most, less = cosine_parts_f64(r, rest)
    moved = quarters + first
    value = sine if moved & 1 == 0 else most + less
    return value if moved & 2 == 0 else -value


def _sine_and_cosine(sin_from: function, integer: Any, near: float) -> tuple[function, function]:
    """The functions of numbers of a width, out of that of a turned angle."""

    @function
    def sin(x):
        """Sine."""
        value = sin_from(x, integer(0))
        return far("sin", x, near) if abs(x) > near else x if x == 0.0 else value

    @function
    def cos(x):
        """Cosine."""
        value = sin_from(x, integer(1))
        return far("cos", x, near) if abs(x) > near else value

    return sin, cos


sin_f32, cos_f32 = _sine_and_cosine(sin_from_f32, int32, NEAR_F32)
sin_f64, cos_f64 = _sine_and_cosine(sin_from_f64, int64, NEAR_F64)


@function
def tan_f32(x):
    """Tangent."""
    wide = float64(x)
    rounded = fma(wide, TWO_OVER_PI, ROUND_F64)
    quarters = rounded - ROUND_F64
    r = fma(quarters, -QUARTER_REST_F64, fma(quarters, -QUARTER_F64, wide))
    z = r * r
    sine = fma(r * z, polynomial(z, TAN_SIN), r)
    cosine = fma(z * z, polynomial(z, TAN_COS), fma(z, -0.5, 1.0))
    odd = as_int(rounded) & 1 != 0
    value = float32((-cosine if odd else sine) / (sine if odd else cosine))
    return far("tan", x, NEAR_F32) if abs(x) > NEAR_F32 else x if x == 0.0 else value


@function
def tan_f64(x):
    """Tangent."""
    r, rest, quarters = angle_f64(x)
    sine_rest = sine_rest_f64(r, rest)
    sine = r + sine_rest
    sine_lost = (r - sine) + sine_rest
    most, less = cosine_parts_f64(r, rest)
    cosine = most + less
    cosine_lost = (most - cosine) + less
    odd = quarters & 1 != 0
    above, above_lost = -cosine if odd else sine, -cosine_lost if odd else sine_lost
    below, below_lost = sine if odd else cosine, sine_lost if odd else cosine_lost
    inverse = 1.0 / below
    quotient = above * inverse
    value = fma(fma(-quotient, below, above) + fma(-quotient, below_lost, above_lost), inverse, quotient)
    return far("tan", x, NEAR_F64) if abs(x) > NEAR_F64 else x if x == 0.0 else value


@function
def asin_argument(x):
    """r, what its root was rounded by, and r**2, where asin(|x|) is asin(r) or pi / 2 - 2 * asin(r)."""
    y = abs(x)
    z = x * x if y <= 0.5 else fma(y, -0.5, 0.5)
    root = sqrt(z)
    lost = fma(-root, root, z) / (2.0 * root)
    large = y > 0.5
    return root if large else y, (lost if z > 0.0 else 0.0) if large else 0.0, z


@function
def asin_of(x, r, rest, quarter, quarter_rest):
    """asin(x) where asin_argument of it is r and asin(r) is r + rest."""
    far = quarter - 2.0 * r
    lost = (quarter - far) - 2.0 * r
    value = far + (lost + (quarter_rest - 2.0 * rest)) if abs(x) > 0.5 else r + rest
    return copysign(value, x)


@function
def acos_of(x, r, rest, quarter, quarter_rest):
    """acos(x) where asin_argument of it is r and asin(|x|) is r + rest, or pi / 2 - 2 * (r + rest)."""
    angle, angle_rest = copysign(r, x), copysign(1.0, x) * rest
    most = quarter - angle
    middle = most + (((quarter - most) - angle) + (quarter_rest - angle_rest))
    double = 2.0 * (r + rest)
    less = 2.0 * quarter - 2.0 * r
    left = less + (((2.0 * quarter - less) - 2.0 * r) + 2.0 * (quarter_rest - rest))
    return middle if abs(x) <= 0.5 else double if x > 0.0 else left


@function
def atan_argument(above, below):
    """r with |r| <= tan(pi / 8) and the eighths of a turn beside it, for the angle of a quotient of numbers >= 0."""
    steep = above > 2.414213562373095 * below
    middle = above > 0.41421356237309503 * below
    top = -below if steep else above - below if middle else above
    bottom = above if steep else above + below if middle else below
    return top / bottom, steep, middle


@function
def atan_sum(r, rest, steep, middle, quarter, quarter_rest):
    """The angle of which atan_argument is r, where atan(r) is r + rest."""
    base = quarter if steep else 0.5 * quarter if middle else 0.0
    base_rest = quarter_rest if steep else 0.5 * quarter_rest if middle else 0.0
    most = base + r
    return most + (((base - most) + r) + (rest + base_rest))


@function
def atan2_operands(y, x):
    """|y| and |x| such that sums of them are finite, and their quotient is known where they are 0 or infinite."""
    above, below = abs(y), abs(x)
    both = above == inf and below == inf
    top = max(above, below)
    scale = 0.25 if top > 1e30 else 1.0
    neither = top == 0.0
    return (1.0 if both else above * scale), (1.0 if both or neither else below * scale)


@function
def atan2_of(y, x, angle, half, half_rest):
    """The angle of a point, where that of (|x|, |y|) is known."""
    is_left = as_int(x) < 0
    far = half - angle
    turned = far + (((half - far) - angle) + half_rest)
    value = turned if is_left else angle
    return copysign(value, y) if x == x and y == y else x + y


def _inverses(number: Any, quarter: float, quarter_rest: float, of_asin: tuple[float, ...],
              of_atan: tuple[float, ...]) -> tuple[function, ...]:
    """The inverse functions of numbers of a width."""

    @function
    def asin(x):
        """Inverse sine."""
        r, lost, z = asin_argument(x)
        return asin_of(x, r, r * z * polynomial(z, of_asin) + lost, quarter, quarter_rest)

    @function
    def acos(x):
        """Inverse cosine."""
        r, lost, z = asin_argument(x)
        return acos_of(x, r, r * z * polynomial(z, of_asin) + lost, quarter, quarter_rest)

    @function
    def atan_ratio(above, below):
        """The angle whose tangent is above / below, for numbers >= 0."""
        r, steep, middle = atan_argument(above, below)
        z = r * r
        return atan_sum(r, r * z * polynomial(z, of_atan), steep, middle, number(quarter), number(quarter_rest))

    @function
    def atan(x):
        """Inverse tangent."""
        return copysign(atan_ratio(abs(x), number(1.0)), x)

    @function
    def atan2(y, x):
        """The angle of the point (x, y)."""
        above, below = atan2_operands(y, x)
        return atan2_of(y, x, atan_ratio(above, below), number(2.0 * quarter), number(2.0 * quarter_rest))

    return asin, acos, atan, atan2


asin_f32, acos_f32, atan_f32, atan2_f32 = _inverses(float32, QUARTER_F32, QUARTER_REST_F32, ASIN_F32, ATAN_F32)
asin_f64, acos_f64, atan_f64, atan2_f64 = _inverses(float64, QUARTER_F64, QUARTER_REST_F64, ASIN_F64, ATAN_F64)
