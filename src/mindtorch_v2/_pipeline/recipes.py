"""Recipes: what a call of an operator with arguments of certain layouts comes to, found out once."""

import functools
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .._backends.interface import backend_of
from .._backends.meta import MetaArray
from .._core.device import device
from .._core.dtype import FLOAT, OF_ARRAY, REDUCED, bool_
from .._core.planning import planners, plans
from .._core.tensor import Tensor
from .._dispatch.keys import META_MASK, changed_modes
from .._dispatch.registry import Operator
from .._dispatch.schema import NUMBERS
from .._kernels import ir
from .._kernels.trace import Expression, Untraceable
from .._ops._declare.batch import draws
from .._ops._declare.families import Pointwise
from .._ops._declare.plans import Twin
from .._ops._declare.rules import common_dtype
from .._ops.copy import fits
from .trace import Layout, Slots, layout_of

REAL = frozenset((int, float))
_MOST_EXPRESSIONS = 4096
# What `compute` may raise where it does what kernels cannot, since it is made for arrays.
_UNTRACEABLE = (Untraceable, TypeError, AttributeError, ValueError, OverflowError, NotImplementedError)


class Recipe:
    """How a call is recorded.

    `template` has a `Slots` in the place of each argument that a recording brings, and constants; `results` a layout
    for each new value (None where an operator gives none); `written` the positions of arguments that are written, with
    those in them of lists, and by how much versions grow; `returns` the position of the argument that comes back.
    """

    __slots__ = ("draws", "expression", "fails", "fold", "gather", "kind", "layout", "offset", "operator", "quick",
                 "repeats", "results", "returns", "row", "several", "split", "template", "tensors", "variants",
                 "written")  # fmt: skip

    def __init__(self, operator: Operator, kind: str, template: tuple, results: tuple[Layout | None, ...]) -> None:
        self.operator, self.kind, self.template, self.results = operator, kind, template, results
        self.layout = results[0] if results else None
        self.tensors = tuple([a.is_tensor and not a.is_list for a in operator.schema.arguments])
        self.quick = False  # whether it makes one new tensor and does nothing else
        self.repeats = ""  # of other calls that nodes know again: "written", "several"
        self.expression: Expression | None = None
        self.fold: tuple[int, str] | None = None  # of a "sum", "mean" or "max": the dimensions that stay, and which
        self.row: tuple[int, Callable] | None = None  # of other calls over rows: likewise, and what writes them down
        self.gather: Any = None  # of a map: what gives an element of the first result (gathers.py)
        self.split: int | None = None  # of one that gives more than rows: the position of what says which are wanted
        self.fails, self.offset = True, 0  # whether the call may fail when it is run; where a view begins in its source
        self.written: tuple[tuple[int, int | None, int], ...] = ()
        self.draws = False  # whether it takes random numbers
        self.returns: int | None = None
        self.several = False
        self.variants: list[tuple[Callable[..., bool], Recipe]] | None = None  # by answers of numbers to guards

    def __repr__(self) -> str:
        return f"<{self.operator.name} {self.results}>"


class Cut:
    """The recipe of calls that are not recorded: what was recorded before runs, then they."""

    kind = "cut"
    quick = False
    repeats = ""
    layout = variants = None


CUT: Any = Cut()


def recipe_for(operator: Operator, args: Sequence[Any], free: dict[int, Any]) -> Any:
    """The recipe of a call, or CUT; at the positions in `free`, numbers that are not the default may change."""
    schema = operator.schema
    declaration = operator.declaration
    if declaration is None or declaration.family.changes_layout:
        return CUT
    flat = [v for a in args for v in (a if a.__class__ in (tuple, list) else (a,))]
    where = next(v._device for v in flat if isinstance(v, Tensor))
    if any(v.__class__ is device and (v.type, v.index or 0) != (where.type, where.index or 0) for v in args):
        return CUT  # a result elsewhere
    drawing, listed = draws(operator), any(a.writes and a.is_list for a in schema.arguments)
    if (drawing or listed) and where.type not in ("cpu", "meta"):
        return CUT
    given = [a for a, v in zip(schema.arguments, args, strict=True) if v is not None]
    if any(a.type == "Generator" for a in given):
        return CUT  # a stream of the program's own, whose state it may look at
    if listed and any(a.optional and a.is_tensor for a in given):
        return CUT  # elements may say that nothing is written
    found = _inferred(operator, args)
    if found is None:
        return CUT
    results, written, returns, several = found
    kinds = {v._array.dtype for v in flat if isinstance(v, Tensor)}.union([r.dtype for r in results if r is not None])
    if not backend_of(where.type).records(kinds):
        return CUT
    told = {i for i, _, _ in written}
    if not told and any(a.writes for a in schema.arguments):
        return CUT  # what is written is not known
    for i, a in enumerate(schema.arguments):
        if a.writes and i not in told and isinstance(args[i], Tensor):
            written = (*written, (i, None, 0))  # which its version does not tell
    template = _template(args, free)
    recipe = Recipe(operator, "call", template, results)
    recipe.written, recipe.returns, recipe.several, recipe.draws = written, returns, several, drawing
    if several and not written:
        _find_rows(recipe, args)
        _find_map(recipe, args)
        recipe.repeats = "" if drawing else "several"
    elif written == ((0, None, 1),) and returns == 0 and not results and not drawing:
        recipe.repeats = "written"
    if not (drawing or several or listed):
        _find_expression(recipe, args)
    if where.type == "npu":
        recipe.fails = True  # whether the chip takes the call is known when it is launched
    return recipe


