"""Reductions that add, multiply, count or test; and what all reductions share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._autograd.names import when_given
from .._backends.interface import Backend
from .._core.dtype import FLOAT, INT, WIDER, bool_, cast, dtype, float32, float64, int64, uint8
from .._core.elements import at_hand, has_elements
from .._core.geometry import wrapped_dim
from .._core.tensor import Tensor
from .._dispatch.callers import call_bound
from .._dispatch.registry import Operator, registry
from .._dispatch.schema import Schema
from ._declare.aten import Aten, if_given
from ._declare.batch import Call, Result, along_dimensions, decomposed
from ._declare.families import ArrayFamily, computes, planning_launches
from ._declare.op import composite, op
from ._declare.out import ANY, DIVIDED, Out
from ._declare.rules import Spec, anywhere, shape_text, warn_of_parts_lost
from ._declare.samples import bools, case, cases, error, ints, t, values

PLAIN = frozenset((float32.np, float64.np))
_new = object.__new__

# Rows that are added one after the other before their sum is added to those of other blocks: a running sum of more
# would lose digits that PyTorch's cascade keeps.
BLOCK = 512


# dimensions ----------------------------------------------------------------------------------------------------------


def reduced_dims(dim: Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """The dimensions to fold, counted from the front; none given means all."""
    if not dim:
        return tuple(range(ndim))
    if len(dim) == 1:
        at = wrapped_dim(dim[0], ndim)
        return (at,) if ndim else ()
    wrapped = tuple([wrapped_dim(d, ndim) for d in dim])
    if len(set(wrapped)) != len(wrapped):
        twice = next(d for i, d in enumerate(wrapped) if d in wrapped[:i])
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return wrapped if ndim else ()


def folded_shape(shape: tuple[int, ...], dims: Sequence[int], keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return tuple([1 if d in dims else n for d, n in enumerate(shape)])
    return tuple([n for d, n in enumerate(shape) if d not in dims])


def unfolded(tensor: Any, shape: Sequence[int], dim: Sequence[int] | None, keepdim: bool) -> Any:
    """A tensor, or an array, with the folded dimensions back as size one, so that it broadcasts against `shape`."""
    if keepdim or not dim or not shape:
        return tensor
    if tensor.__class__ is not Tensor and not isinstance(tensor, Tensor):
        return tensor.reshape(folded_shape(tuple(shape), reduced_dims(dim, len(shape)), True))
    for d in sorted(reduced_dims(dim, len(shape))):
        tensor = tensor.unsqueeze(d)
    return tensor


def _spread(grad: Tensor, shape: Sequence[int], dim: Sequence[int] | None, keepdim: bool) -> Tensor:
    """The gradient of a sum: the same for each element that was added."""
    return unfolded(grad, shape, dim, keepdim).expand(shape)


# the family ----------------------------------------------------------------------------------------------------------


def contiguous(array: Any) -> Any:
    """The array, or a copy in C order; also where a dimension of size one lets NumPy keep other strides."""
    if array.ndim > 1 and (not array.flags.c_contiguous or 1 in array.shape and not _has_plain_strides(array)):
        return array.copy()
    return array


def _has_plain_strides(array: Any) -> bool:
    step = array.itemsize
    for n, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if stride != step:
            return False
        step *= n or 1
    return True


def folded(reduce: Callable, array: Any, axes: tuple[int, ...] | None, keepdim: bool) -> Any:
    """`reduce` of a ufunc over the axes, contiguous (NumPy follows the operand's order of dimensions)."""
    result = reduce(array, axes, None, None, keepdim)
    return result if array.flags.c_contiguous else contiguous(result)


def summed(array: Any, axes: tuple[int, ...] | None, keepdim: bool) -> Any:
    """The sum over the axes (None for all), exact to a few units in the last place however many are added."""
    if not at_hand(array):  # a GPU adds in many lanes anyhow
        return array.sum(axis=axes, keepdims=keepdim)
    if array.size <= BLOCK * 8 or array.dtype.kind not in "fc":
        return folded(np.add.reduce, array, axes, keepdim)
    axes = None if axes is not None and len(axes) == array.ndim else axes
    if array.dtype in PLAIN and array.flags.c_contiguous and axes in (None, (array.ndim - 1,)):
        total = _row_sums(array.reshape(-1) if axes is None else array)
        return total.reshape(folded_shape(array.shape, axes or range(array.ndim), True)) if keepdim else total
    if array.ndim > 1:
        outer = _long_outer_axis(array, axes)
        if outer is not None:
            return _blockwise(array, outer, axes if axes is not None else tuple(range(array.ndim)), keepdim)
    return folded(np.add.reduce, array, axes, keepdim)


def _row_sums(array: Any) -> Any:
    """Sums over the last axis. `einsum` adds a row with more lanes than a reduction, so that it is several times "
    "faster."""
    width, length = 2 * BLOCK, array.shape[-1]
    if length <= width:
        return np.einsum("...i->...", array)
    whole = length - length % width
    parts = np.einsum("...i->...", array[..., :whole].reshape(*array.shape[:-1], -1, width))
    return np.add.reduce(parts, -1) + np.add.reduce(array[..., whole:], -1)


def _long_outer_axis(array: Any, axes: tuple[int, ...] | None) -> int | None:
    """The longest axis that NumPy would add one by one: any but the innermost, which it adds pairwise."""
    if axes is None and array.flags.forc:
        return None
    strides = array.strides
    innermost = min(range(array.ndim), key=lambda d: (array.shape[d] == 1, abs(strides[d]), -d))
    outer = [d for d in (range(array.ndim) if axes is None else axes) if d != innermost and array.shape[d] >= 2 * BLOCK]
    return max(outer, key=lambda d: array.shape[d]) if outer else None


def _blockwise(array: Any, axis: int, axes: tuple[int, ...], keepdim: bool) -> Any:
    """The sum over the axes, with `axis` added in blocks first."""
    length = array.shape[axis]
    whole = length - length % BLOCK
    head, tail = np.split(array, [whole], axis)
    head = head.reshape(*array.shape[:axis], whole // BLOCK, BLOCK, *array.shape[axis + 1 :])
    total = summed(np.add.reduce(head, axis + 1), axes, keepdim)
    return total + folded(np.add.reduce, tail, axes, keepdim) if whole != length else total


class Reduction(ArrayFamily):
    """Folds dimensions, with a ufunc where one does it. Members take `self` and perhaps, in this order, `dim`,
    `keepdim` and `dtype`.

    Arrays of the two plain types go straight into machine code where there is some (`quick` of the kernel that the
    declaration names), small ones else into the ufunc, where nothing can go wrong; `finish(result, count)` is what
    remains to be done to what a ufunc folded. If plans are found by compiled code, they come before all that.
    """

    def __init__(self, ufunc: str | None, infer: Callable, array: Callable, finish: Callable | None = None, *,
                 empty: bool = True) -> None:
        super().__init__(infer, array, widen=True)
        self.ufunc, self.finish, self.empty = ufunc, finish, empty

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        general, arity = super().kernel(operator, backend), len(operator.schema.arguments)
        if not backend.direct:
            return general
        reduce, finish, plain = getattr(np, self.ufunc or "add").reduce, self.finish, PLAIN
        smallest, largest = 0 if self.empty else 1, BLOCK * 8 if self.ufunc else -1
        own = getattr(backend.array_function(operator, self.array), "own", None)
        quick = getattr(own, "quick", lambda *arguments: None)

        def kernel(self: Tensor, dim: Any = None, keepdim: bool = False, dtype: dtype | None = None) -> Tensor:
            array = self._array
            size = array.size
            if array.dtype not in plain or size < smallest or dtype is not None or dim and (
                    len(dim) != 1 or not -array.ndim <= dim[0] < array.ndim):
                return general(*(self, dim, keepdim, dtype)[:arity])
            if array.flags.c_contiguous:
                result = quick(array, dim, keepdim)
                if result is not None:
                    made = _new(Tensor)
                    made._array = result
                    return made
            if size > largest:
                return general(*(self, dim, keepdim, dtype)[:arity])
            if not dim:
                result, count = reduce(array, None, None, None, keepdim), size
            else:
                result, count = reduce(array, dim[0], None, None, keepdim), array.shape[dim[0]]
            if finish is not None:
                result = finish(result, count)
            if not result.ndim:
                result = np.asarray(result)  # NumPy makes numbers of arrays without dimensions
            elif result.ndim > 1 and not array.flags.c_contiguous:
                result = contiguous(result)
            made = _new(Tensor)
            made._array = result
            return made

        repeated = getattr(own, "repeated", None)
        if backend.lookups is None or repeated is None:
            return kernel
        return planning_launches(operator, backend, self.infer, lambda twins, spec: repeated(spec), kernel)


# sums ----------------------------------------------------------------------------------------------------------------


def _sum_spec(self: Tensor, dim: Any, keepdim: bool, dtype: dtype | None) -> Spec:
    kind = dtype or self.dtype
    if dtype is None and kind.category <= INT:
        kind = int64
    shape = self._array.shape
    return Spec(folded_shape(shape, reduced_dims(dim, len(shape)), keepdim), kind)


def _addends(array: Any, spec: Spec, explicit: dtype | None) -> Any:
    """What is added: the elements, in the type of the result but half precision in float32."""
    kind = spec.dtype
    if explicit is not None and explicit.np != array.dtype:
        warn_of_parts_lost(array, kind)
        array = cast(array, kind.np)
    wide = WIDER.get(kind.np, kind.np)
    return array if array.dtype == wide else cast(array, wide)


def axes_of(array: Any, dim: Any) -> tuple[int, ...] | None:
    return reduced_dims(dim, array.ndim) if dim else None


def _sum(xp: Any, self: Any, dim: Any, keepdim: bool, dtype: dtype | None, spec: Spec) -> Any:
    if spec.dtype is bool_:
        return folded(xp.logical_or.reduce, self, axes_of(self, dim), keepdim)
    if self.dtype.kind == "b" and not dim and not keepdim:
        return xp.count_nonzero(self)
    return summed(_addends(self, spec, dtype), axes_of(self, dim), keepdim)


def _mean_spec(self: Tensor, dim: Any, keepdim: bool, dtype: dtype | None) -> Spec:
    kind = dtype or self.dtype
    if kind.category < FLOAT:
        raise RuntimeError(f"mean(): could not infer output dtype. {'Input' if dtype is None else 'Optional'} dtype "
                           f"must be either a floating point or complex dtype. Got: {kind.scalar_name}")
    return _sum_spec(self, dim, keepdim, kind)


def folded_count(shape: Sequence[int], dim: Sequence[int] | None) -> int:
    """How many elements fall together into one."""
    count = 1
    for d in reduced_dims(dim, len(shape)):
        count *= shape[d]
    return count


def _mean(xp: Any, self: Any, dim: Any, keepdim: bool, dtype: dtype | None, spec: Spec) -> Any:
    return summed(_addends(self, spec, dtype), axes_of(self, dim), keepdim) / folded_count(self.shape, dim)


DIM_CASES = (case(t(2, 3)), case(t(2, 3), 1), case(t(2, 3), -2, True), case(t(2, 3, 4), (0, 2)),
             case(t(2, 3, 4), (2, 0), keepdim=True), case(t(2, 3), ()), case(t()), case(t(), 0),
             case(t(3, 2, layout="transposed"), 0), case(t(2, 3, layout="expanded")), case(t(2, 3, layout="sliced"), 0),
             case(t(2, 0), 0))
DIM_ERRORS = (error(IndexError, "Dimension out of range (expected to be in range of [-2, 1], but got 2)", t(2, 3), 2),
              error(RuntimeError, "dim 0 appears multiple times in the list of dims", t(2, 3), (0, -2)))

op("sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
   kernel=Reduction("add", _sum_spec, _sum),
   kernels={"cpu": "reduce.total", "cuda": "reduce.folded", "sparse_coo": "math.total",
            "sparse_compressed": "math.total_compressed"},
   npu="aclnnReduceSum(self, dim|[], keepdim, out.dtype, out) empty=0",
   grad=dict(self=lambda grad, self_shape, dim, keepdim: _spread(grad, self_shape, dim, keepdim)),
   samples=cases(*DIM_CASES, *DIM_ERRORS, case(t(0, 3)), case(t(0, 3), 0), case(t(2, 3), dtype=float64),
                 case(ints(2, 3), 0), case(bools(2, 3)), case(ints(2, 3), dtype=float32)), linear=True, out=ANY,
   aten=Aten(if_given("dim", "dim_IntList")),
   autocast=dict(accelerators="result"), node={"SumBackward1": when_given("dim")}, in_rows="sum",
   sharded="folded sum linear")

op("mean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
   kernel=Reduction("add", _mean_spec, _mean, lambda total, count: total / count),
   kernels={"cpu": "reduce.mean", "cuda": "reduce.folded"},
   npu="aclnnMean(self, dim|[], keepdim, out.dtype, out) empty=nan",
   grad=dict(self=lambda grad, self_shape, dim, keepdim:
             _spread(grad, self_shape, dim, keepdim) / folded_count(self_shape, dim)),
   samples=cases(*DIM_CASES, *DIM_ERRORS, case(ints(2, 3), dtype=float64),
                 error(RuntimeError, "could not infer output dtype", ints(2, 3))),
   out=DIVIDED, linear=True, aten=Aten(if_given("dim", "dim")), node={"MeanBackward1": when_given("dim")},
   in_rows="mean", sharded="folded avg linear")


@composite("sum_to_size(Tensor self, int[] size) -> Tensor", public="Tensor",
           samples=cases(case(t(2, 3), (3,)), case(t(2, 3), (2, 1)), case(t(2, 3), (1, 1)), case(t(2, 3), ()),
                         case(t(2, 4, 3), (4, 1)), case(t(2, 3), (2, 3)),
                         error(RuntimeError, "size {[2]} is not expandable to size {[2, 3]}.", t(2, 3),
                               (2,))))
def _sum_to_size(self, size):
    shape = self._array.shape
    added = len(shape) - len(size)
    if added < 0 or any(n != 1 and n != m for n, m in zip(size, shape[added:], strict=True)):
        raise RuntimeError(f"size {{{shape_text(size)}}} is not expandable to size {{{shape_text(shape)}}}.")
    if not size:
        return self.sum()
    kept = tuple([d for d in range(added, len(shape)) if size[d - added] == 1 != shape[d]])
    if not kept and not added:
        return self
    total = self.sum((*range(added), *kept), True)
    return total.view(size) if added else total


# logical tests -------------------------------------------------------------------------------------------------------


def _test_spec(self: Tensor, dim: Any, keepdim: bool) -> Spec:
    shape = self._array.shape
    kind = uint8 if self.dtype is uint8 else bool_
    if dim == ():  # unlike a sum, a test of no dimension folds nothing
        return Spec(shape, kind)
    return Spec(folded_shape(shape, reduced_dims(dim, len(shape)), keepdim), kind)


def _test(ufunc: str) -> ArrayFamily:
    """`any` and `all`: a logical ufunc over the axes."""

    def array(xp: Any, self: Any, dim: Any, keepdim: bool) -> Any:
        return folded(getattr(xp, ufunc).reduce, self, () if dim == () else axes_of(self, dim), keepdim)

    return computes(_test_spec, array)


def _test_each(call: Call) -> Result:
    return along_dimensions(call, empty_means_all=False)


def _test_overload(schema: Schema, values: Sequence[Any]) -> str:
    dims = values[1]
    return "default" if dims is None else "dim" if len(dims) == 1 else "dims"


for _name, _ufunc in (("any", "logical_or"), ("all", "logical_and")):
    op(f"{_name}(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor", kernel=_test(_ufunc),
       npu=f"aclnn{_name.title()}(self, dim|[], keepdim, out) empty={_name == 'all'}",
       kernels={"cpu": f"reduce.{_name}_true", "cuda": "reduce.folded", "npu": "reduce.truth",
                **({"sparse_coo": "math.any_true"} if _name == "any" else {})},
       samples=cases(*DIM_CASES, *DIM_ERRORS, case(bools(2, 3)), case(bools(2, 3), 1), case(ints(2, 3, high=2), 0),
                     case(t(0, 3)), case(t(0, 3), 0)),
       out=Out("exact", "{name} only supports bool tensor for result, got: {given}", grad="ignored",
               first=lambda *arguments: bool_), batch=_test_each, aten=Aten(_test_overload),
       sharded="folded or" if _name == "any" else "folded and")


# products ------------------------------------------------------------------------------------------------------------


def one_dim(dim: int | None) -> tuple[int, ...] | None:
    return None if dim is None else (dim,)


def _prod(xp: Any, self: Any, dim: int | None, keepdim: bool, dtype: dtype | None, spec: Spec) -> Any:
    if spec.dtype is bool_:
        return folded(xp.logical_and.reduce, self, axes_of(self, one_dim(dim)), keepdim)
    return folded(xp.multiply.reduce, _addends(self, spec, dtype), axes_of(self, one_dim(dim)), keepdim)


def _prod_grad(grad: Tensor, self: Tensor, result: Tensor, dim: int | None, keepdim: bool,
               dtype: dtype | None) -> Tensor:
    """Each element's gradient is the product of all others, found without division where one of them is zero."""
    self = self if dtype is None else self.to(dtype)
    if not self.dim():
        return grad
    if has_elements(self) and not anywhere(self == 0):
        at = one_dim(dim)
        return unfolded(grad * result.conj(), self.shape, at, keepdim) / self.conj()
    if dim is None:
        return _prod_of_others(self.reshape(-1), 0).reshape(self.shape).conj() * grad
    return _prod_of_others(self, dim).conj() * unfolded(grad, self.shape, (dim,), keepdim)


def _prod_of_others(self: Tensor, dim: int) -> Tensor:
    """For each element the product of those before it along `dim` and of those after it."""
    length = self.size(dim)
    if not length:
        return self
    ones = self.narrow(dim, 0, 1).new_ones(self.narrow(dim, 0, 1).shape)
    before = joined(ones, self.narrow(dim, 0, length - 1), dim).cumprod(dim)
    after = joined(self.narrow(dim, 1, length - 1), ones, dim).flip(dim).cumprod(dim).flip(dim)
    return before * after


def joined(first: Tensor, second: Tensor, dim: int) -> Tensor:
    return call_bound(registry.get("aten::cat"), ((first, second), dim))


op("prod(Tensor self, int dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
   kernel=computes(lambda self, dim, keepdim, dtype: _sum_spec(self, one_dim(dim), keepdim, dtype), _prod),
   kernels={"cpu": "reduce.prod", "cuda": "reduce.folded"},
   npu=("aclnnProdDim(self, dim, keepdim, out.dtype, out) empty=1", "aclnnProd(self, out.dtype, out) empty=1"),
   grad=dict(self=_prod_grad),
   samples=cases(case(t(2, 3)), case(t(2, 3), 1), case(t(2, 3), 0, True), case(t()), case(t(), 0), case(t(0, 3)),
                 case(t(0, 3), 0), case(values([[1.0, 0.0, 2.0], [3.0, -1.0, 4.0]]), 1),
                 case(values([[1.0, 0.0, 2.0], [0.0, -1.0, 4.0]]), 0), case(values([2.0, 0.0, 3.0])),
                 case(values([2.0, 0.0, 0.0])), case(t(3, 2, layout="transposed"), 1), case(ints(2, 3), 0),
                 case(bools(2, 3)), case(t(2, 3), dtype=float64),
                 error(IndexError, "Dimension out of range", t(2, 3), 2)), out=ANY,
   aten=Aten(if_given("dim", "dim_int")),
   autocast=dict(cpu="float32", accelerators="result"), node={"ProdBackward1": when_given("dim")},
   sharded="folded product")


# without the undefined -----------------------------------------------------------------------------------------------


def _nansum_spec(self: Tensor, dim: Any, keepdim: bool, dtype: dtype | None) -> Spec:
    if self.dtype.is_complex:
        raise RuntimeError("nansum on CPU does not support complex inputs")
    if self.dtype.is_floating_point and dtype is not None and not dtype.is_floating_point:
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{dtype.scalar_name}'")
    return _sum_spec(self, dim, keepdim, dtype)


def _nansum(xp: Any, self: Any, dim: Any, keepdim: bool, dtype: dtype | None, spec: Spec) -> Any:
    if self.dtype.kind == "f":
        self = xp.where(self != self, self.dtype.type(0), self)
    return _sum(xp, self, dim, keepdim, dtype, spec)


def _nansum_by_parts(self: Tensor, dim: Any, keepdim: bool, dtype: dtype | None) -> Tensor:
    if self.dtype.is_floating_point:
        self = self.masked_fill(self.isnan(), 0)
    return self.sum(dim, keepdim, dtype=dtype)


op("nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
   kernel=Reduction(None, _nansum_spec, _nansum), kernels={"cpu": "reduce.nansum", "cuda": "reduce.folded"},
   grad=dict(self=lambda grad, self, dim, keepdim:
             _spread(grad, self.shape, dim, keepdim) * self.isnan().logical_not()),
   samples=cases(*DIM_CASES, *DIM_ERRORS, case(values([1.0, float("nan"), 3.0])), case(ints(2, 3), 0)),
   out=ANY, autocast=dict(accelerators="untouched"), decomposition=_nansum_by_parts, sharded="folded sum")


@composite("nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
           samples=cases(*DIM_CASES, *DIM_ERRORS, case(values([1.0, float("nan"), 3.0])),
                         error(RuntimeError, "nanmean(): expected input to have floating point",
                               ints(2, 3))), out=ANY, autocast=dict(accelerators="untouched"))
def _nanmean(self, dim, keepdim, dtype):
    if self.dtype.category < FLOAT:
        raise RuntimeError("nanmean(): expected input to have floating point or complex dtype but got "
                           f"{self.dtype.scalar_name}")
    return self.nansum(dim, keepdim, dtype=dtype) / self.isnan().logical_not().sum(dim, keepdim)


# counts --------------------------------------------------------------------------------------------------------------

op("count_nonzero(Tensor self, int[1]? dim=None) -> Tensor",
   kernel=computes(lambda self, dim: _sum_spec(self, dim, False, int64),
                   lambda xp, self, dim: xp.asarray(
                       xp.count_nonzero(self, axes_of(self, dim) if self.ndim else None), order="C")),
   samples=cases(case(ints(2, 3, high=2)), case(ints(2, 3, high=2), 1), case(bools(2, 3), (0, 1)), case(t(2, 0), 0),
                 case(t()), *DIM_ERRORS), out=None, aten=Aten(if_given("dim", "dim_IntList")),
   kernels={"cpu": "reduce.count_nonzero"}, decomposition=lambda self, dim: (self != 0).sum(dim), sharded="folded sum")


def _trace_spec(self: Tensor) -> Spec:
    kind = self.dtype
    if self._array.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self._array.ndim}")
    if kind is bool_:
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    return Spec((), int64 if kind.category == INT else kind)


def _trace_grad(grad: Any, self_shape: Any) -> Any:
    made = grad.new_zeros(self_shape)
    made.diagonal().fill_(1)
    return grad * made


def _with_wide_diagonal(backend: Backend, array: Any) -> Any:
    """The array, or of half precision its diagonal in float32: all else need not be converted."""
    wide = WIDER.get(array.dtype)
    return array if wide is None else backend.cast(array.diagonal(), wide)


op("trace(Tensor self) -> Tensor",
   kernel=computes(_trace_spec, lambda xp, self: xp.asarray(self.trace() if self.ndim > 1 else self.sum()),
                   widened=_with_wide_diagonal),
   grad=dict(self=_trace_grad), decomposition=lambda self: self.diagonal().sum(), linear=True, batch=decomposed,
   samples=cases(case(t(3, 3)), case(t(2, 3)), case(ints(3, 2)),
                 error(RuntimeError, "trace: expected a matrix, but got tensor with dim 1", t(3))), out=None,
   autocast=dict(cpu="float32", accelerators="untouched"))
