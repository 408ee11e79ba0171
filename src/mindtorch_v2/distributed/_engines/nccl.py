"""NCCL, for NVIDIA GPUs: collectives through CuPy's binding."""

import json
from typing import Any

from ..._core.tensor import Tensor
from .._reductions import RedOpType, kind_of
from .device import DeviceEngine


def is_here() -> bool:
    """Whether CuPy was built with NCCL."""
    try:
        from cupy.cuda import nccl
    except ImportError:
        return False
    return bool(getattr(nccl, "available", True))


def _nccl() -> Any:
    from cupy.cuda import nccl

    return nccl


# by the name of a type: NCCL's name of it, and how many of it an element is
_TYPES = {
    "uint8": ("UINT8", 1), "int8": ("INT8", 1), "int32": ("INT32", 1), "int64": ("INT64", 1), "bool": ("UINT8", 1),
    "float16": ("FLOAT16", 1), "float32": ("FLOAT32", 1), "float64": ("FLOAT64", 1), "bfloat16": ("BFLOAT16", 1),
    "complex64": ("FLOAT32", 2), "complex128": ("FLOAT64", 2), "float8_e4m3fn": ("UINT8", 1),
    "float8_e5m2": ("UINT8", 1),
}  # fmt: skip
_OPERATIONS = {RedOpType.SUM: "SUM", RedOpType.AVG: "SUM", RedOpType.PREMUL_SUM: "SUM", RedOpType.PRODUCT: "PROD",
               RedOpType.MIN: "MIN", RedOpType.MAX: "MAX"}  # fmt: skip


def _sized(tensor: Tensor) -> tuple[int, int, int]:
    """Address, number of elements and type of a tensor, as NCCL takes them."""
    if tensor.dtype.name not in _TYPES:
        raise ValueError(f"Unsupported data type {tensor.dtype} for NCCL process group")
    name, parts = _TYPES[tensor.dtype.name]
    return tensor.data_ptr(), tensor.numel() * parts, getattr(_nccl(), f"NCCL_{name}")


def _operation(tensor: Tensor, op: Any) -> int:
    what = kind_of(op)
    if what not in _OPERATIONS:
        raise RuntimeError(f"Cannot use ReduceOp.{what.name} with NCCL")
    if tensor.dtype.name == "bool":
        if what is RedOpType.AVG:
            raise RuntimeError("Cannot use ReduceOp.AVG with boolean inputs")
        return _nccl().NCCL_MIN if what in (RedOpType.PRODUCT, RedOpType.MIN) else _nccl().NCCL_MAX
    return getattr(_nccl(), f"NCCL_{_OPERATIONS[what]}")


class NcclEngine(DeviceEngine):
    """Collectives of NCCL."""

    kind = "cuda"

    def name(self) -> str:
        return "nccl"

    def new_name(self) -> bytes:
        made = _nccl().get_unique_id()  # bytes; numbers before CuPy 14
        return json.dumps([isinstance(made, bytes), list(made)]).encode()

    def connected(self, name: bytes) -> Any:
        in_bytes, numbers = json.loads(name)
        return _nccl().NcclCommunicator(self._size, bytes(numbers) if in_bytes else tuple(numbers), self._rank)

    def disconnected(self, comm: Any) -> None:
        comm.destroy()

    def abort(self) -> None:
        for comm in self._comms.values():
            comm.abort()
        self._comms.clear()

    def handle_of(self, stream: Any) -> int:
        return stream.cuda_stream

    def call_all_reduce(self, comm: Any, given: Tensor, output: Tensor, op: Any, stream: int) -> None:
        address, count, kind = _sized(given)
        comm.allReduce(address, output.data_ptr(), count, kind, _operation(given, op), stream)

    def call_reduce(self, comm: Any, tensor: Tensor, root: int, op: Any, stream: int) -> None:
        address, count, kind = _sized(tensor)
        comm.reduce(address, address, count, kind, _operation(tensor, op), root, stream)

    def call_broadcast(self, comm: Any, tensor: Tensor, root: int, stream: int) -> None:
        address, count, kind = _sized(tensor)
        comm.broadcast(address, address, count, kind, root, stream)

    def call_all_gather(self, comm: Any, given: Tensor, output: Tensor, stream: int) -> None:
        address, count, kind = _sized(given)
        comm.allGather(address, output.data_ptr(), count, kind, stream)

    def call_reduce_scatter(self, comm: Any, given: Tensor, output: Tensor, op: Any, stream: int) -> None:
        address, count, kind = _sized(output)
        comm.reduceScatter(given.data_ptr(), address, count, kind, _operation(output, op), stream)

    def call_exchange(self, comm: Any, sent: dict[int, Tensor], received: dict[int, Tensor], stream: int) -> None:
        if not sent and not received:
            return
        nccl = _nccl()
        nccl.groupStart()
        for to, tensor in sent.items():
            comm.send(*_sized(tensor), to, stream)
        for source, tensor in received.items():
            comm.recv(*_sized(tensor), source, stream)
        nccl.groupEnd()

    supports_coalescing = True

    def _start_coalescing(self) -> None:
        """Sends and receives that follow are queued together."""
        _nccl().groupStart()

    def _end_coalescing(self) -> Any:
        _nccl().groupEnd()
        return self._pending[-1]
