"""DistributedDataParallel: a module whose gradients are averaged over the processes of a group."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mindtorch_v2 as torch

from ... import distributed as dist
from ..._compat.absent import refuse
from ..._profile import marked
from ...distributed._gradients import (
    BUCKET,
    FIRST_BUCKET,
    GradBucket,
    Reducer,
    _broadcast_coalesced,
    _verify_params_across_processes,
)
from ...distributed._world import known
from ...distributed.algorithms.join import Join, Joinable, JoinHook
from ...futures import Future
from ..modules.module import Module

__all__ = ["DistributedDataParallel"]


class _DataParallelJoinHook(JoinHook):
    """What a rank that has no more inputs does beside those that have."""

    def __init__(self, ddp: "DistributedDataParallel", divide_by_initial_world_size: bool) -> None:
        self.ddp, self.by_initial_size = ddp, divide_by_initial_world_size

    def main_hook(self) -> None:
        ddp = self.ddp
        ddp._sync_buffers_if_wanted()
        syncs = torch.zeros(1)
        dist.all_reduce(syncs, group=ddp.process_group)
        if syncs.item():
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Takes the parameters and buffers of a rank that went on to the end."""
        ddp = self.ddp
        last = torch.tensor([ddp.process_group.rank() if is_last_joiner else -1])
        dist.all_reduce(last, dist.ReduceOp.MAX, group=ddp.process_group)
        _broadcast_coalesced(ddp.process_group, ddp._state(), src=int(last))


