"""Softmax, norms of trailing dimensions and class losses on a GPU, by kernels of their own."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._dispatch.registry import registry
from ...._ops.families import result_of
from ...._ops.loss import MEAN, NONE
from ...._ops.rules import Spec
from ...._tensor import Tensor
from ..array import empty, layout_of
from ..families import copy_array, fresh_tensor, layout_for, uninitialised, wrap_cuda
from ..launch import ASSERTIONS, C_TYPES, c_type, kernel
from ..reduce import Folding
from ..rows import parameter_launch, row_launch
from .plans import dense, dense_if_any, own, planned, pointer_of


def _wide(*arrays: Any) -> str:
    return "double" if any(a.dtype.itemsize == 8 for a in arrays) else "float"


def _types(*arrays: Any) -> tuple[str, ...]:
    return tuple([c_type(a.dtype) if a is not None else "float" for a in arrays])


# softmax -------------------------------------------------------------------------------------------------------------


def _is_last(dim: int, shape: Sequence[int]) -> bool:
    return bool(shape) and dim in (-1, len(shape) - 1)


def _softmax(name: str) -> None:
    def prepare(spec: Spec, self: Tensor, dim: int, dtype: Any) -> Callable | None:
        array, layout = self._array, layout_for(spec)
        if not array.size or not _is_last(dim, array.shape) or array.dtype.name not in C_TYPES:
            return None
        width = array.shape[-1]
        launch = row_launch(name, _types(array, layout), _wide(array, layout), array.size // width, width)
        if launch is None:
            return None

        def run(self: Tensor, dim: int, dtype: Any) -> Tensor:
            source = dense(self)
            made = fresh_tensor(layout, source.device)
            launch(source.pointer, made._array.pointer)
            return made

        return run

    planned(name)(prepare)


def _softmax_backward(name: str) -> None:
    def prepare(spec: Spec, grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Callable | None:
        array, layout = output._array, layout_for(spec)
        if not array.size or not _is_last(dim, array.shape) or grad_output._array.shape != array.shape:
            return None
        width = array.shape[-1]
        launch = row_launch(name, _types(grad_output._array, array, layout), _wide(array, layout), array.size // width,
                            width)
        if launch is None:
            return None

        def run(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
            grad, source = dense(grad_output), dense(output)
            made = fresh_tensor(layout, source.device)
            launch(grad.pointer, source.pointer, made._array.pointer)
            return made

        return run

    planned(f"_{name}_data")(prepare)


for _name in ("softmax", "log_softmax"):
    _softmax(_name)
    _softmax_backward(f"{_name}_backward")


# norms ---------------------------------------------------------------------------------------------------------------


def _normalising(specs: Sequence[Spec], input: Tensor, width: int, weight: Any, bias: Any,
                 centred: bool) -> Callable | None:
    """`run(input, weight, bias, eps)`, which gives the results of a norm."""
    array, layouts = input._array, [layout_for(spec) for spec in specs]
    if not array.size:
        return None
    parameters = [None if t is None else t._array for t in (weight, bias)]
    launch = row_launch("norm", _types(array, *parameters, layouts[0], layouts[1] if centred else None, layouts[-1]),
                        _wide(array), array.size // width, width, centred)
    if launch is None:
        return None

    def run(input: Tensor, weight: Any, bias: Any, eps: float) -> tuple:
        source = dense(input)
        made = [fresh_tensor(layout, source.device) for layout in layouts]
        scale, shift = dense_if_any(weight), dense_if_any(bias)
        launch(source.pointer, pointer_of(scale), pointer_of(shift), made[0]._array.pointer,
               made[1]._array.pointer if centred else 0, made[-1]._array.pointer, eps)
        return tuple(made)

    return run


@planned("_native_layer_norm")
def _layer_norm(specs: Any, input: Tensor, normalized_shape: tuple, weight: Any, bias: Any, eps: float) -> Any:
    run = _normalising(specs, input, math.prod(normalized_shape), weight, bias, True)
    kind = registry.get("_native_layer_norm").declaration.result_type
    return run and (lambda input, shape, weight, bias, eps: kind(*run(input, weight, bias, eps)))


@planned("_native_rms_norm")
def _rms_norm(specs: Any, input: Tensor, normalized_shape: tuple, weight: Any, eps: float | None) -> Any:
    run = _normalising(specs, input, math.prod(normalized_shape), weight, None, False)
    kind = registry.get("_native_rms_norm").declaration.result_type
    return run and (lambda input, shape, weight, eps: kind(*run(input, weight, None, eps)))


def _differentiating(specs: Sequence[Spec | None], grad_out: Tensor, input: Tensor, width: int, mean: Tensor | None,
                     rstd: Tensor, weight: Any) -> Callable | None:
    """`run(grad_out, input, mean, rstd, weight)`, which gives the gradients of a norm."""
    array = input._array
    if not array.size or not input.dtype.is_floating_point or not grad_out.dtype.is_floating_point:
        return None
    layouts = [None if spec is None else layout_for(spec) for spec in specs]
    rows, wide, centred = array.size // width, _wide(array), mean is not None
    grad, means = grad_out._array, None if mean is None else mean._array
    scale = None if weight is None else weight._array
    types = _types(grad, array, scale, means, rstd._array, layouts[0] or array)
    launch = row_launch("norm_backward", types, wide, rows, width, centred)
    if launch is None:
        return None
    adding, parts = parameter_launch(_types(grad, array, means, rstd._array), wide, rows, width, centred)
    sums_of = layout_of((2, parts, width), np.dtype(np.float64 if wide == "double" else np.float32))
    foldings = [None if layout is None else Folding("sum", sums_of.dtype, sums_of.dtype, layout, 1, parts, width)
                for layout in layouts[1:]]

    def run(grad_out: Tensor, input: Tensor, mean: Tensor | None, rstd: Tensor, weight: Any) -> list:
        grad, source, rstds = dense(grad_out), dense(input), dense(rstd)
        means, scale = dense_if_any(mean), dense_if_any(weight)
        made: list = [None] * len(layouts)
        if layouts[0] is not None:
            made[0] = empty(layouts[0], source.device)
            launch(grad.pointer, source.pointer, pointer_of(scale), pointer_of(means), rstds.pointer, made[0].pointer)
        if any(foldings):
            sums = empty(sums_of, source.device)
            adding(grad.pointer, source.pointer, pointer_of(means), rstds.pointer, sums.pointer)
            for i, folding in enumerate(foldings):
                if folding is not None:
                    made[i + 1] = folding.of(sums.pointer + i * (sums_of.nbytes // 2), source.device)
        return [None if array is None else wrap_cuda(array) for array in made]

    return run


@planned("native_layer_norm_backward")
def _layer_norm_backward(specs: Any, grad_out: Tensor, input: Tensor, normalized_shape: tuple, mean: Tensor,
                         rstd: Tensor, weight: Any, bias: Any, output_mask: tuple) -> Any:
    run = _differentiating(specs, grad_out, input, math.prod(normalized_shape), mean, rstd, weight)
    operator = registry.get("native_layer_norm_backward")
    return run and (lambda grad_out, input, shape, mean, rstd, weight, bias, mask:
                    result_of(operator, run(grad_out, input, mean, rstd, weight)))


@planned("_native_rms_norm_backward")
def _rms_norm_backward(specs: Any, grad_out: Tensor, input: Tensor, normalized_shape: tuple, rstd: Tensor, weight: Any,
                       output_mask: tuple) -> Any:
    run = _differentiating(specs, grad_out, input, math.prod(normalized_shape), None, rstd, weight)
    operator = registry.get("_native_rms_norm_backward")
    return run and (lambda grad_out, input, shape, rstd, weight, mask:
                    result_of(operator, run(grad_out, input, None, rstd, weight)))


# class losses --------------------------------------------------------------------------------------------------------

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


@own("_cross_entropy")
def _cross_entropy(specs: Any, self: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int) -> Any:
    return _losses(specs[0], specs[1:], self, target, weight, reduction, ignore_index)


@own("nll_loss")
def _nll_loss(spec: Spec, self: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int) -> Any:
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


@own("_cross_entropy_backward")
def _cross_entropy_backward(spec: Spec, grad_output: Tensor, self: Tensor, target: Tensor, weight: Any,
                            top: Tensor, total: Tensor, reduction: int, ignore_index: int) -> Any:
    return _loss_gradient(spec, grad_output, self, target, weight, top, total, reduction, ignore_index)


@own("_nll_loss_backward")
def _nll_loss_backward(spec: Spec, grad_output: Tensor, target: Tensor, weight: Any, size: tuple, reduction: int,
                       ignore_index: int) -> Any:
    return _loss_gradient(spec, grad_output, None, target, weight, None, None, reduction, ignore_index)
