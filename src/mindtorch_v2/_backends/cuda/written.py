"""Kernels of the language on a GPU: what prepares their calls on the CPU is recorded, and one turn runs a thread.

The modules of _backends/cpu/kernels whose functions make arrays with NumPy and hand them to `launched` are loaded a
second time here, with recorded arrays in the place of NumPy's and a `launched` that notes the call as a step.
"""

import ctypes
import functools
import importlib
import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ..._kernels import cuda, ir
from ..._kernels.language import flat, kernel, read
from ..interface import parameters_of
from .fuse import Untraceable
from .recorded_arrays import Array
from .recorder import xp
from .recording import Buffer, Place, Ran, current_program

_PREPARING = "mindtorch_v2._backends.cpu.kernels"
# What is no kernel of the language, or one whose turns are long rows: a device has better ones.
_OTHERS = frozenset(("", "onednn", "reduce", "softmax", "norm", "sparse"))
_LONG = 1 << 20  # elements from which on threads that go along rows read and write too far apart
_INT64 = np.dtype(np.int64)


# preparing calls -----------------------------------------------------------------------------------------------------


def launched(written: kernel, *args: Any, **constants: Any) -> bool:
    """Notes that a kernel runs on arrays and then numbers. Arrays of the program's own may be written to."""
    program, places, numbers = current_program(), [], []
    for value in args:
        if not isinstance(value, Array):
            numbers.append(value)
            continue
        if value.size and not _is_note(value):
            value._leave_host()
            place = value._place()
            if place.buffer.is_own:
                program.before_write(place, None)
        else:
            place = Place(Buffer(8 * max(value.size, 1)), value.dtype, value.shape, value.strides)
        places.append(place)
    program.add(Ran(written, tuple(constants.items()), tuple(places), tuple(numbers), places[0]))
    return True


def _is_note(array: Array) -> bool:
    """Whether an array is where kernels note that data is wrong, which is not looked at here."""
    data = array.value.host
    return data is not None and array.shape == (1,) and array.dtype == _INT64 and not data[0]


@functools.cache
def _module(name: str) -> ModuleType:
    """A module of the CPU's kernels that prepares calls for recorded arrays."""
    spec = importlib.util.find_spec(f"{_PREPARING}.{name}")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for own, value in list(vars(made).items()):
        if own == "np":
            made.np = xp  # type: ignore[attr-defined]
        elif own == "launched":
            made.launched = launched  # type: ignore[attr-defined]
        elif getattr(value, "__module__", "") == f"{_PREPARING}.arrays" and name != "arrays" and callable(value):
            setattr(made, own, getattr(_module("arrays"), own))
    return made


def preparing(name: str | None) -> Callable | None:
    """The array function of what a declaration names for the CPU, if it runs kernels of the language."""
    module, _, function = (name or "").partition(".")
    if module in _OTHERS or not hasattr(_module(module), "launched"):
        return None
    own = getattr(_module(module), function)
    wants_spec = "spec" in parameters_of(own)

    def array(xp: Any, *args: Any, spec: Any) -> Any:
        made = own(*args, spec=spec) if wants_spec else own(*args)
        if made is None:
            raise Untraceable
        return made

    array.takes_halves = getattr(own, "takes_halves", False)  # type: ignore[attr-defined]
    return array


# launching -----------------------------------------------------------------------------------------------------------


