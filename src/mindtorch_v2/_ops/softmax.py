"""Exponentials made to sum to one: softmax, its logarithm, and the logarithm of the sum."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.dtype import COMPUTE, FLOAT, dtype, float64, get_default_dtype
from .._core.geometry import wrapped_dim
from .._core.tensor import Tensor
from .._core.warn import warn
from .._dispatch.callers import call_bound
from ._declare.aten import LEAF, Aten
from ._declare.batch import along_one
from ._declare.families import computes
from ._declare.formulas import on_arrays
from ._declare.op import composite, op
from ._declare.out import Out
from ._declare.rules import Spec, shape_misfit, shape_text
from ._declare.samples import case, cases, error, ints, t
from .reduce import DIM_ERRORS, axes_of, contiguous, folded_shape, reduced_dims, summed, unfolded

# Rows are worked on in blocks of this many elements, so that all passes over a block but the first find it in cache.
BLOCK = 1 << 16

_largest: Callable[..., Any] = np.maximum.reduce


def _spec(name: str) -> Callable:
    def infer(self: Tensor, dim: int, dtype: dtype | None) -> Spec:
        kind, shape = dtype or self.dtype, self._array.shape
        at = wrapped_dim(dim, len(shape))
        if kind.category != FLOAT and self._array.size:
            where = "_lastdim" if at == max(len(shape) - 1, 0) else ""
            raise NotImplementedError(f"\"{name}{where}_kernel_impl\" not implemented for '{kind.scalar_name}'")
        return Spec(shape, kind)

    return infer


def _softmax_into(made: Any, array: Any, axis: int) -> None:
    np.subtract(array, _largest(array, axis, None, None, True), out=made)
    np.exp(made, out=made)
    np.divide(made, summed(made, (axis,), True), out=made)


def _log_softmax_into(made: Any, array: Any, axis: int) -> None:
    np.subtract(array, _largest(array, axis, None, None, True), out=made)
    total = summed(np.exp(made), (axis,), True)
    np.subtract(made, np.log(total, out=total), out=made)


def _normalised(fill: Callable) -> Callable:
    """The `array` of a softmax: `fill(made, array, axis)`, by blocks of rows where the dimension is the innermost."""

    def array(xp: Any, self: Any, dim: int, dtype: dtype | None, spec: Spec) -> Any:
        if dtype is not None and self.dtype != dtype.np:
            self = self.astype(dtype.np if dtype.itemsize >= 4 else np.float32)
        made = xp.empty(self.shape, self.dtype)
        if not self.size:
            return made
        if not self.ndim:
            fill(made.reshape(1), self.reshape(1), 0)
        elif self.size <= BLOCK or dim not in (-1, self.ndim - 1) or not self.flags.c_contiguous:
            fill(made, self, dim % self.ndim)
        else:
            width = self.shape[-1]
            rows, target, step = self.reshape(-1, width), made.reshape(-1, width), max(BLOCK // width, 1)
            for start in range(0, len(rows), step):
                fill(target[start : start + step], rows[start : start + step], 1)
        return made

    return array


_SOFTMAX_CASES = (case(t(2, 3), 1), case(t(2, 3), 0), case(t(2, 3, 4), -2), case(t(), 0), case(t(0, 3), 1),
                  case(t(2, 0), 1), case(t(3, 2, layout="transposed"), 1), case(t(2, 3), 1, dtype=float64),
                  case(t(2, 3, low=80, high=100), 1),
                  error(IndexError, "Dimension out of range (expected to be in range of [-2, 1], but got 2)", t(2, 3),
                        2))


def _in_type(self, dim, dtype):
    return self if dtype is None else self.to(dtype), dim, False


@composite("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", public="", aten=LEAF, sharded="along")
def _softmax_of_half(self, dim, half_to_float):
    return self.float().softmax(dim) if half_to_float else self.softmax(dim)


@composite("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", public="", aten=LEAF, sharded="along")
def _log_softmax_of_half(self, dim, half_to_float):
    return self.float().log_softmax(dim) if half_to_float else self.log_softmax(dim)

op("softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", public="torch Tensor special",
   kernel=computes(_spec("softmax"), _normalised(_softmax_into)),
   kernels={"cpu": "softmax.softmax", "cuda": "softmax.softmax"},
   npu="aclnnSoftmax(self:out, dim, out)",
   grad=dict(self=lambda grad, result, dim: _softmax_backward(grad, result, dim)),
   samples=cases(*_SOFTMAX_CASES,
                 error(NotImplementedError, '"softmax_lastdim_kernel_impl" not implemented', ints(2, 3),
                       1)), out=Out(names="torch.softmax", grad="cut"),
   aten=Aten(name="_softmax", values=_in_type), autocast=dict(accelerators="result"), in_rows="softmax")
op("log_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", public="torch Tensor special",
   kernel=computes(_spec("log_softmax"), _normalised(_log_softmax_into)),
   kernels={"cpu": "softmax.log_softmax", "cuda": "softmax.softmax"},
   npu="aclnnLogSoftmax(self:out, dim, out)",
   grad=dict(self=lambda grad, result, dim: _log_softmax_backward(grad, result, dim)),
   samples=cases(*_SOFTMAX_CASES,
                 error(NotImplementedError, '"log_softmax_lastdim_kernel_impl" not implemented', ints(2, 3),
                       1)), out=Out(names="torch.log_softmax", grad="cut"),
   aten=Aten(name="_log_softmax", values=_in_type), autocast=dict(accelerators="result"), in_rows="log_softmax")


# derivatives ---------------------------------------------------------------------------------------------------------


def _backward_spec(grad_output: Tensor, output: Tensor, dim: int, input_dtype: dtype) -> Spec:
    shape, kind = output._array.shape, grad_output.dtype
    at = wrapped_dim(dim, len(shape))
    if grad_output._array.shape != shape:
        raise RuntimeError("Expected tensor for argument #1 'grad' to have same size as tensor for argument #2 "
                           f"'output'; but {shape_text(grad_output._array.shape)} does not equal {shape_text(shape)} "
                           "(while checking arguments for softmax_backward)")
    if kind.category != FLOAT:
        where = "_lastdim" if at == max(len(shape) - 1, 0) else ""
        raise NotImplementedError(f"\"softmax_backward{where}_kernel_impl\" not implemented for '{kind.scalar_name}'")
    return Spec(shape, input_dtype if input_dtype.itemsize < kind.itemsize < 8 else kind)


def _softmax_data(xp: Any, grad_output: Any, output: Any, dim: int, input_dtype: dtype) -> Any:
    if not output.ndim:
        return output * (grad_output - grad_output * output)
    made = xp.multiply(grad_output, output, order="C")
    total = xp.add.reduce(made, dim, keepdims=True)
    xp.subtract(grad_output, total, out=made)
    return xp.multiply(made, output, out=made)


def _log_softmax_data(xp: Any, grad_output: Any, output: Any, dim: int, input_dtype: dtype) -> Any:
    if not output.ndim:
        return grad_output - xp.exp(output) * grad_output
    total = xp.add.reduce(grad_output, dim, keepdims=True)
    made = xp.exp(output, order="C")
    xp.multiply(made, total, out=made)
    return xp.subtract(grad_output, made, out=made)


_BACKWARD_CASES = cases(case(t(2, 3), t(2, 3), 1, float64), case(t(2, 3), t(2, 3), 0, float64),
                        case(t(), t(), 0, float64))

_SOFTMAX_DATA = op("_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype)"
                   " -> Tensor",
   kernel=computes(_backward_spec, _softmax_data),
   kernels={"cpu": "softmax.softmax_backward", "cuda": "softmax.softmax_backward"},
   npu="aclnnSoftmaxBackward(grad_output, output, dim, out)",
   grad=dict(grad_output=lambda grad, output, dim: _softmax_backward(grad, output, dim),
             output=lambda grad, grad_output, output, dim:
             grad * (grad_output - (grad_output * output).sum((dim,), True))
             - grad_output * (grad * output).sum((dim,), True)),
   samples=_BACKWARD_CASES, batch=along_one, out=None,
   decomposition=lambda grad_output, output, dim, input_dtype:
       output * (grad_output - (grad_output * output).sum((dim,), True)), sharded="along")
_LOG_SOFTMAX_DATA = op("_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType "
                       "input_dtype) -> Tensor",
   kernel=computes(_backward_spec, _log_softmax_data),
   kernels={"cpu": "softmax.log_softmax_backward", "cuda": "softmax.softmax_backward"},
   npu="aclnnLogSoftmaxBackward(grad_output, output, dim, out)",
   grad=dict(grad_output=lambda grad, output, dim: grad - (grad * output.exp()).sum((dim,), True),
             output=lambda grad, grad_output, output, dim: -grad * output.exp() * grad_output.sum((dim,), True)),
   samples=_BACKWARD_CASES, batch=along_one,
   decomposition=lambda grad_output, output, dim, input_dtype:
       grad_output - output.exp() * grad_output.sum((dim,), True), sharded="along")


def _softmax_backward(grad: Tensor, output: Tensor, dim: int) -> Tensor:
    return call_bound(_SOFTMAX_DATA, (grad, output, dim, output.dtype))


def _log_softmax_backward(grad: Tensor, output: Tensor, dim: int) -> Tensor:
    return call_bound(_LOG_SOFTMAX_DATA, (grad, output, dim, output.dtype))


# nn.functional -------------------------------------------------------------------------------------------------------


def _implicit_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dimension that calls without one mean, as they did before PyTorch asked for it."""
    outer = (stacklevel - 3) // 2  # for each two frames that a module adds in PyTorch, here is one that counts
    warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
         outer=outer)
    return 0 if ndim in (0, 1, 3) else 1


