"""The planners that are used unless others are given."""

import dataclasses
import io
import itertools
import math
from collections import ChainMap
from typing import Any

import mindtorch_v2 as torch

from ..tensor import DTensor
from ._dedup_save_plans import dedup_save_plans
from ._nested_dict import FLATTEN_MAPPING, flatten_state_dict
from ._pieces import narrowed
from ._traverse import set_element, traverse_state_dict_v_2_3
from .metadata import (
    STATE_DICT_TYPE,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .planner_helpers import _create_read_items, _create_write_items, _init_state_dict
from .utils import find_state_dict_object

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner", "create_default_global_load_plan",
           "create_default_global_save_plan", "create_default_local_load_plan", "create_default_local_save_plan"]


class DefaultSavePlanner(SavePlanner):
    """Writes nested state dicts by their flat names, and what several ranks have once.

    Plans are made anew for each save, with `enable_plan_caching` too.
    """

    mappings: FLATTEN_MAPPING

    def __init__(self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
                 dedup_replicated_tensors: bool | None = None, dedup_save_to_lowest_rank: bool = False,
                 enable_plan_caching: bool = False) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings = {}

    def set_up_planner(self, state_dict: STATE_DICT_TYPE, storage_meta: StorageMeta | None = None,
                       is_coordinator: bool = False) -> None:
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        self.plan = dataclasses.replace(plan, planner_data=self.mappings) if self.flatten_state_dict else plan
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        single = dedup_save_plans(all_plans, self.dedup_save_to_lowest_rank)
        self.global_plan, self.metadata = create_default_global_save_plan(single)
        if self.flatten_state_dict:
            paths = dict(ChainMap(*(plan.planner_data for plan in self.global_plan)))
            self.metadata = dataclasses.replace(self.metadata, planner_data=paths)
        errors = "; ".join(_validate_global_plan(self.global_plan, self.metadata))
        if errors:
            raise ValueError("Failed to validate global plan: "
                             + (errors[:500] + "... (truncated)" if len(errors) > 500 else errors))
        return self.global_plan, self.metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Any:
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """What an index names; to be overridden."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is written of it; to be overridden."""
        if write_item.type != WriteItemType.BYTE_IO:
            return object
        file = io.BytesIO()
        torch.save(object, file)
        return file


