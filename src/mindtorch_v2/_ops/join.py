"""Tensors put together: beside each other, repeated, padded, in grids."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._autograd.names import OTHERWISE
from .._backends.interface import Backend
from .._core.device import contiguous_format
from .._core.dtype import bool_, dtype, get_default_dtype, int32, int64, promote_types
from .._core.elements import has_elements, type_text
from .._core.geometry import channels_last_strides, element_strides, wrapped_dim
from .._core.offers import offers
from .._core.storage import MOST_DIMS, refuse_rank
from .._core.tensor import Tensor, wrap
from .._core.threads import get_num_threads
from .._dispatch.registry import Operator, registry
from ._declare.batch import Call, Result, Rule, dynamic_shape, in_front, shifted, spread
from ._declare.composites import Parts
from ._declare.families import ArrayFamily, moves, planning_launches
from ._declare.op import composite, function_of, op
from ._declare.out import JOINED
from ._declare.rules import Spec, common_dtype, copied_strides, shape_text
from ._declare.samples import case, cases, error, ints, t, values
from .copy import store, stored_number, suggested_strides, uninitialised
from .create import checked_size, empty
from .view import atleast_1d, atleast_2d, atleast_3d, warn_once

_arange = function_of(registry.get("arange.start_step"))

# beside each other ---------------------------------------------------------------------------------------------------


def _cat_spec(tensors: Sequence[Tensor], dim: int) -> Spec:
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    shapes, kind, one_kind = [], None, True
    for i, tensor in enumerate(tensors):
        array = tensor._array
        shape = array.shape
        if not shape:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
        one_kind = one_kind and (kind is None or kind is array.dtype)
        kind = array.dtype
        if shape != (0,):
            shapes.append((i, shape))
    result_type = tensors[0].dtype if one_kind else common_dtype(tensors)
    if not shapes:
        return Spec((0,), result_type)
    first = shapes[0][1]
    dim = wrapped_dim(dim, len(first))
    total, before, after = 0, first[:dim], first[dim + 1 :]
    for i, shape in shapes:
        if shape[:dim] != before or shape[dim + 1 :] != after:
            _refuse_sizes(first, shape, i, dim)
        total += shape[dim]
    return Spec((*before, total, *after), result_type, _common_format((*before, total, *after), tensors))


def _refuse_sizes(first: tuple[int, ...], shape: tuple[int, ...], i: int, dim: int) -> None:
    if len(first) != len(shape):
        raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}")
    wanted, given = next((a, b) for d, (a, b) in enumerate(zip(first, shape, strict=True)) if a != b and d != dim)
    raise RuntimeError(f"Sizes of tensors must match except in dimension {dim}. Expected size {wanted} but got size "
                       f"{given} for tensor number {i} in the list.")


def _common_format(shape: tuple[int, ...], tensors: Sequence[Tensor]) -> tuple[int, ...] | None:
    """Channels-last strides if all operands lie so, else None."""
    if len(shape) not in (4, 5) or tensors[0].is_contiguous():
        return None
    if any(suggested_strides(tensor, shape) is None for tensor in tensors):
        return None
    return channels_last_strides(shape)


_LARGE = 1 << 16


def _is_shared(elements: int) -> bool:
    """Whether several threads may copy so many elements; NumPy uses one."""
    return elements >= _LARGE and get_num_threads() > 1


def _concatenated(xp: Any, arrays: Sequence[Any], dim: int, spec: Spec) -> Any:
    """The arrays beside each other, laid out as the spec says whatever their own layouts."""
    kind, plain = spec.dtype.np, spec.strides is None and not _is_shared(math.prod(spec.shape))
    for array in arrays:
        if array.dtype is not kind or not array.flags.c_contiguous:
            plain = False
    if plain and not offers:
        return xp.concatenate(arrays, dim)
    made = uninitialised(spec, xp)
    if plain:
        return xp.concatenate(arrays, dim, made)
    start, lead = 0, (slice(None),) * dim
    for array in arrays:
        end = start + array.shape[dim]
        store(xp, made[(*lead, slice(start, end))], array)
        start = end
    return made



class Joins(ArrayFamily):
    """Arrays put beside each other: few elements of one type and row-major are NumPy's matter, errors included."""

    out = JOINED

    def __init__(self, infer: Callable, array: Callable, joined: Callable) -> None:
        super().__init__(infer, array, widen=False, rearranges=True)
        self.joined = joined

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        general, joined = super().kernel(operator, backend), self.joined
        if not backend.direct:
            return general

        def kernel(tensors: Sequence[Tensor], dim: int) -> Tensor:
            if not tensors:
                return general(tensors, dim)
            arrays = [tensor._array for tensor in tensors]
            kind, size = arrays[0].dtype, 0
            for array in arrays:
                if array.dtype is not kind or not array.flags.c_contiguous:
                    return general(tensors, dim)
                size += array.size
            if offers or _is_shared(size):
                return general(tensors, dim)
            try:
                made = joined(arrays, dim)
            except ValueError:  # the error is inferred in PyTorch's words, unless PyTorch allows it
                return general(tensors, dim)
            return wrap(made) if made.flags.c_contiguous else general(tensors, dim)

        if backend.lookups is None:
            return kernel
        return planning_launches(operator, backend, self.infer, lambda twins, _: self.launches(operator, twins), kernel)


