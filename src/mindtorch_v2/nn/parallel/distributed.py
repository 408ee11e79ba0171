"""DistributedDataParallel: a module whose gradients are averaged over the processes of a group."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ... import distributed as dist
from ..._compat.absent import refuse
from ..modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Runs `module`; its parameters keep the prefix `module.`. With one process its gradients are the averages."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
                 broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
                 bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
                 check_reduction: bool = False, gradient_as_bucket_view: bool = False, static_graph: bool = False,
                 delay_all_reduce_named_params: Any = None, param_to_hook_all_reduce: Any = None,
                 mixed_precision: Any = None, device_mesh: Any = None, skip_all_reduce_unused_params: bool = False,
                 bucket_cap_mb_list: Any = None) -> None:
        super().__init__()
        self.process_group = dist.distributed_c10d._known(process_group)
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        trained = [p for name, p in module.named_parameters()
                   if p.requires_grad and name not in self.parameters_to_ignore]
        if not trained:
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameter that "
                               "requires a gradient.")
        devices = {p.device for p in module.parameters()}
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        if device_ids and any(d.type == "cpu" for d in devices):
            raise ValueError("DistributedDataParallel device_ids and output_device arguments only work with "
                             "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
                             f"{device_ids}, output_device {output_device}, and module parameters {devices}.")
        if mixed_precision is not None:
            refuse("torch.nn.parallel.DistributedDataParallel(mixed_precision=...)", "Use torch.autocast.")
        self.module, self.dim = module, dim
        self.device_ids = None if not device_ids else [getattr(d, "index", d) for d in device_ids]
        self.output_device = self.device_ids[0] if self.device_ids and output_device is None else output_device
        self.device = next(iter(devices))
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        if init_sync:
            state = [t.detach() for name, t in module.state_dict(keep_vars=True).items()
                     if name not in self.parameters_to_ignore]
            self.process_group.broadcast(state, 0).wait()

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are added up and not averaged."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(self, divide_by_initial_world_size: bool = True, enable: bool = True,
             throw_on_early_termination: bool = False) -> Iterator[None]:
        """Inside, processes may have different numbers of inputs; one process has its own."""
        yield

    def train(self, mode: bool = True) -> "DistributedDataParallel":
        super().train(mode)
        return self

    def register_comm_hook(self, state: object, hook: Any) -> None:
        refuse("torch.nn.parallel.DistributedDataParallel.register_comm_hook", "One process averages nothing.")

    def _set_static_graph(self) -> None:
        self.static_graph = True
