"""torch.compiler: `torch.compile` runs functions as they are, so nothing is ever being compiled or exported."""

from collections.abc import Callable
from typing import Any

from .._dynamo import (
    allow_in_graph,
    assume_constant_result,
    disable,
    graph_break,
    list_backends,
    reset,
    substitute_in_graph,
)

__all__ = ["allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "graph_break",
           "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "nested_compile_region", "reset",
           "set_stance", "substitute_in_graph", "wrap_numpy"]


def compile(*args: Any, **kwargs: Any) -> Any:
    """`torch.compile`."""
    import mindtorch_v2

    return mindtorch_v2.compile(*args, **kwargs)


def is_compiling() -> bool:
    return False


def is_dynamo_compiling() -> bool:
    return False


def is_exporting() -> bool:
    return False


def cudagraph_mark_step_begin() -> None:
    """Marks a new iteration for captured graphs; there is nothing to mark."""


def wrap_numpy(fn: Callable) -> Callable:
    """A function of NumPy arrays as one of tensors."""
    import functools

    from .._core.from_data import from_numpy
    from .._core.tensor import Tensor

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = fn(*[a.numpy() if isinstance(a, Tensor) else a for a in args],
                    **{k: a.numpy() if isinstance(a, Tensor) else a for k, a in kwargs.items()})
        return from_numpy(result) if hasattr(result, "__array_interface__") else result

    return wrapped


def nested_compile_region(fn: Callable | None = None) -> Callable:
    return fn if fn is not None else (lambda function: function)


class set_stance:
    """How eagerly to compile: everything runs as it is under every stance."""

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False,
                 force_backend: Any = None) -> None:
        self.stance = stance

    def __enter__(self) -> "set_stance":
        return self

    def __exit__(self, *exception: Any) -> None:
        """Leaves the stance."""

    def __call__(self, fn: Callable) -> Callable:
        return fn
