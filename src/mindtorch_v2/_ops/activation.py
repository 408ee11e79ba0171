"""Activation functions. Those that PyTorch lets write over their input take `inplace` in `nn.functional`."""

import math
from typing import Any

from .._core.dtype import BOOL, COMPLEX, FLOAT, INT, finfo, float16, float64
from .._core.generator import default_generator
from .._core.random import uniform
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.registry import Operator
from ._declare.aten import LEAF, Aten, first
from ._declare.batch import called, in_front
from ._declare.composites import Composite
from ._declare.families import blockwise, computes, moves, pointwise
from ._declare.formulas import elementwise, on_arrays
from ._declare.layouts import NO_FORMAT
from ._declare.op import PUBLIC, composite, function_of, op
from ._declare.out import AS_OPERAND, FOUND
from ._declare.rules import Spec, floating, records
from ._declare.samples import case, cases, error, t, unary, values
from .copy import stored_number
from .pointwise import conj

NOT_FLOATING = (BOOL, INT, COMPLEX)
ROOT_HALF, ROOT_2_OVER_PI, CUBIC = math.sqrt(0.5), math.sqrt(2 / math.pi), 0.044715
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def _check_numbers(self: Tensor, *numbers: Any) -> None:
    """Raises unless the elements' type can hold the numbers."""
    for number in numbers:
        if number.__class__ is not float or self.dtype.category < FLOAT:
            stored_number(number, self.dtype)


def functional(operator: Operator, signature: str, *, underscore: bool = False) -> None:
    """Declares the operator's form in nn.functional, which has `inplace` last; also `name_` with `underscore`.

    In `torch._C._nn`, where PyTorch has those that are not in torch itself, it is the operator, with `out=`.
    """
    inplace = operator.declaration.inplace
    defaults = operator.schema.defaults

    def call(*args: Any) -> Any:
        given = args[:-1]
        for number in given[1:]:
            if number.__class__ is complex:
                stored_number(number, given[0].dtype)
        return call_bound(inplace if args[-1] else operator, (*given, *defaults[len(given) :]))

    name, arguments = signature.split("(", 1)
    op(f"{name}.functional({arguments}", kernel=Composite(call), public="nn.functional")
    if underscore:
        PUBLIC["nn.functional"][operator.schema.base_name + "_"] = [inplace]
    if operator.schema.base_name not in PUBLIC["torch"]:
        PUBLIC.setdefault("_nn", {}).update({name: [operator], f"{name}_": [inplace]})


# relu and its relatives ----------------------------------------------------------------------------------------------

THRESHOLD_BACKWARD = op("threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
   kernel=pointwise(lambda xp, grad_output, self, threshold: xp.zero_where(self <= threshold, grad_output),
                    excluding=(BOOL, COMPLEX), named="threshold_cpu"),
   npu="aclnnThresholdBackward(grad_output, self, threshold, out)",
   grad=dict(grad_output=lambda grad, self, threshold: _threshold_grad(grad, self, threshold),
             self=lambda grad: grad.new_zeros(grad.shape)),
   public="", samples=cases(case(t(2, 3), t(2, 3), 0.5)),
   decomposition=lambda grad_output, self, threshold:
       grad_output.new_zeros(()).where(self <= threshold, grad_output))
_threshold_grad = function_of(THRESHOLD_BACKWARD)


def _check_relu(self: Tensor) -> None:
    if self.dtype.category == BOOL:
        raise RuntimeError("Boolean inputs not supported for relu")
    if self.dtype.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")


RELU = op("relu(Tensor self) -> Tensor", after_product="relu",
   kernel=pointwise(lambda xp, self: xp.at_least(self, 0), check=_check_relu),
   npu="aclnnRelu(self, out)",
   grad=dict(self=lambda grad, result: _threshold_grad(grad, result, 0)),
   samples=lambda: [*unary()(), error(RuntimeError, "Boolean inputs not supported for relu", values([True]))], out=None,
   inplace="relu_", keeps_zero=True, decomposition=lambda self: self.clamp_min(0))
functional(RELU, "relu(Tensor input, Any inplace=False) -> Tensor", underscore=True)

