"""What pickles of tensors call to rebuild them; module and names are those that PyTorch's checkpoints hold."""

from collections import OrderedDict
from typing import Any

from ._device import device as device_type
from ._dtype import dtype as dtype_type
from ._storage import TypedStorage, UntypedStorage
from ._tensor import Tensor, wrap_meta


def _rebuild_tensor(storage: Any, storage_offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    """A tensor on the memory of a storage."""
    untyped: UntypedStorage = storage.untyped()
    made = object.__new__(Tensor)
    kind = storage.dtype.np
    made._offset = storage_offset * kind.itemsize
    made._array = untyped.array(tuple(size), kind, made._offset, tuple(s * kind.itemsize for s in stride))
    made._storage = untyped
    return made


def _rebuild_tensor_v2(storage: Any, storage_offset: int, size: tuple[int, ...], stride: tuple[int, ...],
                       requires_grad: bool, backward_hooks: OrderedDict, metadata: Any = None) -> Tensor:
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_tensor_v3(storage: Any, storage_offset: int, size: tuple[int, ...], stride: tuple[int, ...],
                       requires_grad: bool, backward_hooks: OrderedDict, dtype: dtype_type,
                       metadata: Any = None) -> Tensor:
    """As v2, for element types that have no storage class of their own in PyTorch."""
    typed = TypedStorage(wrap_storage=storage.untyped(), dtype=dtype)
    return _rebuild_tensor_v2(typed, storage_offset, size, stride, requires_grad, backward_hooks, metadata)


def _rebuild_meta_tensor_no_storage(
    dtype: dtype_type, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool
) -> Tensor:
    tensor = wrap_meta(tuple(size), dtype.np, tuple(s * dtype.itemsize for s in stride))
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_from_type_v2(func: Any, new_type: type, args: tuple, state: Any) -> Any:
    """A tensor of a subclass, or with attributes that its user had set."""
    tensor = func(*args)
    if type(tensor) is not new_type:
        tensor = tensor.as_subclass(new_type)
    if getattr(tensor.__class__, "__setstate__", None) is not None:
        tensor.__setstate__(state)
    else:
        tensor.__dict__.update(state or {})
    return tensor


def _rebuild_device_tensor_from_numpy(data: Any, dtype: dtype_type, device: device_type, requires_grad: bool) -> Tensor:
    from ._from_data import from_numpy

    tensor = from_numpy(data).to(dtype=dtype, device=device)  # type: ignore[attr-defined]
    return tensor.requires_grad_() if requires_grad else tensor
