"""Warnings: those that PyTorch gives one time only, and those of each call."""

import sys
import warnings

from .planning import forget_plans, refuse_in_plans

_PLANS = f"{__name__.partition('.')[0]}._ops._declare.plans"
_warned: set[str] = set()
_always = [False]


def warn_once(text: str, stacklevel: int = 2, subject: str | None = None) -> None:
    """A warning that a process shows one time only, or once of a subject, unless `set_warn_always(True)` was called."""
    if _always[0] or (subject or text) not in _warned:
        refuse_in_plans()
        _warned.add(subject or text)
        warnings.warn(text, stacklevel=_level(stacklevel))


def warn(text: str, category: type[Warning] = UserWarning, stacklevel: int = 2) -> None:
    """A warning that comes with each call."""
    refuse_in_plans()
    warnings.warn(text, category, stacklevel=_level(stacklevel))


def _level(stacklevel: int) -> int:
    """The stack level, seen from who warns, that leaves out the frames in which plans of calls are looked up."""
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and stacklevel > 1:
        frame, level = frame.f_back, level + 1
        stacklevel -= frame.f_globals.get("__name__") != _PLANS
    return level


def set_warn_always(b: bool) -> None:
    """Whether warnings that are given once come every time."""
    _always[0] = b
    forget_plans()


def is_warn_always_enabled() -> bool:
    """Whether warnings come each time, not once."""
    return _always[0]
