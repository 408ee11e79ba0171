"""Batching rules that operators share: how a call with one more dimension in front of some values is made below vmap.

A rule, the `batch` of a declaration, takes a call and gives (the result below, whether it has the level's dimension).
Instead of whether, it says None of a result that is at the level already. A value with the level's dimension has it in
front, so trailing dimensions and negative numbers of dimensions stay what they are.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from ..._core.device import channels_last, channels_last_3d, contiguous_format
from ..._core.dtype import bool_, int64, uint8
from ..._core.geometry import wrapped_dim
from ..._core.tensor import Tensor
from ..._dispatch.callers import call_bound
from ..._dispatch.levels import is_at, like_result, map_tensors, value_at
from ..._dispatch.registry import Operator, registry
from .rules import common_dtype

Result = tuple[Any, Any]
# Arguments of these names tell dimensions of the tensor.
DIMENSIONS = frozenset(("dim", "dims", "dim0", "dim1", "dim2", "dimension"))


class Call:
    """A call at a level of vmap, as the level below sees it: values, and which of them have the level's dimension."""

    def __init__(self, level: Any, operator: Operator, args: Sequence[Any]) -> None:
        self.level, self.size, self.operator, self.args = level, level.size, operator, args
        self.values = map_tensors(lambda t: value_at(level, t), args)
        self.batched: list[Any] = [
            tuple(map(self._has_dimension, a)) if a.__class__ in (tuple, list) else self._has_dimension(a)
            for a in args]

    def _has_dimension(self, value: Any) -> bool:
        return is_at(self.level, value) and value._array.batched

    def any_batched(self) -> bool:
        return any(any(b) if isinstance(b, tuple) else b for b in self.batched)

    @property
    def writes(self) -> bool:
        """Whether the first argument is written in place."""
        return self.operator.schema.arguments[0].writes

    def at(self, name: str) -> Any:
        """The value of an argument."""
        return self.values[self.operator.schema.index[name]]

    def ndim(self, i: int) -> int:
        """The number of dimensions that users see of an argument."""
        return self.values[i]._array.ndim - self.batched[i]

    def full(self, i: int) -> Any:
        """An argument with the level's dimension, expanded if it has none of its own."""
        return self.expanded(self.values[i], self.batched[i])

    def sample(self, i: int) -> list[Any]:
        """The values of one sample."""
        return [
            tuple(v.select(0, i) if b else v for v, b in zip(value, batched, strict=True)) if isinstance(batched, tuple)
            else value.select(0, i) if batched else value
            for value, batched in zip(self.values, self.batched, strict=True)]

    def expanded(self, value: Any, batched: bool) -> Any:
        return value if batched else value.unsqueeze(0).expand((self.size, *value.shape))

    def run(self, *values: Any) -> Any:
        """The operator on other values."""
        return call_bound(self.operator, values)

    def written(self, result: Any) -> Result:
        """A result that an in-place form stores into its first argument."""
        return (self.values[0].copy_(result) if self.writes else result), True


Rule = Callable[[Call], Result]


class Draws(NamedTuple):
    """Rules of an operator that draws numbers: others for each sample, or the same for all; None for what all do."""

    different: Rule | None = None
    same: Rule | None = None


def draws(operator: Any) -> bool:
    """Whether an operator takes random numbers."""
    declared = isinstance(getattr(operator.declaration, "batch", None), Draws)
    return declared or any(a.type == "Generator" for a in operator.schema.arguments)


def called(name: str, *args: Any) -> Any:
    """Another operator on arguments in the schema's order; those left out have their defaults."""
    operator = registry.get(name)
    return call_bound(operator, (*args, *operator.schema.defaults[len(args) :]))


def shifted(dim: Any, ndim: int) -> Any:
    """Dimensions that users see as those below."""
    if isinstance(dim, (tuple, list)):
        return tuple([wrapped_dim(d, ndim) + 1 for d in dim])
    return wrapped_dim(dim, ndim) + 1


def inner(value: Any) -> tuple[int, ...]:
    """All dimensions but the level's."""
    return tuple(range(1, value._array.ndim))


def aligned(value: Any, batched: bool, ndim: int) -> Any:
    """A value whose samples have `ndim` dimensions, those missing in front being of size one."""
    if not batched or value._array.ndim > ndim:
        return value
    shape = value._array.shape
    return value.reshape((shape[0], *(1,) * (ndim + 1 - len(shape)), *shape[1:]))


def without(value: Any) -> Any:
    """A value whose samples have lost the one dimension they were given."""
    return value.squeeze(1) if isinstance(value, Tensor) and value._array.ndim > 1 else value


def each(result: Any, change: Callable[[Any], Any]) -> Any:
    """A result with a change of every output."""
    if result.__class__ in (tuple, list) or hasattr(result, "_fields"):
        return like_result(result, [change(r) for r in result])
    return change(result)


