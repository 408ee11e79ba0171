"""torch.distributed: groups of processes, on one host out of the box; docs/distributed.md tells of engines."""

import importlib
from typing import Any

from ._errors import DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError
from ._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from .distributed_c10d import *  # noqa: F403
from .distributed_c10d import __all__ as _names
from .distributed_c10d import (
    _all_gather_base,
    _Backend,
    _coalescing_manager,
    _CoalescingManager,
    _get_process_group_name,
    _make_nccl_premul_sum,
    _rank_not_in_group,
    _reduce_scatter_base,
)
from .rendezvous import register_rendezvous_handler, rendezvous

__all__ = [  # noqa: PLE0604 - names of strings
    *_names, "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "HashStore",
    "QueueEmptyError", "TCPStore", "is_available", "register_rendezvous_handler", "rendezvous",
]
_SUBMODULES = ("_composable", "algorithms", "checkpoint", "constants", "device_mesh", "elastic", "fsdp", "launch", "nn",
               "optim", "pipelining", "rpc", "run", "tensor")
_ELSEWHERE = {"DeviceMesh": "device_mesh", "init_device_mesh": "device_mesh", "GradBucket": "_gradients",
              "ProcessGroupGloo": "_engines.embedded", "ProcessGroupNCCL": "_engines.nccl",
              "_broadcast_coalesced": "_gradients", "_verify_params_across_processes": "_gradients"}
_RENAMED = {"ProcessGroupGloo": "EmbeddedEngine", "ProcessGroupNCCL": "NcclEngine"}


def is_available() -> bool:
    """Whether groups of processes can be made."""
    return True


def __getattr__(name: str) -> Any:
    """Submodules are loaded when asked for."""
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(f"{__name__}.{_ELSEWHERE[name]}"), _RENAMED.get(name, name))
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
