"""Attributes that are computed when somebody asks for them first."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["computed_once"]

_T = TypeVar("_T")


class computed_once(Generic[_T]):
    """`functools.cached_property` without the lock that it has in Python up to 3.11.

    That lock is one for all objects of a class, held while their attributes are computed. What computes one here may
    import modules and ask for others: two threads would wait for each other, and a process that was forked meanwhile
    for ever. Without it two threads may compute the same; both get what the first of them found.
    """

    def __init__(self, function: Callable[[Any], _T]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "computed_once[_T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.name, self.function(instance))
