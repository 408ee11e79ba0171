"""Losses of class scores: negative log likelihood and cross entropy. Classes are dimension 1, or all there is."""

import math
from typing import Any

import numpy as np

from .._autograd.names import OTHERWISE
from .._core.dtype import COMPUTE, FLOAT, int64, promote_types, uint8
from .._core.elements import at_hand
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.registry import Operator
from ._declare.aten import LEAF, Aten, first
from ._declare.batch import decomposed
from ._declare.families import computes
from ._declare.op import composite, function_of, op
from ._declare.rules import Spec, check_constant, shape_text
from ._declare.samples import case, cases, error, ints, t, values
from .loss import MEAN, NONE, SUM, same_batch, unsupported

# checks --------------------------------------------------------------------------------------------------------------


def _check_classes(self: Tensor, target: Tensor, weight: Tensor | None) -> None:
    """Raises unless `target` holds a class for each vector of scores."""
    shape, wanted = self._array.shape, target._array.shape
    check_constant("nll_loss_forward" if len(shape) < 3 else "nll_loss2d_forward", weight=weight)
    if not shape:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if len(shape) == 1:
        if len(wanted) == 1 and wanted[0] != 1:
            raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {wanted[0]}")
        if len(wanted) > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    else:
        same_batch(shape[0], wanted)
        if len(shape) == 2 and len(wanted) > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if len(shape) == 4 and len(wanted) != 3:
            raise RuntimeError("only batches of spatial targets supported (3D tensors) but got targets of dimension: "
                               f"{len(wanted)}")
        if wanted != (shape[0], *shape[2:]):
            if len(shape) == 4:
                raise RuntimeError(f"size mismatch (got input: {shape_text(shape)} , target: {shape_text(wanted)}")
            raise RuntimeError(f"Expected target size {shape_text((shape[0], *shape[2:]))}, got {shape_text(wanted)}")
    if target.dtype is not int64 and target.dtype is not uint8:
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {target.dtype.scalar_name}")
    classes = shape[0] if len(shape) == 1 else shape[1]
    if weight is not None:
        if weight._array.shape != (classes,):
            if len(shape) == 4:
                raise RuntimeError("weight tensor should be defined either for all or no classes")
            raise RuntimeError(f"weight tensor should be defined either for all {classes} classes or no classes but "
                               f"got weight tensor of shape: {shape_text(weight._array.shape)}")
        if weight.dtype is not self.dtype:
            raise RuntimeError(f"expected scalar type {self.dtype.scalar_name} but found {weight.dtype.scalar_name}")


def _loss_shape(self: Tensor, target: Tensor, reduction: int) -> tuple[int, ...]:
    if reduction != NONE:
        return ()
    return target._array.shape if self._array.ndim > 1 else ()


# array functions -----------------------------------------------------------------------------------------------------


