"""Losses: signatures of torch.nn.functional over the loss operators."""

import math
from collections.abc import Callable
from typing import Any

from ..._core.tensor import Tensor
from ..._core.warn import warn
from ..._ops._declare.op import public_functions
from .._reduction import get_enum, legacy_get_string

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy",
    "ctc_loss", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "linear_cross_entropy",
    "margin_ranking_loss",
    "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss",
    "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]

_operators = public_functions("_nn")
_torch = public_functions("torch")
_functional = public_functions("nn.functional")
_linear = _functional["linear"]


def _reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> int:
    """The reduction's number, from its name or from the two arguments it replaced."""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    return get_enum(reduction)


def _sizes_differ(input: Tensor, target: Tensor) -> bool:
    """Whether two tensors have different sizes."""
    return target.size() != input.size()


def _warn_of_broadcast(input: Tensor, target: Tensor) -> None:
    if _sizes_differ(input, target):
        warn(f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will "
             "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.", outer=2)


def _weighted(losses: Any, weight: Any, input: Tensor, reduction: int) -> Tensor:
    """Losses of elements times their weights, reduced."""
    if weight._array.shape != input._array.shape:
        raise ValueError("Weights and input must have the same size.")
    losses = losses * weight
    if reduction == 0:
        return losses
    return losses.sum() if reduction == 2 else losses.sum() / weight.sum()


# distances -----------------------------------------------------------------------------------------------------------

_mse_loss, _l1_loss = _operators["mse_loss"], _operators["l1_loss"]
_smooth_l1_loss, _huber_loss = _operators["smooth_l1_loss"], _operators["huber_loss"]


def _distance(loss: Callable, input: Tensor, target: Tensor, code: int, weight: Tensor | None) -> Tensor:
    """A loss of elements, of which each may have a weight."""
    if weight is None:
        return loss(input, target, code)
    return _weighted(loss(input, target, 0), weight, input, code)


def mse_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
             reduction: str = "mean",
             weight: Tensor | None = None) -> Tensor:
    """(input - target)^2"""
    _warn_of_broadcast(input, target)
    return _distance(_mse_loss, input, target, _reduction(size_average, reduce, reduction), weight)


def l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
            reduction: str = "mean",
            weight: Tensor | None = None) -> Tensor:
    """|input - target|"""
    _warn_of_broadcast(input, target)
    return _distance(_l1_loss, input, target, _reduction(size_average, reduce, reduction), weight)


def smooth_l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                   reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """A square below `beta`, then |input - target|."""
    _warn_of_broadcast(input, target)
    code = _reduction(size_average, reduce, reduction)
    return _smooth_l1_loss(input, target, code, beta)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Tensor | None = None) -> Tensor:
    """A square below `delta`, then a line of slope `delta`."""
    _warn_of_broadcast(input, target)
    code = get_enum(reduction)
    if weight is None:
        return _huber_loss(input, target, code, delta)
    losses = _weighted(_huber_loss(input, target, 0, delta), weight, input, 0)
    return losses if code == 0 else losses.mean() if code == 1 else losses.sum()


# classes -------------------------------------------------------------------------------------------------------------

_cross_entropy_loss, _nll_loss = _operators["cross_entropy_loss"], _operators["nll_loss"]


def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                  ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:
    """The negative log probability of target classes, or of a target distribution, from scores."""
    code = _reduction(size_average, reduce, reduction)
    return _cross_entropy_loss(input, target, weight, code, ignore_index, label_smoothing)


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
             ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """The negative log probability of target classes, from log probabilities."""
    code = _reduction(size_average, reduce, reduction)
    return _nll_loss(input, target, weight, code, ignore_index)


def linear_cross_entropy(input: Any, linear_weight: Any, target: Any, *, linear_bias: Any = None,
                         weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
                         label_smoothing: float = 0.0, options: Any = None) -> Tensor:
    """`cross_entropy` of a linear layer's outputs; `options` of cutting it into pieces change no result."""
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    width = linear_weight.size(-1)
    if input.size(-1) != width:
        raise RuntimeError("expected equal input and linear_weight last dimensions (in_features), got "
                           f"{input.size(-1)} and {width}, respectively")
    if isinstance(target, Tensor) and target.is_floating_point() and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = _linear(input, linear_weight.reshape(-1, width), bias)
    logits = logits.reshape(*input.shape[:-1], *linear_weight.shape[:-1])
    return cross_entropy(logits, target, weight, None, -100 if ignore_index is None else ignore_index, None, reduction,
                         label_smoothing)


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
             reduction: str = "mean", zero_infinity: bool = False) -> Tensor:
    """The negative log probability of label sequences, whatever their alignment in time."""
    return _torch["ctc_loss"](log_probs, targets, input_lengths, target_lengths, blank, get_enum(reduction),
                              zero_infinity)


# probabilities -------------------------------------------------------------------------------------------------------

