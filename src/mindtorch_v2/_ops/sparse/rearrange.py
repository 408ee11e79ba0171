"""Parts and rearrangements of sparse tensors."""

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from ..._core.device import strided
from ..._core.dtype import int64
from ..._core.elements import has_elements
from ..._core.geometry import wrapped_dim
from ..._core.sparse import BLOCKED, LAYOUT_NAMES, TRANSPOSED, SparseArray, coo, wrap_sparse
from ..._core.tensor import Tensor, wrap
from ..._dispatch.callers import call_bound
from ..._dispatch.keys import COO_MASK
from ..._dispatch.registry import registry
from .._declare.rules import shape_text
from .layouts import cat, composed, from_parts, plain, rebuilt, refuse_backend, to_sparse, values_of


def permuted(self: Tensor, dims: Sequence[int]) -> Tensor:
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


def transposed(self: Tensor, dim0: int, dim1: int) -> Tensor:
    array, ndim = self._array, self.dim()
    first, second = (wrapped_dim(d, ndim) for d in (dim0, dim1))
    if max(first, second) >= array.sparse_dim and first != second:
        raise RuntimeError(f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: "
                           f"{array.sparse_dim}, d0: {first}, d1: {second}")
    order = list(range(ndim))
    order[first], order[second] = second, first
    return permuted(self, order)


def matrix_transposed(self: Tensor) -> Tensor:
    array = self._array
    if array.sparse_dim > 2 or array.dense_dim:
        raise RuntimeError("t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got "
                           f"{array.sparse_dim} sparse and {array.dense_dim} dense dimensions")
    return permuted(self, (1, 0) if self.dim() == 2 else range(self.dim()))


def transposed_compressed(self: Tensor, dim0: int, dim1: int) -> Tensor:
    array, ndim = self._array, self.dim()
    first, second = sorted(wrapped_dim(d, ndim) for d in (dim0, dim1))
    if first == second:
        return wrap_sparse(array)
    if array.dense_dim:
        raise RuntimeError("transpose(): hybrid sparse compressed tensors with dense dimensions are not supported")
    if first < array.batch <= second:
        raise RuntimeError("transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), got "
                           f"{first}(Batch) and {second}(Sparse)")
    shape = list(array.shape)
    shape[first], shape[second] = shape[second], shape[first]
    if second < array.batch:
        parts = tuple(part.transpose(first, second) for part in array.parts)
        return wrap_sparse(SparseArray(array.layout, parts, array.values.transpose(first, second), shape))
    values = array.values.transpose(-2, -1) if array.layout in BLOCKED else array.values
    return wrap_sparse(SparseArray(TRANSPOSED[array.layout], array.parts, values, shape))


def matrix_transposed_compressed(self: Tensor) -> Tensor:
    return transposed_compressed(self, 0, 1)


def _in_place(kernel: Callable) -> Callable:
    """The form of a rearrangement that gives its tensor another shape."""

    def write(target: Tensor, *args: int) -> Tensor:
        target._array = kernel(plain(target), *args)._array
        target._bump_version()
        return target

    return write


def refuse_transposed_(self: Tensor, *args: int) -> NoReturn:
    raise RuntimeError("torch.transpose_: in-place transposition is not supported for "
                       f"{LAYOUT_NAMES[self.layout]} layout")


transposed_, matrix_transposed_ = _in_place(transposed), _in_place(matrix_transposed)


@composed
def unsqueezed(self: Tensor, dim: int) -> Tensor:
    array = self._array
    dim = wrapped_dim(dim, self.dim() + 1)
    shape = (*array.shape[:dim], 1, *array.shape[dim:])
    places = array.parts[0]._array
    if dim <= array.sparse_dim:
        return from_parts(np.insert(places, dim, 0, axis=0), values_of(self), shape)
    return from_parts(places, values_of(self).unsqueeze(dim - array.sparse_dim + 1), shape)


@composed
def index_selected(self: Tensor, dim: int, index: Tensor) -> Tensor:
    if index.dim() != 1 or index.layout is not strided or index.dtype is not int64:
        raise IndexError("index_select() argument index must be 1-D strided (non-sparse) long-tensor.")
    if not has_elements(index):
        refuse_backend("aten::index_select", "SparseMeta", self)
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
def selected(self: Tensor, dim: int, index: int) -> Tensor:
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
def selected_compressed(self: Tensor, dim: int, index: int) -> Tensor:
    """A batch, or a place in the dense dimensions, in the same layout; a row or column as COO."""
    array, dim = self._array, wrapped_dim(dim, self.dim())
    if not -array.shape[dim] <= index < array.shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {shape_text(array.shape)} at "
                         f"dimension {dim}")
    index %= array.shape[dim]
    shape = (*array.shape[:dim], *array.shape[dim + 1 :])
    if dim < array.batch:
        parts = (part.select(dim, index) for part in array.parts)
        return call_bound(registry.get("_sparse_compressed_tensor"),
                          (*parts, values_of(self).select(dim, index), shape, array.layout))
    if dim >= array.batch + 2:
        held = dim - 1 + 2 * (array.layout in BLOCKED)
        return rebuilt(self, values_of(self).select(held, index))
    if array.batch:
        raise RuntimeError("select(): selecting sparse dimensions is not supported for batched sparse compressed "
                           "tensors.")
    return selected(to_sparse(self), dim, index)


@composed
def selected_compressed_copy(self: Tensor, dim: int, index: int) -> Tensor:
    return selected_compressed(self, dim, index).clone()


@composed
def unbound(self: Tensor, dim: int) -> tuple[Tensor, ...]:
    return tuple(self.select(dim, n) for n in range(self.size(dim)))


@composed
def narrowed(self: Tensor, dim: int, start: int, length: int) -> Tensor:
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
def joined(tensors: Sequence[Tensor], dim: int) -> Tensor:
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


@composed
def stacked(tensors: Sequence[Tensor], dim: int) -> Tensor:
    return joined([unsqueezed(t, dim) for t in tensors], wrapped_dim(dim, tensors[0].dim() + 1))
