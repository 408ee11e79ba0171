"""Adagrad."""

from typing import Any

import mindtorch_v2 as torch

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
)
from .optimizer import ParamsT

__all__ = ["Adagrad", "adagrad"]


def adagrad(
    params: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    fused: bool | None = None,
    grad_scale: torch.Tensor | None = None,
    found_inf: torch.Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Makes one step with the given gradients and sums of squares."""
    check_call(params, state_steps, foreach, differentiable)
    if not params:
        return
    lr = as_number(lr, differentiable)
    advance(state_steps)
    whole = not has_sparse_grad and runs_whole((params, grads, state_sums), differentiable)
    if whole or fused:
        options: dict[str, Any] = {
            "lr_decay": float(lr_decay), "weight_decay": float(weight_decay), "eps": eps, "maximize": bool(maximize),
        }  # fmt: skip
        with rounding(between=not fused):
            torch._fused_adagrad_(
                params, grads, state_sums, state_steps, lr=float(lr), grad_scale=grad_scale, found_inf=found_inf,
                **options,
            )  # fmt: skip
        if found_inf is not None:  # a step that was left out does not count
            torch._foreach_sub_(state_steps, found_inf.item())
        return
    for parameter, gradient, total, step in zip(params, grads, state_sums, state_steps, strict=True):
        rate = lr / (1 + (step.item() - 1) * lr_decay)
        if gradient.is_sparse:
            if weight_decay != 0:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            _sparse_step(parameter, -gradient if maximize else gradient, total, rate, eps)
            continue
        gradient = decayed(parameter, gradient, weight_decay, maximize)
        target, gradient, total = real_views(parameter, gradient, total)
        total.addcmul_(gradient, gradient, value=1)
        descend_quotient(target, gradient, total.sqrt() + eps, rate)


def _sparse_step(parameter: torch.Tensor, gradient: torch.Tensor, total: torch.Tensor, rate: float, eps: float) -> None:
    """The step of those elements that a sparse gradient names."""
    gradient = gradient.coalesce()
    places, values = tuple(gradient._indices()), gradient._values()
    total.index_put_(places, values * values, accumulate=True)
    root = total[places].sqrt_().add_(eps)
    parameter.index_put_(places, values / root * -rate, accumulate=True)


class Adagrad(ListOptimizer):
    """Steps by the gradient over the root of the sum of all squares so far."""

    _function = staticmethod(adagrad)
    _states = ("sum", "step")
    _in_blocks = True
    _added = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay)
        check_options(initial_accumulator_value=initial_accumulator_value, eps=eps)
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        })  # fmt: skip
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter].update(self._init_state(parameter, group))

    def share_memory(self) -> None:
        """Moves the sums to memory that other processes see."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def _init_state(self, parameter: torch.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        start = group["initial_accumulator_value"]
        value = complex(start, start) if parameter.is_complex() else start
        return {"step": self._new_step(parameter, group), "sum": torch.full_like(parameter, value)}

    def _take_sparse(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        """Sparse gradients are welcome."""

    def _options(self, group: dict[str, Any]) -> dict[str, Any]:
        sparse = any(parameter.grad is not None and parameter.grad.is_sparse for parameter in group["params"])
        return {**super()._options(group), "has_sparse_grad": sparse}
