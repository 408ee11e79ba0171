"""Norms of trailing dimensions on a GPU, and their gradients."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core.dtype import OF_ARRAY
from ...._ops._declare.rules import Spec
from ..array import CudaArray, empty, layout_of, quick_empty
from ..families import layout_for
from ..launch import PACKS, Launch, compiled, longs
from ..plans import dense, dense_if_any, planned, pointer_of
from ..row_launch import c_types, row_launch, widest
from .reduce import Folding

# the parameters and the body of kernels of rows
_NORM = ("const T0* x, const T1* weight, const T2* bias, T3* out, T4* means, T5* rstds, double eps", r"""
    A held[ITEMS][V], mean = 0, total = 0;
    load(held, x + row * width, width, (A)0);
    if (CENTRED) {
        EACH(k, j) mean += held[k][j];
        mean = row_fold<sum_of>(mean, 0) / width;
    }
    EACH(k, j) {
        A off = (k * (int64)blockDim.x + threadIdx.x) * V + j < width ? held[k][j] - mean : (A)0;
        held[k][j] = off;
        total += off * off;
    }
    A rstd = 1 / SQRT(row_fold<sum_of>(total, 0) / width + (A)eps);
    A scale[ITEMS][V];
    EACH(k, j) held[k][j] *= rstd;
    if (weight) { load(scale, weight, width, (A)0); EACH(k, j) held[k][j] *= scale[k][j]; }
    if (bias) { load(scale, bias, width, (A)0); EACH(k, j) held[k][j] += scale[k][j]; }
    save(held, out + row * width, width);
    if (threadIdx.x == 0) {
        if (CENTRED) means[row] = narrow<T4>::of(mean);
        rstds[row] = narrow<T5>::of(rstd);
    }
""")
_NORM_BACKWARD = ("const T0* grad, const T1* x, const T2* weight, const T3* means, const T4* rstds, T5* out", r"""
    A g[ITEMS][V], unit[ITEMS][V], along = 0, all = 0;
    load(g, grad + row * width, width, (A)0);
    if (weight) { load(unit, weight, width, (A)0); EACH(k, j) g[k][j] *= unit[k][j]; }
    load(unit, x + row * width, width, (A)0);
    A mean = CENTRED ? (A)widened(means[row]) : (A)0, rstd = (A)widened(rstds[row]);
    EACH(k, j) {
        unit[k][j] = (unit[k][j] - mean) * rstd;
        along += g[k][j] * unit[k][j];
        all += g[k][j];
    }
    along = row_fold<sum_of>(along, 0) / width;
    all = CENTRED ? row_fold<sum_of>(all, 0) / width : (A)0;
    EACH(k, j) g[k][j] = (g[k][j] - unit[k][j] * along - all) * rstd;
    save(g, out + row * width, width);
