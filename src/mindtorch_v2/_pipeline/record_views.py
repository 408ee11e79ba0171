"""Recording views: those of arrays that are there are made at once, those of others are geometry."""

import weakref
from collections.abc import Callable
from types import EllipsisType, NoneType
from typing import Any

from .._autograd.derive import Within
from .._autograd.node import VersionCounter
from .._autograd.views import DEFAULT, INFERENCE, WAKING, wake
from .._core.deferred import Deferred
from .._core.indexing import GETITEM, getitem, recorded_part
from .._core.planning import plans
from .._core.tensor import Tensor, tracked_view
from .._dispatch.callers import call_bound
from .._dispatch.keys import (
    BACKWARD_PIPELINE_MASKS,
    CPU_MASK,
    PIPELINE_MASK,
    PIPELINE_MASKS,
    UNRECORDED_PIPELINE_MASKS,
    VIEW_MASK,
    changed_modes,
    modes,
)
from .._dispatch.registry import Operator
from .ahead import Recorder, indented, lines_ahead
from .current import own_trace, state
from .recipes import CUT, Recipe, twins_of
from .trace import SHOWN, Known, Node, Slots, layout_of

# What a public function begins with. A view of an array that is there is made as in eager calls.
_KNOWN = """
_array = {source}._array
if _array.__class__ is not Deferred:
    _plan = __find__ and __find__({names})
    return (_plan or _below)({names})
_trace = _state.trace
if _trace is not None:
    _node = _trace.node.likely
    if _node.kernel is _known and _array is _node.a0.array and ({rest}) == _node.rest:
        {again}
"""
# A view that is lent is as `tracked_view` would make it: by the same steps and under the same masks as the last time.
_ONE = """
_trace.node = _node
_made = _node.tensor
_counter = {source}._counter
if _counter is None: _counter = {source}._counter = VersionCounter()
if (_made is None or _masks is not _node.masks or _node.step[0] is not {source}._view_step
        or ({source}._creation or _masks is _UNDERIVED) and created_otherwise({source}, _masks)):
    return shown(_trace, _node, {source}, _masks)
_base = {source}._base
_made._base = {source} if _base is None else _base
_made._counter = _counter
_made._edge_version = _counter.value
return _made
"""
# What takes the place of the recording kernel's call where something is derived for a view.
_WITHIN = """
result = None
_array = {source}._array
_trace = _state.trace
if _trace is not None and _array.__class__ is Deferred:
    _node = _trace.node.likely
    if _node.kernel is _known and _array is _node.a0.array and ({rest}) == _node.rest:
        _trace.node = _node
        result = shown(_trace, _node, {source})
"""
_SEVERAL = """
_trace.node = _node.together[-1]
return shown_together(_trace, _node.together, {source}, _masks)
"""


def created_otherwise(source: Any, masks: Any) -> bool:
    """Whether a view of a source is not created as those that are lent under masks."""
    if masks is UNRECORDED_PIPELINE_MASKS:
        return modes.grad_enabled or source._creation == INFERENCE
    return source._creation != DEFAULT


def shown(trace: Any, node: Node, source: Any, masks: Any = None) -> Tensor:
    """The view that a node stands for, made now; it is lent from now on if `masks` are those under which views are."""
    before, operator, args, nr = node.step
    array = node.array
    view = tracked_view(source, array, source._offset + node.recipe.offset, operator, args, nr)
    lends = (masks is PIPELINE_MASKS or masks is UNRECORDED_PIPELINE_MASKS) and view._base is not None
    if source._view_step is before and view._base is not None:
        view._view_step = node.step  # the same object, by which views of views are known
    elif lends:
        node.step = view._view_step  # type: ignore[assignment]
    if lends:
        plain = view._keys == SHOWN and view._storage is None
        view._edge_version = view._counter.value  # type: ignore[union-attr]
        trace.keep(node, view, masks if plain and not created_otherwise(source, masks) else None)
    else:
        array.holder = weakref.ref(view)
        if node.tensor is not None:
            trace.apart = True
    return view


