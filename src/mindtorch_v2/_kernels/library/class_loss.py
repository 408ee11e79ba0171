"""Losses of class scores [samples, classes, inner] and targets [samples, inner], and their derivatives.

A class that there is not, unless it is the one to ignore, is told by `wrong[0]`; the caller says what of it.
"""

from ..language import exp, flat, float64, function, inf, kernel, larger, like, local, log, parallel
from .columns import COLUMNS

NONE, MEAN = 0, 1  # reductions; the third is the sum
_EXPENSIVE = 8


@function
def weight_of(weight, target, i, classes, ignored, weighted):
    """What an element counts: nothing where its class is ignored, or is none."""
    c = target[i]
    counts = c != ignored and 0 <= c < classes
    made = float64(0)
    if counts:
        made = float64(weight[c]) if weighted else float64(1)
    return made


@kernel
def reduce_losses(out: flat, wrong: flat, losses: flat, target: flat, weight: flat, count, classes, inner, ignored, *,
                  weighted, reduction, picks):
    """The loss of elements, times their weight: each, their sum, or their mean.

    With `picks`, `losses` are scores of all classes, of which that of the target is taken, negated.
    """
    total = float64(0)
    weights = float64(0)
    for i in range(count):
        own = weight_of(weight, target, i, classes, ignored, weighted)
        c = target[i]
        if c != ignored and not 0 <= c < classes:
            wrong[0] = True
        loss = float64(0)
        if c != ignored and 0 <= c < classes:
            loss = float64(-losses[(i // inner * classes + c) * inner + i % inner] if picks else losses[i]) * own
        total += loss
        weights += own
        if reduction == NONE:
            out[i] = loss
    if reduction != NONE:
        out[0] = total / weights if reduction == MEAN else total


@kernel
def spread_gradient(each: flat, grad: flat, target: flat, weight: flat, count, classes, ignored, *, weighted,
                    reduction):
    """The gradient of each element's loss, times its weight."""
    total = float64(0)
    if reduction == MEAN:
        for i in range(count):
            total += weight_of(weight, target, i, classes, ignored, weighted)
    for i in range(count):
        own = weight_of(weight, target, i, classes, ignored, weighted)
        g = float64(grad[i if reduction == NONE else 0]) * own
        each[i] = (g / total if target[i] != ignored else 0.0) if reduction == MEAN else g


@kernel
def place_gradient(out: flat, each: flat, target: flat, count, classes, inner, ignored):
    """Into zeros: the negated gradient of each element at its class."""
    for i in range(count):
        c = target[i]
        if c != ignored and 0 <= c < classes:
            out[(i // inner * classes + c) * inner + i % inner] = -each[i]


@kernel
def cross_entropy(losses: flat, tops: flat, totals: flat, scores: flat, target: flat, samples, classes, inner, width):
    """The loss of each element without its weight, its largest score, and the sum of exp(score - largest)."""
    blocks = (inner + width - 1) // width
    for turn in parallel(samples * blocks, _EXPENSIVE * classes * min(width, inner)):
        s = turn // blocks
        first = (turn - s * blocks) * width
        columns = min(width, inner - first)
        at = s * classes * inner + first
        if inner == 1:
            top = like(-inf, scores)
            for k in range(classes):
                top = larger(top, scores[at + k])
            total = like(0, scores)
            for k in range(classes):
                total += exp(scores[at + k] - top)
            tops[s] = top
            totals[s] = total
            c = target[s]
            losses[s] = log(total) - (scores[at + c] - top if 0 <= c < classes else like(0, scores))
        else:
            largest = local(COLUMNS, scores)
            added = local(COLUMNS, scores)
            for j in range(columns):
                largest[j] = -inf
                added[j] = 0
            for k in range(classes):
                for j in range(columns):
                    largest[j] = larger(largest[j], scores[at + k * inner + j])
            for k in range(classes):
                for j in range(columns):
                    added[j] += exp(scores[at + k * inner + j] - largest[j])
            for j in range(columns):
                i = s * inner + first + j
                tops[i] = largest[j]
                totals[i] = added[j]
            for j in range(columns):
                i = s * inner + first + j
                c = target[i]
                picked = scores[at + c * inner + j] - largest[j] if 0 <= c < classes else like(0, scores)
                losses[i] = log(added[j]) - picked


@kernel
def cross_entropy_gradient(out: flat, each: flat, scores: flat, target: flat, tops: flat, totals: flat, samples,
                           classes, inner, ignored):
    """(softmax - one hot) times the gradient of each element."""
    for s in parallel(samples, _EXPENSIVE * classes * inner):
        at = s * classes * inner
        for k in range(classes):
            for j in range(inner):
                i = s * inner + j
                scale = like(each[i], scores) / like(totals[i], scores)
                out[at + k * inner + j] = exp(scores[at + k * inner + j] - like(tops[i], scores)) * scale
        for j in range(inner):
            c = target[s * inner + j]
            if c != ignored and 0 <= c < classes:
                i = at + c * inner + j
                scale = like(each[s * inner + j], scores) / like(totals[s * inner + j], scores)
                own = exp(scores[i] - like(tops[s * inner + j], scores)) * scale
                out[i] = own - like(each[s * inner + j], scores)


@kernel
def cross_entropy_row_gradient(out: flat, each: flat, scores: flat, target: flat, tops: flat, totals: flat, rows,
                               classes, ignored):
    """The same where a sample has one element."""
    for row in parallel(rows, _EXPENSIVE * classes):
        at = row * classes
        own = like(each[row], scores)
        scale = own / like(totals[row], scores)
        top = like(tops[row], scores)
        for k in range(classes):
            out[at + k] = exp(scores[at + k] - top) * scale
        c = target[row]
        if c != ignored and 0 <= c < classes:
            out[at + c] = exp(scores[at + c] - top) * scale - own
