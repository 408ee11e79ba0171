"""NPU kernels of layer norm and RMS norm."""

import math
from collections.abc import Callable
from typing import Any

from ...._core.dtype import finfo, float32
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.families import result_of
from ..families import given, uninitialised
from ..launch import run
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


@given("operator")
def rms_norm(operator: Operator, input: Tensor, normalized_shape: tuple[int, ...], weight: Tensor | None,
             eps: float | None) -> Any:
    specs = infer(operator, input, normalized_shape, weight, eps)
    made = [uninitialised(spec, input._device) for spec in specs]
    if eps is None:
        eps = finfo(float32 if input.dtype.itemsize < 4 else input.dtype).eps
    if input.numel():
        gamma = input.new_ones(tuple(normalized_shape)) if weight is None else weight
        run("aclnnRmsNorm", (input._array, gamma._array, eps, *(m._array for m in made)), "aten::_native_rms_norm")
    return result_of(operator, made)


@given("operator")
def rms_norm_backward(operator: Operator, grad_out: Tensor, input: Tensor, normalized_shape: tuple[int, ...],
                      rstd: Tensor, weight: Tensor | None, output_mask: tuple) -> Any:
    gamma = input.new_ones(tuple(normalized_shape)) if weight is None else weight
    made = input.new_empty(tuple(input.shape)), gamma.new_empty(tuple(normalized_shape))
    if input.numel():
        run("aclnnRmsNormGrad", (grad_out._array, input._array, rstd._array, gamma._array, *(m._array for m in made)),
            "aten::_native_rms_norm_backward")
    else:
        made[1].zero_()
    return result_of(operator, (m if w else None for m, w in zip(made, output_mask, strict=True)))
