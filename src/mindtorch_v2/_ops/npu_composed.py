"""NPU kernels that are more than one row: arguments to bring into ACLNN's form, or several operators in turn.

A function whose operator also has a row in its declaration is given the row's kernel as first argument. They run with
recording switched off, as all kernels do: what they call is not seen by autograd.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._backends.meta import contiguous_strides
from .._backends.npu.array import copy_bytes, empty, from_host, to_host, write_bytes
from .._backends.npu.launch import launch, packed_copy, run
from .._device import META
from .._dispatch.callers import call_bound
from .._dispatch.keys import NPU_MASK, PYTHON_MASK, changed_modes, modes
from .._dispatch.registry import registry
from .._dispatch.schema import NUMBERS
from .._dtype import COMPLEX, FLOAT, OF_ARRAY, bool_, dtype, finfo, float32, get_default_dtype, int64, uint8
from .._tensor import Tensor, wrapped_dim
from .copy import _check_copy, preserved_strides
from .copy import store as store_on_host
from .create import _arange_bounds
from .families import Spec, check_writable, common_dtype, result_of, shape_text
from .index import check_mask
from .npu import cast, device_index, exact_number, finished, fresh, number_tensor, store, uninitialised, wrap_npu

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
def _clone(self: Tensor, memory_format: Any) -> Tensor:
    made = uninitialised(infer("clone", self, memory_format), self._device)
    if made._array.size:
        store(made, self)
    return made


@composed("_to_copy")
def _to_copy(self: Tensor, kind: dtype | None, where: Any, memory_format: Any) -> Tensor:
    target = device_index(where, (self,))
    spec = Spec(self._array.shape, kind or self.dtype, preserved_strides(self, memory_format))
    made = uninitialised(spec, target)
    if made._array.size:
        _transfer(made, self, False)
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
def _unsafe_view(self: Tensor, size: tuple[int, ...]) -> Tensor:
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
        if made._array.size:
            run(symbol, (*bounds(*args), made._array), operator.name)
        return finished(operator, made, args)


def _unfilled(name: str) -> None:
    @composed(name)
    def kernel(*args: Any) -> Tensor:
        operator = registry.get(f"aten::{name}")
        return finished(operator, fresh(operator, args), args)


for _name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"):
    _unfilled(_name)


def _number_of(value: Any) -> Any:
    return value.item() if hasattr(value, "_array") else value


_in_range("arange.start_step", lambda start, end, step, *_: _arange_bounds(start, end, step), "aclnnArange")
_in_range("range", lambda start, end, step, *_: (start, end, step), "aclnnRange")
_in_range("linspace", lambda start, end, steps, *_: (_number_of(start), _number_of(end), steps), "aclnnLinspace")
_in_range("logspace", lambda start, end, steps, base, *_: (_number_of(start), _number_of(end), steps, base),
          "aclnnLogSpace")
_in_range("eye", lambda n, m, *_: (n, n if m is None else m), "aclnnEye")


# elementwise ---------------------------------------------------------------------------------------------------------


def _floating(self: Tensor) -> Tensor:
    """Integers become the default floating type."""
    return self if self.dtype.category >= FLOAT else cast(self, get_default_dtype())


@composed("isinf")
def _isinf(self: Tensor) -> Tensor:
    return self.abs() == math.inf


@composed("isreal")
def _isreal(self: Tensor) -> Tensor:
    return call("imag", self) == 0 if self.dtype.is_complex else call("ones_like", self, bool_, None, None, None, False, None)


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
    self = _floating(self)
    return (self < 0) * math.pi + (self * 0).masked_fill(self == self, 0)


@composed("_conj_physical")
def _conj(self: Tensor) -> Tensor:
    if not self.dtype.is_complex:
        return self.clone()
    return call("complex", call("real", self).contiguous(), -call("imag", self))


@composed("fmax")
def _fmax(self: Tensor, other: Tensor) -> Tensor:
    self, other = _promoted(self, other)
    return call("where.self", other.isnan(), self, call("where.self", self.isnan(), other, self.maximum(other)))


@composed("fmin")
def _fmin(self: Tensor, other: Tensor) -> Tensor:
    self, other = _promoted(self, other)
    return call("where.self", other.isnan(), self, call("where.self", self.isnan(), other, self.minimum(other)))


def _promoted(*tensors: Tensor) -> list[Tensor]:
    kind = common_dtype(tensors)
    return [cast(tensor, kind) for tensor in tensors]


@composed("hypot")
def _hypot(self: Tensor, other: Tensor) -> Tensor:
    return (self * self + other * other).sqrt()


@composed("copysign")
def _copysign(self: Tensor, other: Any) -> Tensor:
    size = _floating(self).abs()
    if other.__class__ in NUMBERS:
        return -size if math.copysign(1, other) < 0 else size
    kind = _promoted(size, _floating(other))[0].dtype
    return call("where.self", other.signbit(), -size, size).to(kind)


@composed("deg2rad")
def _deg2rad(self: Tensor) -> Tensor:
    return self * (math.pi / 180)


@composed("rad2deg")
def _rad2deg(self: Tensor) -> Tensor:
    return self * (180 / math.pi)


@composed("lcm")
def _lcm(self: Tensor, other: Tensor) -> Tensor:
    self, other = _promoted(self, other)
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
    self = _floating(self)
    inside = call("where.self", self > 0, -self * self.log(), self * 0)
    return call("where.self", self < 0, call("full_like", self, -math.inf, None, None, None, None, False, None), inside)


@composed("special_ndtr")
def _ndtr(self: Tensor) -> Tensor:
    return (_floating(self) * -math.sqrt(0.5)).erfc() * 0.5


@composed("special_ndtri")
def _ndtri(self: Tensor) -> Tensor:
    return (_floating(self) * 2 - 1).erfinv() * math.sqrt(2)


@composed("special_xlog1py")
def _xlog1py(self: Any, other: Any) -> Tensor:
    if other.__class__ in NUMBERS:
        return _floating(self) * math.log1p(other)
    scaled = self * other.log1p()
    zero = self == 0 if hasattr(self, "_array") else call("full_like", other, self == 0, bool_, None, None, None, False, None)
    return scaled.masked_fill(zero & (other == other), 0)


@composed("special_spherical_bessel_j0")
def _spherical_bessel_j0(self: Tensor) -> Tensor:
    return (_floating(self) * (1 / math.pi)).sinc()


# reductions ----------------------------------------------------------------------------------------------------------


def _arg_extreme(name: str) -> None:
    @composed(name)
    def kernel(row: Callable, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
        if dim is not None:
            return row(self, dim, keepdim)
        shape = infer(name, self, dim, keepdim).shape
        return _unsafe_view(row(self.reshape((-1,)), 0, False), shape)


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
    made = made if input.dim() == 2 else _unsafe_view(made, spec.shape)
    return made if bias is None or bias.dim() <= 1 else made + bias


@composed("_linear_weight_grad")
def _linear_weight_grad(rows: Tensor, input: Tensor) -> Tensor:
    shape = infer("_linear_weight_grad", rows, input).shape
    count, width = math.prod(input.shape[:-1]), shape[0] if len(shape) == 2 else 1
    made = rows.reshape((count, width)).t().mm(input.reshape((count, input.shape[-1])))
    return made if len(shape) == 2 else _unsafe_view(made, shape)


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


@composed("linalg_solve_triangular")
def _solve_triangular(self: Tensor, other: Tensor, upper: bool, left: bool, unitriangular: bool) -> Tensor:
    spec = infer("linalg_solve_triangular", self, other, upper, left, unitriangular)
    if not left:
        flipped = call("linalg_solve_triangular", self.transpose(-1, -2), other.transpose(-1, -2), not upper, True,
                       unitriangular)
        return _laid_out(flipped.transpose(-1, -2), spec)
    batch = spec.shape[:-2]
    right = other.expand(spec.shape).contiguous()
    matrix = self.expand((*batch, *self.shape[-2:])).contiguous()
    made, copied = uninitialised(spec, self._device), uninitialised(Spec(matrix._array.shape, spec.dtype), self._device)
    if made._array.size:
        run("aclnnTriangularSolve", (right._array, matrix._array, upper, False, unitriangular, made._array,
                                     copied._array), "aten::linalg_solve_triangular")
    return made


# joining and placing -------------------------------------------------------------------------------------------------


@composed("cat")
def _cat(row: Callable, tensors: Sequence[Tensor], dim: int) -> Tensor:
    spec = infer("cat", tensors, dim)
    ndim = len(spec.shape)
    kept = [cast(x, spec.dtype) for x in tensors if x._array.ndim == ndim and x._array.size]
    if not kept:
        return uninitialised(spec, tensors[0]._device)
    made = row(kept, dim % ndim)
    return made if spec.strides is None else _laid_out(made, spec)


@composed("stack")
def _stack(row: Callable, tensors: Sequence[Tensor], dim: int) -> Tensor:
    spec = infer("stack", tensors, dim)
    return row([cast(x, spec.dtype) for x in tensors], dim % len(spec.shape))


def _laid_out(made: Tensor, spec: Spec) -> Tensor:
    target = uninitialised(spec, made._device)
    store(target, made)
    return target


def _zeros(shape: Sequence[int], like: Tensor) -> Tensor:
    return like.new_zeros(tuple(shape))


@composed("select_backward")
def _select_backward(self: Tensor, input_sizes: tuple[int, ...], dim: int, index: int) -> Tensor:
    made = _zeros(input_sizes, self)
    made.select(dim, index).copy_(self)
    return _untouched(made)


@composed("slice_backward")
def _slice_backward(self: Tensor, input_sizes: tuple[int, ...], dim: int, start: Any, end: Any, step: int) -> Tensor:
    made = _zeros(input_sizes, self)
    call("slice.Tensor", made, dim, start, end, step).copy_(self)
    return _untouched(made)


@composed("diagonal_backward")
def _diagonal_backward(self: Tensor, input_sizes: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Tensor:
    made = _zeros(input_sizes, self)
    made.diagonal(offset, dim1, dim2).copy_(self)
    return _untouched(made)


@composed("unfold_backward")
def _unfold_backward(self: Tensor, input_sizes: tuple[int, ...], dim: int, size: int, step: int) -> Tensor:
    if not input_sizes:
        return self.sum().reshape(())
    made = uninitialised(Spec(tuple(input_sizes), self.dtype), self._device)
    if made._array.size:
        run("aclnnUnfoldGrad", (self._array, tuple(input_sizes), wrapped_dim(dim, len(input_sizes)), size, step,
                                made._array), "aten::unfold_backward")
    return made


@composed("diag_embed")
def _diag_embed(self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    made = _zeros(infer("diag_embed", self, offset, dim1, dim2).shape, self)
    made.diagonal(offset, dim1, dim2).copy_(self)
    return _untouched(made)


@composed("block_diag")
def _block_diag(tensors: Sequence[Tensor]) -> Tensor:
    spec = infer("block_diag", tensors)
    made = uninitialised(spec, tensors[0]._device).zero_()
    row = column = 0
    for tensor in tensors:
        block = tensor if tensor.dim() == 2 else tensor.reshape((1, -1))
        made.narrow(0, row, block.shape[0]).narrow(1, column, block.shape[1]).copy_(block)
        row, column = row + block.shape[0], column + block.shape[1]
    return _untouched(made)


def _untouched(made: Tensor) -> Tensor:
    """A fresh tensor on what was written through views: a result starts at version 0."""
    return wrap_npu(made._array)


# indexing ------------------------------------------------------------------------------------------------------------


@composed("nonzero")
def _nonzero(self: Tensor) -> Tensor:
    if not self._array.size:
        return uninitialised(Spec((0, self.dim()), int64), self._device)
    out = empty((self._array.size, self.dim()), int64.np, self._device)
    if not self.dim():
        return uninitialised(Spec((int(bool(self.item())), 0), int64), self._device)
    (shape,) = launch("aclnnNonzero", {"self": self._array, "out": out}, op="aten::nonzero", shapes_of=("out",))
    return wrap_npu(out.storage.array(shape, out.dtype, 0, (8 * self.dim(), 8)))


@composed("nonzero_static")
def _nonzero_static(self: Tensor, size: int, fill_value: int) -> Tensor:
    found = self.nonzero()
    made = call("full", (size, self.dim()), fill_value, int64, None, self._device, None, False)
    count = min(size, found.shape[0])
    made.narrow(0, 0, count).copy_(found.narrow(0, 0, count))
    return _untouched(made)


@composed("masked_select")
def _masked_select(self: Tensor, mask: Tensor) -> Tensor:
    infer("masked_select", self, mask)
    shape = np.broadcast_shapes(self._array.shape, mask._array.shape)
    out = empty((math.prod(shape),), self._array.dtype, self._device)
    if not out.size:
        return wrap_npu(out)
    values = {"self": self.expand(shape)._array, "mask": mask.expand(shape)._array, "out": out}
    (found,) = launch("aclnnMaskedSelect", values, op="aten::masked_select", shapes_of=("out",))
    return wrap_npu(out.storage.array(found, out.dtype, 0, (out.itemsize,)))


def _places(self: Tensor, indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Indices without masks: the places of their True instead. A mask's number of places is in its data."""
    made: list[Tensor | None] = []
    for index in indices:
        if index is None:
            made.append(None)
        elif index.dtype.category == 0 or index.dtype.name == "uint8":
            check_mask(self._array.shape, index._array.shape, len(made))
            at = _on(self, index).nonzero()
            if not index.dim():
                made.append(at.new_zeros((at.shape[0],)))
            made.extend(at.select(1, d).contiguous() for d in range(index.dim()))
        else:
            made.append(_on(self, index))
    return made


