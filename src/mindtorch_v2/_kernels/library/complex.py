"""Arithmetic of complex numbers, whose parts follow each other, as NumPy does it: by the larger part of the divisor."""

from ..language import flat, kernel, parallel

_EXPENSIVE = 24  # a quotient takes as long as so many additions


@kernel
def quotients(out: flat, a: flat, b: flat, count, *, one_a, one_b):
    """Quotients of numbers; with `one_a` or `one_b`, one of them is for all."""
    for i in parallel(count, _EXPENSIVE):
        ar, ai = a[0 if one_a else 2 * i], a[1 if one_a else 2 * i + 1]
        br, bi = b[0 if one_b else 2 * i], b[1 if one_b else 2 * i + 1]
        by_real = abs(br) >= abs(bi)
        large, small = br if by_real else bi, bi if by_real else br
        x, y = ar if by_real else ai, ai if by_real else ar
        ratio = small / large
        scale = 1 / (large + small * ratio)
        zero = (br == 0) & (bi == 0)
        out[2 * i] = ar / abs(br) if zero else (x + y * ratio) * scale
        out[2 * i + 1] = ai / abs(br) if zero else (y - x * ratio if by_real else x * ratio - y) * scale


@kernel
def reciprocals(out: flat, x: flat, count):
    for i in parallel(count, _EXPENSIVE):
        real, imaginary = x[2 * i], x[2 * i + 1]
        by_real = abs(real) >= abs(imaginary)
        large, small = real if by_real else imaginary, imaginary if by_real else real
        ratio = small / large
        scale = large + small * ratio
        out[2 * i] = (1 if by_real else ratio) / scale
        out[2 * i + 1] = -(ratio if by_real else 1) / scale
