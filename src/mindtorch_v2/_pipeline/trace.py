"""A trace: what was recorded between two flushes, by numbers."""

import gc
import math
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._autograd.views import MULTI_OUTPUT, NO_GRAD
from .._backends.meta import MetaArray
from .._core.deferred import Deferred
from .._core.device import device
from .._core.tensor import Tensor
from .._dispatch.keys import CPU_MASK, PIPELINE_MASKS, UNRECORDED_PIPELINE_MASKS, VIEW_MASK
from .._dispatch.registry import Operator

if TYPE_CHECKING:
    from .recipes import Recipe


_new = object.__new__


class Layout:
    """Shape, strides in bytes, type and device of an array; of each there is one object, compared by identity."""

    __slots__ = ("device", "dtype", "nbytes", "ndim", "outputs", "shape", "size", "strides")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, where: device) -> None:
        self.shape, self.strides, self.dtype, self.device, self.ndim = shape, strides, dtype, where, len(shape)
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        self.outputs = ((shape, dtype, where),)  # as a node of a graph has them

    @property
    def reach(self) -> int:
        """The bytes from the first element to the end of the last."""
        return sum([(n - 1) * s for n, s in zip(self.shape, self.strides)]) + self.dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


_layouts: dict[tuple, Layout] = {}


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, where: device) -> Layout:
    """The one layout of a geometry on a device."""
    key = shape, strides, dtype, where.type, where.index
    known = _layouts.get(key)
    if known is None:
        known = _layouts[key] = Layout(tuple(shape), tuple(strides), dtype, where)
    return known


class Value(int):
    """The number of a value, in the place of a tensor among an entry's arguments."""


class Free(int):
    """The position in `trace.numbers` of a number that a run is given."""


class Entry(NamedTuple):
    """A recorded call."""

    operator: Operator
    arguments: tuple
    results: tuple[int | None, ...]
    kind: str  # "pointwise", "write" (a pointwise one into its first operand's memory), "view", or "call"
    where: str | None
    recipe: "Recipe"

    def operands(self) -> list[int]:
        """The values among the arguments."""
        return [v for a in self.arguments for v in (a if isinstance(a, tuple) else (a,)) if v.__class__ is Value]


class Place:
    """A value of recordings that began alike: `array` stands for it, in the one that goes on now.

    An array from outside has itself there, or None while nothing is recorded. A result has a `Deferred`, which serves
    one recording after the other as long as nobody holds it. Views lie `offset` bytes into the memory of value `root`.
    """

    __slots__ = ("array", "layout", "number", "offset", "root", "tensor", "views")

    array: Any
    tensor: Any  # that of a call which nobody held at a flush: it is given to the next recording again
    layout: Any
    number: int
    root: int | None
    offset: int
    views: "list[Node] | None"  # that show the memory of this value

    def renew(self, trace: "Trace") -> None:
        """Takes another `Deferred`, since this one is held, or tells what happened."""
        self.tensor = None
        made = self.array = _new(Deferred)
        layout = made.layout = self.layout
        made.shape, made.strides, made.dtype = layout.shape, layout.strides, layout.dtype
        made.trace, made.number, made.root, made.offset = trace, self.number, self.root, self.offset
        made.value, made.error, made.others, made.holder, made.views = None, None, (), nobody, self.views


class Several:
    """The places of a list of tensors."""

    __slots__ = ("places",)

    def __init__(self, places: list[Place]) -> None:
        self.places = places

    def are(self, tensors: Sequence[Any]) -> bool:
        """Whether these are the tensors there."""
        if len(tensors) != len(self.places):
            return False
        for place, tensor in zip(self.places, tensors):
            if (_NO_ARRAY if tensor is None else tensor._array) is not place.array:
                return False
        return True


