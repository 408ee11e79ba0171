"""What is known of a distributed tensor on every process: mesh, placements, and the whole tensor's geometry."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..device_mesh import DeviceMesh
from .placement_types import Placement, Replicate, Shard


class TensorMeta(NamedTuple):
    """The whole tensor's geometry."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class DTensorSpec:
    """Mesh, one placement for each of its dimensions, and geometry."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor_meta.shape

    def __str__(self) -> str:
        placed = "".join(map(str, self.placements))
        return f"Spec({_SHORT.get(str(self.tensor_meta.dtype), self.tensor_meta.dtype)}{list(self.shape)}({placed}))"

    def with_placements(self, placements: Sequence[Placement]) -> "DTensorSpec":
        return DTensorSpec(self.mesh, tuple(placements), self.tensor_meta)


_SHORT = {"torch.float32": "f32", "torch.float64": "f64", "torch.float16": "f16", "torch.bfloat16": "bf16",
          "torch.int64": "i64", "torch.int32": "i32", "torch.bool": "b8"}


def piece(length: int, pieces: int, at: int) -> tuple[int, int]:
    """(where a piece begins, how long it is) of a length cut into pieces as long as the first, as far as it goes."""
    step = -(-length // pieces)
    begin = min(step * at, length)
    return begin, min(step, length - begin)


def local_geometry(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement],
                   coordinate: Sequence[int] | None = None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape, where it begins in the whole) of the piece of a process, this one unless told."""
    where = mesh.get_coordinate() if coordinate is None else coordinate
    if where is None:
        return (0,), ()
    lengths, begins = list(shape), [0] * len(shape)
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            begin, lengths[placement.dim] = piece(lengths[placement.dim], mesh.size(mesh_dim), where[mesh_dim])
            begins[placement.dim] += begin
    return tuple(lengths), tuple(begins)


def local_shape(spec: DTensorSpec) -> tuple[int, ...]:
    return local_geometry(spec.shape, spec.mesh, spec.placements)[0]


def checked(placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int) -> tuple[Placement, ...]:
    """Placements with dimensions counted from the front; whole tensors everywhere where none are given."""
    found: list[Placement] = list(placements) if placements is not None else [Replicate()] * mesh.ndim
    if len(found) != mesh.ndim:
        raise ValueError("`placements` must have the same length as `device_mesh.ndim`! Found placements length: "
                         f"{len(found)}, and device_mesh.ndim: {mesh.ndim}.")
    for at, placement in enumerate(found):
        if isinstance(placement, Shard):
            dim = placement.dim + ndim if placement.dim < 0 else placement.dim
            if dim >= max(ndim, 1):
                raise AssertionError(f"Sharding dim {placement.dim} greater than tensor ndim {ndim}")
            found[at] = Shard(dim)
    return tuple(found)
