"""The device on which array functions are recorded, and what they call `xp` there: NumPy's names (recording.py)."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core.computed import computed_once
from ..._core.geometry import contiguous_strides
from ..._dispatch.registry import Operator
from ..._kernels import trace
from ..._ops._declare.rules import Spec
from ..interface import Backend
from .c_types import C_TYPES
from .fuse import Untraceable
from .recorded_arrays import Array, apply, product
from .recording import Buffer, Node, Place, Program, Value, current_program, recording
from .special import FUNCTIONS

_LITTLE = 4096  # elements of an array that the host makes, since it may be kept as a constant
_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_or": "any",
               "logical_and": "all", "bitwise_xor": "xor"}
_OTHERS = frozenset("ndarray pi inf nan e asarray all empty_like zeros_like ones_like in_blocks at_least at_most clip "
                    "where zero_where real positive conjugate".split())
_ELEMENTWISE = frozenset(name for name, value in vars(trace.Namespace).items()
                         if not name.startswith("_") and not isinstance(value, type)) - _OTHERS | FUNCTIONS


def _arrays(values: Any) -> list[Array]:
    return [v if isinstance(v, Array) else Array.of_host(v) for v in values]


class Function:
    """An elementwise function with NumPy's keywords and methods."""

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name

    def __call__(self, *args: Any, out: Any = None, dtype: Any = None, order: Any = None, casting: Any = None) -> Array:
        if dtype is not None:
            args = tuple([a.astype(dtype) for a in _arrays(args)])
        made = apply(self.name, *args)
        if out is None:
            return made
        return (out[0] if isinstance(out, tuple) else out).become(made)

    def reduce(self, array: Array, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
               initial: Any = None) -> Array:
        made = array.fold(_REDUCTIONS[self.name], axis, keepdims, dtype)
        if initial is not None:
            made = apply(self.name, made, initial)
        return made if out is None else out.become(made)

    def _untraceable(self, *args: Any, **options: Any) -> Any:
        raise Untraceable

    accumulate = at = reduceat = outer = _untraceable


def _of_host(function: Callable) -> Callable:
    """A function of NumPy, for data of the host."""

    def call(*args: Any, **options: Any) -> Any:
        made = function(*map(_plain, args), **{name: _plain(value) for name, value in options.items()})
        if isinstance(made, tuple):
            return tuple(map(Array.of_host, made))
        return Array.of_host(made) if isinstance(made, (np.ndarray, np.generic)) else made

    return call


def _plain(value: Any) -> Any:
    if isinstance(value, Array):
        return value.__array__()
    if isinstance(value, (tuple, list)):
        return type(value)(map(_plain, value))
    return value


