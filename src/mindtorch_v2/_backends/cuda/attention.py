"""Attention in tiles of 64 queries and 64 keys: scores stay in registers and never reach memory.

Products run on the tensor cores: of half types directly, of float32 as three products of 19-bit parts, which keeps
float32's precision. A warp owns 16 rows of a tile; fragments lie as `mma` wants them, with pairs of columns together.
"""

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .launch import Launch, c_type, compiled

_HALVES = r"""
typedef unsigned int pair;
__device__ inline pair near(const T* p) { return *(const pair*)p; }
__device__ inline pair apart(const T* p, int step) { return (pair)p[0].bits | (pair)p[step].bits << 16; }
__device__ inline pair joined(float low, float high) {
    pair made;
    asm("cvt.rn.KIND2.f32 %0, %1, %2;" : "=r"(made) : "f"(high), "f"(low));
    return made;
}
__device__ inline void multiply(float* c, const pair* a, const pair* b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.KIND.KIND.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
"""

_SINGLES = r"""
struct __align__(8) pair { float low, high; };
__device__ inline pair near(const T* p) { return *(const pair*)p; }
__device__ inline pair joined(float low, float high) { pair made; made.low = low; made.high = high; return made; }
__device__ inline pair apart(const T* p, int step) { return joined(p[0], p[step]); }
__device__ inline unsigned int leading(float x) {
    unsigned int made;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(made) : "f"(x));
    return made;
}
__device__ inline void multiply_parts(float* c, const unsigned int* a, const unsigned int* b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void multiply(float* c, const pair* a, const pair* b) {
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        float x[4] = {a[2 * half].low, a[2 * half + 1].low, a[2 * half].high, a[2 * half + 1].high};
        float y[2] = {b[half].low, b[half].high};
        unsigned int large_x[4], small_x[4], large_y[2], small_y[2];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            large_x[i] = leading(x[i]);
            small_x[i] = leading(x[i] - __int_as_float((int)large_x[i]));
        }
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            large_y[i] = leading(y[i]);
            small_y[i] = leading(y[i] - __int_as_float((int)large_y[i]));
        }
        multiply_parts(c, small_x, large_y);
        multiply_parts(c, large_x, small_y);
        multiply_parts(c, large_x, large_y);
    }
}
"""

