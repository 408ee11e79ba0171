"""Running sums and products on a GPU."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...._dispatch.registry import Operator
from ...._dtype import REDUCED
from ...._ops.rules import Spec
from ...._tensor import Tensor
from ..along import Scanning
from ..array import empty, layout_of
from ..families import fresh_tensor, layout_for
from ..launch import C_TYPES
from ..plans import dense, planned
from .extreme import grouped

_FLOAT32, _INT64 = np.dtype(np.float32), np.dtype(np.int64)


@planned(by_value=False)
def cumulative(spec: Spec, self: Tensor, dim: int, dtype: Any, operator: Operator) -> Callable | None:
    """`cumsum` and `cumprod`."""
    array, layout = self._array, layout_for(spec)
    made = layout.dtype
    if not array.size or not {array.dtype.name, made.name} <= C_TYPES.keys() or made.kind == "b" or (
            made.kind in "iu" and array.dtype.kind not in "biu"):
        return None
    wide = _FLOAT32 if made in REDUCED else _INT64 if made.kind in "iu" else made
    outer, length, inner = grouped(array.shape, dim)
    scanning = Scanning(operator.schema.base_name, array.dtype, made, wide, outer, length, inner)
    room = layout_of((2, scanning.cells * scanning.parts), wide)

    def run(self: Tensor, dim: int, dtype: Any) -> Tensor:
        source, result = dense(self), fresh_tensor(layout, self._device)
        if scanning.parts == 1:
            scanning(source.pointer, result._array.pointer, 0, 0)
        else:
            sums = empty(room, self._device)
            scanning(source.pointer, result._array.pointer, sums.pointer, sums.pointer + room.nbytes // 2)
        return result

    return run
