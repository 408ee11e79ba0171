"""fully_shard: a module's parameters in pieces, one group for each call."""

import contextlib
import functools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import mindtorch_v2 as torch

from ...nn import Module, ModuleDict, ModuleList
from .._composable.contract import _outermost, contract
from ..device_mesh import DeviceMesh
from ..tensor import Shard
from ._group import FSDPParamGroup
from ._mesh import after_forward, mesh_info
from ._parameter import FSDPParam
from ._policies import AllGather, MixedPrecisionPolicy, OffloadPolicy, ReduceScatter
from ._state import FSDPState, state_of

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method", "share_comm_ctx"]

_CLASSES: dict[type, type] = {}  # a class's sharded twin
_makes_instances = [True]


@contract(state_cls=FSDPState)
def fully_shard(module: Any, *, mesh: DeviceMesh | None = None, reshard_after_forward: bool | int | None = None,
                shard_placement_fn: Callable[[Any], Shard | None] | None = None,
                mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),  # noqa: B008 - frozen
                offload_policy: OffloadPolicy = OffloadPolicy(),  # noqa: B008 - without fields
                ignored_params: set[Any] | None = None, dp_mesh_dims: Any = None) -> Any:
    """The module, whose parameters are now cut over the mesh, and gathered around its forward and backward."""
    if isinstance(module, (ModuleList, ModuleDict)) and type(module).forward is Module.forward:
        raise ValueError(f"fully_shard does not support containers that do not implement forward: {module}")
    if dp_mesh_dims is not None:
        raise NotImplementedError("fully_shard: dp_mesh_dims; give the dimensions for data as mesh=whole_mesh[names]")
    info = mesh_info(mesh)
    where = info.mesh.device_type
    device = torch.device("cpu") if where == "cpu" else torch.device(where, torch.accelerator.current_device_index())
    resharded = after_forward(True if reshard_after_forward is None else reshard_after_forward, info)
    modules = [module] if isinstance(module, Module) else _outermost(module)
    state = state_of(modules[0])
    assert state is not None
    state.init(modules, device, mp_policy, auto_reshard=reshard_after_forward is None)
    ignored = ignored_params or set()
    owners: dict[Any, list[tuple[Any, str]]] = {}
    for part in _managed(modules):
        for name, param in part._parameters.items():
            if param is not None and param not in ignored:
                if not param.ndim:
                    raise ValueError("fully_shard doesn't support scalar parameters. Change "
                                     f"{_name_in(modules, part, name)} to a 1D tensor with numel equal to 1.")
                owners.setdefault(param, []).append((part, name))
        for name, buffer in part._buffers.items():
            if buffer is not None and buffer.device != device and not buffer.is_meta:
                part._buffers[name] = buffer.to(device)
    if owners:
        place = shard_placement_fn or (lambda param: None)
        params = []
        for param, having in owners.items():
            placement = place(param)
            if placement is not None and not isinstance(placement, Shard):
                raise ValueError(f"Invalid shard_placement_fn result: {placement}")
            if param.device != device and not param.is_meta:
                param.data = param.data.to(device)
            params.append(FSDPParam(param, having, info, placement or Shard(0), mp_policy, offload_policy))
        state._fsdp_param_groups.append(
            FSDPParamGroup(params, modules, info, resharded, device, mp_policy, offload_policy))
    for each in modules:
        cls = type(each)
        if cls not in _CLASSES:
            _CLASSES[cls] = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__deepcopy__": _no_deepcopy})
        each.__class__ = _CLASSES[cls]
    _show_pieces_in_state_dicts(state._fsdp_param_groups)
    return module


def _show_pieces_in_state_dicts(groups: Iterable[FSDPParamGroup]) -> None:
    """State dicts are of pieces, also between forward and backward."""
    for group in groups:
        def show_pieces(*args: Any, group: FSDPParamGroup = group) -> None:
            group.reshard()

        for module in {id(module): module for param in group.fsdp_params for module, _ in param.owners}.values():
            module.register_state_dict_pre_hook(show_pieces)
            module._register_load_state_dict_pre_hook(show_pieces)


