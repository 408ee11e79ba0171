"""Tracebacks that profiles and logs collect: here they are Python's own."""

import traceback
from collections.abc import Sequence
from typing import Any

__all__ = ["gather_traceback", "symbolize_tracebacks"]


def gather_traceback(python: bool, script: bool, cpp: bool) -> Any:
    """Where the program is."""
    return traceback.extract_stack()[:-1] if python else []


def symbolize_tracebacks(tracebacks: Sequence[Any]) -> list[list[dict[str, Any]]]:
    """Each one's frames by name, file and line, the innermost first."""
    return [[{"name": frame.name, "filename": frame.filename, "line": frame.lineno} for frame in reversed(each)]
            for each in tracebacks]
