"""Attention in tiles: scores stay in registers and never reach memory.

A warp owns 16 rows of a tile, or 32. While one tile is computed with, the next is on its way to shared memory.
"""

import ctypes
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import cupy
import numpy as np

from .launch import Launch, c_type, compiled
from .tiles import DOUBLES, HALVES, SINGLES, THREADS, TILES

_FORWARD = r"""
extern "C" __global__ void __launch_bounds__(128) attend(const T* q, const T* k, const T* v, const M* mask, T* out,
                                                         A* norms, double factor, int64 queries, int64 keys,
                                                         Places at) {
    T *qs = (T*)shared, *ks = qs + SPAN * STEP, *vs = ks + KEYS * STEP;
    int64 tile, batch, head;
    if (!placed(at, tile, batch, head)) return;
    if (CAUSAL) tile = at.tiles - 1 - tile;  // those with most keys first
    int64 start = tile * SPAN, first = start + WARP * 16 * TILES, of_key = head / at.group;
    q += batch * at.q[0] + head * at.q[1];
    k += batch * at.k[0] + of_key * at.k[1];
    v += batch * at.v[0] + of_key * at.v[1];
    out += batch * at.o[0] + head * at.o[1];
    mask += batch * at.mask[0] + head * at.mask[1];
    A scale = (A)factor, unit = (A)(MASK ? LOG2E : factor * LOG2E);
    A made[TILES][V_DEPTH / 8][4] = {}, top[TILES][2], total[TILES][2] = {};
    #pragma unroll
    for (int m = 0; m < TILES; ++m) top[m][0] = top[m][1] = NEVER;
    fetch<SPAN, WIDTH, DEPTH>(qs, q, at.q[2], start, queries);
    fetch<KEYS, WIDTH, DEPTH>(ks, k, at.k[2], 0, keys);
    int64 end = CAUSAL && start + SPAN < keys ? start + SPAN : keys;
    for (int64 j = 0; j < end; j += KEYS) {
        A s[TILES][KEYS / 8][4];
        arrive();
        fetch<KEYS, V_WIDTH, V_DEPTH>(vs, v, at.v[2], j, keys);
        match<KEYS, DEPTH>(s, qs + WARP * 16 * TILES * STEP, ks);
        arrive();
        if (j + KEYS < end) fetch<KEYS, WIDTH, DEPTH>(ks, k, at.k[2], j + KEYS, keys);
        if (MASK || j + KEYS > keys || (CAUSAL && j + KEYS > first + 1))
            #pragma unroll
            for (int m = 0; m < TILES; ++m)
                #pragma unroll
                for (int r = 0; r < 2; ++r) {
                    int64 row = first + m * 16 + r * 8 + ROW;
                    const M* line = mask + (row < queries ? row : queries - 1) * MASK_STEP;
                    #pragma unroll
                    for (int n = 0; n < KEYS / 8; ++n)
                        #pragma unroll
                        for (int e = 0; e < 2; ++e) {
                            int64 key = j + n * 8 + COLUMN + e;
                            bool seen = key < keys && (!CAUSAL || key <= row);
                            s[m][n][2 * r + e] = scored(s[m][n][2 * r + e], scale, line, key, seen);
                        }
                }
        #pragma unroll
        for (int m = 0; m < TILES; ++m)
            #pragma unroll
            for (int r = 0; r < 2; ++r) {
                A best = top[m][r];
                #pragma unroll
                for (int n = 0; n < KEYS / 8; ++n) best = larger(best, larger(s[m][n][2 * r], s[m][n][2 * r + 1]));
                best = larger(best, __shfl_xor_sync(0xffffffff, best, 1));
                best = larger(best, __shfl_xor_sync(0xffffffff, best, 2));
                A less = best == NEVER ? 0 : MASK ? best : best * unit, shrunk = weighed(top[m][r], less, 0, unit);
                top[m][r] = best;
                total[m][r] *= shrunk;
                #pragma unroll
                for (int n = 0; n < KEYS / 8; ++n)
                    #pragma unroll
                    for (int e = 2 * r; e < 2 * r + 2; ++e)
                        total[m][r] += s[m][n][e] = weighed(s[m][n][e], less, 0, unit);
                #pragma unroll
                for (int n = 0; n < V_DEPTH / 8; ++n) { made[m][n][2 * r] *= shrunk; made[m][n][2 * r + 1] *= shrunk; }
            }
        gather<KEYS, V_DEPTH>(made, s, vs, V_STEP, V_DEPTH);
    }
    A over[TILES][2];
    #pragma unroll
    for (int m = 0; m < TILES; ++m)
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            A all = total[m][r];
            all += __shfl_xor_sync(0xffffffff, all, 1);
            all += __shfl_xor_sync(0xffffffff, all, 2);
            int64 row = first + m * 16 + r * 8 + ROW;
            over[m][r] = all == 0 ? 0 : 1 / all;
            if (LANE % 4 == 0 && row < queries) {
                A* to = norms + (batch * at.heads + head) * queries + row;
                to[0] = all == 0 ? 0 : MASK ? top[m][r] : top[m][r] * scale;
                to[at.batch * at.heads * queries] = all == 0 ? -NEVER : logarithm(all);
            }
        }
    store<V_DEPTH>(out, at.o[2], made, first, queries, V_WIDTH, over);
}
"""

