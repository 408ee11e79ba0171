"""NPU kernels of losses."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops._declare.families import result_of
from ...._ops._declare.rules import Spec
from ..array import empty
from ..chips import A2, A3, Unsupported
from ..families import given, uninitialised
from ..launch import run
from ..runtime import started
from .operators import infer, promoted_to_one, reshaped, untouched


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


@given("operator")
def ctc_loss(operator: Operator, log_probs: Tensor, targets: Tensor, input_lengths: tuple[int, ...],
             target_lengths: tuple[int, ...], blank: int, zero_infinity: bool) -> Any:
    """On an A2 and A3 the alphas have room for a multiple of eight places."""
    specs = infer(operator, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    losses, count = uninitialised(specs[0], log_probs._device), specs[1].shape[-1]
    room = -(-count // 8) * 8 if started(log_probs._array.device_index).chip in (A2, A3) else count
    alphas = uninitialised(Spec((*specs[1].shape[:-1], room), specs[1].dtype), log_probs._device)
    if not all(0 < length <= count for count, length in zip(input_lengths, target_lengths, strict=True)):
        raise Unsupported("aclnnCtcLoss wants at least one label in each target, and no more labels than steps")
    if losses._array.size:
        run("aclnnCtcLoss", (log_probs._array, targets._array, input_lengths, target_lengths, blank, zero_infinity,
                             losses._array, alphas._array), operator.name)
    return result_of(operator, (losses, alphas if room == count else alphas.narrow(-1, 0, count).clone()))
