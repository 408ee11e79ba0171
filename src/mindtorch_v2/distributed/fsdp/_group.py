"""Parameters that are gathered and whose gradients are reduced together, by one collective each."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import mindtorch_v2 as torch

from .. import _collectives as collectives
from .._reductions import ReduceOp
from ._memory import aligned, memory_on
from ._mesh import FSDPMeshInfo
from ._parameter import FSDPParam
from ._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

_GRAIN = 8  # bytes; where parameters of several types share a buffer, each begins at a multiple


class CommContext:
    """What the groups under one root share: the order of forward, and reductions under way."""

    def __init__(self) -> None:
        self.post_forward_order: list[FSDPParamGroup] = []
        self.reductions: list[Callable[[], None]] = []
        self.most_reductions = 1

    def leave(self, count: int) -> None:
        """Finishes the oldest reductions until so many are under way."""
        while len(self.reductions) > count:
            self.reductions.pop(0)()


class FSDPParamGroup:
    """Sharded, gathered for forward and backward, and reduced after backward."""

    def __init__(self, params: Sequence[FSDPParam], modules: Sequence[Any], info: FSDPMeshInfo,
                 after_forward: FSDPMeshInfo | None, device: Any, policy: MixedPrecisionPolicy,
                 offload: OffloadPolicy) -> None:
        self.fsdp_params, self.modules, self.mesh_info, self.device = list(params), tuple(modules), info, device
        self.post_forward_mesh_info, self.mp_policy, self.offload_policy = after_forward, policy, offload
        self.comm_ctx, self._module_fqn = CommContext(), ""
        self.reduce_grads = self.all_reduce_grads = self.reshard_after_backward = self.unshard_in_backward = True
        self.reduce_scatter_unused_params = self.unshard_async_op = False
        self.gradient_divide_factor: float | None = None
        self.all_gather_comm: Any = None
        self.reduce_scatter_comm: Any = None
        self.all_reduce_hook: Callable[[Any], None] | None = None
        self.reduce_scatter_group: Any = None
        self.is_unsharded = self.after_backward = False
        self.smaller_pieces: list[Any] | None = None  # after forward, where those differ from the piece that is owned
        self._gathering: tuple[Any, Any, int] | None = None
        self._partial_reduction: Any = None
        self._memory: Any = None
        self._positions: list[int] = []  # in the order of forward, of passes whose backward has not begun
        self.reduce_dtype: Any = None

    def lazy_init(self) -> None:
        """Before the first forward: pieces may have been replaced since they were cut."""
        for param in self.fsdp_params:
            param.follow()
        on_meta = [p._param_fqn for p in self.fsdp_params if p.sharded_param.is_meta]
        if on_meta:
            raise RuntimeError("FSDP parameters should be materialized from meta device before training, but the "
                               f"following were still on meta device: {on_meta}\nFor example, call "
                               "module.to_empty(device) to materialize to device and call module.reset_parameters() on "
                               "each module to initialize values.")
        if isinstance(self.offload_policy, CPUOffloadPolicy):
            elsewhere = [(p._param_fqn, p.sharded_param.device) for p in self.fsdp_params
                         if p.sharded_param.device.type != "cpu"]
            if elsewhere:
                raise RuntimeError("FSDP parameters should be materialized on CPU when enabling CPU offloading. For "
                                   'example, load a CPU state dict or call module.to_empty(device="cpu"). Found '
                                   f"following parameters on non-CPU device: {elsewhere}\n")
        for param in self.fsdp_params:
            param.orig_dtype = param.sharded_param.dtype
            if self.mp_policy.param_dtype is None:
                param.dtype = param.orig_dtype
        trained = [p for p in self.fsdp_params if p.sharded_param.requires_grad]
        kinds = {p.orig_dtype for p in trained}
        if trained and len(kinds) != 1:
            raise AssertionError(f"FSDP expects uniform original parameter dtype but got {kinds}")
        self.reduce_dtype = self.mp_policy.reduce_dtype

    # gathering -----------------------------------------------------------------------------------------------------

    def _layout(self) -> tuple[Any, list[tuple[int, int]], int]:
        """(type, where parameters begin and how long they are, length) of a process's part of a buffer."""
        kinds = {p.dtype for p in self.fsdp_params}
        unit = kinds.pop() if len(kinds) == 1 else torch.uint8
        places, at = [], 0
        for param in self.fsdp_params:
            width = param.dtype.itemsize // unit.itemsize
            places.append((at, param.rows_numel * width))
            at += param.rows_numel * width
            at = -(-at // _GRAIN) * _GRAIN if unit is torch.uint8 else at
        return unit, places, at

    def unshard(self, async_op: bool = False) -> None:
        """Begins to gather the parameters, unless they are whole or on their way."""
        if self.is_unsharded or self._gathering is not None or not self.fsdp_params:
            return
        info = self.mesh_info if self.smaller_pieces is None else self.post_forward_mesh_info
        assert info is not None
        unit, places, length = self._layout()
        length *= self.mesh_info.pieces // info.pieces
        allocate = torch.empty if self.all_gather_comm is None else self.all_gather_comm.allocate
        with torch.no_grad():
            own = torch.empty((length,), dtype=unit, device=self.device)
            for at, (param, (begin, count)) in enumerate(zip(self.fsdp_params, places, strict=True)):
                if self.smaller_pieces is None:
                    param.write_rows(own[begin : begin + count].view(param.dtype))
                else:
                    share = self.mesh_info.pieces // info.pieces
                    own.view(share, -1)[:, begin : begin + count].copy_(
                        self.smaller_pieces[at].view(share, -1).view(unit))
            if info.pieces == 1:
                self._gathering = own, None, 1
                return
            gathered = allocate((info.pieces * length,), dtype=unit, device=self.device)
            gather = self.all_gather_comm or collectives.all_gather_into_tensor
            work = gather(gathered, own, info.shard_group, async_op=True)
        self._gathering = gathered, work, info.pieces
        if not async_op and self.all_gather_comm is not None and work is not None:
            work.wait()

    def wait_for_unshard(self) -> None:
        """Puts what was gathered into whole parameters, which modules see from now on."""
        if self._gathering is None:
            return
        gathered, work, _ = self._gathering
        self._gathering = None
        if work is not None:
            work.wait()
        if self._memory is None:
            self._allocate()
        _, places, _ = self._layout()
        with torch.no_grad():
            by_process = gathered.view(self.mesh_info.pieces, -1)
            for param, (begin, count) in zip(self.fsdp_params, places, strict=True):
                part = by_process[:, begin : begin + count]
                param.fill(part if part.dtype is param.dtype else part.contiguous().view(param.dtype))
                param.to_unsharded()
        self.is_unsharded, self.smaller_pieces = True, None

    def _allocate(self) -> None:
        sizes = [aligned(math.prod(p._orig_size) * p.dtype.itemsize) for p in self.fsdp_params]
        self._memory, at = memory_on(self.device, sum(sizes)), 0
        for param, size in zip(self.fsdp_params, sizes, strict=True):
            param.use_memory(self._memory, at)
            at += size

    def reshard(self) -> None:
        """Gives the whole parameters' memory back; modules see the pieces."""
        if self._gathering is not None and self._gathering[1] is not None:
            self._gathering[1].wait()  # nobody wants it, but it is a collective that all processes take part in
        self._gathering = None
        if self.is_unsharded or self.smaller_pieces is not None:
            for param in self.fsdp_params:
                param.register(param.sharded_param)
            self._memory.release()
            self.is_unsharded, self.smaller_pieces = False, None

    def reshard_after_forward(self) -> None:
        """As `reshard`, but to the pieces that are wanted between forward and backward."""
        info = self.post_forward_mesh_info
        if info is None or not self.is_unsharded:
            return
        if info is self.mesh_info:
            self.reshard()
            return
        self.smaller_pieces = [p.rows_of_memory(info.pieces, info.piece) for p in self.fsdp_params]
        for param, rows in zip(self.fsdp_params, self.smaller_pieces, strict=True):
            param.register_after_forward(info, rows)
        self._memory.release()
        self.is_unsharded = False

    # backward ------------------------------------------------------------------------------------------------------

    def record_forward(self) -> None:
        self._positions.append(len(self.comm_ctx.post_forward_order))
        self.comm_ctx.post_forward_order.append(self)

    def pre_backward(self, prefetch: bool) -> None:
        """Whole parameters for backward; those that forward used before come next."""
        self.after_backward = False
        if self.unshard_in_backward:
            self.unshard(self.unshard_async_op)
            self.wait_for_unshard()
        if self._positions and (at := self._positions.pop()) > 0 and prefetch:
            order = self.comm_ctx.post_forward_order
            if at <= len(order) and order[at - 1].unshard_in_backward:
                order[at - 1].unshard(order[at - 1].unshard_async_op)

    def post_backward(self) -> None:
        """Reduces the gradients there are, and gives memory back."""
        self.after_backward = True
        if not self.reduce_grads:
            for param in self.fsdp_params:
                if param.unsharded_param is not None:
                    param.keep_unsharded_grad(self.reduce_dtype)
            if self.reshard_after_backward:
                self.reshard()
            return
        with torch.no_grad():
            used, grads = [], []
            for param in self.fsdp_params:
                grad = param.unsharded_grad()
                if grad is None and self.reduce_scatter_unused_params and param.sharded_param.requires_grad:
                    grad = torch.zeros(param._orig_size, dtype=param.dtype, device=self.device)
                if grad is not None:
                    used.append(param)
                    grads.append(grad)
                    param.drop_unsharded_grad()
            if self.reshard_after_backward:
                self.reshard()
            if used:
                self.comm_ctx.leave(self.comm_ctx.most_reductions - 1)
                self._reduce(used, grads)

    def _reduce(self, used: list[FSDPParam], grads: list[Any]) -> None:
        info, kind = self.mesh_info, self.reduce_dtype or grads[0].dtype
        lengths = [p.rows_numel for p in used]
        comm = self.reduce_scatter_comm
        allocate = torch.empty if comm is None else comm.allocate
        sent = allocate((info.pieces * sum(lengths),), dtype=kind, device=self.device)
        at = 0
        for param, grad, length in zip(used, grads, lengths, strict=True):
            param.write_gradient(grad, sent.view(info.pieces, -1)[:, at : at + length])
            at += length
        grads.clear()
        sizes = info.pieces * (info.replicate_group.size() if info.replicate_group is not None else 1)
        factor = self.gradient_divide_factor or sizes
        before = 2 ** math.floor(math.log2(factor) / 2) if kind is torch.float16 and factor >= 2 else 1
        if before != 1:  # halves would overflow in the sum
            sent.div_(before)
        work, received = None, sent
        if info.pieces > 1:
            received = allocate((sum(lengths),), dtype=kind, device=self.device)
            scatter = comm or collectives.reduce_scatter_tensor
            work = scatter(received, sent, group=self.reduce_scatter_group or info.shard_group, op=ReduceOp.SUM,
                           async_op=True)
        all_reduce = self.all_reduce_grads

        def finish() -> None:
            nonlocal received
            if work is not None:
                work.wait()
            if info.replicate_group is not None:
                if self._partial_reduction is not None:
                    received += self._partial_reduction
                    self._partial_reduction = None
                if not all_reduce:
                    self._partial_reduction = received
                    return
                collectives.all_reduce(received, group=info.replicate_group)
            if self.all_reduce_hook is not None:
                self.all_reduce_hook(received)
            received.div_(factor / before)
            at = 0
            for param, length in zip(used, lengths, strict=True):
                param.add_gradient(param.gradient_from(received[at : at + length]).to(param.orig_dtype))
                at += length

        self.comm_ctx.reductions.append(lambda: _without_grad(finish))

    def reset(self) -> None:
        """Forgets a pass that failed."""
        self.reshard()
        for param in self.fsdp_params:
            param.drop_unsharded_grad()
        self._positions.clear()
        self._partial_reduction, self.after_backward = None, False

    def on_conversion(self) -> None:
        """After pieces were moved or converted: the memory for whole parameters is made anew."""
        for param in self.fsdp_params:
            param.follow()
            if self.mp_policy.param_dtype is None and param.dtype is not param.sharded_param.dtype:
                param.dtype = param.orig_dtype = param.sharded_param.dtype
                self._memory = None


def _without_grad(function: Callable[[], None]) -> None:
    with torch.no_grad():
        function()
