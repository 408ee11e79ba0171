"""What must be as it was for a plan to be run again without the Python that recorded it (docs/compile.md)."""

import dis
import gc
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import is_
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from .._core.device import device, get_default_device
from .._core.dtype import dtype, get_default_dtype
from .._core.planning import changes
from .._core.tensor import Tensor
from .._core.threads import get_num_threads
from .._dispatch.keys import modes
from ..amp._state import state as autocast
from ..nn import Module
from ..nn.modules import module as _home

_OURS = {__name__.partition(".")[0], "numpy", "scipy", "ml_dtypes", "llvmlite", "cupy", "cupy_backends"}
_KNOWN = (sys.stdlib_module_names | _OURS) - {"__main__"}
_SIMPLE = frozenset({bool, int, float, complex, str, bytes, type(None), dtype, device, type(Ellipsis)})
_MOST = 256  # elements of a container that are looked at
_MOST_OBJECTS = 64  # of those that are found in others
_COMPARED = _SIMPLE | {tuple}  # by value; other objects are the same or not
_STORES = frozenset({"STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL"})
_MAKERS = frozenset({"__init__", "__new__", "__post_init__", "<module>"})  # what they write to is new
_IMPORTS = frozenset({"_find_and_load", "_find_spec"})  # that ask finders of the program, too
_OF_ALL = frozenset(vars(Module()))  # attributes that all modules have; what is in them is looked at by itself
_SEQUENCES = (list, tuple, set, frozenset, deque)
_CONTAINERS = (*_SEQUENCES, dict)
_CODE = (FunctionType, MethodType, BuiltinFunctionType, ModuleType, type)


class NotGuarded(Exception):
    """Why a call cannot be run again without Python."""


# arguments -----------------------------------------------------------------------------------------------------------


def key_of(values: Iterable[Any], leaves: list[Tensor], seen: dict[int, int]) -> tuple:
    """What a replay depends on of arguments: their kinds and values; the layout of tensors, which `leaves` gets."""
    parts: list[Any] = []
    for value in values:
        kind = value.__class__
        if isinstance(value, Tensor):
            value._settle()
            array = value._array
            parts.append((kind, array.shape, array.strides, array.dtype, value._keys, value._device,
                          seen.setdefault(id(array), len(leaves))))  # fmt: skip
            leaves.append(value)
        elif kind in _SIMPLE:
            parts.append((kind, value if value == value else "nan", str(value) if kind is float else None))
        elif kind is tuple or kind is list:
            parts.append((kind, key_of(value, leaves, seen)))
        elif kind is dict:
            parts.append((kind, tuple(value), key_of(value.values(), leaves, seen)))
        elif isinstance(value, tuple) and all(v.__class__ in _SIMPLE for v in value):  # torch.Size and named tuples
            parts.append((kind, tuple(value)))
        else:
            raise NotGuarded(f"an argument is a {kind.__name__}")
    return tuple(parts)


def ambient() -> tuple:
    """What operators depend on besides their arguments."""
    own = modes.__dict__
    if own.get("function_modes") or own.get("dispatch_modes") or own.get("levels"):
        raise NotGuarded("a mode or a transform sees the calls")
    return (own["masks"], own["inference"], get_default_dtype(), get_default_device(),
            autocast.enabled and (autocast.enabled, *autocast.dtypes.values()), get_num_threads())  # fmt: skip


# what a call runs ----------------------------------------------------------------------------------------------------


class Watched:
    """The functions of the program that ran in a block, and things they did that a replay would leave out."""

    def __init__(self) -> None:
        self.codes: dict[CodeType, dict[str, Any]] = {}  # with their globals
        self.refused: str | None = None
        self.importing = 0

    def __enter__(self) -> "Watched":
        self.collects = gc.isenabled()
        gc.disable()  # what a collection runs, such as finalizers of others, is not the function's
        self.before = sys.getprofile()
        sys.setprofile(self._event)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(self.before)
        if self.collects:
            gc.enable()

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_name in _IMPORTS and event in ("call", "return"):  # which happen once
            self.importing += 1 if event == "call" else -1
        elif self.importing:
            return
        elif event == "call":
            if code not in self.codes and not _ours(frame.f_globals):
                self.codes[code] = frame.f_globals
        elif event == "c_call" and self.refused is None and not _ours(frame.f_globals):
            if argument in (print, input, open) or getattr(argument, "__name__", "") == "write":
                self.refused = f"{code.co_name} calls {argument.__name__}"
            elif getattr(argument, "__module__", None) in ("time", "_random", "random") or isinstance(
                getattr(argument, "__self__", None), (random.Random, np.random.Generator, np.random.RandomState)
            ):
                self.refused = f"{code.co_name} asks for the time or for random numbers"

    def check(self) -> None:
        """Refuses functions that change what outlives them."""
        if self.refused is not None:
            raise NotGuarded(self.refused)
        for code in self.codes:
            if code.co_name in _MAKERS:
                continue
            for instruction in dis.get_instructions(code):
                outer = instruction.opname == "STORE_DEREF" and instruction.argval in code.co_freevars
                if instruction.opname in _STORES or outer:
                    raise NotGuarded(f"{code.co_name} sets {instruction.argval}")


def _ours(scope: dict[str, Any]) -> bool:
    """Whether code is of this library, below it or of Python's: what it does is known to stay inside a call."""
    return (scope.get("__name__") or "").partition(".")[0] in _KNOWN


# what it reads -------------------------------------------------------------------------------------------------------


