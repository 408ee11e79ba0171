"""Kernels of the language on a GPU: what prepares their calls on the CPU is recorded; a thread, or a team, has a turn.

The modules of _backends/cpu/kernels, whose functions make arrays with NumPy and hand them to `launched`, are loaded a
second time (shared_kernels), with recorded arrays in the place of NumPy's and calls that are noted as steps.
"""

import ctypes
import dataclasses
import functools
import importlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from ..._kernels import cuda, ir
from ..._kernels.language import flat
from ..._kernels.reader import read
from ..._kernels.teams import NotShared, folds_of, shared, walk, with_atomics
from ..interface import parameters_of
from .fuse import Untraceable
from .recorder import xp
from .recording import Ran
from .special import source_of as functions_of

_PREPARING = f"{__package__}.shared_kernels"
# Modules without kernels of the language, or with more than these.
_OTHERS = frozenset(("", "attention", "by_onednn", "linear", "onednn", "rnn", "sparse"))
_LONG = 1 << 20  # elements from which on threads that go along rows read and write too far apart
_FEW, _THREADS = 4096, 1 << 14  # turns that teams have even if they are short; threads that fill a device
_SHARES = 256  # into how many parts work is to be divided, at least
_ZERO = ir.const(0, "i64")


# preparing calls -----------------------------------------------------------------------------------------------------


@functools.cache
def shared_module(name: str) -> ModuleType:
    """A module of the CPU's kernels that prepares calls for recorded arrays."""
    made = importlib.import_module(f"{_PREPARING}.{name}")
    for known, module in list(sys.modules.items()):
        if known.startswith(_PREPARING + ".") and hasattr(module, "np"):
            module.np = xp  # type: ignore[attr-defined]
            if hasattr(module, "get_num_threads"):
                module.get_num_threads = lambda: _SHARES  # type: ignore[attr-defined]
    return made


def preparing(name: str | None) -> Callable | None:
    """The array function of what a declaration names for the CPU, if it runs kernels of the language."""
    module, _, function = (name or "").partition(".")
    if module in _OTHERS:
        return None
    own = getattr(shared_module(module), function)
    wants_spec = "spec" in parameters_of(own)

    def array(xp: Any, *args: Any, spec: Any) -> Any:
        made = own(*args, spec=spec) if wants_spec else own(*args)
        if made is None:
            raise Untraceable
        return made

    array.takes_halves = getattr(own, "takes_halves", False)  # type: ignore[attr-defined]
    return array


# launching -----------------------------------------------------------------------------------------------------------


class Source(NamedTuple):
    """The C of a kernel, `launched(*addresses, geometry, numbers)`, what of it is fixed, and how it is launched."""

    text: str
    fixed: list[Any]
    grid: tuple[int, ...]
    block: tuple[int, ...]


