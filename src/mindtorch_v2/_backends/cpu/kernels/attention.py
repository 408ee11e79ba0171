"""Attention in blocks of queries: a kernel for each, and two for its gradients.

Where no kernels are compiled, OpenBLAS's threads compute a round (attention_rounds.py), or Python threads take some
samples each.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.dtype import row_major
from ...._core.geometry import packed_order, strided_array
from ...._core.threads import blas, get_num_threads
from ...._kernels.library import attention as kernels
from ...._kernels.panels import Tile
from ...._ops._declare.rules import Spec
from ...._ops.attention import NEVER, _attention_array, _backward_array, _Blocks, _for_all_heads, _of_shared
from .. import blas_team, shared_xp
from ..attention_rounds import attended, attended_back
from ..jit.calls import hurry, launched, note
from ..jit.machine import tile
from ..jit.repeats import empty, repeats, zeros
from ..team import in_parts, is_used

hurry(kernels.attend, kernels.attend_packed, kernels.pack_heads, kernels.queries_back, kernels.keys_back)
_STEP = 64  # queries, or keys, that a thread takes at once
_PACKED_FOR, _PACKED = 8, 48  # queries, and keys, from which on packing keys and values is worth it
_COST = 100  # multiplications that take as long as what is done with a score between products


def _takes(query: Any, *others: Any) -> bool:
    """Whether there is something to multiply, and BLAS to do it."""
    return (query.dtype.char in "fd" and blas() is not None
            and all(x.dtype == query.dtype and x.size for x in (query, *others)))


def _matrices(array: Any) -> Any:
    """(batch, heads, tokens, width), copied if the elements of a token are not neighbours."""
    if array.ndim == 4:
        made = array
    else:
        made = array.reshape(-1, *array.shape[-3:]) if array.ndim > 4 else array[(None,) * (4 - array.ndim)]
    (tokens, width), (down, right), size = made.shape[2:], made.strides[2:], made.itemsize
    lies_well = tokens == 1 or down >= width * size and down % size == 0
    return made if lies_well and (right == size or width == 1) else row_major(made)


def _step(tokens: int, heads: int) -> int:
    """How many queries or keys of one head make a turn: fewer than usual where that leaves threads without one."""
    wanted = -(-get_num_threads() // heads)
    return min(_STEP, max(-(-tokens // wanted), 8))


def _given(blocks: _Blocks, heads: slice, rows: slice, keys: slice) -> tuple[Any, float, dict[str, Any]]:
    """An array for scores, filled if there is a mask; by what they are multiplied, and how the kernels take them."""
    wide = blas().integers == 64  # type: ignore[union-attr]
    if blocks.mask is not None:
        return blocks.scores(heads, rows, keys), 1.0, dict(causal=False, scored=True, wide=wide)
    shape = (heads.stop - heads.start, rows.stop - rows.start, keys.stop)
    made = empty(shape, blocks.scale.dtype)
    return made, float(blocks.scale), dict(causal=blocks.is_causal, scored=False, wide=wide)


def _target(spec: Spec, kind: np.dtype, made: Callable = empty) -> Any:
    """An array for a result, in the type that is computed in: by `repeats.empty` what launches alone will write."""
    shape, strides = tuple(spec.shape), spec.strides
    if strides is None:
        return made(shape, kind)
    packed = packed_order(shape, strides)
    if packed is None:
        return strided_array(shape, kind, strides)
    return made(packed[0], kind).transpose(packed[1])


def _by_samples(compute: Callable[[slice], tuple], query: Any, key: Any, mask: Any) -> list[tuple] | None:
    """What `compute` makes of parts of the samples; None where they share a mask's dimensions."""
    if query.ndim != 4 or mask is not None and mask.ndim > 2:
        return None
    scores = math.prod(query.shape[:3]) * key.shape[-2]
    return in_parts(compute, len(query), scores * (2 * query.shape[3] + _COST))