def shown_together(trace: Any, nodes: list[Node], source: Any, masks: Any = None) -> tuple[Tensor, ...]:
    """The views that a call gives, those that nodes lend where that is possible."""
    counter = source._counter
    if counter is None:
        counter = source._counter = VersionCounter()
    if masks is None or created_otherwise(source, masks):
        return tuple([shown(trace, node, source, masks) for node in nodes])
    base, step = source._base, source._view_step
    if base is None:
        base = source
    made = []
    for node in nodes:
        view = node.tensor
        if view is None or node.step[0] is not step or node.masks is not masks:
            view = shown(trace, node, source, masks)
        else:
            view._base = base
            view._counter = counter
            view._edge_version = counter.value
        made.append(view)
    return tuple(made)


def view_kernel(operator: Operator, below: Callable, cut: Callable, mask: int) -> Callable:
    """The recording kernel of an operator that makes views; `cut` runs what was recorded, then the call."""
    family, schema = operator.declaration.family, operator.schema
    if not hasattr(family, "geometry"):  # which no place in a recording tells
        return lambda source, *args: (cut if source._array.__class__ is Deferred else below)(source, *args)
    known = known_to(operator, mask)
    compares = not any(a.is_tensor for a in schema.arguments[1:])

    def kernel(source: Any, *args: Any) -> Any:
        array = source._array
        if array.__class__ is not Deferred:
            return below(source, *args)
        trace = state.trace or own_trace()
        node = trace.node.likely
        if (node.kernel is known and array is node.a0.array and args == node.rest
                and not (source._keys & VIEW_MASK and source._base._keys & WAKING)):  # fmt: skip
            trace.node = node.together[-1]
            return again(trace, node.together, source)
        if array.trace is not trace or any(isinstance(a, Tensor) for a in args):
            return cut(source, *args)
        if source._keys & VIEW_MASK and wake(source):
            return call_bound(operator, (source, *args))
        key = (array.layout, array.offset, args)
        made = known.get(key)
        if made is None:
            try:
                twin = twins_of((source,), {})[0]
                twin._offset = source._offset
                shown = family.geometry(twin, *args)
            except Exception:
                return cut(source, *args)
            made = known[key] = [_recipe(operator, array, args, g) for g in (shown if family.several else [shown])]
        if any(recipe is CUT for recipe, _ in made):
            return cut(source, *args)
        nodes = [trace.step(recipe, (array.number,), array.memory, array.offset + offset) for recipe, offset in made]
        if nodes and nodes[0].kernel is None:
            for nr, node in enumerate(nodes):
                node.step = (source._view_step, operator, args, nr if family.several else None)
            if compares:
                trace.learn(nodes[0], known, (array.number,), args)
                nodes[0].together = nodes
        return again(trace, nodes, source)

    def again(trace: Any, nodes: list[Node], source: Any) -> Any:
        return shown_together(trace, nodes, source) if family.several else shown(trace, nodes[0], source)

    source, *rest = schema.names
    told = {"source": source, "names": ", ".join(schema.names), "rest": "".join(f"{name}, " for name in rest)}
    if compares and not family.several and not mask & VIEW_MASK:
        scope = {"_state": state, "Deferred": Deferred, "_known": known, "shown": shown}
        kernel.within = Within(_WITHIN.strip().format(**told).splitlines(), scope)  # type: ignore[attr-defined]
    if compares and mask & ~VIEW_MASK == CPU_MASK | PIPELINE_MASK:
        found = (_SEVERAL if family.several else _ONE).strip().format(**told)
        lines = _KNOWN.format(again=indented(found, 8), **told)
        scope = {"_state": state, "Deferred": Deferred, "_known": known, "_below": operator.lookup(CPU_MASK),
                 "VersionCounter": VersionCounter, "shown": shown, "shown_together": shown_together,
                 "created_otherwise": created_otherwise}  # fmt: skip
        known.recorder = Recorder(operator, lines_ahead(lines, schema.arguments[:1]), scope)
    return kernel


_known: dict[Operator, Known] = {}  # of kernels of the CPU


