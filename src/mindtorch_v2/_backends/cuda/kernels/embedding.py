"""Rows of tables on a GPU, their gradients, and sums of bags of them."""

from collections.abc import Callable, Sequence
from typing import Any

from ...._core.dtype import OF_ARRAY
from ...._ops._declare.rules import Spec
from ...._ops.embedding import shorten_rows, stops_at_last_offset
from ..array import CudaArray, empty, layout_of
from ..families import fill, layout_for
from ..launch import ASSERTIONS, C_TYPES, kernel
from ..plans import array, dense, dense_if_any, planned, pointer_of
from .index import Index, read_along, reading, steps, writing


@planned(by_value=False)
def embedding(spec: Spec, weight: CudaArray, indices: CudaArray, *options: Any) -> Callable | None:
    layout, places = weight.layout, indices.layout
    shape, (row, column) = tuple(spec.shape), steps(layout)
    strides = ([] if not places.shape else steps(places))
    named = Index(places.dtype, [*strides, 0], row, layout.shape[0])
    return read_along(spec, reading(layout, shape, [*[0] * len(strides), column], [named]), 0)


@planned(by_value=False)
def embedding_backward(spec: Spec, grad_output: CudaArray, indices: CudaArray, num_weights: int, padding_idx: int,
                       scale_grad_by_freq: bool) -> Callable | None:
    layout, places, count = layout_for(spec), indices.layout, indices.size
    width = spec.shape[1]
    if scale_grad_by_freq or not layout.size or not count:
        return None
    adding = writing("add", layout, (count, width), (0, 1), [Index(places.dtype, (1, 0), width, num_weights)],
                      layout_of((count, width), layout.dtype), (width, 1))
    row = layout_of((width,), layout.dtype)

    def run(grad_output: CudaArray, indices: CudaArray, *options: Any) -> CudaArray:
        made = empty(layout, grad_output.device)
        fill(made, 0)
        adding(made, dense(grad_output), dense(indices))  # type: ignore[misc]
        if 0 <= padding_idx < num_weights:  # the gradient of that row counts nothing
            fill(made.storage.array(row.shape, row.dtype, padding_idx * row.nbytes, row.strides), 0)
        return made

    return adding and run


# A block for some columns of a bag; sums are made in the order of the indices. MODE: 0 sum, 1 mean, 2 largest. With
# STOP the sum of the last bag ends at the last offset.
_BAGS = ASSERTIONS + r"""
extern "C" __global__ void bags(const T* table, const I* places, const O* offsets, const T* factors, T* out, P* told,
                                P* sizes, P* more, int64 rows, int64 width, int64 count, int64 given, int64 made,
                                int64 padding) {
    int64 bag = blockIdx.x, column = blockIdx.y * (int64)blockDim.x + threadIdx.x;
    if (bag >= made) {
        if (MODE == 0 && column == 0) sizes[bag] = more[bag] = (P)0;
        return;
    }
    int64 start = (int64)offsets[bag], end = bag + 1 < made ? (int64)offsets[bag + 1] : count;
    int64 summed = STOP && bag + 1 == made ? (int64)offsets[made] : end;
    require(start >= 0 && end <= count && start <= end && summed <= end);
    if (told && blockIdx.y == 0) for (int64 i = start + threadIdx.x; i < end; i += blockDim.x) told[i] = (P)bag;
    A total = 0;
    int64 used = 0, top = 0;
    for (int64 i = start; i < end; ++i) {
        int64 row = (int64)places[i];
        require(row >= 0 && row < rows);
        if (row == padding) continue;
        ++used;
        if (column >= width) continue;
        A x = (A)widened(table[row * width + column]);
        if (MODE == 2) { if (used == 1 || (total == total && (x != x || x > total))) { total = x; top = row; } }
        else if (i < summed) total += factors ? x * (A)widened(factors[i]) : x;
    }
    if (column < width) {
        out[bag * width + column] = narrow<T>::of(MODE == 1 && used ? total / (A)used : total);
        if (MODE == 2) more[bag * width + column] = (P)top;
    }
    if (column == 0) {
        sizes[bag] = MODE ? (P)used : (P)0;
        if (MODE != 2) more[bag] = MODE ? (P)used : (P)0;
    }
}
"""


