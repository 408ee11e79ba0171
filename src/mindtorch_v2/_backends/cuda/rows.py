"""Kernels that work on whole rows, held in registers: softmax, layer and RMS norm, and their backwards."""

import ctypes
import functools
from typing import Any

from .launch import Launch, c_type, compiled
from .reduce import HEAD

# A row belongs to the threads of one y: a warp, several of which share a block, or a whole block. Each thread holds
# ITEMS groups of V neighbours. A is the type that is computed in.
_HEAD = HEAD + r"""
#define EACH(k, j) for (int k = 0; k < ITEMS; ++k) for (int j = 0; j < V; ++j)
struct sum_of { __device__ static A with(A a, A b) { return a + b; } };
struct max_of { __device__ static A with(A a, A b) { return a > b ? a : b; } };
template <typename F> __device__ inline A row_fold(A x, A start) {
    for (int s = 16; s; s >>= 1) x = F::with(x, __shfl_xor_sync(0xffffffff, x, s));
    if (blockDim.x > 32) {
        __shared__ A shared[33];
        __syncthreads();
        if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
        __syncthreads();
        if (threadIdx.x < 32) {
            x = threadIdx.x < blockDim.x / 32 ? shared[threadIdx.x] : start;
            for (int s = 16; s; s >>= 1) x = F::with(x, __shfl_xor_sync(0xffffffff, x, s));
            if (threadIdx.x == 0) shared[32] = x;
        }
        __syncthreads();
        x = shared[32];
    }
    return x;
}
template <typename T> __device__ inline void load(A (*held)[V], const T* row, int64 width, A missing) {
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        int64 at = (k * (int64)blockDim.x + threadIdx.x) * V;
        if (at < width) {
            pack<T, V> w = *(const pack<T, V>*)(row + at);
            #pragma unroll
            for (int j = 0; j < V; ++j) held[k][j] = (A)widened(w.v[j]);
        } else {
            #pragma unroll
            for (int j = 0; j < V; ++j) held[k][j] = missing;
        }
    }
}
template <typename T> __device__ inline void save(A (*held)[V], T* row, int64 width) {
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        int64 at = (k * (int64)blockDim.x + threadIdx.x) * V;
        if (at < width) {
            pack<T, V> w;
            #pragma unroll
            for (int j = 0; j < V; ++j) w.v[j] = narrow<T>::of(held[k][j]);
            *(pack<T, V>*)(row + at) = w;
        }
    }
}
"""

_START = r"""
    int64 row = blockIdx.x * (int64)blockDim.y + threadIdx.y;
    if (row >= rows) return;
"""

