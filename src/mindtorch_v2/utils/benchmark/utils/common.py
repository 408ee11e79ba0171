"""Measurements: what was run, how long it took, and how sure that is."""

import contextlib
import dataclasses
import math
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ...._core.threads import get_num_threads, set_num_threads

__all__ = ["Measurement", "TaskSpec", "ordered_unique", "select_unit", "set_torch_threads", "trim_sigfig",
           "unit_to_english"]

_MOST_FIGURES, _LEAST_ERROR = 4, 25e-9  # nobody trusts more digits, or a clock further than this many seconds
_SPREAD_TO_NOTE, _SPREAD_TO_WARN_OF = 0.1, 0.25
_UNITS = {"ns": (1e-9, "nanosecond"), "us": (1e-6, "microsecond"), "ms": (1e-3, "millisecond"), "s": (1, "second")}


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What a measurement ran, and what it is called."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        if self.setup == "pass" or not self.setup:
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup, one after the other."""
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts if part)


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """The times of several runs of one task."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    @property
    def times(self) -> list[float]:
        """Seconds a run."""
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, q: float) -> float:
        return float(np.quantile(self.times, q)) if self.raw_times else math.nan

    @property
    def median(self) -> float:
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        return float(np.mean(self.times)) if self.raw_times else math.nan

    @property
    def iqr(self) -> float:
        """The width of the middle half of the times."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits the middle half of the times supports, at a confidence of nine in ten."""
        count = len(self.raw_times)
        middle = sorted(self.times)[count // 4 : math.ceil(3 * count / 4)]
        error = max(1.645 * float(np.std(middle)) / math.sqrt(len(middle)), _LEAST_ERROR)
        return min(max(math.floor(math.log10(self.median / error)), 1), _MOST_FIGURES)

    @property
    def has_warnings(self) -> bool:
        return not self.meets_confidence()

    def meets_confidence(self, threshold: float = _SPREAD_TO_NOTE) -> bool:
        """Whether the times lie close together."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def env(self) -> str:
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self) -> str:
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __getattr__(self, name: str) -> Any:
        if name in ("stmt", "setup", "label", "sub_label", "description", "num_threads"):
            return getattr(self.task_spec, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        count, threads = len(self.raw_times), self.task_spec.num_threads
        lines = [object.__repr__(self), self.task_spec.summarize(),
                 f"  {'Median: ' if count > 1 else ''}{self.median / scale:.2f} {unit}"]
        if count >= 4:
            low, high = (self._quantile(q) / scale for q in (0.25, 0.75))
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        lines.append(f"  {count} measurement{'s' if count > 1 else ''}, {self.number_per_run} runs "
                     f"{'per measurement,' if count > 1 else ','} {threads} thread{'s' if threads > 1 else ''}")
        if self.has_warnings:
            spread = self.iqr / self.median
            verdict = ("This suggests significant environmental influence." if spread > _SPREAD_TO_WARN_OF
                       else "This could indicate system fluctuation.")
            lines += [f"  WARNING: Interquartile range is {spread * 100:.1f}% of the median measurement.",
                      f"           {verdict}"]
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable["Measurement"]) -> list["Measurement"]:
        """One measurement for each task, of all its times."""
        grouped: dict[TaskSpec, list[Measurement]] = {}
        for measurement in measurements:
            grouped.setdefault(measurement.task_spec, []).append(measurement)
        return [Measurement(1, [t for m in group for t in m.times], task) for task, group in grouped.items()]


def select_unit(t: float) -> tuple[str, float]:
    """The unit that a time reads best in, and its seconds."""
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(math.floor(math.log10(t) / 3), "s")
    return unit, _UNITS[unit][0]


def unit_to_english(u: str) -> str:
    return _UNITS[u][1]


def trim_sigfig(x: float, n: int) -> float:
    """A number rounded to some significant digits."""
    scale = 10 ** (math.ceil(math.log10(abs(x))) - n) if x else 1
    return float(round(x / scale) * scale)


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Context with another number of threads."""
    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)
