"""Modules of settings: known names only, which can be patched for a block."""

import ast
import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, TracebackType
from typing import Any


class ConfigModule(ModuleType):
    """A module whose attributes are settings; `a.b` is the setting `b` of the group `a`."""

    _config: dict[str, Any]
    _defaults: dict[str, Any]
    _checked: frozenset[str]  # settings whose value must have the type of the default
    _aliases: dict[str, str]
    _elsewhere: dict[str, Any]  # the module that has a setting

    def __getattr__(self, name: str) -> Any:
        config = self.__dict__.get("_config", {})
        name = self.__dict__.get("_aliases", {}).get(name, name)
        if name in self.__dict__.get("_elsewhere", ()):
            return getattr(self._elsewhere[name], name)
        if name in config:
            return config[name]
        if any(setting.startswith(name + ".") for setting in config):
            return _Group(self, name)
        raise AttributeError(f"{_public(self.__name__)}.{name} does not exist")

    def __setattr__(self, name: str, value: Any) -> None:
        name = self._aliases.get(name, name)
        if name in self._elsewhere:
            setattr(self._elsewhere[name], name, value)
            return
        if name not in self._defaults and not name.startswith("__"):
            raise AttributeError(f"{_public(self.__name__)}.{name} does not exist")
        if name in self._defaults:
            self._config[name] = value
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        """Hides a setting until it is set again, which is how `unittest.mock.patch` puts one back."""
        self._config.pop(self._aliases.get(name, name))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name.partition(".")[0] for name in self._config)})

    def get_config_copy(self) -> dict[str, Any]:
        """All settings and their values."""
        return dict(self._config)

    shallow_copy_dict = to_dict = get_config_copy

    def get_type(self, name: str) -> type:
        """The type that values of a setting have; `object` where any may come."""
        return type(self._defaults[name]) if name in self._checked else object

    def load_config(self, config: dict[str, Any]) -> None:
        """Takes over values, as get_config_copy gives them."""
        self._config.update(config)

    def patch(self, arg1: str | dict[str, Any] | None = None, arg2: Any = None, **kwargs: Any) -> "_Patch":
        """A context, or decorator, in which settings have other values."""
        changes = {arg1: arg2} if isinstance(arg1, str) else dict(arg1) if arg1 is not None else kwargs
        return _Patch(self, changes)


class _Group:
    """The settings whose names begin alike."""

    def __init__(self, config: ConfigModule, prefix: str) -> None:
        self.__dict__.update(_module=config, _prefix=prefix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, f"{self._prefix}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, f"{self._prefix}.{name}", value)


class _Patch(contextlib.ContextDecorator):
    def __init__(self, config: ConfigModule, changes: dict[str, Any]) -> None:
        self.config, self.changes = config, changes
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        before = {name: getattr(self.config, name) for name in self.changes}
        self.before.append(before)
        for name, value in self.changes.items():
            setattr(self.config, name, value)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for name, value in self.before.pop().items():
            setattr(self.config, name, value)


def _public(name: str) -> str:
    return "torch" + name[name.index(".") :]


def _rows(table: str) -> Iterator[tuple[str, Any, bool]]:
    """Of lines `value: names`, each name with its value, and whether other values must have its type (no `?`)."""
    for line in table.replace("\n        ", " ").strip().splitlines():
        value, names = line.strip().rsplit(": ", 1)
        default: Callable = functools.partial(ast.literal_eval, value.removeprefix("? "))
        for name in names.split():
            yield name, default() if value != "? set()" else set(), not value.startswith("? ")


def install_config_module(
    name: str, table: str, aliases: dict[str, str] | None = None, elsewhere: dict[str, ModuleType] | None = None
) -> None:
    """Makes a module one of settings, which the table names with their defaults; others are those of other modules."""
    module = sys.modules[name]
    rows = list(_rows(table))
    module.__dict__.update(
        _config={n: value for n, value, _ in rows},
        _defaults={n: value for n, value, _ in rows},
        _checked=frozenset(n for n, _, checked in rows if checked),
        _aliases=aliases or {},
        _elsewhere=elsewhere or {},
    )
    module.__class__ = ConfigModule
