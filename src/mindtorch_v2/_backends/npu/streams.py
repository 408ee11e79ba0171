"""Streams and events: queues of work on a device, and marks in them."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from ctypes import byref, c_float, c_int32
from typing import Any

from ..._core.device_objects import Queue
from .facts import POINTER
from .runtime import Runtime, at_stop, running, started, thread

FAST_LAUNCH, FAST_SYNC = 1, 2
EVENT_SYNC, EVENT_PROGRESS, EVENT_TIME = 1, 2, 8
POOL_SIZE = 32  # streams a device; more of them share these, as on CUDA


class Stream(Queue):
    """A queue of work on one device, run in order. Made without a handle, it is the next one of the device's pool."""

    __slots__ = ("__weakref__", "device_index", "handle")

    def __init__(self, device: Any = None, priority: int = 0, *, handle: int = 0) -> None:
        self.device_index = thread.device if device is None else device_index(device)
        self.handle = handle or _pooled_stream(self.device_index)

    def _new_event(self) -> "Event":
        return Event()

    @property
    def npu_stream(self) -> int:
        """The address that identifies the stream in CANN."""
        return self.handle

    def synchronize(self) -> None:
        """Waits until all work queued so far has run."""
        started(self.device_index).call("aclrtSynchronizeStream", self.handle)

    def query(self) -> bool:
        """Whether all work queued so far has run."""
        status = c_int32()
        started(self.device_index).call("aclrtStreamQuery", self.handle, byref(status))
        return status.value == 0

    def __enter__(self) -> "Stream":
        current.outer.append((thread.device, current_stream(self.device_index)))
        thread.device = self.device_index
        set_stream(self)
        return self

    def __exit__(self, *exc: object) -> None:
        device, stream = current.outer.pop()
        set_stream(stream)
        thread.device = device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device_index, self.handle) == (other.device_index, other.handle)

    def __hash__(self) -> int:
        return hash((self.device_index, self.handle))

    def __repr__(self) -> str:
        return f"<torch.npu.Stream device=npu:{self.device_index} npu_stream={self.npu_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library made, by its address; it stays that library's to destroy."""

    __slots__ = ()

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        super().__init__(device, handle=stream_ptr)


