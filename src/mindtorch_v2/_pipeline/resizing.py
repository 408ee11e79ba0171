"""Plans for other sizes out of one that is there, without deciding again what runs together.

What a planner decides rests on which layouts, shapes, sizes and offsets are equal, on what is contiguous, and on
dimensions of one element. Where all of that holds for the new sizes, too, the steps are those of the known plan, with
kernels that are told other sizes. A size that stood for two things (as many samples as heads) is planned anew.
"""

import math
from typing import Any

from .._backends.interface import backend_of
from .._core.geometry import contiguous_strides
from .fuse import LONG, Operand, run_of
from .plan import Plan, Step
from .planner import call_step, geometry_of, product_step, sum_step
from .products import Matrix, product_of
from .run import memory_of, runner_of
from .sums import together
from .trace import Entry, Layout, Trace, layout_of


def resized(known: Plan, trace: Trace) -> Plan | None:
    """The plan of a trace that calls what a known plan's trace called; None where sizes may decide otherwise."""
    plan = Plan(trace)
    if len(plan.entries) != len(known.entries) or len(plan.layouts) != len(known.layouts):
        return None
    if plan.inputs != known.inputs or plan.outputs != known.outputs or plan.writes != known.writes:
        return None
    if not all(map(_is_alike, known.entries, plan.entries)):
        return None
    sizes = _Sizes()
    if not sizes.fill(known, plan):
        return None
    for step in known.steps:
        made = _step(plan, step, sizes)
        if made is None:
            return None
        plan.steps.append(made)
    plan.function = runner_of(plan)
    plan.memory, plan.peak = memory_of(plan)
    return plan


def _is_alike(one: Entry, other: Entry) -> bool:
    """Whether two calls are planned alike, sizes aside."""
    a, b = one.recipe, other.recipe
    if a is b:
        return one.arguments == other.arguments and one.results == other.results
    same = (one.operator is other.operator and one.kind == other.kind and one.results == other.results
            and one.operands() == other.operands() and a.expression is b.expression and a.fold == b.fold
            and (a.row is None) == (b.row is None) and a.written == b.written and a.fails == b.fails
            and a.several == b.several)  # fmt: skip
    if not same or a.expression is a.fold is a.row is None:
        return same
    return one.arguments == other.arguments and (a.row is None or a.row[0] == b.row[0])  # type: ignore[index]


class _Sizes:
    """What has become of the layouts, shapes, numbers of elements, and offsets of a plan."""

    def __init__(self) -> None:
        self.layouts: dict[Layout, Layout] = {}
        self.shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.sizes: dict[int, int] = {}
        self.offsets: dict[tuple[int, int], int] = {}

    def fill(self, known: Plan, plan: Plan) -> bool:
        """Whether what was equal is equal, and what was contiguous or of one element is so."""
        for number, (old, new) in enumerate(zip(known.layouts, plan.layouts, strict=True)):
            if self.layouts.setdefault(old, new) is not new:
                return False
            place, offset = (known.places.root[number], known.places.offset[number]), plan.places.offset[number]
            if plan.places.root[number] != place[0] or self.offsets.setdefault(place, offset) != offset:
                return False
        return all(map(self._takes, self.layouts, self.layouts.values()))

    def _takes(self, old: Layout, new: Layout) -> bool:
        if old is new:
            same = True
        else:
            same = old.dtype == new.dtype and old.device == new.device and old.ndim == new.ndim
            same = same and all([(a == 1) == (b == 1) for a, b in zip(old.shape, new.shape)])
            same = same and all([(a == 0) == (b == 0) for a, b in zip(old.strides, new.strides)])
            same = same and _neighbours(old) == _neighbours(new) and new.size > 0
        return (same and self.shapes.setdefault(old.shape, new.shape) == new.shape
                and self.sizes.setdefault(old.size, new.size) == new.size)  # fmt: skip

    def layout(self, old: Layout) -> Layout | None:
        """That of an operand: a value's, or of elements in order that are seen in the shape of a step."""
        found = self.layouts.get(old)
        if found is None:
            shape = self.shapes.get(old.shape)
            if shape is None:
                return old if old.ndim == 0 else None
            found = layout_of(shape, contiguous_strides(shape, old.dtype.itemsize), old.dtype, old.device)
        return found


def _neighbours(layout: Layout) -> list[Any]:
    """Which dimensions go on where the next one ends, and which of two has the longer steps."""
    inner = (*zip(layout.shape[1:], layout.strides[1:]), (1, layout.dtype.itemsize))
    return [(stride == n * step, stride > step) for stride, (n, step) in zip(layout.strides, inner, strict=True)]


def _step(plan: Plan, step: Step, sizes: _Sizes) -> Step | None:
    """A step for other sizes."""
    if step.product is not None:
        return _product(plan, step)
    if step.together is not None:
        first, second = [plan.entries[at] for at in step.entries]
        found = together(first, second, plan.layouts, step.together.unread)
        return None if found is None else sum_step(plan, step.entries, found)
    if step.group is None:
        return call_step(plan, step.entries)
    group, form = step.group, step.form
    if form is None:  # gather maps are told more than the sizes of arrays
        return None
    shape, layouts = sizes.shapes.get(group.shape), [sizes.layout(layout) for layout in form.layouts]
    if shape is None or any(layout is None for layout in layouts) or group.launch is not None:
        return None
    operands = [Operand(name, layout, plan.places.offset[number])
                for name, layout, number in zip(form.names, layouts, form.values, strict=True) if layout is not None]
    if step.kind != "pointwise":
        if step.kind == "row" and math.prod(shape[form.stay :]) != math.prod(group.shape[form.stay :]):
            return None
        if not all(o.name in form.rows or run_of(o.layout, shape, form.stay) for o in operands):
            return None
    words, letters = geometry_of(step.kind, shape, form.stay, form.rows, operands, form.stored)
    if letters != form.letters or (words[0] >= LONG) != (group.geometry[0] >= LONG):
        return None
    made = Step(step.kind, step.entries, step.inputs, step.outputs)
    made.kernel, made.form = step.kernel, form._replace(layouts=[o.layout for o in operands])
    made.group = group._replace(geometry=words, shape=shape, offsets=[o.offset for o in operands])
    made.bytes, made.text = sum([o.layout.nbytes for o in operands]), step.text
    made.flops = step.flops // math.prod(group.shape) * math.prod(shape)
    return made


def _product(plan: Plan, step: Step) -> Step | None:
    """A product with what follows it for other sizes, where the device computes them at once, too."""
    before, parts = step.multiplied
    product = product_of(plan.entries[step.entries[0]], plan.layouts)
    if product is None:
        return None
    moved = []
    for part in parts:
        if isinstance(part.operand, Matrix):
            rows, columns = [n if whole == old else 1 for whole, old, n in
                             zip(before.shape, part.operand.shape, product.shape)]  # fmt: skip
            part = part._replace(operand=Matrix(part.operand.number, (rows, columns), (columns, 1)))
        moved.append(part)
    launch = backend_of(product.layout.device.type).fused_product(product, moved)
    return None if launch is None else product_step(plan, step.entries, product, moved, launch)
