"""How operators may be run in pieces: for one dimension of a mesh, placements of the operands and of the results.

Most rules name the dimensions of the operands and of the results, as `einsum` does: "mk,kn->mn". A dimension with a
name may be cut, in all tensors that have it at once; tensors without it are whole, or, among the results, parts of a
sum. A dimension without a name ("." or None) is never cut. A strategy is a function of the call that lists such
choices; the one whose operands are cheapest to bring there is taken, for each dimension of the mesh by itself.

Declarations of operators name theirs: `sharded="along"` is the function `along`, `sharded="product mk,kn->mn"` the one
that `product` makes of that text.
"""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from ._spec import recut
from .placement_types import Partial, Placement, Replicate, Shard, _MaskPartial, _NormPartial, _StridedShard

R = Replicate()
P = Partial()
Names = Sequence[Hashable | None]  # of one tensor's dimensions


class Call(NamedTuple):
    """An operator's call: the shapes of its tensors in order, its values by argument's name, shapes of its results."""

    shapes: list[tuple[int, ...]]
    values: dict[str, Any]
    results: list[tuple[int, ...]]
    size: int  # a length that it divides is cut evenly, however many of the mesh's dimensions cut it
    writes: bool

    def dim(self, ndim: int, default: int = -1) -> int:
        """The argument `dim`, counted from the front."""
        return self.values.get("dim", default) % max(ndim, 1)

    def dims(self, ndim: int, name: str = "dim") -> tuple[int, ...]:
        """The dimensions that an argument names, counted from the front; all of them where it names none."""
        value = self.values.get(name)
        if value is None or value == []:
            return tuple(range(ndim))
        return tuple(d % max(ndim, 1) for d in ([value] if isinstance(value, int) else value))


class Choice(NamedTuple):
    """Placements of the tensors that go in and of those that come out."""

    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]


Strategy = Callable[[Call], list[Choice]]


@functools.cache
def strategy_named(text: str) -> Strategy:
    """The strategy that a declaration names, with what it is made of after that."""
    name, *given = text.split()
    return globals()[name](*given) if given else globals()[name]


def whole(call: Call) -> list[Choice]:
    return [Choice((R,) * len(call.shapes), (R,) * len(call.results))]


def named(call: Call, inputs: Sequence[Names], outputs: Sequence[Names], lacking: Placement | None = P) -> list[Choice]:
    """All whole, or cut in one of the named dimensions; results without it are `lacking`, or rule it out if None."""
    found = whole(call)
    names = dict.fromkeys(name for one in inputs for name in one if name is not None and name != ".")

    def placed(dims: Names, name: Hashable, otherwise: Placement | None) -> Placement | None:
        return Shard(list(dims).index(name)) if name in dims else otherwise

    for name in names:
        results = [placed(one, name, lacking) for one in outputs]
        if None not in results:
            found.append(Choice(tuple(placed(one, name, R) or R for one in inputs),
                                tuple(p for p in results if p is not None)))
    return found


def strided(strategy: Strategy, call: Call, placements: Sequence[Placement]) -> list[Choice]:
    """A strategy's choices; where an operand has a piece of each of several pieces, also with such pieces."""
    found = strategy(call)
    for placement in placements:
        if isinstance(placement, _StridedShard) and strategy is not viewed:  # which cuts what were other dimensions
            found += [Choice(*(tuple(_like(p, placement) for p in side) for side in c)) for c in found
                      if Shard(placement.dim) in c.inputs]
            break
    return found


def _like(placement: Placement, cut: _StridedShard) -> Placement:
    return recut(cut, placement.dim) if isinstance(placement, Shard) else placement


# elementwise ---------------------------------------------------------------------------------------------------------

KINDS = ("sum", "avg", "max", "min", "product")


def _aligned(shape: Sequence[int], wide: Sequence[int]) -> list[int | None]:
    """Names of a tensor's dimensions as those of one that it broadcasts to."""
    pad = len(wide) - len(shape)
    return [d + pad if n == wide[d + pad] else None for d, n in enumerate(shape)]


