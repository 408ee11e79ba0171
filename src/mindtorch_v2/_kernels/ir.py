"""What a kernel is made of: typed expressions, statements, and arrays of which only types and dimensions are known.

Types are named "bool", "i8" to "i64", "u8" to "u64", "f16", "bf16", "f32", "f64". Arrays are kept in all of them;
expressions have none of 16 bits of precision but compute in f32. "weak" is an f64 that takes the type of what it meets,
as Python's numbers do in NumPy.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

TYPES = {"bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
         "uint32": "u32", "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32",
         "float64": "f64"}  # fmt: skip
DTYPES = {short: name for name, short in TYPES.items()}
SIZES = {"bool": 1, "f16": 2, "bf16": 2, "weak": 8} | {f"{k}{n}": n // 8 for k in "iuf" for n in (8, 16, 32, 64)
                                                       if n > 16 or k != "f"}
PARTS = {"c64": "f32", "c128": "f64"}  # complex elements, which results may have: two numbers next to each other
DTYPES |= {"c64": "complex64", "c128": "complex128"}
SIZES |= {"c64": 8, "c128": 16}
FLOATS = frozenset(("f32", "f64", "weak"))


def type_of(dtype: np.dtype) -> str | None:
    """The type of a dtype's elements; None where kernels do not know it, as complex ones."""
    return TYPES.get(dtype.name) if dtype.isnative else None


def stored_as(dtype: np.dtype) -> str | None:
    """The same of what a pointwise kernel makes."""
    return {"complex64": "c64", "complex128": "c128"}.get(dtype.name) or type_of(dtype)


def computed_in(kind: str) -> str:
    """The type in which the language's kernels compute with elements of one."""
    if kind in ("f16", "bf16"):
        return "f32"
    return kind if kind in ("bool", "f32", "f64", "u64") else "i64"


class Node:
    """An expression: an operation of a type on other expressions. `data` is what else it needs to know."""

    __slots__ = ("args", "data", "op", "type")

    def __init__(self, op: str, kind: str, args: tuple["Node", ...] = (), data: Any = None) -> None:
        self.op, self.type, self.args, self.data = op, kind, args, data

    def key(self) -> tuple:
        """Equal for equal expressions: their operations, each with the places of its operands."""
        places: dict[int, int] = {}
        made: list[tuple] = []

        def add(node: Node) -> int:
            if id(node) not in places:
                operands = tuple([add(a) for a in node.args])
                made.append((node.op, node.type, operands, repr(node.data)))
                places[id(node)] = len(made)
            return places[id(node)]

        add(self)
        return tuple(made)

    def walk(self) -> Iterator["Node"]:
        """This node and all below it, each once."""
        seen, rest = set(), [self]
        while rest:
            node = rest.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                rest.extend(node.args)

    def __repr__(self) -> str:
        """Its text, in which what stands in several places is written once, and `#` and its number elsewhere."""
        numbers: dict[int, int] = {}

        def text(node: Node) -> str:
            if node.op in ("const", "var", "arg"):
                return f"{node.data}:{node.type}"
            if id(node) in numbers:
                return f"#{numbers[id(node)]}"
            inner = ", ".join(map(text, node.args))
            numbers[id(node)] = len(numbers)
            if node.op == "load":
                return f"{node.data}[{inner}]"
            return f"{node.op}{'' if node.data is None else f'<{node.data}>'}({inner}):{node.type}"

        return text(self)


def const(value: Any, kind: str) -> Node:
    return Node("const", kind, (), value)


def cast(node: Node, kind: str) -> Node:
    """The value in another type."""
    if node.type == kind:
        return node
    if node.op == "const":
        value = node.data
        if kind == "f32":
            with np.errstate(over="ignore"):
                return const(float(np.float32(value)), kind)
        if kind in ("f64", "weak"):
            return const(float(value), kind)
        if kind in ("f16", "bf16") and node.type != "f32":
            return Node("cast", kind, (cast(node, "f32"),))
        if kind != "bool" and node.type not in FLOATS:
            return const(int(value), kind)
    if {node.type, kind} == {"weak", "f64"}:
        return Node("cast", kind, (node,))
    return Node("cast", kind, (node,))


