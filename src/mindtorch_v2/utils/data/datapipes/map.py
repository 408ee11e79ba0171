"""Pipes of samples that have keys."""

import copy
from collections.abc import Callable
from typing import Any

from ._decorator import functional_datapipe
from .datapipe import MapDataPipe

__all__ = ["Mapper", "SequenceWrapper"]


class SequenceWrapper(MapDataPipe):
    """The elements of a sequence or mapping, copied so that nobody changes them under the pipe."""

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


@functional_datapipe("map")
class Mapper(MapDataPipe):
    """A function of each sample."""

    def __init__(self, datapipe: Any, fn: Callable) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)
