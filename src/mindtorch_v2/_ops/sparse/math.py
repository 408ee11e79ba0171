"""Arithmetic and reductions of sparse tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._core.device import sparse_coo, sparse_csr
from ..._core.dtype import dtype, int64
from ..._core.sparse import LAYOUT_NAMES, coo, coo_of, is_sparse, wrap_sparse
from ..._core.tensor import Tensor, wrap
from ..._dispatch.callers import call_bound
from ..._dispatch.registry import Operator, registry
from ..._dispatch.schema import NUMBERS
from .._declare.rules import Spec, broadcast_shape, check_result_fits, common_dtype, shape_text
from ..reduce import reduced_dims
from .layouts import (
    as_layout,
    cat,
    coalesce,
    composed,
    from_parts,
    in_place,
    indices_of,
    per_operator,
    plain,
    rebuilt,
    refusal,
    to_sparse,
    values_at,
    values_of,
)

# elementwise ---------------------------------------------------------------------------------------------------------

@per_operator
def on_values(operator: Operator) -> Callable:
    """Applies an operator to the values, those of one place summed first unless it is linear."""
    linear = bool(operator.declaration.linear)

    @composed
    def kernel(self: Tensor, *args: Any) -> Tensor:
        if not linear and self.layout is sparse_coo:
            self = coalesce(self)
        return rebuilt(self, call_bound(operator, (values_of(self), *args)))

    return kernel


@per_operator
def on_values_(operator: Operator) -> Callable:
    """The in-place form, which takes the values as they are: unless it is linear, there may be one for a place only."""
    write, linear = in_place(on_values(operator)), bool(operator.declaration.linear)

    def checked(self: Tensor, *args: Any) -> Tensor:
        if not linear and self.layout is sparse_coo and not self._array.coalesced:
            raise RuntimeError(f"{operator.schema.base_name}_ requires coalesced input")
        return write(self, *args)

    return checked


def conj_physical_(self: Tensor) -> Tensor:
    return in_place(on_values(registry.get("conj_physical")))(self)


def _is_number(value: Any) -> bool:
    return value.__class__ in NUMBERS or not (is_sparse(value) or value._array.ndim)


def _same_sizes(self: Tensor, other: Tensor) -> None:
    if self._array.shape != other._array.shape:
        raise RuntimeError("add: expected sizes of 'self' and 'other' to match, but "
                           f"{shape_text(self.shape)} != {shape_text(other.shape)}")


def add(self: Any, other: Any, alpha: Any) -> Tensor:
    if is_sparse(self) and not is_sparse(other) and self.layout is sparse_coo:
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    self, other = plain(self), plain(other)
    kind = common_dtype([self, other])
    if not is_sparse(self) or not is_sparse(other):
        dense, sparse = (other, self) if is_sparse(self) else (self, other)
        _check_dense_operand(dense, sparse)
        if is_sparse(self):  # dense + compressed counts either way round
            return _add_to_dense(_scaled(dense.to(kind, copy=True), alpha), sparse, 1)
        return _add_to_dense(dense.to(kind, copy=True), sparse, alpha)
    _same_sizes(self, other)
    first, second = (a if a.layout is sparse_coo else wrap_sparse(coo_of(a._array)) for a in (self, other))
    if first._array.sparse_dim != second._array.sparse_dim:
        raise RuntimeError("add: expected 'self' and 'other' to have same number of sparse dimensions, but got "
                           f"{first._array.sparse_dim} and {second._array.sparse_dim}")
    added = _scaled(second._array.values.to(kind), alpha)
    here = first._array.values.to(kind)
    indices, more = (t._array.parts[0]._array for t in (first, second))
    if indices.shape == more.shape and (indices == more).all():
        made = coo(first._array.parts[0].clone(), here + added, self.shape,
                   first._array.coalesced and second._array.coalesced)
    else:
        made = coo(wrap(np.concatenate((indices, more), axis=1)), cat((here, added)), self.shape)
        if first._array.coalesced and second._array.coalesced:
            made = coalesce(made)
    return as_layout(made, self)


def _scaled(values: Tensor, alpha: Any) -> Tensor:
    """Values times `alpha`, in their own type: they come in that of the result, which has room for the sign."""
    return values if alpha == 1 else (values * alpha).to(values.dtype)


def _check_dense_operand(dense: Any, sparse: Tensor) -> None:
    size = () if dense.__class__ in NUMBERS else dense._array.shape
    if dense.__class__ in NUMBERS or size != sparse._array.shape:
        word = "dense" if sparse.layout is sparse_coo else "op2"
        raise RuntimeError("add: expected 'self' and 'other' to have same size, but self has size "
                           f"{shape_text(size)} while other has size {shape_text(sparse.shape)} (FYI: {word}-sparse "
                           "addition does not currently support broadcasting)")


def _add_to_dense(target: Tensor, sparse: Tensor, alpha: Any) -> Tensor:
    """`target` with a sparse tensor of its size added in place."""
    array = coo_of(sparse._array).summed()
    addend = _scaled(array.values.to(target.dtype), alpha)
    places = tuple(array.places()) or ...
    target._array[places] += addend._array.reshape(target._array[places].shape)
    return target


def add_(target: Tensor, other: Any, alpha: Any) -> Tensor:
    if is_sparse(target):
        if target.layout is not sparse_coo and not is_sparse(other):
            raise RuntimeError(f"Sparse {target.layout._name[-3:].upper()} tensors do not have is_contiguous")
        return in_place(add)(target, other, alpha)
    other = plain(other)
    _check_dense_operand(target, other)
    check_result_fits(target, Spec(target._array.shape, common_dtype([target, other])))
    _add_to_dense(target, other, alpha)
    target._bump_version()
    return target


_SUB: Any = registry.get("sub").declaration.family


def sub(self: Any, other: Any, alpha: Any) -> Tensor:
    _SUB.check(self, other, alpha)
    return add(self, other, -alpha)


def sub_(target: Tensor, other: Any, alpha: Any) -> Tensor:
    _SUB.check(target, other, alpha)
    return add_(target, other, -alpha)


@composed
def mul(self: Any, other: Any) -> Tensor:
    if _is_number(self) or _is_number(other):
        sparse = other if _is_number(self) else self
        values = values_of(sparse)
        return rebuilt(sparse, values * other if sparse is self else self * values)
    if is_sparse(self) and is_sparse(other):
        if self.layout is sparse_coo is other.layout:
            return _mul_sparse(self, other)
        return as_layout(_mul_sparse(to_sparse(self), to_sparse(other)), self)
    sparse, dense = (self, other) if is_sparse(self) else (other, self)
    shape = sparse._array.shape
    if sparse.layout is not sparse_coo and dense._array.shape != shape:
        raise RuntimeError("sparse_mask(): operands have incompatible sizes; self has size "
                           f"{shape_text(dense.shape)} but mask has size {shape_text(shape)}")
    if broadcast_shape([dense._array.shape, shape]) != shape:
        raise NotImplementedError(f"mul: a sparse tensor of size {shape_text(shape)} is not broadcast to the size of a "
                                  f"dense one, {shape_text(dense.shape)}")
    values = values_of(sparse)
    factor = values_at(dense.expand(shape), indices_of(sparse)).reshape(values.shape)
    return rebuilt(sparse, values * factor if sparse is self else factor * values)


def _mul_sparse(self: Tensor, other: Tensor) -> Tensor:
    if not self.dim() or not other.dim():
        sparse, single = (other, self) if other.dim() else (self, other)
        return rebuilt(sparse, values_of(sparse) * values_of(single).sum(0))
    (here, there), sparse_dim = (self._array, other._array), self._array.sparse_dim
    if (len(here.shape), sparse_dim, here.shape[:sparse_dim]) != (
            len(there.shape), there.sparse_dim, there.shape[:sparse_dim]):
        raise RuntimeError("sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, "
                           "number of sparse dimensions, and shape of sparse dimensions")
    shape = broadcast_shape([here.shape, there.shape])
    other = coalesce(other)
    known, asked = other._array.flat_places(), self._array.flat_places()
    at = np.searchsorted(known, asked)
    kept = np.flatnonzero(known[np.minimum(at, len(known) - 1)] == asked) if len(known) else at[:0]
    values = values_of(self).index_select(0, wrap(kept)) * values_of(other).index_select(0, wrap(at[kept]))
    return from_parts(self._array.parts[0]._array[:, kept], values, shape, self._array.coalesced)


@composed
def div(self: Any, other: Any, rounding_mode: str | None) -> Tensor:
    if not is_sparse(self) or not _is_number(other):
        raise RuntimeError("Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
                           f"{shape_text(other.shape)} for divisor)")
    if rounding_mode is not None and self.layout is sparse_coo:
        self = coalesce(self)
    return rebuilt(self, values_of(self).div(other, rounding_mode=rounding_mode))


@composed
def true_divide(self: Any, other: Any) -> Tensor:
    return div(self, other, None)


@composed
def floor_divide(self: Any, other: Any) -> Tensor:
    return div(self, other, "floor")


@composed
def power(self: Any, exponent: Any) -> Tensor:
    if exponent.__class__ not in NUMBERS:
        refusal(registry.get("pow"), "SparseCPU")(self, exponent)
    if exponent == 0:
        raise RuntimeError("pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense")
    return on_values(registry.get("pow"))(self, exponent)


# reductions ----------------------------------------------------------------------------------------------------------


def sum_over(self: Tensor, dim: Any, keepdim: bool, dtype: dtype | None) -> Tensor:
    """The sum over dimensions of a COO tensor, sparse as long as a sparse dimension is left; differentiable."""
    self = coalesce(self)
    array, ndim = self._array, self.dim()
    summed = set(reduced_dims(dim, ndim)) if dim is None or dim else set()
    inner = [d - array.sparse_dim + 1 for d in sorted(summed) if d >= array.sparse_dim]
    values = values_of(self)
    values = values.sum(inner, keepdim=keepdim, dtype=dtype) if inner else values.to(dtype or values.dtype)
    left = [d for d in range(array.sparse_dim) if d not in summed]
    shape = [1 if d in summed else n for d, n in enumerate(array.shape) if keepdim or d not in summed]
    if not left:
        total = values.sum(0, dtype=dtype)
        return total.reshape(shape) if keepdim else total
    places = array.parts[0]._array
    if keepdim:
        places = np.where(np.isin(np.arange(len(places)), left)[:, None], places, 0)
    return coalesce(from_parts(places if keepdim else places[left], values, shape))


def total(self: Tensor, dim: Any, keepdim: bool, dtype: dtype | None) -> Tensor:
    kind = dtype or (self.dtype if self.dtype.category > 1 else int64)
    if dim is None:
        return self._array.values.sum(dtype=kind)
    return sum_over(plain(self).to(kind), dim, keepdim, None)


def total_compressed(self: Tensor, dim: Any, keepdim: bool, dtype: dtype | None) -> Tensor:
    if dim is None:
        return self._array.values.sum(dtype=dtype)
    if self.layout is not sparse_csr:
        raise RuntimeError("Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got "
                           f"layout {LAYOUT_NAMES[self.layout]}")
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    made = total(wrap_sparse(coo_of(self._array)), dim, keepdim, dtype)
    return to_sparse(made, layout=self.layout)


def any_true(self: Tensor, dim: Any, keepdim: bool) -> Tensor:
    return self._array.values.any() if dim is None else refusal(registry.get("any"), "SparseCPU")(self)


@composed
def norm(self: Tensor, p: Any, dim: Any, keepdim: bool, dtype: dtype | None) -> Tensor:
    if dim is not None:
        refusal(registry.get("norm"), "SparseCPU")(self)
    return values_of(coalesce(self)).norm(p, dtype=dtype)
