"""Running a plan: a function is written that calls its steps over arrays."""

import functools
import math
import sys
import time
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from .._backends.interface import backend_of
from .._backends.meta import MetaArray
from .._core.geometry import contiguous_strides
from .._core.planning import plans
from .._core.storage import UntypedStorage
from .._core.tensor import Tensor
from .._dispatch.callers import compile_function
from .._dispatch.keys import CPU_MASK, DEVICE_MASKS, META_MASK, changed_modes
from .._ops._declare.families import Pointwise
from .._ops._declare.plans import Twin
from .plan import Buffer, Plan, Step
from .products import Product, product_of
from .trace import Entry, Free, Layout, Value

_new = object.__new__
_OWN_REFERENCES = 3  # a variable, an argument, and that of the count


def runner_of(plan: Plan, timed: bool = False) -> Callable[..., list[Any]]:
    """What runs a plan: its steps one by one, or what its device makes of them."""
    steps = functools.partial(function_of, plan, timed)
    devices = {layout.device for layout in plan.layouts}
    if len(devices) != 1:
        return steps()
    return backend_of(next(iter(devices)).type).plan_runner(plan, steps)


def function_of(plan: Plan, timed: bool = False,
                began: Callable[[int], None] | None = None) -> Callable[..., list[Any]]:  # fmt: skip
    """The function that runs a plan's steps, and notes how long each takes if it is to be timed.

    It calls `began` with the number of each step.
    """
    run = _Written(plan, timed, began).function()
    if all(step.kind in ("view", "pointwise", "reduction", "row") for step in plan.steps):
        return run

    def unwatched(*args: Any) -> list[Any]:
        with changed_modes(include=0, exclude=0, grad_enabled=False, inference=False):
            return run(*args)

    return unwatched


def _clock_of(plan: Plan) -> Callable[[], float]:
    """What tells the time when all that was launched is done."""
    if all(layout.device.type in ("cpu", "meta") for layout in plan.layouts):
        return time.perf_counter
    from ..accelerator import synchronize

    def clock() -> float:
        synchronize()
        return time.perf_counter()

    return clock


class Sum(NamedTuple):
    """A result that a kernel gives in parts, one a turn: the value, and whether it is divided by their number."""

    number: int
    mean: bool


class Group(NamedTuple):
    """How a step's kernel is launched: what it is told of the arrays, whose memory they are, and numbers by position.

    The arrays are those that are written, the step's outputs made anew, then those that are read.
    """

    geometry: np.ndarray
    arrays: list[int]
    numbers: list[int]
    shape: tuple[int, ...]
    offsets: list[int]  # in bytes, of where arrays are looked at
    launch: Any  # on a GPU, the kernel; False where there is none; None on the CPU
    sums: list[Sum]
    reused: dict[int, int]  # outputs that may take the memory of an input which nobody reads afterwards
    may_fail: bool = False  # whether the kernel tells of indices that are out of range


class Form(NamedTuple):
    """What the geometry of a step's kernel follows from: values by the names that the kernel has, and how it runs."""

    names: list[str]
    values: list[int]
    layouts: list[Layout]
    stored: int  # the first of them, which are written
    stay: int
    rows: frozenset[str]  # names of values that rows have one of
    letters: str  # how elements of each follow each other


def last_uses(plan: Plan) -> dict[int, list[int]]:
    """The values, of those that a run makes and does not give, that are looked at for the last time, by step."""
    root, last = plan.places.root, {}
    for at, step in enumerate(plan.steps):
        if step.kind == "view":
            continue
        for number in (*step.inputs, *step.outputs):
            last[number] = last[root[number]] = at
    kept = {root[n] for n in plan.outputs}.union(plan.outputs, plan.inputs)
    found: dict[int, list[int]] = {}
    for number, at in last.items():
        if number not in kept:
            found.setdefault(at, []).append(number)
    return found