class _Classes:
    """Class indices ready for use: a safe index where one is ignored, and the weight of each element (None for one).

    `ignored` marks the elements that count for nothing, None where there are none.
    """

    def __init__(self, xp: Any, target: Any, classes: int, weight: Any, ignore_index: int) -> None:
        self.index, self.weights, self.ignored, self.shape = target, None, None, target.shape
        # Seen as unsigned, negative numbers are large: one comparison finds both kinds of strangers.
        unsigned = target.view(np.uint64) if target.dtype == np.int64 else target
        if not at_hand(target):  # a device is not waited for
            ignored = target == ignore_index
        elif target.size and unsigned.max() >= classes:
            ignored = target == ignore_index
            wrong = target[(unsigned >= classes) & ~ignored]
            if wrong.size:
                raise IndexError(f"Target {wrong[0]} is out of bounds.")
        elif weight is None and not 0 <= ignore_index < classes:
            return
        else:
            ignored = target == ignore_index
        self.index, self.ignored = xp.where(ignored, 0, target), ignored
        self.weights = ~ignored if weight is None else xp.where(ignored, 0, weight[self.index])

    def total(self) -> Any:
        """The weight of all elements together."""
        return self.index.size if self.weights is None else self.weights.sum()

    def picked(self, xp: Any, scores: Any) -> Any:
        """The target's score of each element."""
        if scores.ndim == 2:
            return scores[xp.arange(len(self.index)), self.index]
        return xp.take_along_axis(scores, self.index[:, None], 1)[:, 0]

    def add_at(self, xp: Any, scores: Any, amounts: Any) -> None:
        """Adds to the target's score of each element."""
        if scores.ndim == 2:
            scores[xp.arange(len(self.index)), self.index] += amounts
        else:
            at, amounts = self.index[:, None], xp.broadcast_to(amounts, self.shape)[:, None]
            xp.put_along_axis(scores, at, xp.take_along_axis(scores, at, 1) + amounts, 1)

    def reduced(self, losses: Any, reduction: int) -> Any:
        if self.weights is not None:
            losses = losses * self.weights
            losses[self.ignored] = 0  # one of them may be infinite
        if reduction == NONE:
            return losses
        total = losses.sum()
        return total / self.total() if reduction == MEAN else total

    def spread(self, xp: Any, grad: Any, reduction: int) -> Any:
        """The gradient of each element's loss, times its weight."""
        if reduction == MEAN:
            grad = grad / self.total()
        # All of them ignored, the total is zero: the gradient of an ignored element is zero even so.
        return grad if self.weights is None else xp.where(self.ignored, 0, grad * self.weights)


def _batched(array: Any, target: Any) -> tuple[Any, Any]:
    """Scores and target with a batch dimension."""
    return (array, target) if array.ndim > 1 else (array[None], target.reshape(1))


# negative log likelihood ---------------------------------------------------------------------------------------------