class Node(Place):
    """What was recorded after a `parent`: an array from outside, or a call of `recipe` on values with these numbers.

    Recordings that begin alike share nodes, so that a node stands for all up to it. `after` are the nodes that followed
    it, `likely` the last of them: a call that is as that one was takes it without a search. For this a node has
    `kernel`, which tells operators apart, `a0` ... for tensors and numbers and `rest` for other arguments (`free`: a
    bit for each that is a number, and `NOTED` if its line in the program is noted). A node with one result is its
    place; `made` are those of all.
    """

    __slots__ = ("a0", "a1", "a2", "a3", "after", "count", "free", "frequent", "kernel", "known", "lends", "likely",
                 "made", "masks", "operands", "parent", "plans", "recipe", "rest", "shortcut", "step",
                 "together")  # fmt: skip

    likely: "Node"
    a0: Place
    rest: tuple
    free: int
    together: list["Node"]  # of a call that gives views and is known again: all of them
    step: tuple  # of a view, what leads to it from its base (`_view_step`), the last time
    masks: tuple[int, int]  # of a view, those under which its tensor is lent

    def __init__(self, parent: "Node | None", recipe: Any, operands: tuple, count: int) -> None:
        self.parent, self.recipe, self.operands, self.count = parent, recipe, operands, count
        self.after: dict[Any, Node] = {}
        self.plans: dict[tuple, Any] = {}
        self.made: tuple[Place | None, ...] = ()
        self.known: tuple[list[Node], list[Place]] | None = None
        self.kernel: Any = None
        self.frequent = False  # whether public functions know how to record what a recording up to here is made of
        self.array = self.tensor = None
        self.lends = True
        self.shortcut: Any = None  # what a composite recorded after this (shortcuts.py)
        self.likely = NOTHING

    def path(self) -> tuple[list["Node"], list[Place]]:
        """The nodes up to this one, and the places of all values."""
        if self.known is None:
            nodes: list[Node] = []
            node: Node | None = self
            while node is not None and node.parent is not None:
                nodes.append(node)
                node = node.parent
            nodes.reverse()
            self.known = nodes, [place for own in nodes for place in own.made if place is not None]
        return self.known


NOTHING: Any = None  # the likely successor of a node that has none
NOTHING = Node(None, None, (), 0)
NOTHING.layout = None
ABSENT = Place()  # in the place of a tensor that is not given
ABSENT.array = _NO_ARRAY = object()
NUMBER_PLACES = {int: Place(), float: Place()}  # numbers that a run is given anew
for _kind, _place in NUMBER_PLACES.items():
    _place.array = _kind

NOTED = 16
SHOWN = CPU_MASK | VIEW_MASK  # the keys of a view that is lent
FRESH: Any = object()  # the kernel of a node that is an array from outside
_MOST_NODES = 1 << 14
_OFTEN = 256  # recorded calls of an operator, after which its public functions know how to record it
_traces: "weakref.WeakValueDictionary[int, Trace]" = weakref.WeakValueDictionary()


