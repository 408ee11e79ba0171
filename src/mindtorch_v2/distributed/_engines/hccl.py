"""HCCL, for Ascend NPUs: collectives through CANN's C interface."""

import ctypes
from typing import Any

from ..._backends.npu import hccl as library
from ..._backends.npu.libraries import library_folders
from ..._core.tensor import Tensor
from .._errors import DistBackendError
from .._reductions import RedOpType, kind_of
from .device import DeviceEngine

_OPERATIONS = {RedOpType.SUM: library.SUM, RedOpType.AVG: library.SUM, RedOpType.PREMUL_SUM: library.SUM,
               RedOpType.PRODUCT: library.PROD, RedOpType.MAX: library.MAX, RedOpType.MIN: library.MIN}  # fmt: skip
_loaded: list[dict[str, Any]] = []


def _functions() -> dict[str, Any]:
    """HCCL's functions, of the toolkit that the backend found."""
    if not _loaded:
        import os

        for folder in library_folders(os.environ):
            if (folder / library.LIBRARY).is_file():
                _loaded.append(library.bind(ctypes.CDLL(str(folder / library.LIBRARY))))
                break
        else:
            raise DistBackendError(f"{library.LIBRARY} is in none of CANN's folders: HCCL comes with the toolkit")
    return _loaded[0]


def _call(name: str, *arguments: Any) -> None:
    functions = _functions()
    code = functions[name](*arguments)
    if code:
        text = functions["HcclGetErrorString"](code)
        raise DistBackendError(f"{name} failed with {code} ({(text or b'').decode(errors='replace')})")


def _sized(tensor: Tensor) -> tuple[int, int, int]:
    """Address, number of elements and type of a tensor, as HCCL takes them."""
    kind = library.DATA_TYPES.get(tensor.dtype.np)
    if kind is None:
        raise ValueError(f"Unsupported data type {tensor.dtype} for HCCL process group")
    return tensor.data_ptr(), tensor.numel(), kind


def _operation(op: Any) -> int:
    what = kind_of(op)
    if what not in _OPERATIONS:
        raise RuntimeError(f"Cannot use ReduceOp.{what.name} with HCCL")
    return _OPERATIONS[what]


class HcclEngine(DeviceEngine):
    """Collectives of HCCL."""

    kind = "npu"

    def name(self) -> str:
        return "hccl"

    def new_name(self) -> bytes:
        info = ctypes.create_string_buffer(library.ROOT_INFO_BYTES)
        _call("HcclGetRootInfo", ctypes.cast(info, ctypes.c_void_p))
        return info.raw

    def connected(self, name: bytes) -> Any:
        info, comm = ctypes.create_string_buffer(name, library.ROOT_INFO_BYTES), ctypes.c_void_p()
        _call("HcclCommInitRootInfo", self._size, ctypes.cast(info, ctypes.c_void_p), self._rank, ctypes.byref(comm))
        return comm

    def disconnected(self, comm: Any) -> None:
        _call("HcclCommDestroy", comm)

    def handle_of(self, stream: Any) -> int:
        return stream.npu_stream

    def call_all_reduce(self, comm: Any, given: Tensor, output: Tensor, op: Any, stream: int) -> None:
        address, count, kind = _sized(given)
        _call("HcclAllReduce", address, output.data_ptr(), count, kind, _operation(op), comm, stream)

    def call_reduce(self, comm: Any, tensor: Tensor, root: int, op: Any, stream: int) -> None:
        address, count, kind = _sized(tensor)
        _call("HcclReduce", address, address, count, kind, _operation(op), root, comm, stream)

    def call_broadcast(self, comm: Any, tensor: Tensor, root: int, stream: int) -> None:
        _call("HcclBroadcast", *_sized(tensor), root, comm, stream)

    def call_all_gather(self, comm: Any, given: Tensor, output: Tensor, stream: int) -> None:
        address, count, kind = _sized(given)
        _call("HcclAllGather", address, output.data_ptr(), count, kind, comm, stream)

    def call_reduce_scatter(self, comm: Any, given: Tensor, output: Tensor, op: Any, stream: int) -> None:
        address, count, kind = _sized(output)
        _call("HcclReduceScatter", given.data_ptr(), address, count, kind, _operation(op), comm, stream)

    def call_exchange(self, comm: Any, sent: dict[int, Tensor], received: dict[int, Tensor], stream: int) -> None:
        """In rounds, in each of which two ranks talk: the lower one sends first, so that none waits for the other."""
        for other in sorted({*sent, *received}):
            steps = [("HcclSend", sent.get(other)), ("HcclRecv", received.get(other))]
            for name, tensor in steps if self._rank < other else reversed(steps):
                if tensor is not None:
                    _call(name, *_sized(tensor), other, comm, stream)
