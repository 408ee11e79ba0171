"""Calls with ExpandedWeights: their checks, the plain tensors behind them, and where gradients of samples go."""

from collections.abc import Callable, Sequence
from typing import Any

from ...._core.tensor import Tensor
from ...._ops.join import cat

_MIXED = ("ExpandedWeights currently does not support a mixture of ExpandedWeight parameters and normal Parameters. "
          "Please file and issue with pytorch/pytorch")


def is_batch_first(expanded_args_and_kwargs: Sequence[Any]) -> bool:
    """Whether samples lie along the first dimension; all weights of a call must say the same."""
    from .functions import ExpandedWeight

    said = {a.batch_first for a in expanded_args_and_kwargs if isinstance(a, ExpandedWeight)}
    if len(said) > 1:
        raise RuntimeError("Got conflicting batch_first arguments in the same layer")
    return said.pop() if said else True


def standard_kwargs(kwarg_names: Sequence[str], expanded_args: Sequence[Any]) -> tuple[tuple, dict[str, Any]]:
    """A call's values as positional ones and those that have names, which come last."""
    named = dict(zip(kwarg_names, expanded_args[len(expanded_args) - len(kwarg_names):], strict=True))
    return tuple(expanded_args[: len(expanded_args) - len(kwarg_names)]), named


def forward_helper(func: Callable, expanded_args: Sequence[Any], expanded_kwargs: dict[str, Any]) -> Any:
    """The function of the plain tensors."""
    args, kwargs = _check_and_unexpand_args(func, expanded_args, expanded_kwargs)
    return func(*args, **kwargs)


def _check_and_unexpand_args(func: Callable, expanded_args: Sequence[Any],
                             expanded_kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    from .functions import ExpandedWeight

    first = expanded_args[0]
    if isinstance(first, ExpandedWeight):
        raise RuntimeError("Expanded Weights do not support inputs that are also ExpandedWeights. Input must be a "
                           f"Tensor, got {type(first).__name__} in function {func.__name__}")
    if not isinstance(first, Tensor):
        raise RuntimeError(f"Expanded Weights requires a Tensor as the first input to get the batch dimension, got "
                           f"{type(first).__name__} in function {func.__name__}")
    if first.dim() == 0:
        raise RuntimeError("Expanded Weights requires a batch dimension but got an input of size 0 in function "
                           f"{func.__name__}")
    values = [*expanded_args, *expanded_kwargs.values()]
    size = first.shape[0 if is_batch_first(values) else 1]
    if size == 0:
        raise RuntimeError("0 is not a valid batch size for Expanded Weights but got input tensor of "
                           f"{first.shape} in function {func.__name__}")
    for value in values:
        if isinstance(value, ExpandedWeight) and value.batch_size != size and not value.allow_smaller_batches:
            raise RuntimeError("Expected ExpandedWeights to have batch size matching input but got input batch size of "
                               f"{size} with ExpandedWeight of batch size {value.batch_size}")
    plain = [v.orig_weight if isinstance(v, ExpandedWeight) else v for v in expanded_args]
    return tuple(plain), {name: v.orig_weight if isinstance(v, ExpandedWeight) else v
                          for name, v in expanded_kwargs.items()}


def maybe_scale_by_batch_size(grad_sample: Tensor, expanded_weight: Any) -> Tensor:
    """Gradients of samples of a mean are those of a sum over the number of samples."""
    return grad_sample * expanded_weight.batch_size if expanded_weight.loss_reduction == "mean" else grad_sample


def set_grad_sample_if_exists(maybe_expanded_weight: Any, per_sample_grad_fn: Callable[[Any], Any]) -> None:
    """Adds gradients of samples to what a weight has; a plain tensor that needs a gradient is refused."""
    made = unpack_expanded_weight_or_tensor(maybe_expanded_weight)
    from .functions import ExpandedWeight

    if made is None or not isinstance(maybe_expanded_weight, ExpandedWeight):
        return
    grads = per_sample_grad_fn(made)
    if isinstance(grads, Tensor):
        grads = maybe_scale_by_batch_size(grads, maybe_expanded_weight)
    if isinstance(grads, Tensor) and len(grads) < maybe_expanded_weight.batch_size:  # of samples that have ended, none
        missing = maybe_expanded_weight.batch_size - len(grads)
        grads = cat((grads, grads.new_zeros(missing, *grads.shape[1:])))
    weight: Any = maybe_expanded_weight.orig_weight
    before = getattr(weight, "grad_sample", None)
    weight.grad_sample = grads if before is None else before + grads


def unpack_expanded_weight_or_tensor(maybe_expanded_weight: Any, func: Callable = lambda x: x) -> Any:
    """What `func` makes of the tensor; None for another value."""
    from .functions import ExpandedWeight

    if isinstance(maybe_expanded_weight, ExpandedWeight):
        return func(maybe_expanded_weight.orig_weight)
    if isinstance(maybe_expanded_weight, Tensor):
        if maybe_expanded_weight.requires_grad:
            raise RuntimeError(_MIXED)
        return func(maybe_expanded_weight)
    return None


def sum_over_all_but_batch_and_last_n(tensor: Tensor, n_dims: int) -> Tensor:
    if tensor.dim() == n_dims + 1:
        return tensor
    return tensor.sum(tuple(range(1, tensor.dim() - n_dims)))
