"""Adam."""

from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from .optimizer import (
    _CAPTURABLE_DEVICES,
    Optimizer,
    ParamsT,
    _get_scalar_dtype,
    _to_scalar,
    _use_grad_for_differentiable,
    check_implementation_flags,
)

__all__ = ["Adam", "adam"]


class Adam(Optimizer):
    """Steps by the running mean of gradients over the root of the running mean of their squares."""

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
        _check_hyperparameters(lr, betas, eps, weight_decay, bool(foreach), capturable)
        defaults = {
            "lr": lr,
            "betas": tuple(beta.squeeze() if isinstance(beta, torch.Tensor) else beta for beta in betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        check_implementation_flags(differentiable, foreach, fused)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("amsgrad", False)
            group.setdefault("maximize", False)
            group.setdefault("foreach", None)
            group.setdefault("capturable", False)
            group.setdefault("differentiable", False)
            group.setdefault("decoupled_weight_decay", False)
            fused = group.setdefault("fused", None)
            for parameter in group["params"]:
                entry = self.state.get(parameter)
                if entry and not isinstance(entry["step"], torch.Tensor):
                    # Old checkpoints count steps in a Python number.
                    device = parameter.device if group["capturable"] or fused else None
                    entry["step"] = torch.tensor(float(entry["step"]), dtype=_get_scalar_dtype(), device=device)

    def _init_state(self, parameter: torch.Tensor, group: dict[str, Any]) -> dict[str, torch.Tensor]:
        """A new parameter's zeros; the step counter stays on the host unless the step runs as one kernel."""
        if group["capturable"] or group["fused"]:
            step = torch.zeros((), dtype=torch.float32, device=parameter.device)
        else:
            step = torch.tensor(0.0, dtype=_get_scalar_dtype())
        state = {
            "step": step,
            "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
        }
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return state

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes one step; the closure, if given, computes the loss anew."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params, gradients, states = [], [], []
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                if gradient.is_sparse:
                    raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")
                state = self.state[parameter]
                if not state:
                    state.update(self._init_state(parameter, group))
                params.append(parameter)
                gradients.append(gradient)
                states.append(state)
            beta1, beta2 = group["betas"]
            adam(
                params,
                gradients,
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [state["max_exp_avg_sq"] for state in states] if group["amsgrad"] else [],
                [state["step"] for state in states],
                capturable=group["capturable"],
                differentiable=group["differentiable"],
                decoupled_weight_decay=group["decoupled_weight_decay"],
                amsgrad=group["amsgrad"],
                beta1=beta1,
                beta2=beta2,
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=group["maximize"],
            )
        return loss


def _check_hyperparameters(
    lr: Any, betas: tuple[Any, Any], eps: float, weight_decay: float, foreach: bool, capturable: bool
) -> None:
    if isinstance(lr, torch.Tensor):
        if foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    if not lr >= 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")
    if not eps >= 0.0:
        raise ValueError(f"Invalid epsilon value: {eps}")
    for index in (0, 1):
        if not 0.0 <= betas[index] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {betas[index]}")
    if not weight_decay >= 0.0:
        raise ValueError(f"Invalid weight_decay value: {weight_decay}")
    if isinstance(betas[0], torch.Tensor) != isinstance(betas[1], torch.Tensor):
        raise ValueError("betas must be either both floats or both Tensors")
    for index, beta in enumerate(betas):
        if isinstance(beta, torch.Tensor):
            if foreach and not capturable:
                raise ValueError(f"betas[{index}] as a Tensor is not supported for capturable=False and foreach=True")
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{index}] must be 1-element")


def adam(
    params: list[torch.Tensor],
    grads: list[torch.Tensor],
    exp_avgs: list[torch.Tensor],
    exp_avg_sqs: list[torch.Tensor],
    max_exp_avg_sqs: list[torch.Tensor],
    state_steps: list[torch.Tensor],
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
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Expected grad_scale and found_inf to be None")
    if not all(isinstance(step, torch.Tensor) for step in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    keeps_graph_of_lr = differentiable and isinstance(lr, torch.Tensor)
    lr = lr if keeps_graph_of_lr else _to_scalar(lr)
    beta1, beta2 = _to_scalar(beta1), _to_scalar(beta2)
    for position, parameter in enumerate(params):
        gradient = -grads[position] if maximize else grads[position]
        mean, square_mean = exp_avgs[position], exp_avg_sqs[position]
        step_counter = state_steps[position]
        if capturable:
            _check_capturable(parameter, step_counter)
        step_counter += 1
        if weight_decay != 0:
            if decoupled_weight_decay:
                parameter.mul_(1 - lr * weight_decay)
            else:
                gradient = gradient.add(parameter, alpha=weight_decay)
        greatest = max_exp_avg_sqs[position] if amsgrad else None
        target = parameter
        if torch.is_complex(parameter):  # real and imaginary parts are treated as separate numbers
            target, gradient = torch.view_as_real(parameter), torch.view_as_real(gradient)
            mean, square_mean = torch.view_as_real(mean), torch.view_as_real(square_mean)
            greatest = torch.view_as_real(greatest) if greatest is not None else None
        mean.lerp_(gradient, 1 - beta1)
        square_mean.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        steps = step_counter.item()
        step_size = lr / (1 - beta1**steps)
        correction = (1 - beta2**steps) ** 0.5
        if greatest is not None:
            greatest.copy_(torch.maximum(greatest, square_mean))
            denominator = (greatest.sqrt() / correction).add_(eps)
        else:
            denominator = (square_mean.sqrt() / correction).add_(eps)
        if keeps_graph_of_lr:
            target.addcmul_(mean / denominator, step_size, value=-1)
        else:
            target.addcdiv_(mean, denominator, value=-step_size)


def _check_capturable(parameter: torch.Tensor, step_counter: torch.Tensor) -> None:
    if not (parameter.device.type == step_counter.device.type and parameter.device.type in _CAPTURABLE_DEVICES):
        raise AssertionError(
            f"If capturable=True, params and state_steps must be on supported devices: {list(_CAPTURABLE_DEVICES)}."
        )