def row_numbers(call: Call, like: Any) -> Any:
    """The number of each sample, in a shape that broadcasts against indices."""
    numbers = called("arange.start_step", 0, call.size, 1, int64, None, like.device)
    return numbers.reshape((call.size, *(1,) * (like._array.ndim - 1)))


# rules of any operator -----------------------------------------------------------------------------------------------


def one_by_one(call: Call) -> Result:
    """The operator on each sample; the results stacked. Any operator can be run so."""
    if not call.size:
        raise RuntimeError("The fallback path does not support vmap over dims of size 0")
    results = [call.run(*call.sample(i)) for i in range(call.size)]
    if any(a.writes for a in call.operator.schema.arguments):
        return results[0], True
    first = results[0]
    if first.__class__ in (tuple, list) or hasattr(first, "_fields"):
        return like_result(first, [_stacked(column) for column in zip(*results, strict=True)]), True
    return _stacked(results), True


def _stacked(column: Sequence[Any]) -> Any:
    return called("stack", tuple(column)) if isinstance(column[0], Tensor) else column[0]


def decomposed(call: Call) -> Result:
    """The operator's decomposition, at the level itself: its parts have rules. Levels of grad keep the formulas."""
    return call.operator.declaration.decomposition(*call.args), None


def dynamic_shape(call: Call) -> NoReturn:
    """Of operators whose values decide how large the result is."""
    raise RuntimeError("vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap "
                       f"over {call.operator.name}. Please file an issue at https://github.com/pytorch/pytorch/issues "
                       "if you need this feature.")


def drawn_once(call: Call) -> Result:
    """The same numbers for all samples, from an operator to which its tensor only tells the shape."""
    return call.run(*call.sample(0)), False


# elements and last dimensions ----------------------------------------------------------------------------------------


def broadcast(call: Call) -> Result:
    """Elementwise over operands that broadcast."""
    ndim = max(call.ndim(i) for i, v in enumerate(call.values) if isinstance(v, Tensor))
    return call.run(*[aligned(v, b, ndim) if isinstance(v, Tensor) else v
                      for v, b in zip(call.values, call.batched, strict=True)]), True


def elementwise(call: Call) -> Result:
    """As `broadcast`, over operands of which the result has the common type."""
    at = [i for i, v in enumerate(call.values) if isinstance(v, Tensor)]
    if len({call.values[i].dtype for i in at}) > 1:
        common = common_dtype([a for a in call.args if isinstance(a, (Tensor, int, float, complex))])
        for i in at:  # one without dimensions must not come to decide the type because it has one below
            if call.batched[i] and not call.ndim(i):
                call.values[i] = call.values[i].to(common)
    return broadcast(call)


def in_front(call: Call) -> Result:
    """Operators on elements or on the last dimensions: one more in front changes nothing."""
    if not call.batched[0] or sum(map(bool, call.batched)) > 1:
        return one_by_one(call)
    values = list(call.values)
    at = call.operator.schema.index.get("memory_format")
    if at is not None and values[at] in (channels_last, channels_last_3d):
        values[at] = contiguous_format  # that speaks of the dimensions which users see
    return call.run(*values), True


def against_a_set(call: Call) -> Result:
    """Elements that are looked up in a second tensor, which is the same for all samples."""
    return (call.run(*call.values), True) if not call.batched[1] else one_by_one(call)


def matrices(call: Call) -> Result:
    """Operators of two batches of matrices."""
    values = list(call.values)
    ndim = max(call.ndim(0), call.ndim(1))
    for i in (0, 1):
        values[i] = aligned(call.full(i), True, ndim)
    return call.run(*values), True


# dimensions ----------------------------------------------------------------------------------------------------------


def along_dimensions(call: Call, empty_means_all: bool = True) -> Result:
    """Operators of one tensor that name dimensions of it, and perhaps sizes of what it was taken from."""
    arguments, values = call.operator.schema.arguments, list(call.values)
    at = next(i for i, a in enumerate(arguments) if a.is_tensor)
    ndim, added = call.ndim(at), False
    sizes = next((i for i, a in enumerate(arguments) if a.name == "input_sizes"), None)
    if sizes is not None:
        ndim, values[sizes] = len(values[sizes]), (call.size, *values[sizes])
    elif not ndim:
        values[at], ndim, added = values[at].unsqueeze(1), 1, True
    for i, a in enumerate(arguments):
        if a.name not in DIMENSIONS or a.type != "int":
            continue
        if a.is_list and not values[i]:
            if a.name != "dim":
                return one_by_one(call)
            if values[i] is None or empty_means_all:
                values[i] = inner(values[at])
        elif values[i] is None:
            return _over_all(call, values, at, i)
        else:
            values[i] = shifted(values[i], ndim)
    result = call.run(*values)
    return (each(result, without) if added else result), True


