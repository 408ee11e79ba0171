"""A trace: what was recorded between two flushes, by numbers."""

import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._core.deferred import Deferred
from .._core.device import device
from .._dispatch.registry import Operator

if TYPE_CHECKING:
    from .recipes import Recipe


class Layout:
    """Shape, strides in bytes, type and device of an array; of each there is one object, compared by identity."""

    __slots__ = ("device", "dtype", "nbytes", "ndim", "shape", "size", "strides")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, where: device) -> None:
        self.shape, self.strides, self.dtype, self.device, self.ndim = shape, strides, dtype, where, len(shape)
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize

    @property
    def reach(self) -> int:
        """The bytes from the first element to the end of the last."""
        return sum([(n - 1) * s for n, s in zip(self.shape, self.strides)]) + self.dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


_layouts: dict[tuple, Layout] = {}


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, where: device) -> Layout:
    """The one layout of a geometry on a device."""
    key = shape, strides, dtype, where.type, where.index
    known = _layouts.get(key)
    if known is None:
        known = _layouts[key] = Layout(tuple(shape), tuple(strides), dtype, where)
    return known


class Value(int):
    """The number of a value, in the place of a tensor among an entry's arguments."""


class Free(int):
    """The position in `trace.numbers` of a number that a run is given."""


class Entry(NamedTuple):
    """A recorded call."""

    operator: Operator
    arguments: tuple
    results: tuple[int | None, ...]
    kind: str  # "pointwise", "write" (a pointwise one into its first operand's memory), "view", or "call"
    where: str | None
    recipe: "Recipe"

    def operands(self) -> list[int]:
        """The values among the arguments."""
        return [v for a in self.arguments for v in (a if isinstance(a, tuple) else (a,)) if v.__class__ is Value]


class _Input:
    """Marks in a trace's items that the next one is the layout of an array from outside."""


