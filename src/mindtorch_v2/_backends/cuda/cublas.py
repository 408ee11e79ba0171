"""Products of matrices by cuBLAS: operands are taken as they lie, transposed or not, and copied only if they must.

The library is called past CuPy's front, which costs more than the call: through CuPy's binding on the default stream,
by ctypes with prepared arguments on others, each of which has a workspace of its own, as the capture of graphs needs.
"""

import ctypes
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy_backends.cuda.libs import cublas

from .launch import lock
from .memory import lasting
from .runtime import CudaError, device_count
from .streams import current

# element type -> cudaDataType_t, cublasComputeType_t, and the type of the factors alpha and beta
_SINGLE, _DOUBLE, _TF32 = 68, 70, 77
_TYPES = {"float32": (0, _SINGLE, "f"), "float64": (1, _DOUBLE, "d"), "float16": (2, _SINGLE, "f"),
          "bfloat16": (14, _SINGLE, "f"), "complex64": (4, _SINGLE, "F"), "complex128": (5, _DOUBLE, "D")}
_PLAIN, _TRANSPOSED, _DEFAULT = 0, 1, -1
_WORKSPACE = 32 << 20
_SEVERAL = device_count() > 1
_int, _long, _pointer = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p


def opened(name: str) -> ctypes.PyDLL | None:
    try:
        return ctypes.PyDLL(name)  # the GIL is kept: giving it up costs more than most calls
    except OSError:
        return None


def loaded(stem: str, *versions: int) -> ctypes.PyDLL | None:
    """A library that this process has loaded already, or that the loader finds by its name; None without one."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    paths = sorted({line.split()[-1] for line in lines if f"/{stem}.so" in line})
    names = (*paths, *(f"{stem}.so.{version}" for version in versions))
    return next((library for name in names if (library := opened(name)) is not None), None)


def _required() -> ctypes.PyDLL:
    library = loaded("libcublas", 13, 12)
    if library is None:
        cupy.cuda.device.get_cublas_handle()  # CuPy knows more places, and leaves the library loaded
        library = loaded("libcublas")
    if library is None:
        raise CudaError("cuBLAS was not found: products of matrices need libcublas")
    return library


_blas = _required()
_light = opened(_blas._name.replace("libcublas.", "libcublasLt."))  # of the same version: it shares handles
_gemm, _gemm_batched = _blas.cublasGemmEx, _blas.cublasGemmStridedBatchedEx


def _check(code: int, what: str) -> None:
    if code:
        raise CudaError(f"CUDA error: cuBLAS returned status {code} when calling `{what}`")


class _Bound(threading.local):
    """This thread's handle on the current device, and the stream that it is set to; workspaces by device and stream."""

    def __init__(self) -> None:
        self.handle, self.device, self.stream = _pointer(0), -1, -1
        self.space = 0
        self.light_handle = 0
        self.handles: dict[int, ctypes.c_void_p] = {}
        self.spaces: dict[tuple[int, int], Any] = {}


_bound = _Bound()


def handle() -> ctypes.c_void_p:
    """cuBLAS's handle of this thread, set to the current stream of the current device."""
    if _SEVERAL or _bound.stream != current.handle:
        _follow()
    return _bound.handle


def _follow() -> None:
    device, stream = cupy.cuda.runtime.getDevice(), current.handle
    if (device, stream) == (_bound.device, _bound.stream):
        return
    made = _bound.handles.get(device)
    if made is None:
        made = _bound.handles[device] = _pointer()
        _check(_blas.cublasCreate_v2(ctypes.byref(made)), "cublasCreate(handle)")
    space = _bound.spaces.get((device, stream))
    if space is None:
        space = _bound.spaces[device, stream] = lasting(_WORKSPACE)
    _check(_blas.cublasSetStream_v2(made, _pointer(stream)), "cublasSetStream(handle, stream)")
    _check(_blas.cublasSetWorkspace_v2(made, _pointer(space.ptr), ctypes.c_size_t(_WORKSPACE)),
           "cublasSetWorkspace(handle, workspace)")
    _bound.handle, _bound.device, _bound.stream, _bound.space = made, device, stream, space.ptr


def _light_handle() -> int:
    """This thread's handle for calls through CuPy's binding, which sets its stream."""
    _bound.light_handle = cublas.create()
    return _bound.light_handle


def is_supported(kind: np.dtype) -> bool:
    return kind.name in _TYPES


@functools.lru_cache(256)
def _factor(value: Any, letter: str) -> np.ndarray:
    return np.array(value, letter)


@functools.cache
def _constant(value: int, letter: str) -> np.ndarray:
    """A number whose address products keep: it is never forgotten, as the factors of calls are."""
    return np.array(value, letter)


