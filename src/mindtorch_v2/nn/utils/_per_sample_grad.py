"""Calling a module so that backward leaves each parameter's gradients sample by sample in `grad_sample`."""

import functools
from typing import Any

from ..._core.tensor import Tensor
from ..._functorch.functional_call import functional_call
from ...utils._pytree import tree_leaves
from ..modules.module import Module
from ._expanded_weights.functions import ExpandedWeight


def call_for_per_sample_grads(module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum",
                              batch_first: bool = True) -> Any:
    """`module` as a function; after backward its parameters have `grad_sample`, a gradient for each sample."""
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for parameter in module.parameters():
        if getattr(parameter, "grad_sample", None) is not None:
            raise RuntimeError("Current Expanded Weights accumulates the gradients, which will be incorrect for "
                               f"multiple calls without clearing gradients. Please clear out the grad_sample parameter "
                               f"of {parameter} or post an issue to pytorch/pytorch to prioritize correct behavior")

    @functools.wraps(module.forward)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        size = batch_size if batch_size is not None else _batch_size(args, kwargs, batch_first)
        expanded = {name: ExpandedWeight(p, size, loss_reduction, batch_first=batch_first) if p.requires_grad else p
                    for name, p in module.named_parameters()}
        return functional_call(module, expanded, args, kwargs)

    return wrapper


def _batch_size(args: tuple, kwargs: dict[str, Any], batch_first: bool) -> int:
    """The number of samples that all tensors of a call have."""
    found: int | None = None
    for value in tree_leaves((args, kwargs)):
        if not isinstance(value, Tensor):
            continue
        size = value.shape[0 if batch_first else 1]
        if found is not None and size != found:
            raise RuntimeError("When computing batch size, found at least one input with batch size "
                               f"{found} and one with batch size {size}. Please specify it explicitly using the batch "
                               "size kwarg in call_for_per_sample_grads")
        found = size
    if found is None:
        raise RuntimeError("Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so "
                           "ExpandedWeights cannot compute the batch size from the inputs. Please specify it "
                           "explicitly")
    return found
