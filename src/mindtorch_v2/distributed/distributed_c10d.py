"""The default group and the collectives: checks, and then a method of the group (`_groups.py`) does the work."""

import os
import pickle
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from .. import cuda
from .._compat.absent import absent_function
from .._core.tensor import Tensor
from ._groups import (
    ProcessGroup,
    ReduceOp,
    SingleProcessGroup,
    Work,
    check_complex,
    default_pg_timeout,
    supports_complex,
)
from ._stores import ONE_PROCESS, PrefixStore, Store
from .rendezvous import check_world_size, rendezvous

__all__ = [
    "Backend", "GroupMember", "P2POp", "PrefixStore", "ProcessGroup", "ReduceOp", "Store", "Work", "all_gather",
    "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
    "broadcast_object_list", "default_pg_timeout", "destroy_process_group", "gather", "gather_object", "get_backend",
    "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank", "get_pg_count",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group", "irecv",
    "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group",
    "new_subgroups", "recv", "recv_object_list", "reduce", "reduce_op", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_tensor", "scatter", "scatter_object_list", "send", "send_object_list", "supports_complex",
]


class Backend(str):
    """The name of a communication library."""

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI]

    def __new__(cls, name: str) -> str:  # type: ignore[misc]
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return name.lower()


class GroupMember:
    """The default group, and what stands for a group that this process is not in."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


class _Groups(type):
    """Makes `group.WORLD` the default group, also after it was made."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return GroupMember.WORLD

    @WORLD.setter
    def WORLD(cls, made: ProcessGroup | None) -> None:
        GroupMember.WORLD = made


class group(metaclass=_Groups):
    """The default group by its older name."""


reduce_op = ReduceOp
_made: list[ProcessGroup] = []  # all groups since the default one


# what there is -------------------------------------------------------------------------------------------------------


def is_gloo_available() -> bool:
    return True


def is_nccl_available() -> bool:
    return cuda.is_available()


def _no() -> bool:
    return False


is_mpi_available = is_ucc_available = is_xccl_available = _no


def is_backend_available(backend: str) -> bool:
    return {"gloo": is_gloo_available, "nccl": is_nccl_available}.get(backend.lower(), _no)()


def is_torchelastic_launched() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_default_backend_for_device(device: Any) -> str:
    return "nccl" if str(device).startswith("cuda") else "gloo"


def is_initialized() -> bool:
    return GroupMember.WORLD is not None


def _default_group() -> ProcessGroup:
    if GroupMember.WORLD is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return GroupMember.WORLD


def _known(given: Any) -> Any:
    """The group of a call: the default one if none is named."""
    if given is None:
        return _default_group()
    if not isinstance(given, ProcessGroup) and given != GroupMember.NON_GROUP_MEMBER:
        raise ValueError(f"Invalid process group specified: {given}")
    return given


def _is_outside(given: Any) -> bool:
    return given == GroupMember.NON_GROUP_MEMBER


def get_rank(group: Any = None) -> int:
    """The rank of this process in a group; -1 if it is not in it."""
    return -1 if _is_outside(group) else _known(group).rank()


def get_world_size(group: Any = None) -> int:
    return -1 if _is_outside(group) else _known(group).size()


def get_backend(group: Any = None) -> str:
    return _known(group).name()


def get_pg_count() -> int:
    return len(_made)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
                           "`get_node_local_rank` to work, assuming you are not running in a multi-device context and "
                           "want the code to run locally instead.")
    return int(fallback_rank)


def get_process_group_ranks(group: Any) -> list[int]:
    return list(_known(group)._ranks)


def get_group_rank(group: Any, global_rank: int) -> int:
    known = _known(group)
    if known is GroupMember.WORLD:
        return global_rank
    if global_rank not in known._ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {known}")
    return known._ranks.index(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    known = _known(group)
    if known is GroupMember.WORLD:
        return group_rank
    if not 0 <= group_rank < known.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {known}")
    return known._ranks[group_rank]


# making groups -------------------------------------------------------------------------------------------------------


def _checked_backend(name: str | None) -> str:
    """A backend's name; of "cpu:gloo,cuda:nccl" the first. With one process none of them has anything to do."""
    if name is None:
        return Backend.UNDEFINED
    names = [part.rpartition(":")[2].lower() for part in str(name).split(",")]
    for each in names:
        if each not in Backend.backend_list:
            raise AssertionError(f"Unknown backend type {each}")
        if each == Backend.NCCL and not is_nccl_available():
            raise RuntimeError("Distributed package doesn't have NCCL built in")
        if each == Backend.MPI:
            raise RuntimeError("Distributed package doesn't have MPI built in. MPI is only included if you build "
                               "PyTorch from source on a host that has MPI installed.")
        if each in (Backend.UCC, Backend.XCCL):
            raise RuntimeError(f"Distributed package doesn't have {each.upper()} built in")
    return names[0]


def init_process_group(backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None,
                       world_size: int = -1, rank: int = -1, store: Store | None = None, group_name: str = "",
                       pg_options: Any = None, device_id: Any = None, _ranks: Any = None) -> None:
    """Makes the default group, of this process alone."""
    if GroupMember.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None:
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
        check_world_size(world_size)
    name = _checked_backend(backend)
    if store is None:
        limit = default_pg_timeout if timeout is None else timeout
        store, rank, world_size = next(iter(rendezvous(init_method or "env://", rank, world_size, timeout=limit)))
    if not 0 <= rank < world_size:
        raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {world_size - 1}]")
    GroupMember.WORLD = SingleProcessGroup(rank, range(world_size), name, PrefixStore("default_pg", store), "0")
    _made.append(GroupMember.WORLD)


