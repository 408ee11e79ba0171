"""Where a backward pass begins: `Tensor.backward` and the gradients of the tensors that it starts from."""

import operator
from collections import namedtuple
from collections.abc import Mapping
from typing import Any

from .._core.device import META, preserve_format
from .._core.gradient_memory import ones_as
from .._core.tensor import Tensor, wrap, wrap_meta
from .._dispatch.callers import call_bound, call_torch_function
from .._dispatch.keys import PYTHON_MASK, TORCH_DISPATCH_MASK, modes, unusual
from .._dispatch.registry import registry
from .engine import run_backward

GradientEdge = namedtuple("GradientEdge", ("node", "output_nr"))


def backward(self: Tensor, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False,
             inputs: Any = None) -> None:
    """Adds the gradients of this tensor into the `.grad` of the leaves it was computed from."""
    if self._keys & PYTHON_MASK and not modes.exclude & PYTHON_MASK:
        kwargs = {"gradient": gradient, "retain_graph": retain_graph, "create_graph": create_graph, "inputs": inputs}
        call_torch_function(backward, [self], (self,), kwargs)
        return
    backward_of((self,), (gradient,), retain_graph, create_graph, inputs)


def attach() -> None:
    """Makes `backward` a method of Tensor."""
    backward.__qualname__ = "Tensor.backward"
    Tensor.backward = backward  # type: ignore[assignment, method-assign]


def backward_of(tensors: tuple, grads: tuple, retain_graph: bool | None, create_graph: bool, inputs: Any) -> None:
    if create_graph.__class__ is not bool or retain_graph is not None:
        check_flags(retain_graph, create_graph)
    if modes.__dict__.get("levels"):
        raise RuntimeError("backward() called inside a functorch transform. This is not supported, please use "
                           "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
                           "transforms.")
    if inputs is not None:
        inputs = input_tuple(inputs, "backward")
    keep = create_graph if retain_graph is None else retain_graph
    run_backward(tensors, root_gradients(tensors, grads), keep, create_graph, inputs or ())


def check_flags(retain_graph: Any, create_graph: Any) -> None:
    """Raises unless the flags of a backward pass are such; None keeps the graph as `create_graph` says."""
    for flag in (create_graph,) if retain_graph is None else (retain_graph, create_graph):
        if not isinstance(flag, int) and not hasattr(flag, "__index__"):
            raise TypeError(f"'{type(flag).__name__}' object cannot be interpreted as an integer")
        if flag.__class__ is not bool and not 0 <= operator.index(flag) <= 255:
            which = "less than minimum" if operator.index(flag) < 0 else "greater than maximum"
            raise OverflowError(f"unsigned byte integer is {which}")


def several(value: Any) -> tuple:
    """A tensor, a GradientEdge that stands for one, or an iterable of them, as a tuple."""
    return (value,) if isinstance(value, (Tensor, GradientEdge)) else tuple(value)


def input_tuple(inputs: Any, function: str) -> tuple:
    """What `inputs=` names, as a tuple; of a dict, the values."""
    if isinstance(inputs, Mapping):
        if type(inputs) is not dict:
            raise TypeError(f"`inputs` argument to `{function}()` must be a dict, not {type(inputs).__name__}. Other "
                            "Mapping types are not supported.")
        inputs = inputs.values()
    made = several(inputs)
    if not made:
        raise RuntimeError(f"`inputs` argument to `{function}()` cannot be empty.")
    return made


def root_gradients(tensors: tuple, grads: tuple) -> list:
    """The gradients to start from; a scalar's is one."""
    made: list[Tensor | None] = []
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    for given, grad in zip(tensors, grads, strict=True):
        if isinstance(grad, Tensor) and isinstance(given, Tensor) and grad._array.dtype is given._array.dtype \
                and grad._array.shape == given._array.shape:
            made.append(grad)
            continue
        tensor = _shown_at(given) if isinstance(given, GradientEdge) else given
        if not isinstance(tensor, Tensor):
            raise AssertionError("Expected output to be a torch.Tensor")
        if grad is None:
            if tensor is given and not tensor.requires_grad:
                made.append(None)
                continue
            if tensor._array.size != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if tensor.dtype.is_complex:
                raise RuntimeError("grad can be implicitly created only for real scalar outputs but got "
                                   f"{tensor.dtype}")
            grad = _ones_like(tensor)
        elif not isinstance(grad, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
        elif grad._array.shape != tensor._array.shape:
            raise RuntimeError(f"Mismatch in shape: grad_output[{len(made)}] has a shape of {grad.shape} and "
                               f"output[{len(made)}] has a shape of {tensor.shape}.")
        elif grad.dtype.is_complex != tensor.dtype.is_complex:
            raise RuntimeError("For complex Tensors, both grad_output and output are required to have the same dtype. "
                               f"Mismatch in dtype: grad_output[{len(made)}] has a dtype of {grad.dtype} and "
                               f"output[{len(made)}] has a dtype of {tensor.dtype}.")
        made.append(grad)
    return made


def _shown_at(edge: GradientEdge) -> Tensor:
    """A tensor like the one that an edge stands for."""
    shape, kind, device = edge.node.outputs[edge.output_nr]
    made = wrap_meta(shape, kind)
    return made if device is META else made.new_empty(shape, device=device)  # type: ignore[attr-defined]


def _ones_like(tensor: Tensor) -> Tensor:
    if (unusual.threads or tensor._keys & TORCH_DISPATCH_MASK) and tensor._is_dispatched():
        return call_bound(registry.get("ones_like"), registry.get("ones_like").schema.bind(
            (tensor,), {"memory_format": preserve_format}))
    ones = ones_as(tensor._array)
    if ones is not None:
        return wrap(ones)
    if tensor._device is META:
        return wrap_meta(tensor._array.shape, tensor._array.dtype)
    return tensor.new_ones(tensor._array.shape)  # type: ignore[attr-defined]
