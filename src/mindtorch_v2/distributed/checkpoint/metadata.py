"""What `.metadata` of a checkpoint holds: for every name a tensor's geometry and pieces, and where these are stored.

Files hold these classes by module and name, with their fields: both are PyTorch's.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import mindtorch_v2 as torch

__all__ = ["BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta",
           "TensorProperties", "TensorStorageMetadata"]

STATE_DICT_TYPE: TypeAlias = dict[str, Any]


@dataclass
class ChunkStorageMetadata:
    """A piece of a tensor: a box, by where it begins and its lengths."""

    offsets: Any
    sizes: Any


class _MEM_FORMAT_ENCODING(Enum):
    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = {_MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT: torch.contiguous_format,
            _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST: torch.channels_last,
            _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT: torch.preserve_format}


@dataclass
class TensorProperties:
    """What a tensor has beside its size."""

    dtype: Any = field(default_factory=torch.get_default_dtype)
    layout: Any = field(default=torch.strided)
    requires_grad: bool = False
    memory_format: Any = field(default=torch.contiguous_format)
    pin_memory: bool = False

    def __getstate__(self) -> tuple:
        codes = [code for code, known in _FORMATS.items() if known == self.memory_format]
        if not codes:
            raise RuntimeError(f"Invalid torch.memory_format: {self.memory_format}")
        return self.dtype, self.layout, self.requires_grad, codes[0], self.pin_memory

    def __setstate__(self, state: tuple) -> None:
        self.dtype, self.layout, self.requires_grad, code, self.pin_memory = state
        if code not in _FORMATS:
            raise RuntimeError(f"Invalid memory format encoding: {code}")
        self.memory_format = _FORMATS[code]

    @staticmethod
    def create_from_tensor(tensor: Any) -> "TensorProperties":
        return TensorProperties(dtype=tensor.dtype, layout=tensor.layout, requires_grad=tensor.requires_grad,
                                memory_format=torch.contiguous_format, pin_memory=tensor.is_pinned())


@dataclass
class TensorStorageMetadata:
    """The whole tensor and the pieces that are stored of it."""

    properties: TensorProperties
    size: Any
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """Any other object."""


STORAGE_TYPES: TypeAlias = TensorStorageMetadata | BytesStorageMetadata


@dataclass
class StorageMeta:
    """Which save this was."""

    checkpoint_id: str | os.PathLike | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """All of a checkpoint but the data."""

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """A piece of a name: where it begins decides, its number among the pieces only helps to find it."""

    fqn: str
    offset: Any = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "offset", None if offset is None else torch.Size(offset))
