"""Class losses and their gradients on a GPU, without the matrix of their logarithms."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core.dtype import OF_ARRAY
from ...._ops._declare.rules import Spec
from ...._ops.loss import MEAN, NONE
from ..array import CudaArray, empty, layout_of
from ..families import copy_array, layout_for
from ..launch import ASSERTIONS, PACKS, c_type, kernel
from ..plans import dense, dense_if_any, planned, pointer_of

# Rows are read 16 bytes at a time from their first multiple of 16 on, U such groups before any of them is looked at.
_LOSS = ASSERTIONS + PACKS + r"""
#define V (16 / (int)sizeof(T))
typedef pack<T, V> group;
__device__ inline int64 before_groups(const T* row, int64 classes) {
    int64 head = (16 - ((size_t)row & 15)) % 16 / sizeof(T);
    return head < classes ? head : classes;
}
struct best { A top, total; };  // the largest so far, and the sum of exponentials less that
__device__ inline best joined(best a, best b) {
    best r;
    r.top = a.top > b.top ? a.top : b.top;
    r.total = a.total == 0 ? (A)0 : a.total * EXP(a.top - r.top);
    r.total += b.total == 0 ? (A)0 : b.total * EXP(b.top - r.top);
    return r;
}
__device__ inline best of_one(A x) {
    best r;
    r.top = x == x ? x : -HUGE;
    r.total = x == -HUGE ? (A)0 : 1 + (x - x);  // or NaN
    return r;
}
__device__ inline best of_warp(best b) {
    for (int s = 16; s; s >>= 1) {
        best o;
        o.top = __shfl_xor_sync(0xffffffff, b.top, s); o.total = __shfl_xor_sync(0xffffffff, b.total, s);
        b = joined(b, o);
    }
    return b;
}
__device__ inline best of_row(const T* row, int64 classes) {
    __shared__ best warps[32];
    best b; b.top = -HUGE; b.total = 0;
    int64 head = before_groups(row, classes), groups = (classes - head) / V, stride = blockDim.x;
    const group* whole = (const group*)(row + head);
    for (int64 i = threadIdx.x; i < groups; i += U * stride) {
        group held[U];
        #pragma unroll
        for (int u = 0; u < U; ++u)
            if (i + u * stride < groups) held[u] = whole[i + u * stride];
            else for (int j = 0; j < V; ++j) held[u].v[j] = narrow<T>::of(-HUGE);
        A top = -HUGE;
        #pragma unroll
        for (int u = 0; u < U; ++u)
            for (int j = 0; j < V; ++j) { A x = (A)widened(held[u].v[j]); top = x > top ? x : top; }
        if (top > b.top) { b.total = b.total == 0 ? (A)0 : b.total * EXP(b.top - top); b.top = top; }
        A less = b.top == -HUGE ? (A)0 : b.top, sums[U];
        #pragma unroll
        for (int u = 0; u < U; ++u) {
            sums[u] = 0;
            for (int j = 0; j < V; ++j) sums[u] += EXP((A)widened(held[u].v[j]) - less);
        }
        b.total += (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    int64 rest = classes - groups * V;
    for (int64 i = threadIdx.x; i < rest; i += stride)
        b = joined(b, of_one((A)widened(row[i < head ? i : i + groups * V])));
    b = of_warp(b);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = b;
    __syncthreads();
    if (threadIdx.x < 32) {
        if (threadIdx.x < blockDim.x / 32) b = warps[threadIdx.x];
        else { b.top = -HUGE; b.total = 0; }
        b = of_warp(b);
    }
    b.total += b.top - b.top;  // nothing, or NaN where the largest is infinite
    return b;
}
extern "C" __global__ void losses(const T* scores, const I* target, const T* weight, A* losses, A* weights, T* row_tops,
                                  A* row_totals, int64 classes, int64 ignored) {
    const T* row = scores + blockIdx.x * classes;
    int64 own = (int64)target[blockIdx.x];
    bool counts = own != ignored;
    require(!counts || (own >= 0 && own < classes));
    A score = counts ? (A)widened(row[own]) : (A)0;  // asked for now, needed when the row has been read
    A w = !counts ? (A)0 : weight ? (A)widened(weight[own]) : (A)1;
    best b; b.top = 0; b.total = 1;
    if (row_tops) b = of_row(row, classes);
    if (threadIdx.x == 0) {
        if (row_tops) { row_tops[blockIdx.x] = narrow<T>::of(b.top); row_totals[blockIdx.x] = b.total; }
        losses[blockIdx.x] = counts ? (LOG(b.total) - (score - b.top)) * w : (A)0;
        weights[blockIdx.x] = w;
    }
}
extern "C" __global__ void finish(const A* losses, const A* weights, T* out, A* total_weight, int64 count,
                                  int64 divides) {
    __shared__ A one[32], two[32];
    A loss = 0, weight = 0;
    for (int64 i = threadIdx.x; i < count; i += blockDim.x) { loss += losses[i]; weight += weights[i]; }
    for (int s = 16; s; s >>= 1) {
        loss += __shfl_xor_sync(0xffffffff, loss, s); weight += __shfl_xor_sync(0xffffffff, weight, s);
    }
    if (threadIdx.x % 32 == 0) { one[threadIdx.x / 32] = loss; two[threadIdx.x / 32] = weight; }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; ++w) { loss += one[w]; weight += two[w]; }
        if (out) out[0] = narrow<T>::of(divides ? loss / weight : loss);
        if (total_weight) total_weight[0] = weight;
    }
}
extern "C" __global__ void weigh(const I* target, const T* weight, A* weights, int64 count, int64 ignored) {
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (i < count) weights[i] = (int64)target[i] == ignored ? (A)0 : weight ? (A)widened(weight[target[i]]) : (A)1;
}
extern "C" __global__ void __launch_bounds__(256, 4) spread(
        const T* grad, const T* scores, const I* target, const A* weights, const A* total, const T* row_tops,
        const A* row_totals, T* out, int64 classes, int64 each_grad, int64 ignored) {
    int64 at = blockIdx.x;
    const T* row = scores + at * classes;
    T* made = out + at * classes;
    int64 head = before_groups(made, classes), groups = (classes - head) / V;
    int64 first = blockIdx.y * (int64)blockDim.x + threadIdx.x, stride = (int64)gridDim.y * blockDim.x;
    const group* whole = (const group*)(row + head);
    group held[U];
#define TAKE(i) if (row_tops) _Pragma("unroll") for (int u = 0; u < U; ++u) \
    if ((i) + u * stride < groups) held[u] = whole[(i) + u * stride];
    TAKE(first)  // asked for before what the row has in common is known
    int64 own = (int64)target[at];
    A g = (A)widened(grad[each_grad ? at : 0]);
    if (total) g /= total[0];
    g = own == ignored ? (A)0 : g * weights[at];  // all of them ignored, the total is zero
    A top = row_tops ? (A)widened(row_tops[at]) : (A)0, share = row_tops ? g / row_totals[at] : (A)0;
#define GRADIENT(x) (row_tops ? EXP((A)widened(x) - top) * share : (A)0)
    for (int64 i = first; i < groups; i += U * stride) {
        #pragma unroll
        for (int u = 0; u < U; ++u) {
            if (i + u * stride >= groups) break;
            int64 within = own - (head + (i + u * stride) * V);
            group given;
            #pragma unroll
            for (int j = 0; j < V; ++j) given.v[j] = narrow<T>::of(GRADIENT(held[u].v[j]));
            if (within >= 0 && within < V)
                for (int j = 0; j < V; ++j) if (j == within) given.v[j] = narrow<T>::of(GRADIENT(held[u].v[j]) - g);
            ((group*)(made + head))[i + u * stride] = given;
        }
        TAKE(i + U * stride)
    }
    int64 rest = classes - groups * V;
    for (int64 i = first; i < rest; i += stride) {
        int64 place = i < head ? i : i + groups * V;
        made[place] = narrow<T>::of(GRADIENT(row[place]) - (place == own ? g : (A)0));
    }
}
"""
_FLOATS = {"float": "#define EXP expf\n#define LOG logf\n#define HUGE __int_as_float(0x7f800000)\n",
           "double": "#define EXP exp\n#define LOG log\n#define HUGE __longlong_as_double(0x7ff0000000000000LL)\n"}
_GROUPS, _MOST_THREADS, _TURNS = 4, 512, 3  # U, the threads of a block, and how often each takes U groups of a row


def _loss_source(scores: np.dtype, target: np.dtype) -> tuple[str, np.dtype]:
    wide = "double" if scores.itemsize == 8 else "float"
    functions = _FLOATS[wide]
    if scores.itemsize == 2:  # the quick exponential has more digits than what is rounded to such a type
        functions = functions.replace("EXP expf", "EXP __expf")
    return (f"typedef {c_type(scores)} T; typedef {c_type(target)} I; typedef {wide} A;\n#define U {_GROUPS}\n"
            f"{functions}{_LOSS}", np.dtype(np.float64 if wide == "double" else np.float32))


def _threads(kind: np.dtype, classes: int, most: int) -> int:
    """As many threads as have U groups of a row each, in whole warps."""
    groups = classes * kind.itemsize // 16
    return min(most, max(32, -(-groups // (32 * _GROUPS)) * 32))


def _losing(output: Spec, saved: Sequence[Spec], self: CudaArray, target: CudaArray, reduction: int,
            ignore_index: int) -> Callable | None:
    """`run(self, target, weight)`, which gives the loss and what is saved of it."""
    if len(self.shape) != 2 or not self.size:
        return None
    rows, classes = self.shape
    text, wide = _loss_source(self.dtype, target.dtype)
    each, layouts = layout_of((rows,), wide), [layout_for(spec) for spec in (output, *saved)]
    lose, finish = kernel(text, "losses", "q" * 9), kernel(text, "finish", "q" * 6)
    threads = _threads(self.dtype, classes, _MOST_THREADS) if saved else 32

    def run(self: CudaArray, target: CudaArray, weight: CudaArray | None) -> list[CudaArray]:
        where = self.device
        scores = self if self.layout.contiguous else dense(self)
        places, factors = dense(target), dense_if_any(weight)
        losses, weights = empty(each, where), empty(each, where)
        made, *kept = [empty(layout, where) for layout in layouts]
        lose.over((rows,), (threads,), scores.pointer, places.pointer, pointer_of(factors), losses.pointer,
                  weights.pointer, *([a.pointer for a in kept] or (0, 0)), classes, ignore_index)
        if reduction == NONE:
            copy_array(made, losses)
        else:
            finish.over((1,), (1024 if rows > 512 else 128,), losses.pointer, weights.pointer, made.pointer, 0, rows,
                        int(reduction == MEAN))
        return [made, *kept]

    return run


@planned
def cross_entropy(specs: Any, self: CudaArray, target: CudaArray, weight: Any, reduction: int,
                  ignore_index: int) -> Callable | None:
    run = _losing(specs[0], specs[1:], self, target, reduction, ignore_index)
    return run and (lambda self, target, weight, *options: run(self, target, weight))


@planned
def nll_loss(spec: Spec, self: CudaArray, target: CudaArray, weight: Any, reduction: int,
             ignore_index: int) -> Callable | None:
    run = _losing(spec, (), self, target, reduction, ignore_index)
    return run and (lambda self, target, weight, *options: run(self, target, weight)[0])


def _gradient(spec: Spec, grad_output: CudaArray, target: CudaArray, reduction: int,
              ignore_index: int) -> Callable | None:
    """`run(grad_output, scores or None, target, weight, tops, totals)`, which gives the gradient of the scores."""
    if len(spec.shape) != 2 or 0 in spec.shape or not OF_ARRAY[grad_output.dtype].is_floating_point:
        return None
    rows, classes = spec.shape
    text, wide = _loss_source(grad_output.dtype, target.dtype)
    each, one, layout = layout_of((rows,), wide), layout_of((1,), wide), layout_for(spec)
    weigh, finish, spread = (kernel(text, name, "q" * count) for name, count in (("weigh", 5), ("finish", 6),
                                                                                 ("spread", 11)))
    threads = _threads(grad_output.dtype, classes, 256)
    grid = rows, max(1, min(classes * grad_output.dtype.itemsize // (16 * _GROUPS * threads * _TURNS), 64))

    def run(grad_output: CudaArray, self: CudaArray | None, target: CudaArray, weight: CudaArray | None,
            top: CudaArray | None, row_total: CudaArray | None) -> CudaArray:
        where = grad_output.device
        grad, places, factors = dense(grad_output), dense(target), dense_if_any(weight)
        weights, total = empty(each, where), None
        weigh.over((-(-rows // 256),), (256,), places.pointer, pointer_of(factors), weights.pointer, rows, ignore_index)
        if reduction == MEAN:
            total = empty(one, where)
            finish.over((1,), (1024 if rows > 512 else 128,), weights.pointer, weights.pointer, 0, total.pointer, rows,
                        0)
        made = empty(layout, where)
        scores, tops, totals = map(dense_if_any, (self, top, row_total))
        spread.over(grid, (threads,), grad.pointer, pointer_of(scores), places.pointer, weights.pointer,
                    pointer_of(total), pointer_of(tops), pointer_of(totals), made.pointer, classes,
                    int(reduction == NONE), ignore_index)
        return made

    return run


@planned
def cross_entropy_backward(spec: Spec, grad_output: CudaArray, self: CudaArray, target: CudaArray, weight: Any,
                           top: CudaArray, total: CudaArray, reduction: int, ignore_index: int) -> Callable | None:
    run = _gradient(spec, grad_output, target, reduction, ignore_index)
    return run and (lambda grad_output, self, target, weight, top, total, *options:
                    run(grad_output, self, target, weight, top, total))


@planned
def nll_loss_backward(spec: Spec, grad_output: CudaArray, target: CudaArray, weight: Any, size: tuple, reduction: int,
                      ignore_index: int) -> Callable | None:
    run = _gradient(spec, grad_output, target, reduction, ignore_index)
    return run and (lambda grad_output, target, weight, *options: run(grad_output, None, target, weight, None, None))
