"""Plans by what traces recorded."""

from .._core.planning import plans
from .plan import Plan
from .trace import Recordings, Trace

_MOST = 1024
_ALIKE = 4  # bits of sizes: where arrays are 16 times as large, other steps may be better
_NODES = 16  # of a trace that a plan counts for, which takes as much memory
_known: dict[tuple, Plan] = {}
_forms: dict[tuple, Plan] = {}  # of those that were made from nothing, the last, by what all sizes have in common
_recordings = Recordings()
plans += [_known, _forms, _recordings]


def plan_of(trace: Trace) -> Plan:
    """The plan of a trace, made if there is none for its signature."""
    known, key = trace.node.plans, (trace.outputs, trace.aliases())
    plan = known.get(key)
    if plan is None:
        plan = known[key] = _shared_plan(trace)
        trace.live.nodes += _NODES
    return plan


def _shared_plan(trace: Trace) -> Plan:
    """The one plan of all traces with a signature."""
    key = trace.signature()
    plan = _known.get(key)
    if plan is None:
        if len(_known) >= _MOST:
            _known.clear()
            _forms.clear()
        plan = _known[key] = _plan_for_sizes(trace)
    return plan


def _plan_for_sizes(trace: Trace) -> Plan:
    """A new plan: one for other sizes with these, or made from nothing."""
    from .planner import planned
    from .resizing import resized

    layouts = trace.layouts
    largest = max([layout.size for layout in layouts], default=0)
    form = (trace.outputs, trace.aliases(), largest.bit_length() // _ALIKE,
            *[node.recipe.operator if node.recipe is not None else node.layout.dtype
              for node in trace.node.path()[0]])  # fmt: skip
    known = _forms.get(form)
    plan = resized(known, trace) if known is not None else None
    if plan is None:
        plan = _forms[form] = planned(trace)
    return plan


def forget_plans() -> None:
    """Lets every trace be planned anew."""
    _known.clear()
    _forms.clear()
    _recordings.clear()
