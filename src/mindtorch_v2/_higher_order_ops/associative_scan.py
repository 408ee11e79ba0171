"""The control-flow operator `associative_scan`."""

from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from ..utils._pytree import tree_flatten, tree_unflatten


def associative_scan(combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False,
                     combine_mode: str = "pointwise") -> Any:
    """All prefixes along a dimension, combined: doubling distances, so a length n takes log2(n) calls."""
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, structure = tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    rows = [leaf.movedim(dim, 0) for leaf in leaves]
    rows = [row.flip(0) for row in rows] if reverse else rows
    combine = combine_fn if combine_mode == "pointwise" else torch.vmap(combine_fn)
    distance, length = 1, rows[0].shape[0]
    while distance < length:
        earlier = tree_unflatten([row[:-distance] for row in rows], structure)
        later = tree_unflatten([row[distance:] for row in rows], structure)
        combined = tree_flatten(combine(earlier, later))[0]
        rows = [torch.cat([row[:distance], new]) for row, new in zip(rows, combined, strict=True)]
        distance *= 2
    rows = [row.flip(0) for row in rows] if reverse else rows
    return tree_unflatten([row.movedim(0, dim) for row in rows], structure)
