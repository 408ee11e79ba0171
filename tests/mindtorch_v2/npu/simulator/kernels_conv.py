"""Simulated convolutions, straight from their definition."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .kernels import KERNELS, kernel

Ints = tuple[int, ...]


def _windows(x: np.ndarray, kernel_size: Ints, stride: Ints, dilation: Ints) -> np.ndarray:
    """(N, C, *positions, *kernel) of the last dimensions."""
    axes = tuple(range(x.ndim - len(kernel_size), x.ndim))
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel_size, strict=True))
    seen = sliding_window_view(x, reach, axes)
    return seen[(..., *(slice(None, None, s) for s in stride), *(slice(None, None, d) for d in dilation))]


def _around(x: np.ndarray, before: Ints, after: Ints) -> np.ndarray:
    """Zeros around the last dimensions; elements less where a number is negative."""
    lead = [(0, 0)] * (x.ndim - len(before))
    x = np.pad(x, [*lead, *((max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True))])
    return x[(..., *(slice(max(-b, 0), n - max(-a, 0))
                     for b, a, n in zip(before, after, x.shape[len(lead) :], strict=True)))]


def _forward(x: np.ndarray, weight: np.ndarray, stride: Ints, padding: Ints, dilation: Ints,
             groups: int) -> np.ndarray:  # fmt: skip
    seen = _windows(_around(x, padding, padding), weight.shape[2:], stride, dilation)
    rank = weight.ndim - 2
    parts = [np.tensordot(s, w, ((1, *range(2 + rank, 2 + 2 * rank)), range(1, 2 + rank)))
             for s, w in zip(np.split(seen, groups, 1), np.split(weight, groups), strict=True)]
    return np.moveaxis(np.concatenate(parts, -1), -1, 1)


def _transposed(x: np.ndarray, weight: np.ndarray, stride: Ints, padding: Ints, dilation: Ints, groups: int,
                extra: Ints) -> np.ndarray:  # fmt: skip
    """The convolution of the input, with zeros between its elements, with the mirrored weight."""
    spread = np.zeros((*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True))), x.dtype)
    spread[(..., *(slice(None, None, s) for s in stride))] = x
    ends = tuple(d * (k - 1) - p for d, k, p in zip(dilation, weight.shape[2:], padding, strict=True))
    spread = _around(spread, ends, tuple(e + o for e, o in zip(ends, extra, strict=True)))
    mirrored = np.flip(weight, tuple(range(2, weight.ndim)))
    turned = np.concatenate([w.swapaxes(0, 1) for w in np.split(mirrored, groups)])
    ones = (1,) * len(stride)
    return _forward(spread, turned, ones, (0,) * len(stride), dilation, groups)


@kernel("Convolution")
def convolution(x: np.ndarray, weight: np.ndarray, bias: Any, stride: Ints, padding: Ints, dilation: Ints,
                transposed: bool, extra: Ints, groups: int, cube: int) -> np.ndarray:  # fmt: skip
    steps = stride, padding, dilation, groups
    made = _transposed(x, weight, *steps, extra) if transposed else _forward(x, weight, *steps)
    return made if bias is None else made + bias.reshape(-1, *(1,) * len(stride))


@kernel("ConvolutionBackward")
def convolution_backward(grad: np.ndarray, x: np.ndarray, weight: np.ndarray, bias_sizes: Any, stride: Ints,
                         padding: Ints, dilation: Ints, transposed: bool, extra: Ints, groups: int,
                         mask: tuple[bool, ...], cube: int) -> tuple:  # fmt: skip
    steps, rank = (stride, padding, dilation, groups), len(stride)
    if transposed:
        of_x = _forward(grad, weight, *steps)
    else:
        plain = _transposed(grad, weight, *steps, (0,) * rank)
        missing = tuple(a - b for a, b in zip(x.shape[2:], plain.shape[2:], strict=True))
        of_x = _transposed(grad, weight, *steps, missing)
    single, windowed = (x, grad) if transposed else (grad, x)
    seen = _windows(_around(windowed, padding, padding), weight.shape[2:], stride, dilation)
    seen = seen[(slice(None), slice(None), *(slice(n) for n in single.shape[2:]))]
    positions = (0, *range(2, 2 + rank))
    of_weight = np.concatenate([np.tensordot(g, s, (positions, positions)) for g, s in zip(
        np.split(single, groups, 1), np.split(seen, groups, 1), strict=True)])  # fmt: skip
    made = of_x, of_weight, grad.sum(positions)
    return tuple(value if wanted else None for value, wanted in zip(made, mask, strict=True))


def _im2col(x: np.ndarray, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> np.ndarray:
    seen = _windows(_around(x, padding, padding), kernel_size, stride, dilation)
    seen = np.moveaxis(seen, (-2, -1), (-4, -3))
    return seen.reshape(*x.shape[:-3], x.shape[-3] * kernel_size[0] * kernel_size[1], -1)


KERNELS["aclnnIm2col"] = _im2col


@kernel("Im2colBackward")
def im2col_backward(columns: np.ndarray, size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints,
                    stride: Ints) -> np.ndarray:  # fmt: skip
    """Each column goes where the numbers of places, unfolded, say that it came from."""
    whole = tuple(n + 2 * p for n, p in zip(size, padding, strict=True))
    places = _im2col(np.arange(whole[0] * whole[1]).reshape(1, *whole), kernel_size, dilation, (0, 0), stride)
    planes = columns.reshape(-1, *places.shape)
    made = np.zeros((len(planes), whole[0] * whole[1]), columns.dtype)
    for plane, image in zip(planes, made, strict=True):
        np.add.at(image, places, plane)
    made = made.reshape(*columns.shape[:-2], -1, *whole)
    return _around(made, tuple(-p for p in padding), tuple(-p for p in padding))
