"""`trace(program, "out.html")`: everything that a program did, as one page to step through in a browser.

A trace is a profiler's recording (_profile.py) that looks closer: at each call it keeps where in the program it was
made, what went in and came out, which keys served it, what was recorded for backward and what memory came to be. While
none runs, calls pay nothing.
"""

import inspect
import json
import linecache
import os
import pickle
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from .._core.tensor import Tensor
from .._dispatch.callers import SOURCES
from .._dispatch.keys import PROFILER_MASK, DispatchKeySet
from .._dispatch.registry import Around, Operator, registry
from .._profile import BACKWARD_FUNCTION, FUNCTION, USER_SCOPE, Entry, Recorder, recorder
from .._show import describe_kernels

__all__ = ["Trace", "trace"]

MODULE = 100  # the scope of a module's call
KINDS = {FUNCTION: "operator", BACKWARD_FUNCTION: "backward", USER_SCOPE: "mark", MODULE: "module"}
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_MOST_FRAMES, _MOST_LINES, _MOST_SOURCE = 8, 3000, 20_000
_TEMPLATE = Path(__file__).with_name("trace_page.html")


def trace(program: Callable[[], Any], path: Any = None, *, most_calls: int = 20_000) -> "Trace":
    """The trace of `program()`, whose value is its `result`; with a path, the page is written there."""
    with Trace(most_calls=most_calls) as traced:
        traced.result = program()
    if path is not None:
        traced.save(path)
    return traced


class Trace:
    """A recording of what runs in its block: `save` writes it as a page, `save_memory` for PyTorch's memory_viz.

    After `most_calls` calls it records no more, and says so.
    """

    result: Any = None

    def __init__(self, *, most_calls: int = 20_000) -> None:
        self._tracer = _Tracer(most_calls)
        self._handles: list[Any] = []

    def __enter__(self) -> Self:
        from ..nn.modules import module as modules

        if recorder() is not None:
            raise RuntimeError("a profiler or another trace is running on this thread already")
        before, after = self._tracer.enter_module, self._tracer.leave_module
        self._handles = [modules.register_module_forward_pre_hook(before),
                         modules.register_module_forward_hook(after, always_call=True)]  # fmt: skip
        self._tracer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._tracer.stop()
        for handle in self._handles:
            handle.remove()

    def __len__(self) -> int:
        return len(self._tracer.entries)

    @property
    def data(self) -> dict[str, Any]:
        """What the page shows, as JSON has it."""
        return self._tracer.described()

    def html(self) -> str:
        """The page: one file that asks nothing of any host."""
        text = json.dumps(self.data, separators=(",", ":"), default=str)
        return _TEMPLATE.read_text(encoding="utf-8").replace("/*DATA*/null", text.replace("</", "<\\/"))

    def save(self, path: Any) -> None:
        """Writes the page."""
        Path(path).write_text(self.html(), encoding="utf-8")

    def save_memory(self, path: Any) -> None:
        """Writes a snapshot of memory as PyTorch's `_dump_snapshot` does, for pytorch.org/memory_viz."""
        with open(path, "wb") as file:
            pickle.dump(self._tracer.snapshot(), file)

    def _repr_html_(self) -> str:
        page = self.html().replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 720px; border: 0"></iframe>'

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} calls; save(path) writes it as a page>"


class _Block:
    """Memory that a call made, or met for the first time."""

    __slots__ = ("born", "bytes", "freed", "reference", "when", "when_freed")

    def __init__(self, born: int, size: int, when: int) -> None:
        self.born, self.bytes, self.when = born, size, when
        self.freed: int | None = None
        self.when_freed = 0
        self.reference: Any = None


