"""Tools beside the tensors themselves, as in torch.utils."""

import importlib as _importlib
from typing import Any as _Any

from . import dlpack, hooks

_SUBMODULES = frozenset("""
    _foreach_utils _python_dispatch _pytree backend_registration benchmark checkpoint collect_env cpp_extension data
    flop_counter mobile_optimizer model_zoo module_tracker serialization tensorboard weak
""".split())
__all__ = ["dlpack", "hooks"]


def __getattr__(name: str) -> _Any:
    if name == "draw_graph":
        return _importlib.import_module(f"{__name__}.graph_drawing").draw_graph
    if name in _SUBMODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
