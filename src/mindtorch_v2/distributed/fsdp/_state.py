"""What a sharded module does around its forward and backward."""

from collections.abc import Sequence
from typing import Any

import mindtorch_v2 as torch

from ..._autograd.engine import queue_callback
from ...utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten
from ._group import CommContext, FSDPParamGroup
from ._policies import MixedPrecisionPolicy

_IDLE, _FORWARD, _PRE_BACKWARD = "idle", "forward", "pre-backward"


class _AfterBackward(torch.autograd.Function):
    """Inputs as they are; when backward has come back to them, the group's own backward is over."""

    @staticmethod
    def forward(ctx: Any, group: FSDPParamGroup, *inputs: Any) -> tuple:
        ctx.group = group
        return inputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        ctx.group.post_backward()
        return None, *grads


class StateContext:
    """What the states under one root share."""

    def __init__(self) -> None:
        self.all_states: list[FSDPState] = []
        self.forward_root: FSDPState | None = None  # of this pass: a part of the model may be run alone
        self.callback_queued = False
        self.is_last_backward = True


class FSDPState:
    """Hooks of one call of `fully_shard`, on one module or on several that make one group."""

    def __init__(self) -> None:
        self._fsdp_param_groups: list[FSDPParamGroup] = []
        self._is_root: bool | None = None
        self._state_ctx, self._comm_ctx = StateContext(), CommContext()
        self._training_state = _IDLE
        self._states_to_forward_prefetch: list[FSDPState] = []
        self._states_to_backward_prefetch: list[FSDPState] = []
        self._modules_to_run_forward: set[Any] = set()
        self._modules: tuple[Any, ...] = ()

    def init(self, modules: Sequence[Any], device: Any, policy: MixedPrecisionPolicy, auto_reshard: bool) -> None:
        self._modules, self._device, self._mp_policy = tuple(modules), device, policy
        self._auto_reshard_after_forward = auto_reshard
        for module in modules:
            module.register_forward_pre_hook(self._pre_forward, prepend=True, with_kwargs=True)
            module.register_forward_hook(self._post_forward)

    @property
    def _fsdp_param_group(self) -> FSDPParamGroup | None:
        return self._fsdp_param_groups[0] if self._fsdp_param_groups else None

    # the root ------------------------------------------------------------------------------------------------------

    def _lazy_init(self) -> None:
        """Makes the first state that runs the root of those inside its module."""
        if self._is_root is not None:
            return
        self._is_root = True
        if len(self._modules) > 1:
            raise RuntimeError(f"FSDP requires a single root module but got {self._modules}")
        root, found = self._modules[0], self._state_ctx.all_states
        for name, module in root.named_modules():
            state = state_of(module)
            if state is None:
                continue
            if state not in found:
                if module is not root and state._is_root is not None:
                    raise RuntimeError(f"FSDP state has already been lazily initialized for {name}\nFSDP requires "
                                       "running forward through the root module first")
                found.append(state)
            for group in state._fsdp_param_groups:
                group._module_fqn = f"{group._module_fqn}, {name}" if group._module_fqn else name
            if module is not root:
                state._is_root = False
        if self._auto_reshard_after_forward:
            for group in self._fsdp_param_groups:
                group.post_forward_mesh_info = None
        groups = [group for state in found for group in state._fsdp_param_groups]
        named = {id(param): name for name, param in root.named_parameters()}
        originals: set[int] = set()
        for state in found:
            state._state_ctx, state._comm_ctx = self._state_ctx, self._comm_ctx
        for group in groups:
            group.comm_ctx = self._comm_ctx
            for param in group.fsdp_params:
                param._param_fqn = named.get(id(param.sharded_param), param._param_fqn)
        for param in (param for group in groups for param in group.fsdp_params):
            if param.original in originals:
                raise ValueError(f"Parameter '{param._param_fqn}' is shared with a parameter already managed by "
                                 "another FSDP group. For shared/tied parameters, use fully_shard([module_a, "
                                 "module_b]) to place them in the same FSDP group.")
            originals.add(param.original)
        for group in groups:
            group.lazy_init()

    # forward -------------------------------------------------------------------------------------------------------

    def _pre_forward(self, module: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        if self._training_state is _PRE_BACKWARD:  # a checkpoint runs the module again; backward gives memory back
            for group in self._fsdp_param_groups:
                group.unshard()
                group.wait_for_unshard()
            return self._cast_inputs(args, kwargs)
        is_first = self._training_state is not _FORWARD
        self._training_state = _FORWARD
        if is_first:
            self._lazy_init()
            self._modules_to_run_forward = set(self._modules)
            if self._state_ctx.forward_root is None:
                self._state_ctx.forward_root = self
                args, kwargs = self._to_device(args, kwargs)
        args, kwargs = self._cast_inputs(args, kwargs)
        for group in self._fsdp_param_groups:
            group.after_backward = False
            group.unshard(group.unshard_async_op)
            group.wait_for_unshard()
            args, kwargs = _watched(group, args, kwargs)
        if is_first:
            for state in self._states_to_forward_prefetch:
                for group in state._fsdp_param_groups:
                    group.unshard(group.unshard_async_op)
        return args, kwargs

    def _to_device(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        if self._device.type == "cpu":
            return args, kwargs
        return tree_map_only(torch.Tensor, lambda t: t.to(self._device), (args, kwargs))

    def _cast_inputs(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        policy = self._mp_policy
        if not policy.cast_forward_inputs or policy.param_dtype is None:
            return args, kwargs
        return _cast((args, kwargs), policy.param_dtype)

    def _post_forward(self, module: Any, args: tuple, output: Any) -> Any:
        if self._training_state is not _PRE_BACKWARD:
            self._modules_to_run_forward.discard(module)
            self._watch_outputs(output)
            if not self._modules_to_run_forward:
                self._end_forward()
            if self._state_ctx.forward_root is self:
                for state in self._state_ctx.all_states:
                    if state is not self and state._modules_to_run_forward:  # those that this pass left out
                        state._end_forward()
                self._state_ctx.forward_root = None
        return output if self._mp_policy.output_dtype is None else _cast(output, self._mp_policy.output_dtype)

    def _end_forward(self) -> None:
        for group in self._fsdp_param_groups:
            group.reshard_after_forward()
            if torch.is_grad_enabled():
                group.record_forward()
        self._modules_to_run_forward.clear()
        self._training_state = _IDLE

    def _watch_outputs(self, output: Any) -> None:
        if torch.is_grad_enabled():
            for tensor in tree_leaves(output):
                if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                    tensor.register_hook(self._pre_backward)

    # backward ------------------------------------------------------------------------------------------------------

    def _pre_backward(self, grad: Any) -> Any:
        self._training_state = _PRE_BACKWARD
        if not self._state_ctx.callback_queued:
            self._state_ctx.callback_queued = True
            queue_callback(self._end_of_backward)
        for group in self._fsdp_param_groups:
            group.pre_backward(prefetch=not self._states_to_backward_prefetch)
        for state in self._states_to_backward_prefetch:
            for group in reversed(state._fsdp_param_groups):
                group.unshard(group.unshard_async_op)
        return grad

    def _end_of_backward(self) -> None:
        """Reduces what backward did not come back to, and waits for the rest."""
        context = self._state_ctx
        context.callback_queued, context.forward_root = False, None
        for state in context.all_states:
            state._modules_to_run_forward.clear()
            for group in reversed(state._fsdp_param_groups):
                if not group.after_backward:  # no input asked for a gradient
                    group.post_backward()
                group.after_backward = False
            state._training_state = _IDLE
        self._comm_ctx.leave(0)
        if context.is_last_backward:
            self._comm_ctx.post_forward_order.clear()
            for state in context.all_states:
                for group in state._fsdp_param_groups:
                    group._positions.clear()

    def reset(self) -> None:
        """Forgets a pass that failed."""
        if not self._is_root:
            raise RuntimeError("reset_iter_state must be called on the root FSDP module")
        self._comm_ctx.leave(0)
        self._comm_ctx.post_forward_order.clear()
        self._state_ctx.callback_queued, self._state_ctx.forward_root = False, None
        for state in self._state_ctx.all_states:
            state._training_state = _IDLE
            state._modules_to_run_forward.clear()
            for group in state._fsdp_param_groups:
                group.reset()


def state_of(module: Any) -> FSDPState | None:
    """The state of a module on which `fully_shard` was called."""
    from ._fully_shard import fully_shard

    return fully_shard.state(module)


def _watched(group: FSDPParamGroup, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Arguments, of which those that ask for gradients tell the group when backward has come back to them."""
    if not torch.is_grad_enabled():
        return args, kwargs
    leaves, structure = tree_flatten((args, kwargs))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if places:
        passed = _AfterBackward.apply(group, *(leaves[at] for at in places))
        for at, tensor in zip(places, passed, strict=True):
            leaves[at] = tensor
        args, kwargs = tree_unflatten(leaves, structure)
    return args, kwargs


def _cast(values: Any, dtype: Any) -> Any:
    def cast(tensor: Any) -> Any:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    return tree_map_only(torch.Tensor, cast, values)


