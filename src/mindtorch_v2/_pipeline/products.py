"""Products of matrices in a plan, with what follows them element by element, where a device computes both at once."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._backends.interface import backend_of
from .._core.geometry import contiguous_strides
from .trace import Entry, Free, Layout, Value

if TYPE_CHECKING:
    from .drafts import Draft
    from .planner import _Planner

_MOST_PARTS = 4


class Matrix(NamedTuple):
    """A value seen as a matrix: its number, rows and columns, and how many elements lie between the next of each."""

    number: int
    shape: tuple[int, int]
    strides: tuple[int, int]


class Product(NamedTuple):
    """`left @ right`, and a row that is added to each of its rows."""

    left: Matrix
    right: Matrix
    bias: int | None
    layout: Layout  # of the result

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.shape[0], self.right.shape[1]

    @property
    def work(self) -> int:
        """How many numbers are multiplied."""
        return math.prod(self.shape) * self.left.shape[1]


class Part(NamedTuple):
    """A step from the product to the result: "add", "mul" with an operand, or a function of an element.

    The operand is a matrix of as many rows and columns as the product, or one of them, or a number: a constant, or
    `Free`.
    """

    name: str
    operand: Matrix | Any = None


def _matrix(number: int, layout: Layout, transposed: bool = False) -> Matrix | None:
    """A value of several dimensions, the first of them as one."""
    size = layout.dtype.itemsize
    if layout.ndim < 2 or layout.ndim > 2 and not _is_contiguous(layout):
        return None
    width = layout.shape[-1]
    rows, steps = (layout.size // width, width), tuple([s // size for s in layout.strides])
    if layout.ndim > 2:
        steps = (width, 1)
    made = Matrix(number, rows, (steps[0], steps[1]))
    return made._replace(shape=rows[::-1], strides=made.strides[::-1]) if transposed else made


def _is_contiguous(layout: Layout) -> bool:
    return layout.strides == contiguous_strides(layout.shape, layout.dtype.itemsize)


def _is_row(layout: Layout, width: int) -> bool:
    return layout.shape == (width,) and _is_contiguous(layout)


def product_of(entry: Entry, layouts: Sequence[Layout]) -> Product | None:
    """What a call multiplies; None for other calls."""
    name, arguments, bias = entry.operator.name, entry.arguments, None
    if name == "aten::linear":
        left, right, bias = arguments
        sides = _matrix(left, layouts[left]), _matrix(right, layouts[right], transposed=True)
    elif name == "aten::mm":
        left, right = arguments
        sides = _matrix(left, layouts[left]), _matrix(right, layouts[right])
    elif name == "aten::_linear_weight_grad":
        left, right = arguments
        if layouts[left].ndim != layouts[right].ndim:
            return None
        sides = _matrix(left, layouts[left], transposed=True), _matrix(right, layouts[right])
    elif name == "aten::addmm":
        bias, left, right, beta, alpha = arguments
        if any(number.__class__ is Free or number != 1 for number in (beta, alpha)):
            return None
        sides = _matrix(left, layouts[left]), _matrix(right, layouts[right])
    else:
        return None
    made = entry.results[0]
    if sides[0] is None or sides[1] is None or made is None or not _is_contiguous(layouts[made]):
        return None
    if bias is not None and not _is_row(layouts[bias], sides[1].shape[1]):
        return None
    numbers = [left, right, *([] if bias is None else [bias])]
    if any(layouts[number].dtype != layouts[made].dtype for number in numbers):
        return None
    return Product(sides[0], sides[1], bias, layouts[made])


def _part_of(entry: Entry, before: Callable[[int], bool], product: Product, layouts: Sequence[Layout]) -> Part | None:
    """What a call does with the elements of a product, of which `before` says whether a value is the last state."""
    name, arguments = entry.operator.declaration.after_product, entry.arguments
    made = entry.results[0]
    if name is None or entry.kind != "pointwise" or made is None or layouts[made].dtype != product.layout.dtype:
        return None
    if not _is_contiguous(layouts[made]) or layouts[made].size != product.layout.size:
        return None
    if name not in ("add", "mul"):
        function = name if name != "gelu" or arguments[1] == "none" else "gelu_tanh"
        return Part(function) if before(arguments[0]) else None
    if name == "add" and (arguments[2].__class__ is Free or arguments[2] != 1):
        return None
    one, other = arguments[:2]
    if not (one.__class__ is Value and before(one)):
        one, other = other, one
    if not (one.__class__ is Value and before(one)) or other.__class__ is Value and before(other):
        return None
    if other.__class__ is not Value:
        return Part(name, other) if other.__class__ in (Free, int, float) else None
    layout, (rows, columns) = layouts[other], product.shape
    if layout.dtype != product.layout.dtype or not _is_contiguous(layout):
        return None
    last = layouts[made].shape[-1] if layouts[made].ndim else 1
    if layout.shape == layouts[made].shape:
        return Part(name, Matrix(other, (rows, columns), (columns, 1)))
    if layout.size == columns == last and layout.shape[-1:] == (columns,):
        return Part(name, Matrix(other, (1, columns), (columns, 1)))
    return Part(name, Matrix(other, (1, 1), (1, 1))) if layout.size == 1 else None


def join_products(planner: "_Planner") -> None:
    """Makes one step of a call that multiplies matrices and the step after it, where the device computes both."""
    readers: dict[int, list[Draft]] = {}
    for draft in planner.drafts:
        for memory in {planner.place(number).memory for number in planner.operands(draft)}:
            readers.setdefault(memory, []).append(draft)
    for draft in list(planner.drafts):
        entry = planner.plan.entries[draft.entries[0]]
        alone = draft.shape is None and draft.product is None
        product = product_of(entry, planner.plan.layouts) if alone else None
        if product is None:
            continue
        result = planner.place(entry.results[0])  # type: ignore[arg-type]
        after = readers.get(result.memory, [])
        if len(after) != 1 or result.memory in planner.live:
            continue
        parts = _parts(planner, draft, after[0], product, readers)
        launch = backend_of(product.layout.device.type).fused_product(product, parts) if parts else None
        if launch is not None:
            after[0].entries = [*draft.entries, *after[0].entries]
            after[0].product, after[0].shape = (product, parts, launch), None
            planner.drop(draft)


def _parts(planner: "_Planner", draft: "Draft", after: "Draft", product: Product,
           readers: dict[int, list["Draft"]]) -> list[Part]:  # fmt: skip
    """What a step does with the elements of a product, one thing after the other; nothing if it is more than that."""
    plan = planner.plan
    if after.shape is None and (not planner.is_call(after) or planner.writes(after)):
        return []
    if after.writes or after.sums or after.body.rows or len(after.entries) > _MOST_PARTS:
        return []
    between = planner.drafts[draft.index + 1 : after.index]
    if any(planner.writes(other) for other in between):
        return []  # perhaps what is multiplied
    parts: list[Part] = []
    state = planner.place(plan.entries[draft.entries[0]].results[0])  # type: ignore[arg-type]
    for at in after.entries:
        entry = plan.entries[at]

        def before(number: int, state: Any = state) -> bool:
            place = planner.place(number)
            whole = place.memory == state.memory and place.offset == state.offset and _is_contiguous(place.layout)
            return whole and place.layout.size == state.layout.size

        part = _part_of(entry, before, product, plan.layouts)
        if part is None:
            return []
        parts.append(part)
        state = planner.place(entry.results[0])  # type: ignore[arg-type]
    others = [memory for memory in after.content if memory != state.memory]
    kept = any(memory in planner.live or readers.get(memory, [after]) != [after] for memory in others)
    return [] if kept else parts
