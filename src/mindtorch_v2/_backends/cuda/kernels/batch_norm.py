"""Batch and group norm on a GPU: statistics, scaling and gradients by kernels of their own, in both memory formats."""

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...._core.dtype import OF_ARRAY
from ...._core.tensor import Tensor
from ...._dispatch.registry import registry
from ...._ops._declare.rules import Spec, check_writable
from ...._ops.copy import suggested_strides
from ..array import CudaArray, Layout, empty, layout_of, quick_empty
from ..families import copy_array, layout_for, wrap_cuda
from ..launch import C_TYPES, PACKS, Launch, c_type, compiled
from ..namespace import xp
from ..plans import dense, dense_if_any, planned, pointer_of

_THREADS, _BLOCKS, _MOST_PARTS = 256, 4224, 1024

_COMMON = PACKS + r"""
#define U 4
#define EACH(u, j) for (int u = 0; u < U; ++u) if (u < taken) for (int j = 0; j < V; ++j)
typedef pack<T, V> group;
struct space { int64 batch, channels, length, per, width, parts, chunk, across, stretch; };
#if BACK
struct gathered { A along, all; };
__device__ inline gathered nothing() { gathered r; r.along = r.all = 0; return r; }
__device__ inline gathered joined(gathered a, gathered b) { a.along += b.along; a.all += b.all; return a; }
__device__ inline gathered moved(gathered a, int s) {
    a.along = __shfl_xor_sync(0xffffffff, a.along, s); a.all = __shfl_xor_sync(0xffffffff, a.all, s);
    return a;
}
#else
struct gathered { A count, mean, square; };
__device__ inline gathered nothing() { gathered r; r.count = r.mean = r.square = 0; return r; }
__device__ inline gathered joined(gathered a, gathered b) {
    if (b.count == 0) return a;
    gathered r;
    r.count = a.count + b.count;
    A off = b.mean - a.mean, share = b.count / r.count;
    r.mean = a.mean + off * share;
    r.square = a.square + b.square + off * off * a.count * share;
    return r;
}
__device__ inline gathered moved(gathered a, int s) {
    a.count = __shfl_xor_sync(0xffffffff, a.count, s); a.mean = __shfl_xor_sync(0xffffffff, a.mean, s);
    a.square = __shfl_xor_sync(0xffffffff, a.square, s);
    return a;
}
#endif
__device__ inline gathered of_warp(gathered a) {
    for (int s = 16; s; s >>= 1) a = joined(a, moved(a, s));
    return a;
}
"""

_NEEDED = {True: "const T* x, const T* grad, const A* means, const A* rstds, const W* weight, "
                 "const gathered* shared_by, T* out, double count",
           False: "const T* x, const M* means, const M* spreads, const W* weight, const B* bias, T* out, double eps"}

# What a thread knows of a channel, and what becomes of an element.
_SCALING = r"""
#if BACK
struct scaling {
    A mean, scale, slope, shift;
    __device__ void read(NEEDED, int64 statistic, int64 parameter) {
        A rstd = rstds[statistic];
        mean = means[statistic];
        scale = weight ? rstd * (A)widened(weight[parameter]) : rstd;
        slope = rstd * rstd * shared_by[statistic].along / (A)count;
        shift = rstd * shared_by[statistic].all / (A)count;
    }
    __device__ A of(A x, A g) { return g * scale - (x - mean) * slope - shift; }
};
#define PASSED x, grad, means, rstds, weight, shared_by, out, count
#else
struct scaling {
    A mean, scale, shift;
    __device__ void read(NEEDED, int64 statistic, int64 parameter) {
        A spread = (A)widened(spreads[statistic]);
        scale = RUNNING ? 1 / SQRT(spread + (A)eps) : spread;
        mean = means ? (A)widened(means[statistic]) : (A)0;
        if (weight) scale *= (A)widened(weight[parameter]);
        shift = bias ? (A)widened(bias[parameter]) : (A)0;
    }
    __device__ A of(A x, A) { return (x - mean) * scale + shift; }
};
#define PASSED x, means, spreads, weight, bias, out, eps
#endif
"""

