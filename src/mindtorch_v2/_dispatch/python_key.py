"""The Python key: calls that `__torch_function__` of a subclass or of a mode answers."""

from collections.abc import Callable
from typing import Any

from .callers import call_bound, call_torch_function
from .keys import PYTHON_MASK, DispatchKey, changed_modes, modes
from .registry import Operator, PerOperator, registry


def torch_function_kernel(operator: Operator) -> Callable:
    """The Python key's kernel: hands the call, as the user wrote it, to the subclass."""

    def kernel(*values: Any) -> Any:
        schema = operator.schema
        public: Any = operator.declaration.public if operator.declaration is not None else _overload(operator, values)
        if public is operator:  # no function of users: handlers do not see it
            with changed_modes(exclude=modes.exclude | PYTHON_MASK):
                return call_bound(operator, values)
        owners = [t for a, v in zip(schema.arguments, values, strict=True) if a.is_tensor
                  for t in (v if a.is_list and v is not None else (v,)) if getattr(t, "_keys", 0) & PYTHON_MASK]
        positional = len(schema.positional)
        args, kwargs = list(values[:positional]), {}
        while args and args[-1] is schema.defaults[len(args) - 1]:
            args.pop()
        for a, v in zip(schema.arguments[positional:], values[positional:], strict=True):
            if v is not a.default:
                kwargs[a.name] = v
        stack = modes.__dict__.get("function_modes")
        if stack:
            return call_function_mode(stack, public, owners, tuple(args), kwargs)
        return call_torch_function(public, owners, tuple(args), kwargs)

    return kernel


def _overload(operator: Operator, values: tuple) -> Any:
    """What handlers get for an operator of users: the overload, as torch.ops has it."""
    from .._compat.operator_names import overload_for

    return overload_for(operator, values)


def call_function_mode(stack: list, public: Callable, owners: list, args: tuple, kwargs: dict) -> Any:
    """Asks the innermost mode, which is out of force while it runs."""
    mode = stack.pop()
    include = modes.include
    try:
        if not stack:
            modes.update(include=include & ~PYTHON_MASK)
        return mode.__torch_function__(public, tuple({type(o) for o in owners}), args, kwargs)
    finally:
        stack.append(mode)
        modes.update(include=include)


def register() -> None:
    """Gives all operators a kernel for the Python key."""
    registry.register_for_all(DispatchKey.Python, PerOperator(torch_function_kernel))
