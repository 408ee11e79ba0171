"""The parts that the kernels of attention are written with: products of fragments, and tiles in shared memory.

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

SINGLES = _WHOLES + r"""
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

DOUBLES = _WHOLES + r"""
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

TILES = r"""
#define STEP (DEPTH + 8)
#define V_STEP (V_DEPTH + 8)
#define SPAN (64 * TILES)
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
