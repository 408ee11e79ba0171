"""Buffers that tensors share."""

import math
import mmap
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from .._backends.meta import MetaArray
from .allocation import allocates
from .device import CPU, META, device
from .dtype import (
    FLOAT8,
    NAMES,
    OF_ARRAY,
    bfloat16,
    complex64,
    complex128,
    dtype,
    get_default_dtype,
    uint8,
)
from .geometry import NO_BYTES, Geometry

MOST_DIMS = 64  # of an ndarray
_ndarray = np.ndarray
_NOT_EXPORTED = frozenset(d.np for d in (bfloat16, *FLOAT8))  # no code in the buffer protocol
DEPRECATED = ("TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only "
              "storage class. This should only matter to you if you are using storages directly.  To access "
              "UntypedStorage directly, use tensor.untyped_storage() instead of tensor.storage()")
_device = device  # some methods have a parameter of that name
# A place that tensors fill: brings those that show memory between two addresses to a storage's new memory, and says
# whether there are some that do not fit.
follow_storage: list[Callable[[Any, int, int], bool]] = []


class StorageBase:
    """Bytes. `buffer` is any C-contiguous array over them; arrays of tensors are made on it."""

    __slots__ = ("__dict__", "__weakref__", "buffer", "nbytes_")

    def __new__(cls, *args: Any, device: Any = None) -> Any:
        if cls is StorageBase:
            raise RuntimeError("Cannot directly construct StorageBase; subclass it and then construct that")
        return object.__new__(cls)

    @allocates
    def __init__(self, *args: Any, device: Any = None) -> None:
        content = args[0] if args else 0
        if isinstance(content, int):
            if content < 0:
                raise RuntimeError(f"torch.UntypedStorage(): a storage cannot have {content} bytes")
            self.buffer: Any = np.zeros(content, np.uint8)
        else:
            self.buffer = _bytes_of_items(content)
        self.nbytes_: int = self.buffer.nbytes

    @property
    def _cdata(self) -> int:
        """A number that no other living storage has."""
        return id(self)

    @property
    def data(self) -> np.ndarray:
        """The bytes as a flat array."""
        return _ndarray((self.nbytes_,), np.uint8, self.buffer)

    def nbytes(self) -> int:
        return self.nbytes_

    size = nbytes
    __len__ = nbytes

    def element_size(self) -> int:
        return 1

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes_

    def data_ptr(self) -> int:
        return self.buffer.__array_interface__["data"][0] if self.nbytes_ else 0

    def _fix_weakref(self) -> None:
        """Nothing: what a weak reference gives keeps the storage alive, as any other reference does."""

    def _write_file(self, file: Any, is_real_file: bool, save_size: bool, element_size: int) -> None:
        """Writes the bytes to an open file, the number of elements before them if told."""
        content = self.data.tobytes()
        if save_size:
            file.write((self.nbytes_ // element_size).to_bytes(8, "little"))
        file.write(content)


class UntypedStorage(StorageBase):
    """Bytes on the CPU."""

    __slots__ = ("fixed", "outgrown")
    fixed: bool  # set where others know of the memory
    outgrown: bool  # set where it is too small for some tensors, which follow once it has grown
    device: device = CPU
    is_sparse = is_sparse_csr = False
    filename = None
    dtype = uint8  # what the elements of a storage without a type count as

    def __new__(cls, *args: Any, device: Any = None) -> "UntypedStorage":
        kind = cls if device is None or cls is not UntypedStorage else _class_on(_device(device))
        return object.__new__(kind)

    @classmethod
    def of_array(cls, array: np.ndarray) -> "UntypedStorage":
        """The storage that begins at an array's first element and spans it."""
        made = object.__new__(cls)
        if array.flags.c_contiguous and array.dtype not in _NOT_EXPORTED:
            made.buffer, made.nbytes_ = array, array.nbytes
            return made
        if array.flags.c_contiguous:
            made.buffer = array.reshape(-1).view(np.uint8)
        else:
            span = 0 if 0 in array.shape else sum(s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True))
            count = span // array.itemsize + 1 if array.size else 0
            flat = np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))
            made.buffer = flat.view(np.uint8)
        made.nbytes_ = made.buffer.nbytes
        return made

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> "UntypedStorage":
        """The first bytes of a file, mapped: with `shared`, writes go to the file, which is made if need be."""
        name, mode = os.fspath(filename), "read-write" if shared else "read-only"
        try:
            file = os.open(name, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o600)
        except OSError as error:
            raise RuntimeError(
                f"unable to open file <{name}> in {mode} mode: {error.strerror} ({error.errno})"
            ) from None
        try:
            size = os.fstat(file).st_size
            if nbytes > size:
                if not shared:
                    raise RuntimeError(f"file <{name}> size <{size}> is smaller than the required mapping size "
                                       f"<{nbytes}>")
                os.truncate(file, nbytes)
            if not nbytes:
                return cls()
            mapped = MappedFile(file, nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
        finally:
            os.close(file)
        return cls.of_array(np.frombuffer(mapped, np.uint8))

    @staticmethod
    def from_buffer(buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0, *,
                    dtype: Any = uint8) -> "UntypedStorage":
        """A copy of the elements that lie in a buffer, in this machine's byte order."""
        elements = np.frombuffer(buffer, dtype.np, count, offset).copy()
        storage = UntypedStorage.of_array(elements.view(np.uint8))
        if byte_order == ("big" if np.little_endian else "little"):
            storage.byteswap(dtype)
        return storage

    def array(self, shape: tuple[int, ...], type: np.dtype, offset: int, strides: tuple[int, ...]) -> np.ndarray:  # noqa: A002
        """A strided array on these bytes; offset and strides in bytes."""
        try:
            return _ndarray(shape, type, self.buffer, offset, strides)
        except (ValueError, OverflowError):
            refuse_rank(shape)
            if 0 not in shape:
                if math.prod(shape) * type.itemsize >= 2**63:
                    raise RuntimeError("numel: integer multiplication overflow") from None
                self.refuse(shape, type, offset, strides)
            # An empty tensor may begin past the end of its memory. With no buffer at all NumPy would drop the strides.
            return _ndarray(shape, type, NO_BYTES, 0, strides)

    def laid_out_like(self, array: Any) -> Any:
        """What `laid_out` makes other arrays of that geometry from."""
        return Geometry(array.shape, array.dtype, array.strides)

    def laid_out(self, geometry: Any, offset: int) -> Any:
        """An array of a geometry on these bytes; the offset in bytes."""
        return self.array(geometry.shape, geometry.dtype, offset, geometry.strides)

    def refuse(self, shape: Sequence[int], type: np.dtype, offset: int, strides: Sequence[int]) -> NoReturn:  # noqa: A002
        """Raises for a geometry that reaches beyond these bytes; offset and strides in bytes."""
        width = type.itemsize
        needed = offset + width + sum(s * (n - 1) for s, n in zip(strides, shape, strict=True))
        refuse_reach(shape, [s // width for s in strides], offset // width, width, needed, self.nbytes_)

    def resize_(self, nbytes: int) -> "UntypedStorage":
        """Changes the size, keeping the bytes that fit; tensors follow to the new memory."""
        return self.grow(nbytes, 0)

    @allocates
    def grow(self, nbytes: int, holders: int) -> "UntypedStorage":
        """`resize_` for a caller that knows of so many references to the memory, and will move them itself."""
        if type(self) is not UntypedStorage:
            return self.resize_(nbytes)
        if not self.resizable():
            raise RuntimeError("Trying to resize storage that is not resizable")
        if nbytes != self.nbytes_:
            bytes_ = np.zeros(nbytes, np.uint8)
            keep = min(nbytes, self.nbytes_)
            bytes_[:keep] = self.data[:keep]
            self.move_to(bytes_, holders)
        return self

    def move_to(self, bytes_: np.ndarray, holders: int = 0) -> None:
        """Makes an array the memory of this storage and of the tensors on it, if there are more than `holders`."""
        old, start, end = self.buffer, self.data_ptr(), self.data_ptr() + self.nbytes_
        self.buffer, self.nbytes_ = bytes_, bytes_.nbytes
        outgrown = getattr(self, "outgrown", False)
        while start != end and not outgrown and sys.getrefcount(old) <= 2 + holders:
            if old.base.__class__ is not _ndarray:
                return
            old = old.base
        if start != end or outgrown:
            self.outgrown = follow_storage[0](self, start, end)

    def _swap_data_ptr_(self, other: "UntypedStorage") -> None:
        """Exchanges the bytes of two storages, and their sizes; each keeps its place in memory where it can."""
        if not isinstance(other, UntypedStorage):
            raise RuntimeError(f"_swap_data_ptr_ expects an UntypedStorage, but got {type(other).__name__}")
        if self.device != other.device:
            raise RuntimeError(f"_swap_data_ptr_: storages must be on the same device, got {self.device} and "
                               f"{other.device}")
        sizes = self.nbytes_, other.nbytes_
        if sizes[0] != sizes[1] and 0 not in sizes:
            raise RuntimeError("_swap_data_ptr_: storages must have the same nbytes or one must have 0, got "
                               f"{sizes[0]} and {sizes[1]}")
        before = self.clone()
        self.resize_(other.nbytes_).copy_(other)
        other.resize_(before.nbytes_).copy_(before)

    def resizable(self) -> bool:
        return not getattr(self, "fixed", False)

    def copy_(self, source: Any, non_blocking: bool | None = None) -> "UntypedStorage":
        self.data[:] = source.untyped().cpu().data
        return self

    @allocates
    def clone(self) -> "UntypedStorage":
        return UntypedStorage.of_array(self.data.copy())

    def __copy__(self) -> "UntypedStorage":
        return self.clone()

    def new(self) -> "UntypedStorage":
        return type(self)()

    def fill_(self, value: int) -> "UntypedStorage":
        self.data[:] = value
        return self

    def byteswap(self, dtype: Any) -> None:
        """Turns the bytes of each element around."""
        width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        if width > 1:
            self.data.view(f"u{width}").byteswap(inplace=True)

    def tolist(self) -> list[int]:
        return self.data.tolist()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise RuntimeError(f"Trying to slice with a step of {index.step}, but only a step of 1 is supported")
            return UntypedStorage.of_array(self.data[index])
        if not -self.nbytes_ <= index < self.nbytes_:
            raise IndexError(f"index {index} out of range for storage of size {self.nbytes_}")
        return int(self.data[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data[index] = value

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        lines = "".join(f" {v}\n" for v in self.tolist()[:1000])
        return f"{lines}[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes_}]"

    def __deepcopy__(self, memo: dict) -> "UntypedStorage":
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        return memo[id(self)]

    def __reduce__(self) -> tuple:
        return _storage_of_bytes, (self.data.tobytes(),)

    def untyped(self) -> "UntypedStorage":
        return self

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class; or the elements, bytes, in another type."""
        if dtype is None:
            place = "storage" if self.device.type == "cpu" else self.device.type
            return f"torch.{place}.UntypedStorage"
        return _converted(self, dtype)

    def to(self, *, device: Any, non_blocking: bool = False) -> "UntypedStorage":
        """These bytes on a device; the storage itself if they are there."""
        where = _device(device)
        if where.type == self.device.type and where.index in (None, self.device.index):
            return self
        return UntypedStorage(self.nbytes_, device=where).copy_(self)

    def cpu(self) -> "UntypedStorage":
        return self

    def cuda(self, device: Any = None, non_blocking: bool = False) -> "UntypedStorage":
        return self.to(device="cuda" if device is None else device)

    def get_device(self) -> int:
        return -1 if self.device.index is None else self.device.index

    is_cuda = property(lambda self: self.device.type == "cuda")

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def share_memory_(self) -> "UntypedStorage":
        """Moves the bytes to where other processes can see them."""
        if self.device is not CPU:
            raise RuntimeError("_share_fd_: only available on CPU")
        if not self.is_shared():
            shared = type(self)._new_shared(self.nbytes_)
            shared.data[...] = self.data
            self.move_to(shared.data)
        return self

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> "UntypedStorage":
        from .shared_memory import allocate

        return cls.of_array(allocate(max(size, 1)).array()[:size])

    def is_shared(self) -> bool:
        """Whether other processes can see writes to the bytes; said of all memory outside the host."""
        if self.device is not CPU:
            return self.device is not META
        from .shared_memory import SharedMemory, memory_under

        return isinstance(memory_under(self.buffer), (SharedMemory, MappedFile))


class MappedFile(mmap.mmap):
    """A file in memory."""


def _storage_of_bytes(data: bytes) -> UntypedStorage:
    return UntypedStorage.of_array(np.frombuffer(bytearray(data), np.uint8))


def _bytes_of_items(items: Any) -> np.ndarray:
    try:
        values = list(items)
    except TypeError:
        got = type(items).__name__
        raise RuntimeError(f"torch.UntypedStorage(): Expected a sequence type, but got {got}") from None
    for value in values:
        if not isinstance(value, int):
            raise RuntimeError(
                f"torch.UntypedStorage(): tried to construct a storage from a sequence ({type(items).__name__}), but "
                f"one of the items was of type {type(value).__name__} instead of int"
            )
    return np.array([value % 256 for value in values], np.uint8)


def refuse_reach(shape: Sequence[int], strides: Sequence[int], offset: int, itemsize: int, needed: int,
                 nbytes: int) -> NoReturn:
    """Raises for a geometry that reaches beyond its storage; offset and strides in elements."""
    raise RuntimeError(f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and "
                       f"itemsize {itemsize} requiring a storage size of {needed} are out of bounds for storage of "
                       f"size {nbytes}") from None


def refuse_rank(shape: Sequence[int]) -> None:
    """Raises for more dimensions than NumPy's arrays have."""
    if len(shape) > MOST_DIMS:
        raise RuntimeError(f"mindtorch_v2: a tensor in memory has at most {MOST_DIMS} dimensions, which is NumPy's "
                           f"limit, but {len(shape)} were asked for")


def _refuse_meta(*args: Any) -> Any:
    raise NotImplementedError("Not available for 'meta' device type")


class _AnyStorage(type):
    """The type of classes that are one class for programs: whatever the device, a storage is an UntypedStorage."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, UntypedStorage)


class MetaStorage(UntypedStorage, metaclass=_AnyStorage):
    """A size without bytes."""

    __slots__ = ()
    device = META

    def __init__(self, content: Any = 0, *, device: Any = None) -> None:
        self.buffer, self.nbytes_ = None, content if isinstance(content, int) else len(content)

    def array(self, shape: tuple[int, ...], type: np.dtype, offset: int, strides: tuple[int, ...]) -> Any:  # noqa: A002
        return MetaArray(shape, type, strides)

    @property
    def data(self) -> np.ndarray:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    __getitem__ = tolist = _refuse_meta

    def __setitem__(self, index: Any, value: Any) -> None:
        """Nothing: there is no byte to write."""

    def fill_(self, value: int) -> "UntypedStorage":
        return self

    def cpu(self) -> "UntypedStorage":
        return self.data  # type: ignore[return-value]  # which raises

    def share_memory_(self, *args: Any) -> "UntypedStorage":
        raise RuntimeError("_share_fd_: only available on CPU")

    _share_fd_cpu_ = _share_filename_cpu_ = share_memory_

    def data_ptr(self) -> int:
        return 0

    def resize_(self, nbytes: int) -> "UntypedStorage":
        self.nbytes_ = nbytes
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> "UntypedStorage":
        return self

    def clone(self) -> "UntypedStorage":
        return MetaStorage(self.nbytes_)

    def __repr__(self) -> str:
        return f"...\n[torch.storage.UntypedStorage(device=meta) of size {self.nbytes_}]"


def _class_on(where: _device) -> type[UntypedStorage]:
    """The class of the storages of a device."""
    from .._backends.interface import backend_of

    return backend_of(where.type).storage_class


class TypedStorage:
    """An untyped storage seen as elements of one type."""

    data_ptr: Callable[..., int]  # these are the untyped storage's
    get_device: Callable[[], int]
    is_pinned: Callable[..., bool]
    is_shared: Callable[[], bool]
    nbytes: Callable[[], int]
    is_sparse = False
    filename = None

    def __init__(self, *args: Any, wrap_storage: UntypedStorage | None = None, dtype: Any = None,
                 device: Any = None, _internal: bool = False) -> None:
        self.dtype = get_default_dtype() if dtype is None else dtype
        if not isinstance(self.dtype, _dtype):
            raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
        content = args[0] if args else 0
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
        elif isinstance(content, (int, np.integer)):
            self._untyped_storage = UntypedStorage(int(content) * self.dtype.itemsize, device=device)
        elif isinstance(content, (str, bytes)):
            raise TypeError(f"new(): invalid data type '{type(content).__name__}'")
        else:
            storage = UntypedStorage.of_array(np.array(list(content)).astype(_element_type(self.dtype)))
            self._untyped_storage = storage.to(device=CPU if device is None else device)

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    @property
    def data(self) -> np.ndarray:
        """The flat NumPy array of all elements; of a quantized type the integers that stand for them."""
        storage = self._untyped_storage
        return storage.data[: len(self) * self.dtype.itemsize].view(_element_type(self.dtype))

    @property
    def device(self) -> _device:
        return self._untyped_storage.device

    is_cuda = property(lambda self: self.device.type == "cuda")

    def untyped(self) -> UntypedStorage:
        return self._untyped_storage

    def _typed(self, storage: UntypedStorage) -> "TypedStorage":
        return self if storage is self._untyped_storage else TypedStorage(wrap_storage=storage, dtype=self.dtype)

    def __len__(self) -> int:
        return self._untyped_storage.nbytes_ // self.dtype.itemsize

    size = __len__

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def element_size(self) -> int:
        return self.dtype.itemsize

    def resizable(self) -> bool:
        return self._untyped_storage.resizable()

    def resize_(self, size: int) -> "TypedStorage":
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def tolist(self) -> list[Any]:
        return self.data.tolist() if self.device is not META else _refuse_meta()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self.data[index].item() if self.device is not META else _refuse_meta()

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.device is not META:
            self.data[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def copy_(self, source: "TypedStorage", non_blocking: bool | None = None) -> "TypedStorage":
        self.data[:] = source.data
        return self

    def clone(self) -> "TypedStorage":
        return self._typed(self._untyped_storage.clone())

    def cpu(self) -> "TypedStorage":
        return self._typed(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> "TypedStorage":
        return self.to(device="cuda" if device is None else device)

    def to(self, *, device: Any, non_blocking: bool = False) -> "TypedStorage":
        return self._typed(self._untyped_storage.to(device=device))

    def fill_(self, value: Any) -> "TypedStorage":
        self[:] = value
        return self

    def share_memory_(self) -> "TypedStorage":
        self._untyped_storage.share_memory_()
        return self

    def _new_shared(self, size: int, *, device: Any = "cpu") -> "TypedStorage":
        return self._typed(UntypedStorage._new_shared(size * self.dtype.itemsize))

    def pickle_storage_type(self) -> str:
        """The name of the old class of storages of this type, which files use."""
        name = LEGACY_NAMES.get(self.dtype)
        if name is None:
            raise KeyError(f"dtype {self.dtype} is not recognized")
        return name

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The old name of the class; or the elements in another type."""
        if dtype is None:
            place = "torch" if self.device.type == "cpu" else f"torch.{self.device.type}"
            return f"{place}.{self.pickle_storage_type()}"
        return _converted(self, dtype)

    def __deepcopy__(self, memo: dict) -> "TypedStorage":
        if id(self) not in memo:
            memo[id(self)] = self._typed(self._untyped_storage.__deepcopy__(memo))
        return memo[id(self)]

    def __repr__(self) -> str:
        lines = "...\n" if self.device is META else "".join(f" {v}\n" for v in self.tolist()[:1000])
        return f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


_dtype = dtype
_QUANTIZED = {"quint8": np.uint8, "qint8": np.int8, "qint32": np.int32, "quint4x2": np.uint8, "quint2x4": np.uint8}


def _element_type(kind: dtype) -> Any:
    return _QUANTIZED.get(kind.name) or kind.np


# The element types that had a storage class of their own; files name the type of a storage by it.
LEGACY_NAMES = {
    kind: f"{kind.scalar_name}Storage"
    for kind in (*OF_ARRAY.values(), *(NAMES[name] for name in _QUANTIZED))
    if kind.name not in ("uint16", "uint32", "uint64", "complex32") and kind not in FLOAT8
}


def _converted(storage: Any, kind: Any) -> TypedStorage:
    """The elements of a storage in another type, given as dtype or by the old name of its class."""
    if isinstance(kind, str):
        wanted = [d for d, name in LEGACY_NAMES.items() if kind in (name, f"torch.{name}")]
        if not wanted:
            raise ValueError(f"invalid type: '{kind}'")
        kind = wanted[0]
    if storage.__class__ is TypedStorage and storage.dtype is kind:
        return storage
    return TypedStorage(wrap_storage=UntypedStorage.of_array(storage.data.astype(kind.np)), dtype=kind)


def _conversion(kind: dtype) -> Callable:
    return lambda self: _converted(self, kind)


def _of_bytes(name: str) -> Callable:
    return lambda self, *args: getattr(self._untyped_storage, name)(*args)


for _name in ("_share_fd_cpu_", "_share_filename_cpu_", "data_ptr", "get_device", "is_pinned", "is_shared", "nbytes"):
    setattr(TypedStorage, _name, _of_bytes(_name))


_CONVERSIONS = {"byte": uint8, "char": NAMES["int8"], "bfloat16": bfloat16, "complex_float": complex64,
                "complex_double": complex128}
_CONVERSIONS |= {name: NAMES[name] for name in ("short", "int", "long", "half", "float", "double", "bool")}
for _name, _kind in _CONVERSIONS.items():
    for _class in (UntypedStorage, TypedStorage):
        setattr(_class, _name, _conversion(_kind))
