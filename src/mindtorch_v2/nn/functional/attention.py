"""Attention of several heads, over tensors as torch.nn.MultiheadAttention holds them."""

import math
import warnings
from typing import Any

from ..._core.dtype import BOOL
from ..._core.tensor import Tensor
from ..._ops._declare.op import public_functions

__all__ = ["multi_head_attention_forward"]

_torch, _functional = public_functions("torch"), public_functions("nn.functional")
_linear, _dropout, _softmax = _functional["linear"], _functional["dropout"], _functional["softmax"]
_attend, _pad, _cat = _functional["scaled_dot_product_attention"], _functional["pad"], _torch["cat"]


def _mha_shape_check(query: Any, key: Any, value: Any, key_padding_mask: Any, attn_mask: Any, num_heads: int) -> bool:
    """Whether the tensors have a batch dimension; raises if they do not agree."""
    rank = query.dim()
    if rank not in (2, 3):
        raise AssertionError("query should be unbatched 2D or batched 3D tensor but received "
                             f"{rank}-D query tensor")
    kind = "batched (3-D)" if rank == 3 else "unbatched (2-D)"
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(f"For {kind} `query`, expected `key` and `value` to be {rank}-D but found {key.dim()}-D "
                             f"and {value.dim()}-D tensors respectively")
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(f"For {kind} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but found "
                             f"{key_padding_mask.dim()}-D tensor instead")
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
                                 f"{attn_mask.dim()}-D tensor instead")
        wanted = (num_heads, query.shape[0], key.shape[0])
        if rank == 2 and attn_mask.dim() == 3 and attn_mask.shape != wanted:
            raise AssertionError(f"Expected `attn_mask` shape to be {wanted} but got {attn_mask.shape}")
    return rank == 3


def check_mask(mask: Any) -> None:
    """Raises for a mask that is no tensor."""
    if mask is not None and not hasattr(mask, "_keys"):
        raise TypeError("is_floating_point(): argument 'input' (position 1) must be Tensor, not "
                        f"{type(mask).__name__}")


def _canonical_mask(mask: Any, mask_name: str, other_type: Any, other_name: str, target_type: Any,
                    check_other: bool = True) -> Any:
    """A mask as numbers to add to scores: a bool mask hides what it marks."""
    if mask is None:
        return None
    check_mask(mask)
    is_bool = mask.dtype.category == BOOL
    if not is_bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both "
                      "instead.", stacklevel=3)
    return mask.new_zeros(mask.shape, dtype=target_type).masked_fill_(mask, float("-inf")) if is_bool else mask


def _none_or_dtype(input: Any) -> Any:
    if input is None:
        return None
    if not hasattr(input, "_keys"):
        raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
    return input.dtype


def _in_projection(q: Any, k: Any, v: Any, w_q: Any, w_k: Any, w_v: Any, b_q: Any = None, b_k: Any = None,
                   b_v: Any = None) -> tuple[Any, Any, Any]:
    """Queries, keys and values, each through its own weights."""
    width = q.size(-1)
    for name, given, weight in (("query", q, w_q), ("key", k, w_k), ("value", v, w_v)):
        if tuple(weight.shape) != (width, given.size(-1)):
            raise AssertionError(f"expecting {name} weights shape of {(width, given.size(-1))}, but got {weight.shape}")
    for name, bias in (("query", b_q), ("key", b_k), ("value", b_v)):
        if bias is not None and tuple(bias.shape) != (width,):
            raise AssertionError(f"expecting {name} bias shape of {(width,)}, but got {bias.shape}")
    return _linear(q, w_q, b_q), _linear(k, w_k, b_k), _linear(v, w_v, b_v)


def _in_projection_packed(q: Any, k: Any, v: Any, w: Any, b: Any = None) -> Any:
    """Queries, keys and values, each through its third of the weights; equal ones in one product."""
    width = q.size(-1)
    if q is k and k is v:
        return _linear(q, w, b).chunk(3, -1)
    biases = (None,) * 3 if b is None else b.chunk(3)
    if k is v:
        pairs = _linear(k, w[width:], None if b is None else b[width:])
        return _linear(q, w[:width], biases[0]), *pairs.chunk(2, -1)
    return _in_projection(q, k, v, *w.chunk(3), *biases)


def _with_more_keys(masks: list[Any]) -> list[Any]:
    """Masks that leave one more key visible."""
    return [None if mask is None else _pad(mask, (0, 1)) for mask in masks]


