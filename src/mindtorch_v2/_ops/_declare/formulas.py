"""Formulas written over a namespace: they run on small arrays at once, and as operators on all other tensors."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._autograd.node import VersionCounter
from ..._backends.interface import host
from ..._core.dtype import bool_, complex64, complex128, float32, float64, int32, int64
from ..._core.geometry import is_dense
from ..._core.tensor import wrap
from ..._dispatch.keys import (
    FUNC_MASK,
    HOST_MASK,
    RECORDING_MASK,
    SPARSE_MASK,
    TORCH_DISPATCH_MASK,
    UNRECORDED_MASKS,
    modes,
)
from ..._dispatch.registry import Operator
from ..._dispatch.schema import Schema
from .families import Pointwise
from .op import PUBLIC, Declaration, public_function

_SMALL = 4096  # elements up to which a call costs more than the arithmetic
_NO_TENSORS = frozenset((int, float, bool, complex, str, tuple, type(None)))
_add: Any = np.add.reduce
_COMPUTED = frozenset(kind.np for kind in (float32, float64, complex64, complex128))
_NOT_STRIDED = FUNC_MASK | SPARSE_MASK | TORCH_DISPATCH_MASK  # or others have to be asked how it lies
_UNROUNDED = _COMPUTED | {kind.np for kind in (int64, int32, bool_)}


class _Tensors:
    """The operators by their names, and what array functions call otherwise or have no name for."""

    def __getattr__(self, name: str) -> Callable:
        function = public_function(PUBLIC["torch"][name])
        setattr(self, name, function)
        return function

    def at_least(self, x: Any, low: float) -> Any:
        """The elements, but not less than a number."""
        return x.clamp(low)

    def at_most(self, x: Any, high: float) -> Any:
        """The elements, but not more than a number."""
        return x.clamp(None, high)

    def astype(self, x: Any, kind: Any) -> Any:
        return x.to(kind)

    def halves(self, x: Any, dim: int) -> Any:
        return x.chunk(2, dim)

    def iscomplexobj(self, x: Any) -> bool:
        return x.dtype.is_complex

    def counted(self, x: Any, dim: Sequence[int] | None, kind: Any) -> Any:
        """How many elements are true, with the folded dimensions kept."""
        return x.sum(dim or None, True)

    def mean_kept(self, x: Any, dim: Sequence[int] | None) -> Any:
        """The mean, with the folded dimensions kept."""
        return x.mean(dim, True)

    def placed(self, values: Any, indices: Any, shape: Sequence[int], dim: int, adds: bool) -> Any:
        """Zeros, and the values at indices along a dimension, added up or one of them."""
        scatter = "scatter_add" if adds else "scatter"
        if (values._keys | indices._keys) & FUNC_MASK:  # inside vmap one may have samples that the other has not
            return getattr(values.new_zeros(shape), scatter)(dim, indices, values)
        return getattr(values.new_empty(shape).zero_(), scatter + "_")(dim, indices, values)


@functools.lru_cache(256)
def _own_places(shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Indices that show each element of an array of this shape itself."""
    return tuple([np.arange(n).reshape((-1,) + (1,) * (len(shape) - d - 1)) for d, n in enumerate(shape)])


def _places(indices: Any, dim: int) -> tuple[Any, ...]:
    """What shows elements by their indices along one dimension, and in the others themselves."""
    own = _own_places(indices.shape)
    return (*own[:dim], indices, *own[dim % len(own) + 1 :]) if own else ()