class Trace:
    """See the package. `node` stands for what was recorded since the last flush."""

    __slots__ = ("__weakref__", "_last", "_places", "apart", "draws", "flush", "inputs", "known", "lent", "lines",
                 "live", "node", "nodes", "numbers", "outputs", "owners", "plan", "quick", "root", "saves", "touched",
                 "written")  # fmt: skip

    live: "Trace"
    lent: "Lent | None"  # what was lent to the last recording that was run, unless that has changed since

    def __init__(self) -> None:
        self.flush: Any = nothing
        self.quick: bool | None = True  # recipes that say the same are recorded without further ado
        self.root, self.nodes = Node(None, None, (), 0), 0
        self.lent = None
        _traces[id(self)] = self
        self._begin()

    def _begin(self) -> None:
        if self.nodes > _MOST_NODES:
            self.root, self.nodes = Node(None, None, (), 0), 0
        self.node = self._last = self.root
        self._places: list[Place] = []  # of the values up to `_last`
        self.numbers: list[Any] = []
        self.saves = False  # whether an array is kept for a backward pass
        self.apart = False  # whether a tensor was made where a node has one to lend
        self.known: dict[int, tuple[int, Layout]] = {}  # number and layout of an input by the id of its array
        self.inputs: dict[int, Any] = {}
        self.owners: dict[int, Any] = {}  # by number: a weak reference to the tensor that an input was first read of
        self.written: set[int] = set()  # inputs that are written
        self.draws = False  # whether calls take random numbers
        self.touched: list[int] = []  # values that several tensors show
        self.lines: dict[Node, tuple] = {}  # code and instruction of a caller
        self.outputs: tuple[int, ...] = ()
        self.plan: Any = None  # once it is run

    def forget(self) -> None:
        """Begins anew, in the midst of a recording too: what recipes rest on has changed."""
        self.nodes = _MOST_NODES + 1
        self.node.after, self.node.likely, self.node.shortcut = {}, NOTHING, None

    # recording -------------------------------------------------------------------------------------------------------

    def input(self, tensor: Any) -> tuple[int, Layout]:
        """Number and layout of a tensor's array from outside, or of an earlier recording."""
        array = tensor._array
        if array.__class__ is Deferred:
            tensor._settle()
            array = tensor._array
        found = self.known.get(id(array))
        if found is None:
            if array.__class__ is MetaArray:
                array.pointer = (id(tensor._shared_storage()) << 64) + tensor._offset
            parent = self.node
            node: Node | None = parent.likely
            layout = parent.likely.layout if parent.likely.recipe is None else None
            if (layout is None or array.shape != layout.shape or array.strides != layout.strides
                    or array.dtype is not layout.dtype or tensor._device is not layout.device):  # fmt: skip
                layout = layout_of(array.shape, array.strides, array.dtype, tensor._device)
                node = parent.after.get(layout)
            if node is None:
                node = parent.after[layout] = Node(parent, None, (), parent.count + 1)
                node.number, node.layout, node.made, node.kernel = parent.count, layout, (node,), FRESH
                self.nodes += 1
            parent.likely = self.node = node
            node.array = array
            found = self.known[id(array)] = node.number, layout
            self.inputs[node.number] = array
            self.owners[node.number] = weakref.ref(tensor)
        return found

    def adopted(self, *operands: Any) -> Node:
        """What is likely to follow once those operands that are arrays from outside, and new, were noted."""
        for operand in operands:
            array = getattr(operand, "_array", None)
            if array is not None and array.__class__ is not Deferred and id(array) not in self.known:
                self.input(operand)
        return self.node.likely

    def step(self, recipe: Any, operands: tuple, root: int | None = None, offset: int = 0) -> Node:
        """The node of a call after what was recorded; a view begins `offset` bytes into value `root`."""
        parent = self.node
        node = parent.after.get((recipe, operands))
        if node is None:
            node = parent.after[recipe, operands] = Node(parent, recipe, operands, parent.count)
            self.nodes += 1
            single, made = len(recipe.results) == 1, []
            for layout in recipe.results:
                place: Place | None = None
                if layout is not None:
                    place = node if single else Place()
                    place.number, place.layout, place.root, place.offset = node.count, layout, root, offset
                    place.views = None
                    place.renew(self)
                    node.count += 1
                made.append(place)
            node.made = tuple(made)
            if root is not None:
                shown = self.places_up_to(parent)[root]
                if shown.views is None:
                    shown.views = shown.array.views = []
                shown.views.append(node)
        parent.likely = self.node = node
        return node

    def learn(self, node: Node, kernel: "Known", given: Sequence[Any], rest: tuple) -> None:
        """Notes how a call like this one is known.

        `given` has values by number, and of Python's numbers the class, with the value if a run is not given it anew.
        """
        node.kernel, node.rest = kernel, rest
        node.free = sum([1 << at for at, value in enumerate(given) if value.__class__ is type])
        node.free |= NOTED if node.recipe.fails else 0
        places = self.places_up_to(node)
        for name, value in zip(("a0", "a1", "a2", "a3"), given):
            place: Place | Several
            if value.__class__ is tuple:
                place = Place()
                place.array = value
            elif value.__class__ is list:
                place = Several([ABSENT if number is None else places[number] for number in value])
            else:
                place = ABSENT if value is None else NUMBER_PLACES.get(value) or places[value]
            setattr(node, name, place)

    def places_up_to(self, node: Node) -> list[Place]:
        """The places of all values up to a node, of which those up to an earlier one may be known."""
        nodes, before = [], node
        while before is not self._last and before.parent is not None:
            nodes.append(before)
            before = before.parent
        if before is not self._last:
            self._places = []
        self._places += [place for own in reversed(nodes) for place in own.made if place is not None]
        self._last = node
        return self._places

    # flushing --------------------------------------------------------------------------------------------------------

    def taken(self) -> "Trace":
        """What was recorded, as a trace of its own; this one is empty then."""
        made = _new(Trace)
        made.node, made._last, made._places, made.numbers = self.node, self._last, self._places, self.numbers
        made.saves, made.apart, made.known, made.inputs = self.saves, self.apart, self.known, self.inputs
        made.owners, made.written, made.draws, made.touched = self.owners, self.written, self.draws, self.touched
        made.lines, made.root, made.nodes, made.quick = self.lines, self.root, self.nodes, self.quick
        made.outputs, made.plan, made.flush, made.live = (), None, nothing, self
        self._begin()
        return made

    def end(self, error: BaseException | None = None) -> None:
        """Gives the recording's places free, once results are there, or never come."""
        places, inputs, live = self.node.path()[1], self.inputs, self.live
        for number in inputs:
            places[number].array = None
        ended: Iterable[int] = self.outputs
        if error is not None:
            ended = range(len(places))
        elif self.touched:
            ended = {*self.outputs, *self.touched}
        for number in ended:
            if number not in inputs:
                place = places[number]
                place.array.trace, place.array.error = self, error
                if place.tensor is not None:
                    live.lent = None
                place.renew(live)

    def find_outputs(self) -> tuple[int, ...]:
        """Notes the values that somebody holds now."""
        node, live = self.node, self.live
        if not node.frequent:
            node.frequent = _count_calls(node.path()[0])
        lent = live.lent
        if lent is None or lent.node is not node:
            lent = live.lent = Lent(node, node.path()[0])
        outputs = lent.as_before(shown := bool(self.touched or self.saves or self.apart))
        if outputs is None:
            back = lent.returned(shown)
            if back:
                live.lent = None
            places = node.path()[1]
            held = back + lent.held()
            memories = {places[number].array.memory for number in held}.difference(self.inputs)
            outputs = tuple(sorted({*held, *memories}))
            lent.outputs = None if back else outputs
        self.outputs = outputs
        return outputs

    def lend(self, node: Node) -> Tensor:
        """The tensor of a call that is known ahead of the recording kernel, where its node has none to lend."""
        made = _new(Tensor)
        made._array = node.array
        self.keep(node, made, PIPELINE_MASKS)
        return made

    def keep(self, node: Node, made: Tensor, masks: tuple[int, int] | None) -> None:
        """Notes the tensor of a node: as one that it lends under masks, if it may, or as that of the program."""
        if masks is not None and node.lends and node.tensor is None:
            node.tensor, node.masks, self.lent = made, masks, None
        else:
            node.array.holder = weakref.ref(made)
            if node.tensor is not None:
                self.apart = True

    # looking ---------------------------------------------------------------------------------------------------------

    @property
    def values(self) -> list[Any]:
        """The arrays of all values."""
        return [place.array for place in self.node.path()[1]]

    @property
    def layouts(self) -> list[Layout]:
        """Of all values."""
        return [place.layout for place in self.node.path()[1]]

    @property
    def device(self) -> device:
        """That of the first value; a trace may have several."""
        return self.layouts[0].device

    @property
    def writes(self) -> list[int]:
        return sorted(self.written)

    def signature(self) -> tuple:
        """Equal for traces that one plan computes."""
        made: list[Any] = [self.outputs, self.aliases()]
        for node in self.node.path()[0]:
            made += (node.recipe, *node.operands) if node.recipe is not None else (_Input, node.layout)
        return tuple(made)

    def aliases(self) -> tuple:
        """Which inputs lie in one memory, where one of them is written: groups of (number, offset in it)."""
        if not self.written or len(self.inputs) < 2:
            return ()
        layouts = dict(self.known.values())
        spans = sorted([(address_of(array), number) for number, array in self.inputs.items()])
        groups: list[tuple] = []
        own: list[tuple[int, int]] = []
        begin = end = -1
        for start, number in spans:
            if start >= end:
                if len(own) > 1 and not self.written.isdisjoint([n for n, _ in own]):
                    groups.append(tuple(own))
                own, begin, end = [], start, start
            own.append((number, start - begin))
            end = max(end, start + layouts[number].reach)
        if len(own) > 1 and not self.written.isdisjoint([n for n, _ in own]):
            groups.append(tuple(own))
        return tuple(groups)

    @property
    def entries(self) -> list[Entry]:
        """The calls."""
        made: list[Entry] = []
        free = 0
        for node in self.node.path()[0]:
            recipe = node.recipe
            if recipe is None:
                continue
            at, items = 0, node.operands
            arguments: list[Any] = []
            for part, is_tensor in zip(recipe.template, recipe.tensors, strict=True):
                if part.__class__ is Slots and part.gaps:
                    numbers = iter(items[at : at + len(part.gaps) - sum(part.gaps)])
                    arguments.append(tuple([None if gap else Value(next(numbers)) for gap in part.gaps]))
                    at += len(part.gaps) - sum(part.gaps)
                    continue
                if part.__class__ is not Slots:
                    arguments.append(part)
                elif part.free:
                    arguments.append(Free(free))
                    free += 1
                else:
                    arguments.append(Value(items[at]))
                at += is_tensor
            results = tuple([None if place is None else place.number for place in node.made])
            where = self.lines.get(node)
            made.append(Entry(recipe.operator, tuple(arguments), results, recipe.kind,
                              None if where is None else told(where), recipe))  # fmt: skip
        return made


