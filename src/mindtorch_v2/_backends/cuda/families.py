"""Kernels on a CUDA device, made of declarations: what an `array` function computes over NumPy, it computes over CuPy.

Pointwise operators become generated kernels where their function can be traced (_backends/cuda/fuse.py). Operators that
CuPy would compose slowly, or NumPy alone could do, are in the modules of kernels/.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from ..._determinism import determinism, filler
from ..._device import device
from ..._dispatch.keys import CUDA_MASK
from ..._dispatch.registry import Operator
from ..._dispatch.schema import NUMBERS
from ..._dtype import REDUCED, complex32, dtype, get_default_dtype
from ..._geometry import contiguous_strides
from ..._ops.copy import stored_number
from ..._ops.create import Factory, _check_options, required
from ..._ops.families import ArrayFamily, Family, Pointwise, Writes, _parameters, result_of
from ..._ops.rules import (
    Spec,
    check_operands,
    check_overlap,
    check_result_fits,
    check_writable,
    common_dtype,
    number_array,
    pointwise_strides,
)
from ..._ops.updates import Updates, check_update
from ..._tensor import Tensor
from ..._warn import warn_once
from ..interface import named_kernel
from . import runtime
from .array import CudaArray, Layout, empty, from_host, layout_of, of_view
from .launch import kernel
from .memory import allocate
from .memory import source as memory_source
from .namespace import xp
from .pointwise import copying, fused
from .streams import current

_new = object.__new__
_FLOAT32 = np.dtype(np.float32)


def wrap_cuda(array: CudaArray) -> Tensor:
    """A tensor on a fresh array."""
    made = _new(Tensor)
    made._array, made._keys, made._device = array, CUDA_MASK, array.device
    return made


def fresh_tensor(layout: Layout, where: device) -> Tensor:
    """An uninitialised tensor that is not empty: `wrap_cuda(empty(...))` in one function, for paths that are hot."""
    try:
        memory = memory_source.malloc(layout.nbytes)
    except MemoryError:
        memory = allocate(layout.nbytes, where)
    array = _new(CudaArray)
    array.shape, array.dtype, array.strides, array.layout = layout.shape, layout.dtype, layout.strides, layout
    array.memory, array.pointer, array.device = memory, memory.ptr, where
    array._storage = array._view = None
    made = _new(Tensor)
    made._array, made._keys, made._device = array, CUDA_MASK, where
    return made


def layout_for(spec: Spec) -> Layout:
    """The layout of the spec's geometry."""
    kind = spec.dtype
    strides = None if spec.strides is None else tuple([s * kind.itemsize for s in spec.strides])
    return layout_of(tuple(spec.shape), kind.np, strides)


def uninitialised(spec: Spec, where: device) -> Tensor:
    """A tensor of the spec's geometry on a device."""
    return wrap_cuda(empty(layout_for(spec), where))


def finished(made: Any, spec: Spec, where: device) -> Tensor:
    """What a kernel over CuPy gave, as a tensor of the inferred type and layout."""
    kind = spec.dtype.np
    if made.__class__ is not cupy.ndarray:
        made = cupy.asarray(made)
    shape = made.shape  # not always the spec's: of some results the data tells it
    if spec.strides is None or shape != tuple(spec.shape):
        strides = contiguous_strides(shape, kind.itemsize)
    else:
        strides = tuple([s * kind.itemsize for s in spec.strides])
    if made.dtype != kind or (made.strides != strides and made.size):
        target = empty(layout_of(shape, kind, strides), where)
        if target.size:
            store(target.view, made)
        return wrap_cuda(target)
    return wrap_cuda(of_view(made, where))


def _parts(view: Any) -> Any:
    """A `cupy.ndarray` of half complex numbers as one of their parts, in a last dimension."""
    return cupy.ndarray((*view.shape, 2), np.float16, view.data, (*view.strides, 2))


def store(target: Any, source: Any) -> None:
    """Writes one `cupy.ndarray` into another of any type, broadcast, with the casts of C."""
    if source.dtype == complex32.np and target.dtype != complex32.np and source.size:
        parts = _parts(source).astype(_FLOAT32)
        source = parts[..., 0] + 1j * parts[..., 1]
    elif target.dtype == complex32.np and source.dtype != complex32.np:
        if target.size:
            parts = _parts(target)
            parts[..., 0], parts[..., 1] = source.real, source.imag
        return
    kind, wanted = source.dtype, target.dtype
    if kind.kind == "c" and wanted.kind not in "cb":
        if source.size:
            warn_once("Casting complex values to real discards the imaginary part", 5)
        source = source.real
    if (kind in REDUCED or wanted in REDUCED) and kind != _FLOAT32 and kind != wanted:
        source = source.astype(_FLOAT32)  # the way all narrow types take
    if target.size:
        cupy.copyto(target, source, casting="unsafe")


