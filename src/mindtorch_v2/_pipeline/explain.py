"""What pipelines and compiled functions did: the recorded calls, the kernels they became, their time and memory."""

import atexit
import functools
import html
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .plan import Buffer, Plan
from .trace import Entry, Free, Trace, Value

_BIG = 1 << 26  # bytes that are copied to find out the bandwidth
_SHOWN = 200_000  # characters of a kernel's source on a page


class Flush(NamedTuple):
    """One plan, and how often it ran."""

    trace: Trace
    plan: Plan
    runs: int
    seconds: float | None  # of all runs


class Explanation:
    """Prints as a table; `html()` is a page, `save(path)` writes it. Notebooks show the page."""

    def __init__(
        self, history: Iterable[tuple[Trace, Plan]] = (), title: str = "pipeline", notes: Sequence[str] = ()
    ) -> None:
        self.title, self.notes = title, list(notes)
        self.flushes: list[Flush] = []
        for trace, plan in history:
            self.add(trace, plan)

    def add(self, trace: Trace, plan: Plan) -> None:
        """Takes a run of a plan in: a plan that ran before is counted once more."""
        if not plan.steps:
            return
        took = [step.seconds for step in plan.steps if step.seconds is not None]
        seconds = sum(took) if took else None
        for position, known in enumerate(self.flushes):
            if known.plan is plan:
                total = None if known.seconds is None or seconds is None else known.seconds + seconds
                self.flushes[position] = Flush(trace, plan, known.runs + 1, total)
                return
        self.flushes.append(Flush(trace, plan, 1, seconds))

    def data(self) -> dict[str, Any]:
        """Everything on the page, as numbers, texts and lists."""
        devices = {_device(f.trace) for f in self.flushes}
        speeds = {name: bandwidth(name) for name in devices}
        return {
            "title": self.title,
            "notes": self.notes,
            "bandwidth": speeds,
            "plans": [_plan_data(f, speeds[_device(f.trace)]) for f in self.flushes],
        }

    def __str__(self) -> str:
        return _text(self.data())

    def __repr__(self) -> str:
        return str(self)

    def html(self) -> str:
        """A page that needs nothing but a browser."""
        page = Path(__file__).with_name("explain.html").read_text(encoding="utf-8")
        shown = json.dumps(self.data(), separators=(",", ":")).replace("<", "\\u003c")
        return page.replace("%TITLE%", html.escape(self.title)).replace("%DATA%", shown)

    def _repr_html_(self) -> str:
        return f'<iframe style="width:100%;height:640px;border:0" srcdoc="{html.escape(self.html())}"></iframe>'

    def save(self, path: str | os.PathLike) -> None:
        """Writes the page."""
        Path(path).write_text(self.html(), encoding="utf-8")


# numbers -------------------------------------------------------------------------------------------------------------


