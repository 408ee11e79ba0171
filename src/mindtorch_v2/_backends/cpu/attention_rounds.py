"""Attention in one round of OpenBLAS's threads: each takes some queries of some heads, from scores to the result."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.threads import get_num_threads
from .programs import MOST_CALLS, deal, room

__all__ = ["attended", "attended_back"]

LEAST = 1 << 14  # scores from which on threads share them
_BLOCK = 1 << 16  # scores that a core's cache holds beside the rest
_CALLS = 6  # for a query
_COST = 16  # multiplications in the time of an element of a cheap loop
_STEPS = 16  # cheap loops in whose time one runs over scores as often as attention does, between products
_MOST_SCORES = 1 << 18  # of a head, all of which are held for gradients
_NEVER = float("-inf")


def attended(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float, made: Any,
             otherwise: Callable[[], tuple]) -> tuple | None:
    """The result, in `made`, and norms, or what `otherwise` gives as long as it is not written down; None for others.

    Arrays are (samples, heads, tokens, width); keys and values may have fewer heads, and the mask is what is added.
    """
    samples, heads, queries, width = query.shape
    keys = key.shape[2]
    scores, most = heads * queries * keys, MOST_CALLS // 2 // max(1, heads * queries * _CALLS)
    if samples * scores < LEAST or not most:
        return None
    step = min(samples, most)
    step = next((n for n in range(step, step // 2, -1) if samples % n == 0), step)
    blocks = min(queries, max(-(-queries * keys // _BLOCK), -(-get_num_threads() // (step * heads))))
    norms, given = np.empty((2, *query.shape[:3]), query.dtype), (is_causal, scale, blocks)
    others: list[tuple] = []
    for start in range(0, samples, step):
        some = slice(start, min(start + step, samples))
        count = some.stop - start
        arrays = [None if x is None else x[some] for x in (query, key, value, mask, made)]
        deal(np, _some_blocks, given, count * heads * blocks, (*arrays, norms[:, some]),
             effort=count * scores * (_STEPS + 2 * width // _COST),
             otherwise=lambda: others.append(otherwise()) if not others else None)
    if others:
        return others[0]
    if mask is not None:  # queries that see no key
        hidden = norms[1] == _NEVER
        norms[0][hidden], norms[1][hidden] = 0, -_NEVER
    return made, norms


def _some_blocks(xp: Any, part: slice, is_causal: bool, scale: float, blocks: int, query: Any, key: Any, value: Any,
                 mask: Any, made: Any, norms: Any) -> None:
    """Some blocks of queries, those of the first head first."""
    _, heads, queries, width = query.shape
    keys, shared = key.shape[2], heads // key.shape[1]
    rows = -(-queries // blocks)
    scaled, memory = room(query, (rows, width)), room(query, (rows * keys,))
    ones, weight = np.ones((keys, 1), query.dtype), room(query, (rows,))
    for at in range(part.start, part.stop):
        which, block = divmod(at, blocks)
        sample, head = divmod(which, heads)
        some = slice(queries * block // blocks, queries * (block + 1) // blocks)
        count, end = some.stop - some.start, min(some.stop, keys) if is_causal else keys
        scores = memory[: count * end].reshape(count, end)
        own = xp.multiply(query[sample, head, some], scale, out=scaled[:count])
        _score(xp, own, key[sample, head // shared, :end], None if mask is None else mask[sample, head, some, :end],
               some if is_causal else None, scores)
        top, total, out = norms[0, sample, head, some], norms[1, sample, head, some], made[sample, head, some]
        xp.maximum.reduce(scores, axis=1, out=top)
        if mask is not None:  # so that what is never looked at is -inf, not an undefined difference
            xp.maximum(top, float(np.finfo(query.dtype).min), out=top)
        xp.subtract(scores, top[:, None], out=scores)
        xp.exp(scores, out=scores)
        xp.matmul(scores, ones[:end], out=total[:, None])  # several times quicker than a sum
        xp.matmul(scores, value[sample, head // shared, :end], out=out)
        # A sum is at least 1, the weight of the largest score, or 0 where no key is seen.
        divisor = total if mask is None else xp.maximum(total, 1, out=weight[:count])
        xp.divide(out, divisor[:, None], out=out)
        xp.log(total, out=total)


def _score(xp: Any, query: Any, key: Any, mask: Any, causal: slice | None, scores: Any) -> None:
    """Scores of scaled queries, which are these of all of them if later keys are hidden."""
    xp.matmul(query, key.T, out=scores)
    if causal is not None:
        end = len(key)
        first = min(causal.start + 1, end)  # the first key that some query must not see
        first = 0 if 2 * first <= end else first  # whole rows are one loop
        hidden = np.arange(first, end) > np.arange(causal.start, causal.stop)[:, None]
        later = scores[:, first:]
        xp.add(later, np.where(hidden, query.dtype.type(_NEVER), query.dtype.type(0)), out=later)
    if mask is not None:
        xp.add(scores, mask, out=scores)


# gradients -----------------------------------------------------------------------------------------------------------


def attended_back(grad: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float, norms: Any,
                  made: tuple, otherwise: Callable[[], tuple]) -> tuple | None:
    """The gradients of queries, keys and values, in `made`, or what `otherwise` gives until it is written down.

    None for others. Arrays are as above; a thread takes all queries of a head of keys.
    """
    samples, heads, queries, width = query.shape
    keys = key.shape[2]
    calls, scores = samples * heads * queries * _CALLS, queries * keys
    if samples * heads * scores < LEAST or scores > _MOST_SCORES or calls > MOST_CALLS:
        return None
    if samples * key.shape[1] < get_num_threads() // 2:
        return None
    arrays, others = (grad, query, key, value, mask, norms, *made), []  # type: tuple, list[tuple]
    deal(np, _some_heads_back, (is_causal, scale), samples * key.shape[1], arrays,
         effort=samples * heads * scores * (_STEPS + 4 * width // _COST), otherwise=lambda: others.append(otherwise()))
    return others[0] if others else made


def _some_heads_back(xp: Any, part: slice, is_causal: bool, scale: float, grad: Any, query: Any, key: Any, value: Any,
                     mask: Any, norms: Any, of_query: Any, of_key: Any, of_value: Any) -> None:
    """The gradients of some heads of keys, and of the heads of queries that share them."""
    _, heads, queries, width = query.shape
    groups, keys = key.shape[1:3]
    scaled, ones = room(query, (queries, width)), np.ones((keys, 1), query.dtype)
    weights, of_scores = room(query, (queries, keys)), room(query, (queries, keys))
    column, sums = room(query, (queries,)), room(query, (queries,))
    for at in range(part.start, part.stop):
        sample, group = divmod(at, groups)
        own_key, own_value = key[sample, group], value[sample, group]
        for head in range(group * heads // groups, (group + 1) * heads // groups):
            given, own = grad[sample, head], xp.multiply(query[sample, head], scale, out=scaled)
            _score(xp, own, own_key, None if mask is None else mask[sample, head],
                   slice(0, queries) if is_causal else None, weights)
            xp.subtract(weights, norms[0, sample, head][:, None], out=weights)
            xp.exp(weights, out=weights)
            xp.negative(norms[1, sample, head], out=column)
            xp.exp(column, out=column)
            xp.multiply(weights, column[:, None], out=weights)
            is_first = head * groups % heads == 0
            _add_product(xp, weights.T, given, of_value[sample, group], is_first)
            xp.matmul(given, own_value.T, out=of_scores)
            # The sum of weights is 1 but for the rounding of scores that are made again, or 0 where no key is seen.
            xp.vecdot(of_scores, weights, out=column)
            xp.matmul(weights, ones, out=sums[:, None])
            xp.maximum(sums, 0.5, out=sums)
            xp.divide(column, sums, out=column)
            xp.subtract(of_scores, column[:, None], out=of_scores)
            xp.multiply(of_scores, weights, out=of_scores)
            xp.multiply(of_scores, scale, out=of_scores)
            xp.matmul(of_scores, own_key, out=of_query[sample, head])
            _add_product(xp, of_scores.T, query[sample, head], of_key[sample, group], is_first)


def _add_product(xp: Any, a: Any, b: Any, total: Any, is_first: bool) -> None:
    if is_first:
        xp.matmul(a, b, out=total)
    else:
        xp.add(total, xp.matmul(a, b), out=total)
