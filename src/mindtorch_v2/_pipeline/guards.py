"""What must be as it was for a plan to be run again without the Python that recorded it (docs/compile.md)."""

import functools
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from operator import is_
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from .._core.determinism import determinism
from .._core.device import Size, device, get_default_device
from .._core.dtype import dtype, get_default_dtype
from .._core.planning import changes
from .._core.tensor import Tensor
from .._core.threads import get_num_threads
from .._dispatch.keys import PYTHON_MASK, TORCH_DISPATCH_MASK, modes
from ..amp._state import state as autocast
from ..nn import Module
from ..nn.modules import module as _home
from ..optim import optimizer as _optimizers
from ..optim.optimizer import Optimizer
from .watching import ABSENT, KNOWN, OTHERS, OURS, STREAMS, NotGuarded, Watched, home_of, is_known

_SIMPLE = frozenset({bool, int, float, complex, str, bytes, type(None), dtype, device, type(Ellipsis)})
_MOST = 512  # elements of a container, or names and values of attributes, that are looked at
_MOST_OBJECTS = 64  # of those that are found in others
_OF_ALL = frozenset(vars(Module()))  # attributes that all modules have; what is in them is looked at by itself
_CALLED = _OF_ALL | {"forward"}  # what is read to call a module
_ROOM = "_room"  # the attribute of an optimizer that says only how much memory it needs
_OF_OPTIMIZERS = frozenset({"defaults", "param_groups", "state", _ROOM})
# What reads attributes by names that are not in the code.
_BY_NAME = frozenset({"getattr", "vars", "__dict__", "__getattribute__", "attrgetter", "dir", "getmembers", "copy",
                      "deepcopy", "asdict", "astuple", "fields", "replace", "format", "format_map",
                      "__getstate__"})  # fmt: skip
Names = set[str] | None  # None stands for all
_SEQUENCES = (list, tuple, set, frozenset, deque)
_CONTAINERS = (*_SEQUENCES, dict)
_CODE = (FunctionType, MethodType, BuiltinFunctionType, ModuleType, type)
_FIXED = (range, slice, re.Pattern, np.dtype, np.generic, property, MemberDescriptorType, GetSetDescriptorType,
          type(ABSENT))  # fmt: skip


# arguments -----------------------------------------------------------------------------------------------------------


def key_of(values: Iterable[Any], leaves: list[Tensor], seen: dict[int, int]) -> tuple:
    """What a replay depends on of arguments: their kinds and values; the layout of tensors, which `leaves` gets."""
    parts: list[Any] = []
    for value in values:
        kind = value.__class__
        if isinstance(value, Tensor):
            value._settle()
            if value._keys & (PYTHON_MASK | TORCH_DISPATCH_MASK):
                raise NotGuarded(f"{kind.__name__} sees the calls")
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
    if own.get("function_modes") or own.get("dispatch_modes") or own.get("levels") or own.get("anomaly"):
        raise NotGuarded("a mode or a transform sees the calls")
    return (own["masks"], own["inference"], get_default_dtype(), get_default_device(),
            autocast.enabled and (autocast.enabled, *autocast.dtypes.values()), get_num_threads(),
            determinism.mode, determinism.fills)  # fmt: skip


# what it reads -------------------------------------------------------------------------------------------------------


