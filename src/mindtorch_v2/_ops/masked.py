"""Writing elements where a mask says so: masked_fill, masked_scatter."""

import math
from typing import Any

import numpy as np

from .._autograd.names import when_tensor
from .._core.dtype import bool_
from .._core.elements import at_hand
from .._core.tensor import Tensor
from ._declare.batch import Call, Result, aligned, broadcast, called
from ._declare.families import moves
from ._declare.op import function_of, op
from ._declare.rules import Spec, broadcast_shape
from ._declare.samples import bools, case, cases, error, ints, t, values
from ._declare.updates import LITTLE, Updates
from .scatter import cast_value, check_masked_fill


def _masked_shape(self: Tensor, mask: Tensor, value: Any) -> tuple[int, ...]:
    shape = self._array.shape
    return shape if mask._array.shape == shape else broadcast_shape([mask._array.shape, shape])


def _masked_fill(xp: Any, self: Any, mask: Any, value: Any) -> None:
    value = cast_value(value, self.dtype)
    if self.size > LITTLE and self.shape == mask.shape and 0 not in self.strides:
        xp.copyto(self, xp.where(mask, value, self))
    else:
        xp.copyto(self, value, where=mask)


def _masked_fill_each(call: Call) -> Result:
    if not call.batched[2]:
        return broadcast(call)
    ndim = max(call.ndim(0), call.ndim(1))
    target, mask, number = (aligned(v, b, ndim) for v, b in zip(call.values, call.batched, strict=True))
    return call.written(called("where.self", mask, number.to(target.dtype), target))


def _masked_fill_by_parts(self, mask, value):
    filled = value.to(self.dtype) if isinstance(value, Tensor) else self.new_full((), value)
    return filled.where(mask, self)


op("masked_fill(Tensor self, Tensor mask, Tensor|Scalar value) -> Tensor",
   node={"MaskedFillBackward1": when_tensor("value")},
   kernel=Updates(check_masked_fill, _masked_fill, shape=_masked_shape, preserves=False,
                  expanded="tensor[mask] = scalar"),
   kernels={"cuda": "index.masked_fill", "npu": "index.prepare_masked_fill"},
   npu=("aclnnInplaceMaskedFillScalar(self, mask, value)", "aclnnInplaceMaskedFillTensor(self, mask, value)"),
   grad=dict(self=lambda grad, mask: grad.masked_fill(mask, 0), value=lambda grad,
             mask: grad.masked_fill(~mask, 0).sum()),
   samples=cases(case(t(2, 3), bools(2, 3), 1.5), case(t(2, 3), bools(3), t()), case(t(3), bools(2, 1), 1),
                 case(t(), bools(), 2),
                 error(RuntimeError, "masked_fill_ only supports boolean masks, but got mask with dtype long int", t(2),
                       ints(2), 1),
                 error(RuntimeError, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with 1 "
                                     "dimension(s).", t(2),
                       bools(2), t(1))), batch=_masked_fill_each, out=None, decomposition=_masked_fill_by_parts,
   sharded="pointwise")


def _check_masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> None:
    if mask.dtype is not bool_:
        raise RuntimeError("masked_scatter_ only supports boolean masks, but got mask with dtype "
                           f"{mask.dtype.scalar_name}")
    if self.dtype is not source.dtype:
        raise RuntimeError("masked_scatter: expected self and source to have same dtypes but "
                           f"got{self.dtype.scalar_name} and {source.dtype.scalar_name}")


def _masked_scatter(xp: Any, self: Any, mask: Any, source: Any) -> None:
    mask = xp.broadcast_to(mask, self.shape)
    count = int(xp.count_nonzero(mask))
    if count > source.size:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    if at_hand(self) and np.may_share_memory(self, source):
        for number, place in enumerate(np.flatnonzero(mask)):  # one reads what those before it wrote, as in PyTorch
            self.flat[place] = source.flat[number]
    else:
        self[mask] = source.reshape(-1)[:count]


def _taken_grad(xp: Any, grad_output: Any, mask: Any, sizes: tuple[int, ...]) -> Any:
    made = xp.zeros(math.prod(sizes), grad_output.dtype)
    taken = grad_output[xp.broadcast_to(mask, grad_output.shape)]
    made[: taken.size] = taken
    return made.reshape(sizes)


_masked_scatter_backward = function_of(op(
   "masked_scatter_backward(Tensor grad_output, Tensor mask, int[] sizes) -> Tensor", public="",
   kernel=moves(lambda grad_output, mask, sizes: Spec(sizes, grad_output.dtype), _taken_grad),
   grad=dict(grad_output=lambda grad, grad_output_shape, mask:
             grad.new_zeros(grad_output_shape).masked_scatter(mask, grad)),
   samples=cases(case(t(2, 3), bools(2, 3), (7,))), kernels={"npu": "index.masked_scatter_backward"}))


op("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
   kernel=Updates(_check_masked_scatter, _masked_scatter, shape=_masked_shape, preserves=False, memory_first=True),
   apart="", kernels={"cuda": "nonzero.masked_scatter"},
   npu="aclnnInplaceMaskedScatter(self, mask, source)",
   grad=dict(self=lambda grad, mask: grad.masked_fill(mask, 0),
             source=lambda grad, mask, source_shape: _masked_scatter_backward(grad, mask, source_shape)),
   samples=cases(case(t(2, 3), bools(2, 3), t(2, 3)), case(t(2, 3), bools(3), t(7)), case(t(3), bools(2, 1), t(6)),
                 error(RuntimeError, "Number of elements of source < number of ones in mask", t(2),
                       values([True, True]), t(1))), out=None)
