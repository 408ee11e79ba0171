"""Rows of tables on a GPU, their gradients, and sums of bags of them."""

from collections.abc import Callable, Sequence
from typing import Any

from ...._core.dtype import OF_ARRAY
from ...._ops._declare.rules import Spec
from ...._ops.embedding import stops_at_last_offset
from ..array import CudaArray, empty, layout_of
from ..families import fill, layout_for
from ..launch import ASSERTIONS, C_TYPES, kernel
from ..plans import dense, dense_if_any, planned, pointer_of
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