class Surroundings:
    """Modules, globals and closures that a function reads, as they are now."""

    def __init__(self, fn: Callable, watched: Watched) -> None:
        self.modules: list[tuple[Module, Names, tuple]] = []  # with the attributes that are looked at
        self.places: list[tuple[Any, str, Any]] = []  # names in scopes and classes, with their values
        self.classes: list[tuple[Any, int]] = []  # the members of classes, and how many they are
        self.cells: list[tuple[Any, Any]] = []
        self.optimizers: list[tuple[Optimizer, bool, tuple]] = []  # whether their numbers are rates, and what they hold
        self.rates: list[Rate] = []
        # Containers and plain objects: the names of slots, the attributes that are looked at, and what is in them.
        self.objects: list[tuple[Any, tuple[str, ...], Names, tuple]] = []
        self._seen: set[int] = set()
        self._looked_at: set[int] = set()
        self._noted: set[tuple[int, str]] = set()
        self._codes = watched.codes
        # Attributes that are read, and those whose names getattr may be given.
        self.names = {name for code in watched.codes for name in code.co_names}
        self.names |= {text for code in watched.codes for text in code.co_consts if text.__class__ is str}
        self._by_name = not self.names.isdisjoint(_BY_NAME)
        self.version = changes[0]
        for value in (fn, *_defaults(fn)):
            self._take(value)
        for code, scope in watched.codes.items():
            self._take_scope(scope, code.co_names)

    def _note(self, scope: Any, name: str, names: Iterable[str]) -> None:
        """Takes what a name stands for in a scope; of a module, the attributes of these names."""
        if (id(scope), name) in self._noted:
            return
        self._noted.add((id(scope), name))
        value = scope[name]
        if value is os.environ or value is os.getenv or value is os and not {"environ", "getenv"}.isdisjoint(names):
            self._take(os.environ._data)  # type: ignore[attr-defined]
        self.places.append((scope, name, value))
        if isinstance(value, ModuleType):
            self._take_scope(vars(value), names)
        else:
            self._take(value)

    def _take_scope(self, scope: dict[str, Any], names: Iterable[str]) -> None:
        """Takes what is read of a module of the program."""
        if not is_known(scope):
            for name in names:
                if name in scope:
                    self._note(scope, name, names)

    def _take_class(self, kind: type) -> None:
        """Takes what is read of a class of the program."""
        for one in kind.__mro__:
            if id(one) in self._seen or _is_known_class(one):
                continue
            self._seen.add(id(one))
            members = vars(one)
            self.classes.append((members, len(members)))
            for name, member in members.items():
                if name in self.names or getattr(member, "__code__", None) in self._codes:
                    self._note(members, name, ())

    def _take_cell(self, cell: Any) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # nothing is in it yet
            return
        self.cells.append((cell, value))
        self._take(value)

    def _take(self, value: Any) -> None:
        if id(value) in self._seen or value.__class__ in _SIMPLE:
            return
        if isinstance(value, type):
            self._take_class(value)
            return
        self._seen.add(id(value))
        if isinstance(value, ModuleType):
            self._take_scope(vars(value), self.names)
        elif isinstance(value, Module):
            for module in value.modules():
                self._seen.add(id(module))
                self._take_module(module)
        elif isinstance(value, Optimizer):
            self._take_optimizer(value)
        elif isinstance(value, FunctionType):
            if not is_known(value.__globals__):
                for cell in _cells(value):
                    self._take_cell(cell)
                if vars(value):
                    self.objects.append((value, (), None, _inside(value, (), None) or ()))
                for held in (*_defaults(value), *vars(value).values()):
                    self._take(held)
        elif isinstance(value, MethodType):
            self._take(value.__self__)
            self._take(value.__func__)
        elif isinstance(value, BuiltinFunctionType):  # `losses.append`, say
            if not isinstance(value.__self__, ModuleType):
                self._take(value.__self__)
        elif isinstance(value, functools.partial):
            for held in (value.func, *value.args, *value.keywords.values()):
                self._take(held)
        elif isinstance(value, (staticmethod, classmethod)):
            self._take(value.__func__)
        else:
            self._take_inside(value)

    def _take_module(self, module: Module) -> None:
        own = vars(module)
        names = self._looked_for(module)
        self.modules.append((module, names, _of_module(module, names)))
        if any(own[name] for name in own if name.endswith("_hooks") and "state" not in name and "load" not in name):
            raise NotGuarded(f"{type(module).__name__} has hooks")
        self._take_class(type(module))
        for name, held in own.items():
            if name not in _OF_ALL and name in self.names and not isinstance(held, Module):
                self._take(held)

    def _looked_for(self, value: Any) -> Names:
        """The attributes of an object that are read, if its class and all functions tell them by their names."""
        return None if self._by_name or _is_read_elsewhere(value) else self.names

    def _take_optimizer(self, optimizer: Optimizer) -> None:
        """Takes options and state, of which there is more than is looked at of other objects."""
        if _hooks_of(optimizer):
            raise NotGuarded(f"{type(optimizer).__name__} has hooks")
        self._take_class(type(optimizer))
        varies = _is_known_class(type(optimizer))  # what steps of the program do with numbers is not known
        for group in optimizer.param_groups:
            self.rates += _rates(group) if varies else ()
        self.optimizers.append((optimizer, varies, _of_optimizer(optimizer, varies)))
        held = [state for state in optimizer.state.values() if isinstance(state, dict)]
        for one in (*optimizer.param_groups, *held):
            for name, part in one.items():
                if name != "params" and not isinstance(part, (Tensor, tuple)):
                    self._take(part)
        for name, part in vars(optimizer).items():
            if name not in _OF_OPTIMIZERS and name in self.names:
                self._take(part)

    def _take_inside(self, value: Any) -> None:
        """Takes a container or an object, and those in it; of objects only attributes with names that were read."""
        waiting = [value]
        for held in waiting:
            if isinstance(held, (*_CODE, Module, Optimizer, functools.partial)):
                self._take(held)
                continue
            if isinstance(held, (Tensor, *_FIXED)) or held.__class__ in _SIMPLE or id(held) in self._looked_at:
                continue
            if isinstance(held, np.ndarray):
                raise NotGuarded("it reads an array of NumPy, whose elements may change")
            if isinstance(held, STREAMS):  # whose methods, where Cython made them, no profiler sees
                raise NotGuarded("it draws random numbers")
            slots = _slots(held)
            names = self._looked_for(held)
            inside = _inside(held, slots, names)
            if inside is None:
                if home_of(type(held)) in OURS:
                    continue
                raise NotGuarded(f"it reads a {type(held).__name__}")
            if len(inside) > _MOST or len(self._looked_at) >= _MOST_OBJECTS:
                raise NotGuarded("it reads more than can be looked at each time")
            self._looked_at.add(id(held))
            self.objects.append((held, slots, names, inside))
            if isinstance(held, (*_CONTAINERS, ContextVar)):
                waiting += inside
            else:
                self._take_class(type(held))
                own = _attributes(held, slots) or {}
                all_of_it = _is_read_elsewhere(held)
                waiting += [part for name, part in own.items() if all_of_it or name in self.names]

    def is_fixed(self, value: Any) -> bool:
        """Whether a value of a result is the same at each call: one without parts that change, or seen before it."""
        return value.__class__ in _SIMPLE or isinstance(value, (type, Size)) or id(value) in self._looked_at

    def shows(self, rates: Iterable[int]) -> bool:
        """Whether code of the program may look at some of the rates, too."""
        return not self.names.isdisjoint(["param_groups", *[self.rates[at].name for at in rates]])

    def tensors(self) -> Iterator[tuple[Tensor, Callable[[], bool]]]:
        """The tensors it reads, each with a function that says whether it still is in its place."""
        for module, *_ in self.modules:
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
        for parts in (*(parts for *_, parts in self.objects), *(parts for *_, parts in self.optimizers)):
            for value in parts:
                if isinstance(value, Tensor):
                    yield value, _compared

    def holds(self) -> bool:
        """Whether all of it is as it was."""
        for scope, name, value in self.places:
            if scope.get(name) is not value:
                return False
        for members, count in self.classes:
            if len(members) != count:
                return False
        for cell, value in self.cells:
            if cell.cell_contents is not value:
                return False
        for value, slots, names, inside in self.objects:
            if not _same(_inside(value, slots, names), inside):
                return False
        for optimizer, varies, parts in self.optimizers:
            if not _same(_of_optimizer(optimizer, varies), parts):
                return False
        if changes[0] != self.version:
            if global_hooks():
                return False
            for module, names, known in self.modules:
                if not _same(_of_module(module, names), known):
                    return False
            self.version = changes[0]
        return True


