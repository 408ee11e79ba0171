"""The collectives as functions: checks, and then a method of the group does the work."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from .._core.device import device as _device
from .._core.tensor import Tensor
from . import _options as options
from ._reductions import ReduceOp, check_complex
from ._work import Work
from ._world import (
    default_group,
    get_global_rank,
    get_group_rank,
    get_rank,
    known,
    warn_outside,
)

__all__ = [
    "P2POp", "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "gather",
    "irecv", "isend", "monitored_barrier", "recv", "reduce", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_tensor", "scatter", "send",
]  # fmt: skip


def _check_tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             "
                        f"but got {type(value)} instead.")


def _check_tensors(values: Any, name: str) -> None:
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
                        f"             but got {type(values)} instead.")
    if not all(isinstance(value, Tensor) for value in values):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
                        f"             but got {type(values)} with elements of type {[type(v) for v in values]}.")


def _check_one_type(*tensors: Tensor) -> None:
    for tensor in tensors[1:]:
        if tensor.dtype is not tensors[0].dtype:
            raise ValueError("Invalid usage of tensors with different dtypes"
                             f"Found {tensors[0].dtype} and  {tensor.dtype}")


_coalescing: list["_CoalescingManager"] = []


def _done(work: Any, async_op: bool) -> Any:
    """The work, if the caller means to wait for it."""
    if _coalescing:
        _coalescing[-1].append(work)
        return None
    if async_op:
        return work
    if work is not None:
        work.wait()
    return None


def _asynchronous(async_op: bool) -> bool:
    return async_op or bool(_coalescing)


def root_in(group: Any, rank: int | None, group_rank: int | None, default: int | None = None) -> int:
    """A rank in the group, given there or among all processes."""
    if rank is not None and group_rank is not None:
        raise ValueError("Can't specify both group_rank and global_rank")
    if group_rank is not None:
        return group_rank
    if rank is None:
        if default is None:
            raise ValueError("Must specify global_rank or group_rank")
        rank = default
    return get_group_rank(group, rank)


# collectives ---------------------------------------------------------------------------------------------------------


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    _check_tensor(tensor, "tensor")
    if warn_outside(group, "all_reduce"):
        return None
    check_complex(tensor, op, "all_reduce")
    opts = options.AllreduceOptions(reduceOp=op, asyncOp=_asynchronous(async_op))
    return _done(known(group).allreduce([tensor], opts), async_op)


def all_reduce_coalesced(tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None,
                         async_op: bool = False) -> Work | None:
    tensors = [tensors] if isinstance(tensors, Tensor) else tensors
    _check_tensors(tensors, "tensor")
    _check_one_type(*tensors)
    if warn_outside(group, "all_reduce_coalesced"):
        return None
    if any(tensor.dtype.is_complex for tensor in tensors):
        check_complex(tensors[0], op, "all_reduce")
    opts = options.AllreduceCoalescedOptions(reduceOp=op, asyncOp=_asynchronous(async_op))
    return _done(known(group).allreduce_coalesced(tensors, opts), async_op)


def broadcast(tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False,
              group_src: int | None = None) -> Work | None:
    _check_tensor(tensor, "tensor")
    if warn_outside(group, "broadcast"):
        return None
    opts = options.BroadcastOptions(rootRank=root_in(group, src, group_src), asyncOp=_asynchronous(async_op))
    return _done(known(group).broadcast([tensor], opts), async_op)


def reduce(tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False,
           group_dst: int | None = None) -> Work | None:
    _check_tensor(tensor, "tensor")
    if warn_outside(group, "reduce"):
        return None
    check_complex(tensor, op, "reduce")
    root = root_in(group, dst, group_dst)
    opts = options.ReduceOptions(rootRank=root, reduceOp=op, asyncOp=_asynchronous(async_op))
    return _done(known(group).reduce([tensor], opts), async_op)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    _check_tensors(tensor_list, "tensor_list")
    _check_tensor(tensor, "tensor")
    _check_one_type(*tensor_list, tensor)
    if warn_outside(group, "all_gather"):
        return None
    opts = options.AllgatherOptions(asyncOp=_asynchronous(async_op))
    return _done(known(group).allgather([tensor_list], [tensor], opts), async_op)


def all_gather_coalesced(output_tensor_lists: Sequence[list[Tensor]], input_tensor_list: Sequence[Tensor],
                         group: Any = None, async_op: bool = False) -> Work | None:
    if warn_outside(group, "all_gather_coalesced"):
        return None
    _check_tensors(input_tensor_list, "input_tensor_list")
    _check_one_type(*input_tensor_list)
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for outputs in output_tensor_lists:
        _check_tensors(outputs, "output_tensor_lists")
        _check_one_type(*outputs)
    opts = options.AllgatherOptions(asyncOp=_asynchronous(async_op))
    return _done(known(group).allgather_coalesced(output_tensor_lists, input_tensor_list, opts), async_op)


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor, group: Any = None,
                           async_op: bool = False) -> Work | None:
    _check_tensor(input_tensor, "input_tensor")
    _check_tensor(output_tensor, "output_tensor")
    if warn_outside(group, "all_gather_into_tensor"):
        return None
    opts = options.AllgatherOptions(asyncOp=_asynchronous(async_op))
    return _done(known(group)._allgather_base(output_tensor, input_tensor, opts), async_op)


all_gather_single = all_gather_into_tensor


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Any = None,
                     async_op: bool = False) -> Work | None:
    return all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def gather(tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: Any = None,
           async_op: bool = False, group_dst: int | None = None) -> Work | None:
    _check_tensor(tensor, "tensor")
    if gather_list:
        _check_tensors(gather_list, "gather_list")
        _check_one_type(*gather_list, tensor)
    if warn_outside(group, "gather"):
        return None
    root = root_in(group, dst, group_dst, 0)
    _check_ends("gather_list", gather_list, known(group).rank() == root, "destination")
    opts = options.GatherOptions(rootRank=root, asyncOp=_asynchronous(async_op))
    return _done(known(group).gather([gather_list] if gather_list else [], [tensor], opts), async_op)


def _check_ends(name: str, tensors: Any, is_root: bool, end: str) -> None:
    if is_root and not tensors:
        raise ValueError(f"Argument ``{name}`` must be specified on {end} rank.")
    if not is_root and tensors:
        raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{end} ranks.")


def scatter(tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: Any = None,
            async_op: bool = False, group_src: int | None = None) -> Work | None:
    _check_tensor(tensor, "tensor")
    if scatter_list:
        _check_tensors(scatter_list, "scatter_list")
        _check_one_type(tensor, *scatter_list)
    if warn_outside(group, "scatter"):
        return None
    root = root_in(group, src, group_src, 0)
    _check_ends("scatter_list", scatter_list, known(group).rank() == root, "source")
    opts = options.ScatterOptions(rootRank=root, asyncOp=_asynchronous(async_op))
    return _done(known(group).scatter([tensor], [scatter_list] if scatter_list else [], opts), async_op)


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None,
                   async_op: bool = False) -> Work | None:
    _check_tensor(output, "output")
    _check_tensors(input_list, "input_list")
    _check_one_type(output, *input_list)
    if warn_outside(group, "reduce_scatter"):
        return None
    opts = options.ReduceScatterOptions(reduceOp=op, asyncOp=_asynchronous(async_op))
    return _done(known(group).reduce_scatter([output], [input_list], opts), async_op)


def reduce_scatter_tensor(output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None,
                          async_op: bool = False) -> Work | None:
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    if warn_outside(group, "reduce_scatter_tensor"):
        return None
    opts = options.ReduceScatterOptions(reduceOp=op, asyncOp=_asynchronous(async_op))
    return _done(known(group)._reduce_scatter_base(output, input, opts), async_op)


reduce_scatter_single = reduce_scatter_tensor


def _reduce_scatter_base(output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None,
                         async_op: bool = False) -> Work | None:
    return reduce_scatter_tensor(output, input, op, group, async_op)


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None,
               async_op: bool = False) -> Work | None:
    if warn_outside(group, "all_to_all"):
        return None
    _check_tensors(output_tensor_list, "output_tensor_list")
    _check_tensors(input_tensor_list, "input_tensor_list")
    _check_one_type(*output_tensor_list, *input_tensor_list)
    opts = options.AllToAllOptions(asyncOp=_asynchronous(async_op))
    return _done(known(group).alltoall(output_tensor_list, input_tensor_list, opts), async_op)


def all_to_all_single(output: Tensor, input: Tensor, output_split_sizes: list[int] | None = None,
                      input_split_sizes: list[int] | None = None, group: Any = None,
                      async_op: bool = False) -> Work | None:
    if warn_outside(group, "all_to_all_single"):
        return None
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    _check_one_type(output, input)
    opts = options.AllToAllOptions(asyncOp=_asynchronous(async_op))
    return _done(known(group).alltoall_base(output, input, output_split_sizes or [], input_split_sizes or [], opts),
                 async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None,
            timeout: timedelta | None = None) -> Work | None:
    if warn_outside(group, "barrier"):
        return None
    if device_ids is not None and not isinstance(device_ids, list):
        raise TypeError("Invalid function argument: device_ids type should be List[int]")
    opts = options.BarrierOptions(asyncOp=async_op, device_ids=device_ids or [])
    return _done(known(group).barrier(opts), async_op)


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """A barrier whose error says who did not come."""
    if warn_outside(group, "monitored_barrier"):
        return
    found = known(group)
    if found._config and "cpu:gloo" not in found._config:
        raise ValueError("monitored_barrier is only implemented for GLOO backend.")
    if timeout is not None and timeout <= timedelta(0):
        raise ValueError("timeout must be positive")
    found.monitored_barrier(timeout, wait_all_ranks)


# from one to another -------------------------------------------------------------------------------------------------


def _sends(group: Any, tensor: Tensor, dst: int | None, tag: int, group_dst: int | None, now: bool) -> Work:
    to = root_in(group, dst, group_dst)
    found = known(group)
    if to == found.rank():
        raise ValueError("Invalid destination rank: destination rank should not be the same as the rank of the current "
                         "process.")
    engine: Any = found._of(tensor) if found._engines else found
    return engine.send([tensor], to, tag, now) if _takes_now(engine) else engine.send([tensor], to, tag)


def _receives(group: Any, tensor: Tensor, src: int | None, tag: int, group_src: int | None, now: bool) -> Work:
    found = known(group)
    engine: Any = found._of(tensor) if found._engines else found
    extra = (now,) if _takes_now(engine) else ()
    if src is None and group_src is None:
        return engine.recv_anysource([tensor], tag, *extra)
    source = root_in(group, src, group_src)
    if source == found.rank():
        raise ValueError("Invalid source rank: source rank should not be the same as the rank of the current process.")
    return engine.recv([tensor], source, tag, *extra)


def _takes_now(engine: Any) -> bool:
    """Whether an engine spares a thread when told that its caller waits."""
    return hasattr(engine, "met_within")


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    _check_tensor(tensor, "tensor")
    if warn_outside(group, "send"):
        return
    _sends(group, tensor, dst, tag, group_dst, True).wait()


def isend(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
          group_dst: int | None = None) -> Work | None:
    _check_tensor(tensor, "tensor")
    if warn_outside(group, "isend"):
        return None
    return _sends(group, tensor, dst, tag, group_dst, False)


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receives into the tensor; gives the rank of the sender among all processes."""
    _check_tensor(tensor, "tensor")
    if warn_outside(group, "recv"):
        return -1
    work = _receives(group, tensor, src, tag, group_src, True)
    work.wait()
    if src is not None:
        return src
    source = work.source_rank() if group_src is None else group_src
    return source if group is None else get_global_rank(group, source)


