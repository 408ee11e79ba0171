"""Sparse tensors: parts, conversions, arithmetic and rearrangement.

A kernel that is `composed` is written as other operators on indices and values, and has their derivative. All others
see tensors as arrays, below recording, and the operator's own formulas are applied.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from .._device import CPU, layout, sparse_bsc, sparse_bsr, sparse_coo, strided
from .._dispatch.callers import call_bound
from .._dispatch.keys import COO_MASK, DispatchKey
from .._dispatch.registry import Operator, PerOperator, registry
from .._dispatch.schema import NUMBERS
from .._dtype import dtype, get_default_dtype, int64
from .._sparse import (
    COMPRESSED,
    LAYOUT_NAMES,
    SparseArray,
    compress,
    compressed_of,
    coo,
    coo_of,
    empty_sparse,
    flattened,
    is_sparse,
    wrap_sparse,
)
from .._tensor import Tensor, wrap, wrapped_dim
from .create import sparse_factories
from .declare import function_of, op
from .families import Family
from .rules import Spec, broadcast_shape, check_result_fits, common_dtype, shape_text

cat, zeros = (function_of(registry.get(name)) for name in ("cat", "zeros"))

# dispatch ------------------------------------------------------------------------------------------------------------

_LAYOUT_KEYS = (DispatchKey.SparseCPU, DispatchKey.SparseCsrCPU)


def refuse_backend(name: str, backend: str, *args: Any) -> NoReturn:
    layouts = {v.layout for a in args for v in (a if a.__class__ in (tuple, list) else (a,)) if hasattr(v, "_keys")}
    raise NotImplementedError(f"Could not run '{name}' with arguments from the '{backend}' backend: there is no kernel "
                              f"for layout {', '.join(sorted(map(str, layouts)))}.")


def refusal(operator: Operator, backend: str) -> Callable:
    """The kernel of an operator that a layout does not have."""
    return lambda *args: refuse_backend(operator.name, backend, *args)


for _key in _LAYOUT_KEYS:
    registry.register_for_all(_key, PerOperator(lambda operator, name=_key.name: refusal(operator, name)))


class Layouts(Family):
    """Kernels by layout, each given the call's arguments; a layout without one is refused."""

    changes_layout = True

    def __init__(self, coo: Callable | None = None, compressed: Callable | None = None,
                 dense: Callable | None = None) -> None:
        self.by_key = {DispatchKey.CPU: dense, DispatchKey.SparseCPU: coo, DispatchKey.SparseCsrCPU: compressed}

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        keys = (DispatchKey.CPU, DispatchKey.Meta, DispatchKey.NPU, *_LAYOUT_KEYS)
        return {key: self.by_key.get(key) or refusal(operator, key.name) for key in keys}


def composed(function: Callable) -> Callable:
    """Marks a kernel whose parts are recorded in its stead."""
    function.composed = True  # type: ignore[attr-defined]
    return function


def serves(name: str, coo: Callable | None = None, compressed: Callable | None = None) -> None:
    """Registers kernels of an operator for sparse layouts; its in-place form goes through them."""
    for key, kernel in zip(_LAYOUT_KEYS, (coo, compressed), strict=True):
        if kernel is not None:
            registry.register_kernel(name, key, kernel)
            declaration = registry.get(name).declaration
            if declaration.inplace is not None:
                registry.register_kernel(declaration.inplace.name, key, _in_place(kernel))


def _in_place(kernel: Callable) -> Callable:
    def write(target: Tensor, *args: Any) -> Tensor:
        result = kernel(plain(target), *map(plain, args))
        check_result_fits(target, Spec(result._array.shape, result.dtype))
        result = result.to(target.dtype)
        if is_sparse(target):
            target._array = result._array
        else:
            np.copyto(target._array, dense_array(result))
        target._bump_version()
        return target

    return write


def plain(value: Any) -> Any:
    """A tensor outside the graph."""
    return value.detach() if hasattr(value, "_keys") else value


def refuse_layout(name: str, wanted: str, tensor: Tensor) -> NoReturn:
    found = LAYOUT_NAMES.get(tensor.layout, "Strided")
    raise RuntimeError(f"{name} expected {wanted} tensor layout but got {found}")


# parts ---------------------------------------------------------------------------------------------------------------


def _checked_values(self: Tensor) -> Tensor:
    return self._array.values._detached()


_VALUES = op("values(Tensor(a) self) -> Tensor(a)", public="",
   kernel=Layouts(_checked_values, _checked_values),
   grad=dict(self=lambda grad, self: rebuilt(self, grad)))