# What the sum over a row of weights times their gradients is, which all gradients need; and zeros to add to.
_BEGIN = r"""
extern "C" __global__ void __launch_bounds__(128) begin(const T* grad, const T* out, A* sums, A* of_query, int64 count,
                                                        int64 queries, Places at) {
    const int many = ALIGNED ? 16 / sizeof(T) : 1;
    int64 row = (int64)blockIdx.x * 16 + threadIdx.x / 8, heads = at.heads * at.group;
    int lane = threadIdx.x % 8;
    A sum = 0;
    if (row < count) {
        int64 which = row / queries, at_row = row % queries, batch = which / heads, head = which % heads;
        const T* g = grad + batch * at.grad[0] + head * at.grad[1] + at_row * at.grad[2];
        const T* o = out + batch * at.o[0] + head * at.o[1] + at_row * at.o[2];
        for (int c = lane * many; c < V_WIDTH; c += 8 * many) {
#if ALIGNED
            uint4 x = *(const uint4*)(g + c), y = *(const uint4*)(o + c);
            #pragma unroll
            for (int i = 0; i < many; ++i) sum += (A)widened(((const T*)&x)[i]) * (A)widened(((const T*)&y)[i]);
#else
            sum += (A)widened(g[c]) * (A)widened(o[c]);
#endif
        }
        for (int c = lane; c < WIDTH; c += 8) of_query[row * WIDTH + c] = 0;
    }
    for (int m = 1; m < 8; m *= 2) sum += __shfl_xor_sync(0xffffffff, sum, m);
    if (lane == 0 && row < count) sums[row] = sum;
}
"""

