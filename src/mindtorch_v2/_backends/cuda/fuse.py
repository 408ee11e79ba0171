"""Pointwise functions as CUDA kernels: `compute(xp, *args)` runs once on symbolic values, which write down C.

Tensors become loads and numbers kernel arguments. Where Python looks at a number (`if alpha == 1`), the answer is
noted as a guard: the kernel serves calls that give the same answers. What cannot be written down raises Untraceable.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .launch import C_TYPES, c_type

_BOOL, _INT64, _FLOAT32, _FLOAT64 = (np.dtype(name) for name in ("bool", "int64", "float32", "float64"))
_NUMBERS = (bool, int, float)


class Untraceable(Exception):
    """The function does what has no counterpart in a generated kernel."""


class Kind:
    """The type of a symbolic value: a NumPy dtype whose `type` takes symbolic numbers too."""

    def __init__(self, wrapped: np.dtype) -> None:
        self.np, self.kind, self.itemsize, self.name = wrapped, wrapped.kind, wrapped.itemsize, wrapped.name

    def type(self, value: Any) -> Any:
        return value.cast(self.np) if isinstance(value, Symbol) else self.np.type(value)

    def __eq__(self, other: object) -> bool:
        return self.np == (other.np if isinstance(other, Kind) else other)

    def __hash__(self) -> int:
        return hash(self.np)


class Symbol:
    """A number that is known when the kernel runs: an expression in C, the same in Python where that is noted."""

    shape: tuple = (1,)
    ndim = size = 1
    __array_ufunc__ = None  # NumPy's scalars leave operators to us

    def __init__(self, program: "Program", code: str, kind: np.dtype | None) -> None:
        self.program, self.code, self.np = program, code, kind

    @property
    def dtype(self) -> Kind:
        assert self.np is not None
        return Kind(self.np)

    def cast(self, kind: np.dtype) -> "Symbol":
        return self if self.np == kind else self.program.value(f"({c_type(kind)})({self.code})", kind)

    def astype(self, dtype: Any, copy: bool = True, **options: Any) -> "Symbol":
        kind = dtype.np if isinstance(dtype, Kind) else np.dtype(dtype)
        return self.program.value(self.cast(kind).code, kind)

    def become(self, made: "Symbol") -> "Symbol":
        """This value, written over with another."""
        self.code = made.code if self.np is None or made.np == self.np else made.cast(self.np).code
        self.np = made.np if self.np is None else self.np
        return self

    def copy(self) -> "Symbol":
        return Symbol(self.program, self.code, self.np)

    def conj(self) -> "Symbol":
        return self

    def _untraceable(self, *args: Any) -> Any:
        raise Untraceable

    __bool__ = __float__ = __int__ = __index__ = __complex__ = __len__ = __iter__ = __getitem__ = _untraceable
    __setitem__ = __getattr__ = _untraceable
    __hash__ = None  # type: ignore[assignment]
    real = property(lambda self: self)


class Number(Symbol):
    """A Python number among the arguments; of a type where it stands for a tensor, else taking that of its partner."""

    shape = ()
    ndim = 0

    def __init__(self, program: "Program", text: str, value: Any, kind: np.dtype | None) -> None:
        super().__init__(program, text, kind)
        self.text, self.value = text, value
        if kind is not None:
            self.code = f"({c_type(kind)})({text})"

    @property
    def dtype(self) -> Kind:
        return Kind(self.np or (_FLOAT64 if isinstance(self.value, float) else _INT64))

    def cast(self, kind: np.dtype) -> Symbol:
        return Number(self.program, self.text, self.value, kind)

    def baked(self) -> Any:
        """The value itself: the kernel serves this one only."""
        self.program.guards.append(f"{self.text} == {self.value!r}")
        if not math.isfinite(self.value):
            raise Untraceable
        return self.value

    def _compared(self, sign: str, other: Any) -> Any:
        other = other.item() if isinstance(other, np.generic) else other
        if not isinstance(other, _NUMBERS) or not math.isfinite(other):
            return NotImplemented
        answer = eval(f"a {sign} b", {"a": self.value, "b": other})
        self.program.guards.append(f"({self.text} {sign} {other!r}) is {answer}")
        return answer

    def __bool__(self) -> bool:
        self.program.guards.append(f"bool({self.text}) is {bool(self.value)}")
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
        return Number(self.program, f"(-{self.text})", -self.value, self.np)

    def _combined(self, sign: str, other: Any, swapped: bool) -> Any:
        """A number of numbers; NotImplemented with arrays."""
        value = other.value if isinstance(other, Number) else other
        if isinstance(other, Symbol) and not isinstance(other, Number) or not isinstance(value, _NUMBERS):
            return NotImplemented
        if self.np is not None or isinstance(other, Number) and other.np is not None:
            return NotImplemented
        a, b = (value, self.value) if swapped else (self.value, value)
        made = eval(f"a {sign} b", {"a": a, "b": b})
        if sign not in "+-*" and not isinstance(a, float) or sign == "**":  # C would do it in integers, or not at all
            if isinstance(other, Number):
                other.baked()
            self.baked()
            return made
        text = other.text if isinstance(other, Number) else repr(other)
        texts = (text, self.text) if swapped else (self.text, text)
        return Number(self.program, f"({texts[0]} {sign} {texts[1]})", made, None)


class Program:
    """The lines of C that computing writes, and what they take for granted."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.guards: list[str] = []

    def value(self, code: str, kind: np.dtype) -> Symbol:
        """A new variable of that value."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{c_type(kind)} {name} = {code};")
        return Symbol(self, name, kind)

    def operand(self, value: Any, kind: np.dtype) -> str:
        """The C expression of a value in a type."""
        if isinstance(value, Symbol):
            return value.cast(kind).code
        return f"({c_type(kind)}){literal(value)}"


def literal(value: Any) -> str:
    """A number in C."""
    value = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    if isinstance(value, float):
        if value != value:
            return "__longlong_as_double(0x7ff8000000000000LL)"
        if math.isinf(value):
            return f"({'-' * (value < 0)}__longlong_as_double(0x7ff0000000000000LL))"
        return f"({value!r})"
    if isinstance(value, _NUMBERS):
        return f"({int(value)}LL)" if value != -(1 << 63) else "(-9223372036854775807LL - 1)"
    raise Untraceable


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
    if kind.name not in C_TYPES or kind.itemsize == 2 and kind.kind not in "iu":
        raise Untraceable
    return kind


def _program(values: Sequence[Any]) -> Program:
    for value in values:
        if isinstance(value, Symbol):
            return value.program
    raise Untraceable


def _function(template: str, kinds: str = "biuf", gives: str | None = None) -> Callable:
    """A function whose C is the template with its operands, brought to one type, in it.

    `F` stands for the suffix of C's functions of float. `kinds` are those it computes in, others becoming double.
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
        code = template.replace("F(", "f(" if kind == _FLOAT32 else "(")
        for name, part in zip("abc", parts, strict=False):
            code = code.replace(f"${name}", part)
        made = program.value(code, np.dtype(gives) if gives else kind)
        return made if out is None else (out[0] if isinstance(out, tuple) else out).become(made)

    return call


