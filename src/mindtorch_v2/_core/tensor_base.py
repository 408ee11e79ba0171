"""What a tensor is made of: its fields, its geometry, the storage under it, and its version.

Fields have class-level defaults, so that making a result sets only what differs.
"""

import sys
from collections.abc import Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._autograd.node import HookDict, SharedMemory, UncountedWrites, VersionCounter
from .._backends.meta import MetaArray
from .._dispatch.argument_checks import checked_int
from .._dispatch.keys import (
    BACKEND_MASK,
    COO_MASK,
    CPU_MASK,
    INFERENCE_MASK,
    MARKED_MASK,
    SPARSE_MASK,
    TORCH_DISPATCH_MASK,
)
from .._dispatch.schema import LEAST, MOST
from .deferred import Deferred
from .device import CPU, Size, device, layout, memory_format, strided
from .dtype import OF_ARRAY, dtype
from .geometry import NO_BYTES, contiguous_strides, proper_dim, wrapped_dim
from .marks import marked
from .storage import DEPRECATED, MetaStorage, TypedStorage, UntypedStorage
from .warn import warn_once

if TYPE_CHECKING:
    from .._tensor_methods import TensorMethods  # what is attached at import
    from .tensor import Tensor
else:
    TensorMethods = object

_size = tuple.__new__
# A place that _marked.py fills: gives a tensor memory that no lazy copy shares.
own_memory: list[Callable[[Any], None]] = []


