"""Decorators of data pipes."""

from collections.abc import Callable
from typing import Any


class functional_datapipe:
    """Makes a pipe's class a method, of the given name, of all pipes of its kind."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: type) -> type:
        cls.register_datapipe_as_function(self.name, cls)  # type: ignore[attr-defined]
        return cls


class guaranteed_datapipes_determinism:
    """Context in which only pipes with a fixed order may be made."""

    active = False

    def __enter__(self) -> None:
        type(self).active = True

    def __exit__(self, *exception: Any) -> None:
        type(self).active = False


class non_deterministic:
    """Marks a pipe's class as one whose order is not fixed."""

    def __init__(self, arg: Any) -> None:
        self.arg = arg

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self.arg, type):
            if guaranteed_datapipes_determinism.active:
                raise TypeError(f"{self.arg.__name__} is non-deterministic, but you set "
                                "'guaranteed_datapipes_determinism'. ")
            return self.arg(*args, **kwargs)
        return args[0]


def argument_validation(f: Callable) -> Callable:
    """The function itself: types of arguments are not checked."""
    return f


runtime_validation = argument_validation


class runtime_validation_disabled:
    """Context in which types are not checked; they never are."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        pass
