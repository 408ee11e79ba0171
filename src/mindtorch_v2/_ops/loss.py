"""Losses, from two tensors to one number, and how they are reduced: 0 leaves every element, 1 is the mean, 2 the sum.

Those that are also functions of `torch` itself are not reduced unless told to: PyTorch's default there is 0.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from .._core.dtype import COMPLEX, COMPUTE, FLOAT, dtype, int64
from .._core.elements import at_hand, on_host
from .._core.tensor import Tensor
from .._dispatch.callers import compile_function
from .._dispatch.keys import modes
from .._dispatch.registry import registry
from ._declare.aten import LEAF
from ._declare.batch import Call, Result, elementwise, one_by_one
from ._declare.composites import Parts
from ._declare.families import computes
from ._declare.formulas import on_arrays
from ._declare.op import composite, function_of, op
from ._declare.recorded import gradients_by_parts, once, recorded_gradients
from ._declare.rules import (
    Spec,
    anywhere,
    broadcast_shape,
    check_constant,
    check_result_fits,
    check_shape_fits,
    check_type_fits,
    common_dtype,
    floating,
    pointwise_strides,
    shape_text,
)
from ._declare.samples import case, cases, error, t
from ._declare.samples import values as numbers
from .matrices import check_same_scalar
from .pool import in_strides, without_defaults

NONE, MEAN, SUM = range(3)
_log_sigmoid = function_of(registry.get("log_sigmoid"))


def reduced(loss: Any, reduction: int) -> Any:
    """A tensor of elements, reduced."""
    if reduction == MEAN:
        return loss.mean()
    return loss.sum() if reduction == SUM else loss


def _reduced_array(xp: Any, loss: Any, reduction: int) -> Any:
    if reduction == NONE:
        return loss
    total = xp.add.reduce(loss, axis=None)
    return total / loss.size if reduction == MEAN else total


def _spread(grad: Any, elements: Any, reduction: int) -> Any:
    """The gradient of each element from that of the reduced loss."""
    return grad / math.prod(elements.shape) if reduction == MEAN else grad


def unsupported(kernel: str, kind: dtype) -> NotImplementedError:
    return NotImplementedError(f"\"{kernel}\" not implemented for '{kind.scalar_name}'")


# distances -----------------------------------------------------------------------------------------------------------


def _written_as(loss: Any, kind: dtype) -> Any:
    """A loss in the type of the tensor that PyTorch writes it into; raises where that cannot hold it."""
    if loss.dtype is kind:
        return loss
    check_type_fits(loss.dtype, kind)
    return loss.to(kind)


def _in_place_of(target: Tensor, loss: Any) -> Any:
    """A loss in the type and the shape of the tensor that PyTorch writes it into."""
    check_shape_fits(target, tuple(loss.shape))
    return _written_as(loss, target.dtype)


def _distance(kernel_name: str, compute: Callable, check: Callable[[float], None] | None = None, *,
              own_type: bool = False) -> Any:
    """The kernel of a loss that is a function of `self - target`; with `own_type`, its type is that of `self`."""

    def infer(self: Tensor, target: Tensor, reduction: int, *parameters: float) -> Spec:
        for parameter in parameters:
            if check is not None:
                check(parameter)
        kind = common_dtype((self, target))
        shape = broadcast_shape([self._array.shape, target._array.shape])
        if own_type:
            check_type_fits(kind, self.dtype)
        if kind.category != FLOAT:
            raise unsupported(kernel_name, kind)
        made = self.dtype if own_type else kind
        if reduction != NONE:
            return Spec((), made)
        return Spec(shape, made, pointwise_strides(shape, [self, target]))

    def array(xp: Any, self: Any, target: Any, reduction: int, *parameters: float, spec: Spec) -> Any:
        return in_strides(_reduced_array(xp, compute(xp, xp.asarray(self - target), *parameters), reduction), spec)

    return computes(infer, array)


def _distance_samples(*extra: Any, target_grad: bool = True) -> Callable:
    target, row, number = [t(*shape, grad=target_grad) for shape in ((2, 3), (3,), ())]
    return cases(case(t(2, 3), target), case(t(2, 3), target, 0), case(t(2, 3), target, 2), case(t(2, 3), row),
                 case(t(), number), *extra)


@on_arrays
def _mse_grad(xp, grad, self, target, reduction):
    difference = self - target
    return difference * (_spread(grad, difference, reduction) * 2)


def _loss_each(call: Call) -> Result:
    at = call.operator.schema.index["reduction"]
    reduction, call.values[at] = call.values[at], NONE
    if any(call.batched):  # losses have the shape of the input
        call.values[0], call.batched[0] = call.full(0), True
    losses, _ = elementwise(call)
    if reduction == NONE or losses._array.ndim == 1:
        return losses, True
    inner = tuple(range(1, losses._array.ndim))
    return (losses.mean(inner) if reduction == MEAN else losses.sum(inner)), True


op("mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
   kernel=_distance("mse_cpu", lambda xp, d: d * d),
   npu="aclnnMseLoss(self, target, reduction, out) empty=nan",
   grad=dict(self=_mse_grad, target=lambda grad, self, target, reduction: -_mse_grad(grad, self, target, reduction)),
   public="_nn", samples=_distance_samples(), batch=_loss_each, autocast="float32",
   kernels={"npu": "loss.distance_loss"}, sharded="elementwise_loss")


def _check_beta(beta: float) -> None:
    if not beta >= 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")


def _smooth_l1(xp: Any, difference: Any, beta: float) -> Any:
    size = xp.abs(difference)
    return size if beta == 0 else xp.where(size < beta, size * size * (0.5 / beta), size - 0.5 * beta)


@on_arrays
def _smooth_l1_grad(xp, grad, self, target, reduction, beta):
    difference = self - target
    slope = xp.sign(difference) if beta == 0 else xp.clip(difference / beta, -1, 1)
    return slope * _spread(grad, difference, reduction)


# Of quadratic parts that are empty, PyTorch computes the absolute differences and what becomes of them.
_SMOOTH_L1_NODES = {"AbsBackward0": f"beta == 0 and reduction == {NONE}",
                    "MeanBackward0": f"beta == 0 and reduction == {MEAN}", "SumBackward0": "beta == 0"}
op("smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor", node=_SMOOTH_L1_NODES,
   kernel=_distance("smooth_l1_cpu", _smooth_l1, _check_beta),
   npu="aclnnSmoothL1Loss(self, target, reduction, beta, out) empty=nan",
   grad=dict(self=_smooth_l1_grad,
             target=lambda grad, self, target, reduction, beta: -_smooth_l1_grad(grad, self, target, reduction, beta)),
   public="_nn",
   samples=_distance_samples(case(t(2, 3), t(2, 3), 1, 0.5),
                             error(RuntimeError, "negative values for beta", t(2), t(2), 1, -1.0)), batch=_loss_each,
   autocast="float32", kernels={"npu": "loss.distance_loss"}, sharded="elementwise_loss")


def _check_delta(delta: float) -> None:
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")


def _huber(xp: Any, difference: Any, delta: float) -> Any:
    size = xp.abs(difference)
    return xp.where(size < delta, 0.5 * size * size, delta * (size - 0.5 * delta))


@on_arrays
def _huber_grad(xp, grad, self, target, reduction, delta):
    difference = self - target
    return xp.clip(difference, -delta, delta) * _spread(grad, difference, reduction)


def _huber_by_parts(self: Any, target: Any, reduction: int, delta: float) -> Any:
    size = (self - target).abs()
    return reduced((size * size * 0.5).where(size < delta, (size - 0.5 * delta) * delta), reduction)


op("huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor",
   kernel=_distance("huber_cpu", _huber, _check_delta, own_type=True),
   grad=dict(self=_huber_grad,
             target=lambda grad, self, target, reduction, delta: -_huber_grad(grad, self, target, reduction, delta)),
   public="_nn",
   samples=_distance_samples(case(t(2, 3), t(2, 3), 1, 0.5),
                             error(RuntimeError, "non-positive values for delta", t(2), t(2), 1, 0.0)),
   batch=_loss_each, autocast="float32", decomposition=_huber_by_parts, sharded="elementwise_loss")


@composite("l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", public="_nn", samples=_distance_samples(),
           autocast="float32")
def _l1_loss(self, target, reduction):
    return reduced((self - target).abs(), reduction)


@composite("soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
           node="SoftMarginLossBackward0", public="_nn",
           samples=_distance_samples(target_grad=False), aten=LEAF, autocast="float32", sharded="elementwise_loss")
def _soft_margin_loss(self, target, reduction):
    check_result_fits(self, Spec(broadcast_shape([self.shape, target.shape]),
                                 floating(common_dtype((self, target)))[1]))
    check_constant("soft_margin_loss", target=target)
    return reduced(_written_as((-self * target).exp().log1p(), self.dtype), reduction)


# probabilities -------------------------------------------------------------------------------------------------------


def _binary_spec(self: Tensor, target: Tensor, weight: Tensor | None, reduction: int) -> Spec:
    kind, shape = self.dtype, self._array.shape
    check_constant("binary_cross_entropy", weight=weight)
    given = () if weight is None else weight._array.shape
    for d in range(1, min(len(shape), len(given)) + 1):
        if given[-d] not in (1, shape[-d]):
            raise RuntimeError(f"Attempting to broadcast a dimension of length {given[-d]} at {-d}! Mismatching "
                               f"argument at index 1 had torch.Size({list(given)}); but expected shape should be "
                               f"broadcastable to {shape_text(shape)}")
    if kind is not target.dtype:
        raise RuntimeError(f"Found dtype {target.dtype.scalar_name} but expected {kind.scalar_name}")
    if kind.category != FLOAT:
        raise unsupported("binary_cross_entropy", kind)
    return Spec(shape, kind, pointwise_strides(shape, [self, target])) if reduction == NONE else Spec((), kind)


def _binary_array(xp: Any, self: Any, target: Any, weight: Any, reduction: int, spec: Spec) -> Any:
    for name, values in (("input", self), ("target", target)):
        if at_hand(values) and not ((values >= 0) & (values <= 1)).all():
            raise RuntimeError(f"all elements of {name} should be between 0 and 1")
    # A certain prediction that is wrong would cost infinity: PyTorch counts it as 100.
    loss = (target - 1) * xp.maximum(xp.log1p(-self), -100) - target * xp.maximum(xp.log(self), -100)
    return in_strides(_reduced_array(xp, loss if weight is None else loss * weight, reduction), spec)


@on_arrays
def _binary_grad(xp, grad, self, target, weight, reduction):
    slope = (self - target) / xp.at_least(self * (1 - self), 1e-12)
    return _spread(grad, self, reduction) * (slope if weight is None else slope * weight)


@on_arrays
def _binary_target_grad(xp, grad, self, weight, reduction):
    slope = xp.log(1 - self) - xp.log(self)
    return _spread(grad, self, reduction) * (slope if weight is None else slope * weight)


_P = dict(low=0.1, high=0.9)
op("binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
   kernel=computes(_binary_spec, _binary_array),
   kernels={"cpu": "loss.binary_cross_entropy"},
   npu="aclnnBinaryCrossEntropy(self, target, weight, reduction, out) empty=nan",
   grad=dict(self=_binary_grad, target=_binary_target_grad),
   public="_nn",
   samples=cases(case(t(2, 3, **_P), t(2, 3, **_P)), case(t(2, 3, **_P), t(2, 3, **_P), t(3, grad=False), 0),
                 case(t(2, 3, **_P), t(2, 3, **_P), None, 2)), batch=_loss_each,
   autocast=dict(cpu="float32", accelerators="banned"), python="size", sharded="elementwise_loss")


@composite("binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None,"
           " int reduction=0) -> Tensor", node="BinaryCrossEntropyWithLogitsBackward0", public="torch",
           samples=cases(case(t(2, 3), t(2, 3, low=0, high=1)),
                         case(t(2, 3), t(2, 3, low=0, high=1), t(3, grad=False), t(3, grad=False), 0)),
           out=None, aten=LEAF, autocast="float32")
def _binary_with_logits(self, target, weight, pos_weight, reduction):
    check_constant("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    log_probability = _log_sigmoid(self)
    if pos_weight is not None:
        log_probability = _written_as(log_probability * ((pos_weight - 1) * target + 1), log_probability.dtype)
    loss = 1 - target  # PyTorch computes in its memory
    loss = _in_place_of(loss, _in_place_of(loss, loss * self) - log_probability)
    return reduced(loss if weight is None else _in_place_of(loss, loss * weight), reduction)


@composite("kl_div(Tensor self, Tensor target, int reduction=0, *, bool log_target=False) -> Tensor", public="torch",
           samples=cases(case(t(2, 3), t(2, 3, low=0.1)), case(t(2, 3), t(3), 0, log_target=True),
                         case(t(2, 3), t(2, 3, low=0.1), 2)), out=None, autocast="float32")
def _kl_div(self, target, reduction, log_target):
    if self.dtype.category == COMPLEX or target.dtype.category == COMPLEX:
        raise RuntimeError("kl_div: Complex inputs not supported.")
    if self.dtype.category < FLOAT or target.dtype.category < FLOAT:
        raise RuntimeError("kl_div: Integral inputs not supported.")
    loss = target.exp() * (target - self) if log_target else target.xlogy(target) - target * self
    return reduced(loss, reduction)


@composite("poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> "
           "Tensor",
           samples=cases(case(t(2, 3), t(2, 3, low=0.1), True, False, 1e-8, 1),
                         case(t(2, 3, low=0.1), t(2, 3, low=0.1), False, True, 1e-8, 0)), out=None, autocast="float32")
def _poisson_nll_loss(input, target, log_input, full, eps, reduction):
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * 3.141592653589793 * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced(loss, reduction)


# margins -------------------------------------------------------------------------------------------------------------


@composite("hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=0) -> Tensor",
           public="torch",
           samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 3), t(2, 3), 0.5, 0)), out=None, autocast="float32")
def _hinge_embedding_loss(self, target, margin, reduction):
    near = (margin - self).clamp_min(0).to(self.dtype).where(target != 1, 0)
    return reduced(near + self.where(target != -1, 0), reduction)


def _check_equal_ranks(*tensors: Any) -> None:
    if len({x.dim() for x in tensors}) > 1:
        shown = ", ".join(f"{name}: {x.shape}" for name, x in zip(("input1", "input2", "target"), tensors, strict=True))
        raise RuntimeError("margin_ranking_loss : All input tensors should have same dimension but got sizes: "
                           f"{shown} ")


@composite("margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=0) -> "
           "Tensor",
           samples=cases(case(t(3), t(3), t(3)), case(t(2, 3), t(2, 3), t(2, 3), 0.5, 0)), out=None, autocast="float32",
           python="dim")
def _margin_ranking_loss(input1, input2, target, margin, reduction):
    _check_equal_ranks(input1, input2, target)
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@composite("cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=0) -> "
           "Tensor",
           samples=cases(case(t(2, 3), t(2, 3), t(2)), case(t(3), t(3), t(), 0.5, 0)), out=None, autocast="float32")
def _cosine_embedding_loss(input1, input2, target, margin, reduction):
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    rank = target.dim() + 1
    if (input1.dim(), input2.dim()) != (rank, rank):
        raise RuntimeError(f"{target.dim()}D target tensor expects {rank}D input tensors, but found inputs with sizes "
                           f"{shape_text(input1.shape)} and {shape_text(input2.shape)}.")
    tiny = 1e-12  # inside the roots, so that their slope stays finite at zero
    product = (input1 * input2).sum(-1)
    lengths = ((input1 * input1).sum(-1) + tiny) * ((input2 * input2).sum(-1) + tiny)
    cosine = product / lengths.sqrt()
    alike, apart = (1 - cosine).masked_fill(target != 1, 0), (cosine - margin).clamp_min(0).masked_fill(target != -1, 0)
    return reduced(alike + apart, reduction)


@composite("triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, float "
           "eps=1e-06, bool swap=False, int reduction=0) -> Tensor",
           samples=cases(case(t(2, 3), t(2, 3), t(2, 3)), case(t(2, 3), t(2, 3), t(2, 3), 0.5, 1.0, 1e-6, True, 0)),
           out=None, autocast="float32")
def _triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction):
    ranks = [x.dim() for x in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number of "
                           "dimensions, but "
                           f"got: anchor {ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D inputs")
    near, far = ((anchor - other + eps).norm(p, -1) for other in (positive, negative))
    if swap:
        far = far.minimum((positive - negative + eps).norm(p, -1))
    return reduced((margin + near - far).clamp_min(0), reduction)


def same_batch(batch: int, target: Sequence[int]) -> None:
    if not target or target[0] != batch:
        raise ValueError(f"Expected input batch_size ({batch}) to match target batch_size "
                         f"({target[0] if target else 0}).")


def _check_margin_targets(name: str, self: Any, target: Any, wanted: tuple[int, ...], lowest: int) -> None:
    """Raises for shapes and types that will not do; classes are looked at where the loss is computed."""
    if self.dim() > 2 or 0 in self.shape[-1:]:
        raise RuntimeError("Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
                           f"{shape_text(self.shape)}")
    if target._array.shape != wanted and not (not wanted and target.numel() == 1):
        if lowest < 0:
            raise RuntimeError(f"inconsistent target size: {shape_text(target.shape)} for input of size: "
                               f"{shape_text(self.shape)}")
        raise RuntimeError(f"{name}: target tensor should be 1-D with size equal to the number of input samples (batch "
                           f"size). Expected target size {shape_text(wanted or (1,))}, but got "
                           f"{shape_text(target.shape)}. Input has shape {shape_text(self.shape)}.")
    if target.dtype is not int64:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.scalar_name}")
    if not self.dtype.is_floating_point or self.dtype in COMPUTE:
        _check_classes(self, target, lowest)
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{self.dtype.scalar_name}'")


def _check_classes(self: Any, target: Any, lowest: int) -> None:
    classes = self.shape[-1] if self.dim() else 1
    if on_host(target) and anywhere((target < lowest) | (target >= classes)):
        raise RuntimeError("argument #2 'target' is out of range" if lowest < 0 else "target out of range")


def _declare_margin_loss(name: str, settings: str, infer: Callable, composed: Callable, samples: Callable) -> None:
    """A loss of scores and classes, and its backward: a kernel each, or the composed function."""
    arguments = f"Tensor self, Tensor target, {settings}"

    def backward_by_parts(grad_output, self, *rest):
        return gradients_by_parts(lambda x: (composed(x, *rest),), (self,), (grad_output,), (True,))[0]

    backward = function_of(op(
        f"{name}_backward(Tensor grad_output, {without_defaults(arguments)}) -> Tensor", public="",
        kernel=Parts(lambda grad_output, self, *rest: Spec(self._array.shape, self.dtype)),
        kernels={"cpu": f"loss.{name}_backward"}, decomposition=backward_by_parts, batch=one_by_one))

    def gradient(grad, self, *rest):
        if modes.grad_enabled:
            return recorded_gradients(lambda x: (composed(x, *rest),), (self,), (grad,), (True,))[0]
        return backward(grad, self, *rest)

    names = ", ".join([part.split()[-1] for part in without_defaults(arguments).split(", ")])
    formula = compile_function("formula", f"def formula(grad, {names}):\n    return gradient(grad, {names})\n",
                               {"gradient": gradient, "__opname__": f"{name} derivative"})
    op(f"{name}({arguments}) -> Tensor", public="_nn", kernel=Parts(infer), kernels={"cpu": f"loss.{name}"},
       decomposition=composed, grad=dict(self=once(formula)), samples=samples, autocast="float32")


def _multi_margin_spec(self: Tensor, target: Tensor, p: Any, margin: Any, weight: Tensor | None,
                       reduction: int) -> Spec:
    check_constant("multi_margin_loss", weight=weight)
    if p not in (1, 2):
        raise RuntimeError("only p == 1 and p == 2 supported")
    _check_margin_targets("multi_margin_loss", self, target, tuple(self.shape[:-1]), 0)
    if weight is not None and tuple(weight.shape) != self.shape[-1:]:
        raise RuntimeError(f"inconsistent weight size, expected {self.shape[-1]} but got {shape_text(weight.shape)}")
    if weight is not None:
        check_same_scalar(self.dtype, weight.dtype)
    return Spec(target._array.shape if reduction == NONE else (), self.dtype)


def _multi_margin_loss(self: Any, target: Any, p: Any, margin: Any, weight: Any, reduction: int) -> Any:
    _multi_margin_spec(self, target, p, margin, weight, reduction)
    _check_classes(self, target, 0)
    scores, classes = self.reshape(-1, *self.shape[-1:] or (1,)), target.reshape(-1, 1)
    short = (margin - scores.gather(1, classes) + scores).relu()
    if p == 2:
        short = short * short
    if weight is not None:
        short = short * weight[classes]
    losses = short.scatter(1, classes, 0).sum(1) / scores.size(1)
    return reduced(losses.reshape(target.shape).clone() if reduction == NONE else losses, reduction)


_declare_margin_loss(
    "multi_margin_loss", "Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1", _multi_margin_spec,
    _multi_margin_loss,
    cases(case(t(3, 4), numbers([0, 3, 1])),
          case(t(3, 4), numbers([0, 3, 1]), 2, 0.5, t(4, low=0.1, grad=False)),
          case(t(4), numbers(2), reduction=0), case(t(3, 4), numbers([0, 3, 1]), reduction=0),
          error(RuntimeError, "only p == 1 and p == 2 supported", t(3, 4), numbers([0, 3, 1]), 3)))


def _multilabel_margin_spec(self: Tensor, target: Tensor, reduction: int) -> Spec:
    _check_margin_targets("multilabel_margin_loss", self, target, tuple(self.shape), -1)
    return Spec(self._array.shape[:-1] if reduction == NONE else (), self.dtype)


def _multilabel_margin_loss(self: Any, target: Any, reduction: int) -> Any:
    _multilabel_margin_spec(self, target, reduction)
    _check_classes(self, target, -1)
    scores = self.reshape(-1, *self.shape[-1:] or (1,))
    classes = target.reshape(scores.shape)
    listed = (classes < 0).cumsum(1) == 0  # the first negative number ends a list
    places = classes.masked_fill(~listed, 0)
    is_target = scores.new_zeros(scores.shape).scatter_add(1, places, listed.to(scores.dtype)) > 0
    short = (1 - scores.gather(1, places).unsqueeze(2) + scores.unsqueeze(1)).relu()
    counted = listed.unsqueeze(2) & ~is_target.unsqueeze(1)
    losses = (short * counted).sum((1, 2)) / scores.size(1)
    return reduced(losses.reshape(self.shape[:-1]).clone() if reduction == NONE else losses, reduction)


_declare_margin_loss(
    "multilabel_margin_loss", "int reduction=1", _multilabel_margin_spec, _multilabel_margin_loss,
    cases(case(t(2, 4), numbers([[3, 0, -1, 1], [2, -1, 0, 0]])), case(t(4), numbers([3, 0, -1, 1])),
          case(t(2, 4), numbers([[3, 0, -1, 1], [2, -1, 0, 0]]), 0)))
