"""The memory of gradients: the ones that a backward pass starts from, and whether anybody else holds what one has."""

import sys
from typing import Any

import numpy as np

from .._autograd.node import VersionCounter
from .._backends.meta import MetaArray
from .._dispatch.keys import FUNC_MASK, MARKED_MASK, REQUIRES_GRAD, TORCH_DISPATCH_MASK, modes
from .deferred import Deferred
from .device import contiguous_format
from .geometry import is_dense
from .tensor import wrap

_ndarray = np.ndarray
# References that exist to a gradient nobody else holds when `accumulate` counts them.
OWN_REFERENCES = 4
_UNLIKE = REQUIRES_GRAD | FUNC_MASK | MARKED_MASK | TORCH_DISPATCH_MASK  # more than memory decides what tensors show
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


def shown_whole(grad: Any, like: Any) -> Any:
    """The tensor that a gradient is a view of, if it shows all of it as it lies, and nobody else holds either.

    Twice transposed, the gradient of a weight of which a product had a transposed view is such a one.
    """
    base, array = grad._base, grad._array
    if base is None or array.__class__ is not base._array.__class__ or array.strides != like.strides:
        return None
    own = base._array
    if (own.shape != array.shape or own.strides != array.strides or own.dtype is not array.dtype
            or base._edge is not None or base._storage is not None or (base._keys | grad._keys) & _UNLIKE
            or sys.getrefcount(grad) > OWN_REFERENCES or sys.getrefcount(base) > 3):  # fmt: skip
        return None
    if array.__class__ is Deferred:
        alone = own.root is None and not own.others and own.are_gone_but(array)
    elif array.__class__ is _ndarray:
        alone = own.base is None and sys.getrefcount(array) <= 3 and sys.getrefcount(own) <= 4
    else:
        alone = False
    return base if alone else None


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
    """A copy of a gradient for a leaf that is contiguous; None for others, on devices, or if a mode watches."""
    array, wanted = grad._array, leaf._array
    if not array.size or array.dtype is not wanted.dtype:
        return None
    if array.__class__ is Deferred:  # a recorded call makes it, so that whoever replays the recording has it, too
        made = grad.detach().clone(memory_format=contiguous_format)
    elif array.__class__ is np.ndarray is wanted.__class__ and not modes.masks[0]:
        made = wrap(array.copy())
    else:
        return None
    if made._array.strides != wanted.strides:
        return None
    made._counter = VersionCounter(1)  # as of memory that was copied to
    return made
