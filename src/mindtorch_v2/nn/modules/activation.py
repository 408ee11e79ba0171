"""Activations as modules, and attention of several heads."""

import warnings
from typing import Any

import mindtorch_v2 as torch

from .. import functional as F
from .. import init
from ..functional.attention import check_mask
from ..init import constant_, xavier_normal_, xavier_uniform_  # programs replace these here to keep loaded weights
from ..parameter import Parameter
from ._settings import ShownSettings, settings
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax",
    "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]


# without settings ----------------------------------------------------------------------------------------------------


class Sigmoid(ShownSettings):
    """1 / (1 + exp(-x))"""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(input)


class Tanh(ShownSettings):
    """tanh(x)"""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.tanh(input)


class LogSigmoid(ShownSettings):
    """log(1 / (1 + exp(-x)))"""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.logsigmoid(input)


class Softsign(ShownSettings):
    """x / (1 + |x|)"""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softsign(input)


class Tanhshrink(ShownSettings):
    """x - tanh(x)"""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.tanhshrink(input)


class Softmax2d(ShownSettings):
    """Softmax over the channels of an image."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


# in place or not -----------------------------------------------------------------------------------------------------


@settings
class ReLU(ShownSettings):
    """max(x, 0)"""

    inplace: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.relu(input, inplace=self.inplace)


@settings
class SiLU(ShownSettings):
    """x * sigmoid(x)"""

    inplace: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.silu(input, inplace=self.inplace)


@settings
class Mish(ShownSettings):
    """x * tanh(softplus(x))"""

    inplace: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.mish(input, inplace=self.inplace)


@settings
class SELU(ShownSettings):
    """scale * (x where positive, alpha * (exp(x) - 1) elsewhere), which keeps mean 0 and variance 1."""

    inplace: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.selu(input, self.inplace)


@settings
class Hardsigmoid(ShownSettings):
    """min(max(x / 6 + 1 / 2, 0), 1)"""

    inplace: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


@settings
class Hardswish(ShownSettings):
    """x * hardsigmoid(x)"""

    inplace: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


@settings
class LeakyReLU(ShownSettings):
    """x where positive, negative_slope * x elsewhere."""

    negative_slope: float = 1e-2
    inplace: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


@settings
class ELU(ShownSettings):
    """x where positive, alpha * (exp(x) - 1) elsewhere."""

    alpha: float = 1.0
    inplace: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.elu(input, self.alpha, self.inplace)


@settings
class CELU(ShownSettings):
    """x where positive, alpha * (exp(x / alpha) - 1) elsewhere."""

    alpha: float = 1.0
    inplace: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.celu(input, self.alpha, self.inplace)


@settings
class RReLU(ShownSettings):
    """x where positive, a random slope between `lower` and `upper` times x elsewhere; their mean outside training."""

    lower: float = 1.0 / 8
    upper: float = 1.0 / 3
    inplace: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


@settings
class Threshold(ShownSettings):
    """x where above the threshold, `value` elsewhere."""

    threshold: float
    value: float
    inplace: bool = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class Hardtanh(ShownSettings):
    """x, at least min_val and at most max_val."""

    __constants__ = ["min_val", "max_val", "inplace"]
    _settings: tuple[str, ...] = ("min_val", "max_val", "inplace")
    min_val: float
    max_val: float
    inplace: bool

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False,
                 min_value: float | None = None, max_value: float | None = None) -> None:
        super().__init__()
        for end, value in (("min", min_value), ("max", max_value)):
            if value is not None:
                warnings.warn(f"keyword argument `{end}_value` is deprecated and renamed to `{end}_val`",
                              FutureWarning, stacklevel=2)
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)"""

    _settings = ("inplace",)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


# with other settings -------------------------------------------------------------------------------------------------


@settings
class GELU(ShownSettings):
    """x * Phi(x), Phi being the normal distribution function or its tanh approximation."""

    approximate: str = "none"

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


@settings
class GLU(ShownSettings):
    """The first half of a dimension times the sigmoid of the second."""

    dim: int = -1

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.glu(input, self.dim)


