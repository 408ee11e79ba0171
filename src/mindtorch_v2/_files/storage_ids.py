"""What stands in a pickle for a storage."""

from collections.abc import Callable
from typing import Any

from .._core.storage import TypedStorage, UntypedStorage
from ..storage import CLASSES
from .locations import location_tag
from .pickled_calls import shown

_LARGEST = (1 << 63) - 1


def storage_id(obj: Any, key_of: Callable[[UntypedStorage], str], dtypes: dict[str, Any]) -> tuple | None:
    """What stands in the pickle for a storage; None for other objects. `dtypes` remembers the type of each."""
    typed = obj.__class__ is TypedStorage  # asked of everything in a pickle, so the quick questions first
    if not typed and not isinstance(obj, UntypedStorage):
        return None
    storage = obj.untyped()
    key = key_of(storage)
    if storage.nbytes() and dtypes.setdefault(key, obj.dtype) is not obj.dtype:
        raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
    kind = CLASSES[obj.pickle_storage_type()] if typed else UntypedStorage
    return "storage", kind, key, location_tag(storage), len(obj)


def checked_id(saved_id: Any) -> tuple[Any, str, str, int, Any]:
    """Type, key, location and number of elements of a storage, and which part of it a view is, out of a pickle.

    A file may hold anything here, so nothing is compared or shown before its type is known.
    """
    if saved_id.__class__ is not tuple:
        raise RuntimeError(f"saved_id must be a tuple, got {type(saved_id).__name__}")
    name, *rest = map(decoded, saved_id or (None,))
    if name.__class__ is not str or name != "storage" or len(rest) not in (4, 5):
        raise RuntimeError(f"Unknown typename for persistent_load, expected 'storage' but got {shown(name)}")
    kind, key, location, count, *view = rest
    is_storage = kind is UntypedStorage or (isinstance(kind, type) and issubclass(kind, TypedStorage))
    dtype: Any = getattr(kind, "dtype", None) if is_storage else None
    if dtype is None:
        raise RuntimeError(f"a storage in the file is of the class {shown(kind)}, which is none of a storage")
    if key.__class__ is not str or location.__class__ is not str or count.__class__ is not int or count < 0:
        raise RuntimeError(
            "a storage in the file has no proper key, location or number of elements: "
            f"{shown(key)}, {shown(location)}, {shown(count)}"
        )
    if count * dtype.itemsize > _LARGEST:
        raise RuntimeError(f"the file claims a storage of {count * dtype.itemsize} bytes")
    return dtype, key, location, count, view[0] if view else None


def decoded(value: Any) -> Any:
    """A text, also one that Python 2 wrote as bytes."""
    return value.decode("latin1") if value.__class__ is bytes else value


def restored(storage: UntypedStorage, location: str, restore: Callable[[Any, str], Any], dtype: Any) -> TypedStorage:
    """A storage that was read from a file at its place, with the type of its elements."""
    moved = restore(storage, location)
    if not isinstance(moved, UntypedStorage):
        raise TypeError(f"map_location must return a storage, not {type(moved).__name__}")
    return TypedStorage(wrap_storage=moved, dtype=dtype)
