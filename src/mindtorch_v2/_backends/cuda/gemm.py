"""Products of matrices by cuBLAS: operands are taken as they lie, transposed or not, and copied only if they must."""

import functools
from typing import Any

import cupy
import numpy as np
from cupy_backends.cuda.libs import cublas

from .streams import current

# element type -> cudaDataType_t, cublasComputeType_t, and the type of the factors alpha and beta
_SINGLE, _DOUBLE, _TF32 = 68, 70, 77
_TYPES = {"float32": (0, _SINGLE, "f"), "float64": (1, _DOUBLE, "d"), "float16": (2, _SINGLE, "f"),
          "bfloat16": (14, _SINGLE, "f"), "complex64": (4, _SINGLE, "F"), "complex128": (5, _DOUBLE, "D")}
_PLAIN, _TRANSPOSED, _DEFAULT = 0, 1, -1
_gemm, _gemm_batched = cublas.gemmEx, cublas.gemmStridedBatchedEx


def is_supported(kind: np.dtype) -> bool:
    return kind.name in _TYPES


def handle() -> int:
    """cuBLAS's handle of this thread, on the current device."""
    made = current.blas
    if made is None:
        made = cupy.cuda.device.get_cublas_handle()
        if cupy.cuda.runtime.getDeviceCount() == 1:
            current.blas = made
    return made


@functools.lru_cache(256)
def _factor(value: Any, letter: str) -> np.ndarray:
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

    __slots__ = ("back", "batched", "compute", "front", "middle", "one", "single", "zero")

    def __init__(self, kind: np.dtype, rows: int, inner: int, columns: int, a: tuple[int, int], b: tuple[int, int],
                 batch: tuple[int, int, int] | None = None) -> None:
        """`a` and `b` as from `lead`; `batch` is how many, and the strides between those of a and of b."""
        name, self.compute, letter = _TYPES[kind.name]
        self.single = kind.name in ("float32", "complex64")
        self.one, self.zero = (_factor(n, letter).ctypes.data for n in (1, 0))
        # cuBLAS counts columns first: it sees all matrices transposed, and so computes b' a'.
        self.front = b[0], a[0], columns, rows, inner
        self.middle, self.back, self.batched = (name, b[1]), (name, a[1]), None
        self.batched = (batch[0], batch[1], batch[2], rows * columns) if batch is not None else None

    def __call__(self, a: int, b: int, out: int, columns: int, tf32: bool, alpha: int = 0, beta: int = 0) -> None:
        compute = _TF32 if tf32 and self.single else self.compute
        alpha, beta = alpha or self.one, beta or self.zero
        name = self.middle[0]
        if self.batched is None:
            _gemm(handle(), *self.front, alpha, b, *self.middle, a, *self.back, beta, out, name, columns, compute,
                  _DEFAULT)
        else:
            count, of_a, of_b, of_out = self.batched
            _gemm_batched(handle(), *self.front, alpha, b, *self.middle, of_b, a, *self.back, of_a, beta, out, name,
                          columns, of_out, count, compute, _DEFAULT)


def factor(value: Any, kind: np.dtype) -> int:
    """The address of a number in the type in which cuBLAS takes factors."""
    return _factor(value, _TYPES[kind.name][2]).ctypes.data