class Namespace:
    """Arrays of data are recorded, what the host knows is computed at once."""

    ndarray = Array
    is_cuda = True

    def __getattr__(self, name: str) -> Any:
        if name in _ELEMENTWISE:
            made: Any = Function(name)
        else:
            made = getattr(np, name)
            if callable(made) and not isinstance(made, type):
                made = _of_host(made)
        setattr(self, name, made)
        return made

    def __repr__(self) -> str:
        return "<array namespace of recorded programs>"

    @computed_once
    def lapack(self) -> Any:
        from . import recorded_lapack  # which records with this namespace

        return recorded_lapack

    @computed_once
    def map_along(self) -> Any:
        from .written import shared_module

        return shared_module("resample").map_along

    @computed_once
    def linalg(self) -> Any:
        from .recorded_lapack import Functions

        return Functions()

    def in_blocks(self, compute: Callable, *arguments: Any) -> Any:
        return compute(self, *arguments)

    # making arrays ---------------------------------------------------------------------------------------------

    def asarray(self, value: Any, dtype: Any = None, order: Any = None) -> Array:
        if isinstance(value, (list, tuple)) and any(isinstance(v, Array) for v in value):
            value = self.stack(value)
        made = value if isinstance(value, Array) else Array.of_host(value)
        return made if dtype is None or np.dtype(dtype) == made.dtype else made.astype(dtype)

    def array(self, value: Any, dtype: Any = None, order: Any = None) -> Array:
        return self.asarray(value, dtype).copy()

    def ascontiguousarray(self, value: Any, dtype: Any = None) -> Array:
        made = self.asarray(value, dtype)
        return made if made.flags.c_contiguous else made.copy()

    def full(self, shape: Any, number: Any, dtype: Any = None) -> Array:
        if isinstance(number, Array):
            return number.astype(dtype or number.dtype).spread(_shape(shape)).copy()
        size = _shape(shape)
        if math.prod(size) <= _LITTLE:
            return Array.of_host(np.full(size, number, dtype))
        one = np.full(1, number, dtype)
        return Array(Value(size, one.dtype, node=Node("cast", (Value((1,), one.dtype, host=one), one.dtype))))

    def zeros(self, shape: Any, dtype: Any = float) -> Array:
        return self.full(shape, 0, dtype)

    def empty(self, shape: Any, dtype: Any = float) -> Array:
        if 0 in _shape(shape):
            return self.zeros(shape, dtype)
        place = current_program().fresh(_shape(shape), np.dtype(dtype))
        return Array(Value(place.shape, place.kind, place=place))

    def ones(self, shape: Any, dtype: Any = float) -> Array:
        return self.full(shape, 1, dtype)

    def zeros_like(self, array: Any, dtype: Any = None) -> Array:
        return self.full(array.shape, 0, dtype or array.dtype)

    def empty_like(self, array: Any, dtype: Any = None) -> Array:
        return self.empty(array.shape, dtype or array.dtype)

    def ones_like(self, array: Any, dtype: Any = None) -> Array:
        return self.full(array.shape, 1, dtype or array.dtype)

    def uninitialised(self, shape: Sequence[int], kind: np.dtype, strides: Sequence[int] | None) -> Array:
        return self.empty(shape, kind)

    # choices ---------------------------------------------------------------------------------------------------

    def where(self, condition: Any, *choices: Any) -> Array:
        if not choices:
            raise Untraceable
        return apply("where", condition, *choices)

    def zero_where(self, condition: Any, values: Array) -> Array:
        return apply("where", condition, values.dtype.type(0), values)

    def at_least(self, x: Any, bound: Any) -> Array:
        return apply("maximum", x, bound)

    def at_most(self, x: Any, bound: Any) -> Array:
        return apply("minimum", x, bound)

    def clip(self, x: Any, low: Any, high: Any) -> Array:
        return self.at_most(self.at_least(x, low), high)

    def positive(self, x: Array) -> Array:
        return x.copy()

    def conjugate(self, x: Array) -> Array:
        return x.conj()

    def real(self, x: Array) -> Array:
        return x.real

    def copyto(self, target: Array, source: Any, casting: str = "unsafe", where: Any = None) -> None:
        if where is not None:
            source = apply("where", where, source, target)
        target[...] = source

    # shapes ----------------------------------------------------------------------------------------------------

    def broadcast_to(self, x: Any, shape: Any) -> Array:
        return self.asarray(x).spread(_shape(shape))

    def broadcast_arrays(self, *arrays: Any) -> list[Array]:
        given = _arrays(arrays)
        shape = np.broadcast_shapes(*(a.shape for a in given))
        return [a.spread(shape) for a in given]

    def broadcast(self, *arrays: Any) -> Any:
        return np.broadcast(*(np.broadcast_to(np.empty((), bool), np.shape(a)) for a in arrays))

    def shape(self, x: Any) -> tuple[int, ...]:
        return getattr(x, "shape", ())

    def moveaxis(self, x: Array, source: Any, target: Any) -> Array:
        sources = [d % x.ndim for d in np.atleast_1d(source)]
        targets = [d % x.ndim for d in np.atleast_1d(target)]
        rest = [d for d in range(x.ndim) if d not in sources]
        for at, d in sorted(zip(targets, sources, strict=True)):
            rest.insert(at, d)
        return x.transpose(rest)

    def expand_dims(self, x: Array, axis: int) -> Array:
        axis %= x.ndim + 1
        return x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))

    def squeeze(self, x: Array, axis: Any = None) -> Array:
        return x.squeeze(axis)

    def reshape(self, x: Array, shape: Any) -> Array:
        return x.reshape(shape)

    def transpose(self, x: Array, axes: Any = None) -> Array:
        return x.transpose(*(axes or ()))

    def swapaxes(self, x: Array, first: int, second: int) -> Array:
        return x.swapaxes(first, second)

    def flip(self, x: Array, axis: Any = None) -> Array:
        dims = range(x.ndim) if axis is None else [d % x.ndim for d in np.atleast_1d(axis)]
        return x[tuple(slice(None, None, -1 if d in dims else None) for d in range(x.ndim))]

    def concatenate(self, arrays: Sequence[Any], axis: int = 0) -> Array:
        given = _arrays(arrays)
        if all(a.value.host is not None for a in given):
            return Array.of_host(np.concatenate([a.value.host for a in given], axis))
        kind, axis = np.result_type(*(a.dtype for a in given)), axis % given[0].ndim
        program, start = current_program(), 0
        shape = list(given[0].shape)
        shape[axis] = sum(a.shape[axis] for a in given)
        target = program.fresh(shape, kind)
        made = Array(Value(target.shape, kind, place=target))
        for a in given:
            end = start + a.shape[axis]
            if end > start:
                made[(*(slice(None),) * axis, slice(start, end))] = a
            start = end
        return made

    def stack(self, arrays: Sequence[Any], axis: int = 0) -> Array:
        return self.concatenate([self.expand_dims(a, axis) for a in _arrays(arrays)], axis)

    def repeat(self, x: Array, count: Any, axis: int | None = None) -> Array:
        if axis is None or not isinstance(count, (int, np.integer)):
            raise Untraceable
        axis %= x.ndim
        wide = self.expand_dims(x, axis + 1).spread((*x.shape[: axis + 1], int(count), *x.shape[axis + 1 :]))
        return wide.reshape((*x.shape[:axis], x.shape[axis] * int(count), *x.shape[axis + 1 :]))

    def roll(self, x: Array, shift: Any, axis: Any = None) -> Array:
        if axis is None:
            return self.roll(x.reshape(-1), shift, 0).reshape(x.shape)
        for s, d in zip(np.atleast_1d(shift).tolist(), np.atleast_1d(axis).tolist(), strict=True):
            at, d = -s % x.shape[d], d % x.ndim
            lead = (slice(None),) * d
            x = self.concatenate([x[(*lead, slice(at, None))], x[(*lead, slice(None, at))]], d) if at else x
        return x

    # elements --------------------------------------------------------------------------------------------------

    def take(self, x: Array, indices: Any, axis: Any = None, mode: str = "wrap") -> Array:
        return x.take(indices, axis)

    def take_along_axis(self, x: Array, indices: Any, axis: int) -> Array:
        return x.taken_along(self.asarray(indices), axis)

    def count_nonzero(self, x: Array, axis: Any = None) -> Array:
        return apply("not_equal", x, 0).sum(axis)

    def all(self, x: Any, axis: Any = None) -> Any:
        return x.all(axis) if isinstance(x, Array) else np.all(x)

    def sum(self, x: Array, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
        return x.sum(axis, dtype, None, keepdims)

    def argmax(self, x: Array, axis: Any = None) -> Array:
        return x.argmax(axis)

    def argmin(self, x: Array, axis: Any = None) -> Array:
        return x.argmin(axis)

    def isreal(self, x: Array) -> Array:
        if x.dtype.kind == "c":
            raise Untraceable
        return self.ones(x.shape, bool)

    def split(self, x: Array, parts: int, axis: int = 0) -> list[Array]:
        lead, size = (slice(None),) * (axis % x.ndim), x.shape[axis] // parts
        return [x[(*lead, slice(i * size, (i + 1) * size))] for i in range(parts)]

    def dot(self, a: Any, b: Any) -> Array:
        return product(a, b)

    def matmul(self, a: Any, b: Any, out: Any = None, order: Any = None) -> Array:
        made = product(a, b)
        return made if out is None else out.become(made)

    def vecdot(self, a: Array, b: Array, out: Any = None) -> Array:
        made = (a.conj() * b).sum(-1)
        return made if out is None else out.become(made)

    def vdot(self, a: Array, b: Array) -> Array:
        return (a.reshape(-1).conj() * b.reshape(-1)).sum()


def _shape(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(map(int, shape))


xp: Any = Namespace()


class Result:
    """In the place of a tensor: the number of a result."""

    def __init__(self, number: int) -> None:
        self.number = number


class Recorder(Backend):
    """The device: a family's kernel runs on it once, and leaves a program."""

    type = "cuda"
    xp = xp

    def __init__(self, array: Callable | None = None) -> None:
        self.array = array  # what computes in the place of an operator's own `array` function
        self.arguments: list[Any] = []
        self.buffers: list[Buffer] = []

    def array_function(self, operator: Operator, generic: Callable) -> Callable:
        return generic if self.array is None else self.array

    def array_of(self, tensor: Any, where: Any = None) -> Array:
        array = tensor._array
        number = next((i for i, known in enumerate(self.arguments) if known is array), None)
        if number is None:
            raise Untraceable
        place = Place(self.buffers[number], array.dtype, array.shape, array.strides)
        return Array(Value(array.shape, array.dtype, place=place))

    def finished(self, made: Any, spec: Spec, where: Any = None) -> Any:
        program, kind = current_program(), spec.dtype.np
        value = (made if isinstance(made, Array) else Array.of_host(made)).value
        if kind != value.kind and not (kind.name in C_TYPES and value.kind.name in C_TYPES):
            raise Untraceable
        given = spec.strides is not None and tuple(spec.shape) == value.shape
        strides = contiguous_strides(value.shape, kind.itemsize)
        if given:
            strides = tuple([s * kind.itemsize for s in spec.strides or ()])
        nbytes = sum(s * (n - 1) for s, n in zip(strides, value.shape, strict=True)) + kind.itemsize
        place = value.place
        if (place is None or value.host is not None or not place.buffer.is_own or place.buffer.result is not None
                or place.offset or place.kind != kind or place.strides != strides or place.buffer.nbytes != nbytes):
            place = Place(Buffer(nbytes), kind, value.shape, strides)
            if 0 not in value.shape:
                program.computed(value, place)
        place.buffer.result = len(program.results)
        program.results.append(place)
        return Result(place.buffer.result)

    def record(self, kernel: Callable, args: Sequence[Any], arrays: Sequence[Any]) -> tuple[Program, Any]:
        """The program of a call, of which these are the arrays, and its results as the kernel gives them."""
        self.arguments, self.buffers = list(arrays), [Buffer(a.nbytes, argument=i) for i, a in enumerate(arrays)]
        before, recording.program = recording.program, Program()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # what warns does so at every call
                made = kernel(*args)
            return recording.program, made
        finally:
            recording.program = before
            self.arguments.clear()
