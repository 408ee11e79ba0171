"""Products of vectors."""

from ..language import kernel, parallel, rounded, unrolled


@kernel
def cross(out, a, b):
    """Cross products along the middle dimension, of size 3; a factor may be one for all."""
    inner = out.shape[2]
    for i in parallel(out.shape[0], 9 * inner):
        u, v = i if a.shape[0] > 1 else 0, i if b.shape[0] > 1 else 0
        for j in range(inner):
            for k in unrolled(3):
                first = rounded(a[u, (k + 1) % 3, j] * b[v, (k + 2) % 3, j], out)
                out[i, k, j] = first - rounded(a[u, (k + 2) % 3, j] * b[v, (k + 1) % 3, j], out)


@kernel
def kron(out, a, b):
    """Every element of a matrix times another matrix."""
    height, width = b.shape[0], b.shape[1]
    for row in parallel(out.shape[0], out.shape[1]):
        i, k = row // height, row % height
        for j in range(a.shape[1]):
            factor, start = a[i, j], j * width
            for m in range(width):
                out[row, start + m] = factor * b[k, m]


@kernel
def addr(out, added, a, b, beta: float, alpha: float, *, adds):
    """The products of the elements of two vectors, and what is added to them."""
    for i in parallel(out.shape[0], out.shape[1]):
        factor = rounded(a[i] * alpha, out)
        for j in range(out.shape[1]):
            if adds:
                out[i, j] = rounded(added[i, j] * beta, out) + rounded(factor * b[j], out)
            else:
                out[i, j] = factor * b[j]
