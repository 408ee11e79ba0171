"""The inside of functions as LLVM's text: statements and expressions of IR."""

import struct
from collections.abc import Sequence
from typing import Any

from . import ir, matrices, panels
from .ir import Array, Node

LLVM_TYPES = {"bool": "i1", "f16": "half", "bf16": "i16", "f32": "float", "f64": "double", "weak": "double"}
LLVM_TYPES |= {f"{k}{n}": f"i{n}" for k in "iu" for n in (8, 16, 32, 64)}
_MEMORY = LLVM_TYPES | {"bool": "i8", "c64": "[2 x float]", "c128": "[2 x double]"}
_VECTORS = (2, 4, 8, 16)  # lengths that loops are made into
_UNSIGNED = frozenset(("bool", "u8", "u16", "u32", "u64"))
_INTEGER_OPS = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "shl": "shl"}
_FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTRINSICS = {name: name for name in ("sqrt", "floor", "ceil", "trunc", "rint", "copysign", "fma")}
_INTRINSICS |= {"abs": "fabs", "min": "minimum", "max": "maximum", "fmin": "minnum", "fmax": "maxnum"}
_ROUNDINGS = ("floor", "ceil", "trunc", "rint")
_BITS = {"neg": "xor i16 {}, -32768", "abs": "and i16 {}, 32767"}  # of bfloat16
_FLOAT_TESTS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_SIGNED_TESTS = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


def array_name(array: Array) -> str:
    return f"%{array.name}.data"


def _widened_from(node: Node, kind: str) -> bool:
    """Whether a float32 is a value of a shorter type."""
    return node.op == "cast" and node.type == "f32" and node.args[0].type == kind


def literal(value: Any, kind: str) -> str:
    """A number in LLVM's text."""
    if kind == "bool":
        return "true" if value else "false"
    if kind in ir.FLOATS:
        if kind == "f32":
            value = struct.unpack("f", struct.pack("f", value))[0] if abs(value) <= 3.4028235677973366e38 else value
            if abs(value) > 3.4028235677973366e38:
                value = value if value != value else float("inf") * (1 if value > 0 else -1)
        return "0x" + struct.pack(">d", value).hex().upper()
    return str(int(value))


