"""Kernels made of rows, with plans and executors kept for calls that come again."""

import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_uint64
from typing import Any

import numpy as np

from ..._core.dtype import _Default as default
from ..._dispatch.callers import compile_function
from ..._dispatch.schema import NUMBERS
from .aclnn_rows import Row
from .array import NpuArray, empty, fresh
from .chips import refusal, way_of
from .errors import NpuError
from .facts import INNER_STEP_FAILED, MAX_DIMS, POINTER
from .launch import (
    PHASE_ONE,
    AclnnOperator,
    Descriptions,
    arrays_of,
    common_device,
    described,
    first_phase,
    operator_of,
    run,
)
from .layout import Layout
from .memory import Pool, pool_of
from .runtime import Runtime, at_stop, ended, noting, running, started, thread
from .streams import current

PLANS = 512  # kept for each kernel
EXECUTORS = 4096  # kept in all
VARIANTS = 8  # calls that differ in their numbers alone, for which executors are made at once
INT64 = np.dtype(np.int64)
NO_WORKSPACE = (0, 0)
GONE = ("", 0)  # the answer of what was dropped while another thread was about to run it
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
        self.setters = self._setters(arguments)

    def _setters(self, arguments: Sequence[Any]) -> list[list[tuple[Callable, int, int]]]:
        """For each tensor the functions that tell a new address: a tensor read and written counts on both sides.

        One that is absent has no address, and counts as well.
        """
        functions, tensors, setters = self.runtime.functions, iter(self.descriptions.tensors), []
        inputs = outputs = 0
        for parameter, value in zip(self.operator.parameters, arguments, strict=True):
            if not parameter.is_tensor:
                continue
            tensor, calls = 0 if value is None else next(tensors), []
            if not parameter.kind.startswith("out_"):
                calls.append((functions["aclSetInputTensorAddr"], inputs, tensor))
                inputs += 1
            if parameter.is_written:
                calls.append((functions["aclSetOutputTensorAddr"], outputs, tensor))
                outputs += 1
            if value is not None:
                setters.append(calls)
        return setters

    def run(self, addresses: list[int], pool: Pool, stream: int | None,
            workspace: tuple[int, int] = NO_WORKSPACE) -> tuple[str, int] | None:  # fmt: skip
        """Queues the work on other memory of the same geometry; the call that failed and its code, or None.

        It works in `workspace` (address and size) where that is large enough.
        """
        with self.lock:
            if not self.executor:
                return GONE
            known = self.addresses
            if addresses != known:
                for i, address in enumerate(addresses):
                    if address != known[i]:
                        for setter, index, tensor in self.setters[i]:
                            code = setter(self.executor, index, tensor, address)
                            if code:
                                return setter.__name__, code
                        known[i] = address
            if self.size > workspace[1]:
                block = pool.allocate(self.size, stream or 0)
                code = self.execute(block.address, self.size, self.executor, stream)
                pool.returned.append(block)
            elif self.size:
                code = self.execute(workspace[0], self.size, self.executor, stream)
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
        if not ended():
            self.end(self.runtime)

    def end(self, runtime: Runtime) -> None:
        """The same while CANN is about to be finalised."""
        with self.lock:  # another thread may be running it
            executor, self.executor = self.executor, 0
            if executor:
                runtime.functions["aclDestroyAclOpExecutor"](executor)
                self.descriptions.destroy()


