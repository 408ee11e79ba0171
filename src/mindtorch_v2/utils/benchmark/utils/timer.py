"""Timer: timeit, with warm clocks, as many runs as the clock needs, and a set number of threads."""

import enum
import textwrap
import timeit
from collections.abc import Callable
from typing import Any

from ...._compat.absent import refuse
from .common import Measurement, TaskSpec, set_torch_threads

__all__ = ["Language", "Timer", "timer"]


def timer() -> float:
    """The time, once an accelerator has done what it was asked to."""
    from .... import accelerator

    if accelerator.is_available():
        accelerator.synchronize()
    return timeit.default_timer()


class Language(enum.Enum):
    """What a statement is written in."""

    PYTHON, CPP = 0, 1


class Timer:
    """Measures how long a statement takes."""

    def __init__(self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
                 timer: Callable[[], float] = timer, globals: dict[str, Any] | None = None, label: str | None = None,
                 sub_label: str | None = None, description: str | None = None, env: str | None = None,
                 num_threads: int = 1, language: Language | str = Language.PYTHON) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, Language.CPP, "py", "python", "c++"):
            raise ValueError(f"Invalid language `{language}`.")
        if language in (Language.CPP, "c++"):
            refuse("timing of C++ statements", "Write the statement in Python.")
        if global_setup:
            raise ValueError(f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be "
                             "moved to `setup`.")
        import mindtorch_v2 as torch

        stmt, setup = (textwrap.dedent(code).strip() for code in (stmt, setup))
        self._globals = {"torch": torch, **(globals or {})}
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=self._globals)
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        # A statement that takes no time at all still gets one: rates and digits divide by it.
        return max(self._timer.timeit(number), 1e-9)

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number_per_run=number, raw_times=times, task_spec=self._task_spec)

    def timeit(self, number: int = 1000000) -> Measurement:
        """The time of one block of `number` runs, after a short warm-up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return self._measured(number, [self._timeit(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """So many runs that the timer's own cost is lost in them."""
        overhead = sorted(self._timer_overhead() for _ in range(5))[2]
        number = 1
        while True:
            taken = self._timeit(number)
            if taken > min_run_time or (overhead / taken <= 1e-4 and taken >= min_run_time / 1000):
                return number
            number *= 10

    def _timer_overhead(self) -> float:
        clock: Any = self._timer  # what it reads is not in its stub
        start = clock.timer()
        return clock.timer() - start

    def blocked_autorange(self, callback: Callable[[int, float], Any] | None = None,
                          min_run_time: float = 0.2) -> Measurement:
        """Blocks of runs until `min_run_time` seconds are measured."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            times: list[float] = []
            while sum(times) < min_run_time:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
        return self._measured(number, times)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
                           callback: Callable[[int, float], Any] | None = None) -> Measurement:
        """Blocks of runs until their times lie close together, or `max_run_time` is over."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)
            times: list[float] = []
            while sum(times) < max_run_time:
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                enough = sum(times) >= min_run_time and len(times) > 3
                if enough and self._measured(number, times).meets_confidence(threshold):
                    break
        return self._measured(number, times)

    def collect_callgrind(self, number: int = 100, *, repeats: int | None = None, collect_baseline: bool = True,
                          retain_out_file: bool = False) -> Any:
        refuse("counting of instructions with Valgrind", "Use blocked_autorange().")
