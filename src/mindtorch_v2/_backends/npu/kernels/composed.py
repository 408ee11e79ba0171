"""NPU kernels that are more than one row: arguments to bring into ACLNN's form, or several operators in turn.

A function whose operator also has a row in its declaration is given the row's kernel as first argument. They run with
recording switched off, as all kernels do: what they call is not seen by autograd.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._determinism import determinism, filler
from ...._device import META
from ...._dispatch.callers import call_bound
from ...._dispatch.keys import PYTHON_MASK, changed_modes, modes
from ...._dispatch.registry import registry
from ...._dispatch.schema import NUMBERS
from ...._dtype import FLOAT, bool_, dtype, finfo, float32, get_default_dtype, uint8
from ...._geometry import contiguous_strides
from ...._ops.copy import _check_copy, preserved_strides
from ...._ops.copy import store as store_on_host
from ...._ops.create import _arange_bounds
from ...._ops.families import result_of
from ...._ops.rules import Spec, check_writable, common_dtype
from ...._tensor import Tensor
from ..array import copy_bytes, empty, from_host, to_host, write_bytes
from ..families import cast, device_index, exact_number, finished, fresh, store, uninitialised, wrap_npu
from ..launch import packed_copy, run

COMPOSED: dict[str, Callable] = {}


def composed(*names: str) -> Callable[[Callable], Callable]:
    """Registers the kernel of one or more operators."""

    def add(function: Callable) -> Callable:
        @functools.wraps(function)
        def kernel(*args: Any) -> Any:
            with changed_modes(grad_enabled=False, exclude=modes.exclude | PYTHON_MASK):
                return function(*args)

        for name in names:
            COMPOSED[name] = kernel
        return kernel

    return add


def call(name: str, *values: Any) -> Any:
    """Runs another operator on values in its schema's order."""
    return call_bound(registry.get(f"aten::{name}"), values)


def infer(name: str, *values: Any) -> Any:
    """What an operator's declaration says of its result."""
    return registry.get(f"aten::{name}").declaration.family.infer(*values)


def results(name: str, *tensors: Any) -> Any:
    return result_of(registry.get(f"aten::{name}"), tensors)


# copies --------------------------------------------------------------------------------------------------------------


@composed("fill_")
def _fill(row: Callable, self: Tensor, value: Any) -> Tensor:
    return row(self, exact_number(value, self.dtype) if value.__class__ in NUMBERS else value)


@composed("clone")
def clone(self: Tensor, memory_format: Any) -> Tensor:
    made = uninitialised(infer("clone", self, memory_format), self._device)
    if made._array.size:
        store(made, self)
    return made


@composed("_to_copy")
def _to_copy(self: Tensor, kind: dtype | None, where: Any, non_blocking: bool, memory_format: Any) -> Tensor:
    target = device_index(where, (self,))
    spec = Spec(self._array.shape, kind or self.dtype, preserved_strides(self, memory_format))
    made = uninitialised(spec, target)
    if made._array.size:
        _transfer(made, self, non_blocking)
    return made


@composed("copy_")
def _copy(self: Tensor, src: Any, non_blocking: bool) -> Tensor:
    check_writable(self)
    _check_copy(self, src, non_blocking)
    if self._device is META:
        pass
    elif src.__class__ in NUMBERS:
        return call("fill_", self, src)
    elif self._array.size:
        if src._array.shape != self._array.shape:
            src = src.expand(self._array.shape)
        _transfer(self, src, non_blocking)
    self._bump_version()
    return self


def _transfer(target: Tensor, source: Tensor, non_blocking: bool) -> None:
    """Copies elements between memories of any two devices; the shapes are equal."""
    array, value = target._array, source._array
    if array.__class__ is np.ndarray:
        direct = array.flags.c_contiguous and value.is_contiguous and array.dtype == value.dtype
        if direct:
            to_host(value, array, non_blocking)
        else:
            store_on_host(np, array, to_host(value))
    elif value.__class__ is np.ndarray and not value.shape and value.dtype.isbuiltin == 1:
        call("fill_", target, value.item())  # a number travels as an argument
    elif value.__class__ is np.ndarray:
        if value.dtype != array.dtype:
            cast_value = np.empty(value.shape, array.dtype)
            store_on_host(np, cast_value, value)
            value = cast_value
        if array.is_contiguous:
            write_bytes(array.storage, array.offset, np.ascontiguousarray(value), non_blocking)
        else:
            run("aclnnInplaceCopy", (array, from_host(value, array.device_index)), "aten::copy_")
    elif value.device_index == array.device_index:
        run("aclnnInplaceCopy", (array, value), "aten::copy_")
    else:
        packed = value if value.is_contiguous else packed_copy(value)
        moved = empty(value.shape, value.dtype, array.device_index)
        copy_bytes(moved.storage, 0, packed.storage, packed.offset, moved.nbytes)
        run("aclnnInplaceCopy", (array, moved), "aten::copy_")


