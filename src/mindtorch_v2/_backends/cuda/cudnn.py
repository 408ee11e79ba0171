"""Execution plans of cuDNN's graph interface, and convolution by it; without it that is im2col and cuBLAS.

A geometry's plan is made once: the older functions choose an algorithm anew at every call, which costs more than the
launch. Numbers are those of cudnn_graph.h. Attention's graphs are in cudnn_attention.py.
"""

import ctypes
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .cublas import loaded
from .launch import lock
from .memory import allocate, lasting
from .runtime import CudaError, device_of
from .streams import current

_int, _long, _pointer, _size = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p, ctypes.c_size_t
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
_BETWEEN = {"int32": 4, "bool": 11}  # types that arrays between operations have, too
_CROSS_CORRELATION = 1

# kinds of descriptors
_CONVOLUTION, _ENGINE, _CHOICE, _HEURISTIC, _PLAN, _GRAPH, _PACK, _TENSOR = 1, 2, 3, 4, 5, 15, 16, 17
# types of attributes
_HANDLE, _BOOLEAN, _FLOAT, _DOUBLE, _ADDRESS, _MODE, _HEUR_MODE, _NOTE = 0, 2, 4, 5, 6, 7, 8, 11
DATA_TYPE, INT64, DESCRIPTOR = 1, 3, 15
# How cuDNN proposes engines: at once; and, where none of those can be had, those that take anything.
_PROPOSALS = (0, 2)
_TENSOR_CORES, _DOWN_CONVERTED = 0, 1  # what engines note about their numbers
_MOST_PROPOSED = 64  # with tensor cores come first, whether they are allowed or not

_MOST_PACKS = 64  # descriptors of addresses that a plan keeps

# what is computed -> the operation, its first attribute, those of the arrays, and which it reads and which it writes
_KINDS = {"forward": (10, 700, {"w": 703, "x": 704, "y": 705}, "xwy"),
          "input": (12, 706, {"w": 709, "x": 710, "y": 711}, "wyx"),
          "weight": (11, 712, {"w": 715, "x": 716, "y": 717}, "xyw")}


@functools.cache
def library() -> ctypes.PyDLL | None:
    """cuDNN 9; None without it."""
    return loaded("libcudnn", 9)


def version() -> int | None:
    found = library()
    if found is None:
        return None
    found.cudnnGetVersion.restype = _size
    return int(found.cudnnGetVersion())


class _Handles(threading.local):
    """This thread's handles by device, and the stream of each."""

    def __init__(self) -> None:
        self.made: dict[int, list[Any]] = {}


_handles = _Handles()
_NO_HANDLE = [0, -1]


def _do(name: str, *arguments: Any) -> None:
    """Calls a function; LookupError where cuDNN says no."""
    status = getattr(library(), name)(*arguments)
    if status:
        raise LookupError(f"{name} returned {status}")


def _handle(device: int) -> int:
    """This thread's handle, which follows the current stream."""
    known = _handles.made.get(device)
    if known is None:
        made = _pointer()
        _do("cudnnCreate", ctypes.byref(made))
        known = _handles.made[device] = [made.value, -1]
    if known[1] != current.handle:
        _do("cudnnSetStream", _pointer(known[0]), _pointer(current.handle))
        known[1] = current.handle
    return known[0]


@functools.cache
def _nothing(device: int) -> Any:
    """The workspace of a plan that needs none."""
    return lasting(1)


@functools.cache
def _execute() -> Any:
    """The call that queues a plan, which takes addresses."""
    found = library()
    assert found is not None
    found.cudnnBackendExecute.argtypes = [_pointer] * 3
    return found.cudnnBackendExecute


