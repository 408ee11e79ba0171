"""Copies and writes: clone, conversions of type, device and memory format, copy_, fill_."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._autograd.names import OTHERWISE, when_tensor
from .._backends.interface import Backend, backend_of
from .._core.allocation import out_of_memory
from .._core.determinism import determinism, filler
from .._core.device import channels_last, contiguous_format, device, memory_format, preserve_format
from .._core.dtype import (
    BOOL,
    COMPLEX,
    FLOAT,
    FLOAT8,
    INT,
    OF_ARRAY,
    REDUCED,
    as_dtype,
    bfloat16,
    cast,
    complex32,
    copied,
    dtype,
    finfo,
    float8_e4m3fn,
    float16,
    float32,
    float64,
    iinfo,
)
from .._core.elements import at_hand, has_elements, is_c_contiguous, is_host_array
from .._core.geometry import (
    channels_last_strides,
    contiguous_strides,
    element_strides,
    is_dense,
    packed_order,
    strided_array,
)
from .._core.offers import offers, taken
from .._core.tensor import Tensor
from .._dispatch.callers import device_keys
from .._dispatch.keys import modes
from .._dispatch.registry import Operator
from .._dispatch.schema import NUMBERS
from ._declare.aten import LEAF, Aten
from ._declare.batch import Call, Result, aligned, broadcast, in_front
from ._declare.families import ArrayFamily, writes
from ._declare.layouts import NO_CONTIGUOUS
from ._declare.op import composite, op
from ._declare.rules import (
    Spec,
    broadcast_shape,
    check_overlap,
    check_writable,
    is_expanded,
    pointwise_strides,
    shape_misfit,
    shows_the_same,
    warn_of_parts_lost,
    writable_copy,
)
from ._declare.samples import case, cases, error, t, unary

# geometry ------------------------------------------------------------------------------------------------------------


def suggested_strides(self: Tensor, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Channels-last strides for a result of this shape if `self` lies so, else None."""
    own = self._array.shape
    if len(own) not in (4, 5) or 1 not in own and is_c_contiguous(self._array):
        return None
    return _suggested(own, element_strides(self._array), tuple(shape))


