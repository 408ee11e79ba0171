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
    annotations = inspect.get_annotations(cls)
    names = [name for name, annotation in annotations.items() if annotation is not KW_ONLY]
    positional = names[: list(annotations).index("_")] if "_" in annotations else names
    defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
    for name in defaults:
        delattr(cls, name)
    init = _constructor(tuple(positional), tuple(names[len(positional) :]))
    init.__defaults__ = tuple(defaults[name] for name in positional if name in defaults)
    init.__kwdefaults__ = {name: value for name, value in defaults.items() if name not in positional}
    init.__annotations__ = {**{name: annotations[name] for name in names}, "return": None}
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    cls.__init__ = init  # type: ignore[method-assign]
    cls._settings = tuple(names)  # type: ignore[attr-defined]
    if not hasattr(cls, "_keep"):
        cls._keep = _keep_all  # type: ignore[attr-defined]
    if "__constants__" not in cls.__dict__:
        cls.__constants__ = names  # type: ignore[attr-defined]
    return cls


def _constructor(positional: tuple[str, ...], named: tuple[str, ...]) -> Any:
    """A function of those arguments that hands them to `_keep`; Python words the errors of a wrong call."""
    head = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    kept = ", ".join(f"{name}={name}" for name in (*positional, *named))
    scope: dict[str, Any] = {"initialise": Module.__init__}
    exec(f"def __init__({head}):\n    initialise(self)\n    self._keep({kept})", scope)
    return scope["__init__"]


def _keep_all(self: Module, **values: Any) -> None:
    for name, value in values.items():
        setattr(self, name, value)
