"""Sampling at the points of grids by compiled kernels."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.dtype import REDUCED, WIDER
from ...._kernels.library import grid as kernels
from ..jit.calls import hurry, launched, note
from ..jit.repeats import empty, repeats
from .arrays import zeros_for_sums

hurry(kernels.grid_taps, kernels.grid_sample, kernels.grid_sample_backward_input, kernels.grid_sample_backward_grid)
_SIDES = {kernels.BILINEAR: 2, kernels.NEAREST: 1, kernels.BICUBIC: 4}


def _taps(input: Any, points: Any, rank: int, mode: int, padding: int, align: bool, derives: bool) -> tuple:
    """Places, weights and slopes of what the points are made of, how many elements that is, and whether it is done."""
    count = _SIDES[mode] ** rank
    shape = (points.shape[0], count, points.shape[1])
    kind = WIDER.get(points.dtype, points.dtype)
    places, weights = empty(shape, np.int64), empty(shape, kind)
    slopes = empty((shape[0], rank, *shape[1:]) if derives else (0, 0, 0, 0), kind)
    depth, height, width = (1, *input.shape[2:])[-3:]
    done = launched(kernels.grid_taps, places, weights, slopes, points, depth, height, width, mode=mode,
                    padding=padding, align=align, rank=rank, derives=derives)
    return places, weights, slopes, count, done


def _flat(array: Any) -> Any:
    """(batch, channels, elements of a plane)."""
    return array.reshape(*array.shape[:2], math.prod(array.shape[2:]))


def _points(grid: Any, rank: int) -> Any:
    return grid.reshape(grid.shape[0], math.prod(grid.shape[1:-1]), rank)


def _sampler(rank: int) -> Callable:
    def sampled(input, grid, interpolation_mode, padding_mode, align_corners, spec):
        if input.dtype in REDUCED:  # PyTorch rounds after each step there, also coordinates
            return None
        places, weights, _, count, done = _taps(input, _points(grid, rank), rank, interpolation_mode, padding_mode,
                                                bool(align_corners), False)
        out = empty(spec.shape, input.dtype)
        launch = launched if done else note
        return out if launch(kernels.grid_sample, _flat(out), _flat(input), places, weights, count=count,
                             strict=rank == 3) else None

    return repeats(sampled)


def _sampler_backward(rank: int) -> Callable:
    def gradients(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask, spec):
        if grad_output.dtype != input.dtype:
            return None
        of_input, of_grid = output_mask
        places, weights, slopes, count, done = _taps(input, _points(grid, rank), rank, interpolation_mode,
                                                     padding_mode, bool(align_corners), of_grid)
        launch = launched if done else note
        grads, made, placed = _flat(grad_output), None, None
        if of_input:
            made = zeros_for_sums(input.shape, input.dtype)
            done = launch(kernels.grid_sample_backward_input, _flat(made), grads, places, weights)
            launch = launched if done else note
        if of_grid:
            placed = empty(grid.shape, grid.dtype)
            done = launch(kernels.grid_sample_backward_grid, _points(placed, rank), grads, _flat(input), places,
                          slopes, count=count, rank=rank)
        return (made, placed) if done else None

    return repeats(gradients)


grid_sampler_2d, grid_sampler_3d = map(_sampler, (2, 3))
grid_sampler_2d_backward, grid_sampler_3d_backward = map(_sampler_backward, (2, 3))