_TILES = r"""
#define STEP (DEPTH + 8)
#define NEVER (-__int_as_float(0x7f800000))
#define LANE (threadIdx.x % 32)
#define ROW (LANE / 4)
#define COLUMN (LANE % 4 * 2)
struct Places { int64 q[3], k[3], v[3], o[3]; };
extern __shared__ __align__(16) unsigned char shared[];

__device__ inline const T* head(const T* p, const int64* step) {
    return p + blockIdx.z * step[0] + blockIdx.y * step[1];
}

// 64 rows from `first`; zeros after the last row and column.
__device__ inline void fetch(T* to, const T* from, int64 step, int64 first, int64 rows) {
#if ALIGNED
    const int many = 16 / sizeof(T);
    for (int i = threadIdx.x; i < 64 * (DEPTH / many); i += 128) {
        int r = i / (DEPTH / many), c = i % (DEPTH / many) * many;
        uint4 x = {0, 0, 0, 0};
        if (first + r < rows) x = *(const uint4*)(from + (first + r) * step + c);
        *(uint4*)(to + r * STEP + c) = x;
    }
#else
    for (int i = threadIdx.x; i < 64 * DEPTH; i += 128) {
        int r = i / DEPTH, c = i % DEPTH;
        T x = narrow<T>::of(0.0f);
        if (first + r < rows && c < WIDTH) x = from[(first + r) * step + c];
        to[r * STEP + c] = x;
    }
#endif
}

// c = a b': 16 rows against 64.
__device__ inline void match(float (*c)[4], const T* a, const T* b) {
    #pragma unroll
    for (int n = 0; n < 8; ++n)
        for (int e = 0; e < 4; ++e) c[n][e] = 0;
    #pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        const T* p = a + ROW * STEP + k + COLUMN;
        pair x[4] = {near(p), near(p + 8 * STEP), near(p + 8), near(p + 8 * STEP + 8)};
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            const T* o = b + (n * 8 + ROW) * STEP + k + COLUMN;
            pair y[2] = {near(o), near(o + 8)};
            multiply(c[n], x, y);
        }
    }
}

// c += a b, where a are 16 rows of 64 as `match` leaves them, and b 64 rows.
__device__ inline void gather(float (*c)[4], float (*a)[4], const T* b) {
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        float *low = a[2 * k], *high = a[2 * k + 1];
        pair x[4] = {joined(low[0], low[1]), joined(low[2], low[3]), joined(high[0], high[1]),
                     joined(high[2], high[3])};
        const T* o = b + (k * 16 + COLUMN) * STEP + ROW;
        #pragma unroll
        for (int n = 0; n < DEPTH / 8; ++n) {
            pair y[2] = {apart(o + n * 8, STEP), apart(o + 8 * STEP + n * 8, STEP)};
            multiply(c[n], x, y);
        }
    }
}

__device__ inline float summed(float x) {
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

__device__ inline void store(T* out, const int64* step, float (*c)[4], int64 first, int64 rows, float one, float two) {
    out += blockIdx.z * step[0] + blockIdx.y * step[1];
    #pragma unroll
    for (int n = 0; n < DEPTH / 8; ++n)
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            int64 row = first + ROW + e / 2 * 8;
            int column = n * 8 + COLUMN + e % 2;
            if (row < rows && column < WIDTH)
                out[row * step[2] + column] = narrow<T>::of(c[n][e] * (e < 2 ? one : two));
        }
}
"""

_FORWARD = _TILES + r"""
extern "C" __global__ void __launch_bounds__(128) attend(const T* q, const T* k, const T* v, T* out, float* log_sums,
                                                         double factor, int64 queries, int64 keys, Places at) {
    T *qs = (T*)shared, *ks = qs + 64 * STEP, *vs = ks + 64 * STEP;
    int64 start = (int64)blockIdx.x * 64, first = start + threadIdx.x / 32 * 16;
    float scale = (float)(factor * 1.4426950408889634), made[DEPTH / 8][4] = {}, top[2] = {NEVER, NEVER}, total[2] = {};
    fetch(qs, head(q, at.q), at.q[2], start, queries);
    int64 end = CAUSAL && start + 64 < keys ? start + 64 : keys;
    for (int64 j = 0; j < end; j += 64) {
        float s[8][4];
        __syncthreads();
        fetch(ks, head(k, at.k), at.k[2], j, keys);
        fetch(vs, head(v, at.v), at.v[2], j, keys);
        __syncthreads();
        match(s, qs + threadIdx.x / 32 * 16 * STEP, ks);
        #pragma unroll
        for (int n = 0; n < 8; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                int64 key = j + n * 8 + COLUMN + e % 2;
                s[n][e] = key < keys && (!CAUSAL || key <= first + ROW + e / 2 * 8) ? s[n][e] * scale : NEVER;
            }
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            float best = top[r];
            #pragma unroll
            for (int n = 0; n < 8; ++n) best = fmaxf(best, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
            best = fmaxf(best, __shfl_xor_sync(0xffffffff, best, 1));
            best = fmaxf(best, __shfl_xor_sync(0xffffffff, best, 2));
            float less = best == NEVER ? 0 : best, shrunk = exp2f(top[r] - less);
            top[r] = best;
            total[r] *= shrunk;
            #pragma unroll
            for (int n = 0; n < 8; ++n)
                #pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; ++e) total[r] += s[n][e] = exp2f(s[n][e] - less);
            #pragma unroll
            for (int n = 0; n < DEPTH / 8; ++n) { made[n][2 * r] *= shrunk; made[n][2 * r + 1] *= shrunk; }
        }
        gather(made, s, vs);
    }
    float over[2];
    for (int r = 0; r < 2; ++r) {
        float all = summed(total[r]);
        int64 row = first + ROW + r * 8;
        over[r] = all == 0 ? 0 : 1 / all;
        if (LANE % 4 == 0 && row < queries)
            log_sums[((int64)blockIdx.z * gridDim.y + blockIdx.y) * queries + row] =
                all == 0 ? -NEVER : (top[r] + log2f(all)) * 0.6931471805599453f;
    }
    store(out, at.o, made, first, queries, over[0], over[1]);
}
"""

