"""A batch in microbatches, and their results as one."""

from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from ...utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]

DEFAULT_CHUNK_DIM = 0


class TensorChunkSpec:
    """Along which dimension a tensor is cut."""

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}({self.split_dim})"

    def __str__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> tuple["TensorChunkSpec", ...]:
        return tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, "TensorChunkSpec"]:
        return tree_map(TensorChunkSpec, chunk_dims)


class _Replicate:
    """Every microbatch has the whole value."""


class _CustomReducer:
    """How results that are no pieces of one become one."""

    def __init__(self, init_value: Any, reduce_fn: Callable[[Any, Any], Any]) -> None:
        self.init_value, self.reduce_fn = init_value, reduce_fn


class _LossReducer(_CustomReducer):
    """The same, for losses."""


sum_reducer = _LossReducer(torch.tensor(0.0), lambda total, value: total + value)


def _is_replicated(spec: Any) -> bool:
    return spec is _Replicate or isinstance(spec, _Replicate)


def _chunks(values: dict[Any, Any], specs: dict[Any, Any], number: int) -> list[dict[Any, Any]]:
    """The values of each microbatch; fewer than `number` if a tensor is too short."""
    if not values:
        return [{} for _ in range(number)]
    if len(values) != len(specs):
        raise AssertionError(f"args_dict.keys() = {list(values)} args_chunk_spec.keys() = {list(specs)}")
    leaves, tree = tree_flatten(values)
    ways = tree_flatten(specs)[0]
    for value, spec in zip(leaves, ways, strict=True):
        if _is_replicated(spec):
            continue
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"Unsupported chunk spec: {spec} and value: {value} combination.")
        if not isinstance(spec, TensorChunkSpec):
            raise AssertionError(f"Expected TensorChunkSpec, got {type(spec)}")
        number = min(number, value.size(spec.split_dim))
    pieces = [[value] * number if _is_replicated(spec) else _cut(value, number, spec.split_dim)
              for value, spec in zip(leaves, ways, strict=True)]
    return [tree_unflatten([piece[at] for piece in pieces], tree) for at in range(number)]


def _cut(tensor: Any, number: int, dim: int) -> Any:
    pieces = torch.tensor_split(tensor, number, dim)
    if tensor.requires_grad and tensor.is_leaf:
        for piece in pieces:
            piece.retain_grad()
    return pieces


def split_args_kwargs_into_chunks(
        args: tuple[Any, ...], kwargs: dict[str, Any] | None, chunks: int,
        args_chunk_spec: tuple[TensorChunkSpec, ...] | None = None,
        kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None) -> tuple[list[tuple], list[dict]]:
    """(arguments, named arguments) of each microbatch: tensors cut along their first dimension, the rest as it is."""
    def default(value: Any) -> Any:
        return TensorChunkSpec(DEFAULT_CHUNK_DIM) if isinstance(value, torch.Tensor) else _Replicate()

    named = kwargs or {}
    positions, places = dict(enumerate(args)), args_chunk_spec or tree_map(default, args)
    of_names = kwargs_chunk_spec or tree_map(default, named)
    while True:
        by_position = _chunks(positions, dict(enumerate(places)), chunks)
        by_name = _chunks(named, of_names, len(by_position))
        chunks = len(by_name)
        if chunks == len(by_position):
            return [tuple(chunk.values()) for chunk in by_position], by_name


def merge_chunks(chunks: list[Any], chunk_spec: Any) -> Any:
    """The results of microbatches as one: tensors one after another along their first dimension, unless told."""
    specs, tree = tree_flatten(chunk_spec if chunk_spec is not None else chunks[0])
    if chunk_spec is None:
        specs = [TensorChunkSpec(DEFAULT_CHUNK_DIM)] * len(specs)
    flat = []
    for chunk in chunks:
        leaves = tree_flatten(chunk)[0]
        if len(leaves) != len(specs):
            raise ValueError(f"Chunk {chunk} did not match chunk spec {chunk_spec}")
        flat.append(leaves)
    return tree_unflatten([_merged(list(parts), spec) for parts, spec in zip(zip(*flat, strict=True), specs,
                                                                            strict=True)], tree)


def _merged(parts: list[Any], spec: Any) -> Any:
    if isinstance(spec, TensorChunkSpec):
        return torch.cat(parts, dim=spec.split_dim)
    if isinstance(spec, _CustomReducer):
        value = spec.init_value
        for part in parts:
            value = spec.reduce_fn(value, part)
        return value
    for part in parts[1:]:
        if not part == parts[0]:
            raise AssertionError(f"Expected {parts[0]}, got {part}")
    return parts[0]
