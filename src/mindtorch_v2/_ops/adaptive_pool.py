"""Pooling to a given size: windows as even as can be, or at random places."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.dtype import REDUCED, int64
from .._core.tensor import Tensor
from ._declare.batch import planewise
from ._declare.families import computes
from ._declare.op import composite, function_of, op
from ._declare.rules import Spec, shape_text
from ._declare.samples import case, cases, error, t
from .copy import suggested_strides
from .interpolation import Taps, mapped, table_for
from .pool import (
    Sizes,
    Window,
    check_floating,
    check_one,
    check_rank_1,
    check_returned,
    in_plane,
    in_strides,
    index_spec,
    largest_of,
    max_pooled,
    returned_to,
    taken_at,
    window_sums,
)
from .window_maps import largest_at, mean_at

# even windows --------------------------------------------------------------------------------------------------------


def _bounds(n: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Where `count` windows over n elements start and end."""
    number = np.arange(count)
    return number * n // max(count, 1), -(-(number + 1) * n // max(count, 1))


def _even(sizes: Sizes, counts: Sizes) -> list[Window] | None:
    """The windows, if all are of one size and do not overlap."""
    if 0 in counts or any(n % count for n, count in zip(sizes, counts, strict=True)):
        return None
    return [Window(n // count, n // count, 0, 1, count) for n, count in zip(sizes, counts, strict=True)]


@functools.lru_cache(256)
def _mean_taps(n: int, count: int) -> Taps:
    """The means of `count` windows over n elements."""
    start, end = _bounds(n, count)
    places = start + np.arange(max(1, (end - start).max(initial=0)))[:, None]
    places[places >= end] = -1
    return Taps(places, np.broadcast_to(1 / (end - start), places.shape), n)


@functools.lru_cache(256)
def _spread_taps(n: int, count: int) -> Taps:
    return _mean_taps(n, count).transposed()


def _check_input(self: Tensor, name: str, rank: int, first: int, colon: str = "") -> None:
    """Raises for a wrong number of dimensions, and for a dimension from `first` on without elements."""
    shape = self._array.shape
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got{colon} {shape_text(shape)}")
    for d in range(first, len(shape)):
        if not shape[d]:
            raise RuntimeError(f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input "
                               f"has sizes {shape_text(shape)} with dimension {d} being empty")


def _like(self: Tensor, rank: int) -> Spec:
    shape = self._array.shape
    return Spec(shape, self.dtype, suggested_strides(self, shape) if rank == 2 else None)


def _taken(xp: Any, array: Any, places: np.ndarray, dim: int, fill: float) -> Any:
    """The elements at places along a dimension; `fill` where the place is -1."""
    made = xp.take(array, xp.asarray(places), dim, mode="wrap")
    made[(*(slice(None),) * dim, xp.asarray(places < 0))] = fill
    return made


def _uneven_places(xp: Any, planes: Any, counts: Sizes, fill: float) -> tuple[list, list, list]:
    """For each place in a window the elements there, where the windows start, and the places by dimension.

    `fill` stands at the places that a window is too short for.
    """
    rank, arrays, starts, places = len(counts), [planes], [], []
    for d, (n, count) in enumerate(zip(planes.shape[1:], counts, strict=True)):
        start, end = _bounds(n, count)
        longest = range((end - start).max())
        reads = [start + at for at in longest]
        arrays = [_taken(xp, array, np.where(read < end, read, -1), d + 1, fill) for array in arrays for read in reads]
        starts.append(xp.asarray(start).reshape((-1,) + (1,) * (rank - 1 - d)))
        places.append(longest)
    return arrays, starts, places


def _rounded_means(xp: Any, planes: Any, counts: Sizes, spec: Spec) -> Any:
    """Means of volumes in half precision: PyTorch rounds after each step."""
    def rounded(x: Any) -> Any:
        return x.astype(spec.dtype.np).astype(xp.float32)

    total, *rest = _uneven_places(xp, planes, counts, 0.0)[0]
    for array in rest:
        total = rounded(total + array)
    for d, (n, count) in enumerate(zip(planes.shape[1:], counts, strict=True)):
        start, end = _bounds(n, count)
        total = rounded(total / xp.asarray((end - start).astype(np.float32)).reshape((-1,) + (1,) * (2 - d)))
    return total.reshape(spec.shape)


def _check_grad_output(name: str, grad_output: Tensor) -> None:
    shape = grad_output._array.shape
    if 0 in shape[1:]:
        raise RuntimeError(f"{name}(): Expected grad_output to have non-zero size for non-batch dimensions, but "
                           f"grad_output has sizes {shape_text(shape)} with dimension {shape.index(0, 1)} being empty")


def _declare_adaptive_avg_pool(rank: int) -> Callable:
    name = f"adaptive_avg_pool{rank}d"

    def infer(self, output_size):
        if len(output_size) != rank:
            raise RuntimeError(f"{name}: output_size must be {rank}")
        if min(output_size) < 0:
            shown = ", ".join(map(str, output_size[:2])) + "".join(f",{n}" for n in output_size[2:])
            raise RuntimeError(f"{name}: elements of output_size must be greater than or equal to 0 but received "
                               f"{{{shown}}}")
        _check_input(self, name, rank, self.dim() - 2 if rank == 2 else 1)
        made = (*self._array.shape[:-rank], *output_size)
        strides = suggested_strides(self, made) if rank == 2 else None
        if rank == 3 or 0 not in made:
            check_floating(name if rank == 2 else f"{name}_cpu", self.dtype, strides)
        return Spec(made, self.dtype, strides)

    def array(xp, self, output_size, spec):
        sizes = self.shape[-rank:]
        planes, even = self.reshape(-1, *sizes), _even(sizes, output_size)
        if rank == 3 and spec.dtype.np in REDUCED and math.prod(spec.shape):
            return _rounded_means(xp, planes, output_size, spec)
        if even is not None:
            planes = window_sums(xp, planes, even)
            planes /= planes.dtype.type(math.prod([w.size for w in even]))
        else:
            for d, (n, count) in enumerate(zip(sizes, output_size, strict=True), 1):
                planes = mapped(xp, planes, _mean_taps(n, count), d)
        return in_strides(planes, spec)

    def backward_spec(grad_output, self):
        _check_grad_output(f"{name}_backward", grad_output)
        check_floating(f"{name}_backward" + ("_cpu" if rank == 3 else ""), self.dtype)
        return _like(self, rank)

    def backward_array(xp, grad_output, self, spec):
        counts = grad_output.shape[-rank:]
        planes = grad_output.reshape(-1, *counts)
        for d in range(rank, 0, -1):  # the last dimension first, while there is little of it
            planes = mapped(xp, planes, _spread_taps(self.shape[d - rank - 1], counts[d - 1]), d)
        return in_strides(planes, spec)

    def mean(g, self, output_size):
        even = _even(self.shape[-rank:], output_size)
        if even is None or rank == 3 and self.dtype in REDUCED:
            raise NotImplementedError("windows of several sizes, or means that are rounded after each step")
        return mean_at(g, self, even, False, None)

    backward = function_of(op(
        f"_{name}_backward(Tensor grad_output, Tensor self) -> Tensor", public="",
        kernel=computes(backward_spec, backward_array), kernels={"cpu": f"pool.{name}_backward"},
        npu=f"aclnnAdaptiveAvgPool{rank}dBackward(grad_output, self, out)",
        grad=dict(grad_output=lambda grad, grad_output_shape: pooled(grad, grad_output_shape[-rank:])),
        samples=cases(case(t(1, 2, *(3,) * rank), t(1, 2, *(5,) * rank)),
                      case(t(2, *(2,) * rank), t(2, *(4,) * rank))), batch=planewise(rank + 2),
        sharded=f"batched -{rank}"))
    pooled = function_of(op(
        f"_{name}(Tensor self, SymInt[{rank}] output_size) -> Tensor", public="torch",
        kernel=computes(infer, array), npu=f"aclnnAdaptiveAvgPool{rank}d(self, output_size, out)",
        grad=dict(self=lambda grad, self: backward(grad, self)), kernels={"cpu": f"pool.{name}"}, gathers=mean,
        samples=cases(case(t(1, 2, *(5,) * rank), (3,) * rank), case(t(2, *(4,) * rank), (2,) * rank),
                      case(t(1, 2, *(3,) * rank), (5,) * rank), case(t(0, 2, *(3,) * rank), (2,) * rank)),
        batch=planewise(rank + 2), out=None, sharded=f"batched -{rank}"))

    @composite(f"{name}(Tensor self, SymInt[{rank}] output_size) -> Tensor", public="_nn",
               samples=cases(case(t(1, 2, *(5,) * rank), (3,) * rank), case(t(1, 2, *(4,) * rank), 1),
                             error(RuntimeError, f"{name}: output_size must be {rank}", t(1, 2, *(4,) * rank),
                                   (1,) * (rank + 1))), autocast=dict(cpu="float32") if rank == 3 else None)
    def _adaptive_avg_pool(self, output_size):
        if output_size != (1,) * rank or self.dim() not in (rank + 1, rank + 2) or 0 in self.shape[-rank:]:
            return pooled(self, output_size)
        made = self.mean(tuple(range(-rank, 0)), keepdim=True)
        last = suggested_strides(self, tuple(made.shape))
        return made if last is None else made.as_strided(made.shape, last)

    return _adaptive_avg_pool


_adaptive_avg_pool2d = _declare_adaptive_avg_pool(2)
_declare_adaptive_avg_pool(3)


@composite("adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor", public="torch nn.functional",
           samples=cases(case(t(2, 3, 7), 3), case(t(3, 6), (2,)),
                         error(RuntimeError, "adaptive_avg_pool1d() argument 'output_size' should contain one int (got "
                                             "2)", t(1, 4), (1, 1))), out=None)
def _adaptive_avg_pool1d(self, output_size):
    check_one("adaptive_avg_pool1d", output_size=output_size)
    check_rank_1(self, "adaptive_avg_pool1d")
    return _adaptive_avg_pool2d(self.unsqueeze(-2), (1, *output_size)).squeeze(-2)


def _largest_by_parts(x: Any, table: Any, shape: Sizes, rank: int) -> tuple[Any, Any]:
    """The largest of the elements that a table (planes or 1, places in a window, windows) names, and where it is."""
    planes = x.reshape(-1, math.prod(x.shape[-rank:]))
    table = table.expand(planes.shape[0], *table.shape[1:])
    seen = planes.gather(1, table.clamp_min(0).reshape(planes.shape[0], -1)).reshape(table.shape)
    values, number = seen.masked_fill(table < 0, -math.inf).max(1)
    return values.reshape(shape), table.gather(1, number.unsqueeze(1)).reshape(shape)


def returned_by_parts(values: Any, indices: Any, shape: Sizes, rank: int) -> Any:
    """Zeros of a shape, with values added at indices in their planes."""
    made = values.new_zeros((math.prod(shape[:-rank]), math.prod(shape[-rank:])))
    if values.numel():
        made = made.scatter_add(1, indices.reshape(made.shape[0], -1), values.reshape(made.shape[0], -1))
    return made.reshape(shape)


def _adaptive_max_by_parts(self: Any, output_size: Sizes) -> tuple[Any, Any]:
    rank, table = len(output_size), np.zeros((1, 1), np.int64)
    shape = (*self.shape[:-rank], *output_size)
    if 0 in shape:
        return self.new_empty(shape), self.new_empty(shape, dtype=int64)
    for n, count in zip(self.shape[-rank:], output_size, strict=True):
        start, end = _bounds(n, count)
        places = start + np.arange((end - start).max())[:, None]
        places[places >= end] = -1
        absent = (table[:, None, :, None] < 0) | (places[:, None] < 0)
        table = np.where(absent, -1, table[:, None, :, None] * n + places[:, None])
        table = table.reshape(table.shape[0] * table.shape[1], -1)
    return _largest_by_parts(self, table_for(self, table[None]), shape, rank)


def _declare_adaptive_max_pool(rank: int) -> Callable:
    name = f"adaptive_max_pool{rank}d"

    def infer(self, output_size):
        _check_input(self, name, rank, 1, ":")
        if len(output_size) != rank:
            raise RuntimeError(f"{name}(): internal error: output_size.size() must be {rank}")
        made = (*self._array.shape[:-rank], *output_size)
        if min(made) < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {min(made)}: {shape_text(made)}")
        strides = suggested_strides(self, made) if rank == 2 else None
        check_floating(name if rank == 2 else f"{name}_cpu", self.dtype)
        spec = Spec(made, self.dtype, strides)
        return spec, index_spec(spec)

    def array(xp, self, output_size, spec):
        sizes = self.shape[-rank:]
        planes, even = self.reshape(-1, *sizes), _even(sizes, output_size)
        if even is not None:
            return max_pooled(xp, self, tuple(even), spec)
        if not math.prod(spec[0].shape):
            return in_strides(xp.empty(spec[0].shape), spec[0]), in_strides(xp.empty(spec[0].shape), spec[1])
        arrays, starts, places = _uneven_places(xp, planes, output_size, -xp.inf)
        values, number = largest_of(xp, arrays)
        base, of_place = in_plane(xp, starts, places, sizes)
        return in_strides(values, spec[0]), in_strides(of_place.take(number) + base, spec[1])

    def backward_spec(grad_output, self, indices):
        _check_grad_output(f"{name}_backward", grad_output)
        check_returned(grad_output, indices)
        check_floating(f"{name}_backward", self.dtype)
        return _like(self, rank)

    def backward_array(xp, grad_output, self, indices, spec):
        return in_strides(returned_to(xp, grad_output, indices, rank, self.shape), spec)

    backward = function_of(op(
        f"{name}_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor", public="",
        kernel=computes(backward_spec, backward_array), kernels={"cpu": f"pool.{name}_backward"},
        npu="aclnnAdaptiveMaxPool2dBackward(grad_output, self, indices, out)" if rank == 2 else None,
        decomposition=lambda grad_output, self, indices: returned_by_parts(grad_output, indices, self.shape, rank),
        grad=dict(grad_output=lambda grad, indices: taken_at(grad, indices, rank)),
        samples=cases(case(t(1, 2, *(2,) * rank), t(1, 2, *(5,) * rank),
                           t(1, 2, *(2,) * rank, kind="int", low=0, high=5**rank, grad=False))),
        batch=planewise(rank + 2)))

    def largest(g, self, output_size):
        even = _even(self.shape[-rank:], output_size)
        if even is None:
            raise NotImplementedError("windows of several sizes")
        return largest_at(g, self, even)

    return function_of(op(
        f"{name}(Tensor self, int[{rank}] output_size) -> (Tensor result, Tensor result1)", public="_nn",
        kernel=computes(infer, array), kernels={"cpu": f"pool.{name}"}, gathers=largest,
        npu="aclnnAdaptiveMaxPool2d(self, output_size, result, result1)" if rank == 2 else None,
        decomposition=_adaptive_max_by_parts,
        grad=dict(self=lambda grads, self, result1: backward(grads[0], self, result1)),
        samples=cases(case(t(1, 2, *(5,) * rank), (3,) * rank), case(t(2, *(4,) * rank), (2,) * rank),
                      case(t(1, 2, *(3,) * rank), (5,) * rank), case(t(0, 2, *(3,) * rank), (2,) * rank),
                      error(RuntimeError, f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got: [4, 4]",
                            t(4, 4), (1,) * rank)), batch=planewise(rank + 2),
        autocast=dict(cpu="float32") if rank == 3 else None, python="size"))


_adaptive_max_pool2d = _declare_adaptive_max_pool(2)
_declare_adaptive_max_pool(3)


@composite("adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor result, Tensor result1)", public="torch",
           samples=cases(case(t(2, 3, 7), 3), case(t(3, 6), (2,))), out=None)
def _adaptive_max_pool1d(self, output_size):
    check_rank_1(self, "adaptive_max_pool1d")
    check_one("adaptive_max_pool1d", output_size=output_size)
    _check_input(self, "adaptive_max_pool1d", 1, 1)
    pooled = _adaptive_max_pool2d(self.unsqueeze(-2), (1, *output_size))
    return tuple(part.squeeze(-2) for part in pooled)


# windows at random places --------------------------------------------------------------------------------------------

_SIDES = {2: ("height", "width"), 3: ("time", "height", "width")}


def _fractional_spec(self: Tensor, rank: int, kernel_size: Sizes, output_size: Sizes, random_samples: Tensor) -> tuple:
    name, shape = f"fractional_max_pool{rank}d", self._array.shape
    for setting, value in (("kernel_size", kernel_size), ("output_size", output_size)):
        if len(value) != rank:
            several = "tuple of Ints" if rank == 2 else "tuple of three Ints"
            raise RuntimeError(f"{name}: {setting} must either be a single Int or {several}")
    name += "()" if rank == 2 else "_out()"
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(f"{name}: Expected {rank + 1}D or {rank + 2}D tensor, but got: {shape_text(shape)}")
    for d in range(1, len(shape)):
        if not shape[d]:
            raise RuntimeError(f"{name}: Expected input to have non-zero size for non-batch dimensions, but got"
                               f"{shape_text(shape)} with dimension {d} being empty.")
    for side, n, size, count in zip(_SIDES[rank], shape[-rank:], kernel_size, output_size, strict=True):
        if count + size - 1 > n:
            raise RuntimeError(f"{name}: pool {side} {size} too large relative to input {side} {n}")
    drawn, expected = random_samples._array.shape, "Expect _random_samples"
    batch, channels = shape[0] if len(shape) == rank + 2 else 1, shape[-rank - 1]
    if random_samples.dtype is not self.dtype:
        raise RuntimeError(f"{expected} to have the same dtype as input")
    if len(drawn) != 3:
        raise RuntimeError(f"{expected} to have 3 dimensions, got {len(drawn)}")
    if drawn[0] < batch:
        raise RuntimeError(f"{expected}.size(0) no less then input batch size.")
    if drawn[1] != channels:
        raise RuntimeError(f"{expected}.size(1) equals to input channel size.")
    if drawn[2] != rank:
        raise RuntimeError(f"{expected}.size(2) equals to {rank}; got {drawn[2]}.")
    check_floating(f"{name.split('(')[0].removesuffix('_out')}_out_frame", self.dtype)
    spec = Spec((*shape[:-rank], *output_size), self.dtype)
    return spec, index_spec(spec)


def _random_starts(xp: Any, sample: Any, n: int, size: int, count: int) -> Any:
    """Where the windows of each plane start: steps that are even but for rounding, from a random point on."""
    if count < 2:
        return xp.full((sample.size, count), n - size, xp.int64)
    step = sample.dtype.type(n - size) / sample.dtype.type(count - 1)
    number, sample = xp.arange(count, dtype=sample.dtype), sample[:, None]
    starts = ((number + sample) * step).astype(xp.int64) - (sample * step).astype(xp.int64)
    starts[:, -1] = n - size
    return starts


def _fractional(xp: Any, rank: int, self: Any, kernel_size: Sizes, output_size: Sizes, random_samples: Any,
                spec: tuple[Spec, Spec]) -> tuple:
    sizes, flat = self.shape[-rank:], self.reshape(-1)
    planes = flat.size // math.prod(sizes)
    samples = random_samples.reshape(-1, rank)[:planes]
    if not math.prod(spec[0].shape):
        return xp.empty(spec[0].shape), xp.empty(spec[0].shape)
    starts = []
    for d, (n, size, count) in enumerate(zip(sizes, kernel_size, output_size, strict=True)):
        sample = samples[:, rank - 1 - d if rank == 2 else d]  # a plane's first number is for its width
        shape = (planes, *(count if e == d else 1 for e in range(rank)))
        starts.append(_random_starts(xp, sample, n, size, count).reshape(shape))
    places = [range(size) for size in kernel_size]
    base, of_place = in_plane(xp, starts, places, sizes)
    in_all = base + (xp.arange(planes) * math.prod(sizes)).reshape((-1,) + (1,) * rank)
    values, number = largest_of(xp, [flat.take(in_all + place) for place in of_place])
    return values.reshape(spec[0].shape), (of_place.take(number) + base).reshape(spec[0].shape)


def _fractional_by_parts(self: Any, kernel_size: Sizes, output_size: Sizes, random_samples: Any) -> tuple[Any, Any]:
    rank = len(kernel_size)
    shape, planes = (*self.shape[:-rank], *output_size), math.prod(self.shape[:-rank])
    if 0 in shape:
        return self.new_empty(shape), self.new_empty(shape, dtype=int64)
    samples = random_samples.reshape(-1, rank).narrow(0, 0, planes)
    table = samples.new_zeros((1, 1, 1), dtype=int64)
    for d, (n, size, count) in enumerate(zip(self.shape[-rank:], kernel_size, output_size, strict=True)):
        sample = samples.select(1, rank - 1 - d if rank == 2 else d).unsqueeze(1)
        step, number = (n - size) / max(count - 1, 1), table_for(self, np.arange(count))
        starts = ((number + sample) * step).to(int64) - (sample * step).to(int64)
        starts = starts.masked_fill(number == count - 1, n - size)
        places = starts.unsqueeze(1) + table_for(self, np.arange(size)).unsqueeze(1)
        table = (table[:, :, None, :, None] * n + places[:, None, :, None]).reshape(
            planes, table.shape[1] * size, table.shape[2] * count)
    return _largest_by_parts(self, table, shape, rank)


def _declare_fractional(rank: int) -> None:
    name, sizes = f"fractional_max_pool{rank}d", f"int[{rank}] kernel_size, int[{rank}] output_size"

    def backward_spec(grad_output, self, kernel_size, output_size, indices):
        check_returned(grad_output, indices)
        check_floating(f"{name}_backward_out_frame", self.dtype)
        return Spec(self._array.shape, grad_output.dtype)

    def backward_array(xp, grad_output, self, kernel_size, output_size, indices):
        return returned_to(xp, grad_output, indices, rank, self.shape)

    backward = function_of(op(
        f"{name}_backward(Tensor grad_output, Tensor self, {sizes}, Tensor indices) -> Tensor", public="",
        kernel=computes(backward_spec, backward_array), kernels={"cpu": f"pool.{name}_backward"},
        decomposition=lambda grad_output, self, kernel_size, output_size, indices: returned_by_parts(
            grad_output, indices, self.shape, rank),
        grad=dict(grad_output=lambda grad, indices: taken_at(grad, indices, rank)),
        samples=cases(case(t(1, 2, *(2,) * rank), t(1, 2, *(5,) * rank), (2,) * rank, (2,) * rank,
                           t(1, 2, *(2,) * rank, kind="int", low=0, high=5**rank, grad=False)))))

    def infer(self, kernel_size, output_size, random_samples):
        return _fractional_spec(self, rank, kernel_size, output_size, random_samples)

    def array(xp, self, kernel_size, output_size, random_samples, spec):
        return _fractional(xp, rank, self, kernel_size, output_size, random_samples, spec)

    op(f"{name}(Tensor self, {sizes}, Tensor random_samples) -> (Tensor result, Tensor result1)", public="_nn",
       kernel=computes(infer, array), decomposition=_fractional_by_parts, kernels={"cpu": f"pool.{name}"},
       grad=dict(self=lambda grads, self, kernel_size, output_size, result1:
                 backward(grads[0], self, kernel_size, output_size, result1)),
       samples=cases(case(t(2, 3, *(7,) * rank), 2, 3, t(2, 3, rank, low=0.01, high=0.99, grad=False)),
                     case(t(2, *(5,) * rank), 3, 1, t(1, 2, rank, low=0.01, high=0.99, grad=False)),
                     error(RuntimeError, "too large relative to input", t(2, *(5,) * rank), 3, 4,
                           t(1, 2, rank, low=0.01, high=0.99))), autocast=dict(cpu="float32"))


_declare_fractional(2)
_declare_fractional(3)