def values_of(self: Tensor) -> Tensor:
    """The values, also of a tensor that is not coalesced, with their history."""
    return call_bound(_VALUES, (self,))


def indices_of(self: Tensor) -> Tensor:
    """The indices of any sparse layout as (dims, elements)."""
    array = self._array
    return array.parts[0] if array.layout is sparse_coo else wrap(array.places())


def rebuilt(pattern: Tensor, values: Tensor) -> Tensor:
    """A tensor with the indices of a sparse one and other values, which may have other dense dimensions."""
    array = pattern._array
    size = (*array.shape[: array.batch + array.sparse_dim], *values._array.shape[array.batch + 1 :])
    if array.layout is sparse_coo:
        return call_bound(_COO, (array.sparse_dim, values._array.ndim - 1, size, array.parts[0], values,
                                 array.coalesced))
    return call_bound(_COMPRESSED, (*array.parts, values, size, array.layout))


def _places_of_parts(starts: Tensor, plain_indices: Tensor, size: Sequence[int], kind: layout) -> Tensor:
    return wrap(SparseArray(kind, (starts, plain_indices), plain_indices, size).places())


_COO = op("_sparse_coo_tensor_with_dims_and_tensors(int sparse_dim, int dense_dim, int[] size, Tensor indices, Tensor "
          "values, bool is_coalesced=False) -> Tensor", public="",
   kernel=Layouts(dense=lambda sparse_dim, dense_dim, size, indices, values, is_coalesced:
                  coo(indices, values.detach(), size, is_coalesced)),
   grad=dict(values=lambda grad, indices: values_at(grad, indices)))
_COMPRESSED = op("_sparse_compressed_tensor(Tensor compressed_indices, Tensor plain_indices, Tensor values, int[] size, "
                 "Layout layout) -> Tensor", public="",
   kernel=Layouts(dense=lambda compressed_indices, plain_indices, values, size, layout: wrap_sparse(
       SparseArray(layout, (compressed_indices, plain_indices), values.detach(), size))),
   grad=dict(values=lambda grad, compressed_indices, plain_indices, values_shape, size, layout: values_at(
       grad, _places_of_parts(compressed_indices, plain_indices, size, layout)).reshape(values_shape)))


def _looked_up(self: Tensor, indices: Tensor) -> Tensor:
    """Elements of a sparse tensor at (dims, elements), zero where it has none."""
    array = coo_of(self._array).summed()
    rows, wanted = array.values._array, indices._array[: array.sparse_dim]
    inside = tuple(indices._array[array.sparse_dim :])
    known, asked = array.flat_places(), flattened(wanted, array.shape)
    if not len(known):
        return wrap(np.zeros((len(asked), *array.shape[len(indices._array) :]), rows.dtype))
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    found = rows[(at, *inside)]
    found[known[at] != asked] = 0
    return wrap(found)


_VALUES_AT = op("_sparse_values_at(Tensor self, Tensor indices) -> Tensor", public="",
   kernel=Layouts(_looked_up, _looked_up, lambda self, indices: wrap(self._array[tuple(indices._array)])),
   grad=dict(self=lambda grad, self, indices: _as_layout(
       call_bound(_COO, (len(indices), grad.dim() - 1, self.shape, indices, grad, False)), self)))


def values_at(self: Tensor, indices: Tensor) -> Tensor:
    """The elements of a tensor of any layout at (dims, elements)."""
    return call_bound(_VALUES_AT, (self, indices))


def _coalesced(self: Tensor) -> Tensor:
    return self if self._array.coalesced else wrap_sparse(self._array.summed())


_COALESCE = op("_coalesce(Tensor self) -> Tensor", public="", grad=dict(self=lambda grad: grad),
               kernel=Layouts(_coalesced))


def coalesce(self: Tensor) -> Tensor:
    """The tensor with sorted indices, each once; itself if it is so."""
    if self.layout is not sparse_coo:
        refuse_layout("coalesce", "sparse coordinate", self)
    return self if self._array.coalesced else call_bound(_COALESCE, (self,))


# conversions ---------------------------------------------------------------------------------------------------------


def dense_array(self: Tensor) -> np.ndarray:
    """The elements of a sparse tensor as an ndarray."""
    array = coo_of(self._array).summed()
    dims = array.sparse_dim
    made = np.zeros((math.prod(array.shape[:dims]), *array.shape[dims:]), array.dtype)
    made[array.flat_places()] = array.values._array
    return made.reshape(array.shape)


