"""From a trace to a plan: what nobody needs is left out, and pointwise entries are put together.

Entries are taken in the order of the program. A step's place in the plan is that of its first entry, and an entry joins
a step if it may as well happen there: what it reads is there already, and what it writes was not read in between.
Values are told apart by their memory (`Place`): an entry that writes memory is as any other, except that what it writes
may have been read before.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .._core.geometry import contiguous_strides
from .._kernels import ir
from .._kernels.pointwise import CHUNK
from .fuse import Body, Operand, geometry, in_rows, kernel, of_rows, row_geometry, row_kernel, run_of
from .plan import Plan, Step
from .products import Matrix, Part, Product, join_products, product_of
from .run import Form, Group, Sum, memory_of, runner_of
from .sums import Together, join_sums
from .trace import Entry, Free, Layout, Trace, Value, layout_of

HOSTS = ("cpu", "meta")  # the CPU, and what is planned as for it, and never run
FUSED = (*HOSTS, "cuda")  # the devices that have kernels of groups
ROWS = {"cpu": CHUNK, "meta": CHUNK, "cuda": 8192}  # those that have kernels of rows, and the most elements of one
WRITING_ROWS = ("cuda",)  # those whose kernels of rows have read all that they read before they write
_MOST_ENTRIES, _MOST_ARRAYS = 48, 24  # of one kernel
_MOST_SUMS = 4
_SMALL = 1 << 18  # bytes


class Place(NamedTuple):
    """Where a value lies: memory, how far into it, and how."""

    memory: int
    offset: int
    layout: Layout


class Draft:
    """A step in the making. A pointwise one has the shape that it runs over, and what it has loaded and computed."""

    def __init__(self, index: int, shape: tuple[int, ...] | None) -> None:
        self.index, self.shape = index, shape
        self.entries: list[int] = []
        self.body = Body()
        self.loaded: dict[Place, tuple[str, int]] = {}  # name and a value of each place
        self.content: dict[int, tuple[Place, str, int]] = {}  # by memory: what the step has put there
        self.writes: dict[int, int] = {}  # memory that was there before: the value that is written through
        self.sums: list[tuple[str, int, bool]] = []  # of which value, into which, and whether it is a mean
        self.stay = 0  # the dimensions that sums keep
        self.rows: dict[int, Place] = {}  # by memory: values that rows have one of, which later entries may read
        self.frees: list[int] = []  # positions of the numbers that a run brings, `f0` ... in the body
        self.product: Any = None  # of a step that multiplies matrices: see products.py
        self.together: Any = None  # of a step that adds, and calls something of the sum: see sums.py

    def next_name(self) -> str:
        """That of the next entry's value, which is the same in all steps that compute the same."""
        return f"w{len(self.entries)}"

    def name_of_free(self, position: int) -> str:
        """That of a number that a run brings."""
        if position not in self.frees:
            self.frees.append(position)
        return f"f{self.frees.index(position)}"


def planned(trace: Trace) -> Plan:
    """The plan of a trace."""
    plan = Plan(trace)
    _Planner(plan, trace).fill()
    plan.function = runner_of(plan)
    plan.memory, plan.peak = memory_of(plan)
    return plan


