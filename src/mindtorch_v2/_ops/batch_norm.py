"""Every channel normalised over the batch by its own statistics: the operator behind batch_norm, and its gradients."""

import math
from typing import Any

from .._core.device import channels_last, channels_last_3d
from .._core.dtype import COMPUTE
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from ._declare.aten import Aten, first
from ._declare.families import computes, writes
from ._declare.op import function_of, op
from ._declare.rules import Spec
from ._declare.samples import case, cases, t
from .copy import suggested_strides
from .norm import BLOCK_ELEMENTS, check_floating, check_sizes, second_derivative

_MANY_SAMPLES = 4


class _Channels:
    """An array seen as planes of a channel each (samples, channels, elements), or as rows of all channels.

    Rows are what lies so in memory: an input without spatial dimensions, and the channels-last format.
    """

    def __init__(self, xp: Any, array: Any, as_rows: bool) -> None:
        self.xp, self.as_rows, self.ndim = xp, as_rows, array.ndim
        batch, channels = array.shape[:2]
        self.count = batch * math.prod(array.shape[2:])
        self.array = (xp.moveaxis(array, 1, -1).reshape(self.count, channels) if as_rows
                      else array.reshape(batch, channels, math.prod(array.shape[2:])))
        step = max(1, BLOCK_ELEMENTS // max(1, math.prod(self.array.shape[1:])))
        if getattr(array, "is_shared", False):
            step = max(1, batch)
        # parts of the first dimension that fit in the cache
        self.blocks = [slice(start, start + step) for start in range(0, len(self.array), step)]

    def spread(self, parameter: Any) -> Any:
        """A value for each channel, shaped to meet the array; of many samples, repeated for all elements of one.

        Loops over two arrays take half the time of those over an array and a number.
        """
        if self.as_rows:
            return parameter
        column = parameter[:, None]
        return column if len(self.array) < _MANY_SAMPLES else self.xp.repeat(column, self.array.shape[2], 1)

    def sums(self, array: Any) -> Any:
        """The sum of a block for each channel; a product with ones is quicker than a sum."""
        if self.as_rows:
            return self.xp.ones(len(array), array.dtype) @ array
        return (array @ self.xp.ones(array.shape[2], array.dtype)).sum(0)

    def products(self, a: Any, b: Any) -> Any:
        """The sum of the products of two blocks for each channel."""
        return self.xp.einsum("ij,ij->j", a, b) if self.as_rows else self.xp.vecdot(a, b).sum(0)

    def shaped(self, made: Any, shape: tuple[int, ...]) -> Any:
        """An array like this one in the shape it came from."""
        if not self.as_rows:
            return made.reshape(shape)
        return self.xp.moveaxis(made.reshape(shape[0], *shape[2:], shape[1]), -1, 1)


def _specs(input: Tensor, weight: Any, bias: Any, eps: float) -> tuple[Spec, Spec, Spec]:
    shape, kind = input._array.shape, input.dtype
    check_floating(kind, "batch_norm")
    check_sizes("batch_norm", weight=(weight, shape[1]), bias=(bias, shape[1]))
    statistics = Spec((shape[1],), COMPUTE.get(kind, kind))
    return Spec(shape, kind, suggested_strides(input, shape)), statistics, statistics


def _normalised(xp: Any, input: Any, weight: Any, bias: Any, eps: float, spec: tuple[Spec, ...]) -> tuple:
    x = _Channels(xp, input, spec[0].strides is not None or math.prod(input.shape[2:]) == 1)
    mean = xp.zeros(input.shape[1], input.dtype)
    for block in x.blocks:
        mean += x.sums(x.array[block])
    mean /= x.count
    made, variance = xp.empty(x.array.shape, input.dtype), xp.zeros(input.shape[1], input.dtype)
    means = x.spread(mean)
    for block in x.blocks:
        centre = xp.subtract(x.array[block], means, out=made[block])
        variance += x.products(centre, centre)
    rstd = 1 / xp.sqrt(variance / x.count + xp.asarray(eps, input.dtype))
    scale, shift = x.spread(rstd if weight is None else rstd * weight), None if bias is None else x.spread(bias)
    for block in x.blocks:
        made[block] *= scale
        if shift is not None:
            made[block] += shift
    return x.shaped(made, input.shape), mean, rstd


def _grad(grads, input, weight, eps, mean, rstd, needs):
    grad, mean_grad, rstd_grad = grads
    made: tuple = (None, None, None)
    if grad is not None:
        made = call_bound(_BACKWARD, (grad, input, weight, mean, rstd, eps, needs))
    if mean_grad is None and rstd_grad is None:
        return made
    of_input, count = made[0], input.numel() // max(input.shape[1], 1)
    for extra in (None if mean_grad is None else _along(mean_grad, input) / count,
                  None if rstd_grad is None else
                  _along(rstd_grad * rstd.pow(3) / -count, input) * (input - _along(mean, input))):
        if extra is not None and needs[0]:
            of_input = extra.expand(input.shape) if of_input is None else of_input + extra
    return of_input, made[1], made[2]


def _along(parameter: Any, input: Any) -> Any:
    return parameter.reshape((-1,) + (1,) * (input.dim() - 2))


def _over(input: Any) -> tuple[int, ...]:
    """All dimensions but the channels."""
    return (0, *range(2, input.dim()))


def _batch_norm_by_parts(input, weight, bias, eps):
    x = input.to(COMPUTE.get(input.dtype, input.dtype))
    mean = x.mean(_over(x))
    centre = x - _along(mean, x)
    rstd = ((centre * centre).mean(_over(x)) + eps).rsqrt()
    made = centre * _along(rstd, x)
    made = made if weight is None else made * _along(weight, x)
    return made if bias is None else made + _along(bias, x), mean, rstd


# All three results have derivatives here, so that derivatives of any order come out right.
batch_norm_with_statistics = function_of(op(
    "_batch_norm(Tensor input, Tensor? weight, Tensor? bias, float eps) -> (Tensor output, Tensor mean, Tensor rstd)",
    kernel=computes(_specs, _normalised), public="",
    kernels={"cpu": "norm.batch_norm", "cuda": "batch_norm.batch_norm", "npu": "norm.batch_norm"},
    decomposition=_batch_norm_by_parts,
    npu="aclnnBatchNorm(input, weight, bias, None, None, True, momentum=0.0, eps, output, mean, rstd)",
    grad={"input, weight, bias": _grad},
    samples=cases(case(t(4, 3), t(3), t(3), 1e-5), case(t(2, 3, 4), None, None, 1e-5),
                  case(t(2, 3, 2, 2), t(3), None, 1e-3), case(t(2, 3, 2, 4, layout="transposed"), t(3), t(3), 1e-5)),
    aten=Aten(name="native_batch_norm", values=lambda input, weight, bias, eps: (
       input, weight, bias, None, None, True, 0.0, eps)),
    node="NativeBatchNormBackward0"))


def _backward_specs(grad_out: Tensor, input: Tensor, weight: Any, mean: Tensor, rstd: Tensor, eps: float,
                    output_mask: tuple) -> tuple:
    shape, kind = input._array.shape, input.dtype if weight is None else weight.dtype
    check_sizes("batch_norm_backward", grad_out=(grad_out, input._array.size), weight=(weight, shape[1]),
                mean=(mean, shape[1]), rstd=(rstd, shape[1]))
    specs = Spec(shape, input.dtype, suggested_strides(input, shape)), Spec((shape[1],), kind), Spec((shape[1],), kind)
    return tuple(spec if wanted else None for spec, wanted in zip(specs, output_mask, strict=True))


def _gradients(xp: Any, grad_out: Any, input: Any, weight: Any, mean: Any, rstd: Any, eps: float, output_mask: tuple,
               spec: tuple) -> tuple:
    in_rows = spec[0] is not None and spec[0].strides is not None
    as_rows = math.prod(input.shape[2:]) == 1 or in_rows
    x, grad = _Channels(xp, input, as_rows), _Channels(xp, grad_out, as_rows)
    of_bias, of_weight = xp.zeros(input.shape[1], input.dtype), xp.zeros(input.shape[1], input.dtype)
    means = x.spread(mean)
    for block in x.blocks:
        centre = x.array[block] - means
        of_bias += x.sums(grad.array[block])
        of_weight += x.products(grad.array[block], centre)
    of_weight *= rstd
    made = None
    if output_mask[0]:  # a multiple of the gradient, less what changes the mean, less what changes the deviation
        scale = rstd if weight is None else rstd * weight
        slope, shift = scale * rstd * of_weight / x.count, scale * of_bias / x.count
        made = xp.empty(x.array.shape, input.dtype)
        scale, slope, shift = map(x.spread, (scale, slope, shift))
        for block in x.blocks:
            part = xp.multiply(grad.array[block], scale, out=made[block])
            centre = x.array[block] - means
            centre *= slope
            centre += shift
            part -= centre
        made = x.shaped(made, input.shape)
    return made, of_weight if output_mask[1] else None, of_bias if output_mask[2] else None


def _gradients_by_parts(grad_out, input, weight, mean, rstd, eps, output_mask):
    kind = COMPUTE.get(input.dtype, input.dtype)
    grad, unit = grad_out.to(kind), (input.to(kind) - _along(mean, input)) * _along(rstd, input)
    dims, made = _over(input), None
    if output_mask[0]:
        slope = grad if weight is None else grad * _along(weight, input)
        made = slope - slope.mean(dims, True) - unit * (slope * unit).mean(dims, True)
        made = made * _along(rstd, input)
    return made, (grad * unit).sum(dims) if output_mask[1] else None, grad.sum(dims) if output_mask[2] else None


def _backward_grad(grads, grad_out, input, weight, mean, rstd):
    dims = (0, *range(2, input.dim()))
    shown = [None if p is None else _along(p, input) for p in (*grads[1:], weight, mean, rstd)]
    of_grad, of_centre, of_rstd, of_weight = second_derivative(
        (grads[0], *shown[:2]), grad_out, input - shown[3], shown[4], shown[2], dims, True)
    of_mean = None if of_centre is None else -of_centre.sum(dims)
    return (of_grad, of_centre, None if of_weight is None else of_weight.sum(dims), of_mean,
            None if of_rstd is None else of_rstd.sum(dims))


_BACKWARD = op(
   "_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor mean, Tensor rstd, float eps, "
   "bool[3] output_mask) -> (Tensor result, Tensor result1, Tensor result2)",
   kernel=computes(_backward_specs, _gradients),
   kernels={"cpu": "norm.batch_norm_backward", "cuda": "batch_norm.batch_norm_backward",
            "npu": "norm.batch_norm_backward"}, public="", decomposition=_gradients_by_parts,
   npu="aclnnBatchNormBackward(grad_out, input, weight, None, None, mean, rstd, True, eps, output_mask, result, "
       "result1, result2)",
   grad={"grad_out, input, weight, mean, rstd": _backward_grad},
   samples=cases(case(t(2, 3, 2), t(2, 3, 2), t(3), t(3), t(3, low=0.5), 1e-5, (True, True, True)),
                 case(t(4, 3), t(4, 3), None, t(3), t(3, low=0.5), 1e-5, (True, False, False))))


# by running statistics -----------------------------------------------------------------------------------------------


def _running_spec(input: Tensor, weight: Any, bias: Any, mean: Any, var: Tensor, eps: float) -> Spec:
    shape = input._array.shape
    check_sizes("batch_norm", weight=(weight, shape[1]), bias=(bias, shape[1]), mean=(mean, shape[1]),
                var=(var, shape[1]))
    return Spec(shape, input.dtype, suggested_strides(input, shape))


def _by_running(xp: Any, input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float, spec: Spec) -> Any:
    x = _Channels(xp, input, spec.strides is not None or math.prod(input.shape[2:]) == 1)
    scale = 1 / xp.sqrt(var + eps)
    scale = scale if weight is None else scale * weight
    shift = bias if mean is None else -mean * scale if bias is None else bias - mean * scale
    made = xp.empty(x.array.shape, input.dtype)
    scale, shift = x.spread(scale), None if shift is None else x.spread(shift)
    for block in x.blocks:
        part = xp.multiply(x.array[block], scale, out=made[block])
        if shift is not None:
            part += shift
    return x.shaped(made, input.shape)


def composed_by_running(input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
    """The same out of ordinary operators, rounded once, after the scale and the shift."""
    kind = COMPUTE.get(input.dtype, input.dtype)
    scale = ((var if var.dtype is kind else var.to(kind)) + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    made = input * _along(scale, input)
    shift = bias if mean is None else -mean * scale if bias is None else bias - mean * scale
    return (made if shift is None else made + _along(shift, input)).to(input.dtype)


def _running_grad(grad, input, weight, mean, var, eps, needs):
    if suggested_strides(input, input.shape) is not None:
        grad = grad.contiguous(memory_format=channels_last if input.dim() == 4 else channels_last_3d)
    of_input = call_bound(_RUNNING, (grad, weight, None, None, var, eps)) if needs[0] else None
    if not any(needs[1:]):
        return of_input, None, None, None, None
    kind = COMPUTE.get(input.dtype, input.dtype)
    rstd = (var.to(kind) + eps).rsqrt()
    centre = rstd.new_zeros(rstd.shape) if mean is None else mean.to(kind)
    _, along, whole = call_bound(_BACKWARD, (grad, input, weight, centre, rstd, eps, (False, True, True)))
    scale = rstd if weight is None else rstd * weight
    return of_input, along, whole, -whole * scale, along * scale * rstd / -2


def _by_running_at(g, input, weight, bias, mean, var, eps):
    """An element by the statistics of its channel, which is the same along a row of a plane."""
    channel = g.at[1]
    scale = 1 / g.sqrt(var[channel].cast(input.kind) + eps)
    scale = scale if weight is None else scale * weight[channel].cast(input.kind)
    shift = None if bias is None else bias[channel].cast(input.kind)
    if mean is not None:
        moved = mean[channel].cast(input.kind) * scale
        shift = -moved if shift is None else shift - moved
    made = input[tuple(g.at)] * scale
    return made if shift is None else made + shift


_RUNNING = op(
   "_batch_norm_running(Tensor input, Tensor? weight, Tensor? bias, Tensor? mean, Tensor var, float eps) -> Tensor",
   kernel=computes(_running_spec, _by_running), public="", gathers=_by_running_at,
   kernels={"cpu": "norm.by_running_statistics", "cuda": "batch_norm.by_running_statistics"},
   grad={"input, weight, bias, mean, var": _running_grad}, decomposition=composed_by_running,
   aten=Aten(name="native_batch_norm", result=first, values=lambda input, weight, bias, mean, var, eps: (
       input, weight, bias, mean, var, False, 0.0, eps)),
   node="NativeBatchNormBackward0")
batch_norm_by_running = function_of(_RUNNING)


def _move(xp: Any, running_mean: Any, running_var: Any, mean: Any, rstd: Any, momentum: float, eps: float,
          unbiased: float) -> None:
    running_mean[...] = running_mean + momentum * (mean - running_mean)
    running_var[...] = running_var + momentum * ((1 / (rstd * rstd) - eps) * unbiased - running_var)


def moved_statistics(running_mean: Any, running_var: Any, mean: Any, rstd: Any, momentum: float, eps: float,
                     unbiased: float) -> None:
    """The same out of ordinary operators."""
    running_mean.lerp_(mean.to(running_mean.dtype), momentum)
    running_var.lerp_(((rstd.pow(-2) - eps) * unbiased).to(running_var.dtype), momentum)


MOVE_STATISTICS = op(
   "_move_statistics_(Tensor(a!) self, Tensor(b!) variance, Tensor mean, Tensor rstd, float momentum, float eps, float "
   "unbiased) -> Tensor(a!)", kernel=writes(lambda *arguments: None, _move), public="",
   kernels={"cpu": "norm.move_statistics", "cuda": "batch_norm.move_statistics"}, decomposition=moved_statistics)
