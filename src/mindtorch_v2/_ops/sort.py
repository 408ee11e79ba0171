"""Order: sorting, the k largest, medians, modes, and searching in sorted sequences."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.dtype import BOOL, COMPLEX, FLOAT, float32, float64, int32, int64
from .._core.elements import has_elements
from .._core.geometry import contiguous_strides, wrapped_dim
from .._core.tensor import Tensor
from .._dispatch.argument_checks import expected
from .._dispatch.callers import call_bound
from ._declare.aten import Aten, if_given
from ._declare.batch import Call, Result, against_a_set, of_all_elements, one_by_one
from ._declare.families import computes
from ._declare.op import composite, function_of, op
from ._declare.out import AS_MADE, Out, type_of_first
from ._declare.rules import Spec, anywhere, common_dtype, pointwise_strides, shape_text, unwatched
from ._declare.samples import bools, case, cases, error, ints, t, values
from .copy import store, uninitialised
from .extreme import NAN, chosen, chosen_grad, chosen_spec, evenly, kinks
from .join import cat
from .reduce import contiguous

# PyTorch leaves open which of several equal elements is found.
_DISTINCT = values([[3.0, 1.0, 5.0, -2.0, 4.0], [2.0, 9.0, -7.0, 6.0, 8.0]])

# sorting -------------------------------------------------------------------------------------------------------------


# Below this many elements NumPy's stable sort is the quickest way.
_SMALL = 4096


def _found_in_rows(xp: Any, array: Any, dim: int, find: Callable[[Any], Any]) -> Any:
    """`find(rows)` of all rows along a dimension; what it finds in each lies along the dimension again."""
    if array.ndim < 2:
        return find(array)
    moved = xp.moveaxis(array, dim, -1)
    found = xp.by_rows(find, xp.ascontiguousarray(moved).reshape(-1, moved.shape[-1]))
    return xp.moveaxis(found.reshape(*moved.shape[:-1], found.shape[-1]), -1, dim)


def sorting_indices(xp: Any, array: Any, dim: int, descending: bool) -> Any:
    """Indices that sort along `dim`, equal elements in the order they have; NaN counts as the largest."""
    if array.size <= _SMALL:
        return _sorting_indices(xp, array, dim, descending)
    return _found_in_rows(xp, array, dim, lambda rows: _sorting_indices(xp, rows, -1, descending))


def _sorting_indices(xp: Any, array: Any, dim: int, descending: bool) -> Any:
    if array.size > _SMALL:  # rows
        look = getattr(xp, "places_by_looking", None)  # of the host, which does not wait for elements
        made = None if look is None else look(array, descending)
        if made is not None:
            return made
        if array.dtype.itemsize == 4:
            return _packed_indices(xp, array, descending)
    if descending:
        return array.shape[dim] - 1 - xp.flip(_ascending(xp, xp.flip(array, dim), dim), dim)
    return _ascending(xp, array, dim)


def _ascending(xp: Any, array: Any, dim: int) -> Any:
    """The quick sort is several times faster than the stable one, and the same where no two elements are equal."""
    if array.size <= _SMALL or array.dtype.itemsize < 4:
        return xp.argsort(array, dim, kind="stable")
    quick = xp.argsort(array, dim)
    found = xp.moveaxis(xp.take_along_axis(array, quick, dim), dim, -1)
    if ((found[..., 1:] == found[..., :-1]) | (found[..., :-1] != found[..., :-1])).any():
        return xp.argsort(array, dim, kind="stable")
    return quick


def _packed_indices(xp: Any, rows: Any, descending: bool) -> Any:
    """The indices of elements of 32 bits."""
    if rows.dtype.kind == "f":
        rows = xp.where(xp.isnan(rows), rows.dtype.type(NAN), rows + 0)  # one NaN, one zero
        bits = rows.view(xp.int32)
        ordered = xp.where(bits < 0, ~bits, bits | xp.int32(-(2**31))).view(xp.uint32)
    else:
        ordered = rows.astype(xp.uint32) ^ (xp.uint32(2**31) if rows.dtype.kind == "i" else xp.uint32(0))
    return packed_places(xp, ~ordered if descending else ordered)


def packed_places(xp: Any, ordered: Any) -> Any:
    """Indices that sort rows of whole numbers: these and their places make numbers of 64 bits, in the stable order."""
    places = xp.uint64((ordered.shape[-1] - 1).bit_length())
    keys = ordered.astype(xp.uint64, order="C")
    keys <<= places
    keys |= xp.arange(keys.shape[-1], dtype=xp.uint64)
    keys.sort(-1)
    return (keys & ((xp.uint64(1) << places) - xp.uint64(1))).view(xp.int64)


def _sort_spec(self: Tensor, dim: int, descending: bool, stable: bool | None) -> tuple[Spec, Spec]:
    if self.dtype.category == COMPLEX:
        raise RuntimeError(" Sort does not support complex dtypes on CPU")
    wrapped_dim(dim, self._array.ndim)
    strides = pointwise_strides(self._array.shape, [self])
    return Spec(self._array.shape, self.dtype, strides), Spec(self._array.shape, int64, strides)


def laid_out(xp: Any, array: Any, spec: Spec) -> Any:
    """The array in the memory layout that was inferred."""
    if spec.strides is None:
        return contiguous(array)
    made = uninitialised(spec, xp)
    store(xp, made, array)
    return made


def _sort(xp: Any, self: Any, dim: int, descending: bool, stable: bool | None, spec: tuple[Spec, Spec]) -> tuple:
    if not self.ndim:
        return self.copy(), xp.zeros((), xp.int64)
    indices = sorting_indices(xp, self, dim, descending)
    return laid_out(xp, xp.take_along_axis(self, indices, dim), spec[0]), laid_out(xp, indices, spec[1])


def _sorted_grad(grad: Tensor, indices: Tensor, self_shape: Any, dim: int) -> Tensor:
    return chosen_grad(grad, indices, self_shape, dim, True, False)


op("sort(Tensor self, int dim=-1, bool descending=False, *, bool? stable=False) -> (Tensor values, Tensor indices)",
    out=AS_MADE,
   node={"SortBackward1": "stable"},
   aligned="self",
   kernel=computes(_sort_spec, _sort),
   kernels={"cpu": "sort.sort", "cuda": "sort.sort"},
   npu="aclnnSort(self, stable|False, dim, descending, values, indices)", grad=dict(self=_sorted_grad),
   samples=cases(case(t(2, 5)), case(t(3, 2), 0), case(t(3, 4), -1, True), case(t(2, 4), stable=True, descending=True),
                 case(t()), case(values([2, 1, 2, 1, 0]), 0, True), case(kinks([1.0, NAN, 0.0, NAN]), descending=True),
                 case(t(0, 3)), case(t(3, 2, layout="transposed"), 1), case(bools(6)),
                 error(IndexError, "Dimension out of range", t(2, 3), 2)), aten=Aten(if_given("stable", "stable")),
   sharded="along")


@composite("argsort(Tensor self, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor",
           samples=cases(case(t(2, 5)), case(t(3, 2), 0, True), case(t(2, 4), stable=True),
                         case(values([2, 1, 2, 1, 0]))), out=Out(refused=True))
def _argsort(self, dim, descending, stable):
    return self.detach().sort(dim, descending, stable=stable)[1]


@composite("msort(Tensor self) -> Tensor", out=AS_MADE, aligned="self", samples=cases(case(t(3, 2)), case(t())))
def _msort(self):
    return self.sort(0)[0]


# the k largest -------------------------------------------------------------------------------------------------------


def _topk_spec(self: Tensor, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Spec, Spec]:
    shape = self._array.shape
    if not 0 <= k <= (shape[wrapped_dim(dim, len(shape))] if shape else 1):
        raise RuntimeError("selected index k out of range")
    if self.dtype.category == COMPLEX:
        raise RuntimeError(" topk does not support complex dtypes on CPU")
    if self.dtype.category == BOOL:
        raise RuntimeError("topk does not support bool dtypes on CPU")
    at = wrapped_dim(dim, len(shape))
    made = tuple([k if d == at else n for d, n in enumerate(shape)])
    return Spec(made, self.dtype), Spec(made, int64)


def _topk(xp: Any, self: Any, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Any, Any]:
    if not self.ndim:
        return self.copy(), xp.zeros((), xp.int64)
    length = self.shape[dim]
    if 0 < k < length:
        pivot = length - k if largest else k - 1
        best = slice(pivot, length) if largest else slice(k)
        indices = _found_in_rows(xp, self, dim, lambda rows: xp.argpartition(rows, pivot, -1)[..., best])
    else:
        indices = xp.broadcast_to(xp.arange(k).reshape([-1 if d == dim % self.ndim else 1 for d in range(self.ndim)]),
                                  [k if d == dim % self.ndim else n for d, n in enumerate(self.shape)])
    picked = xp.take_along_axis(self, indices, dim)
    if sorted and k > 1:
        order = sorting_indices(xp, picked, dim, largest)
        indices, picked = xp.take_along_axis(indices, order, dim), xp.take_along_axis(picked, order, dim)
    return contiguous(picked), contiguous(indices)


op("topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
   kernel=computes(_topk_spec, _topk),
   kernels={"cpu": "sort.topk", "cuda": "sort.topk"},
   npu="aclnnTopk(self, k, dim, largest, sorted, values, indices)", grad=dict(self=_sorted_grad),
   samples=cases(case(_DISTINCT, 2), case(_DISTINCT, 1, 0), case(_DISTINCT, 5, -1, False), case(t(3, 4), 0),
                 case(t(), 1), case(kinks([1.0, NAN, 3.0]), 2),
                 error(RuntimeError, "selected index k out of range", t(2, 3), 4)), sharded="along")


# one of them ---------------------------------------------------------------------------------------------------------


def _refuse_unordered(self: Tensor, kernel: str) -> None:
    if self.dtype.category in (BOOL, COMPLEX):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{self.dtype.scalar_name}'")


def _kth_index(xp: Any, array: Any, k: int, dim: int) -> Any:
    """Indices of the k-th smallest, counted from zero, with size one along `dim`."""
    if array.size <= _SMALL:
        return xp.take(xp.argpartition(array, k, dim), [k], dim)
    return _found_in_rows(xp, array, dim, lambda rows: xp.argpartition(rows, k, -1)[..., k : k + 1])


def _kthvalue_spec(self: Tensor, k: int, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
    specs = chosen_spec("kthvalue", self, dim, keepdim)
    shape = self._array.shape
    at = wrapped_dim(dim, len(shape))
    if not 1 <= k <= (shape[at] if shape else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {at}")
    if shape:
        _refuse_unordered(self, "kthvalue_cpu")
    return specs


def _kthvalue(xp: Any, self: Any, k: int, dim: int, keepdim: bool) -> tuple[Any, Any]:
    if not self.ndim:
        return self.copy(), xp.zeros((), xp.int64)
    return chosen(xp, self, _kth_index(xp, self, k - 1, dim), dim, keepdim)


_CHOSEN = "bool keepdim=False) -> (Tensor values, Tensor indices)"
_CHOSEN_GRAD = dict(self=lambda grad, indices, self_shape, dim, keepdim:
                    chosen_grad(grad, indices, self_shape, dim, keepdim, False))

op(f"kthvalue(Tensor self, int k, int dim=-1, {_CHOSEN}",
   apart="self",
   kernel=computes(_kthvalue_spec, _kthvalue), kernels={"cpu": "sort.kthvalue"},
   npu="aclnnKthvalue(self, k, dim, keepdim, values, indices)", grad=_CHOSEN_GRAD,
   samples=cases(case(_DISTINCT, 2), case(_DISTINCT, 1, 0, True), case(t(), 1),
                 error(RuntimeError, "kthvalue(): selected number k out of range for dimension 1", t(2, 3), 4),
                 error(IndexError, "kthvalue(): Expected reduction dim 0 to have non-zero size.", t(0, 3), 1,
                       0)), out=Out("exact", "output values must be of same type as input"), sharded="reduction")


def _steady_kth_index(xp: Any, array: Any, k: int, dim: int) -> Any:
    """Indices of the k-th smallest where equal elements are sorted in the order they have, as PyTorch's medians do."""
    value = xp.take_along_axis(array, _kth_index(xp, array, k, dim), dim)
    rank = k - (array < value).sum(dim, keepdims=True)
    return xp.argmax((array == value).cumsum(dim) > rank, dim, keepdims=True)


