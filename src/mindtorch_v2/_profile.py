"""What a running profiler writes down: each operator, each node of a backward pass, each user's mark, with its time.

A profiler adds a dispatch key to its thread's calls while it runs; a program that is not profiled does not see it.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._dispatch.keys import PROFILER_MASK, DispatchKey, modes
from ._dispatch.registry import Around, Operator, registry

FUNCTION, BACKWARD_FUNCTION, USER_SCOPE = 0, 1, 7  # PyTorch's numbers of scopes
_HERE = __name__.rpartition(".")[0]


@dataclass(slots=True)
class Entry:
    """One call, in nanoseconds since the clock's start."""

    name: str
    start: int
    thread: int
    parent: "Entry | None"
    end: int = 0
    scope: int = FUNCTION
    shapes: list = field(default_factory=list)
    values: list = field(default_factory=list)
    sequence: int = -1
    memory: int = 0
    flops: int = 0
    stack: list[str] = field(default_factory=list)


class Recorder:
    """The entries of one recording, in the order in which the calls began."""

    def __init__(self, shapes: bool = False, memory: bool = False, stack: bool = False, flops: bool = False) -> None:
        self.shapes, self.memory, self.stack, self.flops = shapes or flops, memory, stack, flops
        self.entries: list[Entry] = []
        self.open: list[Entry] = []
        self.begun = time.perf_counter_ns()

    def begin(self, name: str, scope: int = FUNCTION, args: Sequence[Any] = ()) -> Entry:
        entry = Entry(name, 0, threading.get_ident(), self.open[-1] if self.open else None, scope=scope)
        if self.shapes:
            entry.shapes = [_shape(a) for a in args]
            entry.values = [None if hasattr(a, "_keys") else a for a in args]
        if self.stack:
            entry.stack = _callers()
        self.entries.append(entry)
        self.open.append(entry)
        entry.start = time.perf_counter_ns()
        return entry

    def finish(self, entry: Entry) -> None:
        entry.end = time.perf_counter_ns()
        if entry in self.open:
            del self.open[self.open.index(entry) :]

    @contextlib.contextmanager
    def beside(self, name: str) -> Iterator[None]:
        """Writes down what a thread does for the one that is recorded."""
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            self.entries.append(Entry(name, start, threading.get_ident(), None, time.perf_counter_ns(), USER_SCOPE))

    def note(self, entry: Entry, operator: Operator, mask: int, args: Sequence[Any], result: Any) -> None:
        """Writes down what came out of a call of an operator, which the keys in `mask` served."""
        if hasattr(result, "_keys"):
            if result._edge is not None:
                entry.sequence = result._edge[0].seq if result._edge[1] >= 0 else -1
            if self.memory and result._base is None and not any(result is a for a in args):
                entry.memory = result._array.nbytes
            flops = getattr(operator.declaration, "flops", None) if self.flops else None
            if flops is not None and flops.by != "counter":
                shapes = [tuple(a._array.shape) if hasattr(a, "_keys") else a for a in args]
                entry.flops = flops.count(*shapes, out_shape=result._array.shape)

    def watch(self, task: Any) -> None:
        """Lets a backward pass run each node inside the two entries that PyTorch writes for it."""

        def watched(run: Callable, name_of: Callable[[Any], str]) -> Callable:
            def recorded(target: Any, grads: list) -> Any:
                name = name_of(target)
                outer = self.begin(f"autograd::engine::evaluate_function: {name}")
                inner = self.begin(name, BACKWARD_FUNCTION, grads)
                outer.sequence = inner.sequence = getattr(target, "seq", -1)
                try:
                    return run(target, grads)
                finally:
                    self.finish(inner)
                    self.finish(outer)

            return recorded

        task.run_node = watched(task.run_node, lambda node: node.name())
        task.run_leaf = watched(task.run_leaf, lambda leaf: "torch::autograd::AccumulateGrad")

    def start(self) -> None:
        modes.__dict__["recorder"] = self
        modes.update(include=modes.include | PROFILER_MASK)

    def stop(self) -> None:
        modes.__dict__["recorder"] = None
        modes.update(include=modes.include & ~PROFILER_MASK)
        for entry in self.open:
            entry.end = time.perf_counter_ns()
        self.open = []


def recorder() -> Recorder | None:
    """The recorder of this thread's running profiler."""
    return modes.__dict__.get("recorder")


class marked:
    """Context whose time, and what it calls, a running profiler writes down under a name."""

    __slots__ = ("current", "entry", "name")

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.current = recorder()
        if self.current is not None:
            self.entry = self.current.begin(self.name, USER_SCOPE)

    def __exit__(self, *exception: Any) -> None:
        if self.current is not None:
            self.current.finish(self.entry)


def _shape(value: Any) -> list:
    if hasattr(value, "_keys"):
        return list(value._array.shape)
    if isinstance(value, (tuple, list)) and value and all(hasattr(v, "_keys") for v in value):
        return [list(v._array.shape) for v in value]
    return []


def _callers() -> list[str]:
    """The user's frames, the innermost first."""
    frames, frame = [], sys._getframe(2)
    while frame is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith(_HERE):
            frames.append(f"{frame.f_code.co_filename}({frame.f_lineno}): {frame.f_code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return frames


def _recorded(operator: Operator, below: Callable, mask: int) -> Callable:
    name = operator.name.partition(".")[0]

    def kernel(*args: Any) -> Any:
        current = recorder()
        if current is None:
            return below(*args)
        entry = current.begin(name, FUNCTION, args)
        try:
            result = below(*args)
        finally:
            current.finish(entry)
        current.note(entry, operator, mask, args, result)
        return result

    return kernel


registry.register_for_all(DispatchKey.Profiler, Around(_recorded))