def view_of(tensor: Tensor, where: device | None = None) -> Any:
    """A tensor's memory as a `cupy.ndarray`; a CPU tensor is copied to the device."""
    array = tensor._array
    if array.__class__ is CudaArray:
        return array.view
    return from_host(array, where or runtime.device_of(runtime.current_device())).view


def operand(value: Any, widen: bool, where: device) -> Any:
    """An argument as kernels over CuPy take it."""
    if value is None or value.__class__ in NUMBERS:
        return value
    if value.__class__ in (list, tuple):
        return [operand(v, widen, where) for v in value]
    view = view_of(value, where)
    return view.astype(_FLOAT32) if widen and view.dtype in REDUCED else view


def device_among(values: Sequence[Any]) -> device:
    """The device of the first tensor on a GPU among arguments; the current one without any."""
    for value in values:
        if value.__class__ in (list, tuple):
            for each in value:
                if getattr(each, "_array", None).__class__ is CudaArray:
                    return each._device
        elif hasattr(value, "_array") and value._array.__class__ is CudaArray:
            return value._device
    return runtime.device_of(runtime.current_device())


def infer_of(operator: Operator) -> Callable:
    """What checks a call's arguments and gives the specs of its results."""
    family = operator.declaration.family
    return (lambda self, *args: family.spec(self, args)) if isinstance(family, Updates) else family.infer


# from a declaration to its kernel ------------------------------------------------------------------------------------


class Maker:
    """A kernel of kernels/ that is made for each operator whose declaration names it, maybe in place too."""

    def __init__(self, of: Callable[[Operator], Callable],
                 in_place: Callable[[Operator, Operator], Callable] | None = None) -> None:
        self.of, self.in_place = of, in_place


def kernel_of(operator: Operator) -> Callable:
    """The kernel of an operator: the one its declaration names, else one made of it."""
    name = operator.declaration.kernels.get("cuda")
    if name is None:
        return _guarded(generic_kernel(operator))
    named = named_kernel("cuda", name)
    return _guarded(named.of(operator) if isinstance(named, Maker) else named)


def generic_kernel(operator: Operator, array: Callable | None = None) -> Callable:
    """The kernel that a declaration's own `array` function, or one in its place, gives over CuPy."""
    family: Family = operator.declaration.family
    if isinstance(family, Pointwise):
        return _pointwise(operator, family)
    if isinstance(family, Factory):
        return _factory(operator, family)
    if isinstance(family, Updates):
        return _update(operator, family)
    if isinstance(family, Writes):
        return _write(operator, family)
    if isinstance(family, ArrayFamily):
        return _from_infer(operator, family, array or family.array)
    return refuse(operator)


def refuse(operator: Operator) -> Callable:
    """The kernel of an operator that does not run on a GPU."""

    def kernel(*args: Any) -> Any:
        raise NotImplementedError(f"{operator.name} has no CUDA kernel: it cannot run on device 'cuda'")

    return kernel


def _guarded(kernel: Callable) -> Callable:
    """The kernel with the device of its tensors as the current one, where there are several."""
    if runtime.device_count() == 1:
        return kernel

    @functools.wraps(kernel)
    def guarded(*args: Any) -> Any:
        where = device_among(args)
        if where.index == runtime.current_device():
            return kernel(*args)
        with cupy.cuda.Device(where.index):
            return kernel(*args)

    return guarded


def _from_infer(operator: Operator, family: ArrayFamily, array: Callable) -> Callable:
    infer, schema, widen = family.infer, operator.schema, family.widen
    operands = [i for i, a in enumerate(schema.arguments) if a.is_tensor]
    takes_spec = "spec" in _parameters(array)
    if "operator" in _parameters(array):
        array = functools.partial(array, operator=operator)
    single = len(schema.returns) == 1 and not schema.returns[0].is_list

    def kernel(*args: Any) -> Any:
        spec, where = infer(*args), device_among(args)
        values = list(args)
        for i in operands:
            values[i] = operand(values[i], widen, where)
        made = array(xp, *values, spec=spec) if takes_spec else array(xp, *values)
        if single:
            return finished(made, spec, where)
        return result_of(operator, [None if s is None else finished(m, s, where)
                                    for m, s in zip(made, spec, strict=True)])

    return kernel


