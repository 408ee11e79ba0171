"""Recording views: those of arrays that are there are made at once, those of others are geometry."""

import weakref
from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np

from .._autograd.node import VersionCounter
from .._autograd.views import WAKING, creation_now, wake
from .._core.deferred import Deferred
from .._core.indexing import GETITEM, numpy_part, recorded_part
from .._core.planning import plans
from .._core.tensor import Tensor, tracked_view
from .._dispatch.callers import call_bound
from .._dispatch.keys import CPU_MASK, PIPELINE_MASK, VIEW_MASK
from .._dispatch.registry import Operator
from .ahead import Recorder, indented, lines_ahead
from .current import own_trace, state
from .recipes import CUT, Recipe, twins_of
from .trace import Known, Node, Slots, layout_of

_new = object.__new__

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
_SEVERAL = "return _again(_trace, _node, {source}, ({rest}))"
# `tracked_view` of one that needs no gradients, in the place of its call.
_ONE = """
_trace.node = _node
_made = _new(Tensor)
_made._array = _array = _node.array
_array.holder = _ref(_made)
_counter = {source}._counter
if _counter is None: _counter = {source}._counter = VersionCounter()
_made._counter = _counter
_base = {source}._base
if _base is None:
    _made._base, _made._view_step = {source}, _node.step
else:
    _made._base, _made._view_step = _base, ({source}._view_step, _operator, _node.rest, None)
    if {source}._storage is not None: _made._storage = {source}._storage
_made._keys = SHOWN
_begins = {source}._offset + _node.recipe.offset
if _begins: _made._offset = _begins
if _counter.value: _made._edge_version = _counter.value
if {source}._creation or _masks is _UNDERIVED and not modes.grad_enabled: _made._creation = creation_now({source})
return _made
"""


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
            return again(trace, node, source, args)
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
        if compares and nodes and nodes[0].kernel is None:
            trace.learn(nodes[0], known, (array.number,), args)
            nodes[0].together, nodes[0].step = nodes, (None, operator, args, None)
        return shown_by(trace, nodes, source, args)

    if family.several:

        def again(trace: Any, node: Node, source: Any, args: tuple) -> Any:
            trace.node = node.together[-1]
            return shown_by(trace, node.together, source, args)

        def shown_by(trace: Any, nodes: list[Node], source: Any, args: tuple) -> Any:
            return tuple([view_of(node, source, args, nr) for nr, node in enumerate(nodes)])

    else:

        def again(trace: Any, node: Node, source: Any, args: tuple) -> Any:
            trace.node = node
            array = node.array
            view = tracked_view(source, array, source._offset + node.recipe.offset, operator, args)
            array.holder = weakref.ref(view)
            return view

        def shown_by(trace: Any, nodes: list[Node], source: Any, args: tuple) -> Any:
            return again(trace, nodes[0], source, args)

    def view_of(node: Node, source: Any, args: tuple, nr: int) -> Tensor:
        view = tracked_view(source, node.array, source._offset + node.recipe.offset, operator, args, nr)
        node.array.holder = weakref.ref(view)
        return view

    if compares and mask & ~VIEW_MASK == CPU_MASK | PIPELINE_MASK:
        source, *rest = schema.names
        told = {"source": source, "names": ", ".join(schema.names), "rest": "".join(f"{name}, " for name in rest)}
        found = (_SEVERAL if family.several else _ONE).strip().format(**told)
        lines = _KNOWN.format(again=indented(found, 8), **told)
        scope = {"_state": state, "Deferred": Deferred, "_known": known, "_again": again, "_operator": operator,
                 "_below": operator.lookup(CPU_MASK), "_new": _new, "Tensor": Tensor, "_ref": weakref.ref,
                 "VersionCounter": VersionCounter, "creation_now": creation_now}  # fmt: skip
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
_NUMBER_OR_NONE = (int, NoneType)


def _part(source: Tensor, index: Any) -> Tensor | None:
    """What numbers and slices name of a recorded tensor, as one view; None for other indices, and what has no elements.

    Nothing is derived for it.
    """
    if index.__class__ is not int and not _is_basic(index):
        return None
    array = source._array
    trace = state.trace or own_trace()
    node = trace.node.likely
    if node.kernel is not _PARTS or array is not node.a0.array or index != node.rest[0]:
        if array.__class__ is not Deferred or array.trace is not trace:
            return None
        made = _part_recipe(array, index)
        if made is None:
            return None
        node = trace.step(made, (array.number,), array.memory, array.offset + made.offset)
        if node.kernel is None:
            trace.learn(node, _PARTS, (array.number,), (index,))
    trace.node = node
    made_array = node.array
    view = tracked_view(source, made_array, source._offset + node.recipe.offset, GETITEM, node.rest)
    made_array.holder = weakref.ref(view)
    return view


def _is_basic(index: Any) -> bool:
    """Whether an index is of numbers and slices, which can be compared without a look at elements."""
    kind = index.__class__
    if kind is int or index is Ellipsis:
        return True
    if kind is slice:
        return (index.start.__class__ in _NUMBER_OR_NONE and index.stop.__class__ in _NUMBER_OR_NONE
                and index.step.__class__ in _NUMBER_OR_NONE)  # fmt: skip
    return kind is tuple and all([item.__class__ is not tuple and _is_basic(item) for item in index])


def _part_recipe(array: Deferred, index: Any) -> Recipe | None:
    key = (array.layout, repr(index))
    if key not in _PARTS:
        memory = np.asarray(_Geometry(array)).view(array.dtype)
        found = numpy_part(memory, index)
        recipe = None
        if found is not None:
            recipe, _ = _recipe(GETITEM, array, (index,), (found[0].shape, found[0].strides, found[1]))
        _PARTS[key] = recipe
    return _PARTS[key]


class _Geometry:
    """What NumPy makes an array of that is asked for views, and for no elements."""

    def __init__(self, array: Deferred) -> None:
        self.__array_interface__ = {"shape": array.shape, "strides": array.strides, "data": (64, True), "version": 3,
                                    "typestr": f"|V{array.dtype.itemsize}"}  # fmt: skip


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
