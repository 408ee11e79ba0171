"""vmap: a function of one sample as a function of many."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._core.tensor import Tensor
from .._dispatch.levels import is_at
from ..utils._pytree import TreeSpec, _broadcast_to_and_flatten, tree_flatten, tree_unflatten
from . import randomness as _randomness  # noqa: F401 - registers kernels
from .batching import BatchLevel
from .grad_level import wrapped

in_dims_t = out_dims_t = Any
# The functions with PyTorch's names stand where it has them: libraries put their own in their place to map over more
# than tensors. What they call a level is opaque to them: here it is the level itself.


def _get_name(func: Callable) -> str:
    return getattr(func, "__name__", repr(func))


def _process_batched_inputs(in_dims: Any, args: tuple, func: Callable) -> tuple[int, list[Any], list[Any], TreeSpec]:
    """(number of samples, the dimension of each leaf of the arguments or None, the leaves, their structure)."""
    name = _get_name(func)
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
    return _validate_and_get_batch_size(dims, leaves), dims, leaves, spec


def _validate_and_get_batch_size(dims: Sequence[Any], leaves: Sequence[Any]) -> int:
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError("vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                         f"{sizes} for the mapped dimension")
    return sizes[0]


def _flat_out_dims(func: Callable, out_dims: Any, outputs: Sequence[Any], spec: TreeSpec) -> list[Any]:
    name = _get_name(func)
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


def _create_batched_inputs(dims: Sequence[Any], leaves: Sequence[Any], level: BatchLevel, spec: TreeSpec) -> Any:
    return tree_unflatten([add_dimension(level, leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)], spec)


def _add_batch_dim(value: Tensor, dim: int, level: BatchLevel) -> Tensor:
    return add_dimension(level, value, dim)


def _remove_batch_dim(value: Tensor, level: BatchLevel, size: int, dim: int) -> Tensor:
    """The tensor below the level, with the level's dimension at `dim`."""
    batched = is_at(level, value) and value._array.batched
    value = value._array.value if is_at(level, value) else value
    if not batched:
        value = value.unsqueeze(0).expand((size, *value.shape))
    return value.movedim(0, dim) if dim else value


def _maybe_remove_batch_dim(name: str, value: Any, level: BatchLevel, size: int, dim: int | None) -> Any:
    """A result with the level's dimension where it was asked for."""
    if not isinstance(value, Tensor):
        if dim is None:
            return value
        raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. Did you mean "
                         "to set out_dims= to None for output?")
    if dim is not None:
        return _remove_batch_dim(value, level, size, dim)
    if not is_at(level, value):
        return value
    if value._array.batched:
        raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
    return value._array.value


def _unwrap_batched(outputs: Any, out_dims: Any, level: BatchLevel, size: int, func: Callable) -> Any:
    leaves, spec = tree_flatten(outputs)
    dims = _flat_out_dims(func, out_dims, leaves, spec)
    return tree_unflatten([_maybe_remove_batch_dim(_get_name(func), leaf, level, size, dim)
                           for leaf, dim in zip(leaves, dims, strict=True)], spec)


def _run(func: Callable, size: int, dims: Sequence[Any], leaves: Sequence[Any], spec: TreeSpec, out_dims: Any,
         randomness: str, kwargs: dict[str, Any]) -> Any:
    with BatchLevel(size, randomness) as level:
        return _unwrap_batched(func(*_create_batched_inputs(dims, leaves, level, spec), **kwargs), out_dims, level,
                               size, func)


def _run_in_chunks(func: Callable, size: int, chunk_size: int, dims: Sequence[Any], leaves: Sequence[Any],
                   spec: TreeSpec, out_dims: Any, *rest: Any) -> Any:
    from .. import cat

    chunks = []
    for start in range(0, size, chunk_size):
        length = min(chunk_size, size - start)
        parts = [leaf if dim is None else leaf.narrow(dim, start, length)
                 for leaf, dim in zip(leaves, dims, strict=True)]
        chunks.append(tree_flatten(_run(func, length, dims, parts, spec, out_dims, *rest)))
    made, out_spec = chunks[0]
    joined = zip(zip(*(outputs for outputs, _ in chunks), strict=True),
                 _flat_out_dims(func, out_dims, made, out_spec), strict=True)
    return tree_unflatten([values[0] if dim is None else cat(values, dim) for values, dim in joined], out_spec)


def vmap(func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
         chunk_size: int | None = None) -> Callable:
    """`func` over a dimension of its arguments: as if called for each entry, with the results stacked."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def vmapped(*args: Any, **kwargs: Any) -> Any:
        size, dims, leaves, spec = _process_batched_inputs(in_dims, args, func)
        rest = (dims, leaves, spec, out_dims, randomness, kwargs)
        if chunk_size is None or size <= chunk_size:
            return _run(func, size, *rest)
        return _run_in_chunks(func, size, chunk_size, *rest)

    return vmapped
