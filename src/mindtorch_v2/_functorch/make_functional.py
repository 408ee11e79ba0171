"""Modules as functions of their state, as the package functorch had them before torch.func.functional_call."""

import copy
from collections.abc import Sequence
from typing import Any

from ..nn import Module, Parameter
from .functional_call import functional_call, stack_module_state

__all__ = ["FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "make_functional",
           "make_functional_with_buffers"]


class FunctionalModule(Module):
    """Called with parameters, then what the model takes."""

    def __init__(self, stateless_model: Module, param_names: tuple[str, ...]) -> None:
        super().__init__()
        self.stateless_model, self.param_names = stateless_model, param_names

    def forward(self, params: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        return functional_call(self.stateless_model, dict(zip(self.param_names, params, strict=True)), args, kwargs)


class FunctionalModuleWithBuffers(Module):
    """Called with parameters, buffers, then what the model takes."""

    def __init__(self, stateless_model: Module, param_names: tuple[str, ...], buffer_names: tuple[str, ...]) -> None:
        super().__init__()
        self.stateless_model, self.param_names, self.buffer_names = stateless_model, param_names, buffer_names

    def forward(self, params: Sequence[Any], buffers: Sequence[Any],
                *args: Any, **kwargs: Any) -> Any:
        state = dict(zip(self.param_names, params, strict=True)) | dict(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, tuple]:
    """(a function of parameters and inputs, the parameters)."""
    if any(True for _ in model.buffers()):
        raise RuntimeError("make_functional(model): `model` has buffers. Please use "
                           "make_functional_with_buffers(model) instead.")
    made, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return FunctionalModule(made.stateless_model, made.param_names), params


def make_functional_with_buffers(model: Module, disable_autograd_tracking: bool = False,
                                 ) -> tuple[FunctionalModuleWithBuffers, tuple, tuple]:
    """(a function of parameters, buffers and inputs, the parameters, the buffers)."""
    own = copy.deepcopy(model)
    params, buffers = dict(own.named_parameters()), dict(own.named_buffers())
    if disable_autograd_tracking:
        own.requires_grad_(False)
    without_memory: dict[int, Any] = {}  # one for each parameter and buffer, also where modules share it
    for tensor in (*params.values(), *buffers.values()):
        made = tensor.to("meta")
        without_memory[id(tensor)] = Parameter(made, tensor.requires_grad) if isinstance(tensor, Parameter) else made
    stateless = copy.deepcopy(own, without_memory)
    return (FunctionalModuleWithBuffers(stateless, tuple(params), tuple(buffers)), tuple(params.values()),
            tuple(buffers.values()))


def combine_state_for_ensemble(models: Sequence[Module]) -> tuple[FunctionalModuleWithBuffers, tuple, tuple]:
    """(a function of state and inputs, the models' parameters stacked, their buffers stacked)."""
    where = "combine_state_for_ensemble: Expected"
    if not models:
        raise RuntimeError(f"{where} at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(f"{where} all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(f"{where} all models to be of the same class.")
    params, buffers = stack_module_state(list(models))
    function = make_functional_with_buffers(models[0])[0]
    return function, tuple(p.detach() for p in params.values()), tuple(buffers.values())
