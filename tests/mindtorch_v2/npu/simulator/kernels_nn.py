"""Simulated reductions, products of matrices, indexing, and the fused operators of networks."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from .kernels import KERNELS, kernel

# reductions ----------------------------------------------------------------------------------------------------------


def _axes(x: np.ndarray, dims: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if not dims else tuple(d % max(x.ndim, 1) for d in dims) if x.ndim else ()


def _reduction(function: Callable) -> Callable:
    return lambda x, dims, keep: function(x, axis=_axes(x, dims), keepdims=keep)


def _wide(dtype: Any) -> np.dtype | None:
    """The type to accumulate in: halves are float32 by now."""
    return dtype if isinstance(dtype, np.dtype) and dtype.itemsize > 2 else None


@kernel("ReduceSum")
def reduce_sum(x: np.ndarray, dims: Any, keep: bool, dtype: Any) -> np.ndarray:
    return np.sum(x, axis=_axes(x, dims), keepdims=keep, dtype=_wide(dtype))


KERNELS["aclnnReduceNansum"] = lambda x, dims, keep, dtype: np.nansum(x, axis=_axes(x, dims), keepdims=keep)
KERNELS["aclnnMean"] = lambda x, dims, keep, dtype: np.mean(x, axis=_axes(x, dims), keepdims=keep)
KERNELS["aclnnMeanV2"] = lambda x, dims, keep, noop: np.mean(x, axis=_axes(x, dims), keepdims=keep)
KERNELS["aclnnProd"] = lambda x, dtype: np.prod(x, dtype=_wide(dtype))
KERNELS["aclnnProdDim"] = lambda x, dim, keep, dtype: np.prod(x, axis=dim if x.ndim else None, keepdims=keep)
KERNELS["aclnnAmax"], KERNELS["aclnnAmin"] = _reduction(np.max), _reduction(np.min)
KERNELS["aclnnAll"], KERNELS["aclnnAny"] = _reduction(np.all), _reduction(np.any)
KERNELS["aclnnMax"], KERNELS["aclnnMin"] = np.max, np.min
KERNELS["aclnnLogSumExp"] = lambda x, dims, keep: scipy.special.logsumexp(x, axis=_axes(x, dims), keepdims=keep)
KERNELS["aclnnTrace"] = np.trace


def _variance(x: np.ndarray, dims: Any, correction: float, keep: bool) -> np.ndarray:
    axes = _axes(x, dims)
    count = math.prod(x.shape[a] for a in axes)
    centred = x - np.mean(x, axis=axes, keepdims=True)
    total = np.sum(np.abs(centred) ** 2, axis=axes, keepdims=keep)
    return total / max(count - correction, 0)


KERNELS["aclnnVarCorrection"] = _variance
KERNELS["aclnnVar"] = lambda x, dims, unbiased, keep: _variance(x, dims, int(unbiased), keep)
KERNELS["aclnnStd"] = lambda x, dims, correction, keep: np.sqrt(_variance(x, dims, correction, keep))


@kernel("VarMean")
def var_mean(x: np.ndarray, dims: Any, correction: float, keep: bool) -> tuple[np.ndarray, np.ndarray]:
    return _variance(x, dims, correction, keep), np.mean(x, axis=_axes(x, dims), keepdims=keep)


@kernel("StdMeanCorrection")
def std_mean(x: np.ndarray, dims: Any, correction: float, keep: bool) -> tuple[np.ndarray, np.ndarray]:
    variance, mean = var_mean(x, dims, correction, keep)
    return np.sqrt(variance), mean


def _norm(x: np.ndarray, p: float, dims: Any, keep: bool) -> np.ndarray:
    axes, x = _axes(x, dims), np.abs(x)
    if p == math.inf:
        return np.max(x, axis=axes, keepdims=keep)
    if p == -math.inf:
        return np.min(x, axis=axes, keepdims=keep)
    if p == 0:
        return np.sum(x != 0, axis=axes, keepdims=keep).astype(x.dtype)
    return np.sum(x**p, axis=axes, keepdims=keep) ** (1 / p)


KERNELS["aclnnNorm"] = _norm
KERNELS["aclnnLinalgVectorNorm"] = lambda x, p, dims, keep, dtype: _norm(x, p, dims, keep)


def _extreme(function: Callable) -> Callable:
    def run(x: np.ndarray, dim: int, keep: bool) -> tuple[np.ndarray, np.ndarray]:
        if not x.ndim:
            return x, np.zeros((), np.int64)
        at = np.expand_dims(function(x, axis=dim), dim)
        values = np.take_along_axis(x, at, dim)
        return (values, at) if keep else (values.squeeze(dim), at.squeeze(dim))

    return run


KERNELS["aclnnMaxDim"], KERNELS["aclnnMinDim"] = _extreme(np.argmax), _extreme(np.argmin)
KERNELS["aclnnArgMax"] = lambda x, dim, keep: np.argmax(x, axis=dim if x.ndim else None, keepdims=keep)
KERNELS["aclnnArgMin"] = lambda x, dim, keep: np.argmin(x, axis=dim if x.ndim else None, keepdims=keep)
KERNELS["aclnnCumsum"] = lambda x, dim, dtype: np.cumsum(x, axis=dim) if x.ndim else x
KERNELS["aclnnCumprod"] = lambda x, dim, dtype: np.cumprod(x, axis=dim) if x.ndim else x


def _argsort(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    flipped = np.argsort(np.flip(x, dim), axis=dim, kind="stable")
    return np.flip(x.shape[dim] - 1 - flipped, dim)


@kernel("Sort")
def sort(x: np.ndarray, stable: bool, dim: int, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    order = _argsort(x, dim, descending)
    return np.take_along_axis(x, order, dim), order


@kernel("Argsort")
def argsort(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    return _argsort(x, dim, descending) if x.ndim else np.zeros((), np.int64)


@kernel("Topk")
def topk(x: np.ndarray, k: int, dim: int, largest: bool, ordered: bool) -> tuple[np.ndarray, np.ndarray]:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    order = np.take(_argsort(x, dim, largest), np.arange(k), dim)
    return np.take_along_axis(x, order, dim), order


KERNELS["aclnnSearchSorted"] = lambda sequence, x, int32, right, sorter: np.searchsorted(
    sequence, x, "right" if right else "left", sorter)  # fmt: skip

# products ------------------------------------------------------------------------------------------------------------


@kernel("Mm", "Matmul", "BatchMatMul", "Mv")
def matmul(a: np.ndarray, b: np.ndarray, cube: int) -> np.ndarray:
    return np.matmul(a, b)


KERNELS["aclnnDot"] = np.dot
KERNELS["aclnnGer"] = np.outer


@kernel("Addmm", "Baddbmm")
def addmm(x: np.ndarray, a: np.ndarray, b: np.ndarray, beta: float, alpha: float, cube: int) -> np.ndarray:
    product = alpha * np.matmul(a, b)
    return product if beta == 0 else np.broadcast_to(x, product.shape) * beta + product


KERNELS["aclnnAddmv"] = lambda x, a, v, alpha, beta, cube: (beta * x + alpha * (a @ v)).astype(a.dtype)
KERNELS["aclnnAddbmm"] = lambda x, a, b, beta, alpha, cube: beta * x + alpha * np.sum(a @ b, 0)


@kernel("Addr")
def addr(x: np.ndarray, a: np.ndarray, b: np.ndarray, beta: Any, alpha: Any) -> np.ndarray:
    return (1 if beta is None else beta) * x + (1 if alpha is None else alpha) * np.outer(a, b)



# indexing ------------------------------------------------------------------------------------------------------------


def _along(x: np.ndarray, dim: int, index: np.ndarray) -> tuple:
    """Full indices of the places that `index` names along a dimension."""
    places = list(np.indices(index.shape, sparse=True))
    places[dim % x.ndim] = index
    return tuple(places)


@kernel("Gather")
def gather(x: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    return x.reshape(-1)[index] if not x.ndim else x[_along(x, dim, index)]


def _scatter(x: np.ndarray, dim: int, index: np.ndarray, source: Any, how: int) -> np.ndarray:
    result = np.array(x, ndmin=1)
    index = np.array(index, ndmin=1)
    if isinstance(source, np.ndarray) and source.ndim:
        source = source[tuple(map(slice, index.shape))]
    places = _along(result, dim, index)
    if how == 0:
        result[places] = source
    else:
        (np.add, np.multiply, np.maximum, np.minimum)[how - 1].at(result, places, source)
    return result.reshape(x.shape)


KERNELS["aclnnScatter"] = KERNELS["aclnnScatterValue"] = _scatter
KERNELS["aclnnScatterAdd"] = lambda x, dim, index, source: _scatter(x, dim, index, source, 1)


@kernel("InplaceScatter", "InplaceScatterValue")
def scatter_(target: np.ndarray, dim: int, index: np.ndarray, source: Any, how: int) -> None:
    target[...] = _scatter(target, dim, index, source, how)


@kernel("IndexSelect")
def index_select(x: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    return np.take(x, index, dim) if x.ndim else x


@kernel("IndexAdd")
def index_add(x: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, alpha: float) -> np.ndarray:
    result = x.copy()
    np.add.at(result, (slice(None),) * (dim % x.ndim) + (index,), alpha * source)
    return result


@kernel("InplaceIndexCopy")
def index_copy_(target: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> None:
    target[(slice(None),) * (dim % target.ndim) + (index,)] = source


@kernel("InplaceIndexFill")
def index_fill_(target: np.ndarray, dim: int, index: np.ndarray, value: float) -> None:
    target[(slice(None),) * (dim % target.ndim) + (index,)] = value


@kernel("IndexFill")
def index_fill(x: np.ndarray, dim: int, index: np.ndarray, value: float) -> np.ndarray:
    result = x.copy()
    index_fill_(result, dim, index, value)
    return result


def _index(indices: list[np.ndarray]) -> tuple:
    """An index of NumPy; a one-dimensional tensor without elements stands for a full slice."""
    return tuple(slice(None) if i.shape == (0,) else i for i in indices)


KERNELS["aclnnIndex"] = lambda x, indices: x[_index(indices)]


@kernel("IndexPutImpl")
def index_put(target: np.ndarray, indices: list[np.ndarray], values: np.ndarray, accumulate: bool, _: bool) -> None:
    if accumulate:
        np.add.at(target, _index(indices), values)
    else:
        target[_index(indices)] = values


KERNELS["aclnnTake"] = lambda x, index: x.reshape(-1)[index]
KERNELS["aclnnNonzero"] = np.argwhere


@kernel("MaskedSelect")
def masked_select(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    values, chosen = np.broadcast_arrays(x, mask)
    return values[chosen.astype(bool)]


@kernel("InplaceMaskedFillScalar", "InplaceMaskedFillTensor")
def masked_fill_(target: np.ndarray, mask: np.ndarray, value: Any) -> None:
    np.copyto(target, np.asarray(value).astype(target.dtype), where=np.broadcast_to(mask, target.shape).astype(bool))


@kernel("InplaceMaskedScatter")
def masked_scatter_(target: np.ndarray, mask: np.ndarray, source: np.ndarray) -> None:
    mask = np.broadcast_to(mask, target.shape)
    target[mask] = source.reshape(-1)[: int(mask.sum())]


# networks ------------------------------------------------------------------------------------------------------------


@kernel("Embedding")
def embedding(weight: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return weight[indices]


@kernel("EmbeddingDenseBackward")
def embedding_dense_backward(grad: np.ndarray, indices: np.ndarray, count: int, padding: int,
                             by_frequency: bool) -> np.ndarray:  # fmt: skip
    result = np.zeros((count, grad.shape[-1]), grad.dtype)
    flat, rows = indices.reshape(-1), grad.reshape(-1, grad.shape[-1])
    if by_frequency:
        rows = rows / np.bincount(flat, minlength=count)[flat][:, None]
    keep = flat != (padding - (1 << 64) if padding >> 63 else padding)
    np.add.at(result, flat[keep], rows[keep])
    return result


KERNELS["aclnnSoftmax"] = lambda x, dim: scipy.special.softmax(x, axis=dim if x.ndim else None)
KERNELS["aclnnLogSoftmax"] = lambda x, dim: scipy.special.log_softmax(x, axis=dim if x.ndim else None)


@kernel("SoftmaxBackward")
def softmax_backward(grad: np.ndarray, y: np.ndarray, dim: int) -> np.ndarray:
    return y * (grad - np.sum(grad * y, axis=dim if y.ndim else None, keepdims=True))


@kernel("LogSoftmaxBackward")
def log_softmax_backward(grad: np.ndarray, y: np.ndarray, dim: int) -> np.ndarray:
    return grad - np.exp(y) * np.sum(grad, axis=dim if y.ndim else None, keepdims=True)


@kernel("LayerNorm")
def layer_norm(x: np.ndarray, shape: tuple[int, ...], weight: Any, bias: Any, eps: float) -> tuple:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    mean = x.mean(axes, keepdims=True)
    rstd = 1 / np.sqrt(np.mean((x - mean) ** 2, axes, keepdims=True) + eps)
    y = (x - mean) * rstd
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, mean, rstd


@kernel("AddLayerNorm")
def add_layer_norm(x: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray, row: Any, eps: float,
                   gives_sum: bool) -> tuple:  # fmt: skip
    total = x + y if row is None else x + y + row
    return (*layer_norm(total, weight.shape, weight, bias, eps), total if gives_sum else None)


@kernel("LayerNormBackward")
def layer_norm_backward(grad: np.ndarray, x: np.ndarray, shape: tuple[int, ...], mean: np.ndarray, rstd: np.ndarray,
                        weight: Any, bias: Any, mask: tuple[bool, ...]) -> tuple:  # fmt: skip
    axes, leading = tuple(range(x.ndim - len(shape), x.ndim)), tuple(range(x.ndim - len(shape)))
    y = (x - mean) * rstd
    of_y = grad if weight is None else grad * weight
    of_x = rstd * (of_y - of_y.mean(axes, keepdims=True) - y * (of_y * y).mean(axes, keepdims=True))
    made = of_x, np.sum(grad * y, leading), np.sum(grad, leading)
    return tuple(value if wanted else None for value, wanted in zip(made, mask, strict=True))


@kernel("BatchNorm")
def batch_norm(x: np.ndarray, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
               momentum: float, eps: float) -> tuple:  # fmt: skip
    assert training and running_mean is running_var is None, "statistics are kept elsewhere"
    axes, along = (0, *range(2, x.ndim)), (-1,) + (1,) * (x.ndim - 2)
    mean = x.mean(axes)
    rstd = 1 / np.sqrt(np.mean((x - mean.reshape(along)) ** 2, axes) + eps)
    y = (x - mean.reshape(along)) * rstd.reshape(along)
    y = y if weight is None else y * weight.reshape(along)
    return y if bias is None else y + bias.reshape(along), mean, rstd


@kernel("BatchNormBackward")
def batch_norm_backward(grad: np.ndarray, x: np.ndarray, weight: Any, running_mean: Any, running_var: Any, mean: Any,
                        rstd: Any, training: bool, eps: float, mask: tuple[bool, ...]) -> tuple:  # fmt: skip
    axes, along = (0, *range(2, x.ndim)), (-1,) + (1,) * (x.ndim - 2)
    y = (x - mean.reshape(along)) * rstd.reshape(along)
    of_y = grad if weight is None else grad * weight.reshape(along)
    of_x = rstd.reshape(along) * (of_y - of_y.mean(axes, keepdims=True) - y * (of_y * y).mean(axes, keepdims=True))
    made = of_x, np.sum(grad * y, axes), np.sum(grad, axes)
    return tuple(value if wanted else None for value, wanted in zip(made, mask, strict=True))


def _reduced(loss: np.ndarray, reduction: int) -> np.ndarray:
    return loss if reduction == 0 else np.mean(loss) if reduction == 1 else np.sum(loss)


def _share(grad: np.ndarray, x: np.ndarray, reduction: int) -> np.ndarray:
    return grad / x.size if reduction == 1 else grad


KERNELS["aclnnMseLoss"] = lambda x, y, how: _reduced((x - y) ** 2, how)
KERNELS["aclnnMseLossBackward"] = lambda grad, x, y, how: _share(grad, x, how) * 2 * (x - y)
KERNELS["aclnnL1Loss"] = lambda x, y, how: _reduced(np.abs(x - y), how)
KERNELS["aclnnL1LossBackward"] = lambda grad, x, y, how: _share(grad, x, how) * np.sign(x - y)


@kernel("NLLLoss")
def nll_loss(x: np.ndarray, target: np.ndarray, weight: np.ndarray, reduction: int, ignored: int) -> tuple:
    rows, classes = np.atleast_2d(x), np.atleast_1d(target)
    kept = classes != ignored
    factors = np.where(kept, weight[np.where(kept, classes, 0)], 0)
    losses = -rows[np.arange(len(classes)), np.where(kept, classes, 0)] * factors
    total = np.sum(factors)
    if reduction == 0:
        return losses.reshape(target.shape), total
    return (np.sum(losses) / total if reduction == 1 else np.sum(losses)), total


@kernel("NLLLossBackward")
def nll_loss_backward(grad: np.ndarray, x: np.ndarray, target: np.ndarray, weight: np.ndarray, reduction: int,
                      ignored: int, total: np.ndarray) -> np.ndarray:  # fmt: skip
    rows, classes = np.zeros_like(np.atleast_2d(x)), np.atleast_1d(target)
    kept = classes != ignored
    at = np.where(kept, classes, 0)
    factors = np.where(kept, weight[at], 0)
    rows[np.arange(len(classes)), at] = -factors * (grad / total if reduction == 1 else grad)
    return rows.reshape(x.shape)
