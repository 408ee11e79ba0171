"""torch_npu.profiler: torch.profiler by the names that programs for Ascend chips use, and what chips do by aclprof.

Operators are timed on the host, by name. With a folder to write to (that of `tensorboard_trace_handler`, or
ASCEND_WORK_PATH) CANN records the chips meanwhile, as `experimental_config` says; msprof and MindStudio read what is
there afterwards.
"""

import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from .. import npu
from .. import profiler as _profiler
from .._backends.npu.errors import NpuError
from .._backends.npu.profiling import DeviceTrace
from ..profiler import ProfilerAction, schedule


class ProfilerActivity:
    CPU = _profiler.ProfilerActivity.CPU
    NPU = _profiler.ProfilerActivity.PrivateUse1


class ProfilerLevel:
    Level_none, Level0, Level1, Level2 = range(4)


class AiCMetrics:
    """What the counters of the cores count, by CANN's numbers."""

    ArithmeticUtilization, PipeUtilization, Memory, MemoryL0, ResourceConflictRatio, MemoryUB, L2Cache = range(7)
    AiCoreNone = 0xFF


class ExportType:
    Text, Db = range(2)


class _ExperimentalConfig:
    """How much CANN records: a level, what cores count, and whether marks of mstx are kept; the rest does nothing."""

    def __init__(self, profiler_level: int = ProfilerLevel.Level0, aic_metrics: int = AiCMetrics.AiCoreNone,
                 mstx: bool = False, msprof_tx: bool = False, **options: Any) -> None:
        counted = aic_metrics == AiCMetrics.AiCoreNone and profiler_level >= ProfilerLevel.Level1
        self.profiler_level = profiler_level
        self.aic_metrics = AiCMetrics.PipeUtilization if counted else aic_metrics
        self.marks, self.options = mstx or msprof_tx, options


def supported_activities() -> set[Any]:
    return {ProfilerActivity.CPU, ProfilerActivity.NPU}


class _TraceHandler:
    """Writes the host's trace beside what CANN recorded."""

    def __init__(self, folder: str, worker: str | None) -> None:
        self.folder, self.worker = folder, worker or f"{socket.gethostname()}_{os.getpid()}"

    def __call__(self, prof: "profile") -> None:
        folder = os.path.join(prof.folder or prof.new_folder(self), "ASCEND_PROFILER_OUTPUT")
        os.makedirs(folder, exist_ok=True)
        prof.export_chrome_trace(os.path.join(folder, "trace_view.json"))


def tensorboard_trace_handler(dir_name: str | None = None, worker_name: str | None = None, analyse_flag: bool = True,
                              async_mode: bool = False) -> Callable[["profile"], None]:
    """A function for `on_trace_ready`: each trace has a folder in this one, or in the one of ASCEND_WORK_PATH."""
    return _TraceHandler(dir_name or os.environ.get("ASCEND_WORK_PATH", "."), worker_name)


class profile(_profiler.profile):  # noqa: N801 - torch_npu's name
    """torch.profiler.profile, which also has CANN record the chips."""

    def __init__(self, *, activities: Iterable[Any] | None = None, experimental_config: Any = None,
                 **options: Any) -> None:
        self.config = experimental_config or _ExperimentalConfig()
        self.folder: str | None = None
        self._trace: DeviceTrace | None = None
        super().__init__(activities=activities or supported_activities(), **options)

    def new_folder(self, handler: _TraceHandler) -> str:
        """The folder of the trace that begins."""
        name = f"{handler.worker}_{time.strftime('%Y%m%d%H%M%S')}{time.time_ns() % 10**9 // 1000:06}_ascend_pt"
        self.folder = os.path.join(handler.folder, name)
        os.makedirs(self.folder, exist_ok=True)
        return self.folder

    def start_trace(self) -> None:
        handler = self.on_trace_ready
        if not isinstance(handler, _TraceHandler) and "ASCEND_WORK_PATH" in os.environ:
            handler = _TraceHandler(os.environ["ASCEND_WORK_PATH"], None)
        wanted = ProfilerActivity.NPU in self.activities and self.config.profiler_level != ProfilerLevel.Level_none
        if wanted and isinstance(handler, _TraceHandler) and npu.is_available():
            try:
                self._trace = DeviceTrace(self.new_folder(handler), self.config.profiler_level, self.config.aic_metrics,
                                          self.config.marks)
            except NpuError as error:
                warnings.warn(f"the device is not recorded: {error}", stacklevel=2)
        super().start_trace()

    def stop_trace(self) -> None:
        super().stop_trace()
        if self._trace is not None:
            self._trace.stop()
            self._trace = None


__all__ = ["AiCMetrics", "ExportType", "ProfilerAction", "ProfilerActivity", "ProfilerLevel", "profile", "schedule",
           "supported_activities", "tensorboard_trace_handler"]
