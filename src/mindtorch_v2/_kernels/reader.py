"""Reads functions of the kernel language: what is known when a kernel is compiled is computed, the rest becomes IR."""

import ast
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import ir
from .ir import Array, Node, const
from .language import (
    ANY_TYPE,
    ATOMICS,
    CASTS,
    LANGUAGE,
    OPERATIONS,
    KernelError,
    Written,
    function,
    inf,
    kernel,
    parallel,
    unrolled,
)

_RANK = {kind: i for i, kind in enumerate(("bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "weak", "f32",
                                           "f64"))}  # fmt: skip
_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
           ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
           ast.Pow: "pow"}  # fmt: skip
_COMPARED = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne", ast.Is: "is",
             ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}  # fmt: skip
_STATIC_BINARY: dict[str, Callable] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "pow": lambda a, b: a**b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "is": lambda a, b: a is b, "is not": lambda a, b: a is not b,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
}  # fmt: skip


def read(written: kernel, arrays: Mapping[str, tuple[str, int, str]], numbers: Mapping[str, str],
         constants: Mapping[str, Any]) -> ir.Kernel:
    """The kernel's IR for arrays of (type, dimensions, layout) each, numbers of types, and constants."""
    reader = _Reader()
    scope: dict[str, Any] = dict(constants)
    given = [Array(name, *facts) for name, facts in arrays.items()]
    scope |= {a.name: a for a in given}
    for name, kind in numbers.items():
        scope[name] = Node("arg", "weak" if kind == "f64" else kind, (), name)
    reader.run(written, scope)
    return ir.Kernel(written.function.__name__, given, list(numbers.items()), reader.statements, reader.variables)


def read_function(written: function, name: str, kinds: Sequence[str]) -> ir.Function:
    """A function of numbers as IR, for parameters of these types."""
    reader = _Reader()
    parameters = [(a.arg, kind) for a, kind in zip(written.tree.args.args, kinds, strict=True)]
    result = reader.run(written, {n: Node("arg", kind, (), n) for n, kind in parameters})
    return ir.Function(name, parameters, reader.statements, reader.node(result, kinds[0]), reader.variables)