def memory_of(plan: Plan) -> tuple[list[Buffer], int]:
    """The memory that a run takes, and how much of it at once."""
    end = {number: at for at, numbers in last_uses(plan).items() for number in numbers}
    for at, step in enumerate(plan.steps):
        for number in step.group.reused.values() if step.group is not None else ():
            end[number] = at - 1  # where its memory becomes another's
    made = []
    for at, step in enumerate(plan.steps):
        for number in step.outputs:
            if plan.places.root[number] == number and step.kind != "view":
                made.append(Buffer(number, plan.layouts[number].nbytes, at, end.get(number, len(plan.steps) - 1)))
    changes: dict[int, int] = {}
    for buffer in made:
        changes[buffer.first] = changes.get(buffer.first, 0) + buffer.nbytes
        changes[buffer.last + 1] = changes.get(buffer.last + 1, 0) - buffer.nbytes
    held = peak = 0
    for at in sorted(changes):
        held += changes[at]
        peak = max(peak, held)
    return made, peak


class _Written:
    """Writes the function down: `v3` is the array of value 3, `s3` the storage that views of it lie on."""

    def __init__(self, plan: Plan, timed: bool = False, began: Callable[[int], None] | None = None) -> None:
        self.plan, self.places, self.timed, self.began = plan, plan.places, timed, began
        self.scope: dict[str, Any] = {"clock": _clock_of(plan), "fail": _fail, "storage_of": storage_of,
                                      "is_spare": _is_spare, "tell_of": began,
                                      "__opname__": "pipeline plan"}  # fmt: skip
        self.lines: list[str] = []
        self.made: set[int] = set(plan.inputs)
        self.stored: set[int] = set()
        self.kernels: dict[tuple, Callable] = {}  # layers that are alike have the same

    def function(self) -> Callable[..., list[Any]]:
        plan = self.plan
        last = last_uses(plan)
        for at, step in enumerate(plan.steps):
            if step.kind == "view":
                continue
            if step.group is None:
                for number in step.inputs:
                    self._have(number)
            told = "; tell_of(at)" if self.began is not None else ""
            self.lines.append(f"at = {at}{told}" + "; began = clock()" * self.timed)
            if step.product is not None:
                self.lines += self._multiplying(at, step)
            elif step.together is not None:
                self.scope[f"together{at}"] = step.together.launch
                made, read = (", ".join(f"v{n}" for n in some) for some in (step.together.made, step.together.given))
                self.lines.append(f"{made} = together{at}({read})")
            else:
                self.lines += self._calling(at, step) if step.group is None else self._launching(at, step)
            if self.timed:
                self.lines.append("plan.steps[at].seconds = clock() - began")
            self.made.update(step.outputs)
            gone = [f"v{n}" for n in last.get(at, ()) if n in self.made]
            gone += [f"s{n}" for n in last.get(at, ()) if n in self.stored]
            if gone:
                self.lines.append(f"del {', '.join(gone)}")
                self.made.difference_update(last[at])
                self.stored.difference_update(last[at])
        for number in plan.outputs:
            self._have(number)
        result = ", ".join(f"v{n}" for n in plan.outputs)
        given = "".join(f"v{n}, " for n in plan.inputs)
        head = [f"{given}= inputs"] if plan.inputs else []
        body = "\n".join("        " + line for line in (*self.lines, f"return [{result}]"))
        start = "".join(f"    {line}\n" for line in (*head, "at = 0"))
        source = (f"def run(plan, inputs, numbers):\n{start}    try:\n{body}\n"
                  "    except Exception as error:\n        fail(plan, at, error)\n        raise\n")  # fmt: skip
        return compile_function("run", source, self.scope)

    def _have(self, number: int) -> None:
        """Lines that make a view."""
        if number in self.made:
            return
        root = self.places.root[number]
        if root not in self.stored:
            self.lines.append(f"s{root} = storage_of(v{root})")
            self.stored.add(root)
        layout = self.plan.layouts[number]
        self.scope[f"l{number}"] = (layout.shape, layout.dtype, self.places.offset[number], layout.strides)
        self.lines.append(f"v{number} = s{root}.array(*l{number})")
        self.made.add(number)

    def _launching(self, at: int, step: Step) -> list[str]:
        """Lines that run a step's kernel, or its entries one by one where there is no machine code."""
        group, plan = step.group, self.plan
        size = math.prod(group.shape)
        fresh, sums = [], {one.number: one.mean for one in group.sums}
        for number in step.outputs:
            layout = plan.layouts[number]
            if number in sums:
                self.scope[f"new{number}"] = functools.partial(np.empty, int(group.geometry[3]), layout.dtype)
                fresh.append(f"q{number} = new{number}()")
                continue
            self.scope[f"new{number}"] = allocation(layout) if group.launch is None else device_allocation(layout)
            spare = f"v{group.reused[number]}" if number in group.reused else ""
            fresh.append(f"v{number} = {f'{spare} if is_spare({spare}) else ' * bool(spare)}new{number}()")
        arrays = [f"v{n}" for n in group.arrays]
        numbers = "".join(f", numbers[{i}]" for i in group.numbers)
        otherwise = self._one_by_one(at, step)
        if group.launch is False:
            return [otherwise]
        if group.launch is not None:
            self.scope[f"launch{at}"] = group.launch
            places = ", ".join(f"{v}.pointer + {offset}" if offset else f"{v}.pointer"
                               for v, offset in zip(arrays, group.offsets, strict=True))  # fmt: skip
            return [*fresh, f"launch{at}({places}{numbers})"]
        self.scope |= {f"code{at}": code_of(step.kernel), f"words{at}": group.geometry, f"size{at}": size}
        arrays += [f"q{number}" for number in sums]
        if group.may_fail:
            self.scope["no_flag"] = functools.partial(np.zeros, 1, np.int64)
            fresh.append("flag = no_flag()")
            arrays.append("flag")
        ends = []
        for number, mean in sums.items():
            layout = plan.layouts[number]
            parts = layout.size, int(group.geometry[3]) // layout.size
            self.scope[f"end{number}"] = parts, layout.shape, size // layout.size if mean else 0
            ends.append(f"    v{number} = finished(q{number}, *end{number})")
        self.scope["finished"] = _finished
        if ends:
            ends = ["else:", *ends]
        return [f"code = code{at}.call or code{at}.wanted(size{at})", "done = False", "if code is not None:",
                *("    " + line for line in fresh),
                f"    done = code({', '.join(arrays)}, words{at}{numbers}){' and not flag[0]' * group.may_fail}",
                "if not done:", f"    {otherwise}", *ends]  # fmt: skip

    def _one_by_one(self, at: int, step: Step) -> str:
        """What runs the entries of a step by their own kernels."""
        self.scope[f"parts{at}"] = _Parts(self.plan, step)
        made = "".join(f"v{n}, " for n in step.outputs)
        roots = "".join(f"v{n}, " for n in _roots_read(self.plan, step))
        return f"{made + '= ' if made else ''}parts{at}(({roots}), numbers)"

    def _multiplying(self, at: int, step: Step) -> list[str]:
        """Lines that multiply, or run the entries one by one where the device will not now."""
        launch, values, layout = step.product
        number = step.outputs[0]
        self.scope |= {f"product{at}": launch, f"shape{at}": layout.shape, f"constants{at}": values}
        given = [f"v{v}" if v.__class__ is Value else f"numbers[{v}]" if v.__class__ is Free else f"constants{at}[{i}]"
                 for i, v in enumerate(values)]  # fmt: skip
        return [f"v{number} = product{at}(shape{at}, {', '.join(given)})",
                f"if v{number} is None:", f"    {self._one_by_one(at, step)}"]  # fmt: skip

    def _calling(self, at: int, step: Step) -> list[str]:
        return [line for at in step.entries for line in self._call(at, self.plan.entries[at])]

    def _call(self, at: int, entry: Entry) -> list[str]:
        """Lines that run one entry by its kernel on tensors."""
        key = (entry.recipe, *[n is None for n in entry.results], *[self.plan.layouts[n] for n in entry.operands()])
        if key not in self.kernels:
            self.kernels[key] = _kernel(self.plan, entry)
        self.scope[f"call{at}"] = self.kernels[key]
        arguments = []
        for i, value in enumerate(entry.arguments):
            if value.__class__ is Value:
                arguments.append(f"v{value}")
            elif value.__class__ is Free:
                arguments.append(f"numbers[{value}]")
            elif value.__class__ is tuple and any(v.__class__ is Value for v in value):
                arguments.append(f"[{', '.join('None' if v is None else f'v{v}' for v in value)}]")
            else:
                self.scope[f"c{at}_{i}"] = value
                arguments.append(f"c{at}_{i}")
        call = f"call{at}({', '.join(arguments)})"
        results = [n for n in entry.results if n is not None]
        return [f"{', '.join(f'v{n}' for n in results)}{',' * entry.recipe.several} = {call}" if results else call]


