"""C of the kernels of batch and group norm, in both memory formats; batch_norm.py launches them."""

from ..launch import PACKS

COMMON = PACKS + r"""
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
// Whether all other parts have been written: the block that is told so puts them together, in the order of the parts.
__device__ inline bool is_last(unsigned* counter, int64 parts) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        last = atomicAdd(counter, 1u) == (unsigned)parts - 1;
        if (last) *counter = 0;  // as the next kernel wants it
    }
    __syncthreads();
    __threadfence();
    return last;
}
#if BACK
__device__ inline void conclude(gathered total, int64 own, const W* weight, gathered* shared_by, W* of_weight,
                                W* of_bias) {
    if (of_weight) of_weight[own] = narrow<W>::of(total.along);
    if (of_bias) of_bias[own] = narrow<W>::of(total.all);
    A w = weight ? (A)widened(weight[own]) : (A)1;
    total.along *= w; total.all *= w;
    shared_by[own] = total;
}
#define CONCLUDED weight, shared_by, of_weight, of_bias
#else
__device__ inline void conclude(gathered total, int64 own, A* means, A* rstds, double eps) {
    means[own] = total.mean;
    rstds[own] = 1 / SQRT(total.square / total.count + (A)eps);
}
#define CONCLUDED means, rstds, eps
#endif
"""

# The parameters of `fold` and `scale`, backward or not.
FOLDED = {True: "const T* x, const T* grad, const A* means, const A* rstds, gathered* out, unsigned* counters, "
                "const W* weight, gathered* shared_by, W* of_weight, W* of_bias",
          False: "const T* x, A* means, A* rstds, gathered* out, unsigned* counters, double eps"}
NEEDED = {True: "const T* x, const T* grad, const A* means, const A* rstds, const W* weight, "
                "const gathered* shared_by, T* out, double count",
          False: "const T* x, const M* means, const M* spreads, const W* weight, const B* bias, T* out, double eps"}

# What a thread knows of a channel, and what becomes of an element.
SCALING = r"""
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
PLANES = r"""
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

"""
FOLD_PLANES = r"""
__device__ inline gathered of_block(gathered total) {
    __shared__ gathered warps[32];
    total = of_warp(total);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int k = 1; k < blockDim.x / 32; ++k) total = joined(total, warps[k]);
    return total;
}
extern "C" __global__ void fold(FOLDED, space s) {
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
    total = of_block(total);
#if BACK
    total.along *= rstds[channel / s.per];
#endif
    if (threadIdx.x == 0) out[channel * s.parts + part] = total;
#if CONCLUDES
    if (!is_last(counters + channel, s.parts)) return;
    total = nothing();
    for (int64 i = threadIdx.x; i < s.parts; i += blockDim.x) total = joined(total, out[channel * s.parts + i]);
    total = of_block(total);
    if (threadIdx.x == 0) conclude(total, channel, CONCLUDED);
#endif
}
"""
SCALE_PLANES = r"""
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

