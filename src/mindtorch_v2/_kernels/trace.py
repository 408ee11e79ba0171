"""Pointwise functions as expressions: `compute(xp, *args)` runs once on symbols, which write down what is done to them.

Arrays become parameters of the expression, and so do numbers. Where Python looks at a number (`if alpha == 1`), the
answer is noted as a guard: the expression serves calls that give the same answers. What cannot be written down raises
Untraceable.
"""

import math
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from .ir import FLOATS, SIZES, TYPES, Node, cast, const
from .math import FUNCTIONS as math_functions

_BOOL, _INT64, _FLOAT32, _FLOAT64 = (np.dtype(name) for name in ("bool", "int64", "float32", "float64"))
_NUMBERS = (bool, int, float)


class Untraceable(Exception):
    """The function does what has no counterpart in a kernel."""


class Kind:
    """The type of a symbol: a NumPy dtype whose `type` takes symbolic numbers too."""

    def __init__(self, wrapped: np.dtype) -> None:
        self.np, self.kind, self.itemsize, self.name = wrapped, wrapped.kind, wrapped.itemsize, wrapped.name

    def type(self, value: Any) -> Any:
        return value.cast(self.np) if isinstance(value, Symbol) else self.np.type(value)

    def __eq__(self, other: object) -> bool:
        return self.np == (other.np if isinstance(other, Kind) else other)

    def __hash__(self) -> int:
        return hash(self.np)


class Symbol:
    """An element that is known when the kernel runs."""

    shape: tuple = (1,)
    ndim = size = 1
    __array_ufunc__ = None  # NumPy's scalars leave operators to us

    def __init__(self, program: "Program", node: Node | None, kind: np.dtype | None) -> None:
        self.program, self.node, self.np = program, node, kind

    @property
    def dtype(self) -> Kind:
        assert self.np is not None
        return Kind(self.np)

    def in_type(self, kind: np.dtype) -> Node:
        if self.node is None:
            raise Untraceable
        return cast(self.node, _type(kind))

    def cast(self, kind: np.dtype) -> "Symbol":
        return self if self.np == kind else Symbol(self.program, self.in_type(kind), kind)

    def astype(self, dtype: Any, copy: bool = True, **options: Any) -> "Symbol":
        kind = dtype.np if isinstance(dtype, Kind) else np.dtype(dtype)
        return Symbol(self.program, self.in_type(kind), kind)

    def become(self, made: "Symbol") -> "Symbol":
        """This value, written over with another."""
        self.node = made.node if self.np is None or made.np == self.np else made.in_type(self.np)
        self.np = made.np if self.np is None else self.np
        return self

    def copy(self) -> "Symbol":
        return Symbol(self.program, self.node, self.np)

    def conj(self) -> "Symbol":
        return self

    def with_imaginary(self, other: "Symbol") -> "Symbol":
        """The complex number of two parts of one type, which comes out and is not computed with."""
        if self.program.functions is not None or self.node is None or self.np is None:
            raise Untraceable  # other devices have kernels of their own for it
        single = self.np.itemsize == 4
        node = Node("pair", "c64" if single else "c128", (self.node, other.in_type(self.np)))
        return Symbol(self.program, node, np.dtype(np.complex64 if single else np.complex128))

    def _untraceable(self, *args: Any) -> Any:
        raise Untraceable

    __bool__ = __float__ = __int__ = __index__ = __complex__ = __len__ = __iter__ = __getitem__ = _untraceable
    __setitem__ = __getattr__ = _untraceable
    __hash__ = None  # type: ignore[assignment]
    real = property(lambda self: self)


