"""Kernels whose turns are shared by teams of threads, for devices that have many.

All lanes of a team compute alike what stands outside of loops, and the first of them stores it. The innermost loops
whose turns do not meet, or meet in sums and extremes alone, are dealt out: lane L of a team of T takes the turns whose
number is L modulo T, so that a lane finds its own elements again in the next loop. Scratch memory that has an element
a turn becomes a variable of each lane. Where lanes read what others have written, the team meets.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import ir
from .ir import Node

# operation -> what combines the parts of several lanes
_FOLDS = {"add": "add", "sub": "add", "mul": "mul", "min": "min", "max": "max", "smaller": "min", "larger": "max",
          "or": "or", "and": "and", "xor": "xor"}  # fmt: skip


@dataclasses.dataclass
class Dealt(ir.Loop):
    """A loop that is dealt out. `folds`: variables that each lane has a part of, and how these are combined."""

    folds: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class First:
    """Statements of the first lane."""

    body: list


@dataclasses.dataclass
class Meet:
    """Lanes wait for each other, and see what was written."""


@dataclasses.dataclass
class Shared:
    """A kernel in teams: the turns' loop is found as ever; `held` is scratch memory that lanes have an element of."""

    kernel: ir.Kernel
    held: dict[str, int]


class NotShared(Exception):
    """A turn cannot be shared, or there is nothing to share."""


# what statements read and write ---------------------------------------------------------------------------------------


def nodes_of(statement: Any) -> tuple[Node, ...]:
    """The expressions of one statement, not of those within it."""
    if isinstance(statement, ir.Set):
        return (statement.value,)
    if isinstance(statement, ir.Store):
        return (*statement.index, statement.value)
    if isinstance(statement, ir.Loop):
        return statement.start, statement.stop, statement.step
    return (statement.condition,) if isinstance(statement, (ir.If, ir.While)) else ()


def parts_of(statement: Any) -> list[Sequence[Any]]:
    """The statements within one."""
    if isinstance(statement, ir.If):
        return [statement.then, statement.otherwise]
    if isinstance(statement, ir.While):
        return [statement.test, statement.body]
    return [statement.body] if isinstance(statement, (ir.Loop, ir.Block, First)) else []


def walk(body: Iterable[Any]) -> Iterator[Any]:
    """All statements, those within others too."""
    for statement in body:
        yield statement
        for part in parts_of(statement):
            yield from walk(part)


def _names(nodes: Iterable[Node]) -> set[str]:
    return {each.data for node in nodes for each in node.walk() if each.op == "var"}


def _loads(nodes: Iterable[Node]) -> Iterator[Node]:
    return (each for node in nodes for each in node.walk() if each.op == "load")


def _set_in(body: Iterable[Any]) -> set[str]:
    return {s.name for s in walk(body) if isinstance(s, (ir.Set, ir.Loop))}


def _exposed(body: Sequence[Any], known: set[str]) -> set[str]:
    """Variables that are read before they are set; `known` gets those that surely are set."""
    found: set[str] = set()
    for s in body:
        found |= _names(nodes_of(s)) - known
        if isinstance(s, ir.Set):
            known.add(s.name)
        elif isinstance(s, ir.If):
            either, other = set(known), set(known)
            found |= _exposed(s.then, either) | _exposed(s.otherwise, other)
            known |= either & other
        elif isinstance(s, ir.Loop):
            found |= _exposed(s.body, known | {s.name})
        else:
            for part in parts_of(s):
                found |= _exposed(part, set(known))
    return found


# loops ---------------------------------------------------------------------------------------------------------------


def _folds(loop: ir.Loop) -> dict[str, str]:
    """Variables that turns change by one combining operation each, and read for nothing else."""
    made: dict[str, str] = {}
    refused: set[str] = set()
    for s in walk(loop.body):
        own = ""
        if isinstance(s, ir.Set) and s.value.op in _FOLDS and s.value.data != "ordered":
            a, b = s.value.args
            sides = (a,) if s.value.op == "sub" else (a, b)
            if any(side.op == "var" and side.data == s.name for side in sides):
                other = b if a.op == "var" and a.data == s.name else a
                if s.name not in _names([other]):
                    own = s.name
                    how = _FOLDS[s.value.op]
                    refused |= {own} if made.setdefault(own, how) != how else set()
        read = _names(nodes_of(s)) - ({own} if own else set())
        refused |= read
        if isinstance(s, (ir.Set, ir.Loop)) and not own:
            refused.add(s.name)
    return {name: how for name, how in made.items() if name not in refused}