@settings
class Hardshrink(ShownSettings):
    """x where |x| > lambd, 0 elsewhere."""

    lambd: float = 0.5

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


@settings
class Softshrink(ShownSettings):
    """x moved towards 0 by lambd, at most to 0."""

    lambd: float = 0.5

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


@settings
class Softplus(ShownSettings):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold."""

    beta: float = 1.0
    threshold: float = 20.0

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softplus(input, self.beta, self.threshold)


class PReLU(Module):
    """x where positive, weight * x elsewhere, with a learned weight for all channels or one for each."""

    __constants__ = ["num_parameters"]
    num_parameters: int

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(torch.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to its initial value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _AlongDimension(ShownSettings):
    """An activation over one dimension."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)


@settings
class Softmax(_AlongDimension):
    """exp(x) / sum(exp(x)) over one dimension."""

    dim: int | None = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


@settings
class LogSoftmax(_AlongDimension):
    """log(softmax(x)) over one dimension."""

    dim: int | None = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


@settings
class Softmin(_AlongDimension):
    """softmax(-x) over one dimension."""

    dim: int | None = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


# attention -----------------------------------------------------------------------------------------------------------


class MultiheadAttention(Module):
    """Values averaged by how well queries match keys, in several heads side by side, between two linear layers."""

    __constants__ = ["batch_first"]
    bias_k: torch.Tensor | None
    bias_v: torch.Tensor | None

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
                 add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
                 vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                             f"num_heads={num_heads} instead")
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def parameter(*shape: int, wanted: bool = True) -> Any:
            return Parameter(torch.empty(shape, device=device, dtype=dtype)) if wanted else None

        same = self._qkv_same_embed_dim
        for name, width in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            self.register_parameter(f"{name}_proj_weight", parameter(embed_dim, width, wanted=not same))
        self.register_parameter("in_proj_weight", parameter(3 * embed_dim, embed_dim, wanted=same))
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim, wanted=bias))
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, parameter(1, 1, embed_dim, wanted=add_bias_kv))
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            constant_(self.in_proj_bias, 0.0)
            constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                xavier_normal_(bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_qkv_same_embed_dim": True, **state})  # which the oldest checkpoints lack

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                key_padding_mask: torch.Tensor | None = None, need_weights: bool = True,
                attn_mask: torch.Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[torch.Tensor, torch.Tensor | None]:
        if query.is_nested:
            return self._of_components(query, key, value), None
        for mask in (key_padding_mask, attn_mask):
            check_mask(mask)
        swaps = self.batch_first and query.dim() == 3
        if swaps:  # one object for equal arguments, since that decides how they are projected
            turned = {id(x): x.transpose(1, 0) for x in (query, key, value)}
            query, key, value = (turned[id(x)] for x in (query, key, value))
        separate = {} if self._qkv_same_embed_dim else {
            "use_separate_proj_weight": True, "q_proj_weight": self.q_proj_weight,
            "k_proj_weight": self.k_proj_weight, "v_proj_weight": self.v_proj_weight}
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            average_attn_weights=average_attn_weights, is_causal=is_causal, **separate)
        return (output.transpose(1, 0) if swaps else output), weights

    def _of_components(self, *nested: Any) -> torch.Tensor:
        """The outputs for nested tensors: each component is a sequence of its own."""
        reason = ("training is enabled" if self.training else "some Tensor argument has_torch_function"
                  if nested[0].layout is torch.jagged else "")
        if reason:
            raise AssertionError("MultiheadAttention does not support NestedTensor outside of its fast path. The fast "
                                 f"path was not hit because {reason}")
        made = [self(*parts, need_weights=False)[0] for parts in zip(*(n.unbind() for n in nested), strict=True)]
        return torch.nested.as_nested_tensor(made)

    def merge_masks(self, attn_mask: torch.Tensor | None, key_padding_mask: torch.Tensor | None,
                    query: torch.Tensor) -> tuple[torch.Tensor | None, int | None]:
        """Both masks as one, and its kind: 0 for the first alone, 1 for the second alone, 2 for one with heads."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            hidden = key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
            merged = merged + hidden
        return merged, 2
