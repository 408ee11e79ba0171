"""Collectives that give new tensors in place of changing theirs."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import mindtorch_v2 as torch

from .._core.tensor import Tensor
from . import _collectives as collectives
from ._groups import ProcessGroup
from ._reductions import ReduceOp
from ._world import get_rank, get_world_size, known
from .distributed_c10d import _resolve_process_group
from .nn import functional as recorded

__all__ = ["all_gather_tensor", "all_gather_tensor_autograd", "all_reduce", "all_reduce_coalesced",
           "all_to_all_single", "all_to_all_single_autograd", "broadcast", "permute_tensor", "reduce_scatter_tensor",
           "reduce_scatter_tensor_autograd", "wait_tensor"]


class AsyncCollectiveTensor(Tensor):
    """The type of results that are waited for when used; here results are there when they are given."""


# Told the name of each collective that is called.
watchers: list[Callable[[str], None]] = []


def _noted(name: str) -> Callable[[Callable], Callable]:
    """Has those who watch told of each call of a function, as a collective of a name."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            for watcher in watchers:
                watcher(name)
            return function(*args, **kwargs)

        return noted

    return decorate


def _group(given: Any) -> ProcessGroup:
    """A group from itself, its name, a mesh of one dimension, or a mesh and a dimension of it."""
    if isinstance(given, ProcessGroup) or given is None:
        return known(given)
    if isinstance(given, str):
        return _resolve_process_group(given)
    if isinstance(given, tuple):
        return given[0].get_group(given[1])
    if hasattr(given, "get_group"):
        return given.get_group()
    raise ValueError(f"Invalid type for group, must be one of List, Processgroup, DeviceMesh or (DeviceMesh, int): "
                     f"{type(given)}")


def _reduction(name: str) -> Any:
    return {"product": ReduceOp.PRODUCT, "sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "min": ReduceOp.MIN,
            "max": ReduceOp.MAX, "band": ReduceOp.BAND, "bor": ReduceOp.BOR, "bxor": ReduceOp.BXOR}[name.lower()]


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor, which is there."""
    return tensor


@_noted("broadcast")
def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    made = self.detach().clone(memory_format=torch.contiguous_format)
    collectives.broadcast(made, group=_group(group), group_src=src)
    return made


@_noted("all_reduce")
def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    if self.requires_grad:
        return recorded.all_reduce(self, _reduction(reduceOp), _group(group))
    made = self.clone(memory_format=torch.contiguous_format)
    collectives.all_reduce(made, _reduction(reduceOp), _group(group))
    return made


def all_reduce_coalesced(self: Sequence[Tensor], reduceOp: str, group: Any, tag: str = "") -> list[Tensor]:
    return [all_reduce(each, reduceOp, group, tag) for each in self]


def _joined(pieces: Sequence[Tensor], dim: int) -> Tensor:
    return torch.cat(list(pieces), dim)


@_noted("all_gather_into_tensor")
def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all ranks, one after another in a dimension."""
    found = _group(group)
    made = torch.empty(self.shape[0] * found.size() if self.dim() else found.size(), *self.shape[1:], dtype=self.dtype,
                       device=self.device)
    collectives.all_gather_into_tensor(made, self.detach().contiguous(), found)
    return made if gather_dim == 0 else _joined(made.chunk(found.size(), 0), gather_dim)


@_noted("all_gather_into_tensor")
def all_gather_tensor_autograd(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    return _joined(recorded.all_gather(self, _group(group)), gather_dim)


def _scattered(self: Tensor, dim: int, size: int) -> list[Tensor]:
    if self.shape[dim] % size:
        raise AssertionError(f"input dimension 0 ({self.shape[0]} must be a multiple of group_size {size}")
    return [each.contiguous() for each in self.chunk(size, dim)]


@_noted("reduce_scatter_tensor")
def reduce_scatter_tensor(self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Tensor:
    """This rank's part of the joined tensors."""
    found = _group(group)
    pieces = _scattered(self.detach(), scatter_dim, found.size())
    made = torch.empty_like(pieces[0])
    collectives.reduce_scatter(made, pieces, _reduction(reduceOp), found)
    return made


@_noted("reduce_scatter_tensor")
def reduce_scatter_tensor_autograd(self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Tensor:
    found = _group(group)
    pieces = _scattered(self, scatter_dim, found.size())
    return recorded.reduce_scatter(torch.empty_like(pieces[0]), pieces, _reduction(reduceOp), found)


def all_gather_into_tensor_coalesced(self: Sequence[Tensor], group: Any, tag: str = "") -> list[Tensor]:
    return [all_gather_tensor(each, 0, group, tag) for each in self]


def reduce_scatter_tensor_coalesced(inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Any,
                                    tag: str = "") -> list[Tensor]:
    return [reduce_scatter_tensor(each, reduceOp, dim, group, tag)
            for each, dim in zip(inputs, scatter_dim, strict=True)]


def _room(self: Tensor, output_split_sizes: Sequence[int] | None) -> Tensor:
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    return torch.empty(rows, *self.shape[1:], dtype=self.dtype, device=self.device)


@_noted("all_to_all_single")
def all_to_all_single(self: Tensor, output_split_sizes: list[int] | None, input_split_sizes: list[int] | None,
                      group: Any, tag: str = "") -> Tensor:
    made = _room(self, output_split_sizes)
    collectives.all_to_all_single(made, self.detach().contiguous(), output_split_sizes, input_split_sizes,
                                  _group(group))
    return made


@_noted("all_to_all_single")
def all_to_all_single_autograd(self: Tensor, output_split_sizes: list[int] | None, input_split_sizes: list[int] | None,
                               group: Any, tag: str = "") -> Tensor:
    return recorded.all_to_all_single(_room(self, output_split_sizes), self, output_split_sizes, input_split_sizes,
                                      _group(group))


def permute_tensor(self: Tensor, src_dst: list[int], group: Any, tag: str = "") -> Tensor:
    """The tensor of the rank from which `src_dst` sends to this one."""
    found = _group(group)
    mine, size = get_rank(found), get_world_size(found)
    sends, gets = [0] * size, [0] * size
    for source, target in enumerate(src_dst):
        if source == mine:
            sends[target] = self.numel()
        if target == mine:
            gets[source] = self.numel()
    return all_to_all_single(self.reshape(-1), gets, sends, found).reshape(self.shape)


all_gather_single, reduce_scatter_single = all_gather_tensor, reduce_scatter_tensor
all_gather_single_autograd, reduce_scatter_single_autograd = all_gather_tensor_autograd, reduce_scatter_tensor_autograd
