"""Graphs: work that is recorded once and queued again as a whole, on the same memory."""

from collections.abc import Callable
from ctypes import byref
from typing import Any

from .facts import POINTER
from .memory import Block, pool_of
from .runtime import Runtime, at_stop, running, started
from .streams import Stream, current_stream, own_stream

MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
_captured: set[int] = set()  # the streams whose work is being recorded
_spare: dict[int, list[Stream]] = {}  # streams of graphs that were reset, by device


def is_captured(stream: int) -> bool:
    """Whether work on a stream is being recorded."""
    return stream in _captured


class NPUGraph:
    """Launches between `capture_begin` and `capture_end`, which `replay` queues again.

    A graph records on a stream of its own, so that the memory it works with is nobody else's. What lies between its
    launches stays taken until `reset`.
    """

    def __init__(self) -> None:
        self._handle, self._runtime = 0, None
        self._held: list[Block] = []
        self.stream: Stream | None = None
        self._own: Stream | None = None  # the stream, where it is nobody else's
        self._queued: set[Stream] = set()  # where it was replayed

    _runtime: Runtime | None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Records what is queued on the current stream from now on."""
        if self._handle:
            raise RuntimeError("This NPUGraph instance already owns a captured graph. To capture a new graph, create a "
                               "new instance.")
        stream = current_stream()
        self._runtime = started(stream.device_index)
        self._checked("aclmdlRICaptureBegin", stream.handle, MODES[capture_error_mode])
        self.stream = stream
        _captured.add(stream.handle)

    def capture_end(self) -> None:
        assert self.stream is not None, "capture_end without capture_begin"
        handle = POINTER()
        _captured.discard(self.stream.handle)
        self._checked("aclmdlRICaptureEnd", self.stream.handle, byref(handle))
        self._handle = handle.value or 0
        self._held = pool_of(self.stream.device_index).take_all_free(self.stream.handle)

    def replay(self) -> None:
        """Queues the recorded work on the current stream."""
        if not self._handle:
            raise RuntimeError("Called NPUGraph::replay without a preceding successful capture.")
        stream = current_stream()
        self._checked("aclmdlRIExecuteAsync", self._handle, stream.handle)
        self._queued.add(stream)

    def reset(self) -> None:
        """Forgets the recorded work, once what was queued of it has run, and gives its memory and stream back."""
        handle, self._handle = self._handle, 0
        held, self._held = self._held, []
        own, self._own = self._own, None
        queued, self._queued = self._queued, set()
        if self._runtime is not running():
            return
        if handle:
            for stream in queued:
                stream.synchronize()
            self._checked("aclmdlRIDestroy", handle)
        for block in held:
            block.pool.returned.append(block)
        if own is not None:
            _spare.setdefault(own.device_index, []).append(own)

    def pool(self) -> tuple[int, int]:
        return (0, id(self))

    def _checked(self, name: str, *args: Any) -> None:
        assert self._runtime is not None
        if name not in self._runtime.functions:
            raise NotImplementedError(f"the installed CANN has no {name}: it cannot record graphs")
        self._runtime.call(name, *args)

    def __del__(self) -> None:
        if (self._handle or self._own is not None) and running() is not None:
            self.reset()


class graph:  # noqa: N801 - PyTorch's name
    """Context manager that records the work inside it into a graph, on a stream of the graph's own."""

    def __init__(self, npu_graph: NPUGraph, pool: Any = None, stream: Stream | None = None,
                 capture_error_mode: str = "global") -> None:
        self.npu_graph, self.mode, self.given = npu_graph, capture_error_mode, stream
        self.stream: Stream | None = None

    def __enter__(self) -> NPUGraph:
        before = current_stream()
        before.synchronize()
        self.stream = self.given
        if self.stream is None:
            spare = _spare.get(before.device_index)
            self.stream = self.npu_graph._own = spare.pop() if spare else own_stream(before.device_index)
        self.stream.__enter__()
        try:
            self.npu_graph.capture_begin(capture_error_mode=self.mode)
        except BaseException:
            self.stream.__exit__()
            raise
        return self.npu_graph

    def __exit__(self, *exc: Any) -> None:
        assert self.stream is not None
        try:
            self.npu_graph.capture_end()
        finally:
            self.stream.__exit__(*exc)


def make_graphed_callables(function: Callable, sample_args: tuple, num_warmup_iters: int = 3) -> Callable:
    """A function that computes without gradients, recorded for arguments like these and then only replayed."""
    inputs = [x.clone() for x in sample_args]
    for _ in range(num_warmup_iters):
        function(*inputs)
    made = NPUGraph()
    with graph(made):
        output = function(*inputs)

    def replayed(*args: Any) -> Any:
        for target, value in zip(inputs, args, strict=True):
            target.copy_(value)
        made.replay()
        return output

    return replayed


def _forget(runtime: Runtime) -> None:
    _captured.clear()
    _spare.clear()


at_stop.append(_forget)
