"""flex_attention: attention whose scores and mask are functions of the places of query and key.

The functions are evaluated over all places at once by broadcasting index tensors, which gives what PyTorch gives when
the function is not compiled. A BlockMask keeps the mask function, and which blocks of places it leaves empty.
"""

import inspect
from collections import namedtuple
from collections.abc import Callable
from typing import Any, TypedDict

import mindtorch_v2 as torch

from ._block_mask import (
    _DEFAULT_SPARSE_BLOCK_SIZE,
    BlockMask,
    _ordered,
    _pair,
    noop_mask,
)
from ._block_mask import _LARGE_SPARSE_BLOCK_SIZE as _LARGE_SPARSE_BLOCK_SIZE

__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask",
           "flex_attention", "noop_mask", "or_masks"]

AuxOutput = namedtuple("AuxOutput", ("lse", "max_scores"), defaults=(None, None))
AuxRequest = namedtuple("AuxRequest", ("lse", "max_scores"), defaults=(False, False))


class FlexKernelOptions(TypedDict, total=False):
    """How PyTorch's compiled kernels cut their work; taken and not used here."""

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    BACKEND: str


def _identity(score: Any, batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    return score


def _refuse_uncallable(mask_mods: tuple) -> None:
    if not all(map(callable, mask_mods)):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


def and_masks(*mask_mods: Callable) -> Callable:
    """Visible where all masks let through."""
    _refuse_uncallable(mask_mods)

    def joined(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_ones((), dtype=torch.bool)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return joined


def or_masks(*mask_mods: Callable) -> Callable:
    """Visible where any mask lets through."""
    _refuse_uncallable(mask_mods)

    def joined(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_zeros((), dtype=torch.bool)
        for mask in mask_mods:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return joined


def _places(B: int, H: int, Q_LEN: int, KV_LEN: int, device: Any) -> tuple:
    """Numbers of batch, head, query and key, shaped so that they broadcast to all combinations."""
    sizes = (B, H, Q_LEN, KV_LEN)
    return tuple(torch.arange(size, device=device).reshape([size if i == at else 1 for i in range(4)])
                 for at, size in enumerate(sizes))


def _arguments(mod_fn: Callable) -> int:
    """How many places a function is given: 4 for a mask, 5 for scores."""
    wanted = [p for p in inspect.signature(mod_fn).parameters.values()
              if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]  # fmt: skip
    if len(wanted) not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {len(wanted)}")
    return len(wanted)


def create_mask(mod_fn: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Any:
    """The mask, or which scores a function of scores leaves visible, as a tensor of B x H x Q_LEN x KV_LEN."""
    B, H = B or 1, H or 1
    places = _places(B, H, Q_LEN, KV_LEN, device)
    if _arguments(mod_fn) == 5:
        scores = mod_fn(torch.zeros(B, H, Q_LEN, KV_LEN, device=device), *places)
        return ~torch.isneginf(scores)
    return mod_fn(*places).expand(B, H, Q_LEN, KV_LEN)


def create_block_mask(mask_mod: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
                      BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False,
                      separate_full_blocks: bool = True) -> BlockMask:
    """The BlockMask of a function `mask_mod(batch, head, query, key) -> bool`."""
    if _arguments(mask_mod) != 4:
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    rows, columns = _pair(BLOCK_SIZE)
    dense = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    padded = torch.nn.functional.pad(dense, (0, -KV_LEN % columns, 0, -Q_LEN % rows))
    blocks = padded.reshape(*dense.shape[:2], padded.shape[2] // rows, rows, -1, columns)
    partly, whole = blocks.any(5).any(3), blocks.all(5).all(3)
    counts, indices = _ordered(partly & ~whole if separate_full_blocks else partly)
    full_counts, full_indices = _ordered(whole) if separate_full_blocks else (None, None)
    return BlockMask.from_kv_blocks(counts, indices, full_counts, full_indices, (rows, columns), mask_mod,
                                    (Q_LEN, KV_LEN))


def _check(query: Any, key: Any, value: Any, block_mask: BlockMask | None, enable_gqa: bool) -> None:
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    batch, kv_batch, heads, kv_heads = query.size(0), key.size(0), query.size(1), key.size(1)
    if heads != kv_heads and not enable_gqa:
        raise ValueError(f"Expect query and key/value to have the same number of heads but got Hq={heads} and "
                         f"Hkv={kv_heads}. Try setting enable_gqa=True for GQA.")
    if heads % kv_heads:
        raise ValueError(f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and "
                         f"Hkv={kv_heads}.")
    if batch != kv_batch:
        if block_mask is None:
            raise ValueError("Expect query and key/value to have the same batch size, or non-none block_mask, but got "
                             f"block_mask=None, Bq={batch}, and Bkv={kv_batch}.")
        masked = block_mask.kv_num_blocks.size(0)
        if masked != batch:
            raise ValueError("Expect query and key/value to have the same batch size, or block_mask and query to have "
                             f"the same batch size, but got Bq={batch}, Bkv={kv_batch}, B_block_mask={masked}.")
        if kv_batch != 1:
            raise RuntimeError(f"Bq and Bkv must broadcast. Got Bq={batch} and Bkv={kv_batch}")
    if query.size(-1) != key.size(-1):
        raise ValueError("Expect query and key/value to have the same embedding dimension but got "
                         f"E={query.size(-1)} and E={key.size(-1)}.")
    if block_mask is not None:
        _check_lengths(block_mask, query.size(-2), key.size(-2))


def _check_lengths(block_mask: BlockMask, queries: int, keys: int) -> None:
    made_for = block_mask.shape[-2:]
    if made_for == (queries, keys):
        return
    text = f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={queries} and kv_len={keys}. "
    if queries > made_for[0] or keys > made_for[1]:
        raise ValueError(text + "As the block mask was created for a smaller length than you're using it for, you "
                         "likely need to create a new block mask.")
    raise ValueError(text + "As the block mask was created for a larger length than you're using it for, you can "
                     "either 1. create a new block mask with the correct length, or 2. 'adjust' the existing block "
                     "mask to the correct length by calling block_mask._adjust(q_len, kv_len). This essentially "
                     "'crops' the block mask to the upper left corner, which does not work for all mask_mods!")


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Callable | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query @ key^T * scale)) @ value, where the block mask lets through."""
    if return_lse and return_aux is not None:
        raise ValueError("Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
                         "return_aux=AuxRequest(lse=True) instead.")
    _check(query, key, value, block_mask, enable_gqa)
    heads, kv_heads = query.size(1), key.size(1)
    if heads != kv_heads:
        key, value = (t.repeat_interleave(heads // kv_heads, 1) for t in (key, value))
    scale = query.size(-1) ** -0.5 if scale is None else scale
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = (query @ key.transpose(-2, -1)).to(wide) * scale
    batch, heads, queries, keys = scores.shape
    places = _places(batch, heads, queries, keys, query.device)
    scores = (score_mod or _identity)(scores, *places)
    if block_mask is not None:
        scores = torch.where(block_mask.mask_mod(*places), scores, float("-inf"))
    total = scores.logsumexp(-1)
    weights = (scores - total.masked_fill(total == float("-inf"), 0.0).unsqueeze(-1)).exp()
    result = weights.to(query.dtype) @ value
    if return_aux is not None:
        return result, AuxOutput(total if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None)
    return (result, total) if return_lse else result
