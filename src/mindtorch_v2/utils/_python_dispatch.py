"""Modes that see operators below autograd, and wrapper subclasses."""

from collections.abc import Callable
from typing import Any

from .._dispatch.keys import (
    AUTOGRAD_MASK,
    DISPATCH_MODE_MASK,
    DUAL_MASK,
    FUNC_MASK,
    VIEW_MASK,
    DispatchKey,
    changed_modes,
    modes,
)
from .._dispatch.registry import Around, Operator, registry
from .._operator_names import overload_for

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass", "return_and_correct_aliasing", "transform_subclass"]

_ABOVE = AUTOGRAD_MASK | VIEW_MASK | DUAL_MASK


class TorchDispatchMode:
    """Inside, its `__torch_dispatch__` sees every operator that a backend would run; the innermost mode first."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        """Subclasses may add what they need."""

    def __torch_dispatch__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        _stack().append(self)
        modes.update(include=modes.include | DISPATCH_MODE_MASK)
        return self

    def __exit__(self, *exception: Any) -> None:
        _stack().pop()
        if not _stack():
            modes.update(include=modes.include & ~DISPATCH_MODE_MASK)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> "TorchDispatchMode":
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))


def _stack() -> list[TorchDispatchMode]:
    return modes.__dict__.setdefault("dispatch_modes", [])


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    return _stack()[-1] if _stack() else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    return list(_stack())


class _disable_current_modes(changed_modes):
    """Context in which no mode sees anything."""

    def __init__(self) -> None:
        super().__init__(include=modes.include & ~DISPATCH_MODE_MASK)


def _asking_the_mode(operator: Operator, below: Callable, mask: int) -> Callable:
    """The kernel that hands a call to the innermost mode, which is out of force while it runs."""
    if operator.is_composite or mask & FUNC_MASK:  # what it is made of comes this way
        return below
    schema = operator.schema
    positional = len(schema.positional)

    def kernel(*values: Any) -> Any:
        stack = _stack()
        if not stack:
            return below(*values)
        args = list(values[:positional])
        while args and args[-1] is schema.defaults[len(args) - 1]:
            args.pop()
        rest = zip(schema.arguments[positional:], values[positional:], strict=True)
        kwargs = {a.name: value for a, value in rest if value is not a.default}
        mode = stack.pop()
        include = modes.include if stack else modes.include & ~DISPATCH_MODE_MASK
        try:
            with changed_modes(include=include, exclude=modes.exclude | _ABOVE):
                return mode.__torch_dispatch__(overload_for(operator, values), (), tuple(args), kwargs)
        finally:
            stack.append(mode)

    return kernel


registry.register_for_all(DispatchKey.PythonDispatch, Around(_asking_the_mode))


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor is a wrapper that can be taken apart with `__tensor_flatten__`."""
    return hasattr(type(t), "__tensor_flatten__") and hasattr(type(t), "__tensor_unflatten__")


def transform_subclass(t: Any, callback: Any, outer_size: Any = None, outer_stride: Any = None) -> Any:
    """A wrapper around the transformed tensors of another."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    return type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """The results; an operator that writes gives back the argument it wrote."""
    returns = func._schema.returns
    return args[0] if returns and returns[0].alias and "!" in returns[0].alias else out
