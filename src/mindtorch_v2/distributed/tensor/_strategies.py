"""How operators may be run in pieces: for one dimension of a mesh, placements of the operands and of the results.

Most rules name the dimensions of the operands and of the results, as `einsum` does: "mk,kn->mn". A dimension with a
name may be cut, in all tensors that have it at once; tensors without it are whole, or, among the results, parts of a
sum. A dimension without a name ("." or None) is never cut. A strategy is a function of the call that lists such
choices; the one whose operands are cheapest to bring there is taken, for each dimension of the mesh by itself.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from ._spec import recut
from .placement_types import Partial, Placement, Replicate, Shard, _MaskPartial, _NormPartial, _StridedShard

R = Replicate()
P = Partial()
Names = Sequence[Hashable | None]  # of one tensor's dimensions


class Call(NamedTuple):
    """An operator's call: the shapes of its tensors in order, its values by argument's name, shapes of its results."""

    name: str
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
        if isinstance(placement, _StridedShard) and strategy not in _REGROUPING:
            found += [Choice(*(tuple(_like(p, placement) for p in side) for side in c)) for c in found
                      if Shard(placement.dim) in c.inputs]
            break
    return found


def _like(placement: Placement, cut: _StridedShard) -> Placement:
    return recut(cut, placement.dim) if isinstance(placement, Shard) else placement


def product(text: str, lacking: Placement | None = P) -> Strategy:
    """A product of two tensors by names of one letter; it is linear in both."""
    given, made = text.split("->")

    def strategy(call: Call) -> list[Choice]:
        found = named(call, given.split(",")[: len(call.shapes)], made.split(","), lacking)
        return [*found, Choice((P, R), (P,)), Choice((R, P), (P,))]

    return strategy


# elementwise ---------------------------------------------------------------------------------------------------------

_ADDS = frozenset("add sub add_ sub_ neg clone detach _to_copy positive alias lift_fresh".split())
_SCALES = frozenset("mul mul_ div div_".split())
_KEEPS = ("clone", "detach", "_to_copy", "alias", "lift_fresh")
KINDS = ("sum", "avg", "max", "min", "product")


def _aligned(shape: Sequence[int], wide: Sequence[int]) -> list[int | None]:
    """Names of a tensor's dimensions as those of one that it broadcasts to."""
    pad = len(wide) - len(shape)
    return [d + pad if n == wide[d + pad] else None for d, n in enumerate(shape)]


def pointwise(call: Call) -> list[Choice]:
    """Cut along any dimension of the result; sums of terms where the function is linear."""
    wide = call.results[0]
    found = named(call, [_aligned(own, wide) for own in call.shapes], [range(len(wide))] * len(call.results))
    if call.name in _ADDS and (len(call.shapes) > 1 or call.name not in ("add", "sub", "add_", "sub_")):
        found.append(Choice((P,) * len(call.shapes), (P,)))
        if len(call.shapes) > 1:
            found.append(Choice((Partial("avg"),) * len(call.shapes), (Partial("avg"),)))
    if call.name in _KEEPS:
        found += [Choice((Partial(op),), (Partial(op),)) for op in KINDS[1:]]
    if call.name in _SCALES:
        found += [Choice((p, *([R] * (len(call.shapes) - 1))), (p,)) for p in (P, Partial("avg"))]
        if call.name == "mul" and len(call.shapes) == 2:
            found.append(Choice((R, P), (P,)))
    return found


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

# What the results of pieces are parts of; where there is nothing, what is reduced must be whole.
_REDUCED: dict[str, str | None] = {
    "sum": "sum", "mean": "avg", "amax": "max", "amin": "min", "max": "max", "min": "min", "any": "max", "all": "min",
    "prod": "product", "nansum": "sum", "count_nonzero": "sum",
    **dict.fromkeys("linalg_vector_norm var std var_mean std_mean logsumexp argmax argmin median nanmedian mode "
                    "kthvalue aminmax".split()),
}
_LINEAR = frozenset(("sum", "mean"))


