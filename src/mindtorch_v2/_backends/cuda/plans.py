"""How the kernels of kernels/ are made for the operators that name them, and how calls find their launches.

A plan is a function prepared for all calls whose tensors have some layouts and whose other arguments are alike. Kernels
take arrays and values, and give arrays: tensors are what this module takes apart and makes.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._dispatch.callers import compile_function
from ..._dispatch.registry import Operator
from ..._dispatch.schema import NUMBERS
from ..._ops._declare.families import operand_positions
from ..interface import parameters_of
from .array import CudaArray, empty, layout_of
from .families import Maker, copy_array, generic_kernel, infer_of, wrap_cuda

_PLANS = 4096


def dense(array: CudaArray) -> CudaArray:
    """An array in C order and, for loads of four elements, at a place that is a multiple of 16 bytes."""
    if array.layout.contiguous and not array.pointer & 15:
        return array
    made = empty(layout_of(array.shape, array.dtype), array.device)
    copy_array(made, array)
    return made


def dense_if_any(array: CudaArray | None) -> Any:
    return None if array is None else dense(array)


def pointer_of(array: CudaArray | None) -> int:
    """An array's address, or 0, which kernels take for one that is not there."""
    return 0 if array is None else array.pointer


def array(function: Callable) -> Maker:
    """The kernel of a function that CuPy should compute in the place of the declaration's `array`."""
    return Maker(lambda operator: generic_kernel(operator, function))


def attempt(function: Callable) -> Maker:
    """The kernel of `function(spec, *arguments)`, which gives the result, or None for a call that is CuPy's.

    Like those of `planned` it takes arrays in the place of tensors and gives arrays, and gets the operator too where it
    has a parameter of that name.
    """

    def make(operator: Operator) -> Callable:
        given, infer, wrap = with_operator(function, operator), infer_of(operator), _wrapping(operator)
        slow = functools.cache(lambda: generic_kernel(operator))
        tensors = operand_positions(operator.schema)

        def kernel(*args: Any) -> Any:
            spec, values = infer(*args), list(args)
            for i in tensors:
                values[i] = getattr(args[i], "_array", args[i])
                if values[i].__class__ is np.ndarray:  # on the host
                    return slow()(*args)
            made = given(spec, *values)
            return slow()(*args) if made is None else wrap(made)

        return kernel

    return Maker(make)


_KERNEL = """
def {name}({names}):
    try:
        {arrays}
        run = plans[{key}]
    except (KeyError, AttributeError):
        return general({names})
    made = run({given})
    return wrap(made) if made is not None else slow()({names})

def taken({names}):
    {arrays}
    return ({key}), ({given})
"""


def planned(prepare: Callable | None = None, *, by_value: bool = True, array: Callable | None = None) -> Any:
    """The kernel of `prepare(spec, *arguments)`, which gives the plan of a call, or None for one that is CuPy's.

    The plan, `run(*arguments)`, gives None too for a call that it leaves to CuPy. Unless `by_value`, a plan serves any
    floating-point number in the place of another. With an `array` function CuPy computes that one, not the
    declaration's.
    """
    if prepare is None:
        return functools.partial(planned, by_value=by_value, array=array)

    def make(operator: Operator) -> Callable:
        given, infer, wrap = with_operator(prepare, operator), infer_of(operator), _wrapping(operator)
        slow = functools.cache(lambda: generic_kernel(operator, array))
        plans: dict[tuple, Callable] = {}

        def general(*args: Any) -> Any:
            try:
                key, values = scope["taken"](*args)
            except AttributeError:  # a tensor on the host
                return slow()(*args)
            run = given(infer(*args), *values) or _no_plan
            if len(plans) > _PLANS:
                plans.clear()
            plans[key] = run
            made = run(*values)
            return wrap(made) if made is not None else slow()(*args)

        scope: dict[str, Any] = {"plans": plans, "general": general, "slow": slow, "wrap": wrap, "NUMBERS": NUMBERS,
                                 "__opname__": f"{operator.name} cuda"}
        name, names = operator.schema.base_name, ", ".join(operator.schema.names)
        arrays, key = _key_text(operator, by_value)
        values = "".join(f"{a.name}_array, " if a.is_tensor else f"{a.name}, " for a in operator.schema.arguments)
        text = _KERNEL.format(name=name, names=names, arrays="; ".join(arrays), key=key, given=values)
        return compile_function(name, text, scope)

    return Maker(make)


def _no_plan(*values: Any) -> None:
    """The plan of calls that are CuPy's."""


def _key_text(operator: Operator, by_value: bool) -> tuple[list[str], str]:
    """The statements that take the arrays out of a call's tensors, and the key of its plan: layouts, and values."""
    arrays, key = [], []
    for argument in operator.schema.arguments:
        name = argument.name
        value = name if by_value else f"(float if {name}.__class__ is float else {name})"
        if argument.is_tensor:
            taken, part = f"{name}._array", f"{name}_array.layout"
            if argument.type == "Tensor|Scalar":  # True is no 1: results may be of another type
                taken = f"{name} if {name}.__class__ in NUMBERS else {taken}"
                part = f"(({name}.__class__, {value}) if {name}.__class__ in NUMBERS else {part})"
            if argument.optional:
                taken, part = f"None if {name} is None else {taken}", f"(None if {name} is None else {part})"
            arrays.append(f"{name}_array = {taken}")
            key.append(part)
        else:
            key.append(f"(tuple({name}) if {name}.__class__ is list else {name})" if argument.is_list else value)
    return arrays, ", ".join(key) + ","


def _wrapping(operator: Operator) -> Callable:
    """What makes an operator's result of the arrays of its kernel."""
    returns = operator.schema.returns
    if len(returns) == 1 and not returns[0].is_list:
        return wrap_cuda
    kind = operator.declaration.result_type

    def wrapped(arrays: Sequence[CudaArray | None]) -> Any:
        tensors = [None if array is None else wrap_cuda(array) for array in arrays]
        return tensors if kind is None else kind(*tensors)

    return wrapped


def with_operator(function: Callable, operator: Operator) -> Callable:
    """The function, given its operator if it has a parameter of that name."""
    return functools.partial(function, operator=operator) if "operator" in parameters_of(function) else function


def layouts_of(args: Sequence[Any]) -> tuple:
    """What a plan depends on that serves all numbers, lists included; AttributeError where a tensor is on the host."""
    return tuple([v._array.layout if hasattr(v, "_array") else layouts_of(v) if v.__class__ in (tuple, list)
                  else v if v.__class__ is not float else float for v in args])
