"""IR as CUDA C: expressions as device functions, kernels of the language as kernels with one turn a thread, or a team.

The names half_t, bfloat_t, int64, widened and narrow are those of _backends/cuda/prelude.py.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from . import ir
from .ir import Array, Node
from .teams import Dealt, First, Meet

C_TYPES = {"bool": "bool", "u8": "unsigned char", "i8": "signed char", "i16": "short", "i32": "int", "i64": "int64",
           "u16": "unsigned short", "u32": "unsigned int", "u64": "unsigned long long", "f16": "half_t",
           "bf16": "bfloat_t", "f32": "float", "f64": "double", "weak": "double"}  # fmt: skip
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
          "ne": "!=", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "cdiv": "/",
          "crem": "%"}  # fmt: skip
# What combines the parts of a team's lanes, and what a lane begins with.
_FOLDS = {"add": "a + b", "mul": "a * b", "min": "lesser_of(a, b)", "max": "larger_of(a, b)", "or": "a | b",
          "and": "a & b", "xor": "a ^ b"}  # fmt: skip
# Functions of C that go by other names; all others take an "f" at their end for float.
_NAMES = {"abs": "fabs"}

# Words of C++ that are names elsewhere.
_WORDS = frozenset("""and asm auto bool break case catch char class const continue default delete do double else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new not operator or private
    protected public register return short signed sizeof static struct switch template this throw true try typedef
    typename union unsigned using virtual void volatile while xor""".split())


def named(name: str) -> str:
    """A variable's name in C."""
    return name + "_" if name in _WORDS else name


# What C has no function for.
HEAD = r"""
template <typename T> __device__ inline T floor_rest_of(T a, T b) {
    T rest = a % b;
    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}
template <typename T> __device__ inline T floor_quotient(T a, T b) {
    T rest = a % b;
    return a / b - (rest != 0 && ((rest < 0) != (b < 0)));
}
// Places and sizes are mostly short, which divides many times as quickly.
template <> __device__ inline int64 floor_rest_of(int64 a, int64 b) {
    if (!((a | b) >> 31)) return (unsigned)a % (unsigned)b;
    int64 rest = a % b;
    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}
template <> __device__ inline int64 floor_quotient(int64 a, int64 b) {
    if (!((a | b) >> 31)) return (unsigned)a / (unsigned)b;
    int64 rest = a % b;
    return a / b - (rest != 0 && ((rest < 0) != (b < 0)));
}
template <typename T> __device__ inline T zero_of() { return T(); }
template <typename T> __device__ inline T lesser_of(T a, T b) { return a != a || a < b ? a : b; }
template <typename T> __device__ inline T larger_of(T a, T b) { return a != a || a > b ? a : b; }
template <typename T> __device__ inline void put_add(T* place, T x) { atomicAdd(place, x); }
template <> __device__ inline void put_add(int64* place, int64 x) {
    atomicAdd((unsigned long long*)place, (unsigned long long)x);
}
template <typename T> __device__ inline void put_min(T* place, T x) { atomicMin(place, x); }
template <typename T> __device__ inline void put_max(T* place, T x) { atomicMax(place, x); }
__device__ inline int bits_of(float x) { return __float_as_int(x); }
__device__ inline int64 bits_of(double x) { return __double_as_longlong(x); }
__device__ inline float bits_of(int x) { return __int_as_float(x); }
__device__ inline double bits_of(int64 x) { return __longlong_as_double(x); }
"""

# A team is all threads of one threadIdx.y: a warp, several of which may share a block, or a whole block.
TEAM = r"""
#define LANE (int)threadIdx.x
__device__ inline void meet() { if (blockDim.x > 32) __syncthreads(); else __syncwarp(); }
template <typename T> __device__ inline T of_lane(T x, int s) { return __shfl_xor_sync(0xffffffff, x, s); }
template <> __device__ inline bool of_lane(bool x, int s) { return __shfl_xor_sync(0xffffffff, (int)x, s); }
template <typename F, typename T> __device__ inline T folded(T x) {
    for (int s = 16; s; s >>= 1) x = F::of(x, of_lane(x, s));
    if (blockDim.x > 32) {
        __shared__ T held[32];
        __syncthreads();
        if (threadIdx.x % 32 == 0) held[threadIdx.x / 32] = x;
        __syncthreads();
        x = held[0];
        for (int w = 1; w < blockDim.x / 32; ++w) x = F::of(x, held[w]);
    }
    return x;
}
""" + "".join(f"struct fold_{name} {{ template <typename T> __device__ static T of(T a, T b) {{ return {text}; }} }};\n"
              for name, text in _FOLDS.items())