def groups_of(modules: Iterable[Any]) -> list[FSDPParamGroup]:
    """The groups of those modules that are sharded."""
    states = [state for module in modules if (state := state_of(module)) is not None]
    return list({id(group): group for state in states for group in state._fsdp_param_groups}.values())


def applied(module: Any, apply: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `Module._apply` gives for a sharded module: pieces are converted, and groups told of it."""
    for group in groups_of([module]):
        group.reshard()
    made = apply(*args, **kwargs)
    for group in groups_of([module]):
        group.on_conversion()
    return made


def _managed(modules: Iterable[Any]) -> list[Any]:
    """The modules whose parameters belong to a call: children before parents, less what an earlier call has."""
    found: list[Any] = []
    seen: set[int] = set()

    def visit(module: Any, is_root: bool) -> None:
        if id(module) in seen or not is_root and state_of(module) is not None:
            return
        seen.add(id(module))
        for child in module.children():
            visit(child, False)
        found.append(module)

    for module in modules:
        visit(module, True)
    return found


def _name_in(modules: Iterable[Any], part: Any, name: str) -> str:
    return next(f"{prefix}.{name}".lstrip(".") for module in modules for prefix, each in module.named_modules()
                if each is part)


def _no_deepcopy(*args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError("FSDP does not support deepcopy. Please use state dict for serialization.")


@contextlib.contextmanager
def disable_fsdp_module_new_init() -> Iterator[None]:
    """Inside, calling a sharded class gives an object that is not initialised."""
    before, _makes_instances[0] = _makes_instances[0], False
    try:
        yield
    finally:
        _makes_instances[0] = before


class FSDPModule(Module):
    """The methods of a module on which `fully_shard` was called."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A module of the class that was sharded: slicing a container makes an unsharded one."""
        original = cls.__mro__[2]
        made = original.__new__(original, *args, **kwargs)  # type: ignore[call-overload]
        if _makes_instances[0]:
            made.__init__(*args, **kwargs)
        return made

    def _get_fsdp_state(self) -> FSDPState:
        state = state_of(self)
        if state is None:
            raise AssertionError(f"No FSDP state found on {self}")
        return state

    def _groups(self, recurse: bool = False) -> list[FSDPParamGroup]:
        return groups_of(self.modules() if recurse else [self])

    def reshard(self) -> None:
        """Gives the whole parameters back; pieces are registered. Not recursive."""
        for group in self._groups():
            group.reshard()

    def unshard(self, async_op: bool = False) -> "UnshardHandle | None":
        """Gathers the parameters; with `async_op`, what comes back is to be waited for. Not recursive."""
        state = self._get_fsdp_state()
        state._lazy_init()
        handle = UnshardHandle(state._fsdp_param_groups)
        for group in state._fsdp_param_groups:
            group.unshard(async_op)
        if async_op:
            return handle
        handle.wait()
        return None

    def reset_iter_state(self) -> None:
        """Forgets a forward or backward that raised."""
        state = self._get_fsdp_state()
        state._lazy_init()
        state.reset()

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Whether the next backward is the last of this forward; if not, the order of forward is kept for another."""
        self._get_fsdp_state()._state_ctx.is_last_backward = is_last_backward

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward reduces gradients; if not, whole ones are kept and added up."""
        for group in self._groups(recurse):
            group.reduce_grads = group.all_reduce_grads = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether backward reduces gradients between replicas too."""
        for group in self._groups(recurse):
            group.all_reduce_grads = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}")
        for module in self.modules() if recurse else [self]:
            if isinstance(module, FSDPModule):
                module._get_fsdp_state()._auto_reshard_after_forward = False
        for group in self._groups(recurse):
            group.post_forward_mesh_info = after_forward(reshard_after_forward, group.mesh_info)

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        for group in self._groups(recurse):
            group.reshard_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list["FSDPModule"]) -> None:
        """Which modules' parameters are gathered while this one's forward runs."""
        self._get_fsdp_state()._states_to_forward_prefetch = _states(modules)

    def set_modules_to_backward_prefetch(self, modules: list["FSDPModule"]) -> None:
        """Which modules' parameters are gathered while this one's backward runs, in place of the one before it."""
        self._get_fsdp_state()._states_to_backward_prefetch = _states(modules)

    def set_custom_all_gather(self, comm: AllGather) -> None:
        for group in self._groups():
            group.all_gather_comm = comm

    def set_custom_reduce_scatter(self, comm: ReduceScatter) -> None:
        for group in self._groups():
            group.reduce_scatter_comm = comm

    def set_all_reduce_hook(self, hook: Callable[[Any], None], *, stream: Any = None) -> None:
        """A function of the reduced gradients of the group, before they are divided."""
        for group in self._groups():
            if stream is not None and group.mesh_info.replicate_group is not None:
                raise ValueError("stream cannot be set when using native HSDP")
            group.all_reduce_hook = hook

    def set_post_optim_event(self, event: Any) -> None:
        """Nothing waits for streams here: collectives see what was computed before them."""

    def set_gradient_divide_factor(self, factor: float) -> None:
        """By what summed gradients are divided, in place of the number of processes."""
        for group in self._groups():
            group.gradient_divide_factor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Sums are what is always asked for here."""

    def set_reduce_scatter_unused_params(self, reduce_scatter_unused_params: bool, *, recurse: bool = True) -> None:
        """Whether parameters without a gradient are reduced as zeros: processes may use different ones."""
        for group in self._groups(recurse):
            group.reduce_scatter_unused_params = reduce_scatter_unused_params

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers: int, *, recurse: bool = True) -> None:
        """How many groups' gradients may be on their way at once."""
        if isinstance(max_input_buffers, bool) or not isinstance(max_input_buffers, int):
            raise TypeError(f"max_input_buffers must be an int, got {type(max_input_buffers).__name__}")
        if max_input_buffers < 1:
            raise ValueError(f"max_input_buffers must be a positive int, got {max_input_buffers}")
        for group in self._groups(recurse):
            group.comm_ctx.most_reductions = max_input_buffers

    def set_separate_reduce_scatter_group(self, enable: bool = True, *, recurse: bool = True) -> None:
        """Whether gradients are reduced through process groups of their own."""
        made: dict[tuple, Any] = {}
        for group in self._groups(recurse):
            ranks = tuple(torch.distributed.get_process_group_ranks(group.mesh_info.shard_group))
            if enable and ranks not in made:
                made[ranks] = torch.distributed.new_group(list(ranks), use_local_synchronization=True)
            group.reduce_scatter_group = made.get(ranks)

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Whether backward needs the parameters; that of an embedding does not."""
        for group in self._groups():
            group.unshard_in_backward = unshard_in_backward

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Engines here have no memory of their own to give."""

    def _set_unshard_async_op(self, async_op: bool) -> None:
        for group in self._groups(recurse=True):
            group.unshard_async_op = async_op

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        return applied(self, super()._apply, *args, **kwargs)


