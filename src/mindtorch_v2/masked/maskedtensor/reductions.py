"""Reductions of masked tensors: over the elements that are there. A result that none went into is masked out."""

from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from .. import _ops as masked
from .core import _Made, _quietly

REDUCE_NAMES = "sum mean amin amax argmin argmax prod all norm var std".split()
_WITHOUT_GRADIENT = frozenset(("argmin", "argmax", "all"))


def _all(data: Any, dim: Any = None, keepdim: bool = False, mask: Any = None) -> Any:
    filled = data.masked_fill(~mask, True)
    return filled.all() if dim is None else filled.all(dim, keepdim)


def reduction(name: str) -> Callable:
    """The reduction of masked tensors that is `torch.<name>` of others."""
    function = _all if name == "all" else getattr(masked, name)

    def reduced(self: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        data, mask = self.get_data(), self.get_mask()
        options = {} if name == "all" or dtype is None else {"dtype": dtype}
        if data.layout is not torch.strided:
            data, mask = data.to_dense(), mask.to_dense()
        options |= {} if dim is None else {"dim": dim, "keepdim": keepdim}
        made, left = function(data, mask=mask, **options), _left(mask, dim, keepdim)
        return _quietly(made.detach(), left) if name in _WITHOUT_GRADIENT else _Made.apply(made, left, True)

    if name != "norm":
        return reduced

    def norm(self: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        if p not in ("fro", 2, None):
            raise NotImplementedError(f"norm(p={p}) of a MaskedTensor: use torch.masked.norm(data, {p}, mask=mask)")
        return reduced(self, dim, keepdim, dtype)

    return norm


def _left(mask: Any, dim: Any, keepdim: bool) -> Any:
    """Which results some element went into."""
    return mask.any() if dim is None else masked._any_over(mask, masked._canonical_dim(dim, mask.ndim), keepdim)
