"""Events of a profile: times, averages by name, the table, the files that viewers read."""

import enum
import gzip
import json
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

__all__ = ["DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel"]

_COLUMN_WIDTH = 12
_TIME_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


class DeviceType(enum.IntEnum):
    CPU = 0
    CUDA = 1
    PrivateUse1 = 20


class Kernel(NamedTuple):
    """A kernel that a device ran for an event; the CPU has none."""

    name: str
    device: int
    duration: float


class Interval:
    """A span of time in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        return self.end - self.start


def _format_time(time_us: float, unit: str | None = None) -> str:
    if unit is None:
        unit = "s" if time_us >= 1e6 else "ms" if time_us >= 1e3 else "us"
    return f"{time_us / _TIME_UNITS[unit]:.3f}{unit}"


def _format_share(part: float, whole: float) -> str:
    return f"{part * 100.0 / whole:.2f}%" if whole else "NaN"


def _format_memory(count: int) -> str:
    for size, unit in ((1024**3, "GB"), (1024**2, "MB"), (1024, "KB")):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


class _Times:
    """What events and averages share: a device other than the CPU took no time; times as text."""

    cpu_time: float
    device_time = device_time_total = self_device_time_total = 0.0
    cuda_time = cuda_time_total = self_cuda_time_total = 0.0
    device_memory_usage = self_device_memory_usage = 0
    is_async = is_remote = is_legacy = False
    use_device: str | None = None
    node_id = -1
    device_type = DeviceType.CPU
    overload_name = ""

    def __getattr__(self, name: str) -> str:
        if name.endswith("_str") and not name.startswith("_"):
            return _format_time(getattr(self, name[: -len("_str")]))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class FunctionEvent(_Times):
    """One call of an operator, of a node, or of a block that `record_function` marks."""

    count = 1
    device_index = 0
    kwinputs: dict = {}

    def __init__(self, id: int, name: str, thread: int, start_us: float, end_us: float,
                 input_shapes: list | None = None, stack: list[str] | None = None, scope: int = 0,
                 cpu_memory_usage: int = 0, sequence_nr: int = -1, flops: int | None = None,
                 concrete_inputs: list | None = None,
                 is_user_annotation: bool = False) -> None:
        self.id, self.name, self.trace_name, self.thread, self.fwd_thread = id, name, name, thread, None
        self.time_range = Interval(start_us, end_us)
        self.input_shapes, self.concrete_inputs = input_shapes, concrete_inputs
        self.stack, self.scope, self.sequence_nr, self.flops = stack or [], scope, sequence_nr, flops
        self.cpu_memory_usage, self.is_user_annotation = cpu_memory_usage, is_user_annotation
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.kernels: list[Kernel] = []

    def append_cpu_child(self, child: "FunctionEvent") -> None:
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: "FunctionEvent") -> None:
        self.cpu_parent = parent

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time_total(self) -> float:
        return self.time_range.elapsed_us()

    cpu_time = cpu_time_total  # type: ignore[assignment]

    @property
    def self_cpu_time_total(self) -> float:
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return (f"<FunctionEvent id={self.id} name={self.name} overload_name= device_type=DeviceType.CPU node_id=-1 "
                f"cpu_time={self.cpu_time_str} start_us={self.time_range.start} end_us={self.time_range.end} "
                f"cpu_children={[child.id for child in self.cpu_children]} None_time=0.000us name={self.name} "
                f"thread={self.thread} input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
                f"None_memory_usage=0 is_async=False is_remote=False seq_nr={self.sequence_nr} is_legacy=False>")


class FunctionEventAvg(_Times):
    """Events of one key, summed."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = self.flops = 0
        self.input_shapes: list | str | None = None
        self.stack: list[str] = []
        self.scope: int | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.is_user_annotation = False

    @property
    def cpu_time(self) -> float:  # type: ignore[override]
        return self.cpu_time_total / self.count if self.count else 0.0

    def add(self, other: Any) -> "FunctionEventAvg":
        """Adds an event, or another sum."""
        if self.key is None:
            for name in ("key", "input_shapes", "stack", "scope", "cpu_parent", "cpu_children", "is_user_annotation"):
                setattr(self, name, getattr(other, name))
        for name in ("count", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops += other.flops or 0
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
                f"cpu_time={self.cpu_time_str}  self_cuda_time=0.000us cuda_time=0.000us "
                f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} cuda_memory_usage=0>")


