"""What a compiler takes operators apart into. Plans are made of whole operators here, so the table is only kept."""

from collections.abc import Callable
from typing import Any

from .._decomp import register_decomposition as _register

__all__ = ["decompositions", "register_decomposition"]

decompositions: dict[Any, Callable] = {}


def register_decomposition(ops: Any) -> Callable:
    """Makes a function what operators are written as, for a compiler."""
    return _register(ops, decompositions)