class _Arrays:
    """The host's functions of arrays, and operators that formulas use by their names."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(host().xp, name)
        setattr(self, name, value)
        return value

    where: Any = staticmethod(np.where)
    sgn: Any = np.sign

    def astype(self, x: Any, kind: Any) -> Any:
        return x.astype(kind)

    def halves(self, x: Any, dim: int) -> Any:
        return np.split(x, 2, dim)

    def broadcast_to(self, x: Any, shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(x, shape).copy()

    def counted(self, x: Any, dim: tuple[int, ...] | None, kind: Any) -> Any:
        return _add(x, dim if dim and x.ndim else None, kind, None, True)

    def mean_kept(self, x: Any, dim: tuple[int, ...] | None) -> Any:
        total = _add(x, dim if dim and x.ndim else None, None, None, True)
        return total / (x.size // max(total.size, 1))

    def placed(self, values: Any, indices: Any, shape: tuple[int, ...], dim: int, adds: bool) -> Any:
        made = np.zeros(shape, values.dtype)
        if adds:
            np.add.at(made, _places(indices, dim), values)
        else:
            made[_places(indices, dim)] = values
        return made

    def gather(self, x: Any, dim: int, indices: Any) -> Any:
        return x[_places(indices, dim)]

    def scatter_add(self, x: Any, dim: int, indices: Any, values: Any) -> Any:
        """The array with values added at indices along a dimension."""
        made = np.array(x)
        np.add.at(made, _places(indices, dim), values[tuple([slice(n) for n in indices.shape])])
        return made


TENSORS, _ARRAYS = _Tensors(), _Arrays()


def on_arrays(compute: Callable, version: int = 0) -> Callable:
    """The formula `compute(xp, ...)` of a derivative, in the parameters after `xp`.

    If nothing is recorded, watched or transformed, and all tensors are small arrays of the host, `xp` is NumPy and the
    tensors come as arrays; else they come as they are, and `xp` has the operators. What it returns is fresh memory, at
    the version that it would have as the result of operators.
    """

    def formula(*values: Any) -> Any:
        if modes.masks is UNRECORDED_MASKS:
            arrays, kind = [], None
            for value in values:
                if value.__class__ not in _NO_TENSORS:
                    if value._keys & ~RECORDING_MASK != HOST_MASK:
                        break
                    value = value._array
                    if value.size > _SMALL:
                        break
                    if value.dtype in _COMPUTED:
                        if kind is None:
                            kind = value.dtype
                        elif value.dtype is not kind:
                            break
                    elif value.dtype.kind not in "bi":
                        break
                arrays.append(value)
            else:
                made = compute(_ARRAYS, *arrays)
                if made.__class__ is tuple:
                    return tuple([None if part is None else wrap(part) for part in made])
                made = wrap(made)
                if version:
                    made._counter = VersionCounter(version)
                return made
        return compute(TENSORS, *values)

    code = compute.__code__
    formula.parameters = code.co_varnames[1 : code.co_argcount]  # type: ignore[attr-defined]
    return formula


def elementwise(compute: Callable, version: int = 0) -> Callable:
    """The formula `compute(xp, ...)`, in the parameters after `xp`, of a derivative that treats each element alone.

    If nothing is recorded, watched or transformed, it runs as one pointwise kernel of the CPU; else as operators, and
    so in half precision, where PyTorch rounds after each of them. The result lies as a pointwise one of the parameters
    in their order does. `version` is how often PyTorch writes to it.
    """
    known: dict[tuple, tuple[Callable, tuple[int, ...]]] = {}

    def formula(*values: Any) -> Any:
        if modes.masks is UNRECORDED_MASKS:
            kinds = tuple(map(type, values))
            try:
                kernel, tensors = known[kinds]
            except KeyError:
                kernel, tensors = known[kinds] = _loop(compute, values)
            for i in tensors:
                if values[i]._keys & ~RECORDING_MASK != HOST_MASK or values[i]._array.dtype not in _UNROUNDED:
                    break
            else:
                made = kernel(*values)
                if version:
                    made._counter = VersionCounter(version)
                return made
        made = compute(TENSORS, *_lying_alike(values))
        for _ in range(0 if made._keys & FUNC_MASK else version):
            made._bump_version()
        return made

    code = compute.__code__
    formula.parameters = code.co_varnames[1 : code.co_argcount]  # type: ignore[attr-defined]
    return formula


def _lying_alike(values: Sequence[Any]) -> Sequence[Any]:
    """Arguments of which tensors lie as the first does, so that it is not the order of operators that decides."""
    tensors = [(i, value) for i, value in enumerate(values) if value.__class__ not in _NO_TENSORS]
    if any(value._keys & _NOT_STRIDED for _, value in tensors) or modes.include & TORCH_DISPATCH_MASK:
        return values
    arrays = [(i, value._array) for i, value in tensors if value._array.ndim > 1]
    if len({array.strides for _, array in arrays}) < 2:
        return values
    (_, first), *others = arrays
    if not is_dense(first):
        return values
    order = sorted(range(first.ndim), key=lambda d: -first.strides[d])
    back = sorted(range(first.ndim), key=order.__getitem__)
    given = list(values)
    for i, array in others:
        if array.shape == first.shape and array.strides != first.strides:
            given[i] = values[i].permute(order).contiguous().permute(back)
    return given


def _loop(compute: Callable, values: Sequence[Any]) -> tuple[Callable, tuple[int, ...]]:
    """The CPU's kernel for arguments of these classes, and which of them are tensors; what is None stays so."""
    tensors = tuple([i for i, value in enumerate(values) if hasattr(value, "_keys")])
    given = [i for i, value in enumerate(values) if value is not None]
    arguments = ", ".join([f"{'Tensor' if i in tensors else 'Scalar'} x{i}" for i in given])
    operator, count = Operator(Schema(f"_formula({arguments}) -> Tensor")), len(values)

    def filled(xp: Any, *some: Any) -> Any:
        every: list[Any] = [None] * count
        for i, value in zip(given, some, strict=True):
            every[i] = value
        return compute(xp, *every)

    whole = len(given) == count
    family = Pointwise(compute if whole else filled)
    operator.declaration = Declaration(operator, family, {}, None, None)
    kernel = family.kernel(operator, host())
    return kernel if whole else lambda *every: kernel(*[value for value in every if value is not None]), tensors