_TEMPLATES = {
    "add": ("$a + $b", "iuf"), "subtract": ("$a - $b", "iuf"), "multiply": ("$a * $b", "iuf"),
    "true_divide": ("$a / $b", "f"), "divide": ("$a / $b", "f"), "negative": ("-$a", "iuf"),
    "square": ("$a * $a", "iuf"), "reciprocal": ("1 / $a", "f"),
    "maximum": ("($a != $a || $a > $b) ? $a : $b",), "minimum": ("($a != $a || $a < $b) ? $a : $b",),
    "fmax": ("($b != $b || $a > $b) ? $a : $b",), "fmin": ("($b != $b || $a < $b) ? $a : $b",),
    "arctan2": ("atan2F($a, $b)", "f"), "hypot": ("hypotF($a, $b)", "f"), "copysign": ("copysignF($a, $b)", "f"),
    "nextafter": ("nextafterF($a, $b)", "f"), "bitwise_and": ("$a & $b", "biu"), "bitwise_or": ("$a | $b", "biu"),
    "bitwise_xor": ("$a ^ $b", "biu"),
    "logaddexp": ("($a == $b) ? $a + 0.6931471805599453 : ($a != $a || $b != $b) ? $a + $b : "
                  "($a > $b ? $a : $b) + log1pF(expF($a > $b ? $b - $a : $a - $b))", "f"),
    "xlogy": ("$b != $b ? $b : $a == 0 ? $a * 0 : $a * logF($b)", "f"),
    "xlog1py": ("$b != $b ? $b : $a == 0 ? $a * 0 : $a * log1pF($b)", "f"),
    "expit": ("1 / (1 + expF(-$a))", "f"),
}  # fmt: skip
_TESTS = {
    "equal": "$a == $b", "not_equal": "$a != $b", "less": "$a < $b", "less_equal": "$a <= $b", "greater": "$a > $b",
    "greater_equal": "$a >= $b", "logical_and": "($a != 0) && ($b != 0)", "logical_or": "($a != 0) || ($b != 0)",
    "logical_xor": "($a != 0) != ($b != 0)", "logical_not": "$a == 0", "isnan": "$a != $a",
    "isfinite": "$a - $a == 0", "isinf": "$a == $a && $a - $a != 0",
}
_C_FUNCTIONS = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "sqrt": "sqrt",
    "cbrt": "cbrt", "erf": "erf", "erfc": "erfc", "gammaln": "lgamma", "erfinv": "erfinv", "erfcx": "erfcx",
}
_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint"}