class Number(Symbol):
    """A Python number among the arguments; of a type where it stands for a tensor, else taking that of its partner.

    `text` is the same in Python, for guards; `node` is of type i64 or f64 until it gets a type.
    """

    shape = ()
    ndim = 0

    def __init__(self, program: "Program", text: str, value: Any, node: Node, kind: np.dtype | None) -> None:
        super().__init__(program, node if kind is None else cast(node, _type(kind)), kind)
        self.text, self.value, self.given = text, value, node

    @property
    def dtype(self) -> Kind:
        return Kind(self.np or (_FLOAT64 if isinstance(self.value, float) else _INT64))

    def cast(self, kind: np.dtype) -> Symbol:
        return Number(self.program, self.text, self.value, self.given, kind)

    def baked(self) -> Any:
        """The value itself: the kernel serves this one only."""
        if not math.isfinite(self.value):
            raise Untraceable
        self.program.guards.append((self.text, self.given, "eq", self.value, True))
        return self.value

    def _compared(self, op: str, other: Any) -> Any:
        other = other.item() if isinstance(other, np.generic) else other
        if not isinstance(other, _NUMBERS) or not math.isfinite(other):
            return NotImplemented
        answer = _PYTHON[op](self.value, other)
        self.program.guards.append((self.text, self.given, op, other, answer))
        return answer

    def __bool__(self) -> bool:
        self.program.guards.append((self.text, self.given, "ne", 0, bool(self.value)))
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.baked())

    def __int__(self) -> int:
        return int(self.baked())

    def __index__(self) -> int:
        return self.baked().__index__()

    def __complex__(self) -> complex:
        return complex(self.baked())

    def __neg__(self) -> "Number":
        made = Node("neg", self.given.type, (self.given,))
        return Number(self.program, f"(-{self.text})", -self.value, made, self.np)

    def __abs__(self) -> "Number":
        made = Node("abs", self.given.type, (self.given,))
        return Number(self.program, f"abs({self.text})", abs(self.value), made, self.np)

    def _combined(self, op: str, other: Any, swapped: bool) -> Any:
        """A number of numbers; NotImplemented with arrays."""
        value = other.value if isinstance(other, Number) else other
        if isinstance(other, Symbol) and not isinstance(other, Number) or not isinstance(value, _NUMBERS):
            return NotImplemented
        if self.np is not None or isinstance(other, Number) and other.np is not None:
            return NotImplemented
        a, b = (value, self.value) if swapped else (self.value, value)
        sign = _SIGNS[op]
        made = _PYTHON[op](a, b)
        if op not in ("add", "sub", "mul") and not isinstance(a, float) or op in ("pow", "mod", "floordiv"):
            if isinstance(other, Number):  # machine code would do it in integers, or not at all
                other.baked()
            self.baked()
            return made
        text = other.text if isinstance(other, Number) else repr(other)
        kind = "f64" if isinstance(made, float) else self.given.type
        nodes = [cast(self.given, kind), cast(other.given, kind) if isinstance(other, Number) else const(value, kind)]
        texts = [self.text, text]
        if swapped:
            nodes.reverse()
            texts.reverse()
        return Number(self.program, f"({texts[0]} {sign} {texts[1]})", made, Node(op, kind, tuple(nodes)), None)


_PYTHON: dict[str, Callable] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b, "mod": lambda a, b: a % b, "floordiv": lambda a, b: a // b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}  # fmt: skip
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "mod": "%", "floordiv": "//"}
# What a guard says: a number (in Python and as a node), a comparison, what with, and the answer.
Guard = tuple[str, Node, str, Any, bool]


class Program:
    """What an expression takes for granted; `waits` where a function may look whether all elements are as it wants."""

    def __init__(self, waits: bool, functions: Container[str] | None) -> None:
        self.guards: list[Guard] = []
        self.waits, self.functions = waits, functions

    def has(self, op: str, kind: str) -> bool:
        """Whether there is an operation, or a function of that name: the device's own, C's, or the language's."""
        if op in _OPERATIONS or op in _C_LIBRARY:
            return True
        if self.functions is not None:
            return op in self.functions
        return f"{op}_{kind}" in math_functions or op in math_functions

    def value(self, op: str, kind: np.dtype, *args: Node) -> Symbol:
        return Symbol(self, Node(op, _type(kind), args), kind)

    def operand(self, value: Any, kind: np.dtype) -> Node:
        """A value in a type."""
        if isinstance(value, Symbol):
            return value.in_type(kind)
        value = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
        if not isinstance(value, _NUMBERS):
            raise Untraceable
        if kind.kind in "iu" and not np.iinfo(kind).min <= value <= np.iinfo(kind).max:
            raise Untraceable
        return const(float(value) if kind.kind == "f" else int(value), _type(kind))


