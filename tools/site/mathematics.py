"""Formulas of operators as LaTeX: their declarations run on tensors that write down what is done with them.

A `Written` tensor computes as any other, so that shapes and branches are real, and carries the expression that it is
the value of. What a kernel or a derivative's formula makes of such arguments is its mathematics, with helpers written
out.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import mindtorch_v2 as torch
from mindtorch_v2._backends.interface import backend_of
from mindtorch_v2._dispatch.registry import Operator, registry
from mindtorch_v2._ops._declare.composites import Composite
from mindtorch_v2._ops._declare.families import Pointwise
from mindtorch_v2._ops._declare.formulas import TENSORS
from mindtorch_v2._ops._declare.op import PUBLIC, Declaration, function_of
from mindtorch_v2._ops._declare.samples import Case, TensorSample

LONGEST = 420  # characters of LaTeX beyond which source reads better than mathematics
SUM, PRODUCT, SIGN, POWER, ATOM = range(5)  # how tightly an expression holds together


class Expression(NamedTuple):
    latex: str
    binding: int = ATOM

    def at(self, binding: int) -> str:
        """The LaTeX, in parentheses if it binds less tightly than asked."""
        return self.latex if self.binding >= binding else rf"\left({self.latex}\right)"


class Unwritable(Exception):
    """There is no readable formula."""


class Written(torch.Tensor):
    """A tensor with the expression that it is the value of."""

    expression: Expression
    shows_another: bool  # whether it is a view: a write to it changes another tensor's value

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: Sequence = (), kwargs: Any = None) -> Any:
        return _called(func, args, kwargs or {})


class WrittenArray(Written):
    """One that array functions take for an array."""

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        return _ArrayType(plain(self))

    def astype(self, kind: Any) -> "WrittenArray":
        return self


class _ArrayType:
    """The type of an array, with what is asked of the library's types too."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._kinds = (tensor.numpy().dtype, tensor.dtype)

    def __getattr__(self, name: str) -> Any:
        return next(getattr(kind, name) for kind in self._kinds if hasattr(kind, name))


def written(value: torch.Tensor, expression: Expression, kind: type[Written] = Written) -> Written:
    made = value.as_subclass(kind)
    made.expression, made.shows_another = expression, value._base is not None
    return made


class _NamedNumber:
    """An argument that is a number, with its name."""

    latex: str


class NamedInt(int, _NamedNumber):
    pass


class NamedFloat(float, _NamedNumber):
    pass


class NamedTuple_(tuple, _NamedNumber):
    pass


def named(value: Any, latex: str) -> Any:
    """The value, as an object that is shown by a name where there is a class for that."""
    kinds: dict[type, type] = {
        int: NamedInt,
        float: NamedFloat,
        tuple: NamedTuple_,
        list: NamedTuple_,
        torch.Size: NamedTuple_,
    }
    kind = kinds.get(type(value))
    if kind is None:
        return value
    made = kind(value)
    made.latex = latex
    return made


def plain(value: Any) -> Any:
    """The value without expressions and names."""
    if isinstance(value, Written):
        return value.as_subclass(torch.Tensor)
    if isinstance(value, NamedInt):
        return int(value)
    if isinstance(value, NamedFloat):
        return float(value)
    if isinstance(value, (tuple, list)):
        kind = list if isinstance(value, list) else tuple
        return kind(plain(v) for v in value)
    return value


def symbol(name: str) -> str:
    """How an argument is called in formulas."""
    shown = {
        "self": "x",
        "input": "x",
        "result": "y",
        "weight": "w",
        "bias": "b",
        "target": "t",
        "mat2": "B",
        "alpha": r"\alpha",
        "beta": r"\beta",
        "lambd": r"\lambda",
        "delta": r"\delta",
        "eps": r"\varepsilon",
    }
    if name in shown:
        return shown[name]
    return name if len(name) == 1 else rf"\mathit{{{name.replace('_', chr(92) + '_')}}}"


