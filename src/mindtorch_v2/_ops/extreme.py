"""Largest and smallest elements, and where they are."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._core.dtype import BOOL, COMPLEX, int64
from .._core.geometry import wrapped_dim
from .._core.tensor import Tensor
from ._declare.batch import of_all_elements
from ._declare.families import computes
from ._declare.formulas import on_arrays
from ._declare.op import composite, op
from ._declare.out import AS_MADE, Out, type_of_first
from ._declare.rules import Spec
from ._declare.samples import TensorSample, bools, case, cases, error, ints, t, values
from .reduce import (
    DIM_CASES,
    DIM_ERRORS,
    Reduction,
    axes_of,
    contiguous,
    folded,
    folded_shape,
    one_dim,
    reduced_dims,
    unfolded,
)

NAN = float("nan")


def kinks(data: Any) -> TensorSample:
    """A sample of given numbers, some equal or undefined, where there is no derivative."""
    return dataclasses.replace(values(data), grad=False)


def check_extent(name: str, shape: Sequence[int], dims: Sequence[int]) -> None:
    """Raises for a dimension without elements: there is nothing to choose from."""
    for d in dims:
        if d < len(shape) and not shape[d]:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def chosen_spec(name: str, self: Tensor, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
    """Specs of the values and indices that are chosen along one dimension."""
    shape = self._array.shape
    dims = reduced_dims((dim,), len(shape))
    check_extent(name, shape, dims)
    made = folded_shape(shape, dims, keepdim)
    return Spec(made, self.dtype), Spec(made, int64)


def chosen(xp: Any, array: Any, indices: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """The elements at `indices`, which has size one along `dim`, and the indices; both without that dimension."""
    picked = xp.take_along_axis(array, indices, dim)
    if keepdim:
        return contiguous(picked), contiguous(indices)
    return contiguous(picked.squeeze(dim)), contiguous(indices.squeeze(dim))


@functools.partial(on_arrays, version=2)
def chosen_grad(xp: Any, grad: Any, indices: Any, shape: tuple[int, ...], dim: int, keepdim: bool, adds: bool) -> Any:
    """The gradient goes to the elements that were chosen; if it `adds`, some may have been chosen several times."""
    if not keepdim:
        grad, indices = unfolded(grad, shape, (dim,), False), unfolded(indices, shape, (dim,), False)
    return xp.placed(grad, indices, shape, dim, adds)


@on_arrays
def evenly(xp: Any, grad: Any, self: Any, result: Any, dim: Sequence[int] | None, keepdim: bool) -> Any:
    """The gradient shared by all elements equal to the result."""
    best = unfolded(result, self.shape, dim, keepdim)
    ties = self == best
    if dim is None:
        ties = ties | (xp.isnan(self) & xp.isnan(best))
    return unfolded(grad, self.shape, dim, keepdim) * ties / xp.counted(ties, dim, grad.dtype)


# values --------------------------------------------------------------------------------------------------------------


def _extremum_spec(name: str, kernel_name: str) -> Callable:
    def infer(self: Tensor, dim: Any, keepdim: bool) -> Spec:
        shape = self._array.shape
        dims = reduced_dims(dim, len(shape))
        if self._array.size == 0:
            if not dim:
                raise RuntimeError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                                   "the reduction dim with the 'dim' argument.")
            check_extent(name, shape, (dim,) if isinstance(dim, int) else dim)  # as the caller counts them
        if self.dtype.category == COMPLEX:
            raise NotImplementedError(f"\"{kernel_name}\" not implemented for '{self.dtype.scalar_name}'")
        return Spec(folded_shape(shape, dims, keepdim), self.dtype)

    return infer


def _extremum(ufunc: str) -> Callable:
    def array(xp: Any, self: Any, dim: Any, keepdim: bool) -> Any:
        return folded(getattr(xp, ufunc).reduce, self, axes_of(self, dim), keepdim)

    return array


def _declare_extremum(word: str, ufunc: str) -> None:
    """`amax`, `max` in its three forms, and `argmax`; or the same of the smallest."""
    op(f"a{word}(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
       kernel=Reduction(ufunc, _extremum_spec(f"a{word}", f"{word}_values_cpu"), _extremum(ufunc), empty=False),
       npu=f"aclnnA{word}(self, dim|[], keepdim, out)",
       kernels={"cpu": f"reduce.a{word}", "cuda": "reduce.folded"},
       grad=dict(self=lambda grad, self, result, dim, keepdim: evenly(grad, self, result, dim or (), keepdim)),
       samples=cases(*DIM_CASES, *DIM_ERRORS, case(kinks([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]), 1), case(ints(2, 3), 0),
                     case(bools(2, 3)), case(kinks([1.0, NAN, 3.0])),
                     error(IndexError, f"a{word}(): Expected reduction dim 0 to have non-zero size.", t(0, 3), 0),
                     error(RuntimeError, f"a{word}(): Expected reduction dim to be specified", t(0, 3))),
       out=Out("exact", "Expected the dtype for input and out to match, but got {made} for input's dtype and {given} "
                        "for out's dtype.", first=type_of_first), in_rows=word, sharded=f"folded {word}")

    infer = _extremum_spec(word, f"{word}_all")
    op(f"{word}(Tensor self) -> Tensor",
       kernel=Reduction(ufunc, lambda self: infer(self, None, False),
                        lambda xp, self: getattr(xp, ufunc).reduce(self, None), empty=False),
       npu=f"aclnn{word.title()}(self, out)", kernels={"cpu": f"reduce.{word}_all", "cuda": "reduce.folded"},
       grad=dict(self=lambda grad, self, result: evenly(grad, self, result, None, False)),
       samples=cases(case(t(2, 3)), case(t()), case(kinks([1.0, 3.0, 3.0])), case(ints(2, 3)), case(bools(2, 3)),
                     case(kinks([1.0, NAN, 3.0])), case(t(3, 2, layout="transposed")),
                     error(RuntimeError, f"{word}(): Expected reduction dim to be specified", t(0, 3))),
       batch=of_all_elements(f"a{word}", (1,)), node=f"{word.title()}Backward1", sharded=f"folded {word}")

    def dim_spec(self: Tensor, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
        if self.dtype.category == COMPLEX:
            raise RuntimeError(f"{word}(): does not support complex input")
        return chosen_spec(word, self, dim, keepdim)

    def dim_array(xp: Any, self: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
        if not self.ndim:
            return self.copy(), xp.zeros((), xp.int64)
        indices = getattr(self, f"arg{word}")(dim, keepdims=keepdim)
        return folded(getattr(xp, ufunc).reduce, self, (dim,), keepdim), contiguous(indices)

    op(f"{word}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
       kernel=computes(dim_spec, dim_array), apart="self", sharded="reduction",
       npu=f"aclnn{word.title()}Dim(self, dim, keepdim, values, indices)",
       kernels={"cpu": f"reduce.{word}_dim", "cuda": "extreme.element_and_place"},
       grad=dict(self=lambda grad, indices, self_shape, dim, keepdim:
                 chosen_grad(grad, indices, self_shape, dim, keepdim, False)),
       samples=cases(case(t(2, 3), 1), case(t(2, 3), -2, True), case(t(), 0), case(kinks([[1.0, 3.0, 3.0]]), 1),
                     case(kinks([[1.0, NAN, 3.0]]), 1), case(t(2, 3, 4), 1), case(t(3, 2, layout="transposed"), 0),
                     case(ints(2, 3), 0), case(bools(2, 3), 1), case(t(2, 0), 0),
                     error(IndexError, f"{word}(): Expected reduction dim 0 to have non-zero size.", t(0, 3), 0),
                     error(IndexError, "Dimension out of range", t(2, 3), 2)))

    composite(f"{word}.other(Tensor self, Tensor other) -> Tensor", aligned="self other", resizes_expanded=False,
              out=AS_MADE, samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 3), t(3))))(
        lambda self, other: self.maximum(other) if word == "max" else self.minimum(other))

    def index_spec(self: Tensor, dim: int | None, keepdim: bool) -> Spec:
        if self.dtype.category in (BOOL, COMPLEX):
            raise RuntimeError(f"arg{word}(): does not support {'bool' if self.dtype.category == BOOL else 'complex'} "
                               "input")
        shape = self._array.shape
        dims = reduced_dims(one_dim(dim), len(shape))
        if dim is None and not self._array.size:
            raise IndexError(f"arg{word}(): Expected reduction dim to be specified for input.numel() == 0.")
        check_extent(f"arg{word}", shape, dims if dim is not None else ())
        return Spec(folded_shape(shape, dims, keepdim), int64)

    def index_array(xp: Any, self: Any, dim: int | None, keepdim: bool) -> Any:
        if not self.ndim:
            return xp.zeros((), xp.int64)
        return contiguous(getattr(self, f"arg{word}")(dim, keepdims=keepdim))

    op(f"arg{word}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
       kernel=computes(index_spec, index_array), sharded="reduction",
       npu=f"aclnnArg{word.title()}(self, dim, keepdim, out)",
       kernels={"cpu": f"reduce.arg{word}", "cuda": "extreme.place", "npu": "reduce.arg_extreme"},
       samples=cases(case(t(2, 3)), case(t(2, 3), 1), case(t(2, 3), 0, True), case(t(2, 3), keepdim=True), case(t()),
                     case(t(), 0), case(kinks([1.0, NAN, 3.0])), case(t(3, 2, layout="transposed"), 1),
                     case(t(2, 0), 0),
                     error(IndexError, f"arg{word}(): Expected reduction dim to be specified", t(0, 3)),
                     error(RuntimeError, f"arg{word}(): does not support bool input", bools(2, 3))))


_declare_extremum("max", "maximum")
_declare_extremum("min", "minimum")


# both at once --------------------------------------------------------------------------------------------------------


def _both_spec(self: Tensor, dim: int | None, keepdim: bool) -> tuple[Spec, Spec]:
    shape = self._array.shape
    dims = reduced_dims(one_dim(dim), len(shape))
    if dim is None and not self._array.size:
        raise RuntimeError("aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
                           "identity.")
    if dim is not None and shape and not shape[wrapped_dim(dim, len(shape))]:
        raise IndexError(f"aminmax: Expected reduction dim {wrapped_dim(dim, len(shape))} to have non-zero size.")
    if self.dtype.category == COMPLEX:
        raise NotImplementedError(f"\"aminmax_cpu\" not implemented for '{self.dtype.scalar_name}'")
    spec = Spec(folded_shape(shape, dims, keepdim), self.dtype)
    return spec, spec


def _both(xp: Any, self: Any, dim: int | None, keepdim: bool) -> tuple[Any, Any]:
    axes = axes_of(self, one_dim(dim))
    return folded(xp.minimum.reduce, self, axes, keepdim), folded(xp.maximum.reduce, self, axes, keepdim)


def _both_grad(grads: tuple, self: Tensor, min: Tensor, max: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    used = [(g, r) for g, r in zip(grads, (min, max), strict=True) if g is not None]
    parts = [evenly(g, self, r, one_dim(dim) or (), keepdim) for g, r in used]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


op("aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
   kernel=computes(_both_spec, _both), kernels={"cpu": "reduce.aminmax"},
   npu=("aclnnAminmaxDim(self, dim, keepdim, min, max)", "aclnnAminmax(self, [], keepdim, min, max)"),
   grad=dict(self=_both_grad),
   samples=cases(case(t(2, 3)), case(t(2, 3), dim=1), case(t(2, 3), dim=0, keepdim=True), case(t(), dim=0),
                 case(bools(2, 3)),
                 error(RuntimeError, "aminmax(): cannot compute aminmax over an empty dimension", t(0, 3)),
                 error(IndexError, "aminmax: Expected reduction dim 0 to have non-zero size.", t(0, 3),
                       dim=0)), sharded="reduction")
