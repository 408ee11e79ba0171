"""Fourier transforms by cuFFT, with plans kept by layout; what it does not take goes over CuPy."""

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._ops._declare.rules import Spec
from ...._ops.fft import BY_COUNT, BY_ROOT, PLAIN, transform_order
from ..array import CudaArray, Layout, array_on, empty, layout_of
from ..cublas import loaded
from ..families import copy_array, layout_for
from ..fuse import Traced
from ..launch import Launch, lock
from ..plans import planned
from ..pointwise import launch_of
from ..runtime import CudaError
from ..streams import current

_C2C, _R2C, _C2R, _WIDE = 0x29, 0x2A, 0x2C, 0x40  # cufftType; of doubles, _WIDE more
_FORWARD, _INVERSE = -1, 1
_REAL: dict[np.dtype, np.dtype] = {np.dtype(f"c{2 * n}"): np.dtype(f"f{n}") for n in (4, 8)}
_COMPLEX = {real: kind for kind, real in _REAL.items()}
_MOST = 3  # dimensions of a plan


@functools.cache
def _library() -> ctypes.PyDLL | None:
    from cupy.cuda import cufft  # noqa: F401 - CuPy knows where the library is

    return loaded("libcufft", 12, 11)


class _Transform:
    """cuFFT's plan for rows of transforms that lie one behind the other."""

    def __init__(self, kind: int, sizes: Sequence[int], batch: int, wide: bool, direction: int | None) -> None:
        library, self.handle = _library(), ctypes.c_int()
        assert library is not None
        n = (ctypes.c_int * len(sizes))(*sizes)
        nothing = ctypes.c_void_p()
        code = library.cufftPlanMany(ctypes.byref(self.handle), ctypes.c_int(len(sizes)), n, nothing, ctypes.c_int(1),
                                     ctypes.c_int(0), nothing, ctypes.c_int(1), ctypes.c_int(0),
                                     ctypes.c_int(kind + _WIDE * wide), ctypes.c_int(batch))
        if code:
            raise LookupError
        letters = {_C2C: "Z2Z" if wide else "C2C", _R2C: "D2Z" if wide else "R2C", _C2R: "Z2D" if wide else "C2R"}
        self.execute, self.set_stream = getattr(library, f"cufftExec{letters[kind]}"), library.cufftSetStream
        self.source, self.target = ctypes.c_void_p(), ctypes.c_void_p()
        self.rest = () if direction is None else (ctypes.c_int(direction),)
        self.stream = 0

    def __call__(self, source: int, target: int) -> None:
        with lock:
            if self.stream != current.handle:
                self.stream = current.handle
                self.set_stream(self.handle, ctypes.c_void_p(self.stream))
            self.source.value, self.target.value = source, target
            code = self.execute(self.handle, self.source, self.target, *self.rest)
        if code:
            raise CudaError(f"cuFFT error: status {code} of a transform")


def _in_order(shape: Sequence[int], order: Sequence[int], kind: np.dtype) -> Layout:
    """A dense layout whose dimensions lie in an order, the outermost first."""
    strides, step = [0] * len(shape), kind.itemsize
    for d in reversed(order):
        strides[d] = step
        step *= shape[d]
    return layout_of(tuple(shape), kind, tuple(strides))