def source_and_turns(step: Ran) -> tuple[str, int, list[Any]]:
    """The C of a step's kernel, `launched(*addresses, geometry, numbers)`, its turns, and what arguments are fixed."""
    written, constants = step.kernel, dict(step.constants)
    code, annotated = written.function.__code__, written.function.__annotations__
    names = code.co_varnames[: code.co_argcount]
    given: dict[str, tuple[str, int, str]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    geometry: list[int] = []
    for name, place in zip(names, step.arrays, strict=False):
        kind = ir.type_of(place.kind)
        if kind is None:
            raise Untraceable
        shape, strides = place.shape, tuple([s // place.kind.itemsize for s in place.strides])
        if annotated.get(name) is flat:
            if not place.contiguous:
                raise Untraceable
            shape, strides = (math.prod(shape),), (1,)
        given[name] = kind, len(shape), "s"
        shapes[name] = shape
        geometry += [*(shape or (1,)), *(strides or (0,))]
    numbers = {name: "f64" if annotated.get(name) is float else "i64" for name in names[len(step.arrays) :]}
    made = spread_out(read(written, given, numbers, constants))
    values = dict(zip(numbers, step.numbers, strict=True))
    turns = _turns(made, shapes, values)
    text = cuda.kernel_source(made).replace('extern "C" __global__ void run(', "__device__ inline void run(")
    fixed: list[Any] = [(ctypes.c_longlong * max(len(geometry), 1))(*geometry)]
    fixed += [ctypes.c_double(values[name]) if kind == "f64" else ctypes.c_longlong(int(values[name]))
              for name, kind in numbers.items()]
    return text + _entry(made, numbers, len(geometry)), turns, fixed


def _entry(made: ir.Kernel, numbers: Mapping[str, str], count: int) -> str:
    """The kernel that puts addresses and geometry together."""
    addresses = ", ".join(f"{cuda.C_TYPES[a.type]}* p{i}" for i, a in enumerate(made.arrays))
    given = "".join(f", {'double' if kind == 'f64' else 'int64'} {cuda.named(name)}" for name, kind in numbers.items())
    lines, at = [], 0
    for i, array in enumerate(made.arrays):
        lines.append(f"{array.name}_t {array.name}; {array.name}.data = p{i};")
        for part in ("shape", "stride"):
            for d in range(max(array.ndim, 1)):
                lines.append(f"{array.name}.{part}[{d}] = geometry.v[{at}];")
                at += 1
    called = ", ".join([*(a.name for a in made.arrays), *map(cuda.named, numbers)])
    body = "\n    ".join(lines)
    return (f"struct geometry_t {{ int64 v[{max(count, 1)}]; }};\n"
            f'extern "C" __global__ void launched({addresses}, geometry_t geometry{given}) {{\n    {body}\n'
            f"    run({called});\n}}\n")


# turns --------------------------------------------------------------------------------------------------------------


def spread_out(made: ir.Kernel) -> ir.Kernel:
    """The kernel with a turn for each turn of the loop within its parallel loop, where these do not meet either."""
    at = next((i for i, s in enumerate(made.body) if isinstance(s, ir.Loop) and s.work is not None), None)
    if at is None:
        return made
    outer = made.body[at]
    *before, inner = outer.body
    if not isinstance(inner, ir.Loop) or not all(isinstance(s, ir.Set) for s in before) or not _is_apart(inner):
        return made
    set_before = {outer.name, *(s.name for s in before)}
    if any(node.op == "load" or node.op == "var" and node.data in set_before for node in inner.stop.walk()):
        return made
    turn, count = (ir.Node("var", "i64", (), name) for name in ("own_turn", "own_count"))
    body = [ir.Set(outer.name, ir.Node("floordiv", "i64", (turn, count))), *before,
            ir.Set(inner.name, ir.Node("mod", "i64", (turn, count))), *inner.body]
    counted = ir.Set("own_count", ir.Node("max", "i64", (inner.stop, ir.const(1, "i64"))))
    loop = ir.Loop("own_turn", outer.start, ir.Node("mul", "i64", (outer.stop, inner.stop)), outer.step, body,
                   ir.const(1, "i64"))
    spread = [*made.body[:at], counted, loop, *made.body[at + 1 :]]
    names = made.variables | {"own_turn": "i64", "own_count": "i64"}
    return ir.Kernel(made.name, made.arrays, made.numbers, spread, names)


def _is_apart(loop: ir.Loop) -> bool:
    """Whether no turn of a loop reads what another one writes: variables, or elements of arrays."""
    if loop.start.op != "const" or loop.start.data or loop.step.op != "const" or loop.step.data != 1:
        return False
    stored: set[str] = set()
    loaded: set[str] = set()
    carried: list[str] = []
    written = {s.name for s in _statements(loop.body) if isinstance(s, (ir.Set, ir.Loop))}

    def look(node: ir.Node, known: set[str]) -> None:
        for each in node.walk():
            if each.op == "load":
                loaded.add(each.data.name)
            elif each.op == "var" and each.data in written and each.data not in known:
                carried.append(each.data)

    def follow(body: Sequence[Any], known: set[str]) -> bool:
        for s in body:
            if isinstance(s, ir.Set):
                look(s.value, known)
                known.add(s.name)
            elif isinstance(s, ir.Store):
                for node in (*s.index, s.value):
                    look(node, known)
                own = any(node.op == "var" and node.data == loop.name for node in s.index)
                if s.array.length or s.combine is None and not own:
                    return False
                stored.add(s.array.name)
            elif isinstance(s, ir.Loop):
                for node in (s.start, s.stop, s.step):
                    look(node, known)
                if not follow(s.body, known | {s.name}):
                    return False
            elif isinstance(s, ir.If):
                look(s.condition, known)
                either, other = set(known), set(known)
                if not (follow(s.then, either) and follow(s.otherwise or (), other)):
                    return False
                known |= either & other
            else:
                return False
        return True

    return follow(loop.body, {loop.name}) and not carried and not stored & loaded


def _statements(body: Sequence[Any]) -> Iterator[Any]:
    for s in body:
        yield s
        for inner in (getattr(s, "body", None), getattr(s, "then", None), getattr(s, "otherwise", None)):
            yield from _statements(inner or ())


_WHOLE: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b, "min": min, "max": max, "neg": lambda a: -a, "cast": lambda a: a,
    "cdiv": lambda a, b: int(a / b), "select": lambda c, a, b: a if c else b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}  # fmt: skip


def _turns(made: ir.Kernel, shapes: Mapping[str, Sequence[int]], numbers: Mapping[str, Any]) -> int:
    """How many turns the parallel loop of a kernel has; 0 without one."""
    variables: dict[str, Any] = {}

    def value(node: ir.Node) -> Any:
        if node.op == "const":
            return node.data
        if node.op == "arg":
            return numbers[node.data]
        if node.op == "var":
            return variables[node.data]
        if node.op == "dim":
            return shapes[node.data[0]][node.data[1]]
        if node.op not in _WHOLE:
            raise Untraceable
        return _WHOLE[node.op](*map(value, node.args))

    for statement in made.body:
        if isinstance(statement, ir.Loop) and statement.work is not None:
            if value(statement.start) or value(statement.step) != 1:
                raise Untraceable
            turns, work = int(value(statement.stop)), int(value(statement.work))
            if work > 1 and turns * work > _LONG:
                raise Untraceable
            return turns
        if not isinstance(statement, ir.Set):
            raise Untraceable
        variables[statement.name] = value(statement.value)
    return 0