class _Input:
    """Marks in a signature that the next one is the layout of an array from outside."""


class Recordings(dict):
    """What is cleared with all plans: the nodes of all traces."""

    def clear(self) -> None:
        for ref in _traces.valuerefs():  # a list: other threads may begin traces meanwhile
            trace = ref()
            if trace is not None:
                trace.forget()


def nothing() -> None:
    """The flush of a trace that nothing is recorded in."""


class Known(dict):
    """What an operator's calls are recorded as, by layouts; `recorder` waits to be installed when there are many."""

    calls = 0
    recorder: Any = None

    def count(self) -> bool:
        """Counts a call; whether there is no need to count more of them."""
        self.calls += 1
        if self.recorder is not None and (self.calls >= _OFTEN or self.recorder.is_installed):
            if not self.recorder.is_installed:
                self.recorder.install()
            self.recorder = None
        return self.recorder is None


def _count_calls(nodes: Sequence[Node]) -> bool:
    """Counts the calls of each operator in a recording; whether there is no need to count them again."""
    waiting = False
    for node in nodes:
        kernel = node.kernel
        if kernel is not None and kernel is not FRESH and kernel.recorder is not None:
            waiting = not kernel.count() or waiting
    return not waiting


def nobody() -> None:
    """The holder of a value that no tensor was made for."""


