"""Sparse tensors: what serves them, their parts, and conversions; arithmetic is in math.py and products.py.

A kernel that is `composed` is written as other operators on indices and values, and has their derivative. All others
see tensors as arrays, below recording, and the operator's own formulas are applied.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..._backends.interface import backend_for
from ..._core.device import layout, sparse_coo, strided
from ..._core.dtype import dtype, get_default_dtype
from ..._core.elements import at_hand
from ..._core.sparse import (
    BLOCKED,
    BY_ROWS,
    COMPRESSED,
    LAYOUT_NAMES,
    SparseArray,
    compressed_of,
    coo,
    coo_of,
    emptied,
    empty_sparse,
    flattened,
    grid_of,
    is_sparse,
    wrap_sparse,
)
from ..._core.tensor import Tensor, wrap
from ..._dispatch.argument_checks import expected
from ..._dispatch.callers import call_bound
from ..._dispatch.keys import BACKENDS, DispatchKey
from ..._dispatch.registry import Lazy, Operator, PerOperator, registry
from .._declare.families import Family
from .._declare.layouts import LAYOUT_KEYS
from .._declare.op import composite, function_of, op
from .._declare.rules import Spec, check_result_fits, shape_text
from . import by_operators

cat, empty_like, zeros = (function_of(registry.get(name)) for name in ("cat", "empty_like", "zeros"))

# dispatch ------------------------------------------------------------------------------------------------------------


def refuse_backend(name: str, backend: str, *args: Any) -> NoReturn:
    layouts = {v.layout for a in args for v in (a if a.__class__ in (tuple, list) else (a,)) if hasattr(v, "_keys")}
    raise NotImplementedError(f"Could not run '{name}' with arguments from the '{backend}' backend: there is no kernel "
                              f"for layout {', '.join(sorted(map(str, layouts)))}.")


def refusal(operator: Operator, backend: str) -> Callable:
    """The kernel of an operator that a layout does not have."""
    said = getattr(operator.declaration, "refuses_coo", None) if backend == LAYOUT_KEYS["sparse_coo"].name else None

    def refuse(*args: Any) -> NoReturn:
        if said is not None:
            raise RuntimeError(said)
        refuse_backend(operator.name, backend, *args)

    return refuse


for _key in LAYOUT_KEYS.values():
    registry.register_for_all(_key, PerOperator(functools.partial(refusal, backend=_key.name)))


class Layouts(Family):
    """Kernels by layout, each given the call's arguments; a layout without one is refused."""

    changes_layout = True

    def __init__(self, coo: Callable | None = None, compressed: Callable | None = None,
                 dense: Callable | None = None, on_devices: bool = False) -> None:
        self.dense, self.on_devices = dense, on_devices  # whether devices with arrays take the kernel of dense tensors
        self.by_layout = dict(zip(LAYOUT_KEYS.values(), (coo, compressed), strict=True))

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        sparse = {key: of_host(kernel or refusal(operator, key.name)) for key, kernel in self.by_layout.items()}
        return {key: Lazy(functools.partial(self._kernel_of_dense, key, operator)) for key in BACKENDS} | sparse

    def _kernel_of_dense(self, key: DispatchKey, operator: Operator) -> Callable:
        backend = backend_for(key)
        served = backend.direct or self.on_devices and backend.xp is not None
        return self.dense if served and self.dense is not None else refusal(operator, key.name)


def of_host(kernel: Callable) -> Callable:
    """A kernel that looks at arrays, with a refusal of sparse tensors that are on a device."""
    if getattr(kernel, "composed", False) or getattr(kernel, "on_devices", False):
        return kernel

    @functools.wraps(kernel)
    def guarded(*args: Any) -> Any:
        for value in args:
            if is_sparse(value):
                value._array.refuse_device()
        return kernel(*args)

    return guarded