def _find_expression(recipe: Recipe, args: Sequence[Any]) -> None:
    """Notes how one result, or what is written, is computed element by element, or row by row."""
    operator, template, results, written = recipe.operator, recipe.template, recipe.results, recipe.written
    writes = operator.schema.writes
    if len(results) == 1 and not written or writes and written == ((0, None, 1),) and recipe.returns == 0:
        functional = operator.declaration.inplace_of or operator
        fixed = frozenset([f"n{i}" for i, part in enumerate(template) if part.__class__ is not Slots])
        made = args[0]._array.dtype if writes else results[0].dtype  # type: ignore[union-attr]
        recipe.expression = _expression(functional, args, args[0] if writes else None, made, fixed)
        recipe.quick = not writes and results[0] is not None
        if recipe.expression is not None:
            recipe.kind, recipe.fails = "write" if writes else "pointwise", False
        else:
            recipe.fold = _fold(operator, args, results)
            recipe.fails = recipe.fails and recipe.fold is None
            _find_rows(recipe, args)
            _find_map(recipe, args)


def _find_map(recipe: Recipe, args: Sequence[Any]) -> None:
    """Notes how each element of a result is made of a few of the operands'."""
    from .gathers import gather_of

    found = None if recipe.written else gather_of(recipe.operator, args, recipe.results)
    if found is not None:
        recipe.gather, recipe.fails = found


FOLDS = ("sum", "mean", "max")  # over the last dimensions


def _find_rows(recipe: Recipe, args: Sequence[Any]) -> None:
    """Notes how a call is computed row by row."""
    from .row_calls import SPLIT, row_of

    recipe.row = row_of(recipe.operator, args, recipe.results)
    recipe.split = None if recipe.row is None else SPLIT.get(recipe.operator.declaration.in_rows)
    recipe.fails = recipe.fails and recipe.row is None


def _fold(operator: Operator, args: Sequence[Any], results: Sequence[Layout | None]) -> tuple[int, str] | None:
    """How a sum, mean or max over the last dimensions of floats is one of parts; None for other calls."""
    from .row_calls import kinds_of

    name = operator.declaration.in_rows
    if name not in FOLDS or results[0] is None:
        return None
    array, (_, dims, _, *rest) = args[0]._array, args
    kind = rest[0] if rest else None
    if kind is not None or array.dtype != results[0].dtype or array.dtype.name not in kinds_of(args[0]):
        return None
    over = sorted({d % array.ndim for d in dims}) if dims and array.ndim else list(range(array.ndim))
    stay = array.ndim - len(over)
    return (stay, name) if over == list(range(stay, array.ndim)) and over else None


def _template(args: Sequence[Any], free: dict[int, Any]) -> tuple:
    made: list[Any] = []
    for i, value in enumerate(args):
        if isinstance(value, Tensor):
            made.append(Slots())
        elif value.__class__ in (tuple, list) and any(isinstance(v, Tensor) for v in value):
            gaps = tuple([v is None for v in value])
            made.append(Slots(gaps=gaps))
        elif i in free and value is not free[i] and value.__class__ in REAL:
            made.append(Slots(True))
        else:
            made.append(value)
    return tuple(made)


# inference -----------------------------------------------------------------------------------------------------------


def twin_of(tensor: Any) -> Any:
    """A tensor with the geometry of one, and without memory."""
    array = tensor._array
    made = object.__new__(Twin)
    made._array = MetaArray(array.shape, array.dtype, array.strides)
    made._keys, made._device = META_MASK, tensor._device
    return made


