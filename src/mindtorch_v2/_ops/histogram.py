"""Histograms over one or several dimensions."""

import math
from collections.abc import Sequence
from typing import Any

from .._core.dtype import COMPUTE, FLOAT, dtype, int64
from .._core.elements import has_elements
from .._core.tensor import Tensor
from .._dispatch.registry import registry
from ._declare.aten import LEAF
from ._declare.families import moves
from ._declare.op import composite, function_of, named_result, op
from ._declare.rules import Spec, shape_text
from ._declare.samples import case, cases, error, ints, t
from .create import evenly_spaced
from .unique import HISTOGRAM_OUT

_linspace, _searchsorted, _where, _stack = (function_of(registry.get(f"aten::{name}"))
                                            for name in ("linspace", "searchsorted", "where.self", "stack"))
_HISTOGRAMDD = named_result("histogramdd", ("hist", "bin_edges"))


def _check(self: Any, weight: Any, shape: Sequence[int], weights: Sequence[int] | None) -> int:
    """The number of dimensions of the histogram; raises for tensors (of these shapes) that do not belong together."""
    if len(shape) < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    if self.dtype.category != FLOAT:
        _refuse(self.dtype)
    if weights is not None:
        if weight.dtype is not self.dtype:
            raise RuntimeError("torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should "
                               f"have the same dtype, but got input({_c_name(self)}), and weight({_c_name(weight)})")
        if tuple(weights) != tuple(shape[:-1]):
            raise RuntimeError("torch.histogramdd: if weight tensor is provided it should have the same shape as the "
                               "input tensor excluding its innermost dimension, but got input with shape "
                               f"{shape_text(shape)} and weight with shape {shape_text(weights)}")
    return shape[-1]


def _refuse(kind: dtype) -> None:
    raise NotImplementedError(f"\"histogramdd\" not implemented for '{kind.scalar_name}'")


def _c_name(tensor: Any) -> str:
    """What C++ calls the element type."""
    name = tensor.dtype.scalar_name
    return {"Float": "float", "Double": "double", "Long": "long int", "Int": "int", "Bool": "bool"}.get(name, name)


def _check_edges(self: Any, bins: Sequence[Any]) -> None:
    for d, edges in enumerate(bins):
        if edges.dtype is not self.dtype:
            raise RuntimeError("torch.histogramdd: input tensor and bins tensors should have the same dtype, but got "
                               f"input with dtype {_c_name(self)} and bins for dimension {d} with dtype "
                               f"{_c_name(edges)}")
        if edges.dim() != 1:
            raise RuntimeError(f"torch.histogramdd: bins tensor should have one dimension, but got {edges.dim()} "
                               f"dimensions in the bins tensor for dimension {d}")
        if not edges.numel():
            raise RuntimeError("torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in "
                               f"the bins tensor for dimension {d}")
        _check_count(edges.numel() - 1, d)


def _check_count(count: int, d: int) -> None:
    if count <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {count} for dimension {d}")


# The smallest and the largest element of each column.
_bounds = function_of(op(
    "_histogram_bounds(Tensor self, int columns) -> Tensor",
    kernel=moves(lambda self, columns: Spec((2, columns), self.dtype),
                 lambda xp, self, columns: xp.stack([f(self.reshape(-1, columns), 0) for f in (xp.min, xp.max)])),
    kernels={"cpu": "histogram.bounds"}, public="",
    decomposition=lambda self, columns: _stack((self.reshape(-1, columns).amin(0), self.reshape(-1, columns).amax(0)))))
# Edges of bins of equal width, for each dimension between two limits.
_edges_between = function_of(op(
    "_histogram_edges(Tensor self, int[] bins, float[] limits) -> Tensor[]",
    kernel=moves(lambda self, bins, limits: [Spec((count + 1,), self.dtype) for count in bins],
                 lambda xp, self, bins, limits, spec: [
                     evenly_spaced(xp, limits[2 * d], limits[2 * d + 1], count + 1, spec=spec[d])
                     for d, count in enumerate(bins)]), kernels={"cpu": "histogram.edges"}, public="",
    decomposition=lambda self, bins, limits: [
        _linspace(limits[2 * d], limits[2 * d + 1], count + 1, dtype=self.dtype, device=self._device)
        for d, count in enumerate(bins)]))