_FUNCTIONAL = "Tensor input, int? dim=None, int _stacklevel=3, ScalarType? dtype=None"
_FUNCTIONAL_CASES = cases(case(t(2, 3), 1), case(t(2, 3), 0), case(t(4), -1), case(t(2, 3, 2), dim=1),
                          case(t(2, 3), dim=0, dtype=float64))


@composite(f"softmax.functional({_FUNCTIONAL}) -> Tensor", samples=_FUNCTIONAL_CASES, public="nn.functional",
           out=Out(grad="cut"), autocast=dict(accelerators="result"), python="softmax")
def _functional_softmax(input, dim, _stacklevel, dtype):
    return input.softmax(_implicit_dim("softmax", input.dim(), _stacklevel) if dim is None else dim, dtype)


@composite(f"log_softmax.functional({_FUNCTIONAL}) -> Tensor", samples=_FUNCTIONAL_CASES, public="nn.functional",
           out=Out(grad="cut"), autocast=dict(accelerators="result"), python="log_softmax")
def _functional_log_softmax(input, dim, _stacklevel, dtype):
    return input.log_softmax(_implicit_dim("log_softmax", input.dim(), _stacklevel) if dim is None else dim, dtype)


@composite(f"softmin({_FUNCTIONAL}) -> Tensor", samples=_FUNCTIONAL_CASES, public="nn.functional", python=True)
def _softmin(input, dim, _stacklevel, dtype):
    return (-input).softmax(_implicit_dim("softmin", input.dim(), _stacklevel) if dim is None else dim, dtype)


