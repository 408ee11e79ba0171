"""The module that `torch.compile(module)` gives."""

from typing import Any

from ..nn import Module


class OptimizedModule(Module):
    """Runs the module it holds; everything else of that module is reached through it."""

    def __init__(self, mod: Module, dynamo_ctx: Any = None) -> None:
        super().__init__()
        self._orig_mod = mod
        self.training = mod.training

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._orig_mod(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._orig_mod.forward(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training" and "_orig_mod" in self.__dict__.get("_modules", ()):
            self._orig_mod.training = value
        super().__setattr__(name, value)
