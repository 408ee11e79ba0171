"""Work: a collective under way; and lanes, in which works are done one after another."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from .._core.tensor import Tensor
from ..futures import Future

__all__ = ["DoneWork", "FutureWork", "Lane", "LaneWork", "Work"]


class Work:
    """A collective under way. A subclass says how it is waited for."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        raise NotImplementedError(f"{type(self).__name__}.wait()")

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self.get_future().done()

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """What went wrong."""
        return None

    def result(self) -> list[Tensor]:
        raise NotImplementedError(f"{type(self).__name__}.result()")

    def source_rank(self) -> int:
        raise RuntimeError("sourceRank() may only be called on work objects that correspond to a recv or "
                           "recv-from-any call.")

    _source_rank = source_rank

    def get_future(self) -> Future:
        raise NotImplementedError(f"{type(self).__name__}.get_future()")

    def block_current_stream(self) -> None:
        self.wait()


class FutureWork(Work):
    """The work that a future stands for."""

    def __init__(self, future: Future) -> None:
        self._future = future

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._future.wait()
        return True

    def get_future(self) -> Future:
        return self._future

    def exception(self) -> BaseException | None:
        return self._future._error

    def result(self) -> Any:
        return self._future.value()


class LaneWork(Work):
    """A function that a lane runs; its tensors are the result."""

    def __init__(self, lane: "Lane", function: Callable[[], Any], result: Sequence[Tensor], name: str) -> None:
        self._lane, self._function, self._result, self.name = lane, function, list(result), name
        self._done = self._told = False
        self._error: BaseException | None = None
        self._source = -1
        self._future: Future | None = None
        self._guard = threading.Lock()

    def run(self) -> None:
        """Does the work; an error is kept for those who wait."""
        try:
            source = self._function()
            if source is not None:
                self._source = source
        except BaseException as error:
            self._error = error
        self._function = _nothing  # so that its tensors can go
        self._done = True

    def tell(self) -> None:
        """Gives the future its value: what hangs on it runs here, and may begin other works."""
        with self._guard:
            self._told = True
            future = self._future
        if future is not None:
            self._complete(future)
        if self._error is not None and not isinstance(self._error, Exception):
            raise self._error  # an interrupt of this thread

    def _complete(self, future: Future) -> None:
        if self._error is None:
            future.set_result(self._result)
        else:
            future._complete(None, self._error)

    def wait(self, timeout: timedelta | None = None) -> bool:
        if not self._done:
            self._lane.until_done(self, None if timeout is None else timeout.total_seconds())
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        return self._done

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> list[Tensor]:
        return self._result

    def source_rank(self) -> int:
        return self._source if self._source >= 0 else super().source_rank()

    _source_rank = source_rank

    def get_future(self) -> Future:
        with self._guard:
            if self._future is not None:
                return self._future
            self._future = made = _LaneFuture(self)
            told = self._told
        if told:
            self._complete(made)
        return made


class _LaneFuture(Future):
    """The future of a work. Who waits for it helps the lane along, as who waits for the work does."""

    def __init__(self, work: LaneWork) -> None:
        super().__init__()
        self._work = work

    def wait(self) -> Any:
        if not self._done and not self._work._done:
            self._work._lane.until_done(self._work, None)
        return super().wait()


def _nothing() -> None:
    """In place of a function that was run."""


class DoneWork(Work):
    """Work that was done when it was asked for."""

    def __init__(self, result: Sequence[Tensor] = ()) -> None:
        self._result = list(result)

    def wait(self, timeout: timedelta | None = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def result(self) -> list[Tensor]:
        return self._result

    def get_future(self) -> Future:
        future: Future = Future()
        future.set_result(self._result)
        return future


class Lane:
    """Works in the order in which they came. Whoever waits for one runs it, and those before it, if the lane's own
    thread has not begun: with nothing else to do in between, no thread is needed at all."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: deque[LaneWork] = deque()
        self._arrived = threading.Condition(threading.Lock())
        self._running = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def run_now(self, work: LaneWork) -> None:
        """Runs a work in this thread, after those that came before it."""
        if self._waiting or not self._running.acquire(blocking=False):
            self.add(work)
            self.until_done(work, None)
            return
        try:
            work.run()
        finally:
            self._running.release()
        work.tell()

    def add(self, work: LaneWork, lazily: bool = False) -> None:
        """Has a work run some time; lazily: by whoever waits for it, or for one after it."""
        with self._arrived:
            self._waiting.append(work)
            if lazily:
                return
            self._arrived.notify()
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                thread.start()
                self._thread = thread

    def until_done(self, work: LaneWork, seconds: float | None) -> None:
        """Comes back when a work was run, by this thread if no other has begun."""
        if not self._running.acquire(timeout=-1 if seconds is None else seconds):
            raise RuntimeError(f"Work ran time out after {round((seconds or 0) * 1000)} milliseconds.")
        ran = []
        try:
            while not work._done:
                ran.append(self._waiting.popleft())
                ran[-1].run()
        finally:
            self._running.release()
        for each in ran:
            each.tell()

    def _serve(self) -> None:
        while True:
            with self._arrived:
                self._arrived.wait_for(lambda: self._waiting or self._closed)
                if self._closed and not self._waiting:
                    return
            work = None
            with self._running:
                if self._waiting:
                    work = self._waiting.popleft()
                    work.run()
            if work is not None:
                work.tell()

    def close(self) -> None:
        """Lets the thread end when all is done."""
        with self._arrived:
            self._closed = True
            self._arrived.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(10)
