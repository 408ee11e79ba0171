"""Wrapper subclasses and dispatch modes of Python."""

from typing import Any

from .._absent import absent_class

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass", "transform_subclass"]

TorchDispatchMode = absent_class("torch.utils._python_dispatch.TorchDispatchMode",
                                 "Use torch.overrides.TorchFunctionMode, which sees the same calls above autograd.")


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor is a wrapper that can be taken apart with `__tensor_flatten__`."""
    return hasattr(type(t), "__tensor_flatten__") and hasattr(type(t), "__tensor_unflatten__")


def transform_subclass(t: Any, callback: Any, outer_size: Any = None, outer_stride: Any = None) -> Any:
    """A wrapper around the transformed tensors of another."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    return type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)
