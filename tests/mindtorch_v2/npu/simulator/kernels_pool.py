"""Simulated pooling and resampling, straight from their definitions."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .kernels import KERNELS, kernel
from .kernels_conv import Ints, _windows


def _seen(x: np.ndarray, size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool,
          fill: Any) -> np.ndarray:  # fmt: skip
    """(..., *windows, *places) of the last dimensions."""
    rank, counts, ends = len(size), [], []
    stride = stride or size
    for n, k, s, p, d in zip(x.shape[-rank:], size, stride, padding, dilation, strict=True):
        span = d * (k - 1) + 1
        count = (n + 2 * p - span + (s - 1 if ceil_mode else 0)) // s + 1
        count -= bool(ceil_mode and (count - 1) * s >= n + p)
        counts.append(count)
        ends.append(max(p, (count - 1) * s + span - n - p))
    around = [(0, 0)] * (x.ndim - rank) + list(zip(padding, ends, strict=True))
    seen = _windows(np.pad(x, around, constant_values=fill), size, stride, dilation)
    return seen[(..., *map(slice, counts), *(slice(None),) * rank)]


def _places(x: np.ndarray, size: Ints, *steps: Any) -> np.ndarray:
    """(*windows, places): which element of a plane lies where, -1 for padding."""
    rank = len(size)
    plane = np.arange(np.prod(x.shape[-rank:])).reshape(x.shape[-rank:])
    seen = _seen(plane, size, *steps, -1)
    return seen.reshape(*seen.shape[:rank], -1)


def _scattered(values: np.ndarray, places: np.ndarray, x: np.ndarray, rank: int) -> np.ndarray:
    """Zeros like x with the values added at their places in their planes; a place of -1 is none."""
    size = int(np.prod(x.shape[-rank:]))
    made = np.zeros((int(np.prod(x.shape[:-rank])), size + 1), values.dtype)
    shape = (len(made), values.size // max(len(made), 1))
    places = np.broadcast_to(places, values.shape).reshape(shape)
    np.add.at(made, (np.arange(len(made))[:, None], places), values.reshape(shape))
    return made[:, :size].reshape(x.shape)


def _max_pool(x: np.ndarray, size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool) -> tuple:
    rank, steps = len(size), (stride, padding, dilation, ceil_mode)
    seen = _seen(x, size, *steps, -np.inf)
    seen = seen.reshape(*seen.shape[:-rank], -1)
    number = seen.argmax(-1)[..., None]
    places = np.broadcast_to(_places(x, size, *steps), seen.shape)
    return tuple(np.take_along_axis(values, number, -1)[..., 0] for values in (seen, places))


def _max_pool_backward(grad: np.ndarray, x: np.ndarray, indices: np.ndarray, size: Ints, *steps: Any) -> np.ndarray:
    return _scattered(grad, indices, x, len(size))


for _name in ("MaxPool2dWithIndices", "MaxPool3dWithArgmax"):
    KERNELS[f"aclnn{_name}"], KERNELS[f"aclnn{_name}Backward"] = _max_pool, _max_pool_backward


def _divisors(x: np.ndarray, size: Ints, stride: Ints, padding: Ints, ceil_mode: bool, with_padding: bool,
              override: int) -> Any:  # fmt: skip
    if override:
        return override
    rank, ones = len(size), np.ones(x.shape[-len(size) :])
    if with_padding:
        ones, padding = np.pad(ones, [(p, p) for p in padding], constant_values=1), (0,) * rank
        stride = stride or size
        ones = np.pad(ones, [(0, s + k) for s, k in zip(stride, size, strict=True)])
        seen = _windows(ones, size, stride, (1,) * rank)
    else:
        seen = _seen(ones, size, stride, padding, (1,) * rank, ceil_mode, 0)
    return seen.sum(tuple(range(-rank, 0)))


@kernel("AvgPool3d")
def avg_pool(x: np.ndarray, size: Ints, stride: Ints, padding: Ints, ceil_mode: bool, *divisor: Any) -> np.ndarray:
    rank = len(size)
    total = _seen(x, size, stride, padding, (1,) * rank, ceil_mode, 0).sum(tuple(range(-rank, 0)))
    by = _divisors(x, size, stride, padding, ceil_mode, *divisor)
    return total / (by if np.ndim(by) == 0 else by[tuple(map(slice, total.shape[-rank:]))])


@kernel("AvgPool3dBackward")
def avg_pool_backward(grad: np.ndarray, x: np.ndarray, size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
                      *divisor: Any) -> np.ndarray:  # fmt: skip
    rank = len(size)
    by = _divisors(x, size, stride, padding, ceil_mode, *divisor)
    shares = grad / (by if np.ndim(by) == 0 else by[tuple(map(slice, grad.shape[-rank:]))])
    places = _places(x, size, stride, padding, (1,) * rank, ceil_mode)
    return _scattered(np.repeat(shares[..., None], places.shape[-1], -1), places, x, rank)


KERNELS["aclnnAvgPool2d"] = lambda *values: avg_pool(*values[:-1])
KERNELS["aclnnAvgPool2dBackward"] = lambda *values: avg_pool_backward(*values[:-1])


def _parts(x: np.ndarray, counts: Ints) -> Any:
    """(window, its slices) of as many windows as are wanted."""
    sides = [[slice(i * n // c, -(-(i + 1) * n // c)) for i in range(c)]
             for n, c in zip(x.shape[-len(counts) :], counts, strict=True)]  # fmt: skip
    for number in np.ndindex(*counts):
        yield number, tuple(side[i] for side, i in zip(sides, number, strict=True))


def _adaptive_mean(x: np.ndarray, counts: Ints) -> np.ndarray:
    made = np.zeros((*x.shape[: -len(counts)], *counts), x.dtype)
    for number, part in _parts(x, counts):
        made[(..., *number)] = x[(..., *part)].mean(tuple(range(-len(counts), 0)))
    return made


def _adaptive_mean_backward(grad: np.ndarray, x: np.ndarray, rank: int) -> np.ndarray:
    made = np.zeros(x.shape, grad.dtype)
    for number, part in _parts(x, grad.shape[-rank:]):
        share = grad[(..., *number)] / np.prod([s.stop - s.start for s in part])
        made[(..., *part)] += share.reshape(*share.shape, *(1,) * rank)
    return made


for _rank in (2, 3):
    KERNELS[f"aclnnAdaptiveAvgPool{_rank}d"] = _adaptive_mean
    KERNELS[f"aclnnAdaptiveAvgPool{_rank}dBackward"] = lambda g, x, rank=_rank: _adaptive_mean_backward(g, x, rank)


@kernel("AdaptiveMaxPool2d")
def adaptive_max_pool(x: np.ndarray, counts: Ints) -> tuple:
    values, indices = (np.zeros((*x.shape[:-2], *counts), kind) for kind in (x.dtype, np.int64))
    places = np.arange(x.shape[-2] * x.shape[-1]).reshape(x.shape[-2:])
    for number, part in _parts(x, counts):
        seen = x[(..., *part)].reshape(*x.shape[:-2], -1)
        values[(..., *number)], indices[(..., *number)] = seen.max(-1), places[part].reshape(-1)[seen.argmax(-1)]
    return values, indices


KERNELS["aclnnAdaptiveMaxPool2dBackward"] = lambda grad, x, indices: _scattered(grad, indices, x, 2)
KERNELS["aclnnMaxUnpool2d"] = lambda x, indices, size: _scattered(x, indices, np.empty((*x.shape[:-2], *size)), 2)


# resampling ----------------------------------------------------------------------------------------------------------


def _cubic(x: float) -> float:
    x, a = abs(x), -0.75
    return ((a + 2) * x - (a + 3)) * x * x + 1 if x < 1 else ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0


_WEIGHTS: dict[str, tuple[range, Callable]] = {
    "linear": (range(2), lambda x: max(1 - abs(x), 0)), "cubic": (range(-1, 3), _cubic)}  # fmt: skip


def _matrix(mode: str, n: int, count: int, aligned: bool, scale: float) -> np.ndarray:
    """(results, elements): the weight of each element in each result along one dimension."""
    step = (n - 1) / max(count - 1, 1) if aligned else 1 / scale if scale else n / count
    made = np.zeros((count, n))
    for i in range(count):
        if mode == "nearest":
            made[i, min(int(i * step), n - 1)] = 1
            continue
        point = i * step if aligned else (i + 0.5) * step - 0.5
        point = max(point, 0) if mode == "linear" else point
        places, weigh = _WEIGHTS[mode]
        for at in places:
            place = int(np.floor(point)) + at
            made[i, min(max(place, 0), n - 1)] += weigh(point - place)
    return made


def _mapped(x: np.ndarray, matrices: list[np.ndarray]) -> np.ndarray:
    for d, matrix in enumerate(matrices, 2):
        x = np.moveaxis(np.tensordot(x, matrix, (d, 1)), -1, d)
    return x


def _resampler(mode: str) -> tuple[Callable, Callable]:
    def matrices(sizes: Ints, counts: Ints, settings: tuple) -> list[np.ndarray]:
        aligned, *scales = settings if mode != "nearest" else (False, *settings)
        pairs = itertools.zip_longest(sizes, counts, scales, fillvalue=0.0)
        return [_matrix(mode, n, count, aligned, scale) for n, count, scale in pairs]

    def forward(x: np.ndarray, size: Ints, *settings: Any) -> np.ndarray:
        return _mapped(x, matrices(x.shape[2:], size, settings)).astype(x.dtype)

    def backward(grad: np.ndarray, size: Ints, shape: Ints, *settings: Any) -> np.ndarray:
        return _mapped(grad, [m.T for m in matrices(shape[2:], size, settings)])

    return forward, backward


for _name, _mode in (("Nearest1d", "nearest"), ("Nearest2d", "nearest"), ("Linear1d", "linear"),
                     ("Bilinear2d", "linear"), ("Trilinear3d", "linear"), ("Bicubic2d", "cubic")):  # fmt: skip
    KERNELS[f"aclnnUpsample{_name}"], KERNELS[f"aclnnUpsample{_name}Backward"] = _resampler(_mode)
