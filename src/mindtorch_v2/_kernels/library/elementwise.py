"""Functions of single elements that give two results."""

from ..language import as_float32, as_float64, as_int, flat, function, int32, isfinite, kernel, parallel

TINY_F32, TINY_F64 = 2.0**-126, 2.0**-1022


@function
def raised(v, double):
    """A number smaller than a type's normal ones times a power of two that makes it normal; others as they are."""
    if double:
        return v * 18014398509481984.0 if abs(v) < TINY_F64 else v
    return v * 33554432.0 if abs(v) < TINY_F32 else v


@function
def fraction_of(v, double):
    """A number's digits as a number from 0.5 up to 1, with its sign."""
    if double:
        return as_float64(as_int(raised(v, double)) & -0x7FF0000000000001 | 0x3FE0000000000000)
    return as_float32(as_int(raised(v, double)) & -0x7F800001 | 0x3F000000)


@function
def power_of(v, double):
    """The power of two that `fraction_of` was divided by."""
    if double:
        return int32(as_int(raised(v, double)) >> 52 & 0x7FF) - (1076 if abs(v) < TINY_F64 else 1022)
    return int32(as_int(raised(v, double)) >> 23 & 0xFF) - (151 if abs(v) < TINY_F32 else 126)


@kernel
def frexp(mantissa: flat, exponent: flat, x: flat, count):
    for i in parallel(count, 8):
        v = x[i]
        double = x.dtype == "float64"
        plain = isfinite(v) & (v != 0)
        mantissa[i] = fraction_of(v, double) if plain else v
        exponent[i] = power_of(v, double) if plain else 0