def _type(kind: np.dtype) -> str:
    made = TYPES.get(kind.name)
    if made is None:
        raise Untraceable
    return made


def _common(values: Sequence[Any]) -> np.dtype:
    """The type in which NumPy would combine values: numbers take that of the arrays."""
    strong = [v.np for v in values if isinstance(v, Symbol) and v.np is not None]
    strong += [v.dtype for v in values if isinstance(v, (np.generic, np.ndarray))]
    if not strong:
        raise Untraceable
    kind = strong[0]
    for other in strong[1:]:
        kind = np.promote_types(kind, other)
    for value in values:
        plain = value.value if isinstance(value, Number) and value.np is None else value
        if plain.__class__ is float and kind.kind != "f":
            kind = _FLOAT64
        elif plain.__class__ is int and kind.kind == "b":
            kind = _INT64
    if kind.name not in TYPES or kind.itemsize == 2 and kind.kind not in "iu":
        raise Untraceable
    return kind


def _program(values: Sequence[Any]) -> Program:
    for value in values:
        if isinstance(value, Symbol):
            return value.program
    raise Untraceable


Composed = Callable[..., Node]  # of nodes of one type


def _function(compose: "str | Composed", kinds: str = "biuf", gives: np.dtype | None = None) -> Callable:
    """A function of operands brought to one type: an operation, or a composition of nodes.

    `kinds` are those it computes in, others becoming double.
    """

    def call(*args: Any, out: Any = None, dtype: Any = None, order: Any = None) -> Any:
        program = _program(args)
        kind = _common(args) if dtype is None else (dtype.np if isinstance(dtype, Kind) else np.dtype(dtype))
        if kind.kind not in kinds:
            if kind.kind == "b" and "i" in kinds:
                kind = np.dtype(np.int8)
            elif "f" in kinds:
                kind = _FLOAT64
            else:
                raise Untraceable
        parts = [program.operand(a, kind) for a in args]
        if isinstance(compose, str) and not program.has(compose, _type(kind)):
            raise Untraceable
        node = Node(compose, _type(gives or kind), tuple(parts)) if isinstance(compose, str) else compose(*parts)
        made = Symbol(program, node, gives or kind)
        return made if out is None else (out[0] if isinstance(out, tuple) else out).become(made)

    return call


# Operations of IR, and functions of the C library, in both floating types.
_OPERATIONS = frozenset(("add", "sub", "mul", "div", "neg", "and", "or", "xor", "not", "abs", "floordiv", "mod", "crem",
                         "lt", "le", "gt", "ge", "eq", "ne", "sqrt", "floor", "ceil", "trunc", "rint", "copysign"))
_C_LIBRARY = frozenset(("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
                        "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "pow", "cbrt", "erf",
                        "erfc", "lgamma", "hypot", "fmod", "nextafter"))


# compositions --------------------------------------------------------------------------------------------------------


def _n(op: str, *args: Node) -> Node:
    """An operation in the type of its operands; a test where it is one."""
    return Node(op, "bool" if op in ("lt", "le", "gt", "ge", "eq", "ne") else args[-1].type, args)


def _or(a: Node, b: Node) -> Node:
    return Node("or", "bool", (a, b))


def _zero(x: Node) -> Node:
    return const(0.0 if x.type in FLOATS else 0, x.type)


def _one(x: Node) -> Node:
    return const(1.0 if x.type in FLOATS else 1, x.type)


def _is_nan(x: Node) -> Node:
    return _n("ne", x, x) if x.type in FLOATS else const(False, "bool")


def _extreme(test: str, of_nan: int) -> Composed:
    """The larger or smaller; a NaN in the operand numbered `of_nan` decides for the first."""

    def compose(a: Node, b: Node) -> Node:
        if a.type not in FLOATS:
            return _n("select", _n(test, a, b), a, b)
        return _n("select", _or(_n(test, a, b), _is_nan((a, b)[of_nan])), a, b)

    return compose


