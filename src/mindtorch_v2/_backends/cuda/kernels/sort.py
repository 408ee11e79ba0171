"""Ordered rows on a GPU: the best few, rows short enough to be ordered whole, and what of these is equal."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core.geometry import wrapped_dim
from ...._ops._declare.rules import Spec
from ..array import CudaArray, array_on, empty, layout_of, quick_empty
from ..families import copy_array, layout_for
from ..launch import C_TYPES, Launch, c_type, compiled, longs
from ..plans import dense, planned
from .found import COUNTING, FEW, beginning, told

# A block a row. The k-th key is found digit by digit, what is above it is gathered, and a bitonic network orders that.
# Keys are unsigned and the best have the largest; equal ones are ordered by their places.
_HEAD = """
typedef {T} T; typedef {K} K;
#define ROOM {room}
__device__ inline K ordered(T x) {{ {key} }}
__device__ inline K key_of(T x) {{ return {best}ordered(x); }}
"""
_ORDERED = r"""
__device__ inline void put_in_order(K* keys, int* at) {  // the largest keys first
    for (int size = 2; size <= ROOM; size <<= 1)
        for (int step = size >> 1; step; step >>= 1) {
            __syncthreads();
            for (int i = threadIdx.x; i < ROOM / 2; i += blockDim.x) {
                int a = i / step * step * 2 + i % step, b = a + step;
                bool ahead = keys[b] > keys[a] || (keys[b] == keys[a] && at[b] < at[a]);
                if (ahead == ((a & size) == 0)) {
                    K key = keys[a]; keys[a] = keys[b]; keys[b] = key;
                    int place = at[a]; at[a] = at[b]; at[b] = place;
                }
            }
        }
    __syncthreads();
}
__device__ inline void load_in_order(const T* row, int64 length, K* keys, int* at) {
    for (int i = threadIdx.x; i < ROOM; i += blockDim.x) {
        keys[i] = i < length ? key_of(row[i]) : 0; at[i] = i < length ? i : 0x7fffffff;
    }
    put_in_order(keys, at);
}
"""
_SELECT = _ORDERED + r"""
extern "C" __global__ void select_rows(const T* in, T* values, int64* indices, int64 length, int64 k) {
    __shared__ K keys[ROOM];
    __shared__ int at[ROOM];
    __shared__ unsigned int counts[256], taken[2];
    __shared__ K bound[1];
    const T* row = in + blockIdx.x * length;
    if (threadIdx.x == 0) { taken[0] = taken[1] = 0; bound[0] = 0; }
    for (int i = threadIdx.x; i < ROOM; i += blockDim.x) { keys[i] = 0; at[i] = 0x7fffffff; }
    __syncthreads();
    if (length <= ROOM && k == length) {
        for (int i = threadIdx.x; i < length; i += blockDim.x) { keys[i] = key_of(row[i]); at[i] = i; }
    } else {
        K mask = 0;
        unsigned int left = (unsigned int)k;
        for (int shift = sizeof(K) * 8 - 8; shift >= 0; shift -= 8) {
            for (int i = threadIdx.x; i < 256; i += blockDim.x) counts[i] = 0;
            __syncthreads();
            K found = bound[0];
            for (int64 i = threadIdx.x; i < length; i += blockDim.x) {
                K key = key_of(row[i]);
                if ((key & mask) == found) atomicAdd(&counts[(int)(key >> shift & 255)], 1u);
            }
            __syncthreads();
            int digit = 255;
            while (counts[digit] < left) left -= counts[digit--];
            __syncthreads();
            if (threadIdx.x == 0) bound[0] = found | (K)digit << shift;
            mask |= (K)255 << shift;
            __syncthreads();
        }
        K least = bound[0];
        for (int64 i = threadIdx.x; i < length; i += blockDim.x) {
            K key = key_of(row[i]);
            int place = -1;
            if (key > least) place = atomicAdd(&taken[0], 1u);
            else if (key == least) {
                unsigned int nr = atomicAdd(&taken[1], 1u);
                if (nr < left) place = (int)k - 1 - (int)nr;
            }
            if (place >= 0) { keys[place] = key; at[place] = (int)i; }
        }
    }
    put_in_order(keys, at);
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
        if (values) values[blockIdx.x * k + i] = row[at[i]];
        indices[blockIdx.x * k + i] = at[i];
    }
}
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


def _head(kind: np.dtype, largest: bool, room: int) -> str:
    """C of the types of elements and keys, of which a block has that much room."""
    return _HEAD.format(T=c_type(kind), K=_KEYS[kind.itemsize], key=_key_text(kind), best="" if largest else "(K)~",
                        room=room)


