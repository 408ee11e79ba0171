"""Pooling: signatures of torch.nn.functional that differ from the operators'."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from ..._core.tensor import Tensor
from ..._ops._declare.op import public_functions

_nn, _torch = public_functions("_nn"), public_functions("torch")


def _several(value: Any, rank: int) -> tuple:
    """The setting for each dimension."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * rank


# the largest ---------------------------------------------------------------------------------------------------------


def _max_pools(rank: int) -> tuple[Callable, Callable]:
    values = _torch[f"max_pool{rank}d"]
    both = _torch["max_pool1d_with_indices"] if rank == 1 else _nn[f"max_pool{rank}d_with_indices"]

    def with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                     ceil_mode: bool = False, return_indices: bool = False) -> tuple:
        return both(input, kernel_size, stride, padding, dilation, ceil_mode)

    def pool(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
             ceil_mode: bool = False, return_indices: bool = False) -> Any:
        chosen = both if return_indices else values
        return chosen(input, kernel_size, stride, padding, dilation, ceil_mode)

    return pool, with_indices


def _completed(input: Any, output_size: Any, rank: int, wrong: str) -> Any:
    """The output size with the input's own where it is None."""
    shape = input.size()
    if isinstance(output_size, int):
        return output_size
    if len(shape) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    if len(output_size) == 1 < rank:
        raise RuntimeError(f"{wrong} must be {rank}")
    own = shape[len(shape) - len(output_size) :]
    return tuple([n if wanted is None else wanted for wanted, n in zip(output_size, own, strict=True)])


def _adaptive_max_pools(rank: int) -> tuple[Callable, Callable]:
    both = (_torch if rank == 1 else _nn)[f"adaptive_max_pool{rank}d"]
    wrong = f"adaptive_max_pool{rank}d(): internal error: output_size.size()"

    def with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple:
        return both(input, output_size if rank == 1 else _completed(input, output_size, rank, wrong))

    def pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        values, indices = with_indices(input, output_size)
        return (values, indices) if return_indices else values

    return pool, with_indices


def _fractional_max_pools(rank: int) -> tuple[Callable, Callable]:
    name = f"fractional_max_pool{rank}d"

    def with_indices(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
                     return_indices: bool = False, _random_samples: Tensor | None = None) -> tuple:
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        if output_size is None:
            if rank == 2 and len(output_ratio) != 2:
                raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
            ratios = _several(output_ratio, rank)[:rank]
            output_size = [int(n * ratio) for n, ratio in zip(input.shape[-rank:], ratios, strict=True)]
        if _random_samples is None:
            batch = 1 if input.dim() == rank + 1 else input.shape[0]
            _random_samples = _torch["rand"](batch, input.size(-rank - 1), rank, dtype=input.dtype,
                                             device=input.device)
        for what, size in (("kernel_size", kernel_size), ("output_size", output_size)):
            if isinstance(size, (tuple, list)) and len(size) == 1:
                raise RuntimeError(f"{name}: {what} must either be a single Int or tuple of "
                                   f"{'three ' * (rank == 3)}Ints")
        return _nn[name](input, kernel_size, output_size, _random_samples)

    def pool(input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
             return_indices: bool = False, _random_samples: Tensor | None = None) -> Any:
        values, indices = with_indices(input, kernel_size, output_size, output_ratio, False, _random_samples)
        return (values, indices) if return_indices else values

    return pool, with_indices


# back to the places --------------------------------------------------------------------------------------------------


def _unpooled_size(input: Any, kernel_size: tuple, stride: tuple, padding: tuple, output_size: Any) -> list[int]:
    """The size that was pooled, or the given one if pooling could have come from it."""
    rank, own = len(kernel_size), input.size()
    usual = [(own[d - rank] - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(rank)]
    if output_size is None:
        return usual
    if len(output_size) == rank + 2:
        output_size = output_size[2:]
    if len(output_size) != rank:
        raise ValueError(f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a "
                         f"length of '{len(output_size)}'")
    for d, n in enumerate(usual):
        step = stride[d]
        fits = n - step < output_size[d] < n + step
        if not isinstance(fits, bool):  # as the elements of tensors and arrays compare
            raise TypeError(f"output_size should hold ints, but got {type(output_size[d]).__name__}")
        if not fits:
            raise ValueError(f'invalid output_size "{output_size}" (dim {d} must be between {n - step} and '
                             f"{n + step})")
    return list(output_size)


def _max_unpools(rank: int) -> Callable:
    def unpool(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
               output_size: Any = None) -> Tensor:
        kernel_size, padding = _several(kernel_size, rank), _several(padding, rank)
        stride = kernel_size if stride is None else _several(stride, rank)
        size = _unpooled_size(input, kernel_size, stride, padding, output_size)
        if rank == 1:
            return _nn["max_unpool2d"](input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)
        return _nn[f"max_unpool{rank}d"](input, indices, size, *(() if rank == 2 else (stride, padding)))

    return unpool


# means ---------------------------------------------------------------------------------------------------------------


def _adaptive_avg_pools(rank: int) -> Callable:
    mean = _nn[f"adaptive_avg_pool{rank}d"]

    def pool(input: Any, output_size: Any) -> Tensor:
        return mean(input, _completed(input, output_size, rank, f"adaptive_avg_pool{rank}d: output_size"))

    return pool


def _lp_pools(rank: int) -> Callable:
    mean, largest = public_functions("nn.functional")[f"avg_pool{rank}d"], _made[f"max_pool{rank}d"]

    def pool(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
        sizes = () if rank == 1 else _several(kernel_size, rank)
        if rank > 1 and len(sizes) != rank:
            raise ValueError(f"{'too many' if len(sizes) > rank else 'not enough'} values to unpack (expected {rank})")
        if isinstance(norm_type, (int, float)) and abs(norm_type) == math.inf:
            size = input.abs()
            if norm_type > 0:
                return largest(size, kernel_size, stride, 0, 1, ceil_mode)
            return -largest(-size, kernel_size, stride, 0, 1, ceil_mode)
        powers = mean(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        count = kernel_size if rank == 1 else math.prod(sizes)
        return (powers.sign() * powers.abs().relu()).mul(count).pow(1.0 / norm_type)

    return pool


_made: dict[str, Callable] = {}


def _named(name: str, function: Callable, doc: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    _made[name] = function


for _rank in (1, 2, 3):
    for _name, _of_rank in (("max_pool", _max_pools), ("adaptive_max_pool", _adaptive_max_pools),
                            ("fractional_max_pool", _fractional_max_pools)):
        if _rank > 1 or _of_rank is not _fractional_max_pools:
            _pool, _both = _of_rank(_rank)
            _named(f"{_name}{_rank}d", _pool, "The largest element of each window, and its index if `return_indices`.")
            _named(f"{_name}{_rank}d_with_indices", _both, "The largest element of each window, and its index.")
    _named(f"max_unpool{_rank}d", _max_unpools(_rank), "Zeros, with pooled elements at the places they came from.")
    _named(f"lp_pool{_rank}d", _lp_pools(_rank), "The p-norm of each window.")
    if _rank > 1:
        _named(f"adaptive_avg_pool{_rank}d", _adaptive_avg_pools(_rank), "The means of as many windows as are wanted.")
globals().update(_made)
__all__ = list(_made)
