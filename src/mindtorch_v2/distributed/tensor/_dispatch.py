"""Operators on distributed tensors: a strategy is chosen, operands brought there, and each process runs its piece."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mindtorch_v2 as torch

from ...utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten
from ._api import DTensor
from ._local import LOCAL
from ._redistribute import redistributed
from ._spec import DTensorSpec, TensorMeta, meta_of
from ._strategies import Call, Choice, strategy_named, strided
from .placement_types import Cut, Partial, Placement, Replicate

_NUMBERS = frozenset(("_local_scalar_dense", "equal", "allclose", "is_nonzero", "is_same_size"))
_REDUCED_LISTS: dict[str, Callable] = {"_foreach_norm": torch.linalg.vector_norm, "_foreach_max": torch.amax}
# Whether plain tensors among the operands stand for tensors that are the same on every process.
implicitly_replicated = [False]


class Plan(NamedTuple):
    """How a call is run: operands' and results' specs, and the structure of the results on the whole tensors."""

    operands: list[DTensorSpec]
    results: list[DTensorSpec]
    structure: Any


# Functions that answer for operators in place of a strategy, in a context that asks for it.
HANDLERS: dict[str, Callable] = {}


def dispatch(func: Any, args: tuple, kwargs: dict[str, Any], *, handled: bool = False) -> Any:
    """The results of an operator, distributed as the cheapest strategy has them."""
    name = func._opname
    if name in HANDLERS and not handled:
        return HANDLERS[name](func, args, kwargs)
    if name in _NUMBERS:
        args, kwargs = tree_map_only(DTensor, lambda t: t.full_tensor(), (args, kwargs))
        return func(*args, **kwargs)
    if name.startswith(("_foreach_", "_fused_")) and isinstance(args[0], (list, tuple)):
        return _of_lists(func, args, kwargs)
    if "out" in kwargs:
        return _into(func, args, kwargs)
    if not _sharded(func):
        written_as = _written_as(func)
        if written_as is not None:
            return written_as(*args, **kwargs)
    flat, structure = tree_flatten((args, kwargs))
    at = [i for i, value in enumerate(flat) if isinstance(value, torch.Tensor)]
    mesh = _mesh(func, [flat[i] for i in at])
    specs = [_spec_of(flat[i], mesh) for i in at]
    plan = _planned(func, args, kwargs, flat, structure, at, specs)
    for i, spec, brought in zip(at, specs, plan.operands, strict=True):
        own = flat[i]._local_tensor if isinstance(flat[i], DTensor) else flat[i]
        flat[i] = redistributed(own, spec, brought.placements)
    local_args, local_kwargs = tree_unflatten(flat, structure)
    run = LOCAL.get(_sharded(func))
    made = (func(*local_args, **local_kwargs) if run is None else
            run(func, local_args, local_kwargs, plan.operands, plan.results))
    if func._operator.schema.writes:
        return args[0]
    kept = iter(plan.results)
    wrapped = [DTensor(piece, next(kept)) if isinstance(piece, torch.Tensor) else piece for piece in tree_leaves(made)]
    return tree_unflatten(wrapped, plan.structure)


_plans: dict[Any, Plan] = {}


def _planned(func: Any, args: tuple, kwargs: dict[str, Any], flat: Sequence[Any], structure: Any, at: Sequence[int],
             specs: Sequence[DTensorSpec]) -> Plan:
    """The plan of a call, which calls alike share."""
    static = tuple((v.__class__, v) for v in flat if not isinstance(v, torch.Tensor))
    key = (func, static, structure, tuple(specs), tuple(at))
    try:
        found = _plans.get(key)
    except TypeError:  # an argument without a hash, as a generator may be
        return _plan(func, args, kwargs, specs)
    if found is None:
        if len(_plans) >= 4096:
            _plans.clear()
        found = _plans[key] = _plan(func, args, kwargs, specs)
    return found


def _plan(func: Any, args: tuple, kwargs: dict[str, Any], specs: Sequence[DTensorSpec]) -> Plan:
    mesh = specs[0].mesh
    try:
        results, structure = tree_flatten(_on_meta(func, args, kwargs))
    except NotImplementedError as error:
        raise RuntimeError(f"{func}: Sharding propagation failed for {_shown(specs)}: the shape of its result depends "
                           "on the elements. Use it on full_tensor().") from error
    metas = [meta_of(r) for r in results if isinstance(r, torch.Tensor)]
    values = {a.name: args[i] if i < len(args) else kwargs.get(a.name, a.default)
              for i, a in enumerate(func._operator.schema.arguments)}
    writes = bool(func._operator.schema.writes)
    call = Call([s.shape for s in specs], values, [m.shape for m in metas], 1, writes)
    cuts = [any(isinstance(s.placements[dim], Cut) for s in specs) for dim in range(mesh.ndim)]
    chosen = []
    for dim in range(mesh.ndim):
        size = math.prod(mesh.size(other) for other in range(mesh.ndim) if other == dim or cuts[other])
        chosen.append(_cheapest(func, call._replace(size=size), specs, dim))
    operands = [spec.with_placements([choice.inputs[at] for choice in chosen]) for at, spec in enumerate(specs)]
    outs = [DTensorSpec(mesh, tuple(choice.outputs[at] for choice in chosen), meta) for at, meta in enumerate(metas)]
    return Plan(operands, outs, structure)


def _mesh(func: Any, tensors: Sequence[Any]) -> Any:
    found = [t._spec.mesh for t in tensors if isinstance(t, DTensor)]
    if any(mesh != found[0] for mesh in found):
        raise RuntimeError(f"{func}: operands are on several meshes: {', '.join(sorted(set(map(str, found))))}")
    for t in tensors:
        if not isinstance(t, DTensor) and t.numel() != 1 and not implicitly_replicated[0]:
            raise RuntimeError(f"{func} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
                               "DTensor before calling distributed operators!")
    return found[0]


def _spec_of(tensor: Any, mesh: Any) -> DTensorSpec:
    """The spec of an operand; a plain tensor of one element is the same on every process."""
    if isinstance(tensor, DTensor):
        return tensor._spec
    return DTensorSpec(mesh, (Replicate(),) * mesh.ndim, meta_of(tensor))


def _on_meta(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the operator says of the whole tensors' geometry."""

    def meta(t: Any) -> Any:
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")

    given, named = tree_map_only(torch.Tensor, meta, (args, kwargs))
    if "device" in named:
        named["device"] = torch.device("meta")
    named.pop("generator", None)
    return func(*given, **named)


