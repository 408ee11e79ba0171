"""Weight normalisation by a hook before forward, the older form of parametrizations.weight_norm."""

import warnings
from typing import Any, TypeVar

import mindtorch_v2 as torch

from ..modules._hooks import WrappedHook
from ..modules.module import Module
from ..parameter import Parameter, UninitializedParameter

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


class WeightNorm:
    """The hook: it computes the weight from its lengths (name_g) and directions (name_v) along `dim`."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> torch.Tensor:
        """The weight that length and direction give."""
        return torch._weight_norm(getattr(module, self.name + "_v"), getattr(module, self.name + "_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> "WeightNorm":
        """The hook, registered in the module in the place of the parameter."""
        warnings.warn("`torch.nn.utils.weight_norm` is deprecated in favor of "
                      "`torch.nn.utils.parametrizations.weight_norm`.", FutureWarning, stacklevel=2)
        if hook_number(module._forward_pre_hooks, WeightNorm, name) is not None:
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        if isinstance(weight, UninitializedParameter):
            raise ValueError("The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run "
                             "the dummy forward before applying weight normalization")
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(torch.norm_except_dim(weight, 2, hook.dim).data))
        module.register_parameter(name + "_v", Parameter(weight.data))
        hook(module)
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Puts the weight back as a parameter."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"], module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any = None) -> None:
        setattr(module, self.name, self.compute_weight(module))


def hook_number(hooks: dict[int, Any], kind: type, name: str) -> int | None:
    """The number of the hook of that kind that belongs to the parameter of that name."""
    for number, hook in hooks.items():
        hook = hook.hook if isinstance(hook, WrappedHook) else hook
        owner: Any = getattr(hook, "fn", hook)
        if isinstance(hook, kind) and owner.name == name:
            return number
    return None


def remove_hook(module: Module, kind: type, name: str, what: str) -> None:
    """Takes off what computes the parameter before each call."""
    number = hook_number(module._forward_pre_hooks, kind, name)
    if number is None:
        raise ValueError(f"{what} of '{name}' not found in {module}")
    hook: Any = module._forward_pre_hooks.pop(number)
    hook.remove(module)


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """The module with its weight stored as length (name_g) and direction (name_v) along `dim`."""
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """The module with a plain weight again."""
    remove_hook(module, WeightNorm, name, "weight_norm")
    return module
