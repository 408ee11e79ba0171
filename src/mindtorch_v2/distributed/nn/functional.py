"""Collectives through which gradients flow: the backward of each is the collective that sends them back."""

from typing import Any

import mindtorch_v2 as torch

from ..._core.tensor import Tensor
from ...autograd import Function
from .. import _collectives as collectives
from .._reductions import ReduceOp
from .._world import get_rank, get_world_size, known

__all__ = ["all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce",
           "reduce_scatter", "scatter"]


def _contiguous(grad: Tensor) -> Tensor:
    return grad.contiguous() if not grad.is_contiguous() else grad


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        tensor = tensor.clone()
        collectives.broadcast(tensor, src, group)
        return tensor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:  # type: ignore[override]
        given = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        if get_rank() != ctx.src:
            given = torch.zeros_like(given)
        return None, None, given


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: Any, tensor: Tensor) -> Tensor:
        ctx.dst, ctx.group = dst, group
        tensor = tensor.clone()
        collectives.reduce(tensor, dst, op, group)
        return tensor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:  # type: ignore[override]
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        tensor = tensor.clone(memory_format=torch.contiguous_format)
        collectives.all_reduce(tensor, op, group)
        return tensor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:  # type: ignore[override]
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        tensor = _contiguous(tensor)
        outputs = [torch.empty_like(tensor) for _ in range(get_world_size(group))]
        collectives.all_gather(outputs, tensor, group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:  # type: ignore[override]
        mine = torch.empty_like(grads[get_rank(ctx.group)])
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, mine, *grads)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, output: Tensor, *inputs: Tensor) -> Tensor:
        ctx.group = group
        output = torch.empty_like(_contiguous(inputs[get_rank(group)]))
        collectives.reduce_scatter(output, [_contiguous(each) for each in inputs], op, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:  # type: ignore[override]
        return (None, None, None, *_AllGather.apply(ctx.group, grad))


class _AllGatherBase(Function):
    @staticmethod
    def forward(ctx: Any, output: Tensor, given: Tensor, group: Any) -> Tensor:
        ctx.group = group
        output = torch.empty_like(output)
        collectives.all_gather_into_tensor(output, _contiguous(given), group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:  # type: ignore[override]
        size = get_world_size(ctx.group)
        if grad.shape[0] % size:
            raise RuntimeError(f"Tensor with dimensions: {list(grad.shape)} does not have a first dimension that is "
                               f"divisible by world size: {size}")
        mine = torch.empty(grad.shape[0] // size, *grad.shape[1:], dtype=grad.dtype, device=grad.device)
        collectives.reduce_scatter_tensor(mine, _contiguous(grad), ReduceOp.SUM, ctx.group)
        return None, mine, None


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outputs: list[Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
        mine = get_rank(group)
        ctx.group, ctx.shapes = group, [each.shape for each in inputs]
        ctx.kind, ctx.device = inputs[mine].dtype, inputs[mine].device
        outputs = [torch.empty_like(each) for each in outputs]
        collectives.all_to_all(outputs, [_contiguous(each) for each in inputs], group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:  # type: ignore[override]
        back = [torch.empty(shape, dtype=ctx.kind, device=ctx.device) for shape in ctx.shapes]
        return (None, None, *_AllToAll.apply(ctx.group, back, *grads))


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, output: Tensor, output_splits: Any, input_splits: Any, given: Tensor) -> Tensor:
        ctx.group, ctx.shape = group, given.shape
        ctx.output_splits, ctx.input_splits = output_splits, input_splits
        output = torch.empty_like(output)
        collectives.all_to_all_single(output, _contiguous(given), output_splits, input_splits, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:  # type: ignore[override]
        back = torch.empty(ctx.shape, dtype=grad.dtype, device=grad.device)
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, back, ctx.input_splits, ctx.output_splits,
                                                             _contiguous(grad))


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        outputs = [torch.zeros_like(tensor) for _ in range(get_world_size(group))]
        is_root = get_rank() == dst
        collectives.gather(_contiguous(tensor), outputs if is_root else None, dst, group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:  # type: ignore[override]
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        output = torch.zeros_like(tensors[0])
        is_root = get_rank() == src
        collectives.scatter(output, [_contiguous(each) for each in tensors] if is_root else None, src, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:  # type: ignore[override]
        return (None, None, *_Gather.apply(ctx.src, ctx.group, grad))


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of one rank; its gradient is the sum over all."""
    return _Broadcast.apply(src, known(group), tensor)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    return _Reduce.apply(dst, op, known(group), tensor)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    return _AllReduce.apply(op, known(group), tensor)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    return _AllGather.apply(known(group), tensor)


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Any = None) -> Tensor:
    return _AllGatherBase.apply(output_tensor, input_tensor, known(group))


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    return _ReduceScatter.apply(op, known(group), output, *input_list)


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None) -> tuple:
    return _AllToAll.apply(known(group), output_tensor_list, *input_tensor_list)


def all_to_all_single(output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
                      group: Any = None) -> Tensor:
    return _AllToAllSingle.apply(known(group), output, output_split_sizes, input_split_sizes, input)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, at one; zeros elsewhere."""
    return _Gather.apply(dst, known(group), tensor)


def scatter(tensors: list[Tensor], src: int = 0, group: Any = None) -> Tensor:
    return _Scatter.apply(src, known(group), *tensors)
