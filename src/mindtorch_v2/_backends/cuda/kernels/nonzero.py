"""What depends on how many elements are true, or of a kind, on a GPU.

More elements than a block has good use for are left to CuPy.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.tensor import Tensor
from ...._dispatch.keys import CUDA_MASK
from ...._dispatch.registry import registry
from ...._ops._declare.rules import Spec
from ..array import CudaArray, Layout, array_on, empty, layout_of
from ..families import layout_for, wrap_cuda
from ..launch import ASSERTIONS, c_type, kernel
from ..plans import dense, planned
from .found import COUNTING, FEW, WORDS, finding, is_served, picked_by, places_of, threads, told
from .index import updating


@planned
def nonzero(spec: Spec, self: CudaArray) -> Callable | None:
    return places_of if is_served(self) else None


@planned
def masked_select(spec: Spec, self: CudaArray, mask: CudaArray) -> Callable | None:
    shape = np.broadcast_shapes(self.shape, mask.shape)
    source, chosen = _spread(self.layout, shape), _spread(mask.layout, shape)
    if not 0 < source.size <= FEW or self.dtype.itemsize not in WORDS or not shape:
        return None
    return lambda self, mask: picked_by(_on(mask, chosen), _on(self, source))


def _spread(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The layout broadcast to a shape."""
    lead = len(shape) - len(layout.shape)
    steps = [0 if n == 1 != wanted else s for n, s, wanted in zip(layout.shape, layout.strides, shape[lead:],
                                                                  strict=True)]
    return layout_of(shape, layout.dtype, (*(0,) * lead, *steps))


def _on(array: CudaArray, layout: Layout) -> CudaArray:
    return array if array.layout is layout else array_on(layout, array.memory, array.pointer, array.device)


@planned
def nonzero_static(spec: Spec, self: CudaArray, size: int, fill_value: int) -> Callable | None:
    made = layout_for(spec)
    if not made.size:
        return lambda self, *options: empty(made, self.device)
    if not is_served(self):
        return None
    launch = finding(layout_of(self.shape, self.dtype), 0, size, fill_value)

    def run(self: CudaArray, *options: Any) -> CudaArray:
        rows = empty(made, self.device)
        launch(dense(self).pointer, 0, rows.pointer, 0)
        return rows

    return run


_SCATTERED = COUNTING + r"""
extern "C" __global__ void scattered(const bool* mask, const E* source, E* out, int64 count) {
    int64 done = 0;
    for (int64 turn = 0; turn < count; turn += (int64)EACH * blockDim.x) {
        int64 first = turn + (int64)threadIdx.x * EACH;
        int own = 0, all;
        for (int k = 0; k < EACH; ++k) if (first + k < count && mask[first + k]) ++own;
        int64 at = done + numbered(own, all);
        for (int k = 0; k < EACH; ++k) if (first + k < count && mask[first + k]) out[first + k] = source[at++];
        done += all;
    }
}
"""


@updating
def masked_scatter(layout: Layout, mask: Tensor, source: Tensor) -> Callable | None:
    """In the order of a mask, of which no more can be true than the source has elements."""
    count, shape = layout.size, mask._array.shape
    if not count or count > FEW or not layout.contiguous or source._array.size < count or shape != layout.shape:
        return None
    launch = kernel(f"typedef {WORDS[layout.dtype.itemsize]} E;\n{_SCATTERED}", "scattered", "qqqq")
    block = (threads(count),)

    def run(target: CudaArray, mask: Tensor, source: Tensor) -> None:
        launch.over((1,), block, dense(mask._array).pointer, dense(source._array).pointer, target.pointer, count)

    return run


# counts --------------------------------------------------------------------------------------------------------------

_REPEATED = ASSERTIONS + r"""
extern "C" __global__ void repeated(const T* counts, const int64* sums, T* out, int64 count, int64 total) {
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (i < count) require(counts[i] >= 0);
    if (i == 0) require(sums[count - 1] == total);
    if (i >= total) return;
    int64 low = 0, high = count - 1;  // the first whose sum is above i
    while (low < high) { int64 middle = (low + high) / 2; if (sums[middle] > i) high = middle; else low = middle + 1; }
    out[i] = (T)low;
}
"""


