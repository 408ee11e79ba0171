"""Steps that all ranks take together, each of which may fail on one; and looking up what a plan names."""

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch
from mindtorch_v2 import distributed as dist

from ._pieces import box_at
from .api import WRAPPED_EXCEPTION, CheckpointException, _is_wrapped_exception, _wrap_exception
from .metadata import STATE_DICT_TYPE, MetadataIndex

__all__ = ["find_state_dict_object", "find_tensor_shard"]


def _get_failure_dict(results: list[Any]) -> dict[int, WRAPPED_EXCEPTION]:
    return {rank: result for rank, result in enumerate(results) if _is_wrapped_exception(result)}


def _attempt(function: Callable[[], Any]) -> Any:
    """What a function gives, or its exception as a value."""
    try:
        return function()
    except BaseException as error:
        return _wrap_exception(error)


class _DistWrapper:
    """Collectives of objects in a group, or among this process alone."""

    def __init__(self, group: Any, use_dist: bool, coordinator_rank: int) -> None:
        self.group, self.use_dist, self.coordinator_rank = group, use_dist, coordinator_rank
        self.rank, self.global_coordinator_rank, self.is_coordinator = 0, 0, True
        if use_dist:
            self.global_coordinator_rank = (coordinator_rank if group is None
                                            else dist.get_global_rank(group, coordinator_rank))
            self.rank = dist.get_rank(group)
            self.is_coordinator = self.rank == coordinator_rank

    def get_rank(self) -> int:
        return self.rank

    def get_world_size(self) -> int:
        return dist.get_world_size(self.group) if self.use_dist else 1

    def broadcast_object(self, object: Any) -> Any:
        """The coordinator's object."""
        box = [object]
        if self.use_dist:
            dist.broadcast_object_list(box, group=self.group, src=self.global_coordinator_rank)
        return box[0]

    def gather_object(self, object: Any) -> list[Any] | None:
        """Everyone's object, on the coordinator."""
        if not self.use_dist:
            return [object]
        found = [None] * self.get_world_size() if self.is_coordinator else None
        dist.gather_object(object, found, dst=self.global_coordinator_rank, group=self.group)
        return found

    def all_gather_object(self, object: Any) -> list[Any]:
        """Everyone's object."""
        if not self.use_dist:
            return [object]
        found: list[Any] = [None] * self.get_world_size()
        dist.all_gather_object(found, object, group=self.group)
        return found

    def scatter_object(self, object_list: list[Any] | None) -> Any:
        """This rank's object out of the coordinator's list."""
        if not self.use_dist:
            assert object_list is not None
            return object_list[0]
        box: list[Any] = [None]
        dist.scatter_object_list(box, object_list if self.is_coordinator else None, src=self.global_coordinator_rank,
                                 group=self.group)
        return box[0]

    def _reduced(self, step: str, map_fun: Callable[[], Any], reduce_fun: Callable[[list[Any]], Any]) -> Any:
        """On the coordinator, what becomes of everyone's value, or an exception with all that failed."""
        gathered = self.gather_object(_attempt(map_fun))
        if gathered is None:
            return None
        failures = _get_failure_dict(gathered)
        if not failures:
            result = _attempt(lambda: reduce_fun(gathered))
            if not _is_wrapped_exception(result):
                return result
            failures = {self.rank: result}
        return CheckpointException(step, failures)

    def reduce_scatter(self, step: str, map_fun: Callable[[], Any], reduce_fun: Callable[[list[Any]], Any]) -> Any:
        """Everyone's value is given to `reduce_fun` on the coordinator; each gets its part of that list."""
        results = self._reduced(step, map_fun, reduce_fun)
        if isinstance(results, CheckpointException):
            results = [results] * self.get_world_size()
        return _raised(self.scatter_object(results))

    def all_reduce(self, step: str, map_fun: Callable[[], Any], reduce_fun: Callable[[list[Any]], Any]) -> Any:
        """Everyone's value is given to `reduce_fun` on the coordinator; all get what comes of it."""
        return _raised(self.broadcast_object(self._reduced(step, map_fun, reduce_fun)))

    def all_gather(self, step: str, map_fun: Callable[[], Any]) -> list[Any]:
        """Everyone's value."""
        results = self.all_gather_object(_attempt(map_fun))
        failures = _get_failure_dict(results)
        if failures:
            raise CheckpointException(step, failures)
        return results

    def broadcast(self, step: str, map_fun: Callable[[], Any]) -> Any:
        """The coordinator's value."""
        result: Any = _attempt(map_fun) if self.is_coordinator else None
        if _is_wrapped_exception(result):
            result = CheckpointException(step, {self.rank: result})
        return _raised(self.broadcast_object(result))

    def barrier(self) -> None:
        if self.use_dist:
            dist.barrier(group=self.group)


def _raised(result: Any) -> Any:
    if isinstance(result, CheckpointException):
        raise result
    return result


def find_tensor_shard(tensor: Any, index: MetadataIndex) -> Any:
    """The part of this process's piece that an index names."""
    if hasattr(tensor, "__get_tensor_shard__"):
        return tensor.__get_tensor_shard__(index)
    return box_at(tensor, index)


def find_state_dict_object(state_dict: STATE_DICT_TYPE, index: MetadataIndex) -> Any:
    """The object, or the part of a tensor, that an index names."""
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    found = state_dict[index.fqn]
    if isinstance(found, torch.Tensor):
        return find_tensor_shard(found, index)
    if index.offset is not None:
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")
    return found


def takes_storage_second(function: Callable) -> Callable:
    """A function that still takes its storage as the second argument by position, as it once did, and warns."""
    storage = "storage_writer" if "storage_writer" in inspect.signature(function).parameters else "storage_reader"

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if len(args) != 2:
            return function(*args, **kwargs)
        warnings.warn(f"The argument order of {function.__name__} has been changed. Please check the document to avoid "
                      "future breakages.", stacklevel=2)
        return function(args[0], **{storage: args[1]}, **kwargs)

    return called
