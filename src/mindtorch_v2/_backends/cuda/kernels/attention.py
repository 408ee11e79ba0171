"""Attention on a GPU in tiles: scores stay in registers and never reach memory; wide heads go over CuPy.

Large calls in half precision without a mask are cuDNN's (cudnn_attention.py). In our kernels (attention_source.py) a
warp owns 16 rows of a tile, or 32. While one tile is computed with, the next is on its way to shared memory. Where rows
are few, several warps have the same ones and part the keys among them.
"""

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cupy
import numpy as np

from ...._core.settings import are_deterministic_algorithms_enabled
from ....backends import cuda as settings
from .. import cudnn_attention
from ..array import CudaArray, Layout, array_on, empty, layout_of
from ..families import copy_array, layout_for
from ..launch import Launch, c_type, compiled, longs
from ..plans import planned
from ..streams import current
from .attention_source import DOUBLES, HALVES, SINGLES, TEXTS, THREADS, TILES

_PROCESSORS, _LARGEST_SHARED = 16, 97  # attributes of a device; the bytes that a block may take when it asks
_CACHED = 24 << 20  # bytes of keys and values that are expected to stay in the cache
# Of an H200: numbers that are multiplied, below which our kernels take less of the host's time; and widths of heads.
_LEAST_OF_CUDNN, _WIDEST_OF_CUDNN = 3 << 30, 128


class _Problem(NamedTuple):
    """Sizes and options of a call; `group` heads of queries share one of keys."""

    kind: np.dtype
    batch: int
    heads: int
    group: int
    queries: int
    keys: int
    width: int
    v_width: int
    causal: bool
    scale: float


class _Mask(NamedTuple):
    """A mask's type, and its steps in elements over batch, heads, queries and keys; the last is 0 or 1."""

    kind: np.dtype
    steps: tuple[int, ...]


class _Tiling(NamedTuple):
    tiles: int  # 16 rows each, of a warp
    keys: int  # that the forward kernel fetches together
    parts: int  # warps that have the same rows, and part the keys
    stages: int
    nbytes: int

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return 64 * self.tiles // self.parts


