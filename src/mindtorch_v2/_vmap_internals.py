"""torch._vmap_internals: the first form of vmap, which older programs import: torch.vmap with narrower rules."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ._core.tensor import Tensor
from ._functorch import vmap as _functorch
from .utils._pytree import _broadcast_to_and_flatten, tree_flatten

in_dims_t = int | tuple
out_dims_t = int | tuple[int, ...]


def vmap(func: Callable, in_dims: in_dims_t = 0, out_dims: out_dims_t = 0) -> Callable:
    """`func` over a dimension of its arguments."""
    warnings.warn("Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.", FutureWarning, stacklevel=2)
    return _vmap(func, in_dims, out_dims)


def _vmap(func: Callable, in_dims: in_dims_t = 0, out_dims: out_dims_t = 0,
          allow_none_pass_through: bool = False) -> Callable:
    """The same without a warning; results that are None stay so where told."""
    name = getattr(func, "__name__", repr(func))
    absent: list[bool] = []
    several = False

    @functools.wraps(func)
    def checked(*args: Any) -> Any:
        nonlocal several
        made = func(*args)
        several = isinstance(made, tuple)
        values = made if isinstance(made, tuple) else (made,)
        _check_outputs(name, made, allow_none_pass_through)
        _check_out_dims(name, out_dims, len(values))
        absent[:] = [value is None for value in values]
        return tuple(value for value in values if value is not None)

    @functools.wraps(func)
    def vmapped(*args: Any) -> Any:
        _check_in_dims(name, in_dims, args)
        dims = out_dims
        if isinstance(out_dims, tuple) and len(out_dims) == 1 and isinstance(out_dims[0], int):
            dims = out_dims[0]
        outputs = iter(_functorch.vmap(checked, in_dims, dims if _is_dims(dims) else 0)(*args))
        made = tuple(None if is_none else next(outputs) for is_none in absent)
        return made if several else made[0]

    return vmapped


def _is_dims(dims: Any) -> bool:
    return isinstance(dims, int) or isinstance(dims, tuple) and all(isinstance(d, int) for d in dims)


def _check_in_dims(name: str, in_dims: Any, args: tuple) -> None:
    """Refuses dimensions that an argument has not; those from the end are not counted."""
    leaves, spec = tree_flatten(args)
    for leaf, dim in zip(leaves, _broadcast_to_and_flatten(in_dims, spec) or (), strict=False):
        if isinstance(leaf, Tensor) and isinstance(dim, int) and not 0 <= dim < leaf.dim():
            raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for some input, but "
                             f"that input is a Tensor of dimensionality {leaf.dim()} so expected in_dim to satisfy "
                             f"0 <= in_dim < {leaf.dim()}.")


def _check_outputs(name: str, made: Any, nones: bool) -> None:
    for nr, value in enumerate(made if isinstance(made, tuple) else (made,)):
        if not isinstance(value, Tensor) and not (nones and value is None):
            where = f"for return {nr}" if isinstance(made, tuple) else "as the return"
            raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)} {where}.")


def _check_out_dims(name: str, out_dims: Any, count: int) -> None:
    where = f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must "
    if not _is_dims(out_dims):
        raise ValueError(f"{where}be an int or a tuple of int representing where in the outputs the vmapped dimension "
                         "should appear.")
    if isinstance(out_dims, tuple) and len(out_dims) != count:
        raise ValueError(f"{where}have one dim per output (got {count} outputs) of {name}.")
