"""NVIDIA GPUs as a device: memory of CuPy's pool, arrays of CuPy, and kernels compiled here."""

from collections.abc import Callable, Sequence
from typing import Any

from ..._core.device import device
from ..._core.tensor import Tensor
from ..._dispatch.registry import Operator
from ..interface import Backend
from . import runtime


class CudaBackend(Backend):
    """CuPy computes what has no kernel of its own. It is first imported when a device is asked for."""

    type = "cuda"
    wide_statistics = True

    def __init__(self, array: Callable | None = None) -> None:
        self.array = array  # what computes in the place of an operator's own `array` function

    @property
    def xp(self) -> Any:  # type: ignore[override]
        from .namespace import xp

        return xp

    @property
    def storage_class(self) -> Any:
        runtime.require()
        from .array import CudaStorage

        return CudaStorage

    def require(self, operator: Operator) -> None:
        runtime.require()

    def current_device(self) -> int:
        return runtime.current_device()

    def place(self, named: device | None, args: Sequence[Any]) -> device:
        from .families import where_for

        return where_for(named, args)

    def empty(self, spec: Any, where: Any) -> Tensor:
        from .families import uninitialised

        return uninitialised(spec, where)

    def copy(self, target: Tensor, source: Tensor, non_blocking: bool = False) -> None:
        from .families import copy_array, store

        if source._array.shape == target._array.shape:
            copy_array(target._array, source._array)
        else:
            store(target._array.view, source._array.view)

    def array_of(self, tensor: Tensor, where: Any = None) -> Any:
        from .families import view_of

        return view_of(tensor, where)

    def finished(self, array: Any, spec: Any, where: Any = None) -> Tensor:
        from .families import finished

        return finished(array, spec, where)

    def kernel(self, operator: Operator) -> Callable:
        runtime.require()
        from .families import kernel_of

        return kernel_of(operator)

    def inplace_kernel(self, operator: Operator, functional: Operator) -> Callable:
        runtime.require()
        from .families import inplace_kernel_of

        return inplace_kernel_of(operator, functional)

    def array_function(self, operator: Operator, generic: Callable) -> Callable:
        return generic if self.array is None else self.array

    def fused_product(self, product: Any, parts: Sequence[Any]) -> Callable | None:
        from .kernels.matmul import fused_product

        return fused_product(product, parts)


BACKEND = CudaBackend()
