"""What marks a module as changed by a distributed function such as `fully_shard`."""

import functools
from collections.abc import Callable
from typing import Any

_STATES, _REGISTRY = "_composable_states", "_composable_registry"


class RegistryItem:
    """A function that was applied to a module."""


def contract(state_cls: type | None = None) -> Callable[[Callable], Any]:
    """Makes a function of a module one that is applied once to each; `function.state(module)` gives its state."""

    def decorate(function: Callable) -> Any:
        @functools.wraps(function)
        def applied(module: Any, *args: Any, **kwargs: Any) -> Any:
            modules = [module] if not isinstance(module, (list, tuple)) else _outermost(module)
            state: Any = state_cls() if state_cls is not None else None
            for each in modules:
                registry = each.__dict__.setdefault(_REGISTRY, {})
                if function.__name__ in registry:
                    raise AssertionError("Each distinct composable distributed API can only be applied to a module "
                                         f"once. {function.__name__} has already been applied to the following "
                                         f"module:\n{each}")
            for each in modules:
                each.__dict__[_REGISTRY][function.__name__] = RegistryItem()
                each.__dict__.setdefault(_STATES, {})[applied] = state
            return function(module, *args, **kwargs)

        applied.state = lambda module: module.__dict__.get(_STATES, {}).get(applied)  # type: ignore[attr-defined]
        return applied

    return decorate


def _get_registry(module: Any) -> dict[str, RegistryItem] | None:
    """What was applied to a module, by name."""
    return module.__dict__.get(_REGISTRY)


def _outermost(modules: Any) -> list[Any]:
    """The modules that are not inside another of the list."""
    inside = {id(child) for module in modules for child in module.modules() if child is not module}
    return [module for module in modules if id(module) not in inside]
