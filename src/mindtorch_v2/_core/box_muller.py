"""Standard normals from blocks of 16 uniforms, to the last bit of PyTorch's AVX2 and AVX512 kernels.

The float32 kernels evaluate logarithm, sine and cosine by the polynomials of the Cephes library with fused
multiply-adds. A product of two float32 is exact in float64, so one multiplication and one addition in float64, then
rounded to float32, give the fused result.
"""

import math
from collections.abc import Sequence

import numpy as np

BLOCK = 16  # 8 radii and 8 angles give 8 cosines, then 8 sines
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def _rounded(*coefficients: float) -> np.ndarray:
    """Coefficients as the float32 kernels hold them, in float64."""
    return np.array(coefficients, FLOAT32).astype(FLOAT64)


LOG_SERIES = _rounded(
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)
LOG_2_HIGH, LOG_2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
# One column per term: the cosine's above the sine's, so that both are evaluated at once.
TRIGONOMETRIC_SERIES = _rounded(
    2.443315711809948e-5, -1.9515295891e-4, -1.388731625493765e-3, 8.3321608736e-3, 4.166664568298827e-2,
    -1.6666654611e-1,
).reshape(3, 2, 1)
OCTANTS_PER_RADIAN = np.float32(4 / math.pi)
QUARTER_PI_PARTS = np.array([0.78515625, 2.4187564849853515625e-4, 3.77489497744594108e-8], FLOAT32)
ROOT_HALF_BITS = np.int32(0x3F3504F3)
ONE_BITS, FRACTION_BITS, SIGN_BIT = np.int32(0x3F800000), np.int32(0x7FFFFF), np.int32(-(1 << 31))
HALF, ONE = np.float32(0.5), np.float32(1)


def _polynomial(coefficients: Sequence | np.ndarray, x: np.ndarray) -> np.ndarray:
    """The float32 value of a polynomial at float64 `x`: Horner's scheme, each step a fused float32 one."""
    value = x * coefficients[0]
    value += coefficients[1]
    rounded = value.astype(FLOAT32)
    for coefficient in coefficients[2:]:
        value[...] = rounded
        value *= x
        value += coefficient
        rounded[...] = value
    return rounded


def _fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`a * b + c` of float32 arrays, rounded once."""
    value = a.astype(FLOAT64)
    value *= b
    value += c
    return value.astype(FLOAT32)


def log_float32(x: np.ndarray) -> np.ndarray:
    """The logarithm of positive float32 numbers."""
    # x = m * 2^exponent with m between sqrt(1/2) and sqrt(2), taken apart in its bits; below, x is m - 1.
    bits = x.view(np.int32) + (ONE_BITS - ROOT_HALF_BITS)
    biased = bits >> 23
    exponent = biased.astype(FLOAT32)
    exponent -= np.float32(127)
    bits &= FRACTION_BITS
    bits += ROOT_HALF_BITS
    x = bits.view(FLOAT32)
    x -= ONE
    square = x * x
    series = _polynomial(LOG_SERIES, x.astype(FLOAT64))
    series *= x
    series = _fused(series, square, exponent * LOG_2_LOW)
    square *= HALF
    series -= square
    x += series
    exponent *= LOG_2_HIGH
    x += exponent
    return x


def sine_and_cosine_float32(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sine and cosine of float32 numbers from 0 to 2 pi."""
    octant = (x * OCTANTS_PER_RADIAN).astype(np.int32)
    octant += 1
    octant &= ~1
    multiple = octant.astype(FLOAT32)
    x = x - multiple * QUARTER_PI_PARTS[0]
    for part in QUARTER_PI_PARTS[1:]:
        x -= multiple * part
    square = x * x
    series = _polynomial(TRIGONOMETRIC_SERIES, square.astype(FLOAT64))
    series *= square
    cosine_series, sine_series = series
    cosine = _fused(cosine_series, square, square * -HALF)
    cosine += ONE
    sine = _fused(sine_series, x, x)
    swapped = (octant & 2).astype(bool)
    result = np.where(swapped, cosine, sine), np.where(swapped, sine, cosine)
    octant <<= 29  # its bit of weight 4, which says negative, is now the sign bit
    sine_bits, cosine_bits = result[0].view(np.int32), result[1].view(np.int32)
    sine_bits ^= octant & SIGN_BIT
    octant += np.int32(2 << 29)
    cosine_bits ^= octant & SIGN_BIT
    return result


def normals_of_blocks(uniforms: np.ndarray) -> np.ndarray:
    """Standard normals from whole blocks of uniforms, float32 or float64."""
    blocks = uniforms.reshape(-1, 2, BLOCK // 2)
    scalar = uniforms.dtype.type
    complement = scalar(1) - blocks[:, 0]
    angle = scalar(2 * math.pi) * blocks[:, 1]
    if uniforms.dtype == FLOAT32:
        flat_sine, flat_cosine = sine_and_cosine_float32(angle.reshape(-1))
        logarithm = log_float32(complement.reshape(-1)).reshape(angle.shape)
        sine, cosine = flat_sine.reshape(angle.shape), flat_cosine.reshape(angle.shape)
    else:
        logarithm, sine, cosine = np.log(complement), np.sin(angle), np.cos(angle)
    logarithm *= scalar(-2)
    radius = np.sqrt(logarithm, out=logarithm)
    normals = np.empty_like(blocks)
    np.multiply(radius, cosine, out=normals[:, 0])
    np.multiply(radius, sine, out=normals[:, 1])
    return normals.reshape(-1)