def _equal_edges(self: Any, counts: Sequence[int], range: Sequence[float] | None, dims: int) -> Sequence[Any]:
    """Edges of bins of equal width over the given ranges, or over those of the data."""
    for d, count in enumerate(counts):
        _check_count(count, d)
    if range is not None:
        if len(range) != 2 * dims:
            raise RuntimeError(f"torch.histogramdd: for a {dims}-dimensional histogram range should have {2 * dims} "
                               f"elements, but got {len(range)}")
        limits = list(range)
    elif not has_elements(self) or not self.numel():
        limits = [0.0, 1.0] * dims
    elif self.dtype in COMPUTE:
        _refuse(self.dtype)
    else:
        limits = [bound for pair in zip(*_bounds(self, dims).tolist(), strict=True) for bound in pair]
    for d in _dimensions(dims):
        low, high = limits[2 * d : 2 * d + 2]
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(f"torch.histogramdd: dimension {d}'s range [{low:g}, {high:g}] is not finite")
        if low > high:
            raise RuntimeError(f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for "
                               f"dimension {d}")
        if low == high:
            limits[2 * d : 2 * d + 2] = low - 0.5, high + 0.5
    return _edges_between(self, counts, limits)


_dimensions = range  # which PyTorch's argument hides


def _counts_spec(self: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool, even: bool) -> Spec:
    return Spec(tuple([e._array.shape[0] - 1 for e in edges]), self.dtype)


def _counts(xp: Any, self: Any, edges: Sequence[Any], weight: Any, density: bool, even: bool) -> Any:
    """How many rows, or how much weight, falls between the edges; the last bin of a dimension is closed.

    That the bins are `even`, of equal width, is for kernels to know.
    """
    sizes = [e.shape[0] - 1 for e in edges]
    total, rows = math.prod(sizes), self.reshape(-1, len(sizes))
    place, inside = xp.zeros(rows.shape[0], xp.int64), xp.ones(rows.shape[0], bool)
    for d, (edge, size) in enumerate(zip(edges, sizes, strict=True)):
        column = rows[:, d]
        inside &= (column >= edge[0]) & (column <= edge[-1])
        place = place * size + xp.clip(xp.searchsorted(edge, column, side="right") - 1, 0, size - 1)
    # What lies outside goes to one more place, which is cut off.
    place = xp.where(inside, place, total)
    weight = None if weight is None else weight.reshape(-1)
    made = xp.bincount(place, weight, minlength=total + 1)[:total].reshape(sizes).astype(rows.dtype)
    if density:
        made = made / made.sum()
        for d, edge in enumerate(edges):
            made = made / xp.diff(edge).reshape([-1 if i == d else 1 for i in range(len(sizes))])
    return made


def _counts_by_parts(self: Any, edges: Sequence[Any], weight: Any, density: bool, even: bool) -> Any:
    sizes = [e.numel() - 1 for e in edges]
    total = math.prod(sizes)
    rows = self.reshape(-1, len(edges))
    place, inside = rows.new_zeros(rows.shape[0], dtype=int64), None
    for d, (edge, size) in enumerate(zip(edges, sizes, strict=True)):
        column = rows.select(1, d).contiguous()
        fits = (column >= edge[0]) & (column <= edge[-1])
        inside = fits if inside is None else inside & fits
        place = place * size + (_searchsorted(edge, column, right=True) - 1).clamp(0, size - 1)
    weights = rows.new_ones(rows.shape[0]) if weight is None else weight.reshape(-1)
    counts = rows.new_zeros(total + 1).index_add(0, _where(inside, place, place.new_full((), total)), weights)
    made = counts[:total].reshape(sizes)
    if density:
        made = made / made.sum()
        for d, edge in enumerate(edges):
            made = made / edge.diff().reshape([-1 if i == d else 1 for i in range(len(sizes))])
    return made


