"""What the engines of CPUs share: tensors become arrays of one dimension, checks are made, works are queued.

A subclass moves arrays: `all_reduced`, `reduced`, `broadcasted`, `all_gathered`, `gathered`, `scattered`,
`reduce_scattered`, `all_to_alled`, `met`, `sent`, `received`.
"""

import zlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from ..._core.device import CPU, strided
from ..._core.tensor import Tensor
from ..._profile import recorder
from .. import _options as options
from .._debug import DebugLevel, get_debug_level
from .._errors import DistBackendError
from .._reductions import RedOpType, check_reduction, check_type, kind_of
from .._work import DoneWork, Lane, LaneWork, Work
from .interface import Engine

_BARRIER = 32_001  # the tag of messages of a monitored barrier
_NAMES = ("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all",
          "barrier")  # fmt: skip


def _elements(tensor: Tensor) -> np.ndarray:
    """The tensor's own memory; it is known outside from now on, so that it is not resized or given away."""
    if tensor._device is not CPU:
        raise RuntimeError(f"No backend type associated with device type {tensor._device.type}")
    if tensor.layout is not strided:
        raise RuntimeError(f"collectives take strided tensors, not {tensor.layout}")
    array = tensor._host_array("a collective")
    tensor._expose()
    if tensor._storage is None and tensor._base is None:
        tensor._borrowed = True
    return array


def flat(array: np.ndarray) -> np.ndarray:
    """The elements in a row: a view where there is one."""
    return array.reshape(-1) if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(-1)


class _Row:
    """An array seen as a row of elements, which are put back if they are a copy."""

    def __init__(self, array: np.ndarray, filled: bool = True) -> None:
        self.array = array
        self.row = flat(array) if filled or array.flags.c_contiguous else np.empty(array.size, array.dtype)

    def put_back(self) -> None:
        if not self.array.flags.c_contiguous:
            self.array[...] = self.row.reshape(self.array.shape)