class UnshardHandle:
    """A gathering under way."""

    def __init__(self, groups: list[FSDPParamGroup] | None = None) -> None:
        self._groups = groups or []

    def wait(self) -> None:
        """Has the whole parameters registered."""
        for group in self._groups:
            group.wait_for_unshard()
        self._groups = []


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Makes another method of a sharded module gather and give back parameters as forward does."""
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name)

    @functools.wraps(method)
    def gathered(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = self._get_fsdp_state()
        args, kwargs = state._pre_forward(self, args, kwargs)
        return state._post_forward(self, args, method(*args, **kwargs))

    setattr(module, method_name, types.MethodType(gathered, module))


def share_comm_ctx(modules: list[FSDPModule]) -> None:
    """Lets several roots, as the stages of a pipeline are, have one order of collectives."""
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects list of FSDPModules but got {module}")
    states = [module._get_fsdp_state() for module in modules]
    for state in states[1:]:
        state._comm_ctx = states[0]._comm_ctx
        for group in state._fsdp_param_groups:
            group.comm_ctx = state._comm_ctx


def _states(modules: Iterable[Any]) -> list[FSDPState]:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects FSDPModule but got {type(module)}: {module}")
    return [module._get_fsdp_state() for module in modules]


for _named in (FSDPModule, UnshardHandle, fully_shard, register_fsdp_forward_method, share_comm_ctx):
    _named.__module__ = __name__.rpartition(".")[0]
