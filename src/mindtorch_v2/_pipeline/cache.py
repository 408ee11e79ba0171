"""Plans by what traces recorded."""

from .._core.planning import plans
from .plan import Plan
from .trace import Recordings, Trace

_MOST = 1024
_NODES = 16  # of a trace that a plan counts for, which takes as much memory
_known: dict[tuple, Plan] = {}
_recordings = Recordings()
plans += [_known, _recordings]


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
        from .planner import planned

        if len(_known) >= _MOST:
            _known.clear()
        plan = _known[key] = planned(trace)
    return plan


def forget_plans() -> None:
    """Lets every trace be planned anew."""
    _known.clear()
    _recordings.clear()