@composed("_unsafe_view")
def unsafe_view(self: Tensor, size: tuple[int, ...]) -> Tensor:
    packed = self._array if self._array.is_contiguous else packed_copy(self._array)
    shape = infer("_unsafe_view", self, size).shape
    strides = contiguous_strides(shape, packed.itemsize)
    made = wrap_npu(packed.storage.array(shape, packed.dtype, packed.offset, strides))
    made._offset = packed.offset
    return made


# factories -----------------------------------------------------------------------------------------------------------


def _in_range(name: str, bounds: Callable[..., tuple], symbol: str) -> None:
    """A factory that counts: numbers in, the row of numbers out."""

    @composed(name)
    def kernel(*args: Any) -> Tensor:
        operator = registry.get(f"aten::{name}")
        made = fresh(operator, args)
        if made._array.size and made.dtype.category < FLOAT and "space" in name:  # the operator gives fractions
            parts = empty(made._array.shape, float32.np, made._device)
            run(symbol, (*bounds(*args), parts), operator.name)
            store(made, wrap_npu(parts).trunc())
        elif made._array.size:
            run(symbol, (*bounds(*args), made._array), operator.name)
        return finished(operator, made, args)


def _unfilled(name: str) -> None:
    @composed(name)
    def kernel(*args: Any) -> Tensor:
        operator = registry.get(f"aten::{name}")
        made = fresh(operator, args)
        return finished(operator, made.fill_(filler(made.dtype)) if determinism.fills else made, args)


for _name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"):
    _unfilled(_name)


def number_of(value: Any) -> Any:
    return value.item() if hasattr(value, "_array") else value


_in_range("arange.start_step", lambda start, end, step, *_: _arange_bounds(start, end, step), "aclnnArange")
_in_range("range", lambda start, end, step, *_: (start, end, step), "aclnnRange")
_in_range("linspace", lambda start, end, steps, *_: (number_of(start), number_of(end), steps), "aclnnLinspace")
_in_range("logspace", lambda start, end, steps, base, *_: (number_of(start), number_of(end), steps, base),
          "aclnnLogSpace")
_in_range("eye", lambda n, m, *_: (n, n if m is None else m), "aclnnEye")


# elementwise ---------------------------------------------------------------------------------------------------------


def floating_(self: Tensor) -> Tensor:
    """Integers become the default floating type."""
    return self if self.dtype.category >= FLOAT else cast(self, get_default_dtype())


@composed("isinf")
def _isinf(self: Tensor) -> Tensor:
    if self.dtype.category < FLOAT:
        return call("zeros_like", self, bool_, None, None, None, False, None)
    return self.abs() == math.inf


@composed("isreal")
def _isreal(self: Tensor) -> Tensor:
    if self.dtype.is_complex:
        return call("imag", self) == 0
    return call("ones_like", self, bool_, None, None, None, False, None)


@composed("sgn")
def _sgn(self: Tensor) -> Tensor:
    if not self.dtype.is_complex:
        return self.sign()
    size = self.abs()
    return (self / size).masked_fill(size == 0, 0)


@composed("angle")
def _angle(self: Tensor) -> Tensor:
    if self.dtype.is_complex:
        return call("imag", self).atan2(call("real", self))
    self = floating_(self)
    return (self < 0) * math.pi + (self * 0).masked_fill(self == self, 0)


@composed("_conj_physical")
def _conj(self: Tensor) -> Tensor:
    if not self.dtype.is_complex:
        return self.clone()
    return call("complex", call("real", self).contiguous(), -call("imag", self))


