"""Batch and group norm on a GPU: statistics, scaling and gradients by kernels of their own, in both memory formats."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._dispatch.registry import Operator, registry
from ...._ops.copy import suggested_strides
from ...._ops.families import result_of
from ...._ops.rules import Spec, check_writable
from ...._tensor import Tensor
from ..array import CudaArray, Layout, empty, layout_of
from ..channels import Geometry, folding, moving, planes, rows, scaling, settling, settling_gradients
from ..families import copy_array, layout_for, wrap_cuda
from ..launch import C_TYPES, c_type
from ..namespace import xp
from ..plans import dense, dense_if_any, planned, pointer_of


def _laid(tensor: Tensor, layout: Layout) -> CudaArray:
    """A tensor's array in a layout, at a place that is a multiple of 16 bytes."""
    array = tensor._array
    if not array.pointer & 15 and (array.layout is layout or array.layout.contiguous and layout.contiguous):
        return array
    made = empty(layout, array.device)
    copy_array(made, array)
    return made


def _type(tensor: Tensor | None) -> str:
    return "float" if tensor is None else c_type(tensor._array.dtype)


class _Norm:
    """How a norm goes through its input: to gather statistics, and to scale; how many statistics there are."""

    def __init__(self, input: Tensor, last: bool, groups: int | None) -> None:
        array = input._array
        kind, (batch, channels, *spatial) = array.dtype, array.shape
        length, last = math.prod(spatial), last or math.prod(spatial) == 1
        self.gathering: Geometry
        if groups is None:
            self.count = channels
            self.scaling = rows(kind, 1, channels, batch * length) if last else planes(kind, batch, channels, length)
            self.gathering = self.scaling
        else:
            self.count, per = batch * groups, channels // groups
            self.scaling = rows(kind, batch, channels, length, per) if last else planes(
                kind, 1, batch * channels, length, per, channels)
            self.gathering = self.scaling if last else planes(kind, 1, self.count, per * length)
        self.wide = np.dtype(np.float64 if kind.itemsize == 8 else np.float32)
        self.elements = array.size // self.count

    def parts(self, geometry: Geometry, numbers: int) -> Layout:
        return layout_of((geometry.entries, numbers), self.wide)


def _takes(input: Tensor) -> bool:
    return bool(input._array.size) and input._array.dtype.name in C_TYPES


def _forward(operator: Operator, specs: Any, input: Tensor, groups: int | None, weight: Any,
             bias: Any) -> Callable | None:
    """`run(input, weight, bias, eps)`, which gives the result, means and inverse deviations."""
    if not _takes(input):
        return None
    norm, layouts = _Norm(input, specs[0].strides is not None, groups), [layout_for(spec) for spec in specs]
    gather, settle = folding(norm.gathering, False), settling(norm.gathering, norm.count)
    scale = scaling(norm.scaling, False, W=_type(weight), B=_type(bias), M=c_type(norm.wide))
    parts_of = norm.parts(norm.gathering, 3)

    def run(input: Tensor, weight: Any, bias: Any, eps: float) -> Any:
        source, where = _laid(input, layouts[0]), input._device
        factors, addends = dense_if_any(weight), dense_if_any(bias)
        made, means, rstds = (empty(layout, where) for layout in layouts)
        parts = empty(parts_of, where)
        gather(source.pointer, 0, 0, 0, parts.pointer)
        settle(parts.pointer, means.pointer, rstds.pointer, eps)
        scale(source.pointer, means.pointer, rstds.pointer, pointer_of(factors), pointer_of(addends), made.pointer, 0.0)
        return result_of(operator, [wrap_cuda(made), wrap_cuda(means), wrap_cuda(rstds)])

    return run


@planned
def batch_norm(specs: Any, input: Tensor, weight: Any, bias: Any, eps: float, operator: Operator) -> Callable | None:
    return _forward(operator, specs, input, None, weight, bias)


@planned
def group_norm(specs: Any, input: Tensor, weight: Any, bias: Any, groups: int, eps: float,
               operator: Operator) -> Callable | None:
    run = _forward(operator, specs, input, groups, weight, bias)
    return run and (lambda input, weight, bias, groups, eps: run(input, weight, bias, eps))