class EventList(list):
    """Events in the order in which they began, or averages of them."""

    def __init__(self, events: Iterable = (), *, profile_memory: bool = False, with_flops: bool = False,
                 **options: Any) -> None:
        super().__init__(events)
        self._profile_memory, self._with_flops = profile_memory, with_flops

    @property
    def self_cpu_time_total(self) -> float:
        return sum(event.self_cpu_time_total for event in self)

    def __str__(self) -> str:
        return self.table()

    def _like(self, events: Iterable) -> "EventList":
        return EventList(events, profile_memory=self._profile_memory, with_flops=self._with_flops)

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> "EventList":
        """The events summed by name, and by shapes or the innermost callers where that is asked for."""
        sums: dict[tuple, FunctionEventAvg] = {}
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shapes else ""
            callers = event.stack[:group_by_stack_n] if group_by_stack_n else []
            average = sums.setdefault((event.key, shapes, *callers), FunctionEventAvg()).add(event)
            average.input_shapes, average.stack = shapes, callers
        return self._like(sums.values())

    def total_average(self) -> FunctionEventAvg:
        total = FunctionEventAvg()
        for event in self:
            total += event
            total.key = None
        total.key, total.input_shapes = "Total", []
        return total

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
              max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
              top_level_events_only: bool = False, time_unit: str | None = None) -> str:
        """The events as text, one a line."""
        if not self:
            return ""
        whole = self.self_cpu_time_total
        shown = list(self)
        if sort_by is not None:
            field = sort_by.replace("cuda", "device")
            shown.sort(key=lambda event: getattr(event, field), reverse=True)
        if top_level_events_only:
            shown = [event for event in shown if event.cpu_parent is None]
        columns: list[tuple[str, int, Callable[[Any], str]]] = [
            ("Name", _fitting((event.key for event in self), max_name_column_width), lambda e: e.key),
            ("Self CPU %", _COLUMN_WIDTH, lambda e: _format_share(e.self_cpu_time_total, whole)),
            ("Self CPU", _COLUMN_WIDTH, lambda e: _format_time(e.self_cpu_time_total, time_unit)),
            ("CPU total %", _COLUMN_WIDTH, lambda e: _format_share(e.cpu_time_total, whole)),
            ("CPU total", _COLUMN_WIDTH, lambda e: _format_time(e.cpu_time_total, time_unit)),
            ("CPU time avg", _COLUMN_WIDTH, lambda e: _format_time(e.cpu_time, time_unit)),
        ]
        if self._profile_memory:
            columns += [("CPU Mem", _COLUMN_WIDTH, lambda e: _format_memory(e.cpu_memory_usage)),
                        ("Self CPU Mem", _COLUMN_WIDTH, lambda e: _format_memory(e.self_cpu_memory_usage))]
        columns.append(("# of Calls", _COLUMN_WIDTH, lambda e: str(e.count)))
        if any(event.input_shapes for event in self):
            columns.append(("Input Shapes", _fitting((str(event.input_shapes) for event in self),
                                                     max_shapes_column_width), lambda e: str(e.input_shapes)))
        if any(event.stack for event in self):
            columns.append(("Source Location", _fitting((line for event in self for line in event.stack[:5]),
                                                        max_src_column_width), lambda e: (e.stack or [""])[0]))
        if self._with_flops:
            scale, unit = _flops_unit(max((event.flops or 0 for event in self), default=0))
            columns.append((f"Total {unit}", _COLUMN_WIDTH, lambda e: f"{e.flops / scale:.3f}" if e.flops else "--"))
        rule = "".join("-" * width + "  " for _, width, _ in columns)
        lines = [] if header is None else ["=" * len(rule), header]
        titles = "".join(f"{title:>{width}}  " for title, width, _ in columns)
        lines += ["=" * len(rule), "This report only display top-level ops statistics"] if top_level_events_only else []
        lines += [rule, titles, rule]
        for event in shown[: row_limit if row_limit >= 0 else None]:
            lines.append("".join(f"{_cut(text(event), width):>{width}}  " for _, width, text in columns))
        lines += [rule, f"Self CPU time total: {_format_time(whole, time_unit)}", ""]
        return "\n".join(lines)

    def export_chrome_trace(self, path: str, **more: Any) -> None:
        """Writes the events as chrome://tracing and Perfetto read them; compressed if the name ends in .gz."""
        process = os.getpid()
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "python"}},
            {"ph": "M", "name": "process_labels", "pid": process, "tid": 0, "args": {"labels": "CPU"}},
        ]
        forward: dict[int, FunctionEvent] = {}
        for event in self:
            category = {1: "cpu_op", 7: "user_annotation"}.get(event.scope, "cpu_op")
            args: dict[str, Any] = {"External id": event.id}
            if event.input_shapes:
                args |= {"Input Dims": event.input_shapes, "Concrete Inputs": [str(v) for v in event.concrete_inputs]}
            if event.sequence_nr >= 0:
                args["Sequence number"] = event.sequence_nr
            if event.stack:
                args["Call stack"] = ";".join(event.stack)
            place = {"pid": process, "tid": event.thread}
            events.append({"ph": "X", "cat": category, "name": event.name, "ts": event.time_range.start,
                           "dur": event.time_range.elapsed_us(), "args": args, **place})
            if event.sequence_nr < 0:
                continue
            link = {"cat": "fwdbwd", "name": "fwdbwd", "id": event.sequence_nr, "ts": event.time_range.start, **place}
            if event.scope == 1 and event.sequence_nr in forward:
                events.append({"ph": "f", "bp": "e", **link})
            elif event.scope == 0 and event.sequence_nr not in forward and not event.name.startswith("autograd::"):
                forward[event.sequence_nr] = event
                events.append({"ph": "s", **link})
        opener: Any = gzip.open if str(path).endswith(".gz") else open
        with opener(path, "wt") as file:
            json.dump({"schemaVersion": 1, "deviceProperties": [], "displayTimeUnit": "ms", **more,
                       "traceEvents": events, "traceName": str(path)}, file)

    def export_stacks(self, path: str, metric: str) -> None:
        """Writes one line a stack, outermost caller first, with its microseconds: what flame graph tools read."""
        if metric not in ("self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total"):
            raise ValueError("metric should be one of: ['self_cpu_time_total', 'self_cuda_time_total', "
                             "'self_xpu_time_total']")
        with open(path, "w") as file:
            for event in self:
                amount = int(getattr(event, metric.replace("xpu", "cuda")))
                if event.stack and amount > 0:
                    stack = ";".join(line.translate(str.maketrans(" ;\t\n", "____")) for line in reversed(event.stack))
                    file.write(f"{stack} {amount}\n")


def _fitting(texts: Iterable[str], limit: int) -> int:
    return min(max(map(len, texts)) + 4, limit)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _flops_unit(most: float) -> tuple[float, str]:
    units = ["FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"]
    step = 0
    while most >= 1000 and step < len(units) - 1:
        most, step = most / 1000, step + 1
    return 1000.0**step, units[step]