def new_group(ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: str | None = None,
              pg_options: Any = None, use_local_synchronization: bool = False, group_desc: str | None = None,
              device_id: Any = None) -> Any:
    """A group of some of the processes; what stands for none if this process is not among them."""
    world = _default_group()
    members = list(range(world.size())) if ranks is None else sorted(ranks)
    if len(members) > world.size():
        raise ValueError("the new group's world size should be less or equal to the world size set by "
                         "init_process_group")
    if any(not 0 <= rank < world.size() for rank in members):
        raise ValueError("The new group's rank should be within the world_size set by init_process_group")
    if world.rank() not in members:
        return GroupMember.NON_GROUP_MEMBER
    name = world.name() if backend is None else _checked_backend(backend)
    made = SingleProcessGroup(members.index(world.rank()), members, name, world.store, str(len(_made)))
    _made.append(made)
    return made


def new_subgroups(group_size: int | None = None, group: Any = None, timeout: timedelta | None = None,
                  backend: str | None = None, pg_options: Any = None, group_desc: str | None = None) -> tuple:
    """(the subgroup of this process, all of them)."""
    size = get_world_size(group) if group_size is None else group_size
    if size > get_world_size(group):
        raise ValueError(f"The arg 'group_size' ({size}) must not exceed the world size ({get_world_size(group)})")
    made = new_group([get_rank(group)], timeout, backend)
    return made, [made]


def destroy_process_group(group: Any = None) -> None:
    """Forgets a group, or, with the default one, all of them."""
    gone = GroupMember.WORLD if group is None else group
    if gone is None:
        raise AssertionError("Process group cannot be None")
    if gone is GroupMember.WORLD:
        GroupMember.WORLD = None
        _made.clear()
    elif gone in _made:
        _made.remove(gone)
    elif not _is_outside(gone):
        raise RuntimeError("Invalid process group specified")


# collectives ---------------------------------------------------------------------------------------------------------


def _check_tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             "
                        f"but got {type(value)} instead.")


def _check_tensors(values: Any, name: str) -> None:
    if not isinstance(values, (list, tuple)) or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
                        f"             but got {type(values)} with elements of type {[type(v) for v in values]}.")


def _check_one_type(*tensors: Tensor) -> None:
    for tensor in tensors[1:]:
        if tensor.dtype is not tensors[0].dtype:
            raise ValueError("Invalid usage of tensors with different dtypes"
                             f"Found {tensors[0].dtype} and  {tensor.dtype}")


def _done(work: Work, async_op: bool) -> Work | None:
    """The work, if the caller means to wait for it."""
    if async_op:
        return work
    work.wait()
    return None


def _root(group: Any, rank: int | None, group_rank: int | None) -> int:
    """A rank in the group, given there or among all processes."""
    if group_rank is not None:
        return group_rank
    return get_group_rank(group, 0 if rank is None else rank)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    _check_tensor(tensor, "tensor")
    check_complex(tensor, op, "all_reduce")
    return _done(_known(group).allreduce([tensor], op), async_op)


def all_reduce_coalesced(tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None,
                         async_op: bool = False) -> Work | None:
    _check_tensors(tensors, "tensor")
    return _done(_known(group).allreduce(tensors, op), async_op)


def broadcast(tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False,
              group_src: int | None = None) -> Work | None:
    _check_tensor(tensor, "tensor")
    return _done(_known(group).broadcast([tensor], _root(group, src, group_src)), async_op)


def reduce(tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False,
           group_dst: int | None = None) -> Work | None:
    _check_tensor(tensor, "tensor")
    check_complex(tensor, op, "reduce")
    return _done(_known(group).reduce([tensor], _root(group, dst, group_dst), op), async_op)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    _check_tensors(tensor_list, "tensor_list")
    _check_tensor(tensor, "tensor")
    _check_one_type(*tensor_list, tensor)
    return _done(_known(group).allgather(tensor_list, tensor), async_op)


def all_gather_coalesced(output_tensor_lists: Sequence[list[Tensor]], input_tensor_list: Sequence[Tensor],
                         group: Any = None, async_op: bool = False) -> Work | None:
    works = [_known(group).allgather(list(outputs), given)
             for outputs, given in zip(zip(*output_tensor_lists, strict=True), input_tensor_list, strict=True)]
    return _done(Work([t for work in works for t in work.result()]), async_op)


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor, group: Any = None,
                           async_op: bool = False) -> Work | None:
    _check_tensor(output_tensor, "output_tensor")
    _check_tensor(input_tensor, "input_tensor")
    return _done(_known(group).allgather([output_tensor], input_tensor), async_op)


