"""torch.save and torch.load: PyTorch's file formats, in both directions."""

import contextlib
import io
import mmap as _mmap
import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from enum import Enum
from typing import IO, Any, TypeAlias

import numpy as np

from .. import _weights_only_unpickler as _safe
from .._core import device as _device
from .._core.storage import MetaStorage, TypedStorage, UntypedStorage
from .._files.archive import ALIGNMENT, Reader, Writer, check_size
from .._files.locations import (
    _package_registry,
    default_restore_location,
    is_meta,
    location_tag,
    register_package,
    restore_location,
)
from .._files.old_formats import MAGIC_NUMBER, PROTOCOL_VERSION, legacy_load, legacy_save
from .._files.pickled_calls import _get_layout
from .._files.pickled_names import pickler_class, unpickler_class
from .._files.safetensors import load_safetensors
from .._files.storage_ids import checked_id, restored, storage_id
from .._files.target import remove_leftover, target
from .._utils import elements_come_later
from .._weights_only_unpickler import _safe_globals_context as safe_globals

__all__ = [
    "LoadEndianness", "SourceChangeWarning", "add_safe_globals", "clear_safe_globals", "default_restore_location",
    "get_crc32_options", "get_default_load_endianness", "get_default_mmap_options", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "load", "location_tag", "register_package", "safe_globals", "save",
    "set_crc32_options", "set_default_load_endianness", "set_default_mmap_options", "skip_data",
]  # fmt: skip

DEFAULT_PROTOCOL = 2
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | _device.device | str | dict[str, str] | None
add_safe_globals, get_safe_globals = _safe._add_safe_globals, _safe._get_safe_globals
clear_safe_globals = _safe._clear_safe_globals

UNSAFE_MESSAGE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to "
    "`True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in "
    "arbitrary code execution. Do it only if you got the file from a trusted source."
)


class SourceChangeWarning(Warning):
    """Kept for programs that filter it: the source text in old files is not compared."""


# options --------------------------------------------------------------------------------------------------------------