class Namespace:
    """What traced functions call `xp`."""

    ndarray = Symbol
    pi, inf, nan, e = math.pi, math.inf, math.nan, math.e

    def __getattr__(self, name: str) -> Any:
        raise Untraceable

    def asarray(self, value: Any, dtype: Any = None, order: Any = None) -> Any:
        if not isinstance(value, Symbol):
            return np.asarray(value, dtype)
        return value if dtype is None else value.astype(dtype)

    def all(self, value: Any) -> bool:
        """True: data is not waited for, so that nothing is found wrong with it."""
        return True

    def empty_like(self, value: Symbol) -> Symbol:
        return Symbol(value.program, "0", value.np)

    def zeros_like(self, value: Symbol) -> Symbol:
        return value.program.value("0", value.dtype.np)

    def ones_like(self, value: Symbol) -> Symbol:
        return value.program.value("1", value.dtype.np)

    def absolute(self, x: Symbol, out: Any = None) -> Symbol:
        kind = x.dtype.kind
        if kind in "ub":
            return x
        return (_ABSOLUTE if kind == "f" else _NEGATED)(x, out=out)

    def signbit(self, x: Symbol) -> Symbol:
        return _SIGNBIT_OF[x.dtype.np](x) if x.dtype.kind == "f" else self.less(x, 0)

    def where(self, condition: Any, first: Any, second: Any) -> Any:
        program = _program((condition, first, second))
        if any(isinstance(v, (Symbol, np.generic, np.ndarray)) for v in (first, second)):
            kind = _common((first, second))
        else:
            kind = _FLOAT64 if float in (first.__class__, second.__class__) else _INT64
        if not isinstance(condition, Symbol):  # decided while tracing
            return program.value(program.operand(first if condition else second, kind), kind)
        return program.value(f"{condition.code} ? {program.operand(first, kind)} : {program.operand(second, kind)}",
                             kind)

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
        kind = _common((a, b))
        if kind.kind == "u":
            return _DIVIDED(a, b)
        return (_FLOOR_WHOLE if kind.kind == "i" else _FLOOR_DIVIDED)(a, b)

    def remainder(self, a: Any, b: Any) -> Any:
        kind = _common((a, b))
        return (_REST if kind.kind == "u" else _REST_WHOLE if kind.kind == "i" else _REST_DIVIDED)(a, b)

    def fmod(self, a: Any, b: Any) -> Any:
        return (_REST if _common((a, b)).kind in "iu" else _FMOD)(a, b)

    def power(self, a: Any, b: Any) -> Any:
        if _common((a, b)).kind != "f":
            raise Untraceable
        return _POWER(a, b)

    def invert(self, x: Symbol) -> Symbol:
        return _INVERTED(x) if x.dtype.kind != "b" else self.logical_not(x)

    bitwise_not = invert


def _rounding(name: str) -> Callable:
    function = _function(f"{name}F($a)", "f")
    return lambda self, x, out=None: x if x.dtype.kind in "iub" else function(x, out=out)


def _attach() -> None:
    """Gives the namespace its functions, and symbols Python's operators."""
    for name, (template, *kinds) in _TEMPLATES.items():
        setattr(Namespace, name, staticmethod(_function(template, *kinds)))
    for name, template in _TESTS.items():
        setattr(Namespace, name, staticmethod(_function(template, gives="bool")))
    for name, stem in _C_FUNCTIONS.items():
        setattr(Namespace, name, staticmethod(_function(f"{stem}F($a)", "f")))
    for name, stem in _ROUNDINGS.items():
        setattr(Namespace, name, _rounding(stem))
    Namespace.abs = Namespace.absolute  # type: ignore[attr-defined]
    for special, sign, name in (
        ("add", "+", "add"), ("sub", "-", "subtract"), ("mul", "*", "multiply"), ("truediv", "/", "true_divide"),
        ("pow", "**", "power"), ("floordiv", "//", "floor_divide"), ("mod", "%", "remainder"),
        ("and", "&", "bitwise_and"), ("or", "|", "bitwise_or"), ("xor", "^", "bitwise_xor"),
    ):  # fmt: skip
        _attach_operator(special, sign, name)
    for special, sign, name in (("lt", "<", "less"), ("le", "<=", "less_equal"), ("gt", ">", "greater"),
                                ("ge", ">=", "greater_equal"), ("eq", "==", "equal"), ("ne", "!=", "not_equal")):
        _attach_comparison(special, sign, name)
    for special, name in (("neg", "negative"), ("abs", "absolute"), ("invert", "invert")):
        setattr(Symbol, f"__{special}__", lambda self, name=name: getattr(xp, name)(self))


