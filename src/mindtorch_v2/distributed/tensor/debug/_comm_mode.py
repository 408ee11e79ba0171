"""CommDebugMode: how often which collective was called."""

from collections import Counter
from typing import Any

from ...._compat.operator_names import packet_named
from ..._functional_collectives import watchers

__all__ = ["CommDebugMode"]


class CommDebugMode:
    """Inside, collectives on tensors are counted."""

    def __init__(self) -> None:
        self.comm_counts: Counter = Counter()

    def __enter__(self) -> "CommDebugMode":
        self.comm_counts.clear()
        watchers.append(self._count)
        return self

    def __exit__(self, *raised: object) -> None:
        watchers.remove(self._count)

    def _count(self, name: str) -> None:
        self.comm_counts[packet_named(f"c10d_functional::{name}")] += 1

    def get_total_counts(self) -> int:
        return sum(self.comm_counts.values())

    def get_comm_counts(self) -> dict[Any, int]:
        """How often each was called; 0 for those that were not."""
        return self.comm_counts

    def __repr__(self) -> str:
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"