# The gradient of the queries, a tile of queries a block; it leaves what the sum over a row of weights times their
# gradients is, which the gradients of keys and values need.
_OF_QUERIES = _TILES + r"""
extern "C" __global__ void __launch_bounds__(128) of_queries(const T* grad, const T* q, const T* k, const T* v,
                                                             const float* log_sums, T* out, float* sums, double factor,
                                                             int64 queries, int64 keys, Places at) {
    T *qs = (T*)shared, *gs = qs + 64 * STEP, *ks = gs + 64 * STEP, *vs = ks + 64 * STEP;
    int64 start = (int64)blockIdx.x * 64, first = start + threadIdx.x / 32 * 16;
    int64 rows = ((int64)blockIdx.z * gridDim.y + blockIdx.y) * queries;
    float scale = (float)(factor * 1.4426950408889634), made[DEPTH / 8][4] = {}, less[2], sum[2] = {};
    for (int r = 0; r < 2; ++r)
        less[r] = first + ROW + r * 8 < queries ? log_sums[rows + first + ROW + r * 8] * 1.4426950408889634f : -NEVER;
    fetch(qs, head(q, at.q), at.q[2], start, queries);
    fetch(gs, head(grad, at.o), at.o[2], start, queries);
    int64 end = CAUSAL && start + 64 < keys ? start + 64 : keys;
    for (int pass = 0; pass < 2; ++pass) {
        for (int64 j = 0; j < end; j += 64) {
            float s[8][4], g[8][4];
            __syncthreads();
            fetch(ks, head(k, at.k), at.k[2], j, keys);
            fetch(vs, head(v, at.v), at.v[2], j, keys);
            __syncthreads();
            match(s, qs + threadIdx.x / 32 * 16 * STEP, ks);
            match(g, gs + threadIdx.x / 32 * 16 * STEP, vs);
            #pragma unroll
            for (int n = 0; n < 8; ++n)
                #pragma unroll
                for (int e = 0; e < 4; ++e) {
                    int64 key = j + n * 8 + COLUMN + e % 2;
                    bool seen = key < keys && (!CAUSAL || key <= first + ROW + e / 2 * 8);
                    float weight = seen ? exp2f(s[n][e] * scale - less[e / 2]) : 0;
                    if (pass == 0) sum[e / 2] += weight * g[n][e];
                    else s[n][e] = weight * (g[n][e] - sum[e / 2]);
                }
            if (pass) gather(made, s, ks);
        }
        if (pass == 0)
            for (int r = 0; r < 2; ++r) {
                sum[r] = summed(sum[r]);
                if (LANE % 4 == 0 && first + ROW + r * 8 < queries) sums[rows + first + ROW + r * 8] = sum[r];
            }
    }
    int64 dense[3] = {gridDim.y * queries * WIDTH, queries * WIDTH, WIDTH};
    store(out, dense, made, first, queries, (float)factor, (float)factor);
}
"""

