"""Functions that launch kernels, as the launches alone once the layouts of their arguments are known.

Such a function looks at shapes and types, makes arrays, views them as its kernels want them, and launches. For
arguments of one layout that comes out the same each time, so a plan (_ops/_declare/plans.py) watches it once and writes
down what is left: allocations, views, calls of machine code. This is for functions marked with `repeats`, which look
at no element, and get what they launch kernels on from their arguments and from the functions below.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...._core.offers import new_or_taken, offers, taken, withdraw
from ...._core.planning import Unplannable
from . import calls

_recording: "_Recording | None" = None
_lock = threading.Lock()
_TRIES = 8


def _told(made: np.ndarray, maker: str) -> np.ndarray:
    recording = _recording
    if recording is not None:
        recording.allocated(made, maker)
    return made


def empty(shape: int | Sequence[int], kind: Any) -> np.ndarray:
    """An array for kernels to fill: a new one, or what was offered for the result."""
    return _told(new_or_taken(shape, kind), "empty")


def apart(shape: int | Sequence[int], kind: Any) -> np.ndarray:
    """An array for kernels to fill that is never what was offered: of what lies in another order than the result."""
    made = np.empty(shape, kind)
    recording = _recording
    if recording is not None:
        recording.allocated(made, "empty", takes=False)
    return made


def zeros(shape: int | Sequence[int], kind: Any) -> np.ndarray:
    """As `empty`, of zeros."""
    made = taken(shape, kind) if offers else None
    if made is None:
        made = np.zeros(shape, kind)
    else:
        made.fill(0)
    return _told(made, "zeros")


def flag(index: np.ndarray | None = None, size: int = 0) -> np.ndarray:
    """A number that a kernel sets where something is wrong: then nothing may come of the call.

    It is asked for before the result's array, which is a new one for that reason; but if all that can be wrong is that
    an `index` is not below a size, and there are few of these, they are looked at where memory is offered.
    """
    if offers and (index is None or not _is_within(index, size)):
        withdraw()
    made = np.zeros(1, np.int64)
    recording = _recording
    if recording is not None:
        recording.flagged(made, index, size)
    return made


def _is_within(index: np.ndarray, size: int) -> bool:
    return bool(index.min() >= 0 and index.max() < size)


def duplicate(array: np.ndarray) -> np.ndarray:
    """A copy of an array that kernels may write to, until all is known to go well."""
    made = array.copy()
    recording = _recording
    if recording is not None:
        recording.duplicated(made, array)
    return made


def store(target: np.ndarray, source: np.ndarray) -> None:
    """Writes one array into another."""
    target[...] = source
    recording = _recording
    if recording is not None:
        recording.stored(target, source)


def table(array: np.ndarray) -> np.ndarray:
    """An array that was made of shapes and numbers alone."""
    recording = _recording
    if recording is not None:
        recording.kept(array)
    return array


def repeats(function: Callable) -> Callable:
    """Marks a function that is the same launches for arguments of one layout."""
    function.repeated = functools.partial(_Repeated, function)  # type: ignore[attr-defined]
    return function


class _Recording:
    """What one thread's function does, as lines of a function of the same arguments."""

    def __init__(self, args: Sequence[Any]) -> None:
        self.thread, self.failed = threading.get_ident(), False
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {"__name__": __name__, "ndarray": np.ndarray, "new_empty": np.empty,
                                      "new_zeros": np.zeros, "offers": offers, "empty": new_or_taken, "zeros": zeros,
                                      "is_within": _is_within, "withdraw": withdraw}
        self.names: dict[int, str] = {}  # by id, of arrays in `alive`
        self.alive: list[np.ndarray] = []
        self.flags: set[str] = set()
        self.withheld = False  # whether what is offered must not be taken
        self.shared: set[int] = set()  # ids of arguments in whose memory others lie, too
        self.twice: set[int] = set()  # ids of arrays that are two arguments at once
        self.ambiguous = False  # whether something of either was seen: the next call's arguments may lie apart
        for i, value in enumerate(args):
            if value.__class__ is list:
                for k, item in enumerate(value):
                    self._given(item, f"a{i}[{k}]")
            else:
                self._given(value, f"a{i}")

    def _given(self, value: Any, name: str) -> None:
        if value.__class__ is np.ndarray:
            if id(value) in self.names:
                self.twice.add(id(value))
            others = [other for other in self.alive if np.may_share_memory(value, other)]
            self.shared.update(map(id, [value, *others] if others else ()))
            self._named(value, name)

    def _named(self, array: np.ndarray, name: str) -> str:
        self.alive.append(array)
        self.names[id(array)] = name
        return name

    def _constant(self, value: Any) -> str:
        if value.__class__ in (int, bool):
            return repr(value)
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def allocated(self, array: np.ndarray, maker: str, *, takes: bool = True) -> None:
        if self.thread != threading.get_ident():
            return
        name = self._named(array, f"m{len(self.alive)}")
        call = f"{maker}({self._constant(array.shape)}, {self._constant(array.dtype)})"
        # By NumPy alone where nothing is offered, or must not be taken.
        never = self.withheld or not takes
        self.lines.append(f"{name} = new_{call}" if never else f"{name} = {call} if offers else new_{call}")

    def flagged(self, array: np.ndarray, index: np.ndarray | None, size: int) -> None:
        if self.thread != threading.get_ident():
            return
        if index is None:
            self.withheld = True
        else:
            self.lines.append(f"if offers and not is_within({self._found(index)}, {size}): withdraw()")
        name = self._named(array, f"m{len(self.alive)}")
        self.flags.add(name)
        self.lines.append(f"{name} = new_zeros(1, {self._constant(array.dtype)})")

    def duplicated(self, array: np.ndarray, source: np.ndarray) -> None:
        if self.thread == threading.get_ident():
            given = self._found(source)
            self.lines.append(f"{self._named(array, f'm{len(self.alive)}')} = {given}.copy()")

    def stored(self, target: np.ndarray, source: np.ndarray) -> None:
        if self.thread == threading.get_ident():
            self.lines.append(f"{self._found(target)}[...] = {self._found(source)}")

    def kept(self, array: np.ndarray) -> None:
        if self.thread == threading.get_ident() and id(array) not in self.names:
            self._named(array, self._constant(array))

    def launched(self, call: Callable, args: Sequence[Any]) -> None:
        if self.thread != threading.get_ident():
            return
        given = [self._found(a) for a in args]
        self.lines.append(f"if not {self._constant(call)}({', '.join(given)}): return None")
        self.lines += [f"if {name}[0]: return None" for name in given if name in self.flags]

    def _found(self, value: Any) -> str:
        """The expression; nothing is raised in the middle of a function that may have written something."""
        try:
            return self._expression(value)
        except Unplannable:
            self.failed = True
            return "None"

    def _expression(self, value: Any) -> str:
        if value.__class__ is not np.ndarray:
            if isinstance(value, np.ndarray):  # whose elements NumPy's loops make (shared.py)
                raise Unplannable
            return self._constant(value)
        known = self.names.get(id(value))
        if known is not None:
            self.ambiguous = self.ambiguous or id(value) in self.twice
            return known
        if not value.size:
            return self._constant(value)
        name = f"v{len(self.alive)}"
        self.lines.append(f"{name} = {self._view(value)}")
        return self._named(value, name)

    def _view(self, array: np.ndarray) -> str:
        address = array.ctypes.data
        for owner in self.alive:
            first = owner.ctypes.data
            if owner.flags.c_contiguous and owner.dtype.isbuiltin == 1 and first <= address < first + owner.nbytes:
                if id(owner) in self.shared:
                    self.ambiguous = True
                    break
                name = self.names[id(owner)]
                if array.flags.c_contiguous and array.size == owner.size and array.dtype == owner.dtype:
                    return f"{name}.reshape({self._constant(array.shape)})"
                geometry = array.shape, array.dtype
                shape, kind, strides = map(self._constant, (*geometry, array.strides))
                return f"ndarray({shape}, {kind}, {name}, {address - first}, {strides})"
            if first == address and array.flags.c_contiguous and array.size == owner.size:
                order = sorted(range(owner.ndim), key=lambda d: -owner.strides[d])
                if array.dtype == owner.dtype and owner.transpose(order).flags.c_contiguous:
                    if id(owner) in self.shared:
                        self.ambiguous = True
                        break
                    return f"{self.names[id(owner)]}.transpose({order}).reshape({self._constant(array.shape)})"
        raise Unplannable

    def function(self, made: Any, count: int) -> Callable:
        """What does the same again, and returns the same as `made` was."""
        if made.__class__ in (tuple, list):
            returned = "(" + "".join(f"{'None' if m is None else self._expression(m)}, " for m in made) + ")"
        else:
            returned = self._expression(made)
        names = ", ".join(f"a{i}" for i in range(count))
        body = "\n    ".join([*self.lines, f"return {returned}"])
        exec(f"def repeated({names}):\n    {body}\n", self.scope)
        return self.scope["repeated"]


