"""Initialisation of tensors, with the draws PyTorch makes in the order it makes them."""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import mindtorch_v2 as torch

from .._ops._declare.documentation import explain

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {
    **dict.fromkeys(
        (
            "linear",
            "conv1d",
            "conv2d",
            "conv3d",
            "conv_transpose1d",
            "conv_transpose2d",
            "conv_transpose3d",
            "sigmoid",
        ),
        1,
    ),
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights before that nonlinearity should be larger."""
    if isinstance(nonlinearity, str) and nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    if param is None:
        slope: float = 0.01
    elif isinstance(param, (int, float)) and not isinstance(param, bool):
        slope = param
    else:
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


def uniform_(tensor: torch.Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> torch.Tensor:
    """The tensor, filled from the uniform distribution over [a, b)."""
    with torch.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: torch.Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> torch.Tensor:
    """The tensor, filled from the normal distribution."""
    with torch.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: torch.Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> torch.Tensor:
    """The tensor, filled from the normal distribution limited to [a, b]."""

    def cumulative(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    if not tensor.is_meta:
        with torch.no_grad():
            if cumulative((b - mean) / std) - cumulative((a - mean) / std) > 0.3:
                _draw_normals_until_inside(tensor, mean, std, a, b, generator)
            else:
                _draw_uniforms_until_accepted(tensor, mean, std, a, b, generator)
    return tensor


def _draw_normals_until_inside(
    tensor: torch.Tensor, mean: float, std: float, a: float, b: float, generator: Any
) -> None:
    """Fills the tensor with normal numbers; those outside [a, b] are replaced from a full new draw, until none is."""
    low, high = (tensor.new_tensor(bound, device="cpu").item() for bound in (a, b))  # as the tensor's dtype has them
    tensor.normal_(mean, std, generator=generator)
    outside = (tensor < low) | (tensor > high)
    while outside.any():
        redrawn = torch.empty_like(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(torch.where(outside, redrawn, tensor))
        outside = (tensor < low) | (tensor > high)


def _draw_uniforms_until_accepted(
    tensor: torch.Tensor, mean: float, std: float, a: float, b: float, generator: Any
) -> None:
    """Fills the tensor with uniform numbers of [a, b], each accepted with a chance in proportion to its density."""
    mode = max(a, min(mean, b))
    greatest = -0.5 * ((mode - mean) / std) ** 2
    pending = torch.ones_like(tensor, dtype=torch.bool)
    while pending.any():
        candidates = torch.empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(torch.where(pending, candidates, tensor))
        log_density = candidates.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(greatest)
        pending &= torch.empty_like(tensor).uniform_(generator=generator).log_().gt(log_density)


def constant_(tensor: torch.Tensor, val: float) -> torch.Tensor:
    """The tensor, filled with one value."""
    with torch.no_grad():
        return tensor.fill_(val)


def ones_(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, filled with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, filled with zeros."""
    with torch.no_grad():
        return tensor.zero_()


def eye_(tensor: torch.Tensor) -> torch.Tensor:
    """The matrix, made the identity as far as its shape allows."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with torch.no_grad():
        torch.eye(*tensor.shape, out=tensor, requires_grad=tensor.requires_grad)
    return tensor


def dirac_(tensor: torch.Tensor, groups: int = 1) -> torch.Tensor:
    """The convolution weight, made to pass as many channels unchanged as it can."""
    dimensions = tensor.ndimension()
    if dimensions not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    out_channels = sizes[0] // groups
    centre = tuple(size // 2 for size in sizes[2:])
    with torch.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(out_channels, sizes[1])):
                tensor[(group * out_channels + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: torch.Tensor) -> tuple[int, int]:
    """How many inputs reach one output, and how many outputs one input reaches."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    receptive_field = math.prod(tensor.shape[2:])
    return tensor.size(1) * receptive_field, tensor.size(0) * receptive_field


def _calculate_correct_fan(tensor: torch.Tensor, mode: str) -> int:
    """The fan that `mode` names."""
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(tensor: torch.Tensor, gain: float = 1.0, generator: Any = None) -> torch.Tensor:
    """The tensor, filled uniformly so that variances survive forward and backward on average."""
    std = _xavier_std(tensor, gain)
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: torch.Tensor, gain: float = 1.0, generator: Any = None) -> torch.Tensor:
    """The tensor, filled normally so that variances survive forward and backward on average."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: torch.Tensor, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


def kaiming_uniform_(
    tensor: torch.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> torch.Tensor:
    """The tensor, filled uniformly so that variances survive the layer and its nonlinearity."""
    if _has_no_elements(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: torch.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> torch.Tensor:
    """The tensor, filled normally so that variances survive the layer and its nonlinearity."""
    if _has_no_elements(tensor):
        return tensor
    return normal_(tensor, 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: torch.Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _has_no_elements(tensor: torch.Tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


def orthogonal_(tensor: torch.Tensor, gain: float = 1, generator: Any = None) -> torch.Tensor:
    """The tensor, filled so that as a matrix (first dimension, all others) it is orthogonal times `gain`."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    flattened = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    if rows < columns:
        flattened.t_()
    q, r = torch.linalg.qr(flattened)
    q *= torch.diag(r, 0).sign()  # makes the decomposition unique, and so the draw uniform
    if rows < columns:
        q.t_()
    with torch.no_grad():
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: torch.Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> torch.Tensor:
    """The matrix, filled normally but for a share `sparsity` of zeros in every column."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with torch.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[torch.randperm(rows)[:zeros], column] = 0
    return tensor


def _deprecated_name(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The same function under its old name, without the underscore, which warns."""
    new_name = function.__name__
    old_name = new_name[:-1]

    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> torch.Tensor:
        warnings.warn(
            f"`nn.init.{old_name}` is now deprecated in favor of `nn.init.{new_name}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    renamed.__name__ = old_name
    renamed.__doc__ = f"The old name of {new_name}."
    return renamed


uniform = _deprecated_name(uniform_)
normal = _deprecated_name(normal_)
constant = _deprecated_name(constant_)
eye = _deprecated_name(eye_)
dirac = _deprecated_name(dirac_)
xavier_uniform = _deprecated_name(xavier_uniform_)
xavier_normal = _deprecated_name(xavier_normal_)
kaiming_uniform = _deprecated_name(kaiming_uniform_)
kaiming_normal = _deprecated_name(kaiming_normal_)
orthogonal = _deprecated_name(orthogonal_)
sparse = _deprecated_name(sparse_)
explain("nn_init", globals())