# A block has V channels for each x, and some of the rows for each y: all blocks go through the rows together, from the
# first to the last (fold) or back (scale), since what the pass before has read last is still in the cache.
ROWS = r"""
#define BEGIN \
    int64 across = (s.channels + blockDim.x * V - 1) / (blockDim.x * V), rest = blockIdx.x / across; \
    int64 column = (blockIdx.x % across * blockDim.x + threadIdx.x) * V, part = rest % s.parts; \
    int64 sample = rest / s.parts, start = part * blockDim.y + threadIdx.y, step = s.parts * blockDim.y; \
    int64 jump = step * s.channels; \
    int64 statistics = sample * (s.channels / s.per), base = sample * s.length * s.channels + column; \
    bool inside = column < s.channels;
#define PLACES(code) \
    int taken = 0; \
    _Pragma("unroll") for (int u = 0; u < U; ++u) { \
        if (row + u * step < s.length) { int64 at = base + row * s.channels + u * jump; code; taken = u + 1; } \
    }
"""
FOLD_ROWS = r"""
#if BACK
struct columns { A along[V], all[V], unused; };  // an odd size spreads them over the banks of shared memory
__device__ inline columns no_columns() {
    columns r;
    for (int j = 0; j < V; ++j) r.along[j] = r.all[j] = 0;
    return r;
}
__device__ inline void join(columns& a, const columns& b) {
    for (int j = 0; j < V; ++j) { a.along[j] += b.along[j]; a.all[j] += b.all[j]; }
}
__device__ inline gathered one_of(const columns& a, int j) {
    gathered r; r.along = a.along[j]; r.all = a.all[j];
    return r;
}
#else
struct columns { A mean[V], square[V], count; };
__device__ inline columns no_columns() {
    columns r;
    for (int j = 0; j < V; ++j) r.mean[j] = r.square[j] = 0;
    r.count = 0;
    return r;
}
__device__ inline void join(columns& a, const columns& b) {
    if (b.count == 0) return;
    A count = a.count + b.count, share = b.count / count, both = a.count * share;
    for (int j = 0; j < V; ++j) {
        A off = b.mean[j] - a.mean[j];
        a.mean[j] += off * share;
        a.square[j] += b.square[j] + off * off * both;
    }
    a.count = count;
}
__device__ inline gathered one_of(const columns& a, int j) {
    gathered r; r.count = a.count; r.mean = a.mean[j]; r.square = a.square[j];
    return r;
}
#endif
__device__ inline columns of_block(columns total, columns* held_by) {
    int own = threadIdx.y * blockDim.x + threadIdx.x;
    held_by[own] = total;
    for (int half = blockDim.y / 2; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.y < half) { join(total, held_by[own + half * blockDim.x]); held_by[own] = total; }
    }
    return total;
}
extern "C" __global__ void __launch_bounds__(256, 4) fold(FOLDED, space s) {
    __shared__ columns held_by[256];
    BEGIN
    columns total = no_columns();
#if BACK
    A mean[V];
    for (int j = 0; j < V; ++j) mean[j] = inside ? means[statistics + (column + j) / s.per] : (A)0;
#endif
    if (inside) for (int64 row = start; row < s.length; row += U * step) {
        group held[U];
#if BACK
        group grads[U];
        PLACES(held[u] = *(const group*)(x + at); grads[u] = *(const group*)(grad + at))
        #pragma unroll
        EACH(u, j) {
            A g = (A)widened(grads[u].v[j]);
            total.all[j] += g;
            total.along[j] += g * ((A)widened(held[u].v[j]) - mean[j]);
        }
#else
        PLACES(held[u] = *(const group*)(x + at))
        A one = (A)1 / taken, count = total.count + taken, share = taken / count, both = total.count * share;
        total.count = count;
        #pragma unroll
        for (int j = 0; j < V; ++j) {
            A mean = 0, square = 0;
            for (int u = 0; u < U; ++u) if (u < taken) mean += (A)widened(held[u].v[j]);
            mean *= one;
            for (int u = 0; u < U; ++u) if (u < taken) {
                A off = (A)widened(held[u].v[j]) - mean;
                square += off * off;
            }
            A off = mean - total.mean[j];
            total.mean[j] += off * share;
            total.square[j] += square + off * off * both;
        }
#endif
    }
    total = of_block(total, held_by);
    if (threadIdx.y == 0 && inside) {
#if BACK
        for (int j = 0; j < V; ++j) total.along[j] *= rstds[statistics + (column + j) / s.per];
#endif
#if CONCLUDES
        ((columns*)out)[part * (s.channels / V) + column / V] = total;
#else
        for (int j = 0; j < V; ++j) out[(sample * s.channels + column + j) * s.parts + part] = one_of(total, j);
#endif
    }
#if CONCLUDES
    if (!is_last(counters + blockIdx.x % across, s.parts)) return;
    total = no_columns();
    if (inside)
        for (int64 i = threadIdx.y; i < s.parts; i += blockDim.y)
            join(total, ((const columns*)out)[i * (s.channels / V) + column / V]);
    total = of_block(total, held_by);
    if (threadIdx.y == 0 && inside)
        for (int j = 0; j < V; ++j) conclude(one_of(total, j), column + j, CONCLUDED);
#endif
}
"""
SCALE_ROWS = r"""
extern "C" __global__ void __launch_bounds__(256, 3) scale(NEEDED, space s) {
    BEGIN
    if (!inside) return;
    scaling how[V];
    for (int j = 0; j < V; ++j) how[j].read(PASSED, statistics + (column + j) / s.per, column + j);
    for (int64 row = start + (s.length - 1 - start) / (U * step) * (U * step); row >= 0; row -= U * step) {
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
            if (u < taken) *(group*)(out + base + row * s.channels + u * jump) = held[u];
    }
}
"""

# A warp puts the parts of a statistic together; backward, further warps have a channel's parameters each.
SETTLE = r"""
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
SETTLE_BACK = r"""
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
RUNNING = r"""
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
