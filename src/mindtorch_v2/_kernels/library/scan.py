"""Running sums, products and extrema along the n of [outer, n, inner]."""

from ..language import flat, float64, function, int64, kernel, like, local, parallel, unrolled
from .columns import COLUMNS, columns_of

ROWS = 4  # rows that are gone through together: in one alone each step would wait for the one before


@kernel
def running_rows(out: flat, x: flat, rows, n, *, combine, start, wide):
    """Floating numbers (`wide`) are combined in float64, others in int64."""
    for turn in parallel((rows + ROWS - 1) // ROWS, 2 * ROWS * n):
        total = local(ROWS, float64 if wide else int64)
        for r in unrolled(ROWS):
            total[r] = start
        for k in range(n):
            for r in unrolled(ROWS):  # where fewer rows are left, the last is gone through again
                i = min(turn * ROWS + r, rows - 1) * n + k
                made = combine(total[r], like(x[i], out))
                total[r] = made
                out[i] = made


@kernel
def running_columns(out: flat, x: flat, outer, n, inner, width, *, combine, start, wide):
    blocks = (inner + width - 1) // width
    for turn in parallel(outer * blocks, 2 * n * min(width, inner)):
        o, first, columns, at = columns_of(turn, blocks, width, n, inner)
        total = local(COLUMNS, float64 if wide else int64)
        for j in range(columns):
            total[j] = start
        for k in range(n):
            for j in range(columns):
                i = at + k * inner + j
                made = combine(total[j], like(x[i], out))
                total[j] = made
                out[i] = made


@function
def put_extreme(values, places, best, place, x, i, k, at, largest):
    """Element i, the k-th of a line: the largest (smallest) so far and where it was, kept at a place of two arrays."""
    v, b, p = x[i], best[at], place[at]
    better = v != v or (v >= b if largest else v <= b)
    b = v if better else b
    p = k if better else p
    best[at] = b
    place[at] = p
    values[i] = b
    places[i] = p


@kernel
def extreme_rows(values: flat, places: flat, x: flat, rows, n, *, largest):
    """Running extrema, and where each was last met; a NaN wherever one comes, and from then on."""
    for turn in parallel((rows + ROWS - 1) // ROWS, 4 * ROWS * n):
        best = local(ROWS, x)
        place = local(ROWS, int64)
        for r in unrolled(ROWS):
            best[r] = x[min(turn * ROWS + r, rows - 1) * n]
            place[r] = 0
        for k in range(n):
            for r in unrolled(ROWS):
                i = min(turn * ROWS + r, rows - 1) * n + k
                put_extreme(values, places, best, place, x, i, k, r, largest)


@kernel
def extreme_columns(values: flat, places: flat, x: flat, outer, n, inner, width, *, largest):
    blocks = (inner + width - 1) // width
    for turn in parallel(outer * blocks, 4 * n * min(width, inner)):
        o, first, columns, at = columns_of(turn, blocks, width, n, inner)
        best = local(COLUMNS, x)
        place = local(COLUMNS, int64)
        for j in range(columns):
            best[j] = x[at + j]
            place[j] = 0
        for k in range(n):
            for j in range(columns):
                i = at + k * inner + j
                put_extreme(values, places, best, place, x, i, k, j, largest)