def _nll_spec(self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Spec:
    _check_classes(self, target, weight)
    if self.dtype.category != FLOAT:
        raise unsupported("nll_loss_out_frame", self.dtype)
    return Spec(_loss_shape(self, target, reduction), self.dtype)


def _nll_array(xp: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int, spec: Spec) -> Any:
    scores, target = _batched(self, target)
    classes = _Classes(xp, target, scores.shape[1], weight, ignore_index)
    loss = classes.reduced(-classes.picked(xp, scores), reduction)
    return loss.reshape(spec.shape)


_CLASS_SAMPLES = (case(t(4, 3), ints(4, high=3)), case(t(4, 3), ints(4, high=3), t(3, low=0.1, grad=False), 0),
                  case(t(4, 3), values([0, 1, 2, 1]), None, 1, 1), case(t(3), ints(high=3)),
                  case(t(2, 3, 4), ints(2, 4, high=3), None, 2),
                  case(t(2, 3, 2, 2), ints(2, 2, 2, high=3), t(3, low=0.1, grad=False)),
                  error(ValueError, "Expected input batch_size (2) to match target batch_size (3).", t(2, 3),
                        ints(3, high=3)),
                  error(IndexError, "Target 7 is out of bounds.", t(2, 3), values([1, 7])))

def _class_dim(scores: Any) -> int:
    return 0 if scores.dim() == 1 else 1


def _weighed(scores: Any, target: Any, weight: Any, ignore_index: int) -> tuple[Any, Any, Any]:
    """(class indices that can be looked up, which elements count, the weight of each: 0 where it is ignored)."""
    kept = target != ignore_index
    safe = target.where(kept, 0)
    each = kept.to(scores.dtype)
    return safe, kept, each if weight is None else each * weight[safe.reshape((-1,))].reshape(safe.shape)


def _nll_by_parts(self, target, weight, reduction, ignore_index):
    dim = _class_dim(self)
    safe, kept, each = _weighed(self, target, weight, ignore_index)
    losses = (-self.gather(dim, safe.unsqueeze(dim)).squeeze(dim)).where(kept, 0) * each
    if reduction == NONE:
        return losses
    return losses.sum() / each.sum() if reduction == MEAN else losses.sum()


_NLL_NODES = {"ViewBackward0": f"reduction == {NONE} and self.dim() not in (1, 2, 4)",
              "NllLoss2DBackward0": "self.dim() > 2", "NllLossBackward0": OTHERWISE}

_nll_loss = function_of(op(
    "nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100) -> Tensor",
    node=_NLL_NODES,
    kernel=computes(_nll_spec, _nll_array),
    kernels={"cpu": "class_loss.nll_loss", "cuda": "loss.nll_loss", "npu": "loss.nll_loss"},
    grad=dict(self=lambda grad, target, weight, reduction, ignore_index, self_shape:
              call_bound(_NLL_BACKWARD, (grad, target, weight, self_shape, reduction, ignore_index))),
    public="_nn", aliases=("nll_loss_nd",), samples=cases(*_CLASS_SAMPLES),
    decomposition=_nll_by_parts, batch=decomposed, aten=Aten(name="nll_loss_forward", result=first),
    autocast="float32"))


def _nll_backward_array(xp: Any, grad_output: Any, target: Any, weight: Any, size: tuple, reduction: int,
                        ignore_index: int) -> Any:
    made = xp.zeros(size, grad_output.dtype)
    scores, target = _batched(made, target)
    classes = _Classes(xp, target, scores.shape[1], weight, ignore_index)
    classes.add_at(xp, scores, -classes.spread(xp, grad_output, reduction))
    return made


def _spread(grad_output: Any, kept: Any, each: Any, reduction: int) -> Any:
    """The gradient of each element's loss, times its weight; zero where it is ignored, even if all are."""
    made = grad_output * each / each.sum() if reduction == MEAN else grad_output * each
    return made.where(kept, 0)


def _nll_backward_by_parts(grad_output, target, weight, size, reduction, ignore_index):
    dim = 0 if len(size) == 1 else 1
    safe, kept, each = _weighed(grad_output, target, weight, ignore_index)
    amounts = -_spread(grad_output, kept, each, reduction).unsqueeze(dim)
    return amounts.new_zeros(size).scatter_add(dim, safe.unsqueeze(dim), amounts)


@composite("nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index)"
           " -> (Tensor output, Tensor total_weight)", public="", aten=LEAF, sharded="class_loss")
def _nll_loss_forward(self, target, weight, reduction, ignore_index):
    kept = target != ignore_index
    if weight is None:
        total = kept.sum().to(self.dtype)
    else:
        total = weight[target.where(kept, 0)].where(kept, 0).sum()
    return _nll_loss(self, target, weight, reduction, ignore_index), total


# Linear in the gradient, so that its own derivative is the loss again.
_NLL_BACKWARD: Operator = op(
   "_nll_loss_backward(Tensor grad_output, Tensor target, Tensor? weight, int[] size, int reduction, int "
   "ignore_index) -> Tensor",
   kernel=computes(lambda grad_output, target, weight, size, reduction, ignore_index: Spec(size, grad_output.dtype),
                   _nll_backward_array),
   kernels={"cpu": "class_loss.nll_loss_backward", "cuda": "loss.nll_loss_backward",
            "npu": "loss.nll_loss_backward"},
   grad=dict(grad_output=lambda grad, target, weight, reduction, ignore_index:
             _nll_loss(grad, target, weight, reduction, ignore_index)),
   public="",
   samples=cases(case(t(), ints(4, high=3), None, (4, 3), 1, -100),
                 case(t(2, 4), ints(2, 4, high=3), None, (2, 3, 4), 0, 1)),
   decomposition=_nll_backward_by_parts, batch=decomposed, sharded="class_loss_gradient")


# cross entropy -------------------------------------------------------------------------------------------------------


def _cross_entropy_specs(self: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
                         ignore_index: int) -> tuple[Spec, Spec, Spec]:
    if self._array.ndim and self.dtype.category != FLOAT:
        raise unsupported("log_softmax_lastdim_kernel_impl", self.dtype)
    _check_classes(self, target, weight)
    shape = self._array.shape
    rows = (1,) if len(shape) == 1 else (shape[0], 1, *shape[2:])
    return (Spec(_loss_shape(self, target, reduction), self.dtype), Spec(rows, self.dtype),
            Spec(rows, COMPUTE.get(self.dtype, self.dtype)))


def _cross_entropy_array(xp: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int,
                         spec: tuple) -> tuple:
    scores, target = _batched(self, target)
    classes = _Classes(xp, target, scores.shape[1], weight, ignore_index)
    top = xp.maximum.reduce(scores, axis=1, keepdims=True) if scores.shape[1] else xp.zeros(spec[1].shape, self.dtype)
    shifted = scores - top
    picked = classes.picked(xp, shifted)
    total = xp.add.reduce(xp.exp(shifted, out=shifted), axis=1, keepdims=True)
    losses = xp.log(total)[:, 0] - picked
    return (classes.reduced(losses, reduction).reshape(spec[0].shape), top.reshape(spec[1].shape),
            total.reshape(spec[2].shape))


def _cross_entropy_by_parts(self, target, weight, reduction, ignore_index):
    dim = _class_dim(self)
    top = self.amax(dim, keepdim=True)
    shifted = self - top
    shifted = shifted.float() if shifted.dtype.itemsize == 2 else shifted
    total = shifted.exp().sum(dim, keepdim=True)
    loss = _nll_by_parts((shifted - total.log()).to(self.dtype), target, weight, reduction, ignore_index)
    return loss, top, total


def _cross_entropy_parts(self, target, weight, reduction, ignore_index):
    return _nll_loss(self.log_softmax(_class_dim(self)), target, weight, reduction, ignore_index), None


# The largest score and the sum of exp(score - largest) are what the backward needs. They are not put together into the
# logarithm of the sum: added to a large score, its digits would be lost.
_cross_entropy_indices = function_of(op(
    "_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100)"
    " -> (Tensor output, Tensor top, Tensor total)",
    kernel=computes(_cross_entropy_specs, _cross_entropy_array),
    kernels={"cpu": "class_loss.cross_entropy", "cuda": "loss.cross_entropy"},
    grad=dict(self=lambda grad, self, target, weight, reduction, ignore_index, top, total: call_bound(
        _CROSS_ENTROPY_BACKWARD, (grad, self, target, weight, top, total, reduction, ignore_index))),
    public="", decomposition=_cross_entropy_by_parts, batch=decomposed, aten=Aten(parts=_cross_entropy_parts),
    node=_NLL_NODES))


def _cross_entropy_backward_array(xp: Any, grad_output: Any, self: Any, target: Any, weight: Any, top: Any, total: Any,
                                  reduction: int, ignore_index: int) -> Any:
    scores, target = _batched(self, target)
    classes = _Classes(xp, target, scores.shape[1], weight, ignore_index)
    each = classes.spread(xp, grad_output, reduction)
    rows = (scores.shape[0], 1, *scores.shape[2:])
    made = scores - top.reshape(rows)
    xp.exp(made, out=made)
    made *= (xp.expand_dims(each, 1) if each.ndim else each) / total.reshape(rows)
    classes.add_at(xp, made, -each)
    return made.reshape(self.shape)


def _cross_entropy_second(grad, grad_output, self, target, weight, reduction, ignore_index):
    """Derivatives of the gradient, which is (softmax - one hot) times the weight of each element."""
    dim = _class_dim(self)
    probability = self.softmax(dim)
    mean = (grad * probability).sum(dim, keepdim=True)
    of_output = _nll_loss(grad - mean, target, weight, reduction, ignore_index)
    picked = call_bound(_NLL_BACKWARD, (grad_output, target, weight, tuple(self.shape), reduction, ignore_index))
    return of_output, -picked.sum(dim, keepdim=True) * probability * (grad - mean)


def _cross_entropy_backward_by_parts(grad_output, self, target, weight, top, total, reduction, ignore_index):
    dim = _class_dim(self)
    safe, kept, each = _weighed(self, target, weight, ignore_index)
    amounts = _spread(grad_output, kept, each, reduction).unsqueeze(dim)
    made = (self - top).exp() * (amounts / total).to(self.dtype)
    return made.scatter_add(dim, safe.unsqueeze(dim), -amounts)


_CROSS_ENTROPY_BACKWARD = op(
   "_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, Tensor top, Tensor "
   "total, int reduction, int ignore_index) -> Tensor",
   kernel=computes(lambda grad_output, self, *rest: Spec(self._array.shape, self.dtype), _cross_entropy_backward_array),
   grad={"grad_output, self": _cross_entropy_second}, public="", 
   kernels={"cpu": "class_loss.cross_entropy_backward", "cuda": "loss.cross_entropy_backward"},
   decomposition=_cross_entropy_backward_by_parts, batch=decomposed)


def _cross_entropy_probabilities(self: Any, target: Any, weight: Any, reduction: int, label_smoothing: float) -> Any:
    if target.dtype.category != FLOAT:
        raise RuntimeError("Expected floating point type for target with class probabilities, got "
                           f"{target.dtype.scalar_name}")
    dim = 0 if self.dim() <= 1 else 1
    classes = self.shape[dim] if self.dim() else 1
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(f"cross_entropy: weight tensor should be defined either for all {classes} classes or no "
                           f"classes but got weight tensor of shape: {shape_text(weight.shape)}")
    if label_smoothing > 0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    loss = -self.log_softmax(dim) * target
    if weight is not None:
        loss = loss * weight.reshape((-1,) + (1,) * (self.dim() - dim - 1))
    if reduction == NONE:
        return loss.sum(dim)
    if reduction != MEAN:
        return loss.sum()
    return loss.sum() / (self.numel() // classes) if classes else loss.sum() / 0


def _cross_entropy_smoothed(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int,
                            label_smoothing: float) -> Any:
    dim = _class_dim(self)
    log_probability = self.log_softmax(dim)
    likely = _nll_loss(log_probability, target, weight, reduction, ignore_index)
    each = log_probability
    if weight is not None:
        each = each * weight.reshape((-1,) + (1,) * (self.dim() - dim - 1))
    ignored = target == ignore_index
    smooth = -each.sum(dim).masked_fill(ignored, 0)
    if reduction == SUM:
        smooth = smooth.sum()
    elif reduction == MEAN:
        total = _nll_loss(self.new_full(self.shape, -1), target, weight, SUM, ignore_index)
        smooth = smooth.sum() / total
    return (1 - label_smoothing) * likely + smooth * (label_smoothing / self.shape[dim])


# Where the target has classes' probabilities, PyTorch's loss ends in other operators.
_SOFT = "self.shape == target.shape"


@composite("cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100,"
           " float label_smoothing=0.0) -> Tensor",
           node={"NegBackward0": f"{_SOFT} and reduction != {MEAN}", "DivBackward1": _SOFT}, public="_nn",
           samples=cases(*_CLASS_SAMPLES, case(t(4, 3), ints(4, high=3), None, 1, -100, 0.1),
                         case(t(4, 3), t(4, 3, low=0), t(3), 1, -100, 0.1),
                         error(RuntimeError, "label_smoothing must be between 0.0 and 1.0. Got: 1.5",
                               t(2, 3), ints(2, high=3), None, 1, -100, 1.5)), autocast="float32")
def _cross_entropy_loss(self, target, weight, reduction, ignore_index, label_smoothing):
    if self.shape == target.shape:
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        kind = promote_types(self.dtype, target.dtype)
        return _cross_entropy_probabilities(self, target, weight, reduction, label_smoothing).to(kind)
    if label_smoothing == 0.0:
        return _cross_entropy_indices(self, target, weight, reduction, ignore_index)[0]
    if not 0.0 < label_smoothing <= 1.0 or not math.isfinite(label_smoothing):
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    return _cross_entropy_smoothed(self, target, weight, reduction, ignore_index, label_smoothing)