# A block has a channel's part: `chunk` pieces of the batch, or a stretch of a piece. It goes through it in groups of V.
_PLANES = r"""
struct walk {
    int64 at, count, step, over;
    unsigned left, by, groups;
    __device__ walk(space s, int64 channel, int64 part) {
        int64 first = part / s.across * s.chunk, start = part % s.across * s.stretch;
        int64 pieces = s.batch - first < s.chunk ? s.batch - first : s.chunk;
        groups = (unsigned)((s.length - start < s.stretch ? s.length - start : s.stretch) / V);
        unsigned whole = threadIdx.x / groups, jump = blockDim.x / groups;
        left = threadIdx.x - whole * groups;
        by = blockDim.x - jump * groups;
        int64 stride = s.channels * s.length;
        at = ((first + whole) * s.channels + channel) * s.length + start + (int64)left * V;
        step = jump * stride + (int64)by * V;
        over = stride - (int64)groups * V;
        count = pieces * groups;
    }
    __device__ void next() {
        at += step; left += by;
        if (left >= groups) { left -= groups; at += over; }
    }
};
#define BEGIN(block) \
    int64 channel = (block) % s.channels, part = (block) / s.channels; \
    walk w(s, channel, part);
#define LOOP for (int64 i = threadIdx.x; i < w.count; i += U * (int64)blockDim.x)
#define AT(u) (i + u * (int64)blockDim.x < w.count)
#define PLACES(code) \
    int taken = 0; \
    _Pragma("unroll") for (int u = 0; u < U; ++u) { if (AT(u)) { code; taken = u + 1; } w.next(); }

extern "C" __global__ void fold(const T* x, const T* grad, const A* means, const A* rstds, gathered* out, space s) {
    __shared__ gathered warps[32];
    BEGIN(blockIdx.x)
    gathered total = nothing();
#if BACK
    A mean = means[channel / s.per];
#endif
    LOOP {
        group held[U];
#if BACK
        group grads[U];
        PLACES(held[u] = *(const group*)(x + w.at); grads[u] = *(const group*)(grad + w.at))
        #pragma unroll
        EACH(u, j) {
            A g = (A)widened(grads[u].v[j]);
            total.all += g;
            total.along += g * ((A)widened(held[u].v[j]) - mean);
        }
#else
        PLACES(held[u] = *(const group*)(x + w.at))
        gathered made = nothing();
        made.count = (A)(taken * V);
        #pragma unroll
        EACH(u, j) made.mean += (A)widened(held[u].v[j]);
        made.mean /= made.count;
        #pragma unroll
        EACH(u, j) { A off = (A)widened(held[u].v[j]) - made.mean; made.square += off * off; }
        total = joined(total, made);
#endif
    }
    total = of_warp(total);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < blockDim.x / 32; ++k) total = joined(total, warps[k]);
#if BACK
        total.along *= rstds[channel / s.per];
#endif
        out[channel * s.parts + part] = total;
    }
}
"""
_SCALE_PLANES = r"""
extern "C" __global__ void scale(NEEDED, space s) {
    BEGIN(gridDim.x - 1 - (int64)blockIdx.x)  // the end first: the pass before has left it in the cache
    scaling how;
    how.read(PASSED, channel / s.per, channel % s.width);
    LOOP {
        group held[U];
        int64 places[U];
#if BACK
        group grads[U];
        PLACES(places[u] = w.at; held[u] = *(const group*)(x + w.at); grads[u] = *(const group*)(grad + w.at))
#define OTHER (A)widened(grads[u].v[j])
#else
        PLACES(places[u] = w.at; held[u] = *(const group*)(x + w.at))
#define OTHER 0
#endif
        #pragma unroll
        EACH(u, j) held[u].v[j] = narrow<T>::of(how.of((A)widened(held[u].v[j]), OTHER));
        #pragma unroll
        for (int u = 0; u < U; ++u) if (u < taken) *(group*)(out + places[u]) = held[u];
    }
}
"""

