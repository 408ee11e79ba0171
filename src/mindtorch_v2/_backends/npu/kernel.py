"""Kernels made of rows, with plans and executors kept for calls that come again."""

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._core.dtype import _Default as default
from ..._dispatch.callers import compile_function
from ..._dispatch.schema import NUMBERS
from .array import NpuArray, empty, fresh
from .errors import NpuError
from .facts import INNER_STEP_FAILED, MAX_DIMS, Parameter
from .launch import AclnnOperator, Descriptions, arrays_of, common_device, described, first_phase, operator_of, run
from .layout import Layout
from .memory import Pool, pool_of
from .rows import Row
from .runtime import Runtime, at_stop, ended, started, thread
from .streams import current

PLANS = 512  # kept for each kernel
EXECUTORS = 4096  # kept in all
INT64 = np.dtype(np.int64)
HOT = 2  # a call of the same geometry is prepared for repetition when it comes for this time
_reuse = os.environ.get("MINDTORCH_NPU_REUSE_EXECUTORS", "1") != "0"


class Repeatable:
    """An executor that may run again, with the descriptions of its tensors, whose addresses it follows."""

    __slots__ = ("addresses", "descriptions", "execute", "executor", "lock", "operator", "runtime", "setters", "size")

    def __init__(self, runtime: Runtime, operator: AclnnOperator, arguments: Sequence[Any], op: str) -> None:
        """NpuError if the first phase fails; `executor` stays 0 for an operator that refuses repetition."""
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
        arrays = arrays_of(operator.parameters, arguments)
        self.addresses = [array.storage.address for _, array in arrays]
        self.setters = self._setters([parameter for parameter, _ in arrays])

    def _setters(self, parameters: Sequence[Parameter]) -> list[list[tuple[Callable, int, int]]]:
        """For each tensor the functions that tell a new address: a tensor read and written counts on both sides."""
        functions, inputs, outputs, setters = self.runtime.functions, 0, 0, []
        for parameter, tensor in zip(parameters, self.descriptions.tensors, strict=True):
            calls = []
            if not parameter.kind.startswith("out_"):
                calls.append((functions["aclSetInputTensorAddr"], inputs, tensor))
                inputs += 1
            if parameter.is_written:
                calls.append((functions["aclSetOutputTensorAddr"], outputs, tensor))
                outputs += 1
            setters.append(calls)
        return setters

    def run(self, addresses: list[int], pool: Pool, stream: int | None) -> tuple[str, int] | None:
        """Queues the work on other memory of the same geometry; the call that failed and its code, or None."""
        with self.lock:
            known = self.addresses
            if addresses != known:
                for i, address in enumerate(addresses):
                    if address != known[i]:
                        for setter, index, tensor in self.setters[i]:
                            code = setter(self.executor, index, tensor, address)
                            if code:
                                return setter.__name__, code
                        known[i] = address
            if self.size:
                block = pool.allocate(self.size, stream or 0)
                code = self.execute(block.address, self.size, self.executor, stream)
                pool.returned.append(block)
            else:
                code = self.execute(None, 0, self.executor, stream)
        if code:
            return self.operator.symbol, code
        if self.runtime.blocking:
            code = self.runtime.functions["aclrtSynchronizeStream"](stream)
            if code:
                return "aclrtSynchronizeStream", code
        return None

    def destroy(self) -> None:
        with self.lock:
            executor, self.executor = self.executor, 0
            if executor and not ended():
                self.runtime.functions["aclDestroyAclOpExecutor"](executor)
                self.descriptions.destroy()


_repeatables: deque[Repeatable] = deque()  # oldest first


class Plan:
    """What a call of one geometry needs: its row, its results, and where each tensor of the row comes from."""

    __slots__ = ("device", "fill", "order", "out_layouts", "pool", "repeatable", "repeats", "row", "skip", "specs",
                 "uses")  # fmt: skip

    row: Row
    device: int
    pool: Pool
    specs: tuple[Any, ...]
    out_layouts: tuple[Layout, ...] | None  # None where a result is not packed, or not wanted
    repeats: bool  # whether an executor may be kept for it
    order: list[int] | None  # of the row's tensors among the call's tensors and results; None for the same order
    skip: bool
    fill: bool
    uses: int
    repeatable: Repeatable | None


