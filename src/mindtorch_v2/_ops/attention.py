"""Attention: values averaged by how well queries match keys.

The operator works on blocks of queries, so that scores never take more memory than a cache has, and leaves out the keys
that a causal mask hides. Its backward makes the scores anew.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._autograd.names import OTHERWISE
from .._core.computed import computed_once
from .._core.dtype import BOOL, COMPUTE, FLOAT, bool_, float32
from .._core.geometry import strides_by_tokens
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.keys import TORCH_DISPATCH_MASK, modes
from .._dispatch.registry import registry
from ._declare.composites import Parts
from ._declare.families import computes
from ._declare.flops import Flops, sdpa_backward_flop, sdpa_flop
from ._declare.op import composite, function_of, op
from ._declare.recorded import once, recorded_gradients
from ._declare.rules import Spec, broadcast_shape, shape_misfit
from ._declare.samples import bools, case, cases, error, t
from .copy import preserved_strides
from .dropout import MASKED, dropout_bits

dropout = function_of(registry.get("dropout"))
NEVER = float("-inf")
BLOCK_SCORES = 1 << 17
C_NAMES = {"float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
           "int64": "long int", "int32": "int", "bool": "bool"}


# composed ------------------------------------------------------------------------------------------------------------


def _weights(query: Any, key: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    """How much each query takes of each key's value."""
    root = math.sqrt(abs(scale))
    scores = (query * math.copysign(root, scale)) @ (key.transpose(-2, -1) * root)
    if is_causal:
        mask = query.new_ones((query.size(-2), key.size(-2)), dtype=bool_).tril()
    if mask is None:
        return scores.softmax(-1)
    scores = scores.masked_fill(~mask, NEVER) if mask.dtype.category == BOOL else scores + mask
    unmatched = (scores == NEVER).all(-1, keepdim=True)  # such a query gets zeros, not an undefined average
    return scores.masked_fill(unmatched, 0).softmax(-1).masked_fill(unmatched, 0)


Drop = Callable[[Any], Any]  # leaves out some weights


def _all(weights: Any) -> Any:
    return weights


def _composed(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float, drop: Drop = _all) -> Any:
    """Attention out of ordinary operators."""
    kind, wide = query.dtype, COMPUTE.get(query.dtype, query.dtype)
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    return (drop(_weights(query, key, mask, is_causal, scale)) @ value).to(kind)


# in blocks -----------------------------------------------------------------------------------------------------------