# statements ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Set:
    """Gives a variable a value."""

    name: str
    value: Node


@dataclasses.dataclass
class Store:
    """Writes an element of an array; with `combine` ("add", "min", "max") combined with what is there, atomically."""

    array: Any
    index: tuple[Node, ...]
    value: Node
    combine: str | None = None


@dataclasses.dataclass
class Poke:
    """Writes an i64 to an address."""

    address: Node
    value: Node


@dataclasses.dataclass
class Multiply:
    """Makes a block of an array the product of blocks of two others, or adds it; matrices.py says what is what."""

    made: Any
    at: tuple[Node, ...]
    a: Any
    a_at: tuple[Node, ...]
    b: Any
    b_at: tuple[Node, ...]
    sizes: tuple[Node, ...]
    turned: str = dataclasses.field(kw_only=True)
    adds: bool = dataclasses.field(kw_only=True)
    wide: bool = dataclasses.field(kw_only=True)


@dataclasses.dataclass
class Pack:
    """Fills a panel with a block of a matrix; panels.py says what is what."""

    panels: Any
    at: Node
    b: Any
    b_at: tuple[Node, ...]
    sizes: tuple[Node, ...]
    turned: bool = dataclasses.field(kw_only=True)
    tile: str = dataclasses.field(kw_only=True)


@dataclasses.dataclass
class MultiplyPanel:
    """Makes a block of a matrix the product of a block of another and a panel, or adds it."""

    made: Any
    at: tuple[Node, ...]
    a: Any
    a_at: tuple[Node, ...]
    panels: Any
    panel: Node
    sizes: tuple[Node, ...]
    adds: bool = dataclasses.field(kw_only=True)
    tile: str = dataclasses.field(kw_only=True)


@dataclasses.dataclass
class Loop:
    """A counting loop. `work`: its turns are independent, each of so many elements, and may be shared out.

    `interleaved`: how many turns (of vectors of them) are done side by side; 0 leaves that to LLVM. `apart`: no turn
    touches an element that another writes, also where arrays are shared.
    """

    name: str
    start: Node
    stop: Node
    step: Node
    body: list
    work: Node | None = None
    interleaved: int = dataclasses.field(default=0, kw_only=True)
    apart: bool = dataclasses.field(default=False, kw_only=True)


@dataclasses.dataclass
class While:
    """A loop as long as a condition holds, which `test` computes before each turn."""

    test: list
    condition: Node
    body: list


@dataclasses.dataclass
class If:
    condition: Node
    then: list
    otherwise: list


@dataclasses.dataclass
class Leave:
    """Leaves the innermost loop, or its turn."""

    turn: bool


@dataclasses.dataclass
class Block:
    """Statements that an `Exit` of the same name leaves."""

    name: str
    body: list


@dataclasses.dataclass
class Exit:
    name: str


@dataclasses.dataclass(frozen=True)
class Array:
    """An array that a kernel is given, or one of its own (`length` elements of scratch memory).

    `layout`: "c" for elements in C order, "flat" for those of any number of dimensions under one index, "s" for any
    strides, "r" for those that are not in C order but whose last dimension is, "x" for those where it is not either,
    "raw" where the one index is a place in bytes. `shared`: the memory may be that of another shared array, element by
    element; of arrays that are not, LLVM may assume that what is written to others does not change them.
    """

    name: str
    type: str
    ndim: int
    layout: str = "s"
    length: int = 0
    shared: bool = dataclasses.field(default=False, kw_only=True)


@dataclasses.dataclass
class Kernel:
    """A kernel for arrays of certain types: arrays, then numbers, as they are given, and statements."""

    name: str
    arrays: Sequence[Array]
    numbers: Sequence[tuple[str, str]]  # name and type, "i64" or "f64"
    body: list
    variables: dict[str, str]  # type by name


@dataclasses.dataclass
class Function:
    """A function of numbers alone."""

    name: str
    parameters: Sequence[tuple[str, str]]
    body: list
    result: Node
    variables: dict[str, str]