def _start_of(how: str, kind: str) -> str:
    """What a lane begins a fold with: it changes nothing."""
    if how in ("min", "max"):
        if kind in ir.FLOATS:
            return literal(math.inf if how == "min" else -math.inf, kind)
        if kind == "bool":
            return literal(how == "min", kind)
        bits, signed = 8 * ir.SIZES[kind], kind[0] == "i"
        least = -(1 << bits - 1) if signed else 0
        return literal((1 << bits - signed) - 1 if how == "min" else least, kind)
    return literal(-1 if how == "and" and kind != "bool" else how in ("mul", "and"), kind)


def literal(value: Any, kind: str) -> str:
    """A number in C."""
    if kind == "bool":
        return "true" if value else "false"
    name = C_TYPES[kind]
    if kind in ir.FLOATS:
        value = float(value)
        if value != value:
            return f"({name})__longlong_as_double(0x7ff8000000000000LL)"
        if math.isinf(value):
            return f"({name})({'-' * (value < 0)}__longlong_as_double(0x7ff0000000000000LL))"
        return f"({name})({value!r})"
    if value == -(1 << 63):
        return "(-9223372036854775807LL - 1)"
    return f"({name})({int(value)}{'ULL' if value >= 1 << 63 else 'LL'})"


class Text:
    """Lines of C for statements and expressions."""

    def __init__(self, indent: int = 1) -> None:
        self.lines: list[str] = []
        self.known: dict[int, tuple[Node, str]] = {}
        self.count = 0
        self.indent = indent
        self.declared: set[str] = set()
        self.blocks: dict[str, str] = {}
        self.kinds: Mapping[str, str] = {}
        self.held: Mapping[str, int] = {}  # scratch memory of which a lane has one element
        self.places: Mapping[int, str] = {}  # what gather maps look at: indices by dimension, and
        self.sources: Mapping[str, tuple[str, str]] = {}  # the type and the place of an array's element, by name

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def value(self, node: Node) -> str:
        """A C expression of the node's value; what is not a name or a number gets one."""
        known = self.known.get(id(node))
        if known is not None:
            return known[1]
        text = self._text(node)
        if node.args:
            self.count += 1
            self.line(f"{C_TYPES[node.type]} v{self.count} = {text};")
            text = f"v{self.count}"
        if node.op != "var":
            self.known[id(node)] = node, text  # with the node, whose id would be another's if it were gone
        return text

    def _text(self, node: Node) -> str:
        op, kind = node.op, node.type
        if op == "const":
            return literal(node.data, kind)
        if op in ("arg", "var"):
            return named(node.data)
        if op == "dim":
            return f"{node.data[0]}.shape[{node.data[1]}]"
        if op == "load":
            return self.place(node.data, node.args)
        if op == "place":
            return self.places[node.data]
        if op == "word":
            return f"places.word[{node.data}]"
        if op == "fetch":
            further, condition = node.args
            element, at = self.sources[node.data]
            if further.op != "const" or further.data:
                at = f"(const {element}*)((const char*)({at}) + {self.value(further)})"
            if condition.op == "const":
                return f"*({at})" if condition.data else f"zero_of<{element}>()"
            return f"{self.value(condition)} ? *({at}) : zero_of<{element}>()"
        args = [self.value(a) for a in node.args]
        source = node.args[0].type
        if op == "cast":
            if source in ("f16", "bf16"):
                return f"({C_TYPES[kind]})widened({args[0]})"
            if kind in ("f16", "bf16"):
                return f"narrow<{C_TYPES[kind]}>::of((float)({args[0]}))"
            return f"({C_TYPES[kind]})({args[0]})"
        if op == "bits":
            return f"bits_of({args[0]})"
        if op == "select":
            return f"{args[0]} ? {args[1]} : {args[2]}"
        if op == "not":
            return f"!{args[0]}" if kind == "bool" else f"({C_TYPES[kind]})~{args[0]}"
        if op == "neg":
            return f"({C_TYPES[kind]})-{args[0]}"
        if op in _SIGNS:
            return f"{args[0]} {_SIGNS[op]} {args[1]}"
        if op in ("min", "max", "smaller", "larger"):
            return f"{'lesser_of' if op in ('min', 'smaller') else 'larger_of'}({args[0]}, {args[1]})"
        if op in ("floordiv", "mod"):
            return f"{'floor_quotient' if op == 'floordiv' else 'floor_rest_of'}<{C_TYPES[kind]}>({args[0]}, {args[1]})"
        if op == "abs" and kind not in ir.FLOATS:
            return f"{args[0]} < 0 ? ({C_TYPES[kind]})-{args[0]} : {args[0]}"
        return f"{_NAMES.get(op, op)}{'f' if kind == 'f32' else ''}({', '.join(args)})"

    def place(self, array: Array, index: Sequence[Node]) -> str:
        """The element of an array."""
        if array.name in self.held:
            if array.name not in self.declared:
                self.declared.add(array.name)
                self.lines.insert(0, f"    {C_TYPES[array.type]} {array.name};")
            return array.name
        values = [self.value(i) for i in index]
        if array.length:
            if array.name not in self.declared:
                self.declared.add(array.name)
                self.lines.insert(0, f"    {C_TYPES[array.type]} {array.name}[{array.length}];")
            return f"{array.name}[{values[0]}]"
        if array.layout == "flat":
            return f"{array.name}.data[{values[0]}]"
        steps = " + ".join(f"{v} * {array.name}.stride[{d}]" for d, v in enumerate(values)) or "0"
        return f"{array.name}.data[{steps}]"

    # statements ----------------------------------------------------------------------------------------------------

    def statements(self, body: Sequence[Any]) -> None:
        self.indent += 1
        for statement in body:
            self.known = {}
            getattr(self, f"_{type(statement).__name__.lower()}")(statement)
        self.known = {}
        self.indent -= 1

    def _set(self, statement: ir.Set) -> None:
        self.line(f"{named(statement.name)} = {self.value(statement.value)};")

    def _store(self, statement: ir.Store) -> None:
        array = statement.array
        value = self.value(ir.cast(statement.value, array.type))
        place = self.place(array, statement.index)
        if statement.combine is None:
            self.line(f"{place} = {value};")
        else:
            self.line(f"put_{statement.combine}(&{place}, {value});")

    def _loop(self, statement: ir.Loop) -> None:
        start, stop, step = (self.value(n) for n in (statement.start, statement.stop, statement.step))
        self.count += 1
        turn = f"turn{self.count}"
        if statement.step.op == "const":
            goes_on = f"{turn} {'<' if statement.step.data > 0 else '>'} {stop}"
        else:
            goes_on = f"{step} > 0 ? {turn} < {stop} : {turn} > {stop}"
        self.line(f"for (int64 {turn} = {start}; {goes_on}; {turn} += {step}) {{")
        self.line(f"    {named(statement.name)} = {turn};")
        self.statements(statement.body)
        self.line("}")

    def _dealt(self, statement: Dealt) -> None:
        start, stop = self.value(statement.start), self.value(statement.stop)
        self.count += 1
        turn = f"turn{self.count}"
        for name, how in statement.folds.items():
            self.line(f"if (LANE) {named(name)} = {_start_of(how, self.kinds[name])};")
        # a lane's turns are those of its number modulo the lanes, so that it finds its own elements again
        self.line(f"for (int64 {turn} = {start} + (int)(((unsigned)LANE - (unsigned){start}) % blockDim.x); "
                  f"{turn} < {stop}; {turn} += blockDim.x) {{")
        self.line(f"    {named(statement.name)} = {turn};")
        self.statements(statement.body)
        self.line("}")
        for name, how in statement.folds.items():
            self.line(f"{named(name)} = folded<fold_{how}>({named(name)});")

    def _first(self, statement: First) -> None:
        self.line("if (LANE == 0) {")
        self.statements(statement.body)
        self.line("}")

    def _meet(self, statement: Meet) -> None:
        self.line("meet();")

    def _while(self, statement: ir.While) -> None:
        self.line("while (true) {")
        self.statements(statement.test)
        self.indent += 1
        self.line(f"if (!({self.value(statement.condition)})) break;")
        self.indent -= 1
        self.statements(statement.body)
        self.line("}")

    def _if(self, statement: ir.If) -> None:
        self.line(f"if ({self.value(statement.condition)}) {{")
        self.statements(statement.then)
        if statement.otherwise:
            self.line("} else {")
            self.statements(statement.otherwise)
        self.line("}")

    def _block(self, statement: ir.Block) -> None:
        self.count += 1
        end = self.blocks[statement.name] = f"end{self.count}"
        self.line("{")
        self.statements(statement.body)
        self.line("}")
        self.line(f"{end}:;")

    def _exit(self, statement: ir.Exit) -> None:
        self.line(f"goto {self.blocks[statement.name]};")

    def _leave(self, statement: ir.Leave) -> None:
        self.line("continue;" if statement.turn else "break;")


