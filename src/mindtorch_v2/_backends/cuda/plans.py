"""How the kernels of kernels/ are made for the operators that name them, and how calls find their launches.

A plan is a function prepared for all calls whose tensors have some layouts and whose other arguments are alike.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..._dispatch.registry import Operator
from ..._ops.families import _parameters, result_of
from ..._tensor import Tensor
from .array import CudaArray, empty, layout_of
from .families import Maker, copy_array, generic_kernel, infer_of

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


def array(function: Callable) -> Maker:
    """The kernel of a function that CuPy should compute in the place of the declaration's `array`."""
    return Maker(lambda operator: generic_kernel(operator, function))


def attempt(function: Callable) -> Maker:
    """The kernel of `function(spec, *arguments)`, which gives the result, or None for a call that is CuPy's.

    This function and those of `planned` get the operator too where they have a parameter of that name.
    """

    def make(operator: Operator) -> Callable:
        given, infer = with_operator(function, operator), infer_of(operator)
        slow = functools.cache(lambda: generic_kernel(operator))

        def kernel(*args: Any) -> Any:
            made = given(infer(*args), *args)
            if made is None:
                return slow()(*args)
            return made if made.__class__ is not list else result_of(operator, made)

        return kernel

    return Maker(make)


def planned(prepare: Callable | None = None, *, by_value: bool = True, array: Callable | None = None) -> Any:
    """The kernel of `prepare(spec, *arguments)`, which gives the plan of a call, or None for one that is CuPy's.

    Unless `by_value`, a plan serves any floating-point number in the place of another. With an `array` function CuPy
    computes that one, not the declaration's.
    """
    if prepare is None:
        return functools.partial(planned, by_value=by_value, array=array)

    def make(operator: Operator) -> Callable:
        given, infer = with_operator(prepare, operator), infer_of(operator)
        slow = functools.cache(lambda: generic_kernel(operator, array))
        plans: dict[tuple, Callable] = {}

        def kernel(*args: Any) -> Any:
            try:
                key = tuple([v._array.layout if hasattr(v, "_array") else v for v in args]) if by_value \
                    else layouts_of(args)
                run = plans.get(key)
            except AttributeError:  # a tensor on the host
                return slow()(*args)
            if run is None:
                if len(plans) > _PLANS:
                    plans.clear()
                run = plans[key] = given(infer(*args), *args) or slow()
            return run(*args)

        return kernel

    return Maker(make)


def with_operator(function: Callable, operator: Operator) -> Callable:
    """The function, given its operator if it has a parameter of that name."""
    return functools.partial(function, operator=operator) if "operator" in _parameters(function) else function


def layouts_of(args: Sequence[Any]) -> tuple:
    """What a plan depends on that serves all numbers, lists included; AttributeError where a tensor is on the host."""
    return tuple([v._array.layout if hasattr(v, "_array") else layouts_of(v) if v.__class__ in (tuple, list)
                  else v if v.__class__ is not float else float for v in args])
