"""Averaged stochastic gradient descent."""

from typing import Any

import mindtorch_v2 as torch

from ._lists import ListOptimizer, Tensors, as_number, check_call, check_options, descend, stepping
from .optimizer import ParamsT, _get_scalar_dtype

__all__ = ["ASGD", "asgd"]


def asgd(
    params: Tensors,
    grads: Tensors,
    axs: Tensors,
    mus: Tensors,
    etas: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """Makes one step with the given gradients, averages, their weights, and rates."""
    check_call(params, (), foreach, differentiable, capturable, "params, mus, etas, and state_steps")
    lr = as_number(lr)
    for target, gradient, average, weight, rate, step in stepping(
        params, grads, axs, mus, etas, state_steps=state_steps, weight_decay=weight_decay, maximize=maximize
    ):
        steps, rate_now = step.item(), rate.item()
        if foreach:  # one write, as in PyTorch
            gradient = gradient.add(target, alpha=lambd)
        else:
            target.mul_(1 - lambd * rate_now)
        descend(target, gradient, rate_now)
        if weight.item() == 1:
            average.copy_(target)
        else:
            average.add_((target - average) * weight)
        # PyTorch rounds both to the default type, also where a checkpoint made wider ones of them.
        rate.copy_(torch.tensor(lr / (1 + lambd * lr * steps) ** alpha))
        weight.copy_(torch.tensor(1 / max(1, steps - t0)))


class ASGD(ListOptimizer):
    """Gradient descent whose parameters' average over the steps is kept in the state `ax`."""

    _function = staticmethod(asgd)
    _states = ("ax", "mu", "eta", "step")
    _counters = ("step", "eta", "mu")

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def _init_state(self, parameter: torch.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": self._new_step(parameter, group),
            "eta": torch.tensor(as_number(group["lr"]), dtype=_get_scalar_dtype()),
            "mu": torch.ones((), dtype=_get_scalar_dtype()),
            "ax": torch.zeros_like(parameter),
        }
