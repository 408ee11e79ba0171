"""What a recorded function takes for arrays: handles on values of a program (recording.py), with NumPy's methods."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.dtype import REDUCED
from ..._core.geometry import contiguous_strides
from ..._kernels import trace
from ..._ops.view import chunked_strides
from . import fuse
from .c_types import C_TYPES
from .fuse import Untraceable
from .recording import (
    Buffer,
    Computed,
    Folded,
    Found,
    Leaf,
    Multiplied,
    Node,
    Place,
    Program,
    Taken,
    Value,
    applied,
    current_program,
    recording,
)

_MOST_NODES, _MOST_LOADS = 40, 10
_SCALARS = (bool, int, float, np.generic)
_INT64, _BOOL = np.dtype(np.int64), np.dtype(bool)


def _kind_of(name: str, operands: Sequence[Any]) -> np.dtype:
    """The type of what a function gives."""
    if name == "cast":
        return operands[1]
    return fuse.applied_to([v.kind if isinstance(v, Value) else v for v in operands],
                           lambda *symbols: applied(name, symbols, trace.xp))


def _lifted(value: Any) -> Any:
    """An operand as a value, or a number."""
    if isinstance(value, Array):
        value = value.value
        return value.host[()] if value.host is not None and not value.shape else value
    if isinstance(value, np.ndarray):
        return value[()] if not value.ndim else Value(value.shape, value.dtype, host=value)
    if isinstance(value, _SCALARS):
        return value
    raise Untraceable


def apply(name: str, *operands: Any) -> "Array":
    """The array of an elementwise function."""
    values = [_lifted(v) for v in operands]
    if all(not isinstance(v, Value) or v.host is not None for v in values):
        return Array.of_host(applied(name, tuple(v.host if isinstance(v, Value) else v for v in values), np))
    program = current_program()
    inner = [v for v in values if isinstance(v, Value)]
    while sum(v.count for v in inner) > _MOST_NODES or sum(v.loads for v in inner) > _MOST_LOADS:
        largest = max(inner, key=lambda v: v.count)
        if not largest.count:
            break
        program.computed(largest)
    for value in inner:
        if value.host is not None:
            value.host.flags.writeable = False  # from now on a constant
    kind = _kind_of(name, values)
    shape = np.broadcast_shapes(*(v.shape for v in inner))
    return Array(Value(shape, kind, node=Node(name, tuple(values))))


class _Flags:
    def __init__(self, value: Value) -> None:
        place = value.place
        self.c_contiguous = place is None or place.contiguous
        self.f_contiguous = place is not None and place._replace(shape=place.shape[::-1],
                                                                 strides=place.strides[::-1]).contiguous
        self.forc, self.writeable = self.c_contiguous or self.f_contiguous, True

    def __getitem__(self, name: str) -> bool:
        return getattr(self, name.lower())


class Array:
    """What a recorded function takes for an `ndarray`."""

    __array_ufunc__ = None  # NumPy's arrays leave operators to us
    __hash__ = None  # type: ignore[assignment]
    __add__: Any  # and all of Python's operators
    __mul__: Any
    __truediv__: Any

    def __init__(self, value: Value, parent: "Array | None" = None,
                 shown: Callable[[Place], Place] | None = None) -> None:
        """With a `parent`, which is data of the host: `shown` says where this lies if that comes to the device."""
        self.held, self.parent, self.shown = value, parent, shown

    @property
    def value(self) -> Value:
        if self.parent is not None and self.parent.value.host is None:
            assert self.shown is not None
            place = self.shown(self.parent._place())
            self.held, self.parent = Value(place.shape, place.kind, place=place), None
        if self.held.program is not None and self.held.program is not recording.program:
            raise Untraceable  # a function has kept it from an earlier program
        return self.held

    @value.setter
    def value(self, value: Value) -> None:
        self.held, self.parent = value, None

    @classmethod
    def of_host(cls, data: Any) -> "Array":
        data = np.asarray(data)
        return cls(Value(data.shape, data.dtype, host=data))

    shape = property(lambda self: self.value.shape)
    dtype = property(lambda self: self.value.kind)
    ndim = property(lambda self: len(self.value.shape))
    size = property(lambda self: math.prod(self.value.shape))
    itemsize = property(lambda self: self.value.kind.itemsize)
    nbytes = property(lambda self: self.size * self.itemsize)
    flags = property(lambda self: _Flags(self.value))
    T = property(lambda self: self.transpose())

    @property
    def strides(self) -> tuple[int, ...]:
        place = self.value.place
        return contiguous_strides(self.shape, self.itemsize) if place is None else place.strides

    def _part(self, number: int) -> "Array":
        """Real (0) or imaginary (1) parts, where they lie."""
        kind = np.dtype(f"f{self.itemsize // 2}")
        return self._viewed(lambda a: (a.imag if number else a.real), lambda p: p._replace(
            kind=kind, offset=p.offset + number * kind.itemsize))

    @property
    def real(self) -> "Array":
        return self._part(0) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, made: Any) -> None:
        self._part(0)[...] = made

    @property
    def imag(self) -> "Array":
        if self.dtype.kind != "c":
            raise Untraceable
        return self._part(1)

    @imag.setter
    def imag(self, made: Any) -> None:
        self._part(1)[...] = made

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    # numbers of the host ---------------------------------------------------------------------------------------

    def item(self) -> Any:
        if self.value.host is None:
            raise Untraceable
        return self.value.host.item()

    def tolist(self) -> Any:
        if self.value.host is None:
            raise Untraceable
        return self.value.host.tolist()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.item())

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.value.host is None:
            raise Untraceable
        return np.asarray(self.value.host, dtype)

    # views -----------------------------------------------------------------------------------------------------

    def _place(self) -> Place:
        return current_program().computed(self.value)

    def _viewed(self, of_host: Callable[[np.ndarray], np.ndarray], of_place: Callable[[Place], Place]) -> "Array":
        if self.value.host is not None:
            data = of_host(self.value.host)
            return Array(Value(data.shape, data.dtype, host=data), self, of_place)
        place = of_place(self._place())
        return Array(Value(place.shape, place.kind, place=place))

    def transpose(self, *axes: Any) -> "Array":
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = tuple(d % self.ndim for d in order) if order else tuple(reversed(range(self.ndim)))
        return self._viewed(lambda a: a.transpose(order), lambda p: p._replace(
            shape=tuple(p.shape[d] for d in order), strides=tuple(p.strides[d] for d in order)))

    def swapaxes(self, first: int, second: int) -> "Array":
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self.transpose(order)

    def reshape(self, *shape: Any, order: str = "C") -> "Array":
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        if order != "C":
            raise Untraceable
        wanted = np.empty(self.shape, bool).reshape(tuple(wanted)).shape if self.size < 1 << 20 else _resolved(
            wanted, self.size)
        if wanted == self.shape:
            return self
        return self._viewed(lambda a: a.reshape(wanted), lambda p: _reshaped(p, wanted))

    def ravel(self, order: str = "C") -> "Array":
        return self.reshape(-1)

    flatten = ravel

    def squeeze(self, axis: Any = None) -> "Array":
        dims = range(self.ndim) if axis is None else [d % self.ndim for d in np.atleast_1d(axis)]
        return self.reshape(tuple(n for d, n in enumerate(self.shape) if d not in dims or n != 1))

    def view(self, kind: Any) -> "Array":
        kind = np.dtype(kind)
        if kind.itemsize != self.itemsize:
            raise Untraceable
        return self._viewed(lambda a: a.view(kind), lambda p: p._replace(kind=kind))

    def spread(self, shape: Sequence[int]) -> "Array":
        """Broadcast to a shape."""
        shape = tuple(shape)
        if shape == self.shape:
            return self

        def of_place(p: Place) -> Place:
            if np.broadcast_shapes(p.shape, shape) != shape:
                raise Untraceable
            lead = len(shape) - len(p.shape)
            strides = (0,) * lead + tuple(s if n == shape[lead + d] else 0
                                          for d, (n, s) in enumerate(zip(p.shape, p.strides, strict=True)))
            return p._replace(shape=shape, strides=strides)

        return self._viewed(lambda a: np.broadcast_to(a, shape), of_place)

    # elements --------------------------------------------------------------------------------------------------

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Array":
        """The elements whose second index is the first and the offset, in a last dimension."""
        order = [d for d in range(self.ndim) if d not in (axis1 % self.ndim, axis2 % self.ndim)]
        turned = self.transpose(*order, axis1 % self.ndim, axis2 % self.ndim)
        rows = np.arange(max(-offset, 0), min(turned.shape[-2], turned.shape[-1] - offset))
        return turned[..., rows, rows + offset]

    def trace(self) -> "Array":
        return self.diagonal().sum()

    def __getitem__(self, key: Any) -> "Array":
        slanted = _slanted(key)
        if slanted is not None:
            return self._viewed(lambda a: _shown(a, *slanted), lambda p: _along_both(p, *slanted))
        if self.value.host is not None and not _has_arrays(key) and not _is_basic(key):
            return Array.of_host(self.value.host[_host_key(key)])
        if _is_basic(key):
            return self._viewed(lambda a: np.asarray(a[key]), lambda p: _sliced(p, key))
        keys = key if isinstance(key, tuple) else (key,)
        arrays = [k for k in keys if isinstance(k, (Array, np.ndarray, list))]
        if keys[0] is arrays[0] and len(arrays) == len(keys) > 1:
            return self._by_places(arrays)
        at = next(i for i, k in enumerate(keys) if k is arrays[0])
        if len(arrays) != 1 or any(k != slice(None) for k in (*keys[:at], *keys[at + 1 :])):
            raise Untraceable
        return self.take(arrays[0], at)

    def _by_places(self, arrays: Sequence[Any]) -> "Array":
        """Elements by indices of the first dimensions."""
        flat: Any = 0
        for index, n in zip(arrays, self.shape, strict=False):
            flat = flat * n + (index if isinstance(index, Array) else Array.of_host(index))
        rest = self.shape[len(arrays) :]
        return self.reshape(-1, *rest).take(flat, 0)

    def take(self, indices: Any, axis: int | None = None, mode: str = "wrap") -> "Array":
        if axis is None:
            return self.reshape(-1).take(indices, 0)
        indices = indices if isinstance(indices, Array) else Array.of_host(indices)
        axis %= self.ndim
        if indices.dtype.kind not in "iu":
            raise Untraceable
        if self.value.host is not None and indices.value.host is not None:
            return Array.of_host(self.value.host.take(indices.value.host, axis))
        shape, program = self.shape, current_program()
        target = program.fresh((*shape[:axis], *indices.shape, *shape[axis + 1 :]), self.dtype)
        groups = math.prod(shape[:axis]), shape[axis], indices.size, math.prod(shape[axis + 1 :])
        program.add(Taken(_dense(self), _dense(indices.astype(_INT64)), False, groups, target))
        return Array(Value(target.shape, target.kind, place=target))

    def taken_along(self, indices: "Array", axis: int) -> "Array":
        axis %= self.ndim
        shape = tuple(np.broadcast_shapes((*self.shape[:axis], 1, *self.shape[axis + 1 :]), indices.shape))
        if shape[:axis] != self.shape[:axis] or shape[axis + 1 :] != self.shape[axis + 1 :]:
            raise Untraceable
        indices, program = indices.spread(shape), current_program()
        target = program.fresh(shape, self.dtype)
        groups = math.prod(shape[:axis]), self.shape[axis], shape[axis], math.prod(shape[axis + 1 :])
        program.add(Taken(_dense(self), _dense(indices.astype(_INT64)), True, groups, target))
        return Array(Value(shape, target.kind, place=target))

    def __setitem__(self, key: Any, value: Any) -> None:
        data = self.value.host
        if data is not None and not _has_arrays((key, value)) and not _has_arrays(key):
            if not data.flags.writeable:
                raise Untraceable
            data[_host_key(key)] = _host_key(value)
            return
        if not self.size:
            return
        lifted = _lifted(value)
        slanted = _slanted(key)
        if slanted is not None:
            self._leave_host()
            self._write(_along_both(self._place(), *slanted), lifted)
            return
        if not _is_basic(key):
            self._set_masked(key, value)
            return
        if key is Ellipsis and self.value.node is not None:
            self.value = _cast(lifted, self.dtype, self.shape)
            return
        self._leave_host()
        self._write(_sliced(self._place(), key), lifted)

    def _leave_host(self) -> None:
        """Data of which a part is now known to the device alone is brought there, with all of what it is a view of."""
        if self.parent is not None:
            self.parent._leave_host()
        elif self.value.host is not None:
            self.value = Value(self.shape, self.dtype, place=self._copied(current_program()))

    def _copied(self, program: Program) -> Place:
        target = program.fresh(self.shape, self.dtype)
        program.computed(self.value, target)
        return target

    def _write(self, place: Place, lifted: Any) -> None:
        program = current_program()
        value = _cast(lifted, place.kind, place.shape)
        if any(leaf.buffer is place.buffer and leaf != place for leaf in value.expression()[1]):
            program.computed(value)  # elsewhere first
        if math.prod(place.shape):
            program.before_write(place, value)
            program.computed(value, place)

    def _set_masked(self, key: Any, value: Any) -> None:
        if _lifted(value).__class__ is Value and _lifted(value).shape:
            raise Untraceable
        keys = key if isinstance(key, tuple) else (key,)
        at = next(i for i, k in enumerate(keys) if isinstance(k, (Array, np.ndarray)))
        mask = keys[at] if isinstance(keys[at], Array) else Array.of_host(keys[at])
        if mask.dtype != _BOOL or any(k != slice(None) for k in (*keys[:at], *keys[at + 1 :])):
            raise Untraceable
        if mask.shape != self.shape[at : at + mask.ndim]:
            raise Untraceable
        shown = mask.reshape((*mask.shape, *(1,) * (self.ndim - at - mask.ndim)))
        chosen = apply("where", shown, self.dtype.type(value) if isinstance(value, _SCALARS) else value, self)
        self.become(chosen)

    def become(self, made: "Array") -> "Array":
        """Writes elements over these."""
        if made.shape != self.shape and np.broadcast_shapes(made.shape, self.shape) != self.shape:
            raise Untraceable
        self._leave_host()
        if self.value.place is not None:
            self._write(self.value.place, made.value)
        else:
            self.value = _cast(made.value, self.dtype, self.shape)
        return self

    def fill(self, number: Any) -> None:
        self[...] = number

    def astype(self, kind: Any, copy: bool = True, **options: Any) -> "Array":
        kind = np.dtype(kind)
        if self.value.host is not None:
            return Array.of_host(self.value.host.astype(kind))
        if kind == self.dtype:
            return self.copy() if copy else self
        if kind.name not in C_TYPES or self.dtype.name not in C_TYPES:
            raise Untraceable
        return Array(_cast(self.value, kind, self.shape))

    def copy(self, order: str = "C") -> "Array":
        if self.value.host is not None:
            return Array.of_host(self.value.host.copy())
        if self.value.node is not None:
            return Array(self.value)
        if self.dtype.name not in C_TYPES:
            return Array(Value(self.shape, self.dtype, place=self._copied(current_program())))
        return Array(Value(self.shape, self.dtype, node=Node("cast", (self.value, self.dtype))))

    def conj(self) -> "Array":
        if self.dtype.kind != "c":
            return self
        place = current_program().fresh(self.shape, self.dtype)
        made = Array(Value(place.shape, place.kind, place=place))
        made.real, made.imag = self.real, apply("negative", self.imag)
        return made

    conjugate = conj

    # reductions ------------------------------------------------------------------------------------------------

    def fold(self, how: str, axis: Any = None, keepdims: bool = False, kind: Any = None) -> "Array":
        """Folded over axes: "sum", "prod", "max", "min", "xor", "any" or "all"."""
        if self.value.host is not None:
            options = {} if kind is None else {"dtype": kind}
            return Array.of_host(getattr(np, how)(self.value.host, axis=axis, keepdims=keepdims, **options))
        dims = _dims(axis, self.ndim)
        kept = [d for d in range(self.ndim) if d not in dims]
        shape = tuple(1 if d in dims else n for d, n in enumerate(self.shape)) if keepdims else tuple(
            self.shape[d] for d in kept)
        made = _fold_kind(how, self.dtype, kind)
        if self.dtype.name not in C_TYPES or made.name not in C_TYPES or self.dtype in REDUCED:
            raise Untraceable
        if how in ("max", "min") and made == _BOOL:
            how = "any" if how == "max" else "all"
        if not dims or all(self.shape[d] == 1 for d in dims):
            same = self if made == self.dtype else apply("not_equal", self, 0) if made == _BOOL else self.astype(made)
            return same.reshape(shape) if same.shape != shape else same.copy()
        source = self
        if kept != list(range(dims[0])) + list(range(dims[-1] + 1, self.ndim)) or not self.flags.c_contiguous:
            source = self.transpose(*kept, *dims)
            dims = tuple(range(len(kept), self.ndim))
        groups = (math.prod(source.shape[: dims[0]]), math.prod(source.shape[d] for d in dims),
                  math.prod(source.shape[dims[-1] + 1 :]))
        program = current_program()
        target = program.fresh(shape, made)
        program.add(Folded(how, _dense(source), groups, target))
        return Array(Value(shape, made, place=target))

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> "Array":
        return _stored(self.fold("sum", axis, keepdims, dtype), out)

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> "Array":
        return _stored(self.fold("prod", axis, keepdims, dtype), out)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> "Array":
        return _stored(self.fold("max", axis, keepdims), out)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> "Array":
        return _stored(self.fold("min", axis, keepdims), out)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> "Array":
        return _stored(self.fold("any", axis, keepdims), out)

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> "Array":
        return _stored(self.fold("all", axis, keepdims), out)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> "Array":
        count = math.prod(self.shape[d] for d in _dims(axis, self.ndim))
        return _stored(self.sum(axis, dtype, None, keepdims) / count, out)

    def _found(self, largest: bool, axis: int | None, keepdims: bool = False) -> "Array":
        if self.value.host is not None:
            return Array.of_host((np.argmax if largest else np.argmin)(self.value.host, axis, keepdims=keepdims))
        if self.dtype.name not in C_TYPES:
            raise Untraceable
        shape, program = self.shape, current_program()
        if axis is None:
            groups, made = (1, self.size, 1), (1,) * self.ndim if keepdims else ()
        else:
            axis %= self.ndim
            groups = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
            made = (*shape[:axis], *((1,) if keepdims else ()), *shape[axis + 1 :])
        target = program.fresh(made, _INT64)
        program.add(Found(largest, _dense(self), groups, target))
        return Array(Value(made, _INT64, place=target))

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> "Array":
        return self._found(True, axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> "Array":
        return self._found(False, axis, keepdims)

    def __matmul__(self, other: Any) -> "Array":
        return product(self, other)

    def __rmatmul__(self, other: Any) -> "Array":
        return product(other, self)

    def dot(self, other: Any, out: Any = None) -> "Array":
        return _stored(product(self, other), out)


def _stored(made: Array, out: Array | None) -> Array:
    return made if out is None else out.become(made)


def _dims(axis: Any, ndim: int) -> tuple[int, ...]:
    return tuple(range(ndim)) if axis is None else tuple(sorted(d % ndim for d in np.atleast_1d(axis))) if ndim else ()


def _fold_kind(how: str, kind: np.dtype, wanted: Any) -> np.dtype:
    if how in ("any", "all"):
        return _BOOL
    if wanted is not None:
        return np.dtype(wanted)
    if how in ("sum", "prod") and kind.kind in "biu":
        return np.dtype(np.uint64 if kind.kind == "u" else np.int64)
    return kind


def _cast(value: Any, kind: np.dtype, shape: tuple[int, ...]) -> Value:
    """A value of that type, broadcast to a shape."""
    if not isinstance(value, Value):
        data = np.asarray(value).astype(kind)
        return Value(shape, kind, host=np.broadcast_to(data, shape)) if math.prod(shape) < 256 else Value(
            shape, kind, node=Node("cast", (_whole(data), kind)))
    if value.shape != shape and np.broadcast_shapes(value.shape, shape) != shape:
        raise Untraceable
    if value.kind == kind and value.shape == shape and value.host is None and value.node is not None:
        return value
    return Value(shape, kind, node=Node("cast", (value, kind)))


def _whole(data: np.ndarray) -> Value:
    return Value((1,), data.dtype, host=data.reshape(1))


def _dense(array: Array) -> Place:
    """The place of the elements in C order."""
    place = array._place()
    if place.contiguous:
        return place
    program = current_program()
    target = program.fresh(place.shape, place.kind)
    program.add(Computed(Leaf(0, place.kind), (place,), target))
    return target


def _resolved(shape: Any, size: int) -> tuple[int, ...]:
    known = math.prod(n for n in shape if n != -1)
    return tuple(size // known if n == -1 else int(n) for n in shape)


def _reshaped(place: Place, shape: tuple[int, ...]) -> Place:
    """A place in another shape: a view where strides allow it, else a copy."""
    if place.contiguous:
        return place.shaped(shape)
    strides = chunked_strides(place.shape, place.strides, shape)
    if strides is None:
        return _dense(Array(Value(place.shape, place.kind, place=place))).shaped(shape)
    return place._replace(shape=shape, strides=strides)


def _sliced(place: Place, key: Any) -> Place:
    """What basic indexing shows."""
    fake = np.lib.stride_tricks.as_strided(np.empty(1, np.uint8), place.shape, place.strides)
    shown = fake[key]
    if not isinstance(shown, np.ndarray):  # one element
        shown = fake[(*key, ...) if isinstance(key, tuple) else (key, ...)]
    moved = shown.__array_interface__["data"][0] - fake.__array_interface__["data"][0]
    return place._replace(shape=shown.shape, strides=shown.strides, offset=place.offset + moved)


def _slanted(key: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """The indices of a key that goes along the last two dimensions at once, in even steps."""
    if not isinstance(key, tuple) or len(key) != 3 or key[0] is not Ellipsis:
        return None
    found: list[Any] = [k.value.host if isinstance(k, Array) else k for k in key[1:]]
    if any(not isinstance(k, np.ndarray) or k.ndim != 1 or k.dtype.kind != "i" or not k.size or
           len(set(np.diff(k).tolist())) > 1 or k.min() < 0 for k in found) or found[0].size != found[1].size:
        return None
    return found[0], found[1]


def _along_both(place: Place, rows: np.ndarray, columns: np.ndarray) -> Place:
    steps = [int(k[1] - k[0]) if k.size > 1 else 0 for k in (rows, columns)]
    if rows.max() >= place.shape[-2] or columns.max() >= place.shape[-1]:
        raise Untraceable
    down, across = place.strides[-2:]
    return place._replace(shape=(*place.shape[:-2], rows.size),
                          strides=(*place.strides[:-2], steps[0] * down + steps[1] * across),
                          offset=place.offset + int(rows[0]) * down + int(columns[0]) * across)


def _shown(array: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The same of data of the host: a view, which may be written to."""
    place = _along_both(Place(Buffer(array.nbytes), array.dtype, array.shape, array.strides), rows, columns)
    return np.lib.stride_tricks.as_strided(array[..., int(rows[0]) :, int(columns[0]) :], place.shape, place.strides)