def _attach_operator(special: str, sign: str, name: str) -> None:
    def of_numbers(self: Symbol, other: Any, swapped: bool) -> Any:
        return self._combined(sign, other, swapped) if isinstance(self, Number) else NotImplemented

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


def _attach_comparison(special: str, sign: str, name: str) -> None:
    def compare(self: Symbol, other: Any) -> Any:
        made = self._compared(sign, other) if isinstance(self, Number) else NotImplemented
        return getattr(xp, name)(self, other) if made is NotImplemented else made

    setattr(Symbol, f"__{special}__", compare)


_ABSOLUTE = _function("fabsF($a)", "f")
_NEGATED = _function("$a < 0 ? -$a : $a", "i")
_INVERTED = _function("~$a", "iu")
_DIVIDED, _REST = _function("$a / $b", "u"), _function("$a % $b", "iu")
_FMOD, _POWER = _function("fmodF($a, $b)", "f"), _function("powF($a, $b)", "f")
_FLOOR_WHOLE = _function("$a / $b - (($a % $b != 0) && (($a < 0) != ($b < 0)))", "i")
_REST_WHOLE = _function("$a % $b + (($a % $b != 0) && (($a < 0) != ($b < 0)) ? $b : 0)", "i")
_FLOOR_DIVIDED, _REST_DIVIDED = _function("floor_divided($a, $b)", "f"), _function("floor_rest($a, $b)", "f")
_SIGNBIT_OF = {_FLOAT32: _function("__float_as_int($a) < 0", "f", "bool"),
               _FLOAT64: _function("__double_as_longlong($a) < 0", "f", "bool")}
xp: Any = Namespace()
_attach()

_HEAD = r"""
template <typename T> __device__ inline T floor_rest(T a, T b) {
    T rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest == 0 ? (T)copysign((T)0, b) : rest;
}
template <typename T> __device__ inline T floor_divided(T a, T b) {
    if (b == 0) return a / b;
    T rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    if (quotient == 0) return (T)copysign((T)0, a / b);
    T whole = floor(quotient);
    return quotient - whole > (T)0.5 ? whole + 1 : whole;
}
template <typename T> struct __align__(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) four { T v[4]; };
"""


