"""Counts what passes between host and device, and what waits for the device, in two ways that check each other.

`Traffic` wraps the functions of CuPy through which Python code copies and waits; nothing is changed but the count.
`recorded` lets the driver record a function's work instead of running it (stream capture). The driver refuses every
wait for the recorded stream or its device and every use of the default stream, whoever asks, CuPy's own compiled code
included, and the graph that comes out lists each copy with its ends.
"""

import collections
import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cupy
import pytest

import mindtorch_v2 as torch

DEVICE_TO_DEVICE = 3
# name: where among the arguments the kind of the copy stands; None: there is none, the ends are two devices
COPIES = {"memcpy": 3, "memcpyAsync": 3, "memcpy2D": 6, "memcpy2DAsync": 6, "memcpyPeer": None, "memcpyPeerAsync": None}
WAITS = ("streamSynchronize", "deviceSynchronize", "eventSynchronize")
# Methods of CuPy's classes that do both inside compiled code.
READS = ("get", "item", "tolist", "__bool__", "__int__", "__float__", "__complex__", "__index__")


class Traffic:
    """Counts while it is entered."""

    def __init__(self) -> None:
        self.calls: collections.Counter[str] = collections.Counter()
        self.copies = self.waits = 0
        self._inside = False

    def __enter__(self) -> "Traffic":
        self._patches = pytest.MonkeyPatch()
        runtime = cupy.cuda.runtime
        for name, at in COPIES.items():
            self._wrap(runtime, name, lambda args, at=at: (self._between_host_and_device(args, at), 0))
        for name in WAITS:
            self._wrap(runtime, name, lambda args: (0, 1))
        for owner, name in ((cupy.cuda.Stream, "synchronize"), (cupy.cuda.Event, "synchronize")):
            self._wrap(owner, name, lambda args: (0, 1))
        for name in READS:
            self._wrap(cupy.ndarray, name, lambda args: (1, 1))
        self._wrap(cupy.ndarray, "set", lambda args: (1, 0))
        return self

    def __exit__(self, *exc: object) -> None:
        self._patches.undo()

    @staticmethod
    def _between_host_and_device(args: tuple, at: int | None) -> int:
        return int(at is not None and args[at] != DEVICE_TO_DEVICE)

    def _wrap(self, owner: Any, name: str, cost: Callable[[tuple], tuple[int, int]]) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return

        @functools.wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            if not self._inside:  # what one counted call does through another is one
                copies, waits = cost(args)
                self.copies += copies
                self.waits += waits
                if copies or waits:
                    self.calls[name] += 1
            before, self._inside = self._inside, True
            try:
                return original(*args, **kwargs)
            finally:
                self._inside = before

        self._patches.setattr(owner, name, counted)

    def __repr__(self) -> str:
        return f"{self.copies} copies, {self.waits} waits: {dict(self.calls)}"


# what the driver recorded --------------------------------------------------------------------------------------------

KERNEL, MEMCPY, HOST_FUNCTION = 0, 1, 3  # CUgraphNodeType
_RELAXED = 2  # allocating is allowed: the pool may still grow
_HOST, _DEVICE, _MEMORY_TYPE_OF_POINTER = 1, 2, 2


class _End(ctypes.Structure):
    _fields_ = (("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("z", ctypes.c_size_t), ("lod", ctypes.c_size_t),
                ("type", ctypes.c_uint), ("host", ctypes.c_void_p), ("device", ctypes.c_void_p),
                ("array", ctypes.c_void_p), ("reserved", ctypes.c_void_p), ("pitch", ctypes.c_size_t),
                ("height", ctypes.c_size_t))


class _Copy3D(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = (("source", _End), ("target", _End), ("width", ctypes.c_size_t), ("height", ctypes.c_size_t),
                ("depth", ctypes.c_size_t))


class Refused(AssertionError):
    """The driver would not record: something waited, or copied in a way that waits."""


def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _done(code: int, what: str) -> None:
    if code:
        raise Refused(f"{what}: CUDA error {code}")


@contextmanager
def blocking_stream() -> Iterator[Any]:
    """A side stream that the default stream waits for: while it records, any use of the default stream is refused."""
    made = cupy.cuda.Stream(non_blocking=False)
    with torch.cuda.stream(torch.cuda.ExternalStream(made.ptr)):
        yield made


def recorded(stream: Any, work: Callable[[], Any]) -> collections.Counter[str]:
    """Kinds of work that a function queues on the current stream, which is `stream`; the work is not done.

    Refused, with what CUDA said, where it waits for the device.
    """
    driver = _driver()
    handle = ctypes.c_void_p(stream.ptr)
    _done(driver.cuStreamBeginCapture_v2(handle, _RELAXED), "cuStreamBeginCapture")
    graph = ctypes.c_void_p()
    failure: BaseException | None = None
    try:
        work()
    except (RuntimeError, MemoryError) as error:  # CUDA's errors; what else goes wrong is not about recording
        failure = error
    finally:
        code = driver.cuStreamEndCapture(handle, ctypes.byref(graph))
    if failure is not None:
        raise Refused(f"{type(failure).__name__}: {failure}") from failure
    _done(code, "cuStreamEndCapture")
    try:
        return collections.Counter(_kind(driver, node) for node in _nodes(driver, graph))
    finally:
        driver.cuGraphDestroy(graph)


def _nodes(driver: Any, graph: ctypes.c_void_p) -> list[ctypes.c_void_p]:
    count = ctypes.c_size_t()
    _done(driver.cuGraphGetNodes(graph, None, ctypes.byref(count)), "cuGraphGetNodes")
    nodes = (ctypes.c_void_p * count.value)()
    _done(driver.cuGraphGetNodes(graph, nodes, ctypes.byref(count)), "cuGraphGetNodes")
    return [ctypes.c_void_p(node) for node in nodes]


def _kind(driver: Any, node: ctypes.c_void_p) -> str:
    kind = ctypes.c_int()
    _done(driver.cuGraphNodeGetType(node, ctypes.byref(kind)), "cuGraphNodeGetType")
    if kind.value == MEMCPY:
        copy = _Copy3D()
        _done(driver.cuGraphMemcpyNodeGetParams(node, ctypes.byref(copy)), "cuGraphMemcpyNodeGetParams")
        ends = [_is_host(driver, end) for end in (copy.source, copy.target)]
        return "copy between host and device" if any(ends) else "copy on the device"
    return {KERNEL: "kernel", HOST_FUNCTION: "call of the host"}.get(kind.value, "other")


def _is_host(driver: Any, end: _End) -> bool:
    if end.type in (_HOST, _DEVICE):
        return end.type == _HOST
    kind = ctypes.c_uint()
    at = ctypes.c_ulonglong(end.device or end.host or 0)
    unknown = driver.cuPointerGetAttribute(ctypes.byref(kind), _MEMORY_TYPE_OF_POINTER, at)  # memory CUDA did not make
    return bool(unknown) or kind.value != _DEVICE
