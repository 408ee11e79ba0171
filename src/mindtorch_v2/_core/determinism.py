"""Deterministic mode: the switches that torch.use_deterministic_algorithms sets, and what they ask of operators."""

import math
from collections.abc import Callable
from typing import Any

from .dtype import BOOL, FLOAT, dtype, iinfo
from .planning import forget_plans
from .warn import warn

_ISSUES = ("https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic support for this "
           "operation.")


class _Determinism:
    """The switches of the process; `fills` says whether memory that nothing was written to yet is filled."""

    __slots__ = ("fill_uninitialized_memory", "fills", "mode", "warn_only", "watchers")

    def __init__(self) -> None:
        self.fill_uninitialized_memory, self.fills, self.mode, self.warn_only = True, False, 0, False
        self.watchers: list[Callable[[int], None]] = []  # devices whose own libraries have to be told the mode

    def set_mode(self, mode: int, warn_only: bool) -> None:
        """0 for any algorithm, 1 to warn of one whose results may not repeat, 2 to refuse it."""
        self.mode, self.warn_only = mode, warn_only
        self.fills = mode > 0 and self.fill_uninitialized_memory
        forget_plans()
        for watcher in self.watchers:
            watcher(mode)

    def set_fill(self, fill: bool) -> None:
        if fill.__class__ is not bool:
            raise RuntimeError(f"expected a bool, but got {type(fill).__name__}")
        self.fill_uninitialized_memory = fill
        self.set_mode(self.mode, self.warn_only)


determinism = _Determinism()


def filler(kind: dtype) -> Any:
    """The number that stands in memory that nothing was written to: NaN, or the largest of the type."""
    return math.nan if kind.category >= FLOAT else True if kind.category == BOOL else iinfo(kind).max


def alert_not_deterministic(name: str) -> None:
    """Refuses or warns of an operation, under the name that PyTorch gives it, in deterministic mode."""
    if determinism.mode == 1:
        warn(f"{name} does not have a deterministic implementation, but you set "
             "'torch.use_deterministic_algorithms(True, warn_only=True)'. You can file an issue at " + _ISSUES)
    elif determinism.mode == 2:
        raise RuntimeError(f"{name} does not have a deterministic implementation, but you set "
                           "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this "
                           "operation, or you can use the 'warn_only=True' option, if that's acceptable for your "
                           "application. You can also file an issue at " + _ISSUES)
