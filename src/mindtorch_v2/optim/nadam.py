"""NAdam."""

from typing import Any

import mindtorch_v2 as torch

from ._lists import (
    ListOptimizer,
    Tensors,
    as_number,
    check_call,
    check_options,
    descend_quotient,
    stepping,
    update_moments,
)
from .optimizer import ParamsT, _get_scalar_dtype

__all__ = ["NAdam", "nadam"]


def nadam(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    mu_products: Tensors,
    state_steps: Tensors,
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """Makes one step with the given gradients, running means and products of past momenta."""
    check_call(params, state_steps, foreach, differentiable, capturable, "params, mu_products and state_steps")
    lr = as_number(lr, differentiable)
    for target, gradient, mean, square_mean, product, step in stepping(
        params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps=state_steps, weight_decay=weight_decay,
        maximize=maximize, apart=lr if decoupled_weight_decay else None,
    ):  # fmt: skip
        steps = step.item()
        momentum, next_momentum = (beta1 * (1 - 0.5 * 0.96 ** (n * momentum_decay)) for n in (steps, steps + 1))
        product *= momentum
        update_moments(mean, square_mean, gradient, beta1, beta2)
        below = (square_mean / (1 - beta2**steps)).sqrt() + eps
        past = product if differentiable else product.item()
        descend_quotient(target, gradient, below, lr * (1 - momentum) / (1 - past))
        descend_quotient(target, mean, below, lr * next_momentum / (1 - past * next_momentum))


class NAdam(ListOptimizer):
    """Adam with Nesterov's momentum, which grows to beta1."""

    _function = staticmethod(nadam)
    _states = ("exp_avg", "exp_avg_sq", "mu_product", "step")
    _counters = ("step", "mu_product")
    _added = {
        "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "decoupled_weight_decay": False,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        })  # fmt: skip

    def _init_state(self, parameter: torch.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": self._new_step(parameter, group),
            "mu_product": torch.ones((), dtype=_get_scalar_dtype()),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
