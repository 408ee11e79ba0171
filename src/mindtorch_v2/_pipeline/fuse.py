"""Kernels of groups: the expressions of several pointwise entries in one loop over elements."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.geometry import collapsed, contiguous_strides
from .._core.planning import plans
from .._kernels import ir
from .._kernels.ir import Array, Node, cast, const
from .._kernels.pointwise import CHUNK, _placed, cost, in_row, loop_over_rows, number, var, whole
from .fetches import Fetches, wrong_statements
from .trace import Layout

HALVES = ("f16", "bf16")
_CHEAP = 4  # what is rather computed twice than kept
# Functions that wait for each other leave a processor idle, unless it has several elements to compute: in rows that are
# long, so that few elements are left over.
_INTERLEAVED, _COSTLY, LONG = 4, 12, 256
_LETTERS = {1: "1", 0: "0", -1: "r"}  # how elements follow each other in rows, by steps; others "s"


class Operand(NamedTuple):
    """An array of a kernel: the layout in which it is looked at, and where that begins in the array given, in bytes."""

    name: str
    layout: Layout
    offset: int


class Fold(NamedTuple):
    """A value of a row: the "sum", "mean" or "max" of another value's elements, or the "top", where NaN may be lost."""

    name: str
    source: str
    kind: str


class Body:
    """What a kernel does with one element, and with rows of them where it folds: values by name, each computed once."""

    def __init__(self) -> None:
        self._parts: list[Any] = []  # what statements are made of: themselves, or an expression and what it is given
        self._made: list[Any] = []
        self._key: list[tuple] = []
        self.rows: set[str] = set()  # the values that a row has one of
        self.types: dict[str, str] = {}
        self.numbers: dict[str, str] = {}
        self.sources: dict[str, str] = {}  # arrays that gather maps load from, by name: the types of their elements
        self.places: list[int] = []  # the dimensions in which they look at the index of an element
        self.words = 0  # how many numbers they are told
        self.maps: list[Node] = []  # the values that they give
        self.wrong: list[Node] = []  # when an index is out of range
        self.cuts: list[Node] = []  # tests of a place at which rows may be parted
        self.cost = 0

    @property
    def key(self) -> tuple:
        """Equal for bodies that compute the same, as long as the expressions of one of them are kept."""
        return (*self._key, *[node.key() for node in self.cuts])

    @property
    def statements(self) -> list[Any]:
        """The values in order, ir.Set or Fold; made when a kernel is, which most bodies have in common."""
        for part in self._parts[len(self._made) :]:
            self._made.append(self._computed(*part) if part.__class__ is tuple else part)
        return self._made

    def held(self, name: str) -> Node:
        """A value that was computed or loaded."""
        return Node("var", self.types[name], (), name)

    def compute(self, name: str, expression: Any, operands: dict[int, str], numbers: dict[int, Any], kind: str) -> None:
        """Adds a value of type `kind`: an expression of held values and of numbers, given or named."""
        for i, letter in expression.numbers.items():
            if isinstance(numbers[i], str):
                self.numbers[numbers[i]] = letter
        self._parts.append((name, expression, operands, numbers, kind))
        self._key.append((name, id(expression), *operands.items(), repr(numbers), kind))
        self.cost += cost_of(expression)
        self.types[name] = "f32" if kind in HALVES else kind

    def _computed(self, name: str, expression: Any, operands: dict[int, str], numbers: dict[int, Any],
                  kind: str) -> ir.Set:  # fmt: skip
        own = ir.TYPES[expression.kind.name]
        placed = {f"t{i}": cast(self.held(operand), own) for i, operand in operands.items()}
        for i, letter in expression.numbers.items():
            value = numbers[i]
            if isinstance(value, str):
                placed[f"n{i}"] = Node("arg", letter, (), value)
            else:
                placed[f"n{i}"] = const(float(value) if letter == "f64" else int(value), letter)
        value = cast(_placed(expression.node, placed), kind)
        return ir.Set(name, cast(value, "f32") if kind in HALVES else value)  # rounded as if it had been stored

    def fold(self, name: str, source: str, kind: str) -> Node:
        """Adds a value that a row has one of."""
        self._parts.append(Fold(name, source, kind))
        self._key.append((name, source, kind))
        self.types[name] = self.types[source]
        self.rows.add(name)
        return self.held(name)

    def hold(self, name: str, value: Node) -> Node:
        """Adds a value: one of a row if it is made of such."""
        self._parts.append(ir.Set(name, value))
        self._key.append((name, value.key()))
        self.types[name] = value.type
        self.cost += cost(value)
        if all(used in self.rows for used in _used(value)):
            self.rows.add(name)
        return self.held(name)

    def gather(self, name: str, value: Node) -> None:
        """Adds a value that a gather map loads: see fetches.py."""
        self._parts.append(ir.Set(name, value))
        self._key.append((name, value.key()))
        self.maps.append(value)
        self.types[name] = value.type
        self.cost += cost(value)
        self._look(value)

    def refuse(self, wrong: Node) -> None:
        """Notes when an index of a gather map is wrong."""
        self.wrong.append(wrong)
        self._key.append(("wrong", wrong.key()))
        self._look(wrong)

    def _look(self, node: Node) -> None:
        """Notes the places that an expression looks at."""
        self.places = list(dict.fromkeys([*self.places, *(n.data for n in node.walk() if n.op == "place")]))

    def rounded(self, name: str, made: str, kind: str | None) -> str:
        """The name of a value as an array of a type holds it, which is added if that is another."""
        if kind in HALVES:
            self.hold(name, cast(cast(self.held(made), kind), "f32"))
        return name if kind in HALVES else made

    def load(self, name: str, kind: str) -> None:
        """Adds a value that comes out of memory."""
        self._key.append((name, kind))
        self.types[name] = "f32" if kind in HALVES else kind