THRESHOLD = op("threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
   kernel=pointwise(lambda xp, self, threshold, value:
                    xp.where(self <= self.dtype.type(threshold), self.dtype.type(value), self),
                    excluding=(BOOL, COMPLEX), check=_check_numbers),
   npu="aclnnThreshold(self, threshold, value, out)",
   grad=dict(self=lambda grad, self, threshold: _threshold_grad(grad, self, threshold)),
   public="torch", samples=cases(case(t(2, 3), 0.5, -1.0), case(t(), 0, 2), case(t(0, 2), 0.5, 1)),
   inplace="threshold_")
functional(THRESHOLD, "threshold(Tensor input, Scalar threshold, Scalar value, Any inplace=False) -> Tensor",
           underscore=True)


def _leaky(xp: Any, self: Any, negative_slope: float) -> Any:
    if 0 <= negative_slope <= 1:
        return xp.maximum(self, self * negative_slope)
    return xp.where(self > 0, self, self * self.dtype.type(negative_slope))


@blockwise
def _leaky_backward(xp: Any, grad_output: Any, self: Any, negative_slope: float) -> Any:
    return xp.where(self > 0, grad_output, grad_output * grad_output.dtype.type(negative_slope))


LEAKY_RELU_BACKWARD = op("leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope) -> Tensor",
   kernel=pointwise(_leaky_backward, excluding=NOT_FLOATING),
   npu="aclnnLeakyReluBackward(grad_output, self, negative_slope, selfIsResult=False, out)",
   grad=dict(grad_output=lambda grad, self, negative_slope:
             _leaky_relu_grad(grad, self, negative_slope)),
   public="", samples=cases(case(t(2, 3), t(2, 3), 0.1)))
_leaky_relu_grad = function_of(LEAKY_RELU_BACKWARD)
LEAKY_RELU = op("leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
   kernel=pointwise(_leaky, excluding=NOT_FLOATING),
   npu="aclnnLeakyRelu(self, negative_slope, out)",
   grad=dict(self=lambda grad, self, negative_slope: _leaky_relu_grad(grad, self, negative_slope)),
   public="", samples=unary(negative_slope=(0.01, 2.0, -0.5)))
functional(LEAKY_RELU, "leaky_relu(Tensor input, Scalar negative_slope=0.01, Any inplace=False) -> Tensor",
           underscore=True)

_prelu_kernel = function_of(op("_prelu_kernel(Tensor self, Tensor weight) -> Tensor",
   kernel=pointwise(lambda xp, self, weight: xp.where(self > 0, self, self * weight), excluding=NOT_FLOATING,
                    named="prelu_cpu"),
   grad=dict(self=elementwise(lambda xp, grad, self, weight: xp.where(self > 0, grad, weight * grad)),
             weight=elementwise(lambda xp, grad, self: xp.where(self > 0, 0, self * grad))),
   public="", inplace=False, samples=cases(case(t(2, 3), t(3)), case(t(2, 3), t(1))),
   decomposition=lambda self, weight: self.where(self > 0, self * weight)))


def _check_prelu(self: Tensor, weight: Tensor) -> None:
    if self.dtype is not weight.dtype:
        raise RuntimeError("prelu: Type promoting not supported. Got "
                           f"{self.dtype.scalar_name} and {weight.dtype.scalar_name}")
    if weight.numel() != 1:
        if not self.dim():
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = self.size(1) if self.dim() >= 2 else 1
        if channels != weight.numel():
            raise RuntimeError("Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                               f"{weight.numel()} and channel size = {channels}.")
    if weight.dim() > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}")


@composite("prelu(Tensor self, Tensor weight) -> Tensor", public="torch Tensor nn.functional",
           samples=cases(case(t(2, 3, 4), t(3)), case(t(2, 3), t(1)), case(t(3), t(1)), case(t(), t()),
                         error(RuntimeError, "Mismatch of parameter numbers and input channel size", t(2, 3), t(2))),
           out=None, autocast="lower")
def _prelu(self, weight):
    _check_prelu(self, weight)
    shape = tuple(weight.shape)
    if weight.numel() == 1:
        shape = (1,) * self.dim()
    elif self.dim() > 1:
        shape = (1, weight.numel(), *(1,) * (self.dim() - 2))
    return _prelu_kernel(self, weight if weight.shape == shape else weight.reshape(shape))


def _slopes_spec(self: Tensor, lower: float, upper: float, generator: Any) -> Spec:
    if not self.dtype.is_floating_point or self.dtype is float16:
        raise NotImplementedError(f"\"rrelu_with_noise_out_cpu\" not implemented for '{self.dtype.scalar_name}'")
    return Spec(self._array.shape, self.dtype)


