"""Copies of a module on several devices, through which gradients reach the original."""

from collections.abc import Sequence
from typing import Any

import mindtorch_v2 as torch

from ..._utils import _get_device_index
from ..modules.module import Module
from .scatter_gather import _device

__all__ = ["replicate"]


def _copies(tensor: torch.Tensor, numbers: Sequence[int | None], detach: bool) -> list[torch.Tensor]:
    """A tensor on each device; on its own it shares the original's memory."""
    if tensor.device.type == "cpu":
        raise AssertionError("Broadcast function not implemented for CPU tensors")
    source = tensor.detach() if detach or not tensor.requires_grad else tensor
    return [source.view_as(source) if device == tensor.device else source.to(device)
            for device in map(_device, numbers)]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A copy of a module for each device. Its tensors are plain attributes, made of those of the original."""
    if not devices:
        return []
    numbers = [_get_device_index(device, True) for device in devices]
    copies = {id(tensor): _copies(tensor, numbers, detach)
              for tensor in [*network.parameters(), *network.buffers()]}
    modules = list(network.modules())
    replicas = []
    for at in range(len(numbers)):
        made = {id(module): module._replicate_for_data_parallel() for module in modules}
        for module in modules:
            replica = made[id(module)]
            for name, child in module._modules.items():
                replica._modules[name] = None if child is None else made[id(child)]
            replica._former_parameters = {}
            for name, parameter in module._parameters.items():
                if parameter is None:
                    replica._parameters[name] = None
                else:
                    setattr(replica, name, copies[id(parameter)][at])
                    replica._former_parameters[name] = copies[id(parameter)][at]
            for name, buffer in module._buffers.items():
                replica._buffers[name] = None if buffer is None else copies[id(buffer)][at]
        replicas.append(made[id(network)])
    return replicas