class Descriptor:
    """One of cuDNN's descriptors, finalized when all of its attributes are set; it lives as long as this object."""

    def __init__(self, kind: int, *attributes: tuple[int, int, Any], finalize: bool = True) -> None:
        """Attributes as name, type, and an array of C or descriptors."""
        self.address, self.kept = _pointer(), attributes
        _do("cudnnBackendCreateDescriptor", _int(kind), ctypes.byref(self.address))
        for name, type_, values in attributes:
            if type_ == DESCRIPTOR:
                values = _addresses(values)
            _do("cudnnBackendSetAttribute", self.address, _int(name), _int(type_), _long(len(values)), values)
        if finalize:
            _do("cudnnBackendFinalize", self.address)

    def get(self, name: int, type_: int, values: Any) -> int:
        """How many values an attribute has; fills them in."""
        count = _long(0)
        _do("cudnnBackendGetAttribute", self.address, _int(name), _int(type_), _long(len(values)), ctypes.byref(count),
            values)
        return min(count.value, len(values))

    def __del__(self) -> None:
        found = library()
        if found is not None and self.address:
            found.cudnnBackendDestroyDescriptor(self.address)


def _addresses(descriptors: Sequence[Descriptor]) -> Any:
    return (_pointer * len(descriptors))(*(each.address for each in descriptors))


def longs(values: Sequence[int]) -> Any:
    return (_long * len(values))(*values)


def one(value: int) -> Any:
    return (_int * 1)(value)


def data_type(kind: str) -> Any:
    return one((TYPES | _BETWEEN)[kind])


def tensor(number: int, kind: str, shape: Sequence[int], strides: Sequence[int], alignment: int = 16,
           virtual: bool = False, by_value: bool = False) -> Descriptor:
    """An array of a graph, strides in elements: one in memory, a number, or a virtual one between two operations."""
    flags = [(name, _BOOLEAN, (ctypes.c_bool * 1)(True)) for name, is_so in ((907, virtual), (908, by_value)) if is_so]
    return Descriptor(_TENSOR, (901, DATA_TYPE, data_type(kind)), (902, INT64, longs(shape)),
                      (903, INT64, longs(strides)), (906, INT64, longs([number])), (900, INT64, longs([alignment])),
                      *flags)


def _proposed(graph: Descriptor) -> Iterator[Descriptor]:
    """Engines with their settings, the best first."""
    for mode in _PROPOSALS:
        try:
            heuristic = Descriptor(_HEURISTIC, (201, DESCRIPTOR, [graph]), (200, _HEUR_MODE, one(mode)))
        except LookupError:
            continue
        choices = [Descriptor(_CHOICE, finalize=False) for _ in range(_MOST_PROPOSED)]
        count = heuristic.get(202, DESCRIPTOR, _addresses(choices))
        for choice in choices[:count]:
            choice.kept = ((0, 0, heuristic),)
            yield choice


def _notes(choice: Descriptor) -> set[int]:
    """What an engine says about its numbers."""
    engine, notes = Descriptor(_ENGINE, finalize=False), (_int * 16)()
    choice.get(300, DESCRIPTOR, _addresses([engine]))
    return set(notes[: engine.get(1303, _NOTE, notes)])


