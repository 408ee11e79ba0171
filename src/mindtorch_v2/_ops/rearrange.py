"""Rearranged and masked copies: flips, rolls, triangles and diagonals."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.device import channels_last, channels_last_3d, contiguous_format
from .._core.dtype import INT, dtype, int64
from .._core.geometry import proper_dim, wrapped_dim
from .._core.tensor import Tensor
from ._declare.aten import LEAF
from ._declare.batch import Call, Result, in_front, shifted
from ._declare.families import moves
from ._declare.layouts import NO_CONTIGUOUS
from ._declare.op import composite, op
from ._declare.out import Out
from ._declare.rules import Spec, shape_text
from ._declare.samples import bools, case, cases, error, ints, t
from .copy import preserved_strides, store, suggested_strides, uninitialised
from .create import FACTORY, Factory, checked_size
from .reduce import contiguous, joined, reduced_dims

# flips ---------------------------------------------------------------------------------------------------------------


def _flip_spec(self: Tensor, dims: Sequence[int]) -> Spec:
    reduced_dims(dims, self._array.ndim)
    return Spec(self._array.shape, self.dtype, preserved_strides(self, None))


def _flip(xp: Any, self: Any, dims: Sequence[int], spec: Spec) -> Any:
    flipped = xp.flip(self, dims) if self.ndim else self
    if spec.strides is None:
        return flipped.copy()
    made = uninitialised(spec, xp)
    store(xp, made, flipped)
    return made


def _flip_at(g: Any, self: Any, dims: Sequence[int]) -> Any:
    turned = {d % self.ndim for d in dims} if self.ndim else ()
    return self[tuple([n - 1 - i if d in turned else i for d, (i, n) in enumerate(zip(g.at, self.shape, strict=True))])]


op("flip(Tensor self, int[] dims) -> Tensor", kernel=moves(_flip_spec, _flip), gathers=_flip_at,
   kernels={"cpu": "rearrange.flip", "npu": "index.flip"},
   npu="aclnnFlip(self, dims, out)",
   grad=dict(self=lambda grad, dims: grad.flip(dims)),
   samples=cases(case(t(2, 3), (0,)), case(t(2, 3), (0, -1)), case(t(2, 3), ()), case(t(), (0,)), case(t(0, 3), (1,)),
                 case(t(3, 2, layout="transposed"), (0,)), case(bools(2, 3), (1,)),
                 error(RuntimeError, "dim 0 appears multiple times in the list of dims", t(2, 3), (0, 0)),
                 error(IndexError, "Dimension out of range", t(2, 3), (2,))), linear=True, out=None,
   sharded="unchanged dims")


@composite("fliplr(Tensor self) -> Tensor",
           samples=cases(case(t(2, 3)), error(RuntimeError, "Input must be >= 2-d.", t(2))), out=None)
def _fliplr(self):
    if self.dim() < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return self.flip((1,))


@composite("flipud(Tensor self) -> Tensor",
           samples=cases(case(t(2, 3)), error(RuntimeError, "Input must be >= 1-d.", t())), out=None)
def _flipud(self):
    if self.dim() < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return self.flip((0,))


def _roll_spec(self: Tensor, shifts: Sequence[int], dims: Sequence[int] | None) -> Spec:
    dims = dims or ()
    if not shifts:
        raise RuntimeError("`shifts` required")
    if any(shift < -(2**62) for shift in shifts):  # the bits of which PyTorch reads as a symbol
        raise RuntimeError("shifts expected to contain only concrete integers")
    if len(shifts) != len(dims) and (dims or len(shifts) != 1):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    shape = self._array.shape
    if not self._array.size:
        return Spec(shape, self.dtype, preserved_strides(self, None) if dims else None)
    lengths = [shape[proper_dim(d, len(shape))] for d in dims]
    # It is a join of two parts, and channels last as that is; one of all and nothing is not.
    joins = dims and not self.is_contiguous() and all(shift % n for shift, n in zip(shifts, lengths, strict=True))
    return Spec(shape, self.dtype, suggested_strides(self, shape) if joins else None)


def _rolled_parts(n: int, shift: int) -> list[tuple[slice, slice]]:
    """Where the parts of a dimension go, and where they are."""
    start = shift % n if n else 0
    if not start:
        return [(slice(None), slice(None))]
    return [(slice(start, None), slice(n - start)), (slice(start), slice(n - start, None))]


def _shifts_of_all(ndim: int, shifts: Sequence[int], dims: Sequence[int]) -> list[int]:
    """By how much each dimension is rolled."""
    by = [0] * ndim
    for shift, dim in zip(shifts, dims, strict=True):
        by[dim] += shift
    return by


def _roll(xp: Any, self: Any, shifts: Sequence[int], dims: Sequence[int] | None, spec: Spec) -> Any:
    if not dims and self.size and self.ndim:
        return contiguous(xp.roll(self, shifts[0]))
    by = _shifts_of_all(self.ndim, shifts, dims) if dims and self.size else [0] * self.ndim
    made = uninitialised(spec, xp)
    for parts in itertools.product(*map(_rolled_parts, self.shape, by)):
        store(xp, made[(*[to for to, _ in parts], ...)], self[(*[at for _, at in parts], ...)])
    return made


def _roll_at(g: Any, self: Any, shifts: Sequence[int], dims: Sequence[int] | None) -> Any:
    if not dims and self.ndim > 1:
        raise NotImplementedError("rolled through the end of rows")
    by = _shifts_of_all(self.ndim, shifts, dims or (0,)) if self.ndim else []

    def element(d: int, *places: Any) -> Any:
        if d == self.ndim:
            return self[places]
        place, n = g.at[d], self.shape[d]
        shift = by[d] % n
        if not shift:
            return element(d + 1, *places, place)
        return g.chosen(place < shift, lambda: element(d + 1, *places, place + (n - shift)),
                        lambda: element(d + 1, *places, place - shift))

    return element(0)


op("roll(Tensor self, int[1] shifts, int[1]? dims=None) -> Tensor", kernel=moves(_roll_spec, _roll), gathers=_roll_at,
   kernels={"cpu": "rearrange.roll"},
   npu="aclnnRoll(self, shifts, dims|[], out)",
   grad=dict(self=lambda grad, shifts, dims: grad.roll(tuple([-s for s in shifts]), dims)),
   samples=cases(case(t(2, 3), 1), case(t(2, 3), (1, -2), (0, 1)), case(t(2, 3), 5, 1), case(t(), 1),
                 case(t(2, 3), 1, None),
                 case(t(0, 3), 1, 0),
                 error(RuntimeError, "shifts and dimensions must align. shifts: 2, dims:0", t(2, 3),
                       (1, 1))), linear=True, out=None, sharded="unchanged dims")


@composite("rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor", node="Rot90Backward0",
           samples=cases(*[case(t(2, 3), k) for k in (-1, 0, 1, 2, 3, 4)], case(t(2, 3, 4), 1, (1, -1)),
                         error(RuntimeError, "expected total rotation dims == 2, but got dims = 1", t(2, 3), 1, (0,)),
                         error(RuntimeError, "expected total dims >= 2, but got total dims = 1", t(3))), out=None,
           aten=LEAF)
def _rot90(self, k, dims):
    ndim = self.dim()
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {ndim}")
    first, second = wrapped_dim(dims[0], ndim), wrapped_dim(dims[1], ndim)
    if first == second:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    if k % 4 == 1:
        return self.flip((second,)).transpose(first, second)
    if k % 4 == 2:
        return self.flip((first, second))
    if k % 4 == 3:
        return self.flip((first,)).transpose(first, second)
    return self.clone(memory_format=contiguous_format)


# triangles -----------------------------------------------------------------------------------------------------------


def _triangle_spec(name: str) -> Callable:
    def infer(self: Tensor, diagonal: int) -> Spec:
        if self._array.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return Spec(self._array.shape, self.dtype)

    return infer


def _triangle(keep_lower: bool) -> Callable:
    def array(xp: Any, self: Any, diagonal: int) -> Any:
        rows, columns = self.shape[-2:]
        diagonal = min(max(diagonal, -rows), columns)  # beyond, nothing changes but that numbers may overflow
        lower = xp.tri(rows, columns, diagonal if keep_lower else diagonal - 1, bool)
        made = xp.zeros(self.shape, self.dtype)
        xp.copyto(made, self, where=lower if keep_lower else ~lower)
        return made

    return array


def _triangle_at(keep_lower: bool) -> Callable:
    def gathers(g: Any, self: Any, diagonal: int) -> Any:
        sides = (lambda: self[tuple(g.at)]), (lambda: self.number(0))
        return g.chosen(g.at[-1] < g.at[-2] + diagonal + keep_lower, *(sides if keep_lower else sides[::-1]))

    return gathers


for _name in ("tril", "triu"):
    op(f"{_name}(Tensor self, int diagonal=0) -> Tensor", gathers=_triangle_at(_name == "tril"),
       kernel=moves(_triangle_spec(_name), _triangle(_name == "tril")), inplace=True,
       npu=f"aclnn{_name.title()}(self, diagonal, out)", kernels={"cpu": f"fill.{_name}"}, sharded="same_lengths",
       grad=dict(self=(lambda grad, diagonal: grad.tril(diagonal)) if _name == "tril" else
                 (lambda grad, diagonal: grad.triu(diagonal))),
       samples=cases(case(t(3, 3)), case(t(2, 4), 1), case(t(2, 4, 3), -1), case(t(4, 3, layout="transposed")),
                     case(bools(3, 3)), case(t(0, 3)),
                     error(RuntimeError, f"{_name}: input tensor must have at least 2 dimensions", t(3))), linear=True,
       batch=in_front)


def _in_triangle(row: int, col: int, offset: int, lower: bool) -> int:
    """How many places a triangle has."""
    below = 0
    if row and col:
        first, last = max(-offset, 0), row  # rows before `first` have nothing on or below the diagonal
        full = min(max(col - 1 - offset, first), last)  # from this row on, rows are full
        below = sum((first + offset + 1,
                     full + offset)) * (full - first) // 2 + (last - full) * col if first < last else 0
    return below if lower else row * col - below


def _places_spec(name: str, lower: bool) -> Callable:
    def infer(row: int, col: int, offset: int, dtype: dtype | None, *rest: Any) -> Spec:
        for word, n in (("row", row), ("col", col)):
            if n < 0:
                raise RuntimeError(f"{word} must be non-negative, got{n}")
        kind = dtype or int64
        if kind.category != INT or kind.itemsize < 4:
            raise NotImplementedError(f"\"{name}\" not implemented for '{kind.scalar_name}'")
        return Spec((2, _in_triangle(row, col, offset if lower else offset - 1, lower)), kind)

    return infer


def _places(lower: bool) -> Callable:
    def array(xp: Any, row: int, col: int, offset: int, *rest: Any, spec: Spec) -> Any:
        left = np.clip(np.arange(row) + (offset + 1 if lower else offset), 0, col)  # how many of each row are
        counts = left if lower else col - left
        made = np.empty(spec.shape, spec.dtype.np)
        made[0] = np.repeat(np.arange(row), counts)
        made[1] = np.arange(spec.shape[1]) - np.repeat(np.cumsum(counts) - counts - (0 if lower else left), counts)
        return xp.asarray(made)

    return array


for _name in ("tril", "triu"):
    op(f"{_name}_indices(int row, int col, int offset=0, {FACTORY}) -> Tensor",
       kernel=Factory(_places_spec(f"{_name}_indices", _name == "tril"), _places(_name == "tril")),
       samples=cases(*[case(2, 3, k) for k in (-3, -2, -1, 0, 1, 2, 3, 4)],
                     *[case(4, 2, k) for k in (-5, -4, -1, 0, 1, 2)], case(0, 3), case(3, 3, dtype=int64),
                     error(RuntimeError, "row must be non-negative, got-1", -1, 2)), out=None,
   kernels={"npu": "factories.triangle_indices"})


# diagonals -----------------------------------------------------------------------------------------------------------


def _diag_embed_spec(self: Tensor, offset: int, dim1: int, dim2: int) -> Spec:
    shape = self._array.shape
    ndim = len(shape) + 1
    first, second = wrapped_dim(dim1, ndim), wrapped_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    side = shape[-1] + abs(offset)
    made = list(shape[:-1])
    for d in sorted((first, second)):
        made.insert(d, side)
    return Spec(checked_size(tuple(made), "diag_embed"), self.dtype)


def _diag_embed(xp: Any, self: Any, offset: int, dim1: int, dim2: int, spec: Spec) -> Any:
    made = xp.zeros(spec.shape, self.dtype)
    length = self.shape[-1]
    rows = xp.arange(length) + max(-offset, 0)
    xp.moveaxis(made, (dim1, dim2), (-2, -1))[..., rows, rows + offset] = self
    return made


def _diag_embed_each(call: Call) -> Result:
    value, offset, *dims = call.values
    return call.run(value, offset, *shifted(dims, call.ndim(0) + 1)), True


op("diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
   kernel=moves(_diag_embed_spec, _diag_embed, rearranges=True),
   grad=dict(self=lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2)),
   samples=cases(case(t(3)), case(t(2, 3)), case(t(2, 3), 1, 0, 2), case(t(2, 3), -2), case(t(2, 0)),
                 error(RuntimeError, "diagonal dimensions cannot be identical 0, 0", t(2, 3), 0, 0, 0)), linear=True,
   batch=_diag_embed_each, out=None, kernels={"cpu": "rearrange.diag_embed", "npu": "index.diag_embed"},
   sharded="whole")


@composite("diag(Tensor self, int diagonal=0) -> Tensor", node={"DiagonalBackward0_copy": "self.dim() == 2"},
           samples=cases(case(t(3)), case(t(3), -1), case(t(2, 3)), case(t(3, 2), 1),
                         error(RuntimeError, "diag(): Supports 1D or 2D tensors. Got 3D", t(2, 2, 2))),
           out=Out(grad="cut", by="diag_embed"))
def _diag(self, diagonal):
    if self.dim() == 1:
        return self.diag_embed(diagonal)
    if self.dim() == 2:
        return self.diagonal(diagonal).clone(memory_format=contiguous_format)
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {self.dim()}D")


@composite("diagflat(Tensor self, int offset=0) -> Tensor",
           samples=cases(case(t(2, 3)), case(t(), 1), case(ints(3), -1)), out=None, refuses_coo=NO_CONTIGUOUS)
def _diagflat(self, offset):
    return self.reshape(-1).diag_embed(offset)


# pixels and channels -------------------------------------------------------------------------------------------------


def _check_factor(self, name, factor_name, factor):
    if self.dim() < 3:
        raise RuntimeError(f"{name} expects input to have at least 3 dimensions, but got input with {self.dim()} "
                           "dimension(s)")
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {factor_name}, but got {factor}")


def _laid_out_as(self, made):
    """`made` in memory of its own, with the channels innermost if those of `self` are."""
    if suggested_strides(self, self.shape) is None:
        return made.clone(memory_format=contiguous_format) if made._is_view() else made
    return made.clone(memory_format=channels_last if self.dim() == 4 else channels_last_3d)


def _refuse_volumes(self):
    if self.dim() == 5 and suggested_strides(self, self.shape) is not None:
        raise RuntimeError("Unsupported memory format. Supports only ChannelsLast, Contiguous")


@composite("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
           node="PixelShuffleBackward0", public="torch nn.functional",
           samples=cases(case(t(1, 8, 2, 3), 2), case(t(9, 1, 2), 3),
                         error(RuntimeError, "pixel_shuffle expects its input's 'channel' dimension to be divisible by "
                                             "the square of upscale_factor, but input.size(-3)=3 is not divisible by 4",
                               t(3, 2, 2), 2)), out=None, aten=LEAF)
def _pixel_shuffle(self, upscale_factor):
    _check_factor(self, "pixel_shuffle", "upscale_factor", upscale_factor)
    _refuse_volumes(self)
    r, (*batch, channels, height, width) = upscale_factor, self.shape
    if channels % (r * r):
        raise RuntimeError("pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
                           f"upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}")
    apart = self.reshape(*batch, channels // (r * r), r, r, height, width)
    together = apart.movedim((-4, -3), (-3, -1))
    return _laid_out_as(self, together.reshape(*batch, channels // (r * r), height * r, width * r))


@composite("pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
           node="PixelUnshuffleBackward0", public="torch nn.functional",
           samples=cases(case(t(1, 2, 4, 6), 2), case(t(1, 3, 6), 3),
                         error(RuntimeError, "pixel_unshuffle expects height to be divisible by downscale_factor, but "
                                             "input.size(-2)=3 is not divisible by 2", t(4, 3, 3), 2)), out=None,
           aten=LEAF)
def _pixel_unshuffle(self, downscale_factor):
    _check_factor(self, "pixel_unshuffle", "downscale_factor", downscale_factor)
    _refuse_volumes(self)
    r, (*batch, channels, height, width) = downscale_factor, self.shape
    for name, dim, size in (("height", -2, height), ("width", -1, width)):
        if size % r:
            raise RuntimeError(f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                               f"input.size({dim})={size} is not divisible by {r}")
    apart = self.reshape(*batch, channels, height // r, r, width // r, r)
    made = apart.movedim((-3, -1), (-4, -3)).reshape(*batch, channels * r * r, height // r, width // r)
    return _laid_out_as(self, made)


@composite("channel_shuffle(Tensor self, int groups) -> Tensor",
           node="ChannelShuffleBackward0", public="torch nn.functional",
           aliases=("native_channel_shuffle",),
           samples=cases(case(t(1, 4, 2, 2), 2), case(t(2, 6, 3), 3),
                         error(RuntimeError, "Number of channels must be divisible by groups. Got 4 channels and 3 "
                                             "groups.", t(1, 4, 4), 3)), out=None, aten=LEAF)
def _channel_shuffle(self, groups):
    if self.dim() < 3:
        raise RuntimeError("channel_shuffle expects input with > 2 dims, but got input with sizes "
                           f"{shape_text(self.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    batch, channels, *rest = self.shape
    if channels % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {channels} channels and {groups} "
                           "groups.")
    made = self.reshape(batch, groups, channels // groups, *rest).transpose(1, 2).reshape(self.shape)
    return _laid_out_as(self, made)


@composite("fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)", public="Tensor",
           samples=cases(case(t(3, 4), 1.5), case(t(7, 3), 2.0), case(t(7, 3), 2.0, True), case(t(2, 2, 2), -1.0),
                         error(RuntimeError, "dimensions must larger than 1", t(3), 1.0),
                         error(RuntimeError, "all dimensions of input must be of equal length", t(2, 3, 2), 1.0)))
def _fill_diagonal(self, fill_value, wrap):
    """This tensor with a number on its diagonal; with `wrap`, a tall matrix has it again after each empty row."""
    shape, strides = self.shape, self.stride()
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and any(n != shape[0] for n in shape):
        raise RuntimeError("all dimensions of input must be of equal length")
    step, begin, length = sum(strides), self.storage_offset(), min(shape)
    self.as_strided((length,), (step,), begin).fill_(fill_value)
    if wrap and len(shape) == 2 and shape[0] > shape[1] + 1:
        for first in range(length + 1, shape[0], length + 1):
            self.as_strided((min(length, shape[0] - first),), (step,), begin + first * strides[0]).fill_(fill_value)
    return self


@composite("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
           samples=cases(*[case(t(3, grad=False), *given) for given in ((), (2, True), (0,), (1,))], case(ints(4), 3),
                         error(RuntimeError, "x must be a one-dimensional tensor.", t(2, 2, grad=False)),
                         error(RuntimeError, "N must be non-negative.", t(2, grad=False), -1)), out=None)
def _vander(x, N, increasing):
    """A matrix whose columns are powers of a vector."""
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    if N is not None and N < 0:
        raise RuntimeError("N must be non-negative.")
    count, kind = x.shape[0] if N is None else N, int64 if x.dtype.category <= INT else x.dtype
    made = x.new_ones((x.shape[0], count), dtype=kind)
    if count > 1:
        powers = x.to(kind).unsqueeze(1).expand(-1, count - 1).cumprod(1)
        made = joined(made.narrow(1, 0, 1), powers, 1)
    return made if increasing else made.flip(1)