class _Planner:
    def __init__(self, plan: Plan, trace: Trace) -> None:
        self.plan, self.places = plan, plan.places
        mixed = len({layout.device for layout in plan.layouts}) > 1
        self.fused = [kind for kind in FUSED if not (mixed and kind == "meta")]  # beside others, calls of Meta do run
        self.memory: dict[int, int] = {}  # of the inputs that lie in one memory, the first stands for all
        self.start: dict[int, int] = {}
        for group in trace.aliases():
            for number, offset in group:
                self.memory[number], self.start[number] = group[0][0], offset
        self.drafts: list[Draft] = []
        self.last_write: dict[int, Draft] = {}  # by memory
        self.last_read: dict[int, Draft] = {}
        self.last_failing: Draft | None = None
        self.outside = {self._memory(n) for n in plan.inputs}
        self.live = {self._memory(n) for n in plan.outputs}
        self.needed = self._find_needed()

    # values --------------------------------------------------------------------------------------------------------

    def _memory(self, number: int) -> int:
        root = self.places.root[number]
        return self.memory.get(root, root)

    def place(self, number: int) -> Place:
        root = self.places.root[number]
        return Place(self.memory.get(root, root), self.start.get(root, 0) + self.places.offset[number],
                     self.plan.layouts[number])  # fmt: skip

    def _find_needed(self) -> set[int]:
        """The entries that somebody needs: all that may fail, and those whose memory is read or held afterwards."""
        needed, memories = set(), set(self.live) | self.outside
        for at in range(len(self.plan.entries) - 1, -1, -1):
            entry = self.plan.entries[at]
            touched = [self._memory(n) for n in (*entry.results, *_written(entry)) if n is not None]
            if entry.kind == "view" or not entry.recipe.fails and memories.isdisjoint(touched):
                continue
            needed.add(at)
            memories.update([self._memory(n) for n in entry.operands()])
        return needed

    # steps ---------------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        for at in range(len(self.plan.entries)):
            if at not in self.needed:
                continue
            rest = self._parted(at)
            entry = self.plan.entries[at]
            recipe = entry.recipe
            joins = self._joined if recipe.expression is not None else self._folded
            if recipe.expression is recipe.fold is recipe.row is None or not joins(at, entry):
                self._call(at, entry)
            if rest is not None:
                self._call(rest, self.plan.entries[rest])
        join_products(self)
        join_sums(self)
        reads = self.reads()
        for draft in self.drafts:
            self.plan.steps.append(self._step(draft, reads))

    def _parted(self, at: int) -> int | None:
        """Makes a call that gives more than rows one for these; the place of the call for the rest, if there is any."""
        entry, plan = self.plan.entries[at], self.plan
        where = entry.recipe.split
        if where is None:
            return None
        first, *others = entry.arguments[where]
        before, after = entry.arguments[:where], entry.arguments[where + 1 :]
        entries = plan.entries = list(plan.entries)  # which are the trace's
        for wanted in ((first, *[False] * len(others)), (False, *others)):
            results = tuple([n if is_wanted else None for n, is_wanted in zip(entry.results, wanted, strict=True)])
            entries.append(entry._replace(arguments=(*before, wanted, *after), results=results))
        entries[at] = entries.pop(-2)
        if any(others):
            return len(entries) - 1
        entries.pop()
        return None

    def reads(self) -> dict[int, int]:
        """The last step that reads a memory."""
        reads: dict[int, int] = {}
        for draft in self.drafts:
            for number in self.operands(draft):
                memory = self._memory(number)
                reads[memory] = max(reads.get(memory, -1), draft.index)
        return reads

    def writes(self, draft: Draft) -> bool:
        """Whether a step writes memory that was there before."""
        return bool(draft.writes) or any(_written(self.plan.entries[at]) for at in draft.entries)

    def is_call(self, draft: Draft) -> bool:
        """Whether a step is one call by itself."""
        return draft.shape is None and draft.product is None and draft.together is None

    def drop(self, draft: Draft) -> None:
        """Leaves a step out."""
        self.drafts.remove(draft)
        for later in self.drafts[draft.index :]:
            later.index -= 1

    def operands(self, draft: Draft) -> list[int]:
        """The values that a step reads."""
        if draft.shape is None:
            return [n for at in draft.entries for n in self.plan.entries[at].operands()]
        return [number for _, number in draft.loaded.values()]

    def _call(self, at: int, entry: Entry) -> None:
        draft = self._begun(None, len(self.drafts))
        draft.entries.append(at)
        for number in entry.operands():
            self.last_read[self._memory(number)] = draft
        for made in (*entry.results, *_written(entry)):
            if made is not None:
                self.last_write[self._memory(made)] = draft
        if entry.recipe.fails:
            self.last_failing = draft

    def _begun(self, shape: tuple[int, ...] | None, index: int) -> Draft:
        """A new step at a place among the others."""
        draft = Draft(index, shape)
        self.drafts.insert(index, draft)
        for later in self.drafts[index + 1 :]:
            later.index += 1
        return draft

    def _joined(self, at: int, entry: Entry) -> bool:
        """Puts a pointwise entry into a step, a new one if there is none for it; False if it has to run alone."""
        expression = entry.recipe.expression
        assert expression is not None
        target = entry.arguments[0] if entry.kind == "write" else entry.results[0]
        assert target is not None
        made = self.place(target)
        shape = made.layout.shape
        operands = {i: self.place(entry.arguments[i]) for i in expression.loads}
        if made.layout.device.type not in self.fused or _overlaps(made.layout) or not made.layout.size:
            return False
        if any(ir.type_of(p.layout.dtype) is None for p in (made, *operands.values())):
            return False
        first = self._earliest(entry, made, operands)
        for draft in self._candidates(max(first, 0), made, operands):
            assert draft.shape is not None
            if draft.rows and self._joins_rows(draft, at, entry, made, operands):
                return True
            if draft.shape == shape:
                seen, read = made, operands
            elif math.prod(draft.shape) == made.layout.size and _is_flat([made, *operands.values()]):
                seen = _reshaped(made, draft.shape)
                read = {i: _reshaped(p, draft.shape) for i, p in operands.items()}
            else:
                continue
            if self._fits(draft, entry, seen, read):
                self._add(draft, at, entry, target, seen, read)
                return True
        if not self._fits(Draft(0, shape), entry, made, operands):
            return False
        early = entry.kind == "pointwise" and made.layout.nbytes <= _SMALL  # so that larger steps are not parted by it
        draft = self._begun(shape, first + 1 if early else len(self.drafts))
        self._add(draft, at, entry, target, made, operands)
        return True

    def _folded(self, at: int, entry: Entry) -> bool:
        """Puts what looks at whole rows into a step that computes them, a new one if they are short."""
        source = self.place(entry.arguments[0])
        stay, kind = entry.recipe.fold if entry.recipe.row is None else (entry.recipe.row[0], "row")  # type: ignore[misc]
        length = math.prod(source.layout.shape[stay:])
        draft = self.last_write.get(source.memory)
        most = ROWS.get(source.layout.device.type, 0) if source.layout.device.type in self.fused else 0
        if not 1 < length <= most or draft is not None and draft.writes:
            return kind in ("sum", "mean") and self._summed(at, entry, source)
        operands = [Value(n) for n in entry.operands()]
        places = [self.place(n) for n in operands]
        before = [self.last_write.get(p.memory) for p in places[1:]]
        if draft is None or not self._takes_rows(draft, source, places, stay):
            if not all(run_of(p.layout, source.layout.shape, stay) for p in places):
                return False
            draft = self._begun(source.layout.shape, len(self.drafts))
        elif any(d is not None and d.index >= draft.index for d in before):
            return False
        names = [self._loaded(draft, place, number) for place, number in zip(places, operands, strict=True)]
        draft.stay = stay
        results = [n for n in entry.results if n is not None]
        name = draft.next_name()
        if kind == "row":
            made = entry.recipe.row[1](draft.body, name, names)  # type: ignore[index]
        else:
            draft.body.fold(name, names[0], kind)
            made = [draft.body.rounded(f"{name}_in0", name, ir.type_of(source.layout.dtype))]
        for number, name in zip(results, made, strict=True):
            place = self.place(number)
            draft.content[place.memory] = place, name, number
            if name in draft.body.rows:
                draft.rows[place.memory] = place
            self.last_write[place.memory] = draft
        draft.entries.append(at)
        return True

    def _takes_rows(self, draft: Draft, source: Place, places: list[Place], stay: int) -> bool:
        """Whether a step computes the rows of a value, and its arrays lie in such rows."""
        shape = source.layout.shape
        known = draft.content.get(source.memory)
        if draft.shape != shape or known is None or known[0] != source or draft.writes or draft.sums:
            return False
        if draft.body.rows and draft.stay != stay or len(draft.entries) >= _MOST_ENTRIES:
            return False
        own = [*draft.loaded, *(p for p, _, _ in draft.content.values() if p.memory not in draft.rows), *places]
        return source.memory not in draft.rows and all(run_of(p.layout, shape, stay) for p in own)

    def _summed(self, at: int, entry: Entry, source: Place) -> bool:
        """Puts a sum into the step that computes what is summed; False where there is none."""
        stay, kind = entry.recipe.fold  # type: ignore[misc]
        made = entry.results[0]
        draft = self.last_write.get(source.memory)
        if draft is None or draft.shape != source.layout.shape or source.layout.device.type not in HOSTS:
            return False
        known = draft.content.get(source.memory)
        if known is None or known[0] != source or draft.body.rows or len(draft.sums) >= _MOST_SUMS:
            return False
        if draft.sums and draft.stay != stay:
            return False
        places = [*draft.loaded, *(place for place, _, _ in draft.content.values())]
        if not all(run_of(place.layout, draft.shape, stay) for place in places):
            return False
        assert made is not None
        draft.sums.append((known[1], made, kind == "mean"))
        draft.stay = stay
        draft.entries.append(at)
        self.last_write[self._memory(made)] = draft
        return True

    def _earliest(self, entry: Entry, made: Place, operands: dict[int, Place]) -> int:
        """The index of the last step that an entry depends on: it may be part of that one, or come after it."""
        before = [self.last_write.get(p.memory) for p in operands.values()]
        if entry.kind == "write":
            before += [self.last_read.get(made.memory), self.last_write.get(made.memory)]
        first = max([draft.index for draft in before if draft is not None], default=-1)
        if entry.kind == "write" and made.memory in self.outside and self.last_failing is not None:
            first = max(first, self.last_failing.index)  # what comes before a failure is written, what comes after not
        return first

    def _candidates(self, first: int, made: Place, operands: dict[int, Place]) -> list[Draft]:
        """Pointwise steps that an entry could join: those that have what it reads."""
        found = []
        wanted = {p.memory for p in (made, *operands.values())}
        for draft in reversed(self.drafts[first:]):
            if draft.shape is not None and (
                not wanted.isdisjoint(draft.content) or any(p.memory in wanted for p in draft.loaded)
            ):
                found.append(draft)
        return found

    def _fits(self, draft: Draft, entry: Entry, made: Place, operands: dict[int, Place]) -> bool:
        held = len(self.live.intersection(draft.content))  # others are most likely read by this step alone
        if len(draft.entries) >= _MOST_ENTRIES or len(draft.loaded) + held >= _MOST_ARRAYS:
            return False
        if draft.sums:
            own = {self._memory(number) for _, number, _ in draft.sums}
            places = [made, *operands.values()]
            if any(p.memory in own or not run_of(p.layout, draft.shape or (), draft.stay) for p in places):
                return False
        if draft.body.rows:
            if entry.kind == "write" and made.layout.device.type not in WRITING_ROWS:
                return False
            places = [made, *(p for p in operands.values() if p.memory not in draft.rows)]
            if not all(run_of(p.layout, draft.shape or (), draft.stay) for p in places):
                return False
        for place in operands.values():
            known = draft.content.get(place.memory)
            if place.memory in draft.rows:
                if not self._reads_rows(draft, place):
                    return False
            elif known is not None and not _alike(known[0], place):
                return False  # another part of it, or in another order
        if entry.kind == "write":
            known = draft.content.get(made.memory)
            if known is not None and not _alike(known[0], made):
                return False
            read = [*draft.loaded, *operands.values()]
            if any(p.memory == made.memory and not _alike(p, made) for p in read):
                return False
        return True

    def _reads_rows(self, draft: Draft, place: Place) -> bool:
        """Whether a place shows each element of a row that row's value."""
        shape, stay = draft.shape or (), draft.stay
        known, layout = draft.rows[place.memory], place.layout
        steps = (0,) * (len(shape) - layout.ndim) + tuple([s if n != 1 else 0 for n, s in
                                                          zip(layout.shape, layout.strides)])  # fmt: skip
        wanted = contiguous_strides(tuple(shape[:stay]), layout.dtype.itemsize)
        outer = all(s == w or n == 1 for s, w, n in zip(steps[:stay], wanted, shape[:stay], strict=True))
        return place.offset == known.offset and layout.dtype == known.layout.dtype and outer and not any(steps[stay:])

    def _joins_rows(self, draft: Draft, at: int, entry: Entry, made: Place, operands: dict[int, Place]) -> bool:
        """Puts an entry that computes values of rows out of such into their step."""
        if entry.kind != "pointwise" or not operands or len(draft.entries) >= _MOST_ENTRIES:
            return False
        for place in operands.values():
            known = draft.rows.get(place.memory)
            if known is None or not _alike(known, place):
                return False
        count = math.prod((draft.shape or ())[: draft.stay])
        if made.layout.size != count or not _is_contiguous(made.layout):
            return False
        target = entry.results[0]
        assert target is not None
        draft.body.rows.add(draft.next_name())
        self._add(draft, at, entry, target, made, operands)
        draft.rows[made.memory] = made
        return True

    def _loaded(self, draft: Draft, place: Place, number: int) -> str:
        """The name of a value that a step has, or loads."""
        known = draft.content.get(place.memory)
        if known is not None:
            return known[1]
        if place not in draft.loaded:
            name = f"x{len(draft.loaded)}"
            draft.loaded[place] = name, number
            draft.body.load(name, ir.TYPES[place.layout.dtype.name])
            before = self.last_read.get(place.memory)
            self.last_read[place.memory] = draft if before is None or before.index < draft.index else before
        return draft.loaded[place][0]

    def _add(self, draft: Draft, at: int, entry: Entry, target: int, made: Place, operands: dict[int, Place]) -> None:
        body, expression = draft.body, entry.recipe.expression
        assert expression is not None
        names = {i: self._loaded(draft, place, entry.arguments[i]) for i, place in operands.items()}
        numbers: dict[int, Any] = {}
        for i in expression.numbers:
            value = entry.arguments[i]
            numbers[i] = draft.name_of_free(value) if value.__class__ is Free else value
        name = draft.next_name()
        body.compute(name, expression, names, numbers, ir.TYPES[made.layout.dtype.name])
        if entry.kind == "write" and made.memory not in draft.content:
            draft.writes[made.memory] = target
        elif made.memory in draft.content:
            target = draft.content[made.memory][2]
        draft.content[made.memory] = made, name, target
        draft.entries.append(at)
        self.last_write[made.memory] = draft

    # what a step becomes -------------------------------------------------------------------------------------------

    def _step(self, draft: Draft, reads: dict[int, int]) -> Step:
        plan = self.plan
        entry = plan.entries[draft.entries[0]]
        if draft.product is not None:
            return product_step(plan, draft.entries, *draft.product)
        if draft.together is not None:
            return sum_step(plan, draft.entries, draft.together)
        if draft.shape is None or len(draft.entries) == 1 and entry.recipe.expression is None:
            return call_step(plan, draft.entries)
        kept = []
        for memory, (place, name, number) in draft.content.items():
            if memory in draft.writes or memory in self.live or reads.get(memory, -1) > draft.index:
                kept.append((place, name, number))
        kept.sort(key=lambda k: -k[0].layout.nbytes)
        loaded = list(draft.loaded.items())
        inputs = list(dict.fromkeys([number for _, (_, number) in loaded] + list(draft.writes.values())))
        outputs = [number for place, _, number in kept if place.memory not in draft.writes]
        step = Step("pointwise", draft.entries, inputs, outputs)
        root, offset = self.places.root, self.places.offset
        operands = [Operand(name, place.layout, offset[number]) for place, name, number in kept]
        operands += [Operand(name, place.layout, offset[number]) for place, (name, number) in loaded]
        stored, names = [name for _, name, _ in kept], [name for _, (name, _) in loaded]
        sums = [Sum(number, mean) for _, number, mean in draft.sums]
        step.kind = "row" if draft.body.rows else "reduction" if sums else "pointwise"
        step.outputs += [one.number for one in sums]
        rows = frozenset(draft.body.rows)
        words, letters = geometry_of(step.kind, draft.shape, draft.stay, rows, operands, len(kept))
        on_host = operands[0].layout.device.type in HOSTS
        reused = self._reused(draft, kept, reads) if on_host and not draft.body.rows else {}
        if draft.body.rows:
            step.kernel = row_kernel(draft.body, operands, stored, names, letters)
        else:
            summed = [name for name, _, _ in draft.sums]
            shared = self._sharing(draft, kept, reused)
            step.kernel = kernel(draft.body, operands, stored, names, letters, summed, int(words[0]), shared)
        values = [number for _, _, number in kept] + [number for _, (_, number) in loaded]
        arrays = [root[number] for number in values]
        frees = [draft.frees[int(name[1:])] for name in draft.body.numbers]
        launch = None
        if operands[0].layout.device.type == "cuda":
            launch = _launch(draft, operands, stored, names, letters)
        layouts = [o.layout for o in operands]
        step.form = Form(stored + names, values, layouts, len(kept), draft.stay, rows, letters)
        step.group = Group(words, arrays, frees, draft.shape, [o.offset for o in operands], launch, sums, reused)
        step.bytes = sum([o.layout.nbytes for o in operands])
        step.flops = draft.body.cost * math.prod(draft.shape)
        step.text = lambda: _kernel_text(step.kernel)
        return step

    def _sharing(self, draft: Draft, kept: list, reused: dict[int, int]) -> frozenset[int]:
        """The operands of a step, results first, of which two may be one memory: it is read, and written then.

        The one result of a step is written after all that it is made of was read, whatever LLVM knows of arrays.
        """
        if len(kept) + len(draft.sums) == 1:
            return frozenset()
        loaded = {place.memory: k for k, place in enumerate(draft.loaded, len(kept))}
        found: set[int] = set()
        for k, (place, _, number) in enumerate(kept):
            memory = place.memory if place.memory in draft.writes else reused.get(number)
            if memory in loaded:
                found |= {k, loaded[memory]}
        return frozenset(found)

    def _reused(self, draft: Draft, kept: list, reads: dict[int, int]) -> dict[int, int]:
        """Inputs that a step is the last to read, element by element, and whose memory results may take, by result."""
        found: dict[int, int] = {}
        seen = [place.memory for place in draft.loaded]
        for place in draft.loaded:
            memory = place.memory
            whole = place.offset == 0 and place.layout is self.plan.layouts[memory] and seen.count(memory) == 1
            if whole and reads[memory] == draft.index and memory not in self.live | self.outside | draft.writes.keys():
                free = [n for p, _, n in kept if p.memory == n and self.plan.layouts[n] is place.layout
                        and n not in draft.writes]
                found |= {number: memory for number in [n for n in free if n not in found][:1]}
        return found