@planned(by_value=False)
def embedding_bag(specs: Sequence[Spec], weight: CudaArray, indices: CudaArray, offsets: CudaArray,
                  scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: CudaArray | None,
                  include_last_offset: bool, padding_idx: int) -> Callable | None:
    layouts, given, count = [layout_for(spec) for spec in specs], offsets.size, indices.size
    (rows, width), made = weight.shape, specs[0].shape[0]
    if not given or not rows or not width:
        return None
    types = {"T": weight.dtype, "I": indices.dtype, "O": offsets.dtype, "P": layouts[1].dtype}
    named = "".join(f"typedef {C_TYPES[kind.name]} {name}; " for name, kind in types.items())
    wide = "double" if types["T"].itemsize == 8 else "float"
    stop = stops_at_last_offset(mode, OF_ARRAY[weight.dtype], padding_idx, include_last_offset)
    launch = kernel(f"{named}typedef {wide} A;\n#define MODE {mode}\n#define STOP {stop:d}\n{_BAGS}", "bags", "q" * 14)
    threads = min(256, width + 31 & ~31)
    grid = given, -(-width // threads)

    def run(weight: CudaArray, indices: CudaArray, offsets: CudaArray, scale_grad_by_freq: bool, mode: int,
            sparse: bool, per_sample_weights: CudaArray | None, *options: Any) -> list[CudaArray]:
        results = [empty(layout, weight.device) for layout in layouts]
        table, places, starts = dense(weight), dense(indices), dense(offsets)
        factors = dense_if_any(per_sample_weights)
        launch.over(grid, (threads,), table.pointer, places.pointer, starts.pointer, pointer_of(factors),
                    *[r.pointer for r in results], rows, width, count, given, made, padding_idx)
        return results

    return run


# A block for an index: the first one that names a row shortens it.
_SHORTEN = ASSERTIONS + r"""
extern "C" __global__ void shorten(T* table, const I* places, double most, double power, int64 rows, int64 width,
                                   int64 step) {
    __shared__ A sums[32];
    int64 row = (int64)places[blockIdx.x];
    require(row >= -rows && row < rows);
    int seen = 0;
    for (int64 i = threadIdx.x; i < blockIdx.x; i += blockDim.x) seen |= places[i] == places[blockIdx.x];
    if (__syncthreads_or(seen)) return;
    T* own = table + (row < 0 ? row + rows : row) * step;
    bool largest = isinf((float)power);
    A total = 0, p = (A)power;
    for (int64 i = threadIdx.x; i < width; i += blockDim.x) {
        A x = fabs((A)widened(own[i]));
        if (largest) total = x > total || x != x ? x : total;
        else total += p == 2 ? x * x : p == 1 ? x : pow(x, p);
    }
    for (int s = 16; s; s >>= 1) {
        A other = __shfl_xor_sync(0xffffffff, total, s);
        total = largest ? (other > total || other != other ? other : total) : total + other;
    }
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = total;
    __syncthreads();
    total = sums[0];
    for (int w = 1; w < blockDim.x / 32; ++w)
        total = largest ? (sums[w] > total || sums[w] != sums[w] ? sums[w] : total) : total + sums[w];
    if (!largest) total = p == 2 ? sqrt(total) : p == 1 ? total : pow(total, (A)1 / p);
    if (!(total > (A)most)) return;
    A factor = (A)most / (total + (A)1e-7);
    for (int64 i = threadIdx.x; i < width; i += blockDim.x) own[i] = narrow<T>::of((A)widened(own[i]) * factor);
}
"""
_FEW = 8192  # indices, each of which looks at those before it


@array
def embedding_renorm_(xp: Any, self: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    if (not self.size or self.strides[1] != self.itemsize or self.dtype.name not in C_TYPES or norm_type <= 0
            or self.dtype.kind == "c" or not 0 < indices.size <= _FEW or not indices.flags.c_contiguous):
        shorten_rows(xp, self, indices, max_norm, norm_type)
        return
    (rows, width), wide = self.shape, "double" if self.itemsize == 8 else "float"
    types = f"typedef {C_TYPES[self.dtype.name]} T; typedef {C_TYPES[indices.dtype.name]} I; typedef {wide} A;\n"
    launch = kernel(types + _SHORTEN, "shorten", "qqddqqq")
    launch.over((indices.size,), (min(width + 31 & ~31, 256),), self.data.ptr, indices.data.ptr, float(max_norm),
                float(norm_type), rows, width, self.strides[0] // self.itemsize)