def _over_all(call: Call, values: list[Any], at: int, dim: int) -> Result:
    """A reduction to one number a sample, by an operator that takes one dimension."""
    shape = values[at]._array.shape
    values[at], values[dim] = values[at].reshape((call.size, math.prod(shape[1:]))), 1
    keepdim = call.operator.schema.index.get("keepdim")
    keeps = keepdim is not None and values[keepdim]
    if keepdim is not None:
        values[keepdim] = False
    result = call.run(*values)
    return (each(result, lambda r: r.reshape((call.size, *(1,) * (len(shape) - 1)))) if keeps else result), True


def along_one(call: Call) -> Result:
    """Operators of several tensors of one shape, along a dimension."""
    values, dim = list(call.values), call.operator.schema.index["dim"]
    tensors = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    ndim = max(call.ndim(i) for i in tensors)
    for i in tensors:
        values[i] = aligned(call.full(i), True, max(ndim, 1))
    values[dim] = shifted(values[dim], ndim)
    result = call.run(*values)
    return (result if ndim else without(result)), True


def of_all_elements(name: str, *dim: Any) -> Rule:
    """The rule of a reduction to one number, by an operator that takes a dimension."""

    def rule(call: Call) -> Result:
        if not call.values[0].numel():
            return one_by_one(call)
        result = called(name, call.values[0].reshape((call.size, -1)), *dim)
        return (result if isinstance(result, Tensor) else result[0]), True

    return rule


def spread(first: Callable[[Call], int]) -> Rule:
    """The rule of operators that are given a number for each dimension, and more in front; `first` is the level's."""

    def rule(call: Call) -> Result:
        value, size, *rest = call.values
        return call.run(aligned(value, True, len(size)), (first(call), *size), *rest), True

    return rule


def sized(call: Call) -> Result:
    """Operators that are given the result's size."""
    value, size, *rest = call.values
    return call.run(value, (call.size, *size), *rest), True


def planewise(ndim: int | None) -> Rule:
    """The rule of operators on (batch, channels, ...) or (channels, ...): the samples join the batch.

    With `ndim` dimensions there is a batch; None if there always is.
    """

    def folded(call: Call) -> Result:
        values = list(call.values)
        tensors = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
        batch = call.args[tensors[0]].shape[0] if ndim in (None, call.ndim(tensors[0])) else None
        for i in tensors:
            values[i] = call.full(i).contiguous().flatten(0, 1) if batch is not None else call.full(i)
        sizes = call.operator.schema.index.get("input_size")
        if sizes is not None:
            values[sizes] = (call.size * values[sizes][0], *values[sizes][1:])
        result = call.run(*values)
        return (result if batch is None else each(result, lambda r: r.unflatten(0, (call.size, batch)))), True

    return folded


# indices -------------------------------------------------------------------------------------------------------------


def elementwise_indices(like: int) -> Rule:
    """The rule of indices that lie as the elements do; the result has the shape of argument `like`."""

    def rule(call: Call) -> Result:
        values = list(call.values)
        for i, value in enumerate(values):  # a number joins a vector
            if isinstance(value, Tensor):
                values[i] = call.full(i) if call.ndim(i) else call.full(i).unsqueeze(1)
        values[1] = shifted(values[1], max(call.ndim(0), 1))
        result = call.run(*values)
        return (result if call.ndim(like) else without(result)), True

    return rule


def in_a_row(value: Any, dim: int) -> Any:
    """A batched value with the dimension right behind the level's."""
    return value.movedim(shifted(dim, value._array.ndim - 1), 1)


def with_samples(call: Call) -> tuple[tuple, int | None]:
    """Indices (the second argument) for the values below, and where their dimensions come to lie if that is not where
    users expect them."""
    indices, batched = call.values[1], call.batched[1]
    is_mask = [index is not None and index.dtype in (bool_, uint8) for index in indices]
    if any(mask and own for mask, own in zip(is_mask, batched, strict=True)):
        raise RuntimeError("vmap: We do not support batching operators that can support dynamic shape. Attempting "
                           "to batch over indexing with a boolean mask.")
    plain: list[Any] = []
    flags: list[bool] = []
    for index, mask, own in zip(indices, is_mask, batched, strict=True):
        plain += index.nonzero().unbind(1) if mask else [index]  # as many indices as a mask has dimensions
        flags += [own] * (index._array.ndim if mask else 1)
    given = [i for i, index in enumerate(plain) if index is not None]
    rank = max(plain[i]._array.ndim - flags[i] for i in given)
    together = given == list(range(given[0], given[-1] + 1))
    if not any(flags):
        return (None, *plain), (None if together else rank)
    made = [None if index is None else aligned(index, own, rank) for index, own in zip(plain, flags, strict=True)]
    numbers = row_numbers(call, made[next(i for i in given if flags[i])])
    return (numbers, *made), (given[0] if together and given[0] else None)