class _Blocks:
    """Scores of blocks of (head, query) pairs against the keys they may see."""

    def __init__(self, xp: Any, query: Any, key: Any, mask: Any, is_causal: bool, scale: float,
                 threads: int = 1) -> None:
        self.xp, self.is_causal, self.batch, self.threads = xp, is_causal, query.shape[:-2], threads
        self.given, self.scale = (query, key), query.dtype.type(scale)
        if mask is not None:
            mask = (mask.reshape(mask.shape[-2:]) if mask.size == math.prod(mask.shape[-2:]) and mask.ndim > 2
                    else mask)
            shape = (query.shape[-2], key.shape[-2])
            mask = xp.broadcast_to(mask, shape if mask.ndim == 2 else (*self.batch, *shape))
        self.mask = mask

    @computed_once
    def query(self) -> Any:
        return _heads(self.given[0])

    @computed_once
    def key(self) -> Any:
        return _heads(self.given[1])

    def __iter__(self) -> Iterator[tuple[slice, slice, slice]]:
        heads, queries, keys = math.prod(self.batch), *(x.shape[-2] for x in self.given)
        most = BLOCK_SCORES * self.threads
        rows = max(min(queries, most // max(keys, 1)), 1)
        group = max(most // max(rows * keys, 1), 1) if rows == queries else 1
        for head in range(0, heads, group):
            for row in range(0, queries, rows):
                end = min(row + rows, queries)
                yield (slice(head, min(head + group, heads)), slice(row, end),
                       slice(0, min(end, keys) if self.is_causal else keys))

    def scores(self, heads: slice, rows: slice, keys: slice) -> Any:
        xp = self.xp
        made = xp.matmul(self.query[heads, rows] * self.scale, self.key[heads, keys].transpose(0, 2, 1))
        if self.is_causal:
            first = min(rows.start + 1, keys.stop)  # the first key that some query of the block must not see
            hidden = xp.arange(first, keys.stop) > xp.arange(rows.start, rows.stop)[:, None]
            made[:, :, first:] += xp.where(hidden, made.dtype.type(NEVER), made.dtype.type(0))
        if self.mask is not None:
            if self.mask.ndim == 2:
                mask = self.mask[rows, keys]
            else:
                mask = self.mask[(*xp.unravel_index(xp.arange(heads.start, heads.stop), self.batch), rows, keys)]
            made += xp.where(mask, made.dtype.type(0), made.dtype.type(NEVER)) if mask.dtype == bool else mask
        return made


def _heads(array: Any) -> Any:
    return array.reshape(math.prod(array.shape[:-2]), *array.shape[-2:])


def _for_all_heads(xp: Any, query: Any, *shared: Any) -> list[Any]:
    """Keys and values, repeated for the heads of queries that share them."""
    return [x if x.shape[:-2] == query.shape[:-2] else xp.repeat(x, query.shape[-3] // x.shape[-3], -3) for x in shared]


def _of_shared(made: Any, shape: tuple[int, ...]) -> Any:
    """Gradients for each head of queries, summed over those that share keys."""
    if made.size != math.prod(shape):
        made = made.reshape(math.prod(shape[:-2]), -1, *shape[-2:]).sum(1)
    return made.reshape(shape)


def _attention_array(xp: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float,
                     spec: tuple) -> tuple:
    key, value = _for_all_heads(xp, query, key, value)
    blocks, values = _Blocks(xp, query, key, mask, is_causal, scale), _heads(value)
    made = xp.empty((*blocks.query.shape[:2], value.shape[-1]), query.dtype)
    norms = xp.empty((2, *made.shape[:2]), query.dtype)
    for heads, rows, keys in blocks:
        scores = blocks.scores(heads, rows, keys)
        top = xp.maximum.reduce(scores, axis=-1, keepdims=True, initial=NEVER)
        top[top == NEVER] = 0
        scores -= top
        xp.exp(scores, out=scores)
        ones = xp.ones(scores.shape[-1], scores.dtype)  # a product with them is several times quicker than a sum
        total = xp.dot(scores.reshape(top.size, len(ones)), ones).reshape(top.shape)
        out = xp.matmul(scores, values[heads, keys])
        hidden = total == 0 if mask is not None else None  # queries that see no key
        out /= total if hidden is None else xp.where(hidden, 1, total)
        made[heads, rows] = out
        norms[0, heads, rows] = top[..., 0]
        norms[1, heads, rows] = xp.log(total if hidden is None else xp.where(hidden, -NEVER, total))[..., 0]
    shape = (*blocks.batch, *made.shape[1:])
    return _laid(xp, made.reshape(shape), spec[0]), norms.reshape(2, *shape[:-1])


def _laid(xp: Any, made: Any, spec: Spec) -> Any:
    """The result as the spec has it; that of some of the samples as it is."""
    if spec.strides is None or made.shape != tuple(spec.shape):
        return made
    wanted = xp.uninitialised(made.shape, made.dtype, spec.strides)
    wanted[...] = made
    return wanted


def _attention_specs(query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool, scale: float) -> tuple:
    """A result lies as a copy of the query does, if the elements of a token are neighbours."""
    shape = query._array.shape
    made, strides = (*shape[:-1], value._array.shape[-1]), None
    if query.dim() == 4 and made == shape and query.stride(3) == 1:
        strides = preserved_strides(query, None)
        if strides is not None and min(strides[:3]) < shape[3]:
            strides = None
    return Spec(made, query.dtype, strides), Spec((2, *shape[:-1]), COMPUTE.get(query.dtype, query.dtype))


def _composed_of(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float, *dropped: Any) -> Any:
    """What the operators compute, composed."""
    if key.shape[:-2] != query.shape[:-2]:
        key, value = _shared_keys(query, (key, value))
    return _composed(query, key, value, mask, is_causal, scale, _dropping(*dropped))


@once
def _attention_grad(grads, query, key, value, mask, is_causal, scale, output, norms, needs):
    if modes.grad_enabled:
        return recorded_gradients(lambda q, k, v: (_composed_of(q, k, v, mask, is_causal, scale),),
                                  (query, key, value), grads[:1], needs)
    return call_bound(_BACKWARD, (grads[0], query, key, value, mask, is_causal, scale, norms, output))


# The norms are the largest score of a query and the logarithm of the sum of its weights then.
_ATTENTION = op(
   "_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, bool is_causal, float scale) -> (Tensor output, "
   "Tensor norms)",
   kernel=computes(_attention_specs, _attention_array),
   kernels={"cpu": "attention.attention", "cuda": "attention.attention",
            "npu": "attention.attention"},
   grad={"query, key, value": _attention_grad}, public="",
   decomposition=lambda *args: (_composed_of(*args), None),
   flops=Flops(sdpa_flop, "_scaled_dot_product_flash_attention"),
   node={"ScaledDotProductFlashAttentionForCpuBackward0": "query.dim() == 4", "UnsafeViewBackward0": OTHERWISE})


def _backward_array(xp: Any, grad: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float,
                    norms: Any, output: Any, spec: tuple) -> tuple:
    all_keys, all_values = _for_all_heads(xp, query, key, value)
    blocks, values = _Blocks(xp, query, all_keys, mask, is_causal, scale), _heads(all_values)
    grads, norms = _heads(grad), norms.reshape(2, -1, norms.shape[-1], 1)
    of_query = xp.empty(blocks.query.shape, query.dtype)
    of_key, of_value = xp.zeros(blocks.key.shape, query.dtype), xp.zeros(values.shape, query.dtype)
    for heads, rows, keys in blocks:
        weights = blocks.scores(heads, rows, keys)
        weights -= norms[0, heads, rows]  # first, since large scores would leave few digits of their sum
        xp.exp(weights, out=weights)
        weights *= xp.exp(-norms[1, heads, rows])
        given = grads[heads, rows]
        of_value[heads, keys] += xp.matmul(weights.transpose(0, 2, 1), given)
        of_scores = xp.matmul(given, values[heads, keys].transpose(0, 2, 1))
        # Their sum is 1 but for the rounding of scores that are made again, or 0 where all keys are hidden.
        of_scores -= (xp.vecdot(of_scores, weights) / xp.maximum(weights.sum(-1), 0.5))[..., None]
        of_scores *= weights
        of_scores *= blocks.scale
        of_query[heads, rows] = xp.matmul(of_scores, blocks.key[heads, keys])
        of_key[heads, keys] += xp.matmul(of_scores.transpose(0, 2, 1), blocks.query[heads, rows])
    made = of_query.reshape(query.shape), _of_shared(of_key, key.shape), _of_shared(of_value, value.shape)
    return tuple([_laid(xp, each, wanted) for each, wanted in zip(made, spec, strict=True)])


def _backward_by_parts(grad_out: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float,
                       norms: Any, output: Any, *dropped: Any) -> tuple:
    """The gradients out of ordinary operators, which make the weights anew."""
    wide = COMPUTE.get(query.dtype, query.dtype)
    grad, q, k, v = (each.to(wide) for each in (grad_out, query, key, value))
    if k.shape[:-2] != q.shape[:-2]:
        k, v = _shared_keys(q, (k, v))
    weights, drop = _weights(q, k, mask, is_causal, scale), _dropping(*dropped)
    of_weights = drop(grad @ v.transpose(-2, -1))
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, True)) * scale

    def of_shared(made: Any, shape: Any) -> Any:
        """Summed over the heads of queries that share keys."""
        return made if made.shape == shape else made.reshape((*shape[:-2], -1, *shape[-2:])).sum(-3)

    return (of_scores @ k, of_shared(of_scores.transpose(-2, -1) @ q, key.shape),
            of_shared(drop(weights).transpose(-2, -1) @ grad, value.shape))


def _backward_specs(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> tuple:
    """Gradients of samples of heads lie token by token, with all heads of one together."""
    given = (query, key, value)
    by_tokens = (query.dim() == 4 and query._array.shape[3] == value._array.shape[3]
                 and all([x.stride(3) == 1 for x in given]))
    return tuple([Spec(x._array.shape, query.dtype, strides_by_tokens(x._array.shape) if by_tokens else None)
                  for x in given])


_BACKWARD = op(
   "_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor? mask, bool is_causal, float "
   "scale, Tensor norms, Tensor output) -> (Tensor result, Tensor result1, Tensor result2)",
   kernel=computes(_backward_specs, _backward_array),
   kernels={"cpu": "attention.attention_backward", "cuda": "attention.attention_backward",
            "npu": "attention.attention_backward"},
   decomposition=lambda *args: _backward_by_parts(*args),
   public="", flops=Flops(sdpa_backward_flop, "_scaled_dot_product_flash_attention_backward"))


# with dropout, on devices that draw bits for it -----------------------------------------------------------------------


def _dropping(bits: Any = None, dropout_p: float = 0.0) -> Drop:
    return _all if bits is None else lambda weights: call_bound(MASKED, (weights, bits, dropout_p))


@once
def _dropped_grad(grads, query, key, value, mask, is_causal, scale, bits, dropout_p, output, norms, needs):
    if modes.grad_enabled:
        return recorded_gradients(lambda q, k, v: (_composed_of(q, k, v, mask, is_causal, scale, bits, dropout_p),),
                                  (query, key, value), grads[:1], needs)
    return call_bound(_DROPPED_BACKWARD, (grads[0], query, key, value, mask, is_causal, scale, norms, output, bits,
                                          dropout_p))


_DROPPED = op(
   "_attention_dropped(Tensor query, Tensor key, Tensor value, Tensor? mask, bool is_causal, float scale, Tensor bits, "
   "float dropout_p) -> (Tensor output, Tensor norms)",
   kernel=Parts(lambda *args: _attention_specs(*args[:6])), kernels={"npu": "attention.attention_dropped"},
   grad={"query, key, value": _dropped_grad}, public="", decomposition=lambda *args: (_composed_of(*args), None),
   flops=Flops(sdpa_flop, "_scaled_dot_product_flash_attention"))
_DROPPED_BACKWARD = op(
   "_attention_dropped_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor? mask, bool is_causal, "
   "float scale, Tensor norms, Tensor output, Tensor bits, float dropout_p) -> (Tensor result, Tensor result1, Tensor "
   "result2)", kernel=Parts(lambda *args: _backward_specs(*args)),
   kernels={"npu": "attention.attention_dropped_backward"},
   public="", decomposition=lambda *args: _backward_by_parts(*args),
   flops=Flops(sdpa_backward_flop, "_scaled_dot_product_flash_attention_backward"))


# as users call it ----------------------------------------------------------------------------------------------------


def _check_attention(query: Any, key: Any, value: Any, attn_mask: Any) -> None:
    ranks = [x.dim() for x in (query, key, value)]
    if min(ranks) < 2:
        raise RuntimeError("Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {} "
                           "key.dim: {} and value.dim: {} instead.".format(*ranks))
    kinds = [x.dtype for x in (query, key, value)]
    if len(set(kinds)) > 1:
        raise RuntimeError("Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: "
                           "{} and value.dtype: {} instead.".format(*map(_c_name, kinds)))
    if attn_mask is None:
        return
    if attn_mask.dtype.category != BOOL and attn_mask.dtype not in (query.dtype, float32):
        raise RuntimeError("Expected attn_mask dtype to be bool or float or to match query dtype, but got "
                           f"attn_mask.dtype: {_c_name(attn_mask.dtype)} and  query.dtype: {_c_name(query.dtype)} "
                           "instead.")
    if attn_mask.dim() < 2:
        raise IndexError(f"Dimension out of range (expected to be in range of [-1, 0], but got -{attn_mask.dim() + 1})")


def _with_triangle(query: Any, key: Any, value: Any, mask: Any, drops: bool) -> Any:
    """A mask under which a query looks at no later key; only PyTorch's fused kernels take the two together."""
    fused = query.dim() == 4 and query.dtype.category == FLOAT and query.size(-1) == key.size(-1) == value.size(-1)
    if not fused or drops or mask.requires_grad:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    visible = query.new_ones((query.size(-2), key.size(-2)), dtype=bool_).tril()
    return mask & visible if mask.dtype.category == BOOL else mask.masked_fill(~visible, NEVER)


def _c_name(kind: Any) -> str:
    name = str(kind).removeprefix("torch.")
    return C_NAMES.get(name, name)


def _shared_keys(query: Any, tensors: Sequence[Any]) -> list[Any]:
    """Keys and values repeated for the groups of query heads that share them."""
    heads = query.size(-3)
    if any(x.size(-3) != heads and (not x.size(-3) or heads % x.size(-3)) for x in tensors):
        raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    return [x if x.size(-3) == heads else x.repeat_interleave(heads // x.size(-3), -3) for x in tensors]


def _is_plain(query: Any, key: Any, value: Any, mask: Any, shares: bool) -> bool:
    """Whether the operator takes the call; else it is composed. With `shares`, heads of queries may share keys."""
    answered = (query._keys | key._keys | value._keys) & TORCH_DISPATCH_MASK
    if query.dtype.category != FLOAT or answered or (mask is not None and mask.requires_grad):
        return False
    q, k, v = query._array, key._array, value._array
    if q.shape[:-3] != k.shape[:-3] or k.shape[:-1] != v.shape[:-1] or q.shape[-1] != k.shape[-1]:
        return False
    if not q.size or not v.size:
        return False
    return q.shape[-3:-2] == k.shape[-3:-2] or (shares and q.ndim > 2 and not q.shape[-3] % k.shape[-3])


@composite("scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float"
           " dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
           public="nn.functional",
           samples=cases(case(t(2, 3, 4), t(2, 5, 4), t(2, 5, 6)),
                         case(t(2, 2, 3, 4), t(2, 2, 3, 4), t(2, 2, 3, 4), is_causal=True),
                         case(t(2, 3, 4), t(2, 5, 4), t(2, 5, 6), t(3, 5)),
                         case(t(2, 3, 4), t(2, 5, 4), t(2, 5, 6), bools(2, 3, 5)),
                         case(t(2, 1, 3, 4), t(2, 1, 5, 4), t(2, 1, 5, 6), t(2, 1, 3, 5, grad=False)),
                         case(t(1, 2, 3, 4), t(1, 2, 5, 4), t(1, 2, 5, 4), t(3, 5, grad=False), is_causal=True),
                         case(t(1, 2, 3, 4), t(1, 2, 5, 4), t(1, 2, 5, 4), bools(1, 1, 3, 5), 0.0, True),
                         case(t(2, 3, 4), t(2, 5, 4), t(2, 5, 6), scale=0.5), case(t(3, 4), t(2, 4), t(2, 4)),
                         case(t(1, 4, 3, 2), t(1, 2, 3, 2), t(1, 2, 3, 2), enable_gqa=True),
                         error(RuntimeError, "Explicit attn_mask should not be set when is_causal=True", t(2, 3, 4),
                               t(2, 5, 4), t(2, 5, 6), t(3, 5), 0.0, True),
                         error(RuntimeError, "Number of heads in key and value must divide", t(1, 4, 3, 2),
                               t(1, 3, 3, 2), t(1, 3, 3, 2), enable_gqa=True)), autocast="lower")
def _scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    _check_attention(query, key, value, attn_mask)
    if is_causal and attn_mask is not None:
        attn_mask, is_causal = _with_triangle(query, key, value, attn_mask, dropout_p > 0), False
    by_bits = 0 < dropout_p < 1 and query.dtype.itemsize <= 4 and _DROPPED.declaration.has_kernel_for(query)
    plain = (not dropout_p or by_bits) and _is_plain(query, key, value, attn_mask, enable_gqa)
    if enable_gqa and (not plain or query.dim() < 3):
        key, value = _shared_keys(query, (key, value))
    factor = 1 / math.sqrt(max(query.size(-1), 1)) if scale is None else scale
    if attn_mask is not None:
        batch = query.shape[:-2] if plain else broadcast_shape((query.shape[:-2], key.shape[:-2]))
        scores = (*batch, query.size(-2), key.size(-2))
        together = broadcast_shape((scores, tuple(attn_mask.shape)))
        if together != scores:
            raise shape_misfit(scores, together)
    if plain and by_bits:
        bits = dropout_bits(query, math.prod(query.shape[:-1]) * key.size(-2), dropout_p)
        return call_bound(_DROPPED, (query, key, value, attn_mask, is_causal, factor, bits, dropout_p))[0]
    if plain:
        return call_bound(_ATTENTION, (query, key, value, attn_mask, is_causal, factor))[0]
    drop = (lambda weights: dropout(weights, dropout_p, True)) if dropout_p else _all
    return _composed(query, key, value, attn_mask, is_causal, factor, drop)


# a whole layer -------------------------------------------------------------------------------------------------------


def _split_heads(tensor: Any, heads: int) -> Any:
    return tensor.unflatten(-1, (heads, -1)).transpose(1, 2)


@composite("_transform_bias_rescale_qkv(Tensor qkv, Tensor qkv_bias, int num_heads) -> (Tensor, Tensor, Tensor)",
           public="torch")
def _transform_bias_rescale_qkv(qkv, qkv_bias, num_heads):
    query, key, value = (_split_heads(part, num_heads) for part in (qkv + qkv_bias).chunk(3, -1))
    return query / math.sqrt(query.size(-1)), key.clone(), value.clone()


@composite("_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, Tensor "
           "qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, bool need_weights="
           "True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)", public="torch")
def _native_multi_head_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias,
                                 mask, need_weights, average_attn_weights, mask_type):
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    given = [_split_heads(x @ weight.transpose(0, 1) + bias, num_head) for x, weight, bias in parts]
    scores = given[0] / math.sqrt(embed_dim // num_head) @ given[1].transpose(-2, -1)
    if mask is not None:
        if mask_type == 1:  # of keys that are padding
            mask = mask.unsqueeze(1).unsqueeze(1)
        scores = scores.masked_fill(mask, NEVER)
    weights = scores.softmax(-1)
    made = (weights @ given[2]).transpose(1, 2).flatten(2) @ proj_weight.transpose(0, 1) + proj_bias
    if not need_weights:
        return made, None
    return made, weights.mean(1) if average_attn_weights else weights