class Module:
    """A module's text: functions, and declarations of what they use."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.declared: dict[str, str] = {}
        self.functions: set[str] = set()
        self.attributes: list[str] = []
        self.notes: list[str] = []  # metadata, the first of which has the number 1

    def declare(self, name: str, text: str) -> str:
        self.declared[name] = text
        return name

    def intrinsic(self, name: str, kind: str, count: int) -> str:
        kinds = ", ".join([LLVM_TYPES[kind]] * count)
        return self.declare(f"@llvm.{name}.{kind if kind != 'weak' else 'f64'}",
                            f"declare {LLVM_TYPES[kind]} @llvm.{name}.{kind if kind != 'weak' else 'f64'}({kinds})")

    def math(self, op: str, kind: str, count: int) -> str:
        """The function of numbers of that name: the library's own, or the C library's."""
        from . import math

        kind = "f64" if kind == "weak" else kind
        own = f"{op}_{kind}"
        written = math.FUNCTIONS.get(own) or math.FUNCTIONS.get(op)
        if written is not None:
            if own not in self.functions:
                self.functions.add(own)
                from .reader import read_function

                self.function(read_function(written, own, [kind] * count))
            return f"@{own}"
        return self.library(op, kind, count)

    def library(self, op: str, kind: str, count: int) -> str:
        """The C library's function of that name."""
        name = op + ("f" if kind == "f32" else "")
        kinds = ", ".join([LLVM_TYPES[kind]] * count)
        return self.declare(f"@{name}", f"declare {LLVM_TYPES[kind]} @{name}({kinds}) nounwind readnone willreturn")

    def far(self, op: str, kind: str, limit: float, count: int) -> str:
        """The C library's function where a number is beyond a limit, which loops over vectors of nearer ones pass by.

        It is the function of that number, or of those that come after it: `count` in all. LLVM makes no vectors of a
        loop that calls an unknown function, so this one has variants for vectors: they look whether any number is
        beyond the limit before they go through them one by one.
        """
        name, number = f"far_{op}_{kind}", LLVM_TYPES[kind]
        if name not in self.functions:
            self.functions.add(name)
            called, size = self.library(op, kind, max(count - 1, 1)), self.intrinsic("fabs", kind, 1)
            bound = literal(limit, kind)
            parameters = ", ".join(f"{number} %x{i}" for i in range(count))
            given = ", ".join(f"{number} %x{i}" for i in range(count > 1, count))
            self.parts.append(f"""define hidden {number} @{name}({parameters}) #{len(self.attributes)} {{
  %size = call {number} {size}({number} %x0)
  %beyond = fcmp ogt {number} %size, {bound}
  br i1 %beyond, label %far, label %near
far:
  %value = call {number} {called}({given})
  ret {number} %value
near:
  ret {number} %x0
}}
""")
            self.parts += [_far_vector(name, kind, called, size, bound, count, lanes, self) for lanes in _VECTORS]
            variants = ",".join(f"_ZGV_LLVM_N{lanes}{'v' * count}_{name}({name}_{lanes})" for lanes in _VECTORS)
            self.attributes.append("noinline nounwind willreturn memory(none) "
                                   f'"vector-function-abi-variant"="{variants}"')
        return f"@{name}"

    def function(self, function: ir.Function, attributes: str = "internal") -> None:
        body = Body(self, exact=True)
        body.begin(function.variables)
        body.numbers = {name: f"%{name}" for name, _ in function.parameters}
        body.statements(function.body)
        body.known = {}  # the last statement may have set what the result names
        result = body.value(function.result)
        parameters = ", ".join(f"{LLVM_TYPES[kind]} %{name}" for name, kind in function.parameters)
        kind = LLVM_TYPES[function.result.type]
        inlined = "alwaysinline " if attributes == "internal" else ""
        self.parts.append(f"define {attributes} {kind} @{function.name}({parameters}) {inlined}nounwind {{\n"
                          f"{body.text()}  ret {kind} {result}\n}}\n")

    def text(self) -> str:
        attributes = [f"attributes #{i} = {{ {text} }}" for i, text in enumerate(self.attributes)]
        notes = [f"!{i} = {text}" for i, text in enumerate(self.notes, 1)]
        return "\n".join([*self.declared.values(), "", *self.parts, *attributes, *notes, "!0 = !{}\n"])

    def note(self, text: str) -> str:
        """The name of a new piece of metadata."""
        self.notes.append(text)
        return f"!{len(self.notes)}"

    def facts(self, interleaved: int, accesses: str) -> str:
        """The name of what says of one loop how many turns are done side by side, and which accesses never meet."""
        known = []
        if interleaved:
            known.append(self.note(f'!{{!"llvm.loop.interleave.count", i32 {interleaved}}}'))
        if accesses:
            known.append(self.note(f'!{{!"llvm.loop.parallel_accesses", {accesses}}}'))
        return self.note(f"distinct !{{{', '.join([f'!{len(self.notes) + 1}', *known])}}}")


def _far_vector(name: str, kind: str, called: str, size: str, bound: str, count: int, lanes: int,
                module: Module) -> str:
    """A variant of `Module.far` for vectors of so many lanes."""
    vector, number = f"<{lanes} x {LLVM_TYPES[kind]}>", LLVM_TYPES[kind]
    sizes = module.declare(f"{size[: size.rindex('.')]}.v{lanes}{kind}",
                           f"declare {vector} {size[: size.rindex('.')]}.v{lanes}{kind}({vector})")
    some = module.declare(f"@llvm.vector.reduce.or.v{lanes}i1",
                          f"declare i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1>)")
    limits = ", ".join([f"{number} {bound}"] * lanes)
    parameters = ", ".join(f"{vector} %x{i}" for i in range(count))
    given = range(count > 1, count)
    ones = "".join(f"  %one{i} = extractelement {vector} %x{i}, i32 %i\n" for i in given)
    return f"""define hidden {vector} @{name}_{lanes}({parameters}) nounwind {{
  %size = call {vector} {sizes}({vector} %x0)
  %beyond = fcmp ogt {vector} %size, <{limits}>
  %any = call i1 {some}(<{lanes} x i1> %beyond)
  br i1 %any, label %each, label %near
near:
  ret {vector} %x0
each:
  %i = phi i32 [ 0, %0 ], [ %next, %each ]
  %all = phi {vector} [ %x0, %0 ], [ %more, %each ]
{ones}  %value = call {number} {called}({", ".join(f"{number} %one{i}" for i in given)})
  %more = insertelement {vector} %all, {number} %value, i32 %i
  %next = add i32 %i, 1
  %done = icmp eq i32 %next, {lanes}
  br i1 %done, label %out, label %each
out:
  ret {vector} %more
}}
"""