class Lent:
    """The tensors that the nodes up to one have lent, and the places of results without.

    A tensor that nobody else holds after a recording, and that is as it was made, serves the next one, since making
    one takes as long as all else that recording a call does. A view is given its base and counter anew each time, and
    has neither between recordings, so that it keeps nothing alive.
    """

    def __init__(self, node: Node, nodes: list[Node]) -> None:
        self.node = node
        self.lending = [node for node in nodes if node.tensor is not None]
        self.lending.sort(key=_is_no_view)
        self.views = sum([node.root is not None for node in self.lending])  # how many of them are, the first
        self.tensors = [node.tensor for node in self.lending]
        self.arrays = [node.array for node in self.lending]
        self.plain = [held for node in self.lending for held in _held_by_plain(node)]
        calls = [node for node in nodes if node.recipe is not None and node.tensor is None]
        self.others = [place for node in calls for place in node.made if place is not None]
        read = {number for node in calls for number in node.operands}  # by what may keep the array alone
        self.read = [at for at, node in enumerate(self.lending) if node.number in read]
        self.unheld = bytes([_REFERENCES]) * len(self.tensors)
        self.counts = b""  # of references to what was not lent, the last time
        self.outputs: tuple[int, ...] | None = None  # what was held then

    def as_before(self, shown: bool) -> tuple[int, ...] | None:
        """What is held, if that is what was held the last time, and all that was lent is there again.

        `shown` says whether others than the tensors may hold any of the arrays.
        """
        if self.outputs is None:
            return None
        tensors, arrays = self.tensors, self.arrays
        try:
            if tensors:
                if bytes(map(sys.getrefcount, tensors)) != self.unheld or any(map(weakref.getweakrefcount, tensors)):
                    return None
                for view in tensors[: self.views]:
                    view._base = view._counter = None
                    view._edge_version = 0
                asked = arrays if shown else [arrays[at] for at in self.read]
                if (not _are_equal(self.plain, gc.get_referents(*tensors))
                        or bytes(map(sys.getrefcount, asked)) != _ALONE * len(asked)):  # fmt: skip
                    return None
            counts = bytes(map(sys.getrefcount, [place.array for place in self.others]))
        except ValueError:  # a count is very large
            return None
        return self.outputs if counts == self.counts else None

    def held(self) -> list[int]:
        """The numbers of the values, of those that are not lent, that others hold."""
        counts = self.counts = _counts(sys.getrefcount, [place.array for place in self.others])
        return [self.others[one.start()].number for one in _UNHELD(counts)]

    def returned(self, shown: bool) -> list[int]:
        """The numbers of the values that others hold; what they were lent is theirs from now on."""
        kept = _others(_UNHELD, sys.getrefcount, self.tensors)
        found = {*kept, *_others(_NONE, weakref.getweakrefcount, self.tensors)}
        for at in range(self.views):
            if at not in found:
                view = self.tensors[at]
                view._base = view._counter = None
                view._edge_version = 0
        if found or not _are_equal(self.plain, gc.get_referents(*self.tensors)):
            found.update([at for at, node in enumerate(self.lending) if at not in found
                          and not _are_equal(_held_by_plain(node), gc.get_referents(node.tensor))])  # fmt: skip
        asked = range(len(self.arrays)) if shown else self.read
        found.update([asked[at] for at in _others(_SHOWN, sys.getrefcount, [self.arrays[at] for at in asked])])
        for at in kept:
            self.arrays[at].holder = weakref.ref(self.tensors[at])
        for at in found:
            self.lending[at].tensor, self.lending[at].lends = None, False
        return [self.lending[at].number for at in found]