BODIES = {
    "softmax": ("const T0* x, T1* out", r"""
    A held[ITEMS][V];
    load(held, x + row * width, width, -HUGE);
    A top = -HUGE, total = 0;
    EACH(k, j) top = held[k][j] > top ? held[k][j] : top;
    top = row_fold<max_of>(top, -HUGE);
    EACH(k, j) { held[k][j] = EXP(held[k][j] - top); total += held[k][j]; }
    total = row_fold<sum_of>(total, 0);
    EACH(k, j) held[k][j] = held[k][j] / total;
    save(held, out + row * width, width);
"""),
    "log_softmax": ("const T0* x, T1* out", r"""
    A held[ITEMS][V];
    load(held, x + row * width, width, -HUGE);
    A top = -HUGE, total = 0;
    EACH(k, j) top = held[k][j] > top ? held[k][j] : top;
    top = row_fold<max_of>(top, -HUGE);
    EACH(k, j) { held[k][j] -= top; total += EXP(held[k][j]); }
    A log_total = LOG(row_fold<sum_of>(total, 0));
    EACH(k, j) held[k][j] -= log_total;
    save(held, out + row * width, width);
"""),
    "softmax_backward": ("const T0* grad, const T1* made, T2* out", r"""
    A g[ITEMS][V], y[ITEMS][V], total = 0;
    load(g, grad + row * width, width, (A)0);
    load(y, made + row * width, width, (A)0);
    EACH(k, j) total += g[k][j] * y[k][j];
    total = row_fold<sum_of>(total, 0);
    EACH(k, j) g[k][j] = (g[k][j] - total) * y[k][j];
    save(g, out + row * width, width);
"""),
    "log_softmax_backward": ("const T0* grad, const T1* made, T2* out", r"""
    A g[ITEMS][V], y[ITEMS][V], total = 0;
    load(g, grad + row * width, width, (A)0);
    load(y, made + row * width, width, (A)0);
    EACH(k, j) total += g[k][j];
    total = row_fold<sum_of>(total, 0);
    EACH(k, j) g[k][j] -= EXP(y[k][j]) * total;
    save(g, out + row * width, width);
"""),
    "norm": ("const T0* x, const T1* weight, const T2* bias, T3* out, T4* means, T5* rstds, double eps", r"""
    A held[ITEMS][V], mean = 0, total = 0;
    load(held, x + row * width, width, (A)0);
    if (CENTRED) {
        EACH(k, j) mean += held[k][j];
        mean = row_fold<sum_of>(mean, 0) / width;
    }
    EACH(k, j) {
        A off = (k * (int64)blockDim.x + threadIdx.x) * V + j < width ? held[k][j] - mean : (A)0;
        held[k][j] = off;
        total += off * off;
    }
    A rstd = 1 / SQRT(row_fold<sum_of>(total, 0) / width + (A)eps);
    A scale[ITEMS][V];
    EACH(k, j) held[k][j] *= rstd;
    if (weight) { load(scale, weight, width, (A)0); EACH(k, j) held[k][j] *= scale[k][j]; }
    if (bias) { load(scale, bias, width, (A)0); EACH(k, j) held[k][j] += scale[k][j]; }
    save(held, out + row * width, width);
    if (threadIdx.x == 0) {
        if (CENTRED) means[row] = narrow<T4>::of(mean);
        rstds[row] = narrow<T5>::of(rstd);
    }
"""),
    "norm_backward": ("const T0* grad, const T1* x, const T2* weight, const T3* means, const T4* rstds, T5* out", r"""
    A g[ITEMS][V], unit[ITEMS][V], along = 0, all = 0;
    load(g, grad + row * width, width, (A)0);
    if (weight) { load(unit, weight, width, (A)0); EACH(k, j) g[k][j] *= unit[k][j]; }
    load(unit, x + row * width, width, (A)0);
    A mean = CENTRED ? (A)widened(means[row]) : (A)0, rstd = (A)widened(rstds[row]);
    EACH(k, j) {
        unit[k][j] = (unit[k][j] - mean) * rstd;
        along += g[k][j] * unit[k][j];
        all += g[k][j];
    }
    along = row_fold<sum_of>(along, 0) / width;
    all = CENTRED ? row_fold<sum_of>(all, 0) / width : (A)0;
    EACH(k, j) g[k][j] = (g[k][j] - unit[k][j] * along - all) * rstd;
    save(g, out + row * width, width);
"""),
}  # fmt: skip

_FLOATS = {
    "float": "#define EXP expf\n#define LOG logf\n#define SQRT sqrtf\n#define HUGE __int_as_float(0x7f800000)\n",
    "double": "#define EXP exp\n#define LOG log\n#define SQRT sqrt\n"
              "#define HUGE __longlong_as_double(0x7ff0000000000000LL)\n",
}


