"""Messages from one rank to another: a ring of bytes in shared memory for each ordered pair of ranks.

A message is its tag and length, then its bytes, through the ring in as many pieces as it takes. A message that comes
before somebody wants it is kept until then, so that those behind it get through.
"""

import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from .._work import LaneWork
from .segment import Segment

RING = 1 << 18  # bytes on their way from one rank to another
HEADER = 128  # of a ring: how many bytes were written and, on another line of the cache, read
_LABEL = struct.Struct("<qq")
ANY = -1


def mail_bytes(size: int) -> int:
    """How much memory the rings of a group take."""
    return size * size * (RING + HEADER)


class _Sending:
    def __init__(self, work: LaneWork, data: np.ndarray, tag: int) -> None:
        label = np.frombuffer(_LABEL.pack(tag, data.size), np.uint8)
        self.work, self.parts = work, deque([label, data])


class _Receiving:
    def __init__(self, work: LaneWork, data: np.ndarray, source: int, tag: int) -> None:
        self.work, self.data, self.source, self.tag = work, data, source, tag


class _Inbox:
    """What comes from one rank: messages that nobody asked for yet, and the one that is arriving."""

    def __init__(self) -> None:
        self.kept: deque[tuple[int, np.ndarray]] = deque()
        self.label = bytearray()
        self.tag = 0
        self.target: np.ndarray | None = None  # of the arriving message
        self.filled = 0
        self.receiver: _Receiving | None = None


