"""Which boxes of the whole tensor the piece of a process is made of, and where each lies in that piece."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import mindtorch_v2 as torch

from ..tensor import DTensor
from ..tensor._spec import piece
from ..tensor.placement_types import Shard, _StridedShard
from .metadata import ChunkStorageMetadata, MetadataIndex


class Run(NamedTuple):
    """Neighbours along a dimension: where they begin in the whole, and how many they are."""

    begin: int
    length: int


class Box(NamedTuple):
    """A part of a process's piece that lies together in the whole tensor."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    local_offsets: tuple[int, ...]

    def chunk(self) -> ChunkStorageMetadata:
        return ChunkStorageMetadata(offsets=torch.Size(self.offsets), sizes=torch.Size(self.sizes))


def _cut(runs: Sequence[Run], begin: int, length: int) -> Iterator[Run]:
    """The runs of a stretch of what other runs are, one after another."""
    for run in runs:
        first, last = max(begin, 0), min(begin + length, run.length)
        if first < last:
            yield Run(run.begin + first, last - first)
        begin -= run.length


def _runs(length: int, cuts: Sequence[tuple[int, int, int]]) -> list[Run]:
    """What (number of processes, own place, pieces a process) one after another leave of a dimension."""
    runs, left = [Run(0, length)], length
    for processes, place, pieces in cuts:
        stretches = [piece(left, processes * pieces, place + at * processes) for at in range(pieces)]
        runs = [run for begin, size in stretches for run in _cut(runs, begin, size)]
        left = sum(run.length for run in runs)
    joined: list[Run] = []
    for run in runs:
        if joined and joined[-1].begin + joined[-1].length == run.begin:
            joined[-1] = Run(joined[-1].begin, joined[-1].length + run.length)
        else:
            joined.append(run)
    return joined or [Run(length, 0)]


def boxes(tensor: Any) -> list[Box]:
    """The boxes of the piece of this process; of a tensor that is whole, one."""
    shape = tuple(tensor.shape)
    if not isinstance(tensor, DTensor):
        return [Box((0,) * len(shape), shape, (0,) * len(shape))]
    mesh = tensor.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return []
    cuts: list[list[tuple[int, int, int]]] = [[] for _ in shape]
    for mesh_dim, placement in enumerate(tensor.placements):
        if isinstance(placement, (Shard, _StridedShard)):
            pieces = placement.split_factor if isinstance(placement, _StridedShard) else 1
            cuts[placement.dim].append((mesh.size(mesh_dim), coordinate[mesh_dim], pieces))
    found = []
    for chosen in itertools.product(*(_placed(_runs(length, cut)) for length, cut in zip(shape, cuts, strict=True))):
        found.append(Box(tuple(run.begin for run, _ in chosen), tuple(run.length for run, _ in chosen),
                         tuple(start for _, start in chosen)))
    return found


def _placed(runs: Sequence[Run]) -> list[tuple[Run, int]]:
    """Each run with where it begins in the piece."""
    return list(zip(runs, itertools.accumulate((run.length for run in runs), initial=0), strict=False))


def narrowed(tensor: Any, offsets: Sequence[int], sizes: Sequence[int]) -> Any:
    """The box of a tensor, as a view."""
    for dim, (begin, length) in enumerate(zip(offsets, sizes, strict=True)):
        if length < tensor.shape[dim]:
            tensor = tensor.narrow(dim, begin, length)
    return tensor


def box_at(tensor: Any, index: MetadataIndex) -> Any:
    """The box of this process's piece that begins at an index, as a view."""
    with torch.no_grad():
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        if index.offset is None:
            return local
        for box in boxes(tensor):
            if box.offsets == tuple(index.offset):
                return narrowed(local, box.local_offsets, box.sizes)
    kind = f"Could not find shard at '{index.offset}' for FQN: '{index.fqn}'"
    if not isinstance(tensor, DTensor):
        kind = f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'"
    raise ValueError(kind)
