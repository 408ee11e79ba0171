"""Numbers that PyTorch may trace as symbols. Functions work on plain numbers, which symbols are, too."""

import math
from collections.abc import Iterable
from typing import Any


class SymInt(int):
    """A size that varies, as a backend of `torch.compile` is shown it: a number with a name.

    Computing with it gives plain numbers, and questions about it are answered for the number that it is.
    """

    name: str

    def __new__(cls, value: int, name: str = "") -> "SymInt":
        made = super().__new__(cls, value)
        made.name = name
        return made

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


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
