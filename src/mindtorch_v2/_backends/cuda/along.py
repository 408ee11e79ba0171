"""Kernels along a dimension of a contiguous (outer, length, inner) array: best elements, running sums, order."""

import ctypes
import functools
from typing import Any

import numpy as np

from .launch import Launch, c_type, compiled

_THREADS, _BLOCKS = 256, 1056


def _fixed(*numbers: int) -> list[Any]:
    return [ctypes.c_longlong(n) for n in numbers]


# the largest or smallest, and where ----------------------------------------------------------------------------------

# LANES threads share a cell of the result, and CELLS cells a block; threads that are neighbours read neighbours. Of
# equal elements the first is found; NaN counts as better than any number.
_BEST = r"""
typedef {T} T;
#define LANES {lanes}
#define CELLS {cells}
template <typename X> __device__ inline bool better(X a, int64 at, X b, int64 b_at) {{
    bool a_unknown = a != a, b_unknown = b != b;
    if (a_unknown != b_unknown) return a_unknown;
    return (!a_unknown && a != b) ? a {sign} b : at < b_at;
}}
extern "C" __global__ void best(const T* in, const int64* places, T* values, int64* indices, int64 cells, int64 length,
                                int64 inner, int64 chunk, int64 parts) {{
    __shared__ T held[LANES * CELLS];
    __shared__ int64 held_at[LANES * CELLS];
    int own = threadIdx.x {cell_of}, lane = threadIdx.x {lane_of};
    int64 cell = blockIdx.x * (int64)CELLS + own, start = blockIdx.y * chunk;
    int64 end = start + chunk < length ? start + chunk : length, found = -1;
    T top = {{}};
    if (cell < cells) {{
        const T* p = in + cell / inner * length * inner + cell % inner;
        #pragma unroll 4
        for (int64 i = start + lane; i < end; i += LANES) {{
            T x = p[i * inner];
            if (found < 0 || better(widened(x), i, widened(top), found)) {{ top = x; found = i; }}
        }}
        if (places && found >= 0) found = places[cell / inner * length * inner + cell % inner + found * inner];
    }}
    held[threadIdx.x] = top; held_at[threadIdx.x] = found;
    for (int s = LANES / 2; s; s >>= 1) {{
        __syncthreads();
        int other = threadIdx.x + s * ({lane_step});
        if (lane < s && held_at[other] >= 0 && (held_at[threadIdx.x] < 0 || better(widened(held[other]),
                held_at[other], widened(held[threadIdx.x]), held_at[threadIdx.x]))) {{
            held[threadIdx.x] = held[other]; held_at[threadIdx.x] = held_at[other];
        }}
    }}
    if (lane == 0 && cell < cells) {{
        int64 at = (cell / inner * parts + blockIdx.y) * inner + cell % inner;
        if (values) values[at] = held[threadIdx.x];
        if (indices) indices[at] = held_at[threadIdx.x];
    }}
}}
"""