_LOG2_E = 1 / math.log(2)
_FEW_BITS = 5  # of exponents that are whole numbers


def _logaddexp(power: str, log: str, scale: float) -> Composed:
    """The logarithm of a sum of powers; `scale` turns the natural logarithm into that of their base."""

    def compose(a: Node, b: Node) -> Node:
        high = _n("select", _n("gt", a, b), a, b)
        apart = _n("neg", _n("abs", _n("sub", a, b)))
        more = _n(log, _n(power, apart))
        far = _n("add", high, more if scale == 1 else _n("mul", more, const(scale, a.type)))
        same = _n("add", a, const(math.log(2) * scale, a.type))
        return _n("select", _n("eq", a, b), same, _n("select", _or(_is_nan(a), _is_nan(b)), _n("add", a, b), far))

    return compose


def _times_log(log: str) -> Composed:
    def compose(a: Node, b: Node) -> Node:
        made = _n("select", _n("eq", a, _zero(a)), _n("mul", a, _zero(a)), _n("mul", a, _n(log, b)))
        return _n("select", _is_nan(b), b, made)

    return compose


def _floor_rest(a: Node, b: Node) -> Node:
    """The rest that has the sign of the divisor."""
    rest = _n("fmod", a, b)
    other = Node("xor", "bool", (_n("lt", rest, _zero(a)), _n("lt", b, _zero(b))))
    moved = Node("and", "bool", (_n("ne", rest, _zero(a)), other))
    whole = _n("select", _n("eq", rest, _zero(a)), _n("copysign", _zero(a), b), rest)
    return _n("select", moved, _n("add", rest, b), whole)


def _floor_divided(a: Node, b: Node) -> Node:
    rest = _n("fmod", a, b)
    quotient = _n("div", _n("sub", a, rest), b)
    other = Node("xor", "bool", (_n("lt", rest, _zero(a)), _n("lt", b, _zero(b))))
    moved = Node("and", "bool", (_n("ne", rest, _zero(a)), other))
    quotient = _n("select", moved, _n("sub", quotient, _one(a)), quotient)
    whole = _n("floor", quotient)
    up = _n("gt", _n("sub", quotient, whole), const(0.5, a.type))
    whole = _n("select", up, _n("add", whole, _one(a)), whole)
    divided = _n("div", a, b)
    whole = _n("select", _n("eq", quotient, _zero(a)), _n("copysign", _zero(a), divided), whole)
    return _n("select", _n("eq", b, _zero(b)), divided, whole)


def _whole_power(a: Node, b: Node) -> Node:
    """A whole number to the power of one that is not negative, by the bits of that; of most of them the low ones."""

    def by_bits(count: int) -> Node:
        made, square = _one(a), a
        for bit in range(count):
            is_set = _n("ne", _n("and", b, const(1 << bit, b.type)), _zero(b))
            made = _n("select", is_set, _n("mul", made, square) if bit else a, made)
            square = _n("mul", square, square)
        return made

    bits = 8 * SIZES[a.type] - (a.type[0] == "i")
    if bits <= _FEW_BITS:
        return by_bits(bits)
    return _n("select", _n("lt", b, const(1 << _FEW_BITS, b.type)), by_bits(_FEW_BITS), by_bits(bits))


def _truth(op: str) -> Composed:
    return lambda a, b: Node(op, "bool", (_n("ne", a, _zero(a)), _n("ne", b, _zero(b))))


def _signbit(x: Node) -> Node:
    bits = Node("bits", "i32" if x.type == "f32" else "i64", (x,))
    return _n("lt", bits, const(0, bits.type))


def _nan_free(x: Node) -> Node:
    return _n("lt", _n("abs", x), const(math.inf, x.type)) if x.type in FLOATS else const(True, "bool")