def pointwise(call: Call) -> list[Choice]:
    """Cut along any dimension of the result."""
    wide = call.results[0]
    return named(call, [_aligned(own, wide) for own in call.shapes], [range(len(wide))] * len(call.results))


drawn = dropped = pointwise  # of numbers that are drawn for the whole tensor (_local.py)


def terms(call: Call) -> list[Choice]:
    """Sums of tensors: terms of the operands are terms of the result."""
    found = pointwise(call)
    if len(call.shapes) > 1 or "other" not in call.values:  # a number is not to be added by each process
        found.append(Choice((P,) * len(call.shapes), (P,)))
    if len(call.shapes) > 1:
        found.append(Choice((Partial("avg"),) * len(call.shapes), (Partial("avg"),)))
    return found


def kept(call: Call) -> list[Choice]:
    """The tensor itself, or a copy: parts of any kind are parts of it."""
    return pointwise(call) + [Choice((Partial(op),), (Partial(op),)) for op in KINDS]


def scaled(call: Call) -> list[Choice]:
    """Quotients, unless they are rounded: terms of the first operand are terms of the result."""
    found = pointwise(call)
    if call.values.get("rounding_mode") is None:
        found += [Choice((p, *([R] * (len(call.shapes) - 1))), (p,)) for p in (P, Partial("avg"))]
    return found


def multiplied(call: Call) -> list[Choice]:
    """Products of elements: terms of either operand are terms of the result."""
    return scaled(call) + ([Choice((R, P), (P,))] if len(call.shapes) == 2 and not call.writes else [])


def like(call: Call) -> list[Choice]:
    """A new tensor, whose elements are not looked at, with the operand's placement if it has its shape."""
    shape = call.shapes[0]
    same = tuple(shape) == tuple(call.results[0])
    placed: list[Placement] = [R, *(Shard(d) for d in range(len(shape)))]
    parts: list[Placement] = [Partial(op) for op in KINDS]
    return [Choice((p,), (p if same else R,)) for p in placed] + [Choice((p,), (R,)) for p in parts]


def noise(call: Call) -> list[Choice]:
    """What multiplies an operand, one number for each of its elements or for each of its channels."""
    shape, made = call.shapes[0], call.results[0]
    return named(call, [range(len(shape))], [_aligned(made, shape)], R)


def buffered(call: Call) -> list[Choice]:
    """An elementwise function with a buffer, which may be empty."""
    wide = call.shapes[0]
    names = [range(len(wide)) if own == wide else [] for own in (*call.shapes, *call.results)]
    return named(call, names[: len(call.shapes)], names[len(call.shapes) :], R)


# reductions ----------------------------------------------------------------------------------------------------------


def reduction(call: Call) -> list[Choice]:
    """Cut along what stays."""
    shape = call.shapes[0]
    over = set(call.dims(len(shape)))
    keep = bool(call.values.get("keepdim"))
    left = [None if d in over else d for d in range(len(shape)) if keep or d not in over]
    return named(call, [range(len(shape))], [left] * len(call.results), None)


def folded(how: str, linear: str = "") -> Strategy:
    """A reduction of which, along what is reduced, each process gives a part: `how` the parts are put together.

    One that is `linear` gives terms for terms.
    """

    def strategy(call: Call) -> list[Choice]:
        found, shape = reduction(call), call.shapes[0]
        for dim in call.dims(len(shape)) if shape else ():
            part = _part(how, call, shape[dim])
            if part is not None:
                found.append(Choice((Shard(dim),), (part,)))
        return found + [Choice((p,), (p,)) for p in ((P, Partial("avg")) if linear else ())]

    return strategy


def _part(how: str, call: Call, length: int) -> Placement | None:
    """What the results of pieces of a length are parts of; None where there must be no such pieces."""
    if how == "norm":
        order = call.values.get("ord", 2)
        if abs(order) != float("inf"):
            return _NormPartial(order)
        how = "max" if order > 0 else "min"
    if how in ("max", "min") and not _none_empty(length, call.size) or how == "avg" and length % call.size:
        return None
    return Partial({"or": "max", "and": "min"}.get(how, how))


