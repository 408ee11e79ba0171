"""Convolution as products of matrices: the input is unfolded into columns, a block at a time that stays in cache.

The result is written into `made`, an array of any layout and type. Shapes: input (N, C, *spatial), weight
(O, C / groups, *kernel), result (N, O, *size).
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..._core.dtype import row_major
from ..._core.geometry import Steps
from ..._core.threads import get_num_threads
from . import blas_team
from .jit import machine
from .matrices import LANES, SMALL, matmul
from .shared import empty, shared, zeros
from .team import alone, in_parts, is_used, worth

BLOCK = 1 << 20  # elements unfolded at a time
_SINGLE = 1 << 13  # elements of a sample, unfolded, that take longer than the calls they take
COLUMNS = 8192  # so many make a product efficient: samples are joined up to it
LEAST = 32  # columns that a product of matrices that BLAS does not copy has at least
_ALL = slice(None)
TAKES_BFLOAT16 = False  # else it is multiplied as float32


def windows(array: Any, kernel: Sequence[int], size: Sequence[int], steps: Steps) -> Any:
    """A view (*leading, *kernel, *size) of an array: the elements that each tap sees."""
    rank = len(kernel)
    lead, own = array.strides[:-rank], array.strides[-rank:]
    strides = (*lead, *map(int.__mul__, own, steps.dilation), *map(int.__mul__, own, steps.stride))
    shape = (*array.shape[:-rank], *kernel, *size)
    if array.flags.c_contiguous and array.size:  # the same as as_strided, with less around it
        return np.ndarray(shape, array.dtype, array, 0, strides)
    check_reach(array.shape[-rank:], kernel, size, steps)
    return as_strided(array, shape, strides)


def check_reach(shape: Sequence[int], kernel: Sequence[int], size: Sequence[int], steps: Steps) -> None:
    """Raises for windows that reach beyond the array, where strides alone would not notice."""
    ends = [(k - 1) * d + (n - 1) * s for k, d, n, s in zip(kernel, steps.dilation, size, steps.stride, strict=True)]
    if any(end >= n for end, n in zip(ends, shape, strict=True)):
        raise ValueError(f"windows of {tuple(kernel)} at {tuple(size)} places reach beyond an array of {tuple(shape)}")


def padded(array: Any, padding: Sequence[int]) -> Any:
    """A contiguous array with zeros around the last dimensions; not a copy if it is one already."""
    if not any(padding):
        return row_major(array)
    rank = len(padding)
    shape = (*array.shape[:-rank], *(n + 2 * p for n, p in zip(array.shape[-rank:], padding, strict=True)))
    made = zeros(shape, array.dtype)
    inside(made, padding)[...] = array
    return made


def inside(array: Any, padding: Sequence[int]) -> Any:
    """What is left of `padded` without the zeros around, a view."""
    ends = zip(array.shape[-len(padding) :], padding, strict=True)
    return array[(..., *(slice(p, n - p) for n, p in ends))]


def add_windows(target: Any, columns: Any, rank: int) -> None:
    """Adds (..., *kernel, ...) to a view of that shape, of which different taps share memory."""
    for tap in itertools.product(*map(range, columns.shape[1 : 1 + rank])):
        target[(_ALL, *tap)] += columns[(_ALL, *tap)]


def _columns(array: Any, kernel: Sequence[int], size: Sequence[int], steps: Steps) -> Any:
    """A view (C, *kernel, N, *size) of what was padded."""
    rank = len(kernel)
    return windows(array, kernel, size, steps).transpose(*range(1, 2 + rank), 0, *range(2 + rank, 2 + 2 * rank))


def _blocks(batch: int, size: Sequence[int], width: int) -> Iterator[tuple[slice, slice]]:
    """Parts of (N, *size), samples and rows: some samples, or some rows of one; `width` is the length of a column."""
    positions, block, columns = math.prod(size), BLOCK, COLUMNS
    if blas_team.is_used():  # several caches, each for a part of it
        block, columns = BLOCK * get_num_threads() // 2, block
    if width * positions <= block:
        step = max(1, min(block // max(width * positions, 1), columns // max(positions, 1)))
        return ((slice(n, n + step), slice(0, size[0])) for n in range(0, batch, step))
    rows = max(1, block // (width * math.prod(size[1:])))
    return ((slice(n, n + 1), slice(r, r + rows)) for n in range(batch) for r in range(0, size[0], rows))


def _matrices(array: Any, groups: int) -> Any:
    """(groups, channels of a group, the rest), copied if BLAS could not take it (a gradient that was expanded)."""
    made = array.reshape(groups, array.shape[0] // groups, -1)
    return made if min(made.strides[1:]) == made.itemsize else row_major(made)


def _is_depthwise(channels: int, weight: Any, groups: int) -> bool:
    return channels == groups == weight.shape[0] and weight.shape[1] == 1


def _directly(counted: Any, weight: Any, name: str, *given: Any) -> bool:
    """Whether a kernel for few elements did it, into `counted`, or into the weight where that is wanted."""
    direct = _direct()
    if direct is None or not direct.is_little(counted, weight):
        return False
    if name == "to_weight":
        return direct.filled_weight(weight, *given)
    return direct.filled(getattr(direct.kernels, name), counted, *given)


@functools.cache
def _direct() -> Any:
    """The module that launches those kernels; None where there is no compiler."""
    if not machine.available():
        return None
    from .kernels import conv

    return conv


def _rounds() -> Any:
    """The module that convolves on OpenBLAS's threads; None where these are not used now."""
    if not blas_team.is_used():
        return None
    from . import convolution_rounds

    return convolution_rounds


