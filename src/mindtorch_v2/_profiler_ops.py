"""`torch.ops.profiler`: marks in a profile, as other libraries set them."""

from typing import Any

from ._profile import marked


class _Function:
    """A function that is also its own overloads."""

    def __init__(self, name: str, function: Any, *overloads: str) -> None:
        self.__name__, self._function, self._overloads = name, function, ("default", *overloads)
        self.__module__ = "torch._ops.profiler"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def overloads(self) -> list[str]:
        return list(self._overloads)

    def __getattr__(self, name: str) -> "_Function":
        if name not in self.__dict__.get("_overloads", ()):
            raise AttributeError(f"The underlying op of 'profiler::{self.__dict__.get('__name__')}' has no overload "
                                 f"name '{name}'")
        return self

    def __str__(self) -> str:
        return f"profiler.{self.__name__}"


def _enter(name: str, args: str | None = None) -> marked:
    """An open mark."""
    mark = marked(name)
    mark.__enter__()
    return mark


def _exit(handle: marked) -> None:
    handle.__exit__()


def _end_with(handle: marked, future: Any) -> Any:
    """The future, whose end is the mark's."""
    handle.__exit__()
    return future


_record_function_enter = _Function("_record_function_enter", _enter)
_record_function_enter_new = _Function("_record_function_enter_new", _enter)
_record_function_exit = _Function("_record_function_exit", _exit, "_RecordFunction")
_call_end_callbacks_on_jit_fut = _Function("_call_end_callbacks_on_jit_fut", _end_with, "_RecordFunction")
