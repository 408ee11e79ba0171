"""Reductions: elements mapped, combined, and the total brought to what is asked for.

An array is seen as [outer, n, inner], folded over its n. Where inner is 1, the elements of a row are combined in the
lanes of vectors; else columns are, next to each other. Sums are taken in blocks, whose totals are added in float64
where the caller says `wide`: a running sum of more would lose digits. `parts` divides rows among several turns, which
leave partial results to be folded again.

The constants of a fold: `element(value, p)`, `combine(a, b)`, `start` (what changes nothing when combined) and
`finish(total, count, p)`.
"""

from ..language import (
    as_int,
    flat,
    float64,
    function,
    int64,
    isnan,
    kernel,
    larger,
    like,
    local,
    nan,
    parallel,
    pow,
    smaller,
    sqrt,
    unrolled,
)
from .columns import columns_of

BLOCK = 4096  # elements of a row that are added in lanes before they go into the total
ROWS = 256  # elements of a column
COLUMNS = 512  # at most so many are folded at a time, so that their totals stay in the cache


# elements ------------------------------------------------------------------------------------------------------------


@function
def itself(v, p):
    return v


@function
def whole(v, p):
    return int64(v)


@function
def number(v, p):
    """The element, zero for NaN."""
    return like(0, v) if isnan(v) else v


@function
def truth(v, p):
    return v != 0


@function
def counted(v, p):
    return int64(v != 0)


@function
def present(v, p):
    return like(1, v) if v != 0 else like(0, v)


@function
def size(v, p):
    return abs(v)


@function
def square(v, p):
    return v * v


@function
def powered(v, p):
    return pow(abs(v), p)


@function
def bits(v, p):
    """The bits of a floating element in float64."""
    return as_int(float64(v))


# combinations --------------------------------------------------------------------------------------------------------


@function
def sum_of(a, b):
    return a + b


@function
def product_of(a, b):
    return a * b


@function
def either(a, b):
    return a | b


@function
def both(a, b):
    return a & b


@function
def differing(a, b):
    return a ^ b


@function
def maximum_of(a, b):
    return a if a > b or a != a else b


@function
def minimum_of(a, b):
    return a if a < b or a != a else b


@function
def larger_of(a, b):
    return larger(a, b)


@function
def smaller_of(a, b):
    return smaller(a, b)


# ends ----------------------------------------------------------------------------------------------------------------


@function
def total_itself(total, count, p):
    return total


@function
def mean_of(total, count, p):
    return total / count


@function
def root(total, count, p):
    return sqrt(total)


@function
def root_of_power(total, count, p):
    return pow(total, 1 / p)


# folds ---------------------------------------------------------------------------------------------------------------


@kernel
def fold_rows(out: flat, x: flat, rows, n, parts, width, count, p: float, *, element, combine, start, finish, wide):
    """out[row * parts + part]: the fold of `width` elements of a row of n, from part * width on."""
    for turn in parallel(rows * parts, width):
        row = turn // parts
        first = row * n + (turn - row * parts) * width
        last = min(first + width, row * n + n)
        total = float64(start) if wide else like(start, element(like(0, x), p))
        most = BLOCK if wide else max(last - first, 1)  # only sums lose digits; products would underflow in each block
        for block in range(first, last, most):
            some = like(start, element(like(0, x), p))
            for i in range(block, min(block + most, last)):
                some = combine(some, element(x[i], p))
            total = combine(total, some)
        out[turn] = finish(total, count, p)


