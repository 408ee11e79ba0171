"""Attention in blocks of queries: products of matrices, and one kernel for the rows between them."""

from typing import Any

import numpy as np

from ...._kernels.library import attention as kernels
from ...._ops.attention import _Blocks, _for_all_heads, _heads, _in_tokens, _of_shared
from .. import xp
from ..jit.calls import hurry, launched
from ..matrices import matmul

hurry(kernels.weights_of_scores, kernels.weights_again, kernels.gradients_of_scores)


def _products(blocks: _Blocks, heads: slice, rows: slice, keys: slice) -> tuple[Any, dict[str, Any]]:
    """Products of queries and keys, or scores if there is a mask, and how the kernels take them."""
    if blocks.mask is not None:
        return blocks.scores(heads, rows, keys), dict(scale=1.0, causal=False)
    made = matmul(blocks.query[heads, rows], blocks.key[heads, keys].transpose(0, 2, 1))
    return made, dict(scale=float(blocks.scale), causal=blocks.is_causal)


def attention(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float, spec: tuple) -> Any:
    key, value = _for_all_heads(xp, query, key, value)
    blocks, values = _Blocks(xp, query, key, mask, is_causal, scale), _heads(value)
    made = np.empty((*blocks.query.shape[:2], value.shape[-1]), query.dtype)
    norms = np.empty((2, *made.shape[:2]), query.dtype)
    for heads, rows, keys in blocks:
        scores, given = _products(blocks, heads, rows, keys)
        if not launched(kernels.weights_of_scores, scores, norms[0, heads, rows], norms[1, heads, rows],
                        given["scale"], rows.start, causal=given["causal"]):
            return None
        made[heads, rows] = matmul(scores, values[heads, keys])
    shape = (*blocks.batch, *made.shape[1:])
    return _in_tokens(xp, made.reshape(shape), spec[0]), norms.reshape(2, *shape[:-1])


def attention_backward(grad: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float,
                       norms: Any, output: Any) -> Any:
    all_keys, all_values = _for_all_heads(xp, query, key, value)
    blocks, values = _Blocks(xp, query, all_keys, mask, is_causal, scale), _heads(all_values)
    grads, norms = _heads(grad), norms.reshape(2, -1, norms.shape[-1])
    of_query = np.empty(blocks.query.shape, query.dtype)
    of_key, of_value = np.zeros(blocks.key.shape, query.dtype), np.zeros(values.shape, query.dtype)
    for heads, rows, keys in blocks:
        weights, given = _products(blocks, heads, rows, keys)
        if not launched(kernels.weights_again, weights, norms[0, heads, rows], norms[1, heads, rows], given["scale"],
                        rows.start, causal=given["causal"]):
            return None
        taken = grads[heads, rows]
        of_value[heads, keys] += matmul(weights.transpose(0, 2, 1), taken)
        of_scores = matmul(taken, values[heads, keys].transpose(0, 2, 1))
        if not launched(kernels.gradients_of_scores, of_scores, weights, float(blocks.scale)):
            return None
        of_query[heads, rows] = matmul(of_scores, blocks.key[heads, keys])
        of_key[heads, keys] += matmul(of_scores.transpose(0, 2, 1), blocks.query[heads, rows])
    return of_query.reshape(query.shape), _of_shared(of_key, key.shape), _of_shared(of_value, value.shape)
