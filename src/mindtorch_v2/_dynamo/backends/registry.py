"""The names that `torch.compile(backend=...)` takes."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..exc import InvalidBackend

CompilerFn = Callable[..., Callable]
_COMPILER_FNS: dict[str, CompilerFn] = {}
_ENTRY_POINTS: dict[str, Any] = {}
_DEFAULT: list[str | CompilerFn] = ["inductor"]


def register_backend(compiler_fn: CompilerFn | None = None, name: str | None = None, tags: Sequence[str] = ()) -> Any:
    """Gives a backend a name for torch.compile; usable as a decorator."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise AssertionError(f"compiler_fn must be callable, got {type(compiler_fn)}")
    name = name or compiler_fn.__name__
    if name in _COMPILER_FNS:
        raise AssertionError(f"duplicate name: {name}")
    _COMPILER_FNS[name] = compiler_fn
    compiler_fn._tags = tuple(tags)  # type: ignore[attr-defined]
    return compiler_fn


register_debug_backend = functools.partial(register_backend, tags=("debug",))
register_experimental_backend = functools.partial(register_backend, tags=("experimental",))


def lookup_backend(compiler_fn: str | CompilerFn) -> CompilerFn:
    """The backend of that name; a function is its own."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    _load()
    if compiler_fn in _ENTRY_POINTS and compiler_fn not in _COMPILER_FNS:
        register_backend(_ENTRY_POINTS[compiler_fn].load(), compiler_fn)
    if compiler_fn not in _COMPILER_FNS:
        raise InvalidBackend(compiler_fn)
    return _COMPILER_FNS[compiler_fn]


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that torch.compile takes."""
    _load()
    excluded = set(exclude_tags or ())
    shown = {name for name, fn in _COMPILER_FNS.items() if not excluded.intersection(getattr(fn, "_tags", ()))}
    return sorted(shown | set(_ENTRY_POINTS))


@functools.cache
def _load() -> None:
    from importlib.metadata import entry_points

    from . import debugging  # noqa: F401  its backends register themselves

    _ENTRY_POINTS.update((point.name, point) for point in entry_points(group="torch_dynamo_backends"))


def set_default_backend(backend: str | CompilerFn | None) -> None:
    """Says which backend torch.compile takes where none is given; None is "inductor"."""
    if backend is not None and not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a string or callable, got {type(backend)}")
    _DEFAULT[0] = "inductor" if backend is None else backend


def get_default_backend() -> str | CompilerFn:
    """The backend that torch.compile takes where none is given."""
    return _DEFAULT[0]
