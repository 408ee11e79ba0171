"""Rprop."""

from typing import Any

import mindtorch_v2 as torch

from ._lists import ListOptimizer, Tensors, as_number, check_call, check_options, stepping
from .optimizer import ParamsT

__all__ = ["Rprop", "rprop"]


def rprop(
    params: Tensors,
    grads: Tensors,
    prevs: Tensors,
    step_sizes: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """Makes one step with the given gradients, those of the step before, and step sizes."""
    check_call(params, state_steps, foreach, differentiable, capturable)
    for target, gradient, previous, size, _ in stepping(
        params, grads, prevs, step_sizes, state_steps=state_steps, maximize=maximize
    ):
        agreement = gradient * (previous.clone() if differentiable else previous)
        turned = agreement < 0
        factor = torch.ones_like(size).masked_fill_(agreement > 0, etaplus).masked_fill_(turned, etaminus)
        size.mul_(factor).clamp_(step_size_min, step_size_max)
        gradient = gradient.masked_fill(turned, 0)  # after a turn the parameter rests for a step
        target.addcmul_(gradient.sign(), size.clone() if differentiable else size, value=-1)
        previous.copy_(gradient)


class Rprop(ListOptimizer):
    """Steps by the gradient's sign times a size of each element's own, which grows until the sign turns."""

    _function = staticmethod(rprop)
    _states = ("prev", "step_size", "step")

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })  # fmt: skip

    def _init_state(self, parameter: torch.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        rate = as_number(group["lr"])
        return {
            "step": self._new_step(parameter, group),
            "prev": torch.zeros_like(parameter),
            "step_size": torch.full_like(parameter, complex(rate, rate) if parameter.is_complex() else rate),
        }

    def _options(self, group: dict[str, Any]) -> dict[str, Any]:
        (minus, plus), (least, most) = group["etas"], group["step_sizes"]
        sizes = {"etaminus": minus, "etaplus": plus, "step_size_min": least, "step_size_max": most}
        return {**super()._options(group), **sizes}