def forward(x: Any, weight: Any, bias: Any, made: Any, steps: Steps) -> Any:
    """Each window of the input times the weight."""
    groups = steps.groups
    if not x.size or not weight.size:
        made[...] = 0 if bias is None or not made.size else _along_channels(bias, made.ndim)
        return made
    if _directly(made, weight, "forward", x, weight, bias, steps):
        return made
    if _is_depthwise(x.shape[1], weight, groups):
        return _depthwise(x, weight, bias, made, steps)
    rounds = _rounds()
    if rounds is not None and rounds.convolved(
            x, weight, bias, made, steps, lambda some: _forward(x[some], weight, bias, made[some], steps)):
        return made
    work, rows = _products(made, weight), made.shape[2]
    if len(x) < min(worth(work), rows):
        x = padded(x, (steps.padding[0], *(0,) * (made.ndim - 3)))
        inner = steps._replace(padding=(0, *steps.padding[1:]))
        in_parts(
            lambda part: _forward(_seen(x, part, weight, steps), weight, bias, made[:, :, part], inner), rows, work
        )
    else:
        in_parts(lambda part: _forward(x[part], weight, bias, made[part], steps), len(x), work)
    return made


def _seen(x: Any, rows: slice, weight: Any, steps: Steps) -> Any:
    """The rows of an input that those of a result see."""
    stride, reach = steps.stride[0], steps.dilation[0] * (weight.shape[2] - 1)
    return x[:, :, rows.start * stride : (rows.stop - 1) * stride + reach + 1]


def _products(array: Any, weight: Any) -> int:
    """Multiplications of a convolution that makes this array."""
    return array.size * math.prod(weight.shape[1:])


def _forward(x: Any, weight: Any, bias: Any, made: Any, steps: Steps) -> None:
    kernel, size, groups = weight.shape[2:], made.shape[2:], steps.groups
    matrix = _matrices(weight, groups)
    offset = None if bias is None else _along_channels(bias, made.ndim)
    if is_used() and not blas_team.is_used() and _is_one_by_one(matrix, size):
        _forward_one_by_one(x, matrix, kernel, offset, made, steps)
        return
    image = padded(x, steps.padding)
    for samples, rows in _blocks(len(x), size, matrix.shape[2] * groups):
        target = made[samples, :, rows]
        taps, between = _taps(image, samples.start, rows.start, kernel, target, steps)
        _write(target, _times_columns(matrix, taps, target.shape[2:], between), offset)


