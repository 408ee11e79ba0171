"""Operators whose pieces are not just the operator on pieces: they have a shape or a count among their arguments, draw
random numbers, look for rows that other processes have, or divide by a number of elements that no process sees."""

from collections.abc import Callable, Sequence
from typing import Any

import mindtorch_v2 as torch

from .. import _functional_collectives as functional
from ._redistribute import redistributed
from ._spec import DTensorSpec, local_runs, local_shape
from .placement_types import Cut, Replicate

Local = Callable[[Any, tuple, dict[str, Any], Sequence[DTensorSpec], Sequence[DTensorSpec]], Any]


def _with(func: Any, args: tuple, kwargs: dict[str, Any], name: str, value: Any) -> tuple[tuple, dict[str, Any]]:
    """Arguments of a call, with another value for one."""
    at = [a.name for a in func._operator.schema.arguments].index(name)
    if at < len(args):
        return (*args[:at], value, *args[at + 1 :]), kwargs
    return args, {**kwargs, name: value}


def _value(func: Any, args: tuple, kwargs: dict[str, Any], name: str) -> Any:
    at = [a.name for a in func._operator.schema.arguments].index(name)
    return args[at] if at < len(args) else kwargs.get(name, func._operator.schema.arguments[at].default)


def shaped(name: str) -> Local:
    """With the shape of this process's piece of the result for an argument."""

    def run(func: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[DTensorSpec],
            results: Sequence[DTensorSpec]) -> Any:
        args, kwargs = _with(func, args, kwargs, name, list(local_shape(results[0])))
        return func(*args, **kwargs)

    return run


def _viewed(func: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[DTensorSpec],
            results: Sequence[DTensorSpec]) -> Any:
    return args[0].reshape(local_shape(results[0]))


def _counted(func: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[DTensorSpec],
             results: Sequence[DTensorSpec]) -> Any:
    args, kwargs = _with(func, args, kwargs, "N", args[0].shape[0])
    return func(*args, **kwargs)


# random numbers: those of the whole tensor, whatever the mesh --------------------------------------------------------


def _piece(whole: Any, spec: DTensorSpec) -> Any:
    return redistributed(whole, spec.with_placements([Replicate()] * spec.mesh.ndim), spec.placements)


def _filled(func: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[DTensorSpec],
            results: Sequence[DTensorSpec]) -> Any:
    if operands[0].is_replicated():
        return func(*args, **kwargs)
    whole = args[0].new_empty(operands[0].shape)
    func(whole, *args[1:], **kwargs)
    return args[0].copy_(_piece(whole, operands[0]))


def _made_like(func: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[DTensorSpec],
               results: Sequence[DTensorSpec]) -> Any:
    names = func._operator.schema.names
    if "generator" in names:
        return _drawn_like(func, args, kwargs, operands, results)
    if "stride" in names:
        return args[0].new_empty(local_shape(results[0]), **kwargs)
    if "size" in names:
        return shaped("size")(func, args, kwargs, operands, results)
    return func(*args, **kwargs)


def _drawn_like(func: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[DTensorSpec],
                results: Sequence[DTensorSpec]) -> Any:
    return _piece(func(args[0].new_empty(operands[0].shape), *args[1:], **kwargs), results[0])


def _dropped(func: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[DTensorSpec],
             results: Sequence[DTensorSpec]) -> Any:
    if operands[0].is_replicated():
        return func(*args, **kwargs)
    scale, mask = func(args[0].new_ones(operands[0].shape), *args[1:], **kwargs)
    return args[0] * _piece(scale, results[0]), _piece(mask, results[1])


# rows that other processes have --------------------------------------------------------------------------------------


def within(spec: DTensorSpec, dim: int, index: Any) -> tuple[Any, Any]:
    """(indices into this process's piece along a dimension, where the piece has what they name)."""
    at, has = torch.zeros_like(index), torch.zeros_like(index, dtype=torch.bool)
    before = 0
    for begin, count in local_runs(spec.shape, spec.mesh, spec.placements)[dim]:
        inside = (index >= begin) & (index < begin + count)
        at = torch.where(inside, index - begin + before, at)
        has |= inside
        before += count
    return at, has


def _is_cut(spec: DTensorSpec, dim: int) -> bool:
    return any(isinstance(p, Cut) and p.dim == dim for p in spec.placements)


def _embedded(func: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[DTensorSpec],
              results: Sequence[DTensorSpec]) -> Any:
    weight, index = args[:2]
    if not _is_cut(operands[0], 0):
        return func(*args, **kwargs)
    if not weight.shape[0]:
        return weight.new_zeros((*index.shape, weight.shape[1]))
    at, has = within(operands[0], 0, index)
    return func(weight, at).masked_fill(~has.unsqueeze(-1), 0)


def _gathered(func: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[DTensorSpec],
              results: Sequence[DTensorSpec]) -> Any:
    source, dim, index = args[:3]
    dim = dim % max(source.ndim, 1)
    if not _is_cut(operands[0], dim):
        return func(*args, **kwargs)
    if not source.shape[dim]:
        return source.new_zeros(index.shape)
    at, has = within(operands[0], dim, index)
    return func(source, dim, at).masked_fill(~has, 0)


# losses: a mean is a sum that is divided by a number of elements of the whole ----------------------------------------


def _mean(func: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[DTensorSpec],
          results: Sequence[DTensorSpec]) -> Any:
    if _value(func, args, kwargs, "reduction") != 1 or not operands[-1].is_sharded():
        return func(*args, **kwargs)
    args, kwargs = _with(func, args, kwargs, "reduction", 2)
    return func(*args, **kwargs) / max(spec.shape.numel() for spec in operands)


def _class_mean(func: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[DTensorSpec],
                results: Sequence[DTensorSpec]) -> Any:
    if _value(func, args, kwargs, "reduction") != 1 or not operands[0].is_sharded():
        return func(*args, **kwargs)
    args, kwargs = _with(func, args, kwargs, "reduction", 2)
    total, count = func(*args, **kwargs)
    return total / summed(count, operands[0]), count


def _class_mean_gradient(func: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[DTensorSpec],
                         results: Sequence[DTensorSpec]) -> Any:
    grad, target, weight, _, reduction, ignored = args
    if reduction == 1:
        kept = target != ignored
        each = kept.to(grad.dtype) if weight is None else weight[target.where(kept, 0)].where(kept, 0)
        grad = grad / summed(each.sum(), operands[1])
    return func(grad, target, weight, list(local_shape(results[0])), 2 if reduction else 0, ignored)


def summed(local: Any, spec: DTensorSpec) -> Any:
    """The sum over the processes that have other pieces of a tensor."""
    for at, placement in enumerate(spec.placements):
        if isinstance(placement, Cut):
            local = functional.all_reduce(local, "sum", (spec.mesh, at))
    return local


# By the strategy that declarations name.
LOCAL: dict[str, Local] = {
    "viewed": _viewed, "expanded": shaped("size"), "untouched_backward": shaped("input_sizes"), "like": _made_like,
    "drawn": _filled, "noise": _drawn_like, "dropped": _dropped, "normalised_groups": _counted,
    "embedded": _embedded, "gathered": _gathered, "elementwise_loss": _mean, "class_loss": _class_mean,
    "class_loss_gradient": _class_mean_gradient,
}  # fmt: skip
