"""Dropout on a GPU: what is kept, drawn alone or together with the result."""

from collections.abc import Callable
from typing import Any

from ...._dispatch.registry import Operator
from ...._dtype import FLOAT, OF_ARRAY
from ...._ops.families import result_of
from ...._ops.rules import Spec
from ...._tensor import Tensor
from ..array import Layout, empty
from ..families import Maker, copy_array, fill, infer_of, layout_for, store, uninitialised, wrap_cuda
from ..plans import attempt
from ..random import drop
from .random import draw


@attempt
def noise(spec: Spec, self: Tensor, p: float, features: bool, scaled: bool) -> Tensor:
    """What to multiply with: zeros, and ones or what keeps the mean."""
    made = uninitialised(spec, self._device)
    array = made._array
    if array.size:
        flat = array if array.layout.contiguous else array.storage.array((array.size,), array.dtype, 0,
                                                                          (array.itemsize,))
        draw(flat, None, "bernoulli", 1 - p, 1 / (1 - p) if scaled else 1.0)
    return made


@Maker
def native_dropout(operator: Operator) -> Callable:
    """The result and what was kept, both drawn and written by one launch."""
    infer, plans = infer_of(operator), dict[Layout, list[Layout]]()

    def kernel(input: Tensor, p: float, train: bool | None) -> Any:
        array = input._array
        layouts = plans.get(array.layout)
        if layouts is None:
            if len(plans) > 4096:
                plans.clear()
            layouts = plans[array.layout] = [layout_for(spec) for spec in infer(input, p, train)]
        made, mask = (empty(layout, array.device) for layout in layouts)
        if not array.size:
            pass
        elif train is False or p == 0:
            fill(mask, True)
            copy_array(made, array)
        elif p < 1 and OF_ARRAY[array.dtype].category == FLOAT:
            source = array
            if array.layout is not made.layout or array.pointer & 15:
                source = empty(made.layout, array.device)
                copy_array(source, array)
            drop(source, made, mask, p)
        else:
            draw(mask, None, "bernoulli", 1 - p, 1.0)
            store(made.view, array.view * mask.view * array.dtype.type(0.0 if p == 1 else 1 / (1 - p)))
        return result_of(operator, [wrap_cuda(made), wrap_cuda(mask)])

    return kernel