""")

_PARAMETERS = PACKS + r"""
extern "C" __global__ void parameters(const T0* grad, const T1* x, const T2* means, const T3* rstds, A* out,
                                      int64 rows, int64 width, int64 chunk) {
    __shared__ A of_weight[8][32], of_bias[8][32];
    int64 column = blockIdx.x * 32 + threadIdx.x, start = blockIdx.y * chunk;
    int64 end = start + chunk < rows ? start + chunk : rows;
    A w = 0, b = 0;
    if (column < width) {
        #pragma unroll 4
        for (int64 r = start + threadIdx.y; r < end; r += 8) {
            A g = (A)widened(grad[r * width + column]), mean = CENTRED ? (A)widened(means[r]) : (A)0;
            w += g * ((A)widened(x[r * width + column]) - mean) * (A)widened(rstds[r]);
            b += g;
        }
    }
    of_weight[threadIdx.y][threadIdx.x] = w;
    of_bias[threadIdx.y][threadIdx.x] = b;
    __syncthreads();
    if (threadIdx.y == 0 && column < width) {
        for (int y = 1; y < 8; ++y) { w += of_weight[y][threadIdx.x]; b += of_bias[y][threadIdx.x]; }
        out[blockIdx.y * width + column] = w;
        out[(gridDim.y + blockIdx.y) * width + column] = b;
    }
}
"""


@functools.lru_cache(4096)
def _parameter_launch(types: tuple[str, ...], wide: str, rows: int, width: int,
                     centred: bool) -> tuple[Launch, int]:
    """The launch that adds up the gradients of a norm's weight and bias over parts of the rows, and how many parts."""
    blocks = -(-width // 32)
    parts = max(1, min(-(-1056 // blocks), rows // 32))
    chunk = -(-rows // parts)
    parts = -(-rows // chunk)
    named = "".join(f"typedef {kind} T{i};\n" for i, kind in enumerate(types))
    text = f"typedef {wide} A;\n#define CENTRED {int(centred)}\n{named}{_PARAMETERS}"
    return Launch(compiled(text, "parameters"), "qqqqq", (blocks, parts), (32, 8), longs(rows, width, chunk)), parts


def _normalising(specs: Sequence[Spec], input: CudaArray, width: int, weight: Any, bias: Any,
                 centred: bool) -> Callable | None:
    """`run(input, weight, bias, eps)`, which gives the results of a norm."""
    layouts = [layout_for(spec) for spec in specs]
    if not input.size:
        return None
    launch = row_launch(_NORM, c_types(input, weight, bias, layouts[0], layouts[1] if centred else None,
                                       layouts[-1]), widest(input), input.size // width, width, centred)
    if launch is None:
        return None

    def run(input: CudaArray, weight: Any, bias: Any, eps: float) -> list:
        source = dense(input)
        made = [quick_empty(layout, source.device) for layout in layouts]
        scale, shift = dense_if_any(weight), dense_if_any(bias)
        launch(source.pointer, pointer_of(scale), pointer_of(shift), made[0].pointer,
               made[1].pointer if centred else 0, made[-1].pointer, eps)
        return made

    return run


@planned
def layer_norm(specs: Any, input: CudaArray, normalized_shape: tuple, weight: Any, bias: Any, eps: float) -> Any:
    run = _normalising(specs, input, math.prod(normalized_shape), weight, bias, True)
    return run and (lambda input, shape, weight, bias, eps: run(input, weight, bias, eps))


@planned
def rms_norm(specs: Any, input: CudaArray, normalized_shape: tuple, weight: Any, eps: float | None) -> Any:
    run = _normalising(specs, input, math.prod(normalized_shape), weight, None, False)
    return run and (lambda input, shape, weight, eps: run(input, weight, None, eps))


def _differentiating(specs: Sequence[Spec | None], grad_out: CudaArray, input: CudaArray, width: int,
                     mean: CudaArray | None, rstd: CudaArray, weight: Any) -> Callable | None:
    """`run(grad_out, input, mean, rstd, weight)`, which gives the gradients of a norm."""
    if not input.size or not all(OF_ARRAY[each.dtype].is_floating_point for each in (input, grad_out)):
        return None
    layouts = [None if spec is None else layout_for(spec) for spec in specs]
    rows, wide, centred = input.size // width, widest(input), mean is not None
    types = c_types(grad_out, input, weight, mean, rstd, layouts[0] or input)
    launch = row_launch(_NORM_BACKWARD, types, wide, rows, width, centred)
    if launch is None:
        return None
    adding, parts = _parameter_launch(c_types(grad_out, input, mean, rstd), wide, rows, width, centred)
    sums_of = layout_of((2, parts, width), np.dtype(np.float64 if wide == "double" else np.float32))
    foldings = [None if layout is None else Folding("sum", sums_of.dtype, sums_of.dtype, layout, 1, parts, width)
                for layout in layouts[1:]]

    def run(grad_out: CudaArray, input: CudaArray, mean: CudaArray | None, rstd: CudaArray, weight: Any) -> list:
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
        return made

    return run


@planned
def layer_norm_backward(specs: Any, grad_out: CudaArray, input: CudaArray, normalized_shape: tuple, mean: CudaArray,
                        rstd: CudaArray, weight: Any, bias: Any, output_mask: tuple) -> Any:
    run = _differentiating(specs, grad_out, input, math.prod(normalized_shape), mean, rstd, weight)
    return run and (lambda grad_out, input, shape, mean, rstd, weight, bias, mask:
                    run(grad_out, input, mean, rstd, weight))


@planned
def rms_norm_backward(specs: Any, grad_out: CudaArray, input: CudaArray, normalized_shape: tuple, rstd: CudaArray,
                      weight: Any, output_mask: tuple) -> Any:
    run = _differentiating(specs, grad_out, input, math.prod(normalized_shape), None, rstd, weight)
    return run and (lambda grad_out, input, shape, rstd, weight, mask:
                    run(grad_out, input, None, rstd, weight))
