"""torch.distributed: one process only. The names can be imported; what needs other processes says it is not here."""

import enum
from typing import Any

from .._absent import absent_class, absent_function

__all__ = [
    "Backend",
    "GroupMember",
    "P2POp",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "supports_complex",
]

_SUBMODULES = ("algorithms", "checkpoint", "device_mesh", "distributed_c10d", "elastic", "fsdp", "nn", "rpc", "tensor")
_WHY = "It runs one process; start the program without a distributed launcher."


def is_available() -> bool:
    """Whether processes can be joined: not here."""
    return False


def is_initialized() -> bool:
    return False


def _no() -> bool:
    return False


is_gloo_available = is_mpi_available = is_nccl_available = is_ucc_available = is_torchelastic_launched = _no


class ReduceOp:
    """How values of several processes are joined."""

    class RedOpType(enum.Enum):
        SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = RedOpType


class Backend(str):
    """The name of a communication library."""

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"


class _Groups:
    WORLD: Any = None


group = GroupMember = _Groups
ProcessGroup, Work = absent_class("torch.distributed.ProcessGroup", _WHY), absent_class("torch.distributed.Work", _WHY)
P2POp, Store = absent_class("torch.distributed.P2POp", _WHY), absent_class("torch.distributed.Store", _WHY)
TCPStore, FileStore, HashStore = (absent_class(f"torch.distributed.{name}", _WHY)
                                  for name in ("TCPStore", "FileStore", "HashStore"))

_UNINITIALISED = "Default process group has not been initialized, please make sure to call init_process_group."


def get_rank(group: Any = None) -> int:
    raise ValueError(_UNINITIALISED)


def get_world_size(group: Any = None) -> int:
    raise ValueError(_UNINITIALISED)


def get_backend(group: Any = None) -> str:
    raise ValueError(_UNINITIALISED)


def supports_complex(reduceOp: Any) -> bool:
    return reduceOp not in (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


globals().update({name: absent_function(f"torch.distributed.{name}", _WHY)
                  for name in __all__ if name not in globals()})


def __getattr__(name: str) -> Any:
    """Submodules are loaded when asked for."""
    import importlib

    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
