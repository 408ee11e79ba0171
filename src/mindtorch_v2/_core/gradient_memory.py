"""The memory of gradients: the ones that a backward pass starts from, and whether anybody else holds what one has."""

import sys
from typing import Any

import numpy as np

from .._autograd.node import VersionCounter
from .._backends.meta import MetaArray
from .._dispatch.keys import FUNC_MASK, MARKED_MASK, REQUIRES_GRAD, TORCH_DISPATCH_MASK, modes
from .deferred import Deferred
from .geometry import is_dense
from .tensor import wrap

_ndarray = np.ndarray
# References that exist to a gradient nobody else holds when `accumulate` counts them.
OWN_REFERENCES = 4
_add: Any = np.add.reduce
_SMALL = 4096  # elements that one sum adds without losing digits
_PLAIN = frozenset((np.dtype("float32"), np.dtype("float64")))
_ONE: dict[np.dtype, np.ndarray] = {}  # copied, since views of a first gradient come to users, who may write to them


def ones_as(array: Any) -> np.ndarray | None:
    """Ones of an array's shape and type; None if it is not on the host."""
    if array.__class__ is not _ndarray:
        return None
    if array.ndim:
        return np.ones(array.shape, array.dtype)
    one = _ONE.get(array.dtype)
    if one is None:
        one = _ONE[array.dtype] = np.ones((), array.dtype)
    return one.copy()


def summed_to(array: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Fresh memory with a small array's sums over what broadcasting from `shape` added; None for other arrays."""
    if array.__class__ is not _ndarray or array.size > _SMALL or array.dtype not in _PLAIN:
        return None
    added, full = array.ndim - len(shape), array.shape
    made = np.empty(shape, array.dtype)
    axes = tuple([d for d in range(array.ndim) if d < added or shape[d - added] == 1 != full[d]])
    if len(axes) == added:
        _add(array, axes, None, made)
    else:
        _add(array, axes, None, made.reshape((1,) * added + shape) if added else made, True)
    return made


def is_ours(grad: Any, like: Any) -> bool:
    """Whether the caller's references are the only ones, to the tensor and to its memory, which lies as `like` does."""
    array = grad._array
    if array.__class__ is MetaArray:
        return array.strides == like.strides or not is_dense(like)
    if array.__class__ is Deferred:
        return (grad._edge is None and not grad._keys & REQUIRES_GRAD and sys.getrefcount(grad) <= OWN_REFERENCES
                and array.is_alone() and array.strides == like.strides)
    if array.__class__ is not _ndarray:
        return (
            grad._edge is None and not grad._keys & REQUIRES_GRAD and sys.getrefcount(grad) <= OWN_REFERENCES
            and sys.getrefcount(array) <= 3 and _has_storage_alone(grad) and array.strides == like.strides)
    return (grad._storage is None and grad._edge is None and not grad._keys & REQUIRES_GRAD
            and sys.getrefcount(grad) <= OWN_REFERENCES
            and array.base is None and sys.getrefcount(array) <= 3
            and (array.strides == like.strides
                 or array.flags.c_contiguous and not like.flags.forc and not is_dense(like)))


def owns_memory(grad: Any) -> bool:
    """Whether no other tensor shows the memory of a gradient that is held once."""
    array = grad._array
    if grad._keys & TORCH_DISPATCH_MASK:
        return False
    if array.__class__ is Deferred:
        return grad._base is None and array.is_alone()
    if array.__class__ is not _ndarray:
        return grad._base is None and (array.__class__ is MetaArray
                                       or sys.getrefcount(array) <= 3 and _has_storage_alone(grad))
    if grad._storage is not None or grad._base is not None or sys.getrefcount(array) > 3:
        return False
    owner = array.base
    return owner is None or not array.size or (owner.__class__ is _ndarray and sys.getrefcount(owner) <= 3)


def _has_storage_alone(grad: Any) -> bool:
    """Whether no other array lies on the storage of an array that, unlike an ndarray, names it."""
    if grad._keys & (FUNC_MASK | MARKED_MASK):
        return False
    if grad._storage is None and getattr(grad._array, "_storage", grad) is None:  # it was never asked for
        return True
    return sys.getrefcount(grad._array.storage) <= (2 if grad._storage is None else 3)


def contiguous_copy(grad: Any, leaf: Any) -> Any:
    """A copy of a gradient for a leaf that is contiguous, both on the host; None for others, or if a mode watches."""
    array = grad._array
    plain = array.__class__ is np.ndarray is leaf._array.__class__
    if not plain or not array.size or modes.masks[0]:
        return None
    array = array.copy()
    if array.strides != leaf._array.strides or array.dtype is not leaf._array.dtype:
        return None
    made = wrap(array)
    made._counter = VersionCounter(1)  # as of memory that was copied to
    return made