@functools.lru_cache(4096)
def _select_launch(kind: np.dtype, largest: bool, rows: int, length: int, k: int) -> Launch:
    """The launch on (elements, best elements or 0, places of those) that leaves the best k of each row in order."""
    room = max(2, 1 << (k - 1).bit_length())
    text = _head(kind, largest, room) + _SELECT
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


# equal elements ------------------------------------------------------------------------------------------------------

# The numbers of firsts of equal neighbours, of all elements in order if it SORTS; each NaN is one.
_RUNS = COUNTING + r"""
#if SORTS
__shared__ K keys[ROOM];
__shared__ int at[ROOM];
#define PLACE(i) at[i]
#else
#define PLACE(i) (i)
#endif
extern "C" __global__ void runs(const T* in, T* values, int64* inverse, int64* counts, int64* told, int64 count) {
#if SORTS
    load_in_order(in, count, keys, at);
#endif
    int64 done = 0;
    for (int64 turn = 0; turn < count; turn += (int64)EACH * blockDim.x) {
        int64 begin = turn + (int64)threadIdx.x * EACH;
        int own = 0, all;
        bool first[EACH];
        for (int k = 0; k < EACH; ++k) {
            int64 i = begin + k;
            first[k] = i < count && (i == 0 || widened(in[PLACE(i)]) != widened(in[PLACE(i - 1)]));
            own += first[k];
        }
        int64 number = done + numbered(own, all);
        for (int k = 0; k < EACH && begin + k < count; ++k) {
            int64 i = begin + k;
            if (first[k]) {
                values[number] = in[PLACE(i)];
                if (counts) counts[number] = i;
                ++number;
            }
            if (inverse) inverse[PLACE(i)] = number - 1;
        }
        done += all;
    }
    if (threadIdx.x == 0) *told = done;
    if (!counts) return;
    for (int64 turn = 0; turn < done; turn += blockDim.x) {
        int64 j = turn + threadIdx.x, next = 0;
        __syncthreads();
        if (j < done) next = (j + 1 < done ? counts[j + 1] : count) - counts[j];
        __syncthreads();
        if (j < done) counts[j] = next;
    }
}
"""
_INT64 = np.dtype(np.int64)


def _room(kind: np.dtype, length: int) -> int:
    """Of how many keys a block makes room to order that many; 0 if it has not enough."""
    room = max(2, 1 << (length - 1).bit_length())
    return room if length and room * (kind.itemsize + 4) <= 1 << 15 else 0


