"""flex_attention: attention whose scores and mask are functions of the places of query and key.

The functions are evaluated over all places at once by broadcasting index tensors, which gives what PyTorch gives when
the function is not compiled. A BlockMask keeps the mask function, and which blocks of places it leaves empty.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention",
           "noop_mask", "or_masks"]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
AuxOutput = namedtuple("AuxOutput", ("lse", "max_scores"), defaults=(None, None))
AuxRequest = namedtuple("AuxRequest", ("lse", "max_scores"), defaults=(False, False))


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """A mask that hides nothing."""
    return batch.new_ones((), dtype=torch.bool)


def _identity(score: Any, batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    return score


def and_masks(*mask_mods: Callable) -> Callable:
    """Visible where all masks let through."""

    def joined(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_ones((), dtype=torch.bool)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return joined


def or_masks(*mask_mods: Callable) -> Callable:
    """Visible where any mask lets through."""

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


def create_mask(mod_fn: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = "cpu") -> Any:
    """The mask, or the changed scores of zeros, as a tensor of B x H x Q_LEN x KV_LEN."""
    B, H = B or 1, H or 1
    places = _places(B, H, Q_LEN, KV_LEN, device)
    if mod_fn.__code__.co_argcount == 5:
        return mod_fn(torch.zeros(B, H, Q_LEN, KV_LEN, device=device), *places)
    return mod_fn(*places).expand(B, H, Q_LEN, KV_LEN)


class BlockMask:
    """A mask function and the blocks of places in which it shows anything."""

    def __init__(self, mask_mod: Callable, shape: tuple[int, int, int, int], block_size: tuple[int, int],
                 visible_blocks: Any) -> None:
        self.mask_mod, self.shape, self.BLOCK_SIZE, self.seq_lengths = mask_mod, shape, block_size, shape[2:]
        self.visible_blocks = visible_blocks  # bool: batch, head, block of queries, block of keys
        counts = visible_blocks.sum(-1)
        self.kv_num_blocks = counts.to(torch.int32)
        self.kv_indices = visible_blocks.to(torch.int32).argsort(-1, descending=True, stable=True).to(torch.int32)

    def to_dense(self) -> Any:
        """1 for every block that shows anything."""
        return self.visible_blocks.to(torch.int32)

    def sparsity(self) -> float:
        """The share of hidden blocks, in percent."""
        return 100 * (1 - self.visible_blocks.to(torch.float32).mean().item())

    def numel(self) -> int:
        return self.shape[0] * self.shape[1] * self.shape[2] * self.shape[3]

    def as_tuple(self, flatten: bool = True) -> tuple:
        return (*self.seq_lengths, self.kv_num_blocks, self.kv_indices, *self.BLOCK_SIZE, self.mask_mod)

    def to(self, device: Any) -> "BlockMask":
        return BlockMask(self.mask_mod, self.shape, self.BLOCK_SIZE, self.visible_blocks.to(device))

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, block_size={self.BLOCK_SIZE})"


def create_block_mask(mask_mod: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
                      BLOCK_SIZE: Any = _DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False) -> BlockMask:
    """The BlockMask of a function `mask_mod(batch, head, query, key) -> bool`."""
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    dense = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device or "cpu")
    padded = torch.nn.functional.pad(dense, (0, -KV_LEN % block[1], 0, -Q_LEN % block[0]))
    blocks = padded.reshape(*dense.shape[:2], padded.shape[2] // block[0], block[0], -1, block[1])
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), block, blocks.any(5).any(3))


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Callable | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query @ key^T * scale)) @ value, where the block mask lets through."""
    heads, kv_heads = query.size(1), key.size(1)
    if heads != kv_heads:
        if not enable_gqa:
            raise ValueError(f"Expect query and key/value to have the same number of heads but got Hq={heads} and "
                             f"Hkv={kv_heads}. Try setting enable_gqa=True for GQA.")
        key, value = (t.repeat_interleave(heads // kv_heads, 1) for t in (key, value))
    scale = query.size(-1) ** -0.5 if scale is None else scale
    scores = (query @ key.transpose(-2, -1)).to(torch.float32) * scale
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
