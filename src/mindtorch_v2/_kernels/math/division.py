"""The rest of a division, exact: by one fused step where the quotient is small enough, as it mostly is."""

from ..language import copysign, far, float32, float64, fma, function, inf, trunc

# Quotients up to which a product with the divisor has all its digits, and is on the right side of the dividend.
SMALL_F32, SMALL_F64 = 2.0**28, 2.0**51


@function
def fmod_f32(x, y):
    quotient = trunc(float64(x) / float64(y))
    rest = copysign(float32(fma(-quotient, float64(y), float64(x))), x)
    near = x if abs(y) == inf and abs(x) != inf else rest
    return far("fmod", float32(quotient), SMALL_F32, x, y) if abs(quotient) > SMALL_F32 else near


@function
def fmod_f64(x, y):
    """The quotient may be one too large: then the rest has the wrong sign, or is as large as the divisor."""
    quotient = trunc(x / y)
    size = abs(y)
    rest = fma(-quotient, y, x)
    side = rest if x >= 0.0 else -rest
    side = side + size if side < 0.0 else side - size if side >= size else side
    rest = copysign(side, x)
    near = x if size == inf and abs(x) != inf else rest
    return far("fmod", quotient, SMALL_F64, x, y) if abs(quotient) > SMALL_F64 else near
