"""Pooling by compiled kernels, of any rank."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core.dtype import REDUCED
from ...._kernels.library import pool
from ...._ops._declare.rules import Spec
from ...._ops.pool import _windows, in_strides
from ..jit.calls import launched
from ..jit.repeats import empty, flag, repeats, zeros
from .arrays import Sizes, movable, new_pixels, pixels, rows_of, takes_halves, three, volumes, zeros_for_sums


@functools.lru_cache(512)
def _settings(shape: Sizes, kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool,
              rank: int, dilated: bool) -> Sizes:
    """Sizes, strides, paddings (and dilations) of windows along three dimensions."""
    windows = _windows(shape, kernel_size, stride, padding, dilation, ceil_mode, rank)
    size, step, pad, apart, _ = zip(*windows, strict=True)
    made = (*three(size, rank, 1), *three(step, rank, 1), *three(pad, rank, 0))
    return (*made, *three(apart, rank, 1)) if dilated else made


@functools.cache
def _lowest(kind: np.dtype) -> Any:
    return int(np.iinfo(kind).min) if kind.kind in "iu" else -np.inf


def _empty(spec: Spec) -> np.ndarray:
    return empty(spec.shape, spec.dtype.np)


def _by_pixels(written: Any, self: Any, rank: int, specs: Sequence[Spec], *numbers: int, **constants: Any) -> Any:
    """The results of a kernel for arrays whose channels lie last; None where these lie otherwise, or without code."""
    given = None if specs[0].strides is None else pixels(self, rank)
    if given is None:
        return None
    shown, made = zip(*[new_pixels(spec.shape, spec.dtype.np, rank) for spec in specs], strict=True)
    return shown if launched(written, *made, given, *numbers, **constants) else None


# Each of these makes the function for a rank.


def _max_pool(rank: int) -> Callable:
    def largest(self, kernel_size, stride, padding, dilation, ceil_mode, spec):
        settings = _settings(self.shape, kernel_size, stride or (), padding, dilation, ceil_mode, rank, True)
        made = _by_pixels(pool.max_pool_pixels, self, rank, spec, *settings, lowest=_lowest(self.dtype))
        if made is not None:
            return made
        out, places = _empty(spec[0]), _empty(spec[1])
        done = launched(pool.max_pool, volumes(out, rank), volumes(places, rank), volumes(self, rank), *settings,
                        lowest=_lowest(self.dtype), step=settings[5] if settings[5] < 5 else 0)
        return (in_strides(out, spec[0]), in_strides(places, spec[1])) if done else None

    return repeats(takes_halves(largest))


def _returned(grad: Any, indices: Any, shape: Sizes, rank: int, spec: Spec) -> Any:
    """Gradients added up at indices in their planes."""
    bad, out = flag(), zeros_for_sums(shape, grad.dtype)
    done = launched(pool.to_places, rows_of(out, rank), bad, rows_of(grad, rank), rows_of(indices, rank), adds=True)
    return in_strides(out, spec) if done and not bad[0] else None


def _max_pool_backward(rank: int) -> Callable:
    def returned(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices, spec):
        return _returned(grad_output, indices, self.shape, rank, spec)

    return repeats(takes_halves(returned))


def _avg_pool(rank: int) -> Callable:
    def mean(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, spec):
        settings = _settings(self.shape, kernel_size, stride or (), padding, (1,), ceil_mode, rank, False)
        numbers, constants = (*settings, divisor_override or 0), dict(padded=bool(count_include_pad),
                                                                      whole=self.dtype.kind == "i")
        made = _by_pixels(pool.avg_pool_pixels, self, rank, (spec,), *numbers, **constants)
        if made is not None:
            return made[0]
        out = _empty(spec)
        done = launched(pool.avg_pool, volumes(out, rank), volumes(self, rank), *numbers, **constants)
        return in_strides(out, spec) if done else None

    return repeats(takes_halves(mean))


def _avg_pool_backward(rank: int) -> Callable:
    def spread(grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, spec):
        if grad_output.dtype.kind == "i":
            return None
        settings = _settings(self.shape, kernel_size, stride or (), padding, (1,), ceil_mode, rank, False)
        out = zeros_for_sums(self.shape, grad_output.dtype)
        done = launched(pool.avg_pool_backward, volumes(out, rank), volumes(grad_output, rank), *settings,
                        divisor_override or 0, padded=bool(count_include_pad))
        return in_strides(out, spec) if done else None

    return repeats(takes_halves(spread))


def _adaptive_max_pool(rank: int) -> Callable:
    def largest(self, output_size, spec):
        made = _by_pixels(pool.adaptive_max_pool_pixels, self, rank, spec)
        if made is not None:
            return made
        out, places = _empty(spec[0]), _empty(spec[1])
        done = launched(pool.adaptive_max_pool, volumes(out, rank), volumes(places, rank), volumes(self, rank))
        return (in_strides(out, spec[0]), in_strides(places, spec[1])) if done else None

    return repeats(takes_halves(largest))


def _adaptive_max_pool_backward(rank: int) -> Callable:
    return repeats(takes_halves(
        lambda grad_output, self, indices, spec: _returned(grad_output, indices, self.shape, rank, spec)))


def _adaptive_avg_pool(rank: int) -> Callable:
    def mean(self, output_size, spec):
        if rank == 3 and self.dtype in REDUCED:  # PyTorch rounds after each step there
            return None
        made = _by_pixels(pool.adaptive_avg_pool_pixels, self, rank, (spec,))
        if made is not None:
            return made[0]
        out = _empty(spec)
        done = launched(pool.adaptive_avg_pool, volumes(out, rank), volumes(self, rank))
        return in_strides(out, spec) if done else None

    return repeats(takes_halves(mean))


def _adaptive_avg_pool_backward(rank: int) -> Callable:
    def spread(grad_output, self, spec):
        out = zeros_for_sums(self.shape, grad_output.dtype)
        done = launched(pool.adaptive_avg_pool_backward, volumes(out, rank), volumes(grad_output, rank))
        return in_strides(out, spec) if done else None

    return repeats(takes_halves(spread))


def _fractional_max_pool(rank: int) -> Callable:
    def largest(self, kernel_size, output_size, random_samples, spec):
        out, places = _empty(spec[0]), _empty(spec[1])
        # A plane's first number is for its width, a volume's for its depth.
        columns = (0, 1, 0) if rank == 2 else (0, 1, 2)
        done = launched(pool.fractional_max_pool, volumes(out, rank), volumes(places, rank), volumes(self, rank),
                        random_samples.reshape(-1, rank), *three(kernel_size, rank, 1),
                        of_d=columns[0], of_h=columns[1], of_w=columns[2])
        return (out, places) if done else None

    return repeats(takes_halves(largest))


def _fractional_max_pool_backward(rank: int) -> Callable:
    return repeats(takes_halves(lambda grad_output, self, kernel_size, output_size, indices, spec: _returned(
        grad_output, indices, self.shape, rank, spec)))


def _unpool(self: Any, indices: Any, rank: int, spec: Spec) -> Any:
    """Elements at their indices; None if one of these is outside, which the generic function has words for."""
    bad, out = flag(), zeros(spec.shape, self.dtype)
    done = launched(pool.to_places, rows_of(movable(out), rank), bad, rows_of(movable(self), rank),
                    rows_of(indices, rank), adds=False)
    return in_strides(out, spec) if done and not bad[0] else None


@repeats
def max_unpool2d(self, indices, output_size, spec):
    return _unpool(self, indices, 2, spec)


@repeats
def max_unpool3d(self, indices, output_size, stride, padding, spec):
    return _unpool(self, indices, 3, spec)


max_pool2d, max_pool3d = map(_max_pool, (2, 3))
max_pool2d_backward, max_pool3d_backward = map(_max_pool_backward, (2, 3))
avg_pool2d, avg_pool3d = map(_avg_pool, (2, 3))
avg_pool2d_backward, avg_pool3d_backward = map(_avg_pool_backward, (2, 3))
adaptive_max_pool2d, adaptive_max_pool3d = map(_adaptive_max_pool, (2, 3))
adaptive_max_pool2d_backward, adaptive_max_pool3d_backward = map(_adaptive_max_pool_backward, (2, 3))
adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive_avg_pool, (2, 3))
adaptive_avg_pool2d_backward, adaptive_avg_pool3d_backward = map(_adaptive_avg_pool_backward, (2, 3))
fractional_max_pool2d, fractional_max_pool3d = map(_fractional_max_pool, (2, 3))
fractional_max_pool2d_backward, fractional_max_pool3d_backward = map(_fractional_max_pool_backward, (2, 3))
