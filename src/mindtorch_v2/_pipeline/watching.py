"""What a call does besides computing: the functions of the program that run in it, and effects that outlive it.

A plan that is run again without the Python that recorded it leaves these effects out, so a call that has some is not.
"""

import contextlib
import datetime
import dis
import gc
import os
import random
import sys
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType, FrameType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from .._core.tensor import Tensor
from ..nn import Module
from .ending import NAMED, NAMED_TWICE

OURS = {__name__.partition(".")[0], "numpy", "scipy", "ml_dtypes", "llvmlite", "cupy", "cupy_backends"}
KNOWN = (sys.stdlib_module_names | OURS) - {"__main__"}
_PACKAGE = vars(sys.modules[__name__.partition(".")[0]])  # which goes by the name of torch where it stands for it
STREAMS = (random.Random, np.random.Generator, np.random.RandomState)
ABSENT: Any = type("Absent", (), {})()  # the value of what there is not
_STORES = frozenset({"STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL"})
_LOADS = NAMED | {"LOAD_GLOBAL"}
_LOADS_LAST = NAMED_TWICE | {"STORE_FAST_LOAD_FAST"}
_SILENT = frozenset({"CACHE", "EXTENDED_ARG", "NOP"})
_MAKERS = frozenset({"__init__", "__new__", "__post_init__", "<module>"})  # what they write to is new
_IMPORTS = frozenset({"_find_and_load", "_find_spec"})  # that ask finders of the program, too
_OF_TENSORS = frozenset({"grad", "requires_grad"})  # what is compared of tensors that are around a call
_SETTERS = (object.__setattr__, Module.__setattr__)  # that do nothing but set
# Builtin functions that do what a replay would leave out, or tell what it would not see; and modules of such.
_EFFECTS = frozenset({print, input, open, setattr, delattr, exec, eval, globals})
_EFFECTIVE = frozenset({"time", "_random", "random", "posix", "nt", "_socket", "_thread", "_contextvars", "sys", "gc"})
# Parts of Python's library that compute, written in Python; what others do is not known.
_PURE = frozenset({
    "_collections_abc", "abc", "bisect", "builtins", "collections", "contextlib", "copy", "copyreg", "dataclasses",
    "decimal", "enum", "fractions", "functools", "genericpath", "heapq", "importlib", "inspect", "itertools", "keyword",
    "math", "numbers", "operator", "posixpath", "re", "reprlib", "statistics", "string", "types", "typing", "warnings",
    "weakref"})  # fmt: skip
OTHERS = sys.stdlib_module_names - _PURE - {"__main__"}
# Functions that read the environment, which is guarded.
_READS = frozenset([function.__code__ for function in (os.getenv, type(os.environ).__getitem__)])


class NotGuarded(Exception):
    """Why a call cannot be run again without Python."""


class Store(NamedTuple):
    """An attribute or a global that a line sets, and the names that lead to where: a variable, and attributes of it.

    There are none for a global; None stands for those that are not known.
    """

    name: str
    path: tuple[str, ...] | None


