"""Kernels that work on whole rows, held in registers."""

import functools
import math
from typing import Any

from .launch import PACKS, Launch, c_type, compiled, longs

# A row belongs to the threads of one y: a warp, several of which share a block, or a whole block. Each thread holds
# ITEMS groups of V neighbours. A is the type that is computed in.
_HEAD = PACKS + r"""
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

_FLOATS = {
    "float": "#define EXP expf\n#define LOG logf\n#define SQRT sqrtf\n#define HUGE __int_as_float(0x7f800000)\n",
    "double": "#define EXP exp\n#define LOG log\n#define SQRT sqrt\n"
              "#define HUGE __longlong_as_double(0x7ff0000000000000LL)\n",
}


def shape_of_rows(rows: int, width: int, halves: bool) -> tuple[int, int, tuple[int, int], int] | None:
    """V, ITEMS, block and grid for rows of that width; None if they are too wide to be held.

    16 bytes are loaded at once, of elements that take two if they are `halves`, else four or more.
    """
    v = next(n for n in (8 if halves else 4, 4, 1) if width % n == 0)
    groups, most = width // v, min(32 // v, 16)
    if groups <= 32 * most:
        block = (32, 4)
        items = -(-groups // 32)
    else:
        threads = min(1024, -(-groups // min(16 // v, 4)) + 31 & ~31)
        items = -(-groups // threads)
        block = (threads, 1)
        if items > most:
            return None
    return v, items, block, -(-rows // block[1])


@functools.lru_cache(4096)
def row_launch(source: tuple[str, str], types: tuple[str, ...], wide: str, rows: int, width: int,
               centred: bool = True) -> Launch | None:
    """The launch of a kernel of rows, of its parameters, which it is called with, and its body; None if too wide."""
    shape = shape_of_rows(rows, width, types[0] in ("half_t", "bfloat_t"))
    if shape is None:
        return None
    v, items, block, grid = shape
    letters = "".join("d" if p.strip().startswith("double") else "q" for p in source[0].split(","))
    kernel = _compiled(source, types, wide, v, items, math.prod(block), centred)
    return Launch(kernel, letters, (grid,), block, longs(rows, width))


@functools.cache
def _compiled(source: tuple[str, str], types: tuple[str, ...], wide: str, v: int, items: int, threads: int,
              centred: bool) -> Any:
    """The kernel of blocks of so many threads: 1,024 of them start only if each takes at most 64 registers."""
    parameters, body = source
    named = "".join(f"typedef {kind} T{i};\n" for i, kind in enumerate(types))
    text = (f"typedef {wide} A;\n#define V {v}\n#define ITEMS {items}\n#define CENTRED {int(centred)}\n"
            f"{_FLOATS[wide]}{named}{_HEAD}"
            f'extern "C" __global__ void __launch_bounds__({threads}) rows_kernel({parameters}, int64 rows, '
            f"int64 width) {{{_START}{body}}}\n")
    return compiled(text, "rows_kernel")


def widest(*arrays: Any) -> str:
    """The type to compute in: double if any array is of 8 bytes an element."""
    return "double" if any(a.dtype.itemsize == 8 for a in arrays) else "float"


def c_types(*arrays: Any) -> tuple[str, ...]:
    """How C calls the arrays' types; those of arrays that are not there are not read."""
    return tuple([c_type(a.dtype) if a is not None else "float" for a in arrays])
