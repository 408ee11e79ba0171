"""FullyShardedDataParallel: the wrapper of PyTorch's first version, on the machinery of `fully_shard`."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import mindtorch_v2 as torch

from ...nn import Module, Parameter
from ...nn.utils import clip_grad_norm_
from .. import _collectives as collectives
from ..device_mesh import DeviceMesh
from ..tensor import DTensor
from ..tensor._redistribute import redistributed
from ..tensor.placement_types import Replicate
from ._fully_shard import applied, fully_shard, groups_of
from ._parameter import FSDPParam
from ._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from .api import *  # noqa: F403
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictSettings,
    StateDictType,
)
from .api import __all__ as _names
from .wrap import wrapped_inside

__all__ = ["FullyShardedDataParallel", *_names]  # noqa: PLE0604 - names of strings

FSDP_WRAPPED_MODULE = "_fsdp_wrapped_module"
FSDP_PREFIX = FSDP_WRAPPED_MODULE + "."
_CONFIGS: dict[StateDictType, tuple[type, type]] = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_ZERO2 = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)


class FullyShardedDataParallel(Module):
    """A module whose parameters are in pieces; those inside that a policy picks are gathered on their own."""

    def __init__(self, module: Module, process_group: Any = None, sharding_strategy: ShardingStrategy | None = None,
                 cpu_offload: CPUOffload | None = None, auto_wrap_policy: Any = None,
                 backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
                 mixed_precision: MixedPrecision | None = None, ignored_modules: Iterable[Module] | None = None,
                 param_init_fn: Callable[[Module], None] | None = None, device_id: Any = None,
                 sync_module_states: bool = False, forward_prefetch: bool = False, limit_all_gathers: bool = True,
                 use_orig_params: bool = False, ignored_states: Iterable[Any] | None = None,
                 device_mesh: DeviceMesh | None = None) -> None:
        super().__init__()
        states = list(ignored_states or ())
        left_out = [*(ignored_modules or ()), *(state for state in states if isinstance(state, Module))]
        ignored = {p for part in left_out for p in part.parameters()} | {s for s in states if isinstance(s, Parameter)}
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        mesh = device_mesh or _mesh_of(process_group, strategy, module, device_id)
        if sync_module_states:
            _broadcast_states(module, ignored)
        if auto_wrap_policy is not None:
            inside = {part for outer in left_out for part in outer.modules()}
            wrapped_inside(module, auto_wrap_policy, FullyShardedDataParallel, inside, **{
                "sharding_strategy": strategy, "cpu_offload": cpu_offload, "mixed_precision": mixed_precision,
                "backward_prefetch": backward_prefetch, "param_init_fn": param_init_fn,
                "use_orig_params": use_orig_params, "ignored_states": list(ignored), "device_mesh": mesh})
        if any(p.is_meta for p in module.parameters()):
            _materialise(module, param_init_fn, mesh.device_type)
        self._fsdp_wrapped_module = module
        self.sharding_strategy, self.mixed_precision, self.cpu_offload = strategy, mixed_precision, cpu_offload
        self._use_orig_params, self._device_mesh = use_orig_params, mesh
        self.process_group = mesh.get_group(mesh.ndim - 1)
        self._settings = StateDictSettings()
        precision = mixed_precision or MixedPrecision()
        if precision.buffer_dtype is not None:
            for buffer in module.buffers():
                buffer.data = buffer.data.to(precision.buffer_dtype) if buffer.is_floating_point() else buffer.data
        offload = CPUOffloadPolicy() if cpu_offload is not None and cpu_offload.offload_params else OffloadPolicy()
        cls = type(self)
        given = {(id(part), name): p for part in self.modules() for name, p in part._parameters.items()}
        fully_shard(self, mesh=mesh, reshard_after_forward=False if strategy in _ZERO2 else None,
                    mp_policy=MixedPrecisionPolicy(precision.param_dtype, precision.reduce_dtype),
                    offload_policy=offload, ignored_params=ignored)
        self.__class__ = cls
        if use_orig_params:  # an optimizer that was made before has them
            for param in itertools.chain.from_iterable(group.fsdp_params for group in groups_of([self])):
                param.become(given[id(param.owners[0][0]), param.owners[0][1]])
        self._register_state_dict_hook(_to_state_dict)
        self.register_load_state_dict_pre_hook(_from_state_dict)

    @property
    def module(self) -> Module:
        """The module inside."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name: str) -> Any:
        """Attributes of the module inside."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(FSDP_WRAPPED_MODULE), name)

    def __getitem__(self, key: int) -> Any:
        return self._fsdp_wrapped_module.__getitem__(key)  # type: ignore[operator]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._fsdp_wrapped_module(*args, **kwargs)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        return applied(self, super()._apply, *args, **kwargs)

    def check_is_root(self) -> bool:
        state = fully_shard.state(self)
        state._lazy_init()
        return bool(state._is_root)

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list["FullyShardedDataParallel"]:
        """The wrappers in a model; with `root_only` those that are in no other."""
        found = [part for part in module.modules() if isinstance(part, FullyShardedDataParallel)]
        inside = {child for part in found for child in part.modules() if child is not part} if root_only else set()
        return [part for part in found if part not in inside]

    # training ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, backward adds up gradients without reducing them."""
        groups = groups_of(self.modules())
        for group in groups:
            group.reduce_grads = False
        try:
            yield
        finally:
            for group in groups:
                group.reduce_grads = True

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scales the gradients of all processes so that their norm is at most `max_norm`; the norm it was before."""
        norm = clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False,
                           offload_to_cpu: bool = False, with_grads: bool = False) -> Iterator[None]:
        """Inside, modules have whole parameters; what is written to them goes to the pieces at the end."""
        modules = FullyShardedDataParallel.fsdp_modules(module) if recurse else [module]
        if writeback and rank0_only:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported, as model parameter shapes "
                                      "will be different across ranks, and writing to them can lead to inconsistencies "
                                      "across ranks when the context is exited.")
        params = [param for group in groups_of(modules) for param in group.fsdp_params]
        for group in groups_of(modules):
            group.reshard()
        shown: list[tuple[FSDPParam, Parameter]] = []
        for param in params:
            whole = param.sharded_param.detach().full_tensor()
            grad = param.sharded_param.grad
            whole_grad = grad.full_tensor() if with_grads and grad is not None else None
            if not rank0_only or torch.distributed.get_rank() == 0:
                made = Parameter(whole.cpu() if offload_to_cpu else whole, param.sharded_param.requires_grad)
                made.grad = whole_grad
                param.register(made)
                shown.append((param, made))
        try:
            yield
        finally:
            for param, made in shown:
                if writeback:
                    _piece_of(param.sharded_param, made.detach(), into=param.sharded_param._local_tensor)
                    if made.grad is not None:
                        _piece_of(param.sharded_param, made.grad, into=param.sharded_param.grad._local_tensor)
                param.register(param.sharded_param)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        for name, param in super().named_parameters(*args, **kwargs):
            yield name.replace(FSDP_PREFIX, ""), param

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield name.replace(FSDP_PREFIX, ""), buffer

    # state dicts ---------------------------------------------------------------------------------------------------

    @staticmethod
    def set_state_dict_type(module: Module, state_dict_type: StateDictType, state_dict_config: Any = None,
                            optim_state_dict_config: Any = None) -> StateDictSettings:
        """What there was before."""
        before = FullyShardedDataParallel.get_state_dict_type(module)
        model_config, optim_config = _CONFIGS[state_dict_type]
        for given, wanted in ((state_dict_config, model_config), (optim_state_dict_config, optim_config)):
            if given is not None and type(given) is not wanted:
                raise RuntimeError(f"Expected state_dict_config of type {wanted} but got {type(given)}")
        settings = StateDictSettings(state_dict_type, state_dict_config or model_config(),
                                     optim_state_dict_config or optim_config())
        for part in FullyShardedDataParallel.fsdp_modules(module):
            part._settings = settings
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        found = FullyShardedDataParallel.fsdp_modules(module)
        return found[0]._settings if found else StateDictSettings()

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module: Module, state_dict_type: StateDictType, state_dict_config: Any = None,
                        optim_state_dict_config: Any = None) -> Iterator[None]:
        """Inside, state dicts are of this kind."""
        before = FullyShardedDataParallel.set_state_dict_type(module, state_dict_type, state_dict_config,
                                                              optim_state_dict_config)
        try:
            yield
        finally:
            FullyShardedDataParallel.set_state_dict_type(
                module, before.state_dict_type, before.state_dict_config, before.optim_state_dict_config)

    @staticmethod
    def optim_state_dict(model: Module, optim: Any, optim_state_dict: dict[str, Any] | None = None,
                         group: Any = None) -> dict[str, Any]:
        """An optimizer's state by parameters' names, of the kind that `state_dict_type` says."""
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        config, kind = settings.optim_state_dict_config, settings.state_dict_type
        names = {param: name.replace(FSDP_PREFIX, "") for name, param in model.named_parameters()}
        ordered = [names[param] for each in optim.param_groups for param in each["params"]]
        given = optim.state_dict() if optim_state_dict is None else optim_state_dict
        state = {ordered[at]: {key: _of_kind(value, kind, config.offload_to_cpu) for key, value in entry.items()}
                 for at, entry in given["state"].items()}
        if getattr(config, "rank0_only", False) and torch.distributed.get_rank(group) != 0:
            return {}
        groups = [{**each, "params": [ordered[at] for at in each["params"]]} for each in given["param_groups"]]
        return {"state": state, "param_groups": groups}

    @staticmethod
    def optim_state_dict_to_load(model: Module, optim: Any, optim_state_dict: dict[str, Any],
                                 is_named_optimizer: bool = False, load_directly: bool = False,
                                 group: Any = None) -> dict[str, Any]:
        """A state by names as one that `optim.load_state_dict` takes, in pieces."""
        params = {name.replace(FSDP_PREFIX, ""): param for name, param in model.named_parameters()}
        ordered = [param for each in optim.param_groups for param in each["params"]]
        places = {param: at for at, param in enumerate(ordered)}
        numbers = {name: places[param] for name, param in params.items() if param in places}
        state = {numbers[name]: {key: _in_pieces(value, params[name]) for key, value in entry.items()}
                 for name, entry in optim_state_dict["state"].items()}
        groups = [{**each, "params": [numbers[name] for name in each["params"]]}
                  for each in optim_state_dict["param_groups"]]
        made = {"state": state, "param_groups": groups}
        if load_directly:
            optim.load_state_dict(made)
        return made

    @staticmethod
    def rekey_optim_state_dict(optim_state_dict: dict[str, Any], optim_state_key_type: OptimStateKeyType,
                               model: Module, optim_input: Any = None, optim: Any = None) -> dict[str, Any]:
        """The same state with parameters called by number instead of by name, or the other way round."""
        names = [name.replace(FSDP_PREFIX, "") for name, _ in model.named_parameters()]
        keys: dict[Any, Any] = dict(enumerate(names))
        if optim_state_key_type is OptimStateKeyType.PARAM_ID:
            keys = {name: at for at, name in keys.items()}
        return {"state": {keys.get(key, key): entry for key, entry in optim_state_dict["state"].items()},
                "param_groups": [{**each, "params": [keys.get(key, key) for key in each["params"]]}
                                 for each in optim_state_dict["param_groups"]]}

    @staticmethod
    def full_optim_state_dict(model: Module, optim: Any, optim_input: Any = None, rank0_only: bool = True,
                              group: Any = None) -> dict[str, Any]:
        """The whole state by names, on the first process or on all."""
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(),
                                                      FullOptimStateDictConfig(rank0_only=rank0_only)):
            return FullyShardedDataParallel.optim_state_dict(model, optim, group=group)


def _mesh_of(process_group: Any, strategy: ShardingStrategy, module: Module, device_id: Any) -> DeviceMesh:
    """The mesh of a strategy: one line, or one whose first dimension replicates."""
    where = torch.device(device_id).type if isinstance(device_id, (str, torch.device)) else next(
        (p.device.type for p in module.parameters() if not p.is_meta), "cpu")
    if isinstance(process_group, (tuple, list)):
        inner, outer = process_group
        ranks = [torch.distributed.get_process_group_ranks(group) for group in (outer, inner)]
        first = [[rank + at - ranks[1][0] for at in ranks[1]] for rank in ranks[0]]
        return DeviceMesh.from_group([outer, inner], where, mesh=first, mesh_dim_names=("replicate", "shard"))
    everyone = torch.distributed.get_process_group_ranks(process_group or torch.distributed.group.WORLD)
    if strategy is ShardingStrategy.NO_SHARD:
        return DeviceMesh(where, [[rank] for rank in everyone], mesh_dim_names=("replicate", "shard"))
    if strategy in _HYBRID:
        return DeviceMesh(where, [everyone], mesh_dim_names=("replicate", "shard"))  # the processes of one host
    return DeviceMesh(where, everyone)


def _broadcast_states(module: Module, ignored: set[Any]) -> None:
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor not in ignored and not isinstance(tensor, DTensor):
                collectives.broadcast(tensor.detach(), src=0)


def _materialise(module: Module, param_init_fn: Callable[[Module], None] | None, device: str) -> None:
    """Gives modules on Meta memory, and values by a function or by their own `reset_parameters`."""
    for part in module.modules():
        own = [*part.parameters(recurse=False), *part.buffers(recurse=False)]
        if any(tensor.is_meta for tensor in own):
            if param_init_fn is not None:
                param_init_fn(part)
            else:
                part.to_empty(device=device, recurse=False)
                part.reset_parameters()  # type: ignore[operator]


def _piece_of(param: Any, whole: Any, into: Any) -> None:
    """Writes to `into` the part of a whole tensor that this process has of a parameter."""
    spec = param._spec.with_placements([Replicate()] * param._spec.mesh.ndim)
    with torch.no_grad():
        into.copy_(redistributed(whole, spec, param._spec.placements))


def _in_pieces(value: Any, param: Any) -> Any:
    """A whole state of a parameter as it lies; other values as they are."""
    if isinstance(value, DTensor) or not isinstance(value, torch.Tensor) or not isinstance(param, DTensor):
        return value
    if not value.ndim or tuple(value.shape) not in (tuple(param.shape), tuple(param._local_tensor.shape)):
        return value
    local = value
    if tuple(value.shape) == tuple(param.shape):
        local = torch.empty(param._local_tensor.shape, dtype=value.dtype, device=param.device)
        _piece_of(param, value, into=local)
    return DTensor(local, param._spec)


def _of_kind(value: Any, kind: StateDictType, to_cpu: bool) -> Any:
    """A tensor in pieces as a kind of state dict has it."""
    if not isinstance(value, torch.Tensor):
        return value
    if isinstance(value, DTensor) and kind is not StateDictType.SHARDED_STATE_DICT:
        value = value.full_tensor() if kind is StateDictType.FULL_STATE_DICT else value.to_local()
    return value.cpu() if to_cpu else value


def _to_state_dict(module: Any, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
    settings, old = module._settings, prefix + FSDP_PREFIX
    for key in [key for key in state_dict if key.startswith(old)]:
        value = state_dict.pop(key)
        state_dict[prefix + key[len(old) :]] = _of_kind(value.detach(), settings.state_dict_type,
                                                        settings.state_dict_config.offload_to_cpu)
    if not prefix and getattr(settings.state_dict_config, "rank0_only", False) and torch.distributed.get_rank() != 0:
        state_dict.clear()


def _from_state_dict(module: Any, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[f"{prefix}{FSDP_PREFIX}{key[len(prefix) :]}"] = state_dict.pop(key)
    for name, param in Module.named_parameters(module):
        key = prefix + name
        if key in state_dict:
            state_dict[key] = _in_pieces(state_dict[key], param)