class RowKernel:
    """Runs an operator by the first of its rows that fits; `call` is the kernel.

    `types` are the schema's argument names with their types, `results` the names of what comes out, and `infer(*args)`
    gives specs of these (shape, dtype, element strides or None), or None for one not wanted. The kernel takes the
    operator's arguments, tensors with an NpuArray as `_array`. It gives `wrap(array)`, or a tuple of them; without
    results (rows that write into an argument), None.
    """

    def __init__(self, name: str, rows: Sequence[Row], types: Mapping[str, str], infer: Callable | None,
                 results: Sequence[str] = ("out",), wrap: Callable = lambda array: array) -> None:  # fmt: skip
        self.name, self.rows, self.infer, self.wrap = name, tuple(rows), infer, wrap
        self.arguments = tuple(types)
        self.results = tuple(results) if infer is not None else ()
        self.plans: dict[tuple, Plan] = {}
        self.call = self._compiled(types)
        _kernels.append(self)

    def _compiled(self, types: Mapping[str, str]) -> Callable:
        """The kernel for calls that were seen before; all others go to `_run_once`.

        Its key names the geometry of every tensor and every other value. Written out for the operator's arguments, as a
        launch should cost little more than its call into CANN.
        """
        lines, keys, tensors, optional = [], ["default.dtype"], [], False
        for i, (name, kind) in enumerate(types.items()):
            if kind.startswith("Tensor") and "[]" not in kind:
                tests = (("?", f"{name} is None"), ("|", f"{name}.__class__ in NUMBERS"))
                absent = " or ".join(test for mark, test in tests if mark in kind)
                optional |= bool(absent)
                lines.append(f"x{i} = None if {absent} else {name}._array" if absent else f"x{i} = {name}._array")
                layout = f"x{i}._layout or x{i}.layout"
                keys.append(f"number_key({name}) if x{i} is None else {layout}" if absent else layout)
                tensors.append(f"x{i}")
            elif "[]" in kind:
                values = f"None if {name} is None else (*{name},)"
                keys.append(f"list_key({name})" if kind.startswith("Tensor") else values)
            elif kind.rstrip("?") in ("int", "bool", "str", "ScalarType"):
                keys.append(name)
            else:
                keys.append(f"number_key({name})")
        names = ", ".join(types)
        addresses = f"[{', '.join(f'{x}.storage.address' for x in tensors)}]"
        if optional:
            present = f"[x.storage.address for x in ({', '.join(tensors)},) if x is not None]"
            addresses = f"{present} if None in ({', '.join(tensors)},) else {addresses}"
        inner = [
            *lines,
            f"key = ({', '.join(keys)},)",
            f"plan = plans.get(key) or new_plan(key, ({names},))",
            "executor = plan.repeatable",
            "if executor is None or not executor.executor:",
            f"    return run_once(plan, ({names},))",
            "device, pool = plan.device, plan.pool",
            "if thread.ready != device:",
            "    started(device)",
            "stream = current.handles.get(device)",
            f"addresses = {addresses}",
            *(f"out{i} = fresh(plan.out_layouts[{i}], pool, stream or 0)" for i in range(len(self.results))),
            *(f"addresses.append(out{i}.storage.address)" for i in range(len(self.results))),
            "if plan.order is not None:",
            "    addresses = [addresses[i] for i in plan.order]",
            "failed = executor.run(addresses, pool, stream)",
            "if failed is not None:",
            f"    raise failure(plan, ({names},), failed)",
            f"return {', '.join(f'wrap(out{i})' for i in range(len(self.results))) or None}",
        ]
        source = f"def kernel({names}):\n" + "".join(f"    {line}\n" for line in inner)
        scope = {"default": default, "NUMBERS": NUMBERS, "number_key": number_key, "list_key": list_key,
                 "plans": self.plans, "new_plan": self._new_plan, "run_once": self._run_once, "thread": thread,
                 "started": started, "fresh": fresh, "current": current, "failure": self._failed, "wrap": self.wrap,
                 "__opname__": f"{self.name} npu"}  # fmt: skip
        return compile_function("kernel", source, scope)

    def _results(self, plan: Plan) -> list[Any]:
        return [None if spec is None else empty(tuple(spec.shape), spec.dtype.np, plan.device, _byte_strides(spec))
                for spec in plan.specs]  # fmt: skip

    def _values(self, row: Row, args: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        values = dict(zip(self.arguments, map(_plain, args), strict=True))
        values.update(zip(self.results, outs, strict=True))
        return [slot.value(values) for slot in row.slots]

    def _failed(self, plan: Plan, args: Sequence[Any], failed: tuple[str, int]) -> NpuError:
        repeatable, plan.repeatable = plan.repeatable, None
        assert repeatable is not None
        doing = described(plan.row.symbol, self._values(plan.row, args, self._results(plan)), self.name)
        error = repeatable.runtime.error(*failed, doing)
        repeatable.destroy()  # nobody knows what state it is in
        return error

    def _run_once(self, plan: Plan, args: Sequence[Any]) -> Any:
        """Runs a call that has no executor yet, and makes one if it is worth it."""
        outs = self._results(plan)
        if not plan.skip:
            self._launch(plan, args, outs)
        made = [None if out is None else self.wrap(out) for out in outs]
        return made[0] if len(made) == 1 else tuple(made) or None

    def _launch(self, plan: Plan, args: Sequence[Any], outs: Sequence[Any]) -> None:
        arguments = self._values(plan.row, args, outs)
        plan.uses += 1
        if plan.fill:
            for out in outs:
                run("aclnnInplaceFillScalar", (out, plan.row.empty), self.name)
            return
        if plan.uses < HOT or not plan.repeats or not _reuse:
            run(plan.row.symbol, arguments, self.name)
            return
        repeatable = self._repeatable(plan, arguments)
        if repeatable is None:
            plan.repeats = False
            run(plan.row.symbol, arguments, self.name)
            return
        plan.repeatable = repeatable
        _repeatables.append(repeatable)
        if len(_repeatables) > EXECUTORS:
            _repeatables.popleft().destroy()
        failed = repeatable.run(repeatable.addresses, plan.pool, current.handles.get(plan.device))
        if failed is not None:
            raise self._failed(plan, args, failed)

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
        each = (value if isinstance(value, list) else (value,) for value in values.values())
        arrays = [array for some in each for array in some if _is_array(array)]
        plan.device = common_device(arrays, self.name)
        plan.pool = pool_of(plan.device)
        specs = () if self.infer is None else self.infer(*args)
        plan.specs = (specs,) if hasattr(specs, "shape") else tuple(specs)
        outs = self._results(plan)
        packed = all(out is not None and s.strides is None for out, s in zip(outs, plan.specs, strict=True))
        plan.out_layouts = tuple(out.layout for out in outs) if packed else None
        plan.skip = bool(outs) and all(out is None or 0 in out.shape for out in outs)
        plan.fill = row.empty is not None and not plan.skip and any(0 in a.shape for a in arrays)
        merges = any(len(a.shape) > MAX_DIMS for a in arrays)
        plan.repeats = packed and not (plan.skip or plan.fill or merges)
        plan.order = None
        if plan.repeats:
            self._set_order(plan, values)
        if len(self.plans) >= PLANS:
            self.forget()
        self.plans[key] = plan
        return plan

    def _set_order(self, plan: Plan, values: Mapping[str, Any]) -> None:
        """Which of the call's tensors each tensor of the row is; calls with lists or absent tensors do not repeat."""
        given = [name for name in self.arguments if _is_array(values[name])] + list(self.results)
        wanted = [slot.name for slot in plan.row.slots if slot.parameter.is_tensor]
        if any(slot.parameter.is_tensor_list for slot in plan.row.slots) or any(name not in given for name in wanted):
            plan.repeats = False
        elif wanted != given:
            plan.order = [given.index(name) for name in wanted]  # type: ignore[arg-type]

    def forget(self) -> None:
        """Drops all plans and their executors."""
        for plan in self.plans.values():
            if plan.repeatable is not None:
                plan.repeatable.destroy()
        self.plans.clear()


_kernels: list[RowKernel] = []


def number_key(value: Any) -> Any:
    """A stand-in for a number (or None) in a key: 1, 1.0 and True differ, so do 0.0 and -0.0, and NaN equals itself."""
    return value.__class__, repr(value) if not value or value != value else value


def list_key(values: Sequence[Any] | None) -> Any:
    """The layouts of a list of tensors."""
    return None if values is None else tuple([None if v is None else v._array.layout for v in values])


def _plain(value: Any) -> Any:
    """The array of a tensor, the arrays of a list of tensors, any other value as it is.

    None in a list (a dimension that an index leaves alone) becomes an array without elements, as CANN wants it.
    """
    array = getattr(value, "_array", None)
    if array is not None or not isinstance(value, (list, tuple)):
        return value if array is None else array
    arrays = [v._array for v in value if hasattr(v, "_array")]
    if not arrays:
        return value
    return [empty((0,), INT64, arrays[0].device_index) if v is None else v._array for v in value]


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
