"""The base classes of data pipes."""

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..dataset import Dataset, IterableDataset

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class _Chained:
    """Pipes of one kind know each other as methods."""

    functions: dict[str, Callable]

    @classmethod
    def register_function(cls, function_name: str, function: Callable) -> None:
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any,
                                      enable_df_api_tracing: bool = False) -> None:
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}")

    def __repr__(self) -> str:
        return type(self).__qualname__

    __str__ = __repr__


class IterDataPipe(_Chained, IterableDataset[_T_co]):
    """Samples one after another, from other pipes mostly."""

    functions: dict[str, Callable] = {}

    def reset(self) -> None:
        """Called before each iteration by pipes that keep something."""


class DFIterDataPipe(IterDataPipe):
    """A pipe of data frames."""


class MapDataPipe(_Chained, Dataset[_T_co]):
    """Samples by key, from other pipes mostly."""

    functions: dict[str, Callable] = {}


class DataChunk(list[_T]):
    """A batch that a pipe made."""

    def __init__(self, items: Iterable[_T]) -> None:
        super().__init__(items)
        self.items = list(items)

    def as_str(self, indent: str = "") -> str:
        return indent + "[" + ", ".join(str(item) for item in self) + "]"

    def raw_iterator(self) -> Any:
        yield from self.items
