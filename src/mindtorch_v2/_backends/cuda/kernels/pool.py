"""The largest elements of windows on a GPU: one thread for each window."""

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._dispatch.registry import Operator
from ...._ops._declare.rules import Spec
from ...._ops.pool import _windows
from ..array import CudaArray, empty, layout_of
from ..families import copy_array, layout_for
from ..launch import C_TYPES, Launch, c_type, compiled
from ..plans import dense, planned

# NaN is largest, and the last of several counts; a window that is -infinity throughout names its first element.
_SOURCE = """
struct Dim {{ int64 length, results, size, stride, padding, dilation; }};
struct Dims {{ Dim of[{rank}]; }};
extern "C" __global__ void largest(const T* source, T* values, int64* places, int64 count, Dims dims) {{
    int64 at = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (at >= count) return;
    int64 rest = at, plane = 1, start[{rank}];
    for (int d = {rank} - 1; d >= 0; --d) {{
        start[d] = rest % dims.of[d].results * dims.of[d].stride - dims.of[d].padding;
        rest /= dims.of[d].results;
        plane *= dims.of[d].length;
    }}
    source += rest * plane;
    T best = T();
    int64 place = -1;
    {loops} {{
        int64 here = {here};
        T value = source[here];
        auto wide = widened(value);
        if (place < 0 || wide > widened(best) || wide != wide) {{ best = value; place = here; }}
    }} {ends}
    values[at] = best;
    places[at] = place;
}}
"""


@functools.cache
def _kernel(kind: np.dtype, rank: int) -> Any:
    loops, here = "", "0"
    for d in range(rank):
        loops += f"for (int64 k{d} = 0; k{d} < dims.of[{d}].size; ++k{d}) {{ int64 i{d} = start[{d}] + k{d} * "
        loops += f"dims.of[{d}].dilation; if (i{d} < 0 || i{d} >= dims.of[{d}].length) continue;\n    "
        here = f"({here}) * dims.of[{d}].length + i{d}"
    text = _SOURCE.format(rank=rank, loops=loops, here=here, ends="}" * rank)
    return compiled(f"typedef {c_type(kind)} T;\n{text}", "largest")


@planned
def max_pool(spec: Any, self: CudaArray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
             operator: Operator) -> Callable | None:
    """`max_pool2d_with_indices` and `max_pool3d_with_indices`."""
    array, count, rank = self, math.prod(spec[0].shape), 2 if "2d" in operator.name else 3
    if array.dtype.name not in C_TYPES or not count:
        return None
    windows = _windows(array.shape, kernel_size, stride or (), padding, dilation, ceil_mode, rank)
    numbers = [n for length, w in zip(array.shape[-rank:], windows, strict=True)
               for n in (length, w.results, w.size, w.stride, w.padding, w.dilation)]
    fixed = [ctypes.c_longlong(count), (ctypes.c_longlong * len(numbers))(*numbers)]
    launch = Launch(_kernel(array.dtype, rank), "qqq", (-(-count // 256),), (256,), fixed)
    plain = [layout_of(tuple(s.shape), s.dtype.np) for s in spec]

    def run(self: CudaArray, *settings: Any) -> Any:
        source, made = dense(self), [empty(layout, self.device) for layout in plain]
        launch(source.pointer, made[0].pointer, made[1].pointer)
        return [*map(_laid, made, spec)]

    return run


def _laid(array: CudaArray, spec: Spec) -> CudaArray:
    """A result in C order, brought into the strides of its spec."""
    layout = layout_for(spec)
    if layout is array.layout:
        return array
    made = empty(layout, array.device)
    copy_array(made, array)
    return made
