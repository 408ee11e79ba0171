"""Pooling by windows of one size: the largest element of each, or their mean."""

import functools
import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.dtype import BOOL, COMPLEX, FLOAT, REDUCED, assign, dtype, int64, row_major
from .._core.elements import at_hand, on_host
from .._core.geometry import channels_last_strides, contiguous_strides, element_strides, proper_dim
from .._core.tensor import Tensor
from .._dispatch.keys import modes
from .._dispatch.registry import registry
from ._declare.batch import planewise
from ._declare.families import computes
from ._declare.op import composite, function_of, op
from ._declare.out import Out
from ._declare.rules import Spec, shape_text
from ._declare.samples import Case, case, cases, error, t
from .copy import suggested_strides, uninitialised
from .interpolation import table_for
from .join import constant_pad_nd
from .window_maps import Window, largest_at, mean_at

maximum = function_of(registry.get("maximum"))
Sizes = tuple[int, ...]
_AXES = {2: "HW", 3: "THW"}
_NUMBERS = {2: "two", 3: "three"}
_RANKS = {2: "3D or 4D", 3: "4D or 5D"}


# what is allowed -----------------------------------------------------------------------------------------------------


def _window(n: int, size: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> Window:
    """The windows along a dimension of n elements."""
    if stride == 0:
        raise RuntimeError("stride should not be zero")
    if padding < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {padding}")
    if padding > ((size - 1) * dilation + 1) // 2:
        raise RuntimeError(f"pad should be at most half of effective kernel size, but got pad={padding}, "
                           f"kernel_size={size} and dilation={dilation}")
    room = n + 2 * padding - dilation * (size - 1) - 1
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= n + padding:  # the last one would begin in the padding behind
        count -= 1
    return Window(size, stride, padding, dilation, count)


@functools.lru_cache(512)
def _windows(shape: Sizes, kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool,
             rank: int) -> tuple[Window, ...]:
    settings = [(value * rank)[:rank] for value in (kernel_size, stride or kernel_size, padding, dilation)]
    if any(not -(2**31) <= number < 2**31 for setting in settings for number in setting):
        raise RuntimeError("value cannot be converted to type int without overflow")
    return tuple([_window(n, size, step, pad, apart, ceil_mode)
                  for n, size, step, pad, apart in zip(shape[-rank:], *settings, strict=True)])


def _listed(names: str, values: Sequence[int], prefix: str, joint: str = ": ", between: str = " ") -> str:
    return between.join(f"{prefix}{name}{joint}{value}" for name, value in zip(names, values, strict=True))


def check_lengths(name: str, rank: int, **settings: Sizes) -> None:
    """Raises unless every setting is one int or as many as there are dimensions."""
    either = "" if name == "avg_pool3d" else "either "
    for setting, value in settings.items():
        if len(value) not in (1, rank) and (value or setting != "stride"):
            must = "must be either" if setting == "dilation" else f"must {either}be"
            omitted = " omitted," if setting == "stride" else ""
            raise RuntimeError(f"{name}: {setting} {must}{omitted} a single int, or a tuple of {_NUMBERS[rank]} ints")


def _check_windows(shape: Sizes, windows: Sequence[Window], *, mean: bool) -> None:
    rank, axes = len(windows), _AXES[len(windows)]
    sizes, strides, paddings, dilations, counts = zip(*windows, strict=True)
    for values, text, prefix in ((sizes, "kernel size", "k"), (strides, "stride", "d"), (dilations, "dilation",
                                                                                        "dilation")):
        if min(values) <= 0:
            raise RuntimeError(f"{text} should be greater than zero, but got {_listed(axes, values, prefix)}")
    if rank == 2 and (len(shape) not in (3, 4) or 0 in shape[len(shape) - 3 :]):
        raise RuntimeError("Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:"
                           + shape_text(shape))
    if rank == 3 and 0 in shape[len(shape) - 4 :]:
        name = "avg_pool3d()" if mean else "max_pool3d_with_indices_out_cpu_template()"
        raise RuntimeError(f"{name}: Expected input's non-batch dimensions to have positive length, but input has a "
                           f"shape of {shape_text(shape)} and non-batch dimension 0 has length zero!")
    if rank == 3 and mean and any(n < size for n, size in zip(shape[-3:], sizes, strict=True)):
        raise RuntimeError(f"input image ({_listed(axes, shape[-3:], '')}) smaller than kernel size "
                           f"({_listed(axes, sizes, 'k')})")
    if any(size // 2 < padding for size, padding in zip(sizes, paddings, strict=True)):
        order = axes[::-1] if rank == 2 else "TWH"
        pads, kernels = ([values[axes.index(a)] for a in order] for values in (paddings, sizes))
        shown = (f"{_listed(order, pads, 'pad', ' = ', ', ')}, {_listed(order, kernels, 'k', ' = ', ', ')}" if rank == 2
                 else f"{_listed(order, kernels, 'k')} {_listed(order, pads, 'pad')}")
        raise RuntimeError(f"pad should be smaller than or equal to half of kernel size, but got {shown}")
    if min(counts) < 1:
        given, made = (f"({'x'.join(map(str, (shape[-rank - 1], *s)))})" for s in (shape[-rank:], counts))
        raise RuntimeError(f"Given input size: {given}. Calculated output size: {made}. Output size is too small")


def refuse_type(kernel: str, kind: dtype, strides: Sizes | None = None) -> None:
    kernel = kernel if strides is None else f"{kernel}_channels_last"
    raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind.scalar_name}'")


def check_floating(kernel: str, kind: dtype, strides: Sizes | None = None) -> None:
    if kind.category != FLOAT:
        refuse_type(kernel, kind, strides)


@functools.lru_cache(512)
def _pooled_shape(shape: Sizes, name: str, rank: int, kernel_size: Sizes, stride: Sizes, padding: Sizes,
                  dilation: Sizes, ceil_mode: bool, mean: bool) -> Sizes:
    """The shape that pooling gives; raises for shapes and settings that will not do."""
    lengths = dict(kernel_size=kernel_size, stride=stride, padding=padding)
    check_lengths(name, rank, **lengths if mean else dict(**lengths, dilation=dilation))
    if mean and rank == 2 and len(shape) < 3:  # where PyTorch asks for the channels first
        proper_dim(-3, len(shape))
    if len(shape) not in (rank + 1, rank + 2) and not (mean and rank == 2):
        raise RuntimeError(f"non-empty {_RANKS[rank]} (batch mode) tensor expected for input")
    windows = _windows(shape, kernel_size, stride, padding, dilation, ceil_mode, rank)
    _check_windows(shape, windows, mean=mean)
    return (*shape[:-rank], *(w.results for w in windows))


def _pooled_spec(self: Tensor, name: str, rank: int, kernel_size: Sizes, stride: Sizes, padding: Sizes,
                 dilation: Sizes, ceil_mode: bool, *, mean: bool) -> Spec:
    """What a pooling of this tensor gives; raises every argument error."""
    kind = self.dtype
    made = _pooled_shape(self._array.shape, name, rank, kernel_size, stride, padding, dilation, ceil_mode, mean)
    strides = None if mean and rank == 3 else suggested_strides(self, made)
    if rank == 3 and len(made) == 4 and strides is not None:
        raise RuntimeError("Unsupported memory format. Supports only ChannelsLast3d, Contiguous")
    if rank == 3 and len(made) == 4 and not mean and on_host(self):
        strides = _volume_strides(self, made)
    if mean and (kind.category != FLOAT and kind is not int64 or rank == 3 and kind.np in REDUCED):
        refuse_type("avg_pool3d_out_frame" if rank == 3 else name, kind, strides)
    if kind.category in (BOOL, COMPLEX):
        refuse_type(name, kind, strides)
    return Spec(made, kind, strides)


def _volume_strides(self: Tensor, made: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides with the channels last if a volume without a batch dimension lies so, else None."""
    shape = self._array.shape
    lies_so = all(n == 1 or stride == expected for n, stride, expected in
                  zip(shape, element_strides(self._array), channels_last_strides((1, *shape))[1:], strict=True))
    return channels_last_strides((1, *made))[1:] if lies_so and not self.is_contiguous() else None


def in_strides(array: Any, spec: Spec) -> Any:
    """The array, laid out as the spec says."""
    array = array.reshape(spec.shape)
    if not at_hand(array):  # elsewhere the family sees to it
        return array
    if spec.strides is None:
        return row_major(array)
    if array.strides == tuple([s * array.itemsize for s in spec.strides]):
        return array
    made = uninitialised(spec)
    assign(made, array)
    return made


# the largest of each window ------------------------------------------------------------------------------------------

_BLOCK = 1 << 17  # elements that are pooled at a time, so that what lies between the steps stays in cache
_LITTLE = 1 << 13  # elements of all windows up to which they are gathered at once
_FEW = 16  # places in a window up to which their largest element alone is found step by step
_MANY = 32  # places in a window from which on an argmax over them is quicker than a step for each


def _every(xp: Any, planes: Any, windows: Sequence[Window], phase: Sizes, lengths: Sizes, fill: Any) -> Any:
    """The elements that lie strides apart, `phase` behind the first window's start; `fill` where there are none."""
    target, source = [slice(None)], [slice(None)]
    for w, n, start, length in zip(windows, planes.shape[1:], phase, lengths, strict=True):
        first = max(0, -((start - w.padding) // w.stride))
        end = max(first, min(length, -((start - n - w.padding) // w.stride)))
        begin = start + w.stride * first - w.padding
        target.append(slice(first, end))
        source.append(slice(begin, begin + w.stride * (end - first), w.stride))
    made = xp.full((len(planes), *lengths), fill, planes.dtype)
    made[tuple(target)] = planes[tuple(source)]
    return made


def _places(xp: Any, planes: Any, windows: Sequence[Window], fill: Any) -> tuple[list, Sizes]:
    """For each place in a window the elements there, as flat arrays of one shape; their valid part comes first.

    What lies a stride apart is brought side by side. Then a place is a shift of a whole array.
    """
    lengths = tuple([w.results + (w.size - 1) * w.dilation // w.stride for w in windows])
    steps, size = contiguous_strides(lengths), math.prod(lengths) * len(planes)
    phases: dict[Sizes, Any] = {}
    starts = []
    for place in itertools.product(*[range(w.size) for w in windows]):
        shifts, phase = zip(*[divmod(at * w.dilation, w.stride) for at, w in zip(place, windows, strict=True)],
                            strict=True)
        if phase not in phases:
            phases[phase] = _every(xp, planes, windows, phase, lengths, fill).reshape(-1)
        starts.append((phase, sum(map(int.__mul__, shifts, steps))))
    span = size - starts[-1][1]
    return [phases[phase][start : start + span] for phase, start in starts], (len(planes), *lengths)


def largest_of(xp: Any, arrays: Sequence[Any]) -> tuple[Any, Any]:
    """Elementwise the largest, and the number of the first array that has it; NaN is largest, there the last counts."""
    largest = arrays[0].copy()
    for array in arrays[1:]:
        xp.maximum(largest, array, out=largest)
    number = xp.zeros(largest.shape, xp.uint8 if len(arrays) < 256 else xp.int64)
    unmatched = xp.ones(largest.shape, bool)
    for array in arrays:
        unmatched &= array != largest
        number += unmatched.view(xp.uint8)
    if not at_hand(unmatched) or unmatched.any():
        for i, array in enumerate(arrays):
            number[xp.isnan(array)] = i
    return largest, number


def largest_in(xp: Any, windows: Any) -> tuple[Any, Any]:
    """As `largest_of`, over the last dimension."""
    number = windows.argmax(-1)
    largest = xp.take_along_axis(windows, number[..., None], -1)[..., 0]
    missing = largest != largest
    if missing.any():
        nan = xp.isnan(windows[missing])
        number[missing] = nan.shape[-1] - 1 - nan[:, ::-1].argmax(-1)
    return largest, number


def _largest(xp: Any, planes: Any, windows: Sequence[Window], fill: Any) -> tuple[Any, Any]:
    """The largest element of each window, and the number of its place in the window."""
    counts = tuple([w.results for w in windows])
    places = math.prod([w.size for w in windows])
    if places > _MANY and math.prod(counts) * places <= 4 * planes[:1].size:
        spans = tuple([(w.size - 1) * w.dilation + 1 for w in windows])
        single = [w._replace(stride=1) for w in windows]
        reach = tuple([(w.results - 1) * w.stride + span for w, span in zip(windows, spans, strict=True)])
        filled = _every(xp, planes, single, (0,) * len(windows), reach, fill)
        shown = xp.lib.stride_tricks.sliding_window_view(filled, spans, tuple(range(1, planes.ndim)))
        shown = shown[(slice(None), *(slice(None, None, w.stride) for w in windows),
                       *(slice(None, None, w.dilation) for w in windows))]
        return largest_in(xp, shown.reshape(len(planes), *counts, places))
    arrays, shape = _places(xp, planes, windows, fill)
    valid = (slice(None), *map(slice, counts))
    made = []
    for part in largest_of(xp, arrays):
        whole = xp.empty(math.prod(shape), part.dtype)
        whole[: part.size] = part
        made.append(whole.reshape(shape)[valid])
    return made[0], made[1]


def in_plane(xp: Any, starts: Sequence[Any], places: Sequence[Sequence[int]], sizes: Sizes) -> tuple[Any, Any]:
    """Where in a plane of these sizes windows start, and how far behind that each of their places lies.

    `starts` and `places` are by dimension; the starts have the windows' shape or broadcast to it.
    """
    base, of_place = 0, xp.zeros(1, xp.int64)
    for start, at, step in zip(starts, places, contiguous_strides(sizes), strict=True):
        base = base + start * step
        of_place = (of_place[:, None] + xp.asarray(at, xp.int64) * step).reshape(-1)
    return base, of_place


def _along(xp: Any, values: Sequence[int], d: int, rank: int) -> Any:
    """An integer for each place along one of several dimensions."""
    return xp.asarray(values, xp.int64).reshape((-1,) + (1,) * (rank - 1 - d))


@functools.lru_cache(256)
def _inside(windows: tuple[Window, ...], sizes: Sizes) -> bool:
    """Whether no window reaches into padding."""
    return all(w.padding == 0 and w.starts()[-1] + (w.size - 1) * w.dilation < n
               for w, n in zip(windows, sizes, strict=True))


@functools.lru_cache(256)
def _tables(xp: Any, windows: tuple[Window, ...], sizes: Sizes) -> tuple[Any, Any, Any]:
    """What `in_plane` says, and the number of each window's first place that is no padding; None without padding."""
    rank, first = len(windows), 0
    starts = [_along(xp, w.starts(), d, rank) for d, w in enumerate(windows)]
    base, of_place = in_plane(xp, starts, [range(0, w.size * w.dilation, w.dilation) for w in windows], sizes)
    if _inside(windows, sizes):
        return base, of_place, None
    for d, w in enumerate(windows):
        first = first * w.size + _along(xp, [max(0, -(start // w.dilation)) for start in w.starts()], d, rank)
    return base, of_place, first


@functools.lru_cache(256)
def _elements(xp: Any, windows: tuple[Window, ...], sizes: Sizes) -> Any:
    """Where in a plane the elements of each window are, a row for each; padding repeats the first."""
    rank, step, made = len(windows), 1, xp.zeros((), xp.int64)
    for d, (w, n) in reversed(list(enumerate(zip(windows, sizes, strict=True)))):
        at = [[start + i * w.dilation for i in range(w.size)] for start in w.starts()]
        inside = [[c if 0 <= c < n else next(c for c in row if 0 <= c < n) for c in row] for row in at]
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = w.results, w.size
        made = made + xp.asarray(inside, xp.int64).reshape(shape) * step
        step *= n
    return made.reshape(math.prod([w.results for w in windows]), -1)


def _max_pooled_at_once(xp: Any, self: Any, windows: tuple[Window, ...], sizes: Sizes) -> tuple[Any, Any] | None:
    """As `max_pooled` does it for little data, where each step would cost more than its work; None if there is NaN."""
    elements = _elements(xp, windows, sizes)
    taken = self.reshape(-1, math.prod(sizes)).take(elements, 1)
    values, number = taken.max(-1), taken.argmax(-1)
    total = values.sum()
    if total != total:
        return None
    number += xp.arange(0, elements.size, elements.shape[1])
    return values, elements.reshape(-1).take(number)


def max_pooled(xp: Any, self: Any, windows: tuple[Window, ...], spec: tuple[Spec, Spec]) -> tuple[Any, Any]:
    """The largest element of each window, and its index in its plane."""
    sizes = self.shape[-len(windows) :]
    if at_hand(self) and math.prod(spec[0].shape) * math.prod([w.size for w in windows]) <= _LITTLE and self.size:
        little = _max_pooled_at_once(xp, self, windows, sizes)
        if little is not None:
            return in_strides(little[0], spec[0]), in_strides(little[1], spec[1])
    planes = self.reshape(-1, *sizes)
    fill = -xp.inf if self.dtype.kind == "f" else xp.iinfo(self.dtype).min
    values, indices = (xp.empty((len(planes), *(w.results for w in windows)), kind) for kind in (self.dtype, xp.int64))
    base, of_place, first = _tables(xp, windows, sizes)
    step = max(1, _BLOCK // max(1, math.prod(sizes)))
    for at in range(0, len(planes), step):
        block = slice(at, at + step)
        value, number = _largest(xp, planes[block], windows, fill)
        if first is not None:
            lowest = value == fill
            if lowest.any():  # as low as the padding
                number = xp.where(lowest, first, number)
        values[block] = value
        xp.add(of_place.take(number), base, out=indices[block])
    return in_strides(values, spec[0]), in_strides(indices, spec[1])


def index_spec(spec: Spec) -> Spec:
    return spec._replace(dtype=int64)


# back to where the largest were --------------------------------------------------------------------------------------


def flat_index(xp: Any, indices: Any, rank: int, size: int) -> Any:
    """Indices in planes of a size as indices in all of them together."""
    planes = indices.reshape(-1, math.prod(indices.shape[-rank:]))
    return (planes + xp.arange(0, len(planes) * size, size)[:, None]).reshape(-1)


def returned_to(xp: Any, grad: Any, indices: Any, rank: int, shape: Sizes) -> Any:
    """Zeros of a shape, with each gradient added at its index in its plane."""
    made = xp.zeros(shape, grad.dtype)
    flat = flat_index(xp, indices, rank, math.prod(shape[-rank:]))
    xp.add.at(made.reshape(-1), flat, xp.ascontiguousarray(grad).reshape(-1))
    return made


def taken_at(values: Any, indices: Any, rank: int) -> Any:
    """The elements at indices in their planes."""
    if not indices.numel():
        return values.new_empty(indices.shape)
    return values.flatten(-rank).gather(-1, indices.flatten(-rank)).reshape(indices.shape)


def check_returned(grad_output: Tensor, indices: Tensor) -> None:
    if grad_output._array.shape != indices._array.shape:
        raise RuntimeError("Expected the gradient and the indices to have one shape, but got "
                           f"{shape_text(grad_output.shape)} and {shape_text(indices.shape)}")


_INDICES = (case(t(1, 2, 5, 6), 3, 2, 1), case(t(2, 6, 5), (3, 2), (2, 1), (1, 0)), case(t(1, 1, 7, 7), 2, 3, 0, 2),
            case(t(1, 2, 6, 7), 3, 2, 1, 1, True), case(t(0, 2, 4, 4), 2), case(t(1, 1, 12, 13), 7, 6, 3),
            case(t(1, 2, 4, 4, layout="transposed"), 2),
            error(RuntimeError, "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and "
                                "dilation=1", t(1, 1, 4, 4), 2, 1, 2),
            error(RuntimeError, "Given input size: (1x4x4). Calculated output size: (1x0x0). Output size is too small",
                  t(1, 1, 4, 4), 9),
            error(RuntimeError, "max_pool2d: stride must either be omitted, a single int, or a tuple of two ints",
                  t(1, 1, 4, 4), 2, (1, 1, 1)))


def _of_rank_3(samples: Sequence[Case]) -> list[Case]:
    """The samples for planes as samples for volumes: with a dimension of 8 in front, every setting for it too."""
    made = []
    for each in samples:
        if each.raises is None:
            first, *rest = each.args
            volume = t(*first.shape[:-2], 8, *first.shape[-2:], layout=first.layout)
            made.append(case(volume, *[(r[0], *r) if isinstance(r, tuple) else r for r in rest], **each.kwargs))
    return made


_WINDOW = "int[{n}] kernel_size, int[{n}]? stride=[], int[{n}] padding=0, "
_DILATED = _WINDOW + "int[{n}] dilation=1, bool ceil_mode=False"
with_indices: dict[int, Callable] = {}


def without_defaults(settings: str) -> str:
    """A schema's arguments without their defaults, as a backward takes them."""
    return re.sub(r"=[^,]+", "", settings.replace("]? ", "] "))


def _declare_max_pool(rank: int) -> None:
    name = f"max_pool{rank}d"
    settings = _DILATED.format(n=rank)
    samples = _INDICES if rank == 2 else _of_rank_3(_INDICES)

    def specs(self, kernel_size, stride, padding, dilation, ceil_mode):
        spec = _pooled_spec(self, name, rank, kernel_size, stride or (), padding, dilation, ceil_mode, mean=False)
        return spec, index_spec(spec)

    def array(xp, self, kernel_size, stride, padding, dilation, ceil_mode, spec):
        windows = _windows(self.shape, kernel_size, stride or (), padding, dilation, ceil_mode, rank)
        return max_pooled(xp, self, windows, spec)

    def backward_spec(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
        check_returned(grad_output, indices)
        check_floating(f"{name}_backward", grad_output.dtype)
        shape = self._array.shape
        return Spec(shape, grad_output.dtype, suggested_strides(self, shape))

    def backward_array(xp, grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices, spec):
        return in_strides(returned_to(xp, grad_output, indices, rank, self.shape), spec)

    def largest(g, self, kernel_size, stride, padding, dilation, ceil_mode):
        return largest_at(g, self, _windows(self.shape, kernel_size, stride or (), padding, dilation, ceil_mode, rank))

    def by_parts(self, kernel_size, stride, padding, dilation, ceil_mode):
        """The windows' elements side by side, and the largest of each."""
        sizes = tuple(self.shape[-rank:])
        windows = _windows(self.shape, kernel_size, stride or (), padding, dilation, ceil_mode, rank)
        at = _elements(np, windows, sizes)
        shape = (*self.shape[:-rank], *[w.results for w in windows])
        planes = self.reshape((*self.shape[:-rank], math.prod(sizes)))
        if not planes.numel():
            return self.new_empty(shape), self.new_empty(shape, dtype=int64)
        where = table_for(self, at.reshape(-1, math.prod([w.size for w in windows])))
        shown = planes.index_select(-1, where.reshape((-1,))).reshape((*planes.shape[:-1], *where.shape))
        largest, number = shown.max(-1)
        indices = where.expand(shown.shape).gather(-1, number.unsqueeze(-1))
        return largest.reshape(shape), indices.reshape(shape)

    def backward_by_parts(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
        if not grad_output.numel():
            return grad_output.new_zeros(self.shape)
        made = grad_output.new_zeros((*self.shape[:-rank], math.prod(self.shape[-rank:])))
        flat = [each.reshape((*each.shape[:-rank], -1)) for each in (indices, grad_output)]
        return made.scatter_add(-1, *flat).reshape(self.shape)

    words = {2: "2dWithIndices", 3: "3dWithArgmax"}[rank]
    shown = "kernel_size, stride|[], padding, dilation, ceil_mode"
    backward = function_of(op(
        f"{name}_with_indices_backward(Tensor grad_output, Tensor self, {without_defaults(settings)}, Tensor indices)"
        " -> Tensor",
        kernel=computes(backward_spec, backward_array), public="", kernels={"cpu": f"pool.{name}_backward"},
        npu=f"aclnnMaxPool{words}Backward(grad_output, self, indices, {shown.replace('|[]', '')}, out)",
        grad=dict(grad_output=lambda grad, indices: taken_at(grad, indices, rank)),
        samples=cases(case(t(1, 2, *(2,) * rank), t(1, 2, *(5,) * rank), *[(n,) * rank for n in (2, 2, 0, 1)], False,
                           t(1, 2, *(2,) * rank, kind="int", low=0, high=5**rank, grad=False))),
        batch=planewise(rank + 2), decomposition=backward_by_parts, sharded=f"batched -{rank}"))

    def grad(grads, self, kernel_size, stride, padding, dilation, ceil_mode, result1):
        steps = stride or kernel_size
        return backward(grads[0], self, kernel_size, steps, padding, dilation, ceil_mode, result1)

    pooled = function_of(op(
        f"{name}_with_indices(Tensor self, {settings}) -> (Tensor result, Tensor result1)",
        kernel=computes(specs, array), public="_nn",
        npu=f"aclnnMaxPool{words}(self, {shown}, result, result1)",
        kernels={"cpu": f"pool.{name}", "cuda": "pool.max_pool"}, gathers=largest,
        grad=dict(self=grad), samples=cases(*samples), batch=planewise(rank + 2), decomposition=by_parts,
        sharded=f"batched -{rank}"))

    @composite(f"{name}(Tensor self, {settings}) -> Tensor", public="torch", samples=cases(*samples), out=None,
               autocast=dict(cpu="float32") if rank == 3 else None)
    def _max_pool(self, *given):
        return pooled(self, *given)[0]

    with_indices[rank] = pooled


_declare_max_pool(2)
_declare_max_pool(3)


def check_one(name: str, **settings: Sizes) -> None:
    """Raises unless every setting is one int; an empty stride stands for the kernel's size."""
    for setting, value in settings.items():
        if len(value) != 1 and (value or setting != "stride"):
            raise RuntimeError(f"{name}() argument '{setting}' should contain one int (got {len(value)})")


def check_rank_1(self: Tensor, name: str) -> None:
    if self.dim() not in (2, 3):
        raise RuntimeError(f"Expected 2 to 3 dimensions, but got {self.dim()}-dimensional tensor for argument #1 "
                           f"'self' (while checking arguments for {name})")


_ROWS = (case(t(2, 3, 7), 3, 2, 1), case(t(3, 6), 2), case(t(1, 2, 8), (3,), (1,), (1,), (2,), True))


@composite(f"max_pool1d_with_indices(Tensor self, {_DILATED.format(n=1)}) -> (Tensor result, Tensor result1)",
           public="torch", samples=cases(*_ROWS), out=None)
def max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest element of each window along the last dimension, and its index."""
    stride = stride or ()
    check_rank_1(self, "max_pool1d")
    check_one("max_pool1d", kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation)
    flat = [(other, *given) if given else () for other, given in ((1, kernel_size), (1, stride), (0, padding),
                                                                 (1, dilation))]
    return tuple(part.squeeze(-2) for part in with_indices[2](self.unsqueeze(-2), *flat, ceil_mode))


@composite(f"max_pool1d(Tensor self, {_DILATED.format(n=1)}) -> Tensor", public="torch",
           samples=cases(*_ROWS, error(RuntimeError, "max_pool1d() padding should be at most half of kernel size, but "
                                                     "got padding=2 and kernel_size=2", t(1, 4), 2, 1, 2)), out=None)
def _max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode):
    if self.dim() not in (2, 3) or 0 in self.shape[-2:]:
        raise RuntimeError("max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
                           f"input, but got:{shape_text(self.shape)}")
    stride = stride or ()
    for setting, value, other in (("kernel_size", kernel_size, "an int, list of ints or"),
                                  ("stride", stride, "None, an int, list of ints, or"),
                                  ("padding", padding, "an int, list of ints, or"),
                                  ("dilation", dilation, "an int, list of ints or")):
        if len(value) != 1 and (value or setting != "stride"):
            raise RuntimeError(f"max_pool1d() {setting} must be {other} tuple of ints of size 1 but got size "
                               f"{len(value)}")
    for setting, value in (("kernel_size", kernel_size), ("stride", stride), ("dilation", dilation)):
        if value and value[0] <= 0:
            raise RuntimeError(f"max_pool1d() {setting} must be greater than zero, but got {value[0]}")
    if padding[0] < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {padding[0]}")
    if padding[0] > kernel_size[0] // 2:
        raise RuntimeError("max_pool1d() padding should be at most half of kernel size, but got "
                           f"padding={padding[0]} and kernel_size={kernel_size[0]}")
    count = _window(self.shape[-1], kernel_size[0], *(stride or kernel_size), *padding, *dilation, ceil_mode).results
    if count < 1:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {count}")
    if self.dtype.category != FLOAT:
        refuse_type("max_pool1d_impl", self.dtype)
    recorded = modes.grad_enabled and self.requires_grad
    if not recorded:
        self = self.contiguous()  # so is the result
    if kernel_size[0] > _FEW or recorded:
        return max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]
    step, last = (stride or kernel_size)[0], (count - 1) * (stride or kernel_size)[0] + 1
    reach = last + (kernel_size[0] - 1) * dilation[0]
    around = (padding[0], max(0, reach - self.shape[-1] - padding[0]))
    row = constant_pad_nd(self, around, -math.inf) if any(around) else self
    starts = range(0, kernel_size[0] * dilation[0], dilation[0])
    parts = [row[..., start : start + last : step] for start in starts]
    return functools.reduce(maximum, parts[1:], parts[0] if parts[1:] else parts[0].clone())


# means of windows ----------------------------------------------------------------------------------------------------


def _at(d: int, part: slice) -> tuple:
    return (*(slice(None),) * d, part)


def window_sums(xp: Any, planes: Any, windows: Sequence[Window]) -> Any:
    """The sum of each window, one dimension after the other."""
    for d, w in enumerate(windows, 1):
        n, reach = planes.shape[d], (w.results - 1) * w.stride + w.size
        if w.padding or reach > n:
            padded = xp.zeros((*planes.shape[:d], max(reach, w.padding + n), *planes.shape[d + 1 :]), planes.dtype)
            padded[_at(d, slice(w.padding, w.padding + n))] = planes
            planes = padded
        last = (w.results - 1) * w.stride + 1
        total = planes[_at(d, slice(0, last, w.stride))].copy()
        for start in range(1, w.size):
            total += planes[_at(d, slice(start, start + last, w.stride))]
        planes = total
    return planes


def _spread(xp: Any, grad: Any, windows: Sequence[Window], sizes: Sizes) -> Any:
    """Each window's value added to all of its elements: the transpose of `window_sums`."""
    for d, (w, n) in enumerate(zip(windows, sizes, strict=True), 1):
        if w.padding == 0 and w.stride == w.size and w.results * w.size == n:
            grad = xp.repeat(grad, n // w.results, d)
            continue
        last = (w.results - 1) * w.stride + 1
        length = max(last - 1 + w.size, w.padding + n)
        made = xp.zeros((*grad.shape[:d], length, *grad.shape[d + 1 :]), grad.dtype)
        for start in range(w.size):
            made[_at(d, slice(start, start + last, w.stride))] += grad
        grad = made[_at(d, slice(w.padding, w.padding + n))]
    return grad


@functools.lru_cache(256)
def _divisors(xp: Any, windows: tuple[Window, ...], sizes: Sizes, count_include_pad: bool,
              divisor_override: int | None) -> Any:
    """How many elements each window has."""
    if divisor_override is not None:
        return xp.asarray(divisor_override)
    divisor = xp.ones((), xp.int64)
    for d, (w, n) in enumerate(zip(windows, sizes, strict=True)):
        ends = [min(start + w.size, n + w.padding) for start in w.starts()]
        counts = [end - start if count_include_pad else min(end, n) - max(start, 0)
                  for start, end in zip(w.starts(), ends, strict=True)]
        divisor = divisor * _along(xp, counts, d, len(windows))
    return divisor


def _divided(xp: Any, total: Any, divisor: Any) -> Any:
    """The quotient; of integers, the whole part."""
    if total.dtype.kind == "f":
        return total / divisor.astype(total.dtype)
    return xp.sign(total) * xp.sign(divisor) * (abs(total) // abs(divisor))


_MEAN = _WINDOW + "bool ceil_mode=False, bool count_include_pad=True"
_MEANS = (case(t(1, 2, 5, 6), 3, 2, 1), case(t(2, 6, 5), (3, 2), (2, 1), (1, 0)), case(t(1, 2, 6, 7), 3, 2, 1, True),
          case(t(1, 2, 6, 7), 3, 2, 1, True, False), case(t(1, 2, 4, 4), 2, divisor_override=3), case(t(0, 2, 4, 4), 2),
          case(t(1, 2, 4, 4, layout="transposed"), 2),
          error(RuntimeError, "divisor must be not zero", t(1, 1, 4, 4), 2, divisor_override=0),
          error(RuntimeError, "avg_pool2d: stride must either be omitted, a single int, or a tuple of two ints",
                t(1, 1, 4, 4), 2, (1, 1, 1)))
_avg_pools: dict[int, Callable] = {}


def _declare_avg_pool(rank: int) -> None:
    name = f"avg_pool{rank}d"
    settings = _MEAN.format(n=rank) + ", int? divisor_override=None"

    def windows_of(shape, kernel_size, stride, padding, ceil_mode):
        return _windows(shape, kernel_size, stride or (), padding, (1,), ceil_mode, rank)

    def check(self, kernel_size, stride, padding, ceil_mode, divisor_override):
        if divisor_override == 0:
            raise RuntimeError("divisor must be not zero")
        spec = _pooled_spec(self, name, rank, kernel_size, stride or (), padding, (1,), ceil_mode, mean=True)
        return spec

    def array(xp, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, spec):
        windows, sizes = windows_of(self.shape, kernel_size, stride, padding, ceil_mode), self.shape[-rank:]
        if self.size <= _LITTLE and _inside(windows, sizes):
            total = self.reshape(-1, math.prod(sizes)).take(_elements(xp, windows, sizes), 1).sum(-1, dtype=self.dtype)
            total = total.reshape(spec.shape)
        else:
            total = window_sums(xp, self.reshape(-1, *sizes), windows).reshape(spec.shape)
        divisor = _divisors(xp, windows, sizes, count_include_pad, divisor_override)
        return in_strides(_divided(xp, total, divisor), spec)

    def mean(g, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        windows = windows_of(self.shape, kernel_size, stride, padding, ceil_mode)
        return mean_at(g, self, windows, count_include_pad, divisor_override)

    def backward_spec(grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        spec, shape = check(self, kernel_size, stride, padding, ceil_mode, divisor_override), self._array.shape
        if grad_output._array.shape != spec.shape:
            raise RuntimeError(f"Expected a gradient of shape {shape_text(spec.shape)}, but got "
                               f"{shape_text(grad_output.shape)}")
        return Spec(shape, grad_output.dtype, suggested_strides(self, shape) if rank == 2 else None)

    def backward_array(xp, grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                       divisor_override, spec):
        windows, sizes = windows_of(self.shape, kernel_size, stride, padding, ceil_mode), self.shape[-rank:]
        divisor = _divisors(xp, windows, sizes, count_include_pad, divisor_override)
        shares = _divided(xp, grad_output.reshape(-1, *grad_output.shape[-rank:]), divisor)
        spread = _spread(xp, shares, windows, sizes)
        return in_strides(xp.ascontiguousarray(spread), spec)

    row = ("kernel_size, stride|[], padding, ceil_mode, count_include_pad, divisor_override|0"
           + (", cubeMathType=0" if rank == 2 else ""))
    backward = function_of(op(
        f"{name}_backward(Tensor grad_output, Tensor self, {without_defaults(settings)}) -> Tensor", public="",
        kernel=computes(backward_spec, backward_array), kernels={"cpu": f"pool.{name}_backward"},
        npu=f"aclnnAvgPool{rank}dBackward(grad_output, self, {row.replace('|[]', '')}, out)",
        grad=dict(grad_output=lambda grad, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override:
                  _avg_pools[rank](grad, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)),
        samples=cases(case(t(1, 2, *(2,) * rank), t(1, 2, *(5,) * rank), (2,) * rank, (2,) * rank, (0,) * rank, False,
                           True, None),
                      case(t(1, 2, *(3,) * rank), t(1, 2, *(5,) * rank), (3,) * rank, (2,) * rank, (1,) * rank, False,
                           False, None)), batch=planewise(rank + 2), sharded=f"batched -{rank}"))

    def grad(grad, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        steps = stride or kernel_size
        return backward(grad, self, kernel_size, steps, padding, ceil_mode, count_include_pad, divisor_override)

    _avg_pools[rank] = function_of(op(
        f"{name}(Tensor self, {settings}) -> Tensor", public="nn.functional",
        kernel=computes(lambda self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override:
                        check(self, kernel_size, stride, padding, ceil_mode, divisor_override), array),
        npu=f"aclnnAvgPool{rank}d(self, {row}, out)", kernels={"cpu": f"pool.{name}"}, gathers=mean,
        grad=dict(self=grad), samples=cases(*(_MEANS if rank == 2 else _of_rank_3(_MEANS))),
        batch=planewise(rank + 2), sharded=f"batched -{rank}",
        out=Out(names=f"nn.functional.{name}"), autocast=dict(cpu="float32") if rank == 3 else None))


_declare_avg_pool(2)
_declare_avg_pool(3)


@composite(f"avg_pool1d(Tensor self, {_MEAN.format(n=1)}) -> Tensor", public="torch nn.functional",
           samples=cases(case(t(2, 3, 7), 3, 2, 1), case(t(3, 6), 2), case(t(1, 2, 8), (3,), (2,), (1,), True, False),
                         error(RuntimeError, "avg_pool1d() argument 'stride' should contain one int (got 2)", t(1, 4),
                               2, (1, 1))), out=None)
def _avg_pool1d(self, kernel_size, stride, padding, ceil_mode, count_include_pad):
    stride = stride or ()
    check_one("avg_pool1d", kernel_size=kernel_size, stride=stride, padding=padding)
    check_rank_1(self, "avg_pool1d")
    flat = [(other, *given) if given else () for other, given in ((1, kernel_size), (1, stride), (0, padding))]
    return _avg_pools[2](self.unsqueeze(-2), *flat, ceil_mode, count_include_pad).squeeze(-2)