@planned
def repeat_interleave(spec: Spec, repeats: CudaArray, output_size: int | None) -> Callable | None:
    """Numbers as often as `repeats` says; as in PyTorch the device checks that none is negative."""
    count = repeats.size
    if not count:
        return None
    launch = kernel(f"typedef {c_type(repeats.dtype)} T;\n{_REPEATED}", "repeated", "q" * 5)
    summed = registry.get("cumsum").lookup(CUDA_MASK)

    def run(repeats: CudaArray, output_size: int | None) -> CudaArray:
        given = dense(repeats)
        sums = summed(wrap_cuda(given), 0, None)._array
        total = told(sums.pointer + 8 * (count - 1)) if output_size is None else output_size
        made = empty(layout_of((max(total, 0),), repeats.dtype), repeats.device)
        launch.over((-(-max(total, count) // 256),), (256,), given.pointer, sums.pointer, made.pointer, count, total)
        return made

    return run


_HISTC = ASSERTIONS + r"""
extern "C" __global__ void histogram(const T* in, T* out, double low, double high, int64 count, int64 bins) {
    __shared__ A lows[32], highs[32];
    __shared__ unsigned int counts[BINS];
    A least = (A)low, most = (A)high;
    for (int i = threadIdx.x; i < bins; i += blockDim.x) counts[i] = 0;
    if (FINDS) {
        least = most = (A)in[0];
        for (int64 i = threadIdx.x; i < count; i += blockDim.x) {
            A x = (A)in[i];
            least = x < least || x != x ? x : least; most = x > most || x != x ? x : most;
        }
        for (int s = 16; s; s >>= 1) {
            A l = __shfl_xor_sync(0xffffffff, least, s), m = __shfl_xor_sync(0xffffffff, most, s);
            least = l < least || l != l ? l : least; most = m > most || m != m ? m : most;
        }
        if (threadIdx.x % 32 == 0) { lows[threadIdx.x / 32] = least; highs[threadIdx.x / 32] = most; }
        __syncthreads();
        for (int w = 0; w < blockDim.x / 32; ++w) {
            least = lows[w] < least || lows[w] != lows[w] ? lows[w] : least;
            most = highs[w] > most || highs[w] != highs[w] ? highs[w] : most;
        }
        require(least - least == 0 && most - most == 0);
        if (least == most) { least -= 1; most += 1; }
    }
    __syncthreads();
    for (int64 i = threadIdx.x; i < count; i += blockDim.x) {
        A x = (A)in[i];
        if (!(x >= least && x <= most)) continue;
        int64 bin = (int64)((x - least) * (A)bins / (most - least));
        atomicAdd(&counts[bin < bins ? bin : bins - 1], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < bins; i += blockDim.x) out[i] = (T)counts[i];
}
"""
_MOST_BINS = 4096


@planned
def histc(spec: Spec, self: CudaArray, bins: int, min: Any, max: Any) -> Callable | None:
    kind, made = self.dtype, layout_for(spec)
    if not (math.isfinite(min) and math.isfinite(max)) or kind.kind != "f" or kind.itemsize < 4:
        return None
    if not 0 < self.size <= FEW or bins > _MOST_BINS:
        return None
    name = c_type(kind)
    text = (f"typedef {name} T; typedef {name} A;\n#define BINS {1 << (bins - 1).bit_length()}\n"
            f"#define FINDS {int(min == max)}\n{_HISTC}")
    launch, block = kernel(text, "histogram", "qqddqq"), (threads(self.size),)

    def run(self: CudaArray, *options: Any) -> CudaArray:
        counts = empty(made, self.device)
        launch.over((1,), block, dense(self).pointer, counts.pointer, float(min), float(max), self.size, bins)
        return counts

    return run
