"""Writing elements at places that tensors name: index_put, index_add, scatter and their kind."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._autograd.function import DelayedError
from .._autograd.names import when_number, when_tensor
from .._core.determinism import alert_not_deterministic, determinism
from .._core.dtype import BOOL, COMPLEX, OF_ARRAY, REDUCED, bool_, int32, int64, uint8
from .._core.elements import at_hand, has_elements, is_recorded, on_host
from .._core.geometry import wrapped_dim
from .._core.storage import refuse_reach
from .._core.tensor import Tensor
from .._core.warn import warn_once
from .._dispatch.callers import call_bound
from .._dispatch.schema import NUMBERS, Schema
from ._declare.aten import LEAF, Aten, is_number
from ._declare.batch import (
    Call,
    Result,
    aligned,
    elementwise_indices,
    in_a_row,
    one_by_one,
    row_numbers,
    shifted,
    with_samples,
)
from ._declare.composites import Parts
from ._declare.formulas import on_arrays
from ._declare.op import composite, op
from ._declare.rules import Spec, c_name, check_overlap, check_writable, shape_text
from ._declare.samples import bools, case, cases, error, ints, t, values
from ._declare.updates import LITTLE, Updates, combine_at, on_flat
from .copy import stored_number
from .index import (
    check_along,
    check_flat,
    check_index_sizes,
    check_mask,
    check_places,
    flat_places,
    in_range,
    index_with,
    place_shape,
    shown_shape,
    whole_key,
)
from .pointwise import without_derivative

# index_put -----------------------------------------------------------------------------------------------------------


def filling_mask(self: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> Tensor | None:
    """The mask, made as wide as `self`, of a write of one element by one mask; None for any other write.

    PyTorch takes such a write for `masked_fill_`, and so casts the value.
    """
    if values._array.size != 1:
        return None
    mask, dims = None, 0
    for index in indices:
        if index is None:
            dims += 1
        elif mask is not None or index.dtype not in (bool_, uint8):
            return None
        else:
            mask = index
            check_mask(self._array.shape, mask._array.shape, dims)
            dims += mask._array.ndim
    missing = self._array.ndim - dims
    return mask if mask is None or not missing else mask.reshape((*mask._array.shape, *(1,) * missing))


def check_masked_fill(self: Tensor, mask: Tensor, value: Any) -> None:
    if mask.dtype is not bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {c_name(mask.dtype)}")
    if hasattr(value, "_array") and value._array.ndim:
        raise RuntimeError("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                           f"{value._array.ndim} dimension(s).")


def _check_index_put(self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> None:
    if not any(index is not None for index in indices):
        refuse_values(values._array.shape, self._array.shape)
        raise RuntimeError("index_put_(): at least one index must be provided")
    if values._array.size == 1 and not accumulate and (on_host(values) or not has_elements(values)):
        mask = filling_mask(self, indices, values)
        if mask is not None:
            check_masked_fill(self, mask, None)
            if on_host(values):
                cast_value(values._array, self._array.dtype)  # raises where the value does not fit
            return
    casts = self._array.dtype is not values._array.dtype and self.dtype is not values.dtype
    # NumPy drops leading dimensions of one element, which PyTorch does not.
    leads = values._array.ndim > 1 and values._array.shape[0] == 1
    if casts or leads or not self._array.size and values is not self:
        _check_put_shapes(self, indices, values)
    elif is_recorded(self):  # it fails where it is called
        _check_put_geometry(self, indices, values)
    if casts:
        raise RuntimeError(f"Index put requires the source and destination dtypes match, got {self.dtype.scalar_name} "
                           f"for the destination and {values.dtype.scalar_name} for the source.")


def _check_put_shapes(self: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> None:
    """Raises for what PyTorch looks at before it looks at types and places: sizes of 0, and how values broadcast."""
    arrays = [None if index is None else index._array for index in indices]
    if not all(array is None or at_hand(array) for array in arrays):
        return
    shape, key = self._array.shape, whole_key(self._array.shape, arrays, warns=False)
    at = [d for d, k in enumerate(key) if k.__class__ is not slice]
    places = place_shape([key[d].shape for d in at])
    if 0 not in places and 0 in [shape[d] for d in at]:
        raise IndexError("index is out of bounds for dimension with size 0")
    refuse_values(values._array.shape, shown_shape(shape, at, places))


def _check_put_geometry(self: Tensor, indices: Sequence[Tensor | None], values: Tensor) -> None:
    """Raises for shapes that do not fit, if indices are numbers: how many a mask chooses is not known yet."""
    if any(index is not None and index.dtype in (bool_, uint8) for index in indices):
        return
    shape = self._array.shape
    if len(indices) > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {len(indices)})")
    at = [d for d, index in enumerate(indices) if index is not None]
    places = place_shape([index._array.shape for index in indices if index is not None])
    refuse_values(values._array.shape, shown_shape(shape, at, places))


def refuse_values(given: tuple[int, ...], shown: tuple[int, ...]) -> None:
    """Raises unless values of a shape can be broadcast to what is written."""
    lead = len(shown) - len(given)
    if lead < 0 or any(n not in (1, m) for n, m in zip(given, shown[lead:], strict=True)):
        raise RuntimeError(f"shape mismatch: value tensor of shape {shape_text(given)} cannot be broadcast to indexing "
                           f"result of shape {shape_text(shown)}")


def _cells(xp: Any, shape: tuple[int, ...], key: Sequence[Any], at: Sequence[int], places: tuple[int, ...]) -> Any:
    """The flat places that a key of index arrays and full slices names, in the shape of what it shows."""
    front = at[0] if at[-1] - at[0] + 1 == len(at) else 0
    kept = [d for d in range(len(shape)) if d not in at]
    behind = {d: len(kept) - 1 - i + (len(places) if i < front else 0) for i, d in enumerate(kept)}
    made: Any = 0
    for d, n in enumerate(shape):
        step = math.prod(shape[d + 1 :])
        if d in at:
            known = at_hand(key[d]) and key[d].size and key[d].min() >= 0
            index = key[d] if known else xp.where(key[d] < 0, key[d] + n, key[d])
            made = made + (index * step).reshape((*index.shape, *(1,) * (len(kept) - front)))
        elif n:
            made = made + xp.arange(0, n * step, step or 1).reshape((n,) + (1,) * behind[d])
    return made


def _index_put(xp: Any, self: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> None:
    if values.size == 1 and not accumulate:
        given = [index for index in indices if index is not None]
        if len(given) == 1 and given[0].dtype is bool_.np and given[0].ndim:
            place = tuple([slice(None) if index is None else index for index in indices])
            self[place] = values.reshape(()) if values.dtype is self.dtype else cast_value(values, self.dtype)
            return
    key = whole_key(self.shape, indices, xp)
    if not accumulate:
        try:
            self[tuple(key)] = values
            return
        except (IndexError, ValueError):  # said in PyTorch's words below
            pass
    at = [d for d, k in enumerate(key) if k.__class__ is not slice]
    places = place_shape([key[d].shape for d in at])
    shown = shown_shape(self.shape, at, places)
    refuse_values(values.shape, shown)
    values = xp.broadcast_to(values, shown)
    check_places(self.shape, key, at)
    if not values.size:
        return
    if not accumulate:
        self[tuple(key)] = values
        return
    if values.size <= LITTLE and self.dtype not in REDUCED:
        xp.add.at(self, tuple(key), values)
        return
    cells = _cells(xp, self.shape, key, at, places)
    on_flat(self, cells, lambda flat, places: combine_at(xp, "add", flat, places, values, widen=False))


def _index_put_grad(grad: Tensor, indices: Sequence[Tensor | None], accumulate: bool) -> Tensor:
    return grad if accumulate else grad.index_put(indices, grad.new_zeros(()))


def _index_put_each(call: Call) -> Result:
    _, _, values, accumulate = call.values
    any_index, value = any(call.batched[1]), call.full(0)
    places, moved = with_samples(call)
    if moved is not None or not any_index and places[1] is None:
        return one_by_one(call)
    rank = max(i._array.ndim for i in places if i is not None) - any_index
    result_ndim = rank + value._array.ndim - 1 - sum(p is not None for p in places[1:])
    if call.batched[2]:
        values = aligned(values, True, result_ndim)
    return call.run(value, places, values, accumulate), True


op("index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
   kernel=Updates(_check_index_put, _index_put, expanded="tensor[indices] = tensor",
                  fills=lambda self, indices, values, accumulate:
                  not accumulate and filling_mask(self, indices, values) is not None),
   kernels={"cpu": "index.index_put", "cuda": "index.index_put", "npu": "index.prepare_put"},
   npu="aclnnIndexPutImpl(self, indices, values, accumulate, unsafe=True)", mixes_devices=True,
   grad=dict(self=_index_put_grad, values=lambda grad, indices: index_with(grad, indices)),
   samples=cases(case(t(3, 4), [values([0, 2])], t(2, 4)), case(t(3, 4), [values([0, 2])], t()),
                 case(t(3, 4), [values([0, 0])], t(2, 4), True), case(t(3, 4), [values([0, 1]), values([1, 1])], t(2)),
                 case(t(3, 4), [bools(3, 4)], t()),
                 error(RuntimeError, "shape mismatch: value tensor of shape [2, 2] cannot be broadcast to indexing "
                                     "result of shape [2, 3]",
                       t(2, 3), [values([0, 1])], t(2, 2))), batch=_index_put_each, out=None,
   autocast=dict(accelerators="widest"), sharded="whole")


# along one dimension -------------------------------------------------------------------------------------------------


def _rows(array: Any, dim: int) -> Any:
    """The array with `dim` exchanged for the first dimension; a 0-dim one as a vector."""
    return (array.swapaxes(0, dim) if dim else array) if array.ndim else array.reshape(1)


def _outer_first(source: Any, dim: int) -> Any:
    """A source in the shape (outer, places, inner) of `_row_cells`."""
    shape = source.shape
    if len(shape) < 2:
        return source.reshape(-1)
    cells = source.reshape((math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])))
    return cells if cells.shape[0] > 1 else cells[0]


def _row_cells(xp: Any, shape: tuple[int, ...], dim: int, index: Any) -> Any:
    """The flat places of all cells whose place along `dim` is in a vector of indices."""
    index = index.reshape(-1)
    if len(shape) < 2:
        return index
    dim %= len(shape)
    inner, outer = math.prod(shape[dim + 1 :]), math.prod(shape[:dim])
    cells = index[:, None] * inner + xp.arange(inner) if inner > 1 else index[:, None]
    return (xp.arange(outer) * (inner * shape[dim]))[:, None, None] + cells if outer > 1 else cells


def _check_index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any) -> None:
    shape, given = self._array.shape, source._array.shape
    dim = wrapped_dim(dim, len(shape))
    if index._array.ndim > 1:
        raise IndexError(f"index_add_(): Index is supposed to be a vector, but got dim: {index._array.ndim} with type: "
                         f"{index.dtype.scalar_name} and size: {shape_text(index.shape)}")
    if index.dtype not in (int32, int64):
        raise RuntimeError(f"index_add_(): Expected dtype int32/int64 for index but got: {index.dtype.scalar_name}")
    if self.dtype is not source.dtype:
        raise RuntimeError(f"index_add_(): self ({self.dtype.scalar_name}) and source ({source.dtype.scalar_name}) "
                           "must have the same scalar type")
    if dim and dim >= len(given):
        raise RuntimeError(f"index_add_(): Indexing dim {dim} is out of bounds of the source tensor with dim "
                           f"{len(given)}")
    n = given[dim] if dim < len(given) else 1
    if not dim and not given and index._array.size != 1:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if len(shape) == len(given) and index._array.size != n:
        raise RuntimeError(f"index_add_(): Number of indices ({index._array.size}) should be equal to "
                           f"source.size(dim): ({n}), for dim: {dim}")
    if len(shape) != len(given) or shape[:dim] + shape[dim + 1 :] != given[:dim] + given[dim + 1 :]:
        if index._array.size != n:
            raise RuntimeError(f"index_add_(): Number of indices ({index._array.size}) should be equal to "
                               f"source.size(dim): ({n}), for dim: {dim}")
        raise RuntimeError("source tensor shape must match self tensor shape, excluding the specified dimension. Got "
                           f"self.shape = {shape_text(shape)} source.shape = {shape_text(given)}")


def rounds_once(target: Any, dim: int) -> bool:
    """Whether elements of half precision that `index_add` adds along a dimension are rounded in the end, all at once.

    PyTorch takes rows of the first or the last dimension for a `scatter_add`, and adds others one by one.
    """
    return target.ndim > 1 and dim in (0, target.ndim - 1)


def _index_add(xp: Any, self: Any, dim: int, index: Any, source: Any, alpha: Any) -> None:
    if self.ndim < 2 and not in_range(xp, index, self.size):
        raise IndexError("index out of range in self")
    if not self.size:  # then no place is looked at
        return
    dim = check_along(xp, self, dim, index)
    if alpha != 1:
        source = source * stored_number(alpha, OF_ARRAY[source.dtype])
    if source.size <= LITTLE and self.dtype not in REDUCED:
        xp.add.at(_rows(self, dim), index.reshape(-1), _rows(source, dim))
    elif source.size:
        cells = _row_cells(xp, self.shape, dim, index)
        rows = xp.broadcast_to(_outer_first(source, dim), cells.shape)
        on_flat(self, cells, lambda flat, places: combine_at(xp, "add", flat, places, rows,
                                                          widen=rounds_once(self, dim)))


def _rows_of(grad: Tensor, dim: int, index: Tensor, shape: tuple[int, ...]) -> Tensor:
    """What the rows of a source of this shape get of a gradient."""
    return grad.index_select(dim, index).reshape(shape)


def _update_each(call: Call) -> Result:
    """Updates of places along one dimension; places of different samples are numbered through."""
    _, dim, index, source, *rest = call.values
    if not call.ndim(0) or not call.ndim(2) or isinstance(source, Tensor) and call.ndim(3) != call.ndim(0):
        return one_by_one(call)
    source = call.full(3) if isinstance(source, Tensor) else source
    if not call.batched[2]:
        return call.run(call.full(0), shifted(dim, call.ndim(0)), index, source, *rest), True
    target = in_a_row(call.full(0), dim)
    shape, n = target.shape, target.shape[1]
    index = ((index % n if n else index) + row_numbers(call, index) * n).reshape((-1,))
    if isinstance(source, Tensor):
        source = in_a_row(source, dim)
        source = source.reshape((-1, *source.shape[2:]))
    functional = call.operator.declaration.inplace_of or call.operator
    made = call_bound(functional, (target.reshape((-1, *shape[2:])), 0, index, source, *rest))
    return call.written(made.reshape(shape).movedim(1, shifted(dim, call.ndim(0))))


op("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
   kernel=Updates(_check_index_add, _index_add, preserves=False),
   kernels={"cpu": "index.index_add", "cuda": "index.index_add", "npu": "index.prepare_along"},
   npu="aclnnIndexAdd(self, dim, index, source, alpha, out)",
   grad=dict(self=lambda grad: grad,
             source=lambda grad, dim, index, source_shape, alpha: _scaled(_rows_of(grad, dim, index, source_shape),
                                                                          alpha)),
   samples=cases(case(t(3, 4), 0, values([0, 0, 2]), t(3, 4)), case(t(3, 4), -1, values([1, 3]), t(3, 2), alpha=2),
                 case(t(), 0, values(0), t()), case(t(3), 0, values([2, 2]), t(2)),
                 error(RuntimeError, "index 5 is out of bounds for dimension 0 with size 2", t(2, 3), 0,
                       values([0, 5]), t(2, 3))), batch=_update_each, sharded="along")


def _scaled(grad: Tensor, alpha: Any) -> Tensor:
    return grad if alpha == 1 else grad * (alpha.conjugate() if alpha.__class__ is complex else alpha)


def _check_index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    shape, given = self._array.shape, source._array.shape
    dim = wrapped_dim(dim, len(shape))
    if index._array.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index._array.ndim})")
    if index.dtype is not int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {index.dtype.scalar_name}")
    if self.dtype is not source.dtype:
        raise RuntimeError("index_copy_(): self and source expected to have the same dtype, but got (self) "
                           f"{self.dtype.scalar_name} and (source) {source.dtype.scalar_name}")
    if not given and index._array.size != 1:
        raise IndexError("index_copy_(): When source is scalar, index should have one element (got "
                         f"{index._array.size})")
    if given and shape and len(given) != len(shape):
        raise IndexError("index_copy_(): When source and destination are not scalars, their dimensionality must match. "
                         f"Source dimensionality ({len(given)}), destination dimensionality ({len(shape)})")
    n = given[dim] if given else 1
    here, there = shape[:dim] + shape[dim + 1 :], given[:dim] + given[dim + 1 :]
    if here != there:
        raise RuntimeError("index_copy_(): Source/destination tensor must have same slice shapes. Destination slice "
                           f"shape: {' '.join(map(str, here))} at dimension {dim} and source slice shape: "
                           f"{' '.join(map(str, there))} at dimension 0.")
    if index._array.size != n:
        raise IndexError(f"index_copy_(): Number of indices ({index._array.size}) should be equal to source.size(dim) "
                         f"({n})")


def _index_copy(xp: Any, self: Any, dim: int, index: Any, source: Any) -> None:
    if not source.size:  # nothing is copied, wherever to
        return
    n = self.shape[dim] if self.ndim else 1
    if not in_range(xp, index, n):
        outside = index[(index >= n) | (index < 0)]
        raise IndexError(f"index_copy_(): index {outside.flat[0]} is out of bounds for dimension "
                         f"{dim % max(self.ndim, 1)} with size {n}")
    _rows(self, dim)[index.reshape(-1)] = _rows(source, dim) if source.ndim else source


op("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
   kernel=Updates(_check_index_copy, _index_copy, preserves=False, memory_first=True),
   kernels={"cpu": "index.index_copy", "cuda": "index.index_copy", "npu": "index.prepare_along"},
   npu="aclnnInplaceIndexCopy(self, dim, index, source)",
   grad=dict(self=lambda grad, dim, index: grad.index_fill(dim, index, 0),
             source=lambda grad, dim, index, source_shape: _rows_of(grad, dim, index, source_shape)),
   samples=cases(case(t(3, 4), 0, values([0, 2]), t(2, 4)), case(t(3, 4), -1, values([1, 3]), t(3, 2)),
                 case(t(3), 0, values([1]), t(1)),
                 error(IndexError, "index_copy_(): index 5 is out of bounds for dimension 0 with size 2", t(2, 3), 0,
                       values([0, 5]),
                       t(2, 3))), batch=_update_each, autocast=dict(cpu="widest"), sharded="along")


def _check_index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> None:
    wrapped_dim(dim, self._array.ndim)
    if hasattr(value, "_array") and value._array.ndim:
        raise RuntimeError("index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                           f"{value._array.ndim} dimension(s).")
    if index.dtype is not int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index._array.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    is_complex = value.__class__ is complex or getattr(value, "dtype", bool_).category == COMPLEX
    if is_complex and self.dtype.category != COMPLEX:
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    if not self._array.size and index._array.size:
        _check_room(self, wrapped_dim(dim, self._array.ndim), index._array.size)


def _check_room(self: Tensor, dim: int, count: int) -> None:
    """Raises as PyTorch does if a tensor without elements lies where its storage ends.

    It looks at one element of the dimension as `count` of them before it looks whether there is that one.
    """
    sizes, strides = list(self._array.shape), list(self.stride())
    sizes[dim], strides[dim] = count, 0
    itemsize, offset, room = self._array.itemsize, self.storage_offset(), self._shared_storage().nbytes()
    needed = (offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))) * itemsize
    if 0 not in sizes and needed > room:
        refuse_reach(sizes, strides, offset, itemsize, needed, room)


def _index_fill(xp: Any, self: Any, dim: int, index: Any, value: Any) -> None:
    if not self.size and math.prod((*self.shape[:dim], *self.shape[dim % self.ndim + 1 :])) == 0:
        return  # there is nothing that an index could name, so that none is looked at
    try:
        _rows(self, dim)[index.reshape(-1)] = cast_value(value, self.dtype)
    except IndexError:
        n = self.shape[dim] if self.ndim else 1
        outside = index[(index >= n) | (index < -n)]
        raise IndexError(f"index {outside.flat[0]} is out of bounds for dimension {dim % max(self.ndim, 1)} with size "
                         f"{n}") from None


def cast_value(value: Any, kind: Any) -> Any:
    """A number, or a 0-dim array, in an array's type."""
    number = value.item() if hasattr(value, "item") else value
    return stored_number(complex(*number) if number.__class__ is tuple else number, OF_ARRAY[kind])


