"""Functions of pieces as functions of distributed tensors, and plain tensors that stand for whole ones."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....utils import _pytree as pytree
from .._api import DTensor
from .._dispatch import implicitly_replicated

__all__ = ["implicit_replication", "local_map"]


@contextlib.contextmanager
def implicit_replication() -> Iterator[None]:
    """Inside, plain tensors among the operands of distributed ones are taken to be the same on every process."""
    before, implicitly_replicated[0] = implicitly_replicated[0], True
    try:
        yield
    finally:
        implicitly_replicated[0] = before


def local_map(func: Callable | None = None, out_placements: Any = None, in_placements: Any = None,
              in_grad_placements: Any = None, device_mesh: Any = None, *,
              redistribute_inputs: bool = False) -> Callable:
    """A function of pieces as one of distributed tensors, whose results lie as `out_placements` say."""
    if func is None:
        return functools.partial(local_map, out_placements=out_placements, in_placements=in_placements,
                                 in_grad_placements=in_grad_placements, device_mesh=device_mesh,
                                 redistribute_inputs=redistribute_inputs)
    if not isinstance(out_placements, (list, tuple)):
        raise TypeError(f"out_placements should be placements or a tuple of them, got {out_placements}")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, structure = pytree.tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(flat):
            raise AssertionError(f"in_placements length {len(in_placements)} does not match the number of input args "
                                 f"{len(flat)}!")
        mesh = device_mesh
        for at, value in enumerate(flat):
            if not isinstance(value, DTensor):
                continue
            mesh = mesh or value.device_mesh
            wanted = in_placements[at] if in_placements is not None else None
            if wanted is not None and value.placements != tuple(wanted):
                if not redistribute_inputs:
                    raise ValueError(f"arg {value} in local_map has a mismatched placements: arg placements is "
                                     f"{value.placements} but the input placements is {wanted}! If redistribute_inputs "
                                     "is wanted, set redistribute_inputs=True to local_map.")
                value = value.redistribute(placements=wanted)
            back = in_grad_placements[at] if in_grad_placements is not None else None
            flat[at] = value.to_local(grad_placements=back)
        made = func(*pytree.tree_unflatten(flat, structure), **kwargs)
        if mesh is None:
            return made
        results, result_structure = pytree.tree_flatten(made)
        placed = _of_results(out_placements, len(results))
        return pytree.tree_unflatten(
            [DTensor.from_local(each, mesh, list(how), run_check=False) if how is not None else each
             for each, how in zip(results, placed, strict=True)], result_structure)

    return mapped


def _of_results(placements: Sequence[Any], many: int) -> Sequence[Any]:
    """Placements of each result; one list of placements is for all."""
    nested = any(p is None or isinstance(p, (list, tuple)) for p in placements)
    found = placements if nested else [placements] * many
    if len(found) != many:
        raise AssertionError(f"local_map requires one PlacementType be provided for each output value, got "
                             f"{len(found)} out_placements but {many} is expected!")
    return found
