"""The CUDA text of attention's kernels (attention.py).

Products run on the tensor cores: of half types and float64 directly, of float32 as three products of 19-bit parts,
which keeps float32's precision. Fragments lie as `mma` wants them, with pairs of columns together.
"""

THREADS = r"""
#define LANE (threadIdx.x % 32)
#define WARP (threadIdx.x / 32)
#define ROW (LANE / 4)
#define COLUMN (LANE % 4 * 2)
extern __shared__ __align__(16) unsigned char shared[];
__device__ inline unsigned int place(const void* p) { return (unsigned int)__cvta_generic_to_shared(p); }
"""

# Fragments of 16 x 16 elements: `rows` of the left factor, `columns` of the right one's transpose, `across` of the
# right one, `turned` of the left one's transpose.
HALVES = r"""
typedef unsigned int pair;
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
__device__ inline void read(pair* made, const T* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(made[0]), "=r"(made[1]), "=r"(made[2]), "=r"(made[3]) : "r"(place(p)));
}
__device__ inline void read_turned(pair* made, const T* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(made[0]), "=r"(made[1]), "=r"(made[2]), "=r"(made[3]) : "r"(place(p)));
}
__device__ inline void rows(pair* made, const T* p, int step) { read(made, p + LANE % 16 * step + LANE / 16 * 8); }
__device__ inline void columns(pair* made, const T* p, int step) {
    read(made, p + (LANE % 8 + LANE / 16 * 8) * step + LANE / 8 % 2 * 8);
}
__device__ inline void across(pair* made, const T* p, int step) {
    read_turned(made, p + LANE % 16 * step + LANE / 16 * 8);
}
__device__ inline void turned(pair* made, const T* p, int step) {
    read_turned(made, p + (LANE % 8 + LANE / 16 * 8) * step + LANE / 8 % 2 * 8);
}
"""

_WHOLES = r"""
struct __align__(2 * sizeof(T)) pair { T low, high; };
__device__ inline pair joined(T low, T high) { pair made; made.low = low; made.high = high; return made; }
__device__ inline pair near(const T* p) { return *(const pair*)p; }
__device__ inline pair apart(const T* p, int step) { return joined(p[0], p[step]); }
__device__ inline void rows(pair* made, const T* p, int step) {
    p += ROW * step + COLUMN;
    made[0] = near(p); made[1] = near(p + 8 * step); made[2] = near(p + 8); made[3] = near(p + 8 * step + 8);
}
__device__ inline void columns(pair* made, const T* p, int step) {
    p += ROW * step + COLUMN;
    made[0] = near(p); made[1] = near(p + 8); made[2] = near(p + 8 * step); made[3] = near(p + 8 * step + 8);
}
__device__ inline void across(pair* made, const T* p, int step) {
    p += COLUMN * step + ROW;
    made[0] = apart(p, step); made[1] = apart(p + 8 * step, step);
    made[2] = apart(p + 8, step); made[3] = apart(p + 8 * step + 8, step);
}
__device__ inline void turned(pair* made, const T* p, int step) {
    p += COLUMN * step + ROW;
    made[0] = apart(p, step); made[1] = apart(p + 8, step);
    made[2] = apart(p + 8 * step, step); made[3] = apart(p + 8 * step + 8, step);
}
"""

SINGLES = (
    _WHOLES
    + r"""
__device__ inline unsigned int leading(float x) { return ((unsigned int)__float_as_int(x) + 0x1000) & 0xffffe000; }
__device__ inline unsigned int rest(float x) {
    return (unsigned int)__float_as_int(x - __int_as_float((int)leading(x)));
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
        for (int i = 0; i < 4; ++i) { large_x[i] = leading(x[i]); small_x[i] = rest(x[i]); }
        #pragma unroll
        for (int i = 0; i < 2; ++i) { large_y[i] = leading(y[i]); small_y[i] = rest(y[i]); }
        multiply_parts(c, small_x, large_y);
        multiply_parts(c, large_x, small_y);
        multiply_parts(c, large_x, large_y);
    }
}
"""
)

DOUBLES = (
    _WHOLES
    + r"""
__device__ inline void multiply_four(double* c, double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[0]), "+d"(c[1]) : "d"(a), "d"(b));
}
__device__ inline void multiply(double* c, const pair* a, const pair* b) {
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        multiply_four(c + i % 2 * 2, a[i].low, b[i / 2].low);
        multiply_four(c + i % 2 * 2, a[i].high, b[i / 2].high);
    }
}
"""
)

