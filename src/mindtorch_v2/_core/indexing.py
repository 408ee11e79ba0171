"""`tensor[...]` and `tensor[...] = value`.

Integers, slices, None and Ellipsis make views; what is left of the index, tensors and sequences, goes to `index` or
`index_put_`. On the CPU and without a graph to record, a basic index is one NumPy view; otherwise each part of it is
an operator of its own, as in PyTorch.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._backends.interface import host
from .._dispatch.callers import call_torch_function, is_of_pytorch, mixed_libraries
from .._dispatch.keys import (
    CPU_MASK,
    FUNC_MASK,
    PIPELINE_MASK,
    PYTHON_MASK,
    REQUIRES_GRAD,
    SPARSE_MASK,
    VIEW_MASK,
    modes,
    unusual,
)
from .._dispatch.registry import registry
from .._ops._declare.op import composite
from .._ops._declare.rules import check_writable, shares_storage
from .._ops._declare.updates import warn_if_expanded
from .._ops.copy import stored_number
from .._ops.index import index_with
from .._ops.scatter import filling_mask
from .._ops.slice import select_view, slice_view
from .._ops.stride import alias
from .._ops.view import unsqueeze
from .deferred import Deferred
from .device import CPU, META
from .dtype import FLOAT, INT, bool_, complex32, finfo, float32, float64, int64, uint8
from .from_data import from_numpy, tensor
from .tensor import Tensor, tracked_view
from .warn import warn

_PLAIN, _PLAIN_VIEW = CPU_MASK, CPU_MASK | VIEW_MASK
# A place that _pipeline/record_views.py fills: the part of a recorded tensor, None where an operator has to tell.
recorded_part: list[Callable[[Tensor, Any], Tensor | None]] = []
_FULL = slice(None)
_OWN_KINDS = (int, slice, bool)
_PLACES = frozenset((int, slice, tuple))
_MASKS = (bool_.np, uint8.np)
_LEAST, _MOST = -(2**63), 2**63 - 1
_LARGEST = finfo(float32).max
_NOT_A_TUPLE = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use "
    "x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], "
    "which will result either in an error or a different result")


def _sees_no_graph(self: Tensor) -> bool:
    """Whether a view of this tensor is a matter of NumPy alone: on the CPU, and nothing in between wants to know."""
    include, allow = modes.masks
    keys = (self._keys | include) & allow
    return keys == _PLAIN or (keys == _PLAIN_VIEW and not self._base._keys & REQUIRES_GRAD)  # type: ignore[union-attr]


def getitem(self: Tensor, index: Any) -> Tensor:
    """The part of a tensor that an index names: a view where it is basic, a copy where tensors are in it."""
    kind = index.__class__
    if kind is int or kind is slice or kind is tuple or index is None:
        keys = self._keys
        if unusual.threads:
            if self._array.__class__ is Deferred:
                part = recorded_part[0](self, index)
                if part is not None:
                    return part
            include, allow = modes.masks
            keys = (keys | include) & allow
            if keys & PIPELINE_MASK and self._array.__class__ is np.ndarray:
                keys ^= PIPELINE_MASK  # views of what is there are made at once
        if keys == _PLAIN or (keys == _PLAIN_VIEW and not self._base._keys & REQUIRES_GRAD):  # type: ignore[union-attr]
            found = _part(self._array, index)
            if found is not None:
                shown, distance = found
                return tracked_view(self, shown, self._offset + distance, GETITEM, (index,))
            dim = _place_of_none(index) if kind is tuple and self._array.size else None
            if dim is not None and (dim < 0 or len(index) <= self._array.ndim + 1):
                return unsqueeze(self, dim)
    if self._keys & PYTHON_MASK and not modes.exclude & PYTHON_MASK:
        return call_torch_function(Tensor.__getitem__, [self], (self, index), {})
    if kind is int:
        return _selected(self, 0, index, 0)
    if kind is slice:
        return _sliced(self, 0, index, whole=False)
    if index is None:
        return unsqueeze(self, 0)
    if kind is Tensor and index._array.ndim and self._array.ndim >= _dims_taken(index):
        return index_with(self, (index,))
    if isinstance(index, np.integer):
        return _selected(self, 0, int(index), 0)
    shown, indices = _split_index(self, _as_tuple(index))
    if indices:
        return index_with(shown, tuple(indices))
    return alias(self) if shown is self else shown


def _place_of_none(index: tuple) -> int | None:
    """Where `[..., None]`, or one None among full slices, puts a new dimension; None for any other index."""
    if len(index) == 2 and index[0] is Ellipsis and index[1] is None:
        return -1
    place = None
    for d, item in enumerate(index):
        if item is None and place is None:
            place = d
        elif item.__class__ is not slice or item != _FULL:
            return None
    return place


def numpy_part(array: Any, index: Any) -> tuple[Any, int] | None:
    """The part of an array that an index of numbers and slices names, and how many bytes after the array it begins.

    None for a part without elements, too: NumPy's would have other strides than PyTorch's.
    """
    kind = index.__class__
    if kind is int:
        try:
            shown = array[index, ...]
        except (IndexError, OverflowError):
            return None
        offset = (index if index >= 0 else index + array.shape[0]) * array.strides[0]
    else:
        found = _basic_offset(array, index if kind is tuple else (index,)) if array.size else None
        if found is None:
            return None
        shown = array[index] if kind is slice or Ellipsis in index else array[(*index, ...)]
        offset = found
    return (shown, offset) if shown.size else None


_early = 32  # indices before compiled code is loaded for them


def _early_part(array: Any, index: Any) -> tuple[Any, int] | None:
    """As `numpy_part`, which compiled code takes over from in a program that goes on with indices."""
    global _part, _early
    _early -= 1
    if _early <= 0:
        _part, views = numpy_part, host().views
        if views is not None:
            views.functions.when_loaded(_use_compiled)
    return numpy_part(array, index)


def _use_compiled() -> None:
    global _part
    _part = host().views.functions.part


_part = _early_part


def _basic_offset(array: Any, index: tuple) -> int | None:
    """Bytes from an array's beginning to that of its part; None unless NumPy's view is PyTorch's and valid."""
    strides, shape = array.strides, array.shape
    offset, d, left = 0, 0, len(index)
    for item in index:
        left -= 1
        kind = item.__class__
        if kind is int:
            if d >= len(shape):
                return None
            n = shape[d]
            if item < 0:
                item += n  # noqa: PLW2901
            if not 0 <= item < n:
                return None
            offset += item * strides[d]
            d += 1
        elif kind is slice:
            start, stop, step = item.start, item.stop, item.step
            if d >= len(shape) or (step is not None and (step.__class__ is not int or not 0 < step <= _MOST)):
                return None
            if stop is not None and (stop.__class__ is not int or not _LEAST <= stop <= _MOST):
                return None
            if start is not None:
                if start.__class__ is not int or not _LEAST <= start <= _MOST:
                    return None
                n = shape[d]
                if start < 0:
                    start = start + n if start > -n else 0
                offset += (start if start < n else n) * strides[d]
            d += 1
        elif item is Ellipsis and _only_numbers_and_slices(index[len(index) - left :]):
            if len(shape) - left < d:
                return None
            d = len(shape) - left
        else:
            return None
    return offset


