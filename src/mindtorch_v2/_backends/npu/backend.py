"""Ascend NPUs as a device: their kernels are made of rows (families.py)."""

from collections.abc import Callable
from typing import Any

from ..._core.tensor import Tensor
from ..._dispatch.registry import Operator
from ..interface import Backend
from . import families, runtime
from .array import NpuStorage


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


BACKEND = NpuBackend()
