"""Reading elements at places that tensors name: index, gather, take, masks, where, nonzero."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._backends.interface import Backend
from .._core.dtype import bool_, int32, int64, uint8
from .._core.elements import at_hand, has_elements, on_host
from .._core.geometry import contiguous_strides, element_strides, wrapped_dim
from .._core.tensor import Tensor, wrap, wrap_meta
from .._core.warn import warn, warn_once
from .._dispatch.argument_checks import expected
from .._dispatch.callers import call_bound
from .._dispatch.registry import Operator, registry
from .._dispatch.schema import NUMBERS
from ._declare.aten import LEAF
from ._declare.batch import (
    Call,
    Result,
    aligned,
    along_dimensions,
    broadcast,
    called,
    dynamic_shape,
    elementwise_indices,
    in_a_row,
    one_by_one,
    row_numbers,
    shifted,
    with_samples,
)
from ._declare.families import ArrayFamily, moves
from ._declare.formulas import elementwise
from ._declare.op import composite, function_of, op
from ._declare.out import Out
from ._declare.rules import Spec, broadcast_shape, common_dtype, pointwise_strides, shape_text
from ._declare.samples import bools, case, cases, error, ints, t, values
from .copy import uninitialised

_KIND_INT64 = int64.np
_PLACE_KINDS = (int64.np, int32.np)
_MASK_KINDS = (bool_.np, uint8.np)
_BYTE_MASK = "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
DATA_DEPENDENT = (
    "The register_meta function for torch.nonzero() raises unimplemented by default, as a correct data-independent "
    "implementation does not exist. This implementation returns a fake value, assuming all elements of the tensor are "
    "non-zero. To enable this registration, please set 'torch.fx.experimental._config.meta_nonzero_assume_all_nonzero' "
    "to True.")


# index ---------------------------------------------------------------------------------------------------------------


def whole_key(shape: tuple[int, ...], indices: Sequence[Any], xp: Any = np, *, warns: bool = True) -> list:
    """NumPy's key for a list of index arrays: a full slice for None, the places of its True for a mask."""
    key: list[Any] = []
    for index in indices:
        if index is not None and index.dtype not in _PLACE_KINDS and index.dtype not in _MASK_KINDS:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    for index in indices:
        if index is None:
            key.append(slice(None))
        elif index.dtype in _PLACE_KINDS:
            key.append(index)
        else:
            if warns and index.dtype is not bool_.np:
                warn(_BYTE_MASK)
            check_mask(shape, index.shape, len(key))
            key.extend(index.nonzero() if index.ndim else [xp.zeros(1 if index else 0, np.int64)])
    if len(key) > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {len(key)})")
    return key


def check_mask(shape: tuple[int, ...], mask: tuple[int, ...], at: int) -> None:
    for d, n in enumerate(mask):
        if at + d >= len(shape) or shape[at + d] != n:
            raise IndexError(f"The shape of the mask {shape_text(mask)} at index {d} does not match the shape of the "
                             f"indexed tensor {shape_text(shape)} at index {at + d}")


def picked(xp: Any, array: Any, indices: Sequence[Any]) -> Any:
    """The elements of an array at index arrays, None or masks, in row-major order."""
    if not any(index is not None for index in indices):
        raise IndexError("at least one index must be provided")
    if len(indices) == 1:
        index = indices[0]
        kind = index.dtype
        if kind is _KIND_INT64 and array.ndim and array.size:
            try:
                return array.take(index, 0)
            except IndexError:
                check_places(array.shape, [index], [0])
        if kind is _MASK_KINDS[0] and index.ndim:
            if index.shape == array.shape and array.flags.c_contiguous:
                return array.reshape(-1).compress(index.reshape(-1))
            check_mask(array.shape, index.shape, 0)
            return array[index]
    key = whole_key(array.shape, indices, xp)
    at = [d for d, k in enumerate(key) if k.__class__ is not slice]
    if not array.size:
        return xp.empty(shown_shape(array.shape, at, check_places(array.shape, key, at)), array.dtype)
    try:
        if len(at) == 1:
            return array.take(key[at[0]], at[0])
        return _row_major(xp, array[tuple(key)])
    except (IndexError, ValueError):
        places = check_places(array.shape, key, at)
        if 0 not in places:
            raise
        return xp.empty(shown_shape(array.shape, at, places), array.dtype)