def function_of(name: str, node: Node, parameters: Sequence[tuple[str, str]]) -> str:
    """A device function that computes an expression of its parameters."""
    text = Text()
    made = text.value(node)
    given = ", ".join(f"{C_TYPES[kind]} {own}" for own, kind in parameters)
    body = "\n".join([*text.lines, f"    return {made};"])
    return f"__device__ inline {C_TYPES[node.type]} {name}({given}) {{\n{body}\n}}\n"


def written_function(function: ir.Function) -> str:
    """A device function of the language."""
    text = Text(0)
    for name, kind in function.variables.items():
        text.lines.append(f"    {C_TYPES[kind]} {named(name)};")
    text.statements(function.body)
    text.indent = 1
    made = text.value(function.result)
    given = ", ".join(f"{C_TYPES[kind]} {named(own)}" for own, kind in function.parameters)
    body = "\n".join([*text.lines, f"    return {made};"])
    return f"__device__ inline {C_TYPES[function.result.type]} {function.name}({given}) {{\n{body}\n}}\n"


def kernel_source(kernel: ir.Kernel, held: Mapping[str, int] | None = None) -> str:
    """A kernel of the language, `run(*arrays, *numbers)`: a turn of its parallel loop for each thread, or, in teams
    (_kernels/teams.py), for each team.

    An array is a struct of its place, sizes and strides in elements; `held` is scratch memory as lanes have it.
    """
    structs = "".join(f"struct {a.name}_t {{ {C_TYPES[a.type]}* data; int64 shape[{max(a.ndim, 1)}]; "
                      f"int64 stride[{max(a.ndim, 1)}]; }};\n" for a in kernel.arrays)
    text = Text(0)
    text.kinds, text.held = kernel.variables, held or {}
    for name, kind in kernel.variables.items():
        text.lines.append(f"    {C_TYPES[kind]} {named(name)};")
    place = next((i for i, s in enumerate(kernel.body) if isinstance(s, ir.Loop) and s.work is not None), None)
    if place is None:
        text.statements(kernel.body)
    else:
        loop = kernel.body[place]
        text.statements(kernel.body[:place])
        text.indent = 1
        stop = text.value(loop.stop)
        own = "(int64)blockDim.x + threadIdx.x" if held is None else "(int64)blockDim.y + threadIdx.y"
        text.line(f"{named(loop.name)} = blockIdx.x * {own};")
        text.line(f"if ({named(loop.name)} >= {stop}) return;")
        text.indent = 0
        text.statements(loop.body)
    given = ", ".join([*(f"{a.name}_t {a.name}" for a in kernel.arrays),
                       *(f"{C_TYPES[kind]} {named(name)}" for name, kind in kernel.numbers)])
    body = "\n".join(text.lines)
    head = HEAD if held is None else HEAD + TEAM
    return f'{head}{structs}extern "C" __global__ void run({given}) {{\n{body}\n}}\n'