def _cat(xp: Any, tensors: Sequence[Any], dim: int, spec: Spec) -> Any:
    ndim = len(spec.shape)
    kept = [a for a in tensors if a.ndim == ndim] if ndim != 1 else tensors
    return _concatenated(xp, kept, dim % ndim, spec)


def _cat_grad(grad: Tensor, tensors_shape: Sequence[tuple[int, ...]], dim: int) -> list[Tensor]:
    ndim = grad._array.ndim
    dim %= ndim
    start, grads = 0, []
    for shape in tensors_shape:
        if shape == (0,):  # an empty vector, which is passed over
            grads.append(empty(shape, dtype=grad.dtype, device=grad._device).zero_())
            continue
        grads.append(grad.narrow(dim, start, shape[dim]))
        start += shape[dim]
    return grads


def _joined(*, new_dimension: bool) -> Rule:
    def rule(call: Call) -> Result:
        parts = [call.expanded(v, b) for v, b in zip(call.values[0], call.batched[0], strict=True)]
        if not new_dimension:  # an empty vector joins anything
            parts = [p for p in parts if p._array.shape[1:] != (0,)] or parts
        return call.run(tuple(parts), shifted(call.values[1], parts[0]._array.ndim - 1 + new_dimension)), True

    return rule


def _one_of(g: Any, place: Any, ends: Sequence[int], part: Callable[[int], Any]) -> Any:
    """The part of a dimension, which ends where is told, that a place is in."""
    if len(ends) == 1:
        return part(0)
    half = len(ends) // 2
    return g.chosen(place < ends[half - 1], lambda: _one_of(g, place, ends[:half], part),
                    lambda: _one_of(g, place, ends[half:], lambda nr: part(half + nr)))


_MOST_PARTS = 8  # that are rather told apart element by element than copied one by one


def _refuse_parts(parts: Sequence[Any]) -> None:
    if len(parts) > _MOST_PARTS:
        raise NotImplementedError("too many parts for each element to look for its own")
    if any(part.dtype != parts[0].dtype for part in parts):
        raise NotImplementedError("parts of several types")
    if any(0 in part.shape for part in parts):
        raise NotImplementedError("parts of nothing, which may have fewer dimensions")


def _cat_at(g: Any, tensors: Sequence[Any], dim: int) -> Any:
    _refuse_parts(tensors)
    dim %= len(g.at)
    ends = list(itertools.accumulate([tensor.shape[dim] for tensor in tensors]))

    def part(nr: int) -> Any:
        place = g.at[dim] - (ends[nr - 1] if nr else 0)
        return tensors[nr][(*g.at[:dim], place, *g.at[dim + 1 :])]

    return _one_of(g, g.at[dim], ends, part)


cat = function_of(op(
   "cat(Tensor[] tensors, int dim=0) -> Tensor",
   apart="tensors", gathers=_cat_at,
   kernel=Joins(_cat_spec, _cat, np.concatenate),
   kernels={"cuda": "copy.joined", "npu": "index.cat", "sparse_coo": "rearrange.joined"},
   npu="aclnnCat(tensors, dim, out)", grad=dict(tensors=_cat_grad), aliases=("concat", "concatenate"),
   samples=cases(case([t(2, 3), t(1, 3)]), case([t(2, 3), t(2, 2)], 1), case([t(2, 3), t(2, 2)], -1),
                 case([t(0), t(2, 3)], 1),
                 case([t(2), ints(3)]), case([t(2, 3, layout="transposed"), t(2, 3)]),
                 error(ValueError, "torch.cat(): expected a non-empty list of Tensors", []),
                 error(RuntimeError, "zero-dimensional tensor (at position 0) cannot be concatenated", [t(), t()]),
                 error(RuntimeError, "Tensors must have same number of dimensions: got 2 and 1", [t(2, 3), t(3)]),
                 error(RuntimeError, "Sizes of tensors must match except in dimension 0. Expected size 3 but got size "
                                     "2 for tensor "
                       "number 1 in the list.", [t(2, 3), t(2, 2)])), linear=True, batch=_joined(new_dimension=False),
   autocast=dict(cpu="widest"), sharded="joined"))