def _shown(value: Any) -> Expression:
    if isinstance(value, Written):
        return value.expression
    if isinstance(value, _NamedNumber):
        return Expression(value.latex)
    if isinstance(value, bool) or value is None:
        return Expression(rf"\mathrm{{{value}}}")
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, torch.dtype):
        return Expression(rf"\mathrm{{{str(value).rpartition('.')[2]}}}")
    if isinstance(value, str):
        return Expression(rf"\text{{{value}}}")
    if isinstance(value, (tuple, list)):
        return Expression(rf"\left({', '.join(_shown(v).latex for v in value)}\right)")
    if isinstance(value, torch.Tensor) and value.dim() == 0 and value.dtype is not torch.bool:
        return _number(value.item())
    if isinstance(value, slice):
        parts = ["" if v is None else _shown(v).latex for v in (value.start, value.stop)]
        return Expression(":".join(parts))
    if value is Ellipsis:
        return Expression(r"\ldots")
    raise Unwritable(f"a {type(value).__name__}")


KNOWN = {
    0.5: r"\tfrac12",
    np.sqrt(2): r"\sqrt2",
    np.sqrt(0.5): r"\tfrac1{\sqrt2}",
    np.pi: r"\pi",
    2 * np.pi: r"2\pi",
    np.log(2): r"\ln 2",
    np.log(10): r"\ln 10",
    2 / np.sqrt(np.pi): r"\tfrac2{\sqrt\pi}",
    np.log(np.pi): r"\ln\pi",
    np.sqrt(2 / np.pi): r"\sqrt{\tfrac2\pi}",
    1 / np.sqrt(2 * np.pi): r"\tfrac1{\sqrt{2\pi}}",
    np.inf: r"\infty",
    0.5 * np.sqrt(np.pi): r"\tfrac{\sqrt\pi}2",
    1 / np.log(2): r"\tfrac1{\ln 2}",
    np.pi / 180: r"\tfrac{\pi}{180}",
    180 / np.pi: r"\tfrac{180}{\pi}",
}


def _number(value: float | complex) -> Expression:
    if isinstance(value, complex):
        raise Unwritable("a complex number")
    for known, latex in KNOWN.items():
        if value == known or abs(value - known) < 1e-12 * abs(value):
            return Expression(latex)
    if np.isnan(value):
        return Expression(r"\mathrm{nan}")
    if value == -np.inf:
        return Expression(r"-\infty", SIGN)
    text = f"{value:.6g}"
    if "e" in text:
        mantissa, _, exponent = text.partition("e")
        text = rf"{mantissa}\cdot 10^{{{int(exponent)}}}"
    return Expression(text, SIGN if value < 0 else ATOM)


# how functions are written ------------------------------------------------------------------------------------------


def _infix(sign: str, binding: int, right: int | None = None) -> Callable:
    def render(a: Any, b: Any) -> Expression:
        return Expression(
            f"{_shown(a).at(binding)} {sign} {_shown(b).at(binding + 1 if right is None else right)}", binding
        )

    return render


def _add(a: Any, b: Any, alpha: Any = 1) -> Expression:
    return Expression(f"{_shown(a).at(SUM)} + {_scaled(alpha, b)}", SUM)


def _sub(a: Any, b: Any, alpha: Any = 1) -> Expression:
    return Expression(f"{_shown(a).at(SUM)} - {_scaled(alpha, b)}", SUM)


def _scaled(alpha: Any, value: Any) -> str:
    if not isinstance(alpha, _NamedNumber) and alpha == 1:
        return _shown(value).at(PRODUCT)
    return rf"{_shown(alpha).latex}\,{_shown(value).at(PRODUCT)}"


def _mul(a: Any, b: Any) -> Expression:
    if isinstance(a, Written) and not isinstance(b, (Written, torch.Tensor)):  # numbers stand in front
        a, b = b, a
    if not isinstance(a, (Written, _NamedNumber)) and isinstance(a, (int, float)) and a in (1, -1):
        return _shown(b) if a == 1 else _neg(b)
    if isinstance(b, Written) and re.match(r"[-+\d]|\\tfrac\d", _shown(b).latex):
        return Expression(rf"{_shown(a).at(PRODUCT)} \cdot {_shown(b).at(SIGN)}", PRODUCT)
    return Expression(rf"{_shown(a).at(PRODUCT)}\,{_shown(b).at(PRODUCT)}", PRODUCT)