class Prepared:
    """What calls of one geometry share where no executor may be kept: numbers, and how to describe tensors.

    A call then is its two phases, a description of each tensor before them, and the end of these after them.
    """

    __slots__ = ("descriptions", "execute", "executor", "lock", "operator", "places", "runtime", "size", "values")

    def __init__(self, runtime: Runtime, operator: AclnnOperator, arguments: Sequence[Any]) -> None:
        self.runtime, self.operator, self.execute = runtime, operator, operator.execute
        self.descriptions, self.lock, self.executor = Descriptions(runtime.functions), threading.Lock(), 1
        self.size = 0  # of the workspace of the last call
        self.values: list[Any] = []
        self.places: list[tuple[int, Any]] = []  # of tensors among the values, with their geometry, or those of a list
        try:
            for i, (parameter, value) in enumerate(zip(operator.parameters, arguments, strict=True)):
                if value is None or not (parameter.is_tensor or parameter.is_tensor_list):
                    self.values.append(self.descriptions.argument(parameter, value))
                    continue
                several = parameter.is_tensor_list
                geometry = [v.layout.arguments for v in value] if several else value.layout.arguments
                self.places.append((i, geometry))
                self.values.append(None)
        except BaseException:
            self.descriptions.destroy()
            raise
        if operator.on_matrix_units is not None:
            self.values[operator.on_matrix_units] = runtime.precision_of_products(operator.symbol)

    def run(self, addresses: list[int], pool: Pool, stream: int | None,
            workspace: tuple[int, int] = NO_WORKSPACE) -> tuple[str, int] | None:  # fmt: skip
        """Queues the work; the call that failed and its code, or None."""
        with self.lock:
            return self._run(addresses, pool, stream, workspace) if self.executor else GONE

    def _run(self, addresses: list[int], pool: Pool, stream: int | None,
             workspace: tuple[int, int]) -> tuple[str, int] | None:  # fmt: skip
        functions, operator, values = self.runtime.functions, self.operator, self.values.copy()
        create, size, executor, given = functions["aclCreateTensor"], c_uint64(), POINTER(), iter(addresses)
        lists: list[tuple[int, list[int]]] = []
        try:
            for i, geometry in self.places:
                if geometry.__class__ is tuple:
                    values[i] = create(*geometry, next(given))
                    continue
                lists.append((i, []))
                for one in geometry:
                    lists[-1][1].append(create(*one, next(given)))
                made = lists[-1][1]
                if None in made:
                    return "aclCreateTensor", 0
                values[i] = functions["aclCreateTensorList"]((POINTER * len(made))(*made), len(made))
            code = operator.prepare(*values, byref(size), byref(executor))
            if code:
                return operator.symbol + PHASE_ONE, code
            block, self.size = None, size.value
            if self.size > workspace[1]:
                try:
                    block = pool.allocate(self.size, stream or 0)
                except RuntimeError:
                    functions["aclDestroyAclOpExecutor"](executor)
                    raise
            where = block.address if block is not None else workspace[0] if self.size else None
            code = self.execute(where, size, executor, stream)
            if block is not None:
                pool.returned.append(block)
            if code:
                return operator.symbol, code
            if self.runtime.blocking:
                code = functions["aclrtSynchronizeStream"](stream)
                if code:
                    return "aclrtSynchronizeStream", code
            return None
        finally:
            self._destroy(values, lists)

    def _destroy(self, values: list[Any], lists: list[tuple[int, list[int]]]) -> None:
        """Ends the descriptions of a call's tensors; a list that was made ends those in it."""
        destroy = self.runtime.functions["aclDestroyTensor"]
        for i, geometry in self.places:
            if geometry.__class__ is tuple:
                destroy(values[i])
        for i, made in lists:
            if values[i]:
                self.runtime.functions["aclDestroyTensorList"](values[i])
                continue
            for handle in made:
                destroy(handle)

    def destroy(self) -> None:
        if not ended():
            self.end(self.runtime)

    def end(self, runtime: Runtime) -> None:
        """The same while CANN is about to be finalised."""
        with self.lock:
            alive, self.executor = self.executor, 0
            if alive:
                self.descriptions.destroy()


def kept_for(runtime: Runtime, operator: AclnnOperator, arguments: Sequence[Any], op: str) -> Repeatable | Prepared:
    """An executor for a call's geometry that repeats; what a call in two phases needs where there can be none.

    Addresses of tensors in lists are not told to executors.
    """
    if _reuse and not any(parameter.is_tensor_list for parameter in operator.parameters):
        made = Repeatable(runtime, operator, arguments, op)
        if made.executor:
            return made
    return Prepared(runtime, operator, arguments)


_kept: deque[Repeatable | Prepared] = deque()  # oldest first


