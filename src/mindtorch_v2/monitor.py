"""torch.monitor: statistics and events of a running program, handed to whoever registered for them."""

import enum
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

__all__ = ["Aggregation", "Event", "EventHandlerHandle", "Stat", "TensorboardEventHandler", "data_value_t", "log_event",
           "register_event_handler", "unregister_event_handler"]

data_value_t = str | float | int | bool
STAT_EVENT = "torch.monitor.Stat"


class Aggregation(enum.IntEnum):
    """What a Stat keeps of the values that are added to it."""

    VALUE, MEAN, COUNT, SUM, MAX, MIN = range(1, 7)


_COMPUTED: dict[Aggregation, Callable[[Sequence[float]], float]] = {
    Aggregation.VALUE: lambda values: values[-1], Aggregation.MEAN: lambda values: sum(values) / len(values),
    Aggregation.COUNT: lambda values: float(len(values)), Aggregation.SUM: sum, Aggregation.MAX: max,
    Aggregation.MIN: min}


@dataclass
class Event:
    """Something that happened, with data."""

    name: str
    timestamp: datetime
    data: Mapping[str, data_value_t]


class EventHandlerHandle:
    """What a registered handler is unregistered by."""

    def __init__(self, handler: Callable[[Event], None]) -> None:
        self.handler = handler


_handlers: list[EventHandlerHandle] = []


def register_event_handler(callback: Callable[[Event], None]) -> EventHandlerHandle:
    """Calls `callback(event)` for every event from now on."""
    handle = EventHandlerHandle(callback)
    _handlers.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    _handlers.remove(handler)


def log_event(event: Event) -> None:
    for handle in tuple(_handlers):
        handle.handler(event)


class Stat:
    """Statistics of the values of each window of time, logged as an event when the window is over."""

    def __init__(self, name: str, aggregations: Sequence[Aggregation], window_size: timedelta,
                 max_samples: int = (1 << 63) - 1) -> None:
        self.name, self._kinds, self._window, self._most = name, tuple(aggregations), window_size, max_samples
        self._values: deque[float] = deque()
        self._last: dict[Aggregation, float] = dict.fromkeys(self._kinds, 0.0)
        self._start = datetime.now()

    def add(self, v: float) -> None:
        if datetime.now() - self._start >= self._window:
            self._log()
        if len(self._values) < self._most:
            self._values.append(float(v))

    @property
    def count(self) -> int:
        return len(self._values)

    def get(self) -> dict[Aggregation, float]:
        """The statistics of the last window that is over."""
        if datetime.now() - self._start >= self._window:
            self._log()
        return dict(self._last)

    def _log(self) -> None:
        self._start = datetime.now()
        if self._values:
            values = list(self._values)
            self._values.clear()
            self._last = {kind: _COMPUTED[kind](values) for kind in self._kinds}
            log_event(Event(STAT_EVENT, self._start,
                            {f"{self.name}.{kind.name.lower()}": value for kind, value in self._last.items()}))

    def __del__(self) -> None:
        self._log()


class TensorboardEventHandler:
    """An event handler that writes statistics into a SummaryWriter."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
