"""Causal biases for scaled_dot_product_attention, by where the triangle ends."""

import enum
from typing import Any

import mindtorch_v2 as torch

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Whether queries are lined up with the first keys or with the last."""

    UPPER_LEFT, LOWER_RIGHT = 1, 2


class CausalBias(torch.Tensor):
    """A triangle of queries times keys: -inf where a query may not look. Given as `attn_mask`."""

    variant: CausalVariant

    @staticmethod
    def __new__(cls: type, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Any:
        shift = 0 if variant is CausalVariant.UPPER_LEFT else seq_len_kv - seq_len_q
        allowed = torch.ones(seq_len_q, seq_len_kv, dtype=torch.bool).tril(shift)
        made = torch.zeros(seq_len_q, seq_len_kv).masked_fill(~allowed, float("-inf")).as_subclass(cls)
        made.variant = variant
        return made


def causal_upper_left(*size: int) -> CausalBias:
    return CausalBias(CausalVariant.UPPER_LEFT, *_pair(size))  # type: ignore[call-arg]


def causal_lower_right(*size: int) -> CausalBias:
    return CausalBias(CausalVariant.LOWER_RIGHT, *_pair(size))  # type: ignore[call-arg]


def _pair(size: tuple[int, ...]) -> tuple[int, int]:
    if len(size) != 2:
        raise AssertionError("causal biases only support 2D tensors")
    return size[0], size[1]
