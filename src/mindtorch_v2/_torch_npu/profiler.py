"""torch_npu.profiler: torch.profiler by the names that programs for Ascend chips use.

Operators are timed on the host, by name; what a chip does meanwhile msprof shows, with the ranges of torch.npu.mstx.
"""

from collections.abc import Iterable
from typing import Any

from .. import profiler as _profiler
from ..profiler import ProfilerAction, schedule, tensorboard_trace_handler


class ProfilerActivity:
    CPU = _profiler.ProfilerActivity.CPU
    NPU = _profiler.ProfilerActivity.PrivateUse1


class ProfilerLevel:
    Level_none, Level0, Level1, Level2 = range(4)


class AiCMetrics:
    AiCoreNone, PipeUtilization, ArithmeticUtilization, Memory, MemoryL0, ResourceConflictRatio, MemoryUB = range(7)


class ExportType:
    Text, Db = range(2)


class _ExperimentalConfig:
    """What msprof would be told; kept, and otherwise without effect."""

    def __init__(self, **options: Any) -> None:
        self.options = options


def supported_activities() -> set[Any]:
    return {ProfilerActivity.CPU, ProfilerActivity.NPU}


class profile(_profiler.profile):  # noqa: N801 - torch_npu's name
    """torch.profiler.profile; `experimental_config` is taken and changes nothing."""

    def __init__(self, *, activities: Iterable[Any] | None = None, experimental_config: Any = None,
                 **options: Any) -> None:
        super().__init__(activities=activities, **options)


__all__ = ["AiCMetrics", "ExportType", "ProfilerAction", "ProfilerActivity", "ProfilerLevel", "profile", "schedule",
           "supported_activities", "tensorboard_trace_handler"]
