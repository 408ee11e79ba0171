"""How operators may be run in pieces: for one dimension of a mesh, placements of the operands and of the results.

A strategy is a function of the call that lists choices; the one whose operands are cheapest to bring there is taken,
for each dimension of the mesh by itself. An operator that is not here is refused.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .placement_types import Partial, Placement, Replicate, Shard

R = Replicate()
P = Partial()


class Call(NamedTuple):
    """An operator's call: the shapes of its tensors in order, its values by argument's name, shapes of its results."""

    name: str
    shapes: list[tuple[int, ...]]
    values: dict[str, Any]
    results: list[tuple[int, ...]]
    size: int  # of the mesh: a length that it divides is cut evenly by all its dimensions


class Choice(NamedTuple):
    """Placements of the tensors that go in and of those that come out."""

    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]


def _whole(call: Call) -> Choice:
    return Choice((R,) * len(call.shapes), (R,) * len(call.results))


def _dims(value: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions counted from the front; all of them where none are named."""
    if value is None or value == []:
        return tuple(range(ndim))
    return tuple(d % max(ndim, 1) for d in ([value] if isinstance(value, int) else value))


# elementwise ---------------------------------------------------------------------------------------------------------

_ADDS = frozenset("add sub add_ sub_ neg clone detach _to_copy positive rsub".split())
_SCALES = frozenset("mul mul_ div div_".split())


def pointwise(call: Call) -> list[Choice]:
    """Cut along any dimension of the result; sums of terms where the function is linear."""
    shape = call.results[0]
    found = [_whole(call)]
    for dim, length in enumerate(shape):
        inputs: list[Placement] = []
        for own in call.shapes:
            at = dim - (len(shape) - len(own))
            inputs.append(Shard(at) if at >= 0 and own[at] == length and length > 1 else R)
        if any(isinstance(p, Shard) for p in inputs):
            found.append(Choice(tuple(inputs), (Shard(dim),) * len(call.results)))
    if call.name in _ADDS and (len(call.shapes) > 1 or not _adds_number(call)):
        found.append(Choice((P,) * len(call.shapes), (P,)))
        if call.name in ("clone", "detach", "_to_copy"):
            found += [Choice((Partial(op),), (Partial(op),)) for op in ("avg", "max", "min")]
    if call.name in _SCALES:
        found.append(Choice((P, *([R] * (len(call.shapes) - 1))), (P,)))
        if call.name == "mul" and len(call.shapes) == 2:
            found.append(Choice((R, P), (P,)))
    return found


def _adds_number(call: Call) -> bool:
    return call.name in ("add", "sub", "add_", "sub_", "rsub")


def like(call: Call) -> list[Choice]:
    """A new tensor with the operand's placement, whose elements are not looked at."""
    placed: list[Placement] = [R, *(Shard(d) for d in range(len(call.shapes[0])))]
    return [Choice((p,), (p,)) for p in placed] + [Choice((P,), (R,))]


# reductions ----------------------------------------------------------------------------------------------------------

_REDUCED = {"sum": "sum", "mean": "avg", "amax": "max", "amin": "min", "max": "max", "min": "min", "any": "max",
            "all": "min", "prod": "product", "linalg_vector_norm": "", "var": "", "std": ""}


