"""vmap: a function of one sample as a function of many."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._tensor import Tensor
from ..utils._pytree import TreeSpec, _broadcast_to_and_flatten, tree_flatten, tree_unflatten
from . import randomness as _randomness  # noqa: F401 - registers kernels
from .batching import BatchLevel
from .grad_level import is_at, wrapped

in_dims_t = out_dims_t = Any


def _name_of(func: Callable) -> str:
    return getattr(func, "__name__", repr(func))


def _flat_inputs(func: Callable, in_dims: Any, args: tuple) -> tuple[list[Any], list[Any], TreeSpec]:
    """(leaves of the arguments, the dimension of each or None, their structure)."""
    name = _name_of(func)
    where = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"{where}: expected `in_dims` to be int or a (potentially nested) tuple matching the "
                         f"structure of inputs, got: {type(in_dims)}.")
    if not args:
        raise ValueError(f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to "
                         "vmap over a function with no inputs. The latter is unsupported.")
    leaves, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(f"{where}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
                         f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}.")
    for i, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(f"{where}: Got in_dim={dim} for an input but in_dim must be either an integer dimension "
                             "or None.")
        if not isinstance(leaf, Tensor):
            raise ValueError(f"{where}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot "
                             "vmap over non-Tensor arguments, please use None as the respective in_dim")
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(f"{where}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
                             f"{leaf.dim()} so expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}.")
        dims[i] = dim % leaf.dim()
    return leaves, dims, spec


def _batch_size(leaves: Sequence[Any], dims: Sequence[Any]) -> int:
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError("vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                         f"{sizes} for the mapped dimension")
    return sizes[0]


def _flat_out_dims(func: Callable, out_dims: Any, outputs: Sequence[Any], spec: TreeSpec) -> list[Any]:
    name = _name_of(func)
    flat_dims = tree_flatten(out_dims)[0]
    if not all(dim is None or isinstance(dim, int) for dim in flat_dims):
        raise ValueError(f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
                         "collection of ints representing where in the outputs the vmapped dimension should appear.")
    if isinstance(out_dims, tuple) and len(out_dims) == 1 and spec.is_leaf():
        out_dims = out_dims[0]
    dims = _broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise ValueError(f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the "
                         f"structure of `outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has "
                         f"structure {spec}.")
    return dims


def add_dimension(level: BatchLevel, value: Any, dim: int | None) -> Any:
    """A tensor whose dimension `dim` is the level's from now on."""
    return value if dim is None else wrapped(level, value if dim == 0 else value.movedim(dim, 0), True)


def remove_dimension(level: BatchLevel, value: Any, dim: int | None, func: Callable) -> Any:
    """A result with the level's dimension where it was asked for."""
    name = _name_of(func)
    if not isinstance(value, Tensor):
        if dim is None:
            return value
        raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. Did you mean "
                         "to set out_dims= to None for output?")
    batched = is_at(level, value) and value._array.batched
    value = value._array.value if is_at(level, value) else value
    if dim is None:
        if batched:
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return value
    if not batched:
        value = value.unsqueeze(0).expand((level.size, *value.shape))
    return value.movedim(0, dim) if dim else value


def _run(func: Callable, size: int, leaves: Sequence[Any], dims: Sequence[Any], spec: TreeSpec, out_dims: Any,
         randomness: str, kwargs: dict[str, Any]) -> tuple[list[Any], TreeSpec, list[Any]]:
    """(leaves of the result, its structure, where each has the dimension)."""
    with BatchLevel(size, randomness) as level:
        given = [add_dimension(level, leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)]
        outputs, out_spec = tree_flatten(func(*tree_unflatten(given, spec), **kwargs))
        flat_out_dims = _flat_out_dims(func, out_dims, outputs, out_spec)
        made = [remove_dimension(level, o, d, func) for o, d in zip(outputs, flat_out_dims, strict=True)]
    return made, out_spec, flat_out_dims


def _run_in_chunks(func: Callable, size: int, chunk_size: int, leaves: Sequence[Any], dims: Sequence[Any], *rest: Any,
                   ) -> tuple[list[Any], TreeSpec, list[Any]]:
    from .. import cat  # type: ignore[attr-defined]

    chunks = []
    for start in range(0, size, chunk_size):
        length = min(chunk_size, size - start)
        parts = [leaf if dim is None else leaf.narrow(dim, start, length)
                 for leaf, dim in zip(leaves, dims, strict=True)]
        chunks.append(_run(func, length, parts, dims, *rest))
    made, spec, out_dims = chunks[0]
    columns = zip(*(outputs for outputs, _, _ in chunks), strict=True)
    return [values[0] if dim is None else cat(values, dim) for values, dim in zip(columns, out_dims, strict=True)], \
        spec, out_dims


def vmap(func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
         chunk_size: int | None = None) -> Callable:
    """`func` over a dimension of its arguments: as if called for each entry, with the results stacked."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def vmapped(*args: Any, **kwargs: Any) -> Any:
        leaves, dims, spec = _flat_inputs(func, in_dims, args)
        rest = (leaves, dims, spec, out_dims, randomness, kwargs)
        size = _batch_size(leaves, dims)
        if chunk_size is None or size <= chunk_size:
            made, out_spec, _ = _run(func, size, *rest)
        else:
            made, out_spec, _ = _run_in_chunks(func, size, chunk_size, *rest)
        return tree_unflatten(made, out_spec)

    return vmapped