def _stack_spec(tensors: Sequence[Tensor], dim: int) -> Spec:
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    array = tensors[0]._array
    shape, kind, one_kind = array.shape, array.dtype, True
    for i, tensor in enumerate(tensors):
        array = tensor._array
        if array.shape != shape:
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {shape_text(shape)} at entry 0 "
                               f"and {shape_text(array.shape)} at entry {i}")
        one_kind = one_kind and array.dtype is kind
    dim = wrapped_dim(dim, len(shape) + 1)
    made = (*shape[:dim], len(tensors), *shape[dim:])
    if len(made) > MOST_DIMS and has_elements(tensors[0]):
        refuse_rank(made)
    return Spec(made, tensors[0].dtype if one_kind else common_dtype(tensors))


def _stack(xp: Any, tensors: Sequence[Any], dim: int, spec: Spec) -> Any:
    dim %= len(spec.shape)
    place = (*(slice(None),) * dim, None)
    return _concatenated(xp, [a[place] for a in tensors], dim, spec)


def _stacked(arrays: Sequence[np.ndarray], dim: int) -> np.ndarray:
    shape = arrays[0].shape
    if dim != 0:
        raise ValueError("not one block after the other")
    for array in arrays:
        if array.shape != shape:
            raise ValueError("shapes differ")
    if not shape:
        return np.array(arrays)
    return np.concatenate(arrays).reshape((len(arrays), *shape))


def _stack_at(g: Any, tensors: Sequence[Any], dim: int) -> Any:
    _refuse_parts(tensors)
    dim %= len(g.at)
    places = (*g.at[:dim], *g.at[dim + 1 :])
    return _one_of(g, g.at[dim], range(1, len(tensors) + 1), lambda nr: tensors[nr][places])


stack = function_of(op(
   "stack(Tensor[] tensors, int dim=0) -> Tensor",
   apart="tensors", gathers=_stack_at,
   kernel=Joins(_stack_spec, _stack, _stacked),
   kernels={"cuda": "copy.joined", "npu": "index.stack", "sparse_coo": "rearrange.stacked"},
   npu="aclnnStack(tensors, dim, out)",
   grad=dict(tensors=lambda grad, dim: [grad.select(dim, i) for i in range(grad.shape[dim])]),
   samples=cases(case([t(2, 3), t(2, 3)]), case([t(2, 3), t(2, 3)], 1), case([t(2, 3), t(2, 3)], -1), case([t(), t()]),
                 error(RuntimeError, "stack expects a non-empty TensorList", []),
                 error(RuntimeError, "stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [2, 2] "
                                     "at entry 1",
                       [t(2, 3), t(2, 2)])), linear=True, batch=_joined(new_dimension=True),
   autocast=dict(cpu="widest"), sharded="joined"))


def _refuse_none(tensors: Sequence[Tensor], name: str) -> None:
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")


_STACKED = cases(case([t(3), t(3)]), case([t(2, 3), t(2, 3)]), case([t(), t()]), case([t(2, 3, 2), t(2, 3, 2)]))


@composite("hstack(Tensor[] tensors) -> Tensor", samples=_STACKED, apart="tensors",
           out=JOINED._replace(by="cat"))
def _hstack(tensors):
    _refuse_none(tensors, "hstack")
    grown = [atleast_1d(tensor) for tensor in tensors]
    return cat(grown, 0 if grown[0]._array.ndim == 1 else 1)


@composite("vstack(Tensor[] tensors) -> Tensor", aliases=("row_stack",), samples=_STACKED,
           apart="tensors", out=JOINED._replace(by="cat"))
def _vstack(tensors):
    _refuse_none(tensors, "vstack")
    return cat([atleast_2d(tensor) for tensor in tensors], 0)


@composite("dstack(Tensor[] tensors) -> Tensor", samples=_STACKED, apart="tensors",
           out=JOINED._replace(by="cat"))
