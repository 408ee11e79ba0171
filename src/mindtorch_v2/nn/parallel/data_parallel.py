"""DataParallel: a batch over several devices of one process; without an accelerator it is the module itself."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import mindtorch_v2 as torch

from ..._profile import marked
from ..._utils import _get_device_index
from ..modules.module import Module
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import _device, gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


def _numbers(device_ids: Any) -> list[Any]:
    """The numbers of the devices to use; all where none is given."""
    ids = range(torch.accelerator.device_count()) if device_ids is None else device_ids
    return [_get_device_index(each, True) for each in ids]


def _check_place(module: Module, source: torch.device) -> None:
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.device != source:
            raise RuntimeError(f"module must have its parameters and buffers on device {source} (device_ids[0]) but "
                               f"found one of them on device: {tensor.device}")


class DataParallel(Module):
    """Runs copies of `module` on parts of a batch, one for each device, and joins what they give.

    The parameters keep the prefix `module.`; they lie on the first device, where their gradients are summed.
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module, self.device_ids = module, []
        if not torch.accelerator.is_available():
            return
        self.dim, self.device_ids = dim, _numbers(device_ids)
        self.output_device = _get_device_index(self.device_ids[0] if output_device is None else output_device, True)
        self.src_device_obj = _device(self.device_ids[0])
        if len(self.device_ids) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        with marked("DataParallel.forward"):
            if not self.device_ids:
                return self.module(*inputs, **kwargs)
            _check_place(self.module, self.src_device_obj)
            by_position, by_name = self.scatter(inputs, kwargs, self.device_ids)
            if not by_position and not by_name:
                by_position, by_name = ((),), ({},)
            if len(self.device_ids) == 1:
                return self.module(*by_position[0], **by_name[0])
            replicas = self.replicate(self.module, self.device_ids[:len(by_position)])
            return self.gather(self.parallel_apply(replicas, by_position, by_name), self.output_device)

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Module]:
        return replicate(module, device_ids, not torch.is_grad_enabled())

    def scatter(self, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, device_ids: Sequence[Any]) -> Any:
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas: Sequence[Module], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[:len(replicas)])

    def gather(self, outputs: Any, output_device: Any) -> Any:
        return gather(outputs, output_device, dim=self.dim)


def data_parallel(module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
                  module_kwargs: dict | None = None) -> Any:
    """What `DataParallel(module)` gives for these inputs, a tuple or the only one."""
    if not torch.accelerator.is_available():
        raise RuntimeError("device type could not be determined")
    arguments = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    parallel = DataParallel(module, device_ids, output_device, dim)
    return parallel(*arguments, **(module_kwargs or {}))
