"""Graphs for several sizes: which numbers of a recording follow from the sizes of its inputs.

A recording has numbers where PyTorch's tracer has symbols. What varies is found by comparing it with an earlier one of
the same calls (`compared`), or assumed where the program says that sizes vary (`assumed`). Either may be wrong of a
third size, so it is never taken for granted: each call is recorded, and a graph serves those recordings alone that it
gives again with their sizes put in (`Sizes.values_in`); others get a graph of their own.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .._core.geometry import contiguous_strides
from .._pipeline.trace import Entry, Layout, Trace
from .._symbolic import SymInt

_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "mul": operator.mul, "add": operator.add, "floordiv": operator.floordiv,
}  # fmt: skip
# Arguments in which a number is assumed to be the size that it is equal to.
_LENGTHS = frozenset(("size", "shape", "length", "start", "end", "output_size", "repeats", "split_size", "sizes"))


_PARTS = [("floordiv", n) for n in range(2, 17)]


class Formula(NamedTuple):
    """A number out of sizes: the one of a number where there is no operation, else what it gives for two operands."""

    size: int
    function: str = ""
    other: "Formula | int" = 0

    def value(self, sizes: Sequence[int]) -> int:
        own = sizes[self.size]
        if not self.function:
            return own
        return _FUNCTIONS[self.function](own, self.other if isinstance(self.other, int) else self.other.value(sizes))

    def written(self, size: Callable[[int], Any], call: Callable[[Callable, Any, Any], Any]) -> Any:
        """The number by functions that give a size, and that call something."""
        own = size(self.size)
        if not self.function:
            return own
        other = self.other if isinstance(self.other, int) else self.other.written(size, call)
        return call(_FUNCTIONS[self.function], own, other)


class Sketch:
    """What there is to compare of a recording, without its arrays."""

    def __init__(self, trace: Trace) -> None:
        layouts = trace.layouts
        self.inputs: list[Layout] = [layouts[number] for number in trace.inputs]
        entries = trace.entries
        self.calls = [(entry.operator, entry.kind, entry.results) for entry in entries]
        self.rest = (tuple(trace.inputs), trace.outputs, tuple(sorted(trace.written)))
        self.leaves: dict[tuple, Any] = {}
        for at, entry in enumerate(entries):
            self.leaves.update(_leaves((at,), entry.arguments))
        self.leaves.update((("number", i), value) for i, value in enumerate(trace.numbers))
        self.lengths = {path for at, entry in enumerate(entries) for path in _lengths(at, entry)}

    def is_like(self, other: "Sketch") -> bool:
        """Whether two recordings are the same calls of tensors that differ in sizes alone."""
        same = self.calls == other.calls and self.rest == other.rest and self.leaves.keys() == other.leaves.keys()
        return same and all([_alike(a, b) for a, b in zip(self.inputs, other.inputs, strict=True)])


def _leaves(path: tuple, value: Any) -> Iterator[tuple[tuple, Any]]:
    """What is in arguments, by the way that leads there."""
    if value.__class__ is tuple:
        yield (*path, "length"), len(value)
        for i, each in enumerate(value):
            yield from _leaves((*path, i), each)
    elif value.__class__ is slice:
        yield from _leaves((*path, "slice"), (value.start, value.stop, value.step))
    else:
        yield path, value


def _lengths(at: int, entry: Entry) -> Iterator[tuple]:
    for i, argument in enumerate(entry.operator.schema.arguments):
        if argument.name in _LENGTHS:
            yield from [path for path, _ in _leaves((at, i), entry.arguments[i])]


def _alike(a: Layout, b: Layout) -> bool:
    """Whether two layouts are those of one tensor with sizes that vary, in the same order in memory."""
    if a.dtype != b.dtype or a.device != b.device or a.ndim != b.ndim:
        return False
    if any((m == 1) != (n == 1) or (m == 0) != (n == 0) for m, n in zip(a.shape, b.shape, strict=True)):
        return False  # which PyTorch has graphs of their own for
    ordered = [layout.strides == contiguous_strides(layout.shape, layout.dtype.itemsize) for layout in (a, b)]
    return all(ordered) or a.strides == b.strides or not any(ordered) and _order(a) == _order(b)


def _order(layout: Layout) -> list[int]:
    return sorted(range(layout.ndim), key=lambda d: (-layout.strides[d], d))


class Sizes:
    """The sizes that vary, each with the places (input, dimension) where it stands, and the numbers that follow."""

    def __init__(self, sketch: Sketch, places: list[list[tuple[int, int]]], formulas: dict[tuple, Formula]) -> None:
        self.sketch, self.places, self.formulas = sketch, places, formulas
        self.values = [sketch.inputs[own[0][0]].shape[own[0][1]] for own in places]
        # Before which input a graph is given each of them.
        self.given = [own[0][0] for own in places]

    def values_in(self, other: Sketch) -> list[int] | None:
        """The sizes of another recording, if it is what the graph gives for them; None otherwise."""
        if not self.sketch.is_like(other):
            return None
        found = [other.inputs[own[0][0]].shape[own[0][1]] for own in self.places]
        varying = {place: value for own, value in zip(self.places, found, strict=True) for place in own}
        for i, (mine, theirs) in enumerate(zip(self.sketch.inputs, other.inputs, strict=True)):
            if any(theirs.shape[d] != varying.get((i, d), mine.shape[d]) for d in range(mine.ndim)):
                return None
        for path, value in self.sketch.leaves.items():
            formula, seen = self.formulas.get(path), other.leaves[path]
            if not _same(seen, value if formula is None else formula.value(found)):
                return None
        return found

    def symbols(self) -> list[SymInt]:
        """The sizes as a backend sees them."""
        return [SymInt(value, f"s{k}") for k, value in enumerate(self.values)]

    def beside(self, values: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
        """What a graph is given: each size before the first input that has it."""
        made: list[Any] = []
        for i, tensor in enumerate(tensors):
            made += [value for value, at in zip(values, self.given, strict=True) if at == i]
            made.append(tensor)
        return made


def _same(a: Any, b: Any) -> bool:
    return a is b or a.__class__ is b.__class__ and bool(a == b)


def varying(before: Sketch, now: Sketch) -> list[tuple[int, int]]:
    """The inputs and dimensions whose sizes differ between two recordings, whatever they call."""
    if len(before.inputs) != len(now.inputs):
        return []
    return [(i, d) for i, (a, b) in enumerate(zip(before.inputs, now.inputs, strict=True)) if _alike(a, b)
            for d in range(a.ndim) if a.shape[d] != b.shape[d]]  # fmt: skip


def compared(before: Sketch, now: Sketch) -> Sizes | None:
    """The sizes in which two recordings differ; None where they differ in what does not follow from sizes."""
    if not before.is_like(now):
        return None
    places = [[place] for place in varying(before, now)]
    pairs = [(before.inputs[i].shape[d], now.inputs[i].shape[d]) for ((i, d),) in places]
    formulas: dict[tuple, Formula] = {}
    for path, value in now.leaves.items():
        if _same(value, before.leaves[path]):
            continue
        formula = _formula((before.leaves[path], value), pairs)
        if formula is None:
            return None
        formulas[path] = formula
    return Sizes(now, places, formulas) if places else None


def _formula(wanted: tuple[Any, Any], pairs: Sequence[tuple[int, int]]) -> Formula | None:
    """What gives two numbers out of the sizes that stood beside each of them."""
    if any(value.__class__ is not int for value in wanted):
        return None
    for k, pair in enumerate(pairs):
        if pair == wanted:
            return Formula(k)
    for k, pair in enumerate(pairs):
        for function, other in (("mul", wanted[0] // pair[0]), ("add", wanted[0] - pair[0]), *_PARTS):
            if all(_FUNCTIONS[function](size, other) == value for size, value in zip(pair, wanted, strict=True)):
                return Formula(k, function, other)
    for k, one in enumerate(pairs):
        for m, two in enumerate(pairs[k:], k):
            for function in ("mul", "add"):
                if all(_FUNCTIONS[function](a, b) == v for a, b, v in zip(one, two, wanted, strict=True)):
                    return Formula(k, function, Formula(m))
    return None


def assumed(now: Sketch, marked: set[tuple[int, int]] | None) -> Sizes | None:
    """The sizes of one recording: all of more than one element, equal ones together, or those that are marked."""
    places: dict[int, list[tuple[int, int]]] = {}
    for i, layout in enumerate(now.inputs):
        for d, n in enumerate(layout.shape):
            if n > 1 and (marked is None or (i, d) in marked):
                places.setdefault(n, []).append((i, d))
    order, formulas = list(places), {}
    for path in now.lengths:
        value = now.leaves[path]
        if value.__class__ is int and value in places and path[-1] != "length":
            formulas[path] = Formula(order.index(value))
    return Sizes(now, list(places.values()), formulas) if places else None