op("index_fill(Tensor self, int dim, Tensor index, Tensor|Scalar value) -> Tensor",
   node={"IndexFillBackward1": when_tensor("value")},
   kernel=Updates(_check_index_fill, _index_fill, expanded="tensor[mask] = scalar"),
   kernels={"cuda": "index.index_fill", "npu": "index.prepare_index_fill"},
   npu="aclnnInplaceIndexFill(self, dim, index, value)",
   grad=dict(self=lambda grad, dim, index: grad.index_fill(dim, index, 0),
             value=lambda grad, dim, index: (grad - grad.index_fill(dim, index, 0)).sum()),
   samples=cases(case(t(3, 4), 0, values([0, 2]), 1.5), case(t(3, 4), -1, values([1, 3]), t()),
                 case(t(), 0, values(0), 2),
                 error(IndexError, "index 5 is out of bounds for dimension 0 with size 2", t(2, 3), 0, values([5]), 1)),
   batch=_update_each,
   out=None, aten=Aten(lambda schema, values: "int_Scalar" if is_number(values[3]) else "int_Tensor"), sharded="along")


def _check_index_reduce(self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool, *,
                        writes: bool = False) -> None:
    """Raises what is wrong beside the indices; `writes` if it is in place."""
    if index.dtype not in (int32, int64):
        raise RuntimeError(f"index_reduce_(): Expected dtype int32/int64 for index but got: {index.dtype.scalar_name}")
    if index.dim() > 1:
        raise IndexError(f"index_reduce_(): Index is supposed to be a vector, but got dim: {index.dim()} with type: "
                         f"{index.dtype.scalar_name} and size: {shape_text(index.shape)}")
    if self.dtype is not source.dtype:
        raise RuntimeError(f"index_reduce_(): self ({self.dtype.scalar_name}) and source ({source.dtype.scalar_name}) "
                           "must have the same scalar type")
    at, dims = wrapped_dim(dim, self._array.ndim), source._array.ndim
    if at and at >= dims:
        raise RuntimeError(f"index_reduce_(): Indexing dim {at} is out of bounds of the source tensor with dim {dims}")
    count = source._array.shape[at] if dims else 1
    if index.numel() != count:
        if not dims:
            raise IndexError(f"Dimension specified as {at} but tensor has no dimensions")
        raise RuntimeError(f"index_reduce_(): Number of indices ({index.numel()}) should be equal to source.size(dim): "
                           f"({count}), for dim: {at}")
    if dims != self._array.ndim or any(d != at and n != m
                                       for d, (n, m) in enumerate(zip(self.shape, source.shape, strict=True))):
        raise RuntimeError("source tensor shape must match self tensor shape, excluding the specified dimension. Got "
                           f"self.shape = {shape_text(self.shape)} source.shape = {shape_text(source.shape)}")
    if writes:
        check_writable(self)
        check_overlap(self, index, same=False)
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    category = self.dtype.category
    if category in (BOOL, COMPLEX) and not include_self:
        raise NotImplementedError("\"index_reduce_func_exclude_input_init\" not implemented for "
                                  f"'{self.dtype.scalar_name}'")
    if (reduce == "mean" and category == BOOL) or (reduce != "prod" and category == COMPLEX):
        raise NotImplementedError(f"\"index_func_\" not implemented for '{self.dtype.scalar_name}'")


