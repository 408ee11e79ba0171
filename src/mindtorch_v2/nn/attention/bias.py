"""Causal biases for scaled_dot_product_attention, by where the triangle ends."""

import enum
import warnings
from typing import Any

import mindtorch_v2 as torch

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Whether queries are lined up with the first keys or with the last."""

    UPPER_LEFT, LOWER_RIGHT = 1, 2


class CausalBias(torch.Tensor):
    """A triangle of queries times keys: True where a query may look. Given as `attn_mask`.

    To other functions it is the tensor of these truth values.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    @staticmethod
    def __new__(cls: type, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Any:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        shift = 0 if variant is CausalVariant.UPPER_LEFT else seq_len_kv - seq_len_q
        if shift < 0:
            warnings.warn("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!",
                          stacklevel=3)
        made = torch.ones(seq_len_q, seq_len_kv, dtype=torch.bool).tril(shift).as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    def _materialize(self, device: Any = None) -> Any:
        """The truth values as a plain tensor."""
        plain = self.as_subclass(torch.Tensor)
        return plain if device is None else plain.to(device)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention and (
                kwargs.get("is_causal", len(args) > 5 and args[5])):  # fmt: skip
            raise ValueError("CausalBias should not be used with causal=True")
        with torch._C.DisableTorchFunctionSubclass():
            plain = [value._materialize() if isinstance(value, CausalBias) else value for value in args]
            named = {k: v._materialize() if isinstance(v, CausalBias) else v for k, v in kwargs.items()}
        return func(*plain, **named)

    def __repr__(self) -> str:  # type: ignore[override]
        with torch._C.DisableTorchFunctionSubclass():
            return repr(self._materialize())


def causal_upper_left(*size: int) -> CausalBias:
    if len(size) != 2:
        raise AssertionError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)  # type: ignore[call-arg]


def causal_lower_right(*size: int) -> CausalBias:
    if len(size) != 2:
        raise AssertionError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)  # type: ignore[call-arg]
