"""Checkpoints in a folder: files of pieces (`__0_0.distcp`), and `.metadata`, which is put there last.

Both are PyTorch's files. A save over an older checkpoint writes under names that that one does not use, and takes its
files away after the metadata was replaced: whenever a save is killed, the folder holds one whole checkpoint.
"""

import abc
import contextlib
import dataclasses
import io
import itertools
import os
import pickle
import uuid
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import mindtorch_v2 as torch

from ..._files.pickled_names import pickler_class, unpickler_class
from ...futures import Future
from ._pieces import narrowed
from .metadata import STATE_DICT_TYPE, Metadata, MetadataIndex, StorageMeta
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .staging import BlockingAsyncStager
from .storage import StorageReader, StorageWriter, WriteResult

__all__ = ["FileSystem", "FileSystemBase", "FileSystemReader", "FileSystemWriter", "SerializationFormat"]

_metadata_fn = ".metadata"
CURRENT_DCP_VERSION = "1.0.0"
DEFAULT_SUFFIX = ".distcp"


@dataclass
class _StorageInfo:
    """Where an item lies."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Sequence[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if value is not None}


@dataclass
class _StoragePrefix:
    prefix: str


class SerializationFormat(Enum):
    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


class FileSystemBase(abc.ABC):
    """What reader and writer ask of a file system."""

    @abc.abstractmethod
    def create_stream(self, path: str | os.PathLike, mode: str) -> Any: ...

    @abc.abstractmethod
    def concat_path(self, path: str | os.PathLike, suffix: str) -> str | os.PathLike: ...

    @abc.abstractmethod
    def rename(self, path: str | os.PathLike, new_path: str | os.PathLike) -> None: ...

    @abc.abstractmethod
    def init_path(self, path: str | os.PathLike) -> str | os.PathLike: ...

    @abc.abstractmethod
    def mkdir(self, path: str | os.PathLike) -> None: ...

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool: ...

    @abc.abstractmethod
    def exists(self, path: str | os.PathLike) -> bool: ...

    @abc.abstractmethod
    def rm_file(self, path: str | os.PathLike) -> None: ...


class FileSystem(FileSystemBase):
    """The file system of this machine."""

    @contextlib.contextmanager
    def create_stream(self, path: str | os.PathLike, mode: str) -> Iterator[Any]:
        with Path(path).open(mode) as stream:
            yield stream

    def concat_path(self, path: str | os.PathLike, suffix: str) -> Path:
        return Path(path) / suffix

    def init_path(self, path: str | os.PathLike) -> Path:
        return Path(path)

    def rename(self, path: str | os.PathLike, new_path: str | os.PathLike) -> None:
        os.replace(path, new_path)

    def mkdir(self, path: str | os.PathLike) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        if isinstance(checkpoint_id, Path):
            return True
        return "://" not in str(checkpoint_id) and any(
            folder.exists() and os.access(folder, os.W_OK) for folder in Path(checkpoint_id).parents)

    def exists(self, path: str | os.PathLike) -> bool:
        return Path(path).exists()

    def rm_file(self, path: str | os.PathLike) -> None:
        Path(path).unlink()

    def ls(self, path: str | os.PathLike) -> list[str]:
        return [str(found) for found in Path(path).iterdir()]


class _Folder:
    """What reader and writer have in common."""

    fs: FileSystemBase
    path: Any

    def _get_metadata_path(self, rank: int | None = None) -> Any:
        """All ranks' metadata, or those of a rank that saved on its own."""
        return self.fs.concat_path(self.path, _metadata_fn if rank is None else f"__{rank}{_metadata_fn}")

    def _stored_metadata(self, rank: int | None = None) -> Metadata:
        with self.fs.create_stream(self._get_metadata_path(rank), "rb") as file:
            return unpickler_class(pickle)(file).load()

    @property
    def checkpoint_id(self) -> str | os.PathLike:
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        return FileSystem.validate_checkpoint_id(checkpoint_id)


def _flush(stream: Any) -> None:
    """What was written is on the disk."""
    stream.flush()
    try:
        os.fsync(stream.fileno())
    except (AttributeError, io.UnsupportedOperation):
        os.sync()


def _item_size(item: WriteItem) -> int:
    """Bytes of a piece."""
    assert item.tensor_data is not None
    return item.tensor_data.chunk.sizes.numel() * item.tensor_data.properties.dtype.itemsize