def global_hooks() -> bool:
    """Whether hooks run at the calls of all modules, or the steps of all optimizers."""
    return bool(_home._global_forward_hooks or _home._global_forward_pre_hooks or _home._global_backward_hooks
                or _home._global_backward_pre_hooks or _optimizers._global_optimizer_pre_hooks
                or _optimizers._global_optimizer_post_hooks)  # fmt: skip


def _compared() -> bool:
    """Of what `holds` has looked at."""
    return True


def _still(members: dict[str, Any], name: str, tensor: Tensor) -> Callable[[], bool]:
    return lambda: members.get(name) is tensor


def _cells(fn: Any) -> tuple:
    return getattr(getattr(fn, "__func__", fn), "__closure__", None) or ()


def _defaults(fn: Any) -> tuple:
    fn = getattr(fn, "__func__", fn)
    return (*(getattr(fn, "__defaults__", None) or ()), *(getattr(fn, "__kwdefaults__", None) or {}).values())


def _of_module(module: Module, names: Names) -> tuple:
    """The attributes of a module: the objects themselves, which compare by identity."""
    own = vars(module)
    hooks = tuple([len(own[name]) for name in own if name.endswith("_hooks")])
    values = own.values() if names is None else [own[name] for name in own if name in names or name in _CALLED]
    return (*own.keys(), *values, *module._parameters.values(), *module._buffers.values(),
            *module._modules.values(), hooks)  # fmt: skip


