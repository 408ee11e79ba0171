"""Tensors without memory of their own: subclasses that keep their elements in other tensors, and answer for them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._dispatch.keys import DEVICE_MASKS, SUBCLASS_MASK, TORCH_DISPATCH_MASK
from .device import device as _device
from .device import get_default_device, layout, strided
from .dtype import FLOAT, dtype, get_default_dtype
from .geometry import Geometry
from .storage import MetaStorage
from .tensor import Tensor

NO_MEMORY = "Attempted to access the data pointer on an invalid python storage."


class WrapperStorage(MetaStorage):
    """The storage of a wrapper: it has a size and an identity, but no bytes."""

    def __init__(self, nbytes: int, where: _device) -> None:
        super().__init__(nbytes)
        self.device = where

    def data_ptr(self) -> int:
        raise RuntimeError(NO_MEMORY)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(NO_MEMORY)

    resize_ = copy_ = fill_ = _write_file = _refuse


class WrapperArray(Geometry):
    """What a wrapper has for an array: a geometry. A kernel that looks for elements is told that there are none."""

    __slots__ = ("storage",)

    def __init__(self, shape: tuple[int, ...], kind: np.dtype, strides: tuple[int, ...] | None,
                 storage: WrapperStorage) -> None:
        super().__init__(shape, kind, strides)
        self.storage = storage

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def to_host(self) -> np.ndarray:
        raise RuntimeError(NO_MEMORY)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise RuntimeError(NO_MEMORY)

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(NO_MEMORY)

    def __array_function__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(NO_MEMORY)


def _spanned(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements lie between the first and the last, both included."""
    return 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def make_wrapper_subclass(cls: type, size: Sequence[int], strides: Sequence[int] | None = None,
                          storage_offset: int | None = None, memory_format: Any = None, dtype: dtype | None = None,
                          layout: layout = strided, device: Any = None, pin_memory: bool = False,
                          requires_grad: bool = False, dispatch_sizes_strides_policy: str | None = None,
                          dispatch_device: bool = False, dispatch_layout: bool = False,
                          _extra_dispatch_keys: Any = None, storage_size: int | None = None) -> Any:
    """A tensor of a subclass with this geometry, type and device, and no memory."""
    if not issubclass(cls, Tensor):
        raise TypeError("Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. "
                        "Make sure your class inherits from Tensor.")
    if not cls._keys & TORCH_DISPATCH_MASK:
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    kind = dtype or get_default_dtype()
    if requires_grad and kind.category < FLOAT:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    where = get_default_device() if device is None else _device(device)
    shape = tuple(int(n) for n in size)
    if strides is not None and len(strides) != len(shape):
        raise RuntimeError(f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
                           f"({len(strides)})")
    if any(n < 0 for n in shape):
        raise RuntimeError("numel: integer multiplication overflow")
    itemsize, offset = kind.itemsize, int(storage_offset or 0)
    array = WrapperArray(shape, kind.np, None if strides is None else tuple(int(s) * itemsize for s in strides),
                         WrapperStorage(0, where))
    elements = [s // itemsize for s in array.strides]
    spanned = _spanned(shape, elements)
    array.storage.nbytes_ = (offset + spanned) * itemsize if storage_size is None else storage_size
    made = object.__new__(cls)
    made._array, made._device, made._offset = array, where, offset * itemsize
    made._storage = array.storage
    made._keys = DEVICE_MASKS[where.type] | cls._keys & SUBCLASS_MASK
    if requires_grad:
        made._track()
    return made