def source_of(step: Ran) -> Source:
    """How a step's kernel runs: an element a thread, a turn a team, or a turn a thread."""
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
        shape, strides, layout = place.shape, tuple([s // place.kind.itemsize for s in place.strides]), "s"
        if annotated.get(name) is flat:
            if not place.contiguous:
                raise Untraceable
            shape, strides, layout = (math.prod(shape),), (1,), "flat"
        given[name] = kind, len(shape), layout
        shapes[name] = shape
        geometry += [*(shape or (1,)), *(strides or (0,))]
    numbers = {name: "f64" if annotated.get(name) is float else "i64" for name in names[len(step.arrays) :]}
    values = dict(zip(numbers, step.numbers, strict=True))
    made, held, grid, block = _arranged(read(written, given, numbers, constants), shapes, values)
    text = cuda.kernel_source(made, held).replace('extern "C" __global__ void run(', "__device__ inline void run(")
    fixed: list[Any] = [(ctypes.c_longlong * max(len(geometry), 1))(*geometry)]
    fixed += [ctypes.c_double(values[name]) if kind == "f64" else ctypes.c_longlong(int(values[name]))
              for name, kind in numbers.items()]
    return Source(functions_of(text) + text + _entry(made, numbers, len(geometry)), fixed, grid, block)


def _arranged(made: ir.Kernel, shapes: Mapping[str, Sequence[int]], numbers: Mapping[str, Any]) -> tuple:
    """The kernel as it is run, what lanes hold of its scratch memory if it is in teams, grid and block."""
    made = dataclasses.replace(made, body=with_atomics(made.body))
    spread = spread_out(made)
    turns, work = _turns(spread, shapes, numbers)
    if spread is made:
        try:
            in_teams = shared(made)
        except NotShared:
            in_teams = None
        if in_teams is not None and (turns <= _FEW or work >= 64):
            # of its columns a turn takes `width`
            held = min(max(in_teams.held.values(), default=0), numbers.get("width", 1 << 20))
            wanted = held or (work // 32 if turns else 256)
            team = 1 << max(5, min(10, max(wanted - 1, 0).bit_length()))
            enough = _THREADS if not held else 4 * _THREADS
            if held <= team and (turns * team >= enough or turns * work <= _LONG or _scans(in_teams.kernel)):
                each = 4 if team == 32 and turns > 1 else 1
                return in_teams.kernel, in_teams.held, (max(-(-turns // each), 1),), (team, each)
    if work > 1 and turns * work > _LONG:
        raise Untraceable
    return spread, None, (max(-(-turns // 128), 1),), (128 if turns else 1,)


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


def _scans(made: ir.Kernel) -> bool:
    """Whether a kernel goes along rows step by step, for which there is no better way."""
    return made.name in ("running_columns", "extreme_columns")


# turns --------------------------------------------------------------------------------------------------------------


def spread_out(made: ir.Kernel) -> ir.Kernel:
    """The kernel with a turn for each turn of the loops within its parallel loop, where these do not meet either."""
    depth = 0
    while (spread := _spread_once(made, f"own_turn{depth or ''}", f"own_count{depth or ''}")) is not made:
        made, depth = spread, depth + 1
    return made


def _spread_once(made: ir.Kernel, turn_name: str, count_name: str) -> ir.Kernel:
    at = next((i for i, s in enumerate(made.body) if isinstance(s, ir.Loop) and s.work is not None), None)
    if at is None:
        return made
    outer = made.body[at]
    *before, inner = outer.body
    if not isinstance(inner, ir.Loop) or not all(isinstance(s, ir.Set) for s in before) or folds_of(inner) != {}:
        return made
    if any(isinstance(s, ir.Store) and s.array.length for s in walk(inner.body)):
        return made
    count = inner.stop
    if repr(inner.start) != repr(_ZERO):
        if count.op != "add" or repr(count.args[0]) != repr(inner.start):
            return made
        count = count.args[1]
    set_before = {outer.name, *(s.name for s in before)}
    if any(node.op == "load" or node.op == "var" and node.data in set_before for node in count.walk()):
        return made
    turn, counted = (ir.Node("var", "i64", (), name) for name in (turn_name, count_name))
    number = ir.Node("add", "i64", (inner.start, ir.Node("mod", "i64", (turn, counted))))
    body = [ir.Set(outer.name, ir.Node("floordiv", "i64", (turn, counted))), *before, ir.Set(inner.name, number),
            *inner.body]
    counting = ir.Set(count_name, ir.Node("max", "i64", (count, ir.const(1, "i64"))))
    loop = ir.Loop(turn_name, outer.start, ir.Node("mul", "i64", (outer.stop, count)), outer.step, body,
                   ir.const(1, "i64"))
    spread = [*made.body[:at], counting, loop, *made.body[at + 1 :]]
    names = made.variables | {turn_name: "i64", count_name: "i64"}
    return ir.Kernel(made.name, made.arrays, made.numbers, spread, names)


_WHOLE: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b, "min": min, "max": max, "neg": lambda a: -a, "cast": lambda a: a,
    "cdiv": lambda a, b: int(a / b), "select": lambda c, a, b: a if c else b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}  # fmt: skip


def _turns(made: ir.Kernel, shapes: Mapping[str, Sequence[int]], numbers: Mapping[str, Any]) -> tuple[int, int]:
    """How many turns the parallel loop of a kernel has, and how long one is; 0 and 0 without such a loop."""
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

    for i, statement in enumerate(made.body):
        if isinstance(statement, ir.Loop) and statement.work is not None:
            if value(statement.start) or value(statement.step) != 1 or made.body[i + 1 :]:
                raise Untraceable
            return int(value(statement.stop)), int(value(statement.work))
        if any(isinstance(s, ir.Loop) and s.work is not None for s in walk([statement])):
            raise Untraceable
        if isinstance(statement, ir.Set):
            try:
                variables[statement.name] = value(statement.value)
            except KeyError:
                raise Untraceable from None
    return 0, 0
