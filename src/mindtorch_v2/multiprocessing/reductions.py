"""How tensors and storages are pickled on their way to another process: by where their memory is.

The memory is moved to where others can map it, and stays there; both sides then see each other's writes.
"""

import os
import weakref
from collections import OrderedDict
from collections.abc import Callable
from multiprocessing import reduction
from typing import Any

from .._core import shared_memory as _shared_memory
from .._core.device import META
from .._core.dtype import dtype
from .._core.resize import share_memory_
from .._core.shared_memory import SharedMemory, memory_under
from .._core.storage import TypedStorage, UntypedStorage
from .._core.tensor import Tensor
from .._utils import _rebuild_tensor_v3
from ..nn.parameter import Parameter

# The storages of this process that others may know, by file: memory that comes back is the storage that it left.
_known: weakref.WeakValueDictionary[tuple[int, int], UntypedStorage] = weakref.WeakValueDictionary()


class StorageWeakRef:
    """Which storage it is, without keeping it alive; two of one storage are equal."""

    __slots__ = ("_ref", "cdata")

    def __init__(self, storage: Any) -> None:
        self._ref, self.cdata = weakref.ref(storage.untyped()), storage._cdata

    def expired(self) -> bool:
        return self._ref() is None

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata


def refuse_graph(tensor: Tensor) -> None:
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does "
                           "not support crossing process boundaries.  If you just want to transfer the data, call "
                           "detach() on the tensor before serializing (e.g., putting it on the queue).")


def reduce_tensor(tensor: Tensor) -> tuple[Callable, tuple]:
    refuse_graph(tensor)
    if tensor.device is META:
        return tensor.__reduce_ex__(2)  # type: ignore[return-value]
    _sendable(tensor._shared_storage())
    share_memory_(tensor)  # shows the storage's new memory
    return rebuild_tensor, (type(tensor), tensor.untyped_storage(), tensor.dtype, tensor.storage_offset(),
                            tuple(tensor.shape), tensor.stride(), tensor.requires_grad)


def rebuild_tensor(cls: type, storage: UntypedStorage, kind: dtype, offset: int, size: tuple[int, ...],
                   stride: tuple[int, ...], requires_grad: bool) -> Tensor:
    leaf = requires_grad and cls is not Parameter
    tensor = _rebuild_tensor_v3(storage, offset, size, stride, leaf, OrderedDict(), kind)
    return Parameter(tensor, requires_grad) if cls is Parameter else tensor


def _sendable(storage: UntypedStorage) -> SharedMemory:
    """The memory of a storage, moved if other processes cannot be told of it where it is."""
    memory = memory_under(storage.buffer)
    if not isinstance(memory, SharedMemory) or not (memory.path or memory.descriptor >= 0):
        shared = UntypedStorage._new_shared(storage.nbytes_)
        shared.data[...] = storage.data
        storage.move_to(shared.data)
        memory = memory_under(storage.buffer)
    return memory


def reduce_storage(storage: UntypedStorage) -> tuple[Callable, tuple]:
    if storage.device is META:
        return storage.__reduce__()  # type: ignore[return-value]
    memory = _sendable(storage)
    if memory.path:
        link = _shared_memory.new_path()  # a name of its own for each receiver, which removes it in the end
        os.link(memory.path, link)
        _known[_file(os.stat(link))] = storage
        return rebuild_storage_filename, (link, storage.nbytes_)
    _known[_file(os.fstat(memory.descriptor))] = storage
    return rebuild_storage_fd, (reduction.DupFd(memory.descriptor), storage.nbytes_)


def _file(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def rebuild_storage_fd(descriptor: Any, size: int) -> UntypedStorage:
    file = descriptor.detach()
    storage = _known.get(_file(os.fstat(file)))
    if storage is not None:
        os.close(file)
        return storage
    return _on_memory(SharedMemory(file, max(size, 1), descriptor=file), size, os.fstat(file))


def rebuild_storage_filename(path: str, size: int) -> UntypedStorage:
    storage = _known.get(_file(os.stat(path)))
    if storage is not None:
        os.unlink(path)
        return storage
    file = os.open(path, os.O_RDWR)
    try:
        return _on_memory(SharedMemory(file, max(size, 1), path=path), size, os.fstat(file))
    finally:
        os.close(file)


def _on_memory(memory: SharedMemory, size: int, status: os.stat_result) -> UntypedStorage:
    storage = UntypedStorage.of_array(memory.array()[:size])
    _known[_file(status)] = storage
    return storage


def reduce_typed_storage(storage: TypedStorage) -> tuple[Callable, tuple]:
    return rebuild_typed_storage, (storage.untyped(), storage.dtype)


def rebuild_typed_storage(storage: UntypedStorage, kind: dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=kind, _internal=True)


def init_reductions() -> None:
    """From now on the queues, pipes and processes of `multiprocessing` share the memory of tensors."""
    for cls, reduce in ((UntypedStorage, reduce_storage), (TypedStorage, reduce_typed_storage),
                        (Tensor, reduce_tensor), (Parameter, reduce_tensor)):
        reduction.register(cls, reduce)
