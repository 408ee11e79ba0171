"""Making tensors: factories, copies and conversions of type, device and memory format."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._device import META, channels_last, contiguous_format, device, memory_format, preserve_format
from .._dispatch.callers import call_bound
from .._dispatch.keys import DispatchKey
from .._dispatch.registry import Lazy, Operator
from .._dtype import OF_ARRAY, dtype, float64, get_default_dtype, of_number
from .._tensor import Tensor
from .declare import composite, op
from .families import (
    ArrayFamily,
    Spec,
    broadcast_shape,
    check_overlap,
    moves,
    number_array,
    pointwise_strides,
    shape_text,
    writes,
)
from .samples import case, cases, t, unary

FACTORY = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool requires_grad=False"


class Factory(ArrayFamily):
    """A result out of nothing but arguments: `infer` and `array` as ever, then `requires_grad`."""

    def __init__(self, infer: Callable, array: Callable) -> None:
        super().__init__(infer, array, widen=False)

    def kernels(self, operator: Operator) -> dict[DispatchKey, Any]:
        flag = operator.schema.index["requires_grad"]

        def requiring(make: Callable[[Operator], Callable]) -> Callable:
            kernel = make(operator)
            return lambda *args: kernel(*args).requires_grad_() if args[flag] else kernel(*args)

        made = super().kernels(operator)
        return made | {DispatchKey.CPU: Lazy(lambda: requiring(self.cpu)), DispatchKey.Meta: Lazy(lambda: requiring(self.meta))}


def checked_size(size: tuple[int, ...]) -> tuple[int, ...]:
    for n in size:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {shape_text(size)}")
    return tuple(size)


def _sized(size: tuple, dtype: dtype | None, *rest: Any) -> Spec:
    return Spec(checked_size(size), dtype or get_default_dtype())


def channels_last_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Element strides of a 4- or 5-dimensional tensor whose channels are innermost."""
    strides, step = [0] * len(shape), 1
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def format_strides(shape: tuple[int, ...], wanted: memory_format | None) -> tuple[int, ...] | None:
    """Element strides of a memory format; None for a contiguous one."""
    if wanted in (None, contiguous_format, preserve_format):
        return None
    ndim = 4 if wanted is channels_last else 5
    if len(shape) != ndim:
        raise RuntimeError(f"required rank {ndim} tensor to use {wanted._name} format")
    return channels_last_strides(shape)


def uninitialised(spec: Spec) -> np.ndarray:
    """An ndarray of the spec's geometry."""
    if spec.strides is None:
        return np.empty(spec.shape, spec.dtype.np)
    order = sorted(range(len(spec.shape)), key=lambda d: (-spec.strides[d], d))  # type: ignore[index]
    flat = np.empty([spec.shape[d] for d in order], spec.dtype.np)
    return flat.transpose(np.argsort(order))


op(f"zeros(int[] size, {FACTORY}) -> Tensor",
   kernel=Factory(_sized, lambda xp, size, dtype, *rest, spec: xp.zeros(spec.shape, spec.dtype.np)),
   samples=cases(case((2, 3)), case((0, 2)), case(())))  # fmt: skip
op(f"ones(int[] size, {FACTORY}) -> Tensor",
   kernel=Factory(_sized, lambda xp, size, dtype, *rest, spec: xp.ones(spec.shape, spec.dtype.np)),
   samples=cases(case((2, 3)), case((0, 2)), case(())))  # fmt: skip
op(f"empty(int[] size, {FACTORY}, MemoryFormat? memory_format=None) -> Tensor",
   kernel=Factory(lambda size, dtype, layout, device, pin_memory, requires_grad, memory_format:
                  _sized(size, dtype)._replace(strides=format_strides(checked_size(size), memory_format)),
                  lambda xp, *rest, spec: uninitialised(spec)))  # fmt: skip


def _filled(size: tuple, fill_value: Any, dtype: dtype | None, *rest: Any) -> Spec:
    return Spec(checked_size(size), dtype or of_number(fill_value))


op(f"full(int[] size, Scalar fill_value, {FACTORY}) -> Tensor",
   kernel=Factory(_filled, lambda xp, size, fill_value, *rest, spec:
                  xp.broadcast_to(number_array(fill_value, spec.dtype), spec.shape).copy()),
   samples=cases(case((2, 3), 7), case((2,), 1.5), case((), True), case((0,), 1j)))  # fmt: skip


# copies --------------------------------------------------------------------------------------------------------------


