"""From distributed checkpoints to files of `torch.save`, and back."""

import os
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import distributed as dist

from ...futures import Future
from ._nested_dict import flatten_state_dict
from ._pieces import narrowed
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import (
    STATE_DICT_TYPE,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadPlan, LoadPlanner
from .state_dict_loader import _load_state_dict
from .state_dict_saver import _save_state_dict
from .storage import StorageReader

__all__ = ["BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of `torch.save` on one rank, which sends each tensor to all; use it with DynamicMetaLoadPlanner."""

    def __init__(self, checkpoint_id: str | os.PathLike | None = None, coordinator_rank: int = 0) -> None:
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank

    def read_metadata(self) -> Metadata:  # type: ignore[override]
        return Metadata(state_dict_metadata={})

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool) -> None:  # type: ignore[override]
        self.is_coordinator = is_coordinator
        if is_coordinator and dist.get_rank() != self.coordinator_rank:
            raise AssertionError(f"Coordinator rank mismatch: expected {self.coordinator_rank}, got {dist.get_rank()}")
        if self.checkpoint_id is None:
            raise AssertionError("checkpoint_id must be set before setting up storage reader")

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return global_plan

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        assert isinstance(planner, DefaultLoadPlanner)
        stored: dict[str, Any] = {}
        if self.is_coordinator:
            assert self.checkpoint_id is not None
            stored = torch.load(self.checkpoint_id, map_location="cpu", weights_only=False)
            stored = flatten_state_dict(stored)[0] if planner.flatten_state_dict else stored
        for name, wanted in planner.state_dict.items():  # in one order on all ranks
            whole = (stored[name].contiguous() if self.is_coordinator
                     else torch.empty(wanted.size(), dtype=wanted.dtype, device="cpu"))
            dist.broadcast(whole, src=self.coordinator_rank)
            for item in plan.items:
                if item.storage_index.fqn == name:
                    target = planner.resolve_tensor(item).detach()
                    target.copy_(narrowed(whole, item.storage_offsets, item.lengths))
                    planner.commit_tensor(item, target)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        self.checkpoint_id = checkpoint_id

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        return os.path.isfile(checkpoint_id)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Plans with the metadata that the state dict itself would have, for files that have none."""

    def set_up_planner(self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None,
                       is_coordinator: bool = False) -> None:
        super().set_up_planner(state_dict, metadata, is_coordinator)
        entries: dict[str, Any] = {}
        for name, tensor in self.state_dict.items():
            if not torch.is_tensor(tensor):
                raise RuntimeError(f"Non-tensor value identified at {name}. At this time {type(self).__name__} only "
                                   "supports loading Tensors.")
            whole = ChunkStorageMetadata(torch.Size((0,) * tensor.ndim), tensor.size())
            entries[name] = TensorStorageMetadata(TensorProperties(dtype=tensor.dtype), tensor.size(), [whole])
        self.metadata = Metadata(state_dict_metadata=entries)


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike, torch_save_path: str | os.PathLike) -> None:
    """Writes all of a distributed checkpoint into one file of `torch.save`; on one rank."""
    whole: STATE_DICT_TYPE = {}
    _load_state_dict(whole, FileSystemReader(dcp_checkpoint_dir), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    torch.save(whole, torch_save_path)


def torch_save_to_dcp(torch_save_path: str | os.PathLike, dcp_checkpoint_dir: str | os.PathLike) -> None:
    """Writes a file of `torch.save` as a distributed checkpoint; on one rank."""
    _save_state_dict(torch.load(torch_save_path, weights_only=False), FileSystemWriter(dcp_checkpoint_dir),
                     no_dist=True)
