"""Arguments of hand-written functions and methods, checked as those of operators are."""

import functools
from collections.abc import Callable
from typing import Any

from .._core.device import memory_format
from .schema import MISSING, Schema, to_float, to_int

_CLASSES: dict[str, type] = {"MemoryFormat": memory_format, "bool": bool, "str": str}


def takes(signature: str) -> Callable[[Callable], Callable]:
    """A decorator: the function gets arguments that fit the signature, which is written as an operator's schema."""
    schema = Schema(f"{signature} -> Any", lazy=True)

    @functools.cache
    def exact() -> dict[str, type]:
        """The classes of arguments that need no conversion, by name."""
        return {a.name: _CLASSES[a.type] for a in schema.arguments if a.type in _CLASSES and not a.is_list}

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if kwargs and len(args) == 1 and schema.takes_self:  # x.half(memory_format=...)
                for name, value in kwargs.items():
                    if value.__class__ is not exact().get(name):
                        break
                else:
                    return function(*args, **kwargs)
            values = schema.bind(args, kwargs, is_method=schema.takes_self)
            for name, value in (*zip(schema.names, args), *kwargs.items()):
                if value is None and name in schema.index and schema.arguments[schema.index[name]].refuses_none:
                    raise schema.expected(name, None)
            positional = len(schema.positional)
            return function(*values[:positional], **dict(zip(schema.names[positional:], values[positional:])))

        return checked

    return decorate


def checked_int(function: str, argument: str, value: Any, position: int | None = None) -> int:
    """The integer that an argument is, or TypeError."""
    converted = to_int(value)
    if converted is MISSING:
        raise TypeError(expected(function, argument, "int", value, position))
    return converted


def checked_float(function: str, argument: str, value: Any, position: int | None = None) -> float:
    """The real number that an argument is, or TypeError."""
    converted = to_float(value)
    if converted is MISSING:
        raise TypeError(expected(function, argument, "float", value, position))
    return converted


def expected(function: str, argument: str, kind: str, value: Any, position: int | None = None) -> str:
    """What is said of an argument of another type."""
    place = "" if position is None else f" (position {position})"
    return f"{function}(): argument '{argument}'{place} must be {kind}, not {type(value).__name__}"