def _panels(key: Any, value: Any, found: Tile) -> tuple[Any, Any]:
    """Arrays for keys and values in panels."""
    heads, tokens, width = key.shape[0] * key.shape[1], key.shape[2], found.width(key.itemsize)
    return (empty((heads * -(-tokens // width), key.shape[3], width), key.dtype),
            empty((heads * -(-value.shape[3] // width), tokens, width), key.dtype))


def _added(mask: Any, query: Any, key: Any) -> Any:
    """A mask as what is added to scores, for each sample and head; None without one."""
    if mask is None:
        return None
    if mask.dtype == bool:
        mask = np.where(mask, query.dtype.type(0), query.dtype.type(NEVER))
    return np.broadcast_to(mask, (*query.shape[:3], key.shape[2]))


def _attention_by_parts(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float,
                        spec: tuple) -> Any:
    """By Python threads, which take some samples each; None where NumPy's functions take all of them."""
    parts = _by_samples(lambda part: _attention_array(shared_xp(), query[part], key[part], value[part], mask,
                                                      is_causal, scale, spec), query, key, mask)
    if parts is None or len(parts) == 1:
        return parts and parts[0]
    return (np.concatenate([output for output, _ in parts], out=_target(spec[0], query.dtype, np.empty)),
            np.concatenate([norms for _, norms in parts], 1))


@repeats
def attention(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float, spec: tuple) -> Any:
    if not _takes(query, key, value):
        return None
    if is_used():
        def by_parts() -> Any:
            return _attention_by_parts(query, key, value, mask, is_causal, scale, spec)

        if query.ndim == 4 and blas_team.is_used():
            made = attended(query, key, value, _added(mask, query, key), is_causal, scale,
                            _target(spec[0], query.dtype, np.empty), by_parts)
            if made is not None:
                return made
        return by_parts()
    key, value = _for_all_heads(shared_xp(), query, key, value)
    blocks = _Blocks(shared_xp(), query, key, mask, is_causal, scale, get_num_threads())
    matrices = [_matrices(x) for x in (query, key, value)]
    made = _target(spec[0], query.dtype)
    target, norms = _matrices(made), empty((2, *made.shape[:-1]), query.dtype)
    tops, totals = norms.reshape(2, -1)
    is_used_often = query.shape[-2] >= _PACKED_FOR and key.shape[-2] >= _PACKED
    found = tile() if is_used_often else None
    packs = all(_step(query.shape[-2], heads.stop - heads.start) >= query.shape[-2] for heads, _, _ in blocks)
    factors: tuple[Any, ...] = ()
    is_ready = True
    if found is not None:
        factors = _panels(matrices[1], matrices[2], found)
        is_ready = packs or launched(kernels.pack_heads, *factors, *matrices[1:], tile=found.name)
    for heads, rows, keys in blocks:
        scores, factor, given = _given(blocks, heads, rows, keys)
        place = (heads.start, rows.start, _step(*scores.shape[1::-1]))
        if found is None:
            done = launched(kernels.attend, target, *matrices, scores, tops, totals, factor, *place, **given)
        else:
            run: Callable = launched if is_ready else note
            done = run(kernels.attend_packed, target, *matrices, *factors, scores, tops, totals, factor, *place,
                       causal=given["causal"], scored=given["scored"], packs=packs, tile=found.name)
        if not done:
            return None
    return made, norms


def _backward_by_parts(grad: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float,
                       norms: Any, output: Any, spec: tuple) -> Any:
    """The same of gradients."""
    parts = _by_samples(lambda part: _backward_array(shared_xp(), grad[part], query[part], key[part], value[part],
                                                     mask, is_causal, scale, norms[:, part], output[part], spec),
                        query, key, mask)
    if parts is None or len(parts) == 1:
        return parts and parts[0]
    return tuple([np.concatenate(some, out=_target(wanted, query.dtype, np.empty))
                  for some, wanted in zip(zip(*parts, strict=True), spec, strict=True)])


@repeats
def attention_backward(grad: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float,
                       norms: Any, output: Any, spec: tuple) -> Any:
    if not _takes(query, grad, key, value):
        return None
    if is_used():
        def by_parts() -> Any:
            return _backward_by_parts(grad, query, key, value, mask, is_causal, scale, norms, output, spec)

        if query.ndim == 4 and blas_team.is_used():
            targets = tuple([_target(wanted, query.dtype, np.empty) for wanted in spec])
            made = attended_back(grad, query, key, value, _added(mask, query, key), is_causal, scale, norms, targets,
                                 by_parts)
            if made is not None:
                return made
        return by_parts()
    all_keys, all_values = _for_all_heads(shared_xp(), query, key, value)
    blocks = _Blocks(shared_xp(), query, all_keys, mask, is_causal, scale, get_num_threads())
    queries, grads, keys_, values = (_matrices(x) for x in (query, grad, all_keys, all_values))
    tops, totals = norms.reshape(2, -1)
    several = next(iter(blocks))[1:] != (slice(0, queries.shape[2]), slice(0, keys_.shape[2]))
    start = zeros if several else empty
    if key.shape == all_keys.shape:
        results = [_target(wanted, query.dtype, how) for wanted, how in zip(spec, (empty, start, start), strict=True)]
    else:
        results = [_target(spec[0], query.dtype), *[start(x.shape, query.dtype) for x in (all_keys, all_values)]]
    of_query, of_key, of_value = map(_matrices, results)
    for heads, rows, keys in blocks:
        weights, factor, given = _given(blocks, heads, rows, keys)
        of_scores, place = empty(weights.shape, weights.dtype), (heads.start, rows.start)
        if not launched(kernels.queries_back, of_query, grads, queries, keys_, values, weights, of_scores, tops, totals,
                        factor, float(blocks.scale), *place, _step(*weights.shape[1::-1]), **given):
            return None
        if not launched(kernels.keys_back, of_key, of_value, grads, queries, weights, of_scores, *place,
                        _step(*weights.shape[::-2]), adds=several, causal=given["causal"], wide=given["wide"]):
            return None
    for at in (1, 2) if key.shape != all_keys.shape else ():
        summed = _of_shared(results[at], spec[at].shape)
        results[at] = _target(spec[at], query.dtype, np.empty)
        results[at][...] = summed
    return tuple(results)
