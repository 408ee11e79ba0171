"""Histograms over one or several dimensions."""

import math
from collections.abc import Sequence
from typing import Any

from .._core.device import META
from .._core.dtype import COMPUTE, FLOAT, dtype, int64
from .._dispatch.registry import registry
from ._declare.aten import LEAF
from ._declare.op import composite, function_of, named_result
from ._declare.rules import shape_text
from ._declare.samples import case, cases, error, ints, t
from .unique import HISTOGRAM_OUT

_linspace, _searchsorted, _where = (function_of(registry.get(f"aten::{name}"))
                                    for name in ("linspace", "searchsorted", "where.self"))
_HISTOGRAMDD = named_result("histogramdd", ("hist", "bin_edges"))


def _check(self: Any, weight: Any) -> int:
    """The number of dimensions of the histogram; raises for tensors that do not belong together."""
    if self.dim() < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    if self.dtype.category != FLOAT:
        _refuse(self.dtype)
    if weight is not None:
        if weight.dtype is not self.dtype:
            raise RuntimeError("torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should "
                               f"have the same dtype, but got input({_c_name(self)}), and weight({_c_name(weight)})")
        if weight.shape != self.shape[:-1]:
            raise RuntimeError("torch.histogramdd: if weight tensor is provided it should have the same shape as the "
                               "input tensor excluding its innermost dimension, but got input with shape "
                               f"{shape_text(self.shape)} and weight with shape {shape_text(weight.shape)}")
    return self.shape[-1]


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


def _equal_edges(self: Any, counts: Sequence[int], range: Sequence[float] | None) -> list[Any]:
    """Edges of bins of equal width over the given ranges, or over those of the data."""
    dims = self.shape[-1]
    for d, count in enumerate(counts):
        _check_count(count, d)
    if range is not None and len(range) != 2 * dims:
        raise RuntimeError(f"torch.histogramdd: for a {dims}-dimensional histogram range should have {2 * dims} "
                           f"elements, but got {len(range)}")
    made = []
    for d, count in enumerate(counts):
        if range is not None:
            low, high = range[2 * d : 2 * d + 2]
        elif self._device is META or not self.numel():
            low, high = 0.0, 1.0
        elif self.dtype in COMPUTE:
            _refuse(self.dtype)
        else:
            column = self.select(-1, d)
            low, high = column.min().item(), column.max().item()
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(f"torch.histogramdd: dimension {d}'s range [{low:g}, {high:g}] is not finite")
        if low > high:
            raise RuntimeError(f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for "
                               f"dimension {d}")
        if low == high:
            low, high = low - 0.5, high + 0.5
        made.append(_linspace(low, high, count + 1, dtype=self.dtype, device=self._device))
    return made


def _counted(self: Any, edges: Sequence[Any], weight: Any, density: bool) -> Any:
    """How many rows, or how much weight, falls between the edges; the last bin of a dimension is closed."""
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
    # What lies outside goes to one more place, which is cut off.
    counts = rows.new_zeros(total + 1).index_add(0, _where(inside, place, place.new_full((), total)), weights)
    made = counts[:total].reshape(sizes)
    if density:
        made = made / made.sum()
        for d, edge in enumerate(edges):
            made = made / edge.diff().reshape([-1 if i == d else 1 for i in range(len(sizes))])
    return made


# one dimension -------------------------------------------------------------------------------------------------------


@composite("histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor "
           "hist, Tensor bin_edges)",
           samples=cases(case(t(20, grad=False), t(4, values=[-1.0, 0.0, 0.5, 2.0], grad=False)),
                         case(t(3, 4, grad=False), t(2, values=[-1.0, 1.0], grad=False),
                              weight=t(3, 4, grad=False), density=True)),
           out=HISTOGRAM_OUT, aten=LEAF)
def _histogram_of_edges(self: Any, bins: Any, weight: Any, density: bool) -> Any:
    rows, weights = self.reshape(-1, 1), None if weight is None else weight.reshape(-1)
    _check(rows, weights)
    _check_edges(rows, (bins,))
    return named_result("histogram", ("hist", "bin_edges"))(_counted(rows, (bins,), weights, density), bins.clone())


@composite("histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool "
           "density=False) -> (Tensor hist, Tensor bin_edges)",
           samples=cases(case(t(20, grad=False), 4), case(t(20, grad=False), 5, range=(-1.0, 1.0), density=True),
                         case(t(2, 3, grad=False), 2, weight=t(2, 3, grad=False)), case(t(0, grad=False), 3),
                         error(RuntimeError, "bins must be > 0, but got 0 for dimension 0", t(3), 0),
                         error(NotImplementedError, "\"histogramdd\" not implemented for 'Long'", ints(3), 4)),
           out=HISTOGRAM_OUT, aten=LEAF)
def _histogram_of_count(self: Any, bins: int, range: Any, weight: Any, density: bool) -> Any:
    rows, weights = self.reshape(-1, 1), None if weight is None else weight.reshape(-1)
    _check(rows, weights)
    edges = _equal_edges(rows, (bins,), range)
    return named_result("histogram", ("hist", "bin_edges"))(_counted(rows, edges, weights, density), edges[0])


# several dimensions --------------------------------------------------------------------------------------------------

_ARGUMENTS = "float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)"


@composite(f"histogramdd.TensorList_bins(Tensor self, Tensor[] bins, {_ARGUMENTS}", public="torch")
def _histogramdd_of_edges(self: Any, bins: Sequence[Any], range: Any, weight: Any, density: bool) -> Any:
    dims = _check(self, weight)
    if len(bins) != dims:
        raise RuntimeError(f"torch.histogramdd: expected {dims} sequences of bin edges for a {dims}-dimensional "
                           f"histogram but got {len(bins)}")
    _check_edges(self, bins)
    return _HISTOGRAMDD(_counted(self, bins, weight, density), tuple([edges.clone() for edges in bins]))


@composite(f"histogramdd.int_bins(Tensor self, int bins, {_ARGUMENTS}", public="torch")
def _histogramdd_of_count(self: Any, bins: int, range: Any, weight: Any, density: bool) -> Any:
    return _histogramdd_of_counts(self, (bins,) * self.shape[-1], range, weight, density)


@composite(f"histogramdd(Tensor self, int[] bins, {_ARGUMENTS}", public="torch")
def _histogramdd_of_counts(self: Any, bins: Sequence[int], range: Any, weight: Any, density: bool) -> Any:
    dims = _check(self, weight)
    if len(bins) != dims:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    edges = _equal_edges(self, bins, range)
    return _HISTOGRAMDD(_counted(self, edges, weight, density), tuple(edges))