def _resolved(node: Node, values: Mapping[str, Node]) -> Node:
    """An expression of what the variables it names were set to."""
    if node.op == "var":
        return _resolved(values[node.data], values) if node.data in values else node
    return Node(node.op, node.type, tuple([_resolved(a, values) for a in node.args]), node.data)


def _values(body: Sequence[Any]) -> dict[str, Node]:
    """What the variables were set to that are set once, and not in terms of themselves."""
    counts: dict[str, int] = {}
    made: dict[str, Node] = {}
    for s in walk(body):
        if isinstance(s, (ir.Set, ir.Loop)):
            counts[s.name] = counts.get(s.name, 0) + 1
        if isinstance(s, ir.Set) and s.name not in _names([s.value]):
            made[s.name] = s.value
    return {name: value for name, value in made.items() if counts[name] == 1}


def _counted(node: Node, name: str, changing: set[str]) -> Node | None:
    """What is left of an index without the addends that are the same for all turns; None if a turn's number is not."""
    while node.op in ("add", "sub"):
        a, b = node.args
        if not _names([b]) & changing:
            node = a
        elif node.op == "add" and not _names([a]) & changing:
            node = b
        else:
            return None
    return node if name in _names([node]) else None


def is_own(index: Sequence[Node], loop: ir.Loop, changing: set[str]) -> bool:
    """Whether each turn has an element of its own: by its number, or by quotient and rest of that."""
    cores = [core for i in index if (core := _counted(i, loop.name, changing)) is not None]
    if any(core.op == "var" and core.data == loop.name for core in cores):
        return True
    halves = {core.op: repr(core.args[1]) for core in cores if core.op in ("floordiv", "mod")
              and core.args[0].op == "var" and core.args[0].data == loop.name}
    return len(halves) == 2 and halves["floordiv"] == halves["mod"]


def folds_of(loop: ir.Loop) -> dict[str, str] | None:
    """The folds of a loop that may be dealt out; None for one that may not.

    An inner loop that says `parallel` is believed; others must not read what another of their turns writes.
    """
    if loop.step.op != "const" or loop.step.data != 1:
        return None
    folds = _folds(loop)
    if _exposed(loop.body, {loop.name}) & _set_in(loop.body) - folds.keys():
        return None
    within = {id(s) for inner in walk(loop.body) if isinstance(inner, (ir.Loop, ir.While)) for part in parts_of(inner)
              for s in walk(part)}
    for s in walk(loop.body):  # what leaves the loop itself
        if isinstance(s, ir.Leave) and not s.turn and id(s) not in within or isinstance(s, (ir.Exit, ir.Poke)):
            return None
    if loop.work is not None:
        return folds
    values, changing = _values(loop.body), _set_in(loop.body) | {loop.name}
    stored: dict[str, str] = {}
    for s in walk(loop.body):
        if isinstance(s, ir.Store) and s.combine is None:
            index = [_resolved(i, values) for i in s.index]
            if not is_own(index, loop, changing) and s.value.op != "const":
                return None
            if stored.setdefault(s.array.name, repr(index)) != repr(index):
                return None
        elif isinstance(s, ir.Store):
            stored[s.array.name] = ""
    for s in walk(loop.body):
        for load in _loads(nodes_of(s)):
            own = stored.get(load.data.name)
            if own is not None and own != repr([_resolved(i, values) for i in load.args]):
                return None
    return folds


_SUMMED = frozenset(("f32", "f64", "i32", "i64", "u32", "u64"))  # what devices add to memory at once


def with_atomics(body: Sequence[Any]) -> list:
    """Statements whose arrays that are only added to may be added to by several turns."""
    adding: dict[int, Node] = {}
    others: set[str] = set()
    for s in walk(body):
        own = None
        if isinstance(s, ir.Store) and s.combine is None and s.value.op == "add" and s.value.data != "ordered":
            own = next((a for a in s.value.args if _without_casts(a).op == "load"
                        and repr(_without_casts(a)) == repr(Node("load", s.array.type, tuple(s.index), s.array))), None)
        if own is not None and s.array.type in _SUMMED and not s.array.length:
            a, b = s.value.args
            adding[id(s)] = b if own is a else a
            others |= {load.data.name for load in _loads([*s.index, adding[id(s)]])}
            continue
        others |= {load.data.name for load in _loads(nodes_of(s))}
        if isinstance(s, ir.Store) and s.combine is None:
            others.add(s.array.name)

    def changed(body: Sequence[Any]) -> list:
        made: list = []
        for s in body:
            if id(s) in adding and s.array.name not in others:
                made.append(ir.Store(s.array, s.index, adding[id(s)], "add"))
            elif isinstance(s, ir.If):
                made.append(ir.If(s.condition, changed(s.then), changed(s.otherwise)))
            elif isinstance(s, ir.While):
                made.append(ir.While(changed(s.test), s.condition, changed(s.body)))
            elif isinstance(s, (ir.Loop, ir.Block)):
                made.append(dataclasses.replace(s, body=changed(s.body)))
            else:
                made.append(s)
        return made

    return changed(body)