def _slopes(xp: Any, self: Any, lower: float, upper: float, generator: Any) -> Any:
    """1 for positive elements, else drawn; PyTorch draws for the others only, one after the other."""
    made, falls = xp.ones(self.shape, self.dtype), self <= 0
    drawn = uniform(generator or default_generator, (int(falls.sum()),), xp.dtype(xp.float64), lower, upper)
    made[falls] = drawn
    return made


_SLOPES = op("_rrelu_slopes(Tensor self, Scalar lower, Scalar upper, Generator? generator=None) -> Tensor",
   kernel=moves(_slopes_spec, _slopes), public="",
   kernels={"cuda": "random.rrelu_slopes", "npu": "random.rrelu_slopes"})


@composite("rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator?"
           " generator=None) -> Tensor", node="RreluWithNoiseBackward0", public="torch",
           samples=cases(case(t(2, 3)), case(t(2, 3), 0.1, 0.5), case(t(2, 3), training=True), case(t(0, 2)),
                         error(RuntimeError, "Lower bound should be less than or equal to the upper bound", t(2), 0.5,
                               0.1)), out=None, refuses_coo=NO_FORMAT)
def _rrelu(self, lower, upper, training, generator):
    for name, bound in (("lower", lower), ("upper", upper)):
        stored_number(bound, float64)
        if training and not math.isfinite(bound.real):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound:g}")
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    self = self.contiguous()
    if not training:
        return call_bound(LEAKY_RELU, (self, (lower + upper) / 2))
    return self * call_bound(_SLOPES, (self, lower, upper, generator))


@composite("rrelu_(Tensor(a!) self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False,"
           " Generator? generator=None) -> Tensor(a!)",
           node="RreluWithNoiseBackward0", public="torch nn.functional", refuses_coo=NO_FORMAT)
def _rrelu_in_place(self, lower, upper, training, generator):
    old = self.clone() if records(self) else self  # the formulas save it
    return self.copy_(_rrelu(old, lower, upper, training, generator))


@composite("rrelu.functional(Tensor input, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False,"
           " Any inplace=False) -> Tensor",
           node="RreluWithNoiseBackward0", public="nn.functional", refuses_coo=NO_FORMAT)
def _rrelu_functional(input, lower, upper, training, inplace):
    return (_rrelu_in_place if inplace else _rrelu)(input, lower, upper, training, None)


# exponential units ---------------------------------------------------------------------------------------------------


@blockwise
def _elu(xp: Any, self: Any, alpha: float, scale: float, input_scale: float) -> Any:
    low = xp.at_most(self, 0)
    if input_scale != 1:
        low *= input_scale
    low = xp.expm1(low)
    low *= alpha * scale
    return xp.where(self < 0, low, self if scale == 1 else self * self.dtype.type(scale))


def _elu_grad(xp: Any, grad: Any, self: Any, alpha: float, scale: float, input_scale: float) -> Any:
    falling = xp.exp(xp.at_most(self, 0) * input_scale) * (alpha * scale * input_scale)
    return grad * xp.where(self <= 0, falling, scale)


ELU = op("elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
   kernel=pointwise(_elu, excluding=NOT_FLOATING),
   npu="aclnnElu(self, alpha, scale, input_scale, out)", grad=dict(self=elementwise(_elu_grad)), public="",
   samples=unary(alpha=(1.0, 0.5), scale=(1.0, 2.0)))
functional(ELU, "elu(Tensor input, Scalar alpha=1.0, Any inplace=False) -> Tensor", underscore=True)
SELU = op("selu(Tensor self) -> Tensor", node="EluBackward0",
   kernel=pointwise(lambda xp, self: _elu(xp, self, SELU_ALPHA, SELU_SCALE, 1), excluding=NOT_FLOATING,
                    named="elu_cpu"),
   npu="aclnnSelu(self, out)",
   grad=dict(self=elementwise(lambda xp, grad, self: _elu_grad(xp, grad, self, SELU_ALPHA, SELU_SCALE, 1))),
   public="torch", samples=unary(), out=None, inplace="selu_",
   aten=Aten(name="elu", values=lambda self: (self, SELU_ALPHA, SELU_SCALE, 1)))
functional(SELU, "selu(Tensor input, Any inplace=False) -> Tensor", underscore=True)


def _check_celu(self: Tensor, alpha: float) -> None:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")


