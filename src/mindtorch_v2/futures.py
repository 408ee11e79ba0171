"""torch.futures: results that may come later, set by whoever computes them."""

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ._core.device import device as _device

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value to come. Callbacks run in the order in which they were added, in the thread that brings the value."""

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        for place in map(_device, devices or ()):
            if place.index is None:
                raise ValueError(f"Expected devices to have indices, got {place}")
        self._changed = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], None]] = []

    def done(self) -> bool:
        """Whether the value, or an error in its place, has come."""
        return self._done

    def wait(self) -> T:
        """The value, once it has come; raises the error that came in its place."""
        with self._changed:
            self._changed.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> T:
        """The value of a future that is done."""
        if not self._done:
            raise RuntimeError("value() of a Future that is not completed: use wait(), or ask done() first")
        if self._error is not None:
            raise self._error
        return self._value

    def set_result(self, result: T) -> None:
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Gives the future an error, which `wait` and `value` then raise."""
        assert isinstance(result, Exception), f"{result} is of type {type(result)}, not an Exception."
        self._complete(None, result)

    def then(self, callback: Callable[["Future[T]"], S]) -> "Future[S]":
        """A future of `callback(self)`."""
        _check_callback("then", callback)
        following: Future[S] = Future()

        def run(done: Future) -> None:
            try:
                result = callback(done)
            except Exception as error:  # it is the following future's to raise
                following._complete(None, _failed(error))
            else:
                following._complete(result, None)

        self._add(run)
        return following

    def add_done_callback(self, callback: Callable[["Future[T]"], None]) -> None:
        """Calls the function with this future when it is done; an error in it is printed and does no more."""
        _check_callback("add_done_callback", callback)

        def run(done: Future) -> None:
            try:
                callback(done)
            except Exception as error:
                print(_failed(error), file=sys.stderr)

        self._add(run)

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can "
                    "only be marked completed once."
                )
            self._done, self._value, self._error = True, value, error
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback(self)

    def _add(self, run: Callable[["Future"], None]) -> None:
        with self._changed:
            if not self._done:
                self._callbacks.append(run)
                return
        run(self)

    def __reduce__(self) -> Any:
        raise RuntimeError("Can not pickle torch.futures.Future")


def _check_callback(name: str, callback: Any) -> None:
    if not callable(callback):
        raise TypeError(f"{name}(): the callback must be callable, not {type(callback).__name__}")


def _failed(error: Exception) -> RuntimeError:
    """What a callback's error becomes, with the places that it came through."""
    places = "".join(
        f"  {frame.filename}({frame.lineno}): {frame.name}\n"
        for frame in reversed(traceback.extract_tb(error.__traceback__)[1:])
    )
    text = f"Got the following error when running the callback: {type(error).__name__}: {error}"
    made = RuntimeError(f"{text}\n\nAt:\n{places}" if places else text)
    made.__cause__ = error
    return made


def _checked(futures: Sequence[Any]) -> list[Any]:
    if any(future is None for future in futures):
        raise RuntimeError("Future can't be None")
    return list(futures)


def collect_all(futures: Sequence[Any]) -> Future[list[Any]]:
    """A future of the list, which is done once all of them are; the first error among them is its own."""
    awaited = _checked(futures)
    gathered: Future[list[Any]] = Future()
    lock, left = threading.Lock(), len(awaited)

    def run(_: Future) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            gathered._complete(awaited, next((f._error for f in awaited if f._error is not None), None))

    if not awaited:
        gathered.set_result(awaited)
    for future in awaited:
        future._add(run)
    return gathered


def wait_all(futures: Sequence[Any]) -> list[Any]:
    """The values of all futures; raises the first error among them once all are done."""
    return [future.value() for future in collect_all(futures).wait()]
