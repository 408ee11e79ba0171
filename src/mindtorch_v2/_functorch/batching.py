"""The level of vmap: below it, its tensors have one more dimension in front, which the rules of operators carry."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self

from .._dispatch.callers import call_bound
from .._dispatch.keys import VMAP_MASK, modes
from .._dispatch.levels import Level, LevelArray, map_tensors, open_levels
from .._dispatch.registry import Operator
from .._ops.rules import common_dtype
from .._tensor import Tensor
from .grad_level import finished, is_at, like_result, value_at, wrapped

ESCAPED = ("Either your tensor may have escaped from inside a function being vmapped and this is a user error (see "
           "https://pytorch.org/functorch/stable/ux_limitations.html), or there is an internal functorch error in "
           "`gen_vmap_plumbing` Please file an issue if it looks like the latter")
UNBATCHED_WRITE = ("vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` "
                   "in extra_args that has more elements than `self`. This happened due to `other` being vmapped over "
                   "but `self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of "
                   "inplace arithmetic. If said operator is being called inside the PyTorch framework, please file a "
                   "bug report instead.")
_READS = {
    "bool()": "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
              "support that yet, please file an issue at https://github.com/pytorch/pytorch/issues .",
    "item()": "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
              "Tensor, please try to rewrite what you're doing with other operations. If error is occurring somewhere "
              "inside PyTorch internals, please file a bug report.",
}


class Call:
    """A call at a level of vmap, as the level below sees it: values, and which of them have the level's dimension."""

    def __init__(self, level: "BatchLevel", operator: Operator, args: Sequence[Any]) -> None:
        self.level, self.operator, self.args = level, operator, args
        self.values = map_tensors(lambda t: value_at(level, t), args)
        self.batched: list[Any] = [
            tuple(map(self._has_dimension, a)) if a.__class__ in (tuple, list) else self._has_dimension(a)
            for a in args]
        self.size = level.size

    def _has_dimension(self, value: Any) -> bool:
        return is_at(self.level, value) and value._array.batched

    def any_batched(self) -> bool:
        return any(any(b) if isinstance(b, tuple) else b for b in self.batched)

    def at(self, name: str) -> Any:
        """The value of an argument."""
        return self.values[self.operator.schema.index[name]]

    def ndim(self, i: int) -> int:
        """The number of dimensions that users see of an argument."""
        return self.values[i]._array.ndim - self.batched[i]

    def full(self, i: int) -> Any:
        """An argument with the level's dimension, expanded if it has none of its own."""
        return self.expanded(self.values[i], self.batched[i])

    def expanded(self, value: Any, batched: bool) -> Any:
        return value if batched else value.unsqueeze(0).expand((self.size, *value.shape))

    def run(self, *values: Any) -> Any:
        """The operator on other values."""
        return call_bound(self.operator, values)


class BatchLevel(Level):
    """One vmap in progress, over `size` samples."""

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__()
        self.size, self.randomness = size, randomness

    def __enter__(self) -> Self:
        super().__enter__()
        self._include = modes.include
        modes.update(include=modes.include | VMAP_MASK)
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        modes.update(include=self._include)

    def wrap(self, value: Any) -> Any:
        return wrapped(self, value)

    def left(self, tensor: Any) -> Any:
        if tensor._array.batched:
            raise RuntimeError(ESCAPED)
        return tensor._array.value

    def run(self, operator: Operator, args: Sequence[Any]) -> Any:
        call = Call(self, operator, args)
        if not call.any_batched():
            return finished(self, operator, args, call.run(*call.values))
        rule = rule_of(operator)
        if operator.name in DECOMPOSED:
            return DECOMPOSED[operator.name](*args)
        writes = operator.schema.arguments[0].writes
        if writes and rule is not pointwise and not _writes_into_batched(call):
            raise RuntimeError(UNBATCHED_WRITE)
        result, batched = rule(call)
        return finished(self, operator, args, result, batched)

    def apply_function(self, function: Any, args: tuple) -> Any:
        from .autograd_function import vmapped_apply

        return vmapped_apply(self, function, args)

    def shown(self, array: LevelArray, value: str) -> str:
        if not array.batched:
            return value.strip()
        return f"BatchedTensor(lvl={self.depth}, bdim=0, value=\n{value}\n)"

    def refuse(self, action: str) -> NoReturn:
        if not self.alive:
            raise RuntimeError(ESCAPED)
        raise RuntimeError(_READS.get(action, "Cannot access data pointer of Tensor that doesn't have storage"))


