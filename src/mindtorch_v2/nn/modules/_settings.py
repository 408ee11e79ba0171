"""Modules whose constructor only keeps its arguments, and which show them."""

import inspect
from dataclasses import KW_ONLY
from typing import Any, TypeVar, dataclass_transform

from .module import Module

__all__ = ["KW_ONLY", "ShownSettings", "settings"]

M = TypeVar("M", bound=Module)


class ShownSettings(Module):
    """A module that prints its settings by name; one to write in place only where it does."""

    _settings: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        shown = [f"{name}={getattr(self, name)}" for name in self._settings if name != "inplace"]
        return ", ".join([*shown, "inplace=True"] if getattr(self, "inplace", False) else shown)


@dataclass_transform()
def settings(cls: type[M]) -> type[M]:
    """Gives a class a constructor of its annotated attributes, as a dataclass has it, which hands them to `_keep`.

    What stands behind an annotation `_: KW_ONLY` must be named. `_keep(**settings)` of the class, if it has one, stores
    them; else each becomes an attribute.
    """
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter("self", kind)]
    for name, annotation in inspect.get_annotations(cls).items():
        if annotation is KW_ONLY:
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        default = cls.__dict__.get(name, inspect.Parameter.empty)
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=annotation))
        if default is not inspect.Parameter.empty:
            delattr(cls, name)
    signature = inspect.Signature(parameters, return_annotation=None)
    cls.__init__ = _constructor(cls, signature)  # type: ignore[method-assign]
    cls._settings = tuple(signature.parameters)[1:]  # type: ignore[attr-defined]
    if not hasattr(cls, "_keep"):
        cls._keep = _keep_all  # type: ignore[attr-defined]
    if "__constants__" not in cls.__dict__:
        cls.__constants__ = list(cls._settings)  # type: ignore[attr-defined]
    return cls


def _constructor(cls: type, signature: inspect.Signature) -> Any:
    """A function of that signature that hands its arguments to `_keep`; Python words the errors of a wrong call."""
    nothing = inspect.Parameter.empty
    scope: dict[str, Any] = {"initialise": Module.__init__}
    bare = []
    for parameter in signature.parameters.values():
        default = nothing if parameter.default is nothing else _Default(parameter.name)
        scope[repr(default)] = parameter.default
        bare.append(parameter.replace(annotation=nothing, default=default))
    head = inspect.Signature(bare)
    kept = ", ".join(f"{name}={name}" for name in list(signature.parameters)[1:])
    exec(f"def __init__{head}:\n    initialise(self)\n    self._keep({kept})", scope)
    init = scope["__init__"]
    init.__qualname__, init.__module__, init.__signature__ = f"{cls.__qualname__}.__init__", cls.__module__, signature
    return init


class _Default(str):
    """The default of the parameter of that name, as source code."""

    def __repr__(self) -> str:
        return f"default_{self}"


def _keep_all(self: Module, **values: Any) -> None:
    for name, value in values.items():
        setattr(self, name, value)
