"""Stochastic gradient descent."""

from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from .optimizer import Optimizer, ParamsT, _to_scalar, _use_grad_for_differentiable, check_implementation_flags

__all__ = ["SGD", "sgd"]


class SGD(Optimizer):
    """p -= lr * g, with optional momentum, dampening, Nesterov's rule and weight decay."""

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
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)
        check_implementation_flags(differentiable, foreach, fused)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)
            group.setdefault("maximize", False)
            group.setdefault("foreach", None)
            group.setdefault("differentiable", False)
            group.setdefault("fused", False)

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes one step; the closure, if given, computes the loss anew."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            pairs = [(parameter, parameter.grad) for parameter in group["params"]]
            params = [parameter for parameter, gradient in pairs if gradient is not None]
            momentum = group["momentum"]
            buffers: list[torch.Tensor | None] = [None] * len(params)
            if momentum != 0:
                buffers = [self.state[parameter].get("momentum_buffer") for parameter in params]
            sgd(
                params,
                [gradient for _, gradient in pairs if gradient is not None],
                buffers,
                weight_decay=group["weight_decay"],
                momentum=momentum,
                lr=group["lr"],
                dampening=group["dampening"],
                nesterov=group["nesterov"],
                maximize=group["maximize"],
            )
            if momentum != 0:
                for parameter, buffer in zip(params, buffers, strict=True):
                    self.state[parameter]["momentum_buffer"] = buffer
        return loss


def sgd(
    params: list[torch.Tensor],
    d_p_list: list[torch.Tensor],
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
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Expected grad_scale and found_inf to be None")
    lr_with_graph = lr if isinstance(lr, torch.Tensor) and lr.requires_grad and torch.is_grad_enabled() else None
    negative_lr = -_to_scalar(lr)
    weight_decay = _to_scalar(weight_decay)
    for position, parameter in enumerate(params):
        gradient = d_p_list[position]
        if maximize:
            gradient = -gradient
        if weight_decay != 0:
            gradient = gradient.add(parameter, alpha=weight_decay)
        if momentum != 0:
            buffer = momentum_buffer_list[position]
            if buffer is None:
                buffer = gradient.detach().clone()
                momentum_buffer_list[position] = buffer
            else:
                buffer.mul_(momentum).add_(gradient, alpha=1 - dampening)
            gradient = gradient.add(buffer, alpha=momentum) if nesterov else buffer
        if lr_with_graph is not None:
            parameter.addcmul_(gradient, lr_with_graph, value=-1)
        else:
            parameter.add_(gradient, alpha=negative_lr)