_IN_BETA = "index_reduce() is in beta and the API may change at any time."


def _spread_index(dim: int, index: Tensor, source: Tensor) -> tuple[int, Tensor]:
    """The arguments `dim` and `index` of a scatter that writes rows of `source`."""
    shape = source._array.shape
    dim = wrapped_dim(dim, len(shape))
    return dim, index.reshape((-1,) + (1,) * (len(shape) - dim - 1)).expand(shape) if shape else index.reshape(())


def _check_rows_inside(self: Tensor, dim: int, index: Tensor) -> None:
    shape = self._array.shape
    if not in_range(np, index._array, shape[dim] if shape else 1):
        raise IndexError("index out of range in self")


_REDUCED_ROWS = cases(case(t(3, 4), 0, values([0, 0, 2]), t(3, 4), "prod"), case(t(3), 0, values([1, 1]), t(2), "mean"),
                      case(t(3, 2), 1, values([1]), t(3, 1), "amax", include_self=False))


def _index_reduce_spec(self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool) -> Spec:
    _check_index_reduce(self, dim, index, source, reduce, include_self)
    warn_once(_IN_BETA)
    return Spec(self._array.shape, self.dtype)


def _index_reduce(self, dim, index, source, reduce, include_self):
    _check_index_reduce(self, dim, index, source, reduce, include_self)
    _check_rows_inside(self, dim, index)
    return self.scatter_reduce(*_spread_index(dim, index, source), source, reduce, include_self=include_self)


