"""How a kernel of a group loads what gather maps say: places, words and fetches as the loads of a loop over rows.

Where maps choose by the place in a row, the loop is parted there (`cuts`), so that each part loads neighbours.

`place` is the index of an element in a dimension. A kernel knows it as it knows where an element of an array lies: as
an array of one byte an element, which is never looked at, so that the place in it is the index. `word` is a number that
a kernel is told with the sizes of its arrays. `fetch` loads from a source, so many bytes further, where a condition
holds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from .._kernels import ir
from .._kernels.ir import Array, Node, const
from .._kernels.pointwise import cost, in_row, number, var, whole

_SMALL = range(-1, 9)  # numbers that a kernel may know: it divides by them more quickly


class Fixed(int):
    """A number that a kernel is to know, whatever it is."""


NEVER, ALWAYS = const(0, "i64"), const(True, "bool")


def fetch(kind: str, source: str, further: Node, condition: Node | None) -> Node:
    """An element of a source."""
    return Node("fetch", kind, (further, ALWAYS if condition is None else condition), source)


def lifted(node: Node, words: list[int], known: dict[int, Node]) -> Node:
    """An expression with words in the place of whole numbers that follow from sizes."""
    made = known.get(id(node))
    if made is None:
        if node.op == "const" and node.type == "i64" and node.data not in _SMALL and node.data.__class__ is not Fixed:
            if node.data not in words:
                words.append(node.data)
            made = Node("word", "i64", (), words.index(node.data))
        elif node.args:
            made = Node(node.op, node.type, tuple([lifted(a, words, known) for a in node.args]), node.data)
        else:
            made = node
        known[id(node)] = made
    return made


_MOST_CUTS = 4
# Additions from which on the elements that are left over at the end of each part cost more than parts save, unless the
# maps cost more still; less for kernels that pass over rows several times.
_COSTLY, _COSTLY_ROWS = 12, 8


def cuts_of(body: Any, words: Sequence[int]) -> list[Node]:
    """The tests of a place by which the maps of a step choose, in the order of where they end to hold.

    Those of one dimension can be cuts of a row: they are known to be in order, or there is one.
    """
    maps = sum([cost(value) for value in body.maps])
    if body.cost - maps >= max(_COSTLY_ROWS if body.rows else _COSTLY, maps):
        return []
    found: dict[tuple, Node] = {}
    for value in body.maps:
        for node in value.walk():
            if node.op == "lt" and node.args[0].op == "place":
                found.setdefault(node.key(), node)
    made: list[Node] = []
    for dimension in {node.args[0].data for node in found.values()}:
        own = [node for node in found.values() if node.args[0].data == dimension]
        ends = [node.args[1] for node in own]
        if all(end.op in ("const", "word") for end in ends):
            own.sort(key=lambda node: words[node.args[1].data] if node.args[1].op == "word" else node.args[1].data)
        elif len(own) > 1:
            continue
        made += own if len(own) <= _MOST_CUTS else []
    return made


class Fetches:
    """The loads of one kernel. `before` is what a turn does once: what is the same for all elements of a row."""

    def __init__(self, body: Any, arrays: Sequence[Array], letters: str, geometry: Array, sources: int) -> None:
        """The body's sources are the arrays from number `sources` on, and behind them its places."""
        self.arrays, self.letters = arrays, letters
        self.number = {name: k for k, name in enumerate(body.sources, sources)}
        self.dimension = {d: k for k, d in enumerate(body.places, sources + len(body.sources))}
        self.before: list[Any] = []
        self.variables: dict[str, str] = {}
        self._made: dict[tuple[int, int], tuple[Node, Node]] = {}  # with the node, whose id would be another's
        self._same: dict[int, tuple[Node, bool]] = {}
        count = len(arrays)
        behind = whole("add", number(4 + 2 * count), whole("mul", var("rank"), number(1 + count)))
        for k in range(body.words):
            self._set(f"word{k}", Node("load", "i64", (whole("add", behind, number(k)),), geometry))
        self.cuts = [cut for cut in body.cuts
                     if letters[self.dimension[cut.args[0].data]] == "1" and self.is_same(cut.args[1])]  # fmt: skip
        self._cut_keys = [node.key() for node in self.cuts]
        self.part = 0  # the part of a row that is written down now: the first so many tests do not hold there
        self.ends = [self._end(nr, node) for nr, node in enumerate(self.cuts)] + [var("last")]

    def parts(self) -> Iterator[int]:
        """The parts of a row, one after the other: what is resolved meanwhile is for that part."""
        for part in range(len(self.ends)):
            self.part = part
            yield part

    @property
    def starts(self) -> list[Node]:
        """Where the parts of a row begin."""
        return [var("first"), *self.ends[:-1]]

    def loops(self, parts: Sequence[list[Any]]) -> list[ir.Loop]:
        """The loops over all parts of a row but the last."""
        apart = any(array.shared for array in self.arrays)
        return [ir.Loop("j", start, end, number(1), part, apart=apart)
                for start, end, part in zip(self.starts[:-1], self.ends[:-1], parts, strict=False)]  # fmt: skip

    def _end(self, nr: int, cut: Node) -> Node:
        at = var(f"at{self.dimension[cut.args[0].data]}")
        end = whole("sub", self.resolved(cut.args[1]), at)
        return self._set(f"cut{nr}", whole("min", whole("max", end, var("first")), var("last")))

    def _set(self, name: str, value: Node) -> Node:
        self.before.append(ir.Set(name, value))
        self.variables[name] = value.type
        return Node("var", value.type, (), name)

    def is_same(self, node: Node) -> bool:
        """Whether a value is the same for all elements of a row."""
        known = self._same.get(id(node))
        if known is None:
            if node.op == "place":
                same = self.letters[self.dimension[node.data]] == "0"
            elif node.op == "fetch":
                same = self.letters[self.number[node.data]] == "0" and all([self.is_same(a) for a in node.args])
            else:
                same = node.op in ("const", "word", "arg") or bool(node.args) and all(map(self.is_same, node.args))
            known = self._same[id(node)] = node, same
        return known[1]

    def resolved(self, node: Node) -> Node:
        """An expression with loads of arrays, in the part of a row that is written down."""
        known = self._made.get((self.part, id(node)))
        if known is None:
            made = self._resolved(node)
            if made.args and self.is_same(node) and node.type not in ("f16", "bf16"):
                made = self._set(f"same{len(self.before)}", made)
            known = self._made[self.part, id(node)] = node, made
        return known[1]

    def _resolved(self, node: Node) -> Node:
        op = node.op
        if op == "place":
            return in_row(self.arrays, self.letters, self.dimension[node.data])
        if op == "word":
            return var(f"word{node.data}")
        if op == "lt" and self.cuts and node.key() in self._cut_keys:
            return const(self._cut_keys.index(node.key()) >= self.part, "bool")
        if op == "select" or op == "and" or op == "not":
            return self._chosen(node)
        if op != "fetch":
            args = tuple([self.resolved(a) for a in node.args])
            return Node(op, node.type, args, node.data) if args else node
        k = self.number[node.data]
        array, (further, condition) = self.arrays[k], node.args
        holds = self.resolved(condition)
        at = in_row(self.arrays, self.letters, k)
        if further is not NEVER:
            at = whole("add", at, self.resolved(further))
        if holds.op == "const":
            return Node("load", array.type, (at,), array) if holds.data else _zero(array.type)
        return Node("load_if", array.type, (at, holds), array)

    def _chosen(self, node: Node) -> Node:
        """A choice, of which one side may be left, or a condition."""
        first = self.resolved(node.args[0])
        if node.op == "not":
            return const(not first.data, "bool") if first.op == "const" else Node("not", node.type, (first,), node.data)
        if node.op == "select":
            if first.op == "const":
                return self.resolved(node.args[1 if first.data else 2])
            return Node("select", node.type, (first, *[self.resolved(a) for a in node.args[1:]]), node.data)
        second = self.resolved(node.args[1])
        for one, other in ((first, second), (second, first)):
            if node.type == "bool" and one.op == "const":
                return other if one.data else one
        return Node("and", node.type, (first, second), node.data)


def _zero(kind: str) -> Node:
    return const(0.0 if kind in ir.FLOATS else False if kind == "bool" else 0, kind)


def wrong_statements(fetches: Fetches, body: Any, flag: Array) -> tuple[list[Any], list[list[Any]], list[Any]]:
    """What a turn does before its elements, with each of each part, and after them, to tell of wrong indices."""
    found = Node("var", "bool", (), "wrong")
    before: list[Any] = [ir.Set("wrong", const(False, "bool"))]
    each: list[list[Any]] = [[] for _ in fetches.ends]
    for part in fetches.parts():
        for node in body.wrong:
            told = ir.Set("wrong", Node("or", "bool", (found, fetches.resolved(node))))
            if not fetches.is_same(node):
                each[part].append(told)
            elif not part:
                before.append(told)
    fetches.variables["wrong"] = "bool"
    return before, each, [ir.If(found, [ir.Store(flag, (number(0),), number(1))], [])]
