"""Calls by operator name."""

from typing import Any

from .callers import call_bound
from .keys import DispatchKeySet
from .registry import registry


def dispatch(name: str, *args: Any, **kwargs: Any) -> Any:
    """Runs the operator `name` (in `aten::` unless it says otherwise) on the keys of its tensors."""
    operator = registry.get(name)
    return call_bound(operator, operator.schema.bind(args, kwargs))


def redispatch(name: str, keys: DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
    """Runs the operator as if the call's keys were `keys`: a kernel goes on below its own key with this."""
    operator = registry.get(name)
    return operator.lookup(keys.mask)(*operator.schema.bind(args, kwargs))
