"""Kernels of array functions as programs of prepared launches, one for each kind of call (recording.py)."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from ..._core.dtype import get_default_dtype
from ..._dispatch.callers import compile_function
from ..._dispatch.registry import Operator
from ..._dispatch.schema import NUMBERS
from ..._kernels import trace
from ..._ops._declare.composites import Parts
from ..._ops._declare.families import ArrayFamily, result_of
from ...backends import cuda as settings
from .array import CudaArray, Layout, array_on, empty, from_host, layout_of, quick_empty
from .c_types import c_type
from .cublas import is_supported
from .families import wrap_cuda
from .fuse import Traced, Untraceable
from .kernels.extreme import best_launch, best_parts
from .kernels.matmul import product_plan
from .kernels.reduce import Folding
from .launch import ASSERTIONS, Launch, check, compiled, longs
from .memory import allocate, source
from .pointwise import launch_of
from .recorder import Recorder, Result
from .recording import Buffer, Computed, Folded, Found, Leaf, Multiplied, Place, Program, Ran, Taken, evaluated
from .streams import current
from .written import source_of

_LIMIT = 4096
# Why a call may have no program: CuPy then does it, or says what is wrong.
_NOT_RECORDED = (Untraceable, ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError,
                 ValueError, Warning, cupy.cuda.compiler.CompileException)
_ROUNDED = 512  # to which places in memory are aligned
_RAW: dict[int, np.dtype] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


# launches ------------------------------------------------------------------------------------------------------------

_TAKE = r"""
extern "C" __global__ void take(const T* in, const int64* indices, T* out, int64 length, int64 count, int64 inner,
                                int64 total) {
    int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x;
    if (i >= total) return;
    int64 column = i % inner, at = i / inner % count, row = i / inner / count;
    int64 index = indices[ALONG ? i : at];
    if (index < 0) index += length;
    CHECK(index >= 0 && index < length);
    out[i] = in[(row * length + index) * inner + column];
}
"""


def _layout(place: Place) -> Layout:
    kind = place.kind
    if kind.kind == "c":
        if kind.itemsize not in _RAW:
            raise Untraceable
        kind = _RAW[kind.itemsize]
    return layout_of(place.shape, kind, place.strides)


def _computing(step: Computed) -> tuple[Launch, tuple[Place, ...]]:
    leaves, target = [_layout(place) for place in step.leaves], _layout(step.target)
    value = step.value
    if any(place.kind.kind == "c" for place in (*step.leaves, step.target)):
        value = _bits(value, step.target.kind)  # only moved
    kinds = [leaf.dtype for leaf in leaves]
    traced, numbers = Traced.of_expression(kinds, lambda loads, number: evaluated(value, loads, number, trace.xp))
    return launch_of(traced, leaves, target, numbers), (*step.leaves, step.target)


def _bits(value: Any, kind: np.dtype) -> Any:
    """The leaf that an expression of complex numbers is."""
    while not isinstance(value, Leaf):
        if value.name != "cast" or value.operands[1] != kind or not hasattr(value.operands[0], "kind"):
            raise Untraceable
        value = value.operands[0]
    if value.kind != kind:
        raise Untraceable
    return value


def _folding(step: Folded) -> list[tuple[Launch, tuple[Place, ...]]]:
    element, made = step.source.kind, step.target.kind
    wide = np.dtype(np.uint8) if made.kind == "b" else made
    if step.groups[0] > 65535 and step.groups[2] > 1:
        raise Untraceable
    folding = Folding(step.how, element, wide, _layout(step.target), *step.groups)
    if folding.second is None:
        return [(folding.launch, (step.source, step.target))]
    assert folding.partial is not None
    partial = Place(Buffer(folding.partial.nbytes), wide, folding.partial.shape, folding.partial.strides)
    return [(folding.launch, (step.source, partial)), (folding.second, (partial, step.target))]


def _finding(step: Found) -> list[tuple[Launch, tuple[Place | None, ...]]]:
    outer, length, inner = step.groups
    parts = best_parts(outer * inner, length)
    kind = step.source.kind
    first = best_launch(kind, step.largest, outer, length, inner, parts)
    if parts == 1:
        return [(first, (step.source, None, None, step.target))]
    count = outer * parts * inner
    best, places = (Place(Buffer(count * k.itemsize), k, (count,), (k.itemsize,)) for k in (kind, step.target.kind))
    second = best_launch(kind, step.largest, outer, parts, inner, 1)
    return [(first, (step.source, None, best, places)), (second, (best, places, None, step.target))]


def _taking(step: Taken) -> tuple[Launch, tuple[Place, ...]]:
    outer, length, count, inner = step.groups
    total, element = outer * count * inner, _RAW[step.source.kind.itemsize]
    known = step.indices.buffer.data is not None  # when it was recorded, and right
    check = "#define CHECK(holds)\n" if known else f"{ASSERTIONS}#define CHECK require\n"
    text = f"typedef {c_type(element)} T;\n#define ALONG {int(step.along)}\n{check}{_TAKE}"
    launch = Launch(compiled(text, "take"), "qqq", (-(-total // 256),), (256,), longs(length, count, inner, total))
    return launch, (step.source, step.indices, step.target)


def _running(step: Ran) -> tuple[Launch, tuple[Place, ...]]:
    text, fixed, grid, block = source_of(step)
    return Launch(compiled(text, "launched"), "q" * len(step.arrays), grid, block, fixed), step.arrays


# replaying -----------------------------------------------------------------------------------------------------------


class _Replay:
    """Writes down the function that replays a program."""

    def __init__(self, program: Program, arguments: Sequence[CudaArray]) -> None:
        self.scope: dict[str, Any] = {"current": current, "check": check,
                                      "source": source, "allocate": allocate, "quick_empty": quick_empty,
                                      "empty": empty,
                                      "matmul": settings.matmul}
        self.names: dict[int, str] = {}
        self.taken = 0
        self.lines: list[str] = []
        self.kept: list[Buffer] = []
        self.where = arguments[0].device
        launches = [launch for step in program.steps for launch in self._launches(step)]
        self.results = program.results
        # Reductions load four elements at a time.
        folded = {step.source.buffer.argument for step in program.steps if isinstance(step, Folded)}
        self.aligned = sorted(number for number in folded if number is not None)
        for launch in launches:
            self._write(launch)

    def _launches(self, step: Any) -> Any:
        if isinstance(step, Computed):
            return [_computing(step)]
        if isinstance(step, Folded):
            return _folding(step)
        if isinstance(step, Found):
            return _finding(step)
        if isinstance(step, Ran):
            return [_running(step)]
        return [_taking(step)] if isinstance(step, Taken) else [self._multiplying(step)]

    def _multiplying(self, step: Multiplied) -> Any:
        if not is_supported(step.first.kind):
            raise Untraceable
        plan = product_plan(_layout_of(step.first), _layout_of(step.second), step.target.shape)
        if not plan.as_they_are:
            raise Untraceable
        return plan.product.into, (step.first, step.second, step.target)

    def _address(self, place: Place | None) -> str:
        if place is None:
            return "0"
        buffer = place.buffer
        if id(buffer) not in self.names:
            self.kept.append(buffer)
            if buffer.argument is not None:
                name = f"a{buffer.argument}.pointer"
            elif buffer.data is not None:
                constant = from_host(buffer.data, self.where)
                name = f"c{len(self.names)}"
                self.scope[name], self.scope[name + "_kept"] = constant.pointer, constant
            elif buffer.result is not None:
                name = f"r{buffer.result}.pointer"
            else:
                name = f"memory + {self.taken}"
                self.taken += -(-buffer.nbytes // _ROUNDED) * _ROUNDED
            self.names[id(buffer)] = name
        name = self.names[id(buffer)]
        return f"{name} + {place.offset}" if place.offset else name

    def _write(self, launch: tuple[Any, tuple]) -> None:
        made, places = launch
        given, at = ", ".join(map(self._address, places)), len(self.lines)
        if isinstance(made, Launch):
            self.scope |= {f"launch{at}": made, f"queue{at}": made.queue}
            self.lines.append(f"code = queue{at}(current.handle, {given})\n    if code: check(code)")
        else:
            self.scope[f"product{at}"] = made
            self.lines.append(f"product{at}({given}, matmul.allow_tf32)")

    def function(self, name: str, count: int) -> Callable:
        given = ", ".join(f"a{i}" for i in range(count))
        lines = [f"if ({' | '.join(f'a{i}.pointer' for i in self.aligned)}) & 15: return None"] if self.aligned else []
        if self.taken:
            self.scope["where"] = self.where
            lines += ["try: held = source.malloc(" + f"{self.taken})",
                      f"except MemoryError: held = allocate({self.taken}, where)", "memory = held.ptr"]
        for i, place in enumerate(self.results):
            self.scope[f"layout{i}"] = layout_of(place.shape, place.kind, place.strides)
            lines.append(f"r{i} = {'quick_empty' if math.prod(place.shape) else 'empty'}(layout{i}, a0.device)")
        made = ", ".join(f"r{i}" for i in range(len(self.results)))
        body = "\n".join("    " + line for line in (*lines, *self.lines, f"return ({made},)"))
        self.scope["__opname__"] = f"{name} cuda program"
        return compile_function("program", f"def program({given}):\n{body}\n", self.scope)


def _layout_of(place: Place) -> Layout:
    return layout_of(place.shape, place.kind, place.strides)


# kernels -------------------------------------------------------------------------------------------------------------

_KERNEL = """
def {name}({names}):
    try:
        run = plans[{key}]
    except (KeyError, AttributeError, TypeError):
        return general({names})
    made = run({arrays})
    return slow({names}) if made is None else made