class Plan:
    """What a call of one geometry needs: its row, its results, and where each tensor of the row comes from."""

    __slots__ = ("device", "fill", "once", "order", "out_layouts", "pool", "repeatable", "repeats", "row", "skip",
                 "specs")  # fmt: skip

    row: Row
    device: int
    pool: Pool
    specs: tuple[Any, ...]
    out_layouts: tuple[Layout, ...] | None  # None where a result is not packed, or not wanted
    repeats: bool  # whether something may be kept for it
    once: bool  # a call with ever new numbers: nothing is kept before it comes again
    order: list[int] | None  # of the row's tensors among the call's tensors and results; None for the same order
    skip: bool
    fill: bool
    repeatable: Repeatable | Prepared | None


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
        self.variants: Counter[tuple] = Counter()
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
            "if executor is None or not executor.executor or noting:",
            f"    return run_once(plan, ({names},))",
            "device, pool = plan.device, plan.pool",
            "if thread.ready != device:",
            "    started(device)",
            "stream = current.handles[device]",
            f"addresses = {addresses}",
            *(f"out{i} = fresh(plan.out_layouts[{i}], pool, stream or 0)" for i in range(len(self.results))),
            *(f"addresses.append(out{i}.storage.address)" for i in range(len(self.results))),
            "if plan.order is not None:",
            "    addresses = [addresses[i] for i in plan.order]",
            "failed = executor.run(addresses, pool, stream)",
            "if failed is not None:",
            f"    return recover(plan, executor, ({names},), failed)",
            f"return {', '.join(f'wrap(out{i})' for i in range(len(self.results))) or None}",
        ]
        source = f"def kernel({names}):\n" + "".join(f"    {line}\n" for line in inner)
        scope = {"default": default, "NUMBERS": NUMBERS, "number_key": number_key, "list_key": list_key,
                 "plans": self.plans, "new_plan": self._new_plan, "run_once": self._run_once, "thread": thread,
                 "started": started, "fresh": fresh, "noting": noting,
                 "current": current, "recover": self._recovered, "wrap": self.wrap,
                 "__opname__": f"{self.name} npu"}  # fmt: skip
        return compile_function("kernel", source, scope)

    def _results(self, plan: Plan) -> list[Any]:
        return [None if spec is None else empty(tuple(spec.shape), spec.dtype.np, plan.device, _byte_strides(spec))
                for spec in plan.specs]  # fmt: skip

    def _values(self, row: Row, args: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        values = dict(zip(self.arguments, map(_plain, args), strict=True))
        values.update(zip(self.results, outs, strict=True))
        return [slot.value(values) for slot in row.slots]

    def _recovered(self, plan: Plan, kept: Repeatable | Prepared, args: Sequence[Any], failed: tuple[str, int]) -> Any:
        """The result of a call whose executor another thread has dropped; raises what else went wrong."""
        plan.repeatable = None
        if failed is not GONE:
            raise self._failed(plan, kept, args, failed)
        return self._run_once(plan, args)

    def _failed(self, plan: Plan, kept: Repeatable | Prepared, args: Sequence[Any],
                failed: tuple[str, int]) -> NpuError:  # fmt: skip
        doing = described(plan.row.symbol, self._values(plan.row, args, self._results(plan)), self.name)
        error = kept.runtime.error(*failed, doing)
        kept.destroy()  # nobody knows what state it is in
        return error

    def _run_once(self, plan: Plan, args: Sequence[Any]) -> Any:
        """Runs a call that has no executor yet, and makes one if it is worth it."""
        outs = self._results(plan)
        if not plan.skip:
            self._launch(plan, args, outs)
        made = [None if out is None else self.wrap(out) for out in outs]
        return made[0] if len(made) == 1 else tuple(made) or None

    def _launch(self, plan: Plan, args: Sequence[Any], outs: Sequence[Any]) -> None:
        """The first call of a geometry: only this one can have an executor that repeats.

        From the second on CANN finds the call in a cache of its own, and does not let go of what it finds there.
        """
        arguments = self._values(plan.row, args, outs)
        if plan.fill:
            for out in outs:
                run("aclnnInplaceFillScalar", (out, plan.row.empty), self.name)
            return
        if plan.once and plan.repeats:
            plan.once = False
            run(plan.row.symbol, arguments, self.name)
            return
        known = plan.repeatable
        if known is not None and not known.executor:
            known = None
        kept = known or (self._to_keep(plan, arguments) if plan.repeats else None)
        if kept is None:
            plan.repeats = False
            run(plan.row.symbol, arguments, self.name)
            return
        addresses = [array.storage.address for _, array in arrays_of(kept.operator.parameters, arguments)]
        failed = kept.run(addresses, plan.pool, current.handles[plan.device])
        if failed is not None and failed[0].endswith(PHASE_ONE) and failed[1] == INNER_STEP_FAILED:
            plan.repeats = False  # a strided input that has to be packed for each call
            kept.destroy()
            run(plan.row.symbol, arguments, self.name)
            return
        if failed is GONE:
            plan.repeatable = None
            self._launch(plan, args, outs)
            return
        if failed is not None:
            raise self._failed(plan, kept, args, failed)
        notes = noting.get(threading.get_ident()) if noting else None
        if notes is not None:
            notes.note(kept, arguments, self.name)
        if known is not None:
            return
        plan.repeatable = kept  # known to other threads from now on, which may drop it
        _kept.append(kept)
        if len(_kept) > EXECUTORS:
            _kept.popleft().destroy()

    def _to_keep(self, plan: Plan, arguments: Sequence[Any]) -> Repeatable | Prepared | None:
        """An executor for this geometry, what else can be kept, or None if nothing can."""
        runtime = started(plan.device)
        operator = operator_of(runtime, plan.row.symbol, self.name)
        try:
            return kept_for(runtime, operator, arguments, self.name)
        except NpuError as error:
            if error.code == INNER_STEP_FAILED:
                return None
            raise

    def _served(self, rows: Sequence[Row], device: int, values: Mapping[str, Any],
                outs: Sequence[Any]) -> tuple[Row, bool]:  # fmt: skip
        """The row whose types the chip takes, and whether it takes them without casts; Unsupported if it takes none."""
        runtime = started(device)
        named = {**values, **dict(zip(self.results, outs, strict=True))}
        ways = [way_of(row.symbol, runtime.chip, [slot.value(named) for slot in row.slots]) for row in rows]
        for row, casts in zip(rows, ways, strict=True):
            if casts is None:
                return row, True
        for row, casts in zip(rows, ways, strict=True):
            if not isinstance(casts, str):
                return row, False
        raise refusal(self.name, rows[0].symbol, runtime.soc_name, str(ways[0]))

    def _new_plan(self, key: tuple, args: Sequence[Any]) -> Plan:
        values = dict(zip(self.arguments, map(_plain, args), strict=True))
        rows = [row for row in self.rows if row.fits(values, _is_array)]
        if not rows:
            shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
            raise NotImplementedError(f"{self.name} cannot run on device 'npu' with {shown}")
        plan = Plan()
        plan.repeatable = None
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
        plan.row, uncast = (rows[0], True) if plan.skip else self._served(rows, plan.device, values, outs)
        plan.fill = plan.row.empty is not None and not plan.skip and any(0 in a.shape for a in arrays)
        merges = any(len(a.shape) > MAX_DIMS for a in arrays)
        plan.repeats = packed and uncast and not (plan.skip or plan.fill or merges)
        plan.order = None
        if plan.repeats:
            self._set_order(plan, values)
        geometry = tuple([part for part in key if part.__class__ is Layout])
        self.variants[geometry] += 1
        plan.once = self.variants[geometry] > VARIANTS
        if len(self.plans) >= PLANS:
            self._make_room()
        self.plans[key] = plan
        return plan

    def _set_order(self, plan: Plan, values: Mapping[str, Any]) -> None:
        """Which of the call's tensors each tensor of the row is, absent ones apart; calls with lists do not repeat."""
        given = [name for name in self.arguments if _is_array(values[name])] + list(self.results)
        names = [slot.name for slot in plan.row.slots if slot.parameter.is_tensor and slot.name is not None]
        wanted = [name for name in names if name in self.results or values[name] is not None]
        if any(slot.parameter.is_tensor_list for slot in plan.row.slots) or any(name not in given for name in wanted):
            plan.repeats = False
        elif wanted != given:
            plan.order = [given.index(name) for name in wanted]

    def _make_room(self) -> None:
        """Drops the plans of calls that did not come again, or all. Other threads may add some meanwhile."""
        for key, plan in list(self.plans.items()):
            if plan.repeatable is None:
                self.plans.pop(key, None)
        if len(self.plans) > PLANS // 2 or len(self.variants) > PLANS:
            self.forget()

    def forget(self) -> None:
        """Drops all plans and their executors."""
        for plan in list(self.plans.values()):
            kept = plan.repeatable
            if kept is not None:
                kept.destroy()
        self.plans.clear()
        self.variants.clear()


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


generation = [0]  # how often all executors were dropped


def _forget_all(runtime: Runtime) -> None:
    generation[0] += 1
    for kept in _kept:
        kept.end(runtime)
    _kept.clear()
    for kernel in _kernels:
        kernel.plans.clear()
        kernel.variants.clear()


def forget_all() -> None:
    """Drops all plans, after a change of what they were made with."""
    runtime = running()
    if runtime is not None:
        _forget_all(runtime)


at_stop.insert(0, _forget_all)  # no thread may run one on streams and memory that are given back