class LoadEndianness(Enum):
    """The byte order of files that do not say theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Options(threading.local):
    skip_data = False


_options = _Options()
_MAP_PRIVATE, _MAP_SHARED = getattr(_mmap, "MAP_PRIVATE", None), getattr(_mmap, "MAP_SHARED", None)
_endianness: list[LoadEndianness | None] = [None]
_check_sums = [True]
_mmap_flags = [_MAP_PRIVATE]
mmap_by_default = [False]


def get_default_load_endianness() -> LoadEndianness | None:
    return _endianness[0]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _endianness[0] = endianness


def get_crc32_options() -> bool:
    return _check_sums[0]


def set_crc32_options(compute_crc32: bool) -> None:
    """Whether `save` computes check sums; without them `load` reads the file, other zip programs may not."""
    _check_sums[0] = compute_crc32


def get_default_mmap_options() -> int | None:
    return _mmap_flags[0]


class set_default_mmap_options:
    """Sets how `load(mmap=True)` maps: MAP_PRIVATE, or MAP_SHARED, which writes to the file; also for a while."""

    def __init__(self, flags: int) -> None:
        if flags not in (_MAP_PRIVATE, _MAP_SHARED) or flags is None:
            raise ValueError("Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                             f"mmap.MAP_SHARED, but got {flags}")
        self.before = _mmap_flags[0]
        _mmap_flags[0] = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _mmap_flags[0] = self.before


class skip_data:
    """While in force, `save` writes zeros, and `load` makes storages of zeros, in the place of data."""

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self.before = _options.skip_data
        _options.skip_data = True

    def __exit__(self, *exc: object) -> None:
        _options.skip_data = self.before


# save -----------------------------------------------------------------------------------------------------------------


def save(obj: object, f: FileLike, pickle_module: Any = pickle, pickle_protocol: int = DEFAULT_PROTOCOL,
         _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False) -> None:
    """Writes an object to a file. A file that exists is replaced when the new one is complete, not before."""
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if not _use_new_zipfile_serialization and _options.skip_data:
        raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")
    pickler = pickler_class(pickle_module)
    with target(f, _use_new_zipfile_serialization) as (file, root):
        if _use_new_zipfile_serialization:
            _save_zip(obj, Writer(file.write, root, _check_sums[0]), pickler, pickle_protocol,
                      not _disable_byteorder_record)
        else:
            legacy_save(obj, file, pickler, pickle_protocol)
        if hasattr(file, "flush"):
            file.flush()


def _save_zip(obj: Any, writer: Writer, pickler_type: type, protocol: int, byteorder: bool) -> None:
    storages: dict[int, UntypedStorage] = {}
    dtypes: dict[str, Any] = {}
    keys: dict[int, str] = {}

    def key_of(storage: UntypedStorage) -> str:
        storages[id(storage)] = storage
        return keys.setdefault(id(storage), str(len(keys)))

    pickled = io.BytesIO()
    pickler: Any = pickler_type(pickled, protocol)
    pickler.persistent_id = lambda found: storage_id(found, key_of, dtypes)
    pickler.dump(obj)
    writer.add("data.pkl", pickled.getbuffer())
    writer.add(".format_version", b"1")
    writer.add(".storage_alignment", str(ALIGNMENT).encode())
    if byteorder:
        writer.add("byteorder", sys.byteorder.encode())
    for number, key in keys.items():
        storage = storages[number]
        data = np.zeros(storage.nbytes(), np.uint8) if _options.skip_data else storage.cpu().data
        writer.add(f"data/{key}", data)
    writer.close()


# load -----------------------------------------------------------------------------------------------------------------


def load(f: FileLike, map_location: MAP_LOCATION = None, pickle_module: Any = None, *, weights_only: bool | None = None,
         mmap: bool | None = None, **pickle_load_args: Any) -> Any:
    """What `save`, here or in PyTorch, wrote. With `weights_only`, the default, nothing in the file is executed."""
    weights_only = _decided(weights_only, pickle_module)
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    mmap = mmap_by_default[0] if mmap is None else mmap
    is_path = isinstance(f, (str, os.PathLike))
    if mmap and not is_path:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if pickle_load_args and weights_only:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    pickle_load_args.setdefault("encoding", "utf-8")
    if is_path and os.fspath(f).endswith(".safetensors"):  # type: ignore[arg-type]
        return load_safetensors(os.fspath(f), map_location)  # type: ignore[arg-type]
    with _source(f) as file, elements_come_later():
        try:
            unpickler = unpickler_class(pickle_module or pickle)
            if _is_zipfile(file):
                mapped = _mapping(os.fspath(f)) if mmap and is_path else None  # type: ignore[arg-type]
                return _load_zip(Reader(file), map_location, mapped, unpickler, weights_only, pickle_load_args)
            if mmap:
                raise RuntimeError(f"mmap can only be used with files saved with `torch.save({f}, "
                                   "_use_new_zipfile_serialization=True), please torch.save your checkpoint with this "
                                   "option in order to use mmap.")
            return legacy_load(file, restore_location(map_location), unpickler, weights_only, **pickle_load_args)
        except pickle.UnpicklingError as error:
            if not weights_only:
                raise
            raise pickle.UnpicklingError(_advice(str(error))) from None


def _decided(weights_only: bool | None, pickle_module: Any) -> bool:
    """Whether to load weights only: as the environment, the call, or the default says."""
    yes, no = (os.environ.get(f"TORCH_FORCE_{word}WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true")
               for word in ("", "NO_"))
    if yes and no:
        raise RuntimeError("Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should "
                           "be set, but both were set.")
    if yes:
        return True
    if weights_only is None and no:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the`weights_only` argument was not "
            "explicitly passed to `torch.load`, forcing weights_only=False.", UserWarning, stacklevel=3)
        return False
    if weights_only is None:
        return pickle_module is None
    return bool(weights_only)


def _advice(reason: str) -> str:
    """The text of a refusal, with what its reader can do about it."""
    end = ("\n\nCheck the documentation of torch.load to learn more about types accepted by default with weights_only "
           "https://pytorch.org/docs/stable/generated/torch.load.html.")
    if reason.startswith("Unsupported global"):
        return ("Weights only load failed. This file can still be loaded, to do so you have two options, \033[1mdo "
                "those steps only if you trust the source of the checkpoint\033[0m. \n\t(1) "
                f"{UNSAFE_MESSAGE}\n\t(2) Alternatively, to load with `weights_only=True` please check the recommended "
                f"steps in the following error message.\n\tWeightsUnpickler error: {reason}{end}")
    request = "" if reason.endswith("is blocked.") else ("Please file an issue with the following so that we can make "
                                                         "`weights_only=True` compatible with your use case: "
                                                         "WeightsUnpickler error: ")
    return f"Weights only load failed. {UNSAFE_MESSAGE}\n{request}\n\n{reason}{end}"


@contextlib.contextmanager
def _source(f: Any) -> Iterator[Any]:
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            remove_leftover(f)
            yield file
        return
    try:
        f.seek(f.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the data into a buffer "
            "like io.BytesIO and try to load from it instead."
        ) from None
    yield f


def _is_zipfile(file: Any) -> bool:
    here = file.tell()
    start = file.read(4)
    file.seek(here)
    if not start:
        raise EOFError("Ran out of input: the file is empty")
    return start == b"PK\3\4"


def _mapping(path: str) -> UntypedStorage:
    """The whole file as a storage."""
    return UntypedStorage.from_file(path, _mmap_flags[0] == _MAP_SHARED, os.path.getsize(path))


def _load_zip(reader: Reader, map_location: Any, mapped: UntypedStorage | None, unpickler_type: type,
              weights_only: bool, pickle_args: dict[str, Any]) -> Any:
    if "constants.pkl" in reader:
        raise RuntimeError("Cannot load TorchScript archives: the file holds a program, not a pickled object")
    swap = _byteorder(reader) != sys.byteorder
    restore = restore_location(map_location)
    storages: dict[str, TypedStorage] = {}

    def storage_of(key: str, nbytes: int) -> UntypedStorage:
        if is_meta(map_location):
            return MetaStorage(nbytes)
        if _options.skip_data:
            check_size(reader.place(f"data/{key}")[1], nbytes)
            return UntypedStorage(nbytes)
        if mapped is not None:
            start, size = reader.place(f"data/{key}")
            check_size(size, nbytes)
            return mapped[start : start + size]
        return UntypedStorage.of_array(reader.array(f"data/{key}", nbytes))

    def persistent_load(saved_id: Any) -> TypedStorage:
        dtype, key, location, count, _ = checked_id(saved_id)
        if key not in storages:
            storages[key] = restored(storage_of(key, count * dtype.itemsize), location, restore, dtype)
            if swap:
                storages[key].untyped().byteswap(dtype)
        return storages[key]

    pickled = io.BytesIO(reader.read("data.pkl"))
    unpickler: Any = (_safe.Unpickler(pickled, encoding=pickle_args["encoding"]) if weights_only
                      else unpickler_type(pickled, **pickle_args))
    unpickler.persistent_load = persistent_load
    return unpickler.load()


def _byteorder(reader: Reader) -> str:
    if "byteorder" in reader:
        order = reader.read("byteorder")[:20].decode("latin1")
        if order not in ("little", "big"):
            raise ValueError(f"Unknown endianness type: {order}")
        return order
    default = _endianness[0]
    if default is LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if default is LoadEndianness.BIG else "little"


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """The globals in a checkpoint that `load` would refuse; nothing in the file is executed."""
    known = {*_safe._get_allowed_globals(), *_safe.user_allowed_globals()}
    with _source(f) as file:
        if not _is_zipfile(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        return sorted(_safe.get_globals_in_pkl(io.BytesIO(Reader(file).read("data.pkl"))) - known)