def _dstack(tensors):
    _refuse_none(tensors, "dstack")
    return cat([atleast_3d(tensor) for tensor in tensors], 2)


@composite("column_stack(Tensor[] tensors) -> Tensor", samples=_STACKED, apart="tensors", out=JOINED)
def _column_stack(tensors):
    _refuse_none(tensors, "column_stack")
    return cat([a if a._array.ndim > 1 else a.reshape((a._array.size, 1)) for a in tensors], 1)


# repeated ------------------------------------------------------------------------------------------------------------


def _repeat_spec(self: Tensor, repeats: tuple[int, ...]) -> Spec:
    shape = self._array.shape
    if len(repeats) < len(shape):
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape = (1,) * (len(repeats) - len(shape)) + shape
    return Spec(checked_size(tuple([n * r for n, r in zip(shape, repeats, strict=True)]), "repeat"), self.dtype)


def _interleaved(shape: tuple[int, ...], repeats: tuple[int, ...]) -> tuple[int, ...]:
    """Each repeat before the size it repeats: (r0, n0, r1, n1, ...)."""
    shape = (1,) * (len(repeats) - len(shape)) + shape
    return tuple([n for pair in zip(repeats, shape, strict=True) for n in pair])


def _repeat(xp: Any, self: Any, repeats: tuple[int, ...], spec: Spec) -> Any:
    if 2 * len(repeats) > MOST_DIMS:
        return xp.tile(self, repeats)
    made = xp.empty(spec.shape, self.dtype)
    if made.size:
        ones = _interleaved(self.shape, (1,) * len(repeats))
        store(xp, made.reshape(_interleaved(self.shape, repeats)), self.reshape(ones))
    return made


def _repeat_grad(grad: Tensor, self_shape: tuple[int, ...], repeats: tuple[int, ...]) -> Tensor:
    if 0 in repeats:
        return grad.new_zeros(self_shape)
    if all(n == 1 for n in repeats):
        return grad.sum_to_size(self_shape) if len(repeats) > len(self_shape) else grad
    return grad.reshape(_interleaved(self_shape, repeats)).sum(tuple(range(0, 2 * len(repeats), 2))).reshape(self_shape)


def _repeat_at(g: Any, self: Any, repeats: tuple[int, ...]) -> Any:
    behind = zip(g.at[len(repeats) - self.ndim :], self.shape, repeats[len(repeats) - self.ndim :], strict=True)
    return self[tuple([place if count == 1 else place % n for place, n, count in behind])]


op("repeat(Tensor self, int[] repeats) -> Tensor",
   kernel=moves(_repeat_spec, _repeat, rearranges=True), gathers=_repeat_at,
   npu="aclnnRepeat(self, repeats, out)",
   grad=dict(self=_repeat_grad), public="Tensor",
   samples=cases(case(t(2, 3), (2, 2)), case(t(3), (2, 1, 2)), case(t(), (3,)), case(t(2), (0,)), case(t(2, 3), (1, 1)),
                 error(RuntimeError, "Number of dimensions of repeat dims can not be smaller than number of dimensions "
                                     "of tensor",
                       t(2, 3), (2,))), linear=True, batch=spread(lambda call: 1), sharded="same_lengths")


@composite("tile(Tensor self, SymInt[] dims) -> Tensor", samples=cases(case(t(2, 3), (2,)), case(t(3), (2, 1, 2)),
                                                                    case(t(2, 3), ())), out=None)
def _tile(self, dims):
    return self.repeat((1,) * (self._array.ndim - len(dims)) + dims)


def _counted_spec(repeats: Tensor, output_size: int | None) -> Spec:
    if repeats._array.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.dtype not in (int32, int64):
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{repeats.dtype.scalar_name}'")
    if output_size is None and not has_elements(repeats):
        raise NotImplementedError("aten::repeat_interleave.Tensor: the size of the result depends on data that meta "
                                  "tensors do not have")
    return Spec((-1 if output_size is None else output_size,), repeats.dtype)


def _counted(xp: Any, repeats: Any, output_size: int | None) -> Any:
    if repeats.size and repeats.min() < 0:
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and output_size != repeats.sum():
        raise RuntimeError("allocated size does not match required size")
    return xp.repeat(xp.arange(repeats.size, dtype=repeats.dtype), repeats)