def suggested_strides_of_rows(self: Tensor, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """As `suggested_strides`, of rows: they are made contiguous, then computed as images of one row."""
    own = self._array.shape
    if 1 not in own or not self.is_contiguous():
        return None
    strides = element_strides(self._array)
    made = _suggested((*own[:2], 1, own[2]), (*strides[:2], own[2] * strides[2], strides[2]), (*shape[:2], 1, shape[2]))
    return None if made is None else (*made[:2], made[3])


@functools.lru_cache(4096)
def _suggested(own: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    if len(shape) != len(own) or 0 in own or not strides[1]:
        return None
    least = 0
    for d in (1, *range(len(own) - 1, 1, -1), 0):
        if strides[d] < least or (d == 0 and least == strides[1]):  # the latter: too few elements to tell
            return None
        least = strides[d] * own[d]
    return channels_last_strides(shape)


def _suggests(self: Tensor, wanted: memory_format) -> bool:
    """Whether the order of the strides is a format's; unlike is_contiguous, one format alone where sizes are 1."""
    found = suggested_strides(self, self._array.shape)
    if wanted is contiguous_format:
        return found is None
    return found is not None and self._array.ndim == (4 if wanted is channels_last else 5)


def format_strides(shape: tuple[int, ...], wanted: memory_format | None) -> tuple[int, ...] | None:
    """Element strides of a memory format; None for a contiguous one."""
    if wanted is None or wanted is contiguous_format:
        return None
    if wanted is preserve_format:
        raise RuntimeError("unsupported memory format Preserve")
    ndim = 4 if wanted is channels_last else 5
    if len(shape) != ndim:
        raise RuntimeError(f"required rank {ndim} tensor to use {wanted._name} format")
    return channels_last_strides(shape)


def preserved_strides(self: Tensor, wanted: memory_format | None) -> tuple[int, ...] | None:
    """Element strides of a copy: a format's, or with preserve_format (None) those of the original, packed."""
    array = self._array
    if wanted is not None and wanted is not preserve_format:
        return format_strides(array.shape, wanted)
    if array.size and 1 not in array.shape and is_c_contiguous(array):
        return None
    strides = element_strides(array) if array.size else self.stride()
    if strides == contiguous_strides(array.shape):
        return None
    if not array.size:
        return strides
    return strides if is_dense(array) else pointwise_strides(array.shape, [self])


def uninitialised(spec: Spec, xp: Any = None) -> Any:
    """An array of the spec's geometry for a result: the host's, or what the namespace of another device has."""
    made = taken(spec.shape, spec.dtype.np) if offers and spec.strides is None else None
    return _fresh(spec, xp) if made is None else made


def _fresh(spec: Spec, xp: Any = None) -> Any:
    if spec.strides is None:
        return (np if xp is None else xp).empty(spec.shape, spec.dtype.np)
    return (strided_array if xp is None else xp.uninitialised)(spec.shape, spec.dtype.np, spec.strides)


def unwritten(spec: Spec) -> Any:
    """`uninitialised`, for memory that a program gets to see: filled in deterministic mode."""
    made = _fresh(spec)
    if determinism.fills:
        made.fill(stored_number(filler(spec.dtype), spec.dtype))
    return made


# numbers and casts ---------------------------------------------------------------------------------------------------

_C_NAMES = {"uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t",
            "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t", "float16": "c10::Half",
            "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double", "complex64": "c10::complex<float>",
            "complex32": "c10::complex<c10::Half>",
            "complex128": "c10::complex<double>", **{d.name: f"c10::{d.scalar_name}" for d in FLOAT8}}


_LIMITS = {
    d: (iinfo(d).min if d.is_signed else -iinfo(d).max, iinfo(d).max) for d in OF_ARRAY.values() if d.category == INT
}
_LARGEST = {d: finfo(d).max for d in OF_ARRAY.values() if d.category == FLOAT}
_INFINITIES = (math.inf, -math.inf)


def fits(value: Any, kind: dtype) -> bool:
    """Whether a number may be stored in a type: in its range, though a negative one may wrap into an unsigned type."""
    if kind.category == BOOL:
        return True
    if value.__class__ is complex:
        if kind.category == COMPLEX:
            return fits(value.real, kind.to_real()) and fits(value.imag, kind.to_real())
        if value.imag:
            return False
        value = value.real
    if kind.category == INT:
        lowest, largest = _LIMITS[kind]
        return lowest <= value <= largest
    return abs(value) <= _LARGEST[kind.to_real()] or value != value or value in _INFINITIES


def stored_number(value: Any, kind: dtype) -> Any:
    """A number as an array of this type takes it; RuntimeError if the type cannot hold it."""
    if kind.category == BOOL:
        return bool(value)
    if not fits(value, kind):
        raise RuntimeError(f"value cannot be converted to type {_C_NAMES[kind.name]} without overflow")
    if value.__class__ is complex and kind.category != COMPLEX:
        value = value.real
    if kind.category == INT:
        return int(value) if kind.is_signed else int(value) % (1 << 8 * kind.itemsize)
    if kind is complex32:
        return np.array((complex(value).real, complex(value).imag), kind.np)[()]
    return np.float32(value) if kind.np in REDUCED else value


def store(xp: Any, target: Any, source: Any) -> None:
    """Writes an array into another of any type, with the casts of C."""
    if copied(target, source):
        return
    kind, wanted = source.dtype, target.dtype
    if kind is not wanted:
        if kind == complex32.np or wanted == complex32.np:
            source = cast(source, np.dtype(np.complex64) if kind == complex32.np else wanted)
            return store(xp, target, source)
        if kind.kind == "c" and wanted.kind not in "cb":
            warn_of_parts_lost(source, OF_ARRAY[wanted])
            return store(xp, target, source.real)
        if (kind in REDUCED or wanted in REDUCED) and kind != xp.float32:
            source = source.astype(xp.float32)  # the way all narrow types take
        if wanted == float8_e4m3fn.np:  # which saturates
            source = source.clip(-_LARGEST[float8_e4m3fn], _LARGEST[float8_e4m3fn])
        elif wanted == FLOAT8[-1].np:  # which has no sign and no zero
            source = xp.maximum(abs(source), xp.float32(2.0**-127))
    xp.copyto(target, source, casting="unsafe")


# copies --------------------------------------------------------------------------------------------------------------

class Copies(ArrayFamily):
    """`infer` and `array` as ever, for results that may be on another device than the arguments."""

    only_arrays = True

    def __init__(self, infer: Callable, array: Callable) -> None:
        super().__init__(infer, array, widen=False)

    def kernel(self, operator: Operator, backend: Backend) -> Callable:
        named, waits = (operator.schema.index.get(name) for name in ("device", "non_blocking"))

        def copied(*args: Any) -> Tensor:
            where = backend.place(None if named is None else args[named], args)
            made = backend.empty(self.infer(*args), where)
            if made._array.size:
                backend.copy(made, args[0], waits is not None and args[waits])
            return made

        return super().kernel(operator, backend) if backend.direct else copied


_LARGE = 1 << 14  # elements from which on copies are shared out among threads
_MANY = 1 << 10  # elements that NumPy takes longer to bring into half precision, or out of it, than a compiled loop


@functools.cache
def _casts_as_c(kind: np.dtype, wanted: np.dtype) -> bool:
    """Whether NumPy's own cast between two types is that of C, and takes one step."""
    if {kind, wanted} in ({float32.np, float16.np}, {float32.np, bfloat16.np}):
        return True
    return kind not in REDUCED and wanted not in REDUCED and kind.kind not in "cV" and wanted.kind != "V"


def _copied(xp: Any, self: Any, spec: Spec) -> Any:
    if not at_hand(self):  # it comes from another device
        self = self.to_host()
    kind, wanted = self.dtype, spec.dtype.np
    if self.size < (_MANY if kind is not wanted and (kind in REDUCED or wanted in REDUCED) else _LARGE):
        strides = spec.strides
        if kind is wanted and strides is None:
            return self.copy()
        if kind is wanted or _casts_as_c(kind, wanted):
            if strides is None:
                return self.astype(wanted, order="C")
            packed = packed_order(spec.shape, strides)
            if packed is not None:
                return self.transpose(packed[2]).astype(wanted, order="C").transpose(packed[1])
    made = uninitialised(spec)
    store(xp, made, self)
    return made


op("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
   kernel=Copies(lambda self, memory_format:
                 Spec(self._array.shape, self.dtype, preserved_strides(self, memory_format)),
                 lambda xp, self, memory_format, spec: _copied(xp, self, spec)),
   kernels={"cuda": "copy.clone", "npu": "copies.clone", "sparse": "layouts.clone"},
   grad=dict(self=lambda grad: grad),
   samples=unary(), linear=True, batch=in_front, out=None, sharded="kept")


def _without_own_device(self: Tensor, kind: dtype | None, where: device | None, *rest: Any) -> tuple:
    """The arguments of `_to_copy`, which names a device only if that changes."""
    return self, kind, None if where == self.device else where, *rest


def _copied_back(grad: Any, self_dtype: dtype, self_device: device) -> Any:
    """The gradient where the tensor lies, in its type; the engine takes the real part of a complex one."""
    becomes_real = grad.dtype.category == COMPLEX > self_dtype.category
    return converted(grad, None if becomes_real else self_dtype, self_device)


_TO_COPY = op("_to_copy(Tensor self, *, ScalarType? dtype=None, Device? device=None, bool non_blocking=False, "
              "MemoryFormat? memory_format=None) -> Tensor",
   kernel=Copies(lambda self, dtype, device, non_blocking, memory_format:
                 Spec(self._array.shape, dtype or self.dtype, preserved_strides(self, memory_format)),
                 lambda xp, self, dtype, device, non_blocking, memory_format, spec: _copied(xp, self, spec)),
   kernels={"cuda": "copy.to_copy", "npu": "copies.to_copy", "sparse": "layouts.to_copy"},
   grad=dict(self=_copied_back), public="",
   samples=cases(case(t(2, 3), dtype=float64), case(t(3, 2, layout="transposed"))), mixes_devices=True, linear=True,
   batch=in_front, aten=Aten(name="_to_copy", values=_without_own_device), sharded="kept")


def is_current(where: device) -> bool:
    """Whether naming this device's type alone would mean this device."""
    return where.index is None or where.index == backend_of(where.type).current_device()


def converted(self: Tensor, kind: dtype | None, where: device | None = None, copy: bool = False,
              wanted: memory_format | None = None, non_blocking: bool = False) -> Tensor:
    """The tensor in another type, device or memory format; itself if nothing changes."""
    if kind is None:
        kind = OF_ARRAY[self._array.dtype]
    elif kind is not OF_ARRAY[self._array.dtype]:
        copy = True
    if where is not None and where is not self._device and where != self._device:
        copy = copy or where.index is not None or where.type != self._device.type or not is_current(self._device)
    if not copy and (wanted is None or wanted is preserve_format or _suggests(self, wanted)):
        return self
    include, allow = modes.masks
    where = where or self._device
    mask = (device_keys(where, self._keys) | include) & allow
    try:
        return (_TO_COPY.table.get(mask) or _TO_COPY.lookup(mask))(self, kind, where, non_blocking, wanted)
    except MemoryError as error:
        raise out_of_memory(error) from None


_TO_FORMS = """
 * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
 * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
 * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)
"""  # noqa: E501 - the text users know


def parse_to(
    args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[device | None, dtype | None, bool, bool, memory_format | None]:
    """Device, type, non_blocking, copy and memory format that a call of `to` asks for."""
    given, positional = dict(kwargs), list(args)
    where, kind = given.pop("device", None), given.pop("dtype", None)
    wanted, other = given.pop("memory_format", None), given.pop("tensor", None)
    twice: frozenset[str] = frozenset(("device", "dtype")) if "tensor" in kwargs else frozenset()
    if positional and isinstance(positional[0], Tensor):
        other, twice = positional.pop(0), frozenset(("device", "dtype", "tensor"))
    elif positional and isinstance(positional[0], (dtype, type)):
        kind, twice = positional.pop(0), frozenset(("device", "dtype", "tensor"))
    elif positional and (positional[0] is None or isinstance(positional[0], (str, bytes, int, device))):
        where, twice = positional.pop(0), frozenset(("device", "tensor"))
        if positional and not isinstance(positional[0], bool):
            kind, twice = positional.pop(0), twice | {"dtype"}
    flags = dict(zip(("non_blocking", "copy"), positional, strict=False))
    rest: dict[str, Any] = {name: given.pop(name) for name in ("non_blocking", "copy") if name in given}
    fits_a_form = (not given and not twice & kwargs.keys() and len(positional) <= 2 and not flags.keys() & rest.keys()
                   and all(isinstance(f, bool) for f in (flags | rest).values())
                   and (kind is None or isinstance(kind, (dtype, type)))
                   and (wanted is None or isinstance(wanted, memory_format))
                   and (where is None or isinstance(where, (str, bytes, int, device)) and not isinstance(where, bool)))
    if not fits_a_form:
        shown = ", ".join([type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()])
        shown += ", " if kwargs else ""
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({shown}), but expected one of:{_TO_FORMS}"
        )
    flags |= rest
    if other is not None:
        where, kind = other.device, other.dtype
    return (None if where is None else device(where), None if kind is None else as_dtype(kind),
            flags.get("non_blocking", False), flags.get("copy", False), wanted)


_PLAIN_TARGETS = frozenset((str, bool, dtype, device, memory_format, type(None)))


@functools.lru_cache(256, typed=True)
def _parsed_to(*args: Any, **kwargs: Any) -> tuple:
    return parse_to(args, kwargs)


def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor in another type or on another device; itself if nothing changes."""
    if len(args) == 1 and not kwargs:
        target = args[0]
        if target.__class__ is dtype:
            return converted(self, target)
        if target.__class__ is device or target.__class__ is str:
            return converted(self, None, device(target))
    for value in (*args, *kwargs.values()):
        if value.__class__ not in _PLAIN_TARGETS:
            where, kind, non_blocking, copy, wanted = parse_to(args, kwargs)
            break
    else:
        where, kind, non_blocking, copy, wanted = _parsed_to(*args, **kwargs)
    return converted(self, kind, where, copy, wanted, non_blocking)


@composite("contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)", public="Tensor",
           samples=unary(), refuses_coo=NO_CONTIGUOUS)
def _contiguous(self: Tensor, memory_format: memory_format) -> Tensor:
    if self.is_contiguous(memory_format=memory_format):
        return self
    return self.clone(memory_format=memory_format)


# writes --------------------------------------------------------------------------------------------------------------


def _check_copy(self: Tensor, src: Any, non_blocking: bool) -> None:
    if src is self:
        return
    is_number = src.__class__ in NUMBERS
    if not is_number and has_elements(self) and not has_elements(src):
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if is_expanded(self._array) and not shows_the_same(self, src):
        check_writable(self)
    if is_number:
        return
    if self._array.shape != src._array.shape:
        check_overlap(self, src)
        shape = broadcast_shape([self._array.shape, src._array.shape])
        if shape != self._array.shape:
            raise shape_misfit(self._array.shape, shape)
    else:
        check_overlap(self, src)


def _copy(xp: Any, self: Any, src: Any, non_blocking: bool) -> None:
    if src.__class__ in NUMBERS:
        self.fill(stored_number(src, OF_ARRAY[self.dtype]))
    else:
        store(xp, self, src)


def _as_source(grad: Tensor, kind: dtype) -> Tensor:
    """A gradient in the type of what was copied; a complex one of a real source is left to the engine."""
    return grad if grad.dtype.is_complex else converted(grad, kind)


op("copy_(Tensor(a!) self, Tensor|Scalar src, bool non_blocking=False) -> Tensor(a!)",
   kernel=writes(_check_copy, _copy, repeats=True),
   kernels={"cuda": "copy.copy_", "npu": "copies.copy_", "sparse": "layouts.copy_"},
   grad=dict(self=lambda grad: grad.new_zeros(grad.shape), src=lambda grad, src_dtype: _as_source(grad, src_dtype)),
   public="Tensor", mixes_devices=True,
   samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 3), t(3)), case(t(0, 3), t(3)), case(t(2), 1.5),
                 error(RuntimeError, "doesn't match the broadcast shape [3, 2]", t(2), t(3, 2))), batch=broadcast,
   aten="default", node="torch::autograd::CopyBackwards", sharded="pointwise")


def _check_fill(self: Tensor, value: Any) -> None:
    if value.__class__ not in NUMBERS and value._array.ndim:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.dim()} dimensions."
        )
    if value.__class__ not in NUMBERS:
        check_writable(self)


def fill(array: Any, value: Any) -> None:
    """Writes a number that the array's type can hold to all elements.

    NumPy calls a function for each element of a type that is not its own, so those are filled with their bits.
    """
    if array.dtype in REDUCED and is_host_array(array):
        bits = np.dtype(f"u{array.itemsize}")
        array.view(bits).fill(np.asarray(value).astype(array.dtype).view(bits))
    else:
        array.fill(value)


def _fill(xp: Any, self: Any, value: Any) -> None:
    if value.__class__ in NUMBERS:
        fill(self, stored_number(value, OF_ARRAY[self.dtype]))
    else:
        store(xp, self, value)


def _fill_each(call: Call) -> Result:
    if call.batched[1]:
        return call.values[0].copy_(aligned(call.values[1], True, call.ndim(0))), True
    return call.run(*call.values), True


op("fill_(Tensor(a!) self, Tensor|Scalar value) -> Tensor(a!)",
   node={"FillBackward3": when_tensor("value"), "FillBackward2": OTHERWISE},
   kernel=writes(_check_fill, _fill, repeats=True),
   npu=("aclnnInplaceFillScalar(self, value)", "aclnnInplaceFillTensor(self, value)"),
   grad=dict(self=lambda grad: grad.new_zeros(grad.shape), value=lambda grad: grad.sum()), public="torch Tensor",
   samples=cases(case(t(2, 3), 1.5), case(t(3, 2, layout="transposed"), 2), case(t(0), 1), case(t(2, 3), t()),
                 error(RuntimeError, "fill_ only supports 0-dimension value tensor", t(2), t(1))), batch=_fill_each,
   kernels={"cuda": "copy.fill_", "npu": "copies.fill_", "sparse_compressed": "layouts.fill_"}, sharded="pointwise")
op("zero_(Tensor(a!) self) -> Tensor(a!)",
   kernel=writes(lambda self: None, lambda xp, self: self.fill(0), repeats=True),
   npu="aclnnInplaceZero(self)",
   grad=dict(self=lambda grad: grad.new_zeros(grad.shape)), public="torch Tensor",
   samples=cases(case(t(2, 3)), case(t())), batch=in_front, kernels={"cuda": "copy.zero_", "sparse": "layouts.zero_"},
   sharded="pointwise")


@composite(
    "fill(Tensor self, Tensor|Scalar value) -> Tensor",
    node={"FillBackward1": when_tensor("value"), "FillBackward0": OTHERWISE},
    public="torch",
    samples=cases(case(t(2, 3), 1.5), case(t(2), t())),
    out=None,
    aten=LEAF,
)
def _filled(self: Tensor, value: Any) -> Tensor:
    return writable_copy(self, value).fill_(value)
