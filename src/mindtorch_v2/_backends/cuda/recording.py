"""Array functions as programs: `array(xp, ...)` runs once on recorded arrays, and its steps are replayed later.

A value is data of the host, an expression of other values, or elements in a buffer. An expression becomes one pointwise
kernel when its elements are wanted in memory: for a view, a reduction, a write, a result. Whatever depends on data, or
has no counterpart here, raises Untraceable, and the function runs over CuPy at every call.
"""

import math
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._core.geometry import contiguous_strides
from .fuse import Untraceable

_MOST_STEPS, _MOST_CONSTANT = 96, 1 << 22


class Buffer:
    """Memory: a tensor among the arguments by its number, data of the host, or bytes that a program takes."""

    def __init__(self, nbytes: int, argument: int | None = None, data: np.ndarray | None = None) -> None:
        self.nbytes, self.argument, self.data = nbytes, argument, data
        self.result: int | None = None  # the number of the result that lies here

    @property
    def is_own(self) -> bool:
        return self.argument is None and self.data is None


class Place(NamedTuple):
    """Elements in a buffer; strides and offset in bytes."""

    buffer: Buffer
    kind: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def contiguous(self) -> bool:
        plain = contiguous_strides(self.shape, self.kind.itemsize)
        return all(s == c or n == 1 for s, c, n in zip(self.strides, plain, self.shape, strict=True))

    def shaped(self, shape: Sequence[int]) -> "Place":
        """Contiguous elements in another shape."""
        return self._replace(shape=tuple(shape), strides=contiguous_strides(tuple(shape), self.kind.itemsize))


class Node(NamedTuple):
    """An elementwise function of values and numbers."""

    name: str
    operands: tuple[Any, ...]


class Computed(NamedTuple):
    """A step: an expression into a place; `leaves` are the places that it is made of."""

    value: Any
    leaves: tuple[Place, ...]
    target: Place


class Folded(NamedTuple):
    """A step: a contiguous (outer, length, inner) array folded along its middle dimension."""

    how: str
    source: Place
    groups: tuple[int, int, int]
    target: Place


class Found(NamedTuple):
    """A step: where along the middle dimension the largest, or smallest, element is."""

    largest: bool
    source: Place
    groups: tuple[int, int, int]
    target: Place


class Taken(NamedTuple):
    """A step: elements of a contiguous (outer, length, inner) array by indices of its middle dimension.

    The indices are the same for all of outer and inner, or, `along`, one for each element of the result.
    """

    source: Place
    indices: Place
    along: bool
    groups: tuple[int, int, int, int]
    target: Place


class Multiplied(NamedTuple):
    """A step: a product of matrices, or of as many of each."""

    first: Place
    second: Place
    target: Place


class Ran(NamedTuple):
    """A step: a kernel of the language (_kernels/language.py) on arrays and numbers; `target` is the first array."""

    kernel: Any
    constants: tuple[tuple[str, Any], ...]
    arrays: tuple[Place, ...]
    numbers: tuple[Any, ...]
    target: Place


class Program:
    """The steps that an array function took, in order, and the places of its results."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.results: list[Place] = []
        self.lazy: weakref.WeakSet = weakref.WeakSet()  # values that are still expressions
        self.constants: dict[int, tuple[np.ndarray, Buffer]] = {}

    def add(self, step: Any) -> None:
        if len(self.steps) >= _MOST_STEPS:
            raise Untraceable
        self.steps.append(step)

    def fresh(self, shape: Sequence[int], kind: np.dtype) -> Place:
        """Memory for a contiguous array."""
        shape = tuple(shape)
        if not math.prod(shape):
            raise Untraceable
        return Place(Buffer(math.prod(shape) * kind.itemsize), kind, shape, contiguous_strides(shape, kind.itemsize))

    def constant(self, data: np.ndarray) -> Place:
        known = self.constants.get(id(data))
        if known is None:
            if data.nbytes > _MOST_CONSTANT or not data.size:
                raise Untraceable
            known = self.constants[id(data)] = data, Buffer(data.nbytes, data=np.ascontiguousarray(data))
        return Place(known[1], data.dtype, data.shape, contiguous_strides(data.shape, data.itemsize))

    def before_write(self, place: Place, written: "Value | None") -> None:
        """Expressions that read a buffer, but for the one that is written, are computed before it changes."""
        if not place.buffer.is_own:
            raise Untraceable
        for value in list(self.lazy):
            if value is not written and value.node is not None and value.reads(place.buffer):
                self.computed(value)

    def computed(self, value: "Value", target: Place | None = None) -> Place:
        """The place of a value's elements, computed now if they were not; into the target, if one is given."""
        if target is None:
            if value.place is not None:
                return value.place
            if value.host is not None:
                value.place = self.constant(value.host)
                return value.place
            target = self.fresh(value.shape, value.kind)
            self.add(Computed(*value.expression(), target))
            value.place, value.node, value.count, value.loads = target, None, 0, 1
        else:
            self.add(Computed(*value.expression(), target))
        return target


class _Recording(threading.local):
    program: Program | None = None


recording = _Recording()


def current_program() -> Program:
    if recording.program is None:
        raise Untraceable
    return recording.program


class Value:
    """Elements that do not change, unless their buffer is written to."""

    __slots__ = ("__weakref__", "count", "host", "kind", "loads", "node", "place", "program", "shape")

    def __init__(self, shape: Sequence[int], kind: np.dtype, *, host: np.ndarray | None = None,
                 place: Place | None = None, node: Node | None = None) -> None:
        self.shape, self.kind, self.host, self.place, self.node = tuple(shape), kind, host, place, node
        self.count, self.loads = 0, 1
        self.program = None if host is not None else current_program()
        if node is not None:
            inner = [v for v in node.operands if isinstance(v, Value)]
            self.count, self.loads = 1 + sum(v.count for v in inner), sum(v.loads for v in inner)
            current_program().lazy.add(self)

    def expression(self) -> tuple[Any, tuple[Place, ...]]:
        """Nested nodes of leaves, by their numbers, and numbers; and where the leaves are."""
        known: dict[int, Any] = {}
        leaves: list[Value] = []

        def of(value: Any) -> Any:
            if not isinstance(value, Value):
                return value
            if id(value) not in known:
                if value.node is None:
                    known[id(value)] = Leaf(len(leaves), value.kind)
                    leaves.append(value)
                else:
                    known[id(value)] = Node(value.node.name, tuple([of(each) for each in value.node.operands]))
            return known[id(value)]

        return of(self), tuple([current_program().computed(leaf) for leaf in leaves])

    def reads(self, buffer: Buffer) -> bool:
        """Whether elements of a buffer are looked at when this is computed."""
        return any(place.buffer is buffer for place in self.expression()[1])


class Leaf(NamedTuple):
    """A value in memory within an expression."""

    number: int
    kind: np.dtype


def evaluated(expression: Any, loads: Sequence[Any], number: Callable[[Any], Any], xp: Any) -> Any:
    """An expression over a namespace; `loads` are its leaves, and `number` says what stands for one."""
    known: dict[int, Any] = {}

    def of(part: Any) -> Any:
        if isinstance(part, Leaf):
            return loads[part.number]
        if not isinstance(part, Node):
            return number(part)
        if id(part) not in known:
            operands = tuple(map(of, part.operands))
            known[id(part)] = applied(part.name, operands, xp)
        return known[id(part)]

    return of(expression)


def applied(name: str, operands: tuple[Any, ...], xp: Any) -> Any:
    if name == "cast":
        value, kind = operands
        return value.astype(kind)
    return getattr(xp, name)(*operands)