@composite("repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, int? output_size=None) -> "
           "Tensor", sized_by_data=True,
           samples=cases(case(t(2, 3), values([1, 2]), 0), case(t(2, 3), values([2]), 1), case(t(2), values([0, 2])),
                         error(RuntimeError, "repeats must have the same size as input along dim, but got "
                                             "repeats.size(0) = 3 and "
                               "input.size(0) = 2", t(2, 3), values([1, 2, 3]), 0)), out=None)
def _repeat_interleave(self, repeats, dim, output_size):
    if dim is None:
        self, dim = self.flatten(), 0
    n, counts = self.size(dim), repeats
    if counts._array.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if counts._array.size == 1:
        counts = counts.reshape((1,)).expand((n,))
    elif counts._array.shape[0] != n:
        raise RuntimeError("repeats must have the same size as input along dim, but got repeats.size(0) = "
                           f"{counts._array.shape[0]} and input.size({dim}) = {n}")
    return self.index_select(dim, _counts_to_places(counts, output_size=output_size))


_counts_to_places = function_of(op(
   "repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor", sized_by_data=True,
   kernel=moves(_counted_spec, _counted), public="torch", samples=cases(case(values([1, 0, 2]))), batch=dynamic_shape,
   out=None, kernels={"cuda": "nonzero.repeat_interleave", "npu": "index.repeat_interleave"}))


@composite("repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
           samples=cases(case(t(2, 3), 2), case(t(2, 3), 2, 0), case(t(2, 3), 0, 1), case(t(), 3),
                         error(RuntimeError, "Repeats must be non-negative", t(2, 3), -1)), out=None)
def _repeat_interleave_int(self, repeats, dim, output_size):
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    if dim is None:
        self, dim = self.flatten(), 0
    dim = wrapped_dim(dim, self._array.ndim)
    if not self._array.ndim:
        wrapped_dim(dim + 1, 0)  # raises: there is no place behind the dimension, where the repeats would be
    shape = self._array.shape
    if output_size is not None and output_size != shape[dim] * repeats:
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {shape[dim] * repeats} but got "
                           f"{output_size}")
    grown = self.unsqueeze(dim + 1).expand((*shape[: dim + 1], repeats, *shape[dim + 1 :]))
    return grown.clone(memory_format=contiguous_format).flatten(dim, dim + 1)


# grids and combinations ----------------------------------------------------------------------------------------------


