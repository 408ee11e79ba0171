"""What own kernels begin with, as CUDA C."""

PRELUDE = r"""
struct half_t { unsigned short bits; };
struct bfloat_t { unsigned short bits; };
typedef long long int64;

__device__ inline float widened(half_t x) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits)); return f; }
__device__ inline float widened(bfloat_t x) { return __int_as_float((int)x.bits << 16); }
template <typename T> __device__ inline T widened(T x) { return x; }

template <typename T> struct narrow {
    template <typename U> __device__ static inline T of(U x) { return (T)x; }
};
template <> struct narrow<half_t> {
    __device__ static inline half_t of(float x) {
        half_t h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x)); return h;
    }
};
template <> struct narrow<bfloat_t> {
    __device__ static inline bfloat_t of(float x) {
        bfloat_t b;
#if __CUDA_ARCH__ >= 800
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.bits) : "f"(x));
#else
        unsigned int u = (unsigned int)__float_as_int(x);
        b.bits = x != x ? 0x7fff : (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
        return b;
    }
};
"""

# For sources that check indices: what does not hold ends the kernel, and all later calls, as PyTorch's assertions do.
ASSERTIONS = r"""
extern "C" __device__ void __assertfail(const char* text, const char* file, unsigned int line, const char* function,
                                        size_t width);
__device__ inline void require(bool holds) {
    if (!holds) __assertfail("index out of bounds", "mindtorch_v2", 0, "kernel", 1);
}
"""

# For sources that load and store several neighbours at once. Only powers of two are alignments, and none adds bytes.
PACKS = r"""
__device__ constexpr int aligned_to(int bytes) { return (bytes & -bytes) > 16 ? 16 : bytes & -bytes; }
template <typename T, int N> struct __align__(aligned_to(sizeof(T) * N)) pack { T v[N]; };
"""