_ARITHMETIC: dict[str, tuple] = {
    "add": ("add", "iuf"), "subtract": ("sub", "iuf"), "multiply": ("mul", "iuf"), "true_divide": ("div", "f"),
    "divide": ("div", "f"), "negative": ("neg", "iuf"), "square": (lambda x: _n("mul", x, x), "iuf"),
    "reciprocal": (lambda x: _n("div", _one(x), x), "f"),
    "maximum": (_extreme("ge", 0),), "minimum": (_extreme("le", 0),),
    "fmax": (_extreme("ge", 1),), "fmin": (_extreme("le", 1),),
    "arctan2": ("atan2", "f"), "hypot": ("hypot", "f"), "copysign": ("copysign", "f"), "nextafter": ("nextafter", "f"),
    "bitwise_and": ("and", "biu"), "bitwise_or": ("or", "biu"), "bitwise_xor": ("xor", "biu"),
    "logaddexp": (_logaddexp("exp", "log1p", 1.0), "f"),
    "logaddexp2": (_logaddexp("exp2", "log1p", _LOG2_E), "f"),
    "xlogy": (_times_log("log"), "f"), "xlog1py": (_times_log("log1p"), "f"),
    "expit": (lambda x: _n("div", _one(x), _n("add", _one(x), _n("exp", _n("neg", x)))), "f"),
}  # fmt: skip
_TESTS: dict[str, "str | Composed"] = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "logical_and": _truth("and"), "logical_or": _truth("or"), "logical_xor": _truth("xor"),
    "logical_not": lambda x: _n("eq", x, _zero(x)), "isnan": _is_nan, "isfinite": _nan_free,
    "isinf": lambda x: _n("eq", _n("abs", x), const(math.inf, x.type)) if x.type in FLOATS else const(False, "bool"),
}  # fmt: skip
# Functions of one floating number: in NumPy or SciPy, and here.
_MATH = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "gammaln": "lgamma", "psi": "digamma",
}  # fmt: skip
_MATH |= {name: name for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh",
                                  "cosh", "tanh", "sqrt", "cbrt", "erf", "erfc", "digamma")}  # fmt: skip
_ROUNDINGS = ("floor", "ceil", "trunc", "rint")


class Namespace:
    """What traced functions call `xp`."""

    ndarray = Symbol
    pi, inf, nan, e = math.pi, math.inf, math.nan, math.e

    def __getattr__(self, name: str) -> Any:
        """A function that is written in the kernel language."""
        return _function(name, "f")

    def asarray(self, value: Any, dtype: Any = None, order: Any = None) -> Any:
        if not isinstance(value, Symbol):
            return np.asarray(value, dtype)
        return value if dtype is None else value.astype(dtype)

    def all(self, value: Symbol) -> bool:
        """True where data is not waited for, so that nothing is found wrong with it."""
        if isinstance(value, Number):
            return bool(value)
        if value.program.waits:
            raise Untraceable
        return True

    def broadcast(self, *values: Any) -> Symbol:
        """What has the shape of all: each element is looked at alone."""
        return next(v for v in values if isinstance(v, Symbol))

    def isreal(self, x: Symbol) -> Symbol:
        return Symbol(x.program, const(True, "bool"), _BOOL)

    def empty_like(self, value: Symbol) -> Symbol:
        return Symbol(value.program, const(0, _type(value.dtype.np)), value.np)

    zeros_like = empty_like

    def ones_like(self, value: Symbol) -> Symbol:
        return Symbol(value.program, const(1, _type(value.dtype.np)), value.np)

    def absolute(self, x: Symbol, out: Any = None) -> Symbol:
        return x if x.dtype.kind in "ub" else _ABSOLUTE(x, out=out)

    abs = absolute

    def sign(self, x: Symbol, out: Any = None) -> Symbol:
        if x.dtype.kind == "b":
            raise Untraceable
        return _SIGN(x, out=out)

    def signbit(self, x: Symbol) -> Symbol:
        return _SIGNBIT(x) if x.dtype.kind == "f" else self.less(x, 0)

    def where(self, condition: Any, first: Any, second: Any) -> Any:
        program = _program((condition, first, second))
        if any(isinstance(v, (Symbol, np.generic, np.ndarray)) for v in (first, second)):
            kind = _common((first, second))
        else:
            kind = _FLOAT64 if float in (first.__class__, second.__class__) else _INT64
        if not isinstance(condition, Symbol):  # decided while tracing
            return Symbol(program, program.operand(first if condition else second, kind), kind)
        return program.value("select", kind, condition.in_type(_BOOL), program.operand(first, kind),
                             program.operand(second, kind))

    def zero_where(self, condition: Any, values: Symbol) -> Symbol:
        return self.where(condition, values.np.type(0), values)  # type: ignore[union-attr]

    def in_blocks(self, compute: Callable, *arguments: Any) -> Any:
        return compute(self, *arguments)

    def at_least(self, x: Any, bound: Any) -> Any:
        return self.maximum(x, bound)

    def at_most(self, x: Any, bound: Any) -> Any:
        return self.minimum(x, bound)

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        return self.at_most(self.at_least(x, low), high)

    def conjugate(self, x: Any, out: Any = None) -> Any:
        return x

    positive = real = conjugate

    def floor_divide(self, a: Any, b: Any) -> Any:
        self._refuse_waiting(a, b)
        return (_FLOOR_WHOLE if _common((a, b)).kind in "iu" else _FLOOR_DIVIDED)(a, b)

    def remainder(self, a: Any, b: Any) -> Any:
        self._refuse_waiting(a, b)
        return (_REST_WHOLE if _common((a, b)).kind in "iu" else _REST_DIVIDED)(a, b)

    def fmod(self, a: Any, b: Any) -> Any:
        self._refuse_waiting(a, b)
        return (_REST if _common((a, b)).kind in "iu" else _FMOD)(a, b)

    def _refuse_waiting(self, a: Any, b: Any) -> None:
        """Whole numbers divided by zero are an error where elements are looked at, but not by a positive number."""
        kind = _common((a, b))
        if kind.kind not in "iu" or not _program((a, b)).waits:
            return
        if not isinstance(b, Number) or not (b._compared("gt", 0) and b._compared("le", np.iinfo(kind).max)):
            raise Untraceable

    def power(self, a: Any, b: Any) -> Any:
        kind = _common((a, b)).kind
        if kind not in "iuf":
            raise Untraceable
        return (_POWER if kind == "f" else _WHOLE_POWER)(a, b)

    def invert(self, x: Symbol) -> Symbol:
        return _INVERTED(x) if x.dtype.kind != "b" else self.logical_not(x)

    bitwise_not = invert


