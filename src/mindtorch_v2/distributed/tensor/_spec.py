"""What is known of a distributed tensor on every process: mesh, placements, and the whole tensor's geometry."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mindtorch_v2 as torch

from ..device_mesh import DeviceMesh
from .placement_types import Cut, Partial, Placement, Replicate, Runs, Shard, _StridedShard


class TensorMeta(NamedTuple):
    """The whole tensor's geometry."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: Any


def meta_of(tensor: Any) -> TensorMeta:
    return TensorMeta(tensor.shape, tuple(tensor.stride()), tensor.dtype)


@dataclass(frozen=True)
class DTensorSpec:
    """Mesh, one placement for each of its dimensions, and geometry."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def shape(self) -> torch.Size:
        return self.tensor_meta.shape

    @property
    def stride(self) -> tuple[int, ...]:
        return self.tensor_meta.stride

    @property
    def ndim(self) -> int:
        return len(self.tensor_meta.shape)

    @property
    def device_mesh(self) -> DeviceMesh:
        return self.mesh

    @property
    def num_shards(self) -> int:
        return math.prod(self.mesh.size(at) for at, p in enumerate(self.placements) if isinstance(p, Cut))

    @property
    def dim_map(self) -> list[int]:
        """The mesh's dimension that cuts each of the tensor's, or -1."""
        found = [-1] * self.ndim
        for at, placement in enumerate(self.placements):
            if isinstance(placement, Cut):
                found[placement.dim] = at
        return found

    @property
    def sums(self) -> list[int]:
        """The mesh's dimensions over which the tensor is a sum."""
        return [at for at, placement in enumerate(self.placements) if isinstance(placement, Partial)]

    def is_replicated(self) -> bool:
        return all(isinstance(p, Replicate) for p in self.placements)

    def is_sharded(self) -> bool:
        return any(isinstance(p, Cut) for p in self.placements)

    def __str__(self) -> str:
        placed = "".join(map(str, self.placements))
        return f"Spec({_SHORT.get(str(self.tensor_meta.dtype), self.tensor_meta.dtype)}{list(self.shape)}({placed}))"

    def with_placements(self, placements: Sequence[Placement]) -> "DTensorSpec":
        return DTensorSpec(self.mesh, tuple(placements), self.tensor_meta)


_SHORT = {"torch.float32": "f32", "torch.float64": "f64", "torch.float16": "f16", "torch.bfloat16": "bf16",
          "torch.int64": "i64", "torch.int32": "i32", "torch.int16": "i16", "torch.int8": "i8", "torch.uint8": "u8",
          "torch.bool": "b8", "torch.complex64": "c64", "torch.complex128": "c128"}


def _within(runs: Runs, part: tuple[int, int]) -> Runs:
    """The part of what runs name, counted within them."""
    begin, length = part
    found = []
    for start, count in runs:
        skipped = min(begin, count)
        taken = min(count - skipped, length)
        if taken:
            found.append((start + skipped, taken))
        begin, length = begin - skipped, length - taken
    return found


def local_runs(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement],
               coordinate: Sequence[int] | None = None) -> list[Runs]:
    """Which elements of each dimension a process has, this one unless told. Cuts are nested in the mesh's order."""
    where = mesh.get_coordinate() if coordinate is None else coordinate
    found: list[Runs] = [[(0, length)] for length in shape]
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Cut):
            runs = found[placement.dim]
            total = sum(count for _, count in runs)
            mine = placement.runs(total, mesh.size(mesh_dim), where[mesh_dim])  # type: ignore[index]
            found[placement.dim] = [run for part in mine for run in _within(runs, part)]
    return found


def local_geometry(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement],
                   coordinate: Sequence[int] | None = None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape, where it begins in the whole) of the piece of a process, this one unless told."""
    if coordinate is None and mesh.get_coordinate() is None:
        return (0,), ()
    found = local_runs(shape, mesh, placements, coordinate)
    lengths = tuple(sum(count for _, count in runs) for runs in found)
    return lengths, tuple(runs[0][0] if runs else length for runs, length in zip(found, shape, strict=True))


def local_shape(spec: DTensorSpec) -> tuple[int, ...]:
    return local_geometry(spec.shape, spec.mesh, spec.placements)[0]


def checked(placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int) -> tuple[Placement, ...]:
    """Placements with dimensions counted from the front; whole tensors everywhere where none are given."""
    found: list[Placement] = list(placements) if placements is not None else [Replicate()] * mesh.ndim
    if len(found) != mesh.ndim:
        raise ValueError("`placements` must have the same length as `device_mesh.ndim`! Found placements length: "
                         f"{len(found)}, and device_mesh.ndim: {mesh.ndim}.")
    for at, placement in enumerate(found):
        if isinstance(placement, Cut):
            dim = placement.dim + ndim if placement.dim < 0 else placement.dim
            if dim >= max(ndim, 1):
                raise AssertionError(f"Sharding dim {placement.dim} greater than tensor ndim {ndim}")
            found[at] = recut(placement, dim)
    return tuple(found)


def recut(placement: Placement, dim: int) -> Placement:
    """The same kind of cut, in another dimension."""
    factor = getattr(placement, "split_factor", None)
    return Shard(dim) if factor is None else _StridedShard(dim, split_factor=factor)