def known_to(operator: Operator, mask: int) -> Known:
    """What the recording kernel for these keys knows; on the CPU those for views and for other tensors share it."""
    shared = mask & ~VIEW_MASK == CPU_MASK | PIPELINE_MASK
    known = _known.get(operator) if shared else None
    if known is None:
        known = Known()
        plans.append(known)
        if shared:
            _known[operator] = known
    return known


# parts --------------------------------------------------------------------------------------------------------------

_PARTS = Known()
plans.append(_PARTS)
_NUMBER_OR_NONE = frozenset((int, NoneType))
_BASIC = frozenset((int, NoneType, EllipsisType))


def _part(source: Tensor, index: Any) -> Tensor | None:
    """What an index of numbers, slices and None names of a recorded tensor, as one view; None for other indices.

    Also for what has no elements, and where something is derived or unusual.
    """
    masks = modes.masks
    if masks is not PIPELINE_MASKS and masks is not UNRECORDED_PIPELINE_MASKS and masks is not BACKWARD_PIPELINE_MASKS:
        return None
    keys = source._keys & masks[1]
    if keys != CPU_MASK and (keys != SHOWN or source._base._keys & WAKING):  # type: ignore[union-attr]
        return None
    kind = index.__class__
    if kind is slice:
        if not (index.start.__class__ in _NUMBER_OR_NONE and index.stop.__class__ in _NUMBER_OR_NONE
                and index.step.__class__ in _NUMBER_OR_NONE):  # fmt: skip
            return None
    elif kind is tuple:
        for item in index:
            if item.__class__ not in _BASIC and not (item.__class__ is slice and _is_basic(item)):
                return None
    trace = state.trace or own_trace()
    node, array = trace.node.likely, source._array
    if node.kernel is not _PARTS or array is not node.a0.array or index != node.rest[0]:
        if array.trace is not trace:
            return None
        made = _part_recipe(source, index)
        if made is None:
            return None
        node = trace.step(made, (array.number,), array.memory, array.offset + made.offset)
        if node.kernel is None:
            node.step = (source._view_step, GETITEM, (index,), None)
            trace.learn(node, _PARTS, (array.number,), (index,))
    trace.node = node
    view, counter = node.tensor, source._counter
    if counter is None:
        counter = source._counter = VersionCounter()
    if (view is None or masks is not node.masks or node.step[0] is not source._view_step
            or (source._creation or masks is UNRECORDED_PIPELINE_MASKS) and created_otherwise(source, masks)):
        return shown(trace, node, source, masks)  # fmt: skip
    base = source._base
    view._base = source if base is None else base
    view._counter = counter
    view._edge_version = counter.value
    return view


def _is_basic(part: slice) -> bool:
    """Whether a slice is of numbers, which can be compared without a look at elements."""
    return (part.start.__class__ in _NUMBER_OR_NONE and part.stop.__class__ in _NUMBER_OR_NONE
            and part.step.__class__ in _NUMBER_OR_NONE)  # fmt: skip


def _part_recipe(source: Tensor, index: Any) -> Recipe | None:
    """What such an index is recorded as: the view that it makes of a tensor without memory."""
    array = source._array
    key = (array.layout, array.offset, repr(index))
    if key not in _PARTS:
        twin = twins_of((source,), {})[0]
        twin._offset = array.offset
        try:
            with changed_modes(include=0, exclude=0, grad_enabled=False, inference=False):
                made = getitem(twin, index)
        except Exception:
            return None  # which the call itself tells
        shape, strides = made._array.shape, made._array.strides
        recipe, _ = _recipe(GETITEM, array, (index,), (shape, strides, made._offset - array.offset))
        _PARTS[key] = None if recipe is CUT else recipe
    return _PARTS[key]


recorded_part.append(_part)


def _recipe(operator: Operator, array: Deferred, args: tuple, geometry: tuple) -> tuple[Any, int]:
    """What a view is recorded as, and where it begins in its source, in bytes."""
    shape, strides, offset, *kind = geometry
    layout = layout_of(tuple(shape), tuple(strides), kind[0] if kind else array.dtype, array.layout.device)
    if not layout.size:
        return CUT, 0
    recipe = Recipe(operator, "view", (), (layout,))
    recipe.template = (Slots(), *args)
    recipe.fails = False
    recipe.offset = offset
    return recipe, offset
