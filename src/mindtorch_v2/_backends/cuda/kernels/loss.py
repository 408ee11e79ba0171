"""Class losses and their gradients on a GPU, without the matrix of their logarithms."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core.dtype import OF_ARRAY
from ...._ops._declare.rules import Spec
from ...._ops.loss import MEAN, NONE
from ..array import CudaArray, empty, layout_of
from ..families import copy_array, layout_for
from ..launch import ASSERTIONS, c_type, kernel
from ..plans import dense, dense_if_any, planned, pointer_of

_LOSS = ASSERTIONS + r"""
struct best { A top, total; };
__device__ inline best joined(best a, best b) {
    best r;
    r.top = a.top > b.top ? a.top : b.top;
    r.total = a.total == 0 ? (A)0 : a.total * EXP(a.top - r.top);
    r.total += b.total == 0 ? (A)0 : b.total * EXP(b.top - r.top);
    return r;
}
extern "C" __global__ void losses(const T* scores, const I* target, const T* weight, A* losses, A* weights, T* row_tops,
                                  A* row_totals, int64 classes, int64 ignored) {
    __shared__ A tops[32], totals[32];
    const T* row = scores + blockIdx.x * classes;
    int64 own = (int64)target[blockIdx.x];
    best b; b.top = 0; b.total = 1;
    if (row_tops) {
        b.top = -HUGE; b.total = 0;
        for (int64 i = threadIdx.x; i < classes; i += blockDim.x) {
            A x = (A)widened(row[i]);
            if (x > b.top) { b.total = (b.total == 0 ? (A)0 : b.total * EXP(b.top - x)) + 1; b.top = x; }
            else b.total += x == b.top ? (A)1 : EXP(x - b.top);
        }
        for (int s = 16; s; s >>= 1) {
            best o;
            o.top = __shfl_xor_sync(0xffffffff, b.top, s); o.total = __shfl_xor_sync(0xffffffff, b.total, s);
            b = joined(b, o);
        }
        if (threadIdx.x % 32 == 0) { tops[threadIdx.x / 32] = b.top; totals[threadIdx.x / 32] = b.total; }
        __syncthreads();
        if (threadIdx.x == 0)
            for (int w = 1; w < blockDim.x / 32; ++w) {
                best o; o.top = tops[w]; o.total = totals[w];
                b = joined(b, o);
            }
        b.total += b.top - b.top;  // nothing, or NaN where the largest is infinite
        if (threadIdx.x == 0) { row_tops[blockIdx.x] = narrow<T>::of(b.top); row_totals[blockIdx.x] = b.total; }
    }
    if (threadIdx.x == 0) {
        bool counts = own != ignored;
        require(!counts || (own >= 0 && own < classes));
        A w = !counts ? (A)0 : weight ? (A)widened(weight[own]) : (A)1;
        losses[blockIdx.x] = counts ? (LOG(b.total) - ((A)widened(row[own]) - b.top)) * w : (A)0;
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
extern "C" __global__ void spread(const T* grad, const T* scores, const I* target, const A* weights, const A* total,
                                  const T* row_tops, const A* row_totals, T* out, int64 classes, int64 each_grad,
                                  int64 ignored) {
    int64 at = blockIdx.x, own = (int64)target[at];
    A g = (A)widened(grad[each_grad ? at : 0]);
    if (total) g /= total[0];
    g = own == ignored ? (A)0 : g * weights[at];  // all of them ignored, the total is zero
    A top = row_tops ? (A)widened(row_tops[at]) : (A)0, share = row_tops ? g / row_totals[at] : (A)0;
    for (int64 i = blockIdx.y * (int64)blockDim.x + threadIdx.x; i < classes; i += (int64)gridDim.y * blockDim.x) {
        A made = row_tops ? EXP((A)widened(scores[at * classes + i]) - top) * share : (A)0;
        out[at * classes + i] = narrow<T>::of(i == own ? made - g : made);
    }
}
"""
_SINGLE = {"float": "#define EXP expf\n#define LOG logf\n#define HUGE __int_as_float(0x7f800000)\n",
           "double": "#define EXP exp\n#define LOG log\n#define HUGE __longlong_as_double(0x7ff0000000000000LL)\n"}


def _loss_source(scores: np.dtype, target: np.dtype) -> tuple[str, np.dtype]:
    wide = "double" if scores.itemsize == 8 else "float"
    return (f"typedef {c_type(scores)} T; typedef {c_type(target)} I; typedef {wide} A;\n{_SINGLE[wide]}{_LOSS}",
            np.dtype(np.float64 if wide == "double" else np.float32))


def _losing(output: Spec, saved: Sequence[Spec], self: CudaArray, target: CudaArray, reduction: int,
            ignore_index: int) -> Callable | None:
    """`run(self, target, weight)`, which gives the loss and what is saved of it."""
    if len(self.shape) != 2 or not self.size:
        return None
    rows, classes = self.shape
    text, wide = _loss_source(self.dtype, target.dtype)
    each, layouts = layout_of((rows,), wide), [layout_for(spec) for spec in (output, *saved)]
    lose, finish = kernel(text, "losses", "q" * 9), kernel(text, "finish", "q" * 6)
    threads = 1024 if classes > 8192 else 256 if classes > 512 else 64

    def run(self: CudaArray, target: CudaArray, weight: CudaArray | None) -> list[CudaArray]:
        where = self.device
        scores, places, factors = dense(self), dense(target), dense_if_any(weight)
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
    threads = 256 if classes > 512 else 64
    grid = rows, max(1, min(-(-classes // (threads * 8)), 16))

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
