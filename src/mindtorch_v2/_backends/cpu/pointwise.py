"""Pointwise operators through compiled loops, chosen by how a call's arrays lie; NumPy computes what has none.

The generated function of an operator tries two builtin functions that look themselves whether they serve a call:
`fast`, for arrays that lie alike, and `spread`, for small ones that broadcast. `more` finds the plan of any other call.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from ..._core import planning
from ..._core.dtype import FLOAT, REDUCED, get_default_dtype
from ..._core.geometry import collapsed, contiguous_strides
from ..._dispatch.registry import Operator
from ..._kernels import ir, llvm, pointwise
from ..._kernels.library.shapes import LARGEST
from ..._kernels.math import FUNCTIONS as math_functions
from ..._kernels.trace import Expression, Untraceable
from ..._ops._declare.rules import check_overlap, common_dtype, may_be_written, overlaps_itself, pointwise_strides
from .jit import lookups
from .jit.calls import DUE, DUE_LATER, Code

_PLANS, _VARIANTS = 4096, 16  # layouts kept for one operator, and kinds of numbers for one layout
# What `compute` may raise where it does what kernels cannot, since it is made for arrays.
_UNTRACEABLE = (Untraceable, TypeError, AttributeError, ValueError, OverflowError, NotImplementedError)
Form = Literal["new", "inplace", "into"]
Plan = tuple[Callable[..., bool] | None, Callable]
_FEW_STEPS = 6  # of an expression, each of which NumPy takes an array function for
_FUNCTION_STEPS = 8  # that a function stands for which NumPy has no loop for
_SLOWNESS = 16  # how many times as long such a function takes as one that has
_COUNTED = frozenset((int, float))
_SINGLE = {None: "_Py_NoneStruct", True: "_Py_TrueStruct", False: "_Py_FalseStruct"}


def _nothing(*args: Any) -> None:
    """No machine code yet."""


class Compiled:
    """The compiled forms of one operator.

    They make new arrays, or write into their first operand ("inplace"), or into an array that comes before the
    operator's own arguments ("into").
    """

    def __init__(self, operator: Operator, family: Any, form: Form) -> None:
        self.operator, self.family, self.writes, self.ahead = operator, family, form != "new", int(form == "into")
        self.plans: dict[tuple, list[Plan]] = {}
        self.codes: dict[tuple, tuple[Code, Any]] = {}
        self.scope: dict[str, Any] = {}  # of the generated function, where `fast`, `spread` and `find` are put
        self.found: dict[bytes, Callable] | None = None

    no_code = staticmethod(_nothing)

    def more(self, *args: Any) -> Any:
        """The result's array (True where it was written), or None where NumPy has to compute it."""
        key = (get_default_dtype(), *[(v._array.shape, v._array.strides, v._array.dtype) if hasattr(v, "_array") else
                                      v.__class__ if v.__class__ in _COUNTED else (v.__class__, v) for v in args])
        plans = self.plans.get(key)
        if plans is None:
            if len(self.plans) >= _PLANS:
                self.plans.clear()
            plans = self.plans[key] = []
        for guard, run in plans:
            if guard is None or guard(*args):
                made = run(*args)
                if self.ahead and made is not None:
                    self._learn(run, args)
                return made
        if len(plans) >= _VARIANTS:
            return None
        try:
            plans.append(self._plan(args))
        except _UNTRACEABLE:
            plans.append((None, _nothing))
        except (RuntimeError, IndexError):
            return None  # the call is wrong, which the general kernel says
        return plans[-1][1](*args)

    def _learn(self, run: Callable, args: Sequence[Any]) -> None:
        """Has compiled code find what serves a call that `fast` does not, if it may come again with such arrays."""
        if any(v.__class__ in _COUNTED for v in args):
            return
        if self.found is None:
            self.found = {}
            planning.plans.append(self.found)
            lookups.when_loaded(self._use_lookups)
        if self.scope["find"] is not self.no_code:
            key = lookups.key_of()(*args)
            if key is not None:
                if len(self.found) >= _PLANS:
                    self.found.clear()
                self.found[key] = run

    def _use_lookups(self) -> None:
        assert self.found is not None
        self.scope["find"] = lookups.finder(self.found, unless_recorded=False)

    def _plan(self, args: Sequence[Any]) -> Plan:
        family, operator, ahead = self.family, self.operator, self.ahead
        target = args[0] if self.writes else None
        spec, kind, own = family.plan(operator, args[ahead:], None if ahead else target)
        at = [i + ahead for i in own]
        tensors = [i for i, v in enumerate(args) if i >= ahead and hasattr(v, "_array")]
        arrays = [args[i]._array for i in tensors]
        written = spec.dtype.np if target is None else target._array.dtype
        size = math.prod(spec.shape)
        floating = any(args[i].dtype.category >= FLOAT for i in tensors)
        if any(i not in at for i in tensors) or not size or any(a.__class__ is not np.ndarray for a in arrays):
            raise Untraceable
        if target is not None and not self._can_write(target._array, spec):
            raise Untraceable
        out = ir.stored_as(written)
        kinds = [ir.type_of(a.dtype) or "" for a in arrays]
        pattern = ["array" if hasattr(v, "_array") else self._class(v, floating) for v in args]
        if out is None or "" in kinds or "" in pattern:
            raise Untraceable
        every = arrays if target is None or not ahead else [target._array, *arrays]
        flat = all(a.shape == every[0].shape and a.strides == contiguous_strides(a.shape, a.itemsize) for a in every)
        strides = None if flat else self._strides(args, arrays, spec, at)
        small = target is None and size <= LARGEST and strides is not None and strides[0] == contiguous_strides(
            spec.shape, spec.dtype.itemsize)
        inner = "" if strides is None else "small" if small else inner_of(strides[1][1], [out, *kinds])
        code, expression = self._code(args, kind, at, kinds, out, pattern, inner)
        size *= _SLOWNESS if _without_loops(expression.node) else 1
        if strides is None or small:
            # Which of several types comes out depends on which arrays have no dimensions: that code does not ask.
            alike = flat or len({*kinds} - {"bool"}) < 2
            # Nor does it ask for the default type, which decides what integers become.
            alike = alike and (floating or spec.dtype.category < FLOAT)
            run = self._direct_plan(code, size, None if "any" in pattern or not alike else "fast" if flat else "spread")
        else:
            run = self._strided_plan(code, expression, spec, strides, size, tensors)
        return _guard(expression), run

    def _can_write(self, array: np.ndarray, spec: Any) -> bool:
        """Whether results can be stored in an array: `into` takes no other types, as what is cast is written anew."""
        if array.__class__ is not np.ndarray or self.ahead and array.dtype != spec.dtype.np:
            return False
        return tuple(spec.shape) == array.shape and 0 not in array.strides and not overlaps_itself(
            array.shape, array.strides)

    def _class(self, value: Any, floating: bool) -> str:
        if value.__class__ in _COUNTED:
            return "number" if floating else value.__class__.__name__
        if value.__class__ is str:
            return "any"
        return _SINGLE.get(value, "") if value.__class__ in (bool, type(None)) else ""

    def _code(self, args: Sequence[Any], kind: Any, at: Sequence[int], kinds: Sequence[Any], out: str,
              pattern: Sequence[str], inner: str) -> tuple[Code, Any]:
        """The code for such arguments; `inner` as in strided_kernel, "" for arrays that lie alike, or "small"."""
        plain = [v._array.dtype if hasattr(v, "_array") else v for v in args]
        plain[: self.ahead] = [None] * self.ahead
        common = common_dtype([args[i] for i in at]).np
        narrow = common if common in REDUCED else None
        if narrow is not None and any(hasattr(v, "_array") and not v._array.ndim and v._array.dtype != narrow
                                      for v in args[self.ahead :]):
            raise Untraceable  # a tensor without dimensions is rounded first
        family = self.family
        compute = _without_first(family.compute) if self.ahead else family.compute
        expression = Expression(compute, plain, at, kind.np, narrow, rounds=family.rounds,
                                rounds_numbers=family.rounds_numbers, waits=True)
        # Calls with other numbers share the code if the trace is the same and only used its guards.
        key = (out, *kinds, *pattern, inner, expression.node.key(), *[repr(g) for g in expression.guards])
        known = self.codes.get(key)
        if known is None:
            if inner == "small":
                def make() -> str:
                    return pointwise.spread_module(expression, kinds, out, pattern)
            elif inner:
                def make() -> str:
                    return llvm.module_of(pointwise.strided_kernel(expression, kinds, out, inner), exact=True)
            else:
                def make() -> str:
                    return pointwise.flat_module(expression, kinds, out, pattern, into=self.writes)
            due = DUE_LATER if _array_functions(expression.node) <= _FEW_STEPS else DUE
            known = self.codes[key] = (Code(make, due=due), expression)
        return known

    def _direct_plan(self, code: Code, size: int, name: str | None) -> Callable:
        """Hands a call's arrays to code that looks at them itself; from then on, at first, under the name."""

        def run(*args: Any) -> Any:
            call = code.call or code.wanted(size)
            if call is None:
                return None
            if name is not None:
                self.scope[name] = call
            return call(*[getattr(v, "_array", v) for v in args])

        return run

    def _strides(self, args: Sequence[Any], arrays: Sequence[np.ndarray], spec: Any, at: Sequence[int]) -> tuple:
        """Shape and strides in bytes of the result, and of each array over that shape."""
        shape = tuple(spec.shape)
        if self.writes:
            own = args[0]._array.strides
        else:
            steps = pointwise_strides(shape, self.family.lying([args[i] for i in at])) or contiguous_strides(shape)
            own = tuple([s * spec.dtype.itemsize for s in steps])
        spread = [(0,) * (len(shape) - a.ndim) + tuple([s if n != 1 else 0 for n, s in zip(a.shape, a.strides)])
                  for a in arrays]
        order = sorted(range(len(shape)), key=lambda d: (own[d], -d))
        return own, collapsed(order, shape, [own, *spread])

    def _strided_plan(self, code: Code, expression: Any, spec: Any, strides: tuple, size: int,
                      tensors: Sequence[int]) -> Callable:
        own, (sizes, steps) = strides
        geometry = pointwise.geometry_of(sizes, steps)
        numbers = list(expression.numbers)
        loads = expression.loads
        shape, kind = tuple(spec.shape), spec.dtype.np
        fresh = _allocation(shape, own, kind)
        writes, ahead = self.writes, self.ahead

        def run(*args: Any) -> Any:
            call = code.call or code.wanted(size)
            if call is None:
                return None
            if writes:
                made = args[0]._array
                if ahead and not all([may_be_written(made, args[i]._array) for i in tensors]):
                    return None  # it is refused, or computed first
                for i in () if ahead else tensors[1:]:
                    check_overlap(args[0], args[i])
                if not made.flags.writeable:
                    return None
            else:
                made = fresh()
            done = call(made, *[args[i]._array for i in loads], geometry, *[args[i] for i in numbers])
            return None if not done else True if writes else made

        return run