all_gather_single = _all_gather_base = all_gather_into_tensor


def gather(tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: Any = None,
           async_op: bool = False, group_dst: int | None = None) -> Work | None:
    _check_tensor(tensor, "tensor")
    if gather_list is None:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    _check_tensors(gather_list, "gather_list")
    _check_one_type(*gather_list, tensor)
    return _done(_known(group).gather(gather_list, tensor, _root(group, dst, group_dst)), async_op)


def scatter(tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: Any = None,
            async_op: bool = False, group_src: int | None = None) -> Work | None:
    _check_tensor(tensor, "tensor")
    if scatter_list is None:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    _check_tensors(scatter_list, "scatter_list")
    _check_one_type(tensor, *scatter_list)
    return _done(_known(group).scatter(tensor, scatter_list, _root(group, src, group_src)), async_op)


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None,
                   async_op: bool = False) -> Work | None:
    _check_tensor(output, "output")
    _check_tensors(input_list, "input_list")
    _check_one_type(output, *input_list)
    return _done(_known(group).reduce_scatter(output, input_list, op), async_op)


def reduce_scatter_tensor(output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None,
                          async_op: bool = False) -> Work | None:
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    return _done(_known(group).reduce_scatter(output, [input], op), async_op)


reduce_scatter_single = _reduce_scatter_base = reduce_scatter_tensor


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None,
               async_op: bool = False) -> Work | None:
    _check_tensors(output_tensor_list, "output_tensor_list")
    _check_tensors(input_tensor_list, "input_tensor_list")
    _check_one_type(*output_tensor_list, *input_tensor_list)
    return _done(_known(group).alltoall(output_tensor_list, input_tensor_list), async_op)


def all_to_all_single(output: Tensor, input: Tensor, output_split_sizes: list[int] | None = None,
                      input_split_sizes: list[int] | None = None, group: Any = None,
                      async_op: bool = False) -> Work | None:
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    _check_one_type(output, input)
    return _done(_known(group).alltoall([output], [input]), async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    return _done(_known(group).barrier(), async_op)


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    _known(group).barrier()


# objects -------------------------------------------------------------------------------------------------------------


def _passed(value: Any) -> Any:
    """An object as another process would get it: a copy, by way of a pickle."""
    return pickle.loads(pickle.dumps(value))


def all_gather_object(object_list: list, obj: Any, group: Any = None) -> None:
    _known(group)
    object_list[0] = _passed(obj)


def gather_object(obj: Any, object_gather_list: list | None = None, dst: int | None = None, group: Any = None,
                  group_dst: int | None = None) -> None:
    _known(group)
    if object_gather_list is None:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    object_gather_list[0] = _passed(obj)


def broadcast_object_list(object_list: list, src: int | None = None, group: Any = None, device: Any = None,
                          group_src: int | None = None, weights_only: bool = False) -> None:
    _known(group)._check_root("broadcast", _root(group, src, group_src))


def scatter_object_list(scatter_object_output_list: list, scatter_object_input_list: list | None = None,
                        src: int | None = None, group: Any = None, group_src: int | None = None) -> None:
    _known(group)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    if scatter_object_input_list is None:
        raise ValueError("source rank must provide non-None scatter_object_input_list")
    scatter_object_output_list[0] = _passed(scatter_object_input_list[0])


# from one to another -------------------------------------------------------------------------------------------------


def _check_other(group: Any, rank: int | None, what: str) -> None:
    if rank is not None and get_group_rank(group, rank) == _known(group).rank():
        raise ValueError(f"Invalid {what} rank: {what} rank should not be the same as the rank of the current process.")


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    _check_tensor(tensor, "tensor")
    _check_other(group, dst, "destination")
    _known(group).send(tensor, _root(group, dst, group_dst), tag).wait()


def isend(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
          group_dst: int | None = None) -> Work | None:
    _check_tensor(tensor, "tensor")
    return _known(group).send(tensor, _root(group, dst, group_dst), tag)


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    _check_tensor(tensor, "tensor")
    work = _known(group).recv(tensor, None if src is None else _root(group, src, group_src), tag)
    work.wait()
    return work.source_rank()


def irecv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
          group_src: int | None = None) -> Work | None:
    _check_tensor(tensor, "tensor")
    return _known(group).recv(tensor, None if src is None else _root(group, src, group_src), tag)


class P2POp:
    """One `isend` or `irecv` out of a batch."""

    def __init__(self, op: Callable, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
                 group_peer: int | None = None) -> None:
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                             "``torch.distributed.irecv``.")
        _check_tensor(tensor, "tensor")
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    return [each.op(each.tensor, each.peer, each.group, each.tag) for each in p2p_op_list]


send_object_list = absent_function("torch.distributed.send_object_list", ONE_PROCESS)
recv_object_list = absent_function("torch.distributed.recv_object_list", ONE_PROCESS)