def key_of({names}):
    return ({key})

def arrays_of({names}):
    return [{arrays}]
"""


def recorded(operator: Operator, slow: Callable, array: Callable | None = None) -> Callable:
    """The kernel of an operator as recorded programs; `slow`, over CuPy, where there can be none."""
    schema, family = operator.schema, operator.declaration.family
    if any(a.type.startswith("Generator") for a in schema.arguments) or not any(a.is_tensor for a in schema.arguments):
        return slow
    recorder = Recorder(array)
    if isinstance(family, Parts):  # which has no array function of its own
        if array is None:
            return slow
        family = ArrayFamily(family.infer, array, widen=False)
    kernel = family.kernel(operator, recorder)
    plans: dict[tuple, Callable] = {}

    def general(*args: Any) -> Any:
        try:
            key = scope["key_of"](*args)
            arrays = scope["arrays_of"](*args)
        except (AttributeError, TypeError):
            return slow(*args)
        if not arrays or any(a.__class__ is not CudaArray for a in arrays) or not any(a.size for a in arrays):
            return slow(*args)
        if len(plans) >= _LIMIT:
            plans.clear()
        run = plans[key] = _planned(operator, recorder, kernel, args)
        made = run(*arrays)
        return slow(*args) if made is None else made

    parts, arrays = [], []
    for a in schema.arguments:
        part, taken = _key_text(a)
        parts.append(part)
        arrays += [taken] if taken else []
    scope: dict[str, Any] = {"plans": plans, "general": general, "slow": slow, "NUMBERS": NUMBERS,
                             "default": get_default_dtype, "layouts": _layouts, "arrays": _arrays,
                             "__opname__": f"{operator.name} cuda"}
    text = _KERNEL.format(name=schema.base_name, names=", ".join(schema.names), key=", ".join([*parts, "default()"]),
                          arrays=", ".join(arrays))
    return compile_function(schema.base_name, text, scope)


def _key_text(argument: Any) -> tuple[str, str | None]:
    """The part of a plan's key that an argument is, and the arrays that it gives the plan."""
    name = argument.name
    if not argument.is_tensor:
        if argument.is_list:
            return f"(tuple({name}) if {name}.__class__ is list else {name})", None
        return (f"({name}.__class__, {name})" if argument.type in ("Scalar", "int", "float", "bool") else name), None
    if argument.is_list or argument.optional or argument.type == "Tensor|Scalar":
        return f"layouts({name})", f"*arrays({name})"
    return f"{name}._array.layout", f"{name}._array"


