"""Tools beside the tensors themselves, as in torch.utils."""

import copyreg as _copyreg
import importlib as _importlib
import weakref as _weakref
from typing import Any as _Any

from .._core.tensor_base import fields_of as _fields_of
from . import dlpack, hooks

_SUBMODULES = frozenset("""
    _foreach_utils _mode_utils _python_dispatch _pytree backend_registration benchmark checkpoint collect_env
    cpp_extension data deterministic flop_counter mobile_optimizer model_zoo module_tracker serialization tensorboard
    weak
""".split())
_ATTRIBUTES = {"draw_graph": "graph_drawing", "trace": "tracing", "Trace": "tracing",
               "generate_methods_for_privateuse1_backend": "backend_registration",
               "rename_privateuse1_backend": "backend_registration"}
__all__ = ["dlpack", "hooks"]


def set_module(obj: _Any, mod: str) -> None:
    """Says that an object belongs to another module."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def swap_tensors(t1: _Any, t2: _Any) -> None:
    """Exchanges what two tensors are, so that whoever holds one of them sees the other."""
    for number, tensor in ((1, t1), (2, t2)):
        if _weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap t{number} because it has weakref associated with it")
    slots = [set(_copyreg._slotnames(type(t))) for t in (t1, t2)]  # type: ignore[attr-defined]
    if slots[0] != slots[1]:
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    first, second = _fields_of(t1), _fields_of(t2)
    kept = dict(first)
    for fields, given in ((first, dict(second)), (second, kept)):
        fields.clear()
        fields.update(given)
    for name in slots[0]:
        held = [getattr(t, name, None) for t in (t1, t2)]
        setattr(t1, name, held[1])
        setattr(t2, name, held[0])
    for tensor in (t1, t2):
        tensor._identity = object()


def __getattr__(name: str) -> _Any:
    if name in _ATTRIBUTES:
        return getattr(_importlib.import_module(f"{__name__}.{_ATTRIBUTES[name]}"), name)
    if name in _SUBMODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
