"""Elements in another order."""

from ..language import kernel, parallel


@kernel
def flip(out, x):
    """Rows, which lie along the middle dimension, in the opposite order."""
    length, inner = x.shape[1], x.shape[2]
    for row in parallel(x.shape[0] * length, inner):
        o, i = row // length, row % length
        for j in range(inner):
            out[o, length - 1 - i, j] = x[o, i, j]


@kernel
def flip_rows(out, x):
    """The elements of each row in the opposite order."""
    length = x.shape[1]
    for o in parallel(x.shape[0], length):
        for i in range(length):
            out[o, i] = x[o, length - 1 - i]


@kernel
def roll(out, x, shift):
    """The elements of each row so many places further, the last ones in front."""
    length = x.shape[1]
    for o in parallel(x.shape[0], length):
        for i in range(length - shift):
            out[o, i + shift] = x[o, i]
        for i in range(shift):
            out[o, i] = x[o, length - shift + i]
