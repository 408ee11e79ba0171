"""Stochastic gradient descent."""

from typing import Any

import mindtorch_v2 as torch

from .._dispatch.keys import TORCH_DISPATCH_MASK
from ._lists import ListOptimizer, Tensors, as_number, check_fused, decayed, descend, pieces, rounding, runs_whole
from .optimizer import ParamsT

__all__ = ["SGD", "sgd"]


def sgd(
    params: Tensors,
    d_p_list: Tensors,
    momentum_buffer_list: list[torch.Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: torch.Tensor | None = None,
    found_inf: torch.Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """Makes one step with the given gradients and fills in missing momentum buffers."""
    if not fused and (grad_scale is not None or found_inf is not None):
        raise AssertionError("Expected grad_scale and found_inf to be None")
    differentiable = torch.is_grad_enabled()
    lr, weight_decay = as_number(lr, differentiable), as_number(weight_decay, differentiable)
    buffers = [buffer for buffer in momentum_buffer_list if buffer is not None]
    if params and (fused or not has_sparse_grad and runs_whole((params, d_p_list, buffers), differentiable)):
        new = [i for i, buffer in enumerate(momentum_buffer_list) if buffer is None]
        old = [i for i, buffer in enumerate(momentum_buffer_list) if buffer is not None]
        for i in new if momentum != 0 else ():
            momentum_buffer_list[i] = torch.empty_like(params[i])
        with rounding(between=not fused):
            for chosen, first in ((new, True), (old, False)):
                if chosen:
                    torch._fused_sgd_(
                        [params[i] for i in chosen], [d_p_list[i] for i in chosen],
                        [b for i in chosen if (b := momentum_buffer_list[i]) is not None] if momentum != 0 else [],
                        weight_decay=float(weight_decay), momentum=float(momentum), lr=lr, dampening=float(dampening),
                        nesterov=nesterov, maximize=bool(maximize), is_first_step=first, grad_scale=grad_scale,
                        found_inf=found_inf,
                    )  # fmt: skip
        return
    for position, parameter in enumerate(params):
        gradient = decayed(parameter, d_p_list[position], weight_decay, maximize)
        if momentum != 0:
            buffer = momentum_buffer_list[position]
            if buffer is None:
                buffer = momentum_buffer_list[position] = gradient.detach().clone()
            else:
                buffer.mul_(momentum).add_(gradient, alpha=1 - dampening)
            gradient = gradient.add(buffer, alpha=momentum) if nesterov else buffer
        descend(parameter, gradient, lr)


class SGD(ListOptimizer):
    """p -= lr * g, with optional momentum, dampening, Nesterov's rule and weight decay."""

    _function = staticmethod(sgd)
    _states = ("momentum_buffer",)
    _in_blocks = True
    _added = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | torch.Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable,
            "fused": fused,
        })  # fmt: skip

    def _state_arrays(self, group: dict[str, Any]) -> int:
        return int(group["momentum"] != 0)

    def _update(self, group: dict[str, Any]) -> None:
        params, gradients = [], []
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is not None:
                params.append(parameter)
                gradients.append(gradient)
        if group["fused"] and params:
            check_fused(params[0])
        keeps = group["momentum"] != 0
        buffers = [self.state[p].get("momentum_buffer") if keeps else None for p in params]
        sparse = any(gradient.is_sparse for gradient in gradients)
        columns = [params, gradients, buffers] if keeps else [params, gradients]
        if any([p._keys & TORCH_DISPATCH_MASK for p in params]):
            columns = pieces(columns)
        sgd(columns[0], columns[1], columns[2] if keeps else buffers, sparse, **self._options(group))
        if keeps:
            for parameter, buffer in zip(params, buffers, strict=True):
                self.state[parameter]["momentum_buffer"] = buffer