def _without_casts(node: Node) -> Node:
    while node.op == "cast":
        node = node.args[0]
    return node


# turns ---------------------------------------------------------------------------------------------------------------


class _Team:
    """Rewrites a turn: loops dealt out, stores by the first lane, meetings where memory was written."""

    def __init__(self, body: Sequence[Any]) -> None:
        self.dealt = 0
        self.held: dict[str, int] = {}
        self.chosen: dict[int, dict[str, str]] = {}
        self._choose(body)
        if not self.chosen:
            raise NotShared
        self.free = self._free(body)
        self.read: set[str] = set()  # arrays, since the team met last
        self.written: set[str] = set()
        self.by_first: set[str] = set()

    def _choose(self, body: Sequence[Any]) -> bool:
        """Chooses the loops to deal out; whether there are any."""
        found = False
        for s in body:
            inner = [self._choose(part) for part in parts_of(s)]
            if isinstance(s, ir.Loop) and not any(inner) and not _is_short(s):
                folds = folds_of(s)
                if folds is not None:
                    self.chosen[id(s)] = folds
                    inner.append(True)
            found |= any(inner)
        return found

    def _free(self, body: Sequence[Any]) -> set[str]:
        """Arrays that no lane writes where another one reads or writes."""
        forms: dict[str, set[str | None]] = {}
        stored: set[str] = set()

        def look(body: Sequence[Any], loop: ir.Loop | None, loops: set[str], values: Mapping[str, Node]) -> None:
            for s in body:
                own = s if loop is None and id(s) in self.chosen else loop
                known = _values(s.body) if own is not None and own is s else values
                for load in _loads(nodes_of(s)):
                    note(load.data, load.args, loop, loops, values)
                if isinstance(s, ir.Store):
                    note(s.array, s.index, loop, loops, values)
                    stored.add(s.array.name)
                outer = loops | _set_in([s]) if isinstance(s, (ir.Loop, ir.While)) and own is None else loops
                for part in parts_of(s):
                    look(part, own, outer, known)

        def note(array: Any, index: Sequence[Node], loop: ir.Loop | None, loops: set[str],
                 values: Mapping[str, Node]) -> None:
            form = None
            if loop is not None:
                index = [_resolved(i, values) for i in index]
                form = _form(index, loop, loops)
            if array.length:
                if form != "own":
                    raise NotShared
                self.held[array.name] = array.length
            forms.setdefault(array.name, set()).add(form)

        look(body, None, set(), {})
        return {name for name, found in forms.items() if name not in stored or len(found) == 1 and None not in found}

    # one statement after the other -----------------------------------------------------------------------------

    def statements(self, body: Sequence[Any], live: set[str]) -> list:
        made: list = []
        for i, s in enumerate(body):
            self._statement(made, s, _exposed(body[i + 1 :], set()) | live)
        return made

    def _meet(self, made: list) -> None:
        made.append(Meet())
        self.read, self.written, self.by_first = set(), set(), set()

    def _reads(self, made: list, nodes: Iterable[Node]) -> None:
        names = {load.data.name for load in _loads(nodes)} - self.free
        if names & (self.written | self.by_first):
            self._meet(made)
        self.read |= names

    def _statement(self, made: list, s: Any, live: set[str]) -> None:
        if isinstance(s, ir.Set):
            self._reads(made, nodes_of(s))
            made.append(s)
        elif isinstance(s, ir.Store):
            own = {load.data.name for load in _loads(nodes_of(s))} - self.free
            if own & self.written or s.array.name in self.read | self.written:
                self._meet(made)
            self.by_first |= {s.array.name} - self.free
            self.read |= own
            made.append(First([s]))
        elif id(s) in self.chosen:
            self._deal(made, s, live)
        elif isinstance(s, ir.If):
            self._reads(made, nodes_of(s))
            before = self.read, self.written, self.by_first
            sides, ends = [], []
            for part in (s.then, s.otherwise):
                self.read, self.written, self.by_first = (set(names) for names in before)
                sides.append(self.statements(part, live))
                ends.append((self.read, self.written, self.by_first))
            self.read, self.written, self.by_first = (a | b for a, b in zip(*ends, strict=True))
            made.append(ir.If(s.condition, *sides))
        elif isinstance(s, (ir.Loop, ir.While)):
            if isinstance(s, ir.Loop):
                self._reads(made, nodes_of(s))
            self._assume(s)
            again = live | _exposed(s.body, set()) | (_exposed(s.test, set()) | _names([s.condition])
                                                      if isinstance(s, ir.While) else set())
            if isinstance(s, ir.While):
                test = self.statements(s.test, again)
                self._reads(test, [s.condition])
                made.append(ir.While(test, s.condition, self.statements(s.body, again)))
            else:
                made.append(dataclasses.replace(s, body=self.statements(s.body, again)))
            self._assume(s)
        elif isinstance(s, ir.Block):
            made.append(ir.Block(s.name, self.statements(s.body, live)))
            self._assume(s)
        elif isinstance(s, (ir.Leave, ir.Exit)):
            made.append(s)
        else:
            raise NotShared

    def _assume(self, s: Any) -> None:
        """What may have been read and written somewhere within a statement."""
        for inner in walk([s]):
            self.read |= {load.data.name for load in _loads(nodes_of(inner))} - self.free
            if isinstance(inner, ir.Store):
                self.written |= {inner.array.name} - self.free

    def _deal(self, made: list, s: ir.Loop, live: set[str]) -> None:
        folds = self.chosen[id(s)]
        if _set_in([s]) - folds.keys() & live:  # what the last turn leaves, one lane alone would know
            raise NotShared
        reads = {load.data.name for inner in walk([s]) for load in _loads(nodes_of(inner))} - self.free
        writes = {inner.array.name for inner in walk(s.body) if isinstance(inner, ir.Store)} - self.free
        if reads & (self.written | self.by_first) or writes & (self.read | self.written | self.by_first):
            self._meet(made)
        self.read |= reads
        self.written |= writes
        self.dealt += 1
        made.append(Dealt(s.name, s.start, s.stop, s.step, s.body, None, folds))