# log sum exp ---------------------------------------------------------------------------------------------------------


def _logsumexp_spec(self: Tensor, dim: Any, keepdim: bool) -> Spec:
    shape = self._array.shape
    kind = self.dtype if self.dtype.category >= FLOAT else get_default_dtype()
    if not dim and shape and not keepdim and 0 not in shape:  # which PyTorch folds, and then fails to shape
        raise shape_misfit((), (1,) * len(shape))
    return Spec(folded_shape(shape, reduced_dims(dim, len(shape)), keepdim), kind)


def _logsumexp(xp: Any, self: Any, dim: Any, keepdim: bool, spec: Spec) -> Any:
    if self.dtype.kind not in "fc":
        self = self.astype(spec.dtype.np)
    axes = axes_of(self, dim)
    if self.size:
        largest = xp.maximum.reduce(self.real, axes, keepdims=True)
        largest = xp.where(xp.isfinite(largest), largest, largest.dtype.type(0))
    else:
        largest = xp.zeros((1,) * self.ndim, self.real.dtype)
    total = self - largest
    for step in (xp.exp, lambda x: xp.add.reduce(x, axes, keepdims=True), xp.log):
        if spec.dtype in COMPUTE:  # PyTorch rounds to half precision before each step
            total = xp.asarray(total).astype(spec.dtype.np).astype(self.dtype)
        total = step(total)
    if spec.dtype in COMPUTE:
        total = xp.asarray(total).astype(spec.dtype.np).astype(self.dtype)
    return contiguous((total + largest).reshape(spec.shape))


op("logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", public="torch Tensor special",
   kernel=computes(_logsumexp_spec, _logsumexp), kernels={"cpu": "softmax.logsumexp"},
   npu="aclnnLogSumExp(self:out, dim, keepdim, out) empty=-inf",
   grad=dict(self=on_arrays(lambda xp, grad, self, result, dim, keepdim:
             unfolded(grad, self.shape, dim, keepdim)
             * xp.exp(self - unfolded(result, self.shape, dim, keepdim)).conj())),
   samples=cases(case(t(2, 3), 1), case(t(2, 3), (0, 1), True), case(t(2, 3, 4), -2), case(t(), 0), case(t(0, 3), 0),
                 case(t(2, 3, low=80, high=100), 1), case(ints(2, 3), 0), *DIM_ERRORS),
   out=Out("castable", "logsumexp(): Expected floating point type for result tensor, but got: {given}"),
   autocast=dict(accelerators="float32"), sharded="reduction")