def lead(rows: int, columns: int, row: int, column: int) -> tuple[int, int] | None:
    """How cuBLAS takes a matrix of these strides in elements: transposed or not, leading dimension; None if not."""
    if (column == 1 or columns == 1) and (row >= columns or rows == 1):
        return _PLAIN, max(row, columns, 1) if rows != 1 else max(columns, 1)
    if (row == 1 or rows == 1) and (column >= rows or columns == 1):
        return _TRANSPOSED, max(column, rows, 1) if columns != 1 else max(rows, 1)
    return None


class Product:
    """out = beta * out + alpha * a @ b, for matrices or batches of one geometry, by their addresses."""

    __slots__ = ("_followed", "a", "alpha", "arguments", "b", "beta", "call", "compute", "geometry", "into", "kind",
                 "mode", "one", "out", "zero")

    def __init__(self, kind: np.dtype, rows: int, inner: int, columns: int, a: tuple[int, int], b: tuple[int, int],
                 batch: tuple[int, int, int] | None = None, step: int = 0) -> None:
        """`a` and `b` as from `lead`; `batch` is how many, and the strides between those of a and of b.

        `step` is the one between rows of one result, where that is not how many columns there are.
        """
        name, compute, letter = _TYPES[kind.name]
        step = step or columns
        self.kind, self.geometry = kind, (rows, inner, columns, a, b, step)
        self.compute = compute, _TF32 if kind.name in ("float32", "complex64") else compute
        self.one, self.zero = (_constant(n, letter).ctypes.data for n in (1, 0))
        self.a, self.b, self.out, self.alpha, self.beta = (_pointer() for _ in range(5))
        self.mode = _int(compute)
        self._followed: dict[int, Followed | None] = {}
        # cuBLAS counts columns first: it sees all matrices transposed, and so computes b' a'.
        front = *map(_int, (b[0], a[0], columns, rows, inner)), self.alpha
        kinds, of_out = _int(name), (_int(step),)
        if batch is None:
            self.call = _gemm
            self.arguments = (*front, self.b, kinds, _int(b[1]), self.a, kinds, _int(a[1]), self.beta, self.out, kinds,
                              *of_out, self.mode, _int(_DEFAULT))
        else:
            self.call = _gemm_batched
            self.arguments = (*front, self.b, kinds, _int(b[1]), _long(batch[2]), self.a, kinds, _int(a[1]),
                              _long(batch[1]), self.beta, self.out, kinds, *of_out, _long(rows * columns),
                              _int(batch[0]), self.mode, _int(_DEFAULT))
        self.into = self.__call__ if _SEVERAL else self._light(name, batch)

    def _light(self, kind: int, batch: tuple[int, int, int] | None) -> Callable[[int, int, int, bool], None]:
        """`into(a, b, out, tf32)`: out = a @ b.

        CuPy's compiled binding costs less than ctypes, but gives the library's own workspace to a stream, which a graph
        that is captured must not share; nothing is captured on the default stream.
        """
        rows, inner, columns, (turn_a, step_a), (turn_b, step_b), step = self.geometry
        one, zero, modes, bound, stream = self.one, self.zero, self.compute, _bound, current

        def product(a: int, b: int, out: int, tf32: bool) -> None:
            if stream.handle:
                self(a, b, out, tf32)
                return
            cublas.gemmEx(bound.light_handle or _light_handle(), turn_b, turn_a, columns, rows, inner, one, b, kind,
                          step_b, a, kind, step_a, zero, out, kind, step, modes[tf32], _DEFAULT)

        if batch is None:
            return product
        count, batch_a, batch_b = batch

        def products(a: int, b: int, out: int, tf32: bool) -> None:
            if stream.handle:
                self(a, b, out, tf32)
                return
            cublas.gemmStridedBatchedEx(bound.light_handle or _light_handle(), turn_b, turn_a, columns, rows, inner,
                                        one, b, kind, step_b, batch_b, a, kind, step_a, batch_a, zero, out, kind,
                                        columns, rows * columns, count, modes[tf32], _DEFAULT)

        return products

    def __call__(self, a: int, b: int, out: int, tf32: bool, alpha: int = 0, beta: int = 0) -> None:
        with lock:
            self.a.value, self.b.value, self.out.value = a, b, out
            self.alpha.value, self.beta.value = alpha or self.one, beta or self.zero
            self.mode.value = self.compute[tf32]
            code = self.call(handle(), *self.arguments)
        if code:
            _check(code, self.call.__name__)

    def followed_by(self, epilogue: int, tf32: bool, adds: bool = False) -> "Followed | None":
        """The product with an epilogue of cuBLASLt, and with an array added before it; None if that cannot be had."""
        key = epilogue << 2 | adds << 1 | tf32
        try:
            return self._followed[key]
        except KeyError:
            made = self._followed[key] = Followed.of(self, epilogue, tf32, adds)
            return made