CELU = op("celu(Tensor self, Scalar alpha=1.0) -> Tensor",
   kernel=pointwise(lambda xp, self, alpha: _elu(xp, self, alpha, 1, 1 / alpha), excluding=NOT_FLOATING,
                    check=_check_celu, named="elu_cpu"),
   npu="aclnnCelu(self, alpha, out)",
   grad=dict(self=elementwise(lambda xp, grad, self, alpha: _elu_grad(xp, grad, self, alpha, 1, 1 / alpha))),
   public="torch", samples=unary(alpha=(1.0, 0.5)), out=None, inplace="celu_")
functional(CELU, "celu(Tensor input, Scalar alpha=1.0, Any inplace=False) -> Tensor", underscore=True)

# sigmoid and its relatives -------------------------------------------------------------------------------------------


@blockwise
def sigmoid(xp: Any, self: Any) -> Any:
    made = xp.exp(xp.negative(self))
    made += 1
    return xp.divide(1, made)


@blockwise
def _sigmoid_backward(xp: Any, grad_output: Any, output: Any) -> Any:
    slope = 1 - output
    slope *= output
    return grad_output * (xp.conjugate(slope) if slope.dtype.kind == "c" else slope)


def _sigmoid_double(grad: Tensor, grad_output: Tensor, output: Tensor) -> Tensor:
    return conj(grad) * grad_output * conj(1 - 2 * output)


SIGMOID_BACKWARD = op("sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
   kernel=pointwise(_sigmoid_backward, excluding=(BOOL, INT)),
   npu="aclnnSigmoidBackward(grad_output, output, out)",
   grad=dict(grad_output=lambda grad, output: grad * ((1 - output) * output), output=_sigmoid_double),
   public="", samples=cases(case(t(2, 3), t(2, 3))))
_sigmoid_grad = function_of(SIGMOID_BACKWARD)
op("sigmoid(Tensor self) -> Tensor", after_product="sigmoid",
   kernel=pointwise(sigmoid, floating), kernels={"cpu": "by_onednn.sigmoid"},
   npu="aclnnSigmoid(self, out)",
   grad=dict(self=lambda grad, result: _sigmoid_grad(grad, result)),
   public="torch Tensor nn.functional", aliases=("special.expit",), samples=unary(), inplace="sigmoid_")


@blockwise
def _silu(xp: Any, self: Any) -> Any:
    return self / (1 + xp.exp(xp.negative(self)))


@blockwise
def _silu_backward(xp: Any, grad_output: Any, self: Any) -> Any:
    gate = sigmoid(xp, self)
    slope = 1 - gate
    slope *= self
    slope += 1
    slope *= gate
    return grad_output * slope


def _silu_double(grad: Tensor, grad_output: Tensor, self: Tensor) -> Tensor:
    gate = self.sigmoid()
    second = gate * (1 - gate) * (2 + self * (1 - 2 * gate))
    return grad * _conjugate(grad_output * second)


def _conjugate(self: Tensor) -> Tensor:
    return self.conj_physical() if self.dtype.is_complex else self


SILU_BACKWARD = op("silu_backward(Tensor grad_output, Tensor self) -> Tensor",
   kernel=pointwise(_silu_backward, excluding=(BOOL, INT)), kernels={"cpu": "by_onednn.silu_backward"},
   npu="aclnnSiluBackward(grad_output, self, out)",
   grad=dict(grad_output=lambda grad, self: _silu_grad(grad, _conjugate(self)), self=_silu_double),
   public="", samples=cases(case(t(2, 3), t(2, 3))))
_silu_grad = function_of(SILU_BACKWARD)
SILU = op("silu(Tensor self) -> Tensor", after_product="silu",
   kernel=pointwise(_silu, excluding=(BOOL, INT)), kernels={"cpu": "by_onednn.silu"},
   npu="aclnnSilu(self, out)",
   grad=dict(self=lambda grad, self: _silu_grad(grad, _conjugate(self))), public="", samples=unary())
functional(SILU, "silu(Tensor input, Any inplace=False) -> Tensor")


@blockwise
def _softplus(xp: Any, self: Any, beta: float, threshold: float) -> Any:
    scaled = self if beta == 1 else self * self.dtype.type(beta)
    curved = xp.log1p(xp.exp(-xp.absolute(scaled)))
    curved += xp.at_least(scaled, 0)
    return xp.where(scaled > threshold, self, curved if beta == 1 else curved / self.dtype.type(beta))


