"""Kernels of groups: the expressions of several pointwise entries in one loop over elements."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.geometry import collapsed, contiguous_strides
from .._kernels import ir
from .._kernels.ir import Array, Node, cast, const
from .._kernels.pointwise import CHUNK, _placed, cost, in_row, loop_over_rows, number, var, whole
from .trace import Layout

_HALVES = ("f16", "bf16")


class Operand(NamedTuple):
    """An array of a kernel: the layout in which it is looked at, and where that begins in the array given, in bytes."""

    name: str
    layout: Layout
    offset: int


class Body:
    """What a kernel does with one element: values by name, each computed once."""

    def __init__(self) -> None:
        self.statements: list[ir.Set] = []
        self.types: dict[str, str] = {}
        self.numbers: dict[str, str] = {}
        self.cost = 0

    def held(self, name: str) -> Node:
        """A value that was computed or loaded."""
        return Node("var", self.types[name], (), name)

    def compute(self, name: str, expression: Any, operands: dict[int, str], numbers: dict[int, Any], kind: str) -> None:
        """Adds a value of type `kind`: an expression of held values and of numbers, given or named."""
        own = ir.TYPES[expression.kind.name]
        placed = {f"t{i}": cast(self.held(operand), own) for i, operand in operands.items()}
        for i, letter in expression.numbers.items():
            value = numbers[i]
            if isinstance(value, str):
                self.numbers[value] = letter
                placed[f"n{i}"] = Node("arg", letter, (), value)
            else:
                placed[f"n{i}"] = const(float(value) if letter == "f64" else int(value), letter)
        node = _placed(expression.node, placed)
        self.cost += cost(expression.node)
        self._hold(name, cast(node, kind), kind)

    def load(self, name: str, kind: str) -> None:
        """Adds a value that comes out of memory."""
        self.types[name] = "f32" if kind in _HALVES else kind

    def _hold(self, name: str, value: Node, kind: str) -> None:
        if kind in _HALVES:  # rounded as if it had been stored
            value, kind = cast(value, "f32"), "f32"
        self.statements.append(ir.Set(name, value))
        self.types[name] = kind


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
        letters.append("1" if step == operand.layout.dtype.itemsize else "0" if not step else "s")
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
) -> ir.Kernel:
    """One loop over all elements: `stored` names the values of the first operands, `loaded` those of the others.

    Of the values in `sums`, arrays that follow the operands get the sum of each turn.
    """
    arrays = [Array(f"a{k}", _type(o), 1, "raw") for k, o in enumerate(operands)]
    partial = [Array(f"sums{k}", body.types[name], 1, "raw") for k, name in enumerate(sums)]
    known = Array("geometry", "i64", 1, "c")
    outs = len(stored)
    inner: list[Any] = [
        ir.Set(name, cast(Node("load", arrays[k].type, (in_row(arrays, letters, k),), arrays[k]), body.types[name]))
        for k, name in enumerate(loaded, outs)
    ]
    known_nodes: dict[int, Node] = {}
    inner += [ir.Set(one.name, _ordered(one.value, known_nodes)) if sums else one for one in body.statements]
    inner += [ir.Set(f"total{k}", Node("add", body.types[name], (
        Node("var", body.types[name], (), f"total{k}"), body.held(name)))) for k, name in enumerate(sums)]  # fmt: skip
    inner += [ir.Store(arrays[k], (in_row(arrays, letters, k),), body.held(name)) for k, name in enumerate(stored)]
    before = [ir.Set(f"total{k}", const(0.0, a.type)) for k, a in enumerate(partial)]
    after = [ir.Store(a, (whole("mul", var("turn"), number(ir.SIZES[a.type])),), Node("var", a.type, (), f"total{k}"))
             for k, a in enumerate(partial)]  # fmt: skip
    statements, variables = loop_over_rows(
        arrays, known, letters, inner, max(body.cost, 1), begins=True, before=before, after=after
    )
    variables |= body.types | {f"total{k}": a.type for k, a in enumerate(partial)}
    numbers = list(body.numbers.items())
    return ir.Kernel("sums" if sums else "group", [*arrays, *partial, known], numbers, statements, variables)


def _type(operand: Operand) -> str:
    kind = ir.type_of(operand.layout.dtype)
    assert kind is not None
    return kind