def reduction(call: Call) -> list[Choice]:
    """Cut along what stays; along what is reduced, each process gives a part of the result."""
    shape = call.shapes[0]
    over = set(call.dims(len(shape)))
    keep = bool(call.values.get("keepdim"))
    left = [None if d in over else d for d in range(len(shape)) if keep or d not in over]
    found = named(call, [range(len(shape))], [left] * len(call.results), None)
    if len(call.results) == 1:
        for dim in over:
            how = _partial_of(call, shape[dim])
            if how is not None and shape:
                found.append(Choice((Shard(dim),), (how,)))
    if call.name in _LINEAR:
        found += [Choice((p,), (p,)) for p in (P, Partial("avg"))]
    return found


def _partial_of(call: Call, length: int) -> Placement | None:
    """What the results of pieces of a length are parts of."""
    if call.name == "linalg_vector_norm":
        order = call.values.get("ord", 2)
        return _NormPartial(order) if order not in (float("inf"), float("-inf")) else Partial(
            "max" if order > 0 else "min") if _none_empty(length, call.size) else None
    how = _REDUCED[call.name]
    if how is None or how == "avg" and length % call.size:
        return None
    return None if how in ("max", "min") and call.name not in ("any", "all") and not _none_empty(
        length, call.size) else Partial(how)


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
    if call.name == "t":
        order.reverse()
    elif call.name == "transpose":
        one, other = call.values["dim0"] % max(ndim, 1), call.values["dim1"] % max(ndim, 1)
        if ndim:
            order[one], order[other] = order[other], order[one]
    else:
        order = [d % ndim for d in call.values["dims"]]
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
    kept = [d for d in names if d is not None] if call.name in ("select", "unbind") else names
    if call.name == "slice" and call.results[0] == shape:
        names = kept = [*range(len(shape))]
    return _moved(call, names, kept)


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
    fixed = 2 if call.name in ("tril", "triu", "tril_", "triu_") else 0
    names = [d if n == after[d + pad] and d < len(before) - fixed else None for d, n in enumerate(before)]
    return _moved(call, names, [*([None] * pad), *names])


def untouched_backward(call: Call) -> list[Choice]:
    """Gradients of slices and rows, whose operand is what came out of them."""
    wide = call.results[0]
    at = call.values["dim"] % len(wide)
    names = [None if d == at else d for d in range(len(wide))]
    return _moved(call, [d for d in names if d is not None] if call.name == "select_backward" else names, names)


def joined(call: Call) -> list[Choice]:
    """cat and stack: cut along other dimensions than the one they join in."""
    shape = call.results[0]
    at = call.dim(len(shape), 0)
    names = [None if d == at else d for d in range(len(shape))]
    each = [d for d in names if d is not None] if call.name == "stack" else names
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


def filled(strategy: Strategy) -> Strategy:
    """A strategy without the choices that leave processes without elements, of which some functions have no result."""

    def chosen(call: Call) -> list[Choice]:
        return [c for c in strategy(call) if all(
            not isinstance(p, Shard) or _none_empty(own[p.dim], call.size)
            for p, own in zip(c.inputs, call.shapes, strict=True))]

    return chosen


def convolution(call: Call) -> list[Choice]:
    """Cut along the batch or, where all channels are one group, along the channels of the result."""
    out = "o" if call.values["groups"] == 1 else "."
    return named(call, ["n", out, out][: len(call.shapes)], ["n" + out], None)


def convolution_gradients(call: Call) -> list[Choice]:
    out = "o" if call.values["groups"] == 1 else "."
    made = [name for name, wanted in zip(("n", out, out), call.values["output_mask"], strict=True) if wanted]
    return named(call, ["n" + out, "n", out], made)


def batched(leading: int, lacking: Placement | None = P) -> Strategy:
    """Functions that are the same for each batch, or for each batch and channel (or head)."""

    def strategy(call: Call) -> list[Choice]:
        shape = call.shapes[0]

        def names(own: Sequence[int]) -> Names:
            fits = len(own) >= max(2, leading)
            return [d if fits and d < leading and _fits(own[d], shape[d], call.size) else None for d in range(len(own))]

        every = [names(own) for own in call.shapes]
        found = named(call, every, [names(one) for one in call.results], lacking)
        return [c for c in found if all(isinstance(p, Shard) or len(own) < 2 or 1 in own[:leading] for p, own in
                                        zip(c.inputs, call.shapes, strict=True)) or set(c.inputs) == {R}]

    return strategy


