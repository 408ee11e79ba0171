"""Functions of OpenBLAS that NumPy has no name for: they run on its threads, where NumPy would compute on one.

What those threads have multiplied lies in the caches of their cores, from where one core fetches it slowly.
"""

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.threads import blas

__all__ = ["alone", "plus_row"]

_LARGE = 1 << 15  # elements from which on OpenBLAS adds on several threads
_BY_ROWS = 101  # CBLAS's number for matrices that lie row by row


@functools.cache
def _outer_product(kind: np.dtype) -> Callable[..., None]:
    """What adds the outer product of two vectors to a matrix, without holding the interpreter."""
    found = blas()
    assert found is not None
    number, size = {"f": ctypes.c_float, "d": ctypes.c_double}[kind.char], getattr(ctypes, f"c_int{found.integers}")
    call = ctypes.CFUNCTYPE(None, ctypes.c_int, size, size, number, *(ctypes.c_void_p, size) * 3)
    return call(found.addresses["sger" if kind.char == "f" else "dger"])


def plus_row(matrix: np.ndarray, row: np.ndarray) -> np.ndarray:
    """`matrix += row`, of a matrix that lies row by row."""
    rows, columns = matrix.shape
    kind = matrix.dtype
    if matrix.size < _LARGE or kind.char not in "fd" or row.dtype is not kind or not row.flags.c_contiguous:
        matrix += row
        return matrix
    ones = np.ones(rows, kind)
    _outer_product(kind)(_BY_ROWS, rows, columns, 1, ones.ctypes.data, 1, row.ctypes.data, 1, matrix.ctypes.data,
                         columns)
    return matrix


# how many threads ----------------------------------------------------------------------------------------------------


@functools.cache
def _blas_threads() -> tuple[Any, Any]:
    """What tells and what sets OpenBLAS's number of threads."""
    found = blas()
    assert found is not None
    return (ctypes.PYFUNCTYPE(ctypes.c_int)(found.addresses["get"]),
            ctypes.PYFUNCTYPE(None, ctypes.c_int)(found.addresses["set"]))


class _Alone:
    """A context in which OpenBLAS uses the thread that calls it; several Python threads may be in it at once."""

    def __init__(self) -> None:
        self.lock, self.inside, self.before = threading.Lock(), 0, 1

    def __enter__(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside == 1:
                tell, change = _blas_threads()
                self.before = tell()
                change(1)

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                _blas_threads()[1](self.before)


alone = _Alone()
