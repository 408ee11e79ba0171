"""Memory seen under free strides or another element type, and tensors that take a new geometry in place."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._autograd.names import name_by_operator
from .._autograd.views import check_inplace
from .._core.device import contiguous_format
from .._core.dtype import COMPLEX, complex32, complex64, complex128, dtype, float16, float32, float64
from .._core.elements import has_elements
from .._core.storage import refuse_reach
from .._core.tensor import Tensor, wrap
from .._dispatch.keys import BACKENDS, INFERENCE_MASK, DispatchKey, changed_modes, modes
from .._dispatch.registry import Operator, registry
from ._declare.aten import LEAF, Aten
from ._declare.batch import Call, Result, in_front
from ._declare.composites import Composite
from ._declare.families import Family
from ._declare.op import DECLARATIONS, composite, function_of, op
from ._declare.out import EXACT
from ._declare.rules import shape_text
from ._declare.samples import case, cases, error, t
from ._declare.view_family import View, view
from .view import Geometry

# free strides --------------------------------------------------------------------------------------------------------


def _as_strided(self: Tensor, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int,
                self_stride: tuple[int, ...], self_offset: int) -> Geometry:
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(n < 0 for n in size):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={shape_text(size)} and "
                           f"strides={shape_text(stride)}")
    if any(s < 0 for s in stride):
        raise RuntimeError("as_strided: Negative strides are not supported at the moment, got strides: "
                           f"{shape_text(stride)}")
    if storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    itemsize = self._array.itemsize
    if 0 not in size and has_elements(self):
        needed = itemsize * (storage_offset + 1 + sum([s * (n - 1) for n, s in zip(size, stride, strict=True)]))
        nbytes = self._shared_storage().nbytes()
        if needed > nbytes:
            refuse_reach(size, stride, storage_offset, itemsize, needed, nbytes)
    return size, tuple([s * itemsize for s in stride]), storage_offset * itemsize - self._offset


def _places(like: Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    """Where in the storage each element of a geometry lies, as a flat tensor."""
    places = np.array(offset)
    for n, step in zip(size, stride, strict=True):
        places = np.add.outer(places, np.arange(n) * step)
    return wrap(places.reshape(-1)).to(like._device)


def _lies_apart(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether each dimension steps over all that the smaller steps reach, so that no element is shown twice."""
    reach = 0
    for step, n in sorted(zip(stride, size, strict=True)):
        if n > 1:
            if step <= reach:
                return False
            reach += step * (n - 1)
    return True


def _as_strided_grad(grad: Tensor, self_shape: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...],
                     storage_offset: int, self_stride: tuple[int, ...], self_offset: int) -> Tensor:
    """Gradients summed into the storage, and read where `self` shows it; a place shown n times shares them."""
    if 0 in self_shape or 0 in size:
        return grad.new_zeros(self_shape)
    start = min(storage_offset, self_offset)
    ends = [sum(s * (n - 1) for n, s in zip(*geometry, strict=True)) + offset - start
            for *geometry, offset in ((size, stride, storage_offset), (self_shape, self_stride, self_offset))]
    storage = grad.new_zeros((max(ends) + 1,))
    if _lies_apart(size, stride):
        storage.as_strided(size, stride, storage_offset - start).copy_(grad)
    else:
        storage.index_add_(0, _places(grad, size, stride, storage_offset - start), grad.reshape((-1,)))
    if ends[1] - self_offset + start + 1 >= math.prod(self_shape):
        return storage.as_strided(self_shape, self_stride, self_offset - start)
    read = _places(grad, self_shape, self_stride, self_offset - start)
    ones = grad.new_ones(read.shape)
    shown = storage.new_zeros(storage.shape).index_add(0, read, ones).index_select(0, read)
    return (storage.index_select(0, read) / shown).reshape(self_shape)


def _as_strided_each(call: Call) -> Result:
    value, size, stride, offset, _, begin = call.values
    own = value.storage_offset()
    return call.run(value, (call.size, *size), (value.stride(0), *stride), own + offset - begin, value.stride(),
                    own), True


