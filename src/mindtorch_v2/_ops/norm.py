"""Normalisation over trailing dimensions, and measures of vectors: cosine similarity, pairwise distance."""

import math
from collections.abc import Sequence
from typing import Any

from .._backends.interface import backend_of
from .._core.dtype import FLOAT, REDUCED, dtype, finfo, float32, promote_types
from .._core.tensor import Tensor
from .._core.warn import warn
from .._dispatch.callers import call_bound
from .._dispatch.keys import modes
from ._declare.aten import LEAF, Aten
from ._declare.batch import decomposed
from ._declare.families import computes
from ._declare.op import composite, function_of, op
from ._declare.rules import Spec, broadcast_shape, c_name, shape_text
from ._declare.samples import case, cases, error, t

# Rows are normalised a block at a time, so that the passes over a block find it in the cache.
BLOCK_ELEMENTS = 1 << 16


# checks --------------------------------------------------------------------------------------------------------------


def _check_shapes(input: Tensor, normalized_shape: tuple[int, ...], separator: str, weight: Tensor | None,
                  bias: Tensor | None = None) -> None:
    shape, count = input._array.shape, len(normalized_shape)
    if not count:
        raise RuntimeError("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
                           "element, but got normalized_shape = []")
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter._array.shape != normalized_shape:
            raise RuntimeError(f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                               f"{shape_text(parameter._array.shape)} and normalized_shape = "
                               f"{shape_text(normalized_shape)}")
    if shape[-count:] != normalized_shape:
        raise RuntimeError(f"Given normalized_shape={shape_text(normalized_shape)}, expected input with shape "
                           f"[*{separator}{', '.join(map(str, normalized_shape))}], but got input of "
                           f"size{shape_text(shape)}")


def check_floating(kind: dtype, kernel: str) -> None:
    if kind.category != FLOAT:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind.scalar_name}'")


def has_wide_statistics(input: Tensor) -> bool:
    """Whether mean and deviation of a half input are float32 whatever its parameters are."""
    return input.dtype.np in REDUCED and backend_of(input._device.type).wide_statistics


def _statistics_type(input: Tensor, *parameters: Tensor | None) -> dtype:
    """The type of mean and deviation: the input's; float32 for half ones with such parameters, or on such a device."""
    kind = input.dtype
    made = float32 if has_wide_statistics(input) else kind
    for parameter in parameters:
        if parameter is not None and parameter.dtype is not kind:
            if kind.np not in REDUCED or parameter.dtype is not float32:
                raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
            made = float32
    return made


def _statistics_shape(shape: tuple[int, ...], normalized_shape: Sequence[int]) -> tuple[int, ...]:
    count = len(normalized_shape)
    return shape[:-count] + (1,) * count


def check_sizes(name: str, **expected: tuple[Tensor | None, int]) -> None:
    """Raises unless each tensor has as many elements as the kernels, which do not look, will read of it."""
    for argument, (tensor, size) in expected.items():
        if tensor is not None and tensor._array.size != size:
            raise RuntimeError(f"{name}: expected {argument} to have {size} elements, but got shape "
                               f"{shape_text(tensor._array.shape)}")


def _check_backward(name: str, grad_out: Tensor, input: Tensor, normalized_shape: tuple[int, ...],
                    **statistics: Tensor) -> None:
    rows = math.prod(input._array.shape[: input._array.ndim - len(normalized_shape)])
    check_sizes(name, grad_out=(grad_out, input._array.size), **{key: (x, rows) for key, x in statistics.items()})


# array functions -----------------------------------------------------------------------------------------------------


def _flat(array: Any, normalized_shape: Sequence[int]) -> Any:
    """The array as rows to normalise."""
    if len(normalized_shape) == 1 and array.ndim == 2:
        return array
    return array.reshape((math.prod(array.shape[: array.ndim - len(normalized_shape)]), math.prod(normalized_shape)))


