"""Reductions on a GPU: a call finds its launches by the layout of its tensor and what is to be folded."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._dispatch.registry import Operator
from ...._dtype import REDUCED
from ...._ops.reduce import folded_count, reduced_dims
from ...._tensor import Tensor
from ..array import CudaArray, Layout, empty, layout_of
from ..families import Maker, copy_array, generic_kernel, infer_of, wrap_cuda
from ..launch import C_TYPES
from ..reduce import Folding

_FLOAT32, _LIMIT = np.dtype(np.float32), 4096
# operator -> how it folds, and whether it divides by the count
_FOLDED = {"sum": ("sum", False), "mean": ("sum", True), "amax": ("max", False), "amin": ("min", False),
           "max": ("max", False), "min": ("min", False), "prod": ("prod", False), "any": ("any", False),
           "all": ("all", False)}


def grouped(layout: Layout, dims: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(outer, length, inner) of a contiguous layout whose folded dimensions lie together; None if they do not."""
    if not layout.contiguous:
        return None
    kept = [d for d, n in enumerate(layout.shape) if n != 1]
    folded = [d for d in kept if d in dims]
    if not folded:
        return None
    first, last = folded[0], folded[-1]
    if [d for d in kept if first <= d <= last] != folded:
        return None
    shape = layout.shape
    return math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])


def _folding(name: str, args: tuple, layout: Layout, spec: Any) -> Folding | None:
    """The launches of a call, on an array of that layout; None where CuPy does it."""
    how, divides = _FOLDED[name]
    dim = args[1] if len(args) > 1 else None
    dims = reduced_dims((dim,) if dim.__class__ is int else dim, len(layout.shape))
    groups = None if dim == () and name in ("any", "all") else grouped(layout, dims)
    made = spec.dtype.np
    wide = _FLOAT32 if made in REDUCED else np.dtype(np.uint8) if made.kind == "b" else made
    if groups is None or layout.dtype.name not in C_TYPES or made.name not in C_TYPES or not layout.size:
        return None
    if how == "sum" and made.kind == "b" or groups[0] > 65535 and groups[2] > 1:
        return None
    if layout.dtype != made and made in REDUCED and layout.dtype not in REDUCED and layout.dtype != _FLOAT32:
        return None  # an explicit type that elements are rounded to first
    count = folded_count(layout.shape, dim) if divides else None
    return Folding(how, layout.dtype, wide, layout_of(tuple(spec.shape), made), *groups, count)


@Maker
def folded(operator: Operator) -> Callable:
    """The kernel of a reduction that `_FOLDED` names."""
    name, infer, slow = operator.schema.base_name, infer_of(operator), generic_kernel(operator)
    plans: dict[tuple, Folding] = {}

    def kernel(self: Tensor, *options: Any) -> Tensor:
        array = self._array
        try:
            folding = plans[array.layout, options]
        except (KeyError, AttributeError):
            return general(self, *options)
        return wrap_cuda(folding(array))

    def general(self: Tensor, *options: Any) -> Tensor:
        spec, array = infer(self, *options), self._array
        if array.__class__ is not CudaArray or not array.size or self.dtype.is_complex:
            return slow(self, *options)
        layout = array.layout
        if not layout.contiguous:
            layout = layout_of(array.shape, array.dtype)
        folding = _folding(name, (self, *options), layout, spec)
        if folding is None:
            return slow(self, *options)
        if layout is array.layout:
            if len(plans) > _LIMIT:
                plans.clear()
            plans[layout, options] = folding
            return wrap_cuda(folding(array))
        dense = empty(layout, array.device)
        copy_array(dense, array)
        return wrap_cuda(folding(dense))

    return kernel
