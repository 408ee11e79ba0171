"""A plan: the steps that compute what a trace recorded."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .trace import Entry, Layout, Trace


class Buffer(NamedTuple):
    """Memory of a value that a run makes, and the steps from the one that writes it to the last that reads it."""

    number: int
    nbytes: int
    first: int
    last: int


class Step:
    """Entries that run together."""

    kernel: Any = None
    group: Any = None  # how the kernel is launched (run.py)
    form: Any = None  # what the kernel's geometry follows from (run.py)
    product: Any = None  # what multiplies, what it is given, and the result's layout (products.py)
    multiplied: Any = None  # the product, and its parts
    together: Any = None  # a sum and a call of it (sums.py)
    bytes: int = 0
    flops: int = 0
    seconds: float | None = None
    launches: Sequence[str] = ()  # the functions of the device's library that it called, where that is known
    text: Callable[[], str] | None = None

    def __init__(self, kind: str, entries: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.kind, self.entries, self.inputs, self.outputs = kind, list(entries), list(inputs), list(outputs)

    def source(self) -> str:
        """The kernel as text, or the calls, and what of the device's library they came to."""
        return "\n".join([*([] if self.text is None else [self.text()]), *self.launches])

    def __repr__(self) -> str:
        return f"<{self.kind} {self.entries}: {self.inputs} -> {self.outputs}>"


class Places:
    """Where values lie: in which other value's memory, and how far into it."""

    def __init__(self, plan: "Plan") -> None:
        self.root: dict[int, int] = {}
        self.offset: dict[int, int] = {}
        for number in plan.inputs:
            self.root[number], self.offset[number] = number, 0
        for entry in plan.entries:
            for number in [n for n in entry.results if n is not None]:
                if entry.kind == "view":
                    source: int = entry.arguments[0]
                    self.root[number] = self.root[source]
                    self.offset[number] = self.offset[source] + entry.recipe.offset
                else:
                    self.root[number], self.offset[number] = number, 0


class Plan:
    """See the package."""

    peak: int = 0
    timed: bool = False
    timed_function: Callable[..., list[Any]] | None = None
    factors: dict[int, list[int]] | None = None  # inputs that are multiplied with (factors.py), once that is asked for

    def __init__(self, trace: Trace) -> None:
        self.entries: list[Entry] = trace.entries
        self.layouts: list[Layout] = list(trace.layouts)
        self.inputs: list[int] = list(trace.inputs)
        self.outputs: tuple[int, ...] = trace.outputs
        self.writes: list[int] = trace.writes
        self.places = Places(self)
        self.steps: list[Step] = []
        self.memory: list[Buffer] = []
        self.function: Callable[..., list[Any]]

    def left_out(self, least: int = 0) -> int:
        """Bytes of arrays, of so many at least, that calls one by one would read and write beyond what the steps do."""

        def moved(numbers: Sequence[int | None]) -> int:
            sizes = [self.layouts[n].nbytes for n in numbers if n is not None]
            return sum([size for size in sizes if size >= least])

        alone = sum([moved([*entry.operands(), *entry.results]) for entry in self.entries if entry.kind != "view"])
        return alone - sum([moved([*step.inputs, *step.outputs]) for step in self.steps if step.kind != "view"])

    def run(self, inputs: Sequence[Any], numbers: Sequence[Any] = ()) -> list[Any]:
        """The arrays of `outputs`."""
        if self.timed:
            if self.timed_function is None:
                from .run import runner_of

                self.timed_function = runner_of(self, timed=True)
            return self.timed_function(self, inputs, numbers)
        return self.function(self, inputs, numbers)
