"""Tensors made of numbers alone, on a GPU."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...._core.dtype import INT, dtype, finfo, get_default_dtype
from ...._core.tensor import Tensor
from ...._dispatch.registry import Operator
from ...._ops.create import _arange_bounds
from ..array import Layout, empty
from ..families import Maker, generic_kernel, leaf, planned_factory, wrap_cuda
from ..launch import Launch, c_type, compiled, longs
from ..runtime import current_device

_COUNT = r"""
extern "C" __global__ void count_up(T* out, int64 start, int64 step, int64 count) {
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (i < count) out[i] = narrow<T>::of((W)(start + i * step));
}
"""
_PLANS = 4096


def _counting(args: Sequence[Any], layout: Layout, kind: dtype) -> Launch | None:
    """The launch of steps that are whole numbers, and exact; None for others."""
    start, _, step = _arange_bounds(*args[:3])
    count = layout.size
    if kind.category == INT:
        start, step = int(start), int(step)
    else:
        exact = 1 << -int(math.log2(finfo(kind).eps)) if kind.is_floating_point else 0
        if start != int(start) or step != int(step) or max(abs(start), abs(start + count * step)) > exact:
            return None
    name = c_type(layout.dtype)
    wide = "float" if kind.category != INT and kind.itemsize < 4 else name
    text = f"typedef {name} T; typedef {wide} W;\n{_COUNT}"
    return Launch(compiled(text, "count_up"), "q", (-(-count // 256),), (256,), longs(int(start), int(step), count))


@Maker
def arange(operator: Operator) -> Callable:
    slow, plans = generic_kernel(operator), dict[tuple, Any]()

    def kernel(*args: Any) -> Tensor:
        key = (*[(a.__class__, a) for a in args[:3]], args[3:], get_default_dtype(), current_device())
        try:
            layout, where, launch = plans[key]
        except (KeyError, TypeError):
            layout, where, kind = planned_factory(operator, args)
            launch = _counting(args, layout, kind) if layout.size and where.index == current_device() else None
            if launch is None:
                return slow(*args)
            if len(plans) > _PLANS:
                plans.clear()
            plans[key] = layout, where, launch
        made = empty(layout, where)
        launch(made.pointer)
        return leaf(operator, wrap_cuda(made), args)

    return kernel
