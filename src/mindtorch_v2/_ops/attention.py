"""Attention: values averaged by how well queries match keys."""

import math

from .._dispatch.registry import registry
from .._dtype import BOOL, COMPUTE, bool_
from .declare import composite, function_of
from .samples import bools, case, cases, error, t

dropout = function_of(registry.get("dropout"))
NEVER = float("-inf")


def _check_attention(query, key, value, attn_mask, is_causal):
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() < 2:
            raise RuntimeError("scaled_dot_product_attention: Expected query, key, and value to all be at least 2 "
                               f"dimensional, but got {name} with {x.dim()} dimensions")
    if not query.dtype == key.dtype == value.dtype:
        kinds = [x.dtype.scalar_name.lower() for x in (query, key, value)]
        raise RuntimeError("Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: "
                           "{} and value.dtype: {} instead.".format(*kinds))
    if attn_mask is not None:
        if is_causal:
            raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when "
                               "is_causal=True")
        if attn_mask.dtype.category != BOOL and attn_mask.dtype is not query.dtype:
            raise RuntimeError("Expected attn_mask dtype to be bool or float or to match query dtype")


@composite("scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float"
           " dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
           public="nn.functional",
           samples=cases(case(t(2, 3, 4), t(2, 5, 4), t(2, 5, 6)),
                         case(t(2, 2, 3, 4), t(2, 2, 3, 4), t(2, 2, 3, 4), is_causal=True),
                         case(t(2, 3, 4), t(2, 5, 4), t(2, 5, 6), t(3, 5)),
                         case(t(2, 3, 4), t(2, 5, 4), t(2, 5, 6), bools(2, 3, 5)),
                         case(t(2, 3, 4), t(2, 5, 4), t(2, 5, 6), scale=0.5),
                         case(t(1, 4, 3, 2), t(1, 2, 3, 2), t(1, 2, 3, 2), enable_gqa=True),
                         error(RuntimeError, "Explicit attn_mask should not be set when is_causal=True", t(2, 3, 4),
                               t(2, 5, 4), t(2, 5, 6), t(3, 5), 0.0, True)))
def _scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    _check_attention(query, key, value, attn_mask, is_causal)
    kind, wide = query.dtype, COMPUTE.get(query.dtype, query.dtype)
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
    factor = math.sqrt(1 / math.sqrt(query.size(-1)) if scale is None else scale)
    scores = (query * factor) @ (key.transpose(-2, -1) * factor)
    if is_causal:
        attn_mask = query.new_ones((query.size(-2), key.size(-2)), dtype=bool_).tril()
    if attn_mask is None:
        weights = scores.softmax(-1)
    else:
        scores = scores.masked_fill(~attn_mask, NEVER) if attn_mask.dtype.category == BOOL else scores + attn_mask
        unmatched = (scores == NEVER).all(-1, keepdim=True)  # such a query gets zeros, not an undefined average
        weights = scores.masked_fill(unmatched, 0).softmax(-1).masked_fill(unmatched, 0)
    if dropout_p:
        weights = dropout(weights, dropout_p, True)
    return (weights @ value).to(kind)