def _only_numbers_and_slices(parts: tuple) -> bool:
    return all(part.__class__ is int or part.__class__ is slice for part in parts)


composite("_getitem(Tensor(a) self, Any index) -> Tensor(a)", public="")(getitem)
GETITEM = registry.get("_getitem")


# the parts of an index -----------------------------------------------------------------------------------------------


def _as_tuple(index: Any) -> tuple:
    """The parts of an index; a short list that holds more than numbers stands for a tuple, as in old NumPy."""
    if isinstance(index, tuple):
        return index
    if isinstance(index, Tensor) or not isinstance(index, Sequence) or len(index) >= 32:
        return (index,)
    for part in index:
        if part is None or part is Ellipsis or isinstance(part, (Tensor, slice)) or _is_sequence(part):
            warn(_NOT_A_TUPLE)
            return tuple(index)
    return (index,)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (Sequence, np.ndarray))


def _selected(self: Tensor, dim: int, index: int, position: int) -> Tensor:
    """One place of a dimension; an error names the part's position in the index, as PyTorch's does."""
    shape = self._array.shape
    if not shape and not index:
        raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ "
                         "to convert a 0-dim tensor to a number")
    n = shape[dim] if dim < len(shape) else 0
    if not -n <= index < n:
        if not _LEAST <= index <= _MOST:
            raise ValueError("Overflow when unpacking long long")
        raise IndexError(f"index {index} is out of bounds for dimension {position} with size {n}")
    return select_view(self, dim, index)


def _integer(value: Any) -> int | None:
    if value is None:
        return None
    if hasattr(value, "__index__"):
        return value.__index__()
    raise TypeError("slice indices must be integers or None or have an __index__ method")