class DefaultLoadPlanner(LoadPlanner):
    """Reads into the tensors of a state dict, whichever way they are cut, and replaces its other objects."""

    original_state_dict: STATE_DICT_TYPE
    mappings: FLATTEN_MAPPING

    def __init__(self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
                 allow_partial_load: bool = False) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.original_state_dict, self.mappings = {}, {}

    def set_up_planner(self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None,
                       is_coordinator: bool = False) -> None:
        _init_state_dict(state_dict)
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        if self.metadata is None:
            raise AssertionError("self.metadata is not None")
        missing = self.metadata.state_dict_metadata.keys() - self.state_dict.keys()
        if self.flatten_state_dict and missing:
            old, paths = flatten_state_dict(self.original_state_dict, traverse_state_dict_v_2_3)
            if old.keys() & missing:  # a file of before PyTorch 2.4
                self.state_dict, self.mappings = old, paths
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, new_plan: LoadPlan) -> LoadPlan:
        return new_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        name, loaded = read_item.dest_index.fqn, torch.load(value, weights_only=False)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], loaded)
        else:
            self.state_dict[name] = loaded

    def resolve_tensor(self, read_item: ReadItem) -> Any:
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Any) -> None:
        """Nothing is left to do: the tensor is a view of the state dict's."""

    def lookup_tensor(self, index: MetadataIndex) -> Any:
        """What an index names; to be overridden."""
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item: ReadItem, tensor: Any) -> Any:
        """Where in it an item goes; to be overridden."""
        return narrowed(tensor, read_item.dest_offsets, read_item.lengths)


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty state dict with all that a checkpoint has, or with some names and what lies below them."""

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _should_include_key(self, key: str, metadata: Metadata) -> bool:
        if self.keys is None or key in self.keys:
            return True
        path = (metadata.planner_data or {}).get(key, ())
        return any(above in self.keys for above in itertools.accumulate(map(str, path), "{}.{}".format))

    def set_up_planner(self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None,
                       is_coordinator: bool = False) -> None:
        if state_dict:
            raise AssertionError("not state_dict")
        if metadata is None:
            raise AssertionError("metadata is not None")
        for key, stored in metadata.state_dict_metadata.items():
            if not self._should_include_key(key, metadata):
                continue
            value: Any = stored
            if isinstance(stored, TensorStorageMetadata):
                value = torch.empty(stored.size, dtype=stored.properties.dtype)
            set_element(state_dict, (metadata.planner_data or {}).get(key, (key,)), value)
        super().set_up_planner(state_dict, metadata, is_coordinator)


def create_default_local_load_plan(state_dict: dict[str, Any], metadata: Metadata, strict: bool = True) -> LoadPlan:
    """What this rank reads: all parts of its pieces, from whichever stored pieces have them."""
    items = []
    for fqn, value in state_dict.items():
        if fqn not in metadata.state_dict_metadata:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")
            continue
        stored = metadata.state_dict_metadata[fqn]
        if isinstance(stored, TensorStorageMetadata) and hasattr(value, "size") and stored.size != value.size():
            raise ValueError(f"Size mismatch between saved {stored.size} and current: {value.size()} for {fqn}")
        if not isinstance(value, DTensor) or value.device_mesh.get_coordinate() is not None:
            items += _create_read_items(fqn, stored, value)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """The plans as they are: ranks read on their own."""
    return all_plans


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """All that this rank has."""
    return SavePlan([item for fqn, value in state_dict.items() for item in _create_write_items(fqn, value)])


def create_default_global_save_plan(all_plans: list[SavePlan],
                                    rewrite_index_hints: bool = True) -> tuple[list[SavePlan], Metadata]:
    """The plans with the number of each piece, and the metadata that they make together."""
    entries: dict[str, Any] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name, data = item.index.fqn, item.tensor_data
            if item.type != WriteItemType.SHARD and name in entries:
                raise AssertionError("item.index.fqn not in md")
            if item.type == WriteItemType.BYTE_IO:
                entries[name] = BytesStorageMetadata()
            else:
                assert data is not None
                entry = entries.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
                if rewrite_index_hints:
                    item = dataclasses.replace(item, index=dataclasses.replace(item.index, index=len(entry.chunks)))
                entry.chunks.append(data.chunk)
            items.append(item)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(entries)


def _check_box_overlap(box0: ChunkStorageMetadata, box1: ChunkStorageMetadata) -> bool:
    """Whether two boxes have a part in common."""
    return all(a < b + bs and b < a + as_ for a, as_, b, bs in zip(box0.offsets, box0.sizes, box1.offsets, box1.sizes,
                                                                   strict=True))


def _check_box_bounds(outer_box_size: Any, inner_box: ChunkStorageMetadata) -> bool:
    """Whether a box lies inside a size."""
    return all(begin >= 0 and length >= 0 and begin + length <= limit
               for begin, length, limit in zip(inner_box.offsets, inner_box.sizes, outer_box_size, strict=True))


def _validate_global_plan(global_plan: list[SavePlan], metadata: Metadata) -> list[str]:
    """What is wrong: pieces beyond their tensor, over each other, or not all of it."""
    errors = []
    for key, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, BytesStorageMetadata) or not entry.size:
            continue
        errors += [f"key:{key} has out of bounds chunk: tensor-size:{entry.size} chunk: {chunk}"
                   for chunk in entry.chunks if not _check_box_bounds(entry.size, chunk)]
        errors += [f"key:{key} has overlapping chunks: {later} {earlier}"
                   for earlier, later in _neighbours(entry) if _check_box_overlap(earlier, later)]
        volume, filled = math.prod(entry.size), sum(math.prod(chunk.sizes) for chunk in entry.chunks)
        if len(global_plan) > 1 and filled != volume:
            errors.append(f"key:{key} invalid fill tensor-volume: {volume} chunks-volume: {filled}")
    return errors


def _neighbours(entry: TensorStorageMetadata) -> list[tuple[ChunkStorageMetadata, ChunkStorageMetadata]]:
    """Pairs of pieces that could overlap: those that do along the longest dimension."""
    dim = max(range(len(entry.size)), key=entry.size.__getitem__)
    pairs: list[tuple[ChunkStorageMetadata, ChunkStorageMetadata]] = []
    open_ones: list[ChunkStorageMetadata] = []
    for chunk in sorted(entry.chunks, key=lambda each: (each.offsets[dim], *each.offsets)):
        open_ones = [each for each in open_ones if each.offsets[dim] + each.sizes[dim] > chunk.offsets[dim]]
        pairs += [(each, chunk) for each in open_ones]
        open_ones.append(chunk)
    return pairs