def _fits(own: int, first: int, size: int) -> bool:
    """Whether two lengths are cut alike: as many, or (heads that share keys) both evenly."""
    return own == first or own > 1 and own % size == 0 and first % size == 0


def elementwise_loss(call: Call) -> list[Choice]:
    """Losses of elements and their gradients; a process has its part of a sum."""
    if call.values.get("reduction", 1) == 0:
        return pointwise(call)
    wide = call.shapes[-1]
    names = [[] if at == 0 and call.name.endswith("_backward") else _aligned(own, wide)
             for at, own in enumerate(call.shapes)]
    return named(call, names, [_aligned(one, wide) for one in call.results])


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


def _many(strategy: Strategy, names: str) -> dict[str, Strategy]:
    return dict.fromkeys(names.split(), strategy)


STRATEGIES: dict[str, Strategy] = {
    **_many(pointwise, """
        clone detach alias _to_copy copy_ fill_ zero_ native_dropout native_dropout_backward where masked_fill
        lift_fresh rsub normal_ uniform_ bernoulli_ random_ exponential_ geometric_ log_normal_ cauchy_ nan_to_num"""),
    **_many(like, """
        zeros_like ones_like empty_like full_like rand_like randn_like randint_like new_zeros new_ones new_empty
        new_full new_empty_strided"""),
    "_dropout_noise": noise, **_many(buffered, "log_sigmoid_forward log_sigmoid_backward"),
    **_many(reduction, " ".join(_REDUCED)),
    **_many(along, """
        _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data sort topk cumsum cumprod logcumsumexp
        cummax cummin scatter scatter_add scatter_reduce index_add index_copy index_fill renorm"""),
    "mm": product("mk,kn->mn"), "bmm": product("bmk,bkn->bmn"), "mv": product("mk,k->m"), "dot": product("k,k->"),
    "vdot": product("k,k->"), "addmm": added("mk,kn->mn"), "baddbmm": added("bmk,bkn->bmn"), "addmv": added("mk,k->m"),
    "addr": added("m,n->mn"), "addbmm": added("bmk,bkn->mn"),
    **_many(permuted, "t transpose permute"), "unsqueeze": unsqueezed, "squeeze": squeezed, "expand": expanded,
    **_many(viewed, "view _unsafe_view reshape _reshape_alias"),
    **_many(untouched, "select slice narrow split split_with_sizes chunk unbind"),
    **_many(unchanged("dims"), "flip roll"), **_many(same_lengths, "constant_pad_nd repeat tril triu"),
    **_many(untouched_backward, "select_backward slice_backward"), **_many(joined, "cat stack"),
    "index_select": index_selected, "gather": gathered, "index": indexed,
    "embedding": embedded, "embedding_dense_backward": embedding_gradient,
    **_many(normalised, "native_layer_norm native_layer_norm_backward _fused_rms_norm _fused_rms_norm_backward"),
    **_many(filled(batched(1)), "native_group_norm native_group_norm_backward"),
    "convolution": filled(convolution), "convolution_backward": filled(convolution_gradients),
    **_many(filled(batched(2, R)), """
        _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
        _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
        _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
        max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d
        _adaptive_avg_pool2d_backward"""),
    **_many(elementwise_loss, """
        mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward
        soft_margin_loss soft_margin_loss_backward binary_cross_entropy binary_cross_entropy_backward"""),
    "nll_loss_forward": class_loss, "_nll_loss_backward": class_loss_gradient,
    **_many(whole, """
        index_put bernoulli multinomial _unique2 linalg_qr _linalg_svd _linalg_eigh linalg_inv_ex linalg_cholesky_ex
        linalg_lu_factor_ex linalg_solve_triangular _linalg_det _linalg_slogdet triangular_solve cholesky diagonal
        diagonal_backward diag_embed as_strided unfold unfold_backward searchsorted bucketize histc"""),
}  # fmt: skip
# Strategies that cut what were other dimensions before.
_REGROUPING = frozenset((viewed,))
