"""Fused operators as simpler ones, for vmap: they run at the level itself, where their parts have rules."""

from collections.abc import Callable, Sequence
from typing import Any

from .._ops.loss import MEAN, NONE
from .batching import DECOMPOSED, Call, pointwise, rule


def decomposed(name: str) -> Callable:
    def register(function: Callable) -> Callable:
        DECOMPOSED[f"aten::{name}"] = function
        return function

    return register


@rule("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy")
def _elementwise_loss(call: Call) -> tuple[Any, Any]:
    at = call.operator.schema.index["reduction"]
    reduction, call.values[at] = call.values[at], NONE
    if any(call.batched):  # losses have the shape of the input
        call.values[0], call.batched[0] = call.full(0), True
    losses, _ = pointwise(call)
    if reduction == NONE or losses._array.ndim == 1:
        return losses, True
    inner = tuple(range(1, losses._array.ndim))
    return (losses.mean(inner) if reduction == MEAN else losses.sum(inner)), True


# classes -------------------------------------------------------------------------------------------------------------


def _weights(scores: Any, target: Any, weight: Any, ignore_index: int) -> tuple[Any, Any, Any]:
    """(class indices that can be looked up, which elements count, the weight of each: 0 where it is ignored)."""
    kept = target != ignore_index
    safe = target.where(kept, 0)
    each = kept.to(scores.dtype)
    return safe, kept, each if weight is None else each * weight[safe.reshape((-1,))].reshape(safe.shape)


def _widened(value: Any) -> Any:
    return value.float() if value.dtype.itemsize == 2 else value


def _class_dim(scores: Any) -> int:
    return 0 if scores.dim() == 1 else 1


@decomposed("nll_loss")
def _nll_loss(self, target, weight, reduction, ignore_index):
    dim = _class_dim(self)
    safe, kept, each = _weights(self, target, weight, ignore_index)
    losses = (-self.gather(dim, safe.unsqueeze(dim)).squeeze(dim)).where(kept, 0) * each
    if reduction == NONE:
        return losses
    return losses.sum() / each.sum() if reduction == MEAN else losses.sum()


def _spread(grad_output: Any, kept: Any, each: Any, reduction: int) -> Any:
    """The gradient of each element's loss, times its weight; zero where it is ignored, even if all are."""
    made = grad_output * each / each.sum() if reduction == MEAN else grad_output * each
    return made.where(kept, 0)


@decomposed("_nll_loss_backward")
def _nll_loss_backward(grad_output, target, weight, size, reduction, ignore_index):
    dim = 0 if len(size) == 1 else 1
    safe, kept, each = _weights(grad_output, target, weight, ignore_index)
    amounts = -_spread(grad_output, kept, each, reduction).unsqueeze(dim)
    return amounts.new_zeros(size).scatter_add(dim, safe.unsqueeze(dim), amounts)


@decomposed("_cross_entropy")
def _cross_entropy(self, target, weight, reduction, ignore_index):
    dim = _class_dim(self)
    top = self.amax(dim, keepdim=True)
    shifted = _widened(self - top)
    total = shifted.exp().sum(dim, keepdim=True)
    loss = _nll_loss((shifted - total.log()).to(self.dtype), target, weight, reduction, ignore_index)
    return loss, top, total


@decomposed("_cross_entropy_backward")
def _cross_entropy_backward(grad_output, self, target, weight, top, total, reduction, ignore_index):
    dim = _class_dim(self)
    safe, kept, each = _weights(self, target, weight, ignore_index)
    amounts = _spread(grad_output, kept, each, reduction).unsqueeze(dim)
    made = (self - top).exp() * (amounts / total).to(self.dtype)
    return made.scatter_add(dim, safe.unsqueeze(dim), -amounts)


# normalisation -------------------------------------------------------------------------------------------------------


def _trailing(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(-len(shape), 0))


@decomposed("_native_layer_norm")
def _layer_norm(input, normalized_shape, weight, bias, eps):
    x, dims = _widened(input), _trailing(normalized_shape)
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    rstd = ((centred * centred).mean(dims, keepdim=True) + eps).rsqrt()
    made = centred * rstd
    made = made if weight is None else made * weight
    return (made if bias is None else made + bias).to(input.dtype), mean, rstd


def _reduced_to(value: Any, shape: Sequence[int]) -> Any:
    """Summed over all dimensions before those that are normalised."""
    extra = value.dim() - len(shape)
    return value.sum(tuple(range(extra))) if extra else value


def _of_weight(value: Any, weight: Any) -> Any:
    return None if weight is None else _reduced_to(value, weight.shape).to(weight.dtype)


def _through_norm(scaled: Any, unit: Any, rstd: Any, dims: tuple[int, ...], *, centred: bool) -> Any:
    made = scaled - unit * (scaled * unit).mean(dims, keepdim=True)
    return (made - scaled.mean(dims, keepdim=True) if centred else made) * rstd


@decomposed("native_layer_norm_backward")
def _layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    dims = _trailing(normalized_shape)
    unit = (input - mean) * rstd
    scaled = grad_out if weight is None else grad_out * weight
    of_input, of_weight, of_bias = output_mask
    return (_through_norm(scaled, unit, rstd, dims, centred=True).to(input.dtype) if of_input else None,
            _of_weight(grad_out * unit, weight) if of_weight else None,
            _reduced_to(grad_out, normalized_shape) if of_bias else None)


@decomposed("_native_rms_norm")
def _rms_norm(input, normalized_shape, weight, eps):
    x = _widened(input)
    rstd = ((x * x).mean(_trailing(normalized_shape), keepdim=True) + eps).rsqrt()
    made = x * rstd
    return (made if weight is None else made * weight).to(input.dtype), rstd


@decomposed("_native_rms_norm_backward")
def _rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, output_mask):
    unit = input * rstd
    scaled = grad_out if weight is None else grad_out * weight
    of_input, of_weight = output_mask
    dims = _trailing(normalized_shape)
    return (_through_norm(scaled, unit, rstd, dims, centred=False).to(input.dtype) if of_input else None,
            _of_weight(grad_out * unit, weight) if of_weight else None)