def call_step(plan: Plan, entries: list[int]) -> Step:
    """A call by the kernel that eager calls have."""
    (at,) = entries
    entry = plan.entries[at]
    step = Step("call", entries, entry.operands(), [n for n in entry.results if n is not None])
    step.bytes = sum([plan.layouts[n].nbytes for n in (*step.inputs, *step.outputs)])
    product = product_of(entry, plan.layouts)
    step.flops = 0 if product is None else 2 * product.work
    step.text = lambda: _call_text(entry)
    return step


def product_step(plan: Plan, entries: list[int], product: Product, parts: list[Part], launch: Callable) -> Step:
    """A product with what follows it, of which the last value is the result."""
    given = [product.left.number, product.right.number, *([] if product.bias is None else [product.bias])]
    given += [part.operand.number if isinstance(part.operand, Matrix) else part.operand
              for part in parts if part.operand is not None]  # fmt: skip
    calls = [plan.entries[at] for at in entries]
    made = calls[-1].results[0]
    assert made is not None
    step = Step("product", entries, [n for n in given if n.__class__ is Value], [made])
    step.product, step.multiplied = (launch, given, plan.layouts[made]), (product, parts)
    step.bytes = sum([plan.layouts[n].nbytes for n in (*step.inputs, made)])
    step.flops = 2 * product.work
    step.text = lambda: "\n".join(map(_call_text, calls))
    return step


