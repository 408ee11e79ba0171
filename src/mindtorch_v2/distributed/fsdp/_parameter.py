"""One parameter: the piece that this process owns, and the whole one while it is gathered."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import mindtorch_v2 as torch

from ..._core.geometry import contiguous_strides
from ..tensor import DTensor, Replicate, Shard
from ..tensor._spec import DTensorSpec, TensorMeta
from ..tensor.placement_types import Placement, _StridedShard, piece
from ._mesh import FSDPMeshInfo
from ._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

_numbers = itertools.count(1)  # of parameters as they were: one that two groups have shows by it


class FSDPParam:
    """A parameter in pieces.

    In buffers that go between processes it lies with the dimension that is cut first, in rows, `step` of them for each
    process: the last rows of all may be padding.
    """

    def __init__(self, param: Any, owners: Sequence[tuple[Any, str]], info: FSDPMeshInfo, placement: Shard,
                 policy: MixedPrecisionPolicy, offload: OffloadPolicy) -> None:
        self.owners, self.info, self.offload = list(owners), info, offload
        self._param_fqn: str | None = None
        self.original = param._fsdp_number = getattr(param, "_fsdp_number", None) or next(_numbers)
        if not param.is_contiguous():
            raise NotImplementedError(f"FSDP does not support non-contiguous parameters yet: {param.shape=} "
                                      f"{param.stride()=}")
        self.tensor_parallel: DTensorSpec | None = param._spec if isinstance(param, DTensor) else None
        whole = (param._local_tensor if isinstance(param, DTensor) else param).detach()
        self.dim = placement.dim + param.ndim if placement.dim < 0 else placement.dim
        if self.dim >= whole.ndim:
            raise AssertionError(f"Shard dim {self.dim} is invalid for {whole.ndim}D tensor: {param.shape}")
        self._orig_size, self.orig_dtype = whole.shape, whole.dtype
        self.length, pieces = whole.shape[self.dim], info.pieces
        if self.dim and self.length % pieces:
            raise NotImplementedError(f"FSDP does not support uneven sharding on dim {self.dim}: {whole.shape} "
                                      f"(world size: {pieces})")
        self.step = -(-self.length // pieces)
        self.row = (*whole.shape[: self.dim], *whole.shape[self.dim + 1 :])
        floats = whole.dtype.is_floating_point
        self.dtype = policy.param_dtype if policy.param_dtype is not None and floats else whole.dtype
        begin, count = piece(self.length, pieces, info.piece)
        own = whole.narrow(self.dim, begin, count).clone(memory_format=torch.contiguous_format)
        if isinstance(offload, CPUOffloadPolicy) and not own.is_meta:
            own = own.cpu()
            own = own.pin_memory() if offload.pin_memory and torch.accelerator.is_available() else own
        self.spec = self._spec_of(param, Shard(self.dim))
        self.sharded_param = torch.nn.Parameter(DTensor(own, self.spec), param.requires_grad)
        self.unsharded_param: Any = None
        self.unsharded_accumulated_grad: Any = None
        self._memory: Any = None
        self.register(self.sharded_param)

    def _spec_of(self, param: Any, placement: Shard) -> DTensorSpec:
        mesh = self.info.mesh
        placed: list[Placement] = [placement]
        meta = TensorMeta(param.shape, contiguous_strides(tuple(param.shape)), param.dtype)
        inner: tuple[Placement, ...] = ()
        if self.tensor_parallel is not None:
            names, inner = self.tensor_parallel.mesh.mesh_dim_names, self.tensor_parallel.placements
            if mesh.mesh_dim_names is None or names is None:
                raise AssertionError("FSDP requires the DP and model parallel TP/EP mesh to be not None but got: \n"
                                     f"DP's mesh: {mesh}\nTP/EP's mesh: {self.tensor_parallel.mesh}")
            outer, mesh = mesh.mesh_dim_names, mesh._get_root_mesh()[(*mesh.mesh_dim_names, *names)]
            cut = math.prod(mesh.size(len(outer) + at) for at, p in enumerate(inner) if p.is_shard(placement.dim))
            placed = [_StridedShard(placement.dim, split_factor=cut)] if cut > 1 else placed
        before = [Replicate()] if self.info.replicate_mesh_dim is not None else []
        return DTensorSpec(mesh, (*before, *placed, *inner), meta)

    def __repr__(self) -> str:
        return f"FSDPParam(fqn={self._param_fqn}, orig_size={self._orig_size})"

    # what modules see ----------------------------------------------------------------------------------------------

    def register(self, param: Any) -> None:
        """Gives the modules that have this parameter another tensor for it."""
        for module, name in self.owners:
            module._parameters[name] = param

    def become(self, param: Any) -> None:
        """Makes a tensor that others hold the piece."""
        torch.utils.swap_tensors(param, self.sharded_param)
        self.sharded_param = param
        self.register(param)

    def follow(self) -> None:
        """Takes over the piece that a module has now: `load_state_dict(assign=True)` and conversions replace it."""
        module, name = self.owners[0]
        now = module._parameters[name]
        if now is not self.unsharded_param and now is not self.sharded_param:
            self.sharded_param = now
            self.register(now)

    def use_memory(self, memory: Any, offset: int) -> None:
        """Where the whole parameter is put. Filling that is no write to the tensor that autograd knows."""
        self._memory = memory.tensor(offset, tuple(self._orig_size), self.dtype)
        whole = memory.tensor(offset, tuple(self._orig_size), self.dtype)
        if self.tensor_parallel is not None:
            meta = self.tensor_parallel.tensor_meta._replace(dtype=self.dtype)
            whole = DTensor(whole, DTensorSpec(self.tensor_parallel.mesh, self.tensor_parallel.placements, meta))
        self.unsharded_param = torch.nn.Parameter(whole, self.sharded_param.requires_grad)

    def to_unsharded(self) -> None:
        if self.unsharded_param.requires_grad != self.sharded_param.requires_grad:
            self.unsharded_param.requires_grad_(self.sharded_param.requires_grad)
        self.register(self.unsharded_param)

    def register_after_forward(self, info: FSDPMeshInfo, rows: Any) -> None:
        """Shows modules the piece that a smaller group keeps between forward and backward."""
        if self.tensor_parallel is not None:
            raise NotImplementedError("Resharding to smaller mesh is not supported for DTensor parameters yet")
        own = rows[: max(0, min(rows.shape[0], self.length - info.piece * rows.shape[0]))].movedim(0, self.dim)
        meta = TensorMeta(self.spec.shape, self.spec.tensor_meta.stride, self.dtype)
        shown = DTensor(own, DTensorSpec(info.mesh, (Replicate(), Shard(self.dim)), meta))
        self.register(torch.nn.Parameter(shown, self.sharded_param.requires_grad))

    # rows in buffers -----------------------------------------------------------------------------------------------

    @property
    def rows_numel(self) -> int:
        """How many elements a process has in a buffer, padding included."""
        return self.step * math.prod(self.row)

    def write_rows(self, buffer: Any) -> None:
        """Puts the piece of this process, in the type of computing, into a flat buffer."""
        own = self.sharded_param._local_tensor.movedim(self.dim, 0)
        buffer.view(self.step, *self.row)[: own.shape[0]].copy_(own)

    def fill(self, pieces: Any) -> None:
        """Puts the whole parameter together from a buffer of (processes, elements)."""
        rows = pieces.reshape(-1, *self.row)[: self.length]
        self._memory.copy_(rows.movedim(0, self.dim))

    def rows_of_memory(self, pieces: int, at: int) -> Any:
        """A copy of one of some equal parts of the rows, with padding: what a smaller group keeps after forward."""
        count = self.step * self.info.pieces // pieces
        rows = self._memory.movedim(self.dim, 0)[count * at : count * (at + 1)]
        kept = self._memory.new_zeros((count, *self.row))
        kept[: rows.shape[0]] = rows
        return kept

    def write_gradient(self, grad: Any, buffer: Any) -> None:
        """Puts a gradient of the whole into a buffer of (processes, elements)."""
        rows, pieces = grad.movedim(self.dim, 0), buffer.shape[0]
        if self.length == self.step * pieces:
            buffer.view(pieces, self.step, *self.row).copy_(rows.reshape(pieces, self.step, *self.row))
            return
        for at in range(pieces):
            part = rows[self.step * at : self.step * (at + 1)]
            buffer[at, : part.numel()] = part.reshape(-1)
            buffer[at, part.numel() :] = 0

    def gradient_from(self, flat: Any) -> Any:
        """This process's piece of a gradient, out of its part of a buffer."""
        own = self.sharded_param._local_tensor.shape
        rows = flat.view(self.step, *self.row)[: own[self.dim]]
        return rows.movedim(0, self.dim).contiguous()

    # gradients -----------------------------------------------------------------------------------------------------

    def unsharded_grad(self) -> Any:
        """The gradient of the whole that this process computed, with what was kept before; None if there is none."""
        grad = self.unsharded_param.grad if self.unsharded_param is not None else None
        if grad is not None and self.tensor_parallel is not None:
            if grad.placements != self.tensor_parallel.placements:
                grad = grad.redistribute(placements=self.tensor_parallel.placements)
            grad = grad._local_tensor
        kept = self.unsharded_accumulated_grad
        return kept if grad is None else grad if kept is None else kept.add_(grad)

    def drop_unsharded_grad(self) -> None:
        if self.unsharded_param is not None:
            self.unsharded_param.grad = None
        self.unsharded_accumulated_grad = None

    def keep_unsharded_grad(self, dtype: Any) -> None:
        """Keeps the gradient for a later reduction, in the type of that."""
        if dtype is None or dtype is self.dtype or self.unsharded_param.grad is None:
            return
        grad = self.unsharded_grad()
        kept = grad if grad is self.unsharded_accumulated_grad else grad.to(dtype)
        self.drop_unsharded_grad()
        self.unsharded_accumulated_grad = kept

    def add_gradient(self, grad: Any) -> None:
        """Adds a reduced gradient to that of the piece, and runs the hooks for that."""
        own = self.sharded_param
        grad = grad.to(own.device)
        if own.grad is None:
            own.grad = DTensor(grad, own._spec)
        else:
            own.grad._local_tensor += grad
        for hook in list((own._post_accumulate_hooks or {}).values()):
            hook(own)