def _write(target: Any, product: Any, offset: Any) -> None:
    if offset is None:
        shared(target)[...] = product
    else:
        np.add(shared(product), offset, out=target, casting="unsafe")


def _is_one_by_one(matrix: Any, size: Sequence[int]) -> bool:
    """Whether samples are multiplied one by one, in memory that is made once and stays in cache."""
    positions = math.prod(size)
    unfolded = matrix.shape[0] * matrix.shape[2] * positions
    return min(_small(matrix), positions) >= LEAST and _SINGLE <= unfolded <= BLOCK


def _image(x: Any, padding: Sequence[int]) -> tuple[Any, Any]:
    """Memory for one sample with zeros around, and where the sample goes."""
    image = np.zeros((1, x.shape[1], *(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))), x.dtype)
    return image, inside(image, padding)[0]


def _forward_one_by_one(x: Any, matrix: Any, kernel: Sequence[int], offset: Any, made: Any, steps: Steps) -> None:
    """Few calls for each sample, so that threads seldom wait for the interpreter."""
    image, place = _image(x, steps.padding)
    taps, between = _taps(image, 0, 0, kernel, made[:1], steps)
    multiply, product = _prepared(matrix, taps, made.shape[2:], between, np.matmul)
    with alone:
        for sample, target in zip(x, made):
            place[...] = sample
            multiply()
            _write(target, product[0], offset)


def _small(matrix: Any) -> int:
    """Columns that these matrices are multiplied with at once so that they are not copied; 0 if that is too few."""
    most = SMALL // math.prod(matrix.shape[1:]) // LANES * LANES
    return most if most >= LEAST else 0


def _taps(image: Any, sample: int, row: int, kernel: Sequence[int], target: Any, steps: Steps) -> tuple[Any, int]:
    """What each tap sees of a block that begins there, (N, C, *kernel, *places), and the places between rows.

    With strides of 1 the rows are one long one, together with what lies between them: it is copied several times as
    quickly, and little is computed in vain.
    """
    own, size, kind = image.strides, target.shape[2:], image.dtype
    strides = (*own[:2], *map(int.__mul__, own[2:], steps.dilation), *map(int.__mul__, own[2:], steps.stride))
    shape = (len(target), image.shape[1], *kernel, *size)
    start, between = sample * own[0] + row * steps.stride[0] * own[2], image.shape[-1] - size[-1]
    if len(size) == 1 or set(steps.stride[-2:]) != {1} or 4 * between > size[-1]:
        return np.ndarray(shape, kind, image, start, strides), 0
    length = size[-2] * image.shape[-1] - between
    return np.ndarray((*shape[:-2], length), kind, image, start, (*strides[:-2], kind.itemsize)), between


def _times_columns(matrix: Any, taps: Any, size: Sequence[int], between: int) -> Any:
    """The matrices of groups times what taps see: (N, O, *size)."""
    multiply, made = _prepared(matrix, taps, size, between, matmul)
    multiply()
    return made