_binary_cross_entropy, _kl_div = _operators["binary_cross_entropy"], _torch["kl_div"]
_binary_cross_entropy_with_logits = _torch["binary_cross_entropy_with_logits"]
_poisson_nll_loss = _torch["poisson_nll_loss"]


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """-target log(input) - (1 - target) log(1 - input)"""
    code = _reduction(size_average, reduce, reduction)
    if _sizes_differ(input, target):
        raise ValueError(f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) "
                         "is deprecated. Please ensure they have the same size.")
    return _binary_cross_entropy(input, target, weight, code)


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     size_average: bool | None = None,
                                     reduce: bool | None = None, reduction: str = "mean",
                                     pos_weight: Tensor | None = None) -> Tensor:
    """`binary_cross_entropy` of sigmoid(input)."""
    code = _reduction(size_average, reduce, reduction)
    if _sizes_differ(input, target):
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return _binary_cross_entropy_with_logits(input, target, weight, pos_weight, code)


def kl_div(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
           reduction: str = "mean",
           log_target: bool = False) -> Tensor:
    """target (log(target) - input)"""
    if size_average is not None or reduce is not None:
        reduction = legacy_get_string(size_average, reduce)
    if reduction == "mean":
        warn("reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
             "only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the "
             "same as 'batchmean' in the next major release.", outer=1)
    loss = _kl_div(input, target, get_enum("sum" if reduction == "batchmean" else reduction), log_target=log_target)
    return loss / input.shape[0] if reduction == "batchmean" and input.dim() else loss


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     size_average: bool | None = None,
                     eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """The negative log likelihood of counts under a Poisson distribution."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not a valid value for reduction")  # TypeError for what is no string
    return _poisson_nll_loss(input, target, log_input, full, eps, _reduction(size_average, reduce, reduction))


def gaussian_nll_loss(input: Any, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> Tensor:
    """The negative log likelihood of values under normal distributions of mean `input` and variance `var`."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = input.new_full(input.shape, var)
    elif not isinstance(var, Tensor):
        raise TypeError(f"any() received an invalid combination of arguments - got ({type(var).__name__}), but "
                        "expected a Tensor")
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not _all_broadcast(var.shape, input.shape):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    clamped = var + (var.detach().clone().clamp_(eps) - var.detach())  # no gradient stops at the clamp
    loss = 0.5 * (clamped.log() + (input - target) ** 2 / clamped)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _all_broadcast(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    return len(shape) == len(target) and all(m in (1, n) for m, n in zip(shape, target, strict=True))


# margins -------------------------------------------------------------------------------------------------------------

_soft_margin_loss, _hinge_embedding_loss = _operators["soft_margin_loss"], _torch["hinge_embedding_loss"]
_margin_ranking_loss, _cosine_embedding_loss = _torch["margin_ranking_loss"], _torch["cosine_embedding_loss"]
_triplet_margin_loss, _pairwise_distance = _torch["triplet_margin_loss"], _torch["pairwise_distance"]


def soft_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                     reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input))"""
    return _soft_margin_loss(input, target, _reduction(size_average, reduce, reduction))


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """`input` where the target is 1, max(0, margin - input) where it is -1."""
    return _hinge_embedding_loss(input, target, margin, _reduction(size_average, reduce, reduction))


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
                        size_average: bool | None = None,
                        reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """max(0, -target * (input1 - input2) + margin)"""
    return _margin_ranking_loss(input1, input2, target, margin, _reduction(size_average, reduce, reduction))


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
                          size_average: bool | None = None,
                          reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""
    return _cosine_embedding_loss(input1, input2, target, margin, _reduction(size_average, reduce, reduction))


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
                        eps: float = 1e-6,
                        swap: bool = False, size_average: bool | None = None, reduce: bool | None = None,
                        reduction: str = "mean") -> Tensor:
    """max(0, distance to the positive - distance to the negative + margin)"""
    code = _reduction(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, code)


def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *,
                                      distance_function: Callable[[Tensor, Tensor], Any] | None = None,
                                      margin: float = 1.0,
                                      swap: bool = False, reduction: str = "mean") -> Tensor:
    """`triplet_margin_loss` with any measure of distance."""
    code = get_enum(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance: Callable = _pairwise_distance if distance_function is None else distance_function
    ranks = [x.ndim for x in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number of "
                           "dimensions, but "
                           f"got: anchor {ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D inputs")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    losses = (margin + near - far).clamp_min(0)
    return losses.mean() if code == 1 else losses.sum() if code == 2 else losses


_multi_margin_loss, _multilabel_margin_loss = _operators["multi_margin_loss"], _operators["multilabel_margin_loss"]
_log_sigmoid = _functional["logsigmoid"]


def multi_margin_loss(input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Any = None,
                      size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """The mean over classes of max(0, margin - score of the target + score)^p."""
    code = _reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return _multi_margin_loss(input, target, p, margin, weight, code)


def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                           reduction: str = "mean") -> Tensor:
    """The mean over classes of max(0, 1 - score of a target + score of a class that is none), summed over targets."""
    return _multilabel_margin_loss(input, target, _reduction(size_average, reduce, reduction))


def multilabel_soft_margin_loss(input: Any, target: Any, weight: Any = None, size_average: bool | None = None,
                                reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """The mean over classes of the binary cross entropy of sigmoid(input)."""
    if size_average is None and reduce is None and reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")  # TypeError for what is no string
    code = _reduction(size_average, reduce, reduction)
    losses = -(target * _log_sigmoid(input) + (1 - target) * _log_sigmoid(-input))
    if weight is not None:
        losses = losses * weight
    losses = losses.sum(-1) / input.size(-1)
    return losses.mean() if code == 1 else losses.sum() if code == 2 else losses
