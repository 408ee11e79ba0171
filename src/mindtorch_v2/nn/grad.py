"""The gradients of convolutions with respect to their input and their weight."""

from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from .modules.utils import _ntuple

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _gradients(input: torch.Tensor, weight: torch.Tensor, grad_output: torch.Tensor, settings: tuple, groups: int,
               wanted: list[bool]) -> tuple:
    dims = input.dim() - 2
    stride, padding, dilation = (_ntuple(dims)(setting) for setting in settings)
    return torch.ops.aten.convolution_backward(
        grad_output, input, weight, None, stride, padding, dilation, False, (0,) * dims, groups, wanted)


def _of_input(dims: int) -> Callable[..., torch.Tensor]:
    def function(input_size: Any, weight: torch.Tensor, grad_output: torch.Tensor, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1) -> torch.Tensor:
        input = grad_output.new_empty(1).expand(input_size)  # only its shape counts
        settings = stride, padding, dilation
        return _gradients(input, weight, grad_output, settings, groups, [True, False, False])[0]

    return _named(function, f"conv{dims}d_input", "input")


def _of_weight(dims: int) -> Callable[..., torch.Tensor]:
    def function(input: torch.Tensor, weight_size: Any, grad_output: torch.Tensor, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1) -> torch.Tensor:
        weight = grad_output.new_empty(1).expand(weight_size)
        settings = stride, padding, dilation
        return _gradients(input, weight, grad_output, settings, groups, [False, True, False])[1]

    return _named(function, f"conv{dims}d_weight", "weight")


def _named(function: Callable[..., torch.Tensor], name: str, what: str) -> Callable[..., torch.Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The gradient of {name.partition('_')[0]} with respect to its {what}."
    return function


conv1d_input, conv2d_input, conv3d_input = map(_of_input, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_of_weight, (1, 2, 3))