@planned
def by_running_statistics(spec: Spec, input: Tensor, weight: Any, bias: Any, mean: Tensor | None, var: Tensor,
                          eps: float) -> Callable | None:
    if not _takes(input) or mean is not None and mean.dtype is not var.dtype:
        return None
    layout = layout_for(spec)
    geometry = _Norm(input, spec.strides is not None, None).scaling
    scale = scaling(geometry, False, True, W=_type(weight), B=_type(bias), M=_type(var))

    def run(input: Tensor, weight: Any, bias: Any, mean: Tensor | None, var: Tensor, eps: float) -> Tensor:
        source, made = _laid(input, layout), empty(layout, input._device)
        given = [dense_if_any(each) for each in (mean, var, weight, bias)]
        scale(source.pointer, *map(pointer_of, given), made.pointer, eps)
        return wrap_cuda(made)

    return run


def _backward(operator: Operator, specs: Any, grad_out: Tensor, input: Tensor, groups: int | None, weight: Any,
              mean: Tensor, rstd: Tensor) -> Callable | None:
    """`run(grad_out, input, weight, mean, rstd)`, which gives the gradients of input, weight and bias."""
    if not _takes(input) or grad_out.dtype is not input.dtype:
        return None
    layouts = [None if spec is None else layout_for(spec) for spec in specs]
    shape = input._array.shape
    strides = suggested_strides(input, shape)
    taken = layout_for(Spec(shape, input.dtype, strides))
    norm = _Norm(input, strides is not None, groups)
    if mean._array.dtype != norm.wide or rstd._array.dtype != norm.wide:
        return None
    of_input, (of_weight, of_bias) = layouts[0], layouts[1:]
    gather = folding(norm.scaling, True)
    kind = _type(weight) if weight is not None else c_type(input._array.dtype)
    settle = settling_gradients(norm.scaling, norm.count if of_input else 0, bool(of_weight or of_bias), kind)
    scale = scaling(norm.scaling, True, W=_type(weight)) if of_input else None
    parts_of, shared_of = norm.parts(norm.scaling, 2), layout_of((norm.count, 2), norm.wide)
    elements = float(norm.elements)

    def run(grad_out: Tensor, input: Tensor, weight: Any, mean: Tensor, rstd: Tensor) -> Any:
        source, grad, where = _laid(input, taken), _laid(grad_out, taken), input._device
        means, rstds, weights = dense(mean), dense(rstd), dense_if_any(weight)
        made = [None if layout is None else empty(layout, where) for layout in layouts]
        parts, shared = empty(parts_of, where), empty(shared_of, where)
        (first, second, third), factors = map(pointer_of, made), pointer_of(weights)
        gather(source.pointer, grad.pointer, means.pointer, rstds.pointer, parts.pointer)
        settle(parts.pointer, factors, shared.pointer, second, third)
        if scale is not None:
            scale(source.pointer, grad.pointer, means.pointer, rstds.pointer, factors, shared.pointer, first, elements)
        return result_of(operator, [None if array is None else wrap_cuda(array) for array in made])

    return run


@planned
def batch_norm_backward(specs: Any, grad_out: Tensor, input: Tensor, weight: Any, mean: Tensor, rstd: Tensor,
                        eps: float, output_mask: tuple, operator: Operator) -> Callable | None:
    run = _backward(operator, specs, grad_out, input, None, weight, mean, rstd)
    return run and (lambda grad_out, input, weight, mean, rstd, eps, mask: run(grad_out, input, weight, mean, rstd))


@planned
def group_norm_backward(specs: Any, grad_out: Tensor, input: Tensor, weight: Any, mean: Tensor, rstd: Tensor,
                        groups: int, output_mask: tuple, operator: Operator) -> Callable | None:
    run = _backward(operator, specs, grad_out, input, groups, weight, mean, rstd)
    return run and (lambda grad_out, input, weight, mean, rstd, groups, mask: run(grad_out, input, weight, mean, rstd))


_moves: dict[tuple, Any] = {}


def move_statistics(self: Tensor, variance: Tensor, mean: Tensor, rstd: Tensor, momentum: float, eps: float,
                    unbiased: float) -> Tensor:
    check_writable(self)
    a, b, m, r = self._array, variance._array, mean._array, rstd._array
    if not (a.layout.contiguous and b.layout.contiguous and m.dtype == r.dtype):
        registry.get("_move_statistics_").declaration.family.write(xp, a.view, b.view, m.view, r.view, momentum, eps,
                                                                   unbiased)
    elif a.size:
        key = a.layout, b.layout, m.layout
        launch = _moves.get(key)
        if launch is None:
            launch = _moves[key] = moving(m.dtype, a.dtype, b.dtype, a.size)
        m, r = dense(mean), dense(rstd)
        launch(a.pointer, b.pointer, m.pointer, r.pointer, momentum, eps, unbiased)
    self._bump_version()
    return self
