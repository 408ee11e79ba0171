"""torch.storage: storages, and the classes that named one element type each."""

import io
from typing import Any

from ._core.storage import DEPRECATED, LEGACY_NAMES, TypedStorage, UntypedStorage
from ._core.warn import warn_once

__all__ = ["TypedStorage", "UntypedStorage"]


class _LegacyStorageMeta(type):
    """The type of torch.FloatStorage and its like: constructors that `isinstance` understands."""

    dtype: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is TypedStorage and instance.dtype is cls.dtype and instance.device.type == "cpu"

    def __call__(cls, *args: Any, wrap_storage: Any = None, **kwargs: Any) -> TypedStorage:
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype, **kwargs)


class _LegacyStorage(TypedStorage, metaclass=_LegacyStorageMeta):
    """What the old classes share."""

    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        return TypedStorage(wrap_storage=UntypedStorage.from_buffer(*args, dtype=cls.dtype, **kwargs), dtype=cls.dtype)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        mapped = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=mapped, dtype=cls.dtype)


CLASSES = {
    name: _LegacyStorageMeta(name, (_LegacyStorage,), {"dtype": kind, "__module__": __package__})
    for kind, name in LEGACY_NAMES.items()
}
globals().update(CLASSES, Storage=CLASSES["FloatStorage"])


def _dtype_to_storage_type_map() -> dict[Any, str]:
    """The names of the old classes by element type."""
    return dict(LEGACY_NAMES)


def _storage_type_to_dtype_map() -> dict[str, Any]:
    """The element types by the names of the old classes."""
    return {name: kind for kind, name in LEGACY_NAMES.items()}


def _warn_typed_storage_removal(stacklevel: int = 2) -> None:
    warn_once(DEPRECATED, stacklevel)


def _load_from_bytes(b: bytes) -> Any:
    """The storage that PyTorch put, as a file of its own, into a plain pickle."""
    from .serialization import load

    return load(io.BytesIO(b), weights_only=False)