def _split_by_size_and_type(bins: int, items: list[WriteItem]) -> list[list[WriteItem]]:
    """Items for several files: objects in turn, then tensors, the largest first, to the file that has least."""
    if bins == 1:
        return [items]
    buckets: list[list[WriteItem]] = [[] for _ in range(bins)]
    for at, item in enumerate(item for item in items if item.type == WriteItemType.BYTE_IO):
        buckets[at % bins].append(item)
    sizes = [0] * bins
    tensors = [item for item in items if item.type != WriteItemType.BYTE_IO]
    for item in sorted(tensors, key=_item_size, reverse=True):
        smallest = sizes.index(min(sizes))
        buckets[smallest].append(item)
        sizes[smallest] += _item_size(item)
    return buckets


class _FileSystemWriter(_Folder, StorageWriter):
    """Writes one file a rank, or one an item; with several threads, one file each."""

    def __init__(self, path: str | os.PathLike, single_file_per_rank: bool = True, sync_files: bool = True,
                 thread_count: int = 1, per_thread_copy_ahead: int = 10_000_000, overwrite: bool = True,
                 _extensions: Sequence[Any] | None = None,
                 serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE, *args: Any,
                 **kwargs: Any) -> None:
        super().__init__()
        if _extensions or serialization_format != SerializationFormat.TORCH_SAVE:
            raise NotImplementedError("mindtorch_v2 writes distributed checkpoints as torch.save does: no other "
                                      "serialization_format, and no _extensions")
        self.fs = FileSystem()
        self.path = self.fs.init_path(path)
        self.single_file_per_rank, self.sync_files, self.thread_count = single_file_per_rank, sync_files, thread_count
        self.per_thread_copy_ahead, self.overwrite = per_thread_copy_ahead, overwrite
        self.save_id = str(uuid.uuid4())
        self.rank: int | None = None
        self.use_collectives = True

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.rank, self.use_collectives = kwargs.get("rank"), kwargs.get("use_collectives", True)

    @property
    def _own_rank(self) -> int | None:
        """This rank if it saves on its own."""
        return None if self.use_collectives else self.rank

    def _files_in_use(self) -> set[str]:
        """The files of the checkpoint that the folder holds."""
        if not self.fs.exists(self._get_metadata_path(self._own_rank)):
            return set()
        return {info.relative_path for info in self._stored_metadata(self._own_rank).storage_data.values()}

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self.fs.mkdir(self.path)
        if self.fs.exists(self._get_metadata_path(None if self.use_collectives else 0)):
            if not self.overwrite:
                raise RuntimeError(f"Checkpoint already exists and {self.overwrite=}.")
            warnings.warn(f"Detected an existing checkpoint in {self.path}, overwriting since {self.overwrite=}. Past "
                          "version 2.5 of PyTorch, `overwrite` will default to False. Set this variable to True to "
                          "maintain this functionality or False to raise when an existing checkpoint is found.",
                          stacklevel=2)
        own = self._own_rank
        return plan if own is None else dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{own}_"))

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{rank}_")) if plan.storage_data is None
                else plan for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        in_use = self._files_in_use()
        names = (name for number in itertools.count()
                 if (name := f"{plan.storage_data.prefix}{number}{DEFAULT_SUFFIX}") not in in_use)
        groups = (_split_by_size_and_type(self.thread_count, plan.items) if self.single_file_per_rank
                  else [[item] for item in plan.items])
        with ThreadPoolExecutor(self.thread_count) if self.thread_count > 1 else contextlib.nullcontext() as threads:
            run = map if threads is None else threads.map
            written = list(run(lambda name, items: self._write_file(name, items, planner), names, groups))
        future: Future[list[WriteResult]] = Future()
        future.set_result([result for results in written for result in results])
        return future

    def _write_file(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        """Objects first, then tensors, one after another."""
        results = []
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "wb") as stream:
            for item in sorted(items, key=lambda each: each.type != WriteItemType.BYTE_IO):
                data, offset = planner.resolve_data(item), stream.tell()
                if item.type == WriteItemType.BYTE_IO:
                    stream.write(data.getbuffer())
                else:
                    tensor = data.detach().cpu()
                    if tensor.untyped_storage().nbytes() != tensor.numel() * tensor.itemsize:
                        tensor = tensor.clone()  # a view would be saved with all that it is a view of
                    torch.save(tensor, stream)
                length = stream.tell() - offset
                results.append(WriteResult(item.index, length, _StorageInfo(name, offset, length)))
            if self.sync_files:
                _flush(stream)
        return results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        old = self._files_in_use()
        metadata.version = CURRENT_DCP_VERSION
        metadata.storage_data = {result.index: result.storage_data for each in results for result in each}
        metadata.storage_meta = self.storage_meta()
        path = self._get_metadata_path(self._own_rank)
        unfinished = f"{path}.tmp"
        with self.fs.create_stream(unfinished, "wb") as file:
            pickler_class(pickle)(file, protocol=4).dump(metadata)
            if self.sync_files:
                _flush(file)
        self.fs.rename(unfinished, path)
        for name in old - {info.relative_path for info in metadata.storage_data.values()}:
            gone = self.fs.concat_path(self.path, name)
            if self.fs.exists(gone):
                self.fs.rm_file(gone)

    def storage_meta(self) -> StorageMeta | None:
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self.save_id)