def _row_major(xp: Any, array: Any) -> Any:
    """A fresh array in row-major order, with the strides that PyTorch gives its dimensions of size 1 too."""
    array = xp.ascontiguousarray(array)
    return array.reshape(-1).reshape(array.shape) if 1 in array.shape else array


def shown_shape(shape: tuple[int, ...], at: Sequence[int], places: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that indices at these dimensions show: theirs is in front unless they are neighbours."""
    front = at[0] if at[-1] - at[0] + 1 == len(at) else 0
    kept = [n for d, n in enumerate(shape) if d not in at]
    return (*kept[:front], *places, *kept[front:])


def check_places(shape: tuple[int, ...], key: Sequence[Any], at: Sequence[int]) -> tuple[int, ...]:
    """The common shape of index arrays; raises with PyTorch's text if there is none or one leaves its dimension."""
    places = place_shape([key[d].shape for d in at])
    if 0 in places:
        return places
    if 0 in shape:  # then no element is looked up, and only a dimension without any is refused
        if any(shape[d] == 0 for d in at):
            raise IndexError("index is out of bounds for dimension with size 0")
        return places
    for nr, d in enumerate(at):
        n, index = shape[d], key[d]
        if not at_hand(index):
            continue
        outside = index[(index >= n) | (index < -n)]
        if outside.size:
            raise IndexError(f"index {outside.flat[0]} is out of bounds for dimension {nr} with size {n}")
    return places


def place_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape of index arrays."""
    try:
        return broadcast_shape(shapes)
    except RuntimeError:
        raise IndexError("shape mismatch: indexing tensors could not be broadcast together with shapes "
                         + ", ".join(map(shape_text, shapes))) from None


def index_spec(self: Tensor, indices: Sequence[Tensor | None]) -> Spec:
    """What indexing gives; a mask is refused, since how many elements it shows is in its data."""
    shape = self._array.shape
    at: list[int] = []
    for d, index in enumerate(indices):
        if index is None:
            continue
        if index.dtype in (bool_, uint8):
            raise NotImplementedError(DATA_DEPENDENT)
        if index.dtype not in (int32, int64):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        at.append(d)
    if len(indices) > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {len(indices)})")
    places = place_shape([indices[d]._array.shape for d in at])  # type: ignore[union-attr]
    front = at[0] if at[-1] - at[0] + 1 == len(at) else 0
    kept = [d for d in range(len(shape)) if d not in at]
    before, after = kept[:front], kept[front:]
    result = (*(shape[d] for d in before), *places, *(shape[d] for d in after))
    return Spec(result, self.dtype, _index_strides(self, indices, result, before, after))


def _index_strides(self: Tensor, indices: Sequence[Tensor | None], result: tuple[int, ...], before: Sequence[int],
                   after: Sequence[int]) -> tuple[int, ...] | None:
    """Element strides of an indexing result: as pointwise over `self`, without strides where indexed, and indices."""
    if element_strides(self._array) == contiguous_strides(self._array.shape):
        return None
    strides, middle = self._array.strides, len(result) - len(before) - len(after)
    shown = (*(strides[d] for d in before), *(0,) * middle, *(strides[d] for d in after))
    operands = [wrap_meta(result, self._array.dtype, shown)]
    places = result[len(before) : len(before) + middle]
    for index in indices:
        if index is not None:
            array = index._array
            spread = wrap_meta(array.shape, array.dtype, array.strides).expand(places)
            operands.append(spread.reshape((*(1,) * len(before), *places, *(1,) * len(after))))
    return pointwise_strides(result, operands)


class Picks(ArrayFamily):
    """Indexing: its shape is not inferred beforehand, since a mask's is in its data."""

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        xp, array_of, finished, direct = backend.xp, backend.array_of, backend.finished, backend.direct

        def on_ndarrays(source: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
            array = source._array
            if array.flags.c_contiguous and 1 not in array.shape:
                return wrap(picked(xp, array, [None if index is None else index._array for index in indices]))
            return kernel(source, indices)

        def kernel(source: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
            where = backend.place(None, (source, indices))
            array = array_of(source, where)
            arrays = [None if index is None else array_of(index, where) for index in indices]
            made = picked(xp, array, arrays)
            spec = Spec(made.shape, source.dtype)
            if array.size and (not array.flags.c_contiguous or 1 in array.shape):
                key = whole_key(array.shape, arrays, xp, warns=False)
                spec = index_spec(source, [None if part.__class__ is slice else
                                           wrap_meta(part.shape, part.dtype, part.strides) for part in key])
                if spec.strides is not None and direct:
                    laid_out = uninitialised(spec)
                    laid_out[...] = made
                    made = laid_out
            return finished(made, spec, where)

        return on_ndarrays if direct else kernel


def _index_each(call: Call) -> Result:
    any_index = any(call.batched[1])
    if not any_index and not call.batched[0]:
        return call.run(*call.values), False
    places, moved = with_samples(call)
    made = call.run(call.full(0), places)
    if moved is None:
        return made, True
    if not any_index:  # index dimensions went to the front, before the level's
        return made.movedim(moved, 0), True
    rank = max(i._array.ndim for i in places if i is not None) - 1
    return made.movedim(tuple(range(1, rank + 1)), tuple(range(moved + 1, moved + 1 + rank))), True


def _index_at(g: Any, self: Any, indices: Sequence[Any]) -> Any:
    at = [d for d, index in enumerate(indices) if index is not None]
    rank = max([indices[d].ndim for d in at])
    front = at[0] if at[-1] - at[0] + 1 == len(at) else 0
    named, kept = g.at[front : front + rank], iter((*g.at[:front], *g.at[front + rank :]))
    places = []
    for d, n in enumerate(self.shape):
        index = indices[d] if d < len(indices) else None
        if index is None:
            places.append(next(kept))
            continue
        own = named[rank - index.ndim :]
        own = [place if size != 1 else 0 for place, size in zip(own, index.shape, strict=True)]
        places.append(g.wrapped(index.index(*own), n))
    return self[tuple(places)]


index_with = function_of(op(
   "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", gathers=_index_at,
   kernel=Picks(index_spec, picked, widen=False),
   kernels={"cuda": "index.picked_elements", "npu": "index.index"},
   npu="aclnnIndex(self, indices, out)", public="", mixes_devices=True,
   grad=dict(self=lambda grad, self_shape, indices: grad.new_zeros(self_shape).index_put_(indices, grad, True)),
   samples=cases(case(t(3, 4), [ints(2, high=3)]), case(t(3, 4), [None, ints(2, 2, high=3)]),
                 case(t(3, 4, 2), [ints(2, high=3), None, ints(2, high=2)]), case(t(3, 4), [ints(2, high=3),
                                                                                            ints(2, 1, high=3)]),
                 error(IndexError, "index 5 is out of bounds for dimension 0 with size 3", t(3), [values([5])]),
                 error(IndexError, "shape mismatch: indexing tensors could not be broadcast together with shapes [2], "
                                   "[3]", t(3, 4),
                       [ints(2), ints(3)])), batch=_index_each, sharded="indexed"))


# one dimension -------------------------------------------------------------------------------------------------------


def _index_select_spec(self: Tensor, dim: int, index: Tensor) -> Spec:
    shape, places = self._array.shape, index._array
    dim = wrapped_dim(dim, len(shape))
    if places.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if places.dtype is not _KIND_INT64 and index.dtype not in (int32, int64):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if not shape:
        if places.size != 1:
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {places.size} value(s)")
        return Spec((), self.dtype)
    if has_elements(self) and not on_host(self):  # the host looks at the places itself
        check_has_places(len(shape), shape[dim], places.size)
    return Spec((*shape[:dim], places.size, *shape[dim + 1 :]), self.dtype)


def check_has_places(dims: int, n: int, count: int) -> None:
    """Raises where rows are to be chosen of none."""
    if dims > 1 and not n and count:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")


_FEW = 32  # up to so many elements Python is quicker than a reduction


def in_range(xp: Any, index: Any, n: int) -> bool:
    """Whether all indices are between 0 and n - 1; in one pass, since a negative one is large without its sign."""
    if not at_hand(index):
        return True
    if index.size <= _FEW:
        numbers = index.reshape(-1).tolist()
        return not numbers or (min(numbers) >= 0 and max(numbers) < n)
    return xp.maximum.reduce(index.view(xp.uint64 if index.itemsize == 8 else xp.uint32), axis=None) < n


def _index_select(xp: Any, self: Any, dim: int, index: Any, spec: Spec) -> Any:
    n = self.shape[dim] if self.ndim else 1
    check_has_places(self.ndim, n, index.size)
    if not in_range(xp, index, n):
        if self.ndim > 1 and (not self.size or dim % self.ndim == 1):  # of which PyTorch has a kernel of its own
            raise RuntimeError(f"INDICES element is out of DATA bounds, id={index[(index >= n) | (index < 0)].flat[0]} "
                               f"axis_dim={n}")
        raise IndexError("index out of range in self")
    if not self.ndim:
        return self.copy()
    return self.take(index.reshape(-1), dim, mode="clip")


def _index_select_each(call: Call) -> Result:
    _, dim, index = call.values
    if not call.batched[2]:
        return along_dimensions(call)
    if not call.ndim(0) or not call.ndim(2):
        return one_by_one(call)
    value = in_a_row(call.full(0), dim)
    return value[row_numbers(call, index), index].movedim(1, shifted(dim, call.ndim(0))), True


def _index_select_at(g: Any, self: Any, dim: int, index: Any) -> Any:
    if not self.ndim:
        raise NotImplementedError("a number has no dimension to choose from")
    dim %= self.ndim
    chosen = g.within(index.index(*[g.at[dim]][: index.ndim]), self.shape[dim])
    return self[(*g.at[:dim], chosen, *g.at[dim + 1 :])]


op("index_select(Tensor self, int dim, Tensor index) -> Tensor", gathers=_index_select_at,
   apart="self index", resizes_expanded=False,
   kernel=moves(_index_select_spec, _index_select),
   kernels={"cpu": "index.index_select", "cuda": "index.index_select", "npu": "index.picked",
            "sparse_coo": "rearrange.index_selected"},
   npu="aclnnIndexSelect(self, dim, index, out)",
   grad=dict(self=lambda grad, self_shape, dim, index: grad.new_zeros(self_shape).index_add_(dim, index, grad)),
   samples=cases(case(t(3, 4), 0, ints(2, high=3)), case(t(3, 4), -1, ints(5, high=3)), case(t(), 0, values([0])),
                 case(t(3, 4), 1, ints(0)), case(t(3, 2, layout="transposed"), 0, ints(2, high=2)),
                 error(IndexError, "index out of range in self", t(3), 0, values([3])),
                 error(IndexError, "index_select(): Index is supposed to be a vector", t(3), 0, ints(2, 2))),
   linear=True, batch=_index_select_each,
   out=Out("exact", "{name}(): self and result must have the same scalar type"), sharded="index_selected")


def check_index_sizes(self: Tensor, dim: int, index: Tensor, name: str) -> int:
    """The dimension counted from the front, if the index has as many as `self` and a fit type."""
    dim = wrapped_dim(dim, self._array.ndim)
    if index._array.dtype is not _KIND_INT64 and index.dtype not in (int32, int64) and index._array.size:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    return dim


def _gather_spec(self: Tensor, dim: int, index: Tensor, sparse_grad: bool) -> Spec:
    dim = check_index_sizes(self, dim, index, "gather")
    shape, places = self._array.shape, index._array.shape
    if 0 in places:
        return Spec(places, self.dtype)
    if not places or not shape:
        if max(len(places), 1) != max(len(shape), 1):
            raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
        return Spec(places, self.dtype)
    if len(shape) != len(places):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for d, n in enumerate(places):
        if d != dim and n > shape[d]:
            raise RuntimeError(f"Size does not match at dimension {d} expected index {shape_text(places)} to be no "
                               f"larger than self {shape_text(shape)} apart from dimension {dim}")
    return Spec(places, self.dtype)


@functools.lru_cache(maxsize=256)
def _cell_offsets(xp: Any, shape: tuple[int, ...], places: tuple[int, ...], dim: int) -> Any:
    """What the dimensions other than `dim` add to the flat place of a cell."""
    made = xp.zeros((1,) * len(shape), xp.int64)
    for d, n in enumerate(places):
        if d != dim and n > 1:
            step = math.prod(shape[d + 1 :])
            made = made + xp.arange(0, n * step, step).reshape((-1,) + (1,) * (len(shape) - 1 - d))
    return made


def flat_places(xp: Any, shape: tuple[int, ...], dim: int, index: Any) -> Any:
    """Where in a row-major array of this shape the cells lie whose place along `dim` an index array gives."""
    if index.ndim < 2:
        return index
    step = math.prod(shape[dim + 1 :])
    small = index.size <= 4096  # what is cached should not be large
    offsets = (_cell_offsets if small else _cell_offsets.__wrapped__)(xp, shape, index.shape, dim)
    return index * step + offsets if step > 1 else index + offsets


def refuse_places(n: int, index: Any, dim: int, *, kind: type = RuntimeError) -> None:
    outside = index[(index >= n) | (index < 0)]
    raise kind(f"index {outside.flat[0]} is out of bounds for dimension {dim} with size {n}")


def check_along(xp: Any, array: Any, dim: int, index: Any) -> int:
    """The dimension counted from the front, if no index leaves it."""
    dim = dim % array.ndim if array.ndim else 0
    n = array.shape[dim] if array.ndim else 1
    if not in_range(xp, index, n):
        refuse_places(n, index, dim)
    return dim


def _gather(xp: Any, self: Any, dim: int, index: Any, sparse_grad: bool) -> Any:
    if not index.size:
        return xp.empty(index.shape, self.dtype)
    dim = check_along(xp, self, dim, index)
    return self.reshape(-1).take(flat_places(xp, self.shape, dim, index), mode="clip")


def _gather_grad(grad: Tensor, shape: tuple[int, ...], dim: int, index: Tensor, sparse_grad: bool) -> Any:
    if not sparse_grad or not shape:
        return grad.new_zeros(shape).scatter_add(dim, index, grad)  # type: ignore[attr-defined]
    ones: Any = index.new_ones(index.shape)  # type: ignore[attr-defined]
    places = [ones.cumsum(d) - 1 for d in range(len(shape))]
    places[dim] = index
    stacked = call_bound(registry.get("stack"), (places, 0)).reshape(len(shape), -1)
    return call_bound(registry.get("_sparse_coo_tensor_with_dims_and_tensors"), (
        len(shape), 0, shape, stacked, grad.reshape(-1), False))  # type: ignore[attr-defined]


def _gather_at(g: Any, self: Any, dim: int, index: Any, sparse_grad: bool) -> Any:
    if not self.ndim or not index.ndim:
        raise NotImplementedError("a number has no dimension to choose from")
    dim %= self.ndim
    return self[(*g.at[:dim], g.within(index.index(*g.at), self.shape[dim]), *g.at[dim + 1 :])]


op("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gathers=_gather_at,
   apart="self index",
   kernel=moves(_gather_spec, _gather),
   kernels={"cpu": "index.gather", "cuda": "index.gather", "npu": "index.picked"},
   npu="aclnnGather(self, dim, index, out)",
   grad=dict(self=lambda grad, self_shape, dim, index, sparse_grad: _gather_grad(grad, self_shape, dim, index,
                                                                                 sparse_grad)),
   samples=cases(case(t(2, 3), 1, ints(2, 2, high=3)), case(t(2, 3), 0, ints(1, 3, high=2)), case(t(), 0, ints(high=1)),
                 case(t(2, 3, 4), -2, ints(2, 5, 4, high=3)), case(t(3), 0, ints(high=3)), case(t(2, 3), 1, ints(2, 0)),
                 error(RuntimeError, "index 3 is out of bounds for dimension 1 with size 3", t(2, 3), 1, values([[3]])),
                 error(RuntimeError, "Index tensor must have the same number of dimensions as input tensor", t(2, 3),
                       1, ints(2))), linear=True, batch=elementwise_indices(like=2), sharded="gathered")


@composite("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
           apart="self",
           samples=cases(case(t(2, 3), ints(2, 2, high=3), 1), case(t(2, 3), ints(4, high=6)),
                         case(t(2, 3), ints(1, 1, high=2), 0)))
def _take_along_dim(self, indices, dim):
    if indices.dtype is not int64:
        raise RuntimeError("torch.take_along_dim(): dtype of indices should be Long but got "
                           f"{indices.dtype.scalar_name}")
    if dim is None:
        return self.reshape((-1,)).gather(0, indices.reshape((-1,)))
    ndim = self._array.ndim
    if ndim != indices._array.ndim:
        raise RuntimeError("torch.take_along_dim(): input and indices should have the same number of dimensions, but "
                           f"got {ndim} dimensions for input, and {indices._array.ndim} dimensions for indices")
    dim = wrapped_dim(dim, ndim)
    shape, places = self._array.shape, indices._array.shape
    common = broadcast_shape([(*shape[:dim], 1, *shape[dim + 1 :]), (*places[:dim], 1, *places[dim + 1 :])])
    wrapped = indices.remainder(max(shape[dim], 1)) if ndim else indices
    return self.expand((*common[:dim], shape[dim], *common[dim + 1 :])).gather(
        dim, wrapped.expand((*common[:dim], places[dim], *common[dim + 1 :])))


# the flattened tensor ------------------------------------------------------------------------------------------------


def _take_spec(self: Tensor, index: Tensor) -> Spec:
    if index.dtype is not int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype.scalar_name}")
    if not self._array.size and index._array.size:
        raise IndexError("take(): tried to take from an empty tensor")
    return Spec(index._array.shape, self.dtype)


def check_flat(index: Any, n: int) -> None:
    outside = index[(index >= n) | (index < -n)]
    if outside.size:
        raise IndexError(f"out of range: tried to access index {outside.flat[0]} on a tensor of {n} elements.")


def _take(xp: Any, self: Any, index: Any) -> Any:
    try:
        return self.reshape(-1).take(index)
    except IndexError:
        check_flat(index, self.size)
        raise


def _take_each(call: Call) -> Result:
    index, n = call.values[1], math.prod(call.args[0].shape)
    places = (index % n if n else index).reshape((*index.shape[: call.batched[1]], -1))
    value = call.full(0).reshape((call.size, n))
    return value.gather(1, call.expanded(places, call.batched[1])).reshape((call.size, *call.args[1].shape)), True


def _take_at(g: Any, self: Any, index: Any) -> Any:
    rest, places = g.wrapped(index.index(*g.at), math.prod(self.shape)), []
    for d in range(1, self.ndim):
        length = math.prod(self.shape[d:])
        places.append(rest // length)
        rest = rest - places[-1] * length
    return self[tuple([*places, rest][: self.ndim])]


op("take(Tensor self, Tensor index) -> Tensor", gathers=_take_at,
   apart="self index", resizes_expanded=False,
   kernel=moves(_take_spec, _take),
   kernels={"cpu": "index.take", "cuda": "index.take"},
   npu="aclnnTake(self, index, out)",
   grad=dict(self=lambda grad, self_shape, index: grad.new_zeros(self_shape).put_(index, grad, True)),
   samples=cases(case(t(2, 3), ints(4, high=6)), case(t(3, 2, layout="transposed"), ints(2, 2, high=6)),
                 case(t(2), values([-1])),
                 error(IndexError, "out of range: tried to access index 6 on a tensor of 6 elements.", t(2, 3),
                       values([6]))),
   out=Out("exact", "{name}(): self and out expected to have the same dtype, but got self.dtype = {made} and "
                    "out.dtype = {given}"), linear=True, batch=_take_each)


# masks ---------------------------------------------------------------------------------------------------------------


def _masked_select_spec(self: Tensor, mask: Tensor) -> Spec:
    if mask.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    broadcast_shape([mask._array.shape, self._array.shape])
    if not has_elements(self):
        raise NotImplementedError("aten::masked_select: attempted to run this operator with Meta tensors, but how many "
                                  "elements are selected depends on data that they do not have")
    return Spec((-1,), self.dtype)


def _masked_select(xp: Any, self: Any, mask: Any) -> Any:
    if self.shape != mask.shape:
        self, mask = xp.broadcast_arrays(self, mask)
    return self[mask]


def _masked_select_each(call: Call) -> Result:
    if not call.batched[1]:
        mask = call.values[1]
        shape = broadcast_shape([call.args[0].shape, mask.shape]) or (1,)
        value = aligned(call.values[0], True, len(shape)).expand((call.size, *shape))
        return called("index.Tensor", value, (None, *mask.expand(shape).nonzero().unbind(1))), True
    raise RuntimeError("vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this "
                       "because for each batch this would return a differently shaped Tensor. Please file an issue at "
                       "https://github.com/pytorch/pytorch/issues if you need this feature.")


op("masked_select(Tensor self, Tensor mask) -> Tensor", sized_by_data=True,
   apart="self mask", resizes_expanded=False,
   kernel=moves(_masked_select_spec, _masked_select),
   grad=dict(self=lambda grad, self_shape, mask: _masked_select_grad(grad, self_shape, mask)),
   samples=cases(case(t(2, 3), bools(2, 3)), case(t(2, 3), bools(3)), case(t(3), bools(2, 1)), case(t(), bools()),
                 error(RuntimeError, "masked_select: expected BoolTensor for mask", t(2), ints(2))),
   batch=_masked_select_each,
   out=Out("exact", "{name}(): self and result must have the same scalar type"),
   kernels={"cuda": "nonzero.masked_select", "npu": "index.masked_select"})


def _masked_select_grad(grad: Tensor, self_shape: tuple[int, ...], mask: Tensor) -> Tensor:
    shape = broadcast_shape([self_shape, mask._array.shape])
    return grad.new_zeros(shape).masked_scatter_(mask, grad)


# where and nonzero ---------------------------------------------------------------------------------------------------


def _where_spec(condition: Tensor, self: Any, other: Any) -> Spec:
    kind = condition.dtype
    if kind is uint8:
        warn_once("where received a uint8 condition tensor. This behavior is deprecated and will be removed in a "
                  "future version of PyTorch. Use a boolean condition instead.")
    elif kind is not bool_:
        raise RuntimeError("where expected condition to be a boolean tensor, but got a tensor with dtype "
                           f"{kind.scalar_name}")
    tensors = [operand for operand in (condition, self, other) if hasattr(operand, "_array")]
    shape = broadcast_shape([tensor._array.shape for tensor in tensors])
    strides = None if 1 not in shape and all(map(_is_row_major, tensors)) else pointwise_strides(shape, tensors)
    return Spec(shape, common_dtype((self, other)), strides)


def _is_row_major(tensor: Tensor) -> bool:
    return tensor.is_contiguous()


def _where(xp: Any, condition: Any, self: Any, other: Any, spec: Spec) -> Any:
    kind = spec.dtype.np
    self = self.astype(kind, copy=False) if hasattr(self, "astype") else xp.asarray(self).astype(kind)
    other = other.astype(kind, copy=False) if hasattr(other, "astype") else xp.asarray(other).astype(kind)
    made = xp.where(condition, self, other)
    if spec.strides is not None or not made.flags.c_contiguous:
        laid_out = uninitialised(spec, xp)
        laid_out[...] = made
        return laid_out
    return made


class Chooses(ArrayFamily):
    """`where`: operands of one type, one shape and row-major go straight to NumPy."""

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        general, choose = super().kernel(operator, backend), backend.xp.where
        if not backend.direct:
            return general

        def kernel(condition: Tensor, chosen: Any, other: Any) -> Tensor:
            if chosen.__class__ in NUMBERS or other.__class__ in NUMBERS:
                return general(condition, chosen, other)
            mask, a, b = condition._array, chosen._array, other._array
            if a.dtype is not b.dtype or mask.dtype is not bool_.np or not mask.shape == a.shape == b.shape:
                return general(condition, chosen, other)
            if 1 in a.shape or not (mask.flags.c_contiguous and a.flags.c_contiguous and b.flags.c_contiguous):
                return general(condition, chosen, other)
            return wrap(choose(mask, a, b))

        return kernel


def _where_each(call: Call) -> Result:
    kinds = {v.dtype for v in call.values[1:] if isinstance(v, Tensor)}
    for i in (1, 2):
        if len(kinds) > 1 and call.batched[i] and not call.ndim(i):
            call.values[i] = call.values[i].to(common_dtype(call.args[1:]))
    return broadcast(call)


where: Callable = function_of(op(
   "where.self(Tensor condition, Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
   aligned="condition self other", resizes_expanded=False,
   kernel=Chooses(_where_spec, _where, widen=False),
   kernels={"cuda": "index.where"},
   npu="aclnnSWhere(condition, self:out, other:out, out)",
   grad=dict(self=elementwise(lambda xp, grad, condition: xp.where(condition, grad, 0)),
             other=elementwise(lambda xp, grad, condition: xp.where(condition, 0, grad))),
   samples=cases(case(bools(2, 3), t(2, 3), t(2, 3)), case(bools(3), t(2, 1), t()), case(bools(2, 3), t(2, 3), 1.5),
                 case(bools(2, 3), 1, t(3)), case(bools(2), 1, 0), case(bools(0, 2), t(2), t(2)),
                 case(bools(2), t(2), ints(2)),
                 error(RuntimeError, "where expected condition to be a boolean tensor, but got a tensor with dtype "
                                     "Long", ints(2), t(2),
                       t(2))), batch=_where_each,
   out=Out("exact", "Expected out type to be {made} but got {given}", tensors="self other",
           first=lambda condition, *chosen: common_dtype(chosen)), aten="self", sharded="pointwise"))


@composite("where(Tensor condition) -> Tensor[]", samples=cases(case(bools(2, 3))),
           out=Out(refused=True))
def _where_true(condition):
    return condition.nonzero(as_tuple=True)


def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor's elements where the condition is true, else `other`'s."""
    return where(condition, self, other)


Tensor.where = _where_method  # type: ignore[assignment, method-assign]


def _nonzero_spec(self: Tensor) -> Spec:
    if not has_elements(self):
        raise NotImplementedError(DATA_DEPENDENT)
    return Spec((-1, self._array.ndim), int64)


def _nonzero(xp: Any, self: Any) -> Any:
    if not self.ndim:
        return xp.empty((int(bool(self)), 0), xp.int64)
    return xp.array(self.nonzero()).T


_NONZERO = op("nonzero(Tensor self) -> Tensor", sized_by_data=True, kernel=moves(_nonzero_spec, _nonzero), public="",
              samples=cases(case(values([[1.0, 0.0], [0.0, 2.0]])), case(bools(2, 3)), case(t(0, 2))),
              batch=dynamic_shape,
              out=Out("exact", "nonzero: Expected out tensor to have scalar type Long but got scalar type{given}",
                      grad="ignored", lies_as_made="resized"),
              kernels={"cpu": "index.nonzero", "cuda": "nonzero.nonzero", "npu": "index.nonzero"})
_nonzero_places = function_of(_NONZERO)


@composite("nonzero_numpy(Tensor self) -> Tensor[]", public="", samples=cases(case(bools(2, 3)), case(bools())))
def _nonzero_numpy(self):
    return (self if self._array.ndim else self.unsqueeze(0)).nonzero().unbind(1)


_nonzero_columns = function_of(registry.get("nonzero_numpy"))


def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:  # noqa: A002 - PyTorch's name
    """The places of elements other than zero: a row each, or with `as_tuple` an index tensor a dimension."""
    if as_tuple.__class__ is not bool:
        raise TypeError(expected("nonzero", "as_tuple", "bool", as_tuple))
    if as_tuple:
        if out is not None:
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        return _nonzero_columns(input)
    return _nonzero_places(input) if out is None else _nonzero_places(input, out=out)


Tensor.nonzero = nonzero  # type: ignore[assignment, method-assign]


@composite("argwhere(Tensor self) -> Tensor", samples=cases(case(bools(2, 3)), case(bools())), out=None)
def _argwhere(self):
    return self.nonzero()


def _nonzero_rows(xp: Any, self: Any, size: int, fill_value: int, spec: Spec) -> Any:
    made = xp.full(spec.shape, fill_value, xp.int64)
    places = _nonzero(xp, self)[:size]
    made[: len(places)] = places
    return made


op("nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor",
   kernel=moves(lambda self, size, fill_value: Spec((size, self._array.ndim), int64), _nonzero_rows),
   samples=cases(case(bools(2, 3), size=4), case(bools(2, 3), size=1)),
   kernels={"cuda": "nonzero.nonzero_static", "npu": "index.nonzero_static"})


# places that a mask may rule out -------------------------------------------------------------------------------------


def _bounded(self: Any, indices: Sequence[Any]) -> list[Any]:
    """The indices, each within its dimension."""
    return [None if index is None else index.clamp(-n, n - 1) for index, n in zip(indices, self.shape)]


@composite("_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor", public="torch",
           samples=cases(case(t(5), values([True, False, True]), (values([0, 9, 2]),), 1.5)), out=None, aten=LEAF)
def _unsafe_masked_index(self, mask, indices, fill):
    return index_with(self, _bounded(self, indices)).masked_fill(~mask, fill)


@composite("_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
           public="torch",
           samples=cases(case(t(5), values([True, False, True]), (values([0, 9, 0]),), t(3))), out=None, aten=LEAF)
def _unsafe_masked_index_put_accumulate(self, mask, indices, values):
    return self.index_put(_bounded(self, indices), values.masked_fill(~mask, 0), True)
