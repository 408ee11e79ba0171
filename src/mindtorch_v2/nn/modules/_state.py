"""state_dict and load_state_dict of a Module."""

import itertools
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import mindtorch_v2 as torch

from ..parameter import Parameter
from ._conversion import conversion
from ._hooks import RemovableHandle, WrappedHook, registered

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict gives back: the keys it missed and those it had no place for."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _as_parameter(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A tensor that takes another's place: a parameter if that is one."""
    if not isinstance(like, Parameter):
        return tensor
    if not isinstance(tensor, Parameter):
        return Parameter(tensor, requires_grad=like.requires_grad)
    return tensor.requires_grad_(like.requires_grad)


class ModuleState:
    """The part of Module that saves its tensors by name and loads them back."""

    _version: int = 1

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, torch.Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, "torch.nn.Module | None"]
    _state_dict_hooks: OrderedDict[int, Callable]
    _state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _load_state_dict_post_hooks: OrderedDict[int, Callable]

    def get_extra_state(self) -> Any:
        """What the state_dict keeps besides tensors; for subclasses to define together with set_extra_state."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
            "to report this bug."
        )

    def set_extra_state(self, state: Any) -> None:
        """Takes what get_extra_state gave when the state_dict was made."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
            "to report this bug."
        )

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)` after state_dict(); it may return another dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return registered(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)` after state_dict(); it may change the dict."""
        # The mark says that this hook must return None; a hook of the private kind may return a dict.
        hook._from_public_api = True  # type: ignore[attr-defined]
        return registered(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Calls `hook(module, prefix, keep_vars)` before state_dict()."""
        return registered(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        """Calls `hook(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)` before loading."""
        return registered(self._load_state_dict_pre_hooks, WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, ...)` before this module's part is loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Calls `hook(module, incompatible_keys)` after this module's part was loaded."""
        return registered(self._load_state_dict_post_hooks, hook)

    def _has_own(self, method: str) -> bool:
        """Whether the subclass defines that method of extra state itself."""
        return getattr(type(self), method, None) is not getattr(ModuleState, method)

    def _persistent_state(self) -> dict[str, torch.Tensor]:
        """The module's own parameters and persistent buffers, without its children's."""
        members = itertools.chain(self._parameters.items(), self._buffers.items())
        skipped = self._non_persistent_buffers_set
        return {name: tensor for name, tensor in members if tensor is not None and name not in skipped}

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Puts this module's own tensors and extra state into `destination`."""
        for name, tensor in self._persistent_state().items():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if self._has_own("get_extra_state"):
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """A dict from name to tensor of all parameters and persistent buffers, children included."""
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict"
                " for details.",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            answer = hook(self, destination, prefix, local_metadata)
            if not getattr(hook, "_from_public_api", False):
                destination = destination if answer is None else answer
            elif answer is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return destination

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads this module's own tensors; what goes wrong is added to the three lists."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own_state = self._persistent_state()
        for name, tensor in own_state.items():
            key = prefix + name
            if key in state_dict:
                self._load_tensor(name, tensor, key, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != prefix + _EXTRA_STATE_KEY_SUFFIX:
                    first, *rest = key[len(prefix) :].split(".", 1)
                    if first not in (self._modules if rest else own_state):
                        unexpected_keys.append(key)

    def _load_tensor(
        self, name: str, target: torch.Tensor, key: str, source: Any, assign: bool, error_msgs: list[str]
    ) -> None:
        """Copies `source` into `target`, or puts it in its place when `assign`."""
        if not isinstance(source, torch.Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object '
                f"from checkpoint but received {type(source)}"
            )
            return
        if target.dim() == 0 and source.dim() == 1 and source.numel() == 1:
            source = source[0]  # checkpoints of PyTorch before 0.4 hold scalars as one-element vectors
        if source.shape != target.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {source.shape} from checkpoint, "
                f"the shape in current model is {target.shape}."
            )
            return
        if target.is_meta and not source.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary "
                "to their corresponding key in the module instead of copying them in place?)",
                stacklevel=2,
            )
        try:
            with torch.no_grad():
                if conversion.swaps:
                    taken = target.module_load(source, assign=assign)
                    if taken is source or taken is target:
                        raise RuntimeError("module_load returned one of self or other, please .detach() the result if "
                                           "returning one of the inputs in module_load")
                    torch.utils.swap_tensors(target, _as_parameter(taken, target))
                elif assign:
                    setattr(self, name, _as_parameter(source, target))
                else:
                    target.copy_(source)
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            error_msgs.append(
                f'While {"swapping" if conversion.swaps else "copying"} the parameter named "{key}", '
                f"whose dimensions in the model are {target.size()} and "
                f"whose dimensions in the checkpoint are {source.size()}, "
                f"an exception occurred : {error.args}."
            )

    def _load_extra_state(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
    ) -> None:
        key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if self._has_own("set_extra_state"):
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copies the tensors of `state_dict` into the module by name; returns the keys that did not fit."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing_keys: list[str] = []
        unexpected_keys: list[str] = []
        error_msgs: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata  # type: ignore[attr-defined]

        def load(module: ModuleState, local_state: dict[str, Any], prefix: str = "") -> None:
            local_metadata = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(
                local_state, prefix, local_metadata, True, missing_keys, unexpected_keys, error_msgs
            )
            for name, child in module._modules.items():
                if child is not None:
                    child_prefix = f"{prefix}{name}."
                    # A child sees only its own part, so that a wide tree is not searched once for every module.
                    load(child, {k: v for k, v in local_state.items() if k.startswith(child_prefix)}, child_prefix)
            incompatible_keys = _IncompatibleKeys(missing_keys, unexpected_keys)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, incompatible_keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                        "values, if incompatible_keys need to be modified, it should be done inplace."
                    )

        load(self, state)
        if strict:
            for kind, keys in (("Unexpected", unexpected_keys), ("Missing", missing_keys)):
                if keys:
                    listed = ", ".join(f'"{key}"' for key in keys)
                    error_msgs.insert(0, f"{kind} key(s) in state_dict: {listed}. ")
        if error_msgs:
            joined = "\n\t".join(error_msgs)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{joined}")
        return _IncompatibleKeys(missing_keys, unexpected_keys)
