"""torch._vmap_internals: the first form of vmap, which older programs import. It is torch.vmap."""

import warnings
from collections.abc import Callable
from typing import Any

from ._functorch import vmap as _functorch

in_dims_t = int | tuple
out_dims_t = int | tuple[int, ...]


def vmap(func: Callable, in_dims: in_dims_t = 0, out_dims: out_dims_t = 0) -> Callable:
    """`func` over a dimension of its arguments."""
    warnings.warn("Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.", FutureWarning, stacklevel=2)
    return _vmap(func, in_dims, out_dims)


def _vmap(func: Callable, in_dims: in_dims_t = 0, out_dims: out_dims_t = 0,
          allow_none_pass_through: bool = False) -> Callable:
    """The same without a warning; results that are None stay so where told."""
    if not allow_none_pass_through:
        return _functorch.vmap(func, in_dims, out_dims)
    absent: list[bool] = []

    def with_tensors(*args: Any) -> Any:
        made = func(*args)
        absent[:] = [value is None for value in (made if isinstance(made, tuple) else (made,))]
        return tuple(value for value in (made if isinstance(made, tuple) else (made,)) if value is not None)

    def with_nones(*args: Any) -> Any:
        values = iter(_functorch.vmap(with_tensors, in_dims, out_dims)(*args))
        made = tuple(None if is_none else next(values) for is_none in absent)
        return made if len(made) > 1 else made[0]

    return with_nones
