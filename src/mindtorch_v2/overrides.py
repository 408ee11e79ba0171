"""torch.overrides: modes and tests around __torch_function__."""

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ._core.device import Size
from ._core.dtype import dtype
from ._core.tensor import Tensor
from ._core.tensor_base import TensorBase
from ._dispatch.callers import call_torch_function
from ._dispatch.keys import PYTHON_MASK, changed_modes, modes, unusual
from ._dispatch.python_key import call_function_mode
from ._torch_dispatch import ABOVE

__all__ = ["BaseTorchFunctionMode", "TorchFunctionMode", "enable_reentrant_dispatch", "get_default_nowrap_functions",
           "get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
           "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
           "is_tensor_method_or_property", "redispatch_function", "resolve_name", "wrap_torch_function"]


class TorchFunctionMode:
    """Inside, its `__torch_function__` sees every call, whatever the types; the innermost mode first."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> "TorchFunctionMode":
        _modes().append(self)
        modes.update(include=modes.include | PYTHON_MASK)
        return self

    def __exit__(self, *exc: object) -> None:
        _modes().pop()
        if not _modes():
            modes.update(include=modes.include & ~PYTHON_MASK)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> "TorchFunctionMode":
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))


def _modes() -> list[TorchFunctionMode]:
    return modes.__dict__.setdefault("function_modes", [])


def _get_current_function_mode() -> TorchFunctionMode | None:
    return _modes()[-1] if _modes() else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    return list(_modes())


def _overrides(value: Any) -> bool:
    keys = getattr(value, "_keys", None)
    if keys is not None:
        return bool(keys & PYTHON_MASK) and not modes.exclude & PYTHON_MASK
    return hasattr(type(value), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode, or one of the arguments, wants to see the call first."""
    if modes.__dict__.pop("function_not_asked", False):
        return False
    return bool(modes.masks[0] & PYTHON_MASK & modes.masks[1]) or any(_overrides(a) for a in relevant_args)


def has_torch_function_unary(obj: Any) -> bool:
    return has_torch_function((obj,))


def has_torch_function_variadic(*objs: Any) -> bool:
    return has_torch_function(objs)


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Hands a call of a Python function to the mode in force, or to its arguments' __torch_function__."""
    owners = [a for a in relevant_args if _overrides(a)]
    if modes.include & PYTHON_MASK and _modes():
        return call_function_mode(_modes(), public_api, owners, args, kwargs)
    return call_torch_function(public_api, owners, args, kwargs, in_python=True)


_NEVER_ASKED = frozenset((Tensor, str, int, float, bool, type(None), tuple, list, Size, dtype))


def overridable(function: Callable) -> Callable:
    """A Python function behind a check whether a mode, or an argument, wants to see the call first."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        asks = unusual.threads and modes.masks[0] & PYTHON_MASK
        for value in args:
            if value.__class__ not in _NEVER_ASKED:
                asks = True
        if kwargs:
            for value in kwargs.values():
                if value.__class__ not in _NEVER_ASKED:
                    asks = True
        if asks:
            given = (*args, *kwargs.values())
            if has_torch_function(given):
                return handle_torch_function(call, given, *args, **kwargs)
        return function(*args, **kwargs)

    call._unasked = function  # type: ignore[attr-defined]
    return call


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable], Callable]:
    """A decorator: the function asks the arguments that `dispatcher` names before it runs."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        wrapped._unasked = function  # type: ignore[attr-defined]
        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Context in which what a `__torch_dispatch__` calls is recorded, too: autograd is in force again."""
    with changed_modes(exclude=modes.exclude & ~ABOVE):
        yield


def redispatch_function(func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """What a function gives for its arguments without asking them; what it calls inside asks them again."""
    kwargs = kwargs or {}
    unasked = getattr(func, "_unasked", None)
    if unasked is not None:
        return unasked(*args, **kwargs)
    if getattr(func, "__module__", "").startswith((str(__package__), "torch")):
        with changed_modes(exclude=modes.exclude | PYTHON_MASK):
            return func(*args, **kwargs)
    modes.__dict__["function_not_asked"] = True
    try:
        return func(*args, **kwargs)
    finally:
        modes.__dict__.pop("function_not_asked", None)


# what can be overridden ----------------------------------------------------------------------------------------------

_NEVER = """asarray as_tensor from_dlpack from_file from_numpy frombuffer get_default_device get_default_dtype
            is_storage is_tensor manual_seed set_default_device set_default_dtype tensor typename""".split()
_NAMESPACES = ("", "functional", "nn.functional", "linalg", "fft", "special")


def _namespace(name: str) -> Any:
    return importlib.import_module(f"{__package__}.{name}" if name else str(__package__))


@functools.cache
def get_ignored_functions() -> set[Callable]:
    """Functions of torch that never ask their arguments."""
    package = _namespace("")
    return {getattr(package, name) for name in _NEVER if hasattr(package, name)}


def get_default_nowrap_functions() -> set[Callable]:
    """Functions whose results a subclass gets as they are."""
    return {Tensor.grad.__get__, Tensor.grad_fn.__get__}


def _tensor_members() -> dict[str, Any]:
    """What Tensor itself has, and the base that gives it its fields."""
    return {**vars(TensorBase), **vars(Tensor)}


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable]]:
    """The functions that ask their arguments, by where they are found."""
    found: dict[Any, list[Callable]] = {}
    for place in _NAMESPACES:
        members = vars(_namespace(place))
        found[f"torch.{place}".rstrip(".")] = [
            f for name, f in members.items()
            if inspect.isfunction(f) and not name.startswith("_") and f not in get_ignored_functions()
            and getattr(f, "__module__", "").startswith(str(__package__))]
    found[Tensor] = [f for f in _tensor_members().values() if inspect.isfunction(f)]
    return found


def get_testing_overrides() -> dict[Callable, Callable]:
    """For each overridable function, one that takes the same arguments and returns -1."""
    return {f: lambda *args, **kwargs: -1 for group in get_overridable_functions().values() for f in group}


def _name(named: dict[Any, str], function: Any, prefix: str, name: str) -> None:
    if named.get(function) != prefix + function.__name__:
        named[function] = prefix + name


@functools.cache
def _names() -> tuple[dict[Any, str], set[Any]]:
    """What functions are called, of several names in one place by their own; and which of them are methods only."""
    named: dict[Any, str] = {}
    methods: set[Any] = set()
    for name, member in _tensor_members().items():
        if isinstance(member, property):
            named[member.fget] = f"torch.Tensor.{name}.__get__"
            methods.add(member.fget)
        elif inspect.isfunction(member):
            _name(named, member, "torch.Tensor.", name)
            methods.add(member)
    for place in reversed(_NAMESPACES):
        for name, member in vars(_namespace(place)).items():
            if inspect.isfunction(member) and not name.startswith("_"):
                _name(named, member, f"torch.{place}." if place else "torch.", name)
                methods.discard(member)
    return named, methods


def _of_property(function: Any) -> Any:
    """The getter behind `Tensor.x.__get__`."""
    owner = getattr(function, "__self__", None)
    return owner.fget if isinstance(owner, property) else function


def resolve_name(f: Any) -> str | None:
    """The dotted name of a function or method that can be overridden."""
    if type(f).__name__ in ("OpOverload", "OpOverloadPacket"):
        return str(f)
    function = _of_property(f)
    return _names()[0].get(function) if function.__hash__ is not None else None


def is_tensor_method_or_property(func: Callable) -> bool:
    return _of_property(func) in _names()[1] or getattr(func, "__name__", "") == "__get__"
