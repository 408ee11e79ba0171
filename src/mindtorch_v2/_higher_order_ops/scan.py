"""The control-flow operator `scan`."""

from collections.abc import Callable
from typing import Any

from ..utils._pytree import tree_flatten, tree_map
from .map import stacked


def scan(combine_fn: Callable, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> tuple[Any, Any]:
    """The last carried value and all outputs, where the function makes both out of the carried value and a slice."""
    length = tree_flatten(xs)[0][0].shape[dim]
    carry, outputs = init, []
    for row in reversed(range(length)) if reverse else range(length):
        carry, output = combine_fn(carry, tree_map(lambda leaf: leaf.select(dim, row), xs))  # noqa: B023 - used at once
        outputs.append(output)
    return carry, stacked(outputs[::-1] if reverse else outputs, 0)
