"""The operators: one declaration each, grouped by what they mean."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("OpOverload", "OpOverloadPacket", "_OpNamespace", "ops"):  # PyTorch has them in the module of this name
        from .._compat import operator_names

        return getattr(operator_names, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
