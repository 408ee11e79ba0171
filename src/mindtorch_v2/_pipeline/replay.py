"""Plans of compiled functions that are run again without the Python that recorded them.

A call is recorded twice before it is replayed: the first time finds out which functions of the program run, the second
that it is these again, what they read, and that they leave everything else as it was. What is not guarded is said in
docs/compile.md.

In mode "reduce-overhead" that happens to all calls, and the runs become graphs of a device that has them. In the others
calls come before that are as if there were no replays, so that a function that comes with other arguments each time
pays nothing; and calls whose results need gradients, or are views, are not replayed: their graph stays eager's.
"""

import random
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._autograd.node import saving_hooks, version_of
from .._core.generator import default_generator
from .._core.planning import changes
from .._core.tensor import Tensor
from .._dispatch.keys import BACKEND_MASK, VIEW_MASK, WITH_GRAD
from ..utils import _pytree as pytree
from .backward import Backward, CompiledFunctionBackward, overlap, view_of
from .captured import Runs
from .ending import Element
from .factors import known_factors, run_with_factors
from .guards import Surroundings, ambient, global_hooks, key_of
from .parts import Parts
from .sources import Gradients, Held, Owner, Sources, Written, is_spent, twin_of
from .trace import Trace, address_of
from .watching import NotGuarded, Watched

_MOST = 64  # kinds of arguments that are kept
_TRIED = 4  # times after which hooks that come and go are no reason to try again
_HOPELESS = 64  # calls that could not be replayed, more than those that were, after which it is no longer tried
_SEEN = object()  # of a kind of calls of which there was one
_LEAST = 4  # calls that take longer than it takes to look at guards
_MOVED = 1 << 17  # bytes that are likewise
_UNHELD = 4  # references to an array that a trace alone holds, while it is counted
_HELD_HERE = 3  # those to a tensor that is counted: a tuple's, a variable's, and that of the count