class Plan:
    """What runs a graph of operations: the first engine that cuDNN proposes and that can be had."""

    def __init__(self, operations: Sequence[Descriptor], numbers: Sequence[int], device: int,
                 excluded: frozenset[int] = frozenset()) -> None:
        """Arrays are called by addresses in the order of their `numbers`; LookupError if there is no engine.

        Engines that note something about their numbers which is `excluded` are passed over.
        """
        handle = (_pointer * 1)(_handle(device))
        graph = Descriptor(_GRAPH, (801, DESCRIPTOR, operations), (800, _HANDLE, handle))
        self.plan = self._first_plan(graph, handle, excluded)
        space = longs([0])
        self.plan.get(402, INT64, space)
        self.space, self.nothing = space[0], _nothing(device)
        self.device, self.where, self.numbers = device, device_of(device), longs(numbers)
        self.packs: dict[tuple[int, ...], int] = {}
        found = library()
        assert found is not None
        self.create, self.set = found.cudnnBackendCreateDescriptor, found.cudnnBackendSetAttribute
        self.finalize, self.destroy = found.cudnnBackendFinalize, found.cudnnBackendDestroyDescriptor
        self.execute, self.place = _execute(), self.plan.address.value

    @staticmethod
    def _first_plan(graph: Descriptor, handle: Any, excluded: frozenset[int]) -> Descriptor:
        for choice in _proposed(graph):
            try:
                if not (excluded and excluded & _notes(choice)):
                    return Descriptor(_PLAN, (400, _HANDLE, handle), (401, DESCRIPTOR, [choice]))
            except LookupError:
                continue
        raise LookupError

    def __call__(self, *addresses: int) -> None:
        """Queues it."""
        space = allocate(self.space, self.where) if self.space else self.nothing
        key = *addresses, space.ptr
        handle, stream = _handles.made.get(self.device, _NO_HANDLE)
        if stream != current.handle:
            handle = _handle(self.device)
        with lock:
            status = self.execute(handle, self.place, self.packs.get(key) or self._packed(key))
        if status:
            raise CudaError(f"cuDNN error: status {status} of an execution plan")

    def _packed(self, key: tuple[int, ...]) -> int:
        """The descriptor of addresses. A program that repeats itself finds its memory where it was."""
        if len(self.packs) >= _MOST_PACKS:
            for old in self.packs.values():
                self.destroy(_pointer(old))
            self.packs.clear()
        pack = _pointer()
        *arrays, space = key
        count = len(arrays)
        status = self.create(_int(_PACK), ctypes.byref(pack))
        for setting in ((_int(1000), _int(INT64), _long(count), self.numbers),
                        (_int(1001), _int(_ADDRESS), _long(count), (_pointer * count)(*arrays)),
                        (_int(1003), _int(_ADDRESS), _long(1), (_pointer * 1)(space))):
            status = status or self.set(pack, *setting)
        status = status or self.finalize(pack)
        if status or pack.value is None:
            raise CudaError(f"cuDNN error: status {status} of the addresses of an execution plan")
        self.packs[key] = pack.value
        return pack.value


class Convolution(Plan):
    """One of the three products of a convolution, for one geometry: `forward`, of the `input`, of the `weight`."""

    def __init__(self, what: str, kind: np.dtype, arrays: dict[str, tuple], steps: Sequence[Sequence[int]], device: int,
                 tf32: bool, alignment: int) -> None:
        """`arrays` are shapes and strides in elements of x, w and y; LookupError if cuDNN has no engine."""
        if library() is None:
            raise LookupError
        operation, first, names, order = _KINDS[what]
        wide = kind.itemsize == 8
        stride, padding, dilation = map(longs, steps)
        description = Descriptor(
            _CONVOLUTION, (106, INT64, longs([len(stride)])),
            (100, DATA_TYPE, data_type("float64" if wide else "float32")),
            (101, _MODE, one(_CROSS_CORRELATION)), (105, INT64, padding), (104, INT64, padding),
            (102, INT64, dilation), (103, INT64, stride))
        factors = [((ctypes.c_double if wide else ctypes.c_float) * 1)(n) for n in (1, 0)]
        factor = _DOUBLE if wide else _FLOAT
        tensors = [(names[key], DESCRIPTOR, [tensor(i + 1, kind.name, arrays[key][0], arrays[key][1], alignment)])
                   for i, key in enumerate(order)]
        product = Descriptor(operation, (first, factor, factors[0]), (first + 1, factor, factors[1]),
                             (first + 2, DESCRIPTOR, [description]), *tensors)
        excluded = {_DOWN_CONVERTED} | ({_TENSOR_CORES} if kind.name == "float32" and not tf32 else set())
        super().__init__([product], (1, 2, 3), device, frozenset(excluded))
