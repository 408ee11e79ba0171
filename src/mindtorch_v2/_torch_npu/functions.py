"""Functions of torch_npu: fused operators of CANN, composed of others where a chip or a device has none."""

import math
from collections.abc import Sequence
from typing import Any

import mindtorch_v2 as torch
import mindtorch_v2.nn.functional as F

from .._backends.npu.kernels import fused

ND = 2  # the format of plain tensors, the only one there is here


def get_npu_format(tensor: torch.Tensor) -> int:
    return ND


def npu_format_cast(tensor: torch.Tensor, acl_format: int) -> torch.Tensor:
    """The tensor itself: memory is always laid out plainly, and CANN changes formats inside its operators."""
    return tensor


npu_format_cast_ = npu_format_cast


def npu_dtype_cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype)


def npu_rms_norm(x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> tuple[torch.Tensor, torch.Tensor]:
    """The normalised tensor in the input's type, and 1/rms of each row."""
    output, rstd = torch.ops.aten._fused_rms_norm(x, list(gamma.shape), gamma, epsilon)
    return output.to(x.dtype), rstd


class _SwiGlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.dim = dim
        return fused.swiglu(x, dim)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return fused.swiglu_grad(grad, x, ctx.dim), None


def npu_swiglu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """The second half of a dimension, gated by silu of the first."""
    if fused.takes("aclnnSwiGlu", x):
        return _SwiGlu.apply(x, dim % x.dim())
    gate, value = x.chunk(2, dim)
    return F.silu(gate) * value


def _turned(x: torch.Tensor, interleaved: bool) -> torch.Tensor:
    if interleaved:
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def npu_rotary_mul(input: torch.Tensor, r1: torch.Tensor, r2: torch.Tensor,
                   rotary_mode: str = "half") -> torch.Tensor:
    """Rotary position embedding: `r1` are cosines, `r2` sines."""
    interleaved = rotary_mode == "interleave"
    plain = not torch.is_grad_enabled() or not any(x.requires_grad for x in (input, r1, r2))
    if plain and input.dim() == 4 and fused.takes("aclnnRotaryPositionEmbedding", input, r1, r2):
        return fused.rotary(input, r1, r2, interleaved)
    return input * r1 + _turned(input, interleaved) * r2


class _ProductsOfPairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, count: int, *matrices: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.save_for_backward(*matrices)
        return fused.products(matrices[:count], matrices[count:])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        count = len(grads)
        left, right = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        return (None, *fused.products(grads, [b.mT.contiguous() for b in right]),
                *fused.products([a.mT.contiguous() for a in left], grads))


def _pairs(x: Sequence[torch.Tensor], weight: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The product of each pair, in one launch where CANN has it."""
    if all(t.dim() == 2 and t.numel() for t in (*x, *weight)) and fused.takes("aclnnGroupedMatmulV4", *x, *weight):
        return list(_ProductsOfPairs.apply(len(x), *(t.contiguous() for t in (*x, *weight))))
    return [a @ b for a, b in zip(x, weight, strict=True)]


def npu_grouped_matmul(x: Sequence[torch.Tensor], weight: Sequence[torch.Tensor], *, bias: Any = None,
                       scale: Any = None, offset: Any = None, antiquant_scale: Any = None,
                       antiquant_offset: Any = None, per_token_scale: Any = None, group_list: Any = None,
                       activation_input: Any = None, activation_quant_scale: Any = None,
                       activation_quant_offset: Any = None, split_item: int | None = 0, group_type: int | None = None,
                       group_list_type: int | None = 0, act_type: int | None = 0,
                       output_dtype: torch.dtype | None = None) -> list[torch.Tensor]:
    """Products of groups: of pairs of matrices, or of one matrix whose rows (or columns, with type 2) are in groups.

    `group_list` has the places where groups end, or with type 1 how large they are. Nothing is quantised.
    """
    told = (scale, offset, antiquant_scale, antiquant_offset, per_token_scale, activation_input, activation_quant_scale,
            activation_quant_offset)
    if any(value is not None and len(value) for value in told) or act_type:
        raise NotImplementedError("npu_grouped_matmul with quantised numbers or an activation")
    if group_list is None:
        made = _pairs(x, weight)
        made = [m + b for m, b in zip(made, bias, strict=True)] if bias else made
    else:
        ends = torch.as_tensor(group_list, dtype=torch.int64).to(x[0].device)
        ends = (ends.cumsum(0) if group_list_type else ends).to(torch.int32)
        single = len(weight) == 1 and (group_type == 2 or weight[0].dim() == 3)
        joined = torch._grouped_mm(x[0], weight[0] if single else torch.stack(list(weight)), ends)
        if bias:
            each = bias[0] if len(bias) == 1 else torch.stack(list(bias))
            group = torch.searchsorted(ends, torch.arange(len(x[0]), device=ends.device), right=True)
            joined = joined + each[group.clamp_max(len(each) - 1)]
        several = split_item in (0, 1) and group_type != 2
        made = list(joined.split(ends.diff(prepend=ends.new_zeros(1)).tolist())) if several else [joined]
    return made if output_dtype is None else [m.to(output_dtype) for m in made]


_TO_BNSD = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3)}
LEFT_CAUSAL, RIGHT_CAUSAL, BAND, PREFIX, PACKED_PREFIX = range(2, 7)
EVERYTHING = 2147483647


def _heads(x: torch.Tensor, count: int, layout: str) -> torch.Tensor:
    """A tensor in one of CANN's layouts as batch, heads, tokens, width."""
    if layout in _TO_BNSD:
        return x.permute(_TO_BNSD[layout])
    if layout == "SBH":
        x = x.transpose(0, 1)
    elif layout != "BSH":
        raise NotImplementedError(f"npu_fusion_attention of layout {layout}")
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def _laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    if layout in _TO_BNSD:
        return x.permute(_TO_BNSD[layout])
    made = x.transpose(1, 2).flatten(2)
    return made.transpose(0, 1) if layout == "SBH" else made


def _seen(tokens: int, keys: int, mode: int, before: int, after: int, prefix: Sequence[int] | None,
          hidden: torch.Tensor | None, device: torch.device) -> torch.Tensor | None:
    """Which keys a query sees, where CANN's modes say it from the lower right corner, or a mask does."""
    corner = keys - tokens
    if mode == BAND:
        every = torch.ones(tokens, keys, dtype=torch.bool, device=device)
        return every.tril(min(after, keys) + corner).triu(-min(before, keys + tokens) + corner)
    if mode in (RIGHT_CAUSAL, PACKED_PREFIX) or mode == PREFIX and hidden is None:
        causal = torch.ones(tokens, keys, dtype=torch.bool, device=device).tril(corner)
        if mode == RIGHT_CAUSAL:
            return causal
        first = torch.arange(keys, device=device) < torch.tensor(prefix, device=device)[:, None]
        return causal | first[:, None, None]
    if hidden is None or mode == LEFT_CAUSAL:
        return None
    mask = ~hidden.bool()
    return mask[:tokens, :keys] if mask.dim() == 2 else mask


def _fusion_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pse: torch.Tensor | None,
                      mask: torch.Tensor | None, scale: float, keep_prob: float, causal: bool) -> torch.Tensor:
    if pse is not None:  # it is added before the scores are scaled
        added = pse * scale
        if causal:
            mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        mask, causal = added if mask is None else added.masked_fill(~mask, -math.inf), False
    return F.scaled_dot_product_attention(q, k, v, mask, 1 - keep_prob, is_causal=causal, scale=scale,
                                          enable_gqa=k.shape[1] != q.shape[1])


def npu_fusion_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, head_num: int, input_layout: str,
                         pse: torch.Tensor | None = None, padding_mask: torch.Tensor | None = None,
                         atten_mask: torch.Tensor | None = None, scale: float = 1.0, keep_prob: float = 1.0,
                         pre_tockens: int = EVERYTHING, next_tockens: int = EVERYTHING, inner_precise: int = 0,
                         prefix: Any = None, actual_seq_qlen: Any = None, actual_seq_kvlen: Any = None,
                         sparse_mode: int = 0, gen_mask_parallel: bool = True, sync: bool = False) -> tuple[Any, ...]:
    """Attention, and in the places of what CANN keeps for its derivative, empty tensors and numbers.

    `atten_mask` is true where a key is hidden. Of the sparse modes there are 0 and 1 (the mask as it is), 2 and 3
    (causal, from the upper left and from the lower right corner), 4 (a band), 5 and 6 (causal behind a prefix). In
    layout TND, sequences lie one after the other and end where `actual_seq_qlen` and `actual_seq_kvlen` say.
    """
    if not 0 <= sparse_mode <= PACKED_PREFIX or (sparse_mode >= PREFIX and prefix is None and atten_mask is None):
        raise NotImplementedError(f"npu_fusion_attention with sparse_mode {sparse_mode}")

    def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = _seen(q.shape[2], k.shape[2], sparse_mode, pre_tockens, next_tockens, prefix, atten_mask, q.device)
        return _fusion_attention(q, k, v, pse, mask, scale, keep_prob, sparse_mode == LEFT_CAUSAL)

    nothing = query.new_empty(0)
    if input_layout == "TND":
        pieces, begin = [], (0, 0)
        for end in zip(actual_seq_qlen, actual_seq_kvlen, strict=True):
            spans = [slice(a, b) for a, b in zip(begin, end, strict=True)]
            q, k, v = (x[span].transpose(0, 1)[None] for x, span in zip((query, key, value), (*spans, spans[1])))
            pieces.append(attended(q, k, v)[0].transpose(0, 1))
            begin = end
        return torch.cat(pieces), nothing, nothing, nothing, 0, 0, 0
    q = _heads(query, head_num, input_layout)
    shared = head_num if input_layout in _TO_BNSD else key.shape[-1] * head_num // query.shape[-1]
    k, v = (_heads(x, shared, input_layout) for x in (key, value))
    return _laid_out(attended(q, k, v), input_layout), nothing, nothing, nothing, 0, 0, 0
