"""Comparisons of what fake and real tensors share."""

from collections.abc import Iterable
from typing import Any

from .._core.tensor import Tensor
from ..utils._pytree import tree_leaves


def _storages(values: Any) -> Iterable[int]:
    return (id(t._shared_storage()) for t in tree_leaves(values) if isinstance(t, Tensor))


def outputs_alias_inputs(outputs: Any, inputs: Any) -> bool:
    """Whether an output is on the storage of an input."""
    return not set(_storages(inputs)).isdisjoint(_storages(outputs))


def outputs_are_inputs(outputs: Any, inputs: Any) -> bool:
    """Whether an output is an input itself."""
    given = {id(t) for t in tree_leaves(inputs) if isinstance(t, Tensor)}
    return any(id(t) in given for t in tree_leaves(outputs) if isinstance(t, Tensor))


def output_alias_each_other(outputs: Any) -> bool:
    """Whether two outputs share a storage."""
    found = list(_storages(outputs))
    return len(set(found)) < len(found)
