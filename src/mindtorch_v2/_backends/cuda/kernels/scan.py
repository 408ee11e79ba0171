"""Running sums and products on a GPU."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.dtype import REDUCED
from ...._dispatch.registry import Operator
from ...._ops._declare.rules import Spec
from ..array import CudaArray, empty, layout_of, quick_empty
from ..families import layout_for
from ..launch import C_TYPES, Launch, c_type, compiled, longs
from ..plans import dense, planned
from .extreme import grouped

_THREADS, _BLOCKS = 256, 1056

# `before` is what the parts in front of a part come to; with `totals`, only what a part itself comes to is stored.
_SCAN = r"""
typedef {T} T; typedef {R} R; typedef {A} A;
__device__ inline A with(A a, A b) {{ return {combine}; }}
extern "C" __global__ void scan_rows(const T* in, R* out, const A* before, A* totals, int64 rows, int64 length,
                                     int64 inner, int64 chunk, int64 parts) {{
    __shared__ A warps[33];
    int64 row = blockIdx.x * (int64)blockDim.y + threadIdx.y, part = blockIdx.y;
    if (row >= rows) return;
    int64 start = part * chunk, end = start + chunk < length ? start + chunk : length;
    const T* p = in + row * length;
    A carry = before ? before[row * parts + part] : (A){start};
    for (int64 tile = start; tile < end; tile += blockDim.x * 4) {{
        int64 at = tile + threadIdx.x * 4;
        A held[4], total = (A){start};
        #pragma unroll
        for (int k = 0; k < 4; ++k) {{
            if (at + k < end) total = with(total, (A)widened(p[at + k]));
            held[k] = total;
        }}
        A front = total;
        for (int s = 1; s < 32; s <<= 1) {{
            A left = __shfl_up_sync(0xffffffff, front, s);
            if (threadIdx.x % 32 >= s) front = with(left, front);
        }}
        A whole = __shfl_sync(0xffffffff, front, 31);
        front = __shfl_up_sync(0xffffffff, front, 1);
        if (threadIdx.x % 32 == 0) front = (A){start};
        if (blockDim.x > 32) {{
            if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = whole;
            __syncthreads();
            A left = (A){start};
            whole = (A){start};
            for (int w = 0; w < blockDim.x / 32; ++w) {{
                if (w == threadIdx.x / 32) left = whole;
                whole = with(whole, warps[w]);
            }}
            front = with(left, front);
            __syncthreads();
        }}
        front = with(carry, front);
        if (!totals)
            for (int k = 0; k < 4; ++k)
                if (at + k < end) out[row * length + at + k] = narrow<R>::of(with(front, held[k]));
        carry = with(carry, whole);
    }}
    if (totals && threadIdx.x == 0) totals[row * parts + part] = carry;
}}
extern "C" __global__ void scan_columns(const T* in, R* out, const A* before, A* totals, int64 cells, int64 length,
                                        int64 inner, int64 chunk, int64 parts) {{
    int64 cell = blockIdx.x * (int64)blockDim.x + threadIdx.x, part = blockIdx.y;
    if (cell >= cells) return;
    int64 start = part * chunk, end = start + chunk < length ? start + chunk : length;
    int64 group = cell / inner, column = cell % inner;
    int64 first = group * length * inner + column, at = (group * parts + part) * inner + column;
    A carry = before ? before[at] : (A){start};
    #pragma unroll 4
    for (int64 i = start; i < end; ++i) {{
        carry = with(carry, (A)widened(in[first + i * inner]));
        if (!totals) out[first + i * inner] = narrow<R>::of(carry);
    }}
    if (totals) totals[at] = carry;
}}
extern "C" __global__ void put_before(const A* totals, A* before, int64 cells, int64 parts, int64 inner) {{
    int64 cell = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (cell >= cells) return;
    A carry = (A){start};
    for (int64 part = 0; part < parts; ++part) {{
        int64 at = (cell / inner * parts + part) * inner + cell % inner;
        before[at] = carry;
        carry = with(carry, totals[at]);
    }}
}}
"""


class _Scanning:
    """The launches of a running sum or product; a long dimension is cut into parts."""

    def __init__(self, name: str, kind: np.dtype, made: np.dtype, wide: np.dtype, outer: int, length: int,
                 inner: int) -> None:
        text = _SCAN.format(T=c_type(kind), R=c_type(made), A=c_type(wide), start="0" if name == "cumsum" else "1",
                            combine="a + b" if name == "cumsum" else "a * b")
        self.cells = cells = outer * inner
        smallest = 8192 if inner == 1 else 256
        enough = _BLOCKS if inner == 1 else _BLOCKS * _THREADS
        parts = max(1, min(-(-enough // cells), length // smallest, 1024))
        chunk = -(-length // parts)
        chunk += -chunk % 4
        self.parts = parts = -(-length // chunk)
        if inner == 1:
            block = (32, 8) if chunk <= 512 else (_THREADS, 1)
            name, grid = "scan_rows", (-(-outer // block[1]), parts)
        else:
            block, name, grid = (_THREADS, 1), "scan_columns", (-(-cells // _THREADS), parts)
        fixed = longs(cells, length, inner, chunk, parts)
        self.launch = Launch(compiled(text, name), "qqqq", grid, block, fixed)
        if parts > 1:
            self.between = Launch(compiled(text, "put_before"), "qq", (-(-cells // _THREADS),), (_THREADS,),
                                  longs(cells, parts, inner))

    def __call__(self, source: int, made: int, totals: int, before: int) -> None:
        """With more than one part, `totals` and `before` have room for one number a part of each cell."""
        if self.parts > 1:
            self.launch(source, made, 0, totals)
            self.between(totals, before)
        self.launch(source, made, before if self.parts > 1 else 0, 0)


_FLOAT32, _INT64 = np.dtype(np.float32), np.dtype(np.int64)


@planned(by_value=False)
def cumulative(spec: Spec, self: CudaArray, dim: int, dtype: Any, operator: Operator) -> Callable | None:
    """`cumsum` and `cumprod`."""
    array, layout = self, layout_for(spec)
    made = layout.dtype
    if not array.size or not {array.dtype.name, made.name} <= C_TYPES.keys() or made.kind == "b" or (
            made.kind in "iu" and array.dtype.kind not in "biu"):
        return None
    wide = _FLOAT32 if made in REDUCED else _INT64 if made.kind in "iu" else made
    outer, length, inner = grouped(array.shape, dim)
    scanning = _Scanning(operator.schema.base_name, array.dtype, made, wide, outer, length, inner)
    room = layout_of((2, scanning.cells * scanning.parts), wide)

    def run(self: CudaArray, dim: int, dtype: Any) -> CudaArray:
        source, result = dense(self), quick_empty(layout, self.device)
        if scanning.parts == 1:
            scanning(source.pointer, result.pointer, 0, 0)
        else:
            sums = empty(room, self.device)
            scanning(source.pointer, result.pointer, sums.pointer, sums.pointer + room.nbytes // 2)
        return result

    return run
