"""The tensors around a call that is to be replayed: what it leaves in them, and what a replay has to leave there."""

import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from .._autograd.engine import accumulations
from .._autograd.function import BackwardCFunction
from .._autograd.node import Node, VersionCounter, saving_hooks
from .._core.planning import changes
from .._core.tensor import Tensor
from .trace import address_of, layout_of
from .watching import NotGuarded


class Owner(NamedTuple):
    """A tensor around a call, or its gradient: of an argument, which is another each time, or of one that stays."""

    argument: int | None
    tensor: Tensor
    is_gradient: bool = False

    def among(self, arguments: Sequence[Tensor]) -> Any:
        """The tensor of a call with these arguments."""
        tensor = self.tensor if self.argument is None else arguments[self.argument]
        return tensor._grad if self.is_gradient else tensor


class Held(NamedTuple):
    """A tensor that is not among the arguments, and what tells whether one is in its place that may stand for it."""

    owner: Owner
    tensor: Tensor
    still: Callable[[], bool]


class Given(NamedTuple):
    """A gradient that a call gives: an output of its plan, and the tensor that is made of it."""

    owner: Owner
    output: int
    keys: int
    device: Any
    version: int


class Sources:
    """Arguments, tensors that a call reads in their places, and gradients of those, as they are before it."""

    def __init__(self, arguments: Sequence[Tensor], held: Iterable[tuple[Tensor, Callable[[], bool]]]) -> None:
        known = {id(tensor): (Owner(position, tensor), tensor) for position, tensor in enumerate(arguments)}
        self.held = [Held(Owner(None, tensor), tensor, still) for tensor, still in held]
        self.held += [Held(Owner(None, t, True), t._grad, _has_gradient(t, t._grad)) for _, t, _ in self.held
                      if t._grad is not None]  # fmt: skip
        for owner, tensor, _ in self.held:
            known.setdefault(id(tensor), (owner, tensor))
        self.owners = [owner for owner, _ in known.values()]
        self.tensors = [tensor for _, tensor in known.values()]
        self.before = [(t._array, t._keys, t._grad, _version(t)) for t in self.tensors]
        self.passes = accumulations[0]

    def derived(self) -> list[Owner]:
        """Those that need gradients."""
        return [owner for owner in self.owners if not owner.is_gradient and owner.tensor.requires_grad]

    def check(self, changed: Iterable[weakref.ref]) -> None:
        """Refuses what a replay cannot do to them; tensors that were changed and are still there must be among them."""
        known = set(map(id, self.tensors))
        for reference in changed:
            tensor = reference()
            if tensor is not None and id(tensor) not in known:
                raise NotGuarded("it changes a tensor whose place is not known")
        for tensor, (array, keys, *_) in zip(self.tensors, self.before, strict=True):
            if tensor._array is not array or tensor._keys != keys:
                raise NotGuarded("it gives tensors flags or other memory")
        if accumulations[0] != self.passes and any([owner.tensor._edge is not None for owner in self.derived()]):
            raise NotGuarded("gradients go on to what was computed before it")

    def writes(self) -> list[tuple[Owner, int]]:
        """Those whose memory was written, and how often: of several on one memory, one."""
        found: dict[int, tuple[Owner, int]] = {}
        for owner, tensor, (*_, version) in zip(self.owners, self.tensors, self.before, strict=True):
            count = _version(tensor) - version
            if count:
                found.setdefault(id(tensor._counter), (owner, count))
        return list(found.values())