# A block has V channels for each x, and a chunk of the rows, of which each y takes some.
_ROWS = r"""
#define BEGIN(block) \
    int64 across = (s.channels + blockDim.x * V - 1) / (blockDim.x * V), rest = (block) / across; \
    int64 column = ((block) % across * blockDim.x + threadIdx.x) * V, part = rest % s.parts, sample = rest / s.parts; \
    int64 row = part * s.chunk, end = row + s.chunk < s.length ? row + s.chunk : s.length; \
    int64 statistics = sample * (s.channels / s.per), base = sample * s.length * s.channels + column; \
    bool inside = column < s.channels;
#define LOOP if (inside) for (row += threadIdx.y; row < end; row += U * (int64)blockDim.y)
#define PLACES(code) \
    int taken = 0; \
    _Pragma("unroll") for (int u = 0; u < U; ++u) { \
        int64 at = base + (row + u * (int64)blockDim.y) * s.channels; \
        if (row + u * (int64)blockDim.y < end) { code; taken = u + 1; } \
    }

extern "C" __global__ void fold(const T* x, const T* grad, const A* means, const A* rstds, gathered* out, space s) {
    __shared__ gathered held_by[256][V];
    BEGIN((int64)blockIdx.x)
    gathered total[V];
    for (int j = 0; j < V; ++j) total[j] = nothing();
#if BACK
    A mean[V];
    for (int j = 0; j < V; ++j) mean[j] = inside ? means[statistics + (column + j) / s.per] : (A)0;
#endif
    LOOP {
        group held[U];
#if BACK
        group grads[U];
        PLACES(held[u] = *(const group*)(x + at); grads[u] = *(const group*)(grad + at))
        #pragma unroll
        EACH(u, j) {
            A g = (A)widened(grads[u].v[j]);
            total[j].all += g;
            total[j].along += g * ((A)widened(held[u].v[j]) - mean[j]);
        }
#else
        PLACES(held[u] = *(const group*)(x + at))
        A before = total[0].count, count = before + taken, share = taken / count, one = (A)1 / taken;
        #pragma unroll
        for (int j = 0; j < V; ++j) {
            A mean = 0, square = 0;
            for (int u = 0; u < U; ++u) if (u < taken) mean += (A)widened(held[u].v[j]);
            mean *= one;
            for (int u = 0; u < U; ++u) if (u < taken) {
                A off = (A)widened(held[u].v[j]) - mean;
                square += off * off;
            }
            A off = mean - total[j].mean;
            total[j].count = count;
            total[j].mean += off * share;
            total[j].square += square + off * off * before * share;
        }
#endif
    }
    int own = threadIdx.y * blockDim.x + threadIdx.x;
    for (int j = 0; j < V; ++j) held_by[own][j] = total[j];
    for (int half = blockDim.y / 2; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.y < half)
            for (int j = 0; j < V; ++j)
                held_by[own][j] = joined(held_by[own][j], held_by[own + half * blockDim.x][j]);
    }
    if (threadIdx.y == 0 && inside)
        for (int j = 0; j < V; ++j) {
            gathered made = held_by[own][j];
#if BACK
            made.along *= rstds[statistics + (column + j) / s.per];
#endif
            out[(sample * s.channels + column + j) * s.parts + part] = made;
        }
}
"""
_SCALE_ROWS = r"""
extern "C" __global__ void scale(NEEDED, space s) {
    BEGIN(gridDim.x - 1 - (int64)blockIdx.x)  // the end first: the pass before has left it in the cache
    if (!inside) return;
    scaling how[V];
    for (int j = 0; j < V; ++j) how[j].read(PASSED, statistics + (column + j) / s.per, column + j);
    LOOP {
        group held[U];
#if BACK
        group grads[U];
        PLACES(held[u] = *(const group*)(x + at); grads[u] = *(const group*)(grad + at))
#define OTHER (A)widened(grads[u].v[j])
#else
        PLACES(held[u] = *(const group*)(x + at))
#define OTHER 0
#endif
        #pragma unroll
        EACH(u, j) held[u].v[j] = narrow<T>::of(how[j].of((A)widened(held[u].v[j]), OTHER));
        #pragma unroll
        for (int u = 0; u < U; ++u)
            if (u < taken) *(group*)(out + base + (row + u * (int64)blockDim.y) * s.channels) = held[u];
    }
}
"""

