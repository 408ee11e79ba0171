"""Kernels made of rows, with plans and executors kept for calls that come again."""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..._dtype import _Default as default
from .array import NpuArray, empty, empty_like_layout
from .errors import NpuError
from .facts import INNER_STEP_FAILED, MAX_DIMS
from .launch import AclnnOperator, Descriptions, arrays_of, described, first_phase, operator_of, run
from .layout import Layout
from .memory import pool_of
from .rows import Row
from .runtime import Runtime, at_stop, running, started, thread
from .streams import Stream, current_stream

PLANS = 512  # kept for each kernel
EXECUTORS = 4096  # kept in all
HOT = 2  # a call of the same geometry is prepared for repetition when it comes for this time
_reuse = os.environ.get("MINDTORCH_NPU_REUSE_EXECUTORS", "1") != "0"


class Repeatable:
    """An executor that may run again, with the descriptions of its tensors, whose addresses it follows."""

    __slots__ = ("addresses", "descriptions", "execute", "executor", "lock", "operator", "runtime", "setters", "size")

    def __init__(self, runtime: Runtime, operator: AclnnOperator, arguments: Sequence[Any], op: str) -> None:
        """Raises NpuError if the first phase fails; `executor` stays 0 for an operator that refuses repetition."""
        self.runtime, self.operator, self.lock = runtime, operator, threading.Lock()
        self.execute, self.executor = operator.execute, 0
        self.descriptions = Descriptions(runtime.functions)
        executor = 0
        try:
            executor, self.size = first_phase(runtime, operator, arguments, self.descriptions, op)
        finally:
            if not executor:
                self.descriptions.destroy()
        if runtime.functions["aclSetAclOpExecutorRepeatable"](executor):
            runtime.functions["aclGetRecentErrMsg"]()  # reading clears it
            runtime.functions["aclDestroyAclOpExecutor"](executor)
            self.descriptions.destroy()
            return
        self.executor = executor
        self.addresses = [a.storage.address for _, a in arrays_of(operator.parameters, arguments)]
        self.setters = self._setters()

    def _setters(self) -> list[list[tuple[Callable, int, int]]]:
        """For each tensor the functions that tell a new address: a tensor read and written counts on both sides."""
        functions, inputs, outputs, setters = self.runtime.functions, 0, 0, []
        tensors = iter(self.descriptions.tensors)
        for parameter in self.operator.parameters:
            if not parameter.is_tensor:
                continue
            tensor, calls = next(tensors), []
            if not parameter.kind.startswith("out_"):
                calls.append((functions["aclSetInputTensorAddr"], inputs, tensor))
                inputs += 1
            if parameter.is_written:
                calls.append((functions["aclSetOutputTensorAddr"], outputs, tensor))
                outputs += 1
            setters.append(calls)
        return setters

    def run(self, addresses: list[int], stream: Stream, doing: Callable[[], str]) -> None:
        """Queues the work on other memory of the same geometry."""
        with self.lock:
            name, code = self.operator.symbol, 0
            if addresses != self.addresses:
                name, code = self._follow(addresses)
            if code:
                pass
            elif self.size:
                pool = pool_of(stream.device_index)
                block = pool.allocate(self.size, stream.handle or 0)
                code = self.execute(block.address, self.size, self.executor, stream.handle)
                pool.returned.append(block)
            else:
                code = self.execute(None, 0, self.executor, stream.handle)
        if not code and self.runtime.blocking:
            name = "aclrtSynchronizeStream"
            code = self.runtime.functions[name](stream.handle)
        if code:
            error = self.runtime.error(name, code, doing())
            self.destroy()  # nobody knows what state it is in
            raise error

    def _follow(self, addresses: list[int]) -> tuple[str, int]:
        """Tells CANN the addresses that changed; the last function called and what it returned."""
        known = self.addresses
        for i, address in enumerate(addresses):
            if address != known[i]:
                for setter, index, tensor in self.setters[i]:
                    code = setter(self.executor, index, tensor, address)
                    if code:
                        return setter.__name__, code
                known[i] = address
        return self.operator.symbol, 0

    def destroy(self) -> None:
        with self.lock:
            executor, self.executor = self.executor, 0
            if executor and running() is self.runtime:
                self.runtime.functions["aclDestroyAclOpExecutor"](executor)
                self.descriptions.destroy()