# A tile of keys a block, against tiles of 32 queries. A block makes at most 128 columns of the gradients.
_BACKWARD = r"""
#define SOME (DEPTH < 128 ? DEPTH : 128)
#define V_SOME (V_DEPTH < 128 ? V_DEPTH : 128)
#define D_STEP 40
__device__ inline void add(A* to, A low, A high, int left) {
#if WIDTH % 2 == 0 && __CUDA_ARCH__ >= 900
    if (sizeof(A) == 4) {
        if (left > 0) asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(to), "f"((float)low), "f"((float)high)
                                   : "memory");
        return;
    }
#endif
    if (left > 0) atomicAdd(to, low);
    if (left > 1) atomicAdd(to + 1, high);
}
extern "C" __global__ void __launch_bounds__(128) give_back(const T* grad, const T* q, const T* k, const T* v,
                                                            const M* mask, const A* norms, const A* sums,
                                                            A* of_query, T* of_key, T* of_value, double factor,
                                                            int64 queries, int64 keys, Places at) {
    T *ks = (T*)shared, *vs = ks + SPAN * STEP, *ds = vs + SPAN * V_STEP, *qs = ds + SPAN * D_STEP;
    T* gs = qs + STAGES * 32 * STEP;
    A *tops = (A*)(gs + STAGES * 32 * V_STEP), *logs = tops + STAGES * 32, *sum = logs + STAGES * 32;
    int64 tile, batch, head;
    if (!placed(at, tile, batch, head)) return;
    int base = CHUNKS > 1 ? blockIdx.y * 128 : 0;
    int64 start = tile * SPAN, first = start + WARP * 16 * TILES;
    k += batch * at.k[0] + head * at.k[1];
    v += batch * at.v[0] + head * at.v[1];
    A scale = (A)factor, unit = (A)(MASK ? LOG2E : factor * LOG2E);
    A keyed[TILES][SOME / 8][4] = {}, valued[TILES][V_SOME / 8][4] = {};
    fetch<SPAN, WIDTH, DEPTH>(ks, k, at.k[2], start, keys);
    fetch<SPAN, V_WIDTH, V_DEPTH>(vs, v, at.v[2], start, keys);
    int64 skipped = CAUSAL ? start / 32 : 0, each = (queries + 31) / 32 - skipped;
    int64 rounds = each > 0 ? each * at.group : 0;
    int64 at_head = head * at.group, i = skipped * 32, next_head = at_head, next = i;
    auto bring = [&](int stage) {  // the next tile of queries; then those of the next head that shares these keys
        const T *from = q + batch * at.q[0] + next_head * at.q[1];
        fetch<32, WIDTH, DEPTH>(qs + stage * 32 * STEP, from, at.q[2], next, queries);
        from = grad + batch * at.grad[0] + next_head * at.grad[1];
        fetch<32, V_WIDTH, V_DEPTH>(gs + stage * 32 * V_STEP, from, at.grad[2], next, queries);
        if (threadIdx.x < 32) {
            bool given = next + threadIdx.x < queries;
            int64 row = given ? (batch * at.heads * at.group + next_head) * queries + next + threadIdx.x : 0;
            copy<sizeof(A)>(tops + stage * 32 + threadIdx.x, norms + row, given);
            copy<sizeof(A)>(logs + stage * 32 + threadIdx.x, norms + at.batch * at.heads * at.group * queries + row,
                            given);
            copy<sizeof(A)>(sum + stage * 32 + threadIdx.x, sums + row, given);
        }
        next += 32;
        if (next >= queries) { next = skipped * 32; ++next_head; }
    };
    if (rounds) bring(0);
    for (int64 round = 0; round < rounds; ++round) {
        A s[TILES][4][4], g[TILES][4][4];
        int stage = STAGES > 1 ? round % 2 : 0;
        arrive();
        if (STAGES > 1 && round + 1 < rounds) bring(1 - stage);
        const T *q_tile = qs + stage * 32 * STEP, *g_tile = gs + stage * 32 * V_STEP;
        match<32, DEPTH>(s, ks + WARP * 16 * TILES * STEP, q_tile);
        match<32, V_DEPTH>(g, vs + WARP * 16 * TILES * V_STEP, g_tile);
        bool edge = MASK || start + SPAN > keys || (CAUSAL && i + 1 < first + 16 * TILES);
        const M* of_head = mask + batch * at.mask[0] + at_head * at.mask[1];
        #pragma unroll
        for (int n = 0; n < 4; ++n)
            #pragma unroll
            for (int e = 0; e < 2; ++e) {
                int own = n * 8 + COLUMN + e;
                A less = tops[stage * 32 + own], minus = logs[stage * 32 + own] * (A)LOG2E;
                if (!MASK) less = less * (A)LOG2E + minus;
                const M* line = of_head + (i + own < queries ? i + own : queries - 1) * MASK_STEP;
                #pragma unroll
                for (int m = 0; m < TILES; ++m)
                    #pragma unroll
                    for (int r = e; r < 4; r += 2) {
                        int64 key = first + m * 16 + r / 2 * 8 + ROW;
                        if (edge) {
                            bool seen = key < keys && i + own < queries && (!CAUSAL || key <= i + own);
                            s[m][n][r] = scored(s[m][n][r], scale, line, key, seen);
                        }
                        s[m][n][r] = weighed(s[m][n][r], less, minus, unit);
                        g[m][n][r] = s[m][n][r] * (g[m][n][r] - sum[stage * 32 + own]);
                    }
            }
        gather<32, V_SOME>(valued, s, g_tile + base, V_STEP, V_DEPTH - base);
        #pragma unroll
        for (int m = 0; m < TILES; ++m)
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                A* from = g[m][n / 2] + n % 2 * 2;
                T* to = ds + ((WARP * TILES + m) * 16 + n % 2 * 8 + ROW) * D_STEP + n / 2 * 8 + COLUMN;
                *(pair*)to = joined(from[0], from[1]);
            }
        gather<32, SOME>(keyed, g, q_tile + base, STEP, DEPTH - base);
        __syncthreads();
        A made[(SOME + 31) / 32][2][4] = {};  // 16 of the queries, every second 16 columns
        #pragma unroll
        for (int j = 0; j < SPAN; j += 16) {
            pair x[4], y[4];
            turned(x, ds + j * D_STEP + WARP % 2 * 16, D_STEP);
            #pragma unroll
            for (int n = 0; n < (SOME + 31) / 32; ++n) {
                int column = base + (n * 2 + WARP / 2) * 16;
                if (column < DEPTH) {
                    across(y, ks + j * STEP + column, STEP);
                    multiply(made[n][0], x, y);
                    multiply(made[n][1], x, y + 2);
                }
            }
        }
        int64 rows_before = (batch * at.heads * at.group + at_head) * queries;
        #pragma unroll
        for (int n = 0; n < (SOME + 31) / 32; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                int column = base + (n * 2 + WARP / 2) * 16 + e / 2 * 8 + COLUMN;
                int64 row = i + WARP % 2 * 16 + e % 2 * 8 + ROW;
                A* from = made[n][e / 2] + e % 2 * 2;
                if (row < queries)
                    add(of_query + (rows_before + row) * WIDTH + column, from[0] * scale, from[1] * scale,
                        WIDTH - column);
            }
        i += 32;
        if (i >= queries) { i = skipped * 32; ++at_head; }
        if (STAGES == 1 && round + 1 < rounds) {
            __syncthreads();
            bring(0);
        }
    }
    A scales[TILES][2], ones[TILES][2];
    #pragma unroll
    for (int m = 0; m < TILES; ++m) { scales[m][0] = scales[m][1] = scale; ones[m][0] = ones[m][1] = 1; }
    int64 rows_before = (batch * at.heads + head) * keys;
    store<SOME>(of_key + rows_before * WIDTH + base, WIDTH, keyed, first, keys, WIDTH - base, scales);
    store<V_SOME>(of_value + rows_before * V_WIDTH + base, V_WIDTH, valued, first, keys, V_WIDTH - base, ones);
}
"""