def _is_basic(key: Any) -> bool:
    keys = key if isinstance(key, tuple) else (key,)
    return all(k is None or k is Ellipsis or isinstance(k, (int, np.integer, slice)) and not isinstance(k, bool)
               for k in keys)


def _has_arrays(key: Any) -> bool:
    """Whether a key has arrays of the device."""
    return any(isinstance(k, Array) and k.value.host is None for k in (key if isinstance(key, tuple) else (key,)))


def _host_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(map(_host_key, key))
    return key.value.host if isinstance(key, Array) else key


def product(first: Any, second: Any) -> Array:
    """The product of matrices, or of as many of each."""
    a, b = (v if isinstance(v, Array) else Array.of_host(v) for v in (first, second))
    if a.value.host is not None and b.value.host is not None:
        return Array.of_host(a.value.host @ b.value.host)
    if a.ndim == b.ndim == 1:
        return (a * b).sum()
    if a.ndim == 1:
        return product(a.reshape(1, -1), b)[..., 0, :]
    if b.ndim == 1:
        return product(a, b.reshape(-1, 1))[..., 0]
    if a.ndim < 2 or b.ndim < 2 or a.dtype != b.dtype or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise Untraceable
    program = current_program()
    target = program.fresh((*a.shape[:-1], b.shape[-1]), a.dtype)
    program.add(Multiplied(a._place(), b._place(), target))
    return Array(Value(target.shape, target.kind, place=target))


def _attach() -> None:
    for special, name in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "true_divide"),
                          ("pow", "power"), ("floordiv", "floor_divide"), ("mod", "remainder"), ("and", "bitwise_and"),
                          ("or", "bitwise_or"), ("xor", "bitwise_xor")):
        setattr(Array, f"__{special}__", lambda self, other, name=name: apply(name, self, other))
        setattr(Array, f"__r{special}__", lambda self, other, name=name: apply(name, other, self))
        setattr(Array, f"__i{special}__", lambda self, other, name=name: self.become(apply(name, self, other)))
    for special, name in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"),
                          ("eq", "equal"), ("ne", "not_equal")):
        setattr(Array, f"__{special}__", lambda self, other, name=name: apply(name, self, other))
    for special, name in (("neg", "negative"), ("abs", "absolute"), ("invert", "invert")):
        setattr(Array, f"__{special}__", lambda self, name=name: apply(name, self))


_attach()
