"""What pickles of tensors call to rebuild them; module and names are those that PyTorch's checkpoints hold."""

import contextlib
import importlib
import math
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ._core.device import CPU
from ._core.device import device as device_type
from ._core.dtype import dtype as dtype_type
from ._core.marks import marked
from ._core.storage import TypedStorage, UntypedStorage
from ._core.tensor import Tensor, set_state, wrap_meta
from ._core.wrapper_subclass import make_wrapper_subclass
from ._dispatch.keys import DEVICE_MASKS, MARKED_MASK

_LARGEST = (1 << 63) - 1


def _checked_geometry(nbytes: int, itemsize: int, offset: int, size: Sequence[int], stride: Sequence[int]) -> None:
    """Raises unless a tensor of this geometry lies inside a storage: a file may claim anything."""
    for name, values in (("storage_offset", (offset,)), ("size", size), ("stride", stride)):
        if not isinstance(values, (tuple, list)) or any(v.__class__ is not int for v in values):
            raise TypeError(f"a tensor's {name} must be made of integers")
        if any(abs(v) > _LARGEST for v in values):
            raise RuntimeError(f"a tensor's {name} does not fit into 64 bits")
    if len(size) != len(stride):
        raise RuntimeError(f"unequal size length ({len(size)}) and stride length ({len(stride)})")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if any(n < 0 for n in size) or math.prod(size) > _LARGEST or math.prod(n or 1 for n in size) > _LARGEST:
        raise RuntimeError("numel: integer multiplication overflow")
    span = sum(s * (n - 1) for s, n in zip(stride, size, strict=True)) + 1
    if any(s < 0 for s in stride) or span * itemsize > _LARGEST:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}")
    if 0 not in size and (offset + span) * itemsize > nbytes:
        raise RuntimeError("Trying to resize storage that is not resizable: a tensor with "
                           f"sizes={list(size)}, strides={list(stride)} and storage offset {offset} needs "
                           f"{(offset + span) * itemsize} bytes, and its storage has {nbytes}")


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The number of a device: `optional` allows none to be said (the current one), `allow_cpu` the CPU, which is -1."""
    where = device_type(device) if isinstance(device, str) else device
    index = where if isinstance(where, int) and not isinstance(where, bool) else None
    if isinstance(where, device_type):
        if where.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        index = -1 if where.type == "cpu" else where.index
    if index is None and not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return _current_index() if index is None else index


def _current_index() -> int | None:
    """The number of the accelerator in use; None where there is none."""
    accelerator = importlib.import_module("mindtorch_v2.accelerator")
    return accelerator.current_device_index() if accelerator.is_available() else None


def _element_size(dtype: dtype_type) -> int:
    """The bytes that an element takes."""
    return dtype.itemsize


def _rebuild_tensor(storage: Any, storage_offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    """A tensor on the memory of a storage."""
    if not isinstance(storage, (TypedStorage, UntypedStorage)):
        raise TypeError(f"a tensor is rebuilt on a storage, not on {type(storage).__name__}")
    untyped, kind = storage.untyped(), storage.dtype.np
    itemsize = kind.itemsize
    _checked_geometry(untyped.nbytes_, itemsize, storage_offset, size, stride)
    made = object.__new__(Tensor)
    made._offset = storage_offset * itemsize
    made._array = untyped.array(tuple(size), kind, made._offset, tuple([s * itemsize for s in stride]))
    made._storage = untyped
    made._expose()  # others may lie on the same storage
    if untyped.device is not CPU:
        made._device, made._keys = untyped.device, DEVICE_MASKS[untyped.device.type]
    return made


class _Unfinished(threading.local):
    """What waits for the elements of the storages that a file holds; `steps` is None while nothing is loaded."""

    steps: list[Callable[[], None]] | None = None


_unfinished = _Unfinished()


@contextlib.contextmanager
def elements_come_later() -> Iterator[None]:
    """While in force, tensors may be rebuilt on storages that are not filled yet; at the end they are completed."""
    before = _unfinished.steps
    steps: list[Callable[[], None]] = []
    _unfinished.steps = steps
    try:
        yield
    finally:
        _unfinished.steps = before
    for step in steps:
        step()


def when_filled(step: Callable[[], None]) -> None:
    """Does what needs the elements of rebuilt tensors: now, or when they have been read."""
    if _unfinished.steps is None:
        step()
    else:
        _unfinished.steps.append(step)


def _rebuild_tensor_v2(storage: Any, storage_offset: int, size: tuple[int, ...], stride: tuple[int, ...],
                       requires_grad: bool, backward_hooks: OrderedDict, metadata: dict | None = None) -> Tensor:
    if metadata:
        if unknown := metadata.keys() - {"conj", "neg"}:
            raise ValueError(f"a tensor's metadata holds {sorted(unknown)}, which are not known")
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    if metadata and any(metadata.values()):
        tensor._array = marked(tensor._array, bool(metadata.get("conj")), bool(metadata.get("neg")))
        tensor._keys |= MARKED_MASK
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_tensor_v3(storage: Any, storage_offset: int, size: tuple[int, ...], stride: tuple[int, ...],
                       requires_grad: bool, backward_hooks: OrderedDict, dtype: dtype_type,
                       metadata: dict | None = None) -> Tensor:
    """As v2, for element types that have no storage class of their own in PyTorch."""
    typed = TypedStorage(wrap_storage=storage.untyped(), dtype=dtype)
    return _rebuild_tensor_v2(typed, storage_offset, size, stride, requires_grad, backward_hooks, metadata)


def _rebuild_meta_tensor_no_storage(
    dtype: dtype_type, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool
) -> Tensor:
    _checked_geometry(_LARGEST, dtype.itemsize, 0, size, stride)
    tensor = wrap_meta(tuple(size), dtype.np, tuple(s * dtype.itemsize for s in stride))
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_wrapper_subclass(
    cls: type, dtype: dtype_type, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int, layout: Any,
    device: Any, requires_grad: bool
) -> Tensor:
    _checked_geometry(_LARGEST, dtype.itemsize, storage_offset, size, stride)
    return make_wrapper_subclass(cls, size, strides=stride, storage_offset=storage_offset, dtype=dtype, layout=layout,
                                 device=device, requires_grad=requires_grad)


def _rebuild_sparse_tensor(layout: Any, data: tuple) -> Tensor:
    from ._core.sparse_api import rebuild

    return rebuild(layout, data)


def _rebuild_qtensor(storage: Any, storage_offset: int, size: tuple[int, ...], stride: tuple[int, ...],
                     quantizer_params: tuple, requires_grad: bool, backward_hooks: Any) -> Tensor:
    """A quantized tensor on a storage of its integers."""
    from ._compat.old_names import per_channel_affine, per_tensor_affine
    from ._quantized import _INTEGERS, quantized

    scheme, scale, zero_point, *axis = quantizer_params
    if scheme not in (per_tensor_affine, per_channel_affine) or storage.dtype not in _INTEGERS:
        raise NotImplementedError(f"the file holds a tensor quantized as {scheme}, of which there are none here")
    numbers = scale.__class__ is float and zero_point.__class__ is int and not axis
    tensors = isinstance(scale, Tensor) and isinstance(zero_point, Tensor) and len(axis) == 1 and (
        axis[0].__class__ is int)
    if not (numbers if scheme is per_tensor_affine else tensors):
        raise TypeError("a quantized tensor has a scale and a zero point, or a tensor of each and an axis")
    if tensors and not (0 <= axis[0] < len(size) and scale.shape == zero_point.shape == (size[axis[0]],)):
        raise RuntimeError("the scales and zero points of a quantized tensor do not fit its axis")
    typed = TypedStorage(wrap_storage=storage.untyped(), dtype=_INTEGERS[storage.dtype])
    return quantized(_rebuild_tensor(typed, storage_offset, size, stride), scale, zero_point, *axis)


def _rebuild_device_tensor_from_numpy(data: Any, dtype: dtype_type, device: device_type, requires_grad: bool) -> Tensor:
    from ._core.from_data import from_numpy

    tensor = from_numpy(data).to(dtype=dtype, device=device)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: OrderedDict) -> Any:
    """The Parameter a pickle describes."""
    from .nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: OrderedDict, state: dict[str, Any]
) -> Any:
    """The Parameter a pickle describes, with the attributes its user had set."""
    return set_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


class KeyErrorMessage(str):
    """A message that a KeyError shows as it is; it would show the repr of a plain string."""

    __repr__ = str.__str__


class ExceptionWrapper:
    """An exception on its way to another thread or process: its type and its traceback as text."""

    def __init__(self, exc_info: tuple | None = None, where: str = "in background") -> None:
        import traceback

        info = exc_info or sys.exc_info()
        self.exc_type, self.exc_msg, self.where = info[0], "".join(traceback.format_exception(*info)), where

    def reraise(self) -> None:
        """Raises an exception of the same type that tells where the first one came from."""
        kind: Any = self.exc_type
        message = f"Caught {kind.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if kind is KeyError:
            message = KeyErrorMessage(message)
        elif getattr(kind, "message", None):  # some exceptions take the text by this name only
            raise kind(message=message)
        try:
            exception = kind(message)
        except Exception:  # a constructor with other arguments may raise anything
            raise RuntimeError(message) from None
        raise exception


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors in one dimension."""
    from . import cat

    return cat([tensor.reshape(-1) for tensor in tensors])  # type: ignore[misc]


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of the parts that `_flatten_dense_tensors` put together."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))


def _get_available_device_type() -> str | None:
    """The kind of accelerator in use; None without one."""
    from .accelerator import current_accelerator

    found = current_accelerator(check_available=True)
    return None if found is None else found.type


def _get_device_module(device_type: str) -> Any:
    """The module of a kind of device, as `torch.npu`."""
    import mindtorch_v2

    module = getattr(mindtorch_v2, device_type, None)
    if module is None:
        raise RuntimeError(f"Device '{device_type}' does not have a corresponding module registered as "
                           f"'torch.{device_type}'.")
    return module
