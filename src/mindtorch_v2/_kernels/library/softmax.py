"""Softmax and its logarithm along the n of [outer, n, inner], their derivatives, and the logarithm of the sum.

Elements are computed with in the type of the result. Where inner is 1, a row is passed over while it is in the cache;
else blocks of columns are.
"""

from ..language import exp, flat, function, inf, isfinite, kernel, larger, like, local, log, parallel, rounded
from .columns import COLUMNS, columns_of

_EXPENSIVE = 8  # an exponential takes as long as so many additions


@kernel
def softmax_rows(out: flat, x: flat, rows, n, *, logarithm):
    for row in parallel(rows, _EXPENSIVE * n):
        first = row * n
        top = like(-inf, out)
        for i in range(first, first + n):
            top = larger(top, like(x[i], out))
        total = like(0, out)
        keeps = not logarithm and out.dtype != "float16" and out.dtype != "bfloat16"  # else `out` would round them
        if not keeps:
            for i in range(first, first + n):
                total += exp(like(x[i], out) - top)
            rest = log(total) if logarithm else 1 / total
            for i in range(first, first + n):
                moved = like(x[i], out) - top
                out[i] = moved - rest if logarithm else exp(moved) * rest
        else:
            for i in range(first, first + n):
                e = exp(like(x[i], out) - top)
                out[i] = e
                total += e
            scale = 1 / total
            for i in range(first, first + n):
                out[i] = out[i] * scale


@function
def find_tops(top, total, out, x, at, n, inner, columns):
    """The largest element of each column; the totals begin."""
    for j in range(columns):
        top[j] = -inf
        total[j] = 0
    for k in range(n):
        for j in range(columns):
            top[j] = larger(top[j], like(x[at + k * inner + j], out))


@kernel
def softmax_columns(out: flat, x: flat, outer, n, inner, width, *, logarithm):
    blocks = (inner + width - 1) // width
    for turn in parallel(outer * blocks, _EXPENSIVE * n * min(width, inner)):
        o, first, columns, at = columns_of(turn, blocks, width, n, inner)
        top = local(COLUMNS, out)
        total = local(COLUMNS, out)
        find_tops(top, total, out, x, at, n, inner, columns)
        keeps = not logarithm and out.dtype != "float16" and out.dtype != "bfloat16"
        for k in range(n):
            for j in range(columns):
                e = exp(like(x[at + k * inner + j], out) - top[j])
                total[j] += e
                if keeps:
                    out[at + k * inner + j] = e
        for j in range(columns):
            total[j] = log(total[j]) if logarithm else 1 / total[j]
        for k in range(n):
            for j in range(columns):
                i = at + k * inner + j
                if keeps:
                    out[i] = out[i] * total[j]
                else:
                    moved = like(x[i], out) - top[j]
                    out[i] = moved - total[j] if logarithm else exp(moved) * total[j]


@kernel
def backward_rows(out: flat, grad: flat, result: flat, rows, n, *, logarithm):
    for row in parallel(rows, (_EXPENSIVE if logarithm else 2) * n):
        first = row * n
        total = like(0, result)
        for i in range(first, first + n):
            total += grad[i] if logarithm else grad[i] * result[i]
        for i in range(first, first + n):
            out[i] = grad[i] - exp(result[i]) * total if logarithm else (grad[i] - total) * result[i]


@kernel
def backward_columns(out: flat, grad: flat, result: flat, outer, n, inner, width, *, logarithm):
    blocks = (inner + width - 1) // width
    for turn in parallel(outer * blocks, (_EXPENSIVE if logarithm else 2) * n * min(width, inner)):
        o, first, columns, at = columns_of(turn, blocks, width, n, inner)
        total = local(COLUMNS, result)
        for j in range(columns):
            total[j] = 0
        for k in range(n):
            for j in range(columns):
                i = at + k * inner + j
                total[j] += grad[i] if logarithm else grad[i] * result[i]
        for k in range(n):
            for j in range(columns):
                i = at + k * inner + j
                out[i] = grad[i] - exp(result[i]) * total[j] if logarithm else (grad[i] - total[j]) * result[i]


@kernel
def logsumexp_rows(out: flat, x: flat, rows, n, parts, width):
    """out[row * parts + part]: of `width` elements of a row of n, from part * width on.

    As in PyTorch, half precision is rounded to after each step.
    """
    for turn in parallel(rows * parts, _EXPENSIVE * width):
        row = turn // parts
        first = row * n + (turn - row * parts) * width
        last = min(first + width, row * n + n)
        top = like(-inf, out)
        for i in range(first, last):
            top = larger(top, like(x[i], out))
        top = top if isfinite(top) else like(0, out)
        total = like(0, out)
        for i in range(first, last):
            total += rounded(exp(rounded(like(x[i], out) - top, out)), out)
        out[turn] = rounded(log(rounded(total, out)), out) + top


@kernel
def logsumexp_columns(out: flat, x: flat, outer, n, inner, width):
    blocks = (inner + width - 1) // width
    for turn in parallel(outer * blocks, _EXPENSIVE * n * min(width, inner)):
        o, first, columns, at = columns_of(turn, blocks, width, n, inner)
        top = local(COLUMNS, out)
        total = local(COLUMNS, out)
        find_tops(top, total, out, x, at, n, inner, columns)
        for j in range(columns):
            largest = top[j]
            top[j] = largest if isfinite(largest) else like(0, out)
        for k in range(n):
            for j in range(columns):
                total[j] += rounded(exp(rounded(like(x[at + k * inner + j], out) - top[j], out)), out)
        for j in range(columns):
            out[o * inner + first + j] = rounded(log(rounded(total[j], out)), out) + top[j]