@kernel
def fold_short_rows(out: flat, x: flat, rows, n, count, p: float, *, element, combine, start, finish, wide):
    """The same of rows of at most BLOCK elements, four at a time: none waits for the end of another."""
    for turn in parallel((rows + 3) // 4, 4 * n):
        some = local(4, element(like(0, x), p))
        for r in unrolled(4):
            some[r] = start
        for k in range(n):
            for r in unrolled(4):  # where fewer rows are left, the last is folded again
                some[r] = combine(some[r], element(x[min(turn * 4 + r, rows - 1) * n + k], p))
        for r in unrolled(4):
            total = float64(some[r]) if wide else some[r]
            out[min(turn * 4 + r, rows - 1)] = finish(total, count, p)


@kernel
def fold_columns(out: flat, x: flat, outer, n, inner, width, count, p: float, *, element, combine, start, finish, wide):
    """out[o, j]: the fold of x[o, :, j]; a turn takes `width` columns, at most COLUMNS."""
    blocks = (inner + width - 1) // width
    for turn in parallel(outer * blocks, n * min(width, inner)):
        o, first, columns, at = columns_of(turn, blocks, width, n, inner)
        totals = local(COLUMNS, float64 if wide else element(like(0, x), p))
        some = local(COLUMNS, element(like(0, x), p))
        for j in range(columns):
            totals[j] = start
        most = ROWS if wide else n
        for block in range(0, n, most):
            end = min(block + most, n)
            for j in range(columns):
                some[j] = start
            for k in range(block, end - 3, 4):  # four at a time: `some` is loaded and stored less often
                for j in range(columns):
                    i = at + k * inner + j
                    first_two = combine(element(x[i], p), element(x[i + inner], p))
                    last_two = combine(element(x[i + 2 * inner], p), element(x[i + 3 * inner], p))
                    some[j] = combine(some[j], combine(first_two, last_two))
            for k in range(end - (end - block) % 4, end):
                for j in range(columns):
                    some[j] = combine(some[j], element(x[at + k * inner + j], p))
            for j in range(columns):
                totals[j] = combine(totals[j], some[j])
        for j in range(columns):
            out[o * inner + first + j] = finish(totals[j], count, p)


@kernel
def fold_apart_rows(out: flat, x, count, p: float, *, element, combine, start, finish, wide):
    """out[a, b]: the fold of the row x[a, b, :] of an array of any strides."""
    rows, n = x.shape[1], x.shape[2]
    most = BLOCK if wide else max(n, 1)
    for turn in parallel(x.shape[0] * rows, n):
        a, b = turn // rows, turn % rows
        total = float64(start) if wide else like(start, element(like(0, x), p))
        for block in range(0, n, most):
            some = like(start, element(like(0, x), p))
            for k in range(block, min(block + most, n)):
                some = combine(some, element(x[a, b, k], p))
            total = combine(total, some)
        out[turn] = finish(total, count, p)


@kernel
def fold_apart_columns(out: flat, x, width, count, p: float, *, element, combine, start, finish, wide):
    """out[a, b, j]: the fold of x[a, b, :, j] of an array of any strides; a turn takes `width` columns."""
    n, inner = x.shape[2], x.shape[3]
    blocks = (inner + width - 1) // width
    most = ROWS if wide else n
    for turn in parallel(x.shape[0] * x.shape[1] * blocks, n * min(width, inner)):
        row = turn // blocks
        a, b, first = row // x.shape[1], row % x.shape[1], turn % blocks * width
        columns = min(width, inner - first)
        totals = local(COLUMNS, float64 if wide else element(like(0, x), p))
        some = local(COLUMNS, element(like(0, x), p))
        for j in range(columns):
            totals[j] = start
        for block in range(0, n, most):
            end = min(block + most, n)
            for j in range(columns):
                some[j] = start
            for k in range(block, end - 3, 4):
                for j in range(columns):
                    i = first + j
                    first_two = combine(element(x[a, b, k, i], p), element(x[a, b, k + 1, i], p))
                    last_two = combine(element(x[a, b, k + 2, i], p), element(x[a, b, k + 3, i], p))
                    some[j] = combine(some[j], combine(first_two, last_two))
            for k in range(end - (end - block) % 4, end):
                for j in range(columns):
                    some[j] = combine(some[j], element(x[a, b, k, first + j], p))
            for j in range(columns):
                totals[j] = combine(totals[j], some[j])
        for j in range(columns):
            out[row * inner + first + j] = finish(totals[j], count, p)


@kernel
def extreme_rows(out: flat, x: flat, rows, n, parts, width, *, element, combine, start):
    """The largest or smallest (`larger_of`, `smaller_of`) floating element of parts of rows; NaN if there is one."""
    for turn in parallel(rows * parts, width):
        row = turn // parts
        first = row * n + (turn - row * parts) * width
        best = like(start, x)
        undefined = False
        for i in range(first, min(first + width, row * n + n)):
            v = element(x[i], 0.0)
            best = combine(best, v)
            undefined = undefined | isnan(v)
        out[turn] = like(nan, x) if undefined else best


# with their places ---------------------------------------------------------------------------------------------------


@kernel
def place_rows(values: flat, places: flat, x: flat, rows, n, parts, width, *, largest, start):
    """The first largest (or smallest) element of parts of rows, and its place in the row; NaN before all others."""
    for turn in parallel(rows * parts, 2 * width):
        row = turn // parts
        first = row * n + (turn - row * parts) * width
        last = min(first + width, row * n + n)
        best = like(start, x)
        undefined = False
        for i in range(first, last):
            v = x[i]
            best = larger(best, v) if largest else smaller(best, v)
            undefined = undefined | (v != v)
        found = first
        for block in range(first, last, 64):
            end = min(block + 64, last)
            met = False
            for i in range(block, end):
                v = x[i]
                met = met | (v != v if undefined else v == best)
            found = block
            if met:
                break
        while found < last - 1 and (x[found] == x[found] if undefined else x[found] != best):
            found += 1
        values[turn] = x[found]
        places[turn] = found - row * n


@kernel
def place_columns(values: flat, places: flat, x: flat, outer, n, inner, width, *, largest):
    """The same of columns."""
    blocks = (inner + width - 1) // width
    for turn in parallel(outer * blocks, n * min(width, inner)):
        o, first, columns, at = columns_of(turn, blocks, width, n, inner)
        best = local(COLUMNS, x)
        where = local(COLUMNS, int64)
        for j in range(columns):
            best[j] = x[at + j]
            where[j] = 0
        for k in range(1, n):
            for j in range(columns):
                v = x[at + k * inner + j]
                b = best[j]
                better = ((v > b if largest else v < b) | (v != v)) & (b == b)
                best[j] = v if better else b
                w = where[j]
                where[j] = k if better else w
        for j in range(columns):
            values[o * inner + first + j] = best[j]
            places[o * inner + first + j] = where[j]


# moments -------------------------------------------------------------------------------------------------------------


@function
def spread(squares, divisor, deviation):
    return sqrt(squares / divisor) if deviation else squares / divisor


@kernel
def moment_rows(made: flat, means: flat, x: flat, rows, n, parts, width, divisor: float, *, deviation):
    """Mean and sum of squared deviations of parts of rows; the latter divided, and the root taken where asked for.

    Blocks that fit into the cache are looked at twice, and what they give is put together.
    """
    for turn in parallel(rows * parts, 2 * width):
        row = turn // parts
        first = row * n + (turn - row * parts) * width
        last = min(first + width, row * n + n)
        mean = float64(0)
        squares = float64(0)
        for block in range(first, last, BLOCK):
            end = min(block + BLOCK, last)
            total = like(0, x)
            for i in range(block, end):
                total += x[i]
            own = total / like(end - block, x)
            off = like(0, x)
            some = like(0, x)
            for i in range(block, end):
                apart = x[i] - own
                off += apart
                some += apart * apart
            exact = float64(own) + float64(off) / (end - block)
            step = exact - mean
            share = float64(end - block) / float64(end - first)
            squares += float64(some) - float64(off) * float64(off) / (end - block)
            squares += step * step * share * (block - first)
            mean += step * share
        means[turn] = mean
        made[turn] = spread(max(squares, 0.0), divisor, deviation)


@kernel
def merge_moments(made: flat, means: flat, squares: flat, parts: flat, n, width, count, divisor: float, *, deviation):
    """One mean and spread of the parts of one row."""
    mean = float64(0)
    for i in range(count):
        mean += float64(min(width, n - i * width)) * parts[i] / float64(n)
    total = float64(0)
    for i in range(count):
        apart = parts[i] - mean
        total += squares[i] + apart * apart * float64(min(width, n - i * width))
    means[0] = mean
    made[0] = spread(total, divisor, deviation)


@kernel
def moment_columns(made: flat, means: flat, x: flat, outer, n, inner, width, divisor: float, *, deviation):
    """The same of columns."""
    blocks = (inner + width - 1) // width
    for turn in parallel(outer * blocks, 2 * n * min(width, inner)):
        o, first, columns, at = columns_of(turn, blocks, width, n, inner)
        mean = local(COLUMNS, float64)
        squares = local(COLUMNS, float64)
        centre = local(COLUMNS, x)
        some = local(COLUMNS, x)
        for j in range(columns):
            mean[j] = 0
            squares[j] = 0
        for block in range(0, n, ROWS):
            end = min(block + ROWS, n)
            for j in range(columns):
                some[j] = 0
            for k in range(block, end):
                for j in range(columns):
                    some[j] += x[at + k * inner + j]
            for j in range(columns):
                mean[j] += float64(some[j])
        for j in range(columns):
            mean[j] = mean[j] / n
            centre[j] = mean[j]
        for block in range(0, n, ROWS):
            end = min(block + ROWS, n)
            for j in range(columns):
                some[j] = 0
            for k in range(block, end):
                for j in range(columns):
                    apart = x[at + k * inner + j] - centre[j]
                    some[j] += apart * apart
            for j in range(columns):
                squares[j] += float64(some[j])
        for j in range(columns):
            i = o * inner + first + j
            gap = mean[j] - float64(centre[j])
            means[i] = mean[j]
            made[i] = spread(max(squares[j] - gap * gap * n, 0.0), divisor, deviation)


# products of complex numbers, whose parts follow each other ----------------------------------------------------------

_LANES = 32  # products that are made side by side


@kernel
def complex_product(out: flat, x: flat, outer, n, inner):
    """Of [outer, n, inner] numbers the products along n: columns side by side, or lanes of a row, then multiplied."""
    width = inner if inner > 1 else 1
    blocks = (width + _LANES - 1) // _LANES
    for turn in parallel(outer * blocks, 4 * n * min(width, _LANES)):
        o, first = turn // blocks, turn % blocks * _LANES
        real, imaginary = local(_LANES, x), local(_LANES, x)
        for lane in range(_LANES):
            real[lane] = 1
            imaginary[lane] = 0
        if inner > 1:
            for k in range(n):
                for lane in range(min(_LANES, inner - first)):
                    i = 2 * ((o * n + k) * inner + first + lane)
                    a, b, c, d = real[lane], imaginary[lane], x[i], x[i + 1]
                    real[lane] = a * c - b * d
                    imaginary[lane] = a * d + b * c
            for lane in range(min(_LANES, inner - first)):
                out[2 * (o * inner + first + lane)] = real[lane]
                out[2 * (o * inner + first + lane) + 1] = imaginary[lane]
        else:
            for block in range(n // _LANES):
                for lane in range(_LANES):
                    i = 2 * (o * n + block * _LANES + lane)
                    a, b, c, d = real[lane], imaginary[lane], x[i], x[i + 1]
                    real[lane] = a * c - b * d
                    imaginary[lane] = a * d + b * c
            for lane in range(n % _LANES):
                i = 2 * (o * n + n // _LANES * _LANES + lane)
                a, b, c, d = real[lane], imaginary[lane], x[i], x[i + 1]
                real[lane] = a * c - b * d
                imaginary[lane] = a * d + b * c
            whole, rest = real[0], imaginary[0]
            for lane in range(1, _LANES):
                a, b, c, d = whole, rest, real[lane], imaginary[lane]
                whole = a * c - b * d
                rest = a * d + b * c
            out[2 * o] = whole
            out[2 * o + 1] = rest