_repeatables: deque[Repeatable] = deque()  # oldest first


class Plan:
    """What a call of one geometry needs: its row, the results' layouts, and where each C parameter comes from."""

    __slots__ = ("device", "fill", "out_layouts", "repeatable", "row", "skip", "sources", "specs", "uses")

    row: Row
    device: int
    specs: tuple[Any, ...]
    out_layouts: tuple[Layout, ...] | None  # None where a result is not packed, or not wanted
    sources: tuple[int, ...] | None  # argument numbers of tensors, ~number for results; None for calls not to repeat
    skip: bool
    fill: bool
    uses: int
    repeatable: Repeatable | None


class RowKernel:
    """Runs an operator by the first of its rows that fits.

    `arguments` are the schema's names, `results` the names of what comes out (`out` if there is one), `infer(*args)` gives
    their specs (shape, dtype, element strides or None). Called with the operator's arguments, tensors with an NpuArray as
    `_array`; gives an NpuArray, or a tuple of them. Without `infer` (rows that write into an argument) gives None.
    """

    def __init__(self, name: str, rows: Sequence[Row], arguments: Sequence[str], infer: Callable | None,
                 results: Sequence[str] = ("out",)) -> None:  # fmt: skip
        self.name, self.rows, self.arguments, self.infer = name, tuple(rows), tuple(arguments), infer
        self.results = tuple(results) if infer is not None else ()
        self.plans: dict[tuple, Plan] = {}
        _kernels.append(self)

    def __call__(self, *args: Any) -> Any:
        key: list[Any] = [default.dtype]
        for a in args:
            array = getattr(a, "_array", None)
            key.append(key_of(a) if array is None else array.layout)
        plan = self.plans.get(tuple(key))
        if plan is None:
            plan = self._new_plan(tuple(key), args)
        layouts = plan.out_layouts
        outs = [empty_like_layout(layout) for layout in layouts] if layouts is not None else self._results(plan)
        repeatable = plan.repeatable
        if repeatable is not None and repeatable.executor:
            addresses = [(args[i]._array if i >= 0 else outs[~i]).storage.address for i in plan.sources]  # type: ignore[union-attr]
            runtime = started(plan.device)
            if repeatable.runtime is runtime:
                repeatable.run(addresses, current_stream(plan.device), lambda: self._described(plan, args, outs))
                return self._answer(outs)
        if not plan.skip:
            self._run_once(plan, args, outs)
        return self._answer(outs)

    def _answer(self, outs: list[Any]) -> Any:
        return outs[0] if len(outs) == 1 else tuple(outs) or None

    def _results(self, plan: Plan) -> list[Any]:
        return [None if s is None else empty(tuple(s.shape), s.dtype.np, plan.device, _byte_strides(s)) for s in plan.specs]

    def _values(self, row: Row, args: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        values = dict(zip(self.arguments, map(_plain, args), strict=True))
        values.update(zip(self.results, outs, strict=True))
        return [slot.value(values) for slot in row.slots]

    def _described(self, plan: Plan, args: Sequence[Any], outs: Sequence[Any]) -> str:
        return described(plan.row.symbol, self._values(plan.row, args, outs), self.name)

    def _run_once(self, plan: Plan, args: Sequence[Any], outs: Sequence[Any]) -> None:
        arguments = self._values(plan.row, args, outs)
        plan.uses += 1
        if plan.fill:
            for out in outs:
                run("aclnnInplaceFillScalar", (out, plan.row.empty), self.name)
            return
        if plan.uses < HOT or plan.sources is None or not _reuse:
            run(plan.row.symbol, arguments, self.name)
            return
        repeatable = self._repeatable(plan, arguments)
        if repeatable is None:
            plan.sources = None
            run(plan.row.symbol, arguments, self.name)
            return
        plan.repeatable = repeatable
        _repeatables.append(repeatable)
        if len(_repeatables) > EXECUTORS:
            _repeatables.popleft().destroy()
        repeatable.run(repeatable.addresses, current_stream(plan.device), lambda: self._described(plan, args, outs))

    def _repeatable(self, plan: Plan, arguments: Sequence[Any]) -> Repeatable | None:
        """An executor for this geometry, or None if the operator does not allow it."""
        runtime = started(plan.device)
        try:
            made = Repeatable(runtime, operator_of(runtime, plan.row.symbol, self.name), arguments, self.name)
        except NpuError as error:
            if error.code == INNER_STEP_FAILED:  # a strided input that has to be packed for each call
                return None
            raise
        return made if made.executor else None

    def _new_plan(self, key: tuple, args: Sequence[Any]) -> Plan:
        values = dict(zip(self.arguments, map(_plain, args), strict=True))
        row = next((row for row in self.rows if row.fits(values, _is_array)), None)
        if row is None:
            shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
            raise NotImplementedError(f"{self.name} cannot run on device 'npu' with {shown}")
        plan = Plan()
        plan.row, plan.uses, plan.repeatable = row, 0, None
        arrays = [a for value in values.values() for a in (value if isinstance(value, list) else (value,)) if _is_array(a)]
        plan.device = arrays[0].device_index if arrays else thread.device
        specs = () if self.infer is None else self.infer(*args)
        plan.specs = (specs,) if hasattr(specs, "shape") else tuple(specs)
        outs = self._results(plan)
        packed = all(out is not None and s.strides is None for out, s in zip(outs, plan.specs, strict=True))
        plan.out_layouts = tuple(out.layout for out in outs) if packed else None
        plan.skip = bool(outs) and all(out is None or 0 in out.shape for out in outs)
        plan.fill = row.empty is not None and not plan.skip and any(0 in a.shape for a in arrays)
        merges = any(len(a.shape) > MAX_DIMS for a in arrays)
        plan.sources = None if plan.skip or plan.fill or merges else self._sources(row, args)
        if len(self.plans) >= PLANS:
            self.forget()
        self.plans[key] = plan
        return plan

    def _sources(self, row: Row, args: Sequence[Any]) -> tuple[int, ...] | None:
        """Where the addresses come from; None for a call with lists or absent tensors."""
        sources = []
        for slot in row.slots:
            if slot.parameter.is_tensor_list:
                return None
            if slot.parameter.is_tensor:
                if slot.name in self.results:
                    sources.append(~self.results.index(slot.name))  # type: ignore[arg-type]
                elif slot.name in self.arguments and _is_array(_plain(args[self.arguments.index(slot.name)])):  # type: ignore[arg-type]
                    sources.append(self.arguments.index(slot.name))  # type: ignore[arg-type]
                else:
                    return None
        return tuple(sources)

    def forget(self) -> None:
        """Drops all plans and their executors."""
        for plan in self.plans.values():
            if plan.repeatable is not None:
                plan.repeatable.destroy()
        self.plans.clear()


_kernels: list[RowKernel] = []


def key_of(value: Any) -> Any:
    """A hashable stand-in for an argument that is no tensor; 1, 1.0 and True differ, and NaN equals itself."""
    kind = value.__class__
    if kind is float:
        return ("float", repr(value)) if value == 0 or value != value else (float, value)
    if kind is list or kind is tuple:
        return kind, tuple([getattr(v, "_array", None).layout if hasattr(v, "_array") else key_of(v) for v in value])
    return (kind, value) if kind is int or kind is bool or kind is complex else value


def _plain(value: Any) -> Any:
    """The array of a tensor, the arrays of a list of tensors, any other value as it is."""
    array = getattr(value, "_array", None)
    if array is not None:
        return array
    if isinstance(value, (list, tuple)) and any(hasattr(v, "_array") for v in value):
        return [None if v is None else v._array for v in value]
    return value


def _is_array(value: Any) -> bool:
    return value.__class__ is NpuArray


def _byte_strides(spec: Any) -> tuple[int, ...] | None:
    return None if spec.strides is None else tuple([s * spec.dtype.itemsize for s in spec.strides])


def _forget_all(runtime: Runtime) -> None:
    for repeatable in _repeatables:
        executor, repeatable.executor = repeatable.executor, 0
        if executor:
            runtime.functions["aclDestroyAclOpExecutor"](executor)
            repeatable.descriptions.destroy()
    _repeatables.clear()
    for kernel in _kernels:
        kernel.plans.clear()


at_stop.append(_forget_all)
