"""What is raised on every rank when a part of a checkpoint failed on one."""

import traceback
from typing import Any, TypeAlias

__all__ = ["CheckpointException"]

WRAPPED_EXCEPTION: TypeAlias = tuple[BaseException, traceback.StackSummary]


def _wrap_exception(exc: BaseException) -> WRAPPED_EXCEPTION:
    """An exception with its traceback, fit to be sent."""
    return exc, traceback.extract_tb(exc.__traceback__)


def _is_wrapped_exception(obj: Any) -> bool:
    return (isinstance(obj, tuple) and len(obj) == 2 and isinstance(obj[0], BaseException)
            and isinstance(obj[1], traceback.StackSummary))


class CheckpointException(BaseException):
    """What failed, by rank."""

    def __init__(self, msg: str, failures: dict[int, WRAPPED_EXCEPTION]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, WRAPPED_EXCEPTION]:
        return self._failures

    def __str__(self) -> str:
        lines = [f"CheckpointException ranks:{self._failures.keys()}\n"]
        for rank, (error, trace) in self._failures.items():
            lines.append(f"Traceback (most recent call last): (RANK {rank})\n")
            lines += traceback.format_list(trace) if trace is not None else []
            lines += traceback.format_exception_only(type(error), value=error)
        return "".join(lines)
