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
    floor,
    fma,
    function,
    inf,
    int32,
    int64,
    isnan,
    kernel,
    larger,
    like,
    ordered,
    parallel,
    sqrt,
    uint32,
)

TWO_PI = 2 * math.pi
ROOT_HALF_BITS, ONE_BITS = 0x3F3504F3, 0x3F800000
TWO_63 = 2.0**63
SQUEEZE = 0.03310000151395798  # 0.0331 of float32
ANY = -1.0  # a limit that every number is beyond: always the C library's function


# ---- words -------------------------------------------------------------------------------------------------------

WORDS, LATER = 624, 397  # numbers in the state of an MT19937, and how far behind one that is which it is made of


@function
def twisted(here, after, later):
    """A number of the state that comes next: of that in its place, of the one behind it, and of one further on."""
    joined = here & 0x80000000 | after & 0x7FFFFFFF
    return later ^ joined >> 1 ^ -(joined & 1) & 0x9908B0DF


@function
def tempered(number):
    number = number ^ number >> 11
    number = number ^ number << 7 & 0x9D2C5680
    number = number ^ number << 15 & 0xEFC60000
    return number ^ number >> 18


@kernel
def next_words(out: flat, state: flat, count):
    """The next words of an MT19937; `state` has its numbers, and which of them comes next."""
    place, made = int64(state[WORDS]), 0
    while made < count:
        if place == WORDS:
            place -= WORDS
            for i in range(WORDS - LATER):
                state[i] = twisted(state[i], state[i + 1], state[i + LATER])
            for i in range(WORDS - LATER, WORDS - 1):
                state[i] = twisted(state[i], state[i + 1], state[i + LATER - WORDS])
            state[WORDS - 1] = twisted(state[WORDS - 1], state[0], state[LATER - 1])
        some = min(WORDS - place, count - made)
        for i in range(some):
            out[made + i] = tempered(state[place + i])
        place, made = place + some, made + some
    state[WORDS] = place


@function
def next_word(state):
    """The next word, where they are wanted one by one."""
    place = int64(state[WORDS])
    if place == WORDS:
        place -= WORDS
        for i in range(WORDS - LATER):
            state[i] = twisted(state[i], state[i + 1], state[i + LATER])
        for i in range(WORDS - LATER, WORDS - 1):
            state[i] = twisted(state[i], state[i + 1], state[i + LATER - WORDS])
        state[WORDS - 1] = twisted(state[WORDS - 1], state[0], state[LATER - 1])
    state[WORDS] = place + 1
    return tempered(state[place])


# ---- numbers -----------------------------------------------------------------------------------------------------


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


@function
def remainder(word, size, inverse):
    """Of a division by a size below 2^31; `inverse` is 1 / size.

    A quotient of floating numbers, which is one off at most, gives it quicker than a division of integers.
    """
    word = float64(uint32(word))
    rest = word - floor(word * inverse) * size
    rest = rest + size if rest < 0 else rest
    rest = rest - size if rest >= size else rest
    return int64(int32(rest))


@kernel
def integers(out, words, extent, low, inverse: float):
    """Of one word each, in a range from `low` on that has so many numbers, fewer than 2^31; `inverse` is 1 / extent."""
    for i in parallel(out.shape[0], 4):
        out[i] = remainder(words[i], float64(extent), inverse) + low


@kernel
def shuffled(out, words):
    """The numbers of range(n): each place from the first on is swapped with one not before it, by one word each."""
    n = out.shape[0]
    for i in range(n):
        out[i] = i
    for i in range(words.shape[0]):
        partner = i + c_rem(int64(words[i]), n - i)
        here, there = out[i], out[partner]
        out[i] = there
        out[partner] = here


# ---- few numbers, each from the words that come next --------------------------------------------------------------


@function
def next_double(state):
    high = next_word(state)
    low = next_word(state)
    return double_uniform(high, low)