def reduction(call: Call) -> list[Choice]:
    """Cut along what stays; along what is reduced, each process gives a part of the result."""
    shape = call.shapes[0]
    over = set(_dims(call.values.get("dim"), len(shape)))
    keep = bool(call.values.get("keepdim"))
    found = [_whole(call)]
    for dim, length in enumerate(shape):
        if dim not in over:
            left = dim if keep else dim - sum(d < dim for d in over)
            found.append(Choice((Shard(dim),), (Shard(left),) * len(call.results)))
        elif _REDUCED[call.name] and len(call.results) == 1:
            how = _REDUCED[call.name]
            even = length % call.size == 0
            if even or how == "sum" or how in ("max", "min") and (call.size - 1) * -(-length // call.size) < length:
                found.append(Choice((Shard(dim),), (Partial(how),)))
    if call.name == "sum":
        found.append(Choice((P,), (P,)))
    return found


def along(call: Call) -> list[Choice]:
    """A function of whole rows (softmax, sorting, scans): cut along any other dimension."""
    shape = call.results[0]
    over = {d % max(len(shape), 1) for d in (call.values.get("dim", -1),)}
    return [_whole(call)] + [Choice((Shard(d),) * len(call.shapes), (Shard(d),) * len(call.results))
                             for d in range(len(shape)) if d not in over]


# products ------------------------------------------------------------------------------------------------------------


def mm(call: Call) -> list[Choice]:
    return [_whole(call), Choice((Shard(0), R), (Shard(0),)), Choice((R, Shard(1)), (Shard(1),)),
            Choice((Shard(1), Shard(0)), (P,))]


def addmm(call: Call) -> list[Choice]:
    bias = call.shapes[0]
    found = [_whole(call), Choice((R if len(bias) < 2 or bias[0] == 1 else Shard(0), Shard(0), R), (Shard(0),))]
    last = len(bias) - 1
    found.append(Choice((Shard(last) if bias and bias[last] > 1 else R, R, Shard(1)), (Shard(1),)))
    if bias == call.results[0]:
        found.append(Choice((P, Shard(1), Shard(0)), (P,)))
    return found


def bmm(call: Call) -> list[Choice]:
    extra = len(call.shapes) - 2

    def choice(one: Placement, other: Placement, out: Placement) -> Choice:
        return Choice((*([out] * extra), one, other), (out,))

    found = [_whole(call), choice(Shard(0), Shard(0), Shard(0)), choice(Shard(1), R, Shard(1)),
             choice(R, Shard(2), Shard(2))]
    return found if extra else [*found, Choice((Shard(2), Shard(1)), (P,))]


# views ---------------------------------------------------------------------------------------------------------------


def _mapped(call: Call, places: Sequence[int | None]) -> list[Choice]:
    """Choices of a view by where each dimension of the operand goes; None where it must be whole."""
    found = [_whole(call), Choice((P,), (P,) * len(call.results))]
    found += [Choice((Partial(op),), (Partial(op),) * len(call.results)) for op in ("avg", "max", "min")]
    return found + [Choice((Shard(dim),), (Shard(to),) * len(call.results))
                    for dim, to in enumerate(places) if to is not None]


def permuted(call: Call) -> list[Choice]:
    ndim = len(call.shapes[0])
    if call.name == "t":
        order = list(reversed(range(ndim)))
    elif call.name == "transpose":
        order = list(range(ndim))
        one, other = call.values["dim0"] % ndim, call.values["dim1"] % ndim
        order[one], order[other] = order[other], order[one]
    else:
        order = [d % ndim for d in call.values["dims"]]
    return _mapped(call, [order.index(d) for d in range(ndim)])


def unsqueezed(call: Call) -> list[Choice]:
    ndim = len(call.shapes[0])
    at = call.values["dim"] % (ndim + 1)
    return _mapped(call, [d + (d >= at) for d in range(ndim)])


def squeezed(call: Call) -> list[Choice]:
    shape = call.shapes[0]
    over = {d for d in _dims(call.values.get("dim"), len(shape)) if shape[d] == 1}
    return _mapped(call, [None if d in over else d - sum(o < d for o in over) for d in range(len(shape))])


def expanded(call: Call) -> list[Choice]:
    shape, wide = call.shapes[0], call.results[0]
    pad = len(wide) - len(shape)
    found = _mapped(call, [d + pad if n == wide[d + pad] and n > 1 else None for d, n in enumerate(shape)])
    return [c for c in found if c.outputs != (P,)] + ([Choice((P,), (P,))] if shape else [])


def viewed(call: Call) -> list[Choice]:
    """A dimension stays cut where it is the first of those that are joined or split, and the pieces are even."""
    before, after = call.shapes[0], call.results[0]
    places: list[int | None] = [None] * len(before)
    i = j = 0
    while i < len(before) and j < len(after):
        first, second, one, other = i, j, before[i], after[j]
        while one != other:
            if one < other:
                i += 1
                if i >= len(before):
                    return _mapped(call, places)
                one *= before[i]
            else:
                j += 1
                if j >= len(after):
                    return _mapped(call, places)
                other *= after[j]
        if i == first and j == second or before[first] % call.size == 0 and after[second] % call.size == 0:
            places[first] = second
        i, j = i + 1, j + 1
    return _mapped(call, places)


def untouched(call: Call) -> list[Choice]:
    """Slices, splits and the like: cut along dimensions that they leave alone."""
    shape = call.shapes[0]
    at = call.values.get("dim", 0) % max(len(shape), 1)
    gone = call.name in ("select", "unbind")
    return _mapped(call, [None if d == at else d - (gone and d > at) for d in range(len(shape))])


def untouched_backward(call: Call) -> list[Choice]:
    """Gradients of those, whose operand is what came out of them."""
    wide = call.results[0]
    at = call.values["dim"] % len(wide)
    gone = call.name == "select_backward"
    return [_whole(call), Choice((P,), (P,))] + [
        Choice((Shard(d - (gone and d > at)),), (Shard(d),)) for d in range(len(wide)) if d != at]


def joined(call: Call) -> list[Choice]:
    """cat and stack: cut along other dimensions than the one they join in."""
    new = call.name == "stack"
    shape = call.results[0]
    at = call.values.get("dim", 0) % len(shape)
    n = len(call.shapes)
    return [_whole(call), Choice((P,) * n, (P,))] + [
        Choice((Shard(d - (new and d > at)),) * n, (Shard(d),)) for d in range(len(shape)) if d != at]


# layers --------------------------------------------------------------------------------------------------------------


def normalised(call: Call) -> list[Choice]:
    """Norms of the last dimensions, forward and backward: cut along the others. Gradients of weights are parts."""
    ndim = len(call.shapes[0])
    kept = ndim - len(call.values["normalized_shape"])
    found = [_whole(call)]
    for dim in range(kept):
        inputs = [Shard(dim) if len(s) == ndim else R for s in call.shapes]
        outputs = [Shard(dim) if len(s) == ndim else P for s in call.results]
        found.append(Choice(tuple(inputs), tuple(outputs)))
    return found


def embedded(call: Call) -> list[Choice]:
    ndim = len(call.shapes[1])
    return [_whole(call), Choice((Shard(1), R), (Shard(ndim),))] + [Choice((R, Shard(d)), (Shard(d),))
                                                                    for d in range(ndim)]


def embedding_gradient(call: Call) -> list[Choice]:
    ndim = len(call.shapes[1])
    return [_whole(call), Choice((Shard(ndim), R), (Shard(1),))] + [Choice((Shard(d), Shard(d)), (P,))
                                                                    for d in range(ndim)]


def batched(call: Call) -> list[Choice]:
    """Attention and such: cut along the batch or the heads."""
    found = [_whole(call)]
    for dim in (0, 1):
        if all(len(s) > dim for s in (*call.shapes, *call.results)):
            found.append(Choice((Shard(dim),) * len(call.shapes), (Shard(dim),) * len(call.results)))
    return found


def loss(call: Call) -> list[Choice]:
    """Elementwise losses and their gradients; each process has a part of a sum, or of a mean over even pieces."""
    how = call.values.get("reduction", 1)
    shape = call.shapes[-1]
    if how == 0:
        return pointwise(call)
    found = [_whole(call)]
    is_gradient = call.name.endswith("_backward")
    for dim, length in enumerate(shape):
        cut = Shard(dim)
        if is_gradient:
            if how == 2:  # a mean divides by the number of elements, which a piece does not know
                found.append(Choice((R, *([cut] * (len(call.shapes) - 1))), (cut,)))
        elif how == 2 or length % call.size == 0:
            found.append(Choice((cut,) * len(call.shapes), (Partial("sum" if how == 2 else "avg"),)))
    return found


def whole(call: Call) -> list[Choice]:
    return [_whole(call)]


def _named(strategy: Callable, names: str) -> dict[str, Callable]:
    return dict.fromkeys(names.split(), strategy)


STRATEGIES: dict[str, Callable[[Call], list[Choice]]] = {
    **_named(pointwise, """
        clone detach _to_copy copy_ fill_ zero_ native_dropout native_dropout_backward dropout bernoulli_ where
        masked_fill masked_fill_ lift_fresh"""),
    **_named(like, """
        zeros_like ones_like empty_like full_like rand_like randn_like new_zeros new_ones new_empty new_full
        new_empty_strided"""),
    **_named(reduction, " ".join(_REDUCED)),
    **_named(along, """
        softmax _softmax log_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data sort topk cumsum
        cumprod argmax argmin gather scatter scatter_add"""),
    "mm": mm, "addmm": addmm, **_named(bmm, "bmm baddbmm"),
    **_named(permuted, "t transpose permute"), "unsqueeze": unsqueezed, "squeeze": squeezed, "expand": expanded,
    **_named(viewed, "view _unsafe_view reshape _reshape_alias"),
    **_named(untouched, "select slice narrow split split_with_sizes chunk unbind index_select"),
    **_named(untouched_backward, "select_backward slice_backward"), **_named(joined, "cat stack"),
    **_named(normalised, "native_layer_norm native_layer_norm_backward _fused_rms_norm _fused_rms_norm_backward"),
    "embedding": embedded, "embedding_dense_backward": embedding_gradient,
    **_named(batched, """
        _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
        _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward"""),
    **_named(loss, """
        mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward
        soft_margin_loss soft_margin_loss_backward binary_cross_entropy binary_cross_entropy_backward"""),
    **_named(whole, """
        nll_loss_forward nll_loss_backward index index_put index_put_ convolution convolution_backward tril triu
        linalg_qr linalg_svd _unique2 roll flip repeat native_group_norm"""),
}
