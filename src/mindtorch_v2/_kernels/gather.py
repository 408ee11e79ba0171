"""Gather maps: an element of a result out of elements of the operands, at places that follow from its own.

A declaration says so by `gathers`, a function that is run on symbols: `gathers(g, *args)` has the index of the result's
element in each dimension, `g.at`, and a `Source` for each tensor among the operator's arguments. A vector that is
turned by one place is

    def turned(g, self):
        (i,), (n,) = g.at, self.shape
        return g.chosen(i < 1, lambda: self[i + n - 1], lambda: self[i - 1])

What is on a side of a choice is loaded only where that is chosen. `self[g.where(i < 1, i + n - 1, i - 1)]` is the same
by one load from a place that is computed: loads from places that follow each other are quicker. `g.inner` is the
dimension in which elements of the result lie side by side: loops run along it, and what is computed of the places in
other dimensions is computed once for a row.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .ir import Node, const
from .ir import type_of as kernel_type
from .trace import Program, Symbol, Untraceable, xp

_INT64, _FLOAT32 = np.dtype(np.int64), np.dtype(np.float32)


class Gathering(Program):
    """What a map is written down with: the places, the conditions under which a side is taken, and wrong indices."""

    def __init__(self, places: Sequence[Node], inner: int, condition: Node | None = None) -> None:
        super().__init__(False, None)
        self.at = [Symbol(self, place, _INT64) for place in places]
        self.inner = inner
        self.reads: dict[int, int] = {}  # by the number of an argument: how many elements of it one is made of at most
        self._conditions = [] if condition is None else [condition]
        self.wrong: list[Node] = []

    def condition(self) -> Node | None:
        """What holds where the side is taken that is written down now; None for nothing."""
        made = None
        for one in self._conditions:
            made = one if made is None else Node("and", "bool", (made, one))
        return made

    where, least, most = staticmethod(xp.where), staticmethod(xp.minimum), staticmethod(xp.maximum)
    sqrt, floor = staticmethod(xp.sqrt), xp.floor

    def chosen(self, condition: Any, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
        """What one of two functions gives; a condition that is known now decides at once."""
        if not isinstance(condition, Symbol):
            return first() if condition else second()
        assert condition.node is not None
        sides, before, most = [], self.reads, dict(self.reads)
        for side, holds in ((first, condition.node), (second, Node("not", "bool", (condition.node,)))):
            self._conditions.append(holds)
            self.reads = dict(before)
            sides.append(side())
            most |= {i: max(n, most.get(i, 0)) for i, n in self.reads.items()}
            self._conditions.pop()
        self.reads = most
        return xp.where(condition, *sides)

    def within(self, index: Any, size: int) -> Any:
        """An index that has to be at least 0 and below a size: another is an error of the call, and 0 here."""
        wrong, condition = (index < 0) | (index >= size), self.condition()
        self.wrong.append(wrong.node if condition is None else Node("and", "bool", (condition, wrong.node)))
        return xp.where(wrong, 0, index)

    def wrapped(self, index: Any, size: int) -> Any:
        """The same of one that counts from the end where it is negative."""
        return self.within(xp.where(index < 0, index + size, index), size)


class Source:
    """A tensor that elements are taken from, of an argument: `element(places, condition)` is what gives them."""

    def __init__(self, program: Gathering, argument: int, shape: tuple[int, ...], dtype: np.dtype,
                 element: Callable[[Sequence[Node], Node | None], Node]) -> None:
        self.program, self.argument = program, argument
        self.shape, self.ndim, self.dtype, self._element = shape, len(shape), dtype, element
        self.kind = _FLOAT32 if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype

    def __getitem__(self, places: Any) -> Symbol:
        """The element at a place."""
        nodes = [self.program.operand(place, _INT64) for place in (places if isinstance(places, tuple) else (places,))]
        if len(nodes) != self.ndim:
            raise Untraceable
        self.program.reads[self.argument] = self.program.reads.get(self.argument, 0) + 1
        return Symbol(self.program, self._element(nodes, self.program.condition()), self.kind)

    def index(self, *places: Any) -> Symbol:
        """An element that is an index."""
        return self[places].cast(_INT64)

    def number(self, value: Any) -> Symbol:
        """A number as an element would be."""
        kind = kernel_type(self.kind)
        if kind is None or isinstance(value, complex):
            raise Untraceable
        return Symbol(self.program, const(np.asarray(value).astype(self.dtype).item(), kind), self.kind)


def is_copy(node: Node) -> bool:
    """Whether an expression gives elements as they are."""
    if node.op == "select":
        return is_copy(node.args[1]) and is_copy(node.args[2])
    if node.op == "cast":
        return node.args[0].op == "fetch" and node.args[0].type in ("f16", "bf16")
    return node.op in ("fetch", "const")


class Linear:
    """A place as a sum: of so many times the index in dimensions, a number, and other things, each so many times."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.number = 0
        self.rest: list[tuple[Node, int]] = []

    def add(self, node: Node, times: int = 1) -> "Linear":
        if node.op == "place":
            self.places[node.data] = self.places.get(node.data, 0) + times
        elif node.op == "const":
            self.number += times * int(node.data)
        elif node.op in ("add", "sub"):
            self.add(node.args[0], times)
            self.add(node.args[1], times if node.op == "add" else -times)
        elif node.op == "neg":
            self.add(node.args[0], -times)
        elif node.op == "mul" and "const" in (node.args[0].op, node.args[1].op):
            first, second = node.args if node.args[0].op == "const" else node.args[::-1]
            self.add(second, times * int(first.data))
        else:
            self.rest.append((node, times))
        return self