@function
def normal_of_pair(state, kept):
    """A standard normal: the kept second one of the last pair, kept[1], if kept[0] says that there is one."""
    made = float64(kept[1])
    if kept[0] != 0:
        kept[0] = 0.0
    else:
        first = next_double(state)
        second = next_double(state)
        radius = sqrt(ordered(far("log1p", -second, ANY) * -2.0))
        angle = ordered(first * TWO_PI)
        made = ordered(radius * far("cos", angle, ANY))
        kept[0] = 1.0
        kept[1] = ordered(radius * far("sin", angle, ANY))
    return made


@kernel
def drawn(out: flat, state: flat, kept, count, a: float, b: float, c: float, d: float, *, family):
    """Numbers of a distribution with up to four parameters, as the kernels above make them from words."""
    for i in range(count):
        if family == "uniform" or family == "rounded":
            if out.dtype == "float64":
                out[i] = fma(next_double(state), b, a)
            else:
                out[i] = fma(float_uniform(next_word(state)), float32(b), float32(a))
            if family == "rounded":
                if out[i] >= d:
                    out[i] = c
        elif family == "below":
            high = next_word(state)
            low = next_word(state)
            out[i] = double_bits(high, low) < int64(a)
        elif family == "integer":
            out[i] = remainder(next_word(state), a, c) + int64(b)
        elif family == "exponential":
            out[i] = like(a * far("log1p", -next_double(state), ANY), out)
        elif family == "geometric":
            out[i] = like(ceil(far("log", next_double(state), ANY) / a), out)
        elif family == "cauchy":
            out[i] = like(fma(far("tan", math.pi * (next_double(state) - 0.5), ANY), b, a), out)
        elif family == "normal":
            out[i] = like(fma(normal_of_pair(state, kept), b, a), out)
        else:
            out[i] = like(far("exp", fma(normal_of_pair(state, kept), b, a), ANY), out)


# ---- how many words a number takes is not known before -----------------------------------------------------------


@function
def next_uniform(words, at):
    """A double uniform of the words from at[1] on; where these end, any one, and at[1] goes beyond them."""
    place = at[1]
    at[1] = place + 2
    place = place if place + 2 <= words.shape[0] else 0
    return double_uniform(words[place], words[place + 1])


@function
def next_normal(words, at, kept):
    """A standard normal: the kept second one of the last pair, kept[1], if kept[0] says that there is one."""
    made = float64(kept[1])
    if kept[0] != 0:
        kept[0] = 0.0
    else:
        first = next_uniform(words, at)
        second = next_uniform(words, at)
        radius = sqrt(ordered(far("log1p", -second, ANY) * -2.0))
        angle = ordered(first * TWO_PI)
        made = ordered(radius * far("cos", angle, ANY))
        kept[0] = 1.0
        kept[1] = ordered(radius * far("sin", angle, ANY))
    return made


@function
def poisson_by_product(rate, words, at):
    count = 0.0
    product = next_uniform(words, at)
    bound = far("exp", -rate, ANY)
    while product > bound and at[1] <= words.shape[0]:
        product = ordered(product * next_uniform(words, at))
        count = ordered(count + 1.0)
    return count


@function
def proposed(a, b, words, at):
    """Hormann's transformed rejection: a uniform, the other's distance from the ends, and what that proposes."""
    u = ordered(next_uniform(words, at) - 0.5)
    v = next_uniform(words, at)
    distance = ordered(0.5 - abs(u))
    return v, distance, ordered(ordered(ordered(2.0 * a) / distance + b) * u)