def _scaling(made: Layout, normalization: int, count: int) -> Launch | None:
    """The launch that divides elements, real or the parts of complex ones, in their place."""
    if normalization not in (BY_ROOT, BY_COUNT):
        return None
    real = _REAL.get(made.dtype, made.dtype)
    flat = layout_of((made.nbytes // real.itemsize,), real)
    factor = 1 / math.sqrt(count) if normalization == BY_ROOT else 1 / count
    traced, numbers = Traced.of_expression([real], lambda loads, number: loads[0] * number(factor))
    return launch_of(traced, [flat], flat, numbers)


def _prepared(self: CudaArray, made: Layout, dim: Sequence[int], order: Sequence[int], kind: int, sizes: Sequence[int],
              normalization: int, direction: int | None, *, overwrites: bool = False,
              count: int | None = None) -> Callable | None:
    """The transform of arrays of a layout, which are brought to the order in which their results lie.

    It is normalized by `count` elements, those of its own dimensions unless others were transformed before.
    """
    if _library() is None or not 0 < len(dim) <= _MOST or not self.size or not made.size or self.dtype not in (
            *_REAL, *_COMPLEX) or made is not _in_order(made.shape, order, made.dtype):
        return None
    taken = _in_order(self.shape, order, self.dtype)
    own = order[len(order) - len(dim) :]
    by_dim = dict(zip(dim, sizes, strict=True))
    try:
        transform = _Transform(kind, [by_dim[d] for d in own], math.prod(n for d, n in enumerate(self.shape)
                                                                        if d not in dim),
                               made.dtype.itemsize > (8 if made.dtype in _REAL else 4), direction)
    except LookupError:
        return None
    scale = _scaling(made, normalization, count or math.prod(sizes))

    def run(self: CudaArray, *options: Any) -> CudaArray:
        source = self
        if self.layout is not taken or overwrites:
            source = empty(taken, self.device)
            copy_array(source, self)
        result = empty(made, self.device)
        transform(source.pointer, result.pointer)
        if scale is not None:
            scale(result.pointer, result.pointer)
        return result

    return run


@planned
def c2c(spec: Spec, self: CudaArray, dim: tuple[int, ...], normalization: int, forward: bool) -> Callable | None:
    if self.dtype not in _REAL:
        return None
    return _prepared(self, layout_for(spec), dim, transform_order(self.strides, dim), _C2C,
                     [self.shape[d] for d in dim], normalization, _FORWARD if forward else _INVERSE)


@planned
def r2c(spec: Spec, self: CudaArray, dim: tuple[int, ...], normalization: int, onesided: bool) -> Callable | None:
    if self.dtype not in _COMPLEX:
        return None
    if not onesided:
        return _of_real(self, layout_for(spec), dim, normalization)
    return _prepared(self, layout_for(spec), dim, transform_order(self.strides, dim, True), _R2C,
                     [self.shape[d] for d in dim], normalization, None)


def _of_real(self: CudaArray, made: Layout, dim: tuple[int, ...], normalization: int) -> Callable | None:
    """All of the transform of real numbers, which are made complex first."""
    order = transform_order(self.strides, dim, True)
    wide = _in_order(self.shape, order, _COMPLEX[self.dtype])
    first = array_on(wide, None, 0, self.device)
    transform = _prepared(first, made, dim, order, _C2C, [self.shape[d] for d in dim], normalization, _FORWARD)

    def run(self: CudaArray, *options: Any) -> CudaArray:
        source = empty(wide, self.device)
        copy_array(source, self)
        return transform(source)  # type: ignore[misc]

    return transform and run


@planned
def c2r(spec: Spec, self: CudaArray, dim: tuple[int, ...], normalization: int, last_dim_size: int) -> Callable | None:
    *others, last = dim
    if self.dtype not in _REAL or self.shape[last] != last_dim_size // 2 + 1:
        return None
    sizes = [self.shape[d] for d in others]
    middle, first = self, None
    if others:
        order = transform_order(self.strides, tuple(others))
        layout = _in_order(self.shape, order, self.dtype)
        middle = array_on(layout, None, 0, self.device)
        first = _prepared(self, layout, others, order, _C2C, sizes, PLAIN, _INVERSE)
        if first is None:
            return None
    second = _prepared(middle, layout_for(spec), (last,), transform_order(middle.strides, (last,)), _C2R,
                       [last_dim_size], normalization, None, overwrites=not others,
                       count=math.prod([*sizes, last_dim_size]))
    if first is None or second is None:
        return second
    return lambda self, *options: second(first(self))