def twins_of(args: Sequence[Any], twins: dict[int, Any]) -> list[Any]:
    """Arguments with twins of tensors, one for each tensor."""

    def twinned(value: Any) -> Any:
        if isinstance(value, Tensor):
            if id(value) not in twins:
                twins[id(value)] = twin_of(value)
            return twins[id(value)]
        return type(value)(map(twinned, value)) if value.__class__ in (tuple, list) else value

    return list(map(twinned, args))


def _inferred(operator: Operator, args: Sequence[Any]) -> tuple | None:
    """Layouts of new results, what is written, what comes back, and whether that is several; None if it depends."""
    twins: dict[int, Any] = {}
    given = twins_of(args, twins)
    planners.add(threading.get_ident())
    try:
        with changed_modes(include=0, exclude=0, grad_enabled=False, inference=False):
            made = operator.lookup(META_MASK)(*given)
    except Exception:
        return None  # the call itself says whether that was an error or only depends on data
    finally:
        planners.discard(threading.get_ident())
    several = isinstance(made, (tuple, list))
    where = next(iter(twins.values()))._device
    known = {id(twin) for twin in twins.values()}
    results: list[Layout | None] = []
    returns: int | None = None
    for value in made if several else () if made is None else (made,):
        if value is None:
            results.append(None)
        elif id(value) in known:
            returns = next((i for i, v in enumerate(given) if v is value), None)
            if several or returns is None:
                return None
        elif not _is_plain(value):
            return None
        else:
            array = value._array
            results.append(layout_of(array.shape, array.strides, array.dtype, where))
    first = {id(v): i for i, v in reversed([*enumerate(given)])}
    written = [(i, None, v._version) for i, v in enumerate(given)
               if isinstance(v, Tensor) and v._version and first[id(v)] == i]  # fmt: skip
    listed = [(i, k, v) for i, value in enumerate(given) if value.__class__ in (tuple, list)
              for k, v in enumerate(value) if isinstance(v, Tensor) and v._version]  # fmt: skip
    if len({id(v) for *_, v in listed}) < len(listed) or any(id(v) in first for *_, v in listed):
        return None  # one tensor in two places
    return tuple(results), (*written, *((i, k, v._version) for i, k, v in listed)), returns, several


def _is_plain(made: Any) -> bool:
    """Whether a result is a tensor with memory of its own, of a size that is known and not nothing."""
    if not isinstance(made, Tensor) or made._array.__class__ is not MetaArray or made._base is not None:
        return False
    return made._array.size > 0 and min(made._array.shape, default=1) > 0


# expressions ---------------------------------------------------------------------------------------------------------


_expressions: dict[tuple, Expression] = {}
plans.append(_expressions)


def _traced(fixed: frozenset[str], compute: Callable, plain: Sequence[Any], at: Sequence[int], kind: Any,
            narrow: Any = None, **options: Any) -> Expression:  # fmt: skip
    """The one expression of calls that differ in sizes; what `fixed` numbers answered need not be asked again."""
    key = (fixed, compute, *at, kind, narrow, options.get("rounds"), options.get("rounds_numbers"),
           "functions" in options, *[(value.__class__, repr(value)) for value in plain])  # fmt: skip
    known = _expressions.get(key)
    if known is None:
        if len(_expressions) >= _MOST_EXPRESSIONS:
            _expressions.clear()
        known = _expressions[key] = Expression(compute, plain, at, kind, narrow, **options)
        known.guards = [guard for guard in known.guards if not fixed.issuperset(_named(guard[0]))]
    return known