@elementwise
def _softplus_grad(xp: Any, grad: Any, self: Any, beta: float, threshold: float) -> Any:
    scaled = self * beta
    return xp.where(scaled > threshold, grad, grad / (1 + xp.exp(-scaled)))


op("softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
   kernel=pointwise(_softplus, excluding=NOT_FLOATING, check=_check_numbers),
   npu="aclnnSoftplus(self, beta, threshold, out)", grad=dict(self=_softplus_grad), public="nn.functional",
   inplace=False, samples=unary(beta=(1, 2.0), threshold=(20, 0.5)),
   out=AS_OPERAND._replace(names="nn.functional.softplus"), autocast=dict(accelerators="float32"))


def _log_sigmoid_spec(self: Tensor) -> Spec:
    if not self.dtype.is_floating_point:
        raise NotImplementedError(f'"log_sigmoid_cpu" not implemented for \'{self.dtype.scalar_name}\'')
    return Spec(self._array.shape, self.dtype)


@blockwise
def _log_sigmoid(xp: Any, self: Any) -> Any:
    made = xp.log1p(xp.exp(-xp.absolute(self)))
    return xp.at_most(self, 0) - made


op("log_sigmoid(Tensor self) -> Tensor",
   kernel=computes(_log_sigmoid_spec, lambda xp, self: xp.asarray(_log_sigmoid(xp, self), order="C")),
   npu="aclnnLogSigmoid(self, out)", kernels={"cpu": "activation.log_sigmoid"},
   grad=dict(self=elementwise(lambda xp, grad, self: grad / (1 + xp.exp(self)))),
   public="_nn", aliases=("nn.functional.logsigmoid",), inplace=False, samples=unary(),
   out=FOUND._replace(names="nn.functional.logsigmoid _nn.log_sigmoid", resizes=True), batch=in_front,
   aten=Aten(name="log_sigmoid_forward", result=first))


@composite("log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", public="", aten=LEAF,
           sharded="buffered")
def _log_sigmoid_forward(self):
    return called("log_sigmoid", self), self.new_empty((0,))


@blockwise
def _mish_gate(xp: Any, self: Any) -> Any:
    """tanh(softplus(x))"""
    return xp.tanh(_softplus(xp, self, 1, math.inf))


@elementwise
def _mish_grad(xp: Any, grad: Any, self: Any) -> Any:
    gate = xp.tanh(xp.log1p(xp.exp(-xp.abs(self))) + xp.at_least(self, 0))
    return grad * (gate + self / (1 + xp.exp(-self)) * (1 - gate * gate))


MISH = op("mish(Tensor self) -> Tensor",
   kernel=pointwise(blockwise(lambda xp, self: self * _mish_gate(xp, self)), excluding=NOT_FLOATING),
   npu="aclnnMish(self, out)",
   grad=dict(self=_mish_grad), public="", samples=unary())
functional(MISH, "mish(Tensor input, Any inplace=False) -> Tensor")