_codes: dict[str, Any] = {}
_codes_of: dict[int, tuple[Any, Any]] = {}  # by the identity of a kernel, which is kept
plans.append(_codes_of)


def code_of(kernel: Any) -> Any:
    """What may become the machine code of a kernel: one for all that compute the same."""
    known = _codes_of.get(id(kernel))
    if known is None:
        known = _codes_of[id(kernel)] = kernel, _code(kernel)
    return known[1]


def _code(kernel: Any) -> Any:
    from .._backends.cpu.jit import machine
    from .._backends.cpu.jit.calls import Code
    from .._kernels import llvm

    key = repr((kernel.name, kernel.arrays, kernel.numbers, kernel.body))
    known = _codes.get(key)
    if known is None:

        def name() -> str | None:  # on disk, so that machine code which is there needs no IR
            return f"{key} {machine.sources()}" if machine.sources() else None

        known = _codes[key] = Code(lambda: llvm.module_of(kernel, exact=kernel.name == "group"), name, due=8)
    return known


def _finished(parts: np.ndarray, rows: tuple[int, int], shape: tuple[int, ...], count: int) -> np.ndarray:
    """The sums of rows out of those of their parts, or their means."""
    made = np.add.reduce(parts.reshape(rows), 1)
    if count:
        made /= made.dtype.type(count)
    return made.reshape(shape)