def _one_of_each(array: CudaArray, sorts: bool, return_inverse: bool, return_counts: bool) -> Callable | None:
    """`run(array)`, which gives one of each run of equal elements, the numbers of these, and their lengths."""
    count, kind = array.size, array.dtype
    room = _room(kind, count) if sorts else int(count <= FEW)
    if not count or not room or kind.name not in C_TYPES:
        return None
    text = _head(kind, False, room) + f"#define SORTS {int(sorts)}\n" + (_ORDERED if sorts else "") + _RUNS
    threads = min(1024, -(-max(room // 2, count // 8, 1) // 32) * 32)
    launch = Launch(compiled(text, "runs"), "qqqqq", (1,), (threads,), longs(count))
    numbers, none = layout_of(array.shape, _INT64), layout_of((0,), _INT64)
    lengths, aligned = layout_of((count,), _INT64), -(-array.nbytes // 8) * 8
    space = layout_of((aligned + 8,), np.dtype(np.uint8))

    def run(array: CudaArray) -> list[CudaArray]:
        source, where = dense(array), array.device
        values, inverse = empty(space, where), empty(numbers if return_inverse else none, where)
        counts = empty(lengths if return_counts else none, where)
        end = values.pointer + aligned
        launch(source.pointer, values.pointer, inverse.pointer if return_inverse else 0,
               counts.pointer if return_counts else 0, end)
        found = (told(end),)
        return [beginning(values, found, kind), inverse, beginning(counts, found, _INT64) if return_counts else counts]

    return run


@planned
def unique(specs: Any, self: CudaArray, sorted: bool, return_inverse: bool,  # noqa: A002
           return_counts: bool) -> Callable | None:
    run = _one_of_each(self, True, return_inverse, return_counts)
    return run and (lambda self, *options: run(self))


@planned
def unique_consecutive(specs: Any, self: CudaArray, return_inverse: bool, return_counts: bool,
                       dim: int | None) -> Callable | None:
    run = _one_of_each(self, False, return_inverse, return_counts) if dim is None else None
    return run and (lambda self, *options: run(self))


# Of the longest runs of equal keys the one of the smallest elements, and the last place of these; a NaN equals nothing.
_MODE = _ORDERED + r"""
extern "C" __global__ void most_frequent(const T* in, T* values, int64* indices, int64 length) {
    __shared__ K keys[ROOM];
    __shared__ int at[ROOM];
    __shared__ unsigned long long best;
    const T* row = in + blockIdx.x * length;
    if (threadIdx.x == 0) best = 0;
    load_in_order(row, length, keys, at);
    for (int i = threadIdx.x; i < length; i += blockDim.x) {
        K key = keys[i];
        bool is_number = widened(row[at[i]]) == widened(row[at[i]]);
        if (is_number && i + 1 < length && keys[i + 1] == key) continue;
        int low = is_number ? 0 : i, high = i;  // the first that has this key
        while (low < high) {
            int middle = (low + high) / 2;
            if (keys[middle] > key) low = middle + 1; else high = middle;
        }
        atomicMax(&best, (unsigned long long)(i - low + 1) << 32 | (unsigned int)~i);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int found = at[(int)~(unsigned int)best];
        values[blockIdx.x] = row[found];
        indices[blockIdx.x] = found;
    }
}
"""


@planned
def mode(specs: Sequence[Spec], self: CudaArray, dim: int, keepdim: bool) -> Callable | None:
    layouts, kind = [layout_for(spec) for spec in specs], self.dtype
    if not self.size or not self.shape or kind.name not in C_TYPES or not all(made.contiguous for made in layouts):
        return None
    dim = wrapped_dim(dim, len(self.shape))
    length = self.shape[dim]
    room = _room(kind, length)
    if not room:
        return None
    launch = Launch(compiled(_head(kind, False, room) + _MODE, "most_frequent"), "qqq", (self.size // length,),
                    (min(1024, -(-room // 64) * 32),), longs(length))

    def run(self: CudaArray, *options: Any) -> list[CudaArray]:
        source = dense(_with_last(self, dim))
        values, indices = (empty(layout, self.device) for layout in layouts)
        launch(source.pointer, values.pointer, indices.pointer)
        return [values, indices]

    return run


# Rows read at fractional places; those with a NaN, unless it is ignored, at their end, where it is.
_QUANTILES = _ORDERED + r"""
extern "C" __global__ void quantiles(const T* in, const T* q, T* out, int64 length, int64 wanted) {
    __shared__ K keys[ROOM];
    __shared__ int at[ROOM], known;
    const T* row = in + blockIdx.x * length;
    if (threadIdx.x == 0) known = 0;
    load_in_order(row, length, keys, at);
    for (int i = threadIdx.x; i < length; i += blockDim.x) if (row[i] == row[i]) atomicAdd(&known, 1);
    __syncthreads();
    for (int64 j = threadIdx.x; j < wanted; j += blockDim.x) {
        T last = (T)(length - 1), place = IGNORES ? q[j] * (T)max(known - 1, 0) : known < length ? last : q[j] * last;
        place = ROUNDED(place);
        T made = row[at[(int)place]];
        if (BETWEEN) {
            T weight = LINEAR ? place - (T)(int)place : (T)0.5, above = row[at[(int)ceil(place)]], apart = above - made;
            made = weight < (T)0.5 ? made + weight * apart : above - apart * (1 - weight);
        }
        out[blockIdx.x * wanted + j] = made;
    }
}
"""
_ROUNDED = {"lower": "floor", "higher": "ceil", "nearest": "rint"}


@planned
def quantiles(spec: Spec, self: CudaArray, q: CudaArray, dim: int | None, keepdim: bool, interpolation: str,
              ignore_nan: bool) -> Callable | None:
    whole = dim is None or not self.shape
    at = -1 if whole else wrapped_dim(dim, len(self.shape))  # type: ignore[arg-type]
    length, kind, made = self.size if whole else self.shape[at], self.dtype, layout_for(spec)
    room = _room(kind, length)
    if not room or not made.size:
        return None
    settings = {"IGNORES": int(ignore_nan), "ROUNDED": _ROUNDED.get(interpolation, ""),
                "BETWEEN": int(interpolation not in _ROUNDED), "LINEAR": int(interpolation == "linear")}
    text = _head(kind, False, room) + "".join(f"#define {k} {v}\n" for k, v in settings.items()) + _QUANTILES
    launch = Launch(compiled(text, "quantiles"), "qqq", (self.size // length,), (min(1024, -(-room // 64) * 32),),
                    longs(length, q.size))

    def run(self: CudaArray, q: CudaArray, *options: Any) -> CudaArray:
        source, found = dense(self if whole else _with_last(self, at)), empty(made, self.device)
        launch(source.pointer, dense(q).pointer, found.pointer)
        return found

    return run
