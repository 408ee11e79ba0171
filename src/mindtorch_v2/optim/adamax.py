"""Adamax."""

import mindtorch_v2 as torch

from ._lists import (
    ListOptimizer,
    Tensors,
    as_number,
    check_call,
    check_options,
    descend_quotient,
    stepping,
)
from .optimizer import ParamsT

__all__ = ["Adamax", "adamax"]


def adamax(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_infs: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
) -> None:
    """Makes one step with the given gradients, running means and running maxima."""
    check_call(params, state_steps, foreach, differentiable, capturable)
    lr = as_number(lr, differentiable)
    for target, gradient, mean, greatest, step in stepping(
        params, grads, exp_avgs, exp_infs, state_steps=state_steps, weight_decay=weight_decay, maximize=maximize
    ):
        mean.lerp_(gradient, 1 - beta1)
        greatest.copy_(torch.maximum(greatest * beta2, gradient.abs() + eps))
        descend_quotient(target, mean, greatest, lr / (1 - beta1 ** step.item()))


class Adamax(ListOptimizer):
    """Adam with a decaying maximum of gradients in the place of their mean square."""

    _function = staticmethod(adamax)
    _states = ("exp_avg", "exp_inf", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip
