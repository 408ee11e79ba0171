"""The largest or smallest element along a dimension, and where it is, on a GPU."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core.geometry import wrapped_dim
from ...._dispatch.registry import Operator
from ...._ops._declare.rules import Spec
from ..array import CudaArray, empty, layout_of, quick_empty
from ..families import layout_for
from ..launch import C_TYPES, Launch, c_type, compiled, longs
from ..plans import dense, planned

_THREADS, _BLOCKS = 256, 1056

# LANES threads share a cell of the result, and CELLS cells a block; threads that are neighbours read neighbours. Of
# equal elements the first is found; NaN counts as better than any number.
_BEST = r"""
typedef {T} T;
#define LANES {lanes}
#define CELLS {cells}
template <typename X> __device__ inline bool better(X a, int64 at, X b, int64 b_at) {{
    bool a_unknown = a != a, b_unknown = b != b;
    if (a_unknown != b_unknown) return a_unknown;
    return (!a_unknown && a != b) ? a {sign} b : at < b_at;
}}
extern "C" __global__ void best(const T* in, const int64* places, T* values, int64* indices, int64 cells, int64 length,
                                int64 inner, int64 chunk, int64 parts) {{
    __shared__ T held[LANES * CELLS];
    __shared__ int64 held_at[LANES * CELLS];
    int own = threadIdx.x {cell_of}, lane = threadIdx.x {lane_of};
    int64 cell = blockIdx.x * (int64)CELLS + own, start = blockIdx.y * chunk;
    int64 end = start + chunk < length ? start + chunk : length, found = -1;
    T top = {{}};
    if (cell < cells) {{
        const T* p = in + cell / inner * length * inner + cell % inner;
        #pragma unroll 4
        for (int64 i = start + lane; i < end; i += LANES) {{
            T x = p[i * inner];
            if (found < 0 || better(widened(x), i, widened(top), found)) {{ top = x; found = i; }}
        }}
        if (places && found >= 0) found = places[cell / inner * length * inner + cell % inner + found * inner];
    }}
    held[threadIdx.x] = top; held_at[threadIdx.x] = found;
    for (int s = LANES / 2; s; s >>= 1) {{
        __syncthreads();
        int other = threadIdx.x + s * ({lane_step});
        if (lane < s && held_at[other] >= 0 && (held_at[threadIdx.x] < 0 || better(widened(held[other]),
                held_at[other], widened(held[threadIdx.x]), held_at[threadIdx.x]))) {{
            held[threadIdx.x] = held[other]; held_at[threadIdx.x] = held_at[other];
        }}
    }}
    if (lane == 0 && cell < cells) {{
        int64 at = (cell / inner * parts + blockIdx.y) * inner + cell % inner;
        if (values) values[at] = held[threadIdx.x];
        if (indices) indices[at] = held_at[threadIdx.x];
    }}
}}
"""


def best_parts(cells: int, length: int) -> int:
    """Into how many parts a dimension is cut, none of them empty, so that there is work for all of the device."""
    chunk = -(-length // max(1, min(-(-_BLOCKS * 2 // cells), length // 4096)))
    return -(-length // chunk)


@functools.lru_cache(4096)
def best_launch(kind: np.dtype, largest: bool, outer: int, length: int, inner: int, parts: int) -> Launch:
    """The launch on (elements, their places or 0, best elements or 0, places of those); it leaves `parts` of each."""
    if inner == 1:
        lanes = min(_THREADS, 1 << max(0, (-(-length // (4 * parts)) - 1).bit_length()))
    else:
        lanes = 8 if length >= 8 * parts else 1
    cells = _THREADS // lanes
    by_lane = inner == 1
    text = _BEST.format(T=c_type(kind), lanes=lanes, cells=cells, sign=">" if largest else "<",
                        cell_of="/ LANES" if by_lane else "% CELLS", lane_of="% LANES" if by_lane else "/ CELLS",
                        lane_step="1" if by_lane else "CELLS")
    fixed = longs(outer * inner, length, inner, -(-length // parts), parts)
    return Launch(compiled(text, "best"), "qqqq", (-(-outer * inner // cells), parts), (_THREADS,), fixed)


_INT64 = np.dtype(np.int64)


def grouped(shape: Sequence[int], dim: int | None) -> tuple[int, int, int]:
    """(outer, length, inner) of a contiguous array around a dimension; without one, all elements are one row."""
    if dim is None or not shape:
        return 1, math.prod(shape), 1
    dim = wrapped_dim(dim, len(shape))
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def _finding(array: CudaArray, dim: int | None, largest: bool) -> Callable[[CudaArray, int, int], None] | None:
    """`run(array, address for the elements or 0, address for their places)`; None where CuPy does it."""
    kind = array.dtype
    if not array.size or kind.name not in C_TYPES:
        return None
    outer, length, inner = grouped(array.shape, dim)
    parts = best_parts(outer * inner, length)
    if parts > 65535:
        return None
    first = best_launch(kind, largest, outer, length, inner, parts)
    if parts == 1:
        return lambda array, values, places: first(array.pointer, 0, values, places)
    second = best_launch(kind, largest, outer, parts, inner, 1)
    some, some_places = (layout_of((outer * parts * inner,), k) for k in (kind, _INT64))

    def run(array: CudaArray, values: int, places: int) -> None:
        best, best_places = empty(some, array.device), empty(some_places, array.device)
        first(array.pointer, 0, best.pointer, best_places.pointer)
        second(best.pointer, best_places.pointer, values, places)

    return run


@planned(by_value=False)
def place(spec: Spec, self: CudaArray, dim: int | None, keepdim: bool, operator: Operator) -> Callable | None:
    """`argmax` and `argmin`."""
    finding, layout = _finding(self, dim, operator.schema.base_name == "argmax"), layout_for(spec)

    def run(self: CudaArray, dim: int | None, keepdim: bool) -> CudaArray:
        made = quick_empty(layout, self.device)
        finding(dense(self), 0, made.pointer)  # type: ignore[misc]
        return made

    return finding and run


@planned(by_value=False)
def element_and_place(specs: Sequence[Spec], self: CudaArray, dim: int, keepdim: bool,
                      operator: Operator) -> Callable | None:
    """`max` and `min` along a dimension."""
    finding = _finding(self, dim, operator.schema.base_name == "max")
    layouts = [layout_for(spec) for spec in specs]

    def run(self: CudaArray, dim: int, keepdim: bool) -> Any:
        made = [quick_empty(layout, self.device) for layout in layouts]
        finding(dense(self), made[0].pointer, made[1].pointer)  # type: ignore[misc]
        return made

    return finding and run
