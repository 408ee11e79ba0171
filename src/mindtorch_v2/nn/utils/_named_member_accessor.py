"""Tensors and modules of a module, exchanged by name."""

from typing import Any

from ..._core.tensor import Tensor
from ..modules.module import Module

__all__ = ["named_submodule", "swap_submodule", "swap_tensor"]

_MISSING: Any = object()


def _no_attribute(module: Module, name: str) -> AttributeError:
    return AttributeError(f"{module._get_name()} has no attribute `{name}`")


def named_submodule(module: Module, path: str) -> Module:
    """The module at a path with dots, itself for an empty one."""
    found: Any = module
    names = path.split(".") if path else []
    for depth, name in enumerate(names, 1):
        owner, found = found, getattr(found, name, _MISSING)
        if found is _MISSING:
            raise _no_attribute(owner, name)
        if not isinstance(found, Module):
            raise TypeError(f"submodule `{'.'.join(names[:depth])}`: {found} is not an instance of torch.nn.Module")
    return found


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Puts a tensor in place of a parameter, buffer or attribute of a module, and gives back what was there."""
    if "." in name or not name:
        raise KeyError('tensor name can\'t contain "."' if name else 'tensor name can\'t be empty string ""')
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
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
        raise _no_attribute(module, name)
    if old is not _MISSING and old is not None and not isinstance(old, Tensor):
        raise TypeError(f"attribute `{name}`: {old} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif old is not _MISSING:
        delattr(module, name)
    return old


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Puts a module in place of a direct child, and gives back what was there."""
    if name not in module._modules:
        raise _no_attribute(module, name)
    old, module._modules[name] = module._modules[name], submodule
    return old  # type: ignore[return-value]