def _of_optimizer(optimizer: Optimizer, varies: bool) -> tuple:
    """Attributes, options and state of an optimizer: the objects themselves, or of numbers that vary, their types."""
    parts = [part for item in vars(optimizer).items() if item[0] != _ROOM for part in item]
    for group in optimizer.param_groups:
        parts += (group, *group, *group["params"])
        for value in group.values():
            if value.__class__ is float and varies:
                parts.append(float)
            elif value.__class__ is tuple and varies:
                parts += [float if part.__class__ is float else part for part in value]
            else:
                parts.append(value)
    for parameter, state in optimizer.state.items():
        parts += (parameter, *state, *state.values()) if isinstance(state, dict) else (parameter, state)
    parts.append(_hooks_of(optimizer))
    return tuple(parts)


def _hooks_of(optimizer: Optimizer) -> int:
    return len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)


class Rate(NamedTuple):
    """A number among the options of an optimizer, which schedulers may change: a value, or one of several."""

    group: dict[str, Any]
    name: str
    position: int | None

    def now(self) -> Any:
        """What it is."""
        value = self.group[self.name]
        return value if self.position is None else value[self.position]


def _rates(group: dict[str, Any]) -> list[Rate]:
    """The numbers of a group. Each becomes an object of its own, by which it is known among those of a recording."""
    found = []
    for name, value in group.items():
        if value.__class__ is float:
            group[name] = value * 1.0
            found.append(Rate(group, name, None))
        elif value.__class__ is tuple and float in map(type, value):
            group[name] = tuple([part * 1.0 if part.__class__ is float else part for part in value])
            found += [Rate(group, name, at) for at, part in enumerate(value) if part.__class__ is float]
    return found


def _inside(value: Any, slots: tuple[str, ...], names: Names) -> tuple | None:
    """What a container or an object holds, of its attributes those of these names; None where it does not say."""
    if value.__class__ is ContextVar:
        return (value.get(ABSENT),)
    if isinstance(value, dict):
        held: tuple | None = (*value.keys(), *value.values())
    else:
        held = tuple(value) if isinstance(value, _SEQUENCES) else None
    if value.__class__ in _CONTAINERS:
        return held
    found = _attributes(value, slots)
    if found is None:
        return held
    return (*(held or ()), *found, *[part for name, part in found.items() if names is None or name in names])


def _attributes(value: Any, slots: tuple[str, ...]) -> dict[str, Any] | None:
    """The attributes that an object has of its own; None where it does not say."""
    own = getattr(value, "__dict__", None)
    if not slots:
        return own if isinstance(own, dict) else None
    return (own or {}) | {name: getattr(value, name) for name in slots if hasattr(value, name)}


def _slots(value: Any) -> tuple[str, ...]:
    """The attributes that classes of the program have places for in an object."""
    found = []
    for kind in type(value).__mro__:
        if not _is_known_class(kind):
            named = vars(kind).get("__slots__", ())
            for name in (named,) if isinstance(named, str) else named:
                hidden = name.startswith("__") and not name.endswith("__")
                found.append(f"_{kind.__name__.lstrip('_')}{name}" if hidden else name)
    return tuple([name for name in found if name not in ("__dict__", "__weakref__")])


def _is_read_elsewhere(value: Any) -> bool:
    """Whether code that is not watched may read attributes of an object, by any name: that of a class that it is of.

    Of classes whose calls are refused there is none.
    """
    homes = {home_of(kind) for kind in type(value).__mro__ if kind not in Module.__mro__}
    return any([home in KNOWN and home not in OTHERS for home in homes])


def _is_known_class(kind: type) -> bool:
    """Whether a class is of this library, below it or of Python's."""
    return home_of(kind) in KNOWN


def _same(now: tuple | None, before: tuple | None) -> bool:
    if now is None or before is None or len(now) != len(before):
        return False
    if all(map(is_, now, before)):
        return True
    return all(
        a is b
        or a.__class__ is b.__class__
        and (_same(a, b) if a.__class__ is tuple else a.__class__ in _SIMPLE and a == b)
        for a, b in zip(now, before, strict=True)
    )
