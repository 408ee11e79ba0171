"""Numbers that PyTorch may trace as symbols. Nothing here makes symbols: these work on plain numbers."""

import math
from collections.abc import Iterable
from typing import Any


class SymInt:
    """An integer known only while tracing; there are none here, so that isinstance answers False."""


class SymFloat:
    """The same for a floating-point number."""


class SymBool:
    """The same for a truth value."""


def sym_int(a: Any) -> int:
    return math.floor(a) if a >= 0 else math.ceil(a)


def sym_float(a: Any) -> float:
    return float(a)


def sym_not(a: bool) -> bool:
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger number; a float if either is one."""
    return float(max(a, b)) if isinstance(a, float) or isinstance(b, float) else max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number; a float if either is one."""
    return float(min(a, b)) if isinstance(a, float) or isinstance(b, float) else min(a, b)


def sym_sum(args: Iterable[Any]) -> Any:
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    return t if b else f


def sym_sqrt(a: Any) -> float:
    return math.sqrt(a)
