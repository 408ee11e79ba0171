"""torch.compiler: what programs say to `torch.compile` (docs/compile.md)."""

import functools
from collections.abc import Callable
from typing import Any

from .._core.from_data import from_numpy
from .._core.tensor import Tensor
from .._dynamo.backends.registry import get_default_backend, list_backends, set_default_backend
from .._dynamo.decorators import (
    allow_in_graph,
    assume_constant_result,
    is_compiling,
    set_stance,
    substitute_in_graph,
)
from . import config

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "list_backends",
    "load_cache_artifacts",
    "nested_compile_region",
    "reset",
    "save_cache_artifacts",
    "set_default_backend",
    "set_enable_guard_collectives",
    "set_stance",
    "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "substitute_in_graph",
    "wrap_numpy",
]

is_dynamo_compiling = is_compiling


def compile(*args: Any, **kwargs: Any) -> Any:
    """`torch.compile`."""
    from .._compile import compile

    return compile(*args, **kwargs)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function as one that is never part of a compiled one."""
    from .._dynamo import decorators

    return decorators.disable(fn, recursive, reason=reason)


def reset() -> None:
    """Forgets compiled code."""
    from .._dynamo import reset

    reset()


def is_exporting() -> bool:
    """Whether torch.export runs the calling code."""
    return False


def cudagraph_mark_step_begin() -> None:
    """Says that an iteration begins: results of the one before may be written over. None is, here."""


def wrap_numpy(fn: Callable) -> Callable:
    """A function of NumPy arrays as one of tensors."""

    def array(value: Any) -> Any:
        return value.numpy() if isinstance(value, Tensor) else value

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = fn(*map(array, args), **{name: array(value) for name, value in kwargs.items()})
        return from_numpy(result) if hasattr(result, "__array_interface__") else result

    return wrapped


def nested_compile_region(
    fn: Callable | None = None,
    *,
    options: Any = None,
    max_reuse_entries: int = 8,
    reuse_hash_fn: Callable | None = None,
) -> Callable:
    """The function: what is recorded alike has one plan, wherever it is called."""
    return fn if fn is not None else (lambda function: function)


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Whether processes agree before they compile; they never do here. What was set before comes back."""
    return False


def save_cache_artifacts() -> None:
    """What this process compiled, for another one: kernels are kept in a folder (docs/kernels.md), so nothing."""


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """Takes over what another process compiled: nothing, see save_cache_artifacts."""


def _all(guard_entries: Any) -> list[bool]:
    return [True for _ in guard_entries]


keep_portable_guards_unsafe = skip_guard_on_inbuilt_nn_modules_unsafe = skip_guard_on_all_nn_modules_unsafe = _all
skip_guard_on_globals_unsafe = skip_all_guards_unsafe = _all


def keep_tensor_guards_unsafe(guard_entries: Any, keep_parameters: bool = False) -> list[bool]:
    """Which guards to keep: all of them, here."""
    return _all(guard_entries)