def _div(a: Any, b: Any, rounding_mode: Any = None) -> Expression:
    quotient = Expression(rf"\frac{{{_shown(a).latex}}}{{{_shown(b).latex}}}", POWER)
    if rounding_mode is None:
        return quotient
    return _floor(quotient) if rounding_mode == "floor" else _function("trunc", [quotient])


def _floor(x: Any) -> Expression:
    return Expression(rf"\left\lfloor {(x if isinstance(x, Expression) else _shown(x)).latex} \right\rfloor")


def _neg(a: Any) -> Expression:
    return Expression(f"-{_shown(a).at(PRODUCT)}", SIGN if _shown(a).binding > PRODUCT else SUM)


def _pow(a: Any, b: Any) -> Expression:
    if not isinstance(b, (_NamedNumber, torch.Tensor)) and b == 0.5:
        return _sqrt(a)
    return Expression(f"{_braced(_shown(a).at(ATOM))}^{{{_shown(b).latex}}}", POWER)


def _braced(latex: str) -> str:
    return f"{{{latex}}}" if "^" in latex else latex


def _sqrt(x: Any) -> Expression:
    return Expression(rf"\sqrt{{{_shown(x).latex}}}")


def _exp(x: Any) -> Expression:
    return Expression(f"e^{{{_shown(x).latex}}}", POWER)


def _where(condition: Any, a: Any, b: Any) -> Expression:
    return Expression(
        rf"\begin{{cases}} {_shown(a).latex} & \text{{if }} {_shown(condition).latex} \\ "
        rf"{_shown(b).latex} & \text{{otherwise}} \end{{cases}}",
        SUM,
    )


def _masked_fill(x: Any, mask: Any, value: Any) -> Expression:
    return _where(mask, value, x)


def _postfix(mark: str) -> Callable[..., Expression]:
    return lambda x, *rest, **options: Expression(f"{_braced(_shown(x).at(ATOM))}^{{{mark}}}", POWER)


def _over(latex: str) -> Callable[..., Expression]:
    """A reduction: its sign, with the dimensions below."""

    def render(x: Any, dim: Any = None, keepdim: Any = False, **options: Any) -> Expression:
        if _is_of_the_sample(dim):
            raise Unwritable("dimensions of the sample")
        below = "" if dim is None or dim == () else f"_{{{_shown(dim).latex}}}"
        return Expression(rf"{latex}{below} {_shown(x).at(PRODUCT)}", PRODUCT)

    return render


def _transposed(x: Any, first: int, second: int) -> Expression:
    if {first % x.dim(), second % x.dim()} != {x.dim() - 2, x.dim() - 1}:
        raise Unwritable("dimensions of the sample")
    return Expression(f"{_braced(_shown(x).at(ATOM))}^{{\\mathsf T}}", POWER)


def _same(x: Any, *rest: Any, **options: Any) -> Expression:
    return _shown(x)


def _bars(x: Any) -> Expression:
    return Expression(rf"\left|{_shown(x).latex}\right|")


def _command(latex: str) -> Callable[..., Expression]:
    return lambda *args: Expression(rf"{latex}\left({', '.join(_shown(a).latex for a in args)}\right)")


def _addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Expression:
    return Expression(rf"{_shown(x).at(SUM)} + {_scaled(value, a)}\,{_shown(b).at(PRODUCT)}", SUM)


def _addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Expression:
    front = "" if not isinstance(value, _NamedNumber) and value == 1 else _shown(value).latex + r"\,"
    return Expression(rf"{_shown(x).at(SUM)} + {front}\frac{{{_shown(a).latex}}}{{{_shown(b).latex}}}", SUM)