_OF_KEYS = _TILES + r"""
extern "C" __global__ void __launch_bounds__(128) of_keys(const T* grad, const T* q, const T* k, const T* v,
                                                          const float* log_sums, const float* sums, T* of_key,
                                                          T* of_value, double factor, int64 queries, int64 keys,
                                                          Places at) {
    T *ks = (T*)shared, *vs = ks + 64 * STEP, *qs = vs + 64 * STEP, *gs = qs + 64 * STEP;
    __shared__ float less[64], sum[64];
    int64 start = (int64)blockIdx.x * 64, first = start + threadIdx.x / 32 * 16;
    int64 rows = ((int64)blockIdx.z * gridDim.y + blockIdx.y) * queries;
    float scale = (float)(factor * 1.4426950408889634), keyed[DEPTH / 8][4] = {}, valued[DEPTH / 8][4] = {};
    fetch(ks, head(k, at.k), at.k[2], start, keys);
    fetch(vs, head(v, at.v), at.v[2], start, keys);
    for (int64 i = CAUSAL ? start : 0; i < queries; i += 64) {
        float s[8][4], g[8][4];
        __syncthreads();
        fetch(qs, head(q, at.q), at.q[2], i, queries);
        fetch(gs, head(grad, at.o), at.o[2], i, queries);
        if (threadIdx.x < 64) {
            bool known = i + threadIdx.x < queries;
            less[threadIdx.x] = known ? log_sums[rows + i + threadIdx.x] * 1.4426950408889634f : -NEVER;
            sum[threadIdx.x] = known ? sums[rows + i + threadIdx.x] : 0;
        }
        __syncthreads();
        match(s, ks + threadIdx.x / 32 * 16 * STEP, qs);
        match(g, vs + threadIdx.x / 32 * 16 * STEP, gs);
        #pragma unroll
        for (int n = 0; n < 8; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                int own = n * 8 + COLUMN + e % 2;
                bool seen = i + own < queries && (!CAUSAL || first + ROW + e / 2 * 8 <= i + own);
                s[n][e] = seen ? exp2f(s[n][e] * scale - less[own]) : 0;
                g[n][e] = s[n][e] * (g[n][e] - sum[own]);
            }
        gather(valued, s, gs);
        gather(keyed, g, qs);
    }
    int64 dense[3] = {gridDim.y * keys * WIDTH, keys * WIDTH, WIDTH};
    store(of_key, dense, keyed, first, keys, (float)factor, (float)factor);
    store(of_value, dense, valued, first, keys, 1, 1);
}
"""

_SOURCES = {"attend": (_FORWARD, 3, 5), "of_queries": (_OF_QUERIES, 4, 7), "of_keys": (_OF_KEYS, 4, 8)}
MOST = 128  # columns of a head


@functools.cache
def _kernel(name: str, kind: np.dtype, width: int, causal: bool, aligned: bool) -> tuple[Any, int]:
    """The kernel, and the bytes that its tiles take."""
    depth, (text, tiles, _) = -(-width // 16) * 16, _SOURCES[name]
    half = {"float16": "f16", "bfloat16": "bf16"}.get(kind.name)
    products = _SINGLES if half is None else _HALVES.replace("KIND2", f"{half}x2").replace("KIND", half)
    made = compiled(f"typedef {c_type(kind)} T;\n#define WIDTH {width}\n#define DEPTH {depth}\n"
                    f"#define CAUSAL {causal:d}\n#define ALIGNED {aligned:d}\n{products}{text}", name)
    nbytes = tiles * 64 * (depth + 8) * kind.itemsize
    if nbytes > 40 << 10:
        made.max_dynamic_shared_size_bytes = nbytes
    return made, nbytes


def launch_of(name: str, kind: np.dtype, shape: Sequence[int], causal: bool, aligned: bool, scale: float,
              steps: Sequence[Sequence[int]]) -> Launch:
    """The launch for (batch, heads, queries, keys, width); `steps` are strides in elements of q, k, v, output."""
    batch, heads, queries, keys, width = shape
    made, nbytes = _kernel(name, kind, width, causal, aligned)
    tiles = -(-(keys if name == "of_keys" else queries) // 64)
    places = (ctypes.c_longlong * 12)(*(s for each in steps for s in each))
    fixed = ctypes.c_double(scale), ctypes.c_longlong(queries), ctypes.c_longlong(keys), places
    return Launch(made, "q" * _SOURCES[name][2], (tiles, heads, batch), (128,), fixed, nbytes)
