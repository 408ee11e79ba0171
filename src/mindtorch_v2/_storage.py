"""Buffers that tensors share."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._backends.meta import MetaArray
from ._device import CPU, META, device
from ._dtype import bfloat16, dtype, float8_e4m3fn, float8_e5m2, float32

_ndarray = np.ndarray
_NO_BYTES = np.empty(0, np.uint8)
_NOT_EXPORTED = frozenset((bfloat16.np, float8_e4m3fn.np, float8_e5m2.np))  # no code in the buffer protocol


class UntypedStorage:
    """Bytes on the CPU. `buffer` is any C-contiguous array over them; arrays of tensors are made on it."""

    __slots__ = ("__weakref__", "buffer", "nbytes_")
    device: device = CPU

    def __init__(self, nbytes: int = 0, *, device: Any = None) -> None:
        self.buffer: Any = np.zeros(nbytes, np.uint8)
        self.nbytes_ = nbytes

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

    def array(self, shape: tuple[int, ...], type: np.dtype, offset: int, strides: tuple[int, ...]) -> np.ndarray:  # noqa: A002
        """A strided array on these bytes; offset and strides in bytes."""
        try:
            return _ndarray(shape, type, self.buffer, offset, strides)
        except ValueError:
            if 0 not in shape:
                raise
            # An empty tensor may begin past the end of its memory. With no buffer at all NumPy would drop the strides.
            return _ndarray(shape, type, _NO_BYTES, 0, strides)

    @property
    def data(self) -> np.ndarray:
        """The bytes as a flat array."""
        return _ndarray((self.nbytes_,), np.uint8, self.buffer)

    def nbytes(self) -> int:
        return self.nbytes_

    size = nbytes
    __len__ = nbytes

    def data_ptr(self) -> int:
        return self.buffer.__array_interface__["data"][0] if self.nbytes_ else 0

    def resize_(self, nbytes: int) -> "UntypedStorage":
        """Changes the size, keeping the bytes that fit. Tensors made before keep the old memory."""
        bytes_ = np.zeros(nbytes, np.uint8)
        keep = min(nbytes, self.nbytes_)
        bytes_[:keep] = self.data[:keep]
        self.buffer, self.nbytes_ = bytes_, nbytes
        return self

    def copy_(self, source: "UntypedStorage", non_blocking: bool | None = None) -> "UntypedStorage":
        self.data[:] = source.data
        return self

    def clone(self) -> "UntypedStorage":
        return UntypedStorage.of_array(self.data.copy())

    def fill_(self, value: int) -> "UntypedStorage":
        self.data[:] = value
        return self

    def tolist(self) -> list[int]:
        return self.data.tolist()

    def __getitem__(self, index: Any) -> Any:
        item = self.data[index]
        return UntypedStorage.of_array(item) if isinstance(index, slice) else int(item)

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

    def cpu(self) -> "UntypedStorage":
        return self

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def is_shared(self) -> bool:
        return False

    is_cuda = is_sparse = False
    filename = None


def _storage_of_bytes(data: bytes) -> UntypedStorage:
    return UntypedStorage.of_array(np.frombuffer(bytearray(data), np.uint8))


class MetaStorage(UntypedStorage):
    """A size without bytes."""

    __slots__ = ()
    device = META

    def __init__(self, nbytes: int = 0, *, device: Any = None) -> None:
        self.buffer, self.nbytes_ = None, nbytes

    def array(self, shape: tuple[int, ...], type: np.dtype, offset: int, strides: tuple[int, ...]) -> Any:  # noqa: A002
        return MetaArray(shape, type, strides)

    @property
    def data(self) -> np.ndarray:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    def data_ptr(self) -> int:
        return 0

    def resize_(self, nbytes: int) -> "UntypedStorage":
        self.nbytes_ = nbytes
        return self

    def clone(self) -> "UntypedStorage":
        return MetaStorage(self.nbytes_)


class TypedStorage:
    """An untyped storage seen as elements of one type."""

    def __init__(self, *args: Any, wrap_storage: UntypedStorage | None = None, dtype: dtype = float32,
                 device: Any = None, _internal: bool = False) -> None:
        size = args[0] if args else 0
        self._untyped_storage = UntypedStorage(size * dtype.itemsize) if wrap_storage is None else wrap_storage
        self.dtype = dtype

    @property
    def data(self) -> np.ndarray:
        """The flat NumPy array of all elements."""
        storage = self._untyped_storage
        return storage.data[: len(self) * self.dtype.itemsize].view(self.dtype.np)

    @property
    def device(self) -> device:
        return self._untyped_storage.device

    def untyped(self) -> UntypedStorage:
        return self._untyped_storage

    def __len__(self) -> int:
        return self._untyped_storage.nbytes_ // self.dtype.itemsize

    size = __len__

    def nbytes(self) -> int:
        return self._untyped_storage.nbytes_

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def resize_(self, size: int) -> "TypedStorage":
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def tolist(self) -> list[Any]:
        return self.data.tolist()

    def __getitem__(self, index: Any) -> Any:
        item = self.data[index]
        if isinstance(index, slice):
            return TypedStorage(wrap_storage=UntypedStorage.of_array(item), dtype=self.dtype)
        return item.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def copy_(self, source: "TypedStorage", non_blocking: bool | None = None) -> "TypedStorage":
        self.data[:] = source.data
        return self

    def clone(self) -> "TypedStorage":
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def fill_(self, value: Any) -> "TypedStorage":
        self.data[:] = value
        return self

    def __repr__(self) -> str:
        lines = "".join(f" {v}\n" for v in self.tolist()[:1000])
        return f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


