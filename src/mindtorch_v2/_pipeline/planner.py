"""From a trace to a plan: what nobody needs is left out, and pointwise entries are put together.

Entries are taken in the order of the program. A step's place in the plan is that of its first entry, and an entry joins
a step if it may as well happen there: what it reads is there already, and what it writes was not read in between.
Values are told apart by their memory (`Place`): an entry that writes memory is as any other, except that what it writes
may have been read before.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.geometry import contiguous_strides
from .._kernels import ir
from .._kernels.pointwise import CHUNK
from .drafts import Draft, Place, alike, is_contiguous, is_flat, looked_at, overlaps, reshaped
from .fetches import cuts_of
from .fuse import Operand, geometry, in_rows, kernel, of_rows, row_geometry, row_kernel, run_of
from .gathers import Writer
from .plan import Plan, Step
from .products import Matrix, Part, Product, join_products, product_of
from .run import Form, Group, Sum, memory_of, runner_of
from .sums import Together, join_sums
from .trace import Entry, Free, Trace, Value

HOSTS = ("cpu", "meta")  # the CPU, and what is planned as for it, and never run
FUSED = (*HOSTS, "cuda")  # the devices that have kernels of groups
ROWS = {"cpu": CHUNK, "meta": CHUNK, "cuda": 8192}  # those that have kernels of rows, and the most elements of one
WRITING_ROWS = ("cuda",)  # those whose kernels of rows have read all that they read before they write
_MOST_ENTRIES, _MOST_ARRAYS = 48, 24  # of one kernel
_MOST_SUMS, _LEAST_SUMMED = 4, 64  # sums of one kernel, and elements that lie in order of which a part is summed
_FEW = 8  # arrays that what follows may have besides
_SMALL = 1 << 18  # bytes


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
        self.last_outside: Draft | None = None  # that writes memory which was there before
        self.waiting: dict[int, int] = {}  # by the memory of the result: maps that are part of what will read them
        self.makers: dict[int, int] = {}  # by memory: the pointwise entry, or map in a step, that made a value
        self.changed: dict[int, int] = {}  # by memory: the last entry that wrote it
        self.outside = {self._memory(n) for n in plan.inputs}
        self.live = {self._memory(n) for n in plan.outputs}
        self.needed = self._find_needed()
        self.readers: dict[int, int] = {}  # by memory: how many entries read it
        for at in self.needed:
            for memory in {self._memory(n) for n in plan.entries[at].operands()}:
                self.readers[memory] = self.readers.get(memory, 0) + 1

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
            self._settle(entry)
            self.changed.update([(self._memory(n), at) for n in (*entry.results, *_written(entry)) if n is not None])
            if self._waits(entry):
                self.waiting[self._memory(entry.results[0])] = at  # type: ignore[arg-type]
                continue
            joins = self._joined if recipe.expression is not None else self._folded
            if recipe.expression is recipe.fold is recipe.row is None or not joins(at, entry):
                self._call(at, entry)
            if rest is not None:
                self._call(rest, self.plan.entries[rest])
        for memory in list(self.waiting):
            self.run_alone(memory)
        join_products(self)
        join_sums(self)
        reads = self._dropped_unread()
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

    # gather maps ---------------------------------------------------------------------------------------------------

    def _waits(self, entry: Entry) -> bool:
        """Whether a call is a map that can be part of what reads its result."""
        made = entry.results[0] if entry.results else None
        if entry.recipe.gather is None or made is None:
            return False
        layout = self.plan.layouts[made]
        others = [self._memory(n) for n in entry.results[1:] if n is not None]
        if any(memory in self.live or self.readers.get(memory) for memory in others):
            return False
        taken = bool(others) or any(self._memory(n) in self.makers or self._memory(n) in self.waiting
                                    for n in entry.operands())  # fmt: skip
        read = self.readers.get(self._memory(made), 0) > 0 or taken  # what nobody reads yet may take others in
        return layout.device.type in FUSED and not overlaps(layout) and read

    def is_alone(self, memory: int) -> bool:
        """Whether one entry reads a value, and nobody holds it."""
        return memory not in self.live and self.readers.get(memory) == 1

    def _settle(self, entry: Entry) -> None:
        """Has maps run as calls that cannot wait: what they read is written, or they may fail and come before others
        that may fail, or that write what outlives a failure.
        """
        written = {self._memory(n) for n in _written(entry)}
        late = entry.recipe.fails and entry.recipe.gather is None or not written.isdisjoint(self.outside)
        for memory, at in list(self.waiting.items()):
            other = self.plan.entries[at]
            read = {memory, *(self._memory(n) for n in other.operands())}
            if self._changes(entry, other):
                read.remove(memory)
            if memory in self.waiting and (late and other.recipe.fails or not written.isdisjoint(read)):
                self.run_alone(memory)

    def _changes(self, entry: Entry, other: Entry) -> bool:
        """Whether an entry writes what a map gives, element by element, over it: as if it made a value of its own."""
        if entry.kind != "write" or entry.recipe.expression is None or 0 not in entry.recipe.expression.loads:
            return False
        made = other.results[0]
        return made is not None and self.place(entry.arguments[0]) == self.place(made) and not other.recipe.fails

    def run_alone(self, memory: int) -> None:
        """Has a map run as a step: a kernel with the pointwise calls that it takes in, or that need not make all that
        a call would, or a call.
        """
        at = self.waiting[memory]
        made = self.plan.entries[at].results[0]
        assert made is not None
        place = self.place(made)
        writer = self._written_down(Draft(0, place.layout.shape), {place: made})
        less = len(self.plan.entries[at].results) > 1 and place.layout.device.type in HOSTS
        if writer is not None and (len(writer.entries) > 1 or less) and not writer.wrong:
            for other in writer.unready.intersection(self.waiting):
                self.run_alone(other)
            self._commit(self._begun(place.layout.shape, len(self.drafts)), {place: made})
        else:
            del self.waiting[memory]
            self._call(at, self.plan.entries[at])

    def _written_down(self, draft: Draft, maps: dict[Place, int]) -> Writer | None:
        """What loads the results of maps in a step, if it can."""
        writer = Writer(self, draft)
        if not all([writer.take(place, number) for place, number in maps.items()]):
            return None
        held = len(self.live.intersection(draft.content))
        if len(draft.loaded) + len(writer.sources) + held >= _MOST_ARRAYS or writer.wrong and draft.writes:
            return None
        if any(look.memory in draft.content for look in writer.sources):
            return None
        if draft.body.rows or draft.sums:
            seen = looked_at(writer.shape, writer.sources, writer.dimensions())
            if not all(run_of(layout, writer.shape, draft.stay) for layout in seen):
                return None
        return writer

    def _maps_among(self, entry: Entry, places: dict[int, Place], shape: tuple[int, ...]) -> Writer | None:
        """What writes down the operands that maps give, where an entry takes them into its step; others are calls."""
        maps: dict[Place, int] = {}
        for i, place in places.items():
            at = self.waiting.get(place.memory)
            if at is None:
                continue
            made = self.plan.entries[at].results[0]
            assert made is not None
            if self.is_alone(place.memory) or place == self.place(made) and place.layout.shape == shape:
                maps[place] = entry.arguments[i]
            else:
                self.run_alone(place.memory)
        if not maps:
            return None
        writer = self._written_down(Draft(0, shape), maps)
        for memory in () if writer is None else writer.unready.intersection(self.waiting):
            self.run_alone(memory)
        if writer is not None and writer.wrong:  # what fails first is told
            for memory, at in list(self.waiting.items()):
                if at not in writer.entries and at < max(writer.entries) and self.plan.entries[at].recipe.fails:
                    self.run_alone(memory)
        if writer is not None and all(place.memory in self.waiting for place in maps):
            return writer
        for place in maps:
            if place.memory in self.waiting:
                self.run_alone(place.memory)
        return None

    def _dropped_unread(self) -> dict[int, int]:
        """Leaves steps out of which nothing is read any more; the last step that reads each memory."""
        while True:
            reads = self.reads()
            unread = [d for d in self.drafts if d.shape is not None and d.together is None and not d.sums
                      and not d.writes and not d.body.wrong and not any(
                memory in self.live or reads.get(memory, -1) > d.index for memory in d.content)]  # fmt: skip
            if not unread:
                return reads
            self.drop(unread[0])

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
        return [*(number for _, number in draft.loaded.values()), *(look.number for look in draft.sources)]

    def _call(self, at: int, entry: Entry) -> None:
        for number in entry.operands():
            if self._memory(number) in self.waiting:
                self.run_alone(self._memory(number))
        draft = self._begun(None, len(self.drafts))
        draft.entries.append(at)
        for number in entry.operands():
            self.last_read[self._memory(number)] = draft
        for made in (*entry.results, *_written(entry)):
            if made is not None:
                self.last_write[self._memory(made)] = draft
        if not self.outside.isdisjoint([self._memory(n) for n in _written(entry)]):
            self.last_outside = draft
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
        if made.layout.device.type not in self.fused or overlaps(made.layout) or not made.layout.size:
            return False
        if any(ir.type_of(p.layout.dtype) is None for p in (made, *operands.values())):
            return False
        writer = self._maps_among(entry, operands, shape)
        maps = {} if writer is None else {taken.place: taken.number for taken in writer.taken}
        given, operands = operands, {i: place for i, place in operands.items() if place not in maps}
        self._merge_makers(shape, operands)
        last = -1 if writer is None else writer.last_written()
        first = self._earliest(entry, made, operands)
        for draft in self._candidates(max(first, last + 1, 0), made, operands):
            assert draft.shape is not None
            if maps:
                fits = draft.shape == shape and self._fits(draft, entry, made, operands)
                writer = self._written_down(draft, maps) if fits else None
                if writer is not None:
                    writer.commit()
                    self._add(draft, at, entry, target, made, given)
                    return True
                continue
            if draft.rows and self._joins_rows(draft, at, entry, made, operands):
                return True
            if draft.shape == shape:
                seen, read = made, operands
            elif math.prod(draft.shape) == made.layout.size and is_flat([made, *operands.values()]):
                seen = reshaped(made, draft.shape)
                read = {i: reshaped(p, draft.shape) for i, p in operands.items()}
            else:
                continue
            if self._fits(draft, entry, seen, read):
                self._add(draft, at, entry, target, seen, read)
                return True
        if not self._fits(Draft(0, shape), entry, made, operands):
            return False
        early = entry.kind == "pointwise" and made.layout.nbytes <= _SMALL  # so that larger steps are not parted by it
        draft = self._begun(shape, max(first, last) + 1 if early else len(self.drafts))
        self._commit(draft, maps)
        self._add(draft, at, entry, target, made, given)
        return True

    def _merge_makers(self, shape: tuple[int, ...], operands: dict[int, Place]) -> None:
        """Makes one step of two that compute the operands of an entry, where one of them may as well happen with the
        other: nobody else reads what it makes, and what it reads is the same there.
        """
        makers = {id(draft): draft for place in operands.values() for draft in [self.last_write.get(place.memory)]
                  if draft is not None and draft.shape == shape and not (draft.body.rows or draft.sums or draft.writes)}
        if len(makers) != 2:
            return
        for moved, kept in itertools.permutations(makers.values()):
            entries = [self.plan.entries[at] for at in moved.entries]
            if moved.sources or any(entry.kind != "pointwise" for entry in entries):
                continue
            written = [self.last_write.get(place.memory) for place in moved.loaded]
            free = all(draft is None or draft.index < min(moved.index, kept.index) for draft in written)
            unread = all(self.last_read.get(memory) is None for memory in moved.content)
            arrays = len(moved.loaded) + len(kept.loaded) + len(kept.sources)
            if free and unread and arrays < _MOST_ARRAYS - _FEW and len(entries) + len(kept.entries) < _MOST_ENTRIES:
                self._move(moved, kept)
                return

    def _move(self, moved: Draft, kept: Draft) -> None:
        """Puts the entries of one step into another."""
        for at in moved.entries:
            entry = self.plan.entries[at]
            target, expression = entry.results[0], entry.recipe.expression
            assert target is not None and expression is not None
            made, operands = self.place(target), {i: self.place(entry.arguments[i]) for i in expression.loads}
            if made.layout.shape != kept.shape:
                made = reshaped(made, kept.shape or ())
                operands = {i: reshaped(place, kept.shape or ()) for i, place in operands.items()}
            self._add(kept, at, entry, target, made, operands)
        for place in moved.loaded:
            if self.last_read.get(place.memory) is moved:
                self.last_read[place.memory] = kept
        self.drop(moved)

    def _commit(self, draft: Draft, maps: dict[Place, int]) -> None:
        """Makes maps part of a new step."""
        writer = self._written_down(draft, maps)
        assert writer is not None
        writer.commit()

    def _folded(self, at: int, entry: Entry) -> bool:
        """Puts what looks at whole rows into a step that computes them, a new one if they are short."""
        source = self.place(entry.arguments[0])
        self._begin_with_map(entry, source)
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
            if kind in ("sum", "mean") and self._summed(at, entry, source):
                return True
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

    def _begin_with_map(self, entry: Entry, source: Place) -> None:
        """Begins a step with the map that gives what an entry looks at; other maps that it reads are calls."""
        writer = self._maps_among(entry, {0: source}, source.layout.shape)
        maps = {} if writer is None else {taken.place: taken.number for taken in writer.taken}
        for number in entry.operands():
            memory = self._memory(number)
            if memory in self.waiting and source not in maps:
                self.run_alone(memory)
        if maps:
            self._commit(self._begun(source.layout.shape, len(self.drafts)), maps)

    def _takes_rows(self, draft: Draft, source: Place, places: list[Place], stay: int) -> bool:
        """Whether a step computes the rows of a value, and its arrays lie in such rows."""
        shape = source.layout.shape
        known = draft.content.get(source.memory)
        if draft.shape != shape or known is None or known[0] != source or draft.writes or draft.sums:
            return False
        if draft.body.rows and draft.stay != stay or len(draft.entries) >= _MOST_ENTRIES:
            return False
        own = [*draft.loaded, *(p for p, _, _ in draft.content.values() if p.memory not in draft.rows), *places]
        seen = [*(p.layout for p in own), *looked_at(shape, draft.sources, draft.body.places)]
        return source.memory not in draft.rows and all(run_of(layout, shape, stay) for layout in seen)

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
        places = [*draft.loaded, *(place for place, _, _ in draft.content.values())]
        seen = [*(place.layout for place in places), *looked_at(draft.shape, draft.sources, draft.body.places)]
        shape = draft.shape
        parts = [draft.stay] if draft.sums else range(stay, len(shape))
        found = next((n for n in parts if n >= stay and all(run_of(layout, shape, n) for layout in seen)), None)
        if found is None or found > stay and math.prod(shape[found:]) < _LEAST_SUMMED:
            return False
        assert made is not None
        draft.sums.append((known[1], made, kind == "mean"))
        draft.stay = found  # what is summed may be many such parts
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
            read = {p.memory for p in draft.loaded}.union([look.memory for look in draft.sources])
            if draft.shape is not None and not (wanted.isdisjoint(draft.content) and wanted.isdisjoint(read)):
                found.append(draft)
        return found

    def _fits(self, draft: Draft, entry: Entry, made: Place, operands: dict[int, Place]) -> bool:
        held = len(self.live.intersection(draft.content))  # others are most likely read by this step alone
        if len(draft.entries) >= _MOST_ENTRIES or len(draft.loaded) + len(draft.sources) + held >= _MOST_ARRAYS:
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
            elif known is not None and not alike(known[0], place):
                return False  # another part of it, or in another order
        if entry.kind == "write":
            known = draft.content.get(made.memory)
            if known is not None and not alike(known[0], made):
                return False
            read = [*draft.loaded, *operands.values()]
            if any(p.memory == made.memory and not alike(p, made) for p in read):
                return False
            if draft.body.wrong or any(look.memory == made.memory for look in draft.sources):
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
            if known is None or not alike(known, place):
                return False
        count = math.prod((draft.shape or ())[: draft.stay])
        if made.layout.size != count or not is_contiguous(made.layout):
            return False
        target = entry.results[0]
        assert target is not None
        draft.body.rows.add(draft.next_name())
        self._add(draft, at, entry, target, made, operands)
        draft.rows[made.memory] = made
        return True

    def _loaded(self, draft: Draft, place: Place, number: int) -> str:
        """The name of a value that a step has, or loads."""
        if place in draft.gathered:
            return draft.gathered[place]
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
        if entry.kind == "pointwise":
            self.makers[made.memory] = at
        else:
            self.makers.pop(made.memory, None)
            if made.memory in self.outside:
                self.last_outside = draft

    # what a step becomes -------------------------------------------------------------------------------------------

    def _step(self, draft: Draft, reads: dict[int, int]) -> Step:
        plan = self.plan
        entry = plan.entries[draft.entries[0]]
        if draft.product is not None:
            return product_step(plan, draft.entries, *draft.product)
        if draft.together is not None:
            return sum_step(plan, draft.entries, draft.together)
        if draft.shape is None or len(draft.entries) == len(entry.results) == 1 and entry.recipe.expression is None:
            return call_step(plan, draft.entries)
        kept = []
        for memory, (place, name, number) in draft.content.items():
            if memory in draft.writes or memory in self.live or reads.get(memory, -1) > draft.index:
                kept.append((place, name, number))
        kept.sort(key=lambda k: -k[0].layout.nbytes)
        loaded, looks = list(draft.loaded.items()), list(draft.sources)
        read = [number for _, (_, number) in loaded] + [look.number for look in looks]
        inputs = list(dict.fromkeys(read + list(draft.writes.values())))
        outputs = [number for place, _, number in kept if place.memory not in draft.writes]
        step = Step("pointwise", draft.entries, inputs, outputs)
        root, offset = self.places.root, self.places.offset
        operands = [Operand(name, place.layout, offset[number]) for place, name, number in kept]
        operands += [Operand(name, place.layout, offset[number]) for place, (name, number) in loaded]
        operands += [Operand(draft.sources[look], look.layout, look.start) for look in looks]
        seen = looked_at(draft.shape, looks, draft.body.places)[len(looks) :]
        places = [Operand(f"i{d}", layout, 0) for d, layout in zip(draft.body.places, seen, strict=True)]
        stored, names = [name for _, name, _ in kept], [name for _, (name, _) in loaded]
        sums = [Sum(number, mean) for _, number, mean in draft.sums]
        step.kind = "row" if draft.body.rows else "reduction" if sums else "pointwise"
        step.outputs += [one.number for one in sums]
        rows = frozenset(draft.body.rows)
        words, letters = geometry_of(step.kind, draft.shape, draft.stay, rows, operands + places, len(kept))
        on_host = operands[0].layout.device.type in HOSTS
        reused = self._reused(draft, kept, reads) if on_host and not draft.body.rows else {}
        draft.body.cuts = cuts_of(draft.body, draft.words)
        if draft.body.rows:
            step.kernel = row_kernel(draft.body, operands, stored, names, letters)
        else:
            summed = [name for name, _, _ in draft.sums]
            shared = self._sharing(draft, kept, reused)
            step.kernel = kernel(draft.body, operands, stored, names, letters, summed, int(words[0]), shared)
        values = [number for _, _, number in kept] + read
        arrays = [root[number] for number in values]
        frees = [draft.frees[int(name[1:])] for name in draft.body.numbers]
        launch = None
        if operands[0].layout.device.type == "cuda":
            launch = _launch(draft, operands + places, stored, names, letters)
        if looks:
            words = np.array([*words, *draft.words], np.int64)
        else:
            layouts = [o.layout for o in operands]
            step.form = Form(stored + names, values, layouts, len(kept), draft.stay, rows, letters)
        step.group = Group(words, arrays, frees, draft.shape, [o.offset for o in operands], launch, sums, reused,
                           bool(draft.body.wrong))  # fmt: skip
        step.bytes = sum([o.layout.nbytes for o in operands[: len(operands) - len(looks)]])
        step.bytes += sum([self.plan.layouts[number].nbytes for number in {look.number for look in looks}])
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
        seen = [*(place.memory for place in draft.loaded), *(look.memory for look in draft.sources)]
        for place in draft.loaded if not draft.body.wrong else ():
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


def _launch(draft: Draft, operands: list[Operand], stored: list[str], loaded: list[str], letters: str) -> Any:
    """The kernel on a GPU; False where the entries run one by one."""
    from .._backends.cuda.groups import launch_of

    written = written_for_cuda(draft, operands, stored, loaded, letters)
    return False if written is None else launch_of(written)


def written_for_cuda(draft: Draft, operands: list[Operand], stored: list[str], loaded: list[str], letters: str) -> Any:
    """The kernel of a step as CUDA C, with what it is launched with; None where there is none."""
    from .._backends.cuda.group_sources import group_of, row_group_of

    if len(draft.entries) < 2:
        return None  # which has a kernel of its own
    assert draft.shape is not None
    try:
        if draft.body.rows:
            shape, stay = draft.shape, draft.stay
            seen = _seen_in_rows(shape, stay, frozenset(draft.body.rows), operands)
            whole = (*shape[:stay], math.prod(shape[stay:]))
            return row_group_of(draft.body, whole, seen, stored, loaded, letters, draft.words)
        return group_of(draft.body, draft.shape, operands, stored, loaded, draft.words)
    except (ValueError, KeyError):
        return None


def _written(entry: Entry) -> list[int]:
    """The values whose memory an entry writes."""
    places = [(entry.arguments[i], k) for i, k, _ in entry.recipe.written]
    return [v for argument, k in places for v in [argument if k is None else argument[k]] if v.__class__ is Value]


def _call_text(entry: Entry) -> str:
    return f"{entry.operator.name}({', '.join(map(repr, entry.arguments))})"


def _kernel_text(made: ir.Kernel) -> str:
    from .._kernels import llvm

    return llvm.module_of(made, exact=True)
