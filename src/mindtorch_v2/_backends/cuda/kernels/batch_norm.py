"""Batch and group norm on a GPU: statistics, scaling and gradients by kernels of their own, in both memory formats."""

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy
import numpy as np

from ...._core.device import device
from ...._core.dtype import OF_ARRAY
from ...._core.tensor import Tensor
from ...._dispatch.registry import registry
from ...._ops._declare.rules import Spec, check_writable
from ...._ops.copy import suggested_strides
from ..array import CudaArray, Layout, empty, layout_of, quick_empty
from ..families import copy_array, fill, layout_for, wrap_cuda
from ..graphs import is_capturing
from ..launch import C_TYPES, Launch, c_type, check, compiled
from ..memory import allocate, lasting
from ..namespace import xp
from ..plans import dense, dense_if_any, planned, pointer_of
from ..streams import current
from .norm_sources import (
    COMMON,
    FOLD_PLANES,
    FOLD_ROWS,
    FOLDED,
    NEEDED,
    PLANES,
    ROWS,
    RUNNING,
    SCALE_PLANES,
    SCALE_ROWS,
    SCALING,
    SETTLE,
    SETTLE_BACK,
)

_THREADS, _BLOCKS, _MOST_PARTS = 256, 4224, 1024
_COUNTER = np.dtype(np.int32)
_FOLDING, _SCALING, _LINE = 528, 396, 128  # blocks that a GPU runs at once; bytes of a row that one of them has


class _Space(ctypes.Structure):
    """What a kernel knows of the geometry: `struct space`."""

    _fields_ = tuple((name, ctypes.c_longlong) for name in ("batch", "channels", "length", "per", "width", "parts",
                                                             "chunk", "across", "stretch"))


class _Geometry(NamedTuple):
    """How an array is gone through: as rows or planes, V elements at a time, and the grid that does so."""

    rows: bool
    kind: np.dtype
    vector: int
    space: _Space
    grid: int
    block: tuple[int, ...]

    @property
    def entries(self) -> int:
        """How many parts are gathered, of all channels."""
        space = self.space
        return (space.batch if self.rows else 1) * space.channels * space.parts

    @property
    def samples(self) -> int:
        space = self.space
        return space.batch if self.rows else space.channels // space.width

    @property
    def concludes(self) -> bool:
        """Whether each channel has a statistic of its own, which the last of its parts can conclude."""
        return self.space.per == self.samples == 1

    @property
    def counters(self) -> int:
        """How many sets of parts are counted: those that are concluded together."""
        return (self.space.across if self.rows else self.space.channels) if self.concludes else 0

    def ahead(self, back: bool) -> int:
        """How many groups a thread asks for at once: as many bytes of one array as of two."""
        return 2 if back and self.rows else 4


def _vector(kind: np.dtype, count: int) -> int:
    made = 16 // kind.itemsize
    while count % made:
        made //= 2
    return made


def _above(number: int) -> int:
    """The next power of two."""
    return 1 << max(number - 1, 0).bit_length()