# A warp puts the parts of a statistic together; backward, further warps have a channel's parameters each.
_SETTLE = r"""
extern "C" __global__ void settle(const gathered* parts, A* means, A* rstds, double eps, int64 statistics, int64 each) {
    int64 own = blockIdx.x * (int64)blockDim.y + threadIdx.y;
    if (own >= statistics) return;
    gathered total = nothing();
    #pragma unroll 4
    for (int64 i = threadIdx.x; i < each; i += 32) total = joined(total, parts[own * each + i]);
    total = of_warp(total);
    if (threadIdx.x == 0) {
        means[own] = total.mean;
        rstds[own] = 1 / SQRT(total.square / total.count + (A)eps);
    }
}
"""
_SETTLE_BACK = r"""
extern "C" __global__ void settle(const gathered* gathered_parts, const W* weight, gathered* shared_by, W* of_weight,
                                  W* of_bias, int64 statistics, int64 samples, int64 width, int64 per, int64 parts) {
    int64 own = blockIdx.x * (int64)blockDim.y + threadIdx.y;
    gathered total = nothing();
    if (own < statistics) {
        for (int64 i = threadIdx.x; i < per * parts; i += 32) {
            gathered a = gathered_parts[own * per * parts + i];
            A w = weight ? (A)widened(weight[own * per % width + i / parts]) : (A)1;
            total.along += w * a.along; total.all += w * a.all;
        }
        total = of_warp(total);
        if (threadIdx.x == 0) shared_by[own] = total;
        return;
    }
    own -= statistics;
    if (own >= width) return;
    for (int64 i = threadIdx.x; i < samples * parts; i += 32)
        total = joined(total, gathered_parts[(i / parts * width + own) * parts + i % parts]);
    total = of_warp(total);
    if (threadIdx.x == 0) {
        if (of_weight) of_weight[own] = narrow<W>::of(total.along);
        if (of_bias) of_bias[own] = narrow<W>::of(total.all);
    }
}
"""
_RUNNING = r"""
extern "C" __global__ void move(M* means, N* variances, const A* mean, const A* rstd, double momentum, double eps,
                                double unbiased, int64 count) {
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (i >= count) return;
    if (means) {
        A old = (A)widened(means[i]);
        means[i] = narrow<M>::of(old + (A)momentum * (mean[i] - old));
    }
    if (variances) {
        A old = (A)widened(variances[i]);
        variances[i] = narrow<N>::of(old + (A)momentum * ((1 / (rstd[i] * rstd[i]) - (A)eps) * (A)unbiased - old));
    }
}
"""


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


