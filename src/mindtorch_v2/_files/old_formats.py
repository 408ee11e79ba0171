"""The format before zip files: pickles one after the other, then the bytes of the storages."""

import io
import pickle
import struct
import sys
from typing import Any

from .._core.storage import TypedStorage, UntypedStorage
from .._weights_only_unpickler import Unpickler as SafeUnpickler
from ..storage import CLASSES
from .archive import read_exactly
from .locations import Restorer
from .pickled_calls import shown
from .storage_ids import checked_id, decoded, restored, storage_id

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
_SYSTEM = {"protocol_version": PROTOCOL_VERSION, "little_endian": sys.byteorder == "little",
           "type_sizes": {"short": 2, "int": 4, "long": 4}}


def legacy_save(obj: Any, file: Any, pickler_class: type, protocol: int) -> None:
    """Writes an object in the old format."""
    storages: dict[int, UntypedStorage] = {}
    dtypes: dict[str, Any] = {}

    def key_of(storage: UntypedStorage) -> str:
        storages[id(storage)] = storage
        return str(id(storage))

    def persistent_id(found: Any) -> tuple | None:
        identity = storage_id(found, key_of, dtypes)
        if identity is None:
            return None
        name, kind, *rest = identity  # PyTorch reads old files only if each storage in them has a class with a type
        return (name, CLASSES["ByteStorage"] if kind is UntypedStorage else kind, *rest, None)

    pickled = io.BytesIO()  # complete before the first byte is written: not every object can be pickled
    for part in (MAGIC_NUMBER, PROTOCOL_VERSION, _SYSTEM):
        pickle.dump(part, pickled, protocol)
    pickler = pickler_class(pickled, protocol)
    pickler.persistent_id = persistent_id
    pickler.dump(obj)
    keys = sorted(str(number) for number in storages)
    pickle.dump(keys, pickled, protocol)
    file.write(pickled.getbuffer())
    for key in keys:
        data: Any = storages[int(key)].cpu().data
        file.write(struct.pack("<q", len(data) // (dtypes[key].itemsize if len(data) else 1)))
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
    storages: dict[str, TypedStorage] = {}
    views: dict[str, TypedStorage] = {}
    claimed = 0

    def unpickler() -> Any:
        return SafeUnpickler(bounded, encoding=pickle_args["encoding"]) if weights_only \
            else unpickler_class(file, **pickle_args)

    def persistent_load(saved_id: Any) -> Any:
        nonlocal claimed
        if not weights_only and isinstance(saved_id, tuple) and saved_id[:1] in (("module",), (b"module",)):
            return saved_id[1]  # the class; the source text beside it is not compared
        dtype, key, location, count, view = checked_id(saved_id)
        if key not in storages:
            nbytes = count * dtype.itemsize
            claimed += nbytes
            if claimed > bounded.end:
                raise RuntimeError(f"the file claims storages of {claimed} bytes, and is {bounded.end} bytes long: it "
                                   "is truncated or damaged")
            storages[key] = restored(UntypedStorage(nbytes), location, restore, dtype)
        return storages[key] if view is None else _part(storages[key], view, views)

    magic = unpickler().load()
    if magic.__class__ is not int or magic != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    protocol = unpickler().load()
    if protocol.__class__ is not int or protocol != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {shown(protocol)}")
    unpickler().load()  # the system that wrote it; PyTorch does not look at it either
    main = unpickler()
    main.persistent_load = persistent_load
    result = main.load()
    listed = unpickler().load()
    keys = list(map(decoded, listed)) if listed.__class__ is list else [None]
    if any(key.__class__ is not str for key in keys):
        raise RuntimeError("the file does not say whose bytes follow: it is damaged")
    for key in keys:
        if key not in storages:
            raise RuntimeError(f"the file holds the bytes of a storage {shown(key)} that nothing in it refers to")
        _fill(storages[key], bounded)
    if missing := storages.keys() - set(keys):
        raise RuntimeError(f"the file does not hold the bytes of the storages {sorted(missing)[:3]}: it is damaged")
    return result


def _part(whole: TypedStorage, view: Any, views: dict[str, TypedStorage]) -> TypedStorage:
    """A part of a storage, as very old files describe one by a name, where it begins and how long it is."""
    if view.__class__ is not tuple or len(view) != 3 or decoded(view[0]).__class__ is not str or any(
            part.__class__ is not int for part in view[1:]):
        raise RuntimeError("a view of a storage in the file has no proper name, place or size")
    name, offset, count = map(decoded, view)
    if name not in views:
        if not 0 <= offset <= offset + count <= len(whole):
            raise RuntimeError("a view of a storage in the file lies outside it")
        width = whole.dtype.itemsize
        part = whole.untyped()[offset * width : (offset + count) * width]
        views[name] = TypedStorage(wrap_storage=part, dtype=whole.dtype)
    return views[name]


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
