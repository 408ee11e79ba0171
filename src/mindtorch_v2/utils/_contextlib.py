"""torch.utils._contextlib: context managers that also decorate."""

from collections.abc import Callable
from typing import Any

from .._autograd.grad_mode import _ModeContext as _DecoratorContextManager

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager", "context_decorator"]


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One that decorates without being called: `@no_grad`."""

    def __new__(cls, orig_func: Callable | None = None) -> Any:
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)


def context_decorator(ctx: Any, func: Callable) -> Callable:
    """The function inside a context, which `ctx()` makes for each call."""

    class Inside(_DecoratorContextManager):
        def clone(self) -> Any:
            return ctx() if callable(ctx) else ctx

    return Inside()(func)
