"""From one placement to another: which collectives move the pieces."""

from collections.abc import Sequence
from typing import Any

import mindtorch_v2 as torch

from .. import _functional_collectives as functional
from ..device_mesh import DeviceMesh
from ._spec import DTensorSpec, local_geometry
from .placement_types import Cut, Partial, Placement, Replicate, Shard, _NormPartial, padded, piece


def redistributed(local: Any, spec: DTensorSpec, target: Sequence[Placement]) -> Any:
    """This process's piece under other placements.

    Dimensions of the mesh that cut the same dimension of the tensor are nested, the later within the earlier: so pieces
    are joined from the last dimension of the mesh to the first, and cut in the other order. A dimension of the mesh
    that shares its cuts with no other is changed in one step.
    """
    current = list(spec.placements)
    if tuple(current) == tuple(target):
        return local
    mesh = spec.mesh
    if mesh.get_coordinate() is None:
        return local
    changes = [now != then for now, then in zip(current, target, strict=True)]
    for outer in range(mesh.ndim):
        if changes[outer]:
            shared = _cut_by(current[outer], target[outer])
            for inner in range(outer + 1, mesh.ndim):
                changes[inner] = changes[inner] or bool(_cut_by(current[inner]) & shared)
    for dim in reversed(range(mesh.ndim)):
        placed, wanted = current[dim], target[dim]
        if not changes[dim] or isinstance(placed, Replicate):
            continue
        others = [p for at in range(mesh.ndim) if at != dim for p in (current[at], target[at])]
        if isinstance(wanted, Shard) and not _cut_by(placed, wanted) & _cut_by(*others):
            if isinstance(placed, Partial) and placed.reduce_op in ("sum", "avg") and type(placed) is not _NormPartial:
                local, current[dim] = _reduced_and_cut(local, placed, wanted.dim, mesh, dim), wanted
                continue
            if isinstance(placed, Shard):
                local, current[dim] = _cut_otherwise(local, placed.dim, wanted.dim, spec, mesh, dim), wanted
                continue
        if isinstance(placed, Cut):
            joined = [*current[:dim], *([Replicate()] * (mesh.ndim - dim))]
            length = local_geometry(spec.shape, mesh, joined)[0][placed.dim]
            local = _joined(local, placed, length, mesh, dim)
        elif isinstance(placed, Partial) and placed != wanted:
            local = reduced(local, placed, mesh, dim)
        else:
            continue
        current[dim] = Replicate()
    for dim, wanted in enumerate(target):
        if current[dim] == wanted:
            continue
        if isinstance(wanted, Cut):
            local = cut(local, wanted, mesh.size(dim), mesh.get_local_rank(dim))
        elif isinstance(wanted, Partial):
            local = _term(local, wanted, mesh, dim)
        current[dim] = wanted
    return local


def _cut_by(*placements: Placement) -> set[int]:
    return {p.dim for p in placements if isinstance(p, Cut)}


def cut(local: Any, placement: Cut, pieces: int, at: int) -> Any:
    """The piece of a tensor that one process gets."""
    dim = placement.dim
    parts = [local.narrow(dim, *run) for run in placement.runs(local.shape[dim], pieces, at)]
    if len(parts) > 1:
        return torch.cat(parts, dim)
    return parts[0].clone(memory_format=torch.contiguous_format)


def _joined(local: Any, placed: Cut, length: int, mesh: DeviceMesh, mesh_dim: int) -> Any:
    """All pieces one after another: padded to one length, gathered, and the padding taken off."""
    size, dim = mesh.size(mesh_dim), placed.dim
    runs = [placed.runs(length, size, at) for at in range(size)]
    longest = sum(count for _, count in runs[0])
    pieces = functional.all_gather_tensor(padded(local, dim, longest).contiguous(), dim, (mesh, mesh_dim))
    if isinstance(placed, Shard):
        return pieces if pieces.shape[dim] == length else pieces.narrow(dim, 0, length).contiguous()
    parts = []
    for at, mine in enumerate(runs):
        begin = at * longest
        for start, count in mine:
            parts.append((start, pieces.narrow(dim, begin, count)))
            begin += count
    return torch.cat([part for _, part in sorted(parts, key=lambda found: found[0])], dim)


def _cut_otherwise(local: Any, joined: int, cut_in: int, spec: DTensorSpec, mesh: DeviceMesh, mesh_dim: int) -> Any:
    """A piece cut in another dimension: each process gets from each what both have in common."""
    size = mesh.size(mesh_dim)
    length = spec.shape[joined]
    parts, _ = Shard(cut_in)._split_tensor(padded(local, joined, -(-length // size)), size)
    room = functional.all_to_all_single(torch.stack(parts), None, None, (mesh, mesh_dim))
    whole = torch.cat(list(room.unbind(0)), joined).narrow(joined, 0, length)
    return whole.narrow(cut_in, 0, piece(spec.shape[cut_in], size, mesh.get_local_rank(mesh_dim))[1]).contiguous()


def _reduced_and_cut(local: Any, placed: Partial, dim: int, mesh: DeviceMesh, mesh_dim: int) -> Any:
    size, length = mesh.size(mesh_dim), local.shape[dim]
    even = padded(local, dim, -(-length // size) * size)
    made = functional.reduce_scatter_tensor(even, placed.reduce_op, dim, (mesh, mesh_dim))
    return made.narrow(dim, 0, piece(length, size, mesh.get_local_rank(mesh_dim))[1]).contiguous()


def reduced(local: Any, placed: Partial, mesh: DeviceMesh, mesh_dim: int) -> Any:
    """What the terms that the processes have amount to."""
    if isinstance(placed, _NormPartial) and placed.reduce_op == "sum":
        power = float(placed.norm_type)
        if power == 0:
            return functional.all_reduce(local, "sum", (mesh, mesh_dim))
        return functional.all_reduce(local.abs() ** power, "sum", (mesh, mesh_dim)) ** (1 / power)
    return functional.all_reduce(local, placed.reduce_op, (mesh, mesh_dim))


def _term(local: Any, wanted: Partial, mesh: DeviceMesh, mesh_dim: int) -> Any:
    """A term of this process, of terms that amount to the tensor."""
    if isinstance(wanted, _NormPartial) and wanted.reduce_op == "sum":
        return local / mesh.size(mesh_dim) ** (1 / float(wanted.norm_type)) if wanted.norm_type else local
    if wanted.reduce_op != "sum":
        return local
    if local.dtype.is_floating_point or local.dtype.is_complex:
        return local / mesh.size(mesh_dim)
    return local if mesh.get_local_rank(mesh_dim) == 0 else torch.zeros_like(local)


def of_gradient(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """The placements of a gradient: the gradient of a sum is the same for all its terms."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)