class FileSystemWriter(_FileSystemWriter, BlockingAsyncStager):
    """Writes a checkpoint into a folder, and copies state dicts for `async_save`."""

    def __init__(self, path: str | os.PathLike, single_file_per_rank: bool = True, sync_files: bool = True,
                 thread_count: int = 1, per_thread_copy_ahead: int = 10_000_000, cache_staged_state_dict: bool = False,
                 overwrite: bool = True, _extensions: Sequence[Any] | None = None,
                 serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE) -> None:
        _FileSystemWriter.__init__(self, path, single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead,
                                   overwrite, _extensions, serialization_format)
        BlockingAsyncStager.__init__(self, cache_staged_state_dict)

    def stage(self, state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        self.per_thread_copy_ahead = 0  # what is staged is on the CPU
        return super().stage(state_dict)


class FileSystemReader(_Folder, StorageReader):
    """Reads a checkpoint out of a folder."""

    def __init__(self, path: str | os.PathLike, _extension_registry: Any = None) -> None:
        super().__init__()
        self.fs = FileSystem()
        self.path = self.fs.init_path(path)
        self.storage_data: dict[MetadataIndex, Any] = {}
        self.load_id = str(uuid.uuid4())
        self.rank: int | None = None
        self.use_collectives = True

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        self.storage_data = {}
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        metadata = self._stored_metadata(kwargs.get("rank"))
        if getattr(metadata, "storage_meta", None) is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id  # type: ignore[union-attr]
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.storage_data = metadata.storage_data
        self.rank, self.use_collectives = kwargs.get("rank"), kwargs.get("use_collectives", True)
        if self.storage_data is None:
            raise AssertionError("storage_data must not be None in metadata")

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        items: dict[str, dict[MetadataIndex, list[ReadItem]]] = {}
        for item in plan.items:
            file = self.storage_data[item.storage_index].relative_path
            items.setdefault(file, {}).setdefault(item.storage_index, []).append(item)
        for name, wanted in items.items():
            with self.fs.create_stream(self.fs.concat_path(self.path, name), "rb") as stream:
                for index in sorted(wanted, key=lambda each: self.storage_data[each].offset):
                    self._read_piece(stream, self.storage_data[index], wanted[index], planner)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _read_piece(self, stream: Any, info: _StorageInfo, items: list[ReadItem], planner: LoadPlanner) -> None:
        """Gives the planner all that its plan asks for of one stored piece."""
        if info.transform_descriptors:
            raise NotImplementedError(f"{info.relative_path} is transformed by {list(info.transform_descriptors)}, "
                                      "which mindtorch_v2 does not read")
        stream.seek(info.offset)
        data = io.BytesIO(stream.read(info.length))
        stored = None
        for item in items:
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(data.getbuffer()))
                continue
            if stored is None:
                stored = torch.load(data, map_location="cpu", weights_only=True)
            part = narrowed(stored, item.storage_offsets, item.lengths)
            target = planner.resolve_tensor(item).detach()
            if target.size() != part.size():
                raise AssertionError(f"req {item.storage_index} mismatch sizes {target.size()} vs {part.size()}")
            target.copy_(part)
            planner.commit_tensor(item, target)
