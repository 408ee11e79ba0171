"""ExpandedWeight, and the functions that know it: each is run once for all samples, and pulled back for each."""

from collections.abc import Callable
from functools import partial
from typing import Any

import mindtorch_v2 as torch

from .... import func as _func
from ...._functorch.eager_transforms import _vjp
from ...._ops.rnn import stepwise as _stepwise
from ... import functional as F
from .expanded_weights_utils import _check_and_unexpand_args, is_batch_first, set_grad_sample_if_exists


class ExpandedWeight(torch.Tensor):
    """A parameter in a call whose backward gives it gradients sample by sample."""

    orig_weight: torch.Tensor

    @staticmethod
    def __new__(cls: Any, orig_weight: Any, batch_size: Any, loss_reduction: str, **more: Any) -> Any:
        if not isinstance(orig_weight, torch.Tensor):
            raise RuntimeError(f"Can only make Expanded Weights of Tensors, got {type(orig_weight).__name__}")
        if not orig_weight.requires_grad:
            raise RuntimeError("Can only build ExpandedWeights objects of tensors that require_grad")
        return torch.Tensor._make_subclass(cls, orig_weight, True)

    def __init__(self, orig_weight: Any, batch_size: int, loss_reduction: str, *, batch_first: bool = True,
                 allow_smaller_batches: bool = False) -> None:
        self.batch_size, self.batch_first = batch_size, batch_first
        self.allow_smaller_batches, self.orig_weight, self.loss_reduction = (
            allow_smaller_batches, orig_weight, loss_reduction)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func in HANDLED:
            return per_sample(func, args, kwargs or {})
        if func in RECURRENT:
            return per_sample_recurrent(func.__name__, args)
        raise RuntimeError(f"Expanded Weights encountered but cannot handle function {func.__name__}")

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        return self.orig_weight.dtype

    @property  # type: ignore[misc]
    def data(self) -> Any:  # type: ignore[override]
        return self.orig_weight.data

    @property
    def shape(self) -> Any:  # type: ignore[override]
        return self.orig_weight.shape

    @property
    def device(self) -> Any:  # type: ignore[override]
        return self.orig_weight.device

    @property
    def is_cuda(self) -> Any:  # type: ignore[override]
        return self.orig_weight.is_cuda

    def data_ptr(self) -> int:
        return self.orig_weight.data_ptr()

    def get_device(self) -> int:
        return self.orig_weight.get_device()


def _refuse_linear(values: dict[str, Any]) -> None:
    if values["input"].dim() < 2:
        raise RuntimeError("Input does not have a batch dimension. Expanded Weights expected input of at least rank 2, "
                           f"got of rank {values['input'].dim()}")


def _refuse_convolution(values: dict[str, Any]) -> None:
    if values["input"].dim() != values["weight"].dim():
        raise RuntimeError("Expanded Weights conv got unbatched input")


def _refuse_embedding(values: dict[str, Any]) -> None:
    if values.get("sparse"):
        raise RuntimeError("Expanded Weights expected embedding's sparse to be False")


def _refuse_layer_norm(values: dict[str, Any]) -> None:
    if values["input"].dim() - len(values["normalized_shape"]) <= 0:
        raise RuntimeError("Expanded Weights requires that layer norm leaves the batch dimension out")


def _refuse_norm(values: dict[str, Any]) -> None:
    if values["input"].dim() < 2:
        raise RuntimeError("Expanded Weights requires a batch and a channel dimension")


_CONVOLUTION = "input weight bias stride padding dilation groups", _refuse_convolution
# The names of a function's arguments, in order, and what is asked of a call's values.
HANDLED: dict[Callable, tuple[str, Callable[[dict[str, Any]], None]]] = {
    F.linear: ("input weight bias", _refuse_linear),
    F.conv1d: _CONVOLUTION, F.conv2d: _CONVOLUTION, F.conv3d: _CONVOLUTION,
    F.embedding: ("input weight padding_idx max_norm norm_type scale_grad_by_freq sparse", _refuse_embedding),
    F.layer_norm: ("input normalized_shape weight bias eps", _refuse_layer_norm),
    F.group_norm: ("input num_groups weight bias eps", _refuse_norm),
    F.instance_norm: ("input running_mean running_var weight bias use_input_stats momentum eps", _refuse_norm),
}


RECURRENT = (torch.rnn_tanh, torch.rnn_relu, torch.gru, torch.lstm)


def per_sample_recurrent(mode: str, args: tuple) -> Any:
    """A call of a recurrent layer: each step is one of `linear`, in packed sequences with fewer and fewer samples."""
    def of_steps(weight: Any) -> Any:
        if not isinstance(weight, ExpandedWeight):
            return weight
        return ExpandedWeight(weight.orig_weight, weight.batch_size, weight.loss_reduction, allow_smaller_batches=True)

    packed = isinstance(args[1], torch.Tensor) and args[1].dim() == 1
    at = 3 if packed else 2
    return _stepwise(mode, packed, *args[:at], [of_steps(weight) for weight in args[at]], *args[at + 1 :])


def per_sample(function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of a function that is known, with gradients of samples for its ExpandedWeights."""
    names, check = HANDLED[function]
    values = {**dict(zip(names.split(), args, strict=False)), **kwargs}
    check(values)
    _check_and_unexpand_args(function, (values["input"],), {n: v for n, v in values.items() if n != "input"})
    weights = {n: v for n, v in values.items() if isinstance(v, ExpandedWeight)}
    fixed = {n: v for n, v in values.items() if n not in weights and n != "input"}

    def call(inputs: Any, *plain: Any, again: bool = False) -> Any:
        known = fixed
        if again and fixed.get("use_input_stats", True):  # running statistics were moved by the first call
            known = {name: value for name, value in fixed.items() if not name.startswith("running_")}
        return function(inputs, **known, **dict(zip(weights, plain, strict=True)))

    batch = 0 if is_batch_first(list(values.values())) else 1
    return _PerSample.apply(call, batch, values["input"], *weights.values())


def _given(grads: Any, weight: Any) -> Any:
    return grads


class _PerSample(torch.autograd.Function):
    """One call for all samples; backward pulls each sample's gradient back to the weights."""

    @staticmethod
    def forward(ctx: Any, call: Callable, batch: int, inputs: Any, *weights: Any) -> Any:
        ctx.call, ctx.batch, ctx.inputs, ctx.weights = call, batch, inputs.detach(), weights
        return call(inputs.detach(), *(w.orig_weight.detach() for w in weights))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        call, batch, inputs = ctx.call, ctx.batch, ctx.inputs
        plain = tuple(w.orig_weight.detach() for w in ctx.weights)
        passed = None
        if ctx.needs_input_grad[2]:
            with torch.enable_grad():
                leaf = inputs.requires_grad_()
                (passed,) = torch.autograd.grad(call(leaf, *plain, again=True), leaf, grad)
            inputs = inputs.detach()

        def of_sample(one: Any, its_grad: Any) -> Any:
            _, pull = _vjp(lambda *ws: call(one.unsqueeze(batch), *ws, again=True), *plain)
            return pull(its_grad.unsqueeze(batch))

        grads = _func.vmap(of_sample, in_dims=batch)(inputs, grad)
        for weight, its_grads in zip(ctx.weights, grads, strict=True):
            set_grad_sample_if_exists(weight, partial(_given, its_grads))
        return (None, None, passed, *([None] * len(ctx.weights)))
