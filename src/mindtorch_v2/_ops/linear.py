"""`linear`: rows times the transpose of a weight, and a bias."""

import math
from collections.abc import Callable
from typing import Any

from .._autograd.names import OTHERWISE
from .._core.dtype import float32, float64
from .._core.tensor import Tensor
from ._declare.aten import Aten
from ._declare.batch import Call, Result, aligned, one_by_one
from ._declare.families import computes
from ._declare.flops import Flops, linear_flop, weight_grad_flop
from ._declare.op import function_of, op
from ._declare.out import Out
from ._declare.rules import Spec
from ._declare.samples import case, cases, error, t
from .matrices import (
    QuickFamily,
    check_chain,
    check_expands,
    check_same_addmm,
    check_same_mm,
    check_supported,
    conj,
    dot_spec,
    lies_turned,
    rows_of,
)

_new = object.__new__
FLOAT32, FLOAT64 = float32.np, float64.np


def _linear_spec(input: Tensor, weight: Tensor, bias: Tensor | None) -> Spec:
    a, w = input._array.shape, weight._array.shape
    if not a or not w:
        raise RuntimeError(f"both arguments to linear need to be at least 1D, but they are {len(a)}D and {len(w)}D")
    if len(w) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {len(w)}D")
    rows = math.prod(a[:-1])
    if len(w) == 2:
        check_chain((rows, a[-1]), (w[1], w[0]))
    elif len(a) == 1:
        dot_spec(input, weight)
    elif a[-1] != w[0]:
        raise RuntimeError(f"size mismatch, got input ({rows}), mat ({rows}x{a[-1]}), vec ({w[0]})")
    shape, kind = a[:-1] + w[:-1], input.dtype
    if bias is None:
        check_same_mm(kind, weight.dtype)
    else:
        check_same_addmm(bias.dtype, weight.dtype)
        check_same_addmm(kind, weight.dtype, "mat1")
        check_expands(bias, (rows, w[0]) if len(shape) > 2 and bias._array.ndim == 1 else shape)
    check_supported(kind, "addmm_impl_cpu_", input, weight)
    return Spec(shape, kind)


def _linear_array(xp: Any, input: Any, weight: Any, bias: Any) -> Any:
    made = xp.dot(rows_of(input) if input.ndim > 2 else input, weight.T)
    if input.ndim > 2:
        made = made.reshape(input.shape[:-1] + weight.shape[:-1])
    if bias is not None:
        made += bias
    return made


