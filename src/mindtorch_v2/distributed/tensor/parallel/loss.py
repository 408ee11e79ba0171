"""Cross entropy of scores that are cut along the classes, without any process having all of them."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import mindtorch_v2 as torch

from ... import _functional_collectives as functional
from .._api import DTensor
from .._dispatch import HANDLERS, dispatch
from .._local import within
from .._redistribute import redistributed
from .._spec import DTensorSpec, local_shape, meta_of, recut
from ..placement_types import Cut, Partial, Replicate

__all__ = ["loss_parallel"]


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """Inside, cross entropy of scores that are cut along the classes is computed in pieces; so is its gradient."""
    HANDLERS.update(_HANDLERS)
    try:
        yield
    finally:
        _cut_scores.clear()
        for name in _HANDLERS:
            del HANDLERS[name]


def _class_dims(tensor: Any, dim: int) -> list[int]:
    """The dimensions of the mesh that cut the classes."""
    return [at for at, p in enumerate(tensor.placements) if isinstance(p, Cut) and p.dim == dim % tensor.ndim]


def _reduced(local: Any, how: str, mesh: Any, dims: Sequence[int]) -> Any:
    for dim in dims:
        local = functional.all_reduce(local, how, (mesh, dim))
    return local


def _log_softmax(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    scores, dim = args[:2]
    cut = _class_dims(scores, dim)
    if not cut:
        return dispatch(func, args, kwargs, handled=True)
    mesh, local = scores.device_mesh, scores._local_tensor
    if len(args) > 2 and args[2]:
        local = local.float()
    highest = local.amax(dim, keepdim=True) if local.shape[dim] else local.new_full(
        [1 if d == dim % local.ndim else n for d, n in enumerate(local.shape)], -float("inf"))
    shifted = local - _reduced(highest, "max", mesh, cut)
    made = shifted - _reduced(shifted.exp().sum(dim, keepdim=True), "sum", mesh, cut).log()
    meta = scores._spec.tensor_meta._replace(dtype=made.dtype)
    return DTensor(made, DTensorSpec(mesh, scores.placements, meta))


def _log_softmax_gradient(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    grad, output, dim, dtype = args[:4]
    cut = _class_dims(output, dim)
    if not cut:
        return dispatch(func, args, kwargs, handled=True)
    own = redistributed(grad._local_tensor, grad._spec, output.placements)
    total = _reduced(own.sum(dim, keepdim=True), "sum", output.device_mesh, cut)
    made = (own - output._local_tensor.exp() * total).to(dtype)
    meta = output._spec.tensor_meta._replace(dtype=dtype)
    return DTensor(made, DTensorSpec(output.device_mesh, output.placements, meta))


def _targets(spec: DTensorSpec, target: Any, weight: Any, ignored: int, dim: int) -> tuple[Any, Any, Any]:
    """(classes as this process counts them, whether it has them, how much each row weighs), of this process's rows."""
    whole = Replicate()
    rows = [recut(p, p.dim - (p.dim > dim)) if isinstance(p, Cut) and p.dim != dim else whole for p in spec.placements]
    if not isinstance(target, DTensor):
        target = DTensor(target, DTensorSpec(spec.mesh, (whole,) * len(rows), meta_of(target)))
    target = redistributed(target._local_tensor, target._spec, rows)
    kept = target != ignored
    safe = torch.where(kept, target, torch.zeros_like(target))
    if isinstance(weight, DTensor):
        weight = weight.full_tensor()
    weighs = kept.to(spec.tensor_meta.dtype) if weight is None else weight[safe] * kept
    at, has = within(spec, dim, safe)
    return at.unsqueeze(dim), has.unsqueeze(dim), weighs


def _class_dim(shape: Sequence[int]) -> int:
    return 1 if len(shape) > 1 else 0


# How scores of a shape were cut when their loss was computed: its gradient, which does not see them, is cut alike.
_cut_scores: dict[tuple[int, ...], DTensorSpec] = {}


def _class_loss(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    scores, target, weight, reduction, ignored = args
    spec, dim = scores._spec, _class_dim(scores.shape)
    cut = _class_dims(scores, dim)
    if not cut:
        return dispatch(func, args, kwargs, handled=True)
    _cut_scores[tuple(scores.shape)] = spec
    mesh, local = spec.mesh, scores._local_tensor
    at, has, weighs = _targets(spec, target, weight, ignored, dim)
    picked = local.gather(dim, at).masked_fill(~has, 0) if local.shape[dim] else local.new_zeros(at.shape)
    losses = -_reduced(picked, "sum", mesh, cut).squeeze(dim) * weighs
    rows = [d for d, p in enumerate(spec.placements) if isinstance(p, Cut) and d not in cut]
    total = _reduced(weighs.sum(), "sum", mesh, rows)
    if reduction:
        losses = losses.sum() / (total if reduction == 1 else 1)
    placed: list[Any] = [Replicate()] * mesh.ndim
    for d in rows:
        placed[d] = Partial() if reduction else recut(spec.placements[d], max(spec.placements[d].dim - 1, 0))
    meta = meta_of(torch.empty(() if reduction else target.shape, dtype=losses.dtype, device="meta"))
    return (DTensor(losses, DTensorSpec(mesh, tuple(placed), meta)),
            DTensor(total, DTensorSpec(mesh, (Replicate(),) * mesh.ndim, meta_of(total))))


def _class_loss_gradient(func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    grad, target, weight, shape, reduction, ignored = args
    spec, dim = _cut_scores.get(tuple(shape)), _class_dim(shape)
    if spec is None:
        return dispatch(func, args, kwargs, handled=True)
    at, has, weighs = _targets(spec, target, weight, ignored, dim)
    if reduction:
        scale = grad.full_tensor()
    else:
        rows = [recut(p, p.dim - (p.dim > dim)) if isinstance(p, Cut) and p.dim != dim else Replicate()
                for p in spec.placements]
        scale = redistributed(grad._local_tensor, grad._spec, rows)
    if reduction == 1:
        scale = scale / _reduced(weighs.sum(), "sum", spec.mesh,
                                 [d for d, p in enumerate(spec.placements) if isinstance(p, Cut) and p.dim != dim])
    made = torch.zeros(local_shape(spec), dtype=grad.dtype, device=grad.device)
    if made.shape[dim]:
        made = made.scatter(dim, at, (-weighs * scale).unsqueeze(dim) * has)
    return DTensor(made, DTensorSpec(spec.mesh, spec.placements, spec.tensor_meta._replace(dtype=grad.dtype)))


_HANDLERS = {"_log_softmax": _log_softmax, "_log_softmax_backward_data": _log_softmax_gradient,
             "nll_loss_forward": _class_loss, "_nll_loss_backward": _class_loss_gradient}