def _is_short(loop: ir.Loop) -> bool:
    return loop.start.op == loop.stop.op == "const" and loop.stop.data - loop.start.data < 8


def _form(index: Sequence[Node], loop: ir.Loop, loops: set[str]) -> str | None:
    """How a lane's elements are counted: "own" by the turn's number alone; None where another lane's may be met.

    Numbers of loops around may only stand beside the turn's as multiples of sizes, as rows do.
    """
    changing = _set_in(loop.body) | {loop.name}
    if len(index) == 1 and index[0].op == "var" and index[0].data == loop.name:
        return "own"
    if not is_own(index, loop, changing):
        return None
    if any(n.op == "var" and n.data in changing - {loop.name} for i in index for n in i.walk()):
        return None
    for i in index:
        if loop.name in _names([i]) and _addends(i) & loops:
            return None
    text = repr(tuple(index))
    return text.replace(f"{loop.name}:", "@:")


def _addends(node: Node) -> set[str]:
    """Variables that are added as they are, or multiplied by numbers that are written out."""
    if node.op == "var":
        return {node.data}
    if node.op in ("add", "sub"):
        return _addends(node.args[0]) | _addends(node.args[1])
    if node.op == "mul" and any(a.op == "const" for a in node.args):
        return _addends(node.args[0]) | _addends(node.args[1])
    return set()


def shared(made: ir.Kernel) -> Shared:
    """The kernel with its turns in teams; NotShared where that cannot be, or makes nothing quicker."""
    at = next((i for i, s in enumerate(made.body) if isinstance(s, ir.Loop) and s.work is not None), None)
    if at is None:
        team = _Team(made.body)
        body = team.statements(made.body, set())
    else:
        loop = made.body[at]
        if made.body[at + 1 :]:
            raise NotShared
        team = _Team(loop.body)
        body = [*made.body[:at], dataclasses.replace(loop, body=team.statements(loop.body, set()))]
    return Shared(ir.Kernel(made.name, made.arrays, made.numbers, body, made.variables), team.held)