def _quick_linear(xp: Any) -> Callable:
    multiplied = xp.linear

    def quick(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
        a, w = input._array, weight._array
        kind = a.dtype
        if kind is not w.dtype or (kind is not FLOAT32 and kind is not FLOAT64):
            return None
        shape, features = a.shape, w.shape
        if len(shape) < 2 or len(features) != 2 or shape[-1] != features[1]:
            return None
        if bias is None:
            b = None
        else:
            b = bias._array
            if b.dtype is not kind or b.shape != features[:1]:
                return None
        made = _new(Tensor)
        if len(shape) == 2:
            made._array = multiplied(a, w, b)
        else:
            made._array = multiplied(rows_of(a), w, b).reshape(shape[:-1] + features[:1])
        return made

    return quick


def _rows_times(rows: Any, weight: Any) -> Any:
    """The gradient of `linear`'s input from that of its result: `rows @ weight`, an outer product for a 1-D weight."""
    if weight.dim() == 1:
        return rows.unsqueeze(-1) * weight
    return rows.mm(weight) if rows.dim() == 2 else rows.matmul(weight)


def _linear_each(call: Call) -> Result:
    input, weight, bias = call.values
    if call.ndim(1) != 2:
        return one_by_one(call)
    if not call.batched[1]:
        made = call.run(input, weight, None if call.batched[2] else bias)
        if not call.batched[2]:
            return made, True
    else:
        rows = input.reshape((*input.shape[: call.batched[0]], math.prod(call.args[0].shape[:-1]), input.shape[-1]))
        made = rows.matmul(weight.transpose(1, 2))
        made = made.reshape((call.size, *input.shape[call.batched[0] : -1], weight.shape[1]))
    return (made if bias is None else made + aligned(bias, call.batched[2], call.ndim(0))), True


def _linear_parts(input, weight, bias):
    if weight.dim() != 2 or bias is None or bias.dim() != 1:
        made = input.matmul(weight if weight.dim() != 2 else weight.t())
        return made if bias is None else made + bias
    if input.dim() == 2:
        return bias.addmm(input, weight.t())
    rows = input.reshape((math.prod(input.shape[:-1]), input.shape[-1]))
    return bias.addmm(rows, weight.t()).view((*input.shape[:-1], weight.shape[0]))


_LINEAR_NODES = {"AddmmBackward0": "bias is not None and len(input._array.shape) == 2",
                 "MmBackward0": "len(input._array.shape) == 2",
                 "SqueezeBackward4": "bias is None and len(input._array.shape) == 1",
                 "ViewBackward0": "bias is not None",
                 "UnsafeViewBackward0": OTHERWISE}


def _linear_by_parts(input: Any, weight: Any, bias: Any) -> Any:
    """As ATen has it, but for products of more than two dimensions, which are made of this one."""
    if weight.dim() == 1 or not input.numel():
        made = (input * weight).sum(-1) if weight.dim() == 1 else input.new_zeros((*input.shape[:-1], weight.shape[0]))
        return made if bias is None else made + bias
    rows = input if input.dim() == 2 else input.reshape(-1, input.shape[-1])
    added = bias is not None and bias.dim() <= 1
    made = bias.addmm(rows, weight.t()) if added else rows.mm(weight.t())
    made = made if input.dim() == 2 else made.reshape(*input.shape[:-1], weight.shape[0])
    return made if bias is None or added else made + bias


def _of_input(grad: Any, weight: Any, strides: tuple[int, ...] | None) -> Any:
    """The gradient of the input, which lies as the input does if that is a matrix."""
    if strides is not None and len(strides) == 2 and strides[0] < strides[1] and weight.dim() == 2:
        if lies_turned(strides, grad.shape[0], grad):
            return weight.t().mm(grad.t()).t()
    return _rows_times(grad, weight)


def _of_weight(grad: Any, input: Any, strides: tuple[int, ...] | None) -> Any:
    """The gradient of the weight, which lies as the weight does."""
    if strides is not None and strides[0] < strides[-1] and lies_turned(strides, grad.shape[-1], grad):
        return _weight_grad(input, grad).t()
    return _weight_grad(grad, input)


_LINEAR = op("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", packs="weight",
   kernel=QuickFamily(_linear_spec, _linear_array, _quick_linear),
   # The bias first, whose gradient PyTorch has before it transposes the weight's.
   kernels={"cuda": "matmul.linear", "sparse": "products.linear"},
   grad=dict(bias=lambda grad, bias_shape: grad.sum((0,)) if grad.dim() == 2 and len(bias_shape) == 1 else grad,
             input=lambda grad, weight, input_strides: _of_input(grad, conj(weight), input_strides),
             weight=lambda grad, input, weight_strides: _of_weight(grad, conj(input), weight_strides)),
   public="nn.functional",
   samples=cases(case(t(2, 3), t(4, 3), t(4)), case(t(2, 3), t(4, 3)), case(t(3), t(4, 3), t(4)),
                 case(t(2, 2, 3), t(4, 3), t(4)),
                 case(t(2, 3), t(3)), case(t(3), t(3), t()), case(t(0, 3), t(4, 3), t(4)), case(t(2, 0), t(4, 0), t(4)),
                 case(t(2, 3, layout="transposed"), t(4, 3, layout="sliced"), t(4)), case(t(2, 3), t(4, 3), t(2, 4)),
                 error(RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 5x4)", t(2, 3), t(4, 5))),
   batch=_linear_each,
   out=Out(names="nn.functional.linear"), aten=Aten(parts=_linear_parts), autocast="lower",
   flops=Flops(linear_flop, lambda args: "addmm" if len(args) > 2 and args[2] is not None else "mm", "both"),
   node=_LINEAR_NODES,
   decomposition=_linear_by_parts)


def _weight_grad_spec(rows: Tensor, input: Tensor) -> Spec:
    a = input._array.shape
    return Spec(rows._array.shape[len(a) - 1 :] + a[-1:], rows.dtype)


def _weight_grad_array(xp: Any, rows: Any, input: Any) -> Any:
    if input.ndim == 2:
        return xp.dot(rows.T, input)
    features, count = rows.shape[input.ndim - 1 :], math.prod(input.shape[:-1])
    return xp.dot(rows.reshape((count, *features)).T, input.reshape((count, input.shape[-1])))


def _linear_weight_grad_each(call: Call) -> Result:
    rows, input = call.full(0), call.full(1)
    features = rows.shape[input._array.ndim - 1 :]
    count = math.prod(input.shape[1:-1])
    rows = rows.reshape((call.size, count, math.prod(features)))
    made = rows.transpose(1, 2).matmul(input.reshape((call.size, count, input.shape[-1])))
    return made.reshape((call.size, *features, input.shape[-1])), True


def _weight_grad_by_parts(rows: Any, input: Any) -> Any:
    width = rows.shape[-1:] if rows.dim() == input.dim() else ()
    count = math.prod(input.shape[:-1])
    made = rows.reshape(count, math.prod(width)).t().mm(input.reshape(count, input.shape[-1]))
    return made.reshape(*width, input.shape[-1])


_WEIGHT_GRAD = op("_linear_weight_grad(Tensor rows, Tensor input) -> Tensor",
   kernel=computes(_weight_grad_spec, _weight_grad_array),
   kernels={"cuda": "matmul.product"},
   grad=dict(rows=lambda grad, input: linear(conj(input), grad),
             input=lambda grad, rows: _rows_times(conj(rows), grad)),
   public="",
   samples=cases(case(t(2, 4), t(2, 3)), case(t(4), t(3)), case(t(2, 2, 4), t(2, 2, 3)), case(t(2), t(2, 3)),
                 case(t(0, 4), t(0, 3))), batch=_linear_weight_grad_each, flops=Flops(weight_grad_flop, "mm"),
   decomposition=_weight_grad_by_parts)

linear: Callable = function_of(_LINEAR)
_weight_grad: Callable = function_of(_WEIGHT_GRAD)