def _layouts(value: Any) -> Any:
    if value is None:
        return None
    if value.__class__ in NUMBERS:
        return value.__class__, value
    if value.__class__ in (tuple, list):
        return tuple([_layouts(each) for each in value])
    return value._array.layout


def _arrays(value: Any) -> list[CudaArray]:
    if value.__class__ in (tuple, list):
        return [array for each in value for array in _arrays(each)]
    return [value._array] if hasattr(value, "_array") else []


def _no_program(*arrays: Any) -> None:
    """The program of calls that are CuPy's."""


def _apart(value: Any) -> Any:
    """An argument with tensors of their own in it: in other calls, two need not be one."""
    if value.__class__ in (tuple, list):
        return type(value)(_apart(each) for each in value)
    array = getattr(value, "_array", None)
    if array.__class__ is not CudaArray:
        return value
    return wrap_cuda(array_on(array.layout, array.memory, array.pointer, array.device))


def _planned(operator: Operator, recorder: Recorder, kernel: Callable, args: Sequence[Any]) -> Callable:
    """The function that replays a call on its arrays."""
    args = [_apart(value) for value in args]
    arrays = [array for value in args for array in _arrays(value)]
    try:
        program, made = recorder.record(kernel, args, arrays)
        replay = _Replay(program, arrays).function(operator.name, len(arrays))
    except _NOT_RECORDED:
        return _no_program
    if isinstance(made, Result):
        def one(*arrays: Any) -> Any:
            results = replay(*arrays)
            return None if results is None else wrap_cuda(results[0])

        return one
    order = [None if each is None else each.number for each in made]

    def several(*arrays: Any) -> Any:
        results = replay(*arrays)
        if results is None:
            return None
        return result_of(operator, [None if n is None else wrap_cuda(results[n]) for n in order])

    return several
