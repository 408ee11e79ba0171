"""Distinct elements and counts: results whose size depends on the data."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.dtype import BOOL, COMPLEX, FLOAT, INT, bool_, float32, float64, int64
from .._core.geometry import proper_dim
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.registry import Operator
from ._declare.aten import LEAF
from ._declare.batch import against_a_set, dynamic_shape, in_front
from ._declare.families import ArrayFamily, computes, moves
from ._declare.op import composite, op
from ._declare.out import Out
from ._declare.rules import Spec
from ._declare.samples import bools, case, cases, error, ints, t, values
from .extreme import NAN, kinks
from .reduce import contiguous


class DataDependent(ArrayFamily):
    """An operator whose result has as many elements as the data tells; `infer` gives types, and there is no Meta "
    "kernel."""

    def described(self, operator: Operator) -> Callable:
        def kernel(*args: Any) -> Any:
            self.infer(*args)
            raise NotImplementedError(f"{operator.name}: attempted to run this operator with Meta tensors, but the "
                                      "shape of its result depends on the data")

        return kernel


def _not_derived(name: str) -> Callable:
    """A formula for results that need grad in PyTorch, though it has no derivative for them."""

    def formula(grad: Tensor) -> Tensor:
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    return formula


def _unique_spec(self: Tensor, *rest: Any) -> tuple[Spec, Spec, Spec]:
    if self.dtype.category == COMPLEX:
        raise NotImplementedError(f"\"unique\" not implemented for '{self.dtype.scalar_name}'")
    return Spec((), self.dtype), Spec((), int64), Spec((), int64)


