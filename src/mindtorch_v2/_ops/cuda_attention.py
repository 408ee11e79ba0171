"""Attention on a GPU without the matrix of scores; masks given as tensors, and float64, go over CuPy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._backends.cuda.array import CudaArray, empty, layout_of
from .._backends.cuda.attention import MOST, launch_of
from .._dispatch.registry import registry
from .._tensor import Tensor
from .cuda import copy_array, uninitialised, wrap_cuda
from .cuda_rows import KERNELS, planned
from .families import result_of

__all__ = ["KERNELS"]
_FLOAT32, _TYPES = np.dtype(np.float32), ("float32", "float16", "bfloat16")


def _steps(array: CudaArray) -> list[int]:
    """Strides in elements over batch, heads and tokens."""
    return [s // array.itemsize for s in ((0, *array.strides) if array.ndim == 3 else array.strides)[:3]]


def _usable(array: CudaArray) -> CudaArray:
    """The array, or a copy whose rows lie together and begin where 16 bytes can be loaded."""
    if array.strides[-1] == array.itemsize and not array.pointer & 15 and not any(s & 15 for s in array.strides[:-1]):
        return array
    if array.layout.contiguous and not array.pointer & 15:
        return array
    made = empty(layout_of(array.shape, array.dtype), array.device)
    copy_array(made, array)
    return made


def _geometry(query: CudaArray, key: CudaArray, value: CudaArray, mask: Any) -> tuple[int, ...] | None:
    """Batch, heads, queries, keys, columns; None where the tiles do not fit."""
    if mask is not None or query.ndim not in (3, 4) or query.dtype.name not in _TYPES:
        return None
    if query.shape[-1] != value.shape[-1] or query.shape[-1] > MOST or not query.size or not key.size:
        return None
    batch, heads = (1, query.shape[0]) if query.ndim == 3 else query.shape[:2]
    return None if max(batch, heads) > 65535 else (batch, heads, query.shape[-2], key.shape[-2], query.shape[-1])


def _prepared(name: str, shape: tuple[int, ...], causal: bool, scale: float, *arrays: CudaArray) -> Callable:
    """The launch for arrays that `_usable` gave, of queries, keys, values and output."""
    width, size = shape[-1], arrays[0].itemsize
    steps = [_steps(each) for each in arrays]
    aligned = width % 16 == 0 and not any(s * size & 15 for each in steps for s in each)
    return launch_of(name, arrays[0].dtype, shape, causal, aligned, scale, steps)


@planned("_attention")
def _attention(specs: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool,
               scale: float) -> Callable | None:
    shape = _geometry(query._array, key._array, value._array, mask)
    if shape is None:
        return None
    kind = registry.get("_attention").declaration.result_type
    launches: dict[tuple, Callable] = {}

    def run(query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool, scale: float) -> Any:
        arrays = [_usable(each._array) for each in (query, key, value)]
        made, sums = (uninitialised(spec, query._device) for spec in specs)
        layouts = tuple([each.layout for each in arrays])
        launch = launches.get(layouts)
        if launch is None:
            launch = launches[layouts] = _prepared("attend", shape, is_causal, scale, *arrays, made._array)
        launch(*[each.pointer for each in arrays], made._array.pointer, sums._array.pointer)
        return kind(made, sums)

    return run


@planned("_attention_backward")
def _attention_backward(specs: Any, grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Any,
                        is_causal: bool, scale: float, logsumexp: Tensor) -> Callable | None:
    shape = _geometry(query._array, key._array, value._array, mask)
    if shape is None:
        return None
    operator = registry.get("_attention_backward")
    launches: dict[tuple, list[Callable]] = {}
    layouts = [layout_of(tuple(spec.shape), spec.dtype.np) for spec in specs]

    def run(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Any, is_causal: bool, scale: float,
            logsumexp: Tensor) -> Any:
        q, k, v, grad = (_usable(each._array) for each in (query, key, value, grad_out))
        found = q.layout, k.layout, v.layout, grad.layout
        pair = launches.get(found)
        if pair is None:
            pair = launches[found] = [_prepared(name, shape, is_causal, scale, q, k, v, grad)
                                      for name in ("of_queries", "of_keys")]
        of_query, of_key, of_value = (empty(layout, q.device) for layout in layouts)
        saved = logsumexp._array
        sums = empty(layout_of(saved.shape, _FLOAT32), q.device)
        given = grad.pointer, q.pointer, k.pointer, v.pointer, saved.pointer
        pair[0](*given, of_query.pointer, sums.pointer)
        pair[1](*given, sums.pointer, of_key.pointer, of_value.pointer)
        return result_of(operator, [wrap_cuda(each) for each in (of_query, of_key, of_value)])

    return run
