"""RMSprop."""

from typing import Any

import mindtorch_v2 as torch

from ._lists import (
    ListOptimizer,
    Tensors,
    as_number,
    check_call,
    check_options,
    decayed,
    descend,
    descend_quotient,
    real_views,
)
from .optimizer import ParamsT

__all__ = ["RMSprop", "rmsprop"]


def rmsprop(
    params: Tensors,
    grads: Tensors,
    square_avgs: Tensors,
    grad_avgs: Tensors,
    momentum_buffer_list: Tensors,
    state_steps: Tensors,
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """Makes one step with the given gradients and running means."""
    check_call(params, state_steps, foreach, differentiable, capturable)
    lr = as_number(lr, differentiable)
    for position, step in enumerate(state_steps):
        step += 1
        parameter, square_mean = params[position], square_avgs[position]
        gradient = decayed(parameter, grads[position], weight_decay, maximize)
        target, gradient, square_mean = real_views(parameter, gradient, square_mean)
        square_mean.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
        if centered:
            (mean,) = real_views(grad_avgs[position])
            mean.lerp_(gradient, 1 - alpha)
            root = square_mean.addcmul(mean, mean, value=-1).sqrt()
        else:
            root = square_mean.sqrt()
        root = root + eps
        if momentum > 0:
            (buffer,) = real_views(momentum_buffer_list[position])
            buffer.mul_(momentum).addcdiv_(gradient, root)
            descend(target, buffer, lr)
        else:
            descend_quotient(target, gradient, root, lr)


class RMSprop(ListOptimizer):
    """Steps by the gradient over the root of the running mean of squares, centered or with momentum if asked for."""

    _function = staticmethod(rmsprop)
    _states = ("square_avg", "grad_avg", "momentum_buffer", "step")
    _optional = ("grad_avg", "momentum_buffer")
    _added = {
        "momentum": 0, "centered": False, "foreach": None, "maximize": False, "differentiable": False,
        "capturable": False,
    }  # fmt: skip

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        })  # fmt: skip

    def _init_state(self, parameter: torch.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        wanted = ["square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * group["centered"]
        return {"step": self._new_step(parameter, group), **{name: torch.zeros_like(parameter) for name in wanted}}
