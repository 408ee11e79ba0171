"""Times in which a call computes each result the same way as the last time, to the last digit.

Kernels that were compiled in the meantime wait until these are over: a machine's code rounds differently than NumPy.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator

_lock = threading.Lock()
_depth = 0
_waiting: list[Callable[[], None]] = []


def when_free(change: Callable[[], None]) -> None:
    """Makes a change in how something is computed, now or when nobody relies on the same digits any more."""
    with _lock:
        if _depth:
            _waiting.append(change)
            return
    change()


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Within it, nothing begins to be computed another way."""
    global _depth
    with _lock:
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            changes = [] if _depth else _waiting[:]
            if changes:
                _waiting.clear()
        for change in changes:
            change()
