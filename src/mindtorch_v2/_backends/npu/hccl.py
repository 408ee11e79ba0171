"""HCCL, the collectives of CANN: its signatures. The distributed layer binds them when there is one."""

import ctypes
from ctypes import c_char_p, c_int32, c_uint32, c_uint64
from typing import Any

import numpy as np

from ..._core.dtype import bfloat16, float8_e4m3fn, float8_e5m2
from .facts import POINTER

LIBRARY = "libhccl.so"
ROOT_INFO_BYTES = 4108
SUM, PROD, MAX, MIN = range(4)  # there is no mean: sum, then divide
_comm = _stream = _buffer = POINTER
_count, _rank, _dtype, _operation = c_uint64, c_uint32, c_int32, c_int32

# All return an HcclResult (0 is success) but HcclGetErrorString.
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "HcclGetRootInfo": (POINTER,),
    "HcclCommInitRootInfo": (c_uint32, POINTER, _rank, ctypes.POINTER(_comm)),
    "HcclCommInitClusterInfo": (c_char_p, _rank, ctypes.POINTER(_comm)),
    "HcclCommInitAll": (c_uint32, ctypes.POINTER(c_int32), ctypes.POINTER(_comm)),
    "HcclCommDestroy": (_comm,),
    "HcclGetRankSize": (_comm, ctypes.POINTER(c_uint32)),
    "HcclGetRankId": (_comm, ctypes.POINTER(c_uint32)),
    "HcclGetCommName": (_comm, c_char_p),
    "HcclGetCommAsyncError": (_comm, ctypes.POINTER(c_int32)),
    "HcclAllReduce": (_buffer, _buffer, _count, _dtype, _operation, _comm, _stream),
    "HcclBroadcast": (_buffer, _count, _dtype, _rank, _comm, _stream),
    "HcclAllGather": (_buffer, _buffer, _count, _dtype, _comm, _stream),
    "HcclReduceScatter": (_buffer, _buffer, _count, _dtype, _operation, _comm, _stream),
    "HcclReduce": (_buffer, _buffer, _count, _dtype, _operation, _rank, _comm, _stream),
    "HcclScatter": (_buffer, _buffer, _count, _dtype, _rank, _comm, _stream),
    "HcclSend": (_buffer, _count, _dtype, _rank, _comm, _stream),
    "HcclRecv": (_buffer, _count, _dtype, _rank, _comm, _stream),
    "HcclAlltoAll": (_buffer, _count, _dtype, _buffer, _count, _dtype, _comm, _stream),
    "HcclAlltoAllV": (_buffer, POINTER, POINTER, _dtype, _buffer, POINTER, POINTER, _dtype, _comm, _stream),
    "HcclBarrier": (_comm, _stream),
}

# HcclDataType, which is not aclDataType. There is no bool: it travels as uint8.
DATA_TYPES: dict[np.dtype, int] = {
    np.dtype(kind): code for kind, code in (
        (np.int8, 0), (np.int16, 1), (np.int32, 2), (np.float16, 3), (np.float32, 4), (np.int64, 5), (np.uint64, 6),
        (np.uint8, 7), (np.bool_, 7), (np.uint16, 8), (np.uint32, 9), (np.float64, 10), (bfloat16.np, 11),
        (float8_e4m3fn.np, 15), (float8_e5m2.np, 16))
}  # fmt: skip


def bind(library: ctypes.CDLL) -> dict[str, Any]:
    """The functions of a loaded libhccl.so by name, typed."""
    functions = {}
    for name, parameters in PROTOTYPES.items():
        functions[name] = function = getattr(library, name)
        function.restype, function.argtypes = c_int32, parameters
    functions["HcclGetErrorString"] = text = library.HcclGetErrorString
    text.restype, text.argtypes = c_char_p, (c_int32,)
    return functions