def _blocks(array: Any) -> Sequence[slice]:
    """Parts of the rows that fit in a core's cache; all of them where several cores compute (`Backend.shared`)."""
    rows, width = array.shape
    step = max(BLOCK_ELEMENTS // max(width, 1), 1)
    if rows <= step or getattr(array, "is_shared", False):
        return (slice(None),)
    return [slice(start, start + step) for start in range(0, rows, step)]


def _row_means(xp: Any, rows: Any) -> Any:
    """The mean of each row, as a column; a product with ones is several times quicker than a sum."""
    width = rows.shape[1]
    if not width:
        return xp.full((len(rows), 1), xp.nan, rows.dtype)
    return rows.dot(xp.full((width, 1), 1 / width, rows.dtype))


def _normalised(xp: Any, x: Any, weight: Any, bias: Any, eps: float, centred: bool) -> tuple[Any, Any, Any]:
    """Rows brought to mean 0 (if `centred`) and mean square 1, scaled, shifted; their means and inverse deviations."""
    rows, width = x.shape
    made = xp.empty(x.shape, x.dtype)
    rstd = xp.empty((rows, 1), x.dtype)
    if getattr(x, "is_shared", False):
        means = xp.empty((rows, 1), x.dtype) if centred else None
        factors = xp.full((width, 1), 1 / width, x.dtype) if centred else None
        xp.deal(xp, _normalise_rows, (eps,), rows, (x, weight, bias, means, factors, rstd, made))
        return made, means, rstd
    mean: Any = _row_means(xp, x) if centred else None
    for block in _blocks(x):
        _normalise_rows(xp, block, eps, x, weight, bias, mean, None, rstd, made)
    return made, mean, rstd


def _normalise_rows(xp: Any, part: slice, eps: float, x: Any, weight: Any, bias: Any, mean: Any, factors: Any,
                    rstd: Any, made: Any) -> None:
    """The same for some rows, in memory that was made before; a product with `factors`, if given, is the mean."""
    out, scale, centre = made[part], rstd[part], x[part]
    if factors is not None:
        xp.matmul(centre, factors, out=mean[part])
    if mean is not None:
        centre = xp.subtract(centre, mean[part], out=out)
    xp.vecdot(centre, centre, out=scale[:, 0])
    scale /= x.shape[1]
    scale += eps
    xp.sqrt(scale, out=scale)
    xp.reciprocal(scale, out=scale)
    xp.multiply(centre, scale, out=out)
    if weight is not None:
        out *= weight
    if bias is not None:
        out += bias


def _norm_gradients(xp: Any, grad: Any, x: Any, mean: Any, rstd: Any, weight: Any, wanted: Sequence[bool]) -> tuple:
    """Gradients of rows, weight and bias; `mean` is None where rows were not centred."""
    rows, width = x.shape
    of_input = xp.empty(x.shape, x.dtype) if wanted[0] else None
    of_weight = xp.zeros(width, x.dtype) if wanted[1] else None
    of_bias = xp.add.reduce(grad, axis=0) if wanted[2] else None
    if not (wanted[0] or wanted[1]):
        return of_input, of_weight, of_bias
    blocks = _blocks(x)
    units: Any = xp.empty(x[blocks[0]].shape, x.dtype) if blocks else None  # one scratch for all: fresh memory is slow
    scratch: Any = xp.empty_like(units) if blocks and weight is not None else None
    for block in blocks:
        g, scale = grad[block], rstd[block]
        unit = units[: len(g)]
        if mean is None:
            xp.multiply(x[block], scale, out=unit)
        else:
            xp.subtract(x[block], mean[block], out=unit)
            unit *= scale
        if of_weight is not None:
            of_weight += xp.einsum("ij,ij->j", g, unit)
        if of_input is not None:
            g = g if weight is None else xp.multiply(g, weight, out=scratch[: len(g)])
            slope = xp.vecdot(g, unit)[:, None]
            slope /= -width
            out = xp.multiply(unit, slope, out=of_input[block])
            out += g
            if mean is not None:
                out -= _row_means(xp, g)
            out *= scale
    return of_input, of_weight, of_bias


# derivatives of the gradients ----------------------------------------------------------------------------------------


def second_derivative(grads: Sequence[Any], grad_out: Any, centre: Any, rstd: Any, weight: Any, dims: tuple[int, ...],
                       subtracts_mean: bool) -> tuple[Any, Any, Any, Any]:
    """Gradients of grad_out, the centred input, rstd and weight, given those of the first gradients."""
    unit = centre * rstd
    scaled = grad_out if weight is None else grad_out * weight
    input_grad, weight_grad, bias_grad = grads
    of_grad = None if bias_grad is None else bias_grad.expand(grad_out.shape)
    of_unit = of_rstd = of_weight = None
    if input_grad is not None:
        project = _projection(unit, dims, subtracts_mean)
        back = project(input_grad) * rstd
        of_grad = _sum(of_grad, back if weight is None else back * weight)
        of_weight = None if weight is None else back * grad_out
        along, across = (scaled * unit).mean(dims, True), (input_grad * unit).mean(dims, True)
        of_unit = -rstd * (input_grad * along + scaled * across)
        of_rstd = input_grad * project(scaled)
    if weight_grad is not None:
        of_grad = _sum(of_grad, weight_grad * unit)
        of_unit = _sum(of_unit, grad_out * weight_grad)
    if of_unit is None:
        return of_grad, None, None, of_weight
    return of_grad, of_unit * rstd, _sum(of_rstd, centre * of_unit), of_weight


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a + b


def _projection(unit: Any, dims: tuple[int, ...], subtracts_mean: bool) -> Any:
    """Removes what normalisation makes invisible: the component along `unit`, and the mean."""

    def project(value: Any) -> Any:
        rest = value - unit * (value * unit).mean(dims, True)
        return rest - value.mean(dims, True) if subtracts_mean else rest

    return project


def _trailing(normalized_shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(-len(normalized_shape), 0))


# layer_norm ----------------------------------------------------------------------------------------------------------


def _layer_norm_specs(input: Tensor, normalized_shape: tuple, weight: Any, bias: Any, eps: float) -> tuple[Spec, ...]:
    _check_shapes(input, normalized_shape, ", ", weight, bias)
    kind, shape = input.dtype, input._array.shape
    check_floating(kind, "LayerNormKernelImpl")
    statistics = Spec(_statistics_shape(shape, normalized_shape), _statistics_type(input, weight, bias))
    return Spec(shape, kind), statistics, statistics


def _vector(parameter: Any) -> Any:
    return parameter if parameter is None or parameter.ndim == 1 else parameter.reshape(-1)


def _layer_norm_array(xp: Any, input: Any, normalized_shape: tuple, weight: Any, bias: Any, eps: float) -> tuple:
    weight, bias = _vector(weight), _vector(bias)
    made, mean, rstd = _normalised(xp, _flat(input, normalized_shape), weight, bias, eps, centred=True)
    shape = _statistics_shape(input.shape, normalized_shape)
    return made.reshape(input.shape), mean.reshape(shape), rstd.reshape(shape)


def _layer_norm_grad(grads, input, normalized_shape, mean, rstd, weight, bias, needs):
    grad, mean_grad, rstd_grad = grads
    made: tuple = (None, None, None)
    if grad is not None:
        made = call_bound(_LAYER_NORM_BACKWARD, (grad, input, normalized_shape, mean, rstd, weight, bias, needs))
    width, of_input = math.prod(normalized_shape), made[0]
    for extra in (None if mean_grad is None else mean_grad / width,
                  None if rstd_grad is None else rstd_grad * (input - mean) * rstd.pow(3) / -width):
        if extra is not None and needs[0]:
            of_input = extra.expand(input.shape) if of_input is None else of_input + extra
    return of_input, made[1], made[2]


def _widened(value: Any) -> Any:
    return value.float() if value.dtype.itemsize == 2 else value


def _layer_norm_by_parts(input, normalized_shape, weight, bias, eps):
    x, dims = _widened(input), _trailing(normalized_shape)
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    rstd = ((centred * centred).mean(dims, keepdim=True) + eps).rsqrt()
    made = centred * rstd
    made = made if weight is None else made * weight
    kind = _statistics_type(input, weight, bias)
    return (made if bias is None else made + bias).to(input.dtype), mean.to(kind), rstd.to(kind)


_NORM_SAMPLES = (case(t(2, 3, 4), (4,), t(4), t(4), 1e-5), case(t(2, 3, 4), (3, 4), None, None, 1e-5),
                 case(t(4), (4,), t(4), None, 1e-5), case(t(0, 4), (4,), t(4), t(4), 1e-5),
                 case(t(3, 4, layout="transposed"), (4,), t(4), t(4), 1e-5))

# All three results have derivatives here, so that derivatives of any order come out right.
_LAYER_NORM = op("_native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps)"
   " -> (Tensor output, Tensor mean, Tensor rstd)",
   kernel=computes(_layer_norm_specs, _layer_norm_array),
   kernels={"cpu": "norm.layer_norm", "cuda": "norm.layer_norm", "npu": "norm.layer_norm"},
   npu="aclnnLayerNorm(input, normalized_shape, weight, bias, eps, output, mean, rstd)",
   of_sums={"npu": "aclnnAddLayerNorm(input, addend, weight, bias, biasOptional=None, eps, additionalOutput=True, "
                   "output, mean, rstd, sum)"},
   grad={"input, weight, bias": _layer_norm_grad},
   public="", samples=cases(*_NORM_SAMPLES), decomposition=_layer_norm_by_parts, batch=decomposed,
   aten=Aten(name="native_layer_norm"), in_rows="layer_norm")
layer_norm_with_statistics = function_of(_LAYER_NORM)


@composite("native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps)"
           " -> (Tensor result, Tensor result1, Tensor result2)", samples=cases(*_NORM_SAMPLES), out=None,
           autocast=dict(accelerators="float32"), aten=LEAF, sharded="normalised")
def _native_layer_norm(input, normalized_shape, weight, bias, eps):
    output, mean, rstd = layer_norm_with_statistics(input, normalized_shape, weight, bias, eps)
    return output, mean.detach(), rstd.detach()


@composite("layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05,"
           " bool cudnn_enable=True) -> Tensor", public="torch nn.functional",
           samples=cases(case(t(2, 3, 4), (4,)), case(t(2, 3), (3,), t(3), t(3)),
                         case(t(2, 3, 4), (3, 4), t(3, 4), None, 1e-3),
                         error(RuntimeError, "Given normalized_shape=[3], expected input with shape [*, 3], but got "
                                             "input of size[2, 4]", t(2, 4), (3,)),
                         error(RuntimeError, "Expected weight to be of same shape as normalized_shape, but got weight "
                                             "of shape "
                               "[3] and normalized_shape = [4]", t(2, 4), (4,), t(3))), out=None,
           autocast=dict(accelerators="float32"))
def _layer_norm_output(input, normalized_shape, weight, bias, eps, cudnn_enable):
    return layer_norm_with_statistics(input, normalized_shape, weight, bias, eps)[0]


def _layer_norm_backward_specs(grad_out: Tensor, input: Tensor, normalized_shape: tuple, mean: Tensor, rstd: Tensor,
                               weight: Any,
                               bias: Any, output_mask: tuple) -> tuple:
    _check_shapes(input, normalized_shape, ", ", weight, bias)
    check_floating(input.dtype, "LayerNormBackwardKernelImpl")
    _check_backward("native_layer_norm_backward", grad_out, input, normalized_shape, mean=mean, rstd=rstd)
    parameter = weight if weight is not None else bias
    kind = input.dtype if parameter is None else parameter.dtype
    specs = Spec(input._array.shape, input.dtype), Spec(normalized_shape, kind), Spec(normalized_shape, kind)
    return tuple(spec if wanted else None for spec, wanted in zip(specs, output_mask, strict=True))


def _layer_norm_backward_array(xp: Any, grad_out: Any, input: Any, normalized_shape: tuple, mean: Any, rstd: Any,
                               weight: Any,
                               bias: Any, output_mask: tuple) -> tuple:
    grad, x = _flat(grad_out, normalized_shape), _flat(input, normalized_shape)
    made = _norm_gradients(xp, grad, x, mean.reshape(-1, 1), rstd.reshape(-1, 1), _vector(weight),
                           output_mask)
    return _shaped(made, input.shape, normalized_shape)


def _shaped(gradients: Sequence[Any], shape: tuple[int, ...], normalized_shape: tuple[int, ...]) -> tuple:
    shapes = (shape, normalized_shape, normalized_shape)
    return tuple(None if g is None else g.reshape(wanted) for g, wanted in zip(gradients, shapes, strict=False))


def _layer_norm_backward_grad(grads, grad_out, input, normalized_shape, mean, rstd, weight):
    of_grad, of_centre, of_rstd, of_weight = second_derivative(
        grads, grad_out, input - mean, rstd, weight, _trailing(normalized_shape), True)
    return of_grad, of_centre, None if of_centre is None else -of_centre, of_rstd, of_weight


def _reduced_to(value: Any, shape: Sequence[int]) -> Any:
    """Summed over all dimensions before those that are normalised."""
    extra = value.dim() - len(shape)
    return value.sum(tuple(range(extra))) if extra else value


def _of_weight(value: Any, weight: Any) -> Any:
    return None if weight is None else _reduced_to(value, weight.shape).to(weight.dtype)


def _layer_norm_backward_by_parts(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    unit = (input - mean) * rstd
    project = _projection(unit, _trailing(normalized_shape), subtracts_mean=True)
    scaled = grad_out if weight is None else grad_out * weight
    of_input, of_weight, of_bias = output_mask
    return ((project(scaled) * rstd).to(input.dtype) if of_input else None,
            _of_weight(grad_out * unit, weight) if of_weight else None,
            _reduced_to(grad_out, normalized_shape) if of_bias else None)


_LAYER_NORM_BACKWARD = op(
   "native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor rstd, "
   "Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor result, Tensor result1, Tensor result2)",
   kernel=computes(_layer_norm_backward_specs, _layer_norm_backward_array),
   kernels={"cpu": "norm.layer_norm_backward", "cuda": "norm.layer_norm_backward",
            "npu": "norm.layer_norm_backward"},
   npu="aclnnLayerNormBackward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask, result, "
       "result1, result2)",
   grad={"grad_out, input, mean, rstd, weight": _layer_norm_backward_grad},
   public="",
   samples=cases(case(t(2, 3), t(2, 3), (3,), t(2, 1), t(2, 1, low=0.5), t(3), t(3), (True, True, True)),
                 case(t(2, 3), t(2, 3), (3,), t(2, 1), t(2, 1, low=0.5), None, None, (True, False, False))),
   decomposition=_layer_norm_backward_by_parts, batch=decomposed, sharded="normalised",
   in_rows="layer_norm_backward")


# rms_norm ------------------------------------------------------------------------------------------------------------


def _rms_norm_specs(input: Tensor, normalized_shape: tuple, weight: Any, eps: float | None) -> tuple[Spec, Spec]:
    _check_shapes(input, normalized_shape, "", weight)
    check_floating(input.dtype, "rms_norm")
    return (Spec(input._array.shape, input.dtype if weight is None else promote_types(input.dtype, weight.dtype)),
            Spec(_statistics_shape(input._array.shape, normalized_shape),
                 float32 if input.dtype.np in REDUCED else input.dtype))


def _rms_norm_array(xp: Any, input: Any, normalized_shape: tuple, weight: Any, eps: float) -> tuple:
    made, _, rstd = _normalised(xp, _flat(input, normalized_shape), _vector(weight), None, eps, centred=False)
    return made.reshape(input.shape), rstd.reshape(_statistics_shape(input.shape, normalized_shape))


def _rms_norm_grad(grads, input, normalized_shape, rstd, weight, needs):
    grad, rstd_grad = grads
    made: tuple = (None, None)
    if grad is not None:
        made = call_bound(_RMS_NORM_BACKWARD, (grad, input, normalized_shape, rstd, weight, needs))
    if rstd_grad is None or not needs[0]:
        return made
    extra = rstd_grad * input * rstd.pow(3) / -math.prod(normalized_shape)
    return extra if made[0] is None else made[0] + extra, made[1]


def _rms_norm_by_parts(input, normalized_shape, weight, eps):
    x = _widened(input)
    rstd = ((x * x).mean(_trailing(normalized_shape), keepdim=True) + eps).rsqrt()
    made = x * rstd
    return (made if weight is None else made * weight).to(input.dtype), rstd


_RMS_SAMPLES = (case(t(2, 3, 4), (4,), t(4), 1e-5), case(t(2, 3, 4), (3, 4), None, 1e-5),
                case(t(0, 4), (4,), t(4), 1e-5))

_rms_norm = function_of(op(
    "_native_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor output, Tensor "
    "rstd)",
    kernel=computes(_rms_norm_specs, _rms_norm_array),
    kernels={"cpu": "norm.rms_norm", "cuda": "norm.rms_norm", "npu": "norm.rms_norm"},
    of_sums={"npu": "aclnnAddRmsNorm(input, addend, weight, eps, output, rstd, sum)"},
    grad={"input, weight": _rms_norm_grad},
    public="", samples=cases(*_RMS_SAMPLES), decomposition=_rms_norm_by_parts, batch=decomposed,
    aten=Aten(name="_fused_rms_norm"), node="MulBackward0", in_rows="rms_norm"))


@composite("rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
           public="torch nn.functional",
           samples=cases(*_RMS_SAMPLES, case(t(2, 3), (3,)),
                         error(RuntimeError, "Given normalized_shape=[4], expected input with shape [*4], but got "
                                             "input of size[2, 3]", t(2, 3), (4,))), out=None,
           autocast=dict(accelerators="float32"))
def _rms_norm_output(input, normalized_shape, weight, eps):
    _check_shapes(input, normalized_shape, "", weight)
    kind = input.dtype
    if kind.category < FLOAT:
        raise NotImplementedError(f"\"rms_norm\" not implemented for '{kind.scalar_name}'")
    if eps is None:
        eps = finfo(float32 if kind.np in REDUCED else kind).eps
    if weight is not None and weight.dtype is not kind:
        warn(f"Mismatch dtype between input and weight: input dtype = {c_name(kind)}, weight dtype = "
             f"{c_name(weight.dtype)}, Cannot dispatch to fused implementation.")
    if kind.is_complex:
        made = input * ((input * input).mean(_trailing(normalized_shape), True) + eps).rsqrt()
        return made if weight is None else made * weight
    if (modes.grad_enabled and weight is not None and weight.requires_grad and not input.requires_grad
            and kind.np not in REDUCED):
        return (_rms_norm(input, normalized_shape, None, eps)[0] * weight).to(kind)  # which saves no argument
    return _rms_norm(input, normalized_shape, weight, eps)[0].to(kind)


@composite("_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps)"
           " -> (Tensor result, Tensor result1)", public="", aten=LEAF, sharded="normalised")
def _fused_rms_norm(input, normalized_shape, weight, eps):
    output, rstd = _rms_norm(input, normalized_shape, weight, eps)
    return output, rstd.detach()


def _rms_norm_backward_specs(grad_out: Tensor, input: Tensor, normalized_shape: tuple, rstd: Tensor, weight: Any,
                             output_mask: tuple) -> tuple:
    _check_shapes(input, normalized_shape, "", weight)
    _check_backward("native_rms_norm_backward", grad_out, input, normalized_shape, rstd=rstd)
    return (Spec(input._array.shape, input.dtype) if output_mask[0] else None,
            Spec(normalized_shape, weight.dtype) if output_mask[1] else None)


def _rms_norm_backward_array(xp: Any, grad_out: Any, input: Any, normalized_shape: tuple, rstd: Any, weight: Any,
                             output_mask: tuple) -> tuple:
    made = _norm_gradients(xp, _flat(grad_out, normalized_shape), _flat(input, normalized_shape), None,
                           rstd.reshape(-1, 1),
                           _vector(weight), (*output_mask, False))
    return _shaped(made[:2], input.shape, normalized_shape)


def _rms_norm_backward_grad(grads, grad_out, input, normalized_shape, rstd, weight):
    return second_derivative((*grads, None), grad_out, input, rstd, weight, _trailing(normalized_shape), False)


def _rms_norm_backward_by_parts(grad_out, input, normalized_shape, rstd, weight, output_mask):
    unit = input * rstd
    project = _projection(unit, _trailing(normalized_shape), subtracts_mean=False)
    scaled = grad_out if weight is None else grad_out * weight
    of_input, of_weight = output_mask
    return ((project(scaled) * rstd).to(input.dtype) if of_input else None,
            _of_weight(grad_out * unit, weight) if of_weight else None)


_RMS_NORM_BACKWARD = op(
   "_native_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight,"
   " bool[2] output_mask) -> (Tensor result, Tensor result1)",
   kernel=computes(_rms_norm_backward_specs, _rms_norm_backward_array),
   kernels={"cpu": "norm.rms_norm_backward", "cuda": "norm.rms_norm_backward", "npu": "norm.rms_norm_backward"},
   grad={"grad_out, input, rstd, weight": _rms_norm_backward_grad},
   public="",
   samples=cases(case(t(2, 3), t(2, 3), (3,), t(2, 1, low=0.5), t(3), (True, True)),
                 case(t(2, 3), t(2, 3), (3,), t(2, 1, low=0.5), None, (True, False))),
   decomposition=_rms_norm_backward_by_parts, batch=decomposed, in_rows="rms_norm_backward")


# measures of vectors -------------------------------------------------------------------------------------------------


@composite("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
           public="torch nn.functional",
           samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 3), t(3), dim=0), case(t(2, 1, 3), t(4, 3), dim=-1),
                         error(RuntimeError, "The size of tensor a (3) must match the size of tensor b (4)", t(2, 3),
                               t(2, 4))), out=None, autocast=dict(accelerators="float32"))
def _cosine_similarity(x1, x2, dim, eps):
    kind = promote_types(x1.dtype, x2.dtype)
    if kind.category != FLOAT:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {kind.scalar_name}")
    if not eps >= 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps:g}")
    shape = broadcast_shape([tuple(x1.shape), tuple(x2.shape)])
    # Each has its length taken in its own type, also beside a wider one.
    a, b = ((x if x.dtype.category == FLOAT else x.to(kind)).expand(shape) for x in (x1, x2))
    return (_unit(a, dim, eps) * _unit(b, dim, eps)).sum(dim)


def _unit(x: Any, dim: int, eps: float) -> Any:
    """Vectors along `dim` divided by their length; short ones by `eps`, which the gradient does not notice."""
    length = x.norm(2, dim, True)
    return x / (length + (length.detach().clamp_min(eps) - length.detach()))


@composite("pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
           node="NormBackward1",
           public="torch nn.functional",
           samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 3), t(3), p=1.0, keepdim=True)), out=None)
def _pairwise_distance(x1, x2, p, eps, keepdim):
    return (x1 - x2 + eps).norm(p, -1, keepdim)