def _planes(kind: np.dtype, batch: int, channels: int, length: int, per: int = 1, width: int = 0) -> _Geometry:
    """The geometry of an array of C order: what is normalised together lies in `batch` planes of each channel."""
    vector = _vector(kind, length)
    wanted = max(1, min(_MOST_PARTS, -(-_BLOCKS // channels), batch * length // (vector * _THREADS)))
    chunk = -(-batch // min(batch, wanted))
    pieces = -(-batch // chunk)
    stretch = -(-length // max(1, wanted // pieces))
    stretch = min(-(-stretch // vector) * vector, vector << 30)
    across = -(-length // stretch)
    threads = min(_THREADS, -(-chunk * stretch // vector) + 31 & ~31)
    space = _Space(batch, channels, length, per, width or channels, pieces * across, chunk, across, stretch)
    return _Geometry(False, kind, vector, space, channels * space.parts, (threads,))


def _rows(kind: np.dtype, batch: int, channels: int, length: int, per: int = 1, blocks: int = _FOLDING) -> _Geometry:
    """The geometry of `batch` times rows of all channels; each sample of the batch is by itself."""
    vector = _vector(kind, channels)
    groups = _above(channels // vector)
    high = min(_THREADS // min(groups, _LINE // (vector * kind.itemsize)), _above(length))
    wide = min(groups, _THREADS // high)
    across = -(-channels // (wide * vector))
    parts = max(1, min(_MOST_PARTS, -(-blocks // (batch * across)), length // (4 * high)))
    space = _Space(batch, channels, length, per, channels, parts, 0, across, 0)
    return _Geometry(True, kind, vector, space, batch * across * parts, (wide, high))


def _wide(kind: np.dtype) -> str:
    return "double" if kind.itemsize == 8 else "float"


@functools.cache
def _kernel(text: str, name: str, kind: str, wide: str, vector: int, back: bool, running: bool = False,
            concludes: bool = False, ahead: int = 4, **types: str) -> Any:
    named = "".join(f"typedef {each} {letter};\n" for letter, each in types.items())
    root = "sqrt" if wide == "double" else "sqrtf"
    return compiled(f"typedef {kind} T;\ntypedef {wide} A;\n#define SQRT {root}\n#define V {vector}\n"
                    f"#define U {ahead}\n#define BACK {int(back)}\n#define RUNNING {int(running)}\n"
                    f"#define CONCLUDES {int(concludes)}\n{named}{COMMON}{text}", name)


def _folding(geometry: _Geometry, back: bool, concludes: bool, weight: str = "float") -> Launch:
    """The launch that gathers what each part has to say, and `concludes` what all of them do."""
    text = (ROWS + FOLD_ROWS if geometry.rows else PLANES + FOLD_PLANES).replace("FOLDED", FOLDED[back])
    made = _kernel(text, "fold", c_type(geometry.kind), _wide(geometry.kind), geometry.vector, back, False, concludes,
                   geometry.ahead(back), W=weight)
    return Launch(made, "q" * 10 if back else "qqqqqd", (geometry.grid,), geometry.block, [geometry.space])


def _scaling(geometry: _Geometry, back: bool, running: bool = False, **types: str) -> Launch:
    """The launch that makes the result; W, B and M are the types of weight, bias and, if running, the statistics."""
    text = SCALING + (ROWS + SCALE_ROWS if geometry.rows else PLANES + SCALE_PLANES)
    text = text.replace("NEEDED", NEEDED[back])
    made = _kernel(text, "scale", c_type(geometry.kind), _wide(geometry.kind), geometry.vector, back, running, False,
                   geometry.ahead(back), **types)
    return Launch(made, "qqqqqqqd" if back else "qqqqqqd", (geometry.grid,), geometry.block, [geometry.space])


def _settling(geometry: _Geometry, statistics: int) -> Launch:
    """The launch (parts, means, rstds, eps) that makes statistics of what was gathered."""
    made = _kernel(SETTLE, "settle", "float", _wide(geometry.kind), 1, False)
    fixed = [ctypes.c_longlong(n) for n in (statistics, geometry.entries // statistics)]
    return Launch(made, "qqqd", (-(-statistics // 4),), (32, 4), fixed)


def _settling_gradients(geometry: _Geometry, statistics: int, parameters: bool, weight: str) -> Launch:
    """The launch (parts, weight, shared, of_weight, of_bias) for that many statistics and all channels' parameters."""
    made = _kernel(SETTLE_BACK, "settle", "float", _wide(geometry.kind), 1, True, W=weight)
    space = geometry.space
    fixed = [ctypes.c_longlong(n) for n in (statistics, geometry.samples, space.width, space.per, space.parts)]
    jobs = statistics + (space.width if parameters else 0)
    return Launch(made, "q" * 5, (-(-jobs // 4),), (32, 4), fixed)


def _moving(wide: np.dtype, mean: np.dtype | None, variance: np.dtype | None, count: int) -> Launch:
    """The launch (means, variances, mean, rstd, momentum, eps, unbiased) that moves running statistics."""
    types = {letter: "float" if kind is None else c_type(kind) for letter, kind in (("M", mean), ("N", variance))}
    made = _kernel(RUNNING, "move", "float", _wide(wide), 1, False, **types)
    return Launch(made, "qqqqddd", (-(-count // 128),), (128,), [ctypes.c_longlong(count)])


def _laid(array: CudaArray, layout: Layout) -> CudaArray:
    """An array in a layout, at a place that is a multiple of 16 bytes."""
    if not array.pointer & 15 and (array.layout is layout or array.layout.contiguous and layout.contiguous):
        return array
    made = empty(layout, array.device)
    copy_array(made, array)
    return made


def _type(array: CudaArray | None) -> str:
    return "float" if array is None else c_type(array.dtype)


_MOST_COUNTERS = 1 << 16
_counters: dict[tuple[int, int], Any] = {}  # by device and stream; kernels leave them as they find them, zero


def _counters_on(where: device, count: int) -> tuple[int, Any]:
    """The address of so many zeros for kernels of the current stream, and what holds them."""
    if count > _MOST_COUNTERS or is_capturing():  # a graph may run on any stream, beside others
        made = empty(layout_of((count,), _COUNTER), where)
        fill(made, 0)
        return made.pointer, made
    key = where.index or 0, current.handle
    found = _counters.get(key)
    if found is None:
        made = lasting(4 * _MOST_COUNTERS)
        cupy.cuda.runtime.memsetAsync(made.ptr, 0, 4 * _MOST_COUNTERS, current.handle)
        found = _counters.setdefault(key, made)
    return found.ptr, None


class _Norm:
    """How a norm goes through its input: to gather statistics, to scale, and back; how many statistics there are."""

    def __init__(self, array: CudaArray, last: bool, groups: int | None) -> None:
        kind, (batch, channels, *spatial) = array.dtype, array.shape
        length, last = math.prod(spatial), last or math.prod(spatial) == 1
        if last:
            size = (1, channels, batch * length, 1) if groups is None else (batch, channels, length, channels // groups)
            self.gathering = self.returning = _rows(kind, *size)
            self.scaling = _rows(kind, *size, blocks=_SCALING)
        elif groups is None:
            self.gathering = self.returning = self.scaling = _planes(kind, batch, channels, length)
        else:
            per = channels // groups
            self.gathering = _planes(kind, 1, batch * groups, per * length)
            self.returning = self.scaling = _planes(kind, 1, batch * channels, length, per, channels)
        self.count = channels if groups is None else batch * groups
        self.wide = np.dtype(np.float64 if kind.itemsize == 8 else np.float32)
        self.elements = array.size // self.count

    def parts(self, geometry: _Geometry) -> Layout:
        """Memory for what is gathered: at most three numbers each."""
        return layout_of((geometry.entries, 3), self.wide)


def _takes(input: CudaArray) -> bool:
    return bool(input.size) and input.dtype.name in C_TYPES


def _forward(specs: Any, input: CudaArray, groups: int | None, weight: Any, bias: Any) -> Callable | None:
    """`run(input, weight, bias, eps)`, which gives the result, means and inverse deviations."""
    if not _takes(input):
        return None
    norm, layouts = _Norm(input, specs[0].strides is not None, groups), [layout_for(spec) for spec in specs]
    concludes, counters = norm.gathering.concludes, norm.gathering.counters
    gather = _folding(norm.gathering, False, concludes).queue
    settle: Any = None if concludes else _settling(norm.gathering, norm.count).queue
    scale = _scaling(norm.scaling, False, W=_type(weight), B=_type(bias), M=c_type(norm.wide)).queue
    parts_of, (of_result, of_means, of_rstds) = norm.parts(norm.gathering).nbytes, layouts

    def run(input: CudaArray, weight: Any, bias: Any, eps: float) -> Any:
        where, stream = input.device, current.handle
        source = input if input.layout is of_result and not input.pointer & 15 else _laid(input, of_result)
        factors, addends = dense_if_any(weight), dense_if_any(bias)
        made = quick_empty(of_result, where)
        means, rstds = quick_empty(of_means, where), quick_empty(of_rstds, where)
        memory, (counted, _held) = allocate(parts_of, where), _counters_on(where, counters)
        x, parts, mean, rstd = source.pointer, memory.ptr, means.pointer, rstds.pointer
        code = (gather(stream, x, mean, rstd, parts, counted, eps)
                or settle is not None and settle(stream, parts, mean, rstd, eps)
                or scale(stream, x, mean, rstd, pointer_of(factors), pointer_of(addends), made.pointer, 0.0))
        if code:
            check(code)
        return made, means, rstds

    return run


@planned
def batch_norm(specs: Any, input: CudaArray, weight: Any, bias: Any, eps: float) -> Callable | None:
    return _forward(specs, input, None, weight, bias)


@planned
def group_norm(specs: Any, input: CudaArray, weight: Any, bias: Any, groups: int,
               eps: float) -> Callable | None:
    run = _forward(specs, input, groups, weight, bias)
    return run and (lambda input, weight, bias, groups, eps: run(input, weight, bias, eps))


@planned
def by_running_statistics(spec: Spec, input: CudaArray, weight: Any, bias: Any, mean: CudaArray | None, var: CudaArray,
                          eps: float) -> Callable | None:
    if not _takes(input) or mean is not None and mean.dtype != var.dtype:
        return None
    layout = layout_for(spec)
    geometry = _Norm(input, spec.strides is not None, None).scaling
    scale = _scaling(geometry, False, True, W=_type(weight), B=_type(bias), M=_type(var))

    def run(input: CudaArray, weight: Any, bias: Any, mean: CudaArray | None, var: CudaArray, eps: float) -> CudaArray:
        source, made = _laid(input, layout), empty(layout, input.device)
        given = [dense_if_any(each) for each in (mean, var, weight, bias)]
        scale(source.pointer, *map(pointer_of, given), made.pointer, eps)
        return made

    return run


def _backward(specs: Any, grad_out: CudaArray, input: CudaArray, groups: int | None, weight: Any, mean: CudaArray,
              rstd: CudaArray) -> Callable | None:
    """`run(grad_out, input, weight, mean, rstd)`, which gives the gradients of input, weight and bias."""
    if not _takes(input) or grad_out.dtype != input.dtype:
        return None
    layouts = [None if spec is None else layout_for(spec) for spec in specs]
    shape = input.shape
    strides = suggested_strides(wrap_cuda(input), shape)
    taken = layout_for(Spec(shape, OF_ARRAY[input.dtype], strides))
    norm = _Norm(input, strides is not None, groups)
    if mean.dtype != norm.wide or rstd.dtype != norm.wide:
        return None
    of_input, (of_weight, of_bias) = layouts[0], layouts[1:]
    kind = _type(weight) if weight is not None else c_type(input.dtype)
    concludes, counters = norm.returning.concludes, norm.returning.counters
    gather = _folding(norm.returning, True, concludes, kind).queue
    settle: Any = None if concludes else _settling_gradients(
        norm.returning, norm.count if of_input else 0, bool(of_weight or of_bias), kind).queue
    scale: Any = _scaling(norm.scaling, True, W=_type(weight)).queue if of_input else None
    parts_of, shared_of = norm.parts(norm.returning).nbytes, layout_of((norm.count, 2), norm.wide).nbytes
    parts_of = -(-parts_of // 16) * 16  # behind it lies what is shared
    elements = float(norm.elements)

    def run(grad_out: CudaArray, input: CudaArray, weight: Any, mean: CudaArray, rstd: CudaArray) -> Any:
        where, stream = input.device, current.handle
        source = input if input.layout is taken and not input.pointer & 15 else _laid(input, taken)
        grads = grad_out if grad_out.layout is taken and not grad_out.pointer & 15 else _laid(grad_out, taken)
        means, rstds, weights = dense(mean), dense(rstd), dense_if_any(weight)
        first = None if of_input is None else quick_empty(of_input, where)
        second = None if of_weight is None else quick_empty(of_weight, where)
        third = None if of_bias is None else quick_empty(of_bias, where)
        memory, (counted, _held) = allocate(parts_of + shared_of, where), _counters_on(where, counters)
        x, grad, centre, spread, factors = (
            source.pointer, grads.pointer, means.pointer, rstds.pointer, pointer_of(weights))
        parts, of_factors, of_addends = memory.ptr, pointer_of(second), pointer_of(third)
        shared = parts + parts_of
        code = (gather(stream, x, grad, centre, spread, parts, counted, factors, shared, of_factors, of_addends)
                or settle is not None and settle(stream, parts, factors, shared, of_factors, of_addends)
                or first is not None
                and scale(stream, x, grad, centre, spread, factors, shared, first.pointer, elements))
        if code:
            check(code)
        return first, second, third

    return run


@planned
def batch_norm_backward(specs: Any, grad_out: CudaArray, input: CudaArray, weight: Any, mean: CudaArray,
                        rstd: CudaArray, eps: float, output_mask: tuple) -> Callable | None:
    run = _backward(specs, grad_out, input, None, weight, mean, rstd)
    return run and (lambda grad_out, input, weight, mean, rstd, eps, mask: run(grad_out, input, weight, mean, rstd))


@planned
def group_norm_backward(specs: Any, grad_out: CudaArray, input: CudaArray, weight: Any, mean: CudaArray,
                        rstd: CudaArray, groups: int, output_mask: tuple) -> Callable | None:
    run = _backward(specs, grad_out, input, groups, weight, mean, rstd)
    return run and (lambda grad_out, input, weight, mean, rstd, groups, mask: run(grad_out, input, weight, mean, rstd))


_moves: dict[tuple, Any] = {}


def move_statistics(self: Tensor, variance: Tensor, mean: Tensor, rstd: Tensor, momentum: float, eps: float,
                    unbiased: float) -> Tensor:
    check_writable(self)
    a, b, m, r = self._array, variance._array, mean._array, rstd._array
    if not (a.layout.contiguous and b.layout.contiguous and m.dtype == r.dtype):
        registry.get("_move_statistics_").declaration.family.write(xp, a.view, b.view, m.view, r.view, momentum, eps,
                                                                   unbiased)
    elif a.size:
        key = a.layout, b.layout, m.layout
        launch = _moves.get(key)
        if launch is None:
            launch = _moves[key] = _moving(m.dtype, a.dtype, b.dtype, a.size)
        m, r = dense(m), dense(r)
        launch(a.pointer, b.pointer, m.pointer, r.pointer, momentum, eps, unbiased)
    self._bump_version()
    return self
