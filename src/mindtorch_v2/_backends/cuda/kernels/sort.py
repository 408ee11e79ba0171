"""Ordered rows on a GPU: the best few, and rows short enough to be ordered whole."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core.tensor import wrapped_dim
from ...._ops._declare.rules import Spec
from ..array import CudaArray, array_on, empty, layout_of, quick_empty
from ..families import copy_array
from ..launch import C_TYPES, Launch, c_type, compiled, longs
from ..plans import dense, planned

# A block a row. The k-th key is found digit by digit, what is above it is gathered, and a bitonic network orders that.
# Keys are unsigned and the best have the largest; equal ones are ordered by their places.
_SELECT = r"""
typedef {T} T; typedef {K} K;
#define ROOM {room}
__device__ inline K ordered(T x) {{ {key} }}
__device__ inline K key_of(T x) {{ return {best}ordered(x); }}
extern "C" __global__ void select_rows(const T* in, T* values, int64* indices, int64 length, int64 k) {{
    __shared__ K keys[ROOM];
    __shared__ int at[ROOM];
    __shared__ unsigned int counts[256], taken[2];
    __shared__ K bound[1];
    const T* row = in + blockIdx.x * length;
    if (threadIdx.x == 0) {{ taken[0] = taken[1] = 0; bound[0] = 0; }}
    for (int i = threadIdx.x; i < ROOM; i += blockDim.x) {{ keys[i] = 0; at[i] = 0x7fffffff; }}
    __syncthreads();
    if (length <= ROOM && k == length) {{
        for (int i = threadIdx.x; i < length; i += blockDim.x) {{ keys[i] = key_of(row[i]); at[i] = i; }}
    }} else {{
        K mask = 0;
        unsigned int left = (unsigned int)k;
        for (int shift = sizeof(K) * 8 - 8; shift >= 0; shift -= 8) {{
            for (int i = threadIdx.x; i < 256; i += blockDim.x) counts[i] = 0;
            __syncthreads();
            K found = bound[0];
            for (int64 i = threadIdx.x; i < length; i += blockDim.x) {{
                K key = key_of(row[i]);
                if ((key & mask) == found) atomicAdd(&counts[(int)(key >> shift & 255)], 1u);
            }}
            __syncthreads();
            int digit = 255;
            while (counts[digit] < left) left -= counts[digit--];
            __syncthreads();
            if (threadIdx.x == 0) bound[0] = found | (K)digit << shift;
            mask |= (K)255 << shift;
            __syncthreads();
        }}
        K least = bound[0];
        for (int64 i = threadIdx.x; i < length; i += blockDim.x) {{
            K key = key_of(row[i]);
            int place = -1;
            if (key > least) place = atomicAdd(&taken[0], 1u);
            else if (key == least) {{
                unsigned int nr = atomicAdd(&taken[1], 1u);
                if (nr < left) place = (int)k - 1 - (int)nr;
            }}
            if (place >= 0) {{ keys[place] = key; at[place] = (int)i; }}
        }}
    }}
    for (int size = 2; size <= ROOM; size <<= 1)
        for (int step = size >> 1; step; step >>= 1) {{
            __syncthreads();
            for (int i = threadIdx.x; i < ROOM / 2; i += blockDim.x) {{
                int a = i / step * step * 2 + i % step, b = a + step;
                bool ahead = keys[b] > keys[a] || (keys[b] == keys[a] && at[b] < at[a]);
                if (ahead == ((a & size) == 0)) {{
                    K key = keys[a]; keys[a] = keys[b]; keys[b] = key;
                    int place = at[a]; at[a] = at[b]; at[b] = place;
                }}
            }}
        }}
    __syncthreads();
    for (int i = threadIdx.x; i < k; i += blockDim.x) {{
        if (values) values[blockIdx.x * k + i] = row[at[i]];
        indices[blockIdx.x * k + i] = at[i];
    }}
}}
"""
_SELECTED = 2048  # as many elements as a block orders
_KEYS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


def _key_text(kind: np.dtype) -> str:
    """C that gives an unsigned number of the same order; NaN has the largest."""
    size = kind.itemsize
    if kind.kind in "ub":
        return "return (K)x;"
    top = f"((K)1 << {8 * size - 1})"
    if kind.kind == "i":
        return f"return (K)x ^ {top};"
    return ("if (widened(x) != widened(x)) return (K)~(K)0; union { T value; K bits; } u; u.value = x; "
            f"if (u.bits == {top}) u.bits = 0; "  # one zero
            f"return u.bits & {top} ? (K)~u.bits : (K)(u.bits | {top});")


@functools.lru_cache(4096)
def _select_launch(kind: np.dtype, largest: bool, rows: int, length: int, k: int) -> Launch:
    """The launch on (elements, best elements or 0, places of those) that leaves the best k of each row in order."""
    room = max(2, 1 << (k - 1).bit_length())
    text = _SELECT.format(T=c_type(kind), K=_KEYS[kind.itemsize], key=_key_text(kind), best="" if largest else "(K)~",
                          room=room)
    threads = min(1024, max(32, -(-max(room // 2, min(length, 4096) // 4) // 32) * 32))
    return Launch(compiled(text, "select_rows"), "qqq", (rows,), (threads,), longs(length, k))


def _with_last(array: CudaArray, dim: int) -> CudaArray:
    """The same memory with a dimension moved to the end."""
    order = [d for d in range(len(array.shape)) if d != dim] + [dim]
    layout = layout_of(tuple([array.shape[d] for d in order]), array.dtype, tuple([array.strides[d] for d in order]))
    return array_on(layout, array.memory, array.pointer, array.device)


def _selecting(specs: Sequence[Spec], self: CudaArray, k: int, dim: int, largest: bool) -> Callable | None:
    """`run(self)`, which gives the best k along a dimension and where they are, in order."""
    array = self
    if not array.size or not array.shape or not 0 < k <= _SELECTED or array.dtype.name not in C_TYPES:
        return None
    dim, kind = wrapped_dim(dim, len(array.shape)), array.dtype
    length = array.shape[dim]
    launch = _select_launch(kind, largest, array.size // length, length, k)
    layouts = [layout_of(tuple(s.shape), s.dtype.np, None if s.strides is None else tuple(
        [n * s.dtype.itemsize for n in s.strides])) for s in specs]
    rows = tuple([n for d, n in enumerate(specs[0].shape) if d != dim] + [k])
    direct = dim == len(array.shape) - 1 and all(layout.contiguous for layout in layouts)

    def run(self: CudaArray) -> list[CudaArray]:
        source = dense(self) if direct else dense(_with_last(self, dim))
        made = [quick_empty(layout, self.device) for layout in layouts]
        values, places = (m if direct else empty(layout_of(rows, m.dtype), self.device) for m in made)
        launch(source.pointer, values.pointer, places.pointer)
        if not direct:
            for target, found in zip(made, (values, places), strict=True):
                copy_array(_with_last(target, dim), found)
        return made

    return run


@planned(by_value=False)
def topk(specs: Any, self: CudaArray, k: int, dim: int, largest: bool, 
         sorted: bool) -> Callable | None:  # noqa: A002
    run = _selecting(specs, self, k, dim, largest)
    return run and (lambda self, *options: run(self))


@planned(by_value=False)
def sort(specs: Any, self: CudaArray, dim: int, descending: bool, stable: bool | None) -> Callable | None:
    shape = self.shape
    run = _selecting(specs, self, shape[dim], dim, descending) if shape else None
    return run and (lambda self, *options: run(self))
