"""Plans by the signatures of traces."""

from .._core.planning import plans
from .plan import Plan
from .trace import Trace

_MOST = 1024
_known: dict[tuple, Plan] = {}
plans.append(_known)


def plan_of(trace: Trace) -> Plan:
    """The plan of a trace, made if there is none for its signature."""
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
