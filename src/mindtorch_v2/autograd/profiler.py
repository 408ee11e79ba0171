"""torch.autograd.profiler: `profile` around a block, `record_function` to mark parts of it."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from .._compat.absent import refuse
from .._profile import USER_SCOPE, Recorder, marked, recorder
from .profiler_util import DeviceType, EventList, FunctionEvent, FunctionEventAvg

__all__ = ["DeviceType", "EnforceUnique", "EventList", "FunctionEvent", "KinetoStepTracker", "emit_itt", "emit_nvtx",
           "load_nvprof", "parse_nvprof_trace", "profile", "record_function"]

_is_profiler_enabled = False


class profile:
    """Records what runs in its block; afterwards its table, averages and files can be had."""

    def __init__(self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None,
                 record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_modules: bool = False, use_kineto: bool = False, use_cpu: bool = True,
                 experimental_config: Any = None, acc_events: bool = False,
                 custom_trace_id_callback: Callable[[], str] | None = None,
                 post_processing_timeout_s: float | None = None, activity_filters: Any = None) -> None:
        if not use_cpu:
            raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
        self.enabled, self.record_shapes, self.profile_memory = enabled, record_shapes or with_flops, profile_memory
        self.with_stack, self.with_flops, self.acc_events = with_stack, with_flops, acc_events
        self.entered = False
        self.function_events: EventList | None = None
        self._recorder: Recorder | None = None

    def __enter__(self) -> "profile | None":
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._start_trace()
        return self

    def _start_trace(self) -> None:
        if recorder() is not None:
            raise RuntimeError("Profiler is already enabled on this thread")
        self._recorder = Recorder(self.record_shapes, self.profile_memory, self.with_stack, self.with_flops)
        _mark_running(True)
        self._recorder.start()

    def __exit__(self, *exception: Any) -> None:
        if self._recorder is not None:
            self._recorder.stop()
            _mark_running(False)
            made = EventList(events_of(self._recorder), profile_memory=self.profile_memory, with_flops=self.with_flops)
            if self.acc_events and self.function_events is not None:
                made[:0] = self.function_events
            self.function_events = made

    def toggle_collection_dynamic(self, enabled: bool, activities: Any = ()) -> None:
        """Stops or goes on recording inside the block."""
        assert self._recorder is not None
        if enabled:
            self._recorder.start()
        else:
            self._recorder.stop()

    def _events(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def __repr__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self.function_events is None else repr(self.function_events)

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self.function_events is None else str(self.function_events)

    def table(self, *args: Any, **kwargs: Any) -> str:
        return self._events().table(*args, **kwargs)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:
        return self._events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        return self._events().total_average()

    def export_chrome_trace(self, path: str) -> None:
        self._events().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        self._events().export_stacks(path, metric)

    @property
    def self_cpu_time_total(self) -> float:
        return self._events().self_cpu_time_total


def _mark_running(running: bool) -> None:
    global _is_profiler_enabled
    _is_profiler_enabled = running


def events_of(recorded: Recorder) -> list[FunctionEvent]:
    """The entries of a recording as events that know their parents and children."""
    threads: dict[int, int] = {}
    made: dict[int, FunctionEvent] = {}
    for number, entry in enumerate(recorded.entries, 1):
        event = made[id(entry)] = FunctionEvent(
            number, entry.name, threads.setdefault(entry.thread, len(threads) + 1),
            (entry.start - recorded.begun) / 1000, (entry.end - recorded.begun) / 1000, input_shapes=entry.shapes,
            stack=entry.stack, scope=entry.scope, sequence_nr=entry.sequence, flops=entry.flops,
            cpu_memory_usage=entry.memory, concrete_inputs=entry.values, is_user_annotation=entry.scope == USER_SCOPE)
        if entry.parent is not None:
            parent = made[id(entry.parent)]
            parent.append_cpu_child(event)
            event.set_cpu_parent(parent)
    for event in reversed(made.values()):  # an operator that calls others has what they allocated
        event.cpu_memory_usage = max(event.cpu_memory_usage, sum(c.cpu_memory_usage for c in event.cpu_children))
    return list(made.values())


class record_function(marked, contextlib.ContextDecorator):
    """Marks a block, or the calls of a function, with a name that profiles show."""

    def __init__(self, name: str, args: str | None = None) -> None:
        super().__init__(name)
        self.args = args

    def __enter__(self) -> "record_function":  # type: ignore[override]
        super().__enter__()
        return self

    def _recreate_cm(self) -> "record_function":
        return record_function(self.name, self.args)

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        self.__exit__()
        return fut


class _Emitter:
    """Marks for a vendor's profiler, of which there is none here."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        if enabled:
            refuse(f"torch.autograd.profiler.{type(self).__name__}", "Use torch.profiler.profile.")

    def __enter__(self) -> None:
        """Nothing is marked."""

    def __exit__(self, *exception: Any) -> None:
        """Nothing was marked."""


class emit_nvtx(_Emitter):
    pass


class emit_itt(_Emitter):
    pass


def load_nvprof(path: str) -> EventList:
    return refuse("torch.autograd.profiler.load_nvprof")


parse_nvprof_trace = functools.wraps(load_nvprof)(lambda path: refuse("torch.autograd.profiler.parse_nvprof_trace"))


class EnforceUnique:
    """Raises when a key is seen twice."""

    def __init__(self) -> None:
        self.seen: set = set()

    def see(self, *key: Any) -> None:
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """The number of the current step, as the fastest of those who count says."""

    _current_step = 0
    _steps: dict[str, int] = {}

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        cls._steps[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        return cls._steps.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        cls._steps[requester] = cls._steps.get(requester, cls._current_step) + 1
        cls._current_step = max(cls._current_step, *cls._steps.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        return cls._current_step
