"""torch.distributed: groups of one process. What needs a second one says that it is not here."""

import importlib
from typing import Any

from ._stores import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    FileStore,
    HashStore,
    PrefixStore,
    Store,
    TCPStore,
)
from .distributed_c10d import *  # noqa: F403
from .distributed_c10d import __all__ as _collectives
from .distributed_c10d import _all_gather_base, _reduce_scatter_base
from .rendezvous import register_rendezvous_handler, rendezvous

__all__ = [  # noqa: PLE0604 - names of strings
    *_collectives, "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "HashStore",
    "TCPStore", "is_available", "register_rendezvous_handler", "rendezvous",
]
_SUBMODULES = ("algorithms", "checkpoint", "device_mesh", "elastic", "fsdp", "launch", "nn", "rpc", "run", "tensor")
_ELSEWHERE = {"DeviceMesh": "device_mesh", "init_device_mesh": "device_mesh"}


def is_available() -> bool:
    """Whether groups can be made; of one process, here."""
    return True


def __getattr__(name: str) -> Any:
    """Submodules are loaded when asked for."""
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