def _writes_into_batched(call: Call) -> bool:
    for argument, batched in zip(call.operator.schema.arguments, call.batched, strict=True):
        if argument.writes and not (all(batched) if isinstance(batched, tuple) else batched):
            return False
    return True


# rules: each takes a call, and gives (the result below, whether it has the level's dimension) ------------------------

RULES: dict[str, Callable[[Call], tuple[Any, Any]]] = {}
DECOMPOSED: dict[str, Callable] = {}  # operators that are written as others instead


def rule(*names: str) -> Callable:
    """Registers a rule for operators, by full name (`max.dim`) or for all overloads."""

    def register(function: Callable) -> Callable:
        for name in names:
            RULES[name] = function
        return function

    return register


_chosen: dict[str, Callable] = {}


def rule_of(operator: Operator) -> Callable[[Call], tuple[Any, Any]]:
    """The rule of an operator; of an in-place form, that of the functional one."""
    known = RULES.get(operator.name) or _chosen.get(operator.name)
    if known is None:
        known = _chosen[operator.name] = _choose(operator)
    return known


def _choose(operator: Operator) -> Callable[[Call], tuple[Any, Any]]:
    from . import batch_rules

    declaration = operator.declaration
    source = operator if declaration is None else declaration.inplace_of or operator
    schema = source.schema
    if schema.namespace == "aten" and declaration is not None:
        named = RULES.get(schema.name) or RULES.get(schema.base_name)
        if named is not None:
            return named
        if declaration.family.elementwise:
            return pointwise
        if sum(a.is_tensor for a in schema.arguments) == 1 and any(n in batch_rules.DIMENSIONS for n in schema.names):
            return batch_rules.along_dimensions
    return one_by_one


def aligned(value: Any, batched: bool, ndim: int) -> Any:
    """A value whose samples have `ndim` dimensions, those missing in front being of size one."""
    if not batched or value._array.ndim > ndim:
        return value
    shape = value._array.shape
    return value.reshape((shape[0], *(1,) * (ndim + 1 - len(shape)), *shape[1:]))


def broadcast(call: Call) -> tuple[Any, Any]:
    """Elementwise over operands that broadcast."""
    ndim = max(call.ndim(i) for i, v in enumerate(call.values) if isinstance(v, Tensor))
    return call.run(*[aligned(v, b, ndim) if isinstance(v, Tensor) else v
                      for v, b in zip(call.values, call.batched, strict=True)]), True


def pointwise(call: Call) -> tuple[Any, Any]:
    """As `broadcast`, over operands of which the result has the common type."""
    at = [i for i, v in enumerate(call.values) if isinstance(v, Tensor)]
    if len({call.values[i].dtype for i in at}) > 1:
        common = common_dtype([a for a in call.args if isinstance(a, (Tensor, int, float, complex))])
        for i in at:  # one without dimensions must not come to decide the type because it has one below
            if call.batched[i] and not call.ndim(i):
                call.values[i] = call.values[i].to(common)
    return broadcast(call)


def one_by_one(call: Call) -> tuple[Any, Any]:
    """The operator on each sample; the results stacked. Any operator can be run so."""
    if not call.size:
        raise RuntimeError("The fallback path does not support vmap over dims of size 0")
    results = []
    for i in range(call.size):
        results.append(call.run(*[
            tuple(v.select(0, i) if b else v for v, b in zip(value, batched, strict=True)) if isinstance(batched, tuple)
            else value.select(0, i) if batched else value
            for value, batched in zip(call.values, call.batched, strict=True)]))
    if any(a.writes for a in call.operator.schema.arguments):
        return results[0], True
    first = results[0]
    if first.__class__ in (tuple, list) or hasattr(first, "_fields"):
        return like_result(first, [_stacked(column) for column in zip(*results, strict=True)]), True
    return _stacked(results), True


def _stacked(column: Sequence[Any]) -> Any:
    from .. import stack

    return stack(list(column)) if isinstance(column[0], Tensor) else column[0]


def innermost_batch_level() -> BatchLevel | None:
    return next((level for level in reversed(open_levels()) if isinstance(level, BatchLevel)), None)