class Surroundings:
    """Modules, globals and closures that a function reads, as they are now."""

    def __init__(self, fn: Callable, watched: Watched) -> None:
        self.modules: list[tuple[Module, tuple]] = []
        self.places: list[tuple[dict[str, Any], str, Any]] = []  # names in scopes, with their values
        self.cells: list[tuple[Any, Any]] = []
        self.objects: list[tuple[Any, tuple]] = []  # containers and plain objects, with what is in them
        self._seen: set[int] = set()
        self._looked_at: set[int] = set()
        self._names = {name for code in watched.codes for name in code.co_names}
        self.version = changes[0]
        for value in (fn, *_defaults(fn)):
            self._take(value)
        for code, scope in watched.codes.items():
            for name in code.co_names:
                if name in scope and not isinstance(scope[name], _CODE):
                    self.places.append((scope, name, scope[name]))
                    self._take(scope[name])

    def _take_cell(self, cell: Any) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # nothing is in it yet
            return
        if not isinstance(value, FunctionType):
            self.cells.append((cell, value))
        self._take(value)

    def _take(self, value: Any) -> None:
        if id(value) in self._seen or value.__class__ in _SIMPLE:
            return
        self._seen.add(id(value))
        if isinstance(value, Module):
            for module in value.modules():
                self._seen.add(id(module))
                self.modules.append((module, _of_module(module)))
                if any(vars(module)[name] for name in vars(module) if name.endswith("_hooks") and "state" not in name
                       and "load" not in name):  # fmt: skip
                    raise NotGuarded(f"{type(module).__name__} has hooks")
                for name, held in vars(module).items():
                    unread = isinstance(held, np.ndarray) and name not in self._names
                    if name not in _OF_ALL and not isinstance(held, Module) and not unread:
                        self._take_inside(held)
        elif isinstance(value, FunctionType):
            for cell in _cells(value):
                self._take_cell(cell)
        elif isinstance(value, MethodType):
            self._take(value.__self__)
            self._take(value.__func__)
        else:
            self._take_inside(value)

    def _take_inside(self, value: Any) -> None:
        """Takes a container or an object, and those in it; of objects only attributes with names that were read."""
        waiting = [value]
        for held in waiting:
            if isinstance(held, (*_CODE, Tensor, Module)) or held.__class__ in _SIMPLE or id(held) in self._looked_at:
                continue
            if isinstance(held, np.ndarray):
                raise NotGuarded("it reads an array of NumPy, whose elements may change")
            inside = _inside(held)
            if inside is None or held is not value and len(self._looked_at) >= _MOST_OBJECTS:
                continue
            self._looked_at.add(id(held))
            self.objects.append((held, inside))
            if isinstance(held, _CONTAINERS):
                waiting += inside
            else:
                waiting += [part for name, part in vars(held).items() if name in self._names]

    def tensors(self) -> Iterator[tuple[Tensor, Callable[[], bool]]]:
        """The tensors it reads, each with a function that says whether it still is in its place."""
        for module, _ in self.modules:
            for members in (module._parameters, module._buffers):
                for name, tensor in members.items():
                    if tensor is not None:
                        yield tensor, _still(members, name, tensor)
            for name, value in vars(module).items():
                if isinstance(value, Tensor):
                    yield value, _still(vars(module), name, value)
        for scope, name, value in self.places:
            if isinstance(value, Tensor):
                yield value, _still(scope, name, value)
        for cell, value in self.cells:
            if isinstance(value, Tensor):
                yield value, lambda cell=cell, value=value: cell.cell_contents is value  # type: ignore[misc]

    def holds(self) -> bool:
        """Whether all of it is as it was."""
        for scope, name, value in self.places:
            if scope.get(name) is not value:
                return False
        for cell, value in self.cells:
            if cell.cell_contents is not value:
                return False
        for value, inside in self.objects:
            if not _same(_inside(value), inside):
                return False
        if changes[0] != self.version:
            if global_hooks():
                return False
            for module, known in self.modules:
                if not _same(_of_module(module), known):
                    return False
            self.version = changes[0]
        return True


def global_hooks() -> bool:
    """Whether hooks run at the calls of all modules."""
    return bool(_home._global_forward_hooks or _home._global_forward_pre_hooks or _home._global_backward_hooks
                or _home._global_backward_pre_hooks)  # fmt: skip


def _still(members: dict[str, Any], name: str, tensor: Tensor) -> Callable[[], bool]:
    return lambda: members.get(name) is tensor


def _cells(fn: Any) -> tuple:
    return getattr(getattr(fn, "__func__", fn), "__closure__", None) or ()


def _defaults(fn: Any) -> tuple:
    fn = getattr(fn, "__func__", fn)
    return (*(getattr(fn, "__defaults__", None) or ()), *(getattr(fn, "__kwdefaults__", None) or {}).values())


def _of_module(module: Module) -> tuple:
    """The attributes of a module: the objects themselves, which compare by identity."""
    own = vars(module)
    hooks = tuple([len(own[name]) for name in own if name.endswith("_hooks")])
    return (*own.keys(), *own.values(), *module._parameters.values(), *module._buffers.values(),
            *module._modules.values(), hooks)  # fmt: skip


def _inside(value: Any) -> tuple | None:
    """What a container or an object holds; None where it does not say."""
    if isinstance(value, _SEQUENCES):
        return tuple(value) if len(value) <= _MOST else (len(value),)
    if isinstance(value, dict):
        return (*value.keys(), *value.values()) if len(value) <= _MOST else (len(value),)
    own = getattr(value, "__dict__", None)
    return (*own.keys(), *own.values()) if isinstance(own, dict) and len(own) <= _MOST else None


def _same(now: tuple | None, before: tuple | None) -> bool:
    if now is None or before is None or len(now) != len(before):
        return False
    if all(map(is_, now, before)):
        return True
    return all(
        a is b or (a.__class__ is b.__class__ and a.__class__ in _COMPARED and a == b)
        for a, b in zip(now, before, strict=True)
    )
