"""A plan: the steps that compute what a trace recorded."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from .trace import Trace


class Buffer(NamedTuple):
    """Memory of a value that a run makes, and the steps from the one that writes it to the last that reads it."""

    number: int
    nbytes: int
    first: int
    last: int


class Step:
    """Entries that run together."""

    kind: str
    entries: Sequence[int]
    inputs: Sequence[int]
    outputs: Sequence[int]
    kernel: Any = None
    bytes: int = 0
    flops: int = 0
    seconds: float | None = None

    def source(self) -> str:
        """The kernel as text, or the calls."""
        raise NotImplementedError


class Plan:
    """See the package."""

    trace: Trace
    steps: Sequence[Step]
    outputs: Sequence[int]
    writes: Sequence[int]
    memory: Sequence[Buffer]
    peak: int = 0
    timed: bool = False

    def run(self, inputs: Sequence[Any], numbers: Sequence[Any] = ()) -> list[Any]:
        """The arrays of `outputs`."""
        raise NotImplementedError