def _expression(
    operator: Operator, args: Sequence[Any], target: Any, made: Any, fixed: frozenset[str]
) -> Expression | None:
    """What a pointwise operator computes of an element; None if that cannot be written down."""
    family = operator.declaration.family
    moved = _MOVES.get(operator.schema.base_name)
    try:
        if moved is not None:
            return moved(args, made, fixed)
        if not isinstance(family, Pointwise) or not family.only_checks and _functions(type(family)) != _OWN:
            return None
        given = twins_of(args, {})
        spec, kind, at = family.plan(operator, given, None if target is None else given[0])
        tensors = [i for i, v in enumerate(given) if isinstance(v, Tensor)]
        if any(i not in at for i in tensors) or any(ir.type_of(given[i]._array.dtype) is None for i in tensors):
            return None
        if target is not None and tuple(spec.shape) != given[0]._array.shape or ir.type_of(spec.dtype.np) is None:
            return None
        if spec.dtype.category >= FLOAT and not any(given[i].dtype.category >= FLOAT for i in tensors):
            return None  # the default type decides
        common = common_dtype([given[i] for i in at]).np
        narrow = common if common in REDUCED else None
        if narrow is not None and any(not given[i]._array.ndim and given[i]._array.dtype != narrow for i in tensors):
            return None  # a tensor without dimensions is rounded first
        plain = [v._array.dtype if isinstance(v, Tensor) else v for v in given]
        if given[tensors[0]]._device.type == "cuda":
            from .._backends.cuda.special import FUNCTIONS

            between = narrow if family.rounds else None
            return _traced(fixed, family.compute, plain, at, kind.np, between, rounds=True, functions=FUNCTIONS)
        return _traced(
            fixed,
            family.compute,
            plain,
            at,
            kind.np,
            narrow,
            rounds=family.rounds,
            rounds_numbers=family.rounds_numbers,
            waits=True,
        )
    except _UNTRACEABLE:
        return None


def _functions(family: type[Pointwise]) -> tuple[Callable, Callable]:
    return family.kernel, family.computed


_OWN = _functions(Pointwise)


def _copied(args: Sequence[Any], made: Any, fixed: frozenset[str], at: int = 0) -> Expression | None:
    """What copies and casts compute: the element of an operand, in another type where no digits of it are cut off."""
    if not isinstance(args[at], Tensor):
        return None
    source = args[at]._array.dtype
    kind, other = ir.type_of(source), ir.type_of(made)
    if kind is None or other is None or kind != other and other not in ("f16", "bf16", "f32", "f64"):
        return None
    plain = [None if i != at else source for i in range(len(args))]
    return _traced(fixed, _element(at), plain, [at], _dtype("float32") if source in REDUCED else source)


@functools.cache
def _element(at: int) -> Callable:
    """The function that gives one of its operands."""
    return lambda xp, *values: values[at]


@functools.cache
def _dtype(name: str) -> Any:
    import numpy as np

    return np.dtype(name)


def _chosen(args: Sequence[Any], made: Any, fixed: frozenset[str], order: tuple[int, int, int]) -> Expression | None:
    """What a choice computes: `order` has the positions of the condition, of what is taken then, and otherwise.

    On the CPU, of floating point numbers of one type.
    """
    condition, *choices = [args[i] for i in order]
    tensors = [choice for choice in choices if isinstance(choice, Tensor)]
    kind = ir.type_of(made)
    if kind not in ("f16", "bf16", "f32", "f64") or condition._device.type != "cpu" or condition.dtype is not bool_:
        return None
    if any(tensor._array.dtype != made for tensor in tensors):
        return None
    if made in REDUCED and len(tensors) < len(choices):
        return None  # a number is rounded first
    plain = [v._array.dtype if isinstance(v, Tensor) else v for v in args]
    return _traced(fixed, _choice(order), plain, [0, 1, 2], _dtype("float32") if made in REDUCED else made)


@functools.cache
def _choice(order: tuple[int, int, int]) -> Callable:
    """The function that chooses between two of its operands by a third."""
    return lambda xp, *values: xp.where(*[values[i] for i in order])


def _filled(args: Sequence[Any], made: Any, fixed: frozenset[str]) -> Expression | None:
    """What a number that fills floating point numbers of full precision is: itself, whatever was there."""
    target, value = args
    if made.char not in "fd" or value.__class__ not in REAL or not fits(value, OF_ARRAY[made]):
        return None
    return _traced(fixed, _number, [target._array.dtype, value], [0, 1], made)


def _number(xp: Any, element: Any, number: Any) -> Any:
    return xp.where(element == element, number, number)


_MOVES: dict[str, Callable[..., Expression | None]] = {
    "copy_": functools.partial(_copied, at=1), "clone": _copied, "_to_copy": _copied, "fill_": _filled,
    "where": functools.partial(_chosen, order=(0, 1, 2)), "masked_fill": functools.partial(_chosen, order=(1, 2, 0)),
}  # fmt: skip


_named = re.compile(r"\bn\d+\b").findall  # the numbers in a guard


def guard_of(expression: Expression) -> Callable[..., bool] | None:
    """Whether numbers answer as they did when an expression was traced; None if nothing was asked."""
    from .._backends.cpu.pointwise import _guard

    return _guard(expression)


__all__ = ["CUT", "NUMBERS", "REAL", "Recipe", "guard_of", "recipe_for"]