class _Reader:
    """Reads statements one after the other: what is known is computed, what is not becomes IR."""

    def __init__(self) -> None:
        self.statements: list = []
        self.variables: dict[str, str] = {}
        self.fresh = itertools.count()

    # functions -----------------------------------------------------------------------------------------------------

    def run(self, written: Written, scope: dict[str, Any]) -> Any:
        """The body with its parameters in the scope; what it returns."""
        frame = _Frame(self, written, scope, f"_{next(self.fresh)}" if self.variables or self.statements else "")
        return frame.result(written.tree.body)

    def inlined(self, written: Written, args: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        tree = written.tree.args
        names = [a.arg for a in tree.args]
        scope = dict(zip(names, args, strict=False)) | dict(constants)
        defaults = dict(zip(reversed(names), reversed(tree.defaults), strict=False))
        defaults |= {a.arg: d for a, d in zip(tree.kwonlyargs, tree.kw_defaults, strict=True) if d is not None}
        for name, default in defaults.items():
            scope.setdefault(name, ast.literal_eval(default))
        return self.run(written, scope)

    # values --------------------------------------------------------------------------------------------------------

    def node(self, value: Any, kind: str | None = None) -> Node:
        """A value as an expression, of a type where one is given."""
        if isinstance(value, Node):
            return value if kind is None else ir.cast(value, kind)
        if isinstance(value, (bool, np.bool_)):
            return const(bool(value), "bool") if kind in (None, "bool") else const(int(value), kind)
        if isinstance(value, (int, np.integer)):
            return const(int(value), "i64") if kind is None else ir.cast(const(int(value), "i64"), kind)
        if isinstance(value, (float, np.floating)):
            return ir.cast(const(float(value), "weak"), kind or "weak")
        raise KernelError(f"{value!r} is no number")

    def common(self, values: Sequence[Any], floating: bool = False) -> str:
        """The type in which values meet; a number that is written out takes that of the others."""
        kinds = [v.type for v in values if isinstance(v, Node)]
        known = [v for v in values if not isinstance(v, Node)]
        kind = max(kinds, key=_RANK.__getitem__) if kinds else "i64"
        if floating and kind not in ir.FLOATS or any(isinstance(v, float) for v in known) and kind not in ir.FLOATS:
            return "weak"
        if kind == "bool" and any(not isinstance(v, bool) for v in known):
            return "i64"
        return kind

    def binary(self, op: str, a: Any, b: Any) -> Any:
        if not isinstance(a, Node) and not isinstance(b, Node):
            return _STATIC_BINARY[op](a, b)
        if op == "pow":
            return self.power(a, b)
        kind = self.common((a, b), floating=op == "div")
        x, y = self.node(a, kind), self.node(b, kind)
        if kind == "bool" and op in ("add", "sub", "mul", "shl", "shr", "floordiv", "mod"):
            kind = "i64"
            x, y = ir.cast(x, kind), ir.cast(y, kind)
        if kind in ir.FLOATS and op in ("floordiv", "mod"):
            whole = Node("floor", kind, (Node("div", kind, (x, y)),))
            if op == "floordiv":
                return whole
            rest = Node("fmod", kind, (x, y))
            zero = const(0.0, kind)
            other = Node("ne", "bool", (Node("lt", "bool", (rest, zero)), Node("lt", "bool", (y, zero))))
            moved = Node("and", "bool", (Node("ne", "bool", (rest, zero)), other))
            return Node("select", kind, (moved, Node("add", kind, (rest, y)), rest))
        return Node(op, kind, (x, y))

    def power(self, base: Any, exponent: Any) -> Any:
        if isinstance(exponent, int) and 0 < exponent <= 8:
            made = base
            for _ in range(exponent - 1):
                made = self.binary("mul", made, base)
            return made
        kind = self.common((base, exponent), floating=True)
        return Node("pow", kind, (self.node(base, kind), self.node(exponent, kind)))

    def compared(self, op: str, a: Any, b: Any) -> Any:
        if not isinstance(a, Node) and not isinstance(b, Node):
            return _STATIC_BINARY[op](a, b)
        if op in ("is", "is not", "in", "not in"):
            return op in ("is not", "not in")
        kind = self.common((a, b))
        return Node(op, "bool", (self.node(a, kind), self.node(b, kind)))

    def truth(self, value: Any) -> Any:
        """A condition: known, or an expression of type bool."""
        if not isinstance(value, Node):
            return bool(value)
        return value if value.type == "bool" else Node("ne", "bool", (value, const(0, value.type)))

    def is_pure(self, value: Any, statements: Sequence) -> bool:
        """Whether a value may be computed though nobody asks for it."""
        if statements:
            return False
        return not isinstance(value, Node) or all(n.op not in ("load", "peek", "cdiv", "crem", "floordiv", "mod")
                                                  for n in value.walk())

    def variable(self, name: str, kind: str) -> Node:
        known = self.variables.setdefault(name, kind)
        return Node("var", known, (), name)


class _Frame:
    """One function that is being read: its names, and what it returns."""

    def __init__(self, reader: _Reader, written: Written, scope: dict[str, Any], suffix: str) -> None:
        self.reader, self.written, self.scope, self.suffix = reader, written, scope, suffix
        self.returned: Any = None
        self.given: list[ir.Set] = []  # what sets the value that is returned
        self.changing = written.changing
        for name in sorted({a.arg for a in written.tree.args.args} & self.changing):
            if isinstance(scope.get(name), (Node, int, float)):
                self.assign(ast.Name(name, ast.Store()), scope[name])

    def fail(self, tree: ast.AST, text: str) -> KernelError:
        place = f"{self.written.function.__code__.co_filename}:{getattr(tree, 'lineno', '?')}"
        return KernelError(f"{text} ({place})")

    # statements ----------------------------------------------------------------------------------------------------

    def result(self, body: Sequence[ast.stmt]) -> Any:
        """Reads the body; what it returns. A return from within branches or loops leaves a block of all statements."""
        statements, _ = self.apart(lambda: self.block(body))
        self.reader.statements += [ir.Block(self.left, statements)] if self.left else statements
        return self.returned

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Reads statements; whether they end the function."""
        return any(self.branch(tree) if isinstance(tree, ast.If) else self.statement(tree) for tree in body)

    def statement(self, tree: ast.stmt) -> bool:
        if isinstance(tree, ast.Return):
            self.give(None if tree.value is None else self.value(tree.value))
            return True
        if isinstance(tree, ast.Assign):
            if len(tree.targets) != 1:
                raise self.fail(tree, "one target at a time")
            self.assign(tree.targets[0], self.value(tree.value))
        elif isinstance(tree, ast.AugAssign):
            target = tree.target
            old = self.value(_loaded(target))
            self.assign(target, self.reader.binary(_BINARY[type(tree.op)], old, self.value(tree.value)))
        elif isinstance(tree, ast.For):
            self.loop(tree)
        elif isinstance(tree, ast.While):
            test, condition = self.apart(lambda: self.reader.truth(self.value(tree.test)))
            body = self.inside(tree.body)
            self.emit(ir.While(test, self.reader.node(condition, "bool"), body))
        elif isinstance(tree, (ast.Break, ast.Continue)):
            self.emit(ir.Leave(isinstance(tree, ast.Continue)))
        elif isinstance(tree, ast.Expr):
            if not isinstance(tree.value, ast.Constant):  # a docstring
                self.value(tree.value)
        elif not isinstance(tree, ast.Pass):
            raise self.fail(tree, f"{type(tree).__name__} is not of the language")
        return False

    def give(self, value: Any) -> None:
        """Returns a value: as it is if no other is returned."""
        if not self.branched and not self.left:
            self.returned = value
            return
        reader, name = self.reader, f"returned{self.suffix}_"
        node = reader.node(value)
        kind = max((reader.variables.get(name, node.type), node.type), key=_RANK.__getitem__)
        reader.variables[name] = kind
        self.returned = reader.variable(name, kind)
        self.given.append(ir.Set(name, node))
        for given in self.given:  # those before may have been of a narrower type
            given.value = ir.cast(given.value, kind)
        self.emit(self.given[-1])
        if self.branched:
            self.left = name
            self.emit(ir.Exit(name))

    branched = 0  # how many branches and loops the statement that is being read is in
    left = ""  # the name of the block that returns leave

    def inside(self, body: Sequence[ast.stmt]) -> list:
        """The statements of a branch or a loop."""
        self.branched += 1
        try:
            return self.apart(lambda: self.block(body))[0]
        finally:
            self.branched -= 1

    def branch(self, tree: ast.If) -> bool:
        """Reads a branch; whether it surely ends the function."""
        condition = self.reader.truth(self.value(tree.test))
        if not isinstance(condition, Node):
            return self.block(tree.body if condition else tree.orelse)
        self.emit(ir.If(condition, self.inside(tree.body), self.inside(tree.orelse)))
        return False

    def loop(self, tree: ast.For) -> None:
        call = tree.iter
        if not isinstance(call, ast.Call) or not isinstance(tree.target, ast.Name) or tree.orelse:
            raise self.fail(tree, "loops run over range, parallel or unrolled")
        kind, reader = self.value(call.func), self.reader
        args = [self.value(a) for a in call.args]
        if kind is unrolled:
            for turn in range(*args):
                self.scope[tree.target.id] = turn
                self.block(tree.body)
            return
        name = tree.target.id + self.suffix
        while reader.variables.get(name, "i64") != "i64":
            name += "_"
        self.scope[tree.target.id] = reader.variable(name, "i64")
        if kind is parallel:
            start, stop, step, work = 0, args[0], 1, reader.node(args[1] if len(args) > 1 else 1, "i64")
        elif kind is range:
            start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
            work = None
        else:
            raise self.fail(tree, "loops run over range, parallel or unrolled")
        body = self.inside(tree.body)
        limits = [reader.node(v, "i64") for v in (start, stop, step)]
        self.emit(ir.Loop(name, limits[0], limits[1], limits[2], body, work))

    def assign(self, target: ast.expr, value: Any) -> None:
        reader = self.reader
        if isinstance(target, ast.Tuple):
            values = [self.kept(v) for v in value]
            for one, each in zip(target.elts, values, strict=True):
                self.assign(one, each)
        elif isinstance(target, ast.Subscript):
            array, index = self.place(target)
            self.emit(ir.Store(array, index, reader.node(value)))
        elif isinstance(target, ast.Name):
            name, own = target.id, target.id + self.suffix
            if isinstance(value, Array) or not isinstance(value, Node) and name not in self.changing:
                self.scope[name] = value
                return
            node = reader.node(value)
            old = self.scope.get(name)
            if isinstance(old, Node) and old.op == "var" and old.data.startswith(own):
                variable = old
            else:
                while reader.variables.get(own, node.type) != node.type:
                    own += "_"
                variable = reader.variable(own, node.type)
            self.scope[name] = variable
            self.emit(ir.Set(variable.data, ir.cast(node, variable.type)))
        else:
            raise self.fail(target, "this cannot be assigned to")

    def kept(self, value: Any) -> Any:
        """A value that later assignments do not change."""
        if not isinstance(value, Node) or value.op in ("const", "arg"):
            return value
        held = self.reader.variable(f"held{next(self.reader.fresh)}", value.type)
        self.emit(ir.Set(held.data, value))
        return held

    def emit(self, statement: Any) -> None:
        self.reader.statements.append(statement)

    def apart(self, read: Callable[[], Any]) -> tuple[list, Any]:
        """The statements that reading something adds, and what it gives."""
        reader = self.reader
        outer, reader.statements = reader.statements, []
        try:
            made = read()
            return reader.statements, made
        finally:
            reader.statements = outer

    # expressions ---------------------------------------------------------------------------------------------------

    def value(self, tree: ast.expr) -> Any:
        method = getattr(self, f"_{type(tree).__name__.lower()}", None)
        if method is None:
            raise self.fail(tree, f"{type(tree).__name__} is not of the language")
        return method(tree)

    def _constant(self, tree: ast.Constant) -> Any:
        return tree.value

    def _name(self, tree: ast.Name) -> Any:
        if tree.id in self.scope:
            return self.scope[tree.id]
        try:
            return self.written.names[tree.id]
        except KeyError:
            raise self.fail(tree, f"'{tree.id}' is not known here") from None

    def _tuple(self, tree: ast.Tuple) -> Any:
        return tuple([self.value(e) for e in tree.elts])

    def _attribute(self, tree: ast.Attribute) -> Any:
        value = self.value(tree.value)
        if not isinstance(value, Array):
            return getattr(value, tree.attr)
        if tree.attr == "shape":
            return tuple([Node("dim", "i64", (), (value.name, d)) for d in range(value.ndim)])
        if tree.attr == "ndim":
            return value.ndim
        if tree.attr == "dtype":
            return ir.DTYPES[value.type]
        raise self.fail(tree, f"arrays have no '{tree.attr}' here")

    def place(self, tree: ast.Subscript) -> tuple[Any, tuple[Node, ...]]:
        array, index = self.value(tree.value), self.value(tree.slice)
        index = index if isinstance(index, tuple) else (index,)
        if not isinstance(array, Array) or len(index) != array.ndim:
            raise self.fail(tree, f"{getattr(array, 'ndim', 'no')} indices wanted")
        return array, tuple([self.reader.node(i, "i64") for i in index])

    def _subscript(self, tree: ast.Subscript) -> Any:
        array = self.value(tree.value)
        if not isinstance(array, Array):
            return array[self.value(tree.slice)]
        array, index = self.place(tree)
        loaded = Node("load", array.type, index, array)
        return ir.cast(loaded, ir.computed_in(array.type))

    def _unaryop(self, tree: ast.UnaryOp) -> Any:
        value, reader = self.value(tree.operand), self.reader
        if isinstance(tree.op, ast.Not):
            value = reader.truth(value)
            return Node("not", "bool", (value,)) if isinstance(value, Node) else not value
        if not isinstance(value, Node):
            return -value if isinstance(tree.op, ast.USub) else +value if isinstance(tree.op, ast.UAdd) else ~value
        if isinstance(tree.op, ast.UAdd):
            return value
        kind = "i64" if value.type == "bool" and isinstance(tree.op, ast.USub) else value.type
        return Node("neg" if isinstance(tree.op, ast.USub) else "not", kind, (ir.cast(value, kind),))

    def _binop(self, tree: ast.BinOp) -> Any:
        return self.reader.binary(_BINARY[type(tree.op)], self.value(tree.left), self.value(tree.right))

    def _compare(self, tree: ast.Compare) -> Any:
        left, made = self.value(tree.left), True
        for op, right_tree in zip(tree.ops, tree.comparators, strict=True):
            right = self.value(right_tree)
            one = self.reader.compared(_COMPARED[type(op)], left, right)
            made = self.both(made, one)
            left = right
        return made

    def both(self, a: Any, b: Any) -> Any:
        if not isinstance(a, Node):
            return b if a else False
        if not isinstance(b, Node):
            return a if b else False
        return Node("and", "bool", (a, b))

    def _boolop(self, tree: ast.BoolOp) -> Any:
        reader, is_and = self.reader, isinstance(tree.op, ast.And)
        made = reader.truth(self.value(tree.values[0]))
        for each in tree.values[1:]:
            if not isinstance(made, Node):
                if made is not is_and:
                    return made
                made = reader.truth(self.value(each))
                continue
            first = made
            added, second = self.apart(lambda each=each: reader.truth(self.value(each)))  # type: ignore[misc]
            if reader.is_pure(second, added):
                if not isinstance(second, Node):
                    made = first if second is is_and else second
                else:
                    made = Node("and" if is_and else "or", "bool", (first, second))
                continue
            held = reader.variable(f"held{next(reader.fresh)}", "bool")
            self.emit(ir.Set(held.data, first))
            more = [*added, ir.Set(held.data, reader.node(second, "bool"))]
            self.emit(ir.If(held, more if is_and else [], [] if is_and else more))
            made = held
        return made

    def _ifexp(self, tree: ast.IfExp) -> Any:
        reader = self.reader
        condition = reader.truth(self.value(tree.test))
        if not isinstance(condition, Node):
            return self.value(tree.body if condition else tree.orelse)
        then, a = self.apart(lambda: self.value(tree.body))
        otherwise, b = self.apart(lambda: self.value(tree.orelse))
        kind = reader.common((a, b)) if isinstance(a, Node) or isinstance(b, Node) else (
            "weak" if isinstance(a, float) or isinstance(b, float) else "bool" if isinstance(a, bool) else "i64")
        a, b = reader.node(a, kind), reader.node(b, kind)
        if reader.is_pure(a, then) and reader.is_pure(b, otherwise):
            return Node("select", kind, (condition, a, b))
        held = reader.variable(f"held{next(reader.fresh)}", kind)
        self.emit(ir.If(condition, [*then, ir.Set(held.data, a)], [*otherwise, ir.Set(held.data, b)]))
        return held

    def _call(self, tree: ast.Call) -> Any:
        called, reader = self.value(tree.func), self.reader
        args = [self.value(a) for a in tree.args]
        constants = {k.arg: self.value(k.value) for k in tree.keywords if k.arg is not None}
        if isinstance(called, function):
            if called.stores:  # arguments have the values from before
                args = [a if reader.is_pure(a, ()) else self.kept(a) for a in args]
            return reader.inlined(called, args, constants)
        if isinstance(called, Traced):
            return called.inlined(reader, args)
        if called in CASTS:
            if not isinstance(args[0], Node):
                return args[0] if called not in (int, float, bool) and CASTS[called] == "i64" else (
                    called(args[0]) if called in (int, float, bool) else reader.node(args[0], CASTS[called]))
            return ir.cast(args[0], CASTS[called])
        if called in ATOMICS:
            array, *index, value = args
            self.emit(ir.Store(array, tuple([reader.node(i, "i64") for i in index]), reader.node(value),
                               ATOMICS[called]))
            return None
        special = getattr(self, f"_call_{getattr(called, '__name__', '')}", None)
        if special is not None and called in LANGUAGE:
            return special(*args, **constants)
        if called in OPERATIONS:
            return self.operation(OPERATIONS[called], args)
        if not any(isinstance(a, (Node, Array)) for a in args):
            return called(*args, **constants)
        raise self.fail(tree, f"'{getattr(called, '__name__', called)}' cannot be called in a kernel")

    def operation(self, name: str, args: Sequence[Any]) -> Any:
        reader = self.reader
        if name in ("min", "max") and len(args) > 2:
            made = args[0]
            for each in args[1:]:
                made = self.operation(name, (made, each))
            return made
        if not any(isinstance(a, Node) for a in args):
            python = next(f for f, n in OPERATIONS.items() if n == name)
            made = python(*args)
            return made.item() if isinstance(made, np.generic) else made
        kind = reader.common(args, floating=name not in ANY_TYPE)
        return Node(name, kind, tuple([reader.node(a, kind) for a in args]))

    def _call_like(self, value: Any, other: Array | Node) -> Node:
        return self.reader.node(value, ir.computed_in(other.type))

    def _call_rounded(self, value: Node, array: Array) -> Node:
        halves = array.type in ("f16", "bf16")
        return Node("cast", value.type, (Node("cast", array.type, (value,)),)) if halves else value

    def _call_local(self, length: int, kind: Any) -> Array:
        of = ir.computed_in(kind.type) if isinstance(kind, (Array, Node)) else CASTS[kind]
        return Array(f"local{next(self.reader.fresh)}", of, 1, "c", length)

    def _call_ordered(self, value: Node) -> Node:
        return Node(value.op, value.type, value.args, "ordered")

    def _call_c_div(self, a: Any, b: Any) -> Node:
        kind = self.reader.common((a, b))
        given = (self.reader.node(a, kind), self.reader.node(b, kind))
        made = Node("div" if kind in ir.FLOATS else "cdiv", kind, given)
        return Node("trunc", kind, (made,)) if kind in ir.FLOATS else made

    def _call_c_rem(self, a: Any, b: Any) -> Node:
        kind = self.reader.common((a, b))
        given = (self.reader.node(a, kind), self.reader.node(b, kind))
        return Node("fmod" if kind in ir.FLOATS else "crem", kind, given)

    def _call_as_int(self, value: Node) -> Node:
        kind = "f64" if value.type == "weak" else value.type
        return Node("bits", "i32" if kind == "f32" else "i64", (ir.cast(value, kind),))

    def _call_as_float32(self, value: Node) -> Node:
        return Node("bits", "f32", (ir.cast(value, "i32"),))

    def _call_as_float64(self, value: Node) -> Node:
        return Node("bits", "f64", (ir.cast(value, "i64"),))

    def _call_far(self, name: str, value: Node, limit: float, *args: Node) -> Node:
        return Node("far", value.type, (value, *args), (name, limit))

    def _call_peek(self, address: Node) -> Node:
        return Node("peek", "i64", (self.reader.node(address, "i64"),))

    def _call_peek32(self, address: Node) -> Node:
        return ir.cast(Node("peek", "i32", (self.reader.node(address, "i64"),)), "i64")

    def _call_poke(self, address: Node, value: Any) -> None:
        self.emit(ir.Poke(self.reader.node(address, "i64"), self.reader.node(value, "i64")))

    def _call_multiply(self, *blocks: Any, turned: str = "", adds: bool = False, wide: bool = True) -> None:
        given: list[Any] = [tuple([self.reader.node(i, "i64") for i in each]) if isinstance(each, tuple) else each
                            for each in blocks]
        self.emit(ir.Multiply(*given, turned=turned, adds=adds, wide=wide))

    def _call_pack(self, panels: Array, at: Any, b: Array, b_at: tuple, sizes: tuple, *, turned: bool,
                   tile: str) -> None:
        node = self.reader.node
        self.emit(ir.Pack(panels, node(at, "i64"), b, tuple([node(i, "i64") for i in b_at]),
                          tuple([node(n, "i64") for n in sizes]), turned=turned, tile=tile))

    def _call_multiply_panel(self, made: Array, at: tuple, a: Array, a_at: tuple, panels: Array, panel: Any,
                             sizes: tuple, *, adds: bool = False, tile: str) -> None:
        node = self.reader.node
        places = [tuple([node(i, "i64") for i in each]) for each in (at, a_at, sizes)]
        self.emit(ir.MultiplyPanel(made, places[0], a, places[1], panels, node(panel, "i64"), places[2], adds=adds,
                                   tile=tile))

    def _call_rsqrt(self, value: Node) -> Node:
        kind = self.reader.common((value,), floating=True)
        return Node("div", kind, (const(1.0, kind), Node("sqrt", kind, (self.reader.node(value, kind),))))

    def _call_isnan(self, value: Node) -> Node:
        return Node("ne", "bool", (value, value))

    def _call_isinf(self, value: Node) -> Node:
        return Node("eq", "bool", (Node("abs", value.type, (value,)), const(inf, value.type)))

    def _call_isfinite(self, value: Node) -> Node:
        return Node("lt", "bool", (Node("abs", value.type, (value,)), const(inf, value.type)))


class Traced:
    """A traced expression that kernels call as a function: a graph whose loads are its parameters."""

    def __init__(self, parameters: Sequence[str], result: Node) -> None:
        self.parameters, self.result = parameters, result

    def inlined(self, reader: _Reader, args: Sequence[Any]) -> Node:
        given = dict(zip(self.parameters, args, strict=True))
        made: dict[int, Node] = {}

        def replaced(node: Node) -> Node:
            known = made.get(id(node))
            if known is None:
                if node.op == "arg" and node.data in given:
                    known = reader.node(given[node.data], node.type)
                else:
                    known = Node(node.op, node.type, tuple([replaced(a) for a in node.args]), node.data)
                made[id(node)] = known
            return known

        return replaced(self.result)


def _loaded(target: ast.expr) -> ast.expr:
    """What an augmented assignment reads."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    assert isinstance(target, ast.Subscript)
    return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
