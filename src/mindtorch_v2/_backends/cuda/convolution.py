"""Convolution as products of matrices, over CuPy: the input is unfolded into columns, some samples at a time.

The interface is that of _backends/cpu/convolution.py: shapes are input (N, C, *spatial), weight (O, C / groups,
*kernel), result (N, O, *size), and results are written into `made`.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import cupy
from cupy.lib.stride_tricks import as_strided

from ..._core.geometry import Steps
from ..cpu.convolution import TAKES_BFLOAT16, check_reach, inside

__all__ = ["TAKES_BFLOAT16", "add_windows", "forward", "inside", "padded", "to_input", "to_weight", "windows"]

_COLUMNS = 1 << 28  # elements unfolded at a time
_ALL = slice(None)


def windows(array: Any, kernel: Sequence[int], size: Sequence[int], steps: Steps) -> Any:
    """A view (*leading, *kernel, *size) of an array: the elements that each tap sees."""
    rank = len(kernel)
    lead, own = array.strides[:-rank], array.strides[-rank:]
    strides = (*lead, *map(int.__mul__, own, steps.dilation), *map(int.__mul__, own, steps.stride))
    check_reach(array.shape[-rank:], kernel, size, steps)
    return as_strided(array, (*array.shape[:-rank], *kernel, *size), strides)


def padded(array: Any, padding: Sequence[int]) -> Any:
    """A contiguous array with zeros around the last dimensions; not a copy if it is one already."""
    if not any(padding):
        return cupy.ascontiguousarray(array)
    rank = len(padding)
    made = cupy.zeros((*array.shape[:-rank], *(n + 2 * p for n, p in zip(array.shape[-rank:], padding, strict=True))),
                      array.dtype)
    inside(made, padding)[...] = array
    return made


def add_windows(target: Any, columns: Any, rank: int) -> None:
    """Adds (..., *kernel, ...) to a view of that shape, of which different taps share memory."""
    for tap in itertools.product(*map(range, columns.shape[1 : 1 + rank])):
        part = target[(_ALL, *tap)]
        part += columns[(_ALL, *tap)]


def _parts(batch: int, width: int) -> Iterator[slice]:
    step = max(1, _COLUMNS // max(width, 1))
    return (slice(n, n + step) for n in range(0, batch, step))


def _unfolded(x: Any, kernel: Sequence[int], size: Sequence[int], steps: Steps) -> Any:
    """(samples, groups, channels of a group times taps, positions), contiguous."""
    columns = windows(padded(x, steps.padding), kernel, size, steps)
    return cupy.ascontiguousarray(columns).reshape(len(x), steps.groups, -1, math.prod(size))


def forward(x: Any, weight: Any, bias: Any, made: Any, steps: Steps) -> Any:
    """Each window of the input times the weight."""
    if not made.size:
        return made
    made[...] = 0 if bias is None else bias.reshape(-1, *(1,) * (made.ndim - 2))
    if x.size and weight.size:
        kernel, size, groups = weight.shape[2:], made.shape[2:], steps.groups
        matrix = cupy.ascontiguousarray(weight).reshape(1, groups, len(weight) // groups, -1)
        for part in _parts(len(x), x[0].size * math.prod(kernel)):
            product = cupy.matmul(matrix, _unfolded(x[part], kernel, size, steps))
            made[part] += product.reshape(made[part].shape)
    return made


def to_input(grad: Any, weight: Any, bias: Any, made: Any, steps: Steps) -> Any:
    """The transposed map: each element of `grad` times the weight, added up where windows overlap."""
    kernel, size, groups, rank = weight.shape[2:], grad.shape[2:], steps.groups, grad.ndim - 2
    shape = (*made.shape[:2], *(n + 2 * p for n, p in zip(made.shape[2:], steps.padding, strict=True)))
    buffer = cupy.zeros(shape, grad.dtype)
    if bias is not None and buffer.size:
        buffer += bias.reshape(-1, *(1,) * rank)
    if grad.size and buffer.size and weight.size:
        matrix = cupy.ascontiguousarray(weight).reshape(1, groups, len(weight) // groups, -1).swapaxes(2, 3)
        rows = cupy.ascontiguousarray(grad).reshape(len(grad), groups, len(weight) // groups, -1)
        for part in _parts(len(grad), made[0].size * math.prod(kernel)):
            product = cupy.matmul(matrix, rows[part])
            flat = buffer[part].reshape(-1, *shape[2:])
            add_windows(windows(flat, kernel, size, steps), product.reshape(len(flat), *kernel, *size), rank)
    if made.size:
        made[...] = inside(buffer, steps.padding)
    return made


def to_weight(grad: Any, x: Any, made: Any, steps: Steps) -> Any:
    """The gradient of the weight: each element of `grad` times its window of the input, added up."""
    if not made.size:
        return made
    made[...] = 0
    if grad.size and x.size:
        kernel, size, groups = made.shape[2:], grad.shape[2:], steps.groups
        rows = cupy.ascontiguousarray(grad).reshape(len(grad), groups, len(made) // groups, -1)
        for part in _parts(len(x), x[0].size * math.prod(kernel)):
            product = cupy.matmul(rows[part], _unfolded(x[part], kernel, size, steps).swapaxes(2, 3)).sum(0)
            made += product.reshape(made.shape)
    return made
