"""The largest elements of windows on a GPU: one thread for each window."""

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...._core.geometry import contiguous_strides
from ...._dispatch.registry import Operator
from ...._ops.pool import _windows
from ..array import CudaArray, empty, layout_of
from ..families import copy_array, layout_for
from ..launch import C_TYPES, Launch, c_type, compiled, longs
from ..plans import planned

# NaN is largest, and the last of several counts; a window that is -infinity throughout names its first element. Threads
# go through the results as they lie, channels last or first.
_SOURCE = """
struct Dim {{ int64 length, results, size, stride, padding, dilation, step; }};
struct Dims {{ Dim of[{rank}]; }};
extern "C" __global__ void largest(const T* source, T* values, int64* places, int64 count, int64 channels,
                                   Dims dims) {{
    int64 at = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (at >= count) return;
    I rest = (I)at;
    int64 plane = 1, start[{rank}], channel = 0;
    if ({last}) {{ channel = rest % (I)channels; rest /= (I)channels; }}
    for (int d = {rank} - 1; d >= 0; --d) {{
        start[d] = (int64)(rest % (I)dims.of[d].results) * dims.of[d].stride - dims.of[d].padding;
        rest /= (I)dims.of[d].results;
        plane *= dims.of[d].length;
    }}
    source += {last} ? rest * plane * channels + channel : rest * plane;
    T best = T();
    int64 place = -1;
    {loops} {{
        T value = source[{offset}];
        auto wide = widened(value);
        if (place < 0 || wide > widened(best) || wide != wide) {{ best = value; place = {here}; }}
    }} {ends}
    values[at] = best;
    places[at] = place;
}}
"""


@functools.cache
def _kernel(kind: np.dtype, rank: int, last: bool, small: bool) -> Any:
    loops, here, offset = "", "0", "0"
    for d in range(rank):
        loops += f"for (int64 k{d} = 0; k{d} < dims.of[{d}].size; ++k{d}) {{ int64 i{d} = start[{d}] + k{d} * "
        loops += f"dims.of[{d}].dilation; if (i{d} < 0 || i{d} >= dims.of[{d}].length) continue;\n    "
        here = f"({here}) * dims.of[{d}].length + i{d}"
        offset += f" + i{d} * dims.of[{d}].step"
    text = _SOURCE.format(rank=rank, loops=loops, here=here, offset=offset, ends="}" * rank, last=int(last))
    index = "unsigned int" if small else "unsigned long long"
    return compiled(f"typedef {c_type(kind)} T;\ntypedef {index} I;\n{text}", "largest")


@planned
def max_pool(spec: Any, self: CudaArray, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
             operator: Operator) -> Callable | None:
    """`max_pool2d_with_indices` and `max_pool3d_with_indices`."""
    array, count, rank = self, math.prod(spec[0].shape), 2 if "2d" in operator.name else 3
    if array.dtype.name not in C_TYPES or not count:
        return None
    windows = _windows(array.shape, kernel_size, stride or (), padding, dilation, ceil_mode, rank)
    layouts, last = [layout_for(s) for s in spec], spec[0].strides is not None
    sizes, channels = array.shape[-rank:], array.shape[-rank - 1]
    taken, steps = layout_of(array.shape, array.dtype), contiguous_strides(sizes)
    if last:
        inner = tuple([s * channels for s in steps])
        strides = (math.prod(sizes) * channels, 1, *inner)
        taken = layout_of(array.shape, array.dtype, tuple([s * array.itemsize for s in strides]))
        steps = inner
    numbers = [n for length, w, step in zip(sizes, windows, steps, strict=True)
               for n in (length, w.results, w.size, w.stride, w.padding, w.dilation, step)]
    fixed = [*longs(count, channels), (ctypes.c_longlong * len(numbers))(*numbers)]
    small = max(count, array.size) < 1 << 31
    launch = Launch(_kernel(array.dtype, rank, last, small), "qqq", (-(-count // 256),), (256,), fixed)

    def run(self: CudaArray, *settings: Any) -> Any:
        source = self
        if self.layout is not taken:
            source = empty(taken, self.device)
            copy_array(source, self)
        made = [empty(layout, self.device) for layout in layouts]
        launch(source.pointer, made[0].pointer, made[1].pointer)
        return made

    return run
