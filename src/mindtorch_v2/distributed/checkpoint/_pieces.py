"""Which boxes of the whole tensor the piece of a process is made of, and where each lies in that piece."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import mindtorch_v2 as torch

from ..tensor import DTensor
from ..tensor._spec import local_runs
from ..tensor.placement_types import Runs
from .metadata import ChunkStorageMetadata, MetadataIndex


class Box(NamedTuple):
    """A part of a process's piece that lies together in the whole tensor."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    local_offsets: tuple[int, ...]

    def chunk(self) -> ChunkStorageMetadata:
        return ChunkStorageMetadata(offsets=torch.Size(self.offsets), sizes=torch.Size(self.sizes))


def _placed(runs: Runs, length: int) -> list[tuple[int, int, int]]:
    """(where it begins in the whole, how long it is, where it begins in the piece) of each run, neighbours joined."""
    found: list[tuple[int, int, int]] = []
    start = 0
    for begin, count in runs or [(length, 0)]:
        if found and sum(found[-1][:2]) == begin:
            found[-1] = (found[-1][0], found[-1][1] + count, found[-1][2])
        else:
            found.append((begin, count, start))
        start += count
    return found


def boxes(tensor: Any) -> list[Box]:
    """The boxes of the piece of this process; of a tensor that is whole, one."""
    shape = tuple(tensor.shape)
    if not isinstance(tensor, DTensor):
        return [Box((0,) * len(shape), shape, (0,) * len(shape))]
    if tensor.device_mesh.get_coordinate() is None:
        return []
    runs = local_runs(shape, tensor.device_mesh, tensor.placements)
    placed = (_placed(each, length) for each, length in zip(runs, shape, strict=True))
    return [Box(*zip(*chosen, strict=True)) if chosen else Box((), (), ()) for chosen in itertools.product(*placed)]


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
