"""PyTorch's CPU random numbers as NumPy arrays: every raw draw, in the same order of words.

Two building blocks, from the 32-bit words w0, w1, ... of an MT19937: a *float uniform* `(w mod 2^24) / 2^24` and a
*double uniform* `((w0 * 2^32 + w1) mod 2^53) / 2^53`. Where PyTorch's vector kernels fuse a multiplication and an
addition, or replace a transcendental function by a polynomial, the same is done here: the result is the same bits.
"""

import ctypes
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from .box_muller import BLOCK, normals_of_blocks
from .compiled import launching
from .few_draws import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    REAL_PART,
    WIDE_RANGE,
    few_by,
    few_integers,
    few_normals,
    few_uniforms,
    uniform_numbers,
)
from .mersenne_twister import Generator

CHUNK = 1 << 15  # elements worked on at once, so that intermediates stay in the cache

_INT64, _BOOL = np.dtype(np.int64), np.dtype(np.bool_)


# ---- uniforms ----------------------------------------------------------------------------------------------------


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


def _wide_words(generator: Generator, count: int) -> np.ndarray:
    """`count` uint64 numbers, each of two words, the first one the high half."""
    words = generator.words(2 * count)
    return words[0::2] << np.uint64(32) | words[1::2]


def _as_floats(words: np.ndarray) -> np.ndarray:
    words &= np.uint64(0xFFFFFF)
    uniforms = words.view(np.int64).astype(FLOAT32)
    uniforms *= np.float32(2**-24)
    return uniforms


def _double_bits(words: np.ndarray) -> np.ndarray:
    """Double uniforms before their division by 2^53, as int64, from two words each."""
    bits = words[0::2] & np.uint64(0x1FFFFF)
    bits <<= np.uint64(32)
    bits |= words[1::2]
    return bits.view(np.int64)


def _double_uniforms(generator: Generator, count: int) -> np.ndarray:
    return _as_doubles(generator.words(2 * count))


def _as_doubles(words: np.ndarray) -> np.ndarray:
    uniforms = _double_bits(words).astype(FLOAT64)
    uniforms *= 2.0**-53
    return uniforms


def _fill(result: np.ndarray, draw: Callable[[int], np.ndarray]) -> None:
    """Fills flat `result` with what `draw(count)` gives, piece by piece."""
    for start in range(0, len(result), CHUNK):
        piece = result[start : start + CHUNK]
        piece[...] = draw(len(piece))


Draw = Callable[[Generator, int], np.ndarray]


def _in_chunks(generator: Generator, shape: Sequence[int], dtype: np.dtype, draw: Draw) -> np.ndarray:
    """What `draw(generator, count)` gives, made piece by piece."""
    count = math.prod(shape)
    if count <= CHUNK:
        return draw(generator, count).reshape(shape)
    result = np.empty(count, dtype)
    _fill(result, functools.partial(draw, generator))
    return result.reshape(shape)


def fused_multiply_add(values: np.ndarray, factor: float, addend: float | np.ndarray) -> np.ndarray:
    """`values * factor + addend`, rounded once, in the dtype of `values` (float32 or float64)."""
    if values.dtype == FLOAT32:  # the product of two float32 is exact in float64
        return (values.astype(FLOAT64) * np.float64(factor) + addend).astype(FLOAT32)
    product = values * factor
    if np.ndim(addend) == 0 and addend == 0:
        return product
    # Error-free product (halves of the numbers multiply exactly) and sum; the lost parts are added at the end.
    splitter = 2.0**27 + 1
    shifted, shifted_factor = values * splitter, factor * splitter
    high, factor_high = shifted - (shifted - values), shifted_factor - (shifted_factor - factor)
    low, factor_low = values - high, factor - factor_high
    product_error = ((high * factor_high - product) + high * factor_low + low * factor_high) + low * factor_low
    total = product + addend
    share = total - product
    return total + (((product - (total - share)) + (addend - share)) + product_error)


