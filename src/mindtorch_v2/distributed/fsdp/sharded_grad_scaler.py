"""A GradScaler whose processes agree on whether a gradient overflowed."""

from typing import Any

import mindtorch_v2 as torch

from ...amp.grad_scaler import GradScaler
from .. import _collectives as collectives
from .._reductions import ReduceOp
from ..tensor import DTensor

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """Each process unscales its pieces; one that overflowed makes all leave the step out."""

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5,
                 growth_factor: float = 2.0, growth_interval: int = 2000, enabled: bool = True,
                 process_group: Any = None) -> None:
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def _unscale_grads_(self, optimizer: Any, inverse: Any, allow_fp16: bool) -> dict[Any, Any]:
        bad = torch.zeros((), dtype=torch.float32)
        with torch.no_grad():
            for param in (p for group in optimizer.param_groups for p in group["params"] if p.grad is not None):
                grad = param.grad._local_tensor if isinstance(param.grad, DTensor) else param.grad
                bad = bad.to(grad.device)
                bad = torch.maximum(bad, torch.logical_not(torch.isfinite(grad)).any().to(torch.float32))
                grad.mul_(inverse.to(device=grad.device, dtype=grad.dtype))
        collectives.all_reduce(bad, ReduceOp.MAX, self.process_group)
        return {bad.device: bad}