def best_parts(cells: int, length: int) -> int:
    """Into how many parts a dimension is cut, none of them empty, so that there is work for all of the device."""
    chunk = -(-length // max(1, min(-(-_BLOCKS * 2 // cells), length // 4096)))
    return -(-length // chunk)


@functools.lru_cache(4096)
def best_launch(kind: np.dtype, largest: bool, outer: int, length: int, inner: int, parts: int) -> Launch:
    """The launch on (elements, their places or 0, best elements or 0, places of those); it leaves `parts` of each."""
    if inner == 1:
        lanes = min(_THREADS, 1 << max(0, (-(-length // (4 * parts)) - 1).bit_length()))
    else:
        lanes = 8 if length >= 8 * parts else 1
    cells = _THREADS // lanes
    by_lane = inner == 1
    text = _BEST.format(T=c_type(kind), lanes=lanes, cells=cells, sign=">" if largest else "<",
                        cell_of="/ LANES" if by_lane else "% CELLS", lane_of="% LANES" if by_lane else "/ CELLS",
                        lane_step="1" if by_lane else "CELLS")
    fixed = _fixed(outer * inner, length, inner, -(-length // parts), parts)
    return Launch(compiled(text, "best"), "qqqq", (-(-outer * inner // cells), parts), (_THREADS,), fixed)


# running sums and products -------------------------------------------------------------------------------------------

# `before` is what the parts in front of a part come to; with `totals`, only what a part itself comes to is stored.
_SCAN = r"""
typedef {T} T; typedef {R} R; typedef {A} A;
__device__ inline A with(A a, A b) {{ return {combine}; }}
extern "C" __global__ void scan_rows(const T* in, R* out, const A* before, A* totals, int64 rows, int64 length,
                                     int64 inner, int64 chunk, int64 parts) {{
    __shared__ A warps[33];
    int64 row = blockIdx.x * (int64)blockDim.y + threadIdx.y, part = blockIdx.y;
    if (row >= rows) return;
    int64 start = part * chunk, end = start + chunk < length ? start + chunk : length;
    const T* p = in + row * length;
    A carry = before ? before[row * parts + part] : (A){start};
    for (int64 tile = start; tile < end; tile += blockDim.x * 4) {{
        int64 at = tile + threadIdx.x * 4;
        A held[4], total = (A){start};
        #pragma unroll
        for (int k = 0; k < 4; ++k) {{
            if (at + k < end) total = with(total, (A)widened(p[at + k]));
            held[k] = total;
        }}
        A front = total;
        for (int s = 1; s < 32; s <<= 1) {{
            A left = __shfl_up_sync(0xffffffff, front, s);
            if (threadIdx.x % 32 >= s) front = with(left, front);
        }}
        A whole = __shfl_sync(0xffffffff, front, 31);
        front = __shfl_up_sync(0xffffffff, front, 1);
        if (threadIdx.x % 32 == 0) front = (A){start};
        if (blockDim.x > 32) {{
            if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = whole;
            __syncthreads();
            A left = (A){start};
            whole = (A){start};
            for (int w = 0; w < blockDim.x / 32; ++w) {{
                if (w == threadIdx.x / 32) left = whole;
                whole = with(whole, warps[w]);
            }}
            front = with(left, front);
            __syncthreads();
        }}
        front = with(carry, front);
        if (!totals)
            for (int k = 0; k < 4; ++k)
                if (at + k < end) out[row * length + at + k] = narrow<R>::of(with(front, held[k]));
        carry = with(carry, whole);
    }}
    if (totals && threadIdx.x == 0) totals[row * parts + part] = carry;
}}
extern "C" __global__ void scan_columns(const T* in, R* out, const A* before, A* totals, int64 cells, int64 length,
                                        int64 inner, int64 chunk, int64 parts) {{
    int64 cell = blockIdx.x * (int64)blockDim.x + threadIdx.x, part = blockIdx.y;
    if (cell >= cells) return;
    int64 start = part * chunk, end = start + chunk < length ? start + chunk : length;
    int64 group = cell / inner, column = cell % inner;
    int64 first = group * length * inner + column, at = (group * parts + part) * inner + column;
    A carry = before ? before[at] : (A){start};
    #pragma unroll 4
    for (int64 i = start; i < end; ++i) {{
        carry = with(carry, (A)widened(in[first + i * inner]));
        if (!totals) out[first + i * inner] = narrow<R>::of(carry);
    }}
    if (totals) totals[at] = carry;
}}
extern "C" __global__ void put_before(const A* totals, A* before, int64 cells, int64 parts, int64 inner) {{
    int64 cell = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (cell >= cells) return;
    A carry = (A){start};
    for (int64 part = 0; part < parts; ++part) {{
        int64 at = (cell / inner * parts + part) * inner + cell % inner;
        before[at] = carry;
        carry = with(carry, totals[at]);
    }}
}}
"""


class Scanning:
    """The launches of a running sum or product; a long dimension is cut into parts."""

    def __init__(self, name: str, kind: np.dtype, made: np.dtype, wide: np.dtype, outer: int, length: int,
                 inner: int) -> None:
        text = _SCAN.format(T=c_type(kind), R=c_type(made), A=c_type(wide), start="0" if name == "cumsum" else "1",
                            combine="a + b" if name == "cumsum" else "a * b")
        self.cells = cells = outer * inner
        smallest = 8192 if inner == 1 else 256
        enough = _BLOCKS if inner == 1 else _BLOCKS * _THREADS
        parts = max(1, min(-(-enough // cells), length // smallest, 1024))
        chunk = -(-length // parts)
        chunk += -chunk % 4
        self.parts = parts = -(-length // chunk)
        if inner == 1:
            block = (32, 8) if chunk <= 512 else (_THREADS, 1)
            name, grid = "scan_rows", (-(-outer // block[1]), parts)
        else:
            block, name, grid = (_THREADS, 1), "scan_columns", (-(-cells // _THREADS), parts)
        fixed = _fixed(cells, length, inner, chunk, parts)
        self.launch = Launch(compiled(text, name), "qqqq", grid, block, fixed)
        if parts > 1:
            self.between = Launch(compiled(text, "put_before"), "qq", (-(-cells // _THREADS),), (_THREADS,),
                                  _fixed(cells, parts, inner))

    def __call__(self, source: int, made: int, totals: int, before: int) -> None:
        """With more than one part, `totals` and `before` have room for one number a part of each cell."""
        if self.parts > 1:
            self.launch(source, made, 0, totals)
            self.between(totals, before)
        self.launch(source, made, before if self.parts > 1 else 0, 0)


# ordered rows --------------------------------------------------------------------------------------------------------

# A block a row. The k-th key is found digit by digit, what is above it is gathered, and a bitonic network orders that.
# Keys are unsigned and the best have the largest; equal ones are ordered by their places.
_SELECT = r"""
typedef {T} T; typedef {K} K;
#define ROOM {room}
__device__ inline K ordered(T x) {{ {key} }}
__device__ inline K key_of(T x) {{ return {best}ordered(x); }}
extern "C" __global__ void select_rows(const T* in, T* values, int64* indices, int64 length, int64 k) {{
    __shared__ K keys[ROOM];
    __shared__ int at[ROOM];
    __shared__ unsigned int counts[256], taken[2];
    __shared__ K bound[1];
    const T* row = in + blockIdx.x * length;
    if (threadIdx.x == 0) {{ taken[0] = taken[1] = 0; bound[0] = 0; }}
    for (int i = threadIdx.x; i < ROOM; i += blockDim.x) {{ keys[i] = 0; at[i] = 0x7fffffff; }}
    __syncthreads();
    if (length <= ROOM && k == length) {{
        for (int i = threadIdx.x; i < length; i += blockDim.x) {{ keys[i] = key_of(row[i]); at[i] = i; }}
    }} else {{
        K mask = 0;
        unsigned int left = (unsigned int)k;
        for (int shift = sizeof(K) * 8 - 8; shift >= 0; shift -= 8) {{
            for (int i = threadIdx.x; i < 256; i += blockDim.x) counts[i] = 0;
            __syncthreads();
            K found = bound[0];
            for (int64 i = threadIdx.x; i < length; i += blockDim.x) {{
                K key = key_of(row[i]);
                if ((key & mask) == found) atomicAdd(&counts[(int)(key >> shift & 255)], 1u);
            }}
            __syncthreads();
            int digit = 255;
            while (counts[digit] < left) left -= counts[digit--];
            __syncthreads();
            if (threadIdx.x == 0) bound[0] = found | (K)digit << shift;
            mask |= (K)255 << shift;
            __syncthreads();
        }}
        K least = bound[0];
        for (int64 i = threadIdx.x; i < length; i += blockDim.x) {{
            K key = key_of(row[i]);
            int place = -1;
            if (key > least) place = atomicAdd(&taken[0], 1u);
            else if (key == least) {{
                unsigned int nr = atomicAdd(&taken[1], 1u);
                if (nr < left) place = (int)k - 1 - (int)nr;
            }}
            if (place >= 0) {{ keys[place] = key; at[place] = (int)i; }}
        }}
    }}
    for (int size = 2; size <= ROOM; size <<= 1)
        for (int step = size >> 1; step; step >>= 1) {{
            __syncthreads();
            for (int i = threadIdx.x; i < ROOM / 2; i += blockDim.x) {{
                int a = i / step * step * 2 + i % step, b = a + step;
                bool ahead = keys[b] > keys[a] || (keys[b] == keys[a] && at[b] < at[a]);
                if (ahead == ((a & size) == 0)) {{
                    K key = keys[a]; keys[a] = keys[b]; keys[b] = key;
                    int place = at[a]; at[a] = at[b]; at[b] = place;
                }}
            }}
        }}
    __syncthreads();
    for (int i = threadIdx.x; i < k; i += blockDim.x) {{
        if (values) values[blockIdx.x * k + i] = row[at[i]];
        indices[blockIdx.x * k + i] = at[i];
    }}
}}
"""
SELECTED = 2048  # as many elements as a block orders
_KEYS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


def _key_text(kind: np.dtype) -> str:
    """C that gives an unsigned number of the same order; NaN has the largest."""
    size = kind.itemsize
    if kind.kind in "ub":
        return "return (K)x;"
    top = f"((K)1 << {8 * size - 1})"
    if kind.kind == "i":
        return f"return (K)x ^ {top};"
    return ("if (widened(x) != widened(x)) return (K)~(K)0; union { T value; K bits; } u; u.value = x; "
            f"if (u.bits == {top}) u.bits = 0; "  # one zero
            f"return u.bits & {top} ? (K)~u.bits : (K)(u.bits | {top});")


@functools.lru_cache(4096)
def select_launch(kind: np.dtype, largest: bool, rows: int, length: int, k: int) -> Launch:
    """The launch on (elements, best elements or 0, places of those) that leaves the best k of each row in order."""
    room = max(2, 1 << (k - 1).bit_length())
    text = _SELECT.format(T=c_type(kind), K=_KEYS[kind.itemsize], key=_key_text(kind), best="" if largest else "(K)~",
                          room=room)
    threads = min(1024, max(32, -(-max(room // 2, min(length, 4096) // 4) // 32) * 32))
    return Launch(compiled(text, "select_rows"), "qqq", (rows,), (threads,), _fixed(length, k))
