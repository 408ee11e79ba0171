"""Functions that masked tensors answer above autograd: `FUNCTIONS` by name."""

from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from .core import _get_data, _maybe_get_mask, _quietly
from .reductions import REDUCE_NAMES, reduction


class _Where(torch.autograd.Function):
    """Elements of one tensor or another; gradients are masked by which one was taken."""

    @staticmethod
    def forward(ctx: Any, condition: Any, one: Any, other: Any) -> Any:
        ctx.mark_non_differentiable(condition)
        ctx.condition = condition
        masks = [m if m is not None else torch.ones_like(condition) for m in map(_maybe_get_mask, (one, other))]
        mask = torch.where(condition, *masks)
        return _quietly(torch.where(condition, _get_data(one), _get_data(other)), mask)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        data, condition = _get_data(grad), ctx.condition
        return None, _quietly(data, condition), _quietly(data, ~condition)


class _Converted(torch.autograd.Function):
    """Data and mask in another layout or order of memory; the gradient goes back in that of the input."""

    @staticmethod
    def forward(ctx: Any, masked: Any, convert: Callable) -> Any:
        data, mask = masked._masked_data.detach(), masked.get_mask()
        ctx.mask = mask
        return _quietly(convert(data, mask), convert(mask, mask))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        data = _get_data(grad)
        dense = data if data.layout is torch.strided else data.to_dense()
        return _quietly(dense if ctx.mask.layout is torch.strided else dense.sparse_mask(ctx.mask), ctx.mask), None


def _where(condition: Any, one: Any, other: Any) -> Any:
    return _Where.apply(condition, one, other)


def _contiguous(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self if self.is_contiguous() else _Converted.apply(self, lambda x, mask: x.contiguous())


def _to_dense(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self if self.layout is torch.strided else _Converted.apply(self, lambda x, mask: x.to_dense())


def _to_sparse(self: Any, *args: Any, **kwargs: Any) -> Any:
    if self.is_sparse_coo():
        return self
    return _Converted.apply(self, lambda x, mask: x.sparse_mask(mask.to_sparse_coo().coalesce()))


def _to_sparse_csr(self: Any, *args: Any, **kwargs: Any) -> Any:
    if self.is_sparse_csr():
        return self
    return _Converted.apply(self, lambda x, mask: x.sparse_mask(mask.to_sparse_csr()))


FUNCTIONS: dict[str, Callable] = {
    **{name: reduction(name) for name in REDUCE_NAMES},
    "where": _where, "contiguous": _contiguous, "to_dense": _to_dense,
    "to_sparse": _to_sparse, "to_sparse_csr": _to_sparse_csr,
}