_as_strided_view = function_of(op(
   "_as_strided(Tensor(a) self, int[] size, int[] stride, int storage_offset, int[] self_stride, int self_offset) -> "
   "Tensor(a)",
   kernel=View(_as_strided, by_place=True), grad=dict(self=_as_strided_grad), public="", batch=_as_strided_each,
   aten=Aten(name="as_strided", values=lambda self, size, stride, offset, *own: (self, size, stride, offset))))


@composite("as_strided(Tensor(a) self, int[] size, SymInt[] stride, int? storage_offset=None) -> Tensor(a)",
           copied=True, inverse="as_strided_scatter",
           samples=cases(case(t(2, 3), (2, 2), (1, 1)), case(t(2, 3), (3,), (2,), 1), case(t(6), (0, 2), (1, 1)),
                         case(t(3, 2, layout="transposed"), (2, 2), (2, 1)),
                         error(RuntimeError, "mismatch in length of strides and shape", t(2, 3), (2, 2), (1,)),
                         error(RuntimeError, "setStorage: sizes [4, 4], strides [4, 1], storage offset 0, and "
                                             "itemsize", t(2, 3),
                               (4, 4), (4, 1))), sharded="whole")
def _as_strided_from(self, size, stride, storage_offset):
    begin = self.storage_offset()
    return _as_strided_view(self, size, stride, begin if storage_offset is None else storage_offset, self.stride(),
                            begin)


# other element types -------------------------------------------------------------------------------------------------


class Retyped(Family):
    """The same bytes as elements of another type; outside the graph, as in PyTorch."""

    is_view = True

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        def kernel(source: Tensor, kind: dtype) -> Tensor:
            made = source._detached()
            if bool(made._keys & INFERENCE_MASK) != modes.inference:  # unlike other views, it is of its own mode
                made._keys, made._counter = made._keys & ~INFERENCE_MASK, None
            shape, strides = retyped_geometry(source, kind)
            made._array = made._shared_storage().array(shape, kind.np, made._offset, strides)
            return made

        return dict.fromkeys(BACKENDS, kernel)