def _median_indices(xp: Any, array: Any, dim: int, ignore_nan: bool) -> Any:
    """Where the lower median lies: the first NaN if there is one, unless those are ignored."""
    length = array.shape[dim]
    if array.dtype.kind != "f":
        return _steady_kth_index(xp, array, (length - 1) // 2, dim)
    unknown = xp.isnan(array)
    if not unknown.any():
        return _steady_kth_index(xp, array, (length - 1) // 2, dim)
    if ignore_nan:
        known = length - unknown.sum(dim, keepdims=True)
        return xp.take_along_axis(xp.argsort(array, dim, kind="stable"), xp.maximum(known - 1, 0) // 2, dim)
    first = xp.argmax(unknown, dim, keepdims=True)
    return xp.where(unknown.any(dim, keepdims=True), first, _steady_kth_index(xp, array, (length - 1) // 2, dim))


def _full_median_spec(self: Tensor) -> Spec:
    _refuse_unordered(self, "median_cpu")
    return Spec((), self.dtype)


def _median_spec(self: Tensor, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
    specs = chosen_spec("median", self, dim, keepdim)
    _refuse_unordered(self, "median_cpu")
    return specs


def _picked_of_sorted(self: Any, dim: int, keepdim: bool, pick: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Values and indices along a dimension; `pick(sorted values)` says at which places they are when sorted."""
    if not self.dim() or not self.numel():
        return self.clone(), self.new_zeros(self.shape, dtype=int64)
    values, indices = self.sort(dim=dim, stable=True)
    at = pick(values)
    chosen = values.gather(dim, at), indices.gather(dim, at)
    return chosen if keepdim else (chosen[0].squeeze(dim), chosen[1].squeeze(dim))


def _declare_median(name: str, ignore_nan: bool) -> None:
    def full(xp: Any, self: Any, spec: Spec) -> Any:
        if not self.size:  # PyTorch's answer: the bit pattern that a NaN converts to
            return xp.asarray(NAN if spec.dtype.category == FLOAT else np.iinfo(spec.dtype.np).min, self.dtype)
        flat = self.reshape(-1)
        return flat[_median_indices(xp, flat, 0, ignore_nan)[0]]

    def along(xp: Any, self: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
        if not self.ndim:
            return self.copy(), xp.zeros((), xp.int64)
        return chosen(xp, self, _median_indices(xp, self, dim, ignore_nan), dim, keepdim)

    op(f"{name}(Tensor self) -> Tensor", kernel=computes(_full_median_spec, full),
       kernels={"cpu": f"sort.{name}_of_all"},
       npu=f"aclnn{'NanMedian' if ignore_nan else 'Median'}(self, out) empty=nan",
       grad=dict(self=lambda grad, self, result: evenly(grad, self, result, None, False)),
       samples=cases(case(_DISTINCT), case(t(2, 3)), case(t()), case(kinks([1.0, NAN, 3.0])), case(ints(2, 3)),
                     case(t(0)),
                     error(NotImplementedError, "\"median_cpu\" not implemented for 'Bool'", bools(3))),
       batch=of_all_elements(f"{name}.dim", 1), out=Out(refused=True), sharded="reduction")
    def by_parts(self: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
        def middle(values: Any) -> Any:  # NaN is sorted to the end; without any number the first is taken
            return ((values == values).sum(dim, True) - 1).clamp_min(0).div(2, rounding_mode="floor")

        return _picked_of_sorted(self, dim, keepdim, middle)

    op(f"{name}.dim(Tensor self, int dim, {_CHOSEN}",
    node=f"{name.title()}Backward1", kernel=computes(_median_spec, along), grad=_CHOSEN_GRAD,
       kernels={"cpu": f"sort.{name}"}, sharded="reduction",
       decomposition=by_parts if ignore_nan else None,
       npu=None if ignore_nan else "aclnnMedianDim(self, dim, keepdim, values, indices)",
       samples=cases(case(_DISTINCT, 1), case(_DISTINCT, 0, True), case(t(), 0),
                     case(kinks([[1.0, NAN, 3.0], [4.0, 6.0, 5.0]]), 1),
                     error(IndexError, "median(): Expected reduction dim 0 to have non-zero size.", t(0, 3),
                           0)))


_declare_median("median", ignore_nan=False)
_declare_median("nanmedian", ignore_nan=True)


def _mode_spec(self: Tensor, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
    specs = chosen_spec("mode", self, dim, keepdim)
    if self.dtype.category == COMPLEX and self._array.ndim:
        raise NotImplementedError(f"\"mode_cpu\" not implemented for '{self.dtype.scalar_name}'")
    return specs


def _mode(xp: Any, self: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """The smallest of the most frequent elements, at its last place."""
    if not self.ndim:
        return self.copy(), xp.zeros((), xp.int64)
    rows = xp.moveaxis(_found_in_rows(xp, self, dim, lambda rows: xp.sort(rows, -1)), dim, -1)
    place = xp.broadcast_to(xp.arange(rows.shape[-1]), rows.shape)
    starts = xp.ones(rows.shape, bool)
    starts[..., 1:] = rows[..., 1:] != rows[..., :-1]
    run = place - xp.maximum.accumulate(xp.where(starts, place, 0), -1)
    value = xp.take_along_axis(rows, xp.argmax(run, -1, keepdims=True), -1)
    same = xp.flip(xp.moveaxis(self, dim, -1) == value, -1)
    # A NaN is equal to nothing: then all are, and the first is taken.
    at = xp.where(same.any(-1, keepdims=True), rows.shape[-1] - 1 - xp.argmax(same, -1, keepdims=True), 0)
    return chosen(xp, self, xp.moveaxis(at, -1, dim), dim, keepdim)


def _mode_by_parts(self: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    def most_frequent(values: Any) -> Any:  # the end of the longest run of equal values, the first of such
        number, count = values.new_ones(values.shape, dtype=int64).cumsum(dim) - 1, values.shape[dim]
        changes = values.narrow(dim, 1, count - 1) != values.narrow(dim, 0, count - 1)
        begins = number.narrow(dim, 1, count - 1) * changes  # the first place begins a run at 0
        return (number - cat((number.narrow(dim, 0, 1), begins), dim).cummax(dim)[0]).argmax(dim, True)

    return _picked_of_sorted(self, dim, keepdim, most_frequent)


op(f"mode(Tensor self, int dim=-1, {_CHOSEN}",
   apart="self",
   kernel=computes(_mode_spec, _mode), grad=_CHOSEN_GRAD, kernels={"cpu": "sort.mode", "cuda": "sort.mode"},
   decomposition=_mode_by_parts,
   samples=cases(case(values([[1, 2, 2, 3, 3], [5, 5, 4, 4, 1]])), case(t(3, 4), 0, True), case(t()), case(bools(2, 5)),
                 error(IndexError, "mode(): Expected reduction dim 0 to have non-zero size.", t(0, 3), 0)),
   out=Out("exact", "expected scalar type '{made}' but got '{given}' for values output", first=type_of_first),
   sharded="reduction")


# quantiles -----------------------------------------------------------------------------------------------------------

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _check_quantile(self: Tensor, q: Tensor, interpolation: str) -> None:
    if not self.numel():
        raise RuntimeError("quantile() input tensor must be non-empty")
    if q.dim() > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    if self.dtype not in (float32, float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if self.dtype is not q.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError("quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but "
                           f"got {interpolation}")
    if has_elements(q) and anywhere(~((q >= 0) & (q <= 1))):
        raise RuntimeError("quantile() q values must be in the range [0, 1]")


def _quantiles_spec(self: Tensor, q: Tensor, dim: int | None, keepdim: bool, interpolation: str,
                    ignore_nan: bool) -> Spec:
    shape = self._array.shape
    if dim is None:
        left: tuple[int, ...] = (1,) * len(shape) if keepdim else ()
    else:
        at = wrapped_dim(dim, len(shape))
        left = (*shape[:at], *((1,) if keepdim and shape else ()), *shape[at + 1 :])
    if not q._array.ndim:
        return Spec(left, self.dtype)
    count = q._array.shape[0]  # of one element they lie side by side
    return Spec((count, *left), self.dtype, (1, *contiguous_strides(left, count)))


def _quantiles_array(xp: Any, self: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool,
                     spec: Spec) -> Any:
    rows = self.reshape(-1) if dim is None or not self.ndim else xp.moveaxis(self, dim, -1)
    rows = xp.sort(rows, -1)
    count, last = rows.shape[-1], rows.shape[-1] - 1
    known = xp.searchsorted(rows, xp.inf, side="right") if rows.ndim == 1 else count - xp.isnan(rows).sum(-1)
    known = xp.asarray(known)[..., None]
    wanted = q.reshape(-1)
    if ignore_nan:
        place = wanted * xp.maximum(known - 1, 0).astype(rows.dtype)
    else:
        place = xp.where(known < count, rows.dtype.type(last), wanted * rows.dtype.type(last))
    whole = {"lower": xp.floor, "higher": xp.ceil, "nearest": xp.rint}.get(interpolation)
    place = place if whole is None else whole(place)
    below = place.astype(xp.int64)
    made = xp.take_along_axis(rows, below, -1)
    if whole is None:
        weight = place - below.astype(place.dtype) if interpolation == "linear" else place.dtype.type(0.5)
        above = xp.take_along_axis(rows, xp.ceil(place).astype(xp.int64), -1)
        apart = above - made
        made = xp.where(weight < 0.5, made + weight * apart, above - apart * (1 - weight))
    laid_out = uninitialised(spec, xp)
    laid_out[...] = xp.moveaxis(made, -1, 0).reshape(spec.shape)
    return laid_out


def _quantiles_by_parts(self: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool) -> Any:
    """The sorted rows read at fractional places."""
    shape = [1] * self.dim() if dim is None else list(self.shape)
    at = None if dim is None else wrapped_dim(dim, self.dim())
    rows = self.reshape(-1) if at is None or not shape else self.movedim(at, -1)
    rows = rows.sort(-1)[0]
    last = rows.size(-1) - 1
    unknown = rows.isnan()
    if ignore_nan:
        place = q.reshape(-1) * (last - unknown.sum(-1, True)).clamp(min=0)
    else:
        place = (q.reshape(-1) * last).expand(*rows.shape[:-1], q.numel()).masked_fill(unknown.any(-1, True), last)
    place = {"lower": place.floor, "higher": place.ceil, "nearest": place.round}.get(interpolation, lambda: place)()
    below = place.to(int64)
    made = rows.gather(-1, below)
    if interpolation in ("linear", "midpoint"):
        weight = place - below if interpolation == "linear" else self.new_full(place.shape, 0.5)
        made = made.lerp(rows.gather(-1, place.ceil().to(int64)), weight)
    if keepdim and shape:
        made = made.reshape(*shape, -1) if at is None else made.unsqueeze(at)
    made = made.movedim(-1, 0)
    return made if q.dim() else made.squeeze(0)


_quantiles = function_of(op(
    "_quantiles(Tensor self, Tensor q, int? dim, bool keepdim, str interpolation, bool ignore_nan) -> Tensor",
    kernel=computes(_quantiles_spec, _quantiles_array), public="", decomposition=_quantiles_by_parts,
    kernels={"cuda": "sort.quantiles"}))


def _quantile(ignore_nan: bool, self: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    """Checks what no kernel can, then the quantiles."""
    if not hasattr(q, "_keys"):
        if q.__class__ is complex:
            raise TypeError(expected("quantile", "q", "float", q))
        if not 0 <= q <= 1:
            raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")
        q = self.new_full((), q)
    _check_quantile(self, q, interpolation)
    if unwatched(self, q):
        return _quantiles(self, q, dim, keepdim, interpolation, ignore_nan)
    return _quantiles_by_parts(self, q, dim, keepdim, interpolation, ignore_nan)


for _name in ("quantile", "nanquantile"):
    composite(f"{_name}(Tensor self, Tensor|Scalar q, int? dim=None, bool keepdim=False, *, str "
              "interpolation='linear') -> Tensor",
              samples=cases(*[case(t(2, 5), 0.3, interpolation=word) for word in _INTERPOLATIONS],
                            case(t(2, 5), 0.5, 1, True), case(t(4, 3), values([0.1, 0.7]), 0), case(t(3), 1.0, 0),
                            error(RuntimeError, "quantile() q must be in the range [0, 1] but got 2", t(3),
                                  2.0)),
              out=Out("exact", "quantile() out tensor must be same dtype as the input tensor", grad="ignored"),
              autocast=dict(cpu="float32"))(
        lambda self, q, dim, keepdim, interpolation, ignore_nan=_name == "nanquantile":
        _quantile(ignore_nan, self, q, dim, keepdim, interpolation))


# searching -----------------------------------------------------------------------------------------------------------


def _search_spec(sorted_sequence: Tensor, self: Any, out_int32: bool, right: bool, side: str | None,
                 sorter: Tensor | None) -> Spec:
    bounds = sorted_sequence._array.shape
    shape = () if not hasattr(self, "_array") else self._array.shape
    if not bounds:
        raise RuntimeError("torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 "
                           "dimension")
    if not shape and len(bounds) != 1:
        raise RuntimeError("torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension "
                           f"is 1, but we got boundaries tensor dim({len(bounds)}) and input value's dim(0) "
                           "numel(1)")
    if len(bounds) != 1 and bounds[:-1] != shape[:-1]:
        raise RuntimeError("torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions "
                           "of boundaries tensor and input value tensor must match, but we got boundaries tensor "
                           f"{shape_text(bounds)} and input value tensor {shape_text(shape)}")
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError("torch.searchsorted(): side and right can't be set to opposites, got side of left while "
                           "right was True")
    if sorter is not None:
        if sorter._array.shape != bounds:
            raise RuntimeError("torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
                               f"tensor {shape_text(bounds)}and got sorter tensor "
                               f"{shape_text(sorter._array.shape)}")
        if sorter.dtype is not int64:
            raise RuntimeError("torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
                               f"{sorter.dtype.scalar_name}")
    kind = common_dtype([v for v in (sorted_sequence, self) if hasattr(v, "_array")])
    if kind.category in (BOOL, COMPLEX):
        raise NotImplementedError(f"\"searchsorted_out_cpu\" not implemented for '{kind.scalar_name}'")
    return Spec(shape, int32 if out_int32 else int64)


def _search(xp: Any, sorted_sequence: Any, self: Any, out_int32: bool, right: bool, side: str | None,
            sorter: Any) -> Any:
    if sorter is not None:
        sorted_sequence = xp.take_along_axis(sorted_sequence, sorter, -1)
    side = "right" if right or side == "right" else "left"
    if sorted_sequence.ndim == 1:
        return xp.searchsorted(sorted_sequence, self, side)
    return _search_rows(xp, sorted_sequence, self, side)


def _search_rows(xp: Any, sequences: Any, wanted: Any, side: str) -> Any:
    """Each row of `wanted` in its row of `sequences`: both sorted together, places counted."""
    first, second = (wanted, sequences) if side == "left" else (sequences, wanted)
    order = xp.argsort(xp.concatenate((first, second), -1), -1, kind="stable")
    start = 0 if side == "left" else sequences.shape[-1]
    is_wanted = (order >= start) & (order < start + wanted.shape[-1])
    before = xp.add.accumulate(~is_wanted, -1, dtype=xp.int64)
    places = xp.empty(order.shape, xp.int64)
    xp.put_along_axis(places, order, before, -1)
    return contiguous(places[..., start : start + wanted.shape[-1]])


_PLACES_OUT = Out("exact", "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or "
                           "Long(int64) depending on whether out_int32 flag is True, but we got output tensor's dtype "
                           "{given} and out_int32 flag is False", grad="ignored")
def _searchsorted_each(call: Call) -> Result:
    _, value, *options = call.values
    if not call.batched[0] and call.ndim(0) == 1 and options[3] is None:
        return call.run(*call.values), True
    if not isinstance(value, Tensor) or options[3] is not None:
        return one_by_one(call)
    if call.ndim(0) == 1:
        made = call.run(call.full(0), call.full(1).reshape((call.size, -1)), *options)
        return made.reshape((call.size, *call.args[1].shape)), True
    return call.run(call.full(0), call.full(1), *options), True


_SEARCH = op(
   "searchsorted(Tensor sorted_sequence, Tensor|Scalar self, *, bool out_int32=False, bool right=False, str? "
   "side=None, Tensor? sorter=None) -> "
   "Tensor", kernel=computes(_search_spec, _search), public="torch",
   samples=cases(case(values([1.0, 3.0, 5.0]), t(2, 3, high=6)), case(values([1, 3, 5]), 3),
                 case(values([1, 3, 5]), 3, right=True), case(values([[1, 3, 5], [2, 4, 6]]), ints(2, 4, high=8)),
                 case(values([1, 3, 5]), ints(3), side="right"),
                 case(values([[1, 3, 5], [2, 4, 6]]), ints(2, 4, high=8), right=True, out_int32=True),
                 error(RuntimeError, "boundaries tensor should have positive dimension", t(), t(2))),
   batch=_searchsorted_each,
   out=_PLACES_OUT, kernels={"cpu": "sort.searchsorted", "npu": "index.searchsorted"}, sharded="whole")


def _bucket_spec(self: Any, boundaries: Tensor, out_int32: bool, right: bool) -> Spec:
    if boundaries._array.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries._array.ndim})")
    return _search_spec(boundaries, self, out_int32, right, None, None)


op("bucketize(Tensor|Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
   public="torch",
   kernel=computes(_bucket_spec, lambda xp, self, boundaries, out_int32, right:
                   _search(xp, boundaries, self, out_int32, right, None, None)),
   kernels={"cpu": "sort.bucketize"},
   npu="aclnnBucketize(self, boundaries, out_int32, right, out)",
   samples=cases(case(t(2, 3), values([-1.0, 0.0, 1.0])), case(ints(3), values([1, 3]), right=True),
                 error(RuntimeError, "boundaries tensor must be 1 dimension, but got dim(2)", t(2),
                       t(2, 2))),
   out=_PLACES_OUT._replace(tensors="self"), batch=against_a_set,
   decomposition=lambda self, boundaries, out_int32, right:
       call_bound(_SEARCH, (boundaries, self, out_int32, right, None, None)), sharded="whole")