@composite("meshgrid(Tensor[] tensors) -> Tensor[]", public="", samples=cases(case([t(3), t(2)]), case([t(3), t()])))
def _meshgrid_default(tensors):
    warn_once("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
    return meshgrid_of(tensors, "ij")


@composite("meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]", public="",
           samples=cases(case([t(3), t(2)], indexing="xy"), case([t(3), t(), t(2)], indexing="ij"),
                         error(RuntimeError, 'torch.meshgrid: indexing must be one of "xy" or "ij", but received: zz',
                               [t(2)],
                               indexing="zz")))
def _meshgrid(tensors, indexing):
    return meshgrid_of(tensors, indexing)


def meshgrid_of(tensors: Sequence[Tensor], indexing: str) -> tuple[Tensor, ...]:
    """Each vector expanded over the grid of all."""
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for tensor in tensors:
        if tensor.dtype is not tensors[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
        if tensor._array.ndim > 1:
            raise RuntimeError("torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: "
                               f"{type_text(tensor)}{shape_text(tensor.shape)}")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if indexing == "xy" and len(tensors) > 1:
        return tuple(grid.swapdims(0, 1) for grid in meshgrid_of(tensors, "ij"))
    shape = tuple(tensor._array.size for tensor in tensors)
    ones = (1,) * len(shape)
    return tuple(tensor.view((*ones[:i], tensor._array.size, *ones[i + 1 :])).expand(shape) for i,
                 tensor in enumerate(tensors))


def _check_vector(tensor: Tensor) -> None:
    if tensor._array.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {shape_text(tensor.shape)}")


@composite("cartesian_prod(Tensor[] tensors) -> Tensor", public="", samples=cases(case([t(3), t(2)]), case([t(3)])))
def _cartesian_prod(tensors):
    for tensor in tensors:
        _check_vector(tensor)
    if len(tensors) == 1:
        return tensors[0]
    return stack([grid.flatten() for grid in meshgrid_of(tensors, "ij")], 1)


@composite("combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor", sized_by_data=True,
           public="torch",
           samples=cases(case(t(4)), case(t(4), 3), case(t(3), 2, True), case(t(3), 0)), out=None)
def _combinations(self, r, with_replacement):
    _check_vector(self)
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return self.new_empty((0,))
    n = self._array.shape[0]
    places = meshgrid_of([_arange(0, n, device=self._device)] * r, "ij")
    kept = places[0].new_ones((n,) * r, dtype=bool_)
    for before, after in zip(places, places[1:], strict=False):
        kept = kept & ((before <= after) if with_replacement else (before < after))
    return stack([self.index_select(0, place.masked_select(kept)) for place in places], 1)


def _block_diag_spec(tensors: Sequence[Tensor]) -> Spec:
    if not tensors:
        return Spec((1, 0), get_default_dtype())
    for i, tensor in enumerate(tensors):
        if tensor._array.ndim > 2:
            raise RuntimeError(f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has "
                               f"{tensor._array.ndim} dimensions")
    shapes = [_as_matrix(tensor._array.shape) for tensor in tensors]
    return Spec((sum(n for n, _ in shapes), sum(m for _, m in shapes)), _type_of_all(tensors))


def _type_of_all(tensors: Sequence[Tensor]) -> dtype:
    """The common type where a 0-dim tensor counts as much as any."""
    kind = tensors[0].dtype
    for tensor in tensors[1:]:
        kind = promote_types(kind, tensor.dtype)
    return kind


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * (2 - len(shape)) + shape


def _block_diag(xp: Any, tensors: Sequence[Any], spec: Spec) -> Any:
    made = xp.zeros(spec.shape, spec.dtype.np)
    row = column = 0
    for array in tensors:
        n, m = _as_matrix(array.shape)
        made[row : row + n, column : column + m] = array
        row, column = row + n, column + m
    return made


def _block_diag_grad(grad: Tensor, tensors_shape: Sequence[tuple[int, ...]]) -> list[Tensor]:
    grads, row, column = [], 0, 0
    for shape in tensors_shape:
        n, m = _as_matrix(shape)
        grads.append(grad.narrow(0, row, n).narrow(1, column, m).reshape(shape))
        row, column = row + n, column + m
    return grads


op("block_diag(Tensor[] tensors) -> Tensor", kernel=moves(_block_diag_spec, _block_diag, rearranges=True),
   grad=dict(tensors=_block_diag_grad), public="",
   samples=cases(case([t(2, 3), t(3), t()]), case([t(0, 2), t(2, 0)]),
                 error(RuntimeError, "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input 0 has 3 "
                                     "dimensions",
                       [t(1, 2, 3)])), linear=True, kernels={"npu": "index.block_diag"})


# padded --------------------------------------------------------------------------------------------------------------


def _padded_spec(self: Tensor, pad: tuple[int, ...], value: Any) -> Spec:
    shape = list(self._array.shape)
    ndim = len(shape)
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * ndim:
        raise RuntimeError("Length of pad should be no more than twice the number of dimensions of the input. Pad "
                           f"length is {len(pad)} while the input has {ndim} dimensions.")
    for i in range(len(pad) // 2):
        d = ndim - 1 - i
        left, right = pad[2 * i], pad[2 * i + 1]
        if min(left, 0) + min(right, 0) + shape[d] < 0:
            raise RuntimeError("narrow(): length must be non-negative.")
        shape[d] += left + right
        if shape[d] < 0:
            raise RuntimeError(f"The input size {self._array.shape[d]}, plus negative padding {left} and {right} "
                               f"resulted in a negative output size, which is invalid. Check dimension {d} of your "
                               "input.")
    if any(n > 0 for n in pad):
        return Spec(tuple(shape), self.dtype, _common_format(tuple(shape), [self]))
    return Spec(tuple(shape), self.dtype, copied_strides(tuple(shape), element_strides(self._array)))


def _padded(xp: Any, self: Any, pad: tuple[int, ...], value: Any, spec: Spec) -> Any:
    made = uninitialised(spec, xp)
    target, source = [slice(None)] * self.ndim, [slice(None)] * self.ndim
    for i in range(len(pad) // 2):
        d = self.ndim - 1 - i
        left, right = pad[2 * i], pad[2 * i + 1]
        target[d] = slice(max(left, 0), spec.shape[d] - max(right, 0))
        source[d] = slice(max(-left, 0), self.shape[d] - max(-right, 0))
    made[...] = stored_number(value, spec.dtype)
    made[tuple(target)] = self[tuple(source)]
    return made


Element = Callable[[], Any]


def _beside(g: Any, place: Any, end: int, sizes: tuple[int, int], before: Element, inside: Element,
            after: Element) -> Any:
    """What stands at a place of a dimension with borders of these sizes: what is inside ends at `end`."""
    left, right = sizes
    if right > 0:
        return _beside(g, place, end, (left, 0), before, lambda: g.chosen(place < end, inside, after), after)
    return g.chosen(place < left, before, inside) if left > 0 else inside()


def _border(pad: tuple[int, ...], ndim: int, d: int) -> tuple[int, int]:
    """How many elements are put before and behind those of a dimension."""
    left, right = pad[2 * (ndim - 1 - d) :][:2] or (0, 0)
    return left, right


def _padded_at(g: Any, self: Any, pad: tuple[int, ...], value: Any) -> Any:
    def fill() -> Any:
        return self.number(value)

    def element(d: int, *places: Any) -> Any:
        if d == self.ndim:
            return self[places]
        place, sizes = g.at[d], _border(pad, self.ndim, d)
        return _beside(g, place, sizes[0] + self.shape[d], sizes, fill,
                       lambda: element(d + 1, *places, place - sizes[0]), fill)

    return element(0)


constant_pad_nd: Callable = function_of(op(
   "constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor",
   kernel=moves(_padded_spec, _padded), gathers=_padded_at,
   npu="aclnnConstantPadNd(self, pad, value, out)", public="torch",
   grad=dict(self=lambda grad, pad: constant_pad_nd(grad, tuple([-n for n in pad]))),
   samples=cases(case(t(2, 3), (1, 2)), case(t(2, 3), (1, 0, -1, 2), 1.5), case(t(2, 3), ()), case(t(0, 3),
                                                                                                   (1, 1, 1, 1))),
   batch=in_front,
   out=None, kernels={"cpu": "pad.constant_pad_nd"}, sharded="same_lengths"))

_PADDED_INPUTS = ("Supported combinations for non-constant padding:\n  - 2D or 3D input: padding size = 2 (pads last "
                  "dimension)\n  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n  - 4D or 5D input: "
                  "padding size = 6 (pads last 3 dimensions)")


def _mirrored(index: Tensor, n: int) -> Tensor:
    return (n - 1) - ((n - 1) - index.abs()).abs()


_PADDED_PLACES = {"reflect": _mirrored, "replicate": lambda index, n: index.clamp(0, n - 1), "circular": lambda index,
                  n: index.remainder(n)}


def _padded_places_spec(self: Tensor, pad: tuple[int, ...], mode: str) -> Spec:
    shape, made = self._array.shape, list(self._array.shape)
    for i in range(len(pad) // 2):
        d, left, right = len(shape) - 1 - i, pad[2 * i], pad[2 * i + 1]
        n = shape[d]
        if mode == "reflect" and (left >= n or right >= n):
            raise RuntimeError(f"Argument #{4 + 2 * i}: Padding size should be less than the corresponding input "
                               f"dimension, but got: padding ({left}, {right}) at dimension {d} of input "
                               f"{shape_text(shape)}")
        if mode == "circular" and (left > n or right > n):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        made[d] = n + left + right
        if made[d] < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {made[d]}: "
                               f"{shape_text((*shape[:d], made[d], *shape[d + 1 :]))}")
    plain = mode == "circular" or len(pad) == 2 or not has_elements(self)
    return Spec(tuple(made), self.dtype, None if plain else suggested_strides(self, tuple(made)))


def _places_along(n: int, left: int, right: int, mode: str, device: Any) -> Tensor:
    """For each element of a padded dimension the one of the dimension that stands there."""
    skipped = 0
    if mode == "circular":  # what negative padding cuts off is not in the circle
        skipped, n = max(-left, 0), n + min(left, 0) + min(right, 0)
        left, right = max(left, 0), max(right, 0)
    places = _PADDED_PLACES[mode](_arange(-left, n + right, device=device), n)
    return places + skipped if skipped else places


def _padded_by_parts(self: Any, pad: tuple[int, ...], mode: str) -> Any:
    for i in range(len(pad) // 2):
        d = self.dim() - 1 - i
        self = self.index_select(d, _places_along(self.shape[d], pad[2 * i], pad[2 * i + 1], mode, self._device))
    return self


def _padded_backward_by_parts(grad: Any, size: tuple[int, ...], pad: tuple[int, ...], mode: str) -> Any:
    for i in reversed(range(len(pad) // 2)):
        d = grad.dim() - 1 - i
        zeros = grad.new_zeros((*grad.shape[:d], size[d], *grad.shape[d + 1 :]))
        grad = zeros.index_add(d, _places_along(size[d], pad[2 * i], pad[2 * i + 1], mode, grad._device), grad)
    return grad


def _padded_places_at(g: Any, self: Any, pad: tuple[int, ...], mode: str) -> Any:
    def element(d: int, *places: Any) -> Any:
        if d == self.ndim:
            return self[places]
        left, right = _border(pad, self.ndim, d)
        n, place = self.shape[d], g.at[d] - left

        def at(place: Any) -> Element:
            return lambda: element(d + 1, *places, place)

        if mode == "reflect":
            before, after = at(-place), at(2 * (n - 1) - place)
        elif mode == "replicate":
            before, after = at(0), at(n - 1)
        else:  # what negative padding cuts off is not in the circle
            around = n + min(left, 0) + min(right, 0)
            if max(left, right) > around:
                raise NotImplementedError("several times around")
            before, after = at(place + around), at(place - around)
        return _beside(g, g.at[d], left + n, (left, right), before, at(place), after)

    return element(0)


_padded_backward = function_of(op(
    "_padded_places_backward(Tensor grad, int[] size, int[] pad, str mode) -> Tensor", public="",
    kernel=Parts(lambda grad, size, pad, mode: Spec(tuple(size), grad.dtype, suggested_strides(grad, tuple(size)))),
    kernels={"cpu": "pad.padded_places_backward"}, decomposition=_padded_backward_by_parts, linear=True,
    grad=dict(grad=lambda grad, pad, mode: _padded_places(grad, pad, mode))))
_PADDED_NODES = {f"{word}Pad{n}DBackward0": f"mode == {mode!r} and len(pad) == {2 * n}"
                 for word, mode in (("Reflection", "reflect"), ("Replication", "replicate")) for n in (1, 2, 3)}
_padded_places: Callable = function_of(op(
    "_padded_places(Tensor self, int[] pad, str mode) -> Tensor",
    node=_PADDED_NODES | {"torch::autograd::CopySlices": OTHERWISE}, public="", kernel=Parts(_padded_places_spec),
    kernels={"cpu": "pad.padded_places"}, decomposition=_padded_by_parts, linear=True, gathers=_padded_places_at,
    grad=dict(self=lambda grad, self_shape, pad, mode: _padded_backward(grad, self_shape, pad, mode))))


@composite("pad(Tensor self, int[] pad, str mode=\"constant\", float? value=None) -> Tensor", public="nn.functional",
           samples=cases(case(t(2, 3), (1, 2)), case(t(2, 3), (1, 2), "constant", 1.5), case(t(2, 4), (1, 2),
                                                                                             "reflect"),
                         case(t(1, 3, 4), (2, 1, 1, 0), "replicate"), case(t(1, 2, 3), (2, 1), "circular"),
                         error(RuntimeError, "Padding length must be divisible by 2", t(2, 3), (1,)),
                         error(NotImplementedError, "Unrecognised padding mode zz", t(2, 3), (1, 1), "zz")),
           autocast=dict(cpu="padding"))
def _pad(self, pad, mode, value):
    ndim = self._array.ndim
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * ndim:
        raise RuntimeError("Padding length should be less than or equal to two times the input dimension but got "
                           f"padding length {len(pad)} and input of dimension {ndim}")
    if mode == "constant":
        return constant_pad_nd(self, pad, 0 if value is None else value)
    if mode not in _PADDED_PLACES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if self.dtype is bool_ and mode != "circular":
        name = "reflection" if mode == "reflect" else "replication"
        raise NotImplementedError(f"\"{name}_pad{len(pad) // 2}d\" not implemented for 'Bool'")
    if (len(pad), ndim) not in ((2, 2), (2, 3), (4, 3), (4, 4), (6, 4), (6, 5)):
        raise NotImplementedError(f"Padding size {len(pad)} is not supported for {ndim}D input "
                                  f"tensor.\n{_PADDED_INPUTS}")
    if mode != "circular" and 0 in self._array.shape[ndim - len(pad) // 2 - 1 :]:
        rank = len(pad) // 2
        raise RuntimeError(f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with possibly 0 batch size and "
                           f"other non-zero dimensions for input, but got: {shape_text(self._array.shape)}")
    return _padded_places(self, pad, mode)
