"""Muon."""

import math
from typing import Any, ClassVar

import mindtorch_v2 as torch

from ._lists import ListOptimizer, Tensors, as_number, at_least
from .optimizer import ParamsT

__all__ = ["Muon"]

DEFAULT_A, DEFAULT_B, DEFAULT_C = 3.4445, -4.7750, 2.0315
DEFAULT_NS_STEPS = 5
EPS = 1e-7


def _zeropower_via_newtonschulz(
    grad: torch.Tensor, ns_coefficients: tuple[float, float, float], ns_steps: int, eps: float
) -> torch.Tensor:
    """About the nearest matrix with orthonormal rows or columns, by an iteration in bfloat16."""
    if ns_steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if grad.dim() != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(ns_coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = ns_coefficients
    made = grad.bfloat16()
    tall = grad.size(0) > grad.size(1)
    if tall:
        made = made.T
    made = made / made.norm().clamp(min=eps)  # so that no singular value is above 1
    for _ in range(ns_steps):
        gram = made @ made.T
        made = torch.addmm(made, torch.addmm(gram, gram, gram, beta=b, alpha=c), made, beta=a)
    return made.T if tall else made


def _adjust_lr(lr: float, adjust_lr_fn: str | None, param_shape: torch.Size) -> float:
    """The rate for a matrix of this shape: as the method's authors have it, or such that steps are of AdamW's size."""
    rows, columns = param_shape[:2]
    if adjust_lr_fn == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr * math.sqrt(max(1, rows / columns))


def muon(
    params: Tensors,
    grads: Tensors,
    muon_momentum_bufs: Tensors,
    *,
    foreach: bool | None = None,
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """Makes one step with the given gradients and their running means."""
    if foreach:
        raise RuntimeError("Foreach is not supported for Muon yet")
    if has_complex:
        raise ValueError("Complex parameters are not supported")
    lr = as_number(lr)
    for parameter, gradient, buffer in zip(params, grads, muon_momentum_bufs, strict=True):
        if gradient.dim() != 2:
            raise ValueError("Param gradient must be a 2D matrix")
        buffer.lerp_(gradient, 1 - momentum)
        direction = gradient.lerp(buffer, momentum) if nesterov else buffer
        direction = _zeropower_via_newtonschulz(direction, ns_coefficients, ns_steps, eps)
        parameter.mul_(1 - lr * weight_decay)
        parameter.add_(direction, alpha=-_adjust_lr(lr, adjust_lr_fn, parameter.shape))


class Muon(ListOptimizer):
    """Steps of matrices by the orthogonalised running mean of their gradients."""

    _function = staticmethod(muon)
    _elementwise = False
    _states = ("momentum_buffer",)
    _added: ClassVar[dict[str, Any]] = {}
    _counters = ()

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (DEFAULT_A, DEFAULT_B, DEFAULT_C),
        eps: float = EPS,
        ns_steps: int = DEFAULT_NS_STEPS,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, torch.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if not at_least(0.0, value):
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        })  # fmt: skip
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {parameter.size()}"
                    )

    def _init_state(self, parameter: torch.Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if parameter.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        assert parameter.grad is not None
        return {"momentum_buffer": torch.zeros_like(parameter.grad)}

    def _options(self, group: dict[str, Any]) -> dict[str, Any]:
        return {**super()._options(group), "has_complex": False}
