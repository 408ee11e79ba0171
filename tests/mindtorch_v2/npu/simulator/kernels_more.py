"""Simulated operators of rarer use: order statistics, counts, decompositions, norms and losses."""

from typing import Any

import numpy as np
import scipy.linalg

from .kernels import KERNELS, _generator, kernel
from .kernels_nn import _along, _axes, _reduced

# order ---------------------------------------------------------------------------------------------------------------


@kernel("Aminmax")
def aminmax(x: np.ndarray, dims: Any, keep: bool) -> tuple[np.ndarray, np.ndarray]:
    axes = _axes(x, dims)
    return np.min(x, axis=axes, keepdims=keep), np.max(x, axis=axes, keepdims=keep)


@kernel("AminmaxDim")
def aminmax_dim(x: np.ndarray, dim: int, keep: bool) -> tuple[np.ndarray, np.ndarray]:
    return aminmax(x, (dim,), keep)


def _running(x: np.ndarray, dim: int, better: Any) -> tuple[np.ndarray, np.ndarray]:
    """The best element so far along a dimension, and the last place that held it."""
    if not x.ndim:
        return x, np.zeros((), np.int64)
    rows = np.moveaxis(x, dim, 0)
    values, places = rows.copy(), np.zeros(rows.shape, np.int64)
    for i in range(1, len(rows)):
        wins = better(rows[i], values[i - 1]) | np.isnan(rows[i])
        values[i] = np.where(wins, rows[i], values[i - 1])
        places[i] = np.where(wins, i, places[i - 1])
    return np.moveaxis(values, 0, dim), np.moveaxis(places, 0, dim)


KERNELS["aclnnCummax"] = lambda x, dim: _running(x, dim, np.greater_equal)
KERNELS["aclnnCummin"] = lambda x, dim: _running(x, dim, np.less_equal)


@kernel("Kthvalue")
def kthvalue(x: np.ndarray, k: int, dim: int, keep: bool) -> tuple[np.ndarray, np.ndarray]:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    at = np.take(np.argsort(x, axis=dim, kind="stable"), [k - 1], dim)
    values = np.take_along_axis(x, at, dim)
    return (values, at) if keep else (values.squeeze(dim), at.squeeze(dim))