def _rows(kind: np.dtype, batch: int, channels: int, length: int, per: int = 1) -> _Geometry:
    """The geometry of `batch` times rows of all channels; each sample of the batch is by itself."""
    vector = _vector(kind, channels)
    groups = _above(channels // vector)
    high = min(_THREADS // min(groups, 32), _above(length))
    wide = min(groups, _THREADS // high)
    across = -(-channels // (wide * vector))
    wanted = max(1, min(_MOST_PARTS // min(across, 2), -(-_BLOCKS // (batch * across)), length // (4 * high)))
    chunk = -(-length // wanted)
    space = _Space(batch, channels, length, per, channels, -(-length // chunk), chunk, across, 0)
    return _Geometry(True, kind, vector, space, batch * across * space.parts, (wide, high))


def _wide(kind: np.dtype) -> str:
    return "double" if kind.itemsize == 8 else "float"


@functools.cache
def _kernel(text: str, name: str, kind: str, wide: str, vector: int, back: bool, running: bool = False,
            **types: str) -> Any:
    named = "".join(f"typedef {each} {letter};\n" for letter, each in types.items())
    root = "sqrt" if wide == "double" else "sqrtf"
    return compiled(f"typedef {kind} T;\ntypedef {wide} A;\n#define SQRT {root}\n#define V {vector}\n"
                    f"#define BACK {int(back)}\n#define RUNNING {int(running)}\n{named}{_COMMON}{text}", name)


def _folding(geometry: _Geometry, back: bool) -> Launch:
    """The launch (x, grad, means, rstds, parts) that gathers what each part has to say."""
    made = _kernel(_ROWS if geometry.rows else _PLANES, "fold", c_type(geometry.kind), _wide(geometry.kind),
                   geometry.vector, back)
    return Launch(made, "q" * 5, (geometry.grid,), geometry.block, [geometry.space])


def _scaling(geometry: _Geometry, back: bool, running: bool = False, **types: str) -> Launch:
    """The launch that makes the result; W, B and M are the types of weight, bias and, if running, the statistics."""
    text = _SCALING + (_ROWS + _SCALE_ROWS if geometry.rows else _PLANES + _SCALE_PLANES)
    text = text.replace("NEEDED", _NEEDED[back])
    made = _kernel(text, "scale", c_type(geometry.kind), _wide(geometry.kind), geometry.vector, back, running, **types)
    return Launch(made, "qqqqqqqd" if back else "qqqqqqd", (geometry.grid,), geometry.block, [geometry.space])


def _settling(geometry: _Geometry, statistics: int) -> Launch:
    """The launch (parts, means, rstds, eps) that makes statistics of what was gathered."""
    made = _kernel(_SETTLE, "settle", "float", _wide(geometry.kind), 1, False)
    fixed = [ctypes.c_longlong(n) for n in (statistics, geometry.entries // statistics)]
    return Launch(made, "qqqd", (-(-statistics // 4),), (32, 4), fixed)


def _settling_gradients(geometry: _Geometry, statistics: int, parameters: bool, weight: str) -> Launch:
    """The launch (parts, weight, shared, of_weight, of_bias) for that many statistics and all channels' parameters."""
    made = _kernel(_SETTLE_BACK, "settle", "float", _wide(geometry.kind), 1, True, W=weight)
    space = geometry.space
    fixed = [ctypes.c_longlong(n) for n in (statistics, geometry.samples, space.width, space.per, space.parts)]
    jobs = statistics + (space.width if parameters else 0)
    return Launch(made, "q" * 5, (-(-jobs // 4),), (32, 4), fixed)


def _moving(wide: np.dtype, mean: np.dtype | None, variance: np.dtype | None, count: int) -> Launch:
    """The launch (means, variances, mean, rstd, momentum, eps, unbiased) that moves running statistics."""
    types = {letter: "float" if kind is None else c_type(kind) for letter, kind in (("M", mean), ("N", variance))}
    made = _kernel(_RUNNING, "move", "float", _wide(wide), 1, False, **types)
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


class _Norm:
    """How a norm goes through its input: to gather statistics, and to scale; how many statistics there are."""

    def __init__(self, array: CudaArray, last: bool, groups: int | None) -> None:
        kind, (batch, channels, *spatial) = array.dtype, array.shape
        length, last = math.prod(spatial), last or math.prod(spatial) == 1
        self.gathering: _Geometry
        if groups is None:
            self.count = channels
            self.scaling = _rows(kind, 1, channels, batch * length) if last else _planes(kind, batch, channels, length)
            self.gathering = self.scaling
        else:
            self.count, per = batch * groups, channels // groups
            self.scaling = _rows(kind, batch, channels, length, per) if last else _planes(
                kind, 1, batch * channels, length, per, channels)
            self.gathering = self.scaling if last else _planes(kind, 1, self.count, per * length)
        self.wide = np.dtype(np.float64 if kind.itemsize == 8 else np.float32)
        self.elements = array.size // self.count

    def parts(self, geometry: _Geometry, numbers: int) -> Layout:
        return layout_of((geometry.entries, numbers), self.wide)


def _takes(input: CudaArray) -> bool:
    return bool(input.size) and input.dtype.name in C_TYPES


def _forward(specs: Any, input: CudaArray, groups: int | None, weight: Any, bias: Any) -> Callable | None:
    """`run(input, weight, bias, eps)`, which gives the result, means and inverse deviations."""
    if not _takes(input):
        return None
    norm, layouts = _Norm(input, specs[0].strides is not None, groups), [layout_for(spec) for spec in specs]
    gather, settle = _folding(norm.gathering, False), _settling(norm.gathering, norm.count)
    scale = _scaling(norm.scaling, False, W=_type(weight), B=_type(bias), M=c_type(norm.wide))
    parts_of = norm.parts(norm.gathering, 3)

    def run(input: CudaArray, weight: Any, bias: Any, eps: float) -> Any:
        source, where = _laid(input, layouts[0]), input.device
        factors, addends = dense_if_any(weight), dense_if_any(bias)
        made, means, rstds = [quick_empty(layout, where) for layout in layouts]
        parts = quick_empty(parts_of, where)
        gather(source.pointer, 0, 0, 0, parts.pointer)
        settle(parts.pointer, means.pointer, rstds.pointer, eps)
        scale(source.pointer, means.pointer, rstds.pointer, pointer_of(factors), pointer_of(addends), made.pointer, 0.0)
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
    gather = _folding(norm.scaling, True)
    kind = _type(weight) if weight is not None else c_type(input.dtype)
    settle = _settling_gradients(norm.scaling, norm.count if of_input else 0, bool(of_weight or of_bias), kind)
    scale = _scaling(norm.scaling, True, W=_type(weight)) if of_input else None
    parts_of, shared_of = norm.parts(norm.scaling, 2), layout_of((norm.count, 2), norm.wide)
    elements = float(norm.elements)

    def run(grad_out: CudaArray, input: CudaArray, weight: Any, mean: CudaArray, rstd: CudaArray) -> Any:
        source, grad, where = _laid(input, taken), _laid(grad_out, taken), input.device
        means, rstds, weights = dense(mean), dense(rstd), dense_if_any(weight)
        made = [None if layout is None else quick_empty(layout, where) for layout in layouts]
        parts, shared = quick_empty(parts_of, where), quick_empty(shared_of, where)
        (first, second, third), factors = map(pointer_of, made), pointer_of(weights)
        gather(source.pointer, grad.pointer, means.pointer, rstds.pointer, parts.pointer)
        settle(parts.pointer, factors, shared.pointer, second, third)
        if scale is not None:
            scale(source.pointer, grad.pointer, means.pointer, rstds.pointer, factors, shared.pointer, first, elements)
        return made

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