@function
def poisson_by_rejection(rate, words, at):
    b = ordered(0.931 + ordered(2.53 * sqrt(rate)))
    a = ordered(-0.059 + ordered(0.02483 * b))
    inverse_alpha = ordered(1.1239 + 1.1328 / ordered(b - 3.4))
    squeeze = ordered(0.9277 - 3.6224 / ordered(b - 2.0))
    count = 0.0
    found = False
    while not found and at[1] <= words.shape[0]:
        v, distance, middle = proposed(a, b, words, at)
        count = floor(ordered(ordered(middle + rate) + 0.43))
        count = count if abs(count) < TWO_63 else -TWO_63
        if distance >= 0.07 and v <= squeeze:
            found = True
        elif count >= 0 and not (distance < 0.013 and v > distance):
            spread = ordered(a / ordered(distance * distance) + b)
            left = ordered(ordered(far("log", v, ANY) + far("log", inverse_alpha, ANY)) - far("log", spread, ANY))
            right = ordered(ordered(count * far("log", rate, ANY)) - rate)
            found = left <= ordered(right - far("lgamma", ordered(count + 1.0), ANY))
    return count


@function
def binomial_by_waiting(n, p, words, at):
    successes = 0.0
    scale = far("log1p", -p, ANY)
    trials = waited(n, scale, words, at)
    while trials <= n and at[1] <= words.shape[0]:
        successes = ordered(successes + 1.0)
        trials = ordered(trials + waited(n, scale, words, at))
    return successes


@function
def waited(n, scale, words, at):
    """Trials up to the next success; more than n if the uniform is zero."""
    drawn = next_uniform(words, at)
    return ceil(far("log", drawn, ANY) / scale) if drawn > 0 else ordered(n + 1.0)


@function
def stirling_tail(k, tails):
    """What Stirling's formula for log(k!) leaves out: of a table, or a series."""
    more = ordered(k + 1.0)
    square = ordered(more * more)
    series = ordered(1 / 360 - 1 / 1260 / square) / square
    made = ordered(1 / 12 - series) / more
    if k < 10:
        made = tails[int64(k)]
    return made


@function
def binomial_by_rejection(n, p, words, at, tails):
    mean = ordered(n * p)
    deviation = sqrt(ordered(mean * ordered(1.0 - p)))
    b = ordered(1.15 + ordered(2.53 * deviation))
    a = ordered(ordered(-0.0873 + ordered(0.0248 * b)) + ordered(0.01 * p))
    alpha = ordered(ordered(2.83 + 5.1 / b) * deviation)
    odds = p / ordered(1.0 - p)
    mode = floor(ordered(ordered(n + 1.0) * p))
    squeeze = ordered(0.92 - 4.2 / b)
    count = 0.0
    found = False
    while not found and at[1] <= words.shape[0]:
        v, distance, middle = proposed(a, b, words, at)
        count = floor(ordered(ordered(middle + mean) + 0.5))
        if distance >= 0.07 and v <= squeeze:
            found = True
        elif 0 <= count <= n:
            above = ordered(ordered(n - mode) + 1.0)
            rest = ordered(ordered(n - count) + 1.0)
            first = ordered(ordered(mode + 0.5) * far("log", ordered(mode + 1.0) / ordered(odds * above), ANY))
            second = ordered(ordered(n + 1.0) * far("log", above / rest, ANY))
            third = ordered(ordered(count + 0.5) * far("log", ordered(odds * rest) / ordered(count + 1.0), ANY))
            bound = ordered(ordered(first + second) + third)
            bound = ordered(ordered(bound + stirling_tail(mode, tails)) + stirling_tail(ordered(n - mode), tails))
            bound = ordered(ordered(bound - stirling_tail(count, tails)) - stirling_tail(ordered(n - count), tails))
            spread = ordered(a / ordered(distance * distance) + b)
            found = far("log", ordered(v * alpha) / spread, ANY) <= bound
    return count


@function
def binomial_count(n, p, words, at, tails):
    flipped = p > 0.5
    chance = ordered(1.0 - p) if flipped else p
    count = 0.0
    if ordered(n * chance) >= 10:
        count = binomial_by_rejection(n, chance, words, at, tails)
    else:
        count = binomial_by_waiting(n, chance, words, at)
    return ordered(n - count) if flipped else count


