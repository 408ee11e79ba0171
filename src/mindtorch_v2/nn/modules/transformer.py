"""Transformer encoders and decoders."""

import copy
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import mindtorch_v2 as torch
from mindtorch_v2 import Tensor

from .. import functional as F
from ..functional.attention import _canonical_mask, _none_or_dtype
from ..init import xavier_uniform_
from .activation import GELU, MultiheadAttention, ReLU
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = ["Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
           "TransformerEncoderLayer"]

Mask: TypeAlias = Tensor | None


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    return torch.full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)


def _detect_is_causal_mask(mask: Mask, is_causal: bool | None, length: int) -> bool:
    """Whether a mask hides just the future; what the caller says of it is believed."""
    if is_causal is not None or mask is None:
        return is_causal is True
    if mask.shape != (length, length):
        return False
    return bool((mask == _generate_square_subsequent_mask(length, mask.device, mask.dtype)).all())


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


def _copies(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class _Layer(Module):
    """What encoder and decoder layers share: feed-forward network, normalisation, the order of the two."""

    __constants__ = ["norm_first"]

    def __init__(self, attentions: tuple[str, ...], d_model: int, nhead: int, dim_feedforward: int, dropout: float,
                 activation: Any, layer_norm_eps: float, batch_first: bool, norm_first: bool, bias: bool, device: Any,
                 dtype: Any) -> None:
        super().__init__()
        factory = {"bias": bias, "device": device, "dtype": dtype}
        for name in attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **factory))
        self.linear1 = Linear(d_model, dim_feedforward, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **factory)
        self.norm_first = norm_first
        blocks = range(1, len(attentions) + 2)
        for number in blocks:
            setattr(self, f"norm{number}", LayerNorm(d_model, eps=layer_norm_eps, **factory))
        for number in blocks:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def _attended(self, attention: Module, dropout: Module, query: Tensor, key: Tensor, mask: Mask, padding: Mask,
                  is_causal: bool) -> Tensor:
        made, _ = attention(query, key, key, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal,
                            need_weights=False)
        return dropout(made)

    def _feed(self, x: Tensor, dropout: Module) -> Tensor:
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    def _added(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        """x and what a block makes of it; normalised before the block, or after the sum."""
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, and a feed-forward network."""

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: "str | Callable[[Tensor], Tensor]" = F.relu, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(("self_attn",), d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                         batch_first, norm_first, bias, device, dtype)
        chosen = self.activation
        self.activation_relu_or_gelu = (1 if chosen is F.relu or isinstance(chosen, ReLU) else
                                        2 if chosen is F.gelu or isinstance(chosen, GELU) else 0)

    def forward(self, src: Tensor, src_mask: Mask = None, src_key_padding_mask: Mask = None,
                is_causal: bool = False) -> Tensor:
        padding = _canonical_mask(src_key_padding_mask, "src_key_padding_mask", _none_or_dtype(src_mask), "src_mask",
                                  src.dtype)
        mask = _canonical_mask(src_mask, "src_mask", None, "", src.dtype, check_other=False)
        x = self._added(src, self.norm1, lambda x: self._attended(self.self_attn, self.dropout1, x, x, mask, padding,
                                                                  is_causal))
        return self._added(x, self.norm2, lambda x: self._feed(x, self.dropout2))


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence to itself, to what an encoder made, and a feed-forward network."""

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: "str | Callable[[Tensor], Tensor]" = F.relu, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(("self_attn", "multihead_attn"), d_model, nhead, dim_feedforward, dropout, activation,
                         layer_norm_eps, batch_first, norm_first, bias, device, dtype)

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Mask = None, memory_mask: Mask = None,
                tgt_key_padding_mask: Mask = None, memory_key_padding_mask: Mask = None, tgt_is_causal: bool = False,
                memory_is_causal: bool = False) -> Tensor:
        x = self._added(tgt, self.norm1, lambda x: self._attended(
            self.self_attn, self.dropout1, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self._added(x, self.norm2, lambda x: self._attended(
            self.multihead_attn, self.dropout2, x, memory, memory_mask, memory_key_padding_mask, memory_is_causal))
        return self._added(x, self.norm3, lambda x: self._feed(x, self.dropout3))


class TransformerEncoder(Module):
    """Encoder layers, one after another."""

    __constants__ = ["norm"]

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
                 enable_nested_tensor: bool = True, mask_check: bool = True) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        reason = self._reason_against_nesting(encoder_layer)
        self.use_nested_tensor = enable_nested_tensor and not reason
        if enable_nested_tensor and reason:
            warnings.warn("enable_nested_tensor is True, but self.use_nested_tensor is False because encoder_layer"
                          f"{reason}", stacklevel=2)

    @staticmethod
    def _reason_against_nesting(layer: Any) -> str:
        """Why PyTorch would not leave out padding with this layer; empty if it would."""
        if not isinstance(layer, TransformerEncoderLayer):
            return " was not TransformerEncoderLayer"
        attention = layer.self_attn
        reasons = ((layer.norm_first, ".norm_first was True"),
                   (not attention.batch_first,
                    ".self_attn.batch_first was not True(use batch_first for better inference performance)"),
                   (not attention._qkv_same_embed_dim, ".self_attn._qkv_same_embed_dim was not True"),
                   (attention.in_proj_bias is None, ".self_attn was passed bias=False"),
                   (not layer.activation_relu_or_gelu, ".activation_relu_or_gelu was not True"),
                   (layer.norm1.eps != layer.norm2.eps, ".norm1.eps was not equal to encoder_layer.norm2.eps"),
                   (attention.num_heads % 2 == 1, ".self_attn.num_heads is odd"))
        return next((text for applies, text in reasons if applies), "")

    def _leaves_out_padding(self, src: Tensor, mask: Mask, padding: Mask) -> bool:
        """Whether PyTorch's quick path would run, whose outputs are zero where the input was padding."""
        if not self.use_nested_tensor or self.training or mask is not None or padding is None or src.dim() != 3:
            return False
        if torch.is_grad_enabled() and any(t.requires_grad for t in (src, *self.parameters())):
            return False
        shown = (padding == 0).int()  # padding must be behind the sequences
        return bool((shown[:, 1:] <= shown[:, :-1]).all())

    def forward(self, src: Tensor, mask: Mask = None, src_key_padding_mask: Mask = None,
                is_causal: bool | None = None) -> Tensor:
        padding = _canonical_mask(src_key_padding_mask, "src_key_padding_mask", _none_or_dtype(mask), "mask", src.dtype)
        mask = _canonical_mask(mask, "mask", None, "", src.dtype, check_other=False)
        along = 1 if src.dim() == 3 and self.layers[0].self_attn.batch_first else 0
        is_causal = _detect_is_causal_mask(mask, is_causal, 0 if src.is_nested else src.size(along))
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=is_causal, src_key_padding_mask=padding)
        if self._leaves_out_padding(src, mask, padding):
            output = output.masked_fill((padding != 0).unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """Decoder layers, one after another."""

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Mask = None, memory_mask: Mask = None,
                tgt_key_padding_mask: Mask = None, memory_key_padding_mask: Mask = None,
                tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor:
        length = tgt.size(1 if tgt.dim() == 3 and self.layers[0].self_attn.batch_first else 0)
        tgt_is_causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, length)
        output = tgt
        for layer in self.layers:
            output = layer(output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                           tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
                           tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal)
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder of one sequence and a decoder of another that looks at what it made."""

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: "str | Callable[[Tensor], Tensor]" = F.relu, custom_encoder: Any = None,
                 custom_decoder: Any = None, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
                    device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            custom_encoder = TransformerEncoder(TransformerEncoderLayer(*settings), num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(*settings), num_decoder_layers, norm())
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                xavier_uniform_(parameter)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Mask = None, tgt_mask: Mask = None, memory_mask: Mask = None,
                src_key_padding_mask: Mask = None, tgt_key_padding_mask: Mask = None,
                memory_key_padding_mask: Mask = None, src_is_causal: bool | None = None,
                tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                            tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
                            tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """A mask that hides what comes later: -inf above the diagonal, else 0."""
        return _generate_square_subsequent_mask(sz, device, dtype)