class Watched:
    """The functions of the program that ran in a block, and things they did that a replay would leave out."""

    def __init__(self) -> None:
        self.codes: dict[CodeType, dict[str, Any]] = {}  # with their globals
        self.stores: dict[CodeType, dict[int, list[Store]]] = {}  # what of that outlives a call may be set, by line
        self.made: dict[int, weakref.ref] = {}  # objects that were made in the block, by their ids
        # Others of which something was set: the object, or a scope, the name, what was there, and the function.
        self.set: dict[tuple[int, str], tuple[Any, str, Any, str]] = {}
        self.changed: list[weakref.ref] = []  # tensors whose gradients or flags were set
        self.refused: str | None = None
        self.importing = 0

    def calling(self, fn: Callable) -> Callable:
        """The function, watched while it runs, but not while what it recorded is planned and run."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return call

    def __enter__(self) -> "Watched":
        self.collects = gc.isenabled()
        gc.disable()  # what a collection runs, such as finalizers of others, is not the function's
        self.before, self.traces = sys.getprofile(), sys.gettrace() is None
        if self.traces:
            sys.settrace(self._called)
        sys.setprofile(self._event)
        return self

    def __exit__(self, *exception: object) -> None:
        if sys.getprofile() == self._event:  # and not one that the program began in between
            sys.setprofile(self.before)
        if sys.gettrace() == self._called:
            sys.settrace(None)
        if self.collects:
            gc.enable()
        self._look_back()

    def _called(self, frame: FrameType, event: str, argument: Any) -> Callable | None:
        """What sees the lines of functions that may set something."""
        code = frame.f_code
        if is_known(frame.f_globals) or code.co_name in _MAKERS or self.importing:
            return None
        if code not in self.stores:
            self.stores[code] = _stores_of(code)
        return self._at_line if self.stores[code] else None

    def _at_line(self, frame: FrameType, event: str, argument: Any) -> Callable:
        stores = self.stores[frame.f_code].get(frame.f_lineno, ()) if event == "line" else ()
        for store in stores:
            if self.refused is None and not self._noted(store, frame):
                self.refused = f"{frame.f_code.co_name} sets {store.name}"
        return self._at_line

    def _noted(self, store: Store, frame: FrameType) -> bool:
        """Whether it is known what a line is about to set, so that it can be seen whether it stays."""
        name, path = store
        if path is None:
            return False
        if not path:
            scope = frame.f_globals
            self.set.setdefault((id(scope), name), (scope, name, scope.get(name, ABSENT), frame.f_code.co_name))
            return True
        found = frame.f_locals.get(path[0], frame.f_globals.get(path[0], ABSENT))
        for part in path[1:]:
            found = getattr(found, "__dict__", {}).get(part, ABSENT)
        if self.is_new(found):
            return True
        if isinstance(found, Tensor) and name in _OF_TENSORS:
            self.changed.append(weakref.ref(found))
            return True
        if found is ABSENT or type(found).__setattr__ not in _SETTERS or isinstance(found, type):
            return False
        if hasattr(member := getattr(type(found), name, None), "__set__") and not isinstance(
            member, MemberDescriptorType
        ):
            return False  # a property, which may set anything
        self.set.setdefault((id(found), name), (found, name, getattr(found, name, ABSENT), frame.f_code.co_name))
        return True

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_name in _IMPORTS and event in ("call", "return"):  # which happen once
            self.importing += 1 if event == "call" else -1
        elif self.importing:
            return
        elif event == "call":
            if code.co_name == "__init__" and code.co_argcount:
                self._note_new(frame.f_locals.get(code.co_varnames[0]))
            if code not in self.codes and not is_known(frame.f_globals):
                self.codes[code] = frame.f_globals
            elif self.refused is None and _effective(frame):
                self.refused = f"{frame.f_back.f_code.co_name} calls {code.co_name}"  # type: ignore[union-attr]
        elif event == "c_call" and self.refused is None and not is_known(frame.f_globals) and _effect(argument):
            if code.co_name not in _MAKERS or argument not in (setattr, delattr):
                self.refused = f"{code.co_name} calls {argument.__name__}"

    def _note_new(self, own: Any) -> None:
        """Notes an object that is being made, if it can be known again without holding it."""
        with contextlib.suppress(TypeError):
            self.made[id(own)] = weakref.ref(own)

    def is_new(self, value: Any) -> bool:
        """Whether an object was made in the block."""
        known = self.made.get(id(value))
        return known is not None and known() is value

    def _look_back(self) -> None:
        """Refuses what stays set; what was set back is as it was."""
        for place, name, before, function in self.set.values():
            now = place.get(name, ABSENT) if place.__class__ is dict else getattr(place, name, ABSENT)
            same = now is before or now.__class__ is before.__class__ in (int, float, str) and now == before
            if not same and self.refused is None:
                self.refused = f"{function} sets {name}"
        self.set.clear()

    def check(self) -> None:
        """Refuses functions that change what outlives them."""
        if self.refused is not None:
            raise NotGuarded(self.refused)
        for code in self.codes if not self.traces else ():  # a debugger saw the lines
            for store in sum(_stores_of(code).values(), []) if code.co_name not in _MAKERS else ():
                raise NotGuarded(f"{code.co_name} sets {store.name}")


def _stores_of(code: CodeType) -> dict[int, list[Store]]:
    """The attributes, globals and variables of outer functions that a function sets, by line."""
    found: dict[int, list[Store]] = {}
    instructions = [one for one in dis.get_instructions(code) if one.opname not in _SILENT]
    for at, one in enumerate(instructions):
        outer = one.opname == "STORE_DEREF" and one.argval in code.co_freevars
        line = None if one.positions is None else one.positions.lineno
        if line is None or not outer and one.opname not in _STORES:
            continue
        path = () if one.opname.endswith("GLOBAL") else None if outer else _path_to(instructions[:at], one.argval, line)
        found.setdefault(line, []).append(Store(one.argval, path))
    return found


def _path_to(before: list[dis.Instruction], name: str, line: int) -> tuple[str, ...] | None:
    """The names of the object whose attribute is set after these instructions; None if they are not known.

    In `x.name += 1` the object is copied before the attribute is loaded.
    """
    names: list[str] = []
    if before and before[-1].opname == "SWAP":
        at = len(before) - 1
        while at and (before[at - 1].opname, before[at].opname, before[at].argval) != ("COPY", "LOAD_ATTR", name):
            at -= 1
        before = before[: max(at - 1, 0)]
    while before and before[-1].opname == "LOAD_ATTR":
        names.append(before.pop().argval)
    if not before or before[-1].opname not in _LOADS | _LOADS_LAST:
        return None
    last = before.pop()
    own = last.argval[-1] if last.opname in _LOADS_LAST else last.argval
    for one in (*before, last):  # a variable that the line sets is another one when it begins
        if one.opname.startswith("STORE_FAST") and one.positions is not None and one.positions.lineno == line:
            if own in (one.argval if one.argval.__class__ is tuple else (one.argval,)):
                return None
    return own, *reversed(names)


def _effect(function: Any) -> bool:
    """Whether a function of C does more than compute of its arguments."""
    own, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    return (name == "write" or own is datetime.datetime or own is datetime.date or isinstance(own, STREAMS)
            or own.__class__ is ContextVar and name != "get"
            or getattr(function, "__module__", None) in _EFFECTIVE
            or own.__class__ is ModuleType and function in _EFFECTS)  # fmt: skip


def _effective(frame: FrameType) -> bool:
    """Whether the program calls a function of Python's library that may do more than compute."""
    before = frame.f_back
    if frame.f_code in _READS:
        return False
    home = (frame.f_globals.get("__name__") or "").partition(".")[0]
    return home in OTHERS and before is not None and not is_known(before.f_globals)


def is_known(scope: dict[str, Any]) -> bool:
    """Whether code is of this library, below it or of Python's: what it does is known to stay inside a call."""
    name = (scope.get("__name__") or "").partition(".")[0]
    # Constructors of named tuples have a scope of their own.
    return name in KNOWN or scope is _PACKAGE or name.startswith("namedtuple_")


def home_of(kind: type) -> str:
    """The package that a class is of."""
    return (kind.__module__ or "").partition(".")[0]
