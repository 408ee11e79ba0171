"""NPU kernels of layer, batch and RMS norm."""

import math
from collections.abc import Callable
from typing import Any

from ...._core.dtype import finfo, float32
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.families import result_of
from ..chips import NEW
from ..families import cast, given, uninitialised
from ..launch import run
from ..runtime import started
from .operators import infer


@given("operator", "row")
def layer_norm(operator: Operator, row: Callable, input: Tensor, normalized_shape: tuple[int, ...], weight: Any,
               bias: Any, eps: float) -> Any:
    if not input.numel():
        specs = infer(operator, input, normalized_shape, weight, bias, eps)
        made = [uninitialised(spec, input._device) for spec in specs]
        return result_of(operator, (m.fill_(math.nan) if m._array.size else m for m in made))
    return row(input, normalized_shape, weight, bias, eps)


@given("operator", "row")
def layer_norm_backward(operator: Operator, row: Callable, grad_out: Tensor, input: Tensor,
                        normalized_shape: tuple[int, ...], mean: Tensor, rstd: Tensor, weight: Any, bias: Any,
                        output_mask: tuple) -> Any:
    if not input.numel():
        specs = infer(operator, grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
        made = (None if spec is None else uninitialised(spec, input._device).zero_() for spec in specs)
        return result_of(operator, made)
    return row(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)


def _scale(input: Tensor, normalized_shape: tuple[int, ...], weight: Tensor | None) -> Tensor:
    """The weight as ACLNN takes it beside the input: in its type, or float32 beside a half type."""
    if weight is None:
        return input.new_ones(tuple(normalized_shape))
    return weight if weight.dtype in (input.dtype, float32) else cast(weight, input.dtype)


@given("operator")
def rms_norm(operator: Operator, input: Tensor, normalized_shape: tuple[int, ...], weight: Tensor | None,
             eps: float | None) -> Any:
    """ACLNN gives the result in the input's type, whatever the weight's."""
    specs = infer(operator, input, normalized_shape, weight, eps)
    made = uninitialised(specs[0]._replace(dtype=input.dtype), input._device)
    rstd = uninitialised(specs[1], input._device)
    if eps is None:
        eps = finfo(float32 if input.dtype.itemsize < 4 else input.dtype).eps
    if input.numel():
        gamma = _scale(input, normalized_shape, weight)
        run("aclnnRmsNorm", (input._array, gamma._array, eps, made._array, rstd._array), operator.name)
    return result_of(operator, (cast(made, specs[0].dtype), rstd))


@given("operator")
def rms_norm_backward(operator: Operator, grad_out: Tensor, input: Tensor, normalized_shape: tuple[int, ...],
                      rstd: Tensor, weight: Tensor | None, output_mask: tuple) -> Any:
    """ACLNN wants all in the input's type, and gives the weight's gradient in float32."""
    gamma = _scale(input, normalized_shape, weight)
    of_input = input.new_empty(tuple(input.shape))
    of_weight = input.new_zeros(tuple(normalized_shape), dtype=float32)
    if input.numel():
        grad = cast(grad_out, input.dtype).contiguous()
        run("aclnnRmsNormGrad", (grad._array, input._array, rstd._array, gamma._array, of_input._array,
                                 of_weight._array), operator.name)
    made = of_input, of_weight if weight is None else cast(of_weight, weight.dtype)
    return result_of(operator, (m if w else None for m, w in zip(made, output_mask, strict=True)))


def _keeps_variance(tensor: Tensor) -> bool:
    """Whether this chip's BatchNorm keeps the variance where its parameter is named after the deviation."""
    return started(tensor._array.device_index).chip not in (NEW, None)


@given("operator", "row")
def batch_norm(operator: Operator, row: Callable, input: Tensor, weight: Any, bias: Any, eps: float) -> Any:
    output, mean, rstd = row(input, weight, bias, eps)
    if _keeps_variance(input):
        rstd = (rstd + eps).rsqrt()
    return result_of(operator, (output, mean, rstd))


@given("row")
def batch_norm_backward(row: Callable, grad_out: Tensor, input: Tensor, weight: Any, mean: Tensor, rstd: Tensor,
                        eps: float, output_mask: tuple) -> Any:
    if _keeps_variance(input):
        rstd = rstd.pow(-2) - eps
    return row(grad_out, input, weight, mean, rstd, eps, output_mask)
