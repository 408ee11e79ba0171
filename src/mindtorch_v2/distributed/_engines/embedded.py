"""The embedded engine: collectives of the processes of one host, over shared memory. Programs know it as `gloo`.

All collectives are made of steps. In a step every rank writes into its slot, posts the step's number, and reads the
slots of others once they have posted it too. Slots are used in turns, two of them a rank: who has posted a step has
read all that was written two steps before. Long arrays go in chunks that stay in the processor's cache.
"""

import atexit
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from .._reductions import combined
from .._stores import Store
from .host import HostEngine
from .mail import ANY, Mail, MailWork, mail_bytes
from .segment import MARK, OTHER_MARK, STEP, TEXT, Segment

CHUNK = 1 << 19  # bytes that a rank writes in a step
DIRECT = 1 << 16  # arrays up to this size are reduced by every rank for itself, as are all between two ranks


class EmbeddedEngine(HostEngine):
    """Collectives over shared memory."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size, timeout)
        self._step = 0
        self._segment: Any = None
        if size == 1:
            return
        slots = size * 2 * 2 * CHUNK
        self._segment = segment = Segment(store, rank, size, slots + mail_bytes(size), timeout)
        self._slots = segment.data[:slots].reshape(size, 2, 2 * CHUNK)
        self._mail = Mail(segment, segment.data[slots : slots + mail_bytes(size)])
        self._leave = weakref.finalize(self, Segment.leave, segment)
        self._leave.atexit = False
        atexit.register(self._leave)

    def name(self) -> str:
        return "gloo"

    def _set_default_timeout(self, timeout: timedelta) -> None:
        super()._set_default_timeout(timeout)
        if self._segment is not None:
            self._segment.timeout = timeout

    def shutdown(self) -> None:
        super().shutdown()
        if self._segment is not None:
            self._mail.close()
            self._leave()
            atexit.unregister(self._leave)

    # steps -------------------------------------------------------------------------------------------------------

    def _begin(self, name: str, mark: int, described: Callable[[], str]) -> None:
        """What a collective is goes with its first step, and is compared with what the others do."""
        self._name, self._mark, self._described, self._unchecked = name, mark, described, True

    def _interrupted(self) -> None:
        if self._segment is not None:
            self._segment.fail(self._rank, f"{self._name}: rank {self._rank} was interrupted")

    def _own_slot(self, kind: np.dtype) -> np.ndarray:
        """Where this rank writes in the step that comes."""
        return self._slots[self._rank, (self._step + 1) & 1].view(kind)

    def _slot(self, rank: int, kind: np.dtype) -> np.ndarray:
        """What a rank wrote in the last step."""
        return self._slots[rank, self._step & 1].view(kind)

    def _post(self) -> None:
        """Ends writing: comes back when all have."""
        segment, self._step = self._segment, self._step + 1
        step = self._step
        segment.check_alarm(self._name)
        if self._unchecked:
            segment.put(OTHER_MARK if step & 1 else MARK, self._mark)
        segment.fence()
        segment.put(STEP, step)
        segment.ring(segment.others)
        segment.await_posts(STEP, step, segment.others, self._name)
        segment.fence()
        if self._unchecked:
            self._unchecked = False
            self._compare_marks(step)

    def _compare_marks(self, step: int) -> None:
        segment, field = self._segment, OTHER_MARK if step & 1 else MARK
        differing = [rank for rank in segment.others if segment.get(rank, field) != self._mark]
        if not differing:
            return
        segment.say(self._described(), TEXT)
        segment.put(STEP, step + 1)  # the words are there
        segment.ring(segment.others)
        segment.await_posts(STEP, step + 1, differing[:1], self._name)
        rank = differing[0]
        other = segment.said(rank, TEXT)
        raise segment.fail(rank, "Detected mismatch between collectives on ranks. Rank "
                                 f"{self._rank} is running collective: {self._described()}, but Rank {rank} is running "
                                 f"collective: {other}.")

    # collectives over contiguous arrays of one dimension -----------------------------------------------------------

    def all_reduced(self, array: np.ndarray, op: Any) -> None:
        """Puts the joined values into the array."""
        join = combined(op)
        if self._size == 2 or array.nbytes <= DIRECT:
            for chunk in _chunks(array, CHUNK // array.itemsize):
                self._own_slot(array.dtype)[: chunk.size] = chunk
                self._post()
                self._fold(chunk, 0, chunk.size, join)
            return
        count = max(CHUNK // array.itemsize // self._size, 1) * self._size
        results = CHUNK // array.itemsize + self._size  # where in a slot the results of the last chunk are
        chunks = -(-array.size // count)
        for k in range(chunks + 1):
            slot = self._own_slot(array.dtype)
            if k < chunks:
                chunk = array[k * count : (k + 1) * count]
                for each in self._segment.others:
                    start, end = self._share(chunk.size, each)
                    slot[start:end] = chunk[start:end]
            before = array[max(k - 1, 0) * count : k * count]
            start, end = self._share(before.size, self._rank)
            if k > 0:
                self._fold(before[start:end], start, end, join)
                slot[results : results + end - start] = before[start:end]
            self._post()
            for each in self._segment.others:
                start, end = self._share(before.size, each)
                before[start:end] = self._slot(each, array.dtype)[results : results + end - start]

    def _share(self, size: int, rank: int) -> tuple[int, int]:
        """The part of a chunk that a rank reduces."""
        return size * rank // self._size, size * (rank + 1) // self._size

    def _fold(self, own: np.ndarray, start: int, end: int, join: Callable) -> None:
        """Joins a part of all slots of this step with this rank's own values, in the order of ranks."""
        kind = own.dtype
        if self._size == 2:
            join(own, self._slot(1 - self._rank, kind)[start:end], own)
            return
        parts = [own if rank == self._rank else self._slot(rank, kind)[start:end] for rank in range(self._size)]
        total = join(parts[0], parts[1])
        for part in parts[2:]:
            join(total, part, total)
        own[...] = total

    def reduced(self, array: np.ndarray, root: int, op: Any) -> None:
        join, count = combined(op), CHUNK // array.itemsize
        for chunk in _chunks(array, count):
            if self._rank != root:
                self._own_slot(array.dtype)[: chunk.size] = chunk
            self._post()
            if self._rank == root:
                self._fold(chunk, 0, chunk.size, join)

    def broadcasted(self, array: np.ndarray, root: int) -> None:
        for chunk in _chunks(array, CHUNK // array.itemsize):
            if self._rank == root:
                self._own_slot(array.dtype)[: chunk.size] = chunk
            self._post()
            if self._rank != root:
                chunk[...] = self._slot(root, array.dtype)[: chunk.size]

    def all_gathered(self, outputs: Sequence[np.ndarray], given: np.ndarray) -> None:
        self.gathered(outputs, given, None)

    def gathered(self, outputs: Sequence[np.ndarray], given: np.ndarray, root: int | None) -> None:
        """Puts everyone's array into `outputs`, of the root or of all."""
        reads = root is None or root == self._rank
        if reads:
            outputs[self._rank][...] = given
        count = CHUNK // given.itemsize
        for at, chunk in enumerate(_chunks(given, count)):
            if root is None or self._rank != root:
                self._own_slot(given.dtype)[: chunk.size] = chunk
            self._post()
            if reads:
                for rank in self._segment.others:
                    outputs[rank][at * count : at * count + chunk.size] = self._slot(rank, given.dtype)[: chunk.size]

    def scattered(self, output: np.ndarray, inputs: Sequence[np.ndarray], root: int) -> None:
        count = max(CHUNK // output.itemsize // self._size, 1)
        for at, chunk in enumerate(_chunks(output, count)):
            if self._rank == root:
                slot = self._own_slot(output.dtype)
                for rank, each in enumerate(inputs):
                    slot[rank * count : rank * count + chunk.size] = each[at * count : at * count + chunk.size]
            self._post()
            start = self._rank * count
            chunk[...] = self._slot(root, output.dtype)[start : start + chunk.size]

    def reduce_scattered(self, output: np.ndarray, inputs: Sequence[np.ndarray], op: Any) -> None:
        join, count = combined(op), max(CHUNK // output.itemsize // self._size, 1)
        for at, chunk in enumerate(_chunks(output, count)):
            slot = self._own_slot(output.dtype)
            part = slice(at * count, at * count + chunk.size)
            for rank in self._segment.others:
                slot[rank * count : rank * count + chunk.size] = inputs[rank][part]
            self._post()
            chunk[...] = inputs[self._rank][part]
            start = self._rank * count
            self._fold(chunk, start, start + chunk.size, join)

    def all_to_alled(self, outputs: Sequence[np.ndarray], inputs: Sequence[np.ndarray]) -> None:
        """Sends a piece to each rank; pieces may have different lengths."""
        lengths = [np.empty(self._size, np.int64) for _ in range(self._size)]
        self.all_gathered(lengths, np.array([each.size for each in inputs], np.int64))
        for rank, length in enumerate(lengths):
            if length[self._rank] != outputs[rank].size:
                raise self._segment.fail(rank, f"{self._name}: rank {rank} sends {length[self._rank]} elements to rank "
                                               f"{self._rank}, which expects {outputs[rank].size}")
        outputs[self._rank][...] = inputs[self._rank]
        count = max(CHUNK // inputs[0].itemsize // self._size, 1)
        longest = max(int(length.max()) for length in lengths)
        for start in range(0, longest, count):
            slot = self._own_slot(inputs[0].dtype)
            for rank in self._segment.others:
                piece = inputs[rank][start : start + count]
                slot[rank * count : rank * count + piece.size] = piece
            self._post()
            for rank in self._segment.others:
                piece = outputs[rank][start : start + count]
                at = self._rank * count
                piece[...] = self._slot(rank, piece.dtype)[at : at + piece.size]

    def met(self) -> None:
        self._post()

    # messages ----------------------------------------------------------------------------------------------------

    def _mail_work(self, begin: Callable[[Any], None], result: list, name: str, now: bool) -> MailWork:
        work = MailWork(self._mail, lambda: None, result, f"{self.name()}:{name}")
        begin(work)
        if not now and not work._done:
            self._mail.in_background()
        return work

    def sent(self, data: np.ndarray, to: int, tag: int, result: list, now: bool) -> MailWork:
        return self._mail_work(lambda work: self._mail.send(work, data, to, tag), result, "send", now)

    def received(self, data: np.ndarray, source: int | None, tag: int, result: list, now: bool) -> MailWork:
        wanted = ANY if source is None else source
        return self._mail_work(lambda work: self._mail.receive(work, data, wanted, tag), result, "recv", now)


def _chunks(array: np.ndarray, count: int) -> list[np.ndarray]:
    """The parts of an array; one, if it is empty, so that all ranks take a step."""
    return [array[at : at + count] for at in range(0, max(array.size, 1), count)]
