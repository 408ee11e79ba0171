"""Layers, containers, losses and initialisation, as in torch.nn."""

from typing import Any as _Any

from . import attention, common_types, functional, grad, init, modules, parallel, parameter, utils
from .modules import *  # noqa: F403
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [*modules.__all__, "Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter",
           "attention", "factory_kwargs", "functional", "grad", "init", "modules", "parallel", "parameter", "utils"]


def factory_kwargs(kwargs: dict[str, _Any] | None) -> dict[str, _Any]:
    """What of a module's keyword arguments goes to functions that make tensors."""
    if kwargs is None:
        return {}
    names = {"device", "dtype", "memory_format"}
    if unexpected := kwargs.keys() - names - {"factory_kwargs"}:
        raise TypeError(f"unexpected kwargs {unexpected}")
    made = dict(kwargs.get("factory_kwargs", {}))
    for name in names & kwargs.keys():
        if name in made:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        made[name] = kwargs[name]
    return made
