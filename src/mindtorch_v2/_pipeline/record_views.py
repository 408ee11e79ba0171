"""Recording views: those of arrays that are there are made at once, those of others are geometry."""

import weakref
from collections.abc import Callable
from typing import Any

from .._autograd.views import WAKING, wake
from .._core.deferred import Deferred
from .._core.planning import plans
from .._core.tensor import Tensor, tracked_view
from .._dispatch.callers import call_bound
from .._dispatch.keys import CPU_MASK, PIPELINE_MASK, VIEW_MASK
from .._dispatch.registry import Operator
from .ahead import Recorder, lines_ahead
from .current import own_trace, state
from .recipes import CUT, Recipe, twins_of
from .trace import Known, Node, Slots, layout_of

_KNOWN = """
_array = {source}._array
if _array.__class__ is not Deferred: return _below({names})
_trace = _state.trace
if _trace is not None:
    _node = _trace.node.likely
    if _node.kernel is _known and _array is _node.a0.array and ({rest}) == _node.rest:
        return _again(_trace, _node, {source}, ({rest}))
"""


def view_kernel(operator: Operator, below: Callable, cut: Callable, mask: int) -> Callable:
    """The recording kernel of an operator that makes views; `cut` runs what was recorded, then the call."""
    family, schema = operator.declaration.family, operator.schema
    known = Known()
    plans.append(known)
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
            nodes[0].views = nodes
        return shown_by(trace, nodes, source, args)

    if family.several:

        def again(trace: Any, node: Node, source: Any, args: tuple) -> Any:
            trace.node = node.views[-1]
            return shown_by(trace, node.views, source, args)

        def shown_by(trace: Any, nodes: list[Node], source: Any, args: tuple) -> Any:
            trace.shared.add(source._array.memory)
            return tuple([view_of(node, source, args, nr) for nr, node in enumerate(nodes)])

    else:

        def again(trace: Any, node: Node, source: Any, args: tuple) -> Any:
            trace.node = node
            trace.shared.add(node.root)
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

    if compares and mask == CPU_MASK | PIPELINE_MASK:
        source, *rest = schema.names
        lines = _KNOWN.format(source=source, names=", ".join(schema.names), rest="".join(f"{name}, " for name in rest))
        scope = {"_state": state, "Deferred": Deferred, "_known": known, "_below": below, "_again": again}
        known.recorder = Recorder(operator, lines_ahead(lines, schema.arguments[:1]), scope)
    return kernel


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