def irecv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
          group_src: int | None = None) -> Work | None:
    _check_tensor(tensor, "tensor")
    if warn_outside(group, "irecv"):
        return None
    return _receives(group, tensor, src, tag, group_src, False)


class P2POp:
    """One `isend` or `irecv` out of a batch."""

    def __init__(self, op: Callable, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
                 group_peer: int | None = None) -> None:
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                             "``torch.distributed.irecv``.")
        _check_tensor(tensor, "tensor")
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group = default_group() if group is None else group
        self.group_peer = root_in(self.group, peer, group_peer)
        self.peer = get_global_rank(self.group, self.group_peer)

    def __repr__(self) -> str:
        mine = get_rank(self.group)
        src, dst = (mine, self.group_peer) if self.op is isend else (self.group_peer, mine)
        return (f"P2POp({self.op.__name__} pg={self.group.group_name}, group_src={src}, group_dst={dst},  "
                f"{self.tensor.shape}, {self.tensor.dtype})")


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """The works of all sends and receives."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    group = p2p_op_list[0].group
    if any(each.group is not group for each in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    device = p2p_op_list[0].tensor.device
    together = getattr(group._get_backend(device), "supports_coalescing", False)
    if together:
        group._start_coalescing(device)
    works = [each.op(each.tensor, group=group, tag=each.tag,
                     **{"group_dst" if each.op is isend else "group_src": each.group_peer}) for each in p2p_op_list]
    if together:
        return [group._end_coalescing(device)]
    return [work for work in works if work is not None]


# several as one ------------------------------------------------------------------------------------------------------


class _CoalescingManager:
    """The works of collectives that were asked for together."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def append(self, work: Work | None = None) -> None:
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[_CoalescingManager]:
    """Inside, collectives begin together; at its end they are waited for, unless `async_ops`."""
    found, manager = known(group), _CoalescingManager()
    together = device is not None and getattr(found._get_backend(_device(device)), "supports_coalescing", False)
    if together:
        found._start_coalescing(device)
    _coalescing.append(manager)
    try:
        yield manager
    finally:
        _coalescing.pop()
    if together:
        manager.append(found._end_coalescing(device))
    if not async_ops:
        manager.wait()