def _clamp(x: Any, min: Any = None, max: Any = None) -> Expression:
    latex = _shown(x).latex
    if min is not None:
        latex = rf"\max\left({latex}, {_shown(min).latex}\right)"
    return Expression(latex if max is None else rf"\min\left({latex}, {_shown(max).latex}\right)")


def _getitem(x: Any, index: Any) -> Expression:
    inner = _shown(index).latex
    return Expression(
        rf"{_shown(x).at(ATOM)}_{{{inner.removeprefix(chr(92) + 'left(').removesuffix(chr(92) + 'right)')}}}"
    )


def _is_of_the_sample(value: Any) -> bool:
    """Whether a value is a number that follows from the sample call's shapes, and not from the operator."""
    if isinstance(value, (_NamedNumber, bool)):
        return False
    if isinstance(value, (tuple, list)):
        return any(map(_is_of_the_sample, value))
    return isinstance(value, int)


def _function(name: str, args: Sequence[Any], options: Any = ()) -> Expression:
    if any(map(_is_of_the_sample, (*args, *dict(options).values()))):
        raise Unwritable(f"{name} of the sample's own numbers")
    shown = [(a if isinstance(a, Expression) else _shown(a)).latex for a in args]
    shown += [
        rf"\mathrm{{{key.replace('_', chr(92) + '_')}}}={_shown(value).latex}"
        for key, value in dict(options).items()
        if value is not None and value is not False
    ]
    escaped = name.strip("_").replace("_", r"\_")
    return Expression(rf"\operatorname{{{escaped}}}\left({', '.join(shown)}\right)")


