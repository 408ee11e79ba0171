"""Shapes and strides, whatever the memory."""

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Geometry:
    """The attributes of an ndarray that the tensor layer reads, without memory. Strides are in bytes."""

    __slots__ = ("dtype", "shape", "strides")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None = None) -> None:
        self.shape, self.dtype = shape, dtype
        self.strides = contiguous_strides(shape, dtype.itemsize) if strides is None else strides

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def to_host(self) -> np.ndarray:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")


def contiguous_strides(shape: tuple[int, ...], step: int = 1) -> tuple[int, ...]:
    """Row-major strides; a dimension of size 0 counts as 1, as in PyTorch."""
    strides = []
    for size in reversed(shape):
        strides.append(step)
        step *= size or 1
    return tuple(reversed(strides))


def strides_by_tokens(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of (samples, heads, tokens, width) that lies as (samples, tokens, heads, width)."""
    samples, tokens, heads, width = contiguous_strides((shape[0], shape[2], shape[1], shape[3]))
    return samples, heads, tokens, width


def channels_last_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Element strides of a 4- or 5-dimensional tensor whose channels are innermost."""
    strides, step = [0] * len(shape), 1
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[d] = step
        step *= shape[d]
    return tuple(strides)


def is_dense(array: Any) -> bool:
    """Whether the elements fill a stretch of memory, each once, in whatever order of dimensions."""
    step = array.itemsize
    for stride, n in sorted([(s, n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1]):
        if stride != step:
            return False
        step *= n
    return True


def collapsed(order: Iterable[int], shape: Sequence[int],
              strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Sizes of as few dimensions as can be, and each array's strides over them; `order` begins with the innermost."""
    sizes: list[int] = []
    kept: list[list[int]] = [[] for _ in strides]
    for d in order:
        if shape[d] == 1:
            continue
        if sizes and all(own[d] == steps[-1] * sizes[-1] for own, steps in zip(strides, kept, strict=True)):
            sizes[-1] *= shape[d]
            continue
        sizes.append(shape[d])
        for own, steps in zip(strides, kept, strict=True):
            steps.append(own[d])
    return sizes or [1], kept if sizes else [[0] for _ in strides]


@functools.lru_cache(4096)
def packed_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    """Sizes of a row-major array, and the order of its dimensions in which it has these strides; None if it has not.

    Then the order that leads back.
    """
    # Of dimensions with the same stride, those of size 1 lie inside the others.
    order = tuple(sorted(range(len(shape)), key=lambda d: (-strides[d], shape[d] == 1, d)))
    sizes, axes = tuple([shape[d] for d in order]), tuple([order.index(d) for d in range(len(shape))])
    made = contiguous_strides(sizes)
    return (sizes, axes, order) if 0 not in shape and tuple([made[d] for d in axes]) == strides else None


NO_BYTES = np.empty(0, np.uint8)  # the memory of arrays without elements that have strides


def strided_array(shape: tuple[int, ...], kind: np.dtype, strides: tuple[int, ...]) -> np.ndarray:
    """An uninitialised array of the host with any strides, counted in elements."""
    packed = packed_order(shape, strides)
    if packed is not None:
        return np.empty(packed[0], kind).transpose(packed[1])
    steps = [s * kind.itemsize for s in strides]
    if 0 in shape:
        return np.ndarray(shape, kind, NO_BYTES, 0, steps)
    span = kind.itemsize + sum(s * (n - 1) for s, n in zip(steps, shape, strict=True))
    return np.ndarray(shape, kind, np.empty(span, np.uint8), 0, steps)


class Steps(NamedTuple):
    """How the windows of a convolution lie on its input."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1


def element_strides(array: Any) -> tuple[int, ...]:
    """Strides in elements. NumPy gives a fresh empty array zero strides; PyTorch gives it contiguous ones."""
    itemsize = array.itemsize
    if not array.size and not any(array.strides):
        return contiguous_strides(array.shape)
    return tuple([s // itemsize for s in array.strides])


def proper_dim(dim: int, ndim: int) -> int:
    """`dim` counted from the front, of a tensor that must have dimensions."""
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrapped_dim(dim, ndim)


def wrapped_dim(dim: int, ndim: int) -> int:
    """`dim` counted from the front; a 0-dim tensor takes 0 and -1."""
    limit = ndim or 1
    if -limit <= dim < limit:
        return dim + limit if dim < 0 else dim
    raise IndexError(f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})")
