"""Class losses and their gradients on a GPU, without the matrix of their logarithms."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._ops.loss import MEAN, NONE
from ...._ops.rules import Spec
from ...._tensor import Tensor
from ..array import empty, layout_of
from ..families import copy_array, uninitialised
from ..launch import ASSERTIONS, c_type, kernel
from ..plans import attempt, dense, dense_if_any, pointer_of

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


def _losses(output: Spec, saved: Sequence[Spec], self: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
            ignore_index: int) -> list[Tensor] | None:
    shape, where = self._array.shape, self._device
    if len(shape) != 2 or not self._array.size:
        return None
    rows, classes = shape
    text, wide = _loss_source(self._array.dtype, target._array.dtype)
    scores, places, factors = dense(self), dense(target), dense_if_any(weight)
    losses, weights = (empty(layout_of((rows,), wide), where) for _ in range(2))
    made = uninitialised(output, where)
    kept = [uninitialised(spec, where) for spec in saved]
    threads = 1024 if classes > 8192 else 256 if classes > 512 else 64
    kernel(text, "losses", "q" * 9).over(
        (rows,), (threads,), scores.pointer, places.pointer, pointer_of(factors), losses.pointer, weights.pointer,
        *([t._array.pointer for t in kept] or (0, 0)), classes, ignore_index)
    if reduction == NONE:
        copy_array(made._array, losses)
    else:
        kernel(text, "finish", "q" * 6).over((1,), (1024 if rows > 512 else 128,), losses.pointer, weights.pointer,
                                             made._array.pointer, 0, rows, int(reduction == MEAN))
    return [made, *kept]


@attempt
def cross_entropy(specs: Any, self: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int) -> Any:
    return _losses(specs[0], specs[1:], self, target, weight, reduction, ignore_index)


@attempt
def nll_loss(spec: Spec, self: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int) -> Any:
    made = _losses(spec, (), self, target, weight, reduction, ignore_index)
    return None if made is None else made[0]


def _loss_gradient(spec: Spec, grad_output: Tensor, self: Tensor | None, target: Tensor, weight: Any,
                   top: Tensor | None, row_total: Tensor | None, reduction: int,
                   ignore_index: int) -> Tensor | None:
    where = grad_output._device
    if len(spec.shape) != 2 or 0 in spec.shape or not grad_output.dtype.is_floating_point:
        return None
    rows, classes = spec.shape
    text, wide = _loss_source(grad_output._array.dtype, target._array.dtype)
    grad, places, factors = dense(grad_output), dense(target), dense_if_any(weight)
    weights, total = empty(layout_of((rows,), wide), where), None
    kernel(text, "weigh", "q" * 5).over((-(-rows // 256),), (256,), places.pointer, pointer_of(factors),
                                        weights.pointer, rows, ignore_index)
    if reduction == MEAN:
        total = empty(layout_of((1,), wide), where)
        kernel(text, "finish", "q" * 6).over((1,), (1024 if rows > 512 else 128,), weights.pointer, weights.pointer, 0,
                                             total.pointer, rows, 0)
    made = uninitialised(spec, where)
    scores, tops, totals = (None if t is None else dense(t) for t in (self, top, row_total))
    threads = 256 if classes > 512 else 64
    kernel(text, "spread", "q" * 11).over(
        (rows, max(1, min(-(-classes // (threads * 8)), 16))), (threads,), grad.pointer, pointer_of(scores),
        places.pointer, weights.pointer, pointer_of(total), pointer_of(tops), pointer_of(totals), made._array.pointer,
        classes, int(reduction == NONE), ignore_index)
    return made


@attempt
def cross_entropy_backward(spec: Spec, grad_output: Tensor, self: Tensor, target: Tensor, weight: Any,
                           top: Tensor, total: Tensor, reduction: int, ignore_index: int) -> Any:
    return _loss_gradient(spec, grad_output, self, target, weight, top, total, reduction, ignore_index)


@attempt
def nll_loss_backward(spec: Spec, grad_output: Tensor, target: Tensor, weight: Any, size: tuple, reduction: int,
                      ignore_index: int) -> Any:
    return _loss_gradient(spec, grad_output, None, target, weight, None, None, reduction, ignore_index)