def shape_of_rows(rows: int, width: int) -> tuple[int, int, tuple[int, int], int] | None:
    """V, ITEMS, block and grid for rows of that width; None if they are too wide to be held."""
    v = 4 if width % 4 == 0 else 1
    groups = -(-width // v)
    if groups <= 32 * (8 if v == 4 else 16):
        block = (32, 4)
        items = -(-groups // 32)
    else:
        threads = min(1024, -(-groups // 4) + 31 & ~31)
        items = -(-groups // threads)
        block = (threads, 1)
        if items > (8 if v == 4 else 16):
            return None
    return v, items, block, -(-rows // block[1])


@functools.lru_cache(4096)
def row_launch(name: str, types: tuple[str, ...], wide: str, rows: int, width: int,
               centred: bool = True) -> Launch | None:
    """The launch of a row kernel: pointers, and what else its parameters say, are what it is called with."""
    shape = shape_of_rows(rows, width)
    if shape is None:
        return None
    v, items, block, grid = shape
    parameters, body = BODIES[name]
    fixed = [ctypes.c_longlong(rows), ctypes.c_longlong(width)]
    letters = "".join("d" if p.strip().startswith("double") else "q" for p in parameters.split(","))
    return Launch(_compiled(name, types, wide, v, items, centred), letters, (grid,), block, fixed)


@functools.cache
def _compiled(name: str, types: tuple[str, ...], wide: str, v: int, items: int, centred: bool) -> Any:
    parameters, body = BODIES[name]
    named = "".join(f"typedef {kind} T{i};\n" for i, kind in enumerate(types))
    text = (f"typedef {wide} A;\n#define V {v}\n#define ITEMS {items}\n#define CENTRED {int(centred)}\n"
            f"{_FLOATS[wide]}{named}{_HEAD}"
            f'extern "C" __global__ void rows_kernel({parameters}, int64 rows, int64 width) {{{_START}{body}}}\n')
    return compiled(text, "rows_kernel")


_PARAMETERS = HEAD + r"""
extern "C" __global__ void parameters(const T0* grad, const T1* x, const T2* means, const T3* rstds, A* out,
                                      int64 rows, int64 width, int64 chunk) {
    __shared__ A of_weight[8][32], of_bias[8][32];
    int64 column = blockIdx.x * 32 + threadIdx.x, start = blockIdx.y * chunk;
    int64 end = start + chunk < rows ? start + chunk : rows;
    A w = 0, b = 0;
    if (column < width) {
        #pragma unroll 4
        for (int64 r = start + threadIdx.y; r < end; r += 8) {
            A g = (A)widened(grad[r * width + column]), mean = CENTRED ? (A)widened(means[r]) : (A)0;
            w += g * ((A)widened(x[r * width + column]) - mean) * (A)widened(rstds[r]);
            b += g;
        }
    }
    of_weight[threadIdx.y][threadIdx.x] = w;
    of_bias[threadIdx.y][threadIdx.x] = b;
    __syncthreads();
    if (threadIdx.y == 0 && column < width) {
        for (int y = 1; y < 8; ++y) { w += of_weight[y][threadIdx.x]; b += of_bias[y][threadIdx.x]; }
        out[blockIdx.y * width + column] = w;
        out[(gridDim.y + blockIdx.y) * width + column] = b;
    }
}
"""


@functools.lru_cache(4096)
def parameter_launch(types: tuple[str, ...], wide: str, rows: int, width: int,
                     centred: bool) -> tuple[Launch, int]:
    """The launch that adds up the gradients of a norm's weight and bias over parts of the rows, and how many parts."""
    blocks = -(-width // 32)
    parts = max(1, min(-(-1056 // blocks), rows // 32))
    chunk = -(-rows // parts)
    parts = -(-rows // chunk)
    named = "".join(f"typedef {kind} T{i};\n" for i, kind in enumerate(types))
    text = f"typedef {wide} A;\n#define CENTRED {int(centred)}\n{named}{_PARAMETERS}"
    fixed = [ctypes.c_longlong(n) for n in (rows, width, chunk)]
    return Launch(compiled(text, "parameters"), "qqqqq", (blocks, parts), (32, 8), fixed), parts


def widest(*arrays: Any) -> str:
    """The type to compute in: double if any array is of 8 bytes an element."""
    return "double" if any(a.dtype.itemsize == 8 for a in arrays) else "float"


def c_types(*arrays: Any) -> tuple[str, ...]:
    """How C calls the arrays' types; those of arrays that are not there are not read."""
    return tuple([c_type(a.dtype) if a is not None else "float" for a in arrays])