TILES = r"""
#define STEP (DEPTH + 8)
#define V_STEP (V_DEPTH + 8)
#define SPAN (64 * TILES / PARTS)
#define LOG2E 1.4426950408889634
#define NEVER ((A)-__int_as_float(0x7f800000))

__device__ inline float power_of_two(float x) {
    float made; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(made) : "f"(x)); return made;
}
__device__ inline double power_of_two(double x) { return exp2(x); }
__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }
__device__ inline float larger(float x, float y) { return fmaxf(x, y); }
__device__ inline double larger(double x, double y) { return fmax(x, y); }

template <int BYTES> __device__ inline void copy(void* to, const void* from, bool given) {
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(place(to)), "l"(from), "r"(given ? 16 : 0));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;"
                     :: "r"(place(to)), "l"(from), "r"(given ? BYTES : 0), "n"(BYTES));
}

// What was fetched is there for all threads, and all have finished with what they read before.
__device__ inline void arrive() {
    asm volatile("cp.async.wait_all;");
    __syncthreads();
}

// COUNT rows from `first`; zeros after the last row and column.
template <int COUNT, int WIDE, int DEEP>
__device__ inline void fetch(T* to, const T* from, int64 step, int64 first, int64 rows) {
    const int many = ALIGNED ? 16 / sizeof(T) : 1, each = DEEP / many;
    #pragma unroll
    for (int i = 0; i < COUNT * each; i += 128) {
        int r = (i + threadIdx.x) / each, c = (i + threadIdx.x) % each * many;
        if (COUNT * each % 128 && r >= COUNT) break;
        bool given = first + r < rows && c < WIDE;
        const T* source = given ? from + (first + r) * step + c : from;
#if ALIGNED
        copy<16>(to + r * (DEEP + 8) + c, source, given);
#else
        to[r * (DEEP + 8) + c] = given ? *source : narrow<T>::of(0.0f);
#endif
    }
}

// c = a b': rows of a warp against COUNT rows, DEEP columns each.
template <int COUNT, int DEEP>
__device__ inline void match(A (*c)[COUNT / 8][4], const T* a, const T* b) {
    #pragma unroll
    for (int m = 0; m < TILES; ++m)
        #pragma unroll
        for (int n = 0; n < COUNT / 8; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) c[m][n][e] = 0;
    #pragma unroll
    for (int k = 0; k < DEEP; k += 16) {
        pair x[TILES][4], y[4];
        #pragma unroll
        for (int m = 0; m < TILES; ++m) rows(x[m], a + m * 16 * (DEEP + 8) + k, DEEP + 8);
        #pragma unroll
        for (int n = 0; n < COUNT / 8; n += 2) {
            columns(y, b + n * 8 * (DEEP + 8) + k, DEEP + 8);
            #pragma unroll
            for (int m = 0; m < TILES; ++m) { multiply(c[m][n], x[m], y); multiply(c[m][n + 1], x[m], y + 2); }
        }
    }
}

// c += a b, where a are rows of COUNT as `match` leaves them, and b COUNT rows of which WIDE columns count.
template <int COUNT, int WIDE>
__device__ inline void gather(A (*c)[WIDE / 8][4], A (*a)[COUNT / 8][4], const T* b, int step, int left) {
    #pragma unroll
    for (int k = 0; k < COUNT / 16; ++k) {
        pair x[TILES][4], y[4];
        #pragma unroll
        for (int m = 0; m < TILES; ++m)
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                A* from = a[m][2 * k + i / 2] + i % 2 * 2;
                x[m][i] = joined(from[0], from[1]);
            }
        #pragma unroll
        for (int n = 0; n < WIDE / 8; n += 2) {
            if (n * 8 < left) {
                across(y, b + k * 16 * step + n * 8, step);
                #pragma unroll
                for (int m = 0; m < TILES; ++m) { multiply(c[m][n], x[m], y); multiply(c[m][n + 1], x[m], y + 2); }
            }
        }
    }
}

// Stores what rows `first` on of a warp made; factors are of its rows.
template <int WIDE>
__device__ inline void store(T* out, int64 step, A (*c)[WIDE / 8][4], int64 first, int64 rows, int wide,
                             A (*factor)[2]) {
    #pragma unroll
    for (int m = 0; m < TILES; ++m)
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            int64 row = first + m * 16 + r * 8 + ROW;
            if (row >= rows) continue;
            #pragma unroll
            for (int n = 0; n < WIDE / 8; ++n) {
                int column = n * 8 + COLUMN;
                A low = c[m][n][2 * r] * factor[m][r], high = c[m][n][2 * r + 1] * factor[m][r];
#if ALIGNED
                if (column < wide) *(pair*)(out + row * step + column) = joined(low, high);
#else
                if (column < wide) out[row * step + column] = narrow<T>::of(low);
                if (column + 1 < wide) out[row * step + column + 1] = narrow<T>::of(high);
#endif
            }
        }
}

struct Places { int64 q[3], k[3], v[3], o[3], grad[3], mask[3], tiles, batch, heads, group, bunch; };

// The tile, batch and head of a block: heads whose keys fit into the cache together run together, tile by tile.
__device__ inline bool placed(const Places& at, int64& tile, int64& batch, int64& head) {
    unsigned int bunch = (unsigned int)at.bunch, heads = (unsigned int)at.heads, each = (unsigned int)at.tiles * bunch;
    unsigned int which = blockIdx.x / each * bunch + blockIdx.x % bunch;
    tile = blockIdx.x % each / bunch;
    batch = which / heads;
    head = which % heads;
    return batch < at.batch;
}

// A score as it enters `weighed`: with a mask scaled and hidden, else as it is, so that one operation takes it on.
__device__ inline A scored(A score, A scale, const M* line, int64 key, bool seen) {
#if MASK == 1
    return seen && line[key * NEXT] ? score * scale : NEVER;
#elif MASK == 2
    return seen ? score * scale + (A)widened(line[key * NEXT]) : NEVER;
#else
    return seen ? score : NEVER;
#endif
}
__device__ inline A weighed(A score, A less, A minus, A unit) {
    return power_of_two(MASK ? (score - less) * unit - minus : score * unit - less);
}
"""


