"""Normalisation of rows, groups and channels: kernels of the language on arrays."""

import math
from typing import Any

import numpy as np

from ...._core.threads import get_num_threads
from ...._kernels.library import norm as library
from ..jit.calls import launched
from ..jit.repeats import empty, repeats
from .arrays import takes_halves
from .reduce import LEAST_WIDTH, SHARED, contiguous, shared_width


def _in_order(array: Any) -> Any:
    return None if array is None else contiguous(array)


def _width(rows: int, columns: int) -> int:
    return shared_width(1, columns, get_num_threads() if rows * columns >= SHARED else 1, library.COLUMNS)


_LEAST_ROWS, _MOST_PARTS = 16, 64


def _height(rows: int, columns: int) -> int:
    """How many rows a thread sums up by itself: all, unless the columns are too few to give each thread some."""
    threads = get_num_threads()
    if rows * columns < SHARED or columns >= threads * LEAST_WIDTH:
        return rows
    return max(-(-rows // _MOST_PARTS), _LEAST_ROWS)


# rows ----------------------------------------------------------------------------------------------------------------


def _rows_of(x: Any, normalized_shape: tuple) -> tuple[int, int]:
    n = math.prod(normalized_shape)
    return x.size // n if n else 0, n


@repeats
@takes_halves
def layer_norm(input: Any, normalized_shape: tuple, weight: Any, bias: Any, eps: float, *, spec: tuple) -> Any:
    rows, n = _rows_of(input, normalized_shape)
    x, weight, bias = _in_order(input), _in_order(weight), _in_order(bias)
    made, mean, rstd = (empty(s.shape, s.dtype.np) for s in spec)
    done = rows and launched(library.normalise_rows, made, mean, rstd, x, x if weight is None else weight,
                             x if bias is None else bias, rows, n, eps, centred=True, weighted=weight is not None,
                             biased=bias is not None)
    return (made, mean, rstd) if done else None


@repeats
@takes_halves
def rms_norm(input: Any, normalized_shape: tuple, weight: Any, eps: float, *, spec: tuple) -> Any:
    rows, n = _rows_of(input, normalized_shape)
    x, weight = _in_order(input), _in_order(weight)
    made, rstd = (empty(s.shape, s.dtype.np) for s in spec)
    done = rows and launched(library.normalise_rows, made, rstd, rstd, x, x if weight is None else weight, x, rows, n,
                             eps, centred=False, weighted=weight is not None, biased=False)
    return (made, rstd) if done else None


def _row_gradients(grad: Any, input: Any, normalized_shape: tuple, mean: Any, rstd: Any, weight: Any, spec: tuple,
                   ) -> Any:
    """Gradients of rows, weight and bias, of those that have a spec; `mean` is None where rows were not centred."""
    rows, n = _rows_of(input, normalized_shape)
    if not rows:
        return None
    grad, x, rstd, weight = _in_order(grad), _in_order(input), _in_order(rstd), _in_order(weight)
    mean = rstd if mean is None else _in_order(mean)
    centred = mean is not rstd
    made = [None if s is None else empty(s.shape, s.dtype.np) for s in spec]
    if made[0] is not None and not launched(
            library.row_gradients, made[0], grad, x, mean, rstd, x if weight is None else weight, rows, n,
            centred=centred, weighted=weight is not None):
        return None
    of_weight, of_bias = (*made[1:], None)[:2]
    if of_weight is None and of_bias is None:
        return made
    targets = of_bias if of_weight is None else of_weight, of_weight if of_bias is None else of_bias
    wanted = dict(weighted=of_weight is not None, biased=of_bias is not None)
    height = _height(rows, n)
    if height < rows:
        parts = -(-rows // height)
        sums = empty((parts, 2, n), np.float64)
        done = launched(library.column_gradients_of_parts, sums, grad, x, mean, rstd, rows, n, height, centred=centred)
        done = done and launched(library.join_column_gradients, *targets, sums, parts, n, **wanted)
    else:
        done = launched(library.column_gradients, *targets, grad, x, mean, rstd, rows, n, _width(rows, n),
                        centred=centred, **wanted)
    return made if done else None


@repeats
@takes_halves
def layer_norm_backward(grad_out: Any, input: Any, normalized_shape: tuple, mean: Any, rstd: Any, weight: Any,
                        bias: Any, output_mask: tuple, *, spec: tuple) -> Any:
    return _row_gradients(grad_out, input, normalized_shape, mean, rstd, weight, spec)


@repeats
@takes_halves
def rms_norm_backward(grad_out: Any, input: Any, normalized_shape: tuple, rstd: Any, weight: Any, output_mask: tuple, *,
                      spec: tuple) -> Any:
    return _row_gradients(grad_out, input, normalized_shape, None, rstd, weight, spec)


# groups of channels --------------------------------------------------------------------------------------------------


def _grouped(input: Any, groups: int) -> tuple[int, int, int, int]:
    samples, channels = input.shape[:2]
    return samples, groups, channels // groups, math.prod(input.shape[2:])


@repeats
@takes_halves
def group_norm(input: Any, weight: Any, bias: Any, groups: int, eps: float, *, spec: tuple) -> Any:
    if spec[0].strides is not None or not input.size:
        return None
    x, weight, bias = _in_order(input), _in_order(weight), _in_order(bias)
    made, mean, rstd = (empty(s.shape, s.dtype.np) for s in spec)
    done = launched(library.normalise_groups, made, mean, rstd, x, x if weight is None else weight,
                    x if bias is None else bias, *_grouped(x, groups), eps, weighted=weight is not None,
                    biased=bias is not None)
    return (made, mean, rstd) if done else None


@repeats
@takes_halves
def group_norm_backward(grad_out: Any, input: Any, weight: Any, mean: Any, rstd: Any, groups: int, output_mask: tuple,
                        *, spec: tuple) -> Any:
    if spec[0] is not None and spec[0].strides is not None or not input.size:
        return None
    grad, x, mean, rstd, weight = map(_in_order, (grad_out, input, mean, rstd, weight))
    made = None
    if spec[0] is not None:
        made = empty(spec[0].shape, spec[0].dtype.np)
        if not launched(library.group_gradients, made, grad, x, mean, rstd, x if weight is None else weight,
                        *_grouped(x, groups), weighted=weight is not None):
            return None
    if spec[1] is None and spec[2] is None:
        return made, None, None
    of_weight, of_bias = (empty(x.shape[1], (s or spec[1] or spec[2]).dtype.np) for s in spec[1:])
    done = launched(library.group_parameter_gradients, of_weight, of_bias, grad, x, mean, rstd, *_grouped(x, groups))
    return (made, spec[1] and of_weight, spec[2] and of_bias) if done else None


# channels over a batch -----------------------------------------------------------------------------------------------


def _channels(input: Any, strides: Any) -> tuple[Any, bool]:
    """The array in C order, with channels last where that is how it lies, and whether they are."""
    if strides is not None:
        return np.ascontiguousarray(np.moveaxis(input, 1, -1)), True
    return _in_order(input), math.prod(input.shape[2:]) == 1


def _shaped(made: Any, strides: Any) -> Any:
    return made if strides is None else np.moveaxis(made, -1, 1)


@repeats
@takes_halves
def batch_norm(input: Any, weight: Any, bias: Any, eps: float, *, spec: tuple) -> Any:
    if not input.size:
        return None
    strides = spec[0].strides
    x, as_rows = _channels(input, strides)
    weight, bias = _in_order(weight), _in_order(bias)
    samples, channels = input.shape[:2]
    made, mean, rstd = empty(x.shape, x.dtype), *(empty(s.shape, s.dtype.np) for s in spec[1:])
    given = (made, mean, rstd, x, x if weight is None else weight, x if bias is None else bias)
    has = dict(weighted=weight is not None, biased=bias is not None)
    if as_rows:
        rows = x.size // channels
        done = launched(library.normalise_columns, *given, rows, channels, _width(rows, channels), eps, **has)
    else:
        done = launched(library.normalise_planes, *given, samples, channels, x.size // (samples * channels), eps, **has)
    return (_shaped(made, strides), mean, rstd) if done else None


@repeats
@takes_halves
def batch_norm_backward(grad_out: Any, input: Any, weight: Any, mean: Any, rstd: Any, eps: float, output_mask: tuple,
                        *, spec: tuple) -> Any:
    if not input.size:
        return None
    strides = spec[0].strides if spec[0] is not None else None
    x, as_rows = _channels(input, strides)
    grad = _channels(grad_out, strides)[0]
    mean, rstd, weight = map(_in_order, (mean, rstd, weight))
    samples, channels = input.shape[:2]
    kind = x.dtype if weight is None else weight.dtype
    of_weight, of_bias, wanted = empty(channels, kind), empty(channels, kind), spec[0] is not None
    made = empty(x.shape, x.dtype) if wanted else of_weight
    given = (made, of_weight, of_bias, grad, x, mean, rstd, x if weight is None else weight)
    has = dict(weighted=weight is not None, wanted=wanted)
    if as_rows:
        rows = x.size // channels
        done = launched(library.channel_gradients, *given, rows, channels, _width(rows, channels), **has)
    else:
        done = launched(library.plane_gradients, *given, samples, channels, x.size // (samples * channels), **has)
    if not done:
        return None
    return _shaped(made, strides) if wanted else None, spec[1] and of_weight, spec[2] and of_bias


@repeats
@takes_halves
def by_running_statistics(input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float, *, spec: Any) -> Any:
    if not input.size:
        return None
    x, as_rows = _channels(input, spec.strides)
    weight, bias, mean, var = map(_in_order, (weight, bias, mean, var))
    samples, channels = input.shape[:2]
    made = empty(x.shape, spec.dtype.np)
    given = (made, x, *(x if p is None else p for p in (weight, bias, mean)), var)
    has = dict(weighted=weight is not None, biased=bias is not None, shifted=mean is not None)
    if as_rows:
        done = launched(library.scale_columns, *given, x.size // channels, channels, eps, **has)
    else:
        done = launched(library.scale_planes, *given, samples, channels, x.size // (samples * channels), eps, **has)
    return _shaped(made, spec.strides) if done else None


def move_statistics(running_mean: Any, running_var: Any, mean: Any, rstd: Any, momentum: float, eps: float,
                    unbiased: float) -> Any:
    """Running statistics moved towards those of a batch: something if it was done here."""
    given = (running_mean, running_var, mean, rstd)
    done = launched(library.move_statistics, *given, running_mean.size, momentum, eps, unbiased)
    return running_mean if done else None