class DistributedDataParallel(Module, Joinable):  # type: ignore[misc]
    """Runs `module`; its parameters keep the prefix `module.`. After backward gradients are means over all ranks."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
                 broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None,
                 bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
                 check_reduction: bool = False, gradient_as_bucket_view: bool = False, static_graph: bool = False,
                 delay_all_reduce_named_params: Any = None, param_to_hook_all_reduce: Any = None,
                 mixed_precision: Any = None, device_mesh: Any = None, skip_all_reduce_unused_params: bool = False,
                 bucket_cap_mb_list: Any = None) -> None:
        super().__init__()
        Joinable.__init__(self)
        self.process_group = known(process_group if device_mesh is None else device_mesh.get_group(0))
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        trained = {name: p for name, p in module.named_parameters()
                   if p.requires_grad and name not in self.parameters_to_ignore}
        if not trained:
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameter that "
                               "requires a gradient.")
        devices = {p.device for p in module.parameters()}
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        if (device_ids or output_device is not None) and any(d.type == "cpu" for d in devices):
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
        self.bucket_bytes_cap = BUCKET if bucket_cap_mb is None else int(bucket_cap_mb * 1024 * 1024)
        self.modules_buffers = [b for name, b in module.named_buffers() if name not in self.parameters_to_ignore]
        if init_sync:
            _verify_params_across_processes(self.process_group, list(trained.values()))
            _broadcast_coalesced(self.process_group, self._state())
        limits = [min(FIRST_BUCKET, self.bucket_bytes_cap), self.bucket_bytes_cap]
        self.reducer = Reducer(list(trained.values()), list(trained), self.process_group, limits,
                               gradient_as_bucket_view, find_unused_parameters and not static_graph)
        self.reducer.static = static_graph
        self._comm_hooks: list[tuple[Callable, object]] = []

    def _state(self) -> list[Any]:
        return [t.detach() for name, t in self.module.state_dict(keep_vars=True).items()
                if name not in self.parameters_to_ignore]

    # passes ------------------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        with marked("DistributedDataParallel.forward"):
            return self._forward(*inputs, **kwargs)

    def _forward(self, *inputs: Any, **kwargs: Any) -> Any:
        syncs = torch.is_grad_enabled() and self.require_backward_grad_sync
        if torch.is_grad_enabled():
            self.reducer.check_finished()
        joined = self._join_config.enable
        if joined:
            self._notify_joiners()
        self._sync_buffers_if_wanted()
        if joined:
            dist.all_reduce(torch.ones(1) if syncs else torch.zeros(1), group=self.process_group)
        if self.device_ids:
            inputs, kwargs = self._moved(inputs), self._moved(kwargs)
        output = self.module(*inputs, **kwargs)
        if syncs:
            self.require_forward_param_sync = True
            self.reducer.prepare(output)
        elif torch.is_grad_enabled():
            self.require_forward_param_sync = False
            self.reducer.waits = False
        return output

    def _moved(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(self.device)
        if isinstance(value, dict):
            return type(value)({key: self._moved(each) for key, each in value.items()})
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(self._moved(each) for each in value)
        return value

    def _sync_buffers_if_wanted(self) -> None:
        """Gives all ranks the buffers of the first."""
        if self.require_forward_param_sync and self.broadcast_buffers and self.modules_buffers:
            root = self._buffer_root() if self._join_config.enable else 0
            _broadcast_coalesced(self.process_group, self.modules_buffers, src=root)

    def _buffer_root(self) -> int:
        """The rank with the highest number among those that have inputs."""
        mine = self.process_group.rank() if not self._has_joined else -1
        highest = torch.tensor([mine])
        dist.all_reduce(highest, dist.ReduceOp.MAX, group=self.process_group)
        return int(highest)

    _has_joined = False

    def _notify_joiners(self) -> None:
        work = Join.notify_join_context(self)
        if work is not None and not self._divide_by_initial_world_size:
            work.wait()
            self.reducer.divisor = int(work.result()[0].item())

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are added up and not averaged."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def train(self, mode: bool = True) -> "DistributedDataParallel":
        super().train(mode)
        return self

    # hooks -------------------------------------------------------------------------------------------------------

    def register_comm_hook(self, state: object, hook: Callable[[Any, GradBucket], Future]) -> None:
        """Has `hook(state, bucket)`, a future of the reduced bucket, take the place of the mean."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._comm_hooks.append((hook, state))
        self.reducer.hook = lambda bucket: hook(state, bucket)

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What is known of this module's set-up, by PyTorch's names."""
        return {"world_size": self.process_group.size(), "rank": self.process_group.rank(),
                "module_name": type(self.module).__name__, "backend_name": self.process_group.name(),
                "bucket_cap_bytes": self.bucket_bytes_cap, "broadcast_buffers": self.broadcast_buffers,
                "find_unused_parameters": self.find_unused_parameters,
                "gradient_as_bucket_view": self.gradient_as_bucket_view, "static_graph": self.static_graph,
                "num_parameter_tensors": len(self.reducer.parameters), "can_set_static_graph": False}

    def _set_static_graph(self) -> None:
        if self.static_graph:
            return
        self.static_graph = self.reducer.static = True

    # uneven inputs -----------------------------------------------------------------------------------------------

    _divide_by_initial_world_size = True

    def join(self, divide_by_initial_world_size: bool = True, enable: bool = True,
             throw_on_early_termination: bool = False) -> Join:
        """Inside, ranks may have different numbers of inputs: those that have none left do their part with zeros."""
        return Join([self], enable, throw_on_early_termination,
                    divide_by_initial_world_size=divide_by_initial_world_size)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        self._divide_by_initial_world_size = kwargs.get("divide_by_initial_world_size", True)
        return _DataParallelJoinHook(self, self._divide_by_initial_world_size)

    @property
    def join_device(self) -> Any:
        return self.device

    @property
    def join_process_group(self) -> Any:
        return self.process_group

    # copies ------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("process_group", "reducer"):
            state.pop(name)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = known(None)
        trained = {name: p for name, p in self.module.named_parameters()
                   if p.requires_grad and name not in self.parameters_to_ignore}
        self.reducer = Reducer(list(trained.values()), list(trained), self.process_group,
                               [min(FIRST_BUCKET, self.bucket_bytes_cap), self.bucket_bytes_cap],
                               self.gradient_as_bucket_view, self.find_unused_parameters and not self.static_graph)
        self.reducer.static = self.static_graph