class Event:
    """A mark in a stream. Its CANN event is made at the first record and kept for others afterwards."""

    __slots__ = ("__weakref__", "_flags", "_handle", "_runtime", "device_index")

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._flags = EVENT_SYNC | EVENT_PROGRESS | (EVENT_TIME if enable_timing else 0)
        self._handle: int | None = None
        self._runtime: Runtime | None = None
        self.device_index: int | None = None

    @property
    def npu_event(self) -> int:
        return self._handle or 0

    def record(self, stream: Stream | None = None) -> None:
        """Marks the present end of the stream's queue."""
        stream = current_stream() if stream is None else stream
        runtime = started(stream.device_index)
        if self._handle is None:
            self._handle, self._runtime = _event_handle(runtime, stream.device_index, self._flags), runtime
            self.device_index = stream.device_index
        elif self.device_index != stream.device_index:
            raise RuntimeError(f"Event device npu:{self.device_index} does not match recording stream's device "
                               f"npu:{stream.device_index}.")  # fmt: skip
        runtime.call("aclrtRecordEvent", self._handle, stream.handle)

    def wait(self, stream: Stream | None = None) -> None:
        """Work queued from now on in the stream waits for the mark; an event never recorded holds nothing up."""
        stream = current_stream() if stream is None else stream
        if self._handle is not None:
            started(stream.device_index).call("aclrtStreamWaitEvent", stream.handle, self._handle)

    def query(self) -> bool:
        """Whether the work before the mark has run."""
        if self._handle is None:
            return True
        status = c_int32()
        started(self.device_index).call("aclrtQueryEventStatus", self._handle, byref(status))
        return status.value == 1

    def synchronize(self) -> None:
        if self._handle is not None:
            started(self.device_index).call("aclrtSynchronizeEvent", self._handle)

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds between two marks of one stream."""
        if not self._flags & end_event._flags & EVENT_TIME:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._handle is None or end_event._handle is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        elapsed = c_float()
        started(self.device_index).call("aclrtEventElapsedTime", byref(elapsed), self._handle, end_event._handle)
        return elapsed.value

    def __del__(self) -> None:
        # A destructor runs at any moment in any thread, so it calls nothing: the handle goes to the next event.
        handle = getattr(self, "_handle", None)
        if handle is not None and self._runtime is running():
            _spare_events.setdefault((self.device_index, self._flags), deque()).append(handle)

    def __repr__(self) -> str:
        return f"<torch.npu.Event {self.npu_event:#x}>"


_lock = threading.Lock()
_pools: dict[int, list[int]] = {}  # stream handles of a device
_own: dict[int, list[int]] = {}  # of streams that are no part of the pool
_taken: dict[int, int] = {}  # how many streams were asked for
_spare_events: dict[tuple[int | None, int], deque[int]] = {}
_events: list[int] = []  # every event handle ever made
_defaults: dict[int, Stream] = {}


class _Handles(dict[int, int]):
    """The streams' addresses by device; a thread that chose none has the device's default stream."""

    def __missing__(self, index: int) -> int:
        return self.setdefault(index, default_stream(index).handle)


class _Current(threading.local):
    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}
        self.handles = _Handles()  # of the same streams
        self.outer: list[tuple[int, Stream]] = []  # what the contexts that are open here left


current = _Current()


def device_index(device: Any) -> int:
    """The number of an NPU device given as number, text or torch.device; without an index, the current one."""
    if device is None:
        return thread.device
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        kind, _, number = device.partition(":")
        index = int(number) if number else None
    else:
        kind, index = device.type, device.index
    if kind != "npu":
        raise ValueError(f"Expected an npu device, but got: {device}")
    return thread.device if index is None else index


def _pooled_stream(index: int) -> int:
    runtime = started(index)
    with _lock:
        pool = _pools.setdefault(index, [])
        number = _taken.get(index, 0)
        if len(pool) < POOL_SIZE:
            pool.append(_made(runtime))
        _taken[index] = number + 1
        return pool[number % POOL_SIZE]


def _made(runtime: Runtime) -> int:
    handle = POINTER()
    runtime.call("aclrtCreateStreamWithConfig", byref(handle), 0, FAST_LAUNCH | FAST_SYNC)
    return handle.value or 0


def own_stream(index: int) -> Stream:
    """A stream that nobody else is given."""
    runtime = started(index)
    with _lock:
        _own.setdefault(index, []).append(_made(runtime))
        return Stream(index, handle=_own[index][-1])


def _event_handle(runtime: Runtime, index: int, flags: int) -> int:
    with contextlib.suppress(KeyError, IndexError):  # none is left; another thread may just have taken the last one
        return _spare_events[index, flags].popleft()
    handle = POINTER()
    runtime.call("aclrtCreateEventExWithFlag", byref(handle), flags)
    made = handle.value or 0
    _events.append(made)
    return made


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to where none was chosen: one of our own, since CANN's cannot be captured."""
    index = device_index(device)
    stream = _defaults.get(index)
    if stream is None:
        runtime = started(index)
        with _lock:
            if index not in _defaults:
                _defaults[index] = Stream(index, handle=_made(runtime))
            stream = _defaults[index]
    return stream


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread's work on the device goes to."""
    index = thread.device if device is None else device_index(device)
    return current.streams.get(index) or default_stream(index)


def set_stream(stream: Stream) -> None:
    current.streams[stream.device_index] = stream
    current.handles[stream.device_index] = stream.handle


def synchronize(device: Any = None) -> None:
    """Waits until all streams of the device have run."""
    started(device_index(device)).call("aclrtSynchronizeDevice")


def _destroy_all(runtime: Runtime) -> None:
    destroy_event: Callable = runtime.functions["aclrtDestroyEvent"]
    for event in _events:
        destroy_event(event)
    for index, context in runtime.contexts.items():
        default = [_defaults[index].handle] if index in _defaults else []
        if not runtime.functions["aclrtSetCurrentContext"](context):
            for stream in _pools.get(index, []) + _own.get(index, []) + default:
                runtime.functions["aclrtDestroyStream"](stream)
    _own.clear()
    for table in (_events, _pools, _taken, _spare_events, _defaults, current.streams, current.handles, current.outer):
        table.clear()


at_stop.append(_destroy_all)
