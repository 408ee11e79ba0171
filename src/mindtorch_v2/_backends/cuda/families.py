"""Kernels on a CUDA device, made of declarations: what an `array` function computes over NumPy, it computes over CuPy.

Pointwise operators become generated kernels where their function can be traced (_backends/cuda/fuse.py). Operators that
CuPy would compose slowly, or NumPy alone could do, are in the modules of kernels/.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from ..._core.determinism import determinism, filler
from ..._core.device import device
from ..._core.dtype import REDUCED, complex32, dtype, get_default_dtype
from ..._core.geometry import contiguous_strides
from ..._core.tensor import Tensor
from ..._core.warn import warn_once
from ..._dispatch.keys import CUDA_MASK
from ..._dispatch.registry import Operator
from ..._ops._declare.families import ArrayFamily, Family, Pointwise
from ..._ops._declare.rules import (
    Spec,
)
from ..._ops._declare.updates import Updates
from ..._ops.copy import stored_number
from ..._ops.create import Factory, _check_options, required
from ..interface import named_kernel
from . import runtime
from .array import CudaArray, Layout, array_on, empty, from_host, layout_of, of_view
from .backend import CudaBackend
from .launch import C_TYPES, Launch, c_type, compiled, kernel, longs
from .memory import allocate
from .memory import source as memory_source
from .pointwise import copying, fused, spreading
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
    return wrap_cuda(finished_array(made, spec, where))


def finished_array(made: Any, spec: Spec, where: device) -> CudaArray:
    """The same as an array."""
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
        return target
    return of_view(made, where)


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
            warn_once("Casting complex values to real discards the imaginary part")
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
    if isinstance(family, Pointwise):
        return lambda *args: family.plan(operator, args)[0]
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
    if isinstance(family, Factory) and _is_fill(operator):
        return _filled(operator)
    made = family.kernel(operator, CudaBackend(array))
    if isinstance(family, Factory):
        return _on_named_device(operator, made)
    if isinstance(family, (ArrayFamily, Pointwise)):
        from .programs import recorded  # which is made of kernels that are made here
        from .written import preparing

        made = recorded(operator, made, array)
        own = preparing(operator.declaration.kernels.get("cpu")) if array is None else None
        if own is not None:
            made = recorded(operator, made, own)
    return fused(operator, family, made) if isinstance(family, Pointwise) else made


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


# factories -----------------------------------------------------------------------------------------------------------


def where_for(named: device | None, args: Sequence[Any]) -> device:
    """Where a factory's result goes: the device named, a tensor's, the current one."""
    if named is None or named.type != "cuda":
        return device_among(args)
    return runtime.device_of(runtime.current_device() if named.index is None else named.index)


def planned_factory(operator: Operator, args: Sequence[Any]) -> tuple[Layout, device, dtype]:
    """Layout, place and type of a factory's result."""
    at = operator.schema.index
    _check_options(operator, args[at["layout"]], args[at["pin_memory"]])
    spec = infer_of(operator)(*args)
    return layout_for(spec), where_for(args[at["device"]], args), spec.dtype


def planning(operator: Operator, written: Callable = lambda args, layout, kind: None) -> Callable:
    """`plan(args)`, which gives layout and place of a factory's result, and what `written` made of these at first."""
    plans: dict[tuple, tuple] = {}
    at_value = operator.schema.index.get("fill_value", 0)

    def plan(args: Sequence[Any]) -> tuple:
        first = args[0]
        given = first._array.layout if hasattr(first, "_array") else first
        key = (given, args[at_value].__class__, args[1:], get_default_dtype(), runtime.current_device(),
               determinism.fills)
        try:
            return plans[key]
        except (KeyError, AttributeError):
            pass
        except TypeError:  # lists
            layout, where, kind = planned_factory(operator, args)
            return layout, where, written(args, layout, kind)
        layout, where, kind = planned_factory(operator, args)
        if len(plans) > 4096:
            plans.clear()
        plans[key] = made = layout, where, written(args, layout, kind)
        return made

    return plan