def _deep(width: int) -> int:
    return -(-width // 16) * 16


@functools.cache
def _allowed(device: int) -> int:
    return cupy.cuda.runtime.deviceGetAttribute(_LARGEST_SHARED, device)


@functools.cache
def _processors(device: int) -> int:
    return cupy.cuda.runtime.deviceGetAttribute(_PROCESSORS, device)


@functools.cache
def _capability(device: int) -> int:
    return int(cupy.cuda.Device(device).compute_capability)


def _parts(problem: _Problem, keys: int, device: int) -> int:
    """How many warps have the same rows: those without rows of their own, and more if processors are idle."""
    heads, parts = problem.batch * problem.heads, 1
    while parts < min(keys // 16, 4) and (
            problem.queries <= 32 // parts or heads * -(-problem.queries * parts // 64) < _processors(device)):
        parts *= 2
    return parts


def _tiling(name: str, problem: _Problem, device: int) -> _Tiling | None:
    """How a kernel cuts the problem; None where shared memory does not suffice."""
    size, depth, v_depth = problem.kind.itemsize, _deep(problem.width), _deep(problem.v_width)
    deepest, both = max(depth, v_depth), depth + v_depth + 16
    if name == "begin":
        return _Tiling(1, 0, 1, 0, 0)
    choices = []
    if name == "attend":
        light, keys = size == 2 and deepest <= 128, 64 if size == 2 or (size == 4 and deepest <= 128) else 32
        blocks, most = problem.batch * problem.heads * -(-problem.queries // 64), 4 * _processors(device)
        tiles = 2 if light and problem.queries > 64 and blocks >= most else 1
        parts = 1 if tiles == 2 else _parts(problem, keys, device)
        ways = [(keys, 1)] if blocks >= most else [(keys, 2), (keys, 1)]  # fewer blocks have more memory each
        if light and parts > 1 and problem.keys > 64:
            ways.insert(0, (128, ways[0][1]))
        for together, stages in ways:
            fetched = (64 * tiles // parts * (depth + 8) + stages * together * both) * size
            exchanged = (4 - 4 // parts) * (v_depth // 2 + 4) * 32 * max(size, 4)
            choices.append(_Tiling(tiles, together, parts, stages, max(fetched, exchanged)))
    else:
        blocks = problem.batch * (problem.heads // problem.group) * -(-problem.keys // 128)
        tiles = 2 if size == 2 and deepest <= 64 and problem.keys > 64 and blocks >= _processors(device) else 1
        for stages in (2, 1):
            elements = 64 * tiles * (both + 40) + stages * 32 * both
            choices.append(_Tiling(tiles, 0, 1, stages, elements * size + stages * 96 * max(size, 4)))
    return next((each for each in choices if each.nbytes <= _allowed(device)), None)


def _fits(problem: _Problem, device: int) -> bool:
    """Whether the kernels take such a call, forward and backward."""
    most = max(problem.width, problem.v_width)
    return most <= 256 and problem.scale > 0 and all(_tiling(name, problem, device) for name in TEXTS)


@functools.cache
def _kernel(name: str, kind: np.dtype, widths: tuple[int, int], tiling: _Tiling, causal: bool, aligned: bool,
            mask: tuple[np.dtype, int, bool] | None, by_tokens: bool) -> Any:
    half = {"float16": "f16", "bfloat16": "bf16"}.get(kind.name)
    products = (HALVES.replace("KIND2", f"{half}x2").replace("KIND", half) if half
                else DOUBLES if kind.itemsize == 8 else SINGLES)
    masked, step, over_queries = mask or (np.dtype(np.bool_), 0, False)
    numbers = {"WIDTH": widths[0], "V_WIDTH": widths[1], "DEPTH": _deep(widths[0]), "V_DEPTH": _deep(widths[1]),
               "CAUSAL": int(causal), "ALIGNED": int(aligned), "TILES": tiling.tiles, "KEYS": tiling.keys or 16,
               "PARTS": tiling.parts, "STAGES": tiling.stages, "CHUNKS": -(-max(widths) // 128),
               "MASK": 0 if mask is None else 1 if masked.kind == "b" else 2, "NEXT": step,
               "MASK_STEP": "at.mask[2]" if over_queries else 0, "BY_TOKENS": int(by_tokens)}
    lines = "".join(f"#define {key} {value}\n" for key, value in numbers.items())
    made = compiled(f"typedef {c_type(kind)} T;\ntypedef {'double' if kind.itemsize == 8 else 'float'} A;\n"
                    f"typedef {c_type(masked)} M;\n{lines}{THREADS}{products}{TILES}{TEXTS[name]}", name)
    if tiling.nbytes > 40 << 10:
        made.max_dynamic_shared_size_bytes = tiling.nbytes
    return made


def _launch_of(name: str, problem: _Problem, device: int, aligned: bool, steps: Sequence[Sequence[int]],
               mask: _Mask | None, by_tokens: bool) -> Launch:
    """A launch for pointers; `steps` are strides in elements of q, k, v, output and the output's gradient.

    `by_tokens`: gradients lie token by token, not head by head.
    """
    tiling = _tiling(name, problem, device)
    assert tiling is not None
    widths, row = (problem.width, problem.v_width), (0, 0, 0, 0) if mask is None else mask.steps
    made = _kernel(name, problem.kind, widths, tiling, problem.causal, aligned,
                   None if mask is None else (mask.kind, row[3], row[2] != 0), by_tokens)
    heads = problem.heads if name == "attend" else problem.heads // problem.group
    tiles = -(-(problem.queries if name == "attend" else problem.keys) // tiling.rows)
    bunch = max(_CACHED // (problem.keys * sum(widths) * problem.kind.itemsize), 1)
    bunch = min(bunch, problem.batch * heads)
    numbers = (*(s for each in (*steps, row[:3]) for s in each), tiles, problem.batch, heads, problem.group, bunch)
    places = (ctypes.c_longlong * len(numbers))(*numbers)
    sizes = ctypes.c_longlong(problem.queries), ctypes.c_longlong(problem.keys)
    if name == "begin":
        rows = problem.batch * problem.heads * problem.queries
        return Launch(made, "qqqq", (-(-rows // 16),), (128,), (ctypes.c_longlong(rows), sizes[0], places))
    grid = tiles * -(-problem.batch * heads // bunch) * bunch, -(-max(widths) // 128) if name == "give_back" else 1
    fixed = ctypes.c_double(problem.scale), *sizes, places
    return Launch(made, "q" * (6 if name == "attend" else 10), grid, (128,), fixed, tiling.nbytes)


_TYPES = ("float32", "float16", "bfloat16", "float64")


def _together(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The one stride that goes over several dimensions; None where there is none."""
    step, size = 0, 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1:
            if size > 1 and stride != step * size:
                return None
            step, size = stride if size == 1 else step, size * length
    return step


def _steps(shape: Sequence[int], strides: Sequence[int], size: int) -> list[int] | None:
    """Strides in elements over batch, heads, rows and columns; None where batches lie irregularly."""
    within = [0 if n == 1 else s for n, s in zip(shape[-3:], strides[-3:], strict=True)]
    batch = _together(shape[:-3], strides[:-3])
    return None if batch is None else [s // size for s in ([batch, 0, 0, 0][:4 - len(within)] + within)]


class _Call(NamedTuple):
    """What is the same for all calls with tensors of some layouts."""

    problem: _Problem
    aligned: bool  # rows can be loaded 16 bytes at a time
    mask: _Mask | None
    mask_layout: Layout | None  # to which a mask is copied, where it cannot be read as it lies
    device: int

    def reads(self, array: CudaArray) -> bool:
        """Whether the kernels can read arrays of that layout as they lie, alignment of the first element aside."""
        found = _steps(array.shape, array.strides, array.itemsize)
        if found is None or (found[3] != 1 and array.shape[-1] != 1):
            return False
        return not self.aligned or not any(s * array.itemsize & 15 for s in found[:3])

    def taken(self, array: CudaArray, readable: bool) -> CudaArray:
        """An array, or a copy that the kernels can read."""
        if readable and not (self.aligned and array.pointer & 15):
            return array
        return _copied(array, layout_of(array.shape, array.dtype))

    def mask_array(self, mask: CudaArray | None) -> CudaArray | None:
        if mask is None or self.mask_layout is None:
            return mask
        shape = self.mask_layout.shape
        made = empty(self.mask_layout, mask.device)
        layout = layout_of(shape, mask.dtype, _spread(mask.shape, mask.strides, shape))
        copy_array(made, array_on(layout, mask.memory, mask.pointer, mask.device))
        return made

    def cudnn_geometry(self, *arrays: CudaArray) -> tuple[cudnn_attention.Geometry, tuple] | None:
        """What cuDNN is told of queries, keys, values and output; None where it does not serve, or is slower."""
        kind, batch, heads, group, queries, keys, width, v_width, causal, scale = self.problem
        multiplied = batch * heads * queries * keys * (width + v_width) // (2 if causal else 1)
        if kind.itemsize != 2 or self.mask is not None or not self.aligned or max(width, v_width) > _WIDEST_OF_CUDNN:
            return None
        if multiplied < _LEAST_OF_CUDNN or min(queries, keys) < 2 or _capability(self.device) < 90:
            return None
        found = []
        for array, own in zip(arrays, (heads, heads // group, heads // group, heads), strict=True):
            lengths = batch, own, array.shape[-2]
            steps = (_steps(array.shape, array.strides, array.itemsize) or [0, 0, 0])[:3]
            if any(step == 0 and n > 1 for n, step in zip(lengths, steps, strict=True)):
                return None
            beyond = max([n * step for n, step in zip(lengths, steps, strict=True)])  # of one, any step will do
            found.append(tuple([step if n > 1 else beyond for n, step in zip(lengths, steps, strict=True)]))
        return cudnn_attention.Geometry(kind.name, batch, heads, heads // group, queries, keys, width, v_width,
                                        causal, scale), tuple(found)

    def launch(self, name: str, *arrays: CudaArray, by_tokens: bool = False) -> Callable:
        """The launch of a kernel for arrays of queries, keys, values, output and the output's gradient."""
        steps = [(_steps(each.shape, each.strides, each.itemsize) or [0])[:3] for each in arrays]
        return _launch_of(name, self.problem, self.device, self.aligned, steps, self.mask, by_tokens)


def _spread(shape: Sequence[int], strides: Sequence[int], full: Sequence[int]) -> tuple[int, ...]:
    """Strides broadcast to a shape."""
    kept = tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
    return (0,) * (len(full) - len(shape)) + kept


def _call(query: CudaArray, key: CudaArray, value: CudaArray, mask: CudaArray | None, is_causal: bool,
          scale: float) -> _Call | None:
    """The call that such arrays make; None where the tiles do not fit."""
    if query.dtype.name not in _TYPES or not query.size or not key.size or not value.size:
        return None
    (*outer, queries, width), keys, v_width = query.shape, key.shape[-2], value.shape[-1]
    heads, key_heads = (outer[-1], key.shape[-3]) if outer else (1, 1)
    problem = _Problem(query.dtype, math.prod(outer[:-1]), heads, heads // key_heads, queries, keys, width, v_width,
                       is_causal, scale)
    where = query.device.index or 0
    if not _fits(problem, where):
        return None
    aligned = not (width * query.itemsize | v_width * query.itemsize) & 15
    if mask is None:
        return _Call(problem, aligned, None, None, where)
    full, given = (*outer, queries, keys), mask
    for copied in (None, given.shape, full):  # as it lies, in C order, or for every head
        layout = given.layout if copied is None else layout_of(copied, given.dtype)
        found = _steps(full, _spread(layout.shape, layout.strides, full), given.itemsize)
        if found is not None and found[3] in (0, 1):
            break
    assert found is not None
    return _Call(problem, aligned, _Mask(given.dtype, tuple(found)), None if copied is None else layout, where)


class _Forward:
    """cuDNN's plan, called as the kernel `attend`; its norms are the logarithms alone."""

    def __init__(self, plan: Callable, count: int) -> None:
        self.plan, self.nbytes = plan, count * 4

    def __call__(self, q: int, k: int, v: int, mask: int, out: int, norms: int) -> None:
        self.plan(q, k, v, out, norms)
        cupy.cuda.runtime.memsetAsync(norms + self.nbytes, 0, self.nbytes, current.handle)


@planned
def attention(specs: Any, query: CudaArray, key: CudaArray, value: CudaArray, mask: Any, is_causal: bool,
              scale: float) -> Callable | None:
    call = _call(query, key, value, mask, is_causal, scale)
    if call is None:
        return None
    launches: dict[tuple, Callable] = {}
    readable = [call.reads(each) for each in (query, key, value)]
    made_layout, norms_layout = map(layout_for, specs)

    def launch_for(q: CudaArray, k: CudaArray, v: CudaArray, made: CudaArray, by_cudnn: bool) -> Callable:
        told = call.cudnn_geometry(q, k, v, made) if by_cudnn else None
        plan = None if told is None else cudnn_attention.forward(*told, call.device)
        if plan is not None:
            return _Forward(plan, norms_layout.size // 2)
        return call.launch("attend", q, k, v, made, made)

    def run(query: CudaArray, key: CudaArray, value: CudaArray, mask: Any, is_causal: bool, scale: float) -> Any:
        q, k, v = map(call.taken, (query, key, value), readable)
        made, norms = empty(made_layout, q.device), empty(norms_layout, q.device)
        found = q.layout, k.layout, v.layout, settings.cudnn_sdp_enabled()
        launch = launches.get(found)
        if launch is None:
            launch = launches[found] = launch_for(q, k, v, made, found[3])
        hiding = call.mask_array(mask)
        launch(q.pointer, k.pointer, v.pointer, 0 if hiding is None else hiding.pointer, made.pointer, norms.pointer)
        return made, norms

    return run


_JOIN = r"""
extern "C" __global__ void join(const float* norms, float* out, int64 count) {
    int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = norms[i] + norms[count + i];
}
"""


class _Backward:
    """What computes the gradients of queries, keys and values, in `layouts`."""

    def __init__(self, layouts: Sequence[Layout], rows: Layout, summed: Layout) -> None:
        """`rows` have a number for each query; in `summed` the gradient of queries is summed up."""
        self.layouts, self.rows, self.summed = layouts, rows, summed

    def __call__(self, arrays: Sequence[CudaArray], norms: CudaArray, mask: CudaArray | None) -> tuple:
        """Of queries, keys, values, output and the output's gradient."""
        raise NotImplementedError


class _PlannedBackward(_Backward):
    """By cuDNN's plan."""

    def __init__(self, plan: Callable, *layouts: Any) -> None:
        super().__init__(*layouts)
        self.plan, count = plan, self.rows.size
        self.join = Launch(compiled(_JOIN, "join"), "qq", (-(-count // 256),), (256,), longs(count))

    def __call__(self, arrays: Sequence[CudaArray], norms: CudaArray, mask: CudaArray | None) -> tuple:
        *others, out, grad = arrays
        if grad.layout is not out.layout:
            grad = _copied(grad, out.layout)
        of_query, of_key, of_value = made = tuple(empty(layout, grad.device) for layout in self.layouts)
        logarithms, sums, summed = (empty(layout, grad.device) for layout in (self.rows, self.rows, self.summed))
        self.join(norms.pointer, logarithms.pointer)
        self.plan(*[each.pointer for each in (*others, out, grad, logarithms, of_query, of_key, of_value, sums,
                                              summed)])  # fmt: skip
        return made


class _TiledBackward(_Backward):
    """By our kernels."""

    def __init__(self, call: _Call, arrays: Sequence[CudaArray], by_tokens: bool, *layouts: Any) -> None:
        super().__init__(*layouts)
        self.begin = call.launch("begin", *arrays)
        self.give_back = call.launch("give_back", *arrays, by_tokens=by_tokens)

    def __call__(self, arrays: Sequence[CudaArray], norms: CudaArray, mask: CudaArray | None) -> tuple:
        q, k, v, out, grad = arrays
        of_query, of_key, of_value = (empty(layout, q.device) for layout in (self.summed, *self.layouts[1:]))
        sums = empty(self.rows, q.device)
        self.begin(grad.pointer, out.pointer, sums.pointer, of_query.pointer)
        self.give_back(grad.pointer, q.pointer, k.pointer, v.pointer, 0 if mask is None else mask.pointer,
                       norms.pointer, sums.pointer, of_query.pointer, of_key.pointer, of_value.pointer)
        if self.layouts[0] is not self.summed:
            of_query = _copied(of_query, self.layouts[0])
        return of_query, of_key, of_value


def _copied(array: CudaArray, layout: Layout) -> CudaArray:
    made = empty(layout, array.device)
    copy_array(made, array)
    return made


@planned
def attention_backward(specs: Any, grad_out: CudaArray, query: CudaArray, key: CudaArray, value: CudaArray, mask: Any,
                       is_causal: bool, scale: float, norms: CudaArray, output: CudaArray) -> Callable | None:
    call = _call(query, key, value, mask, is_causal, scale)
    if call is None:
        return None
    launches: dict[tuple, _Backward] = {}
    readable = [call.reads(each) for each in (query, key, value, output, grad_out)]
    by_tokens, own = specs[0].strides is not None, [layout_for(spec) for spec in specs]
    steps = [step // query.itemsize * norms.itemsize for step in own[0].strides]
    layouts = own, layout_of(query.shape[:-1], norms.dtype), layout_of(query.shape, norms.dtype, tuple(steps))

    def launch_for(arrays: Sequence[CudaArray], by_cudnn: bool) -> _Backward:
        told = call.cudnn_geometry(*arrays[:4]) if by_cudnn else None
        plan = None if told is None else cudnn_attention.backward(*told, call.device, by_tokens)
        if plan is not None:
            return _PlannedBackward(plan, *layouts)
        return _TiledBackward(call, arrays, by_tokens, *layouts)

    def run(grad_out: CudaArray, query: CudaArray, key: CudaArray, value: CudaArray, mask: Any, is_causal: bool,
            scale: float, norms: CudaArray, output: CudaArray) -> Any:
        if are_deterministic_algorithms_enabled():  # tiles add to the gradient of queries in any order
            return None
        arrays = tuple(map(call.taken, (query, key, value, output, grad_out), readable))
        found = *[each.layout for each in arrays], settings.cudnn_sdp_enabled()
        launch = launches.get(found)
        if launch is None:
            launch = launches[found] = launch_for(arrays, found[-1])
        return launch(arrays, norms, call.mask_array(mask))

    return run