# PARTS warps have the same rows; each takes EACH of the KEYS that are fetched together.
_FORWARD = r"""
#define EACH (KEYS / PARTS)
#define GROUPS (4 / PARTS)
extern "C" __global__ void __launch_bounds__(128) attend(const T* q, const T* k, const T* v, const M* mask, T* out,
                                                         A* norms, double factor, int64 queries, int64 keys,
                                                         Places at) {
    T *qs = (T*)shared, *ks = qs + SPAN * STEP, *vs = ks + STAGES * KEYS * STEP;
    int64 tile, batch, head;
    if (!placed(at, tile, batch, head)) return;
    if (CAUSAL) tile = at.tiles - 1 - tile;  // those with most keys first
    const int own = WARP % GROUPS, part = WARP / GROUPS;
    int64 start = tile * SPAN, first = start + own * 16 * TILES, of_key = head / at.group;
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
    if (STAGES > 1) fetch<KEYS, V_WIDTH, V_DEPTH>(vs, v, at.v[2], 0, keys);
    int64 end = CAUSAL && start + SPAN < keys ? start + SPAN : keys;
    for (int64 j = 0; j < end; j += KEYS) {
        A s[TILES][EACH / 8][4];
        const int stage = STAGES > 1 ? j / KEYS % 2 : 0, next = STAGES > 1 ? 1 - stage : 0;
        arrive();
        if (STAGES == 1) fetch<KEYS, V_WIDTH, V_DEPTH>(vs, v, at.v[2], j, keys);
        else if (j + KEYS < end) {
            fetch<KEYS, WIDTH, DEPTH>(ks + next * KEYS * STEP, k, at.k[2], j + KEYS, keys);
            fetch<KEYS, V_WIDTH, V_DEPTH>(vs + next * KEYS * V_STEP, v, at.v[2], j + KEYS, keys);
        }
        int64 here = j + part * EACH;
        const bool hidden = CAUSAL && here >= first + 16 * TILES;  // from all rows of the warp
        if (!hidden) match<EACH, DEPTH>(s, qs + own * 16 * TILES * STEP, ks + (stage * KEYS + part * EACH) * STEP);
        if (STAGES == 1) {
            arrive();
            if (j + KEYS < end) fetch<KEYS, WIDTH, DEPTH>(ks, k, at.k[2], j + KEYS, keys);
        }
        if (hidden) continue;
        if (MASK || here + EACH > keys || (CAUSAL && here + EACH > first + 1))
            #pragma unroll
            for (int m = 0; m < TILES; ++m)
                #pragma unroll
                for (int r = 0; r < 2; ++r) {
                    int64 row = first + m * 16 + r * 8 + ROW;
                    const M* line = mask + (row < queries ? row : queries - 1) * MASK_STEP;
                    #pragma unroll
                    for (int n = 0; n < EACH / 8; ++n)
                        #pragma unroll
                        for (int e = 0; e < 2; ++e) {
                            int64 key = here + n * 8 + COLUMN + e;
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
                for (int n = 0; n < EACH / 8; ++n) best = larger(best, larger(s[m][n][2 * r], s[m][n][2 * r + 1]));
                best = larger(best, __shfl_xor_sync(0xffffffff, best, 1));
                best = larger(best, __shfl_xor_sync(0xffffffff, best, 2));
                A less = best == NEVER ? 0 : MASK ? best : best * unit, shrunk = weighed(top[m][r], less, 0, unit);
                top[m][r] = best;
                total[m][r] *= shrunk;
                #pragma unroll
                for (int n = 0; n < EACH / 8; ++n)
                    #pragma unroll
                    for (int e = 2 * r; e < 2 * r + 2; ++e)
                        total[m][r] += s[m][n][e] = weighed(s[m][n][e], less, 0, unit);
                #pragma unroll
                for (int n = 0; n < V_DEPTH / 8; ++n) { made[m][n][2 * r] *= shrunk; made[m][n][2 * r + 1] *= shrunk; }
            }
        gather<EACH, V_DEPTH>(made, s, vs + (stage * KEYS + part * EACH) * V_STEP, V_STEP, V_DEPTH);
    }
    if (PARTS > 1) {  // what the warps made of their keys is put together by the first of them
        const int count = TILES * (V_DEPTH / 2 + 4);
        A* given = (A*)shared + LANE;
        __syncthreads();
        if (part) {
            A* to = given + (WARP - GROUPS) * count * 32;
            #pragma unroll
            for (int m = 0; m < TILES; ++m) {
                #pragma unroll
                for (int r = 0; r < 2; ++r, to += 64) { to[0] = top[m][r]; to[32] = total[m][r]; }
                #pragma unroll
                for (int n = 0; n < V_DEPTH / 2; ++n, to += 32) *to = made[m][n / 4][n % 4];
            }
        }
        __syncthreads();
        if (part) return;
        for (int other = 0; other < PARTS - 1; ++other) {
            const A* from = given + (other * GROUPS + own) * count * 32;
            #pragma unroll
            for (int m = 0; m < TILES; ++m) {
                A mine[2], theirs[2];
                #pragma unroll
                for (int r = 0; r < 2; ++r, from += 64) {
                    A best = larger(top[m][r], from[0]), less = best == NEVER ? 0 : MASK ? best : best * unit;
                    mine[r] = weighed(top[m][r], less, 0, unit);
                    theirs[r] = weighed(from[0], less, 0, unit);
                    top[m][r] = best;
                    total[m][r] = total[m][r] * mine[r] + from[32] * theirs[r];
                }
                #pragma unroll
                for (int n = 0; n < V_DEPTH / 2; ++n, from += 32)
                    made[m][n / 4][n % 4] = made[m][n / 4][n % 4] * mine[n % 4 / 2] + *from * theirs[n % 4 / 2];
            }
        }
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
        if (!CAUSAL || i + 31 >= first) {  // else the warp's keys are hidden from all these queries
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
        } else
            #pragma unroll
            for (int n = 0; n < 16 * TILES; ++n) ds[(WARP * 16 * TILES + n) * D_STEP + LANE] = narrow<T>::of(0.0f);
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
        int64 heads = at.heads * at.group, before = BY_TOKENS ? batch * queries * heads + at_head
                                                              : (batch * heads + at_head) * queries;
        #pragma unroll
        for (int n = 0; n < (SOME + 31) / 32; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                int column = base + (n * 2 + WARP / 2) * 16 + e / 2 * 8 + COLUMN;
                int64 row = i + WARP % 2 * 16 + e % 2 * 8 + ROW;
                A* from = made[n][e / 2] + e % 2 * 2;
                if (row < queries)
                    add(of_query + (before + row * (BY_TOKENS ? heads : 1)) * WIDTH + column, from[0] * scale,
                        from[1] * scale, WIDTH - column);
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
    int64 before = BY_TOKENS ? batch * keys * at.heads + head : (batch * at.heads + head) * keys;
    int64 step = BY_TOKENS ? at.heads : 1;
    store<SOME>(of_key + before * WIDTH + base, step * WIDTH, keyed, first, keys, WIDTH - base, scales);
    store<V_SOME>(of_value + before * V_WIDTH + base, step * V_WIDTH, valued, first, keys, V_WIDTH - base, ones);
}
"""

TEXTS = {"attend": _FORWARD, "begin": _BEGIN, "give_back": _BACKWARD}
