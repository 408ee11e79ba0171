"""Gather maps as part of the steps that read their results.

A call whose declaration has `gathers` waits until something reads what it gives. A pointwise or row call then takes the
map into its own kernel, where it becomes loads from computed places. Where something else reads it, the map and the
pointwise calls that it takes in are a kernel, and a map that takes in none is a call.

What a map reads may be the result of another one, or of pointwise calls that nobody else looks at. These are computed
again for each element that is read where that costs less than one pass over memory (`_PASS`): of `n` elements read for
each one that there is, `n - 1` are computed for nothing, and calls of several operands load so many elements more. So
what comes before a padding or windows that lie side by side is part of it, what comes before windows that overlap if it
is cheap, and before a window around each element it is stored. Costly functions are computed in long rows only, since
those of the elements that are left over at the end of a row cost as much as of a vector full of them.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._dispatch.registry import Operator
from .._kernels import ir
from .._kernels.gather import Gathering, Linear, Source, is_copy
from .._kernels.ir import Node, cast, const
from .._kernels.pointwise import _placed, calls_functions, cost, whole
from .._kernels.trace import Untraceable
from .drafts import Draft, Look, Place
from .fetches import NEVER, Fixed, fetch, lifted
from .fuse import HALVES, LONG, cost_of
from .trace import Free, Layout, Value, layout_of

if TYPE_CHECKING:
    from .planner import _Planner

_DEEPEST = 4  # maps of maps
_MOST_LOOKS = 2  # at one array from places that lie apart by what is known when the plan is made
_MOST_JUMPS = 3  # loads of an element from places that are computed, which no vectors are loaded from on the host
_PASS = 16  # additions that storing an element and loading it again is worth
_MOST_COST = 768  # in additions, of all sides of choices: what costs more is rather computed once


class Map(NamedTuple):
    """How a call gathers: what its declaration says, how many elements of each argument it reads for one, its cost."""

    gathers: Callable[..., Any]
    reads: dict[int, int]
    price: int


def gather_of(operator: Operator, args: Sequence[Any], results: Sequence[Layout | None]) -> tuple[Map, bool] | None:
    """The map that a call's first result is, and whether it may find an index wrong; None for others."""
    gathers = operator.declaration.gathers
    if gathers is None or not results or results[0] is None or ir.type_of(results[0].dtype) is None:
        return None
    where = results[0].device
    program = Gathering([Node("place", "i64", (), d) for d in range(results[0].ndim)], _inner(results[0]))

    def source(i: int, tensor: Any) -> Any:
        array = getattr(tensor, "_array", None)
        if array is None:
            listed = tensor.__class__ in (tuple, list) and any(hasattr(each, "_array") for each in tensor)
            return [source(i, each) for each in tensor] if listed else tensor
        kind = ir.type_of(array.dtype)
        if kind is None or not array.size or tensor._device != where:
            raise Untraceable
        computed = "f32" if kind in HALVES else kind

        def element(places: Sequence[Node], condition: Node | None) -> Node:
            return Node("fetch", computed, tuple(places), "")  # loading halves as what is computed in costs nothing

        return Source(program, i, array.shape, array.dtype, element)

    try:
        made = gathers(program, *[source(i, value) for i, value in enumerate(args)])
    except (Untraceable, NotImplementedError):
        return None
    return Map(gathers, program.reads, cost(made.node)), bool(program.wrong)


