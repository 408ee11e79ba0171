"""Convolutions of few elements by compiled kernels: making a matrix of them would take longer."""

import math
from typing import Any

import numpy as np

from ...._core.geometry import Steps
from ...._kernels.library import conv as kernels
from ..jit.calls import hurry, launched
from ..jit.repeats import empty, repeats
from .arrays import three

hurry(kernels.forward, kernels.to_input, kernels.to_weight)
_FEW = 1 << 14  # products
_KINDS = frozenset(map(np.dtype, (np.float32, np.float64)))


def is_little(array: Any, weight: Any) -> bool:
    """Whether a convolution that makes (or, of a weight's gradient, takes) this array is for these kernels."""
    return 0 < array.size * math.prod(weight.shape[1:]) <= _FEW and array.dtype in _KINDS and weight.ndim <= 5


def _volumes(array: Any) -> Any:
    shape = array.shape
    return array if len(shape) == 5 else array.reshape(*shape[:2], *(1,) * (5 - len(shape)), *shape[2:])


def _numbers(steps: Steps) -> tuple[int, ...]:
    rank = len(steps.stride)
    return (*three(steps.stride, rank, 1), *three(steps.padding, rank, 0), *three(steps.dilation, rank, 1),
            steps.groups)


def filled(kernel: Any, made: Any, x: Any, weight: Any, bias: Any, steps: Steps) -> bool:
    """Writes a convolution, or its transposed map, into an array; False if nothing could be launched."""
    if x.dtype != weight.dtype or made.dtype != x.dtype or bias is not None and bias.dtype != x.dtype:
        return False
    weights = _volumes(weight)
    return launched(kernel, _volumes(made), _volumes(x), weights, made.reshape(-1) if bias is None else bias,
                    *_numbers(steps), biased=bias is not None)


def filled_weight(made: Any, grad: Any, x: Any, steps: Steps) -> bool:
    """Writes the gradient of a weight into an array; False if nothing could be launched."""
    if not x.dtype == grad.dtype == made.dtype:
        return False
    return launched(kernels.to_weight, _volumes(made), _volumes(grad), _volumes(x), *_numbers(steps))


@repeats
def convolution(input: Any, weight: Any, bias: Any, stride: tuple, padding: tuple, dilation: tuple, transposed: bool,
                output_padding: tuple, groups: int, spec: Any) -> Any:
    products = math.prod(spec.shape) * math.prod(weight.shape[1:])
    if spec.strides is not None or not input.size or not 0 < products <= _FEW or input.dtype not in _KINDS:
        return None
    made, rank = empty(spec.shape, input.dtype), weight.ndim - 2
    stride, padding, dilation = (v if len(v) == rank else v * rank for v in (stride, padding, dilation))
    steps = Steps(stride, padding, dilation, groups)
    kernel = kernels.to_input if transposed else kernels.forward
    return made if rank < 4 and filled(kernel, made, input, weight, bias, steps) else None