# pointwise -----------------------------------------------------------------------------------------------------------


def computed(operator: Operator, family: Pointwise, args: Sequence[Any], target: Tensor | None = None) -> tuple:
    """A pointwise operator over CuPy: the array and the spec of its result."""
    spec, kind, at = family.plan(operator, args, target)
    where, values = device_among(args), list(args)
    for i in at:
        value = values[i]
        if value.__class__ in NUMBERS:
            values[i] = np.asarray(number_array(value, kind))[()]
        else:
            view = view_of(value, where)
            values[i] = view if view.dtype == kind.np else view.astype(kind.np)
    if all(values[i].__class__ is not cupy.ndarray for i in at):  # numbers alone
        values[at[0]] = cupy.asarray(values[at[0]])
    if family.rounds and (narrow := common_dtype([args[i] for i in at]).np) in REDUCED:
        made = family.compute(xp, *values, rounded=lambda array: array.astype(narrow).astype(kind.np))
    else:
        made = family.compute(xp, *values)
    return made, spec._replace(strides=pointwise_strides(spec.shape, [args[i] for i in at])), where


def _pointwise(operator: Operator, family: Pointwise) -> Callable:
    def general(*args: Any) -> Tensor:
        made, spec, where = computed(operator, family, args)
        if made.shape != tuple(spec.shape):
            made = cupy.broadcast_to(made, spec.shape)
        return finished(made, spec, where)

    return fused(operator, family, general)


def _inplace_pointwise(functional: Operator, family: Pointwise) -> Callable:
    def kernel(target: Tensor, *args: Any) -> Tensor:
        family.check_write(functional, target, args)
        check_writable(target)
        for value in args:
            if hasattr(value, "_array"):
                check_overlap(target, value)
        made, spec, _ = computed(functional, family, (target, *args), target)
        check_result_fits(target, spec)
        if target._array.size:
            store(target._array.view, made)
        target._bump_version()
        return target

    return fused(functional, family, kernel, inplace=True)


# factories -----------------------------------------------------------------------------------------------------------


def where_for(named: device | None, args: Sequence[Any]) -> device:
    """Where a factory's result goes: the device named, a tensor's, the current one."""
    if named is None or named.type != "cuda":
        return device_among(args)
    return runtime.device_of(runtime.current_device() if named.index is None else named.index)


def _planned(operator: Operator, args: Sequence[Any]) -> tuple[Layout, device, dtype]:
    """Layout, place and type of a factory's result."""
    at = operator.schema.index
    _check_options(operator, args[at["layout"]], args[at["pin_memory"]])
    spec = infer_of(operator)(*args)
    return layout_for(spec), where_for(args[at["device"]], args), spec.dtype


def fresh(operator: Operator, args: Sequence[Any]) -> Tensor:
    """The uninitialised result of a factory."""
    layout, where, _ = _planned(operator, args)
    return wrap_cuda(empty(layout, where))


def leaf(operator: Operator, made: Tensor, args: Sequence[Any]) -> Tensor:
    return required(made) if args[operator.schema.index["requires_grad"]] else made


_FILLS: dict[str, Any] = {"empty": None, "zeros": 0, "ones": 1}


def _factory(operator: Operator, family: Factory) -> Callable:
    schema, name = operator.schema, operator.schema.base_name
    stem = name.removeprefix("new_").removesuffix("_like").partition("_")[0]
    at_value = schema.index.get("fill_value")

    plans: dict[tuple, tuple] = {}
    at_grad = schema.index["requires_grad"]

    def filled(*args: Any) -> Tensor:
        first = args[0]
        given = first._array.layout if hasattr(first, "_array") else first
        key = given, args[1:], get_default_dtype(), runtime.current_device(), determinism.fills
        try:
            layout, where, write = plans[key]
        except (KeyError, AttributeError):
            layout, where, kind = _planned(operator, args)
            value = _FILLS[stem] if at_value is None else stored_number(args[at_value], kind)
            if stem == "empty" and determinism.fills:
                value = stored_number(filler(kind), kind)
            write = None if value is None else filling(layout, value)
            if len(plans) > 4096:
                plans.clear()
            plans[key] = layout, where, write
        array = empty(layout, where)
        if write is not None:
            write(array)
        return required(wrap_cuda(array)) if args[at_grad] else wrap_cuda(array)

    if stem in _FILLS or at_value is not None:
        return filled

    def kernel(*args: Any) -> Tensor:
        _check_options(operator, args[schema.index["layout"]], args[schema.index["pin_memory"]])
        spec, where = family.infer(*args), where_for(args[schema.index["device"]], args)
        with cupy.cuda.Device(where.index):
            made = family.array(xp, *[operand(v, False, where) if hasattr(v, "_array") else v for v in args], spec=spec)
        return leaf(operator, finished(made, spec, where), args)

    return kernel


