"""torch.sparse: products, reductions and checks of sparse tensors."""

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._compat.tensor_types import TENSOR_TYPES, tensortype
from .._core.device import layout, sparse_coo, strided
from .._core.dtype import dtype, float32, float64
from .._core.geometry import wrapped_dim
from .._core.sparse import flattened
from .._core.sparse_api import sparse_coo_tensor
from .._core.tensor import Tensor, wrap
from .._dispatch.argument_checks import takes
from .._dispatch.keys import COO_MASK, modes
from .._ops._declare.op import public_functions
from .._ops.sparse.layouts import coalesce, from_parts, rebuilt, to_dense, to_sparse, values_of
from .._ops.sparse.math import sum_over
from .._ops.sparse.products import addmm, mm

__all__ = ["addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm",
           "softmax", "spdiags", "sum"]
sampled_addmm: Callable[..., Tensor] = public_functions("sparse")["sampled_addmm"]


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: dtype | None = None) -> Tensor:
    """The sum over all or some dimensions; its gradient lies where the input has elements."""
    return _sum(input, dim, dtype=dtype)


@takes("_sparse_sum(Tensor input, int[1]? dim=None, *, ScalarType? dtype=None)")
def _sum(input: Tensor, dim: tuple[int, ...] | None, dtype: dtype | None) -> Tensor:
    return sum_over(input, dim, False, dtype)


def _softmax(input: Tensor, dim: int, dtype: dtype | None, *, log: bool) -> Tensor:
    """The softmax along a dimension, of the elements that are there: the others count as minus infinity."""
    input = coalesce(input)
    array = input._array
    dim = wrapped_dim(dim, input.dim())
    values = values_of(input).to(dtype or input.dtype)
    if values.dtype not in (float32, float64):
        raise NotImplementedError(f"\"{'log_' * log}softmax\" not implemented for '{values.dtype.scalar_name}'")
    if dim >= array.sparse_dim:
        at = dim - array.sparse_dim + 1
        return rebuilt(input, values.log_softmax(at) if log else values.softmax(at))
    places = np.delete(array.places(), dim, axis=0)
    shape = [n for d, n in enumerate(array.shape) if d != dim]
    groups, number = np.unique(flattened(places, shape), return_inverse=True)
    group = wrap(number.reshape(-1).astype(np.int64))
    empty = values.new_zeros((len(groups), *values.shape[1:]))
    rows = group.reshape((-1,) + (1,) * (values.dim() - 1)).expand(values.shape)
    top = (empty - float("inf")).scatter_reduce(0, rows, values.detach(), "amax").index_select(0, group)
    shifted = values - top
    powers = shifted.exp()
    total = empty.index_add(0, group, powers).index_select(0, group)
    return rebuilt(input, shifted - total.log() if log else powers / total)


@takes("_sparse_softmax(Tensor input, int dim, *, ScalarType? dtype=None)")
def softmax(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """The softmax of a COO tensor's elements along a dimension."""
    return _softmax(input, dim, dtype, log=False)


@takes("_sparse_log_softmax(Tensor input, int dim, *, ScalarType? dtype=None)")
def log_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """The logarithm of `softmax`."""
    return _softmax(input, dim, dtype, log=True)


@takes("_spdiags(Tensor diagonals, Tensor offsets, int[] shape, Layout? layout=None)")
def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: layout | None = None) -> Tensor:
    """A matrix with the rows of `diagonals` on its diagonals: the elements of column j are those of the j-th place."""
    rows = diagonals if diagonals.dim() > 1 else diagonals.unsqueeze(0)
    starts = offsets.reshape(-1)
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if rows.dim() != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if offsets.dim() > 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if starts.numel() != rows.size(0):
        raise RuntimeError(f"Number of diagonals ({rows.size(0)}) does not match the number of offsets "
                           f"({starts.numel()})")
    if starts.dtype.category > 1 or starts.dtype.name != "int64":
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {starts.dtype.scalar_name}")
    if len(set(starts.tolist())) != starts.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    if layout is strided:
        raise RuntimeError("Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got Strided")
    if min(shape) < 0:
        raise RuntimeError("numel: integer multiplication overflow")
    number, column = (grid.ravel() for grid in np.indices(tuple(rows.shape)))
    row = column - starts._array[number]
    kept = np.flatnonzero((row >= 0) & (row < shape[0]) & (column < shape[1]))
    made = from_parts(np.stack((row, column))[:, kept], rows.reshape(-1).index_select(0, wrap(kept)), shape)
    return made if layout in (None, sparse_coo) else to_sparse(made, layout=layout)


class check_sparse_tensor_invariants:
    """Context, decorator and switch: whether constructors look at the indices they are given."""

    @staticmethod
    def is_enabled() -> bool:
        return modes.__dict__.get("sparse_invariants", False)

    @staticmethod
    def enable() -> None:
        modes.__dict__["sparse_invariants"] = True

    @staticmethod
    def disable() -> None:
        modes.__dict__["sparse_invariants"] = False

    def __init__(self, enable: bool = True) -> None:
        self.state, self.saved = enable, list[bool]()

    def __enter__(self) -> None:
        self.saved.append(self.is_enabled())
        modes.__dict__["sparse_invariants"] = self.state

    def __exit__(self, *exc: object) -> None:
        modes.__dict__["sparse_invariants"] = self.saved.pop()

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def as_sparse_gradcheck(gradcheck: Callable) -> Callable:
    """`gradcheck` for functions of sparse tensors: it differentiates by their values, and sees dense results."""

    @functools.wraps(gradcheck)
    def checked(function: Callable, inputs: Any, **kwargs: Any) -> bool:
        given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        kwargs.pop("masked", None)
        patterns = [coalesce(x.detach()) if getattr(x, "is_sparse", False) else x for x in given]
        sparse = [isinstance(x, Tensor) and x.layout is not strided for x in given]
        values = [values_of(p).detach().requires_grad_(x.requires_grad) if s else x
                  for x, p, s in zip(given, patterns, sparse, strict=True)]

        def dense(*args: Any) -> Any:
            made = function(*[rebuilt(p, a) if s else a for a, p, s in zip(args, patterns, sparse, strict=True)])
            results = made if isinstance(made, (tuple, list)) else (made,)
            converted = tuple(to_dense(r) if isinstance(r, Tensor) else r for r in results)
            return converted if isinstance(made, (tuple, list)) else converted[0]

        return gradcheck(dense, tuple(values), **kwargs)

    return checked


class _sparsetype(tensortype):
    """The type of torch.sparse.FloatTensor and its like."""

    is_sparse = True

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and bool(instance._keys & COO_MASK) and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, device: Any = None, size: Any = None) -> Tensor:
        if args and isinstance(args[0], int):
            return sparse_coo_tensor(args, dtype=cls.dtype)
        return sparse_coo_tensor(*args, dtype=cls.dtype) if args else sparse_coo_tensor((0,), dtype=cls.dtype)


globals().update({name: _sparsetype(name, (), {"dtype": kind.dtype, "home": kind.home, "__module__": "torch.sparse",
                                          "__doc__": _sparsetype.__doc__})
                  for name, kind in TENSOR_TYPES.items() if name != "BoolTensor"})


def __getattr__(name: str) -> Any:
    absent = importlib.import_module(f"{__name__}.semi_structured")
    if name in absent.__all__:
        return getattr(absent, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
