"""Where a mask is true, on a GPU: one block goes through few elements, without a launch for each step."""

import ctypes
import functools

import numpy as np

from ..array import CudaArray, Layout, array_on, empty, layout_of, read_bytes
from ..launch import C_TYPES, Launch, c_type, compiled, longs
from ..plans import dense

FEW = 1 << 16  # elements that one block goes through faster than all of them in several launches
_INT64 = np.dtype(np.int64)
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "uint4"}

# Elements in turns of `EACH * blockDim.x`: `numbered` is how many true ones come before a thread's own.
COUNTING = r"""
#define EACH 8
__device__ inline int numbered(int own, int& all) {
    __shared__ int sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = own;
    for (int s = 1; s < 32; s <<= 1) { int o = __shfl_up_sync(0xffffffff, sum, s); if (lane >= s) sum += o; }
    __syncthreads();
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    int before = 0;
    all = 0;
    for (int w = 0; w < blockDim.x / 32; ++w) { if (w < warp) before += sums[w]; all += sums[w]; }
    return before + sum - own;
}
"""
_FOUND = COUNTING + r"""
struct sizes_t { int64 v[RANK]; };
extern "C" __global__ void found(const T* in, const E* data, void* made, int64* told, int64 count, int64 rows,
                                 int64 missing, sizes_t sizes) {
    int64 done = 0;
    for (int64 turn = 0; turn < count; turn += (int64)EACH * blockDim.x) {
        int64 first = turn + (int64)threadIdx.x * EACH;
        int own = 0, all;
        for (int k = 0; k < EACH; ++k) if (first + k < count && widened(in[first + k]) != 0) ++own;
        int64 at = done + numbered(own, all);
        for (int k = 0; k < EACH; ++k) {
            int64 i = first + k;
            if (i >= count || !(widened(in[i]) != 0)) continue;
            if (PICKS) ((E*)made)[at] = data[i];
            else if (at < rows)
                for (int d = RANK - 1; d >= 0; --d) {
                    ((int64*)made)[at * RANK + d] = i % sizes.v[d];
                    i /= sizes.v[d];
                }
            ++at;
        }
        done += all;
    }
    if (FILLS) for (int64 i = done * RANK + threadIdx.x; i < rows * RANK; i += blockDim.x) ((int64*)made)[i] = missing;
    else if (threadIdx.x == 0) *told = done;
}
"""


def threads(count: int) -> int:
    return min(-(-count // 8) + 31 & ~31, 1024)


@functools.lru_cache(4096)
def finding(layout: Layout, picked: int = 0, rows: int | None = None, missing: int = 0) -> Launch:
    """The launch (mask, elements of that many bytes or 0, room, where to tell how many were true) on a contiguous mask.

    With `rows` there are as many of these, the last ones of what is `missing`, and nothing is told.
    """
    shape = layout.shape
    text = (f"typedef {c_type(layout.dtype)} T; typedef {WORDS[picked or 1]} E;\n#define RANK {len(shape)}\n"
            f"#define PICKS {int(picked > 0)}\n#define FILLS {int(rows is not None)}\n{_FOUND}")
    fixed = [*longs(layout.size, layout.size if rows is None else rows, missing),
             (ctypes.c_longlong * len(shape))(*shape)]
    return Launch(compiled(text, "found"), "qqqq", (1,), (threads(layout.size),), fixed)


def told(pointer: int) -> int:
    """A number on the device, waited for."""
    host = np.empty(1, np.int64)
    read_bytes(host, pointer, False)
    return int(host[0])


def is_served(mask: CudaArray) -> bool:
    return bool(mask.shape) and 0 < mask.size <= FEW and mask.dtype.name in C_TYPES


def places_of(mask: CudaArray) -> CudaArray:
    """Rows of indices, one for each element that is not zero."""
    mask, rank = dense(mask), len(mask.shape)
    room = empty(layout_of((mask.size * rank + 1,), _INT64), mask.device)
    end = room.pointer + 8 * mask.size * rank
    finding(mask.layout, 0)(mask.pointer, 0, room.pointer, end)
    return beginning(room, (told(end), rank), _INT64)


def picked_by(mask: CudaArray, array: CudaArray) -> CudaArray:
    """The elements of an array where a mask of its shape is true."""
    mask, array = dense(mask), dense(array)
    size, aligned = array.dtype.itemsize, -(-array.nbytes // 8) * 8
    room = empty(layout_of((aligned + 8,), np.dtype(np.uint8)), array.device)
    finding(mask.layout, size)(mask.pointer, array.pointer, room.pointer, room.pointer + aligned)
    return beginning(room, (told(room.pointer + aligned),), array.dtype)


def beginning(room: CudaArray, shape: tuple[int, ...], kind: np.dtype) -> CudaArray:
    layout = layout_of(shape, kind)
    return array_on(layout, room.memory, room.pointer, room.device) if layout.size else empty(layout, room.device)


def columns_of(rows: CudaArray) -> list[CudaArray]:
    """Rows of indices as an array for each dimension."""
    count, rank = rows.shape
    layout = layout_of((count,), _INT64, (8 * rank,))
    return [array_on(layout, rows.memory, rows.pointer + 8 * d, rows.device) for d in range(rank)]
