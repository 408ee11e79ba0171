"""Pooled elements put back to where they were the largest."""

import math
from typing import Any

from .._core.determinism import alert_not_deterministic
from .._core.dtype import int64
from .._core.tensor import Tensor
from ._declare.batch import planewise
from ._declare.families import moves
from ._declare.op import op
from ._declare.rules import Spec, shape_text
from ._declare.samples import case, cases, error, t, values
from .copy import suggested_strides
from .pool import Sizes, check_floating, flat_index, in_strides, taken_at

_SIDES = {2: ("two", "(height, width)"), 3: ("three", "(depth, height, width)")}


def _unpooled_spec(self: Tensor, rank: int, indices: Tensor, output_size: Sizes, stride: Sizes, padding: Sizes) -> Spec:
    shape, name = self._array.shape, f"max_unpooling{rank}d"
    number, sides = _SIDES[rank]
    alert_not_deterministic(f"{name}_forward_out")
    if indices.dtype is not int64:
        got = f" but got: {indices.dtype.scalar_name}" if rank == 2 else ""
        raise RuntimeError(f"elements in indices should be type int64{got}")
    if rank == 3 and len(shape) not in (4, 5):
        raise RuntimeError(f"Input to {name} should be a 4d or 5d Tensor, but got a tensor with {len(shape)} "
                           "dimensions.")
    for setting, value, colon in (("output_size", output_size, ""), ("stride", stride, ":"), ("padding", padding, ":")):
        if len(value) != rank:
            raise RuntimeError(f"There should be exactly {number} elements {sides} in {setting}, but got{colon} "
                               f"{len(value)} elements.")
    if min(stride) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {shape_text(stride)}")
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(f"Input to {name} should be a {rank + 1}d or {rank + 2}d Tensor, but got a tensor with "
                           f"{len(shape)} dimensions.")
    if indices._array.shape != shape:
        raise RuntimeError(f"Expected shape of indices to be same as that of the input tensor ({shape_text(shape)}) "
                           f"but got indices tensor with shape: {shape_text(indices._array.shape)}")
    for d in range(1, len(shape)):
        if not shape[d]:
            raise RuntimeError(f"{name}_forward_out_cpu(): Expected input to have non-zero size for non-batch "
                               f"dimensions, but got {shape_text(shape)} with dimension {d} being empty.")
    check_floating(f"max_unpool{rank}d", self.dtype)
    made = (*shape[:-rank], *output_size)
    return Spec(made, self.dtype, suggested_strides(self, made) if rank == 2 else None)


def _unpooled(xp: Any, self: Any, rank: int, indices: Any, output_size: Sizes, spec: Spec) -> Any:
    size = math.prod(output_size)
    outside = indices[(indices < 0) | (indices >= size)]
    if outside.size:
        raise RuntimeError(f"Found an invalid max index: {outside[-1]} (output volumes are of size "
                           f"{'x'.join(map(str, output_size))})")
    made = xp.zeros(spec.shape, self.dtype)
    made.reshape(-1)[flat_index(xp, indices, rank, size)] = self.reshape(-1)
    return in_strides(made, spec)


def _unpooled_by_parts(self: Any, indices: Any, output_size: Sizes, *settings: Sizes) -> Any:
    rank = len(output_size)
    batch = self.shape[:-rank]
    made = self.new_zeros((math.prod(batch), math.prod(output_size)))
    rows = (x.reshape(made.shape[0], math.prod(x.shape[-rank:])) for x in (indices, self))
    return made.scatter(1, *rows).reshape(*batch, *output_size)


_PLACES: dict[int, list] = {2: [[[[0, 3], [10, 15]]]], 3: [[[[[0, 3], [10, 15]], [[20, 27], [40, 63]]]]]}


def _samples(rank: int, *more: Sizes) -> Any:
    shape, size = (1, 1, *(2,) * rank), (4,) * rank
    return cases(case(t(*shape), values(_PLACES[rank]), size, *more),
                 case(t(*shape[1:]), values(_PLACES[rank][0]), size, *more),
                 error(RuntimeError, "Expected shape of indices to be same as that of the input tensor", t(*shape),
                       values(_PLACES[rank][0]), size, *more))


op("max_unpool2d(Tensor self, Tensor indices, int[2] output_size) -> Tensor", public="_nn",
   kernel=moves(lambda self, indices, output_size: _unpooled_spec(self, 2, indices, output_size, (1, 1), (0, 0)),
                lambda xp, self, indices, output_size, spec: _unpooled(xp, self, 2, indices, output_size, spec)),
   npu="aclnnMaxUnpool2d(self, indices, output_size, out)",
   grad=dict(self=lambda grad, indices: taken_at(grad, indices, 2)), samples=_samples(2), batch=planewise(4),
   kernels={"cpu": "pool.max_unpool2d"},
   autocast=dict(cpu="float32"))

op("max_unpool3d(Tensor self, Tensor indices, int[3] output_size, int[3] stride, int[3] padding) -> Tensor",
   public="_nn",
   kernel=moves(lambda self, indices, output_size, stride, padding:
                _unpooled_spec(self, 3, indices, output_size, stride, padding),
                lambda xp, self, indices, output_size, stride, padding, spec:
                _unpooled(xp, self, 3, indices, output_size, spec)),
   decomposition=_unpooled_by_parts, kernels={"cpu": "pool.max_unpool3d"},
   grad=dict(self=lambda grad, indices: taken_at(grad, indices, 3)), samples=_samples(3, (2, 2, 2), (0, 0, 0)),
   batch=planewise(5), autocast=dict(cpu="float32"))
