"""Groups of processes and their collectives, by PyTorch's name of this module."""

from typing import Any, NewType

from ._collectives import *  # noqa: F403
from ._collectives import __all__ as _collective_names
from ._collectives import (  # noqa: F401 - by these names
    _all_gather_base,
    _coalescing_manager,
    _CoalescingManager,
    _reduce_scatter_base,
)
from ._debug import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from ._engines.interface import Engine
from ._groups import Backend, BackendConfig, GroupMember, ProcessGroup, default_pg_timeout, group
from ._objects import *  # noqa: F403
from ._objects import __all__ as _object_names
from ._objects import _object_to_tensor, _tensor_to_object  # noqa: F401 - by these names
from ._options import *  # noqa: F403
from ._options import __all__ as _option_names
from ._reductions import ReduceOp, premul_sum, supports_complex
from ._stores import FileStore, HashStore, PrefixStore, Store, TCPStore  # noqa: F401 - by these names
from ._work import Work
from ._world import *  # noqa: F403
from ._world import __all__ as _world_names
from ._world import _DistributedBackendOptions, default_group, groups, is_outside  # noqa: F401 - by these names
from .rendezvous import register_rendezvous_handler, rendezvous  # noqa: F401 - by these names

__all__ = [  # noqa: PLE0604 - names of strings
    "Backend", "BackendConfig", "DebugLevel", "GroupMember", "PrefixStore", "ProcessGroup", "ReduceOp", "Store", "Work",
    "default_pg_timeout", "get_debug_level", "group", "reduce_op", "set_debug_level", "set_debug_level_from_env",
    "supports_complex", *_collective_names, *_object_names, *_option_names, *_world_names,
]

reduce_op = ReduceOp
_make_nccl_premul_sum = premul_sum
_get_default_group = default_group
_rank_not_in_group = is_outside
_Backend = Engine


GroupName = NewType("GroupName", str)


class _World:
    """The groups of this process, as a few libraries look at them."""

    @property
    def default_pg(self) -> ProcessGroup | None:
        return GroupMember.WORLD

    @property
    def pg_group_ranks(self) -> dict[ProcessGroup, dict[int, int]]:
        return {each: {rank: at for at, rank in enumerate(each._ranks)} for each in groups}

    @property
    def pg_map(self) -> dict[ProcessGroup, tuple[str, Any]]:
        return {each: (each._backend, each.store) for each in groups}

    @property
    def pg_names(self) -> dict[ProcessGroup, str]:
        return {each: each.group_name for each in groups}


_world = _World()


def _get_default_store() -> Any:
    return default_group().store


def _get_process_group_name(pg: ProcessGroup) -> str:
    return pg.group_name


def _resolve_process_group(group_name: str) -> ProcessGroup:
    """The group of a name."""
    for each in groups:
        if each.group_name == group_name:
            return each
    raise ValueError(f"Could not resolve the process group registered under the name {group_name}")