def retyped_geometry(self: Tensor, kind: dtype) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and byte strides of a tensor's bytes as elements of another size."""
    array = self._array
    shape, strides, old, new = array.shape, array.strides, array.itemsize, kind.itemsize
    if old == new:
        return shape, strides
    names = f"to view {self.dtype.scalar_name} as {kind.scalar_name} (different element sizes)"
    if not shape:
        raise RuntimeError(f"self.dim() cannot be 0 {names}")
    if old > new:
        if strides[-1] != old:
            raise RuntimeError(f"self.stride(-1) must be 1 {names}, but got {strides[-1] // old}")
        return (*shape[:-1], shape[-1] * (old // new)), (*strides[:-1], new)
    ratio = new // old
    if shape[-1] % ratio:
        raise RuntimeError(f"self.size(-1) must be divisible by {ratio} {names}, but got {shape[-1]}")
    if self._offset % new:
        raise RuntimeError(f"self.storage_offset() must be divisible by {ratio} {names}, but got {self._offset // old}")
    if strides[-1] != old:
        raise RuntimeError(f"self.stride(-1) must be 1 {names}, but got {strides[-1] // old}")
    for d, stride in enumerate(strides[:-1]):
        if stride % new:
            raise RuntimeError(f"self.stride({d}) must be divisible by {ratio} {names}, but got {stride // old}")
    return (*shape[:-1], shape[-1] // ratio), (*strides[:-1], new)


op("view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", kernel=Retyped(), public="Tensor", batch=in_front,
   inverse=lambda written, dtype: written.again("view.dtype", written.base.dtype), sharded="whole")


_PAIRS = {float16: complex32, float32: complex64, float64: complex128}


def _view_as_complex(self: Tensor) -> tuple:
    array = self._array
    kind = _PAIRS.get(self.dtype)
    if kind is None:
        raise RuntimeError("view_as_complex is only supported for half, float and double tensors, but got a tensor of "
                           f"scalar type: {self.dtype.scalar_name}")
    shape, strides, itemsize = array.shape, array.strides, array.itemsize
    if not shape:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if strides[-1] != itemsize:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % (2 * itemsize) for s in strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if self._offset % (2 * itemsize):
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return shape[:-1], strides[:-1], 0, kind.np


def _view_as_real(self: Tensor) -> tuple:
    array = self._array
    if self.dtype.category != COMPLEX:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return (*array.shape, 2), (*array.strides, array.itemsize // 2), 0, self.dtype.to_real().np


view_as_complex: Callable = function_of(op(
   "view_as_complex(Tensor(a) self) -> Tensor(a)", copied=True, inverse="view_as_real",
   kernel=View(_view_as_complex, by_place=True), grad=dict(self=lambda grad: view_as_real(grad)), public="torch",
   samples=cases(error(RuntimeError, "Tensor must have a last dimension of size 2", t(2, 3))), batch=in_front,
   autocast=dict(cpu="float32")))
view_as_real: Callable = function_of(op(
   "view_as_real(Tensor(a) self) -> Tensor(a)", copied=True, inverse="view_as_complex",
   kernel=view(_view_as_real), grad=dict(self=lambda grad: view_as_complex(grad.contiguous())), public="torch",
   samples=cases(error(RuntimeError, "view_as_real is only supported for complex tensors", t(2))), batch=in_front))


@composite("real(Tensor(a) self) -> Tensor(a)", public="torch", samples=cases(case(t(2, 3))),
    keeps_zero=True, linear=True)
def _real(self):
    if self.dtype.category != COMPLEX:
        return self
    return view_as_real(self._conj() if self.is_conj() else self).select(-1, 0)


@composite("imag(Tensor(a) self) -> Tensor(a)", public="torch",
           samples=cases(error(RuntimeError, "imag is not implemented for tensors with non-complex dtypes.", t(2, 3))))
def _imag(self):
    if self.dtype.category != COMPLEX:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    if self.is_conj():
        return view_as_real(self._conj()).select(-1, 1)._neg_view()
    return view_as_real(self).select(-1, 1)


_real_part, _imaginary_part = (function_of(registry.get(name)) for name in ("real", "imag"))


def _attach_part(name: str, part: Callable) -> None:
    """Makes a part of complex numbers a property that can be written to."""
    setattr(Tensor, name, property(part, lambda self, value: part(self).copy_(value)))


_attach_part("real", _real_part)
_attach_part("imag", _imaginary_part)

alias = function_of(op(
   "alias(Tensor(a) self) -> Tensor(a)", copied=True, inverse="alias",
   kernel=view(lambda self: (self._array.shape, self._array.strides, 0)),
   grad=dict(self=lambda grad: grad), public="", samples=cases(case(t(2, 3))), batch=in_front, sharded="kept"))


class _OnTensors(Family):
    """One function of tensors for all backends, below autograd; its results need no gradient."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        return dict.fromkeys(BACKENDS, self.function)


def _itself(written: Any) -> Tensor:
    return written.mutated


op("detach(Tensor(a) self) -> Tensor(a)", kernel=_OnTensors(Tensor._detached), public="", inverse=_itself,
   sharded="kept")
registry.get("aten::detach").declaration.public = Tensor.detach  # what handlers of functions are told
op("lift_fresh(Tensor(a) self) -> Tensor(a)", kernel=_OnTensors(lambda self: self), public="", inverse=_itself,
   sharded="kept")
op("lift(Tensor self) -> Tensor", kernel=_OnTensors(lambda self: self), public="", inverse=_itself)
op("lift_fresh_copy(Tensor self) -> Tensor", kernel=_OnTensors(lambda self: self._detached().clone()), public="")
op("_local_scalar_dense(Tensor self) -> Scalar", kernel=_OnTensors(Tensor.item), public="")


# geometry changed in place -------------------------------------------------------------------------------------------


def adopt(self: Tensor, shown: Tensor) -> Tensor:
    """Gives a tensor the geometry and the history of a view of itself, as an in-place operation."""
    self._array, self._offset = shown._array, shown._offset
    if self._pending:
        self._array.held_by(self)
    self._bump_version()
    if shown._edge is not None:
        self._edge = shown._edge
    if shown._tangent is not None:
        self._tangent = shown._tangent
    if self._base is not None:
        self._view_step = shown._view_step
    else:
        self._restrided = True
    if shown._edge is not None:
        self._edge_version = self._version_counter.value
    return self


def _in_place(schema: str, method: str, node: str, aliases: Sequence[str] = (), check: Callable | None = None,
              kernels: Mapping[str, str] | None = None) -> None:
    """Declares the in-place form of a view, with a node of its own; `check(self)` raises."""

    def function(self: Tensor, *args: Any) -> Tensor:
        if modes.grad_enabled and self.requires_grad:
            check_inplace(self)
        if check is not None:
            check(self)
        return adopt(self, getattr(self, method)(*args))

    composite(schema, public="Tensor", aliases=aliases, aten=LEAF, kernels=kernels, node=node)(function)


def _check_t(self: Tensor) -> None:
    if self._array.ndim > 2:
        raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {self._array.ndim}D")


_in_place("squeeze_(Tensor(a!) self) -> Tensor(a!)", "squeeze", "SqueezeBackward3")
_in_place("squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)", "squeeze", "SqueezeBackward4")
_in_place("squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)", "squeeze", "SqueezeBackward5")
_in_place("unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)", "unsqueeze", "UnsqueezeBackward1")
_in_place("transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", "transpose", "TransposeBackward1",
          ("swapaxes_", "swapdims_"),
          kernels={"sparse_coo": "rearrange.transposed_", "sparse_compressed": "rearrange.refuse_transposed_"})
_in_place("t_(Tensor(a!) self) -> Tensor(a!)", "t", "TBackward1", check=_check_t,
          kernels={"sparse_coo": "rearrange.matrix_transposed_", "sparse_compressed": "rearrange.refuse_transposed_"})
_in_place("as_strided_(Tensor(a!) self, int[] size, SymInt[] stride, int? storage_offset=None) -> Tensor(a!)",
          "as_strided", "AsStridedBackward1")


def _as_strided_scatter(self: Any, src: Any, size: Any, stride: Any, storage_offset: int | None) -> Tensor:
    with changed_modes(grad_enabled=False):
        made = self.clone()
        written = made.as_strided(size, stride, storage_offset)
        if written.shape != src.shape:
            raise RuntimeError("expected src to have a size equal to the slice of self. src size = "
                               f"{shape_text(src.shape)}, slice size = {shape_text(size)}")
        written.copy_(src)
    return made


def _scattered_over_grad(grad: Any, size: Any, stride: Any, storage_offset: int | None) -> Tensor:
    """PyTorch's answer, not the derivative: it hands on exactly the places that were written over."""
    written = grad.contiguous().as_strided(size, stride, storage_offset)
    return grad.new_zeros(grad.shape).as_strided_scatter(written, size, stride, storage_offset)


op("as_strided_scatter(Tensor self, Tensor src, int[] size, SymInt[] stride, int? storage_offset=None) -> Tensor",
   kernel=Composite(_as_strided_scatter),
   grad=dict(self=_scattered_over_grad,
             src=lambda grad, size, stride, storage_offset: grad.contiguous().as_strided(size, stride, storage_offset)),
   samples=cases(case(t(2, 3, grad=False), t(2, 2), (2, 2), (2, 1))), linear=True, out=None, aten=LEAF)


# views as copies -----------------------------------------------------------------------------------------------------


def _declare_copy(operator: Operator, kernels: Mapping[str, str] | None) -> None:
    """Declares the form of a view operator whose results have memory of their own."""
    shown, base, overload = function_of(operator), operator.schema.base_name, operator.schema.overload
    text = re.sub(r"\((a|a -> \*)\)", "", operator.schema.text.partition("(")[2])

    def copied(*args: Any) -> Any:
        result = shown(*args[: len(operator.schema.positional)])
        if isinstance(result, tuple):
            return tuple([part.clone() for part in result])
        return result.clone(memory_format=contiguous_format)

    composite(f"{base}_copy{'.' + overload if overload else ''}({text}", public="torch", out=EXACT,
              node=f"{operator.declaration.node or name_by_operator(base)}_copy",
              aligned="self" if "[]" in text.rpartition("->")[2] else None,
              kernels=kernels,
              aten=operator.declaration.aten._replace(leaf=True))(copied)


for _declaration in [declaration for declaration in DECLARATIONS.values() if declaration.copied]:
    _declare_copy(_declaration.operator, _declaration.copied if isinstance(_declaration.copied, Mapping) else None)
