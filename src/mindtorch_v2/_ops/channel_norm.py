"""Normalisation by channel (dimension 1): over the batch, over groups of channels, over each instance."""

import math
from typing import Any

from .._dispatch.keys import changed_modes
from .._dispatch.registry import registry
from .._dtype import FLOAT, REDUCED, float32
from .declare import composite, function_of
from .families import shape_text
from .norm import layer_norm_with_statistics
from .samples import case, cases, error, t

_pad = function_of(registry.get("constant_pad_nd"))


def _along_channels(parameter: Any, rank: int) -> Any:
    """A value for each channel, shaped to meet a tensor of that rank."""
    return parameter.reshape((-1,) + (1,) * (rank - 2))


def _scaled(normalised: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        normalised = normalised * _along_channels(weight, normalised.dim())
    return normalised if bias is None else normalised + _along_channels(bias, normalised.dim())


def _check_parameters(input: Any, **parameters: Any) -> None:
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    channels = input.shape[1]
    for name, parameter in parameters.items():
        if parameter is not None and parameter.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {parameter.numel()}")
    if input.dtype.category != FLOAT:
        raise NotImplementedError(f"\"batch_norm\" not implemented for '{input.dtype.scalar_name}'")
    for parameter in parameters.values():
        if parameter is not None and parameter.dtype is not input.dtype:
            if input.dtype.np not in REDUCED or parameter.dtype is not float32:
                raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")


# batch_norm ----------------------------------------------------------------------------------------------------------


def _batch_statistics(input: Any, running_mean: Any, running_var: Any, momentum: float, eps: float) -> tuple:
    """The input with every channel normalised over the batch; its means and inverse deviations; running ones updated."""
    channels, rank = input.shape[1], input.dim()
    across = input.transpose(0, 1)
    rows = across.reshape(channels, -1) if input.numel() else across.reshape(channels, 0)
    width = rows.shape[1]
    normalised, mean, rstd = layer_norm_with_statistics(rows, (width,), None, None, eps)
    mean, rstd = mean.detach().reshape(channels), rstd.detach().reshape(channels)
    with changed_modes(grad_enabled=False):
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        if running_var is not None:
            unbiased = (rstd.pow(-2) - eps) * (width / max(width - 1, 1))
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    made = normalised.reshape(across.shape).transpose(0, 1)
    channels_last = rank == 4 and not input.is_contiguous() and _is_channels_last(input)
    return (made if channels_last else made.contiguous()), mean, rstd


def _is_channels_last(input: Any) -> bool:
    return input.stride(1) == 1


_BATCH = "Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps"
_BATCH_SAMPLES = (case(t(4, 3), t(3), t(3), None, None, True, 0.1, 1e-5),
                  case(t(2, 3, 4), None, None, t(3, grad=False), t(3, low=0.5, grad=False), False, 0.1, 1e-5),
                  case(t(2, 3, 2, 2), t(3), t(3), None, None, True, 0.1, 1e-3))  # fmt: skip
