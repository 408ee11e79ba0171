"""`torch.compile`: the function as it is. Speed is for later; what a program sees is the same."""

import functools
from collections.abc import Callable
from typing import Any


def compile(model: Callable | None = None, *, fullgraph: bool = False, dynamic: bool | None = None,
            backend: str | Callable = "inductor", mode: str | None = None, options: dict | None = None,
            disable: bool = False, **more: Any) -> Any:
    """A function that runs `model`; for a module, an OptimizedModule around it. Usable as a decorator."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        return lambda function: compile(function, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                        options=options, disable=disable)
    from .nn import Module

    if isinstance(model, Module):
        from ._dynamo import OptimizedModule

        return OptimizedModule(model)
    if disable:
        return model

    @functools.wraps(model)
    def run(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    run._torchdynamo_orig_callable = model  # type: ignore[attr-defined]
    return run
