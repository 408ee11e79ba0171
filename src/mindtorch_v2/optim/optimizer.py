"""Optimizer: parameter groups, per-parameter state, hooks, and saving."""

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

import mindtorch_v2 as torch

from .._profile import marked
from ..nn.modules._hooks import RemovableHandle, registered

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT: TypeAlias = Iterable[torch.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, torch.Tensor]]
StateDict: TypeAlias = dict[str, Any]

_global_optimizer_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Callable] = OrderedDict()

COUNTED_ON_HOST = frozenset(("npu",))  # devices whose whole steps take the count as a number
_HOOK_DICTS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class _RequiredParameter:
    """The default of an option that every parameter group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` before every optimizer's step; it may return new (args, kwargs)."""
    return registered(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` after every optimizer's step."""
    return registered(_global_optimizer_post_hooks, hook)


def _use_grad_for_differentiable(step: Callable) -> Callable:
    """The step, run with grad mode on only for an optimizer made with differentiable=True."""

    @functools.wraps(step)
    def step_in_grad_mode(self: "Optimizer", *args: Any, **kwargs: Any) -> Any:
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(self.defaults.get("differentiable", False))
        try:
            return step(self, *args, **kwargs)
        finally:
            torch.set_grad_enabled(before)

    return step_in_grad_mode


def _to_scalar(value: Any) -> Any:
    """A one-element tensor's number; a number as it is."""
    return value.item() if isinstance(value, torch.Tensor) else value


def _get_scalar_dtype() -> Any:
    """The dtype of step counters."""
    return torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32


class Optimizer:
    """The base of optimizers; `step` of a subclass changes the parameters by their gradients."""

    _optimizer_step_pre_hooks: OrderedDict[int, Callable]
    _optimizer_step_post_hooks: OrderedDict[int, Callable]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        for hooks in _HOOK_DICTS:
            setattr(self, hooks, OrderedDict())
        self._patch_step_function()
        if isinstance(params, torch.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + torch.typename(params)
            )
        self.state: defaultdict[torch.Tensor, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for hooks in _HOOK_DICTS:
            self.__dict__.setdefault(hooks, OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for position, group in enumerate(self.param_groups):
            lines.append(f"\nParameter Group {position}" if position else f"Parameter Group {position}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"

    def _patch_step_function(self) -> None:
        """Makes the class's step run the hooks."""
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)  # type: ignore[method-assign]

    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """The step with its hooks around it."""

        @functools.wraps(func)
        def step_with_hooks(*args: Any, **kwargs: Any) -> Any:
            self = args[0]  # hooks see it among the arguments too
            own_before, own_after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
            if own_before or _global_optimizer_pre_hooks:
                for hook in chain(_global_optimizer_pre_hooks.values(), own_before.values()):
                    answer = hook(self, args, kwargs)
                    if answer is None:
                        continue
                    if not (isinstance(answer, tuple) and len(answer) == 2):
                        raise RuntimeError(
                            f"{func} must return None or a tuple of (new_args, new_kwargs), but got {answer}."
                        )
                    args, kwargs = answer
            with marked(f"Optimizer.step#{type(self).__name__}.step"):
                result = func(*args, **kwargs)
            if own_after or _global_optimizer_post_hooks:
                for hook in chain(own_after.values(), _global_optimizer_post_hooks.values()):
                    hook(self, args, kwargs)
            return result

        step_with_hooks.hooked = True  # type: ignore[attr-defined]
        return step_with_hooks

    # ---- hooks ----

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` before step; it may return new (args, kwargs)."""
        return registered(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` after step."""
        return registered(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` before state_dict()."""
        return registered(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` after state_dict(); it may return another dict."""
        return registered(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` before loading; it may return another dict."""
        return registered(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` after loading."""
        return registered(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)

    # ---- saving and loading ----

    def state_dict(self) -> StateDict:
        """The state and the groups, with numbers in the place of parameters."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        for parameter in chain.from_iterable(group["params"] for group in self.param_groups):
            numbers.setdefault(id(parameter), len(numbers))
        packed_groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(parameter)] for parameter in group["params"]]
            packed_groups.append(packed)
        packed_state = {
            (numbers[id(key)] if isinstance(key, torch.Tensor) else key): value for key, value in self.state.items()
        }
        state_dict: StateDict = {"state": packed_state, "param_groups": packed_groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            answer = hook(self, state_dict)
            if answer is not None:
                state_dict = answer
        return state_dict

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Takes over state and groups; parameters are matched by their order."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            answer = hook(self, state_dict)
            if answer is not None:
                state_dict = answer
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(self.param_groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        for group, saved in zip(self.param_groups, saved_groups, strict=True):
            if len(group["params"]) != len(saved["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
                )
        parameters = dict(
            zip(
                chain.from_iterable(saved["params"] for saved in saved_groups),
                chain.from_iterable(group["params"] for group in self.param_groups),
                strict=True,
            )
        )
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in parameters:
                state[parameters[key]] = _fitted(parameters[key], value, key, saved_groups)
            else:
                state[key] = value
        for group, saved in zip(self.param_groups, saved_groups, strict=True):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    @staticmethod
    def _process_value_according_to_param_policy(
        param: torch.Tensor,
        value: torch.Tensor,
        param_id: int,
        param_groups: list[dict[Any, Any]],
        key: Hashable = None,
    ) -> torch.Tensor:
        """A loaded tensor with the parameter's dtype and device; a step counter stays where it is cheap to read."""
        if key == "step":
            group = next((group for group in param_groups if param_id in group["params"]), {})
            if group.get("capturable") or group.get("fused") and param.device.type not in COUNTED_ON_HOST:
                return value.to(dtype=torch.float32, device=param.device)
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    # ---- gradients, steps, groups ----

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops all parameters' gradients, or fills them with zeros."""
        with marked(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"):
            self._drop_gradients(set_to_none)

    def _drop_gradients(self, set_to_none: bool) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    gradient = parameter.grad
                    if gradient.grad_fn is not None:
                        gradient.detach_()
                    else:
                        gradient.requires_grad_(False)
                    gradient.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Changes the parameters by their gradients; returns what the closure gave, if there is one."""
        raise NotImplementedError

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters that may have options of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, torch.Tensor):
            param_group["params"] = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, "
                "but the ordering of tensors in sets will change between runs. Please use a list instead."
            )
        else:
            param_group["params"] = list(params)
        _split_off_names(param_group)
        self._check_parameters(param_group["params"])
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        self._check_no_repetition(param_group)
        self.param_groups.append(param_group)

    def _check_parameters(self, parameters: list[Any]) -> None:
        for parameter in parameters:
            if not isinstance(parameter, torch.Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is " + torch.typename(parameter)
                )
            if not self.defaults.get("differentiable", None) and not (parameter.is_leaf or parameter.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")

    def _check_no_repetition(self, param_group: dict[str, Any]) -> None:
        if len(param_group["params"]) != len(set(param_group["params"])):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; "
                "in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        present = set(chain.from_iterable(group["params"] for group in self.param_groups))
        if not present.isdisjoint(param_group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups:
            named, wanted = "param_names" in param_group, "param_names" in self.param_groups[0]
            if named != wanted:
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {'with' if named else 'without'} names to the optimizer"
                )


def _split_off_names(param_group: dict[str, Any]) -> None:
    """Turns a group of (name, parameter) pairs into its parameters and `param_names`."""
    pairs = [entry for entry in param_group["params"] if isinstance(entry, tuple)]
    if not pairs:
        return
    if len(pairs) != len(param_group["params"]):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    param_group["params"] = [parameter for _, parameter in pairs]
    param_group["param_names"] = [name for name, _ in pairs]


def _fitted(
    parameter: torch.Tensor, value: Any, param_id: int, groups: list[dict[str, Any]], key: Hashable = None
) -> Any:
    """A loaded value with every tensor in it fitted to the parameter."""
    if isinstance(value, torch.Tensor):
        return Optimizer._process_value_according_to_param_policy(parameter, value, param_id, groups, key)
    if isinstance(value, dict):
        return {name: _fitted(parameter, entry, param_id, groups, name) for name, entry in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_fitted(parameter, entry, param_id, groups) for entry in value)  # type: ignore[call-arg]
    return value