def _on(self: Tensor, index: Tensor) -> Tensor:
    return index.to(self._device) if index._device != self._device else index


@composed("index.Tensor")
def _index(row: Callable, self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    places = _places(self, indices)
    spec = infer("index.Tensor", self, places)
    if 0 in spec.shape or not self._array.size:
        return uninitialised(spec, self._device)
    return row(self, tuple(places))


@composed("flip")
def _flip(row: Callable, self: Tensor, dims: tuple[int, ...]) -> Tensor:
    return row(self, dims) if dims and self.dim() else _clone(self, None)


@composed("index_select", "gather")
def _picked(row: Callable, self: Tensor, dim: int, index: Tensor, *rest: Any) -> Tensor:
    if self.dim() and index.dim():
        return row(self, dim, index, *rest)
    name = "gather" if rest else "index_select"
    shape = infer(name, self, dim, index, *rest).shape
    made = row(*(x.reshape((1,)) if not x.dim() else x for x in (self,)), dim, index.reshape((-1,)), *rest)
    return _unsafe_view(made, shape)


# What the writing operators (_ops/updates.py) do to their arguments before ACLNN gets them; None: nothing to write.
PREPARED: dict[str, Callable[..., tuple | None]] = {}


def prepares(*names: str) -> Callable[[Callable], Callable]:
    def add(function: Callable) -> Callable:
        PREPARED.update(dict.fromkeys(names, function))
        return function

    return add


@prepares("index_put")
def _prepare_put(self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> tuple | None:
    places = _places(self, indices)
    values = cast(_on(self, values), self.dtype)
    shape = infer("index.Tensor", self, places).shape
    if 0 in shape:
        return None
    if len(values._array.shape) > len(shape) or any(
            n not in (1, m) for n, m in zip(reversed(values._array.shape), reversed(shape), strict=False)):
        raise RuntimeError(f"shape mismatch: value tensor of shape {shape_text(values._array.shape)} cannot be broadcast "
                           f"to indexing result of shape {shape_text(shape)}")
    return tuple(places), values, accumulate


@prepares("masked_fill")
def _prepare_masked_fill(self: Tensor, mask: Tensor, value: Any) -> tuple:
    return mask, value if value.__class__ in NUMBERS else cast(_on(self, value), self.dtype)


@prepares("index_fill")
def _prepare_index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> tuple:
    return dim, index.reshape((-1,)), _number_of(value)


@prepares("index_copy", "index_add")
def _prepare_along(self: Tensor, dim: int, index: Tensor, source: Tensor, *rest: Any) -> tuple:
    return dim, index.reshape((-1,)), source, *rest


@composed("masked_scatter_backward")
def _masked_scatter_backward(grad_output: Tensor, mask: Tensor, sizes: tuple[int, ...]) -> Tensor:
    picked = grad_output.masked_select(mask)
    made = _zeros((math.prod(sizes),), grad_output)
    made.narrow(0, 0, picked.shape[0]).copy_(picked)
    return _unsafe_view(made, tuple(sizes))


@composed("one_hot")
def _one_hot(self: Tensor, num_classes: int) -> Tensor:
    if num_classes == -1 and self._array.size:
        num_classes = int(self.max().item()) + 1
    infer("one_hot", self, num_classes)
    made = call("zeros", (*self.shape, num_classes), int64, None, self._device, None, False)
    return _untouched(made.scatter_(-1, self.unsqueeze(-1), 1))


@composed("embedding")
def _embedding(row: Callable, weight: Tensor, indices: Tensor, *rest: Any) -> Tensor:
    infer("embedding", weight, indices, *rest)
    return row(weight, indices, *rest)


@composed("searchsorted")
def _searchsorted(sorted_sequence: Tensor, self: Any, out_int32: bool, right: bool, side: str | None,
                  sorter: Tensor | None) -> Tensor:
    spec = infer("searchsorted", sorted_sequence, self, out_int32, right, side, sorter)
    if self.__class__ in NUMBERS:
        self = number_tensor(self, sorted_sequence.dtype, sorted_sequence._device)
    made = uninitialised(spec, sorted_sequence._device)
    if made._array.size:
        run("aclnnSearchSorted", (sorted_sequence._array, self._array, out_int32, right or side == "right",
                                  None if sorter is None else sorter._array, made._array), "aten::searchsorted")
    return made


@composed("_unique2")
def _unique(self: Tensor, sorted: bool, return_inverse: bool, return_counts: bool) -> Any:
    infer("_unique2", self)
    return _distinct("aclnnUnique2", "_unique2", self, return_inverse, return_counts,
                     {"sorted": sorted, "returnInverse": return_inverse, "returnCounts": return_counts})


@composed("unique_consecutive")
def _unique_consecutive(self: Tensor, return_inverse: bool, return_counts: bool, dim: int | None) -> Any:
    infer("unique_consecutive", self, return_inverse, return_counts, dim)
    no_dim = 1000  # what the operator takes for "all elements as one row"
    return _distinct("aclnnUniqueConsecutive", "unique_consecutive", self, return_inverse, return_counts,
                     {"returnInverse": return_inverse, "returnCounts": return_counts,
                      "dim": no_dim if dim is None else wrapped_dim(dim, self.dim())}, dim)


def _distinct(symbol: str, name: str, self: Tensor, return_inverse: bool, return_counts: bool,
              options: dict[str, Any], dim: int | None = None) -> Any:
    size, shape = self._array.size, self._array.shape
    length = size if dim is None else shape[wrapped_dim(dim, self.dim())]
    nothing = uninitialised(Spec((0,), int64), self._device)
    if not size:
        return results(name, uninitialised(Spec((0,), self.dtype), self._device), nothing, nothing)
    values = empty((size,) if dim is None else shape, self._array.dtype, self._device)
    inverse = empty(shape if dim is None else (length,), int64.np, self._device)
    counts = empty((length,), int64.np, self._device)
    given = {"self": self._array, "valueOut": values, "inverseOut": inverse, "countsOut": counts, **options}
    found, counted = launch(symbol, given, op=f"aten::{name}", shapes_of=("valueOut", "countsOut"))
    tensor = wrap_npu(values.storage.array(found, values.dtype, 0, contiguous_strides(found, values.itemsize)))
    number = found[0 if dim is None else wrapped_dim(dim, self.dim())]
    return results(name, tensor, wrap_npu(inverse) if return_inverse else nothing,
                   wrap_npu(counts.storage.array((number,), counts.dtype, 0, (8,))) if return_counts else nothing)


@composed("bincount")
def _bincount(self: Tensor, weights: Tensor | None, minlength: int) -> Tensor:
    spec = infer("bincount", self, weights, minlength)
    if not self.numel():
        return call("zeros", (minlength,), spec.dtype, None, self._device, None, False)
    largest, smallest = (int(x) for x in call("stack", (self.max(), self.min()), 0).tolist())
    if smallest < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    made = uninitialised(Spec((max(largest + 1, minlength),), spec.dtype), self._device)
    run("aclnnBincount", (self._array, None if weights is None else weights._array, minlength, made._array),
        "aten::bincount")
    return made


@composed("repeat_interleave.Tensor")
def _repeat_interleave(repeats: Tensor, output_size: int | None) -> Tensor:
    count = int(repeats.sum().item()) if output_size is None and repeats.numel() else output_size or 0
    made = uninitialised(Spec((count,), repeats.dtype), repeats._device)
    if count:
        at = call("arange.start_step", 0, repeats.numel(), 1, repeats.dtype, None, repeats._device, None, False)
        run("aclnnRepeatInterleave", (at._array, repeats._array, count, made._array), "aten::repeat_interleave")
    return made


@composed("isin.Tensor_Tensor")
def _isin(elements: Tensor, test_elements: Tensor, assume_unique: bool, invert: bool) -> Tensor:
    infer("isin.Tensor_Tensor", elements, test_elements, assume_unique, invert)
    found = (elements.unsqueeze(-1) == test_elements.reshape((-1,))).any((-1,))
    return ~found if invert else found


def _triangle_indices(name: str, triangle: str) -> None:
    @composed(name)
    def kernel(row: int, col: int, offset: int, *options: Any) -> Tensor:
        operator = registry.get(f"aten::{name}")
        made = fresh(operator, (row, col, offset, *options))
        if made._array.size:
            whole = call("ones", (row, col), bool_, None, made._device, None, False)
            store(made, call(triangle, whole, offset).nonzero().t())
        return finished(operator, made, (row, col, offset, *options))


_triangle_indices("tril_indices", "tril")
_triangle_indices("triu_indices", "triu")


# losses and norms ----------------------------------------------------------------------------------------------------


@composed("mse_loss", "smooth_l1_loss")
def _distance_loss(row: Callable, self: Tensor, target: Tensor, *rest: Any) -> Tensor:
    if self._array.shape != target._array.shape:
        shape = np.broadcast_shapes(self._array.shape, target._array.shape)
        self, target = self.expand(shape).contiguous(), target.expand(shape).contiguous()
    return row(*_promoted(self, target), *rest)


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    return loss if reduction == 0 else loss.mean() if reduction == 1 else loss.sum()


@composed("huber_loss")
def _huber_loss(self: Tensor, target: Tensor, reduction: int, delta: float) -> Tensor:
    infer("huber_loss", self, target, reduction, delta)
    size = (self - target).abs()
    return _reduced(call("where.self", size < delta, size * size * 0.5, (size - 0.5 * delta) * delta), reduction)


def _class_weights(like: Tensor, classes: int, weight: Tensor | None) -> Tensor:
    """The weights of all classes: ACLNN's operator wants them told even if all are one."""
    return like.new_ones((classes,)) if weight is None else weight


def _as_rows(self: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Class scores as a matrix, one row for each target."""
    if self.dim() <= 1:
        return self.reshape((1, -1)), target.reshape((1,))
    if self.dim() == 2:
        return self, target
    return self.movedim(1, -1).reshape((-1, self.shape[1])), target.reshape((-1,))


@composed("nll_loss")
def _nll_loss(self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Tensor:
    spec = infer("nll_loss", self, target, weight, reduction, ignore_index)
    rows, classes = _as_rows(self, target)
    if not rows.numel():
        return self.new_full(spec.shape, math.nan if reduction == 1 else 0.0)
    made = uninitialised(Spec((rows.shape[0],) if reduction == 0 else (), self.dtype), self._device)
    total = empty((1,), self._array.dtype, self._device)
    run("aclnnNLLLoss", (rows._array, classes._array, _class_weights(self, rows.shape[1], weight)._array, reduction,
                         ignore_index, made._array, total), "aten::nll_loss")
    return made if made._array.shape == spec.shape else _unsafe_view(made, spec.shape)


@composed("_nll_loss_backward")
def _nll_loss_backward(grad_output: Tensor, target: Tensor, weight: Tensor | None, size: tuple[int, ...],
                       reduction: int, ignore_index: int) -> Tensor:
    scores = grad_output.new_zeros(size)
    if not scores.numel():
        return scores
    rows, classes = _as_rows(scores, target)
    weights = _class_weights(scores, rows.shape[1], weight)
    kept = classes != ignore_index
    total = (weights.index_select(0, classes.clamp_min(0) * kept) * kept).sum().reshape((1,))
    made = uninitialised(Spec(tuple(rows.shape), scores.dtype), scores._device)
    grad = grad_output.reshape((-1,)) if reduction == 0 else grad_output
    run("aclnnNLLLossBackward", (grad._array, rows._array, classes._array, weights._array, reduction, ignore_index,
                                 total._array, made._array), "aten::_nll_loss_backward")
    if len(size) == 2:
        return made
    back = made.reshape((size[0], *size[2:], size[1])).movedim(-1, 1) if len(size) > 2 else made.reshape(size)
    return _untouched(back.contiguous())


@composed("_cross_entropy")
def _cross_entropy(self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int) -> Any:
    infer("_cross_entropy", self, target, weight, reduction, ignore_index)
    dim = 0 if self.dim() == 1 else 1
    log_sum = self.logsumexp((dim,), True)
    loss = _nll_loss(self - log_sum, target, weight, reduction, ignore_index)
    return results("_cross_entropy", loss, log_sum)


@composed("_cross_entropy_backward")
def _cross_entropy_backward(grad_output: Tensor, self: Tensor, target: Tensor, weight: Tensor | None, log_sum: Tensor,
                            reduction: int, ignore_index: int) -> Tensor:
    picked = _nll_loss_backward(grad_output, target, weight, tuple(self.shape), reduction, ignore_index)
    dim = 0 if self.dim() == 1 else 1
    return picked - (self - log_sum).exp() * picked.sum((dim,), True)


@composed("_native_layer_norm")
def _layer_norm(row: Callable, input: Tensor, normalized_shape: tuple[int, ...], weight: Any, bias: Any,
                eps: float) -> Any:
    if not input.numel():
        specs = infer("_native_layer_norm", input, normalized_shape, weight, bias, eps)
        made = [uninitialised(spec, input._device) for spec in specs]
        return results("_native_layer_norm", *(m.fill_(math.nan) if m._array.size else m for m in made))
    return row(input, normalized_shape, weight, bias, eps)


@composed("native_layer_norm_backward")
def _layer_norm_backward(row: Callable, grad_out: Tensor, input: Tensor, normalized_shape: tuple[int, ...],
                         mean: Tensor, rstd: Tensor, weight: Any, bias: Any, output_mask: tuple) -> Any:
    if not input.numel():
        specs = infer("native_layer_norm_backward", grad_out, input, normalized_shape, mean, rstd, weight, bias,
                      output_mask)
        made = [None if spec is None else uninitialised(spec, input._device).zero_() for spec in specs]
        return results("native_layer_norm_backward", *made)
    return row(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)


@composed("_native_rms_norm")
def _rms_norm(input: Tensor, normalized_shape: tuple[int, ...], weight: Tensor | None, eps: float | None) -> Any:
    specs = infer("_native_rms_norm", input, normalized_shape, weight, eps)
    made = [uninitialised(spec, input._device) for spec in specs]
    if eps is None:
        eps = finfo(float32 if input.dtype.itemsize < 4 else input.dtype).eps
    if input.numel():
        gamma = input.new_ones(tuple(normalized_shape)) if weight is None else weight
        run("aclnnRmsNorm", (input._array, gamma._array, eps, *(m._array for m in made)), "aten::_native_rms_norm")
    return results("_native_rms_norm", *made)


@composed("_native_rms_norm_backward")
def _rms_norm_backward(grad_out: Tensor, input: Tensor, normalized_shape: tuple[int, ...], rstd: Tensor,
                       weight: Tensor | None, output_mask: tuple) -> Any:
    gamma = input.new_ones(tuple(normalized_shape)) if weight is None else weight
    made = input.new_empty(tuple(input.shape)), gamma.new_empty(tuple(normalized_shape))
    if input.numel():
        run("aclnnRmsNormGrad", (grad_out._array, input._array, rstd._array, gamma._array, *(m._array for m in made)),
            "aten::_native_rms_norm_backward")
    else:
        made[1].zero_()
    return results("_native_rms_norm_backward", *(m if w else None for m, w in zip(made, output_mask, strict=True)))


from . import npu_random  # noqa: E402, F401 - fills the table
