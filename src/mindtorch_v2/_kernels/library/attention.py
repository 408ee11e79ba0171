"""Rows of attention: scores become weights, and their gradients those of scores. Arrays are (heads, queries, keys)."""

from ..language import exp, function, inf, kernel, like, log, parallel

_EXPENSIVE = 8


@function
def seen_keys(row, first, keys, causal):
    """How many keys a query sees."""
    return min(first + row + 1, keys) if causal else keys


@kernel
def weights_of_scores(scores, top, total, scale: float, first, *, causal):
    """Scores as weights that add up to 1; the largest of a query, and the logarithm of the sum of its weights then."""
    rows, keys = scores.shape[1], scores.shape[2]
    for row in parallel(scores.shape[0] * rows, _EXPENSIVE * keys):
        h, r = row // rows, row % rows
        seen = seen_keys(r, first, keys, causal)
        largest = like(-inf, scores)
        for j in range(seen):
            largest = max(largest, scores[h, r, j] * scale)
        largest = like(0, scores) if largest == -inf else largest
        summed = like(0, scores)
        for j in range(seen):
            weight = exp(scores[h, r, j] * scale - largest)
            scores[h, r, j] = weight
            summed += weight
        factor = like(0, scores) if summed == 0 else 1 / summed
        for j in range(seen):
            scores[h, r, j] = scores[h, r, j] * factor
        for j in range(seen, keys):
            scores[h, r, j] = 0
        top[h, r] = largest
        total[h, r] = like(inf, scores) if summed == 0 else log(summed)


@kernel
def weights_again(scores, top, total, scale: float, first, *, causal):
    """The same weights, where the norms of the queries are known."""
    rows, keys = scores.shape[1], scores.shape[2]
    for row in parallel(scores.shape[0] * rows, _EXPENSIVE * keys):
        h, r = row // rows, row % rows
        seen = seen_keys(r, first, keys, causal)
        largest, factor = top[h, r], exp(-total[h, r])
        for j in range(seen):
            scores[h, r, j] = exp(scores[h, r, j] * scale - largest) * factor
        for j in range(seen, keys):
            scores[h, r, j] = 0


@kernel
def gradients_of_scores(grad, weights, scale: float):
    """Gradients of weights as those of the products that the scores are made of."""
    rows, keys = grad.shape[1], grad.shape[2]
    for row in parallel(grad.shape[0] * rows, 4 * keys):
        h, r = row // rows, row % rows
        shared = like(0, grad)
        for j in range(keys):
            shared += grad[h, r, j] * weights[h, r, j]
        for j in range(keys):
            grad[h, r, j] = (grad[h, r, j] - shared) * weights[h, r, j] * scale