RENDER: dict[str, Callable[..., Expression]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "true_divide": _div,
    "neg": _neg,
    "pow": _pow,
    "exp": _exp,
    "__add__": _add,
    "__sub__": _sub,
    "__mul__": _mul,
    "__truediv__": _div,
    "__neg__": _neg,
    "__pow__": _pow,
    "multiply": _mul,
    "divide": _div,
    "negative": _neg,
    "subtract": _sub,
    "rsub": lambda a, b, alpha=1: _sub(b, a),
    "sqrt": _sqrt,
    "rsqrt": lambda x: Expression(rf"\frac{{1}}{{\sqrt{{{_shown(x).latex}}}}}", POWER),
    "abs": _bars,
    "absolute": _bars,
    "reciprocal": lambda x: _div(1, x),
    "square": _postfix("2"),
    "where": _where,
    "masked_fill": _masked_fill,
    "conj": _same,
    "conj_physical": _same,
    "zero_where": lambda c, x: _where(c, 0, x),
    "sum": _over(r"\sum"),
    "prod": _over(r"\prod"),
    "mean": _over(r"\operatorname{mean}"),
    "amax": _over(r"\max"),
    "amin": _over(r"\min"),
    "matmul": lambda a, b: Expression(rf"{_shown(a).at(PRODUCT)}\,{_shown(b).at(PRODUCT)}", PRODUCT),
    "t": _postfix(r"\mathsf T"),
    "mT": _postfix(r"\mathsf T"),
    "mH": _postfix(r"\mathsf H"),
    "sign": _command(r"\operatorname{sign}"),
    "clone": _same,
    "sgn": _command(r"\operatorname{sgn}"),
    "maximum": _command(r"\max"),
    "minimum": _command(r"\min"),
    "floor": _floor,
    "sin": _command(r"\sin"),
    "cos": _command(r"\cos"),
    "tan": _command(r"\tan"),
    "sinh": _command(r"\sinh"),
    "cosh": _command(r"\cosh"),
    "tanh": _command(r"\tanh"),
    "log": _command(r"\ln"),
    "log2": _command(r"\log_2"),
    "log10": _command(r"\log_{10}"),
    "ceil": lambda x: Expression(rf"\left\lceil {_shown(x).latex} \right\rceil"),
    "log1p": lambda x: Expression(rf"\ln\left(1 + {_shown(x).latex}\right)"),
    "lgamma": _command(r"\ln\Gamma"),
    "digamma": _command(r"\psi"),
    "gammaln": _command(r"\ln\Gamma"),
    "exp2": lambda x: Expression(f"2^{{{_shown(x).latex}}}", POWER),
    "expm1": lambda x: Expression(f"e^{{{_shown(x).latex}}} - 1", SUM),
    "sigmoid": _command(r"\sigma"),
    "expit": _command(r"\sigma"),
    "eq": _infix("=", SUM),
    "ne": _infix(r"\neq", SUM),
    "lt": _infix("<", SUM),
    "le": _infix(r"\leq", SUM),
    "gt": _infix(">", SUM),
    "ge": _infix(r"\geq", SUM),
    "logical_and": _infix(r"\wedge", SUM),
    "logical_or": _infix(r"\vee", SUM),
    "__and__": _infix(r"\wedge", SUM),
    "__or__": _infix(r"\vee", SUM),
    "bitwise_and": _infix(r"\wedge", SUM),
    "bitwise_or": _infix(r"\vee", SUM),
    "__invert__": lambda x: Expression(rf"\neg {_shown(x).at(ATOM)}"),
    "bitwise_not": lambda x: Expression(rf"\neg {_shown(x).at(ATOM)}"),
    "logical_not": lambda x: Expression(rf"\neg {_shown(x).at(ATOM)}"),
    "to": _same,
    "contiguous": _same,
    "as_subclass": _same,
    "type_as": _same,
    "detach": _same,
    "float": _same,
    "double": _same,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "clamp": _clamp,
    "__getitem__": _getitem,
    "real": _command(r"\operatorname{Re}"),
    "imag": _command(r"\operatorname{Im}"),
    "expand": _same,
    "expand_as": _same,
    "broadcast_to": _same,
    "astype": _same,
    "sin_": _command(r"\sin"),
    "atan2": _command(r"\operatorname{atan2}"),
    "floor_divide": lambda a, b: _floor(_div(a, b)),
    "zeros_like": lambda *a, **k: Expression("0"),
    "ones_like": lambda *a, **k: Expression("1"),
    "new_zeros": lambda *a, **k: Expression("0"),
    "new_ones": lambda *a, **k: Expression("1"),
    "result_type": _same,
    "adjoint": _postfix(r"\mathsf H"),
    "outer": lambda a, b: Expression(rf"{_shown(a).at(ATOM)}\,{_shown(b).at(ATOM)}^{{\mathsf T}}", PRODUCT),
}
RENDER["transpose"] = _transposed
RENDER["mm"] = RENDER["bmm"] = RENDER["mv"] = RENDER["__matmul__"] = RENDER["matmul"]
QUIET = {
    "dim",
    "is_complex",
    "is_floating_point",
    "size",
    "stride",
    "numel",
    "is_contiguous",
    "requires_grad_",
    "is_conj",
    "result_type",
    "can_cast",
    "is_nonzero",
    "item",
    "__bool__",
    "__len__",
    "is_neg",
}
UNFOLLOWED = {"new_empty", "empty_like", "new_empty_strided", "copy_", "__setitem__", "resize_", "index_put_"}
# What array functions call otherwise than operators.
NUMPY_NAMES = {
    "power": "pow",
    "true_divide": "div",
    "absolute": "abs",
    "invert": "bitwise_not",
    "less": "lt",
    "greater": "gt",
    "less_equal": "le",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
    "conjugate": "conj",
    "rint": "round",
    "arctan": "atan",
    "arcsin": "asin",
    "arccos": "acos",
    "mod": "remainder",
    "psi": "digamma",
    "gammaln": "lgamma",
    "fabs": "abs",
    "remainder": "remainder",
    "fmax": "fmax",
    "fmin": "fmin",
    "copyto": "copysign",
}