def sum_step(plan: Plan, entries: list[int], together: Together) -> Step:
    """A sum and a call of it."""
    calls = [plan.entries[at] for at in entries]
    step = Step("call", entries, together.given, together.made)
    step.together = together
    step.bytes = sum([plan.layouts[n].nbytes for n in (*step.inputs, *step.outputs)])
    step.text = lambda: "\n".join(map(_call_text, calls))
    return step


def geometry_of(kind: str, shape: tuple[int, ...], stay: int, rows: frozenset[str], operands: list[Operand],
                stored: int) -> tuple[Any, str]:  # fmt: skip
    """What a step's kernel is told of its arrays, and how elements of each follow each other."""
    if kind == "pointwise":
        return geometry(shape, operands, stored)
    return row_geometry((*shape[:stay], math.prod(shape[stay:])), _seen_in_rows(shape, stay, rows, operands))


def _seen_in_rows(shape: tuple[int, ...], stay: int, rows: frozenset[str], operands: list[Operand]) -> list[Operand]:
    """Operands of a kernel of rows, with the elements of a row as one dimension."""
    return [o._replace(layout=of_rows(o.layout, shape, stay)) if o.name in rows else in_rows(o, shape, stay)
            for o in operands]  # fmt: skip


def _is_contiguous(layout: Layout) -> bool:
    return layout.strides == contiguous_strides(layout.shape, layout.dtype.itemsize)


