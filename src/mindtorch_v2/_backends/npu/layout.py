"""What CANN must know of an array except its address, made once for each geometry."""

import ctypes
from typing import Any

import numpy as np

from ..._core.device import device
from ..._core.geometry import contiguous_strides
from .facts import DATA_TYPES, FORMATS, ND

_LIMIT = 1 << 14  # layouts kept; a program with ever new shapes must not grow for ever


class Layout:
    """Geometry of an array in its storage, compared by identity, with the arguments of aclCreateTensor ready.

    A view is told to CANN as the whole storage (one dimension), an offset and strides: the address must stay aligned to
    32 bytes, so the offset may not be folded into it.
    """

    __slots__ = ("_kept", "arguments", "contiguous", "device", "dtype", "nbytes", "shape", "storage_bytes", "strides")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, offset: int,
                 storage_bytes: int, where: device) -> None:  # fmt: skip
        self.shape, self.strides, self.dtype, self.device = shape, strides, dtype, where
        self.storage_bytes = storage_bytes
        spanned = sum([s * (n - 1) for s, n in zip(strides, shape, strict=True)]) + dtype.itemsize
        self.nbytes = 0 if 0 in shape else spanned  # from the first element to the end of the last one
        self.contiguous = not self.nbytes or strides == contiguous_strides(shape, dtype.itemsize)
        code = DATA_TYPES.get(dtype)
        if code is None:
            raise NotImplementedError(f"device 'npu' has no element type {dtype}")
        ndim, itemsize = len(shape), dtype.itemsize
        dims = (ctypes.c_int64 * (2 * ndim + 1))(*shape, *(s // itemsize for s in strides), storage_bytes // itemsize)
        self._kept = dims  # the addresses below point into it
        begin = ctypes.addressof(dims)
        self.arguments: tuple[Any, ...] = (begin, ndim, code, begin + 8 * ndim, offset // itemsize,
                                           FORMATS.get(ndim, ND), begin + 16 * ndim, 1)  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


_layouts: dict[tuple, Layout] = {}
_contiguous: dict[tuple, Layout] = {}


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, offset: int, storage_bytes: int,
              where: device) -> Layout:  # fmt: skip
    """The one layout of these properties."""
    key = (shape, strides, dtype, offset, storage_bytes, where.index)
    made = _layouts.get(key)
    if made is None:
        if len(_layouts) >= _LIMIT:
            _layouts.clear()
            _contiguous.clear()
        made = _layouts[key] = Layout(shape, strides, dtype, offset, storage_bytes, where)
    return made


def contiguous_layout(shape: tuple[int, ...], dtype: np.dtype, where: device) -> Layout:
    """The layout of a fresh array."""
    key = (shape, dtype, where.index)
    made = _contiguous.get(key)
    if made is None:
        strides = contiguous_strides(shape, dtype.itemsize)
        nbytes = strides[0] * shape[0] if shape else dtype.itemsize
        made = layout_of(shape, strides, dtype, 0, 0 if 0 in shape else nbytes, where)
        _contiguous[key] = made
    return made
