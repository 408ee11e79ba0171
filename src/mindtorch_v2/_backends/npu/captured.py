"""A run of the pipeline's plan as a graph of CANN: inputs are copied to where it reads them, results out of it."""

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

from .array import NpuArray, copy_bytes
from .graphs import NPUGraph, graph, is_captured
from .runtime import running, started, thread
from .streams import current


def captured(
    run: Callable[[Sequence[Any]], list[Any]],
    inputs: Sequence[NpuArray],
    copied: Collection[int],
    given: Collection[int],
) -> "Captured | None":
    """The run as a graph; None where CANN has none, or what cannot be captured is in it."""
    index = inputs[0].device_index
    known = started(index).functions
    if "aclmdlRICaptureBegin" not in known or index != thread.device or is_captured(current.handles[index]):
        return None
    own = list(inputs)
    for at in copied:
        own[at] = inputs[at].copy()
    made = NPUGraph()
    try:
        with graph(made, capture_error_mode="thread_local"):  # other threads may go on copying
            outputs = run(own)
    except RuntimeError:  # what is wrong with the run itself, it says when it runs step by step
        made.reset()
        return None
    return Captured(made, own, sorted(copied), outputs, sorted(given))


class Captured:
    """A graph, with the arrays that it reads and those that it makes."""

    def __init__(self, made: NPUGraph, inputs: list[NpuArray], copied: list[int], outputs: list[NpuArray],
                 given: list[int]) -> None:  # fmt: skip
        self.graph, self.outputs, self.given, self.copied = made, outputs, given, copied
        self.device = inputs[0].device_index
        self.runtime, self.where = running(), (threading.get_ident(), self.device, current.handles[self.device])
        self.fixed = [at for at in range(len(inputs)) if at not in set(copied)]
        self.inputs = inputs  # whose memory the graph reads
        self.pointers = [inputs[at].pointer for at in self.fixed]

    def usable(self) -> bool:
        """Whether work comes from the same thread, goes where it did, and is not captured itself."""
        if self.runtime is not running():
            return False
        stream = current.handles[self.device]
        return self.where == (threading.get_ident(), thread.device, stream) and not is_captured(stream)

    def holds(self, inputs: Sequence[NpuArray]) -> bool:
        """Whether the arrays that are not copied are where they were."""
        return [inputs[at].pointer for at in self.fixed] == self.pointers

    def run(self, inputs: Sequence[NpuArray]) -> list[NpuArray]:
        """The outputs; those that are given away in new memory."""
        for at in self.copied:
            own, source = self.inputs[at], inputs[at]
            copy_bytes(own.storage, own.offset, source.storage, source.offset, own.span())
        self.graph.replay()
        made = list(self.outputs)
        for number in self.given:
            made[number] = self.outputs[number].copy()
        return made
