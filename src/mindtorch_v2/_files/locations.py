"""Where storages were when they were saved, and where they go when they are loaded."""

from collections.abc import Callable
from typing import Any

from .._backends.cuda.runtime import is_available as cuda_is_available
from .._core.device import DEVICE_TYPES, device
from .._core.storage import TypedStorage, UntypedStorage

Tagger = Callable[[Any], "str | None"]
Restorer = Callable[[Any, str], Any]
_package_registry: list[tuple[int, Tagger, Restorer]] = []


def register_package(priority: int, tagger: Tagger, deserializer: Restorer) -> None:
    """Adds a kind of device: `tagger` names a storage's place, `deserializer` puts one there; lowest priority first."""
    _package_registry.append((priority, tagger, deserializer))
    _package_registry.sort(key=lambda entry: entry[0])


def location_tag(storage: Any) -> str:
    """The name of the place where a storage is."""
    for _, tagger, _ in _package_registry:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"don't know how to determine data location of {_type_name(storage)}")


def default_restore_location(storage: Any, location: str) -> Any:
    """A storage that was read from a file, put to the place with this name."""
    for _, _, restore in _package_registry:
        result = restore(storage, location)
        if result is not None:
            return result
    raise RuntimeError(f"don't know how to restore data location of {_type_name(storage)} (tagged with {location})")


def _type_name(storage: Any) -> str:
    return f"torch.storage.{'TypedStorage' if isinstance(storage, TypedStorage) else 'UntypedStorage'}"


def restore_location(map_location: Any) -> Restorer:
    """What puts a storage where `map_location` (None, a name, a device, a dict of names, a function) says."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, (str, bytes, device)):
        named = map_location.decode() if isinstance(map_location, bytes) else str(map_location)
        return lambda storage, location: default_restore_location(storage, named)

    def asked(storage: Any, location: str) -> Any:
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return asked


def is_meta(map_location: Any) -> bool:
    return str(map_location) == "meta"


def _tagger(kind: str) -> Tagger:
    return lambda storage: str(storage.device) if storage.device.type == kind else None


def _restorer(kind: str) -> Restorer:
    def restore(storage: UntypedStorage, location: str) -> UntypedStorage | None:
        if not isinstance(location, str):
            raise TypeError(f"expected string or bytes-like object, got '{type(location).__name__}'")
        if location != kind and (kind in ("cpu", "meta") or location.partition(":")[0] != kind):
            return None
        device(location)  # raises if it is none
        if kind == "cuda" and not cuda_is_available():
            raise RuntimeError(
                "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
                "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map "
                "your storages to the CPU."
            )
        return storage.to(device=location)

    return restore


for _number, _kind in enumerate(DEVICE_TYPES):
    register_package(10 + _number, _tagger(_kind), _restorer(_kind))
