"""Warnings: those that PyTorch gives one time only, and those of each call. They tell the line of who called.

PyTorch warns in C++, so that its warnings name the innermost line of Python. Here that would be a line of the library:
frames of files that stand for its C++, and of what is put around functions, are left out.
"""

import functools
import os
import sys
import warnings

from .planning import forget_plans, refuse_in_plans

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_warned: set[str] = set()
_always = [False]


def warn_once(text: str, outer: int = 0, subject: str | None = None) -> None:
    """A warning that a process shows one time only, or once of a subject, unless `set_warn_always(True)` was called.

    `outer` is the number of the frame that it names, counted from the innermost that is not left out.
    """
    if _always[0] or (subject or text) not in _warned:
        refuse_in_plans()
        _warned.add(subject or text)
        warnings.warn(text, stacklevel=_level(outer))


def warn(text: str, category: type[Warning] = UserWarning, outer: int = 0) -> None:
    """A warning that comes with each call."""
    refuse_in_plans()
    warnings.warn(text, category, stacklevel=_level(outer))


def _level(outer: int) -> int:
    """The stack level, seen from the functions above, of a frame that is not left out."""
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and (outer or _is_inner(frame.f_code.co_filename)):
        outer -= not _is_inner(frame.f_code.co_filename)
        frame, level = frame.f_back, level + 1
    return level


@functools.cache
def _is_inner(file: str) -> bool:
    """Whether frames of a file are left out: of modules that have no public name, and of code written on the way."""
    if file.startswith("<mindtorch_v2"):
        return True
    place = file.removeprefix(_PACKAGE)
    return place != file and (place == "overrides.py" or f"{os.sep}_" in f"{os.sep}{place}")


def set_warn_always(b: bool) -> None:
    """Whether warnings that are given once come every time."""
    _always[0] = b
    forget_plans()


def is_warn_always_enabled() -> bool:
    """Whether warnings come each time, not once."""
    return _always[0]
