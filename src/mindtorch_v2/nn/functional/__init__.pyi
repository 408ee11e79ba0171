"""Made by tools/stubs.py: do not edit."""

# ruff: noqa
# mypy: disable-error-code="misc, overload-overlap, overload-cannot-match, override, assignment"

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from ..._core.device import Size as Size, device as _Device, layout as _Layout
from ..._core.device import memory_format as _MemoryFormat
from ..._core.dtype import dtype as _DType
from ..._core.generator import Generator as Generator
from ..._core.storage import TypedStorage as TypedStorage, UntypedStorage as UntypedStorage
from ..._core.tensor import Tensor as Tensor
from ... import return_types as return_types

_Number: TypeAlias = _int | _float | _bool | _complex
_DeviceLike: TypeAlias = _Device | _str | _int

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "grouped_mm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "scaled_grouped_mm",
    "scaled_mm",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

from .grouped import ScalingType as ScalingType
from .grouped import SwizzleType as SwizzleType
def adaptive_avg_pool1d(input: Tensor, output_size: _int | Sequence[_int]) -> Tensor: ...
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Tensor: ...
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Tensor: ...
def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: _bool = False) -> Any: ...
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: _bool = False) -> tuple: ...
def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: _bool = False) -> Any: ...
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: _bool = False) -> tuple: ...
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: _bool = False) -> Any: ...
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: _bool = False) -> tuple: ...
from .vision import affine_grid as affine_grid
def alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: Any = False) -> Tensor: ...
def avg_pool1d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = (),
    padding: _int | Sequence[_int] = ...,
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
) -> Tensor: ...
def avg_pool2d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = (),
    padding: _int | Sequence[_int] = ...,
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
    divisor_override: _int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def avg_pool3d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] | None = (),
    padding: _int | Sequence[_int] = ...,
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
    divisor_override: _int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: _bool = False,
    momentum: _float = 0.1,
    eps: _float = 1e-05,
) -> Tensor: ...
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor: ...
from .loss import binary_cross_entropy as binary_cross_entropy
from .loss import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
def celu(input: Tensor, alpha: _Number = 1.0, inplace: Any = False) -> Tensor: ...
def celu_(input: Tensor, alpha: _Number = 1.0) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: _int) -> Tensor: ...
@overload
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _int | Sequence[_int] = ...,
    dilation: _int | Sequence[_int] = ...,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _str = 'valid',
    dilation: _int | Sequence[_int] = ...,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _int | Sequence[_int] = ...,
    dilation: _int | Sequence[_int] = ...,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _str = 'valid',
    dilation: _int | Sequence[_int] = ...,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _int | Sequence[_int] = ...,
    dilation: _int | Sequence[_int] = ...,
    groups: _int = 1,
) -> Tensor: ...
@overload
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _str = 'valid',
    dilation: _int | Sequence[_int] = ...,
    groups: _int = 1,
) -> Tensor: ...
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor: ...
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _int | Sequence[_int] = ...,
    output_padding: _int | Sequence[_int] = ...,
    groups: _int = 1,
    dilation: _int | Sequence[_int] = ...,
) -> Tensor: ...
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _int | Sequence[_int] = ...,
    output_padding: _int | Sequence[_int] = ...,
    groups: _int = 1,
    dilation: _int | Sequence[_int] = ...,
) -> Tensor: ...
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = ...,
    padding: _int | Sequence[_int] = ...,
    output_padding: _int | Sequence[_int] = ...,
    groups: _int = 1,
    dilation: _int | Sequence[_int] = ...,
) -> Tensor: ...
from .loss import cosine_embedding_loss as cosine_embedding_loss
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor: ...
from .loss import cross_entropy as cross_entropy
from .loss import ctc_loss as ctc_loss
def dropout(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: Any = False) -> Tensor: ...
def dropout1d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: Any = False) -> Tensor: ...
def dropout2d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: Any = False) -> Tensor: ...
def dropout3d(input: Tensor, p: _float = 0.5, training: _bool = True, inplace: Any = False) -> Tensor: ...
def elu(input: Tensor, alpha: _Number = 1.0, inplace: Any = False) -> Tensor: ...
def elu_(input: Tensor, alpha: _Number = 1, scale: _Number = 1, input_scale: _Number = 1) -> Tensor: ...
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: _int | None = None,
    max_norm: _float | None = None,
    norm_type: _float = 2.0,
    scale_grad_by_freq: _bool = False,
    sparse: _bool = False,
) -> Tensor: ...
from .embedding import embedding_bag as embedding_bag
def feature_alpha_dropout(input: Tensor, p: _float = 0.5, training: _bool = False, inplace: Any = False) -> Tensor: ...
def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor: ...
def fractional_max_pool2d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: _bool = False,
    _random_samples: Tensor | None = None,
) -> Any: ...
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: _bool = False,
    _random_samples: Tensor | None = None,
) -> tuple: ...
def fractional_max_pool3d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: _bool = False,
    _random_samples: Tensor | None = None,
) -> Any: ...
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: _bool = False,
    _random_samples: Tensor | None = None,
) -> tuple: ...
from .loss import gaussian_nll_loss as gaussian_nll_loss
def gelu(input: Tensor, *, approximate: _str = 'none', out: Tensor | None = None) -> Tensor: ...
def glu(input: Tensor, dim: _int = -1) -> Tensor: ...
from .vision import grid_sample as grid_sample
def group_norm(
    input: Tensor,
    num_groups: _int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: _float = 1e-05,
) -> Tensor: ...
from .grouped import grouped_mm as grouped_mm
from .activation import gumbel_softmax as gumbel_softmax
from ...overrides import handle_torch_function as handle_torch_function
def hardshrink(input: Tensor, lambd: _Number = 0.5, *, out: Tensor | None = None) -> Tensor: ...
def hardsigmoid(input: Tensor, inplace: Any = False) -> Tensor: ...
def hardswish(input: Tensor, inplace: Any = False) -> Tensor: ...
def hardtanh(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0, inplace: Any = False) -> Tensor: ...
def hardtanh_(input: Tensor, min_val: _Number = -1, max_val: _Number = 1) -> Tensor: ...
from ...overrides import has_torch_function as has_torch_function
from ...overrides import has_torch_function_unary as has_torch_function_unary
from ...overrides import has_torch_function_variadic as has_torch_function_variadic
from .loss import hinge_embedding_loss as hinge_embedding_loss
from .loss import huber_loss as huber_loss
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: _bool = True,
    momentum: _float = 0.1,
    eps: _float = 1e-05,
) -> Tensor: ...
from .vision import interpolate as interpolate
from .loss import kl_div as kl_div
from .loss import l1_loss as l1_loss
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[_int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: _float = 1e-05,
    cudnn_enable: _bool = True,
) -> Tensor: ...
def leaky_relu(input: Tensor, negative_slope: _Number = 0.01, inplace: Any = False) -> Tensor: ...
def leaky_relu_(input: Tensor, negative_slope: _Number = 0.01) -> Tensor: ...
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor: ...
from .loss import linear_cross_entropy as linear_cross_entropy
def local_response_norm(
    input: Tensor,
    size: _int,
    alpha: _float = 0.0001,
    beta: _float = 0.75,
    k: _float = 1.0,
) -> Tensor: ...
def log_softmax(
    input: Tensor,
    dim: _int | None = None,
    _stacklevel: _int = 3,
    dtype: _DType | None = None,
) -> Tensor: ...
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lp_pool1d(
    input: Any,
    norm_type: _float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: _bool = False,
) -> Tensor: ...
def lp_pool2d(
    input: Any,
    norm_type: _float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: _bool = False,
) -> Tensor: ...
def lp_pool3d(
    input: Any,
    norm_type: _float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: _bool = False,
) -> Tensor: ...
from .loss import margin_ranking_loss as margin_ranking_loss
def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: _bool = False,
    return_indices: _bool = False,
) -> Any: ...
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: _bool = False,
    return_indices: _bool = False,
) -> tuple: ...
def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: _bool = False,
    return_indices: _bool = False,
) -> Any: ...
def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: _bool = False,
    return_indices: _bool = False,
) -> tuple: ...
def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: _bool = False,
    return_indices: _bool = False,
) -> Any: ...
def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: _bool = False,
    return_indices: _bool = False,
) -> tuple: ...
def max_unpool1d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor: ...
def max_unpool2d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor: ...
def max_unpool3d(
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor: ...
def mish(input: Tensor, inplace: Any = False) -> Tensor: ...
from .loss import mse_loss as mse_loss
from .attention import multi_head_attention_forward as multi_head_attention_forward
from .loss import multi_margin_loss as multi_margin_loss
from .loss import multilabel_margin_loss as multilabel_margin_loss
from .loss import multilabel_soft_margin_loss as multilabel_soft_margin_loss
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor: ...
from .loss import nll_loss as nll_loss
from .activation import normalize as normalize
def one_hot(input: Tensor, num_classes: _int = -1) -> Tensor: ...
def pad(input: Tensor, pad: Sequence[_int], mode: _str = 'constant', value: _float | None = None) -> Tensor: ...
def pairwise_distance(
    x1: Tensor,
    x2: Tensor,
    p: _float = 2.0,
    eps: _float = 1e-06,
    keepdim: _bool = False,
) -> Tensor: ...
def pdist(input: Tensor, p: _float = 2.0) -> Tensor: ...
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor: ...
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor: ...
from .loss import poisson_nll_loss as poisson_nll_loss
def prelu(input: Tensor, weight: Tensor) -> Tensor: ...
from .activation import relu as relu
def relu6(input: Tensor, inplace: Any = False) -> Tensor: ...
def relu_(input: Tensor) -> Tensor: ...
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[_int],
    weight: Tensor | None = None,
    eps: _float | None = None,
) -> Tensor: ...
def rrelu(
    input: Tensor,
    lower: _Number = 0.125,
    upper: _Number = 0.3333333333333333,
    training: _bool = False,
    inplace: Any = False,
) -> Tensor: ...
def rrelu_(
    input: Tensor,
    lower: _Number = 0.125,
    upper: _Number = 0.3333333333333333,
    training: _bool = False,
    generator: Generator | None = None,
) -> Tensor: ...
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: _float = 0.0,
    is_causal: _bool = False,
    *,
    scale: _float | None = None,
    enable_gqa: _bool = False,
) -> Tensor: ...
from .grouped import scaled_grouped_mm as scaled_grouped_mm
from .grouped import scaled_mm as scaled_mm
def selu(input: Tensor, inplace: Any = False) -> Tensor: ...
def selu_(input: Tensor) -> Tensor: ...
def sigmoid(input: Tensor) -> Tensor: ...
def silu(input: Tensor, inplace: Any = False) -> Tensor: ...
from .loss import smooth_l1_loss as smooth_l1_loss
from .loss import soft_margin_loss as soft_margin_loss
def softmax(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _DType | None = None) -> Tensor: ...
def softmin(input: Tensor, dim: _int | None = None, _stacklevel: _int = 3, dtype: _DType | None = None) -> Tensor: ...
def softplus(input: Tensor, beta: _Number = 1, threshold: _Number = 20, *, out: Tensor | None = None) -> Tensor: ...
def softshrink(input: Tensor, lambd: _Number = 0.5, *, out: Tensor | None = None) -> Tensor: ...
def softsign(input: Tensor) -> Tensor: ...
def tanh(input: Tensor) -> Tensor: ...
def tanhshrink(input: Tensor) -> Tensor: ...
def threshold(input: Tensor, threshold: _Number, value: _Number, inplace: Any = False) -> Tensor: ...
def threshold_(input: Tensor, threshold: _Number, value: _Number) -> Tensor: ...
from .loss import triplet_margin_loss as triplet_margin_loss
from .loss import triplet_margin_with_distance_loss as triplet_margin_with_distance_loss
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor: ...
from .vision import upsample as upsample
from .vision import upsample_bilinear as upsample_bilinear
from .vision import upsample_nearest as upsample_nearest
