"""Singular values and symmetric eigenvalues of small real matrices on a GPU: a block a matrix, one launch for a stack.

Columns are rotated in pairs, a warp a pair, until all are orthogonal (one-sided Jacobi, computed in double precision).
Eigenvalues are the lengths of the columns of a matrix that was shifted to have none below zero.
"""

import functools
import math

import numpy as np

from .array import CudaArray, empty, layout_of
from .launch import Launch, c_type, compiled
from .plans import dense

_JACOBI = r"""
#define PAIRS ((N + 1) / 2)
#define ROUND (2 * PAIRS)
__device__ inline double summed(double x) {
    for (int s = 16; s; s >>= 1) x += __shfl_xor_sync(0xffffffff, x, s);
    return x;
}
__shared__ double W[COLUMNS][M], V[N][N], lengths[N];
__shared__ int places[COLUMNS], known[COLUMNS], rotated, wrong;
__shared__ double largest[32];

// Unit vectors, orthogonal to the known ones, in the places of those that are not.
__device__ void complete() {
    int lane = threadIdx.x;
    for (int j = 0; j < COLUMNS; ++j) {
        if (known[j]) continue;
        double best = -1;
        int row = 0;
        for (int k = lane; k < M; k += 32) {
            double left = 1;
            for (int c = 0; c < COLUMNS; ++c) if (known[c]) left -= W[c][k] * W[c][k];
            if (left > best) { best = left; row = k; }
        }
        for (int s = 16; s; s >>= 1) {
            double other = __shfl_xor_sync(0xffffffff, best, s);
            int at = __shfl_xor_sync(0xffffffff, row, s);
            if (other > best || (other == best && at < row)) { best = other; row = at; }
        }
        for (int i = lane; i < M; i += 32) W[j][i] = i == row ? 1 : 0;
        for (int turn = 0; turn < 2; ++turn)
            for (int c = 0; c < COLUMNS; ++c) {
                if (!known[c]) continue;
                double along = 0;
                for (int i = lane; i < M; i += 32) along += W[c][i] * W[j][i];
                along = summed(along);
                for (int i = lane; i < M; i += 32) W[j][i] -= along * W[c][i];
            }
        double square = 0;
        for (int i = lane; i < M; i += 32) square += W[j][i] * W[j][i];
        square = rsqrt(summed(square));
        for (int i = lane; i < M; i += 32) W[j][i] *= square;
        __syncwarp();
        if (lane == 0) known[j] = 1;
        __syncwarp();
    }
}

extern "C" __global__ void decompose(const T* in, T* left, T* values, T* right, int* info) {
    const T* A = in + (int64)blockIdx.x * M * N;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) wrong = 0;
    __syncthreads();
    double most = 0;
    for (int e = threadIdx.x; e < M * N; e += blockDim.x) {
        int j = e / M, i = e % M;
        int row = KIND == 'u' ? min(i, j) : KIND == 'l' ? max(i, j) : i;
        int column = KIND == 'u' ? max(i, j) : KIND == 'l' ? min(i, j) : j;
        double x = (double)(TURNED ? A[column * M + row] : A[row * N + column]);
        if (x != x) wrong = 2; else if (x - x != 0) atomicMax(&wrong, 1);
        W[j][i] = x;
        most = max(most, fabs(x));
    }
    for (int e = threadIdx.x; e < N * N; e += blockDim.x) V[e / N][e % N] = e / N == e % N;
    for (int s = 16; s; s >>= 1) most = max(most, __shfl_xor_sync(0xffffffff, most, s));
    if (lane == 0) largest[warp] = most;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; ++w) most = max(most, largest[w]);
    int power = most > 0 && !wrong ? ilogb(most) : 0;  // squares shall neither overflow nor vanish
    double shift = KIND ? 2.0 * N : 0;  // elements are below 2
    for (int e = threadIdx.x; e < M * N; e += blockDim.x) {
        int j = e / M, i = e % M;
        W[j][i] = (wrong ? 0 : ldexp(W[j][i], -power)) + (i == j ? shift : 0);
    }
    for (int sweep = 0; sweep < 40; ++sweep) {
        __syncthreads();
        if (threadIdx.x == 0) rotated = 0;
        __syncthreads();
        for (int round = 0; round < ROUND - 1; ++round) {
            int p = warp ? (round + warp) % (ROUND - 1) : ROUND - 1, q = (round - warp + ROUND - 1) % (ROUND - 1);
            if (p < N && q < N && warp < PAIRS) {
                double a = 0, b = 0, c = 0;
                for (int i = lane; i < M; i += 32) {
                    double x = W[p][i], y = W[q][i];
                    a += x * x; b += y * y; c += x * y;
                }
                a = summed(a); b = summed(b); c = summed(c);
                if (c * c > TOLERANCE * TOLERANCE * a * b) {
                    double zeta = (b - a) / (2 * c);
                    double t = (zeta >= 0 ? 1 : -1) / (fabs(zeta) + sqrt(1 + zeta * zeta));
                    double cosine = rsqrt(1 + t * t), sine = cosine * t;
                    for (int i = lane; i < M; i += 32) {
                        double x = W[p][i], y = W[q][i];
                        W[p][i] = cosine * x - sine * y; W[q][i] = sine * x + cosine * y;
                    }
                    if (VECTORS) for (int i = lane; i < N; i += 32) {
                        double x = V[p][i], y = V[q][i];
                        V[p][i] = cosine * x - sine * y; V[q][i] = sine * x + cosine * y;
                    }
                    if (lane == 0) rotated = 1;
                }
            }
            __syncthreads();
        }
        if (!rotated) break;
    }
    for (int j = warp; j < N; j += blockDim.x / 32) {
        double square = 0;
        for (int i = lane; i < M; i += 32) square += W[j][i] * W[j][i];
        square = sqrt(summed(square));
        if (lane == 0) lengths[j] = square;
    }
    __syncthreads();
    for (int j = threadIdx.x; j < COLUMNS; j += blockDim.x) {
        int place = 0;
        if (j < N) {
            for (int o = 0; o < N; ++o) place += lengths[o] > lengths[j] || (lengths[o] == lengths[j] && o < j);
            if (KIND) place = N - 1 - place;
            double value = ldexp(lengths[j] - shift, power);
            values[(int64)blockIdx.x * N + place] = (T)(wrong ? nan("") : value);
        }
        places[j] = j < N ? place : j;
        known[j] = j < N && lengths[j] > 1e-140;
    }
    if (threadIdx.x == 0 && info) info[blockIdx.x] = wrong == 2 ? -1 : 0;
    if (!VECTORS) return;
    __syncthreads();
    left += (int64)blockIdx.x * (KIND || TURNED ? N * N : M * COLUMNS);
    for (int e = threadIdx.x; e < N * N; e += blockDim.x) {
        int j = e / N, i = e % N, place = places[j];
        T value = (T)V[j][i];
        if (KIND || TURNED) left[place * N + i] = value;
        else right[(int64)blockIdx.x * N * N + i * N + place] = value;
    }
    if (KIND) return;
    for (int e = threadIdx.x; e < M * N; e += blockDim.x) if (known[e / M]) W[e / M][e % M] /= lengths[e / M];
    __syncthreads();
    if (warp == 0) complete();
    __syncthreads();
    for (int e = threadIdx.x; e < M * COLUMNS; e += blockDim.x) {
        int j = e / M, i = e % M, place = places[j];
        T value = (T)W[j][i];
        if (TURNED) right[(int64)blockIdx.x * M * COLUMNS + i * COLUMNS + place] = value;
        else left[place * M + i] = value;
    }
}
"""
_MOST_ROWS, _MOST_COLUMNS = 64, 32
_INT32 = np.dtype(np.int32)


