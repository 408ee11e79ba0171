"""torch._custom_ops: custom operators by name, as they were made before torch.library.custom_op."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ._custom_op.impl import (
    find_op,
    get_ctx,
    global_registry,
    make_op,
    validate_namespace,
    validate_schema,
    warn_deprecated,
)
from ._dispatch.function_schema import parse_schema
from ._library.infer_schema import infer_schema
from ._library.utils import parse_namespace

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract", "impl_backward", "impl_save_for_backward"]


def custom_op(qualname: str, func_or_schema: Any = None) -> Any:
    """Declares an operator by a schema, or by the annotations of a function, which is not run."""
    warn_deprecated()
    namespace, name = parse_namespace(qualname)
    validate_namespace(namespace)
    if "." in name:
        raise ValueError("The torch.custom_ops APIs do not handle overloads, i.e. operator names with '.' in them. "
                         f"Please name your operator something like ns::foo. Got: {qualname}")
    if isinstance(func_or_schema, str):
        _declare(qualname, f"{name}{func_or_schema}")
        return None

    def inner(func: Callable) -> Callable:
        if not inspect.isfunction(func):
            raise ValueError(f"custom_op(...)(func): Expected `func` to be a Python function, got: {type(func)}")
        if func.__name__ != name:
            raise ValueError(f"custom_op(qualname='{qualname}', ...)(func): expected `func` to have name '{name}' but "
                             f"got '{func.__name__}'. Please either change the name of `func` or the qualname that is "
                             "passed to `custom_op`")
        _declare(qualname, f"{name}{infer_schema(func, mutates_args=())}")
        return func

    return inner if func_or_schema is None else inner(func_or_schema)


def _declare(qualname: str, schema: str) -> None:
    try:
        parsed = parse_schema(schema)
    except RuntimeError as error:
        raise AssertionError(f"Invalid function schema: {schema}") from error
    validate_schema(parsed)
    make_op(qualname, schema)


def _decorated(decorator: Callable, func: Callable | None) -> Any:
    return decorator if func is None else decorator(func)


def impl(qualname: str, *, device_types: str | Sequence[str] = ("cpu", "cuda"), func: Callable | None = None) -> Any:
    """Registers a kernel for device types."""
    return _decorated(find_op(qualname).impl(device_types), func)


def impl_abstract(qualname: str, *, func: Callable | None = None) -> Any:
    """Registers the function for tensors without elements."""
    from .library import register_fake

    return register_fake(qualname, func)


def impl_save_for_backward(qualname: str, *, func: Callable | None = None) -> Any:
    """Registers the function that says what backward needs."""
    return _decorated(find_op(qualname).impl_save_for_backward(), func)


def impl_backward(qualname: str, output_differentiability: Any = None, *, func: Callable | None = None) -> Any:
    """Registers the function that gives the gradients by name."""
    op = find_op(qualname)
    return _decorated(op.impl_backward(output_differentiability), func)


def _destroy(qualname: str) -> None:
    """Takes an operator out."""
    global_registry[qualname]._destroy()
