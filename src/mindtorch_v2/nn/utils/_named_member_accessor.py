"""Tensors and modules of a module, exchanged by name."""

from typing import Any

from ..modules.module import Module

__all__ = ["swap_submodule", "swap_tensor"]

_MISSING: Any = object()


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Puts a tensor in place of a parameter, buffer or attribute of a module, and gives back what was there."""
    if "." in name or not name:
        raise KeyError('tensor name can\'t contain "."' if name else 'tensor name can\'t be empty string ""')
    for members in (module._parameters, module._buffers):
        if name in members:
            old = members[name]
            if tensor is _MISSING:
                del members[name]
            else:
                members[name] = tensor
            return old
    old = getattr(module, name, _MISSING)
    if old is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif old is not _MISSING:
        delattr(module, name)
    return old


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Puts a module in place of a direct child, and gives back what was there."""
    if name not in module._modules:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    old, module._modules[name] = module._modules[name], submodule
    return old  # type: ignore[return-value]
