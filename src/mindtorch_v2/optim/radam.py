"""RAdam."""

import mindtorch_v2 as torch

from ._lists import (
    ListOptimizer,
    Tensors,
    as_number,
    check_call,
    check_options,
    descend,
    stepping,
    update_moments,
)
from .optimizer import ParamsT

__all__ = ["RAdam", "radam"]


def radam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    state_steps: Tensors,
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    eps: float,
) -> None:
    """Makes one step with the given gradients and running means."""
    check_call(params, state_steps, foreach, differentiable, capturable)
    lr = as_number(lr, differentiable)
    for target, gradient, mean, square_mean, step in stepping(
        params, grads, exp_avgs, exp_avg_sqs, state_steps=state_steps, weight_decay=weight_decay, maximize=maximize,
        apart=lr if decoupled_weight_decay else None,
    ):  # fmt: skip
        steps = step.item()
        update_moments(mean, square_mean, gradient, beta1, beta2)
        direction = mean / (1 - beta1**steps)
        rectified = _rectification(beta2, steps)
        if rectified is not None:
            direction = direction * (rectified * (1 - beta2**steps) ** 0.5) / (square_mean.sqrt() + eps)
        descend(target, direction, lr)


def _rectification(beta2: float, steps: float) -> float | None:
    """How far the mean of squares can be trusted after so many steps; None for not at all."""
    most = 2 / (1 - beta2) - 1
    now = most - 2 * steps * beta2**steps / (1 - beta2**steps)
    if now <= 5.0:
        return None
    return ((now - 4) * (now - 2) * most / ((most - 4) * (most - 2) * now)) ** 0.5


class RAdam(ListOptimizer):
    """Adam that divides by the mean of squares only as far as enough steps were made to trust it."""

    _function = staticmethod(radam)
    _states = ("exp_avg", "exp_avg_sq", "step")
    _added = {
        "foreach": None, "maximize": False, "differentiable": False, "decoupled_weight_decay": False,
        "capturable": False,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        })  # fmt: skip
