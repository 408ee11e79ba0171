"""Limiting the size of gradients."""

import warnings
from collections.abc import Iterable
from types import GeneratorType
from typing import Any

import mindtorch_v2 as torch

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

_TensorOrTensors = torch.Tensor | Iterable[torch.Tensor]


def get_total_norm(
    tensors: _TensorOrTensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> torch.Tensor:
    """The norm of all tensors together, as if they were one vector."""
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return torch.tensor(0.0)
    with torch.no_grad():
        first_device = tensors[0].device
        norms = [torch.linalg.vector_norm(tensor, norm_type) for tensor in tensors]
        total_norm = torch.linalg.vector_norm(torch.stack([norm.to(first_device) for norm in norms]), norm_type)
    if error_if_nonfinite and torch.logical_or(total_norm.isnan(), total_norm.isinf()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from "
            "`parameters` is non-finite, so it cannot be clipped. To disable "
            "this error and scale the gradients by the non-finite norm anyway, "
            "set `error_if_nonfinite=False`"
        )
    return total_norm


def clip_grads_with_norm_(
    parameters: _TensorOrTensors, max_norm: float, total_norm: torch.Tensor, foreach: bool | None = None
) -> None:
    """Scales the gradients by max_norm / total_norm where that is below one."""
    gradients = _gradients(parameters)
    with torch.no_grad():
        # No test whether the norm is too large: a factor limited to 1 needs no value on the host.
        factor = torch.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
        for gradient in gradients:
            gradient.mul_(factor.to(gradient.device))


def clip_grad_norm_(
    parameters: _TensorOrTensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> torch.Tensor:
    """Scales the gradients so that their norm together is at most max_norm; returns the norm they had."""
    if isinstance(parameters, torch.Tensor):
        parameters = [parameters]
    else:
        is_generator = isinstance(parameters, GeneratorType)
        parameters = list(parameters)
        if is_generator and not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    total_norm = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total_norm, foreach)
    return total_norm


def clip_grad_norm(
    parameters: _TensorOrTensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> torch.Tensor:
    """The old name of clip_grad_norm_."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: _TensorOrTensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limits every element of the gradients to [-clip_value, clip_value]."""
    limit, gradients = float(clip_value), _gradients(parameters)
    if not gradients:
        raise RuntimeError("clip_grad_value_: none of the parameters has a gradient")
    with torch.no_grad():
        if all(type(gradient) is torch.Tensor and not gradient.is_sparse for gradient in gradients):
            torch._foreach_clamp_min_(gradients, -limit)
            torch._foreach_clamp_max_(gradients, limit)
        else:
            for gradient in gradients:
                gradient.clamp_(min=-limit, max=limit)


def _gradients(parameters: Any) -> list[torch.Tensor]:
    if isinstance(parameters, torch.Tensor):
        parameters = [parameters]
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