def _none_empty(length: int, size: int) -> bool:
    """Whether no process is left without elements."""
    return (size - 1) * -(-length // size) < length


def along(call: Call) -> list[Choice]:
    """A function of whole rows (softmax, sorting, scans): cut along any other dimension that all tensors share."""
    shape = call.results[0]
    at = call.dim(len(shape))
    alike = [own for own in call.shapes if len(own) == len(shape)]
    names = [d if d != at and all(own[d] == shape[d] for own in alike) else None for d in range(len(shape))]
    return named(call, [names if len(own) == len(shape) else [] for own in call.shapes], [names] * len(call.results))


# products ------------------------------------------------------------------------------------------------------------


def product(text: str) -> Strategy:
    """A product of two tensors by names of one letter; it is linear in both."""
    given, made = text.split("->")

    def strategy(call: Call) -> list[Choice]:
        found = named(call, given.split(",")[: len(call.shapes)], made.split(","))
        return [*found, Choice((P, R), (P,)), Choice((R, P), (P,))]

    return strategy


def added(text: str) -> Strategy:
    """A product that is added to the first operand, which broadcasts to the result."""
    result = text.split("->")[1]

    def strategy(call: Call) -> list[Choice]:
        wide = call.results[0]
        names = [None if at is None else result[at] for at in _aligned(call.shapes[0], wide)]
        found = named(call, [names, *text.split("->")[0].split(",")], [result], None)
        return found + [Choice((P, *c.inputs), c.outputs) for c in named(call, text.split("->")[0].split(","), [result])
                        if c.outputs == (P,)]

    return strategy


# views ---------------------------------------------------------------------------------------------------------------


def _moved(call: Call, inputs: Names, outputs: Names) -> list[Choice]:
    """A view: cut in the named dimensions, and terms of a sum, or of another reduction, are terms of the view."""
    many = len(call.results)
    return [*named(call, [inputs], [outputs] * many, None),
            *(Choice((Partial(op),), (Partial(op),) * many) for op in KINDS)]


def permuted(call: Call) -> list[Choice]:
    ndim = len(call.shapes[0])
    order = list(range(ndim))
    if "dims" in call.values:
        order = [d % ndim for d in call.values["dims"]]
    elif "dim0" not in call.values:  # a matrix
        order.reverse()
    elif ndim:
        one, other = call.values["dim0"] % ndim, call.values["dim1"] % ndim
        order[one], order[other] = order[other], order[one]
    return _moved(call, range(ndim), order)


def unsqueezed(call: Call) -> list[Choice]:
    ndim = len(call.shapes[0])
    at = call.values["dim"] % (ndim + 1)
    return _moved(call, range(ndim), [*range(at), None, *range(at, ndim)])


def squeezed(call: Call) -> list[Choice]:
    shape = call.shapes[0]
    over = {d for d in call.dims(len(shape)) if shape[d] == 1}
    return _moved(call, [None if d in over else d for d in range(len(shape))],
                  [d for d in range(len(shape)) if d not in over])


def expanded(call: Call) -> list[Choice]:
    shape, wide = call.shapes[0], call.results[0]
    return _moved(call, _aligned(shape, wide), range(len(wide)))


def viewed(call: Call) -> list[Choice]:
    """A dimension stays cut where it is the first of those that are joined or split, and the pieces are even."""
    before, after = call.shapes[0], call.results[0]
    inputs: list[Hashable | None] = [None] * len(before)
    outputs: list[Hashable | None] = [None] * len(after)
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == 1 and after[j] != 1:
            i += 1
            continue
        if after[j] == 1 and before[i] != 1:
            j += 1
            continue
        first, second, one, other = i, j, before[i], after[j]
        while one != other:
            if one < other:
                i += 1
                one *= before[i]
            else:
                j += 1
                other *= after[j]
        if i == first and j == second or before[first] % call.size == 0 and after[second] % call.size == 0:
            inputs[first] = outputs[second] = first
        i, j = i + 1, j + 1
    return _moved(call, inputs, outputs) if 0 not in before else _moved(call, [], [])


def untouched(call: Call) -> list[Choice]:
    """Slices, splits and the like: cut along dimensions that they leave alone."""
    shape = call.shapes[0]
    at = call.dim(len(shape), 0)
    names: list[int | None] = [None if d == at else d for d in range(len(shape))]
    if "step" in call.values and call.results[0] == shape:  # a slice that is the whole
        names = [*range(len(shape))]
    goes = any(len(one) < len(shape) for one in call.results)
    return _moved(call, names, [d for d in names if d is not None] if goes else names)


def unchanged(argument: str) -> Strategy:
    """Functions of some dimensions, which an argument names, such as flip and roll: cut along the others."""

    def strategy(call: Call) -> list[Choice]:
        ndim = len(call.shapes[0])
        over = call.dims(ndim, argument)
        names = [None if d in over else d for d in range(ndim)]
        return _moved(call, names, names)

    return strategy


def same_lengths(call: Call) -> list[Choice]:
    """Functions that leave dimensions alone whose length stays: padding, repeating, triangles of matrices."""
    before, after = call.shapes[0], call.results[0]
    pad = len(after) - len(before)
    fixed = 2 if "diagonal" in call.values else 0  # of a matrix
    names = [d if n == after[d + pad] and d < len(before) - fixed else None for d, n in enumerate(before)]
    return _moved(call, names, [*([None] * pad), *names])


def untouched_backward(call: Call) -> list[Choice]:
    """Gradients of slices and rows, whose operand is what came out of them."""
    wide = call.results[0]
    at = call.values["dim"] % len(wide)
    names = [None if d == at else d for d in range(len(wide))]
    return _moved(call, [d for d in names if d is not None] if len(call.shapes[0]) < len(names) else names, names)


def joined(call: Call) -> list[Choice]:
    """cat and stack: cut along other dimensions than the one they join in."""
    shape = call.results[0]
    at = call.dim(len(shape), 0)
    names = [None if d == at else d for d in range(len(shape))]
    each = [d for d in names if d is not None] if max(map(len, call.shapes)) < len(shape) else names
    many = len(call.shapes)
    return named(call, [each if len(own) == len(each) else [] for own in call.shapes], [names]) + [
        Choice((p,) * many, (p,)) for p in (P, Partial("avg"))]


# by indices ----------------------------------------------------------------------------------------------------------


def index_selected(call: Call) -> list[Choice]:
    ndim = len(call.shapes[0])
    at = call.dim(ndim, 0)
    made = ["index" if d == at else d for d in range(ndim)]
    return named(call, [[None if d == at else d for d in range(ndim)], ["index"][: len(call.shapes[1])]], [made], None)


def gathered(call: Call) -> list[Choice]:
    """Cut along other dimensions; a process whose rows the indices do not name gives zeros."""
    shape, result = call.shapes[0], call.results[0]
    at = call.dim(len(shape), 0)
    names = [d if d != at and shape[d] == result[d] else None for d in range(len(shape))]
    indices = [d if d == at or names[d] is not None else None for d in range(len(shape))][: len(call.shapes[1])]
    found = named(call, [names, indices], [range(len(result))], None)
    if shape and len(result) == len(shape):
        found.append(Choice((Shard(at), R), (_MaskPartial(offset_shape=shape, offset_dim=at),)))
    return found


def indexed(call: Call) -> list[Choice]:
    """`x[i, j]`: cut along the dimensions of x that have no index, or along those of the indices."""
    indices = call.values["indices"]
    at = [d for d, index in enumerate(indices) if index is not None]
    ndim = len(call.shapes[0])
    result = call.results[0]
    wide = len(result) - (ndim - len(at))
    begin = at[0] if at[-1] - at[0] == len(at) - 1 else 0
    kept = [d for d in range(ndim) if d not in at]
    shared = result[begin : begin + wide]
    names = [None if d in at else d for d in range(ndim)]
    inputs = [[None if n is None else ("index", n) for n in _aligned(own, shared)] for own in call.shapes[1:]]
    return named(call, [names, *inputs], [[*kept[:begin], *(("index", d) for d in range(wide)), *kept[begin:]]], None)


def embedded(call: Call) -> list[Choice]:
    """Cut along features or indices; or along rows, where a process gives zeros for rows that it does not have."""
    ndim = len(call.shapes[1])
    rows = Choice((Shard(0), R), (_MaskPartial(offset_shape=call.shapes[0], offset_dim=0),))
    return [*named(call, [[None, "features"], range(ndim)], [[*range(ndim), "features"]], None), rows]


def embedding_gradient(call: Call) -> list[Choice]:
    ndim = len(call.shapes[1])
    indices = range(ndim) if not call.values.get("scale_grad_by_freq") else [None] * ndim
    return [*named(call, [[*indices, "features"], indices], [[None, "features"]]), Choice((P, R), (P,))]


# layers --------------------------------------------------------------------------------------------------------------


def normalised(call: Call) -> list[Choice]:
    """Norms of the last dimensions, forward and backward: cut along the others. Gradients of weights are parts."""
    ndim = len(call.shapes[0])
    kept = ndim - len(call.values["normalized_shape"])

    def names(shape: Sequence[int]) -> Names:
        return [d if d < kept else None for d in range(ndim)] if len(shape) == ndim and (
            tuple(shape[:kept]) == tuple(call.shapes[0][:kept])) else [None] * len(shape)

    return named(call, [names(s) for s in call.shapes], [names(s) for s in call.results])


def _filled(choices: list[Choice], call: Call) -> list[Choice]:
    """The choices that leave no process without elements, of which some functions have no result."""
    return [c for c in choices if all(not isinstance(p, Shard) or _none_empty(own[p.dim], call.size)
                                      for p, own in zip(c.inputs, call.shapes, strict=True))]


def convolution(call: Call) -> list[Choice]:
    """Cut along the batch or, where all channels are one group, along the channels of the result."""
    out = "o" if call.values["groups"] == 1 else "."
    return _filled(named(call, ["n", out, out][: len(call.shapes)], ["n" + out], None), call)


def convolution_gradients(call: Call) -> list[Choice]:
    out = "o" if call.values["groups"] == 1 else "."
    made = [name for name, wanted in zip(("n", out, out), call.values["output_mask"], strict=True) if wanted]
    return _filled(named(call, ["n" + out, "n", out], made), call)


def batched(leading: str) -> Strategy:
    """Functions that are the same at each place of the leading dimensions; of all but the last if it is negative."""

    def strategy(call: Call) -> list[Choice]:
        shape = call.shapes[0]
        first = shape[: int(leading)]

        def names(own: Sequence[int]) -> Names:
            return [d if len(own) > 1 and d < len(first) and own[d] == first[d] else None for d in range(len(own))]

        found = named(call, [names(own) for own in call.shapes], [names(one) for one in call.results], R)
        return _filled([c for c in found if set(c.inputs) == {R} or all(
            isinstance(p, Shard) or len(own) < 2 for p, own in zip(c.inputs, call.shapes, strict=True))], call)

    return strategy


normalised_groups = batched("1")


def elementwise_loss(call: Call) -> list[Choice]:
    """Losses of elements; a process has its part of a sum."""
    if call.values.get("reduction", 1) == 0:
        return pointwise(call)
    return named(call, [_aligned(own, call.shapes[-1]) for own in call.shapes], [[]])


def class_loss(call: Call) -> list[Choice]:
    """Losses of classes: cut along the batch."""
    if len(call.shapes[0]) < 2:
        return whole(call)
    made = "n" if call.values["reduction"] == 0 else ""
    return named(call, ["n", "n", ""][: len(call.shapes)], [made, ""])


def class_loss_gradient(call: Call) -> list[Choice]:
    if len(call.results[0]) < 2:
        return whole(call)
    given = "n" if call.values["reduction"] == 0 else ""
    return named(call, [given, "n", ""][: len(call.shapes)], ["n"])
