"""Loading: each rank reads the metadata, plans which parts of stored pieces its own are made of, and reads those."""

import logging
import os
import warnings
from typing import Any

from mindtorch_v2 import distributed as dist

from ._storage_utils import storage_at
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .metadata import STATE_DICT_TYPE, Metadata
from .planner import LoadPlan, LoadPlanner
from .state_dict_saver import takes_options
from .stateful import Stateful
from .storage import StorageReader
from .utils import _DistWrapper, takes_storage_second

__all__ = ["load", "load_state_dict"]

logger = logging.getLogger(__name__)


def load_state_dict(state_dict: dict[str, Any], storage_reader: StorageReader, process_group: Any = None,
                    coordinator_rank: int = 0, no_dist: bool = False, planner: LoadPlanner | None = None) -> None:
    """`load`, by its old name."""
    warnings.warn("`load_state_dict` is deprecated and will be removed in future versions. Please use `load` instead.",
                  FutureWarning, stacklevel=2)
    storage_reader.reset()
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


@takes_storage_second
def load(state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike | None = None,
         storage_reader: StorageReader | None = None, planner: LoadPlanner | None = None, process_group: Any = None,
         no_dist: bool = False) -> None:
    """Reads into the tensors of a state dict, as they are cut on this rank; objects are replaced."""
    no_dist = no_dist or not dist.is_initialized()
    if no_dist:
        warnings.warn("torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to load in "
                      "a single process.", stacklevel=2)
    reader = storage_at(storage_reader, checkpoint_id, FileSystemReader)
    states = {key: state_dict[key].state_dict() if isinstance(state_dict[key], Stateful) else state_dict[key]
              for key in sorted(state_dict)}
    _load_state_dict(states, reader, process_group, no_dist=no_dist, planner=planner)
    for key, state in states.items():
        if isinstance(state_dict[key], Stateful):
            state_dict[key].load_state_dict(state)
        else:
            state_dict[key] = state


def _metadata_of(reader: StorageReader, rank: int) -> tuple[Metadata, bool]:
    """(the metadata, whether they are those of all ranks)."""
    try:
        return reader.read_metadata(), True
    except Exception as error:  # noqa: BLE001 - whatever a storage raises
        said = f"metadata is None; global metadata read failed: {error}"
        logger.warning("Global metadata is not found. Falling back to rank local metadata.", exc_info=True)
        if takes_options(reader.read_metadata):
            try:
                return reader.read_metadata(rank=rank), False
            except Exception as second:  # noqa: BLE001
                said += f"; rank local metadata read failed: {second}"
                logger.warning("Rank local metadata is not found.", exc_info=True)
        raise AssertionError(said) from error


def _load_state_dict(state_dict: STATE_DICT_TYPE, storage_reader: StorageReader, process_group: Any = None,
                     coordinator_rank: int = 0, no_dist: bool = False, planner: LoadPlanner | None = None) -> None:
    ranks = _DistWrapper(process_group, not no_dist, coordinator_rank)
    maker = planner if planner is not None else DefaultLoadPlanner()

    def local_plan() -> LoadPlan:
        metadata, use_collectives = _metadata_of(storage_reader, ranks.rank)
        maker.set_up_planner(state_dict, metadata, ranks.is_coordinator)
        options = {"rank": ranks.rank, "use_collectives": use_collectives}
        storage_reader.set_up_storage_reader(
            metadata, ranks.is_coordinator,
            **(options if takes_options(storage_reader.set_up_storage_reader) else {}))
        return storage_reader.prepare_local_plan(maker.create_local_plan())

    def global_plan(plans: list[LoadPlan]) -> list[LoadPlan]:
        return storage_reader.prepare_global_plan(maker.create_global_plan(plans))

    plan = ranks.reduce_scatter("plan", local_plan, global_plan)
    ranks.all_gather("read", lambda: storage_reader.read_data(maker.finish_plan(plan), maker).wait())


def _load_state_dict_from_keys(keys: set[str] | str | None = None, *, checkpoint_id: str | os.PathLike | None = None,
                               storage_reader: StorageReader | None = None,
                               process_group: Any = None) -> dict[str, Any]:
    """A state dict of all that a checkpoint has, or of some names and what lies below them, whole on this rank."""
    no_dist = not dist.is_initialized()
    if no_dist:
        warnings.warn("torch.distributed is unavailable or uninitialized, assuming the intent is to load in a single "
                      "process.", stacklevel=2)
    made: dict[str, Any] = {}
    _load_state_dict(made, storage_at(storage_reader, checkpoint_id, FileSystemReader), process_group, no_dist=no_dist,
                     planner=_EmptyStateDictLoadPlanner(keys={keys} if isinstance(keys, str) else keys))
    return made