def _prepared(matrix: Any, taps: Any, size: Sequence[int], between: int,
              product: Callable) -> tuple[Callable[[], None], Any]:
    """What multiplies the matrices of groups with what taps see then, and where it writes: (N, O, *size)."""
    groups, outputs, width = matrix.shape
    batch, wide = len(taps), (*size[:-1], size[-1] + between)
    positions, small = math.prod(wide), _small(matrix)
    seen = taps.shape[1 : 2 + len(size)]  # channels and kernel
    if min(small, positions) < LEAST:  # one large product of all samples
        columns = empty((*seen, batch, positions), taps.dtype)
        seen_there = _room(np.moveaxis(columns, -2, 0), taps, between)
        factor, factors = matrix, columns.reshape(groups, width, -1)
        made = target = np.empty((groups, outputs, factors.shape[2]), taps.dtype)
        shown = made.reshape(-1, batch, *wide).swapaxes(0, 1)
    else:
        cuts = -(-positions // small)
        each = positions if cuts == 1 else -(-positions // (cuts * LANES)) * LANES
        if taps.flags.c_contiguous and cuts * each == positions:
            columns, seen_there = taps, None
        else:
            columns = empty((batch, *seen, cuts * each), taps.dtype)
            if columns.__class__ is np.ndarray:  # else nobody looks at what comes out of it
                columns[..., positions:] = 0
            seen_there = _room(columns[..., :positions], taps, between)
        made = np.empty((batch, groups, outputs, cuts, each), taps.dtype)
        factor, factors = matrix[None, :, None], columns.reshape(batch, groups, width, cuts, each).swapaxes(2, 3)
        target = made.swapaxes(2, 3)
        shown = made.reshape(batch, -1, cuts * each)[..., :positions].reshape(batch, -1, *wide)

    def multiply() -> None:
        if seen_there is not None:
            seen_there[...] = taps
        product(factor, factors, out=target)

    return multiply, shown[..., : size[-1]]


def _room(columns: Any, taps: Any, between: int) -> Any:
    """Where what taps see goes in columns (N, C, *kernel, positions); what lies behind the last row becomes 0."""
    length = taps.shape[-1]
    target = columns.reshape(*taps.shape[:-1], length + between)
    if columns.__class__ is np.ndarray:  # else nobody looks at what comes out of it
        target[..., length:] = 0
    return target[..., :length]


def to_input(grad: Any, weight: Any, bias: Any, made: Any, steps: Steps) -> Any:
    """The transposed map: each element of `grad` times the weight, added up where windows overlap."""
    kernel, size, groups = weight.shape[2:], grad.shape[2:], steps.groups
    if grad.size and _directly(made, weight, "to_input", grad, weight, bias, steps):
        return made
    reach = [d * (k - 1) for d, k in zip(steps.dilation, kernel, strict=True)]
    around = tuple(r - p for r, p in zip(reach, steps.padding, strict=True))
    fitting = tuple(n + 2 * a - r for n, a, r in zip(size, around, reach, strict=True))
    is_plain = set(steps.stride) == {1} and min(around) >= 0 and fitting == made.shape[2:]
    if is_plain and weight.size <= grad.size:  # turning a large weight costs more than it saves
        return forward(grad, _turned(weight, groups), bias, made, steps._replace(padding=around))

    def by_parts() -> None:
        in_parts(lambda part: _to_input(grad[part], weight, bias, made[part], steps), len(grad),
                 _products(grad, weight))

    rounds = _rounds()
    if rounds is None or not rounds.input_gradient(grad, weight, bias, made, steps, by_parts):
        by_parts()
    return made


def _to_input(grad: Any, weight: Any, bias: Any, made: Any, steps: Steps) -> None:
    kernel, size, groups = weight.shape[2:], grad.shape[2:], steps.groups
    shape = (*made.shape[:2], *(n + 2 * p for n, p in zip(made.shape[2:], steps.padding, strict=True)))
    buffer = zeros(shape, grad.dtype)
    if bias is not None:
        buffer += _along_channels(bias, buffer.ndim)
    if grad.size and buffer.size and weight.size:
        target, by_channel, rank = _columns(buffer, kernel, size, steps), grad.swapaxes(0, 1), len(kernel)
        matrix = _matrices(weight, groups).swapaxes(1, 2)
        taps = (_ALL,) * (1 + rank)
        for block in _blocks(len(grad), size, matrix.shape[1] * groups):
            part = target[taps + block]
            rows = _matrices(by_channel[(_ALL, *block)], groups)
            product = shared(matrix * rows if matrix.shape[2] == 1 else matmul(matrix, rows))
            add_windows(part, product.reshape(part.shape), rank)
    shared(made)[...] = inside(buffer, steps.padding)


def to_weight(grad: Any, x: Any, made: Any, steps: Steps) -> Any:
    """The gradient of the weight: each element of `grad` times its window of the input, added up."""
    if not grad.size or not x.size:
        made[...] = 0
        return made
    if _directly(grad, made, "to_weight", grad, x, steps):
        return made
    if _is_depthwise(x.shape[1], made, steps.groups):
        return _depthwise_to_weight(grad, x, made, steps)

    def by_parts() -> Any:
        totals = in_parts(lambda part: _to_weight(grad[part], x[part], made, steps), len(x), _products(grad, made))
        return sum(totals).reshape(made.shape)

    rounds = _rounds()
    total = None if rounds is None else rounds.weight_gradient(grad, x, made, steps, by_parts)
    made[...] = by_parts() if total is None else total
    return made


def _to_weight(grad: Any, x: Any, made: Any, steps: Steps) -> Any:
    """What some samples add to the gradient, as matrices of groups."""
    kernel, size, groups = made.shape[2:], grad.shape[2:], steps.groups
    if blas_team.is_used():
        return _to_weight_by_samples(grad, x, made, steps)
    if is_used() and made[0].size * groups * math.prod(size) <= BLOCK:
        return _to_weight_one_by_one(grad, x, made, steps)
    columns, by_channel = _columns(padded(x, steps.padding), kernel, size, steps), grad.swapaxes(0, 1)
    taps, width = (_ALL,) * (1 + len(kernel)), made[0].size
    total: Any = 0
    for block in _blocks(len(x), size, width * groups):
        part = np.ascontiguousarray(columns[taps + block]).reshape(groups, width, -1)
        rows = _matrices(by_channel[(_ALL, *block)], groups)
        if rows.shape[1] < width:  # BLAS is quicker with the longer one first
            total += matmul(part, rows.swapaxes(1, 2)).swapaxes(1, 2)
        else:
            total += matmul(rows, part.swapaxes(1, 2))
    return total


def _to_weight_by_samples(grad: Any, x: Any, made: Any, steps: Steps) -> Any:
    """The same, a product for each sample, or for a part of its positions, so that there are enough for all threads."""
    kernel, size, groups = made.shape[2:], grad.shape[2:], steps.groups
    outputs, width, positions = len(made) // groups, made[0].size, math.prod(size)
    image, total = padded(x, steps.padding), np.zeros((groups, outputs, width), x.dtype)
    for samples, rows in _blocks(len(x), size, width * groups):
        some = grad[samples, :, rows]
        seen = windows(image[samples, :, rows.start * steps.stride[0] :], kernel, some.shape[2:], steps)
        columns = empty(seen.shape, x.dtype)
        columns[...] = seen
        count, positions = len(some), math.prod(some.shape[2:])
        cuts = next(c for c in range(-(-get_num_threads() // count), 0, -1) if positions % c == 0)
        shape = (cuts, positions // cuts)
        by_sample = row_major(some).reshape(count, groups, outputs, *shape).transpose(0, 3, 1, 2, 4)
        seen_there = columns.reshape(count, groups, width, *shape).transpose(0, 3, 1, 4, 2)
        total += matmul(by_sample, seen_there).sum((0, 1))
    return total


def _to_weight_one_by_one(grad: Any, x: Any, made: Any, steps: Steps) -> Any:
    """The same in memory for one sample, which stays in cache."""
    kernel, size, groups = made.shape[2:], grad.shape[2:], steps.groups
    outputs, width = len(made) // groups, made[0].size
    image, place = _image(x, steps.padding)
    seen = windows(image[0], kernel, size, steps)
    columns = np.empty(seen.shape, x.dtype)
    part, is_longer = columns.reshape(groups, width, -1), outputs < width  # BLAS is quicker with the longer one first
    product = np.empty((groups, width, outputs) if is_longer else (groups, outputs, width), x.dtype)
    total = np.zeros(product.shape, x.dtype)
    with alone:
        for sample, rows in zip(x, grad):
            place[...] = sample
            columns[...] = seen
            rows = rows.reshape(groups, outputs, -1)
            np.matmul(part if is_longer else rows, (rows if is_longer else part).swapaxes(1, 2), out=product)
            total += product
    return total.swapaxes(1, 2) if is_longer else total


def _along_channels(bias: Any, rank: int) -> Any:
    return bias.reshape(-1, *(1,) * (rank - 2))


def _turned(weight: Any, groups: int) -> Any:
    """The weight with inputs and outputs exchanged and the kernel mirrored."""
    shape = weight.shape
    grouped = weight.reshape(groups, shape[0] // groups, *shape[1:]).swapaxes(1, 2)
    mirrored = grouped[(..., *(slice(None, None, -1),) * (len(shape) - 2))]
    return mirrored.reshape(-1, shape[0] // groups, *shape[2:])


# one channel at a time -----------------------------------------------------------------------------------------------


def _by_channel(x: Any, kernel: Sequence[int], size: Sequence[int], steps: Steps) -> Iterable[tuple[slice, Any, Any]]:
    """Blocks of channels: which, a view (*kernel, channels, positions), and the shape that the positions have.

    Only the last dimension is unfolded. In the others a tap is an offset along all rows of all samples, the products
    of which are long: rows between samples, and those that a stride skips, are computed in vain.
    """
    step = x.itemsize
    count = max(1, BLOCK // (len(x) * math.prod(x.shape[2:-1]) * size[-1] * kernel[-1]))
    for start in range(0, x.shape[1], count):
        channels = slice(start, start + count)
        lines = padded(x[:, channels].swapaxes(0, 1), steps.padding)
        last = Steps(steps.stride[-1:], (0,), steps.dilation[-1:])
        unfolded = np.ascontiguousarray(np.moveaxis(windows(lines, kernel[-1:], size[-1:], last), -2, 0))
        shape, strides = unfolded.shape[1:], unfolded.strides
        offsets = [s * d for s, d in zip(strides[3:-1], steps.dilation, strict=False)]
        skipped = sum(o * (k - 1) for o, k in zip(offsets, kernel, strict=False)) // step
        positions = math.prod(shape[1:]) - skipped
        yield channels, as_strided(unfolded, (*kernel, shape[0], positions), (*offsets, *strides[:2], step)), shape


def _wanted(size: Sequence[int], steps: Steps) -> tuple:
    """Which of the positions computed are results."""
    return (_ALL, _ALL, *(slice(0, (n - 1) * s + 1, s) for n, s in zip(size[:-1], steps.stride, strict=False)))


def _depthwise(x: Any, weight: Any, bias: Any, made: Any, steps: Steps) -> Any:
    kernel, size = weight.shape[2:], made.shape[2:]
    names = "xyz"[: len(kernel)]
    by_channel, wanted = made.swapaxes(0, 1), _wanted(size, steps)
    for channels, taps, shape in _by_channel(x, kernel, size, steps):
        total = np.empty((shape[0], math.prod(shape[1:])), x.dtype)
        np.einsum(f"{names}cp,c{names}->cp", taps, weight[channels, 0], out=total[:, : taps.shape[-1]])
        result = total.reshape(shape)[wanted]
        by_channel[channels] = result if bias is None else result + _along_channels(bias[channels], made.ndim + 1)
    return made


def _depthwise_to_weight(grad: Any, x: Any, made: Any, steps: Steps) -> Any:
    kernel, size = made.shape[2:], grad.shape[2:]
    names = "xyz"[: len(kernel)]
    by_channel, wanted = grad.swapaxes(0, 1), _wanted(size, steps)
    for channels, taps, shape in _by_channel(x, kernel, size, steps):
        rows = np.zeros(shape, grad.dtype)
        rows[wanted] = by_channel[channels]
        rows = rows.reshape(shape[0], -1)[:, : taps.shape[-1]]
        made[channels, 0] = np.einsum(f"{names}cp,cp->c{names}", taps, rows)
    return made