def _to_dense_grad(grad: Tensor, self: Tensor, masked_grad: bool | None) -> Tensor:
    if masked_grad is not False:
        return grad.sparse_mask(coalesce(self) if self.layout is sparse_coo else self)
    return to_sparse(grad, self._array.sparse_dim) if self.layout is sparse_coo else to_sparse(grad, layout=self.layout)


_TO_DENSE = op("_to_dense(Tensor self, *, bool? masked_grad=None) -> Tensor", public="",
   kernel=Layouts(*[lambda self, masked_grad: wrap(dense_array(self))] * 2),
   grad=dict(self=_to_dense_grad))


def to_dense(self: Tensor, dtype: dtype | None = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor in strided layout; itself if it is."""
    if not is_sparse(self):
        return self if dtype is None else self.to(dtype)
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return call_bound(_TO_DENSE, (self, masked_grad))


def _as_layout(grad: Tensor, like: Tensor) -> Tensor:
    """A gradient in the layout of what it is the gradient of."""
    if grad.layout is like.layout:
        return grad
    return to_dense(grad) if like.layout is strided else to_sparse(grad, layout=like.layout)


def _from_dense(self: Tensor, layout: layout, sparse_dim: int | None, dense_dim: int | None) -> Tensor:
    array, ndim = self._array, self.dim()
    name = f"dense_to_{layout._name}" if layout in COMPRESSED else "dense_to_sparse"
    if layout is sparse_coo:
        dims = ndim if sparse_dim is None else sparse_dim
        if not 0 <= dims <= ndim:
            raise RuntimeError(f"{name}: sparse_dim argument must be in [0,{ndim}] range, but {dims} is given")
        if ndim and not dims:
            raise RuntimeError(f"{name}: sparse_dim argument must be in >0 when self.dim()>0")
        batch = 0
    else:
        batch = ndim - 2 - (dense_dim or 0)
        if ndim < 2 or batch < 0:
            raise RuntimeError(f"{name}: dense_dim argument must be in [0,{ndim - 2}] range, but {dense_dim or 0} is "
                               "given")
        dims = batch + 2
    filled = (array != 0).any(tuple(range(dims, ndim)))
    if layout is sparse_coo:
        places = np.stack(filled.nonzero()) if dims else np.empty((0, int(filled)), np.int64)
        return coo(wrap(places), wrap(array[tuple(places)] if dims else array[None][: int(filled)]), array.shape, True)
    places = np.stack(filled.nonzero())
    made = SparseArray(sparse_coo, (wrap(places),), wrap(array[tuple(places)]), array.shape, True)
    return wrap_sparse(_compressed_batches(made, layout, batch))


def _compressed_batches(array: SparseArray, kind: layout, batch: int) -> SparseArray:
    """A COO array whose leading dimensions are batches, compressed."""
    if not batch:
        return compressed_of(array, kind)
    places, shape = array.parts[0]._array, array.shape
    if kind is not COMPRESSED[0]:
        swapped = [*range(batch), batch + 1, batch]
        order = np.argsort(flattened(places[swapped], [shape[d] for d in swapped]), kind="stable")
        return compress(places[:, order], array.values._array[order], shape, kind, batch)
    return compress(places, array.values._array, shape, kind, batch)


def _from_sparse(self: Tensor, layout: layout, sparse_dim: int | None, dense_dim: int | None) -> Tensor:
    array = self._array
    if layout is not sparse_coo:
        return wrap_sparse(compressed_of(array, layout))
    return wrap_sparse(coo_of(array))


_TO_SPARSE = op("_to_sparse(Tensor self, Layout layout, int? sparse_dim=None, int? dense_dim=None) -> Tensor", public="",
   kernel=Layouts(_from_sparse, _from_sparse, _from_dense),
   grad=dict(self=lambda grad, self: _as_layout(grad, self)))


def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: layout | None = None,
              blocksize: tuple[int, int] | None = None, dense_dim: int | None = None) -> Tensor:
    """The tensor in a sparse layout, COO unless told; itself if it is."""
    wanted = layout or sparse_coo
    source = LAYOUT_NAMES.get(self.layout, "Strided")
    if sparse_dim is not None and layout is not None:
        raise TypeError("to_sparse() takes 0 positional arguments but 1 was given")
    if wanted in (sparse_bsr, sparse_bsc):
        raise NotImplementedError(f"to_sparse: there are no tensors of layout {wanted} here")
    if blocksize is not None:
        raise RuntimeError(f"dense_to_sparse: conversion from {source} to {LAYOUT_NAMES[wanted]} with blocksize argument "
                           "given is not supported")
    if wanted is strided:
        return to_dense(self)
    if wanted not in LAYOUT_NAMES:
        raise RuntimeError(f"dense_to_sparse: unexpected source layout {source}")
    if sparse_dim is not None and is_sparse(self) and sparse_dim != self._array.sparse_dim:
        if self.layout is sparse_coo:
            raise RuntimeError("to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() "
                               "is not supported")
        raise RuntimeError(f"sparse_compressed_to_sparse: conversion from {source} to Sparse with sparse_dim argument "
                           "!=2 is not supported")
    return self if self.layout is wanted else call_bound(_TO_SPARSE, (self, wanted, sparse_dim, dense_dim))


@composed
def _sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    if not is_sparse(mask):
        refusal(registry.get("sparse_mask"), "CPU")(self, mask)
    if self._array.shape != mask._array.shape:
        raise RuntimeError(f"sparse_mask(): operands have incompatible sizes; self has size {shape_text(self.shape)} but "
                           f"mask has size {shape_text(mask.shape)}")
    if is_sparse(self) and not self._array.coalesced and self._array.parts[0] is mask._array.parts[0]:
        return self  # the same indices, each as often
    array = mask._array
    found = values_at(self, indices_of(mask))
    return rebuilt(mask, found.reshape(array.values._array.shape[: array.batch + 1] + tuple(found.shape[1:])))


op("sparse_mask(Tensor self, Tensor mask) -> Tensor", public="Tensor",
   kernel=Layouts(_sparse_mask, _sparse_mask, _sparse_mask))

# copies --------------------------------------------------------------------------------------------------------------


def _copied(self: Tensor, kind: dtype | None, where: Any) -> Tensor:
    if where is not None and where != CPU:
        raise NotImplementedError(f"sparse tensors live on the CPU only, not on {where}")
    array = self._array
    values = array.values.clone() if kind is None else array.values.to(kind, copy=True)
    return wrap_sparse(SparseArray(array.layout, tuple(p.clone() for p in array.parts), values, array.shape,
                                   array.coalesced))


def _cleared(self: Tensor) -> Tensor:
    array = self._array
    self._array = empty_sparse(array.layout, array.shape, array.values, array.sparse_dim)._array
    self._bump_version()
    return self


def _stored(self: Tensor, src: Any, non_blocking: bool) -> Tensor:
    if not is_sparse(src) or src.layout is not self.layout:
        raise RuntimeError("copy_() between dense and sparse Tensors is not implemented! Found self type = "
                           f"{self.type()} and src type = {src.type()}")
    self._array = _copied(src, self.dtype, None)._array
    self._bump_version()
    return self


def _empty_like(self: Tensor, dtype: dtype | None, layout: layout | None, device: Any, pin_memory: Any,
                requires_grad: bool, *rest: Any) -> Tensor:
    like = self._array.values if dtype is None else self._array.values.to(dtype)
    if layout is strided:
        return zeros(self.shape, dtype=like.dtype, device=device, requires_grad=requires_grad)
    dims = self._array.sparse_dim if layout in (None, self.layout) else None
    made = empty_sparse(layout or self.layout, self._array.shape, like, dims)
    return made.requires_grad_() if requires_grad else made


def _new_empty(self: Tensor, size: Sequence[int], *options: Any) -> Tensor:
    return _empty_like(empty_sparse(options[1] or self.layout, size, self._array.values), *options)


sparse_factories["aten::zeros"] = sparse_factories["aten::empty"] = (
    lambda size, dtype, layout, *options: _empty_like(
        empty_sparse(layout, size, wrap(np.empty(0, (dtype or get_default_dtype()).np))), dtype, layout, *options))
for _name, _kernel in {"clone": lambda self, memory_format: _copied(self, None, None),
                       "_to_copy": lambda self, dtype, device, *rest: _copied(self, dtype, device),
                       "zero_": _cleared, "copy_": _stored, "zeros_like": _empty_like, "empty_like": _empty_like,
                       "new_zeros": _new_empty, "new_empty": _new_empty}.items():
    serves(_name, _kernel, _kernel)

# elementwise ---------------------------------------------------------------------------------------------------------

_ZERO_STAYS_ZERO = """
    abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf log1p nan_to_num
    rad2deg relu round sgn sign signbit sin sinh sqrt square tan tanh trunc conj_physical positive real
""".split()


def _on_values(name: str, *, linear: bool) -> Callable:
    """Applies an operator to the values, those of one place summed first unless it is `linear`."""
    operator = registry.get(name)

    @composed
    def kernel(self: Tensor, *args: Any) -> Tensor:
        if not linear and self.layout is sparse_coo:
            self = coalesce(self)
        return rebuilt(self, call_bound(operator, (values_of(self), *args)))

    return kernel


for _name in _ZERO_STAYS_ZERO:
    serves(_name, *[_on_values(_name, linear=_name in ("conj_physical", "positive", "real"))] * 2)
serves("neg", *[_on_values("neg", linear=True)] * 2)


def _is_number(value: Any) -> bool:
    return value.__class__ in NUMBERS or not (is_sparse(value) or value._array.ndim)


def _same_sizes(self: Tensor, other: Tensor) -> None:
    if self._array.shape != other._array.shape:
        raise RuntimeError("add: expected sizes of 'self' and 'other' to match, but "
                           f"{shape_text(self.shape)} != {shape_text(other.shape)}")


def _add(self: Any, other: Any, alpha: Any) -> Tensor:
    if is_sparse(self) and not is_sparse(other) and self.layout is sparse_coo:
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    self, other = plain(self), plain(other)
    kind = common_dtype([self, other])
    if not is_sparse(self) or not is_sparse(other):
        dense, sparse = (other, self) if is_sparse(self) else (self, other)
        _check_dense_operand(dense, sparse)
        if is_sparse(self):  # dense + compressed counts either way round
            return _add_to_dense((dense if alpha == 1 else dense * alpha).to(kind, copy=True), sparse, 1)
        return _add_to_dense(dense.to(kind, copy=True), sparse, alpha)
    _same_sizes(self, other)
    first, second = (a if a.layout is sparse_coo else wrap_sparse(coo_of(a._array)) for a in (self, other))
    if first._array.sparse_dim != second._array.sparse_dim:
        raise RuntimeError("add: expected 'self' and 'other' to have same number of sparse dimensions, but got "
                           f"{first._array.sparse_dim} and {second._array.sparse_dim}")
    added = (second._array.values if alpha == 1 else second._array.values * alpha).to(kind)
    here = first._array.values.to(kind)
    indices, more = (t._array.parts[0]._array for t in (first, second))
    if indices.shape == more.shape and (indices == more).all():
        made = coo(first._array.parts[0].clone(), here + added, self.shape,
                   first._array.coalesced and second._array.coalesced)
    else:
        made = coo(wrap(np.concatenate((indices, more), axis=1)), cat((here, added)), self.shape)
        if first._array.coalesced and second._array.coalesced:
            made = coalesce(made)
    return made if self.layout is sparse_coo else wrap_sparse(compressed_of(made._array, self.layout))


def _check_dense_operand(dense: Any, sparse: Tensor) -> None:
    size = () if dense.__class__ in NUMBERS else dense._array.shape
    if dense.__class__ in NUMBERS or size != sparse._array.shape:
        word = "dense" if sparse.layout is sparse_coo else "op2"
        raise RuntimeError("add: expected 'self' and 'other' to have same size, but self has size "
                           f"{shape_text(size)} while other has size {shape_text(sparse.shape)} (FYI: {word}-sparse "
                           "addition does not currently support broadcasting)")


def _add_to_dense(target: Tensor, sparse: Tensor, alpha: Any) -> Tensor:
    """`target` with a sparse tensor of its size added in place."""
    array = coo_of(sparse._array).summed()
    addend = array.values if alpha == 1 else array.values * alpha
    places = tuple(array.places()) or ...
    target._array[places] += addend._array.reshape(target._array[places].shape).astype(target._array.dtype, copy=False)
    return target


def _add_in_place(target: Tensor, other: Any, alpha: Any) -> Tensor:
    if is_sparse(target):
        return _in_place(_add)(target, other, alpha)
    other = plain(other)
    _check_dense_operand(target, other)
    check_result_fits(target, Spec(target._array.shape, common_dtype([target, other])))
    _add_to_dense(target, other, alpha)
    target._bump_version()
    return target


serves("add", _add, _add)
serves("sub", *[lambda self, other, alpha: _add(self, other, -alpha)] * 2)
for _key in _LAYOUT_KEYS:
    registry.register_kernel("add_", _key, _add_in_place)
    registry.register_kernel("sub_", _key, lambda self, other, alpha: _add_in_place(self, other, -alpha))


@composed
def _mul(self: Any, other: Any) -> Tensor:
    if _is_number(self) or _is_number(other):
        sparse = other if _is_number(self) else self
        values = values_of(sparse)
        return rebuilt(sparse, values * other if sparse is self else self * values)
    if is_sparse(self) and is_sparse(other):
        if self.layout is sparse_coo is other.layout:
            return _mul_sparse(self, other)
        return to_sparse(_mul_sparse(to_sparse(self), to_sparse(other)), layout=self.layout)
    sparse, dense = (self, other) if is_sparse(self) else (other, self)
    shape = sparse._array.shape
    if sparse.layout is not sparse_coo and dense._array.shape != shape:
        raise RuntimeError("sparse_mask(): operands have incompatible sizes; self has size "
                           f"{shape_text(dense.shape)} but mask has size {shape_text(shape)}")
    if broadcast_shape([dense._array.shape, shape]) != shape:
        raise NotImplementedError(f"mul: a sparse tensor of size {shape_text(shape)} is not broadcast to the size of a "
                                  f"dense one, {shape_text(dense.shape)}")
    values = values_of(sparse)
    factor = values_at(dense.expand(shape), indices_of(sparse)).reshape(values.shape)
    return rebuilt(sparse, values * factor if sparse is self else factor * values)


def _mul_sparse(self: Tensor, other: Tensor) -> Tensor:
    if self._array.shape != other._array.shape or self._array.sparse_dim != other._array.sparse_dim:
        raise NotImplementedError("mul: sparse tensors of different sizes are not broadcast, got "
                                  f"{shape_text(self.shape)} and {shape_text(other.shape)}")
    other = coalesce(other)
    known, asked = other._array.flat_places(), self._array.flat_places()
    at = np.searchsorted(known, asked)
    kept = np.flatnonzero(known[np.minimum(at, len(known) - 1)] == asked) if len(known) else at[:0]
    values = values_of(self).index_select(0, wrap(kept)) * values_of(other).index_select(0, wrap(at[kept]))
    return from_parts(self._array.parts[0]._array[:, kept], values, self.shape, self._array.coalesced)


def from_parts(indices: np.ndarray, values: Tensor, size: Sequence[int], coalesced: bool = False) -> Tensor:
    """A COO tensor with the history of its values."""
    indices = wrap(np.ascontiguousarray(indices, np.int64))
    return call_bound(_COO, (len(indices), values.dim() - 1, tuple(size), indices, values,
                             coalesced or indices.size(1) < 2))


@composed
def _div(self: Any, other: Any, rounding_mode: str | None = None) -> Tensor:
    if not is_sparse(self) or not _is_number(other):
        raise RuntimeError("Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
                           f"{shape_text(other.shape)} for divisor)")
    if rounding_mode is not None and self.layout is sparse_coo:
        self = coalesce(self)
    return rebuilt(self, values_of(self).div(other, rounding_mode=rounding_mode))


@composed
def _pow(self: Any, exponent: Any) -> Tensor:
    if exponent.__class__ not in NUMBERS:
        refusal(registry.get("pow"), "SparseCPU")(self, exponent)
    if exponent == 0:
        raise RuntimeError("pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense")
    return _on_values("pow", linear=False)(self, exponent)


serves("mul", _mul, _mul)
serves("div", _div, _div)
serves("floor_divide", composed(lambda self, other: _div(self, other, "floor")))
serves("pow", _pow)

# reductions ----------------------------------------------------------------------------------------------------------


def sum_over(self: Tensor, dim: Any, keepdim: bool, dtype: dtype | None) -> Tensor:
    """The sum over dimensions of a COO tensor, sparse as long as a sparse dimension is left; differentiable."""
    self = coalesce(self)
    array, ndim = self._array, self.dim()
    summed = {wrapped_dim(d, ndim) for d in (range(ndim) if dim is None or dim == () else dim)}
    inner = [d - array.sparse_dim + 1 for d in sorted(summed) if d >= array.sparse_dim]
    values = values_of(self)
    values = values.sum(inner, keepdim=keepdim, dtype=dtype) if inner else values.to(dtype or values.dtype)
    left = [d for d in range(array.sparse_dim) if d not in summed]
    shape = [1 if d in summed else n for d, n in enumerate(array.shape) if keepdim or d not in summed]
    if not left:
        total = values.sum(0, dtype=dtype)
        return total.reshape(shape) if keepdim else total
    places = array.parts[0]._array
    if keepdim:
        places = np.where(np.isin(np.arange(len(places)), left)[:, None], places, 0)
    return coalesce(from_parts(places if keepdim else places[left], values, shape))


def _sum(self: Tensor, dim: Any, keepdim: bool, dtype: dtype | None) -> Tensor:
    kind = dtype or (self.dtype if self.dtype.category > 1 else int64)
    if dim is None:
        return self._array.values.sum(dtype=kind)
    return sum_over(plain(self).to(kind), dim, keepdim, None)


def _sum_compressed(self: Tensor, dim: Any, keepdim: bool, dtype: dtype | None) -> Tensor:
    if dim is None:
        return self._array.values.sum(dtype=dtype)
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    made = _sum(wrap_sparse(coo_of(self._array)), dim, keepdim, dtype)
    return to_sparse(made, layout=self.layout)


serves("sum", _sum, _sum_compressed)
serves("any", lambda self, dim, keepdim: self._array.values.any() if dim is None
       else refusal(registry.get("any"), "SparseCPU")(self))
serves("norm", composed(lambda self, p, dim, keepdim, dtype: values_of(coalesce(self)).norm(p, dtype=dtype)
                        if dim is None else refusal(registry.get("norm"), "SparseCPU")(self)))

# rearrangement -------------------------------------------------------------------------------------------------------


def _permuted(self: Tensor, dims: Sequence[int]) -> Tensor:
    array, ndim = self._array, self.dim()
    dims = [wrapped_dim(d, ndim) for d in dims]
    split = array.sparse_dim
    if len(dims) != ndim:
        raise RuntimeError("permute(sparse_coo): number of dimensions in the tensor input does not match the length of "
                           f"the desired ordering of dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = "
                           f"{len(dims)}")
    if any(d >= split for d in dims[:split]):
        raise RuntimeError("permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed."
                           "Only transpositions within sparse and dense dimensions are supported.")
    values = array.values.permute((0, *[d - split + 1 for d in dims[split:]]))
    return coo(wrap(array.parts[0]._array[dims[:split]]), values, [array.shape[d] for d in dims],
               array.coalesced and dims[:split] == list(range(split)))


def _transposed(self: Tensor, dim0: int, dim1: int) -> Tensor:
    array, ndim = self._array, self.dim()
    first, second = (wrapped_dim(d, ndim) for d in (dim0, dim1))
    if max(first, second) >= array.sparse_dim and first != second:
        raise RuntimeError(f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {array.sparse_dim}, "
                           f"d0: {first}, d1: {second}")
    order = list(range(ndim))
    order[first], order[second] = second, first
    return _permuted(self, order)


def _t(self: Tensor) -> Tensor:
    array = self._array
    if array.sparse_dim > 2 or array.dense_dim:
        raise RuntimeError("t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got "
                           f"{array.sparse_dim} sparse and {array.dense_dim} dense dimensions")
    return _permuted(self, (1, 0) if self.dim() == 2 else range(self.dim()))


def _transposed_compressed(self: Tensor, dim0: int = 0, dim1: int = 1) -> Tensor:
    array, ndim = self._array, self.dim()
    first, second = sorted(wrapped_dim(d, ndim) for d in (dim0, dim1))
    if (first, second) != (array.batch, array.batch + 1):
        raise NotImplementedError(f"transpose: a tensor of layout {array.layout} exchanges its two sparse dimensions only")
    shape = list(array.shape)
    shape[first], shape[second] = shape[second], shape[first]
    other = COMPRESSED[1 - COMPRESSED.index(array.layout)]
    return wrap_sparse(SparseArray(other, array.parts, array.values, shape))


serves("permute", _permuted)
serves("transpose", _transposed, _transposed_compressed)
serves("t", _t, _transposed_compressed)


@composed
def _unsqueezed(self: Tensor, dim: int) -> Tensor:
    array = self._array
    dim = wrapped_dim(dim, self.dim() + 1)
    shape = (*array.shape[:dim], 1, *array.shape[dim:])
    places = array.parts[0]._array
    if dim <= array.sparse_dim:
        return from_parts(np.insert(places, dim, 0, axis=0), values_of(self), shape)
    return from_parts(places, values_of(self).unsqueeze(dim - array.sparse_dim + 1), shape)


@composed
def _index_selected(self: Tensor, dim: int, index: Tensor) -> Tensor:
    array, dim = self._array, wrapped_dim(dim, self.dim())
    shape = (*array.shape[:dim], index.numel(), *array.shape[dim + 1 :])
    places = array.parts[0]._array
    if dim >= array.sparse_dim:
        return from_parts(places, values_of(self).index_select(dim - array.sparse_dim + 1, index), shape)
    wanted = index._array.reshape(-1)
    wrong = wanted[(wanted < -array.shape[dim]) | (wanted >= array.shape[dim])]
    if wrong.size:
        raise IndexError(f"index_select(): index contains {wrong[0]} that is out of range for tensor of size "
                         f"{shape_text(array.shape)} at dimension {dim}")
    order = np.argsort(places[dim], kind="stable")
    along, wanted = places[dim][order], wanted % max(array.shape[dim], 1)
    begin, end = np.searchsorted(along, wanted), np.searchsorted(along, wanted, "right")
    counts = end - begin
    taken = order[np.arange(counts.sum()) + np.repeat(begin - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)]
    found = places[:, taken]
    found[dim] = np.repeat(np.arange(len(wanted)), counts)
    return from_parts(found, values_of(self).index_select(0, wrap(taken)), shape)


@composed
def _selected(self: Tensor, dim: int, index: int) -> Tensor:
    array, ndim = self._array, self.dim()
    if not ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrapped_dim(dim, ndim)
    if not -array.shape[dim] <= index < array.shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {shape_text(array.shape)} at "
                         f"dimension {dim}")
    shape = (*array.shape[:dim], *array.shape[dim + 1 :])
    places = array.parts[0]._array
    if dim >= array.sparse_dim:
        return from_parts(places, values_of(self).select(dim - array.sparse_dim + 1, index), shape)
    kept = np.flatnonzero(places[dim] == index % array.shape[dim])
    values = values_of(self).index_select(0, wrap(kept))
    if array.sparse_dim == 1:
        return values.sum(0, dtype=values.dtype)
    return from_parts(np.delete(places, dim, axis=0)[:, kept], values, shape, array.coalesced)


@composed
def _narrowed(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    array, dim = self._array, wrapped_dim(dim, self.dim())
    if dim >= array.sparse_dim:
        return rebuilt(self, values_of(self).narrow_copy(dim - array.sparse_dim + 1, start, length))
    places = array.parts[0]._array
    kept = np.flatnonzero((places[dim] >= start) & (places[dim] < start + length))
    found = places[:, kept]
    found[dim] -= start
    return from_parts(found, values_of(self).index_select(0, wrap(kept)),
                       (*array.shape[:dim], length, *array.shape[dim + 1 :]), array.coalesced)


@composed
def _joined(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    for position, tensor in enumerate(tensors):
        if not tensor._keys & COO_MASK:
            raise RuntimeError(f"Concatenating sparse tensors, but a dense tensor was found at position {position}.")
    first = tensors[0]._array
    dim = wrapped_dim(dim, first.ndim)
    for position, tensor in enumerate(tensors):
        array = tensor._array
        if array.sparse_dim != first.sparse_dim or any(
                a != b for d, (a, b) in enumerate(zip(array.shape, first.shape, strict=True)) if d != dim):
            raise RuntimeError(f"All tensors must have the same shape: {shape_text(first.shape)} (except in the "
                               f"concatenating dimension), but found shape: {shape_text(array.shape)} at position "
                               f"{position}")
    lengths = [t._array.shape[dim] for t in tensors]
    starts = np.cumsum([0, *lengths[:-1]]).tolist()
    size = (*first.shape[:dim], sum(lengths), *first.shape[dim + 1 :])
    values, places = [values_of(t) for t in tensors], [t._array.parts[0]._array for t in tensors]
    if dim < first.sparse_dim:
        unit = (np.arange(first.sparse_dim) == dim)[:, None]
        places = [p + unit * start for p, start in zip(places, starts, strict=True)]
    else:
        values = [_padded(v, dim - first.sparse_dim + 1, start, sum(lengths))
                  for v, start in zip(values, starts, strict=True)]
    return from_parts(np.concatenate(places, axis=1), cat(values), size)


def _padded(values: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Values with zeros before and after along a dimension."""
    shape = list(values.shape)
    before, after = ([*shape[:dim], n, *shape[dim + 1 :]] for n in (start, length - start - shape[dim]))
    return cat((values.new_zeros(before), values, values.new_zeros(after)), dim)


serves("unsqueeze", _unsqueezed)
serves("index_select", _index_selected)
serves("select", _selected, composed(lambda self, dim, index: _selected(to_sparse(self), dim, index)))
serves("unbind", composed(lambda self, dim: tuple(_selected(self, dim, n) for n in range(self.size(dim)))))
serves("narrow_copy", _narrowed)
serves("cat", _joined)
serves("stack", composed(lambda tensors, dim=0: _joined([_unsqueezed(t, dim) for t in tensors],
                                                        wrapped_dim(dim, tensors[0].dim() + 1))))
