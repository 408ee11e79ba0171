"""Composites that are recorded as they were the last time: their calls are taken at once, without their Python.

A composite looks at layouts and at its other arguments, so after what was recorded before, on the same values, it calls
the same operators. Whether that is so is found out as for plans of eager calls (_ops/_declare/plans.py).
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .._autograd.node import VersionCounter
from .._core.planning import plans
from .._core.tensor import Tensor
from .._core.tensor_base import fields_of
from .._dispatch.callers import compile_function
from .._dispatch.keys import BACKWARD_PIPELINE_MASKS, modes
from .._dispatch.registry import Operator
from .._dispatch.schema import NUMBERS
from .._ops._declare.plans import can_be_planned, key_part, rests_on_layouts, signed_zero
from .ahead import Recorder, lines_ahead
from .current import own_trace, state
from .recipes import twins_of
from .record_views import created_otherwise, shown
from .trace import ABSENT, FRESH, Known, Node, Place, Trace, place_of_caller

_new = object.__new__
_MOST_COMPARED = 4  # tensors of a call
_KERNEL = """
def {name}({names}):
    _trace = _state.trace or _own_trace()
    if _trace.node.likely.kernel is FRESH: _trace.adopted({tensors})
    _short = _trace.node.shortcut
    if _short is not None and _short.kernel is _known and {as_before}:
        _counted()
        return _short.take(_trace, ({tensors},), modes.masks)
    return _learned(_trace, ({names},), ({tensors},), ({rest}))
"""
# What a public function begins with.
_AHEAD = """
_trace = _state.trace
if _trace is not None:
    _short = _trace.node.shortcut
    if _short is not None and _short.kernel is _known and {as_before}:
        return _short.take(_trace, ({tensors},), _masks)
