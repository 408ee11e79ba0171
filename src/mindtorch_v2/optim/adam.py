"""Adam."""

from typing import Any

import mindtorch_v2 as torch

from .._core.tensor_base import bump_versions
from ._lists import (
    ListOptimizer,
    Tensors,
    advance,
    as_number,
    check_call,
    check_options,
    decayed,
    descend_quotient,
    real_views,
    rounding,
    runs_whole,
    update_moments,
)
from .optimizer import ParamsT

__all__ = ["Adam", "adam"]


def adam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: torch.Tensor | None = None,
    found_inf: torch.Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | torch.Tensor,
    beta2: float | torch.Tensor,
    lr: float | torch.Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Makes one step with the given gradients and running means."""
    if not fused and (grad_scale is not None or found_inf is not None):
        raise AssertionError("Expected grad_scale and found_inf to be None")
    check_call(params, state_steps, foreach, differentiable, capturable)
    if not params:
        return
    lr, beta1, beta2 = (as_number(value, differentiable) for value in (lr, beta1, beta2))
    lists = (params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs)
    advance(state_steps)
    if fused or runs_whole(lists, differentiable, state_steps):
        step = torch._fused_adamw_ if decoupled_weight_decay else torch._fused_adam_
        with rounding(between=not fused):
            step(
                *lists, state_steps, lr=float(lr), beta1=float(beta1), beta2=float(beta2),
                weight_decay=float(weight_decay), eps=eps, amsgrad=amsgrad, maximize=bool(maximize),
                grad_scale=grad_scale, found_inf=found_inf,
            )  # fmt: skip
        if found_inf is not None:  # a step that was left out does not count
            torch._foreach_sub_(state_steps, [found_inf] * len(state_steps))
        if not fused:  # what PyTorch writes in two passes counts twice
            bump_versions(params if decoupled_weight_decay and weight_decay != 0 else ())
            bump_versions(exp_avg_sqs)
        return
    for position, parameter in enumerate(params):
        if decoupled_weight_decay and weight_decay != 0:
            parameter.mul_(1 - lr * weight_decay)
        gradient = decayed(parameter, grads[position], 0 if decoupled_weight_decay else weight_decay, maximize)
        target, gradient, mean, square_mean = real_views(
            parameter, gradient, exp_avgs[position], exp_avg_sqs[position]
        )
        update_moments(mean, square_mean, gradient, beta1, beta2)
        if amsgrad:
            (greatest,) = real_views(max_exp_avg_sqs[position])
            square_mean = torch.maximum(greatest.clone() if differentiable else greatest, square_mean)
            greatest.copy_(square_mean)
        steps = state_steps[position].item()
        below = square_mean.sqrt() / (1 - beta2**steps) ** 0.5 + eps
        descend_quotient(target, mean, below, lr / (1 - beta1**steps))


class Adam(ListOptimizer):
    """Steps by the running mean of gradients over the root of the running mean of their squares."""

    _function = staticmethod(adam)
    _states = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")
    _in_blocks = True
    _optional = ("max_exp_avg_sq",)
    _added = {
        "amsgrad": False, "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False, "fused": None,
    }  # fmt: skip
    _sparse_error = "Adam does not support sparse gradients, please consider SparseAdam instead"

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float | torch.Tensor, float | torch.Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        plain_foreach = foreach and not capturable
        if isinstance(lr, torch.Tensor) and plain_foreach:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        if isinstance(betas[0], torch.Tensor) != isinstance(betas[1], torch.Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        for index, beta in enumerate(betas):
            if isinstance(beta, torch.Tensor):
                if plain_foreach:
                    raise ValueError(
                        f"betas[{index}] as a Tensor is not supported for capturable=False and foreach=True"
                    )
                if beta.numel() != 1:
                    raise ValueError(f"Tensor betas[{index}] must be 1-element")
        scalars = tuple(beta.squeeze() if isinstance(beta, torch.Tensor) else beta for beta in betas)
        super().__init__(params, {
            "lr": lr, "betas": scalars, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def _init_state(self, parameter: torch.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = super()._init_state(parameter, group)
        if not group["amsgrad"]:
            del state["max_exp_avg_sq"]
        return state