def _is_no_view(node: Node) -> bool:
    return node.root is None


def _held_by_plain(node: Node) -> list[Any]:
    """What a tensor that a node has lent refers to, as the garbage collector sees it, if it is as it was made.

    One whose `__dict__` was looked at refers to that instead: asking for it would make one for each tensor, in which
    its fields are found several times more slowly.
    """
    if node.root is None:
        return [node.array, Tensor]
    like: Any = _new(Tensor)
    like._array, like._keys, like._view_step, like._edge_version = node.array, SHOWN, node.step, 0
    like._base = like._counter = None
    if node.offset:
        like._offset = node.offset
    if node.masks is UNRECORDED_PIPELINE_MASKS:
        like._creation = NO_GRAD
    elif node.step[-1] is not None:
        like._creation = MULTI_OUTPUT
    return gc.get_referents(like)


def _are_equal(known: list[Any], found: list[Any]) -> bool:
    """Whether tensors refer to what is known; one that was changed has more, and is not asked whether it is equal."""
    return len(known) == len(found) and known == found


def _others(usual: Any, count: Callable[[Any], int], objects: list[Any]) -> list[int]:
    """The places in a list of what has not the usual count."""
    return [one.start() for one in usual(_counts(count, objects))]  # a search is the quickest way through thousands


def _counts(count: Callable[[Any], int], objects: list[Any]) -> bytes:
    """What is counted of each."""
    try:
        return bytes(map(count, objects))
    except ValueError:  # one is very large
        return bytes([min(one, 255) for one in map(count, objects)])


def _other_than(count: int) -> Any:
    """What finds other counts."""
    return re.compile(b"[^%s]" % re.escape(bytes([count])), re.DOTALL).finditer


def _references(places: int) -> int:
    """To an object that is in a list, and in a number of places besides, while it is counted."""
    listed = [object()]
    others = [listed[0] for _ in range(places)]
    assert len(others) == places
    return next(map(sys.getrefcount, listed))


_REFERENCES = _references(1)
_REFERENCES_OF_LENT = _references(4)  # a node, its tensor, and `arrays` and `plain` of what was lent
_ALONE = bytes([_REFERENCES_OF_LENT])
_UNHELD, _SHOWN, _NONE = _other_than(_REFERENCES), _other_than(_REFERENCES_OF_LENT), _other_than(0)


class Slots(NamedTuple):
    """In a recipe's template, what a recording brings: a value, a list of them (with `gaps`), a number."""

    free: bool = False
    gaps: tuple[bool, ...] = ()


def address_of(array: Any) -> int:
    """Where an array's first element lies."""
    return array.__array_interface__["data"][0] if array.__class__ is np.ndarray else array.pointer


# where a call was made -----------------------------------------------------------------------------------------------

_PACKAGE = __name__.partition(".")[0]
_outside: dict[int, Any] = {}  # code objects by id, or None for those of this package


def place_of_caller() -> tuple:
    """Code and instruction of the program's own line that is being run."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        known = _outside.get(id(code), code)
        if known is code:
            inside = (frame.f_globals.get("__name__", "") or "").partition(".")[0] == _PACKAGE
            _outside[id(code)] = None if inside else code
            _kept.append(code)
            if not inside:
                _outside[id(code)] = _OUTSIDE
                return code, frame.f_lasti
        elif known is _OUTSIDE:
            return code, frame.f_lasti
        frame = frame.f_back
    return ()


_OUTSIDE = object()
_kept: list[Any] = []  # code objects whose ids are known


def told(place: tuple) -> str:
    """A place as text."""
    if not place:
        return "an unknown place"
    code, instruction = place
    line = next((n for start, end, n in code.co_lines() if start <= instruction < end), None)
    return f"{code.co_filename}:{line or code.co_firstlineno}"