def on_devices(function: Callable) -> Callable:
    """Marks a kernel that takes sparse tensors anywhere."""
    function.on_devices = True  # type: ignore[attr-defined]
    return function


def composed(function: Callable) -> Callable:
    """Marks a kernel whose parts are recorded in its stead."""
    function.composed = True  # type: ignore[attr-defined]
    return function


def per_operator(function: Callable) -> Callable:
    """Marks a function that makes the kernel of an operator."""
    function.per_operator = True  # type: ignore[attr-defined]
    return function


def in_place(kernel: Callable) -> Callable:
    """The form of a kernel that gives its tensor the result."""

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
    raise RuntimeError(f"{name} expected {wanted} layout but got {found}")


# parts ---------------------------------------------------------------------------------------------------------------


@on_devices
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
    held = array.batch + 1 + 2 * (array.layout in BLOCKED)
    size = (*array.shape[: array.batch + array.sparse_dim], *values._array.shape[held:])
    if array.layout is sparse_coo:
        return call_bound(_COO, (array.sparse_dim, values._array.ndim - 1, size, array.parts[0], values,
                                 array.coalesced))
    return call_bound(_COMPRESSED, (*array.parts, values, size, array.layout))


def _places_of_parts(starts: Tensor, plain_indices: Tensor, shape: Sequence[int], size: Sequence[int],
                     kind: layout) -> Tensor:
    """The places of the elements of a compressed tensor with values of a shape."""
    values = wrap(np.broadcast_to(np.zeros((), np.int8), shape))
    return wrap(SparseArray(kind, (starts, plain_indices), values, size).places())


_COO = op("_sparse_coo_tensor_with_dims_and_tensors(int sparse_dim, int dense_dim, int[] size, Tensor indices, Tensor "
          "values, bool is_coalesced=False) -> Tensor", public="",
   kernel=Layouts(dense=lambda sparse_dim, dense_dim, size, indices, values, is_coalesced:
                  coo(indices, values.detach(), size, is_coalesced)),
   grad=dict(values=lambda grad, indices: values_at(grad, indices)))
_COMPRESSED = op("_sparse_compressed_tensor(Tensor compressed_indices, Tensor plain_indices, Tensor values, int[] "
                 "size, Layout layout) -> Tensor", public="",
   kernel=Layouts(dense=lambda compressed_indices, plain_indices, values, size, layout: wrap_sparse(
       SparseArray(layout, (compressed_indices, plain_indices), values.detach(), size))),
   grad=dict(values=lambda grad, compressed_indices, plain_indices, values_shape, size, layout: values_at(
       grad, _places_of_parts(compressed_indices, plain_indices, values_shape, size, layout)).reshape(values_shape)))


@composite("_sparse_compressed_tensor_with_dims(int nnz, int dense_dim, int[] size, int[] blocksize, ScalarType "
           "index_dtype, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) "
           "-> Tensor", public="")
def _with_dims(nnz, dense_dim, size, blocksize, index_dtype, dtype, layout, device, pin_memory):
    batch = len(size) - 2 - dense_dim
    lines = grid_of(size, batch, blocksize)[batch + (layout not in BY_ROWS)]
    shapes = ((lines + 1,), (nnz,), (nnz, *blocksize, *size[batch + 2 :]))
    kinds = (index_dtype, index_dtype, dtype or get_default_dtype())
    parts = [zeros((*size[:batch], *shape), dtype=kind) for shape, kind in zip(shapes, kinds, strict=True)]
    return call_bound(_COMPRESSED, (*parts, tuple(size), layout))


def from_parts(indices: np.ndarray, values: Tensor, size: Sequence[int], coalesced: bool = False) -> Tensor:
    """A COO tensor with the history of its values."""
    places = wrap(np.ascontiguousarray(indices, np.int64))
    return call_bound(_COO, (len(places), values.dim() - 1, tuple(size), places, values,
                             coalesced or places._array.shape[1] < 2))


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


def _looked_up_dense(self: Tensor, indices: Tensor) -> Tensor:
    places = indices._array
    if not len(places):  # every element of a tensor without dimensions is at its one place
        return wrap(np.repeat(self._array[None], places.shape[1], 0))
    return wrap(self._array[tuple(places)])


_VALUES_AT = op("_sparse_values_at(Tensor self, Tensor indices) -> Tensor", public="",
   kernel=Layouts(_looked_up, _looked_up, _looked_up_dense),
   grad=dict(self=lambda grad, self, indices: as_layout(
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
    if not isinstance(self, Tensor):
        raise TypeError(expected("coalesce", "input", "Tensor", self, 1))
    if self.layout is not sparse_coo:
        refuse_layout("coalesce", "sparse coordinate tensor", self)
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
    return as_layout(grad, self)


@on_devices
def _dense_of(self: Tensor, masked_grad: bool | None) -> Tensor:
    if at_hand(self._array.values._array):
        return wrap(dense_array(self))
    return by_operators.dense_of(self._array)


_TO_DENSE = op("_to_dense(Tensor self, *, bool? masked_grad=None) -> Tensor", public="",
   kernel=Layouts(_dense_of, _dense_of),
   grad=dict(self=_to_dense_grad))


def to_dense(self: Tensor, dtype: dtype | None = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor in strided layout; itself if it is."""
    if not is_sparse(self):
        return self if dtype is None else self.to(dtype)
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return call_bound(_TO_DENSE, (self, masked_grad))


def as_layout(grad: Tensor, like: Tensor) -> Tensor:
    """A gradient in the layout of what it is the gradient of."""
    if grad.layout is like.layout:
        return grad
    if like.layout is strided:
        return to_dense(grad)
    if like.layout is sparse_coo:
        return to_sparse(grad, like._array.sparse_dim)
    array = like._array
    dense = array.dense_dim if grad.layout is strided else None
    return to_sparse(grad, layout=like.layout, dense_dim=dense, blocksize=array.block or None)


def _check_blocks(name: str, shape: Sequence[int], block: Sequence[int] | None, batch: int) -> None:
    """Raises unless a matrix, or each of a batch, is made of blocks of this size."""
    if block is None:
        return
    if len(block) != 2:
        raise RuntimeError(f"{name}: blocksize needs to be a tuple of size 2, but got {len(block)}")
    if min(block) <= 0:
        raise RuntimeError(f"{name}: blocksize needs to be positive, but got {list(block)}")
    rows, columns = shape[batch : batch + 2]
    if rows % block[0] or columns % block[1]:
        raise RuntimeError(f"{name}: tensor sparse size ({rows},{columns}) must be divisible by given blocksize "
                           f"({block[0]},{block[1]})")


def _from_dense(self: Tensor, layout: layout, sparse_dim: int | None, dense_dim: int | None,
                blocksize: tuple[int, int] | None) -> Tensor:
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
        _check_blocks(name, array.shape, blocksize, batch)
    if not at_hand(array):
        return by_operators.from_dense(self, layout, dims, batch)
    filled = (self != 0)._array.any(tuple(range(dims, ndim)))
    places = np.stack(filled.nonzero()) if dims else np.empty((0, int(filled)), np.int64)
    rows = array[tuple(places)] if dims else array[None][: int(filled)]
    made = SparseArray(sparse_coo, (wrap(places),), wrap(rows), array.shape, True)
    return wrap_sparse(made if layout is sparse_coo else compressed_of(made, layout, blocksize, batch))


def _from_sparse(self: Tensor, layout: layout, sparse_dim: int | None, dense_dim: int | None,
                 blocksize: tuple[int, int] | None) -> Tensor:
    array = self._array
    if layout is sparse_coo:
        return wrap_sparse(coo_of(array))
    blocked, kind = array.layout in BLOCKED, layout._name[-3:]
    name = f"coo_to_sparse_{kind}" if array.layout is sparse_coo else f"sparse_compressed_to_sparse_{kind}"
    if blocked and layout not in BLOCKED:
        refuse_layout(f"{name}:", "SparseCsr or SparseCsc", self)
    if not blocked:
        if array.batch and blocksize is not None:
            raise RuntimeError(f"{name}: conversion from {LAYOUT_NAMES[array.layout]} to {LAYOUT_NAMES[layout]} for "
                               "batched inputs is not supported")
        _check_blocks(name, array.shape, blocksize, array.batch)
    elif blocksize is not None and blocksize != array.block:
        _refuse_blocks(name, array, layout, blocksize)
    return wrap_sparse(compressed_of(array, layout, blocksize))


def _refuse_blocks(name: str, array: SparseArray, kind: layout, blocksize: Sequence[int]) -> NoReturn:
    raise RuntimeError(f"{name}: conversion from {LAYOUT_NAMES[array.layout]} to {LAYOUT_NAMES[kind]} with blocksize "
                       f"changed from {list(array.block)} to {list(blocksize)} is not supported")


_TO_SPARSE = op("_to_sparse(Tensor self, Layout layout, int? sparse_dim=None, int? dense_dim=None, int[2]? "
                "blocksize=None) -> Tensor", public="",
   kernel=Layouts(_from_sparse, _from_sparse, _from_dense, on_devices=True),
   grad=dict(self=lambda grad, self: as_layout(grad, self)))


_CONVERSIONS = {strided: "dense_to_sparse", sparse_coo: "sparse_coo_to_sparse"}


def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: layout | None = None,
              blocksize: tuple[int, int] | None = None, dense_dim: int | None = None) -> Tensor:
    """The tensor in a sparse layout, COO unless told; itself if it is."""
    wanted = layout or sparse_coo
    source = LAYOUT_NAMES.get(self.layout, "Strided")
    if sparse_dim is not None and layout is not None:
        raise TypeError("to_sparse() takes 0 positional arguments but 1 was given")
    if wanted is strided:
        return to_dense(self)
    if wanted not in LAYOUT_NAMES:
        raise RuntimeError(f"dense_to_sparse: unexpected source layout {source}")
    name = "to_sparse" if self.layout is wanted else _CONVERSIONS.get(self.layout, "sparse_compressed_to_sparse")
    if (blocksize is not None) is not (wanted in BLOCKED):
        raise RuntimeError(f"{name}: conversion from {source} to {LAYOUT_NAMES[wanted]} "
                           f"with{'out' * (blocksize is None)} blocksize argument given is not supported")
    if dense_dim is not None and is_sparse(self):
        name = f"{name.removeprefix('sparse_') if self.layout is sparse_coo else name}_{wanted._name[-3:]}"
        raise RuntimeError(f"{name}: conversion from {source} to {LAYOUT_NAMES[wanted]} with dense_dim argument given "
                           "is not supported")
    if sparse_dim is not None and is_sparse(self) and sparse_dim != self._array.sparse_dim:
        if self.layout is sparse_coo:
            raise RuntimeError("to_sparse: conversion from Sparse to Sparse with sparse_dim argument "
                               "!=self.sparse_dim() is not supported")
        raise RuntimeError(f"sparse_compressed_to_sparse: conversion from {source} to Sparse with sparse_dim argument "
                           "!=2 is not supported")
    if self.layout is wanted:
        if blocksize is not None and blocksize != self._array.block:
            _refuse_blocks(f"to_{wanted._name}", self._array, wanted, blocksize)
        return self
    return call_bound(_TO_SPARSE, (self, wanted, sparse_dim, dense_dim, blocksize))


@composed
def _sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    if not is_sparse(mask):
        refusal(registry.get("sparse_mask"), "CPU")(self, mask)
    if self._array.shape != mask._array.shape:
        raise RuntimeError(f"sparse_mask(): operands have incompatible sizes; self has size "
                           f"{shape_text(self.shape)} but mask has size {shape_text(mask.shape)}")
    if is_sparse(self) and not self._array.coalesced and self._array.parts[0] is mask._array.parts[0]:
        return self  # the same indices, each as often
    array = mask._array
    return rebuilt(mask, values_at(self, indices_of(mask)).reshape(array.values._array.shape))


op("sparse_mask(Tensor self, Tensor mask) -> Tensor", public="Tensor",
   kernel=Layouts(_sparse_mask, _sparse_mask, _sparse_mask))

# copies --------------------------------------------------------------------------------------------------------------


def _copied(self: Tensor, kind: dtype | None, where: Any) -> Tensor:
    if where is not None and where != self._device:
        raise NotImplementedError(f"sparse tensors live on the CPU only, not on {where}")
    array = self._array
    values = array.values.clone() if kind is None else array.values.to(kind, copy=True)
    return wrap_sparse(SparseArray(array.layout, tuple(p.clone() for p in array.parts), values, array.shape,
                                   array.coalesced))


def clone(self: Tensor, memory_format: Any) -> Tensor:
    return _copied(self, None, None)


def to_copy(self: Tensor, dtype: dtype | None, device: Any, *rest: Any) -> Tensor:
    return _copied(self, dtype, device)


def zero_(self: Tensor) -> Tensor:
    array = self._array
    self._array = (empty_sparse(sparse_coo, array.shape, array.values, array.sparse_dim)._array
                   if array.layout is sparse_coo else emptied(array, array.dtype))
    self._bump_version()
    return self


def copy_(self: Tensor, src: Any, non_blocking: bool) -> Tensor:
    if not hasattr(src, "_keys"):
        src = wrap(np.asarray(src))
    found = LAYOUT_NAMES.get(src.layout, "Strided")
    if self.layout in COMPRESSED:
        if src.layout is not self.layout:
            raise RuntimeError("torch.copy_: copy of sparse compressed tensors having different layouts is not "
                               f"supported. self layout is {LAYOUT_NAMES[self.layout]} and src layout is {found}")
        _check_same_lines(self._array, src._array)
    elif src.layout in COMPRESSED:
        refuse_layout("copy_sparse_compressed_", "sparse compressed tensor", self)
    elif src.layout is not self.layout:
        raise RuntimeError("copy_() between dense and sparse Tensors is not implemented! Found self type = "
                           f"{self.type()} and src type = {src.type()}")
    made = _copied(src, self.dtype, None)._array
    self._array = made if self.layout is sparse_coo else SparseArray(
        self.layout, made.parts, made.values, self._array.shape)
    self._bump_version()
    return self


def _check_same_lines(target: SparseArray, source: SparseArray) -> None:
    """Raises unless the parts of one compressed array can take the place of another's."""
    if target.block != source.block:
        raise RuntimeError("torch.copy_: copy of sparse compressed tensors having different block sizes is not "
                           f"supported. self and src block sizes are {list(target.block)} and {list(source.block)}, "
                           "respectively.")
    if target.nnz != source.nnz:
        raise RuntimeError("torch.copy_: only sparse compressed tensors with the same number of specified elements are "
                           "supported.")
    dim = target.batch + (target.layout not in BY_ROWS)
    here, there = target.shape[dim], source.shape[source.batch + dim - target.batch]
    if here != there:
        raise RuntimeError(f"torch.copy_: expected shapes of self and src to match along dimension {dim} for "
                           f"{LAYOUT_NAMES[target.layout]} layout but the corresponding dimensions of self and src are "
                           f"{here} and {there}, respectively.")


@on_devices
def fill_(self: Tensor, value: Any) -> Tensor:
    array = self._array
    values = array.values.clone().fill_(value)
    self._array = SparseArray(array.layout, array.parts, values, array.shape)
    self._bump_version()
    return self


def store_result(target: Tensor, value: Tensor, *, replaces: bool) -> None:
    """Gives the sparse tensor of an `out=` its result; one that does not replace its parts is copied as by `copy_`."""
    if target.layout is not value.layout:
        raise NotImplementedError(f"expected a result of layout {value.layout} in out=, but got {target.layout}")
    if replaces or target.layout is sparse_coo:
        target._array = _copied(value, target.dtype, None)._array
        target._bump_version()
    else:
        copy_(target, value, False)


def _check_memory_format(self: Tensor, memory_format: Any) -> None:
    if memory_format is not None and self.layout is sparse_coo:
        raise RuntimeError("memory format option is only supported by strided tensors")


def like(self: Tensor, dtype: dtype | None, layout: layout | None, device: Any, pin_memory: Any,
                requires_grad: bool, memory_format: Any = None) -> Tensor:
    """A tensor with the indices of a compressed one; without elements, of whatever layout, if it is a COO one."""
    _check_memory_format(self, memory_format)
    array, wanted = self._array, layout or self.layout
    if array.layout is sparse_coo:
        if wanted in BLOCKED:
            empty_sparse(wanted, array.shape, array.values)  # raises
        return zeros_like(self, dtype, layout, device, pin_memory, requires_grad)
    if wanted is not array.layout:
        raise RuntimeError("empty_like with different sparse layout is not supported (self is "
                           f"{LAYOUT_NAMES[array.layout]} but you requested {LAYOUT_NAMES.get(wanted, 'Strided')})")
    parts = tuple(part.clone() for part in array.parts)
    made = wrap_sparse(SparseArray(wanted, parts, empty_like(array.values, dtype=dtype), array.shape))
    return made.requires_grad_() if requires_grad else made


def zeros_like(self: Tensor, dtype: dtype | None, layout: layout | None, device: Any, pin_memory: Any,
                requires_grad: bool, memory_format: Any = None) -> Tensor:
    """A tensor of the same dimensions without elements."""
    _check_memory_format(self, memory_format)
    array, wanted = self._array, layout or self.layout
    like = array.values if dtype is None else array.values.to(dtype)
    if wanted is strided:
        if array.layout is not sparse_coo:
            like(self, dtype, wanted, device, pin_memory, requires_grad)  # raises
        return zeros(self.shape, dtype=like.dtype, device=device, requires_grad=requires_grad)
    if wanted is sparse_coo:
        made = empty_sparse(wanted, array.shape, like, array.batch + array.sparse_dim)
    else:
        blocks = array.layout in BLOCKED
        if blocks != (wanted in BLOCKED):
            raise RuntimeError("sparse_compressed_tensor_with_dims: blocksize " + (
                f"cannot be specified for non-block layout {LAYOUT_NAMES[wanted]}" if blocks else
                "needs to be a tuple of size 2, but got 0"))
        made = wrap_sparse(emptied(array, like._array.dtype, wanted))
    return made.requires_grad_() if requires_grad else made


def full_like(self: Tensor, value: Any, *options: Any) -> Tensor:
    return fill_(like(self, *options), value)


def ones_like(self: Tensor, *options: Any) -> Tensor:
    return full_like(self, 1, *options)


def randn_like(self: Tensor, generator: Any, *options: Any) -> Tensor:
    made = like(self, *options)
    made._array.values.normal_(generator=generator)
    return made


def new_empty(self: Tensor, size: Sequence[int], *options: Any) -> Tensor:
    return zeros_like(empty_sparse(options[1] or self.layout, size, self._array.values), *options)


def made_empty(size: Sequence[int], dtype: dtype | None, layout: layout, *options: Any) -> Tensor:
    """A tensor of a layout without elements."""
    kind = dtype or get_default_dtype()
    return zeros_like(empty_sparse(layout, size, wrap(np.empty(0, kind.np))), dtype, layout, *options)
