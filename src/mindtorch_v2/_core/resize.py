"""Changing what memory a tensor shows: resize_, set_, share_memory_."""

from typing import Any

from .._autograd.node import NotDerived
from .._autograd.views import WRITE_TO_INFERENCE, check_inplace, rebase
from .._dispatch.keys import INFERENCE_MASK, modes
from .._dispatch.schema import Schema
from .._ops._declare.placement import checked_reach, show
from .._ops.copy import format_strides, suggested_strides
from .determinism import determinism, filler
from .device import channels_last, channels_last_3d, memory_format, preserve_format
from .dtype import CPP_NAMES
from .geometry import contiguous_strides
from .storage import TypedStorage, UntypedStorage, refuse_reach
from .tensor import Tensor

_RESIZE = Schema("resize_(Tensor(a!) self, int[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)")


def _check_inference(tensor: Tensor) -> None:
    if tensor._keys & INFERENCE_MASK and not modes.inference:
        raise RuntimeError(WRITE_TO_INFERENCE)


def resize_(self: Tensor, *size: Any, memory_format: memory_format | None = None) -> Tensor:
    """This tensor with another size, keeping the elements that fit; memory is added where it is too small."""
    shape: tuple[int, ...] = tuple(size[0]) if len(size) == 1 and isinstance(size[0], tuple) else size
    wanted = memory_format
    if wanted is not None or not shape or any([n.__class__ is not int for n in shape]):
        _, shape, wanted = _RESIZE.bind((self, *size), {"memory_format": memory_format}, is_method=True)
    if shape != self._array.shape:
        _check_inference(self)
    if self.requires_grad and not modes.inference:
        raise RuntimeError("cannot resize variables that require grad")
    if shape and min(shape) < 0:
        raise RuntimeError("numel: integer multiplication overflow")
    if wanted is preserve_format:
        raise RuntimeError("Unsupported memory formatPreserve")
    if shape == self._array.shape and wanted is None:
        return self
    strides, storage = format_strides(shape, wanted) or contiguous_strides(shape), self.untyped_storage()
    before = storage.nbytes()
    show(self, storage, self.storage_offset(), shape, strides)
    if determinism.fills and storage.nbytes() > before:
        _fill_from(self, storage, before)
    self._bump_version()
    return self