@functools.cache
def _sharded(func: Any) -> str:
    """The name of an operator's strategy; "" if it has none."""
    declaration = func._operator.declaration
    return "" if declaration is None else declaration.strategy


@functools.cache
def _written_as(func: Any) -> Callable | None:
    """What an operator without a strategy is written as."""
    from ..._decomp import decomposition_table

    if func._operator.is_composite:
        operator = func._operator
        return lambda *args, **kwargs: operator.declaration.family.function(*operator.schema.bind(args, kwargs))
    return decomposition_table.get(func)


def _shown(specs: Sequence[DTensorSpec]) -> str:
    return f"({', '.join(map(str, specs))}) on {specs[0].mesh}"


def _cheapest(func: Any, call: Call, specs: Sequence[DTensorSpec], dim: int) -> Choice:
    if not _sharded(func):
        raise NotImplementedError(f"Operator {func} does not have a sharding strategy registered, for {_shown(specs)}. "
                                  "Redistribute its operands to Replicate() and use to_local().")
    choices = strided(strategy_named(_sharded(func)), call, [s.placements[dim] for s in specs])
    if call.writes:
        choices = [c for c in choices if c.inputs[0] == specs[0].placements[dim]]
    priced = [(sum(_price(s, s.placements[dim], p) for s, p in zip(specs, c.inputs, strict=True)), at)
              for at, c in enumerate(choices)]
    best = min(priced, default=(float("inf"), 0))
    if best[0] == float("inf"):
        raise RuntimeError(f"{func}: in-place operations that require placement changes are not supported, for "
                           f"{_shown(specs)}. Use the out-of-place form, or redistribute the operands first.")
    return choices[best[1]]


def _price(spec: DTensorSpec, now: Placement, then: Placement) -> float:
    """How many elements go between processes, about; a whole tensor is cut, or divided, for next to nothing."""
    if now == then:
        return 0.0
    elements = float(math.prod(spec.shape))
    if isinstance(now, Replicate):
        return (2e-6 if isinstance(then, Partial) else 1e-6) * elements
    if isinstance(then, Partial):
        return float("inf")
    return elements + 1 if isinstance(now, Cut) else 2 * elements + 1


def _into(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call with `out`: what the operator gives, brought to the placements of the tensor that takes it."""
    named = dict(kwargs)
    out = named.pop("out")
    made = func(*args, **named)
    if not isinstance(out, DTensor) or out.shape != made.shape:
        raise RuntimeError(f"{func}: `out` must be a DTensor of shape {tuple(made.shape)}")
    out._local_tensor.copy_(redistributed(made._local_tensor, made._spec, out.placements))
    return out


def _of_lists(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Operators on lists, as optimizers call them: each process runs its pieces, which lie as those of the first list.

    A tensor of one element that is not in a list, as a learning rate, is the same on every process.
    """
    name = func._opname
    if name in _REDUCED_LISTS:
        return [_REDUCED_LISTS[name](t, *args[1:], **kwargs) for t in args[0]]
    first = args[0]
    if not func._operator.schema.writes:
        first = [t.redistribute(placements=_without_parts(t)) if isinstance(t, DTensor) else t for t in first]

    def brought(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [_piece_like(t, first[at]) if isinstance(t, DTensor) else t for at, t in enumerate(value)]
        return value.full_tensor() if isinstance(value, DTensor) else value

    made = func(*(brought(value) for value in (first, *args[1:])),
                **{name: brought(value) for name, value in kwargs.items()})
    if func._operator.schema.writes:
        return None
    return [DTensor(piece, DTensorSpec(t._spec.mesh, t.placements, TensorMeta(t.shape, t._spec.stride, piece.dtype)))
            if isinstance(t, DTensor) else piece for piece, t in zip(made, first, strict=True)]


def _without_parts(tensor: Any) -> list[Placement]:
    return [Replicate() if isinstance(p, Partial) else p for p in tensor.placements]


def _piece_like(tensor: Any, other: Any) -> Any:
    """A tensor's piece, placed as another tensor is if it has the same shape, else whole."""
    if tensor is other:
        return tensor._local_tensor
    same = isinstance(other, DTensor) and tensor.shape == other.shape and tensor.device_mesh == other.device_mesh
    return redistributed(tensor._local_tensor, tensor._spec,
                         other.placements if same else [Replicate()] * tensor.device_mesh.ndim)


