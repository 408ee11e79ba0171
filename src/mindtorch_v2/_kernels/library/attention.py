"""Attention of some heads: a thread takes a few queries of one, from products with keys to those with values.

Queries, keys, values and what is like them are (batch, heads, tokens, width), of which the elements of a token are
neighbours; scores and weights are (heads of all batches, queries, keys), of the heads from `head` and the queries from
`first` on. Rows are often short, and a query of causal attention sees a part of its row: keys are gone through in
blocks of so many that a block is a few vectors, and what a query does not see counts as nothing there.
"""

from ..language import (
    exp,
    function,
    inf,
    kernel,
    larger,
    like,
    local,
    log,
    multiply,
    multiply_panel,
    pack,
    parallel,
)

_EXPENSIVE, _LANES = 8, 16
_QUICK = 3  # multiplications of a product in the time of an addition
_ROWS = 24  # queries whose scores are made, weighed and used before the next ones'


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


@function
def weigh(scores, top, h, r, seen, keys, norm, scale):
    """Scores of a query as weights, whose sum it gives; the largest score is kept."""
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
    for j in range(max(blocks, seen), keys):
        scores[h, r, j] = 0
    top[norm] = largest
    return summed


@function
def norm_of(summed):
    """What is kept of the sum of a query's weights."""
    return like(inf, summed) if summed == 0 else log(summed)


@function
def factor_of(summed):
    """By what weights are to be multiplied, so that they add up to 1."""
    return like(0, summed) if summed == 0 else 1 / summed


@function
def weigh_again(scores, h, r, seen, keys, largest, factor, scale):
    """The same weights, where the norms of the query are known."""
    blocks = in_blocks(seen, keys)
    for j in range(0, blocks, _LANES):
        for k in range(_LANES):
            weight = exp(scores[h, r, j + k] * scale - largest) * factor
            scores[h, r, j + k] = weight if j + k < seen else like(0, scores)
    for j in range(blocks, seen):
        scores[h, r, j] = exp(scores[h, r, j] * scale - largest) * factor
    for j in range(max(blocks, seen), keys):
        scores[h, r, j] = 0


