"""Modules whose parameters get their shapes from the first input."""

from typing import Any

import mindtorch_v2 as torch

from ..parameter import is_lazy
from .module import Module

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Makes a module call `initialize_parameters` with its first input, and then become `cls_to_become`."""

    cls_to_become: type[Module] | None = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self: Any, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, tensor in self._persistent_state().items():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()

    def _lazy_load_hook(self: Any, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Gives parameters without a shape those of the tensors that are about to be loaded."""
        for name, tensor in self._persistent_state().items():
            source = state_dict.get(prefix + name)
            if source is not None and is_lazy(tensor) and not is_lazy(source):
                with torch.no_grad():
                    tensor.materialize(source.shape)

    def _load_tensor(self: Any, name: str, target: torch.Tensor, *rest: Any) -> None:
        if not is_lazy(target):  # else what was to be loaded has no shape either
            super()._load_tensor(name, target, *rest)  # type: ignore[misc]

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Gives the parameters their shapes, knowing the arguments of forward."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer of the module itself still has no shape."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def _infer_parameters(self: Any, module: Any, args: tuple, kwargs: dict[str, Any] | None = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
