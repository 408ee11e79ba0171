"""Random numbers from the words of PyTorch's generator, to the last bit of PyTorch's kernels (_core/random.py)."""

import math

from ..language import (
    as_float32,
    as_int,
    c_rem,
    ceil,
    far,
    flat,
    float32,
    float64,
    fma,
    function,
    int32,
    int64,
    kernel,
    like,
    ordered,
    parallel,
    sqrt,
)

TWO_PI = 2 * math.pi
ROOT_HALF_BITS, ONE_BITS = 0x3F3504F3, 0x3F800000
ANY = -1.0  # a limit that every number is beyond: always the C library's function


@function
def float_uniform(word):
    return float32(int32(int64(word) & 0xFFFFFF)) * 5.9604644775390625e-08


@function
def double_bits(high, low):
    return (int64(high) & 0x1FFFFF) << 32 | int64(low)


@function
def double_uniform(high, low):
    return float64(double_bits(high, low)) * 1.1102230246251565e-16


@kernel
def uniforms(out, words, first: float, extent: float, low: float, high: float, *, rounded):
    """`rounded`: what rounding to 16 bits lifts out of the range falls back to its beginning."""
    for i in parallel(out.shape[0], 2):
        if out.dtype == "float64":
            out[i] = fma(double_uniform(words[2 * i], words[2 * i + 1]), float64(extent), float64(first))
        else:
            out[i] = fma(float_uniform(words[i]), float32(extent), float32(first))
            if rounded:
                if out[i] >= high:
                    out[i] = low


@kernel
def below(out, words, bound):
    """Whether double uniforms, before their division, are below a bound."""
    for i in parallel(out.shape[0], 2):
        out[i] = double_bits(words[2 * i], words[2 * i + 1]) < bound


@function
def logarithm(x):
    """Of a positive float32, as Cephes computes it: x = m * 2^n with m between sqrt(1/2) and sqrt(2)."""
    bits = as_int(x) + (ONE_BITS - ROOT_HALF_BITS)
    n = float32((bits >> 23) - 127)
    m = as_float32((bits & 0x7FFFFF) + ROOT_HALF_BITS) - 1.0
    square = ordered(m * m)
    series = fma(m, float32(7.0376836292e-2), float32(-1.1514610310e-1))
    series = fma(series, m, float32(1.1676998740e-1))
    series = fma(series, m, float32(-1.2420140846e-1))
    series = fma(series, m, float32(1.4249322787e-1))
    series = fma(series, m, float32(-1.6668057665e-1))
    series = fma(series, m, float32(2.0000714765e-1))
    series = fma(series, m, float32(-2.4999993993e-1))
    series = fma(series, m, float32(3.3333331174e-1))
    series = ordered(series * m)
    series = fma(series, square, ordered(n * float32(-2.12194440e-4)))
    series = ordered(series - ordered(square * 0.5))
    return ordered(ordered(m + series) + ordered(n * float32(0.693359375)))


@kernel
def block_normals(out: flat, words: flat, first, word, blocks, mean: float, std: float):
    """Normals of float32, from out[first] on, from blocks of 16 uniforms, from words[word] on.

    8 radii and 8 angles give 8 cosines, then 8 sines.
    """
    for block in parallel(blocks, 400):
        for j in range(8):
            at = word + 16 * block + j
            radius = sqrt(ordered(logarithm(ordered(1.0 - float_uniform(words[at]))) * -2.0))
            angle = ordered(float_uniform(words[at + 8]) * float32(TWO_PI))
            octant = (int32(ordered(angle * float32(4 / math.pi))) + 1) & -2
            multiple = float32(octant)
            x = ordered(angle - ordered(multiple * float32(0.78515625)))
            x = ordered(x - ordered(multiple * float32(2.4187564849853515625e-4)))
            x = ordered(x - ordered(multiple * float32(3.77489497744594108e-8)))
            square = ordered(x * x)
            series = fma(square, float32(2.443315711809948e-5), float32(-1.388731625493765e-3))
            series = ordered(fma(series, square, float32(4.166664568298827e-2)) * square)
            cosine = ordered(fma(series, square, ordered(square * -0.5)) + 1.0)
            series = fma(square, float32(-1.9515295891e-4), float32(8.3321608736e-3))
            series = ordered(fma(series, square, float32(-1.6666654611e-1)) * square)
            sine = fma(series, x, x)
            swapped = (octant & 2) != 0
            cosines = sine if swapped else cosine
            sines = cosine if swapped else sine
            cosines = -cosines if ((octant + 2) & 4) != 0 else cosines
            sines = -sines if (octant & 4) != 0 else sines
            place = first + 16 * block + j
            out[place] = fma(ordered(radius * cosines), float32(std), float32(mean))
            out[place + 8] = fma(ordered(radius * sines), float32(std), float32(mean))


@kernel
def paired_normals(out, words):
    """Standard normals of float64, two from each two uniforms."""
    for i in range(out.shape[0]):
        first = double_uniform(words[i, 0], words[i, 1])
        second = double_uniform(words[i, 2], words[i, 3])
        radius = sqrt(far("log1p", -second, ANY) * -2.0)
        angle = first * TWO_PI
        out[i, 0] = radius * far("cos", angle, ANY)
        out[i, 1] = radius * far("sin", angle, ANY)


@kernel
def exponentials(out, words, factor: float):
    for i in parallel(out.shape[0], 40):
        out[i] = like(factor * far("log1p", -double_uniform(words[2 * i], words[2 * i + 1]), ANY), out)


@kernel
def geometrics(out, words, scale: float):
    """`scale` is the logarithm of how likely it is that a trial fails."""
    for i in parallel(out.shape[0], 40):
        out[i] = like(ceil(far("log", double_uniform(words[2 * i], words[2 * i + 1]), ANY) / scale), out)


@kernel
def cauchies(out, words, median: float, sigma: float):
    for i in parallel(out.shape[0], 60):
        angle = math.pi * (double_uniform(words[2 * i], words[2 * i + 1]) - 0.5)
        out[i] = like(fma(far("tan", angle, ANY), sigma, median), out)


@kernel
def log_normals(out, normals, mean: float, std: float):
    for i in parallel(out.shape[0], 40):
        out[i] = like(far("exp", fma(normals[i], std, mean), ANY), out)


@kernel
def find_improper(wrong, p):
    """Whether there is a number that is no probability."""
    for i in parallel(p.shape[0], 1):
        if not 0 <= p[i] <= 1:
            wrong[0] = 1


@kernel
def draws_below(out, words, p):
    """Whether uniforms are below probabilities, as many."""
    for i in parallel(out.shape[0], 2):
        if p.dtype == "float64":
            out[i] = double_uniform(words[2 * i], words[2 * i + 1]) < p[i]
        else:
            out[i] = float_uniform(words[i]) < p[i]


@kernel
def integers(out, words, extent, low):
    """Of one word each, in a range from `low` on that has so many numbers, fewer than 2^32."""
    for i in parallel(out.shape[0], 8):
        out[i] = c_rem(int64(words[i]), extent) + low