@composed("fmax")
def _fmax(self: Tensor, other: Tensor) -> Tensor:
    self, other = promoted_to_one(self, other)
    return call("where.self", other.isnan(), self, call("where.self", self.isnan(), other, self.maximum(other)))


@composed("fmin")
def _fmin(self: Tensor, other: Tensor) -> Tensor:
    self, other = promoted_to_one(self, other)
    return call("where.self", other.isnan(), self, call("where.self", self.isnan(), other, self.minimum(other)))


def promoted_to_one(*tensors: Tensor) -> list[Tensor]:
    kind = common_dtype(tensors)
    return [cast(tensor, kind) for tensor in tensors]


@composed("hypot")
def _hypot(self: Tensor, other: Tensor) -> Tensor:
    return (self * self + other * other).sqrt()


@composed("ldexp")
def _ldexp(self: Tensor, other: Tensor) -> Tensor:
    self, other = promoted_to_one(self, other)
    return floating_(self) * floating_(other).exp2()


@composed("copysign")
def _copysign(self: Tensor, other: Any) -> Tensor:
    size = floating_(self).abs()
    if not hasattr(other, "_array"):
        return -size if math.copysign(1, other) < 0 else size
    kind = promoted_to_one(size, floating_(other))[0].dtype
    return call("where.self", other.signbit(), -size, size).to(kind)


@composed("deg2rad")
def _deg2rad(self: Tensor) -> Tensor:
    return self * (math.pi / 180)


@composed("rad2deg")
def _rad2deg(self: Tensor) -> Tensor:
    return self * (180 / math.pi)


@composed("lcm")
def _lcm(self: Tensor, other: Tensor) -> Tensor:
    self, other = promoted_to_one(self, other)
    divisor = self.gcd(other)
    return (self.div(divisor.clamp_min(1), rounding_mode="trunc") * other).abs()


@composed("_prelu_kernel")
def _prelu(self: Tensor, weight: Tensor) -> Tensor:
    return call("where.self", self > 0, self, self * weight)


@composed("nan_to_num")
def _nan_to_num(self: Tensor, nan: float | None, posinf: float | None, neginf: float | None) -> Tensor:
    spec = infer("nan_to_num", self, nan, posinf, neginf)
    if self.dtype.category != FLOAT:
        if self.dtype.is_complex:
            parts = [_nan_to_num(call(part, self).contiguous(), nan, posinf, neginf) for part in ("real", "imag")]
            return call("complex", *parts)
        return self.clone()
    limits = finfo(self.dtype)
    made = uninitialised(spec, self._device)
    run("aclnnNanToNum", (self._array, 0.0 if nan is None else nan, limits.max if posinf is None else posinf,
                          limits.min if neginf is None else neginf, made._array), "aten::nan_to_num")
    return made


@composed("special_entr")
def _entr(self: Tensor) -> Tensor:
    self = floating_(self)
    inside = call("where.self", self > 0, -self * self.log(), self * 0)
    return call("where.self", self < 0, call("full_like", self, -math.inf, None, None, None, None, False, None), inside)


@composed("special_ndtr")
def _ndtr(self: Tensor) -> Tensor:
    return (floating_(self) * -math.sqrt(0.5)).erfc() * 0.5


@composed("special_ndtri")
def _ndtri(self: Tensor) -> Tensor:
    return (floating_(self) * 2 - 1).erfinv() * math.sqrt(2)


@composed("special_xlog1py")
def _xlog1py(self: Any, other: Any) -> Tensor:
    if not hasattr(other, "_array"):
        return floating_(self) * math.log1p(other)
    scaled = self * other.log1p()
    if hasattr(self, "_array"):
        zero = self == 0
    else:
        zero = call("full_like", other, self == 0, bool_, None, None, None, False, None)
    return scaled.masked_fill(zero & (other == other), 0)


@composed("special_spherical_bessel_j0")
def _spherical_bessel_j0(self: Tensor) -> Tensor:
    return (floating_(self) * (1 / math.pi)).sinc()


# reductions ----------------------------------------------------------------------------------------------------------


