"""The largest elements of windows on a GPU: one thread for each window."""

import math
from collections.abc import Callable
from typing import Any

from .._backends.cuda.array import CudaArray, empty, layout_of
from .._backends.cuda.launch import C_TYPES, Launch, c_type, compiled
from .._dispatch.registry import registry
from .._tensor import Tensor
from .cuda import copy_array, uninitialised, wrap_cuda
from .cuda_plans import dense, planned
from .families import result_of
from .pool import Window, _windows
from .rules import Spec

# NaN is largest, and the last of several counts; a window that is -infinity throughout names its first element.
_SOURCE = """
extern "C" __global__ void largest(const T* source, T* values, int64* places, int64 count) {{
    int64 at = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (at >= count) return;
    int64 rest = at;
    {starts}
    const T* plane = source + rest * {plane};
    T best = T();
    int64 place = -1;
    {loops} {{
        int64 here = {here};
        T value = plane[here];
        auto wide = widened(value);
        if (place < 0 || wide > widened(best) || wide != wide) {{ best = value; place = here; }}
    }} {ends}
    values[at] = best;
    places[at] = place;
}}
"""


def _source(kind: Any, windows: tuple[Window, ...], sizes: tuple[int, ...]) -> str:
    starts, loops, here, plane = "", "", "0", 1
    for d, w in reversed(list(enumerate(windows))):
        starts += f"int64 s{d} = rest % {w.results} * {w.stride} - {w.padding}; rest /= {w.results};\n    "
    for d, (w, n) in enumerate(zip(windows, sizes, strict=True)):
        loops += f"for (int k{d} = 0; k{d} < {w.size}; ++k{d}) {{ int64 i{d} = s{d} + k{d} * {w.dilation}; "
        loops += f"if (i{d} < 0 || i{d} >= {n}) continue;\n    "
        here, plane = f"({here}) * {n} + i{d}", plane * n
    text = _SOURCE.format(starts=starts, loops=loops, here=here, plane=plane, ends="}" * len(sizes))
    return f"typedef {c_type(kind)} T;\n{text}"


def _declare(rank: int) -> None:
    name = f"max_pool{rank}d_with_indices"
    operator = registry.get(name)

    def prepare(spec: Any, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                ceil_mode: bool) -> Callable | None:
        array, count = self._array, math.prod(spec[0].shape)
        if array.dtype.name not in C_TYPES or not count:
            return None
        windows = _windows(array.shape, kernel_size, stride or (), padding, dilation, ceil_mode, rank)
        text = _source(array.dtype, windows, array.shape[-rank:])
        launch = Launch(compiled(text, "largest"), "qqqq", ((count + 255) // 256,), (256,))
        plain = [layout_of(tuple(s.shape), s.dtype.np) for s in spec]

        def run(self: Tensor, *settings: Any) -> Any:
            made = [empty(layout, self._device) for layout in plain]
            launch(dense(self).pointer, made[0].pointer, made[1].pointer, count)
            return result_of(operator, map(_laid, made, spec))

        return run

    planned(name)(prepare)


def _laid(array: CudaArray, spec: Spec) -> Tensor:
    """A result in C order, brought into the strides of its spec."""
    made = wrap_cuda(array)
    if spec.strides is not None and tuple(spec.strides) != made.stride():
        made = uninitialised(spec, array.device)
        copy_array(made._array, array)
    return made


_declare(2)
_declare(3)
