"""Namespaces of `torch.ops` whose functions are no operators: marks in a profile, questions about oneDNN."""

from types import SimpleNamespace
from typing import Any

from .._profile import marked


class _Function:
    """A function that is also its own overloads."""

    def __init__(self, name: str, function: Any, *overloads: str) -> None:
        self._namespace, self.__name__ = name.split("::")
        self._function, self._overloads = function, ("default", *overloads)
        self.__module__ = f"torch._ops.{self._namespace}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def overloads(self) -> list[str]:
        return list(self._overloads)

    def __getattr__(self, name: str) -> "_Function":
        if name not in self.__dict__.get("_overloads", ()):
            raise AttributeError(f"The underlying op of '{self.__dict__.get('_namespace')}::"
                                 f"{self.__dict__.get('__name__')}' has no overload name '{name}'")
        return self

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"


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


def _no() -> bool:
    return False


def _namespace(name: str, **functions: tuple) -> SimpleNamespace:
    return SimpleNamespace(**{each: _Function(f"{name}::{each}", *given) for each, given in functions.items()})


NAMESPACES = {
    "profiler": _namespace(
        "profiler", _record_function_enter=(_enter,), _record_function_enter_new=(_enter,),
        _record_function_exit=(_exit, "_RecordFunction"),
        _call_end_callbacks_on_jit_fut=(_end_with, "_RecordFunction")),
    # No kernel here computes in half types by way of oneDNN.
    "mkldnn": _namespace("mkldnn", _is_mkldnn_acl_supported=(_no,), _is_mkldnn_bf16_supported=(_no,),
                         _is_mkldnn_fp16_supported=(_no,)),
}
