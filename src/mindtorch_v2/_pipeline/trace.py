"""A trace: what was recorded between two flushes, by numbers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._dispatch.registry import Operator


class Layout:
    """Shape, strides in bytes and type of an array; there is one object of each, so that they compare by identity."""

    __slots__ = ("dtype", "nbytes", "ndim", "shape", "size", "strides")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.strides, self.dtype, self.ndim = shape, strides, dtype, len(shape)
        self.size = 1
        for n in shape:
            self.size *= n
        self.nbytes = self.size * dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


class Value(int):
    """The number of a value, in the place of a tensor among an entry's arguments."""


class Free(int):
    """The position in `trace.numbers` of a number that a run is given."""


class Entry(NamedTuple):
    """A recorded call."""

    operator: Operator
    arguments: tuple
    results: tuple[int, ...]
    kind: str  # "pointwise", "view", "write" (a pointwise one into its first operand's memory) or "call"
    where: str | None

    def operands(self) -> list[int]:
        """The values among the arguments."""
        return [v for a in self.arguments for v in (a if isinstance(a, tuple) else (a,)) if v.__class__ is Value]


class Trace:
    """See the package."""

    layouts: Sequence[Layout]
    inputs: dict[int, Any]
    entries: Sequence[Entry]
    numbers: Sequence[Any]
    outputs: Sequence[int]
    writes: Sequence[int]
    device: Any

    def signature(self) -> tuple:
        raise NotImplementedError
