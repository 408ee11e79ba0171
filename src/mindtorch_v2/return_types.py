"""The named tuples that operators with several results give: torch.return_types.max and the like."""

from typing import Any

from ._ops._declare.op import return_type


def __getattr__(name: str) -> Any:
    kind = return_type(name)
    if kind is None:
        raise AttributeError(f"module 'torch.return_types' has no attribute '{name}'")
    return kind
