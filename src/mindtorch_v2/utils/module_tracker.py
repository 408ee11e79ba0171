"""ModuleTracker: inside, `parents` names the modules that are running, in forward and in backward."""

import weakref
from typing import Any

from .._core.tensor import Tensor
from .._dispatch.keys import modes
from ..autograd.graph import register_multi_grad_hook
from ..nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from ._pytree import tree_leaves

__all__ = ["ModuleTracker"]


def _recorded(values: Any) -> list[Tensor]:
    return [v for v in tree_leaves(values) if isinstance(v, Tensor) and v.requires_grad]


class ModuleTracker:
    """Context manager that keeps the qualified names of the running modules, and "Global"."""

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._forward: list[str] = []
        self._backward: set[str] = set()

    @property
    def is_bw(self) -> bool:
        return modes.__dict__.get("backward_pass") is not None

    @property
    def parents(self) -> set[str]:
        if not self.is_bw:
            self._backward.clear()  # a module whose inputs need no gradient is never seen to end
        return {"Global", *self._forward, *self._backward}

    def _name(self, module: Module) -> str:
        if module not in self._names:
            root = type(module).__name__
            for name, inner in module.named_modules():
                self._names[inner] = f"{root}.{name}" if name else root
        return self._names[module]

    def _begin(self, module: Module, args: Any) -> None:
        name = self._name(module)
        self._forward.append(name)
        if not self.is_bw and (inputs := _recorded(args)):
            register_multi_grad_hook(inputs, lambda grads: self._backward.discard(name))

    def _end(self, module: Module, args: Any, output: Any) -> None:
        name = self._name(module)
        if name in self._forward:
            del self._forward[len(self._forward) - 1 - self._forward[::-1].index(name) :]
        if not self.is_bw and (outputs := _recorded(output)):
            register_multi_grad_hook(outputs, lambda grad: self._backward.add(name), mode="any")

    def __enter__(self) -> "ModuleTracker":
        self._handles = (register_module_forward_pre_hook(self._begin),
                         register_module_forward_hook(self._end, always_call=True))
        return self

    def __exit__(self, *exception: Any) -> None:
        for handle in self._handles:
            handle.remove()