_counted = function_of(op(
    "_histogram_counts(Tensor self, Tensor[] edges, Tensor? weight, bool density, bool even) -> Tensor",
    kernel=moves(_counts_spec, _counts), kernels={"cpu": "histogram.histogram"}, public="",
    decomposition=_counts_by_parts))


# one dimension -------------------------------------------------------------------------------------------------------


@composite("histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor "
           "hist, Tensor bin_edges)", sized_by_data=True,
           samples=cases(case(t(20, grad=False), t(4, values=[-1.0, 0.0, 0.5, 2.0], grad=False)),
                         case(t(3, 4, grad=False), t(2, values=[-1.0, 1.0], grad=False),
                              weight=t(3, 4, grad=False), density=True)),
           out=HISTOGRAM_OUT, aten=LEAF)
def _histogram_of_edges(self: Any, bins: Any, weight: Any, density: bool) -> Any:
    _check(self, weight, (self.numel(), 1), None if weight is None else (weight.numel(),))
    _check_edges(self, (bins,))
    counts = _counted(self, (bins,), weight, density, False)
    return named_result("histogram", ("hist", "bin_edges"))(counts, bins.clone())


@composite("histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool "
           "density=False) -> (Tensor hist, Tensor bin_edges)", sized_by_data=True,
           samples=cases(case(t(20, grad=False), 4), case(t(20, grad=False), 5, range=(-1.0, 1.0), density=True),
                         case(t(2, 3, grad=False), 2, weight=t(2, 3, grad=False)), case(t(0, grad=False), 3),
                         error(RuntimeError, "bins must be > 0, but got 0 for dimension 0", t(3), 0),
                         error(NotImplementedError, "\"histogramdd\" not implemented for 'Long'", ints(3), 4)),
           out=HISTOGRAM_OUT, aten=LEAF)
def _histogram_of_count(self: Any, bins: int, range: Any, weight: Any, density: bool) -> Any:
    _check(self, weight, (self.numel(), 1), None if weight is None else (weight.numel(),))
    edges = _equal_edges(self, (bins,), range, 1)
    return named_result("histogram", ("hist", "bin_edges"))(_counted(self, edges, weight, density, True), edges[0])


# several dimensions --------------------------------------------------------------------------------------------------

_ARGUMENTS = "float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)"


@composite(f"histogramdd.TensorList_bins(Tensor self, Tensor[] bins, {_ARGUMENTS}", public="torch")
def _histogramdd_of_edges(self: Any, bins: Sequence[Any], range: Any, weight: Any, density: bool) -> Any:
    dims = _check(self, weight, self.shape, None if weight is None else weight.shape)
    if len(bins) != dims:
        raise RuntimeError(f"torch.histogramdd: expected {dims} sequences of bin edges for a {dims}-dimensional "
                           f"histogram but got {len(bins)}")
    _check_edges(self, bins)
    return _HISTOGRAMDD(_counted(self, bins, weight, density, False), tuple([edges.clone() for edges in bins]))


@composite(f"histogramdd.int_bins(Tensor self, int bins, {_ARGUMENTS}", public="torch")
def _histogramdd_of_count(self: Any, bins: int, range: Any, weight: Any, density: bool) -> Any:
    return _histogramdd_of_counts(self, (bins,) * self.shape[-1], range, weight, density)


@composite(f"histogramdd(Tensor self, int[] bins, {_ARGUMENTS}", public="torch")
def _histogramdd_of_counts(self: Any, bins: Sequence[int], range: Any, weight: Any, density: bool) -> Any:
    dims = _check(self, weight, self.shape, None if weight is None else weight.shape)
    if len(bins) != dims:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    edges = _equal_edges(self, bins, range, dims)
    return _HISTOGRAMDD(_counted(self, edges, weight, density, True), tuple(edges))
