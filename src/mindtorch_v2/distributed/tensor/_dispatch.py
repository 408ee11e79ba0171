"""Operators on distributed tensors: a strategy is chosen, operands brought there, and each process runs its piece."""

import math
from collections.abc import Sequence
from typing import Any

import mindtorch_v2 as torch

from ...utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten
from ._api import DTensor
from ._redistribute import redistributed
from ._spec import DTensorSpec, TensorMeta, local_shape
from ._strategies import STRATEGIES, Call, Choice, pointwise
from .placement_types import Partial, Placement, Replicate, Shard

_NUMBERS = frozenset(("_local_scalar_dense", "equal", "allclose", "is_nonzero"))
# Operators whose argument is the shape of their result, which each process needs that of its piece of.
_SHAPED = {"view": "size", "_unsafe_view": "size", "reshape": "shape", "_reshape_alias": "size", "expand": "size",
           "select_backward": "input_sizes", "slice_backward": "input_sizes", "new_zeros": "size", "new_ones": "size",
           "new_empty": "size", "new_full": "size", "new_empty_strided": "size"}


def dispatch(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The results of an operator, distributed as the cheapest strategy has them."""
    name = func._opname
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    mesh = _mesh(func, tensors)
    if name in _NUMBERS:
        args, kwargs = tree_map_only(DTensor, lambda t: t.full_tensor(), (args, kwargs))
        return func(*args, **kwargs)
    if name.startswith(("_foreach_", "_fused_")):
        return _of_lists(func, args, kwargs)
    flat, structure = tree_flatten((args, kwargs))
    specs = [_spec_of(t, mesh) for t in flat if isinstance(t, torch.Tensor)]
    results, result_structure = tree_flatten(_on_meta(func, args, kwargs))
    metas = [TensorMeta(tuple(r.shape), tuple(r.stride()), r.dtype) for r in results if isinstance(r, torch.Tensor)]
    values = {a.name: args[i] if i < len(args) else kwargs.get(a.name, a.default)
              for i, a in enumerate(func._schema.arguments)}
    chosen = [_cheapest(func, Call(name, [s.shape for s in specs], values, [m.shape for m in metas], mesh.size()),
                        specs, dim) for dim in range(mesh.ndim)]
    brought = []
    for at, spec in enumerate(specs):
        brought.append(spec.with_placements([choice.inputs[at] for choice in chosen]))
    outs = [DTensorSpec(mesh, tuple(choice.outputs[at] for choice in chosen), meta) for at, meta in enumerate(metas)]
    locals_, at = [], 0
    for value in flat:
        if isinstance(value, torch.Tensor):
            own = value._local_tensor if isinstance(value, DTensor) else value
            value = redistributed(own, specs[at], brought[at].placements)
            at += 1
        locals_.append(value)
    local_args, local_kwargs = tree_unflatten(locals_, structure)
    made = _run(func, local_args, local_kwargs, outs)
    if func._schema.writes:
        return args[0]
    kept = iter(outs)
    wrapped = [DTensor(piece, next(kept)) if isinstance(piece, torch.Tensor) else piece for piece in tree_leaves(made)]
    return tree_unflatten(wrapped, result_structure)


def _run(func: Any, args: tuple, kwargs: dict[str, Any], outs: Sequence[DTensorSpec]) -> Any:
    """The operator on pieces, which are told their own shape."""
    shaped = _SHAPED.get(func._opname)
    if shaped is not None:
        at = [a.name for a in func._schema.arguments].index(shaped)
        lengths = list(local_shape(outs[0]))
        if at < len(args):
            args = (*args[:at], lengths, *args[at + 1 :])
        else:
            kwargs = {**kwargs, shaped: lengths}
    return func(*args, **kwargs)


def _mesh(func: Any, tensors: Sequence[Any]) -> Any:
    found = [t._spec.mesh for t in tensors if isinstance(t, DTensor)]
    if any(mesh != found[0] for mesh in found):
        raise RuntimeError(f"{func}: operands are on several meshes: {', '.join(map(str, set(found)))}")
    for t in tensors:
        if not isinstance(t, DTensor) and t.numel() != 1:
            raise RuntimeError(f"{func} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
                               "DTensor before calling distributed operators!")
    return found[0]


def _spec_of(tensor: Any, mesh: Any) -> DTensorSpec:
    """The spec of an operand; a plain tensor of one element is the same on every process."""
    if isinstance(tensor, DTensor):
        return tensor._spec
    meta = TensorMeta(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
    return DTensorSpec(mesh, (Replicate(),) * mesh.ndim, meta)


def _on_meta(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the operator says of the whole tensors' geometry."""

    def meta(t: Any) -> Any:
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")

    given, named = tree_map_only(torch.Tensor, meta, (args, kwargs))
    if "device" in named:
        named["device"] = torch.device("meta")
    return func(*given, **named)


def _cheapest(func: Any, call: Call, specs: Sequence[DTensorSpec], dim: int) -> Choice:
    strategy = STRATEGIES.get(call.name)
    if strategy is None:
        if not _is_pointwise(func):
            shown = ", ".join(map(str, specs))
            raise NotImplementedError(f"Operator {func} does not have a sharding strategy registered, for ({shown}) on "
                                      f"{specs[0].mesh}. Redistribute its operands to Replicate() and use to_local().")
        strategy = pointwise
    choices = [c for c in strategy(call) if not func._schema.writes or c.inputs[0] == specs[0].placements[dim]]
    priced = [(sum(_price(s, s.placements[dim], p) for s, p in zip(specs, c.inputs, strict=True)), at)
              for at, c in enumerate(choices)]
    best = min(priced, default=(float("inf"), 0))
    if best[0] == float("inf"):
        shown = ", ".join(map(str, specs))
        raise RuntimeError(f"{func} cannot be run in place on placements ({shown}) on {specs[0].mesh}: redistribute "
                           "the operands first")
    return choices[best[1]]


def _price(spec: DTensorSpec, now: Placement, then: Placement) -> float:
    """How many elements go between processes, about; cutting a whole tensor costs next to nothing."""
    if now == then:
        return 0.0
    elements = float(math.prod(spec.shape))
    if isinstance(then, Partial):
        return float("inf")
    if isinstance(now, Replicate):
        return 1e-6 * elements
    return elements + 1 if isinstance(now, Shard) else 2 * elements + 1


def _is_pointwise(func: Any) -> bool:
    from ..._ops._declare.families import Pointwise

    declaration = func._operator.declaration
    return declaration is not None and isinstance(declaration.family, Pointwise)


def _of_lists(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Operators on lists, as optimizers call them: pieces that lie alike, each process its own."""
    lists = [a for a in args if isinstance(a, (list, tuple)) and a and isinstance(a[0], torch.Tensor)]
    for row in zip(*lists, strict=False):
        placed = {t.placements for t in row if isinstance(t, DTensor) and t.ndim}
        if len(placed) > 1:
            raise RuntimeError(f"{func}: tensors at the same place of the lists lie differently: {placed}")
    local_args, local_kwargs = tree_map_only(DTensor, lambda t: t._local_tensor, (args, kwargs))
    made = func(*local_args, **local_kwargs)
    if func._schema.writes:
        return None
    return [DTensor(piece, t._spec) if isinstance(t, DTensor) else piece
            for piece, t in zip(made, lists[0], strict=True)]