def _index_reduce_grad(grad, self, dim, index, source, reduce, include_self, result):
    return _scatter_reduce_grad(grad, self, *_spread_index(dim, index, source), source, reduce, include_self, result)


op("index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
   kernel=Parts(_index_reduce_spec), kernels={"cpu": "index.index_reduce"}, decomposition=_index_reduce,
   grad={"self, source": _index_reduce_grad}, apart="index source", aligned="self", samples=_REDUCED_ROWS)


@composite("index_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)"
           " -> Tensor(a!)", public="Tensor", aten=LEAF)
def _index_reduce_(self, dim, index, source, reduce, include_self):
    _check_index_reduce(self, dim, index, source, reduce, include_self, writes=True)
    _check_rows_inside(self, dim, index)
    warn_once(_IN_BETA)
    return self.scatter_reduce_(*_spread_index(dim, index, source), source, reduce, include_self=include_self)


# scatter -------------------------------------------------------------------------------------------------------------


def _check_scatter(self: Tensor, dim: int, index: Tensor, src: Any = None, reduce: str | None = None,
                   include_self: bool = True) -> None:
    dim = check_index_sizes(self, dim, index, "scatter")
    shape, places = self._array.shape, index._array.shape
    from_tensor = hasattr(src, "_array")
    if not index._array.size:
        return
    if from_tensor and self.dtype is not src.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if max(len(shape), 1) != max(len(places), 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    given = src._array.shape if from_tensor else None
    if given is not None and max(len(given), 1) != max(len(places), 1):
        if given:
            wrapped_dim(dim, len(given))
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if places == shape and given in (None, shape):
        return
    too_large = any([d != dim and n > m for d, (n, m) in enumerate(zip(places, shape, strict=False))])
    if too_large or (given is not None
                     and any([n > m for n, m in zip(places or (1,), given or (1,), strict=True)])):
        tail = f" and to be no larger size than src {shape_text(given)}" if given is not None else ""
        raise RuntimeError(f"Expected index {shape_text(places)} to be no larger than self {shape_text(shape)} apart "
                           f"from dimension {dim}{tail}")


def _scattered(change: Callable[..., None]) -> Callable:
    """A `write` that runs `change(xp, flat target, flat places, values)`."""

    def write(xp: Any, self: Any, dim: int, index: Any, src: Any, *rest: Any) -> None:
        if not index.size:
            return
        dim = check_along(xp, self, dim, index)
        places = flat_places(xp, self.shape, dim, index).reshape(-1)
        if src.__class__ in NUMBERS:
            src = stored_number(src, OF_ARRAY[self.dtype])
        elif src.ndim != index.ndim:  # one of them is a number, the other a vector
            src = src.reshape(-1)[: index.size]
        elif src.shape != index.shape:
            src = src[tuple([slice(n) for n in index.shape])]
        on_flat(self, places, lambda flat, places: change(xp, flat, places, src, *rest))

    return write


def _put_at(xp: Any, flat: Any, places: Any, src: Any) -> None:
    flat[places] = src.reshape(-1) if getattr(src, "ndim", 0) else src


_write_scatter = _scattered(_put_at)


def _scatter_overload(schema: Schema, values: Sequence[Any]) -> str:
    words = ("value", "src") if schema.overload == "src" else ("value_reduce", "reduce")
    return words[not is_number(values[schema.index["src"]])]

op("scatter.src(Tensor self, int dim, Tensor index, Tensor|Scalar src) -> Tensor",
   node={"ScatterBackward1": when_number("src")},
   resizes_expanded=False,
   kernel=Updates(_check_scatter, _write_scatter, preserves=False),
   kernels={"cpu": "index.scatter", "cuda": "index.scatter"},
   npu=("aclnnInplaceScatter(self, dim, index, src, reduce=0)",
        "aclnnInplaceScatterValue(self, dim, index, src, reduce=0)"),
   grad=dict(self=lambda grad, dim, index: grad.scatter(dim, index, 0), src=lambda grad, dim,
             index: grad.gather(dim, index)),
   samples=cases(case(t(3, 4), 1, values([[0, 1], [2, 3], [1, 0]]), t(3, 2)), case(t(3), 0, values([2, 0]), t(2)),
                 case(t(), 0, values(0), t()),
                 case(t(3, 4), 1, values([[0, 1], [2, 3], [1, 0]]), 1.5), case(t(3), 0, values([2, 0]), 2),
                 error(RuntimeError, "index 5 is out of bounds for dimension 1 with size 3", t(2, 3), 1, values([[5]]),
                       t(2, 3))), batch=elementwise_indices(like=0), aten=Aten(_scatter_overload), sharded="along")

_LEGACY = ("add", "multiply")


def _check_legacy(self: Tensor, dim: int, index: Tensor, src: Any, reduce: str) -> None:
    _check_scatter(self, dim, index, src)
    if reduce not in _LEGACY:
        raise RuntimeError("reduce argument must be either add or multiply.")
    if isinstance(src, Tensor):
        warn_once("The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future "
                  "PyTorch release. Use torch.scatter_reduce instead for more reduction options.")


_write_legacy = _scattered(lambda xp, flat, places, src, reduce: combine_at(xp, reduce, flat, places, src))

op("scatter.reduce(Tensor self, int dim, Tensor index, Tensor|Scalar src, *, str reduce) -> Tensor",
   resizes_expanded=False,
   kernel=Updates(_check_legacy, _write_legacy, preserves=False),
   kernels={"cpu": "index.scatter_legacy", "cuda": "index.scatter"},
   npu=("aclnnInplaceScatter(self, dim, index, src, reduce{replace,add,multiply})",
        "aclnnInplaceScatterValue(self, dim, index, src, reduce{replace,add,multiply})"),
   grad=dict.fromkeys(("self", "src"), without_derivative("scatter")),
   samples=cases(case(t(3, 4, grad=False), 1, ints(3, 2, high=4), t(3, 2, grad=False), reduce="add"),
                 case(t(3, 4, grad=False), 1, ints(3, 2, high=4), 2, reduce="multiply")),
   batch=elementwise_indices(like=0), aten=Aten(_scatter_overload), sharded="along")

op("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
   resizes_expanded=False,
   kernel=Updates(_check_scatter, _scattered(lambda xp, flat, places, src: combine_at(xp, "add", flat, places, src)),
                  preserves=False),
   kernels={"cpu": "index.scatter_add", "cuda": "index.scatter"},
   npu="aclnnInplaceScatter(self, dim, index, src, reduce=1)",
   grad=dict(self=lambda grad: grad, src=lambda grad, dim, index: grad.gather(dim, index)),
   samples=cases(case(t(3, 4), 1, ints(3, 2, high=4), t(3, 2)), case(t(3), 0, values([2, 2]), t(2)),
                 case(t(2, 3), 0, ints(2, 3, high=2), t(2, 3)),
                 error(RuntimeError, "Index tensor must have the same number of dimensions as self tensor", t(2, 3), 1,
                       ints(2), t(2, 3))), batch=elementwise_indices(like=0), autocast=dict(accelerators="widest"),
   sharded="along")

_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}


