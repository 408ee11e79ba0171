"""What the methods of groups and engines are told beside their tensors."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ._reductions import ReduceOp

__all__ = ["AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions",
           "BroadcastOptions", "GatherOptions", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions"]

_NONE = timedelta(milliseconds=-1)


@dataclass
class _Options:
    timeout: timedelta = _NONE
    asyncOp: bool = True
    lazily: bool = False  # the caller waits at once: no thread has to wake for it


@dataclass
class _Rooted(_Options):
    rootRank: int = 0
    rootTensor: int = 0


@dataclass
class AllreduceOptions(_Options):
    reduceOp: Any = ReduceOp.SUM


@dataclass
class AllreduceCoalescedOptions(AllreduceOptions):
    pass


@dataclass
class ReduceScatterOptions(AllreduceOptions):
    pass


@dataclass
class AllgatherOptions(_Options):
    pass


@dataclass
class AllToAllOptions(_Options):
    pass


@dataclass
class BarrierOptions(_Options):
    device_ids: list[int] = field(default_factory=list)
    device: Any = None


@dataclass
class BroadcastOptions(_Rooted):
    pass


@dataclass
class GatherOptions(_Rooted):
    pass


@dataclass
class ScatterOptions(_Rooted):
    pass


@dataclass
class ReduceOptions(_Rooted):
    reduceOp: Any = ReduceOp.SUM