@function
def gamma_number(exponent, d, words, at, kept):
    """Marsaglia and Tsang's rejection, times a uniform to a power that is not zero."""
    scale = 1.0
    if exponent != 0:
        base = ordered(1.0 - next_uniform(words, at))
        scale = far("pow", base, ANY, base, exponent)
    c = 1.0 / sqrt(ordered(9.0 * d))
    made = 0.0
    found = False
    while not found and at[1] <= words.shape[0]:
        x = next_normal(words, at, kept)
        y = ordered(1.0 + ordered(c * x))
        if not y <= 0:
            cube = ordered(ordered(y * y) * y)
            bound = ordered(1.0 - next_uniform(words, at))
            square = ordered(x * x)
            found = bound < ordered(1.0 - ordered(ordered(SQUEEZE * square) * square))
            if not found:
                inner = ordered(ordered(1.0 - cube) + far("log", cube, ANY))
                found = far("log", bound, ANY) < ordered(ordered(0.5 * square) + ordered(d * inner))
            made = ordered(ordered(scale * d) * cube)
    return made


@kernel
def sampled(out, first, second, words, at, kept, tails, *, family):
    """Numbers of a family of distributions, from out[at[0]] on, as far as the words from words[at[1]] on reach.

    `first` and `second` are the parameters of each number; `at` and `kept` (next_normal) stand behind the last number
    that was made, so that one for which the words do not suffice is begun anew when there are more.
    """
    going = True
    while going and at[0] < out.shape[0]:
        i = at[0]
        word = at[1]
        has, normal = float64(kept[0]), float64(kept[1])
        made = 0.0
        if family == "poisson":
            if first[i] >= 10:
                made = poisson_by_rejection(first[i], words, at)
            else:
                made = poisson_by_product(first[i], words, at)
        elif family == "binomial":
            made = binomial_count(first[i], second[i], words, at, tails)
        else:
            made = gamma_number(first[i], second[i], words, at, kept)
        if at[1] <= words.shape[0]:
            out[i] = made
            at[0] = i + 1
        else:
            at[1] = word
            kept[0] = has
            kept[1] = normal
            going = False


# ---- categories --------------------------------------------------------------------------------------------------


@kernel
def find_unfit(wrong, rows):
    """Whether a number is no finite weight, or all of a row are zero."""
    for r in parallel(rows.shape[0], rows.shape[1]):
        largest = like(0, rows)
        for j in range(rows.shape[1]):
            weight = rows[r, j]
            if not 0 <= weight < inf:
                wrong[0] = 1
            largest = larger(largest, weight)
        if largest == 0:
            wrong[0] = 1


@kernel
def categories(out, bounds, rows, words):
    """Where double uniforms fall among the cumulative sums of weights, whose shares `bounds` are to hold."""
    count = rows.shape[1]
    drawn = out.shape[1]
    for r in parallel(rows.shape[0], 4 * count + 20 * drawn):
        total = like(0, rows)
        for j in range(count):
            total = ordered(total + rows[r, j])
            bounds[r, j] = total
        for j in range(count):
            bounds[r, j] = like(bounds[r, j], rows) / total
        bounds[r, count - 1] = 1.0
        for j in range(drawn):
            word = 2 * (r * drawn + j)
            number = double_uniform(words[word], words[word + 1])
            low, high = 0, count
            while low < high:
                middle = (low + high) >> 1
                if bounds[r, middle] < number:
                    low = middle + 1
                else:
                    high = middle
            out[r, j] = low


@kernel
def largest_first(out, keys):
    """Where the largest of each row stand, the first of equals first, NaN last."""
    wanted = out.shape[1]
    for r in parallel(keys.shape[0], 4 * keys.shape[1]):
        held = 0
        for j in range(keys.shape[1]):
            key = keys[r, j]
            if held < wanted or precedes(key, keys[r, out[r, wanted - 1]]):
                place = held if held < wanted else wanted - 1
                while place > 0 and precedes(key, keys[r, out[r, max(place - 1, 0)]]):
                    out[r, place] = out[r, place - 1]
                    place -= 1
                out[r, place] = j
                held = held + 1 if held < wanted else held


@function
def precedes(key, other):
    return key > other or (isnan(other) and not isnan(key))
