"""What the elastic launcher says of processes that failed."""

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["ChildFailedError", "record"]


class ChildFailedError(Exception):
    """A process that the launcher started has failed."""


def record(fn: Callable, error_handler: Any = None) -> Callable:
    """The function itself: an error in it reaches whoever started the process."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper
