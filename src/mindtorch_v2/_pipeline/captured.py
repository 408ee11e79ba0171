"""Runs of a plan that a device captures once, and launches as one from then on (mode "reduce-overhead")."""

import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from .plan import Plan

_WARM = 2  # runs before: kernels are compiled, and libraries have chosen theirs and taken their memory
_MOST = 4  # captures of a plan
_STEP, _LAUNCH = 4e-6, 2e-5  # seconds that a step takes to launch, and a graph with what is around it
_BYTES = 2e12  # a second, of what is copied in and out


class Graph(Protocol):
    """A captured run."""

    def usable(self) -> bool:
        """Whether it can be launched now, where the current work goes."""

    def holds(self, inputs: Sequence[Any]) -> bool:
        """Whether the arrays that it reads in their own place are there."""

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The arrays of the plan's outputs; those that are given away in memory of their own."""


# By device: what captures `run` of inputs, of which those at some places are copied, and gives some outputs away. It
# gives None for what cannot be captured.
Capture = Callable[
    [Callable[[Sequence[Any]], list[Any]], Sequence[Any], Collection[int], Collection[int]], Graph | None
]


def _cuda(*given: Any) -> Graph | None:
    from .._backends.cuda.captured import captured

    return captured(*given)


def _npu(*given: Any) -> Graph | None:
    from .._backends.npu.captured import captured

    return captured(*given)


CAPTURES: dict[str, Capture] = {"cuda": _cuda, "npu": _npu}


class Runs:
    """The runs of a plan with the same numbers: step by step at first, then as one launch where its memory stays.

    The inputs at the places `copied` lie elsewhere each time, the others mostly where they did. The outputs in `given`
    are the caller's; the others are written over by the next launch.
    """

    def __init__(self, plan: Plan, numbers: Sequence[Any], copied: Collection[int], given: Collection[int],
                 written: Collection[int] = ()) -> None:  # fmt: skip
        self.plan, self.numbers, self.copied, self.given = plan, list(numbers), copied, given
        self.graph: Graph | None = None
        self.runs = self.captures = 0
        self.elsewhere: list[Any] = []  # the arrays of the last run that were not where the graph reads them
        devices = {layout.device for layout in plan.layouts}
        self.capture = CAPTURES.get(next(iter(devices)).type) if len(devices) == 1 else None
        inputs = set(plan.inputs)
        if set(written) & set(copied) or any(plan.places.root[number] in inputs for number in plan.outputs):
            self.capture = None  # others look at that memory
        moved = [plan.inputs[at] for at in copied] + [plan.outputs[i] for i in given]
        cost = _LAUNCH + sum(plan.layouts[number].nbytes for number in moved) / _BYTES
        if _STEP * sum(step.kind != "view" for step in plan.steps) < cost:
            self.capture = None

    def __call__(self, inputs: Sequence[Any], overwrites: bool = True) -> tuple[list[Any], bool]:
        """The arrays of the plan's outputs, and whether the next run may write over those that are not given.

        `overwrites` says that nobody needs those of the run before any more.
        """
        graph = self._chosen(inputs) if overwrites and self.capture is not None else None
        return (self._steps(inputs), False) if graph is None else (graph.run(inputs), True)

    def _chosen(self, inputs: Sequence[Any]) -> Graph | None:
        """The graph to launch; None for a run step by step."""
        if self.graph is not None:
            if not self.graph.usable():
                return None
            if self.graph.holds(inputs):
                self.elsewhere = []
                return self.graph
            if not self._moved(inputs):
                return None
        self.runs += 1
        if self.runs <= _WARM:
            return None
        self.graph, self.elsewhere = None, []
        if self.capture is not None and self.captures < _MOST:
            self.captures += 1
            self.graph = self.capture(self._steps, inputs, self.copied, self.given)
        if self.graph is None:
            self.capture = None  # for good
        return self.graph

    def _moved(self, inputs: Sequence[Any]) -> bool:
        """Whether what is not copied lies elsewhere now, where it lay at the run before, too."""
        own = [array for at, array in enumerate(inputs) if at not in self.copied]
        again = bool(self.elsewhere) and all(ref() is array for ref, array in zip(self.elsewhere, own, strict=True))
        self.elsewhere = [weakref.ref(array) for array in own]
        return again

    def _steps(self, inputs: Sequence[Any]) -> list[Any]:
        return self.plan.run(inputs, self.numbers)