def _is_flat(places: list[Place]) -> bool:
    """Whether elements lie in the order of their indices, as many in each place, or one."""
    size = places[0].layout.size
    return all(_is_contiguous(p.layout) and p.layout.size in (1, size) for p in places)


def _reshaped(place: Place, shape: tuple[int, ...]) -> Place:
    """A place of elements in order, seen in another shape."""
    layout = place.layout
    if layout.size == 1:
        return place._replace(layout=layout_of((), (), layout.dtype, layout.device))
    strides = contiguous_strides(shape, layout.dtype.itemsize)
    return place._replace(layout=layout_of(shape, strides, layout.dtype, layout.device))


def _alike(one: Place, other: Place) -> bool:
    """Whether two places are the same elements in the same order."""
    if one == other:
        return True
    a, b = one.layout, other.layout
    same = one.memory == other.memory and one.offset == other.offset and a.dtype == b.dtype and a.size == b.size
    return same and _is_contiguous(a) and _is_contiguous(b)


def _launch(draft: Draft, operands: list[Operand], stored: list[str], loaded: list[str], letters: str) -> Any:
    """The kernel on a GPU; False where the entries run one by one."""
    from .._backends.cuda.groups import launch_of, row_launch_of

    if len(draft.entries) < 2:
        return False  # which has a kernel of its own
    assert draft.shape is not None
    try:
        if draft.body.rows:
            shape, stay = draft.shape, draft.stay
            seen = _seen_in_rows(shape, stay, frozenset(draft.body.rows), operands)
            whole = (*shape[:stay], math.prod(shape[stay:]))
            return row_launch_of(draft.body, whole, seen, stored, loaded, letters) or False
        return launch_of(draft.body, draft.shape, operands, stored, loaded)
    except (ValueError, KeyError):
        return False


def _written(entry: Entry) -> list[int]:
    """The values whose memory an entry writes."""
    places = [(entry.arguments[i], k) for i, k, _ in entry.recipe.written]
    return [v for argument, k in places for v in [argument if k is None else argument[k]] if v.__class__ is Value]


def _overlaps(layout: Layout) -> bool:
    """Whether elements share memory."""
    reach = 0
    for stride, n in sorted((s, n) for s, n in zip(layout.strides, layout.shape) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (n - 1)
    return False


def _call_text(entry: Entry) -> str:
    return f"{entry.operator.name}({', '.join(map(repr, entry.arguments))})"


def _kernel_text(made: ir.Kernel) -> str:
    from .._kernels import llvm

    return llvm.module_of(made, exact=True)