def _sliced(self: Tensor, dim: int, index: slice, *, whole: bool) -> Tensor:
    """A range of a dimension; with `whole`, one that is all of it leaves the tensor as it is."""
    start, stop, step = given = _integer(index.start), _integer(index.stop), _integer(index.step)
    if any(n is not None and not _LEAST <= n <= _MOST for n in given):
        warn("Truncating the start/stop/step of slice. This is likely because of saved old models when the "
             "start/stop/step were larger.")
        start, stop, step = [None if n is None else min(max(n, _LEAST), _MOST) for n in given]
    if step is None:
        step = 1
    if step <= 0:
        raise ValueError("step must be greater than zero" if step else "slice step cannot be zero")
    if not self._array.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    n = self._array.shape[dim]
    if whole and step == 1 and (start is None or start == 0 or start <= -n) and (stop is None or stop >= n):
        return self
    return slice_view(self, dim, start, stop, step)


def _dims_taken(index: Tensor) -> int:
    """How many dimensions a tensor of an index speaks of: a mask as many as it has."""
    array = index._array
    return array.ndim if array.dtype in _MASKS else 1


def _split_index(self: Tensor, given: tuple) -> tuple[Tensor, list[Any]]:
    """The view that the basic parts make, and the tensors for `index`: one a dimension, a mask for several."""
    taken = 0
    for part in given:
        if part is not None and part is not Ellipsis and part.__class__ is not bool:
            taken += _dims_taken(part) if isinstance(part, Tensor) else 1
    ndim = self._array.ndim
    if taken > ndim:
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    shown, indices = self, list[Any]()
    dim = 0
    ahead = 0  # dimensions that masks take beyond their one place among the indices
    for position, part in enumerate(given):
        if not (part.__class__ in _OWN_KINDS or part is None or part is Ellipsis or isinstance(part, Tensor)):
            part = _converted(part)  # noqa: PLW2901
        kind = part.__class__
        if kind is slice:
            shown = _sliced(shown, dim, part, whole=True)
            dim += 1
            continue
        if part is Ellipsis:
            dim += ndim - taken
            continue
        if part is None:
            shown = unsqueeze(shown, dim)
            dim += 1
            continue
        if (kind is not int and kind is not bool and not part._array.ndim and part.dtype.category <= INT
                and not part._keys & FUNC_MASK):
            part = bool(part) if part._array.dtype in _MASKS else part.item()  # noqa: PLW2901 - as the number it is
        if part.__class__ is int:
            shown = _selected(shown, dim, part, position)
            continue
        indices += [None] * (dim - ahead - len(indices))
        if part.__class__ is bool:
            shown = unsqueeze(shown, dim)
            indices.append(self.new_zeros((1,) if part else (0,), dtype=int64))
            dim += 1
        else:
            indices.append(part)
            width = _dims_taken(part)
            dim, ahead = dim + width, ahead + width - 1
    return shown, indices


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _converted(item: Any) -> Any:
    """A part of an index that is none of PyTorch's own kinds, as one of them."""
    if isinstance(item, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{_type_name(item)}'")
    if _is_sequence(item):
        made = from_numpy(item) if isinstance(item, np.ndarray) else tensor(item)
        if made.dtype in (bool_, uint8):
            return made
        for part in () if isinstance(item, (np.ndarray, range)) else item:
            if isinstance(part, np.generic) and not hasattr(part, "__index__"):
                raise TypeError(f"'{_type_name(part)}' object cannot be interpreted as an integer")
        if made.dtype.is_complex:
            raise TypeError("'complex' object cannot be interpreted as an integer")
        return made if made.dtype is int64 else made.to(int64)
    if is_of_pytorch(type(item)):
        raise TypeError(mixed_libraries("__getitem__"))
    if hasattr(item, "__index__") and not isinstance(item, type):
        return item.__index__()
    raise IndexError("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                     f"(got {_type_name(item)})")


# writing -------------------------------------------------------------------------------------------------------------


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """Writes a number or a tensor, broadcast and cast, into the part of a tensor that an index names."""
    if _sees_no_graph(self) and _write_array(self, index, value):
        self._bump_version()
        return
    if self._keys & PYTHON_MASK and not modes.exclude & PYTHON_MASK:
        call_torch_function(Tensor.__setitem__, [self], (self, index, value), {})
        return
    if self._keys & SPARSE_MASK:
        raise TypeError("Cannot assign to a sparse tensor")
    if value.__class__ is float and self._array.dtype.char in "fd" and -_LARGEST <= value <= _LARGEST:
        source: Any = value
    else:
        source = value if isinstance(value, Tensor) else _number(self, value)
    if index is False:
        return
    if index is True:
        index = None
    indices: list[Tensor | None] = []
    part = None
    if self._array.__class__ is Deferred and index.__class__ in _PLACES and _is_plain(source):
        part = recorded_part[0](self, index)
    if part is not None:
        shown = part
    elif index.__class__ is int or isinstance(index, np.integer):
        shown = _selected(self, 0, int(index), 0)
    elif index.__class__ is slice:
        shown = _sliced(self, 0, index, whole=True)
    else:
        shown, indices = _split_index(self, _as_tuple(index))
    if not indices:
        _copy_into(shown, source)
        return
    if source.__class__ in (int, float, bool, complex):
        source = self.new_full((), source)
    elif source._device != self._device and not source._array.ndim:
        source = source.to(self._device)
    casts = source._device not in (CPU, META) and source.dtype is not self.dtype  # which a device's value is not
    recorded = source.requires_grad or shown.requires_grad and not shown._keys & FUNC_MASK
    mask = None if recorded or casts else filling_mask(shown, indices, source)
    if mask is not None:
        if 0 in shown._array.strides:
            warn_if_expanded(shown, "index_put_", "tensor[indices] = tensor")
        shown.masked_fill_(mask, source.reshape(()))
        return
    shown.index_put_(tuple(indices), _without_leading_ones(source))


def _is_plain(source: Any) -> bool:
    """Whether what is written is a number, or a tensor on the CPU for which nothing is derived."""
    keys = getattr(source, "_keys", _PLAIN)
    return keys == _PLAIN or keys == _PLAIN_VIEW and source._base._keys == _PLAIN


def _write_array(self: Tensor, index: Any, value: Any) -> bool:
    """Writes by NumPy's assignment where it does what PyTorch does; whether it did."""
    array, kind, value_kind = self._array, index.__class__, value.__class__
    if not array.size or 0 in array.strides:
        return False
    if value_kind is Tensor:
        source = value._array
        if source.dtype is not array.dtype or not _sees_no_graph(value) or source.ndim > array.ndim:
            return False
        aliased = value is self or shares_storage(self, value)
        if aliased and kind is Tensor:
            return False
    elif array.dtype.kind == "f" and (value_kind is int and _LEAST <= value <= _MOST or value_kind is float
                                      and not (array.itemsize == 4 and _LARGEST < abs(value) < math.inf)):
        source, aliased = value, False
    else:
        return False
    if kind is Tensor:
        places = index._array
        if places.__class__ is not np.ndarray or not places.ndim or places.ndim > array.ndim or index._keys != CPU_MASK:
            return False
        if places.dtype is bool_.np:
            if value_kind is Tensor and source.ndim or places.shape != array.shape[: places.ndim]:
                return False
        elif places.dtype is not int64.np:
            return False
        index = places
    elif (kind not in (int, slice, tuple) or _basic_offset(array, index if kind is tuple else (index,)) is None
          or (aliased and np.may_share_memory(array[index], source))):
        return False
    try:
        array[index] = source
    except (IndexError, TypeError, ValueError):  # said in PyTorch's words by the operators
        return False
    return True


def _number(self: Tensor, value: Any) -> Any:
    if value.__class__ in (int, float, bool, complex):
        if value.__class__ is int and not _LEAST <= value <= _MOST:
            raise ValueError("Overflow when unpacking long long")
        kind = self.dtype
        if value.__class__ in (float, complex) and kind.category >= FLOAT:
            # PyTorch makes a tensor of it before it looks at the index, by way of double for half types: too large is
            # infinite there.
            halved = kind.category == FLOAT and kind.itemsize < 4
            stored = stored_number(value, float64 if halved else kind)
            if kind is complex32:  # whose elements are pairs of numbers in an array
                return value
            value = stored
            return math.copysign(math.inf, value) if halved and abs(value) > _LARGEST else value
        if value.__class__ is complex:
            stored_number(value, kind)
        return value
    if isinstance(value, (int, float, complex, np.integer)):
        return value.item() if isinstance(value, np.generic) else value
    if is_of_pytorch(type(value)):
        raise TypeError(mixed_libraries("__setitem__"))
    raise TypeError(f"can't assign a {_type_name(value)} to a {self.type()}")


def _copy_into(target: Tensor, source: Any) -> None:
    if not hasattr(source, "_array"):
        check_writable(target)
        target.fill_(source)
        return
    if source._array.shape == target._array.shape:
        target.copy_(source)
    elif not source._array.ndim:
        target.fill_(source)
    else:
        target.copy_(_without_leading_ones(source).expand(target._array.shape))


def _without_leading_ones(source: Tensor) -> Tensor:
    shape = source._array.shape
    first = 0
    while first < len(shape) and shape[first] == 1:
        first += 1
    return source.reshape(shape[first:]) if first else source


def delitem(self: Tensor, index: Any) -> None:
    raise TypeError("Tensor does not support deleting items")


def attach() -> None:
    """Gives Tensor its index operators."""
    for name, function in (("__getitem__", getitem), ("__setitem__", setitem)):
        function.__name__ = function.__qualname__ = name
        setattr(Tensor, name, function)
    Tensor.__delitem__ = delitem  # type: ignore[assignment, method-assign]
