"""Items of plans: what a value is written as, and which stored boxes a piece is read from."""

from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import distributed as dist

from ..tensor import DTensor
from ._pieces import boxes
from .metadata import (
    STORAGE_TYPES,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadItemType, ReadItem, TensorWriteData, WriteItem, WriteItemType

__all__ = ["create_read_items_for_chunk_list"]


def _create_write_items(fqn: str, object: Any) -> list[WriteItem]:
    """What a value is written as, on this rank."""
    if hasattr(object, "__create_write_items__"):
        return object.__create_write_items__(fqn, object)
    if not isinstance(object, torch.Tensor):
        return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)]
    kind = WriteItemType.SHARD if isinstance(object, DTensor) else WriteItemType.TENSOR
    with torch.no_grad():
        properties = TensorProperties.create_from_tensor(object.to_local() if isinstance(object, DTensor) else object)
    return [WriteItem(MetadataIndex(fqn, box.offsets), kind,
                      tensor_data=TensorWriteData(box.chunk(), properties, object.size())) for box in boxes(object)]


def _create_chunk_list(tensor: Any) -> list[ChunkStorageMetadata]:
    """The boxes that this rank has of a tensor."""
    if hasattr(tensor, "__create_chunk_list__"):
        return tensor.__create_chunk_list__()
    if isinstance(tensor, torch.Tensor):
        return [box.chunk() for box in boxes(tensor)]
    raise ValueError(f"Unsupported Type, expecting one of [Tensor, DTensor, ShardedTensor] ,but got {type(tensor)}")


def create_read_items_for_chunk_list(fqn: str, checkpoint_md: TensorStorageMetadata,
                                     local_chunks: list[ChunkStorageMetadata]) -> list[ReadItem]:
    """For each box of this rank, where it and the stored boxes have a part in common."""
    found = []
    for number, mine in enumerate(local_chunks):
        for stored_number, stored in enumerate(checkpoint_md.chunks):
            begin = [max(a, b) for a, b in zip(mine.offsets, stored.offsets, strict=True)]
            end = [min(a + m, b + s) for a, m, b, s in zip(mine.offsets, mine.sizes, stored.offsets, stored.sizes,
                                                           strict=True)]
            if any(last <= first for first, last in zip(begin, end, strict=True)):
                continue
            found.append(ReadItem(
                LoadItemType.TENSOR,
                dest_index=MetadataIndex(fqn, mine.offsets, number),
                dest_offsets=_size(first - at for first, at in zip(begin, mine.offsets, strict=True)),
                storage_index=MetadataIndex(fqn, stored.offsets, stored_number),
                storage_offsets=_size(first - at for first, at in zip(begin, stored.offsets, strict=True)),
                lengths=_size(last - first for first, last in zip(begin, end, strict=True))))
    return found


def _size(lengths: Any) -> Any:
    return torch.Size(list(lengths))


def _create_read_items(fqn: str, md: STORAGE_TYPES, obj: Any) -> list[ReadItem]:
    """What this rank reads for a value."""
    if isinstance(md, BytesStorageMetadata):
        nothing = torch.Size((0,))
        return [ReadItem(LoadItemType.BYTE_IO, MetadataIndex(fqn), nothing, MetadataIndex(fqn), nothing, nothing)]
    try:
        chunks = _create_chunk_list(obj)
    except ValueError as error:
        raise ValueError(f"Invalid checkpoint metadata for {fqn}, expected BytesStorageMetadata but found "
                         f"{type(md)}") from error
    return create_read_items_for_chunk_list(fqn, md, chunks)


def _init_state_dict(state_dict: dict[str, Any]) -> None:
    """Gives memory to tensors without any, so that they can be read into."""
    for key, value in state_dict.items():
        state_dict[key] = _with_memory(value)


def _with_memory(value: Any) -> Any:
    if isinstance(value, dict):
        _init_state_dict(value)
    elif isinstance(value, list):
        value[:] = map(_with_memory, value)
    elif isinstance(value, tuple) and type(value) is tuple:
        return tuple(map(_with_memory, value))
    elif isinstance(value, torch.Tensor) and value.device.type == "meta":
        device = "cpu"
        if dist.is_initialized() and dist.get_backend() == "nccl":
            device = f"cuda:{torch.cuda.current_device()}"
        if not isinstance(value, DTensor):
            return torch.empty_like(value, device=device)
        return DTensor.from_local(torch.empty_like(value.to_local(), device=device), value.device_mesh,
                                  value.placements, shape=value.size(), stride=value.stride())
    return value
