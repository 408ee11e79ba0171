"""Plans of the pipeline on an NPU: what a run launches is noted once, and queued again as it is from then on.

A run that is noted computes step by step, by the kernels of eager calls. Each launch is kept with its executor and the
places of its tensors: an input of the plan, a result, or memory between steps. From the next run on no kernel is asked:
results are allocated, one block holds all else (the workspace of all launches, and what lies between steps, planned
over the whole run), and the executors follow the addresses.

What waits for the device, copies from the host or has sizes that depend on data cannot be noted; such plans run step by
step. So do inputs that lie otherwise in their storages than those that were noted, and other numbers, until they have
come twice.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..._core.planning import forget_plans
from .array import NpuArray, NpuStorage, array_on, fresh_storage
from .errors import NpuError
from .kernel import GONE, Prepared, generation, number_key
from .launch import described
from .layout import Layout
from .memory import Block, pool_of, rounded
from .notes import Noted, Notes, Shared, destroy_left, leave, take
from .runtime import at_stop, noting, started, thread
from .streams import current

PROGRAMS = 4  # of a plan: for other numbers, and inputs that lie otherwise
ATTEMPTS = 3  # to note a run: the first may copy from the host what later ones find in a cache


class Life(NamedTuple):
    """Memory that a run takes: how much, and the launches between which it is needed."""

    nbytes: int
    first: int
    last: int


def lives_of(launches: Sequence[Noted], known: dict[int, int]) -> tuple[dict[int, Life], dict[int, NpuStorage]]:
    """The storages that launches begin to write, and those that were there before, by identity; `known` are others.

    ValueError where one that was there before is written: then launches would not do the same again.
    """
    lives: dict[int, Life] = {}
    before: dict[int, NpuStorage] = {}
    for at, noted in enumerate(launches):
        for storage, parameter in zip(noted.storages, noted.parameters, strict=True):
            number = id(storage)
            if number in lives:
                lives[number] = lives[number]._replace(last=at)
            elif number in before and parameter.is_written:
                raise ValueError("memory that was there before is written")
            elif number not in known and number not in before:
                if parameter.is_written:
                    lives[number] = Life(storage.nbytes_, at, at)
                else:
                    before[number] = storage
    return lives, before


def arranged(lives: dict[int, Life], begin: int) -> tuple[dict[int, int], int]:
    """Where each piece of memory lies in a block, behind `begin` bytes, and how large that is; the largest go first."""
    placed: list[tuple[int, int, Life]] = []
    offsets: dict[int, int] = {}
    for number, life in sorted(lives.items(), key=lambda item: -item[1].nbytes):
        size, at = rounded(life.nbytes), begin
        for start, end, other in sorted(placed, key=lambda p: p[0]):
            if at + size > start and at < end and life.first <= other.last and other.first <= life.last:
                at = end
        placed.append((at, at + size, life))
        offsets[number] = at
    return offsets, max([begin, *(end for _, end, _ in placed)])


class Launch:
    """One launch of a program; `places` are those of its tensors' storages among the addresses of a run."""

    __slots__ = ("arguments", "kept", "op", "places", "step")

    def __init__(self, noted: Noted, places: list[int]) -> None:
        self.kept, self.places, self.step = noted.kept, places, noted.step
        self.arguments, self.op = noted.arguments, noted.op


class Result(NamedTuple):
    """An array that a run gives: the place of its storage, and how it lies there."""

    place: int
    layout: Layout
    offset: int