def _arg_extreme(name: str) -> None:
    @composed(name)
    def kernel(row: Callable, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
        if dim is not None:
            return row(self, dim, keepdim)
        shape = infer(name, self, dim, keepdim).shape
        return unsafe_view(row(self.reshape((-1,)), 0, False), shape)


_arg_extreme("argmax")
_arg_extreme("argmin")


@composed("count_nonzero")
def _count_nonzero(self: Tensor, dim: Any) -> Tensor:
    return (self != 0).sum(dim)


_SPREADS = {"var.correction": "aclnnVarCorrection", "std.correction": "aclnnStd",
            "var_mean.correction": "aclnnVarMean", "std_mean.correction": "aclnnStdMeanCorrection"}


def _spread(name: str, symbol: str) -> None:
    @composed(name)
    def kernel(self: Tensor, dim: Any, correction: Any, keepdim: bool) -> Any:
        specs = infer(name, self, dim, correction, keepdim)
        single = specs.__class__ is Spec
        free = 1 if correction is None else correction
        made = [uninitialised(spec, self._device) for spec in ((specs,) if single else specs)]
        if self._array.size and int(free) == free:
            run(symbol, (self._array, tuple(dim or ()), int(free), keepdim, *(m._array for m in made)), f"aten::{name}")
        elif made[0]._array.size:
            mean = self.mean(dim, True)
            count = self._array.size // max(mean._array.size, 1)
            total = ((self - mean) * (self - mean)).sum(dim, keepdim) / max(count - free, 0)
            store(made[0], total.sqrt() if "std" in name else total)
            if not single:
                store(made[1], self.mean(dim, keepdim))
        return made[0] if single else results(name, *made)


for _name, _symbol in _SPREADS.items():
    _spread(_name, _symbol)


@composed("logcumsumexp")
def _logcumsumexp(self: Tensor, dim: int) -> Tensor:
    infer("logcumsumexp", self, dim)
    top = self.amax() if self._array.size else self
    top = top.masked_fill(top.abs() == math.inf, 0)
    return (self - top).exp().cumsum(dim).log() + top


@composed("all", "any")
def _truth(row: Callable, self: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if dim != ():
        return row(self, dim, keepdim)
    made = self != 0  # no dimension is reduced, where ACLNN would take all
    return cast(made, self.dtype) if self.dtype is uint8 else made


# products ------------------------------------------------------------------------------------------------------------


@composed("linear")
def _linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    spec = infer("linear", input, weight, bias)
    if weight.dim() == 1 or not input.numel():
        made = (input * weight).sum(-1) if weight.dim() == 1 else input.new_zeros(spec.shape)
        return made if bias is None else made + bias
    rows = input if input.dim() == 2 else input.reshape((-1, input.shape[-1]))
    if bias is None or bias.dim() > 1:
        made = rows.mm(weight.t())
    else:
        made = bias.addmm(rows, weight.t())
    made = made if input.dim() == 2 else unsafe_view(made, spec.shape)
    return made if bias is None or bias.dim() <= 1 else made + bias


@composed("_linear_weight_grad")
def _linear_weight_grad(rows: Tensor, input: Tensor) -> Tensor:
    shape = infer("_linear_weight_grad", rows, input).shape
    count, width = math.prod(input.shape[:-1]), shape[0] if len(shape) == 2 else 1
    made = rows.reshape((count, width)).t().mm(input.reshape((count, input.shape[-1])))
    return made if len(shape) == 2 else unsafe_view(made, shape)


@composed("vdot")
def _vdot(self: Tensor, other: Tensor) -> Tensor:
    infer("vdot", self, other)
    return (call("_conj_physical", self) if self.dtype.is_complex else self).dot(other)


@composed("addmv")
def _addmv(row: Callable, self: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Tensor:
    spec = infer("addmv", self, mat, vec, beta, alpha)
    if not mat.numel():
        return self.expand(spec.shape) * beta if beta else self.new_zeros(spec.shape)
    return row(self.expand(spec.shape) if self.shape != spec.shape else self, mat, vec, beta, alpha)


def laid_out(made: Tensor, spec: Spec) -> Tensor:
    target = uninitialised(spec, made._device)
    store(target, made)
    return target


def untouched(made: Tensor) -> Tensor:
    """A fresh tensor on what was written through views: a result starts at version 0."""
    return wrap_npu(made._array)


# They fill the table.
from . import layers, linalg, losses, places, random, special  # noqa: E402, F401
