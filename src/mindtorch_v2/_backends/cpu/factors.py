"""Factors of products that stay as they are from run to run of a compiled function, kept as kernels read them.

Libraries pack a factor into the order of their inner loops in each product. The weight of a model that only predicts is
the same every time, so that it is packed once: it takes its memory a second time, and is dropped with the array, at the
first write, and as soon as somebody could write without that being counted (`UncountedWrites` in _autograd/node.py).
Plans say which arrays may be such factors (_pipeline/factors.py).
"""

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..._autograd.node import SharedMemory, VersionCounter
from ..._dispatch.keys import INFERENCE_MASK

__all__ = ["Factor", "drop", "factor_of", "kept", "known_factor", "now"]

_DUE = 2  # runs in which a factor was what it had been the run before, after which it is packed
_MOST_FORMS = 64  # of one factor: products of other sizes have primitives of their own, which mostly share a form
_ALONE = 3  # references to a storage that one tensor has: its own, a variable's, and that of the count


class Factor:
    """An array that a product is computed with: what it was at the last run, and its packed forms."""

    __slots__ = ("address", "array", "counter", "forms", "is_own", "nbytes", "runs", "version")

    def __init__(self, array: np.ndarray, counter: VersionCounter) -> None:
        number = id(array)
        self.array = weakref.ref(array, lambda gone: _forget(number, gone))
        self.address: int = array.__array_interface__["data"][0]
        self.begin(counter)
        _by_address[self.address] = self

    def begin(self, counter: VersionCounter) -> None:
        """Forgets what was made of earlier elements."""
        self.counter, self.version = counter, counter.value
        self.runs, self.is_own = 0, False
        self.forms: dict[Any, Any] = {}
        self.nbytes = 0  # of all forms

    def form(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` makes of the factor, once: None where it makes nothing of it."""
        if key in self.forms:
            return self.forms[key]
        if len(self.forms) >= _MOST_FORMS:
            self.forms, self.nbytes = {}, 0
        made = self.forms[key] = make()
        if made.__class__ is np.ndarray:
            self.nbytes += made.nbytes
        return made


_known: dict[int, Factor] = {}  # by the identity of the array
_by_address: dict[int, Factor] = {}  # of the first element


def _forget(number: int, gone: Any) -> None:
    known = _known.get(number)
    if known is not None and known.array is gone:  # else another array has the number by now
        del _known[number]
        if _by_address.get(known.address) is known:
            del _by_address[known.address]


def known_factor(tensor: Any, array: Any) -> Factor | None:
    """The factor that an array, the memory of a tensor or a part of it, is in a run that begins; None if it may change.

    A run counts here: only what was the same in some of them, one after the other, is worth packing.
    """
    factor = _known.get(id(array))
    if factor is None or factor.array() is not array:
        if array.__class__ is np.ndarray and not tensor._keys & INFERENCE_MASK:
            _known[id(array)] = Factor(array, tensor._version_counter)
        return None
    counter = tensor._version_counter
    if counter is not factor.counter or counter.value != factor.version:
        factor.begin(counter)
        return None
    if counter.__class__ is VersionCounter and factor.is_own:
        return factor
    if factor.is_own:  # until somebody got hold of the memory
        factor.begin(counter)
    factor.runs += 1
    if factor.runs < _DUE or factor.runs & factor.runs - 1 or not _is_own(tensor, array):  # asked ever more seldom
        return None
    if counter.__class__ is not VersionCounter:
        for other in list(_known.values()):  # parts of the same memory, which would no longer know that it was shown
            if other.counter is counter:
                other.begin(counter)
        counter.__class__ = VersionCounter
    factor.is_own, factor.runs = True, _DUE
    return factor


def drop(arrays: Iterable[Any]) -> None:
    """Forgets what was packed of arrays that recorded calls have written: long after it was counted, perhaps."""
    written = {id(_owner(array)) for array in arrays}
    for factor in list(_known.values()):
        if factor.is_own and id(_owner(factor.array())) in written:
            factor.begin(factor.counter)


def _owner(array: Any) -> Any:
    """What an array has its memory from."""
    while getattr(array, "base", None).__class__ is np.ndarray:
        array = array.base
    return array


def _is_own(tensor: Any, array: Any) -> bool:
    """Whether all who can write the array's elements count that: it is memory of tensors alone."""
    counter, storage, owner = tensor._counter, tensor._storage, _owner(array)
    if tensor._borrowed or getattr(storage, "fixed", False) or counter.__class__ is SharedMemory:
        return False
    if owner.base is not None or _owner(tensor._array) is not owner:  # others' memory, or what it was before
        return False
    if counter.__class__ is VersionCounter:
        return True
    storage = tensor._shared_storage()  # which all who were shown the memory hold
    return sys.getrefcount(storage) <= _ALONE


def kept() -> Iterator[Factor]:
    """The factors that have packed forms now."""
    return (factor for factor in list(_known.values()) if factor.nbytes)


# in a run ------------------------------------------------------------------------------------------------------------


class _Now(threading.local):
    """What this thread runs now."""

    table: dict[int, Factor] | None = None  # in a plan: factors by where their matrices begin
    by_calls: bool = False  # a compiled function, whose calls are not recorded since that would not be worth it


now = _Now()


def factor_of(matrix: np.ndarray) -> Factor | None:
    """The factor that a matrix is, or is a part of, in the run that goes on; None outside of compiled functions."""
    table = now.table
    if table is not None:
        return table.get(matrix.__array_interface__["data"][0])
    if not now.by_calls:
        return None
    factor = _by_address.get(matrix.__array_interface__["data"][0])
    if factor is None or factor.array() is None or factor.counter.__class__ is not VersionCounter or not factor.is_own:
        return None  # plans find out what may be kept
    if factor.counter.value != factor.version:
        factor.begin(factor.counter)
        factor.is_own = True
        return None
    factor.runs += 1
    return factor if factor.runs > _DUE else None
