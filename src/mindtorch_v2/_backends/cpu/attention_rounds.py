"""Attention in one round of OpenBLAS's threads: each takes some queries of some heads, from scores to the result."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.threads import get_num_threads
from . import blas_team
from .programs import MOST_CALLS, deal, room

__all__ = ["attended"]

LEAST = 1 << 14  # scores from which on threads share them
_BLOCK = 1 << 16  # scores that a core's cache holds beside the rest
_CALLS = 6  # for a query
_COST = 16  # multiplications in the time of an element of a cheap loop
_STEPS = 16  # cheap loops in whose time one runs over scores as often as attention does, between products
_NEVER = float("-inf")


def attended(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float, made: Any,
             otherwise: Callable[[], tuple]) -> tuple | None:
    """The result, in `made`, and norms, or what `otherwise` gives as long as it is not written down; None for others.

    Arrays are (samples, heads, tokens, width); keys and values may have fewer heads, and the mask is what is added.
    """
    samples, heads, queries, width = query.shape
    keys = key.shape[2]
    scores, most = heads * queries * keys, MOST_CALLS // 2 // max(1, heads * queries * _CALLS)
    if samples * scores < LEAST or not most or not blas_team.is_used():
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
        xp.matmul(own, key[sample, head // shared, :end].T, out=scores)
        if is_causal:
            first = min(some.start + 1, end)  # the first key that some query must not see
            first = 0 if 2 * first <= end else first  # whole rows are one loop
            hidden = np.arange(first, end) > np.arange(some.start, some.stop)[:, None]
            later = scores[:, first:]
            xp.add(later, np.where(hidden, query.dtype.type(_NEVER), query.dtype.type(0)), out=later)
        if mask is not None:
            xp.add(scores, mask[sample, head, some, :end], out=scores)
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
