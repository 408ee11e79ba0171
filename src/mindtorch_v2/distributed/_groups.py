"""Groups of processes, the work they do together, and the engine of a group of one.

A `ProcessGroup` knows its ranks and has one method a collective; each gives a `Work`. `SingleProcessGroup` is the one
that runs: with nobody to talk to, a collective is a copy. An engine for several processes is another subclass.
"""

import enum
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .. import no_grad
from .._compat.absent import refuse
from .._core.dtype import COMPLEX, FLOAT
from .._core.tensor import Tensor
from ..futures import Future
from ._stores import ONE_PROCESS, Store

default_pg_timeout = timedelta(minutes=30)


class ReduceOp:
    """How values of several processes are joined."""

    class RedOpType(enum.Enum):
        SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = RedOpType


_OF_BITS = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def supports_complex(reduceOp: Any) -> bool:
    return reduceOp not in (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, *_OF_BITS)


class Work:
    """A collective under way: here one that is done."""

    def __init__(self, result: Sequence[Tensor] = (), source_rank: int = -1) -> None:
        self._result, self._source_rank = list(result), source_rank

    def wait(self, timeout: timedelta | None = None) -> bool:
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        """What went wrong: nothing."""

    def result(self) -> list[Tensor]:
        return self._result

    def source_rank(self) -> int:
        return self._source_rank

    def get_future(self) -> Future:
        future: Future = Future()
        future.set_result(self._result)
        return future


class ProcessGroup:
    """Processes that work together; each has a rank in it."""

    def __init__(self, rank: int, ranks: Sequence[int], backend: str, store: Store, name: str) -> None:
        self._rank, self._ranks, self._backend, self.store = rank, list(ranks), backend, store
        self.group_name, self.bound_device_id = name, None
        self.group_desc = "default_pg" if name == "0" else "undefined"

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return len(self._ranks)

    def name(self) -> str:
        return self._backend

    _get_backend_name = name

    def __repr__(self) -> str:
        return f"<torch.distributed.distributed_c10d.ProcessGroup {self.group_name} of {self.size()}>"

    def _refuse(self, what: str) -> Any:
        return refuse(f"torch.distributed.{what} between processes", ONE_PROCESS)


class SingleProcessGroup(ProcessGroup):
    """A group of one: what it sends is what it receives."""

    def _check_root(self, what: str, root: int) -> None:
        if root != 0:
            raise RuntimeError(f"ProcessGroupGloo::{what}: invalid root rank: {root}")

    def _check_sizes(self, what: str, outputs: Sequence[Tensor], like: Tensor, *, number: int = 1) -> None:
        if len(outputs) != number:
            raise RuntimeError(f"ProcessGroupGloo::{what}: invalid output tensor list at index 0 (expected length "
                               f"{number}, got {len(outputs)})")
        for output in outputs:
            if tuple(output.shape) != tuple(like.shape):
                raise RuntimeError(f"ProcessGroupGloo::{what}: invalid tensor size at index 0 (expected "
                                   f"{_shown(like.shape)}, got {_shown(output.shape)})")

    def _check_reduction(self, tensor: Tensor, op: Any) -> None:
        if op in _OF_BITS and tensor.dtype.category >= FLOAT:
            raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")
        if op is ReduceOp.AVG and tensor.dtype.category < FLOAT:
            raise RuntimeError(f"result type Float can't be cast to the desired output type {tensor.dtype.scalar_name}")

    @no_grad()
    def _copied(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Work:
        for output, given in zip(outputs, inputs, strict=True):
            output.copy_(given)
        return Work(outputs)

    def allreduce(self, tensors: Sequence[Tensor], op: Any = ReduceOp.SUM) -> Work:
        for tensor in tensors:
            self._check_reduction(tensor, op)
        return Work(tensors)

    def reduce(self, tensors: Sequence[Tensor], root: int, op: Any = ReduceOp.SUM) -> Work:
        self._check_root("reduce", root)
        return self.allreduce(tensors, op)

    def broadcast(self, tensors: Sequence[Tensor], root: int) -> Work:
        self._check_root("broadcast", root)
        return Work(tensors)

    def allgather(self, outputs: Sequence[Tensor], given: Tensor) -> Work:
        self._check_sizes("allgather", outputs, given)
        return self._copied(outputs, [given])

    def gather(self, outputs: Sequence[Tensor], given: Tensor, root: int) -> Work:
        self._check_root("gather", root)
        self._check_sizes("gather", outputs, given)
        return self._copied(outputs, [given])

    def scatter(self, output: Tensor, given: Sequence[Tensor], root: int) -> Work:
        self._check_root("scatter", root)
        self._check_sizes("scatter", given, output)
        return self._copied([output], given)

    def reduce_scatter(self, output: Tensor, given: Sequence[Tensor], op: Any = ReduceOp.SUM) -> Work:
        self._check_reduction(output, op)
        self._check_sizes("reduce_scatter", given, output)
        return self._copied([output], given)

    def alltoall(self, outputs: Sequence[Tensor], given: Sequence[Tensor]) -> Work:
        for output, each in zip(outputs, given, strict=True):
            self._check_sizes("alltoall", [output], each)
        return self._copied(outputs, given)

    def barrier(self) -> Work:
        return Work()

    def send(self, tensor: Tensor, to: int, tag: int = 0) -> Work:
        return self._refuse("send")

    def recv(self, tensor: Tensor, source: int | None, tag: int = 0) -> Work:
        return self._refuse("recv")


def _shown(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"


def check_complex(tensor: Tensor, op: Any, function: str) -> None:
    if tensor.dtype.category == COMPLEX and not supports_complex(op):
        raise ValueError(f"{function} does not support {op} on complex tensors")
