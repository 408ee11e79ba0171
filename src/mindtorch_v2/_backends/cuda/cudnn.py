"""Convolution by cuDNN, through its C interface; without the library it is im2col and cuBLAS (convolution.py)."""

import ctypes
import functools
import threading
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from .array import empty, layout_of
from .cublas import loaded
from .launch import lock
from .runtime import CudaError, device_of
from .streams import current

_int, _pointer, _size = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
_CROSS_CORRELATION, _DEFAULT_MATH, _TENSOR_MATH, _PLAIN_MATH, _LAST = 1, 0, 1, 3, 1
# what is computed -> the function, the one that names algorithms, and which of x, w, y it reads and writes
_KINDS = {"forward": ("Forward", "Forward", "x", "w", "y"),
          "input": ("BackwardData", "BackwardData", "w", "y", "x"),
          "weight": ("BackwardFilter", "BackwardFilter", "x", "y", "w")}


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


def _do(name: str, *arguments: Any) -> None:
    """Calls a function; LookupError where cuDNN says no."""
    status = getattr(library(), name)(*arguments)
    if status:
        raise LookupError(f"{name} returned {status}")


def _handle() -> ctypes.c_void_p:
    device = cupy.cuda.runtime.getDevice()
    known = _handles.made.get(device)
    if known is None:
        known = _handles.made[device] = [_pointer(), -1]
        _do("cudnnCreate", ctypes.byref(known[0]))
    if known[1] != current.handle:
        _do("cudnnSetStream", known[0], _pointer(current.handle))
        known[1] = current.handle
    return known[0]


class _Performance(ctypes.Structure):
    """An algorithm that cuDNN proposes."""

    _fields_ = (("algorithm", _int), ("status", _int), ("time", ctypes.c_float), ("memory", _size),
                ("determinism", _int), ("math", _int), ("reserved", _int * 3))


def _ints(values: Sequence[int]) -> Any:
    return (_int * len(values))(*values)


def _made(kind: str) -> Any:
    descriptor = _pointer()
    _do(f"cudnnCreate{kind}Descriptor", ctypes.byref(descriptor))
    return descriptor


class Convolution:
    """One of the three products of a convolution, for one geometry: `forward`, of the `input`, of the `weight`."""

    def __init__(self, what: str, kind: np.dtype, x: tuple, w: tuple, y: tuple, steps: Sequence[Sequence[int]],
                 groups: int, channels_last: bool, tf32: bool) -> None:
        """x and y are shape and strides in elements, w a shape; LookupError if cuDNN has no algorithm."""
        if library() is None:
            raise LookupError
        name = TYPES[kind.name]
        self.tensors = {"x": _made("Tensor"), "w": _made("Filter"), "y": _made("Tensor")}
        for key, (shape, strides) in (("x", x), ("y", y)):
            _do("cudnnSetTensorNdDescriptor", self.tensors[key], _int(name), _int(len(shape)), _ints(shape),
                _ints(strides))
        _do("cudnnSetFilterNdDescriptor", self.tensors["w"], _int(name), _int(_LAST * channels_last), _int(len(w)),
            _ints(w))
        self.description = _made("Convolution")
        stride, padding, dilation = steps
        _do("cudnnSetConvolutionNdDescriptor", self.description, _int(len(stride)), _ints(padding), _ints(stride),
            _ints(dilation), _int(_CROSS_CORRELATION), _int(TYPES["float64" if kind.itemsize == 8 else "float32"]))
        _do("cudnnSetConvolutionGroupCount", self.description, _int(groups))
        math = _TENSOR_MATH if kind.itemsize == 2 else _DEFAULT_MATH if tf32 or kind.itemsize == 8 else _PLAIN_MATH
        _do("cudnnSetConvolutionMathType", self.description, _int(math))
        function, search, *order = _KINDS[what]
        first, second, made = (self.tensors[key] for key in order)
        found, proposals = _int(0), (_Performance * 8)()
        _do(f"cudnnGetConvolution{search}Algorithm_v7", _handle(), first, second, self.description, made, _int(8),
            ctypes.byref(found), proposals)
        chosen = next((p for p in proposals[: found.value] if not p.status), None)
        if chosen is None:
            raise LookupError
        self.function = getattr(library(), f"cudnnConvolution{function}")
        self.space = layout_of((chosen.memory,), np.dtype(np.uint8))
        letter = "d" if kind.itemsize == 8 else "f"
        self.factors = [np.array(n, letter) for n in (0, 1)]
        self.a, self.b, self.out, self.workspace, self.beta = (_pointer() for _ in range(5))
        self.arguments = (_pointer(self.factors[1].ctypes.data), first, self.a, second, self.b, self.description,
                          _int(chosen.algorithm), self.workspace, _size(chosen.memory), self.beta, made, self.out)

    def __call__(self, a: int, b: int, out: int, device: int, adds: bool = False) -> None:
        """Queues it; with `adds` to what is in the result."""
        space = empty(self.space, device_of(device))
        with lock:
            self.a.value, self.b.value, self.out.value, self.workspace.value = a, b, out, space.pointer
            self.beta.value = self.factors[adds].ctypes.data
            status = self.function(_handle(), *self.arguments)
        if status:
            raise CudaError(f"cuDNN error: status {status} of a convolution")