class _Choice(ctypes.Structure):
    """What cuBLASLt finds for a product: the algorithm and the workspace that it needs."""

    _fields_ = (("algorithm", ctypes.c_ulonglong * 8), ("space", ctypes.c_size_t), ("state", _int),
                ("waves", ctypes.c_float), ("reserved", _int * 4))


_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS_POINTER = 3, 4, 7, 8
_MOST_SPACE, _ALIGNMENTS = 1, (5, 6, 7, 8)
_NOTHING, BIAS = 1, 4  # epilogues; that of a function and a bias has the bits of both
EPILOGUES = {"relu": 2, "gelu_tanh": 32}


class Followed:
    """A product with what follows it by one kernel of cuBLASLt: `function(a @ b + added + row)`.

    Row and array are those that its epilogue and `adds` say, and the algorithm is what the library proposes first.
    """

    def __init__(self, product: Product, epilogue: int, tf32: bool, adds: bool) -> None:
        """LookupError where cuBLASLt has no way."""
        if _light is None or product.kind.kind == "c":
            raise LookupError
        rows, inner, columns, a, b, step = product.geometry
        name, _, letter = _TYPES[product.kind.name]
        self.description, self.layouts = _pointer(), [_pointer() for _ in range(3)]
        scale = {"f": 0, "d": 1}[letter]
        self._do("cublasLtMatmulDescCreate", ctypes.byref(self.description), _int(product.compute[tf32]), _int(scale))
        self._set(_TRANSPOSE_A, _int(b[0]))
        self._set(_TRANSPOSE_B, _int(a[0]))
        self._set(_EPILOGUE, _int(epilogue or _NOTHING))
        shapes = ((inner, columns) if b[0] else (columns, inner), (rows, inner) if a[0] else (inner, rows),
                  (columns, rows))
        for layout, shape, row in zip(self.layouts, shapes, (b[1], a[1], step), strict=True):
            self._do("cublasLtMatrixLayoutCreate", ctypes.byref(layout), _int(name), *map(ctypes.c_ulonglong, shape),
                     _long(row))
        self.choice, found, wishes = _Choice(), _int(0), _pointer()
        self._do("cublasLtMatmulPreferenceCreate", ctypes.byref(wishes))
        self._wish(wishes, _MOST_SPACE, ctypes.c_ulonglong(_WORKSPACE))
        for each in _ALIGNMENTS:
            self._wish(wishes, each, ctypes.c_uint(16))
        left, right, made = self.layouts
        self._do("cublasLtMatmulAlgoGetHeuristic", handle(), self.description, left, right, made, made, wishes, _int(1),
                 ctypes.byref(self.choice), ctypes.byref(found))
        if not found.value or self.choice.state:
            raise LookupError
        self.a, self.b, self.row, self.added, self.out, self.space, self.stream = (_pointer() for _ in range(7))
        self.place = ctypes.byref(self.row), ctypes.c_size_t(8)
        alpha, beta = _pointer(product.one), _pointer(product.one if adds else product.zero)
        self.arguments = (self.description, alpha, self.b, left, self.a, right, beta, self.added, made, self.out, made,
                          ctypes.byref(self.choice), self.space, ctypes.c_size_t(_WORKSPACE), self.stream)

    @classmethod
    def of(cls, product: Product, epilogue: int, tf32: bool, adds: bool) -> "Followed | None":
        try:
            return cls(product, epilogue, tf32, adds)
        except LookupError:
            return None

    def _do(self, name: str, *arguments: Any) -> None:
        if getattr(_light, name)(*arguments):
            raise LookupError(name)

    def _set(self, attribute: int, value: Any) -> None:
        self._do("cublasLtMatmulDescSetAttribute", self.description, _int(attribute), ctypes.byref(value),
                 ctypes.c_size_t(ctypes.sizeof(value)))

    def _wish(self, wishes: Any, attribute: int, value: Any) -> None:
        self._do("cublasLtMatmulPreferenceSetAttribute", wishes, _int(attribute), ctypes.byref(value),
                 ctypes.c_size_t(ctypes.sizeof(value)))

    def __call__(self, a: int, b: int, out: int, row: int = 0, added: int = 0) -> bool:
        """Whether it was queued: not where an array does not begin at a multiple of 16 bytes."""
        if (a | b | out | row | added) & 15:
            return False
        assert _light is not None
        with lock:
            self.a.value, self.b.value, self.out.value, self.added.value = a, b, out, added or out
            if (self.row.value or 0) != row:
                self.row.value = row
                _light.cublasLtMatmulDescSetAttribute(self.description, _int(_BIAS_POINTER), *self.place)
            used = handle()
            self.space.value, self.stream.value = _bound.space, current.handle
            return not _light.cublasLtMatmul(used, *self.arguments)


def factor(value: Any, kind: np.dtype) -> int:
    """The address of a number in the type in which cuBLAS takes factors."""
    return _factor(value, _TYPES[kind.name][2]).ctypes.data
