"""The table of CUDA kernels that are not made from a declaration's `array` function, and how calls find their launches.

A plan is a function prepared for all calls whose tensors have some layouts and whose other arguments are alike.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...._dispatch.registry import registry
from ...._ops.families import result_of
from ...._tensor import Tensor
from ..array import CudaArray, empty, layout_of
from ..families import COPIES, copy_array, generic_kernel

KERNELS: dict[str, Callable] = {**COPIES}
_PLANS = 4096


def dense(tensor: Tensor) -> CudaArray:
    """A tensor's array in C order and, for loads of four elements, at a place that is a multiple of 16 bytes."""
    array = tensor._array
    if array.layout.contiguous and not array.pointer & 15:
        return array
    made = empty(layout_of(array.shape, array.dtype), array.device)
    copy_array(made, array)
    return made


def dense_if_any(tensor: Tensor | None) -> Any:
    return None if tensor is None else dense(tensor)


def pointer_of(array: CudaArray | None) -> int:
    """An array's address, or 0, which kernels take for one that is not there."""
    return 0 if array is None else array.pointer


def own(name: str) -> Callable[[Callable], Callable]:
    """Registers `attempt(spec, *arguments)`, which gives the result, or None for a call that is CuPy's."""
    operator = registry.get(name)
    infer = operator.declaration.family.infer
    slow = functools.cache(lambda: generic_kernel(operator))

    def register(attempt: Callable) -> Callable:
        def call(*args: Any) -> Any:
            made = attempt(infer(*args), *args)
            if made is None:
                return slow()(*args)
            return made if made.__class__ is not list else result_of(operator, made)

        KERNELS[name] = call
        return attempt

    return register


def planned(name: str, *, by_value: bool = True, infer: Callable | None = None) -> Callable[[Callable], Callable]:
    """Registers `prepare(spec, *arguments)`, which gives the plan of a call, or None for one that is CuPy's.

    Unless `by_value`, a plan serves any floating-point number in the place of another.
    """
    operator = registry.get(name)
    infer = infer or operator.declaration.family.infer
    slow = functools.cache(lambda: generic_kernel(operator))

    def register(prepare: Callable) -> Callable:
        plans: dict[tuple, Callable] = {}

        def call(*args: Any) -> Any:
            try:
                key = tuple([v._array.layout if hasattr(v, "_array") else v for v in args]) if by_value \
                    else layouts_of(args)
                run = plans.get(key)
            except AttributeError:  # a tensor on the host
                return slow()(*args)
            if run is None:
                if len(plans) > _PLANS:
                    plans.clear()
                run = plans[key] = prepare(infer(*args), *args) or slow()
            return run(*args)

        KERNELS[name] = call
        return prepare

    return register


def layouts_of(args: Sequence[Any]) -> tuple:
    """What a plan depends on that serves all numbers, lists included; AttributeError where a tensor is on the host."""
    return tuple([v._array.layout if hasattr(v, "_array") else layouts_of(v) if v.__class__ in (tuple, list)
                  else v if v.__class__ is not float else float for v in args])