class TensorBase(TensorMethods):
    """What gives tensors their fields; the name is PyTorch's."""

    _array: Any
    _keys: int = CPU_MASK
    _device: device = CPU
    _storage: UntypedStorage | None = None  # made when first asked for; a view asks its base
    _borrowed: bool = False  # others know of the memory too, so that its storage, once made, cannot be resized
    _offset: int = 0  # of the first element in the storage, in bytes
    _former_storages: tuple[UntypedStorage, ...] = ()  # of a tensor that was given others: views may lie on these
    _counter: VersionCounter | None = None  # made at the first write or view; None means version 0
    _edge: tuple | None = None  # (node, output number) that made this tensor
    _edge_version: int = 0  # the version at which `_edge` was right; only views look
    _base: "Tensor | None" = None
    _view_step: tuple | None = None  # (step before, operator, arguments, output number) that made this view
    _creation: int = 0
    _restrided: bool = False  # a base whose geometry was changed in place: its views replay by absolute geometry
    _asked_for_grad: bool = False  # requires_grad_() was called on it
    _retains_grad: bool = False  # retain_grad() was called on it, and it was no leaf then
    _grad: "Tensor | None" = None
    _hooks: HookDict | None = None
    _post_accumulate_hooks: HookDict | None = None
    _arrival: Callable[[], None] | None = None  # called after all hooks of this leaf, when its gradient has come
    _arrival_is_ordered: bool = True  # whether leaves have to come in PyTorch's order for it
    _accumulator: Any = None
    _tangent: tuple | None = None  # (dual level, tangent) of forward-mode differentiation
    _backward_hooks: Any = None
    _identity: Any = None
    __array_priority__ = 1000

    # geometry --------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        return _size(Size, self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or its length along one dimension."""
        if dim is None:
            return _size(Size, self._array.shape)
        if dim.__class__ is not int or not LEAST <= dim <= MOST:
            dim = checked_int("size", "dim", dim, 1)
        return self._array.shape[proper_dim(dim, self._array.ndim)]

    def stride(self, dim: int | None = None) -> Any:
        """How many elements lie from one index to the next: in all dimensions, or in one."""
        if dim is not None and (dim.__class__ is not int or not LEAST <= dim <= MOST):
            dim = checked_int("stride", "dim", dim, 1)
        if not self._array.size:
            settle_empty(self)
        itemsize = self._array.itemsize
        strides = tuple([s // itemsize for s in self._array.strides])
        return strides if dim is None else strides[wrapped_dim(dim, len(strides))]

    def storage_offset(self) -> int:
        """Where in the storage the first element lies, in elements."""
        return self._offset // self._array.itemsize

    def dim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    ndimension = dim
    ndim = property(dim)

    def numel(self) -> int:
        """The number of elements."""
        return self._array.size

    nelement = numel

    def element_size(self) -> int:
        """The bytes that one element takes."""
        return self._array.itemsize

    itemsize = property(element_size)

    @property
    def nbytes(self) -> int:
        if self._keys & SPARSE_MASK:
            raise RuntimeError("nbytes is not defined for sparse tensors.  If you want the size of the constituent "
                               "tensors, add the nbytes of the indices and values.  If you want the size of the  "
                               "equivalent dense tensor, multiply numel() by element_size()")
        return self._array.itemsize * self._array.size

    def _fix_weakref(self) -> None:
        """Nothing: what a weak reference gives keeps the tensor alive, as any other reference does."""

    def dim_order(self, *, ambiguity_check: Any = False) -> tuple[int, ...]:
        """The dimensions from the one with the largest stride to the one with the smallest.

        With `ambiguity_check` it must be the only such order, or fit only one of the memory formats that are listed.
        """
        formats = ambiguity_check if isinstance(ambiguity_check, list) else []
        if not isinstance(ambiguity_check, (bool, list)) or not all(isinstance(f, memory_format) for f in formats):
            raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
        strides = self.stride()
        if ambiguity_check:
            if 0 in strides:
                raise RuntimeError("The tensor does not have unique dim order.")
            fitting = sum(self.is_contiguous(memory_format=f) for f in formats)
            if fitting > 1 or not formats and len(set(strides)) < len(strides):
                raise RuntimeError("The tensor does not have unique dim order, or cannot map to exact one of the given "
                                   "memory formats.")
        return tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))

    @property
    def dtype(self) -> dtype:
        return OF_ARRAY[self._array.dtype]

    @property
    def device(self) -> device:
        return self._device

    @property
    def layout(self) -> layout:
        return self._array.layout if self._keys & SPARSE_MASK else strided

    def _backend_mask(self) -> int:
        return self._keys & BACKEND_MASK

    # storage ---------------------------------------------------------------------------------------------------

    def _shared_storage(self) -> UntypedStorage:
        """The storage, made now if nobody asked before."""
        storage = self._storage
        if storage is None:
            if self._array.__class__ is Deferred:
                self._settle()
                if self._storage is not None:
                    return self._storage
            array = marked(self._array, False, False) if self._keys & MARKED_MASK else self._array
            if self._base is not None:
                storage = self._base._shared_storage()
                if self._base._former_storages:
                    storage = self._base._storage_under(self)
            elif array.__class__ is MetaArray:
                reach = sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True))
                storage = MetaStorage(reach + array.itemsize if array.size else 0)
            elif array.__class__ is not np.ndarray:
                storage = array.storage
            else:
                storage = UntypedStorage.of_array(array)
                if self._borrowed:
                    storage.fixed = True
                # NumPy's strides of a fresh empty array; PyTorch's count
                if not array.size and not any(array.strides) and array.base is not NO_BYTES:
                    self._array = storage.array(
                        array.shape, array.dtype, 0, contiguous_strides(array.shape, array.itemsize)
                    )
            self._storage = storage
        return storage

    @property
    def _cdata(self) -> int:
        """A number that no other living tensor has; another one after `swap_tensors`."""
        return id(self if self._identity is None else self._identity)

    def _leave_storage(self) -> None:
        """Remembers this tensor's storage for its views, before it takes another."""
        counter, storage = self._counter, self._shared_storage()
        if counter is not None and sys.getrefcount(counter) > 3 and storage is not None and self._base is None:
            former = [s for s in self._former_storages if sys.getrefcount(s.buffer) > 2 and s is not storage]
            self._former_storages = (*former, storage)

    def _storage_under(self, view: "TensorBase") -> UntypedStorage:
        """Of the storages that this tensor has had, the one that a view of it lies on."""
        array, now = view._array, self._shared_storage()
        for storage in (now, *self._former_storages):
            if array.__class__ is np.ndarray and array.size:
                if array.__array_interface__["data"][0] == storage.data_ptr() + view._offset:
                    return storage
            elif getattr(array, "storage", None) is storage:
                return storage
        return now

    def untyped_storage(self) -> UntypedStorage:
        """The memory that the tensor lies in."""
        storage = self._shared_storage()
        self._expose()
        if storage is None:
            name = "SparseTensorImpl" if self._keys & COO_MASK else "SparseCsrTensorImpl"
            raise NotImplementedError(f"Cannot access storage of {name}")
        return storage

    def storage(self) -> TypedStorage:
        """The memory that the tensor lies in, as elements of its type. Deprecated."""
        warn_once(DEPRECATED)
        return self._typed_storage()

    def _typed_storage(self) -> TypedStorage:
        return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)

    def data_ptr(self) -> int:
        """The address of the first element."""
        if self._keys & MARKED_MASK and self._array.size:
            own_memory[0](self)  # who asks for the address may write there
        self._expose()
        return self.const_data_ptr()

    def const_data_ptr(self) -> int:
        """The address of the first element, for somebody who only reads."""
        storage = self._shared_storage()
        if storage is None:
            raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
        if not self._array.size:
            return 0
        if self._keys & TORCH_DISPATCH_MASK and storage.buffer is None:
            return self._offset
        return storage.data_ptr() + self._offset

    # version ---------------------------------------------------------------------------------------------------

    @property
    def _version_counter(self) -> VersionCounter:
        counter = self._counter
        if counter is None:
            counter = self._counter = VersionCounter()
        return counter

    @property
    def _version(self) -> int:
        if self._keys & INFERENCE_MASK:
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self._counter is None else self._counter.value

    def _bump_version(self) -> None:
        counter = self._counter
        if counter is None:
            counter = self._counter = VersionCounter()
        counter.value += 1

    def _expose(self, for_good: bool = False) -> None:
        """Notes that somebody is shown the memory who does not count writes; `for_good` if nobody can tell how long."""
        counter = self._version_counter
        if counter.__class__ is not SharedMemory:
            counter.__class__ = SharedMemory if for_good else UncountedWrites

    @property
    def _view_meta(self) -> tuple:
        """The steps from the base to this view: (operator, arguments, output number) each."""
        steps, step = [], self._view_step
        while step is not None:
            steps.append(step[1:])
            step = step[0]
        return tuple(reversed(steps))

    @property
    def _pending(self) -> bool:
        """Whether a pipeline has recorded this tensor and not computed it yet."""
        return self._array.__class__ is Deferred

    def _settle(self) -> None:
        """Computes what a pipeline has recorded."""
        array = self._array
        if array.__class__ is Deferred:
            value = array.settled()
            if self._array is array:  # nobody knew that this tensor shows it
                self._array = value


