"""Adadelta."""

import mindtorch_v2 as torch

from ._lists import (
    CAPTURABLE_DEVICES,
    ListOptimizer,
    Tensors,
    as_number,
    check_call,
    check_options,
    descend,
    stepping,
)
from .optimizer import ParamsT

__all__ = ["Adadelta", "adadelta"]


def adadelta(
    params: Tensors,
    grads: Tensors,
    square_avgs: Tensors,
    acc_deltas: Tensors,
    state_steps: Tensors,
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Makes one step with the given gradients and running means."""
    check_call(params, state_steps, foreach, differentiable, capturable, devices=CAPTURABLE_DEVICES[:-1])
    lr = as_number(lr, differentiable)
    for target, gradient, square_mean, delta_mean, _ in stepping(
        params, grads, square_avgs, acc_deltas, state_steps=state_steps, weight_decay=weight_decay, maximize=maximize
    ):
        square_mean.mul_(rho).addcmul_(gradient, gradient, value=1 - rho)
        delta = (delta_mean + eps).sqrt() / (square_mean + eps).sqrt() * gradient
        delta_mean.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        descend(target, delta, lr)


class Adadelta(ListOptimizer):
    """Steps by the gradient times the root of past steps' mean square over that of past gradients."""

    _function = staticmethod(adadelta)
    _states = ("square_avg", "acc_delta", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_options(eps=eps, weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        })  # fmt: skip
