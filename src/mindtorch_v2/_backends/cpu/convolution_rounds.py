"""Convolution in one round of OpenBLAS's threads: each takes some rows of some samples, from the input to the result.

A thread unfolds what its rows see into columns and multiplies, in memory of its own, which stays in its cache. With
strides of 1 a tap sees the whole plane of a channel, moved by some elements: it is copied as one long row, and where
that took the end of one row for the beginning of the next, zeros are written. What is strided is taken apart first
into planes, one for each phase 0 .. stride - 1, within which neighbouring results see neighbours.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..._core.geometry import Steps
from ..._core.threads import get_num_threads
from . import blas_team
from .matrices import LANES, SMALL
from .programs import MOST_CALLS, deal, room

__all__ = ["convolved"]

LEAST = 1 << 18  # multiplications from which on threads share them
_BLOCK = 1 << 18  # elements of columns that a core's cache holds beside the rest
_CALLS = MOST_CALLS // 2  # that a round makes at most
_COST = 16  # multiplications in the time of an element of a cheap loop
_COLUMNS, _MANY_COLUMNS = 32, 64  # of which a product has at least; the latter where BLAS copies the weight first
_MOST_WEIGHTS = 1 << 18  # of a group, which each thread reads
_UNEVEN = 1.25  # how much longer than the others the last thread may take
_MOST_BLOCKS = 8  # times as many blocks, to that end
_ALL = slice(None)


class _Axis(NamedTuple):
    """One dimension of a convolution; of the first, some rows."""

    size: int  # results
    taps: tuple[tuple[int, int], ...]  # for each the plane that it sees, and where the first result sees it
    length: int  # of such a plane
    planes: tuple[slice, ...]  # of which elements of the input each is made

    @property
    def is_unfolded(self) -> bool:
        """Whether each tap sees all of a plane of its own."""
        return self.length == self.size and self.taps == tuple((k, 0) for k in range(len(self.taps)))

    def seen(self, tap: int) -> slice:
        """The results for which a tap sees the input; zeros are around it."""
        offset = self.taps[tap][1]
        low = min(max(0, -offset), self.size)
        return slice(low, max(low, min(self.size, self.length - offset)))


def _axis(given: Sequence[int], rows: slice | None) -> _Axis:
    """A dimension, or some rows of it, for which the planes are cut to what these see."""
    length, size, kernel, stride, dilation, padding = given
    begin, count = (0, size) if rows is None else (rows.start, rows.stop - rows.start)
    found = [divmod(k * dilation - padding, stride) for k in range(kernel)]
    low, high = 0, -(-length // stride)
    if rows is not None:
        low = min(max(0, found[0][0] + begin), high - 1)
        high = max(low + 1, min(high, found[-1][0] + begin + count))
    phases = sorted({phase for _, phase in found})
    taps = tuple([(phases.index(phase), start + begin - low) for start, phase in found])
    planes = tuple([slice(low * stride + phase, min(high * stride, length), stride) for phase in phases])
    return _Axis(count, taps, high - low, planes)


def _axes(x: Sequence[int], weight: Sequence[int], made: Sequence[int], steps: Steps, rows: slice) -> list[_Axis]:
    """The dimensions of arrays of these shapes."""
    given = zip(x[2:], made[2:], weight[2:], steps.stride, steps.dilation, steps.padding, strict=True)
    return [_axis(each, rows if d == 0 else None) for d, each in enumerate(given)]


def convolved(x: Any, weight: Any, bias: Any, made: Any, steps: Steps, otherwise: Callable[[slice], None]) -> bool:
    """Whether threads did it, or `otherwise`, which convolves some samples, as long as it is not written down."""
    if not blas_team.is_used() or not made.dtype == weight.dtype == x.dtype or not weight.flags.c_contiguous:
        return False
    plan = _plan(x.shape, x.strides, weight.shape, made.shape, x.itemsize, steps, get_num_threads())
    if plan is None:
        return False
    step, blocks, effort = plan
    for start in range(0, len(x), step):
        some = slice(start, min(start + step, len(x)))
        count = some.stop - start
        deal(np, _some_blocks, (steps, blocks), count * blocks, (x[some], weight, bias, made[some]),
             effort=count * effort, otherwise=functools.partial(otherwise, some))
    return True


@functools.lru_cache(256)
def _plan(shape: tuple[int, ...], strides: tuple[int, ...], kernel: tuple[int, ...], made: tuple[int, ...], item: int,
          steps: Steps, threads: int) -> tuple[int, int, int] | None:
    """How many samples make a round, of how many blocks each, and the effort for one; None where that is not worth it.

    The number of threads is one of the arguments, since blocks depend on it.
    """
    work, weights = math.prod(made) * math.prod(kernel[1:]), math.prod(kernel) // steps.groups
    if work < LEAST or weights > _MOST_WEIGHTS:
        return None
    axes = _axes(shape, kernel, made, steps, slice(0, made[2]))
    copies = not _is_seen_as_it_lies(shape[2:], strides[2:], item, axes)
    calls, blocks = _calls(axes, copies, shape[1], made[1]), _blocks(shape[0], axes, shape[1], weights, threads)
    if blocks is None or calls > _CALLS:
        return None
    step = min(shape[0], _CALLS // calls)
    step = next((n for n in range(step, step // 2, -1) if shape[0] % n == 0), step)
    return step, blocks, work // (shape[0] * _COST)


def _calls(axes: Sequence[_Axis], copies: bool, channels: int, outputs: int) -> int:
    """About how many calls a sample takes, if planes are copied or not."""
    rows, taps = math.prod([a.size for a in axes[:-1]]), math.prod([len(a.taps) for a in axes])
    planes = math.prod([len(a.planes) for a in axes]) * math.prod([a.length for a in axes[:-1]]) if copies else 0
    if not _is_long(axes):
        return channels * (planes + taps * rows)
    between = axes[-1].length - axes[-1].size
    return channels * (planes + taps * rows // axes[-2].size) + (outputs * rows if between else 0)


def _is_long(axes: Sequence[_Axis]) -> bool:
    """Whether the rows of planes are taken as one, with what lies between the results computed in vain."""
    return len(axes) > 1 and axes[-1].size <= axes[-1].length <= axes[-1].size * 5 // 4


def _least_columns(weights: int) -> int:
    """How many columns a product with so many weights has at least; more if BLAS copies these first."""
    return _COLUMNS if weights * _COLUMNS <= SMALL else _MANY_COLUMNS


def _blocks(samples: int, axes: Sequence[_Axis], channels: int, weights: int, threads: int) -> int | None:
    """Of how many blocks of rows a sample is made; None where products would have too few columns."""
    rows = axes[0].size
    columns = math.prod([a.size for a in axes[1:]])
    elements = rows * columns * channels * math.prod([len(a.taps) for a in axes])
    most = min(rows, rows * columns // _least_columns(weights))
    least = min(most, max(-(-elements // _BLOCK), -(-threads // samples)))
    if samples * most < threads // 2:
        return None
    for blocks in range(least, min(most, _MOST_BLOCKS * least) + 1):
        share = samples * blocks / threads
        if math.ceil(share) <= share * _UNEVEN:
            return blocks
    return least


class _Memory:
    """What lies between the steps of a thread, the same for all blocks that write the same elements of it."""

    def __init__(self, like: Any) -> None:
        self.like = like
        self.known: dict[tuple, Any] = {}

    def of(self, name: str, shape: tuple[int, ...], *written: Any) -> Any:
        key = (name, shape, *written)
        if key not in self.known:
            self.known[key] = room(self.like, shape)
        return self.known[key]


def _some_blocks(xp: Any, part: slice, steps: Steps, blocks: int, x: Any, weight: Any, bias: Any, made: Any) -> None:
    """Some blocks of rows, those of the first sample first."""
    rows, memory, turned = made.shape[2], _Memory(x), None
    offset = None if bias is None else bias.reshape(-1, *(1,) * (made.ndim - 2))
    for at in range(part.start, part.stop):
        sample, block = divmod(at, blocks)
        some = slice(rows * block // blocks, rows * (block + 1) // blocks)
        axes = _axes(x.shape, weight.shape, made.shape, steps, some)
        planes = _planes(x[sample], axes, memory)
        if all(a.is_unfolded for a in axes) and _is_packed(planes.shape[1:], planes.strides[1:], planes.itemsize):
            matrix, columns = _by_groups(weight, steps), _flat(planes, math.prod([a.size for a in axes]))
        else:
            turned = _turned(weight, steps, memory) if turned is None else turned
            matrix, columns = turned, _columns(planes, axes, steps.groups, memory)
        _multiply(xp, matrix, columns, made[sample, :, some], offset, memory)


def _by_groups(weight: Any, steps: Steps) -> Any:
    return weight.reshape(steps.groups, len(weight) // steps.groups, -1)


def _turned(weight: Any, steps: Steps, memory: _Memory) -> Any:
    """The matrices of groups, with the last dimension of the kernel first, as columns have it."""
    if weight.shape[-1] == 1:
        return _by_groups(weight, steps)
    outputs, *rest, last = weight.shape
    made = memory.of("weight", (outputs, last, math.prod(rest)))
    made[...] = weight.reshape(outputs, math.prod(rest), last).swapaxes(1, 2)
    return _by_groups(made, steps)


def _is_seen_as_it_lies(shape: Sequence[int], strides: Sequence[int], item: int, axes: Sequence[_Axis]) -> bool:
    """Whether the channels of an input are the planes."""
    return all(len(a.planes) == 1 and a.planes[0].step == 1 for a in axes) and _is_packed(shape, strides, item)


def _planes(x: Any, axes: Sequence[_Axis], memory: _Memory) -> Any:
    """What a block sees of a sample, (channels, *phases, *lengths): the input itself if it need not be copied."""
    if _is_seen_as_it_lies(x.shape[1:], x.strides[1:], x.itemsize, axes):
        return x[(_ALL, *(None,) * len(axes), *[a.planes[0] for a in axes])]
    counts = [[len(range(x.shape[1 + d])[plane]) for plane in a.planes] for d, a in enumerate(axes)]
    made = memory.of("planes", (len(x), *map(len, counts), *[a.length for a in axes]), str(counts))
    for phases in itertools.product(*[range(len(a.planes)) for a in axes]):
        own = [count[phase] for count, phase in zip(counts, phases, strict=True)]
        if all(own):
            made[(_ALL, *phases, *map(slice, own))] = x[(_ALL, *[a.planes[p] for a, p in zip(axes, phases)])]
    return made


def _columns(planes: Any, axes: Sequence[_Axis], groups: int, memory: _Memory) -> Any:
    """What taps see, (groups * last of the kernel * channels * rest of the kernel, positions)."""
    *kernel, last = [len(a.taps) for a in axes]
    *sizes, width = [a.size for a in axes]
    is_long, channels = _is_long(axes), len(planes) // groups
    pitch = axes[-1].length if is_long else width
    made = memory.of("columns", (groups, last, channels, *kernel, *sizes, pitch), *axes[0].taps, axes[0].length)
    planes = planes.reshape(groups, channels, *planes.shape[1:])
    for tap in itertools.product(*map(range, kernel), range(last)):
        own = made[(_ALL, tap[-1], _ALL, *tap[:-1])]
        phases, starts = zip(*[a.taps[k] for a, k in zip(axes, tap)])
        seen = [a.seen(k) for a, k in zip(axes, tap)]
        if any(s.stop == s.start for s in seen):
            continue
        plane, rest = planes[(_ALL, _ALL, *phases)], seen if not is_long else seen[:-2]
        to = (_ALL, _ALL, *rest)
        of = (_ALL, _ALL, *[slice(s.start + start, s.stop + start) for s, start in zip(rest, starts)])
        if not is_long:
            own[to] = plane[of]
            continue
        before = starts[-2] * pitch + starts[-1]  # of where the first result sees the plane
        low = max(seen[-2].start * pitch, -before)
        high = min(seen[-2].stop * pitch, axes[-2].length * pitch - before)
        _joined(own)[(*to, slice(low, high))] = _joined(plane)[(*of, slice(low + before, high + before))]
    if is_long:
        for k in range(last):
            seen_last = axes[-1].seen(k)
            for at in (*range(seen_last.start), *range(seen_last.stop, width)):
                made[(_ALL, k, ..., at)] = 0
    return made.reshape(groups * last * channels * math.prod(kernel), -1)


def _joined(array: Any) -> Any:
    """The last two dimensions as one."""
    *shape, rows, columns = array.shape
    return as_strided(array, (*shape, rows * columns), (*array.strides[:-2], array.itemsize), subok=True)


def _flat(planes: Any, positions: int) -> Any:
    """Channels and their planes as rows of a matrix."""
    rows = planes.reshape(math.prod(planes.shape[: -(planes.ndim // 2)]), -1)
    assert rows.shape[1] == positions
    return rows


def _multiply(xp: Any, matrix: Any, columns: Any, target: Any, offset: Any, memory: _Memory) -> None:
    """The matrices of groups times columns, into a block of the result."""
    size, (groups, outputs, width) = target.shape[1:], matrix.shape
    pitch = columns.shape[1] // math.prod(size[:-1])
    is_there = pitch == size[-1] and _is_packed(size, target.strides[1:], target.itemsize)
    product = target if is_there else memory.of("product", (len(target), *size[:-1], pitch))
    made = as_strided(product, (len(target), columns.shape[1]), (product.strides[0], product.itemsize), subok=True)
    for group in range(groups):
        _multiply_pieces(xp, matrix[group], columns[group * width : (group + 1) * width],
                         made[group * outputs : (group + 1) * outputs])
    if offset is not None:
        xp.add(product[..., : size[-1]], offset, out=target)
    elif not is_there:
        target[...] = product[..., : size[-1]]


def _multiply_pieces(xp: Any, matrix: Any, columns: Any, made: Any) -> None:
    """A product, so many columns at a time that BLAS takes matrices as they lie, where that is not too few."""
    count, small = columns.shape[1], SMALL // matrix.size // LANES * LANES
    if small < _COLUMNS or count <= small:
        xp.matmul(matrix, columns, out=made)
        return
    each = -(-count // (-(-count // small) * LANES)) * LANES
    pieces, rest = divmod(count, each)
    parts = [as_strided(x, (pieces, len(x), each), (each * x.itemsize, *x.strides), subok=True)
             for x in (columns, made)]
    xp.matmul(matrix, parts[0], out=parts[1])
    if rest:
        xp.matmul(matrix, columns[:, -rest:], out=made[:, -rest:])


def _is_packed(shape: Sequence[int], strides: Sequence[int], step: int) -> bool:
    """Whether elements of so many bytes lie row by row."""
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True