def leaf(operator: Operator, made: Tensor, args: Sequence[Any]) -> Tensor:
    return required(made) if args[operator.schema.index["requires_grad"]] else made


_FILLS: dict[str, Any] = {"empty": None, "zeros": 0, "ones": 1}


def _on_named_device(operator: Operator, factory: Callable) -> Callable:
    """The kernel of a factory with the device it names as the current one: CuPy makes arrays there."""
    at = operator.schema.index["device"]

    def kernel(*args: Any) -> Tensor:
        with cupy.cuda.Device(where_for(args[at], args).index):
            return factory(*args)

    return kernel


def _is_fill(operator: Operator) -> bool:
    return _stem(operator) in _FILLS or "fill_value" in operator.schema.index


def _stem(operator: Operator) -> str:
    """What a factory is at heart: `zeros` of new_zeros and zeros_like."""
    return operator.schema.base_name.removeprefix("new_").removesuffix("_like").partition("_")[0]


def _filled(operator: Operator) -> Callable:
    """The kernel of a factory whose elements are all alike, or left as they are."""
    schema, stem = operator.schema, _stem(operator)
    at_value, at_grad = schema.index.get("fill_value"), schema.index["requires_grad"]

    def writing(args: Sequence[Any], layout: Layout, kind: dtype) -> Callable | None:
        value = _FILLS[stem] if at_value is None else stored_number(args[at_value], kind)
        if stem == "empty" and determinism.fills:
            value = stored_number(filler(kind), kind)
        return None if value is None else filling(layout, value)

    plan = planning(operator, writing)

    def filled(*args: Any) -> Tensor:
        layout, where, write = plan(args)
        array = empty(layout, where)
        if write is not None:
            write(array)
        return required(wrap_cuda(array)) if args[at_grad] else wrap_cuda(array)

    return filled


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
        if layout.dtype.name not in C_TYPES:
            return lambda array: array.view.fill(value)
        spread = spreading(layout, value)
        return lambda array: spread(array.pointer)
    bits = int.from_bytes(np.full(1, value, layout.dtype).tobytes(), "little", signed=True)
    if not bits:
        return lambda array: cupy.cuda.runtime.memsetAsync(array.pointer, 0, layout.nbytes, current.handle)
    launch, grid = kernel(f"typedef {_BITS[size]} T;{_FILL}", "fill", "qqq"), (min(-(-count // 256), 4096),)
    return lambda array: launch.over(grid, (256,), array.pointer, bits, count)


# in place ------------------------------------------------------------------------------------------------------------


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
    made = family.inplace_kernel(operator, functional, CudaBackend())
    return _guarded(fused(functional, family, made, inplace=True) if isinstance(family, Pointwise) else made)


# copies --------------------------------------------------------------------------------------------------------------


def copy_array(target: CudaArray, source: CudaArray) -> None:
    """Copies elements on the device, cast to the target's type."""
    if not target.size:
        return
    if target.layout is source.layout and target.layout.dense:
        cupy.cuda.runtime.memcpyAsync(target.pointer, source.pointer, target.nbytes, 3, current.handle)
        return
    if target.dtype in _COMPLEX:
        if source.dtype.name in C_TYPES and _lie_alike(target.layout, source.layout):
            pairing(source.dtype, None, target.dtype, target.size)(source.pointer, 0, target.pointer)
            return
        if source.dtype.name in C_TYPES and len(target.shape) <= _RANK:
            _pairing_apart(source.layout, target.layout)(source.pointer, target.pointer)
            return
        copy_array(_part(target, 0), _part(source, 0))
        if source.dtype in _COMPLEX:
            copy_array(_part(target, 1), _part(source, 1))
        else:
            fill(_part(target, 1), 0)
        return
    launch = copying(source.layout, target.layout)
    if launch is not None:
        launch(source.pointer, target.pointer)
    else:
        store(target.view, source.view)


def _lie_alike(one: Layout, other: Layout) -> bool:
    """Whether the elements of both fill their memory in the same order."""
    if one.contiguous and other.contiguous:
        return True
    size, others = one.dtype.itemsize, other.dtype.itemsize
    return one.dense and one.shape == other.shape and all(
        n == 1 or s * others == o * size for n, s, o in zip(one.shape, one.strides, other.strides, strict=True))


_PAIRS = r"""
struct __align__(2 * sizeof(R)) pair_t { R real, imag; };
extern "C" __global__ void pair(const S* a, const U* b, pair_t* out, int64 count) {
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (i >= count) return;
    W x = (W)widened(a[i]), y = b ? (W)widened(b[i]) : (W)0;
    pair_t made;
    made.real = narrow<R>::of(POLAR ? x * cos(y) : x);
    made.imag = narrow<R>::of(POLAR ? x * sin(y) : y);
    out[i] = made;
}
"""


@functools.lru_cache(4096)
def pairing(first: np.dtype, second: np.dtype | None, made: np.dtype, count: int, polar: bool = False) -> Launch:
    """The launch (parts, parts or 0, complex numbers) on contiguous arrays: of real and imaginary parts, or `polar`."""
    text = f"{_pair_types(first, second or first, made)}#define POLAR {int(polar)}\n{_PAIRS}"
    return Launch(compiled(text, "pair"), "qqq", (-(-count // 256),), (256,), longs(count))


def _pair_types(first: np.dtype, second: np.dtype, made: np.dtype) -> str:
    """C of the types of two parts, of the parts of complex numbers, and of what these are computed in."""
    part = _COMPLEX[made]
    kinds = {"S": first, "U": second, "R": part, "W": part if part.itemsize > 2 else _FLOAT32}
    return "".join(f"typedef {c_type(kind)} {name};\n" for name, kind in kinds.items())


_PAIRS_APART = r"""
struct __align__(2 * sizeof(R)) pair_t { R real, imag; };
struct geometry_t { int64 sizes[RANK], from[RANK], to[RANK]; };  // in bytes
extern "C" __global__ void pair_apart(const char* in, char* out, int64 count, geometry_t g) {
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (i >= count) return;
    for (int d = RANK - 1; d >= 0; --d) {
        int64 at = i % g.sizes[d];
        i /= g.sizes[d];
        in += at * g.from[d]; out += at * g.to[d];
    }
    pair_t made;
    made.real = narrow<R>::of((W)widened(*(const S*)in));
    made.imag = narrow<R>::of((W)0);
    *(pair_t*)out = made;
}
"""
_RANK = 16


@functools.lru_cache(4096)
def _pairing_apart(source: Layout, target: Layout) -> Launch:
    """The launch that copies real numbers into complex ones of the same shape that lie otherwise."""
    rank = max(len(target.shape), 1)
    geometry = (ctypes.c_longlong * (3 * rank))(*target.shape, *source.strides, *target.strides)
    text = f"#define RANK {rank}\n{_pair_types(source.dtype, source.dtype, target.dtype)}{_PAIRS_APART}"
    return Launch(compiled(text, "pair_apart"), "qq", (-(-target.size // 256),), (256,),
                  [*longs(target.size), geometry])


_COMPLEX: dict[np.dtype, np.dtype] = {np.dtype(np.complex64): _FLOAT32, np.dtype(np.complex128): np.dtype(np.float64),
                                      complex32.np: np.dtype(np.float16)}


def _part(array: CudaArray, number: int) -> CudaArray:
    """Real (0) or imaginary (1) parts of complex numbers, where they lie; of others, themselves."""
    kind = _COMPLEX.get(array.dtype)
    if kind is None:
        return array
    layout = layout_of(array.shape, kind, array.strides)
    return array_on(layout, array.memory, array.pointer + number * kind.itemsize, array.device)