class _Repeated(list):
    """Holds what serves the calls of one layout: the function itself until it was watched, then its launches alone."""

    def __init__(self, function: Callable, spec: Any) -> None:
        options = {} if spec is None else {"spec": spec}
        plain = functools.partial(function, **options)
        tries = _TRIES

        def watched(*args: Any) -> Any:
            nonlocal tries
            if not _lock.acquire(blocking=False):
                return plain(*args)
            try:
                made, run = _recorded(plain, args)
            finally:
                _lock.release()
            tries -= made is not None and run is None
            self[0] = run or (watched if tries else plain)
            return made

        def first(*args: Any) -> Any:
            made = plain(*args)
            if made is not None and self[0] is first:  # there is machine code
                self[0] = watched
            return made

        super().__init__((first,))


def _recorded(plain: Callable, args: Sequence[Any]) -> tuple[Any, Callable | None]:
    """What a function gives, and what does the same again: itself if it cannot be repeated.

    None if it did nothing, or if the next call may tell more.
    """
    global _recording
    recording = _recording = _Recording(args)
    calls.watcher = recording.launched
    try:
        made = plain(*args)
    finally:
        _recording = calls.watcher = None
    run: Callable | None = plain
    if made is not None and not recording.failed:
        try:
            run = recording.function(made, len(args))
        except Unplannable:
            run = plain
    return made, None if made is None or recording.ambiguous else run
