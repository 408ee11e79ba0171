"""The format before zip files: pickles one after the other, then the bytes of the storages."""

import io
import pickle
import struct
import sys
from collections.abc import Callable
from typing import Any

from .._storage import TypedStorage, UntypedStorage
from .._weights_only_unpickler import Unpickler as SafeUnpickler
from ..storage import CLASSES
from ._archive import read_exactly
from ._locations import Restorer, location_tag

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
_SYSTEM = {"protocol_version": PROTOCOL_VERSION, "little_endian": sys.byteorder == "little",
           "type_sizes": {"short": 2, "int": 4, "long": 4}}


def storage_id(obj: Any, key_of: Callable[[UntypedStorage], str], dtypes: dict[str, Any]) -> tuple | None:
    """What stands in the pickle for a storage; None for other objects. `dtypes` remembers the type of each."""
    typed = obj.__class__ is TypedStorage  # asked of everything in a pickle, so the quick questions first
    if not typed and not isinstance(obj, UntypedStorage):
        return None
    storage = obj.untyped()
    key = key_of(storage)
    if dtypes.setdefault(key, obj.dtype) is not obj.dtype:
        raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
    kind = CLASSES[obj.pickle_storage_type()] if typed else UntypedStorage
    return "storage", kind, key, location_tag(storage), len(obj)


def legacy_save(obj: Any, file: Any, pickler_class: type, protocol: int) -> None:
    """Writes an object in the old format."""
    storages: dict[int, UntypedStorage] = {}
    dtypes: dict[str, Any] = {}

    def key_of(storage: UntypedStorage) -> str:
        storages[id(storage)] = storage
        return str(id(storage))

    def persistent_id(found: Any) -> tuple | None:
        identity = storage_id(found, key_of, dtypes)
        return None if identity is None else (*identity, None)

    for part in (MAGIC_NUMBER, PROTOCOL_VERSION, _SYSTEM):
        pickle.dump(part, file, protocol)
    pickler = pickler_class(file, protocol)
    pickler.persistent_id = persistent_id
    pickler.dump(obj)
    keys = sorted(str(number) for number in storages)
    pickle.dump(keys, file, protocol)
    file.flush()
    for key in keys:
        data: Any = storages[int(key)].cpu().data
        file.write(struct.pack("<q", len(data) // dtypes[key].itemsize))
        file.write(memoryview(data))


class _Bounded(io.RawIOBase):
    """A file that never asks for more than is left of it, whatever length a damaged pickle claims."""

    def __init__(self, file: Any) -> None:
        self.file = file
        here = file.tell()
        self.end = file.seek(0, io.SEEK_END)
        file.seek(here)

    def read(self, size: int = -1) -> bytes:
        return self.file.read(min(size, self.left()) if size > 16 else size)

    def readline(self, size: int | None = -1) -> bytes:
        return self.file.readline(10_000)

    def left(self) -> int:
        return self.end - self.file.tell()


def legacy_load(file: Any, restore: Restorer, unpickler_class: type, weights_only: bool, **pickle_args: Any) -> Any:
    """What a file in the old format holds."""
    bounded = _Bounded(file)

    def unpickler() -> Any:
        return SafeUnpickler(bounded, encoding=pickle_args["encoding"]) if weights_only \
            else unpickler_class(file, **pickle_args)

    if unpickler().load() != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    protocol = unpickler().load()
    if protocol != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {protocol}")
    unpickler().load()  # the system that wrote it; PyTorch does not look at it either
    storages: dict[str, TypedStorage] = {}

    def persistent_load(saved_id: Any) -> Any:
        if not isinstance(saved_id, tuple) or not saved_id:
            raise RuntimeError(f"saved_id must be a tuple, got {type(saved_id).__name__}")
        kind, *rest = saved_id
        kind = kind.decode() if isinstance(kind, bytes) else kind
        if kind == "module" and not weights_only:
            return rest[0]  # the class; the source text beside it is not compared
        if kind != "storage" or len(rest) not in (4, 5):
            raise RuntimeError(f"Unknown saved id type: {kind}")
        kind, key, location, numel, *view = rest
        dtype = getattr(kind, "dtype", None)
        if dtype is None or not isinstance(numel, int):
            raise RuntimeError("a storage in the file has no element type, or no size")
        if key not in storages:
            if not 0 <= numel * dtype.itemsize <= bounded.end:
                raise RuntimeError(f"the file claims a storage of {numel * dtype.itemsize} bytes, and is {bounded.end} "
                                   "bytes long: it is truncated or damaged")
            made = restore(UntypedStorage(numel * dtype.itemsize), _text(location))
            storages[key] = TypedStorage(wrap_storage=made, dtype=dtype)
        whole = storages[key]
        if not view or view[0] is None:
            return whole
        view_key, offset, count = view[0]
        if not 0 <= offset <= offset + count <= len(whole):
            raise RuntimeError("a view of a storage in the file lies outside it")
        part = whole.untyped()[offset * dtype.itemsize : (offset + count) * dtype.itemsize]
        return storages.setdefault(view_key, TypedStorage(wrap_storage=part, dtype=dtype))

    main = unpickler()
    main.persistent_load = persistent_load
    result = main.load()
    for key in unpickler().load():
        if key not in storages:
            raise RuntimeError(f"the file holds the bytes of a storage {key!r} that nothing in it refers to")
        _fill(storages[key], bounded)
    return result


def _text(location: Any) -> str:
    return location.decode("ascii") if isinstance(location, bytes) else location


def _fill(storage: TypedStorage, source: _Bounded) -> None:
    """Reads a storage's elements from the file, which repeats their number."""
    head = source.file.read(8)
    needed = storage.nbytes()
    if len(head) < 8 or needed > source.left():
        missing = max(needed - source.left(), 8 - len(head))
        raise RuntimeError(f"unexpected EOF, expected {missing} more bytes. The file might be corrupted.")
    (count,) = struct.unpack("<q", head)
    if count != len(storage):
        raise RuntimeError(f"the file's storage has {count} elements, where {len(storage)} were announced")
    storage.untyped().copy_(UntypedStorage.of_array(read_exactly(source.file, needed)))
