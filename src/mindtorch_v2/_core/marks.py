"""Arrays that are shown otherwise than they lie in memory, and memory that several storages share until a write."""

import threading
import weakref
from typing import Any

from .deferred import LateArray
from .forks import free_in_children
from .storage import UntypedStorage


class MathView(LateArray):
    """The conjugate or the negative of an array's elements, computed whenever somebody asks for more than geometry."""

    __slots__ = ("conjugate", "negative", "source")

    def __init__(self, source: Any, conjugate: bool, negative: bool) -> None:
        self.source, self.conjugate, self.negative = source, conjugate, negative

    shape = property(lambda self: self.source.shape)
    strides = property(lambda self: self.source.strides)
    dtype = property(lambda self: self.source.dtype)
    ndim = property(lambda self: self.source.ndim)
    size = property(lambda self: self.source.size)
    nbytes = property(lambda self: self.source.nbytes)
    itemsize = property(lambda self: self.source.itemsize)
    layout = property(lambda self: self.source.layout)  # on devices whose arrays have one

    def settled(self) -> Any:
        """The elements, in memory of their own."""
        array = self.source
        if not hasattr(array, "__array_interface__") and not hasattr(array, "__cuda_array_interface__"):
            if not hasattr(array, "to_host"):
                return array  # it has no elements
            array = array.to_host()
        array = array.conj() if self.conjugate else array
        return -array if self.negative else array

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__array_interface__" or not hasattr(self.source, name):
            raise AttributeError(name)
        return getattr(self.settled(), name)


def marked(array: Any, conjugate: bool, negative: bool) -> Any:
    """An array with these marks, in the place of those it may have."""
    source = array.source if array.__class__ is MathView else array
    return MathView(source, conjugate, negative) if conjugate or negative else source


def is_conjugated(array: Any) -> bool:
    return array.__class__ is MathView and array.conjugate


def is_negated(array: Any) -> bool:
    return array.__class__ is MathView and array.negative


# Storages on one memory, by storage: whoever is written gets memory of its own first, the last one keeps it.
sharing = free_in_children(threading.RLock())  # held while one of them joins or leaves the others
_sharing: "weakref.WeakKeyDictionary[UntypedStorage, weakref.WeakSet[UntypedStorage]]" = weakref.WeakKeyDictionary()


def share(storage: UntypedStorage) -> UntypedStorage:
    """Another storage with the same bytes, of which both get their own when one is written."""
    other = object.__new__(type(storage))
    other.buffer, other.nbytes_ = storage.buffer, storage.nbytes_
    together = _sharing.setdefault(storage, weakref.WeakSet([storage]))
    together.add(other)
    _sharing[other] = together
    return other


def is_shared(storage: UntypedStorage | None) -> bool:
    """Whether a write to the storage has to copy its bytes first, or at least to find out that it need not."""
    return storage is not None and storage in _sharing


def leave(storage: UntypedStorage) -> bool:
    """Takes a storage out of those that share its memory; whether others still do."""
    together = _sharing.pop(storage)
    together.discard(storage)
    return bool(together)