class _Namespace:
    """What array functions are given for NumPy: the operators, by NumPy's names."""

    inf, nan, pi = float("inf"), float("nan"), float(np.pi)

    def __getattr__(self, name: str) -> Any:
        name = NUMPY_NAMES.get(name, name)
        for place in ("torch", "special"):
            if name in PUBLIC[place]:
                return getattr(torch if place == "torch" else torch.special, name)
        if name in dir(type(TENSORS)):
            return getattr(TENSORS, name)
        function = getattr(backend_of("cpu").xp, name)

        def computed(*args: Any) -> Any:
            result = function(*[a.numpy() if isinstance(a, torch.Tensor) else a for a in map(plain, args)])
            return written(torch.tensor(np.asarray(result)), _function(name, args), WrittenArray)

        return computed

    def in_blocks(self, compute: Callable, *arguments: Any) -> Any:
        return compute(self, *arguments)


NAMESPACE = _Namespace()


def _operator(func: Any) -> Operator | None:
    """The operator behind a function that was called, if it is one alone."""
    operators = getattr(getattr(func, "__wrapped__", None), "operators", ())
    return operators[0] if len(operators) == 1 else None


def _called(func: Callable, args: Sequence, kwargs: dict) -> Any:
    """The result of a call with written tensors among its arguments."""
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        return func(*[plain(a) for a in args])
    if name in UNFOLLOWED:
        raise Unwritable(f"{name} says nothing of values, or writes to a part")
    inplace = name.endswith("_") and not name.startswith("__")
    base = name[:-1] if inplace else name
    operator = _operator(func)
    family = None if operator is None else operator.declaration.family
    helper = base.startswith("_") or base.endswith("_backward")
    if helper and base not in RENDER and isinstance(family, Pointwise) and family.written is not None:
        values = operator.schema.bind(args, kwargs)  # type: ignore[union-attr]
        arrays = [written(v, v.expression, WrittenArray) if isinstance(v, Written) else v for v in values]
        return family.written(NAMESPACE, *arrays)
    result = func(*[plain(a) for a in args], **{key: plain(value) for key, value in kwargs.items()})
    if name in QUIET or not isinstance(result, (torch.Tensor, tuple, list)):
        return result
    render = RENDER.get(base)
    try:
        expression = _function(base, args, kwargs) if render is None else render(*args, **kwargs)
    except TypeError as error:
        raise Unwritable(f"{name}: {error}") from error
    if len(expression.latex) > 4 * LONGEST:
        raise Unwritable("too long")
    if inplace:
        if args[0].shows_another:
            raise Unwritable("a write through a view")
        args[0].expression = expression
        return args[0]
    if isinstance(result, (tuple, list)):
        return tuple(
            written(part, Expression(f"{expression.at(ATOM)}_{{{i}}}")) if isinstance(part, torch.Tensor) else part
            for i, part in enumerate(result)
        )
    return written(result, expression, WrittenArray if any(isinstance(a, WrittenArray) for a in args) else Written)


# the formulas of an operator ----------------------------------------------------------------------------------------


class Line(NamedTuple):
    """An equation, or, where there is none that reads well, nothing on its right side."""

    left: str
    right: str


def _tensor(sample: TensorSample, dtype: str = "float64") -> torch.Tensor:
    made = sample.array(np.random.default_rng(0), np.dtype(dtype))
    return torch.tensor(np.array(made, order="C"))


def bound(declaration: Declaration, case: Case, kind: type[Written] = Written) -> dict[str, Any]:
    """The arguments of a sample call by name, written down under their names."""
    schema = declaration.operator.schema
    numbers = iter(range(1, 100))

    def made(value: Any) -> Any:
        if isinstance(value, TensorSample):
            return _tensor(value)
        if isinstance(value, (list, tuple)):
            return type(value)(made(v) for v in value)
        return value

    def labelled(value: Any, name: str) -> Any:
        if isinstance(value, torch.Tensor):
            return written(value, Expression(symbol(name)), kind)
        if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            return [written(v, Expression(f"{symbol(name)}_{next(numbers)}"), kind) for v in value]
        return named(value, symbol(name))

    values = schema.bind([made(a) for a in case.args], {key: made(a) for key, a in case.kwargs.items()})
    return {name: labelled(value, name) for name, value in zip(schema.names, values, strict=True)}