def preserved_strides(self: Tensor, wanted: memory_format | None) -> tuple[int, ...] | None:
    """Element strides of a copy: a format's, or with preserve_format (None) those of the original, packed."""
    if wanted is None or wanted is preserve_format:
        return pointwise_strides(self._array.shape, [self])
    return format_strides(self._array.shape, wanted)


def _copied(xp: Any, self: Any, spec: Spec) -> Any:
    made = uninitialised(spec)
    store(xp, made, self)
    return made


def store(xp: Any, target: Any, source: Any) -> None:
    """Writes an array, or a number, into another of any type, with the casts of C."""
    if target.dtype.kind != "c" and getattr(source, "dtype", target.dtype).kind == "c":
        source = source.real
    if target.dtype.kind in "iu" and getattr(source, "dtype", target.dtype).kind not in "iub":
        source = source.astype(xp.int64) if target.dtype.kind == "i" or target.dtype.itemsize < 8 else source
    target[...] = source if getattr(source, "dtype", None) is target.dtype else xp.asarray(source).astype(target.dtype)


op("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
   kernel=moves(lambda self, memory_format: Spec(self._array.shape, self.dtype, preserved_strides(self, memory_format)),
                lambda xp, self, memory_format, spec: _copied(xp, self, spec)),
   grad=dict(self=lambda grad: grad),
   samples=unary())  # fmt: skip

_TO_COPY = op("_to_copy(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None) -> Tensor",
   kernel=moves(lambda self, dtype, device, memory_format:
                Spec(self._array.shape, dtype or self.dtype, preserved_strides(self, memory_format)),
                lambda xp, self, dtype, device, memory_format, spec: _copied(xp, _readable(self), spec)),
   grad=dict(self=lambda grad, self_dtype: grad.to(self_dtype)), public="",
   samples=cases(case(t(2, 3), dtype=float64), case(t(3, 2, layout="transposed"))), mixes_devices=True)  # fmt: skip


def _readable(array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    return array


def _converted(self: Tensor, dtype: dtype | None, device: device | None, copy: bool, memory_format: memory_format | None) -> Tensor:
    same = (dtype is None or dtype is self.dtype) and (device is None or device == self.device)
    if same and not copy and (memory_format in (None, preserve_format) or self.is_contiguous(memory_format=memory_format)):
        return self
    return call_bound(_TO_COPY, (self, dtype, self.device if device is None else device, memory_format))


@composite("to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, *,"
           " MemoryFormat? memory_format=None) -> Tensor(a)")  # fmt: skip
def _to_dtype(self, dtype, non_blocking, copy, memory_format):
    return _converted(self, dtype, None, copy, memory_format)


@composite("to.device(Tensor(a) self, Device? target=None, ScalarType? dtype=None, bool non_blocking=False,"
           " bool copy=False, *, MemoryFormat? memory_format=None) -> Tensor(a)")  # fmt: skip
def _to_device(self, target, dtype, non_blocking, copy, memory_format):
    return _converted(self, dtype, target, copy, memory_format)


@composite("to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, *,"
           " MemoryFormat? memory_format=None) -> Tensor(a)")  # fmt: skip
def _to_other(self, other, non_blocking, copy, memory_format):
    return _converted(self, other.dtype, other.device, copy, memory_format)


@composite("contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)", public="Tensor",
           samples=unary())  # fmt: skip
def _contiguous(self, memory_format):
    if self.is_contiguous(memory_format=memory_format):
        return self
    return self.clone(memory_format=memory_format)


# writes --------------------------------------------------------------------------------------------------------------


def _check_copy(self: Tensor, src: Tensor, non_blocking: bool) -> None:
    if self._device is not META and src._device is META:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if broadcast_shape([self._array.shape, src._array.shape]) != self._array.shape:
        raise RuntimeError(f"output with shape {shape_text(self.shape)} doesn't match the broadcast shape "
                           f"{shape_text(broadcast_shape([self._array.shape, src._array.shape]))}")  # fmt: skip
    check_overlap(self, src)


op("copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
   kernel=writes(_check_copy, lambda xp, self, src, non_blocking: store(xp, self, src)),
   grad=dict(self=lambda grad: grad.new_zeros(grad.shape), src=lambda grad: grad),
   public="Tensor", mixes_devices=True,
   samples=cases(case(t(2, 3), t(2, 3)), case(t(2, 3), t(3)), case(t(0, 3), t(3))))  # fmt: skip

op("fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)",
   kernel=writes(lambda self, value: None, lambda xp, self, value: store(xp, self, number_array(value, OF_ARRAY[self.dtype]))),
   grad=dict(self=lambda grad: grad.new_zeros(grad.shape)), public="torch Tensor")  # fmt: skip

