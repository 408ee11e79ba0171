"""Groups of a sample's channels normalised by their own statistics: the operator behind group_norm, its gradients."""

import math
from typing import Any

from .._core.dtype import COMPUTE
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from ._declare.aten import Aten
from ._declare.families import computes
from ._declare.op import function_of, op
from ._declare.rules import Spec
from .copy import suggested_strides
from .norm import _norm_gradients, _normalised, check_sizes, layer_norm_with_statistics, second_derivative


def _specs(input: Tensor, weight: Any, bias: Any, groups: int, eps: float) -> tuple[Spec, Spec, Spec]:
    shape, kind = input._array.shape, input.dtype
    check_sizes("group_norm", weight=(weight, shape[1]), bias=(bias, shape[1]))
    statistics = Spec((shape[0], groups), COMPUTE.get(kind, kind))
    return Spec(shape, kind, suggested_strides(input, shape)), statistics, statistics


def _rows(array: Any, groups: int) -> Any:
    """The elements of each group of a sample as a row."""
    return array.reshape(array.shape[0] * groups, array.size // max(array.shape[0] * groups, 1))


def _planes(array: Any) -> Any:
    return array.reshape(*array.shape[:2], math.prod(array.shape[2:]))


def _laid_out(xp: Any, made: Any, spec: Spec) -> Any:
    """The array with channels last if the spec says so."""
    if spec.strides is None:
        return made
    return xp.moveaxis(xp.ascontiguousarray(xp.moveaxis(made, 1, -1)), -1, 1)


def _group_normalised(xp: Any, input: Any, weight: Any, bias: Any, groups: int, eps: float, spec: tuple) -> tuple:
    made, mean, rstd = _normalised(xp, _rows(input, groups), None, None, eps, centred=True)
    made, shape = made.reshape(input.shape), (input.shape[0], groups)
    scaled = _planes(made)
    if weight is not None:
        scaled *= weight[:, None]
    if bias is not None:
        scaled += bias[:, None]
    return _laid_out(xp, made, spec[0]), mean.reshape(shape), rstd.reshape(shape)


def composed_group_norm(input: Any, weight: Any, bias: Any, groups: int, eps: float) -> tuple:
    """The same out of ordinary operators, rounded once, after the scale and the shift."""
    batch = input.shape[0]
    width = input.numel() // max(batch * groups, 1)
    wide = input.to(COMPUTE.get(input.dtype, input.dtype))
    made, mean, rstd = layer_norm_with_statistics(wide.reshape(batch, groups, width), (width,), None, None, eps)
    made = made.reshape(input.shape)
    if weight is not None:
        made = made * _along(weight, input)
    if bias is not None:
        made = made + _along(bias, input)
    return made.to(input.dtype), mean.squeeze(-1), rstd.squeeze(-1)


def _along(parameter: Any, input: Any) -> Any:
    return parameter.reshape((-1,) + (1,) * (input.dim() - 2))


def _grouped(input: Any, groups: int) -> Any:
    """Samples, groups, channels of a group, elements."""
    batch, channels, *inner = input.shape
    return input.reshape(batch, groups, channels // groups, math.prod(inner))


def _grad(grads, input, weight, groups, mean, rstd, needs):
    grad, mean_grad, rstd_grad = grads
    made: tuple = (None, None, None)
    if grad is not None:
        made = call_bound(_BACKWARD, (grad, input, weight, mean, rstd, groups, tuple(needs)))
    of_input, width = made[0], input.numel() // max(mean.numel(), 1)
    if needs[0] and (mean_grad is not None or rstd_grad is not None):
        extra = 0 if mean_grad is None else mean_grad[..., None, None] / width
        if rstd_grad is not None:
            slope = rstd_grad * rstd.pow(3) / -width
            extra = extra + slope[..., None, None] * (_grouped(input, groups) - mean[..., None, None])
        extra = extra.expand(_grouped(input, groups).shape).reshape(input.shape)
        of_input = extra if of_input is None else of_input + extra
    return of_input, made[1], made[2]


def _with_sizes(input, weight, bias, groups, eps):
    batch, channels, *inner = input.shape
    return input, weight, bias, batch, channels, math.prod(inner), groups, eps


# All three results have derivatives here, so that derivatives of any order come out right.
_GROUP_NORM = op(
   "_group_norm(Tensor input, Tensor? weight, Tensor? bias, int groups, float eps) -> (Tensor output, Tensor mean, "
   "Tensor rstd)", kernel=computes(_specs, _group_normalised), public="", grad={"input, weight, bias": _grad},
   decomposition=composed_group_norm, kernels={"cpu": "norm.group_norm", "cuda": "batch_norm.group_norm"},
   aten=Aten(name="native_group_norm", values=_with_sizes), node="NativeGroupNormBackward0")
group_norm_with_statistics = function_of(_GROUP_NORM)


def _backward_specs(grad_out: Tensor, input: Tensor, weight: Any, mean: Tensor, rstd: Tensor, groups: int,
                    output_mask: tuple) -> tuple:
    shape, kind = input._array.shape, input.dtype if weight is None else weight.dtype
    check_sizes("group_norm_backward", grad_out=(grad_out, input._array.size), weight=(weight, shape[1]),
                mean=(mean, shape[0] * groups), rstd=(rstd, shape[0] * groups))
    specs = Spec(shape, input.dtype, suggested_strides(input, shape)), Spec((shape[1],), kind), Spec((shape[1],), kind)
    return tuple(spec if wanted else None for spec, wanted in zip(specs, output_mask, strict=True))


def _gradients(xp: Any, grad_out: Any, input: Any, weight: Any, mean: Any, rstd: Any, groups: int,
               output_mask: tuple, spec: tuple) -> tuple:
    made = of_weight = None
    grad, x, mean, rstd = _planes(grad_out), _rows(input, groups), mean.reshape(-1, 1), rstd.reshape(-1, 1)
    if output_mask[0]:
        scaled = grad if weight is None else grad * weight[:, None]
        made = _norm_gradients(xp, scaled.reshape(x.shape), x, mean, rstd, None, (True, False, False))[0]
        made = _laid_out(xp, made.reshape(input.shape), spec[0])
    if output_mask[1]:
        of_weight = xp.einsum("ncl,ncl->c", grad, ((x - mean) * rstd).reshape(grad.shape))
    return made, of_weight, grad.sum((0, 2)) if output_mask[2] else None


def _gradients_by_parts(grad_out, input, weight, mean, rstd, groups, output_mask):
    kind = COMPUTE.get(input.dtype, input.dtype)
    grad, x = (_grouped(each.to(kind), groups) for each in (grad_out, input))
    unit, made = (x - mean[..., None, None]) * rstd[..., None, None], None
    if output_mask[0]:
        scaled = grad if weight is None else grad * weight.reshape(groups, -1, 1)
        along = scaled.mean((2, 3), True) + unit * (scaled * unit).mean((2, 3), True)
        made = ((scaled - along) * rstd[..., None, None]).reshape(input.shape).to(input.dtype)
    told = input.dtype if weight is None else weight.dtype
    return (made, (grad * unit).sum((0, 3)).reshape(-1).to(told) if output_mask[1] else None,
            grad.sum((0, 3)).reshape(-1).to(told) if output_mask[2] else None)


def _backward_grad(grads, grad_out, input, weight, mean, rstd, groups):
    parameters = [None if p is None else p.reshape(1, groups, -1, 1) for p in (*grads[1:], weight)]
    given, grad, x = (None if each is None else _grouped(each, groups) for each in (grads[0], grad_out, input))
    of_grad, of_centre, of_rstd, of_weight = second_derivative(
        (given, *parameters[:2]), grad, x - mean[..., None, None], rstd[..., None, None], parameters[2], (2, 3), True)
    shaped = [None if made is None else made.reshape(input.shape) for made in (of_grad, of_centre)]
    return (*shaped, None if of_weight is None else of_weight.sum((0, 3)).reshape(-1),
            None if of_centre is None else -of_centre.sum((2, 3)), None if of_rstd is None else of_rstd.sum((2, 3)))


_BACKWARD = op(
   "_group_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor mean, Tensor rstd, int groups, "
   "bool[3] output_mask) -> (Tensor result, Tensor result1, Tensor result2)",
   kernel=computes(_backward_specs, _gradients), public="",
   kernels={"cpu": "norm.group_norm_backward", "cuda": "batch_norm.group_norm_backward"},
   grad={"grad_out, input, weight, mean, rstd": _backward_grad}, decomposition=_gradients_by_parts)
