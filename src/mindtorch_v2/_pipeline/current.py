"""The trace that calls are recorded in now."""

import threading
from typing import Any

from .._dispatch.keys import modes


class _State:
    """The trace of the one thread that records; None while several do, or none does."""

    __slots__ = ("lock", "threads", "trace")

    def __init__(self) -> None:
        self.trace: Any = None
        self.threads: set[int] = set()
        self.lock = threading.Lock()


state = _State()


def own_trace() -> Any:
    """The trace of this thread."""
    return modes.__dict__["pipeline"].trace