"""


class Made(NamedTuple):
    """A result: a new value, or one that views lead to, of an operand or of a new value."""

    operand: int | None  # the position of the tensor that is shown
    place: Place | None  # or the value
    views: Sequence[Node]

    @property
    def node(self) -> Place | None:
        """What the result lies at."""
        return self.views[-1] if self.views else self.place

    def again(self, trace: Trace, tensors: Sequence[Any], masks: Any) -> Tensor:
        """The tensor, of a call with these under masks: one that is lent where that is possible."""
        place, views = self.place, self.views
        if place is None:
            source: Any = tensors[self.operand]  # type: ignore[index]
            view = views[-1].tensor
            if view is not None and views[-1].masks is masks:
                counter, step = source._counter, view._view_step
                if counter is None:
                    counter = source._counter = VersionCounter()
                for _ in views:
                    step = step[0]
                if step is source._view_step and not created_otherwise(source, masks):
                    base = source._base
                    view._base = source if base is None else base
                    view._counter = counter
                    view._edge_version = counter.value
                    return view
            made = source
        elif not views and place.__class__ is Node and masks is not BACKWARD_PIPELINE_MASKS:
            return trace.lend(place) if place.tensor is None else place.tensor  # type: ignore[arg-type]
        else:
            made = _new(Tensor)
            made._array = array = place.array
            array.holder = weakref.ref(made)
            if place.tensor is not None:
                trace.apart = True
        for node in views:
            made = shown(trace, node, made, masks if node is views[-1] else None)
        return made


class Shortcut:
    """What a composite recorded: the last node, and what it left in the trace."""

    __slots__ = ("a0", "a1", "a2", "a3", "end", "kernel", "noted", "numbers", "rest", "results", "several")

    end: Node
    results: list[Made]
    several: Callable[[list[Tensor]], Any] | None  # what puts several results together
    numbers: list[Any]
    noted: list[Node]  # whose line in the program is noted

    def __init__(self, kernel: "Known", rest: tuple) -> None:
        self.kernel, self.rest = kernel, rest

    def take(self, trace: Trace, tensors: Sequence[Any], masks: Any) -> Any:
        """Records the calls; gives the results."""
        trace.node = self.end
        if self.numbers:
            trace.numbers += self.numbers
        if self.noted:
            where = place_of_caller()
            for node in self.noted:
                trace.lines[node] = where
        if self.several is None:
            return self.results[0].again(trace, tensors, masks)
        return self.several([made.again(trace, tensors, masks) for made in self.results])


def shortcut_kernel(operator: Operator, function: Callable) -> Callable:
    """The kernel of a composite in a pipeline, where nothing is derived; `function` if it is none that can be known."""
    schema = operator.schema
    tensors = [a for a in schema.arguments if a.is_tensor]
    if not can_be_planned(operator) or len(tensors) > _MOST_COMPARED:
        return function
    if any(a.is_list or a.type == "Tensor|Scalar" for a in tensors):
        return function
    known = Known()
    plans.append(known)
    as_before = [f"({f'NONE if {a.name} is None else ' * a.optional}{a.name}._array) is _short.a{at}.array"
                 for at, a in enumerate(tensors)]  # fmt: skip
    rest = "".join(f"{key_part(a)}, " for a in schema.arguments if not a.is_tensor)
    told = {"name": schema.base_name, "names": ", ".join(schema.names), "tensors": ", ".join(a.name for a in tensors),
            "as_before": " and ".join([*as_before, f"({rest}) == _short.rest"]), "rest": rest}  # fmt: skip

    def learned(trace: Trace, args: tuple, given: tuple, rest: tuple) -> Any:
        start, marks = trace.node, _marks(trace)
        result = function(*args)
        if trace.quick and start.shortcut is not REFUSED:
            start.shortcut = _shortcut(known, rest, given, trace, start, marks, result)
            if start.shortcut is not REFUSED and not _is_pure(known, operator, function, args):
                start.shortcut = REFUSED
        return result

    scope = {"_state": state, "_own_trace": own_trace, "_known": known, "_learned": learned, "NONE": ABSENT.array,
             "FRESH": FRESH, "NUMBERS": NUMBERS, "_zero": signed_zero, "modes": modes, "_counted": known.count,
             "__opname__": f"{operator.name} recorded"}  # fmt: skip
    known.recorder = Recorder(operator, lines_ahead(_AHEAD.format(**told), tensors), scope)
    return compile_function(schema.base_name, _KERNEL.format(**told), scope)


REFUSED = Shortcut(Known(), ())  # of calls that are not to be tried again


def _is_pure(known: dict[tuple, bool], operator: Operator, function: Callable, args: tuple) -> bool:
    """Whether what a composite calls follows from layouts and other arguments."""
    try:
        key = tuple([_layout(value._array) if isinstance(value, Tensor) else value for value in args])
        found = known.get(key)
    except TypeError:  # an argument without a hash
        return False
    if found is None:
        found = known[key] = rests_on_layouts(function, twins_of(args, {}))
    return found


def _layout(array: Any) -> tuple:
    return array.shape, array.strides, array.dtype


def _marks(trace: Trace) -> tuple:
    """What a call leaves as it was, if it does no more than to record calls and to make views."""
    return len(trace.inputs), len(trace.written), len(trace.touched), trace.draws, trace.saves, len(trace.numbers)


def _shortcut(known: Known, rest: tuple, given: tuple, trace: Trace, start: Node, marks: tuple,
              result: Any) -> Shortcut:  # fmt: skip
    """What a call recorded after a node, if that is all that it did."""
    now = _marks(trace)
    nodes: list[Node] = []
    node: Node | None = trace.node
    while node is not None and node is not start:
        nodes.append(node)
        node = node.parent
    if node is None or not nodes or now[:-1] != marks[:-1]:
        return REFUSED
    own = trace.places_up_to(trace.node)
    arrays = [ABSENT.array if tensor is None else tensor._array for tensor in given]
    operands = [next((place for place in (ABSENT, *own) if place.array is array), None) for array in arrays]
    if None in operands:
        return REFUSED
    several = {tuple: tuple, list: list}.get(result.__class__)
    results = [result] if several is None else result
    places = {id(place.array): place for node in nodes for place in node.made if place is not None}
    numbers = {place.number: at for at, place in enumerate(operands) if place is not None and place is not ABSENT}
    made = [one for tensor in results if (one := _made(tensor, numbers, places)) is not None]
    if len(made) < len(results):
        return REFUSED
    short = Shortcut(known, rest)
    for name, place in zip(("a0", "a1", "a2", "a3"), operands):
        setattr(short, name, place)
    short.end, short.results, short.several = trace.node, made, several
    short.numbers = trace.numbers[marks[-1] :]
    short.noted = [node for node in nodes if node in trace.lines]
    given_again = [id(one.node) for one in made]
    for node in nodes:
        node.lends = node.lends and given_again.count(id(node)) == 1
        if node.tensor is not None:  # whose fields were looked at, or that is no longer made
            node.array.holder, node.tensor, trace.lent = weakref.ref(node.tensor), None, None
    return short


def _made(tensor: Any, operands: dict[int, int], places: dict[int, Place]) -> Made | None:
    """What leads to a result from new values or operands, by number; None if that is more than views."""
    if tensor.__class__ is not Tensor:
        return None
    views: list[Node] = []
    node = places.get(id(tensor._array))
    if tensor._base is None:
        return Made(None, node, ()) if node is not None and set(fields_of(tensor)) == {"_array"} else None
    steps, by_number = tensor._view_meta, {place.number: place for place in places.values()}
    while isinstance(node, Node) and node.recipe.kind == "view" and len(views) < len(steps):
        views.insert(0, node)
        number = node.operands[0]
        if number in operands:
            return Made(operands[number], None, views)
        node = by_number.get(number)
        if node is not None and len(views) == len(steps):
            return Made(None, node, views) if set(fields_of(tensor._base)) <= {"_array", "_counter"} else None
    return None