def _glu_spec(self: Tensor, dim: int) -> Spec:
    shape = self._array.shape
    if not shape:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    size, at = self.size(dim), dim % len(shape)
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {at} is size {size}")
    if not self.dtype.is_floating_point:
        raise NotImplementedError(f'"glu_cpu" not implemented for \'{self.dtype.scalar_name}\'')
    return Spec((*shape[:at], size // 2, *shape[at + 1 :]), self.dtype)


def _glu(xp: Any, self: Any, dim: int) -> Any:
    half = self.shape[dim] // 2
    at = (slice(None),) * (dim % self.ndim)
    value, gate = self[(*at, slice(half))], self[(*at, slice(half, None))]
    made = xp.exp(-gate)
    made += 1
    return xp.divide(value, made, out=made)


@on_arrays
def _glu_grad(xp: Any, grad: Any, self: Any, dim: int) -> Any:
    value, gate = xp.halves(self, dim)
    opened = 1 / (1 + xp.exp(-gate))
    of_value = grad * opened
    return xp.concatenate((of_value, of_value * value * (1 - opened)), dim)


def _glu_by_parts(self: Any, dim: int) -> Any:
    value, gate = self.chunk(2, dim)
    return value * gate.sigmoid()


op("glu(Tensor self, int dim=-1) -> Tensor", public="nn.functional _nn",
   kernel=computes(_glu_spec, _glu), grad=dict(self=_glu_grad),
   samples=cases(case(t(2, 4)), case(t(4, 3), dim=0),
                 error(RuntimeError, "Halving dimension must be even, but dimension 1 is size 3", t(2, 3)),
                 error(RuntimeError, "glu does not support scalars because halving size must be even", t())),
   decomposition=_glu_by_parts, python="dim")


# gelu ----------------------------------------------------------------------------------------------------------------


def _check_gelu(*args: Any) -> None:
    if args[-1] not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")


@blockwise
def _gelu(xp: Any, self: Any, approximate: str) -> Any:
    made = xp.tanh(_gelu_inner(self)) if approximate == "tanh" else xp.erf(self * self.dtype.type(ROOT_HALF))
    made += 1
    made *= self
    made *= 0.5
    return made


def _gelu_inner(self: Any) -> Any:
    """sqrt(2 / pi) (x + 0.044715 x^3)"""
    return (ROOT_2_OVER_PI * self) * (1 + CUBIC * (self * self))


@blockwise
def _gelu_backward(xp: Any, grad_output: Any, self: Any, approximate: str) -> Any:
    square = self * self
    if approximate == "tanh":
        gate = xp.tanh(_gelu_inner(self))
        bend = 1 - gate * gate
        bend *= ROOT_2_OVER_PI * (1 + 3 * CUBIC * square)
        gate += 1
        gate += bend * self
        gate *= 0.5
        return grad_output * gate
    gate = xp.erf(self * self.dtype.type(ROOT_HALF))
    gate += 1
    gate *= 0.5
    square *= -0.5
    density = xp.exp(square)
    density *= self
    density *= 1 / math.sqrt(2 * math.pi)
    return grad_output * (gate + density)


def _gelu_double(grad: Tensor, grad_output: Tensor, self: Tensor, approximate: str) -> Tensor:
    square = self * self
    if approximate == "none":
        density = (-0.5 * square).exp() / math.sqrt(2 * math.pi)
        return grad * grad_output * density * (2 - square)
    gate = _gelu_inner(self).tanh()
    bend = 1 - gate * gate
    slope = ROOT_2_OVER_PI * (1 + 3 * CUBIC * square)
    return grad * grad_output * bend * (slope + self * (3 * CUBIC * ROOT_2_OVER_PI * self - gate * slope * slope))


GELU_BACKWARD = op("gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
   kernel=pointwise(_gelu_backward, excluding=NOT_FLOATING, named="GeluBackwardKernelImpl"),
   kernels={"cpu": "by_onednn.gelu_backward"},
   npu="aclnnGeluBackwardV2(grad_output, self, approximate, out)",
   grad=dict(grad_output=lambda grad, self, approximate: _gelu_grad(grad, self, approximate=approximate),
             self=_gelu_double),
   public="", samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 3), t(2, 3), approximate="tanh")))
_gelu_grad = function_of(GELU_BACKWARD)
op("gelu(Tensor self, *, str approximate='none') -> Tensor", after_product="gelu",
   kernel=pointwise(_gelu, excluding=NOT_FLOATING, check=_check_gelu, named="GeluKernelImpl"),
   kernels={"cpu": "by_onednn.gelu"},
   npu="aclnnGeluV2(self, approximate{none,tanh}, out)",
   grad=dict(self=lambda grad, self, approximate: _gelu_grad(grad, self, approximate=approximate)),
   public="nn.functional", inplace=False,
   samples=lambda: [*unary(approximate=("none", "tanh"))(),
                    error(RuntimeError, "approximate argument must be either none or tanh.", t(2), approximate="erf")],
   out=AS_OPERAND._replace(names="nn.functional.gelu"))

# piecewise linear ----------------------------------------------------------------------------------------------------


