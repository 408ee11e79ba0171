"""Rows of attention: scores become weights, and their gradients those of scores. Arrays are (heads, queries, keys).

Rows are often short, and a query of causal attention sees a part of its row: keys are gone through in blocks of so many
that a block is a few vectors, and what a query does not see counts as nothing there.
"""

from ..language import exp, function, inf, kernel, larger, like, local, log, parallel

_EXPENSIVE, _LANES = 8, 16


@function
def seen_keys(row, first, keys, causal):
    """How many keys a query sees."""
    return min(first + row + 1, keys) if causal else keys


@function
def in_blocks(seen, keys):
    """How many keys are in the blocks that the seen ones begin in; those behind the last whole block are in none."""
    return min((seen + _LANES - 1) // _LANES * _LANES, keys // _LANES * _LANES)


@function
def all_in(lanes, scores):
    """The sum of what is in the lanes."""
    total = like(0, scores)
    for k in range(_LANES):
        total += lanes[k]
    return total


@function
def largest_of(scores, h, r, seen, blocks, scale):
    """The largest score of a query; 0 where it has none but -inf."""
    lanes = local(_LANES, scores)
    for k in range(_LANES):
        lanes[k] = -inf
    for j in range(0, blocks, _LANES):
        for k in range(_LANES):
            score = scores[h, r, j + k] * scale
            lanes[k] = larger(lanes[k], score if j + k < seen else like(-inf, scores))
    largest = like(-inf, scores)
    for k in range(_LANES):
        largest = larger(largest, lanes[k])
    for j in range(blocks, seen):
        largest = larger(largest, scores[h, r, j] * scale)
    return like(0, scores) if largest == -inf else largest


@kernel
def weights_of_scores(scores, top, total, scale: float, first, *, causal):
    """Scores as weights that add up to 1; the largest of a query, and the logarithm of the sum of its weights then."""
    rows, keys = scores.shape[1], scores.shape[2]
    for row in parallel(scores.shape[0] * rows, _EXPENSIVE * keys):
        h, r = row // rows, row % rows
        seen = seen_keys(r, first, keys, causal)
        blocks = in_blocks(seen, keys)
        largest = largest_of(scores, h, r, seen, blocks, scale)
        lanes = local(_LANES, scores)
        for k in range(_LANES):
            lanes[k] = 0
        for j in range(0, blocks, _LANES):
            for k in range(_LANES):
                weight = exp(scores[h, r, j + k] * scale - largest)
                weight = weight if j + k < seen else like(0, scores)
                scores[h, r, j + k] = weight
                lanes[k] += weight
        summed = all_in(lanes, scores)
        for j in range(blocks, seen):
            weight = exp(scores[h, r, j] * scale - largest)
            scores[h, r, j] = weight
            summed += weight
        factor = like(0, scores) if summed == 0 else 1 / summed
        for j in range(seen):
            scores[h, r, j] = scores[h, r, j] * factor
        for j in range(max(blocks, seen), keys):
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
        blocks = in_blocks(seen, keys)
        largest, factor = top[h, r], exp(-total[h, r])
        for j in range(0, blocks, _LANES):
            for k in range(_LANES):
                weight = exp(scores[h, r, j + k] * scale - largest) * factor
                scores[h, r, j + k] = weight if j + k < seen else like(0, scores)
        for j in range(blocks, seen):
            scores[h, r, j] = exp(scores[h, r, j] * scale - largest) * factor
        for j in range(max(blocks, seen), keys):
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