_TEXTS = {"attend": _FORWARD, "begin": _BEGIN, "give_back": _BACKWARD}
_LARGEST_SHARED = 97  # the attribute of a device: the bytes that a block may take when it asks
_CACHED = 24 << 20  # bytes of keys and values that are expected to stay in the cache


class Problem(NamedTuple):
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


class Mask(NamedTuple):
    """A mask's type, and its steps in elements over batch, heads, queries and keys; the last is 0 or 1."""

    kind: np.dtype
    steps: tuple[int, ...]


class _Tiling(NamedTuple):
    tiles: int  # 16 rows each, of a warp
    keys: int  # that the forward kernel fetches together
    stages: int
    nbytes: int


def _deep(width: int) -> int:
    return -(-width // 16) * 16


@functools.cache
def _allowed(device: int) -> int:
    return cupy.cuda.runtime.deviceGetAttribute(_LARGEST_SHARED, device)


def _tiling(name: str, problem: Problem, device: int) -> _Tiling | None:
    """How a kernel cuts the problem; None where shared memory does not suffice."""
    size, depth, v_depth = problem.kind.itemsize, _deep(problem.width), _deep(problem.v_width)
    deepest, both = max(depth, v_depth), depth + v_depth + 16
    if name == "begin":
        return _Tiling(1, 0, 0, 0)
    choices = []
    if name == "attend":
        tiles = 2 if size == 2 and deepest <= 128 and problem.queries > 64 else 1
        keys = 64 if size == 2 or (size == 4 and deepest <= 128) else 32
        choices.append(_Tiling(tiles, keys, 1, (64 * tiles * (depth + 8) + keys * both) * size))
    else:
        tiles = 2 if size == 2 and deepest <= 64 and problem.keys > 64 else 1
        for stages in (2, 1):
            elements = 64 * tiles * (both + 40) + stages * 32 * both
            choices.append(_Tiling(tiles, 0, stages, elements * size + stages * 96 * max(size, 4)))
    return next((each for each in choices if each.nbytes <= _allowed(device)), None)


def fits(problem: Problem, device: int) -> bool:
    """Whether the kernels take such a call, forward and backward."""
    most = max(problem.width, problem.v_width)
    return most <= 256 and problem.scale > 0 and all(_tiling(name, problem, device) for name in _TEXTS)


@functools.cache
def _kernel(name: str, kind: np.dtype, widths: tuple[int, int], tiling: _Tiling, causal: bool, aligned: bool,
            mask: tuple[np.dtype, int, bool] | None) -> Any:
    half = {"float16": "f16", "bfloat16": "bf16"}.get(kind.name)
    products = (HALVES.replace("KIND2", f"{half}x2").replace("KIND", half) if half
                else DOUBLES if kind.itemsize == 8 else SINGLES)
    masked, step, over_queries = mask or (np.dtype(np.bool_), 0, False)
    numbers = {"WIDTH": widths[0], "V_WIDTH": widths[1], "DEPTH": _deep(widths[0]), "V_DEPTH": _deep(widths[1]),
               "CAUSAL": int(causal), "ALIGNED": int(aligned), "TILES": tiling.tiles, "KEYS": tiling.keys or 16,
               "STAGES": tiling.stages, "CHUNKS": -(-max(widths) // 128),
               "MASK": 0 if mask is None else 1 if masked.kind == "b" else 2, "NEXT": step,
               "MASK_STEP": "at.mask[2]" if over_queries else 0}
    lines = "".join(f"#define {key} {value}\n" for key, value in numbers.items())
    made = compiled(f"typedef {c_type(kind)} T;\ntypedef {'double' if kind.itemsize == 8 else 'float'} A;\n"
                    f"typedef {c_type(masked)} M;\n{lines}{THREADS}{products}{TILES}{_TEXTS[name]}", name)
    if tiling.nbytes > 40 << 10:
        made.max_dynamic_shared_size_bytes = tiling.nbytes
    return made


def launch_of(name: str, problem: Problem, device: int, aligned: bool, steps: Sequence[Sequence[int]],
              mask: Mask | None) -> Launch:
    """A launch for pointers; `steps` are strides in elements of q, k, v, output and the output's gradient."""
    tiling = _tiling(name, problem, device)
    assert tiling is not None
    widths, row = (problem.width, problem.v_width), (0, 0, 0, 0) if mask is None else mask.steps
    made = _kernel(name, problem.kind, widths, tiling, problem.causal, aligned,
                   None if mask is None else (mask.kind, row[3], row[2] != 0))
    heads = problem.heads if name == "attend" else problem.heads // problem.group
    tiles = -(-(problem.queries if name == "attend" else problem.keys) // (64 * tiling.tiles))
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