class Gradients:
    """The gradients that a call gives to tensors, and takes from them.

    Where there was none, a replay must find none, or the call would have added to it. What was there and was not read
    was dropped before, as `zero_grad()` does, whatever it was.
    """

    def __init__(self, sources: Sources, made: Sequence[Any], reads: bool) -> None:
        """`made` are the outputs of the call's plan; `reads` tells that the program's own code reads gradients."""
        outputs = {id(array): position for position, array in enumerate(made)}
        self.given: list[Given] = []
        self.dropped: list[Owner] = []
        self.absent: list[Owner] = []
        self.present: list[Owner] = []
        for owner, (_, _, before, _) in zip(sources.owners, sources.before, strict=True):
            if owner.is_gradient:
                continue
            now = owner.tensor._grad
            if before is None:
                self.absent.append(owner)
            elif reads:
                self.present.append(owner)
            if now is before:
                continue
            if before is not None:
                self.dropped.append(owner)
            if now is not None:
                if now.__class__ is not Tensor or now.requires_grad or now._base is not None or now._hooks is not None:
                    raise NotGuarded("it gives tensors gradients of other kinds")
                if id(now._array) not in outputs:
                    raise NotGuarded("a gradient was not recorded")
                output = outputs[id(now._array)]
                self.given.append(Given(owner, output, now._keys, now._device, now._version))
        self.outputs = {one.output for one in self.given}
        if len(self.outputs) != len(self.given):
            raise NotGuarded("two gradients are one")
        # Those whose gradients it gives, or adds to.
        self.changed = [one.owner for one in self.given]
        self.changed += [owner for owner, _ in sources.writes() if owner.is_gradient]
        if not self.changed and not self.dropped and not reads:
            self.absent = []
        if any([_is_watched(owner.tensor) for owner in self.changed]) or self.changed and saving_hooks.users:
            raise NotGuarded("hooks see its gradients")
        self.changes = changes[0]
        self.of_arguments = [owner for owner in self.changed if owner.argument is not None]

    def are_seen(self) -> bool:
        """Whether the call gives or takes gradients, or looks whether there are some."""
        return bool(self.given or self.dropped or self.absent or self.present)

    def leaves(self, sources: Sources) -> tuple[list[Tensor], tuple[bool, ...]]:
        """The tensors, of those that stay, whose gradients the call changes; which of them had none before."""
        changed = {id(owner.tensor) for owner in (*self.changed, *self.dropped)}
        found = [(owner.tensor, before is None) for owner, (_, _, before, _) in zip(sources.owners, sources.before)
                 if owner.argument is None and not owner.is_gradient and id(owner.tensor) in changed]  # fmt: skip
        return [tensor for tensor, _ in found], tuple([without for _, without in found])

    def expected(self, arguments: Sequence[Tensor]) -> bool:
        """Whether gradients, and hooks of what gets one, are as the call found them."""
        for owner in self.absent:
            if owner.among(arguments)._grad is not None:
                return False
        for owner in self.present:
            if owner.among(arguments)._grad is None:
                return False
        if any([_is_watched(owner.among(arguments)) for owner in self.of_arguments]):
            return False
        if self.changes != changes[0]:
            if any([_is_watched(owner.tensor) for owner in self.changed]):
                return False
            self.changes = changes[0]
        return True

    def drop(self, arguments: Sequence[Tensor]) -> None:
        """Takes away what the call drops before it computes."""
        for owner in self.dropped:
            owner.among(arguments)._grad = None

    def give(self, arguments: Sequence[Tensor], made: Sequence[Any]) -> None:
        """Gives tensors their gradients."""
        for owner, output, keys, device, version in self.given:
            gradient = object.__new__(Tensor)
            gradient._array, gradient._keys, gradient._device = made[output], keys, device
            if version:
                gradient._counter = VersionCounter(version)
            owner.among(arguments)._grad = gradient


class Written:
    """The memory of what a call writes in its place, in which arguments must not lie."""

    def __init__(self, owners: Sequence[Owner]) -> None:
        self.owners = owners
        self.arrays: list[weakref.ref] = []  # which nobody is to hold longer
        self.begins: list[int] = []
        self.ends: list[int] = []  # the furthest of all that begin before

    def is_apart_from(self, arguments: Sequence[Tensor]) -> bool:
        """Whether no argument lies in it."""
        if not self.owners or not arguments:
            return True
        tensors = [owner.among(()) for owner in self.owners]
        if not self.arrays or any([known() is not t._array for known, t in zip(self.arrays, tensors, strict=True)]):
            self.arrays = [weakref.ref(tensor._array) for tensor in tensors]
            spans = sorted([_span(tensor) for tensor in tensors])
            self.begins = [begin for begin, _ in spans]
            self.ends = list(accumulate([end for _, end in spans], max))
        for tensor in arguments:
            begin, end = _span(tensor)
            before = bisect_left(self.begins, end)  # those that begin before the argument ends
            if before and self.ends[before - 1] > begin:
                return False
        return True


def is_spent(tensor: Tensor) -> bool:
    """Whether a backward pass has been through the graph of a tensor, so that the next one's would be the same."""
    todo, seen, released = [tensor._edge], set(), False
    while todo:
        edge = todo.pop()
        if edge is None or edge[1] < 0 or id(edge[0]) in seen:
            continue
        node = edge[0]
        if node.watched or isinstance(node, BackwardCFunction) or node.keeps_tensors():
            return False
        released = released or node.saved is None
        seen.add(id(node))
        todo += node.edges
    return released


def twin_of(node: Node) -> Node:
    """A node as another one is."""
    made = object.__new__(type(node))
    vars(made).update(vars(node))
    return made


def _span(tensor: Tensor) -> tuple[int, int]:
    """Where the memory of a tensor begins and ends."""
    array = tensor._array
    begin = address_of(array)
    reach = layout_of(array.shape, array.strides, array.dtype, tensor._device).reach
    return begin, begin + reach if array.size else begin


def _has_gradient(tensor: Tensor, gradient: Any) -> Callable[[], bool]:
    """What tells whether a tensor has a gradient that may stand for this one."""
    kind, keys = gradient.__class__, gradient._keys

    def still() -> bool:
        now = tensor._grad
        return now.__class__ is kind and now._keys == keys  # type: ignore[union-attr]

    return still


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _is_watched(tensor: Tensor) -> bool:
    """Whether somebody sees when a tensor gets a gradient."""
    node = tensor._accumulator and tensor._accumulator()
    return bool(tensor._hooks or tensor._post_accumulate_hooks or tensor._arrival is not None
                or node is not None and (node.pre_hooks or node.post_hooks))  # fmt: skip
