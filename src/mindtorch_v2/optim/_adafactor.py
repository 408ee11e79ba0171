"""Adafactor."""

from typing import Any

import mindtorch_v2 as torch

from ._lists import ListOptimizer, Tensors, as_number, at_least
from .optimizer import ParamsT

__all__ = ["Adafactor", "adafactor"]


def adafactor(
    params: Tensors,
    grads: Tensors,
    row_vars: list[torch.Tensor | None],
    col_vars: list[torch.Tensor | None],
    variances: list[torch.Tensor | None],
    state_steps: Tensors,
    foreach: bool | None = None,
    grad_scale: torch.Tensor | None = None,
    found_inf: torch.Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | torch.Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """Makes one step with the given gradients and means of squares, of matrices by rows and by columns."""
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Grad scaling should occur outside of optimizer.step()")
    if not all(isinstance(step, torch.Tensor) for step in state_steps):
        raise RuntimeError("`state_steps` argument must contain a list of singleton tensors")
    rate = as_number(lr)
    for position, (parameter, gradient, step) in enumerate(zip(params, grads, state_steps, strict=True)):
        if maximize:
            gradient = -gradient
        step += 1
        steps = step.item()
        epsilon = torch.finfo(parameter.dtype).eps if eps1 is None else eps1
        weight = steps**beta2_decay
        size = max(eps2, _root_mean_square(parameter)) * min(rate, steps**-0.5)
        if weight_decay != 0:
            parameter.mul_(1 - rate * weight_decay)
        row_var, col_var, variance = row_vars[position], col_vars[position], variances[position]
        if row_var is not None and col_var is not None:
            row_var.lerp_(gradient.norm(dim=-1, keepdim=True).square_().div_(gradient.size(-1)), weight)
            col_var.lerp_(gradient.norm(dim=-2, keepdim=True).square_().div_(gradient.size(-2)), weight)
            estimate = (row_var @ col_var).div_(row_var.mean(dim=-2, keepdim=True).clamp_(min=epsilon))
        else:
            assert variance is not None
            variance.lerp_(gradient * gradient, weight)
            estimate = variance.clone()
        update = estimate.clamp_(min=epsilon * epsilon).rsqrt_().mul_(gradient)
        parameter.add_(update, alpha=-size / max(1.0, _root_mean_square(update) / d))


def _root_mean_square(tensor: torch.Tensor) -> float:
    return tensor.norm(2).item() / tensor.numel() ** 0.5


class Adafactor(ListOptimizer):
    """Adam without momentum that keeps, of a matrix's mean squares, only their means over rows and columns."""

    _function = staticmethod(adafactor)
    _states = ("row_var", "col_var", "variance", "step")
    _added = {"foreach": None}

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for fits, text in (
            (at_least(0.0, lr), f"Learning rate should be >= 0 but is: {lr}"),
            (at_least(beta2_decay, 0.0), f"beta2_decay should be <= 0 but is: {beta2_decay}"),
            (eps[0] is None or at_least(0.0, eps[0]), f"epsilon1 should be >= 0 but is: {eps[0]}"),
            (at_least(0.0, eps[1]), f"epsilon2 should be >= 0 but is: {eps[1]}"),
            (at_least(1.0, d), f"Clipping threshold d should be >= 1 but is: {d}"),
            (at_least(0.0, weight_decay), f"weight_decay should be >= 0 but is: {weight_decay}"),
        ):
            if not fits:
                raise ValueError(text)
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize,
        })  # fmt: skip

    def _init_state(self, parameter: torch.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = {"step": self._new_step(parameter, group)}
        if parameter.dim() > 1:
            *outer, rows, columns = parameter.shape
            state["row_var"] = parameter.new_zeros((*outer, rows, 1))
            state["col_var"] = parameter.new_zeros((*outer, 1, columns))
        else:
            state["variance"] = torch.zeros_like(parameter)
        return state

    def _update(self, group: dict[str, Any]) -> None:
        params, gradients, states = self._lists(group)
        if any(parameter.is_complex() for parameter in params):
            raise RuntimeError("Adafactor does not support complex parameters")
        lists: list[Any] = [[state.get(name) for state in states] for name in self._states]
        eps1, eps2 = group["eps"]
        adafactor(params, gradients, *lists, eps1=eps1, eps2=eps2, **self._options(group))