def _fill_from(self: Tensor, storage: UntypedStorage, start: int) -> None:
    """Writes to the bytes of a storage from `start` on what deterministic mode puts into unwritten memory."""
    size = self._array.itemsize
    added = show(self.new_empty((0,)), storage, start // size, (storage.nbytes() // size - start // size,), (1,))
    added.fill_(filler(self.dtype))


def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """Gives the tensor the size of another; elements beyond its memory are uninitialised."""
    if memory_format is preserve_format:
        rows_last = suggested_strides(the_template, the_template.shape) is not None
        memory_format = (channels_last if the_template.dim() == 4 else channels_last_3d) if rows_last else None
    _check_inference(self)
    return resize_(self, the_template.shape, memory_format=memory_format)


_SET_FORMS = """
 * ()
 * (torch.Storage source)
 * (torch.Storage source, int storage_offset, tuple of ints size, tuple of ints stride = None)
 * (Tensor source)
 * (Tensor source, int storage_offset, tuple of ints size, tuple of ints stride = None)
"""


def _bound_set(args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Source, offset, size and stride of a call of `set_`; missing ones are None."""
    given = dict(zip(("source", "storage_offset", "size", "stride"), args, strict=False)) | kwargs
    source, offset, size, stride = (given.get(name) for name in ("source", "storage_offset", "size", "stride"))
    fits = len(args) + len(kwargs) == len(given) <= 4 and given.keys() <= {"source", "storage_offset", "size", "stride"}
    if given:
        fits = fits and isinstance(source, (Tensor, UntypedStorage, TypedStorage)) and len(given) != 2
    if len(given) > 1:
        fits = fits and offset.__class__ is int and all(
            isinstance(value, (tuple, list)) and all(hasattr(n, "__index__") for n in value)
            for value in (size, () if stride is None else stride))
    if not fits:
        shown = [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
        raise TypeError(f"set_() received an invalid combination of arguments - got ({', '.join(shown)}), but expected "
                        f"one of:{_SET_FORMS}")
    return source, offset, size, stride


def set_(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Lets this tensor show the memory of a storage or of another tensor."""
    source, offset, size, stride = _bound_set(args, kwargs)
    records = modes.grad_enabled and not modes.inference and (
        self.requires_grad or isinstance(source, Tensor) and size is None and source.requires_grad
    )
    self.untyped_storage()  # which a sparse tensor refuses
    storage, offset, shape, strides = _set_target(self, source, offset, size, stride)
    if records:
        check_inplace(self)
    _check_inference(self)
    needed = checked_reach(offset, shape, strides, self._array.itemsize)
    stays = size is not None and shape == self._array.shape and (not stride or strides == self.stride())
    if stays and needed > storage.nbytes():  # PyTorch looks no further than at sizes and strides that do not change
        refuse_reach(shape, stride or (), offset, self._array.itemsize, needed, storage.nbytes())
    if storage.device.type != self._device.type:
        raise RuntimeError(f'Attempted to set the storage of a tensor on device "{self.device}" to a storage on '
                           f'different device "{storage.device}".  This is no longer allowed; the devices must match.')
    sources = (self, source) if isinstance(source, Tensor) and size is None else (self,)
    edges = tuple(t._recording_edge() if records and t.requires_grad else None for t in sources)
    self._leave_storage()
    show(self, storage, offset, shape, strides)
    self._bump_version()
    if records:
        node = NotDerived("set_", edges)
        node.outputs = ((shape, self._array.dtype, self._device),)
        rebase(self, node)
    return self


def _set_target(self: Tensor, source: Any, offset: Any, size: Any, stride: Any) -> tuple:
    """The storage, offset, shape and strides that a call of `set_` asks for."""
    if source is None:
        return UntypedStorage(0, device=self._device), 0, (0,), (1,)
    if isinstance(source, Tensor):
        if size is None:
            if source.dtype is not self.dtype:
                raise RuntimeError(f"Could not set tensor of type {CPP_NAMES[source.dtype.name]} to a tensor of type "
                                   f"{CPP_NAMES[self.dtype.name]}")
            return source.untyped_storage(), source.storage_offset(), tuple(source.shape), source.stride()
        if not source.is_contiguous():
            raise RuntimeError("passed in tensor to be used as storage must be contiguous")
        source, offset = source.untyped_storage(), offset + source.storage_offset()
    elif isinstance(source, TypedStorage):
        if source.dtype is not self.dtype:
            raise RuntimeError(f"Expected a Storage of type {CPP_NAMES[self.dtype.name]} or an UntypedStorage, but got "
                               f"type {source.dtype.scalar_name} for argument 1 'storage'")
        source = source.untyped()
    shape = (source.nbytes() // self._array.itemsize,) if size is None else tuple(int(n) for n in size)
    if not stride and shape == self._array.shape:
        return source, offset or 0, shape, self.stride()
    strides = tuple(int(n) for n in stride) if stride else contiguous_strides(shape)
    return source, offset or 0, shape, strides


def share_memory_(self: Tensor) -> Tensor:
    """Moves the memory, which a view has from its base, to where other processes can see it."""
    storage = self.untyped_storage().share_memory_()
    array = self._array
    self._array = storage.array(array.shape, array.dtype, self._offset, array.strides)
    return self


def is_shared(self: Tensor) -> bool:
    """Whether other processes can see writes to the memory."""
    if self.is_sparse:
        raise NotImplementedError("Cannot access storage of SparseTensorImpl")
    return self._shared_storage().is_shared()
