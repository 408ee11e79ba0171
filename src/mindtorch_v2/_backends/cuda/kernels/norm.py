"""Norms of trailing dimensions on a GPU, and their gradients."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._dispatch.registry import Operator
from ...._ops.families import result_of
from ...._ops.rules import Spec
from ...._tensor import Tensor
from ..array import empty, layout_of
from ..families import fresh_tensor, layout_for, wrap_cuda
from ..plans import dense, dense_if_any, planned, pointer_of
from ..reduce import Folding
from ..rows import c_types, parameter_launch, row_launch, widest


def _normalising(specs: Sequence[Spec], input: Tensor, width: int, weight: Any, bias: Any,
                 centred: bool) -> Callable | None:
    """`run(input, weight, bias, eps)`, which gives the results of a norm."""
    array, layouts = input._array, [layout_for(spec) for spec in specs]
    if not array.size:
        return None
    parameters = [None if t is None else t._array for t in (weight, bias)]
    launch = row_launch("norm", c_types(array, *parameters, layouts[0], layouts[1] if centred else None, layouts[-1]),
                        widest(array), array.size // width, width, centred)
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


@planned
def layer_norm(specs: Any, input: Tensor, normalized_shape: tuple, weight: Any, bias: Any, eps: float,
               operator: Operator) -> Any:
    run = _normalising(specs, input, math.prod(normalized_shape), weight, bias, True)
    kind = operator.declaration.result_type
    return run and (lambda input, shape, weight, bias, eps: kind(*run(input, weight, bias, eps)))


@planned
def rms_norm(specs: Any, input: Tensor, normalized_shape: tuple, weight: Any, eps: float | None,
             operator: Operator) -> Any:
    run = _normalising(specs, input, math.prod(normalized_shape), weight, None, False)
    kind = operator.declaration.result_type
    return run and (lambda input, shape, weight, eps: kind(*run(input, weight, None, eps)))


def _differentiating(specs: Sequence[Spec | None], grad_out: Tensor, input: Tensor, width: int, mean: Tensor | None,
                     rstd: Tensor, weight: Any) -> Callable | None:
    """`run(grad_out, input, mean, rstd, weight)`, which gives the gradients of a norm."""
    array = input._array
    if not array.size or not input.dtype.is_floating_point or not grad_out.dtype.is_floating_point:
        return None
    layouts = [None if spec is None else layout_for(spec) for spec in specs]
    rows, wide, centred = array.size // width, widest(array), mean is not None
    grad, means = grad_out._array, None if mean is None else mean._array
    scale = None if weight is None else weight._array
    types = c_types(grad, array, scale, means, rstd._array, layouts[0] or array)
    launch = row_launch("norm_backward", types, wide, rows, width, centred)
    if launch is None:
        return None
    adding, parts = parameter_launch(c_types(grad, array, means, rstd._array), wide, rows, width, centred)
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


@planned
def layer_norm_backward(specs: Any, grad_out: Tensor, input: Tensor, normalized_shape: tuple, mean: Tensor,
                        rstd: Tensor, weight: Any, bias: Any, output_mask: tuple, operator: Operator) -> Any:
    run = _differentiating(specs, grad_out, input, math.prod(normalized_shape), mean, rstd, weight)
    return run and (lambda grad_out, input, shape, mean, rstd, weight, bias, mask:
                    result_of(operator, run(grad_out, input, mean, rstd, weight)))


@planned
def rms_norm_backward(specs: Any, grad_out: Tensor, input: Tensor, normalized_shape: tuple, rstd: Tensor, weight: Any,
                      output_mask: tuple, operator: Operator) -> Any:
    run = _differentiating(specs, grad_out, input, math.prod(normalized_shape), None, rstd, weight)
    return run and (lambda grad_out, input, shape, rstd, weight, mask:
                    result_of(operator, run(grad_out, input, None, rstd, weight)))
