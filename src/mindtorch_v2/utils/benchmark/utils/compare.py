"""Tables of measurements: a row a task and number of threads, a column a description."""

import enum
import math
from collections.abc import Iterable, Sequence

from .common import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

__all__ = ["Colorize", "Compare"]

_END = "\033[0m\033[0m"
_BEST, _GOOD, _BAD, _VERY_BAD = "\033[92m\033[1m", "\033[34m\033[1m", "\033[2m\033[91m", "\033[31m\033[1m"
_NOTE = "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n"

_Row = tuple[int, str, str]  # threads, environment, name


class Colorize(enum.Enum):
    """Against which other times a time is coloured."""

    NONE, COLUMNWISE, ROWWISE = "none", "columnwise", "rowwise"


def _coloured(text: str, value: float, best: float) -> str:
    for colour, holds in ((_BEST, value <= best * 1.01), (_GOOD, value <= best * 1.1), (_VERY_BAD, value >= best * 5),
                          (_BAD, value >= best * 2)):
        if holds:
            return f"{colour}{text}{_END}"
    return text


class Compare:
    """Prints measurements as tables, one for each label."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trims = self._warns = False
        self._colours = Colorize.NONE

    def extend_results(self, results: Iterable[Measurement]) -> None:
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
            self._results.append(result)

    def trim_significant_figures(self) -> None:
        """Shows no more digits than the measurements support."""
        self._trims = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colours times by how they compare with the best of their column, or of their row."""
        self._colours = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Marks measurements whose times vary much."""
        self._warns = True

    def print(self) -> None:
        """Prints the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = ordered_unique(m.task_spec.label for m in merged)
        return "\n".join(self._table([m for m in merged if m.task_spec.label == label]) for label in labels)

    def _table(self, results: Sequence[Measurement]) -> str:
        cells = {(_row(m), m.task_spec.description or ""): m for m in results}
        rows = sorted(ordered_unique(_row(m) for m in results), key=lambda row: row[:2])
        columns = ordered_unique(m.task_spec.description or "" for m in results)
        unit, scale = select_unit(min(m.median for m in results))
        several = len({row[1] for row in rows}) > 1
        prefix = max(len(row[1]) for row in rows) + 2
        names = {row: f"  {f'({row[1]})'.ljust(prefix) if several else '  '}  {row[2]}" for row in rows}
        texts = {}
        for column in columns:
            given = {row: cells.get((row, column)) for row in rows}
            texts.update({(row, column): text for row, text in self._column(given, scale).items()})
        widths = [max(len(column), *(len(texts[row, column]) for row in rows)) for column in columns]
        first = max(map(len, names.values()))

        def line(name: str, values: Iterable[str]) -> str:
            return "  |  ".join((name.ljust(first), *values))

        lines = [line("", (c.center(w) for c, w in zip(columns, widths, strict=True)))]
        whole, threads = len(lines[0]), None
        for row in rows:
            if row[0] != threads:
                threads = row[0]
                heading = f"{threads} threads: "
                lines.append(heading + "-" * (whole - len(heading)))
            values = []
            for column, width in zip(columns, widths, strict=True):
                text, measured = texts[row, column].center(width), cells.get((row, column))
                if measured is not None and self._colours is not Colorize.NONE:
                    text = _coloured(text, measured.median, self._best(cells, row, column))
                values.append(text)
            lines.append(line(names[row], values))
        title = f" {results[0].task_spec.label or ''} ".center(whole - 2, "-")
        note = _NOTE if self._warns and any(m.has_warnings for m in results) else ""
        return "\n".join([f"[{title}]", *lines, "", f"Times are in {unit_to_english(unit)}s ({unit}).", note])

    def _best(self, cells: dict[tuple[_Row, str], Measurement], row: _Row, column: str) -> float:
        """The least time that a cell is compared with."""
        rowwise = self._colours is Colorize.ROWWISE
        return min(m.median for (r, c), m in cells.items() if (r == row if rowwise else c == column and r[0] == row[0]))

    def _column(self, given: dict[_Row, Measurement | None], scale: float) -> dict[_Row, str]:
        measured = [m for m in given.values() if m is not None]
        digits = [math.ceil(math.log10(m.median / scale)) for m in measured]
        decimals = 1
        if self._trims:
            decimals = min(max(m.significant_figures - d, 0) for m, d in zip(measured, digits, strict=True))
        width = max(digits) + decimals + (1 if decimals else 0)
        warns = self._warns and any(m.has_warnings for m in measured)

        def text(m: Measurement | None) -> str:
            if m is None:
                return ""
            value = trim_sigfig(m.median / scale, m.significant_figures) if self._trims else m.median / scale
            spread = f" (! {m.iqr / m.median * 100:.0f}%)" if warns and m.has_warnings else ""
            return f"{value:{max(width, 0)}.{decimals}f}{spread:>{7 if warns else 0}}"

        return {row: text(m) for row, m in given.items()}


def _row(m: Measurement) -> _Row:
    return m.task_spec.num_threads, m.task_spec.env or "", m.as_row_name