def _check_hardtanh(self: Tensor, min_val: float, max_val: float) -> None:
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if self.dtype.category == BOOL:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if not self.dtype.is_signed and (min_val < 0 or max_val < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    if self.dtype.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")


def _bounded(xp: Any, self: Any, low: float, high: float) -> Any:
    """The elements between two bounds, which are cut to the elements' type."""
    return xp.at_most(xp.at_least(self, self.dtype.type(low)), self.dtype.type(high))


def _inside(xp: Any, grad: Any, self: Any, low: float, high: float) -> Any:
    return xp.where((self <= low) | (self >= high), 0, grad)


HARDTANH = op("hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
   kernel=pointwise(_bounded, check=_check_hardtanh),
   npu="aclnnHardtanh(self, min_val, max_val, out)",
   grad=dict(self=elementwise(lambda xp, grad, self, min_val, max_val: _inside(xp, grad, self, min_val, max_val))),
   public="",
   samples=lambda: [*unary(min_val=(-1, -0.5), max_val=(1, 0.5))(),
                    error(RuntimeError, "Bool inputs not supported for hardtanh", values([True]))])
functional(HARDTANH, "hardtanh(Tensor input, float min_val=-1.0, float max_val=1.0, Any inplace=False) -> Tensor",
           underscore=True)
RELU6 = op("relu6(Tensor self) -> Tensor", node="HardtanhBackward0",
   kernel=pointwise(lambda xp, self: _bounded(xp, self, 0, 6), check=lambda self: _check_hardtanh(self, 0, 6)),
   npu="aclnnHardtanh(self, 0, 6, out)",
   grad=dict(self=elementwise(lambda xp, grad, self: _inside(xp, grad, self, 0, 6))), public="", samples=unary(-3, 9),
   aten=Aten(name="hardtanh", values=lambda self: (self, 0, 6)))
functional(RELU6, "relu6(Tensor input, Any inplace=False) -> Tensor")
HARDSIGMOID = op("hardsigmoid(Tensor self) -> Tensor",
   kernel=pointwise(lambda xp, self: _bounded(xp, self + 3, 0, 6) / 6, excluding=NOT_FLOATING),
   npu="aclnnHardsigmoid(self, out)",
   grad=dict(self=elementwise(lambda xp, grad, self: xp.where((self > -3) & (self < 3), grad / 6, 0))), public="",
   samples=unary(-5, 5))
functional(HARDSIGMOID, "hardsigmoid(Tensor input, Any inplace=False) -> Tensor")


@elementwise
def _hardswish_grad(xp: Any, grad: Any, self: Any) -> Any:
    return xp.where(self < 3, xp.where(self <= -3, 0, grad * (self / 3 + 0.5)), grad)


HARDSWISH = op("hardswish(Tensor self) -> Tensor",
   kernel=pointwise(blockwise(lambda xp, self: self * _bounded(xp, self + 3, 0, 6) / 6), excluding=NOT_FLOATING),
   npu="aclnnHardswish(self, out)",
   grad=dict(self=_hardswish_grad), public="", samples=unary(-5, 5))
functional(HARDSWISH, "hardswish(Tensor input, Any inplace=False) -> Tensor")


@elementwise
def _outside(xp: Any, grad: Any, self: Any, lambd: float) -> Any:
    return xp.where((self < -lambd) | (self > lambd), grad, 0)


def _check_softshrink(self: Tensor, lambd: float) -> None:
    stored_number(lambd, float64)
    limit = finfo(self.dtype).max if self.dtype.is_floating_point else math.inf
    if not 0 <= lambd <= limit:
        raise RuntimeError(f"lambda must be in range [0, {limit:g}] for input dtype {self.dtype.scalar_name}, "
                           f"but found {lambd:g}")


op("hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
   kernel=pointwise(lambda xp, self, lambd: xp.where((self >= -lambd) & (self <= lambd), 0, self),
                    excluding=NOT_FLOATING, check=_check_numbers),
   npu="aclnnHardshrink(self, lambd, out)",
   grad=dict(self=_outside), public="torch Tensor nn.functional",
   inplace=False, samples=unary(lambd=(0.5, 1.2)),
   out=AS_OPERAND._replace(names="torch.hardshrink nn.functional.hardshrink"))
op("softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
   kernel=pointwise(lambda xp, self, lambd: self - _bounded(xp, self, -lambd, lambd), excluding=NOT_FLOATING,
                    check=_check_softshrink, named="softshrink_check"),
   npu="aclnnSoftshrink(self, lambd, out)",
   grad=dict(self=_outside), public="nn.functional", inplace=False,
   samples=lambda: [*unary(lambd=(0.5, 1.2))(),
                    error(RuntimeError, "for input dtype Float, but found -1", t(2), -1.0)],
   out=AS_OPERAND._replace(names="nn.functional.softshrink"))


@composite("tanhshrink(Tensor self) -> Tensor", public="nn.functional", samples=unary(), python="tanh")
def _tanhshrink(self):
    return self - self.tanh()


@composite("softsign(Tensor self) -> Tensor", public="nn.functional", samples=unary(), python="abs")
def _softsign(self):
    return self / (self.abs() + 1)
