"""Streams and events: queues of work on a device, and marks in them. They wrap CuPy's, whose current stream is ours."""

import itertools
from typing import Any

import cupy

from ..._core.device import device as _device
from ..._core.device_objects import Queue
from .blocks import current
from .memory import hold_until
from .runtime import current_device, device_of, index_of, reported

_POOLED, _HIGHEST = 32, -3  # streams that a device has of each priority, and the highest one, as in PyTorch


class _Pool:
    """The streams of one device and priority, made when their turn first comes, and given out in turns for ever.

    What is kept by stream (free memory, workspaces, counters) then has an end, too.
    """

    def __init__(self, index: int, priority: int) -> None:
        self.index, self.priority = index, priority
        self.turns, self.made = itertools.count(), dict[int, Any]()

    def next(self) -> Any:
        turn = next(self.turns) % _POOLED
        if turn not in self.made:
            with cupy.cuda.Device(self.index):
                self.made.setdefault(turn, cupy.cuda.Stream(non_blocking=True, priority=self.priority))
        return self.made[turn]


_pools: dict[tuple[int, int], _Pool] = {}


class Stream(Queue):
    """A queue of work on one device, run in order. Every 33rd of a priority is the first one again."""

    def __init__(self, device: Any = None, priority: int = 0, *, made: Any = None) -> None:
        self.device_index, self.priority = index_of(device), min(max(priority, _HIGHEST), 0)
        if made is None:
            key = self.device_index, self.priority
            made = (_pools.get(key) or _pools.setdefault(key, _Pool(*key))).next()
        self.cupy_stream = made

    def _new_event(self) -> "Event":
        return Event()

    @property
    def cuda_stream(self) -> int:
        """The address that identifies the stream; 0 for the default stream."""
        return self.cupy_stream.ptr

    stream_id = cuda_stream

    @property
    def device(self) -> _device:
        return device_of(self.device_index)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest priority."""
        return 0, _HIGHEST

    def synchronize(self) -> None:
        """Waits until all work queued so far has run."""
        reported(self.cupy_stream.synchronize)

    def query(self) -> bool:
        """Whether all work queued so far has run."""
        return self.cupy_stream.done

    def __enter__(self) -> "Stream":
        self._previous = current_device(), current_stream(self.device_index)
        set_device(self.device_index)
        set_stream(self)
        return self

    def __exit__(self, *exc: object) -> None:
        index, stream = self._previous
        set_stream(stream)
        set_device(index)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device_index, self.cuda_stream) == (other.device_index,
                                                                                      other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self.device_index, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:{self.device_index} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library made, by its address."""

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        super().__init__(device, made=cupy.cuda.ExternalStream(stream_ptr))


class Event:
    """A mark in a stream, which can tell the time."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                 external: bool = False) -> None:
        self._timing = enable_timing
        self._made = cupy.cuda.Event(blocking, not enable_timing, interprocess)
        self._recorded = False

    @property
    def cuda_event(self) -> int:
        return self._made.ptr

    @property
    def device(self) -> _device | None:
        return device_of(current_device()) if self._recorded else None

    def record(self, stream: Stream | None = None) -> None:
        """Marks the present end of the stream's queue."""
        self._made.record((current_stream() if stream is None else stream).cupy_stream)
        self._recorded = True

    def wait(self, stream: Stream | None = None) -> None:
        """Work queued from now on in the stream waits for the mark; an event never recorded holds nothing up."""
        (current_stream() if stream is None else stream).cupy_stream.wait_event(self._made)

    def query(self) -> bool:
        """Whether the work before the mark has run."""
        return self._made.done

    def synchronize(self) -> None:
        reported(self._made.synchronize)

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds between two marks."""
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self._recorded and end_event._recorded):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return cupy.cuda.get_elapsed_time(self._made, end_event._made)

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.cuda_event:#x}>" if self._recorded else "<torch.cuda.Event uninitialized>"


_defaults: dict[int, Stream] = {}


def current_handle() -> int:
    return current.handle


def default_stream(device: Any = None) -> Stream:
    index = index_of(device)
    stream = _defaults.get(index)
    if stream is None:
        stream = _defaults[index] = Stream(index, made=cupy.cuda.Stream.null)
    return stream


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread's work on the device goes to."""
    index = index_of(device)
    return current.streams.get(index) or default_stream(index)


def set_stream(stream: Stream) -> None:
    current.streams[stream.device_index] = stream
    if stream.device_index == current_device():
        stream.cupy_stream.use()
        current.follow(stream.cuda_stream)
    else:
        with cupy.cuda.Device(stream.device_index):
            stream.cupy_stream.use()


def set_device(index: int) -> None:
    """Makes a device the current one of this thread."""
    if index >= 0:
        device_of(index)
        cupy.cuda.Device(index).use()
        current.follow(current_stream(index).cuda_stream)


def synchronize(device: Any = None) -> None:
    """Waits until all streams of the device have run."""
    with cupy.cuda.Device(index_of(device)):
        reported(cupy.cuda.runtime.deviceSynchronize)


def finish_transfer(host: Any, queued: bool) -> None:
    """After a copy between host and device: waits for it, or, where it may be queued, keeps the host's memory."""
    if queued:
        hold_until(current_stream().cupy_stream.record(), host)
    else:
        reported(cupy.cuda.runtime.streamSynchronize, current.handle)