def _inner(layout: Layout) -> int:
    """The dimension in which elements lie side by side."""
    return min(range(layout.ndim), key=lambda d: (layout.shape[d] == 1, layout.strides[d], -d), default=0)


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
        self.words, self.frees = list(draft.words), list(draft.frees)
        self.numbers: dict[str, str] = {}  # those of `frees` that maps use, with their types
        self.taken: list[Taken] = []
        self.entries: set[int] = set()
        self.waiting: set[int] = set()  # the memories of the results of maps that are no calls any more
        self.unready: set[int] = set()  # the memories of those that have to be calls, since others read them, too
        self.wrong: list[Node] = []

    def take(self, place: Place, number: int) -> bool:
        """Whether a value that a map gives can be loaded for each element of the step, and is then."""
        pad = len(self.shape) - place.layout.ndim
        self.inner, self.jumps = pad + _inner(place.layout), 0
        places = [Node("place", "i64", (), pad + d) if n != 1 else const(0, "i64")
                  for d, n in enumerate(place.layout.shape)]  # fmt: skip
        try:
            value = self._element(number, places, None, 0, math.prod(self.shape))
        except Untraceable:
            return False
        known: dict[int, Node] = {}
        self.taken.append(Taken(place, number, lifted(value, self.words, known)))
        self.wrong = [lifted(node, self.words, known) for node in self.wrong]
        jumps = self.jumps if place.layout.device.type != "cuda" else 0
        return cost(value) <= _MOST_COST and jumps <= _MOST_JUMPS

    def _element(self, number: int, places: Sequence[Node], condition: Node | None, depth: int, count: float) -> Node:
        """The element of a value at a place, in the type that is computed in; so many are asked for in all."""
        planner = self.planner
        place, layout = planner.place(number), planner.plan.layouts[number]
        at = planner.waiting.get(place.memory)
        if at is not None and not depth and not self._is_short(at, count, condition):
            raise Untraceable
        if at is not None and (not depth or planner.is_alone(place.memory) and self._is_short(at, count, condition)):
            return self._mapped(at, self._inverse(number, at, places), condition, depth, count)
        if at is not None:
            self.unready.add(place.memory)
        at = planner.makers.get(place.memory)
        if at is not None and depth and self._is_free(at) and self._is_quicker(at, count, condition):
            again = self._again if planner.plan.entries[at].recipe.gather is None else self._mapped
            return again(at, self._inverse(number, at, places), condition, depth, count)
        return self._loaded(number, layout, places, condition)

    def _mapped(self, at: int, places: Sequence[Node], condition: Node | None, depth: int, count: float) -> Node:
        """An element of what a map gives."""
        layouts, entry = self.planner.plan.layouts, self.planner.plan.entries[at]
        result, gather = entry.results[0], entry.recipe.gather
        if depth >= _DEEPEST or gather is None:
            raise Untraceable
        assert result is not None
        program = Gathering(places, _inner(layouts[result]), condition)

        def source(i: int, value: Any, whole_size: int) -> Any:
            if value.__class__ is tuple and any(v.__class__ is Value for v in value):
                whole_size = sum([layouts[v].size for v in value if v.__class__ is Value])
                return [source(i, each, whole_size) for each in value]
            if value.__class__ is not Value:
                return value
            part = layouts[value].size / whole_size if whole_size else 1  # which of several is read
            read = count * gather.reads.get(i, 0) * part

            def element(places: Sequence[Node], condition: Node | None) -> Node:
                return self._element(value, places, condition, depth + 1, read)

            return Source(program, i, layouts[value].shape, layouts[value].dtype, element)

        made = gather.gathers(program, *[source(i, a, 0) for i, a in enumerate(entry.arguments)])
        kind = ir.TYPES[layouts[result].dtype.name]
        self.wrong += program.wrong
        self.entries.add(at)
        self.waiting.add(self.planner.place(result).memory)
        if kind in HALVES and not is_copy(made.node):
            return cast(cast(made.node, kind), "f32")
        return made.node if kind in HALVES else cast(made.node, kind)

    def _is_short(self, at: int, count: float, condition: Node | None) -> bool:
        """Whether so many elements of what a map gives are rather computed than kept."""
        entry = self.planner.plan.entries[at]
        size = self.planner.plan.layouts[entry.results[0]].size  # type: ignore[index]
        return not self._is_scattered(at, condition) and (count / size - 1) * entry.recipe.gather.price <= _PASS

    def _is_scattered(self, at: int, condition: Node | None) -> bool:
        """Whether a map loads many elements under a condition, which on the host are no loads of vectors."""
        entry = self.planner.plan.entries[at]
        where = self.planner.plan.layouts[entry.results[0]].device.type  # type: ignore[index]
        return condition is not None and where != "cuda" and max(entry.recipe.gather.reads.values(), default=0) > 2

    def _is_free(self, at: int) -> bool:
        """Whether a pointwise call, or a map that another step took in, can be computed elsewhere: nobody else reads
        what it gives, and its operands are what they were.
        """
        planner, entry = self.planner, self.planner.plan.entries[at]
        made = planner.place(entry.results[0]).memory  # type: ignore[arg-type]
        if entry.recipe.fails or not planner.is_alone(made) or planner.changed[made] != at:
            return False
        return all([planner.changed.get(planner.place(n).memory, -1) < at for n in entry.operands()])

    def _is_quicker(self, at: int, count: float, condition: Node | None) -> bool:
        """Whether so many elements of what a call, with those before it, gives are rather computed than kept."""
        price, rest, loads, long = 0, [at], set(), self.shape[-1] >= LONG
        result = self.planner.plan.entries[at].results[0]
        times = count / self.planner.plan.layouts[result].size  # type: ignore[index]
        while rest:
            at = rest.pop()
            entry = self.planner.plan.entries[at]
            expression = entry.recipe.expression
            if expression is None and self._is_scattered(at, condition):
                return False
            price += entry.recipe.gather.price if expression is None else cost_of(expression)
            if not long and expression is not None and calls_functions(expression.node):
                return False
            made = self.planner.plan.layouts[entry.results[0]]  # type: ignore[index]
            for number in entry.operands():
                memory = self.planner.place(number).memory
                maker = self.planner.makers.get(memory)
                if maker is not None and memory not in self.planner.waiting and self._is_free(maker):
                    rest.append(maker)
                elif 2 * self.planner.plan.layouts[number].size > made.size:  # what is smaller stays in the cache
                    loads.add(memory)
                    if times > 1 and _inner(self.planner.plan.layouts[number]) != _inner(made):
                        return False  # it was brought into another order, to be read so
        return (times - 1) * price + times * (len(loads) - 1) <= _PASS

    def _again(self, at: int, places: Sequence[Node], condition: Node | None, depth: int, count: float) -> Node:
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
            given[f"t{i}"] = cast(self._element(number, seen, condition, depth + 1, count), own)
        for i, letter in expression.numbers.items():
            value = entry.arguments[i]
            given[f"n{i}"] = (Node("arg", letter, (), self._name_of_free(value, letter)) if value.__class__ is Free else
                              const(float(value) if letter == "f64" else int(value), letter))  # fmt: skip
        self.entries.add(at)
        kind = ir.TYPES[self.planner.plan.layouts[result].dtype.name]
        return _computed_in(cast(_placed(expression.node, given), kind))

    def _name_of_free(self, position: int, letter: str) -> str:
        """As that of a draft, which is as it was until `commit`."""
        if position not in self.frees:
            self.frees.append(position)
        name = f"f{self.frees.index(position)}"
        self.numbers[name] = letter
        return name

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
        kind, size = ir.type_of(layout.dtype), layout.dtype.itemsize
        steps, start, near = [0] * len(self.shape), self.planner.places.offset[number], 0
        rest: list[tuple[Node, int]] = []
        for place, n, step in zip(places, layout.shape, layout.strides, strict=True):
            if n == 1 or not step:
                continue
            sum_of = Linear().add(place)
            for d, times in sum_of.places.items():
                steps[d] += times * step
            start += sum_of.number * step
            near += sum_of.number * step if step == size else 0
            rest += [(node, times * step) for node, times in sum_of.rest]
        if kind is None:
            raise Untraceable
        parts = [whole("mul", node, const(times, "i64")) for node, times in rest]
        if condition is None or not self._parts_rows(condition):
            self.jumps += sum([self._jump(node) for node, _ in rest])
        first = self.planner.places.offset[number]
        if steps and steps[-1] not in (0, size, -size):
            # So that the others may be rows. What lies side by side is loaded together where that can be seen: from one
            # place on, by steps that the kernel knows.
            parts.append(whole("mul", Node("place", "i64", (), len(steps) - 1), const(Fixed(steps[-1]), "i64")))
            parts += [const(n, "i64") for n in (start - near - first, Fixed(near)) if n]
            steps[-1], start = 0, first
        memory, root = self.planner.place(number).memory, self.planner.places.root[number]
        look = Look(memory, root, start, layout_of(self.shape, tuple(steps), layout.dtype, layout.device), number)
        beside = [one for one in self.sources if one[:2] == (memory, root) and one.layout is look.layout]
        if look not in self.sources and len(beside) >= _MOST_LOOKS:  # from one that is there, so many bytes further
            look = beside[0]
            parts.append(const(start - look.start, "i64"))
        further = functools.reduce(functools.partial(whole, "add"), parts) if parts else NEVER
        name = self.sources.setdefault(look, f"s{len(self.sources)}")
        return _computed_in(fetch(kind, name, further, condition))

    def _parts_rows(self, condition: Node) -> bool:
        """Whether a condition is one that holds in a part of each row, which may be short (see fetches.py)."""
        return any([one.op == "lt" and one.args[0].op == "place" and one.args[0].data == self.inner
                    for one in condition.walk()])  # fmt: skip

    def _jump(self, node: Node) -> int:
        """What it costs that a place is computed for each element of a row, in loads of such: more by dividing."""
        ops = {one.op for one in node.walk()}
        along = any([one.op == "place" and one.data == self.inner for one in node.walk()])
        return 0 if not along else 1 if ops.isdisjoint(("floordiv", "mod")) else 3

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
        draft.frees = self.frees
        draft.body.numbers |= self.numbers
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
            at = planner.waiting.pop(memory, None)
            if at is not None:
                planner.makers[memory] = at