def _asked(xp: Any, made: Any, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> tuple:
    nothing = xp.empty(0, xp.int64)
    return made, inverse if return_inverse else nothing, counts if return_counts else nothing


def _unique(xp: Any, self: Any, sorted: bool, return_inverse: bool, return_counts: bool) -> tuple[Any, Any, Any]:
    if self.dtype.kind == "b" and self.size:
        return _asked(xp, *_of_bools(xp, self, return_inverse), return_inverse, return_counts)
    if self.dtype.kind in "iu" and self.size:
        low, high = int(self.min()), int(self.max())
        if high - low < _TABLE * self.size and high < 1 << 63:
            return _asked(xp, *_counted(xp, self, low, return_inverse), return_inverse, return_counts)
    if not (return_inverse or return_counts):
        return _asked(xp, _distinct(xp, self.reshape(-1)), None, None, False, False)
    made, inverse, counts = xp.unique(self, return_inverse=True, return_counts=True, equal_nan=False)
    return _asked(xp, made, inverse.reshape(self.shape), counts, return_inverse, return_counts)


def _of_bools(xp: Any, self: Any, return_inverse: bool) -> tuple[Any, Any, Any]:
    """Which of the two values occur, where each of the elements is among them, and how often it occurs."""
    true = int(xp.count_nonzero(self))
    table = xp.asarray([self.size - true, true])
    found = xp.flatnonzero(table)
    return found.astype(bool), self.astype(xp.int64) - found[0] if return_inverse else None, table[found]


_TABLE = 4  # numbers of a range for each element, up to which all of them are counted


def _counted(xp: Any, self: Any, low: int, return_inverse: bool) -> tuple[Any, Any, Any]:
    """The different whole numbers from `low` on, where each of the elements is among them, and how often it occurs."""
    places = self.reshape(-1).astype(xp.int64)
    places -= low
    table = xp.bincount(places)
    found = xp.flatnonzero(table)
    inverse = None
    if return_inverse:
        ranks = xp.empty(table.shape, xp.int64)
        ranks[found] = xp.arange(found.size)
        inverse = ranks[places].reshape(self.shape)
    return (found + low).astype(self.dtype), inverse, table[found]


def _distinct(xp: Any, array: Any) -> Any:
    """The different elements in order, each NaN one of them. By sorting: NumPy's table of hashes is slow when large."""
    ordered = xp.sort(array)
    first = xp.ones(ordered.shape, bool)
    xp.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


_UNIQUE2 = op("_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> "
              "(Tensor, Tensor, Tensor)", sized_by_data=True,
   kernel=DataDependent(_unique_spec, _unique, widen=True), public="torch",
   grad=dict(self=_not_derived("_unique2")),
   samples=cases(case(ints(6)), case(ints(2, 3), True, True, True),
                 case(kinks([1.0, NAN, NAN]), True, True)), batch=dynamic_shape, out=None,
   kernels={"cuda": "sort.unique", "npu": "index.unique"}, sharded="whole")


def _slices_spec(self: Tensor, dim: int, *rest: Any) -> tuple[Spec, Spec, Spec]:
    shape = self._array.shape
    at = proper_dim(dim, len(shape))
    if any(not n for d, n in enumerate(shape) if d != at):
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return _unique_spec(self)


def _unique_slices(xp: Any, self: Any, dim: int, sorted: bool, return_inverse: bool, return_counts: bool) -> tuple:
    if not self.size:
        return self.copy(), xp.empty(self.shape[dim], xp.int64), xp.empty(0, xp.int64)
    if self.dtype.kind == "f" and xp.isnan(self).any():
        rows = xp.moveaxis(self, dim, 0)
        order = xp.asarray(_sorted_as_if_nan_were_equal(rows.reshape(len(rows), -1).tolist()))
        made, places, counts = _runs(xp, xp.take(self, order, dim), True, True, dim)
        inverse = xp.empty_like(places)
        inverse[order] = places
        return made, inverse, counts
    made, inverse, counts = xp.unique(self, return_inverse=True, return_counts=True, axis=dim)
    return made, inverse.reshape(-1), counts


def _sorted_as_if_nan_were_equal(rows: list[list[float]]) -> list[int]:
    """The order that PyTorch's comparison gives, for which NaN is neither smaller nor larger than anything.

    Such a comparison orders nothing: which order comes out is a matter of the algorithm. Up to 16 rows it is the one of
    C++'s library there, insertion; beyond, any.
    """

    def before(a: int, b: int) -> bool:
        differ = ((x, y) for x, y in zip(rows[a], rows[b], strict=True) if x < y or x > y)
        x, y = next(differ, (0, 0))
        return x < y

    def compared(a: int, b: int) -> int:
        return before(b, a) - before(a, b)

    if len(rows) > 16:
        return sorted(range(len(rows)), key=functools.cmp_to_key(compared))
    order: list[int] = []
    for row in range(len(rows)):
        place = len(order)
        if order and before(row, order[0]):
            place = 0
        else:
            while place and before(row, order[place - 1]):
                place -= 1
        order.insert(place, row)
    return order


_UNIQUE_DIM = op("unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool "
                 "return_counts=False) -> (Tensor, Tensor, "
                 "Tensor)", sized_by_data=True, kernel=DataDependent(_slices_spec, _unique_slices, widen=True),
                 public="",
   grad=dict(self=_not_derived("unique_dim")),
   samples=cases(case(values([[3, 1], [2, 1], [3, 1]]), 0, True, True, True), case(ints(2, 6, high=2), 1)),
                 batch=dynamic_shape)


def _runs(xp: Any, self: Any, return_inverse: bool, return_counts: bool, dim: int | None) -> tuple[Any, Any, Any]:
    """One of each group of equal neighbours."""
    rows = self.reshape(-1) if dim is None else xp.moveaxis(self, dim, 0)
    starts = xp.ones(len(rows), bool)
    differ = rows[1:] != rows[:-1]
    starts[1:] = differ if rows.ndim == 1 else differ.any(tuple(range(1, rows.ndim)))
    inverse = counts = None
    if return_inverse:
        inverse = (xp.add.accumulate(starts, dtype=xp.int64) - 1).reshape(self.shape if dim is None else -1)
    if return_counts:
        first = xp.flatnonzero(starts)
        counts = xp.empty(len(first), xp.int64)
        counts[:-1] = first[1:] - first[:-1]
        counts[-1:] = len(rows) - first[-1:]
    made = contiguous(rows[starts])
    if dim is not None:
        made = xp.moveaxis(made, 0, dim)
    return _asked(xp, made, inverse, counts, return_inverse, return_counts)


def _runs_spec(self: Tensor, return_inverse: bool, return_counts: bool, dim: int | None) -> tuple[Spec, Spec, Spec]:
    return _unique_spec(self) if dim is None else _slices_spec(self, dim)


_UNIQUE_RUNS = op("unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? "
                  "dim=None) -> (Tensor, Tensor, "
                  "Tensor)", sized_by_data=True, kernel=DataDependent(_runs_spec, _runs, widen=True), public="",
   grad=dict(self=_not_derived("unique_consecutive")),
   samples=cases(case(values([3, 1, 1, 3]), True, True),
                 case(values([[3, 1], [3, 1], [2, 1]]), True, True, 0)), batch=dynamic_shape, python=True,
   kernels={"cuda": "sort.unique_consecutive", "npu": "index.unique_consecutive"})


def _selected(results: Sequence[Tensor], return_inverse: bool, return_counts: bool) -> Any:
    """What the flags ask for: a tensor alone, or a tuple."""
    made = [results[0], *(results[1:2] if return_inverse else ()), *(results[2:] if return_counts else ())]
    return made[0] if len(made) == 1 else tuple(made)


@composite("unique(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None) "
           "-> Tensor",
           samples=cases(case(ints(6)), case(ints(2, 3), return_inverse=True),
                         case(ints(3, 2, high=2), dim=0, return_counts=True), case(bools(5))), out=None, python=True)
def _public_unique(self, sorted, return_inverse, return_counts, dim):
    if dim is None:
        return _selected(call_bound(_UNIQUE2, (self, sorted, return_inverse, return_counts)), return_inverse,
                         return_counts)
    results = call_bound(_UNIQUE_DIM, (self, dim, sorted, return_inverse, return_counts))
    return _selected(results, return_inverse, return_counts)


@composite("unique_consecutive.selected(Tensor self, bool return_inverse=False, bool return_counts=False, int? "
           "dim=None) -> Tensor", sized_by_data=True,
           samples=cases(case(values([3, 1, 1, 3])), case(values([3, 1, 1, 3]), True, True)), out=None, aten=LEAF,
           python=True)
def _public_unique_consecutive(self, return_inverse, return_counts, dim):
    return _selected(call_bound(_UNIQUE_RUNS, (self, return_inverse, return_counts, dim)), return_inverse,
                     return_counts)


# counts --------------------------------------------------------------------------------------------------------------


def _bincount_spec(self: Tensor, weights: Tensor | None, minlength: int) -> Spec:
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if self.dtype.category != INT:
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{self.dtype.scalar_name}'")
    if self._array.ndim != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return Spec((), int64)
    if weights._array.shape != self._array.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    return Spec((), float32 if weights.dtype is float32 else float64)


def _bincount(xp: Any, self: Any, weights: Any, minlength: int) -> Any:
    if self.size and self.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    return xp.bincount(self, weights if weights is None or weights.dtype.kind != "c" else weights.real, minlength)


op("bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor", sized_by_data=True,
   kernel=DataDependent(_bincount_spec, _bincount, widen=True),
   grad=dict(weights=_not_derived("bincount")),
   samples=cases(case(ints(6)), case(ints(6), minlength=9), case(ints(6), t(6, grad=False)), case(ints(0)),
                 error(RuntimeError, "minlength should be >= 0", ints(3), minlength=-1)), batch=dynamic_shape, out=None,
   kernels={"npu": "index.bincount"})


def _histc_spec(self: Tensor, bins: int, min: Any, max: Any) -> Spec:
    if self.dtype.category != FLOAT:
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{self.dtype.scalar_name}'")
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if min.__class__ is complex or max.__class__ is complex:
        raise RuntimeError("value cannot be converted to type double without overflow")
    if min > max:
        raise RuntimeError("torch.histc: max must be larger than min")
    return Spec((bins,), self.dtype)


def _histc(xp: Any, self: Any, bins: int, min: Any, max: Any) -> Any:
    """Counts of equal bins, the last one closed; elements outside the range count nowhere."""
    if min == max and self.size:
        min, max = float(self.min()), float(self.max())
    if not (np.isfinite(min) and np.isfinite(max)):
        raise RuntimeError(f"torch.histc: range of [{min}, {max}] is not finite")
    if min == max:
        min, max = min - 1, max + 1
    inside = self[(self >= min) & (self <= max)].reshape(-1)
    kind = inside.dtype.type  # each step rounds to the element type, as PyTorch's does
    place = ((inside - kind(min)) * kind(bins) / kind(kind(max) - kind(min))).astype(xp.int64)
    return xp.bincount(xp.minimum(place, bins - 1), minlength=bins)


HISTOGRAM_OUT = Out("exact", "torch.histogram: input tensor and hist tensor should have the same dtype, but got input "
                             "{c_made} and hist {c_given}")
op("histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
   kernel=moves(_histc_spec, _histc), kernels={"cuda": "nonzero.histc"},
   npu="aclnnHistc(self, bins, min, max, out) empty=0",
   samples=cases(case(t(20), 4), case(t(20), 5, -1, 1), case(t(4), 3),
                 error(RuntimeError, "torch.histc: max must be larger", t(4), 4, 3, 0)),
   out=HISTOGRAM_OUT._replace(grad="ignored"), sharded="whole")


def _isin_spec(elements: Any, test: Any, assume_unique: bool, invert: bool) -> Spec:
    for operand in (elements, test):
        if isinstance(operand, Tensor) and operand.dtype.category in (BOOL, COMPLEX):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {operand.dtype.scalar_name}")
        if operand.__class__ in (bool, complex):
            kind = "Bool" if operand.__class__ is bool else "ComplexDouble"
            raise RuntimeError(f"Unsupported input type encountered for isin(): {kind}")
    return Spec(elements._array.shape if isinstance(elements, Tensor) else (), bool_)


def _isin(xp: Any, elements: Any, test: Any, assume_unique: bool, invert: bool) -> Any:
    return xp.isin(elements, test, assume_unique=assume_unique, invert=invert).reshape(xp.shape(elements))


def _isin_by_parts(elements: Any, test_elements: Any, assume_unique: bool, invert: bool) -> Any:
    found = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
    return ~found if invert else found


_ISIN_CASES = cases(case(ints(6), ints(3)), case(t(2, 3), t(2)), case(ints(2, 3), ints(0)),
                    case(ints(6), ints(3), invert=True),
                    error(RuntimeError, "Unsupported input type encountered for isin(): Bool", bools(2), bools(2)))
for _overload, _arguments, _row, _batch, _samples in (
    ("Tensor_Tensor", "Tensor elements, Tensor test_elements", None, against_a_set, _ISIN_CASES),
    ("Tensor_Scalar", "Tensor elements, Scalar test_element",
     "aclnnIsInTensorScalar(elements, test_element, assume_unique, invert, out)", in_front,
     cases(case(ints(6), 2), case(t(2, 3), 1.5, invert=True))),
    ("Scalar_Tensor", "Scalar element, Tensor test_elements",
     "aclnnIsInScalarTensor(element, test_elements, assume_unique, invert, out)", None,
     cases(case(2, ints(6)), case(9, ints(6)))),
):
    op(f"isin.{_overload}({_arguments}, *, bool assume_unique=False, bool invert=False) -> Tensor",
       kernel=computes(_isin_spec, _isin), npu=_row, samples=_samples, batch=_batch, out=Out(grad="ignored"),
       apart="elements" if "elements," in _arguments or _overload == "Tensor_Scalar" else "",
       decomposition=None if _row else _isin_by_parts)
