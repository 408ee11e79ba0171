"""Losses by compiled kernels."""

from typing import Any

import numpy as np

from ...._kernels.library import margin as kernels
from ...._ops._declare.rules import Spec
from ...._ops.loss import MEAN, NONE
from ..jit.calls import hurry, launched
from ..jit.repeats import empty, flag, repeats, zeros

hurry(kernels.multi_margin, kernels.multi_margin_backward, kernels.multilabel_margin,
      kernels.multilabel_margin_backward, kernels.folded)


def _rows(scores: Any) -> Any:
    return scores.reshape(-1, scores.shape[-1] if scores.ndim else 1)


def _reduced(losses: Any, reduction: int, spec: Spec) -> Any:
    """Losses of rows as the spec has them; None if nothing could be launched."""
    if reduction == NONE:
        return losses.reshape(spec.shape)
    out = empty((), losses.dtype)
    done = launched(kernels.folded, out.reshape(1), losses, losses.size if reduction == MEAN else 1)
    return out if done else None


def _is_each(grad: Any, reduction: int, rows: int, classes: int) -> tuple[bool, float]:
    """Whether the gradient is of each row, and what a row's share is of it."""
    return reduction == NONE, 1 / (classes * (rows if reduction == MEAN else 1))


@repeats
def multi_margin_loss(self: Any, target: Any, p: Any, margin: Any, weight: Any, reduction: int, spec: Spec) -> Any:
    scores, bad = _rows(self), flag()
    losses = empty(len(scores), self.dtype)
    done = losses.size and launched(
        kernels.multi_margin, losses, bad, scores, target.reshape(-1), losses if weight is None else weight, margin,
        p=int(p), weighed=weight is not None)
    return _reduced(losses, reduction, spec) if done and not bad[0] else None


@repeats
def multi_margin_loss_backward(grad_output: Any, self: Any, target: Any, p: Any, margin: Any, weight: Any,
                               reduction: int, spec: Spec) -> Any:
    scores, bad = _rows(self), flag()
    out = empty(self.shape, self.dtype)
    each, scale = _is_each(grad_output, reduction, *scores.shape)
    done = out.size and launched(
        kernels.multi_margin_backward, _rows(out), bad, grad_output.reshape(-1), scores, target.reshape(-1),
        grad_output.reshape(-1) if weight is None else weight, margin, scale, p=int(p), weighed=weight is not None,
        each=each)
    return out if done and not bad[0] else None


@repeats
def multilabel_margin_loss(self: Any, target: Any, reduction: int, spec: Spec) -> Any:
    scores, bad = _rows(self), flag()
    losses, listed = empty(len(scores), self.dtype), zeros(scores.shape, np.uint8)
    done = losses.size and launched(kernels.multilabel_margin, losses, listed, bad, scores,
                                    target.reshape(scores.shape))
    return _reduced(losses, reduction, spec) if done and not bad[0] else None


@repeats
def multilabel_margin_loss_backward(grad_output: Any, self: Any, target: Any, reduction: int, spec: Spec) -> Any:
    scores, bad = _rows(self), flag()
    out, listed = zeros(self.shape, self.dtype), zeros(scores.shape, np.uint8)
    each, scale = _is_each(grad_output, reduction, *scores.shape)
    done = out.size and launched(
        kernels.multilabel_margin_backward, _rows(out), listed, bad, grad_output.reshape(-1), scores,
        target.reshape(scores.shape), scale, each=each)
    return out if done and not bad[0] else None


@repeats
def binary_cross_entropy(self: Any, target: Any, weight: Any, reduction: int, spec: Spec) -> Any:
    given = [self, target] if weight is None else [self, target, weight]
    if any(a.shape != self.shape or not a.flags.c_contiguous for a in given):
        return None
    bad, losses = flag(), empty(self.shape, self.dtype)
    done = losses.size and launched(kernels.binary_cross_entropy, losses, bad, self, target,
                                    losses if weight is None else weight, self.size, weighed=weight is not None)
    if not done or bad[0]:
        return None
    return losses if reduction == NONE else _reduced(losses.reshape(-1), reduction, spec)