FIELDS = frozenset(TensorBase.__annotations__)
fields_of: Callable[[Any], dict[str, Any]] = vars(TensorBase)["__dict__"].__get__  # the library's own fields too


class UserAttributes(dict):
    """A tensor's `__dict__`: what users set on it. Changes go through to the tensor."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__({name: value for name, value in fields.items() if name not in FIELDS})
        self._fields = fields

    def __setitem__(self, name: str, value: Any) -> None:
        self._fields[name] = value
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        del self._fields[name]

    def pop(self, name: str, *default: Any) -> Any:
        if name in self:
            del self._fields[name]
        return super().pop(name, *default)

    update, setdefault = MutableMapping.update, MutableMapping.setdefault  # type: ignore[assignment]


def bump_versions(tensors: Iterable["Tensor"]) -> None:
    """Counts a write to each of many tensors."""
    for tensor in tensors:
        counter = tensor._counter
        if counter is None:
            counter = tensor._counter = VersionCounter()
        counter.value += 1


def settle_empty(tensor: TensorBase) -> None:
    """Gives a fresh tensor without elements the strides that PyTorch gives it, before views are made of it."""
    array = tensor._array
    if (
        tensor._base is None
        and tensor._storage is None
        and array.__class__ is np.ndarray
        and array.base is not NO_BYTES
    ):
        strides = contiguous_strides(array.shape, array.itemsize)
        tensor._array = np.ndarray(array.shape, array.dtype, NO_BYTES, 0, strides)