def _check_scatter_reduce(self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> None:
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    _check_scatter(self, dim, index, src)
    if reduce == "mean" and self.dtype is bool_:
        raise NotImplementedError("\"scatter_gather_tensor_cpu_reduce_mean\" not implemented for 'Bool'")


def start_value(reduce: str, kind: np.dtype) -> Any:
    """What the places begin with that do not count themselves."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if kind.kind in "iu":
        return np.iinfo(kind).min if reduce == "amax" else np.iinfo(kind).max
    if kind.kind == "b":
        return reduce == "amin"
    return -np.inf if reduce == "amax" else np.inf


def _reduce_at(xp: Any, flat: Any, places: Any, src: Any, reduce: str, include_self: bool) -> None:
    if not include_self:
        flat[places] = start_value(reduce, flat.dtype)
    combine_at(xp, _REDUCTIONS[reduce], flat, places, src)
    if reduce == "mean":
        counts = xp.maximum(xp.bincount(places, minlength=flat.size) + include_self, 1)
        flat[...] = flat // counts if flat.dtype.kind in "iu" else flat / counts.astype(flat.dtype)


def _scatter_reduce_grad(grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str,
                         include_self: bool,
                         result: Tensor) -> tuple[Tensor, Tensor]:
    if reduce == "sum":
        grad_self, grad_src = grad, grad.gather(dim, index)
    elif reduce == "prod":
        grad_self, grad_src = _product_grads(grad, self, dim, index, src, include_self, result)
    else:
        shared = _mean_grads if reduce == "mean" else _extreme_grads
        grad_self, grad_src = shared(grad, self, dim, index, src, include_self, result)
    if not include_self:
        grad_self = grad_self.scatter(dim, index, 0)
    return grad_self, grad_src


@on_arrays
def _mean_grads(xp: Any, grad: Any, self: Any, dim: int, index: Any, src: Any, include_self: bool,
                result: Any) -> tuple[Any, Any]:
    counts = xp.scatter_add(xp.full_like(self, include_self), dim, index, xp.ones_like(src))
    grad_self = grad / xp.where(counts == 0, 1, counts)
    return grad_self, xp.gather(grad_self, dim, index)


@on_arrays
def _extreme_grads(xp: Any, grad: Any, self: Any, dim: int, index: Any, src: Any, include_self: bool,
                   result: Any) -> tuple[Any, Any]:
    """All elements that are the extreme share its gradient."""
    of_self = xp.astype(self == result, self.dtype)
    of_src = xp.astype(src == xp.gather(result, dim, index), src.dtype)
    share = grad / xp.scatter_add(of_self, dim, index, of_src)
    return of_self * share, of_src * xp.gather(share, dim, index)


def _product_grads(grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool,
                   result: Tensor) -> tuple[Tensor, Tensor]:
    """The product over the other factors: by division, and where a factor is the only zero by leaving it out."""
    self_known = self.masked_fill(self == 0, 1)
    grad_self = grad * self_known.scatter_reduce(dim, index, src, "prod", include_self=include_self) / self_known
    is_zero = src == 0
    zeros = self.new_zeros(self.shape).scatter_add(dim, index, is_zero.to(self.dtype)).gather(dim, index)
    only_zero = is_zero & (zeros == 1)
    without = self.scatter_reduce(dim, index, src.masked_fill(only_zero, 1), "prod", include_self=include_self)
    divided = (grad * result).gather(dim, index) / src.masked_fill(is_zero, 1)
    grad_src = (grad * without).gather(dim, index).where(only_zero, divided)
    if grad_src.requires_grad and bool((zeros > 1).any()):
        error = DelayedError("scatter_reduce(): Double backward is unsupported for src when >1 zeros in src are "
                             "scattered to the same position in self")
        grad_src = error.attach(grad_src.detach(), grad_src._recording_edge())
    return grad_self, grad_src


op("scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
   resizes_expanded=False,
   kernel=Updates(_check_scatter_reduce, _scattered(_reduce_at), preserves=False),
   kernels={"cpu": "index.scatter_reduce", "cuda": "index.scatter_reduce"},
   npu="aclnnScatterReduce(self, dim, index, src, reduce{replace,sum,prod,amax,amin,mean}, include_self, out)",
   grad={"self, src": _scatter_reduce_grad},
   samples=cases(*(case(t(3, 4), 1, values([[0, 0], [2, 3], [1, 1]]), t(3, 2), reduce, include_self=include_self)
                   for reduce in _REDUCTIONS for include_self in (True, False)),
                 error(RuntimeError, "reduce argument must be either sum, prod, mean, amax or amin, got zz", t(2), 0,
                       ints(2, high=2), t(2),
                       "zz")), batch=elementwise_indices(like=0), aten="two", sharded="along")


# the flattened tensor ------------------------------------------------------------------------------------------------


def _check_put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> None:
    if determinism.mode and not accumulate and has_elements(self):
        alert_not_deterministic("put_")
    if index.dtype is not int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype.scalar_name}")
    if self.dtype is not source.dtype:
        raise RuntimeError("put_(): self and source expected to have the same dtype, but got self.dtype = "
                           f"{self.dtype.scalar_name} and source.dtype = {source.dtype.scalar_name}")
    if index._array.size != source._array.size:
        raise IndexError("put_(): Expected source and index to have the same number of elements, but got "
                         f"source.numel() = {source._array.size}, index.numel() = {index._array.size}")


def _put(xp: Any, self: Any, index: Any, source: Any, accumulate: bool) -> None:
    index, source = index.reshape(-1), source.reshape(-1)
    if index.size and not self.size:
        raise IndexError("put_(): Tried to put elements into an empty tensor")
    check_flat(index, self.size)
    on_flat(self, index, lambda flat, places: combine_at(xp, "add", flat, places, source, widen=False) if accumulate
            else _put_at(xp, flat, places, source))


def _put_grad(grad: Tensor, index: Tensor, source_shape: tuple[int, ...], accumulate: bool) -> Tensor:
    return grad if accumulate else grad.put(index, grad.new_zeros(source_shape))


op("put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
   kernel=Updates(_check_put, _put),
   kernels={"cpu": "index.put", "cuda": "index.put"},
   npu="aclnnInplacePut(self, index, source, accumulate)",
   grad=dict(self=_put_grad,
             source=lambda grad, index, source_shape: grad.take(index).reshape(source_shape)),
   samples=cases(case(t(2, 3), values([0, 5]), t(2)), case(t(2, 3), values([0, 0]), t(2), True),
                 case(t(3), values([[-1]]), t(1, 1)),
                 error(IndexError, "out of range: tried to access index 6 on a tensor of 6 elements.", t(2, 3),
                       values([0, 6]), t(2))), out=None)
