"""Parts of a batch on several devices, and their results on one."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import mindtorch_v2 as torch

from ..._utils import _get_device_index

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _device(index: int | None) -> torch.device:
    """The device of the accelerator with a number; the CPU is -1."""
    if index == -1:
        return torch.device("cpu")
    kind = torch.accelerator.current_accelerator()
    if kind is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return torch.device(kind.type, index)


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """A list of what each device gets: its part of every tensor, and all else as it is."""
    if isinstance(inputs, torch.Tensor):
        devices = [_device(_get_device_index(each, True)) for each in target_gpus]
        return tuple(part.to(device) for part, device in zip(inputs.chunk(len(devices), dim), devices, strict=False))
    if isinstance(inputs, (tuple, list, dict)) and inputs:
        values = inputs.items() if isinstance(inputs, dict) else inputs
        parts = zip(*(scatter(value, target_gpus, dim) for value in values), strict=False)
        rebuild: Callable = type(inputs)._make if _is_namedtuple(inputs) else (  # type: ignore[union-attr]
            tuple if isinstance(inputs, tuple) else list if isinstance(inputs, list) else type(inputs))
        return [rebuild(part) for part in parts]
    return [inputs for _ in target_gpus]


def scatter_kwargs(inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any],
                   dim: int = 0) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """The arguments by position and by name of each device."""
    by_position = list(scatter(inputs, target_gpus, dim)) if inputs else []
    by_name = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    by_position += [()] * (len(by_name) - len(by_position))
    by_name += [{} for _ in range(len(by_position) - len(by_name))]
    return tuple(by_position), tuple(by_name)


def _gathered(tensors: Sequence[torch.Tensor], target_device: Any, dim: int) -> torch.Tensor:
    if any(tensor.device.type == "cpu" for tensor in tensors):
        raise AssertionError("Gather function not implemented for CPU tensors")
    if dim == 0 and all(tensor.dim() == 0 for tensor in tensors):
        warnings.warn("Was asked to gather along dimension 0, but all input tensors were scalars; will instead "
                      "unsqueeze and return a vector.", stacklevel=3)
        tensors = [tensor.view(1) for tensor in tensors]
    device = _device(_get_device_index(target_device, True, allow_cpu=True))
    return torch.cat([tensor.to(device) for tensor in tensors], dim)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """One result of those of several devices: tensors are joined."""
    first = outputs[0]
    if isinstance(first, torch.Tensor):
        return _gathered(outputs, target_device, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(each) != len(first) for each in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([each[key] for each in outputs], target_device, dim)) for key in first)
    joined = (gather(each, target_device, dim) for each in zip(*outputs, strict=True))
    return type(first)._make(joined) if _is_namedtuple(first) else type(first)(joined)
