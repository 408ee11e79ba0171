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
