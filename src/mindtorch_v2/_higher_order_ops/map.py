"""The control-flow operator `map`."""

from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from ..utils._pytree import tree_flatten, tree_map, tree_unflatten


def map(f: Callable, xs: Any, *args: Any) -> Any:
    """The function's results for each row of `xs`, stacked."""
    leaves, _ = tree_flatten(xs)
    return stacked([f(tree_map(lambda leaf: leaf[row], xs), *args) for row in range(leaves[0].shape[0])], 0)  # noqa: B023


def stacked(results: list, dim: int) -> Any:
    """Results of one structure as one, with a new dimension."""
    structure = tree_flatten(results[0])[1]
    return tree_unflatten([torch.stack(parts, dim) for parts in zip(*(tree_flatten(r)[0] for r in results))], structure)
