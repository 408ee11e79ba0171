"""torch.overrides: modes and tests around __torch_function__."""

from collections.abc import Callable, Sequence
from typing import Any

from ._dispatch.callers import call_torch_function
from ._dispatch.keys import PYTHON_MASK, modes
from ._tensor import Tensor

__all__ = ["TorchFunctionMode", "handle_torch_function", "has_torch_function", "is_tensor_like"]


class TorchFunctionMode:
    """Inside, its `__torch_function__` sees every call, whatever the types; the innermost mode first."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> "TorchFunctionMode":
        modes.__dict__.setdefault("function_modes", []).append(self)
        modes.update(include=modes.include | PYTHON_MASK)
        return self

    def __exit__(self, *exc: object) -> None:
        stack = modes.__dict__["function_modes"]
        stack.pop()
        if not stack:
            modes.update(include=modes.include & ~PYTHON_MASK)


def _overrides(value: Any) -> bool:
    keys = getattr(value, "_keys", None)
    if keys is not None:
        return bool(keys & PYTHON_MASK) and not modes.exclude & PYTHON_MASK
    return hasattr(type(value), "__torch_function__")


def has_torch_function(relevant_args: Sequence[Any]) -> bool:
    """Whether one of the arguments wants to see the call first."""
    return any(_overrides(a) for a in relevant_args)


def handle_torch_function(public_api: Callable, relevant_args: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """Hands a call of a Python function to its arguments' __torch_function__."""
    return call_torch_function(public_api, [a for a in relevant_args if _overrides(a)], args, kwargs)


def is_tensor_like(inp: Any) -> bool:
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")