def _narrowed(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`values` in `dtype`; PyTorch goes through float32 to the 16-bit types."""
    if dtype in (FLOAT16, BFLOAT16):
        values = values.astype(FLOAT32, copy=False)
    return values.astype(dtype, copy=False)


_UNIFORMS = {rounded: launching("random.uniforms", rounded=rounded) for rounded in (False, True)}


@functools.lru_cache(64, typed=True)
def _uniform_draw(dtype: np.dtype, low: float, high: float) -> Draw:
    """What draws numbers in [low, high) of a real type."""
    dtype = np.dtype(dtype)
    _require(low <= high, f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    kind, first, extent, unit, limit = uniform_numbers(dtype, low, high)
    launch, each = _UNIFORMS[kind != dtype], 2 if kind == FLOAT64 else 1

    def draw(generator: Generator, count: int) -> np.ndarray:
        words, made = generator.words(each * count), np.empty(count, dtype)
        if unit == 1 and launch(made, words, first, extent, low, limit):
            return made
        values = _as_doubles(words) if kind == FLOAT64 else _as_floats(words)
        if first != 0 or extent != 1:
            values = fused_multiply_add(values, extent / unit, first / unit)
        if unit != 1:
            values *= unit
        if kind == dtype:
            return values
        rounded = values.astype(dtype)
        rounded[rounded >= dtype.type(high)] = low  # what rounding to 16 bits has lifted out of the range
        return rounded

    return draw


@few_by(few_uniforms)
def uniform(
    generator: Generator, shape: Sequence[int], dtype: np.dtype, low: float = 0.0, high: float = 1.0
) -> np.ndarray:
    """Numbers in [low, high) for `rand` and `uniform_`; a complex number takes two."""
    if dtype in REAL_PART:
        return uniform(generator, (*shape, 2), REAL_PART[dtype], low, high).view(dtype).reshape(shape)
    return _in_chunks(generator, shape, dtype, _uniform_draw(dtype, low, high))


# ---- normals -----------------------------------------------------------------------------------------------------


_BLOCK_NORMALS = launching("random.block_normals")


def _block_normals(generator: Generator, count: int, dtype: np.dtype, mean: float, std: float) -> np.ndarray:
    """Normals for 16 or more contiguous elements; where 16 does not divide their number, the last 16 are made anew."""
    wide = 2 if dtype == FLOAT64 else 1
    if wide == 1:
        mean, std = (0.0, 1.0) if mean == 0 and std == 1 else (float(np.float32(mean)), float(np.float32(std)))

    def normals_of(words: np.ndarray) -> np.ndarray:
        if wide == 1:
            made = np.empty(len(words), FLOAT32)
            if _BLOCK_NORMALS(made, words, 0, 0, len(words) // BLOCK, mean, std):
                return _narrowed(made, dtype)
        normals = normals_of_blocks(_as_floats(words) if wide == 1 else _as_doubles(words))
        if mean != 0 or std != 1:
            normals = fused_multiply_add(normals, std, mean)
        return _narrowed(normals, dtype)

    rest = count % BLOCK
    bulk = (count - rest) // CHUNK * CHUNK
    result = np.empty(count, dtype)
    if bulk:
        _fill(result[:bulk], lambda size: normals_of(generator.words(wide * size)))
    whole = count - rest - bulk
    # The kernels of float32 and float64 draw for every place before they look at blocks, those of 16 bits do not.
    unused = rest if dtype in (FLOAT32, FLOAT64) else 0
    words = generator.words(wide * (whole + (unused + BLOCK if rest else 0)))
    if dtype == FLOAT32 and not bulk:
        done = _BLOCK_NORMALS(result, words, 0, 0, whole // BLOCK, mean, std)
        if done and (not rest or _BLOCK_NORMALS(result, words, count - BLOCK, len(words) - BLOCK, 1, mean, std)):
            return result
    if rest:
        words = np.concatenate((words[: wide * whole], words[-wide * BLOCK :]))
    normals = normals_of(words)
    result[bulk : bulk + whole] = normals[:whole]
    if rest:
        result[-BLOCK:] = normals[-BLOCK:]
    return result


def _normal_pair(first: float, second: float) -> tuple[float, float]:
    radius, angle = math.sqrt(-2.0 * math.log1p(-second)), 2.0 * math.pi * first
    return radius * math.cos(angle), radius * math.sin(angle)


_PAIRED_NORMALS = launching("random.paired_normals")


def _paired_normals(generator: Generator, count: int) -> np.ndarray:
    """Standard float64 normals, one pair after the other; an unused second one is kept for the next call."""
    kept = generator.double_normal
    if count and kept is not None:
        generator.double_normal = None
        return np.concatenate(([kept], _paired_normals(generator, count - 1)))
    words = generator.words(2 * (count + count % 2))
    made = np.empty((len(words) // 4, 2))
    if _PAIRED_NORMALS(made, words.reshape(-1, 4)):
        normals = made.reshape(-1)
    elif count < BLOCK:
        uniforms = _as_doubles(words)
        numbers = uniforms.tolist()
        normals = np.array([_normal_pair(*pair) for pair in zip(numbers[0::2], numbers[1::2])]).reshape(-1)
    else:
        uniforms = _as_doubles(words)
        radius, angle = np.sqrt(-2.0 * np.log1p(-uniforms[1::2])), 2.0 * math.pi * uniforms[0::2]
        normals = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=-1).reshape(-1)
    if count % 2:
        generator.double_normal = float(normals[-1])
    return normals[:count]


@few_by(few_normals("normal"), BLOCK - 1)
def normal(
    generator: Generator, shape: Sequence[int], dtype: np.dtype, mean: float = 0.0, std: float = 1.0
) -> np.ndarray:
    """Normals for `randn` and `normal_` of tensors that are contiguous."""
    return _normals(generator, shape, dtype, mean, std, in_blocks=True)


@few_by(few_normals("normal"))
def strided_normal(
    generator: Generator, shape: Sequence[int], dtype: np.dtype, mean: float = 0.0, std: float = 1.0
) -> np.ndarray:
    """Normals of tensors that are not."""
    return _normals(generator, shape, dtype, mean, std, in_blocks=False)


def _normals(
    generator: Generator, shape: Sequence[int], dtype: np.dtype, mean: float, std: float, in_blocks: bool
) -> np.ndarray:
    if dtype in REAL_PART:
        parts = _normals(generator, (*shape, 2), REAL_PART[dtype], mean, std / math.sqrt(2), in_blocks)
        return parts.view(dtype).reshape(shape)
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    count = math.prod(shape)
    if count >= BLOCK and in_blocks:
        return _block_normals(generator, count, dtype, mean, std).reshape(shape)
    normals = _paired_normals(generator, count)
    if mean != 0 or std != 1:
        normals = fused_multiply_add(normals, std, mean)
    return _narrowed(normals, dtype).reshape(shape)


def normal_tensor(
    generator: Generator, mean: np.ndarray | float, std: np.ndarray | float, shape: Sequence[int], dtype: np.dtype
) -> np.ndarray:
    """Normals of a shape for `torch.normal` where `mean`, `std` or both are arrays."""
    if not isinstance(std, np.ndarray):
        return normal(generator, shape, dtype, 0.0, std) + mean
    _require(bool((std >= 0).all()), "normal expects all elements of std >= 0.0")
    scaled = normal(generator, shape, dtype) * std
    return scaled + (mean if isinstance(mean, np.ndarray) else scaled.dtype.type(mean))


# ---- integers ----------------------------------------------------------------------------------------------------


def _remainder(numbers: np.ndarray, divisor: int) -> np.ndarray:
    """`numbers % divisor` for uint64; NumPy divides by a scalar faster than it takes the remainder."""
    if divisor & (divisor - 1) == 0:
        return numbers & np.uint64(divisor - 1)
    multiple = numbers // np.uint64(divisor)
    multiple *= np.uint64(divisor)
    return numbers - multiple


_INTEGERS = launching("random.integers")


@functools.lru_cache(64)
def _integer_draw(low: int, high: int, dtype: np.dtype) -> Draw:
    _require(low < high, f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    extent, base = high - low, np.uint64(low % (1 << 64))
    direct = dtype.kind in "iub" or dtype in (FLOAT32, FLOAT64)  # what machine code rounds as NumPy does

    def draw(generator: Generator, count: int) -> np.ndarray:
        if extent < WIDE_RANGE:
            numbers, made = generator.words(count), np.empty(count, dtype)
            if direct and _INTEGERS(made, numbers, extent, low, 1.0 / extent):
                return made
        else:
            numbers = _wide_words(generator, count)
        if extent < 1 << 64:
            numbers = _remainder(numbers, extent)
            numbers += base
        return numbers.view(np.int64).astype(dtype, copy=False)

    return draw


@few_by(few_integers)
def randint(generator: Generator, shape: Sequence[int], dtype: np.dtype, low: int, high: int) -> np.ndarray:
    """Whole numbers in [low, high); the whole range of int64 when `high` is 2^63 and `low` -2^63."""
    return _in_chunks(generator, shape, dtype, _integer_draw(low, high, dtype))


def largest_random(dtype: np.dtype) -> int:
    """The largest number that `random_` draws for `dtype`: the last one that counts without gaps."""
    if dtype.kind == "b":
        return 1
    if dtype.kind in "iu":
        return min(int(np.iinfo(dtype).max), (1 << 63) - 1)
    return 1 << {FLOAT16: 11, BFLOAT16: 8, FLOAT32: 24, FLOAT64: 53}[dtype]


@few_by(lambda dtype: few_integers(dtype, 0, largest_random(dtype) + 1))
def random_full(generator: Generator, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Numbers for `random_()`: from zero to the largest of `dtype`, two words each for the 8-byte types."""
    dtype = np.dtype(dtype)
    count = math.prod(shape)
    numbers = _wide_words(generator, count) if dtype.itemsize == 8 else generator.words(count)
    return _remainder(numbers, largest_random(dtype) + 1).view(np.int64).astype(dtype, copy=False).reshape(shape)


_SHUFFLED = launching("random.shuffled")


def randperm(generator: Generator, count: int) -> np.ndarray:
    """A permutation of range(count), int64: each place from the first on is swapped with one not before it."""
    steps = max(count - 1, 0)
    words, made = generator.words(steps), np.empty(count, np.int64)
    if _SHUFFLED(made, words):
        return made
    places = list(range(count))
    partners = words % np.arange(count, count - steps, -1, dtype=np.uint64)
    partners += np.arange(steps, dtype=np.uint64)
    for place, partner in enumerate(partners.tolist()):
        places[place], places[partner] = places[partner], places[place]
    return np.array(places, np.int64)


# ---- other distributions -----------------------------------------------------------------------------------------


_BELOW, _IMPROPER = launching("random.below"), launching("random.find_improper")
_DRAWS_BELOW = launching("random.draws_below")


@few_by(lambda dtype, p: ("below", math.ceil(p * 2.0**53)) if 0 <= p <= 1 and dtype not in REAL_PART else ())
def bernoulli_scalar(generator: Generator, shape: Sequence[int], dtype: np.dtype, p: float) -> np.ndarray:
    """True with probability `p`."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    bound = math.ceil(p * 2.0**53)

    def draw(generator: Generator, count: int) -> np.ndarray:
        words, made = generator.words(2 * count), np.empty(count, bool)
        return made if _BELOW(made, words, bound) else _double_bits(words) < bound

    return _in_chunks(generator, shape, _BOOL, draw)


def bernoulli_tensor(generator: Generator, p: np.ndarray) -> np.ndarray:
    """True with the probabilities `p`."""
    flat, wrong = p.reshape(-1), np.zeros(1, np.int64)
    checked = p.dtype in (FLOAT32, FLOAT64) and _IMPROPER(wrong, flat)
    _require(not wrong[0] if checked else bool(((p >= 0) & (p <= 1)).all()),
             "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  "
             "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)")
    words, made = generator.words(2 * p.size if p.dtype == FLOAT64 else p.size), np.empty(p.size, bool)
    if checked and _DRAWS_BELOW(made, words, flat):
        return made.reshape(p.shape)
    return (_as_doubles(words) if p.dtype == FLOAT64 else _as_floats(words)).reshape(p.shape) < p


def _from_doubles(
    generator: Generator, shape: Sequence[int], dtype: np.dtype, transform: Callable[[np.ndarray], np.ndarray],
    launch: Callable[..., bool], *numbers: float
) -> np.ndarray:
    """One double uniform per element, transformed in float64: by a kernel of (result, words, *numbers) if it can."""

    def draw(generator: Generator, count: int) -> np.ndarray:
        words, made = generator.words(2 * count), np.empty(count, dtype)
        if launch(made, words, *numbers):
            return made
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return _narrowed(transform(_as_doubles(words)), dtype)

    return _in_chunks(generator, shape, dtype, draw)


_EXPONENTIALS, _GEOMETRICS = launching("random.exponentials"), launching("random.geometrics")
_CAUCHIES, _LOG_NORMALS = launching("random.cauchies"), launching("random.log_normals")


@few_by(lambda dtype, lambd=1.0: ("exponential", -1.0 / lambd) if lambd > 0 else ())
def exponential(generator: Generator, shape: Sequence[int], dtype: np.dtype, lambd: float = 1.0) -> np.ndarray:
    """Exponentially distributed numbers with rate `lambd`."""
    _require(lambd > 0, f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    return _from_doubles(generator, shape, dtype, lambda u: -1.0 / lambd * np.log1p(-u),
                         _EXPONENTIALS, -1.0 / lambd)


@few_by(lambda dtype, p: ("geometric", math.log1p(-p)) if 0 < p < 1 and dtype.kind not in "iu" else ())
def geometric(generator: Generator, shape: Sequence[int], dtype: np.dtype, p: float) -> np.ndarray:
    """The number of trials up to the first success."""
    _require(0 < p < 1, f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    dtype = FLOAT64 if dtype.kind in "iu" else dtype
    return _from_doubles(generator, shape, dtype, lambda u: np.ceil(np.log(u) / math.log1p(-p)),
                         _GEOMETRICS, math.log1p(-p))


@few_by(lambda dtype, median=0.0, sigma=1.0: ("cauchy", float(median), float(sigma)) if sigma > 0 else ())
def cauchy(
    generator: Generator, shape: Sequence[int], dtype: np.dtype, median: float = 0.0, sigma: float = 1.0
) -> np.ndarray:
    """Cauchy distributed numbers."""
    _require(sigma > 0, f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    return _from_doubles(
        generator, shape, dtype, lambda u: fused_multiply_add(np.tan(math.pi * (u - 0.5)), sigma, median)
        if math.isfinite(median) else np.full_like(u, median), _CAUCHIES, median, sigma
    )


@few_by(few_normals("log_normal"))
def log_normal(
    generator: Generator, shape: Sequence[int], dtype: np.dtype, mean: float = 1.0, std: float = 2.0
) -> np.ndarray:
    """Numbers whose logarithm is normal; always drawn pair by pair."""
    _require(std > 0, f"log_normal_ expects std > 0.0, but found std={std:g}")
    normals, made = _paired_normals(generator, math.prod(shape)), np.empty(math.prod(shape), dtype)
    if _LOG_NORMALS(made, normals, mean, std):
        return made.reshape(shape)
    logarithms = fused_multiply_add(normals, std, mean)
    return _narrowed(np.exp(logarithms), np.dtype(dtype)).reshape(shape)


Uniform = Callable[[], float]
_AHEAD = 3  # times the words that are surely used are drawn at a time
_SAMPLED = {family: launching("random.sampled", hurried=True, family=family) for family in
            ("poisson", "binomial", "gamma")}


def _one_by_one(generator: Generator, family: str, drawn: np.ndarray, otherwise: np.ndarray | float,
                sample: Callable[..., float], first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """`sample(uniform, first, second)` as float64 for each element in turn: how many words one takes comes out then.

    The elements that take no word are those where `drawn` is false.
    """
    count = int(np.count_nonzero(drawn))
    if count != drawn.size:
        result = np.empty(drawn.shape, FLOAT64)
        result[...] = otherwise
        everywhere = np.ones(count, bool)
        result[drawn] = _one_by_one(generator, family, everywhere, 0.0, sample, first[drawn], second[drawn])
        return result
    first, second = (np.ascontiguousarray(values, FLOAT64).reshape(-1) for values in (first, second))
    made, at = np.empty(count, FLOAT64), np.zeros(2, np.int64)
    words = np.empty(0, np.uint64)
    kept = np.array([generator.double_normal is not None, generator.double_normal or 0.0])
    begun = 0
    while begun < count:
        least = 2 * min(count - begun, CHUNK)  # each takes one uniform
        more, put_back = generator.words_ahead(_AHEAD * least + 16 * BLOCK, least)
        left = len(words) - at[1]
        words = np.concatenate((words[at[1] :], more)) if left else more
        at[1] = 0
        done = _SAMPLED[family](made, first, second, words, at, kept, _STIRLING_TAILS)
        begun = int(at[0])
        if not done or begun == count:
            words = put_back(int(at[1]) - left)
            break
    generator.double_normal = float(kept[1]) if kept[0] else None
    block = iter(_as_doubles(words).tolist())
    to_come = count - begun

    def uniform() -> float:
        nonlocal block
        for number in block:
            return number
        block = iter(_double_uniforms(generator, 1 + to_come).tolist())
        return next(block)

    for place, numbers in enumerate(zip(first[begun:].tolist(), second[begun:].tolist()), begun):
        to_come -= 1
        made[place] = sample(uniform, *numbers)
    return made.reshape(drawn.shape)


def poisson(generator: Generator, rates: np.ndarray) -> np.ndarray:
    """float64 counts with the given rates."""
    _require(bool((rates >= 0).all()), "invalid Poisson rate, expected rate to be non-negative")
    return _one_by_one(generator, "poisson", rates > 0, 0.0, _poisson_count, rates, rates)


def _poisson_count(uniform: Uniform, rate: float, _: float) -> float:
    return _poisson_by_rejection(uniform, rate) if rate >= 10 else _poisson_by_product(uniform, rate)


def _poisson_by_product(uniform: Uniform, rate: float) -> int:
    """How many uniforms can be multiplied before the product falls to exp(-rate)."""
    count, product, bound = 0, uniform(), math.exp(-rate)
    while product > bound:
        product *= uniform()
        count += 1
    return count


@functools.cache
def _log_gamma() -> Callable[[float], float]:
    """The C library's, as PyTorch and machine code have it: that of Python rounds otherwise."""
    try:
        function = ctypes.CDLL(None).lgamma
    except (AttributeError, OSError, TypeError):
        return math.lgamma
    function.argtypes, function.restype = (ctypes.c_double,), ctypes.c_double
    return function


def _poisson_by_rejection(uniform: Uniform, rate: float) -> float:
    """Hoermann's transformed rejection with a squeeze."""
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha, squeeze = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = uniform() - 0.5, uniform()
        distance = 0.5 - abs(u)
        near = (2 * a / distance + b) * u + rate + 0.43
        count = math.floor(near) if abs(near) < 2.0**63 else -(2.0**63)  # as int64 has it
        if distance >= 0.07 and v <= squeeze:
            return count
        if count < 0 or (distance < 0.013 and v > distance):
            continue
        logarithm = math.log(v) + math.log(inverse_alpha) - math.log(a / (distance * distance) + b)
        if logarithm <= -rate + count * math.log(rate) - _log_gamma()(count + 1):
            return count


def binomial(generator: Generator, counts: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """How many of `counts` trials succeed, for each element."""
    uncertain = (counts > 0) & (probabilities > 0) & (probabilities < 1)
    certain = np.where((counts <= 0) | (probabilities <= 0), 0, np.where(probabilities >= 1, counts, probabilities))
    return _one_by_one(generator, "binomial", uncertain, certain, _successes, counts, probabilities)


def _successes(uniform: Uniform, n: float, p: float) -> float:
    if p > 0.5:
        return n - _successes(uniform, n, 1 - p)
    return _binomial_by_rejection(uniform, n, p) if n * p >= 10 else _binomial_by_waiting(uniform, n, p)


def _binomial_by_waiting(uniform: Uniform, n: float, p: float) -> int:
    """Successes within n trials, by the geometric waiting times between them."""
    successes, trials, log_failure = 0, 0.0, math.log1p(-p)
    while True:
        drawn = uniform()
        trials += math.ceil(math.log(drawn) / log_failure) if drawn else n + 1
        if trials > n:
            return successes
        successes += 1


def _binomial_by_rejection(uniform: Uniform, n: float, p: float) -> int:
    """Hoermann's transformed rejection with a squeeze, which takes the same few steps for any n."""
    deviation = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha, odds, mode = (2.83 + 5.1 / b) * deviation, p / (1 - p), math.floor((n + 1) * p)
    while True:
        u, v = uniform() - 0.5, uniform()
        distance = 0.5 - abs(u)
        count = math.floor((2 * a / distance + b) * u + n * p + 0.5)
        if distance >= 0.07 and v <= 0.92 - 4.2 / b:
            return count
        if not 0 <= count <= n:
            continue
        bound = ((mode + 0.5) * math.log((mode + 1) / (odds * (n - mode + 1)))
                 + (n + 1) * math.log((n - mode + 1) / (n - count + 1))
                 + (count + 0.5) * math.log(odds * (n - count + 1) / (count + 1))
                 + _stirling_tail(mode) + _stirling_tail(n - mode) - _stirling_tail(count) - _stirling_tail(n - count))
        if math.log(v * alpha / (a / (distance * distance) + b)) <= bound:
            return count


# What Stirling's formula for log(k!) leaves out, from k = 0 on.
_STIRLING_TAILS = np.array([
    math.lgamma(k + 1) - (k + 0.5) * math.log(k + 1) + (k + 1) - 0.5 * math.log(2 * math.pi) for k in range(10)])


def _stirling_tail(k: float) -> float:
    if k < 10:
        return float(_STIRLING_TAILS[int(k)])
    square = (k + 1.0) * (k + 1.0)
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1.0)


_SQUEEZE = float(np.float32(0.0331))  # rounded so in PyTorch's kernel


def standard_gamma(generator: Generator, shapes: np.ndarray) -> np.ndarray:
    """float64 numbers of the Gamma distributions with these shape parameters and rate 1.

    Marsaglia and Tsang's rejection; a shape below 1 is lifted by 1 and the number scaled down by a uniform's power.
    """
    with np.errstate(divide="ignore", over="ignore"):
        exponents = np.where(shapes < 0, np.inf, np.where(shapes < 1, 1 / shapes, 0))
    locations = (shapes + (shapes < 1) - np.float32(1 / 3)).astype(shapes.dtype, copy=False)

    def normal_number(uniform: Uniform) -> float:
        kept, generator.double_normal = generator.double_normal, None
        if kept is None:
            kept, generator.double_normal = _normal_pair(uniform(), uniform())
        return kept

    def sample(uniform: Uniform, exponent: float, d: float) -> float:
        scale = (1 - uniform()) ** exponent if exponent else 1.0
        c = 1 / math.sqrt(9 * d) if d > 0 else math.nan if d else math.inf
        while True:
            x = normal_number(uniform)
            while (y := 1 + c * x) <= 0:
                x = normal_number(uniform)
            cube, bound, square = y * y * y, 1 - uniform(), x * x
            if bound < 1 - _SQUEEZE * square * square or (
                math.log(bound) < 0.5 * square + d * (1 - cube + math.log(cube))
            ):
                return scale * d * cube

    return _one_by_one(generator, "gamma", shapes != 0, 0.0, sample, exponents, locations)


NO_WEIGHT = "invalid multinomial distribution (sum of probabilities <= 0)"
FEW = 16  # as long as the square of the number wanted is below so many times that of all, they are not sorted
_UNFIT, _CATEGORIES = launching("random.find_unfit"), launching("random.categories")
_LARGEST_FIRST = launching("random.largest_first")


def _known_to_fit(rows: np.ndarray) -> bool:
    """Whether machine code has found each row to be finite weights, not all zero."""
    wrong = np.zeros(1, np.int64)
    return _UNFIT(wrong, rows) and not wrong[0]


def multinomial(generator: Generator, weights: np.ndarray, num_samples: int, replacement: bool = False) -> np.ndarray:
    """int64 categories drawn with `weights`, one row per row of a 2-D `weights`."""
    rows = np.atleast_2d(weights)
    sample = _sampled_again if replacement and num_samples != 1 else _sampled_once
    return np.ascontiguousarray(sample(generator, rows, num_samples).reshape(*weights.shape[:-1], num_samples))


def _sampled_once(generator: Generator, rows: np.ndarray, num_samples: int) -> np.ndarray:
    """Distinct categories: those with the largest weight over an exponential number."""
    if not _known_to_fit(rows):
        valid = bool(((rows >= 0) & (rows < np.inf)).all())
        _require(valid, "probability tensor contains either `inf`, `nan` or element < 0")
        _require(bool(rows.any(axis=-1).all()), NO_WEIGHT)
    columns = 0 < rows.strides[0] < rows.strides[1]  # each column lies together: so do the numbers drawn for it
    lengths = exponential(generator, rows.shape[::-1] if columns else rows.shape, rows.dtype)
    with np.errstate(divide="ignore", invalid="ignore"):
        keys = rows / (lengths.T if columns else lengths)
    if num_samples == 1:
        return keys.argmax(axis=-1)
    made = np.empty((len(rows), num_samples), np.int64)
    if num_samples * num_samples <= FEW * rows.shape[1] and _LARGEST_FIRST(made, keys):
        return made
    return np.argsort(-keys, axis=-1, kind="stable")[:, :num_samples]


def _sampled_again(generator: Generator, rows: np.ndarray, num_samples: int) -> np.ndarray:
    """Categories that may repeat: where double uniforms fall among the cumulative sums."""
    if not _known_to_fit(rows):
        _require(bool((rows >= 0).all()), "invalid multinomial distribution (encountering probability entry < 0)")
        finite = bool(np.isfinite(rows).all())
        _require(finite, "invalid multinomial distribution (encountering probability entry = infinity or NaN)")
        _require(bool(rows.any(axis=-1).all()), NO_WEIGHT)
    result, bounds = np.empty((len(rows), num_samples), np.int64), np.empty(rows.shape, FLOAT64)
    words = generator.words(2 * result.size)
    if rows.size and _CATEGORIES(result, bounds, rows, words):
        return result
    sums = np.add.accumulate(rows, axis=-1, dtype=FLOAT64 if rows.dtype == FLOAT64 else FLOAT32)
    bounds[...] = sums / sums[:, -1:]
    bounds[:, -1:] = 1
    for row, row_bounds, uniforms in zip(result, bounds, _as_doubles(words).reshape(result.shape)):
        row[...] = np.searchsorted(row_bounds, uniforms)
    return result


# ---- order in memory ---------------------------------------------------------------------------------------------


def drawn_in_memory_order(
    draw: Callable[[tuple[int, ...]], np.ndarray], shape: Sequence[int], strides: Sequence[int]
) -> np.ndarray:
    """`draw` for a tensor of these strides: PyTorch fills the outermost stride first, whatever its dimension."""
    order = sorted(range(len(shape)), key=lambda dim: -strides[dim])
    inverse = np.argsort(order) if order else ()
    return np.ascontiguousarray(draw(tuple(shape[dim] for dim in order)).transpose(inverse))
