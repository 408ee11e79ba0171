"""Products of a matrix and a vector: the matrix is read once, so memory is what they wait for."""

from ..language import kernel, like, parallel


@kernel
def rows(out, a, x):
    """`a @ x`, of a matrix whose rows lie together."""
    for i in parallel(a.shape[0], a.shape[1]):
        total = like(0, a)
        for k in range(a.shape[1]):
            total += a[i, k] * x[k]
        out[i] = total


@kernel
def columns(out, a, x):
    """`x @ a`, a part of the result at a time, which stays in cache, and four rows at a time."""
    for block in parallel((a.shape[1] + 511) // 512, 512 * a.shape[0]):
        first = block * 512
        last = min(first + 512, a.shape[1])
        for i in range(first, last):
            out[i] = 0
        fours = a.shape[0] // 4
        for four in range(fours):
            k = 4 * four
            x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
            for i in range(first, last):
                out[i] += x0 * a[k, i] + x1 * a[k + 1, i] + x2 * a[k + 2, i] + x3 * a[k + 3, i]
        for k in range(4 * fours, a.shape[0]):
            factor = x[k]
            for i in range(first, last):
                out[i] += factor * a[k, i]