class Traced:
    """What a pointwise function became: a device function `computed(loaded values, numbers)`, and its guards."""

    def __init__(self, compute: Callable, args: Sequence[Any], at: Sequence[int], kind: np.dtype,
                 narrow: np.dtype | None) -> None:
        """`args` with dtypes in the place of tensors; `narrow` is what to round to between steps, if anything."""
        program, values = Program(), list(args)
        if kind.name not in C_TYPES:
            raise Untraceable
        self.kind, self.loads, self.numbers = kind, [], {}
        for i, value in enumerate(values):
            if isinstance(value, np.dtype):
                if value.name not in C_TYPES:
                    raise Untraceable
                self.loads.append(i)
                values[i] = Symbol(program, f"t{i}", kind)
            elif value.__class__ in _NUMBERS and (value.__class__ is not bool or i in at):
                self.numbers[i] = "q" if kind.kind != "f" and value.__class__ is not float else "d"
                values[i] = Number(program, f"n{i}", value, kind if i in at else None)
        options = {}
        if narrow is not None:
            options["rounded"] = lambda x: program.value(f"widened(narrow<{c_type(narrow)}>::of({x.code}))", kind)
        made = compute(xp, *values, **options)
        if not isinstance(made, Symbol) or made.np is None:
            raise Untraceable
        self.guards = " and ".join(dict.fromkeys(program.guards))
        used = "\n    ".join(program.lines)
        parameters = [f"{c_type(kind)} t{i}" for i in self.loads]
        parameters += [f"{'double' if letter == 'd' else 'int64'} n{i}" for i, letter in self.numbers.items()]
        self.function = (f"__device__ inline {c_type(made.np)} computed({', '.join(parameters)}) {{\n    {used}\n"
                         f"    return {made.code};\n}}\n")

    def flat_source(self, dtypes: Sequence[np.dtype], single: Sequence[bool], out: np.dtype) -> str:
        """A kernel for operands that lie alike, four elements a thread; those of one element are read by all."""
        types = [c_type(d) for d in dtypes]
        arrays = "".join(f"const {name}* p{i}, " for i, name in zip(self.loads, types, strict=True))
        flat = [(i, name) for i, name, one in zip(self.loads, types, single, strict=True) if not one]
        together = " | ".join(["(size_t)out", *(f"(size_t)p{i}" for i, _ in flat)])
        wide = "".join(f"        four<{name}> w{i} = *(const four<{name}>*)(p{i} + i);\n" for i, name in flat)

        def call(load: Callable[[int], str]) -> str:
            loaded = [f"({c_type(self.kind)})widened({f'p{i}[0]' if one else load(i)})"
                      for i, one in zip(self.loads, single, strict=True)]
            return f"narrow<R>::of(computed({', '.join([*loaded, *(f'n{i}' for i in self.numbers)])}))"

        return f"""{_HEAD}typedef {c_type(out)} R;
{self.function}
extern "C" __global__ void fused({arrays}R* out, {self._number_parameters()}int64 count) {{
    int64 i = (blockIdx.x * (int64)blockDim.x + threadIdx.x) * 4;
    if (i + 4 <= count && (({together}) & 15) == 0) {{
{wide}        four<R> made;
        #pragma unroll
        for (int k = 0; k < 4; ++k) made.v[k] = {call(lambda i: f"w{i}.v[k]")};
        *(four<R>*)(out + i) = made;
    }} else {{
        for (int64 j = i; j < i + 4 && j < count; ++j) out[j] = {call(lambda i: f"p{i}[j]")};
    }}
}}
"""

    def strided_source(self, dtypes: Sequence[np.dtype], out: np.dtype, rank: int, per_thread: int,
                       index: str, inner: Sequence[int] | None = None) -> str:
        """A kernel for operands of any strides, over `rank` dimensions, innermost first; the result's come last.

        `inner` are the innermost strides of the operands, 0 or 1, where four elements can be loaded at a time.
        """
        types = [c_type(d) for d in dtypes]
        arrays = "".join(f"const {name}* p{i}, " for i, name in zip(self.loads, types, strict=True))
        last = len(types)
        loaded = [f"({c_type(self.kind)})widened(p{i}[at[{k}] + j * places.stride[{k}][0]])"
                  for k, i in enumerate(self.loads)]
        numbers = [f"n{i}" for i in self.numbers]
        values, together = ", ".join([*loaded, *numbers]), ""
        if inner is not None:
            wide = [(k, i, name) for k, (i, name) in enumerate(zip(self.loads, types, strict=True)) if inner[k]]
            parts = ", ".join([f"({c_type(self.kind)})widened({f'w{i}.v[j]' if inner[k] else f'p{i}[at[{k}]]'})"
                               for k, i in enumerate(self.loads)] + numbers)
            loads = "".join(f"        four<{name}> w{i} = *(const four<{name}>*)(p{i} + at[{k}]);\n"
                            for k, i, name in wide)
            places = " | ".join(["(size_t)out", *(f"(size_t)p{i}" for _, i, _ in wide)])
            together = f"""    if ((({places}) & 15) == 0) {{
{loads}        four<R> made;
        #pragma unroll
        for (int j = 0; j < 4; ++j) made.v[j] = narrow<R>::of(computed({parts}));
        *(four<R>*)(out + at[{last}]) = made;
        return;
    }}
"""
        return f"""{_HEAD}typedef {c_type(out)} R;
typedef {index} index_t;
struct Places {{ int64 size[{rank}]; int64 stride[{last + 1}][{rank}]; }};
{self.function}
extern "C" __global__ void fused({arrays}R* out, {self._number_parameters()}int64 count, Places places) {{
    int64 i = (blockIdx.x * (int64)blockDim.x + threadIdx.x) * {per_thread};
    if (i >= count) return;
    index_t rest = (index_t)i;
    int64 at[{last + 1}] = {{}};
    #pragma unroll
    for (int d = 0; d < {rank}; ++d) {{
        index_t size = (index_t)places.size[d], own = {f"d == {rank - 1} ? rest : rest % size"};
        rest /= size;
        #pragma unroll
        for (int k = 0; k < {last + 1}; ++k) at[k] += own * places.stride[k][d];
    }}
{together}    #pragma unroll
    for (int j = 0; j < {per_thread}; ++j)
        out[at[{last}] + j * places.stride[{last}][0]] = narrow<R>::of(computed({values}));
}}
"""

    def _number_parameters(self) -> str:
        return "".join(f"{'double' if letter == 'd' else 'int64'} n{i}, " for i, letter in self.numbers.items())
