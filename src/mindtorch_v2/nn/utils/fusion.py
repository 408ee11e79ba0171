"""A batch norm that no longer learns, merged into the convolution or linear layer before it."""

import copy
from typing import TypeVar

import mindtorch_v2 as torch

from ..modules.batchnorm import _BatchNorm
from ..modules.linear import Linear
from ..modules.module import Module
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

M = TypeVar("M", bound=Module)


def fuse_conv_bn_eval(conv: M, bn: _BatchNorm, transpose: bool = False) -> M:
    """A copy of the convolution that does what both layers did."""
    fused = _copied_for_eval(conv, bn)
    mean, variance = _statistics(bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, mean, variance, bn.eps, bn.weight, bn.bias, transpose)
    return fused


def fuse_conv_bn_weights(
    conv_w: torch.Tensor, conv_b: torch.Tensor | None, bn_rm: torch.Tensor, bn_rv: torch.Tensor, bn_eps: float,
    bn_w: torch.Tensor | None, bn_b: torch.Tensor | None, transpose: bool = False
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution that also does what the batch norm did."""
    channels = 1 if transpose else 0
    shape = [-1 if dim == channels else 1 for dim in range(conv_w.dim())]
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_eval(linear: M, bn: _BatchNorm) -> M:
    """A copy of the linear layer that does what both layers did."""
    fused = _copied_for_eval(linear, bn)
    if isinstance(linear, Linear) and bn.num_features not in (linear.out_features, 1):
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
                             f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}")
    mean, variance = _statistics(bn)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, mean, variance, bn.eps, bn.weight, bn.bias)
    return fused


def fuse_linear_bn_weights(
    linear_w: torch.Tensor, linear_b: torch.Tensor | None, bn_rm: torch.Tensor, bn_rv: torch.Tensor, bn_eps: float,
    bn_w: torch.Tensor, bn_b: torch.Tensor
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer that also does what the batch norm did."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _fused(weight: torch.Tensor, bias: torch.Tensor | None, mean: torch.Tensor, variance: torch.Tensor, eps: float,
           scale: torch.Tensor | None, shift: torch.Tensor | None, shape: list[int]) -> tuple[Parameter, Parameter]:
    """Weight and bias times what the batch norm multiplies each channel by, the bias with what it adds."""
    dtypes = weight.dtype, weight.dtype if bias is None else bias.dtype
    bias = torch.zeros_like(mean) if bias is None else bias
    needs_grad = weight.requires_grad, bias.requires_grad
    factor = torch.rsqrt(variance + eps) * (torch.ones_like(mean) if scale is None else scale)
    shift = torch.zeros_like(mean) if shift is None else shift
    made = weight * factor.reshape(shape), (bias - mean) * factor + shift
    first, second = (Parameter(tensor.to(dtype), needs) for tensor, dtype, needs in
                     zip(made, dtypes, needs_grad, strict=True))
    return first, second


def _copied_for_eval(layer: M, bn: _BatchNorm) -> M:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    return copy.deepcopy(layer)


def _statistics(bn: _BatchNorm) -> tuple[torch.Tensor, torch.Tensor]:
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return bn.running_mean, bn.running_var
