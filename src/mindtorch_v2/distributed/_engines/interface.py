"""What an engine implements: one method a collective, each of which gives a `Work`."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

from ..._core.tensor import Tensor
from .._work import Work

__all__ = ["Engine"]


class Engine:
    """The processes of one group on one kind of device. Programs that bring an engine of their own derive from it."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size
        self._timeout = timedelta(minutes=30)

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def name(self) -> str:
        return type(self).__name__.lower()

    getBackendName = name
    supports_splitting = False
    supports_coalescing = False

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    def shutdown(self) -> None:
        """Ends what runs in the background."""

    def abort(self) -> None:
        self.shutdown()

    def _absent(self, what: str) -> NoReturn:
        raise RuntimeError(f"Backend {self.name()} does not support {what}")

    def allreduce(self, tensors: Sequence[Tensor], opts: Any) -> Work:
        self._absent("allreduce")

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any) -> Work:
        self._absent("allreduce_coalesced")

    def reduce(self, tensors: Sequence[Tensor], opts: Any) -> Work:
        self._absent("reduce")

    def broadcast(self, tensors: Sequence[Tensor], opts: Any) -> Work:
        self._absent("broadcast")

    def allgather(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any) -> Work:
        self._absent("allgather")

    def _allgather_base(self, output: Tensor, given: Tensor, opts: Any) -> Work:
        self._absent("_allgather_base")

    def allgather_coalesced(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any) -> Work:
        self._absent("allgather_coalesced")

    def allgather_into_tensor_coalesced(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any) -> Work:
        self._absent("allgather_into_tensor_coalesced")

    def gather(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any) -> Work:
        self._absent("gather")

    def scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any) -> Work:
        self._absent("scatter")

    def reduce_scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any) -> Work:
        self._absent("reduce_scatter")

    def _reduce_scatter_base(self, output: Tensor, given: Tensor, opts: Any) -> Work:
        self._absent("_reduce_scatter_base")

    def reduce_scatter_tensor_coalesced(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any) -> Work:
        self._absent("reduce_scatter_tensor_coalesced")

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any) -> Work:
        self._absent("alltoall")

    def alltoall_base(self, output: Tensor, given: Tensor, output_splits: Sequence[int], input_splits: Sequence[int],
                      opts: Any) -> Work:
        self._absent("alltoall_base")

    def barrier(self, opts: Any = None) -> Work:
        self._absent("barrier")

    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int) -> Work:
        self._absent("send")

    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int) -> Work:
        self._absent("recv")

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int) -> Work:
        self._absent("recvAnysource")

    def monitored_barrier(self, timeout: timedelta, wait_all_ranks: bool) -> None:
        self._absent("monitoredBarrier")
