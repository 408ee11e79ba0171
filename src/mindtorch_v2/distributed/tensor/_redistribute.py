"""From one placement to another: which collectives move the pieces."""

from collections.abc import Sequence
from typing import Any

import mindtorch_v2 as torch

from .. import _collectives as collectives
from .._functional_collectives import _reduction
from ._spec import DTensorSpec, local_geometry, piece
from .placement_types import Partial, Placement, Replicate, Shard


def redistributed(local: Any, spec: DTensorSpec, target: Sequence[Placement]) -> Any:
    """This process's piece under other placements.

    Dimensions of the mesh that cut the same dimension of the tensor are nested, the later within the earlier: so pieces
    are joined from the last dimension of the mesh to the first, and cut in the other order.
    """
    current = list(spec.placements)
    if tuple(current) == tuple(target):
        return local
    mesh = spec.mesh
    changes = [now != then for now, then in zip(current, target, strict=True)]
    for outer in range(mesh.ndim):
        if changes[outer]:
            cut = {p.dim for p in (current[outer], target[outer]) if isinstance(p, Shard)}
            for inner in range(outer + 1, mesh.ndim):
                placed = current[inner]
                changes[inner] = changes[inner] or isinstance(placed, Shard) and placed.dim in cut
    for dim in reversed(range(mesh.ndim)):
        placed, wanted = current[dim], target[dim]
        if not changes[dim] or isinstance(placed, Replicate):
            continue
        if isinstance(placed, Shard):
            joined = [*current[:dim], *([Replicate()] * (mesh.ndim - dim))]
            length = local_geometry(spec.shape, mesh, joined)[0][placed.dim]
            local = _joined(local, placed.dim, length, mesh.get_group(dim))
        elif isinstance(placed, Partial) and placed != wanted:
            local = _reduced(local, placed, mesh.get_group(dim))
        else:
            continue
        current[dim] = Replicate()
    for dim, wanted in enumerate(target):
        if current[dim] == wanted:
            continue
        if isinstance(wanted, Shard):
            begin, length = piece(local.shape[wanted.dim], mesh.size(dim), mesh.get_local_rank(dim))
            local = local.narrow(wanted.dim, begin, length).contiguous()
        elif isinstance(wanted, Partial) and wanted.reduce_op == "sum":
            local = local / mesh.size(dim)
        current[dim] = wanted
    return local


def _joined(local: Any, dim: int, length: int, group: Any) -> Any:
    """All pieces one after another: padded to one length, gathered, and the padding taken off."""
    size = group.size()
    step = -(-length // size)
    moved = local.movedim(dim, 0)
    if moved.shape[0] != step:
        padded = moved.new_zeros((step, *moved.shape[1:]))
        padded[: moved.shape[0]] = moved
        moved = padded
    gathered = torch.empty((step * size, *moved.shape[1:]), dtype=moved.dtype, device=moved.device)
    collectives.all_gather_into_tensor(gathered, moved.contiguous(), group)
    return gathered[:length].movedim(0, dim).contiguous()


def _reduced(local: Any, placed: Partial, group: Any) -> Any:
    made = local.clone(memory_format=torch.contiguous_format)
    collectives.all_reduce(made, _reduction(placed.reduce_op), group)
    return made


def of_gradient(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """The placements of a gradient: the gradient of a sum is the same for all its terms."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)