class Mail:
    """The messages of a rank."""

    def __init__(self, segment: Segment, memory: np.ndarray) -> None:
        self._segment, self._lock = segment, threading.Lock()
        size = segment.size
        self._rings = memory.reshape(size, size, RING + HEADER)
        self._counts = {(a, b): memoryview(self._rings[a, b, :HEADER]).cast("q")  # type: ignore[arg-type]
                        for a in range(size) for b in range(size) if segment.rank in (a, b)}
        self._sending: dict[int, deque[_Sending]] = {each: deque() for each in segment.others}
        self._inboxes = {each: _Inbox() for each in segment.others}
        self._receiving: list[_Receiving] = []
        self._thread: threading.Thread | None = None
        self._wanted = threading.Condition()
        self._closed = False

    # asking ------------------------------------------------------------------------------------------------------

    def send(self, work: LaneWork, data: np.ndarray, to: int, tag: int) -> None:
        """Has the bytes sent."""
        with self._lock:
            self._sending[to].append(_Sending(work, data, tag))
        self._tell(self._move())

    def receive(self, work: LaneWork, data: np.ndarray, source: int, tag: int) -> None:
        """Has the next message with the tag put into `data`, from a rank or from any."""
        wanted = _Receiving(work, data, source, tag)
        with self._lock:
            found = self._take_kept(wanted)
            if not found:
                self._receiving.append(wanted)
        self._tell([work] if found else self._move())

    def _take_kept(self, wanted: _Receiving) -> bool:
        for source in self._sources(wanted.source):
            kept = self._inboxes[source].kept
            for at, (tag, data) in enumerate(kept):
                if tag == wanted.tag:
                    del kept[at]
                    self._deliver(wanted, source, data)
                    return True
        return False

    def _sources(self, source: int) -> list[int]:
        return self._segment.others if source == ANY else [source]

    def _deliver(self, wanted: _Receiving, source: int, data: np.ndarray) -> None:
        def finish() -> int:
            _check_length(wanted, source, data.size)
            wanted.data[: data.size] = data
            return source

        wanted.work._function = finish
        wanted.work.run()

    def in_background(self) -> None:
        """Has a thread see to what is not done yet."""
        with self._wanted:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="mail", daemon=True)
                self._thread.start()
            self._wanted.notify()

    def until_done(self, work: LaneWork, seconds: float | None) -> None:
        """Moves bytes until a work is done."""
        timeout = None if seconds is None else timedelta(seconds=seconds)

        def done() -> bool:
            if not work._done:
                self._tell(self._move())
            return work._done

        try:
            self._segment.await_that(done, self._partners(work), work.name, timeout)
        except Exception as error:
            self._drop(work, error)
            raise

    def _partners(self, work: LaneWork) -> list[int]:
        """Who has to act for a work to be done; all, if any of them may."""
        with self._lock:
            for rank, queue in self._sending.items():
                if any(each.work is work for each in queue):
                    return [rank]
            for wanted in self._receiving:
                if wanted.work is work and wanted.source != ANY:
                    return [wanted.source]
        return self._segment.others

    def _drop(self, work: LaneWork, error: Exception) -> None:
        with self._lock:
            self._receiving = [each for each in self._receiving if each.work is not work]
            for queue in self._sending.values():
                for each in [each for each in queue if each.work is work]:
                    queue.remove(each)
            if not work._done:
                work._error, work._done = error, True

    def _serve(self) -> None:
        while True:
            with self._wanted:
                self._wanted.wait_for(lambda: self._closed or self._open_works())
                if self._closed:
                    return
            for work in self._open_works()[:1]:
                try:
                    self.until_done(work, None)
                except Exception:  # it is the work's, and raised where that is waited for
                    work.tell()

    def _open_works(self) -> list[LaneWork]:
        with self._lock:
            return [each.work for queue in self._sending.values() for each in queue] + [
                each.work for each in self._receiving]

    def close(self) -> None:
        with self._wanted:
            self._closed = True
            self._wanted.notify()

    # moving ------------------------------------------------------------------------------------------------------

    def _tell(self, done: list[LaneWork]) -> None:
        for work in done:
            work.tell()

    def _move(self) -> list[LaneWork]:
        """Moves as many bytes as there is room for; gives the works that are done by it."""
        done: list[LaneWork] = []
        # If another thread is at it, what that has moved counts too: a message may be the last of a rank that has left.
        with self._lock:
            moved = [rank for rank, queue in self._sending.items() if queue and self._push(rank, queue, done)]
            moved += [rank for rank, inbox in self._inboxes.items() if self._pull(rank, inbox, done)]
        if moved:
            self._segment.ring(moved)
        return done

    def _push(self, to: int, queue: deque[_Sending], done: list[LaneWork]) -> bool:
        counts = self._counts[self._segment.rank, to]
        ring = self._rings[self._segment.rank, to, HEADER:]
        moved = False
        while queue:
            sending = queue[0]
            while sending.parts:
                written = counts[0]
                room = min(RING - (written - counts[8]), RING - written % RING, sending.parts[0].size)
                if room == 0 and sending.parts[0].size:
                    return moved
                at = written % RING
                ring[at : at + room] = sending.parts[0][:room]
                self._segment.fence()
                counts[0] = written + room
                rest = sending.parts[0][room:]
                if rest.size:
                    sending.parts[0] = rest
                else:
                    sending.parts.popleft()
                moved = True
            queue.popleft()
            sending.work.run()
            done.append(sending.work)
        return moved

    def _pull(self, source: int, inbox: _Inbox, done: list[LaneWork]) -> bool:
        counts = self._counts[source, self._segment.rank]
        ring = self._rings[source, self._segment.rank, HEADER:]
        moved = False
        while True:
            read = counts[8]
            ready = min(counts[0] - read, RING - read % RING)
            if inbox.target is None:
                if ready == 0:
                    return moved
                ready = min(ready, _LABEL.size - len(inbox.label))
                at = read % RING
                inbox.label += ring[at : at + ready].tobytes()
                counts[8] = read + ready
                if len(inbox.label) == _LABEL.size:
                    self._begin(source, inbox)
            else:
                left = inbox.target.size - inbox.filled
                if ready == 0 and left:
                    return moved
                ready = min(ready, left)
                at = read % RING
                inbox.target[inbox.filled : inbox.filled + ready] = ring[at : at + ready]
                self._segment.fence()
                counts[8] = read + ready
                inbox.filled += ready
                if inbox.filled == inbox.target.size:
                    self._end(source, inbox, done)
            moved = True

    def _begin(self, source: int, inbox: _Inbox) -> None:
        """Finds who wants the message that begins."""
        inbox.tag, length = _LABEL.unpack(inbox.label)
        inbox.label.clear()
        inbox.filled, inbox.receiver = 0, None
        for wanted in self._receiving:
            if wanted.tag == inbox.tag and wanted.source in (source, ANY):
                self._receiving.remove(wanted)
                inbox.receiver = wanted
                if length == wanted.data.size:
                    inbox.target = wanted.data
                    return
                break
        inbox.target = np.empty(length, np.uint8)

    def _end(self, source: int, inbox: _Inbox, done: list[LaneWork]) -> None:
        target, wanted = inbox.target, inbox.receiver
        inbox.target, inbox.receiver = None, None
        assert target is not None
        if wanted is None:
            for late in self._receiving:
                if late.tag == inbox.tag and late.source in (source, ANY):
                    self._receiving.remove(late)
                    wanted = late
                    break
        if wanted is None:
            inbox.kept.append((inbox.tag, target))
            return
        if target is wanted.data:
            wanted.work._function = lambda: source
            wanted.work.run()
        else:
            self._deliver(wanted, source, target)
        done.append(wanted.work)


def _check_length(wanted: Any, source: int, length: int) -> None:
    if length != wanted.data.size:
        raise RuntimeError(f"received a message of {length} bytes from rank {source} into a tensor of "
                           f"{wanted.data.size} bytes")


class MailWork(LaneWork):
    """A message under way."""

    def __init__(self, mail: Mail, function: Callable[[], Any], result: list, name: str) -> None:
        super().__init__(mail, function, result, name)  # type: ignore[arg-type]
        self.began = time.monotonic()
