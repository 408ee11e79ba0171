"""Batch normalisation whose statistics are those of all processes of a group."""

from typing import Any

import mindtorch_v2 as torch

from ... import distributed as dist
from ...autograd import Function

__all__ = ["SyncBatchNormFunction"]


class SyncBatchNormFunction(Function):
    """Normalises with the mean and variance over the batches of all ranks; running statistics take them too."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any,
                eps: float, momentum: float, group: Any) -> torch.Tensor:
        dims, shape = _geometry(input)
        wide = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        count = input.numel() // input.shape[1] if input.numel() else 0
        if count:
            var, mean = torch.var_mean(wide, dims, correction=0)
        else:
            var = mean = torch.zeros(input.shape[1], dtype=wide.dtype, device=input.device)
        mine = torch.cat([mean, var, torch.full((1,), float(count), dtype=wide.dtype, device=input.device)])
        everyone = torch.empty(group.size() * mine.numel(), dtype=mine.dtype, device=input.device)
        dist.all_gather_into_tensor(everyone, mine, group)
        means, variances, counts = everyone.view(group.size(), -1).split([mean.numel(), mean.numel(), 1], 1)
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        var = ((variances + (means - mean) ** 2) * counts).sum(0) / total
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(mean.to(running_mean.dtype), alpha=momentum)
            unbiased = var * (total / (total - 1))
            running_var.mul_(1 - momentum).add_(unbiased.to(running_var.dtype), alpha=momentum)
        scale = (var + eps).rsqrt()
        ctx.save_for_backward(input, weight, mean, scale, total)
        ctx.group, ctx.has_bias = group, bias is not None
        result = (wide - mean.view(shape)) * scale.view(shape)
        if weight is not None:
            result = result * weight.to(wide.dtype).view(shape)
        if bias is not None:
            result = result + bias.to(wide.dtype).view(shape)
        return result.to(input.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:  # type: ignore[override]
        input, weight, mean, scale, total = ctx.saved_tensors
        dims, shape = _geometry(input)
        grad_wide, centred = grad.to(mean.dtype), input.to(mean.dtype) - mean.view(shape)
        sums = torch.stack([grad_wide.sum(dims), (grad_wide * centred).sum(dims)])
        grad_weight = (sums[1] * scale).to(weight.dtype) if weight is not None else None
        grad_bias = sums[0].to(grad.dtype if weight is None else weight.dtype) if ctx.has_bias else None
        grad_input = None
        if ctx.needs_input_grad[0]:
            joined = sums.clone()
            dist.all_reduce(joined, group=ctx.group)
            of_mean, of_var = joined / total
            factor = scale if weight is None else scale * weight.to(scale.dtype)
            grad_input = (grad_wide - of_mean.view(shape) - centred * (scale**2 * of_var).view(shape))
            grad_input = (grad_input * factor.view(shape)).to(input.dtype)
        return grad_input, grad_weight, grad_bias, None, None, None, None, None


def _geometry(input: torch.Tensor) -> tuple[list[int], list[int]]:
    """The dimensions that are not channels, and the shape of one number a channel."""
    return [0, *range(2, input.dim())], [1, -1, *[1] * (input.dim() - 2)]
