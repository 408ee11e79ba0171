"""Losses that want the scores of some classes to be ahead of all others by a margin: scores are (rows, classes).

And the loss of probabilities, element by element.
"""

from ..language import flat, function, kernel, like, log, log1p, parallel


@kernel
def multi_margin(losses, bad, scores, target, weight, margin: float, *, p, weighed):
    """The loss of each row for its one class; a class that there is not is told in `bad`."""
    classes = scores.shape[1]
    for row in parallel(scores.shape[0], classes):
        at = target[row]
        if at < 0 or at >= classes:
            bad[0] = 1
        else:
            ahead = margin - scores[row, at]
            total = like(0, scores)
            for j in range(classes):
                short = max(ahead + scores[row, j], 0)
                total += 0 if j == at else short * short if p == 2 else short
            losses[row] = total * weight[at] / classes if weighed else total / classes


@kernel
def multi_margin_backward(out, bad, grad, scores, target, weight, margin: float, scale: float, *, p, weighed, each):
    """The gradient of scores; `grad` is of each row, or one of all."""
    classes = scores.shape[1]
    for row in parallel(scores.shape[0], classes):
        at = target[row]
        if at < 0 or at >= classes:
            bad[0] = 1
        else:
            ahead = margin - scores[row, at]
            share = (grad[row] if each else grad[0]) * scale
            if weighed:
                share *= weight[at]
            total = like(0, scores)
            for j in range(classes):
                short = ahead + scores[row, j]
                given = 2 * short * share if p == 2 else share
                made = given if short > 0 and j != at else 0
                out[row, j] = made
                total += made
            out[row, at] = -total


@function
def list_classes(listed, bad, target, row, classes):
    """Puts 1 at the classes of a row up to the first negative one, and into `bad` where one is none."""
    for k in range(classes):
        if target[row, k] < -1 or target[row, k] >= classes:
            bad[0] = 1
    for k in range(classes):
        at = target[row, k]
        if at < 0 or at >= classes:
            break
        listed[row, at] = 1


@kernel
def multilabel_margin(losses, listed, bad, scores, target):
    """The loss of each row for the classes up to the first negative one; `listed` holds zeros, and is 1 at these."""
    classes = scores.shape[1]
    for row in parallel(scores.shape[0], 4 * classes):
        list_classes(listed, bad, target, row, classes)
        total = like(0, scores)
        for k in range(classes):
            at = target[row, k]
            if at < 0 or at >= classes:
                break
            ahead = 1 - scores[row, at]
            for j in range(classes):
                total += max(ahead + scores[row, j], 0) if listed[row, j] == 0 else 0
        losses[row] = total / classes


@kernel
def multilabel_margin_backward(out, listed, bad, grad, scores, target, scale: float, *, each):
    """The gradient of scores; `out` and `listed` hold zeros."""
    classes = scores.shape[1]
    for row in parallel(scores.shape[0], 4 * classes):
        list_classes(listed, bad, target, row, classes)
        share = (grad[row] if each else grad[0]) * scale
        for k in range(classes):
            at = target[row, k]
            if at < 0 or at >= classes:
                break
            ahead = 1 - scores[row, at]
            total = like(0, scores)
            for j in range(classes):
                made = share if listed[row, j] == 0 and ahead + scores[row, j] > 0 else 0
                out[row, j] += made
                total += made
            out[row, at] -= total


@kernel
def folded(out, losses, divisor):
    """The sum of losses over a divisor."""
    total = like(0, losses)
    for i in range(losses.shape[0]):
        total += losses[i]
    out[0] = total / divisor


@kernel
def binary_cross_entropy(losses: flat, bad, x: flat, target: flat, weight: flat, count, *, weighed):
    """The loss of each probability; one that is none is told in `bad`. A logarithm counts as -100 at least."""
    for i in parallel(count, 32):
        if not (x[i] >= 0 and x[i] <= 1 and target[i] >= 0 and target[i] <= 1):
            bad[0] = 1
        loss = (target[i] - 1) * max(log1p(-x[i]), -100) - target[i] * max(log(x[i]), -100)
        losses[i] = loss * weight[i] if weighed else loss