def good_cases(declaration: Declaration) -> list[Case]:
    made = [] if declaration.samples is None else declaration.samples()
    return [case for case in made if case.raises is None]


def forward(declaration: Declaration) -> list[Line]:
    """What the operator computes, as an equation in its arguments; nothing if it is not written in operators."""
    for case in good_cases(declaration)[:6]:
        try:
            return list(_lines("y", _result(declaration, case)))
        except Exception:  # noqa: BLE001 - a sample that a formula does not fit says nothing; the next may
            continue
    return []


def _result(declaration: Declaration, case: Case) -> Any:
    """What comes out of the function that the operator was declared with."""
    family = declaration.family
    if isinstance(family, Pointwise):
        arguments = bound(declaration, case, WrittenArray)
        compute = getattr(family, "compute", None)
        if callable(compute):
            return compute(NAMESPACE, *arguments.values())
        return getattr(NAMESPACE, compute or family.ufunc)(*arguments.values())
    function = declaration.decomposition or (family.written if isinstance(family, Composite) else None)
    if function is None:
        raise Unwritable("it is not written in operators")
    return function(*bound(declaration, case).values())


def _lines(left: str, result: Any) -> Iterator[Line]:
    if isinstance(result, (tuple, list)):
        for i, part in enumerate(result):
            yield from _lines(f"{left}_{i + 1}", part)
    elif isinstance(result, Written):
        latex = result.expression.latex
        if len(latex) > LONGEST:
            raise Unwritable("too long")
        yield Line(left, latex)
    elif isinstance(result, torch.Tensor):
        raise Unwritable("nothing was written down")


def backward(declaration: Declaration) -> list[Line]:
    """The gradient of each argument that has one; the right side is empty where no equation reads well."""
    derivative = declaration.derivative
    if derivative is None:
        return []
    lines = []
    for formula in derivative.formulas:
        left = ", ".join(rf"\bar{{{symbol(name)}}}" for name in formula.arguments)
        made: list[Line] = []
        for case in good_cases(declaration)[:6]:
            try:
                made = list(_lines(left, _gradient(declaration, formula, case)))
            except Exception:  # noqa: BLE001 - as above
                continue
            if made:
                break
        if len(made) > 1 and len(made) == len(formula.arguments):
            made = [Line(rf"\bar{{{symbol(name)}}}", line.right) for name, line in zip(formula.arguments, made)]
        lines += made or [Line(left, "")]
    return lines


def _gradient(declaration: Declaration, formula: Any, case: Case) -> Any:
    arguments = bound(declaration, case)
    schema = declaration.operator.schema
    by_keyword = {a.name: plain(arguments[a.name]) for a in schema.arguments if a.keyword_only}
    result = function_of(declaration.operator)(
        *[plain(value) for name, value in arguments.items() if name not in by_keyword], **by_keyword
    )
    results = result if isinstance(result, (tuple, list)) else (result,)
    outputs = {r.name: value for r, value in zip(declaration.operator.schema.returns, results)}
    several = len(results) > 1
    scope = dict(arguments)
    scope["result"] = results[0]
    scope.update(outputs)
    for name, value in scope.items():
        if isinstance(value, torch.Tensor) and not isinstance(value, Written):
            scope[name] = written(value, Expression(symbol(name) if several or name != "result0" else "y"))
    scope["grad"] = written(torch.ones_like(results[0]), Expression(r"\bar{y}"))
    scope["grads"] = tuple(written(torch.ones_like(r), Expression(rf"\bar{{{symbol(n)}}}")) for n, r in outputs.items())
    scope["needs"] = tuple(itertools.repeat(True, len(arguments)))
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor):
            scope[f"{name}_shape"] = named(tuple(value.shape), rf"\operatorname{{shape}}\,{symbol(name)}")
            scope[f"{name}_dtype"] = value.dtype
    return formula.function(*[scope[name] for name in formula.parameters])


def operators_of(name: str) -> list[Operator]:
    """The overloads of an operator by its base name, as declared."""
    return [o for o in registry if o.schema.base_name == name]
