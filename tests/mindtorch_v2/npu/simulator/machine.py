"""The simulated machine: devices with memory of their own, streams that run late, events; every pointer is checked."""

import bisect
import ctypes
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np

POISON_NEW, POISON_FREED = 0xA5, 0xDB
DEVICE_BASE, HANDLE_BASE = 1 << 56, 1 << 52  # neither is an address that a process can have
HOST_LIMIT = 1 << 48
MINUTE_GAP = 4096


class Fault(Exception):
    """A call that CANN would answer with an error code. `duty` marks one that only a faulty caller can provoke."""

    def __init__(self, code: int, text: str, duty: bool = True) -> None:
        super().__init__(text)
        self.code, self.duty = code, duty


class Allocation:
    def __init__(self, address: int, size: int, device: int) -> None:
        self.address, self.size, self.device = address, size, device
        self.data = np.full(size, POISON_NEW, np.uint8)


class Mark:
    """One recording of an event."""

    def __init__(self, stream: "Queue") -> None:
        self.stream, self.done, self.time = stream, False, 0.0


class Queue:
    """A stream: tasks that wait until somebody synchronises."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.tasks: deque[Callable[[], None]] = deque()
        self.failure: Fault | None = None
        self.captured: list[Callable[[], None]] | None = None  # tasks of a graph that is being recorded
        self.capture: tuple[int, int] = (0, 0)  # its mode, and the thread that records it

    def run(self, until: Mark | None = None) -> None:
        while self.tasks and not (until is not None and until.done):
            task = self.tasks.popleft()
            try:
                task()
            except Fault as fault:
                self.failure = fault


class Event:
    def __init__(self, flags: int) -> None:
        self.flags = flags
        self.mark: Mark | None = None


class Machine:
    """Runtime functions by their C names, with arguments decoded; a result of None means success."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.soc_name = ctypes.create_string_buffer(b"Ascend910B1")
        self.message = ctypes.create_string_buffer(b"")
        self.restart()

    def restart(self) -> None:
        """A machine as after power-on."""
        self.device_count, self.memory_limit, self.deferred, self.peers = 2, 1 << 30, True, True
        self.initialised = False
        self.live: dict[str, dict[int, Any]] = {}  # kind -> handle -> object
        self.allocations: list[dict[int, Allocation]] = [{}, {}]
        self.starts: list[list[int]] = [[], []]
        self.next_address = [DEVICE_BASE * (d + 1) for d in range(2)]
        self.next_handle = HANDLE_BASE
        self.pinned: dict[int, np.ndarray] = {}
        self.queues: dict[int, Queue] = {}
        self.defaults = [Queue(d) for d in range(2)]
        self.device_references = [0, 0]
        self.threads = threading.local()
        self.recent = ""
        self.options: dict[tuple[int, int], int] = {}  # of each device's context
        self.finalised = False
        self.records_nothing = False  # whether graphs are refused, as a 910A refuses them
        self.violations: list[str] = []
        self.calls: Counter[str] = Counter()
        self.copies: Counter[str] = Counter()

    # bookkeeping -----------------------------------------------------------------------------------------------

    def new_handle(self, kind: str, value: Any) -> int:
        self.next_handle += 64
        self.live.setdefault(kind, {})[self.next_handle] = value
        return self.next_handle

    def object(self, kind: str, handle: int | None) -> Any:
        if handle is None:
            raise Fault(161001, f"{kind} is NULL")
        found = self.live.get(kind, {}).get(handle)
        if found is None:
            raise Fault(107017, f"{handle:#x} is no living {kind}: never made, or destroyed before")
        return found

    def destroy(self, kind: str, handle: int | None) -> Any:
        if handle is not None:
            self.object(kind, handle)
            return self.live[kind].pop(handle)
        return None

    def counts(self) -> dict[str, int]:
        """What is alive now, by kind; kinds of which there is none are left out."""
        alive = {kind: len(objects) for kind, objects in self.live.items()}
        alive["device memory"] = sum(map(len, self.allocations))
        alive["host memory"] = len(self.pinned)
        return {kind: count for kind, count in alive.items() if count}

    def used_memory(self, device: int = 0) -> int:
        return sum(a.size for a in self.allocations[device].values())

    # memory ----------------------------------------------------------------------------------------------------

    def device_bytes(self, address: int, count: int, device: int | None = None) -> np.ndarray:
        """The bytes at a device address."""
        where = address // DEVICE_BASE - 1
        if not 0 <= where < self.device_count:
            raise Fault(107000, f"{address:#x} is no device address")
        if device is not None and where != device:
            raise Fault(107000, f"{address:#x} belongs to device {where}, not {device}")
        starts = self.starts[where]
        at = bisect.bisect_right(starts, address) - 1
        found = self.allocations[where].get(starts[at]) if at >= 0 else None
        if found is None or address + count > found.address + found.size:
            raise Fault(507053, f"{count} bytes at {address:#x} are not, or no longer, allocated")
        return found.data[address - found.address : address - found.address + count]

    def host_bytes(self, address: int, count: int) -> np.ndarray:
        if address >= HOST_LIMIT:
            raise Fault(107000, f"{address:#x} is no host address")
        return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address))

    def is_device(self, address: int) -> bool:
        return address >= DEVICE_BASE

    def is_pinned(self, address: int, count: int) -> bool:
        return any(start <= address and address + count <= start + data.size for start, data in self.pinned.items())

    def aclrtMalloc(self, out: int, size: int, policy: int) -> None:
        device = self.device()
        if not size:
            raise Fault(107000, "aclrtMalloc of 0 bytes")
        size = (size + 31) // 32 * 32 + 32
        if self.used_memory(device) + size > self.memory_limit:
            raise Fault(207001, f"{size} bytes wanted, {self.memory_limit - self.used_memory(device)} free", duty=False)
        address = self.next_address[device]
        self.next_address[device] += (size + 2 * MINUTE_GAP) // MINUTE_GAP * MINUTE_GAP
        self.allocations[device][address] = Allocation(address, size, device)
        self.starts[device].append(address)  # addresses only grow, so the list stays sorted
        _store(out, ctypes.c_uint64, address)

    def aclrtFree(self, address: int | None) -> None:
        for device in range(self.device_count):
            found = self.allocations[device].pop(address or 0, None)
            if found is not None:
                found.data[:] = POISON_FREED
                return
        raise Fault(107000, f"aclrtFree of {address or 0:#x}, which is not allocated")

    def aclrtMallocHost(self, out: int, size: int) -> None:
        if not size:
            raise Fault(107000, "aclrtMallocHost of 0 bytes")
        data = np.full(size, POISON_NEW, np.uint8)
        address = data.__array_interface__["data"][0]
        self.pinned[address] = data
        _store(out, ctypes.c_uint64, address)

    def aclrtFreeHost(self, address: int | None) -> None:
        data = self.pinned.pop(address or 0, None)
        if data is None:
            raise Fault(107000, "aclrtFreeHost of memory that is not page-locked")
        data[:] = POISON_FREED

    def aclrtGetMemInfo(self, attr: int, free: int, total: int) -> None:
        limit = self.memory_limit if attr == 1 else 0
        _store(free, ctypes.c_size_t, max(limit - self.used_memory(self.device()), 0))
        _store(total, ctypes.c_size_t, limit)

    def _copy(self, target: int | None, room: int, source: int | None, count: int, kind: int) -> Callable[[], None]:
        if target is None or source is None or not count:
            raise Fault(107000, "copy of nothing, from NULL or to NULL")
        if count > room:
            raise Fault(107000, f"copy of {count} bytes into {room}")
        sides = self.is_device(source), self.is_device(target)
        if kind != {(False, True): 1, (True, False): 2, (True, True): 3, (False, False): 0}[sides]:
            sources, targets = (("host", "device")[side] for side in sides)
            raise Fault(107000, f"copy of kind {kind} from {sources} to {targets}")

        def bytes_at(address: int, on_device: bool) -> np.ndarray:
            return self.device_bytes(address, count) if on_device else self.host_bytes(address, count)

        bytes_at(target, sides[1]), bytes_at(source, sides[0])
        self.copies[("h2h", "h2d", "d2h", "d2d")[kind]] += 1

        def copy() -> None:
            bytes_at(target, sides[1])[:] = bytes_at(source, sides[0])

        return copy

    def _check_unsafe(self, what: str) -> None:
        """Refuses what waits for the host while work is recorded: everywhere, or in the thread that records."""
        for queue in self.queues.values():
            mode, thread = queue.capture
            if queue.captured is not None and (mode == 0 or mode == 1 and thread == threading.get_ident()):
                raise Fault(107000, f"{what} while work is recorded in mode {mode}", duty=False)

    def aclrtMemcpy(self, target: int | None, room: int, source: int | None, count: int, kind: int) -> None:
        self.device()
        self._check_unsafe("aclrtMemcpy")
        self._copy(target, room, source, count, kind)()

    def aclrtMemcpyAsync(self, target: int | None, room: int, source: int | None, count: int, kind: int,
                         stream: int | None) -> None:  # fmt: skip
        queue = self.queue(stream)
        if kind == 0:
            raise Fault(107000, "asynchronous copy from host to host")
        copy = self._copy(target, room, source, count, kind)
        self.enqueue(queue, copy)
        host = source if kind == 1 else target
        if kind != 3 and not self.is_pinned(host or 0, count):
            if queue.captured is not None:
                raise Fault(107000, "a graph cannot hold a copy that is waited for")
            self._check_unsafe("aclrtMemcpyAsync with memory that is not page-locked")
            queue.run()

    def aclrtMemsetAsync(self, address: int, room: int, value: int, count: int, stream: int | None) -> None:
        if count > room:
            raise Fault(107000, f"memset of {count} bytes in {room}")
        self.enqueue(self.queue(stream), lambda: self.device_bytes(address, count).fill(value))

    # life, devices ---------------------------------------------------------------------------------------------

    def aclInit(self, path: int | None) -> int | None:
        if self.initialised:
            return 100002
        self.initialised = True
        return None

    def aclFinalize(self) -> None:
        if not self.initialised:
            raise Fault(107000, "aclFinalize without aclInit")
        self.initialised, self.finalised = False, True

    def aclGetRecentErrMsg(self) -> int:
        text, self.recent = self.recent, ""
        self.message = ctypes.create_string_buffer(text.encode())
        return ctypes.addressof(self.message) if text else 0

    def aclrtGetSocName(self) -> int:
        return ctypes.addressof(self.soc_name)

    def aclrtGetDeviceCount(self, out: int) -> None:
        _store(out, ctypes.c_uint32, self.device_count)

    def aclrtSetDevice(self, device: int) -> None:
        if not self.initialised:
            raise Fault(107000, "aclrtSetDevice before aclInit")
        if not 0 <= device < self.device_count:
            raise Fault(107001, f"device {device} of {self.device_count}", duty=False)
        self.device_references[device] += 1
        self.threads.device = device

    def aclrtResetDevice(self, device: int) -> None:
        if not self.device_references[device]:
            raise Fault(107000, f"aclrtResetDevice of {device}, which is not set")
        self.device_references[device] -= 1

    def device(self) -> int:
        device = getattr(self.threads, "device", None)
        if device is None or not self.device_references[device]:
            raise Fault(107002, "no device set in this thread")
        return device

    def aclrtGetCurrentContext(self, out: int) -> None:
        _store(out, ctypes.c_uint64, HANDLE_BASE - 64 * (1 + self.device()))

    def aclrtSetCurrentContext(self, context: int | None) -> None:
        device = (HANDLE_BASE - (context or 0)) // 64 - 1
        if not 0 <= device < self.device_count or not self.device_references[device]:
            raise Fault(107002, f"{context or 0:#x} is no context")
        self.threads.device = device

    def aclrtCtxSetSysParamOpt(self, option: int, value: int) -> None:
        self.options[self.device(), option] = value

    def aclrtSynchronizeDevice(self) -> None:
        device = self.device()
        queues = [q for q in (*self.queues.values(), *self.defaults) if q.device == device]
        for queue in queues:
            queue.run()
        for queue in queues:
            self._report(queue)

    def aclrtDeviceCanAccessPeer(self, out: int, device: int, peer: int) -> None:
        _store(out, ctypes.c_int32, int(self.peers))

    def aclrtDeviceEnablePeerAccess(self, peer: int, flags: int) -> None:
        if peer == self.device():
            raise Fault(107000, "a device is no peer of itself")

    # streams and events ----------------------------------------------------------------------------------------

    def queue(self, stream: int | None) -> Queue:
        device = self.device()
        if stream is None:
            return self.defaults[device]
        queue = self.object("stream", stream)
        if queue.device != device:
            raise Fault(107003, f"stream of device {queue.device} used with device {device}")
        return queue

    def enqueue(self, queue: Queue, task: Callable[[], None]) -> None:
        if queue.captured is not None:
            queue.captured.append(task)
            return
        queue.tasks.append(task)
        if not self.deferred:
            queue.run()

    def _report(self, queue: Queue) -> None:
        failure, queue.failure = queue.failure, None
        if failure is not None:
            raise failure

    def aclrtCreateStreamWithConfig(self, out: int, priority: int, flags: int) -> None:
        queue = Queue(self.device())
        handle = self.new_handle("stream", queue)
        self.queues[handle] = queue
        _store(out, ctypes.c_uint64, handle)

    def aclrtDestroyStream(self, stream: int | None) -> None:
        self.queue(stream)
        self.destroy("stream", stream)
        del self.queues[stream or 0]

    def aclmdlRICaptureBegin(self, stream: int | None, mode: int) -> None:
        queue = self.queue(stream)
        if stream is None:
            raise Fault(107031, "the default stream cannot be captured")
        if self.records_nothing:
            raise Fault(207000, "this chip cannot record graphs", duty=False)
        if queue.captured is not None:
            raise Fault(107000, "the stream is being captured already")
        queue.captured, queue.capture = [], (mode, threading.get_ident())

    def aclmdlRICaptureEnd(self, stream: int | None, out: int) -> None:
        queue = self.queue(stream)
        if queue.captured is None:
            raise Fault(107000, "the stream is not being captured")
        tasks, queue.captured = queue.captured, None
        _store(out, ctypes.c_uint64, self.new_handle("graph", tasks))

    def aclmdlRIExecuteAsync(self, graph: int | None, stream: int | None) -> None:
        queue = self.queue(stream)
        for task in self.object("graph", graph):
            self.enqueue(queue, task)

    def aclmdlRIDestroy(self, graph: int | None) -> None:
        own = set(map(id, self.object("graph", graph)))
        if any(id(task) in own for queue in self.queues.values() for task in queue.tasks):
            raise Fault(107000, "a graph was destroyed before what was queued of it had run")
        self.destroy("graph", graph)

    def aclrtSynchronizeStream(self, stream: int | None) -> None:
        queue = self.queue(stream)
        if queue.captured is not None:
            raise Fault(107000, "a stream that is being captured cannot be waited for", duty=False)
        queue.run()
        self._report(queue)

    def aclrtStreamQuery(self, stream: int | None, out: int) -> None:
        _store(out, ctypes.c_int32, int(bool(self.queue(stream).tasks)))

    def aclrtCreateEventExWithFlag(self, out: int, flags: int) -> None:
        _store(out, ctypes.c_uint64, self.new_handle("event", Event(flags)))

    def aclrtDestroyEvent(self, event: int | None) -> None:
        self.destroy("event", event)

    def aclrtRecordEvent(self, event: int | None, stream: int | None) -> None:
        queue = self.queue(stream)
        mark = self.object("event", event).mark = Mark(queue)

        def record() -> None:
            mark.done, mark.time = True, time.perf_counter()

        self.enqueue(queue, record)

    def aclrtStreamWaitEvent(self, stream: int | None, event: int | None) -> None:
        waited = self.object("event", event)
        if not waited.flags & 1:
            raise Fault(107000, "a stream can only wait for an event made with the flag sync")
        mark = waited.mark
        if mark is not None:
            self.enqueue(self.queue(stream), lambda: mark.stream.run(until=mark))

    def aclrtSynchronizeEvent(self, event: int | None) -> None:
        mark = self.object("event", event).mark
        if mark is not None:
            mark.stream.run(until=mark)

    def aclrtQueryEventStatus(self, event: int | None, out: int) -> None:
        mark = self.object("event", event).mark
        _store(out, ctypes.c_int32, int(mark is None or mark.done))

    def aclrtEventElapsedTime(self, out: int, start: int | None, end: int | None) -> None:
        events = self.object("event", start), self.object("event", end)
        if not all(e.flags & 8 and e.mark is not None and e.mark.done for e in events):
            raise Fault(107000, "elapsed time of events that carry no time or have not run")
        _store(out, ctypes.c_float, (events[1].mark.time - events[0].mark.time) * 1000)


def _store(address: int, kind: Any, value: Any) -> None:
    kind.from_address(address).value = value