class Trace:
    """See the package. `items` is what a recorded call adds to: a recipe, then the numbers of its operands.

    An argument that is a tensor by its schema has one item, None if it is none; a list of tensors one for each.
    """

    def __init__(self, flush: Any, lines: bool) -> None:
        self.flush = flush
        self.quick = None if lines else True  # a recipe that says the same is recorded without a look at the caller
        self.values: list[Any] = []
        self.items: list[Any] = []
        self.numbers: list[Any] = []
        self.known: dict[int, tuple[int, Layout]] = {}  # number and layout of an input by the id of its array
        self.inputs: dict[int, Any] = {}
        self.written: set[int] = set()  # inputs that are written
        self.draws = False  # whether calls take random numbers
        self.shared: set[int] = set()  # values that views were made of
        self.places: dict[int, tuple] = {}  # code and instruction of a caller, by the place of a recipe in `items`
        self.outputs: tuple[int, ...] = ()
        self.plan: Any = None  # once it is run

    def input(self, tensor: Any) -> tuple[int, Layout]:
        """Number and layout of a tensor's array from outside, or of an earlier recording."""
        array = tensor._array
        if array.__class__ is Deferred:
            tensor._settle()
            array = tensor._array
        found = self.known.get(id(array))
        if found is None:
            layout = layout_of(array.shape, array.strides, array.dtype, tensor._device)
            found = self.known[id(array)] = len(self.values), layout
            self.inputs[found[0]] = array
            self.values.append(array)
            self.items += (_Input, layout)
        return found

    @property
    def layouts(self) -> list[Layout]:
        """Of all values."""
        if self.plan is not None:  # a trace that was run keeps no values
            return self.plan.layouts
        outside = dict(self.known.values())
        return [outside.get(n) or value.layout for n, value in enumerate(self.values)]

    @property
    def device(self) -> device:
        """That of the first value; a trace may have several."""
        return next(iter(self.known.values()))[1].device

    def find_outputs(self) -> tuple[int, ...]:
        """Notes the values that somebody holds now."""
        count, values, held = sys.getrefcount, self.values, []
        for number in range(len(values)):
            if count(values[number]) > 2 and values[number].__class__ is Deferred:  # this list, and the count
                held.append(number)
        memories = {values[number].memory for number in held}.difference(held, self.inputs)
        self.outputs = tuple(sorted([*held, *memories])) if memories else tuple(held)
        return self.outputs

    @property
    def writes(self) -> list[int]:
        return sorted(self.written)

    def signature(self) -> tuple:
        """Equal for traces that one plan computes."""
        return self.outputs, self._aliases(), *self.items

    def _aliases(self) -> tuple:
        """Which inputs lie in one memory, where one of them is written: groups of (number, offset in it)."""
        if not self.written or len(self.inputs) < 2:
            return ()
        layouts = dict(self.known.values())
        spans = sorted([(_address(array), number) for number, array in self.inputs.items()])
        groups: list[tuple] = []
        own: list[tuple[int, int]] = []
        begin = end = -1
        for start, number in spans:
            if start >= end:
                if len(own) > 1 and not self.written.isdisjoint([n for n, _ in own]):
                    groups.append(tuple(own))
                own, begin, end = [], start, start
            own.append((number, start - begin))
            end = max(end, start + layouts[number].reach)
        if len(own) > 1 and not self.written.isdisjoint([n for n, _ in own]):
            groups.append(tuple(own))
        return tuple(groups)

    @property
    def entries(self) -> list[Entry]:
        """The calls."""
        made: list[Entry] = []
        items, at, value, free = self.items, 0, 0, 0
        while at < len(items):
            recipe = items[at]
            place = at
            at += 1
            if recipe is _Input:
                at += 1
                value += 1
                continue
            arguments: list[Any] = []
            for part, is_tensor in zip(recipe.template, recipe.tensors, strict=True):
                if part.__class__ is Slots and part.gaps:
                    numbers = iter(items[at : at + len(part.gaps) - sum(part.gaps)])
                    arguments.append(tuple([None if gap else Value(next(numbers)) for gap in part.gaps]))
                    at += len(part.gaps) - sum(part.gaps)
                    continue
                if part.__class__ is not Slots:
                    arguments.append(part)
                elif part.free:
                    arguments.append(Free(free))
                    free += 1
                else:
                    arguments.append(Value(items[at]))
                at += is_tensor
            results = []
            for layout in recipe.results:
                results.append(None if layout is None else value)
                value += layout is not None
            where = self.places.get(place)
            made.append(Entry(recipe.operator, tuple(arguments), tuple(results), recipe.kind,
                              None if where is None else told(where), recipe))  # fmt: skip
        return made


class Slots(NamedTuple):
    """In a recipe's template, what a recording brings: a value, a list of them (with `gaps`), a number."""

    free: bool = False
    gaps: tuple[bool, ...] = ()


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0] if array.__class__ is np.ndarray else array.pointer


# where a call was made -----------------------------------------------------------------------------------------------

_PACKAGE = __name__.partition(".")[0]
_outside: dict[int, Any] = {}  # code objects by id, or None for those of this package


def place_of_caller() -> tuple:
    """Code and instruction of the program's own line that is being run."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        known = _outside.get(id(code), code)
        if known is code:
            inside = (frame.f_globals.get("__name__", "") or "").partition(".")[0] == _PACKAGE
            _outside[id(code)] = None if inside else code
            _kept.append(code)
            if not inside:
                _outside[id(code)] = _OUTSIDE
                return code, frame.f_lasti
        elif known is _OUTSIDE:
            return code, frame.f_lasti
        frame = frame.f_back
    return ()


_OUTSIDE = object()
_kept: list[Any] = []  # code objects whose ids are known


def told(place: tuple) -> str:
    """A place as text."""
    if not place:
        return "an unknown place"
    code, instruction = place
    line = next((n for start, end, n in code.co_lines() if start <= instruction < end), None)
    return f"{code.co_filename}:{line or code.co_firstlineno}"