def _rounding(name: str) -> Callable:
    function = _function(name, "f")
    return lambda self, x, out=None: x if x.dtype.kind in "iub" else function(x, out=out)


def _attach() -> None:
    """Gives the namespace its functions, and symbols Python's operators."""
    for name, (compose, *kinds) in _ARITHMETIC.items():
        setattr(Namespace, name, staticmethod(_function(compose, *kinds)))
    for name, test in _TESTS.items():
        setattr(Namespace, name, staticmethod(_function(test, gives=_BOOL)))
    for name, op in _MATH.items():
        setattr(Namespace, name, staticmethod(_function(op, "f")))
    for name in _ROUNDINGS:
        setattr(Namespace, name, _rounding(name))
    for special, op, name in (
        ("add", "add", "add"), ("sub", "sub", "subtract"), ("mul", "mul", "multiply"),
        ("truediv", "div", "true_divide"), ("pow", "pow", "power"), ("floordiv", "floordiv", "floor_divide"),
        ("mod", "mod", "remainder"),
        ("and", "", "bitwise_and"), ("or", "", "bitwise_or"), ("xor", "", "bitwise_xor"),
    ):  # fmt: skip
        _attach_operator(special, op, name)
    for op, name in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"), ("eq", "equal"),
                     ("ne", "not_equal")):  # fmt: skip
        _attach_comparison(op, name)
    for special, name in (("neg", "negative"), ("abs", "absolute"), ("invert", "invert")):
        setattr(Symbol, f"__{special}__", lambda self, name=name: getattr(xp, name)(self))


