"""Tables looked up by index, by compiled kernels."""

import math
from typing import Any

import numpy as np

from ...._core.dtype import REDUCED
from ...._kernels.library import embedding as kernels
from ...._ops._declare.rules import Spec
from ...._ops.embedding import MAX, MEAN, stops_at_last_offset
from ..jit.calls import hurry, launched
from ..jit.repeats import empty, flag, repeats, store, zeros
from .index import is_inside

hurry(kernels.fold_bags, kernels.shorten_rows)


@repeats
def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Any,
    include_last_offset: bool,
    padding_idx: int,
    spec: tuple[Spec, ...],
) -> Any:
    """What `_bag_array` gives, where there are bags, and nothing is wrong with them."""
    count = indices.size
    if indices.ndim != 1 or 0 in spec[0].shape or not count or not weight.size:
        return None
    if stops_at_last_offset(mode, spec[0].dtype, padding_idx, include_last_offset):
        return None  # an element says where the last bag ends
    bad, out = flag(), empty(spec[0].shape, weight.dtype)
    told, sizes = empty(spec[1].shape, spec[1].dtype.np), zeros(spec[2].shape, spec[2].dtype.np)
    more = (empty if mode == MAX else zeros)(spec[3].shape, spec[3].dtype.np)
    done = launched(
        kernels.fold_bags,
        out,
        told,
        sizes,
        more if mode == MAX else out,
        bad,
        weight,
        indices,
        offsets,
        out.reshape(-1) if per_sample_weights is None else per_sample_weights,
        padding_idx,
        count,
        mode="max" if mode == MAX else "mean" if mode == MEAN else "sum",
        tells=bool(told.size),
        weighed=per_sample_weights is not None,
    )
    if not done or bad[0]:
        return None
    if mode == MEAN:
        store(more, sizes)
    return out, told, sizes, more


def embedding_renorm_(self: Any, indices: Any, max_norm: float, norm_type: float) -> bool | None:
    if norm_type not in (1, 2, math.inf) or self.ndim != 2 or self.dtype.kind != "f" or self.dtype in REDUCED:
        return None
    if not indices.flags.c_contiguous or not is_inside(indices, 0, len(self)):
        return None
    return (
        launched(
            kernels.shorten_rows,
            self,
            np.zeros(len(self), np.uint8),
            indices,
            indices.size,
            max_norm,
            norm=float(norm_type),
        )
        or None
    )
