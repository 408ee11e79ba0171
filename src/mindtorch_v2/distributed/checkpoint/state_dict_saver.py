"""Saving: each rank plans, the coordinator joins the plans, all write, and the coordinator writes the metadata."""

import inspect
import os
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mindtorch_v2 import distributed as dist

from ._storage_utils import storage_at
from .default_planner import DefaultSavePlanner
from .filesystem import FileSystemWriter
from .metadata import STATE_DICT_TYPE, Metadata
from .planner import SavePlan, SavePlanner
from .staging import AsyncStager, DefaultStager, StagingOptions
from .stateful import Stateful
from .storage import StorageWriter
from .utils import _DistWrapper, takes_storage_second

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(Enum):
    """Who saves in the background: here it is always a thread."""

    THREAD = "thread"
    PROCESS = "process"


def save_state_dict(state_dict: STATE_DICT_TYPE, storage_writer: StorageWriter, process_group: Any = None,
                    coordinator_rank: int = 0, no_dist: bool = False, planner: SavePlanner | None = None) -> Metadata:
    """`save`, by its old name."""
    warnings.warn("`save_state_dict` is deprecated and will be removed in future versions.Please use `save` instead.",
                  FutureWarning, stacklevel=2)
    storage_writer.reset()
    return _save_state_dict(state_dict, storage_writer, process_group, coordinator_rank, no_dist, planner)


@takes_storage_second
def save(state_dict: STATE_DICT_TYPE, *, checkpoint_id: str | os.PathLike | None = None,
         storage_writer: StorageWriter | None = None, planner: SavePlanner | None = None, process_group: Any = None,
         no_dist: bool = False, use_collectives: bool = True) -> Metadata:
    """The metadata of a checkpoint of all ranks' state dicts; each writes what it has."""
    no_dist = no_dist or not dist.is_initialized()
    if no_dist:
        warnings.warn("torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to save in "
                      "a single process.", stacklevel=2)
    return _save_state_dict(_stateful_to_state_dict(state_dict),
                            storage_at(storage_writer, checkpoint_id, FileSystemWriter), process_group,
                            no_dist=no_dist, planner=planner, use_collectives=use_collectives)


@dataclass
class AsyncSaveResponse:
    """When the copy is made, and when it is saved."""

    staging_completion: Future[None]
    upload_completion: Future[Any]


def async_save(state_dict: STATE_DICT_TYPE, *, checkpoint_id: str | os.PathLike | None = None,
               storage_writer: StorageWriter | None = None, planner: SavePlanner | None = None,
               process_group: Any = None, async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
               async_stager: AsyncStager | None = None, no_dist: bool = False,
               use_collectives: bool = True) -> Future | AsyncSaveResponse:
    """A future of the metadata: the state dict is copied now, and the copy saved on a thread."""
    stager: Any = async_stager
    if stager is None and isinstance(storage_writer, AsyncStager):
        stager = storage_writer
    elif stager is None:
        stager = DefaultStager(StagingOptions(False, False, False, False))
    group = None if no_dist or not dist.is_initialized() else _background_group(process_group)
    staged = stager.stage(_stateful_to_state_dict(state_dict))
    thread = ThreadPoolExecutor(max_workers=1)

    def saved() -> Metadata:
        with warnings.catch_warnings():
            copied = staged.result() if isinstance(staged, Future) else staged
            return save(copied, checkpoint_id=checkpoint_id, storage_writer=storage_writer, planner=planner,
                        process_group=group, no_dist=no_dist, use_collectives=use_collectives)

    upload = thread.submit(saved)
    thread.shutdown(wait=False)
    if not isinstance(staged, Future):
        if stager.should_synchronize_after_execute:
            stager.synchronize_staging()
        return upload
    completion: Future[None] = Future()
    staged.add_done_callback(lambda done: completion.set_exception(done.exception()) if done.exception()
                             else completion.set_result(None))
    return AsyncSaveResponse(completion, upload)


_background_groups: dict[Any, Any] = {}


def _background_group(group: Any) -> Any:
    """A group of the same ranks for saving, whose collectives those of training do not get between."""
    of = group if group is not None else dist.distributed_c10d._get_default_group()
    if all(str(kind) != "cpu" for kind in of._device_types):
        raise AssertionError("A CPU backend must be enabled for async save; try initializing process group with "
                             "'cpu:gloo,cuda:nccl'")
    if of not in _background_groups:
        for known in [each for each in _background_groups if each not in dist.distributed_c10d._world.pg_map]:
            del _background_groups[known]
        _background_groups[of] = dist.new_group(dist.get_process_group_ranks(of), use_local_synchronization=True,
                                                sort_ranks=False)
    return _background_groups[of]


def _stateful_to_state_dict(state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
    """The states of what has one, and the rest as it is."""
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}


def takes_options(function: Callable) -> bool:
    """Whether a storage's method takes more than its first versions did."""
    return "kwargs" in inspect.signature(function).parameters


def _save_state_dict(state_dict: STATE_DICT_TYPE, storage_writer: StorageWriter, process_group: Any = None,
                     coordinator_rank: int = 0, no_dist: bool = False, planner: SavePlanner | None = None,
                     use_collectives: bool = True) -> Metadata:
    ranks = _DistWrapper(process_group, not no_dist, coordinator_rank)
    maker = planner if planner is not None else DefaultSavePlanner()
    metadata: list[Metadata] = []

    def local_plan() -> SavePlan:
        meta = storage_writer.storage_meta()
        if "storage_meta" in inspect.signature(maker.set_up_planner).parameters:
            maker.set_up_planner(state_dict=state_dict, storage_meta=meta, is_coordinator=ranks.is_coordinator)
        else:
            warnings.warn("The function definition for SavePlanner.set_up_planner has been updated to include the "
                          "storage_meta argument. Please update your implementation to include this parameter.",
                          stacklevel=2)
            maker.set_up_planner(state_dict, ranks.is_coordinator)  # type: ignore[arg-type]
        options = {"rank": ranks.rank, "use_collectives": use_collectives}
        storage_writer.set_up_storage_writer(
            ranks.is_coordinator, **(options if takes_options(storage_writer.set_up_storage_writer) else {}))
        return storage_writer.prepare_local_plan(maker.create_local_plan())

    def global_plan(plans: list[SavePlan]) -> list[SavePlan]:
        plans, made = maker.create_global_plan(plans)
        metadata.append(made)
        return storage_writer.prepare_global_plan(plans)

    def written() -> Any:
        return storage_writer.write_data(maker.finish_plan(plan), maker).wait()

    def finished(results: list[Any]) -> Metadata:
        storage_writer.finish(metadata=metadata[0], results=results)
        return metadata[0]

    if use_collectives:
        plan = ranks.reduce_scatter("plan", local_plan, global_plan)
        return ranks.all_reduce("write", written, finished)
    plan = global_plan([local_plan()])[0]
    made = finished([written()])
    ranks.barrier()
    return made