@functools.lru_cache(4096)
def _launch(kind: np.dtype, m: int, n: int, batch: int, full: bool, vectors: bool, triangle: str) -> Launch:
    """The launch (matrices, left vectors, values, right vectors, info): vectors column by column."""
    rows, columns = max(m, n), min(m, n)
    settings = {"M": rows, "N": columns, "COLUMNS": rows if full and vectors else columns, "TURNED": int(m < n),
                "VECTORS": int(vectors), "KIND": f"'{triangle}'" if triangle else 0,
                "TOLERANCE": "1e-10" if kind.itemsize == 4 else "2e-15"}
    text = f"typedef {c_type(kind)} T;\n" + "".join(f"#define {k} {v}\n" for k, v in settings.items()) + _JACOBI
    return Launch(compiled(text, "decompose"), "qqqqq", (batch,), (32 * -(-columns // 2),))


def is_small(shape: tuple[int, ...], kind: np.dtype) -> bool:
    """Whether matrices are real, not empty, and fit into what a block shares."""
    return kind.kind == "f" and kind.itemsize >= 4 and math.prod(shape) > 0 and max(shape[-2:]) <= _MOST_ROWS \
        and min(shape[-2:]) <= _MOST_COLUMNS


def may_shift(shape: tuple[int, ...], kind: np.dtype) -> bool:
    """Whether small matrices have few enough digits for a shift in double precision to take none from them."""
    return kind.itemsize == 4 and is_small(shape, kind)


def _vectors(batch: tuple[int, ...], rows: int, columns: int, A: CudaArray) -> CudaArray:
    """Room for matrices that lie column by column."""
    size = A.dtype.itemsize
    lead = layout_of((*batch, columns, rows), A.dtype).strides[:-2]
    return empty(layout_of((*batch, rows, columns), A.dtype, (*lead, size, size * rows)), A.device)


def svd(A: CudaArray, full: bool, vectors: bool) -> tuple[CudaArray | None, CudaArray, CudaArray | None, CudaArray]:
    """U, S, V^H (no vectors where not asked for), and info: -1 for NaN; singular values with infinities are NaN."""
    A = dense(A)
    *stacked, m, n = A.shape
    batch, k = tuple(stacked), min(m, n)
    S, info = empty(layout_of((*batch, k), A.dtype), A.device), empty(layout_of(batch, _INT32), A.device)
    launch = _launch(A.dtype, m, n, math.prod(batch), full, vectors, "")
    if not vectors:
        launch(A.pointer, 0, S.pointer, 0, info.pointer)
        return None, S, None, info
    U, Vh = _vectors(batch, m, m if full else k, A), _vectors(batch, n if full else k, n, A)
    launch(A.pointer, U.pointer, S.pointer, Vh.pointer, info.pointer)
    return U, S, Vh, info


def eigh(A: CudaArray, lower: bool, vectors: bool) -> tuple[CudaArray, CudaArray | None]:
    """Eigenvalues (NaN for what is not finite) and eigenvectors (None where not asked for)."""
    A = dense(A)
    *stacked, n, _ = A.shape
    batch = tuple(stacked)
    values, made = empty(layout_of((*batch, n), A.dtype), A.device), _vectors(batch, n, n, A) if vectors else None
    launch = _launch(A.dtype, n, n, math.prod(batch), False, vectors, "l" if lower else "u")
    launch(A.pointer, 0 if made is None else made.pointer, values.pointer, 0, 0)
    return values, made
