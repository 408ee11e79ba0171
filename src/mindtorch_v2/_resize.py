"""Changing what memory a tensor shows: resize_, set_, share_memory_."""

from typing import Any

from ._backends.meta import contiguous_strides
from ._device import memory_format, preserve_format
from ._dispatch.schema import Schema
from ._ops.copy import format_strides
from ._storage import TypedStorage, UntypedStorage
from ._tensor import Tensor, flush_pending

# How PyTorch's texts call the element types, after C++.
CPP_NAMES = {"uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int", "int64": "long int",
             "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
             "bool": "bool", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
             "uint16": "short unsigned int",
             "uint32": "unsigned int", "uint64": "long unsigned int"}
_RESIZE = Schema("resize_(Tensor(a!) self, int[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)")


def _show(
    tensor: Tensor, storage: UntypedStorage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Tensor:
    """Lets a tensor show `storage`, grown if need be; offset and strides in elements."""
    flush_pending[0]()
    itemsize = tensor._array.itemsize
    if 0 not in shape:
        needed = (offset + sum(s * (n - 1) for s, n in zip(strides, shape, strict=True)) + 1) * itemsize
        if needed > storage.nbytes():
            storage.resize_(needed)
    array = storage.array(shape, tensor._array.dtype, offset * itemsize, tuple(s * itemsize for s in strides))
    tensor._array, tensor._storage, tensor._offset = array, storage, offset * itemsize
    return tensor


def resize_(self: Tensor, *size: Any, memory_format: memory_format | None = None) -> Tensor:
    """This tensor with another size, keeping the elements that fit; memory is added where it is too small."""
    _, shape, wanted = _RESIZE.bind((self, *size), {"memory_format": memory_format}, is_method=True)
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if any(n < 0 for n in shape):
        raise RuntimeError("numel: integer multiplication overflow")
    if shape == self._array.shape and wanted is None:
        return self
    strides = None if wanted is preserve_format else format_strides(shape, wanted)
    self._bump_version()
    return _show(self, self.untyped_storage(), self.storage_offset(), shape, strides or contiguous_strides(shape))


def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """This tensor with the size of another; see `resize_`."""
    return resize_(self, the_template.shape, memory_format=memory_format)


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Lets this tensor show the memory of a storage or of another tensor."""
    if source is None:
        return _show(self, type(self._shared_storage())(0), 0, (0,), (1,))
    if isinstance(source, Tensor):
        if source.dtype is not self.dtype:
            raise RuntimeError(f"Could not set tensor of type {CPP_NAMES[source.dtype.name]} to a tensor of type "
                               f"{CPP_NAMES[self.dtype.name]}")
        shape, strides = (
            (source.shape, source.stride())
            if size is None
            else (tuple(size), stride or contiguous_strides(tuple(size)))
        )
        offset = storage_offset if size is not None else source.storage_offset()
        return _show(self, source._shared_storage(), offset, tuple(shape), tuple(strides))
    if isinstance(source, TypedStorage):
        if source.dtype is not self.dtype:
            raise RuntimeError(f"Expected a Storage of type {CPP_NAMES[self.dtype.name]} or an UntypedStorage, but got "
                               f"type {source.dtype.scalar_name} for argument 1 'storage'")
        source = source.untyped()
    if not isinstance(source, UntypedStorage):
        raise TypeError(
            f"set_(): argument 'source' (position 1) must be Tensor or Storage, not {type(source).__name__}"
        )
    shape = (source.nbytes() // self._array.itemsize,) if size is None else tuple(size)
    return _show(self, source, storage_offset, shape, tuple(stride) if stride else contiguous_strides(shape))


def share_memory_(self: Tensor) -> Tensor:
    """Moves the memory, which a view has from its base, to where other processes can see it."""
    storage = self.untyped_storage().share_memory_()
    for tensor in (self, self._base):
        if tensor is not None:
            array = tensor._array
            tensor._array = storage.array(array.shape, array.dtype, tensor._offset, array.strides)
    return self


def is_shared(self: Tensor) -> bool:
    """Whether other processes can see writes to the memory."""
    return self._shared_storage().is_shared()