class _Tracer(Recorder):
    """The recorder behind a trace. Steps are positions in `entries`."""

    def __init__(self, most_calls: int) -> None:
        super().__init__()
        self.most_calls, self.is_full = most_calls, False
        self.details: dict[int, dict[str, Any]] = {}  # step -> what else is known of the call
        self.steps: dict[int, int] = {}  # id of an entry -> its step
        self.frames: dict[tuple, int] = {}
        self.stacks: dict[tuple[int, ...], int] = {}
        self.operators: dict[Operator, int] = {}
        self.paths: dict[tuple[Operator, int], int] = {}
        self.nodes: dict[int, dict[str, Any]] = {}
        self.blocks: list[_Block] = []
        self.alive: dict[int, int] = {}  # id of memory's owner -> number of its block
        self.names: dict[int, str] = {}  # id of a module -> its dotted name
        self.leaves: dict[int, int] = {}
        self.kept: list[Any] = []  # what must not go, so that its id stays its own

    # recording -------------------------------------------------------------------------------------------------------

    def begin(self, name: str, scope: int = FUNCTION, args: Sequence[Any] = ()) -> Entry:
        parent = self.open[-1] if self.open else None
        entry = Entry(name, 0, 0, parent, scope=scope)
        self.open.append(entry)
        if len(self.entries) >= self.most_calls:
            self.is_full = True
        else:
            step = self.steps[id(entry)] = len(self.entries)
            self.entries.append(entry)
            self.details[step] = {"stack": self._stack(), "in": [self._value(a, step) for a in args]}
        entry.start = time.perf_counter_ns()
        return entry

    def note(self, entry: Entry, operator: Operator, mask: int, args: Sequence[Any], result: Any) -> None:
        step = self.steps.get(id(entry))
        if step is None:
            return
        details = self.details[step]
        details["operator"] = self.operators.setdefault(operator, len(self.operators))
        details["path"] = self.paths.setdefault((operator, mask & ~PROFILER_MASK), len(self.paths))
        results = result if isinstance(result, (tuple, list)) else (result,)
        details["out"] = [self._value(r, step, made=True) for r in results]
        for r in results:
            edge = getattr(r, "_edge", None)
            if edge is not None and edge[1] >= 0:
                details["node"] = self._node(edge[0], step)
        self._check_names(args)

    def watch(self, task: Any) -> None:
        """Lets a backward pass run each node inside an entry, and itself inside one."""
        run_all = task.run_from

        def run_from(starts: Sequence[Any]) -> None:
            entry = self.begin("backward", USER_SCOPE)
            try:
                run_all(starts)
            finally:
                self.finish(entry)

        task.run_from = run_from

        def watched(run: Callable, name_of: Callable[[Any], str]) -> Callable:
            def recorded(target: Any, grads: list) -> Any:
                entry = self.begin(name_of(target), BACKWARD_FUNCTION, grads)
                step = self.steps.get(id(entry))
                is_node = hasattr(target, "seq")
                if step is not None and is_node:
                    self._node(target, None)["ran"] = step
                    self.details[step]["node"] = target.seq
                try:
                    result = run(target, grads)
                finally:
                    self.finish(entry)
                if step is not None and is_node and result is not None:
                    self.details[step]["out"] = [self._value(r, step) for r in result]
                elif step is not None and not is_node:
                    self.details[step]["out"] = [self._value(target.grad, step, made=True)]
                return result

            return recorded

        task.run_node = watched(task.run_node, lambda node: node.name().rpartition("::")[2])
        task.run_leaf = watched(task.run_leaf, lambda leaf: f"AccumulateGrad {self._leaf_name(leaf)}")

    def enter_module(self, module: Any, args: tuple) -> None:
        if id(module) not in self.names:
            self.kept.append(module)
            root = type(module).__name__
            for name, part in module.named_modules():
                self.names.setdefault(id(part), f"{root}.{name}" if name else root)
            for name, parameter in module.named_parameters():
                self.leaves.setdefault(id(parameter), len(self.leaves))
                self.kept.append(parameter)
                self.names.setdefault(id(parameter), name)
        entry = self.begin(self.names[id(module)], MODULE, [a for a in args if isinstance(a, Tensor)])
        step = self.steps.get(id(entry))
        if step is not None:
            self.details[step]["class"] = type(module).__name__

    def leave_module(self, module: Any, args: tuple, output: Any) -> None:
        entry = next((e for e in reversed(self.open) if e.scope == MODULE), None)
        if entry is None:
            return
        self.finish(entry)
        step = self.steps.get(id(entry))
        if step is not None:
            outputs = output if isinstance(output, (tuple, list)) else (output,)
            self.details[step]["out"] = [self._value(o, step) for o in outputs if isinstance(o, Tensor)]

    def _check_names(self, args: Sequence[Any]) -> None:
        """Numbers the leaves among arguments, so that the graph can name them."""
        for value in args:
            if isinstance(value, Tensor) and value._edge is None and value.requires_grad:
                self._leaf(value)

    def _leaf(self, tensor: Any) -> int:
        if id(tensor) not in self.leaves:
            self.kept.append(tensor)
            self.leaves[id(tensor)] = len(self.leaves)
        return self.leaves[id(tensor)]

    def _leaf_name(self, tensor: Any) -> str:
        return self.names.get(id(tensor), f"leaf {self._leaf(tensor)}")

    def _node(self, node: Any, step: int | None) -> Any:
        """What is known of a recorded node: its number if it was made at `step`, else its description."""
        known = self.nodes.get(node.seq)
        if known is None:
            edges: list[Any] = []
            for edge in node.edges:
                if edge is not None:
                    edges.append(edge[0].seq if edge[1] >= 0 else -1 - self._leaf(edge[0]))
            saved = [[name, self._value(value, step or 0)] for name, value in
                     zip(type(node).saved_names or [""] * len(node.saved or ()), node.saved or (), strict=False)
                     if isinstance(value, Tensor) or type(value).__name__ == "SavedOutput"]  # fmt: skip
            known = self.nodes[node.seq] = {"name": node.name().rpartition("::")[2], "made": step, "edges": edges,
                                            "saved": saved, "ran": None}  # fmt: skip
        return known if step is None else node.seq

    def _stack(self) -> int:
        """The number of the program's frames that lead here, the innermost first."""
        numbers: list[int] = []
        frame: Any = sys._getframe(2)
        while frame is not None and len(numbers) < _MOST_FRAMES:
            code = frame.f_code
            if not code.co_filename.startswith((_PACKAGE, "<frozen")) and frame.f_globals.get("__name__") != "runpy":
                key = (code.co_filename, frame.f_lineno, code.co_name)
                numbers.append(self.frames.setdefault(key, len(self.frames)))
            frame = frame.f_back
        return self.stacks.setdefault(tuple(numbers), len(self.stacks))

    def _value(self, value: Any, step: int, made: bool = False) -> Any:
        """A value as the page shows it: tensors by shape, strides, type, device and the block that they lie in."""
        if type(value).__name__ == "SavedOutput":
            value = value.tensor
        if isinstance(value, Tensor):
            array = value._array
            shape = list(array.shape)
            strides = [s // array.itemsize for s in array.strides] if getattr(array, "itemsize", 0) else []
            kind = str(value.dtype).removeprefix("torch.")
            described = {"shape": shape, "strides": strides, "type": kind, "device": str(value.device),
                         "block": self._block(array, step, made), "grad": bool(value.requires_grad)}  # fmt: skip
            return {**described, "name": self.names[id(value)]} if id(value) in self.names else described
        if isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value):
            return [self._value(v, step, made) for v in value]
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."

    def _block(self, array: Any, step: int, made: bool) -> int | None:
        """The number of the memory that an array lies in; None if it has none of its own to follow."""
        owner = array
        while getattr(owner, "base", None) is not None and hasattr(owner.base, "nbytes"):
            owner = owner.base
        number = self.alive.get(id(owner))
        if number is not None:
            return number
        number = len(self.blocks)
        block = _Block(step if made else -1, getattr(owner, "nbytes", 0), time.perf_counter_ns())

        def freed(_: Any, key: int = id(owner)) -> None:
            block.freed, block.when_freed = len(self.entries), time.perf_counter_ns()
            self.alive.pop(key, None)

        try:
            block.reference = weakref.ref(owner, freed)
        except TypeError:  # memory that cannot be followed, as a meta tensor's
            return None
        self.blocks.append(block)
        self.alive[id(owner)] = number
        return number

    # what is shown ---------------------------------------------------------------------------------------------------

    def described(self) -> dict[str, Any]:
        """The recording as plain data."""
        begun = self.begun
        entries = []
        for step, entry in enumerate(self.entries):
            parent = entry.parent
            while parent is not None and id(parent) not in self.steps:
                parent = parent.parent
            entries.append({"name": entry.name.removeprefix("aten::"), "kind": KINDS.get(entry.scope, "mark"),
                            "parent": -1 if parent is None else self.steps[id(parent)],
                            "start": (entry.start - begun) / 1000, "end": (max(entry.end, entry.start) - begun) / 1000,
                            **self.details[step]})  # fmt: skip
        named = {number: self.names.get(key, f"leaf {number}") for key, number in self.leaves.items()}
        blocks = [{"bytes": b.bytes, "born": b.born, "freed": b.freed} for b in self.blocks]
        return {"program": " ".join(sys.argv[:1]), "entries": entries, "full": self.is_full,
                "stacks": [list(stack) for stack in self.stacks], "frames": [list(frame) for frame in self.frames],
                "files": _texts({frame[0] for frame in self.frames}),
                "operators": [_described_operator(operator) for operator in self.operators],
                "paths": [_path(operator, mask) for operator, mask in self.paths], "nodes": self.nodes,
                "leaves": [named[number] for number in range(len(named))], "blocks": blocks}  # fmt: skip

    def snapshot(self) -> dict[str, Any]:
        """Memory in the form that PyTorch's viewer reads: a history of allocations, and what is alive at the end."""
        address, places = 0x10_0000, []
        events: list[dict[str, Any]] = []
        living: list[dict[str, Any]] = []
        for block in self.blocks:
            places.append(address)
            address += -(-max(block.bytes, 1) // 512) * 512
        stacks = list(self.stacks)
        frames = [{"filename": file, "line": line, "name": name} for file, line, name in self.frames]
        for block, place in zip(self.blocks, places, strict=True):
            own = stacks[self.details[block.born]["stack"]] if block.born >= 0 else ()
            event = {"addr": place, "size": block.bytes, "stream": 0, "frames": [frames[i] for i in own]}
            events.append({**event, "action": "alloc", "time_us": block.when // 1000})
            if block.freed is not None:
                events.append({**event, "action": "free_requested", "time_us": block.when_freed // 1000})
                events.append({**event, "action": "free_completed", "time_us": block.when_freed // 1000})
            else:
                living.append({"address": place, "size": block.bytes, "requested_size": block.bytes,
                               "state": "active_allocated", "frames": event["frames"]})  # fmt: skip
        events.sort(key=lambda event: event["time_us"])
        total = address - 0x10_0000
        segment = {"address": 0x10_0000, "total_size": total, "stream": 0, "segment_type": "large", "device": 0,
                   "allocated_size": sum(b["size"] for b in living), "active_size": sum(b["size"] for b in living),
                   "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                   "blocks": _filled(living, 0x10_0000, total)}  # fmt: skip
        return {"segments": [segment], "device_traces": [events], "allocator_settings": {}}


def _filled(living: list[dict[str, Any]], start: int, total: int) -> list[dict[str, Any]]:
    """Blocks that are alive, with inactive ones in the gaps, as a segment has them."""
    made, at = [], start
    for block in living:
        if block["address"] > at:
            made.append({"address": at, "size": block["address"] - at, "requested_size": 0, "state": "inactive",
                         "frames": []})  # fmt: skip
        made.append(block)
        at = block["address"] + block["size"]
    if at < start + total:
        made.append({"address": at, "size": start + total - at, "requested_size": 0, "state": "inactive", "frames": []})
    return made


def _texts(files: set[str]) -> dict[str, list[str]]:
    """The lines of the program's files."""
    return {file: [line.rstrip("\n") for line in linecache.getlines(file)[:_MOST_LINES]] for file in sorted(files)}


def _path(operator: Operator, mask: int) -> list[list[str]]:
    """The keys of a call from the highest down, with what each does; those below the kernel are not reached."""
    steps, texts, done = [], describe_kernels(operator), False
    for key in DispatchKeySet(mask):
        kernel = operator.kernels.get(key) or registry.backend_select.get(key)
        if done:
            steps.append([key.name, "not reached"])
        elif key in operator.fallthrough or kernel is None:
            steps.append([key.name, "passed by: no kernel"])
        elif isinstance(kernel, Around):
            steps.append([key.name, texts.get(key, "runs what is below inside itself")])
        else:
            steps.append([key.name, _short(texts.get(key, getattr(kernel, "__name__", "a kernel for all operators")))])
            done = True
    return steps


def _short(text: str) -> str:
    return text.replace(_PACKAGE, "")


def _described_operator(operator: Operator) -> dict[str, Any]:
    """Schema, declaration and sources of an operator."""
    declaration = operator.declaration
    described: dict[str, Any] = {"name": operator.name, "schema": str(operator.schema), "sources": []}
    if not hasattr(declaration, "family"):
        return described
    from .._ops._declare.source import source_of

    described["place"] = f"{_short(declaration.file)}, line {declaration.line}"
    sources = [["declaration", source_of([operator])]]
    functional = declaration if declaration.inplace_of is None else declaration.inplace_of.declaration
    for device, name in functional.kernels.items():
        if device == "cpu":
            sources.append([f"kernel, {device}", _kernel_source(name)])
    labels = ("", " autograd", " backward", " cpu")
    sources += [["generated" + label, SOURCES[operator.name + label]] for label in labels
                if operator.name + label in SOURCES]  # fmt: skip
    described["sources"] = [[title, text[:_MOST_SOURCE]] for title, text in sources if text]
    return described


def _kernel_source(name: str) -> str:
    """The function of a device's kernels that a declaration names."""
    module, _, function = name.rpartition(".")
    found = sys.modules.get(f"{__package__.rpartition('.')[0]}._backends.cpu.kernels.{module}")
    value = getattr(found, function, None)
    try:
        return "" if value is None else inspect.getsource(inspect.unwrap(value))
    except (TypeError, OSError):
        return ""
