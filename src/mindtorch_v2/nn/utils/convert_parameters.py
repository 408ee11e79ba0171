"""Many parameters as one vector, and back."""

from collections.abc import Iterable

import mindtorch_v2 as torch

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[torch.Tensor]) -> torch.Tensor:
    """All parameters, flattened and joined."""
    flat = []
    device = None
    for parameter in parameters:
        device = _common_device(parameter, device)
        flat.append(parameter.view(-1))
    return torch.cat(flat)


def vector_to_parameters(vec: torch.Tensor, parameters: Iterable[torch.Tensor]) -> None:
    """Makes the parameters' data slices of the vector, in order."""
    if not isinstance(vec, torch.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {torch.typename(vec)}")
    device = None
    start = 0
    for parameter in parameters:
        device = _common_device(parameter, device)
        end = start + parameter.numel()
        parameter.data = vec[start:end].view_as(parameter).data
        start = end


def _common_device(parameter: torch.Tensor, device: torch.device | None) -> torch.device:
    """The device of the parameter, which must be the accelerator that those before it are on, if they are."""
    if device is not None and parameter.device.index != device.index:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return parameter.device
