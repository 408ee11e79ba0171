"""Running sums, products and extrema along the n of [outer, n, inner]."""

from ..language import flat, float64, int64, kernel, like, local, parallel

COLUMNS = 256
_ROWS = 4  # rows that are gone through together: in one alone each step would wait for the one before


@kernel
def running_rows(out: flat, x: flat, rows, n, *, combine, start, wide):
    """Floating numbers (`wide`) are combined in float64, others in int64."""
    for turn in parallel((rows + _ROWS - 1) // _ROWS, 2 * _ROWS * n):
        first = turn * _ROWS * n
        if turn * _ROWS + _ROWS <= rows:
            a = float64(start) if wide else int64(start)
            b = float64(start) if wide else int64(start)
            c = float64(start) if wide else int64(start)
            d = float64(start) if wide else int64(start)
            for i in range(first, first + n):
                a = combine(a, like(x[i], out))
                b = combine(b, like(x[i + n], out))
                c = combine(c, like(x[i + 2 * n], out))
                d = combine(d, like(x[i + 3 * n], out))
                out[i] = a
                out[i + n] = b
                out[i + 2 * n] = c
                out[i + 3 * n] = d
        else:
            for row in range(turn * _ROWS, rows):
                total = float64(start) if wide else int64(start)
                for i in range(row * n, row * n + n):
                    total = combine(total, like(x[i], out))
                    out[i] = total


@kernel
def running_columns(out: flat, x: flat, outer, n, inner, width, *, combine, start, wide):
    blocks = (inner + width - 1) // width
    for turn in parallel(outer * blocks, 2 * n * min(width, inner)):
        o = turn // blocks
        first = (turn - o * blocks) * width
        columns = min(width, inner - first)
        at = o * n * inner + first
        total = local(COLUMNS, float64 if wide else int64)
        for j in range(columns):
            total[j] = start
        for k in range(n):
            for j in range(columns):
                i = at + k * inner + j
                made = combine(total[j], like(x[i], out))
                total[j] = made
                out[i] = made


@kernel
def extremes(values: flat, places: flat, x: flat, outer, n, inner, *, largest):
    """Running extrema, and where each was last met; a NaN wherever one comes, and from then on."""
    for turn in parallel(outer * inner, 4 * n):
        o = turn // inner
        at = o * n * inner + turn - o * inner
        best = x[at]
        place = 0
        for k in range(n):
            v = x[at + k * inner]
            better = v != v or (v >= best if largest else v <= best)
            best = v if better else best
            place = k if better else place
            values[at + k * inner] = best
            places[at + k * inner] = place
