"""torch.profiler: profiles of a program, step by step."""

import enum
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from .._compat.absent import absent_class, refuse
from ..autograd import profiler as _block
from ..autograd.profiler import EventList, KinetoStepTracker, record_function
from ..autograd.profiler_util import DeviceType

__all__ = ["DeviceType", "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile",
           "record_function", "schedule", "supported_activities", "tensorboard_trace_handler"]

ExecutionTraceObserver = absent_class("torch.profiler.ExecutionTraceObserver", "Use profile.export_chrome_trace.")


class ProfilerActivity(enum.IntEnum):
    """What to record. Only the host's work is; asking for others changes nothing."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profiler does with a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether traces can be exported: always."""
    return True


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable[[int], ProfilerAction]:
    """Steps to skip, then cycles of waiting, warming up and recording; `repeat` 0 means without end."""

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        cycle, position = divmod(step, length)
        if repeat > 0 and cycle >= repeat or position < wait:
            return ProfilerAction.NONE
        if position < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if position < length - 1 else ProfilerAction.RECORD_AND_SAVE

    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need "
                             f">= 0), active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} "
                             "(need >= 0).")
    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False,
                              use_python_export: bool = False) -> Callable[["profile"], None]:
    """A function for `on_trace_ready` that writes each trace into a folder which TensorBoard reads."""

    def write(prof: "profile") -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return write


class profile:
    """Records a program; with a schedule, the steps that it names, which `step()` ends."""

    def __init__(self, *, activities: Iterable[Any] | None = None,
                 schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False,
                 profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
                 with_modules: bool = False, experimental_config: Any = None, execution_trace_observer: Any = None,
                 acc_events: bool = False, use_cuda: bool | None = None,
                 custom_trace_id_callback: Callable[[], str] | None = None,
                 post_processing_timeout_s: float | None = None) -> None:
        self.activities = set(activities) if activities else supported_activities()
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self.record_steps = schedule is not None
        self.on_trace_ready, self.acc_events = on_trace_ready, acc_events
        self._options = {"record_shapes": record_shapes, "profile_memory": profile_memory, "with_stack": with_stack,
                         "with_flops": with_flops}
        self.step_num = 0
        self.current_action = self.schedule(self.step_num)
        self.profiler: _block.profile | None = None
        self.step_rec_fn: record_function | None = None
        self._metadata: dict[str, Any] = {}

    def __enter__(self) -> "profile":
        self.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.stop()

    def start(self) -> None:
        self._change(ProfilerAction.NONE, self.current_action)
        self._mark_step()

    def stop(self) -> None:
        self._end_step()
        if self.current_action in _RECORDING:
            self.stop_trace()
            self._ready()
        self.current_action = ProfilerAction.NONE

    def step(self) -> None:
        """Ends a step: the schedule says what to do with the next."""
        self._end_step()
        before, self.step_num = self.current_action, self.step_num + 1
        self.current_action = self.schedule(self.step_num)
        self._change(before, self.current_action)
        KinetoStepTracker.increment_step("ProfilerStep")
        self._mark_step()

    def _mark_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _change(self, before: ProfilerAction, after: ProfilerAction) -> None:
        if before in _RECORDING and (before is ProfilerAction.RECORD_AND_SAVE or after not in _RECORDING):
            self.stop_trace()
            if before is ProfilerAction.RECORD_AND_SAVE:
                self._ready()
            before = ProfilerAction.NONE
        if after in _RECORDING and before not in _RECORDING:
            self.prepare_trace()
            self.start_trace()

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def prepare_trace(self) -> None:
        if self.profiler is None or not self.acc_events:
            self.profiler = _block.profile(acc_events=self.acc_events, **self._options)  # type: ignore[arg-type]

    def start_trace(self) -> None:
        assert self.profiler is not None
        self.profiler._start_trace()

    def stop_trace(self) -> None:
        if self.profiler is not None:
            self.profiler.__exit__(None, None, None)

    def _finished(self, purpose: str) -> _block.profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {purpose}")
        return self.profiler

    def events(self) -> EventList:
        return self._finished("accessing events")._events()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:
        """The events summed by name, and by shapes or the innermost callers where that is asked for."""
        return self._finished("getting key averages").key_averages(group_by_input_shape, group_by_stack_n,
                                                                   group_by_overload_name)

    def export_chrome_trace(self, path: str) -> None:
        self._finished("exporting chrome trace")._events().export_chrome_trace(path, **self._metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        self._finished("exporting stacks").export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        refuse("torch.profiler.profile.export_memory_timeline")

    def add_metadata(self, key: str, value: str) -> None:
        """Text that the exported trace carries."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity] = ()) -> None:
        self._finished("toggling").toggle_collection_dynamic(enable, activities)


_KinetoProfile = profile
