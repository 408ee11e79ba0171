"""torch._dynamo: names that programs use around `torch.compile`, which runs functions as they are."""

from collections.abc import Callable
from typing import Any

from . import config
from .eval_frame import OptimizedModule

__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "forbid_in_graph",
           "graph_break", "is_compiling", "list_backends", "mark_dynamic", "mark_static", "mark_static_address",
           "maybe_mark_dynamic", "optimize", "reset", "run", "substitute_in_graph"]


def _unchanged(fn: Any) -> Any:
    return fn


allow_in_graph = assume_constant_result = forbid_in_graph = disallow_in_graph = run = _unchanged


def disable(fn: Callable | None = None, recursive: bool = True, *, reason: str | None = None, **options: Any) -> Any:
    """The function itself, or a decorator that gives it back."""
    return _unchanged if fn is None else fn


def substitute_in_graph(original_fn: Callable, *, can_constant_fold_through: bool = False,
                        skip_signature_check: bool = False, **options: Any) -> Callable:
    return _unchanged


def optimize(*args: Any, **kwargs: Any) -> Callable:
    return _unchanged


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    return ["eager"]


def is_compiling() -> bool:
    return False


def graph_break(msg: str = "") -> None:
    """Ends the graph that is being compiled; none is."""


def reset() -> None:
    """Forgets compiled code; there is none."""


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:
    """Says that a dimension's size will vary: shapes are never assumed here."""


maybe_mark_dynamic = mark_static = mark_unbacked = mark_dynamic


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Says that a tensor stays where it is: addresses are never assumed here."""
