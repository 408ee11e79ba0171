"""torch.jit: scripting and tracing give back what runs the Python itself."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Final, TypeVar

from .._compat.absent import absent_function, refuse
from ..nn import Module
from ..nn.modules.module import OF_SCRIPTS

__all__ = ["Attribute", "Final", "ScriptFunction", "ScriptModule", "annotate", "export", "fork", "freeze", "ignore",
           "interface", "is_scripting", "is_tracing", "isinstance", "load", "optimize_for_inference", "save", "script",
           "script_if_tracing", "script_method", "trace", "trace_module", "unused", "wait"]

_T = TypeVar("_T")
_TORCHSCRIPT = "TorchScript files need PyTorch; torch.save a state_dict instead."


class TracerWarning(Warning):
    """What a tracer would warn of; nothing is traced here."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """There are none to ignore."""


class ScriptModule(Module):
    """A module as scripts know it: an ordinary one."""


class ScriptFunction:
    """A function as scripts know it: it runs the Python function."""

    def __init__(self, function: Callable) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined]  # pickled by its name, as the function would be

    def __getattr__(self, name: str) -> Any:
        if name in OF_SCRIPTS:
            refuse(f"torch.jit.ScriptFunction.{name}", _TORCHSCRIPT)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


RecursiveScriptModule = TopLevelTracedModule = TracedModule = ScriptModule


def _scripted(obj: Any) -> Any:
    """The module or class itself, a module with a note that it was scripted; for a function, what runs it."""
    if isinstance_(obj, Module):
        vars(obj)["_is_scripted"] = True  # so that Module.__getattr__ can say what is not here
    return ScriptFunction(obj) if isinstance_(obj, FunctionType) else obj


def script(obj: _T, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> _T:
    """The class or module itself; for a function, what runs it."""
    return _scripted(obj)


def trace(func: _T, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True,
          check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True, **options: Any) -> _T:
    """The function or module itself, once it has run on the example."""
    if example_inputs is not None:
        inputs = example_inputs if isinstance_(example_inputs, (tuple, list)) else (example_inputs,)
        func(*inputs)  # type: ignore[operator]
    return _scripted(func)


def trace_module(mod: _T, inputs: dict[str, Any], *args: Any, **options: Any) -> _T:
    return _scripted(mod)


def _unchanged(fn: _T) -> _T:
    return fn


export = script_method = script_if_tracing = _script_if_tracing = interface = _overload = _overload_method = _unchanged


def ignore(drop: Any = False, **options: Any) -> Any:
    """A decorator, with or without arguments, that gives the function back."""
    return drop if callable(drop) else _unchanged


unused = _unchanged


def freeze(mod: _T, preserved_attrs: Any = None, optimize_numerics: bool = True) -> _T:
    return mod


def optimize_for_inference(mod: _T, other_methods: Any = None) -> _T:
    return mod


def is_scripting() -> bool:
    return False


def is_tracing() -> bool:
    return False


isinstance_ = isinstance


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type; generic types are looked at by their origin."""
    from typing import get_origin

    kinds = target_type if isinstance_(target_type, tuple) else (target_type,)
    return isinstance_(obj, tuple(get_origin(kind) or kind for kind in kinds))


def annotate(the_type: Any, the_value: _T) -> _T:
    return the_value


class Attribute:
    """A value with its type, for scripted classes."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


def fork(func: Callable, *args: Any, **kwargs: Any) -> Any:
    """Runs the function now; `wait` gives its result."""
    from ..futures import Future

    future: Future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    return future.wait()


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    yield


fuser = strict_fusion = optimized_execution


def set_fusion_strategy(strategy: Any) -> list:
    return []


def onednn_fusion_enabled() -> bool:
    return False


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted; nothing is fused."""


save, load = absent_function("torch.jit.save", _TORCHSCRIPT), absent_function("torch.jit.load", _TORCHSCRIPT)
