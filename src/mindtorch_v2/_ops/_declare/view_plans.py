"""Composites that give lists of views of their arguments, on devices whose arrays have a `layout`: one object a kind.

The views that came of arguments of some layouts are made at once for the next ones of these, with the steps that lead
to them, which a view keeps for its gradient and after writes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ..._autograd.views import WAKING
from ..._core.planning import plans as all_plans
from ..._core.tensor import Tensor, tracked_view
from ..._dispatch.callers import compile_function
from ..._dispatch.keys import VIEW_MASK, unusual
from ..._dispatch.registry import Operator

_MOST, _TRIALS = 4096, 16
_KERNEL = """
def {name}({names}):
    if unusual.threads or not watched: return function({names})
    try:
        sources = ({sources})
        key = {key}
        made = known[key]
    except KeyError:
        return found_out(key, sources, function({names}))
    except (AttributeError, TypeError):  # arguments of other kinds
        return function({names})
    for source in sources:
        if source._keys & VIEW_MASK and source._base._keys & WAKING: return function({names})
    return tuple([again(sources[at], *how) for at, *how in made])
"""


def remembering(operator: Operator, function: Callable) -> Callable:
    """The function of a composite, whose views are remembered; itself if it gives no list of these."""
    schema = operator.schema
    returned, given = schema.returns, schema.arguments
    tensors = [a for a in given if a.is_tensor]
    if len(returned) != 1 or not returned[0].is_list or returned[0].type != "Tensor" or not tensors:
        return function
    if any(a.writes or a.type in ("Any", "Generator") for a in given) or any(
            a.optional or a.gaps or a.type != "Tensor" for a in tensors):
        return function
    known: dict[tuple, Any] = {}
    all_plans.append(known)
    watched = [True]
    misses = [0]

    def found_out(key: tuple, sources: tuple, made: Any) -> Any:
        views = [_traced(view, sources) for view in made]
        if None not in views and made.__class__ is tuple and len(views) <= 64:
            if len(known) >= _MOST:
                known.clear()
            known[key] = views
        else:
            misses[0] += 1
            if misses[0] >= _TRIALS and not known:
                watched.clear()
        return made

    sources, key = [], []
    for argument in schema.arguments:
        name = argument.name
        if not argument.is_tensor:
            key.append(f"tuple({name}) if {name}.__class__ is list else {name}" if argument.is_list else name)
        elif argument.is_list:
            sources.append(f"*{name}")
            key.append(f"*[(each._array.layout, each._offset, each._keys) for each in {name}], None")
        else:
            sources.append(name)
            key.append(f"{name}._array.layout, {name}._offset, {name}._keys")
    text = _KERNEL.format(name=schema.base_name, names=", ".join(schema.names), sources=", ".join(sources) + ",",
                          key=f"({', '.join(key)},)")
    scope = {"unusual": unusual, "watched": watched, "function": function, "known": known, "found_out": found_out,
             "VIEW_MASK": VIEW_MASK, "WAKING": WAKING, "again": _again, "__opname__": f"{operator.name} views",
             "__name__": __name__}
    made: Any = compile_function(schema.base_name, text, scope)
    made.without_plans = function
    return made


def _traced(view: Any, sources: Sequence[Tensor]) -> tuple | None:
    """Of which source a result is a view: its number, layout, offset and steps; None if it is of none."""
    if not isinstance(view, Tensor):
        return None
    for number, source in enumerate(sources):
        if view is source:
            return number, None, 0, ()
    for number, source in enumerate(sources):
        base = source if source._base is None else source._base
        if view._base is not base or view._keys & ~VIEW_MASK != source._keys & ~VIEW_MASK:
            continue
        steps: list[tuple] = []
        step, end = view._view_step, source._view_step if source._base is not None else None
        while step is not None and step is not end:
            steps.insert(0, step[1:])
            step = step[0]
        given = [a for _, args, _ in steps for a in args]
        plain = all(nr is None for _, _, nr in steps[:-1]) and not any(hasattr(a, "_array") for a in given)
        if step is end and steps and plain:
            return number, view._shared_storage().laid_out_like(view._array), view._offset, tuple(steps)
    return None


def _again(source: Tensor, layout: Any, offset: int, steps: tuple) -> Tensor:
    if not steps:
        return source
    storage = source._storage
    if storage is None:
        storage = source._shared_storage()
    operator, args, nr = steps[-1]
    made = tracked_view(source, storage.laid_out(layout, offset), offset, operator, args, nr)
    if len(steps) > 1:
        step = None if source._base is None else source._view_step
        for operator, args, nr in steps:
            step = (step, operator, args, nr)
        made._view_step = step
    return made
