"""Warnings that PyTorch gives one time only."""

import warnings

_warned: set[str] = set()
_always = [False]


def warn_once(text: str, stacklevel: int = 2, subject: str | None = None) -> None:
    """A warning that a process shows one time only, or once of a subject, unless `set_warn_always(True)` was called."""
    if _always[0] or (subject or text) not in _warned:
        _warned.add(subject or text)
        warnings.warn(text, stacklevel=stacklevel + 1)


def set_warn_always(b: bool) -> None:
    """Whether warnings that are given once come every time."""
    _always[0] = b


def is_warn_always_enabled() -> bool:
    """Whether warnings come each time, not once."""
    return _always[0]