@kernel("MedianDim")
def median_dim(x: np.ndarray, dim: int, keep: bool) -> tuple[np.ndarray, np.ndarray]:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    values, at = kthvalue(x, (x.shape[dim] + 1) // 2, dim, True)
    nan = np.isnan(x)
    has_nan, first = nan.any(axis=dim, keepdims=True), np.expand_dims(nan.argmax(axis=dim), dim)
    values, at = np.where(has_nan, np.nan, values).astype(x.dtype), np.where(has_nan, first, at)
    return (values, at) if keep else (values.squeeze(dim), at.squeeze(dim))


@kernel("Median")
def median(x: np.ndarray) -> np.ndarray:
    return median_dim(x.reshape(-1), 0, False)[0]


@kernel("NanMedian")
def nan_median(x: np.ndarray) -> np.ndarray:
    kept = np.sort(x[~np.isnan(x)])
    return kept[(len(kept) - 1) // 2] if len(kept) else np.asarray(np.nan, x.dtype)


@kernel("SearchSorted")
def search_sorted(sequence: np.ndarray, x: np.ndarray, int32: bool, right: bool, sorter: Any) -> np.ndarray:
    if sorter is not None:
        sequence = np.take_along_axis(sequence, sorter, -1)
    side = "right" if right else "left"
    if sequence.ndim == 1:
        return np.searchsorted(sequence, x, side)
    rows = zip(sequence.reshape(-1, sequence.shape[-1]), x.reshape(-1, x.shape[-1]), strict=True)
    return np.stack([np.searchsorted(s, v, side) for s, v in rows]).reshape(x.shape)


KERNELS["aclnnBucketize"] = lambda x, bounds, int32, right: search_sorted(bounds, x, int32, right, None)

# counts --------------------------------------------------------------------------------------------------------------


@kernel("Unique2")
def unique(x: np.ndarray, ordered: bool, inverse: bool, counts: bool) -> tuple:
    made, at, number = np.unique(x, return_inverse=True, return_counts=True, equal_nan=False)
    return made, at.reshape(x.shape), number


@kernel("UniqueConsecutive")
def unique_consecutive(x: np.ndarray, inverse: bool, counts: bool, dim: int) -> tuple:
    rows = x.reshape(-1) if dim == 1000 else np.moveaxis(x, dim, 0)
    differ = rows[1:] != rows[:-1]
    starts = np.concatenate(([True], differ if rows.ndim == 1 else differ.any(tuple(range(1, rows.ndim)))))
    at, number = np.cumsum(starts) - 1, np.diff(np.append(np.flatnonzero(starts), len(rows)))
    if dim == 1000:
        return rows[starts], at.reshape(x.shape), number
    return np.moveaxis(rows[starts], 0, dim), at, number


@kernel("Bincount")
def bincount(x: np.ndarray, weights: Any, minlength: int) -> np.ndarray:
    return np.bincount(x, weights, minlength)


@kernel("Histc")
def histc(x: np.ndarray, bins: int, low: float, high: float) -> np.ndarray:
    if low == high:
        low, high = float(x.min()), float(x.max())
    if low == high:
        low, high = low - 1, high + 1
    return np.histogram(x, bins, (low, high))[0].astype(x.dtype)


KERNELS["aclnnIsInTensorScalar"] = lambda x, value, unique, invert: np.isin(x, value, invert=invert)
KERNELS["aclnnIsInScalarTensor"] = lambda value, x, unique, invert: np.asarray(np.isin(value, x, invert=invert))

# writing -------------------------------------------------------------------------------------------------------------


@kernel("ScatterReduce")
def scatter_reduce(x: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, how: int, with_self: bool) -> Any:
    result = np.array(x, ndmin=1)
    index, source = np.array(index, ndmin=1), np.array(source, ndmin=1)
    source = source[tuple(map(slice, index.shape))]
    places = np.broadcast_arrays(*_along(result, dim, index))
    count = np.full(result.shape, int(with_self))
    np.add.at(count, tuple(places), 1)
    if not with_self:
        limits = np.iinfo(np.int8 if result.dtype == np.bool_ else result.dtype) if result.dtype.kind in "biu" else None
        lowest, highest = (-np.inf, np.inf) if limits is None else (limits.min, limits.max)
        lowest = 0 if result.dtype == np.bool_ else lowest
        touched = np.zeros(result.shape, bool)
        touched[tuple(places)] = True
        result[touched] = {1: 0, 2: 1, 3: lowest, 4: highest, 5: 0}[how]
    {1: np.add, 2: np.multiply, 3: np.maximum, 4: np.minimum, 5: np.add}[how].at(result, tuple(places), source)
    if how == 5:
        count = np.maximum(count, 1)
        result = result / count if result.dtype.kind == "f" else result // count
    return result.reshape(x.shape)


@kernel("InplacePut")
def put(target: np.ndarray, index: np.ndarray, source: np.ndarray, accumulate: bool) -> None:
    flat = target.reshape(-1).copy()
    if accumulate:
        np.add.at(flat, index.reshape(-1), source.reshape(-1))
    else:
        flat[index.reshape(-1)] = source.reshape(-1)
    target[...] = flat.reshape(target.shape)


@kernel("UnfoldGrad")
def unfold_grad(grad: np.ndarray, sizes: tuple[int, ...], dim: int, size: int, step: int) -> np.ndarray:
    result = np.zeros(sizes, grad.dtype)
    windows = np.moveaxis(grad, -1, 0)
    for i in range(size):
        part = (slice(None),) * dim + (slice(i, i + step * grad.shape[dim], step),)
        result[part] += windows[i]
    return result


@kernel("EmbeddingRenorm")
def embedding_renorm(target: np.ndarray, indices: np.ndarray, largest: float, p: float) -> None:
    for i in np.unique(indices):
        norm = np.sum(np.abs(target[i]) ** p) ** (1 / p)
        if norm > largest:
            target[i] *= largest / (norm + 1e-7)


# matrices ------------------------------------------------------------------------------------------------------------

KERNELS["aclnnLinalgCross"] = lambda a, b, dim: np.cross(*np.broadcast_arrays(a, b), axis=dim)


@kernel("LinalgQr")
def qr(x: np.ndarray, mode: int) -> tuple:
    if mode == 2:
        return None, np.linalg.qr(x, "r")
    return tuple(np.linalg.qr(x, ("reduced", "complete")[mode]))


KERNELS["aclnnInverse"] = np.linalg.inv
KERNELS["aclnnSlogdet"] = lambda x: tuple(np.linalg.slogdet(x))


@kernel("Svd")
def svd(x: np.ndarray, full: bool, compute_uv: bool) -> tuple:
    if not compute_uv:
        return np.linalg.svd(x, compute_uv=False), x.reshape(-1)[:0], x.reshape(-1)[:0]
    u, s, vh = np.linalg.svd(x, full_matrices=full)
    return s, u, vh.swapaxes(-1, -2)


@kernel("LinalgCholesky")
def cholesky(x: np.ndarray, upper: bool) -> np.ndarray:
    factor = np.linalg.cholesky(x.swapaxes(-1, -2) if upper else x)
    return factor.swapaxes(-1, -2) if upper else factor


@kernel("TriangularSolve")
def triangular_solve(b: np.ndarray, a: np.ndarray, upper: bool, transpose: bool, unit: bool) -> tuple:
    solved = [scipy.linalg.solve_triangular(m, r, trans=int(transpose), lower=not upper, unit_diagonal=unit)
              for m, r in zip(a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:]), strict=True)]  # fmt: skip
    return np.stack(solved).reshape(b.shape), a


# networks ------------------------------------------------------------------------------------------------------------


@kernel("ApplyAdamWV2")
def apply_adamw(parameter: np.ndarray, mean: np.ndarray, square_mean: np.ndarray, greatest: np.ndarray | None,
                grad: np.ndarray, step: np.ndarray, lr: float, beta1: float, beta2: float, weight_decay: float,
                eps: float, amsgrad: bool, maximize: bool) -> None:  # fmt: skip
    number = float(step.reshape(-1)[0]) + 1  # the operator counts from 0
    grad = -grad if maximize else grad
    parameter[...] = parameter * (1 - lr * weight_decay)
    mean[...] = beta1 * mean + (1 - beta1) * grad
    square_mean[...] = beta2 * square_mean + (1 - beta2) * grad * grad
    if greatest is not None:
        greatest[...] = square_mean = np.maximum(greatest, square_mean)
    below = np.sqrt(square_mean) / np.sqrt(1 - beta2**number) + eps
    parameter[...] = parameter - lr / (1 - beta1**number) * mean / below


@kernel("RmsNorm")
def rms_norm(x: np.ndarray, gamma: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    rstd = 1 / np.sqrt(np.mean(x * x, axes, keepdims=True) + eps)
    return x * rstd * gamma, rstd


@kernel("AddRmsNorm")
def add_rms_norm(x: np.ndarray, y: np.ndarray, gamma: np.ndarray, eps: float) -> tuple:
    return (*rms_norm(x + y, gamma, eps), x + y)


@kernel("RmsNormGrad")
def rms_norm_grad(grad: np.ndarray, x: np.ndarray, rstd: np.ndarray, gamma: np.ndarray) -> tuple:
    axes, leading = tuple(range(x.ndim - gamma.ndim, x.ndim)), tuple(range(x.ndim - gamma.ndim))
    y, of_y = x * rstd, grad * gamma
    return rstd * (of_y - y * np.mean(of_y * y, axes, keepdims=True)), np.sum(grad * y, leading)


@kernel("SmoothL1Loss")
def smooth_l1_loss(x: np.ndarray, y: np.ndarray, reduction: int, beta: float) -> np.ndarray:
    size = np.abs(x - y)
    loss = size if beta == 0 else np.where(size < beta, size * size * (0.5 / beta), size - 0.5 * beta)
    return _reduced(loss, reduction)


@kernel("BinaryCrossEntropy")
def binary_cross_entropy(x: np.ndarray, y: np.ndarray, weight: Any, reduction: int) -> np.ndarray:
    loss = (y - 1) * np.maximum(np.log1p(-x), -100) - y * np.maximum(np.log(x), -100)
    return _reduced(loss if weight is None else loss * weight, reduction)


# random numbers ------------------------------------------------------------------------------------------------------


@kernel("NormalTensorTensor", "NormalTensorFloat", "NormalFloatTensor")
def normal(mean: Any, std: Any, seed: int, offset: int) -> np.ndarray:
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    return _generator(seed, offset).standard_normal(shape, np.float32) * std + mean


@kernel("Multinomial")
def multinomial(x: np.ndarray, count: int, replacement: bool, seed: int, offset: int) -> np.ndarray:
    generator, rows = _generator(seed, offset), np.atleast_2d(x).astype(np.float64)
    made = [generator.choice(rows.shape[1], count, replacement, row / row.sum()) for row in rows]
    return np.stack(made).reshape(*x.shape[:-1], count)
