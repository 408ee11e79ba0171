"""Convolution in one round of OpenBLAS's threads: each takes some rows of some samples, from the input to the result.
And its gradients: each adds up those of the weight over its rows, or folds columns back for its samples.

A thread unfolds what its rows see into columns and multiplies, in memory of its own, which stays in its cache. With
strides of 1 a tap sees the whole plane of a channel, moved by some elements: it is copied as one long row, and where
that took the end of one row for the beginning of the next, zeros are written. What is strided is taken apart first
into planes, one for each phase 0 .. stride - 1, within which neighbouring results see neighbours.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..._core.geometry import Steps
from ..._core.threads import get_num_threads
from .blas_team import parts_for
from .matrices import LANES, SMALL
from .programs import MOST_CALLS, deal, room
from .shared import empty

__all__ = ["convolved", "input_gradient", "weight_gradient"]

LEAST = 1 << 18  # multiplications from which on threads share them
_BLOCK = 1 << 18  # elements of columns that a core's cache holds beside the rest
_CALLS = MOST_CALLS // 2  # that a round makes at most
_COST = 16  # multiplications in the time of an element of a cheap loop
_COLUMNS, _MANY_COLUMNS = 32, 64  # of which a product has at least; the latter where BLAS copies the weight first
_MOST_WEIGHTS = 1 << 18  # of a group, which each thread reads
_MOST_UNFOLDED = 1 << 20  # elements of a whole sample's columns
_UNEVEN = 1.25  # how much longer than the others the last thread may take
_MOST_BLOCKS = 8  # times as many blocks, to that end
_ALL = slice(None)


# dimensions ----------------------------------------------------------------------------------------------------------


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


def _axes(x: Sequence[int], weight: Sequence[int], made: Sequence[int], steps: Steps,
          rows: slice | None) -> list[_Axis]:
    """The dimensions of arrays of these shapes, or of some rows of them."""
    given = zip(x[2:], made[2:], weight[2:], steps.stride, steps.dilation, steps.padding, strict=True)
    return [_axis(each, rows if d == 0 else None) for d, each in enumerate(given)]


# the result ----------------------------------------------------------------------------------------------------------


def convolved(x: Any, weight: Any, bias: Any, made: Any, steps: Steps, otherwise: Callable[[slice], None]) -> bool:
    """Whether threads did it, or `otherwise`, which convolves some samples, as long as it is not written down."""
    if not made.dtype == weight.dtype == x.dtype:
        return False
    weight = np.ascontiguousarray(weight)
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
    blocks = _blocks(shape[0], axes, shape[1], weights, threads)
    calls = _calls(axes, copies, shape[1], made[1], blocks or 1)
    if blocks is None or calls > _CALLS:
        return None
    step = min(shape[0], _CALLS // calls)
    step = next((n for n in range(step, step // 2, -1) if shape[0] % n == 0), step)
    return step, blocks, max(1, work // (shape[0] * _COST))


def _calls(axes: Sequence[_Axis], copies: bool, channels: int, outputs: int, blocks: int) -> int:
    """About how many calls a sample of so many blocks takes, if planes are copied or not."""
    rows, taps = math.prod([a.size for a in axes[:-1]]), math.prod([len(a.taps) for a in axes])
    planes = math.prod([len(a.planes) for a in axes]) * math.prod([a.length for a in axes[:-1]]) if copies else 0
    if not _is_long(axes):
        return channels * (planes + taps * rows)
    between = axes[-1].length - axes[-1].size
    lines = rows // axes[-2].size if len(axes) > 2 else blocks  # that a tap sees
    return channels * (planes + taps * lines) + (outputs * rows if between else 0)


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


# in memory of a thread -----------------------------------------------------------------------------------------------


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
    counts = str([len(range(n)[plane]) for n, a in zip(x.shape[1:], axes, strict=True) for plane in a.planes])
    made = memory.of("planes", (len(x), *[len(a.planes) for a in axes], *[a.length for a in axes]), counts)
    for source, target in _phases(x, made, axes):
        target[...] = source
    return made


def _phases(x: Any, planes: Any, axes: Sequence[_Axis]) -> Iterator[tuple[Any, Any]]:
    """The elements of a sample that make a plane, and where they lie there."""
    for phases in itertools.product(*[range(len(a.planes)) for a in axes]):
        seen = x[(_ALL, *[a.planes[phase] for a, phase in zip(axes, phases, strict=True)])]
        if seen.size:
            yield seen, planes[(_ALL, *phases, *map(slice, seen.shape[1:]))]


def _columns(planes: Any, axes: Sequence[_Axis], groups: int, memory: _Memory) -> Any:
    """What taps see, (groups * last of the kernel * channels * rest of the kernel, positions)."""
    room, rows = _column_room(axes, len(planes), groups, memory)
    for to, of in _pairs(room, planes, axes, groups):
        to[...] = of
    _clear_between(room, axes)
    return rows


def _column_room(axes: Sequence[_Axis], channels: int, groups: int, memory: _Memory) -> tuple[Any, Any]:
    """Memory for columns (groups, last of the kernel, channels of a group, *rest of it, *results), and as a matrix."""
    *kernel, last = [len(a.taps) for a in axes]
    *sizes, width = [a.size for a in axes]
    shape = (groups, last, channels // groups, *kernel, *sizes, axes[-1].length if _is_long(axes) else width)
    room = memory.of("columns", shape, *axes[0].taps, axes[0].length)
    return room, room.reshape(last * channels * math.prod(kernel), -1)


def _pairs(columns: Any, planes: Any, axes: Sequence[_Axis], groups: int) -> Iterator[tuple[Any, Any]]:
    """For each tap a part of the columns, and of planes, that are the same elements."""
    *kernel, last = [len(a.taps) for a in axes]
    is_long, pitch = _is_long(axes), columns.shape[-1]
    planes = planes.reshape(groups, len(planes) // groups, *planes.shape[1:])
    for tap in itertools.product(*map(range, kernel), range(last)):
        phases, starts = zip(*[a.taps[k] for a, k in zip(axes, tap, strict=True)])
        seen = [a.seen(k) for a, k in zip(axes, tap, strict=True)]
        if any(s.stop == s.start for s in seen):
            continue
        own, plane = columns[(_ALL, tap[-1], _ALL, *tap[:-1])], planes[(_ALL, _ALL, *phases)]
        rest = seen[:-2] if is_long else seen
        to, of = (_ALL, _ALL, *rest), (_ALL, _ALL, *[slice(s.start + n, s.stop + n) for s, n in zip(rest, starts)])
        if not is_long:
            yield own[to], plane[of]
            continue
        before = starts[-2] * pitch + starts[-1]  # of where the first result sees the plane
        low = max(seen[-2].start * pitch, -before)
        high = min(seen[-2].stop * pitch, axes[-2].length * pitch - before)
        yield _joined(own)[(*to, slice(low, high))], _joined(plane)[(*of, slice(low + before, high + before))]


def _clear_between(columns: Any, axes: Sequence[_Axis]) -> None:
    """Zeros where a long row took the end of one row for the beginning of the next, and between results."""
    if not _is_long(axes):
        return
    for tap in range(len(axes[-1].taps)):
        seen = axes[-1].seen(tap)
        for at in (*range(seen.start), *range(seen.stop, columns.shape[-1])):
            columns[(_ALL, tap, ..., at)] = 0


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


# gradients -----------------------------------------------------------------------------------------------------------


def weight_gradient(grad: Any, x: Any, made: Any, steps: Steps, otherwise: Callable[[], Any]) -> Any:
    """The gradient of the weight, or what `otherwise` gives as long as it is not written down; None for others."""
    if not made.dtype == grad.dtype == x.dtype:
        return None
    plan = _plan(x.shape, x.strides, made.shape, grad.shape, x.itemsize, steps, get_num_threads())
    if plan is None or plan[0] < len(x):
        return None
    _, blocks, effort = plan
    count = min(len(x) * blocks, parts_for(len(x) * effort))
    outputs, *rest, last = made.shape
    totals, others = empty((count, outputs, last, math.prod(rest)), x.dtype), []
    deal(np, _add_blocks, (steps, blocks, count, made.shape), len(x) * blocks, (x, grad, totals),
         effort=len(x) * effort, otherwise=lambda: others.append(otherwise()))
    if others:
        return others[0]
    return np.add.reduce(totals, 0).swapaxes(1, 2).reshape(made.shape)


def _add_blocks(xp: Any, part: slice, steps: Steps, blocks: int, count: int, shape: tuple[int, ...], x: Any, grad: Any,
                totals: Any) -> None:
    """What some blocks of rows add to the gradient of a weight of this shape: one of so many parts."""
    items, rows, memory = len(x) * blocks, grad.shape[2], _Memory(x)
    total = totals[-(-part.start * count // items)].reshape(steps.groups, shape[0] // steps.groups, -1)
    for at in range(part.start, part.stop):
        sample, block = divmod(at, blocks)
        some = slice(rows * block // blocks, rows * (block + 1) // blocks)
        axes = _axes(x.shape, shape, grad.shape, steps, some)
        columns = _columns(_planes(x[sample], axes, memory), axes, steps.groups, memory)
        own = _as_rows(grad[sample, :, some], columns.shape[1], memory)
        outputs, width = total.shape[1:]
        for group in range(steps.groups):
            rows_of, seen = own[group * outputs :][:outputs], columns[group * width :][:width]
            target = total[group] if at == part.start else memory.of("sum", (outputs, width))
            xp.matmul(rows_of, seen.T, out=target)
            if at > part.start:
                xp.add(total[group], target, out=total[group])


def input_gradient(grad: Any, weight: Any, bias: Any, made: Any, steps: Steps, otherwise: Callable[[], None]) -> bool:
    """Whether threads wrote the gradient of the input, or `otherwise`, as long as it is not written down."""
    if not made.dtype == weight.dtype == grad.dtype:
        return False
    weight, threads = np.ascontiguousarray(weight), get_num_threads()
    plan = _plan(made.shape, made.strides, weight.shape, grad.shape, made.itemsize, steps, threads)
    unfolded = made.shape[1] * math.prod(weight.shape[2:]) * math.prod(grad.shape[2:])
    if plan is None or plan[0] < len(made) or len(made) < threads // 2 or unfolded > _MOST_UNFOLDED:
        return False
    deal(np, _fold_samples, (steps,), len(made), (grad, weight, bias, made), effort=len(made) * plan[2],
         otherwise=otherwise)
    return True


def _fold_samples(xp: Any, part: slice, steps: Steps, grad: Any, weight: Any, bias: Any, made: Any) -> None:
    """The gradient of the input for some samples: columns are multiplied, and added up where taps saw them."""
    memory, axes = _Memory(made), _axes(made.shape, weight.shape, grad.shape, steps, None)
    matrix, offset = _turned(weight, steps, memory), 0
    if bias is not None:
        offset = bias.reshape(-1, *(1,) * len(axes))
    planes = memory.of("planes", (made.shape[1], *[len(a.planes) for a in axes], *[a.length for a in axes]))
    for sample in range(part.start, part.stop):
        room, rows = _column_room(axes, made.shape[1], steps.groups, memory)
        given = _as_rows(grad[sample], rows.shape[1], memory)
        _, outputs, width = matrix.shape
        for group in range(steps.groups):
            xp.matmul(matrix[group].T, given[group * outputs :][:outputs], out=rows[group * width :][:width])
        _clear_between(room, axes)
        planes[...] = 0
        for to, of in _pairs(room, planes, axes, steps.groups):
            xp.add(of, to, out=of)
        if any(len(a.planes) < stride for a, stride in zip(axes, steps.stride, strict=True)):  # what no tap sees
            made[sample] = offset
        for target, source in _phases(made[sample], planes, axes):
            xp.add(source, offset, out=target)


def _as_rows(grad: Any, columns: int, memory: _Memory) -> Any:
    """The gradient of a block of results as a matrix of so many columns, with zeros between rows."""
    *sizes, width = grad.shape[1:]
    pitch = columns // math.prod(sizes)
    if pitch != width or not _is_packed(grad.shape[1:], grad.strides[1:], grad.itemsize):
        laid = memory.of("grad", (len(grad), *sizes, pitch))
        laid[..., :width] = grad
        grad = laid
    return as_strided(grad, (len(grad), columns), (grad.strides[0], grad.itemsize), subok=True)