@function
def work_of(queries, keys, width, products):
    """What some queries take, in additions."""
    return queries * keys * (_EXPENSIVE + products * width // _QUICK)


@function
def pack_head(keys, values, key, value, h, tile):
    """A head's panels of its keys, transposed, and of its values, in those of all heads."""
    width = keys.shape[2]
    of_keys, of_values = (key.shape[2] + width - 1) // width, (value.shape[3] + width - 1) // width
    batch, at = h // key.shape[1], h % key.shape[1]
    for panel in range(of_keys):
        first = panel * width
        pack(keys, h * of_keys + panel, key, (batch, at, first, 0),
             (min(width, key.shape[2] - first), key.shape[3]), turned=True, tile=tile)
    for panel in range(of_values):
        first = panel * width
        pack(values, h * of_values + panel, value, (batch, at, 0, first),
             (min(width, value.shape[3] - first), value.shape[2]), turned=False, tile=tile)


@kernel
def pack_heads(keys, values, key, value, *, tile):
    """Panels of each head's keys and values: (heads of all batches times panels, inner, width)."""
    for h in parallel(key.shape[0] * key.shape[1], 2 * key.shape[2] * (key.shape[3] + value.shape[3])):
        pack_head(keys, values, key, value, h, tile)


@kernel
def attend_packed(out, query, key, value, keys, values, scores, top, total, scale: float, head, first, step, *, causal,
                  scored, packs, tile):
    """As `attend`, by panels of all keys and values: the queries of a turn in groups that see about as many keys.

    `packs`: a turn has all queries of a head, and packs its keys and values itself.
    """
    heads, rows, width, last, panel = query.shape[1], scores.shape[1], query.shape[3], out.shape[3], keys.shape[2]
    of_keys, of_values = (key.shape[2] + panel - 1) // panel, (last + panel - 1) // panel
    parts = (rows + step - 1) // step
    for turn in parallel(scores.shape[0] * parts, work_of(step, scores.shape[2], width, 2)):
        h, start = turn // parts, turn % parts * step
        batch, at = (head + h) // heads, (head + h) % heads
        end = min(start + step, rows)
        factors = local(_ROWS, scores)
        if packs:
            pack_head(keys, values, key, value, head + h, tile)
        for low in range(start, end, _ROWS):
            size = min(_ROWS, end - low)
            seen = seen_keys(low + size - 1, first, scores.shape[2], causal)
            if not scored:
                for j in range((seen + panel - 1) // panel):
                    multiply_panel(scores, (h, low, j * panel), query, (batch, at, first + low, 0), keys,
                                   (head + h) * of_keys + j, (size, min(panel, seen - j * panel), width), tile=tile)
            norm = (head + h) * query.shape[2] + first + low
            for r in range(size):
                factors[r] = weigh(scores, top, h, low + r, seen_keys(low + r, first, seen, causal), seen, norm + r,
                                   scale)
            for r in range(size):
                total[norm + r] = norm_of(factors[r])
                factors[r] = factor_of(factors[r])
            for j in range(of_values):
                multiply_panel(out, (batch, at, first + low, j * panel), scores, (h, low, 0), values,
                               (head + h) * of_values + j, (size, min(panel, last - j * panel), seen), tile=tile)
            for r in range(size):
                for j in range(last):
                    out[batch, at, first + low + r, j] = out[batch, at, first + low + r, j] * factors[r]


@kernel
def attend(out, query, key, value, scores, top, total, scale: float, head, first, step, *, causal, scored, wide):
    """The values of all keys, weighted for some queries, `step` of them at once; `scored`: the scores are known."""
    heads, rows, width, last = query.shape[1], scores.shape[1], query.shape[3], value.shape[3]
    parts = (rows + step - 1) // step
    for turn in parallel(scores.shape[0] * parts, work_of(step, scores.shape[2], width, 2)):
        h, low = turn // parts, turn % parts * step
        batch, at = (head + h) // heads, (head + h) % heads
        size = min(step, rows - low)
        keys = seen_keys(low + size - 1, first, scores.shape[2], causal)
        if not scored:
            multiply(scores, (h, low, 0), query, (batch, at, first + low, 0), key, (batch, at, 0, 0),
                     (size, keys, width), turned="b", wide=wide)
        for r in range(low, low + size):
            norm = (head + h) * query.shape[2] + first + r
            summed = weigh(scores, top, h, r, seen_keys(r, first, keys, causal), keys, norm, scale)
            total[norm] = norm_of(summed)
            factor = factor_of(summed)
            for j in range(keys):
                scores[h, r, j] = scores[h, r, j] * factor
        multiply(out, (batch, at, first + low, 0), scores, (h, low, 0), value, (batch, at, 0, 0), (size, last, keys),
                 wide=wide)


@kernel
def queries_back(of_query, grad, query, key, value, weights, of_scores, top, total, scale: float, of_products: float,
                 head, first, step, *, causal, scored, wide):
    """Gradients of some queries; the weights again, and the gradients of scores, for those of keys and values."""
    heads, rows, width, last = query.shape[1], weights.shape[1], query.shape[3], value.shape[3]
    parts = (rows + step - 1) // step
    for turn in parallel(weights.shape[0] * parts, work_of(step, weights.shape[2], width, 3)):
        h, low = turn // parts, turn % parts * step
        batch, at = (head + h) // heads, (head + h) % heads
        size, all_keys = min(step, rows - low), weights.shape[2]
        keys = seen_keys(low + size - 1, first, all_keys, causal)
        if not scored:
            multiply(weights, (h, low, 0), query, (batch, at, first + low, 0), key, (batch, at, 0, 0),
                     (size, keys, width), turned="b", wide=wide)
        multiply(of_scores, (h, low, 0), grad, (batch, at, first + low, 0), value, (batch, at, 0, 0),
                 (size, keys, last), turned="b", wide=wide)
        for r in range(low, low + size):
            norm = (head + h) * query.shape[2] + first + r
            weigh_again(weights, h, r, seen_keys(r, first, keys, causal), keys, top[norm], exp(-total[norm]), scale)
            shared, sum_of_weights = like(0, grad), like(0, grad)
            for j in range(keys):
                shared += of_scores[h, r, j] * weights[h, r, j]
                sum_of_weights += weights[h, r, j]
            shared /= max(sum_of_weights, 0.5)  # 1 but for the rounding of scores made again; 0 where all are hidden
            for j in range(keys):
                of_scores[h, r, j] = (of_scores[h, r, j] - shared) * weights[h, r, j] * of_products
            for j in range(keys, all_keys):
                weights[h, r, j] = 0
                of_scores[h, r, j] = 0
        multiply(of_query, (batch, at, first + low, 0), of_scores, (h, low, 0), key, (batch, at, 0, 0),
                 (size, width, keys), wide=wide)


@kernel
def keys_back(of_key, of_value, grad, query, weights, of_scores, head, first, step, *, adds, causal, wide):
    """Gradients of some keys and values, or what some queries add to them."""
    heads, rows, keys = query.shape[1], weights.shape[1], weights.shape[2]
    width, last = query.shape[3], grad.shape[3]
    parts = (keys + step - 1) // step
    for turn in parallel(weights.shape[0] * parts, work_of(rows, step, width, 2)):
        h, low = turn // parts, turn % parts * step
        batch, at = (head + h) // heads, (head + h) % heads
        size = min(step, keys - low)
        from_row = min(max(low - first, 0), rows - 1) if causal else 0  # queries before it see none of these keys
        multiply(of_value, (batch, at, low, 0), weights, (h, from_row, low), grad, (batch, at, first + from_row, 0),
                 (size, last, rows - from_row), turned="a", adds=adds, wide=wide)
        multiply(of_key, (batch, at, low, 0), of_scores, (h, from_row, low), query, (batch, at, first + from_row, 0),
                 (size, width, rows - from_row), turned="a", adds=adds, wide=wide)
