"""HCCL between simulated machines: each process of a group has one, and a group over shared memory is their wire."""

import ctypes
import os
import tempfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from .machine import Fault, Machine, Queue, _store

_TIMEOUT = timedelta(seconds=90)


class Communicator:
    """A rank of a group, and its end of the wire."""

    def __init__(self, path: str, rank: int, size: int) -> None:
        from mindtorch_v2.distributed import FileStore
        from mindtorch_v2.distributed._engines.embedded import EmbeddedEngine

        self.path, self.rank, self.size = path, rank, size
        self.wire = EmbeddedEngine(FileStore(path, size), rank, size, _TIMEOUT)

    def close(self) -> None:
        self.wire.shutdown()
        if self.rank == 0 and os.path.exists(self.path):
            os.unlink(self.path)


def _operations() -> list[Any]:
    from mindtorch_v2.distributed._reductions import RedOpType

    return [RedOpType.SUM, RedOpType.PRODUCT, RedOpType.MAX, RedOpType.MIN]


def _types() -> dict[int, np.dtype]:
    from mindtorch_v2._backends.npu.hccl import DATA_TYPES

    return {code: kind for kind, code in DATA_TYPES.items() if kind != np.dtype(bool)}


class Collectives(Machine):
    """HCCL's functions by their C names. A collective runs when it is asked for, after what its stream has to do: all
    ranks ask in the same order, while their streams may be synchronised in any."""

    def HcclGetRootInfo(self, info: int) -> None:
        file, path = tempfile.mkstemp(prefix="hccl-")
        os.close(file)
        os.unlink(path)
        ctypes.memmove(info, path.encode() + b"\0", len(path) + 1)

    def HcclCommInitRootInfo(self, size: int, info: int, rank: int, out: int) -> None:
        self.device()
        path = ctypes.string_at(info).decode()
        _store(out, ctypes.c_uint64, self.new_handle("communicator", Communicator(path, rank, size)))

    def HcclCommDestroy(self, comm: int | None) -> None:
        self.destroy("communicator", comm).close()

    def HcclGetErrorString(self, code: int) -> int:
        self.message = ctypes.create_string_buffer(self.recent.encode())
        return ctypes.addressof(self.message)

    def _collective(self, comm: int | None, stream: int | None, run: Callable[[Communicator, Queue], None]) -> None:
        group, queue = self.object("communicator", comm), self.queue(stream)
        if queue.captured is not None:
            raise Fault(107000, "a graph of the simulator holds no collectives")
        group.wire._begin("hccl", 1, lambda: "a collective of HCCL")
        self.enqueue(queue, lambda: run(group, queue))
        queue.run()
        self._report(queue)

    def _array(self, queue: Queue, address: int, count: int, code: int) -> np.ndarray:
        kind = _types()[code]
        return self.device_bytes(address, count * kind.itemsize, queue.device).view(kind)

    def HcclAllReduce(self, given: int, out: int, count: int, kind: int, op: int, comm: int, stream: int) -> None:
        def run(group: Communicator, queue: Queue) -> None:
            result = self._array(queue, out, count, kind)
            result[...] = self._array(queue, given, count, kind)
            group.wire.all_reduced(result, _operations()[op])

        self._collective(comm, stream, run)

    def HcclReduce(self, given: int, out: int, count: int, kind: int, op: int, root: int, comm: int,
                   stream: int) -> None:  # fmt: skip
        def run(group: Communicator, queue: Queue) -> None:
            total = self._array(queue, given, count, kind).copy()
            group.wire.reduced(total, root, _operations()[op])
            if group.rank == root:
                self._array(queue, out, count, kind)[...] = total

        self._collective(comm, stream, run)

    def HcclBroadcast(self, buffer: int, count: int, kind: int, root: int, comm: int, stream: int) -> None:
        self._collective(comm, stream, lambda group, queue: group.wire.broadcasted(
            self._array(queue, buffer, count, kind), root))

    def HcclAllGather(self, given: int, out: int, count: int, kind: int, comm: int, stream: int) -> None:
        def run(group: Communicator, queue: Queue) -> None:
            parts = np.split(self._array(queue, out, count * group.size, kind), group.size)
            group.wire.all_gathered(parts, self._array(queue, given, count, kind))

        self._collective(comm, stream, run)

    def HcclReduceScatter(self, given: int, out: int, count: int, kind: int, op: int, comm: int, stream: int) -> None:
        def run(group: Communicator, queue: Queue) -> None:
            parts = np.split(self._array(queue, given, count * group.size, kind), group.size)
            group.wire.reduce_scattered(self._array(queue, out, count, kind), parts, _operations()[op])

        self._collective(comm, stream, run)

    def HcclSend(self, buffer: int, count: int, kind: int, to: int, comm: int, stream: int) -> None:
        self._collective(comm, stream, lambda group, queue: group.wire.sent(
            self._array(queue, buffer, count, kind).view(np.uint8), to, 0, [], True).wait(_TIMEOUT))

    def HcclRecv(self, buffer: int, count: int, kind: int, source: int, comm: int, stream: int) -> None:
        self._collective(comm, stream, lambda group, queue: group.wire.received(
            self._array(queue, buffer, count, kind).view(np.uint8), source, 0, [], True).wait(_TIMEOUT))