def cost_of(expression: Any) -> int:
    """What an expression costs, counted once."""
    if expression.cost is None:
        expression.cost = cost(expression.node)
    return expression.cost


_MOST_KERNELS = 1024
_kernels: dict[tuple, tuple[ir.Kernel, Body]] = {}  # the body, since its expressions are known by their identity
plans.append(_kernels)


def _shared(key: tuple, body: Body, make: Callable[[], ir.Kernel]) -> ir.Kernel:
    """The one kernel of bodies that compute the same from arrays that lie alike: it knows no sizes."""
    known = _kernels.get(key)
    if known is None:
        if len(_kernels) >= _MOST_KERNELS:
            _kernels.clear()
        known = _kernels[key] = make(), body
    return known[0]


def geometry(shape: Sequence[int], operands: Sequence[Operand], outs: int) -> tuple[np.ndarray, str]:
    """What the kernel wants to know of the arrays, and how elements of each follow each other in rows.

    The first `outs` operands are written.
    """
    spread = []
    for operand in operands:
        layout = operand.layout
        pad = len(shape) - layout.ndim
        spread.append((0,) * pad + tuple([s if n != 1 else 0 for n, s in zip(layout.shape, layout.strides)]))
    own = spread[0] if outs else ()
    order = sorted(range(len(shape)), key=lambda d: (own[d] if own else 0, -d))
    sizes, steps = collapsed(order, shape, spread)
    length, rest = sizes[0], sizes[1:]
    chunks = -(-length // CHUNK)
    turns = chunks
    for n in rest:
        turns *= n
    letters = []
    for operand, strides in zip(operands, steps, strict=True):
        step = strides[0]
        letters.append(_LETTERS.get(step // operand.layout.dtype.itemsize, "s"))
    outer = [v for d in range(1, len(sizes)) for v in (sizes[d], *(own[d] for own in steps))]
    words = [length, chunks, len(rest), turns, *(own[0] for own in steps), *(o.offset for o in operands), *outer]
    return np.array(words, np.int64), "".join(letters)


def run_of(layout: Layout, shape: Sequence[int], stay: int) -> bool:
    """Whether the last dimensions of a shape that a layout broadcasts to are one for it: in order, or one element."""
    pad = len(shape) - layout.ndim
    steps = (0,) * pad + tuple([s if n != 1 else 0 for n, s in zip(layout.shape, layout.strides)])
    if not any(steps[stay:]):
        return True
    wanted = contiguous_strides(tuple(shape[stay:]), layout.dtype.itemsize)
    return all(s == w or n == 1 for s, w, n in zip(steps[stay:], wanted, shape[stay:], strict=True))


def in_rows(operand: Operand, shape: Sequence[int], stay: int) -> Operand:
    """An operand with the last dimensions as one: see run_of."""
    layout = operand.layout
    pad = len(shape) - layout.ndim
    steps = (0,) * pad + tuple([s if n != 1 else 0 for n, s in zip(layout.shape, layout.strides)])
    last = layout.dtype.itemsize if any(steps[stay:]) else 0
    flat = (*shape[:stay], math.prod(shape[stay:]))
    return operand._replace(layout=Layout(flat, (*steps[:stay], last), layout.dtype, layout.device))


def row_geometry(shape: Sequence[int], operands: Sequence[Operand]) -> tuple[np.ndarray, str]:
    """As `geometry`, with turns that lie within rows, which are the last dimension, in the order of the others."""
    steps = [[o.layout.strides[-1]] for o in operands]
    sizes, rest = collapsed(range(len(shape) - 2, -1, -1), shape, [o.layout.strides for o in operands])
    chunks = -(-shape[-1] // CHUNK)
    letters = ["1" if own[0] == o.layout.dtype.itemsize else "0" if not own[0] else "s"
               for own, o in zip(steps, operands, strict=True)]  # fmt: skip
    outer = [v for d in range(len(sizes)) for v in (sizes[d], *(own[d] for own in rest))]
    words = [shape[-1], chunks, len(sizes), chunks * math.prod(sizes), *(own[0] for own in steps),
             *(o.offset for o in operands), *outer]  # fmt: skip
    return np.array(words, np.int64), "".join(letters)


def _ordered(node: Node, known: dict[int, Node]) -> Node:
    """An expression whose sums are taken as they stand."""
    made = known.get(id(node))
    if made is None:
        data = "ordered" if node.op in ("add", "sub", "mul") and node.data is None else node.data
        made = known[id(node)] = Node(node.op, node.type, tuple([_ordered(a, known) for a in node.args]), data)
    return made


def kernel(
    body: Body,
    operands: Sequence[Operand],
    stored: Sequence[str],
    loaded: Sequence[str],
    letters: str,
    sums: Sequence[str] = (),
    length: int = 0,
    shared: frozenset[int] = frozenset(),
) -> ir.Kernel:
    """One loop over all elements: `stored` names the values of the first operands, `loaded` those of the others.

    Of the values in `sums`, arrays that follow the operands get the sum of each turn. `length` is that of a row.
    `shared` are the operands that may lie on memory of others of them, which are read there before they are written.
    """
    interleaved = _INTERLEAVED if body.cost >= _COSTLY and length >= LONG and not sums and not body.sources else 0
    types = [_type(operand) for operand in operands]
    key = body.key, *types, *stored, *loaded, letters, len(stored), *sums, interleaved, shared
    return _shared(key, body, lambda: _kernel(body, types, stored, loaded, letters, sums, interleaved, shared))


def _kernel(body: Body, types: Sequence[str], stored: Sequence[str], loaded: Sequence[str], letters: str,
            sums: Sequence[str], interleaved: int, shared: frozenset[int]) -> ir.Kernel:  # fmt: skip
    arrays = _arrays(body, types, shared)
    partial = [Array(f"sums{k}", body.types[name], 1, "raw") for k, name in enumerate(sums)]
    known = Array("geometry", "i64", 1, "c")
    outs = len(stored)
    fetches = Fetches(body, arrays, letters, known, outs + len(loaded))
    loads: list[Any] = [
        ir.Set(name, cast(Node("load", arrays[k].type, (in_row(arrays, letters, k),), arrays[k]), body.types[name]))
        for k, name in enumerate(loaded, outs)
    ]
    known_nodes: dict[int, Node] = {}
    stores: list[Any] = [ir.Set(f"total{k}", Node("add", body.types[name], (
        Node("var", body.types[name], (), f"total{k}"), body.held(name)))) for k, name in enumerate(sums)]  # fmt: skip
    stores += [ir.Store(arrays[k], (in_row(arrays, letters, k),), body.held(name)) for k, name in enumerate(stored)]
    before = [ir.Set(f"total{k}", const(0.0, a.type)) for k, a in enumerate(partial)]
    after = [ir.Store(a, (whole("mul", var("turn"), number(ir.SIZES[a.type])),), Node("var", a.type, (), f"total{k}"))
             for k, a in enumerate(partial)]  # fmt: skip
    flags = [FLAG] if body.wrong else []
    looks, each, tells = wrong_statements(fetches, body, FLAG) if flags else ([], [[] for _ in fetches.ends], [])
    parts = []
    for part in fetches.parts():
        inner = [*loads, *each[part]]
        for one in body.statements:
            value = fetches.resolved(one.value) if body.sources else one.value
            inner.append(ir.Set(one.name, _ordered(value, known_nodes) if sums else value))
        parts.append([*inner, *stores])
    statements, variables = loop_over_rows(
        arrays, known, letters, parts[-1], max(body.cost, 1), begins=True,
        before=[*fetches.before, *before, *looks, *fetches.loops(parts)], after=[*after, *tells],
        interleaved=interleaved, start=fetches.starts[-1],
    )  # fmt: skip
    variables |= body.types | {f"total{k}": a.type for k, a in enumerate(partial)} | fetches.variables
    numbers = list(body.numbers.items())
    given = [*arrays[: len(arrays) - len(body.places)], *partial, *flags, known]
    return ir.Kernel("sums" if sums else "group", given, numbers, statements, variables)


FLAG = Array("flag", "i64", 1, "c")  # where a kernel tells of an index that is out of range


def _arrays(body: Body, types: Sequence[str], shared: frozenset[int] = frozenset()) -> list[Array]:
    """The arrays of a kernel's geometry, of which the last are the places that gather maps look at."""
    kinds = [*types, *["i8"] * len(body.places)]
    return [Array(f"a{k}", kind, 1, "raw", shared=k in shared) for k, kind in enumerate(kinds)]


def _used(node: Node) -> set[str]:
    """The values in an expression."""
    return {one.data for one in node.walk() if one.op == "var"}


class _Rows:
    """Writes a kernel of rows down: a loop over the elements of a row for each stage, values of the row between them.

    A value belongs to the first stage in which all that it is made of is known: a fold is known after the stage of
    what it folds. What a later stage needs again is loaded again, from where it was stored, or computed again.
    """

    def __init__(self, body: Body, arrays: Sequence[Array], letters: str, stored: Sequence[str],
                 loaded: Sequence[str], fetches: Fetches) -> None:  # fmt: skip
        self.fetches = fetches
        self.body, self.arrays, self.letters, self.stored = body, arrays, letters, list(stored)
        self.loads = {name: self._load(k, body.types[name]) for k, name in enumerate(loaded, len(stored))}
        self.sets = {one.name: one for one in body.statements}
        self.stage = dict.fromkeys(self.loads, 0)
        for one in body.statements:
            if one.__class__ is Fold:
                self.stage[one.name] = self.stage[one.source] + 1
            else:
                self.stage[one.name] = max([self.stage[used] for used in _used(one.value)], default=0)
        self.folds = [one for one in body.statements if one.__class__ is Fold]
        elements = [one.source for one in self.folds] + [name for name in self.stored if name not in body.rows]
        self.count = 1 + max(self.stage[name] for name in elements)
        self.known: dict[int, Node] = {}
        self.kept = {name: k for k, name in enumerate(self.stored)}  # where values that later stages need are
        needed = [(name, stage) for stage in range(self.count) for name in self._needed(stage)]
        for name, stage in dict(needed).items():  # the last stage of each
            again = self.stage[name] < stage and name in self.sets and name in self._needed(self.stage[name])
            if again and cost(self.sets[name].value) > _CHEAP:
                self._keep(name, stage)

    def _keep(self, name: str, stage: int) -> None:
        """Keeps a value that costs much, up to a stage, where a result will be that comes later."""
        for k, other in enumerate(self.stored):
            free = list(self.kept.values()).count(k) == 1 and other not in self.body.rows and self.stage[other] >= stage
            if free and name not in self.kept and self.arrays[k].type == self.body.types[name]:
                self.kept[name] = k

    def _load(self, k: int, kind: str) -> Node:
        return cast(Node("load", self.arrays[k].type, (in_row(self.arrays, self.letters, k),), self.arrays[k]), kind)

    def _store(self, k: int, name: str) -> ir.Store:
        return ir.Store(self.arrays[k], (in_row(self.arrays, self.letters, k),), self.body.held(name))

    def _wanted(self, stage: int) -> list[str]:
        names = [one.source for one in self.folds if self.stage[one.source] == stage]
        return names + [n for n in self.stored if n not in self.body.rows and self.stage[n] == stage]

    def _needed(self, stage: int) -> list[str]:
        """The values that a stage computes or loads, in order."""
        found: list[str] = []

        def need(name: str) -> None:
            if name in found or name in self.body.rows:
                return
            if name in self.sets and not self._is_kept(name, stage):
                for used in sorted(_used(self.sets[name].value)):
                    need(used)
            found.append(name)

        for name in self._wanted(stage):
            need(name)
        return found

    def _is_kept(self, name: str, stage: int) -> bool:
        return self.stage[name] < stage and name in self.kept

    def _computed(self, name: str, stage: int) -> Node:
        if name in self.loads:
            return self.loads[name]
        if self._is_kept(name, stage):
            return self._load(self.kept[name], self.body.types[name])
        return _ordered(self.fetches.resolved(self.sets[name].value), self.known)

    def loop(self, stage: int) -> list[Any]:
        """What a stage does with an element."""
        made: list[Any] = [ir.Set(name, self._computed(name, stage)) for name in self._needed(stage)]
        made += [self._store(self.kept[name], name) for name in self._needed(stage)
                 if name in self.kept and name not in self.stored and self.stage[name] == stage]  # fmt: skip
        for one in self.folds:
            if self.stage[one.source] == stage:
                kind, value = self.body.types[one.name], self.body.held(one.source)
                total = Node("var", kind, (), f"total_{one.name}")
                op = "add" if one.kind in ("sum", "mean") else "larger"
                made.append(ir.Set(f"total_{one.name}", Node(op, kind, (total, value))))
                if one.kind == "max":
                    found = Node("var", "bool", (), f"nan_{one.name}"), Node("ne", "bool", (value, value))
                    made.append(ir.Set(f"nan_{one.name}", Node("or", "bool", found)))
        return made + [self._store(k, name) for k, name in enumerate(self.stored)
                       if name not in self.body.rows and self.stage[name] == stage]  # fmt: skip

    def before(self, stage: int) -> list[Any]:
        """What a stage begins with."""
        own = [one for one in self.folds if self.stage[one.source] == stage]
        made = [ir.Set(f"total_{one.name}", const(0.0 if one.kind in ("sum", "mean") else -math.inf,
                                                  self.body.types[one.name])) for one in own]  # fmt: skip
        return made + [ir.Set(f"nan_{one.name}", const(False, "bool")) for one in own if one.kind == "max"]

    def after(self, stage: int) -> list[Any]:
        """The values of the row that are known after a stage."""
        made: list[Any] = []
        for one in self.body.statements:
            if one.name not in self.body.rows or self.stage[one.name] != stage + 1:
                continue
            if one.__class__ is not Fold:
                made.append(ir.Set(one.name, _ordered(one.value, self.known)))
                continue
            kind = self.body.types[one.name]
            total = Node("var", kind, (), f"total_{one.name}")
            if one.kind == "mean":
                total = Node("div", kind, (total, cast(var("length"), kind)))
            elif one.kind == "max":
                total = Node("select", kind, (Node("var", "bool", (), f"nan_{one.name}"), const(math.nan, kind), total))
            made.append(ir.Set(one.name, total))
        return made


def row_kernel(
    body: Body, operands: Sequence[Operand], stored: Sequence[str], loaded: Sequence[str], letters: str
) -> ir.Kernel:
    """As `kernel`, for a body with values of rows; a turn is a row."""
    types = [_type(operand) for operand in operands]
    key = "rows", body.key, *types, *stored, *loaded, letters, len(stored)
    return _shared(key, body, lambda: _row_kernel(body, types, stored, loaded, letters))


def _row_kernel(
    body: Body, types: Sequence[str], stored: Sequence[str], loaded: Sequence[str], letters: str
) -> ir.Kernel:
    arrays = _arrays(body, types)
    known = Array("geometry", "i64", 1, "c")
    fetches = Fetches(body, arrays, letters, known, len(stored) + len(loaded))
    rows = _Rows(body, arrays, letters, stored, loaded, fetches)
    flags = [FLAG] if body.wrong else []
    before, each, tells = wrong_statements(fetches, body, FLAG) if flags else ([], [[] for _ in fetches.ends], [])
    last = rows.count - 1
    for stage in range(rows.count):
        parts = [[*(each[part] if not stage else ()), *rows.loop(stage)] for part in fetches.parts()]
        before += rows.before(stage) + fetches.loops(parts)
        if stage < last:
            before.append(ir.Loop("j", fetches.starts[-1], var("last"), number(1), parts[-1]))
            before += rows.after(stage)
    after = [*rows.after(last), *tells]
    after += [ir.Store(arrays[k], (in_row(arrays, letters, k),), body.held(name)) for k, name in enumerate(stored)
              if name in body.rows]  # fmt: skip
    statements, variables = loop_over_rows(
        arrays, known, letters, parts[-1], max(body.cost, 1), begins=True, before=[*fetches.before, *before],
        after=after, start=fetches.starts[-1],
    )  # fmt: skip
    variables |= body.types | {f"total_{one.name}": body.types[one.name] for one in rows.folds} | fetches.variables
    variables |= {f"nan_{one.name}": "bool" for one in rows.folds if one.kind == "max"}
    given = [*arrays[: len(arrays) - len(body.places)], *flags, known]
    return ir.Kernel("rows", given, list(body.numbers.items()), statements, variables)


def of_rows(layout: Layout, shape: Sequence[int], stay: int) -> Layout:
    """How values of rows, one after the other in memory, are seen from the elements of the rows."""
    steps = contiguous_strides(tuple(shape[:stay]), layout.dtype.itemsize)
    return Layout((*shape[:stay], math.prod(shape[stay:])), (*steps, 0), layout.dtype, layout.device)


def _type(operand: Operand) -> str:
    kind = ir.type_of(operand.layout.dtype)
    assert kind is not None
    return kind