def multi_head_attention_forward(
        query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Any,
        in_proj_bias: Any, bias_k: Any, bias_v: Any, add_zero_attn: bool, dropout_p: float, out_proj_weight: Any,
        out_proj_bias: Any, training: bool = True, key_padding_mask: Any = None, need_weights: bool = True,
        attn_mask: Any = None, use_separate_proj_weight: bool = False, q_proj_weight: Any = None,
        k_proj_weight: Any = None, v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None,
        average_attn_weights: bool = True, is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
    """What heads attend to, projected, and with `need_weights` how much; tensors are (length, batch, features)."""
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        one, two = key is query, value is key  # which decides how they are projected
        query = query.unsqueeze(1)
        key = query if one else key.unsqueeze(1)
        value = key if two else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    keys = key.shape[0]
    key_padding_mask = _canonical_mask(key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask",
                                       query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                           "`generate_square_subsequent_mask` to create this mask.")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the operator makes it anew, and need not look at what it hides
    else:
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
        is_causal = is_causal and key_padding_mask is None
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    per_head = width // num_heads
    if per_head * num_heads != width:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's "
                                 f"{value.shape[:2]}")
    elif key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if use_separate_proj_weight:
        separate = (q_proj_weight, k_proj_weight, v_proj_weight)
        for name, weight in zip("qkv", separate, strict=True):
            if weight is None:
                raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = _in_projection(query, key, value, *separate, *biases)
    elif in_proj_weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    else:
        q, k, v = _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)
    if attn_mask is not None:
        wanted = (length, keys) if attn_mask.dim() == 2 else (batch * num_heads, length, keys)
        if attn_mask.shape != wanted:
            raise RuntimeError(f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but should be "
                               f"{wanted}.")
        attn_mask = attn_mask.unsqueeze(0) if attn_mask.dim() == 2 else attn_mask
    masks = [attn_mask, key_padding_mask]
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError(f"bias cannot be added to static {'key' if static_k is not None else 'value'}.")
        k, v = _cat((k, bias_k.repeat(1, batch, 1))), _cat((v, bias_v.repeat(1, batch, 1)))
        masks = _with_more_keys(masks)
    q = q.reshape(length, batch * num_heads, per_head).transpose(0, 1)
    k = static_k if static_k is not None else k.reshape(k.shape[0], batch * num_heads, per_head).transpose(0, 1)
    v = static_v if static_v is not None else v.reshape(v.shape[0], batch * num_heads, per_head).transpose(0, 1)
    if add_zero_attn:
        nothing = k.new_zeros((batch * num_heads, 1, per_head))
        k, v = _cat((k, nothing), 1), _cat((v, nothing), 1)
        masks = _with_more_keys(masks)
    attn_mask, key_padding_mask = masks
    keys = k.shape[1]
    if key_padding_mask is not None:
        if key_padding_mask.shape[0] != batch:
            raise AssertionError(f"Expected key_padded_mask.shape[0] to be {batch}, but got "
                                 f"{key_padding_mask.shape[0]}")
        if key_padding_mask.shape[1] != keys:
            raise AssertionError(f"Expected key_padded_mask.shape[1] to be {keys}, but got {key_padding_mask.shape[1]}")
        hidden = key_padding_mask.view(batch, 1, 1, keys).expand(-1, num_heads, -1, -1)
        hidden = hidden.reshape(batch * num_heads, 1, keys)
        attn_mask = hidden if attn_mask is None else attn_mask + hidden
    if not training:
        dropout_p = 0.0
    if need_weights:
        scaled, across = q * math.sqrt(1.0 / per_head), k.transpose(-2, -1)
        weights = _softmax(scaled.bmm(across) if attn_mask is None else attn_mask.baddbmm(scaled, across), -1)
        weights = _dropout(weights, dropout_p) if dropout_p > 0 else weights
        output = (weights @ v).transpose(0, 1).reshape(length * batch, width)
        weights = weights.view(batch, num_heads, length, keys)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        heads = (batch, num_heads)
        if attn_mask is not None:
            attn_mask = attn_mask.unsqueeze(0) if attn_mask.shape[0] == 1 else attn_mask.view(*heads, -1, keys)
        output = _attend(*(x.reshape(*heads, x.shape[1], per_head) for x in (q, k, v)), attn_mask, dropout_p,
                         is_causal)
        output = output.permute(2, 0, 1, 3).reshape(length * batch, width)
    output = _linear(output, out_proj_weight, out_proj_bias).view(length, batch, out_proj_weight.size(0))
    if not batched:
        output = output.squeeze(1)
    if not need_weights:
        return output, None
    return output, weights if batched else weights.squeeze(0)
