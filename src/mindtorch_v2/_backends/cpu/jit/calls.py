"""Kernels of the language, compiled for the arrays of a call when it is worth it.

Until a kernel is compiled, and where it cannot be, callers compute with NumPy. Compiling begins in the background once
a kernel was wanted often, or for much; large arrays wait for it.
"""

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core import settled
from ...._kernels import ir, llvm, llvm_lists
from ...._kernels.language import flat, kernel
from ...._kernels.reader import read
from . import machine, pages

_AT_ONCE = os.environ.get("MINDTORCH_JIT") == "now"  # compile before the first call, as tests want it
_OFTEN, _MUCH = 8, 1 << 17  # calls, and elements in all, after which compiling begins in the background
DUE, _DUE_ELEMENTS = 32, 1 << 21  # calls, and elements in all, with which machine code takes over
_DUE_SOON = 8  # calls, where many operators run in the place of the kernel; compiling begins with the first
DUE_LATER = 100  # calls, where NumPy has a loop of its own, so that there is less to gain
_LARGE = 1 << 19  # elements of one call that is worth waiting for the compiler

_LIBRARY, _PLAIN = llvm.__package__ + ".", frozenset((bool, int, float, str))

Call = Callable[..., Any]


class Code:
    """What may become machine code: `call` is None until then.

    It takes over at a call that depends on the calls before it and nothing else, so that a program computes the same
    digits each time it runs; if the compiler is not done by then, the call waits.
    """

    __slots__ = ("_begun", "_due", "_elements", "_known_as", "_make", "_ready", "_wanted", "call")

    def __init__(self, make: Callable[[], str] | None, known_as: Callable[[], str | None] | None = None, *,
                 due: int = DUE) -> None:
        """`make` gives the IR of a module with a function `entry`; None for what cannot be compiled."""
        self.call: Call | None = None
        self._ready: Call | None = None
        self._make, self._known_as, self._wanted, self._elements = make, known_as, 0, 0
        self._begun, self._due = False, due

    def wanted(self, elements: int) -> Call | None:
        """The machine code if there is some; else notes that a call of so many elements would have used it."""
        if self.call is not None or self._make is None:
            return self.call
        self._wanted += 1
        self._elements += elements
        most = _MUCH if self._due <= _DUE_SOON else _DUE_ELEMENTS
        if _AT_ONCE or self._wanted >= self._due or self._elements >= most or elements >= _LARGE:
            self._take_over()
        elif not self._begun and (self._wanted >= _OFTEN or self._elements >= _MUCH or self._due <= _DUE_SOON):
            self._begun = True
            if machine.available():
                machine.load_in_background(self._make, ["entry"], self._done, self._known_as, self._is_needed)
        return self.call

    def _take_over(self) -> None:
        if settled.is_settled() and not _AT_ONCE or self._make is None:
            return
        if self._ready is None and machine.available():
            try:
                self._done(machine.load(self._make, ["entry"], known_as=self._known_as))
            except Exception as error:
                if _AT_ONCE:
                    raise
                machine.warn_of(error)
        self.call, self._make = self._ready, None
        if self.call is not None:
            pages.align_large_arrays()

    def _is_needed(self) -> bool:
        return self._ready is None

    def _done(self, addresses: dict[str, int]) -> None:
        self._ready = machine.callable_from(addresses["entry"], "kernel")


_codes: dict[tuple, Code] = {}
_ready: dict[Any, list[Call]] = {}  # machine code by kernel and constants, for arrays of whatever kinds there were


_hurried: set[kernel] = set()
watcher: Callable[[Call, tuple], None] | None = None  # told of each launch: (machine code, arguments)


def hurry(*kernels: kernel) -> None:
    """Has machine code of these take over soon, since what runs in their place takes many times as long."""
    _hurried.update(kernels)


_begun = 0


def finishing(elements: int) -> None:
    """Has launches count as of so many elements at least: they finish what another has begun. 0 ends it."""
    global _begun
    _begun = elements


def launched(written: kernel, *args: Any, **constants: Any) -> bool:
    """Runs a kernel on arrays and then numbers; False, with nothing done, where there is no machine code for it yet."""
    for call in _ready.get((written, *constants.values()) if constants else written, ()):
        if call(*args):
            if watcher is not None:
                _tell(call, args)
            return True
    return _wanted(written, args, constants)


def _tell(call: Call, args: tuple) -> None:
    told = watcher
    if told is not None:  # still
        told(call, args)


def prepared(written: kernel, **constants: Any) -> Callable[..., bool]:
    """`launched` for a kernel with its constants, without looking it up in each call."""
    calls = _ready.setdefault((written, *constants.values()) if constants else written, [])

    def launch(*args: Any) -> bool:
        for call in calls:
            if call(*args):
                if watcher is not None:
                    _tell(call, args)
                return True
        return _wanted(written, args, constants)

    return launch