def forget() -> None:
    """Drops all plans."""
    from .cache import forget_plans

    forget_plans()


def allocation(layout: Layout) -> Callable[[], Any]:
    """What makes arrays of a layout."""
    if layout.strides == contiguous_strides(layout.shape, layout.dtype.itemsize):
        return functools.partial(np.empty, layout.shape, layout.dtype)
    shape, kind, size, strides = layout.shape, layout.dtype, layout.size, layout.strides
    return lambda: np.ndarray(shape, kind, np.empty(size * kind.itemsize, np.uint8), 0, strides)


def device_allocation(layout: Layout) -> Callable[[], Any]:
    """What makes arrays of a layout on a GPU."""
    from .._backends.cuda.groups import allocation as allocated

    return allocated(layout)


def _roots_read(plan: Plan, step: Step) -> list[int]:
    """The memory that a step's entries read and do not make: also inputs that lie where another one does."""
    root, entries = plan.places.root, [plan.entries[at] for at in step.entries]
    made = {n for entry in entries for n in entry.results}
    read = [root[n] for n in (*step.inputs, *(n for entry in entries for n in entry.operands()))]
    return [n for n in dict.fromkeys(read) if n not in made]


class _Parts:
    """The entries of a group, one by one."""

    def __init__(self, plan: Plan, step: Step) -> None:
        self.plan, self.step = plan, step
        self.parts: Plan | None = None
        self.function: Callable | None = None

    def __call__(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        if self.function is None:
            self.function = self._made()
        return self.function(self.parts, arrays, numbers)

    def _made(self) -> Callable:
        made = copy(self.plan)
        made.inputs = _roots_read(self.plan, self.step)
        made.outputs = tuple(self.step.outputs)
        made.steps = []
        for at in self.step.entries:
            entry = self.plan.entries[at]
            made.steps.append(Step("call", [at], entry.operands(), [n for n in entry.results if n is not None]))
        self.parts = made
        return function_of(made)


def _is_spare(array: np.ndarray) -> bool:
    """Whether an array is memory of its own that only the function which runs a plan holds, with no views of it."""
    return array.base is None and sys.getrefcount(array) <= _OWN_REFERENCES


def storage_of(array: Any) -> Any:
    """What a root array lies on."""
    return UntypedStorage.of_array(array) if array.__class__ is np.ndarray else array.storage


def _kernel(plan: Plan, entry: Entry) -> Callable:
    """An entry's kernel as a function of arrays, numbers and what else the operator takes."""
    mask = DEVICE_MASKS[plan.layouts[entry.operands()[0]].device.type]
    if mask == CPU_MASK and not entry.recipe.written and not entry.recipe.several:
        quick = _of_arrays(plan, entry)
        if quick is not None:
            return quick
    if mask == CPU_MASK and entry.operator.name == "aten::linear":
        product = product_of(entry, plan.layouts)
        if product is not None and product.layout.dtype.char in "fd":
            return _linear(product)
    return _tensor_call(plan, entry, mask)


def _linear(product: Product) -> Callable:
    """What multiplies arrays as `linear` does, which needs no tensors for it."""
    multiplied, rows, shape = backend_of("cpu").xp.linear, product.left.shape, product.layout.shape
    if len(shape) == 2:
        return multiplied
    return lambda input, weight, bias: multiplied(input.reshape(rows), weight, bias).reshape(shape)


def _tensor_call(plan: Plan, entry: Entry, mask: int) -> Callable:
    """An entry's kernel, which takes tensors, as a function of arrays."""
    where = plan.layouts[entry.operands()[0]].device
    layouts = [None if n is None else plan.layouts[n] for n in entry.results]
    kernel = entry.operator.lookup(mask)
    tensors = [i for i, v in enumerate(entry.arguments) if v.__class__ is Value]
    lists = [i for i, v in enumerate(entry.arguments) if v.__class__ is tuple and any(x.__class__ is Value for x in v)]

    if mask == CPU_MASK:
        several = len(layouts) != 1 or layouts[0] is None or entry.recipe.several
        given = tuple([n is not None for n in entry.results]) if several else None
        return _caller(len(entry.arguments), tuple(tensors), tuple(lists), given)(kernel, layouts)

    def wrapped(array: Any) -> Any:
        made = _new(Tensor)
        made._array, made._keys, made._device = array, mask, where
        return made

    def run(*args: Any) -> Any:
        values = list(args)
        for i in tensors:
            values[i] = wrapped(values[i])
        for i in lists:
            values[i] = [None if v is None else wrapped(v) for v in values[i]]
        made = kernel(*values)
        if not layouts:
            return None
        if made.__class__ is Tensor:
            return _laid(made._array, layouts[0])
        return [_laid(t._array, layout) for t, layout in zip(made, layouts, strict=True) if layout is not None]

    return run


@functools.cache
def _caller(count: int, tensors: tuple[int, ...], lists: tuple[int, ...],
            several: tuple[bool, ...] | None) -> Callable[[Callable, Sequence[Layout | None]], Callable]:  # fmt: skip
    """What makes a kernel of so many arguments, with tensors and lists of them at these positions, one of arrays.

    `several` says which of a call's results are wanted, if there is not the one that is.
    """
    names = ", ".join(f"a{i}" for i in range(count))
    lines = [f"t = a{i}; a{i} = new(Tensor); a{i}._array = t" for i in tensors]
    lines += [f"a{i} = [None if t is None else wrapped(t) for t in a{i}]" for i in lists]
    wanted = [0] if several is None else [i for i, one in enumerate(several) if one]
    if several is None:
        lines.append(f"m0 = kernel({names})._array")
    elif not several:
        lines.append(f"kernel({names})")
    else:
        lines.append(f"made = kernel({names})")
        lines.append("if made.__class__ is Tensor: made = (made,)")
        lines += [f"m{i} = made[{i}]._array" for i in wanted]
    lines += [f"if m{i}.strides != s{i} or m{i}.__class__ is not ndarray: m{i} = laid(m{i}, layouts[{i}])"
              for i in wanted]  # fmt: skip
    lines.append("return m0" if several is None else f"return [{', '.join(f'm{i}' for i in wanted)}]")
    strides = "".join(f"    s{i} = layouts[{i}].strides\n" for i in wanted)
    body = "".join(f"        {line}\n" for line in lines)
    source = f"def caller(kernel, layouts):\n{strides}    def call({names}):\n{body}    return call\n"
    scope = {"new": _new, "Tensor": Tensor, "ndarray": np.ndarray, "laid": _laid, "wrapped": _wrapped,
             "__opname__": "pipeline call"}  # fmt: skip
    return compile_function("caller", source, scope)


def _wrapped(array: Any) -> Tensor:
    made = _new(Tensor)
    made._array = array
    return made


def _of_arrays(plan: Plan, entry: Entry) -> Callable | None:
    """What the operator's family computes arrays with, where it needs no tensors."""
    twins = [_twin(plan.layouts[v]) if v.__class__ is Value else
             [None if n is None else _twin(plan.layouts[n]) for n in v] if _is_list(v) else
             1.5 if v.__class__ is Free else v for v in entry.arguments]  # fmt: skip
    family, number = entry.operator.declaration.family, entry.results[0]
    assert number is not None
    if any(v.__class__ is Free for v in entry.arguments) and not isinstance(family, Pointwise):
        return None
    layout = plan.layouts[number]
    try:
        found = family.array_call(entry.operator, twins, _twin(layout))
    except Exception:  # what the twins cannot answer, the kernel can
        return None
    if found is None:
        return None
    function, at = found
    if tuple(at) == tuple(range(len(twins))):
        return lambda *args: _laid(function(*args), layout)
    return lambda *args: _laid(function(*[args[i] for i in at]), layout)


def _is_list(value: Any) -> bool:
    return value.__class__ is tuple and any(v.__class__ is Value for v in value)


def _twin(layout: Layout) -> Any:
    made = _new(Twin)
    made._array = MetaArray(layout.shape, layout.dtype, layout.strides)
    made._keys, made._device = META_MASK, layout.device
    return made


def _laid(array: Any, layout: Layout | None) -> Any:
    """An array that lies as was recorded."""
    if array.__class__ is not np.ndarray and isinstance(array, np.generic):
        array = np.asarray(array)
    if layout is None or array.strides == layout.strides:
        return array
    if array.__class__ is not np.ndarray:
        given: Any = _new(Tensor)
        given._array, given._device, given._keys = array, layout.device, DEVICE_MASKS[layout.device.type]
        strides = [s // layout.dtype.itemsize for s in layout.strides]
        return given.new_empty_strided(layout.shape, strides).copy_(given)._array
    made = np.ndarray(layout.shape, layout.dtype, np.empty(layout.reach, np.uint8), 0, layout.strides)
    made[...] = array
    return made


def _fail(plan: Plan, at: int, error: Exception) -> None:
    """Notes which entry raised: of a group, the one that its parts have noted."""
    if not hasattr(error, "pipeline_entry"):
        error.pipeline_entry = plan.steps[at].entries[0]  # type: ignore[attr-defined]
