"""Sums in a plan with the call that reads them (the norm of a residual), where a device computes both at once."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._backends.interface import backend_of
from .._core.geometry import contiguous_strides
from .trace import Entry, Layout, Value, layout_of

if TYPE_CHECKING:
    from .drafts import Draft
    from .planner import _Planner


class Together(NamedTuple):
    """A sum and a call of it: what computes both, the values it is given, those it makes, and which nobody reads."""

    launch: Callable
    given: list[int]
    made: list[int]
    unread: frozenset[int]


def together(sum_entry: Entry, entry: Entry, layouts: Sequence[Layout], unread: frozenset[int]) -> Together | None:
    """A sum and a call of it, of whose results nobody reads some; None where the device has nothing for both."""
    declaration, schema = entry.operator.declaration, entry.operator.schema
    made, where = sum_entry.results[0], layouts[entry.operands()[0]].device.type
    if where not in (declaration.of_sums or {}) or not _is_plain_sum(sum_entry, layouts):
        return None
    assert made is not None
    first, other = sum_entry.arguments[:2]
    named: dict[str, int] = {"addend": other}
    numbers: dict[str, Any] = {}
    for name, value in zip(schema.names, entry.arguments, strict=True):
        if value.__class__ is Value:
            named[name] = first if value == made else value
        else:
            numbers[name] = value
    if list(named.values()).count(first) != 1 + (first == other) or any(n is None for n in entry.results):
        return None
    given = list(named.values())
    named |= {"sum": made, **{r.name: n for r, n in zip(schema.returns, entry.results, strict=True) if n is not None}}
    seen = {name: layouts[number] for name, number in named.items() if number not in unread}
    seen |= {name: _in_float32(layouts[number]) for name, number in named.items() if number in unread}
    if not all(_is_contiguous(layout) for layout in seen.values()):
        return None
    launch = backend_of(where).fused_sum(entry.operator, seen, numbers)
    if launch is None:
        return None
    return Together(launch, given, [made, *[n for n in entry.results if n is not None]], unread)


def _in_float32(layout: Layout) -> Layout:
    """That of statistics in the type that devices compute them in, whatever a result would have."""
    kind = np.dtype(np.float32)
    return layout_of(layout.shape, contiguous_strides(layout.shape, kind.itemsize), kind, layout.device)


def _is_plain_sum(entry: Entry, layouts: Sequence[Layout]) -> bool:
    """Whether an entry adds two arrays that lie alike, and nothing else."""
    if entry.operator.declaration.after_product != "add" or entry.kind != "pointwise" or entry.arguments[2] != 1:
        return False
    one, other, made = *entry.arguments[:2], entry.results[0]
    assert made is not None
    return one.__class__ is other.__class__ is Value and layouts[one] is layouts[other] is layouts[made]


def _is_contiguous(layout: Layout) -> bool:
    return layout.strides == contiguous_strides(layout.shape, layout.dtype.itemsize)


def join_sums(planner: "_Planner") -> None:
    """Makes one step of a sum and a call that reads it, in the place of the call."""
    entries = planner.plan.entries
    read = planner.live.union(planner.reads())
    for draft in list(planner.drafts):
        entry = entries[draft.entries[0]]
        if len(draft.entries) != 1 or not entry.operator.declaration.of_sums or not planner.is_call(draft):
            continue
        summing = _sum_before(planner, draft, entry)
        if summing is None:
            continue
        unread = frozenset([n for n in entry.results[1:] if n is not None and planner.place(n).memory not in read])
        found = together(entries[summing.entries[0]], entry, planner.plan.layouts, unread)
        if found is not None:
            draft.entries, draft.together = [*summing.entries, *draft.entries], found
            planner.drop(summing)


def _sum_before(planner: "_Planner", draft: "Draft", entry: Entry) -> "Draft | None":
    """The step that makes a call's first operand, if nothing between them reads that or writes anything."""
    operand = planner.place(entry.arguments[0])
    for before in reversed(planner.drafts[: draft.index]):
        made = planner.plan.entries[before.entries[-1]].results
        if len(before.entries) == 1 and planner.is_call(before) and made == (entry.arguments[0],):
            return before
        reads = any(planner.place(number).memory == operand.memory for number in planner.operands(before))
        if reads or planner.writes(before):
            return None
    return None