def prepared_over_lists(written: kernel, *numbers: float, **constants: Any) -> Callable[..., bool]:
    """Launches a kernel on all places of lists of arrays at once; False, with nothing done, where that cannot be.

    The arrays lie row by row; how many elements they have, and these numbers, follow them. Those of a place lie apart.
    """
    calls = _ready.setdefault((llvm_lists, written, *constants.values()), [])

    def launch(*lists: list) -> bool:
        for call in calls:
            if call(*lists, *numbers):
                return True
        return _wanted_over_lists(written, lists, numbers, constants)

    return launch


def _wanted_over_lists(
    written: kernel, lists: Sequence[list], numbers: Sequence[float], constants: dict[str, Any]
) -> bool:
    if not machine.available() or not lists[0]:
        return False
    arrays = [held[0] for held in lists]
    if any(a.__class__ is not np.ndarray or not a.flags.c_contiguous or not a.flags.aligned for a in arrays):
        return False
    key = (llvm_lists, written, *[a.dtype for a in arrays], *constants.values())
    code = _codes.get(key)
    if code is None:
        code = _codes[key] = Code(*_maker(written, arrays, constants, llvm_lists.module_over_lists), due=_DUE_SOON)
    call = code.wanted(sum([a.size for a in lists[0]]))
    if call is None:
        return False
    calls = _ready[llvm_lists, written, *constants.values()]
    if call not in calls:
        calls.insert(0, call)
    return call(*lists, *numbers)


def prepared_by_name(name: str, hurried: bool, **constants: Any) -> Callable[..., bool]:
    """The same for a kernel of the library that is named, such as "random.below"."""
    module, _, function = name.partition(".")
    written = getattr(importlib.import_module(f"{_LIBRARY}library.{module}"), function)
    if hurried:
        hurry(written)
    return prepared(written, **constants)


def note(written: kernel, *args: Any, **constants: Any) -> None:
    """Notes that a kernel would have been launched, had the one before it been: so they get ready together."""
    _call_for(written, args, constants)


def _call_for(written: kernel, args: tuple, constants: dict[str, Any]) -> Call | None:
    """The machine code for such arguments, if there is some."""
    if not machine.available():
        return None
    arrays = [a for a in args if a.__class__ is np.ndarray]
    key = (written, *[(a.dtype, a.ndim, _layout(a), a.flags.aligned) for a in arrays], *constants.values())
    code = _codes.get(key)
    if code is None:
        due = _DUE_SOON if written in _hurried else DUE
        code = _codes[key] = Code(*_maker(written, arrays, constants), due=due)
    return code.wanted(max([_begun, *(a.size for a in arrays)]))


def _wanted(written: kernel, args: tuple, constants: dict[str, Any]) -> bool:
    call = _call_for(written, args, constants)
    if call is None:
        return False
    calls = _ready.setdefault((written, *constants.values()) if constants else written, [])
    if call not in calls:
        calls.insert(0, call)
    done = call(*args)
    if done:
        _tell(call, args)
    return done


def _maker(
    written: kernel,
    arrays: Sequence[np.ndarray],
    constants: dict[str, Any],
    module_of: Callable[[ir.Kernel], str] = llvm.module_of,
) -> tuple[Callable[[], str] | None, Callable[[], str | None] | None]:
    """What gives the kernel's IR for such arrays, None where they are of kinds that kernels do not know; its name."""
    code, annotated = written.function.__code__, written.function.__annotations__
    names = code.co_varnames[: code.co_argcount]
    given: dict[str, tuple[str, int, str]] = {}
    for name, array in zip(names, arrays, strict=False):
        kind = ir.type_of(array.dtype)
        if kind is None or not array.flags.aligned:
            return None, None
        if annotated.get(name) is flat:
            if not array.flags.c_contiguous:
                return None, None
            given[name] = (kind, 1, "flat")
        else:
            given[name] = (kind, array.ndim, _layout(array))
    numbers = {name: "f64" if annotated.get(name) is float else "i64" for name in names[len(arrays) :]}

    def known_as() -> str | None:
        parts = [machine.sources(), _told(written), *map(_told, constants.values())]
        return None if None in parts else f"{module_of.__name__} {parts} {given} {numbers} {list(constants)}"

    return lambda: module_of(read(written, given, numbers, constants)), known_as


def _layout(array: np.ndarray) -> str:
    """How an array lies, as `ir.Array` calls it."""
    if array.flags.c_contiguous:
        return "c"
    return "r" if array.strides[-1] == array.itemsize else "x"


def _told(value: Any) -> str | None:
    """A text that only this constant, or this function of the library, has; None for what has none."""
    if value is None or value.__class__ in _PLAIN:
        return repr(value)
    written = getattr(value, "function", None)
    if written is None or not written.__module__.startswith(_LIBRARY) or written.__closure__:
        return None
    return f"{written.__module__}.{written.__qualname__}"
