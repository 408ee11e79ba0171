"""Negative log likelihood and cross entropy: kernels of the language on arrays."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.dtype import WIDER
from ...._kernels.library import class_loss as library
from ...._ops._declare.rules import Spec
from ..jit.calls import prepared
from ..jit.repeats import empty, flag, repeats, zeros
from .arrays import takes_halves
from .reduce import contiguous
from .softmax import columns_at_once


def _sizes(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Samples, classes, elements of a sample."""
    if len(shape) < 3:
        return (1, shape[0], 1) if len(shape) == 1 else (shape[0], shape[1], 1)
    return shape[0], shape[1], math.prod(shape[2:])


@functools.cache
def _reducing(weighted: bool, reduction: int, picks: bool) -> Callable:
    return prepared(library.reduce_losses, weighted=weighted, reduction=reduction, picks=picks)


@functools.cache
def _spreading(weighted: bool, reduction: int) -> Callable:
    return prepared(library.spread_gradient, weighted=weighted, reduction=reduction)


_placed, _entropy = prepared(library.place_gradient), prepared(library.cross_entropy)
_entropy_gradient = prepared(library.cross_entropy_gradient)
_entropy_row_gradient = prepared(library.cross_entropy_row_gradient)


def _wide(kind: np.dtype) -> np.dtype:
    return WIDER.get(kind, kind)


def _reduced(wrong: Any, losses: Any, target: Any, weight: Any, sizes: tuple[int, int, int], reduction: int,
             ignored: int, spec: Spec, picks: bool) -> Any:
    """The loss, from those of the elements or from scores; None where a class is none, which the flag says."""
    (samples, classes, inner), made = sizes, empty(spec.shape, spec.dtype.np)
    done = _reducing(weight is not None, reduction, picks)(
        made, wrong, losses, target, losses if weight is None else weight, samples * inner, classes, inner, ignored)
    return made if done and not wrong[0] else None


@repeats
@takes_halves
def nll_loss(scores: Any, target: Any, weight: Any, reduction: int, ignore_index: int, *, spec: Spec) -> Any:
    wrong, weight = flag(), None if weight is None else contiguous(weight)
    return _reduced(wrong, contiguous(scores), contiguous(target), weight, _sizes(scores.shape), reduction,
                    ignore_index, spec, picks=True)


def _spread(grad: Any, target: Any, weight: Any, sizes: tuple[int, int, int], reduction: int, ignored: int) -> Any:
    each = empty(target.size, _wide(grad.dtype))
    grad = contiguous(grad)
    done = _spreading(weight is not None, reduction)(
        each, grad, target, grad if weight is None else contiguous(weight), target.size, sizes[1], ignored)
    return each if done else None


@repeats
@takes_halves
def nll_loss_backward(grad: Any, target: Any, weight: Any, size: tuple, reduction: int, ignore_index: int, *,
                      spec: Spec) -> Any:
    target, sizes = contiguous(target), _sizes(size)
    each = _spread(grad, target, weight, sizes, reduction, ignore_index)
    if each is None:
        return None
    made = zeros(size, spec.dtype.np)
    done = _placed(made, each, target, target.size, *sizes[1:], ignore_index)
    return made if done else None


@repeats
@takes_halves
def cross_entropy(scores: Any, target: Any, weight: Any, reduction: int, ignore_index: int, *, spec: tuple) -> Any:
    scores, target = contiguous(scores), contiguous(target)
    weight = None if weight is None else contiguous(weight)
    samples, classes, inner = sizes = _sizes(scores.shape)
    if not classes or not target.size:
        return None
    wrong, losses = flag(), empty(target.size, _wide(scores.dtype))
    top, total = (empty(s.shape, s.dtype.np) for s in spec[1:])
    if not _entropy(losses, top, total, scores, target, *sizes,
                    columns_at_once(samples, classes, inner) if inner > 1 else 1):
        return None
    loss = _reduced(wrong, losses, target, weight, sizes, reduction, ignore_index, spec[0], picks=False)
    return None if loss is None else (loss, top, total)


@repeats
@takes_halves
def cross_entropy_backward(grad: Any, scores: Any, target: Any, weight: Any, top: Any, total: Any, reduction: int,
                           ignore_index: int, *, spec: Spec) -> Any:
    scores, target = contiguous(scores), contiguous(target)
    samples, classes, inner = sizes = _sizes(scores.shape)
    each = _spread(grad, target, weight, sizes, reduction, ignore_index)
    if each is None:
        return None
    made = empty(scores.shape, spec.dtype.np)
    given = (made, each, scores, target, contiguous(top), contiguous(total))
    if inner == 1:
        done = _entropy_row_gradient(*given, samples, classes, ignore_index)
    else:
        done = _entropy_gradient(*given, *sizes, ignore_index)
    return made if done else None
