"""The Marked key: conjugated and negated views, and copies that share memory until a write.

A view made by `conj()` shows its base's memory through a `MathView`, which views of it inherit. Every other operator
gets the elements themselves: what is marked is computed first, and what is written is computed, written and put back.
`_lazy_clone()` gives a tensor on a storage of its own whose bytes are still the source's; writing to either copies.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ._core import tensor_base as _tensor_base
from ._core.marks import MathView, is_conjugated, is_negated, is_shared, leave, marked, share, sharing
from ._core.tensor import Tensor, living_tensors
from ._core.tensor_base import fields_of
from ._dispatch.keys import BACKENDS, CPU_MASK, MARKED_MASK, DispatchKey
from ._dispatch.registry import Operator, PerKeys, registry
from ._ops._declare.view_family import View

_AS_REAL = ("view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can "
            "view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias the "
            "original.")
_OTHER_TYPE = "torch.Tensor.view is not supported for conjugate view tensors when converting to a different dtype."


def without_marks(tensor: Tensor) -> Tensor:
    """The memory of a marked tensor as it lies there, with its version."""
    made = tensor._detached()
    made._array = marked(tensor._array, False, False)
    made._keys &= ~MARKED_MASK
    return made


def resolved(tensor: Tensor) -> Tensor:
    """What a marked tensor shows, in memory of its own."""
    made: Any = without_marks(tensor)
    if is_conjugated(tensor._array):
        made = made.conj_physical()
    return made.neg() if is_negated(tensor._array) else made


def give_marks(tensor: Tensor, like: Tensor) -> Tensor:
    """A view of `like` with the marks that this has."""
    array = like._array
    if array.__class__ is MathView and tensor._array.__class__ is not MathView:
        tensor._array = MathView(tensor._array, array.conjugate, array.negative)
    tensor._keys |= MARKED_MASK
    return tensor


def own_memory(tensor: Tensor) -> None:
    """Gives a tensor, and all on its storage, bytes that no copy shares, before a write."""
    storage = tensor._shared_storage()
    with sharing:  # whoever is left alone with the bytes writes to them, so the others have theirs by then
        if not is_shared(storage):
            return
        bytes_ = storage.data.copy() if leave(storage) else None
        _move(storage, bytes_)


def _move(storage: Any, bytes_: np.ndarray | None) -> None:
    """Has all tensors on a storage show other bytes, if there are some; none of them is shared any more."""
    start = storage.data_ptr()
    end = start + storage.nbytes()
    if bytes_ is not None:
        storage.buffer = bytes_
    for each in _tensors_on(storage, start, end):
        array = each._array
        if bytes_ is not None:
            moved = storage.array(array.shape, array.dtype, each._offset, array.strides)
            each._array = MathView(moved, array.conjugate, array.negative) if array.__class__ is MathView else moved
        if each._array.__class__ is not MathView:
            each._keys &= ~MARKED_MASK


def _tensors_on(storage: Any, start: int, end: int) -> list[Tensor]:
    """The living tensors that show memory of a storage; nobody keeps a list of them."""
    found = []
    for tensor in living_tensors():
        array = marked(fields_of(tensor).get("_array"), False, False)
        if array.__class__ is np.ndarray and start <= array.__array_interface__["data"][0] < max(end, start + 1):
            if tensor._shared_storage() is storage:
                found.append(tensor)
    return found


def lazy_clone(source: Tensor) -> Tensor:
    """A copy that shares memory with its source until one of them is written; on other devices, a copy."""
    if source._keys & ((1 << len(BACKENDS)) - 1) != CPU_MASK or source._array.__class__ is not np.ndarray:
        return source.clone()
    storage = source._shared_storage()
    with sharing:
        for tensor in _tensors_on(storage, storage.data_ptr(), storage.data_ptr() + storage.nbytes()):
            tensor._keys |= MARKED_MASK
        made = source._detached()
        made._counter = None
        made._storage, made._keys = share(storage), made._keys | MARKED_MASK
        source._keys |= MARKED_MASK
    return made


def _kernel(operator: Operator, mask: int) -> Callable:
    """The kernel of the Marked key."""
    below = operator.lookup(mask & (MARKED_MASK - 1))
    family = getattr(operator.declaration, "family", None)
    if operator.is_composite:
        return getattr(below, "without_plans", below)  # what it is made of comes this way
    if getattr(family, "marks", False):
        return operator.kernels[DispatchKey.Meta]
    if getattr(family, "is_view", False) and mask & (MARKED_MASK - 1) < 1 << len(BACKENDS):
        return _view_kernel(operator)
    written = [i for i, a in enumerate(operator.schema.arguments) if a.writes]

    def kernel(*values: Any) -> Any:
        given = [_plain(value) for value in values]
        for i in written:
            for target in values[i] if values[i].__class__ in (tuple, list) else (values[i],):
                if target is not None and target._keys & MARKED_MASK:
                    own_memory(target)
        result = below(*given)
        for i in written:
            _write_back(values[i], given[i])
        if operator.schema.writes:
            return values[0] if result is given[0] else result
        return result

    return kernel


def _plain(value: Any) -> Any:
    """An argument without marks of conjugation and negation."""
    if value.__class__ in (tuple, list):
        return value.__class__([_plain(each) for each in value])
    return resolved(value) if getattr(value, "_array", None).__class__ is MathView else value


def _write_back(target: Any, given: Any) -> None:
    """Writes what an operator made of a resolved argument to where the marked one lies."""
    if target.__class__ in (tuple, list):
        for one, other in zip(target, given, strict=True):
            _write_back(one, other)
    elif target is not None and target is not given:
        value, array = given, target._array
        value = value.neg() if array.negative else value
        without_marks(target).copy_(value.conj_physical() if array.conjugate else value)


def _view_kernel(operator: Operator) -> Callable:
    """The kernel of a view operator: its results have the marks of what they show."""
    general = operator.kernels[DispatchKey.Meta]  # that of the CPU asks NumPy, which knows nothing of marks
    name = operator.schema.base_name

    def kernel(source: Tensor, *args: Any) -> Any:
        if source._array.__class__ is MathView:
            if name == "view_as_real" and source._array.conjugate:
                raise RuntimeError(_AS_REAL)
            if not isinstance(operator.declaration.family, View):
                raise RuntimeError(_OTHER_TYPE)
        result = general(source, *args)
        if result.__class__ in (tuple, list):
            return result.__class__([give_marks(each, source) for each in result])
        return give_marks(result, source)

    return kernel


def attach() -> None:
    """Gives all operators a kernel for the Marked key."""
    registry.register_for_all(DispatchKey.Marked, PerKeys(_kernel))
    _tensor_base.own_memory.append(own_memory)