@functools.cache
def bandwidth(device: str) -> float | None:
    """Bytes a second that a plain copy on a device reads and writes; None where none can be timed."""
    import mindtorch_v2 as torch

    if device == "meta":
        return None
    source = torch.zeros(_BIG, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        target.copy_(source)
        if device != "cpu":
            torch.accelerator.synchronize()
        best = min(best, time.perf_counter() - begin)
    return 2 * _BIG / best


def _device(trace: Trace) -> str:
    return str(trace.layouts[0].device)


def _argument(value: Any, trace: Trace) -> str:
    if value.__class__ is Value:
        return f"v{int(value)}"
    if value.__class__ is Free:
        return repr(trace.numbers[value])
    if value.__class__ is tuple:
        return "[" + ", ".join(_argument(v, trace) for v in value) + "]"
    return str(value)


def _value(number: int, trace: Trace) -> str:
    return f"v{number}: {trace.layouts[number]!r}"


def _work(entry: Entry, trace: Trace) -> int:
    """Operations of a call, by its declaration's formula; without one, an operation for each element it makes."""
    results = [trace.layouts[n] for n in entry.results if n is not None]
    declaration = entry.operator.declaration
    if declaration is None or declaration.flops is None:
        return sum(layout.size for layout in results)

    def shape(value: Any) -> Any:
        if value.__class__ is Value:
            return trace.layouts[value].shape
        return tuple(map(shape, value)) if value.__class__ is tuple else value

    made = tuple(layout.shape for layout in results)
    return declaration.flops.count(*map(shape, entry.arguments), out_shape=made[0] if len(made) == 1 else made)


def _memory(plan: Plan) -> list[Buffer]:
    """What a run holds: the planned buffers, or each value from the step that makes it to the last that reads it."""
    if plan.memory:
        return list(plan.memory)
    made: dict[int, int] = {}
    last: dict[int, int] = {}
    root = plan.places.root
    for at, step in enumerate(plan.steps):
        if step.kind != "view":
            made.update((root[n], made.get(root[n], at)) for n in step.outputs)
        last.update((root[n], at) for n in (*step.inputs, *step.outputs))
    last.update((root[n], len(plan.steps) - 1) for n in plan.outputs)
    outside = set(plan.inputs)
    return [Buffer(n, plan.layouts[n].nbytes, at, last[n]) for n, at in made.items() if n not in outside]


def _plan_data(flush: Flush, speed: float | None) -> dict[str, Any]:
    trace, plan = flush.trace, flush.plan
    recorded = plan.entries
    step_of = {number: position for position, step in enumerate(plan.steps) for number in step.entries}
    entries = []
    for position, entry in enumerate(recorded):
        schema = entry.operator.schema
        arguments = [_argument(value, trace) for value in entry.arguments]
        while len(arguments) > 1 and entry.arguments[len(arguments) - 1] is schema.defaults[len(arguments) - 1]:
            arguments.pop()
        results = [_value(n, trace) for n in entry.results if n is not None]
        entries.append({
            "name": entry.operator.name.removeprefix("aten::"), "arguments": ", ".join(arguments), "kind": entry.kind,
            "results": results, "where": entry.where or "", "step": step_of.get(position)})  # fmt: skip
    steps = []
    for step in plan.steps:
        rate = step.bytes / step.seconds if step.seconds else None
        work = [_work(recorded[e], trace) for e in step.entries if recorded[e].kind != "view"]
        steps.append({
            "kind": step.kind, "entries": list(step.entries), "bytes": int(step.bytes),
            "flops": int(step.flops) or sum(work),
            "seconds": step.seconds, "rate": rate,
            "share": rate / speed if rate and speed else None,
            "source": str(step.source())[:_SHOWN], "launches": list(step.launches),
            "reads": [_value(n, trace) for n in step.inputs],
            "writes": [_value(n, trace) for n in step.outputs]})  # fmt: skip
    buffers = _memory(plan)
    held = [sum(b.nbytes for b in buffers if b.first <= at <= b.last) for at in range(len(plan.steps))]
    return {"device": _device(trace), "runs": flush.runs, "seconds": flush.seconds, "peak": max(held, default=0),
            "inputs": [_value(n, trace) for n in trace.inputs], "memory": held, "entries": entries,
            "buffers": [[int(b.number), int(b.nbytes), b.first, b.last] for b in buffers],
            "outputs": [f"v{n}" for n in trace.outputs], "steps": steps}  # fmt: skip


# text ----------------------------------------------------------------------------------------------------------------


def amount(number: float, unit: str = "B", base: int = 1024) -> str:
    """A number with a prefix, three digits long."""
    for prefix in ("", "K", "M", "G", "T"):
        if abs(number) < base or prefix == "T":
            return (
                f"{number:.3g} {prefix}{unit}".rstrip() if number < 100 or prefix else f"{number:.0f} {unit}".rstrip()
            )
        number /= base
    raise AssertionError


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return (
        f"{seconds * 1e6:.1f} us"
        if seconds < 1e-3
        else f"{seconds * 1e3:.3g} ms"
        if seconds < 1
        else f"{seconds:.3g} s"
    )


def _shortened(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _names(entries: list[dict[str, Any]]) -> str:
    names: list[str] = []
    for entry in entries:
        if entry["kind"] != "view" or len(entries) == 1:
            names.append(entry["name"])
    return _shortened(" ".join(names) or " ".join(e["name"] for e in entries))


def _text(data: dict[str, Any]) -> str:
    lines = [data["title"], *data["notes"]]
    if not data["plans"]:
        return "\n".join([*lines, "Nothing was recorded."])
    for position, plan in enumerate(data["plans"], 1):
        calls = sum(e["kind"] != "view" for e in plan["entries"])
        kernels = sum(s["kind"] != "view" for s in plan["steps"])
        lines += [
            "",
            f"plan {position} on {plan['device']}: {calls} calls in {kernels} kernels, {plan['runs']} "
            f"run{'s' * (plan['runs'] != 1)}, {_time(plan['seconds'])}, memory {amount(plan['peak'])} at most",
            f"{'step':>4}  {'kind':<10} {'bytes':>9} {'flops':>8} {'time':>9} {'bandwidth':>9}  calls",
        ]
        for number, step in enumerate(plan["steps"]):
            if step["kind"] == "view":
                continue
            share = "-" if step["share"] is None else f"{step['share'] * 100:.0f}%"
            lines.append(
                f"{number:>4}  {step['kind']:<10} {amount(step['bytes']):>9} {amount(step['flops'], '', 1000):>8} "
                f"{_time(step['seconds']):>9} {share:>9}  {_names([plan['entries'][e] for e in step['entries']])}"
                + (f": {_shortened(' '.join(step['launches']))}" if step["launches"] else "")
            )
    return "\n".join(lines)


# a whole program -----------------------------------------------------------------------------------------------------


def watch_program(path: str) -> Explanation:
    """Records the calling thread from now on, other pipelines too; the page is written when the program ends."""
    from .record import Pipeline

    made = Explanation(title=" ".join(sys.argv) if sys.argv else "program")
    compute = Pipeline.compute

    def watched(self: Any, trace: Trace) -> Sequence[Any]:
        self.timed = True
        arrays = compute(self, trace)
        plan = self.history[-1][1]
        made.add(trace, plan)
        if not self.keeps:
            trace.inputs = dict.fromkeys(trace.inputs)  # the page needs their layouts, nobody their elements
        return arrays

    Pipeline.compute = watched  # type: ignore[method-assign]
    pipe = Pipeline()
    pipe.lines = True
    pipe.__enter__()

    def finish() -> None:
        pipe.__exit__(None)
        made.save(path)

    atexit.register(finish)
    return made
