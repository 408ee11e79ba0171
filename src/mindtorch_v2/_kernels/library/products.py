"""Products of vectors."""

from ..language import kernel, parallel, unrolled


@kernel
def cross(out, a, b):
    """Cross products along the middle dimension, of size 3."""
    inner = out.shape[2]
    for i in parallel(out.shape[0], 9 * inner):
        for j in range(inner):
            for k in unrolled(3):
                out[i, k, j] = a[i, (k + 1) % 3, j] * b[i, (k + 2) % 3, j] - a[i, (k + 2) % 3, j] * b[i, (k + 1) % 3, j]