def shown(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"


class HostEngine(Engine):
    """Checks, and works in a lane."""

    def __init__(self, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._timeout = timeout
        self._lane = Lane(f"collectives of rank {rank}")
        self._broken: Exception | None = None
        self._sequence = 0

    def shutdown(self) -> None:
        self._lane.close()

    # works -------------------------------------------------------------------------------------------------------

    def _submit(self, name: str, run: Callable[[], None], result: Sequence[Tensor], opts: Any, row: np.ndarray | None,
                extra: int = 0, shapes: Sequence[Tensor] = ()) -> Work:
        """A work that runs the function in its turn, at once if the caller waits for it anyway."""
        self._sequence += 1
        sequence = self._sequence

        def described() -> str:
            tensors = shapes or result
            sizes = "".join(f", TensorShape=[{', '.join(map(str, each.shape))}]" for each in tensors[:4])
            kinds = f", TensorDtypes={tensors[0].dtype.scalar_name}" if tensors else ""
            return (f"CollectiveFingerPrint(SequenceNumber={sequence}, OpType={name.replace('_', '').upper()}"
                    f"{sizes}{kinds}{f', Detail={extra}' if extra else ''})")

        mark = (_NAMES.index(name) + 1) << 56 | (extra & 0xFF) << 48
        if row is not None:
            mark |= (ord(row.dtype.kind) << 40 | row.itemsize << 36) ^ (row.size & 0xFFFFFFFFF)
        if get_debug_level() is DebugLevel.DETAIL:
            mark = zlib.crc32(described().encode()) << 8 | 1

        def in_turn() -> None:
            if self._broken is not None:
                raise self._broken
            self._begin(f"gloo:{name}", mark, described)
            try:
                run()
            except DistBackendError as error:
                self._broken = error
                raise
            except KeyboardInterrupt:
                self._broken = DistBackendError(f"[rank {self._rank}] gloo:{name} was interrupted")
                self._interrupted()
                raise

        current = recorder()
        if current is None:
            return self._asked_for(in_turn, result, name, opts)

        def recorded() -> None:
            with current.beside(f"gloo:{name}"):
                in_turn()

        operator = name.replace("_", "") + ("" if name == "barrier" else "_")
        entry = current.begin(f"c10d::{operator}", args=list(result))
        try:
            return self._asked_for(recorded, result, name, opts)
        finally:
            current.finish(entry)

    def _asked_for(self, function: Callable[[], None], result: Sequence[Tensor], name: str, opts: Any) -> Work:
        work = LaneWork(self._lane, function, result, f"gloo:{name}")
        if opts is not None and opts.asyncOp:
            self._lane.add(work, opts.lazily)
        else:
            self._lane.run_now(work)
        return work

    def _begin(self, name: str, mark: int, described: Callable[[], str]) -> None:
        """Called before each collective."""

    def _interrupted(self) -> None:
        """Called when the user has interrupted a collective."""

    # checks ------------------------------------------------------------------------------------------------------

    def _check_root(self, what: str, root: int) -> None:
        if not 0 <= root < self._size:
            raise RuntimeError(f"ProcessGroupGloo::{what}: invalid root rank: {root}")

    def _check_like(self, what: str, tensors: Sequence[Tensor], like: Tensor) -> None:
        for at, tensor in enumerate(tensors):
            if tensor.dtype is not like.dtype:
                raise RuntimeError(f"ProcessGroupGloo::{what}: invalid tensor type at index {at} (expected "
                                   f"{like.dtype}, got {tensor.dtype})")
            if tuple(tensor.shape) != tuple(like.shape):
                raise RuntimeError(f"ProcessGroupGloo::{what}: invalid tensor size at index {at} (expected "
                                   f"{shown(like.shape)}, got {shown(tensor.shape)})")

    def _check_list(self, what: str, side: str, tensors: Sequence[Tensor], like: Tensor) -> None:
        if len(tensors) != self._size:
            raise RuntimeError(f"ProcessGroupGloo::{what}: Incorrect {side} list size {len(tensors)}. "
                               f"{side.capitalize()} list size should be {self._size}, same as size of the process "
                               "group.")
        self._check_like(what, tensors, like)

    # collectives -------------------------------------------------------------------------------------------------

    def allreduce(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        return self._all_reduce(tensors, opts or options.AllreduceOptions())

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        return self._all_reduce(tensors, opts or options.AllreduceCoalescedOptions())

    def _all_reduce(self, tensors: Sequence[Tensor], opts: Any) -> Work:
        op = opts.reduceOp
        for tensor in tensors:
            check_reduction(tensor.dtype, op)
        if self._size == 1:
            return DoneWork(tensors)
        rows = [_Row(_elements(tensor)) for tensor in tensors]

        def run() -> None:
            for row in rows:
                self.all_reduced(row.row, op)
                self._finish(row.row, op)
                row.put_back()

        return self._submit("all_reduce", run, tensors, opts, rows[0].row, kind_of(op).value)

    def _finish(self, row: np.ndarray, op: Any) -> None:
        if kind_of(op) is RedOpType.AVG:
            np.divide(row, row.dtype.type(self._size), row)

    def reduce(self, tensors: Sequence[Tensor], opts: Any) -> Work:
        self._check_root("reduce", opts.rootRank)
        op, root = opts.reduceOp, opts.rootRank
        check_reduction(tensors[0].dtype, op)
        if self._size == 1:
            return DoneWork(tensors)
        row = _Row(_elements(tensors[0]))

        def run() -> None:
            self.reduced(row.row, root, op)
            if self._rank == root:
                self._finish(row.row, op)
                row.put_back()

        return self._submit("reduce", run, tensors, opts, row.row, kind_of(op).value)

    def broadcast(self, tensors: Sequence[Tensor], opts: Any) -> Work:
        root = opts.rootRank
        self._check_root("broadcast", root)
        check_type(tensors[0].dtype)
        if self._size == 1:
            return DoneWork(tensors)
        rows = [_Row(_elements(tensor), self._rank == root) for tensor in tensors]

        def run() -> None:
            for row in rows:
                self.broadcasted(row.row, root)
                if self._rank != root:
                    row.put_back()

        return self._submit("broadcast", run, tensors, opts, rows[0].row, root)

    def allgather(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any = None) -> Work:
        (given,), (into,) = inputs, outputs
        if len(into) != self._size:
            raise RuntimeError("ProcessGroupGloo::allgather: invalid output tensor list at index 0 (expected length "
                               f"{self._size}, got {len(into)})")
        self._check_like("allgather", into, given)
        return self._all_gather([_Row(_elements(each), False) for each in into], given, into, opts)

    def _all_gather(self, rows: list[_Row], given: Tensor, result: Sequence[Tensor], opts: Any) -> Work:
        check_type(given.dtype)
        source = flat(_elements(given))
        if self._size == 1:
            rows[0].row[...] = source
            rows[0].put_back()
            return DoneWork(result)

        def run() -> None:
            self.all_gathered([row.row for row in rows], source)
            for row in rows:
                row.put_back()

        return self._submit("all_gather", run, result, opts or options.AllgatherOptions(), source, 0, [given])

    def _allgather_base(self, output: Tensor, given: Tensor, opts: Any = None) -> Work:
        if output.dtype is not given.dtype:
            raise RuntimeError("ProcessGroupGloo::allgather: invalid tensor type at index 0 (expected "
                               f"{given.dtype}, got {output.dtype})")
        rows, trailing = list(output.shape), tuple(given.shape[1:])
        for at in range(self._size):
            piece = -(-rows[0] // self._size) if rows else 0
            held = min(piece, max(rows[0] - at * piece, 0)) if rows else 0
            expected = tuple(given.shape) if given.dim() else (1,)
            if (held, *rows[1:]) != expected or tuple(rows[1:]) != trailing:
                raise RuntimeError(f"ProcessGroupGloo::allgather: invalid tensor size at index {at} (expected "
                                   f"{shown(given.shape)}, got {shown((held, *rows[1:]))})")
        whole = _Row(_elements(output), False)
        pieces = [_Row(part) for part in np.split(whole.row, self._size)]

        def finish() -> None:
            whole.put_back()

        return self._all_gather_whole(pieces, whole, finish, given, output, opts)

    def _all_gather_whole(self, pieces: list[_Row], whole: _Row, finish: Callable[[], None], given: Tensor,
                          output: Tensor, opts: Any) -> Work:
        check_type(given.dtype)
        source = flat(_elements(given))
        if self._size == 1:
            pieces[0].row[...] = source
            finish()
            return DoneWork([output])

        def run() -> None:
            self.all_gathered([piece.row for piece in pieces], source)
            finish()

        return self._submit("all_gather", run, [output], opts or options.AllgatherOptions(), source, 0, [given])

    def allgather_coalesced(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor],
                            opts: Any = None) -> Work:
        """The works of all, as the last of them: they are done in order."""
        works = [self.allgather([[each[at] for each in outputs]], [given], opts) for at, given in enumerate(inputs)]
        return works[-1]

    def allgather_into_tensor_coalesced(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor],
                                        opts: Any = None) -> Work:
        return [self._allgather_base(output, given, opts) for output, given in zip(outputs, inputs, strict=True)][-1]

    def gather(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any) -> Work:
        root, (given,) = opts.rootRank, inputs
        self._check_root("gather", root)
        check_type(given.dtype)
        into = list(outputs[0]) if self._rank == root and outputs else []
        if self._rank == root:
            self._check_list("gather", "output", into, given)
        rows, source = [_Row(_elements(each), False) for each in into], flat(_elements(given))
        if self._size == 1:
            rows[0].row[...] = source
            rows[0].put_back()
            return DoneWork(into)

        def run() -> None:
            self.gathered([row.row for row in rows], source, root)
            for row in rows:
                row.put_back()

        return self._submit("gather", run, into, opts, source, root, [given])

    def scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any) -> Work:
        root, (output,) = opts.rootRank, outputs
        self._check_root("scatter", root)
        check_type(output.dtype)
        given = list(inputs[0]) if self._rank == root and inputs else []
        if self._rank == root:
            self._check_list("scatter", "input", given, output)
        row, sources = _Row(_elements(output), False), [flat(_elements(each)) for each in given]
        if self._size == 1:
            row.row[...] = sources[0]
            row.put_back()
            return DoneWork(outputs)

        def run() -> None:
            self.scattered(row.row, sources, root)
            row.put_back()

        return self._submit("scatter", run, outputs, opts, row.row, root)

    def reduce_scatter(self, outputs: Sequence[Tensor], inputs: Sequence[Sequence[Tensor]], opts: Any) -> Work:
        (output,), (given,) = outputs, inputs
        if len(given) != self._size:
            raise RuntimeError("invalid input tensor list size, must be world size")
        for each in given:
            if tuple(each.shape) != tuple(output.shape):
                raise RuntimeError(f"reduce_scatter: an input has the shape {shown(each.shape)}, the output "
                                   f"{shown(output.shape)}")
        return self._reduce_scatter(output, [flat(_elements(each)) for each in given], opts)

    def _reduce_scatter(self, output: Tensor, sources: list[np.ndarray], opts: Any) -> Work:
        op = opts.reduceOp
        check_reduction(output.dtype, op)
        row = _Row(_elements(output), False)
        if self._size == 1:
            row.row[...] = sources[0]
            row.put_back()
            return DoneWork([output])

        def run() -> None:
            self.reduce_scattered(row.row, sources, op)
            self._finish(row.row, op)
            row.put_back()

        return self._submit("reduce_scatter", run, [output], opts, row.row, kind_of(op).value)

    def _reduce_scatter_base(self, output: Tensor, given: Tensor, opts: Any = None) -> Work:
        if output.numel() * self._size != given.numel():
            raise RuntimeError(f"reduce_scatter_tensor: the input has {given.numel()} elements, which are not "
                               f"{self._size} times the {output.numel()} of the output")
        sources = np.split(flat(_elements(given)), self._size)
        return self._reduce_scatter(output, sources, opts or options.ReduceScatterOptions())

    def reduce_scatter_tensor_coalesced(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor],
                                        opts: Any = None) -> Work:
        return [self._reduce_scatter_base(output, given, opts)
                for output, given in zip(outputs, inputs, strict=True)][-1]

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None) -> Work:
        for side, tensors in (("input", inputs), ("output", outputs)):
            if len(tensors) != self._size:
                raise RuntimeError(f"ProcessGroupGloo::alltoall: {side} tensor list size {len(tensors)} does not match "
                                   f"world size {self._size}")
        check_type(inputs[0].dtype)
        rows = [_Row(_elements(each), False) for each in outputs]
        return self._all_to_all(rows, [flat(_elements(each)) for each in inputs], outputs, opts)

    def _all_to_all(self, rows: list[_Row], sources: list[np.ndarray], result: Sequence[Tensor], opts: Any) -> Work:
        if self._size == 1:
            rows[0].row[...] = sources[0]
            rows[0].put_back()
            return DoneWork(result)

        def run() -> None:
            self.all_to_alled([row.row for row in rows], sources)
            for row in rows:
                row.put_back()

        mark = np.empty(0, sources[0].dtype)
        return self._submit("all_to_all", run, result, opts or options.AllToAllOptions(), mark)

    def alltoall_base(self, output: Tensor, given: Tensor, output_splits: Sequence[int], input_splits: Sequence[int],
                      opts: Any = None) -> Work:
        check_type(given.dtype)
        if not output.is_contiguous() or not given.is_contiguous():
            raise RuntimeError("Tensors must be contiguous")
        sources = self._split(_elements(given), input_splits)
        rows = [_Row(part) for part in self._split(_elements(output), output_splits)]
        return self._all_to_all(rows, sources, [output], opts)

    def _split(self, array: np.ndarray, splits: Sequence[int]) -> list[np.ndarray]:
        """The pieces of an array along its first dimension, as rows of elements."""
        length = array.shape[0] if array.ndim else 1
        if not splits:
            if length % self._size:
                raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
            splits = [length // self._size] * self._size
        if len(splits) != self._size:
            raise RuntimeError("Number of tensor splits not equal to group size")
        if sum(splits) != length:
            raise RuntimeError("Split sizes doesn't match total dim 0 size")
        width = array.size // length if length else 0
        ends = np.cumsum([0, *splits]) * width
        row = array.reshape(-1)
        return [row[a:b] for a, b in zip(ends, ends[1:])]

    def barrier(self, opts: Any = None) -> Work:
        if self._size == 1:
            return DoneWork()
        return self._submit("barrier", self.met, [], opts or options.BarrierOptions(), None)

    # messages ----------------------------------------------------------------------------------------------------

    def _message(self, tensors: Sequence[Tensor]) -> np.ndarray:
        if len(tensors) != 1:
            raise RuntimeError("ProcessGroupGloo::send takes a single tensor")
        array = _elements(tensors[0])
        if not array.flags.c_contiguous:
            raise RuntimeError("input tensor has to be contiguous")
        return array.reshape(-1).view(np.uint8)

    def _check_other(self, rank: int) -> None:
        if not 0 <= rank < self._size or rank == self._rank:
            raise RuntimeError(f"rank {self._rank} of {self._size} cannot exchange messages with rank {rank}")

    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int = 0, now: bool = False) -> Work:
        self._check_other(dstRank)
        return self.sent(self._message(tensors), dstRank, tag, [], now)

    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int = 0, now: bool = False) -> Work:
        self._check_other(srcRank)
        return self.received(self._message(tensors), srcRank, tag, list(tensors), now)

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0, now: bool = False) -> Work:
        if self._size == 1:
            raise RuntimeError("a group of one process has nobody to receive from")
        return self.received(self._message(tensors), None, tag, list(tensors), now)

    def monitored_barrier(self, timeout: timedelta, wait_all_ranks: bool = False) -> None:
        if self._size > 1:
            self.met_within(timeout, wait_all_ranks)

    def met_within(self, timeout: timedelta, wait_all_ranks: bool) -> None:
        """A barrier of which rank 0 says who did not come in time."""
        empty = np.empty(0, np.uint8)
        if self._rank:
            self.sent(empty, 0, _BARRIER, [], True).wait(timeout)
            self.received(empty, 0, _BARRIER, [], True).wait(timeout)
            return
        works = {rank: self.received(empty, rank, _BARRIER, [], True) for rank in range(1, self._size)}
        late = []
        for rank, work in works.items():
            try:
                work.wait(timeout)
            except RuntimeError as error:
                late.append(rank)
                reason = error
                if not wait_all_ranks:
                    break
        if late:
            raise RuntimeError(_late(late, wait_all_ranks, timeout)) from reason
        for rank in works:
            self.sent(empty, rank, _BARRIER, [], True).wait(timeout)

    # what a subclass does ----------------------------------------------------------------------------------------

    def all_reduced(self, array: np.ndarray, op: Any) -> None:
        raise NotImplementedError

    def reduced(self, array: np.ndarray, root: int, op: Any) -> None:
        raise NotImplementedError

    def broadcasted(self, array: np.ndarray, root: int) -> None:
        raise NotImplementedError

    def all_gathered(self, outputs: Sequence[np.ndarray], given: np.ndarray) -> None:
        raise NotImplementedError

    def gathered(self, outputs: Sequence[np.ndarray], given: np.ndarray, root: int | None) -> None:
        raise NotImplementedError

    def scattered(self, output: np.ndarray, inputs: Sequence[np.ndarray], root: int) -> None:
        raise NotImplementedError

    def reduce_scattered(self, output: np.ndarray, inputs: Sequence[np.ndarray], op: Any) -> None:
        raise NotImplementedError

    def all_to_alled(self, outputs: Sequence[np.ndarray], inputs: Sequence[np.ndarray]) -> None:
        raise NotImplementedError

    def met(self) -> None:
        raise NotImplementedError

    def sent(self, data: np.ndarray, to: int, tag: int, result: list, now: bool) -> Work:
        raise NotImplementedError

    def received(self, data: np.ndarray, source: int | None, tag: int, result: list, now: bool) -> Work:
        raise NotImplementedError


def _late(ranks: list[int], all_of_them: bool, timeout: timedelta) -> str:
    milliseconds = round(timeout.total_seconds() * 1000)
    if all_of_them:
        names = ", ".join(map(str, ranks))
        return f"[Rank 0]: Ranks {names} failed to pass monitoredBarrier in {milliseconds} ms"
    return f"[Rank 0]: Rank {ranks[0]} failed to pass monitoredBarrier in {milliseconds} ms"
