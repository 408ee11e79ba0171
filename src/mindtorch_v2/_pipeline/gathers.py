"""Gather maps as part of the steps that read their results.

A call whose declaration has `gathers` waits until something reads what it gives. A pointwise or row call then takes the
map into its own kernel, where it becomes loads from computed places; whatever else reads it has it run as a call. What
maps read may be the result of another one, or of a cheap pointwise call, which is then computed where it is loaded.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._dispatch.registry import Operator
from .._kernels import ir
from .._kernels.gather import Gathering, Linear, Source, is_copy
from .._kernels.ir import Node, cast, const
from .._kernels.pointwise import _placed, cost, whole
from .._kernels.trace import Untraceable
from .drafts import Draft, Look, Place
from .fetches import NEVER, fetch, lifted
from .fuse import HALVES, cost_of
from .trace import Free, Layout, Value, layout_of

if TYPE_CHECKING:
    from .planner import _Planner

_DEEPEST = 4  # maps of maps
_CHEAP = 2  # additions that are rather done again than kept
_MOST_COST = 64  # in additions: what costs more is rather computed once
Gather = Callable[..., Any]


def gather_of(operator: Operator, args: Sequence[Any], results: Sequence[Layout | None]) -> tuple[Gather, bool] | None:
    """The map of a call, and whether it may find an index wrong; None for what is no map, or of other types."""
    gathers = operator.declaration.gathers
    if gathers is None or len(results) != 1 or results[0] is None or ir.type_of(results[0].dtype) is None:
        return None
    where = results[0].device
    program = Gathering([Node("place", "i64", (), d) for d in range(results[0].ndim)])

    def source(tensor: Any) -> Any:
        array = getattr(tensor, "_array", None)
        if array is None:
            return [source(each) for each in tensor] if tensor.__class__ in (tuple, list) else tensor
        kind = ir.type_of(array.dtype)
        if kind is None or not array.size or tensor._device != where:
            raise Untraceable

        def element(places: Sequence[Node], condition: Node | None) -> Node:
            return _computed_in(Node("fetch", kind, tuple(places), ""))

        return Source(program, array.shape, array.dtype, element)

    try:
        gathers(program, *[source(value) for value in args])
    except (Untraceable, NotImplementedError):
        return None
    return gathers, bool(program.wrong)


def _computed_in(node: Node) -> Node:
    return cast(node, "f32") if node.type in HALVES else node


class Taken(NamedTuple):
    """A value that maps load: the place that is read, its number, and the expression."""

    place: Place
    number: int
    value: Node


class Writer:
    """Writes maps down for the kernel of a step, which is as it was until `commit`."""

    def __init__(self, planner: "_Planner", draft: Draft) -> None:
        assert draft.shape is not None
        self.planner, self.draft, self.shape = planner, draft, draft.shape
        self.sources = dict(draft.sources)
        self.words = list(draft.words)
        self.taken: list[Taken] = []
        self.entries: set[int] = set()
        self.waiting: set[int] = set()  # the memories of the results of maps that are no calls any more
        self.unready: set[int] = set()  # the memories of those that have to be calls, since others read them, too
        self.wrong: list[Node] = []

    def take(self, place: Place, number: int) -> bool:
        """Whether a value that a map gives can be loaded for each element of the step, and is then."""
        pad = len(self.shape) - place.layout.ndim
        places = [Node("place", "i64", (), pad + d) if n != 1 else const(0, "i64")
                  for d, n in enumerate(place.layout.shape)]  # fmt: skip
        try:
            value = self._element(number, places, None, 0)
        except Untraceable:
            return False
        known: dict[int, Node] = {}
        self.taken.append(Taken(place, number, lifted(value, self.words, known)))
        self.wrong = [lifted(node, self.words, known) for node in self.wrong]
        return cost(value) <= _MOST_COST

    def _element(self, number: int, places: Sequence[Node], condition: Node | None, depth: int) -> Node:
        """The element of a value at a place, in the type that is computed in."""
        planner = self.planner
        place, layout = planner.place(number), planner.plan.layouts[number]
        at = planner.waiting.get(place.memory)
        if at is not None and (not depth or planner.is_alone(place.memory)):
            return self._mapped(at, self._inverse(number, at, places), condition, depth)
        if at is not None:
            self.unready.add(place.memory)
        at = planner.makers.get(place.memory)
        if at is not None and depth and planner.is_alone(place.memory) and self._is_cheap(at):
            return self._again(at, self._inverse(number, at, places), condition, depth)
        return self._loaded(number, layout, places, condition)

    def _mapped(self, at: int, places: Sequence[Node], condition: Node | None, depth: int) -> Node:
        """An element of what a map gives."""
        entry = self.planner.plan.entries[at]
        gather = entry.recipe.gather
        if depth >= _DEEPEST or gather is None:
            raise Untraceable
        program = Gathering(places, condition)

        def source(value: Any) -> Any:
            if value.__class__ is tuple and any(v.__class__ is Value for v in value):
                return [source(each) for each in value]
            if value.__class__ is not Value:
                return value
            layout = self.planner.plan.layouts[value]
            return Source(program, layout.shape, layout.dtype,
                          lambda places, condition: self._element(value, places, condition, depth + 1))  # fmt: skip

        made = gather(program, *[source(a) for a in entry.arguments])
        result = entry.results[0]
        assert result is not None
        kind = ir.TYPES[self.planner.plan.layouts[result].dtype.name]
        self.wrong += program.wrong
        self.entries.add(at)
        self.waiting.add(self.planner.place(result).memory)
        if kind in HALVES and not is_copy(made.node):
            return cast(cast(made.node, kind), "f32")
        return made.node if kind in HALVES else cast(made.node, kind)

    def _is_cheap(self, at: int) -> bool:
        """Whether a pointwise call can be computed again: it costs little, and its operands are what they were."""
        planner, entry = self.planner, self.planner.plan.entries[at]
        expression = entry.recipe.expression
        if expression is None or any(entry.arguments[i].__class__ is Free for i in expression.numbers):
            return False
        made = self.planner.place(entry.results[0]).memory  # type: ignore[arg-type]
        read = [planner.place(n).memory for n in entry.operands()]
        same = planner.changed[made] == at and all(planner.changed.get(memory, -1) < at for memory in read)
        return same and cost_of(expression) <= _CHEAP

    def _again(self, at: int, places: Sequence[Node], condition: Node | None, depth: int) -> Node:
        """An element of what a pointwise call gives."""
        entry = self.planner.plan.entries[at]
        expression, result = entry.recipe.expression, entry.results[0]
        assert expression is not None and result is not None
        own, given = ir.TYPES[expression.kind.name], {}
        for i in expression.loads:
            number = entry.arguments[i]
            layout = self.planner.plan.layouts[number]
            behind = places[len(places) - layout.ndim :]
            seen = [p if n != 1 else const(0, "i64") for p, n in zip(behind, layout.shape, strict=True)]
            given[f"t{i}"] = cast(self._element(number, seen, condition, depth + 1), own)
        for i, letter in expression.numbers.items():
            value = entry.arguments[i]
            given[f"n{i}"] = const(float(value) if letter == "f64" else int(value), letter)
        self.entries.add(at)
        kind = ir.TYPES[self.planner.plan.layouts[result].dtype.name]
        return _computed_in(cast(_placed(expression.node, given), kind))

    def _inverse(self, number: int, at: int, places: Sequence[Node]) -> list[Node]:
        """The place in the result of a call that a place in a view of it is."""
        planner = self.planner
        result = planner.plan.entries[at].results[0]
        assert result is not None
        whole_layout, layout = planner.plan.layouts[result], planner.plan.layouts[number]
        if layout.dtype != whole_layout.dtype:
            raise Untraceable
        sizes, steps = whole_layout.shape, whole_layout.strides
        found: list[Node] = [const(0, "i64") for _ in sizes]
        reach = [0] * len(sizes)
        rest = planner.places.offset[number]
        order = sorted([d for d, n in enumerate(sizes) if n > 1], key=lambda d: -steps[d])
        for d in order:
            reach[d] = rest // steps[d]
            found[d] = const(reach[d], "i64")
            rest -= reach[d] * steps[d]
        for place, n, step in zip(places, layout.shape, layout.strides, strict=True):
            if n == 1 or not step:
                continue
            own = next((d for d in order if steps[d] <= step and not step % steps[d]), None)
            if own is None:
                raise Untraceable
            times = step // steps[own]
            moved = place if times == 1 else whole("mul", place, const(times, "i64"))
            found[own] = whole("add", found[own], moved) if reach[own] or found[own].op != "const" else moved
            reach[own] += times * (n - 1)
        if rest or any(reach[d] >= sizes[d] for d in order):
            raise Untraceable
        return found

    def _loaded(self, number: int, layout: Layout, places: Sequence[Node], condition: Node | None) -> Node:
        """An element that is in memory."""
        kind = ir.type_of(layout.dtype)
        steps, start = [0] * len(self.shape), self.planner.places.offset[number]
        rest: list[tuple[Node, int]] = []
        for place, n, step in zip(places, layout.shape, layout.strides, strict=True):
            if n == 1 or not step:
                continue
            sum_of = Linear().add(place)
            for d, times in sum_of.places.items():
                steps[d] += times * step
            start += sum_of.number * step
            rest += [(node, times * step) for node, times in sum_of.rest]
        if kind is None:
            raise Untraceable
        if steps and steps[-1] not in (0, layout.dtype.itemsize, -layout.dtype.itemsize):
            rest.append((Node("place", "i64", (), len(steps) - 1), steps[-1]))  # so that the others may be rows
            steps[-1] = 0
        further = NEVER
        for node, times in rest:
            moved = whole("mul", node, const(times, "i64"))
            further = moved if further is NEVER else whole("add", further, moved)
        seen = layout_of(self.shape, tuple(steps), layout.dtype, layout.device)
        memory, root = self.planner.place(number).memory, self.planner.places.root[number]
        name = self.sources.setdefault(Look(memory, root, start, seen, number), f"s{len(self.sources)}")
        return _computed_in(fetch(kind, name, further, condition))

    def last_written(self) -> int:
        """The index of the last step that what is loaded rests on, which has to be done before."""
        planner = self.planner
        before = [planner.last_write.get(memory) for memory in {look.memory for look in self.sources}]
        if self.wrong:
            before += [planner.last_failing, planner.last_outside]
        return max([draft.index for draft in before if draft is not None], default=-1)

    def dimensions(self) -> set[int]:
        """Those in which the maps look at the index of an element."""
        nodes = [*(one.value for one in self.taken), *self.wrong]
        return {n.data for node in nodes for n in node.walk() if n.op == "place"}

    def commit(self) -> None:
        """Makes the maps part of the step."""
        planner, draft = self.planner, self.draft
        for look, name in list(self.sources.items())[len(draft.sources) :]:
            draft.body.sources[name] = ir.TYPES[look.layout.dtype.name]
            before = planner.last_read.get(look.memory)
            planner.last_read[look.memory] = draft if before is None or before.index < draft.index else before
        draft.sources, draft.words, draft.body.words = self.sources, self.words, len(self.words)
        for nr, (place, number, value) in enumerate(self.taken):
            name = f"{draft.next_name()}_{nr}"
            draft.body.gather(name, value)
            root = planner.places.root[number]
            stored = place == planner.place(root) or planner.is_alone(place.memory)
            if stored and place.layout.shape == draft.shape and place.memory not in draft.content:
                draft.content[place.memory] = place, name, root
                planner.last_write[place.memory] = draft
            else:
                draft.gathered[place] = name
        for node in self.wrong:
            draft.body.refuse(node)
        if self.wrong:
            planner.last_failing = draft
        draft.entries += sorted(self.entries.difference(draft.entries))
        for memory in self.waiting:
            planner.waiting.pop(memory, None)
