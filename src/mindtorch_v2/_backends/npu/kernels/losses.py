"""NPU kernels of losses, normalisations and convolutions."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.dtype import finfo, float32
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.families import result_of
from ...._ops._declare.rules import Spec
from ..array import empty
from ..families import given, uninitialised
from ..launch import run
from .operators import infer, promoted_to_one, reshaped, untouched

# losses and norms ----------------------------------------------------------------------------------------------------


@given("row")
def distance_loss(row: Callable, self: Tensor, target: Tensor, *rest: Any) -> Tensor:
    if self._array.shape != target._array.shape:
        shape = np.broadcast_shapes(self._array.shape, target._array.shape)
        self, target = self.expand(shape).contiguous(), target.expand(shape).contiguous()
    return row(*promoted_to_one(self, target), *rest)


def _class_weights(like: Tensor, classes: int, weight: Tensor | None) -> Tensor:
    """The weights of all classes: ACLNN's operator wants them told even if all are one."""
    return like.new_ones((classes,)) if weight is None else weight


def _as_rows(self: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Class scores as a matrix, one row for each target."""
    if self.dim() <= 1:
        return self.reshape((1, -1)), target.reshape((1,))
    if self.dim() == 2:
        return self, target
    return self.movedim(1, -1).reshape((-1, self.shape[1])), target.reshape((-1,))


@given("operator")
def nll_loss(operator: Operator, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
             ignore_index: int) -> Tensor:
    spec = infer(operator, self, target, weight, reduction, ignore_index)
    rows, classes = _as_rows(self, target)
    if not rows.numel():
        return self.new_full(spec.shape, math.nan if reduction == 1 else 0.0)
    made = uninitialised(Spec((rows.shape[0],) if reduction == 0 else (), self.dtype), self._device)
    total = empty((1,), self._array.dtype, self._device)
    run("aclnnNLLLoss", (rows._array, classes._array, _class_weights(self, rows.shape[1], weight)._array, reduction,
                         ignore_index, made._array, total), "aten::nll_loss")
    return made if made._array.shape == spec.shape else reshaped(made, spec.shape)


def nll_loss_backward(grad_output: Tensor, target: Tensor, weight: Tensor | None, size: tuple[int, ...],
                      reduction: int, ignore_index: int) -> Tensor:
    scores = grad_output.new_zeros(size)
    if not scores.numel():
        return scores
    rows, classes = _as_rows(scores, target)
    weights = _class_weights(scores, rows.shape[1], weight)
    kept = classes != ignore_index
    total = (weights.index_select(0, classes.clamp_min(0) * kept) * kept).sum().reshape((1,))
    made = uninitialised(Spec(tuple(rows.shape), scores.dtype), scores._device)
    grad = grad_output.reshape((-1,)) if reduction == 0 else grad_output
    run("aclnnNLLLossBackward", (grad._array, rows._array, classes._array, weights._array, reduction, ignore_index,
                                 total._array, made._array), "aten::_nll_loss_backward")
    if len(size) == 2:
        return made
    back = made.reshape((size[0], *size[2:], size[1])).movedim(-1, 1) if len(size) > 2 else made.reshape(size)
    return untouched(back.contiguous())


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


# convolutions --------------------------------------------------------------------------------------------------------


@given("row")
def convolution(row: Callable, *args: Any) -> Any:
    """A single number for all dimensions is written out, as ACLNN wants it."""
    at = 2 if len(args) == 11 else 1  # the weight; one more argument, and then the numbers
    rank = args[at].dim() - 2
    return row(*args[: at + 2], *(v * rank if v.__class__ is tuple and len(v) == 1 else v for v in args[at + 2 :]))