class Program:
    """The launches of a plan, over addresses: of inputs, results, what is between steps, and what was there before."""

    def __init__(self, notes: Notes, numbers: tuple, inputs: Sequence[NpuArray], outputs: Sequence[NpuArray]) -> None:
        """ValueError where what was noted does not tell where everything comes from."""
        self.numbers, self.generation, self.device = numbers, generation[0], inputs[0].device_index
        self.layouts = [array.layout for array in inputs]
        self.together: list[tuple[int, int]] = []  # inputs that lie in one storage
        places: dict[int, int] = {}
        for at, array in enumerate(inputs):
            first = places.setdefault(id(array.storage), at)
            if first != at:
                self.together.append((first, at))
        lives, before = lives_of(notes.launches, places)
        given = {id(array.storage): array.storage for array in outputs if id(array.storage) not in places}
        if not given.keys() <= lives.keys() | before.keys():
            raise ValueError("no launch touches a result")
        self.given = [(storage.device, storage.nbytes_) for number, storage in given.items() if number in lives]
        between = {number: life for number, life in lives.items() if number not in given}
        self.workspace = max([noted.kept.size for noted in notes.launches], default=0)
        offsets, self.block_size = arranged(between, rounded(self.workspace) if self.workspace else 0)
        self.offsets, self.before = list(offsets.values()), list(before.values())
        for at, number in enumerate([*(n for n in given if n in lives), *offsets, *before]):
            places[number] = len(inputs) + at
        self.launches = [Launch(noted, [places[id(s)] for s in noted.storages]) for noted in notes.launches]
        self.results = [Result(places[id(array.storage)], array.layout, array.offset) for array in outputs]
        self.shared = notes.shared()
        take(self.shared)

    def __del__(self) -> None:
        leave(getattr(self, "shared", ()))

    def fits(self, numbers: tuple, layouts: list[Layout], inputs: Sequence[NpuArray]) -> bool:
        """Whether a run with these numbers and inputs launches the same."""
        if self.layouts != layouts or self.numbers != numbers:
            return False
        return all([inputs[a].storage.address == inputs[b].storage.address for a, b in self.together])

    def run(self, plan: Any, inputs: Sequence[NpuArray]) -> list[NpuArray]:
        """Queues the launches; the arrays of the plan's outputs."""
        device = self.device
        if thread.ready != device:
            started(device)
        pool, stream = pool_of(device), current.handles[device]
        storages = [array.storage for array in inputs]
        storages += [fresh_storage(nbytes, pool, stream or 0, where) for where, nbytes in self.given]
        block: Block | None = pool.allocate(self.block_size, stream or 0) if self.block_size else None
        base = 0 if block is None else block.address
        addresses = [storage.address for storage in storages]
        addresses += [base + offset for offset in self.offsets]
        addresses += [storage.address for storage in self.before]
        launch, workspace = None, (base, self.workspace)
        try:
            for launch in self.launches:
                given = [addresses[place] for place in launch.places]
                failed = launch.kept.run(given, pool, stream, workspace)
                while failed is GONE:  # its operator's kernel has dropped it
                    self._renew(launch)
                    failed = launch.kept.run(given, pool, stream, workspace)
                if failed is not None:
                    raise self._error(launch, failed)
        except RuntimeError as error:
            assert launch is not None
            error.pipeline_entry = plan.steps[launch.step].entries[0]  # type: ignore[attr-defined]
            raise
        finally:
            if block is not None:
                pool.returned.append(block)  # whoever gets it next is queued behind these launches
        storages += [None] * len(self.offsets)  # type: ignore[list-item]
        storages += self.before
        return [array_on(layout, offset, storages[place]) for place, layout, offset in self.results]

    def _renew(self, launch: Launch) -> None:
        launch.kept = Prepared(launch.kept.runtime, launch.kept.operator, launch.arguments)
        made = Shared(launch.kept)
        take([made])
        self.shared.append(made)

    @staticmethod
    def _error(launch: Launch, failed: tuple[str, int]) -> NpuError:
        kept = launch.kept
        error = kept.runtime.error(*failed, described(kept.operator.symbol, launch.arguments, launch.op))
        kept.destroy()  # nobody knows what state it is in
        return error


def _began(step: int) -> None:
    notes = noting.get(threading.get_ident())
    if notes is not None:
        notes.step = step


class Runs:
    """Runs a plan: `steps` one by one while they are noted, by a program from then on."""

    def __init__(self, steps: Callable[[Callable[[int], None]], Callable[..., list[Any]]]) -> None:
        self.steps = steps(_began)
        self.programs: list[Program] = []
        self.missed: tuple | None = None  # what the last run that was not noted was given
        self.refusals = 0

    def __call__(self, plan: Any, inputs: Sequence[NpuArray], numbers: Sequence[Any]) -> list[NpuArray]:
        destroy_left()
        if plan.timed:
            return self._noted(plan, inputs, numbers)[0]
        values, layouts = tuple(map(number_key, numbers)), [array.layout for array in inputs]
        for program in self.programs:
            if program.fits(values, layouts, inputs):
                if program.generation == generation[0]:
                    return self._run(program, plan, inputs)
                self._drop(program)
        missed, self.missed = self.missed, (values, *layouts)
        if self.refusals >= ATTEMPTS or len(self.programs) >= PROGRAMS and missed != self.missed:
            return self.steps(plan, inputs, numbers)
        made, new = self._noted(plan, inputs, numbers, values)
        if new is None:
            self.refusals += 1
        else:
            self.programs = [new, *self.programs[: PROGRAMS - 1]]
        return made

    def _run(self, program: Program, plan: Any, inputs: Sequence[NpuArray]) -> list[NpuArray]:
        try:
            return program.run(plan, inputs)
        except NpuError:
            self._drop(program)
            raise

    def _drop(self, program: Program) -> None:
        self.programs = [known for known in self.programs if known is not program]

    def _noted(self, plan: Any, inputs: Sequence[NpuArray], numbers: Sequence[Any],
               values: tuple | None = None) -> tuple[list[NpuArray], Program | None]:  # fmt: skip
        """The results of the steps, and a program that launches the same again for numbers with these stand-ins."""
        notes, thread_id = Notes(), threading.get_ident()
        noting[thread_id] = notes
        try:
            made = self.steps(plan, inputs, numbers)
        except BaseException:
            leave(notes.shared())
            raise
        finally:
            del noting[thread_id]
        for at, step in enumerate(plan.steps):
            step.launches = [noted.kept.operator.symbol for noted in notes.launches if noted.step == at]
        program = None
        if values is not None and not notes.refused:
            try:
                program = Program(notes, values, inputs, made)
            except ValueError:  # it runs step by step
                program = None
        leave(notes.shared())
        return made, program


at_stop.append(lambda runtime: forget_plans())  # which may rest on what the chip has
