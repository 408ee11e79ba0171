"""Ascend NPUs as a device: their kernels are made of rows (families.py)."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ..._core.dtype import bfloat16
from ..._core.tensor import Tensor
from ..._dispatch.registry import Operator
from ..interface import Backend
from . import families, fusions, plans, runtime
from .array import NpuStorage
from .chips import WITHOUT_BFLOAT16


class NpuBackend(Backend):
    """No array namespace: what has no row or kernel runs as a decomposition, or not at all."""

    type = "npu"
    storage_class = NpuStorage

    def current_device(self) -> int:
        return runtime.current_device()

    def empty(self, spec: Any, where: Any) -> Tensor:
        return families.uninitialised(spec, where)

    def copy(self, target: Tensor, source: Tensor, non_blocking: bool = False) -> None:
        families.store(target, source)

    def kernel(self, operator: Operator) -> Callable:
        return families.kernel_of(operator)

    def inplace_kernel(self, operator: Operator, functional: Operator) -> Callable:
        return families.inplace_kernel_of(operator, functional)

    def fused_product(self, product: Any, parts: Sequence[Any]) -> Callable | None:
        return fusions.fused_product(product, parts)

    def fused_sum(self, operator: Operator, layouts: dict[str, Any], numbers: dict[str, Any]) -> Callable | None:
        return fusions.fused_sum(operator, operator.declaration.of_sums["npu"], layouts, numbers)

    def plan_runner(self, plan: Any, steps: Callable[[Callable[[int], None] | None], Callable]) -> Callable:
        return plans.Runs(steps)

    def records(self, kinds: Collection[np.dtype]) -> bool:
        """Types that most operators take: few take float64 and complex numbers, and not every chip has bfloat16."""
        if bfloat16.np in kinds and runtime.started().chip in WITHOUT_BFLOAT16:
            return False
        return not any(kind.kind == "c" or kind.kind == "f" and kind.itemsize == 8 for kind in kinds)


BACKEND = NpuBackend()