def _attach_operator(special: str, op: str, name: str) -> None:
    def of_numbers(self: Symbol, other: Any, swapped: bool) -> Any:
        return self._combined(op, other, swapped) if op and isinstance(self, Number) else NotImplemented

    def forward(self: Symbol, other: Any) -> Any:
        made = of_numbers(self, other, False)
        return getattr(xp, name)(self, other) if made is NotImplemented else made

    def backward(self: Symbol, other: Any) -> Any:
        made = of_numbers(self, other, True)
        return getattr(xp, name)(other, self) if made is NotImplemented else made

    def inplace(self: Symbol, other: Any) -> Any:
        return forward(self, other) if isinstance(self, Number) else self.become(getattr(xp, name)(self, other))

    setattr(Symbol, f"__{special}__", forward)
    setattr(Symbol, f"__r{special}__", backward)
    setattr(Symbol, f"__i{special}__", inplace)


def _attach_comparison(op: str, name: str) -> None:
    def compare(self: Symbol, other: Any) -> Any:
        made = self._compared(op, other) if isinstance(self, Number) else NotImplemented
        return getattr(xp, name)(self, other) if made is NotImplemented else made

    setattr(Symbol, f"__{op}__", compare)


def _sign(x: Node) -> Node:
    positive, negative = _n("gt", x, _zero(x)), _n("lt", x, _zero(x))
    made = _n("select", positive, _one(x), _n("select", negative, _n("neg", _one(x)), _zero(x)))
    return _n("select", _is_nan(x), x, made) if x.type in FLOATS else made


_ABSOLUTE, _INVERTED, _SIGN = _function("abs", "if"), _function("not", "iu"), _function(_sign, "iuf")
_SIGNBIT = _function(_signbit, "f", _BOOL)
_REST, _FMOD, _POWER = _function("crem", "iu"), _function("fmod", "f"), _function("pow", "f")
_WHOLE_POWER = _function(_whole_power, "iu")
_FLOOR_WHOLE, _REST_WHOLE = _function("floordiv", "iu"), _function("mod", "iu")
_FLOOR_DIVIDED, _REST_DIVIDED = _function(_floor_divided, "f"), _function(_floor_rest, "f")
xp: Any = Namespace()
_attach()


class Expression:
    """What a pointwise function became: a node over parameters `t0` (elements) and `n1` (numbers), and its guards."""

    cost: int | None = None  # in additions, once somebody has asked

    def __init__(self, compute: Callable, args: Sequence[Any], at: Sequence[int], kind: np.dtype,
                 narrow: np.dtype | None = None, *, rounds: bool = False, rounds_numbers: bool = False,
                 waits: bool = False, functions: Container[str] | None = None) -> None:
        """`args` with dtypes in the place of tensors; `at` are the operands' positions, computed with in `kind`.

        `narrow` is the type of half precision that the operands have in common, if they have: what `compute` rounds to
        between steps with `rounds`, and what numbers among the operands are rounded to with `rounds_numbers`.
        `functions` are those that the device has besides C's; where left out, those of the kernel language are used.
        """
        program, values = Program(waits, functions), list(args)
        computed = _type(kind)
        self.kind, self.loads, self.numbers = kind, [], {}
        for i, value in enumerate(values):
            if isinstance(value, np.dtype):
                _type(value)
                self.loads.append(i)
                values[i] = Symbol(program, Node("arg", computed, (), f"t{i}"), kind)
            elif value.__class__ in _NUMBERS and (value.__class__ is not bool or i in at):
                letter = "i64" if kind.kind != "f" and value.__class__ is not float else "f64"
                self.numbers[i] = letter
                node = Node("arg", letter, (), f"n{i}")
                if i in at and narrow is not None and rounds_numbers:
                    node = cast(cast(cast(node, "f32"), TYPES[narrow.name]), "f32")
                values[i] = Number(program, f"n{i}", value, node, kind if i in at else None)
        options = {}
        if narrow is not None and rounds:
            def rounded(x: Symbol) -> Symbol:
                return Symbol(program, cast(cast(x.in_type(kind), TYPES[narrow.name]), computed), kind)

            rounded.kind = narrow  # type: ignore[attr-defined]
            options["rounded"] = rounded
        made = compute(xp, *values, **options)
        if not isinstance(made, Symbol) or made.np is None or made.node is None:
            raise Untraceable
        self.node, self.result = made.node, made.np
        self.guards: list[Guard] = list({repr(g): g for g in program.guards}.values())