class Replays:
    """The calls of a compiled function, replayed where they can be."""

    def __init__(self, region: Any, worth: Callable[[], Any], whole: bool) -> None:
        self.region, self.worth = region, worth  # what learns whether recording a kind of calls is worth it
        self.whole = whole  # whether the mode is "reduce-overhead"
        self.known: dict[tuple, Any] = {}  # a Replay, what the first recording Watched, Refused, or _SEEN
        self.refusals: dict[tuple, int] = {}
        self.leaves: Sequence[Tensor] = ()  # that calls give gradients: with and without some, calls are of other kinds
        self.lost = 0  # calls that were not replayed, less those that were since
        self.never = Refused("an argument or a mode", -1, _TRIED + 1, worth())

    def __call__(self, fn: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        tensors: list[Tensor] = []
        try:
            key: tuple = (ambient(), tuple(kwargs), key_of((*args, *kwargs.values()), tensors, {}),
                          self.leaves and tuple([leaf._grad is None for leaf in self.leaves]))  # fmt: skip
            known = self.known.get(key)
        except NotGuarded:
            known, key = self.never, ()
        rated = None
        if known.__class__ is Replay:
            if known.holds(tensors):
                if not known.rates or known.takes_rates():
                    self.lost = max(self.lost - 1, 0)
                    return known.run(tensors)
                rated = known
            known = None if rated is None else rated.watched
        self.lost += 1
        if self.lost > _HOPELESS:
            self.region.replays = None  # until torch._dynamo.reset()
        if known.__class__ is Refused:
            if known.version == changes[0] or known.times > (_TRIED if self.whole else 1):
                return self._plain(known.worth, fn, args, kwargs)
        if len(self.known) >= _MOST:
            self.known.clear()
            self.refusals.clear()
        if known is None and not self.whole:
            self.known[key] = _SEEN
            result = self._plain(self.worth(), fn, args, kwargs)
            if any([_needs_graph(leaf) for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]):
                self._refuse(key, NotGuarded("its results need gradients"))
            return result
        if known.__class__ is not Watched and sys.getprofile() is not None:
            return self._plain(self.worth(), fn, args, kwargs)  # a profiler watches
        return self._recorded(key, known if known.__class__ is Watched else None, fn, args, kwargs, tensors, rated)

    def _plain(self, worth: Any, fn: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What a call gives that no replay is made of."""
        if worth.eager_calls > 0:
            return worth.call(fn, args, kwargs)
        return self.region.record(fn, args, kwargs, "default", worth)

    def _recorded(self, key: tuple, watched: Watched | None, fn: Callable, args: tuple, kwargs: dict[str, Any],
                  tensors: list[Tensor], rated: "Replay | None") -> Any:  # fmt: skip
        """What a call gives; notes what the next one of its kind can do.

        `rated` is the replay that the call would have been with other rates of optimizers.
        """
        region, learning = self.region, None if self.whole else self.worth()
        if watched is None:
            watched = Watched()
            result = region.record(watched.calling(fn), args, kwargs, "default", learning)
            region.last = None
            self.known[key] = watched
            return result
        try:
            watched.check()
            surroundings = Surroundings(fn, watched)
            if global_hooks():
                raise NotGuarded("hooks run at the calls of all modules")
        except NotGuarded as refused:
            self._refuse(key, refused)
            return region.record(fn, args, kwargs, "default", self.known[key].worth)
        sources = Sources(tensors, surroundings.tensors())
        states = _states()
        again = Watched()
        result = region.record(again.calling(fn), args, kwargs, "default", learning, kept=True)
        pipe, region.last = region.last, None
        try:
            again.check()
            if not again.codes.keys() <= watched.codes.keys():
                raise NotGuarded("it runs other functions than before")
            now = _states()
            if pipe is None or states[1:] != now[1:] or states != now and not pipe.draws:
                raise NotGuarded("it draws random numbers")
            sources.check(again.changed)
            if not surroundings.holds():
                raise NotGuarded("it changes what it reads")
            replay = Replay(surroundings, again, pipe, tensors, result, sources, self.whole)
            if rated is not None:
                replay.learn_rates(rated)
            leaves, without = replay.gradients.leaves(sources)
            if leaves and list(map(id, leaves)) != list(map(id, self.leaves)):
                self.known.clear()
                self.leaves = leaves
            self.known[(*key[:-1], without if self.leaves else ())] = replay
        except NotGuarded as refused:
            self._refuse(key, refused)
        return result

    def _refuse(self, key: tuple, why: NotGuarded) -> None:
        self.refusals[key] = self.refusals.get(key, 0) + 1
        before = self.known.get(key)
        worth = before.worth if before.__class__ is Refused else self.worth()
        self.known[key] = Refused(str(why), changes[0], self.refusals[key], worth)

    def reasons(self) -> list[str]:
        """Why calls of some kinds are not replayed."""
        return [known.why for known in self.known.values() if isinstance(known, Refused)]


def _states() -> tuple:
    """Where the streams of random numbers are."""
    return default_generator.get_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]


class Refused(NamedTuple):
    """Why calls of a kind are not replayed, as of when, and how often it was tried."""

    why: str
    version: int  # of hooks and attributes of modules
    times: int
    worth: Any  # whether it is worth recording them


class Replay:
    """A plan, where its inputs come from, and what is made of its outputs."""

    def __init__(self, surroundings: Surroundings, watched: Watched, pipe: Any, tensors: Sequence[Tensor], result: Any,
                 sources: Sources, whole: bool) -> None:  # fmt: skip
        if pipe.cuts or len(pipe.history) != 1:
            raise NotGuarded("elements are looked at, or an operator is not recorded")
        self.surroundings, self.watched = surroundings, watched
        trace, self.plan = pipe.history[0]
        if trace.device.type == "meta":
            raise NotGuarded("there is nothing to run on the Meta device")
        calls = sum(entry.kind != "view" for entry in self.plan.entries)
        if calls < _LEAST and pipe.saved <= 0 and self.plan.left_out() < _MOVED:
            raise NotGuarded("it is too short")
        self.parts = Parts(result, watched.is_new, surroundings.is_fixed)
        leaves = [leaf for leaf in self.parts.leaves if isinstance(leaf, Tensor)]
        if not whole and any([_needs_graph(leaf) or leaf._base is not None for leaf in leaves]):
            raise NotGuarded("its results need gradients, or are views")
        self.gradients = Gradients(sources, pipe.made, "grad" in surroundings.names)
        self._find_inputs(trace, tensors, sources.held, pipe.unwritten, _saved_alone(result))
        needing = self._find_results(trace, pipe.made, pipe.returned, tensors)
        self.parts.leaves = []  # which nobody is to hold longer
        self.bumps = sources.writes()
        if len(tensors) > 1 and any([owner.argument is not None for owner, _ in self.bumps]):
            raise NotGuarded("an argument is written, and there are others, which may lie in the same memory")
        written = [at for at, number in enumerate(trace.inputs) if number in trace.written and at not in self.copied]
        self.written = Written([self.owners[at] for at in written if self.owners[at].argument is None])
        if not self.written.is_apart_from(tensors):
            raise NotGuarded("an argument lies in memory that it writes")
        self.leaves_nothing = not (self.bumps or self.written.owners or self.gradients.are_seen())
        given = {what for kind, what, _ in self.results if kind == "made"} | self.gradients.outputs
        self.runs = Runs(self.plan, trace.numbers, self.copies, given, written)
        if not whole:
            self.runs.capture = None
        self._find_rates(trace.numbers)
        self.last: Any = None  # the node that may still read what the last launch of a graph made
        self.backward: Backward | None = None
        self.saves = bool(needing or self.gradients.changed)  # tensors for a backward pass
        if needing:
            self._find_backward(trace, pipe.made, needing, sources)

    def _find_rates(self, numbers: Sequence[Any]) -> None:
        """Notes which numbers of the plan are options of optimizers."""
        self.rates = [rate.now() for rate in self.surroundings.rates]
        self.rate_places = [[at for at, number in enumerate(numbers) if number is rate] for rate in self.rates]
        self.numbers = list(numbers)
        self.varying: set[int] = set()  # rates that may be others at each call
        self.negated: dict[int, list[int]] = {}  # numbers that are the negative of rates, which all are the same
        self.tried = 0  # how often recordings with other rates were compared

    def learn_rates(self, before: "Replay") -> None:
        """Finds rates that go into the plan, or their negatives: a recording with others had all else alike."""
        self.tried = before.tried + 1
        others = [at for at, rate in enumerate(self.rates) if rate != before.rates[at]]
        negated = dict(before.negated)
        alike = (self.plan is before.plan and self.rate_places == before.rate_places
                 and not self.surroundings.shows(others))  # fmt: skip
        if alike:
            places = {at for own in self.rate_places for at in own}
            for at, (now, then) in enumerate(zip(self.numbers, before.numbers, strict=True)):
                if now != then and at not in places:
                    negated[at] = [i for i in others if now == -self.rates[i] and then == -before.rates[i]]
                    alike = alike and bool(negated[at])
        if alike:
            self.varying, self.negated = before.varying.union(others), negated
            self.runs.capture = None  # a graph has its numbers in it
        elif self.tried >= _TRIED:
            raise NotGuarded("an optimizer has other numbers at each call")

    def takes_rates(self) -> bool:
        """Whether the options of optimizers are those of the recording, or may be others; runs have them then."""
        now = [rate.now() for rate in self.surroundings.rates]
        self.runs.numbers = self.numbers
        if now == self.rates:
            return True
        numbers = list(self.numbers)
        for at, (rate, before) in enumerate(zip(now, self.rates, strict=True)):
            if rate != before:
                if at not in self.varying or (rate == 0) is not (before == 0):  # steps may leave out what does nothing
                    return False
                for place in self.rate_places[at]:
                    numbers[place] = rate
        for place, rates in self.negated.items():
            if len({now[at] for at in rates}) > 1:
                return False
            numbers[place] = -now[rates[0]]
        self.runs.numbers = numbers
        return True

    def _find_backward(self, trace: Trace, made: Sequence[Any], needing: Sequence[Tensor], sources: Sources) -> None:
        """Plans the backward pass of results that need gradients."""
        if any([owner.tensor.requires_grad for owner, _ in self.bumps]):
            raise NotGuarded("it writes a tensor that needs gradients")
        self.needs = sources.derived()
        needs, read = [owner.tensor for owner in self.needs], list(trace.inputs.values())
        try:
            self.backward = Backward(needing, needs, read, made, self.copies, self.runs.given)
        except RuntimeError as error:
            raise NotGuarded(f"its gradients cannot be computed now: {error}") from error
        positions, kept = self.backward.reads("input"), self.backward.reads("made")
        self.saved = [self.owners[position] for position in positions if position in self.owners]
        self.saved_results = [i for i, (kind, what, _) in enumerate(self.results) if kind == "made" and what in kept]

    def _find_inputs(self, trace: Trace, tensors: Sequence[Tensor], held: Sequence[Held],
                     unwritten: dict[int, Any], saved: dict[int, int]) -> None:  # fmt: skip
        """Notes where each input of the plan comes from: an argument, a tensor, a view of one, a constant.

        `saved` says how many tensors, which only the graph of the results holds, an array has.
        """
        arguments = {id(tensor._array): position for position, tensor in reversed(list(enumerate(tensors)))}
        kept = {id(tensor._array): position for position, (_, tensor, _) in reversed(list(enumerate(held)))}
        self.owners: dict[int, Owner] = {}  # by input: the tensor that it is, or shows a part of
        self.constants: list[Any] = []  # arrays by input; None where it is fetched
        self.from_arguments: list[tuple[int, int]] = []  # (input, argument)
        self.fetched: list[tuple[int, Tensor]] = []
        self.from_gradients: list[tuple[int, Tensor]] = []
        self.views: list[tuple[int, Owner, int, Any]] = []  # (input, of what, offset, layout)
        self.copied: list[int] = []  # constants that are written
        used: set[int] = set()
        numbers, arrays = list(trace.inputs), list(trace.inputs.values())
        for position, number in enumerate(numbers):
            layout, own = trace.layouts[number], id(arrays[position])
            self.constants.append(None)
            if own in arguments:
                self.owners[position] = Owner(arguments[own], tensors[arguments[own]])
                self.from_arguments.append((position, arguments[own]))
            elif own in kept:
                used.add(kept[own])
                owner = self.owners[position] = held[kept[own]].owner
                (self.from_gradients if owner.is_gradient else self.fetched).append((position, owner.tensor))
            elif (found := self._part_of(arrays[position], tensors, held)) is not None:
                of_argument, which, offset = found
                owner = Owner(which, tensors[which]) if of_argument else held[which].owner
                self.owners[position] = owner
                self.views.append((position, owner, offset, layout))
                used.update([] if of_argument else [which])
            elif _held_elsewhere(arrays, position, saved.get(own, 0)):
                raise NotGuarded("it reads a tensor whose place is not known")
            else:
                self.constants[position] = unwritten.get(number, arrays[position])
                if number in trace.written:
                    self.copied.append(position)
        # inputs that are other arrays at each call
        self.copies = {position for position, _ in (*self.from_arguments, *self.from_gradients)} | set(self.copied)
        self.copies |= {position for position, owner, *_ in self.views if owner.argument is not None}
        self.places: list[tuple] = []
        self.gradient_places: list[tuple] = []
        for owner, t, still in [held[which] for which in used]:
            places = self.gradient_places if owner.is_gradient else self.places
            places.append((owner.tensor, still, t._keys, weakref.ref(t._array), _geometry(t._array)))
        self.made_views: dict[int, tuple[Any, Any]] = {}

    @staticmethod
    def _part_of(array: Any, tensors: Sequence[Tensor], held: Sequence[Held]) -> tuple | None:
        """Which known array an array shows a part of: (is it an argument's, which one, where it begins in it)."""
        if array.__class__ is np.ndarray and array.base is None:
            return None
        at = address_of(array)
        found = []
        for of_argument, known in ((True, tensors), (False, [tensor for _, tensor, _ in held])):
            for which, tensor in enumerate(known):
                source = tensor._array
                if overlap(source, array):
                    found.append((of_argument, which, at - address_of(source), id(source)))
        return found[0][:3] if found and len({source for *_, source in found}) == 1 else None

    def _find_results(self, trace: Trace, made: Sequence[Any], returned: Any,
                      tensors: Sequence[Tensor]) -> list[Tensor]:  # fmt: skip
        """Notes what is made of the outputs; gives the results that need gradients.

        `returned` is the result with Elements where such were looked at, or None.
        """
        needing: list[Tensor] = []
        leaves = self.parts.leaves
        if returned is not None:
            values, leaves = leaves, pytree.tree_leaves(returned)
            if len(leaves) != len(values):
                raise NotGuarded("it gives other elements than were looked at")
        positions = {id(array): position for position, array in enumerate(made)}
        arguments = {id(tensor): position for position, tensor in enumerate(tensors)}
        places = {id(tensor) for tensor, _ in self.surroundings.tensors()}
        self.results: list[tuple[str, Any, Any]] = []
        roots = {trace.outputs[output] for output in self.gradients.outputs}
        for at, leaf in enumerate(leaves):
            if at in self.parts.objects:
                self.results.append(("object", None, None))
            elif leaf.__class__ is Element:
                source = leaf.tensor
                if id(source._array) not in positions:
                    raise NotGuarded("elements are looked at that it does not compute")
                seen = source._keys & BACKEND_MASK, source._device
                self.results.append(("element", positions[id(source._array)], seen))
            elif not isinstance(leaf, Tensor):
                if not self.surroundings.is_fixed(leaf):
                    raise NotGuarded(f"it gives a {type(leaf).__name__}")
                self.results.append(("value", leaf, None))
            elif id(leaf) in arguments:
                self.results.append(("argument", arguments[id(leaf)], None))
            elif id(leaf) in places:
                self.results.append(("value", leaf, None))
            elif leaf.__class__ is not Tensor or leaf._hooks is not None:
                raise NotGuarded(f"it gives a {type(leaf).__name__}")
            elif id(leaf._array) in positions:
                keys, spent = leaf._keys, leaf.requires_grad and is_spent(leaf)
                if leaf.requires_grad:
                    if leaf._edge is None:
                        raise NotGuarded("it gives a leaf that needs gradients")
                    keys = keys & ~VIEW_MASK | WITH_GRAD[keys & BACKEND_MASK]
                    if not spent:
                        needing.append(leaf)
                place = keys, leaf._device, leaf.requires_grad and not spent, leaf._edge if spent else None
                self.results.append(("made", positions[id(leaf._array)], place))
                root = trace.outputs[positions[id(leaf._array)]]
                if root in roots or leaf._base is not None and leaf._base._version:
                    raise NotGuarded("two of its results are one, or share memory")
                roots.add(root)
            else:
                raise NotGuarded("a result was not recorded")
        return needing

    # running ---------------------------------------------------------------------------------------------------------

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        """Whether all that the call depends on is as it was, but for rates."""
        if not self.surroundings.holds() or not self.fetches() or self.saves and saving_hooks.users:
            return False
        return self.leaves_nothing or self.gradients.expected(tensors) and self.written.is_apart_from(tensors)

    def fetches(self) -> bool:
        """Whether the tensors it reads are in their places, and laid out as they were."""
        for tensor, still, keys, known, geometry in self.places:
            if not still() or tensor._keys != keys:
                return False
            if (array := tensor._array) is not known() and _geometry(array) != geometry:
                return False
        for tensor, still, _, _, geometry in self.gradient_places:
            if not still() or _geometry(tensor._grad._array) != geometry:
                return False
        return True

    def _owner(self, position: int, tensors: Sequence[Tensor]) -> Tensor | None:
        """The tensor that an input is, or shows a part of."""
        owner = self.owners.get(position)
        return None if owner is None else owner.among(tensors)

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """What the call gives."""
        inputs = list(self.constants)
        for position, which in self.from_arguments:
            inputs[position] = tensors[which]._array
        for position, tensor in self.fetched:
            inputs[position] = tensor._array
        for position, tensor in self.from_gradients:
            inputs[position] = tensor._grad._array  # type: ignore[union-attr]
        for position, owner, offset, layout in self.views:
            source, known = owner.among(tensors)._array, self.made_views.get(position)
            if known is None or known[0] is not source:
                known = source, view_of(source, offset, layout)
                if owner.argument is None and not owner.is_gradient:  # which nobody is to hold longer
                    self.made_views[position] = known
            inputs[position] = known[1]
        for position in self.copied:
            inputs[position] = inputs[position].copy()
        if not self.leaves_nothing:
            written = [(owner.among(tensors), count) for owner, count in self.bumps]
            self.gradients.drop(tensors)
        last = self.last and self.last()
        factors = known_factors(self.plan, inputs, lambda at: self._owner(at, tensors))
        made, own = run_with_factors(factors, self.runs, inputs, last is None or not last.held)
        if not self.leaves_nothing:
            for tensor, count in written:
                tensor._version_counter.value += count
            self.gradients.give(tensors, made)
        leaves, needing = [], []
        for kind, what, place in self.results:
            if kind == "made":
                leaf = object.__new__(Tensor)
                leaf._array, (leaf._keys, leaf._device, needs, edge) = made[what], place
                leaves.append(leaf)
                if needs:
                    needing.append(leaf)
                elif edge is not None:
                    leaf._edge = (twin_of(edge[0]), edge[1])
            elif kind == "element":
                leaf = object.__new__(Tensor)
                leaf._array, (leaf._keys, leaf._device) = made[what], place
                leaves.append(leaf.item())
            else:
                leaves.append(tensors[what] if kind == "argument" else what)
        if self.backward is not None:
            saved = [owner.among(tensors) for owner in self.saved]
            saved += [leaves[i].detach() for i in self.saved_results]
            needs = [owner.among(tensors) for owner in self.needs]
            node = CompiledFunctionBackward(self.backward, self.backward.held(inputs, made), saved, needs)
            if own:
                self.last = weakref.ref(node)
            for number, leaf in enumerate(needing):
                leaf._edge = (node, number)
                leaf._edge_version = version_of(leaf)
        return self.parts.joined(leaves)


def _needs_graph(leaf: Tensor) -> bool:
    """Whether gradients may still go through what computed a result."""
    return leaf.requires_grad and not is_spent(leaf)


def _geometry(array: Any) -> tuple:
    return array.__class__, array.shape, array.strides, array.dtype


def _saved_alone(result: Any) -> dict[int, int]:
    """By an array's id, the tensors that it has which nobody but nodes of the results' graph holds."""
    alone: dict[int, int] = {}
    for tensor, times in _saved(result):
        if sys.getrefcount(tensor) <= times + _HELD_HERE:
            alone[id(tensor._array)] = alone.get(id(tensor._array), 0) + 1
    return alone


def _saved(result: Any) -> list[tuple[Tensor, int]]:
    """The tensors that nodes of the results' graph keep, and how often."""
    found: dict[int, tuple[Tensor, int]] = {}
    todo: list[Any] = [leaf._edge for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
    seen: set[int] = set()
    while todo:
        edge = todo.pop()
        if edge is None or edge[1] < 0 or id(edge[0]) in seen:  # a leaf has no node
            continue
        seen.add(id(edge[0]))
        todo += edge[0].edges
        for value in edge[0].saved or ():
            if value.__class__ is Tensor:
                found[id(value)] = value, found[id(value)][1] + 1 if id(value) in found else 1
    return list(found.values())


def _held_elsewhere(arrays: Sequence[Any], position: int, saved: int) -> bool:
    """Whether somebody besides a trace, and so many tensors, holds an array, or the memory that it shows."""
    array = arrays[position]
    if sys.getrefcount(array) > _UNHELD + saved:
        return True
    if array.__class__ is not np.ndarray and not hasattr(array, "memory"):  # which its storage keeps
        sharing = sum(a.storage is array.storage for a in arrays)
        return sys.getrefcount(array.storage) > sharing + 1  # that of the count
    if array.__class__ is not np.ndarray:
        storage = array._storage
        known = 2 + (storage is not None) + (array._view is not None)  # the array, the count, and what is made of it
        shared = storage is not None and sys.getrefcount(storage) > 3  # the array, `storage` and the count
        return shared or array.memory is not None and sys.getrefcount(array.memory) > known
    owner: Any = array
    while isinstance(getattr(owner, "base", None), np.ndarray):
        owner = owner.base
    if getattr(owner, "base", None) is not None:
        return True  # memory of something that is no array
    if owner is array:
        return False
    sharing = sum(a.__class__ is np.ndarray and a.base is owner for a in arrays)
    return sys.getrefcount(owner) > sharing + 2  # `owner` and the count
