"""Sparse tensors whose parts are on a device: made of dense ones and made dense again, by operators on the parts."""

from typing import Any

from ..._core.device import layout, sparse_coo, sparse_csr
from ..._core.dtype import int64
from ..._core.sparse import BLOCKED, SparseArray, coo, wrap_sparse
from ..._core.tensor import Tensor
from ..._dispatch.registry import registry
from .._declare.composites import unrecorded
from .._declare.op import function_of

arange, cat, zeros = (function_of(registry.get(name)) for name in ("arange.start_step", "cat", "zeros"))


@unrecorded
def from_dense(self: Any, kind: layout, dims: int, batch: int) -> Tensor:
    """The elements of a tensor that are not 0; the first `dims` dimensions become sparse."""
    filled = self != 0
    if dims < self.dim():
        filled = filled.flatten(dims).any(-1)
    places = filled.reshape(1).nonzero().t()[:0] if not dims else filled.nonzero().t().contiguous()
    values = self.reshape(1)[filled.reshape(1)] if not dims else self[tuple(places.unbind(0))]
    if kind is sparse_coo:
        return coo(places, values, self._array.shape, True)
    if batch or kind in BLOCKED:
        raise NotImplementedError(f"batches and blocks of layout {kind} are made on the CPU only, not on {self.device}")
    line, plain = (0, 1) if kind is sparse_csr else (1, 0)
    order = places[line].argsort(stable=True)
    places, values = places[:, order], values[order]
    counts = places[line].bincount(minlength=self.shape[line])
    starts = cat([zeros((1,), dtype=int64, device=self.device), counts.cumsum(0)])
    return wrap_sparse(SparseArray(kind, (starts, places[plain].contiguous()), values, self._array.shape))


@unrecorded
def dense_of(array: SparseArray) -> Tensor:
    """A tensor with all elements of a sparse array."""
    values: Any = array.values
    made: Any = zeros(array.shape, dtype=values.dtype, device=values.device)
    if array.layout is sparse_coo:
        if not array.sparse_dim:
            return made + values.sum(0)
        return made.index_put_(tuple(array.parts[0].unbind(0)), values, accumulate=not array.coalesced)
    if array.layout in BLOCKED:
        raise NotImplementedError(f"a tensor of layout {array.layout} is made dense on the CPU only")
    starts, plain = (part.to(int64) for part in array.parts)
    lines = arange(0, starts.shape[-1] - 1, device=values.device).repeat_interleave(starts.diff())
    pair = (lines, plain) if array.layout is sparse_csr else (plain, lines)
    return made.index_put_(pair, values)
