"""Arrays whose elements follow from their places."""

from ..language import float64, fma, kernel, parallel


@kernel
def spaced(out, start: float, end: float, step: float):
    """Numbers from start to end: the first half counted up from start, the second down from end."""
    count = out.shape[0]
    for i in parallel(count, 4):
        up = fma(float64(i), step, start)
        down = fma(float64(count - 1 - i), -step, end)
        out[i] = up if i < count // 2 else down


@kernel
def triangle(out, x, diagonal, *, lower):
    """The elements of matrices up to a diagonal, or from it on, and zeros."""
    for row in parallel(x.shape[0] * x.shape[1], x.shape[2]):
        n, i = row // x.shape[1], row % x.shape[1]
        for j in range(x.shape[2]):
            inside = j <= i + diagonal if lower else j >= i + diagonal
            out[n, i, j] = x[n, i, j] if inside else 0


@kernel
def with_zeros(out, x):
    """Real numbers as complex ones, which have two parts."""
    for i in parallel(out.shape[0], 2):
        out[i, 0] = x[i]
        out[i, 1] = 0