def _without_first(compute: Callable) -> Callable:
    """`compute` of the arguments behind the target."""
    return lambda xp, target, *args, **options: compute(xp, *args, **options)


def _without_loops(node: ir.Node) -> list[str]:
    """The functions in an expression that NumPy has no loop for: they are SciPy's, or many array functions."""
    steps = [step for step in node.walk() if step.args]
    own = [s.op for s in steps if s.op in math_functions or f"{s.op}_{s.type}" in math_functions]
    return [op for op in own if not hasattr(np, op)]


def _array_functions(node: ir.Node) -> int:
    """About how many array functions NumPy computes an expression with."""
    return sum(bool(step.args) for step in node.walk()) + (_FUNCTION_STEPS - 1) * len(_without_loops(node))


def inner_of(strides: Sequence[Sequence[int]], kinds: Sequence[str]) -> str:
    """How elements follow each other in the rows: as strided_kernel takes it; all by strides unless they are simple."""
    steps = [own[0] for own in strides]
    simple = ["1" if s == ir.SIZES[kind] else "0" if not s else "s" for s, kind in zip(steps, kinds, strict=True)]
    return "".join(simple) if "s" not in simple and simple[0] == "1" else "s" * len(simple)


def _allocation(shape: tuple[int, ...], strides: tuple[int, ...], kind: np.dtype) -> Callable[[], np.ndarray]:
    """What makes arrays of a shape with these strides in bytes."""
    if strides == contiguous_strides(shape, kind.itemsize):
        return functools.partial(np.empty, shape, kind)
    size = math.prod(shape)
    return lambda: np.ndarray(shape, kind, np.empty(size, kind), 0, strides)


def _guard(expression: Any) -> Callable[..., bool] | None:
    """Whether numbers answer as they did when the expression was traced; None if nothing was asked."""
    if not expression.guards:
        return None
    signs = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
    tests = [f"({text} {signs[op]} {value!r}) is {answer}" for text, _, op, value, answer in expression.guards]
    text = " and ".join(tests)
    for i in sorted(expression.numbers, reverse=True):
        text = text.replace(f"n{i}", f"args[{i}]")
    return eval(f"lambda *args: {text}")