_FILL = """
extern "C" __global__ void fill(T* out, int64 bits, int64 count) {
    for (int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x; i < count; i += (int64)gridDim.x * blockDim.x)
        out[i] = (T)bits;
}
"""
_BITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


def fill(array: CudaArray, value: Any) -> None:
    """Stores a number into all elements."""
    filling(array.layout, value)(array)


def filling(layout: Layout, value: Any) -> Callable[[CudaArray], None]:
    """What stores a number into all elements of an array of that layout."""
    size, count = layout.dtype.itemsize, layout.size
    if not count:
        return lambda array: None
    if layout.nbytes != count * size or size not in _BITS:
        return lambda array: array.view.fill(value)
    bits = int.from_bytes(np.full(1, value, layout.dtype).tobytes(), "little", signed=True)
    if not bits:
        return lambda array: cupy.cuda.runtime.memsetAsync(array.pointer, 0, layout.nbytes, current.handle)
    launch, grid = kernel(f"typedef {_BITS[size]} T;{_FILL}", "fill", "qqq"), (min(-(-count // 256), 4096),)
    return lambda array: launch.over(grid, (256,), array.pointer, bits, count)


# writes --------------------------------------------------------------------------------------------------------------


def _write(operator: Operator, family: Writes) -> Callable:
    def kernel(target: Tensor, *args: Any) -> Tensor:
        family.check(target, *args)
        if not family.repeats:
            check_writable(target)
        if target._array.size:
            family.write(xp, target._array.view, *[operand(a, False, target._device) if hasattr(a, "_array") else a
                                                   for a in args])
        target._bump_version()
        return target

    return kernel


def _update(operator: Operator, family: Updates) -> Callable:
    """The functional form of an operator that writes some elements: a copy, then the write."""

    def kernel(source: Tensor, *args: Any) -> Tensor:
        made = uninitialised(family.spec(source, args), source._device)
        store(made._array.view, view_of(source))
        if made._array.size:
            family.write(xp, made._array.view, *[_written(a, source._device) for a in args])
        return made

    return kernel


def _written(value: Any, where: device) -> Any:
    if value.__class__ in (tuple, list):
        return [_written(v, where) for v in value]
    return view_of(value, where) if hasattr(value, "_array") else value


def inplace_kernel_of(operator: Operator, functional: Operator) -> Callable:
    """The kernel of an in-place form: one that comes with the functional form's, else one made of the declaration."""
    name = functional.declaration.kernels.get("cuda")
    named = None if name is None else named_kernel("cuda", name)
    if isinstance(named, Maker) and named.in_place is not None:
        return _guarded(named.in_place(operator, functional))
    return inplace_generic(operator, functional)


def inplace_generic(operator: Operator, functional: Operator) -> Callable:
    """The in-place kernel that a declaration gives."""
    family = functional.declaration.family
    if isinstance(family, Pointwise):
        return _guarded(_inplace_pointwise(functional, family))
    if isinstance(family, Updates):
        return _guarded(_inplace_update(operator, family))

    def kernel(target: Tensor, *args: Any) -> Tensor:
        result = functional.lookup(CUDA_MASK)(target, *args)
        check_writable(target)
        check_operands(functional, target, (target, *args))
        check_result_fits(target, Spec(result._array.shape, result.dtype))
        if target._array.size:
            store(target._array.view, result._array.view)
        target._bump_version()
        return target

    return _guarded(kernel)


def _inplace_update(operator: Operator, family: Updates) -> Callable:
    def kernel(target: Tensor, *args: Any) -> Tensor:
        check_update(family, operator, target, args)
        if target._array.size:
            family.write(xp, target._array.view, *[_written(a, target._device) for a in args])
        target._bump_version()
        return target

    return kernel


# copies --------------------------------------------------------------------------------------------------------------


def copy_array(target: CudaArray, source: CudaArray) -> None:
    """Copies elements on the device, cast to the target's type."""
    if not target.size:
        return
    if target.layout is source.layout and target.layout.contiguous:
        cupy.cuda.runtime.memcpyAsync(target.pointer, source.pointer, target.nbytes, 3, current.handle)
        return
    launch = copying(source.layout, target.layout)
    if launch is not None:
        launch(source.pointer, target.pointer)
    else:
        store(target.view, source.view)