def _logistic(node: Node) -> Node | None:
    """a / (1 + e**y) as a times the logistic function of -y, which takes fewer steps; None for anything else."""
    if node.op != "div" or node.type not in ("f32", "f64") or node.args[1].op != "add":
        return None
    above, (one, power) = node.args[0], sorted(node.args[1].args, key=lambda term: term.op == "exp")
    if not _is_one(one) or power.op != "exp":
        return None
    y = power.args[0]
    gate = Node("sigmoid", node.type, (y.args[0] if y.op == "neg" else Node("neg", node.type, (y,)),))
    return gate if _is_one(above) else Node("mul", node.type, (above, gate))


def _is_one(node: Node) -> bool:
    return node.op == "const" and node.data == 1


class Body:
    """The lines of one function."""

    def __init__(self, module: Module, exact: bool) -> None:
        self.module, self.flags = module, "" if exact else "reassoc contract "
        self.lines: list[str] = []
        self.head: list[str] = []
        self.count = 0
        self.numbers: dict[str, str] = {}
        self.dims: dict[tuple[str, int], str] = {}
        self.strides: dict[tuple[str, int], str] = {}
        self.loops: list[tuple[str, str]] = []
        self.blocks: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.scratch: set[str] = set()
        self.known: dict[int, tuple[Node, str]] = {}
        self.accesses = ""  # the group that loads and stores belong to, in an innermost loop whose turns are apart

    def begin(self, variables: dict[str, str]) -> None:
        self.types = variables
        for name, kind in variables.items():
            self.head.append(f"  %v.{name} = alloca {LLVM_TYPES[kind]}")

    def text(self) -> str:
        return "\n".join([*self.head, *self.lines, ""])

    def line(self, text: str) -> str:
        """A new value."""
        self.count += 1
        self.lines.append(f"  %x{self.count} = {text}")
        return f"%x{self.count}"

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")

    # statements ----------------------------------------------------------------------------------------------------

    def statements(self, body: Sequence[Any]) -> None:
        for statement in body:
            self.known = {}
            getattr(self, f"_{type(statement).__name__.lower()}")(statement)

    def _set(self, statement: ir.Set) -> None:
        value = self.value(statement.value)
        self.do(f"store {LLVM_TYPES[self.types[statement.name]]} {value}, ptr %v.{statement.name}")

    def _store(self, statement: ir.Store) -> None:
        array = statement.array
        at = self.address(array, statement.index)
        if statement.combine is not None:
            value = self.value(ir.cast(statement.value, array.type))
            verb = statement.combine
            floating = array.type in ir.FLOATS
            verb = {"add": "fadd", "min": "fmin", "max": "fmax"}[verb] if floating else (
                verb if verb == "add" else ("u" if array.type in _UNSIGNED else "") + verb)
            self.do(f"atomicrmw {verb} ptr {at}, {LLVM_TYPES[array.type]} {value} monotonic")
            return
        if array.type in ir.PARTS:
            self._store_parts(at, statement.value.args, ir.PARTS[array.type])
            return
        value = self.stored(statement.value, array.type)
        self.do(f"store {_MEMORY[array.type]} {value}, ptr {at}, align {ir.SIZES[array.type]}{self.grouped}")

    @property
    def grouped(self) -> str:
        """What a load or store says of the group that it belongs to."""
        return f", !llvm.access.group {self.accesses}" if self.accesses else ""

    def _store_parts(self, at: str, parts: Sequence[Node], kind: str) -> None:
        for i, part in enumerate(parts):
            place = self.line(f"getelementptr {LLVM_TYPES[kind]}, ptr {at}, i64 {i}")
            value = self.value(part)
            self.do(f"store {LLVM_TYPES[kind]} {value}, ptr {place}, align {ir.SIZES[kind]}{self.grouped}")

    def _poke(self, statement: ir.Poke) -> None:
        at = self.line(f"inttoptr i64 {self.value(statement.address)} to ptr")
        self.do(f"store i64 {self.value(statement.value)}, ptr {at}")

    def _multiply(self, statement: ir.Multiply) -> None:
        matrices.lines(self, statement)

    def _pack(self, statement: ir.Pack) -> None:
        panels.lines_of_pack(self, statement)

    def _multiplypanel(self, statement: ir.MultiplyPanel) -> None:
        panels.lines_of_product(self, statement)

    def stored(self, node: Node, kind: str) -> str:
        """A value as it is kept in memory."""
        if kind == "bf16" and node.op in _BITS and _widened_from(node.args[0], "bf16"):
            return self.line(_BITS[node.op].format(self.value(node.args[0].args[0])))
        if kind == "bf16":
            return self.narrowed(self.value(ir.cast(node, "f32")))
        value = self.value(ir.cast(node, kind))
        return self.line(f"zext i1 {value} to i8") if kind == "bool" else value

    def narrowed(self, value: str) -> str:
        """The bits of bfloat16 nearest to a float32."""
        bits = self.line(f"bitcast float {value} to i32")
        odd = self.line(f"and i32 {self.line(f'lshr i32 {bits}, 16')}, 1")
        moved = self.line(f"add i32 {bits}, {self.line(f'add i32 {odd}, 32767')}")
        cut = self.line(f"trunc i32 {self.line(f'lshr i32 {moved}, 16')} to i16")
        is_nan = self.line(f"fcmp uno float {value}, {value}")
        return self.line(f"select i1 {is_nan}, i16 32704, i16 {cut}")

    def _loop(self, statement: ir.Loop, begin: str | None = None, end: str | None = None) -> None:
        start = begin or self.value(statement.start)
        stop = end or self.value(statement.stop)
        step = self.value(statement.step)
        variable = f"%v.{statement.name}"
        test, body, after, out = (self.label(stem) for stem in ("test", "body", "turn", "out"))
        counter = f"%c{self.count}"
        self.head.append(f"  {counter} = alloca i64")
        self.do(f"store i64 {start}, ptr {counter}")
        self.do(f"br label %{test}")
        self.start(test)
        now = self.line(f"load i64, ptr {counter}")
        if statement.step.op == "const":
            goes_on = self.line(f"icmp {'slt' if statement.step.data > 0 else 'sgt'} i64 {now}, {stop}")
        else:
            up = self.line(f"icmp sgt i64 {step}, 0")
            goes_on = self.line(f"select i1 {up}, i1 {self.line(f'icmp slt i64 {now}, {stop}')}, "
                                f"i1 {self.line(f'icmp sgt i64 {now}, {stop}')}")
        self.do(f"br i1 {goes_on}, label %{body}, label %{out}")
        self.start(body)
        self.do(f"store i64 {now}, ptr {variable}")
        self.loops.append((out, after))
        self.accesses = self.module.note("distinct !{}") if statement.apart else ""
        self.statements(statement.body)
        self.loops.pop()
        self.do(f"br label %{after}")
        self.start(after)
        self.do(f"store i64 {self.line(f'add nsw i64 {now}, {step}')}, ptr {counter}")
        told = statement.interleaved or self.accesses
        facts = f", !llvm.loop {self.module.facts(statement.interleaved, self.accesses)}" if told else ""
        self.accesses = ""
        self.do(f"br label %{test}{facts}")
        self.start(out)

    def _while(self, statement: ir.While) -> None:
        test, body, out = (self.label(stem) for stem in ("test", "body", "out"))
        self.do(f"br label %{test}")
        self.start(test)
        self.statements(statement.test)
        self.known = {}
        self.do(f"br i1 {self.value(statement.condition)}, label %{body}, label %{out}")
        self.start(body)
        self.loops.append((out, test))
        self.statements(statement.body)
        self.loops.pop()
        self.do(f"br label %{test}")
        self.start(out)

    def _if(self, statement: ir.If) -> None:
        then, otherwise, out = (self.label(stem) for stem in ("then", "else", "out"))
        self.do(f"br i1 {self.value(statement.condition)}, label %{then}, label %{otherwise}")
        for label, body in ((then, statement.then), (otherwise, statement.otherwise)):
            self.start(label)
            self.statements(body)
            self.do(f"br label %{out}")
        self.start(out)
        self.known = {}

    def _block(self, statement: ir.Block) -> None:
        end = self.blocks[statement.name] = self.label("end")
        self.statements(statement.body)
        self.do(f"br label %{end}")
        self.start(end)

    def _exit(self, statement: ir.Exit) -> None:
        self.do(f"br label %{self.blocks[statement.name]}")
        self.start(self.label("dead"))

    def _leave(self, statement: ir.Leave) -> None:
        self.do(f"br label %{self.loops[-1][1 if statement.turn else 0]}")
        self.start(self.label("dead"))

    # expressions ---------------------------------------------------------------------------------------------------

    def address(self, array: Array, index: Sequence[Node]) -> str:
        data, kind = array_name(array), _MEMORY[array.type]
        if array.length:
            if array.name not in self.scratch:
                self.scratch.add(array.name)
                self.head.append(f"  {data} = alloca [{array.length} x {kind}], align 64")
        values = [self.value(i) for i in index]
        if array.layout == "raw":
            return self.line(f"getelementptr i8, ptr {data}, i64 {values[0]}")
        if array.layout in ("c", "flat"):
            at = values[0] if values else "0"
            for d, value in enumerate(values[1:], 1):
                at = self.line(f"mul nsw i64 {at}, {self.dims[array.name, d]}")
                at = self.line(f"add nsw i64 {at}, {value}")
            return self.line(f"getelementptr {kind}, ptr {data}, i64 {at}")
        at, last = "0", values.pop() if array.layout == "r" else None
        for d, value in enumerate(values):
            step = self.line(f"mul nsw i64 {value}, {self.strides[array.name, d]}")
            at = self.line(f"add nsw i64 {at}, {step}") if d else step
        place = self.line(f"getelementptr i8, ptr {data}, i64 {at}")
        return place if last is None else self.line(f"getelementptr {kind}, ptr {place}, i64 {last}")

    def value(self, node: Node) -> str:
        """The text of an expression's value."""
        known = self.known.get(id(node))
        if known is None:
            known = node, self._value(node)
            if node.op != "const":
                self.known[id(node)] = known  # with the node, whose id would be another's if it were gone
        return known[1]

    def _value(self, node: Node) -> str:
        op, kind = node.op, node.type
        if op == "const":
            return literal(node.data, kind)
        if op == "arg":
            return self.numbers[node.data]
        if op == "var":
            return self.line(f"load {LLVM_TYPES[kind]}, ptr %v.{node.data}")
        if op == "dim":
            return self.dims[node.data]
        if op == "load":
            array = node.data
            at = self.address(array, node.args)
            loaded = self.line(f"load {_MEMORY[kind]}, ptr {at}, align {ir.SIZES[array.type]}{self.grouped}")
            return self.line(f"icmp ne i8 {loaded}, 0") if kind == "bool" else loaded
        if op == "load_if":
            return self.loaded_if(node)
        if op == "peek":
            at = self.line(f"inttoptr i64 {self.value(node.args[0])} to ptr")
            return self.line(f"load {LLVM_TYPES[kind]}, ptr {at}")
        if op == "cast":
            return self.converted(self.value(node.args[0]), node.args[0].type, kind)
        if op == "bits":
            source = LLVM_TYPES[node.args[0].type]
            return self.line(f"bitcast {source} {self.value(node.args[0])} to {LLVM_TYPES[kind]}")
        gate = _logistic(node)
        if gate is not None:
            return self.value(gate)
        args = [self.value(a) for a in node.args]
        source = node.args[0].type
        name = LLVM_TYPES[source]
        if op in _FLOAT_TESTS:
            if source in ir.FLOATS:
                return self.line(f"fcmp {_FLOAT_TESTS[op]} {name} {args[0]}, {args[1]}")
            test = _SIGNED_TESTS[op]
            test = "u" + test[1:] if source in _UNSIGNED and test[0] == "s" else test
            return self.line(f"icmp {test} {name} {args[0]}, {args[1]}")
        if op == "select":
            return self.line(f"select i1 {args[0]}, {LLVM_TYPES[kind]} {args[1]}, {LLVM_TYPES[kind]} {args[2]}")
        if op == "not":
            return self.line(f"xor {name} {args[0]}, {'true' if kind == 'bool' else '-1'}")
        if kind in ir.FLOATS:
            made = self.floating(op, kind, args, node.data)
            if op in _ROUNDINGS and _widened_from(node.args[0], "f16"):
                # Its sign is that of the number. Said, that keeps LLVM from rounding as half, which takes ten times as
                # long.
                return self.floating("copysign", kind, (made, *args), None)
            return made
        return self.whole(op, kind, args)

    def loaded_if(self, node: Node) -> str:
        """An element where a condition holds, else zero: nothing is loaded then."""
        place, condition = node.args
        array, kind = node.data, _MEMORY[node.type]
        at, holds = self.address(array, (place,)), self.value(condition)
        slot, there, out = f"%slot{self.label('')}", self.label("there"), self.label("out")
        self.head.append(f"  {slot} = alloca {kind}")
        self.do(f"store {kind} zeroinitializer, ptr {slot}")
        self.do(f"br i1 {holds}, label %{there}, label %{out}")
        self.start(there)
        self.do(f"store {kind} {self.line(f'load {kind}, ptr {at}, align {ir.SIZES[array.type]}')}, ptr {slot}")
        self.do(f"br label %{out}")
        self.start(out)
        loaded = self.line(f"load {kind}, ptr {slot}")
        return self.line(f"icmp ne i8 {loaded}, 0") if node.type == "bool" else loaded

    def floating(self, op: str, kind: str, args: Sequence[str], data: Any) -> str:
        name = LLVM_TYPES[kind]
        if op in _FLOAT_OPS:
            flags = self.flags if op in ("add", "sub", "mul") and data != "ordered" else ""
            return self.line(f"{_FLOAT_OPS[op]} {flags}{name} {args[0]}, {args[1]}")
        if op == "neg":
            return self.line(f"fneg {name} {args[0]}")
        if op in ("larger", "smaller"):
            test = self.line(f"fcmp nnan nsz {'ogt' if op == 'larger' else 'olt'} {name} {args[0]}, {args[1]}")
            return self.line(f"select nnan nsz i1 {test}, {name} {args[0]}, {name} {args[1]}")
        module, intrinsic = self.module, _INTRINSICS.get(op)
        if op == "far":
            far = module.far(data[0], kind, data[1], len(args))
            return self.line(f"call {name} {far}({', '.join(f'{name} {a}' for a in args)})")
        called = module.intrinsic(intrinsic, kind, len(args)) if intrinsic else module.math(op, kind, len(args))
        return self.line(f"call {name} {called}({', '.join(f'{name} {a}' for a in args)})")

    def whole(self, op: str, kind: str, args: Sequence[str]) -> str:
        name, unsigned = LLVM_TYPES[kind], kind in _UNSIGNED
        if op in _INTEGER_OPS:
            return self.line(f"{_INTEGER_OPS[op]} {name} {args[0]}, {args[1]}")
        if op == "neg":
            return self.line(f"sub {name} 0, {args[0]}")
        if op == "shr":
            return self.line(f"{'lshr' if unsigned else 'ashr'} {name} {args[0]}, {args[1]}")
        if op == "abs":
            if unsigned:
                return args[0]
            negative = self.line(f"icmp slt {name} {args[0]}, 0")
            return self.line(f"select i1 {negative}, {name} {self.line(f'sub {name} 0, {args[0]}')}, {name} {args[0]}")
        if op in ("min", "max", "larger", "smaller"):
            least = op in ("min", "smaller")
            test = ("u" if unsigned else "s") + ("lt" if least else "gt")
            if kind == "bool":
                return self.line(f"{'and' if least else 'or'} i1 {args[0]}, {args[1]}")
            return self.line(f"select i1 {self.line(f'icmp {test} {name} {args[0]}, {args[1]}')}, {name} {args[0]}, "
                             f"{name} {args[1]}")
        if op in ("cdiv", "crem", "floordiv", "mod"):
            return self.divided(op, kind, args[0], args[1])
        raise NotImplementedError(f"{op} of {kind}")

    def divided(self, op: str, kind: str, a: str, b: str) -> str:
        """Quotient or rest. Dividing by zero, or the lowest number by -1, would be trapped: as by 1 then."""
        name, letter = LLVM_TYPES[kind], "u" if kind in _UNSIGNED else "s"
        bad = self.line(f"icmp eq {name} {b}, 0")
        if letter == "s":
            lowest = -(1 << (8 * ir.SIZES[kind] - 1))
            both = self.line(f"and i1 {self.line(f'icmp eq {name} {a}, {lowest}')}, "
                             f"{self.line(f'icmp eq {name} {b}, -1')}")
            bad = self.line(f"or i1 {bad}, {both}")
        b = self.line(f"select i1 {bad}, {name} 1, {name} {b}")
        if letter == "u" or op in ("cdiv", "crem"):
            return self.line(f"{letter}{'div' if op in ('cdiv', 'floordiv') else 'rem'} {name} {a}, {b}")
        rest = self.line(f"srem {name} {a}, {b}")
        signs = self.line(f"icmp slt {name} {self.line(f'xor {name} {rest}, {b}')}, 0")
        moved = self.line(f"and i1 {signs}, {self.line(f'icmp ne {name} {rest}, 0')}")
        if op == "mod":
            return self.line(f"add {name} {rest}, {self.line(f'select i1 {moved}, {name} {b}, {name} 0')}")
        quotient = self.line(f"sdiv {name} {a}, {b}")
        return self.line(f"sub {name} {quotient}, {self.line(f'zext i1 {moved} to {name}')}")

    def converted(self, value: str, source: str, kind: str) -> str:
        a, b = LLVM_TYPES[source], LLVM_TYPES[kind]
        if source == "bf16":
            wide = self.line(f"shl i32 {self.line(f'zext i16 {value} to i32')}, 16")
            return self.converted(self.line(f"bitcast i32 {wide} to float"), "f32", kind)
        if kind == "bf16":
            return self.narrowed(self.converted(value, source, "f32"))
        if kind == "f16" and source not in ("f16", "f32"):  # all go by way of float32
            return self.converted(self.converted(value, source, "f32"), "f32", kind)
        if a == b:
            return value
        floats = ("half", "float", "double")
        if a == "double" and b == "half":  # which processors do in two steps
            return self.converted(self.line(f"fptrunc double {value} to float"), "f32", "f16")
        if a in floats and b in floats:
            return self.line(f"{'fpext' if floats.index(a) < floats.index(b) else 'fptrunc'} {a} {value} to {b}")
        if kind == "bool":
            zero = "0.0" if a in floats else "0"
            return self.line(f"{'fcmp une' if a in floats else 'icmp ne'} {a} {value}, {zero}")
        if a in floats:
            if ir.SIZES[kind] < 4 or kind == "u32":  # by way of a wider type, as in C: what does not fit wraps around
                wide = "i64" if kind == "u32" else "i32"
                return self.line(f"trunc {wide} {self.line(f'fptosi {a} {value} to {wide}')} to {b}")
            return self.line(f"{'fptoui' if kind in _UNSIGNED else 'fptosi'} {a} {value} to {b}")
        if b in floats:
            return self.line(f"{'uitofp' if source in _UNSIGNED else 'sitofp'} {a} {value} to {b}")
        if ir.SIZES[source] > ir.SIZES[kind] and source != "bool":
            return self.line(f"trunc {a} {value} to {b}")
        return self.line(f"{'zext' if source in _UNSIGNED else 'sext'} {a} {value} to {b}")
